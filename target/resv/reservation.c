/* SPDX-License-Identifier: BSD-3-Clause */
#include "reservation.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool same_host(const uint8_t *a, const uint8_t *b)
{
	return memcmp(a, b, RDT_RESV_HOST) == 0;
}

static bool all_registrants(unsigned int rtype)
{
	return rtype == NVME_RESERVATION_RTYPE_WEAR || rtype == NVME_RESERVATION_RTYPE_EAAR;
}

static bool registrants_only(unsigned int rtype)
{
	return rtype == NVME_RESERVATION_RTYPE_WERO || rtype == NVME_RESERVATION_RTYPE_EARO;
}

bool rdt_resv_type_valid(unsigned int rtype)
{
	return rtype >= NVME_RESERVATION_RTYPE_WE && rtype <= NVME_RESERVATION_RTYPE_EAAR;
}

static struct rdt_registrant *find_registrant(struct rdt_resv_state *s, const uint8_t *host)
{
	for (unsigned int i = 0; i < s->count; i++)
		if (same_host(s->reg[i].host, host))
			return &s->reg[i];
	return NULL;
}

const struct rdt_registrant *rdt_resv_find(const struct rdt_resv_state *s, const uint8_t *host)
{
	for (unsigned int i = 0; i < s->count; i++)
		if (same_host(s->reg[i].host, host))
			return &s->reg[i];
	return NULL;
}

static bool is_holder(const struct rdt_resv_state *s, const struct rdt_registrant *r)
{
	return s->rtype && (all_registrants(s->rtype) || r->holder);
}

/* ---- actions ---- */

static struct nvme_status resv_conflict(void)
{
	return nvme_status_dnr(NVME_SCT_GENERIC, NVME_SC_RESERVATION_CONFLICT);
}

static struct nvme_status resv_invalid_field(void)
{
	return nvme_status_dnr(NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD);
}

static void add_note(struct rdt_resv_effects *fx, const uint8_t *host,
		     enum nvme_resv_notify_rnlpt type)
{
	struct rdt_resv_note *n = &fx->notes[fx->notes_count++];

	assert(fx->notes_count <= RDT_RESV_REGISTRANTS);
	memcpy(n->host, host, RDT_RESV_HOST);
	n->type = (uint8_t)type;
}

/* Notify the remaining registrants, but not the issuer. */
static void notify_remaining(const struct rdt_resv_state *s, struct rdt_resv_effects *fx,
			     const uint8_t *but, enum nvme_resv_notify_rnlpt type)
{
	for (unsigned int i = 0; i < s->count; i++)
		if (!same_host(s->reg[i].host, but))
			add_note(fx, s->reg[i].host, type);
}

static void drop_reservation(struct rdt_resv_state *s)
{
	s->rtype = 0;
	for (unsigned int i = 0; i < s->count; i++)
		s->reg[i].holder = false;
}

static void make_reservation(struct rdt_resv_state *s, struct rdt_registrant *r, uint8_t rtype)
{
	drop_reservation(s);
	s->rtype = rtype;
	r->holder = !all_registrants(rtype);
}

/* A reservation ends with its only holder; with the All Registrants types, with the last
 * registrant. */
static void remove_registrant(struct rdt_resv_state *s, struct rdt_registrant *r)
{
	size_t at = (size_t)(r - s->reg);
	bool held_by_it = r->holder;

	s->count--;
	memmove(r, r + 1, (s->count - at) * sizeof(*r));
	memset(&s->reg[s->count], 0, sizeof(*r));
	if (held_by_it || !s->count)
		drop_reservation(s);
}

static struct nvme_status set_persist(struct rdt_resv_state *s, const struct rdt_resv_op *op)
{
	if (op->cptpl == NVME_RESERVATION_CPTPL_PERSIST)
		s->ptpl = true;
	else if (op->cptpl == NVME_RESERVATION_CPTPL_CLEAR)
		s->ptpl = false;
	return NVME_OK;
}

