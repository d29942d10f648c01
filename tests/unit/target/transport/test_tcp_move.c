/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of NVMe/TCP that go from one target to another, as between two processes: with real
 * sockets, and a host that must notice nothing. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "t_target.h"
#include "util/fd_bag.h"
#include "target/nvmf/hold.h"
#include "target/nvmf/move.h"
#include "target/reactor/lifecycle.h"
#include "target/transport/rdma/rdma_transport.h"
#include "target/transport/tcp/tcp.h"

#define PATIENT    1000000 /* turns until something that must happen has happened */
#define A_WHILE    1000    /* turns in which something that must not happen would happen */
#define HOUR       (3600 * RD_NSEC_PER_SEC)
#define must(cond) CU_ASSERT_FATAL(cond)

struct host {
	int fd;
	uint16_t cid;
	bool digests;
};

struct move_world {
	struct t_env *old, *now;
	struct host admin, io;
	uint16_t cntlid;
	/* of the last hold and the last move in */
	bool told;
	int err;
	char why[256];
	json_t *records;
	struct rd_fd_bag fds;
};

static const struct rdt_transport *const transports[RDT_TRANSPORTS] = {
	[RDT_TRANSPORT_RDMA] = &rdt_rdma_transport,
	[RDT_TRANSPORT_TCP] = &rdt_tcp_transport,
};

static void turn_envs(struct move_world *w)
{
	struct t_env *const envs[] = {w->old, w->now};

	for (int i = 0; i < 2; i++) {
		if (!envs[i])
			continue;
		envs[i]->now += 2 * RD_NSEC_PER_USEC;
		t_pump(envs[i]);
	}
}

static void put(const struct host *h, const void *p, size_t len)
{
	CU_ASSERT_EQUAL_FATAL(send(h->fd, p, len, MSG_NOSIGNAL), (ssize_t)len);
}

static void get(struct move_world *w, const struct host *h, void *p, size_t len)
{
	ssize_t n = 0;

	for (int t = 0; t < PATIENT && n < (ssize_t)len; t++) {
		turn_envs(w);
		n = recv(h->fd, p, len, MSG_PEEK | MSG_DONTWAIT);
		must(n != 0);
	}
	CU_ASSERT_EQUAL_FATAL(n, (ssize_t)len);
	CU_ASSERT_EQUAL_FATAL(recv(h->fd, p, len, 0), (ssize_t)len);
}

static void nothing_comes(struct move_world *w, const struct host *h)
{
	char byte;

	for (int t = 0; t < A_WHILE; t++)
		turn_envs(w);
	CU_ASSERT_EQUAL(recv(h->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT), -1);
	CU_ASSERT_EQUAL(errno, EAGAIN);
}

/* A command with @len bytes of data in its capsule. Returns the bytes of the PDU. */
static size_t build_cmd(struct host *h, uint8_t *out, struct nvme_sqe *sqe, const void *data,
			uint32_t len)
{
	_Alignas(8) uint8_t head[NVME_TCP_HEAD_MAX];
	struct nvme_tcp_cmd cmd;
	size_t n;

	sqe->cid = htole16(h->cid++);
	sqe->flags |= NVME_CMD_PSDT_SGL;
	if (len)
		t_in_capsule(sqe, len);
	else
		sqe->sgl.data.type = NVME_SGL_TCP_DATA;
	cmd = (struct nvme_tcp_cmd){.sqe = *sqe};
	memcpy(head, &cmd, sizeof(cmd));
	n = nvme_tcp_seal(head, NVME_TCP_CMD, 0, len, 0, h->digests, h->digests);
	memcpy(out, head, n);
	if (!len)
		return n;
	memcpy(out + n, data, len);
	n += len;
	if (h->digests) {
		rd_crc32c_put(rd_crc32c(RD_CRC32C_SEED, data, len), out + n);
		n += RD_CRC32C_LEN;
	}
	return n;
}

static void put_cmd(struct host *h, struct nvme_sqe *sqe, const void *data, uint32_t len)
{
	uint8_t out[9000];

	put(h, out, build_cmd(h, out, sqe, data, len));
}

