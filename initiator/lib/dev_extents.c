/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which blocks of a device are allocated: Get LBA Status on the admin queue of a usable path. It is
 * asked once: a caller that gets no answer reads the blocks instead.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "dev.h"

#define DESCS RDINIT_DEV_EXTENTS_MAX

/* From the submit to the answer, which also comes when the queue ends. */
struct rdi_extents_ask {
	struct rdi_path *path;
	uint64_t lba, end; /* blocks asked for */
	rdinit_dev_extents_fn fn;
	void *user;
	struct { /* struct nvme_lba_status with room */
		__le32 nlsd;
		uint8_t cmpc;
		uint8_t rsvd5[3];
		struct nvme_lba_status_desc desc[DESCS];
	} answer;
};

static void extents_fail(const struct rdi_extents_ask *ask, const struct rdinit_completion *c)
{
	ask->fn(ask->user, c, 0, NULL, 0);
}

/* Take the descriptors as far as they concern the range. Returns their number, or -EPROTO. */
static int extents_take(const struct rdi_extents_ask *ask, struct rdinit_dev_extent *list,
			uint64_t *known)
{
	uint32_t n = le32toh(ask->answer.nlsd), i, count = 0;
	uint64_t at = ask->lba;

	if (n > DESCS)
		return -EPROTO;
	for (i = 0; i < n && at < ask->end; i++) {
		uint64_t from = le64toh(ask->answer.desc[i].dslba);
		uint64_t blocks = (uint64_t)le32toh(ask->answer.desc[i].nlb) + 1;

		if (from < at || blocks > UINT64_MAX - from)
			return -EPROTO;
		at = from + blocks < ask->end ? from + blocks : ask->end;
		if (from < ask->end)
			list[count++] = (struct rdinit_dev_extent){from, at - from};
	}
	if (ask->answer.cmpc == NVME_LBA_STATUS_COMPLETE)
		at = ask->end;
	else if (at == ask->lba)
		return -EPROTO; /* it says nothing about any block */
	*known = at - ask->lba;
	return (int)count;
}

/* The controller's range length of 0 ends where the namespace ends when it answers. Blocks that are
 * gone by then are not blocks that are read as zeroes. */
static bool extents_are_gone(struct rdi_extents_ask *ask)
{
	uint64_t size = atomic_load(&ask->path->dev->blocks);

	if (size < ask->end)
		ask->end = size;
	return ask->end <= ask->lba;
}

static void extents_answered(void *user, const struct rdinit_completion *c)
{
	struct rdi_extents_ask *ask = user;
	struct rdinit_dev_extent list[DESCS];
	const struct rdinit_completion gone = {.err = -EINVAL,
					       .text = "the namespace has become smaller and ends "
						       "before these blocks"};
	const struct rdinit_completion bad = {.err = -EPROTO,
					      .text = "the list of Get LBA Status is "
						      "malformed"};
	const struct rdinit_completion other = {.err = -EOPNOTSUPP,
						.text = "deallocated blocks are no longer read as "
							"zeroes"};
	uint64_t known = 0;
	bool ended = extents_are_gone(ask);
	int n = c->err || ended ? 0 : extents_take(ask, list, &known);

	if (c->err)
		extents_fail(ask, c);
	else if (!ask->path->dev->info.extents)
		extents_fail(ask, &other);
	else if (ended)
		extents_fail(ask, &gone);
	else if (n < 0)
		extents_fail(ask, &bad);
	else
		ask->fn(ask->user, c, known, list, (unsigned int)n);
	free(ask);
}

static struct rdi_path *extents_path(const struct rdinit_dev *dev)
{
	unsigned int i, n = atomic_load(&dev->n_paths);

	for (i = 0; i < n; i++)
		if (rdi_path_usable(dev->paths[i]) && dev->paths[i]->tells_extents)
			return dev->paths[i];
	return NULL;
}

static int extents_submit(const char *func, struct rdi_extents_ask *ask)
{
	uint64_t blocks = ask->end - ask->lba;
	struct rdi_cmd cmd = {
		.sqe = {.opcode = nvme_admin_get_lba_status,
			.nsid = htole32(ask->path->nsid),
			.cdw10 = htole32((uint32_t)ask->lba),
			.cdw11 = htole32((uint32_t)(ask->lba >> 32)),
			.cdw12 = htole32(sizeof(ask->answer) / 4 - 1),
			/* The range length has 16 bits; 0: up to the end. */
			.cdw13 = htole32(NVME_LBA_STATUS_ALLOCATED << 24 |
					 (blocks <= UINT16_MAX ? (uint32_t)blocks : 0))},
		.data = &ask->answer,
		.len = sizeof(ask->answer),
		.dir = RDI_IN,
		.fn = extents_answered,
		.user = ask,
	};
	struct rdi_queue *q = &ask->path->ctrl->q;
	int rc = rdi_queue_submit(q, &cmd);

	return rc ? rdi_fail(func, rc, "%s", rdi_queue_why(q, rc)) : 0;
}

