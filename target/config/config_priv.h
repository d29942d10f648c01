/* SPDX-License-Identifier: BSD-3-Clause */
/* Interface between the parts of the configuration loader. */
#ifndef RDT_CONFIG_PRIV_H
#define RDT_CONFIG_PRIV_H

#include <cyaml/cyaml.h>
#include <yaml.h>

#include "config.h"

/* A file as a YAML tree with line numbers. */
struct rdt_config_file {
	char *path;
	yaml_document_t doc;
	bool doc_ok;
	bool *seen; /* by node: it was visited */
};

/* A list at the top level to which each included file may add. */
struct rdt_config_place {
	const struct rdt_config_file *file;
	yaml_node_t *node;
	unsigned int index; /* index within that file */
};

struct rdt_config_list {
	const char *name;
	struct rdt_config_place *at;
	unsigned int count;
};

#define RDT_CONFIG_LISTS 3

/* One load: the files as trees, and the structures filled from them. Counts the problems that are
 * logged. At most one problem is reported for a place. */
struct rdt_config_load {
	const char *path; /* of the top file */
	/* the files: some or all are given, those that are read are added; NULL: not kept */
	struct rdt_config_texts *texts;
	unsigned int given; /* number of files that were given */
	bool top_only;      /* of these only the first one is used */
	struct rd_log *log;
	struct rdt_config_file **files; /* [0] is the top file */
	unsigned int files_count;
	struct rdt_config_list lists[RDT_CONFIG_LISTS];
	unsigned int problems;
	/* hashes of the places with a problem in the tree; sorted by rdt_config_tree_done() */
	uint64_t *bad;
	unsigned int bad_count;
	bool tree_done;
	bool out_of_memory;
};

/* A place in a file, such as "subsystems[1].namespaces[0].size". */
#define RDT_KEY_TEXT 128
struct rdt_key {
	const struct rdt_config_file *file;
	/* when the place is a top-level list, over all files */
	const struct rdt_config_list *list;
	yaml_node_t *node; /* the mapping or value at this place; NULL: the file has none */
	unsigned long line;
	bool root;
	unsigned int len;
	char text[RDT_KEY_TEXT];
};

/* A key that must be unique; @index is its position over all files. */
struct rdt_config_id {
	const void *bytes;
	size_t len;
	unsigned int index;
};

/* ---- config_schema.c ---- */

extern const cyaml_schema_value_t rdt_config_schema;

/* ---- config_doc.c ---- */

/* Log one problem as "file:line: key: text". */
void rdt_config_problem(struct rdt_config_load *load, const struct rdt_key *key, const char *fmt,
			...) __attribute__((format(printf, 3, 4)));

/* As rdt_config_problem(), but a warning, which is not counted. */
void rdt_config_warning(struct rdt_config_load *load, const struct rdt_key *key, const char *fmt,
			...) __attribute__((format(printf, 3, 4)));
/* All files were filled from; the following checks compare the filled structures. */
void rdt_config_tree_done(struct rdt_config_load *load);
/* Was a problem reported for this place in the tree? Then the filled value must not be used. */
bool rdt_config_is_bad(struct rdt_config_load *load, const struct rdt_key *key);

/* Parse @text and add it as a file. Returns 0, -EINVAL with the problem logged, or -errno. */
int rdt_config_doc_open(struct rdt_config_load *load, const char *path, const char *text,
			size_t len, struct rdt_config_file **out);
void rdt_config_doc_close_all(struct rdt_config_load *load);
yaml_node_t *rdt_config_node(const struct rdt_config_file *file, int index);
/* The first pair of @map with the key @name. NULL: there is none, or @map is NULL or no mapping. */
const yaml_node_pair_t *rdt_config_pair(const struct rdt_config_file *file, const yaml_node_t *map,
					const char *name);
struct rdt_key rdt_config_root_of(const struct rdt_config_file *file);
/* The place "PARENT.NAME" that the file does not have. */
struct rdt_key rdt_config_named(const struct rdt_key *parent, const char *name);
struct rdt_config_list *rdt_config_list(struct rdt_config_load *load, const char *name);

/* ---- config_fill.c ---- */

/* Check the tree against the schema (unknown, repeated and missing keys, types, ranges, choices)
 * and fill @config from it. A value with a problem is left out; a required string is "" then. */
