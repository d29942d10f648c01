/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A change of the configuration that was asked for at run time: an edit of the texts that were
 * loaded last, another document in their place, or that they are saved.
 */
#ifndef RDT_CHANGE_H
#define RDT_CHANGE_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "target/config/config.h"
#include "target/config/config_edit.h"

enum rdt_change_kind { RDT_CHANGE_EDIT, RDT_CHANGE_DOCUMENT, RDT_CHANGE_SAVE };

struct rdt_change {
	enum rdt_change_kind kind;
	char *what; /* for messages: the method and its parameters */
	bool dry_run;
	bool save;                     /* when it was applied */
	bool keep_state;               /* as rdt_reload_how.keep_state */
	struct rdt_config_edit *edits; /* EDIT */
	unsigned int edits_count;
	char *document; /* DOCUMENT: the top file */
	size_t document_len;
	struct rdt_config *now; /* what runs; a reference of the main thread */

	/* The result. -errno: of rdt_config_edit() for edits[at_edit], -EINVAL when the
	 * configuration would have problems, or of rdt_config_save(). */
	int err;
	unsigned int at_edit;
	unsigned int at_step;
	bool changed;          /* the configuration differs */
	bool saved;            /* it was asked for and done */
	unsigned int restarts; /* changes that need a restart */
	json_t *differences;   /* of a dry run */
};

/*
 * On the loader's thread. @wanted: the texts loaded last; only a save changes them. @texts: empty;
 * the texts with the change. Returns the configuration to apply, or NULL: none is to be applied,
 * see the result. Problems are logged.
 */
struct rdt_config *rdt_change_run(struct rdt_change *change, const char *path,
				  struct rdt_config_texts *wanted, struct rdt_config_texts *texts,
				  struct rd_log *log);
void rdt_change_free(struct rdt_change *change); /* main thread; accepts NULL */

#endif /* RDT_CHANGE_H */
