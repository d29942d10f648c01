/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The iwarp provider: iWARP in userspace over plain TCP sockets.
 *
 * One device per fabric, one protection domain per device, one thread per fabric: nothing here
 * takes a lock but the mailbox for rejected requests (linger.c), which other threads may put
 * sockets into, and scratch memory that fabrics of several threads share (scratch.c).
 *
 * User callbacks run only from deferred work or from the listener's socket, never from within the
 * receive or transmit path; so those paths need not fear that a connection vanishes under them.
 */
#ifndef RD_IW_INTERNAL_H
#define RD_IW_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "fabric/fabric.h"
#include "fabric/wc_ring.h"
#include "util/loop.h"

#include "ddp.h"
#include "mpa.h"

#define RD_IW_MAX_WR       16384
#define RD_IW_MAX_SGE      16
#define RD_IW_MAX_INLINE   512
#define RD_IW_MAX_MSG      (UINT64_C(1) << 30)
#define RD_IW_MAX_DEPTH    128 /* IRD and ORD, as siw */
#define RD_IW_MAX_PRIVATE  251 /* siw keeps the length, with its 4 bytes, in 8 bits */

#define RD_IW_STAGING_SIZE ((size_t)128 * 1024)
#define RD_IW_REASON       160

struct rd_iw_fab;
struct rd_iw_conn;

/* Counters and gauges; tests look at them. */
struct rd_iw_stats {
	uint64_t sendmsg_calls;
	uint64_t readv_calls;
	uint64_t fpdus_tx;
	uint64_t fpdus_rx;
	uint64_t terms_tx;
	uint64_t terms_rx;
	uint64_t quick_acks;
	uint64_t evicted; /* half-open connections, to make room */
	/* gauges */
	uint32_t conns;
	uint32_t listeners;
	uint32_t half_open;
	uint32_t lingers;
	uint32_t mrs;
	uint32_t cqs;
	uint32_t srqs;
};

/* Copy what is mostly a command or a completion: these without a call. */
static inline void rd_iw_copy(void *to, const void *from, size_t len)
{
	switch (len) {
	case 16:
		memcpy(to, from, 16);
		break;
	case 64:
		memcpy(to, from, 64);
		break;
	default:
		memcpy(to, from, len);
	}
}

/*
 * Copy what its user has just written, field by field: a load of more bytes than one store has
 * written waits until all stores before that are done, which may be to memory in no cache.
 */
static inline void rd_iw_copy_sge(struct ibv_sge *to, const struct ibv_sge *from)
{
	uint64_t addr = from->addr;
	uint32_t length = from->length, lkey = from->lkey;

	/* Compilers would make one load of two. */
	__asm__("" : "+r"(addr), "+r"(length), "+r"(lkey));
	to->addr = addr;
	to->length = length;
	to->lkey = lkey;
}

/* ---- memory regions: mr.c ---- */

struct rd_iw_mr {
	struct rd_fab_mr base;
	STAILQ_ENTRY(rd_iw_mr) free_link;
	int access;
	bool invalidated; /* by the peer: no remote access any more */
};

struct rd_iw_mr_chunk {
	SLIST_ENTRY(rd_iw_mr_chunk) link;
	struct rd_iw_mr mrs[];
};

/* A table of 2^n slots. The low n bits of a key are its slot, all others are random. */
struct rd_iw_mr_table {
	struct rd_iw_mr **slots; /* where nothing is registered: @none */
	uint32_t mask;
	struct rd_iw_mr none;   /* key 0, and of no use; slot 0 stays empty so that nobody has it */
	struct rd_iw_mr *first; /* the slots of a table without any */
	SLIST_HEAD(, rd_iw_mr_chunk) chunks;
	STAILQ_HEAD(, rd_iw_mr)
	free; /* oldest first: a slot rests before it is used again */
};

/* ---- device ---- */

#define RD_IW_BATCH      512  /* FPDUs per sendmsg */
#define RD_IW_BATCH_IOV  1024 /* IOV_MAX */
#define RD_IW_BATCH_COPY 128  /* payload up to here is copied: cheaper than an entry of its own */
/*
 * When several leave together, so is that of a 4 KiB command with its capsule: the kernel copies
 * one long piece faster than many short ones, by more than the first copy costs. Not more of it
 * than stays in a processor's cache until then.
 */
#define RD_IW_RUN_MANY 8
#define RD_IW_RUN_COPY (4096 + 64)
#define RD_IW_RUN_ROOM (256 * 1024)

