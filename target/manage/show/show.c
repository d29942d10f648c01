/* SPDX-License-Identifier: BSD-3-Clause */
#include "show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/sockaddr.h"
#include "util/utf8.h"
#include "target/nvmf/ana.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "target/resv/identity.h"
#include "target/manage/change/reloader.h"

/* ---- names that hosts have chosen ---- */

json_t *rdt_show_text(const char *text)
{
	size_t len = strlen(text), n;
	char *copy = strdup(text);
	json_t *string;

	if (!copy)
		return NULL;
	for (size_t at = 0; at < len; at += n + !n) {
		n = rd_utf8_len(text + at, len - at);
		if (!n)
			copy[at] = '?';
	}
	string = json_string(copy);
	free(copy);
	return string;
}

size_t rdt_show_plain(const char *text, size_t len)
{
	size_t n = rd_utf8_len(text, len);
	char copy[8];

	if (!n || *text == '\\')
		return 0;
	memcpy(copy, text, n);
	rd_mask_control(copy, n);
	return memcmp(copy, text, n) == 0 ? n : 0;
}

json_t *rdt_show_name(const char *name)
{
	size_t left = strlen(name), n;
	char *text = malloc(4 * left + 1), *to = text;
	json_t *string;

	if (!text)
		return NULL;
	for (; left; name += n, left -= n) {
		n = rdt_show_plain(name, left);
		if (n) {
			memcpy(to, name, n);
			to += n;
		} else {
			n = 1;
			to += sprintf(to, "\\x%02x", (unsigned char)*name);
		}
	}
	string = json_stringn(text, (size_t)(to - text));
	free(text);
	return string;
}

/* ---- the target ---- */

const char *rdt_show_time(time_t at, char text[RDT_SHOW_TIME])
{
	struct tm tm;

	gmtime_r(&at, &tm);
	strftime(text, RDT_SHOW_TIME, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return text;
}

json_t *rdt_show_last_reload(const struct rdt_reloader *r)
{
	const struct rdt_last_reload *last = &r->last;
	char when[RDT_SHOW_TIME];
	json_t *o;

	if (!last->at)
		return json_null();
	o = json_pack("{s:s, s:b, s:i, s:s}", "at", rdt_show_time(last->at, when), "applied",
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

/* ---- namespaces ---- */

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

/* Copies the most serious fault. */
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

/* The identity that hosts see. The NGUID of some backends is known only while they are open. */
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

const char *rdt_show_auth(const struct rdt_subsys_config *cfg)
{
	if (cfg->authentication == RDT_AUTH_REQUIRED)
		return "all";
	if (!cfg->dhchap_count)
		return "none";
	return cfg->dhchap_count < cfg->hosts_count ? "some" : "all";
}

struct rdt_ns_shown rdt_ns_shown(const struct rdt_ns *ns)
{
	const struct rdt_bdev *base = ns->bdev ? rdt_bdev_base(ns->bdev) : NULL;
	uint64_t now = rd_loop_now(ns->subsys->target->loop);
	struct rdt_ns_shown shown = {
		.nqn = ns->subsys->nqn,
		.auth = rdt_show_auth(ns->subsys->now),
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
		.standby = base && atomic_load(&base->standby) && !atomic_load(&base->comes),
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

/* The name of an image as in the rbd command. */
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
