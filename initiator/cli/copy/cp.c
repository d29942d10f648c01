/* SPDX-License-Identifier: BSD-3-Clause */
/* The verb cp: opens and checks source and destination before the first byte is copied, and
 * reports the result. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "copy.h"

#define CP_MEMORY (8u << 20)
/* A copy resumes at a multiple of this, which is a multiple of every block size. */
#define CP_RESUME_ALIGN (64u << 10)

struct cp_copy {
	const struct cli_options *o;
	enum cli_cp_sparse sparse;
	bool verify, flush, resumed;
	uint64_t start;
	uint64_t ns; /* duration of the copy without the verification */
	struct cli_cp_status st;
	struct rdinit_dev_opts dev;
	struct cli_cp_run run;
};

/* ---- options ---- */

static int cp_get_options(struct cp_copy *c)
{
	const struct cli_options *o = c->o;

	if (o->n_operands != 2)
		return cli_usage_error(
			"%d operand%s instead of 2: write rdinit cp SRC DST, where each is a URI "
			"(nvme+rdma://HOST[:PORT]/SUBNQN[/NSID], or nvme+tcp://), a path, or - for "
			"standard input "
			"or output%s",
			o->n_operands, o->n_operands == 1 ? "" : "s",
			o->n_operands > 2 ? "; give several paths to one namespace as URIs "
					    "separated by commas, without spaces"
					  : "");
	if (cli_given(o, CLI_ARG_FLUSH) && cli_given(o, CLI_ARG_NO_FLUSH))
		return cli_usage_error("--flush and --no-flush are mutually exclusive");
	c->flush = !cli_given(o, CLI_ARG_NO_FLUSH);
	c->verify = cli_given(o, CLI_ARG_VERIFY);
	c->run.journal = cli_given(o, CLI_ARG_RESUME) ? o->arg[CLI_ARG_RESUME].text : NULL;
	if (c->run.journal && !c->run.journal[0])
		return cli_usage_error("--resume: the name of the journal is empty; give a file, "
				       "which need not exist");
	c->run.progress_fd = (int)cli_num(o, CLI_ARG_PROGRESS, UINT64_MAX);
	if (c->run.progress_fd >= 0 && fcntl(c->run.progress_fd, F_GETFL) < 0)
		return cli_usage_error("--progress: descriptor %d is not open; a shell opens it "
				       "with %d>FILE",
				       c->run.progress_fd, c->run.progress_fd);
	c->sparse = (enum cli_cp_sparse)cli_num(o, CLI_ARG_SPARSE, CLI_CP_AUTO);
	return cli_cp_ns_options(o, &c->dev);
}

/* ---- both ends ---- */

static int cp_open_end(const struct cli_cp_open *how, const char *name, struct cli_cp_end **out)
{
	if (strcmp(name, "-") == 0)
		return how->write
			       ? cli_cp_pipe_open("standard output", STDOUT_FILENO, UINT64_MAX, out)
			       : cli_cp_pipe_open("standard input", STDIN_FILENO, UINT64_MAX, out);
	if (strstr(name, "://"))
		return cli_cp_ns_open(how, name, out);
	return cli_cp_file_open(how, name, out);
}

static int cp_open_both(struct cp_copy *c)
{
	struct cli_cp_open how = {
		.o = c->o, .dev = &c->dev, .again = c->verify, .progress = &c->run.progress};
	int rc = cp_open_end(&how, c->o->operands[0], &c->run.src);

	if (rc)
		return rc;
	how.write = true;
	return cp_open_end(&how, c->o->operands[1], &c->run.dst);
}

static json_t *cp_identity(const struct cli_cp_end *end)
{
	return end->ops->identity ? end->ops->identity(end) : NULL;
}

/* Checks source and destination; nothing has been changed yet. */
static int cp_check_ends(struct cp_copy *c)
{
	const struct cli_cp_end *src = c->run.src, *dst = c->run.dst;
	const struct cli_cp_end *stream = src->can_read_again ? dst : src;

	if (src->size != CLI_CP_UNKNOWN && dst->size != CLI_CP_UNKNOWN && src->size > dst->size)
		return cli_error("%s has %llu bytes and %s only %llu: it does not fit; nothing was "
				 "written",
				 src->name, (unsigned long long)src->size, dst->name,
				 (unsigned long long)dst->size);
	if (c->run.src_id && c->run.dst_id &&
	    json_equal(json_object_get(c->run.src_id, "kind"),
		       json_object_get(c->run.dst_id, "kind")) &&
	    json_equal(json_object_get(c->run.src_id, "id"), json_object_get(c->run.dst_id, "id")))
		return cli_error("%s and %s are the same %s; nothing was written", src->name,
				 dst->name,
				 json_string_value(json_object_get(c->run.src_id, "kind")));
	if (stream->can_read_again)
		return CLI_OK;
	if (c->verify)
		return cli_usage_error("--verify: %s cannot be read a second time; copy to or from "
				       "a file, a block device or a namespace",
				       stream->name);
	if (c->run.journal)
		return cli_usage_error(
			"--resume: a copy of %s cannot be continued; copy to or from "
			"a file, a block device or a namespace",
			stream->name);
	return CLI_OK;
}

