/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a hostile host can do to a whole target, in simulated time, while an honest host uses it:
 * see target/stage.h. Each input gets a target of its own.
 *
 * Input: two bytes of seed, which chooses whose turn it is, then actions. An action is a byte (bits
 * 3:0: enum action; 5:4: connection; 7:6: flags), and its parameters. What is missing at the end is
 * 0.
 */
#include <string.h>

#include "nvmf/wire.h"

#include "fuzz.h"
#include "target/hostile.h"

#define ACTIONS_MAX 96u
#define HOST_NQN    "nqn.2024-01.test:hostile"
#define QUEUE       32u
#define ANSWER_NS   (200 * RD_NSEC_PER_MSEC) /* the time that is waited for an answer */
#define WAIT_STEPS  600u

enum action {
	CONNECT,    /* how, or (how & 80h) number and bytes of private data */
	COMMAND,    /* template, changes (enum change), as many pairs of offset and value */
	BYTES,      /* number, bytes of the message */
	DISCONNECT, /* flag 0: politely */
	TIME,       /* ms, or (80h) half seconds */
	STEPS,      /* number of steps */
	REGION,     /* access, length in units of 128 bytes; flag 0: which */
	HOLD,       /* tenths of a second; flag 0: both directions */
	RDMA,       /* key, address, length; flag 0: READ */
	RECVS,      /* flag 0: posted again from now on */
	RELOAD,     /* configuration */
	HONEST,     /* command of the honest host; flag 0: a write */
	MEMORY,     /* offset in units of 8 bytes, number, bytes; flag 0: which region */
	BRING_UP,   /* an admin queue and an I/O queue, as hosts do; flag 0: to another subsystem */
	AGAIN,      /* how often, then as COMMAND */
	HEAL,       /* what is held arrives */
	ACTIONS,
};

#define FLAG0 1u
#define FLAG1 2u

/* Of a command: bits 2:0 are the number of changed bytes. */
enum change {
	SHORTER = 0x08, /* by so many bytes */
	LONGER = 0x10,  /* data in the capsule follows, though it names a region */
	INVALIDATE = 0x20,
	OTHER_REGION = 0x40,
	IN_CAPSULE = 0x80,
};

/* What is in the data of a command. */
enum payload { NONE, SOME, CONNECT_DATA, RANGES, COPY_RANGES, KEYS, HOST_IDS };

struct command {
	uint8_t opcode, fctype, flags, nsid;
	uint32_t cdw10, cdw11, cdw12, cdw13;
	uint16_t len;
	enum payload payload;
};

#define FABRICS(type, ...)                                           \
	{                                                            \
		.opcode = NVMF_OPCODE, .fctype = (type), __VA_ARGS__ \
	}
#define PROPERTY(type, off, size, value) \
	FABRICS(type, .cdw10 = (size), .cdw11 = (off), .cdw12 = (value))
#define CC_ENABLE  0x00460001u
#define CC_DISABLE 0x00460000u
#define CC_STOP    0x00464001u

enum { T_CONNECT_ADMIN, T_ENABLE, T_CONNECT_IO };

