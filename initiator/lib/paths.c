/* SPDX-License-Identifier: BSD-3-Clause */
/* Several paths to a namespace: asymmetric namespace access, selection, identity. */
#include "paths.h"

#include <errno.h>
#include <string.h>

#include "util/loop.h"

#define GROUPS_MAX    UINT16_MAX /* the largest number that the log page can hold */
#define CRD_UNIT_NS   (100 * RD_NSEC_PER_MSEC)
#define STATUS_CRD(v) ((v) >> 11 & 3u)
#define STATUS_SCT(v) ((v) >> 8 & NVME_SCT_MASK)

/* The header of struct nvme_ana_log, without the descriptors that follow it. */
struct log_header {
	__le64 chgcnt;
	__le16 ngrps;
	__u8 rsvd10[6];
};
_Static_assert(sizeof(struct log_header) == sizeof(struct nvme_ana_log), "ANA log page header");

void rdi_ana_init(struct rdi_ana *ana, const struct nvme_id_ctrl *id)
{
	*ana = (struct rdi_ana){
		.reported = rdi_ana_log_size(id) > 0,
		.state = NVME_ANA_STATE_OPTIMIZED,
		.anatt = id->anatt,
	};
}

uint32_t rdi_ana_log_size(const struct nvme_id_ctrl *id)
{
	uint32_t groups = le32toh(id->nanagrpid);

	if (!(id->cmic & NVME_CTRL_CMIC_MULTI_ANA_REPORTING) || groups == 0)
		return 0;
	if (groups > GROUPS_MAX)
		groups = GROUPS_MAX;
	return (uint32_t)(sizeof(struct log_header) + groups * sizeof(struct nvme_ana_group_desc));
}

static bool is_state(uint8_t state)
{
	switch (state) {
	case NVME_ANA_STATE_OPTIMIZED:
	case NVME_ANA_STATE_NONOPTIMIZED:
	case NVME_ANA_STATE_INACCESSIBLE:
	case NVME_ANA_STATE_PERSISTENT_LOSS:
	case NVME_ANA_STATE_CHANGE:
		return true;
	default:
		return false;
	}
}

/* A transition that was in progress before keeps its deadline. */
static void set_ana_state(struct rdi_ana *ana, uint8_t state, uint64_t now)
{
	if (state == NVME_ANA_STATE_CHANGE && ana->state != NVME_ANA_STATE_CHANGE)
		ana->deadline = now + ana->anatt * RD_NSEC_PER_SEC;
	ana->state = state;
}

int rdi_ana_update(struct rdi_ana *ana, const void *log, size_t len, uint32_t group, uint64_t now)
{
	const uint8_t *at = log, *end = at + len;
	struct nvme_ana_group_desc desc;
	struct log_header header;
	unsigned int i;
	int state = -1;

	if (len < sizeof(header))
		return -EPROTO;
	memcpy(&header, at, sizeof(header));
	at += sizeof(header);
	for (i = 0; i < le16toh(header.ngrps); i++) {
		uint64_t nsids;

		if ((size_t)(end - at) < sizeof(desc))
			return -EPROTO;
		memcpy(&desc, at, sizeof(desc));
		at += sizeof(desc);
		/* A controller may ignore RGO and list the namespaces of each group, which are
		 * skipped. */
		nsids = (uint64_t)le32toh(desc.nnsids) * sizeof(__le32);
		if (nsids > (size_t)(end - at))
			return -EPROTO;
		at += nsids;
		if (le32toh(desc.grpid) != group)
			continue;
		if (!is_state(desc.state & 0xf) || state >= 0)
			return -EPROTO;
		state = desc.state & 0xf;
	}
	if (state < 0)
		return -ENOENT;
	ana->changes = le64toh(header.chgcnt);
	set_ana_state(ana, (uint8_t)state, now);
	return 0;
}

/* The ANA state that @st tells; 0: it is no ANA status. */
static uint8_t state_of_status(struct nvme_status st)
{
	if (STATUS_SCT(st.v) != NVME_SCT_PATH)
		return 0;
	switch (st.v & 0xff) {
	case NVME_SC_ANA_PERSISTENT_LOSS:
		return NVME_ANA_STATE_PERSISTENT_LOSS;
	case NVME_SC_ANA_INACCESSIBLE:
		return NVME_ANA_STATE_INACCESSIBLE;
	case NVME_SC_ANA_TRANSITION:
		return NVME_ANA_STATE_CHANGE;
	default:
		return 0;
	}
}

void rdi_ana_answered(struct rdi_ana *ana, struct nvme_status st, uint64_t now)
{
	uint8_t state = state_of_status(st);

	/* Without a readable log page no later report would make the path usable again, so the
	 * state stays. */
	if (ana->reported && state)
		set_ana_state(ana, state, now);
}

bool rdi_ana_expired(const struct rdi_ana *ana, uint64_t now)
{
	return ana->state == NVME_ANA_STATE_CHANGE && now >= ana->deadline;
}

const char *rdi_ana_state_name(uint8_t state)
{
	static const char *const names[] = {
		[NVME_ANA_STATE_OPTIMIZED] = "optimized",
		[NVME_ANA_STATE_NONOPTIMIZED] = "non-optimized",
		[NVME_ANA_STATE_INACCESSIBLE] = "inaccessible",
		[NVME_ANA_STATE_PERSISTENT_LOSS] = "persistent-loss",
		[NVME_ANA_STATE_CHANGE] = "change",
	};

	return state < sizeof(names) / sizeof(names[0]) && names[state] ? names[state] : "reserved";
}

enum rdi_verdict rdi_status_verdict(struct nvme_status st, unsigned int retries)
{
	/* Do Not Retry applies to every path. */
	if (nvme_status_ok(st) || st.v & NVME_STATUS_DNR)
		return RDI_COMPLETE;
	if (STATUS_SCT(st.v) == NVME_SCT_PATH)
		return RDI_OTHER_PATH;
	return retries < RDI_RETRIES_MAX ? RDI_SAME_PATH : RDI_COMPLETE;
}

bool rdi_status_unexecuted(struct nvme_status st)
{
	return state_of_status(st) != 0;
}

uint64_t rdi_retry_delay_ns(struct nvme_status st, const struct nvme_id_ctrl *id)
{
	const uint16_t delays[] = {
		0,
		le16toh(id->crdt1),
		le16toh(id->crdt2),
		le16toh(id->crdt3),
	};

	return delays[STATUS_CRD(st.v)] * CRD_UNIT_NS;
}

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
