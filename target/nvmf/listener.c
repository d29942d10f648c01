/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of listening that all transports share. */
#include "listener.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/sockaddr.h"
#include "util/tcp.h"
#include "target.h"

/* Data for a host counts as sent as soon as a socket has taken it. So the first bytes of a
 * connection, up to the size of the socket buffers at both ends, do not prove that the host
 * reads. */
#define SOCKETS (8u << 20)

uint32_t rdt_listener_unproven(const struct rdt_listener *l)
{
	return SOCKETS + 2 * atomic_load(&l->send_buffer_bytes);
}

const char *rdt_listener_congestion(const struct rdt_listener *l)
{
	return l->cfg->congestion ? l->cfg->congestion : l->target->cfg->target.congestion;
}

int rdt_listener_address(const struct rdt_listener *l, const struct sockaddr *addr,
			 struct sockaddr_storage *out, char *text, size_t size)
{
	const struct rdt_listener_config *cfg = l->cfg;
	int err;

	if (addr) {
		memset(out, 0, sizeof(*out));
		memcpy(out, addr, rd_addr_len(addr));
		return 0;
	}
	err = rd_addr_parse(cfg->address, cfg->port, out);
	if (err)
		rdt_listener_cannot(l, err, text, size);
	return err;
}

bool rdt_listener_bad_congestion(const char *congestion, int err, char *text, size_t size)
{
	const char *why = congestion ? rd_tcp_congestion_error(err) : NULL;

	if (why)
		snprintf(text, size, "congestion: %s: %s", congestion, why);
	return why;
}

const char *rdt_listen_advice(int err)
{
	switch (err) {
	case -EADDRINUSE:
		return "; stop the program that uses it (ss -tlnp shows it), or choose another "
		       "port";
	case -EADDRNOTAVAIL:
		return "; no interface of this machine has that address (ip addr)";
	case -ENODEV:
		return "; no interface of this machine has that name (ip link)";
	default:
		return "";
	}
}

void rdt_listener_cannot(const struct rdt_listener *l, int err, char *text, size_t size)
{
	snprintf(text, size, "cannot listen on %s port %u: %s%s", l->cfg->address, l->cfg->port,
		 strerror(-err), rdt_listen_advice(err));
}

void rdt_listener_bound(struct rdt_listener *l, const struct sockaddr_storage *addr)
{
	struct rdt_target *t = l->target;

	pthread_mutex_lock(&t->disc.lock); /* reactors may read it for the discovery log */
	l->addr = *addr;
	l->listening = true;
	pthread_mutex_unlock(&t->disc.lock);
}
