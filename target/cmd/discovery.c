/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The discovery log page (70h): an entry for each subsystem that the host may use, on each
 * listener, after those of the discovery subsystem. A wildcard listener is shown with the address
 * by which this host connected.
 *
 * What the page is made of is found out once for each generation: the listeners and referrals by
 * each reactor, and which subsystems the host may use, by each discovery controller, a bit for each
 * subsystem. From that, only the entries that a command asks for are made.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/sockaddr.h"
#include "nvmf/wire.h"
#include "admin.h"
#include "target/nvmf/admin_turn.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/events.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/log_out.h"
#include "target/nvmf/host_access.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/qpair.h"
#include "target/nvmf/reactor.h"
#include "target/nvmf/target.h"
#include "target/nvmf/transport.h"
#include "target/config/tgt_limits.h"

#define SUBSYS_COST 16u /* of asking one subsystem whether it allows the host: admin_turn.h */

int rdt_referrals_set(struct rdt_target *t, const struct rdt_referral_config *list,
		      unsigned int count)
{
	struct rdt_referral *next = calloc(count + 1, sizeof(*next));
	struct rdt_referral *old;
	bool same;

	if (!next)
		return -ENOMEM;
	/* The addresses were checked with the configuration */
	for (unsigned int i = 0; i < count; i++) {
		next[i].transport = t->transports[list[i].transport];
		rd_addr_parse(list[i].address, list[i].port, &next[i].addr);
	}
	pthread_mutex_lock(&t->disc.lock);
	same = count == t->referrals_count;
	for (unsigned int i = 0; i < count && same; i++)
		same = rd_addr_equal((const struct sockaddr *)&next[i].addr,
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
	e->treq = NVMF_TREQ_NOT_SPECIFIED;
	memccpy(e->subnqn, NVMF_DISC_NQN, 0, sizeof(e->subnqn));
}

/* Persistent connections are supported (EPCSD). All listeners report the same log (DUPRETINFO)
 * unless one has a wildcard address, which is reported as the address that was used. */
static uint16_t disc_eflags(const struct rdt_target *t)
{
	const struct rdt_listener *l;

	TAILQ_FOREACH (l, &t->listeners, link)
		if (rd_addr_is_any((const struct sockaddr *)&l->addr))
			return NVMF_DISC_EFLAGS_EPCSD;
	return NVMF_DISC_EFLAGS_BOTH;
}

/* An entry for listener @l, without the subsystem. */
static void fill_entry(struct nvmf_disc_log_entry *e, const struct rdt_qpair *qp,
		       const struct rdt_listener *l)
{
	const struct sockaddr *addr = (const struct sockaddr *)&l->addr;

	memset(e, 0, sizeof(*e));
	l->transport->describe(l, e);
	fill_addr(e, addr, rd_addr_is_any(addr) ? (const struct sockaddr *)&qp->local : addr);
	e->treq = NVMF_TREQ_NOT_SPECIFIED | NVMF_TREQ_DISABLE_SQFLOW;
	e->portid = htole16(l->portid);
}

/* ---- what a generation consists of ---- */

enum { NO_WILDCARD, WILDCARD4, WILDCARD6, FAMILIES };

/* Of a reactor. */
struct rdt_disc_order {
	uint64_t genctr;
	uint16_t eflags;
	/* The listeners that are shown to hosts that connected by a family: a listener is freed
	 * only when the target ends */
	const struct rdt_listener **listeners[FAMILIES];
	unsigned int listeners_count[FAMILIES];
	struct rdt_referral *referrals;
	unsigned int referrals_count;
};

/* Of a discovery controller. */
struct rdt_disc_hosts {
	uint64_t genctr;
	unsigned int count;
	uint64_t allowed[RDT_SUBSYS_PLACES / 64]; /* a bit for each of target->subsys */
};

static unsigned int family_of(const struct sockaddr_storage *local)
{
	if (local->ss_family == AF_INET)
		return WILDCARD4;
	return local->ss_family == AF_INET6 ? WILDCARD6 : NO_WILDCARD;
}

/* A wildcard listener of the other address family has no address that is known to be reachable. */
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
	for (unsigned int f = 0; f < FAMILIES; f++)
		free(order->listeners[f]);
	free(order->referrals);
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
static int fill_order(struct rdt_disc_order *order, const struct rdt_target *t)
{
	unsigned int room = count_listeners(t);
	const struct rdt_listener *l;

	for (unsigned int f = 0; f < FAMILIES; f++) {
		order->listeners[f] = calloc(room + 1, sizeof(order->listeners[f][0]));
		if (!order->listeners[f])
			return -ENOMEM;
		TAILQ_FOREACH (l, &t->listeners, link)
			if (listener_listed(f, l))
				order->listeners[f][order->listeners_count[f]++] = l;
	}
	order->eflags = disc_eflags(t);
	order->referrals = calloc(t->referrals_count + 1, sizeof(*order->referrals));
	if (!order->referrals)
		return -ENOMEM;
	order->referrals_count = t->referrals_count;
	if (t->referrals_count)
		memcpy(order->referrals, t->referrals,
		       t->referrals_count * sizeof(*order->referrals));
	return 0;
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
	while ((ss = rdt_subsys_next(t, &at))) {
		looked++;
		if (!rdt_subsys_allows(ss, qp->ctrl->hostnqn))
			continue;
		h->allowed[ss->index / 64] |= UINT64_C(1) << ss->index % 64;
		h->count++;
	}
	rdt_admin_charge(qp, looked * SUBSYS_COST);
	return h;
}

/* ---- the page ---- */

struct disc_page {
	const struct rdt_disc_order *order;
	const struct rdt_disc_hosts *hosts;
	unsigned int family;
	uint64_t listeners; /* entries of each subsystem */
	uint64_t entries;   /* of subsystems; those of referrals follow */
};

static bool open_page(const struct rdt_qpair *qp, uint64_t genctr, struct disc_page *page)
{
	page->order = disc_order(qp->reactor, genctr);
	page->hosts = disc_hosts(qp, genctr);
	if (!page->order || !page->hosts)
		return false;
	page->family = family_of(&qp->local);
	page->listeners = page->order->listeners_count[page->family];
	page->entries = (1 + (uint64_t)page->hosts->count) * page->listeners;
	return true;
}

static uint64_t page_records(const struct disc_page *page)
{
	return page->entries + page->order->referrals_count;
}

/* The NQN of the @n-th subsystem that the host may use. "" when it has just been removed: then the
 * host reads the log again, because the generation has changed. */
static const char *nth_allowed(const struct rdt_target *t, const struct rdt_disc_hosts *h,
			       uint64_t n)
{
	const struct rdt_subsys *ss;
	unsigned int word = 0;
	uint64_t bits;

	for (; n >= (unsigned int)__builtin_popcountll(h->allowed[word]); word++)
		n -= (unsigned int)__builtin_popcountll(h->allowed[word]);
	for (bits = h->allowed[word]; n; n--)
		bits &= bits - 1;
	ss = atomic_load(&t->subsys[word * 64 + (unsigned int)__builtin_ctzll(bits)]);
	return ss ? ss->nqn : "";
}

static void put_entry(const struct rdt_log_out *out, uint64_t n,
		      const struct nvmf_disc_log_entry *e)
{
	rdt_log_put(out, (n + 1) * NVME_DISC_LOG_ENTRY, e, sizeof(*e));
}

/* Put the requested entries of listener @index: from number @n on, each page->listeners one. */
static void put_listener(const struct rdt_qpair *qp, const struct disc_page *page, uint64_t n,
			 uint64_t end, const struct rdt_log_out *out)
{
	const struct rdt_target *t = qp->reactor->target;
	const struct rdt_listener *l = page->order->listeners[page->family][n % page->listeners];
	struct nvmf_disc_log_entry e;

	fill_entry(&e, qp, l);
	for (; n < end; n += page->listeners) {
		uint64_t i = n / page->listeners;
		const char *nqn = i ? nth_allowed(t, page->hosts, i - 1) : t->disc.nqn;

		e.subtype = i ? NVME_NQN_NVME : NVME_NQN_CURR;
		e.eflags = htole16(i ? 0 : page->order->eflags);
		memset(e.subnqn, 0, sizeof(e.subnqn));
		memccpy(e.subnqn, nqn, 0, sizeof(e.subnqn));
		put_entry(out, n, &e);
	}
}

/* Put the requested entries: from number @first up to @end. */
static void put_entries(const struct rdt_qpair *qp, const struct disc_page *page, uint64_t first,
			uint64_t end, const struct rdt_log_out *out)
{
	uint64_t last = end < page->entries ? end : page->entries;
	struct nvmf_disc_log_entry e;

	for (uint64_t n = first; n < last && n < first + page->listeners; n++)
		put_listener(qp, page, n, last, out);
	for (uint64_t n = first > page->entries ? first : page->entries; n < end; n++) {
		fill_referral(&e, &page->order->referrals[n - page->entries]);
		put_entry(out, n, &e);
	}
}

uint64_t rdt_discovery_log_size(const struct rdt_qpair *qp)
{
	struct disc_page page;

	if (!open_page(qp, atomic_load(&qp->reactor->target->genctr), &page))
		return 0;
	return (page_records(&page) + 1) * NVME_DISC_LOG_ENTRY;
}

int rdt_discovery_log(const struct rdt_qpair *qp, const struct rdt_log_out *out)
{
	/* Read first, so that a change during this call makes the host read again. */
	uint64_t genctr = atomic_load(&qp->reactor->target->genctr);
	struct nvmf_discovery_log head = {.genctr = htole64(genctr)};
	uint64_t first = out->offset / NVME_DISC_LOG_ENTRY;
	uint64_t end = (out->offset + out->len + NVME_DISC_LOG_ENTRY - 1) / NVME_DISC_LOG_ENTRY;
	struct disc_page page;
	uint64_t records;

	if (!open_page(qp, genctr, &page))
		return -ENOMEM;
	records = page_records(&page);
	head.numrec = htole64(records);
	rdt_log_put(out, 0, &head, sizeof(head));
	/* The head is in the place of an entry before the first one. */
	end = end ? end - 1 : 0;
	put_entries(qp, &page, first ? first - 1 : 0, end < records ? end : records, out);
	return 0;
}
