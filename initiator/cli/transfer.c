/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The copy engine of `read` and `write`: pieces of a byte range in flight over all queues, one poll
 * loop for the queues, the controller (keep-alive goes on) and the file.
 *
 * A piece is whole blocks, or part of one block: then `write` reads the block, changes its part and
 * writes it back. Pieces of one run never share a block, so that needs no lock against ourselves.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/iomem.h"
#include "cli.h"

#define CHUNK_MAX (1u << 20)  /* larger commands need more memory and are not faster */
#define MEMORY    (32u << 20) /* bytes for all pieces in flight */
#define SLOTS_MAX 256u
/* interval of processing the controller while the queues are busy */
#define CTRL_EVERY_NS 50000000u

enum slot_state {
	SLOT_FREE,   /* start_piece() moves it out */
	SLOT_FILL,   /* write: waits for input; fill_input() moves it out */
	SLOT_SUBMIT, /* ready to be sent; waits for a queue with room */
	SLOT_FLIGHT, /* a command is in flight; its callback moves it out */
	SLOT_OUTPUT, /* read: waits for its turn to be written to the file */
};

struct slot {
	struct engine *e;
	enum slot_state state;
	struct cli_piece piece;
	uint64_t at;        /* bytes from the start of the range */
	uint32_t filled;    /* bytes of input received, or of output written */
	bool merging;       /* write of a partial block: the block is being read first */
	unsigned char *buf; /* chunk bytes, followed by the input of a partial block */
};

struct engine {
	struct cli_transfer *t;
	struct rdinit_ns *ns;
	uint32_t bs, chunk;
	struct slot *slots;
	unsigned int n_slots;
	unsigned char *memory;
	size_t memory_len;
	uint64_t length;  /* of the range; UINT64_MAX until the end of the input is known */
	uint64_t issued;  /* bytes of the range assigned to slots */
	uint64_t written; /* read to a stream: bytes written, in order */
	unsigned int next_qp;
	struct slot *filling;
	unsigned char *carry; /* input beyond the end of a piece, less than a block */
	uint32_t carry_len;
	bool eof;
	bool file_ready; /* a stream may be read or written without blocking */
	bool file_wait;  /* a stream has to become ready first */
	bool moved;      /* this round did something */
	int status;      /* CLI_FAILED after the first error */
	uint64_t broken; /* position of the first failed piece */
	uint64_t ctrl_last;
};

static void transfer_failed(struct engine *e)
{
	e->status = CLI_FAILED;
}

/* The piece of @s has not been transferred and will not be. */
static void give_up_piece(struct slot *s)
{
	if (s->at < s->e->broken)
		s->e->broken = s->at;
	s->state = SLOT_FREE;
}

/* The number of bytes transferred from the start without a gap, after all commands have
 * completed. */
static uint64_t complete_part(const struct engine *e)
{
	uint64_t end = e->issued < e->broken ? e->issued : e->broken;
	unsigned int i;

	for (i = 0; i < e->n_slots; i++) {
		if (e->slots[i].state != SLOT_FREE && e->slots[i].at < end)
			end = e->slots[i].at;
	}
	return end;
}

/* Prints the message, after clearing the progress bar, and ends the transfer. */
#define fail(e, ...)                                  \
	do {                                          \
		cli_progress_clear((e)->t->progress); \
		cli_error(__VA_ARGS__);               \
		transfer_failed(e);                   \
	} while (0)

static bool slots_in_use(const struct engine *e)
{
	unsigned int i;

	for (i = 0; i < e->n_slots; i++) {
		if (e->slots[i].state != SLOT_FREE)
			return true;
	}
	return false;
}

static bool in_flight(const struct engine *e)
{
	unsigned int i;

	for (i = 0; i < e->n_slots; i++) {
		if (e->slots[i].state == SLOT_FLIGHT)
			return true;
	}
	return false;
}

/* ---- commands ---- */

static void piece_done(struct slot *s)
{
	struct engine *e = s->e;

	e->t->done += s->piece.bytes;
	s->state = SLOT_FREE;
}

static void on_complete(void *user, const struct rdinit_completion *c)
{
	struct slot *s = user;
	struct engine *e = s->e;

	e->moved = true;
	if (c->err) {
		if (!e->status)
			fail(e, "%s of blocks %llu to %llu: %s%s",
			     e->t->write && !s->merging ? "write" : "read",
			     (unsigned long long)s->piece.lba,
			     (unsigned long long)(s->piece.lba + s->piece.nblocks - 1),
			     c->err == -EIO && (c->status & CLI_STATUS_CODE) == CLI_STATUS_PROTECTED
				     ? "the namespace is read-only: "
				     : "",
			     c->text);
		give_up_piece(s);
		return;
	}
	if (s->merging) {
		memcpy(s->buf + s->piece.skip, s->buf + e->chunk, s->piece.bytes);
		s->merging = false;
		s->state = SLOT_SUBMIT;
	} else if (e->t->write) {
		piece_done(s);
	} else {
		s->filled = 0;
		s->state = SLOT_OUTPUT;
	}
}

