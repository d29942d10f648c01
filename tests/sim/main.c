/* SPDX-License-Identifier: BSD-3-Clause */
/* rdsim: runs worlds, one for each seed, and reports the invariants that they violate. See world.h.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/parse.h"

#include "faults.h"
#include "world.h"

struct options {
	struct world_opts world;
	uint64_t count;
};

static const char usage_text[] =
	"Usage: rdsim [OPTION]...\n"
	"Run a target, hosts and storage in simulated time, with faults that follow from a seed.\n"
	"\n"
	"  --seed N      the first seed (default 1)\n"
	"  --count N     so many seeds, one after the other (default 1)\n"
	"  --steps N     turns and jumps of time for each seed (default 100000)\n"
	"  --faults LIST only these, with commas, or none; or all, with those that are on request\n"
	"                only; or fence: what the stale-write fence must survive; or keys: keys "
	"of\n"
	"                hosts change, and minutes pass\n"
	"  --transport T rdma, tcp, both: a path of each, or iwarp: RDMA by bytes\n"
	"                (default: the seed chooses)\n"
	"  --trace       write what happens to standard output\n"
	"\n"
	"A violation ends the program. Exit status: 0 when no invariant was violated, 1 when one\n"
	"was, 2 for wrong usage. Faults:";

static int bad_usage(const char *option, const char *value, const char *expected)
{
	fprintf(stderr, "rdsim: --%s: found \"%s\", expected %s\n", option, value, expected);
	return 2;
}

static int parse_faults(char *list, unsigned int *out)
{
	const struct {
		const char *name; /* the last one is NULL */
		unsigned int faults;
	} profiles[] = {
		{"all", faults_named()}, {"fence", FAULTS_FENCE}, {"keys", FAULTS_KEYS}, {NULL, 0}};
	char *save = NULL;

	*out = 0;
	if (strcmp(list, "none") == 0)
		return 0;
	for (char *name = strtok_r(list, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
		unsigned int kind = 0, profile = 0;

		while (profiles[profile].name && strcmp(name, profiles[profile].name) != 0)
			profile++;
		*out |= profiles[profile].faults;
		if (profiles[profile].name)
			continue;
		while (fault_names[kind] && strcmp(name, fault_names[kind]) != 0)
			kind++;
		if (!fault_names[kind])
			return bad_usage("faults", name, "a fault that --help lists");
		*out |= 1u << kind;
	}
	return 0;
}

static int parse_transport(const char *text, enum world_transport *out)
{
	static const char *const names[] = {[WORLD_RDMA] = "rdma",
					    [WORLD_TCP] = "tcp",
					    [WORLD_BOTH] = "both",
					    [WORLD_IWARP] = "iwarp"};

	for (*out = WORLD_RDMA; *out <= WORLD_IWARP; (*out)++)
		if (strcmp(text, names[*out]) == 0)
			return 0;
	return bad_usage("transport", text, "rdma, tcp, both or iwarp");
}

static int parse_number(const char *name, const char *text, uint64_t *out)
{
	return rd_parse_u64(text, 1, UINT64_MAX / 2, out)
		       ? bad_usage(name, text, "a number from 1 on")
		       : 0;
}

/* Returns -1 to go on, otherwise the exit status. */
static int parse_options(int argc, char **argv, struct options *opt)
{
	static const struct option longopts[] = {
		{"seed", required_argument, NULL, 's'},
		{"count", required_argument, NULL, 'c'},
		{"steps", required_argument, NULL, 'n'},
		{"faults", required_argument, NULL, 'f'},
		{"transport", required_argument, NULL, 'T'},
		{"trace", no_argument, NULL, 't'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int c, rc = 0;

	while (!rc && (c = getopt_long(argc, argv, "h", longopts, NULL)) != -1) {
		switch (c) {
		case 's':
			rc = parse_number("seed", optarg, &opt->world.seed);
			break;
		case 'c':
			rc = parse_number("count", optarg, &opt->count);
			break;
		case 'n':
			rc = parse_number("steps", optarg, &opt->world.steps);
			break;
		case 'f':
			rc = parse_faults(optarg, &opt->world.faults);
			break;
		case 'T':
			rc = parse_transport(optarg, &opt->world.transport);
			break;
		case 't':
			opt->world.trace = true;
			break;
		case 'h':
			fputs(usage_text, stdout);
			for (unsigned int i = 0; fault_names[i]; i++)
				printf(" %s", fault_names[i]);
			putchar('\n');
			return 0;
		default:
			return 2;
		}
	}
	return rc ? rc : -1;
}

/* Returns whether nothing was violated. */
static bool run_seed(const struct world_opts *opts)
{
	static const char *const transports[] = {[WORLD_ANY] = "",
						 [WORLD_RDMA] = "",
						 [WORLD_TCP] = " (tcp)",
						 [WORLD_BOTH] = " (both)",
						 [WORLD_IWARP] = ""};
	struct world *w;
	bool good = !world_new(opts, &w) && world_run(w);

	if (!w) {
		fputs("rdsim: out of memory\n", stderr);
		return false;
	}
	printf("seed %" PRIu64 "%s%s%s%s%s: %s, %" PRIu64 " steps, %" PRIu64
	       " reads and writes, trace %016" PRIx64 "%s%s\n",
	       opts->seed, w->no_resend ? " (no resend)" : "",
	       w->opts.faults != opts->faults ? " (fence)" : "", transports[w->opts.transport],
	       w->digests ? " (digests)" : "", w->iwarp ? " (iwarp)" : "",
	       good ? "good" : "VIOLATED", w->step, w->check ? check_ops(w->check) : 0, w->hash,
	       good ? "" : ": ", w->failed);
	fflush(stdout);
	world_free(w);
	return good;
}

int main(int argc, char **argv)
{
	struct options opt = {.world = {.seed = 1, .steps = 100000, .faults = faults_all()},
			      .count = 1};
	int code = parse_options(argc, argv, &opt);
	bool good = true;

	if (code >= 0)
		return code;
	for (uint64_t i = 0; i < opt.count && good; i++) {
		good = run_seed(&opt.world);
		opt.world.seed++;
	}
	return good ? 0 : 1;
}
