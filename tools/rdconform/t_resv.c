/* SPDX-License-Identifier: BSD-3-Clause */
/* reservation.register, .acquire, .release, .report, .preempt. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <uuid/uuid.h>

#include "resv.h"
#include "suites.h"

#define R_REG    "Base 7.3"
#define R_ACQ    "Base 7.2"
#define R_REL    "Base 7.4"
#define R_REP    "Base 7.5"
#define CONFLICT NVME_SC_RESERVATION_CONFLICT

/* ---- register ---- */

static void reg_new(struct rdc *t)
{
	const struct nvme_registered_ctrl_ext *c;
	const struct nvme_resv_status *s;

	RDC_OK(t, resv_register(t->a, RREGA_REGISTER, 0, KEY1), "Reservation Register");
	s = resv_status(t->b);
	c = resv_find(s, KEY1);
	RDC_CHECK(t, resv_count(s) == 1 && c, "%u registrants, the one of this host is %s",
		  resv_count(s), c ? "reported" : "missing");
	RDC_CHECK(t, !(c->rcsts & 1), "a registrant holds a reservation that no host acquired");
}

static void reg_twice(struct rdc *t)
{
	struct rdc_reply r;

	RDC_OK(t, resv_register(t->a, RREGA_REGISTER, 0, KEY1), "Reservation Register");
	r = resv_register(t->a, RREGA_REGISTER, 0, t->arg ? KEY2 : KEY1);
	if (t->arg)
		RDC_STATUS(t, r, "Register again with another key", CONFLICT);
	else
		RDC_OK(t, r, "Register again with the same key");
	RDC_CHECK(t, resv_find(resv_status(t->a), KEY1),
		  "the first key is no longer in the report");
}

static void reg_replace(struct rdc *t)
{
	resv_both(t);
	RDC_OK(t, resv_register(t->a, RREGA_REPLACE, KEY1, KEY1 + 1), "Replace");
	RDC_CHECK(t, resv_find(resv_status(t->a), KEY1 + 1), "the new key is not in the report");
	RDC_STATUS(t, resv_register(t->a, RREGA_REPLACE, KEY1, KEY1 + 2),
		   "Replace with a wrong current key", CONFLICT);
	RDC_OK(t, resv_register(t->a, RREGA_REPLACE | IEKEY, 0, KEY1 + 3), "Replace with IEKEY");
	RDC_CHECK(t, resv_count(resv_status(t->a)) == 2, "the number of registrants has changed");
}

static void reg_replace_stranger(struct rdc *t)
{
	RDC_STATUS(t, resv_register(t->a, RREGA_REPLACE, KEY1, KEY2),
		   "Replace by a host that is not registered", CONFLICT);
}

static void reg_unregister(struct rdc *t)
{
	resv_both(t);
	RDC_STATUS(t, resv_register(t->b, RREGA_UNREGISTER, KEY1, 0), "Unregister with a wrong key",
		   CONFLICT);
	RDC_OK(t, resv_register(t->b, RREGA_UNREGISTER, KEY2, 0), "Unregister");
	RDC_CHECK(t, resv_count(resv_status(t->a)) == 1, "the registrant is still in the report");
	RDC_STATUS(t, resv_register(t->b, RREGA_UNREGISTER, KEY2, 0),
		   "Unregister by a host that is not registered", CONFLICT);
}

static void reg_unregister_holder(struct rdc *t)
{
	const struct nvme_resv_status *s;

	resv_held(t, 1);
	RDC_OK(t, resv_register(t->a, RREGA_UNREGISTER, KEY1, 0), "Unregister by the holder");
	s = resv_status(t->b);
	RDC_CHECK(t, s->rtype == 0, "the reservation of type %u outlived its holder's registration",
		  s->rtype);
}

static void reg_reserved(struct rdc *t)
{
	RDC_STATUS(t, resv_register(t->a, t->arg, 0, KEY1),
		   "Reservation Register with a reserved value", NVME_SC_INVALID_FIELD);
}

static void reg_generation(struct rdc *t)
{
	uint32_t before, after;

	before = le32toh(resv_status(t->a)->gen);
	resv_both(t);
	after = le32toh(resv_status(t->a)->gen);
	RDC_CHECK(t, after == before + 2, "two registrations took GEN from %u to %u", before,
		  after);
}

