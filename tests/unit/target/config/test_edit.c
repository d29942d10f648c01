/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes of a configuration's text: what was asked for changes, and nothing else. */
#include "base_suites.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/config/config_edit.h"

#define SUBSYS_A "[\"subsystems\", {\"nqn\": \"nqn.a\"}"
#define NS(n)    SUBSYS_A ", \"namespaces\", {\"nsid\": " #n "}"

/* One edit of a text. @after: the text afterwards; NULL: nothing is to be done, or @rc says why
 * not. */
struct edit_case {
	const char *before;
	enum rdt_edit_op op;
	const char *path;
	const char *value;
	int rc;
	const char *after;
};

static void run_edit_case(const struct edit_case *e)
{
	struct rdt_config_texts texts = {0};
	struct rdt_config_edit edit = {.op = e->op};
	struct rd_log *log;
	unsigned int at;
	int rc;

	edit.path = json_loads(e->path, 0, NULL);
	edit.value = e->value ? json_loads(e->value, JSON_DECODE_ANY, NULL) : NULL;
	CU_ASSERT_PTR_NOT_NULL_FATAL(edit.path);
	CU_ASSERT_EQUAL_FATAL(rd_log_create("t", -1, RD_LOG_INFO, NULL, NULL, &log), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_config_texts_add(&texts, "FILE", e->before, strlen(e->before), 0),
			      0);
	rc = rdt_config_edit(&texts, &edit, log, &at);
	CU_ASSERT_EQUAL(rc, e->rc);
	if (rc != e->rc || strcmp(texts.files[0].text, e->after ? e->after : e->before) != 0)
		printf("# %s: %d\n--- got\n%s--- expected\n%s---\n", e->path, rc,
		       texts.files[0].text, e->after ? e->after : e->before);
	CU_ASSERT_STRING_EQUAL(texts.files[0].text, e->after ? e->after : e->before);
	if (rc == 1)
		CU_ASSERT_STRING_EQUAL(texts.files[0].on_disk, e->before);
	rdt_config_texts_free(&texts);
	rd_log_destroy(&log);
	json_decref(edit.path);
	json_decref(edit.value);
}

static void run_edit_cases(const struct edit_case *cases, size_t count)
{
	for (size_t i = 0; i < count; i++)
		run_edit_case(&cases[i]);
}

#define RUN(cases) run_edit_cases(cases, sizeof(cases) / sizeof(cases[0]))

#define HEAD       "# the target\nsubsystems:\n  - nqn: nqn.a # the first\n"

