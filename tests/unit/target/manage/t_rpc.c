/* SPDX-License-Identifier: BSD-3-Clause */
/* The control socket of a target with one host. */
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/sockaddr.h"

#include "t_rpc.h"

#define ANSWER_MAX (1u << 20)
#define WAITS_MAX  10000u /* of 5 ms */

const char t_rpc_config[] =
	"target: {queue_depth: 64, io_queues: 4, max_data_size: 64KiB, engine_depth: 16}\n"
	"subsystems:\n"
	"  - nqn: " T_NQN "\n"
	"    serial: SERIAL0\n"
	"    model: model zero\n"
	"    allow_any_host: true\n"
	"    namespaces:\n"
	"      - nsid: 1\n"
	"        backend: memory\n"
	"        block_size: 512\n"
	"        size: 2MiB\n"
	"        uuid: 11111111-1111-1111-1111-111111111111\n"
	"      - nsid: 5\n"
	"        backend: memory\n"
	"        block_size: 512\n"
	"        size: 2MiB\n"
	"        uuid: 10101010-1010-1010-1010-101010101010\n"
	"  - nqn: " T_NQN2 "\n"
	"    serial: SERIAL1\n"
	"    model: model one\n"
	"    hosts: [" T_HOST2 "]\n"
	"    namespaces:\n"
	"      - nsid: 1\n"
	"        backend: memory\n"
	"        block_size: 512\n"
	"        size: 2MiB\n"
	"        uuid: 12121212-1212-1212-1212-121212121212\n";

/* Any thread may log. */
static void keep_line(void *arg, enum rd_log_level level, const char *line)
{
	struct t_rpc *r = arg;
	size_t len = strlen(line);

	pthread_mutex_lock(&r->lock);
	if (r->lines_len + len + 2 < sizeof(r->lines)) {
		memcpy(r->lines + r->lines_len, line, len);
		r->lines[r->lines_len + len] = '\n';
		r->lines_len += len + 1;
	}
	pthread_mutex_unlock(&r->lock);
}

bool t_rpc_logged(struct t_rpc *r, const char *text, char *rest, size_t size)
{
	const char *found;

	pthread_mutex_lock(&r->lock);
	found = strstr(r->lines, text);
	if (found && rest)
		snprintf(rest, size, "%s", found + strlen(text));
	pthread_mutex_unlock(&r->lock);
	if (found && rest)
		rest[strcspn(rest, "\n")] = '\0';
	return found != NULL;
}

static void reading_begins(struct rdt_reloader *reloader)
{
	rd_container_of(reloader, struct t_rpc, reloader)->reads++;
}

static void reload_ended(struct rdt_reloader *reloader, const struct rdt_change *change)
{
	rd_container_of(reloader, struct t_rpc, reloader)->reloads++;
}

static void count_shutdown(struct rdt_rpc_env *env)
{
	rd_container_of(env, struct t_rpc, env)->shutdowns++;
}

