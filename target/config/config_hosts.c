/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of hosts and paths: NQN lists, ANA groups, controller IDs, referrals. */
#include "config_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/text.h"
#include "nvmf/wire.h"
#include "util/cleanup.h"
#include "util/sockaddr.h"
#include "tgt_limits.h"

void rdt_config_check_nqn(struct rdt_config_load *load, const struct rdt_key *key, const char *nqn)
{
	const char *error = nvmf_nqn_unusable(nqn);
	const char *odd = error ? NULL : nvmf_nqn_error(nqn);

	if (error)
		rdt_config_problem(load, key,
				   "found \"%.80s\", which %s; expected a name such as "
				   "nqn.2026-01.org.example:disk1",
				   nqn, error);
	else if (odd)
		rdt_config_warning(load, key,
				   "found \"%.80s\", which %s: it is used as it is, but some "
				   "hosts refuse a name of another form than "
				   "nqn.2026-01.org.example:disk1",
				   nqn, odd);
}

int rdt_config_check_nqns(struct rdt_config_load *load, const struct rdt_key *hosts,
			  const char *const *nqns, uint32_t count)
{
	rd_autofree struct rdt_config_id *ids = calloc(count + 1, sizeof(*ids));
	rd_autofree unsigned int *first = calloc(count + 1, sizeof(*first));

	if (!ids || !first)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		ids[i] = (struct rdt_config_id){nqns[i], strlen(nqns[i]), i};
	rdt_config_firsts(ids, count, first);
	for (uint32_t i = 0; i < count; i++) {
		struct rdt_key host = rdt_config_item(load, hosts, i);

		rdt_config_check_nqn(load, &host, nqns[i]);
		if (first[i] != i)
			rdt_config_problem(load, &host, "\"%.80s\" is listed twice", nqns[i]);
	}
	return 0;
}

static bool group_valid(struct rdt_config_load *load, const struct rdt_key *key, uint32_t group)
{
	if (group >= 1 && group <= RDT_ANA_GROUPS)
		return true;
	rdt_config_problem(load, key, "found %u, expected an ANA group of 1 to %u", group,
			   RDT_ANA_GROUPS);
	return false;
}

void rdt_config_check_listener_ana(struct rdt_config_load *load, const struct rdt_key *listener,
				   const struct rdt_listener_config *l)
{
	struct rdt_key list = rdt_config_child(load, listener, "ana");
	uint64_t seen[RDT_ANA_GROUPS / 64 + 1] = {0};

	for (uint32_t i = 0; i < l->ana_count; i++) {
		uint32_t group = l->ana[i].group;
		struct rdt_key item = rdt_config_item(load, &list, i);
		struct rdt_key key = rdt_config_child(load, &item, "group");

		if (!group_valid(load, &key, group))
			continue;
		if (seen[group / 64] & UINT64_C(1) << group % 64)
			rdt_config_problem(load, &key,
					   "group %u is listed twice; a listener has one state for "
					   "each group",
					   group);
		seen[group / 64] |= UINT64_C(1) << group % 64;
	}
}

static int compare_nqn_key(const void *a, const void *b)
{
	return strcmp(a, *(const char *const *)b);
}

int rdt_config_check_ns_hosts(struct rdt_config_load *load, const struct rdt_key *ns_key,
			      const struct rdt_subsys_config *ss, const char *const *sorted,
			      struct rdt_ns_config *ns)
{
	struct rdt_key group = rdt_config_child(load, ns_key, "ana_group");
	struct rdt_key hosts = rdt_config_child(load, ns_key, "hosts");

	if (!group.node)
		ns->ana_group = 1;
	else
		group_valid(load, &group, ns->ana_group);
	if (ns->hosts_count && rdt_config_check_nqns(load, &hosts, ns->hosts, ns->hosts_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < ns->hosts_count && !ss->allow_any_host; i++) {
		struct rdt_key host = rdt_config_item(load, &hosts, i);

		if (!bsearch(ns->hosts[i], sorted, ss->hosts_count, sizeof(*sorted),
			     compare_nqn_key))
			rdt_config_problem(
				load, &host,
				"\"%.80s\" is not among the subsystem's hosts, and so "
				"could never see the namespace; add it there or remove it "
				"here",
				ns->hosts[i]);
	}
	return 0;
}

void rdt_config_check_cntlids(struct rdt_config_load *load, const struct rdt_key *subsystem,
			      struct rdt_subsys_config *ss)
{
	struct rdt_key min = rdt_config_child(load, subsystem, "cntlid_min");
	struct rdt_key max = rdt_config_child(load, subsystem, "cntlid_max");

	if (!min.node)
		ss->cntlid_min = NVMF_CNTLID_MIN;
	if (!max.node)
		ss->cntlid_max = NVMF_CNTLID_MAX;
	if (ss->cntlid_min < NVMF_CNTLID_MIN || ss->cntlid_min > NVMF_CNTLID_MAX)
		rdt_config_problem(load, &min, "found %u, expected %u to %u", ss->cntlid_min,
				   NVMF_CNTLID_MIN, NVMF_CNTLID_MAX);
	else if (ss->cntlid_max < ss->cntlid_min || ss->cntlid_max > NVMF_CNTLID_MAX)
		rdt_config_problem(load, &max, "found %u, expected %u (cntlid_min) to %u",
				   ss->cntlid_max, ss->cntlid_min, NVMF_CNTLID_MAX);
}

void rdt_config_check_referrals(struct rdt_config_load *load, struct rdt_config *config)
{
	struct rdt_key root = rdt_config_root(load);
	struct rdt_key list = rdt_config_child(load, &root, "referrals");

	for (uint32_t i = 0; i < config->referrals_count; i++) {
		struct rdt_referral_config *r = &config->referrals[i];
		struct rdt_key item = rdt_config_item(load, &list, i);
		struct rdt_key address = rdt_config_child(load, &item, "address");
		struct rdt_key port = rdt_config_child(load, &item, "port");
		struct sockaddr_storage ss;

		if (!port.node)
			r->port = NVMF_RDMA_PORT;
		else if (!r->port)
			rdt_config_problem(load, &port, "found 0, expected 1 to 65535");
		if (rd_addr_parse(r->address, r->port, &ss) ||
		    rd_addr_is_any((const struct sockaddr *)&ss))
			rdt_config_problem(
				load, &address,
				"found \"%s\", expected the numeric IPv4 or IPv6 address "
				"of a discovery service",
				r->address);
	}
}
