/* SPDX-License-Identifier: BSD-3-Clause */
/* Reservations without a target: conflicts, the report and the file. The simulation has a model of
 * what each action does. */
#include <stdlib.h>
#include <string.h>

#include "base_suites.h"

#include "target/resv/reservation.h"

#define WE     NVME_RESERVATION_RTYPE_WE
#define EA     NVME_RESERVATION_RTYPE_EA
#define WERO   NVME_RESERVATION_RTYPE_WERO
#define EARO   NVME_RESERVATION_RTYPE_EARO
#define WEAR   NVME_RESERVATION_RTYPE_WEAR
#define EAAR   NVME_RESERVATION_RTYPE_EAAR

#define OK     0

#define KEY(n) (UINT64_C(0x8000000000000000) + (n)) /* of host n, unless stated otherwise */

static struct rdt_resv_state s;
static struct rdt_resv_effects fx;

static void host_id(unsigned int n, uint8_t id[RDT_RESV_HOST])
{
	memset(id, 0, RDT_RESV_HOST);
	id[0] = (uint8_t)(0xff - n); /* not in the order in which they register */
	id[15] = (uint8_t)n;
}

static unsigned int apply(unsigned int host, struct rdt_resv_op op)
{
	struct rdt_resv_state before = s;
	struct nvme_status st;

	host_id(host, op.host);
	st = rdt_resv_apply(&s, &op, &fx);
	if (!nvme_status_ok(st)) {
		CU_ASSERT_EQUAL(memcmp(&before, &s, sizeof(s)), 0);
		CU_ASSERT_EQUAL(fx.notes_count, 0);
		CU_ASSERT_EQUAL(fx.victims_count, 0);
	}
	return st.v & 0x7ff;
}

static unsigned int resv_reg(unsigned int host, uint64_t key)
{
	return apply(host, (struct rdt_resv_op){.action = RDT_RESV_REGISTER, .other_key = key});
}

static unsigned int resv_acquire(unsigned int host, unsigned int rtype)
{
	return apply(host, (struct rdt_resv_op){.action = RDT_RESV_ACQUIRE,
						.crkey = KEY(host),
						.rtype = (uint8_t)rtype});
}

static unsigned int clear(unsigned int host)
{
	return apply(host, (struct rdt_resv_op){.action = RDT_RESV_CLEAR, .crkey = KEY(host)});
}

static enum rdt_resv_role role(unsigned int host)
{
	uint8_t id[RDT_RESV_HOST];
	struct rdt_resv_snap *snap;
	enum rdt_resv_role found;

	host_id(host, id);
	CU_ASSERT_FATAL(rdt_resv_snap(&s, &snap) == 0);
	if (!snap)
		return rdt_resv_find(&s, id) ? RDT_RESV_REGISTRANT : RDT_RESV_NOT_REGISTRANT;
	found = rdt_resv_snap_role(snap, id);
	free(snap);
	return found;
}

/* Hosts 1 to @n registered with their keys. */
static void resv_start(unsigned int n)
{
	memset(&s, 0, sizeof(s));
	for (unsigned int i = 1; i <= n; i++)
		CU_ASSERT_EQUAL(resv_reg(i, KEY(i)), OK);
}

/* ---- registrants ---- */

static void full(void)
{
	resv_start(RDT_RESV_REGISTRANTS);
	CU_ASSERT_EQUAL(s.count, RDT_RESV_REGISTRANTS);
	CU_ASSERT_EQUAL(resv_reg(200, 1), NVME_SC_INTERNAL);
	CU_ASSERT_EQUAL(clear(1), OK);
	CU_ASSERT_EQUAL(fx.notes_count, RDT_RESV_REGISTRANTS - 1);
	CU_ASSERT_EQUAL(resv_reg(200, 1), OK);
}

/* ---- the matrix: NVMe Base 2.0, "Command Behavior in the Presence of a Reservation" ---- */

