/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses options by the table of verbs, and checks that they are consistent. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "table.h"
#include "util/parse.h"

/* ---- values ---- */

static bool get_u64(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	int rc = rd_parse_u64(text, min, max, out);

	if (rc == -ERANGE)
		cli_error("--%s: found %s, expected %llu to %llu", name, text,
			  (unsigned long long)min, (unsigned long long)max);
	else if (rc)
		cli_error("--%s: \"%s\" is not a number, decimal or 0x...", name, text);
	return rc == 0;
}

static bool get_size(const char *name, const char *text, uint64_t *out)
{
	int rc = rd_parse_size(text, out);

	if (rc)
		cli_error("--%s: \"%s\" is not a size (4096, 4k, 1.5GiB)", name, text);
	return rc == 0;
}

static bool get_buffer(const char *name, const char *text, uint32_t *out)
{
	uint64_t v;

	if (!get_size(name, text, &v))
		return false;
	if (v > 1u << 30) {
		cli_error("--%s: \"%s\" is more than 1GiB", name, text);
		return false;
	}
	*out = (uint32_t)v;
	return true;
}

/* A number of milliseconds, as in nvme-cli, or a duration with a unit. */
static bool get_ms(const char *name, const char *text, uint32_t *out)
{
	uint64_t v;

	if (rd_parse_u64(text, 1, UINT32_MAX, &v) == 0) {
		*out = (uint32_t)v;
		return true;
	}
	if (rd_parse_duration(text, &v) == 0 && v >= 1000000 && v / 1000000 <= UINT32_MAX) {
		*out = (uint32_t)(v / 1000000);
		return true;
	}
	cli_error("--%s: \"%s\" is not a time of at least 1 ms (500, 500ms, 5s)", name, text);
	return false;
}

/* The index of @text among the words of the option. */
static bool get_word(const struct cli_opt *def, const char *text, uint64_t *index)
{
	const char *at = def->words, *sep = "";
	char all[128] = "";
	size_t len, n = 0;

	for (*index = 0;; ++*index) {
		len = strcspn(at, ",");
		if (strlen(text) == len && memcmp(text, at, len) == 0)
			return true;
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%.*s", sep, (int)len, at);
		if (!at[len])
			break;
		at += len + 1;
		sep = strchr(at, ',') ? ", " : " or ";
	}
	cli_error("--%s: found \"%s\", expected %s", def->name, text, all);
	return false;
}

/* ---- parsing ---- */

/* Options of bench with a rule, which take a value each. */
static bool take_bench(struct cli_bench_options *b, const struct cli_opt *def, const char *arg)
{
	uint64_t mode;

	switch ((enum cli_rule)def->id) {
	case OPT_RW:
		if (!get_word(def, arg, &mode))
			return false;
		cli_bench_rw(b, (unsigned int)mode);
		return true;
	case OPT_CPUS:
		return cli_bench_cpus(b, arg);
	case OPT_POLL:
		return cli_bench_poll(b, arg);
	case OPT_RUN_TIME:
		b->has_run = true;
		return cli_bench_time(def->name, arg, &b->run_ns);
	case OPT_RAMP_TIME:
		return cli_bench_time(def->name, arg, &b->ramp_ns);
	default:
		return false;
	}
}

static bool take_offer(struct cli_options *o, const struct cli_opt *def, const char *hashes,
		       const char *groups)
{
	return rdinit_auth_opts_offer(&o->auth, hashes, groups) == 0 ||
	       (cli_error("--%s: %s", def->name, cli_lib_text()), false);
}

