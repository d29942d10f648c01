/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the discovery log (Fabrics 5.3): its header, the records in pieces, then the header again.
 * If the generation counter has changed, the pieces may be inconsistent, and reading starts again.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

#define ATTEMPTS    10
#define RECORDS_MAX 16384 /* 16 MiB of log; a larger one is treated as malformed */
#define CHUNK       (64u << 10)
#define HEADER      sizeof(struct nvmf_discovery_log)

/* The header of struct nvmf_discovery_log, without the records that follow it. */
struct log_header {
	__le64 genctr;
	__le64 numrec;
	__le16 recfmt;
	__u8 rsvd18[1006];
};
_Static_assert(sizeof(struct log_header) == HEADER, "discovery log header");

enum step {
	STEP_HEADER,  /* until the header is received */
	STEP_RECORDS, /* until the last piece of the records is received */
	STEP_CHECK,   /* until the second header is received */
};

struct rdi_discover {
	struct rdinit_ctrl *ctrl;
	enum step step;
	unsigned int attempts;
	struct log_header header;
	uint64_t genctr;
	size_t count;
	struct nvmf_disc_log_entry *entries;
	size_t done; /* bytes of records received */
	struct rdinit_discovery **out;
	rdinit_complete_fn fn;
	void *user;
};

static void on_log(void *user, const struct rdinit_completion *c);

static void finish_discovery(struct rdi_discover *d, const struct rdinit_completion *c)
{
	rdinit_complete_fn fn = d->fn;
	void *user = d->user;

	free(d->entries);
	free(d);
	fn(user, c);
}

static void finish_error(struct rdi_discover *d, int err, const char *text)
{
	struct rdinit_completion c = {.err = err, .text = text};

	finish_discovery(d, &c);
}

static int read_header(struct rdi_discover *d, enum step step)
{
	d->step = step;
	return rdi_get_log(d->ctrl, "rdinit_discover", NVME_LOG_LID_DISCOVER, 0, 0, &d->header,
			   HEADER, on_log, d);
}

static int read_records(struct rdi_discover *d)
{
	size_t left = d->count * sizeof(*d->entries) - d->done;
	uint32_t n = left > CHUNK ? CHUNK : (uint32_t)left;

	d->step = STEP_RECORDS;
	if (left == 0)
		return read_header(d, STEP_CHECK);
	if (n > d->ctrl->max_transfer)
		n = d->ctrl->max_transfer;
	return rdi_get_log(d->ctrl, "rdinit_discover", NVME_LOG_LID_DISCOVER, 0, HEADER + d->done,
			   (char *)d->entries + d->done, n, on_log, d);
}

static int header_read(struct rdi_discover *d)
{
	uint64_t count = le64toh(d->header.numrec);

	if (le16toh(d->header.recfmt) != 0 || count > RECORDS_MAX)
		return -EPROTO;
	d->genctr = le64toh(d->header.genctr);
	d->count = (size_t)count;
	d->done = 0;
	free(d->entries);
	d->entries = calloc(d->count ? d->count : 1, sizeof(*d->entries));
	return d->entries ? read_records(d) : -ENOMEM;
}

