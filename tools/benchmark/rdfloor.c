/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdfloor: the limit that TCP sets. A client and a server, each pinned to a processor and
 * busy-waiting, transfer the bytes that reads or writes of a remote block device would transfer
 * (64-byte request, data, 16-byte response) in batches, without checks and without memory for each
 * request. Prints JSON. A measurement, not a test.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"

#define REQUEST   64u
#define RESPONSE  16u
#define READY_MAX 64

/* Latencies in nanoseconds: 32 steps for each power of two, so a step is 3 %. */
#define HIST_SUB  32u
#define HIST_SIZE (60u * HIST_SUB)

struct options {
	bool write;
	size_t size;
	unsigned int depth;
	unsigned int connections;
	double seconds;
	int client_cpu;
	int server_cpu;
	bool each; /* bytes of each request in flight have a place of their own */
};

struct batch {
	uint64_t sent; /* ns; time of sending */
	unsigned int count;
};

struct conn {
	int fd;
	size_t have; /* received bytes of an incomplete request or response */
	/* Client: batches in flight, oldest first. Each has at least one request, so the depth
	 * bounds their number. */
	struct batch *batches;
	unsigned int first;
	unsigned int used;
};

/* One end of the connections. */
struct side {
	struct conn *conns;
	unsigned int count;
	int epfd;        /* -1 with a single connection, which needs no epoll */
	size_t unit_in;  /* size in bytes of a received message, including data */
	size_t unit_out; /* size in bytes of a sent message */
	uint8_t *buf;    /* buf_size more than @room bytes */
	size_t buf_size;
	/* Of the places from which and to which bytes go in turn; 0: always the first. Else it is
	 * more than the caches near a processor have, as with a real server's data. */
	size_t room;
	size_t at;
};

struct totals {
	uint64_t ops;
	uint64_t timed_ops; /* operations within the measured time */
	double seconds;
	uint64_t hist[HIST_SIZE];
};

