/* SPDX-License-Identifier: BSD-3-Clause */
/* Several hosts and several paths: which hosts may connect, which namespaces they see, and on which
 * path. */
#include <errno.h>
#include <string.h>

#include "util/sockaddr.h"
#include "t_target.h"

#define CMD(sc)  (NVME_SCT_CMD_SPECIFIC << 8 | (sc))
#define PATH(sc) (NVME_SCT_PATH << 8 | (sc))

/* Connect @host to the first subsystem through @l, and enable. NULL: refused, with *status. */
static struct t_conn *join(struct t_env *env, struct rdt_listener *l, const char *host,
			   uint16_t *status, uint16_t *cntlid)
{
	struct t_conn *c = t_conn_new(env, 0, 0, 32);
	struct t_answer a;

	c->qp.listener = l;
	a = t_connect_as(c, NVMF_CNTLID_DYNAMIC, host, (uint8_t)host[strlen(host) - 1]);
	if (status)
		*status = t_status(&a);
	if (t_status(&a))
		return NULL;
	if (cntlid)
		*cntlid = (uint16_t)le32toh(a.cqe.result);
	t_enable(c);
	return c;
}

static uint16_t join_status(struct t_env *env, struct rdt_listener *l, const char *host)
{
	uint16_t status;

	join(env, l, host, &status, NULL);
	return status;
}

static struct t_answer multihost_identify(struct t_conn *c, uint32_t cns, uint32_t nsid, void *buf)
{
	struct nvme_sqe sqe;

	memset(buf, 0xee, 4096);
	t_sqe(c, &sqe, nvme_admin_identify, buf, 4096);
	sqe.nsid = htole32(nsid);
	sqe.cdw10 = htole32(cns);
	return t_exec(c, &sqe);
}

static struct t_answer multihost_get_log(struct t_conn *c, uint32_t lid_lsp, uint32_t offset,
					 void *buf, uint32_t len)
{
	struct nvme_sqe sqe;

	memset(buf, 0xee, len);
	t_sqe(c, &sqe, nvme_admin_get_log_page, buf, len);
	sqe.cdw10 = htole32(lid_lsp | (len / 4 - 1) << 16);
	sqe.cdw12 = htole32(offset);
	return t_exec(c, &sqe);
}

static struct t_answer multihost_feature(struct t_conn *c, bool set, uint32_t cdw10, uint32_t cdw11,
					 uint32_t nsid, void *buf, uint32_t len)
{
	struct nvme_sqe sqe;

	t_sqe(c, &sqe, set ? nvme_admin_set_features : nvme_admin_get_features, buf, len);
	sqe.cdw10 = htole32(cdw10);
	sqe.cdw11 = htole32(cdw11);
	sqe.nsid = htole32(nsid);
	return t_exec(c, &sqe);
}

static uint16_t multihost_read_block(struct t_conn *io, uint32_t nsid)
{
	struct nvme_sqe sqe;
	uint8_t buf[512];

	t_rw_sqe(io, &sqe, false, 0, 1, buf);
	sqe.nsid = htole32(nsid);
	return t_exec_status(io, &sqe);
}

/* ---- what a host sees ---- */

