/* SPDX-License-Identifier: BSD-3-Clause */
#include "t_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/sockaddr.h"
#include "target/nvmf/peers.h"
#include "target/transport/rdma/rdma_transport.h"

#define DEPTH      64u
#define ASKS       2u    /* requests whose data is asked for at a time */
#define PIECE      1500u /* of data, in one message */
#define must(cond) CU_ASSERT_FATAL(cond)

uint32_t t_stream_cuts = 1;

struct capsule {
	struct rdt_capsule cap;
	bool used;
	_Alignas(struct nvme_sqe) uint8_t mem[NVME_SQE_SIZE + T_INCAPSULE];
};

struct stream_req {
	uint32_t got;  /* of the data that was asked for */
	uint64_t ends; /* the place in the stream behind its answer */
	struct rdt_req req;
};

/* The target's end of a connection. */
struct t_stream_conn {
	struct rdt_qpair qp;
	struct rdt_listener *listener;
	struct rdt_peer *peer;
	struct rdt_reactor *reactor;
	struct rd_msg msg;
	TAILQ_ENTRY(t_stream_conn) link; /* arrived or conns of its reactor */
	struct t_stream_host *host;
	struct t_stream_bytes to_target, to_host;
	struct t_stream_rx rx;
	struct capsule *capsule; /* that @rx fills */
	struct rdt_req *filled;  /* the request whose buffer @rx fills */
	struct capsule capsules[DEPTH];
	struct rdt_req_list waiting, asked, answered;
	unsigned int asked_count;
	uint64_t put, sent; /* bytes of @to_host since the begin */
	bool closing;
	struct rd_defer finish;
};

TAILQ_HEAD(conn_list, t_stream_conn);

struct stream_reactor {
	struct rdt_req_pool pools[2]; /* of admin queues, and of I/O queues */
	struct conn_list arrived, conns;
	struct rd_defer accept;
	struct rdt_reactor *reactor;
};

static struct stream_reactor *state_of(const struct rdt_reactor *r)
{
	return r->transport_state[T_STREAM];
}

static struct t_stream_conn *conn_of(const struct rdt_qpair *qp)
{
	return (void *)rd_container_of(qp, const struct t_stream_conn, qp);
}

static struct stream_req *stream_req_of(struct rdt_req *req)
{
	return rd_container_of(req, struct stream_req, req);
}

/* ---- streams ---- */

static uint32_t next_cut(uint32_t most)
{
	t_stream_cuts = t_stream_cuts * 1664525u + 1013904223u;
	return 1 + (t_stream_cuts >> 8) % most;
}

static void bytes_put(struct t_stream_bytes *b, const void *p, size_t len)
{
	if (b->len + len > b->room) {
		b->room = 2 * (b->len + len);
		b->p = realloc(b->p, b->room);
		must(b->p != NULL);
	}
	if (len)
		memcpy(b->p + b->len, p, len);
	b->len += len;
}

static void bytes_take(struct t_stream_bytes *b, size_t len)
{
	b->len -= len;
	if (b->len)
		memmove(b->p, b->p + len, b->len);
}

static void put_message(struct t_stream_bytes *b, uint8_t type, uint16_t cid, uint32_t offset,
			const void *body, uint32_t len)
{
	struct t_stream_head head = {type, 0, htole16(cid), htole32(offset), htole32(len)};

	bytes_put(b, &head, sizeof(head));
	if (type != T_STREAM_ASK)
		bytes_put(b, body, len);
}

