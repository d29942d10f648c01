/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting: how long a handle polls before it sleeps. */
#include <CUnit/CUnit.h>
#include <unistd.h>
#include <sys/wait.h>
#include <errno.h>

#include "fabric/fabric.h"
#include "internal.h"
#include "suites.h"
#include "t_fake.h"
#include "t_shared_cpu.h"

#define SPIN_US 20

/* A clock that advances at each reading: by a microsecond, and from .sleep on by more. */
struct ticking {
	struct rd_clock clock;
	uint64_t now, sleep;
	unsigned int asked;
};

static uint64_t tick(void *arg)
{
	struct ticking *t = arg;

	t->asked++;
	return t->now += t->now > t->sleep ? RD_NSEC_PER_MSEC : RD_NSEC_PER_USEC;
}

static void open_handle(struct rdi_handle *h, struct ticking *t)
{
	struct rdi_env env = {.fab_open = rd_fab_iwarp_open, .clock = &t->clock};
	struct rdi_log_cfg log = {.fd = 2};
	struct rdi_transport_cfg *cfg;
	struct rdinit_ctrl_opts opts;
	const char *why;

	*t = (struct ticking){.clock = {.now = tick, .arg = t}, .sleep = UINT64_MAX};
	*h = (struct rdi_handle){.spin.ns = 0};
	rdinit_ctrl_opts_init(&opts);
	CU_ASSERT_EQUAL_FATAL(
		rdi_transport_cfg_create(&rdi_rdma_ops, &env, &opts, "127.0.0.1", "4420", &cfg), 0);
	CU_ASSERT_EQUAL_FATAL(rdi_handle_open(h, &env, &log, cfg, NULL, &why), 0);
	rdi_transport_cfg_unref(&cfg);
	h->spin.ns = SPIN_US * RD_NSEC_PER_USEC;
}

/* The number of clock readings in a wait that ends without an event. */
static unsigned int wait_in_vain(struct rdi_handle *h, struct ticking *t)
{
	t->asked = 0;
	t->sleep = t->now + SPIN_US * RD_NSEC_PER_USEC;
	CU_ASSERT_EQUAL(rdi_handle_turn(h, 1), 0);
	t->sleep = UINT64_MAX;
	return t->asked;
}

static void nothing(struct rd_defer *defer)
{
}

static void looks_before_it_sleeps(void)
{
	struct rd_defer soon = {.fn = nothing};
	struct rdi_handle h T_ENDS(rdi_handle_close);
	struct ticking t;
	unsigned int asked, misses = 0;

	open_handle(&h, &t);
	/* When no event has come lately, it polls a few times only. */
	while ((asked = wait_in_vain(&h, &t)) >= SPIN_US / 2 && misses < 100)
		misses++;
	CU_ASSERT_EQUAL(misses, RD_SPIN_MISSES);
	CU_ASSERT(asked > 0);
	/* After an event that came soon it polls again. */
	rd_defer(h.loop, &soon, RD_DEFER_WORK);
	CU_ASSERT_EQUAL(rdi_handle_turn(&h, 1), 0);
	CU_ASSERT(wait_in_vain(&h, &t) >= SPIN_US / 2);
}

/* However long the poll time is, the caller's timeout ends the wait. */
static void no_longer_than_it_may_wait(void)
{
	struct rdi_handle h T_ENDS(rdi_handle_close);
	struct ticking t;
	uint64_t start;

	open_handle(&h, &t);
	h.spin.ns = RD_NSEC_PER_SEC;
	start = t.now;
	CU_ASSERT_EQUAL(rdi_handle_turn(&h, 10), 0);
	CU_ASSERT(t.now - start >= 10 * RD_NSEC_PER_MSEC);
	CU_ASSERT(t.now - start < 20 * RD_NSEC_PER_MSEC);
}

static int one_turn(void *arg)
{
	return rdi_handle_turn(arg, -1);
}

static void lets_others_run_while_it_looks(void)
{
	struct rdi_handle h T_ENDS(rdi_handle_close);
	struct ticking t;

	open_handle(&h, &t);
	h.spin.ns = UINT32_MAX *
		    RD_NSEC_PER_USEC; /* with a clock that advances a microsecond at each reading */
	CU_ASSERT(t_shares_its_cpu(h.loop, one_turn, &h));
}