static void masked_namespace(void)
{
	T_PAIR(p);
	struct rdt_subsys *ss = p.env->t->subsys[0];
	const char *one[] = {T_HOST}, *two[] = {T_HOST2};
	struct nvme_ns_list list;
	struct t_conn *other, *later;
	uint8_t buf[4096], zero[4096] = {0};
	struct t_answer a;

	CU_ASSERT_EQUAL(rdt_ns_set_hosts(t_ns_of(ss, 5), false, two, 1), 0);
	other = join(p.env, NULL, T_HOST2, NULL, NULL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(other);
	/* For T_HOST, the namespace does not exist. */
	multihost_identify(p.admin, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST, 0, &list);
	CU_ASSERT_EQUAL(le32toh(list.ns[0]), 1);
	CU_ASSERT_EQUAL(list.ns[1], 0);
	multihost_identify(p.admin, NVME_IDENTIFY_CNS_ALLOCATED_NS_LIST, 0, &list);
	CU_ASSERT_EQUAL(list.ns[1], 0);
	a = multihost_identify(p.admin, NVME_IDENTIFY_CNS_NS, 5, buf);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(memcmp(buf, zero, sizeof(buf)), 0);
	a = multihost_identify(p.admin, NVME_IDENTIFY_CNS_ALLOCATED_NS, 5, buf);
	CU_ASSERT_EQUAL(memcmp(buf, zero, sizeof(buf)), 0);
	a = multihost_identify(p.admin, NVME_IDENTIFY_CNS_CSI_INDEPENDENT_ID_NS, 5, buf);
	CU_ASSERT_EQUAL(memcmp(buf, zero, sizeof(buf)), 0);
	a = multihost_identify(p.admin, NVME_IDENTIFY_CNS_NS_DESC_LIST, 5, buf);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_INVALID_NS);
	a = multihost_identify(p.admin, NVME_IDENTIFY_CNS_NS_CTRL_LIST, 5, buf);
	CU_ASSERT_EQUAL(memcmp(buf, zero, sizeof(buf)), 0);
	CU_ASSERT_EQUAL(multihost_read_block(p.io, 5), NVME_SC_INVALID_NS);
	CU_ASSERT_EQUAL(multihost_read_block(p.io, 1), 0);
	/* The same for a controller created later. */
	later = join(p.env, NULL, T_HOST, NULL, NULL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(later);
	multihost_identify(later, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST, 0, &list);
	CU_ASSERT_EQUAL(list.ns[1], 0);
	/* The other host sees both. */
	multihost_identify(other, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST, 0, &list);
	CU_ASSERT_EQUAL(le32toh(list.ns[1]), 5);
	/* Swapped while both are connected: each is notified of what changed for it. */
	CU_ASSERT_EQUAL(rdt_ns_set_hosts(t_ns_of(ss, 5), false, one, 1), 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL(multihost_read_block(p.io, 5), 0);
	multihost_get_log(p.admin, NVME_LOG_LID_CHANGED_NS, 0, &list, sizeof(list));
	CU_ASSERT_EQUAL(le32toh(list.ns[0]), 5);
	multihost_get_log(other, NVME_LOG_LID_CHANGED_NS, 0, &list, sizeof(list));
	CU_ASSERT_EQUAL(le32toh(list.ns[0]), 5);
	multihost_identify(other, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST, 0, &list);
	CU_ASSERT_EQUAL(list.ns[1], 0);
	/* An empty list means every host; a host that saw the namespace already is not notified. */
	CU_ASSERT_EQUAL(rdt_ns_set_hosts(t_ns_of(ss, 5), true, NULL, 0), 0);
	multihost_get_log(p.admin, NVME_LOG_LID_CHANGED_NS, 0, &list, sizeof(list));
	CU_ASSERT_EQUAL(list.ns[0], 0);
}

/* ---- who may connect ---- */

static void hosts_change(void)
{
	T_PAIR(p);
	struct rdt_subsys *ss = p.env->t->subsys[0];
	const char *two[] = {T_HOST2};
	bool gone = false, io_gone = false, other_gone = false;
	uint64_t genctr = atomic_load(&p.env->t->genctr);
	struct t_conn *other = join(p.env, NULL, T_HOST2, NULL, NULL);

	p.admin->gone = &gone;
	p.io->gone = &io_gone;
	other->gone = &other_gone;
	CU_ASSERT_EQUAL(rdt_subsys_set_hosts(ss, false, two, 1, NULL), 0);
	t_turn(p.env);
	CU_ASSERT_TRUE(gone);
	CU_ASSERT_TRUE(io_gone);
	CU_ASSERT_FALSE(other_gone);
	CU_ASSERT_EQUAL(ss->ctrls_count, 1);
	CU_ASSERT_EQUAL(atomic_load(&p.env->t->genctr), genctr + 1);
	CU_ASSERT_EQUAL(join_status(p.env, NULL, T_HOST), CMD(NVME_SC_CONNECT_INVALID_PARAM));
	/* No change, no notification */
	CU_ASSERT_EQUAL(rdt_subsys_set_hosts(ss, false, two, 1, NULL), 0);
	CU_ASSERT_EQUAL(atomic_load(&p.env->t->genctr), genctr + 1);
	CU_ASSERT_EQUAL(rdt_subsys_set_hosts(ss, true, NULL, 0, NULL), 0);
	CU_ASSERT_EQUAL(join_status(p.env, NULL, T_HOST), 0);
	other->gone = NULL;
}

/* Before its namespaces go, whose commands would end with errors that are not of a path. */
static void subsystem_is_removed_and_added(void)
{
	T_ENV(env);
	struct rdt_subsys *ss = env->t->subsys[0], *next;
	char text[128];

	for (unsigned int i = 0; i < 3; i++)
		CU_ASSERT_PTR_NOT_NULL_FATAL(join(env, NULL, T_HOST, NULL, NULL));
	rdt_control_subsys_remove(ss);
	CU_ASSERT_EQUAL(t_ctrls_staying(ss), 0);
	CU_ASSERT_PTR_NULL(rdt_subsys_find(env->t, T_NQN));
	CU_ASSERT_EQUAL_FATAL(rdt_control_subsys_add(env->t, &env->subsys[0], &env->cfg, &next,
						     text, sizeof(text)),
			      0);
	rdt_control_subsys_show(next);
	CU_ASSERT_PTR_EQUAL(rdt_subsys_find(env->t, T_NQN), next);
	t_turn(env);
	CU_ASSERT_EQUAL(ss->ctrls_count, 0);
	CU_ASSERT_EQUAL(join_status(env, NULL, T_HOST), 0);
	CU_ASSERT_EQUAL(ss->ctrls_count, 0);
	CU_ASSERT_EQUAL(next->ctrls_count, 1);
	CU_ASSERT_EQUAL(ss->state, RDT_SUBSYS_LEAVING); /* as long as it has namespaces */
}

/* As to end the use of an old key. */
static void a_host_is_denied_and_allowed_at_once(void)
{
	T_ENV(env);
	struct rdt_subsys *ss = env->t->subsys[0];
	const char *one[] = {T_HOST}, *two[] = {T_HOST2};

	CU_ASSERT_PTR_NOT_NULL_FATAL(join(env, NULL, T_HOST, NULL, NULL));
	CU_ASSERT_EQUAL(rdt_subsys_set_hosts(ss, false, two, 1, NULL), 0);
	CU_ASSERT_EQUAL(rdt_subsys_set_hosts(ss, false, one, 1, NULL), 0);
	t_turn(env);
	CU_ASSERT_EQUAL(ss->ctrls_count, 0);
}

static void duplicates(void)
{
	T_ENV(env);
	struct rdt_subsys *ss = env->t->subsys[0];
	struct rdt_listener l[2] = {0};
	bool gone = false, path_gone = false;
	struct t_conn *first = join(env, &l[0], T_HOST, NULL, NULL);
	struct t_conn *path = join(env, &l[1], T_HOST, NULL, NULL);

	first->gone = &gone;
	path->gone = &path_gone;
	CU_ASSERT_EQUAL(join_status(env, &l[0], T_HOST), 0); /* allowed by default */
	ss->duplicate_host = RDT_DUPLICATE_REFUSE;
	CU_ASSERT_EQUAL(join_status(env, &l[0], T_HOST), CMD(NVME_SC_CONNECT_CTRL_BUSY));
	CU_ASSERT_EQUAL(join_status(env, &l[0], T_HOST2), 0);
	CU_ASSERT_EQUAL(ss->ctrls_count, 4);
	ss->duplicate_host = RDT_DUPLICATE_REPLACE;
	CU_ASSERT_EQUAL(join_status(env, &l[0], T_HOST), 0);
	t_turn(env);
	/* Both of the first listener ended; the other path and the other host stay. */
	CU_ASSERT_TRUE(gone);
	CU_ASSERT_FALSE(path_gone);
	CU_ASSERT_EQUAL(ss->ctrls_count, 3);
	path->gone = NULL;
}

/* A disk that hangs keeps the old controller, and its host is let in again. */
static void duplicate_of_a_lost_controller(void)
{
	T_ENV(env);
	struct rdt_subsys *ss = env->t->subsys[0];
	struct rdt_listener l = {0};
	struct nvme_sqe sqe;
	uint8_t buf[512];
	uint16_t cntlid;
	struct t_conn *admin = join(env, &l, T_HOST, NULL, &cntlid);
	struct t_conn *io = t_conn_new(env, 1, 1, 16);
	struct t_answer a = t_connect_as(io, cntlid, T_HOST, '1');

	CU_ASSERT_EQUAL_FATAL(t_status(&a), 0);
	ss->duplicate_host = RDT_DUPLICATE_REFUSE;
	env->disk[0].hold = true;
	t_rw_sqe(io, &sqe, false, 0, 1, buf);
	t_begin(io, &sqe);
	t_turn(env);
	CU_ASSERT_EQUAL_FATAL(env->disk[0].held_count, 1);
	t_conn_cut(admin);
	t_conn_cut(io);
	t_turn(env);
	CU_ASSERT_EQUAL(ss->ctrls_count, 1);
	admin = t_conn_new(env, 0, 0, 32);
	admin->qp.listener = &l;
	a = t_connect_as(admin, NVMF_CNTLID_DYNAMIC, T_HOST, '1');
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(join_status(env, &l, T_HOST), CMD(NVME_SC_CONNECT_CTRL_BUSY));
	env->disk[0].hold = false;
	t_disk_finish(&env->disk[0], 0, 0);
	t_turn(env);
	CU_ASSERT_EQUAL(ss->ctrls_count, 1);
}

static void cntlid_range(void)
{
	T_ENV(env);
	struct rdt_subsys *ss = env->t->subsys[0];
	uint16_t id[3] = {0};
	struct t_conn *c;

	ss->cntlid_min = ss->next_cntlid = 700;
	ss->cntlid_max = 701;
	c = join(env, NULL, T_HOST, NULL, &id[0]);
	join(env, NULL, T_HOST, NULL, &id[1]);
	CU_ASSERT_EQUAL(id[0], 700);
	CU_ASSERT_EQUAL(id[1], 701);
	CU_ASSERT_EQUAL(join_status(env, NULL, T_HOST), CMD(NVME_SC_CONNECT_CTRL_BUSY));
	t_conn_cut(c);
	t_turn(env);
	join(env, NULL, T_HOST, NULL, &id[2]);
	CU_ASSERT_EQUAL(id[2], 700);
}

/* ---- paths ---- */

struct ana_env {
	struct t_env *env;
	struct rdt_listener l[2];
	struct rdt_listener_config cfg;
	struct t_conn *admin[2]; /* of one host, by each listener */
	struct t_conn *io[2];
};

/* join() made the Host ID from the NQN's last character. */
static struct t_conn *join_io(struct t_env *env, uint16_t cntlid)
{
	struct t_conn *c = t_conn_new(env, 1, 1, 16);
	struct t_answer a = t_connect_as(c, cntlid, T_HOST, '1');

	CU_ASSERT_EQUAL_FATAL(t_status(&a), 0);
	return c;
}

static void ana_new(struct ana_env *e)
{
	memset(e, 0, sizeof(*e));
	e->env = t_env_new();
	for (unsigned int i = 0; i < 2; i++) {
		uint16_t cntlid;

		e->l[i].cfg = &e->cfg;
		rdt_ana_init(&e->l[i]);
		e->admin[i] = join(e->env, &e->l[i], T_HOST, NULL, &cntlid);
		CU_ASSERT_PTR_NOT_NULL_FATAL(e->admin[i]);
		e->io[i] = join_io(e->env, cntlid);
	}
}

static void set_group(struct ana_env *e, unsigned int group, enum nvme_ana_state state)
{
	struct rdt_ana_states states = {{0}};

	for (unsigned int g = 1; g <= RDT_ANA_GROUPS; g++)
		states.of[g] = (uint8_t)rdt_ana_state_by(&e->l[0], g);
	states.of[group] = (uint8_t)state;
	rdt_ana_set(e->env->t, &e->l[0], states);
}

static void ana_states(void)
{
	static const struct {
		enum nvme_ana_state state;
		uint16_t status;
		bool nuse;
	} rows[] = {
		{NVME_ANA_STATE_NONOPTIMIZED, 0, true},
		{NVME_ANA_STATE_INACCESSIBLE, PATH(NVME_SC_ANA_INACCESSIBLE), false},
		{NVME_ANA_STATE_PERSISTENT_LOSS, PATH(NVME_SC_ANA_PERSISTENT_LOSS), false},
		{NVME_ANA_STATE_CHANGE, PATH(NVME_SC_ANA_TRANSITION), true},
		{NVME_ANA_STATE_OPTIMIZED, 0, true},
	};
	struct ana_env e;
	struct nvme_id_ns id;
	struct nvme_sqe sqe;
	struct t_answer a;
	uint8_t buf[512];

	ana_new(&e);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		set_group(&e, 1, rows[i].state);
		CU_ASSERT_EQUAL(multihost_read_block(e.io[0], 1), rows[i].status);
		CU_ASSERT_EQUAL(multihost_read_block(e.io[1], 1), 0); /* the other path works */
		t_rw_sqe(e.io[0], &sqe, true, 0, 1, buf);
		a = t_exec(e.io[0], &sqe);
		CU_ASSERT_EQUAL(t_status(&a), rows[i].status);
		CU_ASSERT_FALSE(t_dnr(&a)); /* otherwise the host would not try another path */
		t_sqe(e.io[0], &sqe, nvme_cmd_flush, NULL, 0);
		sqe.nsid = htole32(1);
		a = t_exec(e.io[0], &sqe);
		CU_ASSERT_EQUAL(t_status(&a), rows[i].status);
		/* Features of a namespace behave the same; Identify does not. */
		a = multihost_feature(e.admin[0], false, NVME_FEAT_FID_RESV_MASK, 0, 1, NULL, 0);
		CU_ASSERT_EQUAL(t_status(&a), rows[i].status);
		a = multihost_identify(e.admin[0], NVME_IDENTIFY_CNS_NS, 1, &id);
		CU_ASSERT_EQUAL(t_status(&a), 0);
		CU_ASSERT_EQUAL(le64toh(id.nsze), T_BLOCKS);
		CU_ASSERT_EQUAL(id.nuse != 0, rows[i].nuse);
		CU_ASSERT_EQUAL(le32toh(id.anagrpid), 1);
	}
	t_env_free(e.env);
}

static void ana_states_are_told_together(void)
{
	static const struct {
		unsigned int from, to, state;
		const char *text;
	} rows[] = {
		{1, 64, NVME_ANA_STATE_OPTIMIZED, "all optimized"},
		{7, 7, NVME_ANA_STATE_INACCESSIBLE, "7 inaccessible"},
		{9, 12, NVME_ANA_STATE_INACCESSIBLE, "7, 9-12 inaccessible"},
		{64, 64, NVME_ANA_STATE_NONOPTIMIZED, "64 non-optimized; 7, 9-12 inaccessible"},
		{10, 10, NVME_ANA_STATE_OPTIMIZED, "64 non-optimized; 7, 9, 11-12 inaccessible"},
		{1, 63, NVME_ANA_STATE_CHANGE, "64 non-optimized; 1-63 change"},
		{1, 64, NVME_ANA_STATE_INACCESSIBLE, "all inaccessible"},
	};
	char text[RDT_ANA_TEXT];
	struct ana_env e;

	ana_new(&e);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (unsigned int g = rows[i].from; g <= rows[i].to; g++)
			set_group(&e, g, rows[i].state);
		CU_ASSERT_STRING_EQUAL(rdt_ana_text(&e.l[0], text), rows[i].text);
	}
	for (unsigned int g = 1; g <= RDT_ANA_GROUPS; g++) /* the longest text */
		set_group(&e, g, g & 1 ? NVME_ANA_STATE_PERSISTENT_LOSS : NVME_ANA_STATE_CHANGE);
	CU_ASSERT_TRUE(strlen(rdt_ana_text(&e.l[0], text)) < RDT_ANA_TEXT - 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "62, 64 change"));
	t_env_free(e.env);
}

