/* SPDX-License-Identifier: BSD-3-Clause */
/* Hosts that reconnect while the storage still executes their writes. */
#include <string.h>

#include "target/nvmf/stale_write.h"
#include "t_target.h"

/* A new association of the host with this ID, which requests to become ready. */
static struct t_conn *comes_back(struct t_env *env, unsigned int reactor, uint8_t hostid)
{
	struct t_conn *admin = t_conn_new(env, reactor, 0, 32);
	struct t_answer a = t_connect_as(admin, NVMF_CNTLID_DYNAMIC, T_HOST, hostid);

	CU_ASSERT_EQUAL(t_status(&a), 0);
	a = t_set_property(admin, NVME_REG_CC, 0x00460001);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	return admin;
}

static bool is_ready(struct t_conn *admin)
{
	return t_get_property(admin, NVME_REG_CSTS, false) == 1;
}

/* A write that its host lost with the connection must not be executed after the host's later
 * writes. */
static void comes_back_to_its_writes(void)
{
	static uint8_t buf[512];

	for (unsigned int reactor = 0; reactor < 2; reactor++) {
		struct t_pair p = t_pair_new();
		struct t_disk *d = &p.env->disk[0];
		struct t_conn *admin, *other, *off, *lost;
		struct nvmf_connect_data data;
		struct nvme_sqe sqe;
		struct t_answer a;
		uint16_t cntlid;

		d->hold = true;
		t_rw_sqe(p.io, &sqe, true, 0, 1, buf);
		t_send(p.io, &sqe, NULL, 0);
		t_turn(p.env);
		CU_ASSERT_EQUAL_FATAL(d->held_count, 1);
		/* While it is alive, another association of the host is a second path. */
		CU_ASSERT_TRUE(is_ready(comes_back(p.env, 1 - reactor, 0x11)));
		t_conn_cut(p.io);
		t_conn_cut(p.admin);
		t_turn(p.env);
		CU_ASSERT_EQUAL(d->held_count, 1);

		admin = comes_back(p.env, reactor, 0x11);
		CU_ASSERT_FALSE(is_ready(admin));
		cntlid = admin->qp.ctrl->cntlid;
		p.io = t_conn_new(p.env, 1, 1, 16);
		t_connect_sqe(p.io, &sqe, &data, cntlid);
		a = t_exec(p.io, &sqe);
		CU_ASSERT_EQUAL(t_status(&a), NVME_SC_CMD_SEQ_ERROR);
		other = comes_back(p.env, reactor, 0x22);
		CU_ASSERT_TRUE(is_ready(other));
		/* One is reset meanwhile, and one is lost. */
		off = comes_back(p.env, 1 - reactor, 0x11);
		t_set_property(off, NVME_REG_CC, 0x00460000);
		lost = comes_back(p.env, reactor, 0x11);
		t_conn_cut(lost);
		t_turn(p.env);

		CU_ASSERT_FALSE(is_ready(admin));
		d->hold = false;
		t_turn(p.env);
		CU_ASSERT_EQUAL(d->held_count, 0);
		CU_ASSERT_TRUE(is_ready(admin));
		CU_ASSERT_FALSE(is_ready(off));
		t_enable(off);
		p.io = t_conn_new(p.env, 1, 1, 16);
		CU_ASSERT_EQUAL(t_connect(p.io, cntlid), cntlid);
		t_pair_free(&p);
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

static uint8_t old_data[512], new_data[512], other_data[512];

/* A write of the old data by @io, which the disk of namespace 1 holds. Returns that disk. */
static struct t_disk *begin_old_write(struct t_env *env, struct t_conn *io)
{
	struct t_disk *d = &env->disk[0];
	struct nvme_sqe sqe;

	memset(old_data, 0xaa, sizeof(old_data));
	memset(new_data, 0xbb, sizeof(new_data));
	d->hold = true;
	t_rw_sqe(io, &sqe, true, 0, 1, old_data);
	t_send(io, &sqe, NULL, 0);
	t_turn(env);
	CU_ASSERT_EQUAL_FATAL(d->held_count, 1);
	return d;
}

static void new_queue(struct back *b)
{
	b->p.io = t_conn_new(b->p.env, 1, 1, 16);
	CU_ASSERT_EQUAL(t_connect(b->p.io, b->p.cntlid), b->p.cntlid);
}

static void wait_until_ready(struct back *b, unsigned int reactor)
{
	b->p.admin = comes_back(b->p.env, reactor, 0x11);
	CU_ASSERT_FALSE(is_ready(b->p.admin));
	t_advance(b->p.env, RDT_FENCE_READY_WAIT - 1);
	CU_ASSERT_FALSE(is_ready(b->p.admin));
	t_advance(b->p.env, 1);
	CU_ASSERT_TRUE(is_ready(b->p.admin));
	b->p.cntlid = b->p.admin->qp.ctrl->cntlid;
	new_queue(b);
}

static struct back back_new(void)
{
	struct back b = {.p = t_pair_new()};
	struct nvme_sqe sqe;

	b.hangs = &b.p.env->disk[0];
	b.works = &b.p.env->disk[1];
	memset(old_data, 0xaa, sizeof(old_data));
	memset(new_data, 0xbb, sizeof(new_data));
	b.hangs->hold = b.works->hold = true;
	t_rw_sqe(b.p.io, &sqe, true, 0, 1, old_data);
	t_send(b.p.io, &sqe, NULL, 0);
	t_rw_sqe(b.p.io, &sqe, false, 0, 1, other_data); /* which cannot overwrite anything */
	sqe.nsid = htole32(5);
	t_send(b.p.io, &sqe, NULL, 0);
	t_turn(b.p.env);
	CU_ASSERT_EQUAL(b.hangs->held_count + b.works->held_count, 2);
	b.p.io->hold_fetch = true;
	t_rw_sqe(b.p.io, &sqe, true, 0, 1, old_data); /* nor can this: no data arrives */
	sqe.nsid = htole32(5);
	t_send(b.p.io, &sqe, NULL, 0);
	t_turn(b.p.env);
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

	t_rw_sqe(b->p.io, &sqe, true, 0, 1, new_data);
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
	struct back b = back_new();
	struct nvme_sqe sqe;
	struct t_answer a;

	for (int write = 0; write < 2; write++) {
		t_rw_sqe(b.p.io, &sqe, write, 0, 1, other_data);
		sqe.nsid = htole32(5);
		a = t_exec(b.p.io, &sqe);
		CU_ASSERT_EQUAL(t_status(&a), 0);
	}
	waiting_write(&b);
	a = t_exec(b.p.io, &sqe); /* not behind it, either */
	CU_ASSERT_EQUAL(t_status(&a), 0);
	back_free(&b);
}

/* However long the old write takes, the host's later writes are executed after it. */
static void newer_data_comes_last(void)
{
	struct back b = back_new();
	uint8_t got[512] = {0};
	struct nvme_sqe read;
	struct t_answer a;

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
		a = t_answer(b.p.io);
		CU_ASSERT_EQUAL(t_status(&a), 0);
	}
	CU_ASSERT_EQUAL(memcmp(b.hangs->data, new_data, sizeof(new_data)), 0);
	/* From now on nothing waits. */
	a = t_exec(b.p.io, &read);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(memcmp(got, new_data, sizeof(got)), 0);
	CU_ASSERT_EQUAL(b.p.env->t->reactors[1].limited, 0);
	back_free(&b);
}

/* A waiting pair would hold up its queue, so the host is told to retry it. */
static void fused_ones_come_again(void)
{
	struct back b = back_new();
	struct nvme_sqe sqe;
	struct t_answer a;

	for (int second = 0; second < 2; second++) {
		t_rw_sqe(b.p.io, &sqe, true, 0, 1, new_data);
		sqe.opcode = second ? nvme_cmd_write : nvme_cmd_compare;
		sqe.flags |= second ? NVME_CMD_FUSE_SECOND : NVME_CMD_FUSE_FIRST;
		a = t_exec(b.p.io, &sqe);
		CU_ASSERT_EQUAL(t_status(&a), second ? NVME_SC_FUSED_FAIL : NVME_SC_NS_NOT_READY);
		CU_ASSERT_EQUAL(t_dnr(&a), second);
	}
	back_free(&b);
}

/* Of the waiting commands one is aborted, one loses its connection, and one its namespace. */
static void ends_while_it_waits(void)
{
	struct back b = back_new();
	struct nvme_sqe write = waiting_write(&b), sqe;
	struct t_answer a;

	t_sqe(b.p.admin, &sqe, nvme_admin_abort_cmd, NULL, 0);
	sqe.cdw10 = htole32(1 | (uint32_t)le16toh(write.cid) << 16);
	a = t_exec(b.p.admin, &sqe);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, 0);
	a = t_answer(b.p.io);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_ABORT_REQ);

	waiting_write(&b);
	t_conn_cut(b.p.io);
	t_turn(b.p.env);
	CU_ASSERT_EQUAL(b.p.env->t->reactors[1].limited, 0);

	new_queue(&b);
	waiting_write(&b);
	rdt_control_ns_remove(t_ns_of(b.p.env->t->subsys[0], 1), NULL, NULL);
	t_turn(b.p.env);
	a = t_answer(b.p.io);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_INVALID_NS);
	back_free(&b);
}