static void the_matrix(void)
{
	static const struct {
		unsigned int rtype;
		bool stranger_reads, stranger_writes, registrant_reads, registrant_writes;
	} rows[] = {
		{WE, true, false, true, false},  {EA, false, false, false, false},
		{WERO, true, false, true, true}, {EARO, false, false, true, true},
		{WEAR, true, false, true, true}, {EAAR, false, false, true, true},
	};
	static const uint8_t reads[] = {nvme_cmd_read, nvme_cmd_compare, nvme_cmd_verify};
	static const uint8_t writes[] = {nvme_cmd_flush,       nvme_cmd_write,
					 nvme_cmd_write_uncor, nvme_cmd_write_zeroes,
					 nvme_cmd_dsm,         nvme_cmd_copy};
	static const uint8_t free_cmds[] = {nvme_cmd_resv_register, nvme_cmd_resv_report,
					    nvme_cmd_resv_acquire, nvme_cmd_resv_release};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (size_t c = 0; c < sizeof(reads); c++) {
			enum rdt_resv_group g = rdt_resv_group(reads[c]);

			CU_ASSERT_EQUAL(rdt_resv_allows(rows[i].rtype, RDT_RESV_NOT_REGISTRANT, g),
					rows[i].stranger_reads);
			CU_ASSERT_EQUAL(rdt_resv_allows(rows[i].rtype, RDT_RESV_REGISTRANT, g),
					rows[i].registrant_reads);
			CU_ASSERT_TRUE(rdt_resv_allows(rows[i].rtype, RDT_RESV_HOLDER, g));
			CU_ASSERT_TRUE(rdt_resv_allows(0, RDT_RESV_NOT_REGISTRANT, g));
		}
		for (size_t c = 0; c < sizeof(writes); c++) {
			enum rdt_resv_group g = rdt_resv_group(writes[c]);

			CU_ASSERT_EQUAL(rdt_resv_allows(rows[i].rtype, RDT_RESV_NOT_REGISTRANT, g),
					rows[i].stranger_writes);
			CU_ASSERT_EQUAL(rdt_resv_allows(rows[i].rtype, RDT_RESV_REGISTRANT, g),
					rows[i].registrant_writes);
			CU_ASSERT_TRUE(rdt_resv_allows(rows[i].rtype, RDT_RESV_HOLDER, g));
			CU_ASSERT_TRUE(rdt_resv_allows(0, RDT_RESV_NOT_REGISTRANT, g));
		}
		for (size_t c = 0; c < sizeof(free_cmds); c++)
			CU_ASSERT_TRUE(rdt_resv_allows(rows[i].rtype, RDT_RESV_NOT_REGISTRANT,
						       rdt_resv_group(free_cmds[c])));
	}
}

/* ---- what reactors and hosts see ---- */

static void the_report(void)
{
	struct {
		struct nvme_resv_status head;
		struct nvme_registered_ctrl_ext regs[3];
	} page;
	uint8_t cut[100], id[RDT_RESV_HOST];

	resv_start(2);
	s.ptpl = true;
	CU_ASSERT_EQUAL(resv_acquire(2, WERO), OK);
	rdt_resv_report(&s, &page, sizeof(page));
	CU_ASSERT_EQUAL(le32toh(page.head.gen), 2);
	CU_ASSERT_EQUAL(page.head.rtype, WERO);
	CU_ASSERT_EQUAL(page.head.regctl[0], 2);
	CU_ASSERT_EQUAL(page.head.regctl[1], 0);
	CU_ASSERT_EQUAL(page.head.ptpls, 1);
	for (unsigned int i = 0; i < 2; i++) {
		host_id(i + 1, id);
		CU_ASSERT_EQUAL(le16toh(page.regs[i].cntlid), 0xffff);
		CU_ASSERT_EQUAL(page.regs[i].rcsts, i);
		CU_ASSERT_EQUAL(le64toh(page.regs[i].rkey), KEY(i + 1));
		CU_ASSERT_EQUAL(memcmp(page.regs[i].hostid, id, sizeof(id)), 0);
	}
	CU_ASSERT_EQUAL(page.regs[2].rkey, 0);
	for (size_t len = 0; len <= sizeof(cut); len += 4) {
		memset(cut, 0xee, sizeof(cut));
		rdt_resv_report(&s, cut, len);
		CU_ASSERT_EQUAL(memcmp(cut, &page, len), 0);
		CU_ASSERT_TRUE(len == sizeof(cut) || cut[len] == 0xee);
	}
}

/* ---- random walks ---- */

static uint32_t seed;

