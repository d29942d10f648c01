/* SPDX-License-Identifier: BSD-3-Clause */
/* A raw peer: a plain socket that sends exactly the bytes of a test. */
#ifndef T_RAW_H
#define T_RAW_H

#include "fabric/iwarp/ddp.h"
#include "t_fab.h"

/* The client does not poke, because these tests count its FPDUs. */
#define T_NO_POKES UINT64_MAX

struct t_raw {
	struct t_pair *p;
	int fd;
};

/* Connect a plain socket to the pair's listener. */
void t_raw_connect(struct t_raw *r, struct t_pair *p);
void t_raw_connect_from(struct t_raw *r, struct t_pair *p, const char *addr);
/* Connect, send an enhanced MPA request, read the reply. The server side is then established. */
void t_raw_open(struct t_raw *r, struct t_pair *p, uint8_t flags);
/* Listen with a plain socket and let the pair's client connect to it; the MPA request stays unread.
 * The client does not poke, except with verbs on siw. */
void t_raw_serve(struct t_raw *r, struct t_pair *p);
void t_raw_send(struct t_raw *r, const void *buf, size_t len);
void t_raw_hex(struct t_raw *r, const char *hex);
/* Read exactly @len bytes; the loop runs meanwhile. Returns false at the end of the stream. */
bool t_raw_recv(struct t_raw *r, void *buf, size_t len);
/* Expect the end of the stream, without data before it. */
bool t_raw_eof(struct t_raw *r);
/* Expect a reset. */
bool t_raw_reset(struct t_raw *r);
/* Expect that nothing arrives for @ns. */
bool t_raw_quiet(struct t_raw *r, uint64_t ns);
void t_raw_close(struct t_raw *r);
/* Expect a Terminate with @code, then the end of the stream. */
void t_raw_expect_term(struct t_raw *r, uint32_t code);

/* Build FPDUs with pad and CRC field (correct with @crc, else zero). Each function returns the
 * length. */
size_t t_fpdu(uint8_t *out, const uint8_t *hdr, size_t hdr_len, const void *payload, size_t plen,
	      bool crc);
size_t t_fpdu_send(uint8_t *out, uint32_t msn, uint32_t mo, bool last, const void *payload,
		   uint32_t plen);
size_t t_fpdu_tagged(uint8_t *out, enum rd_rdmap_op op, uint32_t stag, uint64_t to, bool last,
		     const void *payload, uint32_t plen);
size_t t_fpdu_read(uint8_t *out, uint32_t msn, uint32_t stag, uint64_t to, uint32_t size);

size_t t_unhex(const char *hex, uint8_t *out);

#endif /* T_RAW_H */
