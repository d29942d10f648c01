/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of Ceph clusters, and of the namespaces on their images. */
#include "config_priv.h"

#include <string.h>

static void check_takeover(struct rdt_config_load *load, const struct rdt_key *cluster,
			   struct rdt_ceph_config *ceph)
{
	struct rdt_key key = rdt_config_child(load, cluster, "takeover");

	if (!key.node)
		ceph->takeover = RDT_CEPH_TAKEOVER;
	else if (!rdt_config_is_bad(load, &key) &&
		 (ceph->takeover < RDT_CEPH_TAKEOVER_MIN || ceph->takeover > RDT_CEPH_TAKEOVER_MAX))
		rdt_config_problem(load, &key, "found %u, expected %u to %u (seconds)",
				   ceph->takeover, RDT_CEPH_TAKEOVER_MIN, RDT_CEPH_TAKEOVER_MAX);
}

static void check_ceph(struct rdt_config_load *load, const struct rdt_key *list,
		       struct rdt_config *config, uint32_t index)
{
	struct rdt_ceph_config *ceph = &config->ceph[index];
	struct rdt_key key = rdt_config_item(load, list, index);
	struct rdt_key name = rdt_config_child(load, &key, "name");
	struct rdt_key options = rdt_config_child(load, &key, "options");

	if (ceph->user && strncmp(ceph->user, "client.", strlen("client.")) == 0) {
		struct rdt_key user = rdt_config_child(load, &key, "user");

		rdt_config_problem(load, &user,
				   "found \"%s\", expected the name without \"client.\"",
				   ceph->user);
	}
	check_takeover(load, &key, ceph);
	for (uint32_t i = 0; i < ceph->options_count; i++) {
		const char *equals = strchr(ceph->options[i], '=');
		struct rdt_key option = rdt_config_item(load, &options, i);

		if (!equals || equals == ceph->options[i])
			rdt_config_problem(load, &option,
					   "found \"%s\", expected NAME=VALUE with an option of "
					   "Ceph, such as rados_mon_op_timeout=30",
					   ceph->options[i]);
	}
	for (uint32_t i = 0; i < index; i++) {
		struct rdt_key other = rdt_config_item(load, list, i);
		char where[512];

		if (strcmp(config->ceph[i].name, ceph->name) != 0)
			continue;
		rdt_config_problem(
			load, &name, "\"%s\" is already used by the cluster %s; each needs its own",
			ceph->name, rdt_config_where(&name, &other, where, sizeof(where)));
		break;
	}
}

static void find_cluster(struct rdt_config_load *load, const struct rdt_config *config,
			 const struct rdt_key *key, struct rdt_rbd_config *rbd)
{
	struct rdt_key cluster = rdt_config_child(load, key, "cluster");

	if (!rbd->cluster) {
		rbd->of = config->ceph_count == 1 ? config->ceph : NULL;
		if (config->ceph_count > 1)
			rdt_config_problem(load, &cluster,
					   "missing, expected the name of one of the %u clusters "
					   "under \"ceph:\"",
					   config->ceph_count);
		return;
	}
	for (uint32_t i = 0; i < config->ceph_count; i++)
		if (strcmp(config->ceph[i].name, rbd->cluster) == 0)
			rbd->of = &config->ceph[i];
	if (!rbd->of)
		rdt_config_problem(load, &cluster,
				   "found \"%s\", expected the name of a cluster under \"ceph:\"",
				   rbd->cluster);
}

static void check_ns_rbd(struct rdt_config_load *load, const struct rdt_config *config,
			 const struct rdt_key *ns_key, struct rdt_ns_config *ns)
{
	struct rdt_key key = rdt_config_child(load, ns_key, "rbd");
	struct rdt_key snapshot = rdt_config_child(load, &key, "snapshot");
	struct rdt_key lock = rdt_config_child(load, &key, "lock");

	if (!ns->rbd) {
		if (!rdt_config_is_bad(load, &key))
			rdt_config_problem(load, &key,
					   "missing, expected \"pool:\" and \"image:\" under it");
		return;
	}
	find_cluster(load, config, &key, ns->rbd);
	if (ns->rbd->snapshot && !ns->read_only)
		rdt_config_problem(load, &snapshot,
				   "a snapshot cannot be written; add \"read_only: true\" to the "
				   "namespace");
	if (ns->rbd->lock == RDT_RBD_LOCK_EXCLUSIVE && ns->read_only)
		rdt_config_problem(load, &lock,
				   "a namespace with \"read_only: true\" takes no lock; remove one "
				   "of them");
}

/* With a range of controller IDs the subsystem has other gateways, which do not know what hosts
 * set here. Told for the first of the subsystem's namespaces (@ns) that it concerns. */
static void warn_gateway(struct rdt_config_load *load, const struct rdt_config *config,
			 const struct rdt_subsys_config *ss, const struct rdt_key *ns_key,
			 const struct rdt_ns_config *ns, bool told[2])
{
	struct rdt_key rbd = rdt_config_child(load, ns_key, "rbd");

	if (!ns->rbd || ns->read_only)
		return;
	if (!told[0] && ns->rbd->lock == RDT_RBD_LOCK_AUTO &&
	    ss->reservations != RDT_RESERVATIONS_OFF) {
		told[0] = true;
		rdt_config_warning(load, &rbd,
				   "without \"lock: exclusive\" each gateway (the subsystem has a "
				   "range of controller IDs) enforces only reservations that hosts "
				   "made through it; set \"lock: exclusive\", or \"reservations: "
				   "off\" in the subsystem");
	}
	if (!told[1] && config->target.state_dir && ss->write_protect != RDT_WP_OFF) {
		told[1] = true;
		rdt_config_warning(
			load, &rbd,
			"each gateway (the subsystem has a range of controller IDs) keeps "
			"its own write protection, so a protected namespace can be written "
			"after a takeover; set \"write_protect: off\" in the subsystem, "
			"and \"read_only: true\" on all gateways where it is needed");
	}
}

void rdt_config_check_rbd(struct rdt_config_load *load, struct rdt_config *config)
{
	struct rdt_key root = rdt_config_root(load);
	struct rdt_key clusters = rdt_config_child(load, &root, "ceph");
	struct rdt_key subsystems = rdt_config_child(load, &root, "subsystems");

	for (uint32_t i = 0; i < config->ceph_count; i++)
		check_ceph(load, &clusters, config, i);
	for (uint32_t i = 0; i < config->subsystems_count; i++) {
		struct rdt_key ss = rdt_config_item(load, &subsystems, i);
		struct rdt_key list = rdt_config_child(load, &ss, "namespaces");
		bool gateway = rdt_config_child(load, &ss, "cntlid_min").node ||
			       rdt_config_child(load, &ss, "cntlid_max").node;
		bool told[2] = {!gateway, !gateway};

		for (uint32_t j = 0; j < config->subsystems[i].namespaces_count; j++) {
			struct rdt_ns_config *ns = &config->subsystems[i].namespaces[j];
			struct rdt_key key;

			if (ns->backend != RDT_BACKEND_RBD)
				continue;
			key = rdt_config_item(load, &list, j);
			check_ns_rbd(load, config, &key, ns);
			warn_gateway(load, config, &config->subsystems[i], &key, ns, told);
		}
	}
}
