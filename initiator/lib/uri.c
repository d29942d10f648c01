/* SPDX-License-Identifier: BSD-3-Clause */
/* nvme+rdma:// or nvme+tcp://HOST[:PORT][/SUBNQN[/NSID]][?OPTION]: the one place that reads and
 * writes it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "internal.h"
#include "util/parse.h"

#define SCHEME "nvme+rdma://"
#define TCP    "nvme+tcp://"
/* Characters of a bad URI in an error text, which has room for the reason behind them. */
#define SHOWN 320

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Decodes percent-encoding of [@in, @in + @n) into @out. Returns NULL or the error as text. */
static const char *decode(const char *in, size_t n, char *out, size_t out_len)
{
	size_t i, o = 0;

	for (i = 0; i < n; i++) {
		int c = (unsigned char)in[i];

		if (c == '%') {
			if (i + 2 >= n || hex(in[i + 1]) < 0 || hex(in[i + 2]) < 0)
				return "has a % that two hexadecimal digits do not follow";
			c = hex(in[i + 1]) << 4 | hex(in[i + 2]);
			i += 2;
			if (c == 0)
				return "contains %00";
		}
		if (o + 1 >= out_len)
			return "is too long";
		out[o++] = (char)c;
	}
	out[o] = '\0';
	return NULL;
}

/* An IPv6 scope may be written as "%25eth0" (RFC 6874) or plainly as "%eth0". */
static const char *decode_v6(const char *in, size_t n, char *out, size_t out_len)
{
	const char *pct = memchr(in, '%', n);
	size_t head = pct ? (size_t)(pct - in) : n;
	size_t skip = head;

	if (pct && n - head >= 3 && memcmp(pct, "%25", 3) == 0)
		skip += 2; /* continue at the 5, which is replaced by % below */
	if (n >= out_len)
		return "is too long";
	memcpy(out, in, head);
	memcpy(out + head, in + skip, n - skip);
	if (pct)
		out[head] = '%';
	out[head + n - skip] = '\0';
	return NULL;
}

/* Parses HOST[:PORT] in [@p, @end). Returns NULL or the error as text. */
static const char *parse_authority(const char *p, const char *end, struct rdinit_uri *uri)
{
	const char *host = p, *host_end, *rest, *bad;
	struct sockaddr_storage ss;
	uint64_t port;

	if (memchr(p, '@', (size_t)(end - p)))
		return "the host must not have a user name";
	if (p < end && *p == '[') {
		host = p + 1;
		host_end = memchr(host, ']', (size_t)(end - host));
		if (!host_end)
			return "the host has a [ without ]";
		bad = decode_v6(host, (size_t)(host_end - host), uri->traddr, sizeof(uri->traddr));
		if (!bad && (!strchr(uri->traddr, ':') || rd_addr_parse(uri->traddr, 1, &ss)))
			return "the host in brackets is not an IPv6 address";
		rest = host_end + 1;
	} else {
		host_end = memchr(p, ':', (size_t)(end - p));
		if (host_end && memchr(host_end + 1, ':', (size_t)(end - host_end - 1)))
			return "an IPv6 address must be in brackets, as in "
			       "\"nvme+rdma://[::1]:4420/NQN\", and the shell needs it quoted";
		if (!host_end)
			host_end = end;
		bad = decode(host, (size_t)(host_end - host), uri->traddr, sizeof(uri->traddr));
		if (!bad && strchr(uri->traddr, ':'))
			return "the host has an encoded colon; an IPv6 address must be in brackets";
		rest = host_end;
	}
	if (bad)
		return bad;
	if (uri->traddr[0] == '\0')
		return "the host is missing";
	snprintf(uri->trsvcid, sizeof(uri->trsvcid), "%d", NVMF_RDMA_PORT);
	uri->no_port = rest == end;
	if (uri->no_port)
		return NULL;
	if (*rest != ':')
		return "the host must be followed by a port or a /";
	if ((size_t)(end - rest - 1) >= sizeof(uri->trsvcid))
		return "the port is not a number from 1 to 65535";
	memcpy(uri->trsvcid, rest + 1, (size_t)(end - rest - 1));
	uri->trsvcid[end - rest - 1] = '\0';
	if (rd_parse_u64(uri->trsvcid, 1, 65535, &port))
		return "the port is not a number from 1 to 65535";
	snprintf(uri->trsvcid, sizeof(uri->trsvcid), "%u", (unsigned int)port);
	return NULL;
}