int t_rpc_connect(const struct t_rpc *r)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(addr.sun_path, r->socket, sizeof(r->socket));
	CU_ASSERT_EQUAL_FATAL(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

void t_rpc_open(struct t_rpc *r)
{
	struct rdt_target *t;

	memset(r, 0, sizeof(*r));
	pthread_mutex_init(&r->lock, NULL);
	r->pair = t_pair_new();
	t = r->pair.env->t;
	CU_ASSERT_EQUAL_FATAL(rd_log_create("test", -1, RD_LOG_INFO, keep_line, r, &r->log), 0);
	t->log = r->log;
	strcpy(r->dir, "/tmp/t_rpc.XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(r->dir));
	snprintf(r->socket, sizeof(r->socket), "%s/control", r->dir);
	r->cfg.socket = r->socket;
	r->reloader.target = t;
	snprintf(r->path, sizeof(r->path), "%s/rdtarget.yaml", r->dir);
	r->reloader.path = r->path;
	r->reloader.begins = reading_begins;
	r->reloader.ended = reload_ended;
	rdt_reloader_init(&r->reloader);
	CU_ASSERT_EQUAL_FATAL(rdt_sampler_new(t, &r->reloader, &r->sampler), 0);
	r->env = (struct rdt_rpc_env){.target = t,
				      .reloader = &r->reloader,
				      .sampler = r->sampler,
				      .config_path = r->reloader.path,
				      .cfg = &r->cfg,
				      .shutdown = count_shutdown};
	CU_ASSERT_EQUAL_FATAL(rdt_rpc_open(&r->env, &r->rpc), 0);
	r->answer = malloc(ANSWER_MAX);
	CU_ASSERT_PTR_NOT_NULL_FATAL(r->answer);
	r->fd = t_rpc_connect(r);
}

void t_rpc_free(struct t_rpc *r)
{
	static const char *const names[] = {"control.lock", "rdtarget.yaml", "rdtarget.yaml~"};
	char path[64];

	close(r->fd);
	rdt_sampler_close(r->sampler);
	rdt_rpc_close(r->rpc);
	rdt_reloader_stop(&r->reloader);
	t_pair_free(&r->pair);
	rdt_rpc_free(&r->rpc);
	rdt_sampler_free(&r->sampler);
	rd_log_destroy(&r->log);
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", r->dir, names[i]);
		unlink(path);
	}
	CU_ASSERT_EQUAL(rmdir(r->dir), 0);
	free(r->answer);
	pthread_mutex_destroy(&r->lock);
}

void t_rpc_write_config(struct t_rpc *r, const char *text)
{
	FILE *f = fopen(r->path, "w");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_TRUE(fputs(text, f) >= 0);
	CU_ASSERT_EQUAL(fclose(f), 0);
}

const char *t_rpc_line(struct t_rpc *r)
{
	struct pollfd fd = {.fd = r->fd, .events = POLLIN};
	struct timespec wait = {0};
	char *end = NULL;
	ssize_t n;

	r->len = 0;
	for (unsigned int waits = 0; !end; waits++) {
		CU_ASSERT_FATAL(waits < WAITS_MAX && r->len < ANSWER_MAX - 1);
		t_turn(r->pair.env);
		/* A helper thread does most calls in less than a tenth of a millisecond. */
		wait.tv_nsec = waits < 7 ? 40000L << waits : 5000000;
		if (ppoll(&fd, 1, &wait, NULL) != 1)
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

void t_rpc_send(const struct t_rpc *r, const char *line)
{
	CU_ASSERT_EQUAL_FATAL(send(r->fd, line, strlen(line), MSG_NOSIGNAL), (ssize_t)strlen(line));
	CU_ASSERT_EQUAL_FATAL(send(r->fd, "\n", 1, MSG_NOSIGNAL), 1);
}

json_t *t_rpc_call(struct t_rpc *r, const char *method, const char *params)
{
	const char *text;
	json_t *answer;
	char *line;

	CU_ASSERT_TRUE_FATAL(
		asprintf(&line, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"%s\",\"params\":%s}",
			 method, params) > 0);
	t_rpc_send(r, line);
	free(line);
	text = t_rpc_line(r);
	CU_ASSERT_PTR_NOT_NULL_FATAL(text);
	answer = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(answer);
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(answer, "id")), 7);
	return answer;
}

const json_t *t_rpc_result(struct t_rpc *r, const char *method, const char *params, json_t **answer)
{
	*answer = t_rpc_call(r, method, params);
	CU_ASSERT_PTR_NOT_NULL_FATAL(json_object_get(*answer, "result"));
	return json_object_get(*answer, "result");
}

size_t t_rpc_list_size(struct t_rpc *r, const char *method, const char *list)
{
	json_t *answer;
	const json_t *result = t_rpc_result(r, method, "{}", &answer);
	size_t size = json_array_size(json_object_get(result, list));

	json_decref(answer);
	return size;
}

void t_rpc_expect_error(const json_t *answer, const char *name)
{
	const json_t *error = json_object_get(answer, "error");
	const char *found =
		json_string_value(json_object_get(json_object_get(error, "data"), "name"));

	CU_ASSERT_STRING_EQUAL(found ? found : "none", name);
	CU_ASSERT_TRUE(!error || strlen(json_string_value(json_object_get(error, "message"))) > 0);
}

uint16_t t_rpc_rw(struct t_conn *c, bool write, uint32_t nsid, uint64_t lba)
{
	static uint8_t buf[512];
	struct nvme_sqe sqe;
	struct t_answer a;

	t_rw_sqe(c, &sqe, write, lba, 1, buf);
	sqe.nsid = htole32(nsid);
	a = t_exec(c, &sqe);
	return t_status(&a);
}

void t_rpc_open_file(struct t_rpc *r)
{
	const json_t *result;
	json_t *answer;

	t_rpc_open(r);
	t_rpc_write_config(r, t_rpc_config);
	result = t_rpc_result(r, "config.reload", "{}", &answer);
	CU_ASSERT_TRUE(json_is_true(json_object_get(result, "applied")));
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(result, "problems")), 0);
	json_decref(answer);
	CU_ASSERT_EQUAL(r->reads, 1);
	CU_ASSERT_EQUAL(r->reloads, 1);
	CU_ASSERT_FALSE(r->pair.env->disk[0].closed); /* no namespace was replaced */
}

int t_rpc_taken_port(uint16_t *port)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	rd_addr_parse("127.0.0.1", 0, &addr);
	CU_ASSERT_EQUAL_FATAL(bind(fd, (struct sockaddr *)&addr, sizeof(struct sockaddr_in)), 0);
	CU_ASSERT_EQUAL_FATAL(listen(fd, 1), 0);
	CU_ASSERT_EQUAL_FATAL(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	*port = rd_addr_port((struct sockaddr *)&addr);
	return fd;
}

int t_rpc_reach(const struct sockaddr_storage *addr)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int rc = connect(fd, (const struct sockaddr *)addr, sizeof(struct sockaddr_in));

	close(fd);
	return rc;
}
