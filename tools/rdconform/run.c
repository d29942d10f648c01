/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs tests with CUnit: selection, early ends of a test, and a target that no longer answers. */
#include "rdconform.h"

#include <CUnit/CUnit.h>
#include <CUnit/TestRun.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct rdc_buf {
	LIST_ENTRY(rdc_buf) link;
	max_align_t data[];
};

/* CUnit's test functions have no argument, so this holds the running test's state. Set by
 * rdc_run(). */
static struct rdc *running;

uint64_t rdc_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* ---- the ways out ---- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

void rdc_fail_at(struct rdc *t, const char *file, int line, const char *fmt, ...)
{
	char what[RDC_WHY - 64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	snprintf(t->why, sizeof(t->why), "%s (%s:%d)", what, base_name(file), line);
	t->verdict = RDC_FAILED;
	CU_assertImplementation(CU_FALSE, (unsigned int)line, t->why, file, t->test->name,
				CU_FALSE);
	longjmp(t->out, 1);
}

void rdc_not_supported(struct rdc *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(t->why, sizeof(t->why), fmt, ap);
	va_end(ap);
	t->verdict = RDC_NOT_SUPPORTED;
	longjmp(t->out, 1);
}

void *rdc_buf(struct rdc *t, size_t len)
{
	struct rdc_buf *b = calloc(1, sizeof(*b) + len);

	if (!b)
		RDC_FAIL(t, "no memory for %zu bytes on this machine", len);
	LIST_INSERT_HEAD(&t->bufs, b, link);
	return b->data;
}

void rdc_fill(void *buf, size_t len, unsigned int seed)
{
	uint32_t x = seed * 2654435761u + 1;
	unsigned char *p = buf;
	size_t i;

	for (i = 0; i < len; i++) {
		x = x * 1664525u + 1013904223u;
		p[i] = (unsigned char)(x >> 24);
	}
}

/* ---- one test ---- */

static void clean_up(struct rdc *t)
{
	struct rdc_buf *b;

	while (!LIST_EMPTY(&t->raws))
		rdc_raw_close(LIST_FIRST(&t->raws));
	/* A failed test leaves shared connections in an unknown state, so they are replaced. */
	rdc_hosts_drop(t, t->verdict == RDC_FAILED);
	while (!LIST_EMPTY(&t->mems)) {
		struct rdc_mem *m = LIST_FIRST(&t->mems);

		LIST_REMOVE(m, link);
		rd_fab_dereg_mr(&m->mr);
		free(m->p);
		free(m);
	}
	rd_fab_close(&t->fab);
	rd_loop_destroy(&t->loop);
	while ((b = LIST_FIRST(&t->bufs))) {
		LIST_REMOVE(b, link);
		free(b);
	}
}

static void run_body(struct rdc *t)
{
	char why[RDC_WHY / 2];

	if (t->gone[0])
		RDC_FAIL(t, "not run: %s", t->gone);
	if (t->suite->begin)
		t->suite->begin(t);
	t->test->fn(t);
	if (t->suite->end)
		t->suite->end(t);
	if (((t->suite->flags | t->test->flags) & RDC_ALIVE) && rdc_probe(t, why, sizeof(why)))
		RDC_FAIL(t, "afterwards another host is not served: %s", why);
}

static void run_test(void)
{
	struct rdc *t = running;
	struct rdc_result result;
	CU_pTest cu = CU_get_current_test();
	const struct rdc_test *test;
	uint64_t start = rdc_now_ms();

	for (test = t->suite->tests; test->name && strcmp(test->name, cu->pName) != 0; test++)
		;
	if (!test->name)
		return;
	t->test = test;
	t->arg = test->arg;
	t->verdict = RDC_PASSED;
	t->why[0] = '\0';
	if (strcmp(t->suite->family, RDC_ABUSE) == 0 && !t->cfg->abuse) {
		t->verdict = RDC_SKIPPED;
		snprintf(t->why, sizeof(t->why),
			 "can take the target's machine down; allow it by --abuse");
	} else if (((t->suite->flags | test->flags) & RDC_LOSS) && !t->cfg->dataloss) {
		t->verdict = RDC_SKIPPED;
		snprintf(t->why, sizeof(t->why), "writes to the namespace; allow it by --dataloss");
	} else if (setjmp(t->out) == 0) {
		run_body(t);
	}
	clean_up(t);
	result = (struct rdc_result){
		.suite = t->suite,
		.test = t->test,
		.verdict = t->verdict,
		.seconds = (double)(rdc_now_ms() - start) / 1000,
		.why = t->why[0] ? strdup(t->why) : NULL,
	};
	if (rdc_report_add(&t->report, &result))
		free(result.why);
	/* Without this check each further test would wait for a dead target until its time
	 * limit. */
	if (t->verdict == RDC_FAILED && !t->gone[0]) {
		char why[150];

		if (rdc_probe(t, why, sizeof(why)))
			snprintf(t->gone, sizeof(t->gone),
				 "the target is gone since %.30s.%.40s: %s", t->suite->name,
				 t->test->name, why);
		clean_up(t);
	}
}

/* ---- all tests ---- */

static bool matches(const char *pattern, const struct rdc_suite *suite, const struct rdc_test *test)
{
	char name[200], whole[200];
	unsigned int dots = 0;
	const char *p;

	for (p = pattern; *p; p++)
		dots += *p == '.';
	snprintf(name, sizeof(name), "%s.%s.%s", suite->family, suite->name, test->name);
	snprintf(whole, sizeof(whole), "%s%s", pattern, dots == 0 ? ".*.*" : dots == 1 ? ".*" : "");
	return fnmatch(whole, name, 0) == 0;
}

/* Whether the test is one for the transport of the target. */
static bool right_transport(const struct rdc_config *cfg, const struct rdc_suite *suite,
			    const struct rdc_test *test)
{
	unsigned int only = (suite->flags | test->flags) & (RDC_RDMA | RDC_TCP);

	return !cfg->uri.traddr[0] || !only || only == (cfg->uri.tcp ? RDC_TCP : RDC_RDMA);
}

bool rdc_selected(const struct rdc_config *cfg, const struct rdc_suite *suite,
		  const struct rdc_test *test)
{
	bool selected = cfg->n_select == 0;
	unsigned int i;

	if (!right_transport(cfg, suite, test))
		return false;

	for (i = 0; i < cfg->n_select; i++)
		selected |= matches(cfg->select[i], suite, test);
	for (i = 0; i < cfg->n_except; i++)
		selected &= !matches(cfg->except[i], suite, test);
	return selected;
}

static int add_suite(struct rdc *t, const struct rdc_suite *suite, CU_pSuite *out)
{
	const struct rdc_test *test;
	char name[100];

	*out = NULL;
	snprintf(name, sizeof(name), "%s.%s", suite->family, suite->name);
	for (test = suite->tests; test->name; test++) {
		if (!rdc_selected(t->cfg, suite, test))
			continue;
		if (!*out)
			*out = CU_add_suite(name, NULL, NULL);
		if (!*out || !CU_add_test(*out, test->name, run_test))
			return -ENOMEM;
	}
	return 0;
}

int rdc_run(struct rdc *t)
{
	const struct rdc_suite *suite;
	CU_pSuite cu;
	int rc;

	if (CU_initialize_registry() != CUE_SUCCESS)
		return -ENOMEM;
	running = t;
	for (suite = rdc_suites; suite->name; suite++) {
		rc = add_suite(t, suite, &cu);
		if (rc)
			goto out;
		t->suite = suite;
		if (cu)
			CU_run_suite(cu);
	}
	rc = 0;
out:
	rdc_hosts_drop(t, true);
	CU_cleanup_registry();
	running = NULL;
	return rc;
}
