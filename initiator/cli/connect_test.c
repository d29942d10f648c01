/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connect-test: performs and times every step up to the first read. The library does the first
 * steps in one call; its trace tells where one ends and the next begins.
 */
#include <stdlib.h>
#include <string.h>

#include "command.h"

enum step {
	STEP_RESOLVE,
	STEP_TRANSPORT,
	STEP_CONNECT,
	STEP_ENABLE,
	STEP_IDENTIFY,
	STEP_QUEUE,
	STEP_READ,
	STEPS,
};

static const struct {
	const char *name;
	const char *text;
	const char *begins; /* the trace line that begins the step */
} steps[STEPS] = {
	[STEP_RESOLVE] = {"resolve", "the address of the name", NULL},
	[STEP_TRANSPORT] = {"transport",
			    "the TCP connection, TLS, the MPA or ICReq handshake, or RDMA CM",
			    "admin queue: resolving -> connecting"},
	[STEP_CONNECT] = {"connect", "the Connect command of the admin queue",
			  "controller: transport -> connect"},
	[STEP_ENABLE] = {"enable", "the properties, and enabling the controller",
			 "controller: connect -> get-"},
	[STEP_IDENTIFY] = {"identify", "Identify Controller, and the features", " -> identify"},
	[STEP_QUEUE] = {"io-queue", "an I/O queue, with a connection of its own", NULL},
	[STEP_READ] = {"read", "the first block of the namespace", NULL},
};

struct test {
	unsigned int verbose;
	enum step at;
	uint64_t start[STEPS];
	uint64_t end[STEPS];
	const char *skipped; /* why the last steps were skipped */
	struct rdinit_tls_info tls;
	rdinit_log_fn warn; /* NULL: all of the trace is wanted */
};

static void begin_step(struct test *t, enum step step)
{
	uint64_t now = cli_now_ns();

	if (step > STEP_RESOLVE)
		t->end[step - 1] = now;
	t->at = step;
	t->start[step] = now;
}

static void on_line(void *user, int level, const char *line)
{
	struct test *t = user;
	int i;

	if (t->verbose > 1)
		fprintf(stderr, "librdinit: %d: %s\n", level, line);
	else if (t->warn)
		t->warn(NULL, level, line);
	for (i = t->at + 1; i <= STEP_IDENTIFY; i++) {
		if (strstr(line, steps[i].begins) && i == (int)t->at + 1)
			begin_step(t, (enum step)i);
	}
}

/* The namespace that the options name, else the first one. */
static int choose_ns(struct cli_session *s, const struct cli_options *o, uint32_t *nsid)
{
	uint32_t nsids[RDINIT_NS_LIST_MAX];
	unsigned int count;

	*nsid = o->nsid;
	if (*nsid)
		return CLI_OK;
	if (rdinit_list_ns(s->ctrl, 0, nsids, &count))
		return CLI_FAILED;
	*nsid = count ? nsids[0] : 0;
	return CLI_OK;
}

/* Returns CLI_OK, or CLI_FAILED with the reason in the library's last error. */
static int read_block(struct cli_session *s, const struct cli_options *o, struct test *t)
{
	unsigned char *buf;
	uint32_t nsid;
	int rc;

	if (choose_ns(s, o, &nsid))
		return CLI_FAILED;
	if (!nsid) {
		t->skipped = "the controller has no namespaces";
		return CLI_OK;
	}
	if (rdinit_ns_open(s->ctrl, nsid, &s->ns))
		return CLI_FAILED;
	buf = malloc(s->ns.block_size);
	rc = !buf || rdinit_read(s->qp[0], &s->ns, 0, 1, buf, 0) ? CLI_FAILED : CLI_OK;
	free(buf);
	return rc;
}

static int to_the_first_read(struct cli_session *s, const struct cli_options *o, struct test *t)
{
	if (rdinit_ctrl_connect(s->ctrl) || rdinit_ctrl_get_info(s->ctrl, &s->info) ||
	    rdinit_ctrl_get_tls(s->ctrl, &t->tls))
		return CLI_FAILED;
	t->end[t->at] = cli_now_ns();
	if (s->info.discovery) {
		t->skipped = "a discovery controller has no I/O queues";
		return CLI_OK;
	}
	begin_step(t, STEP_QUEUE);
	if (rdinit_qpair_create(s->ctrl, &o->qpair, &s->qp[0]))
		return CLI_FAILED;
	s->n_qp = 1;
	if (rdinit_qpair_connect(s->qp[0]))
		return CLI_FAILED;
	begin_step(t, STEP_READ);
	if (read_block(s, o, t))
		return CLI_FAILED;
	if (!t->skipped)
		t->end[STEP_READ] = cli_now_ns();
	return CLI_OK;
}

