/* SPDX-License-Identifier: BSD-3-Clause */
#include "t_raw.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/crc32c.h"
#include "util/sockaddr.h"

size_t t_unhex(const char *hex, uint8_t *out)
{
	size_t n = 0;

	while (*hex) {
		char two[3] = {hex[0], hex[1], 0};

		if (*hex == ' ') {
			hex++;
			continue;
		}
		out[n++] = (uint8_t)strtoul(two, NULL, 16);
		hex += 2;
	}
	return n;
}

void t_raw_connect_from(struct t_raw *r, struct t_pair *p, const char *addr)
{
	const struct sockaddr *sa = (const struct sockaddr *)&p->lis->addr;
	struct sockaddr_storage from;
	int one = 1;

	r->p = p;
	r->fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CU_ASSERT_FATAL(r->fd >= 0);
	if (addr) {
		CU_ASSERT_EQUAL_FATAL(rd_addr_parse(addr, 0, &from), 0);
		bind(r->fd, (struct sockaddr *)&from, rd_addr_len((struct sockaddr *)&from));
	}
	/* The kernel completes the handshake from the backlog, without the loop. */
	CU_ASSERT_EQUAL_FATAL(connect(r->fd, sa, rd_addr_len(sa)), 0);
	setsockopt(r->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	fcntl(r->fd, F_SETFL, O_NONBLOCK);
}

void t_raw_connect(struct t_raw *r, struct t_pair *p)
{
	t_raw_connect_from(r, p, NULL);
}

void t_raw_send(struct t_raw *r, const void *buf, size_t len)
{
	uint64_t end = t_now() + T_WAIT;

	while (len && t_now() < end) {
		ssize_t n = send(r->fd, buf, len, MSG_NOSIGNAL);

		if (n > 0) {
			buf = (const uint8_t *)buf + n;
			len -= (size_t)n;
		} else if (errno != EAGAIN) {
			return; /* the test finds that out when it reads */
		}
		t_turn(r->p, 0);
	}
	CU_ASSERT_EQUAL(len, 0);
}

void t_raw_hex(struct t_raw *r, const char *hex)
{
	uint8_t buf[2048];

	t_raw_send(r, buf, t_unhex(hex, buf));
}

bool t_raw_recv(struct t_raw *r, void *buf, size_t len)
{
	uint64_t end = t_now() + T_WAIT;

	while (len && t_now() < end) {
		ssize_t n = recv(r->fd, buf, len, 0);

		if (n == 0 || (n < 0 && errno != EAGAIN))
			return false;
		if (n > 0) {
			buf = (uint8_t *)buf + n;
			len -= (size_t)n;
		} else {
			t_turn(r->p, RD_NSEC_PER_MSEC);
		}
	}
	return len == 0;
}

bool t_raw_eof(struct t_raw *r)
{
	uint64_t end = t_now() + T_WAIT;
	uint8_t byte;

	while (t_now() < end) {
		ssize_t n = recv(r->fd, &byte, 1, 0);

		if (n == 0)
			return true;
		if (n > 0 || errno != EAGAIN)
			return false;
		t_turn(r->p, RD_NSEC_PER_MSEC);
	}
	return false;
}

bool t_raw_reset(struct t_raw *r)
{
	uint8_t byte;

	return recv(r->fd, &byte, 1, 0) < 0 && errno == ECONNRESET;
}

bool t_raw_quiet(struct t_raw *r, uint64_t ns)
{
	uint64_t end = t_now() + ns;
	uint8_t byte;

	while (t_now() < end)
		t_turn(r->p, RD_NSEC_PER_MSEC);
	return recv(r->fd, &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN;
}

void t_raw_close(struct t_raw *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
}

void t_raw_open(struct t_raw *r, struct t_pair *p, uint8_t flags)
{
	uint8_t req[24], rep[24];
	size_t n = t_unhex("4d504120494420526571204672616d65 10 02 0004 0080 0080", req);

	req[16] |= flags;
	t_raw_connect(r, p);
	t_raw_send(r, req, n);
	CU_ASSERT_FATAL(t_raw_recv(r, rep, sizeof(rep)));
	CU_ASSERT_EQUAL(memcmp(rep, RD_MPA_KEY_REP, 16), 0);
	T_UNTIL(p, p->sv.established);
}

void t_raw_serve(struct t_raw *r, struct t_pair *p)
{
	struct sockaddr_storage ss = p->lis->addr, real = ss;
	socklen_t len = rd_addr_len((struct sockaddr *)&ss);
	int lfd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	r->p = p;
	if (!t_verbs())
		rd_iw_test_set_poke_ns(p->cl.fab, T_NO_POKES);
	CU_ASSERT_FATAL(lfd >= 0);
	rd_addr_set_port((struct sockaddr *)&ss, 0);
	CU_ASSERT_EQUAL_FATAL(bind(lfd, (struct sockaddr *)&ss, len), 0);
	CU_ASSERT_EQUAL_FATAL(listen(lfd, 1), 0);
	getsockname(lfd, (struct sockaddr *)&ss, &len);
	p->lis->addr = ss;
	t_pair_start(p);
	p->lis->addr = real;
	T_UNTIL(p, p->cl.resolved);
	r->fd = accept(lfd, NULL, NULL);
	CU_ASSERT_FATAL(r->fd >= 0);
	setsockopt(r->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	fcntl(r->fd, F_SETFL, O_NONBLOCK);
	close(lfd);
}

void t_raw_expect_term(struct t_raw *r, uint32_t code)
{
	uint8_t buf[RD_TERM_MAX_LEN + 8], len[2];
	size_t n;

	CU_ASSERT_FATAL(t_raw_recv(r, len, 2));
	n = (size_t)len[0] << 8 | len[1];
	CU_ASSERT_FATAL(n >= 22 && n <= RD_TERM_MAX_LEN - 2);
	n += rd_iw_pad((uint32_t)n + 2) + 4;
	CU_ASSERT_FATAL(t_raw_recv(r, buf, n));
	CU_ASSERT_EQUAL(buf[0], 0x41);
	CU_ASSERT_EQUAL(buf[1], 0x47);
	CU_ASSERT_EQUAL(buf[9], RD_DDP_QN_TERM);
	CU_ASSERT_EQUAL(buf[13], 1);
	CU_ASSERT_EQUAL(buf[18], (uint8_t)((code >> 16) << 4 | (code >> 8)));
	CU_ASSERT_EQUAL(buf[19], (uint8_t)code);
	CU_ASSERT(t_raw_eof(r));
}

size_t t_fpdu(uint8_t *out, const uint8_t *hdr, size_t hdr_len, const void *payload, size_t plen,
	      bool crc)
{
	size_t n = hdr_len;

	memmove(out, hdr, hdr_len);
	if (plen)
		memcpy(out + n, payload, plen);
	n += plen;
	while (n & 3)
		out[n++] = 0;
	memset(out + n, 0, 4);
	if (crc)
		rd_crc32c_put(rd_crc32c(RD_CRC32C_SEED, out, n), out + n);
	return n + 4;
}

size_t t_fpdu_send(uint8_t *out, uint32_t msn, uint32_t mo, bool last, const void *payload,
		   uint32_t plen)
{
	size_t n = rd_iw_put_untagged(out, RD_RDMAP_SEND, last, 0, 0, msn, mo, plen);

	return t_fpdu(out, out, n, payload, plen, false);
}

size_t t_fpdu_tagged(uint8_t *out, enum rd_rdmap_op op, uint32_t stag, uint64_t to, bool last,
		     const void *payload, uint32_t plen)
{
	size_t n = rd_iw_put_tagged(out, op, last, stag, to, plen);

	return t_fpdu(out, out, n, payload, plen, false);
}

size_t t_fpdu_read(uint8_t *out, uint32_t msn, uint32_t stag, uint64_t to, uint32_t size)
{
	struct rd_iw_read rd = {.sink_stag = 0x1234,
				.sink_to = 0x1000,
				.size = size,
				.src_stag = stag,
				.src_to = to};
	size_t n = rd_iw_put_read_req(out, msn, &rd);

	return t_fpdu(out, out, n, NULL, 0, false);
}
