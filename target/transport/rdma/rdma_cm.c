/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of the RDMA transport: listeners on the main loop, the check of a request's private
 * data (NVMe/RDMA 1.0, RDMA_CM private data), placement on a reactor, and acceptance there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/loop.h"
#include "util/sockaddr.h"
#include "nvmf/text.h"
#include "nvmf/wire.h"
#include "fabric/fabric.h"
#include "target/config/config.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/peers.h"
#include "target/nvmf/placement.h"
#include "target/nvmf/qpair.h"
#include "rdma.h"
#include "target/nvmf/target.h"
#include "target/config/tgt_limits.h"

#define BACKLOG    4096 /* hosts connect all their queues at once */
#define ORD_WANTED 128u /* READs in flight on one queue; supported by soft-iWARP and most NICs */

/* An iwarp fabric of the main loop. Closed only when the target ends, because a reload may change
 * the options of a listener. */
struct iwarp_fab {
	SLIST_ENTRY(iwarp_fab) link;
	struct rd_fab *fab;
	char *congestion; /* or NULL */
	uint32_t sndbuf;
	uint32_t rcvbuf;
	bool crc;
};

/* The fabrics of a target's listeners. */
struct rdma_target {
	struct rd_fab *fabs[RDT_FABS]; /* except iwarp */
	SLIST_HEAD(, iwarp_fab) iwarp_fabs;
};

struct rdt_handoff { /* a checked connection request on its way to the reactor, which frees it */
	struct rdt_handover over;
	struct rdt_reactor *reactor;
	struct rd_fab_req *req;
	struct rdt_listener *listener;
	struct rdt_peer *peer;
	enum rdt_fab_kind fab;
	uint16_t qid;
	uint16_t depth;
};

static struct rdma_target *target_state(const struct rdt_target *t)
{
	return t->transport_state[RDT_TRANSPORT_RDMA];
}

static void reject_request(struct rd_fab_req *req, enum nvmf_rdma_cm_status sts)
{
	struct nvmf_rdma_cm_rej rej = {.sts = htole16((uint16_t)sts)};

	rd_fab_req_reject(req, &rej, sizeof(rej));
}

/* ---- on the reactor ---- */

static void refuse_handoff(struct rdt_handoff *h)
{
	struct rdt_reactor *r = h->reactor;

	rdt_peer_gone(r->target, h->peer);
	reject_request(h->req, NVMF_RDMA_CM_NO_RSRC);
	rdt_unplace(r, h->qid == 0);
}

static int accept_conn(struct rdt_rdma_conn *rc, uint16_t peer_ord)
{
	struct nvmf_rdma_cm_rep rep = {.crqsize = htole16(rc->qp.depth)};
	struct rd_fab_conn_param param = {
		.private_data = &rep,
		.private_len = sizeof(rep),
		/* Hosts send no READs to a target, but an RTR with a READ needs one. */
		.ird = peer_ord ? peer_ord : 1,
		.ord = (uint16_t)(rc->qp.depth < ORD_WANTED ? rc->qp.depth : ORD_WANTED),
	};

	return rd_fab_accept(rc->conn, &param);
}

static const char *fab_name(enum rdt_fab_kind kind)
{
	return kind == RDT_FAB_IWARP ? "iwarp" : "verbs";
}

static int iwarp_open(const struct rdt_target *t, struct rd_loop *loop,
		      const struct rd_fab_iwarp_opts *opts, struct rd_fab **out)
{
	const struct rdt_rdma_env *env = t->env->transport_env[RDT_TRANSPORT_RDMA];

	return (env ? env->fab_open : rd_fab_iwarp_open)(loop, opts, out);
}

/* Open the fabric of kind @kind, unless it is open. Returns 0 or -errno. */
static int open_fab_kind(const struct rdt_target *target, struct rd_loop *loop,
			 enum rdt_fab_kind kind, struct rd_fab *fabs[RDT_FABS])
{
	bool verbs = kind >= RDT_FAB_VERBS;
	struct rd_fab_verbs_opts opts = {
		.no_send_with_inv = verbs && (kind - RDT_FAB_VERBS) & RDT_FAB_NO_INV,
		.no_inline = verbs && (kind - RDT_FAB_VERBS) & RDT_FAB_NO_INLINE,
	};

	if (fabs[kind])
		return 0;
	return verbs ? rd_fab_verbs_open(loop, &opts, &fabs[kind])
		     : iwarp_open(target, loop, NULL, &fabs[kind]);
}

