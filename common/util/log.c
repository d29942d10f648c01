/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "util/log_out.h"
#include "util/utf8.h"

/* Longer lines are cut: a text of a peer, or a path, must not make the log unreadable. */
#define LINE_SIZE 1024
#define FLUSH_MS  1000

struct rd_log {
	struct rd_log_head head; /* first */
	char *program;
	int fd;
	enum rd_log_format format;
	bool priorities;
	_Atomic(rd_log_observer_fn) observer;
	_Atomic(void *) observer_arg; /* set before @observer */
	struct rd_log_out *out;       /* NULL: write to @fd */
	rd_log_sink_fn sink;
	void *sink_arg;
};

static const char *const level_names[RD_LOG_LEVELS] = {
	[RD_LOG_ERROR] = "error", [RD_LOG_WARN] = "warning", [RD_LOG_NOTICE] = "notice",
	[RD_LOG_INFO] = "info",   [RD_LOG_DEBUG] = "debug",  [RD_LOG_TRACE] = "trace",
};

static const char *const comp_names[RD_LOG_COMPS] = {
	[RD_LOG_MAIN] = "main",       [RD_LOG_CONFIG] = "config", [RD_LOG_FABRIC] = "fabric",
	[RD_LOG_TARGET] = "target",   [RD_LOG_CTRL] = "ctrl",     [RD_LOG_QPAIR] = "qpair",
	[RD_LOG_BACKEND] = "backend", [RD_LOG_INIT] = "init",
};

const char *rd_log_level_name(enum rd_log_level level)
{
	return level_names[level];
}

const char *rd_log_comp_name(enum rd_log_comp comp)
{
	return comp_names[comp];
}

const char *rd_log_level_names(void)
{
	return "error, warning, notice, info, debug, trace";
}

const char *rd_log_comp_names(void)
{
	return "main, config, fabric, target, ctrl, qpair, backend, init";
}

int rd_log_create(const char *program, int fd, enum rd_log_level level, rd_log_sink_fn sink,
		  void *sink_arg, struct rd_log **out)
{
	struct rd_log *log;

	*out = NULL;
	log = calloc(1, sizeof(*log));
	if (!log)
		return -ENOMEM;
	log->program = strdup(program);
	if (!log->program) {
		free(log);
		return -ENOMEM;
	}
	log->fd = fd;
	log->sink = sink;
	log->sink_arg = sink_arg;
	for (int i = 0; i < RD_LOG_COMPS; i++)
		atomic_init(&log->head.levels[i], (uint8_t)level);
	*out = log;
	return 0;
}

void rd_log_destroy(struct rd_log **log)
{
	if (!*log)
		return;
	rd_log_flush(*log);
	rd_log_out_destroy(&(*log)->out);
	free((*log)->program);
	free(*log);
	*log = NULL;
}

static int find_log_name(const char *const *names, int count, const char *word, size_t len)
{
	for (int i = 0; i < count; i++) {
		if (strlen(names[i]) == len && strncasecmp(names[i], word, len) == 0)
			return i;
	}
	return -1;
}

static int find_level(const char *word, size_t len)
{
	if (len == 4 && strncasecmp(word, "warn", 4) == 0)
		return RD_LOG_WARN;
	return find_log_name(level_names, RD_LOG_LEVELS, word, len);
}

/* One word of a specification: LEVEL or COMPONENT=LEVEL. */
static bool apply_word(uint8_t levels[RD_LOG_COMPS], const char *word, size_t len)
{
	const char *eq = memchr(word, '=', len);
	int comp, level;

	if (!eq) {
		level = find_level(word, len);
		if (level < 0)
			return false;
		memset(levels, level, RD_LOG_COMPS);
		return true;
	}
	comp = find_log_name(comp_names, RD_LOG_COMPS, word, (size_t)(eq - word));
	level = find_level(eq + 1, len - (size_t)(eq + 1 - word));
	if (comp < 0 || level < 0)
		return false;
	levels[comp] = (uint8_t)level;
	return true;
}

int rd_log_parse(struct rd_log *log, const char *spec, const char **bad)
{
	uint8_t levels[RD_LOG_COMPS];
	const char *word = spec;

	*bad = NULL;
	for (int i = 0; i < RD_LOG_COMPS; i++)
		levels[i] = atomic_load_explicit(&log->head.levels[i], memory_order_relaxed);
	for (;;) {
		size_t len = strcspn(word, ",");

		if (!apply_word(levels, word, len)) {
			*bad = word;
			return -EINVAL;
		}
		if (word[len] == '\0')
			break;
		word += len + 1;
	}
	for (int i = 0; i < RD_LOG_COMPS; i++)
		atomic_store_explicit(&log->head.levels[i], levels[i], memory_order_relaxed);
	return 0;
}