static unsigned int count_of_name(const struct rdt_resv_state *s, uint32_t name)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < s->count; i++)
		n += s->reg[i].name == name;
	return n;
}

static struct nvme_status add_registrant(struct rdt_resv_state *s, const struct rdt_resv_op *op)
{
	struct rdt_registrant *r = &s->reg[s->count];

	if (!op->other_key)
		return resv_invalid_field(); /* PRKEY 0 does not name a registrant */
	if (s->count == RDT_RESV_REGISTRANTS ||
	    (op->name && count_of_name(s, op->name) >= RDT_RESV_OF_NAME))
		return nvme_status(NVME_SCT_GENERIC, NVME_SC_INTERNAL);
	memcpy(r->host, op->host, RDT_RESV_HOST);
	r->key = op->other_key;
	r->name = op->name;
	r->holder = false;
	s->count++;
	return NVME_OK;
}

static struct nvme_status register_host(struct rdt_resv_state *s, const struct rdt_resv_op *op)
{
	const struct rdt_registrant *r = find_registrant(s, op->host);

	if (!r)
		return add_registrant(s, op);
	return r->key == op->other_key ? NVME_OK : resv_conflict();
}

static struct nvme_status do_unregister(struct rdt_resv_state *s, const struct rdt_resv_op *op,
					struct rdt_resv_effects *fx)
{
	struct rdt_registrant *r = find_registrant(s, op->host);
	unsigned int before = s->rtype;

	if (!r || (!op->iekey && r->key != op->crkey))
		return resv_conflict();
	remove_registrant(s, r);
	if (!s->rtype && registrants_only(before))
		notify_remaining(s, fx, op->host, NVME_RESV_NOTIFY_RNLPT_RESERVATION_RELEASED);
	return NVME_OK;
}

static struct nvme_status do_replace(struct rdt_resv_state *s, const struct rdt_resv_op *op)
{
	struct rdt_registrant *r = find_registrant(s, op->host);

	if (!r)
		return op->iekey ? add_registrant(s, op) : resv_conflict();
	if (!op->iekey && r->key != op->crkey)
		return resv_conflict();
	if (!op->other_key)
		return resv_invalid_field();
	r->key = op->other_key;
	return NVME_OK;
}

static struct nvme_status do_acquire(struct rdt_resv_state *s, const struct rdt_resv_op *op,
				     struct rdt_registrant *me)
{
	if (!s->rtype) {
		make_reservation(s, me, op->rtype);
		return NVME_OK;
	}
	return is_holder(s, me) && s->rtype == op->rtype ? NVME_OK : resv_conflict();
}

/* Unregister the hosts with key @key (@any: all) and record the notifications. The issuer is not
 * notified, and remains registered if @spare_me. Returns the number of hosts unregistered. */
static unsigned int unregister_by_key(struct rdt_resv_state *s, const struct rdt_resv_op *op,
				      struct rdt_resv_effects *fx, bool any, bool spare_me)
{
	unsigned int gone = 0;

	for (unsigned int i = 0; i < s->count;) {
		struct rdt_registrant *r = &s->reg[i];
		bool me = same_host(r->host, op->host);

		if ((!any && r->key != op->other_key) || (me && spare_me)) {
			i++;
			continue;
		}
		if (!me)
			add_note(fx, r->host, NVME_RESV_NOTIFY_RNLPT_REGISTRATION_PREEMPTED);
		if (op->action == RDT_RESV_PREEMPT_ABORT)
			memcpy(fx->victims[fx->victims_count++], r->host, RDT_RESV_HOST);
		remove_registrant(s, r);
		gone++;
	}
	return gone;
}

