/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs read, write and flush: determines the byte range and the file, and checks both
 * before the first command. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "copy/copy.h"

#define IO_MEMORY (32u << 20) /* bytes for all pieces in flight */

/* A run of `read` or `write`. Positions are bytes of the namespace. */
struct transfer {
	struct cli_session s;
	bool write;
	uint64_t start;
	uint64_t length; /* UINT64_MAX: until the end of the input (write) */
	uint64_t limit;  /* bytes from start to the end of the namespace */
	bool exact;      /* an input shorter than length is an error */
	uint64_t ios;    /* number of commands */
	struct cli_cp_run run;
	struct cli_cp_status st; /* counts from the beginning of the namespace */
};

/* The file of a transfer. */
struct file {
	int fd;
	const char *name;
	bool own;     /* opened by us */
	bool regular; /* seekable, and never blocks */
	bool has_size;
	uint64_t start; /* current position */
	uint64_t size;  /* bytes from there to the end */
};

static int inspect(struct file *f, bool write)
{
	struct stat st;
	off_t at, end;

	if (fstat(f->fd, &st))
		return cli_error("%s: %s", f->name, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return cli_error("%s: %s", f->name, strerror(EISDIR));
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return CLI_OK;
	/* A file opened for appending ignores positions, so it is treated as a stream. */
	if (!write && (fcntl(f->fd, F_GETFL) & O_APPEND))
		return CLI_OK;
	at = lseek(f->fd, 0, SEEK_CUR);
	end = S_ISREG(st.st_mode) ? st.st_size : lseek(f->fd, 0, SEEK_END);
	if (at < 0 || end < 0 || lseek(f->fd, at, SEEK_SET) < 0)
		return CLI_OK;
	f->regular = true;
	f->has_size = true;
	f->start = (uint64_t)at;
	f->size = end > at ? (uint64_t)(end - at) : 0;
	return CLI_OK;
}

/* Opens the input of a write, or the output of a read. */
static int open_file(struct file *f, const char *name, bool write)
{
	*f = write ? (struct file){.fd = STDIN_FILENO, .name = "standard input"}
		   : (struct file){.fd = STDOUT_FILENO, .name = "standard output"};
	if (!cli_is_std(name)) {
		f->name = name;
		f->fd = open(name, O_CLOEXEC | (write ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC),
			     0666);
		if (f->fd < 0)
			return cli_error("%s: %s", name, strerror(errno));
		f->own = true;
	}
	return inspect(f, write);
}

/* Returns CLI_FAILED when the file system reports an error only at close. */
static int close_file(struct file *f)
{
	int fd = f->fd;

	if (!f->own)
		return CLI_OK;
	f->own = false;
	return close(fd) ? cli_error("%s: %s", f->name, strerror(errno)) : CLI_OK;
}

/* Sets the start of the range and the requested length (UINT64_MAX: not given). */
static int range(const struct cli_options *o, const struct rdinit_ns *ns, struct transfer *t)
{
	uint64_t size;

	if (__builtin_mul_overflow(ns->blocks, (uint64_t)ns->block_size, &size))
		return cli_error("namespace %u is larger than 2^64 bytes", ns->nsid);
	t->start = cli_num(o, CLI_ARG_OFFSET, 0);
	if (cli_given(o, CLI_ARG_START) &&
	    __builtin_mul_overflow(o->arg[CLI_ARG_START].n, (uint64_t)ns->block_size, &t->start))
		t->start = UINT64_MAX;
	if (t->start > size || (t->start == size && !t->write))
		return cli_error(
			"the start, byte %llu, is beyond the end of namespace %u (%llu blocks "
			"of %u bytes)",
			(unsigned long long)t->start, ns->nsid, (unsigned long long)ns->blocks,
			ns->block_size);
	t->limit = size - t->start;
	t->length = UINT64_MAX;
	if (cli_given(o, CLI_ARG_COUNT) &&
	    __builtin_mul_overflow(o->arg[CLI_ARG_COUNT].n + 1, (uint64_t)ns->block_size,
				   &t->length))
		t->length = UINT64_MAX - 1;
	/* Both options may be given: nvme-cli requires the byte count as well as the block
	 * count. */
	if (cli_num(o, CLI_ARG_DATA_LEN, 0) > t->length)
		return cli_error("--data-size is more than the bytes of --block-count (%llu)",
				 (unsigned long long)t->length);
	t->length = cli_num(o, CLI_ARG_DATA_LEN, t->length);
	if (t->length != UINT64_MAX && t->length > t->limit)
		return cli_error(
			"%llu bytes do not fit between the start and the end of namespace %u "
			"(%llu bytes)",
			(unsigned long long)t->length, ns->nsid, (unsigned long long)t->limit);
	t->exact = t->length != UINT64_MAX;
	return CLI_OK;
}

/* Checks the input against the range, before anything is written. */
static int check_input(struct transfer *t, const struct file *f)
{
	if (!f->has_size)
		return CLI_OK;
	if (t->length == UINT64_MAX)
		t->length = f->size;
	if (t->length > f->size)
		return cli_error("%s: the input has %llu bytes, expected %llu", f->name,
				 (unsigned long long)f->size, (unsigned long long)t->length);
	if (t->length > t->limit)
		return cli_error("%s: %llu bytes do not fit between the start and the end of the "
				 "namespace (%llu bytes)",
				 f->name, (unsigned long long)t->length,
				 (unsigned long long)t->limit);
	t->exact = true;
	return CLI_OK;
}

static int summary(const struct cli_options *o, const struct transfer *t, uint64_t ns, FILE *out)
{
	uint64_t done = t->st.done - t->start;
	double secs = (double)ns / 1e9;
	double mib = secs > 0 ? (double)done / 1048576.0 / secs : 0;
	double iops = secs > 0 ? (double)t->ios / secs : 0;

	if (o->format == CLI_JSON)
		return cli_print_json(json_pack("{s:s, s:I, s:I, s:f, s:f, s:f}", "operation",
						t->write ? "write" : "read", "bytes",
						(json_int_t)done, "commands", (json_int_t)t->ios,
						"seconds", secs, "mib_per_second", mib, "iops",
						iops),
				      out);
	if (o->verbose)
		fprintf(stderr, "rdinit: %llu bytes in %.3f s, %.1f MiB/s, %.0f IOPS\n",
			(unsigned long long)done, secs, mib, iops);
	return CLI_OK;
}

/* Whether the written data is on stable storage, as a success would have reported. */
static bool is_flushed(const struct cli_options *o, const struct transfer *t)
{
	if (cli_given(o, CLI_ARG_FUA) || cli_given(o, CLI_ARG_NO_FLUSH))
		return true;
	/* No flush after an interrupt, because it could take long. */
	return !t->run.interrupt.signo && !rdinit_flush(t->s.qp[0], &t->s.ns);
}

/* After a failure: prints what has been transferred, and the options to continue after it. */
static void say_complete(const struct cli_options *o, const struct transfer *t)
{
	unsigned long long n = t->st.complete - t->start, at = t->st.complete;

	if (!n || n == t->limit)
		return;
	if (!t->write)
		cli_error("the first %llu bytes are complete; continue with --offset=%llu", n, at);
	else if (is_flushed(o, t))
		cli_error("the first %llu bytes are complete; continue with --offset=%llu and "
			  "the input from its byte %llu on",
			  n, at, n);
	else
		cli_error("the first %llu bytes are written but not flushed: they are safe only "
			  "after `rdinit flush`; continue with --offset=%llu and the input "
			  "from its byte %llu on",
			  n, at, n);
}

/* The endpoint of the file. A stream belongs to it from here on. */
static int open_file_end(const struct transfer *t, struct file *f, struct cli_cp_end **out)
{
	uint64_t pos = f->start - t->start;

	if (f->regular)
		return cli_cp_fd_open(f->name, f->fd, pos, out);
	f->own = false;
	return cli_cp_pipe_open(f->name, f->fd, t->length, out);
}

static int run_copy(struct transfer *t, const struct file *f)
{
	struct cli_cp_job job = {
		.src = t->run.src,
		.dst = t->run.dst,
		.start = t->start,
		.sparse = CLI_CP_NEVER,
		.memory = IO_MEMORY,
	};

	if (cli_cp_engine_new(&job, &t->run.engine))
		return cli_error("out of memory");
	cli_signals_start(&t->run.interrupt);
	cli_cp_run_engine(&t->run, "copy");
	cli_signals_end(&t->run.interrupt);
	cli_cp_engine_status(t->run.engine, &t->st);
	cli_progress_clear(&t->run.progress);
	if (t->write && t->st.err == -EFBIG)
		return cli_error("%s: the input is longer than the %llu bytes to the end of the "
				 "namespace, which were written",
				 f->name, (unsigned long long)t->limit);
	if (t->st.err)
		return t->st.text[0] ? cli_error("%s", t->st.text) : CLI_FAILED;
	if (t->exact && t->st.done - t->start < t->length)
		return cli_error("%s: the input ended after %llu of %llu bytes", f->name,
				 (unsigned long long)(t->st.done - t->start),
				 (unsigned long long)t->length);
	return CLI_OK;
}

static int transfer_data(const struct cli_options *o, struct transfer *t, struct file *f)
{
	struct cli_cp_end *file, *ns;
	uint64_t start = cli_now_ns();
	bool flush = t->write && !cli_given(o, CLI_ARG_NO_FLUSH);
	bool to_stdout = !t->write && f->fd == STDOUT_FILENO;
	int rc = cli_cp_session_open(&t->s, cli_given(o, CLI_ARG_FUA) ? RDINIT_IO_FUA : 0, &t->ios,
				     &ns);

	if (rc)
		return rc;
	t->run.src = t->run.dst = ns;
	rc = open_file_end(t, f, &file);
	if (rc)
		return rc;
	*(t->write ? &t->run.src : &t->run.dst) = file;
	if (!t->write)
		ns->size = t->start + t->length;
	else if (f->regular)
		file->size = t->start + t->length;
	t->run.origin = t->start;
	t->run.lost = t->write ? ", which are not flushed" : "";
	cli_progress_start(&t->run.progress, !cli_given(o, CLI_ARG_NO_PROGRESS),
			   t->length == UINT64_MAX ? 0 : t->length);
	rc = run_copy(t, f);
	if (!rc && flush && rdinit_flush(t->s.qp[0], &t->s.ns))
		return cli_error("flush: %s", cli_lib_text());
	if (rc) {
		say_complete(o, t);
		return rc;
	}
	cli_progress_end(&t->run.progress, t->st.done - t->start);
	/* Not on standard output if the data goes there. */
	return summary(o, t, cli_now_ns() - start, to_stdout ? stderr : stdout);
}

static void close_transfer(struct transfer *t)
{
	if (t->run.src)
		t->run.src->ops->close(t->run.src);
	if (t->run.dst && t->run.dst != t->run.src)
		t->run.dst->ops->close(t->run.dst);
	cli_cp_engine_free(t->run.engine);
	cli_session_close(&t->s);
	cli_signals_die(&t->run.interrupt);
}

/* Connects, and opens the file before it for write, whose input is checked first. */
static int run_transfer(const struct cli_options *o, bool write)
{
	struct transfer t = {.write = write, .run = {.progress_fd = -1, .interrupt = {.fd = -1}}};
	const char *name = o->arg[CLI_ARG_DATA].text;
	struct file f = {.fd = -1};
	int rc = write ? open_file(&f, name, write) : CLI_OK, rc2;

	if (!rc)
		rc = cli_session_open(&t.s, o);
	if (!rc)
		rc = cli_session_open_io(&t.s, o);
	if (!rc)
		rc = range(o, &t.s.ns, &t);
	if (!rc)
		rc = write ? check_input(&t, &f) : open_file(&f, name, write);
	if (!rc && !write && t.length == UINT64_MAX)
		t.length = t.limit;
	if (!rc)
		rc = transfer_data(o, &t, &f);
	/* A program that shares the file description continues behind the data. */
	if (!rc && f.regular && !f.own &&
	    lseek(f.fd, (off_t)(f.start + t.st.done - t.start), SEEK_SET) < 0)
		rc = cli_error("%s: %s", f.name, strerror(errno));
	rc2 = close_file(&f);
	close_transfer(&t);
	return rc ? rc : rc2;
}

int cli_read(const struct cli_options *o)
{
	if (cli_is_std(o->arg[CLI_ARG_DATA].text) && !cli_given(o, CLI_ARG_DATA_LEN) &&
	    !cli_given(o, CLI_ARG_COUNT) && isatty(STDOUT_FILENO))
		return cli_usage_error(
			"the whole namespace would go to the terminal; name a file with "
			"--data=FILE, or limit the size with --data-size or --block-count");
	return run_transfer(o, false);
}

int cli_write(const struct cli_options *o)
{
	return run_transfer(o, true);
}

int cli_flush(struct cli_session *s, const struct cli_options *o)
{
	if (rdinit_flush(s->qp[0], &s->ns))
		return cli_lib_error();
	if (o->format == CLI_JSON)
		return cli_print_json(json_pack("{s:s, s:I}", "operation", "flush", "nsid",
						(json_int_t)s->ns.nsid),
				      stdout);
	printf("flush: success\n");
	return cli_finish_output();
}
