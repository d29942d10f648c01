/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of rdtarget. Called before threads are started. */
#ifndef RDT_OPTIONS_H
#define RDT_OPTIONS_H

#include <stdbool.h>

#define RDT_EXIT_USAGE 2
/* Exit code of an error in the configuration, so that a restart is useless: EX_CONFIG of
 * sysexits.h, which systemd knows too. */
#define RDT_EXIT_CONFIG 78

struct rdt_options {
	const char *config;
	const char *log;
	const char *log_format;
	const char *user;
	const char *directory;
	const char *take_over; /* control socket of the target to take over from, or NULL */
	int ready_fd;
	bool check;
	bool check_machine; /* also check what the configuration needs of the machine */
	bool migrate;
	bool exit_with_parent;
	bool force;
	bool no_hand_over; /* neither to another process nor from the store */
};

/* Returns -1 to continue, otherwise the exit code. */
int rdt_options_parse(int argc, char **argv, struct rdt_options *opt);
/* Prints the error @what, and @value unless it is NULL. Returns the exit code. */
int rdt_usage_error(const char *what, const char *value);

#endif /* RDT_OPTIONS_H */
