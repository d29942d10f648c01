/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys of hosts for DH-HMAC-CHAP and TLS, and the files that contain them. No message and no log
 * line contains a part of a key. The keys of a configuration are in a mapping of their own, which
 * is left out of core dumps and wiped with the configuration.
 */
#include "config_priv.h"
#include "key_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "nvmf/auth_key.h"
#include "util/cleanup.h"

#define KEYS_OF_HOST 3u /* of the host, of the controller, and of TLS */

struct rdt_secrets {
	size_t size; /* of the mapping */
	uint32_t used;
	struct nvmf_auth_key keys[];
};

static const uint8_t all_hashes[] = {NVMF_AUTH_SHA256, NVMF_AUTH_SHA384, NVMF_AUTH_SHA512};
/* Cheap groups first. The null group is used only if it is listed. */
static const uint8_t all_groups[] = {NVMF_AUTH_FFDHE2048, NVMF_AUTH_FFDHE3072, NVMF_AUTH_FFDHE4096,
				     NVMF_AUTH_FFDHE6144, NVMF_AUTH_FFDHE8192};

/* ---- the mapping with the keys ---- */

static int secrets_create(const struct rdt_config *config, struct rdt_secrets **out)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size;
	size_t count = KEYS_OF_HOST * (size_t)config->discovery.host_auth_count;
	struct rdt_secrets *s;

	for (uint32_t i = 0; i < config->subsystems_count; i++)
		count += KEYS_OF_HOST * (size_t)config->subsystems[i].host_auth_count;
	if (!count)
		return 0;
	size = (sizeof(*s) + count * sizeof(s->keys[0]) + page - 1) / page * page;
	s = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s == MAP_FAILED)
		return -ENOMEM;
	/* Keep it off swap devices if the limit of locked memory allows that. */
	(void)!mlock(s, size);
	madvise(s, size, MADV_DONTDUMP);
	s->size = size;
	*out = s;
	return 0;
}

void rdt_config_secrets_free(struct rdt_secrets *s)
{
	size_t size;

	if (!s)
		return;
	size = s->size;
	explicit_bzero(s, size);
	munmap(s, size);
}

/* ---- files ---- */

/* Reads the first line of the file. Returns false after reporting a problem. */
static bool read_key_line(struct rdt_config_load *load, const struct rdt_key *at, const char *name,
			  char text[RDT_KEY_FILE_MAX])
{
	char why[512];
	size_t len;

	if (nvmf_key_in(name) == name) {
		rdt_config_problem(
			load, at,
			"found a key, expected the name of a file with the key; configurations are "
			"read and copied by people who must not know it");
		return false;
	}
	if (rdt_key_file_read(name, text, &len, why, sizeof(why))) {
		rdt_config_problem(load, at, "%s", why);
		return false;
	}
	text[strcspn(text, "\n")] = '\0';
	return true;
}

static const struct nvmf_auth_key *load_key(struct rdt_config_load *load,
					    struct rdt_secrets *secrets, enum nvmf_key_kind kind,
					    const struct rdt_key *item, const char *name,
					    const char *file)
{
	struct rdt_key at = rdt_config_child(load, item, name);
	struct nvmf_auth_key *key = &secrets->keys[secrets->used++];
	char text[RDT_KEY_FILE_MAX];
	const char *why;

	if (!file || !file[0] || !rdt_config_good(load, &at) ||
	    !read_key_line(load, &at, file, text))
		return NULL;
	why = nvmf_key_parse(kind, text, key);
	OPENSSL_cleanse(text, sizeof(text));
	if (!why)
		return key;
	rdt_config_problem(load, &at, "%.200s: %s; expected a line %s..., as rdinit %s writes it",
			   file, why,
			   kind == NVMF_KEY_TLS ? NVMF_TLS_KEY_PREFIX : NVMF_AUTH_KEY_PREFIX,
			   kind == NVMF_KEY_TLS ? "gen-tls-key" : "gen-dhchap-key");
	return NULL;
}

/* ---- hashes and groups ---- */

