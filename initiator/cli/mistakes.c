/* SPDX-License-Identifier: BSD-3-Clause */
/* Suggestions for wrong input: the nearest of several words, the correct form of an address. */
#include <arpa/inet.h>
#include <net/if.h>
#include <string.h>
#include <strings.h>

#include "cli.h"
#include "util/parse.h"

#define WORD_MAX 40

static unsigned int min3(unsigned int a, unsigned int b, unsigned int c)
{
	unsigned int m = a < b ? a : b;

	return m < c ? m : c;
}

/* The number of letters to add, delete, change or swap with the next one to turn @a into @b. */
static unsigned int distance(const char *a, const char *b)
{
	unsigned int rows[3][WORD_MAX + 1]; /* row i is in rows[i % 3] */
	unsigned int n = (unsigned int)strlen(b), i, j;

	if (strlen(a) > WORD_MAX || n > WORD_MAX)
		return WORD_MAX;
	for (j = 0; j <= n; j++)
		rows[0][j] = j;
	for (i = 1; a[i - 1]; i++) {
		const unsigned int *two = rows[(i + 1) % 3], *up = rows[(i + 2) % 3];
		unsigned int *row = rows[i % 3];

		row[0] = i;
		for (j = 1; j <= n; j++) {
			row[j] =
				min3(up[j] + 1, row[j - 1] + 1, up[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    two[j - 2] + 1 < row[j])
				row[j] = two[j - 2] + 1;
		}
	}
	return rows[(i + 2) % 3][n];
}

void cli_nearest(struct cli_nearest *near, const char *candidate)
{
	size_t len = strlen(near->word);
	unsigned int d = distance(near->word, candidate);

	/* A candidate that begins with the word is preferred to one with other letters. */
	if (len >= 3 && strncmp(near->word, candidate, len) == 0)
		d = 1;
	if (d <= (len < 4 ? 1 : 2) && (!near->found || d < near->best)) {
		near->found = candidate;
		near->best = d;
	}
}

/* Whether the text consists of decimal digits. */
static bool is_number(const char *text)
{
	return *text && text[strspn(text, "0123456789")] == '\0';
}

bool cli_check_traddr(const char *traddr)
{
	const char *colon = strchr(traddr, ':'), *end;

	if (strncasecmp(traddr, "nvme+", 5) == 0) {
		cli_error("--traddr: \"%s\" is a URI; give it without the option", traddr);
		return false;
	}
	if (traddr[0] == '[') {
		end = strchr(traddr, ']');
		cli_error("--traddr: \"%s\": without brackets: --traddr=%.*s%s%s", traddr,
			  (int)(end ? end - traddr - 1 : 0), traddr + 1,
			  end && end[1] == ':' ? " --trsvcid=" : "",
			  end && end[1] == ':' ? end + 2 : "");
		return false;
	}
	/* A text with exactly one colon is not an IPv6 address. */
	if (colon && !strchr(colon + 1, ':') && is_number(colon + 1)) {
		cli_error("--traddr: \"%s\": the port has its own option: --traddr=%.*s "
			  "--trsvcid=%s",
			  traddr, (int)(colon - traddr), traddr, colon + 1);
		return false;
	}
	return true;
}

bool cli_check_trsvcid(const char *name, const char *trsvcid)
{
	uint64_t port;

	if (rd_parse_u64(trsvcid, 1, 65535, &port) == 0)
		return true;
	cli_error("--%s: \"%s\" is not a port, a number from 1 to 65535", name, trsvcid);
	return false;
}

bool cli_check_host_traddr(const char *name, const char *addr)
{
	struct in6_addr buf;
	char plain[INET6_ADDRSTRLEN];

	snprintf(plain, sizeof(plain), "%.*s", (int)strcspn(addr, "%"), addr);
	if (inet_pton(AF_INET, addr, &buf) == 1 || inet_pton(AF_INET6, plain, &buf) == 1)
		return true;
	if (if_nametoindex(addr))
		cli_error("--%s: \"%s\" is an interface; give one of its addresses (ip "
			  "address show %s)",
			  name, addr, addr);
	else
		cli_error("--%s: \"%s\" is not an address of this machine, such as "
			  "192.0.2.1",
			  name, addr);
	return false;
}

bool cli_check_secret_file(const char *name, const char *file)
{
	if (!file[0])
		return cli_error("--%s: the name of the file is empty", name), false;
	if (strncmp(file, "DHHC-1:", 7) != 0 && strncmp(file, "NVMeTLSkey-1:", 13) != 0)
		return true;
	cli_error("--%s: found a secret, expected the name of a file that contains it: every user "
		  "of the machine can read command lines. Write a new secret to a file that only "
		  "you can read (umask 077; rdinit %s >FILE)",
		  name, file[0] == 'D' ? "gen-dhchap-key" : "gen-tls-key");
	return false;
}

/* @text lacks the scheme, or is an address alone. */
static void no_uri(const char *text)
{
	char with_scheme[RDINIT_URI_SIZE], shown[RDINIT_URI_SIZE];
	struct rdinit_uri uri, address;

	rdinit_uri_init(&uri);
	rdinit_uri_init(&address);
	address.no_port = true;
	snprintf(with_scheme, sizeof(with_scheme), "nvme+rdma://%s", text);
	snprintf(address.traddr, sizeof(address.traddr), "%s", text);
	if (strlen(text) >= sizeof(address.traddr) ||
	    (rdinit_uri_parse(with_scheme, &uri) ? rdinit_uri_format(&address, shown)
						 : rdinit_uri_format(&uri, shown)))
		cli_error("\"%.300s\" is not a URI; expected "
			  "nvme+rdma://HOST[:PORT]/SUBNQN[/NSID], or nvme+tcp://",
			  text);
	else
		cli_error("\"%s\" is not a URI; write %s%s%s", text, shown,
			  uri.subnqn[0] ? "" : ", or --traddr=", uri.subnqn[0] ? "" : text);
}

bool cli_check_uri(const char *uri)
{
	if (strncmp(uri, "/dev/", 5) == 0)
		cli_error("\"%s\" is a kernel device, but rdinit makes its own connection: give a "
			  "URI, "
			  "nvme+rdma://HOST[:PORT]/SUBNQN[/NSID], or nvme+tcp://",
			  uri);
	else if (!strstr(uri, "://"))
		no_uri(uri);
	else
		return true;
	return false;
}

int cli_unknown_verb(const char *word)
{
	static const char *const kernel[] = {"connect", "connect-all", "disconnect",
					     "disconnect-all"};
	struct cli_nearest near = {.word = word};
	size_t i;

	for (i = 0; i < sizeof(kernel) / sizeof(kernel[0]); i++) {
		if (strcmp(word, kernel[i]) == 0)
			return cli_usage_error(
				"\"%s\" is not a verb: each verb of rdinit connects and "
				"disconnects by itself; `rdinit connect-test` tries "
				"a connection",
				word);
	}
	for (i = 0; i < cli_verbs_n; i++)
		cli_nearest(&near, cli_verbs[i].name);
	if (near.found)
		return cli_usage_error("\"%s\" is not a verb; did you mean \"%s\"? (rdinit --help "
				       "lists them)",
				       word, near.found);
	return cli_usage_error("\"%s\" is not a verb; rdinit --help lists them", word);
}
