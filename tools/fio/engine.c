/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdinit, an external ioengine of fio: namespaces through librdinit, from fio's own buffers.
 *
 * Licence: this file is ours, under the BSD licence above, and holds nothing of fio. It is compiled
 * against fio's headers and runs inside fio, and those are under the GNU General Public License,
 * version 2: what tools/fio/build makes of it is, as a whole, to be passed on under that licence.
 *
 * Each job has a device with one queue of its own for each namespace (conn.c). fio calls queue()
 * once for each I/O and then commit(), unless told otherwise (iodepth_batch=), and fetches results
 * one at a time. Here commands gather until there is reason to send them, so that one system call
 * carries many, and results that are there already are handed out without looking at the network.
 */
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "fio.h"
#include "optgroup.h"

#include "conn.h"

#ifndef RDF_FIO_VERSION
#error "tools/fio/build compiles this, and says against which fio"
#endif

/* Number of commands that may accumulate in commit() before they are sent, so that the target
 * has work. */
#define BATCH_COMMANDS 64u
#define BATCH_BYTES    (256u << 10)

#define NAMESPACES_MAX 32u
/* Between two looks at whether fio is to end. */
#define LOOK_MS 1000

struct options {
	void *td; /* of fio */
	struct rdf_opts conn;
	unsigned int hipri;
};

/* The engine's data for an I/O unit of fio. */
struct slot {
	struct job *job;
	struct io_u *io_u;
	uint64_t id; /* for rdinit_dev_cancel(), while busy */
	bool busy;   /* its command has not completed */
	char *why;   /* error text; NULL: no error */
};

struct job {
	struct rdf_conn conns[NAMESPACES_MAX]; /* indexed by file number */
	unsigned int n_conns;
	bool failed;   /* a device is permanently lost, */
	char why[256]; /* for this reason */
	bool spin;
	bool canceled;   /* fio ends, and commands that waited for a path were canceled */
	bool complained; /* an I/O that could not be submitted was reported; further ones are not */
	unsigned int fua;
	struct slot *slots; /* indexed by I/O unit */
	unsigned int n_slots;
	struct io_u **queued; /* I/O units since the last commit() */
	unsigned int n_queued;
	unsigned int unsent; /* number of commands that the next iteration sends */
	uint64_t unsent_bytes;
	struct io_u **done; /* ring of results that fio has not fetched */
	unsigned int done_mask;
	unsigned int done_head; /* index of the next result to fetch */
	unsigned int done_tail; /* index for the next result */
	unsigned int fetched;   /* fetched at the last getevents() */
	void *mem;
	size_t mem_len;
};

/* The symbol that fio looks up. */
__attribute__((visibility("default"))) struct ioengine_ops ioengine;

/* ---- results ---- */

static void set_why(struct slot *slot, int err, const char *text)
{
	free(slot->why);
	slot->why = strdup(text);
	slot->io_u->error = (unsigned int)-err;
}

static void done(void *user, const struct rdinit_completion *c)
{
	struct slot *slot = user;
	struct job *job = slot->job;

	slot->busy = false;
	if (c->err)
		set_why(slot, c->err, c->text);
	if (c->err == -ENODEV && !job->failed) {
		job->failed = true;
		snprintf(job->why, sizeof(job->why), "%s", c->text);
	}
	job->done[job->done_tail++ & job->done_mask] = slot->io_u;
}

/* Sleeps until one of several namespaces has work. */
static void sleep_on_all(struct job *job, int timeout_ms)
{
	struct pollfd fds[NAMESPACES_MAX];
	unsigned int i;

	for (i = 0; i < job->n_conns; i++)
		fds[i] = (struct pollfd){
			.fd = rdinit_dev_chan_fd(job->conns[i].chan),
			.events = POLLIN,
		};
	poll(fds, job->n_conns, timeout_ms);
}

