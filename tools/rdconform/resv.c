/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers for tests of reservations. */
#include <string.h>

#include "resv.h"

struct rdc_reply resv_register(struct rdc_host *h, uint32_t action, uint64_t crkey, uint64_t nrkey)
{
	__le64 *keys = rdc_buf(h->t, 16);

	keys[0] = htole64(crkey);
	keys[1] = htole64(nrkey);
	return rdc_io(h, .opcode = nvme_cmd_resv_register, .nsid = h->nsid, .cdw10 = action,
		      .data = keys, .len = 16, .write = true);
}

struct rdc_reply resv_acquire(struct rdc_host *h, uint32_t action, unsigned int type,
			      uint64_t crkey, uint64_t prkey)
{
	__le64 *keys = rdc_buf(h->t, 16);

	keys[0] = htole64(crkey);
	keys[1] = htole64(prkey);
	return rdc_io(h, .opcode = nvme_cmd_resv_acquire, .nsid = h->nsid,
		      .cdw10 = action | type << 8, .data = keys, .len = 16, .write = true);
}

struct rdc_reply resv_release(struct rdc_host *h, uint32_t action, unsigned int type,
			      uint64_t crkey)
{
	__le64 *key = rdc_buf(h->t, 8);

	key[0] = htole64(crkey);
	return rdc_io(h, .opcode = nvme_cmd_resv_release, .nsid = h->nsid,
		      .cdw10 = action | type << 8, .data = key, .len = 8, .write = true);
}

struct rdc_reply resv_report(struct rdc_host *h, void *data, uint32_t len, bool eds)
{
	return rdc_io(h, .opcode = nvme_cmd_resv_report, .nsid = h->nsid, .cdw10 = len / 4 - 1,
		      .cdw11 = eds, .data = data, .len = len);
}

const struct nvme_resv_status *resv_status(struct rdc_host *h)
{
	void *data = rdc_buf(h->t, 4096);

	RDC_OK(h->t, resv_report(h, data, 4096, true), "Reservation Report");
	return data;
}

unsigned int resv_count(const struct nvme_resv_status *s)
{
	return s->regctl[0] | (unsigned int)s->regctl[1] << 8;
}

const struct nvme_registered_ctrl_ext *resv_find(const struct nvme_resv_status *s, uint64_t key)
{
	unsigned int i, n = resv_count(s);

	if (n > (4096 - 64) / 64)
		n = (4096 - 64) / 64;
	for (i = 0; i < n; i++) {
		if (le64toh(s->regctl_eds[i].rkey) == key)
			return &s->regctl_eds[i];
	}
	return NULL;
}

void resv_clear(struct rdc *t)
{
	/* A registrant may clear; IEKEY ignores the current key. */
	resv_register(t->a, RREGA_REPLACE | IEKEY, 0, KEY1);
	resv_register(t->a, RREGA_REGISTER, 0, KEY1);
	resv_release(t->a, RRELA_CLEAR, 0, KEY1);
}

void resv_begin(struct rdc *t)
{
	const struct nvme_resv_status *s;

	t->a = rdc_main(t);
	rdc_need_oncs(t->a, NVME_CTRL_ONCS_RESERVATIONS, "reservations");
	if (!t->a->ns.rescap)
		rdc_not_supported(t, "RESCAP of namespace %u is 0", t->a->nsid);
	t->b = rdc_second(t);
	resv_clear(t);
	s = resv_status(t->a);
	RDC_CHECK(t, resv_count(s) == 0 && s->rtype == 0,
		  "after Clear there are %u registrants and a reservation of type %u",
		  resv_count(s), s->rtype);
}

void resv_both(struct rdc *t)
{
	RDC_OK(t, resv_register(t->a, RREGA_REGISTER, 0, KEY1), "Reservation Register");
	RDC_OK(t, resv_register(t->b, RREGA_REGISTER, 0, KEY2),
	       "Reservation Register by the second host");
}

void resv_must_acquire(struct rdc_host *h, unsigned int type, uint64_t key)
{
	RDC_OK(h->t, resv_acquire(h, RACQA_ACQUIRE, type, key, 0), "Reservation Acquire");
}

void resv_need_type(struct rdc *t, unsigned int type)
{
	if (!(t->a->ns.rescap & 1u << type))
		rdc_not_supported(t, "RESCAP 0x%02x: no reservations of type %u", t->a->ns.rescap,
				  type);
}

void resv_held(struct rdc *t, unsigned int type)
{
	resv_need_type(t, type);
	resv_both(t);
	resv_must_acquire(t->a, type, KEY1);
}
