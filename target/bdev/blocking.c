/* SPDX-License-Identifier: BSD-3-Clause */
#include "workers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine_io.h"

static int64_t transfer(const struct rdt_bio *bio)
{
	const struct rdt_fio *fio = rdt_fio_const(bio);
	struct iovec iov = {
		.iov_base = fio->bounce ? fio->bounce : (char *)bio->buf + fio->moved,
		.iov_len = fio->piece,
	};
	off_t offset = (off_t)(bio->offset + fio->moved);
	ssize_t n;

	if (bio->op == RDT_BIO_READ)
		n = preadv2(fio->chan->fd, &iov, 1, offset, 0);
	else
		n = pwritev2(fio->chan->fd, &iov, 1, offset, fio->dsync ? RWF_DSYNC : 0);
	return n < 0 ? -errno : n;
}

/*
 * fdatasync of a byte range. The only system call for that is msync(2), which syncs the range of a
 * mapping as fdatasync does, and reports the failures of this open file. No page is accessed.
 */
static int sync_range(int fd, uint64_t offset, uint64_t length)
{
	size_t before = offset & (uint64_t)(sysconf(_SC_PAGESIZE) - 1), len = before + length;
	void *at = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, (off_t)(offset - before));
	int rc;

	if (at == MAP_FAILED)
		return fdatasync(fd) < 0 ? -errno : 0;
	rc = msync(at, len, MS_SYNC) < 0 ? -errno : 0;
	munmap(at, len);
	return rc;
}

/* FLUSH syncs the whole file, FUA the written range. */
static int sync_bio(int fd, const struct rdt_bio *bio)
{
	if (bio->op == RDT_BIO_FLUSH)
		return fdatasync(fd) < 0 ? -errno : 0;
	return sync_range(fd, bio->offset, bio->length);
}

static int zero(int fd, const struct rdt_bio *bio, bool punch)
{
	int mode = (punch ? FALLOC_FL_PUNCH_HOLE : FALLOC_FL_ZERO_RANGE) | FALLOC_FL_KEEP_SIZE;

	return fallocate(fd, mode, (off_t)bio->offset, (off_t)bio->length) < 0 ? -errno : 0;
}

static int discard(int fd, const struct rdt_bio *bio)
{
	uint64_t range[2] = {bio->offset, bio->length};

	return ioctl(fd, BLKDISCARD, range) < 0 ? -errno : 0;
}

int64_t rdt_blocking_io(const struct rdt_bio *bio)
{
	const struct rdt_fio *fio = rdt_fio_const(bio);
	const struct rdt_fchan *chan = fio->chan;

	if (fio->step == RDT_FIO_SYNC)
		return sync_bio(chan->fd, bio);
	switch ((enum rdt_bio_op)bio->op) {
	case RDT_BIO_READ:
	case RDT_BIO_WRITE:
		return transfer(bio);
	case RDT_BIO_WRITE_ZEROES:
		return zero(chan->fd, bio, chan->zero_how == RDT_ZERO_PUNCH);
	case RDT_BIO_DEALLOCATE:
		return chan->discards ? discard(chan->fd, bio) : zero(chan->fd, bio, true);
	default:
		return -EOPNOTSUPP;
	}
}