static void reg_ptpl(struct rdc *t)
{
	struct rdc_reply r, get;
	unsigned int on = t->arg;

	r = resv_register(t->a, RREGA_REGISTER | (on ? 3u : 2u) << 30, 0, KEY1);
	if (!(t->a->ns.rescap & 1)) {
		if (on)
			RDC_REFUSED(t, r, "CPTPL 11b, which RESCAP bit 0 says is not supported");
		resv_clear(t);
		rdc_not_supported(t, "RESCAP 0x%02x: persistence is not supported",
				  t->a->ns.rescap);
	}
	RDC_OK(t, r, "Register with a change of persistence");
	get = rdc_get_feature(t->a, NVME_FEAT_FID_RESV_PERSIST, 0, t->a->nsid, 0, NULL, 0);
	RDC_OK(t, get, "Get Features, Reservation Persistence");
	RDC_CHECK(t, (get.result & 1) == on, "the feature Reservation Persistence reads as %u",
		  (unsigned int)get.result & 1);
	RDC_CHECK(t, resv_status(t->a)->ptpls == on,
		  "PTPLS of the report differs from the feature");
	resv_register(t->a, RREGA_REPLACE | IEKEY | 2u << 30, 0, KEY1);
}

static void reg_survives(struct rdc *t)
{
	const struct nvme_registered_ctrl_ext *c;
	struct rdc_host *own;

	resv_need_type(t, 1);
	rdc_host_close(t->b, false);
	own = rdc_host_open(t, 1, NULL);
	t->b = own;
	resv_both(t);
	resv_must_acquire(own, 1, KEY2);
	rdc_host_close(own, t->arg);
	c = resv_find(resv_status(t->a), KEY2);
	RDC_CHECK(t, c && (c->rcsts & 1), "after its disconnect, the holder is %s",
		  c ? "not the holder any more" : "not registered any more");
	RDC_STATUS(t, rdc_write(t->a, 0, 1, rdc_buf(t, t->a->bs)), "Write while the holder is away",
		   CONFLICT);
	t->b = rdc_second(t);
	RDC_OK(t, rdc_write(t->b, 0, 1, rdc_buf(t, t->b->bs)),
	       "Write by the holder after it has reconnected");
}

const struct rdc_test rdc_t_register[] = {
	{"new", R_REG, "a registrant is in the reports of all hosts", reg_new},
	{"same_key", R_REG, "registering the same key again succeeds", reg_twice, 0, 0},
	{"other_key", R_REG, "registering another key is a conflict", reg_twice, 0, 1},
	{"replace", R_REG, "Replace with the right key, or with IEKEY, replaces a key",
	 reg_replace},
	{"replace_stranger", R_REG, "Replace by a host that is not registered is a conflict",
	 reg_replace_stranger},
	{"unregister", R_REG, "Unregister with the right key ends a registration", reg_unregister},
	{"unregister_holder", "Base 8.19.4", "the holder's reservation ends with its registration",
	 reg_unregister_holder},
	{"reserved", R_REG, "a reserved action is Invalid Field", reg_reserved, 0, 7},
	{"cptpl", R_REG, "CPTPL 01b is Invalid Field", reg_reserved, 0, 1u << 30},
	{"generation", R_REP, "GEN counts registrations", reg_generation},
	{"ptpl_on", "Base 5.27.1.27", "CPTPL 11b persists through power loss, if RESCAP says so",
	 reg_ptpl, 0, 1},
	{"ptpl_off", "Base 5.27.1.27", "CPTPL 10b turns persistence through power loss off",
	 reg_ptpl, 0, 0},
	{"survives", "Base 8.19", "a holder that disconnects still holds", reg_survives, 0, 0},
	{"survives_loss", "Base 8.19", "a holder whose connection is lost still holds",
	 reg_survives, 0, 1},
	{NULL},
};

/* ---- acquire ---- */

static void acq_type(struct rdc *t)
{
	const struct nvme_registered_ctrl_ext *c;
	const struct nvme_resv_status *s;

	resv_held(t, t->arg);
	s = resv_status(t->b);
	c = resv_find(s, KEY1);
	RDC_CHECK(t, s->rtype == t->arg, "type %u was acquired, the report says %u", t->arg,
		  s->rtype);
	RDC_CHECK(t, c && (c->rcsts & 1), "the report does not show the holder");
}

