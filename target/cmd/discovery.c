/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The discovery log page (70h): an entry for each subsystem that the host may use, on each
 * listener, after the entries of the discovery subsystem. A wildcard listener is shown with the
 * address to which this host is connected.
 *
 * The log may be limited to one transport, for a host or a subsystem. It is a sequence of blocks,
 * each with subsystems that are shown on the same listeners: the discovery subsystem, then those of
 * each enum rdt_disc_shown.
 *
 * The contents of the page are determined once for each generation: the listeners and referrals by
 * each reactor, and the subsystems that the host may use, one bit each, by each discovery
 * controller. From these, only the requested entries are built.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/sockaddr.h"
#include "nvmf/wire.h"
#include "admin.h"
#include "target/nvmf/admin_budget.h"
#include "target/nvmf/events.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/base/log_out.h"
#include "target/nvmf/host_access.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/qpair.h"
#include "target/nvmf/reactor.h"
#include "target/nvmf/target.h"
#include "target/nvmf/transport.h"
#include "target/config/tgt_limits.h"

#define SUBSYS_COST 16u /* cost of checking the hosts of a subsystem: admin_budget.h */

int rdt_referrals_set(struct rdt_target *t, const struct rdt_referral_config *list,
		      unsigned int count)
{
	struct rdt_referral *next = calloc(count + 1, sizeof(*next));
	struct rdt_referral *old;
	bool same;

	if (!next)
		return -ENOMEM;
	/* Cannot fail: the addresses were checked with the configuration. */
	for (unsigned int i = 0; i < count; i++) {
		next[i].transport = t->transports[list[i].transport];
		rd_addr_parse(list[i].address, list[i].port, &next[i].addr);
	}
	pthread_mutex_lock(&t->disc.lock);
	same = count == t->referrals_count;
	for (unsigned int i = 0; i < count && same; i++)
		same = next[i].transport == t->referrals[i].transport &&
		       rd_addr_equal((const struct sockaddr *)&next[i].addr,
				     (const struct sockaddr *)&t->referrals[i].addr);
	old = t->referrals;
	t->referrals = next;
	t->referrals_count = count;
	pthread_mutex_unlock(&t->disc.lock);
	free(old);
	if (!same)
		rdt_discovery_changed(t);
	return !same;
}

/* ---- transports that are shown ---- */

void rdt_disc_set_hosts(struct rdt_target *t, const struct rdt_subsys_config *cfg,
			struct rdt_config *cfg_of)
{
	struct rdt_config *old = t->disc_cfg_of;

	pthread_mutex_lock(&t->disc.lock);
	t->disc_cfg = cfg;
	t->disc_cfg_of = rdt_config_get(cfg_of);
	pthread_mutex_unlock(&t->disc.lock);
	rdt_config_put(&old);
}

unsigned int rdt_disc_follow_hosts(struct rdt_target *t, const struct rdt_subsys_config *now,
				   const struct rdt_subsys_config *next, struct rdt_config *next_of)
{
	unsigned int changed = !rdt_config_same_list(now->rdma_only, now->rdma_only_count,
						     next->rdma_only, next->rdma_only_count);

	changed += !rdt_config_same_list(now->tcp_only, now->tcp_only_count, next->tcp_only,
					 next->tcp_only_count);
	if (changed) {
		rdt_disc_set_hosts(t, next, next_of);
		rdt_discovery_changed(t);
	}
	return changed;
}

int rdt_disc_follow_subsys(struct rdt_subsys *ss, const struct rdt_subsys_config *now,
			   const struct rdt_subsys_config *next, struct rdt_config *next_of)
{
	if (now->discovery_transport == next->discovery_transport)
		return 0;
	atomic_store(&ss->shown, next->discovery_transport);
	rdt_discovery_changed(ss->target);
	return 1;
}

static enum rdt_disc_shown shown_to(struct rdt_target *t, const char *hostnqn)
{
	enum rdt_disc_shown shown = RDT_SHOW_ALL;
	const struct rdt_subsys_config *cfg;

