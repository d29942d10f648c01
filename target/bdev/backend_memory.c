/* SPDX-License-Identifier: BSD-3-Clause */
/* Backend in anonymous shared memory (memfd_create(2)), which can be passed to another process. It
 * is sparse: blocks that were never written use no memory. The contents exist as long as a process
 * has it open, so there is no volatile cache to flush. */
#include "backend_types.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/parse.h"

/* Reactors share the memory. A stripe is copied under its lock, so that reads see whole blocks;
 * NVMe requires no more than that (AWUN 0). A thread holds one lock at a time. */
#define STRIPE_SIZE  65536u
#define STRIPE_LOCKS 128u

/* Maximum number of stripes that one EXTENTS examines, which bounds its time on the reactor. */
#define STRIPES_MAX (4096u * 64)

/* Reserved address space, as a multiple of the size, so that the namespace can grow in place. */
#define RESERVE_FACTOR 16u

struct memory {
	struct rdt_bdev bdev;
	int fd;
	char *base;
	size_t reserved; /* bytes of reserved address space at @base */
	/* Largest size so far: I/O that was submitted before a shrink may still access it */
	uint64_t usable;
	/* One bit per stripe of the reserved space, set if the stripe may contain anything but
	 * zeroes. Changed under the stripe's lock. */
	_Atomic uint64_t *used;
	size_t page_size;
	pthread_mutex_t locks[STRIPE_LOCKS];
};

static struct memory *memory_of(struct rdt_bdev *bdev)
{
	return rd_container_of(bdev, struct memory, bdev);
}

static void memory_close(struct rdt_bdev *bdev)
{
	struct memory *m = memory_of(bdev);

	munmap(m->base, m->reserved);
	close(m->fd);
	free(m->used);
	for (unsigned int i = 0; i < STRIPE_LOCKS; i++)
		pthread_mutex_destroy(&m->locks[i]);
	free(m);
}

static int memory_chan_open(struct rdt_bdev *bdev, struct rdt_engines *engines,
			    struct rdt_chan **out)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->bdev = bdev;
	return 0;
}

static void memory_chan_close(struct rdt_chan *chan)
{
	free(chan);
}

/* ---- which stripes are used ---- */

static void mark_used(struct memory *m, uint64_t offset)
{
	uint64_t stripe = offset / STRIPE_SIZE, bit = UINT64_C(1) << stripe % 64;

	if (!(atomic_load_explicit(&m->used[stripe / 64], memory_order_relaxed) & bit))
		atomic_fetch_or(&m->used[stripe / 64], bit);
}

/* Returns the first stripe in [from, to) whose use is @used, or @to. */
static uint64_t find_stripe(const struct memory *m, uint64_t from, uint64_t to, bool used)
{
	while (from < to) {
		uint64_t word = atomic_load_explicit(&m->used[from / 64], memory_order_relaxed);

		word = (used ? word : ~word) >> from % 64;
		if (word) {
			from += (unsigned int)__builtin_ctzll(word);
			return from < to ? from : to;
		}
		from += 64 - from % 64;
	}
	return to;
}

static void find_used(const struct memory *m, const struct rdt_bio *bio)
{
	struct rdt_extents *ex = bio->buf;
	uint64_t most = (bio->offset / STRIPE_SIZE + STRIPES_MAX) * STRIPE_SIZE;
	uint64_t end = bio->offset + bio->length < most ? bio->offset + bio->length : most;
	uint64_t last = (end + STRIPE_SIZE - 1) / STRIPE_SIZE;
	uint64_t from = find_stripe(m, bio->offset / STRIPE_SIZE, last, true);

	ex->count = 0;
	ex->upto = end;
	while (from < last) {
		uint64_t to = find_stripe(m, from, last, false);
		uint64_t first = from * STRIPE_SIZE, behind = to * STRIPE_SIZE;

		if (!rdt_extents_add(ex, first > bio->offset ? first : bio->offset,
				     behind < end ? behind : end))
			return;
		from = find_stripe(m, to, last, true);
	}
}

/* ---- I/O ---- */

