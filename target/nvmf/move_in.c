/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Controllers and connections that come from another process. The main thread reads the records,
 * and decides which of them can be taken; then the reactors build the admin queues with their
 * controllers, and then the I/O queues. What cannot be taken is left: its host connects again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/fd_bag.h"
#include "util/log.h"
#include "util/sockaddr.h"
#include "nvmf/text.h"
#include "target/config/tgt_limits.h"
#include "ana.h"
#include "auth_keys.h"
#include "ctrl.h"
#include "host_access.h"
#include "listener.h"
#include "move.h"
#include "move_bytes.h"
#include "move_counters.h"
#include "move_ctrl.h"
#include "peers.h"
#include "placement.h"
#include "qpair.h"
#include "reactor.h"
#include "subsys.h"
#include "target.h"

struct moving { /* a queue; the reactor's while @msg is under way */
	struct rd_msg msg;
	struct rdt_move_in *mi;
	const json_t *rec, *ctrl_rec;
	const json_t *bad; /* upon -EPROTO: which of them */
	bool begun;        /* its reactor has the socket, or had it */
	struct rdt_subsys *ss;
	const struct rdt_transport *transport;
	struct rdt_reactor *reactor;
	struct rdt_qpair *qp;
	struct rdt_moved_in in;
	const char *hostnqn;
	uint8_t hostid[16];
	uint64_t kato, queues, cntlid, qid, sqsize, sqhd, unproven;
	bool sqflow_off, fuse_failed;
	int err; /* 0: it was taken; -EPROTO: a field cannot be; another one: it is left */
};

struct in_part { /* of a reactor */
	struct rd_msg msg;
	struct rdt_move_in *mi;
	struct rdt_reactor *reactor;
};

struct rdt_move_in {
	struct rdt_target *target;
	json_t *records;
	struct rd_fd_bag *fds;
	json_t *ctrls; /* by subsystem and controller ID: their records, borrowed */
	void (*in)(void *arg, int err, const char *why);
	void *arg;
	bool io;           /* the I/O queues are built */
	bool start;        /* else they are forgotten */
	unsigned int left; /* messages under way */
	struct rdt_move_count count;
	uint64_t reactors; /* of the other process; 0: it does not say */
	struct rdt_move_counters counters;
	struct rd_msg msg;
	int err;
	char why[256];
	size_t moving_count;
	struct moving *moving;
	struct in_part parts[];
};

static void bad_record(struct rdt_move_in *mi, const json_t *rec, const char *what)
{
	const char *kind = json_string_value(json_object_get(rec, "kind"));

	if (mi->err)
		return;
	mi->err = -EPROTO;
	snprintf(mi->why, sizeof(mi->why),
		 "a record of kind \"%.16s\" has no %s, or one that cannot be", kind ? kind : "?",
		 what);
}

/* ---- on the reactors ---- */

static void queue_built(struct rd_msg *msg);

static void built(struct moving *m, int err)
{
	m->err = err;
	m->msg.fn = queue_built;
	rd_loop_post(m->mi->target->loop, &m->msg);
}

/* @m->qp cannot go on. Another process has its socket, so nothing is sent. */
static void give_up_moving(struct moving *m, int err)
{
	rdt_qpair_close(m->qp, "it cannot be taken from another process");
	built(m, err);
}

static void is_in(struct moving *m, struct rdt_ctrl *ctrl)
{
	struct rdt_qpair *qp = m->qp;

	qp->sqhd = (uint16_t)m->sqhd;
	qp->unproven = (uint32_t)m->unproven;
	qp->fuse_failed = m->fuse_failed;
	rdt_qpair_moved_in(qp, ctrl, (uint16_t)m->qid, (uint16_t)m->sqsize, m->sqflow_off);
}

/* Builds the connection, which counts for its host. Returns whether it can go on. */
static bool build_conn(struct moving *m)
{
	struct rdt_peer_limit limit;
	int err = m->transport->reactor_move_in(m->reactor, &m->in, &m->qp);

	free(m->in.bytes);
	m->in.bytes = NULL;
	if (err) {
		rdt_unplace(m->reactor, true);
		built(m, err);
		return false;
	}
	if (m->sqsize > m->qp->depth)
		err = -EMSGSIZE;
	if (!err)
		err = rdt_peer_join(m->qp, m->hostnqn, true, &limit);
	if (err)
		give_up_moving(m, err);
	return !err;
}

