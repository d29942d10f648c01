/* SPDX-License-Identifier: BSD-3-Clause */
/* The rdinit program. It uses only the public headers, and the stateless parts of common/util. */
#ifndef RDI_CLI_H
#define RDI_CLI_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "rdinit.h"
#include "rdinit_auth.h"
#include "rdinit_tls.h"
#include "table.h"

enum cli_exit {
	CLI_OK = 0,
	CLI_FAILED = 1, /* the reason was printed in one line on standard error */
	CLI_USAGE = 2,  /* the command line was wrong */
};

enum cli_format {
	CLI_NORMAL,
	CLI_JSON,
};

/* ---- options.c ---- */

#define CLI_CDWS        16 /* number of dwords of a command */

#define CLI_BENCH_DEPTH 1023u /* one less than the entries of the largest queue */
#define CLI_BENCH_CPUS  1024u /* as in cpu_set_t */

struct cli_bench_options {
	const char *rw; /* name of the mode */
	bool random;
	bool mixed;
	uint32_t read_percent; /* 100 or 0 in modes that are not mixed */
	bool dataloss;
	bool device; /* use struct rdinit_dev */
	uint64_t block_size;
	uint32_t depth;
	uint32_t threads;
	uint16_t cpus[CLI_BENCH_CPUS];
	unsigned int n_cpus;
	uint64_t spin_ns; /* before sleeping; UINT64_MAX: never sleep */
	uint64_t run_ns;  /* UINT64_MAX: until @io_count is reached */
	bool has_run;
	uint64_t ramp_ns;
	uint64_t io_count; /* 0: no limit */
	uint64_t seed;
};

/* An option that the verb itself evaluates. */
struct cli_value {
	bool given;
	uint64_t n;       /* number or size; for a flag, the number of times it was given */
	const char *text; /* the text given */
};

struct cli_options {
	const struct cli_verb *verb;
	struct cli_value arg[CLI_ARGS];
	char **operands; /* of verbs with CLI_V_OPERANDS */
	int n_operands;
	struct rdinit_ctrl_opts ctrl;
	struct rdinit_auth_opts auth; /* ctrl points to it when a secret file was given */
	struct rdinit_tls_opts tls;   /* likewise */
	bool want_tls;                /* --tls was given */
	struct {                      /* cp: of the destination; NULL: as the source */
		const char *secret_file;
		const char *ctrl_secret_file;
		const char *tls_key_file;
	} dst;
	struct rdinit_qpair_opts qpair;
	struct rdinit_uri uri; /* ctrl points into it when a URI was given */
	bool has_transport;    /* --transport was given */
	bool s_is_block;       /* -s was given, and does not mean the port in this verb */
	uint32_t nsid;         /* 0: not given */
	bool any_nsid;         /* 0 and 0xffffffff are allowed */
	enum cli_format format;
	unsigned int verbose;

	uint32_t cdw[CLI_CDWS]; /* passthru: 2, 3 and 10 to 15 are used */
	struct cli_bench_options bench;
};

/*
 * Parses the arguments after the verb. Returns true to continue; else *@status is the exit status
 * of the program (after --help or a usage error, which has been printed).
 */
bool cli_options_parse(const struct cli_verb *verb, int argc, char **argv, struct cli_options *opts,
		       int *status);

/*
 * Makes the options of a connection to @uri, for a verb with several URIs: those of @base, changed
 * by what the URI contains. @out has pointers into itself and must not be copied. Returns false
 * after printing the error.
 */
bool cli_options_uri(const struct cli_options *base, const char *uri, struct cli_options *out);

/* ---- messages.c ---- */

/* Prints "rdinit: " and the message on standard error. Returns CLI_FAILED or CLI_USAGE. */
int cli_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int cli_usage_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Controllers with these options warn when this machine has no identity. */
void cli_warn_of_identity(struct rdinit_ctrl_opts *o);
/* Prints the library's last error, without the function name. Returns CLI_FAILED. */
int cli_lib_error(void);
const char *cli_lib_text(void);
/* What to do when the library's last error is a refused Connect, to append to its text; or "". */
const char *cli_connect_hint(void);
int cli_finish_output(void);

/* ---- json.c ---- */

/* In decimal; returns a part of @buf. */
#define CLI_U128_TEXT 40
const char *cli_u128_text(unsigned __int128 v, char buf[CLI_U128_TEXT]);
/* A number of more than 64 bits for cli_print_json(); up to 64 bits, (json_int_t) is enough. */
json_t *cli_json_u128(unsigned __int128 v);
/* Prints and frees @json, whose integers are unsigned. Returns CLI_OK, or CLI_FAILED when the
 * output cannot be written. */
int cli_print_json(json_t *json, FILE *out);
/* The same as one line of standard output. */
int cli_print_json_line(json_t *json);

/* Status values that have longer messages than their names: the bits CLI_STATUS_CODE of a
 * status. */
#define CLI_STATUS_CODE 0x7ffu
enum cli_status {
	CLI_STATUS_PROTECTED = 0x20,    /* Generic: Namespace is Write Protected */
	CLI_STATUS_RESERVED = 0x83,     /* Generic: Reservation Conflict */
	CLI_STATUS_BAD_CONNECT = 0x182, /* Connect Invalid Parameters: usually a wrong NQN */
	CLI_STATUS_BAD_HOST = 0x184,    /* Connect Invalid Host */
};

void cli_help_all(FILE *out); /* generate.c */

/* ---- mistakes.c ---- */

/* Finds among candidates the nearest one to @word, which the user probably meant: @found, or
 * NULL. */
struct cli_nearest {
	const char *word;
	const char *found;
	unsigned int best;
};