/* Copies the listed IDs in their order, or all of @def. */
static uint8_t fill_ids(struct rdt_config_load *load, const struct rdt_key *item, const char *name,
			const int *list, uint32_t count, const uint8_t *def, uint8_t n_def,
			uint8_t *out, uint8_t max)
{
	struct rdt_key at = rdt_config_child(load, item, name);
	uint8_t n = 0;

	if (!count) {
		memcpy(out, def, n_def);
		return n_def;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct rdt_key one = rdt_config_item(load, &at, i);

		if (memchr(out, list[i], n))
			rdt_config_problem(load, &one, "is listed twice");
		else if (n < max) /* there are more only after unknown names, which were reported */
			out[n++] = (uint8_t)list[i];
	}
	return n;
}

/* ---- hosts ---- */

/* @required: DH-HMAC-CHAP is required. */
static void check_key_files(struct rdt_config_load *load, const struct rdt_key *item,
			    const struct rdt_host_auth_config *h, bool required)
{
	if (!rdt_config_good(load, item))
		return;
	if (!h->dhchap_key_file && required)
		rdt_config_problem(
			load, item,
			"has no dhchap_key_file, and authentication is \"required\"; add "
			"one, or remove the host here");
	else if (!h->dhchap_key_file && !h->tls_key_file)
		rdt_config_problem(load, item,
				   "has no key; add dhchap_key_file for DH-HMAC-CHAP, or "
				   "tls_key_file for TLS");
	else if (!h->dhchap_key_file && h->dhchap_ctrl_key_file)
		rdt_config_problem(
			load, item,
			"has a dhchap_ctrl_key_file without a dhchap_key_file; only a host that "
			"authenticates itself can authenticate the controller");
}

static void check_host_auth(struct rdt_config_load *load, struct rdt_secrets *secrets,
			    const struct rdt_key *item, struct rdt_host_auth_config *h,
			    bool required)
{
	struct rdt_key ctrl = rdt_config_child(load, item, "dhchap_ctrl_key_file");

	h->key = load_key(load, secrets, NVMF_KEY_DHCHAP, item, "dhchap_key_file",
			  h->dhchap_key_file);
	h->ctrl_key = load_key(load, secrets, NVMF_KEY_DHCHAP, item, "dhchap_ctrl_key_file",
			       h->dhchap_ctrl_key_file);
	h->tls_key = load_key(load, secrets, NVMF_KEY_TLS, item, "tls_key_file", h->tls_key_file);
	check_key_files(load, item, h, required);
	if (h->key && h->ctrl_key && h->key->len == h->ctrl_key->len &&
	    CRYPTO_memcmp(h->key->secret, h->ctrl_key->secret, h->key->len) == 0)
		rdt_config_problem(load, &ctrl,
				   "has the same secret as dhchap_key_file, expected a different "
				   "one, because whoever has one of them must not know the other");
	h->n_hashes =
		fill_ids(load, item, "dhchap_hashes", h->dhchap_hashes, h->dhchap_hashes_count,
			 all_hashes, sizeof(all_hashes), h->hashes, sizeof(h->hashes));
	h->n_groups = fill_ids(load, item, "dhchap_dhgroups", h->dhchap_dhgroups,
			       h->dhchap_dhgroups_count, all_groups, sizeof(all_groups), h->groups,
			       sizeof(h->groups));
}

/* With authentication "required", a host without a key could never connect. */
static int check_all_have_keys(struct rdt_config_load *load, const struct rdt_key *subsystem,
			       const struct rdt_subsys_config *ss)
{
	struct rdt_key hosts = rdt_config_child(load, subsystem, "hosts");
	rd_autofree const char **with = calloc(ss->host_auth_count + 1, sizeof(*with));
	rd_autofree const char **sorted = NULL;

	for (uint32_t i = 0; i < ss->host_auth_count && with; i++)
		with[i] = ss->host_auth[i].host;
	sorted = with ? rdt_config_sorted(with, ss->host_auth_count) : NULL;
	for (uint32_t i = 0; i < ss->hosts_count && sorted; i++) {
		struct rdt_key host = rdt_config_item(load, &hosts, i);

		if (!rdt_config_has(sorted, ss->host_auth_count, ss->hosts[i]))
			rdt_config_problem(
				load, &host,
				"\"%.80s\" has no key in host_auth, and authentication is "
				"\"required\"; add one there, or remove the host",
				ss->hosts[i]);
	}
	return sorted ? 0 : -ENOMEM;
}