static void build_admin(struct rd_msg *msg)
{
	struct moving *m = rd_container_of(msg, struct moving, msg);
	struct rdt_ctrl *ctrl;
	int err;

	if (!build_conn(m))
		return;
	err = rdt_ctrl_move_in(m->ss, m->qp, m->hostnqn, m->hostid, (uint32_t)m->kato,
			       (uint16_t)m->cntlid, (uint16_t)m->queues, &ctrl);
	if (err) {
		give_up_moving(m, err);
		return;
	}
	err = rdt_move_ctrl_in(ctrl, m->ctrl_rec);
	m->bad = m->ctrl_rec;
	is_in(m, ctrl);
	if (err)
		give_up_moving(m, err);
	else
		built(m, 0);
}

static void io_attached(struct rdt_attach *at)
{
	struct moving *m = at->moves;
	struct rdt_ctrl *ctrl = at->ctrl;

	at->moves = NULL;
	at->ctrl = NULL;
	if (nvme_status_ok(at->status)) {
		is_in(m, ctrl);
		built(m, 0);
		return;
	}
	rdt_peer_leave(m->qp);
	rdt_ctrl_put(ctrl);
	give_up_moving(m, -EBUSY);
	rdt_qpair_check(m->qp);
}

static void attach_moved(struct rd_msg *msg)
{
	rdt_ctrl_attach(rd_container_of(msg, struct rdt_attach, msg));
}

static void build_io(struct rd_msg *msg)
{
	struct moving *m = rd_container_of(msg, struct moving, msg);
	struct rdt_attach *at;

	if (!build_conn(m))
		return;
	at = &m->qp->attach;
	at->ctrl = rdt_subsys_get_ctrl(m->ss, (uint16_t)m->cntlid);
	if (!at->ctrl) { /* it was left */
		give_up_moving(m, -ENOENT);
		return;
	}
	at->moves = m;
	at->qp = m->qp;
	at->qid = (uint16_t)m->qid;
	at->guest = false;
	memcpy(at->hostid, m->hostid, sizeof(at->hostid));
	snprintf(at->hostnqn, sizeof(at->hostnqn), "%s", m->hostnqn);
	at->attached = io_attached;
	at->msg.fn = attach_moved;
	rd_loop_post(at->ctrl->owner->loop, &at->msg);
}

/* ---- what the records say ---- */

/* The key of a controller in mi->ctrls. */
static void ctrl_key(const char *nqn, uint64_t cntlid, char key[NVMF_NQN_MAX + 16])
{
	snprintf(key, NVMF_NQN_MAX + 16, "%u %s", (unsigned int)cntlid, nqn);
}

static void list_ctrl(struct rdt_move_in *mi, json_t *rec)
{
	char key[NVMF_NQN_MAX + 16];
	uint64_t cntlid;
	const char *nqn;

	if (!rdt_move_text(rec, "subsys", NVMF_NQN_MAX, &nqn)) {
		bad_record(mi, rec, "subsys");
		return;
	}
	if (!rdt_move_uint(rec, "cntlid", 1, 0xffef, &cntlid)) {
		bad_record(mi, rec, "cntlid");
		return;
	}
	ctrl_key(nqn, cntlid, key);
	if (json_object_get(mi->ctrls, key))
		bad_record(mi, rec, "cntlid of its own");
	else if (json_object_set(mi->ctrls, key, rec) && !mi->err)
		mi->err = -ENOMEM;
}

static const struct rdt_transport *transport_by(const struct rdt_target *t, const char *name)
{
	const struct rdt_transport *tr;

	RDT_FOREACH_TRANSPORT(tr, t, i)
	if (tr->reactor_move_in && strcasecmp(tr->name, name) == 0)
		return tr;
	return NULL;
}

/* The fields of a queue that every transport has. */
static bool read_queue(struct moving *m, const char **nqn, const char **transport)
{
	static const char *const names[] = {"cntlid", "qid", "sqsize", "sqhd", "unproven", "depth"};
	uint64_t depth, *const to[] = {&m->cntlid, &m->qid,      &m->sqsize,
				       &m->sqhd,   &m->unproven, &depth};
	static const uint64_t min[] = {1, 0, 2, 0, 0, 2},
			      max[] = {0xffef, 0xfffe, 0xffff, 0xffff, UINT32_MAX, 0xffff};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!rdt_move_uint(m->rec, names[i], min[i], max[i], to[i])) {
			bad_record(m->mi, m->rec, names[i]);
			return false;
		}
	m->in.qid = (uint16_t)m->qid;
	m->in.depth = (uint16_t)depth;
	m->fuse_failed = json_is_true(json_object_get(m->rec, "fuse_failed"));
	if (rdt_move_text(m->rec, "subsys", NVMF_NQN_MAX, nqn) &&
	    rdt_move_text(m->rec, "transport", 16, transport) &&
	    rdt_move_bool(m->rec, "sqflow_off", &m->sqflow_off) && m->sqhd < m->sqsize &&
	    m->sqsize <= depth)
		return true;
	bad_record(m->mi, m->rec, "subsys, transport, sqflow_off, sqhd or sqsize");
	return false;
}

