/* SPDX-License-Identifier: BSD-3-Clause */
/* Namespaces: a controller and its I/O queues, the commands spread over them in turn. */
#include <endian.h>
#include <errno.h>
#include <nvme/types.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "endpoint.h"

#define NS_IO_MAX         (1u << 20)
#define NS_ZERO_BLOCKS    65536u /* NLB is a 16-bit field, 0's based */
#define NS_DEAC           (1u << 25)
#define NS_CTRL_EVERY     50000000u /* ns: look after the controller while the queues are busy */
#define NS_PROTECTED      0x20u     /* Generic: Namespace is Write Protected */
#define NS_RESERVED       0x83u     /* Generic: Reservation Conflict */
#define NS_ATTR_PROTECTED 0x1u
#define NS_ID_TEXT        48

/* Writing the last bytes, less than a block: the rest of the block stays as it is. */
enum cp_tail {
	TAIL_NONE,
	TAIL_READ,
	TAIL_MERGED, /* the write waits for room in a queue */
	TAIL_WRITE,
};

struct cp_ns {
	struct cli_cp_end end;
	struct cli_options o;
	struct cli_session s;
	unsigned int next_qp;
	char id[NS_ID_TEXT]; /* UUID, NGUID or EUI-64; "": it has none */
	bool has_zeroes;     /* Write Zeroes */
	bool deallocates;    /* it may deallocate, and zeroes are still read */
	uint64_t ctrl_last;
	enum cp_tail tail;
	struct cli_cp_op *tail_op;
	unsigned char *tail_block;
	unsigned char *zeroes; /* max_io bytes, if there is no Write Zeroes */
	bool moved;
	char text[512];
};

/* ---- commands ---- */

/* The next queue with room, in turn. NULL: none has. */
static struct rdinit_qpair *cp_ns_queue(struct cp_ns *n)
{
	unsigned int i;

	for (i = 0; i < n->s.n_qp; i++) {
		struct rdinit_qpair *qp = n->s.qp[n->next_qp];

		n->next_qp = (n->next_qp + 1) % n->s.n_qp;
		if (rdinit_qpair_inflight(qp) < rdinit_qpair_depth(qp))
			return qp;
	}
	return NULL;
}

/* An error that the user can do something about says what. */
static const char *cp_ns_reason(struct cp_ns *n, const struct rdinit_completion *c)
{
	unsigned int status = c->err == -EIO ? c->status & 0x7ffu : 0;

	if (status == NS_PROTECTED)
		snprintf(n->text, sizeof(n->text), "the namespace is read-only: %s", c->text);
	else if (status == NS_RESERVED)
		snprintf(n->text, sizeof(n->text),
			 "%s: it is in use, another host has reserved it (rdinit resv-report shows "
			 "which)",
			 c->text);
	else
		return c->text;
	return n->text;
}

static void cp_ns_done(void *user, const struct rdinit_completion *c)
{
	struct cli_cp_op *op = user;
	struct cp_ns *n = op->end;

	n->moved = true;
	op->got = op->len;
	op->done(op, c->err, c->err ? cp_ns_reason(n, c) : "");
}

static void cp_ns_tail_written(void *user, const struct rdinit_completion *c)
{
	struct cli_cp_op *op = user;

	((struct cp_ns *)op->end)->tail = TAIL_NONE;
	cp_ns_done(user, c);
}

static void cp_ns_tail_write(struct cp_ns *n)
{
	struct rdinit_qpair *qp = cp_ns_queue(n);
	struct cli_cp_op *op = n->tail_op;
	int rc = -EAGAIN;

	if (qp)
		rc = rdinit_write_async(qp, &n->s.ns, op->at / n->s.ns.block_size, 1, n->tail_block,
					0, cp_ns_tail_written, op);
	if (rc == -EAGAIN)
		return;
	n->tail = rc ? TAIL_NONE : TAIL_WRITE;
	if (rc)
		op->done(op, rc, cli_lib_text());
}

