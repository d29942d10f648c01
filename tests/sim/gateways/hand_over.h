/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A gateway hands over to a second process of it (docs/design/moves.md): its images, whose locks
 * the next process takes when the one before has given them up, and the connections that are byte
 * streams; hosts of others connect again. What target/manage/upgrade/ says by a channel is said by
 * events; its records of namespaces are used.
 *
 * Where NULL is allowed for a hand-over, no gateway hands over.
 */
#ifndef SIM_HAND_OVER_H
#define SIM_HAND_OVER_H

#include <stdbool.h>

struct gateway;
struct gateways;
struct hand_over;

/* Of the gateway @number. @kills: each of its processes may be killed at each step; @stands: or
 * stand still. */
int hand_new(struct gateways *all, unsigned int number, bool kills, bool stands,
	     struct hand_over **out);
void hand_free(struct hand_over **h);
/* Does the gateway refuse commands now? Accepts NULL. */
bool hand_refuses(const struct hand_over *h);
/* Begins, unless one runs or the gateway is about to end. */
void hand_begin(struct hand_over *h);
/* The next process is ready. */
void hand_ready(struct hand_over *h);
/* The process that hosts use is about to end. @killed: at once. NULL is allowed. */
void hand_ends(struct hand_over *h, bool killed);
/* Nothing of @gw is in flight any more. NULL is allowed. */
void hand_drained(struct hand_over *h, const struct gateway *gw);
/* Does @gw, which has handed over, wait for I/O without a limit? NULL is allowed. */
bool hand_waits(const struct hand_over *h, const struct gateway *gw);
/* Does @gw, which has handed over, wait for the next process to say that it serves? NULL is
 * allowed.
 */
bool hand_lingers(const struct hand_over *h, const struct gateway *gw);
/* Is there another process of the same gateway? */
bool hand_has_other(const struct gateway *gw);
/* @gw, or the other process of the gateway when there is one. */
struct gateway *hand_some(struct gateway *gw);

#endif /* SIM_HAND_OVER_H */
