/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdidle URI N: connects N I/O queues, to as many controllers as they need, prints "ready", and
 * only keeps them alive until standard input ends. For measuring the cost of idle connections to
 * their target.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rdinit.h"

#define QUEUES_OF_ONE 64u

struct idle {
	unsigned int wanted;
	uint32_t keep_alive_ms;
	unsigned int nctrls;
	unsigned int nqueues;
	struct rdinit_ctrl **ctrls;
	struct rdinit_qpair **queues;
	struct pollfd *fds; /* standard input, then the controllers' */
};

static int open_queue(struct idle *idle, struct rdinit_ctrl *ctrl)
{
	struct rdinit_qpair **qp = &idle->queues[idle->nqueues];
	int rc = rdinit_qpair_create(ctrl, NULL, qp);

	if (rc)
		return rc;
	idle->nqueues++;
	return rdinit_qpair_connect(*qp);
}

static int open_ctrl(struct idle *idle, const struct rdinit_uri *uri)
{
	unsigned int want = idle->wanted - idle->nqueues;
	struct rdinit_ctrl_info info;
	struct rdinit_ctrl_opts opts;
	struct rdinit_ctrl *ctrl;
	int rc;

	rdinit_ctrl_opts_init(&opts);
	rdinit_ctrl_opts_set_uri(&opts, uri);
	rdinit_ctrl_info_init(&info);
	opts.keep_alive_tmo_ms = idle->keep_alive_ms;
	opts.nr_io_queues = (uint16_t)(want < QUEUES_OF_ONE ? want : QUEUES_OF_ONE);
	rc = rdinit_ctrl_create(&opts, &ctrl);
	if (rc)
		return rc;
	idle->ctrls[idle->nctrls++] = ctrl;
	rc = rdinit_ctrl_connect(ctrl);
	if (rc == 0)
		rc = rdinit_ctrl_get_info(ctrl, &info);
	if (want > info.io_queues)
		want = info.io_queues;
	while (rc == 0 && want--) {
		rc = open_queue(idle, ctrl);
		/* Connecting takes time, so process the keep-alives of connected controllers. */
		for (unsigned int i = 0; rc == 0 && i < idle->nctrls; i++)
			rc = rdinit_ctrl_process(idle->ctrls[i], 0);
	}
	return rc < 0 ? rc : 0;
}

static int wait_for_the_end(struct idle *idle)
{
	char c;

	idle->fds[0] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
	for (unsigned int i = 0; i < idle->nctrls; i++)
		idle->fds[i + 1] =
			(struct pollfd){.fd = rdinit_ctrl_fd(idle->ctrls[i]), .events = POLLIN};
	for (;;) {
		if (poll(idle->fds, idle->nctrls + 1, -1) < 0)
			return -1;
		if (idle->fds[0].revents && read(STDIN_FILENO, &c, 1) <= 0)
			return 0;
		for (unsigned int i = 0; i < idle->nctrls; i++) {
			if (idle->fds[i + 1].revents && rdinit_ctrl_process(idle->ctrls[i], 0) < 0)
				return -1;
		}
	}
}

static int connect_idle(struct idle *idle, const char *text)
{
	struct rdinit_uri uri;
	int rc;

	rdinit_uri_init(&uri);
	rc = rdinit_uri_parse(text, &uri);
	while (rc == 0 && idle->nqueues < idle->wanted)
		rc = open_ctrl(idle, &uri);
	if (rc == 0) {
		printf("ready: %u queues of %u controllers\n", idle->nqueues, idle->nctrls);
		fflush(stdout);
		rc = wait_for_the_end(idle);
	}
	if (rc)
		fprintf(stderr, "rdidle: %s\n", rdinit_get_error());
	for (unsigned int i = 0; i < idle->nqueues; i++)
		rdinit_qpair_free(&idle->queues[i]);
	for (unsigned int i = 0; i < idle->nctrls; i++)
		rdinit_ctrl_free(&idle->ctrls[i]);
	return rc ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct idle idle = {0};
	int rc;

	if (argc == 4) {
		idle.wanted = (unsigned int)strtoul(argv[2], NULL, 10);
		idle.keep_alive_ms = (uint32_t)strtoul(argv[3], NULL, 10);
	}
	if (idle.wanted < 1 || idle.wanted > 4096) {
		fprintf(stderr, "usage: rdidle nvme+rdma://HOST:PORT/NQN QUEUES KEEP-ALIVE-MS\n");
		return 2;
	}
	idle.ctrls = calloc(idle.wanted, sizeof(struct rdinit_ctrl *));
	idle.queues = calloc(idle.wanted, sizeof(struct rdinit_qpair *));
	idle.fds = calloc(idle.wanted + 1, sizeof(*idle.fds));
	if (!idle.ctrls || !idle.queues || !idle.fds) {
		fprintf(stderr, "rdidle: out of memory\n");
		return 1;
	}
	rc = connect_idle(&idle, argv[1]);
	free(idle.fds);
	free(idle.queues);
	free(idle.ctrls);
	return rc;
}
