/* SPDX-License-Identifier: BSD-3-Clause */
/* The HTTP listener of a target with one host, by clients on the loopback. */
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/sockaddr.h"

#include "t_rpc.h"
#include "target/manage/change/mgmt_if.h"
#include "target/manage/http/http.h"
#include "target/nvmf/stall.h"

#define ANSWER_MAX (1u << 20)
#define WAITS_MAX  10000u /* of 5 ms */
#define HEADER_END "\r\n\r\n"
#define GET(path)  "GET " path " HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define LISTENING  "http: status page at http://127.0.0.1:"

struct t_http {
	struct t_rpc rpc;
	struct t_env *env;
	struct rdt_http *http;
	uint16_t port;
	uint64_t tick; /* ns that pass while a client waits */
	char *answer;  /* ANSWER_MAX bytes, terminated */
	size_t len;
};

/* The port of the first listener that the log tells. */
static uint16_t logged_port(struct t_http *h)
{
	char rest[256] = "";

	CU_ASSERT_TRUE_FATAL(t_rpc_logged(&h->rpc, LISTENING, rest, sizeof(rest)));
	return (uint16_t)strtoul(rest, NULL, 10);
}

static int set_http(struct t_http *h, const char *address, uint16_t port, const char *name,
		    char text[RDT_MGMT_TEXT])
{
	const char *names[] = {name};
	const struct rdt_http_config cfg = {.address = address,
					    .port = port,
					    .host_names = names,
					    .host_names_count = name ? 1 : 0};

	return rdt_http_set(h->http, &cfg, text, RDT_MGMT_TEXT);
}

static void t_http_open(struct t_http *h)
{
	char text[RDT_MGMT_TEXT];
	struct rdt_target *t;

	memset(h, 0, sizeof(*h));
	t_rpc_open(&h->rpc);
	h->env = h->rpc.pair.env;
	t = h->env->t;
	CU_ASSERT_EQUAL_FATAL(rdt_http_new(t, &h->rpc.reloader, h->rpc.sampler, &h->http), 0);
	CU_ASSERT_EQUAL_FATAL(set_http(h, "127.0.0.1", 0, "target-7.example", text), 2);
	h->port = logged_port(h);
	h->answer = malloc(ANSWER_MAX);
	CU_ASSERT_PTR_NOT_NULL_FATAL(h->answer);
}

static void t_http_free(struct t_http *h)
{
	rdt_sampler_close(h->rpc.sampler);
	rdt_http_close(h->http);
	h->env->t->http = NULL;
	t_rpc_free(&h->rpc);
	rdt_http_free(&h->http);
	free(h->answer);
}

/* ---- a client ---- */

static int connect_port(uint16_t port)
{
	struct sockaddr_storage addr;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	rd_addr_parse("127.0.0.1", port, &addr);
	if (connect(fd, (const struct sockaddr *)&addr, sizeof(struct sockaddr_in)) == 0)
		return fd;
	close(fd);
	return -1;
}

static int http_client(struct t_http *h)
{
	int fd = connect_port(h->port);

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	t_turn(h->env);
	return fd;
}

static void send_request(int fd, const char *request)
{
	CU_ASSERT_EQUAL_FATAL(send(fd, request, strlen(request), MSG_NOSIGNAL),
			      (ssize_t)strlen(request));
}

/* Reads to the end of the connection. */
static const char *read_answer(struct t_http *h, int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	ssize_t n = 1;

	h->len = 0;
	for (unsigned int waits = 0; n > 0; waits++) {
		CU_ASSERT_FATAL(waits < WAITS_MAX && h->len < ANSWER_MAX - 1);
		t_turn(h->env);
		if (poll(&pfd, 1, 5) != 1) {
			h->env->now += h->tick;
			continue;
		}
		n = recv(fd, h->answer + h->len, ANSWER_MAX - 1 - h->len, 0);
		h->len += n > 0 ? (size_t)n : 0;
	}
	h->answer[h->len] = '\0';
	close(fd);
	return h->answer;
}

static const char *ask_http(struct t_http *h, const char *request)
{
	int fd = http_client(h);

	send_request(fd, request);
	return read_answer(h, fd);
}

static unsigned int code_of(const char *answer)
{
	unsigned int code = 0;

	return sscanf(answer, "HTTP/1.1 %u ", &code) == 1 ? code : 0;
}

static const char *body_of(const char *answer)
{
	const char *end = strstr(answer, HEADER_END);

	CU_ASSERT_PTR_NOT_NULL_FATAL(end);
	return end + strlen(HEADER_END);
}

