/* SPDX-License-Identifier: BSD-3-Clause */
#include <CUnit/CUnit.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "t_fake.h"

#define EVENTS_MAX 4
#define RING       4096

struct t_mr {
	struct rd_fab_mr mr;
	int access;
	bool valid;
	struct t_mr *next;
};

struct t_cq {
	struct rd_fab_cq cq;
	struct ibv_wc ring[RING];
	unsigned int head, tail;
	bool armed;
	struct rd_defer notify;
};

struct t_event {
	enum rd_fab_event_type type;
	int status;
	uint8_t priv[64];
	size_t priv_len;
};

struct t_conn {
	struct rd_fab_conn c;
	struct t_fake *f;
	struct rd_fab *fab;
	struct t_cq *cq;
	struct ibv_recv_wr recv[RING];
	struct ibv_sge recv_sge[RING];
	unsigned int recv_head, recv_tail;
	uint64_t held[RING];
	unsigned int n_held;
	struct t_event events[EVENTS_MAX];
	unsigned int n_events;
	struct rd_defer deliver;
	bool dead;
	int qid;
};

struct t_fake t_fake;
static struct rd_fab_dev the_dev;

const struct rdinit_ns t_ns = {
	.size = sizeof(t_ns),
	.nsid = 1,
	.block_size = T_DISK_BLOCK,
	.blocks = T_DISK_BLOCKS,
};

void t_done_fn(void *user, const struct rdinit_completion *c)
{
	struct t_done *d = user;

	d->calls++;
	d->err = c->err;
	d->status = c->status;
	d->result = c->result;
	snprintf(d->text, sizeof(d->text), "%s", c->text);
}

/* ---- events and completions ---- */

static void deliver(struct rd_defer *defer)
{
	struct t_conn *conn = rd_container_of(defer, struct t_conn, deliver);
	struct t_event ev;
	struct rd_fab_event out = {.reason = "the script says so"};

	if (!conn->n_events)
		return;
	ev = conn->events[0];
	conn->n_events--;
	memmove(conn->events, conn->events + 1, conn->n_events * sizeof(ev));
	if (conn->n_events)
		rd_defer(conn->fab->loop, &conn->deliver, RD_DEFER_WORK);
	out.type = ev.type;
	out.status = ev.status;
	out.private_data = ev.priv_len ? ev.priv : NULL;
	out.private_len = ev.priv_len;
	conn->c.on_event(&conn->c, &out, conn->c.arg); /* may destroy conn */
}

static void event(struct t_conn *conn, enum rd_fab_event_type type, int status, const void *priv,
		  size_t len)
{
	struct t_event *ev = &conn->events[conn->n_events++];

	*ev = (struct t_event){.type = type, .status = status, .priv_len = len};
	if (len)
		memcpy(ev->priv, priv, len);
	rd_defer(conn->fab->loop, &conn->deliver, RD_DEFER_WORK);
}

static void notify(struct rd_defer *defer)
{
	struct t_cq *cq = rd_container_of(defer, struct t_cq, notify);

	cq->cq.fn(&cq->cq, cq->cq.arg);
}

static void add_wc(struct t_conn *conn, const struct ibv_wc *wc)
{
	struct t_cq *cq = conn->cq;

	cq->ring[cq->tail++ % RING] = *wc;
	if (cq->armed && !conn->f->mute) {
		cq->armed = false;
		rd_defer(conn->fab->loop, &cq->notify, RD_DEFER_WORK);
	}
}

static void send_completion(struct t_conn *conn, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = {.wr_id = wr_id, .status = status, .opcode = IBV_WC_SEND};

	add_wc(conn, &wc);
}

void t_release_sends(struct t_conn *conn)
{
	unsigned int i;

	for (i = 0; i < conn->n_held; i++)
		send_completion(conn, conn->held[i], IBV_WC_SUCCESS);
	conn->n_held = 0;
}

void t_release_as_one(struct t_conn *conn, unsigned int n)
{
	send_completion(conn, conn->held[n - 1], IBV_WC_SUCCESS);
	conn->n_held -= n;
	memmove(conn->held, conn->held + n, conn->n_held * sizeof(conn->held[0]));
}

void t_fail_send(struct t_conn *conn, enum ibv_wc_status status)
{
	send_completion(conn, conn->held[0], status);
	conn->n_held--;
	memmove(conn->held, conn->held + 1, conn->n_held * sizeof(conn->held[0]));
}

