/* SPDX-License-Identifier: BSD-3-Clause */
#include "suites.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "util/sockaddr.h"

static const char *sockaddr_round_trip(const char *host, uint16_t port, char buf[RD_ADDR_TEXT])
{
	struct sockaddr_storage ss;

	if (rd_addr_parse(host, port, &ss))
		return "(refused)";
	return rd_addr_format((struct sockaddr *)&ss, buf);
}

static void parses_and_formats(void)
{
	struct sockaddr_storage ss;
	char buf[RD_ADDR_TEXT], want[RD_ADDR_TEXT], name[IF_NAMESIZE], host[64];

	CU_ASSERT_STRING_EQUAL(sockaddr_round_trip("127.0.0.1", 4420, buf), "127.0.0.1:4420");
	CU_ASSERT_STRING_EQUAL(sockaddr_round_trip("::1", 4420, buf), "[::1]:4420");
	CU_ASSERT_STRING_EQUAL(sockaddr_round_trip("[::1]", 65535, buf), "[::1]:65535");
	CU_ASSERT_STRING_EQUAL(sockaddr_round_trip("2001:DB8:0:0::1", 0, buf), "[2001:db8::1]:0");
	CU_ASSERT_STRING_EQUAL(sockaddr_round_trip("fe80::1%4000000", 1, buf),
			       "[fe80::1%4000000]:1");
	if (if_indextoname(1, name)) {
		snprintf(host, sizeof(host), "fe80::1%%%s", name);
		snprintf(want, sizeof(want), "[fe80::1%%%s]:1", name);
		CU_ASSERT_STRING_EQUAL(sockaddr_round_trip(host, 1, buf), want);
		CU_ASSERT_STRING_EQUAL(sockaddr_round_trip("[fe80::1%1]", 1, buf), want);
	}
	CU_ASSERT_EQUAL(rd_addr_parse("::1", 7, &ss), 0);
	CU_ASSERT_STRING_EQUAL(rd_addr_format_host((struct sockaddr *)&ss, buf), "::1");
	memset(&ss, 0, sizeof(ss));
	CU_ASSERT_STRING_EQUAL(rd_addr_format((struct sockaddr *)&ss, buf), "(address family 0)");
}

static void refuses_what_is_no_address(void)
{
	static const char *const bad[] = {
		"",          "localhost",
		"127.0.0",   "127.0.0.1.1",
		"256.0.0.1", "[127.0.0.1]",
		"[::1",      "::1]",
		"[]",        "127.0.0.1:4420",
		":::",       "fe80::1%",
		"::1%-1",    "::1%nosuchinterface0",
		"::1%12zz",  " 127.0.0.1",
	};
	struct sockaddr_storage ss;
	char long_text[200];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (rd_addr_parse(bad[i], 1, &ss) != -EINVAL)
			printf("# accepted \"%s\"\n", bad[i]);
		CU_ASSERT_EQUAL(rd_addr_parse(bad[i], 1, &ss), -EINVAL);
	}
	CU_ASSERT_EQUAL(rd_addr_parse("fe80::1%nosuchif0", 1, &ss), -ENODEV);
	memset(long_text, '1', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	CU_ASSERT_EQUAL(rd_addr_parse(long_text, 1, &ss), -EINVAL);
}

static void sockaddr_compares(void)
{
	struct sockaddr_storage a, b;
	struct sockaddr *sa = (struct sockaddr *)&a, *sb = (struct sockaddr *)&b;

	CU_ASSERT_EQUAL(rd_addr_parse("10.0.0.1", 1, &a), 0);
	CU_ASSERT_EQUAL(rd_addr_parse("10.0.0.1", 2, &b), 0);
	CU_ASSERT_FALSE(rd_addr_equal(sa, sb));
	rd_addr_set_port(sb, 1);
	CU_ASSERT_EQUAL(rd_addr_port(sb), 1);
	CU_ASSERT_TRUE(rd_addr_equal(sa, sb));
	CU_ASSERT_EQUAL(rd_addr_len(sa), sizeof(struct sockaddr_in));
	CU_ASSERT_EQUAL(rd_addr_parse("::", 1, &b), 0);
	CU_ASSERT_FALSE(rd_addr_equal(sa, sb));
	CU_ASSERT_TRUE(rd_addr_is_any(sb));
	CU_ASSERT_FALSE(rd_addr_is_any(sa));
	CU_ASSERT_EQUAL(rd_addr_parse("0.0.0.0", 1, &a), 0);
	CU_ASSERT_TRUE(rd_addr_is_any(sa));
	CU_ASSERT_EQUAL(rd_addr_parse("fe80::1%3", 1, &a), 0);
	CU_ASSERT_EQUAL(rd_addr_parse("fe80::1%4", 1, &b), 0);
	CU_ASSERT_FALSE(rd_addr_equal(sa, sb));
	CU_ASSERT_EQUAL(rd_addr_len(sb), sizeof(struct sockaddr_in6));
}

static uint64_t sockaddr_key_of(const char *text)
{
	struct sockaddr_storage ss;

	CU_ASSERT_EQUAL(rd_addr_parse(text, 1, &ss), 0);
	return rd_addr_key((struct sockaddr *)&ss);
}

static void sockaddr_keys(void)
{
	CU_ASSERT_EQUAL(sockaddr_key_of("10.0.0.1"), sockaddr_key_of("10.0.0.1"));
	CU_ASSERT_NOT_EQUAL(sockaddr_key_of("10.0.0.1"), sockaddr_key_of("10.0.0.2"));
	CU_ASSERT_EQUAL(sockaddr_key_of("10.0.0.1"), sockaddr_key_of("::ffff:10.0.0.1"));
	CU_ASSERT_EQUAL(sockaddr_key_of("fd00:0:0:1::1"), sockaddr_key_of("fd00:0:0:1:ffff::2"));
	CU_ASSERT_NOT_EQUAL(sockaddr_key_of("fd00:0:0:1::1"), sockaddr_key_of("fd00:0:0:2::1"));
	CU_ASSERT_NOT_EQUAL(sockaddr_key_of("fe80::1"), sockaddr_key_of("fe80::2"));
	CU_ASSERT_NOT_EQUAL(sockaddr_key_of("::1"), sockaddr_key_of("0.0.0.1"));
}

const struct t_case t_sockaddr_cases[] = {
	{"parses and formats IPv4 and IPv6", parses_and_formats},
	{"refuses what is no numeric address", refuses_what_is_no_address},
	{"compares family, address, port and scope", sockaddr_compares},
	{"keys of peers by address", sockaddr_keys},
	{NULL, NULL},
};