static bool read_host(struct moving *m, bool *authenticated, uint64_t *data, uint64_t *capsule)
{
	const json_t *rec = m->ctrl_rec;

	if (rdt_move_text(rec, "hostnqn", NVMF_NQN_MAX, &m->hostnqn) &&
	    rdt_move_hex(rec, "hostid", m->hostid, sizeof(m->hostid)) &&
	    rdt_move_uint(rec, "kato", 0, UINT32_MAX, &m->kato) &&
	    rdt_move_uint(rec, "queues", 0, UINT16_MAX, &m->queues) &&
	    rdt_move_bool(rec, "authenticated", authenticated) &&
	    rdt_move_uint(rec, "max_data", 0, UINT32_MAX, data) &&
	    rdt_move_uint(rec, "in_capsule", 0, UINT32_MAX, capsule))
		return true;
	bad_record(m->mi, rec,
		   "hostnqn, hostid, kato, queues, authenticated, max_data or in_capsule");
	return false;
}

/* May its host go on in this configuration, with what it was told? */
static bool may_move_in(struct moving *m, const char *nqn, const char *transport)
{
	struct rdt_target *t = m->mi->target;
	const struct rdt_target_config *cfg = &t->cfg->target;
	uint64_t data, capsule;
	bool authenticated;

	if (!read_host(m, &authenticated, &data, &capsule))
		return false;
	m->ss = rdt_subsys_find(t, nqn);
	m->transport = transport_by(t, transport);
	return m->ss && m->transport && rdt_subsys_allows(m->ss, m->hostnqn) &&
	       (authenticated || !rdt_auth_asks(m->ss, m->hostnqn)) &&
	       data <= cfg->max_data_bytes && capsule <= cfg->in_capsule_bytes &&
	       m->queues <= RDT_IO_QUEUES_MAX && m->qid <= m->queues;
}

static struct rdt_listener *listener_of(struct rdt_target *t, const struct rdt_transport *tr,
					const struct sockaddr_storage *local)
{
	const struct sockaddr *at = (const struct sockaddr *)local;
	struct rdt_listener *l, *any = NULL;

	TAILQ_FOREACH (l, &t->listeners, link) {
		const struct sockaddr *addr = (const struct sockaddr *)&l->addr;

		if (l->transport != tr || atomic_load(&l->tls) == RDT_TLS_REQUIRED)
			continue;
		if (rd_addr_equal(addr, at))
			return l;
		if (addr->sa_family == at->sa_family && rd_addr_is_any(addr) &&
		    rd_addr_port(addr) == rd_addr_port(at))
			any = l;
	}
	return any;
}

/* Nothing may block on a reactor, and who sends descriptors may be no version of this program. */
static int set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL, 0);

	return flags < 0 || (!(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK))
		       ? -errno
		       : 0;
}

/* Takes the socket of @m. Returns whether it is one that can go on; else it is closed. */
static bool take_socket_of(struct moving *m)
{
	struct rdt_moved_in *in = &m->in;
	socklen_t len = sizeof(int), local = sizeof(in->local), remote = sizeof(in->remote);
	int type = 0;
	uint64_t n;

	in->fd = rdt_move_uint(m->rec, "fd", 0, INT32_MAX, &n)
			 ? rd_fd_bag_take(m->mi->fds, (long long)n)
			 : -ENOENT;
	if (in->fd < 0 || getsockopt(in->fd, SOL_SOCKET, SO_TYPE, &type, &len) ||
	    type != SOCK_STREAM || set_nonblocking(in->fd)) {
		bad_record(m->mi, m->rec, "fd of a socket");
		goto close_it;
	}
	if (!getsockname(in->fd, (struct sockaddr *)&in->local, &local) &&
	    !getpeername(in->fd, (struct sockaddr *)&in->remote, &remote))
		return true;
	/* The host has closed it. */
close_it:
	if (in->fd >= 0)
		close(in->fd);
	in->fd = -1;
	return false;
}

