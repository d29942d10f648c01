/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests to the control socket of a target whose configuration does not change. */
#include <errno.h>
#include <grp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "t_rpc.h"
#include "target/manage/rpc/rpc_priv.h"

static void what_is_served_is_listed(void)
{
	const json_t *result;
	struct t_rpc r T_ENDS(t_rpc_free);
	json_t *answer;

	t_rpc_open(&r);
	result = t_rpc_result(&r, "info", "{}", &answer);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(result, "config")),
			       r.reloader.path);
	json_decref(answer);
	result = t_rpc_result(&r, "status", "{}", &answer);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(result, "state")), "serving");
	json_decref(answer);
	CU_ASSERT_EQUAL(t_rpc_list_size(&r, "subsystem.list", "subsystems"), 2);
	CU_ASSERT_EQUAL(t_rpc_list_size(&r, "namespace.list", "namespaces"), 3);
	CU_ASSERT_EQUAL(t_rpc_list_size(&r, "listener.list", "listeners"), 0);
	CU_ASSERT_EQUAL(t_rpc_list_size(&r, "host.list", "hosts"), 1);
	CU_ASSERT_EQUAL(t_rpc_list_size(&r, "controller.list", "controllers"), 1);
}

/* Each method that changes nothing answers, whatever it needs. */
static void every_reading_method_answers(void)
{
	const json_t *methods, *method;
	json_t *info, *answer;
	struct t_rpc r T_ENDS(t_rpc_free);
	size_t i;

	t_rpc_open(&r);
	methods = json_object_get(t_rpc_result(&r, "info", "{}", &info), "methods");
	CU_ASSERT_TRUE(json_array_size(methods) > 20);
	json_array_foreach(methods, i, method)
	{
		if (json_is_true(json_object_get(method, "changes")))
			continue;
		answer = t_rpc_call(&r, json_string_value(json_object_get(method, "name")), "{}");
		CU_ASSERT_TRUE(json_object_get(answer, "result") ||
			       json_object_get(answer, "error"));
		json_decref(answer);
	}
	json_decref(info);
}

static void counters_are_told(void)
{
	static const char *const params[] = {
		"{}",
		"{\"histograms\":true,\"hosts\":true,\"namespaces\":true}",
		"{\"nqn\":\"" T_NQN "\",\"nsid\":1}",
		"{\"hosts\":true,\"hostnqn\":\"" T_HOST "\",\"offset\":0,\"limit\":1}",
	};
	struct t_rpc r T_ENDS(t_rpc_free);
	json_t *answer;

	t_rpc_open(&r);
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, false, 1, 0), 0);
	for (unsigned int i = 0; i < sizeof(params) / sizeof(params[0]); i++) {
		t_rpc_result(&r, "stats.get", params[i], &answer);
		json_decref(answer);
	}
	t_rpc_result(&r, "metrics.get", "{}", &answer);
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "rdtarget_"));
	json_decref(answer);
	t_rpc_result(&r, "metrics.get", "{\"format\":\"openmetrics\"}", &answer);
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "# EOF"));
	json_decref(answer);
	answer = t_rpc_call(&r, "metrics.get", "{\"format\":\"xml\"}");
	t_rpc_expect_error(answer, "invalid");
	json_decref(answer);
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
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open(&r);
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *text;
		json_t *answer;

		t_rpc_send(&r, "");
		t_rpc_send(&r, rows[i].line);
		text = t_rpc_line(&r);
		CU_ASSERT_PTR_NOT_NULL_FATAL(text);
		answer = json_loads(text, 0, NULL);
		t_rpc_expect_error(answer, rows[i].name);
		json_decref(answer);
	}
}

#define SECRET "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR"
#define KEY    "DHHC-1:02:" SECRET "=="
#define HOST   "\"nqn\":\"" T_NQN2 "\",\"hostnqn\":\"" T_HOST2 "\""

