/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdscale ADDRESS PORT NQN [OPTION]...: many queue pairs of one controller, from one thread and one
 * loop on the fabric seam, so that the target is what is measured. Prints I/Os per second for each
 * number of busy queues (medians of rounds that take turns) and, with the target's --pid, its
 * memory and processor time.
 *
 *   --queues N[,N...]  busy queues; the largest number is connected (default 1,16,256,1000)
 *   --depth N          I/Os in flight on each (default 1)
 *   --total N          instead: I/Os in flight in all, spread over the busy queues
 *   --entries N        of each queue (default 128)
 *   --seconds S        of each measurement (default 1)
 *   --rounds N         (default 3)
 *   --write            4 KiB writes in the capsule, not reads
 *   --pid PID          the target
 *   --idle             connect, print "connected", and wait for the end of standard input
 *
 * A measurement, not a test.
 */
#include <errno.h>
#include <getopt.h>
#include <nvme/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "nvmf/wire.h"
#include "util/parse.h"
#include "util/sockaddr.h"

#define IO_BYTES   4096u
#define ADMIN      32u
#define MAX_COUNTS 16
#define MAX_ROUNDS 32
#define PATIENCE   (20 * RD_NSEC_PER_SEC)

struct bench;

struct queue {
	struct bench *b;
	struct rd_fab_conn *conn;
	uint16_t qid;
	uint32_t entries;
	uint8_t *mem; /* answers, then capsules */
	bool up;
	uint32_t wanted; /* in flight */
	uint32_t out;
	uint64_t done;
	struct nvme_cqe last;
};

struct bench {
	struct rd_loop *loop;
	struct rd_fab *fab;
	struct sockaddr_storage addr;
	const char *nqn;
	uint32_t counts[MAX_COUNTS], ncounts, depth, total, entries, rounds;
	double seconds;
	bool write, idle;
	long pid;
	struct queue *queues; /* [0] is the admin queue */
	uint32_t nqueues;
	uint8_t *mem, *data;
	size_t len;
	struct rd_fab_cq *cq;
	struct rd_fab_mr *mr;
	uint64_t ios;
};

static void die(const char *what, int err)
{
	fprintf(stderr, "rdscale: %s: %s\n", what, strerror(err < 0 ? -err : err));
	exit(1);
}

static void post_recv(struct queue *q, uint32_t slot)
{
	struct bench *b = q->b;
	struct ibv_sge sge = {(uintptr_t)q->mem + slot * NVME_CQE_SIZE, NVME_CQE_SIZE, b->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};
	int err;

	wr.wr_id = (uint64_t)(q - b->queues) << 16 | slot;
	err = rd_fab_post_recv(q->conn, &wr, &bad);
	if (err)
		die("posting a RECV", err);
}

static void post_command(struct queue *q, uint32_t slot, uint32_t len)
{
	struct bench *b = q->b;
	uint8_t *sqe = q->mem + q->entries * NVME_CQE_SIZE + slot * NVME_SQE_SIZE;
	struct ibv_sge sge[2] = {{(uintptr_t)sqe, NVME_SQE_SIZE, b->mr->lkey},
				 {(uintptr_t)b->data, len, b->mr->lkey}};
	struct ibv_send_wr *bad,
		wr = {.sg_list = sge, .num_sge = len ? 2 : 1, .opcode = IBV_WR_SEND};
	int err = rd_fab_post_send(q->conn, &wr, &bad);

	if (err)
		die("posting a SEND", err);
	q->out++;
}

static struct nvme_sqe *command(struct queue *q, uint32_t slot, uint8_t opcode)
{
	struct nvme_sqe *sqe = (void *)(q->mem + q->entries * NVME_CQE_SIZE + slot * NVME_SQE_SIZE);

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = opcode;
	sqe->flags = NVME_CMD_PSDT_SGL;
	sqe->cid = htole16((uint16_t)slot);
	nvme_sgl_set_keyed(&sqe->sgl, 0, 0, 0, NVME_SGL_KEYED_ADDRESS);
	return sqe;
}

static void submit(struct queue *q, uint32_t slot)
{
	struct bench *b = q->b;
	struct nvme_sqe *sqe = command(q, slot, b->write ? nvme_cmd_write : nvme_cmd_read);

	sqe->nsid = htole32(1);
	sqe->cdw12 = htole32(IO_BYTES / 512 - 1);
	if (b->write) {
		memset(&sqe->sgl, 0, sizeof(sqe->sgl));
		sqe->sgl.data.length = htole32(IO_BYTES);
		sqe->sgl.data.type = NVME_SGL_IN_CAPSULE;
	} else {
		nvme_sgl_set_keyed(&sqe->sgl, rd_fab_remote_addr(b->mr, b->data), IO_BYTES,
				   b->mr->rkey, NVME_SGL_KEYED_ADDRESS);
	}
	post_command(q, slot, b->write ? IO_BYTES : 0);
}

