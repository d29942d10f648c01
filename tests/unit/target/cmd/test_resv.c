/* SPDX-License-Identifier: BSD-3-Clause */
/* Reservation commands of several hosts on several reactors. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/cmd/io_cmds.h"
#include "t_target.h"

#define WE       NVME_RESERVATION_RTYPE_WE
#define EA       NVME_RESERVATION_RTYPE_EA
#define WERO     NVME_RESERVATION_RTYPE_WERO
#define CONFLICT NVME_SC_RESERVATION_CONFLICT
#define INVALID  NVME_SC_INVALID_FIELD
#define KEY(n)   (UINT64_C(0xa000000000000000) + (n))

/* A controller of host @n, with its admin queue on one reactor and an I/O queue on the other. */
struct host {
	unsigned int n;
	struct t_conn *admin;
	struct t_conn *io;
};

static void connect_as(struct t_conn *c, unsigned int n, uint16_t *cntlid)
{
	struct t_answer a;
	char nqn[80];

	snprintf(nqn, sizeof(nqn),
		 "nqn.2014-08.org.nvmexpress:uuid:%08u-1111-1111-1111-111111111111", n);
	a = t_connect_as(c, *cntlid, nqn, (uint8_t)n);
	CU_ASSERT_EQUAL_FATAL(t_status(&a), 0);
	*cntlid = (uint16_t)le32toh(a.cqe.result);
}

static struct host host_new(struct t_env *env, unsigned int n)
{
	struct host h = {.n = n};
	uint16_t cntlid = NVMF_CNTLID_DYNAMIC;

	h.admin = t_conn_new(env, n % 2, 0, 32);
	connect_as(h.admin, n, &cntlid);
	t_enable(h.admin);
	h.io = t_conn_new(env, (n + 1) % 2, 1, 16);
	connect_as(h.io, n, &cntlid);
	return h;
}

static uint16_t resv(struct host *h, uint8_t opcode, uint32_t cdw10, uint64_t key1, uint64_t key2)
{
	__le64 keys[2] = {htole64(key1), htole64(key2)};
	struct nvme_sqe sqe;

	t_sqe(h->io, &sqe, opcode, keys, opcode == nvme_cmd_resv_release ? 8 : 16);
	sqe.nsid = htole32(1);
	sqe.cdw10 = htole32(cdw10);
	return t_exec_status(h->io, &sqe);
}

#define CPTPL(v) ((uint32_t)(v) << 30)
#define RTYPE(v) ((uint32_t)(v) << 8)

static uint16_t reg(struct host *h, uint32_t cptpl)
{
	return resv(h, nvme_cmd_resv_register, CPTPL(cptpl), 0, KEY(h->n));
}

static uint16_t acquire(struct host *h, uint32_t rtype)
{
	return resv(h, nvme_cmd_resv_acquire, RTYPE(rtype), KEY(h->n), 0);
}

static uint16_t preempt(struct host *h, uint32_t action, uint64_t prkey, uint32_t rtype)
{
	return resv(h, nvme_cmd_resv_acquire, RTYPE(rtype) | action, KEY(h->n), prkey);
}

static uint16_t release(struct host *h, uint32_t rtype)
{
	return resv(h, nvme_cmd_resv_release, RTYPE(rtype), KEY(h->n), 0);
}

static uint16_t resv_cmd_rw(struct host *h, bool write)
{
	static uint8_t data[512];
	struct nvme_sqe sqe;

	t_rw_sqe(h->io, &sqe, write, 0, 1, data);
	return t_exec_status(h->io, &sqe);
}

struct report {
	struct nvme_resv_status head;
	struct nvme_registered_ctrl_ext regs[4];
};

static struct report get_report(struct host *h)
{
	static struct report page;
	struct nvme_sqe sqe;

	memset(&page, 0xee, sizeof(page));
	t_sqe(h->io, &sqe, nvme_cmd_resv_report, &page, sizeof(page));
	sqe.nsid = htole32(1);
	sqe.cdw10 = htole32(sizeof(page) / 4 - 1);
	sqe.cdw11 = htole32(1);
	CU_ASSERT_EQUAL(t_exec_status(h->io, &sqe), 0);
	return page;
}

