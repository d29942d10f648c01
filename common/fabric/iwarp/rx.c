/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reception: a state machine over a byte stream, independent of how TCP cuts it. One readv(2) reads
 * the rest of the payload in progress directly to its destination, and what follows it into the
 * staging buffer, which is always used up before the callback returns.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>

#include "util/crc32c.h"
#include "conn.h"
#include "scratch.h"

#define ACK_BYTES 40000 /* a read of fewer bytes is left to TCP */
#define ACK_FPDUS 8     /* a read with as many is dense */
#define ACK_MSS   16384
#define ACK_OFTEN (4 * RD_NSEC_PER_MSEC)

/* @bytes have been read at once: acknowledges them if it pays. */
static void ack_read(struct rd_iw_conn *c, size_t bytes)
{
	const struct rd_iw_rx_ack *ack = &c->rx.ack;
	int on = 1;

	if (bytes < ACK_BYTES || !ack->large_mss || !ack->dense || !ack->often)
		return;
	/* When it fails TCP acknowledges in its own time. */
	if (setsockopt(c->io.fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on)) == 0)
		c->fab->stats.quick_acks++;
}

#define RX_ROUNDS 4 /* readv calls before other connections get their turn */

/*
 * Between the segments of a large message, and while a large segment is in progress, another
 * segment usually follows. With a short staging part most of its payload stays in the socket and is
 * read directly to its destination, not copied from the staging buffer.
 */
#define RX_LARGE 16384u
#define RX_SHORT 4096u

static void rx_reset(struct rd_iw_rx *rx)
{
	rx->state = RD_IW_RX_HEADER;
	rx->have = 0;
	rx->need = sizeof(struct rd_ddp_ctrl);
	rx->sized = false;
}

static uint32_t trailer_len(const struct rd_iw_rx *rx)
{
	return rd_iw_pad(rx->hdr_len + rx->h.plen) + RD_MPA_CRC_LEN;
}

static void to_trailer(struct rd_iw_rx *rx)
{
	rx->state = RD_IW_RX_TRAILER;
	rx->have = 0;
	rx->need = (uint8_t)trailer_len(rx);
}

/*
 * Copies the missing bytes of a header or trailer from @p, as far as there are any. Returns how
 * many.
 */
static size_t collect_bytes(struct rd_iw_rx *rx, uint8_t *buf, const uint8_t *p, size_t n)
{
	size_t want = (size_t)(rx->need - rx->have);

	if (n > want)
		n = want;
	memcpy(buf + rx->have, p, n);
	rx->have += (uint8_t)n;
	return n;
}

/*
 * Begins the FPDU of a complete header. Returns 0, 1 (it waits for a RECV) or -1 (the connection
 * ended).
 */
static int begin_fpdu(struct rd_iw_conn *c, bool whole)
{
	struct rd_iw_rx *rx = &c->rx;
	int rc = rd_iw_fpdu_begin(c, whole);

	if (rc)
		return rc;
	rx->left = rx->h.plen;
	if (rx->left)
		rx->state = RD_IW_RX_PAYLOAD;
	else
		to_trailer(rx);
	return 0;
}

/*
 * rx.need bytes of the header have been collected, and @behind bytes follow in the same read. A
 * message that has been received completely, and needs no CRC check first, takes its RECV now;
 * every other message takes it with its last byte. Returns as begin_fpdu().
 */
static int header_done(struct rd_iw_conn *c, size_t behind)
{
	struct rd_iw_rx *rx = &c->rx;
	struct rd_ddp_ctrl ctrl;
	uint32_t term = 0;

	if (!rx->sized) {
		memcpy(&ctrl, rx->hdr, sizeof(ctrl));
		rx->need = (uint8_t)rd_iw_hdr_length(&ctrl, &term);
		if (!rx->need) {
			rx->hdr_len = rx->have;
			rd_iw_conn_term(c, term, term >> 16 != 2);
			return -1;
		}
		rx->sized = true;
		return 0;
	}
	rx->hdr_len = rx->need;
	rd_iw_hdr_parse(rx->hdr, &rx->h);
	if (c->crc)
		rx->crc = rd_crc32c(RD_CRC32C_SEED, rx->hdr, rx->hdr_len);
	return begin_fpdu(c, !c->crc && behind >= rx->h.plen + trailer_len(rx));
}

/* Returns 0, 1 (the message waits for a RECV) or -1 (the connection ended). */
static int trailer_done(struct rd_iw_conn *c)
{
	struct rd_iw_rx *rx = &c->rx;
	int rc;

	if (c->crc) {
		size_t pad = (size_t)rx->need - RD_MPA_CRC_LEN;
		uint8_t crc[RD_MPA_CRC_LEN];

		rd_crc32c_put(rd_crc32c(rx->crc, rx->trail, pad), crc);
		if (memcmp(crc, rx->trail + pad, sizeof(crc)) != 0) {
			rd_iw_conn_term(c, RD_TERM_MPA_CRC, false);
			return -1;
		}
	}
	c->fab->stats.fpdus_rx++;
	if (!rx->h.last && rx->h.plen < RD_RX_PIECE_MAX)
		rx->turn.pieces++;
	rc = rd_iw_fpdu_end(c);
	if (rc >= 0)
		rx_reset(rx);
	return rc == 0 && __builtin_expect(c->hold, 0) && rd_iw_rx_stop(c) ? 1 : rc;
}

