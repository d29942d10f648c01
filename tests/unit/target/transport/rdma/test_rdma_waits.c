/* SPDX-License-Identifier: BSD-3-Clause */
/* The RDMA transport: capsules that wait, hosts that stand still, and turns of a reactor that is
 * late. */
#include "t_rdma.h"

#include <semaphore.h>
#include <string.h>

#include "target/reactor/lifecycle.h"
#include "target/transport/rdma/rdma.h"

#define POOL 16u /* RECVs of I/O queues: the minimum */

/* A write with its data, which will wait. */
static void send_slow_write(struct t_rdma_host *h)
{
	struct nvme_sqe sqe;

	t_rdma_command(h, &sqe, nvme_cmd_write, NULL, 0);
	sqe.nsid = htole32(2);
	memset(&sqe.sgl, 0, sizeof(sqe.sgl));
	sqe.sgl.data.length = htole32(512);
	sqe.sgl.data.type = NVME_SGL_IN_CAPSULE;
	t_rdma_host_send(h, &sqe, NVME_SQE_SIZE + 512);
}

struct in_use {
	unsigned int io_qpairs;
	unsigned int capsules;
	uint64_t buffer_bytes;
};

/* Ask the reactors; the host's loop does not turn meanwhile. */
static struct in_use look(struct t_rdma_server *s)
{
	struct in_use sum = {0};
	unsigned int capsules = 0;

	rdt_target_status(s->t);
	while (s->t->status_left)
		rd_loop_turn(s->loop, RD_NSEC_PER_MSEC);
	for (unsigned int i = 0; i < s->t->reactors_count; i++) {
		sum.io_qpairs += s->t->reactors[i].status.io_qpairs;
		CU_ASSERT_EQUAL(sscanf(s->t->reactors[i].status.transports, " mrs=%*u capsules=%u",
				       &capsules),
				1);
		sum.capsules += capsules;
		sum.buffer_bytes += s->t->reactors[i].status.buffer_bytes;
	}
	return sum;
}

#define look_until(s, cond)                                                         \
	do {                                                                        \
		uint64_t end_ = rd_loop_now_raw((s)->loop) + T_RDMA_PATIENCE;       \
		struct in_use now;                                                  \
		while (now = look(s), !(cond) && rd_loop_now_raw((s)->loop) < end_) \
			;                                                           \
		CU_ASSERT_TRUE(cond);                                               \
	} while (0)

/* As t_rdma_assoc_open(), but the host's loop turns only when the test turns it. */
static void assoc_open_apart(struct t_rdma_assoc *a, uint32_t recvs)
{
	struct rd_loop_opts opts = {.seed = 2};
	struct t_rdma_server *s = &a->s;
	uint16_t cntlid;

	t_rdma_server_start_with(s, 2, recvs);
	rd_fab_close(&s->fab);
	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&opts, &s->host_loop), 0);
	CU_ASSERT_EQUAL_FATAL(rd_fab_iwarp_open(s->host_loop, NULL, &s->fab), 0);
	t_rdma_host_start(&a->admin, s, T_HOST, 0, &cntlid);
	t_rdma_host_start(&a->io, s, T_HOST, 1, &cntlid);
}

static void assoc_close_apart(struct t_rdma_assoc *a)
{
	struct t_rdma_server *s = &a->s;

	t_rdma_host_close(&a->io);
	t_rdma_host_close(&a->admin);
	look_until(s, now.io_qpairs == 0); /* otherwise a drain would wait for its slow writes */
	rd_fab_close(&s->fab);
	rd_loop_destroy(&s->host_loop);
	t_rdma_server_stop(s);
}

/* One check by the stall watchdog. */
static void later(struct t_rdma_server *s)
{
	t_rdma_skipped_ns += 2 * RD_NSEC_PER_SEC;
	/* A reactor answers before it runs its timers: when it answers again, it has run them. */
	look(s);
	look(s);
}

/* So long that a host that moves no data loses its connection. */
static void stall(struct t_rdma_server *s)
{
	for (int i = 0; i < 13; i++)
		later(s);
}