/* Sends, receives, and calls callbacks. Returns 0 or -errno. */
static int turn_job(struct job *job, int timeout_ms)
{
	unsigned int i;
	int rc = 0, n = 0;

	job->unsent = 0;
	job->unsent_bytes = 0;
	if (job->n_conns == 1) {
		rc = rdinit_dev_chan_process(job->conns[0].chan, timeout_ms);
		return rc < 0 ? rc : 0;
	}
	for (i = 0; rc >= 0 && i < job->n_conns; i++) {
		rc = rdinit_dev_chan_process(job->conns[i].chan, 0);
		n += rc > 0;
	}
	if (rc >= 0 && n == 0 && timeout_ms)
		sleep_on_all(job, timeout_ms);
	return rc < 0 ? rc : 0;
}

/* Whether any command of the job is in flight. */
static bool any_in_flight(const struct job *job)
{
	unsigned int i;

	for (i = 0; i < job->n_conns; i++)
		if (rdinit_dev_chan_inflight(job->conns[i].chan))
			return true;
	return false;
}

static struct rdf_conn *conn_of(struct job *job, const struct io_u *io_u)
{
	return &job->conns[job->n_conns > 1 ? io_u->file->fileno : 0];
}

/* Without a limit of fio's it is looked at once a second whether fio is to end. */
static int timeout_ms(const struct job *job, const struct timespec *ts)
{
	if (ts)
		return (int)(ts->tv_sec * 1000 + ts->tv_nsec / 1000000);
	return job->spin ? 0 : LOOK_MS;
}

static bool waits_for_path(const struct rdf_conn *conn)
{
	struct rdinit_dev_info info;

	rdinit_dev_info_init(&info);
	return rdinit_dev_get_info(conn->dev, &info) == 0 && info.state == RDINIT_DEV_WAITING;
}

/*
 * fio is to end (SIGINT, runtime=): commands that wait for a path would keep it until ctrl_loss_tmo
 * is over. Where a path is usable, the target answers soon.
 */
static void cancel_waiting(struct job *job)
{
	unsigned int c, i;

	for (c = 0; c < job->n_conns; c++) {
		if (!waits_for_path(&job->conns[c]))
			continue;
		for (i = 0; i < job->n_slots; i++)
			if (job->slots[i].busy &&
			    conn_of(job, job->slots[i].io_u) == &job->conns[c])
				rdinit_dev_cancel(job->conns[c].chan, job->slots[i].id);
		if (!job->canceled)
			log_err("rdinit: fio is ending and no path is usable: commands are "
				"canceled\n");
		job->canceled = true;
	}
}

static int rdf_getevents(struct thread_data *td, unsigned int min, unsigned int max,
			 const struct timespec *ts)
{
	struct job *job = td->io_ops_data;
	unsigned int n = job->done_tail - job->done_head;
	int rc = 0;

	while (n < min || (n == 0 && min == 0)) {
		if (td->terminate && min)
			cancel_waiting(job);
		rc = turn_job(job, min ? timeout_ms(job, ts) : 0);
		n = job->done_tail - job->done_head;
		/* Without commands in flight fio would wait for ever. */
		if (!rc && n == 0 && job->failed && !any_in_flight(job))
			rc = -ENODEV;
		if (rc || min == 0 || ts)
			break;
		if (n == 0 && job->spin)
			sched_yield(); /* the target may need this processor to answer */
	}
	if (rc && n == 0 && min)
		return rc;
	if (n > max)
		n = max;
	job->fetched = job->done_head;
	job->done_head += n;
	return (int)n;
}

static struct io_u *rdf_event(struct thread_data *td, int event)
{
	struct job *job = td->io_ops_data;

	return job->done[(job->fetched + (unsigned int)event) & job->done_mask];
}

#if FIO_IOOPS_VERSION >= 36
static char *rdf_errdetails(struct thread_data *td, struct io_u *io_u)
#else
static char *rdf_errdetails(struct io_u *io_u)
#endif
{
	struct slot *slot = io_u->engine_data;

	return strdup(slot && slot->why ? slot->why : strerror((int)io_u->error));
}

/* ---- submission ---- */

