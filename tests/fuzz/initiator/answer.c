/* SPDX-License-Identifier: BSD-3-Clause */
/* What the puppet answers: the right thing, and what rules make of it. */
#include <stddef.h>
#include <string.h>

#include "../fuzz.h"
#include "parts.h"
#include <infiniband/verbs.h>

#define QUEUES_GRANTED 0x00030003u
#define HONEST_CNTLID  1u
#define HOSTILE_CNTLID 2u
#define CAP_VALUE      UINT64_C(0x0000002008010fff) /* 4,096 entries, TO 4 s, NVM command set */
#define ANA_GROUP      1u

/* ---- pages ---- */

static void init_id_ctrl(uint8_t *page, bool hostile)
{
	struct nvme_id_ctrl *id = (struct nvme_id_ctrl *)page;

	id->cntlid = htole16(hostile ? HOSTILE_CNTLID : HONEST_CNTLID);
	id->mdts = 2; /* 16 KiB */
	id->ver = htole32(0x00020000);
	id->oaes = htole32(1u << 8 | 1u << 11 | 1u << 31);
	id->ctratt = 0;
	id->cntrltype = 1;
	id->kas = htole16(10);
	id->sqes = 0x66;
	id->cqes = 0x44;
	id->maxcmd = htole16(64);
	id->nn = htole32(1);
	id->oncs = htole16(0xffff);
	id->fuses = htole16(1);
	id->cmic = 0x0b;
	id->anatt = 10;
	id->anacap = 0x1f;
	id->anagrpmax = htole32(2);
	id->nanagrpid = htole32(2);
	id->sgls = htole32(0x00100005);
	id->ioccsz = htole32(PUPPET_SLOT / 16);
	id->iorcsz = htole32(1);
	strcpy(id->subnqn, PUPPET_NQN);
}

static void init_id_ns(uint8_t *page)
{
	struct nvme_id_ns *id = (struct nvme_id_ns *)page;

	id->nsze = id->ncap = id->nuse = htole64(PUPPET_BLOCKS);
	id->nmic = 1;
	id->anagrpid = htole32(ANA_GROUP);
	id->mssrl = htole16(64);
	id->mcl = htole32(64);
	id->dlfeat = 9;
	id->lbaf[0].ds = 9;
	memset(id->nguid, 0x5a, sizeof(id->nguid));
}

static void init_ana(uint8_t *page)
{
	struct nvme_ana_log *log = (struct nvme_ana_log *)page;

	log->chgcnt = htole64(1);
	log->ngrps = htole16(2);
	for (unsigned int i = 0; i < 2; i++) {
		struct nvme_ana_group_desc desc = {.grpid = htole32(i + 1), .state = 1};

		memcpy(page + sizeof(*log) + i * sizeof(desc), &desc, sizeof(desc));
	}
}

/* Both hostile ports, and the honest one. */
static void init_discovery(uint8_t *page)
{
	struct nvmf_discovery_log *log = (struct nvmf_discovery_log *)page;

	log->genctr = htole64(7);
	log->numrec = htole64(PUPPET_PORTS);
	for (unsigned int i = 0; i < PUPPET_PORTS; i++) {
		struct nvmf_disc_log_entry *e =
			(struct nvmf_disc_log_entry *)(page + (i + 1) * sizeof(*e));

		e->trtype = NVMF_TRTYPE_RDMA;
		e->adrfam = NVMF_ADDR_FAMILY_IP4;
		e->subtype = NVME_NQN_NVME;
		memcpy(e->trsvcid, "442", 3);
		e->trsvcid[3] = (char)('0' + (i + 1) % PUPPET_PORTS);
		strcpy(e->subnqn, PUPPET_NQN);
		strcpy(e->traddr, PUPPET_ADDR);
	}
}