static void cp_ns_tail_read(void *user, const struct rdinit_completion *c)
{
	struct cli_cp_op *op = user;
	struct cp_ns *n = op->end;

	if (c->err) {
		cp_ns_tail_written(user, c);
		return;
	}
	n->moved = true;
	memcpy(n->tail_block, op->buf, (size_t)op->len);
	n->tail = TAIL_MERGED;
}

static int cp_ns_tail(struct cp_ns *n, struct rdinit_qpair *qp, struct cli_cp_op *op)
{
	int rc;

	if (op->len >= n->s.ns.block_size)
		return -EINVAL;
	if (n->tail != TAIL_NONE)
		return -EAGAIN;
	rc = rdinit_read_async(qp, &n->s.ns, op->at / n->s.ns.block_size, 1, n->tail_block, 0,
			       cp_ns_tail_read, op);
	if (!rc) {
		n->tail = TAIL_READ;
		n->tail_op = op;
	}
	return rc;
}

static int cp_ns_zero(struct cp_ns *n, struct rdinit_qpair *qp, struct cli_cp_op *op, uint64_t lba,
		      uint32_t blocks)
{
	struct rdinit_passthru cmd;
	uint32_t cdw[3] = {htole32((uint32_t)lba), htole32((uint32_t)(lba >> 32)),
			   htole32((blocks - 1) | (n->deallocates ? NS_DEAC : 0))};
	uint32_t nsid = htole32(n->s.ns.nsid);

	if (!n->has_zeroes)
		return rdinit_write_async(qp, &n->s.ns, lba, blocks, n->zeroes, 0, cp_ns_done, op);
	rdinit_passthru_init(&cmd);
	cmd.sqe[0] = nvme_cmd_write_zeroes;
	memcpy(&cmd.sqe[4], &nsid, sizeof(nsid));
	memcpy(&cmd.sqe[40], cdw, sizeof(cdw));
	return rdinit_io_passthru_async(qp, &cmd, NULL, cp_ns_done, op);
}

static int cp_ns_submit(struct cli_cp_end *end, struct cli_cp_op *op)
{
	struct cp_ns *n = (struct cp_ns *)end;
	struct rdinit_qpair *qp = cp_ns_queue(n);
	uint32_t bs = n->s.ns.block_size;
	uint64_t lba = op->at / bs;
	uint32_t blocks = (uint32_t)((op->len + bs - 1) / bs);

	if (!qp)
		return -EAGAIN;
	op->end = n;
	switch (op->kind) {
	case CLI_CP_READ:
		return rdinit_read_async(qp, &n->s.ns, lba, blocks, op->buf, 0, cp_ns_done, op);
	case CLI_CP_WRITE:
		if (op->len % bs)
			return cp_ns_tail(n, qp, op);
		return rdinit_write_async(qp, &n->s.ns, lba, blocks, op->buf, 0, cp_ns_done, op);
	case CLI_CP_ZERO:
		return cp_ns_zero(n, qp, op, lba, blocks);
	case CLI_CP_FLUSH:
		return rdinit_flush_async(qp, &n->s.ns, cp_ns_done, op);
	}
	return -EINVAL;
}

static int cp_ns_process(struct cli_cp_end *end, const char **text)
{
	struct cp_ns *n = (struct cp_ns *)end;
	unsigned int i;
	uint64_t now;
	int rc;

	n->moved = false;
	if (n->tail == TAIL_MERGED)
		cp_ns_tail_write(n);
	for (i = 0; i < n->s.n_qp; i++) {
		rc = rdinit_qpair_process(n->s.qp[i], 0);
		if (rc < 0)
			goto lost;
	}
	now = cli_now_ns();
	if (n->moved && now - n->ctrl_last < NS_CTRL_EVERY)
		return 1;
	n->ctrl_last = now;
	rc = rdinit_ctrl_process(n->s.ctrl, 0);
	if (rc >= 0)
		return n->moved;
lost:
	*text = cli_lib_text();
	return rc;
}

