/* SPDX-License-Identifier: BSD-3-Clause */
/* A SIGPIPE that siw raises within one of our calls does not reach the program. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/verbs/quirk.h"
#include "fabric/verbs/testing.h"
#include "suites.h"
#include "t_raw.h"

static volatile sig_atomic_t caught;

static void count_one(int signo)
{
	caught++;
}

static void set_action(void (*action)(int), struct sigaction *old)
{
	struct sigaction sa = {.sa_handler = action};

	CU_ASSERT_EQUAL(sigaction(SIGPIPE, &sa, old), 0);
	caught = 0;
}

static bool is_pending(void)
{
	sigset_t set;

	return sigpending(&set) == 0 && sigismember(&set, SIGPIPE);
}

static bool is_blocked(void)
{
	sigset_t set;

	return pthread_sigmask(SIG_BLOCK, NULL, &set) == 0 && sigismember(&set, SIGPIPE);
}

static void set_blocked(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	CU_ASSERT_EQUAL(pthread_sigmask(how, &set, NULL), 0);
}

/* A call within which a SIGPIPE is raised, or none. */
static void call(bool broken)
{
	struct rd_vb_sigpipe s;

	rd_vb_sigpipe_block(&s);
	if (broken)
		pthread_kill(pthread_self(), SIGPIPE);
	rd_vb_sigpipe_restore(&s);
}

static void taken_back(void)
{
	struct sigaction old;

	set_action(count_one, &old);
	call(true);
	call(false);
	CU_ASSERT(caught == 0 && !is_pending() && !is_blocked());
	/* The program's own SIGPIPEs reach it as before. */
	pthread_kill(pthread_self(), SIGPIPE);
	CU_ASSERT_EQUAL(caught, 1);
	set_action(SIG_IGN, NULL);
	call(true);
	CU_ASSERT(!is_pending() && !is_blocked());
	sigaction(SIGPIPE, &old, NULL);
}

static void where_it_is_blocked(void)
{
	struct sigaction old;

	set_action(count_one, &old);
	set_blocked(SIG_BLOCK);
	call(true);
	CU_ASSERT(!is_pending() && is_blocked());
	pthread_kill(pthread_self(), SIGPIPE);
	call(true);
	CU_ASSERT(is_pending() && is_blocked());
	set_blocked(SIG_UNBLOCK);
	CU_ASSERT_EQUAL(caught, 1);
	sigaction(SIGPIPE, &old, NULL);
}

/* ---- on a device ---- */

static uint8_t mem[65536];

/* A FIN, then a reset: later writes to the connection get EPIPE. */
static void sigpipe_leave(int fd)
{
	const struct linger at_once = {.l_onoff = 1};

	shutdown(fd, SHUT_WR);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(fd);
}

static void *leave_when_spoken_to(void *arg)
{
	struct pollfd pfd = {.fd = *(int *)arg, .events = POLLIN};

	poll(&pfd, 1, (int)(T_WAIT / RD_NSEC_PER_MSEC));
	sigpipe_leave(pfd.fd);
	return NULL;
}

/* A thread that runs whenever it can. It closes the connection while siw sends a message of many
 * frames without checking the connection. */
static void start_urgent(pthread_t *t, void *(*fn)(void *), void *arg)
{
	const struct sched_param first = {.sched_priority = 1};
	pthread_attr_t attr T_ENDS(pthread_attr_destroy);

	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
	pthread_attr_setschedparam(&attr, &first);
	CU_ASSERT_EQUAL_FATAL(pthread_create(t, &attr, fn, arg), 0);
}

/* Both sides have sent, so siw is not poked any more. */
static void open_to_raw(struct t_pair *p, struct t_raw *r, const struct rd_fab_mr *mr)
{
	uint8_t req[24], buf[128];

	t_raw_serve(r, p);
	CU_ASSERT_FATAL(t_raw_recv(r, req, sizeof(req)));
	t_raw_hex(r, "4d504120494420526570204672616d65 10 02 0004 0080 0080");
	T_UNTIL(p, p->cl.established);
	t_recv(&p->cl, 1, mr, 0, 64);
	t_raw_send(r, buf, t_fpdu_send(buf, 1, 0, true, "hello", 5));
	T_UNTIL(p, p->cl.nwc == 1);
	while (recv(r->fd, buf, sizeof(buf), 0) > 0)
		;
}

static void peer_leaves_amid_a_message(void)
{
	struct sigaction old;
	struct rd_fab_mr *ma;
	struct t_pair p;
	struct t_raw r;
	pthread_t t;

	t_pair_open(&p, NULL);
	if (!rd_vb_test_is_siw(p.cl.dev)) {
		t_pair_close(&p);
		return;
	}
	set_action(count_one, &old);
	ma = t_reg(&p.cl, mem, sizeof(mem), T_ACCESS_ALL);
	open_to_raw(&p, &r, ma);
	start_urgent(&t, leave_when_spoken_to, &r.fd);
	CU_ASSERT_EQUAL(t_send(&p.cl, 2, ma, 0, sizeof(mem)), 0);
	T_UNTIL(&p, p.cl.disconnected && p.cl.nwc == 2);
	pthread_join(t, NULL);
	CU_ASSERT_NOT_EQUAL(p.cl.wc[1].status, IBV_WC_SUCCESS);
	t_pair_close(&p);
	CU_ASSERT_EQUAL(caught, 0);
	sigaction(SIGPIPE, &old, NULL);
}

const struct t_case t_sigpipe_cases[] = {
	{"one within a call is taken back, others are not", taken_back},
	{"where the program blocks it", where_it_is_blocked},
	{NULL},
};

const struct t_case t_siw_sigpipe_cases[] = {
	{"one within a call is taken back, others are not", taken_back},
	{"where the program blocks it", where_it_is_blocked},
	{"none when the peer leaves amid a message", peer_leaves_amid_a_message},
	{NULL},
};
