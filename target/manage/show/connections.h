/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connected hosts: reactors copy their connections in slices, and lists of controllers and hosts
 * are made from the copies. A separate thread does that, because ten thousand controllers take too
 * long for the main loop.
 */
#ifndef RDT_CONNECTIONS_H
#define RDT_CONNECTIONS_H

#include <stddef.h>

#include <jansson.h>

struct rdt_connections;
struct rdt_answer;
struct rdt_target;

/* Copies the connections of answer->reactor, on its thread, then calls rdt_answer_ready(). */
void rdt_connections_collect(struct rdt_answer *answer);
/* Frees the copies, unless rdt_connections_take() took them. Any thread. */
void rdt_connections_drop(struct rdt_answer *answer);
/* Main thread: takes the data of @n answers, some of which may have none. NULL: no memory. */
struct rdt_connections *rdt_connections_take(const struct rdt_target *t, struct rdt_answer *answers,
					     unsigned int n);
void rdt_connections_free(struct rdt_connections *c); /* any thread; accepts NULL */

/* ---- any thread, one at a time ---- */

/* The controllers with their queues, at most @most. *@total: the number of all controllers. */
json_t *rdt_connections_controllers(struct rdt_connections *c, size_t most, size_t *total);
json_t *rdt_connections_hosts(struct rdt_connections *c);

#endif /* RDT_CONNECTIONS_H */
