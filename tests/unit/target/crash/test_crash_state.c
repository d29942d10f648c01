/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Power failures and the files in target.state_dir: whatever a failure at any moment can leave
 * (folder.h) is read again as the reservation and the write protection after the last command that
 * was answered, or after the next one, and a target starts with it.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crash.h"
#include "folder.h"
#include "t_target.h"
#include "target/resv/reservation.h"

#define KEY(n)    (UINT64_C(0xa000000000000000) + (n))
#define CPTPL(v)  ((uint32_t)(v) << 30)
#define RTYPE(v)  ((uint32_t)(v) << 8)
#define PREEMPT   1u
#define DIFFERENT 64u
#define PROTECT   "write-protect\n"

/* What is known after a command. */
struct known {
	uint8_t count; /* of registrants; 0: nothing is stored */
	uint8_t rtype;
	uint8_t holder; /* the number of the host */
	uint8_t wp;
};

struct step {
	uint8_t host; /* 0: write protection */
	uint8_t opcode;
	uint32_t cdw10;
	uint64_t key1, key2;
	struct known after;
};

#define REG     nvme_cmd_resv_register
#define ACQUIRE nvme_cmd_resv_acquire
#define RELEASE nvme_cmd_resv_release
#define WE      NVME_RESERVATION_RTYPE_WE
#define EA      NVME_RESERVATION_RTYPE_EA

static const struct step steps[] = {
	{1, REG, CPTPL(NVME_RESERVATION_CPTPL_PERSIST), 0, KEY(1), {1, 0, 0, 0}},
	{2, REG, 0, 0, KEY(2), {2, 0, 0, 0}},
	{1, ACQUIRE, RTYPE(WE), KEY(1), 0, {2, WE, 1, 0}},
	{2, ACQUIRE, RTYPE(WE) | PREEMPT, KEY(2), KEY(1), {1, WE, 2, 0}},
	{0, 0, 1, 0, 0, {1, WE, 2, 1}},
	{1, REG, 0, 0, KEY(1), {2, WE, 2, 1}},
	{2, RELEASE, RTYPE(WE), KEY(2), 0, {2, 0, 0, 1}},
	{0, 0, 0, 0, 0, {2, 0, 0, 0}},
	{1, ACQUIRE, RTYPE(EA), KEY(1), 0, {2, EA, 1, 0}},
	{1, REG, 1u << 3 | CPTPL(NVME_RESERVATION_CPTPL_CLEAR), 0, KEY(1), {0, 0, 0, 0}},
};

#define STEPS (sizeof(steps) / sizeof(steps[0]))

struct crash_state {
	struct t_folder folder;
	uint8_t uuid[16];
	char again[96]; /* a folder for what is left */
	bool start;     /* start a target with it */
	unsigned int wrong;
	unsigned int looked;
	/* Hashes of the contents with which a target was started. */
	uint64_t seen[DIFFERENT];
	unsigned int seen_count;
};

/* ---- the hosts ---- */

struct crash_host {
	struct t_conn *admin, *io;
};

static struct crash_state *marking;

static void mark_answer(struct t_conn *c, struct rdt_req *req)
{
	CU_ASSERT_EQUAL(nvme_status_from_wire(req->cqe.status).v & 0x7ff, 0);
	t_folder_mark(&marking->folder);
}

static struct crash_host join(struct t_env *env, unsigned int n)
{
	char nqn[80];
	struct crash_host h = {.admin = t_conn_new(env, n % 2, 0, 32)};
	struct t_answer a;
	uint16_t cntlid;