static bool take_bytes_of(struct moving *m)
{
	const json_t *text = json_object_get(m->rec, "bytes");
	int err = text ? rdt_move_decode(text, RDT_MOVE_BYTES_MAX, &m->in.bytes, &m->in.len) : 0;

	if (err == -EPROTO)
		bad_record(m->mi, m->rec, "bytes in base64");
	return !err;
}

/* The reactor that it was on, so that their figures stay theirs. */
static struct rdt_reactor *place_moved(const struct rdt_move_in *mi, const json_t *rec)
{
	struct rdt_target *t = mi->target;
	uint64_t n;

	if (mi->reactors != t->reactors_count ||
	    !rdt_move_uint(rec, "reactor", 0, t->reactors_count - 1, &n))
		return rdt_place(t, true); /* as of a queue that has had no Connect */
	rdt_place_on(&t->reactors[n]);
	return &t->reactors[n];
}

/* Decides about a queue. Returns whether it is to be built. */
static bool take_queue(struct moving *m, const json_t *rec)
{
	struct rdt_target *t = m->mi->target;
	char key[NVMF_NQN_MAX + 16];
	const char *nqn, *transport;
	struct rdt_peer_limit limit;

	m->rec = rec;
	if (!read_queue(m, &nqn, &transport))
		return false;
	ctrl_key(nqn, m->cntlid, key);
	m->ctrl_rec = json_object_get(m->mi->ctrls, key);
	if (!m->ctrl_rec || !may_move_in(m, nqn, transport) || !take_socket_of(m))
		return false;
	m->in.rec = rec;
	m->in.listener = listener_of(t, m->transport, &m->in.local);
	if (m->in.listener && take_bytes_of(m) &&
	    !rdt_peer_come(t, (const struct sockaddr *)&m->in.remote, &m->in.peer, &limit)) {
		m->reactor = place_moved(m->mi, rec);
		return true;
	}
	free(m->in.bytes);
	m->in.bytes = NULL;
	close(m->in.fd);
	return false;
}

static void take_ana_changes(_Atomic uint64_t to[RDT_ANA_GROUPS + 1], const json_t *changes)
{
	for (size_t i = 0; i <= RDT_ANA_GROUPS; i++) {
		json_int_t n = json_integer_value(json_array_get(changes, i));

		if (n > 0)
			atomic_fetch_add(&to[i], (uint64_t)n);
	}
}

/* The states that hosts know, until rdt_move_start(). */
static void take_ana_states(struct rdt_listener *l, const json_t *states)
{
	for (size_t i = 0; i <= RDT_ANA_GROUPS; i++) {
		json_int_t state = json_integer_value(json_array_get(states, i));

		if ((state >= NVME_ANA_STATE_OPTIMIZED &&
		     state <= NVME_ANA_STATE_PERSISTENT_LOSS) ||
		    state == NVME_ANA_STATE_CHANGE)
			atomic_store(&l->ana[i], (uint8_t)state);
	}
}

static void take_counters(struct rdt_move_in *mi, const struct rdt_listener *l, const json_t *rec)
{
	int err = rdt_move_counters_read(&mi->counters, l, rec);

	if (!err && rdt_move_is(rec, "target"))
		err = rdt_move_totals_in(mi->target, rec);
	if (err == -EPROTO)
		bad_record(mi, rec, "counters");
	else if (err && !mi->err)
		mi->err = err;
}

struct listener_name {
	const char *address, *transport, *bound;
	uint64_t port;
};

static bool read_listener_name(const json_t *rec, struct listener_name *name)
{
	if (!rdt_move_text(rec, "bound", RD_ADDR_TEXT, &name->bound))
		name->bound = "";
	return rdt_move_text(rec, "address", 256, &name->address) &&
	       rdt_move_text(rec, "transport", 16, &name->transport) &&
	       rdt_move_uint(rec, "port", 0, UINT16_MAX, &name->port);
}

static bool listener_is(const struct rdt_listener *l, const struct listener_name *name)
{
	return strcmp(l->cfg->address, name->address) == 0 && l->cfg->port == name->port &&
	       strcmp(l->transport->name, name->transport) == 0;
}

/* Several may have one address in the configuration, with port 0: these differ in @bound. */
static const struct rdt_listener *listener_by(const struct rdt_target *t,
					      const struct listener_name *name)
{
	const struct rdt_listener *l, *same = NULL;
	char text[RD_ADDR_TEXT];

	TAILQ_FOREACH (l, &t->listeners, link) {
		if (!listener_is(l, name))
			continue;
		rd_addr_format((const struct sockaddr *)&l->addr, text);
		if (strcmp(text, name->bound) == 0)
			return l;
		same = same ? same : l;
	}
	return same;
}

