/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods that show the target, its subsystems, namespaces and listeners. */
#include "rpc_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/sockaddr.h"
#include "target/bdev/backend.h"
#include "target/config/config.h"
#include "target/nvmf/ana.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/ns.h"
#include "target/resv/identity.h"
#include "target/nvmf/reactor.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "target/reactor/lifecycle.h"
#include "http.h"
#include "reloader.h"
#include "show.h"

/* ---- info, status ---- */

static void show_info(struct rdt_rpc_call *call)
{
	rdt_rpc_result(call,
		       json_pack("{s:s, s:i, s:s, s:i, s:s, s:o}", "interface", RDT_RPC_INTERFACE,
				 "interface_version", RDT_RPC_VERSION, "version", RDT_VERSION,
				 "pid", (int)getpid(), "config", call->rpc->env->config_path,
				 "methods", rdt_rpc_describe_methods()));
}

static unsigned int controllers_of(struct rdt_subsys *ss)
{
	unsigned int count;

	pthread_mutex_lock(&ss->lock);
	count = ss->ctrls_count;
	pthread_mutex_unlock(&ss->lock);
	return count;
}

#define TIME_TEXT 32

static const char *time_text(time_t at, char text[TIME_TEXT])
{
	struct tm tm;

	gmtime_r(&at, &tm);
	strftime(text, TIME_TEXT, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return text;
}

json_t *rdt_show_last_reload(const struct rdt_reloader *r)
{
	const struct rdt_last_reload *last = &r->last;
	char when[TIME_TEXT];
	json_t *o;

	if (!last->at)
		return json_null();
	o = json_pack("{s:s, s:b, s:i, s:s}", "at", time_text(last->at, when), "applied",
		      last->applied, "problems", (int)last->problems, "summary", last->summary);
	if (o && last->reason[0])
		json_object_set_new(o, "reason", rdt_show_text(last->reason));
	return o;
}

const char *rdt_show_state(const struct rdt_target *t)
{
	if (t->drained || t->serving == RDT_DRAINING)
		return "draining";
	return t->serving == RDT_DRAINED ? "drained" : "serving";
}

static void show_status(struct rdt_rpc_call *call)
{
	struct rdt_target *t = call->rpc->target;
	struct rdt_served served = rdt_target_served(t);
	unsigned int controllers = 0, at = 0;
	struct rdt_subsys *ss;
	uint64_t uptime = (rd_loop_now_raw(t->loop) - t->started_ns) / RD_NSEC_PER_SEC;
	char spec[RD_LOG_SPEC_TEXT], started[TIME_TEXT];
	json_t *o;

	while ((ss = rdt_subsys_next(t, &at)))
		controllers += controllers_of(ss);
	o = json_pack("{s:s, s:s, s:s, s:i, s:s}", "state", rdt_show_state(t), "version",
		      RDT_VERSION, "config", call->rpc->env->config_path, "pid", (int)getpid(),
		      "started", time_text(time(NULL) - (time_t)uptime, started));
	json_object_update_new(
		o, json_pack("{s:I, s:i, s:i, s:i, s:s?, s:i, s:i, s:i, s:i, s:i, s:s, s:o, s:i}",
			     "uptime", (json_int_t)uptime, "reactors", (int)t->reactors_count,
			     "listeners", (int)served.listeners, "listeners_failed",
			     (int)served.listeners_failed, "http_failed", rdt_http_failed(t->http),
			     "subsystems", (int)served.subsystems, "subsystems_unset",
			     (int)served.subsystems_unset, "namespaces", (int)served.namespaces,
			     "controllers", (int)controllers, "discovery_controllers",
			     (int)controllers_of(&t->disc), "log_level", rd_log_spec(t->log, spec),
			     "last_reload", rdt_show_last_reload(call->rpc->env->reloader),
			     "unsaved", (int)call->rpc->env->reloader->unsaved));
	rdt_rpc_result(call, o);
}

/* ---- subsystems and namespaces ---- */

static json_t *hosts_json(const struct rdt_host_list *hosts)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < hosts->count; i++)
		json_array_append_new(list, json_string(hosts->nqns[i]));
	return list;
}