static struct nvme_cqe get_rsp(struct move_world *w, const struct host *h)
{
	struct nvme_tcp_rsp rsp;
	uint8_t digest[RD_CRC32C_LEN];

	get(w, h, &rsp, sizeof(rsp));
	CU_ASSERT_EQUAL_FATAL(rsp.hdr.type, NVME_TCP_RSP);
	if (h->digests)
		get(w, h, digest, sizeof(digest));
	return rsp.cqe;
}

static void dial(struct move_world *w, struct host *h, bool digests)
{
	const struct rdt_listener *l = TAILQ_FIRST(&w->old->t->listeners);
	struct nvme_tcp_icreq req;
	struct nvme_tcp_icresp resp;

	h->fd = socket(l->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CU_ASSERT_EQUAL_FATAL(
		connect(h->fd, (const struct sockaddr *)&l->addr, sizeof(struct sockaddr_in)), 0);
	nvme_tcp_build_icreq(&req, digests ? NVME_TCP_HDGST | NVME_TCP_DDGST : 0);
	put(h, &req, sizeof(req));
	get(w, h, &resp, sizeof(resp));
	h->digests = digests;
}

static uint16_t connect_queue(struct move_world *w, struct host *h, uint16_t qid, uint16_t cntlid)
{
	struct nvme_sqe sqe = {.opcode = NVMF_OPCODE};
	struct nvmf_connect_sqe *con = (void *)&sqe;
	struct nvmf_connect_data data = {.cntlid = htole16(cntlid)};
	struct nvme_cqe cqe;

	memset(data.hostid, 0x11, sizeof(data.hostid));
	strcpy(data.subsysnqn, T_NQN);
	strcpy(data.hostnqn, T_HOST);
	con->fctype = nvme_fabrics_type_connect;
	con->qid = htole16(qid);
	con->sqsize = htole16(15);
	con->kato = htole32(qid ? 0 : 5000);
	put_cmd(h, &sqe, &data, sizeof(data));
	cqe = get_rsp(w, h);
	CU_ASSERT_EQUAL_FATAL(cqe.status, 0);
	return (uint16_t)le32toh(cqe.result);
}

static void enable_ctrl(struct move_world *w, struct host *h)
{
	struct nvme_sqe sqe = {.opcode = NVMF_OPCODE};
	struct nvmf_property_sqe *p = (void *)&sqe;

	p->fctype = nvme_fabrics_type_property_set;
	p->offset = htole32(NVME_REG_CC);
	p->value = htole64(0x00460001);
	put_cmd(h, &sqe, NULL, 0);
	CU_ASSERT_EQUAL_FATAL(get_rsp(w, h).status, 0);
}

static struct t_env *env_on(const struct sockaddr_storage *addr)
{
	struct t_env *env;
	struct rdt_listener *l;

	t_transports = transports;
	env = t_env_new();
	t_transports = NULL;
	env->listeners[0] = (struct rdt_listener_config){.transport = RDT_TRANSPORT_TCP,
							 .address = "127.0.0.1"};
	env->cfg.listeners_count = 1;
	CU_ASSERT_EQUAL_FATAL(rdt_listeners_start(env->t), 0);
	l = TAILQ_FIRST(&env->t->listeners);
	if (addr) /* it does not accept yet */
		rdt_listener_bound(l, addr);
	else
		CU_ASSERT_EQUAL_FATAL(rdt_listeners_open(env->t), 0);
	return env;
}

static void move_world_open(struct move_world *w, bool digests)
{
	memset(w, 0, sizeof(*w));
	w->old = env_on(NULL);
	w->now = env_on(&TAILQ_FIRST(&w->old->t->listeners)->addr);
	dial(w, &w->admin, digests);
	w->cntlid = connect_queue(w, &w->admin, 0, NVMF_CNTLID_DYNAMIC);
	enable_ctrl(w, &w->admin);
	dial(w, &w->io, digests);
	connect_queue(w, &w->io, 1, w->cntlid);
	w->records = json_array();
	rd_fd_bag_init(&w->fds, 64);
}

static void end_env(struct move_world *w, struct t_env **env)
{
	struct t_env *e = *env;

	for (int t = 0; t < PATIENT; t++) {
		unsigned int n = 0;

		for (unsigned int i = 0; i < e->t->reactors_count; i++)
			n += e->t->reactors[i].qpairs_count +
			     rdt_tcp_of(&e->t->reactors[i])->lingers_count;
		if (!n && !e->t->hold && !e->t->move_in)
			break;
		turn_envs(w);
	}
	*env = NULL;
	t_env_free(e);
}

static void move_world_close(struct move_world *w)
{
	rd_fd_bag_clear(&w->fds);
	json_decref(w->records);
	close(w->admin.fd);
	close(w->io.fd);
	if (w->old)
		end_env(w, &w->old);
	if (w->now)
		end_env(w, &w->now);
}

static void note(void *arg, int err, const char *why)
{
	struct move_world *w = arg;

	w->told = true;
	w->err = err;
	snprintf(w->why, sizeof(w->why), "%s", why ? why : "");
}

static void await_told(struct move_world *w)
{
	for (int t = 0; t < PATIENT && !w->told; t++)
		turn_envs(w);
	must(w->told);
	w->told = false;
}

static void hold_old(struct move_world *w)
{
	CU_ASSERT_EQUAL_FATAL(rdt_hold(w->old->t, HOUR, false, note, w), 0);
	await_told(w);
}

static void move_all(struct move_world *w)
{
	hold_old(w);
	CU_ASSERT_EQUAL_FATAL(w->err, 0);
	CU_ASSERT_EQUAL_FATAL(rdt_move_out(w->old->t, RDT_MOVE_ALL, w->records, &w->fds), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_move_in(w->now->t, w->records, &w->fds, note, w), 0);
	await_told(w);
	CU_ASSERT_EQUAL_FATAL(w->err, 0);
}

static void commit(struct move_world *w)
{
	rdt_move_done(w->old->t);
	end_env(w, &w->old);
	rdt_move_start(w->now->t);
}

static void put_aer(struct host *h)
{
	struct nvme_sqe sqe = {.opcode = nvme_admin_async_event};

	put_cmd(h, &sqe, NULL, 0);
}

static struct nvme_sqe rw_sqe(bool write, uint64_t lba, uint32_t blocks)
{
	struct nvme_sqe sqe = {.opcode = write ? nvme_cmd_write : nvme_cmd_read,
			       .nsid = htole32(1)};

	sqe.cdw10 = htole32((uint32_t)lba);
	sqe.cdw12 = htole32(blocks - 1);
	sqe.sgl.data.type = NVME_SGL_TCP_DATA;
	sqe.sgl.data.length = htole32(blocks * 512);
	return sqe;
}

static uint64_t keep_alive_of(const struct move_world *w)
{
	const struct rdt_ctrl *ctrl = TAILQ_FIRST(&w->now->t->subsys[0]->ctrls);

	return ctrl->kato_ms;
}

static void flush_queue(struct move_world *w, uint16_t sqhd)
{
	struct nvme_sqe sqe = {.opcode = nvme_cmd_flush, .nsid = htole32(1)};
	struct nvme_cqe cqe;

	put_cmd(&w->io, &sqe, NULL, 0);
	cqe = get_rsp(w, &w->io);
	CU_ASSERT_EQUAL(cqe.status, 0);
	CU_ASSERT_EQUAL(cqe.cid, sqe.cid);
	CU_ASSERT_EQUAL(le16toh(cqe.sqhd), sqhd);
}

/* SQHD goes on, AERs wait in the other process, and the features are those that the host has set.
 */
static void idle(bool digests)
{
	struct nvme_sqe set = {.opcode = nvme_admin_set_features,
			       .cdw10 = htole32(NVME_FEAT_FID_ASYNC_EVENT),
			       .cdw11 = htole32(0x100)},
			get_feature = {.opcode = nvme_admin_get_features,
				       .cdw10 = htole32(NVME_FEAT_FID_ASYNC_EVENT)};
	struct move_world w;
	struct nvme_cqe cqe;
	uint16_t aer;

	move_world_open(&w, digests);
	put_cmd(&w.admin, &set, NULL, 0);
	CU_ASSERT_EQUAL(get_rsp(&w, &w.admin).status, 0);
	aer = w.admin.cid;
	put_aer(&w.admin);
	flush_queue(&w, 2);
	move_all(&w);
	CU_ASSERT_EQUAL(rdt_move_in_counted(w.now->t).ctrls, 1);
	CU_ASSERT_EQUAL(rdt_move_in_counted(w.now->t).queues, 2);
	CU_ASSERT_EQUAL(rdt_move_in_counted(w.now->t).left, 0);
	nothing_comes(&w, &w.admin);
	commit(&w);
	flush_queue(&w, 3);
	put_cmd(&w.admin, &get_feature, NULL, 0);
	cqe = get_rsp(&w, &w.admin);
	CU_ASSERT_EQUAL(le32toh(cqe.result), 0x100);
	CU_ASSERT_EQUAL(keep_alive_of(&w), 5000);
	/* The namespace changes: the AER that the other process had is answered, once. */
	rdt_event_subsys(w.now->t->subsys[0], RDT_EV_NS_ATTR, 1);
	cqe = get_rsp(&w, &w.admin);
	CU_ASSERT_EQUAL(le16toh(cqe.cid), aer);
	nothing_comes(&w, &w.admin);
	nothing_comes(&w, &w.io);
	move_world_close(&w);
}

static void idle_connections_move(void)
{
	idle(false);
	idle(true);
}

static struct t_disk *disk_of(struct t_env *env)
{
	return &env->disk[t_ns_of(env->t->subsys[0], 1)->slot];
}

/* A command that storage keeps ends the hold with the name of its namespace; then everything goes
 * on as before, also for the commands that came meanwhile. */
static void a_hanging_namespace_refuses(void)
{
	struct nvme_sqe first = rw_sqe(false, 0, 1), later;
	struct nvme_tcp_data data;
	struct move_world w;
	uint8_t block[512];

	move_world_open(&w, false);
	disk_of(w.old)->hold = true;
	put_cmd(&w.io, &first, NULL, 0);
	for (int t = 0; t < PATIENT && !disk_of(w.old)->held_count; t++)
		turn_envs(&w);
	CU_ASSERT_EQUAL_FATAL(rdt_hold(w.old->t, 50 * RD_NSEC_PER_MSEC, false, note, &w), 0);
	CU_ASSERT_EQUAL(rdt_hold(w.old->t, 1, false, note, &w), -EBUSY);
	for (int t = 0; t < 20; t++)
		turn_envs(&w);
	later = rw_sqe(false, 1, 1);
	put_cmd(&w.io, &later, NULL, 0);
	await_told(&w);
	CU_ASSERT_EQUAL(w.err, -ETIMEDOUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(w.why, T_NQN " namespace 1: "));
	CU_ASSERT_PTR_NULL(w.old->t->hold);
	disk_of(w.old)->hold = false;
	t_disk_finish(disk_of(w.old), 0, 0);
	for (int i = 0; i < 2; i++) {
		get(&w, &w.io, &data, sizeof(data));
		CU_ASSERT_EQUAL(data.cccid, i ? later.cid : first.cid);
		get(&w, &w.io, block, sizeof(block));
		CU_ASSERT_EQUAL(get_rsp(&w, &w.io).status, 0);
	}
	move_world_close(&w);
}

static void write_block(struct move_world *w, uint64_t lba, uint8_t fill, size_t first, size_t cut)
{
	uint8_t out[9000], block[512];
	struct nvme_sqe sqe = rw_sqe(true, lba, 1);
	size_t len;

	memset(block, fill, sizeof(block));
	len = build_cmd(&w->io, out, &sqe, block, sizeof(block));
	put(&w->io, out + first, (cut ? cut : len) - first);
}

/* Until the I/O queue has @have bytes of a header or, with 0, the header and no more is to be read
 * than its data. */
static void await_part(struct move_world *w, uint32_t have)
{
	const struct rdt_tcp_conn *c = NULL;
	const struct rdt_qpair *qp;

	for (unsigned int i = 0; i < w->old->t->reactors_count; i++)
		TAILQ_FOREACH (qp, &w->old->t->reactors[i].qpairs, link)
			if (qp->qid == 1)
				c = rdt_tcp_conn_of(qp);
	must(c != NULL);
	for (int t = 0; t < PATIENT; t++) {
		turn_envs(w);
		if (have ? c->rx.have == have : c->rx.state != RDT_TCP_RX_HEAD)
			return;
	}
	CU_FAIL_FATAL("the bytes do not arrive");
}

/*
 * A part of a command has arrived. A part of its header moves; a part of its data does not: until
 * the rest is here the hold waits. What comes while it is held is read by the other process.
 */
static void half_commands(bool digests)
{
	const size_t cuts[] = {1, 7, 8, 40, 71, 72, 76, 90, 300, 583};
	struct move_world w;

	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		bool in_head = cuts[i] < (digests ? 76 : 72);
		uint16_t cid;

		move_world_open(&w, digests);
		cid = w.io.cid;
		write_block(&w, 3, 0x5a, 0, cuts[i]);
		await_part(&w, in_head ? (uint32_t)cuts[i] : 0);
		CU_ASSERT_EQUAL_FATAL(rdt_hold(w.old->t, HOUR, false, note, &w), 0);
		for (int t = 0; t < A_WHILE; t++)
			turn_envs(&w);
		CU_ASSERT_EQUAL(w.told, in_head);
		w.io.cid = cid;
		write_block(&w, 3, 0x5a, cuts[i], 0);
		write_block(&w, 4, 0x5b, 0, 0);
		await_told(&w);
		CU_ASSERT_EQUAL_FATAL(w.err, 0);
		CU_ASSERT_EQUAL_FATAL(rdt_move_out(w.old->t, RDT_MOVE_ALL, w.records, &w.fds), 0);
		CU_ASSERT_EQUAL(disk_of(w.old)->data[3 * 512], 0);
		CU_ASSERT_EQUAL_FATAL(rdt_move_in(w.now->t, w.records, &w.fds, note, &w), 0);
		await_told(&w);
		commit(&w);
		for (uint16_t n = 0; n < 2; n++) {
			struct nvme_cqe cqe = get_rsp(&w, &w.io);

			CU_ASSERT_EQUAL(cqe.status, 0);
			CU_ASSERT_EQUAL(le16toh(cqe.cid), cid + n);
		}
		CU_ASSERT_EQUAL(disk_of(w.now)->data[3 * 512 + 511], 0x5a);
		CU_ASSERT_EQUAL(disk_of(w.now)->data[4 * 512], 0x5b);
		nothing_comes(&w, &w.io);
		move_world_close(&w);
	}
}

