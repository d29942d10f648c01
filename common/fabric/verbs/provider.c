/* SPDX-License-Identifier: BSD-3-Clause */
/* The provider as the layers above see it: opening, closing, and the table of operations. */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <unistd.h>

#include "util/sockaddr.h"

#include "internal.h"

struct rd_vb_fab *rd_vb_fab(struct rd_fab *fab)
{
	return rd_container_of(fab, struct rd_vb_fab, base);
}

int rd_vb_err(int rc)
{
	if (rc == 0)
		return 0;
	if (rc > 0)
		return -rc;
	return rc == -1 ? rd_vb_errno() : rc;
}

int rd_vb_errno(void)
{
	return errno ? -errno : -EIO;
}

static void vb_close(struct rd_fab *base)
{
	struct rd_vb_fab *fab = rd_vb_fab(base);
	struct rd_vb_dev *dev;

	if (fab->stats.conns || fab->stats.listeners || fab->stats.mrs)
		rd_err(base->log, RD_LOG_FABRIC,
		       "verbs closed with %u connections, %u listeners, %u memory regions in use",
		       fab->stats.conns, fab->stats.listeners, fab->stats.mrs);
	while ((dev = LIST_FIRST(&fab->devs)))
		rd_vb_dev_free(dev);
	rd_timer_stop(base->loop, &fab->rescan);
	rd_vb_cm_stop(fab);
	free(fab);
}

const struct rd_fab_ops rd_vb_ops = {
	.name = "verbs",
	.close = vb_close,
	.listen = rd_vb_listen,
	.unlisten = rd_vb_unlisten,
	.req_adopt = rd_vb_req_adopt,
	.req_reject = rd_vb_req_reject,
	.resolve = rd_vb_resolve,
	.qp_create = rd_vb_qp_create,
	.connect = rd_vb_connect,
	.accept = rd_vb_accept,
	.reject = rd_vb_reject,
	.disconnect = rd_vb_disconnect,
	.conn_destroy = rd_vb_conn_destroy,
	.reg_mr = rd_vb_reg_mr,
	.dereg_mr = rd_vb_dereg_mr,
	.cq_create = rd_vb_cq_create,
	.cq_destroy = rd_vb_cq_destroy,
	.cq_poll = rd_vb_cq_poll,
	.cq_arm = rd_vb_cq_arm,
	.cq_fd = rd_vb_cq_fd,
	.srq_create = rd_vb_srq_create,
	.srq_destroy = rd_vb_srq_destroy,
	.post_send = rd_vb_post_send,
	.post_recv = rd_vb_post_recv,
	.post_srq_recv = rd_vb_post_srq_recv,
};

int rd_fab_verbs_open(struct rd_loop *loop, const struct rd_fab_verbs_opts *opts,
		      struct rd_fab **out)
{
	struct rd_vb_fab *fab = calloc(1, sizeof(*fab));
	int rc;

	if (!fab)
		return -ENOMEM;
	fab->base.ops = &rd_vb_ops;
	fab->base.loop = loop;
	fab->base.log = rd_loop_log(loop);
	if (opts)
		fab->opts = *opts;
	fab->rescan.fn = rd_vb_rescan;
	LIST_INIT(&fab->devs);
	LIST_INIT(&fab->conns);
	rc = rd_vb_chan_create(&fab->chan);
	if (rc) {
		rd_err(fab->base.log, RD_LOG_FABRIC,
		       rc == -ENODEV ? "no RDMA device, or no rdma_ucm module: the verbs provider "
				       "cannot be used on this machine"
				     : "cannot open the RDMA connection manager: %s",
		       strerror(-rc));
		goto err_free;
	}
	rc = rd_vb_cm_start(fab);
	if (rc)
		goto err_chan;
	*out = &fab->base;
	return 0;

err_chan:
	rd_vb_chan_put(fab->chan);
err_free:
	free(fab);
	return rc;
}

/* ---- whose address is it? ---- */

static bool any_device(void)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (!list)
		return false;
	ibv_free_device_list(list);
	return n > 0;
}

/* The local address that traffic to @addr would have: itself, when it is one of ours. */
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
		rd_addr_set_port((struct sockaddr *)&dst, 1); /* connect(2) wants one */
	/* Sends nothing: it only looks up the route. */
	if (connect(fd, (struct sockaddr *)&dst, rd_addr_len(addr)) ||
	    getsockname(fd, (struct sockaddr *)local, &len))
		rc = -errno;
	close(fd);
	return rc;
}

static bool of_device(const struct sockaddr *local)
{
	struct sockaddr_storage addr;
	struct rdma_cm_id *id;
	bool found;

	memset(&addr, 0, sizeof(addr));
	memcpy(&addr, local, rd_addr_len(local));
	rd_addr_set_port((struct sockaddr *)&addr, 0);
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		return false;
	found = rdma_bind_addr(id, (struct sockaddr *)&addr) == 0 && id->verbs;
	rdma_destroy_id(id);
	return found;
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
