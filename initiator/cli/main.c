/* SPDX-License-Identifier: BSD-3-Clause */
/* rdinit: an NVMe over Fabrics initiator on the command line. */
#include <signal.h>
#include <string.h>

#include "command.h"
#include "util/stdfds.h"

int main(int argc, char **argv)
{
	struct cli_options opts;
	const struct cli_verb *verb;
	int status, words = 1; /* of the verb */

	if (rd_stdfds_open())
		return CLI_FAILED; /* standard error could not be opened either */
	/* So that a closed output, and one beyond "ulimit -f", is reported as an error. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	if (argc < 2) {
		cli_help_all(stderr);
		return CLI_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    strcmp(argv[1], "help") == 0) {
		cli_help_all(stdout);
		return cli_finish_output();
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
		printf("rdinit %s\n", rdinit_version());
		return cli_finish_output();
	}
	if (strcmp(argv[1], "--generate") == 0)
		return cli_generate(argc - 2, argv + 2);
	verb = cli_verb_find(argv[1]);
	if (!verb && argc > 2) {
		verb = cli_verb_find3(argv[1], argv[2]);
		words = 2;
	}
	if (!verb)
		return cli_unknown_verb(argv[1]);
	if (!cli_options_parse(verb, argc - words, argv + words, &opts, &status))
		return status;
	if (verb->with_ctrl)
		return cli_with_ctrl(&opts, verb->with_ctrl);
	return verb->with_ns ? cli_with_ns(&opts, verb->with_ns) : verb->run(&opts);
}