static void take_listener(struct rdt_move_in *mi, const json_t *rec)
{
	struct listener_name name;
	struct rdt_listener *l;

	if (!read_listener_name(rec, &name))
		return;
	TAILQ_FOREACH (l, &mi->target->listeners, link) {
		if (!listener_is(l, &name))
			continue;
		take_ana_changes(l->ana_changes, json_object_get(rec, "ana_changes"));
		take_ana_states(l, json_object_get(rec, "ana"));
	}
	take_counters(mi, listener_by(mi->target, &name), rec);
}

static void take_target(struct rdt_move_in *mi, const json_t *rec)
{
	const json_t *of = json_object_get(rec, "ana_changes");
	struct rdt_subsys *ss;
	unsigned int at = 0;
	uint64_t n;

	if (rdt_move_uint(rec, "genctr", 0, INT64_MAX, &n))
		atomic_fetch_add(&mi->target->genctr, n);
	rdt_move_uint(rec, "reactors", 1, RDT_REACTORS_MAX, &mi->reactors);
	while ((ss = rdt_subsys_next(mi->target, &at)))
		take_ana_changes(ss->ana_changes, json_object_get(of, ss->nqn));
	take_counters(mi, NULL, rec);
}

static void read_move_records(struct rdt_move_in *mi)
{
	json_t *rec;
	size_t at;

	json_array_foreach(mi->records, at, rec) if (rdt_move_is(rec, "ctrl")) list_ctrl(mi, rec);
	json_array_foreach(mi->records, at, rec)
	{
		if (rdt_move_is(rec, "target"))
			take_target(mi, rec);
		else if (rdt_move_is(rec, "listener"))
			take_listener(mi, rec);
		else if (rdt_move_is(rec, "queue")) {
			struct moving *m = &mi->moving[mi->moving_count];

			m->mi = mi;
			if (!mi->err && take_queue(m, rec))
				mi->moving_count++;
			else
				mi->count.left++;
			if (!m->reactor)
				*m = (struct moving){0};
		}
	}
}

/* ---- in turns ---- */

/* Posts the queues that are built now. Returns whether there are any. */
static bool post_queues(struct rdt_move_in *mi, bool io)
{
	mi->io = io;
	for (size_t i = 0; i < mi->moving_count; i++) {
		struct moving *m = &mi->moving[i];

		if ((m->qid != 0) != io)
			continue;
		m->begun = true;
		m->bad = m->rec;
		m->msg.fn = io ? build_io : build_admin;
		mi->left++;
		rd_loop_post(m->reactor->loop, &m->msg);
	}
	return mi->left;
}

static void tell_in(struct rd_msg *msg)
{
	struct rdt_move_in *mi = rd_container_of(msg, struct rdt_move_in, msg);

	rd_notice(mi->target->log, RD_LOG_MAIN,
		  "%u controllers with %u connections come from another process; %u connections "
		  "cannot, and their hosts connect again",
		  mi->count.ctrls, mi->count.queues, mi->count.left);
	mi->in(mi->arg, mi->err, mi->err ? mi->why : NULL);
}

static void counters_in(struct rdt_move_counters *mc)
{
	tell_in(&rd_container_of(mc, struct rdt_move_in, counters)->msg);
}

/* All connections are there. */
static void all_built(struct rdt_move_in *mi)
{
	if (mi->err)
		rd_loop_post(mi->target->loop, &mi->msg);
	else
		rdt_move_counters_in(&mi->counters);
}

static void queue_built(struct rd_msg *msg)
{
	struct moving *m = rd_container_of(msg, struct moving, msg);
	struct rdt_move_in *mi = m->mi;

	if (m->err == -EPROTO)
		bad_record(mi, m->bad, "value that this program knows in one of its members");
	if (m->err) {
		mi->count.left++;
	} else {
		mi->count.queues++;
		mi->count.ctrls += !m->qid;
	}
	if (--mi->left || (!mi->io && !mi->err && post_queues(mi, true)))
		return;
	all_built(mi);
}

static void leave_unbuilt(const struct rdt_move_in *mi, struct moving *m)
{
	free(m->in.bytes);
	m->in.bytes = NULL;
	if (m->begun)
		return;
	close(m->in.fd);
	rdt_peer_gone(mi->target, m->in.peer);
	rdt_unplace(m->reactor, true);
}