static const struct command commands[] = {
	[T_CONNECT_ADMIN] = FABRICS(1, .len = 1024, .payload = CONNECT_DATA),
	[T_ENABLE] = PROPERTY(0, 0x14, 0, CC_ENABLE),
	[T_CONNECT_IO] = FABRICS(1, .cdw10 = 1u << 16, .len = 1024, .payload = CONNECT_DATA),
	PROPERTY(0, 0x14, 0, CC_DISABLE),
	PROPERTY(0, 0x14, 0, CC_STOP),
	PROPERTY(0, 0x20, 0, 0x4e564d65),
	PROPERTY(4, 0x00, 1, 0),
	PROPERTY(4, 0x1c, 0, 0),
	FABRICS(8, .cdw10 = 0),
	FABRICS(5, .cdw10 = 0xe90101, .cdw11 = 64, .len = 64, .payload = SOME),
	FABRICS(6, .cdw10 = 0xe90101, .cdw11 = 64, .len = 64),
	/* admin */
	{.opcode = nvme_admin_identify, .nsid = 1, .cdw10 = 0, .len = 4096},
	{.opcode = nvme_admin_identify, .cdw10 = 1, .len = 4096},
	{.opcode = nvme_admin_identify, .cdw10 = 2, .len = 4096},
	{.opcode = nvme_admin_identify, .nsid = 1, .cdw10 = 3, .len = 4096},
	{.opcode = nvme_admin_identify, .nsid = 1, .cdw10 = 6, .len = 4096},
	{.opcode = nvme_admin_identify, .nsid = 1, .cdw10 = 0x12, .len = 4096},
	{.opcode = nvme_admin_get_log_page, .cdw10 = 0x03ff0001, .len = 4096},
	{.opcode = nvme_admin_get_log_page, .cdw10 = 0x007f0002, .nsid = 0xff, .len = 512},
	{.opcode = nvme_admin_get_log_page, .cdw10 = 0x03ff0004, .len = 4096},
	{.opcode = nvme_admin_get_log_page, .cdw10 = 0x03ff0005, .len = 4096},
	{.opcode = nvme_admin_get_log_page, .cdw10 = 0x03ff000c, .len = 4096},
	{.opcode = nvme_admin_get_log_page, .cdw10 = 0x03ff0070, .len = 4096},
	{.opcode = nvme_admin_get_log_page, .cdw10 = 0x000f0080, .len = 64},
	{.opcode = nvme_admin_set_features, .cdw10 = 0x07, .cdw11 = 0x00030003},
	{.opcode = nvme_admin_set_features, .cdw10 = 0x0b, .cdw11 = 0x3fff},
	{.opcode = nvme_admin_set_features, .cdw10 = 0x0f, .cdw11 = 1000},
	{.opcode = nvme_admin_set_features, .cdw10 = 0x16, .len = 512, .payload = HOST_IDS},
	{.opcode = nvme_admin_set_features, .cdw10 = 0x84, .nsid = 1, .cdw11 = 1},
	{.opcode = nvme_admin_get_features, .cdw10 = 0x81, .cdw11 = 1, .len = 16},
	{.opcode = nvme_admin_get_features, .cdw10 = 0x0b},
	{.opcode = nvme_admin_async_event},
	{.opcode = nvme_admin_keep_alive},
	{.opcode = nvme_admin_abort_cmd, .cdw10 = 1},
	{.opcode = nvme_admin_get_lba_status,
	 .nsid = 1,
	 .cdw12 = 63,
	 .cdw13 = 0x02000080,
	 .len = 256},
	/* I/O */
	{.opcode = nvme_cmd_read, .nsid = 1, .cdw12 = 7, .len = 4096},
	{.opcode = nvme_cmd_read, .nsid = 2, .cdw10 = 8, .cdw12 = 31, .len = 16384},
	{.opcode = nvme_cmd_write, .nsid = 1, .cdw12 = 7, .len = 4096, .payload = SOME},
	{.opcode = nvme_cmd_write,
	 .nsid = 2,
	 .cdw10 = 4,
	 .cdw12 = 31,
	 .len = 16384,
	 .payload = SOME},
	{.opcode = nvme_cmd_write, .nsid = 1, .cdw10 = 2, .cdw12 = 1, .len = 1024, .payload = SOME},
	{.opcode = nvme_cmd_write, .nsid = 2, .cdw12 = 0x40000000, .len = 512, .payload = SOME},
	{.opcode = nvme_cmd_flush, .nsid = 2},
	{.opcode = nvme_cmd_compare, .nsid = 1, .cdw12 = 1, .len = 1024, .payload = SOME},
	{.opcode = nvme_cmd_compare, .nsid = 2, .flags = 1, .cdw12 = 0, .len = 512},
	{.opcode = nvme_cmd_write, .nsid = 2, .flags = 2, .cdw12 = 0, .len = 512, .payload = SOME},
	{.opcode = nvme_cmd_write_zeroes, .nsid = 1, .cdw12 = 0x02000007},
	{.opcode = nvme_cmd_write_uncor, .nsid = 1, .cdw10 = 3, .cdw12 = 2},
	{.opcode = nvme_cmd_dsm, .nsid = 1, .cdw10 = 1, .cdw11 = 4, .len = 32, .payload = RANGES},
	{.opcode = nvme_cmd_verify, .nsid = 2, .cdw12 = 31},
	{.opcode = nvme_cmd_copy,
	 .nsid = 1,
	 .cdw10 = 64,
	 .cdw12 = 1,
	 .len = 64,
	 .payload = COPY_RANGES},
	{.opcode = nvme_cmd_copy,
	 .nsid = 2,
	 .cdw10 = 32,
	 .cdw12 = 1,
	 .len = 64,
	 .payload = COPY_RANGES},
	{.opcode = nvme_cmd_resv_register, .nsid = 1, .len = 16, .payload = KEYS},
	{.opcode = nvme_cmd_resv_acquire, .nsid = 1, .cdw10 = 0x100, .len = 16, .payload = KEYS},
	{.opcode = nvme_cmd_resv_acquire, .nsid = 1, .cdw10 = 0x101, .len = 16, .payload = KEYS},
	{.opcode = nvme_cmd_resv_release, .nsid = 1, .cdw10 = 0x100, .len = 8, .payload = KEYS},
	{.opcode = nvme_cmd_resv_report, .nsid = 1, .cdw10 = 0x3ff, .cdw11 = 1, .len = 4096},
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

struct input {
	const uint8_t *at, *end;
};

struct play {
	struct stage stage;
	struct hostile *host;
	struct input in;
	uint16_t cid;
	uint16_t cntlid; /* the last one that was seen */
	unsigned int subsys;
};

/* ---- input ---- */

static uint8_t next_byte(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static uint64_t next_number(struct input *in, unsigned int bytes)
{
	uint64_t value = 0;

	while (bytes--)
		value = value << 8 | next_byte(in);
	return value;
}

static size_t next_bytes(struct input *in, uint8_t *to, size_t len)
{
	size_t left = (size_t)(in->end - in->at);

	len = len < left ? len : left;
	memcpy(to, in->at, len);
	in->at += len;
	return len;
}

/* ---- commands ---- */

static void put_connect_data(struct play *p, uint8_t *data)
{
	static const char *const nqns[] = {STAGE_OPEN, STAGE_HONEST, NVMF_DISC_NQN};
	struct nvmf_connect_data *d = (struct nvmf_connect_data *)data;

	memset(d, 0, sizeof(*d));
	memset(d->hostid, 0x11, sizeof(d->hostid));
	d->cntlid = htole16(p->cntlid);
	strcpy(d->subsysnqn, nqns[p->subsys % 3]);
	strcpy(d->hostnqn, HOST_NQN);
}

static void put_ranges(uint8_t *data, size_t size)
{
	for (unsigned int i = 0; i < 2; i++) {
		uint8_t *d = data + i * size;

		/* Dataset Management: attributes, length, first block. Copy: 8 bytes, first block,
		 * length (0's based). */
		d[4] = size == 16 ? 4 : 0;
		d[8] = (uint8_t)(i * 8);
		if (size == 32)
			d[16] = 3;
	}
}

static void put_payload(struct play *p, enum payload payload, uint8_t *data)
{
	memset(data, payload == SOME ? 0x5a : 0, 1024);
	switch (payload) {
	case CONNECT_DATA:
		put_connect_data(p, data);
		break;
	case RANGES:
		put_ranges(data, 16);
		break;
	case COPY_RANGES:
		put_ranges(data, 32);
		break;
	case KEYS: /* the same key twice: as the current one and the new one */
		data[0] = data[8] = 7;
		break;
	case HOST_IDS: /* Host Behavior Support: ACRE, LBAFEE */
		data[0] = data[2] = 1;
		break;
	case NONE:
	case SOME:
		break;
	}
}

static void put_sqe(struct play *p, const struct command *c, unsigned int how, uint8_t *capsule)
{
	struct nvme_sqe sqe = {
		.opcode = c->opcode,
		.flags = (uint8_t)(NVME_CMD_PSDT_SGL | c->flags),
		.cid = htole16(++p->cid),
		.nsid = c->opcode == NVMF_OPCODE ? 0 : htole32(c->nsid),
		.cdw10 = htole32(c->cdw10),
		.cdw11 = htole32(c->cdw11),
		.cdw12 = htole32(c->cdw12),
		.cdw13 = htole32(c->cdw13),
	};
	uint64_t addr;
	uint32_t key;

	hostile_region(p->host, how & OTHER_REGION ? 1 : 0, &addr, &key);
	if (c->opcode == NVMF_OPCODE)
		sqe.fctype = c->fctype;
	if (c->payload == CONNECT_DATA) {
		sqe.cdw11 = htole32(c->cdw10 ? QUEUE - 1 : 31);
		sqe.cdw12 = htole32(c->cdw10 ? 0 : 5000);
	}
	if (c->opcode == nvme_admin_abort_cmd && c->cdw10)
		sqe.cdw10 = htole32(c->cdw10 | (uint32_t)(p->cid - 1) << 16);
	if (how & IN_CAPSULE && c->len && c->len <= 1024) {
		sqe.sgl.data.length = htole32(c->len);
		sqe.sgl.data.type = NVME_SGL_IN_CAPSULE;
	} else {
		nvme_sgl_set_keyed(&sqe.sgl, addr, c->len, key,
				   how & INVALIDATE ? NVME_SGL_KEYED_INVALIDATE
						    : NVME_SGL_KEYED_ADDRESS);
	}
	memcpy(capsule, &sqe, sizeof(sqe));
}

/* @at: the command in the table; the changes come from the input. */
static void send_command(struct play *p, unsigned int conn, unsigned int at, unsigned int how)
{
	const struct command *c = &commands[at % COMMANDS];
	uint8_t capsule[HOSTILE_SEND] = {0};
	uint8_t *data = capsule + NVME_SQE_SIZE;
	bool in = how & IN_CAPSULE && c->len && c->len <= 1024;
	size_t len = NVME_SQE_SIZE + (in || how & LONGER ? (c->len < 1024 ? c->len : 1024) : 0);

	put_sqe(p, c, how, capsule);
	if (c->payload != NONE)
		put_payload(p, c->payload, data);
	for (unsigned int i = how & 7; i; i--) {
		size_t off = next_byte(&p->in);

		/* Of the data, every eighth byte. */
		off = off < NVME_SQE_SIZE ? off : NVME_SQE_SIZE + (off - NVME_SQE_SIZE) * 8;
		if (off < HOSTILE_SEND)
			capsule[off] = next_byte(&p->in);
	}
	if (how & SHORTER)
		len -= next_byte(&p->in) % len;
	if (!in && c->payload != NONE)
		hostile_write_region(p->host, how & OTHER_REGION ? 1 : 0, 0, data,
				     c->len < 1024 ? c->len : 1024);
	hostile_send(p->host, conn, capsule, len, how & INVALIDATE);
}

/* ---- waiting, for a bounded time ---- */

static void wait_connected(struct play *p, unsigned int conn)
{
	uint64_t until = rd_sim_now(p->stage.sim) + ANSWER_NS;

	for (unsigned int i = 0; i < WAIT_STEPS && hostile_connecting(p->host, conn); i++)
		if (!stage_step(&p->stage, until))
			return;
}

static void wait_answer(struct play *p, unsigned int conn, unsigned int answers)
{
	uint64_t until = rd_sim_now(p->stage.sim) + ANSWER_NS;

	for (unsigned int i = 0; i < WAIT_STEPS && hostile_answers(p->host, conn) == answers; i++)
		if (!stage_step(&p->stage, until))
			return;
}

static void do_command(struct play *p, unsigned int conn, unsigned int at, unsigned int how,
		       bool wait)
{
	unsigned int answers = hostile_answers(p->host, conn);

	send_command(p, conn, at, how);
	if (wait)
		wait_answer(p, conn, answers);
	if (hostile_cntlid(p->host, conn) && at % COMMANDS == T_CONNECT_ADMIN)
		p->cntlid = hostile_cntlid(p->host, conn);
}

/* ---- actions ---- */

static void do_connect(struct play *p, unsigned int conn, uint16_t qid, uint16_t port, bool recvs)
{
	struct hostile_connect how = {.port = port, .no_recvs = !recvs, .private_len = 32};
	struct nvmf_rdma_cm_req req = {
		.qid = htole16(qid), .hrqsize = htole16(QUEUE), .hsqsize = htole16(QUEUE - 1)};

	memcpy(how.private_data, &req, sizeof(req));
	hostile_connect(p->host, conn, &how);
}

static void act_connect(struct play *p, unsigned int conn, unsigned int flags)
{
	unsigned int how = next_byte(&p->in);
	uint16_t port = (uint16_t)(STAGE_PORT + (flags & FLAG1 ? 1 : 0));

	if (how & 0x80) {
		struct hostile_connect raw = {.port = port, .no_recvs = how & 1};

		raw.private_len = next_byte(&p->in) % HOSTILE_PRIVATE;
		next_bytes(&p->in, raw.private_data, raw.private_len);
		hostile_connect(p->host, conn, &raw);
	} else {
		do_connect(p, conn, how & 7, port, !(how & 0x40));
	}
	if (!(flags & FLAG0))
		wait_connected(p, conn);
}

/* An admin queue on @conn and an I/O queue on the next one. */
static void act_bring_up(struct play *p, unsigned int conn, unsigned int flags)
{
	unsigned int io = (conn + 1) % HOSTILE_CONNS;
	unsigned int how = flags & FLAG1 ? IN_CAPSULE : 0;

	p->subsys = flags & FLAG0 ? next_byte(&p->in) : 0;
	p->cntlid = NVMF_CNTLID_DYNAMIC;
	do_connect(p, conn, 0, STAGE_PORT, true);
	wait_connected(p, conn);
	do_command(p, conn, T_CONNECT_ADMIN, how, true);
	do_command(p, conn, T_ENABLE, 0, true);
	if (flags & FLAG0)
		return;
	do_connect(p, io, 1, STAGE_PORT, true);
	wait_connected(p, io);
	do_command(p, io, T_CONNECT_IO, how, true);
}

static void act_bytes(struct play *p, unsigned int conn, unsigned int flags)
{
	uint8_t data[256];
	size_t len = next_bytes(&p->in, data, next_byte(&p->in));

	hostile_send(p->host, conn, data, len, flags & FLAG0);
}

static void act_memory(struct play *p, unsigned int flags)
{
	uint8_t data[256];
	size_t off = (size_t)next_byte(&p->in) * 8;
	size_t len = next_bytes(&p->in, data, next_byte(&p->in));

	hostile_write_region(p->host, flags & FLAG0, off, data, len);
}

static void act_region(struct play *p, unsigned int flags)
{
	int access = next_byte(&p->in);

	access &= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	hostile_set_region(p->host, flags & FLAG0, (uint32_t)next_byte(&p->in) * 128, access);
}

static void act_rdma(struct play *p, unsigned int conn, unsigned int flags)
{
	uint32_t key = (uint32_t)next_number(&p->in, 4);
	uint64_t addr = next_number(&p->in, 6);

	hostile_rdma(p->host, conn, flags & FLAG0, key, addr, (uint32_t)next_number(&p->in, 2));
}

static void act_time(struct play *p)
{
	unsigned int n = next_byte(&p->in);

	stage_pass(&p->stage, n & 0x80 ? (n & 0x7f) * (RD_NSEC_PER_SEC / 2) : n * RD_NSEC_PER_MSEC,
		   4000);
}

static void act_command(struct play *p, unsigned int conn, unsigned int flags, unsigned int times)
{
	unsigned int at = next_byte(&p->in), how = next_byte(&p->in);

	for (; times; times--)
		do_command(p, conn, at, how, flags & FLAG0);
}

static void act(struct play *p, uint8_t action)
{
	unsigned int conn = action >> 4 & 3, flags = action >> 6;
	struct stage *s = &p->stage;

	switch ((enum action)(action & 0xf)) {
	case CONNECT:
		act_connect(p, conn, flags);
		break;
	case COMMAND:
		act_command(p, conn, flags, 1);
		break;
	case AGAIN:
		act_command(p, conn, flags, next_byte(&p->in) % QUEUE);
		break;
	case BYTES:
		act_bytes(p, conn, flags);
		break;
	case DISCONNECT:
		hostile_disconnect(p->host, conn, flags & FLAG0);
		break;
	case TIME:
		act_time(p);
		break;
	case STEPS:
		stage_pass(s, RD_NSEC_PER_SEC, next_byte(&p->in));
		break;
	case REGION:
		act_region(p, flags);
		break;
	case HOLD:
		hostile_hold(p->host, conn, flags & FLAG0,
			     next_byte(&p->in) * (RD_NSEC_PER_SEC / 10));
		break;
	case RDMA:
		act_rdma(p, conn, flags);
		break;
	case RECVS:
		hostile_set_recvs(p->host, conn, flags & FLAG0);
		break;
	case RELOAD:
		stage_reload(s, next_byte(&p->in) % STAGE_CONFIGS);
		break;
	case HONEST:
		honest_acts(s->honest, conn, flags & FLAG0);
		break;
	case MEMORY:
		act_memory(p, flags);
		break;
	case BRING_UP:
		act_bring_up(p, conn, flags);
		break;
	case HEAL:
	case ACTIONS:
		rd_sim_heal(s->sim);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct play p;

	p.stage.trace = getenv("FUZZ_TRACE");
	p.in = (struct input){.at = data, .end = data + size};
	stage_open(&p.stage, 1 + next_number(&p.in, 2));
	p.host = p.stage.hostile;
	p.cid = 0;
	p.subsys = 0;
	p.cntlid = NVMF_CNTLID_DYNAMIC;
	for (unsigned int i = 0; i < ACTIONS_MAX && p.in.at < p.in.end; i++)
		act(&p, next_byte(&p.in));
	stage_close(&p.stage);
	return 0;
}
