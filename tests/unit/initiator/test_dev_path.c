/* SPDX-License-Identifier: BSD-3-Clause */
/* Paths of a device: which are tried again, and which are the same. */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <string.h>

#include "suites.h"
#include "t_dev.h"

/* ---- refused by configuration ---- */

/* What the target refuses, with its status: Connects, or Identify Namespace. */
struct refusal {
	uint16_t status; /* 0: no refusal */
	bool identify;
	unsigned int n; /* refused so far */
};

static bool refuse(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
		   const void *data, size_t len)
{
	struct refusal *r = f->hook_arg;
	bool connect = sqe->opcode == NVMF_OPCODE && sqe->fctype == nvme_fabrics_type_connect;
	bool identify = sqe->opcode == nvme_admin_identify &&
			(le32toh(sqe->cdw10) & 0xff) == NVME_IDENTIFY_CNS_NS;

	(void)data;
	(void)len;
	if (!r->status || !(r->identify ? identify : connect) || conn != t_conn_to(f, 1, false))
		return false;
	r->n++;
	t_answer(conn, sqe, 0, r->status | NVME_STATUS_DNR);
	return true;
}

/* Lose the path, not as one that flaps: the next attempt follows at once. */
static void lose_path(struct t_dev *d)
{
	t_dev_pass(d, 2000);
	t_break(t_conn_to(&t_fake, 1, true), -ECONNRESET);
	t_break(t_conn_to(&t_fake, 1, false), -ECONNRESET);
	t_dev_settle(d);
}

static const char *path_text(struct t_dev *d, struct rdinit_dev_path_info *info)
{
	rdinit_dev_path_info_init(info);
	CU_ASSERT_EQUAL_FATAL(rdinit_dev_get_path(d->dev, 0, info), 0);
	return info->text;
}

/* These a target answers before it has its configuration. */
static const struct refusal healed[] = {
	{NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_CONNECT_INVALID_PARAM, false, 0},
	{NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_CONNECT_INVALID_HOST, false, 0},
	{NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_CONNECT_CTRL_BUSY, false, 0},
	{NVME_SC_INVALID_NS, true, 0},
};

static void a_path_that_was_live_waits_for_its_configuration(void)
{
	struct rdinit_dev_path_info info;
	struct t_done done = {0};
	static uint8_t buf[512];
	struct refusal r;
	struct t_dev d;
	size_t i;

	for (i = 0; i < sizeof(healed) / sizeof(healed[0]); i++) {
		t_dev_init(&d);
		r = healed[i];
		done.calls = 0;
		t_dev_open(&d, 1);
		t_fake.hook = refuse;
		t_fake.hook_arg = &r;
		lose_path(&d);
		CU_ASSERT_EQUAL(t_dev_path_state(&d, 0), RDINIT_DEV_PATH_WAITING);
		CU_ASSERT_PTR_NOT_NULL(strstr(path_text(&d, &info), "has worked before"));
		CU_ASSERT_EQUAL(rdinit_dev_read_async(d.chan, 1, 1, buf, 0, t_done_fn, &done), 0);
		t_dev_pass(&d, 20000);
		CU_ASSERT_EQUAL(t_dev_path_state(&d, 0), RDINIT_DEV_PATH_WAITING);
		/* With delays, and without the same words each time. */
		CU_ASSERT(r.n > 3 && r.n < 20);
		CU_ASSERT_PTR_NULL(strstr(path_text(&d, &info), "has worked before"));
		r.status = 0;
		t_dev_pass(&d, d.opts.reconnect_delay_ms);
		CU_ASSERT_EQUAL(t_dev_path_state(&d, 0), RDINIT_DEV_PATH_LIVE);
		CU_ASSERT_EQUAL(done.calls, 1);
		CU_ASSERT_EQUAL(done.err, 0);
		t_dev_free(&d);
	}
}

static void a_refused_path_ends_after_ctrl_loss_tmo(void)
{
	struct rdinit_dev_path_info info;
	struct refusal r = healed[0];
	struct t_dev d;

	t_dev_init(&d);
	d.opts.ctrl_loss_tmo_ms = 5000;
	t_dev_open(&d, 1);
	t_fake.hook = refuse;
	t_fake.hook_arg = &r;
	lose_path(&d);
	t_dev_pass(&d, 5000);
	CU_ASSERT_EQUAL(t_dev_path_state(&d, 0), RDINIT_DEV_PATH_FAILED);
	CU_ASSERT_PTR_NOT_NULL(strstr(path_text(&d, &info), "given up after 5.0 s"));
	t_dev_free(&d);
}