/* The next queue with room, round robin. NULL: none has room. */
static struct rdinit_qpair *pick_queue(struct engine *e)
{
	struct cli_session *sess = e->t->session;
	unsigned int i;

	for (i = 0; i < sess->n_qp; i++) {
		struct rdinit_qpair *qp = sess->qp[e->next_qp];

		e->next_qp = (e->next_qp + 1) % sess->n_qp;
		if (rdinit_qpair_inflight(qp) < rdinit_qpair_depth(qp))
			return qp;
	}
	return NULL;
}

/* Returns false when no queue has room. */
static bool submit_piece(struct engine *e, struct slot *s)
{
	struct rdinit_qpair *qp = pick_queue(e);
	const struct cli_piece *p = &s->piece;
	int rc;

	if (!qp)
		return false;
	if (e->t->write && !s->merging)
		rc = rdinit_write_async(qp, e->ns, p->lba, p->nblocks, s->buf, e->t->flags,
					on_complete, s);
	else
		rc = rdinit_read_async(qp, e->ns, p->lba, p->nblocks, s->buf,
				       e->t->write ? 0 : e->t->flags, on_complete, s);
	if (rc == -EAGAIN)
		return false;
	e->moved = true;
	if (rc) {
		fail(e, "%s", cli_lib_text());
		give_up_piece(s);
		return true;
	}
	e->t->ios++;
	s->state = SLOT_FLIGHT;
	return true;
}

static void submit_all(struct engine *e)
{
	unsigned int i;

	for (i = 0; i < e->n_slots && !e->status; i++) {
		if (e->slots[i].state == SLOT_SUBMIT && !submit_piece(e, &e->slots[i]))
			return;
	}
}

/* ---- pieces ---- */

static struct slot *free_slot(struct engine *e)
{
	unsigned int i;

	for (i = 0; i < e->n_slots; i++) {
		if (e->slots[i].state == SLOT_FREE)
			return &e->slots[i];
	}
	return NULL;
}

/* Assigns the next piece of the range to a slot. NULL if no slot is free or no piece is left. */
static struct slot *start_piece(struct engine *e)
{
	uint64_t end = e->length < e->t->limit ? e->length : e->t->limit;
	struct slot *s;

	if (e->issued >= end)
		return NULL;
	s = free_slot(e);
	if (!s)
		return NULL;
	cli_piece_next(e->t->start + e->issued, end - e->issued, e->bs, e->chunk, &s->piece);
	s->at = e->issued;
	s->filled = 0;
	s->merging = false;
	e->issued += s->piece.bytes;
	return s;
}

/* ---- input of write ---- */

/* Reads up to @len bytes of input. Returns their number, 0 at its end, -EAGAIN when it would
 * block. */
static ssize_t input(struct engine *e, void *buf, size_t len)
{
	struct cli_transfer *t = e->t;
	ssize_t n;

	if (!t->regular && !e->file_ready) {
		e->file_wait = true;
		return -EAGAIN;
	}
	do {
		n = read(t->fd, buf, len);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN) {
		e->file_ready = false;
		e->file_wait = true;
		return -EAGAIN;
	}
	if (n < 0) {
		fail(e, "%s: %s", t->name, strerror(errno));
		return -EIO;
	}
	/* One read(2) after each poll(2): a second one could block. */
	e->file_ready = false;
	e->moved = true;
	return n;
}

/* The input has ended inside the piece of @s: shortens it to whole blocks and keeps the rest for
 * the next piece. */
static void end_of_input(struct engine *e, struct slot *s)
{
	unsigned char *from = s->piece.partial ? s->buf + e->chunk : s->buf;
	uint32_t have = s->filled;

	e->eof = true;
	e->length = s->at + have;
	e->issued = s->at;
	if (have == 0) {
		s->state = SLOT_FREE;
		return;
	}
	cli_piece_next(e->t->start + s->at, have, e->bs, e->chunk, &s->piece);
	e->issued += s->piece.bytes;
	if (s->piece.bytes < have) {
		e->carry_len = have - s->piece.bytes;
		memcpy(e->carry, from + s->piece.bytes, e->carry_len);
	}
	if (s->piece.partial && from == s->buf)
		memcpy(s->buf + e->chunk, from, s->piece.bytes);
	s->filled = s->piece.bytes;
	s->merging = s->piece.partial;
	s->state = SLOT_SUBMIT;
}