/* A host that answers no READ holds buffers that others need, but not without limit. */
static void stalled_host(void)
{
	struct nvme_sqe sqe;
	struct t_rdma_assoc a;
	struct t_rdma_server *s = &a.s;
	unsigned int before;

	assoc_open_apart(&a, 0);
	t_rdma_send_io(&a.io, nvme_cmd_write, 0);
	rd_loop_turn(s->host_loop, 0); /* the answers are not processed */
	look_until(s, now.buffer_bytes == T_MDTS);
	/* The watchdog counts checks, not time; and no other host waits here. */
	t_rdma_skipped_ns += 60 * RD_NSEC_PER_SEC;
	for (int i = 0; i < 5; i++)
		later(s);
	look_until(s, now.buffer_bytes == T_MDTS && now.io_qpairs == 1);
	stall(s);
	look_until(s, now.buffer_bytes == 0 && now.io_qpairs == 0);
	/* The admin queue has nothing outstanding: it stays. */
	t_rdma_command(&a.admin, &sqe, nvme_admin_keep_alive, NULL, 0);
	before = a.admin.answers;
	t_rdma_host_send(&a.admin, &sqe, NVME_SQE_SIZE);
	t_rdma_wait_for(s, a.admin.answers == before + 1);
	assoc_close_apart(&a);
}

/* The number of reactors whose watchdog runs. */
static unsigned int watching(const struct t_rdma_server *s)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < s->t->reactors_count; i++) {
		const struct rdt_rdma *rdma = rdt_rdma_of(&s->t->reactors[i]);

		CU_ASSERT(!rdma->out || rd_timer_armed(&rdma->stall));
		n += rd_timer_armed(&rdma->stall);
	}
	return n;
}

/* Without transfers in flight the watchdog does not run: an idle reactor is not woken for it. */
static void idle_is_not_watched(void)
{
	struct t_rdma_assoc a;
	struct t_rdma_server *s = &a.s;
	unsigned int before;

	assoc_open_apart(&a, 0);
	later(s);
	before = a.io.answers;
	t_rdma_send_io(&a.io, nvme_cmd_write, 0);
	rd_loop_turn(s->host_loop, 0);
	look_until(s, now.buffer_bytes == T_MDTS);
	CU_ASSERT_EQUAL(watching(s), 1);
	t_rdma_wait_for(s, a.io.answers == before + 1);
	look_until(s, now.buffer_bytes == 0);
	later(s);
	CU_ASSERT_EQUAL(watching(s), 0);
	assoc_close_apart(&a);
}

/* The host has answered, but behind commands that the target does not take yet. */
static void held_back_host(void)
{
	struct t_rdma_assoc a;
	struct t_rdma_server *s = &a.s;

	assoc_open_apart(&a, 0);
	t_rdma_send_io(&a.io, nvme_cmd_write, 0);
	a.io.capsule += T_RDMA_CAPSULE;
	for (unsigned int i = 0; i <= POOL; i++)
		send_slow_write(&a.io); /* all alike */
	rd_loop_turn(s->host_loop, 0);
	look_until(s, now.capsules == POOL * 3 / 4 && now.buffer_bytes == T_MDTS);
	for (unsigned int i = 0; i < 10; i++)
		rd_loop_turn(s->host_loop, RD_NSEC_PER_MSEC);
	stall(s);
	CU_ASSERT_EQUAL(look(s).io_qpairs, 1);
	CU_ASSERT_EQUAL(look(s).buffer_bytes, T_MDTS);
	assoc_close_apart(&a);
}

static uint16_t read_block(struct t_rdma_host *h)
{
	struct nvme_sqe sqe;

	t_rdma_command(h, &sqe, nvme_cmd_read, h->data, 512);
	sqe.nsid = htole32(1);
	return t_rdma_answer(h, &sqe);
}

/* The commands of one host wait with their data, on two queues, and are more than there are RECVs:
 * other hosts make progress. Twice, since nothing may be left counted of a host that
 * disconnected. */