/* ---- the journal ---- */

static int cp_read_journal(struct cp_copy *c)
{
	char why[CLI_CP_JOURNAL_WHY];
	json_t *journal;
	int rc;

	if (!c->run.journal)
		return CLI_OK;
	rc = cli_cp_journal_load(c->run.journal, &journal);
	if (rc == -ENOENT)
		return CLI_OK;
	if (rc)
		return CLI_FAILED;
	rc = cli_cp_journal_check(journal, c->run.src_id, c->run.dst_id, c->run.src->size,
				  &c->start, why);
	json_decref(journal);
	if (rc)
		return cli_error("--resume: %s is not the journal of this copy: %s; remove it to "
				 "copy from the beginning",
				 c->run.journal, why);
	c->start -= c->start % CP_RESUME_ALIGN;
	c->resumed = true;
	if (c->o->verbose)
		fprintf(stderr, "rdinit: the copy continues at byte %llu of %llu\n",
			(unsigned long long)c->start, (unsigned long long)c->run.src->size);
	return CLI_OK;
}

/* From here on the destination is modified, and a copy that ends early can be resumed. */
static int cp_begin(struct cp_copy *c)
{
	struct cli_cp_end *dst = c->run.dst;
	json_t *journal;
	int rc = CLI_OK;

	/* Before the destination loses its content: the file may be in a wrong folder. */
	if (c->run.journal && !c->resumed) {
		journal = cli_cp_journal_make(c->run.src_id, c->run.dst_id, 0);
		if (!journal || cli_cp_journal_save(c->run.journal, journal))
			rc = CLI_FAILED;
		json_decref(journal);
	}
	if (!rc && dst->ops->begin)
		rc = dst->ops->begin(dst, c->run.src->size, c->start == 0);
	return rc;
}

/* ---- running ---- */

static int cp_new_engine(struct cp_copy *c, bool compare)
{
	struct cli_cp_job job = {
		.src = c->run.src,
		.dst = c->run.dst,
		.start = compare ? 0 : c->start,
		.sparse = c->sparse,
		.compare = compare,
		.memory = CP_MEMORY,
		.stable = compare ? NULL : cli_cp_run_stable,
		.user = &c->run,
	};
	int rc = cli_cp_engine_new(&job, &c->run.engine);

	if (rc == -EMSGSIZE)
		return cli_error("%s transfers less in one command than a block of %s",
				 job.src->max_io < job.dst->align ? job.src->name : job.dst->name,
				 job.src->max_io < job.dst->align ? job.dst->name : job.src->name);
	return rc ? cli_error("out of memory") : CLI_OK;
}

/* One pass over the whole source. Returns CLI_OK, or CLI_FAILED after printing why. */
static int cp_pass(struct cp_copy *c, const char *phase)
{
	bool moves = strcmp(phase, "flush") != 0; /* a flush transfers no data of its own */

	cli_progress_start(&c->run.progress, moves && !cli_given(c->o, CLI_ARG_NO_PROGRESS),
			   c->run.src->size == CLI_CP_UNKNOWN ? 0 : c->run.src->size);
	cli_cp_run_engine(&c->run, phase);
	cli_cp_engine_status(c->run.engine, &c->st);
	if (!c->st.err) {
		cli_progress_end(&c->run.progress, c->st.done);
		return CLI_OK;
	}
	cli_progress_clear(&c->run.progress);
	return c->st.text[0] ? cli_error("%s", c->st.text) : CLI_FAILED;
}

/* After a failure: prints how much is on stable storage, and how to resume. */
static void cp_say_complete(struct cp_copy *c)
{
	const char *dst = c->run.dst->name;
	unsigned long long n = c->st.complete;

	if (!n) {
		cli_error("no part of the copy is complete in %s", dst);
		return;
	}
	if (!c->run.dst->can_read_again) {
		cli_error("the first %llu bytes were written to %s", n, dst);
		return;
	}
	/* No flush after an interrupt, because it could take long. */
	if (c->st.complete > c->st.stable && !c->run.interrupt.signo) {
		cli_cp_engine_flush(c->run.engine);
		cli_cp_run_engine(&c->run, "flush");
		cli_cp_engine_status(c->run.engine, &c->st);
	}
	if (c->st.stable)
		cli_error("the first %llu bytes are complete and on stable storage in %s%s",
			  (unsigned long long)c->st.stable, dst,
			  !c->run.journal         ? ""
			  : c->run.journal_failed ? "; the same command continues where the "
						    "journal was last saved, which is earlier"
						  : "; the same command continues there");
	if (c->st.stable < n)
		cli_error("the first %llu bytes are written to %s but not flushed", n, dst);
}

