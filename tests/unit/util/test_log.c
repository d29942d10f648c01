/* SPDX-License-Identifier: BSD-3-Clause */
#include "suites.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "util/log.h"

struct lines {
	int count;
	enum rd_log_level level;
	char last[2048];
};

static void log_take_line(void *arg, enum rd_log_level level, const char *line)
{
	struct lines *l = arg;

	l->count++;
	l->level = level;
	snprintf(l->last, sizeof(l->last), "%s", line);
}

static void writes_one_line(void)
{
	struct rd_log *log;
	int fds[2];
	char buf[256];
	ssize_t n;

	CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
	CU_ASSERT_EQUAL_FATAL(rd_log_create("prog", fds[1], RD_LOG_INFO, NULL, NULL, &log), 0);
	rd_info(log, RD_LOG_FABRIC, "peer %d", 7);
	rd_debug(log, RD_LOG_FABRIC, "not this");
	n = read(fds[0], buf, sizeof(buf));
	CU_ASSERT_EQUAL_FATAL(n, (ssize_t)strlen("prog: info: fabric: peer 7\n"));
	CU_ASSERT_EQUAL(memcmp(buf, "prog: info: fabric: peer 7\n", (size_t)n), 0);
	rd_log_destroy(&log);
	CU_ASSERT_PTR_NULL(log);
	rd_log_destroy(&log);
	close(fds[0]);
	close(fds[1]);
}

static void levels_by_component(void)
{
	struct lines lines = {0};
	struct rd_log *log T_ENDS(rd_log_destroy) = NULL;
	const char *bad, *spec;

	CU_ASSERT_EQUAL_FATAL(rd_log_create("p", -1, RD_LOG_NOTICE, log_take_line, &lines, &log),
			      0);
	CU_ASSERT_EQUAL(rd_log_parse(log, "warn,fabric=trace,QPAIR=Debug", &bad), 0);
	CU_ASSERT_TRUE(rd_log_enabled(log, RD_LOG_FABRIC, RD_LOG_TRACE));
	CU_ASSERT_TRUE(rd_log_enabled(log, RD_LOG_QPAIR, RD_LOG_DEBUG));
	CU_ASSERT_FALSE(rd_log_enabled(log, RD_LOG_QPAIR, RD_LOG_TRACE));
	CU_ASSERT_TRUE(rd_log_enabled(log, RD_LOG_MAIN, RD_LOG_WARN));
	CU_ASSERT_FALSE(rd_log_enabled(log, RD_LOG_MAIN, RD_LOG_NOTICE));
	spec = "debug,fabrik=info";
	CU_ASSERT_EQUAL(rd_log_parse(log, spec, &bad), -EINVAL);
	CU_ASSERT_PTR_EQUAL(bad, spec + 6);
	/* A bad specification changes nothing. */
	CU_ASSERT_FALSE(rd_log_enabled(log, RD_LOG_MAIN, RD_LOG_NOTICE));
	for (const char *const *s = (const char *const[]){"", "info,", "=info", "fabric=", "loud",
							  "fabric=info=info", NULL};
	     *s; s++)
		CU_ASSERT_EQUAL(rd_log_parse(log, *s, &bad), -EINVAL);
	CU_ASSERT_EQUAL(rd_log_parse(log, "main=error", &bad), 0);
	rd_warn(log, RD_LOG_MAIN, "no");
	CU_ASSERT_EQUAL(lines.count, 0);
	rd_err(log, RD_LOG_MAIN, "yes");
	CU_ASSERT_EQUAL(lines.count, 1);
	CU_ASSERT_EQUAL(lines.level, RD_LOG_ERROR);
	rd_err(NULL, RD_LOG_MAIN, "dropped");
	CU_ASSERT_EQUAL(lines.count, 1);
}

/* Each listed name must be accepted. */
static void listed_names_exist(void)
{
	struct rd_log *log T_ENDS(rd_log_destroy) = NULL;
	char text[64], names[256], *save = NULL;
	const char *bad;

	CU_ASSERT_EQUAL_FATAL(rd_log_create("p", -1, RD_LOG_INFO, NULL, NULL, &log), 0);
	snprintf(names, sizeof(names), "%s", rd_log_level_names());
	for (char *n = strtok_r(names, ", ", &save); n; n = strtok_r(NULL, ", ", &save))
		CU_ASSERT_EQUAL(rd_log_parse(log, n, &bad), 0);
	snprintf(names, sizeof(names), "%s", rd_log_comp_names());
	for (char *n = strtok_r(names, ", ", &save); n; n = strtok_r(NULL, ", ", &save)) {
		snprintf(text, sizeof(text), "%s=trace", n);
		CU_ASSERT_EQUAL(rd_log_parse(log, text, &bad), 0);
	}
	for (int c = 0; c < RD_LOG_COMPS; c++)
		CU_ASSERT_TRUE(rd_log_enabled(log, (enum rd_log_comp)c, RD_LOG_TRACE));
}

