/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of rate limits. */
#include "config_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/cleanup.h"
#include "util/parse.h"

#define IOPS_MAX  UINT64_C(1000000000)
#define BYTES_MIN (UINT64_C(64) << 10)
#define BYTES_MAX (UINT64_C(1) << 40)

static void check_iops(struct rdt_config_load *load, const struct rdt_key *parent, const char *name,
		       uint64_t value)
{
	struct rdt_key key = rdt_config_child(load, parent, name);

	if (key.node && (value == 0 || value > IOPS_MAX))
		rdt_config_problem(load, &key,
				   "found %llu, expected 1 to 1000000000 commands per second; "
				   "remove the key for no limit",
				   (unsigned long long)value);
}

static void check_bytes(struct rdt_config_load *load, const struct rdt_key *parent,
			const char *name, const char *text, uint64_t *value)
{
	struct rdt_key key = rdt_config_child(load, parent, name);

	if (text && (rd_parse_size(text, value) || *value < BYTES_MIN || *value > BYTES_MAX))
		rdt_config_problem(load, &key,
				   "found \"%s\", expected bytes per second as a size such as "
				   "100MiB, 64KiB to 1TiB",
				   text);
}

/* A limit for reads or writes above the limit for both has no effect: probably a mistake. */
static void check_order(struct rdt_config_load *load, const struct rdt_key *parent,
			const char *name, uint64_t own, uint64_t all)
{
	struct rdt_key key = rdt_config_child(load, parent, name);

	if (own && all && own > all)
		rdt_config_problem(load, &key, "is above the limit for reads and writes together");
}

static void check_qos_limits(struct rdt_config_load *load, const struct rdt_key *key,
			     struct rdt_qos_config *q)
{
	uint64_t *l = q->limits;

	check_iops(load, key, "iops", q->iops);
	check_iops(load, key, "read_iops", q->read_iops);
	check_iops(load, key, "write_iops", q->write_iops);
	l[RDT_QOS_IOPS] = q->iops;
	l[RDT_QOS_READ_IOPS] = q->read_iops;
	l[RDT_QOS_WRITE_IOPS] = q->write_iops;
	check_bytes(load, key, "bandwidth", q->bandwidth, &l[RDT_QOS_BYTES]);
	check_bytes(load, key, "read_bandwidth", q->read_bandwidth, &l[RDT_QOS_READ_BYTES]);
	check_bytes(load, key, "write_bandwidth", q->write_bandwidth, &l[RDT_QOS_WRITE_BYTES]);
	check_order(load, key, "read_iops", l[RDT_QOS_READ_IOPS], l[RDT_QOS_IOPS]);
	check_order(load, key, "write_iops", l[RDT_QOS_WRITE_IOPS], l[RDT_QOS_IOPS]);
	check_order(load, key, "read_bandwidth", l[RDT_QOS_READ_BYTES], l[RDT_QOS_BYTES]);
	check_order(load, key, "write_bandwidth", l[RDT_QOS_WRITE_BYTES], l[RDT_QOS_BYTES]);
	for (int i = 0; i < RDT_QOS_LIMITS; i++)
		if (l[i])
			return;
	rdt_config_problem(load, key,
			   "limits nothing, expected at least one of iops, read_iops, write_iops, "
			   "bandwidth, read_bandwidth, write_bandwidth");
}

void rdt_config_check_ns_qos(struct rdt_config_load *load, const struct rdt_key *ns_key,
			     struct rdt_ns_config *ns)
{
	struct rdt_key key = rdt_config_child(load, ns_key, "qos");

	if (ns->qos)
		check_qos_limits(load, &key, ns->qos);
}

int rdt_config_check_host_qos(struct rdt_config_load *load, const struct rdt_key *subsystem,
			      struct rdt_subsys_config *ss)
{
	rd_autofree struct rdt_config_id *ids = calloc(ss->host_qos_count + 1, sizeof(*ids));
	rd_autofree unsigned int *first = calloc(ss->host_qos_count + 1, sizeof(*first));
	struct rdt_key list = rdt_config_child(load, subsystem, "host_qos");

	if (!ids || !first)
		return -ENOMEM;
	for (uint32_t i = 0; i < ss->host_qos_count; i++)
		ids[i] = (struct rdt_config_id){ss->host_qos[i].host, strlen(ss->host_qos[i].host),
						i};
	rdt_config_firsts(ids, ss->host_qos_count, first);
	for (uint32_t i = 0; i < ss->host_qos_count; i++) {
		struct rdt_key item = rdt_config_item(load, &list, i);
		struct rdt_key host = rdt_config_child(load, &item, "host");
		const char *nqn = ss->host_qos[i].host;

		rdt_config_check_nqn(load, &host, nqn);
		if (first[i] != i)
			rdt_config_problem(load, &host, "\"%.80s\" is listed twice", nqn);
		check_qos_limits(load, &item, &ss->host_qos[i].limits);
	}
	return 0;
}
