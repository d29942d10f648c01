/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket of a target with one host: a client sends lines, the loops are turned until an
 * answer has come. Helper threads work for it, so that the test waits for the socket of the client.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <jansson.h>

#include "t_target.h"
#include "target/manage/reloader.h"
#include "target/manage/rpc.h"
#include "target/manage/stats.h"

#define ANSWER_MAX (1u << 20)
#define WAITS_MAX  10000u /* of 5 ms */

struct t_rpc {
	struct t_pair pair;
	struct rd_log *log; /* which outlives the target */
	struct rdt_reloader reloader;
	struct rdt_control_config cfg;
	struct rdt_rpc_env env;
	struct rdt_sampler *sampler;
	struct rdt_rpc *rpc;
	char dir[32];
	char socket[48];
	int fd;
	unsigned int shutdowns;
	char *answer; /* ANSWER_MAX bytes */
	size_t len;
};

static void drop_line(void *arg, enum rd_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

static void count_shutdown(struct rdt_rpc_env *env)
{
	rd_container_of(env, struct t_rpc, env)->shutdowns++;
}

static int connect_client(const struct t_rpc *r)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(addr.sun_path, r->socket, sizeof(r->socket));
	CU_ASSERT_EQUAL_FATAL(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

static void t_rpc_open(struct t_rpc *r)
{
	struct rdt_target *t;

	memset(r, 0, sizeof(*r));
	r->pair = t_pair_new();
	t = r->pair.env->t;
	CU_ASSERT_EQUAL_FATAL(rd_log_create("test", -1, RD_LOG_INFO, drop_line, NULL, &r->log), 0);
	t->log = r->log;
	strcpy(r->dir, "/tmp/t_rpc.XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(r->dir));
	snprintf(r->socket, sizeof(r->socket), "%s/control", r->dir);
	r->cfg.socket = r->socket;
	r->reloader.target = t;
	r->reloader.path = "/nowhere/rdtarget.yaml";
	CU_ASSERT_EQUAL_FATAL(rdt_reloader_init(&r->reloader), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_sampler_new(t, &r->sampler), 0);
	r->env = (struct rdt_rpc_env){.target = t,
				      .reloader = &r->reloader,
				      .sampler = r->sampler,
				      .config_path = r->reloader.path,
				      .cfg = &r->cfg,
				      .shutdown = count_shutdown};
	CU_ASSERT_EQUAL_FATAL(rdt_rpc_open(&r->env, &r->rpc), 0);
	r->answer = malloc(ANSWER_MAX);
	CU_ASSERT_PTR_NOT_NULL_FATAL(r->answer);
	r->fd = connect_client(r);
}

static void t_rpc_free(struct t_rpc *r)
{
	char lock[64];

	close(r->fd);
	rdt_sampler_close(r->sampler);
	rdt_rpc_close(r->rpc);
	rdt_reloader_stop(&r->reloader);
	t_pair_free(&r->pair);
	rdt_rpc_free(&r->rpc);
	rdt_sampler_free(&r->sampler);
	rd_log_destroy(&r->log);
	snprintf(lock, sizeof(lock), "%s.lock", r->socket);
	unlink(lock);
	CU_ASSERT_EQUAL(rmdir(r->dir), 0);
	free(r->answer);
}

/* The next line of the target, without its newline; NULL: it has closed the connection. */
static const char *next_line(struct t_rpc *r)
{
	struct pollfd fd = {.fd = r->fd, .events = POLLIN};
	char *end = NULL;
	ssize_t n;

	r->len = 0;
	for (unsigned int waits = 0; !end; waits++) {
		CU_ASSERT_FATAL(waits < WAITS_MAX && r->len < ANSWER_MAX - 1);
		t_turn(r->pair.env);
		if (poll(&fd, 1, 5) != 1)
			continue;
		/* Byte by byte at the end, so that the following line stays in the socket. */
		n = recv(r->fd, r->answer + r->len, 1, 0);
		if (n <= 0)
			return NULL;
		if (r->answer[r->len] == '\n')
			end = r->answer + r->len;
		r->len += (size_t)n;
		for (; !end && recv(r->fd, r->answer + r->len, 1, MSG_DONTWAIT) == 1; r->len++)
			if (r->answer[r->len] == '\n')
				end = r->answer + r->len;
	}
	*end = '\0';
	return r->answer;
}

static void send_line(const struct t_rpc *r, const char *line)
{
	CU_ASSERT_EQUAL_FATAL(send(r->fd, line, strlen(line), MSG_NOSIGNAL), (ssize_t)strlen(line));
	CU_ASSERT_EQUAL_FATAL(send(r->fd, "\n", 1, MSG_NOSIGNAL), 1);
}

/* The answer to @method with @params, JSON text. The caller frees it. */
static json_t *call_method(struct t_rpc *r, const char *method, const char *params)
{
	char line[512];
	const char *text;
	json_t *answer;

	snprintf(line, sizeof(line),
		 "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"%s\",\"params\":%s}", method, params);
	send_line(r, line);
	text = next_line(r);
	CU_ASSERT_PTR_NOT_NULL_FATAL(text);
	answer = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(answer);
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(answer, "id")), 7);
	return answer;
}

/* The result of a call that succeeds; belongs to *@answer. */
static const json_t *call_result(struct t_rpc *r, const char *method, const char *params,
				 json_t **answer)
{
	*answer = call_method(r, method, params);
	CU_ASSERT_PTR_NOT_NULL_FATAL(json_object_get(*answer, "result"));
	return json_object_get(*answer, "result");
}

/* @answer is the error @name. */
static void expect_error(const json_t *answer, const char *name)
{
	const json_t *error = json_object_get(answer, "error");
	const char *found =
		json_string_value(json_object_get(json_object_get(error, "data"), "name"));

	CU_ASSERT_STRING_EQUAL(found ? found : "none", name);
	CU_ASSERT_TRUE(!error || strlen(json_string_value(json_object_get(error, "message"))) > 0);
}

static size_t list_size(struct t_rpc *r, const char *method, const char *list)
{
	json_t *answer;
	const json_t *result = call_result(r, method, "{}", &answer);
	size_t size = json_array_size(json_object_get(result, list));

	json_decref(answer);
	return size;
}

static void what_is_served_is_listed(void)
{
	const json_t *result;
	struct t_rpc r;
	json_t *answer;

	t_rpc_open(&r);
	result = call_result(&r, "info", "{}", &answer);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(result, "config")),
			       r.reloader.path);
	json_decref(answer);
	result = call_result(&r, "status", "{}", &answer);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(result, "state")), "serving");
	json_decref(answer);
	CU_ASSERT_EQUAL(list_size(&r, "subsystem.list", "subsystems"), 2);
	CU_ASSERT_EQUAL(list_size(&r, "namespace.list", "namespaces"), 3);
	CU_ASSERT_EQUAL(list_size(&r, "listener.list", "listeners"), 0);
	CU_ASSERT_EQUAL(list_size(&r, "host.list", "hosts"), 1);
	CU_ASSERT_EQUAL(list_size(&r, "controller.list", "controllers"), 1);
	t_rpc_free(&r);
}

