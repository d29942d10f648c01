/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host: what the NVMe/TCP hosts of Linux, FreeBSD and VMware ESXi demand beyond what every host
 * needs. A target that fails one of these tests is not found, not connected or disconnected by that
 * host, although the specification may allow what it does.
 */
#include <string.h>

#include "auth.h"
#include "raw.h"
#include "suites.h"
#include "tcp.h"

#define PDUS   "TCP 3.6"
#define NN_MAX 65536u

/* ---- what the tests share ---- */

/* All of the command's data came, and LAST_PDU exactly at its end. */
static void check_whole(struct rdc *t, const struct rdc_raw_reply *rr, uint32_t len,
			const char *what)
{
	RDC_CHECK(t, rr->a.data == len, "%s brought %u of %u bytes; expected all, padded", what,
		  rr->a.data, len);
	RDC_CHECK(t, rr->a.exact, "%s: LAST_PDU is not exactly at the end of the data", what);
}

static struct rdc_raw_reply identify(struct rdc_raw *admin, uint8_t cns, uint32_t nsid,
				     struct rdc_mem **mem)
{
	struct nvme_sqe sqe = {
		.opcode = nvme_admin_identify,
		.flags = NVME_CMD_PSDT_SGL,
		.nsid = htole32(nsid),
		.cdw10 = htole32(cns),
	};

	*mem = rdc_raw_mem(admin, NVME_IDENTIFY_DATA_SIZE, 0);
	rdc_sgl(&sqe, *mem, NVME_IDENTIFY_DATA_SIZE);
	return rdc_raw_cmd(admin, &sqe);
}

static struct rdc_raw_reply get_log_at(struct rdc_raw *admin, uint8_t lid, uint32_t offset,
				       uint32_t len, struct rdc_mem **mem)
{
	uint32_t numd = len / 4 - 1;
	struct nvme_sqe sqe = {
		.opcode = nvme_admin_get_log_page,
		.flags = NVME_CMD_PSDT_SGL,
		.nsid = htole32(NVME_NSID_ALL),
		.cdw10 = htole32(lid | (numd & 0xffff) << 16),
		.cdw11 = htole32(numd >> 16),
		.cdw12 = htole32(offset),
	};

	*mem = rdc_raw_mem(admin, len, 0);
	rdc_sgl(&sqe, *mem, len);
	return rdc_raw_cmd(admin, &sqe);
}

static struct rdc_raw_reply get_log(struct rdc_raw *admin, uint8_t lid, uint32_t len,
				    struct rdc_mem **mem)
{
	return get_log_at(admin, lid, 0, len, mem);
}

/* Reads up to 64 KiB by an I/O queue whose connection is made by @d. */
static struct rdc_raw_reply read_some(struct rdc *t, const struct rdc_dial *d, uint8_t cattr,
				      struct rdc_raw **out, uint32_t *len)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_dial dial = *d;
	struct rdc_raw_reply rr;
	struct rdc_raw *io;
	struct nvme_sqe sqe;
	uint32_t n = 65536 / h->bs;

	if (n > h->info.max_transfer / h->bs)
		n = h->info.max_transfer / h->bs;
	rdc_need_blocks(h, n);
	dial.qid = 1;
	dial.depth = 16;
	io = *out = rdc_raw_io_by(rdc_raw_admin(t, 0), &dial, cattr);
	rdc_raw_rw(&sqe, h, nvme_cmd_read, 0, n, rdc_raw_mem(io, (size_t)n * h->bs, 0));
	rr = rdc_raw_cmd(io, &sqe);
	RDC_OK(t, rr.r, "Read");
	*len = n * h->bs;
	return rr;
}

/* ---- Linux ---- */

static void cpda(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_must_dial(t, &(struct rdc_dial){.hpda = 0});

	RDC_CHECK(t, !raw->tcp->icresp.cpda, "CPDA is %u for a host with HPDA 0; expected 0",
		  raw->tcp->icresp.cpda);
}

