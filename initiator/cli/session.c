/* SPDX-License-Identifier: BSD-3-Clause */
/* A controller and its I/O queues, for verbs. */
#include <errno.h>
#include <string.h>

#include "cli.h"

const char *cli_address_text(const char *traddr, const char *trsvcid, char buf[CLI_ADDRESS_TEXT])
{
	bool v6 = strchr(traddr, ':');

	snprintf(buf, CLI_ADDRESS_TEXT, "%s%s%s:%s", v6 ? "[" : "", traddr, v6 ? "]" : "",
		 trsvcid ? trsvcid : "4420");
	return buf;
}

int cli_session_open(struct cli_session *s, const struct cli_options *opts)
{
	int rc;

	memset(s, 0, sizeof(*s));
	rdinit_ctrl_info_init(&s->info);
	rdinit_ns_init(&s->ns);
	rc = rdinit_ctrl_create(&opts->ctrl, &s->ctrl); /* it checks the options */
	if (!rc)
		rc = rdinit_ctrl_connect(s->ctrl);
	if (rc && !s->ctrl) {
		cli_lib_error();
		return rc == -EINVAL || rc == -ENOENT ? CLI_USAGE : CLI_FAILED;
	}
	if (rc || rdinit_ctrl_get_info(s->ctrl, &s->info)) {
		cli_error("%s%s", cli_lib_text(), cli_connect_hint());
		cli_session_close(s);
		return CLI_FAILED;
	}
	if (opts->verbose)
		fprintf(stderr,
			"rdinit: %s (%s): controller %u, NVMe %u.%u, %u I/O queues, at most %u "
			"bytes "
			"at once, %u in a capsule\n",
			s->info.address, s->info.provider, s->info.cntlid, s->info.vs >> 16,
			s->info.vs >> 8 & 0xff, s->info.io_queues, s->info.max_transfer,
			s->info.in_capsule);
	return CLI_OK;
}

int cli_session_open_ns(struct cli_session *s, const struct cli_options *opts)
{
	if (s->info.discovery)
		return cli_error(
			"%s: this is a discovery controller, which has no namespaces; give the "
			"NQN of a subsystem (rdinit discover lists them)",
			s->info.address);
	if (rdinit_ns_open(s->ctrl, opts->nsid ? opts->nsid : 1, &s->ns))
		return cli_error("%s%s", cli_lib_text(),
				 strstr(cli_lib_text(), "there is no namespace")
					 ? "; `rdinit list-ns` lists the namespaces"
					 : "");
	return CLI_OK;
}

int cli_session_open_io(struct cli_session *s, const struct cli_options *opts)
{
	int rc = cli_session_open_ns(s, opts);

	return rc ? rc : cli_session_open_queues(s, opts);
}

int cli_session_open_queues(struct cli_session *s, const struct cli_options *opts)
{
	unsigned int want = opts->ctrl.nr_io_queues;

	if (s->info.io_queues == 0)
		return cli_error("%s: the controller has no I/O queues", s->info.address);
	if (want > s->info.io_queues)
		want = s->info.io_queues;
	while (s->n_qp < want) {
		struct rdinit_qpair **qp = &s->qp[s->n_qp];

		if (rdinit_qpair_create(s->ctrl, &opts->qpair, qp))
			return cli_lib_error();
		s->n_qp++; /* from here on cli_session_close() frees it */
		if (rdinit_qpair_connect(*qp))
			return cli_lib_error();
		/* Connecting many queues takes time, so process keep-alives in between. */
		if (rdinit_ctrl_process(s->ctrl, 0) < 0)
			return cli_lib_error();
	}
	return CLI_OK;
}

void cli_session_close(struct cli_session *s)
{
	while (s->n_qp) {
		rdinit_qpair_disconnect(s->qp[s->n_qp - 1]);
		rdinit_qpair_free(&s->qp[s->n_qp - 1]);
		s->n_qp--;
	}
	if (s->ctrl) {
		/* A failure does not matter to the user: the work is done, and the connection is
		 * closed anyway. */
		rdinit_ctrl_disconnect(s->ctrl);
		rdinit_ctrl_free(&s->ctrl);
	}
}