static void acq_bad_type(struct rdc *t)
{
	resv_both(t);
	RDC_STATUS(t, resv_acquire(t->a, RACQA_ACQUIRE, t->arg, KEY1, 0),
		   "a type that does not exist", NVME_SC_INVALID_FIELD);
}

static void acq_stranger(struct rdc *t)
{
	resv_need_type(t, 1);
	RDC_STATUS(t, resv_acquire(t->a, RACQA_ACQUIRE, 1, KEY1, 0),
		   "Acquire by a host that is not registered", CONFLICT);
}

static void acq_key(struct rdc *t)
{
	resv_need_type(t, 1);
	resv_both(t);
	RDC_STATUS(t, resv_acquire(t->a, RACQA_ACQUIRE, 1, KEY2, 0), "Acquire with another's key",
		   CONFLICT);
}

static void acq_again(struct rdc *t)
{
	resv_need_type(t, 1);
	resv_need_type(t, 2);
	resv_both(t);
	resv_must_acquire(t->a, 1, KEY1);
	RDC_OK(t, resv_acquire(t->a, RACQA_ACQUIRE, 1, KEY1, 0),
	       "Acquire of a reservation that the host holds already");
	RDC_STATUS(t, resv_acquire(t->a, RACQA_ACQUIRE, 2, KEY1, 0),
		   "Acquire of another type by the holder", CONFLICT);
	RDC_STATUS(t, resv_acquire(t->b, RACQA_ACQUIRE, 1, KEY2, 0),
		   "Acquire of a reservation that another host holds", CONFLICT);
}

static void acq_all_registrants(struct rdc *t)
{
	const struct nvme_registered_ctrl_ext *a, *b;
	const struct nvme_resv_status *s;

	resv_held(t, t->arg);
	s = resv_status(t->a);
	a = resv_find(s, KEY1);
	b = resv_find(s, KEY2);
	RDC_CHECK(t, a && b && (a->rcsts & 1) && (b->rcsts & 1),
		  "not every registrant holds the reservation");
	RDC_OK(t, resv_acquire(t->b, RACQA_ACQUIRE, t->arg, KEY2, 0),
	       "Acquire by another registrant that holds the reservation too");
	RDC_OK(t, resv_register(t->a, RREGA_UNREGISTER, KEY1, 0), "Unregister");
	RDC_CHECK(t, resv_status(t->b)->rtype == t->arg,
		  "the reservation ended before its last registrant");
}

static void acq_reserved(struct rdc *t)
{
	resv_need_type(t, 1);
	if (t->arg & IEKEY && !(t->a->ns.rescap & NVME_NS_RESCAP_IEK_13))
		rdc_not_supported(t, "RESCAP 0x%02x: IEKEY is as before NVMe 1.3", t->a->ns.rescap);
	resv_both(t);
	RDC_STATUS(t, resv_acquire(t->a, t->arg, 1, KEY1, 0),
		   "Reservation Acquire with a reserved value", NVME_SC_INVALID_FIELD);
}

const struct rdc_test rdc_t_acquire[] = {
	{"write_exclusive", R_ACQ, "Write Exclusive is acquired", acq_type, 0, 1},
	{"exclusive_access", R_ACQ, "Exclusive Access is acquired", acq_type, 0, 2},
	{"write_exclusive_ro", R_ACQ, "Write Exclusive - Registrants Only is acquired", acq_type, 0,
	 3},
	{"exclusive_access_ro", R_ACQ, "Exclusive Access - Registrants Only is acquired", acq_type,
	 0, 4},
	{"write_exclusive_ar", R_ACQ, "Write Exclusive - All Registrants is acquired", acq_type, 0,
	 5},
	{"exclusive_access_ar", R_ACQ, "Exclusive Access - All Registrants is acquired", acq_type,
	 0, 6},
	{"type_0", R_ACQ, "type 0 is Invalid Field", acq_bad_type, 0, 0},
	{"type_7", R_ACQ, "type 7 is Invalid Field", acq_bad_type, 0, 7},
	{"stranger", R_ACQ, "a host that is not registered gets a conflict", acq_stranger},
	{"wrong_key", R_ACQ, "a wrong key is a conflict", acq_key},
	{"again", R_ACQ, "acquiring the same type again succeeds, another type is a conflict",
	 acq_again},
	{"all_we", "Base 8.19.1", "all registrants hold type 5, until the last one unregisters",
	 acq_all_registrants, 0, 5},
	{"all_ea", "Base 8.19.1", "all registrants hold type 6, until the last one unregisters",
	 acq_all_registrants, 0, 6},
	{"reserved", R_ACQ, "a reserved action is Invalid Field", acq_reserved, 0, 7},
	{"iekey", R_ACQ, "IEKEY is Invalid Field", acq_reserved, 0, RACQA_ACQUIRE | IEKEY},
	{NULL},
};

