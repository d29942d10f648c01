/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Namespaces that are added, removed and resized while hosts have commands in flight on both
 * reactors. t_env_free() checks that all buffers were returned; the fake disk checks that it is
 * closed without a channel and without a bio.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "t_target.h"
#include "target/bdev/jobs.h"
#include "target/manage/objects/compare.h"
#include "target/manage/objects/opening.h"
#include "target/nvmf/ana.h"

#define NEW_DISK 3u

struct outcome {
	unsigned int calls;
	int err;
	char text[256];
};

static void on_done(void *arg, int err, const char *text)
{
	struct outcome *o = arg;

	o->calls++;
	o->err = err;
	strncpy(o->text, text, sizeof(o->text) - 1);
}

/* A second I/O queue, on the other reactor. */
static struct t_conn *second_queue(struct t_pair *p)
{
	struct t_conn *c = t_conn_new(p->env, 0, 2, 16);

	CU_ASSERT_EQUAL(t_connect(c, p->cntlid), p->cntlid);
	return c;
}

static struct rdt_ns_config new_config(uint32_t nsid)
{
	struct rdt_ns_config cfg = {
		.nsid = nsid,
		.backend = RDT_BACKEND_MEMORY,
		.block_size = 512,
		.size_bytes = T_BLOCKS * 512,
		.uuid = "u",
		.ana_group = 1,
	};

	memset(cfg.uuid_bytes, 0x77, sizeof(cfg.uuid_bytes));
	return cfg;
}

static struct rdt_ns *the_ns(struct t_pair *p, uint32_t nsid)
{
	return t_ns_of(p->env->t->subsys[0], nsid);
}

static void add(struct t_pair *p, const struct rdt_ns_config *cfg, struct outcome *o)
{
	memset(o, 0, sizeof(*o));
	p->env->disk_next = NEW_DISK;
	rdt_control_ns_add(p->env->t->subsys[0], cfg, NULL, on_done, o);
}

static void remove_ns(struct t_pair *p, uint32_t nsid, struct outcome *o)
{
	memset(o, 0, sizeof(*o));
	CU_ASSERT_PTR_NOT_NULL_FATAL(the_ns(p, nsid));
	rdt_control_ns_remove(the_ns(p, nsid), on_done, o);
}

static void send_rw(struct t_conn *c, bool write, uint32_t nsid, uint64_t lba, uint32_t blocks,
		    void *buf)
{
	struct nvme_sqe sqe;

	t_rw_sqe(c, &sqe, write, lba, blocks, buf);
	sqe.nsid = htole32(nsid);
	t_send(c, &sqe, NULL, 0);
}

static uint16_t rw(struct t_conn *c, bool write, uint32_t nsid, uint64_t lba, uint32_t blocks,
		   void *buf)
{
	struct t_answer a;

	send_rw(c, write, nsid, lba, blocks, buf);
	t_turn(c->env);
	a = t_answer(c);
	return t_status(&a);
}

static uint16_t next_status(struct t_conn *c)
{
	struct t_answer a = t_answer(c);

	return t_status(&a);
}

/* An Asynchronous Event Request that waits for a changed namespace attribute. */
static void ask_for_event(struct t_pair *p)
{
	struct t_answer a = t_feature(p->admin, true, NVME_FEAT_FID_ASYNC_EVENT, 1u << 8);
	struct nvme_sqe sqe;

	CU_ASSERT_EQUAL(t_status(&a), 0);
	t_sqe(p->admin, &sqe, nvme_admin_async_event, NULL, 0);
	t_begin(p->admin, &sqe);
	CU_ASSERT_EQUAL_FATAL(t_answers(p->admin), 0);
}

static void expect_event(struct t_pair *p)
{
	struct t_answer a = t_answer(p->admin);

	/* Type notice, namespace attribute changed, log page 04h. */
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 4u << 16 | 0u << 8 | 2u);
}

static void added_is_served(void)
{
	T_PAIR(p);
	struct t_conn *other = second_queue(&p);
	struct rdt_ns_config cfg = new_config(9);
	static uint8_t buf[4096], back[4096];
	struct outcome o;

	ask_for_event(&p);
	CU_ASSERT_EQUAL(rw(p.io, true, 9, 0, 8, buf), NVME_SC_INVALID_NS);
	add(&p, &cfg, &o);
	t_turn(p.env);
	CU_ASSERT_EQUAL(o.calls, 1);
	CU_ASSERT_EQUAL(o.err, 0);
	expect_event(&p);
	memset(buf, 0x5a, sizeof(buf));
	CU_ASSERT_EQUAL(rw(p.io, true, 9, 40, 8, buf), 0);
	CU_ASSERT_EQUAL(rw(other, false, 9, 40, 8, back), 0);
	CU_ASSERT_EQUAL(memcmp(buf, back, sizeof(buf)), 0);
	CU_ASSERT_EQUAL(p.env->disk[NEW_DISK].channels, 2);
	CU_ASSERT_EQUAL(atomic_load(&p.env->t->subsys[0]->ns_count), 3);
}