static void adds(void)
{
	static const struct edit_case cases[] = {
		/* behind the last one, with its comment; what follows stays */
		{HEAD
		 "    namespaces:\n    # disks\n    - nsid: 1\n      size: 1M # small\n\n# end\n"
		 "  - nqn: nqn.b\n",
		 RDT_EDIT_ADD, NS(2) "]",
		 "{\"nsid\": 2, \"backend\": \"memory\", \"size\": \"8M\", \"hosts\": [\"nqn.h\"]}",
		 1,
		 HEAD "    namespaces:\n    # disks\n    - nsid: 1\n      size: 1M # small\n"
		      "    - nsid: 2\n      backend: memory\n      size: 8M\n      hosts: [nqn.h]\n"
		      "\n# end\n  - nqn: nqn.b\n"},
		/* no newline at the end */
		{HEAD "    namespaces:\n      - {nsid: 1}", RDT_EDIT_ADD, NS(2) "]",
		 "{\"nsid\": 2}", 1, HEAD "    namespaces:\n      - {nsid: 1}\n      - nsid: 2\n"},
		/* the list is not there yet */
		{HEAD, RDT_EDIT_ADD, NS(2) "]", "{\"nsid\": 2, \"size\": \"1M\"}", 1,
		 HEAD "    namespaces:\n      - nsid: 2\n        size: 1M\n"},
		{HEAD, RDT_EDIT_ADD, SUBSYS_A ", \"hosts\", \"nqn.h\"]", "\"nqn.h\"", 1,
		 HEAD "    hosts: [nqn.h]\n"},
		/* in one line */
		{"subsystems: [{nqn: nqn.a, hosts: [ nqn.x ] }] # all\n", RDT_EDIT_ADD,
		 SUBSYS_A ", \"hosts\", \"nqn.h\"]", "\"nqn.h\"", 1,
		 "subsystems: [{nqn: nqn.a, hosts: [ nqn.x, nqn.h ] }] # all\n"},
		{"subsystems: [{nqn: nqn.a, hosts: []}]\n", RDT_EDIT_ADD,
		 SUBSYS_A ", \"hosts\", \"nqn.h\"]", "\"nqn.h\"", 1,
		 "subsystems: [{nqn: nqn.a, hosts: [nqn.h]}]\n"},
		{"subsystems: [{nqn: nqn.a}]\n", RDT_EDIT_ADD, NS(1) "]", "{\"nsid\": 1}", 1,
		 "subsystems: [{nqn: nqn.a, namespaces: [{nsid: 1}]}]\n"},
		/* text that has a meaning in YAML is quoted */
		{HEAD "    hosts:\n    - nqn.x\n", RDT_EDIT_ADD,
		 SUBSYS_A ", \"hosts\", \"a: b # c\\n\"]", "\"a: b # c\\n\"", 1,
		 HEAD "    hosts:\n    - nqn.x\n    - \"a: b # c\\n\"\n"},
		{"listeners: []\n", RDT_EDIT_ADD,
		 "[\"listeners\", {\"address\": \"::1\", \"port\": 4420}]",
		 "{\"address\": \"::1\", \"congestion\": \"1e3\"}", 1,
		 "listeners: [{address: \"::1\", congestion: \"1e3\"}]\n"},
		/* characters that take more than one byte, and a byte order mark */
		{"\xef\xbb\xbf# \xc3\xa4\xe2\x82\xac\nsubsystems:\n- nqn: nqn.a # \xc3\xa4\n# e\n",
		 RDT_EDIT_ADD, "[\"subsystems\", {\"nqn\": \"nqn.b\"}]", "{\"nqn\": \"nqn.b\"}", 1,
		 "\xef\xbb\xbf# \xc3\xa4\xe2\x82\xac\nsubsystems:\n- nqn: nqn.a # \xc3\xa4\n"
		 "- nqn: nqn.b\n# e\n"},
	};

	RUN(cases);
}

static void adds_nothing(void)
{
	static const struct edit_case cases[] = {
		/* it is there */
		{HEAD "    hosts: [nqn.h]\n", RDT_EDIT_ADD, SUBSYS_A ", \"hosts\", \"nqn.h\"]",
		 "\"nqn.h\"", 0, NULL},
		{HEAD "    namespaces:\n    - {nsid: 1, size: 1M, create: true}\n", RDT_EDIT_ADD,
		 NS(1) "]", "{\"create\": true, \"nsid\": 1}", 0, NULL},
		{HEAD "    namespaces:\n    - {nsid: 1, size: 1M}\n", RDT_EDIT_ADD, NS(1) "]",
		 "{\"nsid\": 1, \"size\": \"2M\"}", -EEXIST, NULL},
		{"listeners:\n- address: 10.0.0.1\n", RDT_EDIT_ADD,
		 "[\"listeners\", {\"address\": \"10.0.0.1\", \"port\": 4420}]",
		 "{\"address\": \"10.0.0.1\"}", 0, NULL},
		/* there is nothing to add it to */
		{HEAD, RDT_EDIT_ADD,
		 "[\"subsystems\", {\"nqn\": \"nqn.z\"}, \"namespaces\", {\"nsid\": 1}]",
		 "{\"nsid\": 1}", -ENOENT, NULL},
	};

	RUN(cases);
}

