/* SPDX-License-Identifier: BSD-3-Clause */
/* gen-dhchap-key and check-dhchap-key. */
#include <string.h>

#include "command.h"
#include "rdinit_auth.h"

#define HASHES 4

static const struct {
	const char *name;
	size_t len;
} dhchap_hashes[HASHES] = {{"none", 0}, {"SHA-256", 32}, {"SHA-384", 48}, {"SHA-512", 64}};

/* The length of the secret, or 0 after printing what is wrong. */
static size_t wanted_secret_len(const struct cli_options *o, unsigned int hash)
{
	size_t by_hash = dhchap_hashes[hash].len;
	size_t len = (size_t)cli_num(o, CLI_ARG_KEY_LENGTH, by_hash ? by_hash : 32);

	if (len != 32 && len != 48 && len != 64) {
		cli_usage_error("--key-length=%zu: a secret has 32, 48 or 64 bytes", len);
		return 0;
	}
	if (by_hash && len != by_hash) {
		cli_usage_error("--key-length=%zu: Linux before 6.7 takes no such secret with "
				"--hmac=%u (%s); leave out one of the two options, or give "
				"--key-length=%zu",
				len, hash, dhchap_hashes[hash].name, by_hash);
		return 0;
	}
	return len;
}

int cli_gen_dhchap_key(const struct cli_options *o)
{
	unsigned int hash = (unsigned int)cli_num(o, CLI_ARG_HMAC, 0);
	size_t len = wanted_secret_len(o, hash);
	char text[RDINIT_DHCHAP_KEY_SIZE];
	int rc;

	if (!len)
		return CLI_USAGE;
	if (rdinit_dhchap_key_generate(hash, len, text))
		return cli_lib_error();
	if (o->format == CLI_JSON) {
		rc = cli_print_json(json_pack("{s:s}", "key", text), stdout);
	} else {
		printf("%s\n", text);
		rc = cli_finish_output();
	}
	explicit_bzero(text, sizeof(text));
	return rc;
}

static int show_checked_key(const struct cli_options *o, unsigned int hash, size_t len)
{
	size_t by_hash = dhchap_hashes[hash].len;
	bool portable = !by_hash || by_hash == len;

	if (o->format == CLI_JSON)
		return cli_print_json(json_pack("{s:s, s:I, s:b}", "hash", dhchap_hashes[hash].name,
						"length", (json_int_t)len, "length_of_hash",
						portable),
				      stdout);
	printf("The key is valid: hash %02u (%s), a secret of %zu bytes.\n", hash,
	       dhchap_hashes[hash].name, len);
	if (!portable)
		printf("Linux before 6.7 does not take it: there a secret with this hash has %zu "
		       "bytes.\n",
		       by_hash);
	return cli_finish_output();
}

int cli_check_dhchap_key(const struct cli_options *o)
{
	char text[2 * RDINIT_DHCHAP_KEY_SIZE];
	const char *name = o->arg[CLI_ARG_KEY_FILE].text;
	unsigned int hash;
	size_t have, len;
	int rc;

	if (name && strncmp(name, "DHHC-1:", 7) == 0)
		return cli_usage_error(
			"--key-file is the name of a file; secrets are never given on "
			"the command line, where every user of the machine can read "
			"them");
	if (cli_read_input(name, true, text, sizeof(text) - 1, &have))
		return CLI_FAILED;
	text[have] = '\0';
	text[strcspn(text, "\n")] = '\0';
	rc = rdinit_dhchap_key_check(text, &hash, &len);
	explicit_bzero(text, sizeof(text));
	if (rc)
		return cli_lib_error();
	return show_checked_key(o, hash, len);
}
