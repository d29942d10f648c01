/* SPDX-License-Identifier: BSD-3-Clause */
/* rdinit: an NVMe over Fabrics initiator on the command line. */
#include <signal.h>
#include <string.h>

#include "cli.h"
#include "util/stdfds.h"

static const struct cli_verb verbs[] = {
	{"discover", "Print the discovery log of a target", 0, true, cli_discover},
	{"id-ctrl", "Print the Identify Controller data", 0, false, cli_id_ctrl},
	{"id-ns", "Print the Identify Namespace data", CLI_TAKES_NSID, false, cli_id_ns},
	{"list-ns", "Print the ids of the active namespaces", 0, false, cli_list_ns},
	{"read", "Copy from a namespace to a file or standard output",
	 CLI_TAKES_NSID | CLI_TAKES_TRANSFER, false, cli_read},
	{"write", "Copy a file or standard input to a namespace",
	 CLI_TAKES_NSID | CLI_TAKES_TRANSFER | CLI_TAKES_WRITE, false, cli_write},
	{"flush", "Commit what was written to non-volatile media", CLI_TAKES_NSID, false,
	 cli_flush},
	{"admin-passthru", "Send any admin command", CLI_TAKES_NSID | CLI_TAKES_PASSTHRU, false,
	 cli_admin_passthru},
	{"io-passthru", "Send any I/O command", CLI_TAKES_NSID | CLI_TAKES_PASSTHRU, false,
	 cli_io_passthru},
	{"bench", "Load a namespace with I/O and measure", CLI_TAKES_NSID | CLI_TAKES_BENCH, false,
	 cli_bench},
};

#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

static void help(FILE *out)
{
	size_t i;

	fprintf(out, "Usage: rdinit VERB [URI] [OPTION...]\n"
		     "NVMe over Fabrics (RDMA) initiator; needs no RDMA device.\n\n"
		     "  URI  nvme+rdma://HOST[:PORT]/SUBNQN[/NSID]\n\nVerbs:\n");
	for (i = 0; i < N_VERBS; i++)
		fprintf(out, "  %-14s %s\n", verbs[i].name, verbs[i].summary);
	fprintf(out, "\n  --help     This text; after a verb, its options\n"
		     "  --version  The version of librdinit\n\n"
		     "Exit status: 0 success, 1 failure, 2 wrong usage.\n");
}

static int unknown_verb(const char *word)
{
	struct cli_nearest near = {.word = word};
	size_t i;

	for (i = 0; i < N_VERBS; i++)
		cli_nearest(&near, verbs[i].name);
	if (near.found)
		return cli_usage_error("\"%s\" is not a verb; did you mean \"%s\"? (rdinit --help "
				       "lists them)",
				       word, near.found);
	return cli_usage_error("\"%s\" is not a verb; rdinit --help lists them", word);
}

int main(int argc, char **argv)
{
	struct cli_options opts;
	int status;
	size_t i;

	if (rd_stdfds_open())
		return CLI_FAILED; /* and nowhere to say so */
	signal(SIGPIPE, SIG_IGN);  /* a closed output is an error message, not a silent end */
	if (argc < 2) {
		help(stderr);
		return CLI_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    strcmp(argv[1], "help") == 0) {
		help(stdout);
		return cli_finish_output();
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
		printf("rdinit %s\n", rdinit_version());
		return cli_finish_output();
	}
	for (i = 0; i < N_VERBS; i++) {
		if (strcmp(argv[1], verbs[i].name) != 0)
			continue;
		if (!cli_options_parse(&verbs[i], argc - 1, argv + 1, &opts, &status))
			return status;
		return verbs[i].run(&opts);
	}
	return unknown_verb(argv[1]);
}
