/* SPDX-License-Identifier: BSD-3-Clause */
#include "held.h"

#include <ctype.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/sockaddr.h"

#define ROW_TEXT         40 /* an IPv6 address, the port and a NUL */
#define SOCKETS_MAX      64u
#define TCP_LISTEN_STATE 0x0a /* in /proc/net/tcp */
#define ANSWER_SECONDS   5

struct listening { /* the listening sockets of an address */
	unsigned int count;
	unsigned long inodes[SOCKETS_MAX];
	unsigned int uids[SOCKETS_MAX];
};

/* Formats an address and port as /proc/net/tcp and tcp6 do: each 32-bit word in hexadecimal, in
 * memory order. NULL: the wildcard. */
static void row_address(int family, const void *address, uint16_t port, char text[ROW_TEXT])
{
	uint32_t words[4] = {0};

	if (address)
		memcpy(words, address, family == AF_INET ? 4 : 16);
	if (family == AF_INET)
		snprintf(text, ROW_TEXT, "%08X:%04X", words[0], port);
	else
		snprintf(text, ROW_TEXT, "%08X%08X%08X%08X:%04X", words[0], words[1], words[2],
			 words[3], port);
}

/* Finds the sockets that conflict with binding @addr. */
static void find_listening(const char *table, const struct sockaddr *addr, struct listening *found)
{
	const void *bytes =
		addr->sa_family == AF_INET
			? (const void *)&((const struct sockaddr_in *)(const void *)addr)->sin_addr
			: &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr;
	char own[ROW_TEXT], any[ROW_TEXT], line[512], text[64];
	uint16_t port = rd_addr_port(addr);
	FILE *f = fopen(table, "re");
	unsigned int state, uid;
	unsigned long inode;

	row_address(addr->sa_family, bytes, port, own);
	row_address(addr->sa_family, NULL, port, any);
	while (f && found->count < SOCKETS_MAX && fgets(line, sizeof(line), f)) {
		if (sscanf(line, " %*u: %63s %*s %x %*s %*s %*s %u %*u %lu", text, &state, &uid,
			   &inode) != 4 ||
		    state != TCP_LISTEN_STATE ||
		    (strcmp(text, own) != 0 && strcmp(text, any) != 0 &&
		     !(strcmp(own, any) == 0 && strchr(text, ':') &&
		       strcmp(strchr(text, ':'), strchr(any, ':')) == 0)))
			continue;
		found->uids[found->count] = uid;
		found->inodes[found->count++] = inode;
	}
	if (f)
		fclose(f);
}

/* Reads /proc/PID/NAME and appends a NUL. Returns the length, at most @size - 1. */
static size_t read_proc(const char *pid, const char *name, char *buf, size_t size)
{
	char path[64];
	size_t len = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%.16s/%s", pid, name);
	f = fopen(path, "re");
	if (f) {
		len = fread(buf, 1, size - 1, f);
		fclose(f);
	}
	buf[len] = '\0';
	return len;
}

static bool names_config(const char *pid, const char *arg, const struct stat *config)
{
	char path[4096];
	struct stat st;

	snprintf(path, sizeof(path), "%s%.16s%s%s", arg[0] == '/' ? "" : "/proc/",
		 arg[0] == '/' ? "" : pid, arg[0] == '/' ? "" : "/cwd/", arg);
	return stat(path, &st) == 0 && st.st_dev == config->st_dev && st.st_ino == config->st_ino;
}

/* Whether the process runs this program with @config on its command line. */
static bool serves(const char *pid, const struct stat *config)
{
	static const char option[] = "--config=";
	char own[64], name[64], line[8192];
	size_t len;

	read_proc("self", "comm", own, sizeof(own));
	if (!read_proc(pid, "comm", name, sizeof(name)) || strcmp(own, name) != 0)
		return false;
	len = read_proc(pid, "cmdline", line, sizeof(line));
	for (const char *arg = line; arg < line + len; arg += strlen(arg) + 1) {
		if (names_config(pid, arg, config) ||
		    (strncmp(arg, "-c", 2) == 0 && arg[2] && names_config(pid, arg + 2, config)) ||
		    (strncmp(arg, option, sizeof(option) - 1) == 0 &&
		     names_config(pid, arg + sizeof(option) - 1, config)))
			return true;
	}
	return false;
}

/* Whether the process has one of the sockets open; if /proc hides that: whether its user owns
 * one. */
static bool has_socket(const char *pid, const struct listening *l)
{
	char path[64], name[64], text[64];
	const struct dirent *e;
	bool found = false;
	struct stat st;
	ssize_t n;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%.16s/fd", pid);
	dir = opendir(path);
	if (!dir) {
		path[strlen(path) - 3] = '\0';
		for (unsigned int i = 0; i < l->count && !found && stat(path, &st) == 0; i++)
			found = l->uids[i] == st.st_uid;
		return found;
	}
	while (!found && (e = readdir(dir))) {
		n = readlinkat(dirfd(dir), e->d_name, text, sizeof(text) - 1);
		text[n > 0 ? n : 0] = '\0';
		for (unsigned int i = 0; i < l->count && !found; i++) {
			snprintf(name, sizeof(name), "socket:[%lu]", l->inodes[i]);
			found = strcmp(name, text) == 0;
		}
	}
	closedir(dir);
	return found;
}

bool rdt_held_by_ours(const struct sockaddr *addr, const char *config)
{
	struct listening l = {0};
	const struct dirent *e;
	bool found = false;
	struct stat st;
	DIR *dir;

	find_listening(addr->sa_family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6", addr, &l);
	if (!l.count || stat(config, &st))
		return false;
	dir = opendir("/proc");
	while (dir && !found && (e = readdir(dir)))
		found = isdigit((unsigned char)e->d_name[0]) && serves(e->d_name, &st) &&
			has_socket(e->d_name, &l);
	if (dir)
		closedir(dir);
	return found;
}

static int daemon_connect(const char *path)
{
	static const struct timeval limit = {.tv_sec = ANSWER_SECONDS};
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) ||
	    connect(fd, (const struct sockaddr *)&addr, sizeof(addr))) {
		close(fd);
		return -1;
	}
	return fd;
}

json_t *rdt_held_namespaces(const char *socket)
{
	static const char request[] =
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"namespace.list\"}\n";
	int fd = daemon_connect(socket);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	json_t *answer = NULL, *list;

	if (!f) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) == sizeof(request) - 1)
		answer = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL);
	fclose(f);
	list = json_incref(json_object_get(json_object_get(answer, "result"), "namespaces"));
	json_decref(answer);
	return list;
}