static void check_exact(struct engine *e)
{
	if (e->t->exact && e->length < e->t->length && !e->status)
		fail(e, "%s: the input ended after %llu of %llu bytes", e->t->name,
		     (unsigned long long)e->length, (unsigned long long)e->t->length);
}

/* Reads input into the slot that waits for it. Returns false if none is available now. */
static bool fill_input(struct engine *e, struct slot *s)
{
	unsigned char *to = s->piece.partial ? s->buf + e->chunk : s->buf;
	ssize_t n;

	if (e->carry_len) {
		memcpy(to, e->carry, e->carry_len);
		s->filled = e->carry_len;
		e->carry_len = 0;
	}
	while (s->filled < s->piece.bytes) {
		n = input(e, to + s->filled, s->piece.bytes - s->filled);
		if (n < 0) {
			if (n != -EAGAIN)
				give_up_piece(s);
			return false;
		}
		if (n == 0) {
			end_of_input(e, s);
			check_exact(e);
			return true;
		}
		s->filled += (uint32_t)n;
	}
	s->merging = s->piece.partial;
	s->state = SLOT_SUBMIT;
	return true;
}

/* The whole namespace is written and the length of the input is unknown: tests whether there is
 * more. */
static void check_excess(struct engine *e)
{
	unsigned char byte;
	ssize_t n = input(e, &byte, 1);

	if (n == -EAGAIN)
		return;
	e->eof = true;
	if (n > 0)
		fail(e,
		     "%s: the input is longer than the %llu bytes to the end of the namespace, "
		     "which were written",
		     e->t->name, (unsigned long long)e->t->limit);
	e->length = e->issued;
}

static void pump_write(struct engine *e)
{
	while (!e->status) {
		if (!e->filling) {
			if (e->eof && e->issued >= e->length)
				break;
			e->filling = start_piece(e);
			if (e->filling)
				e->filling->state = SLOT_FILL;
		}
		if (!e->filling) {
			if (e->length == UINT64_MAX && e->issued >= e->t->limit && !e->eof)
				check_excess(e);
			break;
		}
		if (!fill_input(e, e->filling))
			break;
		e->filling = NULL;
		submit_all(e);
	}
	submit_all(e);
}

/* ---- output of read ---- */

/* Writes the data of @s. Returns false when a stream accepts no more now. */
static bool output(struct engine *e, struct slot *s)
{
	struct cli_transfer *t = e->t;
	const unsigned char *from = s->buf + s->piece.skip;

	while (s->filled < s->piece.bytes) {
		size_t len = s->piece.bytes - s->filled;
		ssize_t n;

		if (t->regular) {
			n = pwrite(t->fd, from + s->filled, len,
				   (off_t)(t->file_start + s->at + s->filled));
		} else {
			if (!e->file_ready) {
				e->file_wait = true;
				return false;
			}
			/* A writable pipe accepts this much without blocking. */
			n = write(t->fd, from + s->filled, len > PIPE_BUF ? PIPE_BUF : len);
			e->file_ready = false;
		}
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0) {
			fail(e, "%s: %s", t->name, strerror(n < 0 ? errno : EIO));
			give_up_piece(s);
			return false;
		}
		e->moved = true;
		s->filled += (uint32_t)n;
	}
	e->written += s->piece.bytes;
	piece_done(s);
	return true;
}

static void pump_read(struct engine *e)
{
	struct slot *s;
	unsigned int i;
	bool again;

	do {
		again = false;
		for (i = 0; i < e->n_slots && !e->status; i++) {
			s = &e->slots[i];
			if (s->state == SLOT_OUTPUT && (e->t->regular || s->at == e->written))
				again |= output(e, s);
		}
	} while (again && !e->t->regular);
	while (!e->status && (s = start_piece(e)))
		s->state = SLOT_SUBMIT;
	submit_all(e);
}

/* ---- the loop ---- */

static bool finished(const struct engine *e)
{
	uint64_t end = e->length < e->t->limit ? e->length : e->t->limit;

	if (e->status)
		return !in_flight(e);
	if (e->t->write && e->length == UINT64_MAX)
		return false;
	return e->issued >= end && !slots_in_use(e);
}

/* Commands in flight complete first: otherwise it would be unknown whether they were executed. */
static void interrupted(struct engine *e)
{
	if (!e->status)
		fail(e,
		     "%s after %llu bytes%s; a second signal ends rdinit without waiting for "
		     "commands in flight",
		     strsignal(e->t->interrupt.signo), (unsigned long long)e->t->done,
		     e->t->write ? ", which are not flushed" : "");
}