/* The same for a reactor. The reason is logged, rate limited because each connection tries. */
int rdt_rdma_fab(struct rdt_reactor *r, enum rdt_fab_kind kind)
{
	int err = open_fab_kind(r->target, r->loop, kind, rdt_rdma_of(r)->fabs);

	if (err)
		rd_log_limited(&r->target->reject_limit, rd_loop_now(r->loop), r->target->log,
			       RD_LOG_TARGET, RD_LOG_ERROR, "cannot open the %s provider: %s",
			       fab_name(kind), strerror(-err));
	return err;
}

static void accept_request(struct rdt_handoff *h)
{
	struct nvmf_rdma_cm_rej rej = {.sts = htole16(NVMF_RDMA_CM_NO_RSRC)};
	struct rdt_reactor *r = h->reactor;
	uint16_t peer_ord = h->req->peer_ord;
	struct rdt_rdma_conn *rc;
	int err;

	rc = r->draining ? NULL : calloc(1, sizeof(*rc));
	if (!rc) {
		refuse_handoff(h);
		return;
	}
	err = rdt_rdma_conn_init(rc, r, h->qid, h->depth);
	rc->qp.peer = h->peer;
	if (err) {
		reject_request(h->req, NVMF_RDMA_CM_NO_RSRC);
		goto err_free;
	}
	rc->qp.listener = h->listener;
	rc->qp.unproven = rdt_listener_unproven(h->listener);
	rc->qp.local = h->req->local;
	rc->qp.remote = h->req->remote;
	/* Usually open already, unless the first listener of this kind was added by a reload. */
	err = rdt_rdma_fab(r, h->fab);
	if (err) {
		reject_request(h->req, NVMF_RDMA_CM_NO_RSRC);
		goto err_free;
	}
	err = rd_fab_req_adopt(rdt_rdma_of(r)->fabs[h->fab], h->req, rdt_rdma_conn_event, rc,
			       &rc->conn);
	if (err)
		goto err_free;
	err = rdt_rdma_conn_setup(rc);
	if (!err)
		err = accept_conn(rc, peer_ord);
	if (err) {
		rd_log_limited(&r->target->reject_limit, rd_loop_now(r->loop), r->log, RD_LOG_QPAIR,
			       RD_LOG_ERROR, "cannot set up a connection: %s", strerror(-err));
		rd_fab_reject(rc->conn, &rej, sizeof(rej));
		goto err_free;
	}
	rdt_qpair_start(&rc->qp);
	return;

err_free:
	rdt_rdma_conn_free(rc);
	rdt_unplace(r, h->qid == 0);
}

void rdt_rdma_take(struct rdt_handover *over, bool refuse)
{
	struct rdt_handoff *h = rd_container_of(over, struct rdt_handoff, over);

	if (refuse)
		refuse_handoff(h);
	else
		accept_request(h);
	free(h);
}

static void rdma_catch_up(struct rdt_reactor *r)
{
	rdt_inbound_catch_up(&rdt_rdma_of(r)->inbound);
}

/* ---- on the main loop ---- */

/* Returns 0, or the reason to reject the request. */
static unsigned int check_request(const struct rdt_target *t, const struct rd_fab_req *req,
				  uint16_t *qid, uint16_t *depth)
{
	struct nvmf_rdma_cm_req cm;
	uint32_t max = t->cfg->target.queue_depth;
	uint32_t hsqsize;

	if (req->private_len < sizeof(cm))
		return NVMF_RDMA_CM_INVALID_LEN;
	memcpy(&cm, req->private_data, sizeof(cm));
	if (cm.recfmt)
		return NVMF_RDMA_CM_INVALID_RECFMT;
	*qid = le16toh(cm.qid);
	if (*qid > t->cfg->target.io_queues)
		return NVMF_RDMA_CM_INVALID_QID;
	if (*qid == 0)
		max = RDT_ADMIN_DEPTH_MAX;
	/* hsqsize is 0's based, hrqsize is not. The host must have a RECV for each answer. */
	hsqsize = le16toh(cm.hsqsize);
	if (hsqsize == 0 || hsqsize + 1 > max)
		return NVMF_RDMA_CM_INVALID_HSQSIZE;
	if (le16toh(cm.hrqsize) < hsqsize)
		return NVMF_RDMA_CM_INVALID_HRQSIZE;
	/* With an IRD of 0 at the host, no data can be read from it. */
	if (req->peer_ird == 0)
		return NVMF_RDMA_CM_INVALID_IRD;
	*depth = (uint16_t)(hsqsize + 1);
	return 0;
}

