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
#include "backend.h"
#include "target/config/config.h"

struct inherited {
	struct inherited *same; /* with the same hash */
	LIST_ENTRY(inherited) link;
	int fd; /* -1: there is @told */
	bool tells, finds;
	struct rdt_bdev_told told;
	struct rdt_bdev_found found;
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
		if (one->fd >= 0)
			close(one->fd);
		free(one);
	}
	rd_map_fini(&in->map);
	free(in);
	*out = NULL;
}

/* NULL: no memory. */
static struct inherited *add_inherited(struct rdt_inherit *in, const char *name)
{
	struct inherited *one = malloc(sizeof(*one) + strlen(name) + 1), *first;
	uint64_t hash = rd_map_hash(name);

	if (!one || rd_map_reserve(&in->map, in->map.count + 1)) {
		free(one);
		return NULL;
	}
	first = rd_map_get(&in->map, hash);
	*one = (struct inherited){.fd = -1};
	strcpy(one->name, name);
	LIST_INSERT_HEAD(&in->list, one, link);
	if (first) {
		one->same = first->same;
		first->same = one;
	} else {
		rd_map_put(&in->map, hash, one); /* cannot fail: memory was reserved */
	}
	return one;
}

int rdt_inherit_add(struct rdt_inherit *in, const char *name, int fd)
{
	struct inherited *one = add_inherited(in, name);

	if (!one) {
		close(fd);
		return -ENOMEM;
	}
	one->fd = fd;
	return 0;
}

static const struct inherited *find_inherited(const struct rdt_inherit *in, const char *name)
{
	const struct inherited *one = in ? rd_map_get(&in->map, rd_map_hash(name)) : NULL;

	while (one && strcmp(one->name, name) != 0)
		one = one->same;
	return one;
}

int rdt_inherit_open(const struct rdt_inherit *in, const char *name)
{
	const struct inherited *one = find_inherited(in, name);
	int fd;

	if (!one || one->fd < 0)
		return -ENOENT;
	fd = fcntl(one->fd, F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? -errno : fd;
}

void rdt_inherit_find(struct rdt_inherit *in, const char *name, const struct rdt_bdev_found *found)
{
	struct inherited *one = rd_map_get(&in->map, rd_map_hash(name));

	while (one && strcmp(one->name, name) != 0)
		one = one->same;
	if (!one)
		return;
	one->finds = true;
	one->found = *found;
}

bool rdt_inherit_found(const struct rdt_inherit *in, const char *name, struct rdt_bdev_found *out)
{
	const struct inherited *one = find_inherited(in, name);

	if (!one || !one->finds)
		return false;
	*out = one->found;
	return true;
}

int rdt_inherit_tell(struct rdt_inherit *in, const char *name, const struct rdt_bdev_told *told)
{
	struct inherited *one = add_inherited(in, name);

	if (!one)
		return -ENOMEM;
	one->tells = true;
	one->told = *told;
	return 0;
}

bool rdt_inherit_told(const struct rdt_inherit *in, const char *name, struct rdt_bdev_told *out)
{
	const struct inherited *one = find_inherited(in, name);

	if (!one || !one->tells)
		return false;
	*out = one->told;
	return true;
}

/* The entry stays, without anything, until all are freed. */
void rdt_inherit_drop(struct rdt_inherit *in, const char *name)
{
	struct inherited *one;

	LIST_FOREACH (one, &in->list, link) {
		if (strcmp(one->name, name) != 0)
			continue;
		if (one->fd >= 0)
			close(one->fd);
		one->fd = -1;
		one->tells = false;
	}
}

void rdt_inherit_told_all(struct rdt_inherit *in)
{
	struct inherited *one;

	LIST_FOREACH (one, &in->list, link)
		one->tells = false;
}

int rdt_inherit_storage(const char *nqn, const struct rdt_ns_config *cfg, char **name)
{
	int len = -1;

	*name = NULL;
	if (cfg->backend == RDT_BACKEND_MEMORY)
		len = asprintf(name, "memory %s %u", nqn, cfg->nsid);
	else if (cfg->backend == RDT_BACKEND_FILE || cfg->backend == RDT_BACKEND_BLOCK)
		len = asprintf(name, "%s %s", cfg->read_only ? "read" : "write", cfg->path);
	else if (cfg->backend == RDT_BACKEND_NBD)
		len = asprintf(name, "nbd %s %u %s", nqn, cfg->nsid, cfg->uri);
	else if (cfg->backend == RDT_BACKEND_RBD)
		len = asprintf(name, "rbd %s %u", nqn, cfg->nsid);
	else
		return -EOPNOTSUPP;
	return len < 0 ? -ENOMEM : 0;
}

int rdt_inherit_listener(const char *transport, const char *address, uint16_t port, char **name)
{
	return asprintf(name, "listener %s %s %u", transport, address, port) < 0 ? -ENOMEM : 0;
}
