/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Logging with a level for each component.
 *
 * A log is an object, not a global: every long-lived object has a pointer to its log. NULL is a log
 * that drops everything.
 *
 * Thread rule: any thread may call rd_log_write() and the functions that read or set levels. One
 * message is one line. Set the format and the buffer before the log is shared.
 */
#ifndef RD_UTIL_LOG_H
#define RD_UTIL_LOG_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum rd_log_level {
	RD_LOG_ERROR,  /* a requested operation failed */
	RD_LOG_WARN,   /* it works, but not as configured, or will fail soon */
	RD_LOG_NOTICE, /* milestones for the operator: listening, draining */
	RD_LOG_INFO,   /* one line for each connection and controller */
	RD_LOG_DEBUG,  /* details of the control path */
	RD_LOG_TRACE,  /* data path: a line for each command; never on by default */
	RD_LOG_LEVELS,
};

enum rd_log_comp {
	RD_LOG_MAIN,
	RD_LOG_CONFIG,
	RD_LOG_FABRIC,
	RD_LOG_TARGET,
	RD_LOG_CTRL,
	RD_LOG_QPAIR,
	RD_LOG_BACKEND,
	RD_LOG_INIT,
	RD_LOG_COMPS,
};

struct rd_log;

/* Receives each finished line, without a newline. @arg is the one given to rd_log_create(). */
typedef void (*rd_log_sink_fn)(void *arg, enum rd_log_level level, const char *line);

/*
 * Create a log that writes to file descriptor @fd (not owned), each line starting with @program.
 * All components start at @level. @sink, when not NULL, is called instead of writing to @fd.
 * Returns 0 or -ENOMEM.
 */
int rd_log_create(const char *program, int fd, enum rd_log_level level, rd_log_sink_fn sink,
		  void *sink_arg, struct rd_log **out);
void rd_log_destroy(struct rd_log **log);

/*
 * Apply a specification such as "info", "debug,fabric=trace" or "fabric=debug". A bare level sets
 * every component. Returns 0, or -EINVAL with *@bad pointing at the word that is neither a level
 * nor component=level.
 */
int rd_log_parse(struct rd_log *log, const char *spec, const char **bad);

/* The levels as a specification that rd_log_parse() takes: "notice" or "notice,fabric=debug".
 * Returns @buf. */
#define RD_LOG_SPEC_TEXT 192
const char *rd_log_spec(const struct rd_log *log, char buf[RD_LOG_SPEC_TEXT]);

/* The format of lines for a descriptor; a sink gets RD_LOG_PLAIN. */
enum rd_log_format {
	RD_LOG_PLAIN,   /* "rdtarget: warning: main: text" */
	RD_LOG_TEXT,    /* as RD_LOG_PLAIN, after the time in UTC (RFC 3339, microseconds) */
	RD_LOG_JOURNAL, /* "<4>warning: main: text": the journal adds time and program */
	RD_LOG_JSON,    /* {"time":"...","program":...,"level":...,"component":...,"message":...} */
};

/* @at, a time of CLOCK_REALTIME, as RD_LOG_TEXT and RD_LOG_JSON write it. Returns @buf. */
#define RD_LOG_TIME_TEXT 40
const char *rd_log_time(const struct timespec *at, char buf[RD_LOG_TIME_TEXT]);

/* @priorities: each line begins with <0> to <7>, as sd-daemon(3) says; RD_LOG_JOURNAL does so. */
void rd_log_set_format(struct rd_log *log, enum rd_log_format format, bool priorities);

/*
 * From now on no thread waits for the descriptor: see util/log_out.h. Returns 0, or -errno and the
 * log writes as before. rd_log_flush() and rd_log_destroy() wait for buffered lines, for at most a
 * second.
 */
int rd_log_buffer(struct rd_log *log);
void rd_log_flush(struct rd_log *log);

/*
 * @fn is called with each message that is written, by the thread that writes it; it does not log
 * itself. NULL: nobody. Any thread sets it, but the old one's @arg lives until no other thread
 * logs.
 */
typedef void (*rd_log_observer_fn)(void *arg, enum rd_log_comp comp, enum rd_log_level level,
				   const char *text);
void rd_log_set_observer(struct rd_log *log, rd_log_observer_fn fn, void *arg);

const char *rd_log_level_name(enum rd_log_level level);
const char *rd_log_comp_name(enum rd_log_comp comp);
/* Comma-separated names of all levels and components, for usage texts. */
const char *rd_log_level_names(void);
const char *rd_log_comp_names(void);

/* The first members of a log, visible so that a message below the level costs no call. */
struct rd_log_head {
	_Atomic uint8_t levels[RD_LOG_COMPS];
};

static inline bool rd_log_enabled(const struct rd_log *log, enum rd_log_comp comp,
				  enum rd_log_level level)
{
	const struct rd_log_head *head = (const struct rd_log_head *)(const void *)log;

	return log && level <= atomic_load_explicit(&head->levels[comp], memory_order_relaxed);
}

void rd_log_write(struct rd_log *log, enum rd_log_comp comp, enum rd_log_level level,
		  const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#define rd_log(log, comp, level, ...)                                      \
	do {                                                               \
		if (rd_log_enabled((log), (comp), (level)))                \
			rd_log_write((log), (comp), (level), __VA_ARGS__); \
	} while (0)
#define rd_err(log, comp, ...)    rd_log(log, comp, RD_LOG_ERROR, __VA_ARGS__)
#define rd_warn(log, comp, ...)   rd_log(log, comp, RD_LOG_WARN, __VA_ARGS__)
#define rd_notice(log, comp, ...) rd_log(log, comp, RD_LOG_NOTICE, __VA_ARGS__)
#define rd_info(log, comp, ...)   rd_log(log, comp, RD_LOG_INFO, __VA_ARGS__)
#define rd_debug(log, comp, ...)  rd_log(log, comp, RD_LOG_DEBUG, __VA_ARGS__)
#define rd_trace(log, comp, ...)  rd_log(log, comp, RD_LOG_TRACE, __VA_ARGS__)

/*
 * Rate limit for messages that a peer can provoke. Zero-initialize it, and embed it in the object
 * that the messages are about. Any number of threads may share it: when they meet, one message more
 * or less may pass, but each is either written or counted.
 */
struct rd_ratelimit {
	_Atomic uint64_t window_start; /* ns */
	_Atomic uint32_t in_window;
	_Atomic uint32_t squashed;
};

/*
 * Whether a message may be written at @now_ns: at most @burst in each @interval_ns. *@squashed: the
 * number of messages held back since the last one that passed.
 */
bool rd_ratelimit_pass(struct rd_ratelimit *rl, uint64_t now_ns, uint64_t interval_ns,
		       uint32_t burst, uint32_t *squashed);

/*
 * Writes a message under the usual limit of RD_LOG_BURST in each RD_LOG_BURST_NS. After messages
 * were held back the next one ends with " (3 more like it)". Messages below the level of the log
 * are not counted. @now_ns: rd_loop_now(), or any other clock.
 */
#define RD_LOG_BURST    10
#define RD_LOG_BURST_NS UINT64_C(5000000000)
#define rd_log_limited(rl, now_ns, log, comp, level, ...)                                          \
	do {                                                                                       \
		if (rd_log_enabled((log), (comp), (level)))                                        \
			rd_log_write_limited((rl), (now_ns), (log), (comp), (level), __VA_ARGS__); \
	} while (0)
void rd_log_write_limited(struct rd_ratelimit *rl, uint64_t now_ns, struct rd_log *log,
			  enum rd_log_comp comp, enum rd_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));

#endif /* RD_UTIL_LOG_H */
