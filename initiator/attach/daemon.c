/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process of an attached device. Its main thread waits for signals, events of the device and
 * the kernel's answers; I/O is done by the threads of the driver.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "internal.h"

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57 /* <linux/prctl.h>, Linux 5.6 */
#endif

/* Ends the device: after what is written; at once, with errors. */
static const int stop_signals[] = {SIGINT, SIGTERM};
#define ABORT_SIGNAL SIGUSR1

/* In the order in which --driver=auto tries them. */
static const struct rdi_attach_driver *const drivers[] = {
#ifdef RDI_WITH_UBLK
	&rdi_attach_ublk,
#endif
	&rdi_attach_nbd,
};
#define DRIVERS (sizeof(drivers) / sizeof(drivers[0]))

const struct rdi_attach_driver *rdi_attach_driver_of(enum rdi_attach_kind kind)
{
	size_t i;

	for (i = 0; i < DRIVERS; i++) {
		if (drivers[i]->kind == kind)
			return drivers[i];
	}
	return NULL;
}

/* ---- what is said: to people; to a service manager (sd_notify(3)), which sets NOTIFY_SOCKET ----
 */

void rdi_attach_say(const struct rdi_attach *a, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (a->to_syslog) {
		vsyslog(LOG_NOTICE, fmt, ap);
	} else {
		char text[2 * RDI_ATTACH_TEXT];

		vsnprintf(text, sizeof(text), fmt, ap);
		fprintf(stderr, "rdinit: %s\n", text);
	}
	va_end(ap);
}

int rdi_attach_why(char *why, int rc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, RDI_ATTACH_TEXT, fmt, ap);
	va_end(ap);
	return rc;
}

