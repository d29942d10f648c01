/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into nbdkit: tells which threads outlive the plugin.
 *
 *   When the plugin is unloaded, a line on stderr has the number of threads that it and librdinit
 *   have started, and that have not ended.
 *   LEAVE=1     then the process ends, without exit handlers
 *   RESOLVE=F   while the file F exists, getaddrinfo(3) does not return; the file F.in is made when
 *               it begins to wait
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define PLUGIN "nbdkit-rdinit-plugin"

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
			  void *arg);
EXPORT int dlclose(void *handle);
EXPORT int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **res);

enum starter { BY_PLUGIN, BY_LIBRARY, BY_OTHERS };

struct started {
	void *(*start)(void *);
	void *arg;
	enum starter by;
};

static atomic_int alive[BY_OTHERS];

static void *run(void *arg)
{
	struct started s = *(struct started *)arg;
	void *result;

	free(arg);
	result = s.start(s.arg);
	atomic_fetch_sub(&alive[s.by], 1);
	return result;
}

static enum starter starter_of(void *(*start)(void *))
{
	Dl_info info;

	if (!dladdr(*(void **)&start, &info) || !info.dli_fname)
		return BY_OTHERS;
	return strstr(info.dli_fname, PLUGIN)         ? BY_PLUGIN
	       : strstr(info.dli_fname, "librdinit.") ? BY_LIBRARY
						      : BY_OTHERS;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	enum starter by = starter_of(start);
	struct started *s;
	int rc;

	*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	if (by == BY_OTHERS)
		return real(thread, attr, start, arg);
	s = malloc(sizeof(*s));
	if (!s)
		abort();
	*s = (struct started){.start = start, .arg = arg, .by = by};
	atomic_fetch_add(&alive[by], 1);
	rc = real(thread, attr, run, s);
	if (rc) {
		atomic_fetch_sub(&alive[by], 1);
		free(s);
	}
	return rc;
}

int dlclose(void *handle)
{
	int (*real)(void *);
	struct link_map *map = NULL;
	int rc;

	*(void **)&real = dlsym(RTLD_NEXT, "dlclose");
	if (dlinfo(handle, RTLD_DI_LINKMAP, &map) || !map || !strstr(map->l_name, PLUGIN))
		return real(handle);
	dprintf(STDERR_FILENO, "unloaded: %d threads of the plugin, %d of librdinit\n",
		atomic_load(&alive[BY_PLUGIN]), atomic_load(&alive[BY_LIBRARY]));
	rc = real(handle);
	if (getenv("LEAVE"))
		_exit(0);
	return rc;
}

static void wait_while(const char *file)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	char name[512];
	int fd;

	snprintf(name, sizeof(name), "%s.in", file);
	fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
	while (access(file, F_OK) == 0)
		nanosleep(&pause, NULL);
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		struct addrinfo **res)
{
	const char *file = getenv("RESOLVE");
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

	*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
	if (file && access(file, F_OK) == 0)
		wait_while(file);
	return real(node, service, hints, res);
}