/* Makes the command of an I/O unit. Returns 0 or -errno. */
static int make_io(struct job *job, const struct io_u *io_u, struct rdinit_dev_io *io)
{
	const struct rdf_conn *conn = conn_of(job, io_u);
	unsigned int shift = (unsigned int)__builtin_ctz(conn->ns.block_size);
	uint64_t blocks = io_u->xfer_buflen >> shift;

	rdinit_dev_io_init(io);
	io->op = RDINIT_DEV_FLUSH;
	if (ddir_sync(io_u->ddir))
		return 0;
	if ((io_u->offset | io_u->xfer_buflen) & (conn->ns.block_size - 1) || blocks > UINT32_MAX)
		return -EINVAL;
	io->lba = io_u->offset >> shift;
	io->nblocks = (uint32_t)blocks;
	if (io_u->ddir == DDIR_TRIM) {
		io->op = RDINIT_DEV_DEALLOCATE;
		return 0;
	}
	io->op = io_u->ddir == DDIR_READ ? RDINIT_DEV_READ : RDINIT_DEV_WRITE;
	io->flags = io_u->ddir == DDIR_WRITE ? job->fua : 0;
	io->buf = io_u->xfer_buf;
	return io_u->ddir == DDIR_READ || io_u->ddir == DDIR_WRITE ? 0 : -EOPNOTSUPP;
}

static int submit(struct job *job, struct slot *slot)
{
	struct rdinit_dev_io io;
	int rc = job->failed ? -ENODEV : make_io(job, slot->io_u, &io);

	if (!rc)
		rc = rdinit_dev_submit(conn_of(job, slot->io_u)->chan, &io, done, slot, &slot->id);
	slot->busy = !rc;
	return rc;
}

/* Fails an I/O at submission. fio prints details only of errors that event() returns, so the
 * text is printed here. */
static enum fio_q_status refused(struct job *job, struct slot *slot, int rc)
{
	struct io_u *io_u = slot->io_u;
	unsigned int bs = conn_of(job, io_u)->ns.block_size;
	char text[160];

	if (rc == -EAGAIN)
		return FIO_Q_BUSY;
	if (job->failed) {
		set_why(slot, rc, job->why);
	} else if (!ddir_sync(io_u->ddir) && (io_u->offset | io_u->xfer_buflen) & (bs - 1)) {
		snprintf(text, sizeof(text),
			 "offset %llu, length %llu: not multiples of the namespace's block size "
			 "(%u)",
			 io_u->offset, io_u->xfer_buflen, bs);
		set_why(slot, -EINVAL, text);
	} else if (rc == -EOPNOTSUPP) {
		set_why(slot, rc, "an operation that NVMe does not have");
	} else {
		set_why(slot, rc, rdf_lib_text());
	}
	if (!job->complained)
		log_err("rdinit: %s\n", slot->why ? slot->why : strerror(-rc));
	job->complained = true;
	return FIO_Q_COMPLETED;
}

static enum fio_q_status rdf_queue(struct thread_data *td, struct io_u *io_u)
{
	struct job *job = td->io_ops_data;
	struct slot *slot = io_u->engine_data;
	int rc;

	fio_ro_check(td, io_u);
	rc = submit(job, slot);
	if (rc)
		return refused(job, slot, rc);
	job->queued[job->n_queued++] = io_u;
	job->unsent++;
	job->unsent_bytes += ddir_sync(io_u->ddir) ? 0 : io_u->xfer_buflen;
	return FIO_Q_QUEUED;
}

/* Sets the same submission time for all I/O units that were queued since the last call. */
static void note_queued(struct thread_data *td, struct job *job)
{
	struct timespec now;
	unsigned int i;

	io_u_mark_submit(td, job->n_queued);
	if (fio_fill_issue_time(td)) {
		fio_gettime(&now, NULL);
		for (i = 0; i < job->n_queued; i++) {
			job->queued[i]->issue_time = now;
			io_u_queued(td, job->queued[i]);
		}
		if (td->o.read_iolog_file)
			td->last_issue = now;
	}
	job->n_queued = 0;
}

/*
 * fio calls this after every I/O if iodepth_batch is 1 (the default), and before each getevents().
 * Commands that are not sent here are sent by the iteration in getevents().
 */