static bool log_take(struct t_env *env, unsigned int n, struct nvme_resv_notification_log *page)
{
	struct rdt_ctrl *ctrl;
	bool found = false;

	TAILQ_FOREACH (ctrl, &env->t->subsys[0]->ctrls, link)
		if (ctrl->hostid[0] == n && !found)
			found = rdt_resv_log_take(ctrl, page, true);
	return found;
}

/* ---- enforcement ---- */

static void a_reservation_outlives_the_connection(void)
{
	T_ENV(env);
	struct host one = host_new(env, 1), two = host_new(env, 2);
	struct report r;

	CU_ASSERT_EQUAL(reg(&one, 0), 0);
	CU_ASSERT_EQUAL(acquire(&one, EA), 0);
	t_conn_cut(one.admin);
	t_conn_cut(one.io);
	t_turn(env);
	CU_ASSERT_EQUAL(env->t->subsys[0]->ctrls_count, 1);
	CU_ASSERT_EQUAL(resv_cmd_rw(&two, false), CONFLICT);
	r = get_report(&two); /* any host may read */
	CU_ASSERT_EQUAL(r.head.rtype, EA);
	CU_ASSERT_EQUAL(r.head.regctl[0], 1);
	CU_ASSERT_EQUAL(r.regs[0].hostid[3], 1);
	CU_ASSERT_EQUAL(le64toh(r.regs[0].rkey), KEY(1));
	CU_ASSERT_EQUAL(r.regs[0].rcsts, 1);
	one = host_new(env, 1);
	CU_ASSERT_EQUAL(resv_cmd_rw(&one, true), 0);
}

/* A write that was admitted and still fetches its data when the reservation is acquired. */
static void what_has_not_begun_is_checked_again(void)
{
	T_ENV(env);
	struct host one = host_new(env, 1), two = host_new(env, 2);
	struct t_disk *d = &env->disk[0];
	uint8_t data[512] = {1};
	unsigned int before;

	CU_ASSERT_EQUAL(reg(&one, 0), 0);
	two.io->hold_fetch = true;
	before = d->submitted;
	t_send_rw(two.io, true, 0, 1, data);
	t_turn(env);
	CU_ASSERT_EQUAL(t_answers(two.io), 0);
	CU_ASSERT_EQUAL(acquire(&one, WE), 0);
	two.io->hold_fetch = false;
	t_turn(env);
	CU_ASSERT_EQUAL(t_answer_status(two.io), CONFLICT);
	CU_ASSERT_EQUAL(d->submitted, before);
}

/* ---- preempt and abort ---- */

static void preempt_and_abort_ends_what_runs(void)
{
	T_ENV(env);
	struct host one = host_new(env, 1), two = host_new(env, 2), two_b = host_new(env, 2);
	struct t_disk *d = &env->disk[0];
	__le64 keys[2] = {htole64(KEY(1)), htole64(KEY(2))};
	uint8_t data[2][512] = {{1}, {2}};
	struct nvme_sqe sqe;

	d->can_cancel = true;
	CU_ASSERT_EQUAL(reg(&one, 0), 0);
	CU_ASSERT_EQUAL(reg(&two, 0), 0);
	CU_ASSERT_EQUAL(acquire(&two, WE), 0);
	/* One write is in the backend, one of the host's other controller fetches its data. */
	d->hold = true;
	t_send_rw(two.io, true, 0, 1, data[0]);
	t_turn(env);
	CU_ASSERT_EQUAL_FATAL(d->held_count, 1);
	two_b.io->hold_fetch = true;
	t_send_rw(two_b.io, true, 8, 1, data[1]);
	t_turn(env);
	t_sqe(one.io, &sqe, nvme_cmd_resv_acquire, keys, 16);
	sqe.nsid = htole32(1);
	sqe.cdw10 = htole32(RTYPE(EA) | NVME_RESERVATION_RACQA_PREEMPT_AND_ABORT);
	t_begin(one.io, &sqe);
	CU_ASSERT_EQUAL(d->cancelled, 1);
	CU_ASSERT_EQUAL(t_answers(one.io), 0); /* not before the write has ended */
	t_disk_finish(d, 0, -ECANCELED);
	t_turn(env);
	CU_ASSERT_EQUAL(t_answer_status(two.io), NVME_SC_CMD_ABORTED_PREMEPT);
	CU_ASSERT_EQUAL(t_answer_status(one.io), 0);
	two_b.io->hold_fetch = false;
	t_turn(env);
	CU_ASSERT_EQUAL(t_answer_status(two_b.io), NVME_SC_CMD_ABORTED_PREMEPT);
	CU_ASSERT_EQUAL(d->held_count, 0);
	CU_ASSERT_EQUAL(d->data[8 * 512], 0);
	d->hold = false;
	CU_ASSERT_EQUAL(resv_cmd_rw(&two, false), CONFLICT);
	CU_ASSERT_EQUAL(resv_cmd_rw(&one, true), 0);
}