static unsigned int cp_ns_fds(struct cli_cp_end *end, struct pollfd *fds, unsigned int room)
{
	struct cp_ns *n = (struct cp_ns *)end;
	unsigned int i, at = 0;

	for (i = 0; i < n->s.n_qp && at < room; i++)
		fds[at++] = (struct pollfd){.fd = rdinit_qpair_fd(n->s.qp[i]), .events = POLLIN};
	if (at < room)
		fds[at++] = (struct pollfd){.fd = rdinit_ctrl_fd(n->s.ctrl), .events = POLLIN};
	return at;
}

static json_t *cp_ns_identity(const struct cli_cp_end *end)
{
	const struct cp_ns *n = (const struct cp_ns *)end;

	return json_pack("{s:s, s:{s:s, s:I, s:s}, s:I, s:I}", "kind", "namespace", "id", "nqn",
			 n->o.ctrl.subnqn, "nsid", (json_int_t)n->s.ns.nsid, "identifier", n->id,
			 "size", (json_int_t)end->size, "block_size",
			 (json_int_t)n->s.ns.block_size);
}

static void cp_ns_close(struct cli_cp_end *end)
{
	struct cp_ns *n = (struct cp_ns *)end;

	cli_session_close(&n->s);
	free(n->tail_block);
	free(n->zeroes);
	free(n);
}

static const struct cli_cp_end_ops ns_ops = {
	.submit = cp_ns_submit,
	.process = cp_ns_process,
	.fds = cp_ns_fds,
	.identity = cp_ns_identity,
	.close = cp_ns_close,
};

/* ---- opening ---- */

/* Identify with CDW10 and CDW11, where a controller may not have what is asked for. */
static int cp_ns_identify(struct cp_ns *n, uint32_t cns, uint32_t csi, unsigned char *data)
{
	struct rdinit_passthru cmd;
	uint32_t nsid = htole32(n->s.ns.nsid), cdw[2] = {htole32(cns), htole32(csi << 24)};

	rdinit_passthru_init(&cmd);
	cmd.sqe[0] = nvme_admin_identify;
	/* The limits of the NVM command set are the controller's. */
	if (cns != NVME_IDENTIFY_CNS_CSI_CTRL)
		memcpy(&cmd.sqe[4], &nsid, sizeof(nsid));
	memcpy(&cmd.sqe[40], cdw, sizeof(cdw));
	cmd.data = data;
	cmd.len = RDINIT_IDENTIFY_SIZE;
	return rdinit_admin_passthru(n->s.ctrl, &cmd, NULL);
}

/* The best identifier among the descriptors: UUID, else NGUID, else EUI-64. */
static void cp_ns_find_id(struct cp_ns *n, unsigned char *data)
{
	static const char *const names[] = {NULL, "eui64", "nguid", "uuid"};
	unsigned int at = 0, i, best = 0;

	if (cp_ns_identify(n, NVME_IDENTIFY_CNS_NS_DESC_LIST, 0, data))
		return;
	while (at + 4 < RDINIT_IDENTIFY_SIZE && data[at] && data[at + 1]) {
		unsigned int type = data[at], len = data[at + 1];

		if (type <= 3 && type > best && len <= 16 && at + 4 + len <= RDINIT_IDENTIFY_SIZE) {
			int used = snprintf(n->id, sizeof(n->id), "%s:", names[type]);

			for (i = 0; i < len; i++)
				used += snprintf(n->id + used, sizeof(n->id) - (size_t)used, "%02x",
						 data[at + 4 + i]);
			best = type;
		}
		at += 4 + len;
	}
}