static void half_commands_move(void)
{
	half_commands(false);
	half_commands(true);
}

/* Data that the target has asked for comes before the connection rests; a command before it waits,
 * and begins in the other process. */
static void asked_data_comes_first(void)
{
	struct nvme_sqe write = rw_sqe(true, 8, 1),
			flush = {.opcode = nvme_cmd_flush, .nsid = htole32(1)};
	struct nvme_tcp_data pdu;
	struct nvme_tcp_r2t r2t;
	struct move_world w;
	uint8_t block[512];

	move_world_open(&w, false);
	put_cmd(&w.io, &write, NULL, 0);
	get(&w, &w.io, &r2t, sizeof(r2t));
	CU_ASSERT_EQUAL_FATAL(r2t.hdr.type, NVME_TCP_R2T);
	CU_ASSERT_EQUAL_FATAL(rdt_hold(w.old->t, HOUR, false, note, &w), 0);
	put_cmd(&w.io, &flush, NULL, 0);
	nothing_comes(&w, &w.io);
	CU_ASSERT_FALSE(w.told);
	pdu = (struct nvme_tcp_data){.cccid = write.cid, .ttag = r2t.ttag, .datal = htole32(512)};
	nvme_tcp_seal(&pdu, NVME_TCP_H2C_DATA, NVME_TCP_F_LAST, 512, 0, false, false);
	memset(block, 0x77, sizeof(block));
	put(&w.io, &pdu, sizeof(pdu));
	put(&w.io, block, sizeof(block));
	CU_ASSERT_EQUAL(get_rsp(&w, &w.io).cid, write.cid);
	await_told(&w);
	CU_ASSERT_EQUAL(disk_of(w.old)->data[8 * 512], 0x77);
	CU_ASSERT_EQUAL_FATAL(rdt_move_out(w.old->t, RDT_MOVE_ALL, w.records, &w.fds), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_move_in(w.now->t, w.records, &w.fds, note, &w), 0);
	await_told(&w);
	nothing_comes(&w, &w.io);
	commit(&w);
	CU_ASSERT_EQUAL(get_rsp(&w, &w.io).cid, flush.cid);
	nothing_comes(&w, &w.io);
	move_world_close(&w);
}

