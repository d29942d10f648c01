/* SPDX-License-Identifier: BSD-3-Clause */
/* Subsystems and namespaces that come and go for years: each leaves nothing behind. */
#include <malloc.h>
#include <string.h>

#include "../../t_mutate.h"
#include "t_target.h"
#include "target/manage/objects/control.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"

#define NEW_NQN  "nqn.2026-11.io.rdnvme:cycle"
#define NEW_DISK 3u
#define WARM     200u

static struct rdt_ns_config cycle_ns = {
	.nsid = 1,
	.backend = RDT_BACKEND_MEMORY,
	.block_size = 512,
	.size_bytes = T_BLOCKS * 512,
	.uuid = "u",
	.ana_group = 1,
};

static struct rdt_subsys_config cycle_subsys = {
	.nqn = NEW_NQN,
	.serial = "CYCLE",
	.model = "model",
	.allow_any_host = true,
	.cntlid_min = 1,
	.cntlid_max = 0xffef,
	.namespaces = &cycle_ns,
	.namespaces_count = 1,
};

static void no_matter(void *arg, int err, const char *text)
{
}

static struct rdt_subsys *begin(struct t_env *env)
{
	struct rdt_subsys *ss;
	char text[256];

	CU_ASSERT_EQUAL_FATAL(
		rdt_control_subsys_add(env->t, &cycle_subsys, NULL, &ss, text, sizeof(text)), 0);
	env->disk_next = NEW_DISK;
	rdt_control_ns_add(ss, &cycle_ns, NULL, no_matter, NULL);
	rdt_control_subsys_show(ss);
	t_turn(env);
	return ss;
}

static struct t_conn *join_as(struct t_env *env, unsigned int reactor, uint16_t qid,
			      uint16_t *cntlid)
{
	struct t_conn *c = t_conn_new(env, reactor, qid, 32);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	struct t_answer a;

	t_connect_sqe(c, &sqe, &data, *cntlid);
	memset(data.subsysnqn, 0, sizeof(data.subsysnqn));
	strcpy(data.subsysnqn, NEW_NQN);
	a = t_exec(c, &sqe);
	CU_ASSERT_EQUAL_FATAL(t_status(&a), 0);
	*cntlid = (uint16_t)le32toh(a.cqe.result);
	return c;
}

/* A host with an I/O queue on the other reactor. With @held its Write is in the backend when the
 * subsystem goes. */
static void one_cycle(struct t_env *env, bool held)
{
	struct t_disk *d = &env->disk[NEW_DISK];
	static uint8_t buf[512], back[512];
	uint16_t cntlid = NVMF_CNTLID_DYNAMIC;
	struct rdt_subsys *ss = begin(env);
	struct t_conn *admin = join_as(env, 0, 0, &cntlid), *io;

	t_enable(admin);
	io = join_as(env, 1, 1, &cntlid);
	memset(buf, 0x5a, sizeof(buf));
	CU_ASSERT_EQUAL(t_rw(io, true, 3, 1, buf), 0);
	CU_ASSERT_EQUAL(t_rw(io, false, 3, 1, back), 0);
	CU_ASSERT_EQUAL(memcmp(buf, back, sizeof(buf)), 0);
	d->hold = held;
	if (held)
		t_send_rw(io, true, 4, 1, buf);
	t_turn(env);
	rdt_control_subsys_remove(ss);
	rdt_control_ns_remove(t_ns_of(ss, 1), NULL, NULL);
	t_turn(env);
	CU_ASSERT_PTR_NULL(rdt_subsys_find(env->t, NEW_NQN));
	if (!held)
		return;
	CU_ASSERT_PTR_EQUAL(atomic_load(&env->t->subsys[2]), ss);
	d->hold = false;
	t_disk_finish(d, 0, 0);
	t_turn(env);
}

static size_t in_use(void)
{
	return mallinfo2().uordblks; /* 0 with a sanitizer, which finds what is not freed */
}

