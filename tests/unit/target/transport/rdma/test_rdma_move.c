/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections over iwarp that go from one target to another and back, with reactors of real threads
 * and commands on their way at each moment. */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "t_rdma.h"
#include "util/fd_bag.h"
#include "target/nvmf/hold.h"
#include "target/nvmf/move.h"

struct two_targets {
	struct t_rdma_assoc a;
	struct t_rdma_server b;
	bool told;
	int err;
};

static void note_told(void *arg, int err, const char *why)
{
	struct two_targets *w = arg;

	w->told = true;
	w->err = err;
	if (err)
		CU_FAIL(why);
}

static void await_told(struct two_targets *w)
{
	uint64_t end = rd_loop_now_raw(w->a.s.loop) + T_RDMA_PATIENCE;

	while (!w->told && rd_loop_now_raw(w->a.s.loop) < end) {
		rd_loop_turn(w->a.s.loop, RD_NSEC_PER_MSEC);
		rd_loop_turn(w->b.loop, 0);
	}
	CU_ASSERT_TRUE_FATAL(w->told);
	CU_ASSERT_EQUAL_FATAL(w->err, 0);
	w->told = false;
}

/* The second target stands for the first one's address, without listening. */
static void open_two(struct two_targets *w, bool crc)
{
	const struct rd_fab_iwarp_opts opts = {.crc = crc};
	struct t_rdma_server *s = &w->a.s;
	struct rdt_listener *l;
	uint16_t cntlid;

	memset(w, 0, sizeof(*w));
	t_rdma_server_start(s);
	rd_fab_close(&s->fab);
	CU_ASSERT_EQUAL_FATAL(rd_fab_iwarp_open(s->loop, &opts, &s->fab), 0);
	t_rdma_host_start(&w->a.admin, s, T_HOST, 0, &cntlid);
	t_rdma_host_start(&w->a.io, s, T_HOST, 1, &cntlid);
	t_rdma_server_start(&w->b);
	l = TAILQ_FIRST(&w->b.t->listeners);
	l->transport->unlisten(l);
	rdt_listener_bound(l, &TAILQ_FIRST(&s->t->listeners)->addr);
}

static void close_two(struct two_targets *w)
{
	t_rdma_host_close(&w->a.io);
	t_rdma_host_close(&w->a.admin);
	t_rdma_server_stop(&w->b);
	t_rdma_server_stop(&w->a.s);
}

/* They would have the controller ID when it comes back. */
static bool has_ctrls(struct rdt_target *t)
{
	struct rdt_subsys *ss = t->subsys[0];
	bool any;

	pthread_mutex_lock(&ss->lock);
	any = !TAILQ_EMPTY(&ss->ctrls);
	pthread_mutex_unlock(&ss->lock);
	return any;
}

static void begin_to_hold(struct two_targets *w, struct rdt_target *from)
{
	CU_ASSERT_EQUAL_FATAL(rdt_hold(from, 5 * RD_NSEC_PER_SEC, false, note_told, w), 0);
}

static void move_held(struct two_targets *w, struct rdt_target *from, struct rdt_target *to)
{
	json_t *records = json_array();
	struct rd_fd_bag fds;

	rd_fd_bag_init(&fds, 16);
	await_told(w);
	CU_ASSERT_EQUAL(rdt_move_counted(from).queues, 2);
	CU_ASSERT_EQUAL_FATAL(rdt_move_out(from, RDT_MOVE_ALL, records, &fds), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_move_in(to, records, &fds, note_told, w), 0);
	await_told(w);
	CU_ASSERT_EQUAL(rdt_move_in_counted(to).queues, 2);
	CU_ASSERT_EQUAL(rdt_move_in_counted(to).left, 0);
	rdt_move_done(from);
	rdt_move_start(to);
	json_decref(records);
	rd_fd_bag_clear(&fds);
	for (int i = 0; (from->hold || to->move_in || has_ctrls(from)) && i < 10000; i++) {
		rd_loop_turn(w->a.s.loop, RD_NSEC_PER_MSEC);
		rd_loop_turn(w->b.loop, 0);
	}
	CU_ASSERT_PTR_NULL_FATAL(from->hold);
	CU_ASSERT_PTR_NULL_FATAL(to->move_in);
}

static void move_to(struct two_targets *w, struct rdt_target *from, struct rdt_target *to)
{
	begin_to_hold(w, from);
	move_held(w, from, to);
}

static void await_answers(struct two_targets *w, unsigned int count)
{
	struct t_rdma_host *io = &w->a.io;
	uint64_t end = rd_loop_now_raw(w->a.s.loop) + T_RDMA_PATIENCE;

	while (io->answers < count && rd_loop_now_raw(w->a.s.loop) < end) {
		rd_loop_turn(w->a.s.loop, RD_NSEC_PER_MSEC);
		rd_loop_turn(w->b.loop, 0);
	}
	CU_ASSERT_EQUAL_FATAL(io->answers, count);
	CU_ASSERT_EQUAL(io->ok, count);
	CU_ASSERT_EQUAL(io->event, RD_FAB_EV_ESTABLISHED);
}