static int rdf_commit(struct thread_data *td)
{
	struct job *job = td->io_ops_data;

	if (job->n_queued)
		note_queued(td, job);
	if (job->unsent >= BATCH_COMMANDS || job->unsent_bytes >= BATCH_BYTES)
		turn_job(job, 0); /* a lost connection shows in the results */
	return 0;
}

/* ---- a job's life ---- */

/* Prints and stores the reason, because fio's report has only the error number. */
static int give_up(struct thread_data *td, int err, const char *why)
{
	log_err("rdinit: %s: %s\n", td->o.name ? td->o.name : "job", why);
	td_vmsg(td, -err, strerror(-err), "rdinit");
	return -err;
}

/* Checks that fio's structures have the layout that this file was compiled with. */
static int check_fio(struct thread_data *td)
{
	char text[160];

	if (!strcmp(fio_version_string, RDF_FIO_VERSION) && td->io_ops == &ioengine)
		return 0;
	snprintf(text, sizeof(text), "built for %s, but this is %s: run tools/fio/build again",
		 RDF_FIO_VERSION, fio_version_string);
	log_err("rdinit: %s\n", text);
	return ENOEXEC;
}

static bool does(const struct thread_data *td, enum fio_ddir ddir)
{
	return ddir == DDIR_READ ? td_read(td) : ddir == DDIR_WRITE ? td_write(td) : td_trim(td);
}

static int check_sizes(struct thread_data *td, const struct rdf_conn *conn)
{
	const struct thread_options *o = &td->o;
	unsigned int bs = conn->ns.block_size;
	char text[256];
	int i;

	for (i = 0; i < DDIR_RWDIR_CNT; i++) {
		if (!does(td, (enum fio_ddir)i))
			continue;
		if (o->min_bs[i] & (bs - 1) || o->max_bs[i] & (bs - 1)) {
			snprintf(text, sizeof(text),
				 "bs=%llu is not a multiple of namespace %u's block size: use "
				 "bs=%u or a multiple of it",
				 o->min_bs[i] & (bs - 1) ? o->min_bs[i] : o->max_bs[i],
				 conn->ns.nsid, bs);
			return give_up(td, -EINVAL, text);
		}
		if (i != DDIR_TRIM && o->max_bs[i] > conn->max_transfer) {
			snprintf(text, sizeof(text),
				 "bs=%llu is more than the target transfers at once: use bs=%u or "
				 "less",
				 o->max_bs[i], conn->max_transfer);
			return give_up(td, -EINVAL, text);
		}
	}
	if (o->start_offset & (bs - 1) || o->size & (bs - 1)) {
		snprintf(text, sizeof(text),
			 "%s=%llu is not a multiple of namespace %u's block size (%u)",
			 o->start_offset & (bs - 1) ? "offset" : "size",
			 o->start_offset & (bs - 1) ? o->start_offset : o->size, conn->ns.nsid, bs);
		return give_up(td, -EINVAL, text);
	}
	return 0;
}

/* ---- namespaces ---- */

static unsigned int count_namespaces(const struct options *o)
{
	unsigned int n = 1;
	const char *p;

	for (p = o->conn.uri; p && (p = strchr(p, ',')); p++)
		n++;
	return n;
}

/* Makes the options of namespace @i. @uri receives its URI, and must live as long as @out. */
static int get_opts_of(struct thread_data *td, unsigned int i, char uri[RDINIT_URI_SIZE],
		       struct rdf_opts *out)
{
	const struct options *o = td->eo;
	const char *p = o->conn.uri;
	char text[96];
	size_t len;

	*out = o->conn;
	if (!p)
		return 0;
	while (i-- > 0)
		p = strchr(p, ',') + 1;
	len = strcspn(p, ",");
	if (len >= RDINIT_URI_SIZE) {
		snprintf(text, sizeof(text), "uri=: a URI of %zu characters is too long (up to %d)",
			 len, RDINIT_URI_SIZE - 1);
		return give_up(td, -EINVAL, text);
	}
	memcpy(uri, p, len);
	uri[len] = '\0';
	out->uri = uri;
	return 0;
}