/* A status document that is made now; the caller frees it. */
static json_t *status_document(struct t_http *h)
{
	json_t *o;

	t_advance(h->env, RD_NSEC_PER_SEC); /* none is given again */
	CU_ASSERT_EQUAL(code_of(ask_http(h, GET("/status.json"))), 200);
	o = json_loads(body_of(h->answer), JSON_REJECT_DUPLICATES, NULL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(o);
	return o;
}

/* The only problem. */
static const char *problem_text(const json_t *status, const char *kind)
{
	const json_t *list = json_object_get(status, "problems"), *one = json_array_get(list, 0);

	CU_ASSERT_EQUAL_FATAL(json_array_size(list), 1);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(one, "kind")), kind);
	return json_string_value(json_object_get(one, "text"));
}

/* ---- requests ---- */

static void answers_have_a_status_and_headers(void)
{
	static const struct {
		const char *request;
		unsigned int code;
		const char *has;
	} rows[] = {
		{GET("/"), 200, "Content-Type: text/html"},
		{GET("/"), 200, "Content-Security-Policy: default-src 'none'"},
		{GET("/healthz"), 200, "\r\n\r\nok\n"},
		{GET("/metrics"), 200, "Content-Type: text/plain; version=0.0.4"},
		{GET("/status.json"), 200, "Content-Type: application/json"},
		{GET("/status"), 404, "expected /, /status.json, /metrics or /healthz"},
		{GET("/%2e%2e/etc/passwd"), 404, "Unknown path"},
		{"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405,
		 "Allow: GET, HEAD"},
		{"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421, "\"evil.example\""},
		{"GET / HTTP/1.1\r\nHost: Target-7.example:80\r\n\r\n", 200, "text/html"},
		{"GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n", 200, "text/html"},
		{"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 421, "http.host_names"},
		{"GET / HTTP/1.0\r\n\r\n", 421, "http.host_names"},
	};
	struct t_http h T_ENDS(t_http_free);

	t_http_open(&h);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *answer = ask_http(&h, rows[i].request);

		if (code_of(answer) != rows[i].code || !strstr(answer, rows[i].has))
			fprintf(stderr, "%s%.600s\n", rows[i].request, answer);
		CU_ASSERT_EQUAL(code_of(answer), rows[i].code);
		CU_ASSERT_PTR_NOT_NULL(strstr(answer, rows[i].has));
		CU_ASSERT_PTR_NOT_NULL(strstr(answer, "X-Content-Type-Options: nosniff"));
	}
}

