/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits per second, with a clock that the test sets. */
#include "base_suites.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/nvmf/base/qos.h"

#define SEC RD_NSEC_PER_SEC
#define T0  (1000 * SEC)

static struct rdt_qos q;

static void set(enum rdt_qos_limit limit, uint64_t rate)
{
	struct rdt_qos_config cfg = {0};

	memset(&q, 0, sizeof(q));
	cfg.limits[limit] = rate;
	rdt_qos_set(&q, &cfg);
}

/*
 * A user that always has a next command, from T0 for @ns; each command starts at its turn, as in a
 * queue. Returns how many started.
 */
static unsigned int keep_asking(struct rdt_qos_price price, uint64_t ns)
{
	uint64_t now = T0, start;
	unsigned int n = 0;

	while ((start = rdt_qos_take(&q, &price, now)) < T0 + ns) {
		n++;
		now = start > now ? start : now;
	}
	return n;
}

static void rates_are_exact(void)
{
	static const uint64_t rates[] = {1, 7, 100, 999, 20000, 123456, 1000000};

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		/* Credit from before comes in addition. */
		uint64_t burst = rates[i] * RDT_QOS_BURST / SEC + 1;
		unsigned int n;

		set(RDT_QOS_IOPS, rates[i]);
		n = keep_asking((struct rdt_qos_price){.ops = 1, .bytes = 4096}, 10 * SEC);
		CU_ASSERT_TRUE(n >= 10 * rates[i] - rates[i] / 1000);
		CU_ASSERT_TRUE(n <= 10 * rates[i] + burst + 1);
	}
	set(RDT_QOS_BYTES, 10 << 20);
	CU_ASSERT_EQUAL(keep_asking((struct rdt_qos_price){.ops = 1, .bytes = 1 << 20}, 10 * SEC),
			101);
	CU_ASSERT_TRUE(keep_asking((struct rdt_qos_price){.ops = 1, .bytes = 512}, 0) == 0);
}

static void reads_and_writes_have_their_own(void)
{
	const struct rdt_qos_price read = {.ops = 1, .bytes = 1}, write = {true, 1, 1};
	struct rdt_qos_config cfg = {0};
	uint64_t r = 0, w = 0;

	set(RDT_QOS_READ_IOPS, 100);
	CU_ASSERT_EQUAL(rdt_qos_take(&q, &write, T0), 0); /* never after now */
	for (int i = 0; i < 100; i++)
		r = rdt_qos_take(&q, &read, T0);
	CU_ASSERT_EQUAL(r, T0 - RDT_QOS_BURST + 99 * SEC / 100);
	set(RDT_QOS_WRITE_BYTES, 1000);
	CU_ASSERT_EQUAL(rdt_qos_take(&q, &read, T0), 0);
	w = rdt_qos_take(&q, &write, T0);
	CU_ASSERT_EQUAL(rdt_qos_take(&q, &write, T0), w + SEC / 1000);
	/* Two limits together: the slower one decides. */
	memset(&q, 0, sizeof(q));
	cfg.limits[RDT_QOS_IOPS] = 1000;
	cfg.limits[RDT_QOS_WRITE_IOPS] = 10;
	rdt_qos_set(&q, &cfg);
	rdt_qos_take(&q, &write, T0);
	CU_ASSERT_EQUAL(rdt_qos_take(&q, &write, T0), T0 - RDT_QOS_BURST + SEC / 10);
	CU_ASSERT_EQUAL(rdt_qos_take(&q, &read, T0), T0 - RDT_QOS_BURST + 2 * SEC / 1000);
}

static void idle_time_is_not_saved_up(void)
{
	const struct rdt_qos_price read = {.ops = 1};
	unsigned int at_once = 0;

	set(RDT_QOS_IOPS, 1000);
	rdt_qos_take(&q, &read, T0);
	while (rdt_qos_take(&q, &read, T0 + 3600 * SEC) <= T0 + 3600 * SEC)
		at_once++;
	CU_ASSERT_EQUAL(at_once, 1000 * RDT_QOS_BURST / SEC + 1);
}

static void new_limits_forget_old_debts(void)
{
	const struct rdt_qos_price read = {.ops = 1};
	struct rdt_qos_config cfg = {0};

	set(RDT_QOS_IOPS, 1);
	for (int i = 0; i < 100; i++)
		rdt_qos_take(&q, &read, T0);
	CU_ASSERT_TRUE(rdt_qos_take(&q, &read, T0) > T0 + 90 * SEC);
	cfg.limits[RDT_QOS_IOPS] = 1000;
	rdt_qos_set(&q, &cfg);
	CU_ASSERT_TRUE(rdt_qos_take(&q, &read, T0) <= T0);
	rdt_qos_set(&q, NULL);
	CU_ASSERT_FALSE(atomic_load(&q.active));
	CU_ASSERT_EQUAL(rdt_qos_take(&q, &read, T0), 0);
}

#define THREADS 4
#define TURNS   50000

static void *taker(void *arg)
{
	const struct rdt_qos_price read = {.ops = 1, .bytes = 512};
	uint64_t *last = arg;

	for (int i = 0; i < TURNS; i++) {
		uint64_t start = rdt_qos_take(&q, &read, T0);

		if (start <= *last)
			return (void *)1; /* turns only move to later times */
		*last = start;
	}
	return NULL;
}