/* Each method that changes nothing answers, whatever it needs. */
static void every_reading_method_answers(void)
{
	const json_t *methods, *method;
	json_t *info, *answer;
	struct t_rpc r;
	size_t i;

	t_rpc_open(&r);
	methods = json_object_get(call_result(&r, "info", "{}", &info), "methods");
	CU_ASSERT_TRUE(json_array_size(methods) > 20);
	json_array_foreach(methods, i, method)
	{
		if (json_is_true(json_object_get(method, "changes")))
			continue;
		answer = call_method(&r, json_string_value(json_object_get(method, "name")), "{}");
		CU_ASSERT_TRUE(json_object_get(answer, "result") ||
			       json_object_get(answer, "error"));
		json_decref(answer);
	}
	json_decref(info);
	t_rpc_free(&r);
}

static void counters_are_told(void)
{
	static const char *const params[] = {
		"{}",
		"{\"histograms\":true,\"hosts\":true,\"namespaces\":true}",
		"{\"nqn\":\"" T_NQN "\",\"nsid\":1}",
		"{\"hosts\":true,\"hostnqn\":\"" T_HOST "\",\"offset\":0,\"limit\":1}",
	};
	struct nvme_sqe sqe;
	uint8_t buf[512];
	struct t_rpc r;
	json_t *answer;

	t_rpc_open(&r);
	t_rw_sqe(r.pair.io, &sqe, false, 0, 1, buf);
	CU_ASSERT_EQUAL(t_exec(r.pair.io, &sqe).cqe.status, 0);
	for (unsigned int i = 0; i < sizeof(params) / sizeof(params[0]); i++) {
		call_result(&r, "stats.get", params[i], &answer);
		json_decref(answer);
	}
	call_result(&r, "metrics.get", "{}", &answer);
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "rdtarget_"));
	json_decref(answer);
	call_result(&r, "metrics.get", "{\"format\":\"openmetrics\"}", &answer);
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "# EOF"));
	json_decref(answer);
	answer = call_method(&r, "metrics.get", "{\"format\":\"xml\"}");
	expect_error(answer, "invalid");
	json_decref(answer);
	t_rpc_free(&r);
}

