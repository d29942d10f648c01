/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of verbs and options. The parser, --help, the manual pages and the completions of bash
 * and zsh (generate.c) use the same table, so that they agree.
 */
#ifndef RDI_CLI_TABLE_H
#define RDI_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli_options;
struct cli_session;
struct cli_shape;

/* What a verb does: with a session, or all by itself. Returns an exit status. */
typedef int cli_verb_job(struct cli_session *s, const struct cli_options *o);
typedef int cli_verb_run(const struct cli_options *o);

enum cli_kind {
	CLI_FLAG,  /* takes no value; counted */
	CLI_TEXT,  /* any text; a file name in most cases */
	CLI_NUM,   /* decimal or 0x..., up to max */
	CLI_SIZE,  /* bytes, with a unit */
	CLI_OTHER, /* parsed by a rule in options.c: cli_opt.id is enum cli_rule */
	/* The value goes to the member of struct cli_options at offset cli_opt.id: */
	CLI_BOOL,
	CLI_STR,
	CLI_U16, /* numbers up to max */
	CLI_U32,
	CLI_U64,
	CLI_BYTES,  /* uint64_t, with a unit */
	CLI_BUFFER, /* uint32_t bytes, with a unit */
	CLI_MS,     /* uint32_t, milliseconds or a time */
};

/* Values that the verb evaluates itself: indices in cli_options.arg. */
enum cli_arg {
	CLI_ARG_RAW,
	CLI_ARG_HUMAN,
	CLI_ARG_START,
	CLI_ARG_COUNT,
	CLI_ARG_FUA,
	CLI_ARG_LIMITED_RETRY,
	CLI_ARG_DEAC,
	CLI_ARG_SLBS,
	CLI_ARG_BLOCKS,
	CLI_ARG_CTX_ATTRS,
	CLI_ARG_AD,
	CLI_ARG_IDW,
	CLI_ARG_IDR,
	CLI_ARG_SDLBA,
	CLI_ARG_LID,
	CLI_ARG_LOG_LEN,
	CLI_ARG_LPO,
	CLI_ARG_LSP,
	CLI_ARG_LSI,
	CLI_ARG_RAE,
	CLI_ARG_CSI,
	CLI_ARG_ENTRIES,
	CLI_ARG_GROUPS,
	CLI_ARG_GROUP_ID,
	CLI_ARG_FID,
	CLI_ARG_SEL,
	CLI_ARG_SAVE,
	CLI_ARG_VALUE,
	CLI_ARG_DATA,
	CLI_ARG_DATA_LEN,
	CLI_ARG_CDW11,
	CLI_ARG_CDW12,
	CLI_ARG_OFFSET,
	CLI_ARG_CRKEY,
	CLI_ARG_NRKEY,
	CLI_ARG_PRKEY,
	CLI_ARG_IEKEY,
	CLI_ARG_CPTPL,
	CLI_ARG_ACTION,
	CLI_ARG_RTYPE,
	CLI_ARG_EDS,
	CLI_ARG_NUMD,
	CLI_ARG_CNTID,
	CLI_ARG_FIRST,
	CLI_ARG_ALL,
	CLI_ARG_EVENTS,
	CLI_ARG_INTERVAL,
	CLI_ARG_SPARSE,
	CLI_ARG_VERIFY,
	CLI_ARG_PROGRESS,
	CLI_ARG_NO_PROGRESS,
	CLI_ARG_RESUME,
	CLI_ARG_FLUSH,
	CLI_ARG_NO_FLUSH,
	CLI_ARG_RECONNECT_DELAY,
	CLI_ARG_CTRL_LOSS,
	CLI_ARG_POLICY,
	CLI_ARG_RANKING,
	CLI_ARG_HMAC,
	CLI_ARG_KEY_LENGTH,
	CLI_ARG_KEY_FILE,
	CLI_ARG_IDENTITY,
	CLI_ARG_COMPAT,
	CLI_ARG_OPCODE,
	CLI_ARG_OPFLAGS,
	CLI_ARG_PREFILL,
	CLI_ARG_SHOW_COMMAND,
	CLI_ARG_DRY_RUN,
	CLI_ARG_READ,
	CLI_ARG_WRITE,
	CLI_ARG_READ_PERCENT,
	CLI_ARG_DRIVER,
	CLI_ARG_READ_ONLY,
	CLI_ARG_FOREGROUND,
	CLI_ARG_STATE_DIR,
	CLI_ARG_FORCE,
	CLI_ARG_ATTACHED,
	CLI_ARGS,
};

