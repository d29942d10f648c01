/* SPDX-License-Identifier: BSD-3-Clause */
/* Backend for regular files and block devices: checks and opens the path, and opens channels on an
 * engine. */
#include "backend_types.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/parse.h"

#include "disk.h"
#include "engine_io.h"

struct file {
	struct rdt_bdev bdev;
	struct rd_log *log;
	char *path;
	int fd;
	bool is_block;
	dev_t dev; /* the block device, or the device of the file system */
	enum rdt_engine_type engine;
	bool direct;
	uint32_t poll_max; /* largest transfer in bytes that uses IOPOLL; 0: none */
	uint32_t mem_align;
	enum rdt_zero_how zero_how;
	bool discards;                        /* DEALLOCATE is a BLKDISCARD */
	struct rdt_extent_versions *versions; /* NULL: others may write to the file */
};

/* Receives the message for an error. */
struct explain {
	char *buf;
	size_t size;
};

__attribute__((format(printf, 3, 4))) static int fail(const struct explain *ex, int rc,
						      const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ex->buf, ex->size, fmt, ap);
	va_end(ap);
	return rc;
}

static struct file *file_of(struct rdt_bdev *bdev)
{
	return rd_container_of(bdev, struct file, bdev);
}

static struct rdt_fchan *fchan_of(struct rdt_chan *chan)
{
	return rd_container_of(chan, struct rdt_fchan, chan);
}

/* ---- channels ---- */

static void file_close(struct rdt_bdev *bdev)
{
	struct file *f = file_of(bdev);

	/* After a failed sync, the page cache may still contain data that was not written. Drop it,
	 * so that reads return what is really stored. */
	if (atomic_load(&bdev->sync_err))
		posix_fadvise(f->fd, 0, 0, POSIX_FADV_DONTNEED);
	if (f->fd >= 0)
		close(f->fd);
	rdt_extent_versions_put(f->versions);
	free(f->path);
	free(f);
}

static int file_chan_open(struct rdt_bdev *bdev, struct rdt_engines *engines, struct rdt_chan **out)
{
	struct file *f = file_of(bdev);
	struct rdt_engine *engine = rdt_engines_get(engines, f->engine);
	struct rdt_fchan *chan;
	int rc;

	*out = NULL;
	if (!engine)
		return -ENODEV;
	chan = calloc(1, sizeof(*chan));
	if (!chan)
		return -ENOMEM;
	rc = rdt_fchan_init(chan, engine, f->dev);
	if (rc) {
		free(chan);
		return rc;
	}
	chan->chan.bdev = bdev;
	chan->path = f->path;
	chan->fd = f->fd;
	chan->versions = f->versions;
	chan->block = f->is_block;
	chan->direct = f->direct;
	chan->poll_max = f->poll_max;
	chan->mem_align = f->mem_align;
	chan->zero_how = f->zero_how;
	chan->discards = f->discards;
	if (engine->ops->add_file)
		engine->ops->add_file(engine, chan);
	*out = &chan->chan;
	return 0;
}

static void file_chan_close(struct rdt_chan *chan)
{
	rdt_fchan_fini(fchan_of(chan));
	free(fchan_of(chan));
}

static enum rdt_bio_submit file_submit(struct rdt_chan *chan, struct rdt_bio *bio)
{
	if (!(chan->bdev->ops_mask & 1u << bio->op)) {
		bio->result = -EOPNOTSUPP;
		return RDT_BIO_DONE;
	}
	rdt_engine_submit(fchan_of(chan), bio);
	return RDT_BIO_QUEUED;
}

static void file_cancel(struct rdt_chan *chan, struct rdt_bio *bio)
{
	rdt_engine_cancel(fchan_of(chan), bio);
}

static int file_measure(const struct rdt_bdev *bdev, uint64_t size, uint64_t *found, char *err,
			size_t err_size);

