/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection, its capsules and its memory as a test specifies them, over either transport. Queues
 * and commands are in rawconn.c.
 */
#include "raw.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_DEFAULT 32
#define SLOTS_MIN     8

static const char *resolve(const struct rdc_config *cfg, struct sockaddr_storage *ss)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *ai = NULL;
	int rc = getaddrinfo(cfg->uri.traddr, cfg->uri.trsvcid, &hints, &ai);

	if (rc)
		return gai_strerror(rc);
	memset(ss, 0, sizeof(*ss));
	memcpy(ss, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
	return NULL;
}

struct rdc_raw *rdc_raw_dial(struct rdc *t, const struct rdc_dial *d)
{
	uint16_t depth = d->depth ? d->depth : DEPTH_DEFAULT;
	struct sockaddr_storage ss;
	struct rdc_raw *raw;
	const char *why = resolve(t->cfg, &ss);

	if (why)
		RDC_FAIL(t, "%s: %s", t->cfg->uri.traddr, why);
	raw = calloc(1, sizeof(*raw));
	if (!raw)
		RDC_FAIL(t, "no memory on this machine");
	raw->t = t;
	raw->wire = t->cfg->uri.tcp ? &rdc_wire_tcp : &rdc_wire_rdma;
	raw->qid = d->qid;
	raw->depth = depth;
	/* Tests send more commands at once than a queue allows. */
	raw->slots = depth < SLOTS_MIN ? 4 * SLOTS_MIN : 4u * depth;
	raw->max_got = raw->slots;
	LIST_INSERT_HEAD(&t->raws, raw, link);
	raw->got = calloc(raw->max_got, sizeof(*raw->got));
	if (!raw->got)
		RDC_FAIL(t, "no memory on this machine");
	raw->wire->dial(raw, d, (struct sockaddr *)&ss);
	return raw;
}

struct rdc_raw *rdc_raw_must_dial(struct rdc *t, const struct rdc_dial *d)
{
	struct rdc_raw *raw = rdc_raw_dial(t, d);

	if (raw->rejected)
		RDC_FAIL(t, "the connection for queue %u was rejected: %s", d->qid,
			 nvmf_rdma_cm_status_text(raw->reject_sts));
	if (!raw->up || raw->over)
		RDC_FAIL(t, "no connection for queue %u: %s", d->qid,
			 strerror(raw->err < 0 ? -raw->err : ECONNRESET));
	return raw;
}

void rdc_raw_close(struct rdc_raw *raw)
{
	LIST_REMOVE(raw, link);
	raw->wire->hang_up(raw);
	free(raw->got);
	free(raw);
}

struct rdc_mem *rdc_raw_mem(struct rdc_raw *raw, size_t len, int access)
{
	struct rdc_mem *m = calloc(1, sizeof(*m));
	int rc = -ENOMEM;

	if (m)
		m->p = calloc(1, len);
	if (m && m->p) {
		m->len = len;
		m->wire = raw->wire;
		rc = raw->wire->reg(raw, m, access);
	}
	if (rc) {
		if (m)
			free(m->p);
		free(m);
		RDC_FAIL(raw->t, "cannot register %zu bytes on this machine: %s", len,
			 strerror(-rc));
	}
	LIST_INSERT_HEAD(&raw->t->mems, m, link);
	return m;
}

void rdc_raw_send(struct rdc_raw *raw, const void *capsule, size_t len)
{
	if (len > RDC_CAPSULE)
		RDC_FAIL(raw->t, "a capsule of %zu bytes is more than this program can send", len);
	raw->wire->send(raw, capsule, len);
}

void rdc_raw_got(struct rdc_raw *raw, const struct rdc_answer *a)
{
	/* More responses than commands: a test that counts them detects it. */
	if (raw->n_got < raw->max_got)
		raw->got[raw->n_got++] = *a;
}

void rdc_raw_until(struct rdc_raw *raw, const bool *flag, const char *what)
{
	uint64_t end = rdc_now_ms() + 2 * raw->t->cfg->timeout_ms;

	while (!*flag && !raw->over) {
		if (rdc_now_ms() >= end)
			RDC_FAIL(raw->t, "%s: no outcome in time", what);
		raw->wire->turn(raw, 50);
	}
}

int rdc_raw_answer(struct rdc_raw *raw, struct rdc_answer *out, unsigned int ms)
{
	uint64_t end = rdc_now_ms() + ms, now;

	for (;;) {
		if (raw->n_got) {
			*out = raw->got[0];
			raw->n_got--;
			memmove(raw->got, raw->got + 1, raw->n_got * sizeof(*raw->got));
			return 1;
		}
		now = rdc_now_ms();
		if (raw->over)
			return 0;
		if (now >= end)
			return -1;
		raw->wire->turn(raw, end - now > 50 ? 50 : end - now);
	}
}

bool rdc_raw_ended(struct rdc_raw *raw, unsigned int ms)
{
	uint64_t end = rdc_now_ms() + ms;

	while (!raw->over && rdc_now_ms() < end)
		raw->wire->turn(raw, 20);
	return raw->over;
}