/* A backend that cannot cancel: the preempting host waits until the write has ended. */
static void preempt_and_abort_waits_for_what_cannot_be_cancelled(void)
{
	T_ENV(env);
	struct host one = host_new(env, 1), two = host_new(env, 2);
	struct t_disk *d = &env->disk[0];
	__le64 keys[2] = {htole64(KEY(1)), htole64(KEY(2))};
	uint8_t data[512] = {7};
	struct nvme_sqe sqe;

	CU_ASSERT_EQUAL(reg(&one, 0), 0);
	CU_ASSERT_EQUAL(reg(&two, 0), 0);
	d->hold = true;
	t_send_rw(two.io, true, 0, 1, data);
	t_turn(env);
	t_sqe(one.io, &sqe, nvme_cmd_resv_acquire, keys, 16);
	sqe.nsid = htole32(1);
	sqe.cdw10 = htole32(RTYPE(EA) | NVME_RESERVATION_RACQA_PREEMPT_AND_ABORT);
	t_begin(one.io, &sqe);
	CU_ASSERT_EQUAL(t_answers(one.io), 0);
	t_conn_cut(two.io); /* the same if the other host disconnects */
	t_turn(env);
	CU_ASSERT_EQUAL(t_answers(one.io), 0);
	d->hold = false;
	t_turn(env);
	CU_ASSERT_EQUAL(t_answer_status(one.io), 0);
}

static unsigned int still_fetching(const struct host *hosts, unsigned int count)
{
	unsigned int fetching = 0;
	struct rdt_req *req;

	for (unsigned int i = 0; i < count; i++)
		RDT_FOREACH_REQ (req, &hosts[i].io->qp)
			fetching += req->state == RDT_REQ_FETCHING;
	return fetching;
}

/* A reactor looks at its queue pairs a few at a time, and ends one write of the victim after the
 * other meanwhile. */
static void preempt_and_abort_in_slices(void)
{
	enum { VICTIMS = 30 };
	T_ENV(env);
	struct host one = host_new(env, 1), two[VICTIMS];
	uint8_t data[VICTIMS][512] = {{1}};
	__le64 keys[2] = {htole64(KEY(1)), htole64(KEY(2))};
	struct nvme_sqe sqe;
	unsigned int fetching, most = 0;

	for (unsigned int i = 0; i < VICTIMS; i++)
		two[i] = host_new(env, 2);
	CU_ASSERT_EQUAL(reg(&one, 0), 0);
	CU_ASSERT_EQUAL(reg(&two[0], 0), 0);
	for (unsigned int i = 0; i < VICTIMS; i++) {
		two[i].io->hold_respond = true;
		two[i].io->hold_fetch = true;
		t_send_rw(two[i].io, true, i, 1, data[i]);
	}
	t_turn(env);
	t_sqe(one.io, &sqe, nvme_cmd_resv_acquire, keys, 16);
	sqe.nsid = htole32(1);
	sqe.cdw10 = htole32(RTYPE(EA) | NVME_RESERVATION_RACQA_PREEMPT_AND_ABORT);
	t_send(one.io, &sqe, NULL, 0);
	fetching = still_fetching(two, VICTIMS);
	CU_ASSERT(fetching > 6);
	env->tick = RDT_WALK_SLICE / 4;
	for (unsigned int turn = 0; turn < 1000 && !t_answers(one.io); turn++) {
		unsigned int now = still_fetching(two, VICTIMS);

		most = fetching - now > most ? fetching - now : most;
		fetching = now;
		t_pump(env);
	}
	env->tick = 0;
	CU_ASSERT_EQUAL(t_answer_status(one.io), 0);
	CU_ASSERT(most > 0 && most <= 6);
	for (unsigned int i = 0; i < VICTIMS; i++)
		two[i].io->hold_fetch = two[i].io->hold_respond = false;
	t_turn(env);
}