/* The data of a command in messages of any length. */
static void put_data(struct t_stream_bytes *b, uint8_t type, uint16_t cid, const uint8_t *data,
		     uint32_t len)
{
	for (uint32_t at = 0, n; at < len; at += n) {
		n = next_cut(PIECE);
		n = n < len - at ? n : len - at;
		put_message(b, type, cid, at, data + at, n);
	}
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Returns how many bytes were taken. */
static size_t rx_feed(struct t_stream_rx *rx, const uint8_t *p, size_t len)
{
	size_t at = 0, n;

	while (!rx->stop) {
		if (rx->got < sizeof(rx->head) || (rx->begun && rx->left)) {
			bool in_head = rx->got < sizeof(rx->head);

			n = least(in_head ? sizeof(rx->head) - rx->got : rx->left, len - at);
			if (!n)
				break;
			memcpy(in_head ? (uint8_t *)&rx->head + rx->got : rx->dst, p + at, n);
			rx->got += in_head ? n : 0;
			rx->dst += in_head ? 0 : n;
			rx->left -= in_head ? 0 : n;
			at += n;
		} else if (!rx->begun) {
			rx->left = 0;
			rx->begun = rx->begin(rx);
			if (!rx->begun)
				break;
		} else {
			rx->begun = false;
			rx->got = 0;
			rx->end(rx);
		}
	}
	return at;
}

/* ---- the target's end: receiving ---- */

static bool violation(struct t_stream_conn *c, const char *what)
{
	c->rx.stop = true;
	rdt_qpair_lost(&c->qp, RDT_END_FAULT, what);
	return false;
}

static bool begin_capsule(struct t_stream_conn *c, uint32_t len)
{
	if (len < NVME_SQE_SIZE || len > NVME_SQE_SIZE + T_INCAPSULE)
		return violation(c, "a capsule has an impossible length");
	for (unsigned int i = 0; i < DEPTH; i++) {
		struct capsule *k = &c->capsules[i];

		if (k->used)
			continue;
		c->capsule = k;
		c->rx.dst = k->mem;
		c->rx.left = len;
		return true;
	}
	return false; /* the stream waits until one is free */
}

static bool begin_data(struct t_stream_conn *c, uint16_t cid, uint32_t offset, uint32_t len)
{
	struct rdt_req *req;

	TAILQ_FOREACH (req, &c->asked, link) {
		struct stream_req *sr = stream_req_of(req);

		if (rdt_sqe_cid(req) != cid)
			continue;
		if (offset != sr->got || !len || len > req->data_len - sr->got)
			return violation(c, "data is not what was asked for");
		c->filled = req;
		c->rx.dst = (uint8_t *)req->buf + offset;
		c->rx.left = len;
		return true;
	}
	return violation(c, "data that was not asked for");
}

static bool target_begin(struct t_stream_rx *rx)
{
	struct t_stream_conn *c = rd_container_of(rx, struct t_stream_conn, rx);
	uint32_t len = le32toh(rx->head.len);

	if (rx->head.type == T_STREAM_CAPSULE)
		return begin_capsule(c, len);
	if (rx->head.type == T_STREAM_DATA_OUT)
		return begin_data(c, le16toh(rx->head.cid), le32toh(rx->head.offset), len);
	return violation(c, "a message of an unknown type");
}

static void ask_next(struct t_stream_conn *c)
{
	struct rdt_req *req;

	while (c->asked_count < ASKS && (req = TAILQ_FIRST(&c->waiting))) {
		TAILQ_REMOVE(&c->waiting, req, link);
		TAILQ_INSERT_TAIL(&c->asked, req, link);
		c->asked_count++;
		put_message(&c->to_host, T_STREAM_ASK, rdt_sqe_cid(req), 0, NULL, req->data_len);
		c->put += sizeof(struct t_stream_head);
	}
}

static void target_end(struct t_stream_rx *rx)
{
	struct t_stream_conn *c = rd_container_of(rx, struct t_stream_conn, rx);
	struct rdt_req *req = c->filled;

	if (rx->head.type == T_STREAM_CAPSULE) {
		c->capsule->used = true;
		c->capsule->cap.data_len = le32toh(rx->head.len) - NVME_SQE_SIZE;
		rdt_qpair_capsule(&c->qp, &c->capsule->cap);
		return;
	}
	stream_req_of(req)->got += le32toh(rx->head.len);
	if (stream_req_of(req)->got < req->data_len)
		return;
	TAILQ_REMOVE(&c->asked, req, link);
	c->asked_count--;
	rdt_req_fetched(req, 0);
	ask_next(c);
}

/* ---- the seam: queue pairs ---- */

static struct nvme_status stream_parse_sgl(struct rdt_req *req)
{
	const struct nvme_data_sgl *sgl = &req->sqe.sgl.data;

	if (!rdt_sgl_has_psdt(req))
		return rdt_sgl_no_psdt(req);
	if (sgl->type == NVME_SGL_IN_CAPSULE)
		return rdt_sgl_in_capsule(req);
	if (sgl->type != T_STREAM_SGL)
		return rdt_sgl_bad_type(req, sgl->type >> 4 == T_STREAM_SGL >> 4);
	req->sgl_len = le32toh(sgl->length);
	return NVME_OK;
}

static void stream_fetch(struct rdt_req *req)
{
	struct t_stream_conn *c = conn_of(req->qp);

	stream_req_of(req)->got = 0;
	TAILQ_INSERT_TAIL(&c->waiting, req, link);
	ask_next(c);
}

static bool stream_fetch_cancel(struct rdt_req *req)
{
	struct t_stream_conn *c = conn_of(req->qp);
	struct rdt_req *r;

	TAILQ_FOREACH (r, &c->waiting, link) {
		if (r != req)
			continue;
		TAILQ_REMOVE(&c->waiting, req, link);
		return true;
	}
	return false;
}

static void stream_respond(struct rdt_req *req, bool with_data)
{
	struct t_stream_conn *c = conn_of(req->qp);
	size_t before = c->to_host.len;

	must(!c->closing);
	if (with_data)
		put_data(&c->to_host, T_STREAM_DATA_IN, rdt_sqe_cid(req), req->buf, req->data_len);
	put_message(&c->to_host, T_STREAM_ANSWER, rdt_sqe_cid(req), 0, &req->cqe, NVME_CQE_SIZE);
	c->put += c->to_host.len - before;
	stream_req_of(req)->ends = c->put;
	TAILQ_INSERT_TAIL(&c->answered, req, link);
}

static void stream_identify(const struct rdt_qpair *qp, struct nvme_id_ctrl *id)
{
	id->sgls = htole32(1 | NVME_CTRL_SGLS_OFFSET);
	id->ioccsz = htole32((NVME_SQE_SIZE + qp->in_capsule_max) / 16);
}

static void stream_role(struct rdt_qpair *qp)
{
	rdt_qpair_use_pool(qp, &state_of(qp->reactor)->pools[!qp->admin]);
}

static void stream_joined(struct rdt_qpair *qp)
{
}

static void stream_capsule_done(struct rdt_qpair *qp, struct rdt_capsule *cap)
{
	struct capsule *k = rd_container_of(cap, struct capsule, cap);

	must(k->used);
	k->used = false;
	memset(k->mem, 0xdb, sizeof(k->mem)); /* nobody may read it any more */
}

static void stream_finish(struct rd_defer *defer)
{
	struct t_stream_conn *c = rd_container_of(defer, struct t_stream_conn, finish);
	struct rdt_req_list *fetches[2] = {&c->asked, &c->waiting};
	struct rdt_req *req;

	for (unsigned int i = 0; i < 2; i++) {
		while ((req = TAILQ_FIRST(fetches[i]))) {
			TAILQ_REMOVE(fetches[i], req, link);
			rdt_req_fetched(req, -ECANCELED);
		}
	}
	while ((req = TAILQ_FIRST(&c->answered))) {
		TAILQ_REMOVE(&c->answered, req, link);
		rdt_req_responded(req);
	}
	rdt_qpair_transport_closed(&c->qp);
}

static void stream_close(struct rdt_qpair *qp)
{
	struct t_stream_conn *c = conn_of(qp);

	CU_ASSERT_FALSE(c->closing);
	c->closing = true;
	c->rx.stop = true;
	rd_defer(qp->reactor->loop, &c->finish, RD_DEFER_WORK);
}

static bool stream_peer_closed(const struct rdt_qpair *qp)
{
	return !conn_of(qp)->host;
}

static int stream_unread(const struct rdt_qpair *qp)
{
	return -EOPNOTSUPP;
}

static void free_conn(struct t_stream_conn *c)
{
	if (c->host)
		c->host->conn = NULL;
	free(c->to_target.p);
	free(c->to_host.p);
	free(c);
}

static void stream_destroy(struct rdt_qpair *qp)
{
	struct t_stream_conn *c = conn_of(qp);

	rd_defer_cancel(qp->reactor->loop, &c->finish);
	TAILQ_REMOVE(&state_of(qp->reactor)->conns, c, link);
	rdt_qpair_fini(qp);
	free_conn(c);
}

static const struct rdt_transport_ops stream_ops = {
	.name = "stream",
	.trtype = NVMF_TRTYPE_TCP,
	.parse_sgl = stream_parse_sgl,
	.fetch = stream_fetch,
	.fetch_cancel = stream_fetch_cancel,
	.respond = stream_respond,
	.identify = stream_identify,
	.role = stream_role,
	.joined = stream_joined,
	.capsule_done = stream_capsule_done,
	.close = stream_close,
	.peer_closed = stream_peer_closed,
	.unread = stream_unread,
	.destroy = stream_destroy,
};

/* ---- the seam: reactors ---- */

static const struct rdt_req_mem stream_mem = {
	.size = sizeof(struct stream_req),
	.offset = offsetof(struct stream_req, req),
};

static void refuse(struct t_stream_conn *c)
{
	rdt_peer_gone(c->reactor->target, c->peer);
	rdt_unplace(c->reactor, true);
	free_conn(c);
}

static void accept_conn(struct t_stream_conn *c)
{
	struct rdt_reactor *r = c->reactor;

	if (r->draining) {
		refuse(c);
		return;
	}
	must(rdt_qpair_init(&c->qp, r, &stream_ops, RDT_QID_ANY, DEPTH) == 0);
	rdt_qpair_use_pool(&c->qp, &state_of(r)->pools[0]);
	c->qp.peer = c->peer;
	c->qp.listener = c->listener;
	rd_addr_parse("192.0.2.1", 4420, &c->qp.local);
	rd_addr_parse("192.0.2.3", 1024, &c->qp.remote);
	TAILQ_INSERT_TAIL(&state_of(r)->conns, c, link);
	rdt_qpair_start(&c->qp);
}

static void accept_all(struct rdt_reactor *r)
{
	struct t_stream_conn *c;

	while ((c = TAILQ_FIRST(&state_of(r)->arrived))) {
		TAILQ_REMOVE(&state_of(r)->arrived, c, link);
		accept_conn(c);
	}
}

static void accept_later(struct rd_defer *defer)
{
	accept_all(rd_container_of(defer, struct stream_reactor, accept)->reactor);
}

static void arrived_msg(struct rd_msg *msg)
{
	struct t_stream_conn *c = rd_container_of(msg, struct t_stream_conn, msg);

	TAILQ_INSERT_TAIL(&state_of(c->reactor)->arrived, c, link);
	rd_defer(c->reactor->loop, &state_of(c->reactor)->accept, RD_DEFER_NEXT);
}

static int stream_reactor_init(struct rdt_reactor *r)
{
	struct stream_reactor *sr = calloc(1, sizeof(*sr));

	must(sr != NULL);
	r->transport_state[T_STREAM] = sr;
	sr->reactor = r;
	sr->accept.fn = accept_later;
	TAILQ_INIT(&sr->arrived);
	TAILQ_INIT(&sr->conns);
	for (unsigned int i = 0; i < 2; i++)
		must(rdt_req_pool_init(&sr->pools[i], r->loop, &stream_mem, NULL) == 0);
	return 0;
}

/* Every request has come back to the pool that it is from. */
static void stream_reactor_fini(struct rdt_reactor *r)
{
	struct stream_reactor *sr = state_of(r);
	struct t_stream_conn *c;

	while ((c = TAILQ_FIRST(&sr->arrived))) {
		TAILQ_REMOVE(&sr->arrived, c, link);
		refuse(c);
	}
	CU_ASSERT_TRUE(TAILQ_EMPTY(&sr->conns));
	rd_defer_cancel(r->loop, &sr->accept);
	for (unsigned int i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(sr->pools[i].used, 0);
		rdt_req_pool_fini(&sr->pools[i]);
	}
	free(sr);
	r->transport_state[T_STREAM] = NULL;
}

static void stream_reactor_status(const struct rdt_reactor *r, char *line, size_t size)
{
	size_t len = strlen(line);

	snprintf(line + len, size - len, " streams=%u", !TAILQ_EMPTY(&state_of(r)->conns));
}

/* ---- the seam: targets and listeners ---- */

static int stream_open(struct rdt_target *t)
{
	t->transport_state[T_STREAM] = calloc(1, 1);
	return t->transport_state[T_STREAM] ? 0 : -ENOMEM;
}

static void stream_target_close(struct rdt_target *t)
{
	free(t->transport_state[T_STREAM]);
	t->transport_state[T_STREAM] = NULL;
}

static int stream_prepare(struct rdt_listener *l)
{
	if (!l->state)
		l->state = calloc(1, 1);
	return l->state ? 0 : -ENOMEM;
}

static void stream_forget(struct rdt_listener *l)
{
	free(l->state);
	l->state = NULL;
}

static int stream_listen(struct rdt_listener *l, const struct sockaddr *addr, char *text,
			 size_t size)
{
	rd_addr_parse(l->cfg->address, l->cfg->port, &l->addr);
	l->listening = true;
	return 0;
}

static const char *stream_provider(const struct rdt_listener *l)
{
	return "stream";
}

static void stream_describe(const struct rdt_listener *l, struct nvmf_disc_log_entry *e)
{
	e->trtype = NVMF_TRTYPE_TCP;
}

static void stream_unlisten(struct rdt_listener *l)
{
	l->listening = false;
}

static const struct rdt_transport stream_transport = {
	.name = "stream",
	.kind = (enum rdt_transport_kind)T_STREAM,
	.open = stream_open,
	.close = stream_target_close,
	.prepare = stream_prepare,
	.forget = stream_forget,
	.listen = stream_listen,
	.provider = stream_provider,
	.describe = stream_describe,
	.unlisten = stream_unlisten,
	.reactor_init = stream_reactor_init,
	.reactor_fini = stream_reactor_fini,
	.reactor_catch_up = accept_all,
	.reactor_status = stream_reactor_status,
};

const struct rdt_transport *const t_stream_transports[RDT_TRANSPORTS] = {
	[RDT_TRANSPORT_RDMA] = &rdt_rdma_transport,
	[T_STREAM] = &stream_transport,
};

/* ---- the host's end ---- */

static struct t_stream_cmd *cmd_of(struct t_stream_host *h, __le16 cid)
{
	must(le16toh(cid) < 64 && h->cmds[le16toh(cid)].used);
	return &h->cmds[le16toh(cid)];
}

static bool host_begin(struct t_stream_rx *rx)
{
	struct t_stream_host *h = rd_container_of(rx, struct t_stream_host, rx);
	struct t_stream_cmd *cmd = cmd_of(h, rx->head.cid);
	uint32_t len = le32toh(rx->head.len);

	if (rx->head.type == T_STREAM_DATA_IN) {
		must(le32toh(rx->head.offset) == cmd->got && len <= cmd->len - cmd->got);
		rx->dst = cmd->data + cmd->got;
		rx->left = len;
		cmd->got += len;
	} else if (rx->head.type == T_STREAM_ANSWER) {
		must(len == sizeof(cmd->cqe));
		rx->dst = (uint8_t *)&cmd->cqe;
		rx->left = len;
	} else {
		must(rx->head.type == T_STREAM_ASK && len == cmd->len);
	}
	return true;
}

static void host_end(struct t_stream_rx *rx)
{
	struct t_stream_host *h = rd_container_of(rx, struct t_stream_host, rx);
	struct t_stream_cmd *cmd = cmd_of(h, rx->head.cid);

	if (rx->head.type == T_STREAM_ANSWER)
		cmd->done = true;
	if (rx->head.type != T_STREAM_ASK)
		return;
	cmd->asked = true;
	if (!h->hold)
		put_data(&h->conn->to_target, T_STREAM_DATA_OUT, le16toh(rx->head.cid), cmd->data,
			 cmd->len);
}

struct t_stream_host *t_stream_connect(struct t_env *env, struct rdt_listener *l)
{
	struct t_stream_host *h = calloc(1, sizeof(*h));
	struct t_stream_conn *c = calloc(1, sizeof(*c));
	struct sockaddr_storage remote;
	struct rdt_peer_limit limit;

	must(h != NULL && c != NULL && l->listening);
	h->env = env;
	h->conn = c;
	h->rx.begin = host_begin;
	h->rx.end = host_end;
	c->host = h;
	c->listener = l;
	c->rx.begin = target_begin;
	c->rx.end = target_end;
	c->finish.fn = stream_finish;
	c->msg.fn = arrived_msg;
	TAILQ_INIT(&c->waiting);
	TAILQ_INIT(&c->asked);
	TAILQ_INIT(&c->answered);
	for (unsigned int i = 0; i < DEPTH; i++) {
		c->capsules[i].cap.sqe = (void *)c->capsules[i].mem;
		c->capsules[i].cap.data = c->capsules[i].mem + NVME_SQE_SIZE;
	}
	rd_addr_parse("192.0.2.3", 1024, &remote);
	must(rdt_peer_come(env->t, (struct sockaddr *)&remote, &c->peer, &limit) == 0);
	c->reactor = rdt_place(env->t, true);
	rd_loop_post(c->reactor->loop, &c->msg);
	return h;
}

void t_stream_cut(struct t_stream_host *h)
{
	struct t_stream_conn *c = h->conn;

	h->conn = NULL;
	c->host = NULL;
	rdt_qpair_lost(&c->qp, RDT_END_HOST, "cut by the test");
}

void t_stream_host_free(struct t_stream_host *h)
{
	must(!h->conn);
	free(h);
}

const struct rdt_qpair *t_stream_qpair(const struct t_stream_host *h)
{
	return &h->conn->qp;
}

/* Deliver some bytes in each direction. */
static bool stream_pump(struct t_stream_conn *c)
{
	size_t in = least(next_cut(700), c->to_target.len), out = 0;
	struct rdt_req *req;

	in = rx_feed(&c->rx, c->to_target.p, in);
	bytes_take(&c->to_target, in);
	if (c->closing || !c->host)
		return in;
	out = rx_feed(&c->host->rx, c->to_host.p, least(next_cut(700), c->to_host.len));
	bytes_take(&c->to_host, out);
	c->sent += out;
	while ((req = TAILQ_FIRST(&c->answered)) && stream_req_of(req)->ends <= c->sent) {
		TAILQ_REMOVE(&c->answered, req, link);
		c->qp.reactor->run.match = 0; /* each is a batch of its own */
		rdt_req_responded(req);
	}
	return in || out;
}

bool t_stream_step(struct t_env *env)
{
	bool moved = t_pump(env);
	struct t_stream_conn *c;

	for (unsigned int i = 0; i < env->t->reactors_count; i++)
		TAILQ_FOREACH (c, &state_of(&env->t->reactors[i])->conns, link)
			moved |= stream_pump(c);
	return moved;
}

void t_stream_turn(struct t_env *env)
{
	for (unsigned int i = 0; t_stream_step(env); i++)
		must(i < 1000000);
}

void t_stream_sqe(struct nvme_sqe *sqe, uint8_t opcode, uint32_t len, bool in_capsule)
{
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = opcode;
	sqe->flags = NVME_CMD_PSDT_SGL;
	sqe->sgl.data.length = htole32(len);
	sqe->sgl.data.type = in_capsule ? NVME_SGL_IN_CAPSULE : T_STREAM_SGL;
}

void t_stream_put(struct t_stream_host *h, uint8_t type, uint16_t cid, uint32_t offset,
		  const void *body, uint32_t len)
{
	put_message(&h->conn->to_target, type, cid, offset, body, len);
}

struct t_stream_cmd *t_stream_send(struct t_stream_host *h, const struct nvme_sqe *sqe, void *data,
				   uint32_t len)
{
	uint8_t capsule[NVME_SQE_SIZE + T_INCAPSULE];
	struct nvme_sqe copy = *sqe;
	bool within = sqe->sgl.data.type == NVME_SGL_IN_CAPSULE;
	struct t_stream_cmd *cmd;

	while (h->cmds[h->next_cid].used)
		h->next_cid = (uint16_t)((h->next_cid + 1) % 64);
	cmd = &h->cmds[h->next_cid];
	*cmd = (struct t_stream_cmd){.data = data, .len = len, .used = true};
	copy.cid = htole16(h->next_cid);
	memcpy(capsule, &copy, sizeof(copy));
	if (within && len)
		memcpy(capsule + NVME_SQE_SIZE, data, len);
	t_stream_put(h, T_STREAM_CAPSULE, 0, 0, capsule, NVME_SQE_SIZE + (within ? len : 0));
	return cmd;
}

uint16_t t_stream_status(struct t_stream_cmd *cmd)
{
	must(cmd->used && cmd->done);
	cmd->used = false;
	return nvme_status_from_wire(cmd->cqe.status).v & 0x7ff;
}

uint16_t t_stream_exec(struct t_stream_host *h, const struct nvme_sqe *sqe, void *data,
		       uint32_t len, uint32_t *result)
{
	struct t_stream_cmd *cmd = t_stream_send(h, sqe, data, len);

	t_stream_turn(h->env);
	must(cmd->done);
	if (result)
		*result = le32toh(cmd->cqe.result);
	return t_stream_status(cmd);
}