	pthread_mutex_lock(&t->disc.lock);
	cfg = t->disc_cfg;
	if (rdt_config_listed(cfg->tcp_only, cfg->tcp_only_count, hostnqn))
		shown = RDT_SHOW_TCP;
	else if (rdt_config_listed(cfg->rdma_only, cfg->rdma_only_count, hostnqn))
		shown = RDT_SHOW_RDMA;
	pthread_mutex_unlock(&t->disc.lock);
	return shown;
}

/* Returns whether @shown includes @transport. */
static bool shows(const struct rdt_target *t, enum rdt_disc_shown shown,
		  const struct rdt_transport *transport)
{
	return shown == RDT_SHOW_ALL || transport == t->transports[shown - 1];
}

/* ---- entries ---- */

static void fill_addr(struct nvmf_disc_log_entry *e, const struct sockaddr *bound,
		      const struct sockaddr *shown_addr)
{
	char host[RD_ADDR_TEXT];

	e->adrfam = bound->sa_family == AF_INET6 ? NVMF_ADDR_FAMILY_IP6 : NVMF_ADDR_FAMILY_IP4;
	e->cntlid = htole16(NVMF_CNTLID_DYNAMIC);
	e->asqsz = htole16(32);
	snprintf(e->trsvcid, sizeof(e->trsvcid), "%u", rd_addr_port(bound));
	rd_addr_format_host(shown_addr, host);
	host[strcspn(host, "%")] = '\0'; /* the scope is an interface of this machine */
	memccpy(e->traddr, host, 0, sizeof(e->traddr));
}

static void fill_referral(struct nvmf_disc_log_entry *e, const struct rdt_referral *r)
{
	memset(e, 0, sizeof(*e));
	r->transport->describe(NULL, e);
	fill_addr(e, (const struct sockaddr *)&r->addr, (const struct sockaddr *)&r->addr);
	e->subtype = NVME_NQN_DISC;
	memccpy(e->subnqn, NVMF_DISC_NQN, 0, sizeof(e->subnqn));
}

/* Returns the entry flags. Persistent connections are supported (EPCSD). All listeners report the
 * same log (DUPRETINFO), unless one has a wildcard address, which is reported as the address that
 * the host used. */
static uint16_t disc_eflags(const struct rdt_target *t)
{
	const struct rdt_listener *l;

	TAILQ_FOREACH (l, &t->listeners, link)
		if (rd_addr_is_any((const struct sockaddr *)&l->addr))
			return NVMF_DISC_EFLAGS_EPCSD;
	return NVMF_DISC_EFLAGS_BOTH;
}

/* Fill in an entry for listener @l, without the subsystem. */
static void fill_entry(struct nvmf_disc_log_entry *e, const struct rdt_qpair *qp,
		       const struct rdt_listener *l)
{
	const struct sockaddr *addr = (const struct sockaddr *)&l->addr;

	memset(e, 0, sizeof(*e));
	e->treq = NVMF_TREQ_NOT_SPECIFIED;
	l->transport->describe(l, e);
	fill_addr(e, addr, rd_addr_is_any(addr) ? (const struct sockaddr *)&qp->local : addr);
	e->treq |= NVMF_TREQ_DISABLE_SQFLOW;
	e->portid = htole16(l->portid);
}

/* ---- contents of a generation ---- */

enum { NO_WILDCARD, WILDCARD4, WILDCARD6, FAMILIES };

/* The part of a reactor. */
struct rdt_disc_order {
	uint64_t genctr;
	uint16_t eflags;
	/* The listeners and referrals for each enum rdt_disc_shown; listeners by the address family
	 * of the host. A listener is freed only when the target ends. */
	struct disc_shown {
		const struct rdt_listener **listeners[FAMILIES];
		unsigned int listeners_count[FAMILIES];
		struct rdt_referral *referrals;
		unsigned int referrals_count;
	} shown[RDT_SHOWN];
};

