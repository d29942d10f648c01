/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transmission. Posting only queues. At the end of the loop iteration all FPDUs that may leave are
 * framed and passed to the socket in as few sendmsg(2) as possible, large payloads directly from
 * the user's memory.
 *
 * Framing advances a cursor (struct rd_iw_cursor), which is reset if the socket takes less than was
 * framed. At most one FPDU is partly sent: its header and trailer are kept, its payload is looked
 * up, and its keys are checked, again when it continues.
 */
#include <errno.h>

#include "util/crc32c.h"
#include "conn.h"
#include "copy.h"
#include "scratch.h"

#define TX_ROUNDS     8 /* sendmsg calls before other connections get their turn */
#define TX_CRC_ROUNDS 64
#define TX_BYTES      1048576u /* per sendmsg: more than a socket usually takes */
#define TX_TURN       1048576u /* maximum that a connection sends in one loop iteration */
#define TX_RESP_BURST 4        /* Read Responses between two work requests, as siw */
#define TX_MSS_AGE    256      /* transmissions until the MSS is asked for again */
#define TX_PLAIN      32768u   /* a payload that fits any FPDU without CRC */
#define TX_FPDU_IOV   (RD_IW_MAX_SGE + 2)

/* ---- what comes next ---- */

static bool sq_ready(const struct rd_iw_conn *c, const struct rd_iw_cursor *cur)
{
	uint16_t ord = c->base.ord ? c->base.ord : 1;
	const struct rd_iw_swr *s;

	if (c->tx.hold || cur->sq == c->sq.tail)
		return false;
	s = rd_iw_sq_at(&c->sq, cur->sq);
	if ((s->flags & IBV_SEND_FENCE) && cur->reads_out)
		return false;
	return s->opcode != IBV_WR_RDMA_READ || cur->reads_out < ord;
}

/* Begins the next message. False: there is none. Responses and work requests take turns. */
static bool begin_tx_message(const struct rd_iw_conn *c, struct rd_iw_cursor *cur)
{
	bool sq = sq_ready(c, cur);

	if (cur->poke) {
		cur->src = RD_IW_SRC_POKE;
		cur->poke = false;
	} else if (cur->resp != c->resp_tail && (!sq || cur->burst < TX_RESP_BURST)) {
		cur->src = RD_IW_SRC_RESP;
		cur->burst++;
	} else if (sq) {
		cur->src = RD_IW_SRC_SQ;
		cur->burst = 0;
	} else {
		return false;
	}
	cur->off = 0;
	return true;
}

/*
 * The largest payload of a segment: a multiple of 4, so that only the last segment of a message is
 * padded.
 */
static uint32_t max_payload(const struct rd_iw_conn *c, size_t hdr_len)
{
	size_t room = c->crc ? (size_t)c->tx.max_fpdu - RD_MPA_CRC_LEN
			     : RD_MPA_LEN_FIELD + RD_MPA_MAX_ULPDU;

	return (uint32_t)(room - hdr_len) & ~3u;
}

static void refresh_mss(struct rd_iw_conn *c)
{
	int mss;

	if (c->tx.max_fpdu && ++c->tx.mss_age < TX_MSS_AGE)
		return;
	c->tx.mss_age = 0;
	mss = rd_iw_conn_mss(c);
	if (mss < 128)
		mss = 536; /* RFC 1122's default */
	if (mss > 65528)
		mss = 65528;
	c->tx.max_fpdu = (uint16_t)(mss & ~7);
}

/* ---- headers ---- */

static bool sge_ok(const struct rd_iw_conn *c, const struct ibv_sge *sge, bool write)
{
	return !sge->length || rd_iw_mr_local_ok(c->dev, sge->lkey, sge->addr, sge->length, write);
}

static bool all_sges_ok(const struct rd_iw_conn *c, const struct rd_iw_swr *s, bool write)
{
	for (int i = 0; i < s->num_sge; i++) {
		if (!sge_ok(c, &s->sge[i], write))
			return false;
	}
	return true;
}

