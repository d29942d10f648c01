/* SPDX-License-Identifier: BSD-3-Clause */
/* Regular files and block devices: positioned system calls on a few workers. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "copy.h"

#define FILE_WORKERS 4u
#define FILE_ALIGN   4096u
#define FILE_IO      (1u << 20)
#define FILE_ZERO    (1u << 30)
/* The length that rdtarget and qemu lock of their images. */
#define FILE_LOCKED (INT64_MAX - 1)

struct cp_file {
	struct cli_cp_worked base;
	int fd;
	uint64_t shift; /* from a position of the copy to one of the file */
	bool kept;      /* the descriptor is the caller's */
	struct stat st;
	bool block;
	bool created; /* we created it and have not written to it */
	bool zeroed;  /* ranges that were not written read as zeroes */
	bool again;   /* verification after the flush reads the disk, not the page cache */
	uint64_t extent_from, extent_to; /* the last result of extent() */
	bool extent_hole;
};

/* ---- operations, on a worker ---- */

static void cp_file_read(const struct cp_file *f, struct cli_cp_op *op)
{
	ssize_t n;

	for (op->got = 0; op->got < op->len; op->got += (uint64_t)n) {
		do {
			n = pread(f->fd, (unsigned char *)op->buf + op->got,
				  (size_t)(op->len - op->got),
				  (off_t)(op->at + f->shift + op->got));
		} while (n < 0 && errno == EINTR);
		if (n < 0)
			op->err = -errno;
		if (n <= 0)
			return;
	}
}

/* @from NULL: zeroes. */
static int cp_file_write(const struct cp_file *f, const unsigned char *from, uint64_t at,
			 uint64_t len)
{
	uint64_t done = 0;
	ssize_t n;

	while (done < len) {
		uint64_t left = len - done;

		if (!from && left > sizeof(cli_cp_zeroes))
			left = sizeof(cli_cp_zeroes);
		n = pwrite(f->fd, from ? from + done : cli_cp_zeroes, (size_t)left,
			   (off_t)(at + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		done += (uint64_t)n;
	}
	return 0;
}

static int cp_file_zero(const struct cp_file *f, uint64_t at, uint64_t len)
{
	if (f->zeroed)
		return 0;
	if (fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)len) ==
	    0)
		return 0;
	/* Zeroing is not supported by this file system, or at these positions of this device. */
	if (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS && errno != EINTR)
		return -errno;
	return cp_file_write(f, NULL, at, len);
}

static void cp_file_work(void *arg, struct cli_cp_op *op)
{
	struct cp_file *f = arg;

	op->err = 0;
	switch (op->kind) {
	case CLI_CP_READ:
		cp_file_read(f, op);
		break;
	case CLI_CP_WRITE:
		op->err = cp_file_write(f, op->buf, op->at + f->shift, op->len);
		break;
	case CLI_CP_ZERO:
		op->err = cp_file_zero(f, op->at, op->len);
		break;
	case CLI_CP_FLUSH:
		op->err = fsync(f->fd) ? -errno : 0;
		if (!op->err && f->again)
			posix_fadvise(f->fd, 0, 0, POSIX_FADV_DONTNEED);
		break;
	}
}

/* ---- the interface ---- */

static void cp_file_extent(struct cli_cp_end *end, uint64_t at, uint64_t *len, bool *hole)
{
	struct cp_file *f = (struct cp_file *)end;
	off_t data, to;

	if (at < f->extent_from || at >= f->extent_to) {
		f->extent_from = at;
		f->extent_hole = false;
		data = lseek(f->fd, (off_t)at, SEEK_DATA);
		if (data < 0 && errno == ENXIO) {
			f->extent_hole = true; /* to the end of the file */
			f->extent_to = end->size;
		} else if (data < 0) {
			f->extent_to = end->size; /* the file system does not report holes */
		} else if ((uint64_t)data > at) {
			f->extent_hole = true;
			f->extent_to = (uint64_t)data;
		} else {
			to = lseek(f->fd, (off_t)at, SEEK_HOLE);
			f->extent_to = to < 0 ? end->size : (uint64_t)to;
		}
		if (f->extent_to <= at)
			f->extent_to = at + 1; /* the file has changed meanwhile */
	}
	*len = f->extent_to - at;
	*hole = f->extent_hole;
}

static void cp_file_begin_pass(struct cli_cp_end *end)
{
	struct cp_file *f = (struct cp_file *)end;

	f->extent_from = f->extent_to = 0;
}

