/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress.h"

#include "pool.h"
#include "reactor.h"

#define LATE       2u
#define STILL      3u
#define SLOW       10u
#define SLOW_BYTES (1u << 20)

void rdt_progress_check(struct rdt_progress *s)
{
	if (s->mark > s->posted) /* a transfer was taken back */
		s->mark = s->posted;
	if (s->done >= s->mark) {
		s->mark = s->posted;
		s->checks = 0;
		s->grace = (uint32_t)((s->posted - s->done) / SLOW_BYTES);
	} else {
		s->checks++;
	}
	s->still = s->done == s->seen && s->done != s->posted ? s->still + 1 : 0;
	s->seen = s->done;
}

bool rdt_progress_late(const struct rdt_progress *s)
{
	return s->checks >= LATE;
}

bool rdt_progress_too_slow(const struct rdt_progress *s, bool pressed)
{
	return s->checks > SLOW + s->grace || (pressed && s->still >= STILL);
}

bool rdt_progress_pressed(const struct rdt_reactor *r)
{
	bool pressed = false;

	for (unsigned int i = 0; i < RDT_ACCOUNTS; i++)
		pressed = pressed || rdt_pool_pressed(&r->pools[i]);
	return pressed;
}