const char *rd_log_spec(const struct rd_log *log, char buf[RD_LOG_SPEC_TEXT])
{
	uint8_t first = atomic_load_explicit(&log->head.levels[0], memory_order_relaxed);
	size_t len = (size_t)snprintf(buf, RD_LOG_SPEC_TEXT, "%s", level_names[first]);

	for (int i = 1; i < RD_LOG_COMPS; i++) {
		uint8_t level = atomic_load_explicit(&log->head.levels[i], memory_order_relaxed);

		if (level != first && len < RD_LOG_SPEC_TEXT)
			len += (size_t)snprintf(buf + len, RD_LOG_SPEC_TEXT - len, ",%s=%s",
						comp_names[i], level_names[level]);
	}
	return buf;
}

/* ---- one line ---- */

static const char priority_of[RD_LOG_LEVELS] = {
	[RD_LOG_ERROR] = '3', [RD_LOG_WARN] = '4',  [RD_LOG_NOTICE] = '5',
	[RD_LOG_INFO] = '6',  [RD_LOG_DEBUG] = '7', [RD_LOG_TRACE] = '7',
};

const char *rd_log_time(const struct timespec *at, char buf[RD_LOG_TIME_TEXT])
{
	struct tm tm;
	size_t len;

	gmtime_r(&at->tv_sec, &tm);
	len = strftime(buf, RD_LOG_TIME_TEXT, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(buf + len, RD_LOG_TIME_TEXT - len, ".%06ldZ", at->tv_nsec / 1000);
	return buf;
}

static const char *log_time_now(char buf[RD_LOG_TIME_TEXT])
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return rd_log_time(&now, buf);
}

/* @text has no control characters, and is UTF-8: rd_mask_control(). Returns the length. */
static size_t log_json_text(char *buf, size_t size, const char *text)
{
	size_t len = 0;

	for (; *text && len + 2 < size; text++) {
		if (*text == '"' || *text == '\\')
			buf[len++] = '\\';
		buf[len++] = *text;
	}
	return len;
}

static size_t log_json_line(const struct rd_log *log, enum rd_log_comp comp,
			    enum rd_log_level level, const char *text, char *buf, size_t size)
{
	char when[RD_LOG_TIME_TEXT];
	size_t len = (size_t)snprintf(buf, size,
				      "{\"time\":\"%s\",\"program\":\"%s\",\"level\":\"%s\","
				      "\"component\":\"%s\",\"message\":\"",
				      log_time_now(when), log->program, level_names[level],
				      comp_names[comp]);

	len += log_json_text(buf + len, size - len - 2, text);
	memcpy(buf + len, "\"}", 2);
	return len + 2;
}

/* @plain: the line as RD_LOG_PLAIN has it, with @text within. Returns the length, with a newline.
 */
static size_t log_format_line(const struct rd_log *log, enum rd_log_comp comp,
			      enum rd_log_level level, const char *plain, const char *text,
			      char buf[RD_LOG_OUT_LINE])
{
	const size_t size = RD_LOG_OUT_LINE - 1;
	char when[RD_LOG_TIME_TEXT];
	size_t len = 0;

	if (log->priorities)
		len = (size_t)snprintf(buf, size, "<%c>", priority_of[level]);
	switch (log->format) {
	case RD_LOG_PLAIN:
		len += (size_t)snprintf(buf + len, size - len, "%s", plain);
		break;
	case RD_LOG_TEXT:
		len += (size_t)snprintf(buf + len, size - len, "%s %s", log_time_now(when), plain);
		break;
	case RD_LOG_JOURNAL:
		len += (size_t)snprintf(buf + len, size - len, "%s: %s: %s", level_names[level],
					comp_names[comp], text);
		break;
	case RD_LOG_JSON:
		len += log_json_line(log, comp, level, text, buf + len, size - len);
		break;
	}
	buf[len] = '\n';
	return len + 1;
}

static size_t log_dropped_line(void *arg, uint64_t count, char *buf, size_t size)
{
	const struct rd_log *log = arg;
	char plain[256];
	const char *text;
	int n = snprintf(plain, sizeof(plain), "%s: warning: main: ", log->program);

	text = plain + n;
	snprintf(plain + n, sizeof(plain) - (size_t)n,
		 "%llu lines of this log were dropped here because its reader was too slow",
		 (unsigned long long)count);
	return log_format_line(log, RD_LOG_MAIN, RD_LOG_WARN, plain, text, buf);
}

void rd_log_set_format(struct rd_log *log, enum rd_log_format format, bool priorities)
{
	log->format = format;
	log->priorities = priorities || format == RD_LOG_JOURNAL;
}

