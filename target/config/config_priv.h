/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the parts of the configuration loader. */
#ifndef RDT_CONFIG_PRIV_H
#define RDT_CONFIG_PRIV_H

#include <cyaml/cyaml.h>
#include <yaml.h>

#include "config.h"

/* A file as a tree, which knows lines. */
struct rdt_config_file {
	char *path;
	yaml_document_t doc;
	bool doc_ok;
	bool *seen; /* by node: it was looked at */
};

/* A list of the top level, to which each file may add. */
struct rdt_config_place {
	const struct rdt_config_file *file;
	yaml_node_t *node;
	unsigned int index; /* in that file */
};

struct rdt_config_list {
	const char *name;
	struct rdt_config_place *at;
	unsigned int count;
};

#define RDT_CONFIG_LISTS 3

/*
 * One load: the files as trees, beside the structures that are filled from them. Problems are
 * logged and counted here. A place with a problem gets no second one.
 */
struct rdt_config_load {
	const char *path; /* of the file that includes the others */
	struct rd_log *log;
	struct rdt_config_file **files; /* that one is the first */
	unsigned int files_count;
	struct rdt_config_list lists[RDT_CONFIG_LISTS];
	unsigned int problems;
	uint64_t *bad; /* hashes of the places with problems in the tree; sorted when it is done */
	unsigned int bad_count;
	bool tree_done;
	bool out_of_memory;
};

/* A place in a file: "subsystems[1].namespaces[0].size". */
#define RDT_KEY_TEXT 128
struct rdt_key {
	const struct rdt_config_file *file;
	const struct rdt_config_list *list; /* it is this one, over all files */
	yaml_node_t *node; /* the mapping or value there, or NULL when the file has none */
	unsigned long line;
	bool root;
	unsigned int len;
	char text[RDT_KEY_TEXT];
};

/* One of several keys that must differ; @index is its place in the order of the files. */
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

/* The same as a warning, which is no problem. */
void rdt_config_warning(struct rdt_config_load *load, const struct rdt_key *key, const char *fmt,
			...) __attribute__((format(printf, 3, 4)));
/* All files have been filled from; what follows is checked against each other. */
void rdt_config_tree_done(struct rdt_config_load *load);
/* Has this very place a problem that was found in the tree? What is filled in is no use then. */
bool rdt_config_is_bad(struct rdt_config_load *load, const struct rdt_key *key);

/* Add a file and parse it. Returns 0, -EINVAL with the problem logged, or -errno. */
int rdt_config_doc_open(struct rdt_config_load *load, const char *path, const char *text,
			size_t len, struct rdt_config_file **out);
void rdt_config_doc_close_all(struct rdt_config_load *load);
yaml_node_t *rdt_config_node(const struct rdt_config_file *file, int index);
struct rdt_key rdt_config_root_of(const struct rdt_config_file *file);
/* "PARENT.NAME", where the file has nothing of that name. */
struct rdt_key rdt_config_named(const struct rdt_key *parent, const char *name);
struct rdt_config_list *rdt_config_list(struct rdt_config_load *load, const char *name);

/* ---- config_fill.c ---- */

/*
 * Hold the tree against the schema (unknown, repeated and missing keys, types, ranges, choices) and
 * fill @config from it. What has a problem is left out: strings that are required are "" then.
 */
void rdt_config_fill(struct rdt_config_load *load, const struct rdt_config_file *file,
		     struct rdt_config *config);

/* ---- config_include.c ---- */

/* Read, parse and fill from the file and those that it includes. Returns 0 or -errno. */
int rdt_config_read_all(struct rdt_config_load *load, struct rdt_config *config);

/* ---- config_doc.c, walking ---- */

struct rdt_key rdt_config_root(struct rdt_config_load *load);
/* The value of @name in the mapping @parent; the mapping's own line when it is not there. */
struct rdt_key rdt_config_child(struct rdt_config_load *load, const struct rdt_key *parent,
				const char *name);
/* Element @index of the sequence @parent. */
struct rdt_key rdt_config_item(struct rdt_config_load *load, const struct rdt_key *parent,
			       unsigned int index);

/* ---- config_unique.c ---- */

/*
 * For each of @count keys, sorted here, the index of the first one that is the same, in
 * first[index]: its own when there is none before it.
 */
void rdt_config_firsts(struct rdt_config_id *ids, unsigned int count, unsigned int *first);
/* "in line N", or with the file's name when that is another one. */
const char *rdt_config_where(const struct rdt_key *from, const struct rdt_key *other, char *buf,
			     size_t size);
/* What must differ between all subsystems and namespaces. Returns 0 or -ENOMEM. */
int rdt_config_check_unique(struct rdt_config_load *load, const struct rdt_config *config);

/* ---- config_check.c ---- */

/* Complete what was not given, check the rest. Problems are counted in @load; returns 0 or -ENOMEM.
 */
int rdt_config_check(struct rdt_config_load *load, struct rdt_config *config);
bool rdt_config_all_zero(const uint8_t *bytes, size_t count);

/* ---- config_hosts.c: who may see what, and by which way ---- */

/* A name of more than 223 bytes or with other characters is a problem, other forms a warning. */
void rdt_config_check_nqn(struct rdt_config_load *load, const struct rdt_key *key, const char *nqn);
int rdt_config_check_nqns(struct rdt_config_load *load, const struct rdt_key *hosts,
			  const char *const *nqns, uint32_t count);
void rdt_config_check_listener_ana(struct rdt_config_load *load, const struct rdt_key *listener,
				   const struct rdt_listener_config *l);
/* @sorted: the hosts of @ss, for the search. */
int rdt_config_check_ns_hosts(struct rdt_config_load *load, const struct rdt_key *ns_key,
			      const struct rdt_subsys_config *ss, const char *const *sorted,
			      struct rdt_ns_config *ns);
void rdt_config_check_cntlids(struct rdt_config_load *load, const struct rdt_key *subsystem,
			      struct rdt_subsys_config *ss);
void rdt_config_check_referrals(struct rdt_config_load *load, struct rdt_config *config);

/* ---- config_layers.c, config_qos.c ---- */

void rdt_config_check_ns_qos(struct rdt_config_load *load, const struct rdt_key *ns_key,
			     struct rdt_ns_config *ns);
int rdt_config_check_host_qos(struct rdt_config_load *load, const struct rdt_key *subsystem,
			      struct rdt_subsys_config *ss);
void rdt_config_check_layers(struct rdt_config_load *load, const struct rdt_key *ns_key,
			     struct rdt_ns_config *ns);

#endif /* RDT_CONFIG_PRIV_H */
