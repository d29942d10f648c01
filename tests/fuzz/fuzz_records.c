/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of a hand-over, in another version of a process that hands over, or by somebody who is no
 * version of it: the kept ones of tests/loop/upgrade-1.json with changed values. The target that
 * takes over refuses them in words, or takes them; then their hosts close the connections, of which
 * everything must have come back.
 *
 * Input: one byte of FUZZ_RECORDS_*, then changes of four bytes: the record, the value (two bytes,
 * the lower one first), and what becomes of it. Each number counts modulo what there is.
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <jansson.h>

#include "util/fd_bag.h"
#include "target/bdev/inherit.h"
#include "target/bdev/jobs.h"
#include "target/config/config.h"
#include "target/manage/objects/opening.h"
#include "target/manage/upgrade/channel.h"
#include "target/manage/upgrade/ns_record.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/move.h"
#include "target/nvmf/move_bytes.h"
#include "target/nvmf/move_counters.h"
#include "target/nvmf/target.h"
#include "target/reactor/lifecycle.h"
#include "target/transport/tcp/tcp.h"
#include "fuzz.h"
#include "records.h"
#include "simulated.h"

#define CHANGES_MAX   16u
#define END_TURNS     100000u
#define PUBLISH_TURNS 16u /* reservations reach the reactor, and its answer comes */
#define CHANGE_SIZE   4u

static const char config_text[] = "target: {reactors: 1, buffer_memory: 8MiB, spin: 0}\n"
				  "listeners:\n"
				  "  - {address: 127.0.0.1, port: 0, transport: tcp}\n"
				  "  - {address: 127.0.0.1, port: 0, provider: iwarp}\n"
				  "subsystems:\n"
				  "  - nqn: nqn.2024-01.test:disk\n"
				  "    allow_any_host: true\n"
				  "    namespaces:\n"
				  "      - {nsid: 1, backend: memory, size: 1MiB}\n";

#define HOST "nqn.2014-08.org.nvmexpress:uuid:6f0c2b4e-6d0f-4a4e-9a56-0e9b7a3d5c11"
#define COUNTED                                                                           \
	"\"read\": {\"bytes\": 4096, \"ns\": 3000, \"latency\": [2048, 1]}, \"events\": " \
	"{\"qos_waits\": 5}, \"errors\": [128, 3], \"other_errors\": 1"

/* What the kept records do not have, by their kind. */
static const char more_text[] =
	"{\"target\": {\"reactors\": 1, \"ana_changes\": {\"nqn.2024-01.test:disk\": [2, 1]}, "
	"\"hosts\": [{\"reactor\": 0, \"hostnqn\": \"" HOST "\", " COUNTED "}, {" COUNTED "}], "
	"\"tls_refusals\": 1, \"subsystems\": [{\"nqn\": \"nqn.2024-01.test:disk\", "
	"\"auth_failures\": 1, \"reactors\": [{\"reads\": 1, \"media_errors\": 2}]}], \"gone\": "
	"[1, 2]},"
	"\"listener\": {\"bound\": \"127.0.0.1:1\", \"ana\": [1, 1, 2], \"ana_changes\": [3, 1, "
	"2], \"hosts\": [{\"hostnqn\": \"" HOST "\", " COUNTED "}]},"
	"\"ns-state\": {\"ana_group\": 1, \"uncorrectable\": [[1, 3], [9, 10]], \"faults\": "
	"{\"kinds\": 1, \"sync_error\": -5, \"data_end\": 0, \"since\": 1}, \"names\": [5], "
	"\"names_key\": \"000102030405060708090a0b0c0d0e0f\", \"reservations\": "
	"\"{\\\"version\\\": 1, \\\"namespace\\\": \\\"311bc4134b065cf4b52997445144daa2\\\", "
	"\\\"generation\\\": 2, \\\"type\\\": 1, \\\"persist\\\": false, \\\"registrants\\\": "
	"[{\\\"host\\\": \\\"000102030405060708090a0b0c0d0e0f\\\", \\\"key\\\": \\\"0x1\\\", "
	"\\\"holder\\\": true}]}\", \"counters\": {" COUNTED "}},"
	"\"ctrl\": {\"events\": {\"posted\": [\"ana\"], \"fresh\": [\"ns_attr\"], \"due\": "
	"[\"error\"], \"reported\": [\"health\"], \"changed\": [1, 7], \"overflow\": false}, "
	"\"reservations\": {\"counter\": 3, \"entries\": [[3, 1, 2]], \"masked\": [[1, 2]]}},"
	"\"queue\": {\"reactor\": 0, \"iwarp\": {\"crc\": false, \"ird\": 16, \"ord\": 16, "
	"\"tx_send_msn\": 5, \"tx_read_msn\": 1, \"rx_send_msn\": 6, \"rx_read_msn\": 1}}}";

