/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices: options and lifetime, from adding paths until all paths have ended. State and events are
 * in dev_state.c, paths in dev_path.c, channels in dev_chan.c.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include <uuid/uuid.h>

#include "auth.h"
#include "dev.h"

#define QUEUE_SIZE_DEFAULT 128
#define IO_TIMEOUT_MS      30000
#define RECONNECT_DELAY_MS 10000
#define CTRL_LOSS_TMO_MS   600000
#define CLOSE_NS           (5 * RD_NSEC_PER_SEC)

/* ---- the lock ---- */

int rdi_dev_lock(struct rdinit_dev *dev, const char *func)
{
	if (rdi_is_foreign(RDI_HANDLE(dev)))
		return rdi_foreign(RDI_HANDLE(dev), func);
	if (pthread_mutex_lock(&dev->lock))
		return rdi_fail(func, -EDEADLK, "called from an event callback of the device");
	return 0;
}

void rdi_dev_unlock(struct rdinit_dev *dev)
{
	pthread_mutex_unlock(&dev->lock);
}

/* ---- paths ---- */

#define RDMA_HAS_NO_TLS                                                                         \
	"tls is set, and %s, port %s, is NVMe/RDMA, which has no TLS: connect by nvme+tcp://, " \
	"or leave the key out"

int rdi_dev_add_path(struct rdinit_dev *dev, const struct rdinit_uri *uri, const char *host_traddr,
		     const char *func)
{
	unsigned int i, n = atomic_load(&dev->n_paths);
	struct sockaddr_storage local;

	if (host_traddr && rd_addr_parse(host_traddr, 0, &local))
		return rdi_fail(func, -EINVAL,
				"host_traddr \"%s\" is not a numeric address, such as 192.0.2.1",
				host_traddr);
	if (!uri->traddr[0] || !uri->subnqn[0])
		return rdi_fail(func, -EINVAL,
				"the URI of a path needs an address and a subsystem NQN: "
				"nvme+rdma://HOST[:PORT]/SUBNQN[/NSID]");
	if (dev->tls && !uri->tcp)
		return rdi_fail(func, -EINVAL, RDMA_HAS_NO_TLS, uri->traddr, uri->trsvcid);
	if (n && strcmp(dev->paths[0]->uri.subnqn, uri->subnqn) != 0)
		return rdi_fail(func, -EINVAL,
				"all paths lead to the same subsystem: expected %s, found %s",
				dev->paths[0]->uri.subnqn, uri->subnqn);
	for (i = 0; i < n; i++) {
		if (rdi_path_is_same(dev->paths[i], uri, host_traddr))
			return rdi_fail(func, -EEXIST,
					"the path to %s, port %s, is given twice: give each path "
					"once",
					uri->traddr, uri->trsvcid);
	}
	if (n == RDINIT_DEV_PATHS_MAX)
		return rdi_fail(func, -ENOSPC, "a device has at most %u paths",
				RDINIT_DEV_PATHS_MAX);
	if (atomic_load(&dev->state) == RDINIT_DEV_CLOSED)
		return rdi_fail(func, -ESHUTDOWN, "the device is closed");
	if (rdi_path_create(dev, uri, host_traddr, &dev->paths[n]))
		return rdi_fail(func, -ENOMEM, "out of memory");
	dev->paths[n]->index = n;
	atomic_store(&dev->n_paths, n + 1);
	if (atomic_load(&dev->state) != RDINIT_DEV_NEW)
		rdi_path_start(dev->paths[n]);
	return (int)n;
}

/* rdi_dev_lock(), and copies the caller's @uri, which may be of an older size, to @all. */
static int dev_lock_for_uri(struct rdinit_dev *dev, const char *func, const struct rdinit_uri *uri,
			    struct rdinit_uri *all)
{
	int rc = RDI_CHECK_SIZE(func, uri, rdinit_uri, RDI_URI_FIRST);

	if (rc)
		return rc;
	rdi_put_sized(all, sizeof(*all), uri, uri->size);
	return rdi_dev_lock(dev, func);
}