/* @field: the member that has the key; NULL: a parameter has it as its name. */
static const struct {
	const char *method, *params, *field;
} keys_given[] = {
	{"host.auth", "{" HOST ",\"keys\":{\"dhchap_key_file\":\"" KEY ":\"}}", "dhchap_key_file"},
	{"host.auth", "{" HOST ",\"keys\":{\"dhchap_hashes\":[\"" KEY ":\"]}}", "dhchap_hashes"},
	{"host.auth", "{" HOST ",\"keys\":{\"" KEY "\":\"=:\"}}", "keys"},
	{"host.auth", "{" HOST ",\"keys\":{\"a\":[{\"b\":1},{\"x" KEY "\":1}]}}", "a"},
	{"host.auth", "{" HOST ",\"" KEY "\":{}}", NULL},
	{"host.auth", "{" HOST ",\"keys\":\"" KEY "\"}", "keys"},
	{"host.qos", "{" HOST ",\"limits\":{\"" KEY "\":1}}", "limits"},
	{"host.allow", "{\"nqn\":\"" T_NQN2 "\",\"hostnqn\":\"" KEY "\"}", "hostnqn"},
	{"subsystem.set_hosts", "{\"nqn\":\"" T_NQN2 "\",\"hosts\":[\"" KEY "\"]}", "hosts"},
	{"subsystem.add",
	 "{\"subsystem\":{\"nqn\":\"nqn.x:y\",\"host_auth\":[{\"host\":\"nqn.x:z\",\"" KEY
	 "\":1}]}}",
	 "host_auth"},
	{"namespace.list", "{\"" KEY "\":1}", NULL},
	{"namespace.list", "{\"nqn\":\"" KEY "\"}", "nqn"},
};

/* A key in the place of the name of its file may be anywhere in a request. */
static void a_key_in_a_request_is_not_repeated(void)
{
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open_file(&r);
	for (size_t i = 0; i < sizeof(keys_given) / sizeof(keys_given[0]); i++) {
		json_t *answer = t_rpc_call(&r, keys_given[i].method, keys_given[i].params);
		const char *field = json_string_value(json_object_get(
			json_object_get(json_object_get(answer, "error"), "data"), "field"));
		const char *expected = keys_given[i].field;
		bool right = field && expected ? strcmp(field, expected) == 0 : field == expected;

		right &= !strstr(r.answer, SECRET) && strstr(r.answer, "found a key");
		if (!right)
			fprintf(stderr, "%s: %s\n", keys_given[i].params, r.answer);
		CU_ASSERT_TRUE(right);
		t_rpc_expect_error(answer, "invalid");
		json_decref(answer);
	}
	CU_ASSERT_TRUE(t_rpc_logged(&r, "host.auth of pid", NULL, 0));
	CU_ASSERT_FALSE(t_rpc_logged(&r, SECRET, NULL, 0));
}

/* As a name, as a value, and as a name that is there twice. */
static void a_key_in_a_document_is_not_repeated(void)
{
	static const char *const documents[] = {
		KEY ": 1\\n",
		"subsystems: [{nqn: \\\"nqn.x:y\\\", host_auth: [{\\\"" KEY "\\\": 1}]}]\\n",
		"subsystems: [{nqn: \\\"nqn.x:y\\\", serial: [\\\"" KEY "\\\"]}]\\n",
		"target: {queue_depth: \\\"" KEY ":\\\"}\\n",
		"target: {" KEY ": 1, " KEY ": 2}\\n",
	};
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open_file(&r);
	for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
		char params[512];
		json_t *answer;

		snprintf(params, sizeof(params), "{\"document\":\"%s\"}", documents[i]);
		answer = t_rpc_call(&r, "config.apply", params);
		if (strstr(r.answer, SECRET))
			fprintf(stderr, "%s: %s\n", params, r.answer);
		CU_ASSERT_PTR_NULL(strstr(r.answer, SECRET));
		t_rpc_expect_error(answer, "invalid");
		json_decref(answer);
	}
	CU_ASSERT_TRUE(t_rpc_logged(&r, "DHHC-1: unknown key", NULL, 0));
	CU_ASSERT_FALSE(t_rpc_logged(&r, SECRET, NULL, 0));
}

static void a_controller_is_disconnected_and_that_is_an_event(void)
{
	int caller, watcher;
	json_t *answer;
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open(&r);
	t_rpc_result(&r, "events.watch", "{}", &answer);
	json_decref(answer);
	watcher = r.fd;
	r.fd = caller = t_rpc_connect(&r);
	answer = t_rpc_call(&r, "controller.disconnect", "{\"hostnqn\":\"nqn.x:none\"}");
	t_rpc_expect_error(answer, "not_found");
	json_decref(answer);
	t_rpc_result(&r, "controller.disconnect", "{\"hostnqn\":\"" T_HOST "\"}", &answer);
	json_decref(answer);
	CU_ASSERT_EQUAL(t_rpc_list_size(&r, "controller.list", "controllers"), 0);
	r.fd = watcher;
	CU_ASSERT_PTR_NOT_NULL_FATAL(t_rpc_line(&r));
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "\"method\":"));
	close(caller);
}