/* Linux takes the data from behind the header, whatever PDO says. */
static void no_padding(struct rdc *t)
{
	uint32_t len, head = sizeof(struct nvme_tcp_data);
	struct rdc_raw *io;

	read_some(t, &(struct rdc_dial){.dgst = (uint8_t)t->arg}, 0, &io, &len);
	if (io->tcp->icresp.dgst & NVME_TCP_HDGST)
		head += RD_CRC32C_LEN;
	RDC_CHECK(t, io->tcp->c2h_pdo == head,
		  "PDO %u for a host with HPDA 0; expected %u, right behind the header",
		  io->tcp->c2h_pdo, head);
}

static void read_whole(struct rdc *t)
{
	struct rdc_raw_reply rr;
	struct rdc_raw *io;
	uint32_t len;

	rr = read_some(t, &(struct rdc_dial){.dgst = 0}, (uint8_t)t->arg, &io, &len);
	check_whole(t, &rr, len, "Read");
}

/* The flag has no SQHD, which a host with flow control of submission queues needs. */
static void no_success(struct rdc *t)
{
	struct rdc_raw_reply rr;
	struct rdc_raw *io;
	uint32_t len;

	rr = read_some(t, &(struct rdc_dial){.dgst = 0}, 0, &io, &len);
	RDC_CHECK(t, !rr.a.by_flag,
		  "the flag SUCCESS in place of a response, on a queue with SQ flow control");
}

static void sgls(struct rdc *t)
{
	const struct nvme_id_ctrl *id = &rdc_main(t)->id;

	RDC_CHECK(t, le32toh(id->sgls) & 3, "SGLS 0x%08x: bits 1:0 say that SGLs are not supported",
		  le32toh(id->sgls));
}

/* Linux ends the connection when one of these is not what it expects. */
static void icresp_fields(struct rdc *t)
{
	uint8_t asked;

	for (asked = 0; asked <= (NVME_TCP_HDGST | NVME_TCP_DDGST); asked++) {
		struct rdc_raw *raw = rdc_raw_must_dial(t, &(struct rdc_dial){.dgst = asked});
		const struct nvme_tcp_icresp *ic = &raw->tcp->icresp;

		RDC_CHECK(t, le32toh(ic->hdr.plen) == sizeof(*ic), "PLEN %u; expected 128",
			  le32toh(ic->hdr.plen));
		RDC_CHECK(t, !ic->pfv, "PFV %u; expected 0", le16toh(ic->pfv));
		RDC_CHECK(t, ic->dgst == asked, "DGST 0x%02x; expected 0x%02x, as was asked",
			  ic->dgst, asked);
		RDC_CHECK(t, le32toh(ic->maxh2cdata) >= 4096 && le32toh(ic->maxh2cdata) % 4 == 0,
			  "MAXH2CDATA %u; expected a multiple of 4, at least 4096",
			  le32toh(ic->maxh2cdata));
		rdc_raw_close(raw);
	}
}

/* Linux gives up the controller when one of these is not what it expects. */
static void identify_fields(struct rdc *t)
{
	struct rdc_raw *admin = rdc_raw_admin(t, 0);
	const struct nvme_id_ctrl *id;
	struct rdc_mem *mem;

	RDC_OK(t, identify(admin, NVME_IDENTIFY_CNS_CTRL, 0, &mem).r, "Identify Controller");
	id = mem->p;
	RDC_CHECK(t, le16toh(id->cntlid) == admin->cntlid,
		  "CNTLID %u, but Connect was answered with %u", le16toh(id->cntlid),
		  admin->cntlid);
	RDC_CHECK(t, id->kas, "KAS 0: no keep alive");
	RDC_CHECK(t, le32toh(id->ioccsz) >= 4, "IOCCSZ %u; expected at least 4: the command itself",
		  le32toh(id->ioccsz));
	RDC_CHECK(t, le32toh(id->iorcsz) >= 1,
		  "IORCSZ %u; expected at least 1: the response itself", le32toh(id->iorcsz));
}

