/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe/TCP as a transport: its options, what a handle opens, its table. */
#include <errno.h>
#include <stdlib.h>

#include "tcp.h"

static void tcp_cfg_destroy(struct rdi_transport_cfg *base)
{
	struct rdi_tcp_cfg *cfg = rd_container_of(base, struct rdi_tcp_cfg, cfg);

	free(cfg->congestion);
	free(cfg);
}

static int tcp_cfg_create(const struct rdi_env *env, const struct rdinit_ctrl_opts *o,
			  const char *traddr, const char *trsvcid, struct rdi_transport_cfg **out)
{
	struct rdi_tcp_cfg *cfg = calloc(1, sizeof(*cfg));

	if (!cfg)
		return -ENOMEM;
	if (o->congestion) {
		cfg->congestion = strdup(o->congestion);
		if (!cfg->congestion) {
			free(cfg);
			return -ENOMEM;
		}
	}
	cfg->socket = (struct rd_tcp_opts){.congestion = cfg->congestion,
					   .sndbuf = o->send_buffer,
					   .rcvbuf = o->receive_buffer};
	cfg->dgst = (o->hdr_digest ? NVME_TCP_HDGST : 0) | (o->data_digest ? NVME_TCP_DDGST : 0);
	*out = &cfg->cfg;
	return 0;
}

static int tcp_handle_open(struct rd_loop *loop, const struct rdi_env *env,
			   const struct rdi_transport_cfg *base, void **out, const char **why)
{
	struct rdi_tcp_handle *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	h->cfg = rd_container_of(base, const struct rdi_tcp_cfg, cfg);
	h->staging = malloc(RDI_TCP_STAGING);
	if (!h->staging) {
		free(h);
		return -ENOMEM;
	}
	*out = h;
	return 0;
}

static void tcp_handle_close(void *opened)
{
	struct rdi_tcp_handle *h = opened;

	free(h->staging);
	free(h);
}

static const char *tcp_provider_name(const void *opened)
{
	return "tcp";
}

static const struct sockaddr_storage *tcp_remote(const struct rdi_queue *q)
{
	const struct rdi_tcp_conn *c = q->conn;

	return &c->remote;
}

static uint64_t tcp_max_data(const struct rdi_queue *q)
{
	return 0;
}

/* Data is copied by the kernel: nothing is mapped, so this is never called. */
static void tcp_unmap(struct rdi_queue *q, struct rdi_req *req, bool done)
{
}

static int tcp_reg(struct rdi_queue *q, void *addr, size_t len, void **mr)
{
	*mr = NULL;
	return 0;
}

static void tcp_dereg(struct rdi_queue *q, void *mr)
{
}

const struct rdi_transport_ops rdi_tcp_ops = {
	.name = "tcp",
	.discovery_port = NVME_TCP_DISC_PORT,
	.sgls = 3, /* SGLs are supported, without or with dword alignment */
	.sgls_text = "SGLs",
	.max_len = (16u << 20) - 1, /* as over RDMA: applications need one limit only */
	.cfg_create = tcp_cfg_create,
	.cfg_destroy = tcp_cfg_destroy,
	.open = tcp_handle_open,
	.close = tcp_handle_close,
	.provider = tcp_provider_name,
	.alloc = rdi_tcp_alloc,
	.release = rdi_tcp_release,
	.connect = rdi_tcp_connect,
	.disconnect = rdi_tcp_disconnect,
	.drained = rdi_tcp_drained,
	.drop = rdi_tcp_drop,
	.poll = rdi_tcp_poll,
	.remote = tcp_remote,
	.max_data = tcp_max_data,
	.tls_info = rdi_tcp_tls_info,
	.send = rdi_tcp_send,
	.send_pair = rdi_tcp_send_pair,
	.unmap = tcp_unmap,
	.reg = tcp_reg,
	.dereg = tcp_dereg,
};