/* Options with a rule. */
static bool take_other(struct cli_options *o, const struct cli_opt *def, const char *arg)
{
	uint64_t v = 0;
	bool ok;

	switch ((enum cli_rule)def->id) {
	case OPT_TRANSPORT:
		ok = get_word(def, arg, &v);
		o->has_transport = true;
		o->ctrl.tcp = v;
		return ok;
	case OPT_KATO:
		ok = get_u64(def->name, arg, 0, 4000000, &v);
		o->ctrl.keep_alive_tmo_ms = (uint32_t)v * 1000;
		return ok;
	case OPT_MPA_REVISION:
		ok = get_u64(def->name, arg, 1, 2, &v);
		o->ctrl.mpa_revision = (uint8_t)v;
		return ok;
	case OPT_TIMEOUT:
		ok = get_ms(def->name, arg, &o->ctrl.admin_timeout_ms);
		o->qpair.io_timeout_ms = o->ctrl.admin_timeout_ms;
		return ok;
	case OPT_NSID:
		ok = get_u64(def->name, arg, !o->any_nsid, UINT32_MAX - !o->any_nsid, &v);
		o->nsid = (uint32_t)v;
		return ok;
	case OPT_FORMAT:
		ok = get_word(def, arg, &v);
		o->format = (enum cli_format)v;
		return ok;
	case OPT_VERBOSE:
		o->verbose++;
		return true;
	case OPT_HASHES:
		return take_offer(o, def, arg, NULL);
	case OPT_DHGROUPS:
		return take_offer(o, def, NULL, arg);
	default:
		return take_bench(&o->bench, def, arg);
	}
}

/* Stores the value of an option that the verb evaluates. */
static bool take_arg(struct cli_options *o, const struct cli_opt *def, const char *arg)
{
	struct cli_value *v = &o->arg[def->id];

	v->given = true;
	v->text = arg;
	if (def->kind == CLI_NUM)
		return get_u64(def->name, arg, def->min, def->max, &v->n);
	if (def->kind == CLI_SIZE)
		return get_size(def->name, arg, &v->n);
	if (def->words)
		return get_word(def, arg, &v->n);
	v->n++; /* a flag */
	return true;
}

static bool take(struct cli_options *o, const struct cli_opt *def, const char *arg)
{
	void *to = (char *)o + def->id;
	uint64_t v;

	switch (def->kind) {
	case CLI_FLAG:
	case CLI_TEXT:
	case CLI_NUM:
	case CLI_SIZE:
		return take_arg(o, def, arg);
	case CLI_OTHER:
		return take_other(o, def, arg);
	case CLI_BOOL:
		return *(bool *)to = true;
	case CLI_STR:
		*(const char **)to = arg;
		return def->words ? get_word(def, arg, &v)
				  : !def->check || def->check(def->name, arg);
	case CLI_BYTES:
		return get_size(def->name, arg, to);
	case CLI_BUFFER:
		return get_buffer(def->name, arg, to);
	case CLI_MS:
		return get_ms(def->name, arg, to);
	case CLI_U16:
	case CLI_U32:
	case CLI_U64:
		break;
	}
	if (!get_u64(def->name, arg, def->min, def->max, &v))
		return false;
	if (def->kind == CLI_U16)
		*(uint16_t *)to = (uint16_t)v;
	else if (def->kind == CLI_U32)
		*(uint32_t *)to = (uint32_t)v;
	else
		*(uint64_t *)to = v;
	return true;
}

static bool take_uri(const struct cli_verb *verb, struct cli_options *o, int n, char *const *args)
{
	if (n > 1 && (verb->flags & CLI_V_TRANSFER) && !o->arg[CLI_ARG_DATA].given)
		return cli_error("unexpected argument \"%s\"; to name a file, use --data=%s",
				 args[1], args[1]),
		       false;
	if (n > 1)
		return cli_error("unexpected argument \"%s\"; options begin with --", args[1]),
		       false;
	if (n == 0)
		return true;
	if (!cli_check_uri(args[0]))
		return false;
	rdinit_uri_init(&o->uri);
	if (rdinit_uri_parse(args[0], &o->uri))
		return cli_lib_error(), false;
	if (o->ctrl.traddr || o->ctrl.trsvcid)
		return cli_error("--traddr and --trsvcid cannot be combined with a URI; it has "
				 "both, %s://HOST:PORT/SUBNQN",
				 o->uri.tcp ? "nvme+tcp" : "nvme+rdma"),
		       false;
	if (o->has_transport && o->ctrl.tcp != o->uri.tcp)
		return cli_error("the transport is %s by --transport and %s in the URI: leave "
				 "--transport out",
				 o->ctrl.tcp ? "tcp" : "rdma", o->uri.tcp ? "tcp" : "rdma"),
		       false;
	if (o->ctrl.subnqn && o->uri.subnqn[0])
		return cli_error("the NQN is given both in the URI and by --nqn"), false;
	if (o->nsid && o->uri.nsid)
		return cli_error("the namespace is given both in the URI and by --namespace-id"),
		       false;
	o->ctrl.traddr = o->uri.traddr;
	o->ctrl.trsvcid = o->uri.no_port ? NULL : o->uri.trsvcid;
	if (o->uri.subnqn[0])
		o->ctrl.subnqn = o->uri.subnqn;
	if (o->uri.nsid)
		o->nsid = o->uri.nsid;
	o->ctrl.no_remote_invalidate |= o->uri.no_remote_invalidate;
	o->ctrl.tcp = o->uri.tcp;
	return true;
}

