/* SPDX-License-Identifier: BSD-3-Clause */
#include "ddp.h"

#include <stdio.h>

size_t rd_iw_put_read_req(uint8_t *buf, uint32_t msn, const struct rd_iw_read *rd)
{
	struct rd_rdmap_read_req r = {
		.sink_stag = rd_put_be32(rd->sink_stag),
		.sink_to = rd_put_be64(rd->sink_to),
		.size = rd_put_be32(rd->size),
		.src_stag = rd_put_be32(rd->src_stag),
		.src_to = rd_put_be64(rd->src_to),
	};

	memcpy(buf, &r, sizeof(r));
	rd_iw_put_untagged(buf, RD_RDMAP_READ_REQ, true, 0, RD_DDP_QN_READ, msn, 0,
			   sizeof(r) - sizeof(r.ddp));
	return sizeof(r);
}

static bool op_is_tagged(uint8_t op)
{
	return op == RD_RDMAP_WRITE || op == RD_RDMAP_READ_RESP;
}

size_t rd_iw_hdr_length(const struct rd_ddp_ctrl *c, uint32_t *term)
{
	bool tagged = c->ddp & RD_DDP_TAGGED;
	uint8_t op = c->rdmap & RD_RDMAP_OPMASK;
	size_t total = RD_MPA_LEN_FIELD + rd_get_be16(c->len);
	size_t len = tagged ? sizeof(struct rd_ddp_tagged) : sizeof(struct rd_ddp_untagged);

	/* The control bytes are part of the ULPDU: a shorter ULPDU has none. */
	if (total < sizeof(*c)) {
		*term = RD_TERM_MPA_LENGTH;
		return 0;
	}
	if ((c->ddp & RD_DDP_VMASK) != RD_DDP_VERSION) {
		*term = tagged ? RD_TERM_DT_VERSION : RD_TERM_DU_VERSION;
		return 0;
	}
	if ((c->rdmap & RD_RDMAP_VMASK) != RD_RDMAP_VERSION) {
		*term = RD_TERM_RO_VERSION;
		return 0;
	}
	if (op > RD_RDMAP_TERMINATE || op_is_tagged(op) != tagged) {
		*term = RD_TERM_RO_OPCODE;
		return 0;
	}
	if (op == RD_RDMAP_READ_REQ)
		len = sizeof(struct rd_rdmap_read_req);
	if (total < len) {
		*term = RD_TERM_MPA_LENGTH;
		return 0;
	}
	if (op == RD_RDMAP_READ_REQ && total > len) {
		*term = RD_TERM_DU_TOO_LONG;
		return 0;
	}
	return len;
}

static void parse_read_req(const uint8_t *buf, struct rd_iw_read *rd)
{
	struct rd_rdmap_read_req r;

	memcpy(&r, buf, sizeof(r));
	rd->sink_stag = rd_get_be32(r.sink_stag);
	rd->sink_to = rd_get_be64(r.sink_to);
	rd->size = rd_get_be32(r.size);
	rd->src_stag = rd_get_be32(r.src_stag);
	rd->src_to = rd_get_be64(r.src_to);
}

void rd_iw_hdr_parse(const uint8_t *buf, struct rd_iw_hdr *hdr)
{
	struct rd_ddp_ctrl c;
	size_t len;

	memcpy(&c, buf, sizeof(c));
	hdr->op = c.rdmap & RD_RDMAP_OPMASK;
	hdr->tagged = c.ddp & RD_DDP_TAGGED;
	hdr->last = c.ddp & RD_DDP_LAST;
	if (hdr->tagged) {
		struct rd_ddp_tagged t;

		memcpy(&t, buf, sizeof(t));
		hdr->stag = rd_get_be32(t.stag);
		hdr->to = rd_get_be64(t.to);
		len = sizeof(t);
	} else {
		struct rd_ddp_untagged u;

		memcpy(&u, buf, sizeof(u));
		hdr->inv_stag = rd_get_be32(u.inv_stag);
		hdr->qn = rd_get_be32(u.qn);
		hdr->msn = rd_get_be32(u.msn);
		hdr->mo = rd_get_be32(u.mo);
		len = sizeof(u);
	}
	if (hdr->op == RD_RDMAP_READ_REQ) {
		parse_read_req(buf, &hdr->read);
		len = sizeof(struct rd_rdmap_read_req);
	}
	hdr->plen = (uint32_t)(RD_MPA_LEN_FIELD + rd_get_be16(c.len) - len);
}