/* The hold waits for the second half of a fused pair, and the pair is executed once. */
static void a_pair_is_completed(void)
{
	struct nvme_sqe first = rw_sqe(false, 5, 1), second = rw_sqe(true, 5, 1);
	struct move_world w;
	uint8_t block[512] = {0};

	move_world_open(&w, false);
	first.opcode = nvme_cmd_compare;
	first.flags = NVME_CMD_FUSE_FIRST;
	second.flags = NVME_CMD_FUSE_SECOND;
	put_cmd(&w.io, &first, block, sizeof(block));
	for (int t = 0; t < A_WHILE; t++)
		turn_envs(&w);
	CU_ASSERT_EQUAL_FATAL(rdt_hold(w.old->t, HOUR, false, note, &w), 0);
	nothing_comes(&w, &w.io);
	CU_ASSERT_FALSE(w.told);
	memset(block, 0x66, sizeof(block));
	put_cmd(&w.io, &second, block, sizeof(block));
	for (int i = 0; i < 2; i++)
		CU_ASSERT_EQUAL(get_rsp(&w, &w.io).status, 0);
	await_told(&w);
	CU_ASSERT_EQUAL(w.err, 0);
	CU_ASSERT_EQUAL(disk_of(w.old)->data[5 * 512], 0x66);
	CU_ASSERT_EQUAL(rdt_move_counted(w.old->t).queues, 2);
	rdt_hold_release(w.old->t);
	flush_queue(&w, 4);
	move_world_close(&w);
}