static int cp_file_begin(struct cli_cp_end *end, uint64_t size, bool discard)
{
	struct cp_file *f = (struct cp_file *)end;

	f->created = false;
	if (f->block)
		return CLI_OK;
	if (!discard) {
		if (fstat(f->fd, &f->st) == 0 && (uint64_t)f->st.st_size == size)
			return CLI_OK;
		return cli_error("%s has %llu bytes instead of %llu: it has changed since the copy "
				 "was interrupted; remove the journal to begin again",
				 end->name, (unsigned long long)f->st.st_size,
				 (unsigned long long)size);
	}
	f->zeroed = true;
	if (ftruncate(f->fd, 0) ||
	    (size != CLI_CP_UNKNOWN && size && ftruncate(f->fd, (off_t)size)))
		return cli_error("%s cannot be resized to %llu bytes: %s", end->name,
				 size == CLI_CP_UNKNOWN ? 0 : (unsigned long long)size,
				 strerror(errno));
	return CLI_OK;
}

/* At the end of a stream the last part may be a hole, so set the file's size. */
static int cp_file_finish(struct cli_cp_end *end, uint64_t size)
{
	struct cp_file *f = (struct cp_file *)end;

	if (!f->block && ftruncate(f->fd, (off_t)size))
		return cli_error("%s cannot be resized to %llu bytes: %s", end->name,
				 (unsigned long long)size, strerror(errno));
	return CLI_OK;
}

static json_t *cp_file_identity(const struct cli_cp_end *end)
{
	const struct cp_file *f = (const struct cp_file *)end;
	bool fixed = end->size != CLI_CP_UNKNOWN; /* a source, or a device */
	struct stat st = f->st;
	char mtime[64];

	if (f->block)
		return json_pack("{s:s, s:{s:I}, s:I}", "kind", "block", "id", "rdev",
				 (json_int_t)f->st.st_rdev, "size", (json_int_t)end->size);
	/* Checked at the end, not at open: the file may have been replaced. */
	if (fstat(f->fd, &st))
		st = f->st;
	snprintf(mtime, sizeof(mtime), "%lld.%09ld", (long long)st.st_mtim.tv_sec,
		 st.st_mtim.tv_nsec);
	return json_pack("{s:s, s:{s:I, s:I}, s:I, s:s}", "kind", "file", "id", "dev",
			 (json_int_t)f->st.st_dev, "inode", (json_int_t)f->st.st_ino, "size",
			 fixed ? (json_int_t)st.st_size : (json_int_t)0, "mtime",
			 fixed ? mtime : "");
}

static void cp_file_close(struct cli_cp_end *end)
{
	struct cp_file *f = (struct cp_file *)end;

	cli_cp_workers_stop(f->base.workers, false);
	if (f->created)
		unlink(end->name); /* nothing was copied to it */
	if (f->fd >= 0 && !f->kept)
		close(f->fd);
	free(f);
}

static const struct cli_cp_end_ops file_ops = {
	.extent = cp_file_extent,
	.begin_pass = cp_file_begin_pass,
	.submit = cli_cp_workers_submit,
	.process = cli_cp_workers_process,
	.fds = cli_cp_workers_fds,
	.begin = cp_file_begin,
	.finish = cp_file_finish,
	.identity = cp_file_identity,
	.close = cp_file_close,
};

/* ---- opening ---- */

/* Whether @name is a device that is missing: a regular file made there would take its place, in
 * memory. */
static bool cp_file_is_no_device(const char *name)
{
	return strncmp(name, "/dev/", 5) == 0 && strncmp(name, "/dev/shm/", 9) != 0 &&
	       access(name, F_OK) && errno == ENOENT;
}

static int cp_file_open_fd(const struct cli_cp_open *how, const char *name, struct cp_file *f)
{
	int mode = !how->write ? O_RDONLY : how->again ? O_RDWR : O_WRONLY;
	bool block;

	if (how->write && cp_file_is_no_device(name))
		return -ENODEV;
	if (how->write) {
		f->fd = open(name, mode | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		f->created = f->fd >= 0;
		if (!f->created && errno != EEXIST)
			return -errno;
	}
	if (!f->created) {
		if (stat(name, &f->st))
			return -errno;
		block = S_ISBLK(f->st.st_mode);
		/* A block device that a file system or another program uses is refused. */
		f->fd = open(name, mode | O_CLOEXEC | (block && how->write ? O_EXCL : 0));
	}
	/* Decides by the opened file, because the name may have changed meaning. */
	if (f->fd < 0 || fstat(f->fd, &f->st))
		return -errno;
	return S_ISDIR(f->st.st_mode) ? -EISDIR : 0;
}

static int cp_file_explain(const struct cli_cp_open *how, const char *name, int rc)
{
	if (rc == -EBUSY)
		return cli_error("%s is in use: it is mounted or another program has it; unmount "
				 "it or stop that program (lsblk, fuser -v %s)",
				 name, name);
	if (rc == -ENODEV)
		return cli_error("%s: there is no such device, and no file is created in /dev; "
				 "lsblk lists the block devices",
				 name);
	if (rc == -EISDIR)
		return cli_error("%s is a directory; give a file in it", name);
	if (rc == -EROFS || (how->write && rc == -EACCES))
		return cli_error("%s cannot be written: %s", name, strerror(-rc));
	if (rc == -ENOENT && !how->write)
		return cli_error(
			"%s: %s; SRC and DST are URIs (nvme+rdma://HOST[:PORT]/SUBNQN"
			"[/NSID], or nvme+tcp://), paths, or - for standard input and output",
			name, strerror(-rc));
	return cli_error("%s: %s", name, strerror(-rc));
}

/* Two writers would destroy the data. File systems without locks are accepted. */
static int cp_file_lock(struct cp_file *f, const char *name)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = FILE_LOCKED};
	/* Only a process's lock tells its owner: rdtarget has one behind the data. */
	struct flock who = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = FILE_LOCKED};
	char pid[32] = "";

	if (fcntl(f->fd, F_OFD_SETLK, &lock) == 0 || (errno != EAGAIN && errno != EACCES))
		return CLI_OK;
	if (fcntl(f->fd, F_GETLK, &who) == 0 && who.l_type != F_UNLCK && who.l_pid > 0)
		snprintf(pid, sizeof(pid), " (process %d)", (int)who.l_pid);
	return cli_error("%s is in use: another program has locked it%s; stop that program, or "
			 "copy to another file",
			 name, pid);
}