enum rd_iw_src {
	RD_IW_SRC_NONE, /* between messages */
	RD_IW_SRC_RTR,
	RD_IW_SRC_POKE,
	RD_IW_SRC_SQ,
	RD_IW_SRC_RESP,
};

/* The point in a connection's outgoing messages from which the next FPDU is framed. */
struct rd_iw_cursor {
	uint32_t sq;   /* work request, counting from 0 over the connection's life */
	uint32_t resp; /* inbound READ, likewise */
	uint32_t off;  /* bytes of the current message already framed */
	uint32_t send_msn;
	uint32_t read_msn;
	uint16_t reads_out; /* READs on the wire or framed for it */
	uint8_t burst;      /* responses begun since the last work request */
	uint8_t src;        /* enum rd_iw_src: the message begun and not finished */
	bool poke;          /* an empty Write is due */
};

/* An FPDU in the making: its bytes are in the arena, its payload where the user has it; or, when it
 * is copied, between header and trailer. */
struct rd_iw_fpdu {
	struct rd_iw_cursor from; /* the state before it */
	uint8_t src;
	uint8_t hdr_len;
	uint8_t trail_len;
	uint8_t copied; /* bytes of payload in the arena: all or none */
	bool last;      /* ends its message */
	uint16_t run;   /* not 0: so many plain ones; only @from is set, the first one's */
	uint32_t plen;
	uint32_t arena_off; /* header; what else of it is in the arena follows */
};

/* One transmission in the making; no connection keeps anything in it. */
struct rd_iw_batch {
	struct rd_iw_fpdu fpdu[RD_IW_BATCH]; /* in order; a run of plain ones is one entry */
	struct iovec iov[RD_IW_BATCH_IOV];
	uint8_t arena[RD_IW_BATCH * (RD_IW_MAX_HDR + RD_IW_BATCH_COPY + RD_MPA_MAX_TRAIL) +
		      RD_IW_RUN_ROOM + RD_IW_RUN_COPY + sizeof(uint64_t)];
	uint32_t entries; /* of @fpdu */
	uint32_t nfpdu;   /* FPDUs */
	uint32_t niov;
	uint32_t arena_used;
	size_t bytes;
};

/* ---- scratch memory: scratch.c ---- */

struct rd_iw_scratch {
	SLIST_ENTRY(rd_iw_scratch) link;
	struct rd_iw_batch batch;
	uint8_t staging[RD_IW_STAGING_SIZE]; /* what is read into it is consumed in the same
						callback */
};

struct rd_fab_iwarp_scratch {
	_Atomic(struct rd_iw_scratch *) hot; /* what was used last; NULL while it is in use */
	atomic_uint refs;
	pthread_mutex_t lock;
	SLIST_HEAD(, rd_iw_scratch) idle; /* what more threads have used at the same time */
};

struct rd_iw_scratch *rd_iw_scratch_more(struct rd_fab_iwarp_scratch *pool);
void rd_iw_scratch_keep(struct rd_fab_iwarp_scratch *pool, struct rd_iw_scratch *s);

/* A piece for this callback, or NULL without memory. rd_iw_scratch_put() gives it back. */
static inline struct rd_iw_scratch *rd_iw_scratch_get(struct rd_fab_iwarp_scratch *pool)
{
	struct rd_iw_scratch *s = atomic_exchange_explicit(&pool->hot, NULL, memory_order_acquire);

	return s ? s : rd_iw_scratch_more(pool);
}

static inline void rd_iw_scratch_put(struct rd_fab_iwarp_scratch *pool, struct rd_iw_scratch *s)
{
	s = atomic_exchange_explicit(&pool->hot, s, memory_order_acq_rel);
	if (s)
		rd_iw_scratch_keep(pool, s);
}

struct rd_iw_dev {
	struct rd_fab_dev base;
	struct rd_iw_mr_table mrs;
	uint32_t next_qpn;
	struct rd_fab_iwarp_scratch *scratch; /* a reference */
};

static inline struct rd_iw_dev *rd_iw_dev(struct rd_fab_dev *dev)
{
	return rd_container_of(dev, struct rd_iw_dev, base);
}

/* ---- mr.c ---- */

void rd_iw_mr_table_init(struct rd_iw_mr_table *t);
void rd_iw_mr_table_fini(struct rd_iw_mr_table *t);
int rd_iw_reg_mr(struct rd_fab_dev *fdev, void *addr, size_t len, int access,
		 struct rd_fab_mr **out);
void rd_iw_dereg_mr(struct rd_fab_mr *base);

