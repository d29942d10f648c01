/* SPDX-License-Identifier: BSD-3-Clause */
/* Secrets of DH-HMAC-CHAP from options, and the offers to controllers. */
#include <errno.h>

#include "auth.h"
#include "secret.h"

#include <openssl/rand.h>

_Static_assert((int)RDINIT_DHCHAP_FFDHE8192 == NVMF_AUTH_FFDHE8192, "group identifiers");

#define AUTH_HASHES (1u << NVMF_AUTH_SHA256 | 1u << NVMF_AUTH_SHA384 | 1u << NVMF_AUTH_SHA512)
#define AUTH_GROUPS ((1u << (NVMF_AUTH_FFDHE8192 + 1)) - 1)

void rdinit_auth_opts_init_size(struct rdinit_auth_opts *opts, size_t size)
{
	const struct rdinit_auth_opts defaults = {.secret_fd = -1, .ctrl_secret_fd = -1};

	rdi_put_sized(opts, size, &defaults, sizeof(defaults));
}

/* ---- what is offered, by name ---- */

static const char *const hash_names[] = {
	[NVMF_AUTH_SHA256] = "sha256",
	[NVMF_AUTH_SHA384] = "sha384",
	[NVMF_AUTH_SHA512] = "sha512",
};
static const char *const group_names[] = {
	[NVMF_AUTH_GROUP_NULL] = "null",     [NVMF_AUTH_FFDHE2048] = "ffdhe2048",
	[NVMF_AUTH_FFDHE3072] = "ffdhe3072", [NVMF_AUTH_FFDHE4096] = "ffdhe4096",
	[NVMF_AUTH_FFDHE6144] = "ffdhe6144", [NVMF_AUTH_FFDHE8192] = "ffdhe8192",
};
#define NAMES(table) (sizeof(table) / sizeof((table)[0]))

/* The bit of the name of @len bytes, or 0. */
static unsigned int name_bit(const char *const *names, size_t n, const char *name, size_t len)
{
	for (size_t id = 0; id < n; id++)
		if (names[id] && strlen(names[id]) == len && memcmp(names[id], name, len) == 0)
			return 1u << id;
	return 0;
}

static int names_to_bits(const char *func, const char *what, const char *text,
			 const char *const *names, size_t n, unsigned int *bits)
{
	unsigned int found = 0, bit;
	size_t len;

	for (const char *at = text;; at += len + 1) {
		len = strcspn(at, ",");
		bit = name_bit(names, n, at, len);
		if (!bit)
			return rdi_fail(func, -EINVAL,
					"%s: \"%.*s\" in \"%.100s\" is not one; expected a list of "
					"%s, separated by commas",
					what, (int)(len < 40 ? len : 40), at, text,
					names == hash_names ? "sha256, sha384, sha512"
							    : "null, ffdhe2048, ffdhe3072, "
							      "ffdhe4096, ffdhe6144, ffdhe8192");
		found |= bit;
		if (!at[len])
			break;
	}
	*bits = found;
	return 0;
}

int rdinit_auth_opts_offer(struct rdinit_auth_opts *opts, const char *hashes, const char *groups)
{
	unsigned int hash_bits = 0, group_bits = 0;
	int rc = RDI_CHECK_SIZE(__func__, opts, rdinit_auth_opts,
				offsetof(struct rdinit_auth_opts, groups) + sizeof(opts->groups));

	if (!rc && hashes)
		rc = names_to_bits(__func__, "hashes", hashes, hash_names, NAMES(hash_names),
				   &hash_bits);
	if (!rc && groups)
		rc = names_to_bits(__func__, "groups", groups, group_names, NAMES(group_names),
				   &group_bits);
	if (rc)
		return rc;
	if (hashes)
		opts->hashes = hash_bits;
	if (groups)
		opts->groups = group_bits;
	return 0;
}

/* ---- the keys of a handle ---- */