int rdinit_dev_add_path(struct rdinit_dev *dev, const struct rdinit_uri *uri,
			const char *host_traddr)
{
	struct rdinit_uri all;
	int rc = dev_lock_for_uri(dev, __func__, uri, &all);

	if (rc)
		return rc;
	rc = rdi_dev_add_path(dev, &all, host_traddr, __func__);
	rdi_dev_unlock(dev);
	return rc;
}

int rdinit_dev_add_discovery(struct rdinit_dev *dev, const struct rdinit_uri *uri,
			     const char *host_traddr)
{
	struct rdinit_uri all;
	int rc = dev_lock_for_uri(dev, __func__, uri, &all);

	if (rc)
		return rc;
	if (!all.traddr[0] || !all.subnqn[0])
		rc = rdi_fail(__func__, -EINVAL,
			      "the URI needs the address of a discovery controller and the NQN of "
			      "the subsystem: nvme+rdma://HOST[:PORT]/SUBNQN[/NSID]");
	else if (dev->tls && !all.tcp)
		rc = rdi_fail(__func__, -EINVAL, RDMA_HAS_NO_TLS, all.traddr, all.trsvcid);
	else if (dev->discovery || atomic_load(&dev->state) != RDINIT_DEV_NEW)
		rc = rdi_fail(__func__, -EINVAL,
			      dev->discovery ? "the device has a discovery controller already"
					     : "the device was opened already");
	else if (rdi_discovery_create(dev, &all, host_traddr, &dev->discovery))
		rc = rdi_fail(__func__, -ENOMEM, "out of memory");
	rdi_dev_unlock(dev);
	return rc;
}

int rdinit_dev_reconnect(struct rdinit_dev *dev)
{
	int state, rc = rdi_dev_lock(dev, __func__);
	unsigned int i;

	if (rc)
		return rc;
	state = atomic_load(&dev->state);
	if (state == RDINIT_DEV_NEW || state == RDINIT_DEV_CLOSED)
		rc = rdi_fail(__func__, -ESHUTDOWN, "the device is %s, not open",
			      rdinit_dev_state_name((enum rdinit_dev_state)state));
	for (i = 0; !rc && i < atomic_load(&dev->n_paths); i++)
		rdi_path_start(dev->paths[i]);
	if (!rc && dev->discovery)
		rdi_discovery_start(dev->discovery);
	rdi_dev_unlock(dev);
	return rc;
}

int rdinit_dev_set_auth(struct rdinit_dev *dev, const struct rdinit_auth_opts *opts)
{
	struct rdi_auth_keys *keys;
	unsigned int i;
	int rc = rdi_auth_keys_create(__func__, opts, &keys);

	if (!rc)
		rc = rdi_dev_lock(dev, __func__);
	if (rc) {
		rdi_auth_keys_unref(&keys);
		return rc;
	}
	rdi_auth_keys_unref(&dev->auth);
	dev->auth = keys;
	/* The queues of channels belong to these controllers. */
	for (i = 0; i < atomic_load(&dev->n_paths); i++) {
		struct rdinit_ctrl *ctrl = dev->paths[i]->ctrl;

		if (ctrl) {
			rdi_auth_keys_unref(&ctrl->auth);
			ctrl->auth = rdi_auth_keys_ref(keys);
		}
	}
	rdi_dev_unlock(dev);
	return 0;
}

int rdinit_dev_set_tls(struct rdinit_dev *dev, const struct rdinit_tls_opts *opts)
{
	struct rdi_tls *tls;
	int rc = rdi_tls_create(__func__, opts, &tls);

	if (rc)
		return rc;
	rc = rdi_dev_lock(dev, __func__);
	if (rc) {
		rdi_tls_unref(&tls);
		return rc;
	}
	if (dev->tls) {
		rdi_tls_unref(&dev->tls);
		dev->tls = tls;
	} else {
		rdi_tls_unref(&tls);
		rc = rdi_fail(__func__, -EINVAL,
			      "the device was made without TLS: set tls of its controllers' "
			      "options");
	}
	rdi_dev_unlock(dev);
	return rc;
}

/* ---- opening and processing ---- */