static void head_has_the_length_and_no_body(void)
{
	char length[64];
	struct t_http h T_ENDS(t_http_free);

	t_http_open(&h);
	CU_ASSERT_EQUAL(code_of(ask_http(&h, GET("/status.json"))), 200);
	snprintf(length, sizeof(length), "Content-Length: %zu\r\n", strlen(body_of(h.answer)));
	/* The same document: it is not half a second old. */
	ask_http(&h, "HEAD /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
	CU_ASSERT_EQUAL(code_of(h.answer), 200);
	CU_ASSERT_PTR_NOT_NULL(strstr(h.answer, length));
	CU_ASSERT_STRING_EQUAL(body_of(h.answer), "");
}

/* Sends @begin and then one line again and again, until the target does not want more. */
static void send_without_end(struct t_http *h, const char *begin, const char *line)
{
	int fd = http_client(h);
	ssize_t n = send(fd, begin, strlen(begin), MSG_NOSIGNAL);

	for (int i = 0; i < 5000 && n > 0; i++) {
		n = send(fd, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT);
		t_turn(h->env);
	}
	shutdown(fd, SHUT_WR);
	read_answer(h, fd);
	CU_ASSERT_NOT_EQUAL(code_of(h->answer), 200);
}

static void what_is_no_request_ends_its_connection_only(void)
{
	static const char line[] =
		"X-A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n";
	struct t_http h T_ENDS(t_http_free);

	t_http_open(&h);
	send_without_end(&h, "GET / HTTP/1.1\r\nHost: localhost\r\n", line);
	send_without_end(&h, "GET /", line + 4);
	send_without_end(&h, "\x16\x03\x01\xff", "\r\n\r\n");
	CU_ASSERT_EQUAL(code_of(ask_http(&h, GET("/healthz"))), 200);
}

/* Neither a client that sends half a request nor one that sends nothing keeps its connection. */
static void clients_that_say_nothing_are_closed(void)
{
	static const char half[] = "GET / HTTP/1.1\r\nHost:";
	struct t_http h T_ENDS(t_http_free);
	int quiet, slow;

	t_http_open(&h);
	quiet = http_client(&h);
	slow = http_client(&h);
	send_request(slow, half);
	t_advance(h.env, 25 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(recv(quiet, h.answer, 1, MSG_DONTWAIT), -1); /* not yet */
	for (int i = 0; i < 3; i++)
		t_advance(h.env, 5 * RD_NSEC_PER_SEC);
	CU_ASSERT_STRING_EQUAL(read_answer(&h, quiet), "");
	CU_ASSERT_STRING_EQUAL(read_answer(&h, slow), "");
}

static void many_connections_push_out_the_oldest(void)
{
	struct t_http h T_ENDS(t_http_free);
	int fds[60];

	t_http_open(&h);
	for (unsigned int i = 0; i < 60; i++)
		fds[i] = http_client(&h);
	CU_ASSERT_EQUAL(code_of(ask_http(&h, GET("/healthz"))), 200);
	CU_ASSERT_STRING_EQUAL(read_answer(&h, fds[0]), "");
	send_request(fds[59], GET("/"));
	CU_ASSERT_EQUAL(code_of(read_answer(&h, fds[59])), 200);
	for (unsigned int i = 1; i < 59; i++)
		close(fds[i]);
	t_turn(h.env);
}

/* ---- documents ---- */

static void names_of_hosts_are_text(void)
{
	static const char name[] = "nqn.x:\"</script>\\\n\x1b\xff\xe2\x82";
	const json_t *hosts, *one = NULL;
	struct t_http h T_ENDS(t_http_free);
	struct t_conn *c;
	struct t_answer a;
	json_t *status T_ENDS(json_decrefp) = NULL;

	t_http_open(&h);
	c = t_conn_new(h.env, 0, 0, 32);
	a = t_connect_as(c, NVMF_CNTLID_DYNAMIC, name, 0x44);
	CU_ASSERT_EQUAL_FATAL(t_status(&a), 0);
	status = status_document(&h);
	hosts = json_object_get(status, "hosts");
	CU_ASSERT_EQUAL(json_array_size(hosts), 2);
	for (size_t i = 0; i < json_array_size(hosts); i++)
		if (strcmp(json_string_value(json_object_get(json_array_get(hosts, i), "hostnqn")),
			   T_HOST) != 0)
			one = json_array_get(hosts, i);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(one, "hostnqn")),
			       "nqn.x:\"</script>\\\n\x1b???");
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(one, "host")),
			       "nqn.x:\"</script>\\x5c\\x0a\\x1b\\xff\\xe2\\x82");
	CU_ASSERT_EQUAL(json_array_size(json_object_get(status, "controllers")), 2);
}

static void a_stall_is_a_problem(void)
{
	struct nvme_sqe sqe;
	uint8_t buf[512];
	struct t_http h T_ENDS(t_http_free);
	json_t *status;

	t_http_open(&h);
	status = status_document(&h);
	CU_ASSERT_EQUAL(json_array_size(json_object_get(status, "problems")), 0);
	json_decref(status);
	h.env->disk[0].hold = true;
	t_rw_sqe(h.rpc.pair.io, &sqe, false, 0, 1, buf);
	t_send(h.rpc.pair.io, &sqe, NULL, 0);
	for (unsigned int i = 0; i < 2; i++)
		t_advance(h.env, RDT_STALL_NS);
	status = status_document(&h);
	CU_ASSERT_STRING_EQUAL(problem_text(status, "stalled"),
			       T_NQN " namespace 1 is stalled: its storage does not answer");
	json_decref(status);
	CU_ASSERT_EQUAL(code_of(ask_http(&h, GET("/healthz"))), 200); /* the storage's fault */
	h.env->disk[0].hold = false;
	t_turn(h.env);
	status = status_document(&h);
	CU_ASSERT_EQUAL(json_array_size(json_object_get(status, "problems")), 0);
	json_decref(status);
}

