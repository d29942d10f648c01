/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths from a discovery controller (Fabrics 5.3): its log is read when the device is opened, and
 * again after each event that the log has changed. Only records of the transport by which the
 * controller is reached are taken: the URI chooses it for all. A path whose record has gone is used
 * for as long as it stays connected. Discovery controllers that the log refers to are read in the
 * same way. Everything runs under dev->lock, on the device's loop.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "auth.h"
#include "dev.h"

/* TREQ of a discovery record (Fabrics 5.3) */
#define TREQ_SECURE          3u
#define TREQ_SECURE_REQUIRED 1u

struct rdi_discovery {
	struct rdinit_dev *dev;
	struct rdi_discovery *next; /* a referral found in a log; NULL: the last */
	struct rdinit_uri uri;      /* its subnqn is the subsystem to find */
	char *host_traddr;
	struct rdi_resolver *resolver;
	struct rdi_addrs addrs;
	unsigned int addr_next;
	char address[RD_ADDR_TEXT];
	struct rdinit_ctrl *ctrl;
	struct rdinit_discovery *log; /* while the log is being read */
	bool reading;
	bool again;            /* the log has changed since reading began */
	struct rd_defer drop;  /* frees ctrl after its callbacks have returned */
	struct rd_timer timer; /* until the next attempt */
	unsigned int attempts; /* consecutive failed attempts */
	bool answered;         /* the first attempt has completed */
	int err;               /* of the latest attempt */
	char text[RDI_TEXT];
};

static void discovery_read(struct rdi_discovery *d);

/* ---- attempts ---- */

static void discovery_failed(struct rdi_discovery *d, int err, const char *fmt, ...)
	__attribute__((cold, format(printf, 3, 4)));

static void discovery_failed(struct rdi_discovery *d, int err, const char *fmt, ...)
{
	struct rdinit_dev *dev = d->dev;
	va_list ap;

	d->err = err;
	va_start(ap, fmt);
	vsnprintf(d->text, sizeof(d->text), fmt, ap);
	va_end(ap);
	rd_info(dev->h.log, RD_LOG_INIT, "discovery: %s", d->text);
	d->attempts++;
	d->answered = true;
	rdi_resolver_cancel(&d->resolver);
	rd_defer(dev->h.loop, &d->drop, RD_DEFER_NEXT);
	/* If the timer cannot be allocated, only events and rdinit_dev_reconnect() start another
	 * attempt. */
	rd_timer_start(dev->h.loop, &d->timer,
		       rdi_backoff_ns(d->attempts, dev->opts.reconnect_delay_ms * RD_NSEC_PER_MSEC,
				      rd_loop_random32(dev->h.loop)));
	rdi_dev_changed(dev, NULL, RDINIT_DEV_EVENT_STATE);
}

static void discovery_drop(struct rd_defer *defer)
{
	struct rdi_discovery *d = rd_container_of(defer, struct rdi_discovery, drop);

	rdinit_ctrl_free(&d->ctrl);
	rdinit_discovery_free(&d->log);
	d->reading = false;
}

static void discovery_closed(struct rdinit_ctrl *ctrl)
{
	struct rdi_discovery *d = ctrl->event_user;

	if (d->ctrl == ctrl)
		discovery_failed(d, ctrl->q.err, "%s", ctrl->q.text);
}

static void discovery_connected(void *user, const struct rdinit_completion *c)
{
	struct rdi_discovery *d = user;

	if (c->err == -ECANCELED)
		return;
	if (c->err) {
		discovery_failed(d, c->err, "%s", c->text);
		return;
	}
	d->ctrl->closed = discovery_closed;
	memcpy(d->address, d->ctrl->q.remote, sizeof(d->address));
	discovery_read(d);
}

static void discovery_event(void *user, uint32_t event)
{
	struct rdi_discovery *d = user;

	if ((event & 7) != NVME_AER_NOTICE || (event >> 8 & 0xff) != NVME_AER_NOTICE_DISC_CHANGED)
		return;
	d->again = true;
	if (!d->reading)
		discovery_read(d);
}

