/* SPDX-License-Identifier: BSD-3-Clause */
/* Comparisons of parts of two configurations. Also compiled into modules. */
#include "config.h"

#include <string.h>

bool rdt_config_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool rdt_config_listed(const char *const *list, uint32_t count, const char *text)
{
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(list[i], text) == 0)
			return true;
	return false;
}

bool rdt_config_same_list(const char *const *a, uint32_t a_count, const char *const *b,
			  uint32_t b_count)
{
	uint32_t same = 0;

	/* Skip the common prefix: usually nothing has changed. */
	while (same < a_count && same < b_count && strcmp(a[same], b[same]) == 0)
		same++;
	if (same == a_count && same == b_count)
		return true;
	for (uint32_t i = 0; i < a_count; i++)
		if (!rdt_config_listed(b, b_count, a[i]))
			return false;
	for (uint32_t i = 0; i < b_count; i++)
		if (!rdt_config_listed(a, a_count, b[i]))
			return false;
	return true;
}

bool rdt_config_all_see(const struct rdt_ns_config *ns)
{
	return !ns->hosts_count && !ns->no_hosts;
}

bool rdt_config_same_ns_hosts(const struct rdt_ns_config *a, const struct rdt_ns_config *b)
{
	return rdt_config_all_see(a) == rdt_config_all_see(b) &&
	       rdt_config_same_list(a->hosts, a->hosts_count, b->hosts, b->hosts_count);
}

bool rdt_config_same_limits(const struct rdt_qos_config *a, const struct rdt_qos_config *b)
{
	static const struct rdt_qos_config none;

	return memcmp(a ? a->limits : none.limits, b ? b->limits : none.limits,
		      sizeof(none.limits)) == 0;
}

bool rdt_config_same_ceph(const struct rdt_ceph_config *a, const struct rdt_ceph_config *b)
{
	if (!a || !b)
		return a == b;
	return rdt_config_same_text(a->conf, b->conf) && rdt_config_same_text(a->user, b->user) &&
	       rdt_config_same_text(a->keyring, b->keyring) && a->takeover == b->takeover &&
	       rdt_config_same_list(a->options, a->options_count, b->options, b->options_count);
}