/* The second half of a Compare and Write is writing: the preempting host waits for it. */
static void preempt_and_abort_waits_for_a_pair_that_writes(void)
{
	T_ENV(env);
	struct host one = host_new(env, 1), two = host_new(env, 2);
	struct t_disk *d = &env->disk[0];
	__le64 keys[2] = {htole64(KEY(1)), htole64(KEY(2))};
	uint8_t old[512] = {0}, new[512] = {3};
	struct nvme_sqe sqe;

	CU_ASSERT_EQUAL(reg(&one, 0), 0);
	CU_ASSERT_EQUAL(reg(&two, 0), 0);
	d->hold = true;
	t_rw_sqe(two.io, &sqe, true, 0, 1, old);
	sqe.opcode = nvme_cmd_compare;
	sqe.flags |= NVME_CMD_FUSE_FIRST;
	t_send(two.io, &sqe, NULL, 0);
	t_rw_sqe(two.io, &sqe, true, 0, 1, new);
	sqe.flags |= NVME_CMD_FUSE_SECOND;
	t_begin(two.io, &sqe);
	t_disk_finish(d, 0, 0);
	t_turn(env);
	CU_ASSERT_EQUAL_FATAL(d->held_count, 1);
	CU_ASSERT_EQUAL(d->held[0]->op, RDT_BIO_WRITE);
	t_sqe(one.io, &sqe, nvme_cmd_resv_acquire, keys, 16);
	sqe.nsid = htole32(1);
	sqe.cdw10 = htole32(RTYPE(EA) | NVME_RESERVATION_RACQA_PREEMPT_AND_ABORT);
	t_begin(one.io, &sqe);
	CU_ASSERT_EQUAL(t_answers(one.io), 0);
	d->hold = false;
	t_turn(env);
	for (unsigned int i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(t_answer_status(two.io), 0);
	}
	CU_ASSERT_EQUAL(d->data[0], 3);
	CU_ASSERT_EQUAL(t_answer_status(one.io), 0);
}

static void on_removed(void *arg, int err, const char *text)
{
	CU_ASSERT_EQUAL(err, 0);
	*(bool *)arg = true;
}

/* Aborted, then preempted, then its namespace is removed: it ends once, and all three are
 * answered. */