void puppet_init_pages(struct puppet *p)
{
	for (unsigned int hostile = 0; hostile < 2; hostile++) {
		uint8_t(*pages)[PUPPET_PAGE] = p->pages[hostile];
		__le64 cap = htole64(CAP_VALUE);

		init_id_ctrl(pages[PAGE_CTRL], hostile);
		init_id_ns(pages[PAGE_NS]);
		pages[PAGE_NVM][NVME_NVM_CTRL_AOCS] = NVME_AOCS_RALBAS;
		memcpy(pages[PAGE_DESCS], "\x02\x10\0\0ZZZZZZZZZZZZZZZZ", 20);
		pages[PAGE_LIST][0] = 1;
		init_ana(pages[PAGE_ANA]);
		init_discovery(pages[PAGE_DISCOVERY]);
		pages[PAGE_LBA_STATUS][0] = 1;
		pages[PAGE_LBA_STATUS][4] = NVME_LBA_STATUS_COMPLETE;
		pages[PAGE_LBA_STATUS][16] = 7;
		memcpy(pages[PAGE_PROPERTIES], &cap, sizeof(cap));
		pages[PAGE_PROPERTIES][NVME_REG_VS + 2] = 2;
	}
}

/* ---- sending an answer ---- */

static void send_response(const struct puppet_answer *a)
{
	struct puppet *p = a->to->puppet;
	uint8_t bytes[PUPPET_BYTES] = {0};
	struct nvme_cqe cqe = {
		.result64 = htole64(a->result),
		.cid = a->cid,
		.sqid = htole16(a->to->qid),
		.status = nvme_status_to_wire((struct nvme_status){a->status}),
	};
	struct ibv_sge sge = {.addr = (uintptr_t)bytes, .length = a->len};
	struct ibv_send_wr wr = {.wr_id = UINT64_MAX,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_INLINE,
				 .opcode = a->invalidate ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND,
				 .invalidate_rkey = a->inv_key};
	uint64_t lba = le32toh(a->sqe.cdw10);

	memcpy(bytes, &cqe, sizeof(cqe));
	if (a->to->qid && !(a->status & 0x7ff) && lba < PUPPET_BLOCKS)
		p->said_success[lba / 8] = true;
	for (unsigned int i = 0; i < a->copies; i++)
		puppet_post(a->to, &wr);
}

/* The data is where it belongs. */
static void finish_answer(const struct puppet_answer *a)
{
	if (!a->to->conn || a->to->conn != a->conn || a->to->over)
		return; /* the connection was lost meanwhile */
	if (a->break_first) {
		puppet_end_conn(a->to, false);
		return;
	}
	send_response(a);
	if (a->break_then)
		puppet_end_conn(a->to, true);
}

static void late_answer(struct rd_sim_event *event)
{
	const struct puppet_late *late = rd_container_of(event, struct puppet_late, event);

	finish_answer(&late->answer);
}

static void answer_now_or_late(struct puppet *p, const struct puppet_answer *a)
{
	struct puppet_late *late = &p->late[p->lates % PUPPET_LATE];

	if (!a->late_ns) {
		finish_answer(a);
		return;
	}
	p->lates++;
	if (late->event.slot)
		rd_sim_cancel(p->scene->sim, &late->event);
	late->answer = *a;
	late->event.fn = late_answer;
	FUZZ_CHECK(!rd_sim_at(p->scene->sim, &late->event, a->late_ns));
}

void puppet_stop_late(struct puppet *p)
{
	for (unsigned int i = 0; i < PUPPET_LATE; i++)
		rd_sim_cancel(p->scene->sim, &p->late[i].event);
}

void puppet_fetched(struct puppet *p, unsigned int n)
{
	struct puppet_answer a = p->pending[n];

	answer_now_or_late(p, &a);
}

/* Moves the data, then answers. */
static void carry_out(struct puppet_answer *a)
{
	struct puppet *p = a->to->puppet;
	uint32_t len = a->len_asked;

	if (a->data && len) {
		len = len < a->data_len ? len : a->data_len;
		puppet_post_rdma(a->to, false, a->data, len, a->addr, a->key, UINT64_MAX);
	} else if (a->into && len && !a->in_capsule) {
		unsigned int n = p->pendings++ % PUPPET_PENDING;

		len = len < a->into_len ? len : a->into_len;
		p->pending[n] = *a;
		puppet_post_rdma(a->to, true, a->into, len, a->addr, a->key, n);
		return;
	}
	answer_now_or_late(p, a);
}

/* ---- the right answers ---- */