static void cut_segment(const struct rd_iw_conn *c, struct rd_iw_fpdu *f, size_t hdr_len,
			uint32_t left)
{
	uint32_t max = max_payload(c, hdr_len);

	f->plen = left < max ? left : max;
	f->last = f->plen == left;
}

static size_t put_read(const struct rd_iw_conn *c, const struct rd_iw_cursor *cur,
		       const struct rd_iw_swr *s, uint8_t *buf)
{
	struct rd_iw_read rd = {
		.size = s->total,
		.src_stag = s->rkey,
		.src_to = s->remote_addr,
	};

	/* The sink is one range of tagged offsets from its first entry on. */
	if (s->num_sge) {
		rd.sink_stag = s->sge[0].lkey;
		rd.sink_to = rd_iw_mr_shown(c->dev, s->sge);
	}
	return rd_iw_put_read_req(buf, cur->read_msn, &rd);
}

static enum rd_rdmap_op send_op(const struct rd_iw_swr *s)
{
	if (s->flags & IBV_SEND_SOLICITED)
		return s->opcode == IBV_WR_SEND_WITH_INV ? RD_RDMAP_SEND_SE_INV : RD_RDMAP_SEND_SE;
	return s->opcode == IBV_WR_SEND_WITH_INV ? RD_RDMAP_SEND_INV : RD_RDMAP_SEND;
}

/* Builds the header of @plen bytes of a WRITE or SEND from @cur on. */
static inline size_t put_piece(const struct rd_iw_cursor *cur, const struct rd_iw_swr *s, bool last,
			       uint32_t plen, uint8_t *buf)
{
	if (s->opcode == IBV_WR_RDMA_WRITE)
		return rd_iw_put_tagged(buf, RD_RDMAP_WRITE, last, s->rkey,
					s->remote_addr + cur->off, plen);
	return rd_iw_put_untagged(buf, send_op(s), last,
				  s->opcode == IBV_WR_SEND_WITH_INV ? s->rkey : 0, RD_DDP_QN_SEND,
				  cur->send_msn, cur->off, plen);
}

static int put_sq(const struct rd_iw_conn *c, const struct rd_iw_cursor *cur, struct rd_iw_fpdu *f,
		  uint8_t *buf)
{
	const struct rd_iw_swr *s = rd_iw_sq_at(&c->sq, cur->sq);

	if (s->opcode == IBV_WR_RDMA_READ) {
		if (!all_sges_ok(c, s, true))
			return -EFAULT;
		if (c->base.ord == 0)
			return -EOPNOTSUPP;
		f->last = true;
		return (int)put_read(c, cur, s, buf);
	}
	cut_segment(c, f,
		    s->opcode == IBV_WR_RDMA_WRITE ? sizeof(struct rd_ddp_tagged)
						   : sizeof(struct rd_ddp_untagged),
		    s->total - cur->off);
	/*
	 * All keys of a message are checked before its first segment leaves; those of a one-FPDU
	 * message are checked anyway.
	 */
	if (cur->off == 0 && !f->last && !all_sges_ok(c, s, false))
		return -EFAULT;
	return (int)put_piece(cur, s, f->last, f->plen, buf);
}

static int put_resp(const struct rd_iw_conn *c, const struct rd_iw_cursor *cur,
		    struct rd_iw_fpdu *f, uint8_t *buf)
{
	const struct rd_iw_read *r = &c->resps[cur->resp & c->resp_mask];

	cut_segment(c, f, sizeof(struct rd_ddp_tagged), r->size - cur->off);
	return (int)rd_iw_put_tagged(buf, RD_RDMAP_READ_RESP, f->last, r->sink_stag,
				     r->sink_to + cur->off, f->plen);
}

static int put_rtr(const struct rd_iw_conn *c, const struct rd_iw_cursor *cur, struct rd_iw_fpdu *f,
		   uint8_t *buf)
{
	struct rd_iw_read none = {0};

	f->last = true;
	if (f->src == RD_IW_SRC_RTR && c->tx.rtr == RD_IW_RTR_READ)
		return (int)rd_iw_put_read_req(buf, cur->read_msn, &none);
	return (int)rd_iw_put_tagged(buf, RD_RDMAP_WRITE, true, 0, 0, 0);
}

