/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A path of a device: states, attempts to connect, and the end. Reading from its controller is in
 * dev_check.c. Everything runs under dev->lock, on the device's loop.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "auth.h"
#include "dev.h"

/* A path that is lost within this time after it became live is not reconnected at once. */
#define FLAPPING_NS (1 * RD_NSEC_PER_SEC)
/* The first delay between attempts is the longest one divided by this. */
#define BACKOFF_PARTS 16
/* A target with TBKAS may restart its keep-alive timer once while it runs, so it detects a lost
 * host after two timeouts. */
#define STALE_KATOS     2
#define STALE_MARGIN_NS (1 * RD_NSEC_PER_SEC)
#define KAS_UNIT_MS     100u
/* To more than this, and more than twice the timeout, no controller may round it up. */
#define KATO_ROUNDED_MS 120000u

#define STATUS_CODE     0x7ffu /* SCT and SC */
#define UNLISTED_TEXT   "; the discovery log no longer lists it"

uint64_t rdi_backoff_ns(unsigned int n, uint64_t max_ns, uint32_t random)
{
	uint64_t ns = max_ns / BACKOFF_PARTS;

	if (n == 0)
		return 0;
	while (--n && ns < max_ns)
		ns *= 2;
	if (ns > max_ns)
		ns = max_ns;
	/* Random delay from three quarters to all of @ns, so that hosts that lost the same
	 * target do not reconnect at the same time. */
	return ns - ns / 4 * (random >> 16) / UINT16_MAX;
}

static void path_set_state(struct rdi_path *path, enum rdinit_dev_path_state state)
{
	if (path->state == state)
		return;
	rd_debug(path->dev->h.log, RD_LOG_INIT, "path %u: %s -> %s", path->index,
		 rdinit_dev_path_state_name(path->state), rdinit_dev_path_state_name(state));
	path->state = state;
	rdi_dev_changed(path->dev, path, RDINIT_DEV_EVENT_PATH);
}

bool rdi_path_usable(const struct rdi_path *path)
{
	uint8_t ana = atomic_load(&path->ana);

	return atomic_load(&path->live_epoch) &&
	       (ana == NVME_ANA_STATE_OPTIMIZED || ana == NVME_ANA_STATE_NONOPTIMIZED);
}

/* ---- after a failure ---- */

/* Logs the text, with "; next attempt in 2.5 s". */
static void __attribute__((format(printf, 2, 3)))
path_append(struct rdi_path *path, const char *fmt, ...)
{
	size_t len = strlen(path->text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path->text + len, sizeof(path->text) - len, fmt, ap);
	va_end(ap);
}

static void path_give_up(struct rdi_path *path)
{
	struct rd_loop *loop = path->dev->h.loop;

	path_append(path, "; given up after %.1f s",
		    (double)(rd_loop_now(loop) - path->lost_at) / RD_NSEC_PER_SEC);
	rd_timer_stop(loop, &path->timer);
	path_set_state(path, RDINIT_DEV_PATH_FAILED);
}

/*
 * Whether the target refuses what its configuration may allow a moment later: the subsystem, the
 * host, the namespace, or the secret. DNR is right, and only means that the present configuration
 * does not change by itself.
 */
static bool path_is_unconfigured(const struct rdi_path *path)
{
	if (path->err != -EIO)
		return path->err == -EKEYREJECTED || path->err == -EACCES;
	switch (path->status & STATUS_CODE) {
	case NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_CONNECT_INVALID_PARAM:
	case NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_CONNECT_INVALID_HOST:
	case NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_CONNECT_CTRL_BUSY:
	case NVME_SC_INVALID_NS:
		return true;
	default:
		return false;
	}
}

/* Whether the reason rules out another attempt. A path that has worked is configured somehow. */
static bool path_is_final(const struct rdi_path *path)
{
	if (path_is_unconfigured(path))
		return !path->live_at && (path->err != -EIO || path->status & NVME_STATUS_DNR);
	if (path->err == -EEXIST)
		return !path->live_at;
	return path->err == -ENOTSUP || path->err == -EXDEV ||
	       (path->err == -EIO && path->status & NVME_STATUS_DNR);
}