/* Options with a rule of their own. */
enum cli_rule {
	OPT_TRANSPORT,
	OPT_KATO,
	OPT_TIMEOUT,
	OPT_MPA_REVISION,
	OPT_HASHES,
	OPT_DHGROUPS,
	OPT_FORMAT,
	OPT_VERBOSE,
	OPT_HELP,
	OPT_NSID,
	OPT_RW,
	OPT_CPUS,
	OPT_POLL,
	OPT_RUN_TIME,
	OPT_RAMP_TIME,
};

struct cli_opt {
	const char *name;
	char letter; /* 0: none */
	enum cli_kind kind;
	unsigned int id;
	const char *value; /* placeholder for the value in help; NULL: it takes no value */
	uint64_t min, max; /* of numbers */
	const char *help;
	/* Of CLI_STR, says what is wrong with @text, or returns true; NULL: nothing can be. */
	bool (*check)(const char *name, const char *text);
	/* The words that the value may be, with commas between; NULL: it is something else. Of
	 * CLI_TEXT, the index of the word is stored, too. */
	const char *words;
};

struct cli_group {
	const char *title;
	const struct cli_opt *opts;
	size_t n;
};

/* options_verbs.c */
extern const struct cli_group cli_g_target, cli_g_host, cli_g_host_addr, cli_g_connection,
	cli_g_auth, cli_g_dst_auth, cli_g_output, cli_g_nsid, cli_g_transfer, cli_g_write,
	cli_g_passthru, cli_g_bench;

#define CLI_GROUPS_MAX 9

enum cli_reach {
	CLI_SUBSYSTEM, /* the verb needs a subsystem NQN */
	CLI_DISCOVERY, /* the NQN defaults to the discovery controller's */
	CLI_NOWHERE,   /* it does not connect */
};

/* Other properties of a verb's options. */
#define CLI_V_TRANSFER 0x1u
#define CLI_V_PASSTHRU 0x2u
#define CLI_V_BENCH    0x4u
/* 0 and 0xffffffff are allowed as namespace identifiers, and 0 is the default. */
#define CLI_V_ANY_NSID 0x8u
/* The verb evaluates its operands itself, from cli_options.operands. */
#define CLI_V_OPERANDS 0x10u

struct cli_verb {
	const char *name;
	const char *family; /* heading in `rdinit --help` that begins here; or NULL */
	const char *summary;
	const char *text;     /* paragraphs of the manual page, separated by an empty line */
	const char *operands; /* NULL: one URI */
	enum cli_reach reach;
	unsigned int flags; /* CLI_V_* */
	const char *gone;   /* letters of nvme-cli's options that this verb lacks; may be NULL */
	/* Of the JSON, for docs/schema/NAME.json; NULL: that file is written by hand. */
	const struct cli_shape *shape;
	/* Options after the URI, NULL: none; or beginning with "rdinit", the whole command. */
	const char *example;
	/* The verb's own group comes first: a letter belongs to the first group that has it. */
	const struct cli_group *groups[CLI_GROUPS_MAX];
	/* One of these: the job is called with a connected controller, or with its namespace and
	 * I/O queues as well; run opens what it needs. */
	cli_verb_job *with_ctrl, *with_ns;
	cli_verb_run *run;
};

extern const struct cli_verb cli_verbs[]; /* verbs.c */
extern const size_t cli_verbs_n;

const struct cli_verb *cli_verb_find(const char *name);
/* The verb by its two words of nvme-cli 3, such as "log smart"; NULL: there is none. */
const struct cli_verb *cli_verb_find3(const char *group, const char *name);

/* The options of a verb, with their letters in that verb. */
struct cli_opt_at {
	const struct cli_opt *opt;
	const struct cli_group *group;
	char letter;               /* 0: none in this verb */
	const struct cli_opt *own; /* the option that has the letter instead */
};

#define CLI_OPTS_MAX 96

size_t cli_verb_opts(const struct cli_verb *verb, struct cli_opt_at *out);

/* generate.c */
void cli_help(const struct cli_verb *verb);
/* `rdinit --generate WHAT [FOLDER]`. Returns an exit status. */
int cli_generate(int argc, char **argv);

#endif /* RDI_CLI_TABLE_H */