static void removes(void)
{
	static const struct edit_case cases[] = {
		{HEAD "    namespaces:\n    # disks\n    - nsid: 1\n      size: 1M # small\n"
		      "    # big\n    -\n      nsid: 2\n      size: 1G # big\n    - nsid: 3\n",
		 RDT_EDIT_REMOVE, NS(2) "]", NULL, 1,
		 HEAD "    namespaces:\n    # disks\n    - nsid: 1\n      size: 1M # small\n"
		      "    # big\n    - nsid: 3\n"},
		{HEAD "    namespaces:\n      - nsid: 1\n        qos:\n          iops: 5\n"
		      "      - nsid: 2\n# end\n",
		 RDT_EDIT_REMOVE, NS(1) "]", NULL, 1,
		 HEAD "    namespaces:\n      - nsid: 2\n# end\n"},
		/* the last one takes the key with it */
		{HEAD "    namespaces:\n    - nsid: 1\n      size: 1M\n    serial: x\n",
		 RDT_EDIT_REMOVE, NS(1) "]", NULL, 1, HEAD "    serial: x\n"},
		{"listeners: []\nsubsystems:\n- nqn: nqn.a\n", RDT_EDIT_REMOVE, SUBSYS_A "]", NULL,
		 1, "listeners: []\n"},
		{"subsystems: [{nqn: nqn.a, hosts: [x, y, z]}]\n", RDT_EDIT_REMOVE,
		 SUBSYS_A ", \"hosts\", \"y\"]", NULL, 1,
		 "subsystems: [{nqn: nqn.a, hosts: [x, z]}]\n"},
		{"subsystems: [{nqn: nqn.a, hosts: [x, y, z]}]\n", RDT_EDIT_REMOVE,
		 SUBSYS_A ", \"hosts\", \"z\"]", NULL, 1,
		 "subsystems: [{nqn: nqn.a, hosts: [x, y]}]\n"},
		{"subsystems: [{nqn: nqn.a, hosts: [x]}]\n", RDT_EDIT_REMOVE,
		 SUBSYS_A ", \"hosts\", \"x\"]", NULL, 1, "subsystems: [{nqn: nqn.a}]\n"},
		/* it is not there */
		{HEAD, RDT_EDIT_REMOVE, NS(1) "]", NULL, 0, NULL},
		{HEAD "    namespaces: [{nsid: 2}]\n", RDT_EDIT_REMOVE, NS(1) "]", NULL, 0, NULL},
		{HEAD, RDT_EDIT_REMOVE,
		 "[\"subsystems\", {\"nqn\": \"nqn.z\"}, \"namespaces\", {\"nsid\": 1}]", NULL,
		 -ENOENT, NULL},
	};

	RUN(cases);
}

static void sets(void)
{
	static const struct edit_case cases[] = {
		{HEAD "    namespaces:\n    - nsid: 1\n      size: 1M # small\n", RDT_EDIT_SET,
		 NS(1) ", \"size\"]", "\"20G\"", 1,
		 HEAD "    namespaces:\n    - nsid: 1\n      size: 20G # small\n"},
		{HEAD "    namespaces:\n    - nsid: 1\n    # two\n    - nsid: 2\n", RDT_EDIT_SET,
		 NS(1) ", \"read_only\"]", "true", 1,
		 HEAD "    namespaces:\n    - nsid: 1\n      read_only: true\n    # two\n"
		      "    - nsid: 2\n"},
		{HEAD "    namespaces:\n    - nsid: 1\n      qos:\n        iops: 5 # few\n"
		      "        bandwidth: 1M\n      size: 1M\n",
		 RDT_EDIT_SET, NS(1) ", \"qos\"]", "{\"iops\": 7}", 1,
		 HEAD "    namespaces:\n    - nsid: 1\n      qos: {iops: 7}\n      size: 1M\n"},
		{HEAD "    namespaces:\n    - qos: {iops: 5}\n      nsid: 1\n", RDT_EDIT_SET,
		 NS(1) ", \"qos\"]", "null", 1, HEAD "    namespaces:\n    - nsid: 1\n"},
		{HEAD "    namespaces:\n    - nsid: 1\n      qos:\n        iops: 5\n# end\n",
		 RDT_EDIT_SET, NS(1) ", \"qos\"]", "null", 1,
		 HEAD "    namespaces:\n    - nsid: 1\n# end\n"},
		{"subsystems: [{nqn: nqn.a, namespaces: [{nsid: 1, size: '1M', qos: {iops: 1}}]}]",
		 RDT_EDIT_SET, NS(1) ", \"size\"]", "\"2M\"", 1,
		 "subsystems: [{nqn: nqn.a, namespaces: [{nsid: 1, size: 2M, qos: {iops: 1}}]}]"},
		{HEAD "    namespaces:\n    - nsid: 1\n      size: '1M'\n", RDT_EDIT_SET,
		 NS(1) ", \"size\"]", "\"1M\"", 0, NULL},
		{HEAD, RDT_EDIT_SET, NS(1) ", \"size\"]", "\"1M\"", -ENOENT, NULL},
	};

	RUN(cases);
}

