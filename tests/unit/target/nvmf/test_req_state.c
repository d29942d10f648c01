/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of a request's moves. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "t_target.h"

/* The states that can be reached from @from, or, with @back, from which it can be reached. */
static uint32_t reach(enum rdt_req_state from, bool back)
{
	uint32_t seen = 1u << from, before;

	do {
		before = seen;
		for (unsigned int a = 0; a < RDT_REQ_STATES; a++)
			for (unsigned int b = 0; b < RDT_REQ_STATES; b++)
				if (rdt_req_may_move(a, b) && seen >> (back ? b : a) & 1)
					seen |= 1u << (back ? a : b);
	} while (seen != before);
	return seen;
}

static void no_state_is_a_dead_end(void)
{
	const uint32_t all = (1u << RDT_REQ_STATES) - 1;

	CU_ASSERT_EQUAL(reach(RDT_REQ_FREE, false), all);
	CU_ASSERT_EQUAL(reach(RDT_REQ_FREE, true), all);
	for (unsigned int i = 0; i < RDT_REQ_STATES; i++) {
		CU_ASSERT_EQUAL(rdt_req_moves[i] & ~all, 0);
		CU_ASSERT_FALSE(rdt_req_may_move(i, i));
	}
}

/* A request in other hands (transport, backend) is never dropped; an executed one never starts
 * again. */
static void what_others_hold_is_not_dropped(void)
{
	static const uint8_t held[] = {RDT_REQ_FETCHING,  RDT_REQ_FETCH_ENDING, RDT_REQ_EXECUTING,
				       RDT_REQ_ABORTING,  RDT_REQ_PREEMPTED,    RDT_REQ_NS_GONE,
				       RDT_REQ_RESPONDING};
	const uint32_t end = 1u << RDT_REQ_RESPONDING | 1u << RDT_REQ_DROPPED;

	for (size_t i = 0; i < sizeof(held); i++)
		CU_ASSERT_FALSE(rdt_req_may_move(held[i], RDT_REQ_DROPPED));
	CU_ASSERT_EQUAL(rdt_req_moves[RDT_REQ_EXECUTED], end);
	/* A command that is to end early does not return to a state in which it is not. */
	for (unsigned int i = RDT_REQ_EXECUTING; i <= RDT_REQ_NS_GONE; i++)
		for (unsigned int k = RDT_REQ_EXECUTING; k <= RDT_REQ_NS_GONE; k++)
			CU_ASSERT_EQUAL(rdt_req_may_move(i, k), i < k);
}

#ifndef NDEBUG
/* Returns the signal with which the move @from -> @to ends the program, or 0. */
static int signal_of_move(enum rdt_req_state from, enum rdt_req_state to)
{
	const struct rlimit no_core = {0, 0};
	struct rdt_req req = {.state = (uint8_t)from};
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGABRT, SIG_DFL);
		close(STDERR_FILENO);
		rdt_req_move(&req, to);
		_exit(req.state == to ? 0 : 1);
	}
	CU_ASSERT_FATAL(pid > 0 && waitpid(pid, &status, 0) == pid);
	CU_ASSERT_TRUE_FATAL(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void a_wrong_move_is_caught(void)
{
	CU_ASSERT_EQUAL(signal_of_move(RDT_REQ_NEW, RDT_REQ_READY), 0);
	CU_ASSERT_EQUAL(signal_of_move(RDT_REQ_NEW, RDT_REQ_EXECUTING), SIGABRT);
	CU_ASSERT_EQUAL(signal_of_move(RDT_REQ_FREE, RDT_REQ_FREE), SIGABRT);
	CU_ASSERT_EQUAL(signal_of_move(RDT_REQ_NS_GONE, RDT_REQ_ABORTING), SIGABRT);
}
#endif

const struct t_case t_req_state_cases[] = {
	{"each state is reached, and left for FREE in the end", no_state_is_a_dead_end},
	{"what others hold is not dropped", what_others_hold_is_not_dropped},
#ifndef NDEBUG
	{"a move that is not in the table is caught", a_wrong_move_is_caught},
#endif
	{NULL, NULL},
};