/* An option that no path of the device can have would be ignored for ever. */
static int dev_check_transport_opts(struct rdinit_dev *dev)
{
	struct rdinit_ctrl_opts opts = dev->ctrl_opts;
	unsigned int i, n = atomic_load(&dev->n_paths);
	bool rdma = dev->discovery && !rdi_discovery_tcp(dev->discovery);
	bool tcp = dev->discovery && !rdma;

	for (i = 0; i < n; i++) {
		rdma |= !dev->paths[i]->uri.tcp;
		tcp |= dev->paths[i]->uri.tcp;
	}
	opts.tcp = tcp;
	return rdma && tcp ? 0 : rdi_check_transport_opts("rdinit_dev_open", &opts);
}

int rdinit_dev_open_async(struct rdinit_dev *dev, rdinit_complete_fn fn, void *user)
{
	int rc = rdi_dev_lock(dev, "rdinit_dev_open");
	unsigned int i, n;

	if (rc)
		return rc;
	n = atomic_load(&dev->n_paths);
	if (!fn)
		rc = rdi_fail("rdinit_dev_open", -EINVAL, "fn is NULL");
	else if (atomic_load(&dev->state) != RDINIT_DEV_NEW)
		rc = rdi_fail("rdinit_dev_open", -EINVAL, "the device was opened already");
	else if (n == 0 && !dev->discovery)
		rc = rdi_fail("rdinit_dev_open", -EINVAL,
			      "the device has no path: call rdinit_dev_add_path() first");
	else
		rc = dev_check_transport_opts(dev);
	if (!rc) {
		dev->open_fn = fn;
		dev->open_user = user;
		atomic_store(&dev->state, RDINIT_DEV_OPENING);
		for (i = 0; i < n; i++)
			rdi_path_start(dev->paths[i]);
		if (dev->discovery)
			rdi_discovery_start(dev->discovery);
	}
	rdi_dev_unlock(dev);
	return rc;
}

/* Sleeps on the loop's descriptor without the lock, then does one iteration. */
static int dev_process(struct rdinit_dev *dev, const char *func, int timeout_ms)
{
	struct pollfd pfd = {.fd = rd_loop_fd(dev->h.loop), .events = POLLIN};
	int rc;

	if (timeout_ms && poll(&pfd, 1, timeout_ms) < 0 && errno != EINTR)
		return rdi_fail(func, -errno, "poll: %s", strerror(errno));
	rc = rdi_dev_lock(dev, func);
	if (rc)
		return rc;
	rc = rd_loop_turn(dev->h.loop, 0);
	rdi_dev_unlock(dev);
	return rc < 0 ? rdi_fail(func, rc, "%s", strerror(-rc)) : 0;
}

void rdi_dev_try_turn(struct rdinit_dev *dev)
{
	if (pthread_mutex_trylock(&dev->lock))
		return; /* the thread that holds the lock does the iteration */
	rd_loop_turn(dev->h.loop, 0);
	rdi_dev_unlock(dev);
}

int rdinit_dev_open(struct rdinit_dev *dev)
{
	struct rdi_sync sync = {.done = false};
	int rc = rdinit_dev_open_async(dev, rdi_sync_done, &sync);

	if (rc)
		return rc;
	while (!rc && !sync.done)
		rc = dev_process(dev, __func__, -1);
	if (!sync.done) {
		pthread_mutex_lock(&dev->lock);
		dev->open_fn = NULL; /* @sync must not be used after this */
		pthread_mutex_unlock(&dev->lock);
		return rc;
	}
	return sync.c.err ? rdi_fail_completion(__func__, &sync.c) : 0;
}

int rdinit_dev_fd(const struct rdinit_dev *dev)
{
	return dev ? rd_loop_fd(dev->h.loop) : rdi_no_handle(__func__);
}

int rdinit_dev_process(struct rdinit_dev *dev, int timeout_ms)
{
	return dev ? dev_process(dev, __func__, timeout_ms) : rdi_no_handle(__func__);
}

/* ---- life ---- */

