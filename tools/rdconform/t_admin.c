/* SPDX-License-Identifier: BSD-3-Clause */
/* admin.opcode, admin.event, admin.abort, admin.keepalive. */
#include <string.h>

#include "suites.h"

/* ---- opcodes ---- */

/* Opcode in bits 7:0 of the argument; above it 1 plus the OACS bit that makes it optional, or 0. */
static void opcode(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	unsigned int bit = t->arg >> 8;

	if (bit && (le16toh(h->id.oacs) & 1u << (bit - 1)))
		rdc_not_supported(t, "OACS 0x%04x: the command is supported", le16toh(h->id.oacs));
	RDC_STATUS(t, rdc_admin(h, .opcode = (uint8_t)t->arg), "an opcode that is not supported",
		   NVME_SC_INVALID_OPCODE);
}

static void vendor(struct rdc *t)
{
	RDC_STATUS(t, rdc_admin(rdc_main(t), .opcode = 0xfe), "opcode FEh, vendor specific",
		   NVME_SC_INVALID_OPCODE);
}

#define OACS(op, bit) ((op) | ((bit) + 1) << 8)

const struct rdc_test rdc_t_opcode[] = {
	{"delete_sq", "Base 3.1.2.1.1", "Delete I/O SQ, not defined for fabrics, is Invalid Opcode",
	 opcode, 0, 0x00},
	{"create_sq", "Base 3.1.2.1.1", "Create I/O SQ, not defined for fabrics, is Invalid Opcode",
	 opcode, 0, 0x01},
	{"delete_cq", "Base 3.1.2.1.1", "Delete I/O CQ, not defined for fabrics, is Invalid Opcode",
	 opcode, 0, 0x04},
	{"create_cq", "Base 3.1.2.1.1", "Create I/O CQ, not defined for fabrics, is Invalid Opcode",
	 opcode, 0, 0x05},
	{"ns_management", "Base 5.17.2.1",
	 "Namespace Management (0Dh) is Invalid Opcode unless OACS bit 3 is set", opcode, 0,
	 OACS(0x0d, 3)},
	{"ns_attachment", "Base 5.17.2.1",
	 "Namespace Attachment (15h) is Invalid Opcode unless OACS bit 3 is set", opcode, 0,
	 OACS(0x15, 3)},
	{"firmware_commit", "Base 5.17.2.1",
	 "Firmware Commit (10h) is Invalid Opcode unless OACS bit 2 is set", opcode, 0,
	 OACS(0x10, 2)},
	{"self_test", "Base 5.17.2.1",
	 "Device Self-test (14h) is Invalid Opcode unless OACS bit 4 is set", opcode, 0,
	 OACS(0x14, 4)},
	{"directives", "Base 5.17.2.1",
	 "Directive Send (19h) is Invalid Opcode unless OACS bit 5 is set", opcode, 0,
	 OACS(0x19, 5)},
	{"virtualization", "Base 5.17.2.1",
	 "Virtualization Management (1Ch) is Invalid Opcode unless OACS bit 7 is set", opcode, 0,
	 OACS(0x1c, 7)},
	{"format", "Base 5.17.2.1", "Format NVM (80h) is Invalid Opcode unless OACS bit 1 is set",
	 opcode, RDC_LOSS, OACS(0x80, 1)},
	{"security", "Base 5.17.2.1",
	 "Security Receive (82h) is Invalid Opcode unless OACS bit 0 is set", opcode, 0,
	 OACS(0x82, 0)},
	{"reserved_3f", "Base 5", "opcode 3Fh, reserved, is Invalid Opcode", opcode, 0, 0x3f},
	{"vendor_fe", "Base 5", "an unknown vendor's opcode is Invalid Opcode", vendor},
	{NULL},
};

/* ---- events ---- */

static void event_limit(struct rdc *t)
{
	struct rdc_host *h = rdc_host_open(t, 0, &(struct rdc_host_opts){.no_io = true});
	unsigned int i, n = h->id.aerl + 1u;
	struct rdc_async *a[21];

	if (n > 20)
		rdc_not_supported(t, "AERL %u: more than fit this program's admin queue", n - 1);
	for (i = 0; i <= n; i++)
		a[i] = rdc_event_start(h);
	RDC_STATUS(t, rdc_wait(h, a[n]), "one event request more than AERL allows",
		   RDC_CS(NVME_SC_ASYNC_LIMIT));
	for (i = 0; i < n; i++)
		RDC_CHECK(t, !a[i]->done, "event request %u of %u was answered with 0x%03x", i + 1,
			  n, RDC_CODE(a[i]->r));
	rdc_host_close(h, false); /* their callbacks use memory of this test */
}