	snprintf(nqn, sizeof(nqn),
		 "nqn.2014-08.org.nvmexpress:uuid:%08u-1111-1111-1111-111111111111", n);
	a = t_connect_as(h.admin, NVMF_CNTLID_DYNAMIC, nqn, (uint8_t)n);
	CU_ASSERT_EQUAL_FATAL(t_status(&a), 0);
	cntlid = (uint16_t)le32toh(a.cqe.result);
	t_enable(h.admin);
	h.io = t_conn_new(env, (n + 1) % 2, 1, 16);
	a = t_connect_as(h.io, cntlid, nqn, (uint8_t)n);
	CU_ASSERT_EQUAL_FATAL(t_status(&a), 0);
	return h;
}

static void take_step(struct crash_state *c, struct crash_host hosts[3], const struct step *s)
{
	__le64 keys[2] = {htole64(s->key1), htole64(s->key2)};
	struct t_conn *conn = s->host ? hosts[s->host].io : hosts[1].admin;
	struct nvme_sqe sqe;

	if (s->host) {
		t_sqe(conn, &sqe, s->opcode, keys, s->opcode == RELEASE ? 8 : 16);
		sqe.cdw10 = htole32(s->cdw10);
	} else {
		t_sqe(conn, &sqe, nvme_admin_set_features, NULL, 0);
		sqe.cdw10 = htole32(NVME_FEAT_FID_WRITE_PROTECT);
		sqe.cdw11 = htole32(s->cdw10);
	}
	sqe.nsid = htole32(1);
	marking = c;
	conn->on_respond = mark_answer;
	t_exec(conn, &sqe);
	conn->on_respond = NULL;
}

/* ---- folders ---- */

static void make_folder(char path[96])
{
	strcpy(path, "/var/tmp/rdt-crash-XXXXXX");
	CU_ASSERT_FATAL(mkdtemp(path) != NULL);
}

static void empty_folder(const char *path)
{
	char file[512];
	struct dirent *e;
	DIR *d = opendir(path);

	while (d && (e = readdir(d))) {
		snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
		unlink(file);
	}
	if (d)
		closedir(d);
}

static void put_files(const char *path, const struct t_folder_file *files, unsigned int count)
{
	char name[256];

	empty_folder(path);
	for (unsigned int i = 0; i < count; i++) {
		FILE *f;

		snprintf(name, sizeof(name), "%s/%s", path, files[i].name);
		f = fopen(name, "w");
		CU_ASSERT_FATAL(f && fwrite(files[i].text, 1, files[i].len, f) == files[i].len);
		fclose(f);
	}
}

/* ---- what is left ---- */

static const struct t_folder_file *file_ending(const struct t_folder_file *files,
					       unsigned int count, const char *end)
{
	for (unsigned int i = 0; i < count; i++) {
		size_t len = strlen(files[i].name);

		if (len > strlen(end) && strcmp(files[i].name + len - strlen(end), end) == 0)
			return &files[i];
	}
	return NULL;
}

/* Returns false when the target would not read it. */
static bool know(const struct crash_state *c, const struct t_folder_file *files, unsigned int count,
		 struct known *k)
{
	const struct t_folder_file *resv = file_ending(files, count, ".resv.json");
	const struct t_folder_file *wp = file_ending(files, count, ".wp");
	struct rdt_resv_state s;
	char why[256];

	memset(k, 0, sizeof(*k));
	if (wp && (wp->len != strlen(PROTECT) || memcmp(wp->text, PROTECT, wp->len) != 0))
		return false;
	k->wp = wp != NULL;
	if (!resv)
		return true;
	if (rdt_resv_from_json(resv->text, resv->len, c->uuid, &s, why, sizeof(why)))
		return false;
	k->count = (uint8_t)s.count;
	k->rtype = s.rtype;
	for (unsigned int i = 0; i < s.count; i++)
		if (s.reg[i].holder)
			k->holder = s.reg[i].host[0];
	return true;
}