void rd_log_set_observer(struct rd_log *log, rd_log_observer_fn fn, void *arg)
{
	if (fn)
		atomic_store(&log->observer_arg, arg);
	atomic_store(&log->observer, fn);
}

int rd_log_buffer(struct rd_log *log)
{
	return rd_log_out_create(log->fd, log_dropped_line, log, &log->out);
}

void rd_log_flush(struct rd_log *log)
{
	if (log && log->out)
		rd_log_out_flush(log->out, FLUSH_MS);
}

static void log_emit(struct rd_log *log, enum rd_log_comp comp, enum rd_log_level level,
		     const char *plain, const char *text)
{
	rd_log_observer_fn observer = atomic_load(&log->observer);
	char buf[RD_LOG_OUT_LINE];
	size_t len;

	if (observer)
		observer(atomic_load(&log->observer_arg), comp, level, text);
	if (log->sink) {
		log->sink(log->sink_arg, level, plain);
		return;
	}
	len = log_format_line(log, comp, level, plain, text, buf);
	if (log->out)
		rd_log_out_write(log->out, buf, len);
	else if (write(log->fd, buf, len) < 0)
		return; /* a failure of the log cannot be reported */
}

/* @more: the end of the line, which is kept when the line is cut. */
__attribute__((format(printf, 5, 0))) static void write_line(struct rd_log *log,
							     enum rd_log_comp comp,
							     enum rd_log_level level,
							     const char *more, const char *fmt,
							     va_list ap)
{
	int saved_errno = errno;
	char line[LINE_SIZE + 1];
	size_t tail = strlen(more);
	size_t len, room, prefix;
	int n;

	n = snprintf(line, LINE_SIZE, "%s: %s: %s: ", log->program, level_names[level],
		     comp_names[comp]);
	if (n < 0)
		return;
	len = (size_t)n < LINE_SIZE - 1 - tail ? (size_t)n : LINE_SIZE - 1 - tail;
	prefix = len;
	room = LINE_SIZE - tail - len;
	n = vsnprintf(line + len, room, fmt, ap);
	if (n < 0)
		return;
	if ((size_t)n >= room) {
		len = LINE_SIZE - 1 - tail;
		memcpy(line + len - 3, "...", 3);
	} else {
		len += (size_t)n;
	}
	memcpy(line + len, more, tail + 1);
	len += tail;
	rd_mask_control(line, len);
	log_emit(log, comp, level, line, line + prefix);
	errno = saved_errno;
}

void rd_log_write(struct rd_log *log, enum rd_log_comp comp, enum rd_log_level level,
		  const char *fmt, ...)
{
	va_list ap;

	if (!rd_log_enabled(log, comp, level))
		return;
	va_start(ap, fmt);
	write_line(log, comp, level, "", fmt, ap);
	va_end(ap);
}

bool rd_ratelimit_pass(struct rd_ratelimit *rl, uint64_t now_ns, uint64_t interval_ns,
		       uint32_t burst, uint32_t *squashed)
{
	uint64_t start = atomic_load(&rl->window_start);

	*squashed = 0;
	/* Clocks of two threads may differ by a little: @now_ns is before the start then. A clock
	 * may start at 0: an unused limiter is recognised by its empty window. */
	if (((int64_t)(now_ns - start) >= 0 && now_ns - start >= interval_ns) ||
	    (start == 0 && !atomic_load(&rl->in_window))) {
		/* One thread opens the new window. */
		if (atomic_compare_exchange_strong(&rl->window_start, &start, now_ns))
			atomic_store(&rl->in_window, 0);
	}
	/* Read before it is increased: it must not wrap. */
	if (atomic_load(&rl->in_window) >= burst || atomic_fetch_add(&rl->in_window, 1) >= burst) {
		atomic_fetch_add(&rl->squashed, 1);
		return false;
	}
	*squashed = atomic_exchange(&rl->squashed, 0);
	return true;
}

void rd_log_write_limited(struct rd_ratelimit *rl, uint64_t now_ns, struct rd_log *log,
			  enum rd_log_comp comp, enum rd_log_level level, const char *fmt, ...)
{
	char more[32] = "";
	uint32_t squashed;
	va_list ap;

	if (!rd_log_enabled(log, comp, level) ||
	    !rd_ratelimit_pass(rl, now_ns, RD_LOG_BURST_NS, RD_LOG_BURST, &squashed))
		return;
	if (squashed)
		snprintf(more, sizeof(more), " (%u more like it)", squashed);
	va_start(ap, fmt);
	write_line(log, comp, level, more, fmt, ap);
	va_end(ap);
}
