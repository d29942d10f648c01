/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Modules: backends in separate shared objects, which are loaded when a configuration uses them, so
 * that rdtarget runs without the libraries that they need.
 *
 * A module is rdtarget-NAME.so, with NAME as in "backend: NAME". It is searched for beside the
 * program, then in the installation directory. It is never unloaded.
 */
#ifndef RDT_MODULE_H
#define RDT_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend.h"
#include "target/config/config.h"

struct rdt_module {
	void *ctx; /* the module's context, passed to all calls */
	/* As rdt_bdev_open(), rdt_bdev_probe() and rdt_bdev_released(). @told: of struct
	 * rdt_bdev_from */
	int (*open)(void *ctx, const struct rdt_ns_config *cfg, const struct rdt_bdev_told *told,
		    struct rd_log *log, struct rdt_bdev **out, char *err, size_t err_size);
	int (*probe)(void *ctx, const struct rdt_ns_config *cfg, char *err, size_t err_size);
	bool (*released)(void *ctx, const struct rdt_ns_config *cfg);
	/*
	 * Called after all backends were closed: waits at most @timeout_ns for their background
	 * work, then frees @ctx. Returns false if work is left: then @ctx is not freed, threads
	 * still run, and the process must end by _exit(2).
	 */
	bool (*finish)(void *ctx, uint64_t timeout_ns);
};

/* The interface version, and functions of rdtarget that modules call. */
struct rdt_module_abi {
	const char *version;
	size_t bdev_size;
	size_t bio_size;
	size_t config_size;
	struct rd_loop *(*engines_loop)(const struct rdt_engines *engines);
	/* rdt_bdev_sync_error() */
	int (*sync_error)(struct rdt_bdev *bdev, struct rd_log *log, const char *what, int err,
			  bool after_write);
};
#define RDT_MODULE_ABI                                       \
	((struct rdt_module_abi){                            \
		.version = RDT_VERSION,                      \
		.bdev_size = sizeof(struct rdt_bdev),        \
		.bio_size = sizeof(struct rdt_bio),          \
		.config_size = sizeof(struct rdt_ns_config), \
	})

static inline bool rdt_module_abi_same(const struct rdt_module_abi *a,
				       const struct rdt_module_abi *b)
{
	return rdt_config_same_text(a->version, b->version) && a->bdev_size == b->bdev_size &&
	       a->bio_size == b->bio_size && a->config_size == b->config_size;
}

/* The one symbol of a module, RDT_MODULE_SYMBOL. Returns 0, -EPROTO when @abi is of another build,
 * or -ENOMEM. */
int rdt_module_init(const struct rdt_module_abi *abi, struct rdt_module *out);
typedef int (*rdt_module_init_fn)(const struct rdt_module_abi *abi, struct rdt_module *out);
#define RDT_MODULE_SYMBOL "rdt_module_init"

/* The modules of a process. */
struct rdt_modules;

/* Returns 0 or -ENOMEM. */
int rdt_modules_create(struct rdt_modules **out);
/*
 * Call after all backends were closed. Waits at most @timeout_ns for the modules to finish, and
 * frees @modules. Returns false if a module could not finish: see rdt_module.finish. Accepts NULL.
 */
bool rdt_modules_free(struct rdt_modules **modules, uint64_t timeout_ns);

/* Loads the module of @backend, once. Returns 0, or -errno with a message in @err. Any thread. */
int rdt_module_load(struct rdt_modules *modules, enum rdt_backend_type backend,
		    const struct rdt_module **out, char *err, size_t err_size);

#endif /* RDT_MODULE_H */