/* Lists the identifiers of the bits of @wanted, or of @known if @wanted is 0. Returns their
 * number; 0: @wanted has unknown bits. */
static uint8_t list_ids(unsigned int wanted, unsigned int known, uint8_t *ids)
{
	uint8_t n = 0;

	if (wanted & ~known)
		return 0;
	if (!wanted)
		wanted = known;
	for (uint8_t id = 0; wanted >> id; id++) {
		if (wanted >> id & 1)
			ids[n++] = id;
	}
	return n;
}

static int take_auth_opts(const char *func, const struct rdinit_auth_opts *o,
			  struct rdi_auth_keys *keys)
{
	const struct rdi_secret host = {NVMF_KEY_DHCHAP, "secret", o->secret, o->secret_file,
					o->secret_fd};
	const struct rdi_secret ctrl = {NVMF_KEY_DHCHAP, "ctrl_secret", o->ctrl_secret,
					o->ctrl_secret_file, o->ctrl_secret_fd};
	int rc;

	keys->offer.n_hashes = list_ids(o->hashes, AUTH_HASHES, keys->offer.hashes);
	keys->offer.n_groups = list_ids(o->groups, AUTH_GROUPS, keys->offer.groups);
	if (!keys->offer.n_hashes || !keys->offer.n_groups)
		return rdi_fail(func, -EINVAL,
				"hashes 0x%x, groups 0x%x: expected bits of 0x%x and 0x%x",
				o->hashes, o->groups, AUTH_HASHES, AUTH_GROUPS);
	if (!rdi_secret_given(&host))
		return rdi_fail(
			func, -EINVAL, "the options of authentication have no secret of the host%s",
			rdi_secret_given(&ctrl) ? ", which a controller's secret alone does not "
						  "replace: give both"
						: "");
	rc = rdi_secret_take(func, &host, &keys->host);
	if (!rc && rdi_secret_given(&ctrl))
		rc = rdi_secret_take(func, &ctrl, &keys->ctrl);
	return rc;
}

int rdi_auth_keys_create(const char *func, const struct rdinit_auth_opts *opts,
			 struct rdi_auth_keys **out)
{
	/* @opts, with defaults for the members that the caller's version does not have */
	struct rdinit_auth_opts all;
	struct rdi_auth_keys *keys;
	uint8_t start[6];
	int rc = RDI_CHECK_SIZE(func, opts, rdinit_auth_opts,
				offsetof(struct rdinit_auth_opts, groups) + sizeof(opts->groups));

	*out = NULL;
	if (rc)
		return rc;
	rdinit_auth_opts_init(&all);
	memcpy(&all, opts, opts->size);
	keys = rdi_secret_alloc(sizeof(*keys));
	if (!keys)
		return rdi_fail(func, -ENOMEM, "out of memory");
	atomic_init(&keys->refs, 1);
	rc = take_auth_opts(func, &all, keys);
	if (!rc && RAND_bytes(start, sizeof(start)) != 1)
		rc = rdi_fail(func, -EIO, "the system provides no random numbers");
	if (rc) {
		rdi_auth_keys_unref(&keys);
		return rc;
	}
	atomic_init(&keys->t_id, (uint16_t)(start[0] | start[1] << 8));
	atomic_init(&keys->seqnum, (uint32_t)start[2] | (uint32_t)start[3] << 8 |
					   (uint32_t)start[4] << 16 | (uint32_t)start[5] << 24);
	*out = keys;
	return 0;
}

struct rdi_auth_keys *rdi_auth_keys_ref(struct rdi_auth_keys *keys)
{
	if (keys)
		atomic_fetch_add(&keys->refs, 1);
	return keys;
}

void rdi_auth_keys_unref(struct rdi_auth_keys **keys)
{
	struct rdi_auth_keys *k = *keys;

	*keys = NULL;
	if (!k || atomic_fetch_sub(&k->refs, 1) != 1)
		return;
	rdi_secret_free(k, sizeof(*k));
}