/* A host that never sends the data which it was asked for delays the hold, and does not refuse it:
 * its connection does not move. */
static void a_silent_host_is_left(void)
{
	struct nvme_sqe write = rw_sqe(true, 8, 1);
	struct nvme_tcp_r2t r2t;
	struct move_world w;
	char byte;

	move_world_open(&w, false);
	put_cmd(&w.io, &write, NULL, 0);
	get(&w, &w.io, &r2t, sizeof(r2t));
	CU_ASSERT_EQUAL_FATAL(rdt_hold(w.old->t, 50 * RD_NSEC_PER_MSEC, false, note, &w), 0);
	await_told(&w);
	CU_ASSERT_EQUAL(w.err, 0);
	CU_ASSERT_EQUAL(rdt_move_counted(w.old->t).queues, 1);
	CU_ASSERT_EQUAL(rdt_move_counted(w.old->t).left, 1);
	rdt_move_done(w.old->t);
	for (int t = 0; t < PATIENT && recv(w.io.fd, &byte, 1, MSG_DONTWAIT) != 0; t++)
		turn_envs(&w);
	CU_ASSERT_EQUAL(recv(w.io.fd, &byte, 1, MSG_DONTWAIT), 0);
	move_world_close(&w);
}

static struct rdt_qpair *qpair_of(struct t_env *env, uint16_t qid)
{
	struct rdt_qpair *qp = NULL;