static const char *const values[] = {
	"null",
	"true",
	"false",
	"0",
	"1",
	"-1",
	"2",
	"3",
	"16",
	"64",
	"255",
	"256",
	"4096",
	"65535",
	"65536",
	"2147483648",
	"4294967295",
	"4294967296",
	"9223372036854775807",
	"-9223372036854775808",
	"1.5",
	"\"\"",
	"\"x\"",
	"\"TCP\"",
	"\"nqn.2014-08.org.nvmexpress.discovery\"",
	"\"AAAA\"",
	"\"AAA=\"",
	"\"\\u0000\"",
	"\"00000000000000000000000000000000\"",
	"[]",
	"{}",
	"[1]",
	"[1, 2]",
	"[-1, \"x\"]",
	"[[1, 2, 3], [1, 2]]",
	"[{}, []]",
	"{\"x\": 1}",
};
#define VALUES (sizeof(values) / sizeof(values[0]))

enum { /* behind the values */
       CHANGE_REMOVE = VALUES,
       CHANGE_LONG,   /* a long text */
       CHANGE_UP,     /* a number that is 1 more */
       CHANGE_DOWN,   /* and 1 less */
       CHANGE_HALF,   /* the first half of a text */
       CHANGE_REPEAT, /* a list with its first element once more, or again and again */
       CHANGE_REPEAT_OFTEN,
       CHANGES,
};

enum part { PART_PREPARE, PART_MOVE, PART_COUNTERS, PARTS };

struct records_stage {
	uint64_t now;
	struct rd_clock clock;
	bool trace;
	struct rd_log *log;
	struct rd_loop *loop; /* of the main thread */
	struct rdt_config *cfg;
	struct rdt_env env;
	struct rdt_target *target;
	struct rdt_reactor *reactor;
	int listen_fd, disk;
	struct sockaddr_storage addr; /* of listen_fd */
	json_t *kept[PARTS];
	bool told; /* of the last rdt_move_in() */
	int err;
	char why[RDT_CHANNEL_WHY];
	bool counted; /* of the last rdt_move_counters_late() */
	struct rdt_move_counters counters;
};

/* ---- the target ---- */

static uint64_t records_now(void *arg)
{
	return ((const struct records_stage *)arg)->now;
}

static void turn_both(struct records_stage *s)
{
	s->now += RD_NSEC_PER_USEC;
	FUZZ_CHECK(rd_loop_turn(s->loop, 0) >= 0);
	FUZZ_CHECK(rd_loop_turn(s->reactor->loop, 0) >= 0);
}

static void listen_for_hosts(struct records_stage *s)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(s->addr);

	s->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	FUZZ_CHECK(!bind(s->listen_fd, (const struct sockaddr *)&any, sizeof(any)));
	FUZZ_CHECK(!listen(s->listen_fd, 8));
	FUZZ_CHECK(!getsockname(s->listen_fd, (struct sockaddr *)&s->addr, &len));
	s->disk = memfd_create("disk", MFD_CLOEXEC);
	FUZZ_CHECK(s->disk >= 0 && !ftruncate(s->disk, 1 << 20));
}