static void die(const char *what)
{
	fprintf(stderr, "rdfloor: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *must_alloc(size_t count, size_t size)
{
	void *mem = calloc(count, size);

	if (!mem)
		die("memory");
	return mem;
}

/* ---- latencies ---- */

static unsigned int hist_slot(uint64_t ns)
{
	unsigned int high;

	if (ns < HIST_SUB)
		return (unsigned int)ns;
	high = 63u - (unsigned int)__builtin_clzll(ns);
	return (high - 4) * HIST_SUB + (unsigned int)((ns >> (high - 5)) & (HIST_SUB - 1));
}

static double hist_value_us(unsigned int slot)
{
	unsigned int high = slot / HIST_SUB + 4;

	if (slot < HIST_SUB)
		return slot / 1e3;
	return (double)((uint64_t)(HIST_SUB + slot % HIST_SUB) << (high - 5)) / 1e3;
}

static double percentile_us(const struct totals *tot, double part)
{
	uint64_t all = 0, seen = 0;
	unsigned int i;

	for (i = 0; i < HIST_SIZE; i++)
		all += tot->hist[i];
	for (i = 0; i < HIST_SIZE - 1; i++) {
		seen += tot->hist[i];
		if (seen && (double)seen >= part * (double)all)
			break;
	}
	return hist_value_us(i);
}

/* ---- sockets ---- */

/* Returns the number of received bytes, 0 if none are available, or -1 at the end of the stream. */
static ssize_t recv_some(int fd, uint8_t *buf, size_t len)
{
	ssize_t n = recv(fd, buf, len, MSG_DONTWAIT);

	if (n > 0)
		return n;
	if (n == 0 || errno == ECONNRESET)
		return -1;
	if (errno != EAGAIN && errno != EINTR)
		die("recv");
	return 0;
}

static void send_bytes(int fd, const uint8_t *buf, size_t len)
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

static void no_delay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void connect_pairs(struct side *client, struct side *server)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(sin);
	int lis = socket(AF_INET, SOCK_STREAM, 0);

	if (lis < 0 || bind(lis, (struct sockaddr *)&sin, sizeof(sin)) || listen(lis, 16) ||
	    getsockname(lis, (struct sockaddr *)&sin, &len))
		die("listening on 127.0.0.1");
	for (unsigned int i = 0; i < client->count; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (fd < 0 || connect(fd, (struct sockaddr *)&sin, sizeof(sin)))
			die("connecting to 127.0.0.1");
		client->conns[i].fd = fd;
		server->conns[i].fd = accept(lis, NULL, NULL);
		if (server->conns[i].fd < 0)
			die("accept");
		no_delay(fd);
		no_delay(server->conns[i].fd);
	}
	close(lis);
}

static void close_all(struct side *side)
{
	for (unsigned int i = 0; i < side->count; i++)
		close(side->conns[i].fd);
}

/* ---- both ends ---- */

static void side_init(struct side *side, const struct options *o, bool client)
{
	size_t request = REQUEST + (o->write ? o->size : 0);
	size_t answer = RESPONSE + (o->write ? 0 : o->size);

	memset(side, 0, sizeof(*side));
	side->count = o->connections;
	side->conns = must_alloc(o->connections, sizeof(*side->conns));
	side->unit_in = client ? answer : request;
	side->unit_out = client ? request : answer;
	side->buf_size = o->depth * (request > answer ? request : answer);
	side->room = o->each ? o->connections * side->buf_size : 0;
	side->epfd = -1;
}

static void side_free(struct side *side)
{
	for (unsigned int i = 0; i < side->count; i++)
		free(side->conns[i].batches);
	free(side->conns);
	free(side->buf);
	if (side->epfd >= 0)
		close(side->epfd);
}

/* Called in the process that uses the memory, so that it is near that process's CPU. */
static void side_start(struct side *side, int cpu)
{
	if (cpu >= 0)
		pin_to_cpu("rdfloor", cpu);
	side->buf = must_alloc(1, side->room + side->buf_size);
	memset(side->buf, 1, side->room + side->buf_size);
	if (side->count == 1)
		return;
	side->epfd = epoll_create1(0);
	if (side->epfd < 0)
		die("epoll_create1");
	for (unsigned int i = 0; i < side->count; i++) {
		struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &side->conns[i]};

		if (epoll_ctl(side->epfd, EPOLL_CTL_ADD, side->conns[i].fd, &ev))
			die("epoll_ctl");
	}
}

/* The connections that may be readable; returns at once. */
static int side_ready(struct side *side, struct conn **ready)
{
	struct epoll_event evs[READY_MAX];
	int n;

	if (side->epfd < 0) {
		ready[0] = side->conns;
		return 1;
	}
	n = epoll_wait(side->epfd, evs, READY_MAX, 0);
	for (int i = 0; i < n; i++)
		ready[i] = evs[i].data.ptr;
	return n;
}

static void side_used(struct side *side, size_t n)
{
	if (side->room)
		side->at = (side->at + n) % side->room;
}

static void side_send(struct side *side, const struct conn *c, size_t count)
{
	send_bytes(c->fd, side->buf + side->at, count * side->unit_out);
	side_used(side, count * side->unit_out);
}

/* Returns the number of whole messages received, or -1 when the other end has closed. */
static long side_receive(struct side *side, struct conn *c)
{
	ssize_t n = recv_some(c->fd, side->buf + side->at, side->buf_size);
	size_t whole;

	if (n < 0)
		return -1;
	side_used(side, (size_t)n);
	c->have += (size_t)n;
	whole = c->have / side->unit_in;
	c->have %= side->unit_in;
	return (long)whole;
}