/* Makes one file for each namespace. */
static int make_files(struct thread_data *td, unsigned int n)
{
	char name[32];

	if (n > NAMESPACES_MAX)
		return give_up(td, -EINVAL, "uri= names more than 32 namespaces");
	if (td->files_index > n)
		return give_up(
			td, -EINVAL,
			n == 1 ? "a job has one namespace: no nrfiles=, one filename= at most"
			       : "a job has one file for each namespace of uri=: fewer "
				 "nrfiles= or names in filename=");
	while (td->files_index < n) {
		snprintf(name, sizeof(name), n > 1 ? "rdinit.%u" : "rdinit", td->files_index + 1);
		add_file(td, name, 0, 0);
	}
	if (td->o.nr_files < n)
		td->o.nr_files = n;
	if (td->o.open_files < n)
		td->o.open_files = n;
	return 0;
}

static int probe_one(struct thread_data *td, unsigned int i)
{
	struct rdf_conn probe;
	struct rdf_opts opts;
	char uri[RDINIT_URI_SIZE];
	int rc = get_opts_of(td, i, uri, &opts);

	if (rc)
		return rc;
	rc = rdf_conn_probe(&probe, &opts);
	if (rc)
		return give_up(td, rc, probe.why);
	td->files[i]->filetype = FIO_TYPE_BLOCK;
	td->files[i]->real_file_size = probe.ns.blocks * probe.ns.block_size;
	rc = check_sizes(td, &probe);
	rdf_conn_close(&probe);
	return rc;
}

/*
 * Reads the sizes of the namespaces. fio calls this before it forks the jobs, and connections must
 * not be open across fork(2), so these are closed again.
 */
static int rdf_setup(struct thread_data *td)
{
	unsigned int i, n = count_namespaces(td->eo);
	int rc = check_fio(td);

	if (!rc)
		rc = make_files(td, n);
	for (i = 0; !rc && i < n; i++)
		rc = probe_one(td, i);
	return rc;
}

static int alloc_job(struct job *job, unsigned int depth)
{
	unsigned int size = 1;

	while (size < depth)
		size *= 2;
	job->done_mask = size - 1;
	job->n_slots = depth;
	job->slots = calloc(depth, sizeof(*job->slots));
	job->queued = calloc(depth, sizeof(*job->queued));
	job->done = calloc(size, sizeof(*job->done));
	return job->slots && job->queued && job->done ? 0 : -ENOMEM;
}

static void close_namespaces(struct job *job)
{
	unsigned int i;

	for (i = 0; i < job->n_conns; i++) {
		job->conns[i].lost |= job->failed;
		rdf_conn_close(&job->conns[i]);
	}
	job->n_conns = 0;
}

static int open_namespaces(struct thread_data *td, struct job *job)
{
	unsigned int n = count_namespaces(td->eo);
	struct rdf_opts opts;
	char uri[RDINIT_URI_SIZE];
	int rc;

	while (job->n_conns < n) {
		struct rdf_conn *conn = &job->conns[job->n_conns];

		rc = get_opts_of(td, job->n_conns, uri, &opts);
		if (!rc) {
			rc = rdf_conn_open(conn, &opts, td->o.iodepth);
			rc = rc ? give_up(td, rc, conn->why) : 0;
		}
		if (rc) {
			close_namespaces(job);
			return rc;
		}
		job->n_conns++;
	}
	return 0;
}

static void free_job(struct job *job)
{
	unsigned int i;

	for (i = 0; job->slots && i < job->n_slots; i++)
		free(job->slots[i].why);
	free(job->slots);
	free(job->queued);
	free(job->done);
	free(job);
}

static int rdf_init(struct thread_data *td)
{
	const struct options *o = td->eo;
	struct job *job;
	int rc = check_fio(td);

	if (rc)
		return rc;
	job = calloc(1, sizeof(*job));
	if (!job || alloc_job(job, td->o.iodepth)) {
		rc = give_up(td, -ENOMEM, "no memory for the job's state");
		goto err;
	}
	rc = open_namespaces(td, job);
	if (rc)
		goto err;
	if (job->conns[0].depth < td->o.iodepth)
		log_err("rdinit: %s: iodepth=%u, but the queue takes %u commands at once\n",
			td->o.name, td->o.iodepth, job->conns[0].depth);
	job->spin = o->hipri;
	job->fua = td->o.sync_io ? RDINIT_IO_FUA : 0;
	td->io_ops_data = job;
	return 0;

err:
	if (job)
		free_job(job);
	return rc;
}