static void malformed_requests_are_answered(void)
{
	static const struct {
		const char *line, *name;
	} rows[] = {
		{"{", "parse"},
		{"[]", "request"},
		{"7", "request"},
		{"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"info\"}", "request"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1}", "request"},
		{"{\"jsonrpc\":\"2.0\",\"id\":[],\"method\":\"info\"}", "request"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"info\",\"params\":[]}", "request"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"infos\"}", "method"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"info\",\"params\":{\"x\":1}}",
		 "invalid"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"stats.get\",\"params\":{\"nsid\":"
		 "\"1\"}}",
		 "invalid"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"log.level\",\"params\":{}}",
		 "invalid"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"namespace.list\",\"params\":{\"nqn\":"
		 "\"x\"}}",
		 "not_found"},
	};
	struct t_rpc r;

	t_rpc_open(&r);
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *text;
		json_t *answer;

		send_line(&r, "");
		send_line(&r, rows[i].line);
		text = next_line(&r);
		CU_ASSERT_PTR_NOT_NULL_FATAL(text);
		answer = json_loads(text, 0, NULL);
		expect_error(answer, rows[i].name);
		json_decref(answer);
	}
	t_rpc_free(&r);
}

static void a_controller_is_disconnected_and_that_is_an_event(void)
{
	int caller, watcher;
	json_t *answer;
	struct t_rpc r;

	t_rpc_open(&r);
	call_result(&r, "events.watch", "{}", &answer);
	json_decref(answer);
	watcher = r.fd;
	r.fd = caller = connect_client(&r);
	answer = call_method(&r, "controller.disconnect", "{\"hostnqn\":\"nqn.x:none\"}");
	expect_error(answer, "not_found");
	json_decref(answer);
	call_result(&r, "controller.disconnect", "{\"hostnqn\":\"" T_HOST "\"}", &answer);
	json_decref(answer);
	CU_ASSERT_EQUAL(list_size(&r, "controller.list", "controllers"), 0);
	r.fd = watcher;
	CU_ASSERT_PTR_NOT_NULL_FATAL(next_line(&r));
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "\"method\":"));
	close(caller);
	t_rpc_free(&r);
}

static void the_target_is_shut_down_by_a_call(void)
{
	json_t *answer;
	struct t_rpc r;

	t_rpc_open(&r);
	call_result(&r, "log.level", "{\"level\":\"debug\"}", &answer);
	json_decref(answer);
	answer = call_method(&r, "log.level", "{\"level\":\"loud\"}");
	expect_error(answer, "invalid");
	json_decref(answer);
	call_result(&r, "shutdown", "{}", &answer);
	json_decref(answer);
	t_turn(r.pair.env);
	CU_ASSERT_EQUAL(r.shutdowns, 1);
	t_rpc_free(&r);
}

const struct t_case t_rpc_cases[] = {
	{"what is served is listed", what_is_served_is_listed},
	{"every reading method answers", every_reading_method_answers},
	{"counters are told", counters_are_told},
	{"malformed requests are answered", malformed_requests_are_answered},
	{"a controller is disconnected, and that is an event",
	 a_controller_is_disconnected_and_that_is_an_event},
	{"the target is shut down by a call", the_target_is_shut_down_by_a_call},
	{NULL, NULL},
};