/* Returns whether PRKEY identifies the reservation itself, and not only registrants. */
static bool names_reservation(const struct rdt_resv_state *s, uint64_t prkey)
{
	if (!s->rtype)
		return false;
	if (all_registrants(s->rtype))
		return prkey == 0;
	for (unsigned int i = 0; i < s->count; i++)
		if (s->reg[i].holder)
			return s->reg[i].key == prkey;
	return false;
}

static struct nvme_status do_preempt(struct rdt_resv_state *s, const struct rdt_resv_op *op,
				     struct rdt_resv_effects *fx)
{
	unsigned int before = s->rtype;

	if (!names_reservation(s, op->other_key)) {
		if (before && !op->other_key)
			return resv_invalid_field();
		return unregister_by_key(s, op, fx, false, false) ? NVME_OK : resv_conflict();
	}
	/* With All Registrants types, PRKEY 0 means all registrants. */
	drop_reservation(s);
	unregister_by_key(s, op, fx, all_registrants(before), true);
	make_reservation(s, find_registrant(s, op->host), op->rtype);
	if (before != op->rtype)
		notify_remaining(s, fx, op->host, NVME_RESV_NOTIFY_RNLPT_RESERVATION_RELEASED);
	return NVME_OK;
}

static struct nvme_status do_release(struct rdt_resv_state *s, const struct rdt_resv_op *op,
				     struct rdt_resv_effects *fx, const struct rdt_registrant *me)
{
	unsigned int before = s->rtype;

	if (!is_holder(s, me))
		return NVME_OK; /* this host holds no reservation: no effect */
	if (op->rtype != before)
		return resv_invalid_field();
	drop_reservation(s);
	if (before != NVME_RESERVATION_RTYPE_WE && before != NVME_RESERVATION_RTYPE_EA)
		notify_remaining(s, fx, op->host, NVME_RESV_NOTIFY_RNLPT_RESERVATION_RELEASED);
	return NVME_OK;
}

static void do_clear(struct rdt_resv_state *s, const struct rdt_resv_op *op,
		     struct rdt_resv_effects *fx)
{
	notify_remaining(s, fx, op->host, NVME_RESV_NOTIFY_RNLPT_RESERVATION_PREEMPTED);
	s->count = 0;
	memset(s->reg, 0, sizeof(s->reg));
	drop_reservation(s);
}

static struct nvme_status registered_action(struct rdt_resv_state *s, const struct rdt_resv_op *op,
					    struct rdt_resv_effects *fx)
{
	struct rdt_registrant *me = find_registrant(s, op->host);

	if (!me || me->key != op->crkey)
		return resv_conflict();
	switch ((enum rdt_resv_action)op->action) {
	case RDT_RESV_ACQUIRE:
		return do_acquire(s, op, me);
	case RDT_RESV_PREEMPT:
	case RDT_RESV_PREEMPT_ABORT:
		return do_preempt(s, op, fx);
	case RDT_RESV_RELEASE:
		return do_release(s, op, fx, me);
	default:
		do_clear(s, op, fx);
		return NVME_OK;
	}
}

struct nvme_status rdt_resv_apply(struct rdt_resv_state *s, const struct rdt_resv_op *op,
				  struct rdt_resv_effects *fx)
{
	struct nvme_status st;

	fx->notes_count = 0;
	fx->victims_count = 0;
	switch ((enum rdt_resv_action)op->action) {
	case RDT_RESV_REGISTER:
		st = register_host(s, op);
		break;
	case RDT_RESV_UNREGISTER:
		st = do_unregister(s, op, fx);
		break;
	case RDT_RESV_REPLACE:
		st = do_replace(s, op);
		break;
	case RDT_RESV_PERSIST:
		return set_persist(s, op);
	default:
		st = registered_action(s, op, fx);
		break;
	}
	if (!nvme_status_ok(st))
		return st;
	if (op->action <= RDT_RESV_REPLACE)
		set_persist(s, op);
	if (op->action != RDT_RESV_ACQUIRE && op->action != RDT_RESV_RELEASE)
		s->gen++;
	return NVME_OK;
}