static int file_resize(struct rdt_bdev *bdev, uint64_t size, char *err, size_t err_size)
{
	if (size)
		bdev->size = size;
	if (file_of(bdev)->versions)
		rdt_extents_changed(file_of(bdev)->versions, 0, UINT64_MAX);
	return 0;
}

static void file_found(const struct rdt_bdev *bdev, struct rdt_bdev_found *out)
{
	const struct file *f = rd_container_of(bdev, const struct file, bdev);

	*out = (struct rdt_bdev_found){.mem_align = f->mem_align, .zeroes = (uint8_t)f->zero_how};
}

static int file_share(const struct rdt_bdev *bdev)
{
	return rd_container_of(bdev, const struct file, bdev)->fd;
}

/* Offset of the last byte that can be locked. */
#define LOCK_WHO (INT64_MAX - 1)

/* The lock that tells other programs our PID. It is of no use for block devices. */
static void lock_who(int fd, short type)
{
	struct flock who = {.l_type = type, .l_whence = SEEK_SET, .l_start = LOCK_WHO, .l_len = 1};

	fcntl(fd, F_SETLK, &who);
}

static void file_name_user(const struct rdt_bdev *bdev, bool us)
{
	int fd = rd_container_of(bdev, const struct file, bdev)->fd;
	bool reads = (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY;

	lock_who(fd, !us ? F_UNLCK : reads ? F_RDLCK : F_WRLCK);
}

static int file_own(struct rdt_bdev *bdev, const struct rdt_ns_config *cfg, char *err,
		    size_t err_size);

static const struct rdt_bdev_ops file_ops = {
	.name = "file",
	.close = file_close,
	.chan_open = file_chan_open,
	.chan_close = file_chan_close,
	.submit = file_submit,
	.cancel = file_cancel,
	.measure = file_measure,
	.resize = file_resize,
	.share = file_share,
	.found = file_found,
	.own = file_own,
	.name_user = file_name_user,
};

static const struct rdt_bdev_ops block_ops = {
	.name = "block",
	.close = file_close,
	.chan_open = file_chan_open,
	.chan_close = file_chan_close,
	.submit = file_submit,
	.cancel = file_cancel,
	.measure = file_measure,
	.resize = file_resize,
	.share = file_share,
	.found = file_found,
	.own = file_own,
};

/* ---- opening ---- */

static int explain_open(const struct explain *ex, const struct rdt_ns_config *cfg, int rc)
{
	switch (rc) {
	case -ENOENT:
		if (cfg->backend == RDT_BACKEND_BLOCK)
			return fail(ex, rc, "path %s: no such device", cfg->path);
		return fail(ex, rc,
			    "path %s: no such file; create it, or set \"create: true\" with a size",
			    cfg->path);
	case -ENOTDIR:
		return fail(ex, rc,
			    "path %s: a component of the path is not a directory; correct the path",
			    cfg->path);
	case -EACCES:
	case -EPERM:
		return fail(ex, rc,
			    "path %s: permission denied for user %u; allow %s, or run rdtarget as "
			    "its owner%s",
			    cfg->path, (unsigned int)geteuid(),
			    cfg->read_only ? "reading" : "reading and writing",
			    cfg->read_only ? "" : ", or set \"read_only: true\"");
	case -EROFS:
		return fail(ex, rc, "path %s: read-only file system; set \"read_only: true\"",
			    cfg->path);
	case -EBUSY:
		return fail(ex, rc,
			    "path %s: the device is in use (mounted, or part of another device); "
			    "release it first",
			    cfg->path);
	default:
		return fail(ex, rc, "path %s: %s", cfg->path, strerror(-rc));
	}
}

static int check_type(const struct explain *ex, const struct rdt_ns_config *cfg,
		      const struct stat *st)
{
	if (S_ISDIR(st->st_mode))
		return fail(ex, -EISDIR, "path %s: is a directory, expected a %s", cfg->path,
			    cfg->backend == RDT_BACKEND_BLOCK ? "block device" : "regular file");
	if (cfg->backend == RDT_BACKEND_FILE && S_ISBLK(st->st_mode))
		return fail(ex, -EINVAL,
			    "path %s: is a block device, expected a regular file; use \"backend: "
			    "block\"",
			    cfg->path);
	if (cfg->backend == RDT_BACKEND_FILE && !S_ISREG(st->st_mode))
		return fail(ex, -EINVAL, "path %s: is not a regular file", cfg->path);
	if (cfg->backend == RDT_BACKEND_BLOCK && S_ISREG(st->st_mode))
		return fail(ex, -ENOTBLK,
			    "path %s: is a regular file, expected a block device; use \"backend: "
			    "file\"",
			    cfg->path);
	if (cfg->backend == RDT_BACKEND_BLOCK && !S_ISBLK(st->st_mode))
		return fail(ex, -ENOTBLK, "path %s: is not a block device", cfg->path);
	return 0;
}

/* Sync the directory of @path, because a new file survives a power failure only with its entry. */
static int sync_folder(const char *path)
{
	rd_autofree char *copy = strdup(path);
	int fd, rc;

	if (!copy)
		return -ENOMEM;
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = fsync(fd) < 0 ? -errno : 0;
	close(fd);
	/* Some file systems do not support it, and do not need it. */
	return rc == -EINVAL || rc == -ENOTSUP ? 0 : rc;
}

/* Create the file for `create: true`. If another process creates it first, it is opened as an
 * existing file. */
static int create_file(const struct explain *ex, const struct rdt_ns_config *cfg)
{
	char text[RD_SIZE_TEXT];
	int fd, rc;

	if (!cfg->size_bytes || cfg->size_bytes % cfg->block_size)
		return fail(ex, -EINVAL, "path %s: cannot be created with a size of %llu bytes",
			    cfg->path, (unsigned long long)cfg->size_bytes);
	fd = open(cfg->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EEXIST)
		return 0;
	if (fd < 0 && errno == ENOENT)
		return fail(ex, -ENOENT,
			    "path %s: its directory does not exist; create the directory "
			    "(\"create: true\" creates only the file)",
			    cfg->path);
	if (fd < 0)
		return explain_open(ex, cfg, -errno);
	rc = ftruncate(fd, (off_t)cfg->size_bytes) < 0 || fsync(fd) < 0 ? -errno
									: sync_folder(cfg->path);
	if (rc) {
		unlink(cfg->path);
		close(fd);
		return fail(ex, rc, "path %s: cannot be extended to %s: %s", cfg->path,
			    rd_format_size(cfg->size_bytes, text), strerror(-rc));
	}
	close(fd);
	return 0;
}

/* PID of the process that has locked the file, known only for a POSIX lock; 0: unknown. */
static int lock_owner(int fd)
{
	const struct flock asked[] = {
		{.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_WHO, .l_len = 1},
		{.l_type = F_WRLCK, .l_whence = SEEK_SET}, /* any lock of another program */
	};

	for (unsigned int i = 0; i < 2; i++) {
		struct flock lock = asked[i];

		if (fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_pid > 0)
			return (int)lock.l_pid;
	}
	return 0;
}

/*
 * Two daemons that write one file would destroy its contents, so the file is locked, with the kind
 * of lock that qemu uses for images. The lock belongs to the open file description and ends with
 * it, so two read-only namespaces can have the same file. An additional POSIX lock on a byte beyond
 * the end tells other programs our PID; it is lost when this process closes any descriptor of the
 * file. Block devices are opened with O_EXCL instead.
 *
 * When a process is killed, the kernel closes its files only after the I/O in flight on its
 * io_uring. Until then the lock exists without a process: -EAGAIN.
 */
static int lock_file(const struct explain *ex, const struct rdt_ns_config *cfg, int fd)
{
	struct flock lock = {
		.l_type = cfg->read_only ? F_RDLCK : F_WRLCK,
		.l_whence = SEEK_SET,
		.l_len = LOCK_WHO,
	};
	char pid[32] = "";
	int owner;

	if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
		lock_who(fd, lock.l_type);
		return 0;
	}
	if (errno != EAGAIN && errno != EACCES)
		return 0; /* the file system does not support locks */
	owner = lock_owner(fd);
	if (owner)
		snprintf(pid, sizeof(pid), " (process %d)", owner);
	return fail(ex, owner ? -EBUSY : -EAGAIN,
		    "path %s: another program uses it%s; stop it first: two writers would destroy "
		    "the data",
		    cfg->path, owner ? pid : ", or another namespace does");
}