/* The part of a discovery controller. */
struct rdt_disc_hosts {
	uint64_t genctr;
	enum rdt_disc_shown shown; /* to the host */
	struct disc_allowed {
		unsigned int count;
		uint64_t bits[RDT_SUBSYS_PLACES / 64]; /* a bit for each of target->subsys */
	} allowed[RDT_SHOWN];
};

static unsigned int family_of(const struct sockaddr_storage *local)
{
	if (local->ss_family == AF_INET)
		return WILDCARD4;
	return local->ss_family == AF_INET6 ? WILDCARD6 : NO_WILDCARD;
}

/* Returns whether the listener is listed. A wildcard listener of the other address family has no
 * address that is known to be reachable. */
static bool listener_listed(unsigned int family, const struct rdt_listener *l)
{
	if (l->addr.ss_family == AF_UNSPEC)
		return false; /* it is not listening yet */
	return !rd_addr_is_any((const struct sockaddr *)&l->addr) || family_of(&l->addr) == family;
}

static void free_order(struct rdt_disc_order *order)
{
	if (!order)
		return;
	for (unsigned int i = 0; i < RDT_SHOWN; i++) {
		for (unsigned int f = 0; f < FAMILIES; f++)
			free(order->shown[i].listeners[f]);
		free(order->shown[i].referrals);
	}
	free(order);
}

static unsigned int count_listeners(const struct rdt_target *t)
{
	const struct rdt_listener *l;
	unsigned int n = 0;

	TAILQ_FOREACH (l, &t->listeners, link)
		n++;
	return n;
}

/* disc.lock is held. */
static int fill_shown(struct disc_shown *s, const struct rdt_target *t, enum rdt_disc_shown shown)
{
	unsigned int room = count_listeners(t);
	const struct rdt_listener *l;

	for (unsigned int f = 0; f < FAMILIES; f++) {
		s->listeners[f] = calloc(room + 1, sizeof(s->listeners[f][0]));
		if (!s->listeners[f])
			return -ENOMEM;
		TAILQ_FOREACH (l, &t->listeners, link)
			if (listener_listed(f, l) && shows(t, shown, l->transport))
				s->listeners[f][s->listeners_count[f]++] = l;
	}
	s->referrals = calloc(t->referrals_count + 1, sizeof(*s->referrals));
	if (!s->referrals)
		return -ENOMEM;
	for (unsigned int i = 0; i < t->referrals_count; i++)
		if (shows(t, shown, t->referrals[i].transport))
			s->referrals[s->referrals_count++] = t->referrals[i];
	return 0;
}

/* disc.lock is held. */
static int fill_order(struct rdt_disc_order *order, const struct rdt_target *t)
{
	int err = 0;

	order->eflags = disc_eflags(t);
	for (unsigned int i = 0; i < RDT_SHOWN && !err; i++)
		err = fill_shown(&order->shown[i], t, (enum rdt_disc_shown)i);
	return err;
}

static const struct rdt_disc_order *disc_order(struct rdt_reactor *r, uint64_t genctr)
{
	struct rdt_target *t = r->target;
	struct rdt_disc_order *order;
	int err;

	if (r->disc_order && r->disc_order->genctr == genctr)
		return r->disc_order;
	order = calloc(1, sizeof(*order));
	if (!order)
		return NULL;
	order->genctr = genctr;
	pthread_mutex_lock(&t->disc.lock);
	err = fill_order(order, t);
	pthread_mutex_unlock(&t->disc.lock);
	if (err) {
		free_order(order);
		return NULL;
	}
	free_order(r->disc_order);
	r->disc_order = order;
	return order;
}

void rdt_disc_order_free(struct rdt_reactor *r)
{
	free_order(r->disc_order);
	r->disc_order = NULL;
}

