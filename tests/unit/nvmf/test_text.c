/* SPDX-License-Identifier: BSD-3-Clause */
#include "suites.h"

#include <string.h>

#include "nvmf/text.h"

static const struct nvme_cmd_kind read_cmd = {NVME_CMDS_IO, nvme_cmd_read};

static const char *text_of(struct nvme_cmd_kind of, unsigned int sct, unsigned int sc)
{
	static char buf[NVME_STATUS_TEXT];

	return nvme_status_text(nvme_status(sct, sc), of, buf);
}

static const char *text(unsigned int sct, unsigned int sc)
{
	return text_of(read_cmd, sct, sc);
}

static void names_statuses(void)
{
	char buf[NVME_STATUS_TEXT];

	CU_ASSERT_STRING_EQUAL(text(0, 0), "Successful Completion (sct 0, sc 0x00)");
	CU_ASSERT_STRING_EQUAL(nvme_status_text(nvme_status_dnr(0, 0x0b), read_cmd, buf),
			       "Invalid Namespace or Format (sct 0, sc 0x0b, DNR)");
	CU_ASSERT_STRING_EQUAL(text(0, 0x80), "LBA Out of Range (sct 0, sc 0x80)");
	CU_ASSERT_STRING_EQUAL(text(2, 0x81), "Unrecovered Read Error (sct 2, sc 0x81)");
	CU_ASSERT_STRING_EQUAL(nvme_status_text(nvme_status_dnr(1, 0x84), NVME_CMD_CONNECT, buf),
			       "Connect Invalid Host (sct 1, sc 0x84, DNR)");
	CU_ASSERT_STRING_EQUAL(text(3, 0x02), "ANA Inaccessible (sct 3, sc 0x02)");
	CU_ASSERT_STRING_EQUAL(text(1, 0x04), "Unknown Status (sct 1, sc 0x04)");
	CU_ASSERT_STRING_EQUAL(text(7, 0x01), "Vendor Specific (sct 7, sc 0x01)");
	CU_ASSERT_STRING_EQUAL(text(5, 0x01), "Unknown Status (sct 5, sc 0x01)");
	CU_ASSERT_STRING_EQUAL(text(0, 0x7f), "Unknown Status (sct 0, sc 0x7f)");
	/* The wire form without phase bit keeps its meaning. */
	CU_ASSERT_STRING_EQUAL(
		nvme_status_text(nvme_status_from_wire(htole16(0x8004)), read_cmd, buf),
		"Invalid Field in Command (sct 0, sc 0x02, DNR)");
}

/* One value has different meanings for Connect, for Write, and none for other commands. */
static void names_statuses_of_the_command(void)
{
	const struct nvme_sqe connect = {.opcode = NVMF_OPCODE,
					 .fctype = nvme_fabrics_type_connect};
	const struct nvme_sqe write = {.opcode = nvme_cmd_write};
	const struct nvme_cmd_kind property = {NVME_CMDS_FABRICS, nvme_fabrics_type_property_get};
	const struct nvme_cmd_kind bye = {NVME_CMDS_FABRICS, nvme_fabrics_type_disconnect};
	const struct nvme_cmd_kind log = {NVME_CMDS_ADMIN, nvme_admin_get_log_page};

	CU_ASSERT_STRING_EQUAL(text_of(nvme_cmd_kind(true, &connect), 1, 0x82),
			       "Connect Invalid Parameters (sct 1, sc 0x82)");
	CU_ASSERT_STRING_EQUAL(text_of(nvme_cmd_kind(false, &write), 1, 0x82),
			       "Attempted Write to Read Only Range (sct 1, sc 0x82)");
	CU_ASSERT_STRING_EQUAL(text_of(NVME_CMD_UNKNOWN, 1, 0x82),
			       "Connect Invalid Parameters or Attempted Write to Read Only Range "
			       "(sct 1, sc 0x82)");
	CU_ASSERT_STRING_EQUAL(text_of(property, 1, 0x82), "Unknown Status (sct 1, sc 0x82)");
	CU_ASSERT_STRING_EQUAL(text_of(bye, 1, 0x85), "Invalid Queue Type (sct 1, sc 0x85)");
	CU_ASSERT_STRING_EQUAL(text_of(NVME_CMD_CONNECT, 1, 0x85),
			       "Unknown Status (sct 1, sc 0x85)");
	CU_ASSERT_STRING_EQUAL(text_of(log, 1, 0x09), "Invalid Log Page (sct 1, sc 0x09)");
	CU_ASSERT_STRING_EQUAL(text_of(log, 1, 0x90), "Discover Restart (sct 1, sc 0x90)");
	CU_ASSERT_STRING_EQUAL(text_of(NVME_CMD_CONNECT, 1, 0x91),
			       "Authentication Required (sct 1, sc 0x91)");
	CU_ASSERT_EQUAL(nvme_cmd_kind(true, &write).set, NVME_CMDS_ADMIN);
}