const struct rdc_test rdc_t_host_linux[] = {
	{"icresp", PDUS, "the fields of ICResp are those that were asked for", icresp_fields},
	{"identify", "Base 5.17.2.1",
	 "Identify Controller agrees with Connect and with the capsules", identify_fields},
	{"cpda", PDUS, "CPDA is 0 for a host with HPDA 0", cpda},
	{"no_padding", PDUS, "the data of C2HData is right behind the header", no_padding, 0, 0},
	{"no_padding_hdgst", PDUS, "the data of C2HData is right behind the header digest",
	 no_padding, 0, NVME_TCP_HDGST},
	{"read", PDUS, "the C2HData of Read ends with LAST_PDU", read_whole, 0, 0},
	{"read_no_flow", PDUS, "the same without SQ flow control", read_whole, 0,
	 NVMF_CATTR_DISABLE_SQFLOW},
	{"flow", PDUS, "with SQ flow control, a response follows the data", no_success},
	{"sgls", "TCP 3.4", "Identify says that SGLs are supported", sgls},
	{NULL},
};

/* ---- FreeBSD ---- */

static void icresp_bytes(struct rdc *t)
{
	const uint8_t want[8] = {NVME_TCP_ICRESP, 0, 128, 0, 128, 0, 0, 0};
	struct rdc_raw *raw = rdc_raw_must_dial(t, &(struct rdc_dial){.maxr2t = 1});
	const uint8_t *got = (const void *)&raw->tcp->icresp;

	RDC_CHECK(t, memcmp(got, want, sizeof(want)) == 0,
		  "ICResp begins %02x %02x %02x %02x %02x %02x %02x %02x; expected "
		  "01 00 80 00 80 00 00 00",
		  got[0], got[1], got[2], got[3], got[4], got[5], got[6], got[7]);
	RDC_CHECK(t, !raw->tcp->icresp.dgst, "DGST 0x%02x, but none was asked for",
		  raw->tcp->icresp.dgst);
	RDC_CHECK(t, le32toh(raw->tcp->icresp.maxh2cdata) >= 4096,
		  "MAXH2CDATA %u; expected at least 4096", le32toh(raw->tcp->icresp.maxh2cdata));
}

/* FreeBSD connects like this by default. SQHD FFFFh tells it that the target agreed. */
static void connect_no_flow(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_must_dial(t, &(struct rdc_dial){.qid = 0});
	struct rdc_raw_reply rr;
	struct rdc_connect c;

	rdc_connect_init(t, &c, 0, raw);
	c.cattr = NVMF_CATTR_DISABLE_SQFLOW;
	rr = rdc_raw_connect(raw, &c);
	RDC_OK(t, rr.r, "Connect with Disable SQ Flow Control");
	RDC_CHECK(t, !rr.a.by_flag, "Connect was answered by the flag SUCCESS");
	RDC_CHECK(t, le16toh(rr.a.cqe.sqhd) == 0xffff,
		  "SQHD 0x%04x; expected FFFFh: no SQ flow control", le16toh(rr.a.cqe.sqhd));
}

static void identify_whole(struct rdc *t)
{
	struct rdc_raw *admin = rdc_raw_admin(t, 0);
	struct rdc_raw_reply rr;
	struct rdc_mem *mem;

	rr = identify(admin, (uint8_t)t->arg, t->arg == 1 || t->arg == 2 ? 0 : rdc_main(t)->nsid,
		      &mem);
	RDC_OK(t, rr.r, "Identify");
	check_whole(t, &rr, NVME_IDENTIFY_DATA_SIZE, "Identify");
}

/* More than the page has: FreeBSD asks for whole pages, and ends the connection when less comes. */
static void log_whole(struct rdc *t)
{
	struct rdc_mem *mem;
	struct rdc_raw_reply rr = get_log(rdc_raw_admin(t, 0), (uint8_t)t->arg, 8192, &mem);

	if (rr.r.status)
		rdc_not_supported(t, "Get Log Page %02Xh with 8192 bytes: status 0x%04x", t->arg,
				  rr.r.status);
	RDC_OK(t, rr.r, "Get Log Page");
	check_whole(t, &rr, 8192, "Get Log Page");
}

/* FreeBSD reads the header, and then as many records as there are by one command: at most 1,024,
 * and so 1 MiB. It does not look at MDTS. */