/* Zero a part; whole pages are returned to the system. */
static int zero_piece(struct memory *m, uint64_t offset, size_t len)
{
	char *p = m->base + offset;
	size_t head = (size_t)(-(uintptr_t)p & (m->page_size - 1));
	size_t pages;

	if (head > len)
		head = len;
	pages = (len - head) & ~(m->page_size - 1);
	memset(p, 0, head);
	if (pages && madvise(p + head, pages, MADV_REMOVE) < 0)
		return -errno;
	memset(p + head + pages, 0, len - head - pages);
	if (len == STRIPE_SIZE)
		atomic_fetch_and(&m->used[offset / STRIPE_SIZE / 64],
				 ~(UINT64_C(1) << offset / STRIPE_SIZE % 64));
	return 0;
}

static int move_piece(struct memory *m, const struct rdt_bio *bio, uint64_t done, size_t len)
{
	uint64_t offset = bio->offset + done;

	switch ((enum rdt_bio_op)bio->op) {
	case RDT_BIO_READ:
		memcpy((char *)bio->buf + done, m->base + offset, len);
		return 0;
	case RDT_BIO_WRITE:
		mark_used(m, offset);
		memcpy(m->base + offset, (const char *)bio->buf + done, len);
		return 0;
	case RDT_BIO_WRITE_ZEROES:
	case RDT_BIO_DEALLOCATE:
		return zero_piece(m, offset, len);
	default:
		return 0;
	}
}

static enum rdt_bio_submit memory_submit(struct rdt_chan *chan, struct rdt_bio *bio)
{
	struct memory *m = memory_of(chan->bdev);
	uint64_t length = bio->op == RDT_BIO_FLUSH ? 0 : bio->length;

	bio->result = m->bdev.ops_mask & 1u << bio->op ? 0 : -EOPNOTSUPP;
	if (bio->op == RDT_BIO_EXTENTS) {
		find_used(m, bio);
		return RDT_BIO_DONE;
	}
	for (uint64_t done = 0; done < length && !bio->result;) {
		uint64_t offset = bio->offset + done;
		size_t len = STRIPE_SIZE - offset % STRIPE_SIZE;
		pthread_mutex_t *lock = &m->locks[offset / STRIPE_SIZE % STRIPE_LOCKS];

		if (len > length - done)
			len = length - done;
		pthread_mutex_lock(lock);
		bio->result = move_piece(m, bio, done, len);
		pthread_mutex_unlock(lock);
		done += len;
	}
	return RDT_BIO_DONE;
}

/* Reserve address space for @size and growth, without access rights. */
static int reserve_addresses(struct memory *m, uint64_t size)
{
	for (uint64_t factor = RESERVE_FACTOR; factor; factor /= 2) {
		if (size > SIZE_MAX / factor)
			continue;
		m->reserved = (size_t)(size * factor);
		m->base = mmap(NULL, m->reserved, PROT_NONE, MAP_SHARED | MAP_NORESERVE, m->fd, 0);
		if (m->base != MAP_FAILED)
			return 0;
	}
	return -ENOMEM;
}

static int allow_access(struct memory *m, uint64_t size)
{
	if (ftruncate(m->fd, (off_t)size) < 0 ||
	    mprotect(m->base, size, PROT_READ | PROT_WRITE) < 0)
		return -errno;
	m->usable = size;
	return 0;
}

/* Memory beyond a smaller size stays mapped for I/O in flight, and is zeroed when it is used
 * again. */
static int memory_resize(struct rdt_bdev *bdev, uint64_t size, char *err, size_t err_size)
{
	struct memory *m = memory_of(bdev);
	uint64_t used = size < m->usable ? size : m->usable; /* the rest was never written */
	char text[RD_SIZE_TEXT];
	int rc = 0;

	if (!size || size == bdev->size)
		return 0;
	if (size > m->reserved)
		rc = -ENOMEM;
	else if (size > m->usable)
		rc = allow_access(m, size);
	if (rc) {
		snprintf(err, err_size,
			 "size: cannot grow to %s while it is in use (%s); remove the namespace "
			 "and add it again",
			 rd_format_size(size, text), strerror(-rc));
		return rc;
	}
	for (uint64_t at = bdev->size; at < used; at += STRIPE_SIZE - at % STRIPE_SIZE) {
		uint64_t len = STRIPE_SIZE - at % STRIPE_SIZE;
		pthread_mutex_t *lock = &m->locks[at / STRIPE_SIZE % STRIPE_LOCKS];

		pthread_mutex_lock(lock);
		rc = zero_piece(m, at, (size_t)(len < used - at ? len : used - at));
		pthread_mutex_unlock(lock);
		if (rc)
			break;
	}
	if (!rc)
		bdev->size = size;
	else
		snprintf(err, err_size, "size: cannot clear the new part: %s", strerror(-rc));
	return rc;
}

