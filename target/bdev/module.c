/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine.h"
#include "module.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rdt_modules {
	pthread_mutex_t lock;
	struct rdt_module kinds[RDT_BACKENDS]; /* not loaded: @open is NULL */
};

int rdt_modules_create(struct rdt_modules **out)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	pthread_mutex_init(&(*out)->lock, NULL);
	return 0;
}

bool rdt_modules_free(struct rdt_modules **modules, uint64_t timeout_ns)
{
	struct rdt_modules *m = *modules;
	bool finished = true;

	if (!m)
		return true;
	for (unsigned int i = 0; i < RDT_BACKENDS; i++)
		if (m->kinds[i].open)
			finished &= m->kinds[i].finish(m->kinds[i].ctx, timeout_ns);
	pthread_mutex_destroy(&m->lock);
	free(m);
	*modules = NULL;
	return finished;
}

/* The file beside the program, as in a build directory; otherwise the installed one. */
static void module_path(const char *name, char *path, size_t size)
{
	char self[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (len > 0) {
		self[len] = '\0';
		slash = strrchr(self, '/');
		if (slash)
			*slash = '\0';
		if (slash && snprintf(path, size, "%s/rdtarget-%s.so", self, name) < (int)size &&
		    access(path, F_OK) == 0)
			return;
	}
	snprintf(path, size, "%s/rdtarget-%s.so", RDT_MODULE_DIR, name);
}

/* A module is never unloaded, because its libraries have threads and exit handlers. */
static int load_module(const char *name, struct rdt_module *out, char *err, size_t err_size)
{
	struct rdt_module_abi abi = RDT_MODULE_ABI;
	struct rdt_module module = {0};
	rdt_module_init_fn init;
	char path[PATH_MAX];
	void *handle;
	int rc;

	abi.engines_loop = rdt_engines_loop;
	abi.sync_error = rdt_bdev_sync_error;
	module_path(name, path, sizeof(path));
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!handle) {
		snprintf(err, err_size,
			 "backend %s: cannot load its module: %s; install the package "
			 "rdtarget-%s, or build rdtarget where lib%s's headers are installed",
			 name, dlerror(), name, name);
		return -ENOENT;
	}
	init = (rdt_module_init_fn)dlsym(handle, RDT_MODULE_SYMBOL);
	rc = init ? init(&abi, &module) : -EPROTO;
	if (rc == -EPROTO)
		snprintf(err, err_size,
			 "backend %s: the module %s is not of this version of rdtarget (%s); "
			 "install both from the same build",
			 name, path, RDT_VERSION);
	else if (rc)
		snprintf(err, err_size, "backend %s: %s", name, strerror(-rc));
	else
		*out = module;
	if (rc)
		dlclose(handle);
	return rc;
}

int rdt_module_load(struct rdt_modules *modules, enum rdt_backend_type backend,
		    const struct rdt_module **out, char *err, size_t err_size)
{
	const char *name = rdt_config_backend_name(backend);
	int rc = 0;

	*out = NULL;
	if (!modules || (unsigned int)backend >= RDT_BACKENDS) {
		snprintf(err, err_size, "backend %s: this build has no modules", name);
		return -ENOTSUP;
	}
	pthread_mutex_lock(&modules->lock);
	if (!modules->kinds[backend].open)
		rc = load_module(name, &modules->kinds[backend], err, err_size);
	pthread_mutex_unlock(&modules->lock);
	if (!rc)
		*out = &modules->kinds[backend];
	return rc;
}
