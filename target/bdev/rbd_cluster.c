/* SPDX-License-Identifier: BSD-3-Clause */
/* Clusters: connections that images share, and the queues of their pools. */
#include "rbd_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ceph's own limit for connecting is 300 s; a connection that failed is tried again anyway. */
#define MOUNT_TIMEOUT "30"
#define ASK_NS        RD_NSEC_PER_SEC /* between two questions whether it is in reach */

struct rbd_pool {
	LIST_ENTRY(rbd_pool) link;
	char *name;
	unsigned int images;
	struct rbd_queue *queue;
};

struct rbd_cluster {
	LIST_ENTRY(rbd_cluster) link;
	struct rdt_ceph_config cfg;  /* a copy */
	bool defaults;               /* there is no configuration */
	bool cache;                  /* librbd's, of its images */
	LIST_HEAD(, rbd_pool) pools; /* guarded by clusters->lock */

	pthread_mutex_t lock;
	/* guarded by @lock */
	struct rbd_handle *handle; /* shared; NULL: none */
	bool asking;               /* rbd_cluster_ask() */
	bool stuck;                /* I/O was stuck since the last question */
	uint64_t asked_ns;

	pthread_mutex_t connecting; /* held while @handle is made */
};

struct rbd_clusters {
	struct rdt_module_threads threads;
	pthread_mutex_t lock;
	/* guarded by @lock */
	LIST_HEAD(, rbd_cluster) list;
	LIST_HEAD(, rbd_image) images;
};

/* ---- connections ---- */

/* Is the I/O in flight limited by an option? Whoever sends more of it then has to wait. */
static bool limits_io(const struct rdt_ceph_config *cfg)
{
	static const char prefix[] = "objecter_inflight_";

	for (uint32_t i = 0; i < cfg->options_count; i++)
		if (strncmp(cfg->options[i], prefix, sizeof(prefix) - 1) == 0)
			return true;
	return false;
}

/* Reactors send I/O by themselves, without a thread of librbd that has to wake up first. They must
 * not block, so librados has no limits of its own: queues and buffers of hosts limit the I/O. */
static void send_by_reactors(rados_t cl)
{
	rados_conf_set(cl, "objecter_inflight_ops", "0");
	rados_conf_set(cl, "objecter_inflight_op_bytes", "0");
	rados_conf_set(cl, "rbd_non_blocking_aio", "false");
}

/* A target's clients have a cache of their own; writes are stored when they complete. */
static void set_uncached(rados_t cl, const struct rdt_ceph_config *cfg)
{
	rados_conf_set(cl, "rbd_cache", "false");
	/* Without a copy librbd completes a write after the last use of its memory. One that it
	 * refuses before it sends it, because this client was blocked, keeps the memory itself and
	 * never completes, and the image would wait for it before it leaves its connection. */
	rados_conf_set(cl, "rbd_disable_zero_copy_writes", "true");
	if (!limits_io(cfg))
		send_by_reactors(cl);
}

static int set_options(rados_t cl, const struct rbd_cluster *c, unsigned int timeout_s, char *err,
		       size_t err_size)
{
	const struct rdt_ceph_config *cfg = &c->cfg;
	char seconds[16];

	if (c->cache)
		rados_conf_set(cl, "rbd_cache", "true");
	else
		set_uncached(cl, cfg);
	/* Two connections of a process would use the same name for this socket. */
	rados_conf_set(cl, "admin_socket", "");
	rados_conf_set(cl, "client_mount_timeout", MOUNT_TIMEOUT);
	if (cfg->keyring)
		rados_conf_set(cl, "keyring", cfg->keyring);
	for (uint32_t i = 0; i < cfg->options_count; i++) {
		const char *equals = strchr(cfg->options[i], '=');
		char name[128];
		int rc;

		snprintf(name, sizeof(name), "%.*s", (int)(equals - cfg->options[i]),
			 cfg->options[i]);
		rc = rados_conf_set(cl, name, equals + 1);
		if (rc) {
			snprintf(err, err_size,
				 "ceph: options: \"%s\": %s; expected an option that Ceph knows, "
				 "with a value of its type",
				 cfg->options[i], strerror(-rc));
			return rc;
		}
	}
	if (timeout_s) {
		snprintf(seconds, sizeof(seconds), "%u", timeout_s);
		rados_conf_set(cl, "client_mount_timeout", seconds);
		rados_conf_set(cl, "rados_mon_op_timeout", seconds);
		rados_conf_set(cl, "rados_osd_op_timeout", seconds);
	}
	return 0;
}