/* Without O_DIRECT, which is tried later. O_NONBLOCK: opening a FIFO must not block. O_EXCL on a
 * block device fails if it is mounted. */
static int open_backend_path(const struct explain *ex, const struct rdt_ns_config *cfg,
			     struct stat *st)
{
	int flags = (cfg->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	int fd, rc;

	if (stat(cfg->path, st) < 0) {
		rc = -errno;
		if (rc != -ENOENT || !cfg->create || cfg->backend != RDT_BACKEND_FILE)
			return explain_open(ex, cfg, rc);
		rc = create_file(ex, cfg);
		if (rc)
			return rc;
		if (stat(cfg->path, st) < 0)
			return explain_open(ex, cfg, -errno);
	}
	rc = check_type(ex, cfg, st);
	if (rc)
		return rc;
	if (S_ISBLK(st->st_mode) && !cfg->read_only)
		flags |= O_EXCL;
	fd = open(cfg->path, flags);
	if (fd < 0) {
		rc = explain_open(ex, cfg, -errno);
		return rc == -EBUSY ? -EAGAIN : rc;
	}
	/* The path may have been replaced since stat(2): check what was opened. */
	rc = fstat(fd, st) < 0 ? -errno : 0;
	rc = rc ? explain_open(ex, cfg, rc) : check_type(ex, cfg, st);
	if (!rc && S_ISREG(st->st_mode))
		rc = lock_file(ex, cfg, fd);
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

/* Have @fd name nothing, so that what it has named ends when nobody else uses it. */
static int name_nothing(int fd)
{
	rd_autoclose int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

	return nothing < 0 || dup3(nothing, fd, O_CLOEXEC) < 0 ? -errno : 0;
}

static bool same_thing(const struct rdt_path_id *a, const struct rdt_path_id *b)
{
	return a->block == b->block && a->dev == b->dev && a->ino == b->ino && a->seq == b->seq;
}

static int file_own(struct rdt_bdev *bdev, const struct rdt_ns_config *cfg, char *err,
		    size_t err_size)
{
	const struct explain ex = {err, err_size};
	struct rdt_ns_config as_it_is = *cfg;
	struct file *f = file_of(bdev);
	rd_autoclose int fd = -1;
	struct rdt_path_id id;
	struct stat st;
	int rc;

	as_it_is.create = false;
	rc = name_nothing(f->fd);
	if (rc)
		return fail(&ex, rc, "path %s: %s", f->path, strerror(-rc));
	fd = open_backend_path(&ex, &as_it_is, &st);
	if (fd < 0)
		return fd;
	id = rdt_path_id(&st);
	if (!same_thing(&id, &bdev->path_id))
		return fail(&ex, -ESTALE,
			    "path %s: names something else than what was handed over; restore it",
			    f->path);
	if (fcntl(fd, F_SETFL, f->direct ? O_DIRECT : 0) < 0 || dup3(fd, f->fd, O_CLOEXEC) < 0)
		return fail(&ex, -errno, "path %s: %s", f->path, strerror(errno));
	return 0;
}

/* As open_backend_path(), for @fd, which another process has opened and locked. */
static int check_inherited(const struct explain *ex, const struct rdt_ns_config *cfg, int fd,
			   struct stat *st)
{
	int flags = fcntl(fd, F_GETFL), rc;

	rc = flags < 0 || fstat(fd, st) < 0 ? explain_open(ex, cfg, -errno)
					    : check_type(ex, cfg, st);
	if (!rc && !cfg->read_only && (flags & O_ACCMODE) == O_RDONLY)
		rc = fail(ex, -EROFS, "path %s: it was handed over open for reading only",
			  cfg->path);
	return rc ? rc : fd;
}

bool rdt_file_released(const struct rdt_ns_config *cfg)
{
	const bool block = cfg->backend == RDT_BACKEND_BLOCK;
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = LOCK_WHO};
	bool taken = false;
	int fd;

	if (cfg->read_only)
		return true; /* shared locks of other readers cannot be told from ours */
	fd = open(cfg->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (block ? O_EXCL : 0));
	if (fd < 0)
		return errno != EBUSY;
	if (!block)
		taken = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
	close(fd);
	return !taken;
}

static int find_size(const struct explain *ex, const struct rdt_ns_config *cfg, int fd,
		     const struct stat *st, uint64_t *size)
{
	char have[RD_SIZE_TEXT], want[RD_SIZE_TEXT];

	*size = (uint64_t)st->st_size;
	if (S_ISBLK(st->st_mode) && ioctl(fd, BLKGETSIZE64, size) < 0)
		return fail(ex, -errno, "path %s: cannot read the size of the device: %s",
			    cfg->path, strerror(errno));
	if (*size == 0)
		return fail(ex, -EINVAL,
			    "path %s: is empty; set its size (truncate -s), or remove it and set "
			    "\"create: true\" with a size",
			    cfg->path);
	if (cfg->size_bytes && *size != cfg->size_bytes)
		return fail(ex, -EINVAL,
			    "path %s: is %s (%llu bytes), but size says %s (%llu bytes); remove "
			    "the size, or resize the file",
			    cfg->path, rd_format_size(*size, have), (unsigned long long)*size,
			    rd_format_size(cfg->size_bytes, want),
			    (unsigned long long)cfg->size_bytes);
	if (*size % cfg->block_size)
		return fail(ex, -EINVAL,
			    "path %s: its size of %llu bytes is not a multiple of block_size %u; "
			    "resize it, or use \"block_size: 512\" if that divides it",
			    cfg->path, (unsigned long long)*size, cfg->block_size);
	return 0;
}

/* The file is missing and will be created at the start: check its directory. */
static int probe_directory(const struct explain *ex, const struct rdt_ns_config *cfg)
{
	rd_autofree char *copy = strdup(cfg->path);
	const char *dir;

	if (!copy)
		return fail(ex, -ENOMEM, "out of memory");
	dir = dirname(copy);
	if (faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS) == 0)
		return 0;
	return fail(ex, -errno, "path %s: cannot be created in %s: %s", cfg->path, dir,
		    strerror(errno));
}