static void ends_for_three_reasons(void)
{
	T_ENV(env);
	struct host one = host_new(env, 1), two = host_new(env, 2);
	struct t_disk *d = &env->disk[0];
	__le64 keys[2] = {htole64(KEY(1)), htole64(KEY(2))};
	uint8_t data[512] = {7};
	struct nvme_sqe sqe;
	bool removed = false;
	struct t_answer a;

	d->can_cancel = true;
	CU_ASSERT_EQUAL(reg(&one, 0), 0);
	CU_ASSERT_EQUAL(reg(&two, 0), 0);
	d->hold = true;
	t_rw_sqe(two.io, &sqe, true, 0, 1, data);
	t_begin(two.io, &sqe);
	CU_ASSERT_EQUAL_FATAL(two.io->qp.used, 1);
	t_send_abort(two.admin, 1, sqe.cid);
	CU_ASSERT_EQUAL(two.io->qp.reqs[0]->state, RDT_REQ_ABORTING);
	t_sqe(one.io, &sqe, nvme_cmd_resv_acquire, keys, 16);
	sqe.nsid = htole32(1);
	sqe.cdw10 = htole32(RTYPE(EA) | NVME_RESERVATION_RACQA_PREEMPT_AND_ABORT);
	t_begin(one.io, &sqe);
	CU_ASSERT_EQUAL(two.io->qp.reqs[0]->state, RDT_REQ_PREEMPTED);
	rdt_control_ns_remove(t_ns_of(env->t->subsys[0], 1), on_removed, &removed);
	t_turn(env);
	CU_ASSERT_EQUAL(two.io->qp.reqs[0]->state, RDT_REQ_NS_GONE);
	CU_ASSERT_EQUAL(t_answers(one.io) + t_answers(two.io) + t_answers(two.admin) + removed, 0);
	t_disk_finish(d, 0, -ECANCELED);
	t_turn(env);
	CU_ASSERT_EQUAL(t_answer_status(two.io), NVME_SC_ABORT_REQ);
	a = t_answer(two.admin);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, 0);
	CU_ASSERT_EQUAL(t_answers(one.io), 1);
	CU_ASSERT_TRUE(removed);
}

/* ---- notifications ---- */

static void reset_host(struct host *h, bool disable)
{
	if (disable)
		t_set_property(h->admin, NVME_REG_CC, 0x00460000);
	else
		t_enable(h->admin);
	t_turn(h->admin->env);
}

/* The host is not told of these notifications any more, so they must not be in the log. */
static void a_reset_clears_the_notifications(void)
{
	T_ENV(env);
	struct host one = host_new(env, 1), two = host_new(env, 2), three = host_new(env, 3);
	struct nvme_resv_notification_log page;

	CU_ASSERT_EQUAL(reg(&one, 0), 0);
	CU_ASSERT_EQUAL(reg(&two, 0), 0);
	CU_ASSERT_EQUAL(reg(&three, 0), 0);
	CU_ASSERT_EQUAL(acquire(&one, WE), 0);
	reset_host(&three, true);
	CU_ASSERT_EQUAL(preempt(&one, NVME_RESERVATION_RACQA_PREEMPT, KEY(2), WE), 0);
	CU_ASSERT_EQUAL(preempt(&one, NVME_RESERVATION_RACQA_PREEMPT, KEY(3), WE), 0);
	reset_host(&two, true);
	reset_host(&two, false);
	reset_host(&three, false);
	CU_ASSERT_FALSE(log_take(env, 2, &page));
	CU_ASSERT_FALSE(log_take(env, 3, &page));
}

static void mask_all(struct host *h, uint32_t nsid)
{
	struct nvme_sqe sqe;

	t_sqe(h->admin, &sqe, nvme_admin_set_features, NULL, 0);
	sqe.nsid = htole32(nsid);
	sqe.cdw10 = htole32(NVME_FEAT_FID_RESV_MASK);
	sqe.cdw11 = htole32(0xe);
	CU_ASSERT_EQUAL(t_exec_status(h->admin, &sqe), 0);
}

