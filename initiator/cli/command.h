/* SPDX-License-Identifier: BSD-3-Clause */
/* Common functions of verbs that send one command. */
#ifndef RDI_CLI_COMMAND_H
#define RDI_CLI_COMMAND_H

#include "cli.h"

/* The fields of a command; dwords are numbered as in the specification, 10 to 15 are used. */
struct cli_command {
	uint8_t opcode;
	uint32_t nsid;
	uint32_t cdw[CLI_CDWS];
	void *data;
	uint32_t len;
	bool write; /* the data goes to the controller */
};

/* Makes the library's structure from @c. */
void cli_passthru_make(const struct cli_command *c, struct rdinit_passthru *pt);
/* Sends an admin command. Returns CLI_OK, or CLI_FAILED after printing the status as text. */
int cli_admin(struct cli_session *s, const struct cli_command *c, uint64_t *result);
int cli_io(struct cli_session *s, const struct cli_command *c, uint64_t *result);
/* As rdinit_admin_passthru() and rdinit_io_passthru(); prints nothing. */
int cli_admin_try(struct cli_session *s, const struct cli_command *c, uint64_t *result);
int cli_io_try(struct cli_session *s, const struct cli_command *c, uint64_t *result);
struct nvme_id_ns;
/* The index of the LBA format that the namespace has. */
unsigned int cli_lba_in_use(const struct nvme_id_ns *id);
/* Identify Namespace; an error, too, if @nsid is no active namespace. */
int cli_identify_ns(struct cli_session *s, uint32_t nsid, struct nvme_id_ns *id);
typedef int (*cli_ns_fn)(struct cli_session *s, uint32_t nsid, void *arg);
/* Calls @fn for each namespace above @after, in the order of identifiers, until it fails.
 * @inactive: also for those that are not active. */
int cli_each_ns(struct cli_session *s, uint32_t after, bool inactive, cli_ns_fn fn, void *arg);
/* The namespace descriptor after @d in the list of RDINIT_IDENTIFY_SIZE bytes, for NULL the first;
 * NULL at the end. */
const unsigned char *cli_next_descriptor(const unsigned char *list, const unsigned char *d);
/* Identify with the controller identifier of CDW10 and the CSI of CDW11. */
int cli_identify(struct cli_session *s, uint32_t cdw10, uint32_t cdw11, uint32_t nsid, void *data);

/* Connects, calls the function, disconnects; with the I/O queue, or with the namespace as well. */
int cli_with_ctrl(const struct cli_options *o, cli_verb_job *job);
int cli_with_ns(const struct cli_options *o, cli_verb_job *job);

uint32_t cli_nsid(const struct cli_options *o); /* the default is 1 */
uint64_t cli_num(const struct cli_options *o, enum cli_arg id, uint64_t fallback);
bool cli_given(const struct cli_options *o, enum cli_arg id);

/* Prints the success message of a verb without data. */
int cli_success(const struct cli_options *o, uint32_t nsid, uint64_t result);
/* Prints the data as it is, for --raw-binary. */
int cli_raw(const void *data, size_t len);
/* A command whose answer is a list of a length that only the answer tells. */
struct cli_list_read {
	int (*send)(struct cli_session *s, const struct cli_command *c, uint64_t *result);
	/* Puts the length into @c. */
	void (*set_len)(struct cli_command *c, uint32_t len);
	/* Bytes of the whole list, of which @data has the first @len; more than @len: it is
	 * longer. */
	uint64_t (*whole)(const void *data, uint32_t len);
	int (*show)(const struct cli_options *o, const void *data, uint32_t len);
	enum cli_arg limit; /* the option with which a user limits the length */
	const char *rest;   /* what to do about a list that no command can transfer; or NULL */
};
/*
 * Sends @c for @len bytes, and again for more until the list is complete. Prints it as it is for
 * --raw-binary, otherwise by @r->show. A list that is cut short, by the limit of the user or of the
 * controller, is printed so far, and is an error.
 */
int cli_show_list(struct cli_session *s, const struct cli_options *o, struct cli_command *c,
		  uint32_t len, const struct cli_list_read *r);
/* Prints a hexadecimal dump, 16 bytes in a line, with the characters. */
void cli_dump(const unsigned char *buf, size_t len);
json_t *cli_hex(const unsigned char *buf, size_t len);
/* Formats the present time as "2026-01-31T23:59:59Z" into @buf. */
#define CLI_TIME_TEXT 32
const char *cli_time_text(char buf[CLI_TIME_TEXT]);
/* Whether the option of a file means standard input or output: it is NULL, or "-". */
bool cli_is_std(const char *name);
/*
 * Reads at most @room bytes of the file @name, or of standard input. @line: only
 * the first line is needed, but more may be read. Returns CLI_OK and the number of bytes in *@have,
 * or CLI_FAILED after printing why.
 */
int cli_read_input(const char *name, bool line, void *buf, size_t room, size_t *have);
/* Reads all @len bytes from the file @name, or from standard input. @limit: the name of the
 * option that gives the length, for messages. */
int cli_fill(const char *name, unsigned char *buf, size_t len, const char *limit);

/* Parses numbers separated by commas into @out. Returns how many, or 0 after printing the error. */
unsigned int cli_number_list(const char *name, const char *text, uint64_t max, uint64_t *out,
			     unsigned int room);

/* The requested part of a log page. */
struct cli_log {
	uint8_t lid, lsp, csi;
	uint16_t lsi;
	uint32_t nsid;
	uint64_t offset;
	bool index; /* the offset is an index */
	bool rae;
};

/* Reads the part with as many commands as needed. With rae events stay pending; otherwise only
 * the last command clears them. */
int cli_get_log(struct cli_session *s, const struct cli_log *log, void *data, uint32_t len);

const char *cli_feature_name(unsigned int fid); /* features.c */
const char *cli_ana_state(unsigned int state);  /* logs_list.c */
/* A name such as "Identify", or "Unknown". */
const char *cli_command_name(bool admin, unsigned int opcode);
/* Reads the whole ANA log into a buffer that the caller frees. Each group is checked to end
 * within it. */
int cli_ana_read(struct cli_session *s, bool groups_only, unsigned char **out, uint64_t *size);

extern const struct cli_group cli_g_raw, cli_g_blocks, cli_g_range, cli_g_deac, cli_g_compare,
	cli_g_dsm, cli_g_copy, cli_g_get_log, cli_g_smart, cli_g_error_log, cli_g_ana_log,
	cli_g_effects, cli_g_endurance, cli_g_get_feature, cli_g_set_feature, cli_g_human,
	cli_g_get_property, cli_g_set_property, cli_g_register, cli_g_acquire, cli_g_release,
	cli_g_report, cli_g_lba_status, cli_g_list_ctrl, cli_g_list_ns, cli_g_topology,
	cli_g_monitor, cli_g_top, cli_g_cp, cli_g_recovery, cli_g_gen_dhchap_key,
	cli_g_check_dhchap_key, cli_g_gen_tls_key, cli_g_check_tls_key, cli_g_attach, cli_g_detach,
	cli_g_list;

#endif /* RDI_CLI_COMMAND_H */
