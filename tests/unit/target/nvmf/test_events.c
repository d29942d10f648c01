/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events: when they are reported, when they are held back, and what clears them. */
#include <errno.h>
#include <string.h>

#include "t_target.h"

#define NS_CHANGED    0x00040002u
#define ANA_CHANGED   0x000c0302u
#define DISC_CHANGED  0x0070f002u
#define RESV_LOG      0x00800006u
#define ERROR_EVENT   0x00010400u
#define RELIABILITY   0x00020001u

#define WARN_DEGRADED NVME_SMART_CRIT_DEGRADED
#define WARN_MEDIA    NVME_SMART_CRIT_MEDIA

static struct rdt_subsys *subsys(const struct t_pair *p)
{
	return p->env->t->subsys[0];
}

static void enable_events(struct t_conn *c, uint32_t bits)
{
	struct t_answer a = t_feature(c, true, NVME_FEAT_FID_ASYNC_EVENT, bits);

	CU_ASSERT_EQUAL(t_status(&a), 0);
}

static void post_aer(struct t_conn *c)
{
	struct nvme_sqe sqe;

	t_sqe(c, &sqe, nvme_admin_async_event, NULL, 0);
	t_begin(c, &sqe);
}

/* The event that an AER was answered with; 0: none was. */
static uint32_t events_event(struct t_conn *c)
{
	struct t_answer a;

	t_turn(c->env);
	if (!t_answers(c))
		return 0;
	a = t_answer(c);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	return le32toh(a.cqe.result);
}

static void read_log(struct t_conn *c, uint8_t lid, uint32_t offset, bool rae, void *buf,
		     uint32_t len)
{
	struct nvme_sqe sqe;

	memset(buf, 0xee, len);
	t_sqe(c, &sqe, nvme_admin_get_log_page, buf, len);
	sqe.cdw10 = htole32(lid | (rae ? 1u << 15 : 0) | (len / 4 - 1) << 16);
	sqe.cdw12 = htole32(offset);
	t_begin(c, &sqe);
}

/* Read the log page. Its answer comes before or after that of an AER. */
static void read_quietly(struct t_conn *c, uint8_t lid, uint32_t offset, bool rae, void *buf,
			 uint32_t len)
{

	read_log(c, lid, offset, rae, buf, len);
	CU_ASSERT_EQUAL(t_answers(c), 1);
	CU_ASSERT_EQUAL(t_answer_status(c), 0);
}

static void waits_for_a_request(void)
{
	T_PAIR(p);
	struct nvme_error_log_page entry;
	struct nvme_sqe sqe;

	enable_events(p.admin, NVME_CTRL_OAES_NA | NVME_CTRL_OAES_ANA);
	rdt_event_subsys(subsys(&p), RDT_EV_NS_ATTR, 5);
	rdt_event_subsys(subsys(&p), RDT_EV_ANA, 0);
	rdt_event_subsys(subsys(&p), RDT_EV_ERROR, 5);
	CU_ASSERT_EQUAL(events_event(p.admin), 0);
	post_aer(p.admin);
	CU_ASSERT_EQUAL(events_event(p.admin), ERROR_EVENT);
	/* An error without a command is in the error log too. */
	read_quietly(p.admin, NVME_LOG_LID_ERROR, 0, true, &entry, sizeof(entry));
	CU_ASSERT_EQUAL(le64toh(entry.error_count), 1);
	CU_ASSERT_EQUAL(le16toh(entry.sqid), 0xffff);
	CU_ASSERT_EQUAL(le32toh(entry.nsid), 5);
	post_aer(p.admin);
	CU_ASSERT_EQUAL(events_event(p.admin), ANA_CHANGED);
	post_aer(p.admin);
	CU_ASSERT_EQUAL(events_event(p.admin), NS_CHANGED);
	/* The limit counts waiting AERs only. */
	for (unsigned int i = 0; i < RDT_AER_MAX; i++)
		post_aer(p.admin);
	CU_ASSERT_EQUAL(t_answers(p.admin), 0);
	t_sqe(p.admin, &sqe, nvme_admin_async_event, NULL, 0);
	CU_ASSERT_EQUAL(t_exec_status(p.admin, &sqe),
			NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_ASYNC_LIMIT);
	/* Feature 82h is its only mask. It is not told while there is no notification to read. */
	rdt_event_subsys(subsys(&p), RDT_EV_RESV_LOG, 1);
	CU_ASSERT_EQUAL(events_event(p.admin), 0);
	CU_ASSERT_TRUE(rdt_resv_log_add(p.admin->qp.ctrl, TAILQ_FIRST(&subsys(&p)->namespaces),
					NVME_RESV_NOTIFY_RNLPT_RESERVATION_RELEASED));
	rdt_event_subsys(subsys(&p), RDT_EV_RESV_LOG, 1);
	CU_ASSERT_EQUAL(events_event(p.admin), RESV_LOG);
	post_aer(p.admin);
	CU_ASSERT_EQUAL(t_answers(p.admin), 0);
}

