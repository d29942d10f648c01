/* SPDX-License-Identifier: BSD-3-Clause */
/* Logs that nobody reads: full pipes and sockets. */
#include "suites.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/log.h"
#include "util/log_out.h"

/* More than a pipe or socket and the buffer hold. */
#define MANY 40000

static struct rd_log *buffered(int fd, enum rd_log_format format)
{
	struct rd_log *log;

	CU_ASSERT_EQUAL_FATAL(rd_log_create("p", fd, RD_LOG_INFO, NULL, NULL, &log), 0);
	rd_log_set_format(log, format, false);
	CU_ASSERT_EQUAL_FATAL(rd_log_buffer(log), 0);
	return log;
}

/* Reads lines until one contains @last. Returns the number of lines "line N", whose N must grow. */
static unsigned long read_numbers(FILE *in, const char *last, unsigned long long *dropped)
{
	unsigned long n, before = 0, count = 0;
	char line[RD_LOG_OUT_LINE + 1];

	*dropped = 0;
	while (fgets(line, sizeof(line), in)) {
		const char *at = strstr(line, "line ");
		unsigned long long more;

		CU_ASSERT_EQUAL(line[strlen(line) - 1], '\n');
		if (strstr(line, last))
			break;
		if (sscanf(line, "p: warning: main: %llu lines of this log were dropped", &more) ==
		    1) {
			*dropped += more;
			continue;
		}
		CU_ASSERT_PTR_NOT_NULL_FATAL(at);
		n = strtoul(at + 5, NULL, 10);
		CU_ASSERT_TRUE(n > before);
		before = n;
		count++;
	}
	return count;
}

static void unread_log(const int fds[2])
{
	unsigned long long dropped;
	FILE *in = fdopen(fds[0], "r");
	unsigned long count;
	struct rd_log *log;

	CU_ASSERT_PTR_NOT_NULL_FATAL(in);
	log = buffered(fds[1], RD_LOG_PLAIN);
	for (unsigned long i = 1; i <= MANY; i++)
		rd_info(log, RD_LOG_MAIN, "line %lu %s", i, "------------------------------");
	/* It still accepts lines, and reports the number of missing lines as soon as it is read. */
	count = read_numbers(in, "were dropped", &dropped);
	CU_ASSERT_TRUE(count > 1000 && count < MANY);
	rd_info(log, RD_LOG_MAIN, "line %d", MANY + 1);
	rd_info(log, RD_LOG_MAIN, "the end");
	count += read_numbers(in, "the end", &dropped);
	CU_ASSERT_TRUE(count < MANY);
	rd_log_destroy(&log);
	fclose(in);
	close(fds[1]);
}

static void unread_pipe(void)
{
	int fds[2];

	CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
	unread_log(fds);
}

static void unread_socket(void)
{
	int fds[2];

	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	unread_log(fds);
}

struct writer {
	struct rd_log *log;
	pthread_t thread;
};

static void *write_lines(void *arg)
{
	const struct writer *w = arg;

	for (int i = 0; i < MANY / 4; i++)
		rd_info(w->log, RD_LOG_MAIN, "x");
	return NULL;
}