/* The first refusal after a loss says what happens: later ones have the same text without it. */
static void path_say_refused(struct rdi_path *path)
{
	bool said = path->refused;

	path->refused = path->live_at && path_is_unconfigured(path);
	if (path->refused && !said)
		path_append(path, "; the path has worked before, so it is tried until "
				  "ctrl_loss_tmo_ms is over: the target may still be being "
				  "configured");
}

/* Schedules the next attempt, unless ctrl_loss_tmo_ms has passed. */
static void path_schedule(struct rdi_path *path)
{
	struct rdinit_dev *dev = path->dev;
	uint64_t now = rd_loop_now(dev->h.loop), left = UINT64_MAX, delay;
	uint64_t loss = dev->opts.ctrl_loss_tmo_ms * RD_NSEC_PER_MSEC;
	unsigned int n = path->attempts;

	if (path->unlisted)
		path_append(path, UNLISTED_TEXT);
	if (path->unlisted || path_is_final(path)) {
		path_give_up(path);
		return;
	}
	path_say_refused(path);
	if (n == 0 && path->live_at && path->lost_at - path->live_at < FLAPPING_NS)
		n = 1;
	delay = rdi_backoff_ns(n, dev->opts.reconnect_delay_ms * RD_NSEC_PER_MSEC,
			       rd_loop_random32(dev->h.loop));
	if (dev->opts.ctrl_loss_tmo_ms != RDINIT_DEV_NEVER)
		left = now - path->lost_at < loss ? loss - (now - path->lost_at) : 0;
	if (left == 0) {
		path_give_up(path);
		return;
	}
	if (delay > left)
		delay = left;
	if (rd_timer_start(dev->h.loop, &path->timer, delay)) {
		path_append(path, "; no memory for a timer");
		path_give_up(path);
		return;
	}
	path->retry_in = delay;
	path_set_state(path, RDINIT_DEV_PATH_WAITING);
}

static void path_drop(struct rd_defer *defer)
{
	struct rdi_path *path = rd_container_of(defer, struct rdi_path, drop);

	rdinit_ctrl_free(&path->ctrl);
	if (path->state == RDINIT_DEV_PATH_LOST)
		path_schedule(path);
}

/* What is known of the device is what remaining paths report, not the lost one. */
static void path_leave(struct rdinit_dev *dev)
{
	unsigned int i, n = dev->n_paths;

	rdi_dev_refresh(dev, NULL);
	for (i = 0; i < n; i++) {
		if (dev->paths[i]->state != RDINIT_DEV_PATH_LIVE)
			continue;
		rdi_dev_resize(dev, dev->paths[i]);
		return;
	}
}

/* Ends the attempt, or the association. */
static void path_end(struct rdi_path *path, int err, uint16_t status, const char *text)
{
	struct rdinit_dev *dev = path->dev;
	bool live = path->state == RDINIT_DEV_PATH_LIVE;

	if (path->state == RDINIT_DEV_PATH_LOST || path->state >= RDINIT_DEV_PATH_FAILED)
		return;
	path->err = err;
	path->status = status;
	snprintf(path->text, sizeof(path->text), "%s", text);
	if (live) {
		path->losses++;
		path->lost_at = rd_loop_now(dev->h.loop);
		path->attempts = 0;
	} else {
		path->attempts++;
	}
	path->reading = path->todo = 0;
	rd_timer_stop(dev->h.loop, &path->timer);
	rdi_resolver_cancel(&path->resolver);
	atomic_store(&path->live_epoch, 0);
	path_set_state(path, RDINIT_DEV_PATH_LOST);
	if (live)
		path_leave(dev);
	rd_defer(dev->h.loop, &path->drop, RD_DEFER_NEXT);
}

