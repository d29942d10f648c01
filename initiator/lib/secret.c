/* SPDX-License-Identifier: BSD-3-Clause */
/* Secrets of DH-HMAC-CHAP and keys of TLS: read from options and kept; made and checked. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "nvmf/tls_psk.h"
#include "secret.h"

#include <openssl/rand.h>

/* The sources of one secret, of which at most one may be given. */
struct secret {
	enum nvmf_key_kind kind;
	const char *what; /* the name of the option for @text; "_file" and "_fd" follow it */
	const char *text;
	const char *file;
	int fd; /* -1: none */
};

static const struct {
	const char *prefix;
	const char *verb; /* that makes one */
} secret_kinds[] = {
	[NVMF_KEY_DHCHAP] = {NVMF_AUTH_KEY_PREFIX, "gen-dhchap-key"},
	[NVMF_KEY_TLS] = {NVMF_TLS_KEY_PREFIX, "gen-tls-key"},
};

/* ---- memory ---- */

/* Zeroed memory that core dumps omit; NULL: there is none. */
static void *alloc_secret(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, size, MADV_DONTDUMP);
	return p;
}

static void free_secret(void *p, size_t size)
{
	explicit_bzero(p, size);
	munmap(p, size);
}

/* ---- reading ---- */

static bool secret_given(const struct secret *s)
{
	return s->text || s->file || s->fd >= 0;
}

/* Reads the first line of @fd; of a line that is too long, enough to tell that it is. */
static int read_secret_line(int fd, char *buf, size_t size)
{
	size_t have = 0;
	ssize_t n = 1;

	while (n > 0 && have < size - 1 && !memchr(buf, '\n', have)) {
		n = read(fd, buf + have, size - 1 - have);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0)
			return -errno;
		else
			have += (size_t)n;
	}
	buf[have] = '\0';
	buf[strcspn(buf, "\r\n")] = '\0';
	return 0;
}

static int read_secret_fd(const char *func, const struct secret *s, int fd, char *buf, size_t size)
{
	const char *name = s->file ? s->file : "the descriptor";
	struct stat st;
	int rc;

	if (fstat(fd, &st))
		return rdi_fail(func, -errno, "%s: %s: %s", s->what, name, strerror(errno));
	if (S_ISREG(st.st_mode) && st.st_mode & S_IRWXO)
		return rdi_fail(func, -EINVAL,
				"%s: %s has the mode %04o, so every user of the machine can read "
				"the secret; expected 0600 or 0640 (chmod o= FILE)",
				s->what, name, (unsigned int)st.st_mode & 07777u);
	rc = read_secret_line(fd, buf, size);
	if (rc)
		return rdi_fail(func, rc, "%s: cannot read %s: %s", s->what, name, strerror(-rc));
	return 0;
}

