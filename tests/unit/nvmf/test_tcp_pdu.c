/* SPDX-License-Identifier: BSD-3-Clause */
#include "suites.h"

#include <string.h>

#include "nvmf/tcp_pdu.h"

static const struct nvme_tcp_rules plain = {.from_host = true};
static const struct nvme_tcp_rules digests = {.from_host = true, .hdgst = true, .ddgst = true};

static struct nvme_tcp_hdr hdr_of(const char bytes[8])
{
	struct nvme_tcp_hdr hdr;

	memcpy(&hdr, bytes, sizeof(hdr));
	return hdr;
}

#define CHECK(bytes, rules)                         \
	struct nvme_tcp_hdr hdr = hdr_of(bytes);    \
	struct nvme_tcp_parts parts;                \
	struct nvme_tcp_error error = {0, 0, NULL}; \
	bool ok = nvme_tcp_check(&hdr, rules, &parts, &error)

static void refused(const char bytes[8], const struct nvme_tcp_rules *rules, uint32_t fei)
{
	CHECK(bytes, rules);

	CU_ASSERT_FALSE(ok);
	CU_ASSERT_EQUAL(error.fes, NVME_TCP_FES_HEADER);
	CU_ASSERT_EQUAL(error.fei, fei);
	CU_ASSERT_PTR_NOT_NULL(error.what);
}

static void accepted(const char bytes[8], const struct nvme_tcp_rules *rules,
		     struct nvme_tcp_parts want)
{
	CHECK(bytes, rules);

	CU_ASSERT_TRUE(ok);
	CU_ASSERT_EQUAL(parts.head, want.head);
	CU_ASSERT_EQUAL(parts.pad, want.pad);
	CU_ASSERT_EQUAL(parts.data, want.data);
	CU_ASSERT_EQUAL(parts.ddgst, want.ddgst);
}

/* As a Linux host and its target send them. */
static void builds_what_linux_sends(void)
{
	static const uint8_t req[16] = {0x00, 0x00, 0x80, 0x00, 0x80};
	static const uint8_t resp[16] = {0x01, 0, 0x80, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40};
	static const uint8_t zeros[112];
	struct nvme_tcp_icresp icresp;
	struct nvme_tcp_icreq icreq;

	nvme_tcp_build_icreq(&icreq, 0);
	CU_ASSERT_EQUAL(memcmp(&icreq, req, sizeof(req)), 0);
	CU_ASSERT_EQUAL(memcmp((uint8_t *)&icreq + 16, zeros, sizeof(zeros)), 0);
	nvme_tcp_build_icresp(&icresp, 0, 4u << 20);
	CU_ASSERT_EQUAL(memcmp(&icresp, resp, sizeof(resp)), 0);
	CU_ASSERT_EQUAL(memcmp((uint8_t *)&icresp + 16, zeros, sizeof(zeros)), 0);
}

static void builds_capsules(void)
{
	static const uint8_t connect[8] = {0x04, 0x00, 0x48, 0x48, 0x48, 0x04};
	static const uint8_t answer[8] = {0x05, 0x00, 0x18, 0x00, 0x18};
	uint8_t pdu[NVME_TCP_HEAD_MAX + NVME_TCP_PAD_MAX] = {0};

	CU_ASSERT_EQUAL(nvme_tcp_seal(pdu, NVME_TCP_CMD, 0, 1024, 0, false, false), 72);
	CU_ASSERT_EQUAL(memcmp(pdu, connect, sizeof(connect)), 0);
	CU_ASSERT_EQUAL(nvme_tcp_seal(pdu, NVME_TCP_RSP, 0, 0, 0, false, true), 24);
	CU_ASSERT_EQUAL(memcmp(pdu, answer, sizeof(answer)), 0);
}