static void discovery_resolved(void *arg, int rc, const struct rdi_addrs *addrs, const char *why)
{
	struct rdi_discovery *d = arg;
	struct rdinit_dev *dev = d->dev;
	struct rdinit_ctrl_opts opts = dev->ctrl_opts;
	char numeric[RD_ADDR_TEXT];

	rdi_resolver_cancel(&d->resolver);
	if (rc) {
		discovery_failed(d, rc, "%s", why);
		return;
	}
	d->addrs = *addrs;
	rdi_numeric_addr(&d->addrs, d->addr_next++, d->address, numeric);
	opts.traddr = numeric;
	opts.trsvcid = d->uri.no_port ? NULL : d->uri.trsvcid;
	opts.subnqn = RDINIT_DISCOVERY_NQN;
	rdi_transport_select(&opts, d->uri.tcp);
	if (d->host_traddr)
		opts.host_traddr = d->host_traddr;
	opts.event_fn = discovery_event;
	opts.event_user = d;
	rc = rdi_ctrl_create_on(&opts, dev->env, &dev->h, &d->ctrl);
	if (!rc) {
		d->ctrl->auth = rdi_auth_keys_ref(dev->auth);
		d->ctrl->tls = rdi_tls_ref(dev->tls);
		rc = rdinit_ctrl_connect_async(d->ctrl, discovery_connected, d);
	}
	if (rc)
		discovery_failed(d, rc, "%s", rdi_error_reason());
}

static void discovery_start(struct rdi_discovery *d)
{
	struct rd_loop *loop = d->dev->h.loop;
	int rc;

	if (d->resolver || (d->ctrl && !d->drop.queued))
		return;
	rd_timer_stop(loop, &d->timer);
	rd_defer_cancel(loop, &d->drop);
	discovery_drop(&d->drop);
	rc = rdi_resolver_start(loop, d->uri.traddr, d->uri.trsvcid, discovery_resolved, d,
				&d->resolver);
	if (rc)
		discovery_failed(d, rc, "cannot resolve %s: %s", d->uri.traddr, strerror(-rc));
}

static void discovery_timer(struct rd_timer *timer)
{
	discovery_start(rd_container_of(timer, struct rdi_discovery, timer));
}

/* ---- the log ---- */

static bool same_address(const struct rdinit_uri *a, const struct rdinit_uri *b)
{
	return strcmp(a->traddr, b->traddr) == 0 && strcmp(a->trsvcid, b->trsvcid) == 0 &&
	       a->tcp == b->tcp;
}

static struct rdi_path *discovery_find(const struct rdi_discovery *d, const struct rdinit_uri *uri)
{
	const struct rdinit_dev *dev = d->dev;
	unsigned int i, n = dev->n_paths;

	for (i = 0; i < n; i++)
		if (same_address(&dev->paths[i]->uri, uri))
			return dev->paths[i];
	return NULL;
}

/* An unlisted, failed path whose entry can be reused when the table is full, or NULL. */
static struct rdi_path *discovery_useless(const struct rdinit_dev *dev)
{
	unsigned int i, n = dev->n_paths;

	for (i = 0; n == RDINIT_DEV_PATHS_MAX && i < n; i++)
		if (dev->paths[i]->unlisted && dev->paths[i]->state == RDINIT_DEV_PATH_FAILED)
			return dev->paths[i];
	return NULL;
}

/*
 * Makes a URI of the subsystem from the address of @rec. Returns false for other transports and
 * addresses, and for names: a record has a numeric address (Fabrics 5.3), and its author must not
 * choose which names this host resolves.
 */
static bool discovery_uri(const struct rdi_discovery *d, const struct rdinit_discovery_record *rec,
			  struct rdinit_uri *uri)
{
	struct sockaddr_storage numeric;

	if (rec->trtype != (d->uri.tcp ? NVMF_TRTYPE_TCP : NVMF_TRTYPE_RDMA) ||
	    (rec->adrfam != NVMF_ADDR_FAMILY_IP4 && rec->adrfam != NVMF_ADDR_FAMILY_IP6))
		return false;
	if (rd_addr_parse(rec->traddr, 1, &numeric) || strlen(rec->traddr) >= sizeof(uri->traddr) ||
	    strlen(rec->trsvcid) >= sizeof(uri->trsvcid))
		return false;
	*uri = d->uri;
	snprintf(uri->traddr, sizeof(uri->traddr), "%s", rec->traddr);
	if (rec->trsvcid[0]) {
		snprintf(uri->trsvcid, sizeof(uri->trsvcid), "%.7s", rec->trsvcid);
		uri->no_port = false;
	}
	return true;
}

