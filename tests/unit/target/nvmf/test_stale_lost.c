/* SPDX-License-Identifier: BSD-3-Clause */
/* The stale-write fence, while the target does not know, or knows late, that a host is lost:
 * reactors that stand still, queues that are lost alone, second paths. */
#include <string.h>

#include "target/bdev/backend.h"
#include "target/nvmf/resv.h"
#include "t_stale.h"

/* A write to namespace 1, and one to namespace 5, whose command is in @sqe afterwards. */
static void write_to_both(struct t_conn *io, struct nvme_sqe *sqe)
{
	for (unsigned int nsid = 1; nsid <= 5; nsid += 4) {
		t_rw_sqe(io, sqe, true, 0, 1, t_new_data);
		sqe->nsid = htole32(nsid);
		t_send(io, sqe, NULL, 0);
	}
}

/* One command of @io was answered: the one in @sqe, with success. */
static void expect_answer_to(struct t_conn *io, const struct nvme_sqe *sqe)
{
	struct t_answer a;

	CU_ASSERT_EQUAL_FATAL(t_answers(io), 1);
	a = t_answer(io);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(a.cqe.cid, sqe->cid);
}

/* The old write ends; the new one, which has waited for it on @io, is executed after it. */
static void old_write_ends(struct t_env *env, struct t_disk *d, struct t_conn *io)
{

	d->hold = false;
	t_turn(env);
	CU_ASSERT_EQUAL(d->data[0], 0xaa);
	t_advance(env, RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(t_answer_status(io), 0);
	CU_ASSERT_EQUAL(d->data[0], 0xbb);
}

/*
 * The reactor of the host's I/O queue is blocked in a system call with a write when the host is
 * lost. So the queue has not reported when the host reconnects on the other reactor.
 */
static void reactor_stands_still(void)
{
	T_PAIR(p);
	struct t_disk *d = t_begin_old_write(p.env, p.io);
	struct t_conn *admin, *io;
	struct nvme_sqe sqe;
	uint16_t cntlid;

	p.env->still[1] = true;
	t_conn_cut(p.admin);
	t_turn(p.env);
	admin = t_comes_back(p.env, 0, 0x11);
	CU_ASSERT_FALSE(t_is_ready(admin));
	t_advance(p.env, RDT_FENCE_READY_WAIT);
	CU_ASSERT_TRUE(t_is_ready(admin));
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
	expect_answer_to(io, &sqe);
	old_write_ends(p.env, d, io);
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
	s->d = t_begin_old_write(s->p.env, io);
	s->p.env->still[0] = true;
}

static void back_by_the_other(struct stalled *s)
{
	s->back = t_comes_back(s->p.env, 1, 0x11);
	CU_ASSERT_TRUE(t_is_ready(s->back)); /* it waits for no reactor */
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
	expect_answer_to(s->io, &s->sqe);
}

/* The reactor runs again and learns that the host has closed the old connection: the old write is
 * executed before the new one. Frees what @s has. */
static void ends_in_order(struct stalled *s)
{
	s->p.admin->peer_closed = true;
	moves_again(s);
	expect_other_namespace(s);
	CU_ASSERT_EQUAL(s->d->held_count, 1);
	old_write_ends(s->p.env, s->d, s->io);
	t_pair_free(&s->p);
}

/* The host has closed the old connection: the old write is executed before the new one. */
static void admin_reactor_stands_still(void)
{
	struct stalled s = stalled_new();

	ends_in_order(&s);
}

/* The old controller is a second path of the host: when that is known, nothing waits for it. */
static void second_path_stands_still(void)
{
	struct stalled s = stalled_new();

	moves_again(&s);
	expect_other_namespace(&s);
	CU_ASSERT_EQUAL(s.d->held_count, 2);
	CU_ASSERT_EQUAL(s.p.env->t->reactors[1].limited, 0);
	s.d->hold = false;
	t_turn(s.p.env);
	CU_ASSERT_EQUAL(t_answer_status(s.io), 0);
	CU_ASSERT_EQUAL(t_rw(s.p.io, false, 0, 1, t_new_data), 0);
	t_pair_free(&s.p);
}

/* Only the reactor of an I/O queue of the second path is blocked. Its controller lives, as far as
 * the other reactor knows; both new writes wait until the blocked one has answered. */
static void queue_of_second_path_stands_still(void)
{
	T_PAIR(p);
	struct t_disk *d = t_begin_old_write(p.env, p.io);
	struct t_conn *admin, *io;
	struct nvme_sqe sqe;

	p.env->still[1] = true;
	admin = t_comes_back(p.env, 0, 0x11);
	CU_ASSERT_TRUE(t_is_ready(admin));
	io = t_conn_new(p.env, 0, 1, 16);
	CU_ASSERT_EQUAL(t_connect(io, admin->qp.ctrl->cntlid), admin->qp.ctrl->cntlid);
	write_to_both(io, &sqe);
	t_advance(p.env, RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(t_answers(io), 0);
	CU_ASSERT_EQUAL(d->held_count, 1);

	p.env->still[1] = false;
	t_turn(p.env);
	t_advance(p.env, RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(t_answers(io), 1); /* the other namespace */
	CU_ASSERT_EQUAL(d->held_count, 2);
	CU_ASSERT_EQUAL(p.env->t->reactors[0].limited, 0);
}

static void set_keep_alive(struct t_conn *admin, uint32_t ms)
{
	struct t_answer a = t_feature(admin, true, NVME_FEAT_FID_KATO, ms);

	CU_ASSERT_EQUAL(t_status(&a), 0);
}

/* A second path of the host of @p, with an I/O queue, on reactor @reactor. */
static struct t_conn *second_path(struct t_pair *p, unsigned int reactor)
{
	struct t_conn *admin = t_comes_back(p->env, reactor, 0x11);
	struct t_conn *io = t_conn_new(p->env, reactor, 1, 16);

	CU_ASSERT_TRUE(t_is_ready(admin));
	CU_ASSERT_EQUAL(t_connect(io, admin->qp.ctrl->cntlid), admin->qp.ctrl->cntlid);
	set_keep_alive(admin, 300000);
	return io;
}

/* Only the host knows that the admin connection is lost. The reactor of the I/O queue is blocked
 * within a turn, and goes on with an old command of that turn after the host has reconnected. */
static void blocked_with_an_unnoticed_loss(void)
{
	T_PAIR(p);
	struct t_disk *d = t_begin_old_write(p.env, p.io);
	bool gone = false;
	struct t_conn *io;
	struct nvme_sqe sqe;
	struct t_answer a;

	p.env->still[1] = true;
	p.io->peer_closed = true;
	p.io->gone = &gone;
	io = second_path(&p, 0);
	write_to_both(io, &sqe);
	t_advance(p.env, RD_NSEC_PER_SEC);
	t_send_zeroes(p.io, 1, 1);
	CU_ASSERT_EQUAL(d->held_count, 2);
	CU_ASSERT_EQUAL(t_answers(io), 0);

	p.env->still[1] = false;
	t_turn(p.env);
	t_advance(p.env, RD_NSEC_PER_SEC);
	expect_answer_to(io, &sqe); /* of the other namespace */
	CU_ASSERT_EQUAL(d->held_count, 2);
	CU_ASSERT_FALSE(gone);
	old_write_ends(p.env, d, io);
	CU_ASSERT_TRUE(gone);
	a = t_feature(p.admin, false, NVME_FEAT_FID_KATO, 0);
	CU_ASSERT_EQUAL(t_status(&a), 0); /* its controller is not ended */
}

/* An I/O queue is lost alone, with a write in flight; its controller lives, as far as the target
 * knows. The host's other commands wait for the write only: on a new controller, on a second path,
 * and on another queue of the same controller. */
static void queue_is_lost_alone(void)
{
	enum { NEW_CTRL, SECOND_PATH, SAME_CTRL, WAYS };

	for (int way = 0; way < WAYS; way++) {
		T_PAIR(p);
		struct t_conn *io = way == SECOND_PATH ? second_path(&p, 0) : NULL;
		struct t_disk *d = t_begin_old_write(p.env, p.io);
		struct nvme_sqe sqe;

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
		expect_answer_to(io, &sqe); /* of the other namespace */
		CU_ASSERT_EQUAL(d->held_count, 1);
		old_write_ends(p.env, d, io);
		CU_ASSERT_TRUE(LIST_EMPTY(&p.admin->qp.ctrl->lost_queues));
		CU_ASSERT_FALSE(rdt_fence_any(io->qp.ctrl));
	}
}

/* As above, and the reactor of the admin queue of those that have to wait is blocked: their
 * commands on the other reactor wait nevertheless. */
static void owner_stands_still_when_a_queue_is_lost(void)
{
	for (int second = 0; second < 2; second++) {
		T_PAIR(p);
		struct t_conn *admin = second ? t_comes_back(p.env, 0, 0x11) : p.admin;
		struct t_conn *io = t_conn_new(p.env, 1, 2, 16);
		struct t_disk *d;
		struct nvme_sqe sqe;

		CU_ASSERT_EQUAL(t_connect(io, admin->qp.ctrl->cntlid), admin->qp.ctrl->cntlid);
		t_turn(p.env);
		d = t_begin_old_write(p.env, p.io);
		p.env->still[0] = true;
		t_conn_cut(p.io);
		t_turn(p.env);
		write_to_both(io, &sqe);
		t_advance(p.env, RD_NSEC_PER_SEC / 2);
		expect_answer_to(io, &sqe); /* of the other namespace */
		CU_ASSERT_EQUAL(d->held_count, 1);
		p.env->still[0] = false; /* it lifts the fence */
		old_write_ends(p.env, d, io);
	}
}

/* A lost queue has a write in each of two namespaces, and a Read. Each namespace is free when its
 * write has ended: the host is not kept from it by storage that hangs elsewhere, or by a Read. */
static void each_namespace_is_free_with_its_writes(void)
{
	T_PAIR(p);
	struct t_conn *io = second_path(&p, 0);
	struct t_disk *d = t_begin_old_write(p.env, p.io), *other = &p.env->disk[1];
	struct nvme_sqe sqe;

	other->hold = true;
	t_rw_sqe(p.io, &sqe, false, 1, 1, t_old_data);
	t_send(p.io, &sqe, NULL, 0);
	t_send_zeroes(p.io, 5, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->held_count, 2);
	t_conn_cut(p.io);
	t_turn(p.env);
	write_to_both(io, &sqe);
	t_advance(p.env, RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(t_answers(io), 0);

	other->hold = false;
	t_turn(p.env);
	t_advance(p.env, RD_NSEC_PER_SEC);
	expect_answer_to(io, &sqe);
	t_disk_finish(d, 0, 0);
	t_turn(p.env);
	t_advance(p.env, RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(d->held_count, 2); /* the Read, and the new write */
	CU_ASSERT_TRUE(LIST_EMPTY(&p.admin->qp.ctrl->lost_queues));
	d->hold = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answer_status(io), 0);
}

/* Two queues of a controller are lost with writes in one namespace, which ends with the second. The
 * namespace of a third one is removed. */
static void several_queues_are_lost(void)
{
	T_PAIR(p);
	struct t_conn *io = second_path(&p, 0), *lost = t_conn_new(p.env, 0, 2, 16);
	struct rdt_ns *gone = t_ns_of(p.env->t->subsys[0], 5);
	struct rdt_ctrl *ctrl = io->qp.ctrl;
	unsigned int slot = gone->slot;
	struct t_disk *d;

	CU_ASSERT_EQUAL(t_connect(lost, p.cntlid), p.cntlid);
	d = t_begin_old_write(p.env, p.io);
	t_send_zeroes(lost, 1, 1);
	t_turn(p.env);
	t_conn_cut(p.io);
	t_conn_cut(lost);
	t_turn(p.env);
	CU_ASSERT_TRUE(rdt_slots_any(&ctrl->host->lost_ns));
	t_disk_finish(d, 0, 0);
	t_turn(p.env);
	CU_ASSERT_TRUE(rdt_slots_any(&ctrl->host->lost_ns));
	rdt_slots_set(&LIST_FIRST(&p.admin->qp.ctrl->lost_queues)->left_ns, slot);
	rdt_slots_set(&ctrl->host->lost_ns, slot);
	rdt_control_ns_remove(gone, NULL, NULL);
	t_turn(p.env);
	CU_ASSERT_FALSE(rdt_slots_has(&ctrl->host->lost_ns, slot));
	CU_ASSERT_FALSE(rdt_slots_has(&LIST_FIRST(&p.admin->qp.ctrl->lost_queues)->left_ns, slot));
	d->hold = false;
	t_turn(p.env);
	CU_ASSERT_FALSE(rdt_fence_any(ctrl));
}

static void ask_again(struct t_conn *c)
{
	struct rdt_ctrl *ctrl;

	LIST_FOREACH (ctrl, &c->qp.ctrl->subsys->asking, asking_link)
		rdt_fence_ask(ctrl, 0);
}

/* While a reactor ends the queues for an answer, other reactors ask again. Such a question is
 * posted once, and the controller waits for its answer as well. */
static void asked_again_during_the_answer(void)
{
	T_PAIR(p);
	struct t_conn *other = t_conn_new(p.env, 1, 2, 16), *io;
	struct rdt_ctrl *ctrl;

	CU_ASSERT_EQUAL(t_connect(other, p.cntlid), p.cntlid);
	t_begin_old_write(p.env, p.io);
	p.env->still[1] = true;
	p.io->peer_closed = other->peer_closed = true;
	p.io->on_close = other->on_close = ask_again;
	io = second_path(&p, 0);
	ctrl = io->qp.ctrl;
	p.env->still[1] = false;
	for (int i = 0; i < 100 && !ctrl->subsys->asks[1].answers; i++)
		t_pump(p.env);
	CU_ASSERT_EQUAL_FATAL(ctrl->subsys->asks[1].answers, 1);
	CU_ASSERT_TRUE(ctrl->subsys->asks[1].posted);
	CU_ASSERT_EQUAL(ctrl->reactors_asked >> 1, 1);
	t_turn(p.env);
	CU_ASSERT_EQUAL(ctrl->reactors_asked, 0);
	CU_ASSERT_EQUAL(ctrl->reactors_looked, 0);
	CU_ASSERT_TRUE(LIST_EMPTY(&ctrl->subsys->asking));
	CU_ASSERT_FALSE(ctrl->subsys->asks[1].posted);
	CU_ASSERT_EQUAL(ctrl->subsys->asks[1].answers, 2);
	p.env->disk[0].hold = false;
}

/* A reactor is blocked that has no queue of the host any more. */
static void reactor_that_had_a_queue(void)
{
	T_PAIR(p);
	struct t_conn *other = t_conn_new(p.env, 0, 2, 16), *io;
	struct nvme_sqe sqe;

	CU_ASSERT_EQUAL(t_connect(other, p.cntlid), p.cntlid);
	t_conn_cut(p.io);
	t_turn(p.env);
	p.env->still[1] = true;
	io = second_path(&p, 0);
	write_to_both(io, &sqe);
	t_advance(p.env, RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(t_answers(io), 2);
	p.env->still[1] = false;
}

/* A reactor stands still that has the admin queues of two paths of a host. Commands of the second
 * one, on the other reactor, wait for what the first may have in flight. */
static void second_path_waits_for_its_own_reactor(void)
{
	struct stalled s = {.p = t_pair_new()};
	struct t_conn *first = t_conn_new(s.p.env, 0, 2, 16), *admin;

	CU_ASSERT_EQUAL(t_connect(first, s.p.cntlid), s.p.cntlid);
	admin = t_comes_back(s.p.env, 0, 0x11);
	set_keep_alive(admin, 300000);
	set_keep_alive(s.p.admin, 300000);
	s.io = t_conn_new(s.p.env, 1, 1, 16);
	CU_ASSERT_EQUAL(t_connect(s.io, admin->qp.ctrl->cntlid), admin->qp.ctrl->cntlid);
	stall_with_write(&s, first);
	t_advance(s.p.env, 2 * RD_NSEC_PER_SEC);
	write_to_both(s.io, &s.sqe);
	t_advance(s.p.env, 10 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(t_answers(s.io), 0);
	CU_ASSERT_EQUAL(s.d->held_count, 1);
	ends_in_order(&s);
}

/* One reactor has the admin queue of the second path, and one has the first path with a write; they
 * stop at different times, and the I/O queue of the second path is on a third one. */
static void two_reactors_stand_still(void)
{
	static const unsigned int stops[][2] = {/* ms; of the first path, of the second */
						{0, 0},
						{0, 700},
						{700, 0},
						{0, 1500},
						{1500, 0}};

	for (unsigned int i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
		struct t_conn *first, *admin;
		struct stalled s;

		t_reactors = 3;
		s.p = t_pair_new();
		t_reactors = 2;
		first = t_conn_new(s.p.env, 0, 2, 16);
		CU_ASSERT_EQUAL(t_connect(first, s.p.cntlid), s.p.cntlid);
		admin = t_comes_back(s.p.env, 2, 0x11);
		set_keep_alive(admin, 300000);
		set_keep_alive(s.p.admin, 300000);
		s.io = t_conn_new(s.p.env, 1, 1, 16);
		CU_ASSERT_EQUAL(t_connect(s.io, admin->qp.ctrl->cntlid), admin->qp.ctrl->cntlid);
		s.d = t_begin_old_write(s.p.env, first);
		for (unsigned int ms = 0; ms < 4000; ms += 100) {
			s.p.env->still[0] = ms >= stops[i][0];
			s.p.env->still[2] = ms >= stops[i][1];
			t_advance(s.p.env, 100 * RD_NSEC_PER_MSEC);
		}
		write_to_both(s.io, &s.sqe);
		t_advance(s.p.env, RD_NSEC_PER_SEC);
		CU_ASSERT_EQUAL(t_answers(s.io), 0);
		CU_ASSERT_EQUAL(s.d->held_count, 1);
		s.p.env->still[2] = false;
		ends_in_order(&s);
	}
}

/* A host that has lost a path goes on by another one, which was ready before. */
static void second_path_waits(void)
{
	for (int both = 0; both < 2; both++) {
		T_PAIR(p);
		struct t_conn *io = second_path(&p, 0);
		struct t_disk *d = t_begin_old_write(p.env, p.io);
		struct nvme_sqe sqe;

		if (both)
			t_conn_cut(p.io);
		t_conn_cut(p.admin);
		t_turn(p.env);
		write_to_both(io, &sqe);
		t_advance(p.env, RD_NSEC_PER_SEC);
		expect_answer_to(io, &sqe); /* of the other namespace */
		CU_ASSERT_EQUAL(d->held_count, 1);
		old_write_ends(p.env, d, io);
	}
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
	ends_in_order(&s);
}

/* A reactor does not run that has no other controllers of the host. */
static void other_reactors_do_not_matter(void)
{
	T_PAIR(p);
	struct t_conn *io = second_path(&p, 1);
	struct rdt_ctrl *ctrl = io->qp.ctrl;

	CU_ASSERT_FALSE(rdt_ctrl_distrust(ctrl, 1u << 1));
	CU_ASSERT_EQUAL(ctrl->reactors_asked, 0);
	CU_ASSERT_TRUE(rdt_ctrl_distrust(ctrl, 1u << 0));
	CU_ASSERT_EQUAL(ctrl->reactors_asked, 1u << 0);
	t_turn(p.env);
	CU_ASSERT_FALSE(rdt_fence_any(ctrl));
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
	ends_in_order(&s);
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
	struct t_conn *admin = t_comes_back(env, 1, hostid), *io = t_conn_new(env, 1, 1, 16);
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
	t_comes_back(s.p.env, 1, 0x22); /* asks the running reactor */
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
	T_PAIR(p);
	struct rdt_ctrl *ctrl = p.admin->qp.ctrl;
	struct t_conn *c = t_conn_new(p.env, 1, 2, 16);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;

	CU_ASSERT_EQUAL(atomic_load(&ctrl->queues_unreported), 1);
	t_connect_sqe(c, &sqe, &data, p.cntlid);
	t_in_capsule(&sqe, sizeof(data));
	t_send(c, &sqe, &data, sizeof(data));
	t_conn_cut(c);
	t_turn(p.env);
	CU_ASSERT_EQUAL(atomic_load(&ctrl->queues_unreported), 1);
	t_conn_cut(p.io);
	t_turn(p.env);
	CU_ASSERT_EQUAL(atomic_load(&ctrl->queues_unreported), 0);
}

/* ---- storage that gateways share ---- */

static int no_state(struct rdt_bdev *bdev, char **text, size_t *len, uint32_t *seq)
{
	*text = NULL;
	*len = 0;
	*seq = atomic_load(&bdev->state_seq);
	return 0;
}

static struct rdt_bdev_ops shared_ops;

/* This gateway gets the storage of namespace 1 (again). */
static void takes_storage(struct t_env *env)
{
	struct t_disk *d = &env->disk[0];

	t_advance(env, 1);
	shared_ops = *d->bdev.ops; /* each turn sets those of the fake disk */
	shared_ops.state_read = no_state;
	d->bdev.ops = &shared_ops;
	d->bdev.shares_state = true;
	atomic_fetch_add(&d->bdev.state_seq, 1);
	rdt_resv_follow(t_ns_of(env->t->subsys[0], 1));
	t_turn(env);
	t_advance(env, 1);
}

static bool has_taken(const struct t_env *env)
{
	const struct rdt_bdev *bdev = &env->disk[0].bdev;

	return atomic_load(&bdev->state_taken) == atomic_load(&bdev->state_seq);
}

/* The next answer of @io tells that another gateway has the storage. */
static void expect_elsewhere(struct t_conn *io)
{
	struct t_answer a;

	CU_ASSERT_EQUAL_FATAL(t_answers(io), 1);
	a = t_answer(io);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SCT_PATH << 8 | NVME_SC_ANA_INACCESSIBLE);
}

/* Its host may have lost it, and repeated it by another gateway. */
static void waits_while_storage_is_taken(void)
{
	T_PAIR(p);

	p.io->hold_fetch = true;
	t_send_rw(p.io, true, 0, 1, t_old_data);
	t_turn(p.env);
	CU_ASSERT_EQUAL(p.io->fetches_count, 1);
	takes_storage(p.env);
	CU_ASSERT_TRUE(has_taken(p.env));
	p.io->hold_fetch = false;
	t_turn(p.env);
	expect_elsewhere(p.io);
	CU_ASSERT_EQUAL(p.env->disk[0].submitted, 0);
	t_send_rw(p.io, true, 0, 1, t_new_data);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answer_status(p.io), 0);
	CU_ASSERT_EQUAL(p.env->disk[0].submitted, 1);
}

/* The transport has not read a command when all that it knows is answered. */
static void unread_while_storage_is_taken(void)
{
	T_PAIR(p);

	p.io->unread = true;
	takes_storage(p.env);
	for (int more = 1; more >= 0; more--) {
		p.io->unread = more;
		t_send_rw(p.io, true, 0, 1, t_old_data);
		t_turn(p.env);
		expect_elsewhere(p.io);
		t_advance(p.env, 1);
	}
	CU_ASSERT_EQUAL(p.env->disk[0].submitted, 0);
	t_send_rw(p.io, true, 0, 1, t_new_data);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answer_status(p.io), 0);
	/* What is read later than the storage was taken, and arrived later. */
	takes_storage(p.env);
	p.io->unread = true;
	t_send_rw(p.io, true, 0, 1, t_new_data);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answer_status(p.io), 0);
}

/* A reactor that stands still may have such commands: nobody gets the storage before it says. */
static void still_while_storage_is_taken(void)
{
	T_PAIR(p);

	takes_storage(p.env);
	CU_ASSERT_TRUE(has_taken(p.env));
	p.env->still[1] = true;
	takes_storage(p.env);
	CU_ASSERT_FALSE(has_taken(p.env));
	p.env->still[1] = false;
	t_turn(p.env);
	CU_ASSERT_TRUE(has_taken(p.env));
}

const struct t_case t_stale_lost_cases[] = {
	{"a write waits when this gateway gets the storage", waits_while_storage_is_taken},
	{"a write is unread when this gateway gets the storage", unread_while_storage_is_taken},
	{"a reactor stands still when this gateway gets the storage", still_while_storage_is_taken},
	{"a queue whose reactor stands still has told nothing", reactor_stands_still},
	{"the admin queue's reactor stands still as well", admin_reactor_stands_still},
	{"a second path stands still", second_path_stands_still},
	{"an I/O queue of a second path stands still", queue_of_second_path_stands_still},
	{"a reactor is blocked within a turn, and the loss is not noticed",
	 blocked_with_an_unnoticed_loss},
	{"a queue is lost alone with a write in flight", queue_is_lost_alone},
	{"a queue is lost alone, and those that wait belong to a blocked reactor",
	 owner_stands_still_when_a_queue_is_lost},
	{"each namespace is free with its writes", each_namespace_is_free_with_its_writes},
	{"several queues of a controller are lost", several_queues_are_lost},
	{"a reactor is asked again while it answers", asked_again_during_the_answer},
	{"a reactor that had a queue does not matter", reactor_that_had_a_queue},
	{"a second path waits for the reactor of both", second_path_waits_for_its_own_reactor},
	{"reactors stop one after the other", two_reactors_stand_still},
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
	{NULL, NULL},
};
