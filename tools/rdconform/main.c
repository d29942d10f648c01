/* SPDX-License-Identifier: BSD-3-Clause */
/* rdconform: options, the list of tests, exit status. */
#include "rdconform.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "util/parse.h"
#include "util/stdfds.h"
#include "util/utf8.h"

enum {
	EXIT_GOOD = 0,
	EXIT_BAD = 1, /* a test failed, or the target cannot be reached */
	EXIT_WRONG = 2,
};

enum {
	OPT_DATALOSS = 256,
	OPT_ABUSE,
	OPT_JUNIT,
	OPT_HOST2_NQN,
	OPT_HOST2_ID,
	OPT_PROVIDER,
	OPT_TIMEOUT,
	OPT_VERSION,
	OPT_EXCEPT,
	OPT_SECRET,
	OPT_CTRL_SECRET,
};

#define DEFAULT_HOST1 "5d6a8c1e-3a0f-4f57-9d0a-7c1be1a40001"
#define DEFAULT_HOST2 "5d6a8c1e-3a0f-4f57-9d0a-7c1be1a40002"
#define UUID_NQN      "nqn.2014-08.org.nvmexpress:uuid:"
#define DEFAULT_MS    10000

static void print_rdconform_usage(FILE *out)
{
	fputs("Usage: rdconform URI [OPTION...]\n"
	      "Check an NVMe/RDMA or NVMe/TCP target against the NVMe specifications.\n\n"
	      "  URI  nvme+rdma://HOST[:PORT]/SUBNQN[/NSID] or nvme+tcp://...; without NSID: the\n"
	      "       first namespace\n\n"
	      "  -t, --test=FAMILY[.SUITE[.TEST]]  only these; * and ? work; may be repeated\n"
	      "      --except=FAMILY[.SUITE[.TEST]] not these; may be repeated\n"
	      "  -l, --list                        print the tests, run none; with a URI those "
	      "for\n"
	      "                                    its transport\n"
	      "      --dataloss                    run the tests that write to the namespace, too\n"
	      "      --abuse                       run the family abuse, too: it can take the\n"
	      "                                    target's machine down; -t abuse says so as "
	      "well\n"
	      "      --junit=FILE                  write the results as JUnit's XML\n"
	      "  -q, --hostnqn=NQN                 host NQN of the first host\n"
	      "  -I, --hostid=UUID                 its host identifier\n"
	      "      --host2-nqn=NQN               those of the second host\n"
	      "      --host2-id=UUID\n"
	      "        (default: " UUID_NQN DEFAULT_HOST1 ",\n"
	      "         " UUID_NQN DEFAULT_HOST2 ")\n"
	      "      --dhchap-secret-file=FILE     the DH-HMAC-CHAP secret of both hosts\n"
	      "      --dhchap-ctrl-secret-file=FILE that of the controller, for one test\n"
	      "      --provider=NAME               RDMA: auto, iwarp or verbs\n"
	      "      --timeout=MS                  for each command, or with a unit (default 10s)\n"
	      "  -v, --verbose                     trace the library\n"
	      "      --version\n"
	      "  -h, --help\n\n"
	      "Exit status: 0 nothing failed, 1 something did, 2 wrong usage.\n",
	      out);
}

static int wrong(const char *what, const char *value)
{
	fprintf(stderr, "rdconform: %s%s; try rdconform --help\n", what, value);
	return EXIT_WRONG;
}

static bool take_timeout(struct rdc_config *cfg, const char *text)
{
	uint64_t v;

	if (rd_parse_u64(text, 100, 3600000, &v) == 0) {
		cfg->timeout_ms = (unsigned int)v;
		return true;
	}
	if (rd_parse_duration(text, &v) || v / 1000000 < 100 || v / 1000000 > 3600000)
		return false;
	cfg->timeout_ms = (unsigned int)(v / 1000000);
	return true;
}

/* Whether the pattern selects this family by its name, not by a wildcard. */
static bool names_family(const char *pattern, const char *family)
{
	size_t len = strlen(family);

	return strncmp(pattern, family, len) == 0 && (pattern[len] == '.' || !pattern[len]);
}

/* Options for the identities of the hosts. */
static bool take_identity(struct rdc_config *cfg, int c)
{
	switch (c) {
	case 'q':
		cfg->hostnqn[0] = optarg;
		return true;
	case 'I':
		cfg->hostid[0] = optarg;
		return true;
	case OPT_SECRET:
		cfg->secret_file = optarg;
		return true;
	case OPT_CTRL_SECRET:
		cfg->ctrl_secret_file = optarg;
		return true;
	case OPT_HOST2_NQN:
		cfg->hostnqn[1] = optarg;
		return true;
	case OPT_HOST2_ID:
		cfg->hostid[1] = optarg;
		return true;
	default:
		return false;
	}
}

