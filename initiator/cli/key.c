/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and keys of a host: gen-hostnqn, show-hostnqn, gen-dhchap-key, check-dhchap-key,
 * gen-tls-key and check-tls-key. */
#include <string.h>
#include <uuid/uuid.h>

#include "command.h"
#include "rdinit_auth.h"
#include "rdinit_tls.h"

#define HASHES 4

static const struct {
	const char *name;
	size_t len;
} key_hashes[HASHES] = {{"none", 0}, {"SHA-256", 32}, {"SHA-384", 48}, {"SHA-512", 64}};

/* What the two kinds of keys do not have in common. */
struct key_kind {
	const char *prefix;
	const char *noun; /* what a key consists of */
	int (*check)(const char *text, unsigned int *hash, size_t *len);
};

static const struct key_kind dhchap_kind = {"DHHC-1:", "secret", rdinit_dhchap_key_check};
static const struct key_kind tls_kind = {"NVMeTLSkey-1:", "key", rdinit_tls_key_check};

_Static_assert(RDINIT_DHCHAP_KEY_SIZE == RDINIT_TLS_KEY_SIZE, "one buffer for both kinds");

/* ---- making ---- */

static int show_text(const struct cli_options *o, const char *name, const char *text)
{
	if (o->format == CLI_JSON)
		return cli_print_json(json_pack("{s:s}", name, text), stdout);
	printf("%s\n", text);
	return cli_finish_output();
}

int cli_gen_hostnqn(const struct cli_options *o)
{
	char nqn[RDINIT_NQN_SIZE], text[UUID_STR_LEN];
	uuid_t id;

	uuid_generate_random(id);
	uuid_unparse_lower(id, text);
	snprintf(nqn, sizeof(nqn), "nqn.2014-08.org.nvmexpress:uuid:%s", text);
	return show_text(o, "hostnqn", nqn);
}

int cli_show_hostnqn(const struct cli_options *o)
{
	struct rdinit_ctrl_opts opts = o->ctrl;
	struct rdinit_ctrl *ctrl;
	int rc;

	opts.traddr = "127.0.0.1"; /* a placeholder: the verb does not connect */
	cli_warn_of_identity(&opts);
	if (rdinit_ctrl_create(&opts, &ctrl)) {
		cli_lib_error();
		return CLI_USAGE;
	}
	rc = show_text(o, "hostnqn", rdinit_ctrl_hostnqn(ctrl));
	rdinit_ctrl_free(&ctrl);
	return rc;
}

/* Prints the key, and wipes it. */
static int show_key(const struct cli_options *o, char text[RDINIT_TLS_KEY_SIZE])
{
	int rc = show_text(o, "key", text);

	explicit_bzero(text, RDINIT_TLS_KEY_SIZE);
	return rc;
}

/* The length of the secret, or 0 after printing what is wrong. */
static size_t wanted_secret_len(const struct cli_options *o, unsigned int hash)
{
	size_t by_hash = key_hashes[hash].len;
	size_t len = (size_t)cli_num(o, CLI_ARG_KEY_LENGTH, by_hash ? by_hash : 32);

	if (len != 32 && len != 48 && len != 64) {
		cli_usage_error("--key-length=%zu: a secret has 32, 48 or 64 bytes", len);
		return 0;
	}
	if (by_hash && len != by_hash) {
		cli_usage_error("--key-length=%zu: Linux before 6.7 does not accept such a secret "
				"with --hmac=%u (%s); leave out one of the two options, or give "
				"--key-length=%zu",
				len, hash, key_hashes[hash].name, by_hash);
		return 0;
	}
	return len;
}

int cli_gen_dhchap_key(const struct cli_options *o)
{
	unsigned int hash = (unsigned int)cli_num(o, CLI_ARG_HMAC, 0);
	size_t len = wanted_secret_len(o, hash);
	char text[RDINIT_TLS_KEY_SIZE];

	if (!len)
		return CLI_USAGE;
	if (rdinit_dhchap_key_generate(hash, len, text))
		return cli_lib_error();
	return show_key(o, text);
}

int cli_gen_tls_key(const struct cli_options *o)
{
	char text[RDINIT_TLS_KEY_SIZE];

	if (rdinit_tls_key_generate((unsigned int)cli_num(o, CLI_ARG_HMAC, RDINIT_TLS_SHA256),
				    text))
		return cli_lib_error();
	return show_key(o, text);
}

/* ---- checking ---- */