/* A group of the page, which need not be aligned. Returns the offset of the next one. */
static size_t group_at(const uint8_t *page, size_t pos, struct nvme_ana_group_desc *d,
		       uint32_t *first)
{
	memcpy(d, page + pos, sizeof(*d));
	if (d->nnsids)
		memcpy(first, page + pos + sizeof(*d), sizeof(*first));
	return pos + sizeof(*d) + 4 * le32toh(d->nnsids);
}

static void ana_log(void)
{
	struct ana_env e;
	uint8_t page[512];
	struct nvme_ana_log log;
	struct nvme_ana_group_desc d;
	uint64_t head, group;
	uint32_t nsid = 0;
	struct nvme_sqe sqe;
	struct t_answer a;
	size_t pos;

	ana_new(&e);
	rdt_ana_move(rdt_ns_with(e.env->t->subsys[0], 5), 3);
	a = multihost_get_log(e.admin[0], NVME_LOG_LID_ANA, 0, page, sizeof(page));
	CU_ASSERT_EQUAL(t_status(&a), 0);
	memcpy(&log, page, sizeof(log));
	CU_ASSERT_EQUAL(le16toh(log.ngrps), 2);
	pos = group_at(page, sizeof(log), &d, &nsid);
	CU_ASSERT_EQUAL(le32toh(d.grpid), 1);
	CU_ASSERT_EQUAL(le32toh(d.nnsids), 1);
	CU_ASSERT_EQUAL(le32toh(nsid), 1);
	CU_ASSERT_EQUAL(d.state, NVME_ANA_STATE_OPTIMIZED);
	group = le64toh(d.chgcnt);
	group_at(page, pos, &d, &nsid);
	CU_ASSERT_EQUAL(le32toh(d.grpid), 3);
	CU_ASSERT_EQUAL(le32toh(nsid), 5);
	head = le64toh(log.chgcnt);
	CU_ASSERT_NOT_EQUAL(head, 0);
	/* A change counts once, for its group and for the page, on its listener. */
	set_group(&e, 1, NVME_ANA_STATE_INACCESSIBLE);
	set_group(&e, 1, NVME_ANA_STATE_INACCESSIBLE);
	multihost_get_log(e.admin[0], NVME_LOG_LID_ANA | NVME_LOG_ANA_LSP_RGO_GROUPS_ONLY << 8, 0,
			  page, sizeof(page));
	memcpy(&log, page, sizeof(log));
	CU_ASSERT_EQUAL(le64toh(log.chgcnt), head + 1);
	pos = group_at(page, sizeof(log), &d, &nsid);
	CU_ASSERT_EQUAL(le64toh(d.chgcnt), group + 1);
	CU_ASSERT_EQUAL(d.state, NVME_ANA_STATE_INACCESSIBLE);
	CU_ASSERT_EQUAL(d.nnsids, 0); /* groups only */
	group_at(page, pos, &d, &nsid);
	CU_ASSERT_EQUAL(le32toh(d.grpid), 3);
	multihost_get_log(e.admin[1], NVME_LOG_LID_ANA, 0, page, sizeof(page));
	memcpy(&log, page, sizeof(log));
	group_at(page, sizeof(log), &d, &nsid);
	CU_ASSERT_EQUAL(le64toh(log.chgcnt), head);
	CU_ASSERT_EQUAL(d.state, NVME_ANA_STATE_OPTIMIZED);
	/* A window; one behind the last group, which nvme-cli reads as well; one past the end. */
	multihost_get_log(e.admin[0], NVME_LOG_LID_ANA, 16 + 32, page, 4);
	CU_ASSERT_EQUAL(page[0], 1);
	a = multihost_get_log(e.admin[0], NVME_LOG_LID_ANA, 16 + 36 + 36, page, 8);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(page[0], 0);
	t_sqe(e.admin[0], &sqe, nvme_admin_get_log_page, page, 4);
	sqe.cdw10 = htole32(NVME_LOG_LID_ANA);
	sqe.cdw12 = htole32(1 << 20);
	CU_ASSERT_EQUAL(t_exec_status(e.admin[0], &sqe), NVME_SC_INVALID_FIELD);
	t_env_free(e.env);
}