/* Log the reject reason, because kernel hosts do not show it. */
static void report_reject(struct rdt_target *t, const struct rd_fab_req *req, unsigned int sts,
			  const struct rdt_peer_limit *limit)
{
	char addr[RD_ADDR_TEXT];
	char why[96] = "";

	if (limit->name)
		snprintf(why, sizeof(why), ": target.limits.%s (%u) is reached", limit->name,
			 limit->value);
	rd_log_limited(&t->reject_limit, rd_loop_now(t->loop), t->log, RD_LOG_QPAIR, RD_LOG_WARN,
		       "rejected a connection from %s: %s%s",
		       rd_addr_format((const struct sockaddr *)&req->remote, addr),
		       nvmf_rdma_cm_status_text(sts), why);
}

static void on_conn_request(struct rd_fab_listener *lis, struct rd_fab_req *req, void *arg)
{
	struct rdt_listener *l = arg;
	struct rdt_target *t = l->target;
	struct rdt_peer_limit limit = {0};
	struct rdt_peer *peer = NULL;
	struct rdt_handoff *h = NULL;
	uint16_t qid, depth;
	unsigned int sts = check_request(t, req, &qid, &depth);

	if (!sts && !rdt_peer_come(t, (struct sockaddr *)&req->remote, &peer, &limit))
		h = calloc(1, sizeof(*h));
	if (!h) {
		sts = sts ? sts : NVMF_RDMA_CM_NO_RSRC;
		rdt_peer_gone(t, peer);
		report_reject(t, req, sts, &limit);
		reject_request(req, sts);
		return;
	}
	h->peer = peer;
	h->reactor = rdt_place(t, qid == 0);
	h->req = req;
	h->listener = l;
	h->fab = ((struct rdt_rdma_listener *)l->state)->fab;
	h->qid = qid;
	h->depth = depth;
	rdt_hand_over(&rdt_rdma_of(h->reactor)->inbound, &h->over,
		      rdt_peer_source_on(h->peer, h->reactor));
}

static enum rdt_fab_kind verbs_kind(const struct rdt_listener_config *cfg)
{
	return (enum rdt_fab_kind)(RDT_FAB_VERBS + (cfg->send_with_inv ? 0 : RDT_FAB_NO_INV) +
				   (cfg->inline_sends ? 0 : RDT_FAB_NO_INLINE));
}

static bool rdma_sockets(const struct rdt_listener_config *cfg)
{
	struct sockaddr_storage addr;

	if (cfg->provider == RDT_PROVIDER_AUTO && !rd_addr_parse(cfg->address, cfg->port, &addr))
		return !rd_fab_verbs_has_addr((struct sockaddr *)&addr);
	return cfg->provider != RDT_PROVIDER_VERBS;
}

static enum rdt_fab_kind choose_fab_kind(const struct rdt_target *t,
					 const struct rdt_listener_config *cfg)
{
	bool sockets = rdma_sockets(cfg);

	if (cfg->provider == RDT_PROVIDER_AUTO)
		rd_info(t->log, RD_LOG_MAIN,
			"%s port %u: provider %s (%s RDMA device has the address)", cfg->address,
			cfg->port, sockets ? "iwarp" : "verbs", sockets ? "no" : "an");
	return sockets ? RDT_FAB_IWARP : verbs_kind(cfg);
}

/* The kind is chosen only once, so that the main loop and the reactors open the same one. */
static int rdma_prepare(struct rdt_listener *l)
{
	struct rdt_rdma_listener *rl = l->state ? l->state : calloc(1, sizeof(*rl));

	if (!rl)
		return -ENOMEM;
	l->state = rl;
	rl->fab = choose_fab_kind(l->target, l->cfg);
	return 0;
}

static void rdma_forget(struct rdt_listener *l)
{
	free(l->state);
	l->state = NULL;
}

/* Open the fabrics that the configuration needs, so that the start fails if one is missing. */
int rdt_rdma_open_fabs(struct rdt_reactor *r)
{
	const struct rdt_listener *l;
	int err = 0;

	TAILQ_FOREACH (l, &r->target->listeners, link) {
		const struct rdt_rdma_listener *rl = l->state;

		if (!err && l->transport == &rdt_rdma_transport)
			err = rdt_rdma_fab(r, rl->fab);
	}
	return err;
}

