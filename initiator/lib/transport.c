/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of the transports' configuration that is the same for all. */
#include "transport.h"

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
