/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe/TCP: how much of what hostile peers send is read in one turn of a reactor's loop, and what
 * they can keep in use by not sending. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "t_target.h"
#include "target/reactor/lifecycle.h"
#include "target/transport/rdma/rdma_transport.h"
#include "target/transport/tcp/tcp.h"

#define PEERS   6
#define PATIENT 1000000 /* turns until something that must happen has happened */

struct tcp_world {
	struct t_env *env;
	struct rdt_reactor *r;
	struct rdt_listener *l;
	int fd[PEERS];
	struct rdt_tcp_conn *conn[PEERS];
};

static const struct rdt_transport *const transports[RDT_TRANSPORTS] = {
	[RDT_TRANSPORT_RDMA] = &rdt_rdma_transport,
	[RDT_TRANSPORT_TCP] = &rdt_tcp_transport,
};

static void turn(struct tcp_world *w)
{
	rd_loop_turn(w->env->loop, 0);
	rd_loop_turn(w->r->loop, 0);
}

static void put(struct tcp_world *w, int i, const void *p, size_t len)
{
	CU_ASSERT_EQUAL_FATAL(send(w->fd[i], p, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* Turns until the peer can read @len bytes, and reads them. */
static void get(struct tcp_world *w, int i, void *p, size_t len)
{
	ssize_t n = 0;

	for (int t = 0; t < PATIENT && n < (ssize_t)len; t++) {
		turn(w);
		n = recv(w->fd[i], p, len, MSG_PEEK | MSG_DONTWAIT);
	}
	CU_ASSERT_EQUAL_FATAL(n, (ssize_t)len);
	CU_ASSERT_EQUAL_FATAL(recv(w->fd[i], p, len, 0), (ssize_t)len);
}

static struct rdt_tcp_conn *conn_of_peer(const struct tcp_world *w, int fd)
{
	struct sockaddr_in at = {0}, remote;
	socklen_t len = sizeof(at);
	struct rdt_qpair *qp;

	CU_ASSERT_EQUAL_FATAL(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	TAILQ_FOREACH (qp, &w->r->qpairs, link) {
		memcpy(&remote, &qp->remote, sizeof(remote));
		if (remote.sin_port == at.sin_port)
			return rdt_tcp_conn_of(qp);
	}
	CU_FAIL_FATAL("the target does not have the connection");
	return NULL;
}

static void come(struct tcp_world *w, int i, uint8_t dgst)
{
	struct nvme_tcp_icreq req;
	struct nvme_tcp_icresp resp;

	w->fd[i] = socket(w->l->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CU_ASSERT_EQUAL_FATAL(
		connect(w->fd[i], (struct sockaddr *)&w->l->addr, sizeof(struct sockaddr_in)), 0);
	nvme_tcp_build_icreq(&req, dgst);
	put(w, i, &req, sizeof(req));
	get(w, i, &resp, sizeof(resp));
	w->conn[i] = conn_of_peer(w, w->fd[i]);
}

static struct tcp_world tcp_world_new(void)
{
	struct tcp_world w = {0};
	unsigned int reactors = t_reactors;

	t_transports = transports;
	t_reactors = 1;
	w.env = t_env_new();
	t_reactors = reactors;
	t_transports = NULL;
	w.env->listeners[0] = (struct rdt_listener_config){.transport = RDT_TRANSPORT_TCP,
							   .address = "127.0.0.1"};
	w.env->cfg.listeners_count = 1;
	CU_ASSERT_EQUAL_FATAL(rdt_listeners_start(w.env->t), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_listeners_open(w.env->t), 0);
	w.r = w.env->t->reactors;
	w.l = TAILQ_FIRST(&w.env->t->listeners);
	for (int i = 0; i < PEERS; i++)
		come(&w, i, 0);
	return w;
}

static void tcp_world_free(struct tcp_world *w)
{
	for (int i = 0; i < PEERS; i++)
		close(w->fd[i]);
	for (int t = 0; t < PATIENT && (w->r->qpairs_count || rdt_tcp_of(w->r)->lingers_count); t++)
		turn(w);
	CU_ASSERT_EQUAL(w->r->qpairs_count, 0);
	t_env_free(w->env);
}

static void put_connect(struct tcp_world *w, int i)
{
	struct nvme_tcp_cmd cmd = {.sqe.opcode = NVMF_OPCODE};
	struct nvmf_connect_sqe *con = (void *)&cmd.sqe;

	con->fctype = nvme_fabrics_type_connect;
	con->sqsize = htole16(31);
	cmd.sqe.flags = NVME_CMD_PSDT_SGL;
	cmd.sqe.sgl.data.type = NVME_SGL_TCP_DATA;
	cmd.sqe.sgl.data.length = htole32(sizeof(struct nvmf_connect_data));
	nvme_tcp_seal(&cmd, NVME_TCP_CMD, 0, 0, 0, false, false);
	put(w, i, &cmd, sizeof(cmd));
}

/* A Connect whose data the target asks for; returns the TTAG. */
static __le16 ask_for_connect(struct tcp_world *w, int i)
{
	struct nvme_tcp_r2t r2t;

	put_connect(w, i);
	get(w, i, &r2t, sizeof(r2t));
	CU_ASSERT_EQUAL_FATAL(r2t.hdr.type, NVME_TCP_R2T);
	return r2t.ttag;
}

/* One byte of the data in each PDU, from @first on. */
static void put_bytes(struct tcp_world *w, int i, __le16 ttag, uint32_t first, uint32_t count)
{
	uint8_t out[600 * (sizeof(struct nvme_tcp_data) + 1)], *p = out;

	for (uint32_t at = first; at < first + count; at++, p += sizeof(struct nvme_tcp_data) + 1) {
		struct nvme_tcp_data pdu = {
			.ttag = ttag, .datao = htole32(at), .datal = htole32(1)};

		nvme_tcp_seal(&pdu, NVME_TCP_H2C_DATA, 0, 1, 0, false, false);
		memcpy(p, &pdu, sizeof(pdu));
		p[sizeof(pdu)] = 0;
	}
	put(w, i, out, (size_t)(p - out));
}

static uint64_t bytes_of_all(const struct tcp_world *w, uint64_t *least, uint64_t *most)
{
	uint64_t sum = 0;

	*least = UINT64_MAX;
	*most = 0;
	for (int i = 0; i < PEERS; i++) {
		uint64_t n = w->conn[i]->fetched.done;

		sum += n;
		*least = n < *least ? n : *least;
		*most = n > *most ? n : *most;
	}
	return sum;
}

/* Until the target's socket has all that was sent: the kernel may deliver it later. */
static void await_bytes(const struct tcp_world *w, int i, int len)
{
	int have = 0;

	while (have < len)
		CU_ASSERT_EQUAL_FATAL(ioctl(w->conn[i]->io.fd, FIONREAD, &have), 0);
}

/* Connections whose data comes in small pieces get 64 PDUs in a turn, all together, and each of
 * them its part of that. */
static void small_pieces_share_a_turn(void)
{
	enum { FEW = 16, MANY = 600, READ = RD_RX_ROOM_MIN / 25 + 1 };
	struct tcp_world w = tcp_world_new();
	uint64_t least = 0, most, turns = 0;
	__le16 ttag[PEERS];

	for (int i = 0; i < PEERS; i++) {
		ttag[i] = ask_for_connect(&w, i);
		put_bytes(&w, i, ttag[i], 0, FEW); /* the first read is not limited */
	}
	for (int t = 0; t < PATIENT && least < FEW; t++) {
		turn(&w);
		bytes_of_all(&w, &least, &most);
	}
	for (int i = 0; i < PEERS; i++)
		put_bytes(&w, i, ttag[i], FEW, MANY);
	for (int i = 0; i < PEERS; i++)
		await_bytes(&w, i, MANY * (int)(sizeof(struct nvme_tcp_data) + 1));
	for (; turns < PATIENT && least < FEW + MANY; turns++) {
		uint64_t sum;

		turn(&w);
		sum = bytes_of_all(&w, &least, &most);
		CU_ASSERT_TRUE_FATAL(sum <= PEERS * FEW + READ + 64 * (turns + 1));
		CU_ASSERT_TRUE_FATAL(most - least <= 2 * READ);
	}
	CU_ASSERT_EQUAL(least, FEW + MANY);
	tcp_world_free(&w);
}

/* Of sockets that have ended and whose peers go on sending, four are read in a turn. */
static void ended_sockets_share_a_turn(void)
{
	static uint8_t junk[100000];
	struct tcp_world w = tcp_world_new();
	const struct rdt_tcp_linger *lg;
	bool all = false;

	memset(junk, 0xee, sizeof(junk));
	for (int i = 0; i < PEERS; i++)
		put(&w, i, junk, sizeof(struct nvme_tcp_hdr));
	for (int t = 0; t < PATIENT && rdt_tcp_of(w.r)->lingers_count < PEERS; t++)
		turn(&w);
	CU_ASSERT_EQUAL_FATAL(rdt_tcp_of(w.r)->lingers_count, PEERS);
	for (int i = 0; i < PEERS; i++)
		put(&w, i, junk, sizeof(junk));
	for (int t = 0; t < PATIENT && !all; t++) {
		uint32_t before[PEERS], n = 0, reads = 0;

		TAILQ_FOREACH (lg, &rdt_tcp_of(w.r)->lingers, link)
			before[n++] = lg->bytes;
		turn(&w);
		n = 0;
		all = true;
		TAILQ_FOREACH (lg, &rdt_tcp_of(w.r)->lingers, link) {
			reads += lg->bytes != before[n++];
			all = all && lg->bytes >= sizeof(junk);
		}
		CU_ASSERT_TRUE_FATAL(reads <= 4);
	}
	CU_ASSERT_TRUE(all);
	tcp_world_free(&w);
}

/* Turns until the stall watchdog has looked at the connections @looks times more. */
static void watch(struct tcp_world *w, unsigned int looks)
{
	for (unsigned int i = 0; i < looks; i++) {
		t_advance(w->env, RDT_PROGRESS_LOOK);
		turn(w);
	}
}

/* A peer that sends all of the data of a PDU keeps the buffer until it sends the data digest, too.
 */
static void a_withheld_digest_is_late(void)
{
	struct tcp_world w = tcp_world_new();
	uint8_t out[sizeof(struct nvme_tcp_data) + sizeof(struct nvmf_connect_data)] = {0};
	struct nvme_tcp_data pdu = {.datal = htole32(sizeof(out) - sizeof(pdu))};
	uint8_t digest[RD_CRC32C_LEN];

	close(w.fd[0]);
	come(&w, 0, NVME_TCP_DDGST);
	pdu.ttag = ask_for_connect(&w, 0);
	nvme_tcp_seal(&pdu, NVME_TCP_H2C_DATA, NVME_TCP_F_LAST, sizeof(out) - sizeof(pdu), 0, false,
		      true);
	memcpy(out, &pdu, sizeof(pdu));
	put(&w, 0, out, sizeof(out));
	for (int t = 0; t < PATIENT && w.conn[0]->rx.state != RDT_TCP_RX_DDGST; t++)
		turn(&w);
	CU_ASSERT_EQUAL_FATAL(w.conn[0]->rx.state, RDT_TCP_RX_DDGST);
	watch(&w, 4);
	CU_ASSERT_TRUE(w.conn[0]->qp.late);
	rd_crc32c_put(rd_crc32c(RD_CRC32C_SEED, out + sizeof(pdu), sizeof(out) - sizeof(pdu)),
		      digest);
	put(&w, 0, digest, sizeof(digest));
	for (int t = 0; t < PATIENT && w.conn[0]->rx.state == RDT_TCP_RX_DDGST; t++)
		turn(&w);
	CU_ASSERT_EQUAL(w.conn[0]->fetched.done, w.conn[0]->fetched.posted);
	watch(&w, 1);
	CU_ASSERT_FALSE(w.conn[0]->qp.late);
	tcp_world_free(&w);
}

/* A peer sends no data for its R2Ts, but so many commands that one waits for a capsule for ever. It
 * does not keep the buffers that way. */
static void commands_do_not_excuse_missing_data(void)
{
	struct tcp_world w = tcp_world_new();
	struct rdt_tcp_conn *c = w.conn[0];

	rd_timer_stop(w.r->loop, &c->qp.timer); /* the others end after 10 s without a Connect */
	for (int i = 0; i <= 2 * c->qp.depth; i++)
		put_connect(&w, 0);
	for (int t = 0; t < PATIENT && !(c->rx.held && c->qp.used == c->qp.depth); t++)
		turn(&w);
	CU_ASSERT_TRUE_FATAL(c->rx.held);
	CU_ASSERT_NOT_EQUAL(c->fetched.posted, 0);
	watch(&w, 20);
	for (int t = 0; t < PATIENT && w.r->qpairs_count; t++)
		turn(&w);
	CU_ASSERT_EQUAL(w.r->qpairs_count, 0);
	tcp_world_free(&w);
}

/* An Abort takes back an R2T that waits for the socket. The host owes nothing for it. */
static void what_was_taken_back_is_not_late(void)
{
	struct rdt_progress s = {.posted = 5000, .done = 1000};

	rdt_progress_check(&s);
	s.done += 2000;
	s.posted -= 2000;
	for (int i = 0; i < 30; i++) {
		rdt_progress_check(&s);
		CU_ASSERT_FALSE(rdt_progress_late(&s));
		CU_ASSERT_FALSE(rdt_progress_too_slow(&s, true));
	}
}

/* One that waits, and then takes the area that it has given back, waits no more: what comes back
 * next is offered to a connection that needs it. */
static void an_area_is_offered_to_one_that_needs_it(void)
{
	struct tcp_world w = tcp_world_new();
	struct rdt_tcp *tcp = rdt_tcp_of(w.r);
	struct rdt_tcp_capsule *k[2], *again;
	struct rdt_ctrl ctrl = {0};

	for (int i = 0; i < 2; i++) {
		w.conn[i]->qp.ctrl = &ctrl;
		k[i] = rdt_tcp_capsule_get(w.conn[i], 512);
		CU_ASSERT_PTR_NOT_NULL_FATAL(k[i]);
	}
	tcp->areas_max = 16;
	tcp->areas_used += 14; /* by others */
	CU_ASSERT_PTR_NULL(rdt_tcp_capsule_get(w.conn[1], 512));
	CU_ASSERT_PTR_NULL(rdt_tcp_capsule_get(w.conn[0], 512));
	rdt_tcp_capsule_put(k[0]); /* is offered to 1, but 0 may have one in any case */
	again = rdt_tcp_capsule_get(w.conn[0], 512);
	CU_ASSERT_PTR_NOT_NULL_FATAL(again);
	CU_ASSERT_PTR_NULL(rdt_tcp_capsule_get(w.conn[1], 512));
	CU_ASSERT_PTR_EQUAL(TAILQ_FIRST(&tcp->area_wait), w.conn[1]);
	tcp->areas_used -= 14;
	rdt_tcp_capsule_put(again);
	rdt_tcp_capsule_put(k[1]);
	w.conn[0]->qp.ctrl = w.conn[1]->qp.ctrl = NULL;
	tcp_world_free(&w);
}

static int begin_from(const struct tcp_world *w, const char *address)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CU_ASSERT_EQUAL_FATAL(inet_pton(AF_INET, address, &at.sin_addr), 1);
	CU_ASSERT_EQUAL_FATAL(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	CU_ASSERT_EQUAL_FATAL(
		connect(fd, (struct sockaddr *)&w->l->addr, sizeof(struct sockaddr_in)), 0);
	return fd;
}

/* Connections of one address that wait delay that of another one by no turn. */
static void addresses_are_accepted_round_robin(void)
{
	enum { MANY = 60 };
	struct tcp_world w = tcp_world_new();
	int fds[MANY + 1];

	for (int i = 0; i < MANY; i++)
		fds[i] = begin_from(&w, "127.0.0.1");
	fds[MANY] = begin_from(&w, "127.0.0.2");
	for (int t = 0; t < PATIENT && w.env->t->peers.conns < PEERS + MANY + 1; t++)
		rd_loop_turn(w.env->loop, 0);
	CU_ASSERT_EQUAL_FATAL(w.env->t->peers.conns, PEERS + MANY + 1);
	CU_ASSERT_EQUAL(w.r->qpairs_count, PEERS);
	rd_loop_turn(w.r->loop, 0);
	CU_ASSERT_EQUAL(w.r->qpairs_count, PEERS + 4);
	conn_of_peer(&w, fds[MANY]);
	for (int t = 0; t < MANY; t++)
		rd_loop_turn(w.r->loop, 0);
	CU_ASSERT_EQUAL(w.r->qpairs_count, PEERS + MANY + 1);
	for (int i = 0; i <= MANY; i++)
		close(fds[i]);
	tcp_world_free(&w);
}

static _Atomic uint64_t thread_now; /* of the thread for handshakes */

static uint64_t thread_clock(void *arg)
{
	return atomic_load(&thread_now);
}

/* Sends a part of a handshake. */
static int half_handshake(const struct tcp_world *w)
{
	int fd = begin_from(w, "127.0.0.1");

	CU_ASSERT_EQUAL_FATAL(send(fd, "\x16\x03\x01\x01\x00", 5, MSG_NOSIGNAL), 5);
	return fd;
}

/* Until the target has closed the connection. */
static void await_end(const struct tcp_world *w, int fd)
{
	char buf[64];
	ssize_t n;

	do {
		rd_loop_turn(w->env->loop, 1);
		n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	} while (n > 0 || (n < 0 && errno == EAGAIN));
	close(fd);
}

/* The thread takes connections in their order, and has looked at all that came before when it has
 * refused one that begins without TLS. */
static void await_thread(const struct tcp_world *w)
{
	int fd = begin_from(w, "127.0.0.1");

	CU_ASSERT_EQUAL_FATAL(send(fd, "hello", 5, MSG_NOSIGNAL), 5);
	await_end(w, fd);
}

static void handshakes_have_ten_seconds(void)
{
	const struct rd_clock clock = {thread_clock, NULL};
	struct tcp_world w = {0};
	int first, later;
	char byte;

	t_transports = transports;
	w.env = t_env_new();
	t_transports = NULL;
	atomic_store(&thread_now, RD_NSEC_PER_SEC);
	w.env->env.clock = &clock;
	w.env->listeners[0] = (struct rdt_listener_config){
		.transport = RDT_TRANSPORT_TCP, .tls = RDT_TLS_REQUIRED, .address = "127.0.0.1"};
	w.env->cfg.listeners_count = 1;
	CU_ASSERT_EQUAL_FATAL(rdt_listeners_start(w.env->t), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_listeners_open(w.env->t), 0);
	w.l = TAILQ_FIRST(&w.env->t->listeners);
	first = half_handshake(&w);
	await_thread(&w);
	atomic_fetch_add(&thread_now, 10 * RD_NSEC_PER_SEC - 1);
	later = half_handshake(&w);
	await_thread(&w);
	CU_ASSERT_EQUAL(recv(first, &byte, 1, MSG_DONTWAIT), -1);
	CU_ASSERT_EQUAL(errno, EAGAIN);
	CU_ASSERT_EQUAL(atomic_load(&w.env->t->tls_refusals), 2);
	atomic_fetch_add(&thread_now, 1);
	await_thread(&w);
	await_end(&w, first);
	CU_ASSERT_EQUAL(recv(later, &byte, 1, MSG_DONTWAIT), -1);
	CU_ASSERT_EQUAL(errno, EAGAIN);
	CU_ASSERT_EQUAL(atomic_load(&w.env->t->tls_refusals), 4);
	close(later);
	t_env_free(w.env);
}

const struct t_case t_tcp_turn_cases[] = {
	{"a handshake of TLS has ten seconds", handshakes_have_ten_seconds},
	{"a withheld data digest makes its host late", a_withheld_digest_is_late},
	{"many commands do not excuse a host that sends no data",
	 commands_do_not_excuse_missing_data},
	{"a transfer that was taken back makes no host late", what_was_taken_back_is_not_late},
	{"an area is offered to a connection that needs it",
	 an_area_is_offered_to_one_that_needs_it},
	{"addresses are accepted round robin", addresses_are_accepted_round_robin},
	{"data in small pieces shares one part of a turn", small_pieces_share_a_turn},
	{"sockets that have ended share one part of a turn", ended_sockets_share_a_turn},
	{NULL, NULL},
};
