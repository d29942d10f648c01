/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of a target as text for Prometheus and OpenMetrics, and as JSON: what hosts did is
 * in them, and the text can be parsed whatever hosts are called. */
#include <stdlib.h>
#include <string.h>

#include "target/manage/figures/figures.h"
#include "t_rpc.h"

#define SERIES_MAX 2000u

/* The caller frees it. */
static char *metrics_text(struct t_rpc *r, bool openmetrics)
{
	json_t *answer;
	const json_t *result = t_rpc_result(
		r, "metrics.get", openmetrics ? "{\"format\":\"openmetrics\"}" : "{}", &answer);
	char *text = strdup(json_string_value(json_object_get(result, "text")));

	CU_ASSERT_PTR_NOT_NULL_FATAL(text);
	json_decref(answer);
	return text;
}

/* Behind the name of a metric or label; NULL: there is none. */
static char *skip_name(char *at)
{
	size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz_");

	return n ? at + n : NULL;
}

/* Behind a quoted value, in which a backslash is followed by a backslash, a quote or "n". */
static char *skip_value(char *at)
{
	if (*at++ != '"')
		return NULL;
	for (; *at && *at != '"'; at++)
		if (*at == '\\' && !strchr("\\\"n", *++at))
			return NULL;
	return *at ? at + 1 : NULL;
}

/* Checks a sample, "NAME{LABEL="VALUE",...} NUMBER", and cuts the number off. */
static bool cut_sample(char *line)
{
	char *at = skip_name(line), *end;

	if (at && *at == '{') {
		do {
			at = skip_name(at + 1);
			at = at && *at == '=' ? skip_value(at + 1) : NULL;
		} while (at && *at == ',');
		at = at && *at == '}' ? at + 1 : NULL;
	}
	if (!at || *at != ' ')
		return false;
	*at++ = '\0';
	strtod(at, &end);
	return end > at && !*end;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Each sample can be parsed, belongs to the family that was named last, and is there once. Changes
 * @text. */
static void expect_well_formed(char *text)
{
	char *lines[SERIES_MAX], *line, *rest = text, family[128] = "";
	unsigned int n = 0;

	while ((line = strsep(&rest, "\n")) && *line) {
		if (strncmp(line, "# TYPE ", 7) == 0)
			sscanf(line + 7, "%127s", family);
		if (line[0] == '#')
			continue;
		if (!cut_sample(line) || strncmp(line, family, strlen(family)) != 0) {
			fprintf(stderr, "not of family \"%s\": %s\n", family, line);
			CU_FAIL("a sample that is not well-formed");
		}
		CU_ASSERT_FATAL(n < SERIES_MAX);
		lines[n++] = line;
	}
	CU_ASSERT_TRUE(n > 50);
	qsort(lines, n, sizeof(lines[0]), by_text);
	for (unsigned int i = 1; i < n; i++)
		CU_ASSERT_STRING_NOT_EQUAL(lines[i - 1], lines[i]);
}

static void expect_line(const char *text, const char *line)
{
	const char *at = strstr(text, line);

	if (!at)
		fprintf(stderr, "no line %s\n", line);
	CU_ASSERT_PTR_NOT_NULL(at);
}

static void rw(struct t_conn *c, bool write, uint64_t lba, uint32_t blocks)
{
	static uint8_t buf[8192];
	struct nvme_sqe sqe;

	t_rw_sqe(c, &sqe, write, lba, blocks, buf);
	t_exec(c, &sqe);
}

/* 3 writes of 512 bytes, 2 reads of 4096, and a read that fails. */
static void do_some_io(struct t_rpc *r)
{
	for (unsigned int i = 0; i < 3; i++)
		rw(r->pair.io, true, i, 1);
	for (unsigned int i = 0; i < 2; i++)
		rw(r->pair.io, false, i, 8);
	rw(r->pair.io, false, T_BLOCKS, 1);
}

static void what_hosts_did_is_in_the_metrics(void)
{
	static const char *const lines[] = {
		"rdtarget_io_completed_total{subsystem=\"" T_NQN "\",nsid=\"1\",op=\"write\"} 3\n",
		"rdtarget_io_completed_total{subsystem=\"" T_NQN "\",nsid=\"1\",op=\"read\"} 3\n",
		"rdtarget_io_completed_total{subsystem=\"" T_NQN "\",nsid=\"5\",op=\"write\"} 0\n",
		"rdtarget_io_bytes_total{subsystem=\"" T_NQN "\",nsid=\"1\",op=\"write\"} 1536\n",
		"rdtarget_io_bytes_total{subsystem=\"" T_NQN "\",nsid=\"1\",op=\"read\"} 8192\n",
		"rdtarget_io_errors_total{subsystem=\"" T_NQN
		"\",nsid=\"1\",sct=\"0\",sc=\"0x80\"} "
		"1\n",
		"rdtarget_io_duration_seconds_bucket{subsystem=\"" T_NQN "\",nsid=\"1\",op="
		"\"write\",le=\"+Inf\"} 3\n",
		"rdtarget_io_duration_seconds_count{subsystem=\"" T_NQN "\",nsid=\"1\",op="
		"\"write\"} 3\n",
		"rdtarget_host_io_bytes_total{host=\"" T_HOST "\",op=\"write\"} 1536\n",
		"rdtarget_host_connections{host=\"" T_HOST "\"} 2\n",
		"rdtarget_reactor_io_completed_total{reactor=\"1\",op=\"write\"} 3\n",
		"rdtarget_reactor_io_completed_total{reactor=\"0\",op=\"write\"} 0\n",
		"rdtarget_namespace_size_bytes{subsystem=\"" T_NQN "\",nsid=\"5\"} 2097152\n",
		"rdtarget_controllers 1\n",
		"rdtarget_namespaces 3\n",
	};
	struct t_rpc r T_ENDS(t_rpc_free);
	char *text T_FREE = NULL;

	t_rpc_open(&r);
	do_some_io(&r);
	text = metrics_text(&r, false);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		expect_line(text, lines[i]);
	expect_well_formed(text);
}

static void what_hosts_did_is_in_the_statistics(void)
{
	const json_t *result, *one;
	json_t *answer;
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open(&r);
	do_some_io(&r);
	result =
		t_rpc_result(&r, "stats.get",
			     "{\"namespaces\":true,\"hosts\":true,\"nqn\":\"" T_NQN "\",\"nsid\":1,"
			     "\"histograms\":true}",
			     &answer);
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(result, "namespaces_matching")), 1);
	one = json_array_get(json_object_get(result, "namespaces"), 0);
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(one, "nsid")), 1);
	one = json_object_get(one, "write");
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(one, "count")), 3);
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(one, "bytes")), 1536);
	CU_ASSERT_TRUE(json_array_size(json_object_get(one, "histogram")) > 0);
	one = json_array_get(json_object_get(result, "hosts"), 0);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(one, "hostnqn")), T_HOST);
	json_decref(answer);
	/* Parts of lists: the numbers before and behind one are left out, and still counted. */
	result = t_rpc_result(&r, "stats.get", "{\"namespaces\":true,\"offset\":1,\"limit\":1}",
			      &answer);
	CU_ASSERT_EQUAL(json_array_size(json_object_get(result, "namespaces")), 1);
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(result, "namespaces_matching")), 3);
	json_decref(answer);
}