/* Tells a service manager, if there is one. */
static void notify_service(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	size_t len = path ? strlen(path) : 0;
	int fd;

	if (len < 2 || len >= sizeof(addr.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(addr.sun_path, path, len);
	if (path[0] == '@')
		addr.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (sendto(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL,
		   (const struct sockaddr *)&addr,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		len = 0; /* nobody listens: there is nobody to tell */
	close(fd);
}

/* ---- events ---- */

void rdi_attach_wake(struct rdi_attach *a)
{
	const uint64_t one = 1;

	if (write(a->wake, &one, sizeof(one)) < 0)
		return; /* it is readable already */
}

void rdi_attach_event(void *user, const struct rdinit_dev_event *e)
{
	struct rdi_attach *a = user;
	uint64_t bit = e->path >= 0 ? 1ull << e->path : 0;
	bool told = atomic_load(&a->attached);

	atomic_store(&a->dev_state, (int)e->state);
	if (e->type == RDINIT_DEV_EVENT_RESIZED)
		atomic_store(&a->resized, true);
	atomic_store(&a->news, true);
	rdi_attach_wake(a);
	if (e->type != RDINIT_DEV_EVENT_PATH)
		return;
	if (e->path_state == RDINIT_DEV_PATH_LIVE) {
		if (told && a->lost_paths & bit)
			rdi_attach_say(a, "%s: path %d is connected again", a->info.name,
				       e->path + 1);
		a->lost_paths &= ~bit;
	} else if (e->path_state == RDINIT_DEV_PATH_WAITING ||
		   e->path_state == RDINIT_DEV_PATH_FAILED) {
		if (told)
			rdi_attach_say(a, "%s: %s", a->info.name, e->text);
		a->lost_paths |= bit;
	}
}

static void attach_write_file(struct rdi_attach *a)
{
	int rc = a->file.lock >= 0 ? rdi_attach_file_write(&a->file, &a->info) : 0;

	if (rc)
		rdi_attach_say(a, "%s: cannot write its file in %s: %s", a->info.name,
			       a->opts.state_dir, strerror(-rc));
}

static void attach_set_state(struct rdi_attach *a, enum rdi_attach_state state)
{
	if (a->info.state == state)
		return;
	a->info.state = state;
	attach_write_file(a);
}

/* The state of the device while it is attached. */
static enum rdi_attach_state state_of_dev(int dev_state)
{
	switch ((enum rdinit_dev_state)dev_state) {
	case RDINIT_DEV_WAITING:
		return RDI_ATTACH_WAITING;
	case RDINIT_DEV_FAILED:
	case RDINIT_DEV_CLOSED:
		return RDI_ATTACH_FAILED;
	default:
		return RDI_ATTACH_LIVE;
	}
}

static bool is_serving(const struct rdi_attach *a)
{
	return a->info.state == RDI_ATTACH_LIVE || a->info.state == RDI_ATTACH_WAITING ||
	       a->info.state == RDI_ATTACH_FAILED;
}

static void attach_resized(struct rdi_attach *a)
{
	struct rdinit_dev_info now;

	rdinit_dev_info_init(&now);
	if (rdinit_dev_get_info(a->dev, &now) || now.blocks == a->info.blocks)
		return;
	if (now.blocks < a->info.blocks)
		rdi_attach_say(a,
			       "%s: the namespace has become smaller, %llu blocks instead of %llu: "
			       "the data beyond them is lost",
			       a->info.name, (unsigned long long)now.blocks,
			       (unsigned long long)a->info.blocks);
	a->info.blocks = now.blocks;
	a->driver->resize(a);
	attach_write_file(a);
}

static void attach_news(struct rdi_attach *a)
{
	uint64_t n;

	if (read(a->wake, &n, sizeof(n)) < 0)
		return;
	if (atomic_exchange(&a->news, false) && is_serving(a))
		attach_set_state(a, state_of_dev(atomic_load(&a->dev_state)));
	if (is_serving(a) && atomic_load(&a->threads) == 0)
		a->stop = true; /* the kernel has ended the device: somebody else stopped it */
}

static void attach_signal(struct rdi_attach *a)
{
	struct signalfd_siginfo si;

	if (read(a->signals, &si, sizeof(si)) != sizeof(si))
		return;
	a->stop = true;
	/* While the device starts, its I/O may wait for a path; a start that was ended fails. */
	if (!a->aborted && (si.ssi_signo == ABORT_SIGNAL || a->info.state == RDI_ATTACH_STARTING)) {
		a->aborted = true;
		if (a->driver)
			a->driver->abort(a);
	}
}

bool rdi_attach_turn(struct rdi_attach *a, int fd)
{
	struct pollfd fds[] = {
		{.fd = a->signals, .events = POLLIN},
		{.fd = a->wake, .events = POLLIN},
		{.fd = fd, .events = POLLIN},
	};

	if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0)
		return false;
	if (fds[0].revents)
		attach_signal(a);
	if (fds[1].revents)
		attach_news(a);
	return fds[2].revents;
}

/* ---- what blocks ---- */

struct blocking {
	int (*fn)(void *arg);
	void *arg;
	int rc;
	int done; /* an eventfd */
};

static void *blocking_main(void *user)
{
	struct blocking *b = user;
	const uint64_t one = 1;

	b->rc = b->fn(b->arg);
	if (write(b->done, &one, sizeof(one)) < 0)
		b->rc = -errno;
	return NULL;
}

int rdi_attach_blocking(struct rdi_attach *a, int (*fn)(void *arg), void *arg)
{
	struct blocking b = {.fn = fn, .arg = arg, .done = eventfd(0, EFD_CLOEXEC)};
	pthread_t thread;

	if (b.done < 0)
		return -errno;
	b.rc = -pthread_create(&thread, NULL, blocking_main, &b);
	if (!b.rc) {
		while (!rdi_attach_turn(a, b.done))
			;
		pthread_join(thread, NULL);
	}
	close(b.done);
	return b.rc;
}

static int sync_device(void *arg)
{
	const struct rdi_attach *a = arg;
	char path[RDI_ATTACH_NAME + 8];
	int fd, rc;

	snprintf(path, sizeof(path), "/dev/%s", a->info.name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return 0; /* it is gone */
	rc = fsync(fd) ? -errno : 0;
	close(fd);
	return rc;
}

void rdi_attach_sync(struct rdi_attach *a)
{
	int rc = a->aborted || a->info.read_only ? 0 : rdi_attach_blocking(a, sync_device, a);

	if (rc && !a->aborted)
		rdi_attach_say(a, "%s: not all of its data could be written: %s", a->info.name,
			       strerror(-rc));
}

/* ---- the process ---- */

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* Whether memory may be locked without a limit. Beyond a limit later mappings would fail. */
static bool may_lock_all(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY)
		return true;
	return syscall(SYS_capget, &header, caps) == 0 && caps[0].effective & 1u << CAP_IPC_LOCK;
}

/* A process that the kernel waits for, to write back memory, must neither wait for memory itself
 * nor be ended when there is none. */
static void attach_memory(struct rdi_attach *a)
{
	static const char never[] = "-1000";
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, never, sizeof(never) - 1) < 0)
		a->no_flusher = errno;
	close_fd(fd);
	if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0))
		a->no_flusher = errno;
	/* Not what is never touched, such as most of the stacks. */
	if (!may_lock_all())
		a->no_lock = EPERM;
	else if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT))
		a->no_lock = errno;
}