/* No command finds it before all reactors can use it; after a failure its storage is closed. */
static void add_that_fails(void)
{
	for (unsigned int nth = 1; nth <= 2; nth++) {
		T_PAIR(p);
		struct rdt_ns_config cfg = new_config(9);
		static uint8_t buf[512];
		struct outcome o;

		p.env->disk[NEW_DISK].chan_open_fails = nth;
		add(&p, &cfg, &o);
		t_turn(p.env);
		CU_ASSERT_EQUAL(o.calls, 1);
		CU_ASSERT_EQUAL(o.err, -EIO);
		CU_ASSERT_PTR_NOT_NULL(strstr(o.text, "a reactor cannot use its backend"));
		CU_ASSERT_TRUE(p.env->disk[NEW_DISK].closed);
		CU_ASSERT_EQUAL(rw(p.io, false, 9, 0, 1, buf), NVME_SC_INVALID_NS);
		CU_ASSERT_EQUAL(atomic_load(&p.env->t->subsys[0]->ns_count), 2);
		CU_ASSERT_EQUAL_FATAL(the_ns(&p, 9)->state, RDT_NS_FAILED);
		CU_ASSERT_PTR_NOT_NULL(strstr(the_ns(&p, 9)->why, "cannot use its backend"));
		p.env->disk_next = NEW_DISK; /* and now it can */
		rdt_control_ns_retry(the_ns(&p, 9), on_done, &o);
		t_turn(p.env);
		CU_ASSERT_EQUAL(o.calls, 2);
		CU_ASSERT_EQUAL(o.err, 0);
		CU_ASSERT_EQUAL(rw(p.io, false, 9, 0, 1, buf), 0);
	}
}

static void wrong_calls(void)
{
	T_PAIR(p);
	struct rdt_ns_config cfg = new_config(1);
	static uint8_t buf[512];
	struct outcome o, o2;

	add(&p, &cfg, &o);
	CU_ASSERT_EQUAL(o.err, -EEXIST);
	cfg.nsid = 9;
	p.env->disk_next = 0;
	memset(&o, 0, sizeof(o));
	rdt_control_ns_add(p.env->t->subsys[0], &cfg, NULL, on_done, &o);
	CU_ASSERT_EQUAL(o.err, -ENOENT);
	CU_ASSERT_EQUAL_FATAL(the_ns(&p, 9)->state, RDT_NS_FAILED);
	remove_ns(&p, 9, &o);
	CU_ASSERT_EQUAL(o.calls, 1);
	CU_ASSERT_EQUAL(o.err, 0);
	add(&p, &cfg, &o);
	remove_ns(&p, 9, &o2); /* in the middle of it */
	CU_ASSERT_EQUAL(o.err, -ECANCELED);
	CU_ASSERT_PTR_NULL(the_ns(&p, 9));
	t_turn(p.env);
	CU_ASSERT_EQUAL(o2.calls, 1);
	CU_ASSERT_EQUAL(o2.err, 0);
	CU_ASSERT_TRUE(p.env->disk[NEW_DISK].closed);
	CU_ASSERT_EQUAL(rw(p.io, false, 9, 0, 1, buf), NVME_SC_INVALID_NS);
}

/* The I/O of the old one hangs: hosts see at once that it is gone, and then the new one. The file
 * of the old one is closed when the I/O has ended. */