void t_break(struct t_conn *conn, int status)
{
	unsigned int i;

	if (conn->dead)
		return;
	conn->dead = true;
	for (i = 0; i < conn->n_held; i++)
		send_completion(conn, conn->held[i], IBV_WC_WR_FLUSH_ERR);
	conn->n_held = 0;
	while (conn->recv_head != conn->recv_tail) {
		struct ibv_wc wc = {.wr_id = conn->recv[conn->recv_head++ % RING].wr_id,
				    .status = IBV_WC_WR_FLUSH_ERR};

		add_wc(conn, &wc);
	}
	event(conn, RD_FAB_EV_DISCONNECTED, status, NULL, 0);
}

void t_send(struct t_conn *conn, const void *cqe, size_t len, uint32_t inv_rkey)
{
	unsigned int i = conn->recv_head % RING;
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV};

	if (conn->dead)
		return;
	if (conn->recv_head == conn->recv_tail) {
		conn->f->violations++; /* a SEND without a posted RECV ends an iWARP connection */
		t_break(conn, -EPROTO);
		return;
	}
	conn->recv_head++;
	wc.wr_id = conn->recv[i].wr_id;
	wc.byte_len = (uint32_t)len;
	if (len > conn->recv_sge[i].length)
		wc.status = IBV_WC_LOC_LEN_ERR;
	else
		memcpy((void *)(uintptr_t)conn->recv_sge[i].addr, cqe, len);
	if (inv_rkey) {
		struct t_mr *mr;

		wc.wc_flags = IBV_WC_WITH_INV;
		wc.invalidated_rkey = inv_rkey;
		for (mr = conn->f->mr_list; mr; mr = mr->next) {
			if (mr->mr.rkey == inv_rkey)
				mr->valid = false;
		}
	}
	add_wc(conn, &wc);
}

void t_answer(struct t_conn *conn, const struct nvme_sqe *sqe, uint64_t result, uint16_t status)
{
	struct nvme_cqe cqe = {
		.result64 = htole64(result),
		.cid = sqe->cid,
		.sqid = htole16((uint16_t)conn->qid),
		.status = nvme_status_to_wire((struct nvme_status){status}),
	};
	uint32_t inv = 0;

	if (conn->f->invalidate && sqe->sgl.keyed.type == NVME_SGL_KEYED_INVALIDATE)
		inv = nvme_sgl_keyed_key(&sqe->sgl.keyed);
	t_send(conn, &cqe, sizeof(cqe), inv);
}

/* ---- memory ---- */

static void *host(struct t_fake *f, const struct nvme_sqe *sqe, size_t len, int need)
{
	const struct nvme_keyed_sgl *sgl = &sqe->sgl.keyed;
	uint64_t addr = le64toh(sgl->addr);
	struct t_mr *mr;

	for (mr = f->mr_list; mr; mr = mr->next) {
		if (mr->mr.rkey != nvme_sgl_keyed_key(sgl) || !mr->valid)
			continue;
		if ((mr->access & need) != need || addr < mr->mr.iova ||
		    addr + len > mr->mr.iova + mr->mr.length || len > nvme_sgl_keyed_len(sgl))
			break;
		f->last_access = mr->access;
		f->last_addr = (uint8_t *)mr->mr.addr + (addr - mr->mr.iova);
		return (uint8_t *)mr->mr.addr + (addr - mr->mr.iova);
	}
	f->violations++;
	return NULL;
}

bool t_read_host(struct t_fake *f, const struct nvme_sqe *sqe, void *to, size_t len)
{
	void *p = host(f, sqe, len, IBV_ACCESS_REMOTE_READ);

	if (p)
		memcpy(to, p, len);
	return p != NULL;
}

bool t_write_host(struct t_fake *f, const struct nvme_sqe *sqe, const void *from, size_t len)
{
	void *p = host(f, sqe, len, IBV_ACCESS_REMOTE_WRITE);

	if (p)
		memcpy(p, from, len);
	return p != NULL;
}

bool t_answer_data(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
		   const void *data, size_t len)
{
	if (t_write_host(f, sqe, data, len))
		t_answer(conn, sqe, 0, 0);
	return true;
}

static int reg_mr(struct rd_fab_dev *dev, void *addr, size_t len, int access,
		  struct rd_fab_mr **out)
{
	struct t_mr *mr;