static unsigned int draw(unsigned int n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

static void check_snap(void)
{
	struct rdt_resv_snap *snap T_FREE = NULL;
	uint8_t id[RDT_RESV_HOST];

	CU_ASSERT_EQUAL_FATAL(rdt_resv_snap(&s, &snap), 0);
	CU_ASSERT_EQUAL(snap != NULL, s.rtype != 0);
	for (unsigned int h = 0; snap && h < 8; h++) {
		host_id(h, id);
		CU_ASSERT_EQUAL(rdt_resv_snap_role(snap, id), role(h));
	}
}

static const uint8_t uuid[16] = {0xf8, 0x1d, 0x4f, 0xae, 0x7d, 0xec, 0x11, 0xd0,
				 0xa7, 0x65, 0x00, 0xa0, 0xc9, 0x1e, 0x6b, 0xf6};

static void check_file(void)
{
	static struct rdt_resv_state back;
	char why[160], *text;

	CU_ASSERT_EQUAL_FATAL(rdt_resv_to_json(&s, uuid, &text), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_resv_from_json(text, strlen(text), uuid, &back, why, sizeof(why)),
			      0);
	CU_ASSERT_EQUAL(back.gen, s.gen);
	CU_ASSERT_EQUAL(back.rtype, s.rtype);
	CU_ASSERT_EQUAL(back.ptpl, s.ptpl);
	CU_ASSERT_EQUAL_FATAL(back.count, s.count);
	for (unsigned int i = 0; i < s.count; i++) {
		CU_ASSERT_EQUAL(memcmp(back.reg[i].host, s.reg[i].host, RDT_RESV_HOST), 0);
		CU_ASSERT_EQUAL(back.reg[i].key, s.reg[i].key);
		CU_ASSERT_EQUAL(back.reg[i].holder, s.reg[i].holder);
	}
	free(text);
}

/* After random actions: at most one holder, no host twice, and file and snapshot agree with the
 * state. */
static void random_walks(void)
{
	for (unsigned int walk = 0; walk < 40; walk++) {
		seed = walk + 1;
		resv_start(0);
		for (unsigned int i = 0; i < 300; i++) {
			unsigned int host = draw(8), holders = 0;
			struct rdt_resv_op op = {
				.action = (uint8_t)draw(RDT_RESV_PERSIST + 1),
				.rtype = (uint8_t)(1 + draw(6)),
				.cptpl = (uint8_t)(draw(2) ? 0 : 2 + draw(2)),
				.iekey = draw(8) == 0,
				.crkey = KEY(draw(4) ? host : draw(8)),
				.other_key = draw(10) ? KEY(draw(2) ? host : draw(8)) : 0,
			};

			apply(host, op);
			for (unsigned int r = 0; r < s.count; r++) {
				holders += s.reg[r].holder;
				CU_ASSERT_PTR_EQUAL(rdt_resv_find(&s, s.reg[r].host), &s.reg[r]);
				CU_ASSERT_NOT_EQUAL(s.reg[r].key, 0);
			}
			CU_ASSERT_EQUAL(holders, s.rtype && s.rtype < WEAR);
			CU_ASSERT_TRUE(s.rtype == 0 || s.count > 0);
			check_snap();
			check_file();
		}
	}
}

/* ---- the file ---- */

#define HOST1 "00112233445566778899aabbccddeeff"
#define FILE_TEXT(version, id, gen, type, regs)                                      \
	"{\"version\": " version ", \"namespace\": \"" id "\", \"generation\": " gen \
	", \"type\": " type ", \"persist\": true, \"registrants\": [" regs "]}"
#define GOOD_ID "f81d4fae7dec11d0a76500a0c91e6bf6"
#define REG(host, key, holder) \
	"{\"host\": \"" host "\", \"key\": \"" key "\", \"holder\": " holder "}"

static void bad_files_are_refused_with_the_reason(void)
{
	static const struct {
		const char *text;
		const char *why; /* NULL: good */
	} rows[] = {
		{FILE_TEXT("1", GOOD_ID, "7", "1", REG(HOST1, "0xffffffffffffffff", "true")), NULL},
		{"", "line 1"},
		{"{", "line 1"},
		{"[]", "object"},
		{FILE_TEXT("2", GOOD_ID, "7", "0", ""), "version 2"},
		{FILE_TEXT("1", HOST1, "7", "0", ""), "namespace"},
		{FILE_TEXT("1", GOOD_ID, "-1", "0", ""), "generation"},
		{FILE_TEXT("1", GOOD_ID, "4294967296", "0", ""), "generation"},
		{FILE_TEXT("1", GOOD_ID, "1", "7", ""), "type 7"},
		{FILE_TEXT("1", GOOD_ID, "1", "-1", ""), "type -1"},
		{FILE_TEXT("1", GOOD_ID, "1", "1", ""), "without registrants"},
		{FILE_TEXT("1", GOOD_ID, "1", "1", REG(HOST1, "0x1", "false")), "0 holders"},
		{FILE_TEXT("1", GOOD_ID, "1", "5", REG(HOST1, "0x1", "true")), "1 holders"},
		{FILE_TEXT("1", GOOD_ID, "1", "0", REG(HOST1, "0x1", "true")), "1 holders"},
		{FILE_TEXT("1", GOOD_ID, "1", "0", REG("0011", "0x1", "false")), "host"},
		{FILE_TEXT("1", GOOD_ID, "1", "0", REG(HOST1, "0x0", "false")), "key"},
		{FILE_TEXT("1", GOOD_ID, "1", "0", REG(HOST1, "12", "false")), "key"},
		{FILE_TEXT("1", GOOD_ID, "1", "0", REG(HOST1, "0x10000000000000000", "false")),
		 "key"},
		{FILE_TEXT("1", GOOD_ID, "1", "0",
			   REG(HOST1, "0x1", "false") ", " REG(HOST1, "0x2", "false")),
		 "twice"},
		{FILE_TEXT("1", GOOD_ID, "1", "0", "{\"host\": \"" HOST1 "\"}"), "lacks"},
		{FILE_TEXT("1", GOOD_ID, "1", "0", "3"), "lacks"},
	};
	static struct rdt_resv_state back;
	char why[160];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int rc;

		why[0] = 0;
		rc = rdt_resv_from_json(rows[i].text, strlen(rows[i].text), uuid, &back, why,
					sizeof(why));
		CU_ASSERT_EQUAL(rc != 0, rows[i].why != NULL);
		if (rows[i].why && !strstr(why, rows[i].why)) {
			printf("# row %zu: %s\n", i, why);
			CU_FAIL("the reason does not name what is wrong");
		}
	}
	CU_ASSERT_EQUAL(back.count, 0); /* nothing of a bad file is kept */
	rdt_resv_from_json(rows[0].text, strlen(rows[0].text), uuid, &back, why, sizeof(why));
	CU_ASSERT_EQUAL(back.gen, 7);
	CU_ASSERT_EQUAL(back.reg[0].key, UINT64_MAX);
	CU_ASSERT_TRUE(back.reg[0].holder);
}

