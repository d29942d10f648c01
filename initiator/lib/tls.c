/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS of the host: the key of a handle, and what is known of a connection. */
#include <errno.h>

#include "internal.h"
#include "secret.h"
#include "tls.h"

void rdinit_tls_opts_init_size(struct rdinit_tls_opts *opts, size_t size)
{
	const struct rdinit_tls_opts defaults = {.key_fd = -1};

	rdi_put_sized(opts, size, &defaults, sizeof(defaults));
}

static int take_tls_key(const char *func, const struct rdinit_tls_opts *o, struct rdi_tls *tls)
{
	const struct rdi_secret key = {NVMF_KEY_TLS, "key", o->key, o->key_file, o->key_fd};
	int rc;

	if (!rdi_secret_given(&key))
		return rdi_fail(func, -EINVAL,
				"the TLS options have no key: set key, key_file or key_fd "
				"(see rdinit gen-tls-key)");
	rc = rdi_secret_take(func, &key, &tls->key);
	if (!rc && nvmf_tls_ctx_new(&tls->ctx))
		rc = rdi_fail(func, -EIO, "OpenSSL cannot do TLS 1.3 with a pre-shared key");
	return rc;
}

int rdi_tls_create(const char *func, const struct rdinit_tls_opts *opts, struct rdi_tls **out)
{
	/* @opts, with defaults for the members that the caller's version does not have */
	struct rdinit_tls_opts all;
	struct rdi_tls *tls;
	int rc = RDI_CHECK_SIZE(func, opts, rdinit_tls_opts,
				offsetof(struct rdinit_tls_opts, key_fd) + sizeof(opts->key_fd));

	*out = NULL;
	if (rc)
		return rc;
	rdinit_tls_opts_init(&all);
	memcpy(&all, opts, opts->size);
	tls = rdi_secret_alloc(sizeof(*tls));
	if (!tls)
		return rdi_fail(func, -ENOMEM, "out of memory");
	atomic_init(&tls->refs, 1);
	atomic_init(&tls->form, 0);
	rc = take_tls_key(func, &all, tls);
	if (rc)
		rdi_tls_unref(&tls);
	*out = tls;
	return rc;
}

struct rdi_tls *rdi_tls_ref(struct rdi_tls *tls)
{
	if (tls)
		atomic_fetch_add(&tls->refs, 1);
	return tls;
}

void rdi_tls_unref(struct rdi_tls **tls)
{
	struct rdi_tls *t = *tls;

	*tls = NULL;
	if (!t || atomic_fetch_sub(&t->refs, 1) != 1)
		return;
	nvmf_tls_ctx_free(t->ctx);
	rdi_secret_free(t, sizeof(*t));
}

/* ---- what a connection uses ---- */

void rdinit_tls_info_init_size(struct rdinit_tls_info *info, size_t size)
{
	const struct rdinit_tls_info none = {.identity = ""};

	rdi_put_sized(info, size, &none, sizeof(none));
}

int rdinit_ctrl_get_tls(const struct rdinit_ctrl *ctrl, struct rdinit_tls_info *info)
{
	struct rdinit_tls_info all;
	int rc;

	if (rdi_is_foreign(RDI_HANDLE(ctrl)))
		return rdi_foreign(RDI_HANDLE(ctrl), __func__);
	rc = RDI_CHECK_SIZE(__func__, info, rdinit_tls_info,
			    offsetof(struct rdinit_tls_info, ktls_receive) +
				    sizeof(info->ktls_receive));
	if (rc)
		return rc;
	if (ctrl->state != RDI_CTRL_READY)
		return rdi_fail(__func__, -ENOTCONN, "the controller is %s, not ready",
				rdi_ctrl_state_name(ctrl->state));
	rdinit_tls_info_init(&all);
	if (ctrl->tls && ctrl->q.ops->tls_info)
		ctrl->q.ops->tls_info(&ctrl->q, &all);
	rdi_put_sized(info, info->size, &all, sizeof(all));
	return 0;
}