static void event_outstanding(struct rdc *t)
{
	struct rdc_host *h = rdc_host_open(t, 0, &(struct rdc_host_opts){.no_io = true});
	struct rdc_async *a = rdc_event_start(h);

	RDC_OK(t, rdc_identify(h, NVME_IDENTIFY_CNS_CTRL, 0, 0, rdc_buf(t, 4096)),
	       "Identify after an event request");
	RDC_CHECK(t, !rdc_wait_ms(h, a, 300),
		  "an event without a cause: result 0x%llx, status 0x%03x",
		  (unsigned long long)a->r.result, RDC_CODE(a->r));
	rdc_host_close(h, false);
}

/* A controller shutdown or reset ends event requests without a completion. */
static void event_shutdown(struct rdc *t)
{
	struct rdc_host *h = rdc_host_open(t, 0, &(struct rdc_host_opts){.no_io = true});
	struct rdc_async *a = rdc_event_start(h);

	rdc_wait_ms(h, a, 50);
	RDC_CHECK(t, rdinit_ctrl_disconnect(h->ctrl) == 0,
		  "shutdown with an event request outstanding: %s", rdinit_get_error());
	rdc_host_close(h, true);
}

static void protect_event(struct rdc *t)
{
	struct rdc_host *h = rdc_host_open(t, 1, &(struct rdc_host_opts){.no_io = true});
	struct rdc_host *other = rdc_main(t);
	struct rdc_async *a;
	__le32 *list = rdc_buf(t, 4096);

	if (!(h->id.nwpc & 1))
		rdc_not_supported(t, "NWPC 0x%02x: no write protection", h->id.nwpc);
	if (!(le32toh(h->id.oaes) & NVME_CTRL_OAES_NA))
		rdc_not_supported(t, "OAES 0x%08x: no namespace attribute events",
				  le32toh(h->id.oaes));
	RDC_OK(t, rdc_set_feature(h, NVME_FEAT_FID_ASYNC_EVENT, 0, NVME_CTRL_OAES_NA, NULL, 0),
	       "Asynchronous Event Configuration");
	a = rdc_event_start(h);
	RDC_OK(t, rdc_set_feature(other, NVME_FEAT_FID_WRITE_PROTECT, other->nsid, 1, NULL, 0),
	       "Namespace Write Protection");
	rdc_wait_ms(h, a, t->cfg->timeout_ms);
	RDC_OK(t, rdc_set_feature(other, NVME_FEAT_FID_WRITE_PROTECT, other->nsid, 0, NULL, 0),
	       "Namespace Write Protection, off");
	RDC_CHECK(t, a->done, "no event after a change of write protection");
	RDC_OK(t, a->r, "the event request");
	RDC_CHECK(t, (a->r.result & 0xffffff) == 0x040002,
		  "event 0x%06llx, expected 0x040002: namespace attribute changed, page 04h",
		  (unsigned long long)a->r.result & 0xffffff);
	RDC_OK(t, rdc_get_log(h, NVME_LOG_LID_CHANGED_NS, NVME_NSID_ALL, 0, list, 4096),
	       "Get Log Page 04h");
	RDC_CHECK(t, le32toh(list[0]) == other->nsid, "page 04h lists namespace %u",
		  le32toh(list[0]));
	RDC_OK(t, rdc_get_log(h, NVME_LOG_LID_CHANGED_NS, NVME_NSID_ALL, 0, list, 4096),
	       "Get Log Page 04h, again");
	RDC_CHECK(t, le32toh(list[0]) == 0, "page 04h still lists namespace %u after it was read",
		  le32toh(list[0]));
}

const struct rdc_test rdc_t_event[] = {
	{"limit", "Base 5.2",
	 "AERL + 1 event requests stay outstanding, one more is Event Request Limit Exceeded",
	 event_limit},
	{"outstanding", "Base 5.2",
	 "an event request stays outstanding while other commands complete", event_outstanding},
	{"shutdown", "Base 3.6.2", "a shutdown completes with an event request outstanding",
	 event_shutdown},
	{"protect", "Base 5.16.1.5",
	 "a changed namespace attribute is reported once, with log page 04h", protect_event,
	 RDC_LOSS},
	{NULL},
};

/* ---- abort ---- */

