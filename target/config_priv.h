/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the parts of the configuration loader. */
#ifndef RDT_CONFIG_PRIV_H
#define RDT_CONFIG_PRIV_H

#include <cyaml/cyaml.h>
#include <yaml.h>

#include "config.h"

/*
 * One load: the file as a tree, which knows lines, beside the structures libcyaml fills. Problems
 * are logged and counted here.
 */
struct rdt_config_load {
	const char *path;
	struct rd_log *log;
	yaml_document_t doc;
	bool doc_ok;
	unsigned int problems;
};

/* A place in the file: "subsystems[1].namespaces[0].size". */
#define RDT_KEY_TEXT 128
struct rdt_key {
	yaml_node_t *node; /* the mapping or value there, or NULL when the file has none */
	unsigned long line;
	char text[RDT_KEY_TEXT];
};

/* ---- config_schema.c ---- */

extern const cyaml_schema_value_t rdt_config_schema;

/* ---- config_doc.c ---- */

/* Log one problem as "file:line: key: text". */
void rdt_config_problem(struct rdt_config_load *load, const struct rdt_key *key, const char *fmt,
			...) __attribute__((format(printf, 3, 4)));

/* Parse @load->path into load->doc. Returns 0 or -errno, with the problem logged. */
int rdt_config_doc_open(struct rdt_config_load *load, const char *text, size_t len);
void rdt_config_doc_close(struct rdt_config_load *load);

/* Hold the tree against the schema: unknown, repeated and missing keys, types, ranges, choices. */
void rdt_config_doc_check(struct rdt_config_load *load, const cyaml_schema_value_t *schema);

struct rdt_key rdt_config_root(struct rdt_config_load *load);
/* The value of @name in the mapping @parent; the mapping's own line when it is not there. */
struct rdt_key rdt_config_child(struct rdt_config_load *load, const struct rdt_key *parent,
				const char *name);
/* Element @index of the sequence @parent. */
struct rdt_key rdt_config_item(struct rdt_config_load *load, const struct rdt_key *parent,
			       unsigned int index);

/* ---- config_check.c ---- */

/* Complete what was not given, check the rest. Problems are counted in @load; returns 0 or -ENOMEM.
 */
int rdt_config_check(struct rdt_config_load *load, struct rdt_config *config);

/* ---- config_hosts.c: who may see what, and by which way ---- */

void rdt_config_check_nqns(struct rdt_config_load *load, const struct rdt_key *hosts,
			   const char *const *nqns, uint32_t count);
void rdt_config_check_listener_ana(struct rdt_config_load *load, const struct rdt_key *listener,
				   const struct rdt_listener_config *l);
void rdt_config_check_ns_hosts(struct rdt_config_load *load, const struct rdt_key *ns_key,
			       const struct rdt_subsys_config *ss, struct rdt_ns_config *ns);
void rdt_config_check_cntlids(struct rdt_config_load *load, const struct rdt_key *subsystem,
			      struct rdt_subsys_config *ss);
void rdt_config_check_referrals(struct rdt_config_load *load, struct rdt_config *config);

/* ---- config_layers.c, config_qos.c ---- */

void rdt_config_check_ns_qos(struct rdt_config_load *load, const struct rdt_key *ns_key,
			     struct rdt_ns_config *ns);
void rdt_config_check_host_qos(struct rdt_config_load *load, const struct rdt_key *subsystem,
			       struct rdt_subsys_config *ss);
void rdt_config_check_layers(struct rdt_config_load *load, const struct rdt_key *ns_key,
			     struct rdt_ns_config *ns);

#endif /* RDT_CONFIG_PRIV_H */
