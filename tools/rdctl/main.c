/* SPDX-License-Identifier: BSD-3-Clause */
/* rdctl: the command line. */
#include "rdctl.h"

#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/parse.h"
#include "util/utf8.h"

#define DEFAULT_SOCKET "/run/rdtarget/control.sock"
#define DEFAULT_WAIT   60u
#define WAIT_MAX       86400u

int rdctl_usage_error(const char *what, const char *value)
{
	fprintf(stderr, "rdctl: %s%s%s\nTry 'rdctl --help'.\n", what, value ? ": " : "",
		value ? value : "");
	return RDCTL_USAGE;
}

static int print_short_usage(void)
{
	char left[64];

	printf("Usage: rdctl [OPTION]... VERB [ARGUMENT]...\n"
	       "Show and change what a running rdtarget serves, by its control socket.\n\n");
	for (const struct rdctl_verb *v = rdctl_verbs; v->name; v++) {
		snprintf(left, sizeof(left), "%s %s", v->name, v->usage);
		/* A long usage text has a line of its own. */
		if (strlen(left) > 34)
			printf("  %s\n  %-34s %s\n", left, "", v->what);
		else
			printf("  %-34s %s\n", left, v->what);
	}
	printf("\n"
	       "  -s, --socket PATH    default: RDCTL_SOCKET in the environment, else\n"
	       "                       " DEFAULT_SOCKET "\n"
	       "  -o, --output FORMAT  text (default) or json\n"
	       "  -w, --wait SECONDS   wait this long for an answer (default %u)\n"
	       "      --dry-run        changes, apply, reload: only show what would change\n"
	       "      --no-wait        changes, apply, reload: return once it has begun\n"
	       "      --keep-state     ns remove: keep its UUID, reservations and protection\n"
	       "      --save           changes, apply: also write them to the configuration file\n"
	       "      --full           check: also that files, devices, addresses exist\n"
	       "      --check          upgrade: only test whether it is possible\n"
	       "      --force          upgrade: also while storage does not answer\n"
	       "      --store          upgrade: leave all to the service manager, and end\n"
	       "      --timeout SECONDS  drain: give up after this long (default 30)\n"
	       "  -h, --help           show this help and exit\n"
	       "  -V, --version        show the version and exit\n"
	       "\n"
	       "Exit status: 0 done, 1 refused, 2 wrong usage, 3 no answer,\n"
	       "4 done, but an object does not work yet.\n",
	       DEFAULT_WAIT);
	return RDCTL_OK;
}

/* JSON strings must be UTF-8. */
static bool is_utf8(const char *text)
{
	for (size_t left = strlen(text), n; left; text += n, left -= n) {
		n = rd_utf8_len(text, left);
		if (!n)
			return false;
	}
	return true;
}