static void capsules_are_shared(void)
{
	struct t_rdma_host slow[3], other[2];
	struct t_rdma_server s;
	uint16_t cntlid;

	t_rdma_server_start_with(&s, 1, 0);
	for (unsigned int pass = 0; pass < 2; pass++) {
		for (uint16_t i = 0; i < 3; i++)
			t_rdma_host_start(&slow[i], &s, T_HOST, i, &cntlid);
		for (unsigned int i = 0; i < POOL; i++) {
			send_slow_write(&slow[1]);
			send_slow_write(&slow[2]);
		}
		look_until(&s, now.capsules >= POOL * 3 / 4);
		for (uint16_t i = 0; i < 2; i++)
			t_rdma_host_start(&other[i], &s, T_HOST2, i, &cntlid);
		for (unsigned int i = 0; i < 2 * POOL; i++)
			CU_ASSERT_EQUAL_FATAL(read_block(&other[1]), 0);
		CU_ASSERT_EQUAL(look(&s).capsules, POOL * 3 / 4);
		for (unsigned int i = 0; i < 2; i++)
			t_rdma_host_close(&other[i]);
		for (unsigned int i = 0; i < 3; i++)
			t_rdma_host_close(&slow[i]);
		look_until(&s, now.io_qpairs == 0 && now.capsules == 0);
	}
	t_rdma_server_stop(&s);
}

/* The RECVs that I/O queues share: on the reactor that has the one I/O queue. */
static uint32_t io_recvs(const struct t_rdma_server *s)
{
	uint32_t n = 0;

	for (unsigned int i = 0; i < s->t->reactors_count; i++) {
		const struct rdt_rdma_dev *rdev =
			SLIST_FIRST(&rdt_rdma_of(&s->t->reactors[i])->devs);

		if (rdev && rdev->pools[0]->total > n)
			n = rdev->pools[0]->total;
	}
	return n;
}

/* As many commands at once as the queue has entries, each of which completes soon: there are enough
 * RECVs for all of them from the next time on. */
static void capsules_of_a_burst(void)
{
	struct nvme_sqe sqe;
	struct t_rdma_assoc a;
	struct t_rdma_server *s = &a.s;
	unsigned int before;

	assoc_open_apart(&a, 2 * T_RDMA_DEPTH);
	CU_ASSERT_EQUAL(io_recvs(s), T_RDMA_DEPTH);
	before = a.io.answers;
	t_rdma_command(&a.io, &sqe, nvme_cmd_flush, NULL, 0);
	sqe.nsid = htole32(1);
	for (unsigned int i = 0; i < T_RDMA_DEPTH - 1; i++)
		t_rdma_host_send(&a.io, &sqe, NVME_SQE_SIZE); /* all alike; they leave together */
	t_rdma_wait_for(s, a.io.answers == before + T_RDMA_DEPTH - 1);
	look(s);
	CU_ASSERT_EQUAL(io_recvs(s), 2 * T_RDMA_DEPTH);
	assoc_close_apart(&a);
}

/* A reactor stands still while hosts connect. @accepted: by the turn of its loop after that. */
struct still {
	struct rdt_reactor *r;
	struct rd_msg stop, probe;
	sem_t go;
	unsigned int turns, accepted; /* the reactor's until it has been stopped */
};

static void stand_still(struct rd_msg *msg)
{
	sem_wait(&rd_container_of(msg, struct still, stop)->go);
}

static void count_accepted(struct rd_msg *msg)
{
	struct still *still = rd_container_of(msg, struct still, probe);

	if (still->turns++ == 0)
		rd_loop_post(still->r->loop, msg); /* again in the next turn */
	else
		still->accepted = still->r->qpairs_count;
}