static void start_target(struct records_stage *s)
{
	struct rd_loop_opts loop = {.seed = 2, .clock = &s->clock};
	struct rdt_config_texts texts = {0};
	struct rdt_listener *l;

	s->now = 1000 * RD_NSEC_PER_SEC;
	s->clock = (struct rd_clock){.now = records_now, .arg = s, .manual = true};
	s->trace = getenv("FUZZ_TRACE");
	fuzz_create_log(&s->trace, &s->log);
	loop.log = s->log;
	FUZZ_CHECK(!rd_loop_create(&loop, &s->loop));
	FUZZ_CHECK(!rdt_config_texts_add(&texts, "fuzz.yaml", config_text, strlen(config_text), 0));
	FUZZ_CHECK(!rdt_config_load_texts("fuzz.yaml", &texts, false, s->log, &s->cfg));
	rdt_config_texts_free(&texts);
	s->env = (struct rdt_env){.clock = &s->clock, .seed = 1, .run_job = rdt_job_run_now};
	FUZZ_CHECK(!rdt_target_create(s->cfg, s->log, s->loop, &s->env, NULL, &s->target));
	rdt_opening_begin(s->target);
	FUZZ_CHECK(!rdt_opening_wait(s->target, 0));
	FUZZ_CHECK(!rdt_listeners_start(s->target));
	s->reactor = &s->target->reactors[0];
	FUZZ_CHECK(!rdt_reactor_setup(s->reactor));
	listen_for_hosts(s);
	TAILQ_FOREACH (l, &s->target->listeners, link)
		rdt_listener_bound(l, &s->addr);
}

/* ---- the records ---- */

static json_t *json_of(const char *text)
{
	json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

	FUZZ_CHECK(value != NULL);
	return value;
}

/* Members of the later ones take the place of earlier ones. */
static void add_more(json_t *records, const json_t *more)
{
	json_t *rec;
	size_t i;

	json_array_foreach(records, i, rec)
	{
		const char *kind = json_string_value(json_object_get(rec, "kind"));
		json_t *of = json_object_get(more, kind);

		if (of)
			FUZZ_CHECK(!json_object_update(rec, of));
	}
}

static json_t *only_counters(const json_t *records)
{
	json_t *out = json_array(), *rec;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)records, i, rec)
	{
		if (rdt_move_is(rec, "header") || rdt_move_is(rec, "target") ||
		    rdt_move_is(rec, "listener") || rdt_move_is(rec, "ns-state"))
			json_array_append_new(out, json_deep_copy(rec));
	}
	return out;
}

static void read_kept(struct records_stage *s)
{
	json_t *kept = json_load_file(FUZZ_KEPT_RECORDS, JSON_REJECT_DUPLICATES, NULL);
	json_t *more = json_of(more_text);

	FUZZ_CHECK(kept != NULL);
	s->kept[PART_PREPARE] = json_incref(json_object_get(kept, "prepare"));
	s->kept[PART_MOVE] = json_incref(json_object_get(kept, "move"));
	add_more(s->kept[PART_MOVE], more);
	s->kept[PART_COUNTERS] = only_counters(s->kept[PART_MOVE]);
	json_decref(kept);
	json_decref(more);
}

static struct records_stage *records_stage(void)
{
	static struct records_stage stage;

	if (!stage.target) {
		start_target(&stage);
		read_kept(&stage);
	}
	return &stage;
}

/* Record @at of all parts. */
static json_t *record_at(json_t *const parts[PARTS], unsigned int at, json_t **part)
{
	for (int i = 0; i < PARTS; i++) {
		size_t n = json_array_size(parts[i]);

		*part = parts[i];
		if (at < n)
			return json_array_get(parts[i], at);
		at -= (unsigned int)n;
	}
	return NULL;
}

static unsigned int count_records(json_t *const parts[PARTS])
{
	size_t n = 0;

	for (int i = 0; i < PARTS; i++)
		n += json_array_size(parts[i]);
	return (unsigned int)n;
}

/* Of @value and below. */
static unsigned int count_values(json_t *value)
{
	unsigned int n = 1;
	const char *key;
	json_t *below;
	size_t i;

	json_object_foreach(value, key, below) n += count_values(below);
	json_array_foreach(value, i, below) n += count_values(below);
	return n;
}

unsigned int fuzz_records_count(void)
{
	return count_records(records_stage()->kept);
}

unsigned int fuzz_records_values(unsigned int at)
{
	json_t *part;

	return count_values(record_at(records_stage()->kept, at, &part));
}

unsigned int fuzz_records_changes(void)
{
	return CHANGES;
}

/* ---- changes ---- */

static json_t *long_text(void)
{
	static char text[20001];

	memset(text, 'A', sizeof(text) - 1);
	return json_string(text);
}

static json_t *repeated(const json_t *value, unsigned int n)
{
	json_t *out = json_deep_copy(value);

	while (json_array_size(out) && n--)
		json_array_append_new(out, json_deep_copy(json_array_get(out, 0)));
	return out;
}