#define FITS(field)                                                              \
	_Static_assert(sizeof(((struct rdinit_discovery_record *)0)->field) >    \
			       sizeof(((struct nvmf_disc_log_entry *)0)->field), \
		       #field " with a NUL")
FITS(trsvcid);
FITS(subnqn);
FITS(traddr);

/* A fixed field, padded with NULs or spaces, as a string. */
static void copy_field(char *out, const char *in, size_t len)
{
	size_t n = strnlen(in, len);

	while (n > 0 && in[n - 1] == ' ')
		n--;
	memcpy(out, in, n);
	out[n] = '\0';
}

void rdi_discover_parse(const struct nvmf_disc_log_entry *e, struct rdinit_discovery_record *rec)
{
	memset(rec, 0, sizeof(*rec));
	rec->trtype = e->trtype;
	rec->adrfam = e->adrfam;
	rec->subtype = e->subtype;
	rec->treq = e->treq;
	rec->portid = le16toh(e->portid);
	rec->cntlid = le16toh(e->cntlid);
	rec->asqsz = le16toh(e->asqsz);
	rec->eflags = le16toh(e->eflags);
	copy_field(rec->trsvcid, e->trsvcid, sizeof(e->trsvcid));
	copy_field(rec->subnqn, e->subnqn, sizeof(e->subnqn));
	copy_field(rec->traddr, e->traddr, sizeof(e->traddr));
	rec->rdma_qptype = e->tsas.rdma.qptype; /* of TCP the same byte is SECTYPE */
	rec->rdma_prtype = e->tsas.rdma.prtype;
	rec->rdma_cms = e->tsas.rdma.cms;
	rec->rdma_pkey = le16toh(e->tsas.rdma.pkey);
}

/* A link-local address is one of the network by which the log was read: on this machine, that of
 * the same interface, whatever the target calls its own. */
static void set_scope(struct rdinit_discovery_record *rec, const char *discovery_traddr)
{
	const char *scope = strchr(discovery_traddr, '%');
	size_t len = strcspn(rec->traddr, "%");
	struct in6_addr in6;

	rec->traddr[len] = '\0';
	if (scope && inet_pton(AF_INET6, rec->traddr, &in6) == 1 && IN6_IS_ADDR_LINKLOCAL(&in6))
		snprintf(rec->traddr + len, sizeof(rec->traddr) - len, "%s", scope);
}

static void deliver_entries(struct rdi_discover *d)
{
	struct rdinit_completion c = {.text = ""};
	struct rdinit_discovery *log;
	size_t i;

	log = calloc(1, sizeof(*log) + d->count * sizeof(*log->records));
	if (!log) {
		finish_error(d, -ENOMEM, "out of memory");
		return;
	}
	log->records = (struct rdinit_discovery_record *)(log + 1);
	log->genctr = d->genctr;
	log->count = d->count;
	for (i = 0; i < d->count; i++) {
		rdi_discover_parse(&d->entries[i], &log->records[i]);
		if (log->records[i].adrfam == NVMF_ADDR_FAMILY_IP6)
			set_scope(&log->records[i], d->ctrl->traddr);
	}
	*d->out = log;
	finish_discovery(d, &c);
}

static void on_log(void *user, const struct rdinit_completion *c)
{
	struct rdi_discover *d = user;
	int rc = 0;

	if (c->err) {
		finish_discovery(d, c);
		return;
	}
	switch (d->step) {
	case STEP_HEADER:
		rc = header_read(d);
		break;
	case STEP_RECORDS: {
		size_t left = d->count * sizeof(*d->entries) - d->done;
		size_t n = left > CHUNK ? CHUNK : left;

		d->done += n > d->ctrl->max_transfer ? d->ctrl->max_transfer : n;
		rc = read_records(d);
		break;
	}
	case STEP_CHECK:
		if (le64toh(d->header.genctr) == d->genctr) {
			deliver_entries(d);
			return;
		}
		if (++d->attempts == ATTEMPTS) {
			finish_error(d, -EAGAIN, "the discovery log keeps changing");
			return;
		}
		rc = header_read(d);
		break;
	}
	if (rc)
		finish_error(d, rc,
			     rc == -EPROTO ? "the discovery log header is malformed"
					   : strerror(-rc));
}

int rdinit_discover_async(struct rdinit_ctrl *ctrl, struct rdinit_discovery **out,
			  rdinit_complete_fn fn, void *user)
{
	static const char func[] = "rdinit_discover";
	struct rdi_discover *d;
	int rc;

	if (rdi_is_foreign(RDI_HANDLE(ctrl)))
		return rdi_foreign(RDI_HANDLE(ctrl), func);
	if (!out || !fn)
		return rdi_fail(func, -EINVAL, "out or fn is NULL");
	*out = NULL;
	if (ctrl->state == RDI_CTRL_READY && !ctrl->discovery)
		return rdi_fail(func, -EINVAL, "%s is not a discovery controller", ctrl->q.remote);
	d = calloc(1, sizeof(*d));
	if (!d)
		return rdi_fail(func, -ENOMEM, "out of memory");
	d->ctrl = ctrl;
	d->out = out;
	d->fn = fn;
	d->user = user;
	rc = read_header(d, STEP_HEADER);
	if (rc)
		free(d);
	return rc;
}

struct discovery {
	struct rdinit_ctrl *ctrl;
	struct rdinit_discovery **out;
	struct rdi_sync sync;
};

static int try_discover(void *arg)
{
	struct discovery *d = arg;

	return rdinit_discover_async(d->ctrl, d->out, rdi_sync_done, &d->sync);
}

int rdinit_discover(struct rdinit_ctrl *ctrl, struct rdinit_discovery **out)
{
	struct discovery d = {.ctrl = ctrl, .out = out};
	int rc;

	rc = rdi_may_wait(RDI_HANDLE(ctrl), __func__);
	if (rc)
		return rc;
	rc = try_discover(&d);
	if (rc == -EAGAIN)
		rc = rdi_sync_retry(&ctrl->h, &ctrl->q, try_discover, &d);
	return rc ? rc : rdi_sync_wait(&ctrl->h, &d.sync, __func__);
}

void rdinit_discovery_free(struct rdinit_discovery **log)
{
	if (!log)
		return;
	free(*log);
	*log = NULL;
}