static int read_secret(const char *func, const struct secret *s, char *buf, size_t size)
{
	int fd, rc;

	if (s->text) {
		snprintf(buf, size, "%s", s->text);
		return 0;
	}
	if (!s->file)
		return read_secret_fd(func, s, s->fd, buf, size);
	if (!s->file[0])
		return rdi_fail(func, -EINVAL, "%s: the name of its file is empty", s->what);
	if (strncmp(s->file, secret_kinds[s->kind].prefix, strlen(secret_kinds[s->kind].prefix)) ==
	    0)
		return rdi_fail(func, -EINVAL,
				"%s: the name of a file is expected, not the secret itself",
				s->what);
	fd = open(s->file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return rdi_fail(func, -errno, "%s: cannot open %s: %s", s->what, s->file,
				strerror(errno));
	rc = read_secret_fd(func, s, fd, buf, size);
	close(fd);
	return rc;
}

/* Reads @s, of which a source is given. Returns 0, -EINVAL or -errno of reading, with the thread's
 * error text. The owner wipes @key. */
static int take_secret(const char *func, const struct secret *s, struct nvmf_auth_key *key)
{
	char text[2 * NVMF_AUTH_KEY_TEXT];
	const char *why;
	int rc;

	if ((s->text != NULL) + (s->file != NULL) + (s->fd >= 0) > 1)
		return rdi_fail(func, -EINVAL,
				"%s: it is given twice; set one of %s, %s_file and %s_fd", s->what,
				s->what, s->what, s->what);
	rc = read_secret(func, s, text, sizeof(text));
	if (!rc) {
		why = nvmf_key_parse(s->kind, text, key);
		if (why)
			rc = rdi_fail(func, -EINVAL, "%s%s%s: the secret %s (see rdinit %s)",
				      s->what, s->file ? ": " : "", s->file ? s->file : "", why,
				      secret_kinds[s->kind].verb);
	}
	explicit_bzero(text, sizeof(text));
	return rc;
}

/* ---- secrets of DH-HMAC-CHAP ---- */

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
	const struct secret host = {NVMF_KEY_DHCHAP, "secret", o->secret, o->secret_file,
				    o->secret_fd};
	const struct secret ctrl = {NVMF_KEY_DHCHAP, "ctrl_secret", o->ctrl_secret,
				    o->ctrl_secret_file, o->ctrl_secret_fd};
	int rc;

	keys->offer.n_hashes = list_ids(o->hashes, AUTH_HASHES, keys->offer.hashes);
	keys->offer.n_groups = list_ids(o->groups, AUTH_GROUPS, keys->offer.groups);
	if (!keys->offer.n_hashes || !keys->offer.n_groups)
		return rdi_fail(func, -EINVAL,
				"hashes 0x%x, groups 0x%x: expected bits of 0x%x and 0x%x",
				o->hashes, o->groups, AUTH_HASHES, AUTH_GROUPS);
	if (!secret_given(&host))
		return rdi_fail(
			func, -EINVAL, "the options of authentication have no secret of the host%s",
			secret_given(&ctrl) ? ", which a controller's secret alone does not "
					      "replace: give both"
					    : "");
	rc = take_secret(func, &host, &keys->host);
	if (!rc && secret_given(&ctrl))
		rc = take_secret(func, &ctrl, &keys->ctrl);
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
	keys = alloc_secret(sizeof(*keys));
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
	free_secret(k, sizeof(*k));
}

/* ---- the key of TLS ---- */

void rdinit_tls_opts_init_size(struct rdinit_tls_opts *opts, size_t size)
{
	const struct rdinit_tls_opts defaults = {.key_fd = -1};

	rdi_put_sized(opts, size, &defaults, sizeof(defaults));
}