static void another_takes_its_nsid(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	struct rdt_ns_config cfg = new_config(1);
	static uint8_t buf[512];
	struct outcome gone, came, again, twice;
	struct rdt_ns *old;

	d->hold = true;
	send_rw(p.io, true, 1, 0, 1, buf);
	t_turn(p.env);
	old = the_ns(&p, 1);
	remove_ns(&p, 1, &gone);
	add(&p, &cfg, &came);
	t_turn(p.env);
	CU_ASSERT_EQUAL(came.calls, 1);
	CU_ASSERT_EQUAL(came.err, 0);
	CU_ASSERT_EQUAL(gone.calls, 0);
	CU_ASSERT_EQUAL(old->state, RDT_NS_LEAVING);
	CU_ASSERT_EQUAL(rw(p.io, true, 1, 0, 1, buf), 0);
	CU_ASSERT_EQUAL(p.env->disk[NEW_DISK].submitted, 1);
	memset(&again, 0, sizeof(again));
	rdt_control_ns_remove(old, on_done, &again);
	CU_ASSERT_EQUAL(again.err, -EBUSY);
	/* And that one goes in the middle of an addition. */
	remove_ns(&p, 1, &twice);
	t_turn(p.env);
	CU_ASSERT_EQUAL(twice.calls, 1);
	CU_ASSERT_EQUAL(rw(p.io, true, 1, 0, 1, buf), NVME_SC_INVALID_NS);
	/* Whoever asked is told that it goes on. */
	t_advance(p.env, 11 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(gone.calls, 1);
	CU_ASSERT_EQUAL(gone.err, -EINPROGRESS);
	CU_ASSERT_FALSE(d->closed);
	d->hold = false;
	t_turn(p.env);
	CU_ASSERT_TRUE(d->closed);
	CU_ASSERT_EQUAL(gone.calls, 1);
	t_pair_free(&p);
}

static void removed_with_io_in_the_backend(void)
{
	T_PAIR(p);
	struct t_conn *other = second_queue(&p);
	struct t_disk *d = &p.env->disk[0];
	static uint8_t buf[4096];
	struct outcome o;

	ask_for_event(&p);
	d->hold = true;
	for (unsigned int i = 0; i < 4; i++) {
		send_rw(p.io, i & 1, 1, i * 8, 8, buf);
		send_rw(other, i & 1, 1, 64 + i * 8, 8, buf);
	}
	t_turn(p.env);
	CU_ASSERT_EQUAL_FATAL(d->held_count, 8);
	remove_ns(&p, 1, &o);
	t_turn(p.env);
	expect_event(&p);
	/* Later commands are refused at once; commands in flight are waited for. */
	CU_ASSERT_EQUAL(rw(p.io, false, 1, 0, 1, buf), NVME_SC_INVALID_NS);
	CU_ASSERT_EQUAL(rw(other, false, 1, 0, 1, buf), NVME_SC_INVALID_NS);
	CU_ASSERT_EQUAL(rw(p.io, false, 5, 0, 1, buf), 0); /* namespace 5 is not affected */
	CU_ASSERT_EQUAL(o.calls, 0);
	CU_ASSERT_FALSE(d->closed);
	CU_ASSERT_EQUAL(d->channels, 2);
	for (unsigned int i = 0; i < 8; i++) {
		CU_ASSERT_FALSE(d->closed);
		t_disk_finish(d, 0, 0);
		t_turn(p.env);
	}
	CU_ASSERT_EQUAL(o.calls, 1);
	CU_ASSERT_EQUAL(o.err, 0);
	CU_ASSERT_TRUE(d->closed);
	CU_ASSERT_EQUAL(t_answers(p.io), 4);
	CU_ASSERT_EQUAL(t_answers(other), 4);
	for (unsigned int i = 0; i < 4; i++) { /* the backend's result is success */
		CU_ASSERT_EQUAL(next_status(p.io), 0);
		CU_ASSERT_EQUAL(next_status(other), 0);
	}
	CU_ASSERT_PTR_NULL(the_ns(&p, 1));
}

static void removed_cancels_where_it_can(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	static uint8_t buf[4096];
	struct outcome o;

	d->can_cancel = true;
	t_turn(p.env);
	d->hold = true;
	send_rw(p.io, false, 1, 0, 8, buf);
	send_rw(p.io, true, 1, 8, 8, buf);
	t_turn(p.env);
	remove_ns(&p, 1, &o);
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->cancelled, 2);
	CU_ASSERT_EQUAL(o.calls, 0);
	t_disk_finish(d, 0, -ECANCELED);
	t_disk_finish(d, 0, 0); /* too late for this one */
	t_turn(p.env);
	CU_ASSERT_EQUAL(o.calls, 1);
	CU_ASSERT_EQUAL(next_status(p.io), NVME_SC_INVALID_NS);
	CU_ASSERT_EQUAL(next_status(p.io), 0);
}

static void removed_with_io_before_the_backend(void)
{
	T_PAIR(p);
	struct t_conn *other = second_queue(&p);
	struct t_disk *d = &p.env->disk[0];
	static uint8_t buf[T_MDTS];
	struct outcome o;

	/* Reactor 1: three commands use the host's share of the buffers, three wait. */
	d->hold = true;
	for (unsigned int i = 0; i < 6; i++)
		send_rw(p.io, false, 1, 0, T_MDTS / 512, buf);
	/* Reactor 0: one READ has started, one waits for it. */
	other->hold_fetch = true;
	send_rw(other, true, 1, 0, 8, buf);
	send_rw(other, true, 1, 8, 8, buf);
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->held_count, 3);
	CU_ASSERT_EQUAL(other->fetches_count, 2);
	remove_ns(&p, 1, &o);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(p.io), 3);
	for (unsigned int i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(next_status(p.io), NVME_SC_INVALID_NS);
	CU_ASSERT_EQUAL(t_answers(other), 1);
	CU_ASSERT_EQUAL(next_status(other), NVME_SC_INVALID_NS);
	other->hold_fetch = false;
	d->hold = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(next_status(other), NVME_SC_INVALID_NS);
	CU_ASSERT_EQUAL(d->submitted, 3); /* the write whose data came later did not begin */
	CU_ASSERT_EQUAL(t_answers(p.io), 3);
	CU_ASSERT_EQUAL(o.calls, 1);
	CU_ASSERT_TRUE(d->closed);
}