static void they_leave_nothing_behind(void)
{
	/* ThreadSanitizer takes minutes for all, because each cycle has threads. */
	unsigned int rounds = in_use() ? t_rounds(20000) : 1000;
	size_t before = 0;
	T_ENV(env);

	for (unsigned int i = 0; i < rounds; i++) {
		if (i == WARM)
			before = in_use();
		one_cycle(env, i % 8 == 7);
		CU_ASSERT_PTR_NULL_FATAL(atomic_load(&env->t->subsys[2]));
		CU_ASSERT_PTR_NULL_FATAL(env->t->ns[3]);
	}
	CU_ASSERT_EQUAL(atomic_load(&env->t->subsys_count), 3);
	if (rounds > WARM)
		CU_ASSERT_EQUAL(in_use(), before);
	CU_ASSERT_TRUE(LIST_EMPTY(&env->t->unseen));
}

/* Its I/O hangs; others with its name come and go meanwhile, in other places. */
static void its_name_is_free_while_its_storage_hangs(void)
{
	struct t_disk *d;
	static uint8_t buf[512];
	uint16_t cntlid = NVMF_CNTLID_DYNAMIC;
	struct rdt_subsys *ss, *next;
	struct t_conn *admin, *io;
	char text[256];
	T_ENV(env);

	d = &env->disk[NEW_DISK];
	ss = begin(env);
	admin = join_as(env, 0, 0, &cntlid);
	t_enable(admin);
	io = join_as(env, 1, 1, &cntlid);
	d->hold = true;
	t_send_rw(io, true, 4, 1, buf);
	t_turn(env);
	rdt_control_subsys_remove(ss);
	rdt_control_ns_remove(t_ns_of(ss, 1), NULL, NULL);
	for (unsigned int i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL_FATAL(rdt_control_subsys_add(env->t, &cycle_subsys, NULL, &next,
							     text, sizeof(text)),
				      0);
		CU_ASSERT_EQUAL(next->index, 3);
		rdt_control_subsys_show(next);
		t_turn(env);
		CU_ASSERT_PTR_EQUAL(rdt_subsys_find(env->t, NEW_NQN), next);
		CU_ASSERT_EQUAL(ss->state, RDT_SUBSYS_LEAVING);
		rdt_control_subsys_remove(next);
		t_turn(env);
		CU_ASSERT_PTR_NULL(atomic_load(&env->t->subsys[3]));
	}
	d->hold = false;
	t_disk_finish(d, 0, 0);
	t_turn(env);
	CU_ASSERT_PTR_NULL(atomic_load(&env->t->subsys[2]));
}

/* Who uses it for longer than a turn keeps it, and its place. */
static void it_stays_for_those_who_hold_it(void)
{
	struct rdt_subsys *ss, *other;
	T_ENV(env);

	ss = begin(env);
	rdt_subsys_hold(ss);
	rdt_control_subsys_remove(ss);
	rdt_control_ns_remove(t_ns_of(ss, 1), NULL, NULL);
	t_turn(env);
	CU_ASSERT_STRING_EQUAL(ss->nqn, NEW_NQN);
	CU_ASSERT_PTR_EQUAL(atomic_load(&env->t->subsys[2]), ss);
	other = begin(env);
	CU_ASSERT_EQUAL(other->index, 3);
	rdt_subsys_put(ss);
	t_turn(env);
	CU_ASSERT_PTR_NULL(atomic_load(&env->t->subsys[2]));
	CU_ASSERT_PTR_EQUAL(rdt_subsys_find(env->t, NEW_NQN), other);
}

const struct t_case t_cycle_cases[] = {
	{"subsystems and namespaces leave nothing behind", they_leave_nothing_behind},
	{"a name is free while the storage of its subsystem hangs",
	 its_name_is_free_while_its_storage_hangs},
	{"a subsystem stays for those who hold it", it_stays_for_those_who_hold_it},
	{NULL, NULL},
};