static void disc_whole(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_must_dial(t, &(struct rdc_dial){.qid = 0});
	struct nvmf_discovery_log *head;
	struct rdc_raw_reply rr;
	struct rdc_connect c;
	struct rdc_mem *mem;
	uint32_t len;

	rdc_connect_init(t, &c, 0, raw);
	snprintf(c.data.subsysnqn, sizeof(c.data.subsysnqn), "%s", NVMF_DISC_NQN);
	RDC_OK(t, rdc_raw_connect(raw, &c).r, "Connect to the discovery subsystem");
	rdc_raw_authenticate(raw, 0);
	rdc_raw_enable(raw, true);
	RDC_OK(t, get_log(raw, NVME_LOG_LID_DISCOVER, sizeof(*head), &mem).r,
	       "Get Log Page 70h, the header");
	head = mem->p;
	RDC_CHECK(t, !head->recfmt, "RECFMT %u", le16toh(head->recfmt));
	RDC_CHECK(t, le64toh(head->numrec) <= 1024, "%llu records; expected at most 1,024",
		  (unsigned long long)le64toh(head->numrec));
	len = (uint32_t)le64toh(head->numrec) * NVME_DISC_LOG_ENTRY;
	if (!len)
		rdc_not_supported(t, "the discovery log has no record for this host");
	rr = get_log_at(raw, NVME_LOG_LID_DISCOVER, sizeof(*head), len, &mem);
	RDC_OK(t, rr.r, "Get Log Page 70h, all records by one command");
	check_whole(t, &rr, len, "Get Log Page 70h");
}

static void ioccsz(struct rdc *t)
{
	uint32_t n = le32toh(rdc_main(t)->id.ioccsz);

	RDC_CHECK(t, n >= 4, "IOCCSZ %u; expected at least 4: the command itself", n);
}

/* FreeBSD allocates memory for each of NN namespaces. */
static void nn(struct rdc *t)
{
	uint32_t n = le32toh(rdc_main(t)->id.nn);

	RDC_CHECK(t, n >= 1 && n <= NN_MAX, "NN %u; expected 1 to %u", n, NN_MAX);
}

const struct rdc_test rdc_t_host_freebsd[] = {
	{"icresp", PDUS, "ICResp has no bit or byte that was not asked for", icresp_bytes},
	{"connect", PDUS, "Connect without SQ flow control is answered by a response",
	 connect_no_flow},
	{"identify_ctrl", PDUS, "all data of Identify Controller comes, with LAST_PDU at its end",
	 identify_whole, 0, NVME_IDENTIFY_CNS_CTRL},
	{"identify_ns", PDUS, "all data of Identify Namespace comes, with LAST_PDU at its end",
	 identify_whole, 0, NVME_IDENTIFY_CNS_NS},
	{"identify_list", PDUS, "all data of a namespace list comes, with LAST_PDU at its end",
	 identify_whole, 0, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST},
	{"log_error", PDUS, "a short error log is padded", log_whole, 0, NVME_LOG_LID_ERROR},
	{"log_smart", PDUS, "a short SMART log is padded", log_whole, 0, NVME_LOG_LID_SMART},
	{"log_firmware", PDUS, "a short firmware log is padded", log_whole, 0,
	 NVME_LOG_LID_FW_SLOT},
	{"log_changed", PDUS, "a short list of changed namespaces is padded", log_whole, 0,
	 NVME_LOG_LID_CHANGED_NS},
	{"discovery", "Fabrics 5.3", "the discovery log comes by one command", disc_whole},
	{"ioccsz", "TCP 3.4", "IOCCSZ is at least 4", ioccsz},
	{"nn", "Base 5.17.2.1", "NN is small enough to allocate by it", nn},
	{NULL},
};

/* ---- VMware ESXi ---- */

/* A namespace is named by its NGUID or EUI-64: one that has only a UUID does not appear. */
static void identifier(struct rdc *t)
{
	const struct nvme_id_ns *ns = &rdc_main(t)->ns;
	uint8_t bits = 0;
	unsigned int i;

	for (i = 0; i < sizeof(ns->nguid); i++)
		bits |= ns->nguid[i];
	for (i = 0; i < sizeof(ns->eui64); i++)
		bits |= ns->eui64[i];
	RDC_CHECK(t, bits, "the namespace has neither an NGUID nor an EUI-64");
}

