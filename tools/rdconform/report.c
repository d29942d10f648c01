/* SPDX-License-Identifier: BSD-3-Clause */
/* Output: a line for each test, the totals, and JUnit XML. */
#include "rdconform.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/utf8.h"

static const char *const verdicts[] = {[RDC_PASSED] = "ok",
				       [RDC_FAILED] = "FAILED",
				       [RDC_NOT_SUPPORTED] = "not supported",
				       [RDC_SKIPPED] = "skipped"};

void rdc_report_list(const struct rdc_suite *suite, const struct rdc_test *test)
{
	printf("%s.%s.%s: %s [%s]%s%s\n", suite->family, suite->name, test->name, test->what,
	       test->spec, strcmp(suite->family, RDC_ABUSE) == 0 ? " (--abuse)" : "",
	       (suite->flags | test->flags) & RDC_LOSS ? " (--dataloss)" : "");
}

int rdc_report_add(struct rdc_report *report, const struct rdc_result *result)
{
	const struct rdc_test *test = result->test;

	if (result->why)
		rd_mask_control(result->why,
				strlen(result->why)); /* it contains texts of the target */
	printf("%s.%s.%s: %s", result->suite->family, result->suite->name, test->name,
	       verdicts[result->verdict]);
	if (result->verdict == RDC_FAILED)
		printf("\n    wanted: %s [%s]\n    seen:   %s", test->what, test->spec,
		       result->why ? result->why : "");
	else if (result->why)
		printf(": %s", result->why);
	putchar('\n');
	fflush(stdout);
	report->count[result->verdict]++;
	if (report->n == report->room) {
		size_t room = report->room ? 2 * report->room : 64;
		struct rdc_result *p = reallocarray(report->results, room, sizeof(*p));

		if (!p)
			return -ENOMEM;
		report->results = p;
		report->room = room;
	}
	report->results[report->n++] = *result;
	return 0;
}

void rdc_report_summary(const struct rdc_report *report)
{
	const unsigned int *n = report->count;

	printf("\n%u tests: %u ok, %u failed, %u not supported, %u skipped\n",
	       n[RDC_PASSED] + n[RDC_FAILED] + n[RDC_NOT_SUPPORTED] + n[RDC_SKIPPED], n[RDC_PASSED],
	       n[RDC_FAILED], n[RDC_NOT_SUPPORTED], n[RDC_SKIPPED]);
	fflush(stdout);
}

static void put_xml(FILE *f, const char *text)
{
	for (; text && *text; text++) {
		switch (*text) {
		case '<':
			fputs("&lt;", f);
			break;
		case '>':
			fputs("&gt;", f);
			break;
		case '&':
			fputs("&amp;", f);
			break;
		case '"':
			fputs("&quot;", f);
			break;
		default:
			/* XML does not allow other control characters. */
			fputc((unsigned char)*text < 0x20 ? ' ' : *text, f);
			break;
		}
	}
}

static void put_case(FILE *f, const struct rdc_result *r)
{
	fprintf(f, "    <testcase classname=\"%s.%s\" name=\"%s\" time=\"%.3f\"", r->suite->family,
		r->suite->name, r->test->name, r->seconds);
	if (r->verdict == RDC_PASSED) {
		fputs("/>\n", f);
		return;
	}
	fprintf(f, "><%s message=\"", r->verdict == RDC_FAILED ? "failure" : "skipped");
	if (r->verdict == RDC_FAILED) {
		put_xml(f, r->test->what);
		fprintf(f, " [%s]: ", r->test->spec);
	} else {
		fprintf(f, "%s: ", verdicts[r->verdict]);
	}
	put_xml(f, r->why);
	fputs("\"/></testcase>\n", f);
}

int rdc_report_junit(const struct rdc_report *report, const char *path)
{
	const struct rdc_suite *suite;
	FILE *f = fopen(path, "we");
	size_t i;
	int bad;

	if (!f)
		return -errno;
	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n", f);
	for (suite = rdc_suites; suite->name; suite++) {
		unsigned int n = 0, failed = 0, skipped = 0;

		for (i = 0; i < report->n; i++) {
			if (report->results[i].suite != suite)
				continue;
			n++;
			failed += report->results[i].verdict == RDC_FAILED;
			skipped += report->results[i].verdict >= RDC_NOT_SUPPORTED;
		}
		if (!n)
			continue;
		fprintf(f,
			"  <testsuite name=\"%s.%s\" tests=\"%u\" failures=\"%u\" skipped=\"%u\" "
			"errors=\"0\">\n",
			suite->family, suite->name, n, failed, skipped);
		for (i = 0; i < report->n; i++) {
			if (report->results[i].suite == suite)
				put_case(f, &report->results[i]);
		}
		fputs("  </testsuite>\n", f);
	}
	fputs("</testsuites>\n", f);
	bad = ferror(f);
	if (fclose(f) || bad)
		return errno ? -errno : -EIO;
	return 0;
}

void rdc_report_free(struct rdc_report *report)
{
	size_t i;

	for (i = 0; i < report->n; i++)
		free(report->results[i].why);
	free(report->results);
	memset(report, 0, sizeof(*report));
}