/* ---- release ---- */

static void rel_holder(struct rdc *t)
{
	resv_held(t, 1);
	RDC_OK(t, resv_release(t->a, RRELA_RELEASE, 1, KEY1), "Release");
	RDC_CHECK(t, resv_status(t->b)->rtype == 0, "the namespace is still reserved");
	RDC_CHECK(t, resv_count(resv_status(t->b)) == 2,
		  "a registration ended with the reservation");
}

static void rel_other(struct rdc *t)
{
	resv_held(t, 1);
	RDC_OK(t, resv_release(t->b, RRELA_RELEASE, 1, KEY2),
	       "Release by a registrant that is not the holder");
	RDC_CHECK(t, resv_status(t->b)->rtype == 1, "the Release changed the reservation");
}

static void rel_type(struct rdc *t)
{
	resv_held(t, 1);
	RDC_STATUS(t, resv_release(t->a, RRELA_RELEASE, 2, KEY1),
		   "Release of another type than is held", NVME_SC_INVALID_FIELD);
	RDC_CHECK(t, resv_status(t->b)->rtype == 1, "the Release changed the reservation");
}

static void rel_iekey(struct rdc *t)
{
	if (!(t->a->ns.rescap & NVME_NS_RESCAP_IEK_13))
		rdc_not_supported(t, "RESCAP 0x%02x: IEKEY is as before NVMe 1.3", t->a->ns.rescap);
	resv_held(t, 1);
	RDC_STATUS(t, resv_release(t->a, RRELA_RELEASE | IEKEY, 1, KEY1), "Release with IEKEY",
		   NVME_SC_INVALID_FIELD);
}

static void rel_key(struct rdc *t)
{
	resv_held(t, 1);
	RDC_STATUS(t, resv_release(t->a, RRELA_RELEASE, 1, KEY2), "Release with a wrong key",
		   CONFLICT);
}

static void rel_stranger(struct rdc *t)
{
	RDC_STATUS(t, resv_release(t->a, t->arg, 1, KEY1), "a host that is not registered",
		   CONFLICT);
}

static void rel_none(struct rdc *t)
{
	resv_both(t);
	RDC_OK(t, resv_release(t->a, RRELA_RELEASE, 1, KEY1), "Release without a reservation");
}

static void rel_clear(struct rdc *t)
{
	const struct nvme_resv_status *s;

	resv_held(t, 1);
	RDC_OK(t, resv_release(t->b, RRELA_CLEAR, 0, KEY2),
	       "Clear by a registrant that is not the holder");
	s = resv_status(t->a);
	RDC_CHECK(t, s->rtype == 0 && resv_count(s) == 0,
		  "after Clear there are %u registrants and a reservation of type %u",
		  resv_count(s), s->rtype);
}

const struct rdc_test rdc_t_release[] = {
	{"holder", R_REL, "Release by the holder ends the reservation; all hosts stay registered",
	 rel_holder},
	{"other", R_REL,
	 "Release by a registrant that is not the holder succeeds and changes nothing", rel_other},
	{"type", R_REL, "Release with another type than the one held is Invalid Field", rel_type},
	{"iekey", R_REL, "IEKEY is Invalid Field", rel_iekey},
	{"wrong_key", R_REL, "a wrong key is a conflict", rel_key},
	{"stranger", R_REL, "Release by a host that is not registered is a conflict", rel_stranger,
	 0, RRELA_RELEASE},
	{"clear_stranger", R_REL, "Clear by a host that is not registered is a conflict",
	 rel_stranger, 0, RRELA_CLEAR},
	{"none", R_REL, "Release without a reservation succeeds", rel_none},
	{"clear", R_REL, "Clear by any registrant ends the reservation and all registrations",
	 rel_clear},
	{NULL},
};

/* ---- report ---- */

static void rep_empty(struct rdc *t)
{
	RDC_CHECK(t, resv_count(resv_status(t->b)) == 0,
		  "the second host sees registrants after Clear");
}

