/* SPDX-License-Identifier: BSD-3-Clause */
#include "self.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/cleanup.h"

int rdt_self_init(struct rdt_self *self)
{
	/* Not /proc/self/exe: that is the file that was executed, even if another one has replaced
	 * it at that path, or a symbolic link was changed. */
	const char *path = (const char *)(uintptr_t)getauxval(AT_EXECFN);
	rd_autofree char *cwd = NULL;

	*self = (struct rdt_self){.io.fd = -1};
	if (!path || !path[0])
		return -ENOENT;
	if (path[0] == '/') {
		self->path = strdup(path);
		return self->path ? 0 : -ENOMEM;
	}
	cwd = getcwd(NULL, 0);
	if (!cwd)
		return -errno;
	if (asprintf(&self->path, "%s/%s", cwd, path) < 0)
		self->path = NULL;
	return self->path ? 0 : -ENOMEM;
}

static void stop_watching(struct rdt_self *self)
{
	if (self->io.fd < 0)
		return;
	rd_io_del(self->loop, &self->io);
	close(self->io.fd);
	self->io.fd = -1;
}

void rdt_self_fini(struct rdt_self *self)
{
	stop_watching(self);
	free(self->path);
	self->path = NULL;
}

static void child_ended(struct rd_io *io, uint32_t events)
{
	struct rdt_self *self = rd_container_of(io, struct rdt_self, io);
	int status;

	if (waitpid(self->pid, &status, WNOHANG) != self->pid)
		return;
	stop_watching(self);
	self->pid = 0;
	if (self->ended)
		self->ended(self->arg, status);
}

/* Removes WATCHDOG_PID, which names this process: the child feeds the watchdog instead. */
static char **child_environment(void)
{
	size_t n = 0, at = 0;
	char **env;

	while (environ[n])
		n++;
	env = calloc(n + 1, sizeof(*env));
	for (size_t i = 0; env && i < n; i++)
		if (strncmp(environ[i], "WATCHDOG_PID=", strlen("WATCHDOG_PID=")) != 0)
			env[at++] = environ[i];
	return env;
}

static int watch_child(struct rdt_self *self, struct rd_loop *loop)
{
	int fd = (int)syscall(SYS_pidfd_open, self->pid, 0), err;

	if (fd < 0)
		return -errno;
	self->loop = loop;
	err = rd_io_add(loop, &self->io, fd, EPOLLIN, child_ended);
	if (!err)
		return 0;
	self->io.fd = -1;
	close(fd);
	return err;
}

int rdt_self_start(struct rdt_self *self, struct rd_loop *loop, const char *const *argv, char *why,
		   size_t size)
{
	rd_autofree char **env = child_environment();
	int err = env && self->path ? 0 : ENOMEM;

	if (self->pid) {
		snprintf(why, size,
			 "process %d, which was started before, has not ended yet; try again",
			 (int)self->pid);
		return -EBUSY;
	}
	/* Shares this process's memory until exec, so that nothing is copied. */
	if (!err)
		err = posix_spawn(&self->pid, self->path, NULL, NULL, (char *const *)argv, env);
	if (err) {
		self->pid = 0;
		snprintf(why, size, "cannot start %s: %s", self->path ? self->path : "rdtarget",
			 strerror(err));
		return -err;
	}
	err = watch_child(self, loop);
	if (err) {
		snprintf(why, size, "cannot watch process %d: %s", (int)self->pid, strerror(-err));
		kill(self->pid, SIGKILL);
		waitpid(self->pid, NULL, 0);
		self->pid = 0;
	}
	return err;
}

void rdt_self_kill(const struct rdt_self *self)
{
	if (self->pid)
		kill(self->pid, SIGKILL);
}
