/* SPDX-License-Identifier: BSD-3-Clause */
/* The log of reservation notifications of one controller, and its mask: what it must have, and what
 * it must not. */
#ifndef SIM_NOTES_H
#define SIM_NOTES_H

#include <stdbool.h>
#include <stdint.h>

#include "nvmf/wire.h"
#include "resv.h"

struct notes {
	struct resv *resv;
	uint64_t told, read;            /* events, and entries that were taken out of the log */
	bool wait;                      /* a command has seen an entry of which no event has told */
	bool all;                       /* after an event: they are read until there is none */
	unsigned int types[RESV_NOTES]; /* of @read */
	unsigned int certain[RESV_NOTES]; /* when the command began that reads the log */
	unsigned int masked, next; /* sets of 1 << enum resv_note: as told, and as it may become */
};

/* The controller begins to connect; and it is ready, at @now. */
void notes_begin(struct notes *n, struct resv *resv);
void notes_ready(struct notes *n, uint64_t now);
/* An event has told of a notification. */
void notes_told(struct notes *n);
/* The mask is set to @masked, a set of 1 << enum resv_note; and the answer has come, at @now. */
void notes_mask(struct notes *n, unsigned int masked, uint64_t now);
void notes_masked(struct notes *n, uint64_t now);
void notes_not_masked(struct notes *n, uint64_t now); /* the mask is as it was */
/* A command that reads the log begins. */
void notes_read_begins(struct notes *n);
/*
 * The log was read. @keeps: without taking the entry out of it (RAE). @told: an event has told of
 * the log since it was read last without that. @asked: an Asynchronous Event Request was
 * outstanding when the command began. Returns what is wrong, or NULL.
 */
const char *notes_read(struct notes *n, const struct nvme_resv_notification_log *page, bool keeps,
		       bool told, bool asked);

#endif /* SIM_NOTES_H */
