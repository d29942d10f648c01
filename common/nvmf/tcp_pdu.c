/* SPDX-License-Identifier: BSD-3-Clause */
#include "tcp_pdu.h"

#include <stdio.h>

#define WITH_DATA  0x01 /* may carry data */
#define TRANSFER   0x02 /* H2CData, C2HData: always carries data, and has LAST_PDU */
#define NO_DIGEST  0x04
#define BY_HOST    0x08
#define BY_CTRL    0x10
#define WHOLE_HEAD 0x20 /* the data follows the header at once; PDO is reserved */

struct kind {
	const char *name;
	uint8_t hlen;
	uint8_t traits;
};

static const struct kind kinds[] = {
	[NVME_TCP_ICREQ] = {"ICReq", sizeof(struct nvme_tcp_icreq), NO_DIGEST | BY_HOST},
	[NVME_TCP_ICRESP] = {"ICResp", sizeof(struct nvme_tcp_icresp), NO_DIGEST | BY_CTRL},
	[NVME_TCP_H2C_TERM] = {"H2CTermReq", sizeof(struct nvme_tcp_term),
			       NO_DIGEST | BY_HOST | WHOLE_HEAD},
	[NVME_TCP_C2H_TERM] = {"C2HTermReq", sizeof(struct nvme_tcp_term),
			       NO_DIGEST | BY_CTRL | WHOLE_HEAD},
	[NVME_TCP_CMD] = {"CapsuleCmd", sizeof(struct nvme_tcp_cmd), BY_HOST | WITH_DATA},
	[NVME_TCP_RSP] = {"CapsuleResp", sizeof(struct nvme_tcp_rsp), BY_CTRL},
	[NVME_TCP_H2C_DATA] = {"H2CData", sizeof(struct nvme_tcp_data),
			       BY_HOST | WITH_DATA | TRANSFER},
	[NVME_TCP_C2H_DATA] = {"C2HData", sizeof(struct nvme_tcp_data),
			       BY_CTRL | WITH_DATA | TRANSFER},
	[NVME_TCP_R2T] = {"R2T", sizeof(struct nvme_tcp_r2t), BY_CTRL},
};

static const struct kind *kind_of(unsigned int type)
{
	return type < sizeof(kinds) / sizeof(kinds[0]) && kinds[type].hlen ? &kinds[type] : NULL;
}

/* ---- receiving ---- */

static bool refuse_pdu(struct nvme_tcp_error *error, size_t offset, const char *what)
{
	*error = (struct nvme_tcp_error){NVME_TCP_FES_HEADER, (uint32_t)offset, what};
	return false;
}

#define TYPE_AT  offsetof(struct nvme_tcp_hdr, type)
#define FLAGS_AT offsetof(struct nvme_tcp_hdr, flags)
#define HLEN_AT  offsetof(struct nvme_tcp_hdr, hlen)
#define PDO_AT   offsetof(struct nvme_tcp_hdr, pdo)
#define PLEN_AT  offsetof(struct nvme_tcp_hdr, plen)
#define DATAL_AT offsetof(struct nvme_tcp_data, datal)

static bool check_flags(const struct nvme_tcp_hdr *hdr, const struct kind *kind,
			const struct nvme_tcp_rules *rules, struct nvme_tcp_error *error)
{
	bool hdgst = hdr->flags & NVME_TCP_F_HDGST;

	if (hdgst && (kind->traits & NO_DIGEST || !rules->hdgst))
		return refuse_pdu(error, FLAGS_AT, "a header digest was not agreed on");
	if (!hdgst && rules->hdgst && !(kind->traits & NO_DIGEST))
		return refuse_pdu(error, FLAGS_AT, "the header digest is missing");
	if (hdr->flags & NVME_TCP_F_DDGST && (!(kind->traits & WITH_DATA) || !rules->ddgst))
		return refuse_pdu(error, FLAGS_AT, "a data digest was not agreed on");
	if (hdr->flags & NVME_TCP_F_SUCCESS && hdr->type == NVME_TCP_C2H_DATA &&
	    !(hdr->flags & NVME_TCP_F_LAST))
		return refuse_pdu(error, FLAGS_AT, "SUCCESS without LAST_PDU");
	return true;
}