static uint8_t warning(struct t_conn *c, bool rae)
{
	struct nvme_smart_log log;

	read_quietly(c, NVME_LOG_LID_SMART, 0, rae, &log, sizeof(log));
	return log.critical_warning;
}

/* On reactor 0, for the namespace of this disk. */
static void fail_sync(struct t_pair *p, unsigned int disk)
{
	rdt_bdev_sync_failed(&p->env->disk[disk].bdev, p->env->log, "the test", -EIO);
	t_turn(p->env);
}

/* A controller of another host, which does not see namespace 5. */
static struct t_conn *sees_one_only(struct t_pair *p)
{
	static const char *const first[] = {T_HOST};
	struct t_conn *c = t_conn_new(p->env, 1, 0, 32);
	struct t_answer a;

	CU_ASSERT_EQUAL(rdt_ns_set_hosts(t_ns_of(subsys(p), 5), false, first, 1), 0);
	a = t_connect_as(c, NVMF_CNTLID_DYNAMIC, T_HOST2, 2);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	t_enable(c);
	return c;
}

static void error_entry(struct t_conn *c, uint32_t nsid)
{
	struct nvme_error_log_page entry;

	read_quietly(c, NVME_LOG_LID_ERROR, 0, false, &entry, sizeof(entry));
	CU_ASSERT_EQUAL(le16toh(entry.sqid), 0xffff);
	CU_ASSERT_EQUAL(le32toh(entry.nsid), nsid);
	CU_ASSERT_EQUAL(nvme_status_from_wire(entry.status_field).v & 0x7ff,
			NVME_SCT_MEDIA << 8 | NVME_SC_WRITE_FAULT);
}

/* Reported once to each controller that sees the namespace, and shown until the namespace is opened
 * again. */
static void failed_sync(void)
{
	T_PAIR(p);
	struct t_conn *other = sees_one_only(&p);

	enable_events(p.admin, WARN_DEGRADED);
	post_aer(p.admin);
	post_aer(p.admin);
	post_aer(other);
	CU_ASSERT_EQUAL(warning(p.admin, false), 0);
	fail_sync(&p, 1);
	CU_ASSERT_EQUAL(events_event(p.admin), RELIABILITY);
	CU_ASSERT_EQUAL(events_event(p.admin), ERROR_EVENT);
	CU_ASSERT_EQUAL(events_event(other), 0);
	error_entry(p.admin, 5);
	CU_ASSERT_EQUAL(warning(p.admin, false), WARN_DEGRADED);
	CU_ASSERT_EQUAL(warning(p.admin, true), WARN_DEGRADED);
	CU_ASSERT_EQUAL(warning(other, true), 0);

	post_aer(p.admin);
	post_aer(p.admin);
	fail_sync(&p, 1);
	CU_ASSERT_EQUAL(events_event(p.admin), 0);
	/* All namespaces of the other host have failed, and the host has not enabled warnings. */
	fail_sync(&p, 0);
	CU_ASSERT_EQUAL(events_event(p.admin), RELIABILITY);
	CU_ASSERT_EQUAL(events_event(p.admin), ERROR_EVENT);
	CU_ASSERT_EQUAL(events_event(other), ERROR_EVENT);
	error_entry(other, 1);
	CU_ASSERT_EQUAL(warning(p.admin, true), WARN_DEGRADED | WARN_MEDIA);
	CU_ASSERT_EQUAL(warning(other, true), WARN_DEGRADED | WARN_MEDIA);

	rdt_control_ns_remove(t_ns_of(subsys(&p), 1), NULL, NULL);
	t_turn(p.env);
	CU_ASSERT_EQUAL(warning(p.admin, true), WARN_DEGRADED | WARN_MEDIA);
	CU_ASSERT_EQUAL(warning(other, true), 0);
	rdt_control_ns_remove(t_ns_of(subsys(&p), 5), NULL, NULL);
	t_turn(p.env);
	CU_ASSERT_EQUAL(warning(p.admin, true), 0);
}