static void a_reactor_that_hangs_is_named(void)
{
	struct t_http h T_ENDS(t_http_free);
	json_t *status;

	t_http_open(&h);
	h.env->still[1] = true;
	h.tick = RD_NSEC_PER_SEC / 10;
	status = status_document(&h);
	CU_ASSERT_STRING_EQUAL(problem_text(status, "reactor"),
			       "reactor 1 does not answer: its connections are not shown");
	json_decref(status);
	CU_ASSERT_EQUAL(code_of(ask_http(&h, GET("/healthz"))), 503);
	CU_ASSERT_PTR_NOT_NULL(strstr(h.answer, "reactor 1 has not answered for "));
	h.env->still[1] = false;
	t_advance(h.env, RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(code_of(ask_http(&h, GET("/healthz"))), 200);
}

/* Two clients ask for two formats at once: one is made after the other, and both get theirs. */
static void metrics_come_in_both_formats(void)
{
	static const char open[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
				   "Accept: text/plain;q=0.5, application/openmetrics-text\r\n\r\n";
	struct t_http h T_ENDS(t_http_free);
	int one, other;

	t_http_open(&h);
	one = http_client(&h);
	other = http_client(&h);
	send_request(one, open);
	send_request(other, GET("/metrics"));
	read_answer(&h, one);
	CU_ASSERT_EQUAL(code_of(h.answer), 200);
	CU_ASSERT_PTR_NOT_NULL(strstr(h.answer, "Content-Type: application/openmetrics-text"));
	CU_ASSERT_STRING_EQUAL(h.answer + h.len - strlen("# EOF\n"), "# EOF\n");
	read_answer(&h, other);
	CU_ASSERT_PTR_NOT_NULL(strstr(h.answer, "Content-Type: text/plain; version=0.0.4"));
	CU_ASSERT_PTR_NULL(strstr(h.answer, "# EOF"));
}

/* A client that waits for a document when the listener closes is let go. */
static void a_waiting_client_is_let_go_at_the_end(void)
{
	char text[RDT_MGMT_TEXT];
	struct t_http h T_ENDS(t_http_free);
	int fd;

	t_http_open(&h);
	fd = http_client(&h);
	h.env->still[0] = h.env->still[1] = true; /* no document for now */
	send_request(fd, GET("/status.json"));
	t_turn(h.env);
	CU_ASSERT_EQUAL(set_http(&h, NULL, 0, NULL, text), 2);
	h.env->still[0] = h.env->still[1] = false;
	CU_ASSERT_NOT_EQUAL(code_of(read_answer(&h, fd)), 200);
	CU_ASSERT_EQUAL(connect_port(h.port), -1);
}

/* ---- configuration ---- */

static void a_taken_port_is_tried_again(void)
{
	const json_t *result;
	struct t_http h, taken;
	char text[256];
	json_t *answer;

	t_http_open(&taken);
	t_http_open(&h);
	snprintf(text, sizeof(text),
		 "http: {address: 127.0.0.1, port: %u}\n"
		 "subsystems: [{nqn: \"nqn.2026-11.io.rdnvme:new\", allow_any_host: true}]\n",
		 taken.port);
	t_rpc_write_config(&h.rpc, text);
	result = t_rpc_result(&h.rpc, "config.reload", "{}", &answer);
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(result, "problems")), 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(h.rpc.answer, "choose another port"));
	json_decref(answer);
	CU_ASSERT_EQUAL(connect_port(h.port), -1); /* it is not wanted there any more */
	json_decref(t_rpc_call(&h.rpc, "status", "{}"));
	CU_ASSERT_PTR_NOT_NULL(strstr(h.rpc.answer, "\"http_failed\":\"http: 127.0.0.1 port"));
	t_advance(h.rpc.pair.env, RD_NSEC_PER_SEC);
	CU_ASSERT_PTR_NOT_NULL(h.env->t->http->failed(h.env->t->http));
	t_http_free(&taken);
	t_advance(h.rpc.pair.env, RD_NSEC_PER_SEC);
	h.port = taken.port;
	CU_ASSERT_EQUAL(code_of(ask_http(&h, GET("/"))), 200);
	json_decref(t_rpc_call(&h.rpc, "status", "{}"));
	CU_ASSERT_PTR_NOT_NULL(strstr(h.rpc.answer, "\"http_failed\":null"));
	t_http_free(&h);
}

static const struct t_case http_cases[] = {
	{"answers have a status and headers for browsers", answers_have_a_status_and_headers},
	{"HEAD has the length and no body", head_has_the_length_and_no_body},
	{"what is no request ends its connection only",
	 what_is_no_request_ends_its_connection_only},
	{"clients that say nothing are closed in time", clients_that_say_nothing_are_closed},
	{"many connections push out the oldest", many_connections_push_out_the_oldest},
	{"names of hosts are text in the status document", names_of_hosts_are_text},
	{"a stall is a problem", a_stall_is_a_problem},
	{"a reactor that hangs is named, and stops no answer", a_reactor_that_hangs_is_named},
	{"metrics come in both formats at once", metrics_come_in_both_formats},
	{"a client that waits is let go when the listener closes",
	 a_waiting_client_is_let_go_at_the_end},
	{"a taken port is tried again", a_taken_port_is_tried_again},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	const struct t_suite suites[] = {
		{.name = "http", .cases = http_cases},
		{.name = NULL},
	};

	return t_run(argc, argv, suites);
}
