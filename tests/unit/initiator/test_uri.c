/* SPDX-License-Identifier: BSD-3-Clause */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <string.h>

#include "nvmf/text.h"
#include "rdinit.h"
#include "suites.h"

#define NQN "nqn.2024-01.test:x"

static void good(void)
{
	static const struct {
		const char *text, *host, *port, *nqn;
		uint32_t nsid;
	} rows[] = {
		{"nvme+rdma://192.0.2.1/" NQN, "192.0.2.1", "4420", NQN, 0},
		{"nvme+rdma://192.0.2.1/" NQN "/7", "192.0.2.1", "4420", NQN, 7},
		{"nvme+rdma://192.0.2.1:1/" NQN "/", "192.0.2.1", "1", NQN, 0},
		{"NVMe+RDMA://a.example:65535/" NQN, "a.example", "65535", NQN, 0},
		{"nvme+rdma://[2001:db8::1]:4421/" NQN "/4294967294", "2001:db8::1", "4421", NQN,
		 4294967294u},
		{"nvme+rdma://[fe80::1%25lo]/" NQN, "fe80::1%lo", "4420", NQN, 0},
		{"nvme+rdma://[fe80::1%lo]/" NQN, "fe80::1%lo", "4420", NQN, 0},
		{"nvme+rdma://h", "h", "4420", "", 0},
		{"nvme+rdma://h/", "h", "4420", "", 0},
		{"nvme+rdma://h/blktests-subsystem-1/2", "h", "4420", "blktests-subsystem-1", 2},
		{"nvme+rdma://h/nqn.2024-01.test%3Ax%2fy", "h", "4420", NQN "/y", 0},
		{"nvme+rdma://%61/" NQN, "a", "4420", NQN, 0},
	};
	static const char tcp[] = "nvme+tcp://h/" NQN "/7";
	static const char *const endings[] = {"", "/", "/" NQN, "/" NQN "/7"};
	struct rdinit_uri u;
	char text[200];
	size_t i;

	for (i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		snprintf(text, sizeof(text), "nvme+rdma://h:1%s?no-remote-invalidate", endings[i]);
		rdinit_uri_init(&u);
		CU_ASSERT_EQUAL(rdinit_uri_parse(text, &u), 0);
		CU_ASSERT_STRING_EQUAL(u.trsvcid, "1");
		CU_ASSERT_EQUAL(u.nsid, i == 3 ? 7 : 0);
		CU_ASSERT_TRUE(u.no_remote_invalidate);
	}
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		rdinit_uri_init(&u);
		CU_ASSERT_EQUAL(rdinit_uri_parse(rows[i].text, &u), 0);
		CU_ASSERT_FALSE(u.no_remote_invalidate);
		CU_ASSERT_STRING_EQUAL(u.traddr, rows[i].host);
		CU_ASSERT_STRING_EQUAL(u.trsvcid, rows[i].port);
		CU_ASSERT_STRING_EQUAL(u.subnqn, rows[i].nqn);
		CU_ASSERT_EQUAL(u.nsid, rows[i].nsid);
		CU_ASSERT_FALSE(u.tcp);
		CU_ASSERT_EQUAL(u.no_port, strcmp(rows[i].port, "4420") == 0 &&
						   !strstr(rows[i].text, ":4420"));
	}
	rdinit_uri_init(&u);
	CU_ASSERT_EQUAL(rdinit_uri_parse(tcp, &u), 0);
	CU_ASSERT_TRUE(u.tcp);
	CU_ASSERT_STRING_EQUAL(u.traddr, "h");
	CU_ASSERT_EQUAL(u.nsid, 7);
}

static void bad(void)
{
	/* the text, and a word that the reason contains */
	static const char *const rows[][2] = {
		{"", "nvme+rdma"},
		{"nvme+fc://h/" NQN, "nvme+tcp"},
		{"nvme+rdma:/h/" NQN, "nvme+rdma"},
		{"nvme+rdma:///" NQN, "host"},
		{"nvme+rdma://:4420/" NQN, "host"},
		{"nvme+rdma://u@h/" NQN, "user"},
		{"nvme+rdma://h:/" NQN, "port"},
		{"nvme+rdma://h:0/" NQN, "port"},
		{"nvme+rdma://h:65536/" NQN, "port"},
		{"nvme+rdma://h:44a/" NQN, "port"},
		{"nvme+rdma://h:123456789/" NQN, "port"},
		{"nvme+rdma://2001:db8::1/" NQN, "bracket"},
		{"nvme+rdma://2001%3Adb8%3A%3A1/" NQN, "bracket"},
		{"nvme+rdma://[2001:db8::1/" NQN, "]"},
		{"nvme+rdma://[192.0.2.1]/" NQN, "IPv6"},
		{"nvme+rdma://[::1]x/" NQN, "port"},
		{"nvme+rdma://h%4/" NQN, "%"},
		{"nvme+rdma://h%00/" NQN, "%00"},
		{"nvme+rdma://h//1", "NQN"},
		{"nvme+rdma://h/nqn.2024-01.test:%zz", "%"},
		{"nvme+rdma://h/a%20disk", "NQN"},
		{"nvme+rdma://h/" NQN "/0", "namespace"},
		{"nvme+rdma://h/" NQN "/4294967295", "namespace"},
		{"nvme+rdma://h/" NQN "/1/2", "namespace"},
		{"nvme+rdma://h/" NQN "/-1", "namespace"},
		{"nvme+rdma://h/" NQN "?a=b", "?"},
		{"nvme+rdma://h?", "?"},
		{"nvme+rdma://h/" NQN "?no-remote-invalidate&x", "?"},
		{"nvme+rdma://h/" NQN "/1#x", "#"},
		{"nvme+rdma://h/" NQN "/11111111111111111111", "namespace"},
	};
	struct rdinit_uri u;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		rdinit_uri_init(&u);
		u.nsid = 99;
		CU_ASSERT_EQUAL(rdinit_uri_parse(rows[i][0], &u), -EINVAL);
		CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), rows[i][1]));
		if (!strstr(rdinit_get_error(), rows[i][1]))
			printf("# \"%s\": %s\n", rows[i][0], rdinit_get_error());
		CU_ASSERT_EQUAL(u.nsid, 99); /* unchanged on failure */
	}
}

