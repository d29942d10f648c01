/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdperf URI [SECONDS]: 4 KiB and 128 KiB reads and writes through librdinit at several depths on
 * one I/O queue, each beside a bare TCP program that moves the same bytes (64-byte request, data,
 * 16-byte answer) over the same loopback in the same run. Prints one line each and the ratio. A
 * measurement, not a test.
 *
 * DESTROYS the first blocks of the namespace.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
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

struct result {
	double ops_s;
	double us; /* mean time of one operation */
};

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

static struct result run_floor(size_t data, bool write, unsigned int depth, double seconds)
{
	struct shape s = {REQUEST + (write ? data : 0), RESPONSE + (write ? 0 : data)};
	size_t size = DEPTH_MAX * (s.in > s.out ? s.in : s.out), have = 0;
	uint8_t *buf = calloc(1, size);
	uint64_t done = 0;
	int server, fd = floor_pair(&server);
	double start, end;
	pid_t pid;

	if (!buf)
		die("memory");
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fd);
		floor_server(server, &s, buf, size);
	}
	close(server);
	start = now_s();
	send_all(fd, buf, s.in * depth);
	do {
		size_t whole;

		have += recv_some(fd, buf, size);
		whole = have / s.out;
		have %= s.out;
		done += whole;
		end = now_s();
		if (whole)
			send_all(fd, buf, s.in * whole);
	} while (end - start < seconds);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
	free(buf);
	return (struct result){(double)done / (end - start),
			       (end - start) * 1e6 * depth / (double)done};
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

static struct result run_rdma(struct job *j, size_t data, bool write, unsigned int depth,
			      double seconds)
{
	struct slot slots[DEPTH_MAX];
	double start = now_s(), end = start;
	uint64_t done;

	j->nlb = (uint32_t)(data / j->ns.block_size);
	j->write = write;
	j->stop = false;
	j->done = j->next = 0;
	for (unsigned int i = 0; i < depth; i++) {
		slots[i].job = j;
		slots[i].buf = aligned_alloc(4096, data);
		if (!slots[i].buf)
			die("memory");
		memset(slots[i].buf, (int)i, data);
		slot_submit(&slots[i]);
	}
	while (end - start < seconds) {
		if (rdinit_qpair_process(j->qp, 0) < 0)
			die(rdinit_get_error());
		end = now_s();
	}
	done = j->done;
	j->stop = true;
	while (j->busy)
		rdinit_qpair_process(j->qp, 100);
	for (unsigned int i = 0; i < depth; i++)
		free(slots[i].buf);
	return (struct result){(double)done / (end - start),
			       (end - start) * 1e6 * depth / (double)done};
}

static void compare(struct job *j, size_t data, bool write, unsigned int depth, double seconds)
{
	struct result f = run_floor(data, write, depth, seconds);
	struct result r = run_rdma(j, data, write, depth, seconds);

	printf("%-5s %4zu KiB depth %3u: rdtarget %9.0f/s %7.1f us %8.1f MiB/s   bare TCP %9.0f/s "
	       "%7.1f us   ratio %.2f\n",
	       write ? "write" : "read", data >> 10, depth, r.ops_s, r.us,
	       r.ops_s * (double)data / 1048576, f.ops_s, f.us, r.ops_s / f.ops_s);
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
