/* SPDX-License-Identifier: BSD-3-Clause */
/* An I/O queue of one path, with one command at a time, whose answers are judged by the state of
 * the path: the devices of the other hosts do not tell by which path a command went. */
#ifndef SIM_PROBE_H
#define SIM_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "world.h"

struct probe {
	struct world *w;
	unsigned int host, path;
	uint64_t connected; /* when the controller began to connect */
	struct rdinit_qpair *qp;
	bool live, lost;
	bool busy;
	unsigned int op; /* enum probe_op */
	unsigned int block;
	uint64_t begin;
	char data[DISK_BLOCK] __attribute__((aligned(8)));
};

/* Connects a queue of @ctrl, which is ready; the turns of @ctrl process it. The other members are
 * set, or zero. */
void probe_open(struct probe *p, struct rdinit_ctrl *ctrl);
/* A command is submitted now and then; called between turns. */
void probe_acts(struct probe *p);
void probe_close(struct probe *p); /* before the controller is freed; idempotent */

#endif /* SIM_PROBE_H */
