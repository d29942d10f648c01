/* SPDX-License-Identifier: BSD-3-Clause */
/* Output of top: a screen on a terminal, text elsewhere, or JSON. */
#include <string.h>

#include "command.h"
#include "top.h"
#include "util/utf8.h"

#define TOP_UNIT 512000u /* bytes: data units are thousands of 512 bytes */

static const char *const top_states[] = {"connecting", "live", "lost"};

struct top_rates {
	double seconds; /* since the last output; 0: the first one */
	double reads, writes, bytes_read, bytes_written;
};

static double top_rate(uint64_t was, uint64_t now, double seconds)
{
	/* After a restart of the target the counters begin at 0. */
	return now > was ? (double)(now - was) / seconds : 0;
}

/* Each controller's counters cover the whole subsystem, so one path that answers is enough. */
static const struct top_path *top_counting(const struct top *t)
{
	unsigned int i;

	for (i = 0; i < t->n; i++) {
		if (t->path[i]->was.at && t->path[i]->now.at > t->path[i]->was.at)
			return t->path[i];
	}
	return NULL;
}

static struct top_rates top_rates_of(const struct top_path *p)
{
	struct top_rates r = {.seconds = 0};

	if (!p)
		return r;
	r.seconds = (double)(p->now.at - p->was.at) / 1e9;
	r.reads = top_rate(p->was.reads, p->now.reads, r.seconds);
	r.writes = top_rate(p->was.writes, p->now.writes, r.seconds);
	r.bytes_read = top_rate(p->was.units_read, p->now.units_read, r.seconds) * TOP_UNIT;
	r.bytes_written =
		top_rate(p->was.units_written, p->now.units_written, r.seconds) * TOP_UNIT;
	return r;
}

/* A text such as "optimized", or "2 optimized, 1 inaccessible" when groups differ. */
static const char *top_ana(const struct top_path *p, char *buf, size_t len)
{
	unsigned int i, kinds = 0;
	int at = 0;

	snprintf(buf, len, "-");
	if (p->state != TOP_LIVE || !p->has_ana)
		return buf;
	for (i = 0; i < TOP_ANA_STATES; i++)
		kinds += p->ana[i] > 0;
	for (i = 0; i < TOP_ANA_STATES && (size_t)at < len; i++) {
		if (p->ana[i] && kinds == 1)
			at += snprintf(buf, len, "%s", cli_ana_state(i));
		else if (p->ana[i])
			at += snprintf(buf + at, len - (size_t)at, "%s%u %s", at ? ", " : "",
				       p->ana[i], cli_ana_state(i));
	}
	return buf;
}

/* ---- text ---- */

static void top_show_io(const struct top *t)
{
	const struct top_path *p = top_counting(t);
	struct top_rates r = top_rates_of(p);

	printf("%-8s %12s %12s %16s\n", "I/O", "per second", "MiB/s", "commands");
	if (!p) {
		printf("no rates yet: they need two readings of a controller's counters\n");
		return;
	}
	printf("%-8s %12.0f %12.1f %16llu\n", "read", r.reads, r.bytes_read / 1048576,
	       (unsigned long long)p->now.reads);
	printf("%-8s %12.0f %12.1f %16llu\n", "write", r.writes, r.bytes_written / 1048576,
	       (unsigned long long)p->now.writes);
	printf("media errors %llu, critical warning 0x%02x\n",
	       (unsigned long long)p->now.media_errors, p->now.critical_warning);
}

static void top_show_path(const struct top_path *p)
{
	char ana[128], latency[32] = "-", text[sizeof(p->text)];

	snprintf(text, sizeof(text), "%s", p->text);
	rd_mask_control(text, strlen(text)); /* the text may come from a peer */
	if (p->state == TOP_LIVE && p->latency_ns)
		snprintf(latency, sizeof(latency), "%.2f ms", (double)p->latency_ns / 1e6);
	printf("%-28s %-10s %-24s %10s %6u%s%s\n", p->address, top_states[p->state],
	       top_ana(p, ana, sizeof(ana)), latency, p->losses, *text ? "  " : "", text);
}

static void top_show_text(const struct top *t)
{
	char when[CLI_TIME_TEXT];
	unsigned int i;

	if (t->terminal)
		fputs("\033[H\033[J", stdout); /* clear the screen */
	printf("%s  %s\n\n", t->path[0]->o.ctrl.subnqn, cli_time_text(when));
	top_show_io(t);
	printf("\n%-28s %-10s %-24s %10s %6s\n", "PATH", "STATE", "ANA", "LATENCY", "LOST");
	for (i = 0; i < t->n; i++)
		top_show_path(t->path[i]);
	if (!t->terminal)
		printf("\n");
}

/* ---- JSON ---- */

static json_t *top_path_json(const struct top_path *p)
{
	char ana[128];

	return json_pack("{s:s, s:s, s:s, s:f, s:I, s:s}", "address", p->address, "state",
			 top_states[p->state], "ana", top_ana(p, ana, sizeof(ana)), "latency_ms",
			 p->state == TOP_LIVE ? (double)p->latency_ns / 1e6 : 0.0, "losses",
			 (json_int_t)p->losses, "text", p->text);
}

static json_t *top_io_json(double rate, double bytes, uint64_t commands)
{
	return json_pack("{s:f, s:f, s:I}", "iops", rate, "bytes_per_second", bytes, "commands",
			 (json_int_t)commands);
}

static void top_show_json(const struct top *t)
{
	const struct top_path *p = top_counting(t);
	struct top_rates r = top_rates_of(p);
	json_t *obj, *paths = json_array();
	char when[CLI_TIME_TEXT];
	unsigned int i;

	for (i = 0; i < t->n; i++)
		json_array_append_new(paths, top_path_json(t->path[i]));
	obj = json_pack("{s:s, s:s, s:o}", "time", cli_time_text(when), "nqn",
			t->path[0]->o.ctrl.subnqn, "paths", paths);
	if (p) {
		json_object_set_new(obj, "seconds", json_real(r.seconds));
		json_object_set_new(obj, "read", top_io_json(r.reads, r.bytes_read, p->now.reads));
		json_object_set_new(obj, "write",
				    top_io_json(r.writes, r.bytes_written, p->now.writes));
		json_object_set_new(obj, "media_errors",
				    json_integer((json_int_t)p->now.media_errors));
		json_object_set_new(obj, "critical_warning", json_integer(p->now.critical_warning));
	}
	cli_print_json_line(obj);
}

int cli_top_show(const struct top *t)
{
	if (t->o->format == CLI_JSON)
		top_show_json(t);
	else
		top_show_text(t);
	return cli_finish_output();
}
