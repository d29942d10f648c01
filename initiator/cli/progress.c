/* SPDX-License-Identifier: BSD-3-Clause */
/* A progress bar on standard error, if that is a terminal. */
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "util/parse.h"

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