struct rdt_subsys *rdt_rpc_subsys(struct rdt_rpc_call *call, const char *param, bool *found)
{
	const char *nqn = rdt_rpc_text(call, param);
	struct rdt_subsys *ss = nqn ? rdt_subsys_find(call->rpc->target, nqn) : NULL;

	*found = !nqn || ss;
	if (!*found)
		rdt_rpc_error(call, RDT_RPC_NOT_FOUND, param, nqn,
			      "the method \"subsystem.list\" lists all",
			      "there is no subsystem \"%.223s\"", nqn);
	return ss;
}

static const char *ns_state_name(unsigned int state)
{
	switch (state) {
	case RDT_NS_LIVE:
		return "live";
	case RDT_NS_LEAVING:
		return "leaving";
	case RDT_NS_OPENING:
		return "opening";
	case RDT_NS_FAILED:
		return "failed";
	default:
		return "joining";
	}
}

/* The most serious one. */
static void fault_of(const struct rdt_ns *ns, struct rdt_noticed *out)
{
	if ((ns->bdev && rdt_bdev_noticed(ns->bdev, out)) || !ns->mismatch)
		return;
	out->kind = "mismatch";
	out->since = ns->mismatch_since;
	snprintf(out->text, sizeof(out->text), "%s", ns->mismatch);
}

static double stalled_for(const struct rdt_bdev *base, uint64_t now)
{
	uint64_t since = atomic_load(&base->late_since);

	if (!rdt_bdev_stalled(base))
		return -1;
	return now > since ? (double)(now - since) / 1e9 : 0;
}

/* What hosts see; a backend may tell its NGUID only when it is open. */
struct rdt_ns_identity rdt_ns_identity_shown(const struct rdt_ns *ns)
{
	const struct rdt_identity *id = ns->identity.id;
	const uint8_t *nguid = ns->bdev ? rdt_ns_nguid(ns) : NULL;
	struct rdt_ns_identity shown = {.from = rdt_identity_from_name(ns->identity.from)};

	if (id)
		memcpy(shown.uuid, id->text, sizeof(shown.uuid));
	for (size_t i = 0; i < 16 && nguid; i++)
		snprintf(&shown.nguid[2 * i], 3, "%02x", nguid[i]);
	return shown;
}

void rdt_show_identity(json_t *o, const struct rdt_ns_identity *identity)
{
	if (!o || !identity->uuid[0])
		return;
	json_object_set_new(o, "uuid", json_string(identity->uuid));
	json_object_set_new(o, "uuid_from", json_string(identity->from));
	if (identity->nguid[0])
		json_object_set_new(o, "nguid", json_string(identity->nguid));
}

/* Which of the hosts that may connect have a key. */
static const char *with_keys(const struct rdt_subsys_config *cfg)
{
	if (cfg->authentication == RDT_AUTH_REQUIRED)
		return "all";
	if (!cfg->host_auth_count)
		return "none";
	return cfg->host_auth_count < cfg->hosts_count ? "some" : "all";
}

struct rdt_ns_shown rdt_ns_shown(const struct rdt_ns *ns)
{
	const struct rdt_bdev *base = ns->bdev ? rdt_bdev_base(ns->bdev) : NULL;
	uint64_t now = rd_loop_now(ns->subsys->target->loop);
	struct rdt_ns_shown shown = {
		.nqn = ns->subsys->nqn,
		.auth = with_keys(ns->subsys->now),
		.cfg = ns->cfg,
		.cfg_of = ns->cfg_of,
		.nsid = ns->nsid,
		.state = ns->state,
		.since = ns->since,
		.blocks = atomic_load(&ns->blocks),
		.lbads = ns->lbads,
		.ana_group = rdt_ns_ana_group(ns),
		.read_only = atomic_load(&ns->read_only),
		.write_protected = atomic_load(&ns->wp) != 0,
		.standby = base && atomic_load(&base->standby),
		.stalled_seconds = base ? stalled_for(base, now) : -1,
		.listed = ns->listed,
		.why = ns->why,
		.retry_seconds = ns->retry_at > now ? (double)(ns->retry_at - now) / 1e9
				 : ns->retry_at     ? 0
						    : -1,
		.identity = rdt_ns_identity_shown(ns),
	};

	if (ns->now->qos)
		memcpy(shown.limits, ns->now->qos->limits, sizeof(shown.limits));
	fault_of(ns, &shown.fault);
	return shown;
}

