/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Leveled logging with a threshold per component.
 *
 * A log is an object, not a global: every long-lived object keeps a pointer to the one it was
 * given. A NULL log drops everything, so library code never has to test for one.
 *
 * Thread rule: rd_log_write(), and what reads or sets levels, may be called from any thread; one
 * message is one line. How and where it writes is set before the log is shared.
 */
#ifndef RD_UTIL_LOG_H
#define RD_UTIL_LOG_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rd_log_level {
	RD_LOG_ERROR,  /* something asked for did not happen */
	RD_LOG_WARN,   /* it works, but not as configured or not for long */
	RD_LOG_NOTICE, /* milestones an operator wants by default: listening, draining */
	RD_LOG_INFO,   /* one line for each connection and controller */
	RD_LOG_DEBUG,  /* control path in detail */
	RD_LOG_TRACE,  /* data path: one line per command; never on by default */
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

void rd_log_set_level(struct rd_log *log, enum rd_log_comp comp, enum rd_log_level level);

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

/* What is written to a descriptor; a sink gets RD_LOG_PLAIN. */
enum rd_log_format {
	RD_LOG_PLAIN,   /* "rdtarget: warning: main: text" */
	RD_LOG_TEXT,    /* the same after the time in UTC, as RFC 3339 has it, with microseconds */
	RD_LOG_JOURNAL, /* "<4>warning: main: text": the journal adds time and program */
	RD_LOG_JSON,    /* {"time":"...","program":...,"level":...,"component":...,"message":...} */
};

/* @priorities: each line begins with <0> to <7>, as sd-daemon(3) says; RD_LOG_JOURNAL does so. */
void rd_log_set_format(struct rd_log *log, enum rd_log_format format, bool priorities);

/*
 * From now on nobody waits for the descriptor: util/log_out.h. Returns 0 or -errno; then the log
 * writes as before. rd_log_flush() waits for what is buffered, at most a second, as
 * rd_log_destroy() does.
 */
int rd_log_buffer(struct rd_log *log);
void rd_log_flush(struct rd_log *log);

/* Comma-separated names of all levels and components, for usage texts. */
const char *rd_log_level_names(void);
const char *rd_log_comp_names(void);

/* What a log begins with; open, so that a message nobody wants costs no call on the data path. */
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
void rd_log_vwrite(struct rd_log *log, enum rd_log_comp comp, enum rd_log_level level,
		   const char *fmt, va_list ap) __attribute__((format(printf, 4, 0)));

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
 * Rate limit for messages that a peer can provoke at will. Zero-initialise it and embed it in the
 * object that the messages are about. Any number of threads may share one: a message more or less
 * may pass when they meet, but each one is either written or counted.
 */
struct rd_ratelimit {
	_Atomic uint64_t window_start; /* ns */
	_Atomic uint32_t in_window;
	_Atomic uint32_t squashed;
};

/*
 * True when a message may be written at @now_ns: at most @burst each @interval_ns. *@squashed
 * receives the number of messages that were held back since the last one that passed.
 */
bool rd_ratelimit_pass(struct rd_ratelimit *rl, uint64_t now_ns, uint64_t interval_ns,
		       uint32_t burst, uint32_t *squashed);

/*
 * A message under the usual limit, RD_LOG_BURST each RD_LOG_BURST_NS. After some were held back,
 * the next one ends with " (3 more like it)". What is below the level of the log is not counted.
 * @now_ns: rd_loop_now() of the caller's loop, or any clock that starts anywhere.
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
