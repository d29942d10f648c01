/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Edits a YAML text at one place. Comments, order and style of everything else are unchanged. Any
 * thread.
 */
#ifndef RDT_CONFIG_TEXT_H
#define RDT_CONFIG_TEXT_H

#include <stddef.h>

#include <jansson.h>

#include "config_priv.h"

/* A text with its tree. Both belong to the caller. */
struct rdt_yaml_text {
	const char *text; /* UTF-8 */
	size_t len;
	const struct rdt_config_file *file; /* parsed from @text */
};

/*
 * Each function creates a new text, which the caller frees, and returns 0, -ENOTSUP if the layout
 * of the text cannot be edited here, or -ENOMEM. Values in the tree are not empty, because a loaded
 * configuration has no such value.
 */

/* Set @key of the mapping @map to @value; replaces the old value with its comments. */
int rdt_yaml_set(const struct rdt_yaml_text *y, const yaml_node_t *map, const char *key,
		 const json_t *value, char **out, size_t *out_len);
/* Remove @key, which @map has. */
int rdt_yaml_unset(const struct rdt_yaml_text *y, const yaml_node_t *map, const char *key,
		   char **out, size_t *out_len);
/* Add @value to the end of the sequence @seq. */
int rdt_yaml_append(const struct rdt_yaml_text *y, const yaml_node_t *seq, const json_t *value,
		    char **out, size_t *out_len);
/* Remove element @index of @seq, which has more than one. */
int rdt_yaml_remove(const struct rdt_yaml_text *y, const yaml_node_t *seq, unsigned int index,
		    char **out, size_t *out_len);

#endif /* RDT_CONFIG_TEXT_H */
