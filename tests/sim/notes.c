/* SPDX-License-Identifier: BSD-3-Clause */
#include "notes.h"

#include <string.h>

void notes_begin(struct notes *n, struct resv *resv)
{
	*n = (struct notes){.resv = resv};
	resv_log_begins(resv);
}

void notes_ready(struct notes *n, uint64_t now)
{
	resv_log_runs(n->resv, now);
}

void notes_told(struct notes *n)
{
	n->told++;
	n->wait = false;
	n->all = true;
}

/* ---- the mask ---- */

void notes_mask(struct notes *n, unsigned int masked, uint64_t now)
{
	n->next = masked;
	resv_unmasks(n->resv, RESV_NOTE_BITS & ~(n->masked & n->next),
		     RESV_NOTE_BITS & ~(n->masked | n->next), now);
}

void notes_masked(struct notes *n, uint64_t now)
{
	n->masked = n->next;
	resv_unmasks(n->resv, RESV_NOTE_BITS & ~n->masked, RESV_NOTE_BITS & ~n->masked, now);
}

void notes_not_masked(struct notes *n, uint64_t now)
{
	n->next = n->masked;
	notes_masked(n, now);
}

/* ---- the log ---- */

void notes_read_begins(struct notes *n)
{
	for (unsigned int i = 0; i < RESV_NOTES; i++)
		n->certain[i] = resv_notes_certain(n->resv, (enum resv_note)i);
}

static const char *judge_empty(struct notes *n, bool keeps)
{
	n->all = n->all && keeps;
	if (!keeps && n->told > n->read)
		return "it was told more often than there was a notification";
	for (unsigned int i = 1; i < RESV_NOTES; i++)
		if (n->types[i] < n->certain[i])
			return "a notification is missing that a command has caused";
	return NULL;
}

const char *notes_read(struct notes *n, const struct nvme_resv_notification_log *page, bool keeps,
		       bool told, bool asked)
{
	bool had = n->wait && asked;
	unsigned int type = page->rnlpt;

	if (!type)
		return judge_empty(n, keeps);
	if (le64toh(page->lpc) != n->read + 1)
		return "notifications are lost, or are there twice";
	if (type >= RESV_NOTES || le32toh(page->nsid) != 1)
		return "a notification is not one of its namespace";
	if (n->types[type] >= resv_notes_possible(n->resv, (enum resv_note)type))
		return "no command explains a notification";
	if (!keeps) {
		n->read++;
		n->types[type]++;
		n->all = true;
	} else if (!n->all && !told) {
		n->wait = true;
		if (had)
			return "it was not told of a notification";
	}
	return NULL;
}