static void rep_short_id(struct rdc *t)
{
	RDC_STATUS(t, resv_report(t->a, rdc_buf(t, 4096), 4096, false),
		   "a report with 64-bit host identifiers", NVME_SC_HOSTID_FORMAT);
}

static void rep_partial(struct rdc *t)
{
	struct nvme_resv_status *part = rdc_buf(t, 64);

	resv_both(t);
	RDC_OK(t, resv_report(t->a, part, 64, true), "a report of 64 bytes");
	RDC_CHECK(t, resv_count(part) == 2, "the header of the report counts %u registrants",
		  resv_count(part));
}

static void rep_hostid(struct rdc *t)
{
	const struct nvme_registered_ctrl_ext *c;
	uuid_t want;

	resv_both(t);
	c = resv_find(resv_status(t->a), KEY2);
	RDC_CHECK(t, c && uuid_parse(t->cfg->hostid[1], want) == 0,
		  "the second host is not in the report");
	RDC_CHECK(t, memcmp(c->hostid, want, 16) == 0,
		  "the report has another host identifier for the second host");
	/* In the dynamic controller model the identifier has no meaning and may be FFFFh. */
	RDC_CHECK(t,
		  le16toh(c->cntlid) == t->b->info.cntlid ||
			  le16toh(c->cntlid) == NVMF_CNTLID_DYNAMIC,
		  "the report has controller %u for the second host, not %u", le16toh(c->cntlid),
		  t->b->info.cntlid);
}

/* More than any target is known to have room for: SPDK has it for 256. */
#define CROWD 300u

/* Registers one host after the other, until the target refuses one. Returns how many it took. */
static unsigned int register_crowd(struct rdc *t)
{
	char hostid[UUID_STR_LEN];
	struct rdc_host_opts opts = {.hostid = hostid};
	struct rdc_host *h;
	struct rdc_reply r;
	unsigned int n;

	for (n = 0; n < CROWD; n++) {
		snprintf(hostid, sizeof(hostid), "%08x-c0de-4000-8000-000000000000", n + 1);
		h = rdc_host_open(t, 1, &opts);
		r = resv_register(h, RREGA_REGISTER, 0, KEY2 + n);
		RDC_CHECK(t, r.err == 0 || r.err == -EIO, "registrant %u has no answer: %s", n + 2,
			  r.text);
		rdc_host_close(h, false);
		if (r.err)
			break;
	}
	return n;
}

static void rep_crowd(struct rdc *t)
{
	struct nvme_resv_status *s = rdc_buf(t, 64 + 64 * (CROWD + 1));
	unsigned int n, i, j;

	RDC_OK(t, resv_register(t->a, RREGA_REGISTER, 0, KEY1), "Reservation Register");
	n = register_crowd(t);
	RDC_OK(t, resv_report(t->a, s, 64 + 64 * (n + 1), true), "a report of all registrants");
	RDC_CHECK(t, resv_count(s) == n + 1, "%u hosts registered, and the report counts %u", n + 1,
		  resv_count(s));
	for (i = 0; i < n; i++) {
		for (j = 0; j <= n && le64toh(s->regctl_eds[j].rkey) != KEY2 + i; j++)
			;
		RDC_CHECK(t, j <= n, "the registrant with key %#" PRIx64 " is not in the report",
			  (uint64_t)(KEY2 + i));
	}
	resv_clear(t);
	RDC_CHECK(t, resv_count(resv_status(t->b)) == 0, "Clear left registrants");
}

const struct rdc_test rdc_t_report[] = {
	{"empty", R_REP, "after Clear no host is registered", rep_empty},
	{"short_id", R_REP, "a report without EDS is Host Identifier Inconsistent Format",
	 rep_short_id},
	{"partial", R_REP, "the header can be read alone", rep_partial},
	{"crowd", R_REP, "as many hosts register as the target takes, and the report has them all",
	 rep_crowd},
	{"hostid", R_REP, "registrants are shown by host identifier and controller", rep_hostid},
	{NULL},
};

/* ---- preempt ---- */