	for (unsigned int i = 0; i < env->t->reactors_count; i++)
		TAILQ_FOREACH (qp, &env->t->reactors[i].qpairs, link)
			if (qp->qid == qid)
				return qp;
	return NULL;
}

/* A host sends no more than half of a command's data: its connection is stopped there. Whatever
 * ends on it then, such as an answer that waited for the socket, it does not count as at rest: the
 * half that has arrived would be lost. */
static void half_data_does_not_rest(void)
{
	struct rdt_qpair *qp;
	struct move_world w;
	uint16_t cid;

	move_world_open(&w, false);
	cid = w.io.cid;
	write_block(&w, 3, 0x5a, 0, 300);
	for (int t = 0; t < 100; t++)
		turn_envs(&w);
	CU_ASSERT_EQUAL_FATAL(rdt_hold(w.old->t, 50 * RD_NSEC_PER_MSEC, false, note, &w), 0);
	await_told(&w);
	CU_ASSERT_EQUAL(w.err, 0);
	CU_ASSERT_EQUAL(rdt_move_counted(w.old->t).left, 1);
	qp = qpair_of(w.old, 1);
	must(qp != NULL);
	rdt_qpair_check(qp);
	for (int t = 0; t < 100; t++)
		turn_envs(&w);
	CU_ASSERT_EQUAL(qp->state, RDT_QP_HOLDING);
	rdt_hold_release(w.old->t);
	w.io.cid = cid;
	write_block(&w, 3, 0x5a, 300, 0);
	CU_ASSERT_EQUAL(get_rsp(&w, &w.io).status, 0);
	CU_ASSERT_EQUAL(disk_of(w.old)->data[3 * 512 + 511], 0x5a);
	move_world_close(&w);
}