static void foreign_text_is_tamed(void)
{
	struct lines lines = {0};
	struct rd_log *log T_ENDS(rd_log_destroy) = NULL;
	char text[3000];

	CU_ASSERT_EQUAL_FATAL(rd_log_create("p", -1, RD_LOG_INFO, log_take_line, &lines, &log), 0);
	rd_info(log, RD_LOG_CTRL, "host %s",
		"a\nb\033[31m\x7f"
		"\xc3\xa9");
	CU_ASSERT_STRING_EQUAL(lines.last, "p: info: ctrl: host a b?[31m?\xc3\xa9");
	rd_info(log, RD_LOG_CTRL, "host %s",
		"\xc2\x9b"
		"31m \xc2\xa9");
	CU_ASSERT_STRING_EQUAL(lines.last, "p: info: ctrl: host ??31m \xc2\xa9");
	/* The same set as single bytes, a cut sequence, a surrogate, an overlong newline. */
	rd_info(log, RD_LOG_CTRL, "host %s",
		"\x9b"
		"31m \xe2\x82 \xed\xa0\x80 \xc0\x8a \xe2\x82\xac \xf0\x9f\x98\x80 \xf0\x9f");
	CU_ASSERT_STRING_EQUAL(
		lines.last, "p: info: ctrl: host ?31m ?? ??? ?? \xe2\x82\xac \xf0\x9f\x98\x80 ??");
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	errno = ENOENT;
	rd_info(log, RD_LOG_CTRL, "%s", text);
	CU_ASSERT_EQUAL(errno, ENOENT);
	CU_ASSERT_EQUAL(strlen(lines.last), 1023);
	CU_ASSERT_STRING_EQUAL(lines.last + 1020, "...");
}

static void rate_is_limited(void)
{
	struct rd_ratelimit rl = {0};
	uint32_t squashed;

	CU_ASSERT_TRUE(rd_ratelimit_pass(&rl, 1000, 100, 2, &squashed));
	CU_ASSERT_TRUE(rd_ratelimit_pass(&rl, 1010, 100, 2, &squashed));
	CU_ASSERT_EQUAL(squashed, 0);
	for (int i = 0; i < 5; i++)
		CU_ASSERT_FALSE(rd_ratelimit_pass(&rl, 1099, 100, 2, &squashed));
	CU_ASSERT_TRUE(rd_ratelimit_pass(&rl, 1100, 100, 2, &squashed));
	CU_ASSERT_EQUAL(squashed, 5);
	CU_ASSERT_TRUE(rd_ratelimit_pass(&rl, 1101, 100, 2, &squashed));
	CU_ASSERT_EQUAL(squashed, 0);
	CU_ASSERT_FALSE(rd_ratelimit_pass(&rl, 1102, 100, 2, &squashed));
}

#define LIMITED(at) rd_log_limited(&rl, (at), log, RD_LOG_CTRL, RD_LOG_INFO, "%.*s", (int)len, text)

static void limited_message_tells_how_many(void)
{
	struct rd_ratelimit rl = {0};
	struct lines lines = {0};
	struct rd_log *log T_ENDS(rd_log_destroy) = NULL;
	const char *bad;
	char text[2000];
	size_t len = 3;

	CU_ASSERT_EQUAL_FATAL(rd_log_create("p", -1, RD_LOG_INFO, log_take_line, &lines, &log), 0);
	memset(text, 'x', sizeof(text));
	for (int i = 0; i < RD_LOG_BURST + 3; i++)
		LIMITED(5);
	CU_ASSERT_EQUAL(lines.count, RD_LOG_BURST);
	CU_ASSERT_STRING_EQUAL(lines.last, "p: info: ctrl: xxx");
	LIMITED(RD_LOG_BURST_NS + 5);
	CU_ASSERT_STRING_EQUAL(lines.last, "p: info: ctrl: xxx (3 more like it)");
	LIMITED(RD_LOG_BURST_NS + 6);
	CU_ASSERT_STRING_EQUAL(lines.last, "p: info: ctrl: xxx");
	/* Lines below the log level do not use the rate limit. */
	CU_ASSERT_EQUAL(rd_log_parse(log, "ctrl=warn", &bad), 0);
	for (int i = 0; i < 2 * RD_LOG_BURST; i++)
		LIMITED(RD_LOG_BURST_NS + 7);
	CU_ASSERT_EQUAL(rd_log_parse(log, "ctrl=info", &bad), 0);
	LIMITED(RD_LOG_BURST_NS + 8);
	CU_ASSERT_STRING_EQUAL(lines.last, "p: info: ctrl: xxx");
	/* A line that is cut still has it. */
	for (int i = 0; i < RD_LOG_BURST; i++)
		LIMITED(RD_LOG_BURST_NS + 9);
	len = sizeof(text);
	LIMITED(3 * RD_LOG_BURST_NS);
	CU_ASSERT_EQUAL(strlen(lines.last), 1023);
	CU_ASSERT_PTR_NOT_NULL(strstr(lines.last, "xxx... (3 more like it)"));
}

#define ROUNDS 20000
struct crowd {
	struct rd_ratelimit rl;
	_Atomic uint64_t passed;
	_Atomic uint64_t told;
};

static void *crowd_thread(void *arg)
{
	struct crowd *c = arg;
	uint32_t squashed;

	for (uint64_t i = 1; i <= ROUNDS; i++)
		if (rd_ratelimit_pass(&c->rl, i, 1000, 2, &squashed)) {
			c->passed++;
			c->told += squashed;
		}
	return NULL;
}

static void threads_share_a_limit(void)
{
	struct crowd c = {0};
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, crowd_thread, &c), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	/* No line is lost: each was written, or counted by a written one, or is still to be
	 * counted. */
	CU_ASSERT_EQUAL(c.passed + c.told + c.rl.squashed, 4 * ROUNDS);
	CU_ASSERT_TRUE(c.passed >= 2);
}

const struct t_case t_log_cases[] = {
	{"a message is one line of program, level, component", writes_one_line},
	{"levels are kept for each component", levels_by_component},
	{"every name in the usage text is accepted", listed_names_exist},
	{"control characters and long texts are tamed", foreign_text_is_tamed},
	{"repeated messages are squashed and counted", rate_is_limited},
	{"a limited message tells how many were held back", limited_message_tells_how_many},
	{"threads share a limit, and none of their messages is lost", threads_share_a_limit},
	{NULL, NULL},
};