/* ---- listeners ---- */

static int open_iwarp(const struct rdt_target *t, struct iwarp_fab *own)
{
	uint64_t timeout = t->cfg->target.peer_timeout_ns;
	struct rd_fab_iwarp_opts opts = {
		.crc = own->crc,
		.congestion = own->congestion,
		.sndbuf = own->sndbuf,
		.rcvbuf = own->rcvbuf,
		.half_open = t->cfg->target.limits.half_open,
		.peer_timeout_ns = timeout ? timeout : RD_FAB_IWARP_NEVER,
	};

	return iwarp_open(t, t->loop, &opts, &own->fab);
}

static int get_iwarp(const struct rdt_listener *l, struct rd_fab **out)
{
	const struct rdt_listener_config *cfg = l->cfg;
	const char *congestion = rdt_listener_congestion(l);
	struct rdt_target *t = l->target;
	struct rdma_target *rt = target_state(t);
	struct iwarp_fab *own;
	int err = -ENOMEM;

	SLIST_FOREACH (own, &rt->iwarp_fabs, link) {
		*out = own->fab;
		if (own->crc == cfg->crc && own->sndbuf == cfg->send_buffer_bytes &&
		    own->rcvbuf == cfg->receive_buffer_bytes &&
		    rdt_config_same_text(own->congestion, congestion))
			return 0;
	}
	own = calloc(1, sizeof(*own));
	if (!own)
		return -ENOMEM;
	own->crc = cfg->crc;
	own->sndbuf = cfg->send_buffer_bytes;
	own->rcvbuf = cfg->receive_buffer_bytes;
	if (congestion && !(own->congestion = strdup(congestion)))
		goto err_free;
	err = open_iwarp(t, own);
	if (err)
		goto err_free;
	SLIST_INSERT_HEAD(&rt->iwarp_fabs, own, link);
	*out = own->fab;
	return 0;

err_free:
	free(own->congestion);
	free(own);
	return err;
}

static int main_fab(struct rdt_listener *l, struct rd_fab **out)
{
	const struct rdt_rdma_listener *rl = l->state;
	struct rdt_target *t = l->target;
	struct rd_fab **fabs = target_state(t)->fabs;
	int err;

	if (rl->fab == RDT_FAB_IWARP)
		return get_iwarp(l, out);
	err = open_fab_kind(t, t->loop, rl->fab, fabs);
	*out = fabs[rl->fab];
	return err;
}

/* Write to @text why main_fab() has failed with @err. */
static void say_no_fab(const struct rdt_listener *l, int err, char *text, size_t size)
{
	const struct rdt_rdma_listener *rl = l->state;
	const char *congestion = rl->fab == RDT_FAB_IWARP ? rdt_listener_congestion(l) : NULL;

	if (!rdt_listener_bad_congestion(congestion, err, text, size))
		snprintf(text, size, "cannot open the %s provider: %s", fab_name(rl->fab),
			 strerror(-err));
}

/* Returns whether to listen only after the hand-over. Without a socket, a listener cannot be held,
 * and connections that it accepts would use storage to which the other process still writes. */
static bool has_to_wait_for_commit(const struct rdt_listener *l, const struct rd_fab *fab,
				   char *text, size_t size)
{
	if (!l->target->listeners_held || fab->ops->listen_hold)
		return false;
	snprintf(text, size, "%s port %u: it will listen when the other process has handed over",
		 l->cfg->address, l->cfg->port);
	return true;
}

static int rdma_listen(struct rdt_listener *l, const struct sockaddr *addr, char *text, size_t size)
{
	struct rdt_rdma_listener *rl = l->state;
	struct sockaddr_storage at;
	struct rd_fab *fab;
	int err = main_fab(l, &fab);

	if (err) {
		say_no_fab(l, err, text, size);
		return err;
	}
	if (has_to_wait_for_commit(l, fab, text, size))
		return -EBUSY;
	err = rdt_listener_address(l, addr, &at, text, size);
	if (err)
		return err;
	err = -EOPNOTSUPP;
	if (l->inherited_fd >= 0)
		err = rd_fab_listen_on(fab, l->inherited_fd, on_conn_request, l, &rl->lis);
	if (err == -EOPNOTSUPP)
		err = rd_fab_listen(fab, (struct sockaddr *)&at, BACKLOG, on_conn_request, l,
				    &rl->lis);
	if (err) {
		rdt_listener_cannot(l, err, text, size);
		if (err == -ENODEV)
			snprintf(
				text, size,
				"no RDMA device has the address %s (rdma link); use provider iwarp",
				l->cfg->address);
		return err;
	}
	pthread_mutex_lock(&l->target->disc.lock); /* like in rdt_listener_bound() */
	rl->prtype = rl->lis->prtype;
	pthread_mutex_unlock(&l->target->disc.lock);
	rdt_listener_bound(l, &rl->lis->addr);
	if (l->target->listeners_held)
		rd_fab_listen_hold(rl->lis, true);
	return 0;
}