/* The connection, or the whole association, ends while its commands hold a namespace that is being
 * removed. */
static void removed_while_the_host_leaves(void)
{
	for (int admin = 0; admin < 2; admin++) {
		T_PAIR(p);
		struct t_disk *d = &p.env->disk[0];
		static uint8_t buf[512];
		struct outcome o;
		bool gone = false;

		p.io->gone = &gone;
		d->hold = true;
		send_rw(p.io, true, 1, 0, 1, buf);
		send_rw(p.io, false, 1, 0, 1, buf);
		t_turn(p.env);
		remove_ns(&p, 1, &o);
		t_conn_cut(admin ? p.admin : p.io);
		t_turn(p.env);
		CU_ASSERT_EQUAL(o.calls, 0);
		CU_ASSERT_FALSE(gone);
		d->hold = false;
		t_turn(p.env);
		CU_ASSERT_EQUAL(o.calls, 1);
		CU_ASSERT_TRUE(gone);
	}
}

/* SIGTERM while a namespace is added or removed: the change is dropped, and nothing remains. */
static void change_at_the_end(void)
{
	for (int turns = 0; turns < 2; turns++) {
		struct t_pair p = t_pair_new();
		struct rdt_ns_config cfg = new_config(9);
		static uint8_t buf[512];
		struct outcome o, o2;

		p.env->disk[0].hold = true;
		send_rw(p.io, false, 1, 0, 1, buf);
		t_turn(p.env);
		remove_ns(&p, 1, &o);
		add(&p, &cfg, &o2);
		if (turns)
			t_turn(p.env);
		t_pair_free(&p);
		CU_ASSERT_TRUE(o.calls <= 1);
	}
}

static void resize(void)
{
	T_PAIR(p);
	struct rdt_ns *ns = the_ns(&p, 1);
	struct t_disk *d = &p.env->disk[0];
	static uint8_t buf[4096];
	char text[256];

	ask_for_event(&p);
	d->hold = true;
	send_rw(p.io, true, 1, T_BLOCKS - 8, 8, buf);
	t_turn(p.env);
	CU_ASSERT_EQUAL(rdt_control_ns_resize(ns, 1024 * 512, text, sizeof(text)), 0);
	t_turn(p.env);
	expect_event(&p);
	d->hold = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(next_status(p.io), 0); /* admitted before */
	CU_ASSERT_EQUAL(rw(p.io, false, 1, 1016, 8, buf), 0);
	CU_ASSERT_EQUAL(rw(p.io, false, 1, 1017, 8, buf), NVME_SC_LBA_RANGE);
	CU_ASSERT_EQUAL(rw(p.io, false, 1, T_BLOCKS - 8, 8, buf), NVME_SC_LBA_RANGE);
	CU_ASSERT_EQUAL(rdt_control_ns_resize(ns, 2048 * 512, text, sizeof(text)), 0);
	CU_ASSERT_EQUAL(rw(p.io, true, 1, 2040, 8, buf), 0);
	/* A failed resize changes nothing. */
	CU_ASSERT_EQUAL(rdt_control_ns_resize(ns, UINT64_C(1) << 40, text, sizeof(text)), -ENOMEM);
	CU_ASSERT_EQUAL(rw(p.io, true, 1, 2040, 8, buf), 0);
	CU_ASSERT_EQUAL(rw(p.io, true, 1, 2041, 8, buf), NVME_SC_LBA_RANGE);
}