/* Parses SUBNQN[/NSID] in [@p, @stop). Returns NULL or the error as text, with the bad part in
 * *@what. */
static const char *parse_path(const char *p, const char *stop, struct rdinit_uri *uri,
			      const char **what)
{
	const char *slash = memchr(p, '/', (size_t)(stop - p));
	const char *end = slash ? slash : stop;
	char number[16];
	const char *bad;
	uint64_t nsid;

	if (p == end)
		return slash ? "the subsystem NQN is missing" : NULL;
	bad = decode(p, (size_t)(end - p), uri->subnqn, sizeof(uri->subnqn));
	if (bad)
		return "the subsystem NQN is too long or has a malformed % escape";
	*what = "the subsystem NQN ";
	bad = nvmf_nqn_unusable(uri->subnqn);
	if (bad)
		return bad;
	*what = "";
	if (!slash || slash + 1 == stop)
		return NULL;
	snprintf(number, sizeof(number), "%.*s", (int)(stop - slash - 1), slash + 1);
	if ((size_t)(stop - slash - 1) >= sizeof(number) ||
	    rd_parse_u64(number, 1, NVME_NSID_ALL - 1, &nsid))
		return "the namespace id, after the / that follows the NQN, is not a number from 1 "
		       "to 4294967294 (a / that belongs to the NQN is written %2F)";
	uri->nsid = (uint32_t)nsid;
	return NULL;
}

/* Parses the part after the ?, which may be empty. Returns NULL or the error as text. */
static const char *parse_query(const char *p, struct rdinit_uri *uri)
{
	if (*p == '#')
		return "a fragment (#) has no meaning here";
	if (*p == '\0')
		return NULL;
	if (strcmp(p, "?no-remote-invalidate") != 0)
		return "the option after the ? is unknown; only no-remote-invalidate is supported";
	if (uri->tcp)
		return "?no-remote-invalidate is for nvme+rdma:// only: leave it out";
	uri->no_remote_invalidate = true;
	return NULL;
}

void rdinit_uri_init_size(struct rdinit_uri *uri, size_t size)
{
	rdi_zero_sized(uri, size);
}

int rdinit_uri_parse(const char *text, struct rdinit_uri *uri)
{
	struct rdinit_uri u;
	const char *p, *end, *stop, *bad, *what = "", *cut;

	int rc = RDI_CHECK_SIZE(__func__, uri, rdinit_uri, RDI_URI_FIRST);

	if (rc)
		return rc;
	if (!text)
		return rdi_fail(__func__, -EINVAL, "text is NULL");
	cut = strlen(text) > SHOWN ? "..." : "";
	rdinit_uri_init(&u);
	u.tcp = strncasecmp(text, TCP, strlen(TCP)) == 0;
	if (!u.tcp && strncasecmp(text, SCHEME, strlen(SCHEME)))
		return rdi_fail(__func__, -EINVAL, "\"%.*s%s\" does not start with %s or %s", SHOWN,
				text, cut, SCHEME, TCP);
	p = text + strlen(u.tcp ? TCP : SCHEME);
	end = p + strcspn(p, "/?#");
	stop = p + strcspn(p, "?#");
	bad = parse_authority(p, end, &u);
	if (!bad && *end == '/')
		bad = parse_path(end + 1, stop, &u, &what);
	if (!bad)
		bad = parse_query(stop, &u);
	if (bad)
		return rdi_fail(__func__, -EINVAL, "\"%.*s%s\": %s%s", SHOWN, text, cut, what, bad);
	rdi_put_sized(uri, uri->size, &u, sizeof(u));
	return 0;
}