	if (t_fake.reg_err) {
		*out = NULL;
		return t_fake.reg_err;
	}
	mr = calloc(1, sizeof(*mr));
	mr->mr = (struct rd_fab_mr){
		.dev = dev, .addr = addr, .length = len, .iova = (uintptr_t)addr + T_SHOWN};
	mr->mr.rkey = mr->mr.lkey = ++t_fake.next_key << 8 | 0x5a;
	mr->access = access;
	mr->valid = true;
	mr->next = t_fake.mr_list;
	t_fake.mr_list = mr;
	t_fake.mrs_made++;
	if (++t_fake.mrs > t_fake.mrs_max)
		t_fake.mrs_max = t_fake.mrs;
	*out = &mr->mr;
	return 0;
}

static void dereg_mr(struct rd_fab_mr *m)
{
	struct t_mr **p = &t_fake.mr_list;

	while (&(*p)->mr != m)
		p = &(*p)->next;
	*p = (*p)->next;
	t_fake.mrs--;
	free(rd_container_of(m, struct t_mr, mr));
}

/* ---- the target ---- */

static void answer_io(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
		      const void *data, size_t in_capsule)
{
	uint64_t lba = le32toh(sqe->cdw10);
	size_t len = ((le32toh(sqe->cdw12) & 0xffff) + 1) * T_DISK_BLOCK;
	unsigned char *disk = f->disk + lba * T_DISK_BLOCK;
	bool ok = true;

	if (sqe->opcode == nvme_cmd_flush) {
		t_answer(conn, sqe, 0, 0);
		return;
	}
	if (lba + len / T_DISK_BLOCK > T_DISK_BLOCKS) {
		t_answer(conn, sqe, 0, NVME_SC_LBA_RANGE | NVME_STATUS_DNR);
		return;
	}
	if (sqe->opcode == nvme_cmd_read)
		ok = t_write_host(f, sqe, disk, len);
	else if (in_capsule)
		memcpy(disk, data, len);
	else
		ok = t_read_host(f, sqe, disk, len);
	if (ok)
		t_answer(conn, sqe, 0, 0);
	else
		t_break(conn, -ECONNRESET);
}

static void answer_fabrics(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			   size_t in_capsule)
{
	struct nvmf_property_sqe prop;
	struct nvmf_connect_data data;
	uint64_t v = 0;

	memcpy(&prop, sqe, sizeof(prop));
	switch (sqe->fctype) {
	case nvme_fabrics_type_connect:
		if (!in_capsule && !t_read_host(f, sqe, &data, sizeof(data)))
			break;
		t_answer(conn, sqe, 1, 0); /* cntlid 1 */
		break;
	case nvme_fabrics_type_property_get:
		if (le32toh(prop.offset) == NVME_REG_CAP)
			v = f->cap;
		else if (le32toh(prop.offset) == NVME_REG_VS)
			v = 0x10400;
		else if (le32toh(prop.offset) == NVME_REG_CC)
			v = f->cc;
		else if (le32toh(prop.offset) == NVME_REG_CSTS)
			v = f->csts;
		t_answer(conn, sqe, v, 0);
		break;
	default:
		f->cc = (uint32_t)le64toh(prop.value);
		f->csts = NVME_CC_EN(f->cc);
		if (NVME_CC_SHN(f->cc))
			f->csts |= NVME_CSTS_SHST_CMPLT << NVME_CSTS_SHST_SHIFT;
		t_answer(conn, sqe, 0, 0);
		break;
	}
}

static void answer_identify(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe)
{
	struct nvme_id_ns ns = {.nsze = htole64(T_DISK_BLOCKS), .ncap = htole64(T_DISK_BLOCKS)};
	__le32 list[1024] = {htole32(1)};
	const void *data = &f->id;

	ns.lbaf[0].ds = 9;
	ns.dlfeat = f->dlfeat;
	ns.anagrpid = htole32(f->anagrpid);
	ns.mssrl = htole16(f->mssrl);
	if ((le32toh(sqe->cdw10) & 0xff) == NVME_IDENTIFY_CNS_NS) {
		data = &ns;
		if (le32toh(sqe->nsid) != 1)
			memset(&ns, 0, sizeof(ns));
	} else if ((le32toh(sqe->cdw10) & 0xff) == NVME_IDENTIFY_CNS_CSI_CTRL) {
		memcpy(list, &f->id_nvm, sizeof(f->id_nvm));
		data = list;
	} else if ((le32toh(sqe->cdw10) & 0xff) == NVME_IDENTIFY_CNS_NS_ACTIVE_LIST) {
		data = list;
	}
	t_answer_data(f, conn, sqe, data, 4096);
}