static void block_size(struct rdc *t)
{
	if (rdc_main(t)->bs != 512)
		rdc_not_supported(t, "blocks of %u bytes: ESXi takes 512 only", rdc_main(t)->bs);
}

/* VMFS locks by Compare and Write when FUSES has it, else by reservations. */
static void locking(struct rdc *t)
{
	const struct nvme_id_ctrl *id = &rdc_main(t)->id;

	RDC_CHECK(t, le16toh(id->fuses) & 1 || le16toh(id->oncs) & NVME_CTRL_ONCS_RESERVATIONS,
		  "neither Compare and Write (FUSES 0x%04x) nor reservations (ONCS 0x%04x)",
		  le16toh(id->fuses), le16toh(id->oncs));
}

static void events(struct rdc *t)
{
	struct rdc_raw *admin = rdc_raw_admin(t, 0);
	struct nvme_sqe sqe = {
		.opcode = nvme_admin_set_features,
		.cdw10 = htole32(NVME_FEAT_FID_ASYNC_EVENT),
		.cdw11 = htole32(0x100),
	};

	rdc_sgl_none(admin, &sqe);
	RDC_OK(t, rdc_raw_cmd(admin, &sqe).r,
	       "Set Features, Asynchronous Event Configuration 100h");
}

/* ESXi's driver may send the halves of Compare and Write in segments of their own: the target has
 * to wait for the second one, here for as long as an admin command takes. */
static void halves(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_raw *admin, *io;
	struct rdc_mem *blocks, *mem;
	struct rdc_answer answer;
	struct nvme_sqe half;
	unsigned int i;

	if (!(le16toh(h->id.fuses) & NVME_CTRL_FUSES_COMPARE_AND_WRITE))
		rdc_not_supported(t, "FUSES 0x%04x: no Compare and Write", le16toh(h->id.fuses));
	rdc_need_blocks(h, 1);
	admin = rdc_raw_admin(t, 0);
	io = rdc_raw_io(admin, 1, 16);
	blocks = rdc_raw_mem(io, h->bs, 0);
	rdc_raw_rw(&half, h, nvme_cmd_read, 0, 1, blocks);
	RDC_OK(t, rdc_raw_cmd(io, &half).r, "Read");
	rdc_raw_rw(&half, h, nvme_cmd_compare, 0, 1, blocks);
	half.flags |= NVME_CMD_FUSE_FIRST;
	half.cid = htole16(100);
	rdc_raw_send(io, &half, sizeof(half));
	RDC_OK(t, identify(admin, NVME_IDENTIFY_CNS_CTRL, 0, &mem).r,
	       "Identify Controller between the halves");
	rdc_raw_rw(&half, h, nvme_cmd_write, 0, 1, blocks);
	half.flags |= NVME_CMD_FUSE_SECOND;
	half.cid = htole16(101);
	rdc_raw_send(io, &half, sizeof(half));
	for (i = 0; i < 2; i++) {
		RDC_CHECK(t, rdc_raw_answer(io, &answer, t->cfg->timeout_ms) == 1,
			  "%u of 2 responses to Compare and Write", i);
		RDC_CHECK(t, !(le16toh(answer.cqe.status) >> 1),
			  "Compare and Write in two segments: status 0x%04x of command %u",
			  le16toh(answer.cqe.status) >> 1, le16toh(answer.cqe.cid));
	}
}

const struct rdc_test rdc_t_host_esxi[] = {
	{"identifier", "Base 4.5.1", "the namespace has an NGUID or an EUI-64", identifier},
	{"block_size", "NVM 4.1.5", "blocks have 512 bytes", block_size},
	{"locking", "Base 5.17.2.1", "Compare and Write, or reservations, are supported", locking},
	{"halves", "NVM 3.2", "Compare and Write may come in two segments", halves},
	{"events", "Base 5.27.1.8", "namespace events alone can be enabled", events},
	{NULL},
};