/* With digests and padding: what is built is accepted, with the parts that it has. */
static void builds_what_it_accepts(void)
{
	struct nvme_tcp_rules rules = {.hdgst = true, .ddgst = true, .pda = 31};
	uint8_t pdu[NVME_TCP_HEAD_MAX + NVME_TCP_PAD_MAX];
	struct nvme_tcp_data *data = (void *)pdu;
	struct nvme_tcp_parts parts;
	struct nvme_tcp_error error;

	memset(pdu, 0xaa, sizeof(pdu));
	*data = (struct nvme_tcp_data){.cccid = htole16(7), .datal = htole32(512)};
	CU_ASSERT_EQUAL(nvme_tcp_seal(pdu, NVME_TCP_C2H_DATA, NVME_TCP_F_LAST, 512, 31, true, true),
			128);
	CU_ASSERT_EQUAL(data->hdr.flags, 0x07);
	CU_ASSERT_EQUAL(data->hdr.pdo, 128);
	CU_ASSERT_EQUAL(le32toh(data->hdr.plen), 128 + 512 + 4);
	CU_ASSERT_EQUAL(pdu[28], 0);
	CU_ASSERT_EQUAL(pdu[127], 0);
	CU_ASSERT_EQUAL(pdu[128], 0xaa);
	CU_ASSERT_TRUE_FATAL(nvme_tcp_check(&data->hdr, &rules, &parts, &error));
	CU_ASSERT_EQUAL(parts.head, 28);
	CU_ASSERT_EQUAL(parts.pad, 100);
	CU_ASSERT_EQUAL(parts.data, 512);
	CU_ASSERT_EQUAL(parts.ddgst, 4);
	CU_ASSERT_TRUE(nvme_tcp_check_hdgst(pdu, &error));
	CU_ASSERT_TRUE(nvme_tcp_check_data(data, &parts, &error));
	data->datal = htole32(513);
	CU_ASSERT_FALSE(nvme_tcp_check_data(data, &parts, &error));
	CU_ASSERT_EQUAL(error.fei, 16);
	CU_ASSERT_FALSE(nvme_tcp_check_hdgst(pdu, &error));
	CU_ASSERT_EQUAL(error.fes, NVME_TCP_FES_HDGST);
}

/* RFC 3720, B.4: the CRC of 32 bytes of zeros, and of 0 to 31. */
static void digest_is_crc32c(void)
{
	static const uint8_t of_zeros[4] = {0xaa, 0x36, 0x91, 0x8a};
	static const uint8_t of_numbers[4] = {0x4e, 0x79, 0xdd, 0x46};
	uint8_t in[32] = {0}, out[4];

	rd_crc32c_put(rd_crc32c(RD_CRC32C_SEED, in, sizeof(in)), out);
	CU_ASSERT_EQUAL(memcmp(out, of_zeros, sizeof(out)), 0);
	for (unsigned int i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)i;
	rd_crc32c_put(rd_crc32c(RD_CRC32C_SEED, in, sizeof(in)), out);
	CU_ASSERT_EQUAL(memcmp(out, of_numbers, sizeof(out)), 0);
}

static void accepts_good_headers(void)
{
	static const struct nvme_tcp_rules host = {.hdgst = false};

	accepted("\x00\x00\x80\x00\x80\0\0", &plain, (struct nvme_tcp_parts){128, 0, 0, 0});
	accepted("\x00\x00\x80\x00\x80\0\0", &digests, (struct nvme_tcp_parts){128, 0, 0, 0});
	accepted("\x04\x00\x48\x00\x48\0\0", &plain, (struct nvme_tcp_parts){72, 0, 0, 0});
	accepted("\x04\x00\x48\x48\x48\x04\0", &plain, (struct nvme_tcp_parts){72, 0, 1024, 0});
	accepted("\x04\x01\x48\x00\x4c\0\0", &digests, (struct nvme_tcp_parts){76, 0, 0, 0});
	accepted("\x04\x03\x48\x50\x54\x02\0", &digests, (struct nvme_tcp_parts){76, 4, 512, 4});
	accepted("\x06\x04\x18\x18\x18\x10\0", &plain, (struct nvme_tcp_parts){24, 0, 4096, 0});
	accepted("\x06\x00\x18\x18\x19\0\0", &plain, (struct nvme_tcp_parts){24, 0, 1, 0});
	accepted("\x02\x00\x18\x00\x98\0\0", &digests, (struct nvme_tcp_parts){24, 0, 128, 0});
	accepted("\x05\x00\x18\x00\x18\0\0", &host, (struct nvme_tcp_parts){24, 0, 0, 0});
	accepted("\x09\x00\x18\x00\x18\0\0", &host, (struct nvme_tcp_parts){24, 0, 0, 0});
	accepted("\x07\x0c\x18\x18\x19\0\0", &host, (struct nvme_tcp_parts){24, 0, 1, 0});
}