/* No turn is given twice and none is lost. */
static void reactors_share_without_a_lock(void)
{
	const struct rdt_qos_price read = {.ops = 1, .bytes = 512};
	uint64_t last[THREADS] = {0};
	pthread_t threads[THREADS];

	set(RDT_QOS_IOPS, 1000000);
	for (int i = 0; i < THREADS; i++)
		CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, taker, &last[i]), 0);
	for (int i = 0; i < THREADS; i++) {
		void *bad;

		pthread_join(threads[i], &bad);
		CU_ASSERT_PTR_NULL(bad);
	}
	CU_ASSERT_EQUAL(rdt_qos_take(&q, &read, T0),
			T0 - RDT_QOS_BURST + THREADS * TURNS * UINT64_C(1000));
}

/* ---- configuration ---- */

static char said[2048];

static void qos_take_line(void *arg, enum rd_log_level level, const char *line)
{
	snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s\n", line);
}

static int load(const char *ns, const char *hosts, struct rdt_config **config)
{
	char path[] = "/tmp/rdt-qos-XXXXXX";
	int fd = mkstemp(path), rc;
	struct rd_log *log;

	said[0] = 0;
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	CU_ASSERT_TRUE_FATAL(dprintf(fd,
				     "listeners: [{address: 127.0.0.1}]\nsubsystems:\n"
				     "  - nqn: nqn.2026-01.org.e:a\n    allow_any_host: true\n    "
				     "host_qos: [%s]\n    namespaces:\n"
				     "      - {nsid: 1, backend: memory, size: 1MiB, qos: {%s}}\n",
				     hosts, ns) > 0);
	close(fd);
	CU_ASSERT_EQUAL_FATAL(rd_log_create("t", -1, RD_LOG_INFO, qos_take_line, NULL, &log), 0);
	rc = rdt_config_load(path, log, config);
	rd_log_destroy(&log);
	unlink(path);
	return rc;
}

static void limits_are_loaded(void)
{
	const struct rdt_subsys_config *ss;
	struct rdt_config *config T_ENDS(rdt_config_put) = NULL;

	CU_ASSERT_EQUAL_FATAL(load("iops: 5000, read_iops: 4000, write_bandwidth: 20MiB",
				   "{host: \"nqn.2026-01.org.e:h\", bandwidth: 1GiB}", &config),
			      0);
	ss = &config->subsystems[0];
	CU_ASSERT_EQUAL(ss->namespaces[0].qos->limits[RDT_QOS_IOPS], 5000);
	CU_ASSERT_EQUAL(ss->namespaces[0].qos->limits[RDT_QOS_READ_IOPS], 4000);
	CU_ASSERT_EQUAL(ss->namespaces[0].qos->limits[RDT_QOS_WRITE_IOPS], 0);
	CU_ASSERT_EQUAL(ss->namespaces[0].qos->limits[RDT_QOS_WRITE_BYTES], 20 << 20);
	CU_ASSERT_EQUAL(ss->host_qos_count, 1);
	CU_ASSERT_STRING_EQUAL(ss->host_qos[0].host, "nqn.2026-01.org.e:h");
	CU_ASSERT_EQUAL(ss->host_qos[0].limits.limits[RDT_QOS_BYTES], 1 << 30);
}

static void bad_limits_are_refused(void)
{
	static const struct {
		const char *ns, *hosts, *want;
	} rows[] = {
		{"", "", "qos: limits nothing"},
		{"iops: 0", "", "qos.iops: found 0, expected 1"},
		{"bandwidth: 100", "",
		 "qos.bandwidth: found \"100\", expected 64KiB to 1TiB per second"},
		{"bandwidth: fast", "", "qos.bandwidth: found \"fast\""},
		{"iops: 10, read_iops: 11", "", "read_iops: is above"},
		{"bandwidth: 1MiB, write_bandwidth: 2MiB", "", "write_bandwidth: is above"},
		{"iops: 1", "{host: b b, iops: 1}", "host_qos[0].host: found \"b b\""},
		{"iops: 1", "{host: \"nqn.2026-01.org.e:h\"}", "host_qos[0]: limits nothing"},
		{"iops: 1", "{iops: 1}", "host_qos[0].host: missing"},
		{"iops: 1",
		 "{host: \"nqn.2026-01.org.e:h\", iops: 1}, {host: \"nqn.2026-01.org.e:h\", iops: "
		 "2}",
		 "host_qos[1].host: \"nqn.2026-01.org.e:h\" is listed twice"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rdt_config *config;

		CU_ASSERT_EQUAL(load(rows[i].ns, rows[i].hosts, &config), -EINVAL);
		if (!strstr(said, rows[i].want)) {
			printf("# row %zu said:\n# %s", i, said);
			CU_FAIL("another reason");
		}
	}
}

const struct t_case t_qos_cases[] = {
	{"rates are exact", rates_are_exact},
	{"reads and writes have their own", reads_and_writes_have_their_own},
	{"idle time is not saved up", idle_time_is_not_saved_up},
	{"new limits forget old debts", new_limits_forget_old_debts},
	{"reactors share without a lock", reactors_share_without_a_lock},
	{"limits are loaded", limits_are_loaded},
	{"bad limits are refused", bad_limits_are_refused},
	{NULL, NULL},
};