/* Checks that each host with a key may connect. */
static int check_all_are_hosts(struct rdt_config_load *load, const struct rdt_key *list,
			       const struct rdt_subsys_config *ss)
{
	rd_autofree const char **sorted = rdt_config_sorted(ss->hosts, ss->hosts_count);

	for (uint32_t i = 0; i < ss->host_auth_count && sorted; i++) {
		struct rdt_key item = rdt_config_item(load, list, i);
		struct rdt_key host = rdt_config_child(load, &item, "host");

		if (!rdt_config_has(sorted, ss->hosts_count, ss->host_auth[i].host))
			rdt_config_problem(load, &host,
					   "\"%.80s\" is not among the subsystem's hosts, so it "
					   "could never connect; add it there or remove it here",
					   ss->host_auth[i].host);
	}
	return sorted ? 0 : -ENOMEM;
}

static int check_auth_hosts(struct rdt_config_load *load, const struct rdt_key *subsystem,
			    const struct rdt_subsys_config *ss)
{
	struct rdt_key list = rdt_config_child(load, subsystem, "host_auth");
	struct rdt_key mode = rdt_config_child(load, subsystem, "authentication");
	struct rdt_key hosts = rdt_config_child(load, subsystem, "hosts");
	struct rdt_key any = rdt_config_child(load, subsystem, "allow_any_host");
	bool required = ss->authentication == RDT_AUTH_REQUIRED;
	int err = 0;

	if (!rdt_config_good(load, &hosts) || !rdt_config_good(load, &any) || ss->hosts_unset)
		return 0;
	if (ss->allow_any_host && (ss->host_auth_count || required))
		rdt_config_problem(load, required ? &mode : &list,
				   "any host may connect, so a host could avoid authentication by "
				   "giving another NQN; list the hosts under \"hosts:\"");
	if (ss->allow_any_host)
		return 0;
	if (ss->host_auth_count)
		err = check_all_are_hosts(load, &list, ss);
	if (!err && required && rdt_config_good(load, &list))
		err = check_all_have_keys(load, subsystem, ss);
	return err;
}

static int compare_host_auth(const void *a, const void *b)
{
	const char *one = (*(struct rdt_host_auth_config *const *)a)->host;
	const char *other = (*(struct rdt_host_auth_config *const *)b)->host;

	return strcmp(one ? one : "", other ? other : ""); /* NULL after an error */
}

static int sort_host_auth(struct rdt_subsys_config *ss)
{
	ss->host_auth_order = calloc(ss->host_auth_count + 1, sizeof(*ss->host_auth_order));
	if (!ss->host_auth_order)
		return -ENOMEM;
	for (uint32_t i = 0; i < ss->host_auth_count; i++)
		ss->host_auth_order[i] = &ss->host_auth[i];
	qsort(ss->host_auth_order, ss->host_auth_count, sizeof(*ss->host_auth_order),
	      compare_host_auth);
	return 0;
}

/* @at: a subsystem, or "discovery". */
static int load_auth_keys(struct rdt_config_load *load, struct rdt_secrets *secrets,
			  const struct rdt_key *at, struct rdt_subsys_config *ss)
{
	struct rdt_key list = rdt_config_child(load, at, "host_auth");

	for (uint32_t i = 0; i < ss->host_auth_count && !rdt_config_late(load); i++) {
		struct rdt_key item = rdt_config_item(load, &list, i);

		check_host_auth(load, secrets, &item, &ss->host_auth[i],
				ss->authentication == RDT_AUTH_REQUIRED);
		ss->dhchap_count += ss->host_auth[i].dhchap_key_file != NULL;
	}
	if (sort_host_auth(ss))
		return -ENOMEM;
	return rdt_config_check_twice(
		load, &list, "host",
		&(struct rdt_config_values){ss->host_auth, ss->host_auth_count,
					    sizeof(*ss->host_auth),
					    offsetof(struct rdt_host_auth_config, host), 0},
		NULL);
}