/* @n bytes of payload have been written to their destination @iov. */
static void payload_placed(struct rd_iw_conn *c, const struct iovec *iov, size_t n)
{
	struct rd_iw_rx *rx = &c->rx;

	rx->left -= (uint32_t)n;
	for (int i = 0; c->crc && n; i++) {
		size_t part = iov[i].iov_len < n ? iov[i].iov_len : n;

		rx->crc = rd_crc32c(rx->crc, iov[i].iov_base, part);
		n -= part;
	}
	if (rx->left == 0)
		to_trailer(rx);
}

static size_t keep_terminate(struct rd_iw_rx *rx, const uint8_t *p, size_t n)
{
	size_t room = sizeof(rx->term) - rx->term_len;

	if (n > rx->left)
		n = rx->left;
	memcpy(rx->term + rx->term_len, p, n < room ? n : room);
	rx->term_len += (uint8_t)(n < room ? n : room);
	return n;
}

/* Copies @n bytes to @iov. Returns how many fitted. */
static size_t scatter_bytes(const struct iovec *iov, int count, const uint8_t *p, size_t n)
{
	size_t done = 0;

	for (int i = 0; i < count && done < n; i++) {
		size_t part = iov[i].iov_len < n - done ? iov[i].iov_len : n - done;

		memcpy(iov[i].iov_base, p + done, part);
		done += part;
	}
	return done;
}

/* Returns the number of bytes used, or -1 (the connection ended). */
static ssize_t place_payload(struct rd_iw_conn *c, const uint8_t *p, size_t n)
{
	struct iovec iov[RD_IW_MAX_SGE];
	size_t done;
	int count;

	if (c->rx.h.op == RD_RDMAP_TERMINATE) {
		n = keep_terminate(&c->rx, p, n);
		iov[0].iov_base = (void *)(uintptr_t)p;
		iov[0].iov_len = n;
		payload_placed(c, iov, n);
		return (ssize_t)n;
	}
	count = rd_iw_fpdu_dest(c, iov);
	if (count < 0)
		return -1;
	done = scatter_bytes(iov, count, p, n);
	payload_placed(c, iov, done);
	return (ssize_t)done;
}

/*
 * Keeps the @n bytes at @p, which follow a message that waits for a RECV. Returns 1, or -1 (the
 * connection ended).
 */
static int keep_rest(struct rd_iw_conn *c, const uint8_t *p, size_t n)
{
	if (!rd_rx_rest_keep(&c->rx.rest, p, n)) {
		rd_iw_conn_end(c, -ENOMEM, "out of memory");
		return -1;
	}
	rd_iw_conn_watch(c);
	return c->state == RD_IW_OPEN ? 1 : -1;
}

/*
 * Returns 0 (all bytes are used), 1 (a message waits, and the rest is kept) or -1 (the connection
 * ended).
 */
static int consume_stream(struct rd_iw_conn *c, const uint8_t *p, size_t n)
{
	struct rd_iw_rx *rx = &c->rx;

	while (n) {
		size_t used = 0;
		ssize_t rc = 0;

		switch (rx->state) {
		case RD_IW_RX_HEADER:
			if (!rx->have)
				used = rd_iw_rx_fast(c, p, n);
			if (used)
				break;
			used = collect_bytes(rx, rx->hdr, p, n);
			if (rx->have == rx->need)
				rc = header_done(c, n - used);
			if (rc)
				return rc < 0 ? -1 : keep_rest(c, p + used, n - used);
			break;
		case RD_IW_RX_PAYLOAD:
			rc = place_payload(c, p, n);
			if (rc < 0)
				return -1;
			used = (size_t)rc;
			break;
		case RD_IW_RX_TRAILER:
			used = collect_bytes(rx, rx->trail, p, n);
			if (rx->have == rx->need)
				rc = trailer_done(c);
			if (rc)
				return rc < 0 ? -1 : keep_rest(c, p + used, n - used);
			break;
		}
		p += used;
		n -= used;
	}
	return 0;
}

static void rx_end_of_file(struct rd_iw_conn *c)
{
	if (c->rx.state == RD_IW_RX_HEADER && c->rx.have == 0)
		rd_iw_conn_end(c, 0, "closed by the peer");
	else
		rd_iw_conn_end(c, -ECONNRESET, "closed by the peer in the middle of a frame");
}

static size_t staging_room(const struct rd_iw_conn *c)
{
	/* Bytes behind a message that waits must be kept: read few of them. */
	if (c->rx.turn.room > RX_SHORT && c->srq && rd_iw_srq_scarce(c))
		return RX_SHORT;
	return c->rx.turn.room;
}

void rd_iw_rx_open(struct rd_iw_conn *c)
{
	rx_reset(&c->rx);
	c->rx.turn.room = RX_SHORT; /* nothing is known about its FPDUs yet */
	c->rx.send_msn = c->rx.read_msn = 1;
	c->rx.ack.large_mss = rd_iw_conn_mss(c) >= ACK_MSS;
}