static bool check_passthru(const struct cli_options *o)
{
	bool read = o->arg[CLI_ARG_READ].given, write = o->arg[CLI_ARG_WRITE].given;

	if (!o->arg[CLI_ARG_OPCODE].given)
		return cli_error("--opcode is missing"), false;
	if (read && write)
		return cli_error("--read and --write are mutually exclusive"), false;
	if (o->arg[CLI_ARG_DATA_LEN].n && !read && !write)
		return cli_error("--data-len needs --read or --write"), false;
	if (!o->arg[CLI_ARG_DATA_LEN].n && (read || write))
		return cli_error("--read and --write need --data-len"), false;
	return true;
}

/*
 * -s is the port in every other verb and in nvme-cli. With a target given by options, -s was most
 * likely meant as the port; taking it as the start block would send the data to the wrong block of
 * the wrong target.
 */
static bool check_s(const struct cli_options *o)
{
	unsigned long long n = o->arg[CLI_ARG_START].n;

	if (!o->s_is_block || !o->ctrl.traddr || o->ctrl.traddr == o->uri.traddr || o->ctrl.trsvcid)
		return true;
	cli_error("-s is the first block in %s; with --traddr write --trsvcid=%llu if the port "
		  "is meant, or --start-block=%llu if the block is",
		  o->verb->name, n, n);
	return false;
}

/* Options that one transport has, in words of the command line. */
static bool check_transport(const struct cli_options *o)
{
	const struct rdinit_ctrl_opts *c = &o->ctrl;
	const char *name;

	if (!c->tcp) {
		name = c->hdr_digest ? "hdr-digest" : c->data_digest ? "data-digest" : NULL;
		return !name ||
		       (cli_error("--%s is for NVMe/TCP only, and this is NVMe/RDMA: connect by "
				  "nvme+tcp:// or -t tcp, or leave it out (iwarp has --crc)",
				  name),
			false);
	}
	name = c->provider && strcmp(c->provider, "auto") != 0 ? "provider"
	       : c->crc                                        ? "crc"
	       : c->no_peer_to_peer                            ? "no-p2p"
	       : c->mpa_revision == 1                          ? "mpa-revision"
	       : c->no_remote_invalidate                       ? "no-remote-invalidate"
							       : NULL;
	return !name || (cli_error("--%s is for NVMe/RDMA only, and this is NVMe/TCP: leave it "
				   "out, or connect by nvme+rdma://%s",
				   name, c->crc ? " (TCP has --hdr-digest and --data-digest)" : ""),
			 false);
}