static void answer_page(struct puppet_answer *a, enum puppet_page page, uint64_t off)
{
	if (off >= PUPPET_PAGE)
		return;
	a->data = a->to->puppet->pages[a->to->hostile][page] + off;
	a->data_len = (uint32_t)(PUPPET_PAGE - off);
}

static void answer_property(struct puppet_answer *a)
{
	uint8_t *props = a->to->puppet->pages[a->to->hostile][PAGE_PROPERTIES];
	struct nvmf_property_sqe sqe;
	uint32_t off, cc;

	memcpy(&sqe, &a->sqe, sizeof(sqe));
	off = le32toh(sqe.offset) & 0x3f;
	if (sqe.fctype == nvme_fabrics_type_property_get) {
		__le64 value = 0;

		memcpy(&value, props + off, sqe.attrib & 1 ? 8 : 4);
		a->result = le64toh(value);
		return;
	}
	cc = (uint32_t)le64toh(sqe.value);
	memcpy(props + off, &cc, sizeof(cc));
	if (off != NVME_REG_CC)
		return;
	props[NVME_REG_CSTS] = (uint8_t)(NVME_CC_EN(cc) | (NVME_CC_SHN(cc) ? 8 : 0));
}

static void answer_fabrics_cmd(struct puppet_answer *a)
{
	struct puppet *p = a->to->puppet;

	if (a->sqe.fctype != nvme_fabrics_type_connect) {
		answer_property(a);
		return;
	}
	a->into = p->scratch;
	a->into_len = sizeof(p->scratch);
	a->result = a->to->hostile ? HOSTILE_CNTLID : HONEST_CNTLID;
	if (!a->to->qid)
		memset(p->pages[a->to->hostile][PAGE_PROPERTIES] + NVME_REG_CC, 0, 12);
}

static void answer_identify_cmd(struct puppet_answer *a)
{
	switch (le32toh(a->sqe.cdw10) & 0xff) {
	case NVME_IDENTIFY_CNS_NS:
		answer_page(a, PAGE_NS, 0);
		break;
	case NVME_IDENTIFY_CNS_CTRL:
		answer_page(a, PAGE_CTRL, 0);
		break;
	case NVME_IDENTIFY_CNS_NS_DESC_LIST:
		answer_page(a, PAGE_DESCS, 0);
		break;
	case NVME_IDENTIFY_CNS_CSI_CTRL:
		answer_page(a, PAGE_NVM, 0);
		break;
	default:
		answer_page(a, PAGE_LIST, 0);
		break;
	}
}

static void answer_log(struct puppet_answer *a)
{
	uint64_t off = le32toh(a->sqe.cdw12) | (uint64_t)le32toh(a->sqe.cdw13) << 32;

	switch (le32toh(a->sqe.cdw10) & 0xff) {
	case NVME_LOG_LID_ANA:
		answer_page(a, PAGE_ANA, off);
		break;
	case NVME_LOG_LID_DISCOVER:
		answer_page(a, PAGE_DISCOVERY, off);
		break;
	default:
		answer_page(a, PAGE_LIST, off);
		break;
	}
}

static void keep_aer(struct puppet_answer *a)
{
	struct puppet *p = a->to->puppet;

	a->result = p->always_event;
	if (a->to->hostile && p->always_events)
		return;
	a->copies = 0;
	if (a->to->hostile)
		p->aer = (struct puppet_aer){a->to, a->to->conn, a->sqe.cid};
}

static void answer_admin_cmd(struct puppet_answer *a)
{
	switch (a->sqe.opcode) {
	case nvme_admin_identify:
		answer_identify_cmd(a);
		break;
	case nvme_admin_get_log_page:
		answer_log(a);
		break;
	case nvme_admin_set_features:
		a->result = (le32toh(a->sqe.cdw10) & 0xff) == NVME_FEAT_FID_NUM_QUEUES
				    ? QUEUES_GRANTED
				    : 0;
		break;
	case nvme_admin_async_event:
		keep_aer(a);
		break;
	case nvme_admin_abort_cmd:
		a->result = 1;
		break;
	case nvme_admin_get_lba_status:
		answer_page(a, PAGE_LBA_STATUS, 0);
		break;
	default:
		break;
	}
}

