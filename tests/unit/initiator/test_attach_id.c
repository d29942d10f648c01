/* SPDX-License-Identifier: BSD-3-Clause */
/* Identifiers of attached namespaces, which are names of links too. */
#include <CUnit/CUnit.h>
#include <string.h>

#include "attach/internal.h"
#include "suites.h"

#define ALLOWED "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_:"

static void identify(const char *nqn, uint32_t nsid, char id[RDI_ATTACH_ID])
{
	struct rdinit_dev_info ns;

	rdinit_dev_info_init(&ns);
	snprintf(ns.subnqn, sizeof(ns.subnqn), "%s", nqn);
	ns.nsid = nsid;
	rdi_attach_id(&ns, id);
	CU_ASSERT_EQUAL(strspn(id, ALLOWED), strlen(id));
	CU_ASSERT_TRUE(strlen("rdinit-") + strlen(id) + strlen("-part256") <= 255);
}

static void the_best_identifier_is_taken(void)
{
	struct rdinit_dev_info ns;
	char id[RDI_ATTACH_ID];

	rdinit_dev_info_init(&ns);
	snprintf(ns.subnqn, sizeof(ns.subnqn), "nqn.2024-01.test:x");
	ns.nsid = 7;
	rdi_attach_id(&ns, id);
	CU_ASSERT_STRING_EQUAL(id, "nqn.2024-01.test:x-7");
	memset(ns.eui64, 0xab, sizeof(ns.eui64));
	rdi_attach_id(&ns, id);
	CU_ASSERT_STRING_EQUAL(id, "eui.abababababababab");
	ns.nguid[15] = 1;
	rdi_attach_id(&ns, id);
	CU_ASSERT_STRING_EQUAL(id, "eui.00000000000000000000000000000001");
	ns.uuid[0] = 0xfe;
	rdi_attach_id(&ns, id);
	CU_ASSERT_STRING_EQUAL(id, "fe000000-0000-0000-0000-000000000000");
}

/* Each row: names that differ in a character that udev replaces, or in what stands for it. */
static void names_do_not_collide(void)
{
	static const struct {
		const char *nqn;
		uint32_t nsid;
	} rows[] = {
		{"nqn.2024-01.test:a_b", 1},       {"nqn.2024-01.test:a b", 1},
		{"nqn.2024-01.test:a+b", 1},       {"nqn.2024-01.test:a/b", 1},
		{"nqn.2024-01.test:a\xc3\xa4", 1}, {"nqn.2024-01.test:a\xc3\xb6", 1},
		{"nqn.2024-01.test:a__", 1},       {"nqn.2024-01.test:a+b", 2},
		{"nqn.2024-01.test:a+b-1", 2},     {"nqn.2024-01.test:a_b-1", 2},
		{"nqn.2024-01.test:a", 11},        {"nqn.2024-01.test:a-1", 1},
		{"nqn.2024-01.test:a%20b", 1},     {"nqn.2024-01.test:a%2fb", 1},
	};
	char id[sizeof(rows) / sizeof(rows[0])][RDI_ATTACH_ID], of_id[RDI_ATTACH_ID];
	size_t i, j;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		identify(rows[i].nqn, rows[i].nsid, id[i]);
		for (j = 0; j < i; j++)
			CU_ASSERT_STRING_NOT_EQUAL(id[i], id[j]);
	}
	/* An NQN that is the identifier of another one. */
	identify("nqn.2024-01.test:a+b", 1, id[0]);
	identify(id[0], 1, of_id);
	CU_ASSERT_STRING_NOT_EQUAL(id[0], of_id);
}

/* They are told apart by the hash where the part that fits is the same. */
static void long_names_fit(void)
{
	char nqn[2][224], id[2][RDI_ATTACH_ID];
	int i;

	for (i = 0; i < 2; i++) {
		memset(nqn[i], 'x', 223);
		memcpy(nqn[i], "nqn.2024-01.test:+", 18);
		nqn[i][222] = (char)('0' + i);
		nqn[i][223] = '\0';
		identify(nqn[i], UINT32_MAX - 1, id[i]);
	}
	CU_ASSERT_STRING_NOT_EQUAL(id[0], id[1]);
	nqn[0][17] = '_'; /* nothing is replaced: the whole NQN */
	identify(nqn[0], UINT32_MAX - 1, id[0]);
	CU_ASSERT_EQUAL(strncmp(id[0], nqn[0], 223), 0);
}

const struct t_case t_attach_id_cases[] = {
	{"the best identifier is taken", the_best_identifier_is_taken},
	{"names do not collide", names_do_not_collide},
	{"long names fit", long_names_fit},
	{NULL, NULL},
};
