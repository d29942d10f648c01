/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random changes by the socket and by the file, while storage hangs, is slow or missing, grows or
 * is replaced. After each step what is desired (config.get) is what is shown (namespace.list) and
 * what a save writes. What does not touch sick storage is done while the fault holds: time stands
 * still during a call. When the faults end, everything is served, with what its path names.
 *
 * A volume is a file of the test, which is opened as if it were a block device of its own; its data
 * is not used. RD_TEST_SEED is the first seed, RD_TEST_LONG has 2,000 of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "t_rpc.h"
#include "target/bdev/backend.h"
#include "target/bdev/jobs.h"
#include "target/manage/objects/compare.h"

#define STEPS   24u
#define VOLUMES 4u
#define NSID    10u /* of the first one's namespace */
#define MIB     (1u << 20)
#define HELD    8u /* more than RDT_JOBS_SHARE */
#define PROGRAM "{\"nqn\":\"" T_NQN "\","
#define OTHER   "nqn.2024-01.test:other"

enum fault { HEALTHY, HUNG, SLOW, MISSING, FAULTS };

struct volume {
	char path[64];
	uint64_t device;
	enum fault fault;
	struct rdt_job *held[HELD];
	uint64_t due[HELD]; /* SLOW */
	unsigned int held_count;
	unsigned int open; /* backends */
	ino_t ino;         /* of the last one */
};

struct volume_bdev {
	struct rdt_bdev bdev;
	struct volume *v;
	int fd;
};

/* What is desired, and what is shown of it. */
struct wanted {
	unsigned int group[VOLUMES]; /* ANA group of the namespace; 0: there is none */
	bool protected;              /* namespace 5 */
	bool other;                  /* OTHER may use the second subsystem */
};

static struct volume volumes[VOLUMES];
static struct rdt_bdev_ops volume_ops;
static struct t_rpc *the_rpc;

/* ---- volumes ---- */

static void volume_close(struct rdt_bdev *bdev)
{
	struct volume_bdev *b = rd_container_of(bdev, struct volume_bdev, bdev);

	b->v->open--;
	close(b->fd);
	free(b);
}

static int volume_measure(const struct rdt_bdev *bdev, uint64_t size, uint64_t *found, char *err,
			  size_t err_size)
{
	const struct volume_bdev *b = rd_container_of(bdev, struct volume_bdev, bdev);
	struct stat st;

	CU_ASSERT_EQUAL_FATAL(fstat(b->fd, &st), 0);
	*found = (uint64_t)st.st_size;
	return 0;
}

static struct volume_bdev *new_volume_bdev(const struct rdt_ns_config *cfg)
{
	struct volume_bdev *b = calloc(1, sizeof(*b));
	struct rdt_ns_config null = *cfg;
	struct rdt_bdev *made;
	char text[128];

	CU_ASSERT_PTR_NOT_NULL_FATAL(b);
	null.backend = RDT_BACKEND_NULL;
	null.path = NULL;
	CU_ASSERT_EQUAL_FATAL(rdt_bdev_open(NULL, &null, NULL, &made, text, sizeof(text)), 0);
	memcpy(&b->bdev, made, sizeof(b->bdev));
	volume_ops = *made->ops;
	volume_ops.close = volume_close;
	volume_ops.measure = volume_measure;
	b->bdev.ops = &volume_ops;
	rdt_bdev_close(&made);
	return b;
}