static void too_long(void)
{
	char text[700] = "nvme+rdma://h/nqn.2024-01.test:", longer[3000] = "";
	struct rdinit_uri u;

	memset(text + strlen(text), 'a', 223 - strlen("nqn.2024-01.test:"));
	rdinit_uri_init(&u);
	CU_ASSERT_EQUAL(rdinit_uri_parse(text, &u), 0);
	CU_ASSERT_EQUAL(strlen(u.subnqn), 223);
	strcat(text, "a");
	CU_ASSERT_EQUAL(rdinit_uri_parse(text, &u), -EINVAL);
	memset(longer, 'a', sizeof(longer) - 1);
	memcpy(longer, text, strlen("nvme+rdma://h/"));
	CU_ASSERT_EQUAL(rdinit_uri_parse(longer, &u), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), "...\": the subsystem NQN is too long"));
	memset(text + strlen("nvme+rdma://"), 'h', 300);
	CU_ASSERT_EQUAL(rdinit_uri_parse(text, &u), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_uri_parse(NULL, &u), -EINVAL);
}

/* What comes back from the text of these parts. */
static void goes_and_comes_back(const char *host, const char *nqn, uint32_t nsid)
{
	static const char plain[] = "0123456789abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ-._~:%[]/";
	char text[RDINIT_URI_SIZE];
	struct rdinit_uri u, back;

	rdinit_uri_init(&u);
	rdinit_uri_init(&back);
	snprintf(u.traddr, sizeof(u.traddr), "%s", host);
	snprintf(u.trsvcid, sizeof(u.trsvcid), "4421");
	snprintf(u.subnqn, sizeof(u.subnqn), "%s", nqn);
	u.nsid = nsid;
	CU_ASSERT_EQUAL_FATAL(rdinit_uri_format(&u, text), 0);
	CU_ASSERT_EQUAL_FATAL(rdinit_uri_parse(text, &back), 0);
	CU_ASSERT_STRING_EQUAL(back.traddr, u.traddr);
	CU_ASSERT_STRING_EQUAL(back.trsvcid, u.trsvcid);
	CU_ASSERT_STRING_EQUAL(back.subnqn, nqn);
	CU_ASSERT_EQUAL(back.nsid, nsid);
	CU_ASSERT_EQUAL(strspn(text + strlen("nvme+rdma"), plain),
			strlen(text) - strlen("nvme+rdma"));
}

static void every_nqn_comes_back(void)
{
	static const char *const hosts[] = {"192.0.2.1", "::1", "fe80::1%lo", "h.example",
					    "a/b c,%"};
	char nqn[RDINIT_NQN_SIZE];
	unsigned int seed = 1, i, n, tried = 0;

	goes_and_comes_back("h", "nqn.2024-01.test:db%2D1", 1);
	goes_and_comes_back("h", "nqn.2024-01.test:pool/vol1", 1);
	goes_and_comes_back("h", "", 0);
	for (i = 0; i < 20000; i++) {
		for (n = 0; n < 1 + i % (RDINIT_NQN_SIZE - 1); n++) {
			seed = seed * 1103515245u + 12345;
			/* Half of the bytes are those with a meaning in URIs. */
			nqn[n] = seed >> 16 & 1 ? "%/?#@:,25+ &=[]\xc3\xa4"[(seed >> 17) % 18]
						: (char)(seed >> 18);
		}
		nqn[n] = '\0';
		if (nvmf_nqn_unusable(nqn)) /* mostly by an invalid byte: leave visible ASCII */
			for (n = 0; nqn[n]; n++)
				nqn[n] = (char)('!' + (unsigned char)nqn[n] % ('~' - '!' + 1));
		if (nvmf_nqn_unusable(nqn))
			continue; /* began with a NUL */
		tried++;
		goes_and_comes_back(hosts[i % 5], nqn, i % 3 ? i : 0);
	}
	CU_ASSERT(tried > 10000);
}

static void what_no_uri_can_say_is_refused(void)
{
	char text[RDINIT_URI_SIZE];
	struct rdinit_uri u;

	rdinit_uri_init(&u);
	CU_ASSERT_EQUAL(rdinit_uri_format(&u, text), -EINVAL); /* no host */
	snprintf(u.traddr, sizeof(u.traddr), "h");
	CU_ASSERT_EQUAL(rdinit_uri_format(&u, text), 0);
	CU_ASSERT_STRING_EQUAL(text, "nvme+rdma://h:4420");
	u.nsid = 1;
	CU_ASSERT_EQUAL(rdinit_uri_format(&u, text), -EINVAL); /* a namespace of no subsystem */
	snprintf(u.subnqn, sizeof(u.subnqn), "a b");
	CU_ASSERT_EQUAL(rdinit_uri_format(&u, text), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_uri_format(NULL, text), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_uri_format(&u, NULL), -EINVAL);
}

const struct t_case t_uri_cases[] = {
	{"every legal NQN comes back from its URI", every_nqn_comes_back},
	{"parts that no URI can have are refused", what_no_uri_can_say_is_refused},
	{"well-formed addresses give their parts", good},
	{"malformed addresses are refused with the part that is wrong", bad},
	{"an NQN of 223 bytes fits, one of 224 does not", too_long},
	{NULL, NULL},
};
