/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages and the progress bar on standard error. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "util/parse.h"
#include "util/utf8.h"

#define CLI_MESSAGE 4096 /* bytes; a longer one is cut */

static void say(const char *fmt, va_list ap) __attribute__((format(printf, 1, 0)));

/* Prints one line; control characters in names and texts are replaced. */
static void say(const char *fmt, va_list ap)
{
	char text[CLI_MESSAGE];
	int n = vsnprintf(text, sizeof(text), fmt, ap);

	if (n < 0)
		return;
	rd_mask_control(text, strlen(text));
	fprintf(stderr, "rdinit: %s%s\n", text, (size_t)n < sizeof(text) ? "" : "...");
}

int cli_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
	return CLI_FAILED;
}

/* The other warnings of the library are errors of the verb, too, or only for its trace. */
static void show_warning(void *user, int level, const char *line)
{
	const char *text = strstr(line, ": init: ");

	if (text && strstr(text, "the host identifier is random"))
		cli_error("warning: %s", text + strlen(": init: "));
}

void cli_warn_of_identity(struct rdinit_ctrl_opts *o)
{
	const char *spec = getenv("RDINIT_DEBUG");

	if (o->log_spec || (spec && *spec))
		return; /* the trace has it */
	o->log_spec = "error,init=warning";
	o->log_fn = show_warning;
}

int cli_usage_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
	return CLI_USAGE;
}

const char *cli_lib_text(void)
{
	const char *text = rdinit_get_error(), *colon = strstr(text, ": ");

	/* The function name helps programmers, not users of this program. */
	return strncmp(text, "rdinit_", 7) == 0 && colon ? colon + 2 : text;
}

const char *cli_connect_hint(void)
{
	switch (rdinit_last_status() & CLI_STATUS_CODE) {
	case CLI_STATUS_BAD_CONNECT:
		return "; --hostnqn gives another host NQN, and `rdinit discover` lists the "
		       "subsystems that a host may use";
	case CLI_STATUS_BAD_HOST:
		return "; --hostnqn gives another host NQN";
	default:
		return "";
	}
}

int cli_lib_error(void)
{
	return cli_error("%s", cli_lib_text());
}

int cli_finish_output(void)
{
	if (fflush(stdout) || ferror(stdout))
		return cli_error("standard output: %s", strerror(errno ? errno : EIO));
	return CLI_OK;
}

/* A progress bar on standard error, if that is a terminal. */

#define INTERVAL_NS 100000000u
#define BAR_WIDTH   30

uint64_t cli_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void cli_progress_start(struct cli_progress *p, bool wanted, uint64_t total)
{
	p->on = wanted && isatty(STDERR_FILENO);
	p->total = total;
	p->start_ns = cli_now_ns();
	p->last_ns = p->start_ns;
}

static void draw(const struct cli_progress *p, uint64_t done, uint64_t now)
{
	char sum[RD_SIZE_TEXT], rate[RD_SIZE_TEXT];
	double secs = (double)(now - p->start_ns) / 1e9;
	int i, fill;

	rd_format_size(done, sum);
	rd_format_size(secs > 0 ? (uint64_t)((double)done / secs) : 0, rate);
	if (!p->total) {
		fprintf(stderr, "\r%s, %s/s\033[K", sum, rate);
		return;
	}
	fill = (int)((double)done / (double)p->total * BAR_WIDTH);
	fputs("\r[", stderr);
	for (i = 0; i < BAR_WIDTH; i++)
		fputc(i < fill ? '#' : ' ', stderr);
	fprintf(stderr, "] %3d%% %s, %s/s\033[K", (int)((double)done * 100 / (double)p->total), sum,
		rate);
}

void cli_progress_update(struct cli_progress *p, uint64_t done)
{
	uint64_t now;

	if (!p->on)
		return;
	now = cli_now_ns();
	if (now - p->last_ns < INTERVAL_NS)
		return;
	p->last_ns = now;
	draw(p, done, now);
}

void cli_progress_clear(struct cli_progress *p)
{
	if (p->on)
		fputs("\r\033[K", stderr);
}

void cli_progress_end(struct cli_progress *p, uint64_t done)
{
	if (!p->on)
		return;
	draw(p, done, cli_now_ns());
	fputc('\n', stderr);
	p->on = false;
}
