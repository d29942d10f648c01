/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * siw, Linux's soft iWARP: what it does otherwise than the interface promises. Seen in Linux 6.1
 * and rdma-core 44, unless said otherwise. The functions named are the kernel's.
 *
 * Handled in this file: SIGPIPE, a lost first message, an offset that libsiw takes for an error,
 * listeners that end, the key of a SEND with Invalidate, data that is sent after its completion.
 *
 * Handled by what the provider does for all devices, or for all iWARP devices:
 * - User space siw loses what is posted to a failed queue pair, and completes what is behind a READ
 *   before the READ: every work request is recorded and completed in order (qp.c).
 * - It fails a SEND with Invalidate that is inline, without a completion (siw_activate_tx()):
 *   caps.inline_with_inv is false on iWARP (dev.c).
 * - Whatever it cannot send completes with "local QP operation error", mostly because the peer
 *   leaves; the end of the connection is reported soon after (is_consequence(), conn.c).
 * - It connects its TCP socket inside rdma_connect() (kernel_bindconnect()), for up to two minutes:
 *   a thread makes that call (connect.c).
 * - A connection request that has been sent cannot be cancelled: destroying the connection waits
 *   for the answer, 10 s at most (rd_vb_conn_destroy(), conn.c).
 * - A reject by the peer is reported as a reset (cm.c).
 * - The depths in the event of an answer are the resulting ones (siw_cm_upcall(); take_depths(),
 *   connect.c).
 * - The removal of its device waits until every file that has it open is closed (hotplug.c).
 */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "util/sockaddr.h"

#include "conn.h"

#define SIW_VENDOR 0x626d74u /* ibv_device_attr.vendor_id, whatever the device's name */

static bool siw_match(const struct ibv_device *device, const struct ibv_device_attr *attr)
{
	return device->transport_type == IBV_TRANSPORT_IWARP && attr->vendor_id == SIW_VENDOR;
}

/* ---- SIGPIPE ---- */

/*
 * siw writes to its TCP socket inside the system call that posts work requests, ends a connection
 * or answers a request (siw_qp_sq_process(), siw_send_terminate(), siw_send_mpareqrep()), without
 * MSG_NOSIGNAL. When the peer leaves while a message of several frames is being sent, the caller
 * gets a SIGPIPE, which ends most programs. The signal is directed at the calling thread: it is
 * blocked there during the call, and fetched if it came.
 */

static void only_sigpipe(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGPIPE);
}

void rd_vb_sigpipe_block(struct rd_vb_sigpipe *s)
{
	struct sigaction action;
	sigset_t set, pending;

	/* A SIGPIPE that is ignored is never generated: nothing to do, and two system calls saved.
	 */
	s->blocked = sigaction(SIGPIPE, NULL, &action) || action.sa_handler != SIG_IGN;
	if (!s->blocked)
		return;
	only_sigpipe(&set);
	pthread_sigmask(SIG_BLOCK, &set, &s->old);
	/* A SIGPIPE that is pending already belongs to the program, and absorbs siw's. */
	if (sigismember(&s->old, SIGPIPE) && sigpending(&pending) == 0)
		s->blocked = !sigismember(&pending, SIGPIPE);
}

void rd_vb_sigpipe_restore(struct rd_vb_sigpipe *s)
{
	const struct timespec now = {0};
	sigset_t set;

	if (!s->blocked)
		return;
	only_sigpipe(&set);
	while (sigtimedwait(&set, NULL, &now) < 0 && errno == EINTR)
		;
	pthread_sigmask(SIG_SETMASK, &s->old, NULL);
}

/* ---- the offset ---- */

/*
 * libsiw (in rdma-core's header ever since 44) takes the offset 0x90000 of a queue's mapping for an
 * error: a completion queue or queue pair whose mapping begins there cannot be made (errno is 0),
 * nor any other until the queues below it change. Some dozen connections are enough. The kernel
 * hands out the lowest free offsets: a CQ that is never used, made first, occupies this offset with
 * its 32 bytes for each entry.
 */
static int siw_open(struct rd_vb_dev *dev)
{
	int entries = 0x90000 / 32 + 1;

	errno = 0;
	dev->quirk_cq = ibv_create_cq(dev->ctx, entries, NULL, NULL, 0);
	return dev->quirk_cq ? 0 : rd_vb_errno();
}

static void siw_close(struct rd_vb_dev *dev)
{
	if (dev->quirk_cq)
		ibv_destroy_cq(dev->quirk_cq);
	dev->quirk_cq = NULL;
}

/* ---- the first message ---- */

