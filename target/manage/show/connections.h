/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who is connected: copies of all connections, made by the reactors in slices, and lists of
 * controllers and hosts made of them. With ten thousand controllers a list takes too long for the
 * main loop, so a thread makes it.
 */
#ifndef RDT_CONNECTIONS_H
#define RDT_CONNECTIONS_H

#include <stddef.h>

#include <jansson.h>

struct rdt_connections;
struct rdt_answer;
struct rdt_target;

/* On the thread of answer->reactor: copy its connections. rdt_answer_ready() is called after the
 * last slice. */
void rdt_connections_collect(struct rdt_answer *answer);
/* Frees what was copied, if it was not taken over. Any thread. */
void rdt_connections_drop(struct rdt_answer *answer);
/* Main thread: takes the data of @n answers over, those without data are left out. NULL: out of
 * memory. */
struct rdt_connections *rdt_connections_take(const struct rdt_target *t, struct rdt_answer *answers,
					     unsigned int n);
void rdt_connections_free(struct rdt_connections *c); /* any thread; accepts NULL */

/* ---- any thread, one at a time ---- */

/* The controllers with their queues, at most @most of them. *@total: how many there are. */
json_t *rdt_connections_controllers(struct rdt_connections *c, size_t most, size_t *total);
json_t *rdt_connections_hosts(struct rdt_connections *c);

#endif /* RDT_CONNECTIONS_H */
