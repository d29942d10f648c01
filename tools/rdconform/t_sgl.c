/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.psdt, queue.sgl, rdma.sgl and rdma.key: SGL descriptors, and access to the memory they
 * describe. */
#include <string.h>

#include "suites.h"

#define SGL       "Base 4.1.2"
#define RW_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

/* An I/O queue, memory for @n blocks, and a Read of them, for tests to change. */
struct ready {
	struct rdc_host *h;
	struct rdc_raw *io;
	struct rdc_mem *mem;
	struct nvme_sqe sqe;
};

static void prepare(struct rdc *t, struct ready *x, uint8_t opcode, uint32_t n)
{
	x->h = rdc_main(t);
	rdc_need_blocks(x->h, n);
	x->io = rdc_raw_io(rdc_raw_admin(t, 0), 1, 16);
	x->mem = rdc_raw_mem(x->io, (size_t)n * x->h->bs, RW_ACCESS | IBV_ACCESS_REMOTE_READ);
	rdc_raw_rw(&x->sqe, x->h, opcode, 0, n, x->mem);
	x->sqe.cid = htole16(9);
}

static struct rdc_raw_reply send_cmd(struct ready *x)
{
	return rdc_raw_cmd_as_is(x->io, &x->sqe, NULL, 0);
}

/* ---- PSDT ---- */

static void psdt_io(struct rdc *t)
{
	struct ready x;

	prepare(t, &x, nvme_cmd_read, 1);
	x.sqe.flags = (uint8_t)t->arg;
	RDC_STATUS(t, send_cmd(&x).r, "Read with another PSDT than 01b", NVME_SC_INVALID_FIELD);
}

static void psdt_admin(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_admin(t, 0);
	struct nvme_sqe sqe = {
		.opcode = nvme_admin_keep_alive, .flags = (uint8_t)t->arg, .cid = htole16(4)};

	rdc_sgl_none(raw, &sqe);
	RDC_STATUS(t, rdc_raw_cmd_as_is(raw, &sqe, NULL, 0).r, "Keep Alive with PRPs",
		   NVME_SC_INVALID_FIELD);
}

const struct rdc_test rdc_t_psdt[] = {
	{"io_prp", "Base 3.3.3.1", "an I/O command with PRPs is Invalid Field", psdt_io, 0, 0x00},
	{"io_reserved", "Base 3.3.3.1", "an I/O command with PSDT 11b is Invalid Field", psdt_io, 0,
	 0xc0},
	{"admin_prp", "Base 3.3.3.1", "an admin command with PRPs is Invalid Field", psdt_admin, 0,
	 0x00},
	{NULL},
};

/* ---- descriptors ---- */

/* A type byte, in the argument, that the transport does not allow here. */
static void type_refused(struct rdc *t)
{
	struct ready x;

	prepare(t, &x, nvme_cmd_read, 1);
	x.sqe.sgl.keyed.type = (uint8_t)t->arg;
	RDC_STATUS(t, send_cmd(&x).r, "Read with a descriptor of a wrong type",
		   NVME_SC_SGL_INVALID_TYPE, NVME_SC_INVALID_FIELD);
}

static void length(struct rdc *t)
{
	struct ready x;
	bool longer = t->arg & 1;
	uint8_t op = (uint8_t)(t->arg >> 8);

	prepare(t, &x, op, 4);
	if (op & 1)
		RDC_CHECK(t, t->cfg->dataloss, "a Write without --dataloss");
	if (longer && (le32toh(x.h->id.sgls) & 1u << 18))
		rdc_not_supported(t, "SGLS bit 18: a longer SGL is allowed");
	x.sqe.cdw12 = htole32(longer ? 1 : 7);
	RDC_STATUS(t, send_cmd(&x).r,
		   longer ? "an SGL longer than the data" : "an SGL shorter than the data",
		   NVME_SC_SGL_INVALID_DATA);
}

static void length_zero(struct rdc *t)
{
	struct ready x;

	prepare(t, &x, nvme_cmd_read, 1);
	rdc_sgl_none(x.io, &x.sqe);
	RDC_STATUS(t, send_cmd(&x).r, "Read with an SGL of length 0", NVME_SC_SGL_INVALID_DATA);
}