/* How zeroes are written without sending them. */
static int cp_ns_find_zeroes(struct cp_ns *n, unsigned char *data)
{
	uint32_t bs = n->s.ns.block_size;
	uint64_t max;
	uint16_t oncs;
	unsigned int wzsl;

	if (rdinit_identify_ctrl(n->s.ctrl, data))
		return cli_lib_error();
	memcpy(&oncs, data + offsetof(struct nvme_id_ctrl, oncs), sizeof(oncs));
	n->has_zeroes = le16toh(oncs) & NVME_CTRL_ONCS_WRITE_ZEROES;
	n->end.max_zero = n->end.max_io;
	if (!n->has_zeroes) {
		n->zeroes = calloc(1, n->end.max_io);
		return n->zeroes ? CLI_OK : cli_error("out of memory");
	}
	/* Older controllers have no such limit, but may apply that of transfers. */
	if (cp_ns_identify(n, NVME_IDENTIFY_CNS_CSI_CTRL, 0, data))
		return CLI_OK;
	max = (uint64_t)NS_ZERO_BLOCKS * bs;
	wzsl = data[offsetof(struct nvme_id_ctrl_nvm, wzsl)];
	if (wzsl && wzsl < 32 && 4096ull << wzsl < max)
		max = 4096ull << wzsl; /* in units of CAP.MPSMIN, 4 KiB at least */
	if (max >= bs)
		n->end.max_zero = max;
	return CLI_OK;
}

/* What else is to be known of the namespace. */
static int cp_ns_look(struct cp_ns *n, bool write)
{
	unsigned char *data = malloc(RDINIT_IDENTIFY_SIZE);
	unsigned char dlfeat, nsattr;
	int rc = CLI_OK;

	n->tail_block = malloc(n->s.ns.block_size);
	if (!data || !n->tail_block) {
		free(data);
		return cli_error("out of memory");
	}
	if (rdinit_identify_ns(n->s.ctrl, n->s.ns.nsid, data)) {
		rc = cli_lib_error();
		goto out;
	}
	nsattr = data[offsetof(struct nvme_id_ns, nsattr)];
	dlfeat = data[offsetof(struct nvme_id_ns, dlfeat)];
	if (write && nsattr & NS_ATTR_PROTECTED) {
		rc = cli_error("%s: the namespace is read-only; its target or `rdinit set-feature "
			       "--feature-id=0x84` makes it writable",
			       n->end.name);
		goto out;
	}
	n->deallocates = (dlfeat & 7) == 1 && dlfeat & 8;
	if (write)
		rc = cp_ns_find_zeroes(n, data);
	cp_ns_find_id(n, data);
out:
	free(data);
	return rc;
}

static int cp_ns_size(struct cp_ns *n)
{
	uint32_t bs = n->s.ns.block_size, max = n->s.info.max_transfer;

	if (__builtin_mul_overflow(n->s.ns.blocks, (uint64_t)bs, &n->end.size))
		return cli_error("%s: namespace %u is larger than 2^64 bytes", n->end.name,
				 n->s.ns.nsid);
	n->end.align = bs;
	n->end.max_io = (max < NS_IO_MAX ? max : NS_IO_MAX) / bs * bs;
	if (!n->end.max_io)
		return cli_error("%s: the controller transfers at most %u bytes at once, less than "
				 "a block of %u",
				 n->end.name, max, bs);
	return CLI_OK;
}

int cli_cp_ns_open(const struct cli_cp_open *how, const char *name, struct cli_cp_end **out)
{
	struct cp_ns *n = calloc(1, sizeof(*n));
	int rc;

	if (!n)
		return cli_error("out of memory");
	n->end.ops = &ns_ops;
	n->end.name = name;
	n->end.can_read_again = true;
	if (!cli_options_uri(how->o, name, &n->o)) {
		free(n);
		return CLI_USAGE;
	}
	rc = cli_session_open(&n->s, &n->o);
	if (!rc)
		rc = cli_session_open_io(&n->s, &n->o);
	if (!rc)
		rc = cp_ns_size(n);
	if (!rc)
		rc = cp_ns_look(n, how->write);
	if (rc) {
		cp_ns_close(&n->end);
		return rc;
	}
	*out = &n->end;
	return CLI_OK;
}