static void a_first_attempt_that_is_refused_is_the_only_one(void)
{
	struct refusal r;
	struct t_dev d;
	size_t i;

	for (i = 0; i < sizeof(healed) / sizeof(healed[0]); i++) {
		t_dev_init(&d);
		r = healed[i];
		t_fake.hook = refuse;
		t_fake.hook_arg = &r;
		t_dev_create(&d, 1);
		CU_ASSERT_EQUAL(rdinit_dev_open(d.dev), -EIO);
		CU_ASSERT_EQUAL(r.n, 1);
		t_dev_free(&d);
	}
}

static void other_refusals_are_final(void)
{
	struct refusal r = {NVME_SC_INVALID_FIELD, false, 0};
	struct t_dev d;

	t_dev_init(&d);
	t_dev_open(&d, 1);
	t_fake.hook = refuse;
	t_fake.hook_arg = &r;
	lose_path(&d);
	CU_ASSERT_EQUAL(t_dev_path_state(&d, 0), RDINIT_DEV_PATH_FAILED);
	CU_ASSERT_EQUAL(r.n, 1);
	t_dev_free(&d);
}

/* ---- what is known of the namespace ---- */

static const struct nvme_id_ns *ns_now[2]; /* on the paths 1 and 2 */

static bool identify_ns_now(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			    const void *data, size_t len)
{
	(void)data;
	(void)len;
	if (sqe->opcode != nvme_admin_identify ||
	    (le32toh(sqe->cdw10) & 0xff) != NVME_IDENTIFY_CNS_NS || conn == t_conn_to(f, 1, true) ||
	    conn == t_conn_to(f, 2, true))
		return false;
	return t_answer_data(f, conn, sqe, ns_now[conn == t_conn_to(f, 2, false)],
			     sizeof(*ns_now[0]));
}

/* The controller at 192.0.2.@n tells of a change of the namespace. */
static void tell_of_change(struct t_dev *d, unsigned int n)
{
	struct t_conn *conn = t_conn_to(&t_fake, n, false);
	struct nvme_sqe aer = {.opcode = nvme_admin_async_event};
	unsigned int i;

	for (i = t_fake.n_log; i-- > 0;) {
		if (t_fake.log[i].opcode == nvme_admin_async_event) {
			aer.cid = t_fake.log[i].cid;
			break;
		}
	}
	t_answer(conn, &aer, 0x00040002, 0);
	t_dev_settle(d);
}

static struct rdinit_dev_info info_now(struct t_dev *d)
{
	struct rdinit_dev_info info;

	rdinit_dev_info_init(&info);
	CU_ASSERT_EQUAL_FATAL(rdinit_dev_get_info(d->dev, &info), 0);
	return info;
}

static struct nvme_id_ns ns_with(uint8_t dlfeat, uint8_t nsattr)
{
	struct nvme_id_ns ns = {.nsze = htole64(T_DISK_BLOCKS),
				.ncap = htole64(T_DISK_BLOCKS),
				.dlfeat = dlfeat,
				.nsattr = nsattr};

	ns.lbaf[0].ds = 9;
	return ns;
}

static void what_is_known_follows_the_change_event(void)
{
	struct nvme_id_ns plain = ns_with(9, 0), odd = ns_with(0, NVME_NS_NSATTR_WRITE_PROTECTED);
	struct rdinit_dev_info info;
	struct t_dev d;

	odd.nsfeat = NVME_NS_FEAT_IO_OPT;
	odd.npwg = htole16(7);
	t_dev_init(&d);
	t_fake.hook = identify_ns_now;
	ns_now[0] = ns_now[1] = &plain;
	t_dev_open(&d, 1);
	info = info_now(&d);
	CU_ASSERT(!info.read_only && info.deallocated_is_zero && !info.preferred_write);
	CU_ASSERT_TRUE(atomic_load(&d.dev->write_zeroes_deac));
	ns_now[0] = &odd;
	tell_of_change(&d, 1);
	info = info_now(&d);
	CU_ASSERT(info.read_only && !info.deallocated_is_zero && !info.extents);
	CU_ASSERT_EQUAL(info.preferred_write, 8);
	CU_ASSERT_FALSE(atomic_load(&d.dev->write_zeroes_deac));
	ns_now[0] = &plain;
	tell_of_change(&d, 1);
	info = info_now(&d);
	CU_ASSERT(!info.read_only && info.deallocated_is_zero && !info.preferred_write);
	t_dev_free(&d);
}