/* A name with many Host Identifiers leaves room for others. */
static void a_name_has_a_limit(void)
{
	struct rdt_resv_op op = {.action = RDT_RESV_REGISTER, .other_key = 1, .name = 7};

	memset(&s, 0, sizeof(s));
	for (unsigned int host = 1; host <= RDT_RESV_OF_NAME; host++)
		CU_ASSERT_EQUAL(apply(host, op), 0);
	CU_ASSERT_EQUAL(apply(100, op), NVME_SC_INTERNAL);
	CU_ASSERT_EQUAL(apply(1, op), 0); /* it is a registrant already */
	op.name = 8;
	CU_ASSERT_EQUAL(apply(100, op), 0);
	op.name = 7;
	CU_ASSERT_EQUAL(apply(1, (struct rdt_resv_op){.action = RDT_RESV_UNREGISTER, .crkey = 1}),
			0);
	CU_ASSERT_EQUAL(apply(101, op), 0);
}

const struct t_case t_reservation_cases[] = {
	{"a name has a limit of registrants", a_name_has_a_limit},
	{"a full table is refused", full},
	{"conflicts: types, roles, commands", the_matrix},
	{"the report", the_report},
	{"random walks keep the state sound", random_walks},
	{"bad files are refused with the reason", bad_files_are_refused_with_the_reason},
	{NULL, NULL},
};