/* What libyaml reads where a simple editor would not see it: changed rightly, or refused. */
static void risky_texts(void)
{
	static const struct edit_case cases[] = {
		{"? subsystems\n: - nqn: nqn.a\n", RDT_EDIT_ADD,
		 "[\"subsystems\", {\"nqn\": \"nqn.b\"}]", "{\"nqn\": \"nqn.b\"}", 1,
		 "? subsystems\n: - nqn: nqn.a\n  - nqn: nqn.b\n"},
		{"? subsystems\n: - nqn: nqn.a\n  - nqn: nqn.b\n", RDT_EDIT_REMOVE, SUBSYS_A "]",
		 NULL, -ENOTSUP, NULL},
		{"subsystems: [{nqn: nqn.a, hosts: [x,]}]\n", RDT_EDIT_ADD,
		 SUBSYS_A ", \"hosts\", \"y\"]", "\"y\"", 1,
		 "subsystems: [{nqn: nqn.a, hosts: [x, y,]}]\n"},
		{"--- # start\nsubsystems:\n- nqn: nqn.a\n...\n# behind\n", RDT_EDIT_ADD,
		 "[\"subsystems\", {\"nqn\": \"nqn.b\"}]", "{\"nqn\": \"nqn.b\"}", 1,
		 "--- # start\nsubsystems:\n- nqn: nqn.a\n- nqn: nqn.b\n...\n# behind\n"},
		{"subsystems: &all\n  - nqn: nqn.a\n", RDT_EDIT_ADD,
		 "[\"subsystems\", {\"nqn\": \"nqn.b\"}]", "{\"nqn\": \"nqn.b\"}", -ENOTSUP, NULL},
		{"subsystems:\n- nqn: |-\n    nqn.a\n", RDT_EDIT_ADD,
		 "[\"subsystems\", {\"nqn\": \"nqn.b\"}]", "{\"nqn\": \"nqn.b\"}", 1,
		 "subsystems:\n- nqn: |-\n    nqn.a\n- nqn: nqn.b\n"},
		/* keys of a client do not become structure: this one would be an endless tree */
		{HEAD, RDT_EDIT_ADD, NS(1) "]", "{\"nsid\": 1, \"x: &a [*a]\\n        y\": 1}", 1,
		 HEAD "    namespaces:\n      - nsid: 1\n"
		      "        \"x: &a [*a]\\n        y\": 1\n"},
		{"subsystems: [{nqn: nqn.a}]\n", RDT_EDIT_ADD, NS(1) "]",
		 "{\"nsid\": 1, \"x: &a [*a], y\": 1}", 1,
		 "subsystems: [{nqn: nqn.a, namespaces: [{nsid: 1, \"x: &a [*a], y\": 1}]}]\n"},
		/* the checks of the configuration say what is wrong with such a value */
		{HEAD, RDT_EDIT_ADD, NS(1) "]", "{\"nsid\": 1, \"a\": null, \"b\": 1.5}", 1,
		 HEAD "    namespaces:\n      - nsid: 1\n        a: null\n        b: 1.5\n"},
	};

	RUN(cases);
}