static void advance_cursor(const struct rd_iw_conn *c, struct rd_iw_cursor *cur,
			   const struct rd_iw_fpdu *f)
{
	bool read = false;

	cur->off += f->plen;
	if (!f->last)
		return;
	switch (f->src) {
	case RD_IW_SRC_SQ: {
		uint8_t op = rd_iw_sq_at(&c->sq, cur->sq)->opcode;

		read = op == IBV_WR_RDMA_READ;
		if (op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_INV)
			cur->send_msn++;
		cur->sq++;
		break;
	}
	case RD_IW_SRC_RESP:
		cur->resp++;
		break;
	case RD_IW_SRC_RTR:
		read = c->tx.rtr == RD_IW_RTR_READ;
		break;
	default:
		break;
	}
	if (read) {
		cur->read_msn++;
		cur->reads_out++;
	}
	cur->src = RD_IW_SRC_NONE;
	cur->off = 0;
}

/* ---- one FPDU ---- */

/*
 * Looks up the memory of @f's payload. Returns the number of entries, -EFAULT (invalid local key)
 * or -EACCES (the key that the peer READs is not valid any more).
 */
static int payload_iov(const struct rd_iw_conn *c, const struct rd_iw_fpdu *f, struct iovec *iov)
{
	if (f->plen == 0)
		return 0;
	if (f->src == RD_IW_SRC_SQ) {
		struct rd_iw_swr *s = rd_iw_sq_at(&c->sq, f->from.sq);

		if (s->flags & IBV_SEND_INLINE) {
			iov->iov_base = s->data + f->from.off;
			iov->iov_len = f->plen;
			return 1;
		}
		return rd_iw_sge_iov(c->dev, s->sge, s->num_sge, f->from.off, f->plen, false, iov);
	}
	/* The key may have been taken back since the request came: look at each piece. */
	{
		const struct rd_iw_read *r = &c->resps[f->from.resp & c->resp_mask];
		uint64_t to = r->src_to + f->from.off;

		if (rd_iw_mr_remote(c->dev, r->src_stag, to, f->plen, IBV_ACCESS_REMOTE_READ,
				    &iov->iov_base))
			return -EACCES;
		iov->iov_len = f->plen;
		return 1;
	}
}

/* Does the arena's next byte follow the last entry? One FPDU's trailer and the next one's header
 * are neighbours and share an entry. */
static bool joins_last_iov(const struct rd_iw_batch *b, uint32_t off)
{
	const struct iovec *prev;

	if (!b->niov)
		return false;
	prev = &b->iov[b->niov - 1];
	return (uint8_t *)prev->iov_base + prev->iov_len == b->arena + off;
}

static void add_iov(struct rd_iw_batch *b, const void *start, size_t len)
{
	b->iov[b->niov].iov_base = (void *)(uintptr_t)start;
	b->iov[b->niov++].iov_len = len;
}

static void add_arena(struct rd_iw_batch *b, uint32_t off, uint32_t len)
{
	if (joins_last_iov(b, off))
		b->iov[b->niov - 1].iov_len += len;
	else
		add_iov(b, b->arena + off, len);
}

/* Builds pad and CRC in @trail, which has room for eight bytes. @iov: the payload. */
static void put_trailer(const struct rd_iw_conn *c, struct rd_iw_fpdu *f, const uint8_t *hdr,
			const struct iovec *iov, int niov, uint8_t *trail)
{
	uint32_t pad = rd_iw_pad(f->hdr_len + f->plen);

	memset(trail, 0, sizeof(uint64_t));
	f->trail_len = (uint8_t)(pad + RD_MPA_CRC_LEN);
	if (c->crc) {
		uint32_t crc = rd_crc32c(RD_CRC32C_SEED, hdr, f->hdr_len);

		for (int i = 0; i < niov; i++)
			crc = rd_crc32c(crc, iov[i].iov_base, iov[i].iov_len);
		rd_crc32c_put(rd_crc32c(crc, trail, pad), trail + pad);
	}
}

