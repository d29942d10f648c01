/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which blocks Write Uncorrectable has marked: reads of them fail until they are written, and the
 * content stays what it was. So marks are judged apart from the history of the content.
 */
#ifndef SIM_MARKS_H
#define SIM_MARKS_H

#include <stdbool.h>
#include <stdint.h>

#include "check.h"

struct marks;

/* Returns NULL without memory. */
struct marks *marks_new(unsigned int blocks);
void marks_free(struct marks *m);

/* A Write Uncorrectable of the block begins. Returns its number, or -1: it was marked too often. */
int marks_begin(struct marks *m, struct check *ck, unsigned int block, uint64_t now);
/* It has ended. @executed: it was acknowledged; otherwise it may be executed until all marks go. */
void marks_end(struct marks *m, unsigned int block, int number, bool executed, uint64_t now);
/* It was certainly not executed. */
void marks_refused(struct marks *m, unsigned int block, int number);
/* The target may forget all marks from now on. */
void marks_may_go(struct marks *m);
/* It has forgotten them, and executes no command any more that has ended. */
void marks_go(struct marks *m, uint64_t now);
/* Whether a read of @block may have failed at some time since @begin, and whether it must have
 * failed at all times. */
bool marks_possible(const struct marks *m, struct check *ck, unsigned int block, uint64_t begin);
bool marks_sure(const struct marks *m, struct check *ck, unsigned int block, uint64_t begin);

#endif /* SIM_MARKS_H */
