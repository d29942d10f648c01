/* SPDX-License-Identifier: BSD-3-Clause */
#include "report.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void rdt_report_add(struct rdt_report *r, enum rd_log_level level, const char *text)
{
	bool first_error = level == RD_LOG_ERROR && r->errors++ == 0;
	bool full = r->count == RDT_REPORT_LINES;
	char *copy = !full || first_error ? strdup(text) : NULL;

	if (!copy || full)
		r->left_out++;
	if (!copy)
		return;
	if (full)
		free(r->lines[--r->count].text);
	r->lines[r->count++] = (struct rdt_report_line){level, copy};
}

/* @line: "PROGRAM: LEVEL: COMPONENT: text" */
static void report_line(void *arg, enum rd_log_level level, const char *line)
{
	struct rdt_report *r = arg;
	const char *text = line;

	for (int i = 0; i < 3 && text; i++) {
		text = strstr(text, ": ");
		text = text ? text + 2 : NULL;
	}
	if (!text)
		text = line;
	rd_log(r->parent, RD_LOG_CONFIG, level, "%s", text);
	if (level <= RD_LOG_WARN)
		rdt_report_add(r, level, text);
}

int rdt_report_init(struct rdt_report *r, struct rd_log *parent)
{
	memset(r, 0, sizeof(*r));
	r->parent = parent;
	return rd_log_create("report", -1, RD_LOG_INFO, report_line, r, &r->log);
}

void rdt_report_clear(struct rdt_report *r)
{
	while (r->count)
		free(r->lines[--r->count].text);
	r->errors = r->left_out = 0;
}

void rdt_report_fini(struct rdt_report *r)
{
	rdt_report_clear(r);
	rd_log_destroy(&r->log);
}

const char *rdt_report_first_error(const struct rdt_report *report, const char *otherwise)
{
	for (unsigned int i = 0; i < report->count; i++)
		if (report->lines[i].level == RD_LOG_ERROR)
			return report->lines[i].text;
	return otherwise;
}