void rdt_config_fill(struct rdt_config_load *load, const struct rdt_config_file *file,
		     struct rdt_config *config);

/* ---- config_save.c ---- */

/* Warn of files that a save of the configuration @path has not replaced when it was interrupted. */
void rdt_config_tell_interrupted(const char *path, struct rd_log *log);

/* ---- config_include.c ---- */

/* Read @path as it is. Returns 0 or -errno, with the reason in @why. */
int rdt_config_read_file(const char *path, char **text, size_t *len, char *why, size_t why_size);
/* Read, parse and fill from the top file and its includes. Returns 0 or -errno. */
int rdt_config_read_all(struct rdt_config_load *load, struct rdt_config *config);

/* ---- config_doc.c, walking ---- */

struct rdt_key rdt_config_root(struct rdt_config_load *load);
/* The value of @name in the mapping @parent; without one, the line of the mapping. */
struct rdt_key rdt_config_child(struct rdt_config_load *load, const struct rdt_key *parent,
				const char *name);
/* Element @index of the sequence @parent. */
struct rdt_key rdt_config_item(struct rdt_config_load *load, const struct rdt_key *parent,
			       unsigned int index);

/* ---- config_unique.c ---- */

/* Sort @ids and store in first[index], for each of the @count keys, the index of the first equal
 * one (its own when there is none before it). */
void rdt_config_firsts(struct rdt_config_id *ids, unsigned int count, unsigned int *first);
/* Writes "in line N", or "in FILE:N" for another file, to @buf. */
const char *rdt_config_where(const struct rdt_key *from, const struct rdt_key *other, char *buf,
			     size_t size);
/* Checks what must be unique over all subsystems and namespaces. Returns 0 or -ENOMEM. */
int rdt_config_check_unique(struct rdt_config_load *load, const struct rdt_config *config);

/* ---- config_check.c ---- */

/* Fill in defaults and check everything else. Counts problems in @load. Returns 0 or -ENOMEM. */
int rdt_config_check(struct rdt_config_load *load, struct rdt_config *config);
bool rdt_config_all_zero(const uint8_t *bytes, size_t count);

/* ---- config_hosts.c: host lists, ANA states, controller IDs, referrals ---- */

/* An NQN that is too long (over 223 bytes) or has other characters is a problem, an unusual form a
 * warning. */
void rdt_config_check_nqn(struct rdt_config_load *load, const struct rdt_key *key, const char *nqn);
int rdt_config_check_nqns(struct rdt_config_load *load, const struct rdt_key *hosts,
			  const char *const *nqns, uint32_t count);
void rdt_config_check_listener_ana(struct rdt_config_load *load, const struct rdt_key *listener,
				   const struct rdt_listener_config *l);
/* @sorted: the hosts of @ss, sorted for bsearch(3). */
int rdt_config_check_ns_hosts(struct rdt_config_load *load, const struct rdt_key *ns_key,
			      const struct rdt_subsys_config *ss, const char *const *sorted,
			      struct rdt_ns_config *ns);
void rdt_config_check_cntlids(struct rdt_config_load *load, const struct rdt_key *subsystem,
			      struct rdt_subsys_config *ss);
void rdt_config_check_referrals(struct rdt_config_load *load, struct rdt_config *config);

/* ---- config_rbd.c ---- */

/* Also finds the cluster of each image. */
void rdt_config_check_rbd(struct rdt_config_load *load, struct rdt_config *config);

/* ---- config_layers.c, config_qos.c ---- */

void rdt_config_check_ns_qos(struct rdt_config_load *load, const struct rdt_key *ns_key,
			     struct rdt_ns_config *ns);
int rdt_config_check_host_qos(struct rdt_config_load *load, const struct rdt_key *subsystem,
			      struct rdt_subsys_config *ss);
void rdt_config_check_layers(struct rdt_config_load *load, const struct rdt_key *ns_key,
			     struct rdt_ns_config *ns);

/* ---- config_auth.c ---- */

/* Checks authentication of all subsystems and reads the keys. Returns 0 or -ENOMEM. */
int rdt_config_check_auth(struct rdt_config_load *load, struct rdt_config *config);
void rdt_config_secrets_free(struct rdt_secrets *secrets); /* wipes them; accepts NULL */

#endif /* RDT_CONFIG_PRIV_H */