static void attach_tell_memory(struct rdi_attach *a)
{
	if (a->no_flusher)
		rdi_attach_say(
			a,
			"%s: may hang when memory is short: this process cannot "
			"become an I/O flusher that is never killed for memory (%s): it needs "
			"CAP_SYS_RESOURCE",
			a->info.name, strerror(a->no_flusher));
	if (a->no_lock)
		rdi_attach_say(a,
			       "%s: may hang when memory is short: this process cannot be "
			       "locked in memory (%s): it needs CAP_IPC_LOCK, or no limit "
			       "(ulimit -l unlimited)",
			       a->info.name, strerror(a->no_lock));
}

static int attach_signals(struct rdi_attach *a)
{
	sigset_t set;
	size_t i;

	sigemptyset(&set);
	for (i = 0; i < sizeof(stop_signals) / sizeof(stop_signals[0]); i++)
		sigaddset(&set, stop_signals[i]);
	sigaddset(&set, ABORT_SIGNAL);
	if (sigprocmask(SIG_BLOCK, &set, &a->old_mask))
		return -errno;
	signal(SIGHUP, SIG_IGN);
	a->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	a->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return a->signals < 0 || a->wake < 0 ? -errno : 0;
}

int rdi_attach_create(const struct rdi_attach_opts *opts, struct rdi_attach **out)
{
	struct rdi_attach *a = calloc(1, sizeof(*a));
	int rc;

	*out = a;
	if (!a)
		return -ENOMEM;
	a->opts = *opts;
	a->file = (struct rdi_attach_file){.dir = -1, .lock = -1};
	a->dir_lock = a->signals = a->wake = -1;
	a->info.state = RDI_ATTACH_OPENING;
	rc = attach_signals(a);
	if (rc)
		rdi_attach_say(a, "cannot prepare for signals: %s", strerror(-rc));
	attach_memory(a);
	return rc;
}

void rdi_attach_free(struct rdi_attach *a)
{
	if (!a)
		return;
	close_fd(a->file.dir);
	close_fd(a->signals);
	close_fd(a->wake);
	free(a);
}

