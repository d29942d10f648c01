/* SPDX-License-Identifier: BSD-3-Clause */
/* Notifications of the simulated cluster, and the functions of librados for them. */
#ifndef SIM_NOTIFY_H
#define SIM_NOTIFY_H

#include "cluster.h"

/* A rados_completion_t, and a rbd_completion_t. */
struct completion {
	void (*fn)(void *completion, void *arg);
	void *arg;
	ssize_t result;
};

/* Nobody waits for the answer of @op any more. */
void notify_forget(const struct op *op);
/* @w does not have to acknowledge any more. */
void notify_watcher_left(const struct watcher *w);
void notify_free_all(struct cluster *cl);

#endif /* SIM_NOTIFY_H */
