/* SPDX-License-Identifier: BSD-3-Clause */
/* An I/O queue of one path, with one command at a time, whose answers are judged by the state of
 * the path: the devices of the other hosts do not tell by which path a command went. */
#ifndef SIM_PROBE_H
#define SIM_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "world.h"

struct probe {
	/* Set by the owner: */
	struct world *w;
	unsigned int host, path;
	enum secret_kind secret; /* of the controller, then of the queue */
	uint64_t connected;      /* when the controller began to connect */

	struct rdinit_qpair *qp;
	uint64_t opened; /* when the queue began to connect */
	bool live, lost;
	bool guesses; /* gives wrong proofs */
	bool busy;
	unsigned int op; /* enum probe_op */
	unsigned int block;
	uint64_t begin;
	char data[DISK_BLOCK] __attribute__((aligned(8)));
};

/* A command is submitted, or another queue of @ctrl is connected, now and then; called between
 * turns.
 * @ctrl: is ready; its turns process the queue. */
void probe_acts(struct probe *p, struct rdinit_ctrl *ctrl);
/* The one that the target has for the host, or any. */
enum secret_kind probe_choose_secret(struct probe *p);
/* What began at @begin has connected: whether the host could prove itself then. */
void probe_judge_secret(const struct probe *p, uint64_t begin, const char *queue);
/* The controller was refused: whether its secret explains that. */
void probe_judge_refusal(const struct probe *p);
void probe_close(struct probe *p); /* before the controller is freed; idempotent */

#endif /* SIM_PROBE_H */
