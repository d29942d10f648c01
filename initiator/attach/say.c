/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said: to people, and to a service manager (sd_notify(3)), which sets NOTIFY_SOCKET. */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include "internal.h"

void rdi_attach_say(const struct rdi_attach *a, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (a->to_syslog) {
		vsyslog(LOG_NOTICE, fmt, ap);
	} else {
		char text[2 * RDI_ATTACH_TEXT];

		vsnprintf(text, sizeof(text), fmt, ap);
		fprintf(stderr, "rdinit: %s\n", text);
	}
	va_end(ap);
}

int rdi_attach_why(char *why, int rc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, RDI_ATTACH_TEXT, fmt, ap);
	va_end(ap);
	return rc;
}

void rdi_attach_notify(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	size_t len = path ? strlen(path) : 0;
	int fd;

	if (len < 2 || len >= sizeof(addr.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(addr.sun_path, path, len);
	if (path[0] == '@')
		addr.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (sendto(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL,
		   (const struct sockaddr *)&addr,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		len = 0; /* nobody listens: there is nobody to tell */
	close(fd);
}
