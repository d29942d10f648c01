/* SPDX-License-Identifier: BSD-3-Clause */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "internal.h"
#include "suites.h"

static char dir[sizeof("/tmp/rdinit-host-XXXXXX")];

static char *make_dir(void)
{
	strcpy(dir, "/tmp/rdinit-host-XXXXXX");
	return mkdtemp(dir);
}

static const char *put(const char *name, const char *text, char *path, size_t len)
{
	FILE *f;

	snprintf(path, len, "%s/%s", dir, name);
	f = fopen(path, "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	fputs(text, f);
	fclose(f);
	return path;
}

static void sources(void)
{
	char nqn_path[64], id_path[64], machine[64];
	struct rdi_host_files files = {"/nonexistent", "/nonexistent", "/nonexistent"};
	struct rdi_host a, b;
	char text[UUID_STR_LEN];
	const char *why = NULL;

	CU_ASSERT_PTR_NOT_NULL_FATAL(make_dir());
	/* no file: random, with an NQN made of the identifier */
	CU_ASSERT_EQUAL(rdi_host_init(&a, NULL, NULL, &files, &why), 0);
	CU_ASSERT_EQUAL(rdi_host_init(&b, NULL, NULL, &files, &why), 0);
	CU_ASSERT_NOT_EQUAL(memcmp(a.id, b.id, 16), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(a.text, "/nonexistent does not exist"));
	uuid_unparse_lower(a.id, text);
	CU_ASSERT_PTR_NOT_NULL(strstr(a.nqn, text));
	/* from the machine ID: stable, and different from the machine ID */
	files.machine_id =
		put("machine-id", "0123456789abcdef0123456789abcdef\n", machine, sizeof(machine));
	CU_ASSERT_EQUAL(rdi_host_init(&a, NULL, NULL, &files, &why), 0);
	CU_ASSERT_EQUAL(rdi_host_init(&b, NULL, NULL, &files, &why), 0);
	CU_ASSERT_EQUAL(memcmp(a.id, b.id, 16), 0);
	CU_ASSERT_PTR_NULL(strstr(a.nqn, "01234567"));
	/* the files take precedence */
	files.hostid =
		put("hostid", "00112233-4455-6677-8899-aabbccddeeff \n", id_path, sizeof(id_path));
	files.hostnqn = put("hostnqn", "nqn.2024-01.test:host\n", nqn_path, sizeof(nqn_path));
	CU_ASSERT_EQUAL(rdi_host_init(&a, NULL, NULL, &files, &why), 0);
	CU_ASSERT_EQUAL(a.id[15], 0xff);
	CU_ASSERT_STRING_EQUAL(a.nqn, "nqn.2024-01.test:host");
	/* the caller's values take precedence over all, if they are well-formed */
	CU_ASSERT_EQUAL(rdi_host_init(&a, "nqn.2024-01.test:me", NULL, &files, &why), 0);
	CU_ASSERT_STRING_EQUAL(a.nqn, "nqn.2024-01.test:me");
	CU_ASSERT_EQUAL(rdi_host_init(&a, "me", NULL, &files, &why), -EINVAL);
	CU_ASSERT_EQUAL(rdi_host_init(&a, NULL, "me", &files, &why), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(why);
	CU_ASSERT_EQUAL(
		rdi_host_init(&a, NULL, "00000000-0000-0000-0000-000000000000", &files, &why),
		-EINVAL);
	unlink(nqn_path);
	unlink(id_path);
	unlink(machine);
	rmdir(dir);
}

#define UUID_NQN "nqn.2014-08.org.nvmexpress:uuid:"

/* Files that do not identify this host: "%s" of @why is the path. */
static void unusable_files(void)
{
	static const struct {
		const char *nqn, *id, *machine;
		const char *why; /* NULL: accepted */
		const char *warning;
	} rows[] = {
		{NULL, NULL, "uninitialized\n", NULL, "machine-id is uninitialized"},
		{NULL, NULL, "", NULL, "machine-id is empty"},
		{NULL, NULL, "0123\n", "machine-id:1: found \"0123\"", NULL},
		{NULL, "not a uuid\n", NULL, "hostid:1: found \"not a uuid\"", NULL},
		{NULL, "00000000-0000-0000-0000-000000000000\n", NULL, "hostid:1: found", NULL},
		{NULL, "\n", NULL, "hostid:1: found \"\"", NULL},
		{"garbage\n", NULL, NULL, "hostnqn:1: found \"garbage\"", NULL},
		{NULL, NULL, "00000000000000000000000000000000\n", "machine-id:1: found \"0000",
		 NULL},
		{UUID_NQN "zzz\n", NULL, NULL, "hostnqn:1: the host NQN \"" UUID_NQN "zzz\" has no",
		 NULL},
		{UUID_NQN "00000000-0000-0000-0000-000000000000\n", NULL, NULL, "hostnqn:1: the",
		 NULL},
	};

	CU_ASSERT_PTR_NOT_NULL_FATAL(make_dir());
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rdi_host_files files = {"/nonexistent", "/nonexistent", "/nonexistent"};
		char nqn[64] = "", id[64] = "", machine[64] = "";
		struct rdi_host a, b;
		const char *why = "";
		int rc;

		if (rows[i].nqn)
			files.hostnqn = put("hostnqn", rows[i].nqn, nqn, sizeof(nqn));
		if (rows[i].id)
			files.hostid = put("hostid", rows[i].id, id, sizeof(id));
		if (rows[i].machine)
			files.machine_id =
				put("machine-id", rows[i].machine, machine, sizeof(machine));
		rc = rdi_host_init(&a, NULL, NULL, &files, &why);
		CU_ASSERT_EQUAL(rc, rows[i].why ? -EINVAL : 0);
		if (rows[i].why) {
			CU_ASSERT_PTR_NOT_NULL(strstr(why, rows[i].why));
		} else {
			/* Two machines that boot for the first time are two hosts. */
			CU_ASSERT_PTR_NOT_NULL(strstr(a.text, rows[i].warning));
			CU_ASSERT_EQUAL(rdi_host_init(&b, NULL, NULL, &files, &why), 0);
			CU_ASSERT_NOT_EQUAL(memcmp(a.id, b.id, 16), 0);
		}
		unlink(nqn);
		unlink(id);
		unlink(machine);
	}
	rmdir(dir);
}

/* Without a host identifier, that of the host NQN: two NQNs on one machine are two hosts. */
static void uuid_of_the_nqn(void)
{
	static const char nqn[] =
		"nqn.2014-08.org.nvmexpress:uuid:00112233-4455-6677-8899-aabbccddeeff";
	struct rdi_host_files files = {"/nonexistent", "/nonexistent", "/nonexistent"};
	struct rdi_host a;
	const char *why;

	CU_ASSERT_EQUAL(rdi_host_init(&a, nqn, NULL, &files, &why), 0);
	CU_ASSERT_EQUAL(a.id[0], 0x00);
	CU_ASSERT_EQUAL(a.id[1], 0x11);
	CU_ASSERT_EQUAL(a.id[15], 0xff);
	CU_ASSERT_STRING_EQUAL(a.text, "");
	CU_ASSERT_EQUAL(rdi_host_init(&a,
				      "nqn.2024-01.test:rack:uuid:"
				      "10112233-4455-6677-8899-aabbccddeeff",
				      NULL, &files, &why),
			0);
	CU_ASSERT_EQUAL(a.id[0], 0x10);
	CU_ASSERT_EQUAL(rdi_host_init(&a, "nqn.2024-01.test:rack:uuid:1", NULL, &files, &why),
			-EINVAL);
}

/* Reservations know hosts by the identifier: those of other NQNs must not be one. */
static void nqns_without_a_uuid(void)
{
	struct rdi_host_files files = {"/nonexistent", "/nonexistent", "/nonexistent"};
	char machine[64];
	struct rdi_host a, b;
	const char *why;

	CU_ASSERT_PTR_NOT_NULL_FATAL(make_dir());
	files.machine_id =
		put("machine-id", "0123456789abcdef0123456789abcdef\n", machine, sizeof(machine));
	CU_ASSERT_EQUAL(rdi_host_init(&a, "nqn.2024-01.test:a", NULL, &files, &why), 0);
	CU_ASSERT_EQUAL(rdi_host_init(&b, "nqn.2024-01.test:b", NULL, &files, &why), 0);
	CU_ASSERT_NOT_EQUAL(memcmp(a.id, b.id, 16), 0);
	CU_ASSERT_EQUAL(rdi_host_init(&b, "nqn.2024-01.test:a", NULL, &files, &why), 0);
	CU_ASSERT_EQUAL(memcmp(a.id, b.id, 16), 0);
	unlink(machine);
	rmdir(dir);
}

const struct t_case t_host_cases[] = {
	{"files that identify no host are refused, or named in a warning", unusable_files},
	{"a host NQN with a UUID gives the host identifier", uuid_of_the_nqn},
	{"two host NQNs of one machine are two hosts", nqns_without_a_uuid},
	{"the identity comes from options, files, machine, chance, in that order", sources},
	{NULL, NULL},
};