void cli_nearest(struct cli_nearest *near, const char *candidate);
/* Whether @traddr is a plain host name or address; if not, prints the correct form. */
bool cli_check_traddr(const char *traddr);
bool cli_check_trsvcid(const char *name, const char *trsvcid);
bool cli_check_host_traddr(const char *name, const char *addr);
/* Whether the value of option @name is the path of a file, not the secret itself; if not, prints
 * why. */
bool cli_check_secret_file(const char *name, const char *file);
/* Whether the text looks like a URI; if not, prints the correct form. */
bool cli_check_uri(const char *uri);
/* Prints which verb was probably meant. Returns CLI_USAGE. */
int cli_unknown_verb(const char *word);

/* ---- bench_options.c ---- */

void cli_bench_defaults(struct cli_bench_options *o);
/* Stores a value, or prints what is wrong with it and returns false. */
void cli_bench_rw(struct cli_bench_options *o, unsigned int mode); /* index of the word */
bool cli_bench_poll(struct cli_bench_options *o, const char *text);
bool cli_bench_cpus(struct cli_bench_options *o, const char *list);
bool cli_bench_time(const char *name, const char *text, uint64_t *ns);
/* Checks that the options are consistent, and sets those that depend on others. */
bool cli_bench_check(struct cli_options *o);

/* ---- command.c ---- */

#define CLI_QUEUES_MAX 1024 /* limit of the library */

struct cli_session {
	struct rdinit_ctrl *ctrl;
	struct rdinit_ctrl_info info;
	struct rdinit_ns ns;
	struct rdinit_qpair *qp[CLI_QUEUES_MAX];
	unsigned int n_qp;
};

/* Connects to the controller. Returns CLI_OK, or CLI_FAILED after printing why. */
int cli_session_open(struct cli_session *s, const struct cli_options *opts);
/* Opens the namespace and the I/O queues; processes the controller meanwhile. */
int cli_session_open_io(struct cli_session *s, const struct cli_options *opts);
/* Opens the namespace only. */
int cli_session_open_ns(struct cli_session *s, const struct cli_options *opts);
/* Opens the I/O queues only, for commands that need no properties of a namespace. */
int cli_session_open_queues(struct cli_session *s, const struct cli_options *opts);
/* Writes an address as in a URI, such as "192.0.2.1:4420" or "[::1]:4420", into @buf, which is
 * returned. @trsvcid may be NULL. */
#define CLI_ADDRESS_TEXT 300
const char *cli_address_text(const char *traddr, const char *trsvcid, char buf[CLI_ADDRESS_TEXT]);
/* Disconnects in order: queues first, then the controller. */
void cli_session_close(struct cli_session *s);

/* ---- messages.c: how far a verb is ---- */

struct cli_progress {
	bool on;
	uint64_t total; /* 0: unknown */
	uint64_t start_ns;
	uint64_t last_ns;
};

uint64_t cli_now_ns(void);
void cli_progress_start(struct cli_progress *p, bool wanted, uint64_t total);
void cli_progress_update(struct cli_progress *p, uint64_t done);
void cli_progress_clear(struct cli_progress *p); /* call before printing a message on a terminal */
void cli_progress_end(struct cli_progress *p, uint64_t done);

/* ---- signals.c ---- */

struct cli_signals {
	int fd;       /* readable after a signal; -1: signals are not watched */
	int signo;    /* the signal that arrived, or 0 */
	sigset_t old; /* the signal mask to restore */
};

void cli_signals_start(struct cli_signals *in);
/* Returns true once, for the first signal; a second signal ends the program. */
bool cli_signals_check(struct cli_signals *in);
void cli_signals_end(struct cli_signals *in);
/* Ends the program by the signal that arrived, so that shells and make see it. */
void cli_signals_die(const struct cli_signals *in);

/* ---- verbs ---- */

/* attach.c, bench.c, connect_test.c, copy/cp.c, discover.c, features.c */
cli_verb_run cli_attach, cli_detach, cli_list_attached, cli_bench, cli_connect_test, cli_cp;
cli_verb_job cli_discover;
cli_verb_run cli_get_feature, cli_set_feature;
/* identify.c, identify_lists.c */
cli_verb_job cli_id_ctrl, cli_id_ns, cli_cmdset_ind_id_ns, cli_nvm_id_ctrl, cli_nvm_id_ns;
cli_verb_job cli_list_ctrl, cli_list_ns, cli_ns_descs;
/* io.c, key.c */
cli_verb_run cli_read, cli_write;
cli_verb_job cli_flush;
cli_verb_run cli_gen_hostnqn, cli_show_hostnqn, cli_gen_dhchap_key, cli_check_dhchap_key,
	cli_gen_tls_key, cli_check_tls_key;
/* logs.c, logs_list.c */
cli_verb_run cli_get_log_verb;
cli_verb_job cli_smart_log, cli_error_log, cli_fw_log, cli_changed_ns_log, cli_resv_notif_log,
	cli_endurance_log, cli_ana_log, cli_effects_log, cli_supported_logs, cli_fid_effects_log,
	cli_mi_effects_log;
/* monitor.c, nvm.c, passthru.c, registers.c, resv.c, top.c, topology.c */
cli_verb_run cli_monitor, cli_dsm, cli_copy, cli_admin_passthru, cli_io_passthru;
cli_verb_job cli_compare, cli_get_lba_status, cli_write_zeroes, cli_write_uncor, cli_verify;
cli_verb_run cli_get_property, cli_set_property;
cli_verb_job cli_show_regs, cli_reset;
cli_verb_job cli_resv_register, cli_resv_acquire, cli_resv_release, cli_resv_report;
cli_verb_run cli_top, cli_list, cli_list_subsys, cli_show_topology;

#endif /* RDI_CLI_H */