static int rdma_listen_fd(const struct rdt_listener *l)
{
	const struct rdt_rdma_listener *rl = l->state;

	return rd_fab_listen_fd(rl->lis);
}

static void rdma_listen_hold(struct rdt_listener *l, bool held)
{
	struct rdt_rdma_listener *rl = l->state;

	rd_fab_listen_hold(rl->lis, held);
}

static const char *rdma_provider(const struct rdt_listener *l)
{
	const struct rdt_rdma_listener *rl = l->state;

	return fab_name(rl->fab);
}

static uint8_t prtype(const struct rdt_rdma_listener *rl)
{
	if (rl->fab < RDT_FAB_VERBS)
		return NVMF_RDMA_PRTYPE_IWARP;
	if (!rl->prtype)
		return NVMF_RDMA_PRTYPE_NOT_SPECIFIED;
	if (strcmp(rl->prtype, "iwarp") == 0)
		return NVMF_RDMA_PRTYPE_IWARP;
	return strcmp(rl->prtype, "ib") == 0 ? NVMF_RDMA_PRTYPE_IB : NVMF_RDMA_PRTYPE_ROCEV2;
}

static void rdma_describe(const struct rdt_listener *l, struct nvmf_disc_log_entry *e)
{
	e->trtype = NVMF_TRTYPE_RDMA;
	e->tsas.rdma.qptype = NVMF_RDMA_QPTYPE_CONNECTED;
	e->tsas.rdma.cms = NVMF_RDMA_CMS_RDMA_CM;
	e->tsas.rdma.prtype = l ? prtype(l->state) : NVMF_RDMA_PRTYPE_NOT_SPECIFIED;
}

static void rdma_unlisten(struct rdt_listener *l)
{
	struct rdt_rdma_listener *rl = l->state;

	if (rl)
		rd_fab_unlisten(&rl->lis);
	l->listening = false;
}

static int rdma_open(struct rdt_target *t)
{
	t->transport_state[RDT_TRANSPORT_RDMA] = calloc(1, sizeof(struct rdma_target));
	return target_state(t) ? 0 : -ENOMEM;
}

static void rdma_close(struct rdt_target *t)
{
	struct rdma_target *rt = target_state(t);
	struct iwarp_fab *own;

	if (!rt)
		return;
	while ((own = SLIST_FIRST(&rt->iwarp_fabs))) {
		SLIST_REMOVE_HEAD(&rt->iwarp_fabs, link);
		rd_fab_close(&own->fab);
		free(own->congestion);
		free(own);
	}
	for (int i = 0; i < RDT_FABS; i++)
		rd_fab_close(&rt->fabs[i]);
	free(rt);
	t->transport_state[RDT_TRANSPORT_RDMA] = NULL;
}

static void rdma_reactor_status(const struct rdt_reactor *r, char *line, size_t size)
{
	size_t len = strlen(line);

	snprintf(line + len, size - len, " mrs=%u capsules=%u", rdt_rdma_mrs(r),
		 rdt_rdma_capsules(r));
}

const struct rdt_transport rdt_rdma_transport = {
	.name = "RDMA",
	.kind = RDT_TRANSPORT_RDMA,
	.open = rdma_open,
	.close = rdma_close,
	.prepare = rdma_prepare,
	.sockets = rdma_sockets,
	.forget = rdma_forget,
	.listen = rdma_listen,
	.listen_fd = rdma_listen_fd,
	.listen_hold = rdma_listen_hold,
	.provider = rdma_provider,
	.describe = rdma_describe,
	.unlisten = rdma_unlisten,
	.reactor_init = rdt_rdma_init,
	.reactor_fini = rdt_rdma_fini,
	.reactor_catch_up = rdma_catch_up,
	.reactor_move_in = rdt_rdma_move_in,
	.reactor_status = rdma_reactor_status,
};