static void identify_short(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_admin(t, 0);
	struct rdc_mem *mem = rdc_raw_mem(raw, 4096, RW_ACCESS);
	struct nvme_sqe sqe = {.opcode = nvme_admin_identify, .cdw10 = htole32(1)};
	unsigned int i;

	memset(mem->p, 0x5a, 4096);
	rdc_sgl(&sqe, mem, 512);
	RDC_STATUS(t, rdc_raw_cmd(raw, &sqe).r, "Identify with an SGL of 512 bytes",
		   NVME_SC_SGL_INVALID_DATA, 0);
	for (i = 512; i < 4096; i++)
		RDC_CHECK(t, ((unsigned char *)mem->p)[i] == 0x5a,
			  "byte %u, beyond the SGL, was written", i);
}

static void in_capsule_read(struct rdc *t)
{
	struct ready x;

	prepare(t, &x, nvme_cmd_read, 1);
	memset(&x.sqe.sgl, 0, sizeof(x.sqe.sgl));
	x.sqe.sgl.data.length = htole32(x.h->bs);
	x.sqe.sgl.data.type = NVME_SGL_IN_CAPSULE;
	RDC_STATUS(t, send_cmd(&x).r, "Read into the capsule", NVME_SC_SGL_INVALID_TYPE,
		   NVME_SC_INVALID_FIELD, NVME_SC_SGL_INVALID_DATA, NVME_SC_SGL_INVALID_OFFSET);
}

/* In-capsule data with an offset or a length beyond the end of the capsule. */
static void in_capsule_beyond(struct rdc *t)
{
	unsigned char *data;
	struct ready x;

	prepare(t, &x, nvme_cmd_write, 1);
	if (x.h->info.in_capsule < x.h->bs)
		rdc_not_supported(t, "IOCCSZ leaves %u bytes for data in a capsule",
				  x.h->info.in_capsule);
	data = rdc_buf(t, x.h->bs);
	memset(&x.sqe.sgl, 0, sizeof(x.sqe.sgl));
	x.sqe.sgl.data.length = htole32(x.h->bs);
	x.sqe.sgl.data.type = NVME_SGL_IN_CAPSULE;
	switch (t->arg) {
	case 0:
		x.sqe.sgl.data.offset = htole64(x.h->info.in_capsule);
		break;
	case 1:
		x.sqe.sgl.data.offset = htole64(UINT64_MAX - 511); /* wraps to 0 */
		break;
	default:
		x.sqe.sgl.data.length = htole32(x.h->info.in_capsule + x.h->bs);
		x.sqe.cdw12 = htole32(x.h->info.in_capsule / x.h->bs);
		break;
	}
	RDC_STATUS(t, rdc_raw_cmd_as_is(x.io, &x.sqe, data, x.h->bs).r,
		   "in-capsule data that is not in the capsule", NVME_SC_SGL_INVALID_OFFSET,
		   NVME_SC_SGL_INVALID_DATA, NVME_SC_INVALID_FIELD);
}

/* Fewer bytes than the descriptor announces: the target must not use other memory as data. */
static void in_capsule_missing(struct rdc *t)
{
	unsigned char *old;
	struct rdc_raw_reply rr;
	struct ready x;

	prepare(t, &x, nvme_cmd_write, 2);
	if (x.h->info.in_capsule < 2 * x.h->bs)
		rdc_not_supported(t, "IOCCSZ leaves %u bytes for data in a capsule",
				  x.h->info.in_capsule);
	old = rdc_buf(t, 2 * x.h->bs);
	rdc_fill(old, 2 * x.h->bs, 510);
	rdc_must_write(x.h, 0, 2, old);
	memset(&x.sqe.sgl, 0, sizeof(x.sqe.sgl));
	x.sqe.sgl.data.length = htole32(2 * x.h->bs);
	x.sqe.sgl.data.type = NVME_SGL_IN_CAPSULE;
	rr = rdc_raw_cmd_as_is(x.io, &x.sqe, old, x.h->bs);
	RDC_CHECK(t, !rr.answered || rr.r.err,
		  "a Write of two blocks of which one was sent succeeded");
	rdc_must_hold(x.h, 0, 2, old);
}

