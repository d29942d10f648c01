/* SPDX-License-Identifier: BSD-3-Clause */
/* One call of the control socket: a line out, a line in. */
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
		return "; rdtarget does not run, its configuration has no \"control: socket:\", or "
		       "another path (--socket)";
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

static bool send_all(int fd, const char *data, size_t len)
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

/* Up to the newline. NULL, with errno: 0 when the connection was closed. */
static char *receive_line(int fd)
{
	char *line = NULL;
	size_t len = 0, room = 0;

	for (;;) {
		ssize_t n;

		if (len + 1 >= room) {
			char *more = realloc(line, room + READ_AT_ONCE);

			if (!more)
				break;
			line = more;
			room += READ_AT_ONCE;
		}
		n = recv(fd, line + len, room - len - 1, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n ? errno : 0;
			break;
		}
		len += (size_t)n;
		line[len] = '\0';
		if (line[len - 1] == '\n')
			return line;
	}
	free(line);
	return NULL;
}

/* What the daemon says, with what hosts chose made fit for a terminal. */
static void print_error(const json_t *error)
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
		fprintf(stderr, i ? "  hint: %s\n" : "rdctl: %s\n", text);
	}
}

static json_t *take_answer(const char *line, int *code)
{
	json_t *answer = json_loads(line, 0, NULL);
	json_t *result = json_object_get(answer, "result");
	const json_t *error = json_object_get(answer, "error");

	if (result) {
		json_incref(result);
	} else if (error) {
		print_error(error);
		*code = RDCTL_REFUSED;
	} else {
		fprintf(stderr, "rdctl: the answer is not one of rdtarget's: %.100s\n", line);
		*code = RDCTL_NO_DAEMON;
	}
	json_decref(answer);
	return result;
}

json_t *rdctl_call(const struct rdctl *ctl, const char *method, json_t *params, int *code)
{
	json_t *request = json_pack("{s:s, s:i, s:s, s:o}", "jsonrpc", "2.0", "id", 1, "method",
				    method, "params", params ? params : json_object());
	char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
	json_t *result = NULL;
	char *line = NULL;
	size_t len;
	int fd;

	json_decref(request);
	*code = RDCTL_NO_DAEMON;
	if (!text) {
		fprintf(stderr, "rdctl: out of memory, or not UTF-8: %s\n", method);
		return NULL;
	}
	fd = connect_to(ctl);
	if (fd < 0) {
		free(text);
		return NULL;
	}
	len = strlen(text);
	text[len] = '\n'; /* in the place of the NUL: one line is one send */
	/* A daemon that has no place for us says so and closes, before it has read anything. */
	if (send_all(fd, text, len + 1) || errno == EPIPE || errno == ECONNRESET)
		line = receive_line(fd);
	if (line)
		result = take_answer(line, code);
	else if (errno == EAGAIN)
		fprintf(stderr, "rdctl: %s: no answer within %u s (--wait)\n", ctl->socket,
			ctl->wait_seconds);
	else
		fprintf(stderr, "rdctl: %s: %s\n", ctl->socket,
			errno ? strerror(errno) : "rdtarget closed the connection");
	close(fd);
	free(line);
	free(text);
	return result;
}