void t_default(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe, const void *data,
	       size_t len)
{
	if (sqe->opcode == NVMF_OPCODE)
		answer_fabrics(f, conn, sqe, len);
	else if (conn->qid)
		answer_io(f, conn, sqe, data, len);
	else if (sqe->opcode == nvme_admin_identify)
		answer_identify(f, conn, sqe);
	else if (sqe->opcode == nvme_admin_set_features)
		t_answer(conn, sqe, f->granted << 16 | f->granted, 0);
	else if (sqe->opcode == nvme_admin_async_event)
		return; /* until there is an event */
	else
		t_answer(conn, sqe, 0, 0);
}

/* ---- the ops ---- */

static void post_one(struct t_conn *conn, struct ibv_send_wr *wr)
{
	struct t_fake *f = conn->f;
	struct nvme_sqe sqe;
	const void *data = NULL;
	size_t len = 0;

	if (conn->dead) {
		send_completion(conn, wr->wr_id, IBV_WC_WR_FLUSH_ERR);
		return;
	}
	CU_ASSERT_EQUAL(wr->opcode, IBV_WR_SEND);
	CU_ASSERT_EQUAL(wr->sg_list[0].length, sizeof(sqe));
	memcpy(&sqe, (void *)(uintptr_t)wr->sg_list[0].addr, sizeof(sqe));
	if (wr->num_sge == 2) {
		data = (void *)(uintptr_t)wr->sg_list[1].addr;
		len = wr->sg_list[1].length;
	}
	if (f->n_log < T_LOG_MAX)
		f->log[f->n_log++] = sqe;
	if (f->hold_sends)
		conn->held[conn->n_held++] = wr->wr_id;
	else
		send_completion(conn, wr->wr_id, IBV_WC_SUCCESS);
	if (!f->hook || !f->hook(f, conn, &sqe, data, len))
		t_default(f, conn, &sqe, data, len);
}

static int post_send(struct rd_fab_conn *c, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct t_conn *conn = (struct t_conn *)c;

	for (; wr; wr = wr->next) {
		if (conn->f->full_after && --conn->f->full_after == 0) {
			*bad = wr;
			return -ENOMEM;
		}
		post_one(conn, wr);
	}
	return 0;
}

static int post_recv(struct rd_fab_conn *c, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct t_conn *conn = (struct t_conn *)c;
	unsigned int i = conn->recv_tail++ % RING;

	conn->recv[i] = *wr;
	conn->recv_sge[i] = wr->sg_list[0];
	if (conn->dead) {
		struct ibv_wc wc = {.wr_id = wr->wr_id, .status = IBV_WC_WR_FLUSH_ERR};

		conn->recv_head = conn->recv_tail;
		add_wc(conn, &wc);
	}
	return 0;
}

static int resolve(struct rd_fab *fab, const struct rd_fab_resolve_attr *attr,
		   struct rd_fab_conn **out)
{
	struct t_conn *conn = calloc(1, sizeof(*conn));

	conn->c = (struct rd_fab_conn){
		.ops = fab->ops, .dev = &the_dev, .on_event = attr->on_event, .arg = attr->arg};
	memcpy(&conn->c.remote, attr->dst, rd_addr_len(attr->dst));
	conn->f = &t_fake;
	conn->f->conns_made++;
	conn->fab = fab;
	conn->deliver.fn = deliver;
	event(conn, RD_FAB_EV_RESOLVED, 0, NULL, 0);
	*out = &conn->c;
	return 0;
}

/* The last byte of an IPv4 address. */
static unsigned int octet_of(const struct t_conn *conn)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)&conn->c.remote;

	return ntohl(in->sin_addr.s_addr) & 0xff;
}

struct t_conn *t_conn_to(struct t_fake *f, unsigned int n, bool io)
{
	unsigned int i;

	for (i = 0; i < T_CONNS_MAX; i++) {
		struct t_conn *conn = f->conns[i];

		if (conn && !conn->dead && octet_of(conn) == n && (conn->qid != 0) == io)
			return conn;
	}
	return NULL;
}