#define MANY 40u

/* Each look at the clock takes a tenth of a slice, so ten controllers end in a turn. */
static void many_controllers_are_disconnected_in_slices(void)
{
	unsigned int left, most = 0;
	json_t *answer;
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open(&r);
	for (unsigned int i = 0; i < MANY; i++)
		t_connect(t_conn_new(r.pair.env, 0, 0, 8), NVMF_CNTLID_DYNAMIC);
	left = t_ctrls_staying(r.pair.env->t->subsys[0]);
	CU_ASSERT_EQUAL(left, MANY + 1);
	r.pair.env->tick = RDT_WALK_SLICE / 10;
	t_rpc_send(&r, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"controller.disconnect\","
		       "\"params\":{\"hostnqn\":\"" T_HOST "\"}}");
	most = t_ctrls_most_ended(r.pair.env);
	r.pair.env->tick = 0;
	CU_ASSERT_TRUE(most > 1 && most <= 10);
	answer = json_loads(t_rpc_line(&r), 0, NULL);
	CU_ASSERT_EQUAL(json_integer_value(
				json_object_get(json_object_get(answer, "result"), "disconnected")),
			MANY + 1);
	json_decref(answer);
}

/* ---- clients ---- */

static void a_request_without_end_ends_its_client(void)
{
	static char part[64 << 10];
	struct t_rpc r T_ENDS(t_rpc_free);
	ssize_t n = 1;

	t_rpc_open(&r);
	memset(part, ' ', sizeof(part));
	/* 4 MiB are more than a request may have and its buffers hold. */
	for (int i = 0; i < 64 && n; i++) {
		n = send(r.fd, part, sizeof(part), MSG_NOSIGNAL | MSG_DONTWAIT);
		t_turn(r.pair.env);
		if (n < 0 && recv(r.fd, part, 1, MSG_PEEK | MSG_DONTWAIT) == 1)
			break;
	}
	CU_ASSERT_PTR_NOT_NULL_FATAL(t_rpc_line(&r));
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "a request is longer than 1 MiB"));
	CU_ASSERT_PTR_NULL(t_rpc_line(&r));
	close(r.fd);
	r.fd = t_rpc_connect(&r); /* others are served */
	CU_ASSERT_EQUAL(t_rpc_list_size(&r, "host.list", "hosts"), 1);
}

/* Takes the place of the C library's: bytes in which the end of a line was looked for. */
static size_t bytes_searched;

void *memchr(const void *data, int byte, size_t len)
{
	const uint8_t *p = data;

	bytes_searched += byte == '\n' ? len : 0;
	for (size_t i = 0; i < len; i++)
		if (p[i] == (uint8_t)byte)
			return (void *)(p + i);
	return NULL;
}

/* A request that comes in many parts is not searched again from its start for each of them. */
static void a_long_request_in_small_parts(void)
{
	static const char request[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\"}\n";
	struct t_rpc r T_ENDS(t_rpc_free);
	char blanks[64];

	t_rpc_open(&r);
	memset(blanks, ' ', sizeof(blanks));
	bytes_searched = 0;
	for (int i = 0; i < 1024; i++) {
		CU_ASSERT_EQUAL_FATAL(send(r.fd, blanks, sizeof(blanks), MSG_NOSIGNAL),
				      (ssize_t)sizeof(blanks));
		t_turn(r.pair.env);
	}
	CU_ASSERT_EQUAL(send(r.fd, request, strlen(request), MSG_NOSIGNAL),
			(ssize_t)strlen(request));
	CU_ASSERT_PTR_NOT_NULL_FATAL(t_rpc_line(&r));
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "\"state\":\"serving\""));
	CU_ASSERT_TRUE(bytes_searched < 4 * 1024 * sizeof(blanks));
}

/* Takes the place of the C library's: what another user does in a folder of his own at once after a
 * socket was made there. */
static const char *bind_replaced_by;

int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	const struct sockaddr_un *un = (const struct sockaddr_un *)addr;
	int rc = (int)syscall(SYS_bind, fd, addr, len);

	if (rc || addr->sa_family != AF_UNIX || !bind_replaced_by)
		return rc;
	unlink(un->sun_path);
	return symlink(bind_replaced_by, un->sun_path);
}

/* The socket has its mode from the start, whatever the mask of the process is, and no file that
 * takes its place gets its mode or group. */
