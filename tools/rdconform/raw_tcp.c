/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Raw connections over NVMe/TCP. Each PDU of the target is checked: one that no host can understand
 * fails the running test. What only strict hosts refuse is recorded in struct rdc_answer.
 */
#include "tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "raw.h"
#include "util/sockaddr.h"

#define READ_SIZE 65536u
/* No PDU of a target is longer; the tests read less. */
#define PLEN_MAX (64u << 20)

/* ---- sending ---- */

static void make_room(struct rdc_raw *raw, uint8_t **buf, size_t *room, size_t need)
{
	uint8_t *p;

	if (need <= *room)
		return;
	p = realloc(*buf, need);
	if (!p)
		RDC_FAIL(raw->t, "no memory for %zu bytes on this machine", need);
	*buf = p;
	*room = need;
}

/* An error shows when the socket is read, behind what the target sent before. */
static void flush_out(struct rdc_tcp *c)
{
	ssize_t n;

	if (!c->out_len)
		return;
	n = send(c->fd, c->out, c->out_len, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		n = (ssize_t)c->out_len;
	if (n <= 0)
		return;
	c->out_len -= (size_t)n;
	memmove(c->out, c->out + n, c->out_len);
}

void rdc_tcp_put(struct rdc_raw *raw, const void *bytes, size_t len)
{
	struct rdc_tcp *c = raw->tcp;

	make_room(raw, &c->out, &c->out_room, c->out_len + len);
	memcpy(c->out + c->out_len, bytes, len);
	c->out_len += len;
	flush_out(c);
}

static size_t seal(const struct rdc_raw *raw, void *head, enum nvme_tcp_type type, uint8_t flags,
		   uint32_t len)
{
	const struct rdc_tcp *c = raw->tcp;
	bool bare = type == NVME_TCP_ICREQ || type == NVME_TCP_H2C_TERM;

	return nvme_tcp_seal(head, type, flags, len, c->icresp.cpda, c->rules.hdgst && !bare,
			     c->rules.ddgst && !bare);
}

void rdc_tcp_make(const struct rdc_raw *raw, struct rdc_pdu *pdu, enum nvme_tcp_type type,
		  uint8_t flags, const void *body, const void *data, uint32_t len)
{
	struct nvme_tcp_hdr *hdr = (void *)pdu->b;
	size_t body_len = type == NVME_TCP_ICREQ ? sizeof(struct nvme_tcp_icreq) - sizeof(*hdr)
			  : type == NVME_TCP_CMD ? sizeof(struct nvme_sqe)
						 : sizeof(struct nvme_tcp_data) - sizeof(*hdr);

	memcpy(pdu->b + sizeof(*hdr), body, body_len);
	pdu->head = seal(raw, pdu->b, type, flags, len);
	pdu->len = pdu->head + len;
	if (len)
		memcpy(pdu->b + pdu->head, data, len);
	if (hdr->flags & NVME_TCP_F_DDGST) {
		rd_crc32c_put(rd_crc32c(RD_CRC32C_SEED, data, len), pdu->b + pdu->len);
		pdu->len += RD_CRC32C_LEN;
	}
}

void rdc_tcp_make_h2c(const struct rdc_raw *raw, struct rdc_pdu *pdu,
		      const struct nvme_tcp_r2t *r2t, uint32_t offset, uint32_t len, bool last,
		      const void *data)
{
	const struct nvme_tcp_data head = {
		.cccid = r2t->cccid,
		.ttag = r2t->ttag,
		.datao = htole32(offset),
		.datal = htole32(len),
	};

	rdc_tcp_make(raw, pdu, NVME_TCP_H2C_DATA, last ? NVME_TCP_F_LAST : 0, &head.cccid,
		     (const uint8_t *)data + offset, len);
}

static struct rdc_tcp_cmd *find_cmd(const struct rdc_raw *raw, __le16 cid)
{
	unsigned int i;

	for (i = 0; i < raw->slots; i++) {
		if (raw->tcp->cmds[i].used && raw->tcp->cmds[i].cid == cid)
			return &raw->tcp->cmds[i];
	}
	return NULL;
}

void rdc_tcp_expect(struct rdc_raw *raw, const struct nvme_sqe *sqe, void *data, uint32_t len,
		    bool writes)
{
	unsigned int i;

	for (i = 0; i < raw->slots && raw->tcp->cmds[i].used; i++)
		;
	if (i == raw->slots)
		RDC_FAIL(raw->t, "more commands than this program can have outstanding");
	raw->tcp->cmds[i] = (struct rdc_tcp_cmd){
		.used = true, .cid = sqe->cid, .writes = writes, .p = data, .len = len};
}

/* Where data of an SGL made by set_sgl_tcp() is, or NULL. */
static uint8_t *data_of(const struct rdc_raw *raw, const union nvme_sgl *sgl)
{
	uint8_t *at = (uint8_t *)(uintptr_t)le64toh(sgl->data.offset); // NOLINT
	const struct rdc_mem *m;

	LIST_FOREACH (m, &raw->t->mems, link) {
		if (at >= (uint8_t *)m->p && at < (uint8_t *)m->p + m->len)
			return at;
	}
	return NULL;
}

static bool to_controller(const struct nvme_sqe *sqe)
{
	return (sqe->opcode == NVMF_OPCODE ? sqe->fctype : sqe->opcode) & 1;
}

/* Data of fabrics and admin commands goes in the capsule, where every target has to take it. */
static void send_tcp(struct rdc_raw *raw, const void *capsule, size_t len)
{
	struct nvme_sqe sqe = {0};
	const uint8_t *in_capsule = (const uint8_t *)capsule + sizeof(sqe);
	uint32_t data = 0, n;
	struct rdc_pdu *pdu;
	uint8_t *p;

	if (len < sizeof(sqe))
		RDC_FAIL(raw->t, "a capsule of %zu bytes cannot be sent over TCP", len);
	memcpy(&sqe, capsule, sizeof(sqe));
	data = (uint32_t)(len - sizeof(sqe));
	p = data_of(raw, &sqe.sgl);
	if (p)
		sqe.sgl.data.offset = 0;
	n = le32toh(sqe.sgl.data.length);
	if (p && to_controller(&sqe) && (!raw->qid || sqe.opcode == NVMF_OPCODE) &&
	    n <= NVME_TCP_ADMIN_IN_CAPSULE && sqe.sgl.data.type == NVME_SGL_TCP_DATA) {
		sqe.sgl.data.type = NVME_SGL_IN_CAPSULE;
		in_capsule = p;
		data = n;
		p = NULL;
	}
	rdc_tcp_expect(raw, &sqe, p, p ? n : 0, to_controller(&sqe));
	pdu = rdc_buf(raw->t, sizeof(*pdu));
	rdc_tcp_make(raw, pdu, NVME_TCP_CMD, 0, &sqe, in_capsule, data);
	rdc_tcp_put(raw, pdu->b, pdu->len);
}

/* ---- receiving ---- */

#define WRONG(raw, ...) RDC_FAIL((raw)->t, "a wrong PDU of the target: " __VA_ARGS__)

static void answer_r2t(struct rdc_raw *raw, struct rdc_tcp_cmd *cmd, const struct nvme_tcp_r2t *r2t)
{
	uint32_t at = le32toh(r2t->r2to), end = at + le32toh(r2t->r2tl);
	uint32_t most = le32toh(raw->tcp->icresp.maxh2cdata);
	struct rdc_pdu *pdu = rdc_buf(raw->t, sizeof(*pdu));

	if (most > RDC_CAPSULE)
		most = RDC_CAPSULE;
	while (at < end) {
		uint32_t part = end - at < most ? end - at : most;

		rdc_tcp_make_h2c(raw, pdu, r2t, at, part, at + part == end, cmd->p);
		rdc_tcp_put(raw, pdu->b, pdu->len);
		at += part;
	}
	cmd->r2ts--;
}

static void take_r2t(struct rdc_raw *raw, const struct nvme_tcp_r2t *r2t)
{
	struct rdc_tcp_cmd *cmd = find_cmd(raw, r2t->cccid);
	uint32_t len = le32toh(r2t->r2tl), off = le32toh(r2t->r2to);
	struct rdc_tcp *c = raw->tcp;

	if (!cmd || !cmd->writes || !cmd->p)
		WRONG(raw, "an R2T for command id 0x%04x, which has no data to send",
		      le16toh(r2t->cccid));
	if (off != cmd->moved || !len || len > cmd->len - off)
		WRONG(raw, "an R2T for %u bytes from %u on, but %u to %u are left", len, off,
		      cmd->moved, cmd->len);
	if (cmd->r2ts > c->maxr2t)
		WRONG(raw, "an R2T more than MAXR2T allows");
	cmd->moved += len;
	cmd->r2ts++;
	if (!c->manual)
		answer_r2t(raw, cmd, r2t);
	else if (c->n_r2ts < RDC_TCP_R2TS)
		c->r2ts[c->n_r2ts++] = *r2t;
}

static void complete(struct rdc_raw *raw, struct rdc_answer *a)
{
	struct rdc_tcp_cmd *cmd = find_cmd(raw, a->cqe.cid);

	if (cmd) {
		a->data = cmd->writes ? 0 : cmd->moved;
		a->exact = cmd->moved == cmd->len && (cmd->last || !cmd->len);
		cmd->used = false;
	}
	rdc_raw_got(raw, a);
}

static void take_c2h(struct rdc_raw *raw, const struct nvme_tcp_data *pdu, const uint8_t *data)
{
	struct rdc_tcp_cmd *cmd = find_cmd(raw, pdu->cccid);
	uint32_t off = le32toh(pdu->datao), len = le32toh(pdu->datal);

	raw->tcp->c2h_pdus++;
	raw->tcp->c2h_pdo = pdu->hdr.pdo;
	if (!cmd || cmd->writes || !cmd->p)
		WRONG(raw, "C2HData for command id 0x%04x, which reads nothing",
		      le16toh(pdu->cccid));
	if (cmd->last || off != cmd->moved || len > cmd->len - off)
		WRONG(raw, "C2HData of %u bytes at %u, but %u of %u are here%s", len, off,
		      cmd->moved, cmd->len, cmd->last ? " and LAST_PDU has come" : "");
	memcpy(cmd->p + off, data, len);
	cmd->moved += len;
	cmd->last = pdu->hdr.flags & NVME_TCP_F_LAST;
	if (pdu->hdr.flags & NVME_TCP_F_SUCCESS) {
		struct rdc_answer a = {.cqe.cid = cmd->cid, .len = sizeof(a.cqe), .by_flag = true};

		complete(raw, &a);
	}
}

static void take_term(struct rdc_raw *raw, const uint8_t *b, uint32_t plen)
{
	struct rdc_tcp *c = raw->tcp;

	memcpy(&c->term, b, sizeof(c->term));
	c->term_head_len = plen - (uint32_t)sizeof(c->term);
	memcpy(c->term_head, b + sizeof(c->term), c->term_head_len);
	c->termed = raw->over = true;
}

static void take_pdu(struct rdc_raw *raw, const uint8_t *b, const struct nvme_tcp_parts *parts)
{
	union { /* PDUs stand at any place in the stream, so the header is copied */
		struct nvme_tcp_hdr hdr;
		struct nvme_tcp_rsp rsp;
		struct nvme_tcp_data data;
		struct nvme_tcp_r2t r2t;
	} head;
	const struct nvme_tcp_hdr *hdr = &head.hdr;
	struct rdc_answer a = {.len = 0};
	struct nvme_tcp_error e;
	uint8_t want[RD_CRC32C_LEN];
	const uint8_t *data = b + parts->head + parts->pad;
	uint32_t plen;

	memcpy(&head.hdr, b, sizeof(head.hdr));
	plen = le32toh(hdr->plen);
	memcpy(&head, b, plen < sizeof(head) ? plen : sizeof(head));
	if (!nvme_tcp_check_hdgst(b, &e))
		WRONG(raw, "%s: %s", nvme_tcp_type_text(hdr->type), e.what);
	if (parts->ddgst) {
		rd_crc32c_put(rd_crc32c(RD_CRC32C_SEED, data, parts->data), want);
		if (memcmp(want, data + parts->data, sizeof(want)) != 0)
			WRONG(raw, "the data digest is wrong");
	}
	if (hdr->type != NVME_TCP_C2H_TERM && raw->up == (hdr->type == NVME_TCP_ICRESP))
		WRONG(raw, "%s %s", nvme_tcp_type_text(hdr->type),
		      raw->up ? "came twice" : "came before ICResp");
	switch (hdr->type) {
	case NVME_TCP_ICRESP:
		memcpy(&raw->tcp->icresp, b, sizeof(raw->tcp->icresp));
		raw->tcp->rules.hdgst = raw->tcp->icresp.dgst & NVME_TCP_HDGST;
		raw->tcp->rules.ddgst = raw->tcp->icresp.dgst & NVME_TCP_DDGST;
		raw->up = true;
		return;
	case NVME_TCP_C2H_DATA:
		if (!nvme_tcp_check_data(&head.data, parts, &e))
			WRONG(raw, "C2HData: %s", e.what);
		take_c2h(raw, &head.data, data);
		return;
	case NVME_TCP_R2T:
		take_r2t(raw, &head.r2t);
		return;
	case NVME_TCP_C2H_TERM:
		take_term(raw, b, plen);
		return;
	default:
		a.cqe = head.rsp.cqe;
		a.len = sizeof(head.rsp.cqe);
		complete(raw, &a);
		return;
	}
}

/* Uses up all complete PDUs. */
static void parse(struct rdc_raw *raw)
{
	struct rdc_tcp *c = raw->tcp;
	size_t at = 0;

	while (!raw->over && c->in_len - at >= sizeof(struct nvme_tcp_hdr)) {
		struct nvme_tcp_hdr hdr;
		struct nvme_tcp_parts parts;
		struct nvme_tcp_error e;

		memcpy(&hdr, c->in + at, sizeof(hdr));
		if (!nvme_tcp_check(&hdr, &c->rules, &parts, &e))
			WRONG(raw, "%s: %s", nvme_tcp_type_text(hdr.type), e.what);
		if (le32toh(hdr.plen) > PLEN_MAX)
			WRONG(raw, "PLEN is %u", le32toh(hdr.plen));
		if (c->in_len - at < le32toh(hdr.plen)) {
			make_room(raw, &c->in, &c->in_room, at + le32toh(hdr.plen) + READ_SIZE);
			break;
		}
		take_pdu(raw, c->in + at, &parts);
		at += le32toh(hdr.plen);
	}
	c->in_len -= at;
	memmove(c->in, c->in + at, c->in_len);
}

static void read_some(struct rdc_raw *raw)
{
	struct rdc_tcp *c = raw->tcp;
	ssize_t n;

	make_room(raw, &c->in, &c->in_room, c->in_len + READ_SIZE);
	n = recv(c->fd, c->in + c->in_len, c->in_room - c->in_len, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		raw->over = true;
		raw->err = n < 0 ? -errno : 0;
		return;
	}
	c->in_len += (size_t)n;
	parse(raw);
}

static void turn_tcp(struct rdc_raw *raw, uint64_t ms)
{
	struct rdc_tcp *c = raw->tcp;
	struct pollfd pfd = {.fd = c->fd, .events = POLLIN};

	flush_out(c);
	if (c->out_len)
		pfd.events |= POLLOUT;
	if (!raw->over && poll(&pfd, 1, (int)ms) > 0 && pfd.revents & (POLLIN | POLLERR | POLLHUP))
		read_some(raw);
}

struct nvme_tcp_r2t rdc_tcp_r2t(struct rdc_raw *raw)
{
	uint64_t end = rdc_now_ms() + raw->t->cfg->timeout_ms;
	struct rdc_tcp *c = raw->tcp;
	struct nvme_tcp_r2t r2t;

	while (!c->n_r2ts && !raw->n_got && !raw->over && rdc_now_ms() < end)
		turn_tcp(raw, 50);
	if (!c->n_r2ts)
		RDC_FAIL(raw->t, "no R2T for a Write: %s",
			 raw->over    ? "the target ended the connection"
			 : raw->n_got ? "an answer came"
				      : "nothing came in time");
	r2t = c->r2ts[0];
	c->n_r2ts--;
	memmove(c->r2ts, c->r2ts + 1, c->n_r2ts * sizeof(c->r2ts[0]));
	return r2t;
}

/* ---- connections ---- */

static void connect_tcp(struct rdc_raw *raw, const struct sockaddr *to)
{
	struct rdc_tcp *c = raw->tcp;
	struct pollfd pfd = {.events = POLLOUT};
	socklen_t len = sizeof(raw->err);
	int one = 1, err = 0;

	c->fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0)
		RDC_FAIL(raw->t, "cannot create a socket: %s", strerror(errno));
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(c->fd, to, rd_addr_len(to)) && errno != EINPROGRESS)
		err = errno;
	pfd.fd = c->fd;
	if (!err && poll(&pfd, 1, (int)raw->t->cfg->timeout_ms) <= 0)
		RDC_FAIL(raw->t, "connect: no outcome in time");
	if (!err)
		getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len);
	if (err) {
		raw->over = true;
		raw->err = -err;
	}
}

