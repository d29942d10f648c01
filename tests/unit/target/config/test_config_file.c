/* SPDX-License-Identifier: BSD-3-Clause */
/* Files as a whole: what follows from a mistake, limits, and what cannot be read. */
#include "t_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void aliases_are_refused(void)
{
	static const struct bad bad[] = {
		{LISTEN "subsystems:\n- nqn: &a nqn.2026-01.org.example:a\n  model: *a\n",
		 "FILE:4: subsystems[0].model: is an alias of another value; expected the value "
		 "itself\n"},
		{LISTEN "subsystems:\n- nqn: nqn.2026-01.org.example:a\n  namespaces: &n []\n"
			"- nqn: nqn.2026-01.org.example:b\n  namespaces: *n\n",
		 "FILE:6: subsystems[1].namespaces: is an alias of another value; expected the "
		 "value itself\n"},
		{LISTEN "*a : 1\n", "FILE:2: a: a key must be a single word\n"},
	};

	CHECK_BAD(bad);
}

/* What is compared with a bad value is not reported, and each key is checked by itself. */
static void keys_of_tls_are_checked(void)
{
	static const struct bad bad[] = {
		{"listeners: [{address: 127.0.0.1, tls: required}]\n" SUBSYS
		 "    hosts: [nqn.2026-01.org.example:h]\n"
		 "    host_auth: [{host: nqn.2026-01.org.example:h}]\n",
		 "FILE:1: listeners[0].tls: not a key of transport rdma; remove it, or use "
		 "transport tcp\n"
		 "FILE:5: subsystems[0].host_auth[0]: has no key; add dhchap_key_file for "
		 "DH-HMAC-CHAP, or tls_key_file for TLS\n"},
		{"listeners: [{address: 127.0.0.1, transport: tcp, tls: allowed}]\n" SUBSYS
		 "    hosts: [nqn.2026-01.org.example:h]\n"
		 "    authentication: required\n"
		 "    host_auth: [{host: nqn.2026-01.org.example:h, "
		 "tls_key_file: 'NVMeTLSkey-1:01:AAECAwQF:'}]\n",
		 "FILE:6: subsystems[0].host_auth[0].tls_key_file: found a key, expected the name "
		 "of a file with the key; configurations are read and copied by people who must "
		 "not "
		 "know it\n"},
	};

	CHECK_BAD(bad);
}

static void nothing_follows_from_a_mistake(void)
{
	static const struct bad bad[] = {
		{"target:\n  in_capsule_size: 100\n  buffer_memory: 4097KiB\n"
		 "  max_data_size: 3000\n" LISTEN,
		 "FILE:2: target.in_capsule_size: found \"100\", expected a multiple of 16, 0 to "
		 "64KiB\n"
		 "FILE:4: target.max_data_size: found \"3000\", expected a power of two, 4KiB to "
		 "8MiB\n"},
		{"target:\n  cpus: [1, 2, 3]\n  sqpoll_cpus: [1]\n  sqpoll: x\n  reactors: 0\n",
		 "FILE:3: target.sqpoll_cpus[0]: found 1, which cpus assigns to a reactor; "
		 "expected "
		 "another CPU\n"
		 "FILE:4: target.sqpoll: found \"x\", expected a duration such as 20us, 200ms or "
		 "5s, 0 (no such thread) or a multiple of 1ms, 1ms to 10s\n"
		 "FILE:5: target.reactors: found 0, expected 1 to 64\n"},
		{LISTEN SUBSYS "    host_auth: [{host: nqn.2026-01.org.example:h, "
			       "dhchap_key_file: /k}]\n    hosts: nqn.2026-01.org.example:h\n",
		 "FILE:4: subsystems[0].host_auth[0].dhchap_key_file: /k: No such file or "
		 "directory\n"
		 "FILE:5: subsystems[0].hosts: found \"nqn.2026-01.org.example:h\", expected a "
		 "sequence (lines starting with \"- \")\n"},
		{LISTEN SUBSYS NS
		 "{nsid: 1, backend: memory, size: 1000, block_size: 1000, qos: {iops: 0}}\n",
		 "FILE:5: subsystems[0].namespaces[0].block_size: found 1000, expected 512 or "
		 "4096\n"
		 "FILE:5: subsystems[0].namespaces[0].qos.iops: found 0, expected 1 to 1000000000 "
		 "commands per second\n"},
		{LISTEN SUBSYS
		 "    cntlid_max: 9\n    cntlid_min: x\n" NS
		 "{nsid: 1, backend: rbd, rbd: {cluster: a, pool: b, image: c, lock: exclusive}}\n"
		 "ceph:\n- {name: a, takeover: 1}\n- {name: ''}\n",
		 "FILE:5: subsystems[0].cntlid_min: found \"x\", expected a whole number, 1 to "
		 "65519\n"
		 "FILE:9: ceph[0].takeover: found 1, expected 3 to 60 seconds\n"
		 "FILE:10: ceph[1].name: found nothing, expected a name\n"},
		{LISTEN SUBSYS NS "{nsid: 1, backend: file, path: /x, read_only: ja}\n"
				  "      - {nsid: 2, backend: file, path: /x, read_only: true}\n"
				  "      - {nsid: 3, backend: disk, path: /x}\n",
		 "FILE:5: subsystems[0].namespaces[0].read_only: found \"ja\", expected true or "
		 "false\n"
		 "FILE:7: subsystems[0].namespaces[2].backend: found \"disk\", expected file, "
		 "block, memory, null, rbd or nbd\n"},
		{"ceph: [{name: a}]\n" SUBSYS NS
		 "{nsid: 1, backend: rbd, rbd: {cluster: b, pool: p, image: c}}\n",
		 "FILE:5: subsystems[0].namespaces[0].rbd.cluster: found \"b\", expected the name "
		 "of a cluster under \"ceph:\"\n"},
	};

	CHECK_BAD(bad);
}