static void ana_event(void)
{
	struct ana_env e;
	struct nvme_sqe sqe;
	struct t_answer a;

	ana_new(&e);
	for (unsigned int i = 0; i < 2; i++) {
		a = multihost_feature(e.admin[i], true, NVME_FEAT_FID_ASYNC_EVENT,
				      NVME_CTRL_OAES_ANA, 0, NULL, 0);
		CU_ASSERT_EQUAL(t_status(&a), 0);
		t_sqe(e.admin[i], &sqe, nvme_admin_async_event, NULL, 0);
		t_send(e.admin[i], &sqe, NULL, 0);
	}
	t_turn(e.env);
	set_group(&e, 2, NVME_ANA_STATE_INACCESSIBLE); /* without namespaces */
	t_turn(e.env);
	CU_ASSERT_EQUAL(t_answers(e.admin[0]), 0);
	set_group(&e, 1, NVME_ANA_STATE_INACCESSIBLE);
	t_turn(e.env);
	CU_ASSERT_EQUAL_FATAL(t_answers(e.admin[0]), 1);
	a = t_answer(e.admin[0]);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 0x000c0302);
	CU_ASSERT_EQUAL(t_answers(e.admin[1]), 0);
	t_env_free(e.env);
}

/* ---- features with data ---- */