#define VERB_OPTION 256 /* and from there on those that only some verbs have */
static const struct option longopts[] = {
	{"save", no_argument, NULL, VERB_OPTION + RDCTL_SAVE},
	{"dry-run", no_argument, NULL, VERB_OPTION + RDCTL_DRY_RUN},
	{"no-wait", no_argument, NULL, VERB_OPTION + RDCTL_NO_WAIT},
	{"keep-state", no_argument, NULL, VERB_OPTION + RDCTL_KEEP_STATE},
	{"full", no_argument, NULL, VERB_OPTION + RDCTL_FULL},
	{"check", no_argument, NULL, VERB_OPTION + RDCTL_CHECK},
	{"force", no_argument, NULL, VERB_OPTION + RDCTL_FORCE},
	{"store", no_argument, NULL, VERB_OPTION + RDCTL_STORE},
	{"timeout", required_argument, NULL, VERB_OPTION + RDCTL_TIMEOUT},
	{"socket", required_argument, NULL, 's'},
	{"output", required_argument, NULL, 'o'},
	{"wait", required_argument, NULL, 'w'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{0},
};

/* The first given option that the verb does not have, without "--", or NULL. */
static const char *foreign_option(const struct rdctl_verb *v, const struct rdctl_arguments *args)
{
	char option[32];

	for (unsigned int i = 0; i < RDCTL_OPTIONS; i++) {
		snprintf(option, sizeof(option), "--%s", longopts[i].name);
		if (args->given[i] && !(v->changes && i <= RDCTL_NO_WAIT) &&
		    !strstr(v->usage, option))
			return longopts[i].name;
	}
	return NULL;
}

/* Finds the verb in the first one or two arguments, and removes them. */
static const struct rdctl_verb *take_verb(struct rdctl_arguments *args)
{
	const struct rdctl_verb *found = NULL;
	char two[64];
	int words = 1;

	snprintf(two, sizeof(two), "%s %s", args->values[0],
		 args->count > 1 ? args->values[1] : "");
	for (const struct rdctl_verb *v = rdctl_verbs; v->name; v++) {
		if (strcmp(v->name, two) == 0)
			found = v, words = 2;
		else if (!found && strcmp(v->name, args->values[0]) == 0)
			found = v;
	}
	args->values += words;
	args->count -= words;
	return found;
}

/* Whether the word @text could be meant as @name, or as the first word of it: "subsystem" for
 * "subsystems" and "subsystem add". */
static bool is_like(const char *name, const char *text)
{
	size_t word = strcspn(name, " "), len = strlen(text);

	return len >= 2 && strncmp(name, text, len < word ? len : word) == 0;
}

/* Nothing has the name @text, alone or with the word behind it. */
static int no_such_verb(const char *text)
{
	const char *between = "; did you mean ", *end = "";

	fprintf(stderr, "rdctl: unknown verb \"%s\"", text);
	for (const struct rdctl_verb *v = rdctl_verbs; v->name; v++)
		if (is_like(v->name, text)) {
			fprintf(stderr, "%s\"%s\"", between, v->name);
			between = " or ";
			end = "?";
		}
	fprintf(stderr, "%s\nTry 'rdctl --help'.\n", end);
	return RDCTL_USAGE;
}

/* @v has another number of arguments; more than it has may begin with a second word. */
static int wrong_count(const struct rdctl_verb *v, int count)
{
	size_t len = strlen(v->name);

	if (v->most == 0)
		fprintf(stderr, "rdctl: \"%s\" takes no arguments\n", v->name);
	else
		fprintf(stderr, "usage: rdctl %s %s\n", v->name, v->usage);
	for (const struct rdctl_verb *o = rdctl_verbs; o->name && count > v->most; o++)
		if (strncmp(o->name, v->name, len) == 0 && o->name[len] == ' ')
			fprintf(stderr, "       rdctl %s %s\n", o->name, o->usage);
	return RDCTL_USAGE;
}

static int run_verb(const struct rdctl *ctl, struct rdctl_arguments *args)
{
	const char *name = args->values[0], *foreign;
	const struct rdctl_verb *v;

	for (int i = 0; i < args->count; i++)
		if (!is_utf8(args->values[i]))
			return rdctl_usage_error("an argument is not UTF-8, for", name);
	v = take_verb(args);
	if (!v)
		return no_such_verb(name);
	if (args->count < v->least || args->count > v->most)
		return wrong_count(v, args->count);
	foreign = foreign_option(v, args);
	if (!foreign)
		return rdctl_run(ctl, v, args);
	fprintf(stderr,
		"rdctl: \"%s\" does not take --%s\n"
		"Try 'rdctl --help'.\n",
		name, foreign);
	return RDCTL_USAGE;
}

static int parse_output(const char *text, struct rdctl *ctl)
{
	ctl->json = strcmp(text, "json") == 0;
	if (ctl->json || strcmp(text, "text") == 0)
		return 0;
	return rdctl_usage_error("--output takes text or json, not", text);
}

static int parse_wait(const char *text, struct rdctl *ctl)
{
	uint64_t value;

	if (rd_parse_u64(text, 1, WAIT_MAX, &value))
		return rdctl_usage_error("--wait takes 1 to 86400 seconds, not", text);
	ctl->wait_seconds = (unsigned int)value;
	return 0;
}

/* Returns -1 to continue, else the exit status. */
static int parse_rdctl_options(int argc, char **argv, struct rdctl *ctl,
			       struct rdctl_arguments *args)
{
	int c, bad = 0;

	while (!bad && (c = getopt_long(argc, argv, "s:o:w:hV", longopts, NULL)) != -1) {
		switch (c) {
		case 's':
			ctl->socket = optarg;
			break;
		case 'o':
			bad = parse_output(optarg, ctl);
			break;
		case 'w':
			bad = parse_wait(optarg, ctl);
			break;
		case 'h':
			return print_short_usage();
		case 'V':
			puts("rdctl " RDCTL_VERSION);
			return RDCTL_OK;
		case '?':
			fputs("Try 'rdctl --help'.\n", stderr);
			return RDCTL_USAGE;
		default:
			args->given[c - VERB_OPTION] = optarg ? optarg : "";
		}
	}
	if (bad)
		return bad;
	return optind < argc ? -1 : rdctl_usage_error("no verb given", NULL);
}

int main(int argc, char **argv)
{
	const char *socket = getenv("RDCTL_SOCKET");
	struct rdctl ctl = {.socket = socket && socket[0] ? socket : DEFAULT_SOCKET,
			    .wait_seconds = DEFAULT_WAIT};
	struct rdctl_arguments args = {0};
	int code = parse_rdctl_options(argc, argv, &ctl, &args);

	if (code >= 0)
		return code;
	args.count = argc - optind;
	args.values = argv + optind;
	code = run_verb(&ctl, &args);
	if (fflush(stdout) || ferror(stdout)) {
		perror("rdctl: standard output");
		return RDCTL_REFUSED;
	}
	return code;
}
