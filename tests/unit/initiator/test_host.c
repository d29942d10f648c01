/* SPDX-License-Identifier: BSD-3-Clause */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "internal.h"
#include "suites.h"

static char dir[] = "/tmp/rdinit-host-XXXXXX";

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

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	/* no file: random, with an NQN made of the identifier */
	CU_ASSERT_EQUAL(rdi_host_init(&a, NULL, NULL, &files, &why), 0);
	CU_ASSERT_EQUAL(rdi_host_init(&b, NULL, NULL, &files, &why), 0);
	CU_ASSERT_NOT_EQUAL(memcmp(a.id, b.id, 16), 0);
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
	/* malformed files are ignored */
	put("hostid", "not a uuid\n", id_path, sizeof(id_path));
	put("hostnqn", "garbage\n", nqn_path, sizeof(nqn_path));
	CU_ASSERT_EQUAL(rdi_host_init(&a, NULL, NULL, &files, &why), 0);
	CU_ASSERT_EQUAL(memcmp(a.id, b.id, 16), 0);
	CU_ASSERT_STRING_EQUAL(a.nqn, b.nqn);
	/* the caller's values take precedence over all, if they are well-formed */
	CU_ASSERT_EQUAL(rdi_host_init(&a, "nqn.2024-01.test:me", NULL, &files, &why), 0);
	CU_ASSERT_STRING_EQUAL(a.nqn, "nqn.2024-01.test:me");
	CU_ASSERT_EQUAL(rdi_host_init(&a, "me", NULL, &files, &why), -EINVAL);
	CU_ASSERT_EQUAL(rdi_host_init(&a, NULL, "me", &files, &why), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(why);
	unlink(nqn_path);
	unlink(id_path);
	unlink(machine);
	rmdir(dir);
}

const struct t_case t_host_cases[] = {
	{"the identity comes from options, files, machine, chance, in that order", sources},
	{NULL, NULL},
};