static void free_handle(struct rbd_handle *h)
{
	rados_shutdown(h->cl);
	pthread_mutex_destroy(&h->joining);
	free(h);
}

static int connect_new(const struct rbd_cluster *c, unsigned int timeout_s, struct rbd_handle **out,
		       char *err, size_t err_size)
{
	const struct rdt_ceph_config *cfg = &c->cfg;
	struct rbd_handle *h = calloc(1, sizeof(*h));
	char user[256];
	int rc;

	*out = NULL;
	snprintf(user, sizeof(user), "client.%s", cfg->user ? cfg->user : "admin");
	if (h) {
		pthread_mutex_init(&h->joining, NULL);
		LIST_INIT(&h->peers);
		h->takeover_s = cfg->takeover;
	}
	rc = h ? rados_create2(&h->cl, "ceph", user, 0) : -ENOMEM;
	if (rc) {
		free(h);
		snprintf(err, err_size, "ceph: %s", strerror(-rc));
		return rc;
	}
	rc = rados_conf_read_file(h->cl, cfg->conf);
	if (rc)
		snprintf(err, err_size, "ceph: conf: %s cannot be read (%s), expected a ceph.conf",
			 cfg->conf ? cfg->conf : "/etc/ceph/ceph.conf", strerror(-rc));
	else
		rc = set_options(h->cl, c, timeout_s, err, err_size);
	if (rc)
		goto err_shutdown;
	rc = rados_connect(h->cl);
	if (!rc)
		rc = rados_cluster_fsid(h->cl, h->fsid, sizeof(h->fsid));
	if (rc < 0) {
		snprintf(err, err_size,
			 "ceph: cannot connect to the cluster %s as %s: %s; check its monitors and "
			 "the user's key (ceph --id %s -s)",
			 c->defaults ? "of /etc/ceph/ceph.conf" : cfg->name, user, strerror(-rc),
			 cfg->user ? cfg->user : "admin");
		goto err_shutdown;
	}
	*out = h;
	return 0;

err_shutdown:
	free_handle(h);
	return rc;
}

static struct rbd_handle *share(struct rbd_cluster *c)
{
	struct rbd_handle *h;

	pthread_mutex_lock(&c->lock);
	h = c->handle;
	if (h)
		h->refs++;
	pthread_mutex_unlock(&c->lock);
	return h;
}

int rbd_cluster_connect(struct rbd_cluster *c, unsigned int timeout_s, struct rbd_handle **out,
			char *err, size_t err_size)
{
	int rc = 0;

	if (timeout_s) {
		rc = connect_new(c, timeout_s, out, err, err_size);
		if (!rc)
			(*out)->refs = 1;
		return rc;
	}
	*out = share(c);
	if (*out)
		return 0;
	pthread_mutex_lock(&c->connecting);
	*out = share(c);
	if (!*out) {
		rc = connect_new(c, 0, out, err, err_size);
		if (!rc) {
			pthread_mutex_lock(&c->lock);
			(*out)->refs = 1;
			c->handle = *out;
			pthread_mutex_unlock(&c->lock);
		}
	}
	pthread_mutex_unlock(&c->connecting);
	return rc;
}

void rbd_handle_put(struct rbd_cluster *c, struct rbd_handle **handle, bool dead)
{
	struct rbd_handle *h = *handle;
	bool last;

	if (!h)
		return;
	*handle = NULL;
	pthread_mutex_lock(&c->lock);
	last = --h->refs == 0;
	if (c->handle == h && (dead || last))
		c->handle = NULL;
	pthread_mutex_unlock(&c->lock);
	if (last)
		free_handle(h);
}

/* ---- clusters ---- */

static void free_pool(struct rbd_pool *pool)
{
	if (!pool)
		return;
	rbd_queue_free(pool->queue);
	free(pool->name);
	free(pool);
}