void rdi_attach_load_module(const char *name)
{
	char program[] = "modprobe", quiet[] = "-q", module[32];
	char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
	char *const argv[] = {program, quiet, module, NULL}, *const envp[] = {path, NULL};
	pid_t pid;

	snprintf(module, sizeof(module), "%s", name);
	if (posix_spawn(&pid, "/sbin/modprobe", NULL, NULL, argv, envp))
		return;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* ---- the namespace ---- */

static void opened(void *user, const struct rdinit_completion *c)
{
	struct rdi_attach *a = user;

	if (c->err)
		snprintf(a->why, sizeof(a->why), "%s", c->text);
	a->open_result = c->err;
	a->open_done = true;
}

/* Waits for the first path, or a signal. */
static int attach_open(struct rdi_attach *a)
{
	int rc = rdinit_dev_open_async(a->dev, opened, a);

	if (rc)
		snprintf(a->why, sizeof(a->why), "%s", rdinit_get_error());
	while (!rc && !a->open_done && !a->stop) {
		rdi_attach_turn(a, rdinit_dev_fd(a->dev));
		rdinit_dev_process(a->dev, 0);
	}
	if (!rc && !a->open_done)
		return rdi_attach_why(a->why, -EINTR, "ended by a signal");
	if (!rc)
		rc = a->open_result;
	rdinit_dev_info_init(&a->ns);
	if (!rc && rdinit_dev_get_info(a->dev, &a->ns)) {
		snprintf(a->why, sizeof(a->why), "%s", rdinit_get_error());
		rc = -EIO;
	}
	return rc;
}

static void attach_describe(struct rdi_attach *a)
{
	struct rdi_attach_info *i = &a->info;

	rdi_attach_limits_of(&a->ns, &a->limits);
	rdi_attach_id(&a->ns, i->id);
	snprintf(i->subnqn, sizeof(i->subnqn), "%s", a->ns.subnqn);
	i->nsid = a->ns.nsid;
	i->blocks = a->ns.blocks;
	i->block_size = a->ns.block_size;
	i->read_only = a->ns.read_only || a->opts.read_only;
}

/* ---- the state directory ---- */

struct same {
	const char *id;
	struct rdi_attach_info info;
	bool found;
};

static bool is_same(void *user, const struct rdi_attach_info *info)
{
	struct same *same = user;

	if (strcmp(info->id, same->id) != 0)
		return true;
	same->info = *info;
	same->found = true;
	return false;
}

/*
 * Looks whether the namespace is attached already. Returns 1 if a process left its device, which
 * is @old then, and can be taken over; 0 if not; -errno with a->why.
 */
static int attach_find(struct rdi_attach *a, struct rdi_attach_info *old)
{
	struct same same = {.id = a->info.id};
	const struct rdi_attach_driver *driver;
	int rc = rdi_attach_dir_each(a->file.dir, is_same, &same);

	if (rc < 0 || !same.found)
		return rc < 0 ? rc : 0;
	*old = same.info;
	if (old->pid)
		return rdi_attach_why(
			a->why, -EEXIST,
			"this namespace is attached already: it is /dev/%s, served by process %d",
			old->name, old->pid);
	driver = rdi_attach_driver_of(old->kind);
	if (driver && driver->can_recover(old))
		return 1;
	rc = driver ? driver->remove(old, a->why) : 0;
	if (!rc)
		rdi_attach_file_remove(a->file.dir, old->name);
	return rc;
}

int rdi_attach_claim(struct rdi_attach *a)
{
	int rc = rdi_attach_file_claim(&a->file, a->info.name, a->why);

	if (!rc)
		rc = rdi_attach_file_write(&a->file, &a->info);
	if (rc && a->file.lock >= 0)
		snprintf(a->why, sizeof(a->why), "cannot write %s/%s: %s", a->opts.state_dir,
			 a->info.name, strerror(-rc));
	close_fd(a->dir_lock);
	a->dir_lock = -1;
	return rc;
}

/* ---- drivers ---- */

/* Chooses the driver: the one that is asked for, that of @old, or the first that works. */
static int attach_choose(struct rdi_attach *a, const struct rdi_attach_info *old)
{
	enum rdi_attach_kind kind = old ? old->kind : a->opts.kind;
	char why[RDI_ATTACH_TEXT];
	int rc = -ENODEV;
	size_t i, at = 0;

	for (i = 0; rc && i < DRIVERS; i++) {
		if (kind != RDI_ATTACH_AUTO && kind != drivers[i]->kind)
			continue;
		rc = drivers[i]->probe(a, why);
		if (!rc)
			a->driver = drivers[i];
		else if (at < sizeof(a->why))
			at += (size_t)snprintf(a->why + at, sizeof(a->why) - at, "%s%s",
					       at ? "; " : "", why);
	}
	if (rc && !at)
		snprintf(a->why, sizeof(a->why), "this rdinit was built without the driver %s",
			 rdi_attach_kind_name(kind));
	if (a->driver)
		a->info.kind = a->driver->kind;
	return rc;
}

static int attach_start(struct rdi_attach *a)
{
	struct rdi_attach_info old;
	int rc = rdi_attach_dir_open(a->opts.state_dir, true, a->why), found;

	if (rc < 0)
		return rc;
	a->file.dir = rc;
	a->dir_lock = rdi_attach_dir_lock(a->file.dir, a->why);
	if (a->dir_lock < 0)
		return a->dir_lock;
	found = attach_find(a, &old);
	if (found < 0)
		return found;
	a->info.state = RDI_ATTACH_STARTING;
	rc = attach_choose(a, found ? &old : NULL);
	if (!rc)
		rc = a->driver->start(a, found ? &old : NULL);
	if (!rc && a->aborted)
		rc = rdi_attach_why(a->why, -EINTR, "ended by a signal");
	if (!rc && found)
		rdi_attach_say(a, "%s: taken over from a process that has ended", a->info.name);
	return rc;
}

/* ---- life ---- */

/* Which paths are not connected: what happened to them came before the device was attached. */
static void attach_tell_paths(struct rdi_attach *a)
{
	struct rdinit_dev_path_info path;
	unsigned int i;

	atomic_store(&a->attached, true);
	for (i = 0; i < a->ns.paths; i++) {
		rdinit_dev_path_info_init(&path);
		if (rdinit_dev_get_path(a->dev, i, &path) == 0 &&
		    (path.state == RDINIT_DEV_PATH_WAITING || path.state == RDINIT_DEV_PATH_FAILED))
			rdi_attach_say(a, "%s: %s; it is attached without this path", a->info.name,
				       path.text);
	}
}

static void attach_ready(struct rdi_attach *a)
{
	char device[RDI_ATTACH_NAME + 8];

	attach_set_state(a, state_of_dev(atomic_load(&a->dev_state)));
	/* To the person who attaches it. */
	attach_tell_paths(a);
	attach_tell_memory(a);
	snprintf(device, sizeof(device), "/dev/%s", a->info.name);
	if (!a->opts.foreground) {
		openlog("rdinit", LOG_PID, LOG_DAEMON);
		a->to_syslog = true;
	}
	a->opts.ready(a->opts.user, device);
	notify_service("READY=1");
}

static void attach_serve(struct rdi_attach *a)
{
	while (!a->stop) {
		/* Also after a start during which the namespace was resized. */
		if (atomic_exchange(&a->resized, false))
			attach_resized(a);
		rdi_attach_turn(a, -1);
	}
	notify_service("STOPPING=1");
	attach_set_state(a, RDI_ATTACH_STOPPING);
}

static void attach_end(struct rdi_attach *a)
{
	bool usable = !a->aborted && a->open_done && !a->open_result, gone;

	gone = !a->driver || a->driver->stop(a);
	a->info.state = gone ? RDI_ATTACH_ENDED : RDI_ATTACH_LEFT;
	rdi_attach_file_end(&a->file, gone);
	close_fd(a->dir_lock);
	a->dir_lock = -1;
	if (usable)
		rdinit_dev_close(a->dev);
	rdinit_dev_free(&a->dev);
}

int rdi_attach_run(struct rdi_attach *a, struct rdinit_dev *dev)
{
	int rc;

	a->dev = dev;
	rc = attach_open(a);
	if (!rc) {
		attach_describe(a);
		rc = attach_start(a);
	}
	if (rc) {
		rdi_attach_say(a, "%s", a->why);
	} else {
		attach_ready(a);
		attach_serve(a);
	}
	attach_end(a);
	return rc;
}