static void admin_in_capsule(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_admin(t, 0);
	struct nvme_sqe sqe = {
		.opcode = nvme_admin_identify,
		.flags = NVME_CMD_PSDT_SGL,
		.cid = htole16(8),
		.cdw10 = htole32(1),
		.sgl.data = {.length = htole32(4096), .type = NVME_SGL_IN_CAPSULE},
	};
	struct rdc_raw_reply rr = rdc_raw_cmd_as_is(raw, &sqe, NULL, 0);

	RDC_CHECK(t, !rr.answered || rr.r.err, "Identify into the capsule succeeded");
}

static void invalidate(struct rdc *t)
{
	struct rdc_raw_reply rr;
	struct ready x;

	prepare(t, &x, nvme_cmd_read, 1);
	if (t->arg != NVME_SGL_KEYED_ADDRESS && !x.io->conn->dev->caps.reports_inv)
		rdc_not_supported(t, "the device of this machine does not support invalidation of "
				     "its keys by the peer");
	x.sqe.sgl.keyed.type = (uint8_t)t->arg;
	rr = send_cmd(&x);
	RDC_OK(t, rr.r, "Read");
	if (t->arg == NVME_SGL_KEYED_ADDRESS)
		RDC_CHECK(t, !rr.a.inv, "key 0x%08x was invalidated without a request",
			  rr.a.inv_key);
	else
		RDC_CHECK(t, !rr.a.inv || rr.a.inv_key == x.mem->mr->rkey,
			  "key 0x%08x was invalidated, but the command's key was 0x%08x",
			  rr.a.inv_key, x.mem->mr->rkey);
}

static void no_data_types(struct rdc *t)
{
	struct ready x;

	prepare(t, &x, nvme_cmd_read, 1);
	x.sqe = (struct nvme_sqe){.opcode = nvme_cmd_flush,
				  .flags = NVME_CMD_PSDT_SGL,
				  .cid = htole16(3),
				  .nsid = htole32(x.h->nsid)};
	nvme_sgl_set_keyed(&x.sqe.sgl, 0, 0, 0, (uint8_t)t->arg);
	RDC_OK(t, send_cmd(&x).r, "Flush with an empty keyed descriptor");
}

/* Sends a list of @n keyed descriptors of one block each. */
static struct rdc_raw_reply send_list(struct ready *x, uint8_t opcode, unsigned int n)
{
	union nvme_sgl *list = rdc_buf(x->h->t, n * sizeof(*list));
	unsigned int i;

	rdc_raw_rw(&x->sqe, x->h, opcode, 0, n, x->mem);
	x->sqe.cid = htole16(9);
	for (i = 0; i < n; i++) /* the last block first */
		nvme_sgl_set_keyed(&list[i],
				   rd_fab_remote_addr(x->mem->mr, x->mem->p) +
					   (size_t)(n - 1 - i) * x->h->bs,
				   x->h->bs, x->mem->mr->rkey, NVME_SGL_KEYED_ADDRESS);
	memset(&x->sqe.sgl, 0, sizeof(x->sqe.sgl));
	x->sqe.sgl.data.length = htole32(n * (uint32_t)sizeof(*list));
	x->sqe.sgl.data.type = NVME_SGL_LAST_IN_CAPSULE;
	return rdc_raw_cmd_as_is(x->io, &x->sqe, list, n * sizeof(*list));
}

static unsigned int need_list(struct rdc *t, struct ready *x)
{
	unsigned int n = x->h->id.msdbd;

	if (n == 1)
		rdc_not_supported(t, "MSDBD 1: a command has one descriptor only");
	if (n == 0 || n > 16)
		n = 16;
	if (n * 16 > x->h->info.in_capsule)
		rdc_not_supported(t, "IOCCSZ leaves no room for a list");
	return n;
}

static void list_read(struct rdc *t)
{
	struct rdc_raw_reply rr;
	unsigned int i, n;
	unsigned char *want;
	struct ready x;

	prepare(t, &x, nvme_cmd_read, 16);
	n = need_list(t, &x);
	rr = send_list(&x, nvme_cmd_read, n);
	RDC_OK(t, rr.r, "Read into a list of descriptors");
	want = rdc_buf(t, (size_t)n * x.h->bs);
	RDC_OK(t, rr.r, "Read");
	rr.r = rdc_read(x.h, 0, n, want);
	RDC_OK(t, rr.r, "Read");
	for (i = 0; i < n; i++)
		RDC_CHECK(t,
			  memcmp(want + i * x.h->bs,
				 (char *)x.mem->p + (size_t)(n - 1 - i) * x.h->bs, x.h->bs) == 0,
			  "descriptor %u received other data than block %u", i, i);
}