/* Each line arrives, or is counted as missing. */
static void lines_are_counted(void)
{
	struct writer writers[4];
	unsigned long long dropped = 0, more;
	unsigned long count = 0;
	struct rd_log *log;
	char line[256];
	int fds[2];
	FILE *in;

	CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
	in = fdopen(fds[0], "r");
	CU_ASSERT_PTR_NOT_NULL_FATAL(in);
	log = buffered(fds[1], RD_LOG_PLAIN);
	for (int i = 0; i < 4; i++) {
		writers[i].log = log;
		CU_ASSERT_EQUAL_FATAL(
			pthread_create(&writers[i].thread, NULL, write_lines, &writers[i]), 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(writers[i].thread, NULL);
	while (count + dropped < MANY / 4 * 4 && fgets(line, sizeof(line), in)) {
		if (sscanf(line, "p: warning: main: %llu lines", &more) == 1)
			dropped += more;
		else
			count += strcmp(line, "p: info: main: x\n") == 0;
	}
	CU_ASSERT_EQUAL(count + dropped, MANY / 4 * 4);
	CU_ASSERT_TRUE(dropped);
	rd_log_destroy(&log);
	fclose(in);
	close(fds[1]);
}

static void the_end_does_not_wait_for_ever(void)
{
	struct rd_log *log;
	int fds[2];

	CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
	log = buffered(fds[1], RD_LOG_PLAIN);
	for (int i = 0; i < MANY; i++)
		rd_info(log, RD_LOG_MAIN, "line %d", i);
	rd_log_destroy(&log); /* nobody reads */
	CU_ASSERT_PTR_NULL(log);
	close(fds[0]);
	close(fds[1]);
}

static void flags_stay(void)
{
	struct rd_log *log;
	int fds[2];

	CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
	log = buffered(fds[1], RD_LOG_PLAIN);
	rd_info(log, RD_LOG_MAIN, "x");
	CU_ASSERT_FALSE(fcntl(fds[1], F_GETFL) & O_NONBLOCK);
	rd_log_destroy(&log);
	close(fds[0]);
	close(fds[1]);
}

/* The output of a log in @format for one line. */
static const char *written(enum rd_log_format format, bool priorities, const char *text, char *buf,
			   size_t size)
{
	struct rd_log *log;
	int fds[2];
	ssize_t n;

	CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
	CU_ASSERT_EQUAL_FATAL(rd_log_create("p", fds[1], RD_LOG_INFO, NULL, NULL, &log), 0);
	rd_log_set_format(log, format, priorities);
	rd_warn(log, RD_LOG_CTRL, "%s", text);
	n = read(fds[0], buf, size - 1);
	CU_ASSERT_TRUE_FATAL(n > 0);
	buf[n] = '\0';
	rd_log_destroy(&log);
	close(fds[0]);
	close(fds[1]);
	return buf;
}

static void formats(void)
{
	char buf[4096], text[2000];
	unsigned int y, mo, d, h, mi, s, us;

	CU_ASSERT_STRING_EQUAL(written(RD_LOG_PLAIN, true, "a", buf, sizeof(buf)),
			       "<4>p: warning: ctrl: a\n");
	CU_ASSERT_STRING_EQUAL(written(RD_LOG_JOURNAL, false, "a\nb", buf, sizeof(buf)),
			       "<4>warning: ctrl: a b\n");
	written(RD_LOG_TEXT, false, "a", buf, sizeof(buf));
	CU_ASSERT_EQUAL(sscanf(buf, "%4u-%2u-%2uT%2u:%2u:%2u.%6uZ", &y, &mo, &d, &h, &mi, &s, &us),
			7);
	CU_ASSERT_STRING_EQUAL(buf + 27, " p: warning: ctrl: a\n");
	written(RD_LOG_JSON, true, "\"a\\b\"\n", buf, sizeof(buf));
	CU_ASSERT_EQUAL(strncmp(buf, "<4>{\"time\":\"2", 13), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(buf, "Z\",\"program\":\"p\",\"level\":\"warning\","
					   "\"component\":\"ctrl\",\"message\":"
					   "\"\\\"a\\\\b\\\" \"}\n"));
	/* The longest line: each character needs an escape. */
	memset(text, '"', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	written(RD_LOG_JSON, false, text, buf, sizeof(buf));
	CU_ASSERT_STRING_EQUAL(buf + strlen(buf) - 8, "\\\"...\"}\n");
}

static void levels_as_a_specification(void)
{
	char buf[RD_LOG_SPEC_TEXT];
	struct rd_log *log T_ENDS(rd_log_destroy) = NULL;
	const char *bad;

	CU_ASSERT_EQUAL_FATAL(rd_log_create("p", -1, RD_LOG_NOTICE, NULL, NULL, &log), 0);
	CU_ASSERT_STRING_EQUAL(rd_log_spec(log, buf), "notice");
	CU_ASSERT_EQUAL(rd_log_parse(log, "info,fabric=trace,ctrl=error", &bad), 0);
	CU_ASSERT_STRING_EQUAL(rd_log_spec(log, buf), "info,fabric=trace,ctrl=error");
	CU_ASSERT_EQUAL(rd_log_parse(log, "trace,main=warning", &bad), 0);
	CU_ASSERT_TRUE(strlen(rd_log_spec(log, buf)) < sizeof(buf) - 1);
	CU_ASSERT_EQUAL(rd_log_parse(log, buf, &bad), 0); /* the longest line is complete */
}

const struct t_case t_log_out_cases[] = {
	{"a pipe that is not read stops nobody", unread_pipe},
	{"a socket that is not read stops nobody", unread_socket},
	{"every line of several threads is written or counted", lines_are_counted},
	{"the end does not wait for a reader", the_end_does_not_wait_for_ever},
	{"the descriptor keeps its flags", flags_stay},
	{"formats", formats},
	{"levels as a specification", levels_as_a_specification},
	{NULL, NULL},
};