/* Many rounds with commands in flight on both reactors; slots and NSIDs are reused. */
static void rounds(void)
{
	T_PAIR(p);
	struct t_conn *other = second_queue(&p);
	struct t_disk *d = &p.env->disk[NEW_DISK];
	static uint8_t buf[4096];

	for (unsigned int round = 0; round < 200; round++) {
		struct rdt_ns_config cfg = new_config(2 + round % 5 * 100);
		struct outcome o;
		uint16_t early;

		if (cfg.nsid == 5)
			continue;
		add(&p, &cfg, &o);
		send_rw(p.io, true, cfg.nsid, 0, 8, buf); /* before or after: both are correct */
		t_turn(p.env);
		CU_ASSERT_EQUAL_FATAL(o.err, 0);
		early = next_status(p.io);
		CU_ASSERT_TRUE(early == 0 || early == NVME_SC_INVALID_NS);
		d->hold = round & 1;
		for (unsigned int i = 0; i < 5; i++) {
			send_rw(p.io, i & 1, cfg.nsid, i, 8, buf);
			send_rw(other, !(i & 1), cfg.nsid, i, 8, buf);
		}
		if (round & 2)
			t_turn(p.env);
		remove_ns(&p, cfg.nsid, &o);
		for (unsigned int i = 0; i < 3; i++) {
			send_rw(p.io, i & 1, cfg.nsid, i, 8, buf);
			send_rw(other, !(i & 1), cfg.nsid, i, 8, buf);
		}
		t_turn(p.env);
		d->hold = false;
		t_turn(p.env);
		CU_ASSERT_EQUAL_FATAL(o.calls, 1);
		CU_ASSERT_TRUE(d->closed);
		CU_ASSERT_EQUAL_FATAL(t_answers(p.io), 8);
		CU_ASSERT_EQUAL_FATAL(t_answers(other), 8);
		for (unsigned int i = 0; i < 8; i++) {
			uint16_t a = next_status(p.io);
			uint16_t b = next_status(other);

			CU_ASSERT_TRUE(a == 0 || a == NVME_SC_INVALID_NS);
			CU_ASSERT_TRUE(b == 0 || b == NVME_SC_INVALID_NS);
		}
	}
	CU_ASSERT_EQUAL(rw(p.io, true, 1, 0, 8, buf), 0);
	CU_ASSERT_EQUAL(rw(p.io, true, 5, 0, 8, buf), 0);
}

/* A disk that is opened in the background. */
static struct t_disk *add_opening(struct t_pair *p, const struct rdt_ns_config *cfg,
				  struct outcome *o)
{
	struct t_disk *d = &p->env->disk[NEW_DISK];