/* A file of procfs or sysfs says that it has no bytes, and has some. */
static bool cp_file_is_stream(const struct cp_file *f, bool write)
{
	char byte;

	if (S_ISFIFO(f->st.st_mode) || S_ISCHR(f->st.st_mode))
		return true;
	return !write && S_ISREG(f->st.st_mode) && f->st.st_size == 0 &&
	       pread(f->fd, &byte, 1, 0) > 0;
}

static int cp_file_size(struct cp_file *f, const char *name, bool write)
{
	uint64_t bytes;
	int ro = 0;

	if (S_ISREG(f->st.st_mode)) {
		f->base.end.size = write ? CLI_CP_UNKNOWN : (uint64_t)f->st.st_size;
		f->base.end.tells_holes = true;
		return CLI_OK;
	}
	f->block = true;
	if (write && ioctl(f->fd, BLKROGET, &ro) == 0 && ro)
		return cli_error("%s is read-only; blockdev --setrw %s makes it writable", name,
				 name);
	if (ioctl(f->fd, BLKGETSIZE64, &bytes))
		return cli_error("%s: its size cannot be read: %s", name, strerror(errno));
	f->base.end.size = bytes;
	return CLI_OK;
}

int cli_cp_file_open(const struct cli_cp_open *how, const char *name, struct cli_cp_end **out)
{
	struct cp_file *f = calloc(1, sizeof(*f));
	int rc, fd;

	if (!f)
		return cli_error("out of memory");
	f->again = how->again;
	f->fd = -1;
	f->base.end = (struct cli_cp_end){
		.ops = &file_ops,
		.name = name,
		.align = FILE_ALIGN,
		.max_io = FILE_IO,
		.max_zero = FILE_ZERO,
		.can_read_again = true,
	};
	rc = cp_file_open_fd(how, name, f);
	if (rc) {
		rc = cp_file_explain(how, name, rc);
		goto fail;
	}
	if (cp_file_is_stream(f, how->write)) {
		fd = f->fd;
		free(f);
		return cli_cp_pipe_open(name, fd, UINT64_MAX, out);
	}
	rc = how->write && S_ISREG(f->st.st_mode) ? cp_file_lock(f, name) : CLI_OK;
	if (!rc)
		rc = cp_file_size(f, name, how->write);
	if (rc)
		goto fail;
	rc = cli_cp_workers_start(FILE_WORKERS, cp_file_work, f, &f->base.workers);
	if (rc) {
		rc = cli_error("%s: no thread can be started: %s", name, strerror(-rc));
		goto fail;
	}
	if (!how->write)
		posix_fadvise(f->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	*out = &f->base.end;
	return CLI_OK;
fail:
	cp_file_close(&f->base.end);
	return rc;
}

int cli_cp_fd_open(const char *name, int fd, uint64_t shift, struct cli_cp_end **out)
{
	struct cp_file *f = calloc(1, sizeof(*f));
	int rc = f ? 0 : -ENOMEM;

	if (f) {
		f->fd = fd;
		f->shift = shift;
		f->kept = true;
		f->base.end = (struct cli_cp_end){.ops = &file_ops,
						  .name = name,
						  .size = CLI_CP_UNKNOWN,
						  .align = 1,
						  .max_io = FILE_IO,
						  .can_read_again = true};
		rc = cli_cp_workers_start(FILE_WORKERS, cp_file_work, f, &f->base.workers);
	}
	if (rc) {
		free(f);
		return cli_error("%s: no thread can be started: %s", name, strerror(-rc));
	}
	*out = &f->base.end;
	return CLI_OK;
}