size_t rd_iw_term_build(uint8_t *buf, uint32_t code, const uint8_t *bad, size_t bad_len)
{
	struct rd_rdmap_term t = {
		.layer_etype = (uint8_t)((code >> 16) << 4 | ((code >> 8) & 0xf)),
		.code = (uint8_t)code,
	};
	size_t len = sizeof(t), ddp_len;

	if (bad && bad_len >= sizeof(struct rd_ddp_ctrl)) {
		bool tagged = bad[RD_MPA_LEN_FIELD] & RD_DDP_TAGGED;

		ddp_len = tagged ? sizeof(struct rd_ddp_tagged) : sizeof(struct rd_ddp_untagged);
		if (bad_len >= ddp_len) {
			/*
			 * The length field is the first field of the FPDU as well: one copy takes
			 * both.
			 */
			t.hdrct = RD_TERM_M | RD_TERM_D;
			memcpy(buf + len, bad, ddp_len);
			len += ddp_len;
		} else {
			t.hdrct = RD_TERM_M;
			memcpy(buf + len, bad, RD_MPA_LEN_FIELD);
			len += RD_MPA_LEN_FIELD;
		}
		if (!tagged && bad_len >= sizeof(struct rd_rdmap_read_req)) {
			t.hdrct |= RD_TERM_R;
			memcpy(buf + len, bad + ddp_len,
			       sizeof(struct rd_rdmap_read_req) - ddp_len);
			len += sizeof(struct rd_rdmap_read_req) - ddp_len;
		}
	}
	memcpy(buf, &t, sizeof(t));
	rd_iw_put_untagged(buf, RD_RDMAP_TERMINATE, true, 0, RD_DDP_QN_TERM, 1, 0,
			   (uint32_t)(len - sizeof(struct rd_ddp_untagged)));
	return len;
}

static const struct {
	uint32_t code;
	const char *name;
} term_names[] = {
	{RD_TERM_LOCAL_CATASTROPHIC, "local catastrophic error"},
	{RD_TERM(0, 0, 0xff), "local catastrophic error"},
	{RD_TERM_RP_STAG, "READ of an invalid key"},
	{RD_TERM_RP_BOUNDS, "READ out of bounds"},
	{RD_TERM_RP_ACCESS, "access rights violation"},
	{RD_TERM_RP_NOT_ASSOC, "key of another protection domain"},
	{RD_TERM_RP_WRAP, "address wraps around"},
	{RD_TERM_RP_CANNOT_INV, "key cannot be invalidated"},
	{RD_TERM(0, 1, 0xff), "remote protection error"},
	{RD_TERM_RO_VERSION, "RDMAP version"},
	{RD_TERM_RO_OPCODE, "unexpected RDMAP opcode"},
	{RD_TERM_RO_STREAM, "RDMAP stream catastrophic error (too many READs)"},
	{RD_TERM_RO_GLOBAL, "RDMAP global catastrophic error"},
	{RD_TERM_RO_CANNOT_INV, "key cannot be invalidated"},
	{RD_TERM(0, 2, 0xff), "remote operation error"},
	{RD_TERM_DDP_LOCAL, "DDP local catastrophic error"},
	{RD_TERM_DT_STAG, "invalid key"},
	{RD_TERM_DT_BOUNDS, "write out of bounds"},
	{RD_TERM_DT_NOT_ASSOC, "key of another protection domain"},
	{RD_TERM_DT_WRAP, "address wraps around"},
	{RD_TERM_DT_VERSION, "DDP version"},
	{RD_TERM_DU_QN, "DDP queue number"},
	{RD_TERM_DU_NO_BUFFER, "SEND without a posted RECV"},
	{RD_TERM_DU_MSN, "message sequence number"},
	{RD_TERM_DU_MO, "message offset"},
	{RD_TERM_DU_TOO_LONG, "SEND longer than the posted RECV"},
	{RD_TERM_DU_VERSION, "DDP version"},
	{RD_TERM_MPA_CLOSED, "TCP connection lost"},
	{RD_TERM_MPA_CRC, "CRC error"},
	{RD_TERM_MPA_LENGTH, "frame length"},
	{RD_TERM_MPA_STARTUP, "invalid MPA request or reply"},
	{RD_TERM_MPA_LOCAL, "MPA local catastrophic error"},
	{RD_TERM_MPA_IRD, "insufficient IRD"},
	{RD_TERM_MPA_RTR, "no matching ready-to-receive message"},
};

static const char *find_term_name(uint32_t code)
{
	for (size_t i = 0; i < sizeof(term_names) / sizeof(term_names[0]); i++) {
		if (term_names[i].code == code)
			return term_names[i].name;
	}
	return NULL;
}

const char *rd_iw_term_name(uint32_t code)
{
	const char *name = find_term_name(code);

	return name ? name : "unknown error";
}

uint32_t rd_iw_term_decode(const uint8_t *payload, size_t len, char text[RD_IW_TERM_TEXT])
{
	uint32_t rfc, siw, code;
	const char *other = NULL;

	if (len < 4) {
		snprintf(text, RD_IW_TERM_TEXT, "no reason given");
		return RD_TERM_LOCAL_CATASTROPHIC;
	}
	rfc = RD_TERM(payload[0] >> 4, payload[0] & 0xf, payload[1]);
	siw = RD_TERM(payload[0] & 0xf, payload[0] >> 4, payload[1]);
	/*
	 * siw of Linux lays out its bit fields in the wrong order on little-endian machines. If
	 * header bits are set they show which order was used. Otherwise the order that gives a
	 * known code is taken, and if both do, both are named.
	 */
	if (payload[2] & 0x07) {
		code = siw;
	} else if (payload[2] & 0xe0) {
		code = rfc;
	} else {
		code = find_term_name(rfc) || !find_term_name(siw) ? rfc : siw;
		if (rfc != siw && code == rfc)
			other = find_term_name(siw);
	}
	snprintf(text, RD_IW_TERM_TEXT, "%s%s%s (%02x%02x%02x%02x)", rd_iw_term_name(code),
		 other ? " or " : "", other ? other : "", payload[0], payload[1], payload[2],
		 payload[3]);
	return code;
}