/* Add @ss, which the host may use, to the subsystems that it sees. */
static void allow(struct rdt_disc_hosts *h, const struct rdt_subsys *ss)
{
	enum rdt_disc_shown shown = atomic_load(&ss->shown);
	struct disc_allowed *to;

	if (shown == RDT_SHOW_ALL)
		shown = h->shown;
	else if (h->shown != RDT_SHOW_ALL && h->shown != shown)
		return;
	to = &h->allowed[shown];
	to->bits[ss->index / 64] |= UINT64_C(1) << ss->index % 64;
	to->count++;
}

static const struct rdt_disc_hosts *disc_hosts(const struct rdt_qpair *qp, uint64_t genctr)
{
	struct rdt_target *t = qp->reactor->target;
	struct rdt_disc_hosts *h = qp->ctrl->disc_hosts;
	unsigned int at = 0, looked = 0;
	struct rdt_subsys *ss;

	if (h && h->genctr == genctr)
		return h;
	if (!h)
		h = qp->ctrl->disc_hosts = malloc(sizeof(*h));
	if (!h)
		return NULL;
	memset(h, 0, sizeof(*h));
	h->genctr = genctr;
	h->shown = shown_to(t, qp->ctrl->hostnqn);
	while ((ss = rdt_subsys_next(t, &at))) {
		looked++;
		if (rdt_subsys_allows(ss, qp->ctrl->hostnqn))
			allow(h, ss);
	}
	rdt_admin_charge(qp, looked * SUBSYS_COST);
	return h;
}

/* ---- the page ---- */

/* Entries for subsystems, or for the discovery subsystem, on the same listeners. */
struct disc_block {
	const struct disc_allowed *allowed; /* NULL: the discovery subsystem */
	const struct rdt_listener *const *listeners;
	uint64_t listeners_count; /* number of entries of each subsystem */
	uint64_t entries;
};

struct disc_page {
	const struct rdt_disc_order *order;
	struct disc_block blocks[1 + RDT_SHOWN];
	const struct rdt_referral *referrals; /* shown last */
	uint64_t referrals_count;
	uint64_t records;
};

static bool open_page(const struct rdt_qpair *qp, uint64_t genctr, struct disc_page *page)
{
	const struct rdt_disc_order *order = disc_order(qp->reactor, genctr);
	const struct rdt_disc_hosts *hosts = disc_hosts(qp, genctr);
	unsigned int family = family_of(&qp->local);

	if (!order || !hosts)
		return false;
	page->order = order;
	page->referrals = order->shown[hosts->shown].referrals;
	page->referrals_count = page->records = order->shown[hosts->shown].referrals_count;
	for (unsigned int i = 0; i < 1 + RDT_SHOWN; i++) {
		const struct disc_allowed *allowed = i ? &hosts->allowed[i - 1] : NULL;
		const struct disc_shown *shown = &order->shown[i ? i - 1 : hosts->shown];
		uint64_t n = shown->listeners_count[family];

		page->blocks[i] = (struct disc_block){allowed, shown->listeners[family], n,
						      n * (allowed ? allowed->count : 1)};
		page->records += page->blocks[i].entries;
	}
	return true;
}

/* Returns the NQN of the @n-th subsystem that the host may use, or "" if it was just removed; then
 * the host reads the log again, because the generation has changed. */
static const char *nth_allowed(const struct rdt_target *t, const struct disc_allowed *allowed,
			       uint64_t n)
{
	const struct rdt_subsys *ss;
	unsigned int word = 0;
	uint64_t bits;

	for (; n >= (unsigned int)__builtin_popcountll(allowed->bits[word]); word++)
		n -= (unsigned int)__builtin_popcountll(allowed->bits[word]);
	for (bits = allowed->bits[word]; n; n--)
		bits &= bits - 1;
	ss = atomic_load(&t->subsys[word * 64 + (unsigned int)__builtin_ctzll(bits)]);
	return ss ? ss->nqn : "";
}

/* A part of the requested entries, as numbers of records of the page or of a block. */
struct disc_span {
	uint64_t first;
	uint64_t end;
	uint64_t base; /* number of the block's first record */
};

