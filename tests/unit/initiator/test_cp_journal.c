/* SPDX-License-Identifier: BSD-3-Clause */
/* The journal of rdinit cp: it is used only if it belongs to this copy. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "copy/copy.h"
#include "suites.h"

#define SOURCE      "{\"kind\":\"file\",\"id\":{\"dev\":1,\"inode\":2},\"size\":9000,\"mtime\":\"1.5\"}"
#define DESTINATION "{\"kind\":\"namespace\",\"id\":{\"nqn\":\"n\",\"nsid\":1},\"size\":10240}"

static json_t *parse(const char *text)
{
	json_t *v = json_loads(text, 0, NULL);

	CU_ASSERT_PTR_NOT_NULL_FATAL(v);
	return v;
}

/* Check @text as the journal of SOURCE to DESTINATION. */
static int check_text(const char *text, uint64_t *complete, char *why)
{
	json_t *j = parse(text), *s = parse(SOURCE), *d = parse(DESTINATION);
	int rc = cli_cp_journal_check(j, s, d, 9000, complete, why);

	json_decref(j);
	json_decref(s);
	json_decref(d);
	return rc;
}

static void what_was_made_is_believed(void)
{
	json_t *s = parse(SOURCE), *d = parse(DESTINATION);
	json_t *j = cli_cp_journal_make(s, d, 4096);
	char *text = json_dumps(j, 0), why[CLI_CP_JOURNAL_WHY];
	uint64_t complete = 0;

	CU_ASSERT_EQUAL(check_text(text, &complete, why), 0);
	CU_ASSERT_EQUAL(complete, 4096);
	free(text);
	json_decref(j);
	json_decref(s);
	json_decref(d);
}

static void others_are_refused(void)
{
	static const struct {
		const char *text, *why;
		int rc;
	} rows[] = {
		{"{}", "not a journal", -EINVAL},
		{"[1]", "not a journal", -EINVAL},
		{"{\"rdinit-cp-journal\":2,\"source\":" SOURCE ",\"destination\":" DESTINATION
		 ",\"complete\":1}",
		 "not a journal", -EINVAL},
		{"{\"rdinit-cp-journal\":1,\"source\":" SOURCE ",\"destination\":" DESTINATION
		 ",\"complete\":\"1\"}",
		 "not a journal", -EINVAL},
		{"{\"rdinit-cp-journal\":1,\"source\":" SOURCE ",\"destination\":" DESTINATION
		 ",\"complete\":9001}",
		 "9001 bytes are complete of 9000", -EINVAL},
		{"{\"rdinit-cp-journal\":1,\"source\":" SOURCE ",\"destination\":" DESTINATION
		 ",\"complete\":-1}",
		 "-1 bytes are complete", -EINVAL},
		{"{\"rdinit-cp-journal\":1,\"source\":{\"kind\":\"file\",\"id\":{\"dev\":1,"
		 "\"inode\":2},\"size\":9000,\"mtime\":\"1.6\"},\"destination\":" DESTINATION
		 ",\"complete\":1}",
		 "the source has another mtime: \"1.5\", and was \"1.6\"", -ESTALE},
		{"{\"rdinit-cp-journal\":1,\"source\":" SOURCE
		 ",\"destination\":{\"kind\":\"namespace\",\"id\":{\"nqn\":\"n\",\"nsid\":2},"
		 "\"size\":10240},\"complete\":1}",
		 "the destination has another id", -ESTALE},
		{"{\"rdinit-cp-journal\":1,\"source\":" SOURCE
		 ",\"destination\":{\"kind\":\"namespace\",\"id\":{\"nqn\":\"n\",\"nsid\":1},"
		 "\"size\":10240,\"more\":1},\"complete\":1}",
		 "the destination is a different one", -ESTALE},
	};
	char why[CLI_CP_JOURNAL_WHY];
	uint64_t complete;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		complete = 77;
		CU_ASSERT_EQUAL(check_text(rows[i].text, &complete, why), rows[i].rc);
		CU_ASSERT_EQUAL(complete, 77);
		if (!strstr(why, rows[i].why))
			printf("# row %zu: %s\n", i, why);
		CU_ASSERT_PTR_NOT_NULL(strstr(why, rows[i].why));
	}
}

static void replaced_as_a_whole(void)
{
	char folder[] = "/tmp/rdinit-journal-XXXXXX", path[64], next[80];
	json_t *one = parse("{\"a\":1}"), *two = parse("{\"a\":2}"), *got = NULL;
	struct stat before, after;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/journal", folder);
	snprintf(next, sizeof(next), "%s.new", path);
	CU_ASSERT_EQUAL(cli_cp_journal_load(path, &got), -ENOENT);
	CU_ASSERT_EQUAL(cli_cp_journal_save(path, one), 0);
	CU_ASSERT_EQUAL(stat(path, &before), 0);
	CU_ASSERT_EQUAL(cli_cp_journal_save(path, two), 0);
	CU_ASSERT_EQUAL(stat(path, &after), 0);
	CU_ASSERT_NOT_EQUAL(before.st_ino, after.st_ino); /* not written in place */
	CU_ASSERT_NOT_EQUAL(access(next, F_OK), 0);
	CU_ASSERT_EQUAL(cli_cp_journal_load(path, &got), 0);
	CU_ASSERT_TRUE(json_equal(got, two));
	json_decref(got);
	json_decref(one);
	json_decref(two);
	unlink(path);
	rmdir(folder);
}

const struct t_case t_cp_journal_cases[] = {
	{"what was made is believed", what_was_made_is_believed},
	{"a journal of another copy, or none, is refused with the reason", others_are_refused},
	{"it is replaced as a whole", replaced_as_a_whole},
	{NULL, NULL},
};
