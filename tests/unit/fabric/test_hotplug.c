/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device is removed and added again. RD_TEST_LINK describes the device of RD_TEST_ADDR as `rdma
 * link add` takes it: "NAME type TYPE netdev NETDEV".
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric/verbs/testing.h"
#include "suites.h"
#include "t_fab.h"

#define RECVS 8

static uint8_t mem[65536];

static pid_t rdma(const char *verb)
{
	char words[256], *argv[16] = {(char *)"rdma", (char *)"link", (char *)verb};
	int n = 3;
	pid_t pid;

	snprintf(words, sizeof(words), "%s", getenv("RD_TEST_LINK"));
	for (char *w = strtok(words, " "); w && n < 15; w = strtok(NULL, " "))
		argv[n++] = w;
	if (strcmp(verb, "delete") == 0)
		argv[4] = NULL; /* the name does */
	pid = fork();
	if (pid == 0) {
		execvp(argv[0], argv);
		_exit(127);
	}
	return pid;
}

static bool ended(pid_t *pid)
{
	int status = 0;

	if (*pid <= 0 || waitpid(*pid, &status, WNOHANG) != *pid)
		return *pid <= 0;
	CU_ASSERT_EQUAL(status, 0);
	*pid = 0;
	return true;
}

static void hotplug_run(struct t_pair *p, const char *verb)
{
	pid_t pid = rdma(verb);

	T_UNTIL(p, ended(&pid));
	if (pid > 0)
		kill(pid, SIGKILL);
}

/* Free the old connections, CQs and devices, as a program does that continues with new ones. */
static void anew(struct t_end *e)
{
	rd_fab_conn_destroy(&e->conn);
	rd_fab_cq_destroy(&e->cq);
	rd_fab_srq_destroy(&e->srq);
	e->nwc = e->resolved = e->established = e->removed = e->disconnected = 0;
}

/* It may take a moment until the address belongs to the device again. */
static void connect_again(struct t_pair *p)
{
	uint64_t end = t_now() + T_WAIT;

	while (!p->cl.established && t_now() < end) {
		rd_fab_conn_destroy(&p->cl.conn);
		p->cl.failed = p->cl.resolved = 0;
		t_pair_start(p);
		T_UNTIL(p, p->cl.established || p->cl.failed);
	}
	T_UNTIL(p, p->cl.established && p->sv.established);
}

static void removal(bool srq)
{
	struct t_opts o = {.srq = srq};
	struct rd_fab_cq *cq = NULL;
	struct rd_fab_mr *ma, *mb, *mc = NULL;
	T_PAIR(p);

	t_pair_connect(&p, &o);
	ma = t_reg(&p.cl, mem, sizeof(mem), T_ACCESS_ALL);
	mb = t_reg(&p.sv, mem, sizeof(mem), T_ACCESS_ALL);
	for (uint64_t i = 0; i < RECVS; i++)
		t_recv(&p.cl, i, ma, 0, 16);
	t_rdma(&p.cl, IBV_WR_RDMA_WRITE, 100, ma, 0, 4096, rd_fab_remote_addr(mb, mem), mb->rkey);
	/* The connection ends although its user frees nothing. */
	hotplug_run(&p, "delete");
	T_UNTIL(&p, p.cl.disconnected && p.sv.disconnected);
	/* The later one may hear of the other's end first. */
	CU_ASSERT(p.cl.removed || p.sv.removed);
	CU_ASSERT(!p.cl.removed || p.cl.status == -ENODEV);
	CU_ASSERT(!p.sv.removed || p.sv.status == -ENODEV);
	T_UNTIL(&p, p.cl.nwc == (srq ? 1 : RECVS + 1));
	CU_ASSERT(p.cl.dev->gone && p.sv.dev->gone);
	CU_ASSERT_EQUAL(rd_fab_reg_mr(p.cl.dev, mem, 64, 0, &mc), -ENODEV);
	CU_ASSERT_EQUAL(rd_fab_cq_create(p.cl.dev, 1, NULL, NULL, &cq), -ENODEV);
	CU_ASSERT_EQUAL(t_send(&p.cl, 101, ma, 0, 8), 0);
	T_UNTIL(&p, p.cl.nwc == (srq ? 2 : RECVS + 2));
	CU_ASSERT_EQUAL(p.cl.wc[p.cl.nwc - 1].status, IBV_WC_WR_FLUSH_ERR);

	t_dereg(&p.cl, ma);
	t_dereg(&p.sv, mb);
	anew(&p.cl);
	anew(&p.sv);
	hotplug_run(&p, "add");
	t_open_cq(&p.cl);
	t_open_cq(&p.sv);
	connect_again(&p);
	CU_ASSERT(!p.cl.dev->gone);
	/* Everything of the old device has been freed. */
	CU_ASSERT_EQUAL(rd_vb_test_stats(p.cl.fab)->devs, 1);
	CU_ASSERT_EQUAL(rd_vb_test_stats(p.sv.fab)->devs, 1);
	p.fds = 0; /* librdmacm opened the new device, and has not yet closed the old one's files */
}

static void own_receive_queue(void)
{
	for (int i = 0; i < 3; i++)
		removal(false);
}

static void shared_receive_queue(void)
{
	removal(true);
}

/* With nothing but a listener, whose device librdmacm has opened as well. */
static void listener_only(void)
{
	T_PAIR(p);

	t_pair_open(&p, NULL);
	anew(&p.cl);
	anew(&p.sv);
	hotplug_run(&p, "delete");
	hotplug_run(&p, "add");
	t_open_cq(&p.cl);
	t_open_cq(&p.sv);
	connect_again(&p);
	p.fds = 0;
}

const struct t_case t_hotplug_cases[] = {
	{"a device is removed under connections, and comes back", own_receive_queue},
	{"a device is removed from a shared receive queue", shared_receive_queue},
	{"a device is removed from a listener", listener_only},
	{NULL},
};