static int take_tls_key(const char *func, const struct rdinit_tls_opts *o, struct rdi_tls *tls)
{
	const struct secret key = {NVMF_KEY_TLS, "key", o->key, o->key_file, o->key_fd};
	int rc;

	if (!secret_given(&key))
		return rdi_fail(func, -EINVAL,
				"the TLS options have no key: set key, key_file or key_fd "
				"(see rdinit gen-tls-key)");
	rc = take_secret(func, &key, &tls->key);
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
	tls = alloc_secret(sizeof(*tls));
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
	free_secret(t, sizeof(*t));
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

/* ---- making and checking ---- */

_Static_assert(RDINIT_DHCHAP_KEY_SIZE == NVMF_AUTH_KEY_TEXT, "text of a secret");
_Static_assert((int)RDINIT_DHCHAP_SHA512 == NVMF_AUTH_SHA512, "hash identifiers");
_Static_assert(RDINIT_TLS_KEY_SIZE == NVMF_AUTH_KEY_TEXT, "text of a key");
_Static_assert((int)RDINIT_TLS_SHA384 == NVMF_AUTH_SHA384, "hash identifiers");
_Static_assert(RDINIT_TLS_IDENTITY_SIZE == NVMF_TLS_IDENTITY_MAX, "text of an identity");

/* @expected: the values of @hash and @len that are possible. */
static int key_generate(const char *func, enum nvmf_key_kind kind, unsigned int hash, size_t len,
			const char *expected, char *text)
{
	struct nvmf_auth_key key;
	int rc = nvmf_key_generate(kind, hash, len, &key);

	if (rc == -EINVAL)
		rc = rdi_fail(func, rc, "hash %u with a secret of %zu bytes: %s", hash, len,
			      expected);
	else if (rc)
		rc = rdi_fail(func, rc, "the system provides no random numbers");
	else
		nvmf_auth_key_format(&key, text);
	nvmf_auth_key_wipe(&key);
	return rc;
}

/* The caller wipes @key after success. */
static int key_parse(const char *func, enum nvmf_key_kind kind, const char *text,
		     struct nvmf_auth_key *key)
{
	const char *why = text ? nvmf_key_parse(kind, text, key) : "is NULL";

	return why ? rdi_fail(func, -EINVAL, "the key %s", why) : 0;
}

static int key_check(const char *func, enum nvmf_key_kind kind, const char *text,
		     unsigned int *hash, size_t *len)
{
	struct nvmf_auth_key key;
	int rc = key_parse(func, kind, text, &key);

	if (rc)
		return rc;
	if (hash)
		*hash = key.hash;
	if (len)
		*len = key.len;
	nvmf_auth_key_wipe(&key);
	return 0;
}

int rdinit_dhchap_key_generate(unsigned int hash, size_t len, char *text)
{
	return key_generate(__func__, NVMF_KEY_DHCHAP, hash, len,
			    "the hash is 0 to 3, the secret has 32, 48 or 64 bytes", text);
}

int rdinit_dhchap_key_check(const char *text, unsigned int *hash, size_t *len)
{
	return key_check(__func__, NVMF_KEY_DHCHAP, text, hash, len);
}

int rdinit_tls_key_generate(unsigned int hash, char *text)
{
	return key_generate(__func__, NVMF_KEY_TLS, hash, nvmf_auth_hash_len(hash),
			    "the hash is 1, SHA-256, or 2, SHA-384", text);
}

int rdinit_tls_key_check(const char *text, unsigned int *hash, size_t *len)
{
	return key_check(__func__, NVMF_KEY_TLS, text, hash, len);
}

/* A part of an identity, which blanks separate. */
static bool is_identity_name(const char *name)
{
	return name && name[0] && strlen(name) <= NVMF_NQN_MAX && !strchr(name, ' ');
}

int rdinit_tls_key_identity(const char *text, const char *hostnqn, const char *subnqn,
			    unsigned int version, bool compat, char *identity)
{
	struct nvmf_tls_form form = {(uint8_t)version, 'R', compat};
	struct nvmf_auth_key key;
	struct nvmf_tls_psk psk;
	int rc;

	if (!is_identity_name(hostnqn) || !is_identity_name(subnqn) || version > 1)
		return rdi_fail(__func__, -EINVAL,
				"hostnqn \"%.230s\", subnqn \"%.230s\", version %u: expected names "
				"of 1 to 223 bytes without blanks, and 0 or 1",
				hostnqn ? hostnqn : "", subnqn ? subnqn : "", version);
	rc = key_parse(__func__, NVMF_KEY_TLS, text, &key);
	if (rc)
		return rc;
	rc = nvmf_tls_psk_make(&key, &form, hostnqn, subnqn, &psk);
	nvmf_auth_key_wipe(&key);
	if (rc == -EIO)
		return rdi_fail(__func__, rc, "libcrypto failed");
	if (rc)
		return rdi_fail(__func__, -EINVAL,
				"hostnqn has %zu bytes and subnqn %zu: version 0 has room for %d "
				"together; use version 1",
				strlen(hostnqn), strlen(subnqn), UINT8_MAX - 10);
	memcpy(identity, psk.identity, sizeof(psk.identity));
	explicit_bzero(&psk, sizeof(psk));
	return 0;
}