/* Host names with what the format uses, what it must not contain, and pairs that would be the same
 * with a simpler escape. */
static void names_of_hosts_do_not_break_the_metrics(void)
{
	static const struct {
		const char *name, *label;
	} rows[] = {
		{"nqn.x:\"} 7", "host=\"nqn.x:\\\"} 7\""},
		{"nqn.x:\n", "host=\"nqn.x:\\\\x0a\""},
		{"nqn.x:\\x0a", "host=\"nqn.x:\\\\x5cx0a\""},
		{"nqn.x:\xff\xe2\x82", "host=\"nqn.x:\\\\xff\\\\xe2\\\\x82\""},
		{"nqn.x:\xc3\xbc", "host=\"nqn.x:\xc3\xbc\""},
		{"", "host=\"\""},
	};
	struct t_rpc r T_ENDS(t_rpc_free);
	char *text T_FREE = NULL;

	t_rpc_open(&r);
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct t_conn *c = t_conn_new(r.pair.env, 0, 0, 32);
		struct t_answer a =
			t_connect_as(c, NVMF_CNTLID_DYNAMIC, rows[i].name, (uint8_t)(0x40 + i));

		CU_ASSERT_EQUAL(t_status(&a), 0);
	}
	text = metrics_text(&r, false);
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		expect_line(text, rows[i].label);
	expect_well_formed(text);
}

/* Counters have "_total" in their samples, and in OpenMetrics not in the name of their family. */
static void both_formats_name_counters_as_they_must(void)
{
	char *prometheus, *open;
	struct t_rpc r T_ENDS(t_rpc_free);
	size_t len;

	t_rpc_open(&r);
	prometheus = metrics_text(&r, false);
	open = metrics_text(&r, true);
	len = strlen(open);
	expect_line(prometheus, "# TYPE rdtarget_io_completed_total counter\n");
	expect_line(open, "# TYPE rdtarget_io_completed counter\n");
	expect_line(prometheus, "\nrdtarget_io_completed_total{");
	expect_line(open, "\nrdtarget_io_completed_total{");
	CU_ASSERT_PTR_NULL(strstr(prometheus, "# EOF"));
	CU_ASSERT_STRING_EQUAL(open + len - strlen("\n# EOF\n"), "\n# EOF\n");
	CU_ASSERT_PTR_EQUAL(strstr(open, "# EOF"), open + len - strlen("# EOF\n"));
	expect_well_formed(open);
	free(prometheus);
	free(open);
}

