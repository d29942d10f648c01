/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe-oF on raw connections: Connect, properties, queues, single commands. */
#include "auth.h"
#include "raw.h"

#include <errno.h>
#include <string.h>
#include <uuid/uuid.h>

#define CONNECT_AUTH_ATR (1u << 17) /* AUTHREQ, in dword 0 of the answer */
#define CC_ENABLE        (6u << NVME_CC_IOSQES_SHIFT | 4u << NVME_CC_IOCQES_SHIFT | 1u)

/* ---- commands ---- */

void rdc_sgl_none(const struct rdc_raw *raw, struct nvme_sqe *sqe)
{
	raw->wire->set_sgl(&sqe->sgl, NULL, NULL, 0);
}

void rdc_sgl(struct nvme_sqe *sqe, const struct rdc_mem *mem, uint32_t len)
{
	rdc_sgl_at(sqe, mem, 0, len);
}

void rdc_sgl_at(struct nvme_sqe *sqe, const struct rdc_mem *mem, size_t offset, uint32_t len)
{
	mem->wire->set_sgl(&sqe->sgl, mem, (char *)mem->p + offset, len);
}

static void set_reply(struct rdc_raw_reply *rr)
{
	struct nvme_status st = nvme_status_from_wire(rr->a.cqe.status);

	rr->r.result = le64toh(rr->a.cqe.result64);
	if (nvme_status_ok(st))
		return;
	rr->r.err = -EIO;
	rr->r.status = st.v;
}

struct rdc_raw_reply rdc_raw_cmd_as_is(struct rdc_raw *raw, const struct nvme_sqe *sqe,
				       const void *extra, size_t len)
{
	unsigned char capsule[RDC_CAPSULE];
	struct rdc_raw_reply rr = {.answered = false};
	int rc;

	memcpy(capsule, sqe, sizeof(*sqe));
	if (len)
		memcpy(capsule + sizeof(*sqe), extra, len);
	rdc_raw_send(raw, capsule, sizeof(*sqe) + len);
	rc = rdc_raw_answer(raw, &rr.a, raw->t->cfg->timeout_ms);
	if (rc < 0)
		RDC_FAIL(raw->t, "opcode 0x%02x: neither an answer nor the end of the connection",
			 sqe->opcode);
	rr.answered = rc == 1;
	rr.r.of = nvme_cmd_kind(!raw->qid, sqe);
	if (!rr.answered) {
		rr.r.err = -ECONNRESET;
		snprintf(rr.r.text, sizeof(rr.r.text), "the target ended the connection");
		return rr;
	}
	if (rr.a.cqe.cid != sqe->cid)
		RDC_FAIL(raw->t, "an answer to command id 0x%04x, but command id 0x%04x was sent",
			 le16toh(rr.a.cqe.cid), le16toh(sqe->cid));
	set_reply(&rr);
	return rr;
}

struct rdc_raw_reply rdc_raw_cmd(struct rdc_raw *raw, struct nvme_sqe *sqe)
{
	sqe->flags = (sqe->flags & ~NVME_CMD_PSDT_MASK) | NVME_CMD_PSDT_SGL;
	sqe->cid = htole16(++raw->next_cid);
	return rdc_raw_cmd_as_is(raw, sqe, NULL, 0);
}

/* ---- fabrics ---- */

void rdc_connect_init(struct rdc *t, struct rdc_connect *c, unsigned int who,
		      const struct rdc_raw *raw)
{
	memset(c, 0, sizeof(*c));
	c->qid = raw->qid;
	c->sqsize = (uint16_t)(raw->depth - 1);
	c->cntlid = raw->cntlid ? raw->cntlid : NVMF_CNTLID_DYNAMIC;
	c->kato = raw->qid ? 0 : 120000;
	if (uuid_parse(t->cfg->hostid[who], c->data.hostid))
		RDC_FAIL(t, "the host identifier \"%s\" is not a UUID", t->cfg->hostid[who]);
	snprintf(c->data.subsysnqn, sizeof(c->data.subsysnqn), "%s", t->cfg->uri.subnqn);
	snprintf(c->data.hostnqn, sizeof(c->data.hostnqn), "%s", t->cfg->hostnqn[who]);
}

struct rdc_raw_reply rdc_raw_connect(struct rdc_raw *raw, const struct rdc_connect *c)
{
	struct rdc_mem *mem = rdc_raw_mem(raw, sizeof(c->data), IBV_ACCESS_REMOTE_READ);
	struct nvmf_connect_sqe sqe = {
		.opcode = NVMF_OPCODE,
		.fctype = nvme_fabrics_type_connect,
		.recfmt = htole16(c->recfmt),
		.qid = htole16(c->qid),
		.sqsize = htole16(c->sqsize),
		.cattr = c->cattr,
		.kato = htole32(c->kato),
	};
	struct rdc_raw_reply rr;
	struct nvme_sqe s;

