/* SPDX-License-Identifier: BSD-3-Clause */
#include "inherit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "util/map.h"
#include "target/config/config.h"

struct inherited {
	struct inherited *same; /* with the same hash */
	LIST_ENTRY(inherited) link;
	int fd;
	char name[];
};

struct rdt_inherit {
	struct rd_map map; /* by the hash of the name */
	LIST_HEAD(, inherited) list;
};

int rdt_inherit_new(struct rdt_inherit **out)
{
	struct rdt_inherit *in = calloc(1, sizeof(*in));

	*out = NULL;
	if (!in || rd_map_init(&in->map)) {
		free(in);
		return -ENOMEM;
	}
	LIST_INIT(&in->list);
	*out = in;
	return 0;
}

void rdt_inherit_free(struct rdt_inherit **out)
{
	struct rdt_inherit *in = *out;
	struct inherited *one;

	if (!in)
		return;
	while ((one = LIST_FIRST(&in->list))) {
		LIST_REMOVE(one, link);
		close(one->fd);
		free(one);
	}
	rd_map_fini(&in->map);
	free(in);
	*out = NULL;
}

int rdt_inherit_add(struct rdt_inherit *in, const char *name, int fd)
{
	struct inherited *one = malloc(sizeof(*one) + strlen(name) + 1), *first;
	uint64_t hash = rd_map_hash(name);

	if (!one || rd_map_reserve(&in->map, in->map.count + 1)) {
		free(one);
		close(fd);
		return -ENOMEM;
	}
	first = rd_map_get(&in->map, hash);
	*one = (struct inherited){.fd = fd};
	strcpy(one->name, name);
	LIST_INSERT_HEAD(&in->list, one, link);
	if (first) {
		one->same = first->same;
		first->same = one;
	} else {
		rd_map_put(&in->map, hash, one); /* cannot fail: memory was reserved */
	}
	return 0;
}

int rdt_inherit_open(const struct rdt_inherit *in, const char *name)
{
	const struct inherited *one = in ? rd_map_get(&in->map, rd_map_hash(name)) : NULL;
	int fd;

	while (one && strcmp(one->name, name) != 0)
		one = one->same;
	if (!one)
		return -ENOENT;
	fd = fcntl(one->fd, F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? -errno : fd;
}

int rdt_inherit_storage(const char *nqn, const struct rdt_ns_config *cfg, char **name)
{
	int len = -1;

	*name = NULL;
	if (cfg->backend == RDT_BACKEND_MEMORY)
		len = asprintf(name, "memory %s %u", nqn, cfg->nsid);
	else if (cfg->backend == RDT_BACKEND_FILE || cfg->backend == RDT_BACKEND_BLOCK)
		len = asprintf(name, "%s %s", cfg->read_only ? "read" : "write", cfg->path);
	else
		return -EOPNOTSUPP;
	return len < 0 ? -ENOMEM : 0;
}

int rdt_inherit_listener(const char *transport, const char *address, uint16_t port, char **name)
{
	return asprintf(name, "listener %s %s %u", transport, address, port) < 0 ? -ENOMEM : 0;
}