/* Under the lock. */
static int extents_ask(struct rdinit_dev *dev, const char *func, uint64_t lba, uint64_t nblocks,
		       rdinit_dev_extents_fn fn, void *user)
{
	uint64_t size = atomic_load(&dev->blocks);
	struct rdi_extents_ask *ask;
	struct rdi_path *path;
	int rc;

	if (!dev->known)
		return rdi_fail(func, -ENOTCONN, "the device was never usable");
	if (!dev->info.extents)
		return rdi_fail(func, -EOPNOTSUPP,
				"the controller does not tell which blocks are allocated");
	if (nblocks == 0 || lba >= size || nblocks > size - lba)
		return rdi_fail(func, -EINVAL,
				"blocks %llu to %llu are not within the namespace, which has %llu",
				(unsigned long long)lba, (unsigned long long)(lba + nblocks),
				(unsigned long long)size);
	path = extents_path(dev);
	if (!path)
		return rdi_fail(func, -ENOTCONN, "no path is usable now");
	ask = calloc(1, sizeof(*ask));
	if (!ask)
		return rdi_fail(func, -ENOMEM, "out of memory");
	*ask = (struct rdi_extents_ask){
		.path = path, .lba = lba, .end = lba + nblocks, .fn = fn, .user = user};
	rc = extents_submit(func, ask);
	if (rc)
		free(ask);
	return rc;
}

static int extents_async(struct rdinit_dev *dev, const char *func, uint64_t lba, uint64_t nblocks,
			 rdinit_dev_extents_fn fn, void *user)
{
	int rc = rdi_dev_lock(dev, func);

	if (rc)
		return rc;
	rc = extents_ask(dev, func, lba, nblocks, fn, user);
	rdi_dev_unlock(dev);
	return rc;
}

int rdinit_dev_extents_async(struct rdinit_dev *dev, uint64_t lba, uint64_t nblocks,
			     rdinit_dev_extents_fn fn, void *user)
{
	if (!fn)
		return rdi_fail(__func__, -EINVAL, "fn is NULL");
	return extents_async(dev, __func__, lba, nblocks, fn, user);
}

/* ---- the same, waiting ---- */

struct extents_wait {
	struct rdi_sync sync;
	int answered; /* eventfd: the answer may be taken on another thread */
	struct rdinit_dev_extent *list;
	int n;
	uint64_t known;
};

static void extents_waited(void *user, const struct rdinit_completion *c, uint64_t known,
			   const struct rdinit_dev_extent *list, unsigned int n)
{
	struct extents_wait *w = user;

	w->n = (int)n;
	w->known = known;
	if (n)
		memcpy(w->list, list, n * sizeof(*list));
	rdi_sync_done(&w->sync, c);
	eventfd_write(w->answered, 1);
}

/* Do the work of the device until the answer is there. */
static int extents_wait(struct rdinit_dev *dev, const struct extents_wait *w)
{
	struct pollfd fds[2] = {{.fd = rdinit_dev_fd(dev), .events = POLLIN},
				{.fd = w->answered, .events = POLLIN}};
	int rc = 0;

	while (!fds[1].revents) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			fds[0].revents = fds[1].revents = 0;
		rc = rdinit_dev_process(dev, 0);
	}
	return rc;
}

int rdinit_dev_extents(struct rdinit_dev *dev, uint64_t lba, uint64_t nblocks,
		       struct rdinit_dev_extent *list, uint64_t *known)
{
	struct extents_wait w = {.list = list};
	int rc;

	if (!list || !known)
		return rdi_fail(__func__, -EINVAL, "list or known is NULL");
	w.answered = eventfd(0, EFD_CLOEXEC);
	if (w.answered < 0)
		return rdi_fail(__func__, -errno, "eventfd: %s", strerror(errno));
	rc = extents_async(dev, __func__, lba, nblocks, extents_waited, &w);
	if (!rc)
		rc = extents_wait(dev, &w);
	close(w.answered);
	if (rc)
		return rc;
	*known = w.known;
	return w.sync.c.err ? rdi_fail_completion(__func__, &w.sync.c) : w.n;
}