static struct rdc_reply abort_cmd(struct rdc_host *h, uint16_t sqid, uint16_t cid)
{
	return rdc_admin(h, .opcode = nvme_admin_abort_cmd, .cdw10 = (uint32_t)cid << 16 | sqid);
}

static void abort_none(struct rdc *t)
{
	struct rdc_reply r = abort_cmd(rdc_main(t), 0, 0xfffe);

	RDC_OK(t, r, "Abort of a command that does not exist");
	RDC_CHECK(t, r.result & 1, "dword 0 says that a command that does not exist was aborted");
}

static void abort_sqid(struct rdc *t)
{
	struct rdc_reply r = abort_cmd(rdc_main(t), 60000, 1);

	RDC_STATUS(t, r, "Abort on a queue that does not exist", 0, NVME_SC_INVALID_FIELD);
	RDC_CHECK(t, r.err || (r.result & 1),
		  "dword 0 says that a command on queue 60000 was aborted");
}

static void abort_event(struct rdc *t)
{
	struct rdc_host *h = rdc_host_open(t, 0, &(struct rdc_host_opts){.no_io = true});
	struct rdc_async *a = rdc_event_start(h);
	struct rdc_reply r;

	rdc_wait_ms(h, a, 50);
	r = abort_cmd(h, 0, a->cid);
	RDC_OK(t, r, "Abort of an event request");
	if (r.result & 1) {
		RDC_CHECK(t, !rdc_wait_ms(h, a, 200),
			  "Abort answered \"not aborted\", but the event request has ended");
		rdc_host_close(h, false);
		rdc_not_supported(
			t, "Abort answers \"not aborted\", which the specification always allows");
	}
	RDC_STATUS(t, rdc_wait(h, a), "the aborted event request", NVME_SC_ABORT_REQ);
	rdc_host_close(h, false);
}

static void abort_done(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	const struct rdc_cmd id = {
		.opcode = nvme_admin_identify, .cdw10 = 1, .data = rdc_buf(t, 4096), .len = 4096};
	struct rdc_async *a = rdc_buf(t, sizeof(*a));
	struct rdc_reply r;

	rdc_admin_start(h, &id, a);
	RDC_OK(t, rdc_wait(h, a), "Identify");
	r = abort_cmd(h, 0, a->cid);
	RDC_OK(t, r, "Abort of a command that is complete");
	RDC_CHECK(t, r.result & 1, "dword 0 says that a complete command was aborted");
}

/* Sends Aborts during reads: each read and each Abort completes exactly once, with any status. */
static void abort_io(struct rdc *t)
{
	enum { N = 32 };
	struct rdc_host *h = rdc_main(t);
	struct rdc_async *a = rdc_buf(t, N * sizeof(*a));
	unsigned int i, n = rdc_max_blocks(h);
	struct rdc_reply r;

	if (n > 64)
		n = 64;
	rdc_need_blocks(h, n);
	for (i = 0; i < N; i++) {
		struct rdc_cmd c = rdc_rw(h, nvme_cmd_read, 0, n, rdc_buf(t, n * h->bs));

		rdc_io_start(h, &c, &a[i]);
	}
	rdinit_qpair_process(h->qp, 0);
	for (i = 0; i < 4; i++) {
		r = abort_cmd(h, rdinit_qpair_id(h->qp), a[N - 1 - i].cid);
		RDC_STATUS(t, r, "Abort", 0, RDC_CS(NVME_SC_ABORT_LIMIT));
		if (!r.err && !(r.result & 1)) {
			RDC_STATUS(t, rdc_wait(h, &a[N - 1 - i]), "an aborted Read",
				   NVME_SC_ABORT_REQ, 0);
		}
	}
	for (i = 0; i < N; i++) {
		RDC_STATUS(t, rdc_wait(h, &a[i]), "Read", 0, NVME_SC_ABORT_REQ);
	}
}

const struct rdc_test rdc_t_abort[] = {
	{"none", "Base 5.1", "Abort of a command that does not exist is \"not aborted\"",
	 abort_none},
	{"sqid", "Base 5.1", "Abort on a queue that does not exist aborts nothing", abort_sqid},
	{"event", "Base 5.1", "Abort of an event request ends it, or is \"not aborted\"",
	 abort_event},
	{"done", "Base 5.1", "Abort of a completed command is \"not aborted\"", abort_done},
	{"io", "Base 5.1", "reads and their Aborts are each answered once", abort_io},
	{NULL},
};

/* ---- keep-alive ---- */