static void dial_tcp(struct rdc_raw *raw, const struct rdc_dial *d, const struct sockaddr *to)
{
	struct nvme_tcp_icreq req;

	raw->tcp = calloc(1, sizeof(*raw->tcp));
	if (raw->tcp) {
		raw->tcp->fd = -1;
		raw->tcp->cmds = calloc(raw->slots, sizeof(*raw->tcp->cmds));
	}
	if (!raw->tcp || !raw->tcp->cmds)
		RDC_FAIL(raw->t, "no memory on this machine");
	raw->tcp->maxr2t = d->maxr2t;
	raw->tcp->rules.pda = d->hpda;
	connect_tcp(raw, to);
	if (raw->over || d->no_icreq)
		return;
	nvme_tcp_build_icreq(&req, d->dgst);
	req.hpda = d->hpda;
	req.maxr2t = htole32(d->maxr2t);
	rdc_tcp_put(raw, &req, sizeof(req));
	rdc_raw_until(raw, &raw->up, "ICReq");
}

/* Reads until the target has closed, too. */
static void read_to_end(struct rdc_tcp *c, uint64_t end)
{
	struct pollfd pfd = {.fd = c->fd, .events = POLLIN};
	char rest[4096];
	ssize_t n;

	do {
		uint64_t now = rdc_now_ms();

		if (now >= end || poll(&pfd, 1, (int)(end - now)) <= 0)
			return;
		n = recv(c->fd, rest, sizeof(rest), MSG_DONTWAIT);
	} while (n > 0 || (n < 0 && errno == EAGAIN));
}