static void on_answer(struct queue *q, uint32_t slot)
{
	struct bench *b = q->b;
	const struct nvme_cqe *cqe = (void *)(q->mem + slot * NVME_CQE_SIZE);

	q->last = *cqe;
	q->out--;
	q->done++;
	b->ios++;
	post_recv(q, slot);
	if (le16toh(cqe->status)) {
		fprintf(stderr, "rdscale: qid %u: status %#x\n", q->qid, le16toh(cqe->status));
		exit(1);
	}
	if (q->qid && q->out < q->wanted)
		submit(q, le16toh(q->last.cid));
}

static void on_cq(struct rd_fab_cq *cq, void *arg)
{
	struct bench *b = arg;
	struct ibv_wc wc[64];
	int n;

	rd_fab_cq_arm(cq);
	while ((n = rd_fab_cq_poll(cq, 64, wc)) > 0) {
		for (int i = 0; i < n; i++) {
			if (wc[i].status != IBV_WC_SUCCESS)
				die("a connection was lost", ECONNRESET);
			on_answer(&b->queues[wc[i].wr_id >> 16], wc[i].wr_id & 0xffff);
		}
	}
}

static size_t queue_len(uint32_t entries)
{
	return (size_t)entries * (NVME_CQE_SIZE + NVME_SQE_SIZE);
}

static void first_device(struct bench *b, struct rd_fab_dev *dev)
{
	int err = rd_fab_cq_create(dev, 1024, on_cq, b, &b->cq);

	if (!err)
		err = rd_fab_reg_mr(dev, b->mem, b->len,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					    IBV_ACCESS_REMOTE_WRITE,
				    &b->mr);
	if (!err)
		err = rd_fab_cq_arm(b->cq);
	if (err)
		die("setting up", err);
}

static void on_event(struct rd_fab_conn *conn, const struct rd_fab_event *ev, void *arg)
{
	struct queue *q = arg;
	struct bench *b = q->b;
	struct nvmf_rdma_cm_req cm = {
		.qid = htole16(q->qid),
		.hrqsize = htole16((uint16_t)q->entries),
		.hsqsize = htole16((uint16_t)(q->entries - 1)),
	};
	struct rd_fab_conn_param param = {&cm, sizeof(cm), 16, 0};
	struct rd_fab_qp_attr attr = {
		.max_send_wr = q->entries,
		.max_recv_wr = q->entries,
		.max_send_sge = 2,
		.max_recv_sge = 1,
	};
	int err;

	if (ev->type == RD_FAB_EV_ESTABLISHED) {
		q->up = true;
		return;
	}
	if (ev->type != RD_FAB_EV_RESOLVED) {
		fprintf(stderr, "rdscale: qid %u: %s\n", q->qid, ev->reason);
		exit(1);
	}
	if (!b->cq)
		first_device(b, conn->dev);
	attr.send_cq = attr.recv_cq = b->cq;
	err = rd_fab_qp_create(conn, &attr);
	if (err)
		die("queue pair", err);
	for (uint32_t i = 0; i < q->entries; i++)
		post_recv(q, i);
	err = rd_fab_connect(conn, &param);
	if (err)
		die("connecting", err);
}

static void turn(struct bench *b)
{
	int rc = rd_loop_turn(b->loop, RD_NSEC_PER_SEC / 100);

	if (rc < 0)
		die("loop", rc);
}

static void wait_answer(struct queue *q)
{
	uint64_t end = rd_loop_now_raw(q->b->loop) + PATIENCE, before = q->done;

	while (q->done == before) {
		turn(q->b);
		if (rd_loop_now_raw(q->b->loop) > end)
			die("no answer", ETIMEDOUT);
	}
}

/* Returns the controller's ID. */
static uint16_t connect_queue(struct queue *q, uint16_t cntlid)
{
	struct bench *b = q->b;
	struct rd_fab_resolve_attr attr = {
		.dst = (struct sockaddr *)&b->addr, .on_event = on_event, .arg = q};
	struct nvmf_connect_data *data = (void *)b->data;
	struct nvmf_connect_sqe *con;
	int err = rd_fab_resolve(b->fab, &attr, &q->conn);

	if (err)
		die("resolving", err);
	while (!q->up)
		turn(b);
	memset(data, 0, sizeof(*data));
	data->hostid[0] = 1;
	data->cntlid = htole16(cntlid);
	snprintf(data->subsysnqn, sizeof(data->subsysnqn), "%s", b->nqn);
	strcpy(data->hostnqn,
	       "nqn.2014-08.org.nvmexpress:uuid:6c1f2ac1-0f0c-4a1b-9c0e-2f36f1f1f7a5");
	con = (void *)command(q, 0, NVMF_OPCODE);
	con->fctype = nvme_fabrics_type_connect;
	con->qid = htole16(q->qid);
	con->sqsize = htole16((uint16_t)(q->entries - 1));
	nvme_sgl_set_keyed(&con->sgl, rd_fab_remote_addr(b->mr, data), sizeof(*data), b->mr->rkey,
			   NVME_SGL_KEYED_ADDRESS);
	post_command(q, 0, 0);
	wait_answer(q);
	return (uint16_t)le32toh(q->last.result);
}