/* Retry delays are only for hosts that enabled them. */
static void retry_delays(void)
{
	T_PAIR(p);
	struct nvme_feat_host_behavior hb = {.acre = 1};
	struct nvme_sqe sqe;
	uint8_t buf[512];

	p.env->disk[0].fail = -EINTR;
	for (unsigned int on = 0; on < 2; on++) {
		struct t_answer a;

		if (on)
			multihost_feature(p.admin, true, NVME_FEAT_FID_HOST_BEHAVIOR, 0, 0, &hb,
					  sizeof(hb));
		t_rw_sqe(p.io, &sqe, false, 0, 1, buf);
		a = t_exec(p.io, &sqe);
		CU_ASSERT_EQUAL(le16toh(a.cqe.status) >> 1, NVME_SC_CMD_INTERRUPTED | on << 11);
	}
}

/* Takes the place of the C library's, on each thread. */
static _Thread_local unsigned long compared;

int strcmp(const char *a, const char *b)
{
	compared++;
	while (*a && *a == *b)
		a++, b++;
	return (unsigned char)*a - (unsigned char)*b;
}

#define MANY 300u

/* Each controller that ends looks for others of its host that wait for it, of which there are none,
 * so that their number must not count. */
static void many_controllers_of_a_host_end(void)
{
	T_ENV(env);
	unsigned long before;

	for (unsigned int i = 0; i < MANY; i++)
		CU_ASSERT_EQUAL_FATAL(join_status(env, NULL, T_HOST), 0);
	CU_ASSERT_EQUAL(t_ctrls_staying(env->t->subsys[0]), MANY);
	before = compared;
	CU_ASSERT_EQUAL(rdt_subsys_set_hosts(env->t->subsys[0], false, NULL, 0, NULL), 0);
	t_turn(env);
	CU_ASSERT_EQUAL(env->t->subsys[0]->ctrls_count, 0);
	CU_ASSERT_TRUE(compared - before < 20 * MANY);
}

const struct t_case t_multihost_cases[] = {
	{"a namespace that only some hosts see", masked_namespace},
	{"the list of hosts changes", hosts_change},
	{"controllers end when their subsystem is removed, before its namespaces go",
	 subsystem_is_removed_and_added},
	{"a host that is denied and allowed at once is disconnected",
	 a_host_is_denied_and_allowed_at_once},
	{"the end of many controllers of a host", many_controllers_of_a_host_end},
	{"a host that connects twice", duplicates},
	{"a host whose lost controller waits for storage", duplicate_of_a_lost_controller},
	{"controller IDs of a range", cntlid_range},
	{"ANA states and what they do to commands", ana_states},
	{"ANA states of many groups are told together", ana_states_are_told_together},
	{"the ANA log page and its counts", ana_log},
	{"an ANA change is told on its path only", ana_event},
	{"retry delays are for hosts that enabled them", retry_delays},
	{NULL, NULL},
};
