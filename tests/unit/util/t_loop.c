/* SPDX-License-Identifier: BSD-3-Clause */
#include "t_loop.h"

#include <poll.h>
#include <string.h>
#include <time.h>

#include "t_main.h"

char trace[64];
uint64_t fake_now;

static uint64_t fake_clock_now(void *arg)
{
	return *(uint64_t *)arg;
}

const struct rd_clock fake_clock = {.now = fake_clock_now, .arg = &fake_now};

struct rd_loop *make_loop(struct rd_loop_opts opts)
{
	struct rd_loop *loop = NULL;

	fake_now = 1000;
	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&opts, &loop), 0);
	return loop;
}

uint64_t real_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * RD_NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

bool readable(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, timeout_ms) == 1;
}

void defer_ran(struct rd_defer *defer)
{
	struct t_defer *t = rd_container_of(defer, struct t_defer, defer);
	size_t len = strlen(trace);

	fake_now += t->takes;
	if (len + 1 < sizeof(trace))
		trace[len] = t->tag;
	if (t->next) {
		rd_defer(t->loop, &t->next->defer, t->next_phase);
		t->next = NULL;
	}
	if (t->again-- > 0)
		rd_defer(t->loop, defer, (enum rd_defer_phase)defer->phase);
}