static void connect_all(struct bench *b)
{
	struct queue *admin = &b->queues[0];
	struct nvmf_property_sqe *prop;
	uint16_t cntlid = connect_queue(admin, NVMF_CNTLID_DYNAMIC);

	prop = (void *)command(admin, 0, NVMF_OPCODE);
	prop->fctype = nvme_fabrics_type_property_set;
	prop->offset = htole32(NVME_REG_CC);
	prop->value = htole64(0x00460001);
	post_command(admin, 0, 0);
	wait_answer(admin);
	for (uint32_t i = 1; i < b->nqueues; i++)
		connect_queue(&b->queues[i], cntlid);
}

/* ---- the target's side ---- */

static unsigned long status_kib(long pid, const char *key)
{
	char path[64], line[256];
	unsigned long v = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/status", pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0)
			v = strtoul(line + strlen(key) + 1, NULL, 10);
	if (f)
		fclose(f);
	return v;
}

static double cpu_seconds(long pid)
{
	unsigned long user = 0, sys = 0;
	char path[64], text[1024];
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	f = fopen(path, "r");
	if (f) {
		n = fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
	}
	text[n] = 0;
	if (n)
		sscanf(strrchr(text, ')') + 2,
		       "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &sys);
	return (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
}

static void show_memory(struct bench *b, const char *when)
{
	static unsigned long rss0, vsz0;
	unsigned long rss, vsz;
	double n = b->nqueues - 1;

	if (!b->pid)
		return;
	rss = status_kib(b->pid, "VmRSS");
	vsz = status_kib(b->pid, "VmSize");
	if (!rss0) {
		rss0 = rss;
		vsz0 = vsz;
	}
	printf("%-22s RSS %7lu KiB, %6.1f per queue pair; VSZ %8lu KiB, %6.1f per queue pair\n",
	       when, rss, (double)(rss - rss0) / n, vsz, (double)(vsz - vsz0) / n);
}

/* ---- measuring ---- */

static void quiesce(struct bench *b)
{
	for (uint32_t i = 1; i < b->nqueues; i++)
		b->queues[i].wanted = 0;
	for (uint32_t i = 1; i < b->nqueues; i++)
		while (b->queues[i].out)
			turn(b);
}

static double measure(struct bench *b, uint32_t busy, double seconds, double *cpu)
{
	uint32_t total = b->total ? b->total : b->depth * busy;
	uint64_t start, end, before;
	double cpu0;

	for (uint32_t i = 0; i < busy; i++) {
		struct queue *q = &b->queues[1 + i];

		q->wanted = total / busy + (i < total % busy);
		if (q->wanted > q->entries - 1)
			q->wanted = q->entries - 1;
		for (uint32_t slot = 0; slot < q->wanted; slot++)
			submit(q, slot);
	}
	start = rd_loop_now_raw(b->loop);
	while (rd_loop_now_raw(b->loop) - start < RD_NSEC_PER_SEC / 10)
		turn(b);
	before = b->ios;
	cpu0 = b->pid ? cpu_seconds(b->pid) : 0;
	start = rd_loop_now_raw(b->loop);
	do {
		turn(b);
		end = rd_loop_now_raw(b->loop);
	} while ((double)(end - start) < seconds * 1e9);
	before = b->ios - before;
	*cpu = b->pid ? (cpu_seconds(b->pid) - cpu0) / (double)before * 1e6 : 0;
	quiesce(b);
	return (double)before / ((double)(end - start) / 1e9);
}

static int by_value(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;

	return d < 0 ? -1 : d > 0;
}

static double median(double *v, uint32_t n)
{
	qsort(v, n, sizeof(*v), by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void run(struct bench *b)
{
	static double ops[MAX_COUNTS][MAX_ROUNDS], cpu[MAX_COUNTS][MAX_ROUNDS];
	double mid[MAX_COUNTS], best = 0;

	for (uint32_t r = 0; r < b->rounds; r++)
		for (uint32_t i = 0; i < b->ncounts; i++)
			ops[i][r] = measure(b, b->counts[i], b->seconds, &cpu[i][r]);
	for (uint32_t i = 0; i < b->ncounts; i++) {
		mid[i] = median(ops[i], b->rounds);
		best = mid[i] > best ? mid[i] : best;
	}
	for (uint32_t i = 0; i < b->ncounts; i++)
		printf("%4u busy of %u queues: %9.0f I/O per s (%.0f to %.0f), %.2f of the best; "
		       "target "
		       "%.2f us per I/O\n",
		       b->counts[i], b->nqueues - 1, mid[i], ops[i][0], ops[i][b->rounds - 1],
		       mid[i] / best, median(cpu[i], b->rounds));
}

/* ---- start ---- */

static void parse_counts(struct bench *b, char *text)
{
	b->ncounts = 0;
	for (char *p = strtok(text, ","); p && b->ncounts < MAX_COUNTS; p = strtok(NULL, ","))
		b->counts[b->ncounts++] = (uint32_t)strtoul(p, NULL, 10);
}

static void options(struct bench *b, int argc, char **argv)
{
	static const struct option longopts[] = {
		{"queues", 1, NULL, 'q'}, {"depth", 1, NULL, 'd'},
		{"total", 1, NULL, 't'},  {"entries", 1, NULL, 'e'},
		{"rounds", 1, NULL, 'r'}, {"seconds", 1, NULL, 's'},
		{"write", 0, NULL, 'w'},  {"pid", 1, NULL, 'p'},
		{"idle", 0, NULL, 'i'},   {0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", longopts, NULL)) != -1) {
		if (c == '?')
			exit(2);
		if (c == 'q')
			parse_counts(b, optarg);
		else if (c == 'd')
			b->depth = (uint32_t)strtoul(optarg, NULL, 10);
		else if (c == 't')
			b->total = (uint32_t)strtoul(optarg, NULL, 10);
		else if (c == 'e')
			b->entries = (uint32_t)strtoul(optarg, NULL, 10);
		else if (c == 'r')
			b->rounds = (uint32_t)strtoul(optarg, NULL, 10);
		else if (c == 's')
			b->seconds = strtod(optarg, NULL);
		else if (c == 'p')
			b->pid = strtol(optarg, NULL, 10);
		else if (c == 'w')
			b->write = true;
		else
			b->idle = true;
	}
	if (argc - optind != 3 ||
	    rd_addr_parse(argv[optind], (uint16_t)strtoul(argv[optind + 1], NULL, 10), &b->addr)) {
		fprintf(stderr, "usage: rdscale ADDRESS PORT NQN [OPTION]...\n");
		exit(2);
	}
	b->nqn = argv[optind + 2];
	if (!b->rounds || b->rounds > MAX_ROUNDS)
		b->rounds = 3;
}

static void lay_out(struct bench *b)
{
	uint8_t *at;

	for (uint32_t i = 0; i < b->ncounts; i++)
		b->nqueues = b->counts[i] + 1 > b->nqueues ? b->counts[i] + 1 : b->nqueues;
	b->len = queue_len(ADMIN) + queue_len(b->entries) * (b->nqueues - 1) + IO_BYTES;
	b->mem = mmap(NULL, b->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	b->queues = calloc(b->nqueues, sizeof(*b->queues));
	if (b->mem == MAP_FAILED || !b->queues)
		die("memory", ENOMEM);
	b->data = b->mem;
	at = b->mem + IO_BYTES;
	for (uint32_t i = 0; i < b->nqueues; i++) {
		struct queue *q = &b->queues[i];

		*q = (struct queue){.b = b, .qid = (uint16_t)i, .mem = at};
		q->entries = i ? b->entries : ADMIN;
		at += queue_len(q->entries);
	}
}

int main(int argc, char **argv)
{
	struct bench b = {.counts = {1, 16, 256, 1000},
			  .ncounts = 4,
			  .depth = 1,
			  .entries = 128,
			  .rounds = 3,
			  .seconds = 1};
	struct rd_loop_opts opts = {.spin_ns = RD_NSEC_PER_SEC};
	struct rlimit lim;
	int err;

	options(&b, argc, argv);
	if (!getrlimit(RLIMIT_NOFILE, &lim)) {
		lim.rlim_cur = lim.rlim_max;
		setrlimit(RLIMIT_NOFILE, &lim);
	}
	lay_out(&b);
	err = rd_loop_create(&opts, &b.loop);
	if (!err)
		err = rd_fab_iwarp_open(b.loop, NULL, &b.fab);
	if (err)
		die("opening iwarp", err);
	show_memory(&b, "before");
	connect_all(&b);
	show_memory(&b, "connected");
	if (b.idle) {
		printf("connected\n");
		fflush(stdout);
		while (getchar() != EOF)
			;
	} else {
		run(&b);
		show_memory(&b, "after the load");
	}
	return 0; /* the kernel closes what is open */
}
