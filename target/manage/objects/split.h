/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ANA groups of which one gateway holds some images and another gateway the others: for example
 * because both started at the same time. Such a group is inaccessible on both.
 *
 * Main thread only.
 */
#ifndef RDT_SPLIT_H
#define RDT_SPLIT_H

struct rdt_target;

/* Call it when another gateway got the storage of a namespace, or this one did. When no further
 * such change follows, a group that is still split is given up to the gateway that has its first
 * namespace. */
void rdt_split_watch(struct rdt_target *t);

#endif /* RDT_SPLIT_H */