static int cp_copy_all(struct cp_copy *c)
{
	struct cli_cp_end *dst = c->run.dst;
	uint64_t start = cli_now_ns();
	int rc = cp_new_engine(c, false);

	if (rc)
		return rc;
	rc = cp_pass(c, "copy");
	if (!rc && dst->ops->finish)
		rc = dst->ops->finish(dst, c->st.size);
	if (!rc && c->flush) {
		cli_cp_engine_flush(c->run.engine);
		rc = cp_pass(c, "flush");
	}
	c->ns = cli_now_ns() - start;
	if (rc)
		cp_say_complete(c);
	return rc;
}

/* If a source file was written to during the copy, the copy mixes old and new content. */
static int cp_check_source(const struct cp_copy *c)
{
	json_t *now = cp_identity(c->run.src);
	bool same = json_equal(now, c->run.src_id) || (!now && !c->run.src_id);

	json_decref(now);
	if (same)
		return CLI_OK;
	if (c->run.journal)
		unlink(c->run.journal);
	return cli_error("%s was changed while it was copied: %s has parts of both contents; copy "
			 "it again",
			 c->run.src->name, c->run.dst->name);
}

static int cp_verify(struct cp_copy *c)
{
	struct cli_cp_status copied = c->st;
	int rc;

	cli_cp_engine_free(c->run.engine);
	c->run.engine = NULL;
	rc = cp_new_engine(c, true);
	if (!rc)
		rc = cp_pass(c, "verify");
	if (rc && c->st.err == -EBADMSG)
		cli_error("the copy is not equal to its source: one of them changed during the "
			  "copy, or its storage is faulty");
	if (c->run.journal && (!rc || c->st.err == -EBADMSG))
		unlink(c->run.journal);
	c->st = copied;
	return rc;
}

static int cp_summary(const struct cp_copy *c)
{
	const struct cli_cp_status *st = &c->st;
	double secs = (double)c->ns / 1e9;
	uint64_t bytes = st->done - c->start;
	double mib = secs > 0 ? (double)bytes / 1048576.0 / secs : 0;
	/* Not on standard output if the data goes there. */
	FILE *out = strcmp(c->o->operands[1], "-") == 0 ? stderr : stdout;

	if (c->o->format == CLI_JSON)
		return cli_print_json(json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:f, "
						"s:b, s:b}",
						"operation", "cp", "source", c->o->operands[0],
						"destination", c->o->operands[1], "start",
						(json_int_t)c->start, "bytes", (json_int_t)bytes,
						"hole_bytes", (json_int_t)st->holes, "commands",
						(json_int_t)st->commands, "seconds", secs,
						"mib_per_second", mib, "flushed", c->flush,
						"verified", c->verify),
				      out);
	if (c->o->verbose)
		fprintf(stderr,
			"rdinit: %llu bytes, %llu of them in holes, in %.3f s, %.1f MiB/s%s\n",
			(unsigned long long)bytes, (unsigned long long)st->holes, secs, mib,
			c->verify ? ", verified" : "");
	return CLI_OK;
}

static int cp_run(struct cp_copy *c)
{
	int rc = cp_open_both(c);

	if (rc)
		return rc;
	c->run.src_id = cp_identity(c->run.src);
	c->run.dst_id = cp_identity(c->run.dst);
	rc = cp_check_ends(c);
	if (!rc)
		rc = cp_read_journal(c);
	if (!rc)
		rc = cp_begin(c);
	if (rc)
		return rc;
	cli_signals_start(&c->run.interrupt);
	rc = cp_copy_all(c);
	if (!rc)
		rc = cp_check_source(c);
	if (!rc && c->verify)
		rc = cp_verify(c);
	else if (!rc && c->run.journal)
		unlink(c->run.journal);
	cli_signals_end(&c->run.interrupt);
	return rc ? rc : cp_summary(c);
}

int cli_cp(const struct cli_options *o)
{
	struct cp_copy c = {.o = o, .run = {.interrupt = {.fd = -1}}};
	int rc = cp_get_options(&c);

	if (!rc)
		rc = cp_run(&c);
	if (c.run.src)
		c.run.src->ops->close(c.run.src);
	if (c.run.dst)
		c.run.dst->ops->close(c.run.dst);
	cli_cp_engine_free(c.run.engine);
	json_decref(c.run.src_id);
	json_decref(c.run.dst_id);
	cli_signals_die(&c.run.interrupt);
	return rc;
}
