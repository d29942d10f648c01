/* SPDX-License-Identifier: BSD-3-Clause */
/* Policies of path selection; identity of namespaces. */
#include "path_policy.h"

#include <errno.h>
#include <string.h>

#include "nvmf/wire.h"

/* ---- selection ---- */

/* Preference of a path; 0: not usable. */
static unsigned int rank(const struct rdi_path_view *p)
{
	if (!p->live)
		return 0;
	if (p->ana == NVME_ANA_STATE_OPTIMIZED)
		return p->silent ? 2 : 4;
	if (p->ana == NVME_ANA_STATE_NONOPTIMIZED)
		return p->silent ? 1 : 3;
	return 0;
}

int rdi_path_choose(enum rdi_policy policy, const struct rdi_path_view *paths, unsigned int n,
		    int last)
{
	unsigned int best = 0, i, at;
	int chosen = -1;

	for (i = 0; i < n; i++)
		if (rank(&paths[i]) > best)
			best = rank(&paths[i]);
	if (best == 0)
		return -1;
	if (last < 0 || (unsigned int)last >= n)
		last = (int)n - 1; /* so that the search starts with path 0 */
	else if (policy == RDI_POLICY_FAILOVER && rank(&paths[last]) == best)
		return last;
	for (i = 1; i <= n; i++) {
		/* Failover searches in the order of the paths, the others from the one after the
		 * last. */
		at = policy == RDI_POLICY_FAILOVER ? i - 1 : ((unsigned int)last + i) % n;
		if (rank(&paths[at]) != best)
			continue;
		if (policy != RDI_POLICY_QUEUE_DEPTH)
			return (int)at;
		if (chosen < 0 || paths[at].inflight < paths[chosen].inflight)
			chosen = (int)at;
	}
	return chosen;
}

/* ---- identity ---- */

#define DESC_HEADER 4 /* type, length, two reserved bytes */

int rdi_identity_take(struct rdi_ns_identity *id, const void *descs, size_t len)
{
	const uint8_t *at = descs, *end = at + len;

	while (end - at >= DESC_HEADER && at[1] != 0) {
		uint8_t *to = NULL;
		size_t want = 0;

		if (at[1] > end - at - DESC_HEADER)
			return -EPROTO;
		if (at[0] == NVME_NIDT_EUI64) {
			to = id->eui64;
			want = sizeof(id->eui64);
		} else if (at[0] == NVME_NIDT_NGUID) {
			to = id->nguid;
			want = sizeof(id->nguid);
		} else if (at[0] == NVME_NIDT_UUID) {
			to = id->uuid;
			want = sizeof(id->uuid);
		}
		if (to && at[1] != want)
			return -EPROTO;
		if (to)
			memcpy(to, at + DESC_HEADER, want);
		at += DESC_HEADER + at[1];
	}
	return 0;
}

static bool is_there(const uint8_t *id, size_t len)
{
	static const uint8_t none[16];

	return memcmp(id, none, len) != 0;
}

/* Counts in @both an identifier that both have, in @any one that either has. Returns false when
 * both have it and the values differ. */
static bool compare_identifier(const uint8_t *a, const uint8_t *b, size_t len, unsigned int *any,
			       unsigned int *both)
{
	bool in_a = is_there(a, len), in_b = is_there(b, len);

	*any += in_a || in_b;
	*both += in_a && in_b;
	return !(in_a && in_b) || memcmp(a, b, len) == 0;
}

enum rdi_identity_match rdi_identity_match(const struct rdi_ns_identity *a,
					   const struct rdi_ns_identity *b)
{
	unsigned int any = 0, both = 0;

	/* The other identifiers must not differ either. */
	if (strcmp(a->subnqn, b->subnqn) != 0 ||
	    !compare_identifier(a->nguid, b->nguid, sizeof(a->nguid), &any, &both) ||
	    !compare_identifier(a->uuid, b->uuid, sizeof(a->uuid), &any, &both) ||
	    !compare_identifier(a->eui64, b->eui64, sizeof(a->eui64), &any, &both))
		return RDI_IDENTITY_DIFFERENT;
	if (both > 0)
		return RDI_IDENTITY_SAME;
	/* An identifier that only one side has: two paths of one namespace would both have it. */
	return any == 0 && a->nsid == b->nsid ? RDI_IDENTITY_ASSUMED : RDI_IDENTITY_DIFFERENT;
}