static void process(struct engine *e)
{
	struct cli_session *sess = e->t->session;
	unsigned int i;
	uint64_t now;
	int rc;

	for (i = 0; i < sess->n_qp; i++) {
		rc = rdinit_qpair_process(sess->qp[i], 0);
		if (rc < 0 && !e->status)
			fail(e, "%s", cli_lib_text());
		e->moved |= rc > 0;
	}
	now = cli_now_ns();
	if (now - e->ctrl_last < CTRL_EVERY_NS && e->moved)
		return;
	e->ctrl_last = now;
	rc = rdinit_ctrl_process(sess->ctrl, 0);
	if (rc < 0 && !e->status)
		fail(e, "%s", cli_lib_text());
	if (cli_signals_check(&e->t->interrupt))
		interrupted(e);
}

/* Sleeps until a queue, the controller or the file is ready. */
static void wait_for_work(struct engine *e)
{
	struct cli_session *sess = e->t->session;
	struct pollfd fds[CLI_QUEUES_MAX + 3];
	unsigned int n = 0, i;
	int rc;

	for (i = 0; i < sess->n_qp; i++)
		fds[n++] = (struct pollfd){.fd = rdinit_qpair_fd(sess->qp[i]), .events = POLLIN};
	fds[n++] = (struct pollfd){.fd = rdinit_ctrl_fd(sess->ctrl), .events = POLLIN};
	fds[n++] = (struct pollfd){.fd = e->t->interrupt.fd, .events = POLLIN};
	/* The last entry, used only while the file is waited for: otherwise a pipe without a
	 * reader would wake the loop. */
	if (e->file_wait && !e->status)
		fds[n++] =
			(struct pollfd){.fd = e->t->fd, .events = e->t->write ? POLLIN : POLLOUT};
	do {
		rc = poll(fds, n, -1);
	} while (rc < 0 && errno == EINTR);
	if (rc < 0) {
		fail(e, "poll: %s", strerror(errno));
	} else if (e->file_wait && !e->status && fds[n - 1].revents) {
		/* also at the end of file or after an error: read(2) reports it */
		e->file_ready = true;
		e->file_wait = false;
	}
}

/* Polls only the file, so that a stream that is always ready does not cost a poll(2) of all
 * descriptors. */
static void look_at_file(struct engine *e)
{
	struct pollfd fd = {.fd = e->t->fd, .events = e->t->write ? POLLIN : POLLOUT};

	if (e->t->regular || e->file_ready)
		return;
	e->file_ready = poll(&fd, 1, 0) > 0;
}

static void run_transfer(struct engine *e)
{
	while (!finished(e)) {
		e->moved = false;
		e->file_wait = false;
		look_at_file(e);
		if (!e->status && e->t->write)
			pump_write(e);
		else if (!e->status)
			pump_read(e);
		process(e);
		cli_progress_update(e->t->progress, e->t->done);
		if (!e->moved && !finished(e))
			wait_for_work(e);
	}
}

static int setup(struct engine *e)
{
	struct cli_session *sess = e->t->session;
	uint32_t max = sess->info.max_transfer < CHUNK_MAX ? sess->info.max_transfer : CHUNK_MAX;
	unsigned int depth = 0, i;
	size_t each;

	e->chunk = max / e->bs * e->bs;
	if (e->chunk == 0)
		return cli_error(
			"the controller transfers at most %u bytes at once, less than a block",
			max);
	for (i = 0; i < sess->n_qp; i++)
		depth += rdinit_qpair_depth(sess->qp[i]);
	e->n_slots = MEMORY / e->chunk < depth ? MEMORY / e->chunk : depth;
	if (e->n_slots > SLOTS_MAX)
		e->n_slots = SLOTS_MAX;
	if (e->n_slots < 1)
		e->n_slots = 1;
	each = (size_t)e->chunk + e->bs;
	e->memory_len = each * e->n_slots;
	e->slots = calloc(e->n_slots, sizeof(*e->slots));
	e->carry = malloc(e->bs);
	e->memory = rd_iomem_map(e->memory_len);
	if (!e->slots || !e->carry || !e->memory)
		return cli_error("out of memory");
	for (i = 0; i < e->n_slots; i++) {
		e->slots[i].e = e;
		e->slots[i].buf = e->memory + i * each;
	}
	return CLI_OK;
}

int cli_transfer_run(struct cli_transfer *t)
{
	struct engine e = {
		.t = t,
		.ns = &t->session->ns,
		.bs = t->session->ns.block_size,
		.length = t->length,
		.broken = UINT64_MAX,
	};

	t->done = 0;
	t->ios = 0;
	e.status = setup(&e);
	if (!e.status) {
		cli_signals_start(&t->interrupt);
		run_transfer(&e);
		cli_signals_end(&t->interrupt);
		t->complete = complete_part(&e);
	}
	rd_iomem_unmap(e.memory, e.memory_len);
	free(e.carry);
	free(e.slots);
	return e.status;
}
