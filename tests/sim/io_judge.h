/* SPDX-License-Identifier: BSD-3-Clause */
/* The judgement of an I/O command: when it ends at its host, and when the target begins it. */
#ifndef SIM_IO_JUDGE_H
#define SIM_IO_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

struct rdinit_completion;
struct rdt_bio;
struct world;

#define IO_BLOCKS 12u

/* An I/O command of a host. Blocks are those of its namespace. */
struct io_facts {
	unsigned int host;
	unsigned int ns; /* from 0 on */
	uint64_t begin;
	const char *name;
	bool writes;    /* it is refused where writes are: a reservation, a read-only namespace */
	bool protected; /* as @writes, but Flush is not */
	bool syncs;     /* Flush, and FUA */
	bool marks;     /* Write Uncorrectable: no I/O of the storage */
	bool compares;
	bool fused;
	bool cancelled;
	bool by_path; /* it goes to one path, and is not sent again */
	unsigned int reads, stores;
	unsigned int read[IO_BLOCKS];  /* the blocks that it reads */
	unsigned int store[IO_BLOCKS]; /* the blocks that it writes */
};

bool io_is_conflict(const struct rdinit_completion *comp);
/* Whether the command may have changed blocks although it failed with @comp. */
bool io_may_be_executed(const struct world *w, const struct io_facts *f,
			const struct rdinit_completion *comp);
/* The command has ended. */
void io_judge_end(struct world *w, const struct io_facts *f, const struct rdinit_completion *comp);
/* The storage gets an I/O: whether the target may begin the command that it belongs to, now. What
 * has changed while the command waited counts. @arg: the world. */
void io_judge_begin(void *arg, const struct rdt_bio *bio);

#endif /* SIM_IO_JUDGE_H */
