/* SPDX-License-Identifier: BSD-3-Clause */
/* reservation.access: which host may do what, by reservation type; reservation.notify: which
 * hosts are notified. */
#include <string.h>

#include "resv.h"
#include "suites.h"

#define CONFLICT NVME_SC_RESERVATION_CONFLICT

/* The sender of the command: the holder, another registrant, or a host that is not registered. */
enum { HOLDER, REGISTRANT, STRANGER };
/* Type in bits 3:0, who in 7:4, opcode in 15:8. */
#define ACCESS(type, who, op) ((type) | (who) << 4 | (op) << 8)

static bool is_write(uint8_t op)
{
	return op != nvme_cmd_read && op != nvme_cmd_compare && op != nvme_cmd_verify;
}

/* Base 8.19.1, the table of types. */
static bool allowed(unsigned int type, unsigned int who, bool write)
{
	if (who == HOLDER)
		return true;
	if (who == REGISTRANT && type >= 3)
		return true;
	/* All Write Exclusive types let every host read. */
	return !write && type % 2 == 1;
}

static void need_command(struct rdc_host *h, uint8_t op)
{
	switch (op) {
	case nvme_cmd_compare:
		rdc_need_oncs(h, NVME_CTRL_ONCS_COMPARE, "Compare");
		break;
	case nvme_cmd_write_zeroes:
		rdc_need_oncs(h, NVME_CTRL_ONCS_WRITE_ZEROES, "Write Zeroes");
		break;
	case nvme_cmd_dsm:
		rdc_need_oncs(h, NVME_CTRL_ONCS_DSM, "Dataset Management");
		break;
	case nvme_cmd_verify:
		rdc_need_oncs(h, NVME_CTRL_ONCS_VERIFY, "Verify");
		break;
	default:
		break;
	}
}

static struct rdc_reply send_cmd(struct rdc_host *h, uint8_t op)
{
	struct nvme_dsm_range *range = rdc_buf(h->t, sizeof(*range));
	struct rdc_cmd c;

	if (op == nvme_cmd_dsm) {
		range->nlb = htole32(1);
		return rdc_io(h, .opcode = op, .nsid = h->nsid, .cdw11 = 4, .data = range,
			      .len = sizeof(*range), .write = true);
	}
	c = rdc_rw(h, op, 0, 1,
		   op == nvme_cmd_write_zeroes || op == nvme_cmd_verify ? NULL
									: rdc_buf(h->t, h->bs));
	return rdc_io_at(h, &c, __FILE__, __LINE__);
}

static void access_rule(struct rdc *t)
{
	unsigned int type = t->arg & 0xf, who = t->arg >> 4 & 0xf;
	uint8_t op = (uint8_t)(t->arg >> 8);
	struct rdc_host *h;
	struct rdc_reply r;

	resv_need_type(t, type);
	need_command(t->a, op);
	/* The data for Compare. */
	rdc_must_write(t->a, 0, 1, rdc_buf(t, t->a->bs));
	RDC_OK(t, resv_register(t->a, RREGA_REGISTER, 0, KEY1), "Reservation Register");
	if (who == REGISTRANT) {
		RDC_OK(t, resv_register(t->b, RREGA_REGISTER, 0, KEY2),
		       "Reservation Register by the second host");
	}
	resv_must_acquire(t->a, type, KEY1);
	h = who == HOLDER ? t->a : t->b;
	r = send_cmd(h, op);
	resv_clear(t);
	if (allowed(type, who, is_write(op)))
		RDC_OK(t, r, "a command that the type allows");
	else
		RDC_STATUS(t, r, "a command that the type forbids", CONFLICT);
}

#define RW(name, text, type, who)                                             \
	{name "_read",                                                        \
	 "Base 8.19.1",                                                       \
	 text ": Read",                                                       \
	 access_rule,                                                         \
	 0,                                                                   \
	 ACCESS(type, who, nvme_cmd_read)},                                   \
	{                                                                     \
		name "_write", "Base 8.19.1", text ": Write", access_rule, 0, \
			ACCESS(type, who, nvme_cmd_write)                     \
	}
#define ROLES(name, text, type)                                                        \
	RW(name "_holder", text ", its holder", type, HOLDER),                         \
		RW(name "_registrant", text ", another registrant", type, REGISTRANT), \
		RW(name "_stranger", text ", a host not registered", type, STRANGER)

const struct rdc_test rdc_t_access[] = {
	ROLES("we", "Write Exclusive", 1),
	ROLES("ea", "Exclusive Access", 2),
	ROLES("wero", "Write Exclusive - Registrants Only", 3),
	ROLES("earo", "Exclusive Access - Registrants Only", 4),
	ROLES("wear", "Write Exclusive - All Registrants", 5),
	ROLES("eaar", "Exclusive Access - All Registrants", 6),
	{"we_compare", "Base 8.19",
	 "Write Exclusive allows Compare by hosts that are not registered", access_rule, 0,
	 ACCESS(1, STRANGER, nvme_cmd_compare)},
	{"ea_compare", "Base 8.19",
	 "Exclusive Access refuses Compare by hosts that are not registered", access_rule, 0,
	 ACCESS(2, STRANGER, nvme_cmd_compare)},
	{"we_verify", "Base 8.19", "Write Exclusive allows Verify by hosts that are not registered",
	 access_rule, 0, ACCESS(1, STRANGER, nvme_cmd_verify)},
	{"we_zeroes", "Base 8.19",
	 "Write Exclusive refuses Write Zeroes by hosts that are not registered", access_rule, 0,
	 ACCESS(1, STRANGER, nvme_cmd_write_zeroes)},
	{"we_dsm", "Base 8.19",
	 "Write Exclusive refuses Dataset Management by hosts that are not registered", access_rule,
	 0, ACCESS(1, STRANGER, nvme_cmd_dsm)},
	{NULL},
};