static void gather_payload(const struct iovec *iov, int niov, uint8_t *to)
{
	for (int i = 0; i < niov; i++) {
		memcpy(to, iov[i].iov_base, iov[i].iov_len);
		to += iov[i].iov_len;
	}
}

/*
 * Adds @f to the batch. The iovec entries of its payload are in place already, behind the one of
 * its header.
 */
static void add_fpdu(struct rd_iw_batch *b, const struct rd_iw_fpdu *f, int niov)
{
	uint32_t front = (uint32_t)f->hdr_len + f->copied;

	add_arena(b, f->arena_off, front);
	if (!f->copied)
		b->niov += (uint32_t)niov;
	add_arena(b, f->arena_off + front, f->trail_len);
	b->arena_used = f->arena_off + front + f->trail_len;
	b->bytes += f->hdr_len + f->plen + f->trail_len;
	b->nfpdu++;
	b->entries++;
}

static void skip_sent(struct rd_iw_batch *b, size_t skip)
{
	uint32_t i = 0;

	b->bytes -= skip;
	while (skip && skip >= b->iov[i].iov_len)
		skip -= b->iov[i++].iov_len;
	b->niov -= i;
	memmove(b->iov, b->iov + i, b->niov * sizeof(b->iov[0]));
	if (skip) {
		b->iov[0].iov_base = (uint8_t *)b->iov[0].iov_base + skip;
		b->iov[0].iov_len -= skip;
	}
}

/* Adds the FPDU that is partly sent as the first one. Returns 0 or -errno. */
static int resume_fpdu(struct rd_iw_conn *c, struct rd_iw_batch *b)
{
	struct rd_iw_fpdu *f = &b->fpdu[0];
	int n;

	*f = c->tx.part;
	f->arena_off = 0;
	f->copied = 0;
	n = payload_iov(c, f, b->iov + 1);
	if (n < 0)
		return n;
	memcpy(b->arena, c->tx.part_bytes, (size_t)f->hdr_len + f->trail_len);
	add_fpdu(b, f, n);
	skip_sent(b, c->tx.part_sent);
	return 0;
}

static int put_header(const struct rd_iw_conn *c, const struct rd_iw_cursor *cur,
		      struct rd_iw_fpdu *f, uint8_t *hdr)
{
	if (f->src == RD_IW_SRC_SQ)
		return put_sq(c, cur, f, hdr);
	if (f->src == RD_IW_SRC_RESP)
		return put_resp(c, cur, f, hdr);
	return put_rtr(c, cur, f, hdr);
}

/* Returns 1 (an FPDU was added), 0 (nothing may leave) or -errno (the next FPDU cannot be sent). */
static int frame_next(struct rd_iw_conn *c, struct rd_iw_batch *b, struct rd_iw_cursor *cur)
{
	struct rd_iw_fpdu *f = &b->fpdu[b->entries];
	uint8_t *hdr = b->arena + b->arena_used;
	struct iovec *iov;
	int n;

	if (cur->src == RD_IW_SRC_NONE && !begin_tx_message(c, cur))
		return 0;
	f->from = *cur;
	f->src = cur->src;
	f->run = 0;
	f->plen = 0;
	f->copied = 0;
	f->arena_off = b->arena_used;
	n = put_header(c, cur, f, hdr);
	if (n < 0)
		return n;
	f->hdr_len = (uint8_t)n;
	iov = &b->iov[b->niov + !joins_last_iov(b, f->arena_off)];
	n = payload_iov(c, f, iov);
	if (n < 0)
		return n;
	if (f->plen <= RD_IW_BATCH_COPY) {
		gather_payload(iov, n, hdr + f->hdr_len);
		f->copied = (uint8_t)f->plen;
	}
	put_trailer(c, f, hdr, iov, n, hdr + f->hdr_len + f->copied);
	add_fpdu(b, f, n);
	advance_cursor(c, cur, f);
	return 1;
}

/* ---- plain ones ---- */

/*
 * Most work requests fit one FPDU and need only a check of their keys. As long as nothing else
 * comes first, a run of such work requests is framed in one loop and kept as one entry of the
 * batch. The boundaries of its FPDUs are computed only if the socket took less than all.
 */