/* A PDU with data: where it begins, and how long it is. */
static bool check_place(const struct nvme_tcp_hdr *hdr, const struct nvme_tcp_rules *rules,
			uint32_t plen, struct nvme_tcp_parts *parts, struct nvme_tcp_error *error)
{
	uint32_t unit = (rules->pda + 1u) * 4u;

	if (hdr->pdo < parts->head || hdr->pdo % unit)
		return refuse_pdu(error, PDO_AT, "PDO is inside the header or not aligned");
	parts->pad = hdr->pdo - parts->head;
	parts->ddgst = hdr->flags & NVME_TCP_F_DDGST ? RD_CRC32C_LEN : 0;
	if (plen <= hdr->pdo + parts->ddgst)
		return refuse_pdu(error, PLEN_AT, "PLEN leaves no room for data");
	parts->data = plen - hdr->pdo - parts->ddgst;
	if (rules->ddgst && !parts->ddgst)
		return refuse_pdu(error, FLAGS_AT, "the data digest is missing");
	return true;
}

bool nvme_tcp_check(const struct nvme_tcp_hdr *hdr, const struct nvme_tcp_rules *rules,
		    struct nvme_tcp_parts *parts, struct nvme_tcp_error *error)
{
	const struct kind *kind = kind_of(hdr->type);
	uint32_t plen = le32toh(hdr->plen);

	*parts = (struct nvme_tcp_parts){0};
	if (!kind)
		return refuse_pdu(error, TYPE_AT, "an unknown PDU type");
	if (!(kind->traits & (rules->from_host ? BY_HOST : BY_CTRL)))
		return refuse_pdu(error, TYPE_AT, "a PDU type of the other direction");
	if (hdr->hlen != kind->hlen)
		return refuse_pdu(error, HLEN_AT, "HLEN is not that of the PDU type");
	if (!check_flags(hdr, kind, rules, error))
		return false;
	parts->head = kind->hlen;
	if (hdr->flags & NVME_TCP_F_HDGST)
		parts->head += RD_CRC32C_LEN;
	if (plen < parts->head)
		return refuse_pdu(error, PLEN_AT, "PLEN is shorter than the header");
	if (kind->traits & WHOLE_HEAD) {
		if (plen > NVME_TCP_TERM_MAX)
			return refuse_pdu(error, PLEN_AT, "PLEN is longer than a TermReq can be");
		parts->data = plen - parts->head;
		return true;
	}
	if (plen == parts->head && !(kind->traits & TRANSFER)) {
		if (hdr->flags & NVME_TCP_F_DDGST)
			return refuse_pdu(error, FLAGS_AT, "a data digest without data");
		return true;
	}
	if (!(kind->traits & WITH_DATA))
		return refuse_pdu(error, PLEN_AT, "PLEN is longer than the PDU type allows");
	return check_place(hdr, rules, plen, parts, error);
}

bool nvme_tcp_check_hdgst(const void *head, struct nvme_tcp_error *error)
{
	/* by its bytes: a PDU in a stream may have any alignment */
	const uint8_t *bytes = head;
	uint8_t hlen = bytes[offsetof(struct nvme_tcp_hdr, hlen)], want[RD_CRC32C_LEN];
	const uint8_t *got = bytes + hlen;
	uint32_t fei;

	if (!(bytes[offsetof(struct nvme_tcp_hdr, flags)] & NVME_TCP_F_HDGST))
		return true;
	rd_crc32c_put(rd_crc32c(RD_CRC32C_SEED, head, hlen), want);
	if (memcmp(want, got, sizeof(want)) == 0)
		return true;
	memcpy(&fei, got, sizeof(fei));
	*error = (struct nvme_tcp_error){NVME_TCP_FES_HDGST, le32toh(fei),
					 "the header digest is wrong"};
	return false;
}

bool nvme_tcp_check_data(const struct nvme_tcp_data *pdu, const struct nvme_tcp_parts *parts,
			 struct nvme_tcp_error *error)
{
	if (le32toh(pdu->datal) != parts->data)
		return refuse_pdu(error, DATAL_AT, "DATAL does not agree with PLEN");
	return true;
}

/* ---- building ---- */

size_t nvme_tcp_seal(void *pdu, enum nvme_tcp_type type, uint8_t flags, uint32_t data, uint8_t pda,
		     bool hdgst, bool ddgst)
{
	struct nvme_tcp_hdr *hdr = pdu;
	uint8_t hlen = kinds[type].hlen;
	uint32_t unit = (pda + 1u) * 4u;
	uint32_t head = hlen + (hdgst ? RD_CRC32C_LEN : 0);
	uint32_t begin = data ? (head + unit - 1) / unit * unit : head;

	ddgst = ddgst && data;
	hdr->type = (uint8_t)type;
	hdr->flags =
		(uint8_t)(flags | (hdgst ? NVME_TCP_F_HDGST : 0) | (ddgst ? NVME_TCP_F_DDGST : 0));
	hdr->hlen = hlen;
	hdr->pdo = data ? (uint8_t)begin : 0;
	hdr->plen = htole32(begin + data + (ddgst ? RD_CRC32C_LEN : 0));
	if (hdgst)
		rd_crc32c_put(rd_crc32c(RD_CRC32C_SEED, pdu, hlen), (uint8_t *)pdu + hlen);
	if (begin > head)
		memset((uint8_t *)pdu + head, 0, begin - head);
	return begin;
}