	d->open_rc = -EINPROGRESS;
	add(p, cfg, o);
	t_turn(p->env);
	CU_ASSERT_EQUAL(o->calls, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(the_ns(p, cfg->nsid));
	CU_ASSERT_EQUAL(the_ns(p, cfg->nsid)->state, RDT_NS_OPENING);
	CU_ASSERT_EQUAL(d->channels, 0);
	return d;
}

static void opened_later(void)
{
	T_PAIR(p);
	struct rdt_ns_config cfg = new_config(7);
	static uint8_t buf[512];
	struct t_disk *d;
	struct outcome o;

	d = add_opening(&p, &cfg, &o);
	send_rw(p.io, false, 7, 0, 1, buf);
	t_turn(p.env);
	CU_ASSERT_EQUAL(next_status(p.io), NVME_SC_INVALID_NS);
	/* A failure is told; the backend goes on trying. */
	d->open_rc = -ENOENT;
	rdt_bdev_changed(&d->bdev);
	t_turn(p.env);
	CU_ASSERT_EQUAL(the_ns(&p, 7)->state, RDT_NS_FAILED);
	CU_ASSERT_EQUAL(o.calls, 1);
	CU_ASSERT_EQUAL(o.err, -ENOENT);
	CU_ASSERT_FALSE(d->closed);
	/* What is known only now is what hosts see. */
	d->open_rc = 0;
	d->bdev.size = 64 * 512;
	rdt_bdev_changed(&d->bdev);
	t_turn(p.env);
	CU_ASSERT_EQUAL(the_ns(&p, 7)->state, RDT_NS_LIVE);
	CU_ASSERT_EQUAL(the_ns(&p, 7)->blocks, 64);
	CU_ASSERT_EQUAL(d->channels, p.env->t->reactors_count);
	send_rw(p.io, false, 7, 63, 1, buf);
	t_turn(p.env);
	CU_ASSERT_EQUAL(next_status(p.io), 0);
}

/* The call that opens it hangs. */
static void opened_too_late(void)
{
	struct t_pair p = t_pair_new();
	struct rdt_ns_config cfg = new_config(7);
	static uint8_t buf[512];
	struct outcome o, other, removed;
	struct rdt_ns *ns;

	cfg.backend = RDT_BACKEND_FILE; /* the others do not block */
	cfg.path = "/the/fake/does/not/look";
	p.env->hold_jobs = true;
	add(&p, &cfg, &o);
	t_turn(p.env);
	ns = the_ns(&p, 7);
	CU_ASSERT_EQUAL(ns->state, RDT_NS_OPENING);
	/* Other changes do not wait. */
	remove_ns(&p, 5, &other);
	t_turn(p.env);
	CU_ASSERT_EQUAL(other.calls, 1);
	CU_ASSERT_EQUAL(o.calls, 0);
	t_advance(p.env, 2 * RD_NSEC_PER_SEC);
	t_advance(p.env, RDT_JOBS_LIMIT);
	CU_ASSERT_EQUAL(ns->state, RDT_NS_FAILED);
	CU_ASSERT_EQUAL(o.calls, 1);
	CU_ASSERT_EQUAL(o.err, -ETIMEDOUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(ns->why, "has not answered for 20 s"));
	/* It is not asked a second time while it hangs. */
	CU_ASSERT_EQUAL(ns->retry_at, 0);
	t_advance(p.env, 200 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(p.env->disk_next, NEW_DISK);
	CU_ASSERT_EQUAL(rw(p.io, false, 7, 0, 1, buf), NVME_SC_INVALID_NS);
	p.env->hold_jobs = false;
	t_env_run_held(p.env);
	CU_ASSERT_EQUAL(ns->state, RDT_NS_LIVE);
	CU_ASSERT_EQUAL(rw(p.io, false, 7, 0, 1, buf), 0);
	/* One that is removed while it hangs is closed when it answers. */
	remove_ns(&p, 7, &removed);
	t_turn(p.env);
	CU_ASSERT_EQUAL(removed.calls, 1);
	p.env->hold_jobs = true;
	add(&p, &cfg, &o);
	remove_ns(&p, 7, &removed);
	CU_ASSERT_EQUAL(removed.calls, 1);
	CU_ASSERT_PTR_NULL(the_ns(&p, 7));
	p.env->hold_jobs = false;
	t_env_run_held(p.env);
	CU_ASSERT_TRUE(p.env->disk[NEW_DISK].closed);
	t_pair_free(&p);
}

/* Tried again after 1, 2, 4 ... s; the reason that repeats is logged once. */
static void failed_is_tried_again(void)
{
	struct t_pair p = t_pair_new();
	struct rdt_ns_config cfg = new_config(7);
	unsigned int waits[] = {1, 2, 4, 8, 16, 32, 64, 64};
	struct outcome o;
	struct rdt_ns *ns;

	add(&p, &cfg, &o);
	remove_ns(&p, 7, &o);
	p.env->disk_next = 0;
	rdt_control_ns_add(p.env->t->subsys[0], &cfg, NULL, on_done, &o);
	ns = the_ns(&p, 7);
	for (unsigned int i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		uint64_t left = ns->retry_at - p.env->now;

		CU_ASSERT_EQUAL(ns->state, RDT_NS_FAILED);
		CU_ASSERT_EQUAL(ns->tries, i + 1);
		CU_ASSERT_EQUAL((left + RD_NSEC_PER_SEC / 2) / RD_NSEC_PER_SEC, waits[i]);
		t_advance(p.env, left + RD_NSEC_PER_MSEC);
	}
	p.env->disk_next = NEW_DISK;
	t_advance(p.env, 65 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(ns->state, RDT_NS_LIVE);
	t_pair_free(&p);
}

static void make_file(const char *path)
{
	FILE *f = fopen(path, "w");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(fputs("a file", f) < 0, 0);
	fclose(f);
}

/* A target that has nothing to compare does not wake up for it. */
static void no_file_needs_no_timer(void)
{
	struct t_pair p = t_pair_new();
	struct rdt_target *t = p.env->t;
	struct rdt_ns_config cfg = new_config(7);
	char path[] = "/var/tmp/rdt-control-XXXXXX";
	int fd = mkstemp(path);
	struct outcome o;

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	rdt_compare_watch(t);
	t_advance(p.env, 61 * RD_NSEC_PER_SEC);
	CU_ASSERT_FALSE(rd_timer_armed(&t->compare_timer));
	cfg.path = path;
	add(&p, &cfg, &o);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t->with_path_count, 1);
	CU_ASSERT_TRUE(rd_timer_armed(&t->compare_timer));
	t_advance(p.env, 61 * RD_NSEC_PER_SEC);
	CU_ASSERT_TRUE(rd_timer_armed(&t->compare_timer));
	rdt_compare_unwatch(t);
	close(fd);
	unlink(path);
	t_pair_free(&p);
}

/* Without a reload, about once a minute. */
static void a_replaced_file_is_noticed(void)
{
	struct t_pair p = t_pair_new();
	struct rdt_target *t = p.env->t;
	struct rdt_ns_config cfg = new_config(7);
	char path[] = "/var/tmp/rdt-control-XXXXXX", other[64];
	int fd = mkstemp(path);
	struct outcome o;
	struct rdt_ns *ns;
	struct stat st;

	CU_ASSERT_TRUE_FATAL(fd >= 0 && !fstat(fd, &st));
	snprintf(other, sizeof(other), "%s.new", path);
	cfg.path = path;
	add(&p, &cfg, &o);
	t_turn(p.env);
	ns = the_ns(&p, 7);
	p.env->disk[NEW_DISK].bdev.path_id = rdt_path_id(&st);
	rdt_compare_watch(t);
	t_advance(p.env, 61 * RD_NSEC_PER_SEC);
	t_advance(p.env, 61 * RD_NSEC_PER_SEC);
	CU_ASSERT_PTR_NULL(ns->mismatch);
	make_file(other);
	CU_ASSERT_EQUAL(rename(other, path), 0);
	t_advance(p.env, 61 * RD_NSEC_PER_SEC);
	t_advance(p.env, 61 * RD_NSEC_PER_SEC);
	CU_ASSERT_PTR_NOT_NULL_FATAL(ns->mismatch);
	CU_ASSERT_PTR_NOT_NULL(strstr(ns->mismatch, "names another file now"));
	CU_ASSERT_EQUAL(ns->state, RDT_NS_LIVE); /* hosts use the open one */
	CU_ASSERT_EQUAL(unlink(path), 0);
	t_advance(p.env, 61 * RD_NSEC_PER_SEC);
	t_advance(p.env, 61 * RD_NSEC_PER_SEC);
	CU_ASSERT_PTR_NOT_NULL_FATAL(ns->mismatch);
	CU_ASSERT_PTR_NOT_NULL(strstr(ns->mismatch, "no longer exists"));
	rdt_compare_unwatch(t);
	close(fd);
	t_pair_free(&p);
}

static void resized_while_added(void)
{
	T_PAIR(p);
	struct rdt_ns_config cfg = new_config(7);
	struct t_disk *d;
	struct outcome o;

	d = add_opening(&p, &cfg, &o);
	d->open_rc = 0;
	rdt_bdev_changed(&d->bdev);
	while (the_ns(&p, 7)->state == RDT_NS_OPENING && t_pump(p.env))
		;
	CU_ASSERT_EQUAL(the_ns(&p, 7)->state, RDT_NS_JOINING);
	d->bdev.size = 32 * 512; /* the storage has become smaller meanwhile */
	rdt_bdev_changed(&d->bdev);
	t_turn(p.env);
	CU_ASSERT_EQUAL(the_ns(&p, 7)->state, RDT_NS_LIVE);
	CU_ASSERT_EQUAL(the_ns(&p, 7)->blocks, 32);
}

static void removed_while_opened(void)
{
	T_PAIR(p);
	struct rdt_ns_config cfg = new_config(7);
	struct outcome o, added;
	struct t_disk *d;

	cfg.backend = RDT_BACKEND_FILE;
	cfg.path = "/nowhere/opening";
	d = add_opening(&p, &cfg, &added);
	p.env->hold_jobs = true;
	remove_ns(&p, 7, &o);
	CU_ASSERT_EQUAL(added.calls, 1);
	CU_ASSERT_EQUAL(added.err, -ECANCELED);
	CU_ASSERT_EQUAL(o.calls, 1);
	CU_ASSERT_EQUAL(o.err, 0);
	CU_ASSERT_FALSE(d->closed); /* what may block is not done here */
	CU_ASSERT_PTR_NULL(the_ns(&p, 7));
	p.env->hold_jobs = false;
	t_env_run_held(p.env);
	CU_ASSERT_TRUE(d->closed);
	t_turn(p.env);
}

static void storage_of_another_gateway(void)
{
	T_PAIR(p);
	struct rdt_target *t = p.env->t;
	struct t_disk *d = &p.env->disk[0];
	const struct rdt_ctrl *ctrl = p.io->qp.ctrl;

	rdt_opening_watch(the_ns(&p, 1));
	CU_ASSERT_EQUAL(rdt_ana_told(ctrl, 1), NVME_ANA_STATE_OPTIMIZED);
	for (int i = 0; i < 2; i++) {
		atomic_store(&d->bdev.standby, true);
		rdt_bdev_changed(&d->bdev);
		t_turn(p.env);
		CU_ASSERT_EQUAL(rdt_ana_told(ctrl, 1), NVME_ANA_STATE_INACCESSIBLE);
		CU_ASSERT_EQUAL(rdt_ana_told(ctrl, 2), NVME_ANA_STATE_OPTIMIZED);
		atomic_store(&d->bdev.standby, false);
		rdt_bdev_changed(&d->bdev);
		t_turn(p.env);
		CU_ASSERT_EQUAL(rdt_ana_told(ctrl, 1), NVME_ANA_STATE_OPTIMIZED);
	}
	CU_ASSERT_EQUAL(atomic_load(&t->subsys[0]->ana_changes[1]), 4);
	/* The last such namespace goes. */
	atomic_store(&d->bdev.standby, true);
	rdt_bdev_changed(&d->bdev);
	t_turn(p.env);
	CU_ASSERT_EQUAL(rdt_ana_told(ctrl, 1), NVME_ANA_STATE_INACCESSIBLE);
	rdt_control_ns_remove(the_ns(&p, 1), NULL, NULL);
	t_turn(p.env);
	CU_ASSERT_EQUAL(rdt_ana_told(ctrl, 1), NVME_ANA_STATE_OPTIMIZED);
}

/* Storage that gateways claim from each other, in group 1. */
static struct t_disk *shared_disk(struct t_pair *p, uint32_t nsid)
{
	struct rdt_ns *ns = the_ns(p, nsid);
	struct t_disk *d = &p->env->disk[ns->slot];

	d->bdev.one_gateway = true;
	rdt_opening_watch(ns);
	rdt_ana_move(ns, 1);
	return d;
}

static void has_another_gateway(struct t_pair *p, struct t_disk *d, bool has)
{
	atomic_store(&d->bdev.standby, has);
	rdt_bdev_changed(&d->bdev);
	t_turn(p->env);
}

/* Otherwise no gateway would serve it. */
static void a_split_group_goes_to_the_gateway_with_its_first_namespace(void)
{
	T_PAIR(p);
	struct t_disk *first = shared_disk(&p, 1), *second = shared_disk(&p, 5);

	has_another_gateway(&p, first, true);
	t_advance(p.env, 2 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(second->claim, RDT_CLAIM_WAIT); /* the other one may be about to take it */
	t_advance(p.env, 2 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(second->claim, RDT_CLAIM_PASS);
	second->claim = RDT_CLAIM_WAIT;
	has_another_gateway(&p, second, true);
	t_advance(p.env, 4 * RD_NSEC_PER_SEC);
	has_another_gateway(&p, first, false); /* the other one gives the rest up */
	t_advance(p.env, 4 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(first->claim, RDT_CLAIM_WAIT);
	CU_ASSERT_EQUAL(second->claim, RDT_CLAIM_WAIT);
}

static void a_group_that_changes_is_not_split_yet(void)
{
	T_PAIR(p);
	struct t_disk *first = shared_disk(&p, 1), *second = shared_disk(&p, 5);

	has_another_gateway(&p, first, true);
	for (unsigned int i = 0; i < 4; i++) {
		t_advance(p.env, 2 * RD_NSEC_PER_SEC);
		has_another_gateway(&p, second, i % 2 == 0);
	}
	has_another_gateway(&p, first, false);
	t_advance(p.env, 4 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(second->claim, RDT_CLAIM_WAIT);
	/* Nor is one with other namespaces than the first one's. */
	rdt_ana_move(the_ns(&p, 5), 2);
	has_another_gateway(&p, first, true);
	t_advance(p.env, 4 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(second->claim, RDT_CLAIM_WAIT);
}

/* Whatever the number of namespaces is. */
static void a_change_costs_one_look(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0], *e = &p.env->disk[the_ns(&p, 5)->slot];

	rdt_opening_watch(the_ns(&p, 1));
	rdt_opening_watch(the_ns(&p, 5));
	atomic_store(&e->bdev.changed, true); /* and nobody was told */
	rdt_bdev_changed(&d->bdev);
	rdt_bdev_changed(&d->bdev);
	t_turn(p.env);
	CU_ASSERT_FALSE(atomic_load(&d->bdev.changed));
	CU_ASSERT_TRUE(atomic_load(&e->bdev.changed));
	/* One that goes is not looked at. */
	rdt_bdev_changed(&d->bdev);
	rdt_control_ns_remove(the_ns(&p, 1), NULL, NULL);
	rdt_bdev_changed(&e->bdev);
	t_turn(p.env);
	CU_ASSERT_PTR_NULL(the_ns(&p, 1));
	CU_ASSERT_FALSE(atomic_load(&e->bdev.changed));
}

const struct t_case t_control_cases[] = {
	{"an added namespace is served by all reactors, and hosts are told", added_is_served},
	{"a namespace that a reactor cannot use is not added", add_that_fails},
	{"what cannot be added or removed is refused with a reason", wrong_calls},
	{"another namespace takes the NSID while I/O of the old one hangs", another_takes_its_nsid},
	{"a removed namespace waits for its I/O and closes after it",
	 removed_with_io_in_the_backend},
	{"a removal cancels what the backend can cancel", removed_cancels_where_it_can},
	{"a removal ends what has not reached the backend", removed_with_io_before_the_backend},
	{"a removal while the host leaves", removed_while_the_host_leaves},
	{"the end of the target during a change", change_at_the_end},
	{"a namespace grows and shrinks under I/O", resize},
	{"two hundred rounds of add and remove", rounds},
	{"a namespace whose storage is opened later appears then", opened_later},
	{"a call that opens storage and hangs delays nothing else", opened_too_late},
	{"storage that fails is tried again", failed_is_tried_again},
	{"no file needs no timer", no_file_needs_no_timer},
	{"a file that was replaced is noticed", a_replaced_file_is_noticed},
	{"it is resized while the reactors open it", resized_while_added},
	{"it is removed before that", removed_while_opened},
	{"storage of another gateway makes its ANA group inaccessible", storage_of_another_gateway},
	{"a split group goes to the gateway with its first namespace",
	 a_split_group_goes_to_the_gateway_with_its_first_namespace},
	{"a group that changes is not split yet", a_group_that_changes_is_not_split_yet},
	{"a change of a backend costs one look", a_change_costs_one_look},
	{NULL, NULL},
};