static double ms(const struct test *t, unsigned int i)
{
	return (double)((t->end[i] - t->start[i]) / 1000) / 1e3; /* truncated to microseconds */
}

static const char *tls_derivation(const struct rdinit_tls_info *tls)
{
	return tls->compat ? "that of libnvme before 1.14" : "RFC 8446";
}

/* Where it happens. */
static const char *tls_place(bool kernel)
{
	return kernel ? "the kernel" : "OpenSSL";
}

static json_t *json_tls(const struct rdinit_tls_info *tls)
{
	if (!tls->identity[0])
		return NULL;
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "identity", tls->identity, "hash",
			 tls->hash == RDINIT_TLS_SHA384 ? "SHA-384" : "SHA-256", "derivation",
			 tls_derivation(tls), "suite", tls->suite, "encryption",
			 tls_place(tls->ktls_send), "decryption", tls_place(tls->ktls_receive));
}

static void print_tls(const struct rdinit_tls_info *tls)
{
	if (!tls->identity[0])
		return;
	printf("TLS identity: %s\n", tls->identity);
	printf("TLS key: hash %s, derivation %s; suite %s, encryption by %s, decryption by %s\n",
	       tls->hash == RDINIT_TLS_SHA384 ? "SHA-384" : "SHA-256", tls_derivation(tls),
	       tls->suite, tls_place(tls->ktls_send), tls_place(tls->ktls_receive));
}

static int report_steps(const struct cli_options *o, const struct test *t, const char *error)
{
	json_t *list = json_array();
	unsigned int i;

	for (i = 0; i < STEPS && t->start[i]; i++) {
		bool ok = t->end[i] && !(error && i == t->at);

		if (t->skipped && !t->end[i])
			break;
		json_array_append_new(list,
				      ok ? json_pack("{s:s, s:b, s:f}", "step", steps[i].name, "ok",
						     1, "milliseconds", ms(t, i))
					 : json_pack("{s:s, s:b}", "step", steps[i].name, "ok", 0));
		if (o->format == CLI_JSON)
			continue;
		if (ok)
			printf("%-10s %10.3f ms  %s\n", steps[i].name, ms(t, i), steps[i].text);
		else
			printf("%-10s     failed     %s\n", steps[i].name, steps[i].text);
	}
	if (o->format == CLI_JSON)
		return cli_print_json(
			json_pack("{s:b, s:o, s:o*, s:o*, s:o*, s:o*}", "ok", !error, "steps", list,
				  "tls", json_tls(&t->tls), "stopped_at",
				  error ? json_string(steps[t->at].name) : NULL, "error",
				  error ? json_string(error) : NULL, "skipped",
				  t->skipped ? json_string(t->skipped) : NULL),
			stdout);
	json_decref(list);
	print_tls(&t->tls);
	if (!error)
		printf("%s%s%s\n", "all steps succeeded", t->skipped ? "; not tried: " : "",
		       t->skipped ? t->skipped : "");
	return cli_finish_output();
}

int cli_connect_test(const struct cli_options *o)
{
	struct test t = {.verbose = o->verbose};
	struct rdinit_ctrl_opts opts = o->ctrl;
	struct cli_session s = {0};
	char error[1024] = "";
	int rc, rc2;

	rdinit_ctrl_info_init(&s.info);
	rdinit_ns_init(&s.ns);
	rdinit_tls_info_init(&t.tls);
	t.warn = opts.log_fn;
	opts.log_spec = "debug";
	opts.log_fn = on_line;
	opts.log_user = &t;
	if (rdinit_ctrl_create(&opts, &s.ctrl)) {
		cli_lib_error();
		return CLI_USAGE;
	}
	begin_step(&t, STEP_RESOLVE);
	rc = to_the_first_read(&s, o, &t);
	if (rc)
		snprintf(error, sizeof(error), "%s%s", cli_lib_text(), cli_connect_hint());
	cli_session_close(&s);
	rc2 = report_steps(o, &t, rc ? error : NULL);
	if (rc)
		cli_error("%s: %s", steps[t.at].name, error);
	return rc ? rc : rc2;
}