void nvme_tcp_build_icreq(struct nvme_tcp_icreq *pdu, uint8_t dgst)
{
	*pdu = (struct nvme_tcp_icreq){.dgst = dgst};
	nvme_tcp_seal(pdu, NVME_TCP_ICREQ, 0, 0, 0, false, false);
}

void nvme_tcp_build_icresp(struct nvme_tcp_icresp *pdu, uint8_t dgst, uint32_t maxh2cdata)
{
	*pdu = (struct nvme_tcp_icresp){.dgst = dgst, .maxh2cdata = htole32(maxh2cdata)};
	nvme_tcp_seal(pdu, NVME_TCP_ICRESP, 0, 0, 0, false, false);
}

size_t nvme_tcp_build_term(uint8_t *buf, enum nvme_tcp_type type, const struct nvme_tcp_error *why,
			   const void *bad, size_t bad_len)
{
	struct nvme_tcp_term pdu = {.fes = htole16((uint16_t)why->fes)};
	uint32_t fei = htole32(why->fei);

	if (bad_len > NVME_TCP_TERM_MAX - sizeof(pdu))
		bad_len = NVME_TCP_TERM_MAX - sizeof(pdu);
	memcpy(pdu.fei, &fei, sizeof(fei));
	nvme_tcp_seal(&pdu, type, 0, 0, 0, false, false);
	pdu.hdr.plen = htole32((uint32_t)(sizeof(pdu) + bad_len));
	memcpy(buf, &pdu, sizeof(pdu));
	if (bad_len)
		memcpy(buf + sizeof(pdu), bad, bad_len);
	return sizeof(pdu) + bad_len;
}

/* ---- names ---- */

const char *nvme_tcp_type_text(unsigned int type)
{
	const struct kind *kind = kind_of(type);

	return kind ? kind->name : "PDU of an unknown type";
}

static const char *fes_text(unsigned int fes)
{
	static const char *const names[] = {
		[NVME_TCP_FES_HEADER] = "Invalid PDU Header Field",
		[NVME_TCP_FES_SEQUENCE] = "PDU Sequence Error",
		[NVME_TCP_FES_HDGST] = "Header Digest Error",
		[NVME_TCP_FES_RANGE] = "Data Transfer Out of Range",
		[NVME_TCP_FES_LIMIT] = "Data Transfer or R2T Limit Exceeded",
		[NVME_TCP_FES_UNSUPPORTED] = "Unsupported Parameter",
	};

	return fes && fes < sizeof(names) / sizeof(names[0]) ? names[fes] : "Unknown Error";
}

/* Fields of the common header, and of ICReq. */
static const char *hdr_field_text(uint32_t offset)
{
	static const char *const names[] = {
		[TYPE_AT] = "PDU-Type", [FLAGS_AT] = "FLAGS", [HLEN_AT] = "HLEN",
		[PDO_AT] = "PDO",       [PLEN_AT] = "PLEN",
	};

	return offset < sizeof(names) / sizeof(names[0]) ? names[offset] : NULL;
}

const char *nvme_tcp_term_text(unsigned int fes, uint32_t fei, char buf[NVME_TCP_TERM_TEXT])
{
	const char *field = fes == NVME_TCP_FES_HEADER ? hdr_field_text(fei) : NULL;
	bool told = fes == NVME_TCP_FES_HEADER || fes == NVME_TCP_FES_UNSUPPORTED;

	if (field)
		snprintf(buf, NVME_TCP_TERM_TEXT, "%s (FES %u), %s (FEI %u)", fes_text(fes), fes,
			 field, fei);
	else if (told)
		snprintf(buf, NVME_TCP_TERM_TEXT, "%s (FES %u), offset %u (FEI)", fes_text(fes),
			 fes, fei);
	else
		snprintf(buf, NVME_TCP_TERM_TEXT, "%s (FES %u)", fes_text(fes), fes);
	return buf;
}
