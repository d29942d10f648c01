/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a host sends over NVMe/TCP, to a whole target with one reactor, over a socketpair. The
 * target and a controller are made once; an input gets a connection of its own, and everything that
 * it has taken must have come back when it has ended.
 *
 * Input: one byte of FUZZ_* flags, then the stream.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/buddy.h"
#include "nvmf/tcp_pdu.h"
#include "target/bdev/jobs.h"
#include "target/config/config.h"
#include "target/manage/objects/opening.h"
#include "target/nvmf/placement.h"
#include "target/nvmf/target.h"
#include "target/reactor/lifecycle.h"
#include "target/transport/tcp/tcp.h"
#include "fuzz.h"
#include "simulated.h"

#define FUZZ_ADMIN 0x01 /* ICReq and Connect of an admin queue come first */
#define FUZZ_IO    0x02 /* the same, of an I/O queue */
#define FUZZ_HDGST 0x04
#define FUZZ_DDGST 0x08
#define FUZZ_FIX   0x10 /* digests of complete PDUs in the stream are corrected */
#define FUZZ_BYTES 0x20 /* the stream arrives in pieces */

#define MAX_STREAM 65536u
#define NQN        "nqn.2024-01.test:fuzz"
#define END_TURNS  1000u

static const char config_text[] =
	"target: {reactors: 1, queue_depth: 16, io_queues: 4, max_data_size: 16KiB, "
	"in_capsule_size: 1KiB, buffer_memory: 1MiB, capsule_memory: 1MiB, spin: 0}\n"
	"listeners:\n"
	"  - {address: 127.0.0.1, port: 0, transport: tcp}\n"
	"subsystems:\n"
	"  - nqn: " NQN "\n"
	"    allow_any_host: true\n"
	"    namespaces:\n"
	"      - {nsid: 1, backend: memory, size: 64KiB, block_size: 512}\n";

struct tcp_stage {
	uint64_t now;
	struct rd_clock clock;
	bool trace;
	struct rd_log *log;
	struct rd_loop *loop; /* of the main thread */
	struct rdt_env env;
	struct rdt_target *target;
	struct rdt_reactor *reactor;
	int owner; /* the admin queue of the controller to which FUZZ_IO connects */
	uint16_t cntlid;
};

static uint64_t stage_now(void *arg)
{
	return ((const struct tcp_stage *)arg)->now;
}

static void turn_all(struct tcp_stage *s)
{
	s->now += RD_NSEC_PER_USEC;
	FUZZ_CHECK(rd_loop_turn(s->loop, 0) >= 0);
	FUZZ_CHECK(rd_loop_turn(s->reactor->loop, 0) >= 0);
}

static int open_conn(struct tcp_stage *s)
{
	struct rdt_tcp_handoff h = {.listener = TAILQ_FIRST(&s->target->listeners)};
	int fds[2];

	h.remote.ss_family = AF_INET;
	FUZZ_CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds));
	FUZZ_CHECK(rdt_place(s->target, true) == s->reactor);
	h.fd = fds[0];
	FUZZ_CHECK(!rdt_tcp_conn_new(rdt_tcp_of(s->reactor), &h));
	return fds[1];
}

/* Returns how many bytes came, which are dropped if @buf is NULL. */
static size_t take_bytes(struct tcp_stage *s, int fd, uint8_t *buf, size_t room)
{
	uint8_t dropped[4096];
	size_t got = 0;
	ssize_t n;

	for (int i = 0; i < 8; i++) {
		turn_all(s);
		while ((n = buf ? read(fd, buf + got, room - got)
				: read(fd, dropped, sizeof(dropped))) > 0)
			got += (size_t)n;
	}
	return got;
}

static void send_bytes(struct tcp_stage *s, int fd, const uint8_t *p, size_t len, size_t piece)
{
	while (len) {
		ssize_t n = send(fd, p, len < piece ? len : piece, MSG_NOSIGNAL | MSG_DONTWAIT);

		take_bytes(s, fd, NULL, 0);
		if (n < 0)
			return; /* the target has ended the connection, or reads nothing */
		p += n;
		len -= (size_t)n;
	}
}

