/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of the transports' configuration that is the same for all. */
#include <string.h>

#include "rdinit.h"
#include "transport.h"

#define MPA_REVISION_DEFAULT 2

const char *rdi_transport_foreign_opt(const struct rdinit_ctrl_opts *o)
{
	if (!o->tcp)
		return o->hdr_digest    ? "hdr_digest"
		       : o->data_digest ? "data_digest"
		       : o->tls         ? "tls"
					: NULL;
	if (o->provider && strcmp(o->provider, "auto") != 0)
		return "provider";
	if (o->crc)
		return "crc";
	if (o->no_peer_to_peer)
		return "no_peer_to_peer";
	if (o->mpa_revision != MPA_REVISION_DEFAULT)
		return "mpa_revision";
	return o->no_remote_invalidate ? "no_remote_invalidate" : NULL;
}

void rdi_transport_select(struct rdinit_ctrl_opts *o, bool tcp)
{
	o->tcp = tcp;
	if (!tcp) {
		o->hdr_digest = o->data_digest = false;
		return;
	}
	o->provider = NULL;
	o->crc = o->no_peer_to_peer = o->no_remote_invalidate = false;
	o->mpa_revision = MPA_REVISION_DEFAULT;
}

int rdi_transport_cfg_create(const struct rdi_transport_ops *ops, const struct rdi_env *env,
			     const struct rdinit_ctrl_opts *o, const char *traddr,
			     const char *trsvcid, struct rdi_transport_cfg **out)
{
	int rc = ops->cfg_create(env, o, traddr, trsvcid, out);

	if (rc)
		return rc;
	(*out)->ops = ops;
	atomic_init(&(*out)->refs, 1);
	return 0;
}

struct rdi_transport_cfg *rdi_transport_cfg_ref(struct rdi_transport_cfg *cfg)
{
	atomic_fetch_add_explicit(&cfg->refs, 1, memory_order_relaxed);
	return cfg;
}

void rdi_transport_cfg_unref(struct rdi_transport_cfg **cfg)
{
	if (*cfg && atomic_fetch_sub_explicit(&(*cfg)->refs, 1, memory_order_acq_rel) == 1)
		(*cfg)->ops->cfg_destroy(*cfg);
	*cfg = NULL;
}
