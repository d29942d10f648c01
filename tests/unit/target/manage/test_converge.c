/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random changes by the socket and by the file, while storage hangs or is missing. After each step
 * what is desired (config.get) is what is there (namespace.list), and what is on healthy storage is
 * done. When the faults end, everything is served.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t_rpc.h"
#include "target/bdev/backend.h"

#define SEEDS   60u
#define STEPS   24u
#define SPACES  4u /* namespaces that come and go, from NSID 10 on */
#define PROGRAM "{\"nqn\":\"" T_NQN "\","

static bool missing;

static int open_null(struct rdt_target *t, const struct rdt_ns_config *cfg, struct rdt_bdev **out)
{
	struct rdt_ns_config null = *cfg;
	char text[128];

	if (missing)
		return -ENOENT;
	null.backend = RDT_BACKEND_NULL;
	null.path = NULL;
	return rdt_bdev_open(NULL, &null, NULL, out, text, sizeof(text));
}

/* A set with a bit for each NSID from 10 on, of a list of namespaces. */
static unsigned int set_of(const json_t *list, bool live)
{
	unsigned int set = 0;
	const json_t *ns;
	size_t i;

	json_array_foreach((json_t *)list, i, ns)
	{
		json_int_t nsid = json_integer_value(json_object_get(ns, "nsid"));
		const char *state = json_string_value(json_object_get(ns, "state"));

		if (nsid < 10 || (state && strcmp(state, "leaving") == 0))
			continue;
		if (!live || (state && strcmp(state, "live") == 0))
			set |= 1u << (nsid - 10);
	}
	return set;
}

static unsigned int desired(struct t_rpc *r)
{
	json_t *answer;
	const json_t *result = t_rpc_result(r, "config.get", "{}", &answer);
	const json_t *all = json_object_get(json_object_get(result, "config"), "subsystems");
	unsigned int set = set_of(json_object_get(json_array_get(all, 0), "namespaces"), false);

	json_decref(answer);
	return set;
}

static unsigned int shown(struct t_rpc *r, bool live)
{
	json_t *answer;
	const json_t *result =
		t_rpc_result(r, "namespace.list", "{\"nqn\":\"" T_NQN "\"}", &answer);
	unsigned int set = set_of(json_object_get(result, "namespaces"), live);

	json_decref(answer);
	return set;
}

static void expect_outcome(struct t_rpc *r, const char *method, const char *params,
			   const char *outcome)
{
	json_t *answer;
	const json_t *result = t_rpc_result(r, method, params, &answer);
	const char *text = json_string_value(json_object_get(result, "outcome"));

	CU_ASSERT_TRUE(!outcome || (text && strcmp(text, outcome) == 0));
	json_decref(answer);
}

static void change_space(struct t_rpc *r, unsigned int i, bool add)
{
	char params[512];

	if (add)
		snprintf(params, sizeof(params),
			 PROGRAM "\"wait\":false,\"namespace\":{\"nsid\":%u,\"backend\":\"file\","
				 "\"path\":\"/fake/%u\",\"size\":\"1MiB\",\"create\":true}}",
			 10 + i, i);
	else
		snprintf(params, sizeof(params), PROGRAM "\"wait\":false,\"nsid\":%u}", 10 + i);
	expect_outcome(r, add ? "namespace.add" : "namespace.remove", params, NULL);
}

static void one_step(struct t_rpc *r, unsigned int *model, bool *protected)
{
	struct t_env *env = r->pair.env;
	unsigned int i = (unsigned int)rand() % SPACES;
	char params[128];

	switch (rand() % 8) {
	case 0:
		missing = !missing;
		break;
	case 1:
		env->hold_jobs = !env->hold_jobs;
		if (!env->hold_jobs && env->held_jobs_count)
			t_env_run_held(env);
		break;
	case 2:
		*protected = !*protected;
		snprintf(params, sizeof(params), PROGRAM "\"nsid\":5,\"on\":%s}",
			 *protected ? "true" : "false");
		expect_outcome(r, "namespace.write_protect", params, "done");
		break;
	case 3: /* the file has none of them */
		expect_outcome(r, "config.reload", "{\"wait\":false}", NULL);
		*model = 0;
		*protected = false;
		break;
	case 4:
		t_advance(env, (uint64_t)(rand() % 30) * RD_NSEC_PER_SEC);
		break;
	default:
		change_space(r, i, !(*model & 1u << i));
		*model ^= 1u << i;
		break;
	}
}

static void faults_end(struct t_rpc *r)
{
	struct t_env *env = r->pair.env;

	missing = env->hold_jobs = false;
	if (env->held_jobs_count)
		t_env_run_held(env);
	for (int i = 0; i < 3; i++)
		t_advance(env, 65 * RD_NSEC_PER_SEC);
}

static void random_changes_and_faults(void)
{
	for (unsigned int seed = 1; seed <= SEEDS; seed++) {
		unsigned int model = 0, failures = CU_get_number_of_failures();
		bool protected = false;
		struct t_rpc r;

		srand(seed);
		missing = false;
		t_rpc_open_file(&r);
		r.pair.env->env.bdev_open = open_null;
		for (unsigned int step = 0; step < STEPS; step++) {
			one_step(&r, &model, &protected);
			CU_ASSERT_EQUAL(desired(&r), model);
			CU_ASSERT_EQUAL(shown(&r, false), model);
			CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, false, 5, 0), 0);
		}
		faults_end(&r);
		CU_ASSERT_EQUAL(shown(&r, true), model);
		if (CU_get_number_of_failures() != failures)
			fprintf(stderr, "# seed %u\n", seed);
		t_rpc_free(&r);
	}
}

/* Two that leave, for as long as their storage is closed, and two that have their NSIDs. */
static void neighbours_leave_and_come(void)
{
	struct t_rpc r;

	missing = false;
	t_rpc_open_file(&r);
	r.pair.env->env.bdev_open = open_null;
	for (unsigned int i = 0; i < 2; i++)
		change_space(&r, i, true);
	CU_ASSERT_EQUAL(shown(&r, true), 3);
	r.pair.env->hold_jobs = true;
	for (unsigned int i = 0; i < 2; i++)
		change_space(&r, i, false);
	for (unsigned int i = 0; i < 2; i++) {
		char params[256];

		snprintf(params, sizeof(params),
			 PROGRAM "\"namespace\":{\"nsid\":%u,\"backend\":\"memory\",\"size\":"
				 "\"1MiB\"}}",
			 10 + i);
		expect_outcome(&r, "namespace.add", params, "done");
	}
	CU_ASSERT_EQUAL(shown(&r, true), 3);
	/* The others are listed, too. */
	CU_ASSERT_EQUAL(t_rpc_list_size(&r, "namespace.list", "namespaces"), 7);
	faults_end(&r);
	CU_ASSERT_EQUAL(t_rpc_list_size(&r, "namespace.list", "namespaces"), 5);
	t_rpc_free(&r);
}

const struct t_case t_converge_cases[] = {
	{"neighbours leave and come", neighbours_leave_and_come},
	{"random changes while storage hangs or is missing", random_changes_and_faults},
	{NULL, NULL},
};