static void rdf_cleanup(struct thread_data *td)
{
	struct job *job = td->io_ops_data;

	if (!job)
		return;
	close_namespaces(job);
	free_job(job);
	td->io_ops_data = NULL;
}

static int rdf_io_u_init(struct thread_data *td, struct io_u *io_u)
{
	struct job *job = td->io_ops_data;
	struct slot *slot = &job->slots[io_u->index];

	slot->job = job;
	slot->io_u = io_u;
	io_u->engine_data = slot;
	return 0;
}

static void rdf_io_u_free(struct thread_data *td, struct io_u *io_u)
{
	io_u->engine_data = NULL;
}

/* Allocates fio's buffers in one mapping, registered once, so that no command copies or
 * registers. */
static int rdf_iomem_alloc(struct thread_data *td, size_t size)
{
	struct job *job = td->io_ops_data;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned int i;
	int rc = 0;

	if (p == MAP_FAILED)
		return give_up(td, -ENOMEM, "no memory for the buffers");
	for (i = 0; !rc && i < job->n_conns; i++)
		rc = rdinit_dev_mem_register(job->conns[i].chan, p, size);
	if (rc) {
		rc = give_up(td, rc, rdf_lib_text());
		close_namespaces(job); /* the connections have it registered */
		munmap(p, size);
		return rc;
	}
	job->mem = p;
	job->mem_len = size;
	td->orig_buffer = p;
	return 0;
}

static void rdf_iomem_free(struct thread_data *td)
{
	struct job *job = td->io_ops_data;

	if (!job || !job->mem)
		return;
	/* fio waits for I/O in flight before this. If it did not, the target must not reach
	 * memory that is freed. */
	close_namespaces(job);
	munmap(job->mem, job->mem_len);
	job->mem = NULL;
}

/* The sizes are final here, whichever options of fio they came from. */
static int rdf_open_file(struct thread_data *td, struct fio_file *f)
{
	char text[256];

	if (f->file_offset <= f->real_file_size && f->io_size <= f->real_file_size - f->file_offset)
		return 0;
	snprintf(text, sizeof(text),
		 "%llu bytes from offset %llu are beyond the end of the namespace (%llu bytes): "
		 "without size= all of it is used",
		 (unsigned long long)f->io_size, (unsigned long long)f->file_offset,
		 (unsigned long long)f->real_file_size);
	return give_up(td, -EINVAL, text);
}

static int rdf_close_file(struct thread_data *td, struct fio_file *f)
{
	return 0;
}

/* There is no cache on this side to invalidate. */
static int rdf_invalidate(struct thread_data *td, struct fio_file *f)
{
	return 0;
}

/* ---- options ---- */

#define OPTION_AT(option, at, long_name, option_type, text)                               \
	.name = #option, .lname = long_name, .type = option_type,                         \
	.off1 = offsetof(struct options, at), .help = text, .category = FIO_OPT_C_ENGINE, \
	.group = FIO_OPT_G_INVALID
#define OPTION(option, ...) OPTION_AT(option, conn.option, __VA_ARGS__)