static void the_socket_is_changed_by_no_path(void)
{
	struct t_rpc r T_ENDS(t_rpc_free);
	struct group *group = getgrgid(getegid());
	struct stat st;
	mode_t mask;

	t_rpc_open(&r);
	CU_ASSERT_PTR_NOT_NULL_FATAL(group);
	r.cfg.group = group->gr_name;
	t_rpc_write_config(&r, "{}\n");
	CU_ASSERT_EQUAL(chmod(r.path, 0600), 0);
	for (int replaced = 1; replaced >= 0; replaced--) {
		rdt_rpc_close(r.rpc);
		rdt_rpc_free(&r.rpc);
		bind_replaced_by = replaced ? r.path : NULL;
		mask = umask(0077);
		CU_ASSERT_EQUAL(rdt_rpc_open(&r.env, &r.rpc), replaced ? -EEXIST : 0);
		CU_ASSERT_EQUAL(umask(mask), 0077);
		CU_ASSERT_EQUAL(stat(r.path, &st), 0);
		CU_ASSERT_EQUAL(st.st_mode & 07777, 0600);
		if (replaced)
			unlink(r.socket);
	}
	bind_replaced_by = NULL;
	CU_ASSERT_EQUAL(stat(r.socket, &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 07777, 0660);
}

/* Takes the place of the C library's. 0: the true one. */
static uid_t peer_uid;

int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	int rc = (int)syscall(SYS_getsockopt, fd, level, name, value, len);

	if (!rc && level == SOL_SOCKET && name == SO_PEERCRED && peer_uid)
		((struct ucred *)value)->uid = peer_uid;
	return rc;
}

/* Clients that ask nothing keep nobody out for ever, and root at no time. */
static void idle_clients_give_way(void)
{
	struct t_rpc r T_ENDS(t_rpc_free);
	int fds[31], first;

	t_rpc_open(&r);
	first = r.fd;
	r.rpc->sock.admin_gid = getegid(); /* so that all may change something */
	t_turn(r.pair.env);
	peer_uid = 12345;
	for (unsigned int i = 0; i < 31; i++)
		fds[i] = t_rpc_connect(&r);
	t_turn(r.pair.env);
	r.fd = t_rpc_connect(&r);
	CU_ASSERT_PTR_NOT_NULL_FATAL(t_rpc_line(&r));
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "\"name\":\"no_resources\""));
	close(r.fd);
	peer_uid = 0;
	r.fd = t_rpc_connect(&r); /* root takes the place of one of them */
	CU_ASSERT_EQUAL(t_rpc_list_size(&r, "host.list", "hosts"), 1);
	peer_uid = 12345;
	t_advance(r.pair.env, 61 * RD_NSEC_PER_SEC);
	close(r.fd);
	t_turn(r.pair.env);
	fds[0] = t_rpc_connect(&r);
	t_turn(r.pair.env);
	r.fd = t_rpc_connect(&r);
	CU_ASSERT_EQUAL(t_rpc_list_size(&r, "host.list", "hosts"), 1);
	peer_uid = 0;
	for (unsigned int i = 0; i < 31; i++)
		close(fds[i]);
	close(first);
}

static void there_is_a_last_client(void)
{
	int fds[31], first;
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open(&r);
	for (unsigned int i = 0; i < 31; i++)
		fds[i] = t_rpc_connect(&r);
	t_turn(r.pair.env);
	first = r.fd;
	r.fd = t_rpc_connect(&r);
	CU_ASSERT_PTR_NOT_NULL_FATAL(t_rpc_line(&r));
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "\"name\":\"no_resources\""));
	CU_ASSERT_PTR_NULL(t_rpc_line(&r));
	close(r.fd);
	close(fds[7]); /* now there is room for one */
	t_turn(r.pair.env);
	r.fd = t_rpc_connect(&r);
	CU_ASSERT_EQUAL(t_rpc_list_size(&r, "host.list", "hosts"), 1);
	for (unsigned int i = 0; i < 31; i++)
		if (i != 7)
			close(fds[i]);
	close(first);
}

