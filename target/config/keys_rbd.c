/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of Ceph clusters and of namespaces on RBD images. */
#include "backends.h"
#include "config_priv.h"
#include "keys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ANEW RDT_WHEN_ANEW

/* ---- clusters ---- */

static const char *wrong_user(const char *text)
{
	return strncmp(text, "client.", strlen("client.")) == 0 ? "" : NULL;
}

static const char *wrong_option(const char *text)
{
	const char *equals = strchr(text, '=');

	return equals && equals != text ? NULL : "";
}

static const struct rdt_row option_element = {
	.type = RDT_KEY_TEXT,
	.wrong = wrong_option,
	.expected = "NAME=VALUE with an option of Ceph, such as rados_mon_op_timeout=30"};

#define T struct rdt_ceph_config

static const struct rdt_row ceph_rows[] = {
	{"name", RDT_KEY_TEXT, ANEW, RDT_AT(T, name), .needed = RDT_ALWAYS, .example = "main",
	 .expected = "a name", .says = "The name that namespaces use."},
	{"conf", RDT_KEY_TEXT, ANEW, RDT_AT(T, conf), .unset = "where Ceph looks for it",
	 .example = "/etc/ceph/ceph.conf", .says = "Path of the cluster's ceph.conf."},
	{"user", RDT_KEY_TEXT, ANEW, RDT_AT(T, user), .wrong = wrong_user,
	 .expected = "the name without \"client.\"", .unset = "admin", .example = "rdtarget",
	 .says = "Ceph's user, without \"client.\"."},
	{"keyring", RDT_KEY_TEXT, ANEW, RDT_AT(T, keyring), .unset = "as ceph.conf says",
	 .example = "/etc/rdtarget/keys/ceph.keyring",
	 .says = "Path of the file with the user's key."},
	{"options", RDT_KEY_LIST, ANEW, RDT_LIST_AT(T, options), .max = 256,
	 .element = &option_element, .unset = "none", .example = "[\"rados_mon_op_timeout=30\"]",
	 .says = "Options of Ceph, which take precedence over those of ceph.conf."},
	{"takeover", RDT_KEY_NUMBER, ANEW, RDT_AT(T, takeover), .min = RDT_CEPH_TAKEOVER_MIN,
	 .max = RDT_CEPH_TAKEOVER_MAX, .unit = "seconds", .def = "3",
	 .says = "With \"lock: exclusive\": time after which a silent gateway loses its locks."},
	{0},
};
#undef T

const struct rdt_section rdt_ceph_section = {{ceph_rows}, sizeof(struct rdt_ceph_config)};

/* ---- images ---- */

static const struct rdt_choice locks[] = {
	{"auto", RDT_RBD_LOCK_AUTO}, {"exclusive", RDT_RBD_LOCK_EXCLUSIVE}, {NULL, 0}};

static const struct rdt_choice encryptions[] = {{"none", RDT_RBD_ENCRYPTION_NONE},
						{"luks1", RDT_RBD_ENCRYPTION_LUKS1},
						{"luks2", RDT_RBD_ENCRYPTION_LUKS2},
						{NULL, 0}};

#define T struct rdt_rbd_config

static const struct rdt_row image_rows[] = {
	{"cluster", RDT_KEY_TEXT, ANEW, RDT_AT(T, cluster), .unset = "the only one",
	 .example = "main", .says = "Name of the cluster in ceph."},
	{"pool", RDT_KEY_TEXT, ANEW, RDT_AT(T, pool), .needed = RDT_ALWAYS, .example = "rbd",
	 .expected = "the name of a pool", .says = "Name of the pool."},
	{"namespace", RDT_KEY_TEXT, ANEW, RDT_AT(T, rados_namespace), .unset = "none",
	 .example = "tenant1",
	 .says = "Name of the namespace in the pool, as Ceph uses that word."},
	{"image", RDT_KEY_TEXT, ANEW, RDT_AT(T, image), .needed = RDT_ALWAYS, .example = "disk1",
	 .expected = "the name of an image", .says = "Name of the image."},
	{"snapshot", RDT_KEY_TEXT, ANEW, RDT_AT(T, snapshot), .unset = "the image itself",
	 .example = "monday", .says = "Name of a snapshot of the image; needs read_only."},
	{"lock", RDT_KEY_CHOICE, ANEW, RDT_AT(T, lock), .choices = locks, .def = "auto",
	 .says = "Who holds Ceph's exclusive lock: the client that writes, or rdtarget while it "
		 "serves the image."},
	{"encryption", RDT_KEY_CHOICE, ANEW, RDT_AT(T, encryption), .choices = encryptions,
	 .def = "none", .says = "Format of the image's encryption, which librbd does."},
	{"encryption_key_file", RDT_KEY_TEXT, ANEW, RDT_AT(T, encryption_key_file), .unset = "none",
	 .example = "/etc/rdtarget/keys/disk1",
	 .says = "Path of the file with the passphrase; it is read whenever the image is opened."},
	{"cache", RDT_KEY_BOOL, ANEW, RDT_AT(T, cache), .def = "false",
	 .says = "Have librbd cache the image, for a single rdtarget; Flush stores the writes."},
	{0},
};
#undef T

static const struct rdt_section image_section = {{image_rows}, sizeof(struct rdt_rbd_config)};

const struct rdt_row rdt_rbd_rows[] = {
	{"rbd", RDT_KEY_MAPPING, ANEW, RDT_AT(struct rdt_ns_config, rbd), .pointer = true,
	 .section = &image_section, .with = RDT_WITH(RBD), .needed = RDT_WITH(RBD),
	 .expected = "\"pool:\" and \"image:\" under it",
	 .says = "The Ceph RBD image, which must exist."},
	{0},
};

