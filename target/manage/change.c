/* SPDX-License-Identifier: BSD-3-Clause */
#include "change.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "target/config/config_json.h"

#define DIFFERENCES_MAX 1000u

static int run_edits(struct rdt_change *ch, const struct rdt_config_texts *wanted,
		     struct rdt_config_texts *texts, struct rd_log *log)
{
	int rc = rdt_config_texts_copy(wanted, texts);

	ch->changed = !ch->edits_count; /* a reload looks at sizes again */
	for (ch->at_edit = 0; ch->at_edit < ch->edits_count && rc >= 0; ch->at_edit++) {
		if (ch->edits[ch->at_edit].if_changed && !ch->changed)
			continue;
		rc = rdt_config_edit(texts, &ch->edits[ch->at_edit], log, &ch->at_step);
		if (rc < 0)
			return rc;
		ch->changed |= rc > 0;
	}
	return rc < 0 ? rc : 0;
}

/* The document takes the place of the top file. */
static int take_document(struct rdt_change *ch, const char *path,
			 const struct rdt_config_texts *wanted, struct rdt_config_texts *texts)
{
	const struct rdt_config_text *old = &wanted->files[0];
	const char *disk = old->on_disk ? old->on_disk : old->text;
	size_t len = old->on_disk ? old->on_disk_len : old->len;
	int rc = rdt_config_texts_add(texts, path, ch->document, ch->document_len, 0);

	ch->changed = true;
	if (rc || (len == ch->document_len && memcmp(disk, ch->document, len) == 0))
		return rc;
	texts->files[0].on_disk = malloc(len + 1);
	if (!texts->files[0].on_disk)
		return -ENOMEM;
	memcpy(texts->files[0].on_disk, disk, len);
	texts->files[0].on_disk_len = len;
	return 0;
}

struct rdt_config *rdt_change_run(struct rdt_change *ch, const char *path,
				  struct rdt_config_texts *wanted, struct rdt_config_texts *texts,
				  struct rd_log *log)
{
	struct rdt_config *next = NULL;
	json_t *from, *to;

	if (ch->kind == RDT_CHANGE_SAVE) {
		int written = rdt_config_save(wanted, log);

		ch->err = written < 0 ? written : 0;
		ch->saved = written >= 0;
		return NULL;
	}
	ch->err = ch->kind == RDT_CHANGE_EDIT ? run_edits(ch, wanted, texts, log)
					      : take_document(ch, path, wanted, texts);
	if (ch->err || !ch->changed)
		return NULL;
	ch->err = ch->kind == RDT_CHANGE_DOCUMENT
			  ? rdt_config_load_texts(path, texts, true, log, &next)
			  : rdt_config_load_edited(path, texts, ch->now, log, &next);
	if (ch->err || !ch->dry_run)
		return next;
	from = rdt_config_json(ch->now);
	to = rdt_config_json(next);
	ch->differences = rdt_config_json_diff(from, to, DIFFERENCES_MAX);
	json_decref(from);
	json_decref(to);
	return next;
}

void rdt_change_free(struct rdt_change *ch)
{
	if (!ch)
		return;
	for (unsigned int i = 0; i < ch->edits_count; i++) {
		json_decref(ch->edits[i].path);
		json_decref(ch->edits[i].value);
	}
	free(ch->edits);
	free(ch->document);
	free(ch->what);
	json_decref(ch->differences);
	rdt_config_put(&ch->now);
	free(ch);
}
