/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer made of bytes: a plain socket that says exactly what a test wants said. */
#ifndef T_RAW_H
#define T_RAW_H

#include "fabric/iwarp/ddp.h"
#include "t_fab.h"

/* A client opened with it does not poke: its FPDUs are counted, or are those posted. */
#define T_NO_POKES UINT64_MAX

struct t_raw {
	struct t_pair *p;
	int fd;
};

/* Connect a plain socket to the pair's listener. */
void t_raw_connect(struct t_raw *r, struct t_pair *p);
void t_raw_connect_from(struct t_raw *r, struct t_pair *p, const char *addr);
/* Connect, send an enhanced MPA request, read the reply; the server side is then established. */
void t_raw_open(struct t_raw *r, struct t_pair *p, uint8_t flags);
/* Listen with a plain socket and let the pair's client connect to it; the MPA request is left
 * unread. No pokes; verbs on siw makes them all the same. */
void t_raw_serve(struct t_raw *r, struct t_pair *p);
void t_raw_send(struct t_raw *r, const void *buf, size_t len);
void t_raw_hex(struct t_raw *r, const char *hex);
/* Read exactly @len bytes, running the loop meanwhile. Returns false at the end of the stream. */
bool t_raw_recv(struct t_raw *r, void *buf, size_t len);
/* Nothing but the end of the stream follows. */
bool t_raw_eof(struct t_raw *r);
/* It was reset. */
bool t_raw_reset(struct t_raw *r);
/* Nothing at all follows for @ns. */
bool t_raw_quiet(struct t_raw *r, uint64_t ns);
void t_raw_close(struct t_raw *r);
/* A Terminate with @code follows, then the end. */
void t_raw_expect_term(struct t_raw *r, uint32_t code);

/* FPDUs with pad and a CRC field (right with @crc, zero else). Each returns its length. */
size_t t_fpdu(uint8_t *out, const uint8_t *hdr, size_t hdr_len, const void *payload, size_t plen,
	      bool crc);
size_t t_fpdu_send(uint8_t *out, uint32_t msn, uint32_t mo, bool last, const void *payload,
		   uint32_t plen);
size_t t_fpdu_tagged(uint8_t *out, enum rd_rdmap_op op, uint32_t stag, uint64_t to, bool last,
		     const void *payload, uint32_t plen);
size_t t_fpdu_read(uint8_t *out, uint32_t msn, uint32_t stag, uint64_t to, uint32_t size);

size_t t_unhex(const char *hex, uint8_t *out);

#endif /* T_RAW_H */