void rdinit_dev_opts_init_size(struct rdinit_dev_opts *opts, size_t size)
{
	const struct rdinit_dev_opts defaults = {
		.policy = RDINIT_DEV_ROUND_ROBIN,
		.channels = 1,
		.queue_size = QUEUE_SIZE_DEFAULT,
		.io_timeout_ms = IO_TIMEOUT_MS,
		.reconnect_delay_ms = RECONNECT_DELAY_MS,
		.ctrl_loss_tmo_ms = CTRL_LOSS_TMO_MS,
		.fast_io_fail_tmo_ms = RDINIT_DEV_NEVER,
	};

	rdi_put_sized(opts, size, &defaults, sizeof(defaults));
}

static int dev_check_opts(const char *func, const struct rdinit_dev_opts *o)
{
	if (o->policy > RDINIT_DEV_FAILOVER)
		return rdi_fail(func, -EINVAL,
				"policy is %d, expected one of RDINIT_DEV_ROUND_ROBIN, "
				"RDINIT_DEV_QUEUE_DEPTH and RDINIT_DEV_FAILOVER",
				(int)o->policy);
	if (o->channels < 1 || o->channels > 1024)
		return rdi_fail(func, -EINVAL, "channels is %u, expected 1 to 1024", o->channels);
	if (o->queue_size < 2 || o->queue_size > 1024)
		return rdi_fail(func, -EINVAL, "queue_size is %u, expected 2 to 1024",
				o->queue_size);
	if (o->io_timeout_ms == 0 || o->reconnect_delay_ms == 0)
		return rdi_fail(func, -EINVAL, "%s is 0, expected milliseconds, from 1",
				o->io_timeout_ms ? "reconnect_delay_ms" : "io_timeout_ms");
	if (o->fast_io_fail_tmo_ms != RDINIT_DEV_NEVER &&
	    o->fast_io_fail_tmo_ms > o->ctrl_loss_tmo_ms)
		return rdi_fail(func, -EINVAL,
				"fast_io_fail_tmo_ms (%u) is longer than ctrl_loss_tmo_ms (%u), by "
				"which time the paths have failed",
				o->fast_io_fail_tmo_ms, o->ctrl_loss_tmo_ms);
	if (o->pool_bytes > UINT32_MAX)
		return rdi_fail(func, -EINVAL, "pool_bytes is %zu, expected less than 4 GiB",
				o->pool_bytes);
	if (o->ctrl && o->ctrl->keep_alive_tmo_ms == 0)
		return rdi_fail(func, -EINVAL,
				"keep_alive_tmo_ms is 0, expected at least 100: a device needs "
				"keep-alive to know when a lost write can no longer be executed");
	return 0;
}

/* String number @n of those that a device copies; NULL: there are no more. */
static const char **dev_string(struct rdinit_ctrl_opts *o, unsigned int i)
{
	const char **strings[] = {&o->hostnqn,  &o->hostid,     &o->host_traddr,
				  &o->provider, &o->congestion, &o->log_spec};

	return i < sizeof(strings) / sizeof(strings[0]) ? strings[i] : NULL;
}

/* Replaces the strings, which may be NULL, by copies. */
static int dev_take_strings(struct rdinit_ctrl_opts *o)
{
	const char **string;
	unsigned int i;
	int rc = 0;

	for (i = 0; (string = dev_string(o, i)); i++) {
		if (!*string)
			continue;
		*string = strdup(*string);
		if (!*string)
			/* continue: the destructor frees each string, so each must be ours or
			 * NULL */
			rc = -ENOMEM;
	}
	return rc;
}

static void dev_free_strings(struct rdinit_ctrl_opts *o)
{
	const char **string;
	unsigned int i;

	for (i = 0; (string = dev_string(o, i)); i++)
		free((void *)(uintptr_t)*string);
}

static void dev_destroy(struct rdinit_dev *dev)
{
	unsigned int i, n = atomic_load(&dev->n_paths);

	rdi_discovery_free(&dev->discovery);
	for (i = 0; i < n; i++)
		rdi_path_free(&dev->paths[i]);
	if (dev->h.loop)
		/* resolver messages that are still queued free their resolvers */
		rd_loop_turn(dev->h.loop, 0);
	rdi_handle_close(&dev->h);
	dev_free_strings(&dev->ctrl_opts);
	rdi_auth_keys_unref(&dev->auth);
	rdi_tls_unref(&dev->tls);
	rdi_guards_fini(&dev->guards);
	pthread_mutex_destroy(&dev->lock);
	free(dev);
}

