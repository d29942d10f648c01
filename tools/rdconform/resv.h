/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers for tests of reservations. */
#ifndef RDC_RESV_H
#define RDC_RESV_H

#include "rdconform.h"

#define KEY1 UINT64_C(0x1111222233334444)
#define KEY2 UINT64_C(0x5555666677778888)

enum { RREGA_REGISTER, RREGA_UNREGISTER, RREGA_REPLACE };
enum { RACQA_ACQUIRE, RACQA_PREEMPT, RACQA_PREEMPT_ABORT };
enum { RRELA_RELEASE, RRELA_CLEAR };
#define IEKEY 8u

/* Of the suites: t->a and t->b are two hosts, without registrants and reservation. */
void resv_begin(struct rdc *t);
/* Removes reservation and registrants as far as possible: also the end of each test. */
void resv_clear(struct rdc *t);
struct rdc_reply resv_register(struct rdc_host *h, uint32_t action, uint64_t crkey, uint64_t nrkey);
struct rdc_reply resv_acquire(struct rdc_host *h, uint32_t action, unsigned int type,
			      uint64_t crkey, uint64_t prkey);
struct rdc_reply resv_release(struct rdc_host *h, uint32_t action, unsigned int type,
			      uint64_t crkey);
struct rdc_reply resv_report(struct rdc_host *h, void *data, uint32_t len, bool eds);
/* Reads the extended report; it must succeed. */
const struct nvme_resv_status *resv_status(struct rdc_host *h);
unsigned int resv_count(const struct nvme_resv_status *s);
/* The registrant with @key, or NULL. */
const struct nvme_registered_ctrl_ext *resv_find(const struct nvme_resv_status *s, uint64_t key);
/* Registers both hosts, each with its key. */
void resv_both(struct rdc *t);
void resv_must_acquire(struct rdc_host *h, unsigned int type, uint64_t key);
/* The test is "not supported" unless RESCAP has the type. */
void resv_need_type(struct rdc *t, unsigned int type);
/* All steps: two registrants, of which the first holds a reservation of @type. */
void resv_held(struct rdc *t, unsigned int type);

#endif /* RDC_RESV_H */