static void list_write(struct rdc *t)
{
	unsigned int i, n;
	unsigned char *want;
	struct ready x;

	prepare(t, &x, nvme_cmd_write, 16);
	n = need_list(t, &x);
	rdc_fill(x.mem->p, x.mem->len, 520);
	RDC_OK(t, send_list(&x, nvme_cmd_write, n).r, "Write from a list of descriptors");
	want = rdc_buf(t, (size_t)n * x.h->bs);
	for (i = 0; i < n; i++)
		memcpy(want + i * x.h->bs, (char *)x.mem->p + (size_t)(n - 1 - i) * x.h->bs,
		       x.h->bs);
	rdc_must_hold(x.h, 0, n, want);
}

static void list_too_long(struct rdc *t)
{
	struct ready x;
	unsigned int n;

	prepare(t, &x, nvme_cmd_read, 32);
	n = x.h->id.msdbd + 1u;
	if (n == 1 || n > 32)
		rdc_not_supported(t, "MSDBD %u: a list cannot exceed it here", n - 1);
	if (n * 16 > x.h->info.in_capsule)
		rdc_not_supported(t, "IOCCSZ leaves no room for a list");
	RDC_STATUS(t, send_list(&x, nvme_cmd_read, n).r, "one descriptor more than MSDBD",
		   NVME_SC_SGL_INVALID_COUNT, NVME_SC_SGL_INVALID_TYPE, NVME_SC_INVALID_FIELD,
		   NVME_SC_SGL_INVALID_DATA);
}

static void list_odd(struct rdc *t)
{
	unsigned char *list;
	struct ready x;

	prepare(t, &x, nvme_cmd_read, 1);
	need_list(t, &x);
	list = rdc_buf(t, 64);
	memset(&x.sqe.sgl, 0, sizeof(x.sqe.sgl));
	x.sqe.sgl.data.length = htole32(t->arg);
	x.sqe.sgl.data.type = NVME_SGL_LAST_IN_CAPSULE;
	RDC_STATUS(t, rdc_raw_cmd_as_is(x.io, &x.sqe, list, 64).r, "a list of an impossible length",
		   NVME_SC_SGL_INVALID_LAST, NVME_SC_SGL_INVALID_DATA, NVME_SC_SGL_INVALID_COUNT,
		   NVME_SC_INVALID_FIELD);
}

#define LEN(longer, op) ((longer) | (op) << 8)

const struct rdc_test rdc_t_sgl[] = {
	{"data_block", SGL, "a data block by address (00h) is refused", type_refused, 0, 0x00},
	{"bit_bucket", SGL, "a bit bucket (10h) is refused", type_refused, 0, 0x10},
	{"segment", SGL, "a segment by address (20h) is refused", type_refused, 0, 0x20},
	{"last_segment", SGL, "a last segment by address (30h) is refused", type_refused, 0, 0x30},
	{"keyed_offset", SGL, "a keyed descriptor with an offset (41h) is refused", type_refused, 0,
	 0x41},
	{"reserved_90", SGL, "a reserved type (90h) is refused", type_refused, 0, 0x90},
	{"vendor", SGL, "an unknown vendor's type (F0h) is refused", type_refused, 0, 0xf0},
	{"read_short", SGL, "an SGL shorter than the data of Read is refused", length, 0,
	 LEN(0, nvme_cmd_read)},
	{"read_long", SGL, "an SGL longer than the data of Read is refused unless SGLS allows it",
	 length, 0, LEN(1, nvme_cmd_read)},
	{"write_short", SGL, "an SGL shorter than the data of Write is refused", length, RDC_LOSS,
	 LEN(0, nvme_cmd_write)},
	{"write_long", SGL, "an SGL longer than the data of Write is refused unless SGLS allows it",
	 length, RDC_LOSS, LEN(1, nvme_cmd_write)},
	{"zero", SGL, "an SGL of length 0 for Read is refused", length_zero},
	{"identify_short", SGL, "no byte is written beyond the end of an SGL that is too short",
	 identify_short},
	{"read_in_capsule", SGL, "Read into the capsule is refused", in_capsule_read},
	{"in_capsule_offset", SGL, "in-capsule data at an offset beyond the capsule is refused",
	 in_capsule_beyond, RDC_LOSS, 0},
	{"in_capsule_length", SGL, "in-capsule data longer than the capsule is refused",
	 in_capsule_beyond, RDC_LOSS, 2},
	{"admin_in_capsule", SGL, "Identify into the capsule is refused", admin_in_capsule},
	{NULL},
};