static void note_conn(struct t_fake *f, const struct t_conn *old, struct t_conn *now)
{
	unsigned int i;

	for (i = 0; i < T_CONNS_MAX; i++) {
		if (f->conns[i] == old) {
			f->conns[i] = now;
			return;
		}
	}
}

static int do_connect(struct rd_fab_conn *c, const struct rd_fab_conn_param *param)
{
	struct t_conn *conn = (struct t_conn *)c;
	struct t_fake *f = conn->f;
	struct nvmf_rdma_cm_req req;
	struct nvmf_rdma_cm_rep rep = {0};
	struct nvmf_rdma_cm_rej rej = {.sts = htole16((uint16_t)f->reject_sts)};

	memcpy(&req, param->private_data, sizeof(req));
	conn->qid = le16toh(req.qid);
	memcpy(f->priv[conn->qid ? 1 : 0], param->private_data, param->private_len);
	f->ird = param->ird;
	f->last_conn[conn->qid ? 1 : 0] = conn;
	note_conn(f, NULL, conn);
	rep.crqsize = f->crqsize && conn->qid ? htole16(f->crqsize)
					      : htole16((uint16_t)(le16toh(req.hsqsize) + 1));
	if (octet_of(conn) < 32 && f->down & 1u << octet_of(conn))
		event(conn, RD_FAB_EV_CONNECT_ERROR, -ECONNREFUSED, NULL, 0);
	else if (f->connect_err)
		event(conn, RD_FAB_EV_CONNECT_ERROR, f->connect_err, NULL, 0);
	else if (f->reject_sts)
		event(conn, RD_FAB_EV_REJECTED, -ECONNREFUSED, &rej, sizeof(rej));
	else
		event(conn, RD_FAB_EV_ESTABLISHED, 0, &rep, sizeof(rep));
	return 0;
}

static int qp_create(struct rd_fab_conn *c, const struct rd_fab_qp_attr *attr)
{
	((struct t_conn *)c)->cq = (struct t_cq *)attr->send_cq;
	return 0;
}

static void disconnect(struct rd_fab_conn *c)
{
	t_break((struct t_conn *)c, 0);
}

static void conn_destroy(struct rd_fab_conn *c)
{
	struct t_conn *conn = (struct t_conn *)c;
	int i;

	rd_defer_cancel(conn->fab->loop, &conn->deliver);
	if (conn->cq)
		conn->cq->head =
			conn->cq->tail; /* completions of a destroyed connection are dropped */
	note_conn(conn->f, conn, NULL);
	for (i = 0; i < 2; i++) {
		if (conn->f->last_conn[i] == conn)
			conn->f->last_conn[i] = NULL;
	}
	free(conn);
}

static int cq_create(struct rd_fab_dev *dev, uint32_t depth, rd_fab_cq_fn fn, void *arg,
		     struct rd_fab_cq **out)
{
	struct t_cq *cq = calloc(1, sizeof(*cq));

	cq->cq = (struct rd_fab_cq){.dev = dev, .fn = fn, .arg = arg};
	cq->notify.fn = notify;
	*out = &cq->cq;
	return 0;
}

static void cq_destroy(struct rd_fab_cq *c)
{
	struct t_cq *cq = (struct t_cq *)c;
	struct rdi_queue *q = c->arg;

	rd_defer_cancel(q->loop, &cq->notify);
	free(cq);
}

static int cq_poll(struct rd_fab_cq *c, int n, struct ibv_wc *wc)
{
	struct t_cq *cq = (struct t_cq *)c;
	int i;

	for (i = 0; i < n && cq->head != cq->tail; i++)
		wc[i] = cq->ring[cq->head++ % RING];
	return i;
}

static int cq_arm(struct rd_fab_cq *c)
{
	((struct t_cq *)c)->armed = true;
	return 0;
}

static void fab_close(struct rd_fab *fab)
{
	free(fab);
}

static const struct rd_fab_ops ops = {
	.name = "fake",
	.close = fab_close,
	.resolve = resolve,
	.qp_create = qp_create,
	.connect = do_connect,
	.disconnect = disconnect,
	.conn_destroy = conn_destroy,
	.reg_mr = reg_mr,
	.dereg_mr = dereg_mr,
	.cq_create = cq_create,
	.cq_destroy = cq_destroy,
	.cq_poll = cq_poll,
	.cq_arm = cq_arm,
	.post_send = post_send,
	.post_recv = post_recv,
};