/* The region of @key, or NULL. */
static inline struct rd_iw_mr *rd_iw_mr_find(const struct rd_iw_dev *dev, uint32_t key)
{
	struct rd_iw_mr *mr = dev->mrs.slots[key & dev->mrs.mask];

	return mr->base.lkey == key ? mr : NULL;
}

static inline bool rd_iw_mr_covers(const struct rd_iw_mr *mr, uint64_t addr, uint64_t len)
{
	uint64_t off = addr - (uintptr_t)mr->base.addr; /* beyond its length when it is before it */

	return off <= mr->base.length && len <= mr->base.length - off;
}

/* May the owner use [@addr, @addr + @len) with @lkey (and write to it)? */
static inline bool rd_iw_mr_local_ok(const struct rd_iw_dev *dev, uint32_t lkey, uint64_t addr,
				     uint64_t len, bool write)
{
	const struct rd_iw_mr *mr = rd_iw_mr_find(dev, lkey);

	return mr && rd_iw_mr_covers(mr, addr, len) &&
	       (!write || (mr->access & IBV_ACCESS_LOCAL_WRITE));
}

enum rd_iw_mr_fault {
	RD_IW_MR_OK,
	RD_IW_MR_STAG, /* unknown, deregistered or invalidated */
	RD_IW_MR_ACCESS,
	RD_IW_MR_BOUNDS,
	RD_IW_MR_WRAP,
};

/* May a peer use it? @access is IBV_ACCESS_REMOTE_READ or _WRITE. *@out: where it is. */
enum rd_iw_mr_fault rd_iw_mr_remote(struct rd_iw_dev *dev, uint32_t stag, uint64_t to, uint32_t len,
				    int access, void **out);
/* What a peer knows as @sge's address. */
uint64_t rd_iw_mr_shown(const struct rd_iw_dev *dev, const struct ibv_sge *sge);
/* A peer's SEND with Invalidate. Returns 0 or -EACCES. */
int rd_iw_mr_invalidate(struct rd_iw_dev *dev, uint32_t stag);

/*
 * The memory of bytes [@off, @off + @len) of a gather list as @iov. Returns the number of entries,
 * or -EFAULT when a key does not cover it.
 */
int rd_iw_sge_iov(struct rd_iw_dev *dev, const struct ibv_sge *sge, int n, uint64_t off,
		  uint32_t len, bool write, struct iovec *iov);

/* ---- completion queues: cq.c ---- */

struct rd_iw_srq;

struct rd_iw_cq {
	struct rd_fab_cq base;
	struct rd_defer notify;
	struct rd_wc_ring ring;
	uint32_t reserved; /* entries promised to queue pairs */
	bool armed;
	bool broken; /* an entry was lost */
	int fd;      /* eventfd, -1 until asked for */
};

int rd_iw_cq_create(struct rd_fab_dev *dev, uint32_t depth, rd_fab_cq_fn fn, void *arg,
		    struct rd_fab_cq **out);
void rd_iw_cq_destroy(struct rd_fab_cq *base);
int rd_iw_cq_poll(struct rd_fab_cq *base, int n, struct ibv_wc *wc);
int rd_iw_cq_arm(struct rd_fab_cq *base);
int rd_iw_cq_fd(struct rd_fab_cq *base);
int rd_iw_cq_reserve(struct rd_iw_cq *cq, uint32_t n);
void rd_iw_cq_unreserve(struct rd_iw_cq *cq, uint32_t n);
void rd_iw_cq_wake(struct rd_iw_cq *cq);
void rd_iw_cq_purge(struct rd_iw_cq *cq, uint32_t qp_num, bool keep_recvs);

/* As rd_iw_cq_push() when the ring is full. */
void rd_iw_cq_push_full(struct rd_iw_cq *cq, const struct rd_fab_conn *conn, uint64_t wr_id,
			enum ibv_wc_opcode opcode, enum ibv_wc_status status, uint32_t len,
			unsigned int flags, uint32_t inv);

/* One more completion. @inv: the key that a SEND with Invalidate has closed, with IBV_WC_WITH_INV.
 */
static inline void rd_iw_cq_push(struct rd_iw_cq *cq, const struct rd_fab_conn *conn,
				 uint64_t wr_id, enum ibv_wc_opcode opcode,
				 enum ibv_wc_status status, uint32_t len, unsigned int flags,
				 uint32_t inv)
{
	struct ibv_wc *wc;

	if (rd_wc_ring_full(&cq->ring)) {
		rd_iw_cq_push_full(cq, conn, wr_id, opcode, status, len, flags, inv);
		return;
	}
	wc = rd_wc_ring_add(&cq->ring);
	*wc = (struct ibv_wc){
		.wr_id = wr_id,
		.status = status,
		.opcode = opcode,
		.byte_len = len,
		.invalidated_rkey = inv,
		.qp_num = conn->qp_num,
		.wc_flags = flags,
	};
	if (cq->armed)
		rd_iw_cq_wake(cq);
}

