/* SPDX-License-Identifier: BSD-3-Clause */
/* Interface between the parts of the configuration loader. */
#ifndef RDT_CONFIG_PRIV_H
#define RDT_CONFIG_PRIV_H

#include <yaml.h>

#include "config.h"

/* A file as a YAML tree with line numbers. */
struct rdt_config_file {
	char *path;
	yaml_document_t doc;
	bool doc_ok;
	bool edited;        /* its text may differ from the file on the disk */
	unsigned int index; /* in load->files */
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

/* Maximum time of a load in seconds, because other changes wait for it. */
#define RDT_CONFIG_LOAD_S 30

/* A load ends after this number of problems. */
#define RDT_CONFIG_PROBLEMS_MAX 100u

struct rdt_config_message;

/* One load: the files as trees, and the structures filled from them. Checks of the structures
 * report nothing for a place that already has a problem. */
struct rdt_config_load {
	const char *path; /* of the top file */
	/* some or all files may be given, files that are read are added; NULL: do not keep them */
	struct rdt_config_texts *texts;
	unsigned int given;             /* number of files that were given */
	bool top_only;                  /* only the first of these is used */
	bool edited;                    /* some differ from the file on the disk */
	const struct rdt_config *known; /* its warnings are not repeated */
	struct rdt_config *config;      /* the result */
	rdt_config_more_fn more;        /* NULL: none */
	void *more_arg;
	struct rd_log *log;
	struct rdt_config_file **files; /* [0] is the top file */
	unsigned int files_count;
	struct rdt_config_list lists[RDT_CONFIG_LISTS];
	unsigned int problems;
	unsigned int warnings;
	/* kept until rdt_config_doc_close_all() logs them in the order of lines */
	struct rdt_config_message **messages;
	unsigned int messages_count;
	unsigned int nodes; /* of all files */
	uint64_t until;     /* ns of CLOCK_MONOTONIC: the end of the time limit; 0: not begun */
	unsigned int
		time_checks; /* calls of rdt_config_late(), which reads the clock at some of them */
	bool late;
	bool tree_done; /* the structures are filled: checks of them follow */
	bool out_of_memory;
};

/* A place in a file, such as "subsystems[1].namespaces[0].size". */
#define RDT_PLACE_TEXT 128
struct rdt_key {
	const struct rdt_config_file *file;
	/* when the place is a top-level list, over all files */
	const struct rdt_config_list *list;
	yaml_node_t *node; /* the mapping or value at this place; NULL: the file has none */
	unsigned long line;
	bool root;
	unsigned int len;
	char text[RDT_PLACE_TEXT];
};

/* A key that must be unique; @index is its position over all files. */
struct rdt_config_id {
	const void *bytes;
	size_t len;
	unsigned int index;
};

/* ---- config_doc.c ---- */

/* Report a problem, which is logged as "file:line: key: text". */
void rdt_config_problem(struct rdt_config_load *load, const struct rdt_key *key, const char *fmt,
			...) __attribute__((format(printf, 3, 4)));

/* As rdt_config_problem(), but a warning, which is not counted. */
void rdt_config_warning(struct rdt_config_load *load, const struct rdt_key *key, const char *fmt,
			...) __attribute__((format(printf, 3, 4)));
/* Whether the load has reached the maximum number of problems. */
bool rdt_config_full(const struct rdt_config_load *load);
/* Whether the load has exceeded its time limit, so that it ends with an error. Cheap. */
bool rdt_config_late(struct rdt_config_load *load);
/* Whether this place and those below it have no problem, so that their values can be compared. */
bool rdt_config_good(const struct rdt_config_load *load, const struct rdt_key *key);

/* Parse @text and add it as a file. Returns 0, -EINVAL with the problem logged, or -errno. */
int rdt_config_doc_open(struct rdt_config_load *load, const char *path, const char *text,
			size_t len, struct rdt_config_file **out);
/* Logs all messages and frees the trees. */
void rdt_config_doc_close_all(struct rdt_config_load *load);
bool rdt_config_is_alias(const yaml_node_t *node); /* aliases are not resolved */
yaml_node_t *rdt_config_node(const struct rdt_config_file *file, int index);
/* The first pair of @map with the key @name. NULL: none, or @map is NULL or no mapping. */
const yaml_node_pair_t *rdt_config_pair(const struct rdt_config_file *file, const yaml_node_t *map,
					const char *name);
struct rdt_key rdt_config_root_of(const struct rdt_config_file *file);
/* The place "PARENT.NAME" that the file does not have. */
struct rdt_key rdt_config_named(const struct rdt_key *parent, const char *name);
struct rdt_config_list *rdt_config_list(struct rdt_config_load *load, const char *name);

/* ---- config_fill.c ---- */

/* Validates each key and value of the tree by the rows of the keys, and fills @config, with
 * defaults. An invalid value is left out: 0 or NULL, or "" for a required text. */
void rdt_config_fill(struct rdt_config_load *load, const struct rdt_config_file *file,
		     struct rdt_config *config);
void rdt_config_free(struct rdt_config *config);

/* ---- config_save.c ---- */

/* Warns of files that an interrupted save of the configuration @path has not replaced. */
void rdt_config_tell_interrupted(const char *path, struct rd_log *log);

/* ---- config_include.c ---- */

/* Reads @path without parsing it. Returns 0, or -errno with the reason in @why. */
int rdt_config_read_file(const char *path, char **text, size_t *len, char *why, size_t why_size);
/* Read, parse and fill from the top file and its includes. Returns 0 or -errno. */
int rdt_config_read_all(struct rdt_config_load *load, struct rdt_config *config);

/* ---- config_doc.c, walking ---- */

struct rdt_key rdt_config_root(struct rdt_config_load *load);
struct rdt_key rdt_config_at_pair(struct rdt_config_load *load, const struct rdt_key *parent,
				  const yaml_node_pair_t *pair);
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
/* Writes "in line N", "in FILE:N" for another file, or the place in an edited one, to @buf. */
const char *rdt_config_where(const struct rdt_key *from, const struct rdt_key *other, char *buf,
			     size_t size);
/* Values in an array of structures: texts, or @len bytes. */
struct rdt_config_values {
	const void *array;
	unsigned int count;
	size_t size; /* of a structure */
	size_t at;   /* of the value in it */
	size_t len;  /* 0: a pointer to a text is there */
};

/* Report each element of @list that has the value of an earlier one, where the value is the key
 * @name of the element; NULL: the element itself. @what: "subsystem" and the like. Returns 0 or
 * -ENOMEM. */
int rdt_config_check_twice(struct rdt_config_load *load, const struct rdt_key *list,
			   const char *name, const struct rdt_config_values *values,
			   const char *what);
/* Checks that names, IDs and storage are unique in all subsystems. Returns 0 or -ENOMEM. */
int rdt_config_check_unique(struct rdt_config_load *load, const struct rdt_config *config);

/* ---- config_check.c ---- */

/* Checks what involves several keys, and completes the structures. Returns 0 or -ENOMEM. */
int rdt_config_check(struct rdt_config_load *load, struct rdt_config *config);
bool rdt_config_all_zero(const uint8_t *bytes, size_t count);
/* The @count texts of @list, sorted for rdt_config_has(); NULL without memory. The caller frees
 * it. */
const char **rdt_config_sorted(const char *const *list, uint32_t count);
bool rdt_config_has(const char *const *sorted, uint32_t count, const char *text);

/* ---- keys_disk.c, keys_rbd.c, keys_delay.c, keys_error.c ---- */

void rdt_config_check_disk(struct rdt_config_load *load, const struct rdt_key *key,
			   const struct rdt_ns_config *ns);

/* Also finds the cluster of each image. Returns 0 or -ENOMEM. */
int rdt_config_check_rbd(struct rdt_config_load *load, struct rdt_config *config);
void rdt_config_check_delay(struct rdt_config_load *load, const struct rdt_key *key,
			    const struct rdt_layer_config *l);
void rdt_config_check_error(struct rdt_config_load *load, const struct rdt_key *key,
			    struct rdt_layer_config *l);

/* ---- config_auth.c ---- */

/* Checks authentication of all subsystems and reads the keys. Returns 0 or -ENOMEM. */
int rdt_config_check_auth(struct rdt_config_load *load, struct rdt_config *config);
void rdt_config_secrets_free(struct rdt_secrets *secrets); /* wipes them; accepts NULL */

#endif /* RDT_CONFIG_PRIV_H */