void rdi_path_fail(struct rdi_path *path, int err, uint16_t status, const char *fmt, ...)
{
	char text[RDI_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	path_end(path, err, status, text);
}

void rdi_path_lost(struct rdi_path *path, uint32_t epoch, int err, const char *text)
{
	if (atomic_load(&path->live_epoch) == epoch)
		path_end(path, err, 0, text);
}

/* ---- attempts ---- */

/* A connected admin queue has closed. */
static void path_ctrl_closed(struct rdinit_ctrl *ctrl)
{
	struct rdi_path *path = ctrl->event_user;

	if (path->closing)
		path_set_state(path, RDINIT_DEV_PATH_CLOSED);
	else
		path_end(path, ctrl->q.err, 0, ctrl->q.text);
}

/* Whether commands were both sent and completed since the last call. Only one of the two does
 * not prove that both directions work. */
static bool path_traffic(struct rdinit_ctrl *ctrl)
{
	struct rdi_path *path = ctrl->event_user;
	const struct rdinit_dev_chan *chan;
	uint32_t sent = 0, answered = 0;
	bool both;

	LIST_FOREACH (chan, &path->dev->chans, link) {
		const struct rdi_chan_path *cp = &chan->paths[path->index];

		sent += atomic_load_explicit(&cp->n_sent, memory_order_relaxed);
		answered += atomic_load_explicit(&cp->n_answered, memory_order_relaxed);
	}
	both = sent != path->n_sent && answered != path->n_answered;
	path->n_sent = sent;
	path->n_answered = answered;
	return both;
}

/* A controller rounds the keep-alive timeout up to a multiple of KAS (Base 3.9). */
static uint64_t path_kato_ms(const struct rdi_path *path)
{
	uint64_t kato = path->ctrl->kato_ms;
	uint64_t unit = (uint64_t)le16toh(path->ctrl->id.kas) * KAS_UNIT_MS;

	return unit ? (kato + unit - 1) / unit * unit : kato;
}

static void path_connected(void *user, const struct rdinit_completion *c)
{
	struct rdi_path *path = user;

	if (path->state != RDINIT_DEV_PATH_CONNECTING)
		return;
	if (c->err) {
		path_end(path, c->err, c->status, c->text);
		return;
	}
	path->ctrl->closed = path_ctrl_closed;
	path->ctrl->traffic = path_traffic;
	/* Writes that such a path loses would wait for hours, with other paths live. */
	if (path_kato_ms(path) > 2 * (uint64_t)path->ctrl->kato_ms &&
	    path_kato_ms(path) > KATO_ROUNDED_MS) {
		rdi_path_fail(path, -ENOTSUP, 0,
			      "%s: the controller rounds the keep-alive timeout of %u ms up to "
			      "%llu ms (KAS %u), at most %u ms are accepted",
			      path->address, path->ctrl->kato_ms,
			      (unsigned long long)path_kato_ms(path), le16toh(path->ctrl->id.kas),
			      KATO_ROUNDED_MS);
		return;
	}
	path_set_state(path, RDINIT_DEV_PATH_CHECKING);
	rdi_path_check(path);
}

static bool same_source(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/*
 * Whether another path goes from the same local address to @address. It would be no second way, and
 * a target that lets a new controller of a host replace the old one would end one for the other,
 * again and again.
 */
static bool path_is_taken(const struct rdi_path *path, const char *address)
{
	const struct rdinit_dev *dev = path->dev;
	unsigned int i, n = atomic_load(&dev->n_paths);

	for (i = 0; i < n; i++) {
		const struct rdi_path *p = dev->paths[i];

		if (p != path && p->uri.tcp == path->uri.tcp &&
		    p->state >= RDINIT_DEV_PATH_CONNECTING && p->state < RDINIT_DEV_PATH_FAILED &&
		    strcmp(p->address, address) == 0 &&
		    same_source(p->host_traddr, path->host_traddr))
			return true;
	}
	return false;
}

bool rdi_path_is_same(const struct rdi_path *path, const struct rdinit_uri *uri,
		      const char *host_traddr)
{
	const char *port = path->uri.trsvcid;
	struct sockaddr_storage a, b;

	/* Names are compared when they are resolved. */
	if (rd_addr_parse(path->uri.traddr, 1, &a) || rd_addr_parse(uri->traddr, 1, &b))
		return false;
	return path->uri.tcp == uri->tcp &&
	       rd_addr_equal((const struct sockaddr *)&a, (const struct sockaddr *)&b) &&
	       strcmp(port, uri->trsvcid) == 0 && same_source(path->host_traddr, host_traddr);
}

/* The next address of the name that no other path has. False: there is none. */
static bool path_next_address(struct rdi_path *path, char *numeric)
{
	char address[RD_ADDR_TEXT];
	unsigned int i;

	for (i = 0; i < path->addrs.n; i++) {
		rdi_numeric_addr(&path->addrs, path->addr_next++, address, numeric);
		if (path_is_taken(path, address))
			continue;
		memcpy(path->address, address, sizeof(path->address));
		return true;
	}
	rdi_path_fail(path, -EEXIST, 0,
		      "%s: another path of the device has this address; give each path once",
		      address);
	return false;
}

void rdi_numeric_addr(const struct rdi_addrs *addrs, unsigned int n, char *address, char *numeric)
{
	const struct sockaddr *sa = (const struct sockaddr *)&addrs->ss[n % addrs->n];

	rd_addr_format(sa, address);
	rd_addr_format_host(sa, numeric);
}

static void path_connect(struct rdi_path *path)
{
	struct rdinit_dev *dev = path->dev;
	struct rdinit_ctrl_opts opts = dev->ctrl_opts;
	char numeric[RD_ADDR_TEXT];
	int rc;

	if (!path_next_address(path, numeric))
		return;
	opts.traddr = numeric;
	opts.trsvcid = path->uri.trsvcid;
	opts.subnqn = path->uri.subnqn;
	if (path->host_traddr)
		opts.host_traddr = path->host_traddr;
	opts.no_remote_invalidate |= path->uri.no_remote_invalidate;
	rdi_transport_select(&opts, path->uri.tcp);
	opts.nr_io_queues = dev->opts.channels;
	opts.event_fn = rdi_path_event;
	opts.event_user = path;
	path_set_state(path, RDINIT_DEV_PATH_CONNECTING);
	rc = rdi_ctrl_create_on(&opts, dev->env, &dev->h, &path->ctrl);
	if (!rc) {
		path->ctrl->auth = rdi_auth_keys_ref(dev->auth);
		path->ctrl->tls = rdi_tls_ref(dev->tls);
		rc = rdinit_ctrl_connect_async(path->ctrl, path_connected, path);
	}
	if (rc)
		rdi_path_fail(path, rc, 0, "%s", rdi_error_reason());
}

static void path_resolved(void *arg, int rc, const struct rdi_addrs *addrs, const char *why)
{
	struct rdi_path *path = arg;

	rdi_resolver_cancel(&path->resolver);
	if (rc) {
		path_end(path, rc, 0, why);
		return;
	}
	path->addrs = *addrs;
	path_connect(path);
}

void rdi_path_start(struct rdi_path *path)
{
	struct rdinit_dev *dev = path->dev;
	int rc;

	if (path->state != RDINIT_DEV_PATH_NEW && path->state != RDINIT_DEV_PATH_WAITING &&
	    path->state != RDINIT_DEV_PATH_FAILED)
		return;
	rd_timer_stop(dev->h.loop, &path->timer);
	rd_defer_cancel(dev->h.loop, &path->drop);
	rdinit_ctrl_free(&path->ctrl);
	if (path->state != RDINIT_DEV_PATH_WAITING) {
		path->attempts = 0;
		path->lost_at = rd_loop_now(dev->h.loop);
	}
	path_set_state(path, RDINIT_DEV_PATH_RESOLVING);
	rc = rdi_resolver_start(dev->h.loop, path->uri.traddr, path->uri.trsvcid, path_resolved,
				path, &path->resolver);
	if (rc)
		rdi_path_fail(path, rc, 0, "cannot resolve %s: %s", path->uri.traddr,
			      strerror(-rc));
}

void rdi_path_list(struct rdi_path *path, const struct rdi_discovery *discovery)
{
	bool again = path->unlisted;

	path->discovery = discovery;
	path->unlisted = false;
	if (again && path->state == RDINIT_DEV_PATH_FAILED)
		rdi_path_start(path);
}

void rdi_path_unlist(struct rdi_path *path)
{
	path->unlisted = true;
	if (path->state != RDINIT_DEV_PATH_WAITING)
		return; /* a live path is used until it is lost, and then not tried again */
	path_append(path, UNLISTED_TEXT);
	path_give_up(path);
}

void rdi_path_replace(struct rdi_path *path, const struct rdinit_uri *uri,
		      const struct rdi_discovery *discovery)
{
	/* Other properties of the old address are read or compared again before the path is
	 * live. */
	path->uri = *uri;
	path->addr_next = 0;
	path->address[0] = '\0';
	path->live_at = 0;
	path->losses = 0;
	path->discovery = discovery;
	path->unlisted = false;
	rdi_path_start(path);
}

static uint64_t path_stale_ns(const struct rdi_path *path)
{
	return STALE_KATOS * path_kato_ms(path) * RD_NSEC_PER_MSEC + STALE_MARGIN_NS;
}

void rdi_path_live(struct rdi_path *path)
{
	struct rdinit_dev *dev = path->dev;

	path->live_at = rd_loop_now(dev->h.loop);
	path->attempts = 0;
	path->refused = false;
	path->err = 0;
	path->text[0] = '\0';
	path->epoch++;
	/* Each target has its own stale-write fence, and another address may be another
	 * target's. */
	if (strcmp(path->live_address, path->address) != 0)
		atomic_store(&path->fence_epoch, path->epoch);
	memcpy(path->live_address, path->address, sizeof(path->live_address));
	atomic_store(&path->stale_ns, path_stale_ns(path));
	atomic_store(&path->live_epoch, path->epoch);
	path_set_state(path, RDINIT_DEV_PATH_LIVE);
}

static void path_timer(struct rd_timer *timer)
{
	struct rdi_path *path = rd_container_of(timer, struct rdi_path, timer);

	if (path->state == RDINIT_DEV_PATH_LIVE) {
		rdi_path_ana_timer(path);
	} else if (path->state == RDINIT_DEV_PATH_WAITING) {
		uint64_t waited = rd_loop_now(path->dev->h.loop) - path->lost_at;

		if (path->dev->opts.ctrl_loss_tmo_ms != RDINIT_DEV_NEVER &&
		    waited >= path->dev->opts.ctrl_loss_tmo_ms * RD_NSEC_PER_MSEC)
			path_give_up(path);
		else
			rdi_path_start(path);
	}
}

/* ---- requests of channels ---- */

/*
 * The result does not matter: an aborted command reports its own completion or time limit, and
 * path_ctrl_closed() reports the end of the controller.
 */
static void path_ignore_end(void *user, const struct rdinit_completion *c)
{
	(void)user;
	(void)c;
}

void rdi_path_abort(struct rdi_path *path, uint32_t epoch, uint16_t qid, uint16_t cid)
{
	struct rdi_cmd cmd = {
		.sqe = {.opcode = nvme_admin_abort_cmd,
			.cdw10 = htole32(qid | (uint32_t)cid << 16)},
		.fn = path_ignore_end,
	};

	if (atomic_load(&path->live_epoch) == epoch)
		rdi_queue_submit(&path->ctrl->q, &cmd);
}

/* ---- life ---- */

void rdi_path_close(struct rdi_path *path)
{
	struct rdinit_dev *dev = path->dev;
	bool live = path->state == RDINIT_DEV_PATH_LIVE;

	rd_timer_stop(dev->h.loop, &path->timer);
	rdi_resolver_cancel(&path->resolver);
	atomic_store(&path->live_epoch, 0);
	path->closing =
		live && rdinit_ctrl_disconnect_async(path->ctrl, path_ignore_end, NULL) == 0;
	if (!path->closing)
		path_set_state(path, RDINIT_DEV_PATH_CLOSED);
}

int rdi_path_create(struct rdinit_dev *dev, const struct rdinit_uri *uri, const char *host_traddr,
		    struct rdi_path **out)
{
	struct rdi_path *path = calloc(1, sizeof(*path));

	*out = NULL;
	if (!path)
		return -ENOMEM;
	if (host_traddr) {
		path->host_traddr = strdup(host_traddr);
		if (!path->host_traddr) {
			free(path);
			return -ENOMEM;
		}
	}
	path->dev = dev;
	path->uri = *uri;
	path->nsid = uri->nsid ? uri->nsid : 1;
	path->timer.fn = path_timer;
	path->drop.fn = path_drop;
	atomic_init(&path->ana, NVME_ANA_STATE_OPTIMIZED);
	*out = path;
	return 0;
}

void rdi_path_free(struct rdi_path **path)
{
	struct rdi_path *p = *path;
	struct rdinit_dev *dev;

	if (!p)
		return;
	*path = NULL;
	dev = p->dev;
	p->state = RDINIT_DEV_PATH_CLOSED;
	rd_timer_stop(dev->h.loop, &p->timer);
	rd_defer_cancel(dev->h.loop, &p->drop);
	rdi_resolver_cancel(&p->resolver);
	if (p->ctrl)
		p->ctrl->closed = NULL;
	rdinit_ctrl_free(&p->ctrl);
	free(p->ana_log);
	free(p->host_traddr);
	free(p);
}