static bool same(const struct known *a, const struct known *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static bool new_content(struct crash_state *c, const struct t_folder_file *files,
			unsigned int count)
{
	uint64_t hash = 14695981039346656037u;

	for (unsigned int i = 0; i < count; i++) {
		for (const char *p = files[i].name; *p; p++)
			hash = (hash ^ (uint8_t)*p) * 1099511628211u;
		for (size_t k = 0; k < files[i].len; k++)
			hash = (hash ^ (uint8_t)files[i].text[k]) * 1099511628211u;
	}
	for (unsigned int i = 0; i < c->seen_count; i++)
		if (c->seen[i] == hash)
			return false;
	CU_ASSERT_FATAL(c->seen_count < DIFFERENT);
	c->seen[c->seen_count++] = hash;
	return true;
}

static void start_with(struct crash_state *c, const struct t_folder_file *files, unsigned int count,
		       const struct known *k)
{
	const struct rdt_ns *ns;
	struct t_env *env T_ENDS(t_env_cleanup) = NULL;

	put_files(c->again, files, count);
	env = t_env_new_state(c->again);
	ns = t_ns_of(env->t->subsys[0], 1);
	CU_ASSERT_EQUAL(atomic_load(&ns->wp), k->wp);
	CU_ASSERT_EQUAL(rdt_resv_ptpl(ns), k->count > 0);
}

static void look_at(void *arg, unsigned int marks, const struct t_folder_file *files,
		    unsigned int count)
{
	static const struct known nothing;
	const struct known *before = marks ? &steps[marks - 1].after : &nothing;
	const struct known *next = marks < STEPS ? &steps[marks].after : before;
	struct crash_state *c = arg;
	struct known k;

	c->looked++;
	if (!know(c, files, count, &k) || (!same(&k, before) && !same(&k, next)))
		c->wrong++;
	else if (c->start && new_content(c, files, count))
		start_with(c, files, count, &k);
}

/* Returns how many contents are wrong. */
static unsigned int run_steps(enum t_folder_mistake mistake)
{
	struct crash_state *c = calloc(1, sizeof(*c));
	struct crash_host hosts[3];
	struct t_env *env;
	unsigned int wrong;
	char dir[96];

	CU_ASSERT_FATAL(c != NULL);
	make_folder(dir);
	make_folder(c->again);
	env = t_env_new_state(dir);
	memcpy(c->uuid, t_ns_of(env->t->subsys[0], 1)->cfg->uuid_bytes, 16);
	hosts[1] = join(env, 1);
	hosts[2] = join(env, 2);
	t_folder_watch(&c->folder, dir);
	c->folder.mistake = mistake;
	c->start = !mistake;
	for (size_t i = 0; i < STEPS; i++)
		take_step(c, hosts, &steps[i]);
	t_folder_end(&c->folder);
	t_env_free(env);
	t_folder_each(&c->folder, look_at, c);
	CU_ASSERT_TRUE(c->looked > 8 * STEPS);
	CU_ASSERT_TRUE(mistake || c->seen_count >= 2 * STEPS);
	wrong = c->wrong;
	empty_folder(dir);
	empty_folder(c->again);
	rmdir(dir);
	rmdir(c->again);
	t_folder_free(&c->folder);
	free(c);
	return wrong;
}

static void old_or_new_and_never_less_than_answered(void)
{
	CU_ASSERT_EQUAL(run_steps(T_FOLDER_NO_MISTAKE), 0);
}

static void mistakes_are_found(void)
{
	CU_ASSERT_TRUE(run_steps(T_FILE_SYNC_DROPPED) > 0);
	CU_ASSERT_TRUE(run_steps(T_FOLDER_SYNC_DROPPED) > 0);
	CU_ASSERT_TRUE(run_steps(T_ANSWER_EARLY) > 0);
	CU_ASSERT_TRUE(run_steps(T_RENAME_EARLY) > 0);
}

const struct t_case t_crash_state_cases[] = {
	{"a power failure leaves the old or the new state, never less than was answered",
	 old_or_new_and_never_less_than_answered},
	{"a missing sync, an early rename and an early answer are found", mistakes_are_found},
	{NULL},
};