json_t *rdt_show_limits(const uint64_t *limits)
{
	static const char *const names[RDT_QOS_LIMITS] = {
		[RDT_QOS_IOPS] = "iops",
		[RDT_QOS_READ_IOPS] = "read_iops",
		[RDT_QOS_WRITE_IOPS] = "write_iops",
		[RDT_QOS_BYTES] = "bandwidth",
		[RDT_QOS_READ_BYTES] = "read_bandwidth",
		[RDT_QOS_WRITE_BYTES] = "write_bandwidth",
	};
	json_t *o = NULL;

	for (unsigned int i = 0; i < RDT_QOS_LIMITS; i++) {
		if (!limits[i])
			continue;
		if (!o)
			o = json_object();
		json_object_set_new(o, names[i], json_integer((json_int_t)limits[i]));
	}
	return o ? o : json_null();
}

/* As Ceph's commands name an image. */
static json_t *image_path(const struct rdt_rbd_config *rbd)
{
	return json_sprintf("%s/%s%s%s%s%s", rbd->pool,
			    rbd->rados_namespace ? rbd->rados_namespace : "",
			    rbd->rados_namespace ? "/" : "", rbd->image, rbd->snapshot ? "@" : "",
			    rbd->snapshot ? rbd->snapshot : "");
}

static void add_fault(json_t *o, const struct rdt_noticed *fault)
{
	json_object_set_new(o, "fault", json_string(fault->kind));
	json_object_set_new(o, "fault_seconds", json_integer(rdt_fault_seconds(fault)));
	json_object_set_new(o, "fault_reason", rdt_show_text(fault->text));
}

json_t *rdt_show_namespace(const struct rdt_ns_shown *ns)
{
	json_t *o = json_pack(
		"{s:s, s:i, s:s, s:s, s:i, s:I, s:I, s:b, s:b, s:i, s:b, s:b, s:s, s:o}", "nqn",
		ns->nqn, "nsid", (int)ns->nsid, "state", ns_state_name(ns->state), "backend",
		rdt_config_backend_name(ns->cfg->backend), "block_size", 1 << ns->lbads, "blocks",
		(json_int_t)ns->blocks, "size", (json_int_t)(ns->blocks << ns->lbads), "read_only",
		ns->read_only, "write_protected", ns->write_protected, "ana_group",
		(int)ns->ana_group, "standby", ns->standby, "stalled", ns->stalled_seconds >= 0,
		"auth", ns->auth, "qos", rdt_show_limits(ns->limits));

	rdt_show_identity(o, &ns->identity);
	if (o && ns->stalled_seconds >= 0)
		json_object_set_new(o, "stalled_seconds", json_real(ns->stalled_seconds));
	if (o && ns->cfg->path)
		json_object_set_new(o, "path", json_string(ns->cfg->path));
	else if (o && ns->cfg->rbd)
		json_object_set_new(o, "path", image_path(ns->cfg->rbd));
	if (o && ns->fault.kind)
		add_fault(o, &ns->fault);
	if (o && ns->state == RDT_NS_FAILED) {
		json_object_set_new(o, "reason",
				    rdt_show_text(ns->why ? ns->why : "out of memory"));
		json_object_set_new(o, "retry_seconds",
				    ns->retry_seconds < 0 ? json_null()
							  : json_real(ns->retry_seconds));
	}
	return o;
}

/* ---- long lists ---- */

/* A long list is produced in slices, one for each turn of the loop. */
#define LIST_SLICE (2 * RD_NSEC_PER_MSEC)

struct listing {
	struct rdt_rpc_call *call;
	struct rd_defer step;
	/* Moves to the next element. Returns false after the last one; *@o NULL: no memory. */
	bool (*next)(struct listing *w, json_t **o);
	struct rdt_subsys *one; /* held; NULL: all subsystems */
	unsigned int subsys;    /* place of the current one */
	uint32_t nsid;          /* the last namespace listed; 0: none yet */
	unsigned int shown;     /* how many with that NSID; all but one of them leave */
	bool any;               /* at least one was listed */
	FILE *f;
	char *text;
	size_t len;
};