/* With its pools, which have no images and no threads. */
static void free_cluster(struct rbd_cluster *c)
{
	struct rbd_pool *pool;

	if (!c)
		return;
	while ((pool = LIST_FIRST(&c->pools))) {
		LIST_REMOVE(pool, link);
		free_pool(pool);
	}
	free((char *)c->cfg.name);
	free((char *)c->cfg.conf);
	free((char *)c->cfg.user);
	free((char *)c->cfg.keyring);
	for (uint32_t i = 0; i < c->cfg.options_count; i++)
		free((char *)c->cfg.options[i]);
	free(c->cfg.options);
	pthread_mutex_destroy(&c->lock);
	pthread_mutex_destroy(&c->connecting);
	free(c);
}

static bool copy_ceph_text(const char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return *to || !from;
}

static bool copy_ceph(struct rdt_ceph_config *to, const struct rdt_ceph_config *from)
{
	bool ok = copy_ceph_text(&to->name, from->name) && copy_ceph_text(&to->conf, from->conf) &&
		  copy_ceph_text(&to->user, from->user) &&
		  copy_ceph_text(&to->keyring, from->keyring);

	to->takeover = from->takeover;
	to->options = calloc(from->options_count + 1, sizeof(*to->options));
	ok &= to->options != NULL;
	for (uint32_t i = 0; i < from->options_count && ok; i++) {
		ok = copy_ceph_text(&to->options[i], from->options[i]);
		to->options_count += ok;
	}
	return ok;
}

static struct rbd_cluster *new_cluster(const struct rdt_ceph_config *cfg, bool cache)
{
	struct rbd_cluster *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->defaults = !cfg;
	c->cache = cache;
	c->cfg.takeover = RDT_CEPH_TAKEOVER;
	LIST_INIT(&c->pools);
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->connecting, NULL);
	if (cfg && !copy_ceph(&c->cfg, cfg)) {
		free_cluster(c);
		return NULL;
	}
	return c;
}

/* A thread of @q has ended, or it has one image less: free it, and its cluster, if they are not
 * used any more. @q may be freed already. */
static void free_unused_queue(void *arg, struct rbd_queue *q)
{
	struct rbd_clusters *clusters = arg;
	struct rbd_cluster *c;
	struct rbd_pool *pool = NULL;

	pthread_mutex_lock(&clusters->lock);
	LIST_FOREACH (c, &clusters->list, link) {
		LIST_FOREACH (pool, &c->pools, link)
			if (pool->queue == q)
				break;
		if (pool)
			break;
	}
	if (pool && !pool->images && rbd_queue_idle(q)) {
		LIST_REMOVE(pool, link);
		free_pool(pool);
		if (LIST_EMPTY(&c->pools)) {
			LIST_REMOVE(c, link);
			free_cluster(c);
		}
	}
	pthread_mutex_unlock(&clusters->lock);
}

/* With @clusters locked. NULL: out of memory. */
static struct rbd_pool *find_pool(struct rbd_clusters *clusters, struct rbd_cluster *c,
				  const char *name)
{
	struct rbd_pool *pool;

	LIST_FOREACH (pool, &c->pools, link)
		if (strcmp(pool->name, name) == 0)
			return pool;
	pool = calloc(1, sizeof(*pool));
	if (!pool)
		return NULL;
	pool->name = strdup(name);
	pool->queue = rbd_queue_new(&clusters->threads, free_unused_queue, clusters);
	if (!pool->name || !pool->queue) {
		free_pool(pool);
		return NULL;
	}
	LIST_INSERT_HEAD(&c->pools, pool, link);
	return pool;
}

