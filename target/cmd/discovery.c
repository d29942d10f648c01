/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The discovery log page (70h): an entry for each subsystem that the host may use, on each
 * listener, after those of the discovery subsystem. A wildcard listener is shown with the address
 * by which this host connected.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/sockaddr.h"
#include "nvmf/wire.h"
#include "admin.h"
#include "target/nvmf/events.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/log_out.h"
#include "target/nvmf/host_access.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"

/* A wildcard listener of the other address family has no address that is known to be reachable. */
static bool listener_listed(const struct rdt_qpair *qp, const struct rdt_listener *l)
{
	if (l->addr.ss_family == AF_UNSPEC)
		return false; /* it is not listening yet */
	return !rd_addr_is_any((const struct sockaddr *)&l->addr) ||
	       l->addr.ss_family == qp->local.ss_family;
}

static uint8_t prtype(const struct rdt_listener *l)
{
	if (l->fab < RDT_FAB_VERBS)
		return NVMF_RDMA_PRTYPE_IWARP;
	if (!l->prtype)
		return NVMF_RDMA_PRTYPE_NOT_SPECIFIED;
	if (strcmp(l->prtype, "iwarp") == 0)
		return NVMF_RDMA_PRTYPE_IWARP;
	return strcmp(l->prtype, "ib") == 0 ? NVMF_RDMA_PRTYPE_IB : NVMF_RDMA_PRTYPE_ROCEV2;
}

int rdt_referrals_set(struct rdt_target *t, const struct rdt_referral_config *list,
		      unsigned int count)
{
	struct rdt_referral *next = calloc(count + 1, sizeof(*next));
	struct rdt_referral *old;
	bool same;

	if (!next)
		return -ENOMEM;
	/* The addresses were checked with the configuration */
	for (unsigned int i = 0; i < count; i++)
		rd_addr_parse(list[i].address, list[i].port, &next[i].addr);
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
	return 0;
}

static void fill_addr(struct nvmf_disc_log_entry *e, const struct sockaddr *bound,
		      const struct sockaddr *shown_addr)
{
	char host[RD_ADDR_TEXT];

	e->trtype = NVMF_TRTYPE_RDMA;
	e->adrfam = bound->sa_family == AF_INET6 ? NVMF_ADDR_FAMILY_IP6 : NVMF_ADDR_FAMILY_IP4;
	e->cntlid = htole16(NVMF_CNTLID_DYNAMIC);
	e->asqsz = htole16(32);
	snprintf(e->trsvcid, sizeof(e->trsvcid), "%u", rd_addr_port(bound));
	rd_addr_format_host(shown_addr, host);
	memccpy(e->traddr, host, 0, sizeof(e->traddr));
	e->tsas.rdma.qptype = NVMF_RDMA_QPTYPE_CONNECTED;
	e->tsas.rdma.cms = NVMF_RDMA_CMS_RDMA_CM;
}

static void fill_referral(struct nvmf_disc_log_entry *e, const struct rdt_referral *r)
{
	memset(e, 0, sizeof(*e));
	fill_addr(e, (const struct sockaddr *)&r->addr, (const struct sockaddr *)&r->addr);
	e->subtype = NVME_NQN_DISC;
	e->treq = NVMF_TREQ_NOT_SPECIFIED;
	memccpy(e->subnqn, NVMF_DISC_NQN, 0, sizeof(e->subnqn));
	e->tsas.rdma.prtype = NVMF_RDMA_PRTYPE_NOT_SPECIFIED;
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

static void fill_entry(struct nvmf_disc_log_entry *e, const struct rdt_qpair *qp,
		       const struct rdt_listener *l, const struct rdt_subsys *ss)
{
	const struct sockaddr *addr = (const struct sockaddr *)&l->addr;

	memset(e, 0, sizeof(*e));
	fill_addr(e, addr, rd_addr_is_any(addr) ? (const struct sockaddr *)&qp->local : addr);
	e->subtype = NVME_NQN_NVME;
	if (rdt_subsys_is_disc(ss)) {
		e->subtype = NVME_NQN_CURR;
		e->eflags = htole16(disc_eflags(ss->target));
	}
	e->treq = NVMF_TREQ_NOT_SPECIFIED | NVMF_TREQ_DISABLE_SQFLOW;
	e->portid = htole16(l->portid);
	memccpy(e->subnqn, ss->nqn, 0, sizeof(e->subnqn));
	e->tsas.rdma.prtype = prtype(l);
}

/* Is entry @n requested? Hosts read a large page in many parts. */
static bool entry_wanted(const struct rdt_log_out *out, uint64_t n)
{
	uint64_t at = (n + 1) * NVME_DISC_LOG_ENTRY;

	return out && at + NVME_DISC_LOG_ENTRY > out->offset && at < out->offset + out->len;
}

static void put_entry(const struct rdt_log_out *out, uint64_t n,
		      const struct nvmf_disc_log_entry *e)
{
	rdt_log_put(out, (n + 1) * NVME_DISC_LOG_ENTRY, e, sizeof(*e));
}

/* Put the entries of @ss for all listeners, beginning with number @n. Returns the next number. */
static uint64_t put_subsys(const struct rdt_qpair *qp, const struct rdt_subsys *ss, uint64_t n,
			   const struct rdt_log_out *out)
{
	struct rdt_target *t = qp->reactor->target;
	const struct rdt_listener *l;
	struct nvmf_disc_log_entry e;

	pthread_mutex_lock(&t->disc.lock);
	TAILQ_FOREACH (l, &t->listeners, link) {
		if (!listener_listed(qp, l))
			continue;
		if (entry_wanted(out, n)) {
			fill_entry(&e, qp, l, ss);
			put_entry(out, n, &e);
		}
		n++;
	}
	pthread_mutex_unlock(&t->disc.lock);
	return n;
}

/* Put all entries to @out, unless that is NULL. Returns their number. */
static uint64_t put_entries(const struct rdt_qpair *qp, const struct rdt_log_out *out)
{
	struct rdt_target *t = qp->reactor->target;
	uint64_t n = put_subsys(qp, &t->disc, 0, out);
	struct nvmf_disc_log_entry e;

	for (unsigned int i = 0; i < t->subsys_count; i++)
		if (rdt_subsys_allows(t->subsys[i], qp->ctrl->hostnqn))
			n = put_subsys(qp, t->subsys[i], n, out);
	pthread_mutex_lock(&t->disc.lock);
	for (unsigned int i = 0; i < t->referrals_count; i++) {
		if (entry_wanted(out, n)) {
			fill_referral(&e, &t->referrals[i]);
			put_entry(out, n, &e);
		}
		n++;
	}
	pthread_mutex_unlock(&t->disc.lock);
	return n;
}

uint64_t rdt_discovery_log_size(const struct rdt_qpair *qp)
{
	return (put_entries(qp, NULL) + 1) * NVME_DISC_LOG_ENTRY;
}

void rdt_discovery_log(const struct rdt_qpair *qp, const struct rdt_log_out *out)
{
	struct nvmf_discovery_log head = {
		/* Read first, so that a change during this call makes the host read again. */
		.genctr = htole64(atomic_load(&qp->reactor->target->genctr)),
	};

	head.numrec = htole64(put_entries(qp, out));

	rdt_log_put(out, 0, &head, sizeof(head));
}