static void serve(struct side *side, int cpu)
{
	struct conn *ready[READY_MAX];
	unsigned int open = side->count;

	side_start(side, cpu);
	while (open) {
		int n = side_ready(side, ready);

		for (int i = 0; i < n; i++) {
			long whole = side_receive(side, ready[i]);

			if (whole > 0)
				side_send(side, ready[i], (size_t)whole);
			if (whole < 0) {
				close(ready[i]->fd);
				open--;
			}
		}
	}
}

/* ---- the client ---- */

static void ask(struct side *side, struct conn *c, unsigned int count, unsigned int depth)
{
	struct batch *b = &c->batches[(c->first + c->used) % depth];

	b->sent = clock_ns();
	b->count = count;
	c->used++;
	side_send(side, c, count);
}

static void count_answers(struct conn *c, unsigned long count, unsigned int depth,
			  struct totals *tot)
{
	uint64_t now = clock_ns();

	tot->ops += count;
	while (count) {
		struct batch *b = &c->batches[c->first];
		unsigned long n = b->count < count ? b->count : count;

		tot->hist[hist_slot(now - b->sent)] += n;
		b->count -= (unsigned int)n;
		count -= n;
		if (b->count == 0) {
			c->first = (c->first + 1) % depth;
			c->used--;
		}
	}
}

/* Receives responses and, while @p has operations left, sends as many requests. Returns the
 * number of responses. */
static unsigned long client_turn(struct side *side, const struct options *o, struct totals *tot,
				 bool more)
{
	struct conn *ready[READY_MAX];
	int n = side_ready(side, ready);
	unsigned long sum = 0;

	for (int i = 0; i < n; i++) {
		long whole = side_receive(side, ready[i]);

		if (whole < 0) {
			errno = ECONNRESET;
			die("the server");
		}
		if (whole == 0)
			continue;
		sum += (unsigned long)whole;
		count_answers(ready[i], (unsigned long)whole, o->depth, tot);
		if (more)
			ask(side, ready[i], (unsigned int)whole, o->depth);
	}
	return sum;
}

static void run_client(struct side *side, const struct options *o, struct totals *tot)
{
	uint64_t start, end, until, in_flight = (uint64_t)o->depth * side->count;

	for (unsigned int i = 0; i < side->count; i++)
		side->conns[i].batches = must_alloc(o->depth, sizeof(struct batch));
	side_start(side, o->client_cpu);
	start = clock_ns();
	until = start + (uint64_t)(o->seconds * 1e9);
	for (unsigned int i = 0; i < side->count; i++)
		ask(side, &side->conns[i], o->depth, o->depth);
	do {
		client_turn(side, o, tot, true);
		end = clock_ns();
	} while (end < until || tot->ops == 0);
	tot->timed_ops = tot->ops;
	tot->seconds = (double)(end - start) / 1e9;
	while (in_flight)
		in_flight -= client_turn(side, o, tot, false);
	close_all(side);
}

/* ---- the command ---- */

static double cpu_us(const struct rusage *ru)
{
	return (double)(ru->ru_utime.tv_sec + ru->ru_stime.tv_sec) * 1e6 +
	       (double)(ru->ru_utime.tv_usec + ru->ru_stime.tv_usec);
}

static void print_floor_json(const struct options *o, const struct totals *tot,
			     const struct rusage *server)
{
	double ops = tot->ops ? (double)tot->ops : 1, timed = (double)tot->timed_ops, mean;
	struct rusage client;

	getrusage(RUSAGE_SELF, &client);
	/* Little's law, exact because the number in flight is always the depth. */
	mean = timed > 0 ? tot->seconds * 1e6 * o->depth * o->connections / timed : 0;
	printf("{\"program\": \"rdfloor\", \"rw\": \"%s\", \"size\": %zu, \"depth\": %u, "
	       "\"connections\": %u, \"seconds\": %.3f, \"ops\": %llu, \"iops\": %.1f, ",
	       o->write ? "write" : "read", o->size, o->depth, o->connections, tot->seconds,
	       (unsigned long long)tot->timed_ops, timed / tot->seconds);
	printf("\"lat_us\": {\"mean\": %.2f, \"p50\": %.2f, \"p99\": %.2f, \"p99.9\": %.2f}, ",
	       mean, percentile_us(tot, 0.5), percentile_us(tot, 0.99), percentile_us(tot, 0.999));
	printf("\"cpu_us_per_io\": {\"client\": %.3f, \"server\": %.3f}}\n", cpu_us(&client) / ops,
	       cpu_us(server) / ops);
}

