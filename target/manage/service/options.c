/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/parse.h"
#include "target/config/config_json.h"

static const char usage_text[] =
	"Usage: rdtarget [OPTION]... CONFIG\n"
	"Export files and block devices as NVMe namespaces over RDMA and TCP (NVMe-oF).\n"
	"\n"
	"  -c, --config FILE       the configuration (YAML); the same as CONFIG\n"
	"      --check[=full]      validate the configuration and exit; full: also that this\n"
	"                          machine has its files, devices, groups, addresses and memory\n"
	"      --directory DIR     base of relative paths in the configuration; default: the\n"
	"                          current directory\n"
	"      --migrate           write defaults of earlier versions (allow_any_host: true)\n"
	"                          into the configuration, and exit\n"
	"      --log SPEC          log levels: LEVEL, COMPONENT=LEVEL, or several with commas\n"
	"      --log-format FORMAT text, json, or auto (default): text, or for the systemd "
	"journal\n"
	"                          lines with priorities\n"
	"      --user NAME[:GROUP] as root: become this user before anything is opened\n"
	"      --take-over SOCKET  take over connections and storage from the target with this\n"
	"                          control socket, which then exits; with --check: only test\n"
	"                          whether that is possible\n"
	"      --force             with --take-over: storage that does not answer refuses "
	"nothing;\n"
	"                          it is served when its I/O there has ended\n"
	"      --no-hand-over      never hand over, and take nothing from the service manager's\n"
	"                          store: a restart ends all connections\n"
	"      --exit-with-parent  exit when the parent process exits\n"
	"      --schema            print the JSON schema of the configuration, for editors, and "
	"exit\n"
	"      --ready-fd N        write \"ADDRESS PORT\" of each listener to descriptor N when\n"
	"                          ready, then close it\n"
	"  -h, --help              show this help and exit\n"
	"  -V, --version           show the version and exit\n"
	"\n"
	"SIGTERM and SIGINT drain: I/O in flight is completed first. A second signal does not "
	"wait\n"
	"for it. SIGHUP reloads CONFIG and applies the changes. SIGUSR1 logs the status. The\n"
	"service manager is notified: systemd's Type=notify and WatchdogSec= are supported.\n";

static int print_usage(FILE *out)
{
	fputs(usage_text, out);
	fprintf(out, "\nLog levels: %s\nLog components: %s\n", rd_log_level_names(),
		rd_log_comp_names());
	return out == stdout ? EXIT_SUCCESS : RDT_EXIT_USAGE;
}

static int print_schema(void)
{
	char *text = rdt_config_schema();
	int code = text && puts(text) >= 0 ? EXIT_SUCCESS : EXIT_FAILURE;

	free(text);
	return code;
}

int rdt_usage_error(const char *what, const char *value)
{
	fprintf(stderr, "rdtarget: %s%s%s\nTry 'rdtarget --help'.\n", what, value ? ": " : "",
		value ? value : "");
	return RDT_EXIT_USAGE;
}

static int parse_check(const char *what, struct rdt_options *opt)
{
	opt->check = true;
	opt->check_machine = what != NULL;
	if (what && strcmp(what, "full") != 0)
		return rdt_usage_error("--check: expected no value, or full; found", what);
	return 0;
}

static int parse_ready_fd(const char *text, struct rdt_options *opt)
{
	uint64_t fd;
	int flags;

	if (rd_parse_u64(text, 3, 65535, &fd))
		return rdt_usage_error("--ready-fd: expected a descriptor from 3 on; found", text);
	opt->ready_fd = (int)fd;
	flags = fcntl(opt->ready_fd, F_GETFL);
	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
		return rdt_usage_error(
			"--ready-fd: expected a descriptor that is open for writing (such as "
			"3>FILE opens); found",
			text);
	return 0;
}

enum {
	OPT_CHECK = 256,
	OPT_MIGRATE,
	OPT_DIRECTORY,
	OPT_LOG,
	OPT_LOG_FORMAT,
	OPT_USER,
	OPT_PARENT,
	OPT_READY_FD,
	OPT_SCHEMA,
	OPT_TAKE_OVER,
	OPT_FORCE,
	OPT_NO_HAND_OVER,
};
static const struct option longopts[] = {
	{"config", required_argument, NULL, 'c'},
	{"check", optional_argument, NULL, OPT_CHECK},
	{"migrate", no_argument, NULL, OPT_MIGRATE},
	{"directory", required_argument, NULL, OPT_DIRECTORY},
	{"log", required_argument, NULL, OPT_LOG},
	{"log-format", required_argument, NULL, OPT_LOG_FORMAT},
	{"user", required_argument, NULL, OPT_USER},
	{"exit-with-parent", no_argument, NULL, OPT_PARENT},
	{"ready-fd", required_argument, NULL, OPT_READY_FD},
	{"schema", no_argument, NULL, OPT_SCHEMA},
	{"take-over", required_argument, NULL, OPT_TAKE_OVER},
	{"force", no_argument, NULL, OPT_FORCE},
	{"no-hand-over", no_argument, NULL, OPT_NO_HAND_OVER},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{0},
};

/* Returns -1, or the exit code. */
static int check_together(const struct rdt_options *opt)
{
	if (opt->take_over && (opt->migrate || opt->check_machine))
		return rdt_usage_error(
			"--take-over cannot be combined with --migrate or --check=full", NULL);
	if (opt->force && !opt->take_over)
		return rdt_usage_error("--force goes only with --take-over", NULL);
	if (opt->take_over && opt->no_hand_over)
		return rdt_usage_error("--take-over cannot be combined with --no-hand-over", NULL);
	return opt->config ? -1 : rdt_usage_error("no configuration given", NULL);
}

static int take_config_name(int argc, char **argv, struct rdt_options *opt)
{
	if (optind < argc && !opt->config)
		opt->config = argv[optind++];
	if (optind < argc)
		return rdt_usage_error("expected one configuration; also found", argv[optind]);
	return check_together(opt);
}

int rdt_options_parse(int argc, char **argv, struct rdt_options *opt)
{
	int c;

	opt->ready_fd = -1;
	while ((c = getopt_long(argc, argv, "c:hV", longopts, NULL)) != -1) {
		switch (c) {
		case 'c':
			opt->config = optarg;
			break;
		case OPT_CHECK:
			if (parse_check(optarg, opt))
				return RDT_EXIT_USAGE;
			break;
		case OPT_MIGRATE:
			opt->migrate = true;
			break;
		case OPT_DIRECTORY:
			opt->directory = optarg;
			break;
		case OPT_LOG:
			opt->log = optarg;
			break;
		case OPT_LOG_FORMAT:
			opt->log_format = optarg;
			break;
		case OPT_USER:
			opt->user = optarg;
			break;
		case OPT_PARENT:
			opt->exit_with_parent = true;
			break;
		case OPT_READY_FD:
			if (parse_ready_fd(optarg, opt))
				return RDT_EXIT_USAGE;
			break;
		case OPT_SCHEMA:
			return print_schema();
		case OPT_FORCE:
			opt->force = true;
			break;
		case OPT_TAKE_OVER:
			opt->take_over = optarg;
			break;
		case OPT_NO_HAND_OVER:
			opt->no_hand_over = true;
			break;
		case 'h':
			return print_usage(stdout);
		case 'V':
			puts("rdtarget " RDT_VERSION);
			return EXIT_SUCCESS;
		default:
			fputs("Try 'rdtarget --help'.\n", stderr);
			return RDT_EXIT_USAGE;
		}
	}
	return take_config_name(argc, argv, opt);
}
