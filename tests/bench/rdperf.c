/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdperf URI [SECONDS]: 4 KiB and 128 KiB reads and writes through librdinit at several depths on
 * one I/O queue, each beside a bare TCP program that moves the same bytes (64-byte request, data,
 * 16-byte answer) over the same loopback in the same run. The two take turns in short slices, and
 * what is printed is the median slice of each and the ratio of these. A measurement, not a test.
 *
 * Pin rdperf to one processor and the target to another: the bare program's far end then runs on
 * any but our own.
 *
 * DESTROYS the first blocks of the namespace.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rdinit.h"

#define REQUEST     64u
#define RESPONSE    16u
#define DEPTH_MAX   128u
#define RANGE_BYTES (64u << 20)
#define SLICES      15

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void die(const char *what)
{
	fprintf(stderr, "rdperf: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- the floor: a bare TCP pair, both ends spinning ---- */

struct shape {
	size_t in;  /* bytes of one request, data included */
	size_t out; /* bytes of one answer, data included */
};

static size_t recv_some(int fd, uint8_t *buf, size_t len)
{
	ssize_t n;

	do
		n = recv(fd, buf, len, MSG_DONTWAIT);
	while (n < 0 && (errno == EAGAIN || errno == EINTR));
	if (n < 0)
		die("recv");
	return (size_t)n;
}

static void send_all(int fd, const uint8_t *buf, size_t len)
{
	while (len) {
		ssize_t n = send(fd, buf, len, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			die("send");
		if (n > 0) {
			buf += n;
			len -= (size_t)n;
		}
	}
}

/* Answer whole requests, all that one receive brought in one send. */
static void floor_server(int fd, const struct shape *s, uint8_t *buf, size_t size)
{
	size_t have = 0;

	for (;;) {
		size_t n = recv_some(fd, buf, size), whole;

		if (n == 0)
			_exit(0);
		have += n;
		whole = have / s->in;
		have %= s->in;
		if (whole)
			send_all(fd, buf, whole * s->out);
	}
}

static int floor_pair(int *server)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(sin);
	int lis = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	if (lis < 0 || fd < 0 || bind(lis, (struct sockaddr *)&sin, sizeof(sin)) ||
	    listen(lis, 1) || getsockname(lis, (struct sockaddr *)&sin, &len) ||
	    connect(fd, (struct sockaddr *)&sin, sizeof(sin)))
		die("loopback pair");
	*server = accept(lis, NULL, NULL);
	close(lis);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(*server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* A program that is pinned has the processor to itself. */
static void leave_our_cpu(void)
{
	cpu_set_t ours, others;

	if (sched_getaffinity(0, sizeof(ours), &ours) || CPU_COUNT(&ours) != 1)
		return;
	CPU_ZERO(&others);
	for (int i = 0; i < sysconf(_SC_NPROCESSORS_ONLN); i++)
		if (!CPU_ISSET(i, &ours))
			CPU_SET(i, &others);
	if (CPU_COUNT(&others))
		sched_setaffinity(0, sizeof(others), &others);
}

struct bare {
	struct shape s;
	uint8_t *buf;
	size_t size;
	int fd;
	pid_t pid; /* the far end; stopped between slices */
};

static void bare_start(struct bare *f, size_t data, bool write)
{
	int server;

	f->s = (struct shape){REQUEST + (write ? data : 0), RESPONSE + (write ? 0 : data)};
	f->size = DEPTH_MAX * (f->s.in > f->s.out ? f->s.in : f->s.out);
	f->buf = calloc(1, f->size);
	if (!f->buf)
		die("memory");
	f->fd = floor_pair(&server);
	f->pid = fork();
	if (f->pid < 0)
		die("fork");
	if (f->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		leave_our_cpu();
		close(f->fd);
		floor_server(server, &f->s, f->buf, f->size);
	}
	close(server);
	kill(f->pid, SIGSTOP);
}

static void bare_end(struct bare *f)
{
	kill(f->pid, SIGKILL);
	waitpid(f->pid, NULL, 0);
	close(f->fd);
	free(f->buf);
}

/* Operations per second. */
static double bare_slice(struct bare *f, unsigned int depth, double seconds)
{
	const struct shape *s = &f->s;
	uint64_t sent = depth, done = 0;
	double start, end, rate = 0;
	size_t have = 0;

	kill(f->pid, SIGCONT);
	start = now_s();
	send_all(f->fd, f->buf, s->in * depth);
	while (done < sent) {
		size_t whole;

		have += recv_some(f->fd, f->buf, f->size);
		whole = have / s->out;
		have %= s->out;
		done += whole;
		end = now_s();
		if (end - start < seconds && whole) {
			send_all(f->fd, f->buf, s->in * whole);
			sent += whole;
		} else if (rate == 0 && end - start >= seconds) {
			rate = (double)done / (end - start);
		}
	}
	kill(f->pid, SIGSTOP);
	return rate;
}

/* ---- the same through librdinit ---- */

struct job {
	struct rdinit_qpair *qp;
	struct rdinit_ns ns;
	uint32_t nlb;
	bool write;
	bool stop;
	unsigned int busy;
	uint64_t done;
	uint64_t next;
};

struct slot {
	struct job *job;
	uint8_t *buf;
};

static void slot_done(void *user, const struct rdinit_completion *c);

static void slot_submit(struct slot *slot)
{
	struct job *j = slot->job;
	uint64_t lba = j->next;
	int rc;

	j->next += j->nlb;
	if ((j->next + j->nlb) * j->ns.block_size > RANGE_BYTES)
		j->next = 0;
	if (j->write)
		rc = rdinit_write_async(j->qp, &j->ns, lba, j->nlb, slot->buf, 0, slot_done, slot);
	else
		rc = rdinit_read_async(j->qp, &j->ns, lba, j->nlb, slot->buf, 0, slot_done, slot);
	if (rc) {
		fprintf(stderr, "rdperf: %s\n", rdinit_get_error());
		exit(1);
	}
	j->busy++;
}

static void slot_done(void *user, const struct rdinit_completion *c)
{
	struct slot *slot = user;

	if (c->err) {
		fprintf(stderr, "rdperf: %s\n", c->text);
		exit(1);
	}
	slot->job->busy--;
	slot->job->done++;
	if (!slot->job->stop)
		slot_submit(slot);
}

static double rdma_slice(struct job *j, struct slot *slots, unsigned int depth, double seconds)
{
	double start = now_s(), end = start, rate;

	j->stop = false;
	j->done = 0;
	for (unsigned int i = 0; i < depth; i++)
		slot_submit(&slots[i]);
	while (end - start < seconds) {
		if (rdinit_qpair_process(j->qp, 0) < 0)
			die(rdinit_get_error());
		end = now_s();
	}
	rate = (double)j->done / (end - start);
	j->stop = true;
	while (j->busy)
		rdinit_qpair_process(j->qp, 100);
	return rate;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void compare(struct job *j, size_t data, bool write, unsigned int depth, double seconds)
{
	double ours[SLICES], bare[SLICES], r, b;
	struct slot slots[DEPTH_MAX];
	struct bare f;

	bare_start(&f, data, write);
	j->nlb = (uint32_t)(data / j->ns.block_size);
	j->write = write;
	j->next = 0;
	for (unsigned int i = 0; i < depth; i++) {
		slots[i].job = j;
		slots[i].buf = aligned_alloc(4096, data);
		if (!slots[i].buf)
			die("memory");
		memset(slots[i].buf, (int)i, data);
	}
	for (int i = 0; i < SLICES; i++) {
		bare[i] = bare_slice(&f, depth, seconds / SLICES);
		ours[i] = rdma_slice(j, slots, depth, seconds / SLICES);
	}
	for (unsigned int i = 0; i < depth; i++)
		free(slots[i].buf);
	bare_end(&f);
	qsort(ours, SLICES, sizeof(ours[0]), by_value);
	qsort(bare, SLICES, sizeof(bare[0]), by_value);
	r = ours[SLICES / 2];
	b = bare[SLICES / 2];
	printf("%-5s %4zu KiB depth %3u: rdtarget %9.0f/s %7.1f us %8.1f MiB/s   bare TCP %9.0f/s "
	       "%7.1f us   ratio %.2f\n",
	       write ? "write" : "read", data >> 10, depth, r, 1e6 * depth / r,
	       r * (double)data / 1048576, b, 1e6 * depth / b, r / b);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static const unsigned int depths[] = {1, 32, 127};
	struct rdinit_ctrl_opts opts;
	struct rdinit_qpair_opts qopts;
	struct rdinit_ctrl *ctrl;
	struct rdinit_uri uri;
	struct job job = {0};
	double seconds = argc > 2 ? strtod(argv[2], NULL) : 1;

	rdinit_uri_init(&uri);
	rdinit_ctrl_opts_init(&opts);
	rdinit_qpair_opts_init(&qopts);
	rdinit_ns_init(&job.ns);
	if (argc < 2 || rdinit_uri_parse(argv[1], &uri)) {
		fprintf(stderr, "usage: rdperf nvme+rdma://HOST:PORT/NQN/NSID [SECONDS]\n");
		return 2;
	}
	rdinit_ctrl_opts_set_uri(&opts, &uri);
	if (rdinit_ctrl_create(&opts, &ctrl) || rdinit_ctrl_connect(ctrl) ||
	    rdinit_ns_open(ctrl, uri.nsid, &job.ns) || rdinit_qpair_create(ctrl, &qopts, &job.qp) ||
	    rdinit_qpair_connect(job.qp)) {
		fprintf(stderr, "rdperf: %s\n", rdinit_get_error());
		return 1;
	}
	for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
		compare(&job, 4096, false, depths[i], seconds);
		compare(&job, 4096, true, depths[i], seconds);
		rdinit_ctrl_process(ctrl, 0);
	}
	compare(&job, 128 << 10, false, 32, seconds);
	compare(&job, 128 << 10, true, 32, seconds);
	rdinit_qpair_free(&job.qp);
	rdinit_ctrl_free(&ctrl);
	return 0;
}