int rdt_file_probe(const struct rdt_ns_config *cfg, char *err, size_t err_size)
{
	const struct explain ex = {err, err_size};
	int mode = cfg->read_only ? R_OK : R_OK | W_OK;
	uint64_t size;
	struct stat st;
	int fd, rc;

	if (stat(cfg->path, &st) < 0) {
		if (errno == ENOENT && cfg->create && cfg->backend == RDT_BACKEND_FILE)
			return probe_directory(&ex, cfg);
		return explain_open(&ex, cfg, -errno);
	}
	rc = check_type(&ex, cfg, &st);
	if (rc)
		return rc;
	if (faccessat(AT_FDCWD, cfg->path, mode, AT_EACCESS) < 0)
		return explain_open(&ex, cfg, -errno);
	fd = open(cfg->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return explain_open(&ex, cfg, -errno);
	rc = find_size(&ex, cfg, fd, &st, &size);
	close(fd);
	return rc;
}

static int file_measure(const struct rdt_bdev *bdev, uint64_t size, uint64_t *found, char *err,
			size_t err_size)
{
	const struct explain ex = {err, err_size};
	const struct file *f = rd_container_of(bdev, const struct file, bdev);
	const struct rdt_ns_config cfg = {
		.path = f->path,
		.size_bytes = size,
		.block_size = bdev->block_size,
	};
	struct stat st;

	if (fstat(f->fd, &st) < 0)
		return explain_open(&ex, &cfg, -errno);
	return find_size(&ex, &cfg, f->fd, &st, found);
}

/* ---- O_DIRECT ---- */

/* Try to read one block into memory aligned to @align. */
static bool direct_read_works(int fd, uint32_t block_size, uint32_t align)
{
	rd_autofree char *buf = aligned_alloc(4096, (size_t)4096 * 2);

	return buf && pread(fd, buf + align % 4096, block_size, 0) == (ssize_t)block_size;
}

/* @align: the required memory alignment. Returns NULL, or why O_DIRECT cannot be used. */
static const char *find_direct(const struct file *f, uint32_t *align)
{
	unsigned int io_align = 0, mem_align = 0;
	int logical = 0;
	struct statx stx;

	if (statx(f->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) == 0 &&
	    (stx.stx_mask & STATX_DIOALIGN)) {
		io_align = stx.stx_dio_offset_align;
		mem_align = stx.stx_dio_mem_align;
		if (!io_align)
			return "its file system does not support direct I/O";
	} else if (f->is_block && ioctl(f->fd, BLKSSZGET, &logical) == 0 && logical > 0) {
		io_align = (unsigned int)logical;
	}
	if (io_align > f->bdev.block_size)
		return "block_size is smaller than direct I/O requires there";
	if (mem_align && (mem_align & (mem_align - 1)))
		return "it reports an invalid memory alignment";
	*align = mem_align > 4 ? mem_align : 512;
	/* statx() may not report this, or report it wrongly, so try a read. */
	if (direct_read_works(f->fd, f->bdev.block_size, *align))
		return NULL;
	*align = 4096;
	if (direct_read_works(f->fd, f->bdev.block_size, *align))
		return NULL;
	return "a direct read of one block fails there";
}

/* The flags of an open file description that is shared with another process must not change. */
static int keep_direct(const struct explain *ex, const struct rdt_ns_config *cfg,
		       const struct rdt_bdev_found *found, struct file *f)
{
	int flags = fcntl(f->fd, F_GETFL);
	const char *why = NULL;

	if (flags < 0)
		return fail(ex, -errno, "path %s: %s", f->path, strerror(errno));
	f->direct = flags & O_DIRECT;
	if (f->direct && found && found->mem_align)
		f->mem_align = found->mem_align;
	else if (f->direct)
		why = find_direct(f, &f->mem_align);
	if (why)
		return fail(ex, -EINVAL, "path %s: it is open for direct I/O, but %s", f->path,
			    why);
	if (cfg->direct == (f->direct ? RDT_DIRECT_OFF : RDT_DIRECT_ON))
		return fail(ex, -EINVAL,
			    "path %s: \"direct\" cannot change while another process hands the "
			    "file over; use the former value, or restart rdtarget instead",
			    f->path);
	return 0;
}

static int choose_direct(const struct explain *ex, const struct rdt_ns_config *cfg, struct file *f)
{
	int flags = fcntl(f->fd, F_GETFL);
	const char *why = NULL;

	if (flags < 0)
		return fail(ex, -errno, "path %s: %s", f->path, strerror(errno));
	flags &= ~O_NONBLOCK;
	if (cfg->direct != RDT_DIRECT_OFF) {
		if (fcntl(f->fd, F_SETFL, flags | O_DIRECT) < 0)
			why = "its file system does not support direct I/O";
		else
			why = find_direct(f, &f->mem_align);
		f->direct = !why;
	}
	if (cfg->direct == RDT_DIRECT_ON && why)
		return fail(ex, -EINVAL,
			    "path %s: \"direct: on\" is impossible: %s; use \"direct: auto\"%s",
			    f->path, why, cfg->block_size < 4096 ? " or \"block_size: 4096\"" : "");
	if (!f->direct && fcntl(f->fd, F_SETFL, flags) < 0)
		return fail(ex, -errno, "path %s: %s", f->path, strerror(errno));
	if (f->direct)
		rd_info(f->log, RD_LOG_BACKEND, "%s: direct I/O", f->path);
	else
		rd_info(f->log, RD_LOG_BACKEND, "%s: buffered I/O%s%s", f->path, why ? ": " : "",
			why ? why : "");
	return 0;
}

/* ---- polling for completions ---- */

static void choose_polling(struct file *f)
{
	const char *why = NULL;
	struct rdt_disk_caps caps;

	rdt_disk_caps(f->dev, &caps);
	if (f->engine != RDT_ENGINE_IO_URING)
		why = "io_uring is not available here";
	else if (!f->direct)
		why = "polling needs direct I/O";
	else if (!caps.poll_max)
		why = "the device has no queues to poll (queue/io_poll in sysfs; for NVMe, load "
		      "nvme with poll_queues=), or splits I/O at boundaries (queue/chunk_sectors)";
	f->poll_max = why ? 0 : caps.poll_max;
	if (why)
		rd_warn(f->log, RD_LOG_BACKEND, "%s: iopoll: %s: using interrupts", f->path, why);
	else
		rd_info(f->log, RD_LOG_BACKEND,
			"%s: completions of transfers up to %u bytes are polled", f->path,
			f->poll_max);
}

/* ---- zeroing ---- */

/*
 * How a block device deallocates blocks. Punching a hole zeroes without allocation; the kernel
 * refuses it where the device has no such offload. A device that only discards does not guarantee
 * what is read afterwards.
 */
static int find_deallocate(const struct explain *ex, const struct rdt_ns_config *cfg,
			   struct file *f)
{
	static const char *const names[] = {"auto", "zero", "discard", "off"};
	enum rdt_deallocate how = cfg->deallocate;
	struct rdt_disk_caps caps;

	rdt_disk_caps(f->dev, &caps);
	if ((how == RDT_DEALLOCATE_ZERO && !(caps.write_zeroes && caps.discard)) ||
	    (how == RDT_DEALLOCATE_DISCARD && !caps.discard))
		return fail(ex, -EOPNOTSUPP,
			    "path %s: \"deallocate: %s\" is impossible: the device cannot %s; use "
			    "\"deallocate: auto\"",
			    f->path, names[how],
			    how == RDT_DEALLOCATE_ZERO ? "zero blocks by itself"
						       : "discard blocks");
	if (how == RDT_DEALLOCATE_OFF || !caps.discard)
		return 0;
	f->discards = how == RDT_DEALLOCATE_DISCARD || !caps.write_zeroes;
	f->bdev.deallocate_zeroes = !f->discards;
	f->bdev.ops_mask |= 1u << RDT_BIO_DEALLOCATE;
	rd_info(f->log, RD_LOG_BACKEND, "%s: deallocate %s", f->path,
		f->discards ? "discards" : "zeroes without allocation");
	return 0;
}

/* The kernel zeroes and discards whole device blocks only. */
static int find_block_zeroing(const struct explain *ex, const struct rdt_ns_config *cfg,
			      struct file *f)
{
	int logical = 0;

	if (f->bdev.read_only || ioctl(f->fd, BLKSSZGET, &logical) < 0 ||
	    logical > (int)f->bdev.block_size)
		return 0;
	/* Always possible: without an offload the kernel writes zeroes. */
	f->zero_how = RDT_ZERO_RANGE;
	f->bdev.ops_mask |= 1u << RDT_BIO_WRITE_ZEROES;
	return find_deallocate(ex, cfg, f);
}

/* Probe with calls that change nothing: beyond the end of the file, with FALLOC_FL_KEEP_SIZE. */
static enum rdt_zero_how try_zeroing(const struct file *f)
{
	off_t end = (off_t)((f->bdev.size + 4095) & ~UINT64_C(4095));
	int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	if (fallocate(f->fd, punch, end, 4096) < 0)
		return RDT_ZERO_NONE;
	if (fallocate(f->fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, end, 4096) < 0)
		return RDT_ZERO_PUNCH;
	/* The probe may have allocated a block beyond the end. */
	fallocate(f->fd, punch, end, 4096);
	return RDT_ZERO_RANGE;
}

static void find_zeroing(struct file *f, const struct rdt_bdev_found *found)
{
	if (f->bdev.read_only)
		return;
	f->zero_how = found ? (enum rdt_zero_how)found->zeroes : try_zeroing(f);
	if (f->zero_how == RDT_ZERO_NONE)
		return;
	f->bdev.ops_mask |= 1u << RDT_BIO_DEALLOCATE | 1u << RDT_BIO_WRITE_ZEROES;
	f->bdev.deallocate_zeroes = true;
}

static void tell_extents(struct file *f)
{
	f->bdev.ops_mask |= 1u << RDT_BIO_EXTENTS;
	f->bdev.deallocate_zeroes = true; /* holes read as zeroes */
	/* Another program may write to a file that is only locked for reading. */
	if (!f->bdev.read_only)
		f->versions = rdt_extent_versions_new(f->bdev.size);
}

/* Sets the properties that follow from @st and the configuration. */
static void describe_file(struct file *f, const struct rdt_ns_config *cfg, const struct stat *st)
{
	f->is_block = S_ISBLK(st->st_mode);
	f->dev = f->is_block ? st->st_rdev : st->st_dev;
	f->bdev.path_id = rdt_path_id(st);
	f->bdev.ops = f->is_block ? &block_ops : &file_ops;
	f->bdev.block_size = cfg->block_size;
	f->bdev.read_only = cfg->read_only;
	f->bdev.volatile_cache = true;
	f->bdev.ops_mask = 1u << RDT_BIO_READ | 1u << RDT_BIO_FLUSH;
	if (!cfg->read_only)
		f->bdev.ops_mask |= 1u << RDT_BIO_WRITE;
}

int rdt_file_open(const struct rdt_ns_config *cfg, struct rd_log *log, struct rdt_bdev **out,
		  char *err, size_t err_size)
{
	return rdt_file_open_on(cfg, NULL, log, out, err, err_size);
}

int rdt_file_open_on(const struct rdt_ns_config *cfg, const struct rdt_bdev_from *from,
		     struct rd_log *log, struct rdt_bdev **out, char *err, size_t err_size)
{
	const struct explain ex = {err, err_size};
	struct file *f = calloc(1, sizeof(*f));
	const struct rdt_bdev_found *found = from ? from->found : NULL;
	int fd = from ? from->fd : -1, rc, why;
	uint64_t size = 0;
	struct stat st;

	if (!f) {
		if (fd >= 0)
			close(fd);
		return fail(&ex, -ENOMEM, "out of memory");
	}
	f->fd = fd;
	f->log = log;
	f->engine = rdt_engine_choose(cfg->engine, &why);
	f->path = strdup(cfg->path);
	if (!f->path) {
		rc = fail(&ex, -ENOMEM, "out of memory");
		goto err_close;
	}
	rc = fd < 0 ? open_backend_path(&ex, cfg, &st) : check_inherited(&ex, cfg, fd, &st);
	if (rc < 0)
		goto err_close;
	f->fd = rc;
	describe_file(f, cfg, &st);
	rc = find_size(&ex, cfg, f->fd, &st, &size);
	f->bdev.size = size;
	if (!rc)
		rc = fd < 0 ? choose_direct(&ex, cfg, f) : keep_direct(&ex, cfg, found, f);
	if (rc)
		goto err_close;
	if (cfg->iopoll)
		choose_polling(f);
	if (f->is_block)
		rc = find_block_zeroing(&ex, cfg, f);
	else
		find_zeroing(f, found);
	if (rc)
		goto err_close;
	if (!f->is_block)
		tell_extents(f);
	*out = &f->bdev;
	return 0;

err_close:
	file_close(&f->bdev);
	return rc;
}
