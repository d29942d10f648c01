/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Edits the texts that a configuration was loaded from: adds and removes elements, sets values. The
 * texts are neither saved nor validated: see rdt_config_load_texts(). Any thread.
 */
#ifndef RDT_CONFIG_EDIT_H
#define RDT_CONFIG_EDIT_H

#include <jansson.h>

#include "config.h"

enum rdt_edit_op {
	RDT_EDIT_ADD,    /* the path ends with the element; "value": the new element */
	RDT_EDIT_REMOVE, /* the path ends with the element */
	RDT_EDIT_SET,    /* the path ends with a key; "value": JSON null removes the key */
};

struct rdt_config_edit {
	enum rdt_edit_op op;
	/* A list: key, element, key, element and so on, from the top, such as ["subsystems",
	 * {"nqn": "nqn.a"}, "namespaces", {"nsid": 1}, "size"]. An element is an object with the
	 * keys that identify it, or a string. */
	json_t *path;
	json_t *value;
	bool if_changed; /* apply only if an earlier edit of the list has changed something */
};

/*
 * Apply @edit to @texts. Returns 1; 0 when it is so already; or -errno, with @texts unchanged:
 *   -ENOENT   path[*at] is not there
 *   -EEXIST   the element to be added is there with other values
 *   -ENOTSUP  the text is written in a way that cannot be edited without a risk
 *   -ENOMEM
 */
int rdt_config_edit(struct rdt_config_texts *texts, const struct rdt_config_edit *edit,
		    struct rd_log *log, unsigned int *at);
/* The default port of a listener or a referral. */
uint16_t rdt_config_default_port(void);

#endif /* RDT_CONFIG_EDIT_H */
