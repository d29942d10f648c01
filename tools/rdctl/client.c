/* SPDX-License-Identifier: BSD-3-Clause */
/* One call on the control socket: sends a line, receives a line. */
#include "rdctl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/utf8.h"

#define READ_AT_ONCE 65536u

static const char *connect_hint(int err)
{
	switch (err) {
	case ENOENT:
	case ECONNREFUSED:
		return "; rdtarget is not running, its configuration has no \"control: socket:\", "
		       "or it names another path (--socket)";
	case EACCES:
		return "; run rdctl as root, or as a member of the group of the socket";
	default:
		return "";
	}
}

static int connect_to(const struct rdctl *ctl)
{
	const struct timeval limit = {.tv_sec = ctl->wait_seconds};
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd;

	if (strlen(ctl->socket) >= sizeof(addr.sun_path)) {
		fprintf(stderr, "rdctl: --socket: %s: has more than %zu bytes\n", ctl->socket,
			sizeof(addr.sun_path) - 1);
		return -1;
	}
	strcpy(addr.sun_path, ctl->socket);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	}
	if (fd < 0 || connect(fd, (const struct sockaddr *)&addr, sizeof(addr))) {
		fprintf(stderr, "rdctl: %s: %s%s\n", ctl->socket, strerror(errno),
			connect_hint(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	return fd;
}

static bool send_request(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		data += n;
		len -= (size_t)n;
	}
	return true;
}

/* Received data that has not been used. */
struct input {
	int fd;
	char *data;
	size_t len;
	size_t room;
	size_t taken; /* length of the line that was returned last */
};

static bool receive_more(struct input *in)
{
	ssize_t n;

	if (in->len == in->room) {
		char *more = realloc(in->data, in->room + READ_AT_ONCE);

		if (!more)
			return false;
		in->data = more;
		in->room += READ_AT_ONCE;
	}
	do
		n = recv(in->fd, in->data + in->len, in->room - in->len, 0);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		in->len += (size_t)n;
	else if (n == 0)
		errno = 0;
	return n > 0;
}

/* The next line, valid until the next call. NULL with errno; errno 0: the connection was closed. */
static const char *receive_line(struct input *in)
{
	size_t looked = 0;
	char *end = NULL;

	in->len -= in->taken;
	if (in->taken)
		memmove(in->data, in->data + in->taken, in->len);
	in->taken = 0;
	for (;;) {
		if (in->len > looked)
			end = memchr(in->data + looked, '\n', in->len - looked);
		if (end)
			break;
		looked = in->len;
		if (!receive_more(in))
			return NULL;
	}
	*end = '\0';
	in->taken = (size_t)(end - in->data) + 1;
	return in->data;
}

/* Prints a hint of the daemon, which names methods: most have a verb. */
static void print_hint(const char *hint)
{
	static const char *const verbs[][2] = {
		{"the method \"subsystem.list\"", "rdctl subsystems"},
		{"the method \"subsystem.set_hosts\"", "rdctl subsystem hosts"},
		{"the method \"namespace.list\"", "rdctl ns"},
		{"the method \"listener.list\"", "rdctl listeners"},
		{"the method \"controller.list\"", "rdctl connections"},
		{"the method \"config.check\"", "rdctl check"},
		{"the method \"info\"", "rdctl raw info"},
	};
	const char *verb = "";

	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		size_t len = strlen(verbs[i][0]);

		if (strncmp(hint, verbs[i][0], len) != 0)
			continue;
		verb = verbs[i][1];
		hint += len;
		break;
	}
	fprintf(stderr, "  hint: %s%s\n", verb, hint);
}

/* Prints an error of the daemon for people; for programs, it is the answer. Strings that hosts
 * chose have their control characters replaced. */
