/* SPDX-License-Identifier: BSD-3-Clause */
#include "marks.h"

#include <stdlib.h>

#define MARKS  32 /* of a block, at most, of which one may still matter */
#define FORGET (100 * UINT64_C(1000000000))

struct mark {
	bool used;
	bool ended;
	bool may_go; /* the target may have forgotten it */
	uint64_t begin;
	uint64_t end;  /* CHECK_NEVER: not acknowledged */
	uint64_t gone; /* since when it is certainly forgotten; CHECK_NEVER: it is not */
};

struct marks {
	unsigned int blocks;
	struct mark mark[][MARKS]; /* [blocks] */
};

struct marks *marks_new(unsigned int blocks)
{
	struct marks *m = calloc(1, sizeof(*m) + blocks * sizeof(m->mark[0]));

	if (m)
		m->blocks = blocks;
	return m;
}

void marks_free(struct marks *m)
{
	free(m);
}

int marks_begin(struct marks *m, struct check *ck, unsigned int block, uint64_t now)
{
	uint64_t written = check_written_since(ck, block, now);

	for (int i = 0; i < MARKS; i++) {
		struct mark *mark = &m->mark[block][i];

		if (mark->used && mark->gone == CHECK_NEVER && written > mark->end)
			mark->gone = now;
		if (mark->used && (mark->gone == CHECK_NEVER || mark->gone + FORGET > now))
			continue;
		*mark = (struct mark){
			.used = true, .begin = now, .end = CHECK_NEVER, .gone = CHECK_NEVER};
		return i;
	}
	return -1;
}

void marks_end(struct marks *m, unsigned int block, int number, bool executed, uint64_t now)
{
	struct mark *mark = &m->mark[block][number];

	mark->ended = true;
	if (executed)
		mark->end = now;
}

void marks_refused(struct marks *m, unsigned int block, int number)
{
	m->mark[block][number].used = false;
}

void marks_may_go(struct marks *m)
{
	for (unsigned int block = 0; block < m->blocks; block++)
		for (int i = 0; i < MARKS; i++)
			m->mark[block][i].may_go = true;
}

void marks_go(struct marks *m, uint64_t now)
{
	for (unsigned int block = 0; block < m->blocks; block++)
		for (int i = 0; i < MARKS; i++) {
			struct mark *mark = &m->mark[block][i];

			if (mark->used && mark->ended && mark->gone == CHECK_NEVER)
				mark->gone = now;
		}
}

bool marks_possible(const struct marks *m, struct check *ck, unsigned int block, uint64_t begin)
{
	uint64_t written = check_written_since(ck, block, begin);

	for (int i = 0; i < MARKS; i++) {
		const struct mark *mark = &m->mark[block][i];

		if (mark->used && mark->gone >= begin && written <= mark->end)
			return true;
	}
	return false;
}

bool marks_sure(const struct marks *m, struct check *ck, unsigned int block, uint64_t begin)
{
	uint64_t until = check_written_until(ck, block);

	for (int i = 0; i < MARKS; i++) {
		const struct mark *mark = &m->mark[block][i];

		if (mark->used && mark->end < begin && mark->gone == CHECK_NEVER && !mark->may_go &&
		    until < mark->begin)
			return true;
	}
	return false;
}