static bool has_tls_key(const struct rdt_subsys_config *ss)
{
	for (uint32_t i = 0; i < ss->host_auth_count; i++)
		if (ss->host_auth[i].tls_key_file)
			return true;
	return false;
}

/* Warns of TLS without keys, and of keys without TLS: the configuration has no effect then. */
static void check_tls_use(struct rdt_config_load *load, const struct rdt_config *config)
{
	struct rdt_key root = rdt_config_root(load);
	struct rdt_key list = rdt_config_child(load, &root, "listeners");
	bool keys = has_tls_key(&config->discovery), listens = false;

	for (uint32_t i = 0; i < config->subsystems_count && !keys; i++)
		keys = has_tls_key(&config->subsystems[i]);
	for (uint32_t i = 0; i < config->listeners_count; i++) {
		struct rdt_key item = rdt_config_item(load, &list, i);
		struct rdt_key tls = rdt_config_child(load, &item, "tls");

		if (config->listeners[i].tls == RDT_TLS_OFF ||
		    config->listeners[i].transport != RDT_TRANSPORT_TCP)
			continue;
		if (!keys && !listens)
			rdt_config_warning(
				load, &tls,
				"no host has a tls_key_file in host_auth, so no host can use TLS");
		listens = true;
	}
	if (keys && !listens && config->listeners_count)
		rdt_config_warning(
			load, &list,
			"hosts have a tls_key_file, and no listener has TLS (tls: required "
			"or allowed): nothing is encrypted");
}

int rdt_config_check_auth(struct rdt_config_load *load, struct rdt_config *config)
{
	struct rdt_key root = rdt_config_root(load);
	struct rdt_key list = rdt_config_child(load, &root, "subsystems");
	struct rdt_key discovery = rdt_config_child(load, &root, "discovery");
	int err = secrets_create(config, &config->secrets);

	if (!err)
		err = load_auth_keys(load, config->secrets, &discovery, &config->discovery);
	for (uint32_t i = 0; i < config->subsystems_count && !err; i++) {
		struct rdt_key subsystem = rdt_config_item(load, &list, i);

		err = check_auth_hosts(load, &subsystem, &config->subsystems[i]);
		if (!err)
			err = load_auth_keys(load, config->secrets, &subsystem,
					     &config->subsystems[i]);
	}
	if (!err)
		check_tls_use(load, config);
	return err;
}

const struct rdt_host_auth_config *rdt_config_host_auth(const struct rdt_subsys_config *ss,
							const char *hostnqn)
{
	const struct rdt_host_auth_config asked = {.host = hostnqn}, *key = &asked, *const * found;

	if (ss->host_auth_order) {
		found = bsearch(&key, ss->host_auth_order, ss->host_auth_count,
				sizeof(*ss->host_auth_order), compare_host_auth);
		return found ? *found : NULL;
	}
	for (uint32_t i = 0; i < ss->host_auth_count; i++)
		if (strcmp(ss->host_auth[i].host, hostnqn) == 0)
			return &ss->host_auth[i];
	return NULL;
}

static bool same_key(const struct nvmf_auth_key *a, const struct nvmf_auth_key *b)
{
	if (!a || !b)
		return a == b;
	return a->hash == b->hash && a->len == b->len &&
	       CRYPTO_memcmp(a->secret, b->secret, a->len) == 0;
}

bool rdt_config_same_host_auth(const struct rdt_host_auth_config *a,
			       const struct rdt_host_auth_config *b)
{
	if (!a || !b)
		return a == b;
	return same_key(a->key, b->key) && same_key(a->ctrl_key, b->ctrl_key) &&
	       same_key(a->tls_key, b->tls_key) && a->n_hashes == b->n_hashes &&
	       memcmp(a->hashes, b->hashes, a->n_hashes) == 0 && a->n_groups == b->n_groups &&
	       memcmp(a->groups, b->groups, a->n_groups) == 0;
}
