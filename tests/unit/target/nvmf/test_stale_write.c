/* SPDX-License-Identifier: BSD-3-Clause */
/* Hosts that reconnect while the storage still executes their writes. */
#include <string.h>

#include "t_stale.h"

#define T_MANY 24u

/* A write that its host lost with the connection must not be executed after the host's later
 * writes. */
static void comes_back_to_its_writes(void)
{
	static uint8_t buf[512];

	for (unsigned int reactor = 0; reactor < 2; reactor++) {
		T_PAIR(p);
		struct t_disk *d = &p.env->disk[0];
		struct t_conn *admin, *other, *off, *lost;
		struct nvmf_connect_data data;
		struct nvme_sqe sqe;
		uint16_t cntlid;

		d->hold = true;
		t_send_rw(p.io, true, 0, 1, buf);
		t_turn(p.env);
		CU_ASSERT_EQUAL_FATAL(d->held_count, 1);
		/* While it is alive, another association of the host is a second path. */
		CU_ASSERT_TRUE(t_is_ready(t_comes_back(p.env, 1 - reactor, 0x11)));
		t_conn_cut(p.io);
		t_conn_cut(p.admin);
		t_turn(p.env);
		CU_ASSERT_EQUAL(d->held_count, 1);

		admin = t_comes_back(p.env, reactor, 0x11);
		CU_ASSERT_FALSE(t_is_ready(admin));
		cntlid = admin->qp.ctrl->cntlid;
		p.io = t_conn_new(p.env, 1, 1, 16);
		t_connect_sqe(p.io, &sqe, &data, cntlid);
		CU_ASSERT_EQUAL(t_exec_status(p.io, &sqe), NVME_SC_CMD_SEQ_ERROR);
		other = t_comes_back(p.env, reactor, 0x22);
		CU_ASSERT_TRUE(t_is_ready(other));
		/* One is reset meanwhile, and one is lost. */
		off = t_comes_back(p.env, 1 - reactor, 0x11);
		t_set_property(off, NVME_REG_CC, 0x00460000);
		lost = t_comes_back(p.env, reactor, 0x11);
		t_conn_cut(lost);
		t_turn(p.env);

		CU_ASSERT_FALSE(t_is_ready(admin));
		d->hold = false;
		t_turn(p.env);
		CU_ASSERT_EQUAL(d->held_count, 0);
		CU_ASSERT_TRUE(t_is_ready(admin));
		CU_ASSERT_FALSE(t_is_ready(off));
		t_enable(off);
		p.io = t_conn_new(p.env, 1, 1, 16);
		CU_ASSERT_EQUAL(t_connect(p.io, cntlid), cntlid);
	}
}

/*
 * A host left a write to namespace 1 in flight, on a disk that hangs, and reconnected. The new
 * controller becomes ready after the time limit.
 */
struct back {
	struct t_pair p; /* the present connection */
	struct t_disk *hangs, *works;
};

static uint8_t other_data[512];

static void new_queue(struct back *b)
{
	b->p.io = t_conn_new(b->p.env, 1, 1, 16);
	CU_ASSERT_EQUAL(t_connect(b->p.io, b->p.cntlid), b->p.cntlid);
}

static void wait_until_ready(struct back *b, unsigned int reactor)
{
	b->p.admin = t_comes_back(b->p.env, reactor, 0x11);
	CU_ASSERT_FALSE(t_is_ready(b->p.admin));
	t_advance(b->p.env, RDT_FENCE_READY_WAIT - 1);
	CU_ASSERT_FALSE(t_is_ready(b->p.admin));
	t_advance(b->p.env, 1);
	CU_ASSERT_TRUE(t_is_ready(b->p.admin));
	b->p.cntlid = b->p.admin->qp.ctrl->cntlid;
	new_queue(b);
}

static struct back back_new(void)
{
	struct back b = {.p = t_pair_new()};
	struct nvme_sqe sqe;

	b.hangs = &b.p.env->disk[0];
	b.works = &b.p.env->disk[1];
	memset(t_old_data, 0xaa, sizeof(t_old_data));
	memset(t_new_data, 0xbb, sizeof(t_new_data));
	b.hangs->hold = b.works->hold = true;
	t_send_rw(b.p.io, true, 0, 1, t_old_data);
	t_rw_sqe(b.p.io, &sqe, false, 0, 1, other_data); /* which cannot overwrite anything */
	sqe.nsid = htole32(5);
	t_begin(b.p.io, &sqe);
	CU_ASSERT_EQUAL(b.hangs->held_count + b.works->held_count, 2);
	b.p.io->hold_fetch = true;
	t_rw_sqe(b.p.io, &sqe, true, 0, 1, t_old_data); /* nor can this: no data arrives */
	sqe.nsid = htole32(5);
	t_begin(b.p.io, &sqe);
	CU_ASSERT_EQUAL(b.p.io->fetches_count, 1);
	t_conn_cut(b.p.admin);
	t_turn(b.p.env);