/* A host that enables the warning later is told of a present one, if it enabled exactly that
 * one. */
static void warned_before_it_asked(void)
{
	T_PAIR(p);

	fail_sync(&p, 1);
	post_aer(p.admin);
	CU_ASSERT_EQUAL(events_event(p.admin), ERROR_EVENT);
	post_aer(p.admin);
	enable_events(p.admin, WARN_MEDIA);
	CU_ASSERT_EQUAL(events_event(p.admin), 0);
	enable_events(p.admin, WARN_MEDIA | WARN_DEGRADED);
	CU_ASSERT_EQUAL(events_event(p.admin), RELIABILITY);
	post_aer(p.admin);
	CU_ASSERT_EQUAL(warning(p.admin, false), WARN_DEGRADED);
	enable_events(p.admin, WARN_MEDIA | WARN_DEGRADED);
	CU_ASSERT_EQUAL(events_event(p.admin), 0);
	/* An event whose cause has ended before it could be reported is not reported. */
	enable_events(p.admin, 0);
	enable_events(p.admin, WARN_DEGRADED);
	CU_ASSERT_EQUAL(events_event(p.admin), RELIABILITY);
	fail_sync(&p, 0);
	rdt_control_ns_remove(t_ns_of(subsys(&p), 1), NULL, NULL);
	rdt_control_ns_remove(t_ns_of(subsys(&p), 5), NULL, NULL);
	t_turn(p.env);
	CU_ASSERT_EQUAL(warning(p.admin, false), 0);
	post_aer(p.admin);
	CU_ASSERT_EQUAL(events_event(p.admin), 0);
}

static void overflow(void)
{
	T_PAIR(p);
	struct nvme_ns_list list;

	for (uint32_t i = 0; i <= NVME_ID_NS_LIST_MAX; i++)
		rdt_event_subsys(subsys(&p), RDT_EV_NS_ATTR, 2 * (NVME_ID_NS_LIST_MAX + 1 - i));
	t_turn(p.env);
	read_quietly(p.admin, NVME_LOG_LID_CHANGED_NS, 0, false, &list, sizeof(list));
	CU_ASSERT_EQUAL(le32toh(list.ns[0]), NVME_NSID_ALL);
	CU_ASSERT_EQUAL(list.ns[1], 0);
	rdt_event_subsys(subsys(&p), RDT_EV_NS_ATTR, 7);
	read_quietly(p.admin, NVME_LOG_LID_CHANGED_NS, 0, false, &list, sizeof(list));
	CU_ASSERT_EQUAL(le32toh(list.ns[0]), 7);
}

static void reset_forgets(void)
{
	T_PAIR(p);
	struct nvme_ns_list list;

	enable_events(p.admin, NVME_CTRL_OAES_NA);
	rdt_event_subsys(subsys(&p), RDT_EV_NS_ATTR, 5);
	t_turn(p.env);
	t_set_property(p.admin, NVME_REG_CC, 0x00460000);
	t_turn(p.env);
	t_set_property(p.admin, NVME_REG_CC, 0x00460001);
	t_turn(p.env);
	enable_events(p.admin, NVME_CTRL_OAES_NA);
	post_aer(p.admin);
	CU_ASSERT_EQUAL(events_event(p.admin), 0);
	read_quietly(p.admin, NVME_LOG_LID_CHANGED_NS, 0, false, &list, sizeof(list));
	CU_ASSERT_EQUAL(list.ns[0], 0);
}

/* A message in flight holds a reference to the controller and drops it. */
static void outlives_the_queue(void)
{
	T_PAIR(p);

	enable_events(p.admin, NVME_CTRL_OAES_NA);
	post_aer(p.admin);
	t_conn_cut(p.admin);
	rdt_event_subsys(subsys(&p), RDT_EV_NS_ATTR, 5);
	t_turn(p.env);
	CU_ASSERT_EQUAL(subsys(&p)->ctrls_count, 0);
	rdt_event_subsys(subsys(&p), RDT_EV_NS_ATTR, 5); /* to no controller */
	t_turn(p.env);
}

const struct t_case t_events_cases[] = {
	{"a failed sync is told, and shown until the namespace is opened again", failed_sync},
	{"a warning that was there before the host asked for it", warned_before_it_asked},
	{"events wait for a request, requests for an event", waits_for_a_request},
	{"more changed namespaces than the list holds", overflow},
	{"a reset forgets", reset_forgets},
	{"an event on its way to a controller that ends", outlives_the_queue},
	{NULL, NULL},
};