/* What becomes of @value; NULL: it is removed. */
static json_t *changed(const json_t *value, unsigned int change)
{
	uint64_t number = (uint64_t)json_integer_value(value);

	switch (change) {
	case CHANGE_REMOVE:
		return NULL;
	case CHANGE_LONG:
		return long_text();
	case CHANGE_UP:
		return json_integer((json_int_t)(number + 1));
	case CHANGE_DOWN:
		return json_integer((json_int_t)(number - 1));
	case CHANGE_HALF:
		return json_is_string(value) ? json_stringn(json_string_value(value),
							    json_string_length(value) / 2)
					     : json_of("[[]]");
	case CHANGE_REPEAT:
		return repeated(value, 1);
	case CHANGE_REPEAT_OFTEN:
		return repeated(value, 5000);
	default:
		return json_of(values[change]);
	}
}

static void change_member(json_t *in, const char *key, json_t *value)
{
	char name[64];

	snprintf(name, sizeof(name), "%s", key); /* @key goes with the member */
	if (value)
		json_object_set_new(in, name, value);
	else
		json_object_del(in, name);
}

static void change_element(json_t *in, size_t i, json_t *value)
{
	if (value)
		json_array_set_new(in, i, value);
	else
		json_array_remove(in, i);
}

/* Changes value *@at below @in, or counts on. Returns whether it was there. */
static bool change_below(json_t *in, unsigned int *at, unsigned int change)
{
	const char *key;
	json_t *value;
	size_t i;

	json_object_foreach(in, key, value)
	{
		if (!(*at)--) {
			change_member(in, key, changed(value, change));
			return true;
		}
		if (change_below(value, at, change))
			return true;
	}
	json_array_foreach(in, i, value)
	{
		if (!(*at)--) {
			change_element(in, i, changed(value, change));
			return true;
		}
		if (change_below(value, at, change))
			return true;
	}
	return false;
}

static void change_record(json_t *parts[PARTS], const uint8_t input[CHANGE_SIZE])
{
	unsigned int count = count_records(parts), at, change = input[3] % CHANGES;
	json_t *part, *rec;

	if (!count)
		return;
	rec = record_at(parts, input[0] % count, &part);
	at = (unsigned int)(input[1] | input[2] << 8) % count_values(rec);
	if (at--) {
		change_below(rec, &at, change);
		return;
	}
	for (size_t i = 0; i < json_array_size(part); i++) {
		if (json_array_get(part, i) != rec)
			continue;
		change_element(part, i, changed(rec, change));
		if (change >= CHANGE_REPEAT) /* a record twice */
			json_array_append_new(part, json_deep_copy(rec));
		return;
	}
}

static void use_iwarp(json_t *records)
{
	json_t *rec;
	size_t i;

	json_array_foreach(records, i, rec)
	{
		if (!rdt_move_is(rec, "queue"))
			continue;
		json_object_set_new(rec, "transport", json_string("rdma"));
		json_object_del(rec, "bytes");
	}
}

/* ---- a hand-over ---- */

/* Returns whether the process would get the connections. */
static bool prepare(struct records_stage *s, const json_t *records)
{
	char why[RDT_CHANNEL_WHY] = "";
	struct rdt_inherit *inherit;
	struct rd_fd_bag bag;
	int err;

	rd_fd_bag_init(&bag, 4);
	FUZZ_CHECK(rd_fd_bag_add_dup(&bag, s->listen_fd) == 0);
	FUZZ_CHECK(rd_fd_bag_add_dup(&bag, s->disk) == 1);
	FUZZ_CHECK(!rdt_inherit_new(&inherit));
	err = rdt_records_check(records, why, sizeof(why));
	if (!err)
		err = rdt_ns_records_inherit(records, s->cfg, &bag, inherit, why, sizeof(why));
	if (!err)
		err = rdt_ns_records_check(s->target, records, why, sizeof(why));
	FUZZ_CHECK(!err == !why[0]);
	if (err)
		rd_info(s->log, RD_LOG_MAIN, "what is open is refused: %s", why);
	rdt_inherit_free(&inherit);
	rd_fd_bag_clear(&bag);
	return !err;
}

static void moves_in(void *arg, int err, const char *why)
{
	struct records_stage *s = arg;

	s->told = true;
	s->err = err;
	snprintf(s->why, sizeof(s->why), "%s", why ? why : "");
}