static struct fio_option options[] = {
	{OPTION(uri, "Namespace", FIO_OPT_STR_STORE,
		"nvme+rdma://HOST[:PORT]/SUBNQN/NSID, or nvme+tcp://; several are separated by "
		"commas")},
	{OPTION(transport, "Transport", FIO_OPT_STR_STORE, "Instead of uri: rdma or tcp (rdma)")},
	{OPTION(traddr, "Target", FIO_OPT_STR_STORE, "Host name or address of the target")},
	{OPTION(trsvcid, "Target's port", FIO_OPT_STR_STORE, "Port of the target (4420)")},
	{OPTION(subnqn, "Subsystem", FIO_OPT_STR_STORE, "NQN of the subsystem")},
	{OPTION(nsid, "Namespace ID", FIO_OPT_INT, "Namespace ID; default 1")},
	{OPTION(hostnqn, "Host NQN", FIO_OPT_STR_STORE, "Host NQN (/etc/nvme/hostnqn)")},
	{OPTION(hostid, "Host identifier", FIO_OPT_STR_STORE,
		"Host identifier, a UUID (/etc/nvme/hostid)")},
	{OPTION(dhchap_secret_file, "Host secret", FIO_OPT_STR_STORE,
		"File with the DH-HMAC-CHAP secret of this host")},
	{OPTION(dhchap_ctrl_secret_file, "Controller secret", FIO_OPT_STR_STORE,
		"File with the controller's secret: it must authenticate itself")},
	{OPTION(dhchap_hashes, "Hashes", FIO_OPT_STR_STORE,
		"Hashes to offer: sha256, sha384, sha512 (all)")},
	{OPTION(dhchap_dhgroups, "Diffie-Hellman groups", FIO_OPT_STR_STORE,
		"Groups to offer: null, ffdhe2048 to ffdhe8192 (all)")},
	{OPTION(tls_key_file, "TLS key", FIO_OPT_STR_STORE,
		"File with the TLS key of this host: NVMe/TCP with TLS 1.3")},
	{OPTION(host_traddr, "Own address", FIO_OPT_STR_STORE, "Local address to connect from")},
	{OPTION(provider, "Provider", FIO_OPT_STR_STORE, "auto, iwarp or verbs (auto)")},
	{OPTION(congestion, "Congestion control", FIO_OPT_STR_STORE,
		"TCP congestion control of iwarp and tcp (the system's)")},
	{OPTION(crc, "CRC", FIO_OPT_BOOL, "iwarp: request CRC32C on every frame"), .def = "0"},
	{OPTION(hdr_digest, "Header digest", FIO_OPT_BOOL, "tcp: CRC32C of each PDU's header"),
	 .def = "0"},
	{OPTION(data_digest, "Data digest", FIO_OPT_BOOL, "tcp: CRC32C of each PDU's data"),
	 .def = "0"},
	{OPTION_AT(hipri, hipri, "Spin", FIO_OPT_BOOL, "Spin for results instead of sleeping"),
	 .def = "0"},
	{OPTION(keep_alive_tmo, "Keep-alive timeout", FIO_OPT_INT,
		"Keep-alive timeout in ms, 100 or more"),
	 .def = "5000", .minval = 100},
	{OPTION(connect_timeout, "Connect timeout", FIO_OPT_INT, "Timeout of connecting, in ms"),
	 .def = "10000", .minval = 1},
	{OPTION(io_timeout, "I/O timeout", FIO_OPT_INT, "Timeout of each command, in ms"),
	 .def = "30000", .minval = 1},
	{OPTION(ctrl_loss_tmo, "Controller loss timeout", FIO_OPT_INT,
		"How long to reconnect a lost target, in ms; 0: not at all"),
	 .def = "0"},
	{OPTION(reconnect_delay, "Reconnect delay", FIO_OPT_INT,
		"Longest time between two attempts, in ms"),
	 .def = "10000", .minval = 1},
	{.name = NULL},
};

struct ioengine_ops ioengine = {
	.name = "rdinit",
	.version = FIO_IOOPS_VERSION,
	.flags = FIO_DISKLESSIO | FIO_NOEXTEND | FIO_NO_OFFLOAD | FIO_ASYNCIO_SETS_ISSUE_TIME,
	.setup = rdf_setup,
	.init = rdf_init,
	.queue = rdf_queue,
	.commit = rdf_commit,
	.getevents = rdf_getevents,
	.event = rdf_event,
	.errdetails = rdf_errdetails,
	.cleanup = rdf_cleanup,
	.open_file = rdf_open_file,
	.close_file = rdf_close_file,
	.invalidate = rdf_invalidate,
	.iomem_alloc = rdf_iomem_alloc,
	.iomem_free = rdf_iomem_free,
	.io_u_init = rdf_io_u_init,
	.io_u_free = rdf_io_u_free,
	.options = options,
	.option_struct_size = sizeof(struct options),
};