/*
 * siw as a responder sends its reply before its socket receives FPDUs (siw_accept()). A first
 * message that arrives in between wakes nobody: siw sees it when more data arrives on the
 * connection, and no call of the responder makes it look. So until a first message has been
 * received, more data is made to arrive ("poke").
 *
 * The active side sends empty RDMA WRITEs. The passive side cannot use them, since only a TCP
 * acknowledgement comes back; it sends an empty RDMA READ, which is answered. Speaking first is a
 * violation of MPA by the passive side, but siw accepts it, and where the wake-up was lost the peer
 * has spoken already.
 *
 * The passive side begins much later, for two reasons. A peer that is a siw and is just sending its
 * first message answers an empty READ that it has to queue behind another message with that
 * message's length (siw_activate_tx()), which ends the connection. And a siw that has not processed
 * our reply yet, because it is busy or TCP had to retransmit the reply (200 ms later at the
 * earliest), takes a reply with data behind it for a broken one (siw_recv_mpa_rr()). A host that
 * has something to say says it within milliseconds.
 */

struct poke_schedule {
	uint64_t first_ns; /* until the first poke */
	uint64_t factor;   /* by which each pause is longer than the one before */
	uint64_t last_ns;  /* the longest pause; no poke after it */
};

static const struct poke_schedule active = {5 * RD_NSEC_PER_MSEC, 4, 1280 * RD_NSEC_PER_MSEC};
/* The last poke is 7 s after the beginning: before a target gives up waiting for a Connect command.
 */
static const struct poke_schedule passive = {RD_NSEC_PER_SEC, 2, 4 * RD_NSEC_PER_SEC};

static const struct poke_schedule *schedule_of(const struct rd_vb_conn *c)
{
	return c->poke.opcode == IBV_WR_RDMA_READ ? &passive : &active;
}

static void siw_poke(struct rd_timer *timer)
{
	struct rd_vb_conn *c = rd_container_of(timer, struct rd_vb_conn, poke.timer);

	/* The message may have arrived, and not been polled yet. */
	rd_vb_cq_sweep(c->rcq);
	if (c->heard || c->state != RD_VB_OPEN || c->stalled)
		return;
	rd_vb_post_hidden(c, c->poke.opcode);
	c->poke.pause_ns *= schedule_of(c)->factor;
	if (c->poke.pause_ns <= schedule_of(c)->last_ns)
		/* Cannot fail: the heap has the place that the timer has just left. */
		rd_timer_start(c->fab->base.loop, timer, c->poke.pause_ns);
}

static void siw_established(struct rd_vb_conn *c, bool initiator)
{
	if (c->heard || (!initiator && !c->base.ord))
		return;
	c->poke.opcode = initiator ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
	c->poke.timer.fn = siw_poke;
	c->poke.pause_ns = schedule_of(c)->first_ns;
	if (rd_timer_start(c->fab->base.loop, &c->poke.timer, c->poke.pause_ns))
		rd_debug(rd_vb_log(c->fab), RD_LOG_FABRIC, "qp %u: no memory for a timer",
			 c->base.qp_num);
}

static void siw_stop_poking(struct rd_vb_conn *c)
{
	rd_timer_stop(c->fab->base.loop, &c->poke.timer);
}

/* ---- listeners ---- */

/*
 * siw takes the close of a TCP connection that it has not accepted yet for the listener's
 * (siw_cm_llp_state_change()): nobody can connect any more, and nothing reports it.
 */
static void siw_listening(struct rd_log *log, const struct sockaddr *addr, struct ibv_context *ctx)
{
	char text[RD_ADDR_TEXT];

	rd_warn(log, RD_LOG_FABRIC,
		"%s: %s is siw, whose listeners end when a TCP connection is closed at "
		"once, as by a port scan (seen in Linux 6.1): provider iwarp serves the "
		"same hosts without it",
		rd_addr_format(addr, text), ibv_get_device_name(ctx->device));
}

/*
 * signal_writes: of a request that is not signaled and has a page of data or more, siw gives TCP
 * the caller's pages instead of a copy (siw_qp_prepare_tx(), c_tx->use_sendpage; data was seen to
 * change on its way in Linux 6.12, not in 6.1). It completes the requests behind it when TCP has
 * taken them, and TCP reads the pages when it sends or sends again. A target reuses the buffer of a
 * read when the SEND behind its WRITE has completed: the host would get the data of another read.
 * The pages of a SEND and of an answer to a READ are not reused before the peer has answered, which
 * it does after it has the data.
 */
const struct rd_vb_quirk rd_vb_quirk_siw = {
	.match = siw_match,
	.hidden_wrs = 1,
	.inv_key_in_rdma = true,
	.signal_writes = true,
	.sigpipe = true,
	.open = siw_open,
	.close = siw_close,
	.established = siw_established,
	.heard = siw_stop_poking,
	.closed = siw_stop_poking,
	.listening = siw_listening,
};