/* A RECV that no message came for. */
static inline void rd_iw_cq_push_flushed(struct rd_iw_cq *cq, const struct rd_fab_conn *conn,
					 uint64_t wr_id)
{
	rd_iw_cq_push(cq, conn, wr_id, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR, 0, 0, 0);
}

/* ---- receive queues: rq.c ---- */

struct rd_iw_rwr {
	uint64_t wr_id;
	uint32_t total; /* bytes */
	int num_sge;
	struct ibv_sge sge[];
};

struct rd_iw_rq {
	uint8_t *ring;
	size_t stride;
	uint32_t max_sge;
	uint32_t depth;
	uint32_t mask;
	uint32_t head;
	uint32_t tail;
	uint32_t largest; /* bytes of the largest RECV so far */
};

/* Memory for a message that is not complete yet: see rd_iw_aside_get(). */
struct rd_iw_aside {
	SLIST_ENTRY(rd_iw_aside) link; /* srq->asides */
	uint32_t size;
	uint8_t data[];
};

struct rd_iw_share {
	struct rd_fab_share base;
	TAILQ_HEAD(, rd_iw_conn) waiting; /* those whose next message has no RECV, in order */
	TAILQ_ENTRY(rd_iw_share) link;    /* srq->turns, while one waits */
};

struct rd_iw_srq {
	struct rd_fab_srq base;
	struct rd_iw_rq rq;        /* used as a stack: what was used last is still in the cache */
	struct rd_iw_share common; /* of connections that have joined none: without a limit */
	TAILQ_HEAD(, rd_iw_share) turns;
	SLIST_HEAD(, rd_iw_aside) asides; /* not in use, the one used last first */
	uint32_t nasides;
	uint32_t nwaiting; /* connections */
	bool tight;        /* one that may have a RECV finds none: nobody overtakes it */
	struct rd_defer feed;
	uint32_t limit; /* 0: none. Fewer left: @low */
	rd_fab_srq_fn low_fn;
	void *low_arg;
	struct rd_defer low;
};

int rd_iw_rq_init(struct rd_iw_rq *rq, uint32_t max_wr, uint32_t max_sge);
void rd_iw_rq_fini(struct rd_iw_rq *rq);
int rd_iw_rq_post(struct rd_iw_rq *rq, const struct ibv_recv_wr *wr);
/* The oldest entry, or NULL. Valid until the next post. */
const struct rd_iw_rwr *rd_iw_rq_pop(struct rd_iw_rq *rq);
static inline uint32_t rd_iw_rq_count(const struct rd_iw_rq *rq)
{
	return rq->tail - rq->head;
}
/*
 * The RECV that @c's next message gets, of its own queue or the shared one, or NULL: none is left,
 * or, of the shared one, its share has its part or others have waited for longer. Valid until the
 * next post. rd_iw_recv_use() takes it.
 */
const struct rd_iw_rwr *rd_iw_recv_next(const struct rd_iw_conn *c);
void rd_iw_recv_use(struct rd_iw_conn *c);
void rd_iw_srq_wait(struct rd_iw_conn *c); /* there is none now; rd_iw_rx_resume() follows */
bool rd_iw_srq_scarce(const struct rd_iw_conn *c); /* few are left that it may take */
void rd_iw_srq_unwait(struct rd_iw_conn *c);       /* idempotent */
/*
 * A message takes a RECV of a shared queue with its last byte, so that what never ends holds none.
 * Until then it is in memory that its connection has for itself: RD_IW_SMALL bytes of its own, or
 * as much as the largest RECV. Sets rx.aside and rx.aside_size; @plen: of the message's first FPDU,
 * @last: it is the only one. Returns 0 or -ENOMEM.
 */
int rd_iw_aside_get(struct rd_iw_conn *c, uint32_t plen, bool last);
void rd_iw_aside_put(struct rd_iw_conn *c); /* idempotent */
int rd_iw_srq_create(struct rd_fab_dev *dev, uint32_t max_wr, uint32_t max_sge,
		     struct rd_fab_srq **out);