static uint32_t mask_of(struct host *h)
{
	struct nvme_sqe sqe;
	struct t_answer a;

	t_sqe(h->admin, &sqe, nvme_admin_get_features, NULL, 0);
	sqe.nsid = htole32(1);
	sqe.cdw10 = htole32(NVME_FEAT_FID_RESV_MASK);
	a = t_exec(h->admin, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	return le32toh(a.cqe.result);
}

/* Of one namespace, or of all of them. */
static void a_reset_clears_the_masks(void)
{
	static const uint32_t nsids[] = {1, NVME_NSID_ALL};
	T_ENV(env);
	struct host one = host_new(env, 1), two = host_new(env, 2);
	struct nvme_resv_notification_log page;

	CU_ASSERT_EQUAL(reg(&one, 0), 0);
	CU_ASSERT_EQUAL(reg(&two, 0), 0);
	for (unsigned int i = 0; i < 2; i++) {
		mask_all(&two, nsids[i]);
		CU_ASSERT_EQUAL(mask_of(&two), 0xe);
		CU_ASSERT_EQUAL(acquire(&one, WERO), 0);
		CU_ASSERT_EQUAL(release(&one, WERO), 0);
		CU_ASSERT_FALSE(log_take(env, 2, &page));
		reset_host(&two, true);
		reset_host(&two, false);
		CU_ASSERT_EQUAL(mask_of(&two), 0);
		CU_ASSERT_EQUAL(acquire(&one, WERO), 0);
		CU_ASSERT_EQUAL(release(&one, WERO), 0);
		CU_ASSERT_TRUE(log_take(env, 2, &page));
		CU_ASSERT_EQUAL(page.rnlpt, NVME_RESV_NOTIFY_RNLPT_RESERVATION_RELEASED);
	}
}

static void the_log_says_how_much_was_lost(void)
{
	T_ENV(env);
	struct host one = host_new(env, 1), two = host_new(env, 2);
	struct nvme_resv_notification_log page;

	CU_ASSERT_EQUAL(reg(&two, 0), 0);
	for (unsigned int i = 0; i < RDT_RESV_LOG + 3; i++) {
		CU_ASSERT_EQUAL(reg(&one, 0), 0);
		CU_ASSERT_EQUAL(acquire(&one, WERO), 0);
		CU_ASSERT_EQUAL(release(&one, WERO), 0);
	}
	for (unsigned int i = 0; i < RDT_RESV_LOG; i++) {
		CU_ASSERT_TRUE(log_take(env, 2, &page));
		CU_ASSERT_EQUAL(le64toh(page.lpc), i + 1);
		CU_ASSERT_EQUAL(page.nalp, RDT_RESV_LOG - 1 - i);
	}
	CU_ASSERT_FALSE(log_take(env, 2, &page));
	CU_ASSERT_EQUAL(acquire(&one, WERO), 0);
	CU_ASSERT_EQUAL(release(&one, WERO), 0);
	CU_ASSERT_TRUE(log_take(env, 2, &page));
	CU_ASSERT_EQUAL(le64toh(page.lpc), RDT_RESV_LOG + 4);
}

/* ---- persistence ---- */

static void make_dir(char dir[64])
{
	strcpy(dir, "/var/tmp/rdt-test-XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
}

static unsigned int files_in(const char *dir, bool remove)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	unsigned int n = 0;
	char path[512];

	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		n++;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (remove)
			unlink(path);
	}
	closedir(d);
	if (remove)
		rmdir(dir);
	return n;
}

static void what_persists_is_there_after_a_restart(void)
{
	struct host one, two;
	struct t_env *env;
	struct report r;
	char dir[64];

	make_dir(dir);
	env = t_env_new_state(dir);
	one = host_new(env, 1);
	two = host_new(env, 2);
	CU_ASSERT_EQUAL(reg(&one, NVME_RESERVATION_CPTPL_PERSIST), 0);
	CU_ASSERT_EQUAL(files_in(dir, false), 2); /* and RDT_IDENTITY_FILE */
	CU_ASSERT_EQUAL(reg(&two, 0), 0);
	CU_ASSERT_EQUAL(acquire(&one, WERO), 0);
	t_env_free(env);

	env = t_env_new_state(dir);
	two = host_new(env, 3);
	CU_ASSERT_EQUAL(resv_cmd_rw(&two, true), CONFLICT); /* from the first command on */
	one = host_new(env, 1);
	CU_ASSERT_EQUAL(resv_cmd_rw(&one, true), 0);
	r = get_report(&one);
	CU_ASSERT_EQUAL(r.head.rtype, WERO);
	CU_ASSERT_EQUAL(r.head.ptpls, 1);
	CU_ASSERT_EQUAL(r.head.regctl[0], 2);
	CU_ASSERT_EQUAL(le32toh(r.head.gen), 2);
	/* Without persistence nothing is kept. */
	CU_ASSERT_EQUAL(
		resv(&one, nvme_cmd_resv_register, CPTPL(NVME_RESERVATION_CPTPL_CLEAR), 0, KEY(1)),
		0);
	CU_ASSERT_EQUAL(files_in(dir, false), 1);
	r = get_report(&one);
	CU_ASSERT_EQUAL(r.head.rtype, WERO);
	t_env_free(env);

	env = t_env_new_state(dir);
	one = host_new(env, 1);
	r = get_report(&one);
	CU_ASSERT_EQUAL(r.head.rtype, 0);
	CU_ASSERT_EQUAL(r.head.regctl[0], 0);
	t_env_free(env);
	files_in(dir, true);
}

