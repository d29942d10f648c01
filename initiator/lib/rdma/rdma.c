/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe/RDMA as a transport: its options, its fabric, its table. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "rdma.h"
#include "util/tcp.h"

/* ---- options ---- */

/* Whether the target is reached through an RDMA device. A host name is resolved only if there
 * may be one. */
static bool on_rdma(const char *traddr, const char *trsvcid)
{
	const struct sockaddr_in any4 = {.sin_family = AF_INET};
	const struct sockaddr_in6 any6 = {.sin6_family = AF_INET6};
	struct rdi_addrs addrs;
	char why[RDI_TEXT];

	if (!rd_fab_verbs_has_addr((const struct sockaddr *)&any4) &&
	    !rd_fab_verbs_has_addr((const struct sockaddr *)&any6))
		return false;
	if (rdi_resolve(traddr, trsvcid, &addrs, why, sizeof(why)))
		return false;
	return rd_fab_verbs_has_addr((const struct sockaddr *)&addrs.ss[0]);
}

static bool choose_verbs(const struct rdi_env *env, const char *provider, const char *traddr,
			 const char *trsvcid)
{
	if (env->fab_open || (provider && strcmp(provider, "iwarp") == 0))
		return false;
	return (provider && strcmp(provider, "verbs") == 0) || on_rdma(traddr, trsvcid);
}

static void cfg_destroy(struct rdi_transport_cfg *base)
{
	struct rdi_rdma_cfg *cfg = rd_container_of(base, struct rdi_rdma_cfg, cfg);

	rd_fab_iwarp_scratch_unref(&cfg->iwarp.scratch);
	free(cfg->congestion);
	free(cfg);
}

static int cfg_create(const struct rdi_env *env, const struct rdinit_ctrl_opts *o,
		      const char *traddr, const char *trsvcid, struct rdi_transport_cfg **out)
{
	struct rdi_rdma_cfg *cfg = calloc(1, sizeof(*cfg));

	if (!cfg)
		return -ENOMEM;
	if (o->congestion) {
		cfg->congestion = strdup(o->congestion);
		if (!cfg->congestion)
			goto err_free;
	}
	cfg->verbs = choose_verbs(env, o->provider, traddr, trsvcid);
	if (!cfg->verbs && rd_fab_iwarp_scratch_create(&cfg->iwarp.scratch))
		goto err_free;
	cfg->no_remote_invalidate = o->no_remote_invalidate;
	cfg->iwarp.crc = o->crc;
	cfg->iwarp.no_peer_to_peer = o->no_peer_to_peer;
	cfg->iwarp.mpa_revision = o->mpa_revision;
	cfg->iwarp.congestion = cfg->congestion;
	cfg->iwarp.sndbuf = o->send_buffer;
	cfg->iwarp.rcvbuf = o->receive_buffer;
	*out = &cfg->cfg;
	return 0;

err_free:
	free(cfg->congestion);
	free(cfg);
	return -ENOMEM;
}

/* ---- a handle ---- */

static int rdma_handle_open(struct rd_loop *loop, const struct rdi_env *env,
			    const struct rdi_transport_cfg *base, void **out, const char **why)
{
	const struct rdi_rdma_cfg *cfg = rd_container_of(base, const struct rdi_rdma_cfg, cfg);
	struct rdi_rdma_handle *h = calloc(1, sizeof(*h));
	int rc;

	if (!h)
		return -ENOMEM;
	h->no_remote_invalidate = cfg->no_remote_invalidate;
	rc = cfg->verbs ? rd_fab_verbs_open(loop, NULL, &h->fab)
			: (env->fab_open ? env->fab_open : rd_fab_iwarp_open)(loop, &cfg->iwarp,
									      &h->fab);
	if (!rc) {
		*out = h;
		return 0;
	}
	*why = rd_tcp_congestion_error(rc);
	if (rc == -ENODEV)
		*why = "no RDMA device, or no rdma_ucm module: the verbs provider cannot be used "
		       "here";
	free(h);
	return rc;
}

static void rdma_handle_close(void *opened)
{
	struct rdi_rdma_handle *h = opened;

	rd_fab_close(&h->fab);
	free(h);
}

static const char *provider(const void *opened)
{
	const struct rdi_rdma_handle *h = opened;

	return h->fab->ops->name;
}

/* ---- the table ---- */

static const struct sockaddr_storage *remote(const struct rdi_queue *q)
{
	const struct rdi_rdma_conn *c = q->conn;

	return &c->conn->remote;
}

static uint64_t max_data(const struct rdi_queue *q)
{
	const struct rdi_rdma_conn *c = q->conn;

	return c->dev->caps.max_msg;
}

const struct rdi_transport_ops rdi_rdma_ops = {
	.name = "rdma",
	.sgls = NVME_CTRL_SGLS_KEYED,
	.sgls_text = "keyed SGLs",
	.max_len = NVME_SGL_KEYED_LEN_MAX,
	.cfg_create = cfg_create,
	.cfg_destroy = cfg_destroy,
	.open = rdma_handle_open,
	.close = rdma_handle_close,
	.provider = provider,
	.alloc = rdi_rdma_alloc,
	.release = rdi_rdma_release,
	.connect = rdi_rdma_connect,
	.disconnect = rdi_rdma_disconnect,
	.drained = rdi_rdma_drained,
	.drop = rdi_rdma_drop,
	.poll = rdi_rdma_poll,
	.remote = remote,
	.max_data = max_data,
	.send = rdi_rdma_send,
	.send_pair = rdi_rdma_send_pair,
	.unmap = rdi_rdma_unmap,
	.reg = rdi_rdma_reg,
	.dereg = rdi_rdma_dereg,
};