void rdi_dev_let_go(struct rdinit_dev *dev, bool channel)
{
	bool last;

	pthread_mutex_lock(&dev->lock);
	dev->n_chans -= channel;
	if (!channel) {
		/* From here on the device exists for its channels only. */
		dev->released = true;
		dev->opts.event_fn = NULL;
		rdi_dev_report_open(dev, -ECANCELED, 0, "the device was freed");
	}
	last = dev->released && dev->n_chans == 0;
	pthread_mutex_unlock(&dev->lock);
	if (last)
		dev_destroy(dev);
}

void rdinit_dev_free(struct rdinit_dev **dev)
{
	struct rdinit_dev *d;

	if (!dev || !*dev)
		return;
	d = *dev;
	*dev = NULL;
	if (!rdi_is_foreign(&d->h))
		rdi_dev_let_go(d, false);
}

/* An error-checking mutex detects that its thread holds it: event callbacks may call this
 * library. */
static void dev_lock_init(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

static void dev_take_opts(struct rdinit_dev *dev, const struct rdinit_dev_opts *opts)
{
	const struct rdinit_ctrl_opts *ctrl = opts->ctrl;
	const char *spec = getenv("RDINIT_DEBUG");

	dev->opts = *opts;
	dev->opts.ctrl = NULL;
	rdinit_ctrl_opts_init(&dev->ctrl_opts);
	if (ctrl) {
		memcpy(&dev->ctrl_opts, ctrl, ctrl->size);
		dev->ctrl_opts.size = sizeof(dev->ctrl_opts);
	}
	if (!dev->ctrl_opts.log_spec && spec && *spec)
		dev->ctrl_opts.log_spec = spec;
	if (dev->ctrl_opts.keep_alive_tmo_ms == UINT32_MAX)
		dev->ctrl_opts.keep_alive_tmo_ms = RDI_KATO_DEFAULT_MS;
}

static void dev_take_log(struct rdinit_dev *dev)
{
	dev->log_cfg = (struct rdi_log_cfg){
		.spec = (char *)(uintptr_t)dev->ctrl_opts.log_spec,
		.fd = dev->ctrl_opts.log_fd,
		.fn = dev->ctrl_opts.log_fn,
		.user = dev->ctrl_opts.log_user,
	};
}

/* All paths and connections come as the same host, also if its identity is random or the files
 * that have it change meanwhile. */
static int dev_keep_identity(struct rdinit_dev *dev, const struct rdi_host *host)
{
	char id[UUID_STR_LEN];

	uuid_unparse_lower(host->id, id);
	if (!dev->ctrl_opts.hostid)
		dev->ctrl_opts.hostid = strdup(id);
	if (!dev->ctrl_opts.hostnqn)
		dev->ctrl_opts.hostnqn = strdup(host->nqn);
	if (!dev->ctrl_opts.hostid || !dev->ctrl_opts.hostnqn)
		return rdi_fail("rdinit_dev_create", -ENOMEM, "out of memory");
	return 0;
}

/* What the controllers of paths would refuse, each time that a path is connected, is refused now.
 */
static int dev_check_ctrl(struct rdinit_dev *dev)
{
	struct rdinit_ctrl_opts opts = dev->ctrl_opts;
	struct rdinit_ctrl *ctrl;
	int rc;

	opts.traddr = "192.0.2.1"; /* of documentation: nothing is connected */
	opts.subnqn = NULL;
	rdi_transport_select(&opts, opts.tcp);
	rc = rdi_ctrl_create_on(&opts, dev->env, &dev->h, &ctrl);
	if (!rc)
		rc = dev_keep_identity(dev, &ctrl->host);
	rdinit_ctrl_free(&ctrl);
	return rc;
}

/* Reads the secrets, once: each controller gets those of the device. */
static int dev_take_secrets(struct rdinit_dev *dev, const char *func)
{
	const struct rdinit_auth_opts *auth = dev->ctrl_opts.auth;
	const struct rdinit_tls_opts *tls = dev->ctrl_opts.tls;
	int rc = auth ? rdi_auth_keys_create(func, auth, &dev->auth) : 0;

	if (!rc && tls)
		rc = rdi_tls_create(func, tls, &dev->tls);
	dev->ctrl_opts.auth = NULL;
	dev->ctrl_opts.tls = NULL;
	return rc;
}

int rdi_dev_create_env(const struct rdinit_dev_opts *given, const struct rdi_env *env,
		       struct rdinit_dev **out)
{
	static const char func[] = "rdinit_dev_create";
	struct rdinit_dev_opts opts;
	struct rdinit_dev *dev;
	const char *why = NULL;
	int rc = 0;

	if (!out)
		return rdi_fail(func, -EINVAL, "out is NULL");
	*out = NULL;
	rdinit_dev_opts_init(&opts);
	if (given) {
		rc = RDI_CHECK_SIZE(func, given, rdinit_dev_opts, sizeof(*given));
		if (!rc)
			memcpy(&opts, given, given->size);
	}
	if (!rc && opts.ctrl)
		rc = RDI_CHECK_SIZE(func, opts.ctrl, rdinit_ctrl_opts, RDI_OPTS_FIRST);
	if (!rc)
		rc = dev_check_opts(func, &opts);
	if (rc)
		return rc;
	dev = calloc(1, sizeof(*dev));
	if (!dev)
		return rdi_fail(func, -ENOMEM, "out of memory");
	dev->env = env;
	dev_lock_init(&dev->lock);
	rdi_guards_init(&dev->guards);
	LIST_INIT(&dev->chans);
	dev_take_opts(dev, &opts);
	rc = dev_take_strings(&dev->ctrl_opts);
	if (!rc && (dev->ctrl_opts.auth || dev->ctrl_opts.tls)) {
		rc = dev_take_secrets(dev, func);
		if (rc) {
			dev_destroy(dev);
			return rc;
		}
	}
	dev_take_log(dev);
	if (!rc)
		rc = rdi_handle_open_loop(&dev->h, env, &dev->log_cfg, NULL, &why);
	if (rc) {
		rdi_fail(func, rc, "%s", why ? why : strerror(-rc));
		dev_destroy(dev);
		return rc;
	}
	rc = dev_check_ctrl(dev);
	if (rc)
		dev_destroy(dev);
	else
		*out = dev;
	return rc;
}

int rdinit_dev_create(const struct rdinit_dev_opts *opts, struct rdinit_dev **out)
{
	return rdi_dev_create_env(opts, &rdi_env_default, out);
}

/* ---- the orderly end ---- */

static bool dev_is_closed(const struct rdinit_dev *dev)
{
	unsigned int i;

	for (i = 0; i < dev->n_paths; i++)
		if (dev->paths[i]->state != RDINIT_DEV_PATH_CLOSED)
			return false;
	return true;
}

static int dev_begin_close(struct rdinit_dev *dev, const char *func)
{
	unsigned int i;
	int rc = rdi_dev_lock(dev, func);

	if (rc)
		return rc;
	if (dev->n_chans) {
		rc = rdi_fail(func, -EBUSY, "%u channel%s left: free channels before the device",
			      dev->n_chans, dev->n_chans == 1 ? " is" : "s are");
	} else {
		atomic_store(&dev->state, RDINIT_DEV_CLOSED);
		rdi_dev_report_open(dev, -ENODEV, 0, "the device was closed");
		rdi_discovery_free(&dev->discovery);
		for (i = 0; i < atomic_load(&dev->n_paths); i++)
			rdi_path_close(dev->paths[i]);
	}
	rdi_dev_unlock(dev);
	return rc;
}

int rdinit_dev_close(struct rdinit_dev *dev)
{
	uint64_t end;
	int rc = dev_begin_close(dev, __func__);

	if (rc)
		return rc;
	end = rd_loop_now_raw(dev->h.loop) + CLOSE_NS;
	/* No channel is left, so no other thread uses the device. */
	while (!rc && !dev_is_closed(dev)) {
		if (rd_loop_now_raw(dev->h.loop) >= end)
			return rdi_fail(__func__, -ETIMEDOUT,
					"a controller did not finish its shutdown in time");
		rc = dev_process(dev, __func__, 100);
	}
	return rc;
}