/* Returns EXIT_GOOD to continue, else the exit status; sets *@stop when the program is done. */
static int take_option(struct rdc_config *cfg, int c, bool *stop)
{
	switch (c) {
	case 't':
		cfg->select[cfg->n_select++] = optarg;
		cfg->abuse |= names_family(optarg, RDC_ABUSE);
		return EXIT_GOOD;
	case OPT_EXCEPT:
		cfg->except[cfg->n_except++] = optarg;
		return EXIT_GOOD;
	case 'l':
		cfg->list = true;
		return EXIT_GOOD;
	case OPT_DATALOSS:
		cfg->dataloss = true;
		return EXIT_GOOD;
	case OPT_ABUSE:
		cfg->abuse = true;
		return EXIT_GOOD;
	case OPT_JUNIT:
		cfg->junit = optarg;
		return EXIT_GOOD;
	case OPT_PROVIDER:
		cfg->provider = optarg;
		return EXIT_GOOD;
	case OPT_TIMEOUT:
		return take_timeout(cfg, optarg)
			       ? EXIT_GOOD
			       : wrong("--timeout is not from 100 ms to 1 h: ", optarg);
	case 'v':
		cfg->verbose = true;
		return EXIT_GOOD;
	case OPT_VERSION:
		printf("rdconform %s\n", rdinit_version());
		*stop = true;
		return EXIT_GOOD;
	case 'h':
		print_rdconform_usage(stdout);
		*stop = true;
		return EXIT_GOOD;
	default:
		return take_identity(cfg, c) ? EXIT_GOOD : EXIT_WRONG;
	}
}