static void listing_free(struct listing *w)
{
	rd_defer_cancel(w->call->rpc->loop, &w->step);
	if (w->one)
		rdt_subsys_put(w->one);
	if (w->f)
		fclose(w->f);
	free(w->text);
	free(w);
}

static void listing_cancel(struct rdt_rpc_call *call)
{
	listing_free(call->work);
}

static void listing_end(struct listing *w)
{
	struct rdt_rpc_call *call = w->call;
	char *text;
	bool good;

	fputs("]}", w->f);
	good = !ferror(w->f);
	good &= !fclose(w->f);
	w->f = NULL;
	call->cancel = NULL;
	text = w->text;
	w->text = NULL;
	listing_free(w);
	rdt_rpc_result_text(call, good ? text : NULL);
	free(text);
}

static void listing_step(struct rd_defer *defer)
{
	struct listing *w = rd_container_of(defer, struct listing, step);
	struct rd_loop *loop = w->call->rpc->loop;
	uint64_t end = rd_loop_now_raw(loop) + LIST_SLICE;
	json_t *o;

	while (w->next(w, &o)) {
		if (w->any)
			fputc(',', w->f);
		w->any = true;
		if (!o || json_dumpf(o, w->f, JSON_COMPACT))
			fputs("null", w->f);
		json_decref(o);
		if (rd_loop_now_raw(loop) < end)
			continue;
		rd_defer(loop, &w->step, RD_DEFER_NEXT);
		return;
	}
	listing_end(w);
}

/* @name: of the list in the answer. */
static void start_listing(struct rdt_rpc_call *call, const char *name, struct rdt_subsys *one,
			  bool (*next)(struct listing *w, json_t **o))
{
	struct listing *w = calloc(1, sizeof(*w));

	if (w)
		w->f = open_memstream(&w->text, &w->len);
	if (!w || !w->f) {
		free(w);
		rdt_rpc_no_memory(call);
		return;
	}
	w->call = call;
	w->next = next;
	w->one = one;
	if (one)
		rdt_subsys_hold(one);
	w->step.fn = listing_step;
	call->work = w;
	call->cancel = listing_cancel;
	fprintf(w->f, "{\"%s\":[", name);
	listing_step(&w->step);
}

/* Which hosts may connect. */
static const char *admitted(const struct rdt_subsys *ss)
{
	if (ss->now->hosts_unset)
		return "unset";
	return ss->hosts.any ? "any" : ss->hosts.count ? "listed" : "none";
}

static json_t *subsys_json(struct rdt_subsys *ss)
{
	/* Only the main thread changes the list of hosts: a reactor on which a host connects does
	 * not wait for this. */
	json_t *hosts = hosts_json(&ss->hosts);

	return json_pack("{s:s, s:s, s:s, s:b, s:s, s:o, s:s, s:i, s:i, s:i}", "nqn", ss->nqn,
			 "serial", ss->cfg->serial, "model", ss->cfg->model, "allow_any_host",
			 ss->hosts.any, "admits", admitted(ss), "hosts", hosts, "auth",
			 with_keys(ss->now), "hosts_with_qos", (int)ss->now->host_qos_count,
			 "namespaces", (int)atomic_load(&ss->ns_count), "controllers",
			 (int)controllers_of(ss));
}

static bool next_subsystem(struct listing *w, json_t **o)
{
	const struct rdt_target *t = w->call->rpc->target;
	struct rdt_subsys *ss;

	while ((ss = rdt_subsys_next(t, &w->subsys)) &&
	       (!rdt_subsys_live(ss) || (w->one && ss != w->one)))
		;
	if (ss)
		*o = subsys_json(ss);
	return ss;
}

static void subsystem_list(struct rdt_rpc_call *call)
{
	bool found;
	struct rdt_subsys *one = rdt_rpc_subsys(call, "nqn", &found);

	if (found)
		start_listing(call, "subsystems", one, next_subsystem);
}

/* The namespace after the first @shown ones with @nsid, which may have been removed. Namespaces are
 * sorted; those that leave are behind the one that has their NSID now. */
static const struct rdt_ns *ns_after(const struct rdt_subsys *ss, uint32_t nsid, unsigned int shown)
{
	const struct rdt_ns *ns = nsid ? rdt_ns_with(ss, nsid) : NULL;

	if (!ns)
		TAILQ_FOREACH (ns, &ss->namespaces, link)
			if (ns->nsid >= nsid)
				break;
	for (; ns && ns->nsid == nsid && shown; shown--)
		ns = TAILQ_NEXT(ns, link);
	return ns;
}