/* The other process has not come so far: the old one goes on with everything. */
static void a_move_is_given_up(void)
{
	struct move_world w;

	move_world_open(&w, false);
	put_aer(&w.admin);
	flush_queue(&w, 2);
	move_all(&w);
	rdt_move_done(w.now->t);
	end_env(&w, &w.now);
	rdt_hold_release(w.old->t);
	flush_queue(&w, 3);
	nothing_comes(&w, &w.admin);
	move_world_close(&w);
}

/* Sets a member of the record of kind @kind. */
static void spoil(const struct move_world *w, const char *kind, const char *member, json_t *value)
{
	json_t *rec;
	size_t at;

	json_array_foreach(w->records, at,
			   rec) if (strcmp(json_string_value(json_object_get(rec, "kind")), kind) ==
				    0) json_object_set(rec, member, value);
	json_decref(value);
}

/* Fields that cannot be refuse the records. */
static void records_are_checked(void)
{
	static const struct {
		const char *kind, *member, *json;
	} bad[] = {
		{"queue", "qid", "-1"},
		{"queue", "qid", "70000"},
		{"queue", "cntlid", "0"},
		{"queue", "sqsize", "0"},
		{"queue", "sqsize", "\"16\""},
		{"queue", "sqhd", "16"},
		{"queue", "depth", "1"},
		{"queue", "fd", "1000"},
		{"queue", "fd", "null"},
		{"queue", "bytes", "\"AAA\""},
		{"queue", "bytes", "\"A?==\""},
		{"queue", "transport", "7"},
		{"queue", "tcp", "{}"},
		{"queue", "tcp", "{\"hdgst\": false, \"ddgst\": false, \"hpda\": 32}"},
		{"ctrl", "cntlid", "65535"},
		{"ctrl", "hostid", "\"11\""},
		{"ctrl", "hostnqn", "false"},
		{"ctrl", "cc", "0"},
		{"ctrl", "queues", "-1"},
		{"ctrl", "features", "[]"},
		{"ctrl", "events", "{\"due\": 1}"},
		{"ctrl", "errors", "{\"count\": 1, \"ring\": \"AAAA\"}"},
		{"ctrl", "reservations", "{\"counter\": 1, \"entries\": [[1, 1, 9]]}"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct move_world w;

		move_world_open(&w, false);
		hold_old(&w);
		CU_ASSERT_EQUAL_FATAL(rdt_move_out(w.old->t, RDT_MOVE_ALL, w.records, &w.fds), 0);
		spoil(&w, bad[i].kind, bad[i].member,
		      json_loads(bad[i].json, JSON_DECODE_ANY, NULL));
		CU_ASSERT_EQUAL_FATAL(rdt_move_in(w.now->t, w.records, &w.fds, note, &w), 0);
		await_told(&w);
		CU_ASSERT_EQUAL(w.err, -EPROTO);
		CU_ASSERT_PTR_NOT_NULL(strstr(w.why, bad[i].kind));
		rdt_move_done(w.now->t);
		end_env(&w, &w.now);
		rdt_hold_release(w.old->t);
		flush_queue(&w, 2);
		move_world_close(&w);
	}
}

/* A host that the new configuration does not know is left, and so is one that was told of limits
 * which are lower now. */
static void what_may_not_go_on_is_left(void)
{
	for (int i = 0; i < 3; i++) {
		struct move_world w;

		move_world_open(&w, false);
		hold_old(&w);
		CU_ASSERT_EQUAL_FATAL(rdt_move_out(w.old->t, RDT_MOVE_ALL, w.records, &w.fds), 0);
		if (i == 0)
			spoil(&w, "ctrl", "max_data", json_integer(T_MDTS + 1));
		else if (i == 1)
			spoil(&w, "queue", "subsys", json_string(T_NQN2));
		else
			w.now->t->listeners.tqh_first->addr.ss_family = AF_UNSPEC;
		CU_ASSERT_EQUAL_FATAL(rdt_move_in(w.now->t, w.records, &w.fds, note, &w), 0);
		await_told(&w);
		CU_ASSERT_EQUAL(w.err, 0);
		CU_ASSERT_EQUAL(rdt_move_in_counted(w.now->t).ctrls, 0);
		CU_ASSERT_EQUAL(rdt_move_in_counted(w.now->t).left, 2);
		rdt_move_done(w.now->t);
		end_env(&w, &w.now);
		rdt_hold_release(w.old->t);
		flush_queue(&w, 2);
		move_world_close(&w);
	}
}

static int has_too_much(struct rdt_qpair *qp, json_t *rec)
{
	return -EFBIG;
}

/* Its host would have to connect again, and only because it is busy. */
static void what_is_too_much_refuses(void)
{
	struct rdt_transport_ops ops;
	struct rdt_qpair *qp;
	struct move_world w;

	move_world_open(&w, false);
	qp = TAILQ_FIRST(&w.old->t->reactors[0].qpairs);
	ops = *qp->ops;
	ops.move_out = has_too_much;
	qp->ops = &ops;
	hold_old(&w);
	CU_ASSERT_EQUAL(w.err, -EFBIG);
	CU_ASSERT_PTR_NOT_NULL(strstr(w.why, T_HOST));
	CU_ASSERT_PTR_NOT_NULL(strstr(w.why, "try again"));
	flush_queue(&w, 2);
	move_world_close(&w);
}

/* Of I/O queues: a lower limit is for new controllers. */
static void granted_queues_stay(void)
{
	struct move_world w;

	move_world_open(&w, false);
	w.now->cfg.target.io_queues = 1;
	move_all(&w);
	CU_ASSERT_EQUAL(rdt_move_in_counted(w.now->t).queues, 2);
	commit(&w);
	flush_queue(&w, 2);
	move_world_close(&w);
}

const struct t_case t_tcp_move_cases[] = {
	{"idle connections move", idle_connections_move},
	{"a namespace that hangs refuses the hold", a_hanging_namespace_refuses},
	{"parts of commands move, or are awaited", half_commands_move},
	{"data that was asked for comes first", asked_data_comes_first},
	{"a fused pair is completed", a_pair_is_completed},
	{"a silent host is left", a_silent_host_is_left},
	{"half of the data of a command does not rest", half_data_does_not_rest},
	{"a move is given up", a_move_is_given_up},
	{"records are checked", records_are_checked},
	{"what may not go on is left", what_may_not_go_on_is_left},
	{"granted queues stay", granted_queues_stay},
	{"what is too much refuses", what_is_too_much_refuses},
	{NULL, NULL},
};