static void free_in(struct rdt_move_in *mi)
{
	for (size_t i = 0; i < mi->moving_count; i++)
		leave_unbuilt(mi, &mi->moving[i]);
	rdt_move_counters_free(&mi->counters);
	json_decref(mi->ctrls);
	json_decref(mi->records);
	free(mi->moving);
	free(mi);
}

int rdt_move_in(struct rdt_target *t, const json_t *records, struct rd_fd_bag *fds,
		void (*in)(void *arg, int err, const char *why), void *arg)
{
	struct rdt_move_in *mi;

	if (t->move_in || t->hold)
		return -EBUSY;
	mi = calloc(1, sizeof(*mi) + t->reactors_count * sizeof(mi->parts[0]));
	if (!mi)
		return -ENOMEM;
	mi->target = t;
	mi->fds = fds;
	mi->in = in;
	mi->arg = arg;
	mi->msg.fn = tell_in;
	mi->counters.target = t;
	mi->counters.done = counters_in;
	mi->records = json_incref((json_t *)(uintptr_t)records);
	mi->ctrls = json_object();
	mi->moving = calloc(json_array_size(records) + 1, sizeof(*mi->moving));
	if (!mi->ctrls || !mi->moving) {
		free_in(mi);
		return -ENOMEM;
	}
	t->move_in = mi;
	read_move_records(mi);
	if (mi->err || (!post_queues(mi, false) && !post_queues(mi, true)))
		all_built(mi);
	return 0;
}

struct rdt_move_count rdt_move_in_counted(const struct rdt_target *t)
{
	return t->move_in ? t->move_in->count : (struct rdt_move_count){0};
}

/* ---- the end ---- */

static void in_part_ended(struct rd_msg *msg)
{
	struct rdt_move_in *mi = rd_container_of(msg, struct in_part, msg)->mi;

	if (--mi->left)
		return;
	mi->target->move_in = NULL;
	free_in(mi);
}

static void begin_moved(struct rdt_qpair *qp)
{
	/* One that has ended meanwhile stopped the timer for good: its controller goes. */
	if (qp->admin && qp->state == RDT_QP_HELD)
		rdt_keep_alive_start(qp->ctrl, atomic_load(&qp->ctrl->kato_ms));
	rdt_qpair_release(qp);
}

static void end_part(struct rd_msg *msg)
{
	struct in_part *part = rd_container_of(msg, struct in_part, msg);
	struct rdt_qpair *qp, *next;

	for (qp = TAILQ_FIRST(&part->reactor->qpairs); qp; qp = next) {
		next = TAILQ_NEXT(qp, link);
		if (!qp->moved)
			continue;
		if (part->mi->start)
			begin_moved(qp);
		else
			rdt_qpair_close(qp, "the other process keeps it");
	}
	msg->fn = in_part_ended;
	rd_loop_post(part->mi->target->loop, msg);
}

static void end_parts(struct rdt_target *t, bool start)
{
	struct rdt_move_in *mi = t->move_in;

	if (!mi)
		return;
	mi->start = start;
	mi->left = t->reactors_count;
	for (unsigned int i = 0; i < t->reactors_count; i++) {
		mi->parts[i] = (struct in_part){.mi = mi, .reactor = &t->reactors[i]};
		mi->parts[i].msg.fn = end_part;
		rd_loop_post(t->reactors[i].loop, &mi->parts[i].msg);
	}
}

void rdt_move_start(struct rdt_target *t)
{
	struct rdt_listener *l;

	end_parts(t, true);
	TAILQ_FOREACH (l, &t->listeners, link)
		rdt_ana_set(t, l, rdt_ana_configured(l->cfg));
}

void rdt_move_forget(struct rdt_target *t)
{
	end_parts(t, false);
}

void rdt_move_counters_late(struct rdt_target *t, struct rdt_move_counters *mc,
			    const json_t *records)
{
	struct listener_name name;
	const json_t *rec;
	size_t at;

	mc->target = t;
	mc->records = records;
	json_array_foreach(records, at, rec)
	{
		if (rdt_move_is(rec, "target"))
			mc->bad += rdt_move_counters_read(mc, NULL, rec) != 0;
		else if (rdt_move_is(rec, "listener") && read_listener_name(rec, &name))
			mc->bad += rdt_move_counters_read(mc, listener_by(t, &name), rec) != 0;
	}
	rdt_move_counters_in(mc);
}