static int parse_arguments(struct rdc_config *cfg, int argc, char **argv, bool *stop)
{
	static const struct option longs[] = {
		{"test", required_argument, NULL, 't'},
		{"except", required_argument, NULL, OPT_EXCEPT},
		{"list", no_argument, NULL, 'l'},
		{"dataloss", no_argument, NULL, OPT_DATALOSS},
		{"abuse", no_argument, NULL, OPT_ABUSE},
		{"junit", required_argument, NULL, OPT_JUNIT},
		{"hostnqn", required_argument, NULL, 'q'},
		{"hostid", required_argument, NULL, 'I'},
		{"host2-nqn", required_argument, NULL, OPT_HOST2_NQN},
		{"host2-id", required_argument, NULL, OPT_HOST2_ID},
		{"dhchap-secret-file", required_argument, NULL, OPT_SECRET},
		{"dhchap-ctrl-secret-file", required_argument, NULL, OPT_CTRL_SECRET},
		{"provider", required_argument, NULL, OPT_PROVIDER},
		{"timeout", required_argument, NULL, OPT_TIMEOUT},
		{"verbose", no_argument, NULL, 'v'},
		{"version", no_argument, NULL, OPT_VERSION},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int c, rc;

	while ((c = getopt_long(argc, argv, "t:lq:I:vh", longs, NULL)) != -1) {
		rc = take_option(cfg, c, stop);
		if (rc || *stop)
			return rc;
	}
	if (cfg->list && optind == argc)
		return EXIT_GOOD;
	if (argc - optind != 1)
		return wrong(argc == optind ? "no target: give a URI" : "one URI only, not ",
			     argc == optind ? "" : argv[optind + 1]);
	rdinit_uri_init(&cfg->uri);
	if (rdinit_uri_parse(argv[optind], &cfg->uri))
		return wrong(rdinit_get_error(), "");
	if (!cfg->uri.subnqn[0])
		return wrong("the URI names no subsystem: ", argv[optind]);
	return EXIT_GOOD;
}

/* Checks that each pattern matches a test; with a target, one for its transport. */
static bool check_patterns(const struct rdinit_uri *uri, const char **patterns, unsigned int n)
{
	struct rdc_config one = {.n_select = 1, .uri = *uri};
	const struct rdc_suite *suite;
	const struct rdc_test *test;
	unsigned int i;

	for (i = 0; i < n; i++) {
		bool found = false;

		one.select = &patterns[i];
		for (suite = rdc_suites; suite->name; suite++) {
			for (test = suite->tests; test->name; test++)
				found |= rdc_selected(&one, suite, test);
		}
		if (!found) {
			fprintf(stderr,
				"rdconform: there is no test \"%s\"%s; rdconform --list shows "
				"all\n",
				patterns[i],
				!uri->traddr[0] ? ""
				: uri->tcp      ? " for NVMe/TCP"
						: " for NVMe/RDMA");
			return false;
		}
	}
	return true;
}

static void list(const struct rdc_config *cfg)
{
	const struct rdc_suite *suite;
	const struct rdc_test *test;

	for (suite = rdc_suites; suite->name; suite++) {
		for (test = suite->tests; test->name; test++) {
			if (rdc_selected(cfg, suite, test))
				rdc_report_list(suite, test);
		}
	}
}

/* Reads the first line of the file; returns false after printing the error. */
static bool take_key(const char *option, const char *file, struct nvmf_auth_key *key)
{
	char text[2 * NVMF_AUTH_KEY_TEXT] = "";
	const char *why = NULL;
	FILE *f;

	if (!file)
		return true;
	if (strncmp(file, "DHHC-1:", 7) == 0) {
		fprintf(stderr,
			"rdconform: %s: this is a secret, and the name of a file that contains it "
			"is expected: every user of the machine can read command lines\n",
			option);
		return false;
	}
	f = fopen(file, "re");
	if (!f) {
		fprintf(stderr, "rdconform: %s: cannot open \"%s\": %s\n", option, file,
			strerror(errno));
		return false;
	}
	errno = 0;
	if (!fgets(text, sizeof(text), f))
		text[0] = '\0';
	if (ferror(f))
		why = strerror(errno);
	fclose(f);
	text[strcspn(text, "\r\n")] = '\0';
	if (why) {
		fprintf(stderr, "rdconform: %s: cannot read \"%s\": %s\n", option, file, why);
		return false;
	}
	why = nvmf_auth_key_parse(text, key);
	explicit_bzero(text, sizeof(text));
	if (why)
		fprintf(stderr, "rdconform: %s: \"%s\": the secret %s\n", option, file, why);
	return !why;
}

static bool take_keys(struct rdc_config *cfg)
{
	if (cfg->ctrl_secret_file && !cfg->secret_file) {
		fputs("rdconform: --dhchap-ctrl-secret-file needs --dhchap-secret-file: a "
		      "controller authenticates itself only to a host that does so too\n",
		      stderr);
		return false;
	}
	return take_key("--dhchap-secret-file", cfg->secret_file, &cfg->key) &&
	       take_key("--dhchap-ctrl-secret-file", cfg->ctrl_secret_file, &cfg->ctrl_key);
}

static int run_tests(struct rdc_config *cfg)
{
	struct rdc t = {.cfg = cfg};
	char why[512];
	int rc;

	if (!take_keys(cfg))
		return EXIT_WRONG;
	/* Checked once here, instead of failing hundreds of tests. */
	if (rdc_probe(&t, why, sizeof(why))) {
		rd_mask_control(why, strlen(why));
		fprintf(stderr, "rdconform: %s\n", why);
		return EXIT_BAD;
	}
	rc = rdc_run(&t);
	if (rc) {
		fprintf(stderr, "rdconform: %s\n", strerror(-rc));
		return EXIT_BAD;
	}
	rdc_report_summary(&t.report);
	if (cfg->junit) {
		rc = rdc_report_junit(&t.report, cfg->junit);
		if (rc)
			fprintf(stderr, "rdconform: %s: %s\n", cfg->junit, strerror(-rc));
	}
	if (t.report.count[RDC_FAILED])
		rc = 1;
	rdc_report_free(&t.report);
	return rc ? EXIT_BAD : EXIT_GOOD;
}

int main(int argc, char **argv)
{
	struct rdc_config cfg = {
		.hostnqn = {UUID_NQN DEFAULT_HOST1, UUID_NQN DEFAULT_HOST2},
		.hostid = {DEFAULT_HOST1, DEFAULT_HOST2},
		.timeout_ms = DEFAULT_MS,
	};
	const struct rdinit_uri any = {.traddr = ""}; /* --except may name tests of both */
	bool stop = false;
	int rc;

	if (rd_stdfds_open())
		return EXIT_BAD; /* standard error could not be opened either */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	/* The number of arguments bounds the number of patterns. */
	cfg.select = calloc(2 * (size_t)argc, sizeof(*cfg.select));
	if (!cfg.select)
		return EXIT_BAD;
	cfg.except = cfg.select + argc;
	rc = parse_arguments(&cfg, argc, argv, &stop);
	if (!rc && !stop &&
	    (!check_patterns(&cfg.uri, cfg.select, cfg.n_select) ||
	     !check_patterns(&any, cfg.except, cfg.n_except)))
		rc = EXIT_WRONG;
	if (!rc && !stop) {
		if (cfg.list)
			list(&cfg);
		else
			rc = run_tests(&cfg);
	}
	free(cfg.select);
	return rc;
}