/* The value of an environment variable. NULL: not set, or empty. */
static const char *environment(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/* $RDINIT_TLS_KEY_FILE alone changes nothing for connections without TLS. */
static bool check_tls(struct cli_options *o)
{
	o->want_tls |= o->tls.key_file != NULL;
	if (!o->want_tls)
		return true;
	if (!o->tls.key_file)
		o->tls.key_file = environment("RDINIT_TLS_KEY_FILE");
	if (!o->tls.key_file)
		return cli_error("--tls needs a key: give the name of its file by --tls-key-file "
				 "or $RDINIT_TLS_KEY_FILE (rdinit gen-tls-key makes one)"),
		       false;
	if (!o->ctrl.tcp)
		return cli_error("--tls is for NVMe/TCP only, and this is NVMe/RDMA: connect by "
				 "nvme+tcp:// or -t tcp"),
		       false;
	o->ctrl.tls = &o->tls;
	return true;
}

static bool check(const struct cli_verb *verb, struct cli_options *o)
{
	if (o->ctrl.traddr != o->uri.traddr && o->ctrl.traddr && !cli_check_traddr(o->ctrl.traddr))
		return false;
	if (!check_s(o) || !check_transport(o))
		return false;
	if (o->arg[CLI_ARG_ATTACHED].given)
		return !o->ctrl.traddr ||
		       (cli_error("--attached lists devices of this machine: leave the target out"),
			false);
	if ((verb->flags & CLI_V_PASSTHRU) && !check_passthru(o))
		return false;
	if (!o->ctrl.traddr)
		return cli_error("no target: give a URI, or --traddr and --nqn"), false;
	if (!o->ctrl.subnqn && verb->reach != CLI_DISCOVERY)
		return cli_error(
			       "no subsystem: give its NQN in the URI or by --nqn (rdinit discover "
			       "lists them)"),
		       false;
	if (o->arg[CLI_ARG_START].given && o->arg[CLI_ARG_OFFSET].given)
		return cli_error("--start-block and --offset are mutually exclusive"), false;
	if (o->auth.secret_file || o->auth.ctrl_secret_file)
		o->ctrl.auth = &o->auth;
	if (!check_tls(o))
		return false;
	if ((verb->flags & CLI_V_BENCH) && !cli_bench_check(o))
		return false;
	if (o->verbose >= 2)
		o->ctrl.log_spec = o->verbose > 2 ? "trace" : "debug";
	cli_warn_of_identity(&o->ctrl);
	return true;
}

/* The option that has the letter in other verbs, if nvme-cli's meaning in this verb replaced it. */
static const struct cli_opt *shadowed(const struct cli_opt_at *opts, size_t n,
				      const struct cli_opt *own)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (opts[i].own == own)
			return opts[i].opt;
	}
	return NULL;
}

/* Adds to an error message that the option with the same letter in other verbs may have been
 * meant. */
static void say_letter(const struct cli_opt *own, const struct cli_opt *other)
{
	if (own && other)
		cli_error(
			"-%c is --%s in this verb, as in nvme-cli; for --%s write the long option",
			own->letter, own->name, other->name);
}

static void bad_name(const struct cli_verb *verb, const char *arg, const struct cli_opt_at *opts,
		     size_t n_opts)
{
	struct cli_nearest near = {.found = NULL};
	char word[64], all[256] = "";
	size_t i, len, at = 0, n = 0;

	snprintf(word, sizeof(word), "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
	near.word = word;
	len = strlen(word);
	for (i = 0; i < n_opts; i++) {
		const char *name = opts[i].opt->name;

		cli_nearest(&near, name);
		if (strncmp(name, word, len) == 0 && at < sizeof(all)) {
			at += (size_t)snprintf(all + at, sizeof(all) - at, "%s--%s", n ? ", " : "",
					       name);
			n++;
		}
	}
	if (n > 1)
		cli_error("\"--%s\" is ambiguous: %s", word, all);
	else if (near.found)
		cli_error("\"--%s\" is not an option; did you mean --%s?", word, near.found);
	else if (strstr(word, "secret") || strstr(word, "dhchap") || strstr(word, "key"))
		cli_error("\"--%s\" is not an option of rdinit %s; secrets are never given on the "
			  "command line, where every user of the machine can read them, but by "
			  "files (--%s)",
			  word, verb->name,
			  verb->reach == CLI_NOWHERE ? "key-file" : "dhchap-secret-file");
	else
		cli_error("\"--%s\" is not an option; try rdinit %s --help", word, verb->name);
}

static const char *of_letter(const struct cli_opt_at *opts, size_t n, int letter)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (opts[i].opt->letter == letter)
			return opts[i].opt->name;
	}
	return "help";
}

/* Reports an error of getopt_long(3) in @arg, or in the letter in optopt. */
static void bad_option(const struct cli_verb *verb, int c, const char *arg,
		       const struct cli_opt_at *opts, size_t n)
{
	if (c == ':')
		cli_error("%s needs a value; try rdinit %s --help", arg, verb->name);
	else if (optopt >= 1000)
		cli_error("--%s takes no value", opts[optopt - 1000].opt->name);
	else if (optopt == 'N')
		cli_error("\"-N\" is not an option; the namespace is given by -n or "
			  "--namespace-id, as in nvme-cli, or in the URI");
	else if ((optopt == 'S' || optopt == 'C') && verb->reach != CLI_NOWHERE)
		cli_error("\"-%c\" is not an option; secrets are given by files: --dhchap%s-secret-"
			  "file=FILE",
			  optopt, optopt == 'C' ? "-ctrl" : "");
	else if (optopt && verb->gone && strchr(verb->gone, optopt))
		cli_error("\"-%c\" is not an option here, because it means something else in "
			  "nvme-cli's %s; write --%s",
			  optopt, verb->name, of_letter(opts, n, optopt));
	else if (optopt)
		cli_error("\"-%c\" is not an option; try rdinit %s --help", optopt, verb->name);
	else
		bad_name(verb, arg, opts, n);
}

