/* SPDX-License-Identifier: BSD-3-Clause */
#include "t_main.h"

#include <string.h>
#include <time.h>

#include <CUnit/TestRun.h>

static int t_count;
static double t_since;

static double t_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void t_print_failures(const CU_pFailureRecord first)
{
	for (CU_pFailureRecord f = first; f; f = f->pNext)
		printf("# %s:%u: %s\n", f->strFileName ? f->strFileName : "?", f->uiLineNumber,
		       f->strCondition ? f->strCondition : "?");
}

static void t_case_begins(const CU_pTest test, const CU_pSuite suite)
{
	t_since = t_now();
}

static void t_case_done(const CU_pTest test, const CU_pSuite suite, const CU_pFailureRecord failure)
{
	t_count++;
	t_print_failures(failure);
	printf("%s %d - %s: %s\n", failure ? "not ok" : "ok", t_count, suite->pName, test->pName);
	/* for tools/test-summary */
	printf("# time %.2f %s: %s\n", t_now() - t_since, suite->pName, test->pName);
	fflush(stdout);
}

static void t_suite_failed(const CU_pSuite suite)
{
	t_count++;
	printf("not ok %d - %s: suite set-up or tear-down\n", t_count, suite->pName);
}

static int t_add(const struct t_suite *s)
{
	CU_pSuite cs = CU_add_suite(s->name, s->setup, s->teardown);

	if (!cs)
		return -1;
	for (const struct t_case *c = s->cases; c->name; c++) {
		if (!CU_add_test(cs, c->name, c->fn))
			return -1;
	}
	return 0;
}

int t_run(int argc, char **argv, const struct t_suite *suites)
{
	const char *only = argc > 1 ? argv[1] : "";
	unsigned int failed;

	if (CU_initialize_registry() != CUE_SUCCESS)
		return 2;
	for (const struct t_suite *s = suites; s->name; s++) {
		if (strncmp(s->name, only, strlen(only)) == 0 && t_add(s)) {
			fprintf(stderr, "%s: %s\n", s->name, CU_get_error_msg());
			return 2;
		}
	}
	CU_set_test_start_handler(t_case_begins);
	CU_set_test_complete_handler(t_case_done);
	CU_set_suite_init_failure_handler(t_suite_failed);
	CU_set_suite_cleanup_failure_handler(t_suite_failed);
	CU_run_all_tests();
	failed = CU_get_number_of_tests_failed() + CU_get_number_of_suites_failed();
	printf("1..%d\n", t_count);
	CU_cleanup_registry();
	return failed ? 1 : 0;
}