static bool discovery_is_of_subsystem(const struct rdi_discovery *d,
				      const struct rdinit_discovery_record *rec)
{
	return rec->subtype == NVME_NQN_NVME && strcmp(rec->subnqn, d->uri.subnqn) == 0;
}

/* Whether the target demands TLS there, for which there is no key. With a key each connection is
 * one by TLS, whatever the record says: it may come from a connection without TLS. */
static bool discovery_lacks_key(const struct rdi_discovery *d,
				const struct rdinit_discovery_record *rec)
{
	return (rec->treq & TREQ_SECURE) == TREQ_SECURE_REQUIRED &&
	       rec->trtype == NVMF_TRTYPE_TCP && !d->dev->tls;
}

/* Whether @rec is a path to the subsystem. */
static bool discovery_is_path(const struct rdi_discovery *d,
			      const struct rdinit_discovery_record *rec, struct rdinit_uri *uri)
{
	return discovery_is_of_subsystem(d, rec) && !discovery_lacks_key(d, rec) &&
	       discovery_uri(d, rec, uri);
}

/* What to try when there is no path by the transport of @d. */
static const char *discovery_hint(const struct rdi_discovery *d)
{
	uint8_t other = d->uri.tcp ? NVMF_TRTYPE_RDMA : NVMF_TRTYPE_TCP;
	size_t i;

	for (i = 0; i < d->log->count; i++) {
		const struct rdinit_discovery_record *rec = &d->log->records[i];

		if (!discovery_is_of_subsystem(d, rec))
			continue;
		if (d->uri.tcp && discovery_lacks_key(d, rec))
			return "; it demands TLS: give the key (tls of the options, rdinit's "
			       "--tls-key-file)";
		if (rec->trtype == other)
			return d->uri.tcp ? "; it has RDMA paths: use nvme+rdma://"
					  : "; it has TCP paths: use nvme+tcp://";
	}
	return "";
}

/* Adds the path of a record, or notes that a known path is listed. Returns false when there is no
 * room. */
static bool discovery_add(struct rdi_discovery *d, const struct rdinit_uri *uri)
{
	struct rdi_path *path = discovery_find(d, uri);
	int n;

	if (path) {
		/* A path that the application added stays the application's. */
		if (path->discovery)
			rdi_path_list(path, d);
		return true;
	}
	path = discovery_useless(d->dev);
	if (path) {
		rdi_path_replace(path, uri, d);
		return true;
	}
	n = rdi_dev_add_path(d->dev, uri, d->host_traddr, "rdinit_dev_open");
	if (n >= 0)
		d->dev->paths[n]->discovery = d;
	else
		rd_warn(d->dev->h.log, RD_LOG_INIT, "%s", rdi_error_reason());
	return n >= 0;
}

/* Follows a referral to another discovery controller. Returns false when that is not possible. */
static bool discovery_refer(struct rdi_discovery *d, const struct rdinit_uri *uri)
{
	struct rdi_discovery *last = d->dev->discovery;
	unsigned int n = 1;

	while (!same_address(&last->uri, uri) && last->next) {
		last = last->next;
		n++;
	}
	if (same_address(&last->uri, uri))
		return true;
	if (n == RDI_DISCOVERY_MAX ||
	    rdi_discovery_create(d->dev, uri, d->host_traddr, &last->next)) {
		rd_warn(d->dev->h.log, RD_LOG_INIT,
			"%s: its referral to %s, and later ones, are not followed: %u discovery "
			"controllers are known, or there is no memory",
			d->address, uri->traddr, n);
		return false;
	}
	discovery_start(last->next);
	return true;
}

/* Notes paths that the log no longer lists. An empty log is ignored: the target may just have
 * started. */
static void discovery_unlist(struct rdi_discovery *d)
{
	unsigned int i, n = d->dev->n_paths;
	struct rdinit_uri uri;
	size_t k;

	for (i = 0; i < n; i++) {
		struct rdi_path *path = d->dev->paths[i];

		if (path->discovery != d || path->unlisted)
			continue;
		for (k = 0; k < d->log->count; k++)
			if (discovery_is_path(d, &d->log->records[k], &uri) &&
			    same_address(&path->uri, &uri))
				break;
		if (k == d->log->count)
			rdi_path_unlist(path);
	}
}