const struct rdc_test rdc_t_tcp_sgl[] = {
	{"keyed", SGL, "a keyed descriptor (40h) is refused", type_refused, 0, 0x40},
	{"keyed_invalidate", SGL, "a keyed descriptor with invalidation (4Fh) is refused",
	 type_refused, 0, 0x4f},
	{"transport_sub", SGL, "a transport descriptor of an unknown subtype (5Bh) is refused",
	 type_refused, 0, 0x5b},
	{NULL},
};

const struct rdc_test rdc_t_rdma_sgl[] = {
	{"transport", SGL, "a transport descriptor (5Ah) is refused", type_refused, RDC_ALIVE,
	 0x5a},
	{"in_capsule_wraps", SGL, "in-capsule data at an offset that wraps is refused",
	 in_capsule_beyond, RDC_ALIVE | RDC_LOSS, 1},
	{"in_capsule_missing", "RDMA 3.2", "a Write whose in-capsule data was not sent fails",
	 in_capsule_missing, RDC_ALIVE | RDC_LOSS},
	{"keyed", "RDMA 3.3",
	 "a keyed descriptor without invalidation (40h): no key is invalidated", invalidate, 0,
	 NVME_SGL_KEYED_ADDRESS},
	{"keyed_invalidate", "RDMA 3.3",
	 "a keyed descriptor with invalidation (4Fh): only that key may be invalidated", invalidate,
	 0, NVME_SGL_KEYED_INVALIDATE},
	{"empty_keyed", SGL, "an empty keyed descriptor (40h) means no data", no_data_types, 0,
	 NVME_SGL_KEYED_ADDRESS},
	{"list_read", "RDMA 3.3", "Read into a list of keyed descriptors succeeds", list_read},
	{"list_write", "RDMA 3.3", "Write from a list of keyed descriptors succeeds", list_write,
	 RDC_LOSS},
	{"list_too_long", "Base 5.17.2.1", "more descriptors than MSDBD are refused", list_too_long,
	 RDC_ALIVE},
	{"list_odd", SGL, "a list of 24 bytes is refused", list_odd, RDC_ALIVE, 24},
	{"list_empty", SGL, "a list of 0 bytes is refused", list_odd, RDC_ALIVE, 0},
	{NULL},
};

/* ---- keys ---- */

/* Access without permission: the transport ends the connection, or the command fails. */
static void must_fail(struct rdc *t, struct ready *x, const char *what)
{
	struct rdc_raw_reply rr = send_cmd(x);

	RDC_CHECK(t, !rr.answered || rr.r.err, "%s succeeded", what);
}