static void pre_holder(struct rdc *t)
{
	const struct nvme_registered_ctrl_ext *c;
	const struct nvme_resv_status *s;

	resv_need_type(t, 1);
	resv_need_type(t, 3);
	resv_both(t);
	resv_must_acquire(t->a, 1, KEY1);
	RDC_OK(t, resv_acquire(t->b, t->arg, 3, KEY2, KEY1), "Preempt of the holder");
	s = resv_status(t->b);
	c = resv_find(s, KEY2);
	RDC_CHECK(t, s->rtype == 3 && c && (c->rcsts & 1),
		  "the preempting host does not hold type 3");
	RDC_CHECK(t, !resv_find(s, KEY1), "the preempted host is still registered");
	RDC_STATUS(t, rdc_write(t->a, 0, 1, rdc_buf(t, t->a->bs)), "Write by the preempted host",
		   CONFLICT);
}

static void pre_registrant(struct rdc *t)
{
	const struct nvme_resv_status *s;

	resv_held(t, 1);
	RDC_OK(t, resv_acquire(t->a, RACQA_PREEMPT, 1, KEY1, KEY2),
	       "Preempt of a registrant that is not the holder");
	s = resv_status(t->a);
	RDC_CHECK(t, s->rtype == 1 && resv_find(s, KEY1),
		  "the holder has lost its reservation or its registration");
	RDC_CHECK(t, !resv_find(s, KEY2), "the preempted host is still registered");
}

static void pre_no_reservation(struct rdc *t)
{
	const struct nvme_resv_status *s;

	resv_need_type(t, 1);
	resv_both(t);
	RDC_OK(t, resv_acquire(t->a, RACQA_PREEMPT, 1, KEY1, KEY2),
	       "Preempt of a registrant without a reservation");
	s = resv_status(t->a);
	RDC_CHECK(t, s->rtype == 0, "Preempt without a reservation made a reservation of type %u",
		  s->rtype);
	RDC_CHECK(t, !resv_find(s, KEY2), "the preempted host is still registered");
}

static void pre_unknown_key(struct rdc *t)
{
	resv_held(t, 1);
	RDC_STATUS(t, resv_acquire(t->b, RACQA_PREEMPT, 1, KEY2, KEY2 + 99),
		   "Preempt of a key that no registrant has", CONFLICT);
}

static void pre_zero(struct rdc *t)
{
	const struct nvme_resv_status *s;
	struct rdc_reply r;

	resv_held(t, t->arg);
	r = resv_acquire(t->b, RACQA_PREEMPT, t->arg, KEY2, 0);
	if (t->arg < 5) {
		RDC_STATUS(t, r, "Preempt of key 0", NVME_SC_INVALID_FIELD);
	} else {
		RDC_OK(t, r, "Preempt of key 0 where all registrants hold");
		s = resv_status(t->b);
		RDC_CHECK(t, resv_count(s) == 1 && resv_find(s, KEY2),
			  "hosts other than the preempting host are still registered");
		RDC_CHECK(t, s->rtype == t->arg, "the namespace is reserved with type %u",
			  s->rtype);
	}
}

static void pre_stranger(struct rdc *t)
{
	resv_need_type(t, 1);
	RDC_OK(t, resv_register(t->a, RREGA_REGISTER, 0, KEY1), "Reservation Register");
	resv_must_acquire(t->a, 1, KEY1);
	RDC_STATUS(t, resv_acquire(t->b, RACQA_PREEMPT, 1, KEY2, KEY1),
		   "Preempt by a host that is not registered", CONFLICT);
}

const struct rdc_test rdc_t_preempt[] = {
	{"holder", "Base 8.19.7",
	 "Preempt of the holder takes the reservation and unregisters the holder", pre_holder, 0,
	 RACQA_PREEMPT},
	{"abort", "Base 8.19.7", "Preempt and Abort of the holder does the same", pre_holder, 0,
	 RACQA_PREEMPT_ABORT},
	{"registrant", "Base 8.19.7",
	 "Preempt of a registrant that is not the holder only unregisters it", pre_registrant},
	{"no_reservation", "Base 8.19.7", "Preempt without a reservation only unregisters",
	 pre_no_reservation},
	{"unknown_key", "Base 8.19.7", "a key that no registrant has is a conflict",
	 pre_unknown_key},
	{"zero", "Base 8.19.7", "key 0 is Invalid Field", pre_zero, 0, 1},
	{"zero_all", "Base 8.19.7",
	 "Preempt of key 0 with an all-registrants type unregisters all other hosts", pre_zero, 0,
	 6},
	{"stranger", "Base 8.19.7", "a host that is not registered gets a conflict", pre_stranger},
	{NULL},
};