/* Its answers are not kept for ever, and no further request is read from it. */
static void a_client_that_does_not_read_is_closed(void)
{
	static const char info[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"info\"}\n";
	struct t_rpc r T_ENDS(t_rpc_free);
	int other;

	t_rpc_open(&r);
	for (int i = 0; i < 1000; i++)
		if (send(r.fd, info, strlen(info), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break;
	t_turn(r.pair.env);
	for (int i = 0; i < 5; i++)
		t_advance(r.pair.env, 5 * RD_NSEC_PER_SEC);
	CU_ASSERT_FALSE(t_rpc_logged(&r, "it does not read its answers", NULL, 0));
	for (int i = 0; i < 2; i++)
		t_advance(r.pair.env, 5 * RD_NSEC_PER_SEC);
	CU_ASSERT_TRUE(t_rpc_logged(&r, "it does not read its answers", NULL, 0));
	other = r.fd;
	r.fd = t_rpc_connect(&r);
	CU_ASSERT_EQUAL(t_rpc_list_size(&r, "host.list", "hosts"), 1);
	close(other);
}

/* A client leaves while reactors are asked for it, and while a thread works for it. */
static void a_client_leaves_before_its_answer(void)
{
	static const char *const methods[] = {"host.list", "config.check", "stats.get",
					      "config.reload", "drain"};
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open(&r);
	for (unsigned int i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		char line[128];
		int fd = r.fd;

		snprintf(line, sizeof(line), "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\"}",
			 methods[i]);
		t_rpc_send(&r, line);
		t_pump(r.pair.env);
		close(fd);
		t_turn(r.pair.env);
		r.fd = t_rpc_connect(&r);
		CU_ASSERT_EQUAL(t_rpc_list_size(&r, "host.list", "hosts"), 1);
	}
}

/* With a level, messages of the log come as well. */
static void messages_of_the_log_are_watched(void)
{
	json_t *answer;
	struct t_rpc r T_ENDS(t_rpc_free);
	int watcher;

	t_rpc_open(&r);
	answer = t_rpc_call(&r, "events.watch", "{\"level\":\"loud\"}");
	t_rpc_expect_error(answer, "invalid");
	json_decref(answer);
	t_rpc_result(&r, "events.watch", "{\"level\":\"notice\"}", &answer);
	json_decref(answer);
	watcher = r.fd;
	r.fd = t_rpc_connect(&r);
	t_turn(r.pair.env);
	rd_info(r.log, RD_LOG_MAIN, "not for the watcher");
	rd_warn(r.log, RD_LOG_CONFIG, "a \"message\" \xff");
	close(r.fd);
	r.fd = watcher;
	CU_ASSERT_PTR_NOT_NULL_FATAL(t_rpc_line(&r));
	answer = json_loads(r.answer, JSON_REJECT_DUPLICATES, NULL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(answer);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(answer, "method")), "log");
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "a \\\"message\\\" "));
	json_decref(answer);
}

static void the_target_is_shut_down_by_a_call(void)
{
	json_t *answer;
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open(&r);
	t_rpc_result(&r, "log.level", "{\"level\":\"debug\"}", &answer);
	json_decref(answer);
	answer = t_rpc_call(&r, "log.level", "{\"level\":\"loud\"}");
	t_rpc_expect_error(answer, "invalid");
	json_decref(answer);
	t_rpc_result(&r, "shutdown", "{}", &answer);
	json_decref(answer);
	t_turn(r.pair.env);
	CU_ASSERT_EQUAL(r.shutdowns, 1);
}

const struct t_case t_rpc_cases[] = {
	{"what is served is listed", what_is_served_is_listed},
	{"every reading method answers", every_reading_method_answers},
	{"counters are told", counters_are_told},
	{"malformed requests are answered", malformed_requests_are_answered},
	{"a key in a request is not repeated", a_key_in_a_request_is_not_repeated},
	{"a key in a document is not repeated", a_key_in_a_document_is_not_repeated},
	{"a controller is disconnected, and that is an event",
	 a_controller_is_disconnected_and_that_is_an_event},
	{"many controllers are disconnected in slices",
	 many_controllers_are_disconnected_in_slices},
	{"a request without end ends its client", a_request_without_end_ends_its_client},
	{"a long request in small parts", a_long_request_in_small_parts},
	{"the socket is changed by no path", the_socket_is_changed_by_no_path},
	{"there is a last client", there_is_a_last_client},
	{"idle clients give way", idle_clients_give_way},
	{"a client that does not read is closed", a_client_that_does_not_read_is_closed},
	{"a client leaves before its answer", a_client_leaves_before_its_answer},
	{"messages of the log are watched", messages_of_the_log_are_watched},
	{"the target is shut down by a call", the_target_is_shut_down_by_a_call},
	{NULL, NULL},
};