/* What a reactor that hangs has in flight is not known, but the counters are. */
static void a_reactor_that_hangs_delays_no_metrics(void)
{
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open(&r);
	do_some_io(&r);
	r.pair.env->still[1] = true;
	t_rpc_send(&r, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"metrics.get\"}");
	t_turn(r.pair.env);
	t_advance(r.pair.env, RD_NSEC_PER_SEC);
	CU_ASSERT_PTR_NOT_NULL_FATAL(t_rpc_line(&r));
	expect_line(r.answer, "rdtarget_reactor_up{reactor=\\\"0\\\"} 1\\n");
	expect_line(r.answer, "rdtarget_reactor_up{reactor=\\\"1\\\"} 0\\n");
	expect_line(r.answer,
		    "rdtarget_reactor_io_completed_total{reactor=\\\"1\\\",op=\\\"write\\\"} 3\\n");
	r.pair.env->still[1] = false;
	t_turn(r.pair.env);
}

/* The first object of a kind in the answer of stats.get. */
static const json_t *first_object(const json_t *stats, unsigned int of)
{
	static const struct {
		unsigned int of;
		const char *name;
	} rows[] = {
		{RDT_OF_TARGET, "target"},        {RDT_OF_PROCESS, "process"},
		{RDT_OF_REACTOR, "reactors"},     {RDT_OF_LISTENER, "listeners"},
		{RDT_OF_SUBSYSTEM, "subsystems"}, {RDT_OF_NAMESPACE, "namespaces"},
		{RDT_OF_HOST, "hosts"},           {RDT_OF_TOTAL, "total"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const json_t *o = json_object_get(stats, rows[i].name);

		if (rows[i].of == of)
			return json_is_array(o) ? json_array_get(o, 0) : o;
	}
	return NULL;
}

static bool has_figure(const json_t *o, const struct rdt_figure *f)
{
	const char *dot = strchr(f->name, '.');
	char part[64];

	if (dot) {
		snprintf(part, sizeof(part), "%.*s", (int)(dot - f->name), f->name);
		o = json_object_get(o, part);
	}
	if (f->form == RDT_FIGURE_OP)
		o = json_object_get(o, "read");
	return json_object_get(o, dot ? dot + 1 : f->name) != NULL;
}

/* This target was started without listeners and without "control", and took over from none. */
static bool has_no_value(const struct rdt_figure *f)
{
	return strcmp(f->name, "control_up") == 0 || strcmp(f->name, "upgrade_pause_seconds") == 0;
}

/* Whatever is added to the rows is in all outputs, for each object that has it. */
static void every_figure_is_in_every_output(void)
{
	struct t_rpc r T_ENDS(t_rpc_free);
	char *text T_FREE = NULL;
	const json_t *stats;
	json_t *answer;

	t_rpc_open(&r);
	do_some_io(&r);
	stats = t_rpc_result(&r, "stats.get", "{\"namespaces\":true,\"hosts\":true}", &answer);
	text = metrics_text(&r, false);
	for (unsigned int i = 0; i < rdt_figures_count; i++) {
		const struct rdt_figure *f = &rdt_figures[i];

		CU_ASSERT_NOT_EQUAL(f->series, 0);
		CU_ASSERT_EQUAL(f->series & ~f->in, 0);
		for (unsigned int of = 1; of < 1u << RDT_OBJECTS; of <<= 1) {
			const json_t *o = first_object(stats, of);
			char name[128], line[256];

			if (!(f->in & of))
				continue;
			if (o && !has_no_value(f) && !has_figure(o, f)) {
				fprintf(stderr, "no %s of %#x\n", f->name, of);
				CU_FAIL("a figure that JSON has not");
			}
			if (!(f->series & of))
				continue;
			rdt_figure_metric(f, of, name, sizeof(name));
			snprintf(line, sizeof(line), "# TYPE %s%s ", name,
				 f->kind == RDT_COUNTER ? "_total" : "");
			expect_line(text, line);
			if (!o || f->label || f->form != RDT_FIGURE_OWN)
				continue;
			snprintf(line, sizeof(line), "\n%s%s", name,
				 f->kind == RDT_COUNTER ? "_total" : "");
			if (!has_no_value(f))
				expect_line(text, line);
		}
	}
	json_decref(answer);
}

const struct t_case t_metrics_cases[] = {
	{"every figure is in every output", every_figure_is_in_every_output},
	{"what hosts did is in the metrics", what_hosts_did_is_in_the_metrics},
	{"what hosts did is in the statistics", what_hosts_did_is_in_the_statistics},
	{"names of hosts do not break the metrics", names_of_hosts_do_not_break_the_metrics},
	{"both formats name counters as they must", both_formats_name_counters_as_they_must},
	{"a reactor that hangs delays no metrics", a_reactor_that_hangs_delays_no_metrics},
	{NULL, NULL},
};