static void key_access(struct rdc *t)
{
	struct ready x;

	/* The other direction is not tested: soft RDMA devices do not check the permission to
	 * read. */
	prepare(t, &x, nvme_cmd_read, 8);
	x.mem = rdc_raw_mem(x.io, 8 * x.h->bs, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	rdc_raw_rw(&x.sqe, x.h, nvme_cmd_read, 0, 8, x.mem);
	must_fail(t, &x, "a Read into memory without the right to be written");
}

static void key_gone(struct rdc *t)
{
	struct ready x;
	uint64_t addr;
	uint32_t key;

	prepare(t, &x, (uint8_t)t->arg, 8);
	addr = rd_fab_remote_addr(x.mem->mr, x.mem->p);
	key = x.mem->mr->rkey;
	rdc_raw_mem_dereg(x.mem);
	nvme_sgl_set_keyed(&x.sqe.sgl, addr, 8 * x.h->bs, key, NVME_SGL_KEYED_ADDRESS);
	must_fail(t, &x, "a command with a key that is not valid any more");
}

static void key_wrong(struct rdc *t)
{
	struct ready x;

	prepare(t, &x, (uint8_t)t->arg, 8);
	nvme_sgl_set_keyed(&x.sqe.sgl, rd_fab_remote_addr(x.mem->mr, x.mem->p), 8 * x.h->bs,
			   x.mem->mr->rkey ^ 0x5a00, NVME_SGL_KEYED_ADDRESS);
	must_fail(t, &x, "a command with a key that was never registered");
}

static void key_bounds(struct rdc *t)
{
	struct ready x;
	int64_t shift = t->arg & 0x100 ? -64 : 64;

	prepare(t, &x, (uint8_t)t->arg, 8);
	nvme_sgl_set_keyed(&x.sqe.sgl, rd_fab_remote_addr(x.mem->mr, x.mem->p) + (uint64_t)shift,
			   8 * x.h->bs, x.mem->mr->rkey, NVME_SGL_KEYED_ADDRESS);
	must_fail(t, &x, "a command with memory outside of the key's memory");
}

static void unaligned(struct rdc *t)
{
	unsigned char *want;
	struct rdc_raw_reply rr;
	struct ready x;
	size_t len;

	prepare(t, &x, nvme_cmd_read, 9);
	len = 8 * (size_t)x.h->bs;
	rdc_raw_rw(&x.sqe, x.h, nvme_cmd_read, 0, 8, x.mem);
	x.sqe.cid = htole16(9);
	nvme_sgl_set_keyed(&x.sqe.sgl, rd_fab_remote_addr(x.mem->mr, x.mem->p) + t->arg,
			   8 * x.h->bs, x.mem->mr->rkey, NVME_SGL_KEYED_ADDRESS);
	memset(x.mem->p, 0x77, x.mem->len);
	rr = send_cmd(&x);
	RDC_OK(t, rr.r, "Read to an unaligned address");
	want = rdc_buf(t, len);
	rr.r = rdc_read(x.h, 0, 8, want);
	RDC_OK(t, rr.r, "Read");
	RDC_CHECK(t, memcmp((char *)x.mem->p + t->arg, want, len) == 0,
		  "the data differs from a Read at an aligned address");
	RDC_CHECK(t,
		  ((unsigned char *)x.mem->p)[t->arg - 1] == 0x77 &&
			  ((unsigned char *)x.mem->p)[t->arg + len] == 0x77,
		  "a byte outside of the buffer was written");
}

#define BACK 0x100

const struct rdc_test rdc_t_key[] = {
	{"read_access", "RDMA 3.3", "Read into memory that may not be written fails", key_access,
	 RDC_ALIVE},
	{"read_gone", "RDMA 3.3", "Read with an invalidated key fails", key_gone, RDC_ALIVE,
	 nvme_cmd_read},
	{"write_gone", "RDMA 3.3", "Write with an invalidated key fails", key_gone,
	 RDC_ALIVE | RDC_LOSS, nvme_cmd_write},
	{"read_wrong", "RDMA 3.3", "Read with a key that was never registered fails", key_wrong,
	 RDC_ALIVE, nvme_cmd_read},
	{"write_wrong", "RDMA 3.3", "Write with a key that was never registered fails", key_wrong,
	 RDC_ALIVE | RDC_LOSS, nvme_cmd_write},
	{"read_behind", "RDMA 3.3", "Read that ends beyond the key's memory fails", key_bounds,
	 RDC_ALIVE, nvme_cmd_read},
	{"read_before", "RDMA 3.3", "Read that begins before the key's memory fails", key_bounds,
	 RDC_ALIVE, nvme_cmd_read | BACK},
	{"write_behind", "RDMA 3.3", "Write that ends beyond the key's memory fails", key_bounds,
	 RDC_ALIVE | RDC_LOSS, nvme_cmd_write},
	{"unaligned_1", SGL, "Read into memory at an odd address succeeds", unaligned, 0, 1},
	{"unaligned_511", SGL, "Read into memory that crosses pages succeeds", unaligned, 0, 511},
	{NULL},
};
