/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * monitor: prints asynchronous events. A controller sends no further event of a type before the log
 * page of that event is read, which the main loop does, because the callback must not wait.
 */
#include <endian.h>
#include <errno.h>
#include <nvme/types.h>
#include <poll.h>
#include <string.h>

#include "command.h"

#define RING         64u
#define LOOK_MS      1000 /* shorter than the keep-alive interval */
#define DISC_KATO_MS 30000u

struct monitor {
	uint32_t ring[RING]; /* at most one event of a kind is outstanding; this never fills up */
	unsigned int head, tail;
	uint64_t count;
};

static void on_async_event(void *user, uint32_t event)
{
	struct monitor *m = user;

	if (m->head - m->tail < RING)
		m->ring[m->head++ % RING] = event;
}

static const struct {
	uint16_t code; /* type, and information << 8 */
	const char *text;
} texts[] = {
	{0x0000, "write to an invalid doorbell register"},
	{0x0100, "invalid doorbell write value"},
	{0x0200, "diagnostic failure"},
	{0x0300, "persistent internal error"},
	{0x0400, "transient internal error"},
	{0x0001, "NVM subsystem reliability"},
	{0x0101, "temperature threshold"},
	{0x0201, "spare below threshold"},
	{0x0002, "namespace attributes changed"},
	{0x0102, "firmware activation starting"},
	{0x0202, "telemetry log changed"},
	{0x0302, "asymmetric namespace access changed"},
	{0x0402, "predictable latency event"},
	{0x0502, "LBA status information"},
	{0x0602, "endurance group event"},
	{0xf002, "discovery log page changed"},
	{0x0006, "reservation log page available"},
};

static const char *event_text(uint32_t event)
{
	uint16_t code = (uint16_t)((event & 7) | (event & 0xff00));
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i].code == code)
			return texts[i].text;
	}
	return "unknown event";
}

/* Reads the log page, which re-enables events of this type. */
static int read_page(struct cli_session *s, uint32_t event, json_t *obj)
{
	struct cli_log log = {.lid = (uint8_t)(event >> 16), .nsid = NVME_NSID_ALL};
	union {
		struct nvme_ns_list ns;
		struct nvme_resv_notification_log resv;
		unsigned char bytes[4096];
	} page;
	json_t *list;
	size_t i;

	memset(&page, 0, sizeof(page));
	if (cli_get_log(s, &log, &page, sizeof(page)))
		return CLI_FAILED;
	if (log.lid == NVME_LOG_LID_CHANGED_NS) {
		list = json_array();
		for (i = 0; i < sizeof(page.ns.ns) / 4 && page.ns.ns[i]; i++)
			json_array_append_new(list, json_integer(le32toh(page.ns.ns[i])));
		json_object_set_new(obj, "namespaces", list);
	} else if (log.lid == NVME_LOG_LID_RESERVATION) {
		json_object_set_new(obj, "namespaces",
				    json_pack("[I]", (json_int_t)le32toh(page.resv.nsid)));
	}
	return CLI_OK;
}

static void print_event(const json_t *obj)
{
	json_t *ns;
	size_t i;

	printf("%s %s (event %#llx, log page %#llx)",
	       json_string_value(json_object_get(obj, "time")),
	       json_string_value(json_object_get(obj, "text")),
	       (unsigned long long)json_integer_value(json_object_get(obj, "event")),
	       (unsigned long long)json_integer_value(json_object_get(obj, "log_page")));
	json_array_foreach(json_object_get(obj, "namespaces"), i, ns)
		printf("%s %lld", i ? "," : ": namespace", (long long)json_integer_value(ns));
	printf("\n");
}

static int show_event(struct cli_session *s, const struct cli_options *o, uint32_t event)
{
	char when[CLI_TIME_TEXT];
	json_t *obj;
	int rc;

	obj = json_pack("{s:s, s:I, s:i, s:i, s:i, s:s}", "time", cli_time_text(when), "event",
			(json_int_t)event, "type", (int)(event & 7), "info",
			(int)(event >> 8 & 0xff), "log_page", (int)(event >> 16 & 0xff), "text",
			event_text(event));
	rc = obj ? read_page(s, event, obj) : cli_error("no memory for an event");
	if (!rc && o->format == CLI_JSON) {
		rc = cli_print_json_line(json_incref(obj));
	} else if (!rc) {
		print_event(obj);
	}
	json_decref(obj);
	return rc ? rc : cli_finish_output();
}

static int watch_events(struct cli_session *s, const struct cli_options *o, struct monitor *m,
			struct cli_signals *in)
{
	uint64_t limit = cli_num(o, CLI_ARG_EVENTS, UINT64_MAX);
	struct pollfd fds[2] = {{.fd = rdinit_ctrl_fd(s->ctrl), .events = POLLIN},
				{.fd = in->fd, .events = POLLIN}};

	while (m->count < limit) {
		if (rdinit_ctrl_process(s->ctrl, 0) < 0)
			return cli_lib_error();
		while (m->tail != m->head && m->count < limit) {
			if (show_event(s, o, m->ring[m->tail++ % RING]))
				return CLI_FAILED;
			m->count++;
		}
		if (m->count == limit || cli_signals_check(in))
			return CLI_OK;
		if (m->tail == m->head && poll(fds, 2, LOOK_MS) < 0 && errno != EINTR)
			return cli_error("poll: %s", strerror(errno));
	}
	return CLI_OK;
}

int cli_monitor(const struct cli_options *o)
{
	struct monitor m = {.head = 0};
	struct cli_signals in;
	struct cli_options opts = *o;
	struct cli_session s;
	int rc;

	if (cli_num(o, CLI_ARG_EVENTS, UINT64_MAX) == 0)
		return cli_usage_error("--events: found 0, expected 1 or more events; without "
				       "--events monitor runs until SIGINT");
	opts.ctrl.event_fn = on_async_event;
	opts.ctrl.event_user = &m;
	/* A discovery controller without a keep-alive timeout closes the connection after two
	 * minutes. */
	if (!o->ctrl.subnqn && o->ctrl.keep_alive_tmo_ms == UINT32_MAX)
		opts.ctrl.keep_alive_tmo_ms = DISC_KATO_MS;
	cli_signals_start(&in);
	rc = cli_session_open(&s, &opts);
	if (!rc) {
		fprintf(stderr, "rdinit: %s: waiting for events\n", s.info.address);
		rc = watch_events(&s, &opts, &m, &in);
		cli_session_close(&s);
	}
	cli_signals_end(&in);
	cli_signals_die(&in);
	return rc;
}