static bool fits_run(const struct rd_iw_swr *s)
{
	return s->total <= TX_PLAIN && s->opcode != IBV_WR_RDMA_READ &&
	       !(s->flags & IBV_SEND_FENCE);
}

static bool starts_run(const struct rd_iw_conn *c, const struct rd_iw_cursor *cur)
{
	return cur->sq != c->sq.tail && !c->tx.hold && cur->src == RD_IW_SRC_NONE && !cur->poke &&
	       cur->resp == c->resp_tail && !c->crc && fits_run(rd_iw_sq_at(&c->sq, cur->sq));
}

static void step_plain(struct rd_iw_cursor *cur, const struct rd_iw_swr *s)
{
	cur->send_msn += s->opcode != IBV_WR_RDMA_WRITE;
	cur->sq++;
}

static uint32_t plain_trail(uint32_t hdr_and_payload)
{
	return rd_iw_pad(hdr_and_payload) + RD_MPA_CRC_LEN;
}

/* A run that is being framed: the counts move to the batch when it ends. */
struct run {
	uint8_t *at;       /* end of the bytes in the arena */
	uint8_t *start;    /* start of the bytes in the arena that have no iovec entry yet */
	struct iovec *iov; /* the next entry */
	size_t bytes;
	uint32_t copy;           /* payloads up to this size are copied */
	struct rd_iw_cursor cur; /* of the next work request */
};

static inline void close_iov(struct run *r)
{
	if (r->at == r->start)
		return;
	r->iov->iov_base = r->start;
	r->iov++->iov_len = (size_t)(r->at - r->start);
	r->start = r->at;
}

/*
 * Adds a piece of a payload: copied if it is at most @room bytes, else by an iovec entry. Returns
 * how many bytes may still be copied for this FPDU.
 */
static inline uint32_t plain_piece(struct run *r, const void *data, uint32_t len, uint32_t room)
{
	if (len > room) {
		close_iov(r);
		r->iov->iov_base = (void *)(uintptr_t)data;
		r->iov++->iov_len = len;
		return room;
	}
	rd_iw_copy(r->at, data, len);
	r->at += len;
	return room - len;
}

static __attribute__((noinline)) void plain_pieces(struct run *r, const struct rd_iw_swr *s)
{
	uint32_t room = r->copy;

	if (s->flags & IBV_SEND_INLINE) {
		plain_piece(r, s->data, s->total, room);
		return;
	}
	for (int i = 0; i < s->num_sge; i++)
		room = plain_piece(r, (const void *)(uintptr_t)s->sge[i].addr, s->sge[i].length,
				   room);
}

static inline void frame_plain(struct run *r, const struct rd_iw_swr *s)
{
	uint32_t hdr_len = (uint32_t)put_piece(&r->cur, s, true, s->total, r->at);
	uint32_t trail_len = plain_trail(hdr_len + s->total);

	r->at += hdr_len;
	if (s->num_sge == 1) /* the common case */
		plain_piece(r, (const void *)(uintptr_t)s->sge->addr, s->total, r->copy);
	else
		plain_pieces(r, s);
	memset(r->at, 0, sizeof(uint64_t));
	r->at += trail_len;
	r->bytes += hdr_len + s->total + trail_len;
	step_plain(&r->cur, s);
}

static bool batch_has_room(const struct rd_iw_batch *b, uint32_t max)
{
	return b->nfpdu < max && b->niov + TX_FPDU_IOV <= RD_IW_BATCH_IOV && b->bytes < TX_BYTES;
}

/*
 * Returns the end of the run that starts at @first, of at most @max work requests. *@rc: 1, or
 * -EFAULT if the memory of the work request at that end is not registered.
 */
static uint32_t plain_end(const struct rd_iw_conn *c, uint32_t first, uint32_t max, int *rc)
{
	uint32_t end = c->sq.tail;

	*rc = 1;
	if (end - first > max)
		end = first + max;
	for (; first != end; first++) {
		const struct rd_iw_swr *s = rd_iw_sq_at(&c->sq, first);

		if (!fits_run(s))
			break;
		if (s->num_sge == 1 ? !sge_ok(c, s->sge, false) : !all_sges_ok(c, s, false)) {
			*rc = -EFAULT;
			break;
		}
	}
	return first;
}