/* Reads the key of @kind. Returns an exit status; the caller wipes @text. */
static int read_key(const struct cli_options *o, const struct key_kind *kind,
		    char text[2 * RDINIT_TLS_KEY_SIZE], unsigned int *hash, size_t *len)
{
	const char *name = o->arg[CLI_ARG_KEY_FILE].text;
	size_t have;

	if (name && strncmp(name, kind->prefix, strlen(kind->prefix)) == 0)
		return cli_usage_error(
			"--key-file is the name of a file; secrets are never given on "
			"the command line, where every user of the machine can read "
			"them");
	if (cli_read_input(name, true, text, 2 * RDINIT_TLS_KEY_SIZE - 1, &have))
		return CLI_FAILED;
	text[have] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return kind->check(text, hash, len) ? cli_lib_error() : 0;
}

static void say_valid(const struct key_kind *kind, unsigned int hash, size_t len)
{
	printf("The key is valid: hash %02u (%s), a %s of %zu bytes.\n", hash,
	       key_hashes[hash].name, kind->noun, len);
}

int cli_check_dhchap_key(const struct cli_options *o)
{
	char text[2 * RDINIT_TLS_KEY_SIZE];
	unsigned int hash;
	bool portable;
	size_t len;
	int rc = read_key(o, &dhchap_kind, text, &hash, &len);

	explicit_bzero(text, sizeof(text));
	if (rc)
		return rc;
	portable = !key_hashes[hash].len || key_hashes[hash].len == len;
	if (o->format == CLI_JSON)
		return cli_print_json(json_pack("{s:s, s:I, s:b}", "hash", key_hashes[hash].name,
						"length", (json_int_t)len, "length_of_hash",
						portable),
				      stdout);
	say_valid(&dhchap_kind, hash, len);
	if (!portable)
		printf("Linux before 6.7 does not accept it: there a secret with this hash has %zu "
		       "bytes.\n",
		       key_hashes[hash].len);
	return cli_finish_output();
}

/* The identity that the options ask for; empty: there is no --subsysnqn. Returns an exit status. */
static int key_identity(const struct cli_options *o, const char *text,
			char identity[RDINIT_TLS_IDENTITY_SIZE])
{
	struct rdinit_ctrl_opts opts = o->ctrl;
	struct rdinit_ctrl *ctrl;
	int rc;

	identity[0] = '\0';
	if (!opts.subnqn) {
		if (opts.hostnqn || cli_given(o, CLI_ARG_IDENTITY) || cli_given(o, CLI_ARG_COMPAT))
			return cli_usage_error("--hostnqn, --identity and --compat are for the PSK "
					       "identity, which needs --subsysnqn as well");
		return 0;
	}
	/* Placeholders: the verb does not connect. Names that are no NQNs have identities, too. */
	opts.traddr = "127.0.0.1";
	opts.subnqn = NULL;
	opts.hostnqn = NULL;
	if (!o->ctrl.hostnqn)
		cli_warn_of_identity(&opts);
	if (rdinit_ctrl_create(&opts, &ctrl)) {
		cli_lib_error();
		return CLI_USAGE;
	}
	rc = rdinit_tls_key_identity(text,
				     o->ctrl.hostnqn ? o->ctrl.hostnqn : rdinit_ctrl_hostnqn(ctrl),
				     o->ctrl.subnqn, (unsigned int)cli_num(o, CLI_ARG_IDENTITY, 1),
				     cli_given(o, CLI_ARG_COMPAT), identity);
	rdinit_ctrl_free(&ctrl);
	return rc ? cli_lib_error() : 0;
}

int cli_check_tls_key(const struct cli_options *o)
{
	char text[2 * RDINIT_TLS_KEY_SIZE], identity[RDINIT_TLS_IDENTITY_SIZE];
	unsigned int hash;
	size_t len;
	int rc = read_key(o, &tls_kind, text, &hash, &len);

	if (!rc)
		rc = key_identity(o, text, identity);
	explicit_bzero(text, sizeof(text));
	if (rc)
		return rc;
	if (o->format == CLI_JSON)
		return cli_print_json(json_pack("{s:s, s:I, s:s*}", "hash", key_hashes[hash].name,
						"length", (json_int_t)len, "identity",
						identity[0] ? identity : NULL),
				      stdout);
	say_valid(&tls_kind, hash, len);
	if (identity[0])
		printf("Its identity: %s\n", identity);
	return cli_finish_output();
}