static void ka_command(struct rdc *t)
{
	RDC_OK(t, rdc_admin(rdc_main(t), .opcode = nvme_admin_keep_alive), "Keep Alive");
}

/* The timeout as the controller rounds it, with time for traffic-based detection and a slow
 * machine. */
static unsigned int patience(struct rdc *t, unsigned int kato)
{
	unsigned int kas = le16toh(rdc_main(t)->id.kas) * 100u;

	if (kas)
		kato = (kato + kas - 1) / kas * kas;
	return 3 * kato + 5000;
}

static void ka_expiry(struct rdc *t)
{
	unsigned int ms = patience(t, 1000);
	struct rdc_raw *raw;

	if (ms > 70000)
		rdc_not_supported(t, "KAS %u: the timer is too coarse to wait for",
				  le16toh(rdc_main(t)->id.kas));
	raw = rdc_raw_admin_new(t, 0, 1000);
	rdc_raw_enable(raw, true);
	RDC_CHECK(t, rdc_raw_ended(raw, ms), "a silent host is still connected after %u ms", ms);
}

static void ka_expiry_io(struct rdc *t)
{
	unsigned int ms = patience(t, 1000);
	struct rdc_raw *admin, *io;

	if (ms > 70000)
		rdc_not_supported(t, "KAS %u: the timer is too coarse to wait for",
				  le16toh(rdc_main(t)->id.kas));
	admin = rdc_raw_admin_new(t, 0, 1000);
	rdc_raw_enable(admin, true);
	io = rdc_raw_io(admin, 1, 16);
	RDC_CHECK(t, rdc_raw_ended(io, ms),
		  "the I/O queue of a silent host is still connected "
		  "after %u ms",
		  ms);
}

/* Waits for much longer than the timeout. */
static void ka_keeps(struct rdc *t)
{
	unsigned int kas = le16toh(rdc_main(t)->id.kas) * 100u, kato = kas > 2000 ? kas : 2000;
	struct rdc_raw *raw;
	uint64_t end;

	if (kato > 10000)
		rdc_not_supported(t, "KAS %u ms: too coarse to wait for", kas);
	raw = rdc_raw_admin_new(t, 0, kato);
	rdc_raw_enable(raw, true);
	end = rdc_now_ms() + 2 * kato;
	while (rdc_now_ms() < end) {
		struct nvme_sqe sqe = {.opcode = nvme_admin_keep_alive};

		rdc_sgl_none(raw, &sqe);
		RDC_OK(t, rdc_raw_cmd(raw, &sqe).r, "Keep Alive");
		RDC_CHECK(t, !rdc_raw_ended(raw, kato / 4),
			  "the connection ended in spite of "
			  "Keep Alive commands");
	}
}

static void ka_traffic(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	unsigned int kas = le16toh(h->id.kas) * 100u, kato = kas > 2000 ? kas : 2000;
	struct rdc_raw *admin, *io;
	struct rdc_mem *mem;
	uint64_t end;

	if (!(le32toh(h->id.ctratt) & NVME_CTRL_CTRATT_TBKAS))
		rdc_not_supported(t, "CTRATT 0x%08x: no traffic-based keep-alive",
				  le32toh(h->id.ctratt));
	if (kato > 10000)
		rdc_not_supported(t, "KAS %u ms: too coarse to wait for", kas);
	admin = rdc_raw_admin_new(t, 0, kato);
	rdc_raw_enable(admin, true);
	io = rdc_raw_io(admin, 1, 16);
	mem = rdc_raw_mem(io, h->bs, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	end = rdc_now_ms() + 5 * kato / 2;
	while (rdc_now_ms() < end) {
		struct nvme_sqe sqe;

		rdc_raw_rw(&sqe, h, nvme_cmd_read, 0, 1, mem);
		RDC_OK(t, rdc_raw_cmd(io, &sqe).r, "Read");
		RDC_CHECK(t, !rdc_raw_ended(io, kato / 4),
			  "the connection ended in spite of traffic");
	}
}

const struct rdc_test rdc_t_keepalive[] = {
	{"command", "Base 5.18", "Keep Alive is answered", ka_command},
	{"keeps", "Base 3.9", "Keep Alive commands keep the association open", ka_keeps},
	{"traffic", "Base 3.9.2", "with TBKAS, I/O commands keep the association open too",
	 ka_traffic},
	{"expiry", "Base 3.9", "a silent host's admin queue ends", ka_expiry},
	{"expiry_io", "Base 3.9", "a silent host's I/O queues end", ka_expiry_io},
	{NULL},
};