static uint64_t spin_of(const uint32_t *spin_us)
{
	struct rdinit_ctrl_opts opts;
	struct rdinit_ctrl *ctrl = NULL;
	uint64_t ns;

	rdinit_ctrl_opts_init(&opts);
	opts.traddr = "127.0.0.1";
	opts.provider = "iwarp";
	if (spin_us)
		opts.spin_us = *spin_us;
	CU_ASSERT_EQUAL_FATAL(rdinit_ctrl_create(&opts, &ctrl), 0);
	ns = ctrl->h.spin.ns;
	rdinit_ctrl_free(&ctrl);
	return ns;
}

static void as_the_options_say(void)
{
	const uint32_t none = 0, most = UINT32_MAX;

	CU_ASSERT_EQUAL(spin_of(NULL), 50 * RD_NSEC_PER_USEC);
	CU_ASSERT_EQUAL(spin_of(&none), 0);
	CU_ASSERT_EQUAL(spin_of(&most), UINT32_MAX * RD_NSEC_PER_USEC);
}

static void does_not_where_told_so(void)
{
	struct rdi_handle h T_ENDS(rdi_handle_close);
	struct ticking t;

	open_handle(&h, &t);
	h.spin.ns = 0;
	CU_ASSERT(wait_in_vain(&h, &t) < SPIN_US / 2);
	/* A turn that does not wait does not poll either. */
	h.spin.ns = SPIN_US * RD_NSEC_PER_USEC;
	t.asked = 0;
	CU_ASSERT_EQUAL(rdi_handle_turn(&h, 0), 0);
	CU_ASSERT(t.asked < SPIN_US / 2);
}

static int use_copies(struct rdinit_ctrl *ctrl, struct rdinit_qpair *qp)
{
	struct rdinit_passthru pt;
	struct t_done done = {0};
	static uint8_t page[4096];

	rdinit_passthru_init(&pt);
	if (rdinit_ctrl_process(ctrl, 0) != -ECHILD || rdinit_ctrl_disconnect(ctrl) != -ECHILD ||
	    rdinit_identify(ctrl, 1, 0, page) != -ECHILD ||
	    rdinit_identify_async(ctrl, 1, 0, page, t_done_fn, &done) != -ECHILD ||
	    rdinit_admin_passthru(ctrl, &pt, NULL) != -ECHILD)
		return 1;
	if (rdinit_qpair_process(qp, 0) != -ECHILD || rdinit_qpair_disconnect(qp) != -ECHILD ||
	    rdinit_read(qp, &t_ns, 0, 1, page, 0) != -ECHILD ||
	    rdinit_read_async(qp, &t_ns, 0, 1, page, 0, t_done_fn, &done) != -ECHILD)
		return 2;
	rdinit_qpair_free(&qp);
	rdinit_ctrl_free(&ctrl);
	return qp || ctrl || done.calls ? 3 : 0;
}

static void copies_in_a_child_are_left_alone(void)
{
	struct rdinit_qpair *qp;
	struct rdinit_ctrl *ctrl;
	static uint8_t block[512];
	int status = -1;
	pid_t pid;

	t_fake_reset();
	ctrl = t_ctrl(1);
	qp = t_qpair(ctrl, 8);
	pid = fork();
	if (pid == 0)
		_exit(use_copies(ctrl, qp));
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(status, 0);
	CU_ASSERT_EQUAL(rdinit_read(qp, &t_ns, 0, 1, block, 0), 0);
	CU_ASSERT_EQUAL(rdinit_ctrl_process(ctrl, 0), 0);
	rdinit_qpair_free(&qp);
	rdinit_ctrl_free(&ctrl);
	t_fake_free();
}

const struct t_case t_handle_cases[] = {
	{"copies of handles in a child are left alone", copies_in_a_child_are_left_alone},
	{"a wait looks before it sleeps, while that pays", looks_before_it_sleeps},
	{"a wait sleeps at once where that was asked for", does_not_where_told_so},
	{"a wait that looks ends when its time is up", no_longer_than_it_may_wait},
	{"a wait that looks lets others have the processor", lets_others_run_while_it_looks},
	{"how long it looks is an option", as_the_options_say},
	{NULL},
};
