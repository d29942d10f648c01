/* SPDX-License-Identifier: BSD-3-Clause */
#include "t_shared_cpu.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "t_main.h"
#include "util/cleanup.h"
#include "util/loop.h"

enum { MESSAGES = 100, TURNS_FOR_EACH = 200 };

struct sharing {
	struct rd_loop *loop;
	struct rd_msg msg;
	struct rd_poller poller;
	unsigned int turns;
	_Atomic unsigned int handled;
};

static void message_came(struct rd_msg *msg)
{
	rd_container_of(msg, struct sharing, msg)->handled++;
}

static bool turn_made(struct rd_poller *poller)
{
	rd_container_of(poller, struct sharing, poller)->turns++;
	return false;
}

static void *post_messages(void *arg)
{
	struct sharing *s = arg;

	for (unsigned int i = 0; i < MESSAGES; i++) {
		rd_loop_post(s->loop, &s->msg);
		while (s->handled == i)
			sched_yield();
	}
	return NULL;
}

bool t_shares_its_cpu(struct rd_loop *loop, int (*turn)(void *arg), void *arg)
{
	struct sharing s = {.loop = loop, .msg.fn = message_came, .poller.fn = turn_made};
	cpu_set_t before, one;
	pthread_t thread;

	CPU_ZERO(&one);
	CPU_SET((unsigned int)sched_getcpu(), &one);
	CU_ASSERT_EQUAL_FATAL(pthread_getaffinity_np(pthread_self(), sizeof(before), &before), 0);
	CU_ASSERT_EQUAL_FATAL(pthread_setaffinity_np(pthread_self(), sizeof(one), &one), 0);
	rd_poller_add(loop, &s.poller);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, post_messages, &s), 0);
	while (s.handled < MESSAGES && turn(arg) >= 0)
		;
	CU_ASSERT_EQUAL(s.handled, MESSAGES);
	pthread_join(thread, NULL);
	CU_ASSERT_EQUAL(pthread_setaffinity_np(pthread_self(), sizeof(before), &before), 0);
	rd_poller_del(loop, &s.poller);
	return s.turns < MESSAGES * TURNS_FOR_EACH;
}
