/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of rdtarget. Before there are threads. */
#ifndef RDT_OPTIONS_H
#define RDT_OPTIONS_H

#include <stdbool.h>

#define RDT_EXIT_USAGE 2
/* A mistake of the configuration, which another start does not mend: EX_CONFIG of sysexits.h, for
 * which systemd has a name too. */
#define RDT_EXIT_CONFIG 78

struct rdt_options {
	const char *config;
	const char *log;
	const char *log_format;
	const char *user;
	const char *directory;
	const char *take_over; /* the control socket of the target that hands over; or NULL */
	int ready_fd;
	bool check;
	bool check_machine; /* also check what the configuration needs of the machine */
	bool migrate;
	bool exit_with_parent;
};

/* Returns -1 to continue, otherwise the exit code. */
int rdt_options_parse(int argc, char **argv, struct rdt_options *opt);
/* Says what is wrong, and of @value when it is not NULL. Returns the exit code. */
int rdt_usage_error(const char *what, const char *value);

#endif /* RDT_OPTIONS_H */