static void a_write_that_fails_changes_nothing(void)
{
	char dir[64], path[160];
	struct t_env *env;
	struct host one, two;
	struct report r;

	make_dir(dir);
	env = t_env_new_state(dir);
	one = host_new(env, 1);
	two = host_new(env, 2);
	CU_ASSERT_EQUAL(reg(&one, NVME_RESERVATION_CPTPL_PERSIST), 0);
	snprintf(path, sizeof(path), "%s/10101010-1010-1010-1010-101010101010.resv.json", dir);
	if (access(path, F_OK))
		snprintf(path, sizeof(path), "%s/11111111-1111-1111-1111-111111111111.resv.json",
			 dir);
	CU_ASSERT_EQUAL(access(path, F_OK), 0);
	strcat(path, ".new");
	CU_ASSERT_EQUAL(mkdir(path, 0700), 0); /* a folder in the way */
	CU_ASSERT_EQUAL(acquire(&one, WE), NVME_SC_INTERNAL);
	CU_ASSERT_EQUAL(resv_cmd_rw(&two, true), 0);
	r = get_report(&one);
	CU_ASSERT_EQUAL(r.head.rtype, 0);
	CU_ASSERT_EQUAL(rmdir(path), 0);
	CU_ASSERT_EQUAL(acquire(&one, WE), 0);
	CU_ASSERT_EQUAL(resv_cmd_rw(&two, true), CONFLICT);
	t_env_free(env);
	files_in(dir, true);
}

static void persistence_needs_a_state_dir(void)
{
	T_ENV(env);
	struct host one = host_new(env, 1);

	CU_ASSERT_EQUAL(reg(&one, NVME_RESERVATION_CPTPL_PERSIST), INVALID);
	CU_ASSERT_EQUAL(rdt_resv_rescap(env->t->ns[0]) & NVME_NS_RESCAP_PTPL, 0);
	CU_ASSERT_EQUAL(reg(&one, NVME_RESERVATION_CPTPL_CLEAR), 0);
}

/* ---- fields ---- */

/* Of 16 GiB, by NUMD. */
static void a_report_beyond_the_limit(void)
{
	T_ENV(env);
	struct host one = host_new(env, 1);
	uint8_t page[64];
	struct nvme_sqe sqe;

	t_sqe(one.io, &sqe, nvme_cmd_resv_report, page, sizeof(page));
	sqe.nsid = sqe.cdw11 = htole32(1);
	sqe.cdw10 = htole32(UINT32_MAX);
	CU_ASSERT_EQUAL(t_exec_status(one.io, &sqe), NVME_SC_INVALID_FIELD);
}

static void off_is_off(void)
{
	T_ENV(env);
	struct host one;
	struct nvme_id_ctrl id;
	struct nvme_sqe sqe;

	env->subsys[0].reservations = RDT_RESERVATIONS_OFF;
	one = host_new(env, 1);
	CU_ASSERT_EQUAL(reg(&one, 0), NVME_SC_INVALID_OPCODE);
	CU_ASSERT_EQUAL(acquire(&one, WE), NVME_SC_INVALID_OPCODE);
	CU_ASSERT_EQUAL(release(&one, WE), NVME_SC_INVALID_OPCODE);
	CU_ASSERT_EQUAL(resv_cmd_rw(&one, true), 0);
	t_sqe(one.admin, &sqe, nvme_admin_identify, &id, sizeof(id));
	sqe.cdw10 = htole32(NVME_IDENTIFY_CNS_CTRL);
	CU_ASSERT_EQUAL(t_exec_status(one.admin, &sqe), 0);
	CU_ASSERT_EQUAL(le16toh(id.oncs) & NVME_CTRL_ONCS_RESERVATIONS, 0);
	CU_ASSERT_EQUAL(rdt_resv_rescap(t_ns_of(env->t->subsys[0], 1)), 0);
	CU_ASSERT_EQUAL(rdt_feature_effects(env->t->subsys[0], NVME_FEAT_FID_RESV_MASK), 0);
	CU_ASSERT_FALSE(
		rdt_cmd_supported(&env->t->cmds->io[nvme_cmd_resv_register], env->t->subsys[0]));
}

