/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Read the block behind the end of a namespace, with the library's own check switched off, and show
 * the status that the target answers with; then read the last block, which has to work.
 *
 *   rdbeyond URI
 *
 * Exits 0 when the target refused the one, with a status, and the connection still does the other.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "rdinit.h"

static int probe(struct rdinit_qpair *qpair, struct rdinit_ns *ns)
{
	unsigned char *block = malloc(ns->block_size);
	int rc;

	if (!block)
		return -ENOMEM;
	ns->unchecked = true;
	rc = rdinit_read(qpair, ns, ns->blocks, 1, block, 0);
	if (rc == -EIO && rdinit_last_status()) {
		printf("status 0x%x: %s\n", rdinit_last_status(), rdinit_get_error());
		rc = rdinit_read(qpair, ns, ns->blocks - 1, 1, block, 0);
	} else if (rc == 0) {
		fprintf(stderr, "rdbeyond: there was something to read\n");
		rc = -EPROTO;
	}
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
		fprintf(stderr, "usage: rdbeyond nvme+rdma://HOST[:PORT]/SUBNQN[/NSID]\n");
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
		rc = rdinit_qpair_connect(qpair);
	if (rc == 0)
		rc = probe(qpair, &ns);
	if (rc)
		fprintf(stderr, "rdbeyond: %s (%d)\n", rdinit_get_error(), rc);
	rdinit_qpair_free(&qpair);
	rdinit_ctrl_free(&ctrl);
	return rc ? 1 : 0;
}