static void answer_io_cmd(struct puppet_answer *a, const uint8_t *data, size_t len)
{
	struct puppet *p = a->to->puppet;
	uint64_t off = (uint64_t)le32toh(a->sqe.cdw10) * PUPPET_BLOCK;
	bool there = off < PUPPET_DISK;

	switch (a->sqe.opcode) {
	case nvme_cmd_read:
		a->data = there ? p->disk + off : p->scratch;
		a->data_len = there ? (uint32_t)(PUPPET_DISK - off) : sizeof(p->scratch);
		break;
	case nvme_cmd_write:
		a->into = there ? p->disk + off : p->scratch;
		a->into_len = there ? (uint32_t)(PUPPET_DISK - off) : sizeof(p->scratch);
		if (a->in_capsule)
			memcpy(a->into, data, len < a->into_len ? len : a->into_len);
		break;
	default: /* the bits 1:0 of the opcode are the direction of its data */
		a->into = p->scratch;
		a->into_len = a->sqe.opcode & 1 ? sizeof(p->scratch) : 0;
		break;
	}
}

/* ---- rules ---- */

static bool in_class(const struct puppet_answer *a, enum puppet_class cls)
{
	static const uint8_t opcodes[PUPPET_CLASSES] = {
		[CLASS_CONNECT] = nvme_fabrics_type_connect,
		[CLASS_PROPERTY_GET] = nvme_fabrics_type_property_get,
		[CLASS_PROPERTY_SET] = nvme_fabrics_type_property_set,
		[CLASS_IDENTIFY] = nvme_admin_identify,
		[CLASS_LOG] = nvme_admin_get_log_page,
		[CLASS_FEATURES] = nvme_admin_set_features,
		[CLASS_KEEP_ALIVE] = nvme_admin_keep_alive,
		[CLASS_EVENT] = nvme_admin_async_event,
		[CLASS_READ] = nvme_cmd_read,
		[CLASS_WRITE] = nvme_cmd_write,
		[CLASS_FLUSH] = nvme_cmd_flush,
	};
	bool fabrics = a->sqe.opcode == NVMF_OPCODE;

	if (cls == CLASS_ANY)
		return true;
	if (cls == CLASS_ADMIN || cls == CLASS_IO)
		return !fabrics && (cls == CLASS_IO) == (a->to->qid != 0);
	if (cls <= CLASS_PROPERTY_SET)
		return fabrics && a->sqe.fctype == opcodes[cls];
	return !fabrics && (cls >= CLASS_READ) == (a->to->qid != 0) &&
	       a->sqe.opcode == opcodes[cls];
}

static uint32_t rule_number(const struct puppet_rule *r, unsigned int at, unsigned int bytes)
{
	uint32_t value = 0;

	for (unsigned int i = 0; i < bytes; i++)
		value = value << 8 | r->param[at + i];
	return value;
}

static void swap_direction(struct puppet_answer *a)
{
	const uint8_t *data = a->data;

	a->data = a->into ? a->into : NULL;
	a->data_len = a->into_len;
	a->into = data ? a->to->puppet->scratch : NULL;
	a->into_len = sizeof(a->to->puppet->scratch);
	a->in_capsule = false;
}

/* What a rule changes in the data. */
static void bend_data(struct puppet_answer *a, const struct puppet_rule *r)
{
	const struct nvme_keyed_sgl *earlier = &a->to->puppet->earlier.sgl.keyed;
	uint32_t n = rule_number(r, 0, 2);

	if (r->how == HOW_NO_DATA) {
		a->data = NULL;
		a->into = NULL;
	} else if (r->how == HOW_LESS) {
		a->len_asked -= n < a->len_asked ? n : a->len_asked;
	} else if (r->how == HOW_MORE) {
		a->len_asked += n;
	} else if (r->how == HOW_SHIFT) {
		a->addr += (uint64_t)(int64_t)(int16_t)n;
	} else if (r->how == HOW_KEY) {
		a->key ^= rule_number(r, 0, 4);
	} else if (r->how == HOW_OTHER_KEY) {
		a->key = nvme_sgl_keyed_key(earlier);
		a->addr = le64toh(earlier->addr);
	} else {
		swap_direction(a);
	}
}

