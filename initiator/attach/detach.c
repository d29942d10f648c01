/* SPDX-License-Identifier: BSD-3-Clause */
/* Detaching a device, and the list of those that are attached. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

#define END_MS   30000 /* for the process to end after it was asked to */
#define FORCE_MS 5000  /* before it is killed */

/* The name of the device in the state directory: without its folder, and links followed. */
static int device_name(const char *device, char name[RDI_ATTACH_NAME], char *why)
{
	char *path = strchr(device, '/') ? realpath(device, NULL) : NULL;
	const char *base = path ? path : device;
	int n;

	if (strrchr(base, '/'))
		base = strrchr(base, '/') + 1;
	n = snprintf(name, RDI_ATTACH_NAME, "%s", base);
	free(path);
	if (n > 0 && n < RDI_ATTACH_NAME && !strchr(name, '.'))
		return 0;
	return rdi_attach_why(why, -EINVAL,
			      "\"%s\" is not the name of a block device such as /dev/ublkb0",
			      device);
}

static int check_unused(const char *name, char *why)
{
	char path[RDI_ATTACH_NAME + 8];
	int fd;

	snprintf(path, sizeof(path), "/dev/%s", name);
	fd = open(path, O_RDONLY | O_EXCL | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 && errno == EBUSY)
		return rdi_attach_why(
			why, -EBUSY,
			"%s is in use: it is mounted, or part of another device (findmnt and lsblk "
			"show it); end that first, or give --force, which ends its I/O with errors",
			path);
	if (fd >= 0)
		close(fd);
	return 0;
}

static int wait_for_end(int pidfd, int ms)
{
	struct pollfd fd = {.fd = pidfd, .events = POLLIN};
	int rc;

	do
		rc = poll(&fd, 1, ms);
	while (rc < 0 && errno == EINTR);
	return rc > 0 ? 0 : -ETIMEDOUT;
}

static int signal_process(int pidfd, int signo)
{
	return syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0) ? -errno : 0;
}

/* Ends the process of the device, which detaches it. Returns 0, or -errno with @why. */
static int end_process(int pidfd, const struct rdi_attach_info *info, bool force, char *why)
{
	int rc = signal_process(pidfd, force ? SIGUSR1 : SIGTERM);

	if (rc == -ESRCH)
		return 0;
	if (rc == -EPERM)
		return rdi_attach_why(
			why, rc, "process %d of %s belongs to another user: run rdinit as root",
			info->pid, info->name);
	if (!rc)
		rc = wait_for_end(pidfd, force ? FORCE_MS : END_MS);
	if (rc && force) {
		signal_process(pidfd, SIGKILL);
		rc = wait_for_end(pidfd, FORCE_MS);
	}
	if (rc)
		snprintf(why, RDI_ATTACH_TEXT,
			 force ? "process %d of %s cannot be killed: the kernel's log may say why"
			       : "process %d of %s is still writing back the cache, and continues; "
				 "--force abandons that",
			 info->pid, info->name);
	return rc;
}

static int detach_live(int dir, const struct rdi_attach_info *info, bool force, char *why)
{
	int pidfd = (int)syscall(SYS_pidfd_open, info->pid, 0), rc;

	/* It is the same process if it still has the lock. */
	if (pidfd < 0 || rdi_attach_file_holder(dir, info->name) != info->pid) {
		if (pidfd >= 0)
			close(pidfd);
		return 0;
	}
	rc = end_process(pidfd, info, force, why);
	close(pidfd);
	return rc;
}

/* A device whose process has ended, now or before. */
static int detach_left(int dir, const char *name, bool force, char *why)
{
	const struct rdi_attach_driver *driver;
	struct rdi_attach_info info;
	int rc = rdi_attach_file_read(dir, name, &info);

	if (rc == -ENOENT || (!rc && info.pid))
		return 0; /* it was detached, and perhaps attached again */
	if (rc)
		return rdi_attach_why(why, rc, "the state file of %s: %s", name, strerror(-rc));
	driver = rdi_attach_driver_of(info.kind);
	if (!force && driver && driver->can_recover(&info))
		return rdi_attach_why(
			why, -EBUSY,
			"the process of %s has ended, and its I/O waits: attach the same "
			"URI again to continue, or give --force, which ends its I/O with "
			"errors",
			name);
	rc = driver ? driver->remove(&info, why) : 0;
	if (!rc)
		rdi_attach_file_remove(dir, name);
	return rc;
}

static int detach_in(int dir, const char *name, bool force, char *why)
{
	struct rdi_attach_info info;
	int rc = rdi_attach_file_read(dir, name, &info), lock;

	if (rc == -ENOENT)
		return rdi_attach_why(
			why, rc,
			"/dev/%s is not attached by rdinit; rdinit list --attached shows what is",
			name);
	if (rc)
		return rdi_attach_why(why, rc, "the state file of %s: %s", name, strerror(-rc));
	if (!force)
		rc = check_unused(name, why);
	if (!rc && info.pid)
		rc = detach_live(dir, &info, force, why);
	if (rc)
		return rc;
	lock = rdi_attach_dir_lock(dir, why);
	if (lock < 0)
		return lock;
	rc = detach_left(dir, name, force, why);
	close(lock);
	return rc;
}

int rdi_attach_detach(const char *state_dir, const char *device, bool force, char *why)
{
	char name[RDI_ATTACH_NAME];
	int rc = device_name(device, name, why), dir;

	if (rc)
		return rc;
	dir = rdi_attach_dir_open(state_dir, false, why);
	if (dir == -ENOENT)
		snprintf(why, RDI_ATTACH_TEXT, "/dev/%s is not attached by rdinit: nothing is",
			 name);
	if (dir < 0)
		return dir;
	rc = detach_in(dir, name, force, why);
	close(dir);
	return rc;
}

/* ---- the list ---- */

int rdi_attach_each(const char *state_dir,
		    bool (*fn)(void *user, const struct rdi_attach_info *info), void *user,
		    char *why)
{
	int dir = rdi_attach_dir_open(state_dir, false, why), rc;

	if (dir < 0)
		return dir == -ENOENT ? 0 : dir;
	rc = rdi_attach_dir_each(dir, fn, user);
	if (rc < 0)
		snprintf(why, RDI_ATTACH_TEXT, "cannot read %s: %s", state_dir, strerror(-rc));
	close(dir);
	return rc;
}