static bool next_namespace(struct listing *w, json_t **o)
{
	const struct rdt_target *t = w->call->rpc->target;

	for (; w->subsys < t->subsys_count; w->subsys++, w->nsid = 0) {
		const struct rdt_subsys *ss = t->subsys[w->subsys];
		const struct rdt_ns *ns = NULL;
		struct rdt_ns_shown shown;

		if (ss && (w->one ? ss == w->one : rdt_subsys_live(ss)))
			ns = ns_after(ss, w->nsid, w->shown);
		if (!ns)
			continue;
		shown = rdt_ns_shown(ns);
		*o = rdt_show_namespace(&shown);
		w->shown = ns->nsid == w->nsid ? w->shown + 1 : 1;
		w->nsid = ns->nsid;
		return true;
	}
	return false;
}

static void namespace_list(struct rdt_rpc_call *call)
{
	bool found;
	struct rdt_subsys *one = rdt_rpc_subsys(call, "nqn", &found);

	if (found)
		start_listing(call, "namespaces", one, next_namespace);
}

/* ---- listeners ---- */

static json_t *listener_json(const struct rdt_listener *l)
{
	static const char *const names[] = {[RDT_LISTENER_CLOSED] = "closed",
					    [RDT_LISTENER_LISTENING] = "listening",
					    [RDT_LISTENER_FAILED] = "failed"};
	const struct sockaddr *addr = (const struct sockaddr *)&l->addr;
	bool bound = addr->sa_family != AF_UNSPEC;
	json_t *ana = json_object();
	char host[RD_ADDR_TEXT], group[16], text[RDT_ANA_TEXT];
	json_t *o;

	/* Groups without an entry are optimized. */
	for (unsigned int g = 1; g <= RDT_ANA_GROUPS; g++) {
		unsigned int state = atomic_load(&l->ana[g]);

		if (!state || state == RDT_ANA_OPTIMIZED)
			continue;
		snprintf(group, sizeof(group), "%u", g);
		json_object_set_new(ana, group, json_string(rdt_config_ana_name(state)));
	}
	o = json_pack("{s:i, s:s, s:i, s:s, s:s, s:s, s:o, s:s}", "portid", (int)l->portid,
		      "address", bound ? rd_addr_format_host(addr, host) : l->cfg->address, "port",
		      bound ? (int)rd_addr_port(addr) : (int)l->cfg->port, "transport",
		      rdt_config_transport_name(l->cfg->transport), "provider",
		      l->transport->provider(l), "state", names[l->phase], "ana", ana, "ana_states",
		      rdt_ana_text(l, text));
	if (l->phase == RDT_LISTENER_FAILED) {
		uint64_t now = rd_loop_now(l->target->loop);
		uint64_t next = l->target->listen_timer.deadline;

		json_object_set_new(o, "reason", rdt_show_text(l->why));
		json_object_set_new(o, "retry_seconds",
				    json_real(next > now ? (double)(next - now) / 1e9 : 0));
	}
	return o;
}

json_t *rdt_show_listeners(const struct rdt_target *t)
{
	const struct rdt_listener *l;
	json_t *list = json_array();

	TAILQ_FOREACH (l, &t->listeners, link)
		json_array_append_new(list, listener_json(l));
	return list;
}

static void listener_list(struct rdt_rpc_call *call)
{
	rdt_rpc_result(call,
		       json_pack("{s:o}", "listeners", rdt_show_listeners(call->rpc->target)));
}

const struct rdt_rpc_method rdt_rpc_show_methods[] = {
	{"info", "version of program and interface, and all methods", false, NULL, show_info},
	{"status", "state of the target, start time and last reload", false, NULL, show_status},
	{"subsystem.list", "subsystems and their hosts, all or nqn", false, "[nqn: string]",
	 subsystem_list},
	{"namespace.list", "namespaces, of all subsystems or of nqn", false, "[nqn: string]",
	 namespace_list},
	{"listener.list", "addresses, with the ANA states that are not optimized", false, NULL,
	 listener_list},
	{NULL, NULL, false, NULL, NULL},
};