/* Returns 1, or -EFAULT if the work request at @cur cannot be sent. */
static int frame_run(struct rd_iw_conn *c, struct rd_iw_batch *b, struct rd_iw_cursor *cur)
{
	const struct iovec *full = b->iov + RD_IW_BATCH_IOV - TX_FPDU_IOV;
	const uint8_t *copied = b->arena + RD_IW_RUN_ROOM;
	struct run r = {
		.at = b->arena + b->arena_used,
		.start = b->arena + b->arena_used,
		.iov = b->iov + b->niov,
		.bytes = b->bytes,
		.cur = *cur,
	};
	struct rd_iw_fpdu *f = &b->fpdu[b->entries];
	uint32_t end;
	int rc;

	r.cur.burst = 0;
	f->from = r.cur;
	end = plain_end(c, cur->sq, RD_IW_BATCH - b->nfpdu, &rc);
	r.copy = end - cur->sq < RD_IW_RUN_MANY ? RD_IW_BATCH_COPY : RD_IW_RUN_COPY;
	while (r.cur.sq != end && r.iov <= full && r.bytes < TX_BYTES) {
		if (r.at >= copied)
			r.copy = RD_IW_BATCH_COPY;
		frame_plain(&r, rd_iw_sq_at(&c->sq, r.cur.sq));
	}
	close_iov(&r);
	f->run = (uint16_t)(r.cur.sq - cur->sq);
	b->arena_used = (uint32_t)(r.at - b->arena);
	b->niov = (uint32_t)(r.iov - b->iov);
	b->bytes = r.bytes;
	b->nfpdu += f->run;
	b->entries += f->run != 0;
	*cur = r.cur;
	return cur->sq == end ? rc : 1;
}

/* ---- a batch ---- */

static int frame_some(struct rd_iw_conn *c, struct rd_iw_batch *b, struct rd_iw_cursor *cur)
{
	return starts_run(c, cur) ? frame_run(c, b, cur) : frame_next(c, b, cur);
}

/* Frames as much as one sendmsg takes. Returns 0, or the error of the next FPDU. */
static int fill_batch(struct rd_iw_conn *c, struct rd_iw_batch *b, struct rd_iw_cursor *cur)
{
	/*
	 * With CRC each FPDU leaves by itself and ends its TCP segment: siw misreads a trailer that
	 * is split over two segments.
	 */
	uint32_t max = c->crc ? 1 : RD_IW_BATCH;
	int rc = 0;

	b->entries = b->nfpdu = b->niov = b->arena_used = 0;
	b->bytes = 0;
	*cur = c->tx.cur;
	if (c->crc)
		refresh_mss(c);
	if (c->tx.part_sent) {
		rc = resume_fpdu(c, b);
		if (rc)
			return rc;
	}
	while (batch_has_room(b, max)) {
		rc = frame_some(c, b, cur);
		if (rc <= 0)
			return rc;
	}
	return 0;
}

/* ---- what the socket took ---- */

/* The entry @f, an FPDU or a run, has been sent completely. */
static void entry_sent(struct rd_iw_conn *c, const struct rd_iw_fpdu *f)
{
	struct rd_iw_swr *s;

	c->fab->stats.fpdus_tx += f->run ? f->run : 1;
	if (f->run)
		rd_iw_sq_done(c, f->from.sq, f->run);
	if (f->run || !f->last)
		return;
	switch (f->src) {
	case RD_IW_SRC_SQ:
		s = rd_iw_sq_at(&c->sq, f->from.sq);
		s->state = s->opcode == IBV_WR_RDMA_READ ? RD_IW_SWR_WAIT : RD_IW_SWR_DONE;
		break;
	case RD_IW_SRC_RESP:
		c->resp_head++;
		break;
	case RD_IW_SRC_RTR:
		c->rtr_read = c->tx.rtr == RD_IW_RTR_READ;
		break;
	default:
		break;
	}
}