static void send_command(int fd, const struct nvmf_connect_sqe *sqe, const void *data, uint32_t len,
			 uint8_t dgst)
{
	_Alignas(8) uint8_t buf[NVME_TCP_HEAD_MAX + 1024 + RD_CRC32C_LEN];
	struct nvme_tcp_cmd *pdu = (void *)buf;
	size_t n;

	memcpy(&pdu->sqe, sqe, sizeof(pdu->sqe));
	n = nvme_tcp_seal(pdu, NVME_TCP_CMD, 0, len, 0, dgst & NVME_TCP_HDGST,
			  dgst & NVME_TCP_DDGST);
	if (len) {
		memcpy(buf + n, data, len);
		n += len;
		if (dgst & NVME_TCP_DDGST) {
			rd_crc32c_put(rd_crc32c(RD_CRC32C_SEED, data, len), buf + n);
			n += RD_CRC32C_LEN;
		}
	}
	FUZZ_CHECK(write(fd, buf, n) == (ssize_t)n);
}

/* ICReq and Connect. Returns the result of Connect. */
static uint32_t connect_queue(struct tcp_stage *s, int fd, uint16_t qid, uint16_t cntlid,
			      uint8_t dgst)
{
	struct nvmf_connect_data data = {.hostid = {1}, .cntlid = htole16(cntlid)};
	struct nvmf_connect_sqe sqe = {.opcode = NVMF_OPCODE,
				       .flags = NVME_CMD_PSDT_SGL,
				       .fctype = nvme_fabrics_type_connect,
				       .qid = htole16(qid),
				       .sqsize = htole16(7),
				       .cattr = qid ? NVMF_CATTR_DISABLE_SQFLOW : 0};
	uint8_t answer[256];
	struct nvme_tcp_icreq req;
	struct nvme_tcp_rsp rsp;

	nvme_tcp_build_icreq(&req, dgst);
	FUZZ_CHECK(write(fd, &req, sizeof(req)) == sizeof(req));
	FUZZ_CHECK(take_bytes(s, fd, answer, sizeof(answer)) == sizeof(struct nvme_tcp_icresp));
	strcpy(data.subsysnqn, NQN);
	strcpy(data.hostnqn, "nqn.2024-01.test:host");
	sqe.sgl.data.length = htole32(sizeof(data));
	sqe.sgl.data.type = NVME_SGL_IN_CAPSULE;
	send_command(fd, &sqe, &data, sizeof(data), dgst);
	FUZZ_CHECK(take_bytes(s, fd, answer, sizeof(answer)) >= sizeof(rsp));
	memcpy(&rsp, answer, sizeof(rsp));
	FUZZ_CHECK(rsp.hdr.type == NVME_TCP_RSP && !rsp.cqe.status);
	return le32toh(rsp.cqe.result);
}

static void enable_controller(struct tcp_stage *s)
{
	struct nvmf_property_sqe set = {.opcode = NVMF_OPCODE,
					.flags = NVME_CMD_PSDT_SGL,
					.fctype = nvme_fabrics_type_property_set,
					.offset = htole32(0x14),
					.value = htole64(0x00460001)};
	struct nvmf_connect_sqe sqe;

	memcpy(&sqe, &set, sizeof(sqe));
	sqe.sgl.data.type = NVME_SGL_TCP_DATA;
	send_command(s->owner, &sqe, NULL, 0, 0);
	FUZZ_CHECK(take_bytes(s, s->owner, NULL, 0) == sizeof(struct nvme_tcp_rsp));
}

static struct tcp_stage *new_stage(void)
{
	static struct tcp_stage stage;
	struct tcp_stage *s = &stage;
	struct rd_loop_opts loop = {.seed = 2, .clock = &s->clock};
	struct rdt_config_texts texts = {0};
	struct rdt_config *cfg;