static void discovery_take(struct rdi_discovery *d)
{
	/* false: the table is full; the log can have thousands of records */
	bool paths = true, referrals = true;
	unsigned int found = 0;
	struct rdinit_uri uri;
	size_t i;

	/* First the records that are known already: that makes entries of unlisted paths
	 * reusable. */
	for (i = 0; i < d->log->count; i++)
		found += discovery_is_path(d, &d->log->records[i], &uri);
	if (found)
		discovery_unlist(d);
	for (i = 0; i < d->log->count; i++) {
		const struct rdinit_discovery_record *rec = &d->log->records[i];

		if (referrals && rec->subtype == NVME_NQN_DISC && discovery_uri(d, rec, &uri))
			referrals = discovery_refer(d, &uri);
		if (discovery_is_path(d, rec, &uri) && (paths || discovery_find(d, &uri)))
			paths &= discovery_add(d, &uri);
	}
	d->err = 0;
	if (found == 0) {
		d->err = -ENODEV;
		snprintf(d->text, sizeof(d->text),
			 "%s: the discovery log has %zu records, and none is %s path to %s%s",
			 d->address, d->log->count, d->uri.tcp ? "a TCP" : "an RDMA", d->uri.subnqn,
			 discovery_hint(d));
	}
}

static void discovery_done(void *user, const struct rdinit_completion *c)
{
	struct rdi_discovery *d = user;

	d->reading = false;
	/* The end of the controller is reported by discovery_closed(), unless it was freed. Every
	 * other error, such as -ENOMEM, leaves the controller as it is. */
	if (c->err && (!d->ctrl || d->ctrl->q.state > RDI_Q_LIVE))
		return;
	if (c->err) {
		discovery_failed(d, c->err, "%s: %s", d->address, c->text);
		return;
	}
	d->attempts = 0;
	discovery_take(d);
	rdinit_discovery_free(&d->log);
	d->answered = true;
	rdi_dev_changed(d->dev, NULL, RDINIT_DEV_EVENT_STATE);
	if (d->again && !d->drop.queued)
		discovery_read(d);
}

static void discovery_read(struct rdi_discovery *d)
{
	int rc = rdinit_discover_async(d->ctrl, &d->log, discovery_done, d);

	d->again = false;
	d->reading = !rc;
	if (rc)
		discovery_failed(d, rc, "%s: %s", d->address, rdi_error_reason());
}

/* ---- life ---- */

void rdi_discovery_start(struct rdi_discovery *d)
{
	for (; d; d = d->next)
		discovery_start(d);
}

void rdi_discovery_stop(struct rdi_discovery *d)
{
	for (; d; d = d->next) {
		rd_timer_stop(d->dev->h.loop, &d->timer);
		rdi_resolver_cancel(&d->resolver);
		rd_defer(d->dev->h.loop, &d->drop, RD_DEFER_NEXT);
	}
}

bool rdi_discovery_tcp(const struct rdi_discovery *d)
{
	return d->uri.tcp;
}

bool rdi_discovery_pending(const struct rdi_discovery *d)
{
	while (d && d->answered)
		d = d->next;
	return d != NULL;
}

int rdi_discovery_error(const struct rdi_discovery *d, const char **text)
{
	*text = d->text;
	return d->err;
}

int rdi_discovery_create(struct rdinit_dev *dev, const struct rdinit_uri *uri,
			 const char *host_traddr, struct rdi_discovery **out)
{
	struct rdi_discovery *d = calloc(1, sizeof(*d));

	*out = NULL;
	if (!d)
		return -ENOMEM;
	if (host_traddr) {
		d->host_traddr = strdup(host_traddr);
		if (!d->host_traddr) {
			free(d);
			return -ENOMEM;
		}
	}
	d->dev = dev;
	d->uri = *uri;
	d->drop.fn = discovery_drop;
	d->timer.fn = discovery_timer;
	*out = d;
	return 0;
}

static void discovery_free(struct rdi_discovery *d)
{
	struct rd_loop *loop = d->dev->h.loop;

	rd_timer_stop(loop, &d->timer);
	rd_defer_cancel(loop, &d->drop);
	rdi_resolver_cancel(&d->resolver);
	if (d->ctrl)
		d->ctrl->closed = NULL;
	discovery_drop(&d->drop);
	free(d->host_traddr);
	free(d);
}

void rdi_discovery_free(struct rdi_discovery **discovery)
{
	struct rdi_discovery *d = *discovery, *next;

	*discovery = NULL;
	for (; d; d = next) {
		next = d->next;
		discovery_free(d);
	}
}