static void what_is_known_is_true_on_all_paths(void)
{
	struct nvme_id_ns plain = ns_with(9, 0), odd = ns_with(0, NVME_NS_NSATTR_WRITE_PROTECTED);
	struct rdinit_dev_info info;
	struct t_dev d;

	t_dev_init(&d);
	t_fake.hook = identify_ns_now;
	ns_now[0] = &plain;
	ns_now[1] = &odd;
	t_dev_open(&d, 2);
	info = info_now(&d);
	CU_ASSERT(info.read_only && !info.deallocated_is_zero);
	t_fake.down = 1u << 2;
	t_break(t_conn_to(&t_fake, 2, true), -ECONNRESET);
	t_break(t_conn_to(&t_fake, 2, false), -ECONNRESET);
	t_dev_settle(&d);
	info = info_now(&d);
	CU_ASSERT(!info.read_only && info.deallocated_is_zero);
	t_dev_free(&d);
}

static void what_is_known_is_read_again_after_a_loss(void)
{
	struct nvme_id_ns plain = ns_with(9, 0), odd = ns_with(0, NVME_NS_NSATTR_WRITE_PROTECTED);
	struct rdinit_dev_info info;
	struct t_dev d;

	t_dev_init(&d);
	t_fake.hook = identify_ns_now;
	ns_now[0] = ns_now[1] = &plain;
	t_fake.id.vwc = 0;
	t_dev_open(&d, 1);
	ns_now[0] = ns_now[1] = &odd;
	t_fake.id.vwc = NVME_CTRL_VWC_PRESENT;
	lose_path(&d);
	CU_ASSERT_EQUAL(t_dev_path_state(&d, 0), RDINIT_DEV_PATH_LIVE);
	info = info_now(&d);
	CU_ASSERT(info.read_only && !info.deallocated_is_zero && info.volatile_cache);
	t_dev_free(&d);
}

/* ---- a target that is gone without a word ---- */

static bool swallow(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
		    const void *data, size_t len)
{
	return true;
}

/* Milliseconds until the path is lost, from a freeze @phase ms after traffic. */
static unsigned int noticed_after(bool traffic_based, unsigned int phase)
{
	unsigned char buf[512];
	unsigned int ms;
	struct t_dev d;

	t_dev_init(&d);
	t_fake.id.ctratt = htole32(traffic_based ? NVME_CTRL_CTRATT_TBKAS : 0);
	t_dev_open(&d, 1);
	t_dev_pass(&d, 3000);
	CU_ASSERT_EQUAL(rdinit_dev_read(d.chan, 0, 1, buf, 0), 0);
	t_dev_pass(&d, phase);
	t_fake.hook = swallow;
	for (ms = 0; ms < 20000 && t_dev_path_state(&d, 0) == RDINIT_DEV_PATH_LIVE; ms += 10)
		t_dev_pass(&d, 10);
	t_dev_free(&d);
	return ms;
}

static void a_silent_target_is_noticed_in_time(void)
{
	unsigned int phase;

	/* The keep-alive timeout is 5 s. */
	for (phase = 10; phase < 2600; phase += 430) {
		CU_ASSERT(noticed_after(false, phase) <= 7510);
		CU_ASSERT(noticed_after(true, phase) <= 7510);
	}
}

/* ---- the same path twice ---- */

static int add_path(struct t_dev *d, const char *traddr, const char *host_traddr)
{
	struct rdinit_uri uri;

	rdinit_uri_init(&uri);
	snprintf(uri.traddr, sizeof(uri.traddr), "%s", traddr);
	snprintf(uri.trsvcid, sizeof(uri.trsvcid), "4420");
	snprintf(uri.subnqn, sizeof(uri.subnqn), "nqn.2024-01.test:x");
	return rdinit_dev_add_path(d->dev, &uri, host_traddr);
}