static void ask_for_event(struct two_targets *w)
{
	struct nvme_sqe sqe;

	t_rdma_command(&w->a.admin, &sqe, nvme_admin_set_features, NULL, 0);
	sqe.cdw10 = htole32(NVME_FEAT_FID_ASYNC_EVENT);
	sqe.cdw11 = htole32(0x100);
	CU_ASSERT_EQUAL(t_rdma_answer(&w->a.admin, &sqe), 0);
	t_rdma_command(&w->a.admin, &sqe, nvme_admin_async_event, NULL, 0);
	t_rdma_host_send(&w->a.admin, &sqe, NVME_SQE_SIZE);
}

/* Every command is answered once, with success, and the AER waits all the time. */
static void iwarp_connections_move(bool crc, unsigned int each)
{
	enum { ROUNDS = 20 };
	struct rdt_target *from, *to;
	struct two_targets w;
	unsigned int sent = 1; /* the Connect */

	open_two(&w, crc);
	ask_for_event(&w);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		from = round % 2 ? w.b.t : w.a.s.t;
		to = round % 2 ? w.a.s.t : w.b.t;
		for (unsigned int i = 0; i < each; i++, sent++)
			t_rdma_send_io(&w.a.io, i % 2 ? nvme_cmd_write : nvme_cmd_read, i % 16);
		move_to(&w, from, to);
		await_answers(&w, sent);
	}
	CU_ASSERT_EQUAL(w.a.admin.answers, 3); /* the Connect, CC and the feature */
	rdt_event_subsys(w.a.s.t->subsys[0], RDT_EV_NS_ATTR, 1);
	t_rdma_wait_for(&w.a.s, w.a.admin.answers == 4);
	close_two(&w);
}

static void few_commands_move(void)
{
	iwarp_connections_move(false, 8);
}

/* More than there are RECVs: messages wait for one when the hold comes. */
static void many_commands_move(void)
{
	iwarp_connections_move(false, T_RDMA_DEPTH - 1);
	iwarp_connections_move(true, T_RDMA_DEPTH - 1);
}

static void send_half(struct two_targets *w, uint8_t opcode, uint8_t fuse)
{
	struct t_rdma_host *io = &w->a.io;
	struct nvme_sqe sqe;

	t_rdma_command(io, &sqe, opcode, io->data, 512);
	sqe.flags |= fuse;
	sqe.nsid = htole32(1);
	t_rdma_host_send(io, &sqe, NVME_SQE_SIZE);
}

/* A look at the queues of a reactor, by its own thread. */
struct look {
	struct rd_msg msg;
	const struct rdt_reactor *r;
	enum rdt_qp_state state;
	atomic_int found; /* -1: not yet */
};

static void look_for_half(struct rd_msg *msg)
{
	struct look *look = rd_container_of(msg, struct look, msg);
	const struct rdt_qpair *qp;
	int n = 0;

	TAILQ_FOREACH (qp, &look->r->qpairs, link)
		n += qp->fused && qp->state == look->state;
	atomic_store(&look->found, n);
}

/* Does the first half of a pair wait for the second one, in a queue in @state? */
static bool half_waits(struct rdt_target *t, enum rdt_qp_state state)
{
	int n = 0;

	for (unsigned int i = 0; i < t->reactors_count; i++) {
		struct look look = {{.fn = look_for_half}, &t->reactors[i], state, -1};

		rd_loop_post(t->reactors[i].loop, &look.msg);
		while (atomic_load(&look.found) < 0)
			sched_yield();
		n += atomic_load(&look.found);
	}
	return n;
}

/* The hold comes between the halves of a pair: the second one is delivered, the pair executed, and
 * what is behind it begins in the other target. */
static void a_fused_pair_is_completed(void)
{
	unsigned int sent = 1; /* the Connect */
	struct two_targets w;

	open_two(&w, false);
	memset(w.a.io.data, 0, 512);
	send_half(&w, nvme_cmd_compare, NVME_CMD_FUSE_FIRST);
	t_rdma_wait_for(&w.a.s, half_waits(w.a.s.t, RDT_QP_LIVE));
	begin_to_hold(&w, w.a.s.t);
	t_rdma_wait_for(&w.a.s, half_waits(w.a.s.t, RDT_QP_HOLDING));
	send_half(&w, nvme_cmd_write, NVME_CMD_FUSE_SECOND);
	for (sent += 2; sent < T_RDMA_DEPTH / 2; sent++)
		t_rdma_send_io(&w.a.io, sent % 2 ? nvme_cmd_write : nvme_cmd_read, sent % 16);
	move_held(&w, w.a.s.t, w.b.t);
	await_answers(&w, sent);
	close_two(&w);
}

const struct t_case t_rdma_move_cases[] = {
	{"connections move there and back with commands in flight", few_commands_move},
	{"full queues move there and back", many_commands_move},
	{"a fused pair is completed", a_fused_pair_is_completed},
	{NULL, NULL},
};
