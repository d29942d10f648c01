/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether an address belongs to an RDMA device. Programs ask this before they open a provider, also
 * when they then use another one. librdmacm would open the device to answer, and keep it open (see
 * hotplug.c); so the kernel is asked directly.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_cma_abi.h>
#include <string.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "util/sockaddr.h"

/* ---- the kernel's rdma_cm ---- */

/* The length that the field .in of a command contains. */
#define BODY(cmd) (sizeof(cmd) - sizeof(struct ucma_abi_cmd_hdr))

static bool ucma_command(int fd, const void *cmd, size_t len)
{
	return write(fd, cmd, len) == (ssize_t)len;
}

/*
 * Binds an identifier to @local. True: it is bound to a device. Closing @fd destroys the
 * identifier.
 */
static bool ucma_binds(int fd, const struct sockaddr *local)
{
	struct ucma_abi_create_id_resp id = {0};
	struct ucma_abi_query_addr_resp addr = {0};
	struct ucma_abi_create_id create = {
		.cmd = UCMA_CMD_CREATE_ID,
		.in = BODY(create),
		.out = sizeof(id),
		.response = (uintptr_t)&id,
		.ps = RDMA_PS_TCP,
		.qp_type = IBV_QPT_RC,
	};
	struct ucma_abi_bind bind = {
		.cmd = UCMA_CMD_BIND,
		.in = BODY(bind),
		.addr_size = (uint16_t)rd_addr_len(local),
	};
	struct ucma_abi_query query = {
		.cmd = UCMA_CMD_QUERY,
		.in = BODY(query),
		.out = sizeof(addr),
		.response = (uintptr_t)&addr,
		.option = UCMA_QUERY_ADDR,
	};

	if (!ucma_command(fd, &create, sizeof(create)))
		return false;
	bind.id = query.id = id.id;
	memcpy(&bind.addr, local, rd_addr_len(local));
	return ucma_command(fd, &bind, sizeof(bind)) && ucma_command(fd, &query, sizeof(query)) &&
	       addr.node_guid != 0;
}

static bool of_device(const struct sockaddr *local)
{
	/* librdmacm knows the path of the device file, and loads the module. */
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct sockaddr_storage addr;
	bool found;

	if (!ch)
		return false;
	memset(&addr, 0, sizeof(addr));
	memcpy(&addr, local, rd_addr_len(local));
	rd_addr_set_port((struct sockaddr *)&addr, 0);
	found = ucma_binds(ch->fd, (struct sockaddr *)&addr);
	rdma_destroy_event_channel(ch);
	return found;
}

/* ---- addresses ---- */

static bool any_device(void)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (!list)
		return false;
	ibv_free_device_list(list);
	return n > 0;
}

/*
 * Finds the local address for traffic to @addr; @addr itself if it is local. Returns 0 or -errno.
 */
static int local_for(const struct sockaddr *addr, struct sockaddr_storage *local)
{
	int fd = socket(addr->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage dst;
	socklen_t len = sizeof(*local);
	int rc = 0;

	if (fd < 0)
		return -errno;
	memset(&dst, 0, sizeof(dst));
	memcpy(&dst, addr, rd_addr_len(addr));
	if (rd_addr_port((struct sockaddr *)&dst) == 0)
		rd_addr_set_port((struct sockaddr *)&dst, 1); /* connect(2) requires a port */
	/* Sends nothing: on a datagram socket it only looks up the route. */
	if (connect(fd, (struct sockaddr *)&dst, rd_addr_len(addr)) ||
	    getsockname(fd, (struct sockaddr *)local, &len))
		rc = -errno;
	close(fd);
	return rc;
}

static bool any_of_device(sa_family_t family)
{
	struct ifaddrs *list;
	bool found = false;

	if (getifaddrs(&list))
		return false;
	for (const struct ifaddrs *i = list; i && !found; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == family &&
		    !(i->ifa_flags & IFF_LOOPBACK))
			found = of_device(i->ifa_addr);
	freeifaddrs(list);
	return found;
}

bool rd_fab_verbs_has_addr(const struct sockaddr *addr)
{
	struct sockaddr_storage local;

	if (!any_device())
		return false;
	if (rd_addr_is_any(addr))
		return any_of_device(addr->sa_family);
	return local_for(addr, &local) == 0 && of_device((struct sockaddr *)&local);
}