	if (s->target)
		return s;
	s->now = 1000 * RD_NSEC_PER_SEC;
	s->clock = (struct rd_clock){.now = stage_now, .arg = s, .manual = true};
	s->trace = getenv("FUZZ_TRACE");
	fuzz_create_log(&s->trace, &s->log);
	loop.log = s->log;
	FUZZ_CHECK(!rd_loop_create(&loop, &s->loop));
	FUZZ_CHECK(!rdt_config_texts_add(&texts, "fuzz.yaml", config_text, strlen(config_text), 0));
	FUZZ_CHECK(!rdt_config_load_texts("fuzz.yaml", &texts, false, s->log, &cfg));
	rdt_config_texts_free(&texts);
	s->env = (struct rdt_env){.clock = &s->clock, .seed = 1, .run_job = rdt_job_run_now};
	FUZZ_CHECK(!rdt_target_create(cfg, s->log, s->loop, &s->env, NULL, &s->target));
	rdt_config_put(&cfg);
	rdt_opening_begin(s->target);
	FUZZ_CHECK(!rdt_opening_wait(s->target, 0));
	FUZZ_CHECK(!rdt_listeners_start(s->target));
	s->reactor = &s->target->reactors[0];
	FUZZ_CHECK(!rdt_reactor_setup(s->reactor));
	s->owner = open_conn(s);
	s->cntlid = (uint16_t)connect_queue(s, s->owner, 0, NVMF_CNTLID_DYNAMIC, 0);
	enable_controller(s);
	return s;
}

/* ---- the stream ---- */

static void fix_digests(uint8_t *p, size_t len, const struct nvme_tcp_rules *rules)
{
	struct nvme_tcp_parts parts;
	struct nvme_tcp_error error;
	struct nvme_tcp_hdr hdr;

	while (len >= sizeof(hdr)) {
		memcpy(&hdr, p, sizeof(hdr));
		if (!nvme_tcp_check(&hdr, rules, &parts, &error) || le32toh(hdr.plen) > len)
			return;
		if (hdr.flags & NVME_TCP_F_HDGST)
			rd_crc32c_put(rd_crc32c(RD_CRC32C_SEED, p, hdr.hlen), p + hdr.hlen);
		if (parts.ddgst)
			rd_crc32c_put(
				rd_crc32c(RD_CRC32C_SEED, p + parts.head + parts.pad, parts.data),
				p + parts.head + parts.pad + parts.data);
		p += le32toh(hdr.plen);
		len -= le32toh(hdr.plen);
	}
}

/* Only the owner's connection is left, and uses nothing. */
static bool gave_all_back(const struct tcp_stage *s)
{
	const struct rdt_reactor *r = s->reactor;
	const struct rdt_tcp *tcp = rdt_tcp_of(r);

	for (int id = 0; id < RDT_POOLS; id++)
		if (rd_buddy_free_bytes(r->pools[id].buddy) !=
			    rd_buddy_total_bytes(r->pools[id].buddy) ||
		    r->pools[id].waiting)
			return false;
	return r->qpairs_count == 1 && !tcp->areas_used && !tcp->lingers_count &&
	       TAILQ_EMPTY(&tcp->area_wait) && !tcp->pools[0].used && !tcp->pools[1].used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t stream[MAX_STREAM];
	struct tcp_stage *s = new_stage();
	uint8_t flags = size ? data[0] : 0, dgst = 0;
	struct nvme_tcp_rules rules = {
		.from_host = true, .hdgst = flags & FUZZ_HDGST, .ddgst = flags & FUZZ_DDGST};
	size_t len = size ? size - 1 : 0;
	int fd = open_conn(s);

	len = len < MAX_STREAM ? len : MAX_STREAM;
	memcpy(stream, data + (size ? 1 : 0), len);
	dgst = (uint8_t)((rules.hdgst ? NVME_TCP_HDGST : 0) | (rules.ddgst ? NVME_TCP_DDGST : 0));
	if (flags & FUZZ_IO)
		connect_queue(s, fd, 1, s->cntlid, dgst);
	else if (flags & FUZZ_ADMIN)
		connect_queue(s, fd, 0, NVMF_CNTLID_DYNAMIC, dgst);
	if (flags & FUZZ_FIX)
		fix_digests(stream, len, &rules);
	send_bytes(s, fd, stream, len, flags & FUZZ_BYTES ? 7 : MAX_STREAM);
	take_bytes(s, fd, NULL, 0);
	close(fd);
	for (unsigned int i = 0; !gave_all_back(s); i++) {
		FUZZ_CHECK(i < END_TURNS);
		turn_all(s);
	}
	return 0;
}