	memcpy(mem->p, &c->data, sizeof(c->data));
	((struct nvmf_connect_data *)mem->p)->cntlid = htole16(c->cntlid);
	memcpy(&s, &sqe, sizeof(s));
	rdc_sgl(&s, mem, sizeof(c->data));
	rr = rdc_raw_cmd(raw, &s);
	if (rr.answered && !rr.r.err) {
		raw->cntlid = (uint16_t)rr.r.result;
		raw->must_authenticate = rr.r.result & CONNECT_AUTH_ATR;
	}
	return rr;
}

struct rdc_raw_reply rdc_raw_prop_get(struct rdc_raw *raw, uint32_t offset, uint8_t attrib)
{
	struct nvmf_property_sqe sqe = {
		.opcode = NVMF_OPCODE,
		.fctype = nvme_fabrics_type_property_get,
		.attrib = attrib,
		.offset = htole32(offset),
	};
	struct nvme_sqe s;

	memcpy(&s, &sqe, sizeof(s));
	rdc_sgl_none(raw, &s);
	return rdc_raw_cmd(raw, &s);
}

struct rdc_raw_reply rdc_raw_prop_set(struct rdc_raw *raw, uint32_t offset, uint64_t value,
				      uint8_t attrib)
{
	struct nvmf_property_sqe sqe = {
		.opcode = NVMF_OPCODE,
		.fctype = nvme_fabrics_type_property_set,
		.attrib = attrib,
		.offset = htole32(offset),
		.value = htole64(value),
	};
	struct nvme_sqe s;

	memcpy(&s, &sqe, sizeof(s));
	rdc_sgl_none(raw, &s);
	return rdc_raw_cmd(raw, &s);
}

void rdc_raw_enable(struct rdc_raw *raw, bool on)
{
	uint64_t end = rdc_now_ms() + 2 * raw->t->cfg->timeout_ms;
	struct rdc_raw_reply rr =
		rdc_raw_prop_set(raw, NVME_REG_CC, CC_ENABLE & ~(on ? 0u : 1u), NVMF_PROP_SIZE_4);

	RDC_OK(raw->t, rr.r, "Property Set CC");
	do {
		rr = rdc_raw_prop_get(raw, NVME_REG_CSTS, NVMF_PROP_SIZE_4);
		RDC_OK(raw->t, rr.r, "Property Get CSTS");
		if (rdc_now_ms() > end)
			RDC_FAIL(raw->t, "CSTS.RDY did not become %d", on);
	} while (NVME_CSTS_RDY(rr.r.result) != on);
}

struct rdc_raw *rdc_raw_admin_new(struct rdc *t, unsigned int who, uint32_t kato_ms)
{
	struct rdc_raw *raw = rdc_raw_must_dial(t, &(struct rdc_dial){.qid = 0});
	struct rdc_connect c;

	rdc_connect_init(t, &c, who, raw);
	if (kato_ms)
		c.kato = kato_ms;
	RDC_OK(t, rdc_raw_connect(raw, &c).r, "Connect");
	rdc_raw_authenticate(raw, who);
	return raw;
}

struct rdc_raw *rdc_raw_admin(struct rdc *t, unsigned int who)
{
	struct rdc_raw *raw = rdc_raw_admin_new(t, who, 0);
	struct nvme_sqe sqe = {
		.opcode = nvme_admin_set_features,
		.cdw10 = htole32(NVME_FEAT_FID_NUM_QUEUES),
		.cdw11 = htole32(3u << 16 | 3u),
	};

	rdc_raw_enable(raw, true);
	rdc_sgl_none(raw, &sqe);
	RDC_OK(t, rdc_raw_cmd(raw, &sqe).r, "Set Features, Number of Queues");
	return raw;
}

struct rdc_raw *rdc_raw_io(struct rdc_raw *admin, uint16_t qid, uint16_t depth)
{
	return rdc_raw_io_by(admin, &(struct rdc_dial){.qid = qid, .depth = depth}, 0);
}

struct rdc_raw *rdc_raw_io_by(struct rdc_raw *admin, const struct rdc_dial *d, uint8_t cattr)
{
	struct rdc *t = admin->t;
	struct rdc_raw *raw = rdc_raw_must_dial(t, d);
	struct rdc_connect c;

	raw->cntlid = admin->cntlid;
	rdc_connect_init(t, &c, 0, raw);
	c.cattr = cattr;
	RDC_OK(t, rdc_raw_connect(raw, &c).r, "Connect of an I/O queue");
	rdc_raw_authenticate(raw, 0);
	return raw;
}

void rdc_raw_rw(struct nvme_sqe *sqe, const struct rdc_host *h, uint8_t opcode, uint64_t lba,
		uint32_t n, const struct rdc_mem *mem)
{
	*sqe = (struct nvme_sqe){
		.opcode = opcode,
		.flags = NVME_CMD_PSDT_SGL,
		.nsid = htole32(h->nsid),
		.cdw10 = htole32((uint32_t)lba),
		.cdw11 = htole32((uint32_t)(lba >> 32)),
		.cdw12 = htole32(n - 1),
	};
	rdc_sgl(sqe, mem, n * h->bs);
}