static void hang_up_tcp(struct rdc_raw *raw)
{
	uint64_t end = rdc_now_ms() + 500;
	struct rdc_tcp *c = raw->tcp;

	if (!c)
		return;
	/* With bytes unread a close would be a reset, which could overtake what was sent last. */
	if (raw->up && !raw->over && !c->out_len && shutdown(c->fd, SHUT_WR) == 0)
		read_to_end(c, end);
	if (c->fd >= 0)
		close(c->fd);
	free(c->cmds);
	free(c->in);
	free(c->out);
	free(c);
}

static int reg_tcp(struct rdc_raw *raw, struct rdc_mem *mem, int access)
{
	(void)raw;
	(void)mem;
	(void)access;
	return 0;
}

/* The address tells send_tcp() where the data is, and is not sent. */
static void set_sgl_tcp(union nvme_sgl *sgl, const struct rdc_mem *mem, const void *at,
			uint32_t len)
{
	sgl->data = (struct nvme_data_sgl){
		.offset = htole64(mem ? (uintptr_t)at : 0),
		.length = htole32(len),
		.type = NVME_SGL_TCP_DATA,
	};
}

const struct rdc_wire rdc_wire_tcp = {
	.dial = dial_tcp,
	.hang_up = hang_up_tcp,
	.turn = turn_tcp,
	.send = send_tcp,
	.reg = reg_tcp,
	.set_sgl = set_sgl_tcp,
};