static char *read_text(const char *path)
{
	char *text = calloc(1, 4096);
	FILE *f = fopen(path, "re");

	if (f) {
		size_t n = fread(text, 1, 4095, f);

		text[n] = '\0';
		fclose(f);
	}
	return text;
}

static void expect_text(const char *dir, const char *name, const char *expected)
{
	char path[512];
	char *text T_FREE = NULL;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	text = read_text(path);
	CU_ASSERT_STRING_EQUAL(text, expected);
}

static void put_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_TRUE_FATAL(fputs(text, f) >= 0 && fclose(f) == 0);
}

/* Takes the place of the C library's: some file systems have no links. */
static bool without_links;

int link(const char *from, const char *to)
{
	if (!without_links)
		return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
	errno = EPERM;
	return -1;
}

/* Likewise: calls of rename() from this one on fail. 0: none does. */
static unsigned int rename_fails_at;

int rename(const char *from, const char *to)
{
	if (rename_fails_at && --rename_fails_at == 0) {
		rename_fails_at = 1;
		errno = EIO;
		return -1;
	}
	return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

#define SMALL "listeners: [] # none\n"

static void saves(void)
{
	const char *added = "listeners: [{address: 10.0.0.1}] # none\n";
	struct rdt_config_edit edit = {.op = RDT_EDIT_ADD};
	struct rdt_config_texts texts = {0};
	struct rdt_config *config;
	char dir[64], path[96];
	struct rd_log *log;
	struct stat st;
	unsigned int at;

	t_dir_make(dir);
	snprintf(path, sizeof(path), "%s/a.yaml", dir);
	put_text(path, SMALL);
	CU_ASSERT_EQUAL(chmod(path, 0640), 0);
	CU_ASSERT_EQUAL_FATAL(rd_log_create("t", -1, RD_LOG_INFO, NULL, NULL, &log), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_config_load_texts(path, &texts, false, log, &config), 0);
	rdt_config_put(&config);
	CU_ASSERT_EQUAL(rdt_config_save(&texts, log), 0); /* nothing is to be written */
	edit.path =
		json_loads("[\"listeners\", {\"address\": \"10.0.0.1\", \"port\": 4420}]", 0, NULL);
	edit.value = json_loads("{\"address\": \"10.0.0.1\"}", 0, NULL);
	CU_ASSERT_EQUAL_FATAL(rdt_config_edit(&texts, &edit, log, &at), 1);
	put_text(path, "{} # changed by somebody else\n");
	CU_ASSERT_EQUAL(rdt_config_save(&texts, log), -ESTALE);
	expect_text(dir, "a.yaml", "{} # changed by somebody else\n");
	put_text(path, SMALL);
	CU_ASSERT_EQUAL(rdt_config_save(&texts, log), 1);
	expect_text(dir, "a.yaml", added);
	expect_text(dir, "a.yaml~", SMALL);
	CU_ASSERT_EQUAL(stat(path, &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 07777, 0640);
	CU_ASSERT_EQUAL(rdt_config_save(&texts, log), 0);
	rdt_config_texts_free(&texts);
	rd_log_destroy(&log);
	json_decref(edit.path);
	json_decref(edit.value);
	t_dir_remove(dir);
}

static void saves_without_links(void)
{
	without_links = true;
	saves();
	without_links = false;
}

/* Subsystems without a setting of hosts get the one that earlier versions took for granted. */
static void migrates(void)
{
	static const char old[] = "subsystems: # all\n  - nqn: nqn.a # open\n  - nqn: nqn.b\n"
				  "    hosts: []\n";
	static const char new[] = "subsystems: # all\n  - nqn: nqn.a # open\n"
				  "    allow_any_host: true\n  - nqn: nqn.b\n    hosts: []\n";
	struct rdt_config_texts texts = {0};
	struct rdt_config *config;
	char dir[64], path[96];
	struct rd_log *log;

	t_dir_make(dir);
	snprintf(path, sizeof(path), "%s/a.yaml", dir);
	put_text(path, old);
	CU_ASSERT_EQUAL_FATAL(rd_log_create("t", -1, RD_LOG_ERROR, NULL, NULL, &log), 0);
	for (int files = 1; files >= 0; files--) { /* the second time there is nothing to do */
		CU_ASSERT_EQUAL_FATAL(rdt_config_load_texts(path, &texts, false, log, &config), 0);
		CU_ASSERT_EQUAL(rdt_config_migrate(config, &texts, log), files);
		rdt_config_put(&config);
		rdt_config_texts_free(&texts);
		expect_text(dir, "a.yaml", new);
		expect_text(dir, "a.yaml~", old);
	}
	rd_log_destroy(&log);
	t_dir_remove(dir);
}

#define OTHER "subsystems: []\n"

/* Two files, both of which are to be saved with @text instead of theirs, and the log. */
static int save_two(const char *dir, char log_text[4096])
{
	struct rdt_config_texts texts = {0};
	char path[96];
	struct rd_log *log;
	FILE *f = tmpfile();
	size_t n;
	int rc;

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL_FATAL(rd_log_create("t", fileno(f), RD_LOG_INFO, NULL, NULL, &log), 0);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%c.yaml", dir, 'a' + i);
		put_text(path, OTHER);
		CU_ASSERT_EQUAL_FATAL(rdt_config_texts_add(&texts, path, SMALL, strlen(SMALL), 0),
				      0);
		texts.files[i].on_disk = strdup(OTHER);
		texts.files[i].on_disk_len = strlen(OTHER);
	}
	rc = rdt_config_save(&texts, log);
	rename_fails_at = 0;
	t_fsync_fails = 0;
	rewind(f);
	n = fread(log_text, 1, 4095, f);
	log_text[n] = '\0';
	fclose(f);
	rdt_config_texts_free(&texts);
	rd_log_destroy(&log);
	return rc;
}

/* The second file cannot be replaced, and the first one cannot be put back. */
static void tells_what_was_not_put_back(void)
{
	char dir[64], log[4096];

	t_dir_make(dir);
	rename_fails_at = 2;
	CU_ASSERT_EQUAL(save_two(dir, log), -EIO);
	expect_text(dir, "a.yaml", SMALL);
	expect_text(dir, "a.yaml~", OTHER);
	expect_text(dir, "b.yaml", OTHER);
	CU_ASSERT_PTR_NOT_NULL(strstr(log, "a.yaml: this file has the new content"));
	CU_ASSERT_PTR_NOT_NULL(strstr(log, "b.yaml: not saved"));
	t_dir_remove(dir);
}

/* Three files, with the list, and the directory for each are synced before they are renamed. */
static void tells_what_is_not_synced(void)
{
	char dir[64], log[4096];

	t_dir_make(dir);
	t_fsync_fails = t_fsync_calls + 7;
	CU_ASSERT_EQUAL(save_two(dir, log), -EIO);
	expect_text(dir, "a.yaml", SMALL);
	expect_text(dir, "b.yaml", SMALL);
	CU_ASSERT_PTR_NOT_NULL(strstr(log, "all files have their new contents"));
	CU_ASSERT_PTR_NULL(strstr(log, "not saved"));
	t_dir_remove(dir);
}

const struct t_case t_edit_cases[] = {
	{"elements are added in the style of the text", adds},
	{"what is there already is not added", adds_nothing},
	{"elements are removed, and comments of others stay", removes},
	{"values are set and removed", sets},
	{"unusual texts are changed rightly or refused", risky_texts},
	{"a save keeps the previous file, and refuses one that was changed", saves},
	{"a save keeps the previous file where links are refused", saves_without_links},
	{"what earlier versions took for granted is written", migrates},
	{"a save that fails tells which file could not be put back", tells_what_was_not_put_back},
	{"a save that is not synced tells that the files are new", tells_what_is_not_synced},
	{NULL, NULL},
};
