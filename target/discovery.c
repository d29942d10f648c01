/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The discovery log page (70h): one entry for each subsystem the host may use, on each listener. A
 * wildcard listener is shown with the address at which this host reached us.
 */
#include <stdio.h>
#include <string.h>

#include "util/sockaddr.h"
#include "internal.h"

/* The configuration does not change while we run, so neither does the page. */
#define GENCTR 1

/* A wildcard of the family the host did not come by has no address that we know to be good. */
static bool shown(const struct rdt_qpair *qp, const struct rdt_listener *l)
{
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

static void fill(struct nvmf_disc_log_entry *e, const struct rdt_qpair *qp,
		 const struct rdt_listener *l, const struct rdt_subsys *ss)
{
	const struct sockaddr *addr = (const struct sockaddr *)&l->addr;
	char host[RD_ADDR_TEXT];

	memset(e, 0, sizeof(*e));
	e->trtype = NVMF_TRTYPE_RDMA;
	e->adrfam = addr->sa_family == AF_INET6 ? NVMF_ADDR_FAMILY_IP6 : NVMF_ADDR_FAMILY_IP4;
	e->subtype = NVME_NQN_NVME;
	e->treq = NVMF_TREQ_NOT_SPECIFIED | NVMF_TREQ_DISABLE_SQFLOW;
	e->portid = htole16(l->portid);
	e->cntlid = htole16(NVMF_CNTLID_DYNAMIC);
	e->asqsz = htole16(32);
	snprintf(e->trsvcid, sizeof(e->trsvcid), "%u", rd_addr_port(addr));
	rd_addr_format_host(rd_addr_is_any(addr) ? (const struct sockaddr *)&qp->local : addr,
			    host);
	memccpy(e->traddr, host, 0, sizeof(e->traddr));
	memccpy(e->subnqn, ss->nqn, 0, sizeof(e->subnqn));
	e->tsas.rdma.qptype = NVMF_RDMA_QPTYPE_CONNECTED;
	e->tsas.rdma.prtype = prtype(l);
	e->tsas.rdma.cms = NVMF_RDMA_CMS_RDMA_CM;
}

/* Write the entries to @out, when there is one. Returns their number. */
static uint64_t walk(const struct rdt_qpair *qp, const struct rdt_log_out *out)
{
	const struct rdt_target *t = qp->reactor->target;
	struct nvmf_disc_log_entry e;
	uint64_t n = 0;

	for (unsigned int i = 0; i < t->subsys_count; i++) {
		if (!rdt_subsys_allows(&t->subsys[i], qp->ctrl->hostnqn))
			continue;
		for (unsigned int j = 0; j < t->listeners_count; j++) {
			if (!shown(qp, &t->listeners[j]))
				continue;
			if (out) {
				fill(&e, qp, &t->listeners[j], &t->subsys[i]);
				rdt_log_put(out, (n + 1) * NVME_DISC_LOG_ENTRY, &e, sizeof(e));
			}
			n++;
		}
	}
	return n;
}

uint64_t rdt_discovery_log_size(const struct rdt_qpair *qp)
{
	return (walk(qp, NULL) + 1) * NVME_DISC_LOG_ENTRY;
}

void rdt_discovery_log(const struct rdt_qpair *qp, const struct rdt_log_out *out)
{
	struct nvmf_discovery_log head = {
		.genctr = htole64(GENCTR),
		.numrec = htole64(walk(qp, out)),
	};

	rdt_log_put(out, 0, &head, sizeof(head));
}