/* Only @sent bytes of @f have left: keeps its header and trailer, which must not be built again. */
static void keep_part(struct rd_iw_conn *c, const struct rd_iw_fpdu *f, const uint8_t *hdr,
		      const uint8_t *trail, size_t sent)
{
	c->tx.part = *f;
	c->tx.part_sent = (uint32_t)sent;
	memcpy(c->tx.part_bytes, hdr, f->hdr_len);
	memcpy(c->tx.part_bytes + f->hdr_len, trail, f->trail_len);
}

/*
 * Accounts for @run in a batch that was not sent completely, by finding the boundaries of its
 * FPDUs. Subtracts its sent bytes from *@sent. Returns true if all of it was sent.
 */
static bool settle_run(struct rd_iw_conn *c, const struct rd_iw_fpdu *run, size_t *sent)
{
	static const uint8_t trail[RD_MPA_MAX_TRAIL];
	uint8_t hdr[RD_IW_MAX_HDR];
	struct rd_iw_fpdu f = {.from = run->from, .src = RD_IW_SRC_SQ, .last = true};

	for (uint32_t i = 0; i < run->run; i++) {
		const struct rd_iw_swr *s = rd_iw_sq_at(&c->sq, f.from.sq);
		size_t len;

		f.hdr_len = (uint8_t)put_piece(&f.from, s, true, s->total, hdr);
		f.plen = s->total;
		f.trail_len = (uint8_t)plain_trail(f.hdr_len + f.plen);
		len = (size_t)f.hdr_len + f.plen + f.trail_len;
		if (*sent < len) {
			c->tx.cur = f.from;
			if (*sent) {
				step_plain(&c->tx.cur, s);
				keep_part(c, &f, hdr, trail, *sent);
			}
			return false;
		}
		*sent -= len;
		entry_sent(c, &f);
		step_plain(&f.from, s);
	}
	return true;
}

/* Accounts for @sent bytes of the batch. Returns true if that was all of it. */
static bool settle_batch(struct rd_iw_conn *c, const struct rd_iw_batch *b,
			 const struct rd_iw_cursor *end, size_t sent)
{
	size_t skipped = c->tx.part_sent;

	c->tx.part_sent = 0;
	if (sent == b->bytes) {
		for (uint32_t i = 0; i < b->entries; i++)
			entry_sent(c, &b->fpdu[i]);
		c->tx.cur = *end;
		return true;
	}
	for (uint32_t i = 0; i < b->entries; i++) {
		const struct rd_iw_fpdu *f = &b->fpdu[i];
		size_t len;

		if (f->run) { /* never the first entry when an FPDU was partly sent */
			if (!settle_run(c, f, &sent))
				return false;
			continue;
		}
		len = (size_t)f->hdr_len + f->plen + f->trail_len - skipped;
		if (sent < len) {
			const uint8_t *bytes = b->arena + f->arena_off;

			c->tx.cur = f->from;
			if (sent + skipped) {
				keep_part(c, f, bytes, bytes + f->hdr_len + f->copied,
					  sent + skipped);
				c->tx.cur = i + 1 < b->entries ? b->fpdu[i + 1].from : *end;
			}
			return false;
		}
		sent -= len;
		skipped = 0;
		entry_sent(c, f);
	}
	c->tx.cur = *end;
	return true;
}

static void tx_fail(struct rd_iw_conn *c, int rc, const struct rd_iw_cursor *cur)
{
	uint32_t sq = c->tx.part_sent ? c->tx.part.from.sq : cur->sq;

	if (rc == -EACCES) {
		rd_iw_tx_term(c, RD_TERM_RP_STAG, NULL, 0);
		rd_iw_conn_end(c, -EACCES, "memory was deregistered while the peer was reading it");
		return;
	}
	rd_iw_tx_term(c, RD_TERM_LOCAL_CATASTROPHIC, NULL, 0);
	if (rc == -EOPNOTSUPP)
		rd_iw_conn_fail_swr(c, rd_iw_sq_at(&c->sq, sq), IBV_WC_LOC_QP_OP_ERR,
				    "READ posted, but the peer accepts no READs (its IRD is 0)");
	else
		rd_iw_conn_fail_swr(c, rd_iw_sq_at(&c->sq, sq), IBV_WC_LOC_PROT_ERR,
				    "local memory not registered as needed");
}