/* Commands that leave the fence then wait for their limit. Write Zeroes needs no buffer after
 * that. */
static void a_limit_comes_behind_the_fence(void)
{
	struct back b = back_new();
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
	back_free(&b);
}

/* The host's other controller has died with writes in flight while the command waited. */
static void the_fence_is_asked_again_behind_a_limit(void)
{
	struct back b = back_new();
	struct rdt_ctrl *ctrl = b.p.admin->qp.ctrl;
	const struct rdt_ns *ns = t_ns_of(b.p.env->t->subsys[0], 5);
	struct rdt_qos_config cfg = {.limits[RDT_QOS_IOPS] = 1};
	const struct rdt_reactor *r = &b.p.env->t->reactors[1];
	struct nvme_sqe sqe;
	struct t_answer a;

	rdt_qos_set_ns(b.p.env->t->ns[ns->slot], &cfg);
	for (unsigned int i = 0; i < 2; i++) {
		t_rw_sqe(b.p.io, &sqe, true, 0, 1, new_data);
		sqe.nsid = htole32(5);
		t_send(b.p.io, &sqe, NULL, 0);
		t_turn(b.p.env);
	}
	CU_ASSERT_EQUAL_FATAL(t_answers(b.p.io), 1);
	t_answer(b.p.io);
	CU_ASSERT_EQUAL(r->limited, 1);
	CU_ASSERT_TRUE(TAILQ_EMPTY(&r->behind_fence));
	rdt_slots_set(&ctrl->fenced_ns, ns->slot);
	t_advance(b.p.env, 2 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(t_answers(b.p.io), 0);
	CU_ASSERT_EQUAL(r->limited, 1);
	CU_ASSERT_FALSE(TAILQ_EMPTY(&r->behind_fence));
	rdt_slots_clear(&ctrl->fenced_ns, ns->slot);
	t_advance(b.p.env, 100 * RD_NSEC_PER_MSEC);
	a = t_answer(b.p.io);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(r->limited, 0);
	back_free(&b);
}

/* A namespace that takes the slot of a removed one has nothing in flight. */
static void removed_with_its_commands(void)
{
	struct back b = back_new();
	struct rdt_ctrl *ctrl = b.p.admin->qp.ctrl;
	struct rdt_ns *gone = t_ns_of(b.p.env->t->subsys[0], 5);
	unsigned int slot = gone->slot;

	CU_ASSERT_FALSE(rdt_slots_has(&ctrl->fenced_ns, slot));
	CU_ASSERT_TRUE(rdt_slots_any(&ctrl->fenced_ns));
	rdt_slots_set(&ctrl->fenced_ns, slot);
	rdt_control_ns_remove(gone, NULL, NULL);
	t_turn(b.p.env);
	CU_ASSERT_FALSE(rdt_slots_has(&ctrl->fenced_ns, slot));
	CU_ASSERT_TRUE(rdt_slots_any(&ctrl->fenced_ns));
	back_free(&b);
}

/* Commands for which a reset waited are not waited for again. */
static void reset_leaves_nothing(void)
{
	struct t_pair p = t_pair_new();
	struct rdt_ctrl *ctrl = p.admin->qp.ctrl;
	struct t_disk *d = begin_old_write(p.env, p.io);

	t_set_property(p.admin, NVME_REG_CC, 0x00460000);
	t_turn(p.env);
	CU_ASSERT_EQUAL(ctrl->state, RDT_CTRL_RESETTING);
	CU_ASSERT_TRUE(rdt_slots_any(&ctrl->busy_ns));
	d->hold = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(ctrl->state, RDT_CTRL_DISABLED);
	CU_ASSERT_FALSE(rdt_slots_any(&ctrl->busy_ns));
	t_pair_free(&p);
}

/* The waiting controller is lost as well: the next controller waits for the same write. */
static void fenced_behind_a_fenced(void)
{
	struct back b = back_new();

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
	back_free(&b);
}

/* A write to namespace 1, and one to namespace 5, whose command is in @sqe afterwards. */
static void write_to_both(struct t_conn *io, struct nvme_sqe *sqe)
{
	for (unsigned int nsid = 1; nsid <= 5; nsid += 4) {
		t_rw_sqe(io, sqe, true, 0, 1, new_data);
		sqe->nsid = htole32(nsid);
		t_send(io, sqe, NULL, 0);
	}
}

/* The old write ends; the new one, which has waited for it on @io, is executed after it. */
static void old_write_ends(struct t_env *env, struct t_disk *d, struct t_conn *io)
{
	struct t_answer a;

	d->hold = false;
	t_turn(env);
	CU_ASSERT_EQUAL(d->data[0], 0xaa);
	t_advance(env, RD_NSEC_PER_SEC);
	a = t_answer(io);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(d->data[0], 0xbb);
}

/*
 * The reactor of the host's I/O queue is blocked in a system call with a write when the host is
 * lost. So the queue has not reported when the host reconnects on the other reactor.
 */
static void reactor_stands_still(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = begin_old_write(p.env, p.io);
	struct t_conn *admin, *io;
	struct nvme_sqe sqe;
	struct t_answer a;
	uint16_t cntlid;

	p.env->still[1] = true;
	t_conn_cut(p.admin);
	t_turn(p.env);
	admin = comes_back(p.env, 0, 0x11);
	CU_ASSERT_FALSE(is_ready(admin));
	t_advance(p.env, RDT_FENCE_READY_WAIT);
	CU_ASSERT_TRUE(is_ready(admin));
	cntlid = admin->qp.ctrl->cntlid;
	io = t_conn_new(p.env, 0, 1, 16);
	CU_ASSERT_EQUAL(t_connect(io, cntlid), cntlid);
	/* No namespace is free: the queue might write to any. */
	write_to_both(io, &sqe);
	t_advance(p.env, 60 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(t_answers(io), 0);
	CU_ASSERT_EQUAL(d->held_count, 1);

	/* The reactor runs again and the queue reports: the other namespace is free, this one when
	 * its write ends. */
	p.env->still[1] = false;
	t_turn(p.env);
	t_advance(p.env, RD_NSEC_PER_SEC);
	a = t_answer(io);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(a.cqe.cid, sqe.cid);
	CU_ASSERT_EQUAL(t_answers(io), 0);
	old_write_ends(p.env, d, io);
	t_pair_free(&p);
}

/*
 * The reactor of the admin queue is blocked, and the host reconnects on the other one. A write of
 * the old controller is in flight in namespace 1.
 */
struct stalled {
	struct t_pair p;
	struct t_disk *d;
	struct t_conn *back; /* the new admin queue, */
	struct t_conn *io;   /* and the new I/O queue */
	struct nvme_sqe sqe; /* the new write to namespace 5 */
};

/* @io is the queue of the old controller with the write. */
static void stall_with_write(struct stalled *s, struct t_conn *io)
{
	s->d = begin_old_write(s->p.env, io);
	s->p.env->still[0] = true;
}

static void back_by_the_other(struct stalled *s)
{
	s->back = comes_back(s->p.env, 1, 0x11);
	CU_ASSERT_TRUE(is_ready(s->back)); /* it waits for no reactor */
	s->io = t_conn_new(s->p.env, 1, 1, 16);
	CU_ASSERT_EQUAL(t_connect(s->io, s->back->qp.ctrl->cntlid), s->back->qp.ctrl->cntlid);
	write_to_both(s->io, &s->sqe);
	t_advance(s->p.env, 60 * RD_NSEC_PER_SEC);
}

/* Nothing is known of the old controller: both of the new writes wait. */
static struct stalled stalled_new(void)
{
	struct stalled s = {.p = t_pair_new()};
	struct t_conn *io = t_conn_new(s.p.env, 0, 2, 16);

	CU_ASSERT_EQUAL(t_connect(io, s.p.cntlid), s.p.cntlid);
	stall_with_write(&s, io);
	back_by_the_other(&s);
	CU_ASSERT_EQUAL(t_answers(s.io), 0);
	CU_ASSERT_EQUAL(s.d->held_count, 1);
	return s;
}

static void moves_again(struct stalled *s)
{
	s->p.env->still[0] = false;
	t_turn(s->p.env);
	t_advance(s->p.env, RD_NSEC_PER_SEC);
}

static void expect_other_namespace(struct stalled *s)
{
	struct t_answer a;

	CU_ASSERT_EQUAL_FATAL(t_answers(s->io), 1);
	a = t_answer(s->io);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(a.cqe.cid, s->sqe.cid);
}

/* The host has closed the old connection: the old write is executed before the new one. */
static void admin_reactor_stands_still(void)
{
	struct stalled s = stalled_new();

	s.p.admin->peer_closed = true;
	moves_again(&s);
	expect_other_namespace(&s);
	CU_ASSERT_EQUAL(s.d->held_count, 1);
	old_write_ends(s.p.env, s.d, s.io);
	t_pair_free(&s.p);
}

/* The old controller is a second path of the host: when that is known, nothing waits for it. */
static void second_path_stands_still(void)
{
	struct stalled s = stalled_new();
	struct nvme_sqe sqe;
	struct t_answer a;

	moves_again(&s);
	expect_other_namespace(&s);
	CU_ASSERT_EQUAL(s.d->held_count, 2);
	CU_ASSERT_EQUAL(s.p.env->t->reactors[1].limited, 0);
	s.d->hold = false;
	t_turn(s.p.env);
	a = t_answer(s.io);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	t_rw_sqe(s.p.io, &sqe, false, 0, 1, other_data);
	a = t_exec(s.p.io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	t_pair_free(&s.p);
}

/* Only an I/O queue of the second path is blocked: its controller is known to be alive. */
static void queue_of_second_path_stands_still(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = begin_old_write(p.env, p.io);
	struct t_conn *admin, *io;
	struct nvme_sqe sqe;

	p.env->still[1] = true;
	admin = comes_back(p.env, 0, 0x11);
	CU_ASSERT_TRUE(is_ready(admin));
	io = t_conn_new(p.env, 0, 1, 16);
	CU_ASSERT_EQUAL(t_connect(io, admin->qp.ctrl->cntlid), admin->qp.ctrl->cntlid);
	write_to_both(io, &sqe);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(io), 1); /* the other namespace */
	CU_ASSERT_EQUAL(d->held_count, 2);
	CU_ASSERT_EQUAL(p.env->t->reactors[0].limited, 0);
	p.env->still[1] = false;
	t_turn(p.env);
	t_pair_free(&p);
}

static void set_keep_alive(struct t_conn *admin, uint32_t ms)
{
	struct t_answer a = t_feature(admin, true, NVME_FEAT_FID_KATO, ms);

	CU_ASSERT_EQUAL(t_status(&a), 0);
}

/* A second path of the host of @p, with an I/O queue, on reactor @reactor. */
static struct t_conn *second_path(struct t_pair *p, unsigned int reactor)
{
	struct t_conn *admin = comes_back(p->env, reactor, 0x11);
	struct t_conn *io = t_conn_new(p->env, reactor, 1, 16);

	CU_ASSERT_TRUE(is_ready(admin));
	CU_ASSERT_EQUAL(t_connect(io, admin->qp.ctrl->cntlid), admin->qp.ctrl->cntlid);
	set_keep_alive(admin, 300000);
	return io;
}

/* An I/O queue is lost alone, with a write in flight; its controller lives, as far as the target
 * knows. The host's other commands wait for the write only: on a new controller, on a second path,
 * and on another queue of the same controller. */
static void queue_is_lost_alone(void)
{
	enum { NEW_CTRL, SECOND_PATH, SAME_CTRL, WAYS };

	for (int way = 0; way < WAYS; way++) {
		struct t_pair p = t_pair_new();
		struct t_conn *io = way == SECOND_PATH ? second_path(&p, 0) : NULL;
		struct t_disk *d = begin_old_write(p.env, p.io);
		struct nvme_sqe sqe;
		struct t_answer a;

		t_conn_cut(p.io);
		t_turn(p.env);
		if (way == NEW_CTRL)
			io = second_path(&p, 0);
		if (way == SAME_CTRL) {
			io = t_conn_new(p.env, 0, 2, 16);
			CU_ASSERT_EQUAL(t_connect(io, p.cntlid), p.cntlid);
		}
		write_to_both(io, &sqe);
		t_advance(p.env, RD_NSEC_PER_SEC);
		CU_ASSERT_EQUAL_FATAL(t_answers(io), 1); /* of the other namespace */
		a = t_answer(io);
		CU_ASSERT_EQUAL(a.cqe.cid, sqe.cid);
		CU_ASSERT_EQUAL(d->held_count, 1);
		old_write_ends(p.env, d, io);
		CU_ASSERT_FALSE(rdt_slots_any(&p.admin->qp.ctrl->busy_ns));
		CU_ASSERT_FALSE(atomic_load(&io->qp.ctrl->fenced));
		t_pair_free(&p);
	}
}

/* A host that has lost a path goes on by another one, which was ready before. */
static void second_path_waits(void)
{
	struct t_pair p = t_pair_new();
	struct t_conn *io = second_path(&p, 0);
	struct t_disk *d = begin_old_write(p.env, p.io);
	struct nvme_sqe sqe;
	struct t_answer a;

	t_conn_cut(p.io);
	t_conn_cut(p.admin);
	t_turn(p.env);
	write_to_both(io, &sqe);
	t_advance(p.env, RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL_FATAL(t_answers(io), 1); /* of the other namespace */
	a = t_answer(io);
	CU_ASSERT_EQUAL(a.cqe.cid, sqe.cid);
	CU_ASSERT_EQUAL(d->held_count, 1);
	old_write_ends(p.env, d, io);
	t_pair_free(&p);
}

/* The reactor of the first path stands still: nobody can end its controller. */
static void second_path_waits_for_a_reactor(void)
{
	struct stalled s = {.p = t_pair_new()};
	struct t_conn *first = t_conn_new(s.p.env, 0, 2, 16);

	CU_ASSERT_EQUAL(t_connect(first, s.p.cntlid), s.p.cntlid);
	s.io = second_path(&s.p, 1);
	set_keep_alive(s.p.admin, 300000);
	stall_with_write(&s, first);
	t_advance(s.p.env, 2 * RD_NSEC_PER_SEC);
	write_to_both(s.io, &s.sqe);
	t_advance(s.p.env, 60 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(t_answers(s.io), 0);
	CU_ASSERT_EQUAL(s.d->held_count, 1);
	s.p.admin->peer_closed = true;
	moves_again(&s);
	expect_other_namespace(&s);
	CU_ASSERT_EQUAL(s.d->held_count, 1);
	old_write_ends(s.p.env, s.d, s.io);
	t_pair_free(&s.p);
}

/* A reactor does not run that has no other controllers of the host. */
static void other_reactors_do_not_matter(void)
{
	struct t_pair p = t_pair_new();
	struct t_conn *io = second_path(&p, 1);
	struct rdt_ctrl *ctrl = io->qp.ctrl;

	CU_ASSERT_FALSE(rdt_ctrl_distrust(ctrl, 1u << 1));
	CU_ASSERT_EQUAL(ctrl->reactors_asked, 0);
	CU_ASSERT_TRUE(rdt_ctrl_distrust(ctrl, 1u << 0));
	CU_ASSERT_EQUAL(ctrl->reactors_asked, 1u << 0);
	t_turn(p.env);
	CU_ASSERT_FALSE(atomic_load(&ctrl->fenced));
	t_pair_free(&p);
}

/* The controller that asked is lost before the reactor answers: the next one asks for itself. */
static void asking_one_is_lost(void)
{
	struct stalled s = stalled_new();
	struct rdt_subsys *ss = s.p.env->t->subsys[0];
	bool gone = false;

	s.back->gone = &gone;
	t_conn_cut(s.back);
	t_turn(s.p.env);
	CU_ASSERT_TRUE(gone);
	CU_ASSERT_TRUE(LIST_EMPTY(&ss->asking));
	CU_ASSERT_EQUAL(s.p.env->t->reactors[1].limited, 0);
	CU_ASSERT_TRUE(ss->asks[0].posted); /* one question serves both */

	back_by_the_other(&s);
	CU_ASSERT_FALSE(LIST_EMPTY(&ss->asking));
	CU_ASSERT_EQUAL(t_answers(s.io), 0);
	CU_ASSERT_EQUAL(s.d->held_count, 1);
	s.p.admin->peer_closed = true;
	moves_again(&s);
	expect_other_namespace(&s);
	old_write_ends(s.p.env, s.d, s.io);
	t_pair_free(&s.p);
}

/* The last controller that asked is lost: nobody needs the answer. */
static void answer_for_nobody(void)
{
	struct stalled s = stalled_new();
	struct rdt_subsys *ss = s.p.env->t->subsys[0];

	t_conn_cut(s.back);
	t_turn(s.p.env);
	moves_again(&s);
	CU_ASSERT_FALSE(ss->asks[0].posted);
	CU_ASSERT_EQUAL(ss->ctrls_count, 1); /* nobody has ended the first one */
	s.d->hold = false;
	t_pair_free(&s.p);
}

/* A controller of the host with this ID on the running reactor, with an I/O queue. */
static struct t_conn *with_queue(struct t_env *env, uint8_t hostid)
{
	struct t_conn *admin = comes_back(env, 1, hostid), *io = t_conn_new(env, 1, 1, 16);
	struct t_answer a = t_connect_as(io, admin->qp.ctrl->cntlid, T_HOST, hostid);

	CU_ASSERT_EQUAL(t_status(&a), 0);
	return admin;
}

/* A reactor answers only the controllers that have asked it. One that waits for the other reactor
 * does not make it end a later path of the same host. */
static void answer_for_others(void)
{
	struct stalled s = stalled_new();
	struct t_conn *path = with_queue(s.p.env, 0x11);
	bool gone = false;

	with_queue(s.p.env, 0x22);
	CU_ASSERT_EQUAL(s.back->qp.ctrl->reactors_asked, 1);
	CU_ASSERT_EQUAL(path->qp.ctrl->reactors_asked, 1);
	path->peer_closed = true;
	path->gone = &gone;
	comes_back(s.p.env, 1, 0x22); /* asks the running reactor */
	CU_ASSERT_FALSE(s.p.env->t->subsys[0]->asks[1].posted);
	CU_ASSERT_FALSE(gone);
	path->peer_closed = false;
	path->gone = NULL;
	s.d->hold = false;
	moves_again(&s);
	t_pair_free(&s.p);
}

/* `duplicate_host: replace` ends the old controller, but its reactor is blocked. */
static void replaced_while_it_stands_still(void)
{
	struct stalled s = {.p = t_pair_new()};
	struct t_conn *io = t_conn_new(s.p.env, 0, 2, 16);
	struct rdt_ctrl *old = s.p.admin->qp.ctrl;

	CU_ASSERT_EQUAL(t_connect(io, s.p.cntlid), s.p.cntlid);
	stall_with_write(&s, io);
	s.p.env->t->subsys[0]->duplicate_host = RDT_DUPLICATE_REPLACE;
	back_by_the_other(&s);
	CU_ASSERT_TRUE(atomic_load(&old->ending));
	CU_ASSERT_FALSE(atomic_load(&old->over));
	CU_ASSERT_EQUAL(t_answers(s.io), 0);
	CU_ASSERT_EQUAL(s.d->held_count, 1);

	moves_again(&s); /* its connection is open: the replacement ends it */
	CU_ASSERT_TRUE(atomic_load(&old->over));
	expect_other_namespace(&s);
	CU_ASSERT_EQUAL(s.d->held_count, 1);
	old_write_ends(s.p.env, s.d, s.io);
	CU_ASSERT_EQUAL(s.p.env->t->subsys[0]->ctrls_count, 1);
	t_pair_free(&s.p);
}

/*
 * The old I/O queue is on the running reactor and reports before or after the host reconnects. The
 * reactor of its controller is blocked for longer than the write takes.
 */
static void queue_reports_while_owner_stands_still(void)
{
	for (int before = 0; before < 2; before++) {
		struct stalled s = {.p = t_pair_new()};

		stall_with_write(&s, s.p.io);
		s.p.admin->peer_closed = true;
		if (before) {
			t_conn_cut(s.p.io);
			t_turn(s.p.env);
			back_by_the_other(&s);
		} else {
			back_by_the_other(&s);
			CU_ASSERT_EQUAL(t_answers(s.io), 0);
			t_conn_cut(s.p.io);
			t_turn(s.p.env);
			t_advance(s.p.env, RD_NSEC_PER_SEC);
		}
		expect_other_namespace(&s);
		CU_ASSERT_EQUAL(s.d->held_count, 1);
		/* The queue has ended: that needs no turn of the owner. */
		old_write_ends(s.p.env, s.d, s.io);
		moves_again(&s);
		t_pair_free(&s.p);
	}
}

/* A queue whose connection ended before its Connect was answered has nothing to report. */
static void queue_closed_before_it_joined(void)
{
	struct t_pair p = t_pair_new();
	struct rdt_ctrl *ctrl = p.admin->qp.ctrl;
	struct t_conn *c = t_conn_new(p.env, 1, 2, 16);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;

	CU_ASSERT_EQUAL(atomic_load(&ctrl->queues_unreported), 1);
	t_connect_sqe(c, &sqe, &data, p.cntlid);
	memset(&sqe.sgl, 0, sizeof(sqe.sgl));
	sqe.sgl.data.type = NVME_SGL_IN_CAPSULE;
	sqe.sgl.data.length = htole32(sizeof(data));
	t_send(c, &sqe, &data, sizeof(data));
	t_conn_cut(c);
	t_turn(p.env);
	CU_ASSERT_EQUAL(atomic_load(&ctrl->queues_unreported), 1);
	t_conn_cut(p.io);
	t_turn(p.env);
	CU_ASSERT_EQUAL(atomic_load(&ctrl->queues_unreported), 0);
	t_pair_free(&p);
}

static void send_zeroes(struct t_conn *c, uint32_t nsid)
{
	struct nvme_sqe sqe;

	t_sqe(c, &sqe, nvme_cmd_write_zeroes, NULL, 0);
	sqe.nsid = htole32(nsid);
	t_send(c, &sqe, NULL, 0);
}

/* Hundreds wait for two namespaces, in turn. Those of the one that becomes free go on over several
 * turns of the loop, past those of the other. */
static void they_go_on_over_several_turns(void)
{
	struct back b = back_new();
	struct rdt_target *t = b.p.env->t;
	struct rdt_slots *fenced = &b.p.admin->qp.ctrl->fenced_ns;
	const struct rdt_reactor *r = &t->reactors[1];
	unsigned int slot = t_ns_of(t->subsys[0], 5)->slot, most = 0;
	struct t_conn *more[3];

	rdt_slots_set(fenced, slot);
	for (uint16_t i = 0; i < 3; i++) {
		more[i] = t_conn_new(b.p.env, 1, (uint16_t)(i + 2), 64);
		t_connect(more[i], b.p.cntlid);
		for (unsigned int n = 0; n < 60; n++)
			send_zeroes(more[i], n % 3 ? 5 : 1);
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
	back_free(&b);
}

/* The first one that goes on loses the connection of those behind it. */
static void one_ends_the_next(void)
{
	struct back b = back_new();
	const struct rdt_reactor *r = &b.p.env->t->reactors[1];
	struct t_conn *c = t_conn_new(b.p.env, 1, 2, 16), *other = t_conn_new(b.p.env, 1, 3, 16);
	bool gone = false;

	t_connect(c, b.p.cntlid);
	t_connect(other, b.p.cntlid);
	c->gone = &gone;
	for (unsigned int i = 0; i < 8; i++) {
		struct nvme_sqe sqe;

		t_rw_sqe(c, &sqe, true, 0, 1, new_data);
		memset(&sqe.sgl, 0, sizeof(sqe.sgl));
		sqe.sgl.data.length = htole32(512);
		sqe.sgl.data.type = NVME_SGL_IN_CAPSULE;
		t_send(c, &sqe, new_data, 512);
	}
	send_zeroes(other, 1);
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
	back_free(&b);
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
	{"a queue whose reactor stands still has told nothing", reactor_stands_still},
	{"the admin queue's reactor stands still as well", admin_reactor_stands_still},
	{"a second path stands still", second_path_stands_still},
	{"an I/O queue of a second path stands still", queue_of_second_path_stands_still},
	{"a queue is lost alone with a write in flight", queue_is_lost_alone},
	{"a second path waits for what the first left in flight", second_path_waits},
	{"a second path waits for a reactor that stands still", second_path_waits_for_a_reactor},
	{"reactors without other controllers of the host are not asked",
	 other_reactors_do_not_matter},
	{"a controller that asked is lost before the answer", asking_one_is_lost},
	{"nobody is left for the answer", answer_for_nobody},
	{"a reactor answers only those that asked it", answer_for_others},
	{"a controller is replaced while its reactor stands still", replaced_while_it_stands_still},
	{"a queue reports while its controller's reactor stands still",
	 queue_reports_while_owner_stands_still},
	{"a queue that closed before it joined owes nothing", queue_closed_before_it_joined},
	{"commands go on over several turns", they_go_on_over_several_turns},
	{"a command that goes on ends those behind it", one_ends_the_next},
	{NULL, NULL},
};
