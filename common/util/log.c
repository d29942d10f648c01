/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "util/utf8.h"

/* Longer lines are cut: a peer or a path must not make the log unreadable. */
#define LINE_SIZE 1024

struct rd_log {
	struct rd_log_head head; /* first */
	char *program;
	int fd;
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
	memset(log->head.levels, level, sizeof(log->head.levels));
	*out = log;
	return 0;
}

void rd_log_destroy(struct rd_log **log)
{
	if (!*log)
		return;
	free((*log)->program);
	free(*log);
	*log = NULL;
}

void rd_log_set_level(struct rd_log *log, enum rd_log_comp comp, enum rd_log_level level)
{
	if (log)
		log->head.levels[comp] = (uint8_t)level;
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
	memcpy(levels, log->head.levels, sizeof(levels));
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
	memcpy(log->head.levels, levels, sizeof(levels));
	return 0;
}

/* One line; @more: what it ends with, also when it is cut. */
__attribute__((format(printf, 5, 0))) static void write_line(struct rd_log *log,
							     enum rd_log_comp comp,
							     enum rd_log_level level,
							     const char *more, const char *fmt,
							     va_list ap)
{
	int saved_errno = errno;
	char line[LINE_SIZE + 1];
	size_t tail = strlen(more);
	size_t len, room;
	int n;

	n = snprintf(line, LINE_SIZE, "%s: %s: %s: ", log->program, level_names[level],
		     comp_names[comp]);
	if (n < 0)
		return;
	len = (size_t)n < LINE_SIZE - 1 - tail ? (size_t)n : LINE_SIZE - 1 - tail;
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
	if (log->sink) {
		log->sink(log->sink_arg, level, line);
	} else {
		line[len] = '\n';
		/* Nowhere to report a failing log to. */
		if (write(log->fd, line, len + 1) < 0)
			errno = saved_errno;
	}
	errno = saved_errno;
}

void rd_log_vwrite(struct rd_log *log, enum rd_log_comp comp, enum rd_log_level level,
		   const char *fmt, va_list ap)
{
	if (rd_log_enabled(log, comp, level))
		write_line(log, comp, level, "", fmt, ap);
}

void rd_log_write(struct rd_log *log, enum rd_log_comp comp, enum rd_log_level level,
		  const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	rd_log_vwrite(log, comp, level, fmt, ap);
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
	/* Looked at first: it must not wrap. */
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