static void wait_writable(struct rd_iw_conn *c)
{
	c->tx.blocked = true;
	rd_iw_conn_watch(c);
}

/* Whether @c may send more in this iteration: its copying must not delay the others for long. */
static bool may_send(struct rd_iw_conn *c)
{
	uint64_t turn = rd_loop_turns(c->fab->base.loop);

	if (c->tx.turn != turn) {
		c->tx.turn = turn;
		c->tx.turn_bytes = 0;
	}
	return c->tx.turn_bytes < TX_TURN;
}

static void send_batches(struct rd_iw_conn *c, struct rd_iw_batch *b)
{
	/* With CRC a round sends one FPDU. */
	int rounds = c->crc ? TX_CRC_ROUNDS : TX_ROUNDS;

	for (int round = 0; round < rounds && may_send(c); round++) {
		struct rd_iw_cursor end;
		struct msghdr msg = {.msg_iov = b->iov};
		int rc = fill_batch(c, b, &end);
		bool all = true;
		ssize_t n;

		if (b->nfpdu) {
			msg.msg_iovlen = b->niov;
			n = sendmsg(c->io.fd, &msg,
				    MSG_NOSIGNAL | MSG_DONTWAIT | (c->crc ? MSG_EOR : 0));
			c->fab->stats.sendmsg_calls++;
			if (n < 0 && errno == EINTR)
				continue;
			if (n < 0 && errno != EAGAIN) {
				rd_iw_conn_end(c, -errno, "send: %s", strerror(errno));
				return;
			}
			c->tx.turn_bytes += n < 0 ? 0 : (size_t)n;
			all = n >= 0 && settle_batch(c, b, &end, (size_t)n);
			rd_iw_sq_reap(c);
		}
		if (!all) {
			wait_writable(c);
			return;
		}
		if (rc) {
			tx_fail(c, rc, &end);
			return;
		}
		if (b->nfpdu == 0)
			return;
	}
	rd_defer(c->fab->base.loop, &c->flush, RD_DEFER_NEXT);
}

void rd_iw_tx_run(struct rd_iw_conn *c)
{
	struct rd_fab_iwarp_scratch *pool = c->dev->scratch;
	struct rd_iw_scratch *s = rd_iw_scratch_get(pool);

	if (!s) {
		rd_iw_conn_end(c, -ENOMEM, "out of memory");
		return;
	}
	send_batches(c, &s->batch);
	rd_iw_scratch_put(pool, s);
}

void rd_iw_tx_kick(struct rd_iw_conn *c)
{
	if (c->state == RD_IW_OPEN && !c->tx.blocked)
		rd_defer(c->fab->base.loop, &c->flush, RD_DEFER_SEND);
}

void rd_iw_tx_release(struct rd_iw_conn *c)
{
	if (c->tx.hold) {
		c->tx.hold = false;
		rd_iw_tx_kick(c);
	}
}

void rd_iw_tx_poke(struct rd_iw_conn *c)
{
	c->tx.cur.poke = true;
	rd_iw_tx_kick(c);
}

void rd_iw_tx_term(struct rd_iw_conn *c, uint32_t code, const uint8_t *bad, size_t bad_len)
{
	uint8_t buf[RD_TERM_MAX_LEN + sizeof(uint64_t)];
	struct rd_iw_fpdu f = {0};

	/* The peer would take a Terminate in the middle of an FPDU for payload. */
	if (c->tx.part_sent)
		return;
	f.hdr_len = (uint8_t)rd_iw_term_build(buf, code, bad, bad_len);
	put_trailer(c, &f, buf, NULL, 0, buf + f.hdr_len);
	if (send(c->io.fd, buf, (size_t)f.hdr_len + f.trail_len, MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
		c->fab->stats.terms_tx++;
}