static void one_document(void)
{
	static const struct bad bad[] = {
		{LISTEN "---\n" SUBSYS, "FILE:2: a second YAML document begins here, expected one; "
					"remove \"---\", or put it into a file of its own\n"},
	};
	static const char good[] = "%YAML 1.1\n---\n" LISTEN "...\n";
	struct rdt_config *config;
	struct said said;

	CHECK_BAD(bad);
	CU_ASSERT_EQUAL(t_config_load_text(good, strlen(good), &said, &config), 0);
	rdt_config_put(&config);
}

/* @count times @part, of which each "#" becomes a number. */
static void repeat(FILE *f, const char *part, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		for (const char *c = part; *c; c++)
			*c == '#' ? fprintf(f, "%u", i) : fputc(*c, f);
}

static void huge_files(void)
{
	static const struct {
		const char *begin, *part;
		unsigned int count, lines;
		const char *said;
	} rows[] = {
		{"", "[", 200000, 1, "FILE:1: values are nested more than 32 levels deep"},
		{"", "{a: ", 200000, 1, "FILE:1: values are nested more than 32 levels deep"},
		{"", "- ", 200000, 1, "FILE:1: values are nested more than 32 levels deep"},
		{"", "key#: 1\n", 300000, 101, "FILE:1: key0: unknown key"},
		{"listeners:\n", "- {address: 127.0.0.1, port: #}\n", 40000, 1,
		 "FILE:1: listeners: has 40000 elements, expected at most 4096; remove some\n"},
		{"subsystems:\n- nqn: nqn.2026-01.org.example:a\n  hosts:\n", "  - bad #\n", 200000,
		 101, "FILE:4: subsystems[0].hosts[0]: found \"bad 0\", which contains a space"},
		{"subsystems:\n- nqn: nqn.2026-01.org.example:a\n  hosts:\n", "  - h\n", 200000,
		 202, "t: warning: config: "},
		{"a: [", "1,", 2100000, 1, "FILE:1: the configuration has more values than"},
	};

	/* The first ones have the same ways to end; the others are too large for valgrind. */
	for (size_t i = 0; i < (getenv("RD_TEST_VALGRIND") ? 3 : sizeof(rows) / sizeof(rows[0]));
	     i++) {
		struct rdt_config *config;
		struct said said;
		size_t len;
		char *text;
		FILE *f = open_memstream(&text, &len);

		fputs(rows[i].begin, f);
		repeat(f, rows[i].part, rows[i].count);
		fclose(f);
		CU_ASSERT_EQUAL(t_config_load_text(text, len, &said, &config), -EINVAL);
		if (strncmp(said.text, rows[i].said, strlen(rows[i].said)) != 0)
			printf("# row %zu said:\n# %.200s\n", i, said.text);
		CU_ASSERT_EQUAL(strncmp(said.text, rows[i].said, strlen(rows[i].said)), 0);
		CU_ASSERT_EQUAL(said.lines, rows[i].lines);
		free(text);
	}
}

static void unreadable_files(void)
{
	struct rdt_config *config;
	struct said said;

	CU_ASSERT_EQUAL(t_config_load("/nonexistent/rdtarget.yaml", &said, &config), -ENOENT);
	CU_ASSERT_STRING_EQUAL(said.text, "FILE: cannot be read: No such file or directory\n");
	CU_ASSERT_EQUAL(t_config_load("/tmp", &said, &config), -EISDIR);
	CU_ASSERT_STRING_EQUAL(said.text, "FILE: is a directory, expected a YAML file\n");
	CU_ASSERT_EQUAL(t_config_load("/dev/zero", &said, &config), -EFBIG);
	CU_ASSERT_STRING_EQUAL(said.text,
			       "FILE: is larger than 64 MiB, the limit for one file; if it "
			       "is a configuration, split it, with \"include\" in one part\n");
}