/* ---- conflicts ---- */

enum rdt_resv_group rdt_resv_group(uint8_t io_opcode)
{
	switch (io_opcode) {
	case nvme_cmd_read:
	case nvme_cmd_compare:
	case nvme_cmd_verify:
		return RDT_RESV_READS;
	case nvme_cmd_resv_register:
	case nvme_cmd_resv_report:
	case nvme_cmd_resv_acquire:
	case nvme_cmd_resv_release:
		return RDT_RESV_FREE;
	default: /* Copy also reads, but a host that may write may also read */
		return RDT_RESV_WRITES;
	}
}

bool rdt_resv_allows(unsigned int rtype, enum rdt_resv_role role, enum rdt_resv_group group)
{
	if (!rtype || group == RDT_RESV_FREE || role == RDT_RESV_HOLDER)
		return true;
	switch (rtype) {
	case NVME_RESERVATION_RTYPE_WE:
		return group == RDT_RESV_READS;
	case NVME_RESERVATION_RTYPE_EA:
		return false;
	case NVME_RESERVATION_RTYPE_WERO:
	case NVME_RESERVATION_RTYPE_WEAR:
		return group == RDT_RESV_READS || role == RDT_RESV_REGISTRANT;
	default:
		return role == RDT_RESV_REGISTRANT;
	}
}

static int by_host(const void *a, const void *b)
{
	return memcmp(a, b, RDT_RESV_HOST);
}

int rdt_resv_snap(const struct rdt_resv_state *s, struct rdt_resv_snap **out)
{
	struct rdt_resv_snap *snap;

	*out = NULL;
	if (!s->rtype)
		return 0;
	snap = calloc(1, sizeof(*snap) + s->count * sizeof(snap->registrants[0]));
	if (!snap)
		return -ENOMEM;
	snap->rtype = s->rtype;
	snap->count = s->count;
	for (unsigned int i = 0; i < s->count; i++) {
		memcpy(snap->registrants[i].host, s->reg[i].host, RDT_RESV_HOST);
		snap->registrants[i].role =
			is_holder(s, &s->reg[i]) ? RDT_RESV_HOLDER : RDT_RESV_REGISTRANT;
	}
	qsort(snap->registrants, snap->count, sizeof(snap->registrants[0]), by_host);
	*out = snap;
	return 0;
}

enum rdt_resv_role rdt_resv_snap_role(const struct rdt_resv_snap *snap, const uint8_t *host)
{
	const struct rdt_resv_registrant *registrant = bsearch(
		host, snap->registrants, snap->count, sizeof(snap->registrants[0]), by_host);

	return registrant ? (enum rdt_resv_role)registrant->role : RDT_RESV_NOT_REGISTRANT;
}

/* ---- Reservation Report ---- */

void rdt_resv_report(const struct rdt_resv_state *s, void *buf, size_t len)
{
	struct nvme_resv_status head = {
		.gen = htole32(s->gen),
		.rtype = s->rtype,
		.regctl = {(uint8_t)s->count, (uint8_t)(s->count >> 8)},
		.ptpls = s->ptpl,
	};
	size_t at = sizeof(head);

	memset(buf, 0, len);
	memcpy(buf, &head, len < sizeof(head) ? len : sizeof(head));
	for (unsigned int i = 0; i < s->count && at < len; i++) {
		struct nvme_registered_ctrl_ext entry = {
			.cntlid = htole16(NVMF_CNTLID_DYNAMIC), /* all controllers are dynamic */
			.rcsts = is_holder(s, &s->reg[i]),
			.rkey = htole64(s->reg[i].key),
		};

		memcpy(entry.hostid, s->reg[i].host, RDT_RESV_HOST);
		memcpy((char *)buf + at, &entry,
		       len - at < sizeof(entry) ? len - at : sizeof(entry));
		at += sizeof(entry);
	}
}