static void counters_in(struct rdt_move_counters *mc)
{
	rd_container_of(mc, struct records_stage, counters)->counted = true;
}

static void await(struct records_stage *s, const bool *done)
{
	for (unsigned int i = 0; !*done; i++) {
		FUZZ_CHECK(i < END_TURNS);
		turn_both(s);
	}
	s->told = s->counted = false;
}

static void take_counters(struct records_stage *s, const json_t *records)
{
	char why[RDT_CHANNEL_WHY] = "";

	if (rdt_records_check(records, why, sizeof(why))) {
		FUZZ_CHECK(why[0]);
		return;
	}
	memset(&s->counters, 0, sizeof(s->counters));
	s->counters.done = counters_in;
	rdt_move_counters_late(s->target, &s->counters, records);
	await(s, &s->counted);
	rdt_move_counters_free(&s->counters);
}

/* Up to the commit. Returns whether that may come. */
static bool take(struct records_stage *s, const json_t *records, struct rd_fd_bag *bag)
{
	int err;

	s->why[0] = '\0';
	err = rdt_records_check(records, s->why, sizeof(s->why));
	if (!err)
		err = rdt_ns_records_take(s->target, records, s->why, sizeof(s->why));
	if (!err) {
		FUZZ_CHECK(!rdt_move_in(s->target, records, bag, moves_in, s));
		await(s, &s->told);
		err = s->err;
	}
	FUZZ_CHECK(!err == !s->why[0]);
	if (err)
		rd_info(s->log, RD_LOG_MAIN, "connections are refused: %s", s->why);
	return !err;
}

static bool all_came_back(const struct records_stage *s)
{
	return !s->reactor->qpairs_count && !s->target->move_in &&
	       !rdt_tcp_of(s->reactor)->lingers_count;
}

static void end_hosts(struct records_stage *s, const int hosts[2])
{
	close(hosts[0]);
	close(hosts[1]);
	for (unsigned int i = 0; i < PUBLISH_TURNS || !all_came_back(s); i++) {
		FUZZ_CHECK(i < END_TURNS);
		turn_both(s);
	}
}

static void connect_hosts(struct records_stage *s, int hosts[2], struct rd_fd_bag *bag)
{
	for (int i = 0; i < 2; i++) {
		hosts[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		FUZZ_CHECK(!connect(hosts[i], (const struct sockaddr *)&s->addr,
				    sizeof(struct sockaddr_in)));
		FUZZ_CHECK(rd_fd_bag_add(bag, accept4(s->listen_fd, NULL, NULL,
						      SOCK_CLOEXEC | SOCK_NONBLOCK)) == i);
	}
}

/* Returns how many connections were taken. */
static unsigned int hand_over(struct records_stage *s, json_t *const parts[PARTS])
{
	unsigned int queues = 0;
	struct rd_fd_bag bag;
	int hosts[2];

	if (!prepare(s, parts[PART_PREPARE]))
		return 0;
	rd_fd_bag_init(&bag, 4);
	connect_hosts(s, hosts, &bag);
	if (take(s, parts[PART_MOVE], &bag)) {
		queues = rdt_move_in_counted(s->target).queues;
		rdt_move_start(s->target);
		rdt_ns_records_tell(s->target, parts[PART_PREPARE]);
		take_counters(s, parts[PART_COUNTERS]);
	} else {
		rdt_move_done(s->target);
	}
	rd_fd_bag_clear(&bag);
	end_hosts(s, hosts);
	return queues;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct records_stage *s = records_stage();
	json_t *parts[PARTS];
	unsigned int queues;

	for (int i = 0; i < PARTS; i++)
		parts[i] = json_deep_copy(s->kept[i]);
	if (size && data[0] & FUZZ_RECORDS_RDMA)
		use_iwarp(parts[PART_MOVE]);
	for (size_t at = 1; at + CHANGE_SIZE <= size && at < CHANGES_MAX * CHANGE_SIZE;
	     at += CHANGE_SIZE)
		change_record(parts, data + at);
	queues = hand_over(s, parts);
	FUZZ_CHECK(queues == 2 || size > CHANGE_SIZE); /* without a change all are */
	for (int i = 0; i < PARTS; i++)
		json_decref(parts[i]);
	return 0;
}