/* For any content: an error or a configuration, never a crash. Each prefix of a good file is
 * tried. */
static void every_prefix_is_survived(void)
{
	static const char text[] = "target: {reactors: 1}\n" LISTEN SUBSYS NS
				   "{nsid: 1, backend: file, path: /a, size: 8k, uuid: "
				   "f81d4fae-7dec-11d0-a765-00a0c91e6bf6}\n";
	int good = 0;

	for (size_t len = 0; len < sizeof(text); len++) {
		struct rdt_config *config;
		struct said said;
		int rc = t_config_load_text(text, len, &said, &config);

		CU_ASSERT_TRUE(rc == 0 || rc == -EINVAL);
		CU_ASSERT_EQUAL(rc == 0, config != NULL);
		/* A part of an NQN is an NQN of another form. */
		CU_ASSERT_EQUAL(rc == 0, said.text[0] == '\0' ||
						 strncmp(said.text, "t: warning: ", 12) == 0);
		good += rc == 0;
		rdt_config_put(&config);
	}
	CU_ASSERT_TRUE(good >= 2);
}

/* Takes the place of the C library's: each look of this thread at the clock takes so many seconds.
 */
static _Thread_local time_t seconds_a_look, seconds_looked;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, now);

	now->tv_sec += seconds_looked += seconds_a_look;
	return rc;
}

/* However long it is: changes wait for it. */
static void a_load_ends_in_time(void)
{
	static char text[256 << 10];
	size_t len = 0;

	len += (size_t)snprintf(text, sizeof(text), LISTEN SUBSYS "    namespaces:\n");
	for (unsigned int i = 1; i <= 4000; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"      - {nsid: %u, backend: memory, size: 1M}\n", i);
	for (seconds_a_look = 0; seconds_a_look < 2; seconds_a_look++) {
		struct rdt_config *config T_ENDS(rdt_config_put) = NULL;
		struct said said;

		CU_ASSERT_EQUAL(t_config_load_text(text, len, &said, &config),
				seconds_a_look ? -ETIMEDOUT : 0);
		CU_ASSERT_EQUAL(said.lines, (unsigned int)seconds_a_look);
		if (seconds_a_look)
			CU_ASSERT_PTR_NOT_NULL(strstr(said.text, "took longer than 30 s"));
	}
	seconds_a_look = seconds_looked = 0;
}

/* Each host has the entry of its name, in whatever order they are listed. */
static void keys_of_many_hosts(void)
{
	enum { HOSTS = 50 };
	static char text[HOSTS * 256];
	struct rdt_config *config T_ENDS(rdt_config_put) = NULL;
	const struct rdt_host_auth_config *found;
	char dir[64], key[96], name[64];
	struct said said;
	size_t len;
	FILE *f;

	t_dir_make(dir);
	snprintf(key, sizeof(key), "%s/key", dir);
	f = fopen(key, "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	fputs("DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:\n", f);
	CU_ASSERT_EQUAL(fchmod(fileno(f), 0600), 0);
	fclose(f);
	len = (size_t)snprintf(text, sizeof(text), LISTEN SUBSYS "    hosts:\n");
	for (unsigned int i = 0; i < HOSTS; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"      - nqn.2026-01.org.example:%u\n", i);
	len += (size_t)snprintf(text + len, sizeof(text) - len, "    host_auth:\n");
	for (unsigned int i = 0; i < HOSTS; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"      - {host: nqn.2026-01.org.example:%u, "
					"dhchap_key_file: %s}\n",
					i * 17 % HOSTS, key);
	CU_ASSERT_EQUAL_FATAL(t_config_load_text(text, len, &said, &config), 0);
	for (unsigned int i = 0; i <= HOSTS; i++) {
		snprintf(name, sizeof(name), "nqn.2026-01.org.example:%u", i);
		found = rdt_config_host_auth(&config->subsystems[0], name);
		CU_ASSERT_EQUAL(found != NULL, i < HOSTS);
		CU_ASSERT(!found || strcmp(found->host, name) == 0);
	}
	CU_ASSERT_PTR_NOT_NULL(config->subsystems[0].host_auth_order);
	t_dir_remove(dir);
}

const struct t_case t_config_file_cases[] = {
	{"keys of many hosts", keys_of_many_hosts},
	{"aliases are refused", aliases_are_refused},
	{"keys of TLS are checked", keys_of_tls_are_checked},
	{"a mistake hides none and makes none", nothing_follows_from_a_mistake},
	{"a file is one document", one_document},
	{"huge files are answered with a few lines", huge_files},
	{"a load ends in time", a_load_ends_in_time},
	{"files that cannot be read", unreadable_files},
	{"every prefix of a file is survived", every_prefix_is_survived},
	{NULL, NULL},
};
