/* SPDX-License-Identifier: BSD-3-Clause */
/* The record of a controller: what its host has set, what it was told, and what it has yet to be
 * told. On the controller's owner, while its admin queue is HELD. */
#ifndef RDT_MOVE_CTRL_H
#define RDT_MOVE_CTRL_H

#include <stdbool.h>

#include <jansson.h>

struct rdt_ctrl;

bool rdt_move_ctrl_can(const struct rdt_ctrl *ctrl);
json_t *rdt_move_ctrl_out(struct rdt_ctrl *ctrl); /* NULL: out of memory */
/* @ctrl was created for the host that @rec names. Returns 0, or -EPROTO for a value that cannot be,
 * or -ENOMEM. */
int rdt_move_ctrl_in(struct rdt_ctrl *ctrl, const json_t *rec);

#endif /* RDT_MOVE_CTRL_H */