static const char usage[] =
	"Usage: rdfloor [OPTION]...\n"
	"Two processes move the bytes of block I/O over TCP on 127.0.0.1 and do nothing else. "
	"Prints JSON.\n\n"
	"  --rw read|write    read: the answers carry the data; write: the requests do (read)\n"
	"  --size BYTES       data of one request (4096)\n"
	"  --depth N          requests in flight on each connection (1)\n"
	"  --connections N    (1)\n"
	"  --seconds S        (1)\n"
	"  --client-cpu N     processor of the client (any)\n"
	"  --server-cpu N     processor of the server (any)\n"
	"  --each-buffer      a buffer for each request in flight, not one for all\n"
	"  -h, --help\n";

static double number(const char *name, const char *text, double min, double max)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= min && value <= max)) {
		fprintf(stderr, "rdfloor: --%s %s: expected a number from %g to %g\n", name, text,
			min, max);
		exit(2);
	}
	return value;
}

static bool is_write(const char *text)
{
	if (strcmp(text, "read") && strcmp(text, "write")) {
		fprintf(stderr, "rdfloor: --rw %s: expected read or write\n", text);
		exit(2);
	}
	return text[0] == 'w';
}

static void parse_floor_options(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{"rw", 1, NULL, 'w'},         {"size", 1, NULL, 's'},
		{"depth", 1, NULL, 'd'},      {"connections", 1, NULL, 'n'},
		{"seconds", 1, NULL, 't'},    {"client-cpu", 1, NULL, 'c'},
		{"server-cpu", 1, NULL, 'v'}, {"each-buffer", 0, NULL, 'e'},
		{"help", 0, NULL, 'h'},       {0},
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (opt) {
		case 'w':
			o->write = is_write(optarg);
			break;
		case 's':
			o->size = (size_t)number("size", optarg, 1, 16 << 20);
			break;
		case 'd':
			o->depth = (unsigned int)number("depth", optarg, 1, 1024);
			break;
		case 'n':
			o->connections = (unsigned int)number("connections", optarg, 1, 4096);
			break;
		case 't':
			o->seconds = number("seconds", optarg, 0.001, 3600);
			break;
		case 'c':
			o->client_cpu = (int)number("client-cpu", optarg, 0, CPU_SETSIZE - 1);
			break;
		case 'v':
			o->server_cpu = (int)number("server-cpu", optarg, 0, CPU_SETSIZE - 1);
			break;
		case 'e':
			o->each = true;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	if (optind != argc) {
		fputs(usage, stderr);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct options o = {.size = 4096,
			    .depth = 1,
			    .connections = 1,
			    .seconds = 1,
			    .client_cpu = -1,
			    .server_cpu = -1};
	struct side client, server;
	struct totals *tot;
	struct rusage ru;
	pid_t pid;

	parse_floor_options(argc, argv, &o);
	side_init(&client, &o, true);
	side_init(&server, &o, false);
	connect_pairs(&client, &server);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close_all(&client);
		serve(&server, o.server_cpu);
		side_free(&client);
		side_free(&server);
		return 0;
	}
	close_all(&server);
	tot = must_alloc(1, sizeof(*tot));
	run_client(&client, &o, tot);
	if (wait4(pid, NULL, 0, &ru) < 0)
		die("wait4");
	print_floor_json(&o, tot, &ru);
	free(tot);
	side_free(&client);
	side_free(&server);
	return 0;
}
