/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench --device: the same load through a device of the library. The session's own controller
 * remains, to print properties of the connection and the namespace.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

/* The URI of the target to which the session is connected, whether it was given as a URI or by
 * options. */
static void bench_device_uri(const struct bench *b, struct rdinit_uri *uri)
{
	const struct rdinit_ctrl_opts *ctrl = &b->o->ctrl;

	rdinit_uri_init(uri);
	snprintf(uri->traddr, sizeof(uri->traddr), "%s", ctrl->traddr);
	/* Normalised, because leading zeroes could make the text longer than the member. */
	snprintf(uri->trsvcid, sizeof(uri->trsvcid), "%u",
		 (uint16_t)strtoul(ctrl->trsvcid ? ctrl->trsvcid : "4420", NULL, 10));
	snprintf(uri->subnqn, sizeof(uri->subnqn), "%s", ctrl->subnqn);
	uri->nsid = b->session.ns.nsid;
	uri->tcp = ctrl->tcp;
}

static int bench_device_create(struct bench *b)
{
	const struct cli_options *o = b->o;
	struct rdinit_dev_opts opts;
	struct rdinit_uri uri;

	rdinit_dev_opts_init(&opts);
	opts.ctrl = &o->ctrl;
	opts.channels = (uint16_t)b->n_queues;
	opts.queue_size = o->qpair.queue_size;
	opts.io_timeout_ms = o->qpair.io_timeout_ms;
	bench_device_uri(b, &uri);
	if (rdinit_dev_create(&opts, &b->dev) || rdinit_dev_add_path(b->dev, &uri, NULL) < 0 ||
	    rdinit_dev_open(b->dev))
		return cli_lib_error();
	return CLI_OK;
}

int bench_device_open(struct bench *b)
{
	unsigned int i;
	int rc = bench_device_create(b);

	for (i = 0; !rc && i < b->n_queues; i++)
		if (rdinit_dev_chan_create(b->dev, &b->queues[i].chan))
			rc = cli_lib_error();
	return rc;
}

void bench_device_close(struct bench *b)
{
	unsigned int i;

	for (i = 0; b->queues && i < b->n_queues; i++)
		rdinit_dev_chan_free(&b->queues[i].chan);
	if (b->dev)
		rdinit_dev_close(b->dev);
	rdinit_dev_free(&b->dev);
}