int rbd_cluster_get(struct rbd_clusters *clusters, const struct rdt_ceph_config *cfg, bool cache,
		    const char *pool_name, struct rbd_cluster **out, struct rbd_queue **queue)
{
	static const struct rdt_ceph_config defaults = {.takeover = RDT_CEPH_TAKEOVER};
	struct rbd_cluster *c, *fresh = NULL;
	struct rbd_pool *pool = NULL;

	pthread_mutex_lock(&clusters->lock);
	LIST_FOREACH (c, &clusters->list, link)
		if (c->cache == cache && rdt_config_same_ceph(&c->cfg, cfg ? cfg : &defaults))
			break;
	if (!c)
		c = fresh = new_cluster(cfg, cache);
	if (c)
		pool = find_pool(clusters, c, pool_name);
	if (pool) {
		pool->images++;
		*out = c;
		*queue = pool->queue;
		if (fresh)
			LIST_INSERT_HEAD(&clusters->list, fresh, link);
	} else {
		free_cluster(fresh);
	}
	pthread_mutex_unlock(&clusters->lock);
	return pool ? 0 : -ENOMEM;
}

void rbd_cluster_put(struct rbd_clusters *clusters, struct rbd_cluster *c, struct rbd_queue *q)
{
	struct rbd_pool *pool;

	if (!c)
		return;
	pthread_mutex_lock(&clusters->lock);
	LIST_FOREACH (pool, &c->pools, link)
		if (pool->queue == q)
			pool->images--;
	pthread_mutex_unlock(&clusters->lock);
	free_unused_queue(clusters, q);
}

static void keep_pool(struct rbd_clusters *clusters, struct rbd_cluster *c, struct rbd_queue *queue)
{
	struct rbd_pool *pool;

	pthread_mutex_lock(&clusters->lock);
	LIST_FOREACH (pool, &c->pools, link)
		if (pool->queue == queue)
			pool->images++;
	pthread_mutex_unlock(&clusters->lock);
}

void rbd_cluster_keep(struct rbd_clusters *clusters, struct rbd_cluster *c, struct rbd_queue *queue,
		      struct rbd_handle *handle)
{
	keep_pool(clusters, c, queue);
	pthread_mutex_lock(&c->lock);
	handle->refs++;
	pthread_mutex_unlock(&c->lock);
}

void rbd_cluster_release(struct rbd_clusters *clusters, struct rbd_cluster *c,
			 struct rbd_queue *queue, struct rbd_handle *handle)
{
	rbd_handle_put(c, &handle, false);
	rbd_cluster_put(clusters, c, queue);
}

/* ---- is it in reach? ---- */

struct rbd_question {
	struct rbd_clusters *clusters;
	struct rbd_cluster *cluster;
	struct rbd_queue *queue;
	struct rbd_handle *handle;
	bool stuck;
};

/* Runs the jobs of the images that were cut off. */
static void kick_cut_off(struct rbd_clusters *all, const struct rbd_cluster *cluster)
{
	struct rbd_image *img;

	pthread_mutex_lock(&all->lock);
	LIST_FOREACH (img, &all->images, link)
		if (img->cluster == cluster && atomic_load(&img->bdev.cut_off))
			rbd_job_kick(&img->job, 0);
	pthread_mutex_unlock(&all->lock);
}

/* On a thread of its own. */
static void ask_monitor(void *arg)
{
	struct rbd_question *q = arg;
	bool listed;

	rados_wait_for_latest_osdmap(q->handle->cl);
	listed = q->stuck && rbd_handle_is_listed(q->handle);
	pthread_mutex_lock(&q->cluster->lock);
	q->cluster->asking = false;
	q->handle->listed |= listed;
	pthread_mutex_unlock(&q->cluster->lock);
	kick_cut_off(q->clusters, q->cluster);
	rbd_cluster_release(q->clusters, q->cluster, q->queue, q->handle);
	free(q);
}

void rbd_cluster_ask(struct rbd_clusters *clusters, struct rbd_cluster *c, struct rbd_queue *queue,
		     bool stuck)
{
	uint64_t now = rdt_module_now();
	struct rbd_question *q;
	struct rbd_handle *h;
	bool ask;

	pthread_mutex_lock(&c->lock);
	c->stuck |= stuck;
	h = c->handle;
	ask = h && !c->asking && now - c->asked_ns >= ASK_NS;
	if (ask) {
		c->asking = true;
		c->asked_ns = now;
		h->refs++;
		stuck = c->stuck;
		c->stuck = false;
	}
	pthread_mutex_unlock(&c->lock);
	if (!ask)
		return;
	keep_pool(clusters, c, queue);
	q = malloc(sizeof(*q));
	if (q)
		*q = (struct rbd_question){clusters, c, queue, h, stuck};
	if (q && !rbd_clusters_thread(clusters, ask_monitor, q))
		return;
	free(q);
	pthread_mutex_lock(&c->lock);
	c->asking = false;
	pthread_mutex_unlock(&c->lock);
	rbd_cluster_release(clusters, c, queue, h);
}