static void print_error(const struct rdctl *ctl, json_t *error)
{
	const char *parts[] = {
		json_string_value(json_object_get(error, "message")),
		json_string_value(json_object_get(json_object_get(error, "data"), "hint"))};

	for (int i = 0; i < 2; i++) {
		char text[1200];

		if (!parts[i])
			continue;
		snprintf(text, sizeof(text), "%s", parts[i]);
		rd_mask_control(text, strlen(text));
		if (i)
			print_hint(text);
		else
			fprintf(stderr, "rdctl: %s\n", text);
	}
	if (ctl->json) {
		json_t *answer = json_pack("{s:O}", "error", error);

		rdctl_json(answer);
		json_decref(answer);
	}
}

static json_t *parse_answer(const struct rdctl *ctl, const char *line, int *code)
{
	json_t *answer = json_loads(line, 0, NULL);
	json_t *result = json_object_get(answer, "result");
	json_t *error = json_object_get(answer, "error");

	if (result) {
		json_incref(result);
		*code = RDCTL_OK;
	} else if (error) {
		print_error(ctl, error);
		*code = RDCTL_REFUSED;
	} else {
		fprintf(stderr, "rdctl: this is not an answer of rdtarget: %.100s\n", line);
		*code = RDCTL_NO_DAEMON;
	}
	json_decref(answer);
	return result;
}

/* Connects and sends. Returns false after printing the error. */
static bool begin_call(const struct rdctl *ctl, const char *method, json_t *params,
		       struct input *in)
{
	json_t *request = json_pack("{s:s, s:i, s:s, s:o}", "jsonrpc", "2.0", "id", 1, "method",
				    method, "params", params ? params : json_object());
	char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
	size_t len;

	json_decref(request);
	*in = (struct input){.fd = -1};
	if (!text) {
		fprintf(stderr, "rdctl: out of memory\n");
		return false;
	}
	in->fd = connect_to(ctl);
	len = strlen(text);
	text[len] = '\n'; /* replaces the NUL, so that one send has the whole line */
	/* A daemon with too many clients sends an error and closes without reading. */
	if (in->fd >= 0 && !send_request(in->fd, text, len + 1) && errno != EPIPE &&
	    errno != ECONNRESET) {
		fprintf(stderr, "rdctl: %s: %s\n", ctl->socket, strerror(errno));
		close(in->fd);
		in->fd = -1;
	}
	free(text);
	return in->fd >= 0;
}

static void end_call(struct input *in)
{
	close(in->fd);
	free(in->data);
}

static void say_no_line(const struct rdctl *ctl)
{
	if (errno == EAGAIN)
		fprintf(stderr, "rdctl: %s: no answer within %u s (--wait)\n", ctl->socket,
			ctl->wait_seconds);
	else
		fprintf(stderr, "rdctl: %s: %s\n", ctl->socket,
			errno ? strerror(errno) : "rdtarget closed the connection");
}

json_t *rdctl_call(const struct rdctl *ctl, const char *method, json_t *params, int *code)
{
	json_t *result = NULL;
	const char *line;
	struct input in;

	*code = RDCTL_NO_DAEMON;
	if (!begin_call(ctl, method, params, &in))
		return NULL;
	line = receive_line(&in);
	if (line)
		result = parse_answer(ctl, line, code);
	else
		say_no_line(ctl);
	end_call(&in);
	return result;
}

int rdctl_watch(const struct rdctl *ctl, const char *method, json_t *params,
		bool (*event)(const struct rdctl *ctl, const json_t *notification))
{
	const struct timeval for_ever = {0};
	int code = RDCTL_NO_DAEMON;
	bool more = true;
	const char *line;
	struct input in;
	json_t *answer;

	if (!begin_call(ctl, method, params, &in))
		return code;
	line = receive_line(&in);
	answer = line ? parse_answer(ctl, line, &code) : NULL;
	if (!line)
		say_no_line(ctl);
	setsockopt(in.fd, SOL_SOCKET, SO_RCVTIMEO, &for_ever, sizeof(for_ever));
	while (answer && more && (line = receive_line(&in))) {
		json_t *notification = json_loads(line, 0, NULL);

		more = event(ctl, notification);
		json_decref(notification);
	}
	if (answer && more)
		say_no_line(ctl);
	if (answer)
		code = more ? RDCTL_NO_DAEMON : RDCTL_OK;
	json_decref(answer);
	end_call(&in);
	return code;
}
