/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A namespace as a block device: read its first block once a second, whatever happens to the
 * target, and say what happens to the paths. Each URI is one path to the same namespace.
 *
 *   rdinit-device 10 nvme+rdma://192.0.2.1/nqn.2026-11.example:disk/1 nvme+rdma://192.0.2.2/...
 *   cc rdinit-device.c $(pkg-config --cflags --libs librdinit)
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rdinit_dev.h>

static void on_event(void *user, const struct rdinit_dev_event *event)
{
	(void)user;
	if (event->type == RDINIT_DEV_EVENT_STATE)
		printf("device: %s\n", rdinit_dev_state_name(event->state));
	else if (event->path >= 0)
		printf("path %d: %s, %s %s\n", event->path,
		       rdinit_dev_path_state_name(event->path_state),
		       rdinit_dev_ana_state_name(event->ana_state), event->text);
}

static int add_paths(struct rdinit_dev *dev, char **uris)
{
	struct rdinit_uri uri;
	int rc = 0;

	for (; rc >= 0 && *uris; uris++) {
		rdinit_uri_init(&uri);
		rc = rdinit_uri_parse(*uris, &uri);
		if (rc == 0)
			rc = rdinit_dev_add_path(dev, &uri, NULL);
	}
	return rc < 0 ? rc : 0;
}

/* The channel has to be processed between the reads as well: that keeps the paths alive. */
static int wait_a_second(struct rdinit_dev_chan *chan)
{
	time_t end = time(NULL) + 1;
	int rc = 0;

	while (rc >= 0 && time(NULL) < end)
		rc = rdinit_dev_chan_process(chan, 100);
	return rc < 0 ? rc : 0;
}

static int read_often(struct rdinit_dev *dev, struct rdinit_dev_chan *chan, int times)
{
	struct rdinit_dev_info info;
	unsigned char *block;
	int rc, i;

	rdinit_dev_info_init(&info);
	rc = rdinit_dev_get_info(dev, &info);
	if (rc)
		return rc;
	printf("%llu blocks of %u bytes\n", (unsigned long long)info.blocks, info.block_size);
	block = malloc(info.block_size);
	if (!block)
		return -1;
	for (i = 0; rc == 0 && i < times; i++) {
		rc = rdinit_dev_read(chan, 0, 1, block, 0);
		if (rc == 0)
			printf("read %d: %02x %02x %02x %02x\n", i + 1, block[0], block[1],
			       block[2], block[3]);
		fflush(stdout);
		if (rc == 0 && i + 1 < times)
			rc = wait_a_second(chan);
	}
	free(block);
	return rc;
}

int main(int argc, char **argv)
{
	struct rdinit_dev_opts opts;
	struct rdinit_dev *dev = NULL;
	struct rdinit_dev_chan *chan = NULL;
	int rc;

	if (argc < 3) {
		fprintf(stderr, "usage: %s TIMES nvme+rdma://HOST[:PORT]/SUBNQN[/NSID]...\n",
			argv[0]);
		return 2;
	}
	rdinit_dev_opts_init(&opts);
	opts.event_fn = on_event;
	rc = rdinit_dev_create(&opts, &dev);
	if (rc == 0)
		rc = add_paths(dev, argv + 2);
	if (rc == 0)
		rc = rdinit_dev_open(dev);
	if (rc == 0)
		rc = rdinit_dev_chan_create(dev, &chan);
	if (rc == 0)
		rc = read_often(dev, chan, atoi(argv[1]));
	if (rc)
		fprintf(stderr, "%s\n", rdinit_get_error());

	/* The channels first, then an orderly end of the paths. */
	rdinit_dev_chan_free(&chan);
	if (rc == 0)
		rdinit_dev_close(dev);
	rdinit_dev_free(&dev);
	return rc ? 1 : 0;
}