/* What a rule changes in the response. */
static void bend_response(struct puppet_answer *a, const struct puppet_rule *r)
{
	switch (r->how) {
	case HOW_STATUS:
		a->status = (uint16_t)rule_number(r, 0, 2);
		a->copies = 1;
		if (a->status & 0x7ff)
			a->data = NULL;
		break;
	case HOW_SILENT:
		a->copies = 0;
		break;
	case HOW_CID:
		a->cid = htole16((uint16_t)(le16toh(a->cid) ^ rule_number(r, 0, 2)));
		a->copies = 1;
		break;
	case HOW_AGAIN:
		a->copies = (uint8_t)(1 + r->param[0] % 40);
		break;
	case HOW_RESULT:
		a->result = (uint64_t)rule_number(r, 0, 4) << 32 | rule_number(r, 4, 4);
		a->copies = 1;
		break;
	case HOW_LENGTH:
		a->len = r->param[0] % PUPPET_BYTES;
		break;
	case HOW_INVALIDATE:
		a->invalidate = true;
		a->inv_key =
			(r->param[4] & 1 ? nvme_sgl_keyed_key(&a->to->puppet->earlier.sgl.keyed)
					 : a->key) ^
			rule_number(r, 0, 4);
		break;
	case HOW_BREAK:
		a->break_first = !(r->param[0] & 1);
		a->break_then = r->param[0] & 1;
		break;
	case HOW_LATE:
		a->late_ns = r->param[0] * (RD_NSEC_PER_SEC / 10);
		break;
	default:
		bend_data(a, r);
		break;
	}
}

static void bend(struct puppet_answer *a)
{
	struct puppet *p = a->to->puppet;

	for (unsigned int i = 0; i < PUPPET_RULES; i++) {
		struct puppet_rule *r = &p->rules[i];

		if (!r->times || !in_class(a, r->cls))
			continue;
		if (r->skip) {
			r->skip--;
			continue;
		}
		r->times--;
		bend_response(a, r);
	}
}

void puppet_event(struct puppet *p, uint32_t result)
{
	struct puppet_answer a = {.to = p->aer.to,
				  .conn = p->aer.conn,
				  .cid = p->aer.cid,
				  .result = result,
				  .len = NVME_CQE_SIZE,
				  .copies = 1};

	if (!a.to)
		return;
	p->aer.to = NULL;
	finish_answer(&a);
}

void puppet_events(struct puppet *p, bool always, uint32_t result)
{
	p->always_events = always;
	p->always_event = result;
	if (always)
		puppet_event(p, result);
}

void puppet_command(struct puppet_conn *c, const uint8_t *capsule, size_t len)
{
	struct puppet_answer a = {.to = c, .conn = c->conn, .len = NVME_CQE_SIZE, .copies = 1};
	const struct nvme_keyed_sgl *sgl = &a.sqe.sgl.keyed;

	FUZZ_CHECK(len >= NVME_SQE_SIZE);
	memcpy(&a.sqe, capsule, NVME_SQE_SIZE);
	a.cid = a.sqe.cid;
	a.in_capsule = a.sqe.sgl.data.type == NVME_SGL_IN_CAPSULE;
	a.key = nvme_sgl_keyed_key(sgl);
	a.addr = le64toh(sgl->addr);
	a.len_asked = a.in_capsule ? le32toh(a.sqe.sgl.data.length) : nvme_sgl_keyed_len(sgl);
	if (sgl->type == NVME_SGL_KEYED_INVALIDATE && a.len_asked) {
		a.invalidate = true;
		a.inv_key = a.key;
	}
	if (a.sqe.opcode == NVMF_OPCODE)
		answer_fabrics_cmd(&a);
	else if (c->qid)
		answer_io_cmd(&a, capsule + NVME_SQE_SIZE, len - NVME_SQE_SIZE);
	else
		answer_admin_cmd(&a);
	if (c->hostile)
		bend(&a);
	if (!a.in_capsule && a.len_asked)
		c->puppet->earlier = c->last;
	c->last = a.sqe;
	carry_out(&a);
}
