/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process that ends leaves in the service manager's store: descriptors, and their records in
 * a memory that is stored, too. First what is open, while connections are served; then, while they
 * are held, the connections with the records of all. The records are last, so nothing is of use
 * before it is complete.
 *
 * Main thread only.
 */
#ifndef RDT_STORE_PUT_H
#define RDT_STORE_PUT_H

#include <stddef.h>

#include <jansson.h>

struct rd_fd_bag;
struct rd_loop;
struct rdt_notify;
struct rdt_store_put;

/* All is kept: 0; or -errno, with a sentence in @why. It may free what was put in. */
typedef void (*rdt_store_put_done)(void *arg, int err, const char *why);

/* @files_max: open files of the next process when it starts, at most; 0: that is not known. */
int rdt_store_put_new(struct rdt_notify *notify, struct rd_loop *loop, unsigned long files_max,
		      rdt_store_put_done done, void *arg, struct rdt_store_put **out);
void rdt_store_put_free(struct rdt_store_put **put); /* accepts NULL */

/* Takes the descriptors of @bag in any case. Returns 0, and @done follows, not from within this
 * call; or -errno, with a sentence in @why. */
int rdt_store_put_open(struct rdt_store_put *put, const json_t *records, struct rd_fd_bag *bag,
		       char *why, size_t size);
int rdt_store_put_moves(struct rdt_store_put *put, const json_t *records, struct rd_fd_bag *bag,
			char *why, size_t size);
/* This process continues: what is in the store serves nobody when this has returned, whatever
 * becomes of the service manager, which is told to drop it. */
void rdt_store_withdraw(struct rdt_store_put *put);

#endif /* RDT_STORE_PUT_H */