static int memory_share(const struct rdt_bdev *bdev)
{
	return rd_container_of(bdev, const struct memory, bdev)->fd;
}

static const struct rdt_bdev_ops memory_ops = {
	.name = "memory",
	.close = memory_close,
	.chan_open = memory_chan_open,
	.chan_close = memory_chan_close,
	.submit = memory_submit,
	.resize = memory_resize,
	.share = memory_share,
};

/* ---- opening ---- */

/* Finds the stripes that another process has written. */
static int find_written(struct memory *m, uint64_t size)
{
	off_t at = 0, end = 0;

	while ((uint64_t)end < size && (at = lseek(m->fd, end, SEEK_DATA)) >= 0) {
		end = lseek(m->fd, at, SEEK_HOLE);
		if (end < 0)
			return -errno;
		for (uint64_t s = (uint64_t)at / STRIPE_SIZE; s * STRIPE_SIZE < (uint64_t)end; s++)
			mark_used(m, s * STRIPE_SIZE);
	}
	return at < 0 && errno != ENXIO ? -errno : 0;
}

/* @inherited: m->fd contains data of another process. */
static int map_memory(struct memory *m, uint64_t size, bool inherited)
{
	struct stat st = {0};
	int rc;

	if (inherited && fstat(m->fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size > size)
		size = (uint64_t)st.st_size; /* it was larger before it shrank */
	rc = reserve_addresses(m, size);
	if (rc)
		return rc;
	m->used = calloc(m->reserved / STRIPE_SIZE / 64 + 1, sizeof(*m->used));
	rc = m->used ? allow_access(m, size) : -ENOMEM;
	if (!rc && inherited)
		rc = find_written(m, size);
	if (rc)
		munmap(m->base, m->reserved);
	return rc;
}

int rdt_memory_open(const struct rdt_ns_config *cfg, struct rd_log *log, struct rdt_bdev **out,
		    char *err, size_t err_size)
{
	return rdt_memory_open_on(cfg, NULL, log, out, err, err_size);
}

int rdt_memory_open_on(const struct rdt_ns_config *cfg, const struct rdt_bdev_from *from,
		       struct rd_log *log, struct rdt_bdev **out, char *err, size_t err_size)
{
	struct memory *m = calloc(1, sizeof(*m));
	char text[RD_SIZE_TEXT];
	int fd = from ? from->fd : -1, rc = m ? 0 : -ENOMEM;

	if (m)
		m->fd = fd >= 0 ? fd : memfd_create("namespace", MFD_CLOEXEC);
	if (m && m->fd < 0)
		rc = -errno;
	if (!rc)
		rc = map_memory(m, cfg->size_bytes, fd >= 0);
	if (rc) {
		snprintf(err, err_size,
			 "size: cannot reserve %s of address space (%s); make it smaller",
			 rd_format_size(cfg->size_bytes, text), strerror(-rc));
		if (m ? m->fd >= 0 : fd >= 0)
			close(m ? m->fd : fd);
		if (m)
			free(m->used);
		free(m);
		return rc;
	}
	for (unsigned int i = 0; i < STRIPE_LOCKS; i++)
		pthread_mutex_init(&m->locks[i], NULL);
	m->page_size = (size_t)sysconf(_SC_PAGESIZE);
	m->bdev.ops = &memory_ops;
	m->bdev.size = cfg->size_bytes;
	m->bdev.block_size = cfg->block_size;
	m->bdev.read_only = cfg->read_only;
	m->bdev.ops_mask = 1u << RDT_BIO_READ | 1u << RDT_BIO_FLUSH | 1u << RDT_BIO_EXTENTS;
	if (!cfg->read_only)
		m->bdev.ops_mask |= 1u << RDT_BIO_WRITE | 1u << RDT_BIO_WRITE_ZEROES |
				    1u << RDT_BIO_DEALLOCATE | RDT_OPS_MARKS;
	m->bdev.deallocate_zeroes = true;
	*out = &m->bdev;
	return 0;
}