/* Thousands of registrations queue up behind a change that waits for the reactors. */
#define QUEUED      4000u
#define SMALL_STACK (128u << 10) /* arm64 has no smaller stacks */

static void *turn_thread(void *arg)
{
	t_turn(arg);
	return NULL;
}

static void registrations_queue_up(void)
{
	T_ENV(env);
	struct host one = host_new(env, 1);
	uint16_t cntlid = one.admin->qp.ctrl->cntlid;
	struct t_conn *c = t_conn_new(env, 1, 2, QUEUED + 8);
	__le64 keys[2];
	pthread_attr_t attr;
	struct nvme_sqe sqe;
	pthread_t thread;

	connect_as(c, 1, &cntlid);
	CU_ASSERT_EQUAL(reg(&one, 0), 0);
	CU_ASSERT_EQUAL(acquire(&one, WE), 0);
	for (unsigned int i = 0; i <= QUEUED; i++) {
		uint32_t len = i ? 16 : 8;

		keys[0] = keys[1] = htole64(KEY(1));
		t_sqe(c, &sqe, i ? nvme_cmd_resv_register : nvme_cmd_resv_release, keys, len);
		t_in_capsule(&sqe, len);
		sqe.nsid = htole32(1);
		sqe.cdw10 = htole32(i ? NVME_RESERVATION_RREGA_REPLACE_KEY : RTYPE(WE));
		t_send(c, &sqe, keys, len);
	}
	CU_ASSERT_EQUAL(pthread_attr_init(&attr), 0);
	CU_ASSERT_EQUAL(pthread_attr_setstacksize(&attr, SMALL_STACK), 0);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, &attr, turn_thread, env), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	CU_ASSERT_EQUAL_FATAL(t_answers(c), QUEUED + 1);
	for (unsigned int i = 0; i <= QUEUED; i++) {
		struct t_answer a = t_answer(c);

		CU_ASSERT_EQUAL(t_status(&a), 0);
	}
}

const struct t_case t_resv_cases[] = {
	{"a reservation outlives the connection", a_reservation_outlives_the_connection},
	{"what has not begun is checked again", what_has_not_begun_is_checked_again},
	{"preempt and abort ends what runs", preempt_and_abort_ends_what_runs},
	{"preempt and abort looks at a few queues in a turn", preempt_and_abort_in_slices},
	{"preempt and abort waits where it cannot cancel",
	 preempt_and_abort_waits_for_what_cannot_be_cancelled},
	{"preempt and abort waits for a pair that writes",
	 preempt_and_abort_waits_for_a_pair_that_writes},
	{"a command ends once, for whatever reasons", ends_for_three_reasons},
	{"a reset clears the notifications", a_reset_clears_the_notifications},
	{"a reset clears the masks of notifications", a_reset_clears_the_masks},
	{"the log says how much was lost", the_log_says_how_much_was_lost},
	{"what persists is there after a restart", what_persists_is_there_after_a_restart},
	{"a write that fails changes nothing", a_write_that_fails_changes_nothing},
	{"persistence needs a state_dir", persistence_needs_a_state_dir},
	{"thousands of registrations that queue up are a loop", registrations_queue_up},
	{"a report has a limit", a_report_beyond_the_limit},
	{"where they are off hosts have none of it", off_is_off},
	{NULL, NULL},
};