/* ---- the way back ---- */

struct uri_text {
	char *text;
	size_t len;
};

static void uri_put(struct uri_text *w, const char *text)
{
	while (*text && w->len + 1 < RDINIT_URI_SIZE)
		w->text[w->len++] = *text++;
	w->text[w->len] = '\0';
}

/*
 * Everything that RFC 3986 does not call unreserved is encoded, except the colon of NQNs. So a URI
 * is one word for a shell, and contains no comma, at which fio divides its list of URIs.
 */
static void uri_put_encoded(struct uri_text *w, const char *in)
{
	char code[4] = "";

	for (; *in; in++) {
		unsigned char c = (unsigned char)*in;

		if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		    strchr("-._~:", c))
			snprintf(code, sizeof(code), "%c", c);
		else
			snprintf(code, sizeof(code), "%%%02X", c);
		uri_put(w, code);
	}
}

static void uri_put_host(struct uri_text *w, const char *host)
{
	const char *scope = strchr(host, '%');
	char head[sizeof(((struct rdinit_uri *)0)->traddr)];

	if (!strchr(host, ':')) {
		uri_put_encoded(w, host);
		return;
	}
	snprintf(head, sizeof(head), "%.*s", (int)(scope ? scope - host : -1), host);
	uri_put(w, "[");
	uri_put(w, head);
	if (scope) {
		uri_put(w, "%25");
		uri_put(w, scope + 1);
	}
	uri_put(w, "]");
}

static void uri_put_number(struct uri_text *w, const char *before, uint32_t n)
{
	char number[16];

	snprintf(number, sizeof(number), "%s%u", before, n);
	uri_put(w, number);
}

static bool same_uri(const struct rdinit_uri *a, const struct rdinit_uri *b)
{
	return strcmp(a->traddr, b->traddr) == 0 && strcmp(a->trsvcid, b->trsvcid) == 0 &&
	       strcmp(a->subnqn, b->subnqn) == 0 && a->nsid == b->nsid &&
	       a->no_remote_invalidate == b->no_remote_invalidate && a->tcp == b->tcp;
}

/* Reading the text again is the check: no text leaves here that opens anything else. */
int rdinit_uri_format(const struct rdinit_uri *uri, char *text)
{
	struct rdinit_uri u, back;
	struct uri_text w = {.text = text};
	int rc = RDI_CHECK_SIZE(__func__, uri, rdinit_uri, RDI_URI_FIRST);

	if (rc)
		return rc;
	if (!text)
		return rdi_fail(__func__, -EINVAL, "text is NULL");
	rdinit_uri_init(&u);
	rdi_put_sized(&u, sizeof(u), uri, uri->size);
	u.size = sizeof(u);
	if (!u.trsvcid[0])
		snprintf(u.trsvcid, sizeof(u.trsvcid), "%d", NVMF_RDMA_PORT);
	uri_put(&w, u.tcp ? TCP : SCHEME);
	uri_put_host(&w, u.traddr);
	/* A program may have set a port in what it parsed. */
	if (!u.no_port || strtoul(u.trsvcid, NULL, 10) != NVMF_RDMA_PORT) {
		uri_put(&w, ":");
		uri_put(&w, u.trsvcid);
	}
	if (u.subnqn[0] || u.nsid) {
		uri_put(&w, "/");
		uri_put_encoded(&w, u.subnqn);
	}
	if (u.nsid)
		uri_put_number(&w, "/", u.nsid);
	if (u.no_remote_invalidate)
		uri_put(&w, "?no-remote-invalidate");
	rdinit_uri_init(&back);
	rc = rdinit_uri_parse(text, &back);
	if (rc)
		return rc;
	if (!same_uri(&u, &back))
		return rdi_fail(__func__, -EINVAL,
				"the parts that became \"%s\" are not an address", text);
	return 0;
}
