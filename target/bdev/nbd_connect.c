/* SPDX-License-Identifier: BSD-3-Clause */
#include "nbd_connect.h"

#include <errno.h>
#include <libnbd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "module_part.h"
#include "util/map.h"

#define LOOK_MS   200         /* while it connects: does the namespace end? */
#define BLOCK_MAX 4096        /* of a namespace */
#define PIECE_MAX (32u << 20) /* what every server takes */

/*
 * While a request waits and nothing is sent, only probes find out that the server's machine has
 * gone, or began anew. What was sent and not acknowledged is retransmitted without another limit:
 * TCP_USER_TIMEOUT would also leave a server that is stopped and may still execute what it has
 * received. Not for a Unix socket.
 */
static void probe_machine(int fd)
{
	static const int options[][2] = {{TCP_KEEPIDLE, 30}, {TCP_KEEPINTVL, 15}, {TCP_KEEPCNT, 2}};
	const int on = 1;

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (setsockopt(fd, IPPROTO_TCP, options[i][0], &options[i][1], sizeof(int)))
			return;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

/* libnbd's words for its last error, without the name of its function. */
const char *rdt_nbd_words(const char *otherwise)
{
	const char *text = nbd_get_error(), *colon = text ? strstr(text, ": ") : NULL;

	if (!text)
		return otherwise;
	return colon && strncmp(text, "nbd_", 4) == 0 ? colon + 2 : text;
}

int rdt_nbd_connect(const char *uri, uint64_t timeout_ns, const atomic_bool *ends,
		    struct nbd_handle **out, char *err, size_t err_size)
{
	uint64_t end = rdt_module_now() + timeout_ns;
	struct nbd_handle *nbd = nbd_create();
	int rc =
		nbd ? nbd_set_uri_allow_local_file(nbd, true) : -1; /* of TLS: keys, certificates */

	*out = NULL;
	if (rc >= 0)
		rc = nbd_aio_connect_uri(nbd, uri);
	while (rc >= 0 && !nbd_aio_is_ready(nbd)) {
		uint64_t now = rdt_module_now();

		if (nbd_aio_is_dead(nbd) || nbd_aio_is_closed(nbd)) {
			rc = -1;
		} else if (now >= end || (ends && atomic_load(ends))) {
			snprintf(err, err_size, "the server does not answer");
			nbd_close(nbd);
			return -ETIMEDOUT;
		} else {
			rc = nbd_poll(nbd, LOOK_MS);
		}
	}
	if (rc < 0) {
		rc = nbd_get_errno() ? -nbd_get_errno() : -ECONNREFUSED;
		snprintf(err, err_size, "%s", rdt_nbd_words(strerror(-rc)));
		nbd_close(nbd);
		return rc;
	}
	probe_machine(nbd_aio_get_fd(nbd));
	*out = nbd;
	return 0;
}

int rdt_nbd_check(struct nbd_handle *nbd, const struct rdt_bdev *bdev, char *err, size_t err_size)
{
	int64_t size = nbd_get_size(nbd), least = nbd_get_block_size(nbd, LIBNBD_SIZE_MINIMUM);
	int64_t most = nbd_get_block_size(nbd, LIBNBD_SIZE_MAXIMUM);

	if (size < 0)
		snprintf(err, err_size,
			 "the export has 2^63 bytes or more; have the server export less");
	else if (size < (int64_t)bdev->block_size)
		snprintf(err, err_size,
			 "the export has %lld bytes, expected at least one block (%u)",
			 (long long)size, bdev->block_size);
	else if (least > (int64_t)bdev->block_size)
		snprintf(err, err_size,
			 "the export has blocks of %lld bytes, and block_size is %u; %s",
			 (long long)least, bdev->block_size,
			 least <= BLOCK_MAX ? "set block_size to 4096"
					    : "expected at most 4096: have the server take smaller "
					      "requests, as nbdkit does with its filter blocksize");
	else if (most > 0 && most < (int64_t)bdev->block_size)
		snprintf(err, err_size,
			 "the server takes requests of at most %lld bytes, and block_size is %u; "
			 "have it take more%s",
			 (long long)most, bdev->block_size,
			 most >= 512 ? ", or set block_size to 512" : "");
	else if (!bdev->read_only && nbd_is_read_only(nbd) == 1)
		snprintf(err, err_size,
			 "the export is read-only; add \"read_only: true\" to the namespace");
	else
		return 0;
	return -EINVAL;
}

uint32_t rdt_nbd_most(struct nbd_handle *nbd, uint32_t block_size)
{
	int64_t most = nbd_get_block_size(nbd, LIBNBD_SIZE_MAXIMUM);

	return most > 0 && most < PIECE_MAX ? (uint32_t)most / block_size * block_size : PIECE_MAX;
}

/* A URI names an export of a server: SCHEME://SERVER/EXPORT?OPTIONS, and the options may have a
 * socket in place of the server. */
uint64_t rdt_nbd_server(const char *uri)
{
	const char *server = strstr(uri, "://"), *options = strchr(uri, '?');
	size_t len = server ? strcspn(server + 3, "/?") : 0;
	char text[512];

	if (!server)
		return rd_map_hash(uri);
	snprintf(text, sizeof(text), "%.*s%s", (int)len, server + 3, options ? options : "");
	return rd_map_hash(text);
}