/* Every status fits into the buffer and has its number, for every command. */
static void every_status_has_a_text(void)
{
	char buf[NVME_STATUS_TEXT], tail[32];
	bool ok = true;

	for (unsigned int v = 0; v < 4 * 0x800; v++) {
		struct nvme_cmd_kind of = {(enum nvme_cmds)(v >> 11), 1};
		unsigned int sct = v >> 8 & 7, sc = v & 0xff;

		snprintf(tail, sizeof(tail), "(sct %x, sc 0x%02x, DNR)", sct, sc);
		nvme_status_text(nvme_status_dnr(sct, sc), of, buf);
		ok &= strstr(buf, tail) != NULL;
		ok &= buf[0] >= 'A' && buf[0] <= 'Z';
	}
	CU_ASSERT_TRUE(ok);
}

static void accepts_good_nqns(void)
{
	char nqn[NVMF_NQN_MAX + 2];

	CU_ASSERT_PTR_NULL(nvmf_nqn_error("nqn.2026-11.org.example:disk1"));
	CU_ASSERT_PTR_NULL(nvmf_nqn_error(NVMF_DISC_NQN));
	CU_ASSERT_PTR_NULL(nvmf_nqn_error("nqn.2014-08.org.nvmexpress:uuid:"
					  "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"));
	CU_ASSERT_PTR_NULL(nvmf_nqn_error("nqn.2026-01.org.example:caf\xc3\xa9"));
	CU_ASSERT_PTR_NULL(nvmf_nqn_error("nqn.2026-01.org.example:\xf0\x9f\x98\x80"));
	memset(nqn, 'x', sizeof(nqn));
	memcpy(nqn, "nqn.2026-11.org.example:", 24);
	nqn[NVMF_NQN_MAX] = '\0';
	CU_ASSERT_PTR_NULL(nvmf_nqn_error(nqn));
	nqn[NVMF_NQN_MAX] = 'x';
	nqn[NVMF_NQN_MAX + 1] = '\0';
	CU_ASSERT_STRING_EQUAL(nvmf_nqn_error(nqn), "is longer than 223 bytes");
}

static void says_what_is_wrong_with_an_nqn(void)
{
	static const char *const bad[][2] = {
		{"", "is empty"},
		{"disk1", "does not start with \"nqn.\""},
		{"iqn.2026-11.org.example:disk", "does not start with \"nqn.\""},
		{"nqn.", "has no date \"yyyy-mm.\" after \"nqn.\""},
		{"nqn.2026-13.org.example", "has no date \"yyyy-mm.\" after \"nqn.\""},
		{"nqn.2026-00.org.example", "has no date \"yyyy-mm.\" after \"nqn.\""},
		{"nqn.26-11.org.example", "has no date \"yyyy-mm.\" after \"nqn.\""},
		{"nqn.2026-11", "has no date \"yyyy-mm.\" after \"nqn.\""},
		{"nqn.2026-11.", "has no reverse domain name (such as org.example) after the date"},
		{"nqn.2026-11.:x",
		 "has no reverse domain name (such as org.example) after the date"},
		{"nqn.2026-11.org..example",
		 "has no reverse domain name (such as org.example) after the date"},
		{"nqn.2026-11.org.example:", "has nothing after the colon"},
		{"nqn.2026-11.org.example:a b", "contains a space or a control character"},
		{"nqn.2026-11.org.example:a\n", "contains a space or a control character"},
		{"nqn.2026-11.org.example:\xc2\x9b", "contains a space or a control character"},
		{"nqn.2026-11.org.example:\xff", "is not valid UTF-8"},
		{"nqn.2026-11.org.example:\xc0\x80", "is not valid UTF-8"},
		{"nqn.2026-11.org.example:\xe0\x80\x80", "is not valid UTF-8"},
		{"nqn.2026-11.org.example:\xed\xa0\x80", "is not valid UTF-8"},
		{"nqn.2026-11.org.example:\xe2\x82", "is not valid UTF-8"},
		{"nqn.2026-11.org.example:\xf4\x90\x80\x80", "is not valid UTF-8"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *error = nvmf_nqn_error(bad[i][0]);

		CU_ASSERT_PTR_NOT_NULL_FATAL(error);
		CU_ASSERT_STRING_EQUAL(error, bad[i][1]);
	}
}

int main(int argc, char **argv)
{
	static const struct t_case cases[] = {
		{"statuses have names", names_statuses},
		{"a status means what it does for its command", names_statuses_of_the_command},
		{"every status value has a text", every_status_has_a_text},
		{"valid NQNs are accepted", accepts_good_nqns},
		{"what is wrong with an NQN is said", says_what_is_wrong_with_an_nqn},
		{NULL, NULL},
	};
	const struct t_suite suites[] = {{.name = "text", .cases = cases},
					 {.name = "auth", .cases = t_auth_cases},
					 {.name = "tcp_pdu", .cases = t_tcp_pdu_cases},
					 {.name = "tls", .cases = t_tls_cases},
					 {.name = "tls_psk", .cases = t_tls_psk_cases},
					 {.name = NULL}};

	return t_run(argc, argv, suites);
}