	wait_until_ready(&b, 0);
	b.works->hold = false;
	t_turn(b.p.env);
	CU_ASSERT_EQUAL(b.hangs->held_count, 1);
	return b;
}

static void back_free(struct back *b)
{
	b->hangs->hold = false;
	t_pair_free(&b->p);
}

/* Send a write of the new data to namespace 1, which has to wait. */
static struct nvme_sqe waiting_write(struct back *b)
{
	unsigned int limited = b->p.env->t->reactors[1].limited;
	struct nvme_sqe sqe;

	t_rw_sqe(b->p.io, &sqe, true, 0, 1, t_new_data);
	t_send(b->p.io, &sqe, NULL, 0);
	t_advance(b->p.env, RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(t_answers(b->p.io), 0);
	CU_ASSERT_EQUAL(b->hangs->held_count, 1);
	CU_ASSERT_EQUAL(b->p.env->t->reactors[1].limited, limited + 1);
	return sqe;
}

/* Storage that hangs blocks its host in one namespace only. */
static void the_others_work(void)
{
	struct back b T_ENDS(back_free) = back_new();
	struct nvme_sqe sqe;
	struct t_answer a;

	for (int write = 0; write < 2; write++) {
		t_rw_sqe(b.p.io, &sqe, write, 0, 1, other_data);
		sqe.nsid = htole32(5);
		CU_ASSERT_EQUAL(t_exec_status(b.p.io, &sqe), 0);
	}
	waiting_write(&b);
	a = t_exec(b.p.io, &sqe); /* not behind it, either */
	CU_ASSERT_EQUAL(t_status(&a), 0);
}

/* However long the old write takes, the host's later writes are executed after it. */
static void newer_data_comes_last(void)
{
	struct back b T_ENDS(back_free) = back_new();
	uint8_t got[512] = {0};
	struct nvme_sqe read;

	waiting_write(&b);
	t_rw_sqe(b.p.io, &read, false, 0, 1, got);
	t_send(b.p.io, &read, NULL, 0);
	t_advance(b.p.env, 3600 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(b.hangs->held_count, 1);
	t_disk_finish(b.hangs, 0, 0);
	CU_ASSERT_EQUAL(b.hangs->data[0], 0xaa);
	b.hangs->hold = false;
	t_turn(b.p.env);
	t_advance(b.p.env, RD_NSEC_PER_SEC);
	for (int i = 0; i < 2; i++) { /* in any order: the write fetches its data first */
		CU_ASSERT_EQUAL(t_answer_status(b.p.io), 0);
	}
	CU_ASSERT_EQUAL(memcmp(b.hangs->data, t_new_data, sizeof(t_new_data)), 0);
	/* From now on nothing waits. */
	CU_ASSERT_EQUAL(t_exec_status(b.p.io, &read), 0);
	CU_ASSERT_EQUAL(memcmp(got, t_new_data, sizeof(got)), 0);
	CU_ASSERT_EQUAL(b.p.env->t->reactors[1].limited, 0);
}

/* A waiting pair would hold up its queue, so the host is told to retry it. */
static void fused_ones_come_again(void)
{
	struct back b T_ENDS(back_free) = back_new();
	struct nvme_sqe sqe;
	struct t_answer a;

	for (int second = 0; second < 2; second++) {
		t_rw_sqe(b.p.io, &sqe, true, 0, 1, t_new_data);
		sqe.opcode = second ? nvme_cmd_write : nvme_cmd_compare;
		sqe.flags |= second ? NVME_CMD_FUSE_SECOND : NVME_CMD_FUSE_FIRST;
		a = t_exec(b.p.io, &sqe);
		CU_ASSERT_EQUAL(t_status(&a), second ? NVME_SC_FUSED_FAIL : NVME_SC_NS_NOT_READY);
		CU_ASSERT_EQUAL(t_dnr(&a), second);
	}
}

/* Of the waiting commands one is aborted, one loses its connection, and one its namespace. */
static void ends_while_it_waits(void)
{
	struct back b T_ENDS(back_free) = back_new();
	struct nvme_sqe write = waiting_write(&b);
	struct t_answer a = t_abort(b.p.admin, 1, write.cid);

	CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, 0);
	CU_ASSERT_EQUAL(t_answer_status(b.p.io), NVME_SC_ABORT_REQ);

	waiting_write(&b);
	t_conn_cut(b.p.io);
	t_turn(b.p.env);
	CU_ASSERT_EQUAL(b.p.env->t->reactors[1].limited, 0);

	new_queue(&b);
	waiting_write(&b);
	rdt_control_ns_remove(t_ns_of(b.p.env->t->subsys[0], 1), NULL, NULL);
	t_turn(b.p.env);
	CU_ASSERT_EQUAL(t_answer_status(b.p.io), NVME_SC_INVALID_NS);
}

/* Commands that leave the fence then wait for their limit. Write Zeroes needs no buffer after
 * that. */
static void a_limit_comes_behind_the_fence(void)
{
	struct back b T_ENDS(back_free) = back_new();
	struct rdt_qos_config cfg = {.limits[RDT_QOS_IOPS] = 1};
	const struct rdt_reactor *r = &b.p.env->t->reactors[1];
	struct nvme_sqe sqe;

	rdt_qos_set_ns(t_ns_of(b.p.env->t->subsys[0], 1), &cfg);
	for (unsigned int i = 0; i < 2; i++) {
		t_sqe(b.p.io, &sqe, nvme_cmd_write_zeroes, NULL, 0);
		sqe.nsid = htole32(1);
		t_send(b.p.io, &sqe, NULL, 0);
	}
	t_turn(b.p.env);
	CU_ASSERT_EQUAL(r->limited, 2);
	CU_ASSERT_FALSE(TAILQ_EMPTY(&r->behind_fence));
	b.hangs->hold = false;
	t_turn(b.p.env);
	t_advance(b.p.env, 100 * RD_NSEC_PER_MSEC);
	CU_ASSERT_TRUE(TAILQ_EMPTY(&r->behind_fence));
	CU_ASSERT_EQUAL(r->limited, 1);
	CU_ASSERT_EQUAL_FATAL(t_answers(b.p.io), 1);
	t_advance(b.p.env, 2 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(r->limited, 0);
	CU_ASSERT_EQUAL_FATAL(t_answers(b.p.io), 2);
	for (unsigned int i = 0; i < 2; i++) {
		struct t_answer a = t_answer(b.p.io);

		CU_ASSERT_EQUAL(t_status(&a), 0);
	}
}

/* The host's other controller has died with writes in flight while the command waited. */
static void the_fence_is_asked_again_behind_a_limit(void)
{
	struct back b T_ENDS(back_free) = back_new();
	struct rdt_ctrl *ctrl = b.p.admin->qp.ctrl;
	const struct rdt_ns *ns = t_ns_of(b.p.env->t->subsys[0], 5);
	struct rdt_qos_config cfg = {.limits[RDT_QOS_IOPS] = 1};
	const struct rdt_reactor *r = &b.p.env->t->reactors[1];
	struct nvme_sqe sqe;

	rdt_qos_set_ns(b.p.env->t->ns[ns->slot], &cfg);
	for (unsigned int i = 0; i < 2; i++) {
		t_rw_sqe(b.p.io, &sqe, true, 0, 1, t_new_data);
		sqe.nsid = htole32(5);
		t_begin(b.p.io, &sqe);
	}
	CU_ASSERT_EQUAL_FATAL(t_answers(b.p.io), 1);
	t_answer(b.p.io);
	CU_ASSERT_EQUAL(r->limited, 1);
	CU_ASSERT_TRUE(TAILQ_EMPTY(&r->behind_fence));
	rdt_slots_set(&ctrl->host->lost_ns, ns->slot);
	t_advance(b.p.env, 2 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(t_answers(b.p.io), 0);
	CU_ASSERT_EQUAL(r->limited, 1);
	CU_ASSERT_FALSE(TAILQ_EMPTY(&r->behind_fence));
	rdt_slots_clear(&ctrl->host->lost_ns, ns->slot);
	t_advance(b.p.env, 100 * RD_NSEC_PER_MSEC);
	CU_ASSERT_EQUAL(t_answer_status(b.p.io), 0);
	CU_ASSERT_EQUAL(r->limited, 0);
}

/* A namespace that takes the slot of a removed one has nothing in flight. */
static void removed_with_its_commands(void)
{
	struct back b T_ENDS(back_free) = back_new();
	struct rdt_ctrl *ctrl = b.p.admin->qp.ctrl;
	struct rdt_ns *gone = t_ns_of(b.p.env->t->subsys[0], 5);
	unsigned int slot = gone->slot;

	CU_ASSERT_FALSE(rdt_slots_has(&ctrl->host->lost_ns, slot));
	CU_ASSERT_TRUE(rdt_slots_any(&ctrl->host->lost_ns));
	rdt_slots_set(&ctrl->host->lost_ns, slot);
	rdt_control_ns_remove(gone, NULL, NULL);
	t_turn(b.p.env);
	CU_ASSERT_FALSE(rdt_slots_has(&ctrl->host->lost_ns, slot));
	CU_ASSERT_TRUE(rdt_slots_any(&ctrl->host->lost_ns));
}

/* Commands for which a reset waited are not waited for again. */
static void reset_leaves_nothing(void)
{
	T_PAIR(p);
	struct rdt_ctrl *ctrl = p.admin->qp.ctrl;
	struct t_disk *d = t_begin_old_write(p.env, p.io);

	t_set_property(p.admin, NVME_REG_CC, 0x00460000);
	t_turn(p.env);
	CU_ASSERT_EQUAL(ctrl->state, RDT_CTRL_RESETTING);
	CU_ASSERT_FALSE(LIST_EMPTY(&ctrl->lost_queues));
	d->hold = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(ctrl->state, RDT_CTRL_DISABLED);
	CU_ASSERT_TRUE(LIST_EMPTY(&ctrl->lost_queues));
}

/* The waiting controller is lost as well: the next controller waits for the same write. */
static void fenced_behind_a_fenced(void)
{
	struct back b T_ENDS(back_free) = back_new();

	waiting_write(&b);
	t_conn_cut(b.p.admin);
	t_turn(b.p.env);
	wait_until_ready(&b, 1);
	waiting_write(&b);
	b.hangs->hold = false;
	t_turn(b.p.env);
	t_advance(b.p.env, RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(t_answers(b.p.io), 1);
	t_answer(b.p.io);
}

/* Hundreds wait for two namespaces, in turn. Those of the one that becomes free go on over several
 * turns of the loop, past those of the other. */
static void they_go_on_over_several_turns(void)
{
	struct back b T_ENDS(back_free) = back_new();
	struct rdt_target *t = b.p.env->t;
	struct rdt_slots *fenced = &b.p.admin->qp.ctrl->host->lost_ns;
	const struct rdt_reactor *r = &t->reactors[1];
	unsigned int slot = t_ns_of(t->subsys[0], 5)->slot, most = 0;
	struct t_conn *more[3];

	rdt_slots_set(fenced, slot);
	for (uint16_t i = 0; i < 3; i++) {
		more[i] = t_conn_new(b.p.env, 1, (uint16_t)(i + 2), 64);
		t_connect(more[i], b.p.cntlid);
		for (unsigned int n = 0; n < 60; n++)
			t_send_zeroes(more[i], n % 3 ? 5 : 1, 0);
	}
	t_turn(b.p.env);
	CU_ASSERT_EQUAL(r->limited, 180);
	rdt_slots_clear(fenced, slot);
	b.p.env->now += 20 * RD_NSEC_PER_MSEC;
	for (unsigned int before = r->limited; before > 60; before = r->limited) {
		t_pump(b.p.env);
		most = before - r->limited > most ? before - r->limited : most;
	}
	CU_ASSERT_EQUAL(most, 64);
	CU_ASSERT_EQUAL(r->limited, 60);
	b.hangs->hold = false;
	t_turn(b.p.env);
	t_advance(b.p.env, 100 * RD_NSEC_PER_MSEC);
	for (unsigned int i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(t_answers(more[i]), 60);
}

/* The first one that goes on loses the connection of those behind it. */
static void one_ends_the_next(void)
{
	struct back b T_ENDS(back_free) = back_new();
	const struct rdt_reactor *r = &b.p.env->t->reactors[1];
	struct t_conn *c = t_conn_new(b.p.env, 1, 2, 16), *other = t_conn_new(b.p.env, 1, 3, 16);
	bool gone = false;

	t_connect(c, b.p.cntlid);
	t_connect(other, b.p.cntlid);
	c->gone = &gone;
	for (unsigned int i = 0; i < 8; i++) {
		struct nvme_sqe sqe;

		t_rw_sqe(c, &sqe, true, 0, 1, t_new_data);
		t_in_capsule(&sqe, 512);
		t_send(c, &sqe, t_new_data, 512);
	}
	t_send_zeroes(other, 1, 0);
	t_turn(b.p.env);
	CU_ASSERT_EQUAL(r->limited, 9);
	c->no_recv = true;
	/* So they fail at once. */
	atomic_store(&t_ns_of(b.p.env->t->subsys[0], 1)->wp, NVME_NS_WP_CFG_PROTECT);
	b.hangs->hold = false;
	t_turn(b.p.env);
	t_advance(b.p.env, 100 * RD_NSEC_PER_MSEC);
	CU_ASSERT_TRUE(gone);
	CU_ASSERT_EQUAL(r->limited, 0);
	CU_ASSERT_EQUAL(t_answers(other), 1);
}

/* Look at how many controllers and queues the fence looks when @count controllers of one host end
 * together, each with a queue that has a write in flight, and when these writes end. @another: the
 * first half in another namespace, and these end first. */
static uint64_t looks_of_many(unsigned int count, bool another)
{
	T_PAIR(p);
	struct rdt_ctrl_host *host = p.admin->qp.ctrl->host;
	struct t_conn *admin[T_MANY], *io[T_MANY];
	struct t_disk *d = &p.env->disk[0];
	struct t_disk *e = &p.env->disk[t_ns_of(p.env->t->subsys[0], 5)->slot];
	uint64_t before;

	d->hold = e->hold = true;
	for (unsigned int i = 0; i < count; i++) {
		admin[i] = t_comes_back(p.env, 0, 0x11);
		io[i] = t_conn_new(p.env, 0, 1, 4);
		CU_ASSERT_EQUAL(t_connect(io[i], admin[i]->qp.ctrl->cntlid),
				admin[i]->qp.ctrl->cntlid);
		t_send_zeroes(io[i], another && i < count / 2 ? 5 : 1, 0);
	}
	t_turn(p.env);
	CU_ASSERT_EQUAL_FATAL(d->held_count + e->held_count, count);
	before = host->looks;
	for (unsigned int i = 0; i < count; i++) {
		t_conn_cut(io[i]);
		t_conn_cut(admin[i]);
	}
	t_turn(p.env);
	CU_ASSERT_TRUE(rdt_fence_any(p.admin->qp.ctrl));
	e->hold = false;
	t_turn(p.env);
	CU_ASSERT_TRUE(rdt_fence_any(p.admin->qp.ctrl));
	d->hold = false;
	t_turn(p.env);
	CU_ASSERT_FALSE(rdt_fence_any(p.admin->qp.ctrl));
	CU_ASSERT_TRUE(LIST_EMPTY(&host->dead));
	return host->looks - before;
}

static void many_end_together(void)
{
	for (int another = 0; another < 2; another++) {
		CU_ASSERT(looks_of_many(T_MANY / 2, another) <= T_MANY);
		CU_ASSERT(looks_of_many(T_MANY, another) <= 2 * T_MANY);
	}
}

/* However many controllers a host has, one more looks at a bounded number of them. */
static void one_more_of_many(void)
{
	T_PAIR(p);
	const struct rdt_ctrl_host *host = p.admin->qp.ctrl->host;
	struct t_conn *admin = NULL;
	uint64_t before = 0;

	for (unsigned int i = 0; i < 3 * RDT_FENCE_LOOKS; i++) {
		before = host->looks;
		admin = t_comes_back(p.env, 0, 0x11);
	}
	CU_ASSERT(host->looks - before <= 3 * (RDT_FENCE_LOOKS + 1));
	/* Its questions are answered. */
	CU_ASSERT_EQUAL(admin->qp.ctrl->reactors_asked, 0);
	CU_ASSERT_FALSE(rdt_fence_any(admin->qp.ctrl));
}

const struct t_case t_stale_write_cases[] = {
	{"a host that comes back waits for what it left in flight", comes_back_to_its_writes},
	{"a disk that hangs keeps its host from one namespace only", the_others_work},
	{"what a host writes now comes after what it wrote before", newer_data_comes_last},
	{"compare and write is told to come again", fused_ones_come_again},
	{"commands that wait for those of before may end", ends_while_it_waits},
	{"a limit comes behind the fence", a_limit_comes_behind_the_fence},
	{"the fence is asked again behind a limit", the_fence_is_asked_again_behind_a_limit},
	{"a namespace is removed with what was in flight", removed_with_its_commands},
	{"a reset leaves nothing behind", reset_leaves_nothing},
	{"who waited is lost as well", fenced_behind_a_fenced},
	{"commands go on over several turns", they_go_on_over_several_turns},
	{"a command that goes on ends those behind it", one_ends_the_next},
	{"many controllers of a host end in linear time", many_end_together},
	{"one more of many controllers looks at some of them", one_more_of_many},
	{NULL, NULL},
};