static void put_entry(const struct rdt_log_out *out, uint64_t n,
		      const struct nvmf_disc_log_entry *e)
{
	rdt_log_put(out, (n + 1) * NVME_DISC_LOG_ENTRY, e, sizeof(*e));
}

/* Write the requested entries of one listener, one for each subsystem, from number @n of the block
 * on. */
static void put_listener(const struct rdt_qpair *qp, const struct disc_block *block,
			 uint16_t eflags, uint64_t n, const struct disc_span *span,
			 const struct rdt_log_out *out)
{
	const struct rdt_target *t = qp->reactor->target;
	struct nvmf_disc_log_entry e;

	fill_entry(&e, qp, block->listeners[n % block->listeners_count]);
	for (; n < span->end; n += block->listeners_count) {
		const char *nqn =
			block->allowed ? nth_allowed(t, block->allowed, n / block->listeners_count)
				       : t->disc.nqn;

		e.subtype = block->allowed ? NVME_NQN_NVME : NVME_NQN_CURR;
		e.eflags = htole16(block->allowed ? 0 : eflags);
		memset(e.subnqn, 0, sizeof(e.subnqn));
		memccpy(e.subnqn, nqn, 0, sizeof(e.subnqn));
		put_entry(out, span->base + n, &e);
	}
}

/* Returns the part of records @first to @end (exclusive) in a block of @entries records that begins
 * at record @base. */
static struct disc_span span_of(uint64_t first, uint64_t end, uint64_t base, uint64_t entries)
{
	struct disc_span span = {.base = base};

	span.end = end > base ? end - base : 0;
	if (span.end > entries)
		span.end = entries;
	span.first = first > base ? first - base : 0;
	return span;
}

/* Write the requested entries from number @first to @end (exclusive). */
static void put_entries(const struct rdt_qpair *qp, const struct disc_page *page, uint64_t first,
			uint64_t end, const struct rdt_log_out *out)
{
	struct nvmf_disc_log_entry e;
	struct disc_span span;
	uint64_t base = 0;

	for (unsigned int i = 0; i < 1 + RDT_SHOWN; i++) {
		const struct disc_block *block = &page->blocks[i];

		span = span_of(first, end, base, block->entries);
		for (uint64_t k = 0; k < block->listeners_count && span.first + k < span.end; k++)
			put_listener(qp, block, page->order->eflags, span.first + k, &span, out);
		base += block->entries;
	}
	span = span_of(first, end, base, page->referrals_count);
	for (uint64_t n = span.first; n < span.end; n++) {
		fill_referral(&e, &page->referrals[n]);
		put_entry(out, base + n, &e);
	}
}

uint64_t rdt_discovery_log_size(const struct rdt_qpair *qp)
{
	struct disc_page page;

	if (!open_page(qp, atomic_load(&qp->reactor->target->genctr), &page))
		return 0;
	return (page.records + 1) * NVME_DISC_LOG_ENTRY;
}

int rdt_discovery_log(const struct rdt_qpair *qp, const struct rdt_log_out *out)
{
	/* Read first, so that a change during this call makes the host read again. */
	uint64_t genctr = atomic_load(&qp->reactor->target->genctr);
	struct nvmf_discovery_log head = {.genctr = htole64(genctr)};
	uint64_t first = out->offset / NVME_DISC_LOG_ENTRY;
	uint64_t end = (out->offset + out->len + NVME_DISC_LOG_ENTRY - 1) / NVME_DISC_LOG_ENTRY;
	struct disc_page page;

	if (!open_page(qp, genctr, &page))
		return -ENOMEM;
	head.numrec = htole64(page.records);
	rdt_log_put(out, 0, &head, sizeof(head));
	/* The header takes the place of an entry before the first one. */
	end = end ? end - 1 : 0;
	put_entries(qp, &page, first ? first - 1 : 0, end < page.records ? end : page.records, out);
	return 0;
}