enum rx { RX_ENDED, RX_NOTHING, RX_ALL, RX_MORE };

/* Calls readv once. RX_MORE: the socket may have more. */
static enum rx rx_once(struct rd_iw_conn *c, uint8_t *staging)
{
	struct iovec iov[RD_IW_MAX_SGE + 1];
	struct rd_iw_rx *rx = &c->rx;
	size_t direct = 0, tail = staging_room(c), got;
	uint64_t fpdus = c->fab->stats.fpdus_rx;
	int n = 0;
	ssize_t rc;

	if (rx->state == RD_IW_RX_PAYLOAD && rx->h.op != RD_RDMAP_TERMINATE) {
		n = rd_iw_fpdu_dest(c, iov);
		if (n < 0)
			return RX_ENDED;
		direct = rx->left;
	}
	if (direct >= RX_LARGE || (rx->h.plen >= RX_LARGE && !rx->h.last))
		tail = RX_SHORT;
	iov[n].iov_base = staging;
	iov[n++].iov_len = tail;
	rc = readv(c->io.fd, iov, n);
	c->fab->stats.readv_calls++;
	if (rc < 0) {
		if (errno == EAGAIN || errno == EINTR)
			return RX_NOTHING;
		rd_iw_conn_end(c, -errno, "receive: %s", strerror(errno));
		return RX_ENDED;
	}
	if (rc == 0) {
		rx_end_of_file(c);
		return RX_ENDED;
	}
	ack_read(c, (size_t)rc);
	got = (size_t)rc;
	if (direct) {
		size_t part = got < direct ? got : direct;

		payload_placed(c, iov, part);
		got -= part;
	}
	if (consume_stream(c, staging, got))
		return RX_ENDED;
	fpdus = c->fab->stats.fpdus_rx - fpdus;
	if ((size_t)rc >= ACK_BYTES)
		rx->ack.dense = fpdus >= ACK_FPDUS;
	rd_rx_turn_size(&rx->turn, (size_t)rc, fpdus, RD_IW_STAGING_SIZE);
	return (size_t)rc == direct + tail ? RX_MORE : RX_ALL;
}

/* FPDUs received since the count was @before. */
static uint32_t frames_since(const struct rd_iw_conn *c, uint64_t before)
{
	return (uint32_t)(c->fab->stats.fpdus_rx - before);
}

bool rd_iw_rx_run(struct rd_iw_conn *c)
{
	struct rd_fab_iwarp_scratch *pool = c->dev->scratch;
	uint64_t now = rd_loop_now(c->fab->base.loop), before = c->fab->stats.fpdus_rx;
	struct rd_iw_scratch *s;
	enum rx rx;
	bool any;

	if (rd_rx_turn_waits(&c->dev->pieces, &c->rx.turn, rd_loop_turns(c->fab->base.loop)))
		return true;
	s = rd_iw_scratch_get(pool);
	if (!s) {
		rd_iw_conn_end(c, -ENOMEM, "out of memory");
		return true;
	}
	c->rx.ack.often = now - c->rx.ack.last < ACK_OFTEN;
	rx = rx_once(c, s->staging);
	any = rx != RX_NOTHING;
	if (any)
		c->rx.ack.last = now;
	for (int i = 1; rx == RX_MORE && i < RX_ROUNDS; i++) {
		if (!rd_rx_turn_more(&c->rx.turn, frames_since(c, before)))
			break;
		rx = rx_once(c, s->staging);
	}
	rd_iw_scratch_put(pool, s);
	rd_rx_turn_charge(&c->dev->pieces, &c->rx.turn, frames_since(c, before));
	return any;
}

/* What has been read is received now: behind a message that has its RECV, if @rc is 0. */
static void resume_rest(struct rd_iw_conn *c, uint64_t before, int rc)
{
	struct rd_iw_rx *rx = &c->rx;
	const struct rd_rx_rest *rest = &rx->rest;

	if (rc == 0 && rest->bytes)
		rc = consume_stream(c, rest->bytes + rest->off, rest->len - rest->off);
	rd_rx_turn_late(&c->dev->pieces, &rx->turn, frames_since(c, before));
	if (rc)
		return;
	rd_iw_rx_drop(c);
	rd_iw_conn_watch(c);
}

void rd_iw_rx_resume(struct rd_iw_conn *c)
{
	uint64_t before = c->fab->stats.fpdus_rx;
	int rc;

	if (c->rx.aside_count && !c->hold) {
		rd_iw_hold_over(c);
		return;
	}
	rc = c->rx.recv_active ? rd_iw_fpdu_resume(c) : begin_fpdu(c, true);

	resume_rest(c, before, rc);
}

void rd_iw_rx_go_on(struct rd_iw_conn *c)
{
	resume_rest(c, c->fab->stats.fpdus_rx, 0);
}

void rd_iw_rx_drop(struct rd_iw_conn *c)
{
	rd_iw_srq_unwait(c);
	rd_rx_rest_drop(&c->rx.rest);
}