/* When the listener goes, connections that wait for their turn end as well. */
static void accepted_in_batches(bool leave)
{
	struct rdt_listeners_change done = {0};
	struct rdt_config none = {0};
	enum { HOSTS = 60 };
	struct t_rdma_host h[HOSTS];
	struct still still = {.stop.fn = stand_still, .probe.fn = count_accepted};
	struct t_rdma_server s;

	t_rdma_server_start_with(&s, 1, 0);
	still.r = s.t->reactors;
	sem_init(&still.go, 0, 0);
	rd_loop_post(still.r->loop, &still.stop);
	for (unsigned int i = 0; i < HOSTS; t_rdma_host_reach(&h[i++]))
		t_rdma_host_init(&h[i], &s, 1);
	t_rdma_wait_for(&s, atomic_load(&still.r->load) == HOSTS);
	rd_loop_post(still.r->loop, &still.probe);
	if (leave)
		rdt_listeners_set(s.t, &none, false, NULL, NULL, &done);
	sem_post(&still.go);
	for (unsigned int i = 0; i < HOSTS; i++)
		t_rdma_wait_for(
			&s, h[i].event == (leave ? RD_FAB_EV_DISCONNECTED : RD_FAB_EV_ESTABLISHED));
	for (unsigned int i = 0; i < HOSTS; i++)
		t_rdma_host_close(&h[i]);
	t_rdma_server_stop(&s);
	CU_ASSERT_EQUAL(still.accepted > 0 && still.accepted <= 4, !leave);
	sem_destroy(&still.go);
}

static void accepts_in_batches(void)
{
	accepted_in_batches(false);
	accepted_in_batches(true);
}

struct going_on {
	struct rd_msg msg;
	struct rdt_reactor *r;
	sem_t done;
	uint64_t now, seen;
};

static void go_on(struct rd_msg *msg)
{
	struct going_on *g = rd_container_of(msg, struct going_on, msg);

	g->now = rd_loop_now(g->r->loop);
	g->seen = g->r->heartbeat_seen;
	sem_post(&g->done);
}

/* A reactor looks for how long it has stood still before anything else, messages included. */
static void looks_before_it_goes_on(void)
{
	struct going_on g = {.msg.fn = go_on};
	struct t_rdma_assoc a T_ENDS(t_rdma_assoc_close);

	t_rdma_assoc_open(&a, 16);
	g.r = &a.s.t->reactors[SLIST_EMPTY(&rdt_rdma_of(&a.s.t->reactors[0])->devs)];
	sem_init(&g.done, 0, 0);
	rd_loop_post(g.r->loop, &g.msg);
	sem_wait(&g.done);
	CU_ASSERT_EQUAL(g.seen, g.now);
	sem_destroy(&g.done);
}

/* Another reactor has noticed that this one stood still, maybe within its turn: it looks again
 * before it takes a command. */
static void looks_before_each_command(void)
{
	struct t_rdma_assoc a T_ENDS(t_rdma_assoc_close);
	struct rdt_reactor *r;
	struct nvme_sqe sqe;

	t_rdma_assoc_open(&a, 16);
	r = &a.s.t->reactors[SLIST_EMPTY(&rdt_rdma_of(&a.s.t->reactors[0])->devs)];
	atomic_store(&r->heartbeat_asked, true);
	t_rdma_command(&a.admin, &sqe, nvme_admin_keep_alive, NULL, 0);
	CU_ASSERT_EQUAL(t_rdma_answer(&a.admin, &sqe), 0);
	CU_ASSERT_FALSE(atomic_load(&r->heartbeat_asked));
}

const struct t_case t_rdma_waits_cases[] = {
	{"a host that moves no data loses its connection", stalled_host},
	{"who has nothing outstanding is not watched", idle_is_not_watched},
	{"a host that is held back does not lose its connection", held_back_host},
	{"commands that wait leave capsules for other hosts", capsules_are_shared},
	{"a queue full of commands at once gets RECVs for all", capsules_of_a_burst},
	{"many connections at once are accepted over many loop iterations", accepts_in_batches},
	{"a reactor looks whether it stood still before anything else", looks_before_it_goes_on},
	{"a reactor that was noticed to stand still looks again", looks_before_each_command},
	{NULL, NULL},
};