static void refuses_bad_headers(void)
{
	static const struct nvme_tcp_rules host = {.hdgst = false};
	static const struct nvme_tcp_rules aligned = {.from_host = true, .pda = 3};

	refused("\x0a\x00\x18\x00\x18\0\0", &plain, 0);
	refused("\x08\x00\x18\x00\x18\0\0", &plain, 0);
	refused("\x16\x03\x01\x02\x00\x01\0", &plain, 0); /* TLS */
	refused("MPA ID R", &plain, 0);
	refused("\xff\x00\x18\x00\x18\0\0", &plain, 0);
	refused("\x05\x00\x18\x00\x18\0\0", &plain, 0); /* of the other direction */
	refused("\x04\x00\x48\x00\x48\0\0", &host, 0);
	refused("\x04\x00\x47\x00\x48\0\0", &plain, 2);
	refused("\x04\x00\x49\x00\x49\0\0", &plain, 2);
	refused("\x04\x01\x48\x00\x4c\0\0", &plain, 1);
	refused("\x04\x02\x48\x48\x4d\0\0", &plain, 1);
	refused("\x04\x00\x48\x00\x48\0\0", &digests, 1);
	refused("\x04\x01\x48\x4c\x4d\0\0", &digests, 1); /* no data digest */
	refused("\x04\x03\x48\x00\x4c\0\0", &digests, 1); /* a data digest of nothing */
	refused("\x00\x01\x80\x00\x84\0\0", &digests, 1);
	refused("\x07\x08\x18\x18\x19\0\0", &host, 1); /* SUCCESS without LAST_PDU */
	refused("\x04\x00\x48\x00\x47\0\0", &plain, 4);
	refused("\x04\x00\x48\x00\x00\0\0", &plain, 4);
	refused("\x04\x00\x48\x44\x49\0\0", &plain, 3);
	refused("\x04\x00\x48\x49\x4a\0\0", &plain, 3);
	refused("\x04\x00\x48\x00\x49\0\0", &plain, 3);
	refused("\x04\x00\x48\x4c\x4c\0\0", &plain, 4);
	refused("\x04\x00\x48\x48\x58\0\0", &aligned, 3);
	refused("\x06\x00\x18\x18\x18\0\0", &plain, 4);
	refused("\x06\x03\x18\x1c\x20\0\0", &digests, 4);
	refused("\x00\x00\x80\x00\x81\0\0", &plain, 4);
	refused("\x02\x00\x18\x00\x17\0\0", &plain, 4);
	refused("\x02\x00\x18\x00\x99\0\0", &plain, 4);
	refused("\x05\x00\x18\x00\x19\0\0", &host, 4);
}

static void builds_a_term(void)
{
	static const uint8_t want[] = {0x03, 0, 24, 0, 32, 0, 0, 0, 1, 0, 4};
	static const struct nvme_tcp_error why = {NVME_TCP_FES_HEADER, 4, "PLEN"};
	uint8_t bad[200], buf[NVME_TCP_TERM_MAX];
	struct nvme_tcp_term term;

	memset(bad, 0x77, sizeof(bad));
	CU_ASSERT_EQUAL(nvme_tcp_build_term(buf, NVME_TCP_C2H_TERM, &why, bad, 8), 32);
	CU_ASSERT_EQUAL(memcmp(buf, want, sizeof(want)), 0);
	CU_ASSERT_EQUAL(memcmp(buf + 24, bad, 8), 0);
	memcpy(&term, buf, sizeof(term));
	CU_ASSERT_EQUAL(nvme_tcp_term_fei(&term), 4);
	CU_ASSERT_EQUAL(nvme_tcp_build_term(buf, NVME_TCP_C2H_TERM, &why, bad, sizeof(bad)), 152);
	CU_ASSERT_EQUAL(nvme_tcp_build_term(buf, NVME_TCP_H2C_TERM, &why, NULL, 0), 24);
	CU_ASSERT_EQUAL(buf[0], 0x02);
}

static void names_errors(void)
{
	char buf[NVME_TCP_TERM_TEXT];

	CU_ASSERT_STRING_EQUAL(nvme_tcp_term_text(1, 4, buf),
			       "Invalid PDU Header Field (FES 1), PLEN (FEI 4)");
	CU_ASSERT_STRING_EQUAL(nvme_tcp_term_text(6, 10, buf),
			       "Unsupported Parameter (FES 6), offset 10 (FEI)");
	CU_ASSERT_STRING_EQUAL(nvme_tcp_term_text(2, 0, buf), "PDU Sequence Error (FES 2)");
	CU_ASSERT_STRING_EQUAL(nvme_tcp_term_text(7, 0, buf), "Unknown Error (FES 7)");
	CU_ASSERT_STRING_EQUAL(nvme_tcp_term_text(0xffff, 0, buf), "Unknown Error (FES 65535)");
	CU_ASSERT_STRING_EQUAL(nvme_tcp_type_text(4), "CapsuleCmd");
	CU_ASSERT_STRING_EQUAL(nvme_tcp_type_text(8), "PDU of an unknown type");
	CU_ASSERT_STRING_EQUAL(nvme_tcp_type_text(200), "PDU of an unknown type");
}

const struct t_case t_tcp_pdu_cases[] = {
	{"PDUs are built as Linux sends them", builds_what_linux_sends},
	{"capsules are built", builds_capsules},
	{"what is built is accepted", builds_what_it_accepts},
	{"the digest is CRC32C", digest_is_crc32c},
	{"good headers are accepted", accepts_good_headers},
	{"bad headers are refused", refuses_bad_headers},
	{"a TermReq carries the offending header", builds_a_term},
	{"errors and types have names", names_errors},
	{NULL, NULL},
};