static void a_path_is_given_once(void)
{
	struct t_dev d;

	t_dev_init(&d);
	t_dev_create(&d, 2);
	CU_ASSERT_EQUAL(add_path(&d, "192.0.2.1", NULL), -EEXIST);
	CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), "192.0.2.1, port 4420, is given twice"));
	CU_ASSERT_EQUAL(add_path(&d, "192.0.2.1", "192.0.2.9"), 2);
	CU_ASSERT_EQUAL(add_path(&d, "192.0.2.1", "192.0.2.9"), -EEXIST);
	CU_ASSERT_EQUAL(add_path(&d, "2001:db8::1", NULL), 3);
	CU_ASSERT_EQUAL(add_path(&d, "2001:db8:0::1", NULL), -EEXIST);
	t_dev_free(&d);
}

/* Which path comes first is decided by the thread that resolves names. */
static void a_name_of_another_paths_address_is_no_second_path(void)
{
	struct rdinit_dev_path_info info[2];
	unsigned int i, live = 0, failed = 0;
	struct t_dev d;

	t_dev_init(&d);
	t_dev_create(&d, 0);
	CU_ASSERT_EQUAL(add_path(&d, "localhost", NULL), 0);
	CU_ASSERT_EQUAL(add_path(&d, "127.0.0.1", NULL), 1);
	CU_ASSERT_EQUAL(add_path(&d, "::1", NULL), 2);
	CU_ASSERT_EQUAL(rdinit_dev_open(d.dev), 0);
	while (t_dev_path_state(&d, 0) < RDINIT_DEV_PATH_LIVE)
		t_dev_settle(&d);
	t_dev_settle(&d);
	for (i = 0; i < 2; i++) {
		rdinit_dev_path_info_init(&info[i]);
		CU_ASSERT_EQUAL(rdinit_dev_get_path(d.dev, i, &info[i]), 0);
		live += info[i].state == RDINIT_DEV_PATH_LIVE;
		failed += info[i].state == RDINIT_DEV_PATH_FAILED;
	}
	CU_ASSERT(live == 1 && failed == 1);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(info[0].state == RDINIT_DEV_PATH_FAILED ? info[0].text : info[1].text,
		       "give each path once"));
	t_dev_free(&d);
}

/* A machine without an identity gets a random one: for a device, not for each connection. */
static void all_connections_are_one_host(void)
{
	const struct rdi_host *host;
	struct rdi_host first;
	struct t_dev d;

	t_dev_init(&d);
	d.ctrl_opts.hostnqn = d.ctrl_opts.hostid = NULL;
	t_dev_open(&d, 2);
	first = d.dev->paths[0]->ctrl->host;
	lose_path(&d);
	for (unsigned int i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL_FATAL(t_dev_path_state(&d, i), RDINIT_DEV_PATH_LIVE);
		host = &d.dev->paths[i]->ctrl->host;
		CU_ASSERT_STRING_EQUAL(host->nqn, first.nqn);
		CU_ASSERT_EQUAL(memcmp(host->id, first.id, sizeof(first.id)), 0);
	}
	t_dev_free(&d);
}

const struct t_case t_dev_path_cases[] = {
	{"all connections of a device are one host", all_connections_are_one_host},
	{"a silent target is noticed in time", a_silent_target_is_noticed_in_time},
	{"a path is given once", a_path_is_given_once},
	{"a name of another path's address is no second path",
	 a_name_of_another_paths_address_is_no_second_path},
	{"what is known follows the change event", what_is_known_follows_the_change_event},
	{"what is known is true on all paths", what_is_known_is_true_on_all_paths},
	{"what is known is read again after a loss", what_is_known_is_read_again_after_a_loss},
	{"a path that was live waits for its configuration",
	 a_path_that_was_live_waits_for_its_configuration},
	{"a refused path ends after ctrl_loss_tmo_ms", a_refused_path_ends_after_ctrl_loss_tmo},
	{"a first attempt that is refused is the only one",
	 a_first_attempt_that_is_refused_is_the_only_one},
	{"other refusals are final", other_refusals_are_final},
	{NULL, NULL},
};