static int fab_open(struct rd_loop *loop, const struct rd_fab_iwarp_opts *opts, struct rd_fab **out)
{
	struct rd_fab *fab = calloc(1, sizeof(*fab));

	*fab = (struct rd_fab){.ops = &ops, .loop = loop};
	the_dev = (struct rd_fab_dev){.ops = &ops, .caps = t_fake.caps};
	*out = fab;
	return 0;
}

static uint64_t clock_now(void *arg)
{
	return t_fake.now += t_fake.step;
}

static const struct rd_clock clock_ = {.now = clock_now};
static const struct rdi_host_files no_files = {"/nonexistent", "/nonexistent", "/nonexistent"};

const struct rdi_env t_env = {
	.fab_open = fab_open,
	.clock = &clock_,
	.seed = 1,
	.host_files = &no_files,
};

/* ---- for the tests ---- */

void t_fake_free(void)
{
	free(t_fake.disk);
	t_fake.disk = NULL;
}

void t_fake_reset(void)
{
	t_fake_free();
	memset(&t_fake, 0, sizeof(t_fake));
	t_fake.caps = (struct rd_fab_caps){
		.max_send_wr = RING,
		.max_recv_wr = RING,
		.max_send_sge = 4,
		.max_msg = 1u << 30,
		.max_ird = 128,
		.send_with_inv = true,
		.reports_inv = true,
		.cheap_mr = true,
	};
	t_fake.now = RD_NSEC_PER_SEC;
	t_fake.cap = UINT64_C(0x200f00007f); /* MQES 127, TO 15, CSS NVM */
	t_fake.id.cntlid = htole16(1);
	t_fake.id.sgls = htole32(0x00100005);
	t_fake.id.ioccsz = htole32(64 / 16 + 8192 / 16);
	t_fake.id.mdts = 8;
	t_fake.id.maxcmd = htole16(1024);
	t_fake.id.nn = htole32(1);
	t_fake.id.oaes = htole32(1u << 8 | 1u << 9);
	t_fake.id.cntrltype = NVME_CTRL_CNTRLTYPE_IO;
	t_fake.invalidate = true;
	t_fake.granted = 3;
	t_fake.disk = calloc(T_DISK_BLOCKS, T_DISK_BLOCK);
}

void t_advance(struct t_fake *f, unsigned int ms)
{
	f->now += ms * RD_NSEC_PER_MSEC;
}

void t_ctrl_opts(struct rdinit_ctrl_opts *opts, uint16_t queues)
{
	rdinit_ctrl_opts_init(opts);
	opts->traddr = "192.0.2.1";
	opts->subnqn = "nqn.2024-01.test:x";
	opts->hostnqn = "nqn.2024-01.test:host";
	opts->hostid = "00112233-4455-6677-8899-aabbccddeeff";
	opts->nr_io_queues = queues;
}

struct rdinit_ctrl *t_ctrl_by(const struct rdinit_ctrl_opts *opts)
{
	struct rdinit_ctrl *ctrl;

	CU_ASSERT_EQUAL_FATAL(rdi_ctrl_create_env(opts, &t_env, &ctrl), 0);
	CU_ASSERT_EQUAL_FATAL(rdinit_ctrl_connect(ctrl), 0);
	return ctrl;
}

struct rdinit_ctrl *t_ctrl(uint16_t queues)
{
	struct rdinit_ctrl_opts opts;

	t_ctrl_opts(&opts, queues);
	return t_ctrl_by(&opts);
}

struct rdinit_ctrl *t_ctrl_new(uint16_t queues)
{
	t_fake_reset();
	return t_ctrl(queues);
}

void t_ctrl_cleanup(struct rdinit_ctrl **ctrl)
{
	rdinit_ctrl_free(ctrl);
	CU_ASSERT_EQUAL(t_fake.mrs, 0);
	CU_ASSERT_EQUAL(t_fake.violations, 0);
}

struct rdinit_qpair *t_qpair(struct rdinit_ctrl *ctrl, uint16_t size)
{
	struct rdinit_qpair_opts opts;
	struct rdinit_qpair *qp;

	rdinit_qpair_opts_init(&opts);
	opts.queue_size = size;
	CU_ASSERT_EQUAL_FATAL(rdinit_qpair_create(ctrl, &opts, &qp), 0);
	CU_ASSERT_EQUAL_FATAL(rdinit_qpair_connect(qp), 0);
	return qp;
}