/* ---- notifications ---- */

enum { REGISTRATION_PREEMPTED = 1, RESERVATION_RELEASED = 2, RESERVATION_PREEMPTED = 3 };

static void told(struct rdc *t, struct rdc_async *aer, unsigned int type)
{
	struct nvme_resv_notification_log *log = rdc_buf(t, sizeof(*log));

	RDC_CHECK(t, rdc_wait_ms(t->b, aer, t->cfg->timeout_ms), "no event was reported");
	RDC_OK(t, aer->r, "the event request");
	RDC_CHECK(t, (aer->r.result & 7) == 6 && (aer->r.result >> 16 & 0xff) == 0x80,
		  "event 0x%06llx, expected type 6, page 80h",
		  (unsigned long long)aer->r.result & 0xffffff);
	RDC_OK(t, rdc_get_log(t->b, NVME_LOG_LID_RESERVATION, 0, 0, log, sizeof(*log)),
	       "Get Log Page 80h");
	RDC_CHECK(t, log->rnlpt == type, "the notification has type %u, expected %u", log->rnlpt,
		  type);
	RDC_CHECK(t, le32toh(log->nsid) == t->b->nsid, "the notification is about namespace %u",
		  le32toh(log->nsid));
	RDC_OK(t, rdc_get_log(t->b, NVME_LOG_LID_RESERVATION, 0, 0, log, sizeof(*log)),
	       "Get Log Page 80h, again");
	RDC_CHECK(t, log->rnlpt == 0, "the notification is still in the log after it was read");
}

/* The second host, which is to be notified, is a new one. */
static struct rdc_async *notify_begin(struct rdc *t, unsigned int type)
{
	struct rdc_async *aer;

	resv_need_type(t, type);
	rdc_host_close(rdc_second(t), false);
	t->b = rdc_host_open(t, 1, NULL);
	aer = rdc_event_start(t->b);
	resv_both(t);
	return aer;
}

static void notify_registration(struct rdc *t)
{
	struct rdc_async *aer = notify_begin(t, 1);

	resv_must_acquire(t->a, 1, KEY1);
	RDC_OK(t, resv_acquire(t->a, RACQA_PREEMPT, 1, KEY1, KEY2), "Preempt of a registrant");
	told(t, aer, REGISTRATION_PREEMPTED);
}

static void notify_released(struct rdc *t)
{
	struct rdc_async *aer = notify_begin(t, 3);

	resv_must_acquire(t->a, 3, KEY1);
	RDC_OK(t, resv_release(t->a, RRELA_RELEASE, 3, KEY1), "Release");
	told(t, aer, RESERVATION_RELEASED);
}

static void notify_preempted(struct rdc *t)
{
	struct rdc_async *aer = notify_begin(t, 1);

	resv_must_acquire(t->b, 1, KEY2);
	RDC_OK(t, resv_acquire(t->a, RACQA_PREEMPT, 1, KEY1, KEY2), "Preempt of the holder");
	told(t, aer, REGISTRATION_PREEMPTED);
}

static void notify_cleared(struct rdc *t)
{
	struct rdc_async *aer = notify_begin(t, 1);

	resv_must_acquire(t->a, 1, KEY1);
	RDC_OK(t, resv_release(t->a, RRELA_CLEAR, 0, KEY1), "Clear");
	told(t, aer, RESERVATION_PREEMPTED);
}

static void notify_masked(struct rdc *t)
{
	struct rdc_async *aer = notify_begin(t, 3);
	struct rdc_reply r;
	bool came;

	RDC_OK(t, rdc_set_feature(t->b, NVME_FEAT_FID_RESV_MASK, t->b->nsid, 0xe, NULL, 0),
	       "Set Features, Reservation Notification Mask");
	r = rdc_get_feature(t->b, NVME_FEAT_FID_RESV_MASK, 0, t->b->nsid, 0, NULL, 0);
	RDC_OK(t, r, "Get Features, Reservation Notification Mask");
	RDC_CHECK(t, (r.result & 0xe) == 0xe, "the mask reads as 0x%llx",
		  (unsigned long long)r.result);
	resv_must_acquire(t->a, 3, KEY1);
	RDC_OK(t, resv_release(t->a, RRELA_RELEASE, 3, KEY1), "Release");
	came = rdc_wait_ms(t->b, aer, 300);
	rdc_set_feature(t->b, NVME_FEAT_FID_RESV_MASK, t->b->nsid, 0, NULL, 0);
	RDC_CHECK(t, !came, "an event was reported in spite of the mask");
}

static void notify_not_actor(struct rdc *t)
{
	struct rdc_async *aer = notify_begin(t, 3);

	resv_must_acquire(t->b, 3, KEY2);
	RDC_OK(t, resv_release(t->b, RRELA_RELEASE, 3, KEY2), "Release");
	RDC_CHECK(t, !rdc_wait_ms(t->b, aer, 300), "the host that released is notified");
}

const struct rdc_test rdc_t_notify[] = {
	{"registration", "Base 8.19.2", "a registrant is notified that it was unregistered",
	 notify_registration},
	{"released", "Base 8.19.2", "registrants are notified of a release", notify_released},
	{"preempted", "Base 8.19.2", "the holder is notified that it was preempted",
	 notify_preempted},
	{"cleared", "Base 8.19.2", "registrants are notified of a Clear", notify_cleared},
	{"masked", "Base 5.27.1.26", "the mask of feature 82h suppresses notifications",
	 notify_masked},
	{"not_actor", "Base 8.19.2", "the host that released is not notified", notify_not_actor},
	{NULL},
};