static int volume_open(struct rdt_target *t, const struct rdt_ns_config *cfg, struct rdt_bdev **out)
{
	struct volume_bdev *b;
	struct volume *v;
	struct stat st;
	char text[128];
	int fd;

	if (cfg->backend == RDT_BACKEND_MEMORY)
		return rdt_bdev_open(NULL, cfg, NULL, out, text, sizeof(text));
	fd = open(cfg->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (v = volumes; strcmp(v->path, cfg->path) != 0; v++)
		;
	CU_ASSERT_EQUAL_FATAL(fstat(fd, &st), 0);
	if (v->open && v->ino == st.st_ino) { /* locked by one that is still to be closed */
		close(fd);
		return -EAGAIN;
	}
	b = new_volume_bdev(cfg);
	b->v = v;
	b->fd = fd;
	b->bdev.size = (uint64_t)st.st_size;
	b->bdev.path_id = rdt_path_id(&st);
	v->ino = st.st_ino;
	v->open++;
	*out = &b->bdev;
	return 0;
}

/* In place of a thread. */
static bool run_job(struct rdt_job *job)
{
	uint64_t now = the_rpc->pair.env->now;
	struct volume *v = volumes;

	while (v < volumes + VOLUMES && v->device != job->device)
		v++;
	if (v == volumes + VOLUMES || (v->fault != HUNG && v->fault != SLOW))
		return rdt_job_run_now(job);
	CU_ASSERT_TRUE_FATAL(v->held_count < HELD);
	v->due[v->held_count] = now + (uint64_t)(1 + rand() % 30) * RD_NSEC_PER_SEC;
	v->held[v->held_count++] = job;
	return false;
}

/* Those that are due, or all of them. */
static void end_held(struct volume *v, bool all)
{
	uint64_t now = the_rpc->pair.env->now;

	for (unsigned int i = 0; i < v->held_count;) {
		struct rdt_job *job = v->held[i];

		if (!all && (v->fault == HUNG || v->due[i] > now)) {
			i++;
			continue;
		}
		v->held_count--;
		v->held[i] = v->held[v->held_count];
		v->due[i] = v->due[v->held_count];
		job->work(job);
		rdt_job_finish(job);
	}
	t_turn(the_rpc->pair.env);
}

static void time_passes(unsigned int seconds)
{
	t_advance(the_rpc->pair.env, seconds * RD_NSEC_PER_SEC);
	for (unsigned int i = 0; i < VOLUMES; i++)
		end_held(&volumes[i], false);
}

static void make_file(const char *path, off_t size)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	CU_ASSERT_EQUAL_FATAL(ftruncate(fd, size), 0);
	close(fd);
}

static char *beside(const struct volume *v, const char *end, char *buf)
{
	sprintf(buf, "%s.%s", v->path, end);
	return buf;
}

static void end_fault(struct volume *v)
{
	enum fault before = v->fault;
	char away[80];

	v->fault = HEALTHY;
	if (before == MISSING)
		CU_ASSERT_EQUAL_FATAL(rename(beside(v, "away", away), v->path), 0);
	end_held(v, true);
}

static void change_volume(struct volume *v)
{
	char other[80];
	struct stat st;

	if (v->fault != HEALTHY) {
		end_fault(v);
		return;
	}
	CU_ASSERT_EQUAL_FATAL(stat(v->path, &st), 0);
	switch (rand() % 5) {
	case 0:
		v->fault = HUNG;
		break;
	case 1:
		v->fault = SLOW;
		break;
	case 2:
		v->fault = MISSING;
		CU_ASSERT_EQUAL_FATAL(rename(v->path, beside(v, "away", other)), 0);
		break;
	case 3: /* it grows */
		CU_ASSERT_EQUAL_FATAL(truncate(v->path, st.st_size + MIB), 0);
		break;
	default: /* it is replaced */
		make_file(beside(v, "new", other), st.st_size);
		CU_ASSERT_EQUAL_FATAL(rename(other, v->path), 0);
		break;
	}
}

/* ---- what is desired, shown and saved ---- */