void rd_iw_srq_destroy(struct rd_fab_srq *base);
void rd_iw_srq_limit(struct rd_fab_srq *srq, uint32_t limit, rd_fab_srq_fn fn, void *arg);
int rd_iw_share_create(struct rd_fab_srq *srq, struct rd_fab_share **out);
void rd_iw_share_destroy(struct rd_fab_share *share);
void rd_iw_share_join(struct rd_fab_conn *conn, struct rd_fab_share *share);
int rd_iw_post_srq_recv(struct rd_fab_srq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int rd_iw_post_recv(struct rd_fab_conn *conn, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* ---- send queue: sq.c ---- */

enum rd_iw_swr_state {
	RD_IW_SWR_QUEUED, /* to be framed; the transmit path moves it on */
	RD_IW_SWR_WAIT,   /* a READ on the wire; its response moves it on */
	RD_IW_SWR_DONE,   /* waits for older ones, so that completions come in order */
};

struct rd_iw_swr {
	uint64_t wr_id;
	uint64_t remote_addr;
	uint32_t rkey; /* of the peer's memory, or to invalidate */
	uint32_t total;
	uint32_t flags; /* IBV_SEND_* */
	uint8_t opcode; /* enum ibv_wr_opcode */
	uint8_t state;  /* enum rd_iw_swr_state */
	int16_t num_sge;
	union {
		struct ibv_sge sge[0];
		uint8_t data[0]; /* with IBV_SEND_INLINE */
	};
};

struct rd_iw_sq {
	uint8_t *ring;
	size_t stride;
	uint32_t max_sge;
	uint32_t max_inline;
	uint32_t depth;
	uint32_t mask;
	uint32_t head; /* oldest not completed */
	uint32_t tail;
	uint32_t read; /* no READ before this one waits for its response; never before head */
	uint32_t base; /* what is in the ring's first slot; changes while the queue is empty */
	bool coalesce; /* one completion for the SENDs and WRITEs that are done together */
};

static inline struct rd_iw_swr *rd_iw_sq_at(const struct rd_iw_sq *sq, uint32_t i)
{
	return (struct rd_iw_swr *)(void *)(sq->ring +
					    (size_t)((i - sq->base) & sq->mask) * sq->stride);
}

int rd_iw_sq_init(struct rd_iw_sq *sq, const struct rd_fab_qp_attr *attr);
void rd_iw_sq_fini(struct rd_iw_sq *sq);
int rd_iw_post_send(struct rd_fab_conn *conn, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* Complete what is done, in posting order. */
void rd_iw_sq_reap(struct rd_iw_conn *c);
/* @n work requests from @first on, no READs, have left. */
void rd_iw_sq_done(struct rd_iw_conn *c, uint32_t first, uint32_t n);
/* Complete everything: work request @bad with @status, the others as flushed. */
void rd_iw_sq_flush(struct rd_iw_conn *c, const struct rd_iw_swr *bad, enum ibv_wc_status status);
/* The oldest READ that waits for its response, or NULL. */
struct rd_iw_swr *rd_iw_sq_reading(struct rd_iw_conn *c);

/* ---- connections ---- */

enum rd_iw_state {
	/* Active, from resolve on. connect() moves it on. */
	RD_IW_IDLE,
	/* Active: TCP is connecting. The socket (writable) or the timer moves it on. */
	RD_IW_CONNECTING,
	/* Active: the MPA request is being sent, the reply is awaited. Both by the socket; or the
	   timer. */
	RD_IW_HANDSHAKE,
	/* Passive: a request was adopted. accept() or reject() moves it on. */
	RD_IW_ADOPTED,
	/* FPDUs flow. An error, the peer or disconnect() moves it on. */
	RD_IW_OPEN,
	/* Over: the socket is gone, WRs are flushed as they are posted. Only destroyed from here.
	 */
	RD_IW_CLOSED,
};

/* Events that wait to be delivered; a set, delivered in the order of their values. */
enum rd_iw_pending {
	RD_IW_P_RESOLVED = 1 << 0,
	RD_IW_P_ESTABLISHED = 1 << 1,
	RD_IW_P_REJECTED = 1 << 2,
	RD_IW_P_ERROR = 1 << 3,
	RD_IW_P_DISCONNECTED = 1 << 4,
};

/* Only while a connection is being made: the outgoing frame, then the incoming one. */
struct rd_iw_handshake {
	bool unanswered; /* TCP is connected, and no MPA reply has come: by whatever is there */
	struct rd_iw_mpa req; /* as sent or received, without private data */
	uint8_t out[RD_MPA_MAX_LEN];
	uint32_t out_len;
	uint32_t out_off;
	uint8_t in[RD_MPA_MAX_LEN];
	uint32_t in_len;
	const void *pd; /* of the peer, for the event */
	size_t pd_len;
};

enum rd_iw_rx_state {
	RD_IW_RX_HEADER,  /* collecting a header; complete: PAYLOAD or TRAILER */
	RD_IW_RX_PAYLOAD, /* @left bytes to place; none left: TRAILER */
	RD_IW_RX_TRAILER, /* pad and CRC; complete: act on the FPDU, then HEADER */
};

#define RD_IW_SMALL 64u /* a command capsule without data */

struct rd_iw_rx {
	enum rd_iw_rx_state state;
	uint8_t hdr[RD_IW_MAX_HDR];
	uint8_t trail[RD_MPA_MAX_TRAIL + 1];
	uint8_t have;     /* bytes in hdr or trail */
	uint8_t need;     /* bytes wanted there */
	uint8_t hdr_len;  /* of the current FPDU */
	uint8_t term_len; /* bytes of a Terminate kept in term */
	bool sized;       /* need is the whole header, not the control bytes */
	bool got_first;   /* the peer's first FPDU arrived */
	bool quick_acks;  /* the network's segments are so large that it pays, */
	bool dense;       /* and what comes in them is many FPDUs, */
	bool often;       /* one batch soon after the other: */
	uint64_t last;    /* when there was one */
	uint32_t left;
	uint32_t crc;
	struct rd_iw_hdr h;
	uint32_t send_msn; /* expected */
	uint32_t read_msn;
	struct rd_iw_rwr *recv; /* the RECV in progress; storage for one */
	uint8_t *aside;         /* where the message in progress is, not in its RECV; or NULL */
	uint32_t aside_size;
	uint32_t debt;   /* FPDUs that it had beyond its part of earlier turns */
	uint32_t room;   /* bytes to read at once */
	uint32_t blanks; /* FPDUs that carried nothing, since message @blank_msn became due */
	uint32_t blank_msn;
	uint32_t grant; /* RECVs of the shared queue that it may take while others wait */
	/* While it waits for one, with a whole header or a whole message in @aside: what had been
	 * read behind that, or NULL */
	uint8_t *held;
	uint32_t held_off;
	uint32_t held_len;
	TAILQ_ENTRY(rd_iw_conn) wait_link;
	bool recv_active;  /* a message is in progress */
	uint32_t recv_off; /* bytes of the message in whole FPDUs */
	bool read_active;  /* a Read Response has begun */
	uint32_t read_off;
	uint8_t term[RD_TERM_MAX_PAYLOAD];
	uint8_t small[RD_IW_SMALL];
};

/* An inbound READ that waits for its response to be sent. */
struct rd_iw_resp {
	struct rd_iw_read r;
};

struct rd_iw_tx {
	struct rd_iw_cursor cur; /* of the FPDU after the partly sent one */
	struct rd_iw_fpdu part;  /* partly sent, when part_sent > 0 */
	uint32_t part_sent;
	uint8_t part_bytes[RD_IW_MAX_HDR + RD_MPA_MAX_TRAIL + 1];
	bool blocked;      /* the socket is full: wait for EPOLLOUT */
	bool hold;         /* nothing may be sent yet */
	uint8_t rtr;       /* enum rd_iw_rtr: to be sent first */
	uint16_t max_fpdu; /* with CRC: must fit a TCP segment */
	uint16_t mss_age;  /* transmissions since it was read */
	uint64_t poke_ns;  /* until the next poke */
};

struct rd_iw_conn {
	struct rd_fab_conn base;
	struct rd_iw_fab *fab;
	struct rd_iw_dev *dev; /* as base.dev, but set from the beginning */
	LIST_ENTRY(rd_iw_conn) link;
	enum rd_iw_state state;
	bool passive;
	bool crc;
	bool has_qp;
	bool est_due; /* ESTABLISHED is announced with the peer's first FPDU */
	struct rd_io io;
	struct rd_timer timer;
	struct rd_timer first_timer; /* active: end of the hold, then pokes */
	struct rd_defer flush;
	uint64_t deadline; /* active: of the whole attempt */

	struct rd_iw_handshake *hs;

	struct rd_iw_cq *scq;
	struct rd_iw_cq *rcq;
	struct rd_iw_srq *srq;
	struct rd_iw_share *share; /* with @srq, never NULL */
	struct rd_iw_sq sq;
	struct rd_iw_rq rq;
	struct rd_iw_resp *resps; /* ring of inbound READs */
	uint32_t resp_mask;
	uint32_t resp_head;
	uint32_t resp_tail;
	bool rtr_read; /* our zero-length RTR READ waits for its response */
	struct rd_iw_tx tx;
	struct rd_iw_rx rx;

	uint32_t pending; /* enum rd_iw_pending */
	struct rd_defer events;
	bool delivering; /* an event is being delivered */
	bool destroyed;  /* meanwhile; deliver() frees it */
	int status;
	char reason[RD_IW_REASON];
};

static inline struct rd_iw_conn *rd_iw_conn(struct rd_fab_conn *conn)
{
	return rd_container_of(conn, struct rd_iw_conn, base);
}

/* ---- conn.c ---- */

int rd_iw_conn_new(struct rd_iw_fab *fab, rd_fab_event_fn fn, void *arg, struct rd_iw_conn **out);
void rd_iw_conn_destroy(struct rd_fab_conn *conn);
void rd_iw_set_state(struct rd_iw_conn *c, enum rd_iw_state state);
void rd_iw_raise(struct rd_iw_conn *c, enum rd_iw_pending ev);
int rd_iw_qp_create(struct rd_fab_conn *conn, const struct rd_fab_qp_attr *attr);
/* Both handshakes end here: queues are set up for the depths agreed. Returns 0 or -ENOMEM. */
int rd_iw_conn_open(struct rd_iw_conn *c, const struct rd_iw_depths *eff);
void rd_iw_disconnect(struct rd_fab_conn *conn);
bool rd_iw_peer_closed(const struct rd_fab_conn *conn);
/* Watch the socket for what the connection's state wants. */
void rd_iw_conn_watch(struct rd_iw_conn *c);
int rd_iw_conn_mss(const struct rd_iw_conn *c); /* of TCP now; 0: it does not say */

/*
 * The connection is over: WRs are flushed, the socket is closed gently, the event follows. No-op
 * when it is over already. @status is 0 for an orderly end.
 */
void rd_iw_conn_end(struct rd_iw_conn *c, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* As rd_iw_conn_end() for a work request that failed by itself. */
void rd_iw_conn_fail_swr(struct rd_iw_conn *c, const struct rd_iw_swr *wr,
			 enum ibv_wc_status status, const char *what);
/* As rd_iw_conn_end() with -EPROTO, after a Terminate about the FPDU being received. */
void rd_iw_conn_term(struct rd_iw_conn *c, uint32_t code, bool with_header);
/* The RECV in progress ends with @status. */
void rd_iw_recv_abort(struct rd_iw_conn *c, enum ibv_wc_status status);

/* ---- listen.c ---- */

struct rd_iw_mailbox;

struct rd_iw_req {
	struct rd_fab_req base;
	struct rd_iw_mailbox *home; /* where the socket goes when it is rejected */
	STAILQ_ENTRY(rd_iw_req) link;
	int fd;
	bool crc; /* the listener's option */
	struct rd_iw_mpa mpa;
	uint8_t frame[RD_MPA_MAX_LEN];
};

int rd_iw_listen(struct rd_fab *ffab, const struct sockaddr *addr, int backlog, rd_fab_listen_fn fn,
		 void *arg, struct rd_fab_listener **out);
void rd_iw_unlisten(struct rd_fab_listener *base);
int rd_iw_req_adopt(struct rd_fab *ffab, struct rd_fab_req *base, rd_fab_event_fn on_event,
		    void *arg, struct rd_fab_conn **out);
void rd_iw_req_reject(struct rd_fab_req *base, const void *priv, size_t len);
int rd_iw_accept(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param);
int rd_iw_reject(struct rd_fab_conn *conn, const void *priv, size_t len);

/* ---- connect.c ---- */

int rd_iw_resolve(struct rd_fab *ffab, const struct rd_fab_resolve_attr *attr,
		  struct rd_fab_conn **out);
int rd_iw_connect(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param);
void rd_iw_handshake_io(struct rd_iw_conn *c, uint32_t events);
/* Write what is left of hs->out. Returns 0 (all written), -EAGAIN or -errno. */
int rd_iw_handshake_send(struct rd_iw_conn *c);
int rd_iw_socket_opts(int fd, const struct rd_fab_iwarp_opts *opts);

/* ---- tx.c ---- */

/* Ask for transmission at the end of the loop's turn. */
void rd_iw_tx_kick(struct rd_iw_conn *c);
/* Transmit what can be transmitted now. May end the connection. */
void rd_iw_tx_run(struct rd_iw_conn *c);
/* Best effort: a Terminate, unless an FPDU is partly sent. @bad as in rd_iw_term_build(). */
void rd_iw_tx_term(struct rd_iw_conn *c, uint32_t code, const uint8_t *bad, size_t bad_len);
/* The peer spoke, or the time is over: work requests may leave. */
void rd_iw_tx_release(struct rd_iw_conn *c);
/* Send an empty Write, which any peer takes and ignores. */
void rd_iw_tx_poke(struct rd_iw_conn *c);

/* ---- rx.c ---- */

void rd_iw_rx_open(struct rd_iw_conn *c);
/* Read what the socket has. May end the connection. Returns whether anything happened. */
bool rd_iw_rx_run(struct rd_iw_conn *c);
/* It waited for a RECV, and there is one: go on. May end the connection, or wait again. */
void rd_iw_rx_resume(struct rd_iw_conn *c);
/* The connection ends: it waits no more, and what it holds back is dropped. */
void rd_iw_rx_drop(struct rd_iw_conn *c);

/* ---- fpdu.c: what to do with an FPDU ---- */

/*
 * A header is complete in rx: check it, find its destination; @whole: all of the FPDU is at hand.
 * Returns 0, 1 when it has to wait for a RECV (then it is called again), or -1: connection ended.
 */
int rd_iw_fpdu_begin(struct rd_iw_conn *c, bool whole);
/* Where the next bytes of its payload go, at most rx.left. Returns the count, or -1. */
int rd_iw_fpdu_dest(struct rd_iw_conn *c, struct iovec *iov);
/* The whole FPDU is here and its CRC is right. Returns 0, 1 when the message that it completes has
 * to wait for a RECV (then rd_iw_fpdu_resume() follows), or -1. */
int rd_iw_fpdu_end(struct rd_iw_conn *c);
int rd_iw_fpdu_resume(struct rd_iw_conn *c);

/* ---- whole.c ---- */

/*
 * Between two FPDUs, @n bytes are at @p: do those FPDUs that are there as a whole and of a usual
 * kind. Returns the bytes used; for what follows, nothing has changed.
 */
size_t rd_iw_whole(struct rd_iw_conn *c, const uint8_t *p, size_t n);

/* ---- linger.c: sockets whose connection is over, but whose last bytes must arrive ---- */

struct rd_iw_linger {
	struct rd_io io;
	struct rd_timer timer;
	TAILQ_ENTRY(rd_iw_linger) link;
	struct rd_iw_fab *fab;
};

#define RD_IW_MAX_LINGERS 256

/* Takes @fd. With @fin the sending side is shut down at once. The oldest makes room when there
 * are too many. */
void rd_iw_linger_start(struct rd_iw_fab *fab, int fd, bool fin);
void rd_iw_linger_fini(struct rd_iw_fab *fab);

/* Other threads' way to rd_iw_linger_start(). */
int rd_iw_mailbox_create(struct rd_iw_fab *fab, struct rd_iw_mailbox **out);
void rd_iw_mailbox_get(struct rd_iw_mailbox *box);
void rd_iw_mailbox_put(struct rd_iw_mailbox *box);
/* The fabric goes: close what is in the box, refuse more. */
void rd_iw_mailbox_close(struct rd_iw_mailbox *box);
/* Takes the request: its socket lingers, the rest is freed. Any thread. */
void rd_iw_mailbox_send(struct rd_iw_mailbox *box, struct rd_iw_req *req);

/* ---- fabric: provider.c ---- */

struct rd_iw_fab {
	struct rd_fab base;
	struct rd_fab_iwarp_opts opts;
	char *congestion;
	struct rd_iw_dev dev;
	LIST_HEAD(, rd_iw_conn) conns;
	TAILQ_HEAD(, rd_iw_linger) lingers; /* oldest first */
	struct rd_ratelimit ends;           /* of messages about connections that failed */
	struct rd_iw_mailbox *box;          /* made with the first listener */
	struct rd_iw_stats stats;
};

struct rd_iw_fab *rd_iw_fab(struct rd_fab *fab);
extern const struct rd_fab_ops rd_iw_ops;

static inline struct rd_iw_stats *rd_iw_dev_stats(struct rd_iw_dev *dev)
{
	return &rd_container_of(dev, struct rd_iw_fab, dev)->stats;
}

static inline struct rd_log *rd_iw_log(const struct rd_iw_fab *fab)
{
	return fab->base.log;
}

#endif /* RD_IW_INTERNAL_H */