static void defaults(const struct cli_verb *verb, struct cli_options *o)
{
	memset(o, 0, sizeof(*o));
	o->verb = verb;
	rdinit_ctrl_opts_init(&o->ctrl);
	rdinit_qpair_opts_init(&o->qpair);
	rdinit_auth_opts_init(&o->auth);
	rdinit_tls_opts_init(&o->tls);
	o->auth.secret_file = environment("RDINIT_DHCHAP_SECRET_FILE");
	o->auth.ctrl_secret_file = environment("RDINIT_DHCHAP_CTRL_SECRET_FILE");
	if (verb->flags & (CLI_V_TRANSFER | CLI_V_OPERANDS))
		o->ctrl.nr_io_queues = 2;
	if (verb->flags & CLI_V_BENCH)
		o->ctrl.nr_io_queues = 0; /* not given: one for each thread */
	cli_bench_defaults(&o->bench);
	o->any_nsid = verb->flags & CLI_V_ANY_NSID;
}

bool cli_options_uri(const struct cli_options *base, const char *uri, struct cli_options *out)
{
	char *const args[] = {(char *)uri};

	*out = *base;
	return take_uri(out->verb, out, 1, args) && check(out->verb, out);
}

static bool take_operands(const struct cli_verb *verb, struct cli_options *o, int n, char **args)
{
	if (verb->flags & CLI_V_OPERANDS) {
		o->operands = args;
		o->n_operands = n;
		return true;
	}
	if (verb->reach == CLI_NOWHERE)
		return n == 0 ||
		       (cli_error("unexpected argument \"%s\"; %s takes none", args[0], verb->name),
			false);
	return take_uri(verb, o, n, args) && check(verb, o);
}

bool cli_options_parse(const struct cli_verb *verb, int argc, char **argv, struct cli_options *o,
		       int *status)
{
	struct option longs[CLI_OPTS_MAX + 1] = {0};
	struct cli_opt_at opts[CLI_OPTS_MAX];
	char shorts[2 * CLI_OPTS_MAX + 2] = ":";
	size_t n = cli_verb_opts(verb, opts), i, s = 1;
	/* a flag given by a letter that is an option with a value elsewhere */
	const struct cli_opt *flag = NULL;
	int c;

	defaults(verb, o);
	for (i = 0; i < n; i++) {
		/* getopt_long(3) returns the index in opts, whatever the letter means in this
		 * verb. */
		longs[i] = (struct option){opts[i].opt->name,
					   opts[i].opt->value ? required_argument : no_argument,
					   NULL, (int)(1000 + i)};
		if (opts[i].letter) {
			shorts[s++] = opts[i].letter;
			if (opts[i].opt->value)
				shorts[s++] = ':';
		}
	}
	shorts[s] = '\0';
	*status = CLI_USAGE;
	opterr = 0;
	while ((c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		const struct cli_opt *def = c >= 1000 ? opts[c - 1000].opt : NULL;

		if (c == '?' || c == ':') {
			bad_option(verb, c, argv[optind - 1], opts, n);
			return false;
		}
		for (i = 0; !def && i < n; i++) {
			if (opts[i].letter == c)
				def = opts[i].opt;
		}
		if (def && def->kind == CLI_OTHER && def->id == OPT_HELP) {
			cli_help(verb);
			*status = cli_finish_output();
			return false;
		}
		o->s_is_block |=
			c == 's' && def && def->kind == CLI_NUM && def->id == CLI_ARG_START;
		if (!def || !take(o, def, optarg)) {
			if (c < 1000)
				say_letter(def, shadowed(opts, n, def));
			return false;
		}
		if (c < 1000 && !def->value && shadowed(opts, n, def))
			flag = def;
	}
	if (take_operands(verb, o, argc - optind, argv + optind))
		return true;
	if (flag)
		say_letter(flag, shadowed(opts, n, flag));
	return false;
}