static json_int_t number(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

/* Of a list of namespaces; those that leave are not desired. */
static void groups_of(const json_t *list, unsigned int *group)
{
	const json_t *ns;
	size_t i;

	memset(group, 0, VOLUMES * sizeof(*group));
	json_array_foreach((json_t *)list, i, ns)
	{
		const char *state = json_string_value(json_object_get(ns, "state"));
		json_int_t nsid = number(ns, "nsid");

		if (nsid >= NSID && (!state || strcmp(state, "leaving") != 0))
			group[nsid - NSID] = json_object_get(ns, "ana_group")
						     ? (unsigned int)number(ns, "ana_group")
						     : 1;
	}
}

static const json_t *namespaces(struct t_rpc *r, json_t **answer)
{
	return json_object_get(t_rpc_result(r, "namespace.list", "{\"nqn\":\"" T_NQN "\"}", answer),
			       "namespaces");
}

static void expect_desired(struct t_rpc *r, const struct wanted *w)
{
	unsigned int group[VOLUMES];
	json_t *answer;
	const json_t *result = t_rpc_result(r, "config.get", "{}", &answer);
	const json_t *all = json_object_get(json_object_get(result, "config"), "subsystems");

	groups_of(json_object_get(json_array_get(all, 0), "namespaces"), group);
	CU_ASSERT_EQUAL(memcmp(group, w->group, sizeof(group)), 0);
	CU_ASSERT_EQUAL(json_array_size(json_object_get(json_array_get(all, 1), "hosts")),
			1 + w->other);
	json_decref(answer);
}

/* The bits of the namespaces that are live and have nobody beside them who leaves. */
static unsigned int expect_shown(struct t_rpc *r, const struct wanted *w)
{
	unsigned int group[VOLUMES], live = 0, leaving = 0;
	json_t *answer;
	const json_t *list = namespaces(r, &answer), *ns;
	size_t i;

	groups_of(list, group);
	CU_ASSERT_EQUAL(memcmp(group, w->group, sizeof(group)), 0);
	json_array_foreach((json_t *)list, i, ns)
	{
		const char *state = json_string_value(json_object_get(ns, "state"));
		json_int_t nsid = number(ns, "nsid");

		if (nsid == 5)
			CU_ASSERT_EQUAL(json_is_true(json_object_get(ns, "read_only")),
					w->protected);
		if (nsid < NSID)
			continue;
		live |= strcmp(state, "live") == 0 ? 1u << (nsid - NSID) : 0;
		leaving |= strcmp(state, "leaving") == 0 ? 1u << (nsid - NSID) : 0;
	}
	json_decref(answer);
	return live & ~leaving;
}

static void expect_saved(struct t_rpc *r)
{
	json_t *answer;

	t_rpc_result(r, "config.save", "{}", &answer);
	json_decref(answer);
	CU_ASSERT_EQUAL(t_rpc_list_size(r, "config.diff", "differences"), 0);
}

/* Which of the namespaces are live and settled. */
static unsigned int expect_agreement(struct t_rpc *r, const struct wanted *w)
{
	unsigned int settled;

	expect_desired(r, w);
	settled = expect_shown(r, w);
	for (unsigned int i = 0; i < VOLUMES; i++) {
		uint16_t status = t_rpc_rw(r->pair.io, false, NSID + i, 0);

		/* Whatever the path names now */
		CU_ASSERT_TRUE(w->group[i] ? !(settled & 1u << i) || status == 0
					   : status == NVME_SC_INVALID_NS);
	}
	CU_ASSERT_EQUAL(t_rpc_rw(r->pair.io, false, 5, 0), 0);
	return settled;
}

/* ---- changes ---- */

/* @healthy: no sick storage is touched, so it is done. */
static void change(struct t_rpc *r, const char *method, const char *params, bool healthy)
{
	json_t *answer;
	const json_t *result = t_rpc_result(r, method, params, &answer);
	const char *text = json_string_value(json_object_get(result, "outcome"));

	bool done = text ? strcmp(text, "done") == 0
			 : json_is_false(json_object_get(result, "changed"));

	if (healthy && !done)
		fprintf(stderr, "# %s %s: %s\n", method, params, r->answer);
	CU_ASSERT_TRUE(!healthy || done);
	json_decref(answer);
}

static void change_namespace(struct t_rpc *r, struct wanted *w, unsigned int settled)
{
	unsigned int i = (unsigned int)rand() % VOLUMES, nsid = NSID + i;
	bool live = settled & 1u << i, healthy = volumes[i].fault == HEALTHY;
	const char *wait = healthy && (live || !volumes[i].open) ? "" : "\"wait\":false,";
	char params[512];

	if (!w->group[i]) {
		w->group[i] = 1 + (unsigned int)rand() % 3;
		snprintf(params, sizeof(params),
			 PROGRAM "%s\"namespace\":{\"nsid\":%u,\"backend\":\"block\","
				 "\"path\":\"%s\",\"ana_group\":%u}}",
			 wait, nsid, volumes[i].path, w->group[i]);
		change(r, "namespace.add", params, healthy && !volumes[i].open);
	} else if (rand() % 2) {
		w->group[i] = 1 + (unsigned int)rand() % 3;
		snprintf(params, sizeof(params), PROGRAM "%s\"nsid\":%u,\"group\":%u}",
			 live ? "" : wait, nsid, w->group[i]);
		change(r, "namespace.set_ana", params, live); /* which touches no storage */
	} else {
		w->group[i] = 0;
		snprintf(params, sizeof(params), PROGRAM "%s\"nsid\":%u}", wait, nsid);
		change(r, "namespace.remove", params, live && healthy);
	}
}

/* A file with some of the namespaces; or what was saved, which changes nothing. */
static void reload_file(struct t_rpc *r, struct wanted *w)
{
	const char *second = strstr(t_rpc_config, "  - nqn: " T_NQN2);
	char text[4096];
	int len;

	if (rand() % 2) {
		expect_saved(r);
	} else {
		len = snprintf(text, sizeof(text), "%.*s", (int)(second - t_rpc_config),
			       t_rpc_config);
		memset(w, 0, sizeof(*w));
		for (unsigned int i = 0; i < VOLUMES; i++) {
			w->group[i] = (unsigned int)rand() % 4;
			if (w->group[i])
				len += snprintf(text + len, sizeof(text) - (size_t)len,
						"      - {nsid: %u, backend: block, path: %s, "
						"ana_group: %u}\n",
						NSID + i, volumes[i].path, w->group[i]);
		}
		snprintf(text + len, sizeof(text) - (size_t)len, "%s", second);
		t_rpc_write_config(r, text);
	}
	change(r, "config.reload", "{\"wait\":false}", false);
}

static void change_others(struct t_rpc *r, struct wanted *w)
{
	char params[128];

	if (rand() % 2) {
		w->protected = !w->protected;
		snprintf(params, sizeof(params), PROGRAM "\"nsid\":5,\"on\":%s}",
			 w->protected ? "true" : "false");
		change(r, "namespace.write_protect", params, true);
		return;
	}
	w->other = !w->other;
	change(r, w->other ? "host.allow" : "host.deny",
	       "{\"nqn\":\"" T_NQN2 "\",\"hostnqn\":\"" OTHER "\"}", true);
}

static void one_step(struct t_rpc *r, struct wanted *w, unsigned int settled)
{
	switch (rand() % 10) {
	case 0:
	case 1:
	case 2:
		change_volume(&volumes[rand() % VOLUMES]);
		break;
	case 3:
		change_others(r, w);
		break;
	case 4:
		reload_file(r, w);
		break;
	case 5:
		time_passes((unsigned int)rand() % 40);
		break;
	default:
		change_namespace(r, w, settled);
		break;
	}
}

/* ---- a run ---- */

/* What is served is what the path names, or that it is not is shown. */
static void expect_told(struct t_rpc *r, bool reopen)
{
	json_t *answer, *again;
	const json_t *list = namespaces(r, &answer), *ns;
	char params[128];
	struct stat st;
	size_t i;

	json_array_foreach((json_t *)list, i, ns)
	{
		uint32_t nsid = (uint32_t)number(ns, "nsid");
		const char *fault = json_string_value(json_object_get(ns, "fault"));
		const struct rdt_ns *it = rdt_ns_with(r->pair.env->t->subsys[0], nsid);

		if (nsid < NSID)
			continue;
		CU_ASSERT_EQUAL_FATAL(stat(volumes[nsid - NSID].path, &st), 0);
		CU_ASSERT_PTR_NOT_NULL_FATAL(it);
		CU_ASSERT_EQUAL(fault && strcmp(fault, "mismatch") == 0,
				rdt_bdev_base(it->bdev)->path_id.ino != st.st_ino);
		CU_ASSERT_TRUE(fault || number(ns, "size") == st.st_size);
		snprintf(params, sizeof(params), PROGRAM "\"nsid\":%u}", nsid);
		if (!fault)
			continue;
		CU_ASSERT_TRUE(reopen);
		t_rpc_result(r, "namespace.reopen", params, &again);
		json_decref(again);
	}
	json_decref(answer);
}

static unsigned int bits_of(const struct wanted *w)
{
	unsigned int bits = 0;

	for (unsigned int i = 0; i < VOLUMES; i++)
		bits |= w->group[i] ? 1u << i : 0;
	return bits;
}

static void faults_end(struct t_rpc *r, const struct wanted *w)
{
	for (unsigned int i = 0; i < VOLUMES; i++)
		if (volumes[i].fault != HEALTHY)
			end_fault(&volumes[i]);
	for (int i = 0; i < 3; i++)
		time_passes(65);
	CU_ASSERT_EQUAL(expect_agreement(r, w), bits_of(w));
	expect_saved(r);
	change(r, "config.reload", "{}", false); /* looks at all, and takes over new sizes */
	CU_ASSERT_EQUAL(expect_agreement(r, w), bits_of(w));
	expect_told(r, true);
	CU_ASSERT_EQUAL(expect_agreement(r, w), bits_of(w));
	expect_told(r, false);
}

static void open_volumes(struct t_rpc *r)
{
	struct t_env *env = r->pair.env;
	struct rdt_ns_config cfg = {.backend = RDT_BACKEND_BLOCK};

	memset(volumes, 0, sizeof(volumes));
	for (unsigned int i = 0; i < VOLUMES; i++) {
		snprintf(volumes[i].path, sizeof(volumes[i].path), "%s/%u", r->dir, i);
		make_file(volumes[i].path, MIB);
		cfg.path = volumes[i].path;
		volumes[i].device = rdt_jobs_device(env->t->jobs, &cfg);
	}
	env->env.bdev_open = volume_open;
	rdt_compare_watch(env->t);
}

static void close_volumes(struct t_rpc *r)
{
	rdt_compare_unwatch(r->pair.env->t);
	for (unsigned int i = 0; i < VOLUMES; i++)
		unlink(volumes[i].path);
	t_rpc_free(r);
	for (unsigned int i = 0; i < VOLUMES; i++)
		CU_ASSERT_EQUAL(volumes[i].open, 0);
}

static void open_rpc(struct t_rpc *r)
{
	the_rpc = r;
	t_run_job = run_job;
	t_rpc_open_file(r);
	t_run_job = NULL;
	open_volumes(r);
}

static void random_changes_and_faults(void)
{
	const char *given = getenv("RD_TEST_SEED");
	unsigned int first = given ? (unsigned int)strtoul(given, NULL, 0) : 1;
	unsigned int count = getenv("RD_TEST_VALGRIND") ? 4 : getenv("RD_TEST_LONG") ? 2000 : 60;

	for (unsigned int seed = first; seed < first + count; seed++) {
		unsigned int failures = CU_get_number_of_failures(), settled = 0;
		struct wanted w = {0};
		struct t_rpc r;

		srand(seed);
		open_rpc(&r);
		for (unsigned int step = 0; step < STEPS; step++) {
			one_step(&r, &w, settled);
			settled = expect_agreement(&r, &w);
			if (step % 8 == 7)
				expect_saved(&r);
		}
		faults_end(&r, &w);
		if (CU_get_number_of_failures() != failures)
			fprintf(stderr, "# RD_TEST_SEED=%u\n", seed);
		close_volumes(&r);
	}
}

/* Two that leave, for as long as their storage is closed, and two that have their NSIDs. */
static void neighbours_leave_and_come(void)
{
	struct wanted w = {0};
	struct t_rpc r;
	char params[256];

	open_rpc(&r);
	for (unsigned int i = 0; i < 2; i++) {
		snprintf(params, sizeof(params),
			 PROGRAM
			 "\"namespace\":{\"nsid\":%u,\"backend\":\"block\",\"path\":\"%s\"}}",
			 NSID + i, volumes[i].path);
		change(&r, "namespace.add", params, true);
		w.group[i] = 1;
	}
	CU_ASSERT_EQUAL(expect_shown(&r, &w), 3);
	for (unsigned int i = 0; i < 2; i++) {
		volumes[i].fault = HUNG;
		snprintf(params, sizeof(params), PROGRAM "\"wait\":false,\"nsid\":%u}", NSID + i);
		change(&r, "namespace.remove", params, false);
	}
	for (unsigned int i = 0; i < 2; i++) {
		snprintf(params, sizeof(params),
			 PROGRAM "\"namespace\":{\"nsid\":%u,\"backend\":\"memory\",\"size\":"
				 "\"1MiB\"}}",
			 NSID + i);
		change(&r, "namespace.add", params, true);
	}
	CU_ASSERT_EQUAL(expect_shown(&r, &w), 0); /* the others are beside them */
	CU_ASSERT_EQUAL(t_rpc_list_size(&r, "namespace.list", "namespaces"), 7);
	for (unsigned int i = 0; i < 2; i++)
		end_fault(&volumes[i]);
	CU_ASSERT_EQUAL(expect_shown(&r, &w), 3);
	CU_ASSERT_EQUAL(t_rpc_list_size(&r, "namespace.list", "namespaces"), 5);
	close_volumes(&r);
}

const struct t_case t_converge_cases[] = {
	{"neighbours leave and come", neighbours_leave_and_come},
	{"random changes while storage is hung, slow, missing, grown or replaced",
	 random_changes_and_faults},
	{NULL, NULL},
};
