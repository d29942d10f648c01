/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The namespace of a session, for read and write: its queue pairs take the commands in turn. An
 * operation is whole blocks, or a part of one block; a write of that reads the block first. A copy
 * begins and ends inside a block at most, so that no two operations share one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "copy.h"

#define SESSION_IO_MAX (1u << 20)
/* interval of processing the controller while the queues are busy */
#define SESSION_CTRL_NS 50000000u

struct cp_session {
	struct cli_cp_end end;
	struct cli_session *s;
	unsigned int flags, next_qp;
	uint64_t *ios;
	uint64_t ctrl_last; /* ns */
	/* An operation that is a part of a block, and the block. */
	struct cli_cp_op *part;
	bool merged; /* the block has the new bytes, and waits for a queue with room */
	unsigned char *block;
	char name[24];
	char text[512];
};

static void cp_session_complete(struct cli_cp_op *op, int err, const char *text)
{
	struct cp_session *n = op->end;

	if (n->part == op)
		n->part = NULL;
	op->got = op->len;
	op->done(op, err, text);
}

static void cp_session_done(void *user, const struct rdinit_completion *c)
{
	struct cli_cp_op *op = user;
	struct cp_session *n = op->end;
	uint32_t bs = n->s->ns.block_size;
	bool protected = c->err == -EIO && (c->status & CLI_STATUS_CODE) == CLI_STATUS_PROTECTED;

	if (c->err)
		snprintf(n->text, sizeof(n->text), "blocks %llu to %llu: %s%s",
			 (unsigned long long)(op->at / bs),
			 (unsigned long long)((op->at + op->len - 1) / bs),
			 protected ? "the namespace is read-only: " : "", c->text);
	cp_session_complete(op, c->err, n->text);
}

static void cp_session_got_block(void *user, const struct rdinit_completion *c)
{
	struct cli_cp_op *op = user;
	struct cp_session *n = op->end;
	unsigned char *at = n->block + op->at % n->s->ns.block_size;

	if (!c->err && op->kind == CLI_CP_WRITE) {
		memcpy(at, op->buf, (size_t)op->len);
		n->merged = true;
		return;
	}
	if (!c->err)
		memcpy(op->buf, at, (size_t)op->len);
	cp_session_done(op, c);
}

/* The next queue with room, round robin. NULL: none has room. */
static struct rdinit_qpair *cp_session_queue(struct cp_session *n)
{
	unsigned int i;

	for (i = 0; i < n->s->n_qp; i++) {
		struct rdinit_qpair *qp = n->s->qp[n->next_qp];

		n->next_qp = (n->next_qp + 1) % n->s->n_qp;
		if (rdinit_qpair_inflight(qp) < rdinit_qpair_depth(qp))
			return qp;
	}
	return NULL;
}

static int cp_session_send(struct cp_session *n, struct cli_cp_op *op, bool write, bool part)
{
	struct rdinit_qpair *qp = cp_session_queue(n);
	uint32_t bs = n->s->ns.block_size;
	uint32_t blocks = (uint32_t)((op->len + bs - 1) / bs);
	unsigned int flags = write == (op->kind == CLI_CP_WRITE) ? n->flags : 0;
	unsigned char *buf = part ? n->block : op->buf;
	int rc = -EAGAIN;

	if (qp && write)
		rc = rdinit_write_async(qp, &n->s->ns, op->at / bs, blocks, buf, flags,
					cp_session_done, op);
	else if (qp)
		rc = rdinit_read_async(qp, &n->s->ns, op->at / bs, blocks, buf, flags,
				       part ? cp_session_got_block : cp_session_done, op);
	if (!rc)
		++*n->ios;
	else if (rc != -EAGAIN)
		snprintf(n->text, sizeof(n->text), "%s", cli_lib_text());
	return rc;
}

static int cp_session_submit(struct cli_cp_end *end, struct cli_cp_op *op)
{
	struct cp_session *n = (struct cp_session *)end;
	uint32_t bs = n->s->ns.block_size;
	/* A read that ends inside a block fills the buffer up to the end of that block. */
	bool part = op->at % bs || (op->kind == CLI_CP_WRITE && op->len % bs);
	int rc;

	op->end = n;
	end->why = n->text;
	if (part && n->part)
		return -EAGAIN;
	rc = cp_session_send(n, op, op->kind == CLI_CP_WRITE && !part, part);
	if (!rc && part)
		n->part = op;
	return rc;
}

/* Writes the block with the new bytes, if it has them. */
static bool cp_session_write_block(struct cp_session *n)
{
	int rc = n->merged ? cp_session_send(n, n->part, true, true) : -EAGAIN;

	if (rc == -EAGAIN)
		return false;
	n->merged = false;
	if (rc)
		cp_session_complete(n->part, rc, n->text);
	return true;
}

static int cp_session_process(struct cli_cp_end *end, const char **text)
{
	struct cp_session *n = (struct cp_session *)end;
	uint64_t now = cli_now_ns();
	unsigned int i;
	int moved = 0, rc = 0, got;

	*text = n->text;
	/* Commands of the other queues end when one is lost, too. */
	for (i = 0; i < n->s->n_qp; i++) {
		got = rdinit_qpair_process(n->s->qp[i], 0);
		moved += got > 0 ? got : 0;
		if (got < 0)
			rc = got;
	}
	if (!moved || now - n->ctrl_last >= SESSION_CTRL_NS) {
		n->ctrl_last = now;
		got = rdinit_ctrl_process(n->s->ctrl, 0);
		if (got < 0)
			rc = got;
	}
	if (rc < 0)
		snprintf(n->text, sizeof(n->text), "%s", cli_lib_text());
	return rc < 0 ? rc : moved + cp_session_write_block(n);
}

static unsigned int cp_session_fds(struct cli_cp_end *end, struct pollfd *fds, unsigned int room)
{
	const struct cli_session *s = ((struct cp_session *)end)->s;
	unsigned int i;

	fds[0] = (struct pollfd){.fd = rdinit_ctrl_fd(s->ctrl), .events = POLLIN};
	for (i = 0; i < s->n_qp && i + 1 < room; i++)
		fds[i + 1] = (struct pollfd){.fd = rdinit_qpair_fd(s->qp[i]), .events = POLLIN};
	return i + 1;
}

static void cp_session_close(struct cli_cp_end *end)
{
	free(((struct cp_session *)end)->block);
	free(end);
}

static const struct cli_cp_end_ops session_ops = {
	.submit = cp_session_submit,
	.process = cp_session_process,
	.fds = cp_session_fds,
	.close = cp_session_close,
};

int cli_cp_session_open(struct cli_session *s, unsigned int flags, uint64_t *ios,
			struct cli_cp_end **out)
{
	uint32_t bs = s->ns.block_size, max = s->info.max_transfer;
	struct cp_session *n = calloc(1, sizeof(*n));

	if (max < bs) {
		free(n);
		return cli_error("the controller transfers at most %u bytes in one command, less "
				 "than a block",
				 max);
	}
	if (n)
		n->block = malloc(bs);
	if (!n || !n->block) {
		free(n);
		return cli_error("out of memory");
	}
	n->s = s;
	n->flags = flags;
	n->ios = ios;
	snprintf(n->name, sizeof(n->name), "namespace %u", s->ns.nsid);
	n->end = (struct cli_cp_end){
		.ops = &session_ops,
		.name = n->name,
		.size = s->ns.blocks * bs,
		.align = bs,
		.max_io = (max < SESSION_IO_MAX ? max : SESSION_IO_MAX) / bs * bs,
		.can_read_again = true,
	};
	*out = &n->end;
	return CLI_OK;
}