bool rbd_cluster_is_silent(struct rbd_cluster *c)
{
	bool silent;

	pthread_mutex_lock(&c->lock);
	silent = c->asking &&
		 rdt_module_now() - c->asked_ns >= (c->cfg.takeover - 1) * RD_NSEC_PER_SEC;
	pthread_mutex_unlock(&c->lock);
	return silent;
}

bool rbd_cluster_is_blocked(struct rbd_cluster *c)
{
	bool blocked;

	pthread_mutex_lock(&c->lock);
	blocked = c->handle && c->handle->listed;
	pthread_mutex_unlock(&c->lock);
	return blocked;
}

struct rbd_call {
	struct rbd_clusters *clusters;
	void (*fn)(void *arg);
	void *arg;
};

static void *run_rbd_call(void *arg)
{
	struct rbd_call *call = arg;
	struct rdt_module_threads *threads = &call->clusters->threads;

	call->fn(call->arg);
	free(call);
	rdt_module_thread_ends(threads);
	return NULL;
}

int rbd_clusters_thread(struct rbd_clusters *clusters, void (*fn)(void *arg), void *arg)
{
	struct rbd_call *call = malloc(sizeof(*call));
	int rc;

	if (!call)
		return -ENOMEM;
	*call = (struct rbd_call){clusters, fn, arg};
	rc = rdt_module_thread_start(&clusters->threads, run_rbd_call, call);
	if (rc)
		free(call);
	return rc;
}

int rbd_clusters_create(struct rbd_clusters **out)
{
	struct rbd_clusters *all = calloc(1, sizeof(*all));

	*out = all;
	if (!all)
		return -ENOMEM;
	pthread_mutex_init(&all->lock, NULL);
	rdt_module_threads_init(&all->threads);
	LIST_INIT(&all->list);
	LIST_INIT(&all->images);
	return 0;
}

bool rbd_clusters_finish(struct rbd_clusters *all, uint64_t timeout_ns)
{
	struct rbd_cluster *c;

	if (!rdt_module_threads_finish(&all->threads, timeout_ns))
		return false;
	while ((c = LIST_FIRST(&all->list))) {
		LIST_REMOVE(c, link);
		free_cluster(c);
	}
	pthread_mutex_destroy(&all->lock);
	free(all);
	return true;
}

void rbd_clusters_add(struct rbd_clusters *all, struct rbd_image *img)
{
	pthread_mutex_lock(&all->lock);
	LIST_INSERT_HEAD(&all->images, img, link);
	pthread_mutex_unlock(&all->lock);
}

void rbd_clusters_remove(struct rbd_clusters *all, struct rbd_image *img)
{
	pthread_mutex_lock(&all->lock);
	LIST_REMOVE(img, link);
	pthread_mutex_unlock(&all->lock);
}

bool rbd_clusters_find(struct rbd_clusters *all,
		       bool (*fn)(const struct rbd_image *img, const void *arg), const void *arg)
{
	const struct rbd_image *img;
	bool found = false;

	pthread_mutex_lock(&all->lock);
	LIST_FOREACH (img, &all->images, link) {
		found = fn(img, arg);
		if (found)
			break;
	}
	pthread_mutex_unlock(&all->lock);
	return found;
}

void rbd_clusters_kick_standby(struct rbd_clusters *all, const struct rbd_cluster *cluster)
{
	struct rbd_image *img;

	pthread_mutex_lock(&all->lock);
	LIST_FOREACH (img, &all->images, link)
		if (img->cluster == cluster && atomic_load(&img->state) == RBD_OPEN &&
		    atomic_load(&img->bdev.standby))
			rbd_job_kick(&img->job, 0);
	pthread_mutex_unlock(&all->lock);
}