/* ---- checks ---- */

/* @clusters: the list. */
static void find_cluster(struct rdt_config_load *load, const struct rdt_config *config,
			 const struct rdt_key *clusters, const struct rdt_key *key,
			 struct rdt_rbd_config *rbd)
{
	struct rdt_key cluster = rdt_config_child(load, key, "cluster");

	if (!rbd->cluster) {
		rbd->of = config->ceph_count == 1 ? config->ceph : NULL;
		if (config->ceph_count > 1 && rdt_config_good(load, &cluster))
			rdt_config_problem(load, &cluster,
					   "missing, expected the name of one of the %u clusters "
					   "under \"ceph:\"",
					   config->ceph_count);
		return;
	}
	for (uint32_t i = 0; i < config->ceph_count; i++)
		if (strcmp(config->ceph[i].name, rbd->cluster) == 0)
			rbd->of = &config->ceph[i];
	if (!rbd->of && rdt_config_good(load, clusters))
		rdt_config_problem(load, &cluster,
				   "found \"%s\", expected the name of a cluster under \"ceph:\"",
				   rbd->cluster);
}

static void check_encryption(struct rdt_config_load *load, const struct rdt_key *key,
			     const struct rdt_rbd_config *rbd)
{
	struct rdt_key encryption = rdt_config_child(load, key, "encryption");
	struct rdt_key file = rdt_config_child(load, key, "encryption_key_file");

	if (!rdt_config_good(load, &encryption) || !rdt_config_good(load, &file))
		return;
	if (rbd->encryption != RDT_RBD_ENCRYPTION_NONE && !rbd->encryption_key_file)
		rdt_config_problem(load, &file,
				   "missing, expected the path of the file with the passphrase");
	if (rbd->encryption == RDT_RBD_ENCRYPTION_NONE && rbd->encryption_key_file)
		rdt_config_problem(
			load, &encryption,
			"missing, expected luks1 or luks2; without it the key is not used");
}

/* @gateway: the subsystem has other gateways. */
static void check_cache(struct rdt_config_load *load, const struct rdt_key *key,
			const struct rdt_rbd_config *rbd, bool gateway)
{
	struct rdt_key cache = rdt_config_child(load, key, "cache");

	if (!rbd->cache || !rdt_config_good(load, &cache))
		return;
	if (rbd->lock == RDT_RBD_LOCK_EXCLUSIVE)
		rdt_config_problem(load, &cache,
				   "a gateway that takes over the image would not have the data in "
				   "this one's cache; remove it, or \"lock: exclusive\"");
	else if (gateway)
		rdt_config_problem(load, &cache,
				   "the subsystem has other gateways (it has a range of controller "
				   "IDs), which do not see the data in the cache; remove it, or "
				   "cntlid_min and cntlid_max");
}

static void check_ns_rbd(struct rdt_config_load *load, const struct rdt_config *config,
			 const struct rdt_key *clusters, const struct rdt_key *ns_key,
			 struct rdt_ns_config *ns, bool gateway)
{
	struct rdt_key key = rdt_config_child(load, ns_key, "rbd");
	struct rdt_key snapshot = rdt_config_child(load, &key, "snapshot");
	struct rdt_key lock = rdt_config_child(load, &key, "lock");
	struct rdt_key read_only = rdt_config_child(load, ns_key, "read_only");

	if (!ns->rbd)
		return;
	find_cluster(load, config, clusters, &key, ns->rbd);
	check_encryption(load, &key, ns->rbd);
	check_cache(load, &key, ns->rbd, gateway);
	if (!rdt_config_good(load, &read_only))
		return;
	if (ns->rbd->snapshot && !ns->read_only)
		rdt_config_problem(load, &snapshot,
				   "a snapshot cannot be written; add \"read_only: true\" to the "
				   "namespace");
	if (ns->rbd->lock == RDT_RBD_LOCK_EXCLUSIVE && ns->read_only)
		rdt_config_problem(load, &lock,
				   "a namespace with \"read_only: true\" takes no lock; remove one "
				   "of them");
}

/* With a range of controller IDs the subsystem has other gateways, which do not know settings made
 * by hosts here. Warns for the first namespace (@ns) of the subsystem concerned. */
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

int rdt_config_check_rbd(struct rdt_config_load *load, struct rdt_config *config)
{
	struct rdt_key root = rdt_config_root(load);
	struct rdt_key clusters = rdt_config_child(load, &root, "ceph");
	struct rdt_key subsystems = rdt_config_child(load, &root, "subsystems");

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
			check_ns_rbd(load, config, &clusters, &key, ns, gateway);
			warn_gateway(load, config, &config->subsystems[i], &key, ns, told);
		}
	}
	return rdt_config_check_twice(
		load, &clusters, "name",
		&(struct rdt_config_values){config->ceph, config->ceph_count, sizeof(*config->ceph),
					    offsetof(struct rdt_ceph_config, name), 0},
		"cluster");
}

int rdt_rbd_storage(const struct rdt_ns_config *ns, char **name)
{
	const struct rdt_rbd_config *rbd = ns->rbd;
	int len = 0;

	*name = NULL;
	if (rbd)
		len = asprintf(name, "rbd %s\n%s\n%s\n%s\n%s", rbd->of ? rbd->of->name : "",
			       rbd->pool, rbd->rados_namespace ? rbd->rados_namespace : "",
			       rbd->image, rbd->snapshot ? rbd->snapshot : "");
	return len < 0 ? -ENOMEM : 0;
}
