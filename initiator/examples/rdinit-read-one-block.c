/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The smallest use of librdinit: read the first block of a namespace and show its first bytes.
 *
 *   rdinit-read-one-block nvme+rdma://127.0.0.1/nqn.2026-11.example:disk/1
 *   cc rdinit-read-one-block.c $(pkg-config --cflags --libs librdinit)
 */
#include <stdio.h>
#include <stdlib.h>

#include <rdinit.h>

static int read_first(struct rdinit_qpair *qpair, const struct rdinit_ns *ns)
{
	unsigned char *block = malloc(ns->block_size);
	int i, rc;

	if (!block)
		return -1;
	rc = rdinit_qpair_connect(qpair);
	if (rc == 0)
		rc = rdinit_read(qpair, ns, 0, 1, block, 0);
	for (i = 0; rc == 0 && i < 16; i++)
		printf("%02x%c", block[i], i == 15 ? '\n' : ' ');
	free(block);
	return rc;
}

int main(int argc, char **argv)
{
	struct rdinit_ctrl_opts opts;
	struct rdinit_uri uri;
	struct rdinit_ns ns;
	struct rdinit_ctrl *ctrl = NULL;
	struct rdinit_qpair *qpair = NULL;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: %s nvme+rdma://HOST[:PORT]/SUBNQN[/NSID]\n", argv[0]);
		return 2;
	}
	rdinit_uri_init(&uri);
	rdinit_ns_init(&ns);
	rdinit_ctrl_opts_init(&opts);
	rc = rdinit_uri_parse(argv[1], &uri);
	if (rc == 0) {
		rdinit_ctrl_opts_set_uri(&opts, &uri);
		rc = rdinit_ctrl_create(&opts, &ctrl);
	}
	if (rc == 0)
		rc = rdinit_ctrl_connect(ctrl);
	if (rc == 0)
		rc = rdinit_ns_open(ctrl, uri.nsid ? uri.nsid : 1, &ns);
	if (rc == 0)
		rc = rdinit_qpair_create(ctrl, NULL, &qpair);
	if (rc == 0)
		rc = read_first(qpair, &ns);
	if (rc)
		fprintf(stderr, "%s\n", rdinit_get_error());

	/* The queue pair first, then an orderly end of the controller. */
	rdinit_qpair_free(&qpair);
	if (rc == 0)
		rdinit_ctrl_disconnect(ctrl);
	rdinit_ctrl_free(&ctrl);
	return rc ? 1 : 0;
}
