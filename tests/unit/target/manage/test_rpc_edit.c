/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that change the configuration of a running target: what each does to hosts, and what is as
 * before when one is refused.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "t_rpc.h"

#define NEW_DISK 3u

#define NQN      "\"nqn\":\"" T_NQN "\""
#define NQN2     "\"nqn\":\"" T_NQN2 "\""
#define NS9                                                                                      \
	"{" NQN ",\"namespace\":{\"nsid\":9,\"backend\":\"memory\",\"block_size\":512,\"size\":" \
	"\"2MiB\",\"uuid\":\"99999999-9999-9999-9999-999999999999\"}}"

/* The call succeeds, and says whether it @changed something. */
static void expect_done(struct t_rpc *r, const char *method, const char *params, bool changed)
{
	json_t *answer T_ENDS(json_decrefp) = t_rpc_call(r, method, params);
	const json_t *result = json_object_get(answer, "result");

	if (!result)
		fprintf(stderr, "%s %s: %s\n", method, params, r->answer);
	CU_ASSERT_PTR_NOT_NULL_FATAL(result);
	CU_ASSERT_EQUAL(json_is_true(json_object_get(result, "changed")), changed);
}

/* The call is applied, and the objects of it have the state @outcome. */
static void expect_outcome(struct t_rpc *r, const char *method, const char *params,
			   const char *outcome)
{
	json_t *answer;
	const json_t *result = t_rpc_result(r, method, params, &answer);
	const char *text = json_string_value(json_object_get(result, "outcome"));

	CU_ASSERT_TRUE(json_is_true(json_object_get(result, "changed")));
	CU_ASSERT_PTR_NOT_NULL_FATAL(text);
	CU_ASSERT_STRING_EQUAL(text, outcome);
	json_decref(answer);
}

/* The call is refused with the error @name, for @field, with a hint that contains @hint; NULL: it
 * has no field, or no hint. */
static void expect_refused(struct t_rpc *r, const char *method, const char *params,
			   const char *name, const char *field, const char *hint)
{
	json_t *answer T_ENDS(json_decrefp) = t_rpc_call(r, method, params);
	const json_t *data = json_object_get(json_object_get(answer, "error"), "data");
	const char *its_field = json_string_value(json_object_get(data, "field"));
	const char *its_hint = json_string_value(json_object_get(data, "hint"));
	bool right = field ? its_field && strcmp(its_field, field) == 0 : !its_field;

	right &= hint ? its_hint && strstr(its_hint, hint) != NULL : !its_hint;
	if (!right)
		fprintf(stderr, "%s %s: %s\n", method, params, r->answer);
	t_rpc_expect_error(answer, name);
	CU_ASSERT_TRUE(right);
}

/* The running configuration as text. The caller frees it. */
static char *running_config(struct t_rpc *r)
{
	json_t *answer;
	const json_t *result = t_rpc_result(r, "config.get", "{}", &answer);
	char *text = json_dumps(json_object_get(result, "config"), JSON_COMPACT | JSON_SORT_KEYS);

	CU_ASSERT_PTR_NOT_NULL_FATAL(text);
	json_decref(answer);
	return text;
}

/* Host @hostnqn connects to subsystem @nqn. Returns the status. */
static uint16_t connect_status(struct t_rpc *r, const char *nqn, const char *hostnqn,
			       struct t_conn **out)
{
	struct t_conn *c = t_conn_new(r->pair.env, 0, 0, 32);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	struct t_answer a;

	t_connect_sqe(c, &sqe, &data, NVMF_CNTLID_DYNAMIC);
	strcpy(data.subsysnqn, nqn);
	strcpy(data.hostnqn, hostnqn);
	memset(data.hostid, strcmp(hostnqn, T_HOST) == 0 ? 0x11 : 0x22, sizeof(data.hostid));
	a = t_exec(c, &sqe);
	if (out)
		*out = c;
	else
		t_conn_cut(c);
	t_turn(r->pair.env);
	return t_status(&a);
}

/* ---- namespaces ---- */

static void namespaces_come_and_go(void)
{
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open_file(&r);
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, true, 9, 0), NVME_SC_INVALID_NS);
	r.pair.env->disk_next = NEW_DISK;
	expect_done(&r, "namespace.add", NS9, true);
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, true, 9, 0), 0);
	CU_ASSERT_EQUAL(t_rpc_list_size(&r, "namespace.list", "namespaces"), 4);
	expect_done(&r, "namespace.add", NS9, false);
	expect_refused(&r, "namespace.add",
		       "{" NQN ",\"namespace\":{\"nsid\":9,\"backend\":\"null\",\"size\":\"1G\"}}",
		       "exists", "nsid", "remove it first");
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, false, 9, 0), 0);
	expect_done(&r, "namespace.remove", "{" NQN ",\"nsid\":9}", true);
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, true, 9, 0), NVME_SC_INVALID_NS);
	CU_ASSERT_TRUE(r.pair.env->disk[NEW_DISK].closed);
	expect_done(&r, "namespace.remove", "{" NQN ",\"nsid\":9}", false);
	expect_refused(&r, "namespace.remove",
		       "{\"nqn\":\"nqn.2026-11.io.rdnvme:none\",\"nsid\":9}", "not_found", "nqn",
		       "subsystem.list");
}

static const struct {
	const char *method, *params, *name, *field, *hint;
} mistakes[] = {
	{"namespace.add", "{" NQN ",\"namespace\":{\"backend\":\"memory\"}}", "invalid", "nsid",
	 "rdtarget.yaml(5)"},
	{"namespace.add", "{" NQN ",\"namespace\":{\"nsid\":\"9\"}}", "invalid", "nsid",
	 "rdtarget.yaml(5)"},
	{"namespace.add",
	 "{" NQN ",\"namespace\":{\"nsid\":9,\"backend\":\"memory\",\"size\":\"big\"}}", "invalid",
	 "size", "rdtarget.yaml(5)"},
	{"namespace.resize", "{" NQN ",\"nsid\":1,\"size\":\"1000\"}", "invalid", "size",
	 "rdtarget.yaml(5)"},
	{"namespace.resize", "{" NQN ",\"nsid\":77}", "not_found", "nsid", "namespace.list"},
	{"namespace.resize", "{" NQN ",\"nsid\":77,\"size\":\"1M\"}", "not_found", "nsid",
	 "namespace.list"},
	{"host.auth", "{" NQN ",\"hostnqn\":\"" T_HOST "\"}", "invalid", "keys", NULL},
	{"host.auth", "{" NQN2 ",\"hostnqn\":\"" T_HOST2 "\",\"keys\":{\"dhchap_key\":\"x\"}}",
	 "invalid", "dhchap_key", "rdtarget.yaml(5)"},
	{"host.auth",
	 "{" NQN2 ",\"hostnqn\":\"" T_HOST2 "\",\"keys\":{\"dhchap_key_file\":\"DHHC-1:00:x\"}}",
	 "invalid", "dhchap_key_file", "rdtarget.yaml(5)"},
	{"namespace.set_ana", "{" NQN ",\"nsid\":1,\"group\":1000}", "invalid", "ana_group",
	 "rdtarget.yaml(5)"},
	{"namespace.write_protect", "{" NQN ",\"nsid\":1,\"on\":\"yes\"}", "invalid", "on", NULL},
	{"namespace.qos", "{" NQN ",\"nsid\":1,\"limits\":{\"bandwidth\":\"x\"}}", "invalid",
	 "bandwidth", "rdtarget.yaml(5)"},
	{"subsystem.add", "{\"subsystem\":{\"serial\":\"S\"}}", "invalid", "nqn",
	 "rdtarget.yaml(5)"},
	{"subsystem.add", "{\"subsystem\":{" NQN ",\"serial\":\"S\"}}", "exists", "nqn",
	 "remove it first"},
	{"subsystem.set_hosts", "{" NQN ",\"hosts\":[7]}", "invalid", "hosts", NULL},
	{"host.allow", "{" NQN2 ",\"hostnqn\":\"not a name\"}", "invalid", "hosts[1]",
	 "rdtarget.yaml(5)"},
	{"host.deny", "{" NQN ",\"hostnqn\":\"" T_HOST "\"}", "refused", "nqn",
	 "subsystem.set_hosts"},
	{"host.qos", "{" NQN2 ",\"hostnqn\":\"" T_HOST2 "\",\"limits\":{\"iops\":-1}}", "invalid",
	 "iops", "rdtarget.yaml(5)"},
	{"listener.add", "{\"listener\":{\"port\":0}}", "invalid", "address", "rdtarget.yaml(5)"},
	{"listener.add", "{\"listener\":{\"address\":\"127.0.0.1\",\"port\":\"0\"}}", "invalid",
	 "port", "rdtarget.yaml(5)"},
	{"ana.set", "{\"group\":1,\"state\":\"lost\"}", "invalid", "state", NULL},
	{"ana.set", "{\"group\":0,\"state\":\"change\"}", "invalid", "group", NULL},
	{"ana.set", "{\"group\":1,\"state\":\"change\",\"port\":70000}", "invalid", "port", NULL},
	{"ana.set", "{\"group\":1,\"state\":\"change\"}", "not_found", "port", "listener.list"},
	{"ana.claim", "{\"group\":1,\"action\":\"grab\"}", "invalid", "action", NULL},
	{"ana.claim", "{\"group\":1,\"action\":\"take\"}", "not_found", "group", "lock: exclusive"},
	{"config.apply", "{\"document\":\"subsystems: 7\\n\"}", "invalid", NULL,
	 "rdtarget.yaml(5)"},
	{"controller.disconnect", "{}", "invalid", "hostnqn", "controller.list"},
	{"controller.disconnect", "{" NQN2 ",\"cntlid\":1}", "not_found", "cntlid",
	 "controller.list"},
};

/* Each mistake names its key, and leaves the target as it is. */
static void mistakes_change_nothing(void)
{
	char *before, *after;
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open_file(&r);
	before = running_config(&r);
	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++)
		expect_refused(&r, mistakes[i].method, mistakes[i].params, mistakes[i].name,
			       mistakes[i].field, mistakes[i].hint);
	after = running_config(&r);
	CU_ASSERT_STRING_EQUAL(before, after);
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, true, 1, 0), 0);
	free(before);
	free(after);
}

/* It is applied as far as it can be: it is in the configuration, no later edit undoes it, and it
 * comes when its storage does. */
static void storage_that_does_not_open_is_tried_again(void)
{
	const struct rdt_ns *ns;
	struct t_rpc r T_ENDS(t_rpc_free);
	char *config;

	t_rpc_open_file(&r);
	expect_outcome(&r, "namespace.add", NS9, "failed");
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, T_NQN " namespace 9"));
	config = running_config(&r);
	CU_ASSERT_PTR_NOT_NULL(strstr(config, "\"nsid\":9"));
	free(config);
	expect_outcome(&r, "namespace.write_protect", "{" NQN ",\"nsid\":5,\"on\":true}", "done");
	CU_ASSERT_EQUAL(t_rpc_list_size(&r, "namespace.list", "namespaces"), 4);
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "\"state\":\"failed\""));
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "\"reason\":"));
	ns = t_ns_of(r.pair.env->t->subsys[0], 9);
	CU_ASSERT_PTR_NOT_NULL_FATAL(ns);
	r.pair.env->disk_next = NEW_DISK;
	t_advance(r.pair.env, 2 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(ns->state, RDT_NS_LIVE);
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, true, 9, 0), 0);
}

/* The I/O of a namespace hangs while it is removed: every other change is made meanwhile. */
static void a_removal_that_hangs_delays_no_other_change(void)
{
	struct t_disk *disk;
	struct nvme_sqe sqe;
	struct t_rpc r;
	char buf[512];

	t_rpc_open_file(&r);
	disk = &r.pair.env->disk[0];
	disk->hold = true;
	t_rw_sqe(r.pair.io, &sqe, true, 0, 1, buf);
	t_send(r.pair.io, &sqe, NULL, 0);
	t_turn(r.pair.env);
	CU_ASSERT_EQUAL_FATAL(disk->held_count, 1);
	expect_outcome(&r, "namespace.remove", "{" NQN ",\"nsid\":1,\"wait\":false}",
		       "in progress");
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, true, 1, 0), NVME_SC_INVALID_NS);
	r.pair.env->disk_next = NEW_DISK;
	expect_outcome(&r, "namespace.add", NS9, "done");
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, true, 9, 0), 0);
	expect_outcome(&r, "namespace.set_ana", "{" NQN ",\"nsid\":5,\"group\":4}", "done");
	expect_outcome(&r, "host.allow", "{" NQN2 ",\"hostnqn\":\"" T_HOST "\"}", "done");
	CU_ASSERT_EQUAL(connect_status(&r, T_NQN2, T_HOST, NULL), 0);
	expect_outcome(&r, "host.deny", "{" NQN2 ",\"hostnqn\":\"" T_HOST "\"}", "done");
	CU_ASSERT_NOT_EQUAL(connect_status(&r, T_NQN2, T_HOST, NULL), 0);
	/* Its NSID is free. */
	r.pair.env->disk_next = NEW_DISK + 1;
	expect_outcome(&r, "namespace.add",
		       "{" NQN ",\"namespace\":{\"nsid\":1,\"backend\":\"memory\",\"block_size\":"
		       "512,\"size\":\"2MiB\"}}",
		       "done");
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, true, 1, 0), 0);
	CU_ASSERT_EQUAL(disk->held_count, 1);
	CU_ASSERT_FALSE(disk->closed);
	disk->hold = false;
	t_turn(r.pair.env);
	CU_ASSERT_TRUE(disk->closed);
	t_rpc_free(&r);
}

static void namespaces_change_under_hosts(void)
{
	struct t_rpc r T_ENDS(t_rpc_free);
	struct rdt_ns *ns;

	t_rpc_open_file(&r);
	ns = t_ns_of(r.pair.env->t->subsys[0], 1);
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, true, 1, 3000), 0);
	expect_done(&r, "namespace.resize", "{" NQN ",\"nsid\":1,\"size\":\"1MiB\"}", true);
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, true, 1, 3000), NVME_SC_LBA_RANGE);
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, true, 1, 2047), 0);
	expect_done(&r, "namespace.resize", "{" NQN ",\"nsid\":1}", true);
	expect_done(&r, "namespace.write_protect", "{" NQN ",\"nsid\":1,\"on\":true}", true);
	CU_ASSERT_NOT_EQUAL(t_rpc_rw(r.pair.io, true, 1, 0), 0);
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, false, 1, 0), 0);
	expect_done(&r, "namespace.write_protect", "{" NQN ",\"nsid\":1,\"on\":true}", false);
	expect_done(&r, "namespace.write_protect", "{" NQN ",\"nsid\":1,\"on\":false}", true);
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, true, 1, 0), 0);
	expect_done(&r, "namespace.set_ana", "{" NQN ",\"nsid\":1,\"group\":4}", true);
	CU_ASSERT_EQUAL(rdt_ns_ana_group(ns), 4);
	expect_done(&r, "namespace.qos", "{" NQN ",\"nsid\":1,\"limits\":{\"iops\":500}}", true);
	CU_ASSERT_PTR_NOT_NULL_FATAL(ns->now->qos);
	CU_ASSERT_EQUAL(ns->now->qos->iops, 500);
	expect_done(&r, "namespace.qos", "{" NQN ",\"nsid\":1,\"limits\":{}}", true);
	CU_ASSERT_PTR_NULL(ns->now->qos);
	CU_ASSERT_PTR_EQUAL(t_ns_of(r.pair.env->t->subsys[0], 1), ns); /* never replaced */
}

static void a_dry_run_shows_the_difference_only(void)
{
	char *before, *after;
	const json_t *result;
	json_t *answer;
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open_file(&r);
	before = running_config(&r);
	result = t_rpc_result(&r, "namespace.remove", "{" NQN ",\"nsid\":5,\"dry_run\":true}",
			      &answer);
	CU_ASSERT_EQUAL(json_array_size(json_object_get(result, "differences")), 1);
	json_decref(answer);
	after = running_config(&r);
	CU_ASSERT_STRING_EQUAL(before, after);
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, false, 5, 0), 0);
	free(before);
	free(after);
}

/* ---- subsystems and hosts ---- */

static void subsystems_come_and_go(void)
{
	static const char nqn[] = "nqn.2026-11.io.rdnvme:new";
	struct t_conn *c;
	struct t_rpc r T_ENDS(t_rpc_free);
	bool gone = false;

	t_rpc_open_file(&r);
	CU_ASSERT_NOT_EQUAL(connect_status(&r, nqn, T_HOST, NULL), 0);
	expect_done(&r, "subsystem.add",
		    "{\"subsystem\":{\"nqn\":\"nqn.2026-11.io.rdnvme:new\",\"allow_any_host\":"
		    "true}}",
		    true);
	CU_ASSERT_EQUAL(connect_status(&r, nqn, T_HOST, &c), 0);
	c->gone = &gone;
	expect_done(&r, "subsystem.remove", "{\"nqn\":\"nqn.2026-11.io.rdnvme:new\"}", true);
	t_turn(r.pair.env);
	CU_ASSERT_TRUE(gone);
	CU_ASSERT_NOT_EQUAL(connect_status(&r, nqn, T_HOST, NULL), 0);
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, false, 1, 0), 0); /* the other one serves on */
}

#define NEW_SUBSYS(serial, more)                                                             \
	"{\"subsystem\":{\"nqn\":\"nqn.2026-11.io.rdnvme:new\",\"allow_any_host\":true,"     \
	"\"serial\":"                                                                        \
	"\"" serial "\"" more ",\"namespaces\":[{\"nsid\":1,\"backend\":\"memory\",\"block_" \
	"size\":512,\"size\":\"2MiB\"}]}}"

/* The document @more after the base configuration. The caller frees it. */
static char *document_with(const char *more)
{
	json_t *text = json_sprintf("%s%s", t_rpc_config, more);
	json_t *params = json_pack("{s:o}", "document", text);
	char *line = json_dumps(params, JSON_COMPACT);

	CU_ASSERT_PTR_NOT_NULL_FATAL(line);
	json_decref(params);
	return line;
}

/* One that was removed does not bind the next one with its name. */
static void a_subsystem_that_was_removed_may_come_with_other_values(void)
{
	static const char removal[] = "{\"nqn\":\"nqn.2026-11.io.rdnvme:new\"}";
	const struct rdt_subsys *ss;
	const json_t *result;
	char *document;
	json_t *answer;
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open_file(&r);
	document = document_with("  - {nqn: \"nqn.2026-11.io.rdnvme:new\", allow_any_host: true, "
				 "serial: FIRST}\n");
	expect_done(&r, "config.apply", document, true);
	free(document);
	expect_done(&r, "subsystem.remove", removal, true);
	r.pair.env->disk_next = NEW_DISK;
	result = t_rpc_result(&r, "subsystem.add",
			      NEW_SUBSYS("SECOND", ",\"cntlid_max\":9,\"write_protect\":\"all\""),
			      &answer);
	CU_ASSERT_TRUE(json_is_true(json_object_get(result, "changed")));
	CU_ASSERT_PTR_NULL(strstr(r.answer, "rdnvme:new")); /* nothing of it needs a restart */
	json_decref(answer);
	ss = rdt_subsys_find(r.pair.env->t, "nqn.2026-11.io.rdnvme:new");
	CU_ASSERT_PTR_NOT_NULL_FATAL(ss);
	CU_ASSERT_STRING_EQUAL(ss->cfg->serial, "SECOND");
	CU_ASSERT_EQUAL(ss->cfg->write_protect, RDT_WP_ALL);
	CU_ASSERT_EQUAL(ss->cntlid_max, 9);
	CU_ASSERT_EQUAL(connect_status(&r, ss->nqn, T_HOST, NULL), 0);
	expect_done(&r, "subsystem.remove", removal, true);
	r.pair.env->disk_next = NEW_DISK + 1;
	result = t_rpc_result(&r, "subsystem.add", NEW_SUBSYS("THIRD", ""), &answer);
	CU_ASSERT_TRUE(json_is_true(json_object_get(result, "changed")));
	json_decref(answer);
	ss = rdt_subsys_find(r.pair.env->t, "nqn.2026-11.io.rdnvme:new");
	CU_ASSERT_PTR_NOT_NULL_FATAL(ss);
	CU_ASSERT_STRING_EQUAL(ss->cfg->serial, "THIRD");
}

static void hosts_are_allowed_and_denied(void)
{
	struct t_conn *c;
	struct t_rpc r T_ENDS(t_rpc_free);
	bool gone = false;

	t_rpc_open_file(&r);
	CU_ASSERT_NOT_EQUAL(connect_status(&r, T_NQN2, T_HOST, NULL), 0);
	expect_done(&r, "host.allow", "{" NQN2 ",\"hostnqn\":\"" T_HOST "\"}", true);
	expect_done(&r, "host.allow", "{" NQN2 ",\"hostnqn\":\"" T_HOST "\"}", false);
	CU_ASSERT_EQUAL(connect_status(&r, T_NQN2, T_HOST, &c), 0);
	c->gone = &gone;
	expect_done(&r, "host.deny", "{" NQN2 ",\"hostnqn\":\"" T_HOST "\"}", true);
	t_turn(r.pair.env);
	CU_ASSERT_TRUE(gone);
	CU_ASSERT_EQUAL(connect_status(&r, T_NQN2, T_HOST2, &c), 0);
	c->gone = &gone;
	gone = false;
	/* Without the last one the subsystem is closed. */
	expect_done(&r, "host.deny", "{" NQN2 ",\"hostnqn\":\"" T_HOST2 "\"}", true);
	t_turn(r.pair.env);
	CU_ASSERT_TRUE(gone);
	CU_ASSERT_NOT_EQUAL(connect_status(&r, T_NQN2, T_HOST2, NULL), 0);
	CU_ASSERT_NOT_EQUAL(connect_status(&r, T_NQN2, T_HOST, NULL), 0);
	expect_done(&r, "subsystem.allow_any_host", "{" NQN2 "}", true);
	CU_ASSERT_EQUAL(connect_status(&r, T_NQN2, T_HOST, NULL), 0);
	expect_done(&r, "host.allow", "{" NQN2 ",\"hostnqn\":\"" T_HOST "\"}", false);
	CU_ASSERT_EQUAL(connect_status(&r, T_NQN2, T_HOST2, &c), 0); /* excluded by nothing */
	c->gone = &gone;
	gone = false;
	expect_done(&r, "subsystem.set_hosts", "{" NQN2 ",\"hosts\":[\"" T_HOST "\"]}", true);
	t_turn(r.pair.env);
	CU_ASSERT_TRUE(gone);
	CU_ASSERT_EQUAL(connect_status(&r, T_NQN2, T_HOST, NULL), 0);
}

/* A subsystem for which nothing says which hosts may connect is refused, and one that has lost
 * this setting stays as it is. */
static void hosts_are_a_needed_setting(void)
{
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open_file(&r);
	expect_refused(&r, "subsystem.add",
		       "{\"subsystem\":{\"nqn\":\"nqn.2026-11.io.rdnvme:new\"}}", "invalid",
		       "subsystems[2]", "nothing was changed; rdtarget.yaml(5) describes the keys");
	expect_done(&r, "subsystem.add",
		    "{\"subsystem\":{\"nqn\":\"nqn.2026-11.io.rdnvme:new\",\"hosts\":[]}}", true);
	expect_refused(&r, "config.apply",
		       "{\"document\":\"subsystems: [{nqn: \\\"" T_NQN "\\\"}]\"}", "invalid", NULL,
		       "nothing was changed; rdtarget.yaml(5) describes the keys");
	CU_ASSERT_EQUAL(connect_status(&r, T_NQN, T_HOST, NULL), 0);
}

static void a_host_has_one_set_of_limits(void)
{
	const struct rdt_subsys_config *now;
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open_file(&r);
	expect_done(&r, "host.qos",
		    "{" NQN2 ",\"hostnqn\":\"" T_HOST2 "\",\"limits\":{\"iops\":100}}", true);
	expect_done(&r, "host.qos",
		    "{" NQN2 ",\"hostnqn\":\"" T_HOST2 "\",\"limits\":{\"iops\":200}}", true);
	now = r.pair.env->t->subsys[1]->now;
	CU_ASSERT_EQUAL_FATAL(now->host_qos_count, 1);
	CU_ASSERT_EQUAL(now->host_qos[0].limits.iops, 200);
	expect_done(&r, "host.qos", "{" NQN2 ",\"hostnqn\":\"" T_HOST2 "\",\"limits\":{}}", true);
	CU_ASSERT_EQUAL(r.pair.env->t->subsys[1]->now->host_qos_count, 0);
}

/* A member "host" would move what is set from the host of the parameter to another one. */
static void a_host_is_named_by_its_parameter_only(void)
{
	static const struct {
		const char *method, *param, *member;
	} rows[] = {
		{"host.qos", "limits", "\"host\":\"" T_HOST "\",\"iops\":5"},
		{"host.qos", "limits", "\"host\":\"" T_HOST2 "\",\"iops\":5"},
		{"host.qos", "limits", "\"host\":7"},
		{"host.auth", "keys", "\"dhchap_key_file\":\"/k\",\"host\":\"" T_HOST "\""},
		{"host.allow", "keys", "\"dhchap_key_file\":\"/k\",\"host\":\"" T_HOST "\""},
	};
	const struct rdt_subsys_config *now;
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open_file(&r);
	expect_done(&r, "subsystem.set_hosts",
		    "{" NQN2 ",\"hosts\":[\"" T_HOST "\",\"" T_HOST2 "\"]}", true);
	expect_done(&r, "host.qos",
		    "{" NQN2 ",\"hostnqn\":\"" T_HOST2 "\",\"limits\":{\"iops\":100}}", true);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char params[512];

		snprintf(params, sizeof(params), "{" NQN2 ",\"hostnqn\":\"%s\",\"%s\":{%s}}",
			 T_HOST2, rows[i].param, rows[i].member);
		expect_refused(&r, rows[i].method, params, "invalid", "host", "hostnqn");
	}
	now = r.pair.env->t->subsys[1]->now;
	CU_ASSERT_EQUAL_FATAL(now->host_qos_count, 1);
	CU_ASSERT_STRING_EQUAL(now->host_qos[0].host, T_HOST2);
	CU_ASSERT_EQUAL(now->host_qos[0].limits.iops, 100);
}

/* ---- listeners ---- */

static void listeners_come_and_go(void)
{
	static const char one[] = "{\"listener\":{\"address\":\"127.0.0.1\",\"port\":0,"
				  "\"provider\":\"iwarp\"}}";
	struct sockaddr_storage addr;
	struct rdt_listener *l;
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open_file(&r);
	expect_done(&r, "listener.add", one, true);
	expect_done(&r, "listener.add", one, false);
	l = TAILQ_FIRST(&r.pair.env->t->listeners);
	CU_ASSERT_PTR_NOT_NULL_FATAL(l);
	addr = l->addr;
	CU_ASSERT_EQUAL(t_rpc_reach(&addr), 0);
	expect_done(&r, "ana.set", "{\"group\":2,\"state\":\"inaccessible\"}", true);
	CU_ASSERT_EQUAL(atomic_load(&l->ana[2]), NVME_ANA_STATE_INACCESSIBLE);
	CU_ASSERT_EQUAL(atomic_load(&l->ana[1]), NVME_ANA_STATE_OPTIMIZED);
	expect_refused(&r, "ana.set",
		       "{\"group\":2,\"state\":\"optimized\",\"address\":\"192.0.2.9\"}",
		       "not_found", "address", "listener.list");
	expect_done(&r, "ana.set", "{\"group\":2,\"state\":\"optimized\"}", true);
	CU_ASSERT_EQUAL(atomic_load(&l->ana[2]), NVME_ANA_STATE_OPTIMIZED);
	expect_done(&r, "listener.remove", "{\"address\":\"127.0.0.1\",\"port\":0}", true);
	CU_ASSERT_NOT_EQUAL(t_rpc_reach(&addr), 0);
	CU_ASSERT_EQUAL(t_rpc_list_size(&r, "listener.list", "listeners"), 0);
	expect_done(&r, "listener.remove", "{\"address\":\"127.0.0.1\",\"port\":0}", false);
}

#define MANY 250u /* more than a report keeps */

/* A list of @count elements @what, and a number after each. The caller frees it. */
static char *list_of(unsigned int count, const char *what)
{
	char *text = calloc(count, strlen(what) + 16), *end = text;

	CU_ASSERT_PTR_NOT_NULL_FATAL(text);
	for (unsigned int i = 0; i < count; i++)
		end += sprintf(end, "%s%u, ", what, i);
	return text;
}

/* Hosts with odd names are warnings, and the three with a space, which follow, are errors. */
static void an_error_after_many_warnings_is_told(void)
{
	char *odd = list_of(MANY, "odd"), more[MANY * 16], *params, *text;
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open_file(&r);
	snprintf(more, sizeof(more),
		 "  - nqn: nqn.2026-11.io.rdnvme:new\n    hosts: [%s\"a b\", \"c d\", \"e f\"]\n",
		 odd);
	params = document_with(more);
	expect_refused(&r, "config.apply", params, "invalid", NULL, "rdtarget.yaml(5)");
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "hosts[250]: found "));
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "(and 2 more)"));
	CU_ASSERT_TRUE(asprintf(&text, "%s%s", t_rpc_config, more) > 0);
	t_rpc_write_config(&r, text);
	expect_refused(&r, "config.diff", "{}", "invalid", NULL, "config.check");
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "hosts[250]: found "));
	json_decref(t_rpc_call(&r, "config.check", "{}"));
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "hosts[250]: found "));
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "150 more warnings were left out"));
	free(text);
	free(params);
	free(odd);
}

/* A load ends with 100 of them. */
static void further_errors_are_counted(void)
{
	char *keys = list_of(MANY, "wrong"), more[MANY * 24], *params;
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open_file(&r);
	snprintf(more, sizeof(more), "control: {socket: /nowhere/c, %s}\n", keys);
	params = document_with(more);
	expect_refused(&r, "config.apply", params, "invalid", NULL, "rdtarget.yaml(5)");
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "(and 99 more)"));
	free(params);
	free(keys);
}

/* The others of the change come, and it listens when it can. */
static void a_listener_that_fails_stops_nothing_else(void)
{
	const struct rdt_listener *first, *second;
	char more[512], *line;
	struct t_rpc r T_ENDS(t_rpc_free);
	uint16_t port;
	int fd;

	t_rpc_open_file(&r);
	fd = t_rpc_taken_port(&port);
	snprintf(more, sizeof(more),
		 "      - {nsid: 9, backend: memory, block_size: 512, size: 2MiB}\n"
		 "listeners:\n"
		 "  - {address: 127.0.0.1, port: %u, provider: iwarp}\n"
		 "  - {address: 127.0.0.1, port: 0, provider: iwarp}\n",
		 port);
	line = document_with(more);
	r.pair.env->disk_next = NEW_DISK;
	expect_outcome(&r, "config.apply", line, "failed");
	free(line);
	CU_ASSERT_EQUAL(t_rpc_list_size(&r, "namespace.list", "namespaces"), 4);
	first = TAILQ_FIRST(&r.pair.env->t->listeners);
	second = TAILQ_NEXT(first, link);
	CU_ASSERT_EQUAL_FATAL(first->phase, RDT_LISTENER_FAILED);
	CU_ASSERT_EQUAL_FATAL(second->phase, RDT_LISTENER_LISTENING);
	CU_ASSERT_EQUAL(t_rpc_reach(&second->addr), 0);
	json_decref(t_rpc_call(&r, "listener.list", "{}"));
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "\"state\":\"failed\""));
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "Address already in use"));
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "\"retry_seconds\":"));
	json_decref(t_rpc_call(&r, "status", "{}"));
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "\"listeners_failed\":1"));
	t_advance(r.pair.env, RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(first->phase, RDT_LISTENER_FAILED);
	close(fd); /* the port is free now */
	t_advance(r.pair.env, RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(first->phase, RDT_LISTENER_LISTENING);
	CU_ASSERT_EQUAL(t_rpc_reach(&first->addr), 0);
	json_decref(t_rpc_call(&r, "listener.list", "{}"));
	CU_ASSERT_PTR_NULL(strstr(r.answer, "failed"));
}

/* ---- the file ---- */

static char *file_text(const struct t_rpc *r)
{
	char *text = calloc(1, 8192);
	FILE *f = fopen(r->path, "r");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_TRUE(fread(text, 1, 8191, f) > 0);
	fclose(f);
	return text;
}

static void changes_are_saved_on_demand(void)
{
	struct t_rpc r T_ENDS(t_rpc_free);
	char *text;

	t_rpc_open_file(&r);
	expect_done(&r, "namespace.set_ana", "{" NQN ",\"nsid\":5,\"group\":3}", true);
	text = file_text(&r);
	CU_ASSERT_STRING_EQUAL(text, t_rpc_config);
	free(text);
	expect_done(&r, "namespace.set_ana", "{" NQN ",\"nsid\":5,\"group\":4,\"save\":true}",
		    true);
	text = file_text(&r);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "ana_group: 4"));
	free(text);
	/* It is so already, and in the file. */
	expect_done(&r, "namespace.set_ana", "{" NQN ",\"nsid\":5,\"group\":4,\"save\":true}",
		    false);
	t_rpc_write_config(&r, t_rpc_config); /* an editor was quicker */
	expect_refused(&r, "namespace.set_ana", "{" NQN ",\"nsid\":5,\"group\":2,\"save\":true}",
		       "refused", NULL, NULL);
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "the change was made, but: "));
	expect_refused(&r, "config.save", "{}", "refused", NULL, NULL);
	text = file_text(&r);
	CU_ASSERT_STRING_EQUAL(text, t_rpc_config);
	free(text);
}

/* Reading the file again replaces changes that it does not have, and says so. */
static void unsaved_changes_that_are_lost_are_named(void)
{
	const json_t *result;
	json_t *answer;
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open_file(&r);
	expect_done(&r, "namespace.write_protect", "{" NQN ",\"nsid\":5,\"on\":true}", true);
	CU_ASSERT_NOT_EQUAL(t_rpc_rw(r.pair.io, true, 5, 0), 0);
	result = t_rpc_result(&r, "config.reload", "{}", &answer);
	CU_ASSERT_TRUE(json_is_true(json_object_get(result, "applied")));
	CU_ASSERT_TRUE(t_rpc_logged(&r,
				    "a change that was not saved is replaced: "
				    "namespace.write_protect {",
				    NULL, 0));
	json_decref(answer);
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, true, 5, 0), 0);
	t_rpc_write_config(&r, "listeners: 7\n");
	result = t_rpc_result(&r, "config.reload", "{}", &answer);
	CU_ASSERT_FALSE(json_is_true(json_object_get(result, "applied")));
	CU_ASSERT_TRUE(json_array_size(json_object_get(result, "messages")) > 0);
	json_decref(answer);
	expect_refused(&r, "config.diff", "{}", "invalid", NULL, "config.check");
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, true, 5, 0), 0);
}

/* ---- drain ---- */

static void a_drain_ends_when_hosts_are_idle(void)
{
	struct t_rpc r T_ENDS(t_rpc_free);
	int other;

	t_rpc_open_file(&r);
	expect_done(&r, "listener.add",
		    "{\"listener\":{\"address\":\"127.0.0.1\",\"port\":0,\"provider\":\"iwarp\"}}",
		    true);
	expect_refused(&r, "drain", "{\"timeout\":0}", "invalid", "timeout", NULL);
	t_rpc_send(&r, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"drain\"}");
	other = r.fd;
	r.fd = t_rpc_connect(&r);
	expect_refused(&r, "drain", "{}", "busy", NULL, NULL);
	expect_refused(&r, "namespace.remove", "{" NQN ",\"nsid\":5}", "busy", NULL, NULL);
	for (int i = 0; i < 8; i++)
		t_advance(r.pair.env, RD_NSEC_PER_SEC / 4);
	close(r.fd);
	r.fd = other;
	CU_ASSERT_PTR_NOT_NULL_FATAL(t_rpc_line(&r));
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "\"drained\""));
	CU_ASSERT_TRUE(t_rpc_logged(&r, "drained: no I/O", NULL, 0));
	expect_refused(&r, "config.reload", "{}", "busy", NULL, NULL);
}

static void a_drain_that_times_out_is_undone(void)
{
	struct rdt_listener *l;
	struct nvme_sqe sqe;
	uint8_t buf[512];
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open_file(&r);
	expect_done(&r, "listener.add",
		    "{\"listener\":{\"address\":\"127.0.0.1\",\"port\":0,\"provider\":\"iwarp\"}}",
		    true);
	expect_done(&r, "ana.set", "{\"group\":2,\"state\":\"non-optimized\"}", true);
	l = TAILQ_FIRST(&r.pair.env->t->listeners);
	r.pair.env->disk[0].hold = true;
	t_rw_sqe(r.pair.io, &sqe, false, 0, 1, buf);
	t_send(r.pair.io, &sqe, NULL, 0);
	t_rpc_send(&r, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"drain\",\"params\":{\"timeout\":"
		       "1}}");
	for (int i = 0; i < 4; i++)
		t_turn(r.pair.env);
	CU_ASSERT_EQUAL(atomic_load(&l->ana[1]), NVME_ANA_STATE_INACCESSIBLE);
	for (int i = 0; i < 8; i++)
		t_advance(r.pair.env, RD_NSEC_PER_SEC / 4);
	CU_ASSERT_PTR_NOT_NULL_FATAL(t_rpc_line(&r));
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "\"timeout\""));
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "1 commands in flight"));
	CU_ASSERT_EQUAL(atomic_load(&l->ana[1]), NVME_ANA_STATE_OPTIMIZED);
	CU_ASSERT_EQUAL(atomic_load(&l->ana[2]), NVME_ANA_STATE_NONOPTIMIZED);
	r.pair.env->disk[0].hold = false;
	expect_done(&r, "namespace.remove", "{" NQN ",\"nsid\":5}", true);
}

const struct t_case t_rpc_edit_cases[] = {
	{"namespaces come and go by calls, and hosts see it", namespaces_come_and_go},
	{"each mistake of a call names its key, and changes nothing", mistakes_change_nothing},
	{"a namespace whose storage does not open is tried again",
	 storage_that_does_not_open_is_tried_again},
	{"a removal that hangs delays no other change",
	 a_removal_that_hangs_delays_no_other_change},
	{"size, protection, group and limits change under hosts", namespaces_change_under_hosts},
	{"a dry run shows the difference only", a_dry_run_shows_the_difference_only},
	{"subsystems come and go by calls", subsystems_come_and_go},
	{"a subsystem that was removed may come with other values",
	 a_subsystem_that_was_removed_may_come_with_other_values},
	{"hosts are allowed and denied by calls", hosts_are_allowed_and_denied},
	{"which hosts may connect has to be said", hosts_are_a_needed_setting},
	{"a host has one set of limits", a_host_has_one_set_of_limits},
	{"a host is named by its parameter only, not among its keys",
	 a_host_is_named_by_its_parameter_only},
	{"listeners come and go by calls, with their ANA states", listeners_come_and_go},
	{"an error after many warnings is told", an_error_after_many_warnings_is_told},
	{"further errors are counted", further_errors_are_counted},
	{"a listener that fails stops nothing else", a_listener_that_fails_stops_nothing_else},
	{"changes are saved on demand, and never over an edit of the file",
	 changes_are_saved_on_demand},
	{"unsaved changes that the file replaces are named",
	 unsaved_changes_that_are_lost_are_named},
	{"a drain ends when hosts are idle, and refuses changes", a_drain_ends_when_hosts_are_idle},
	{"a drain that times out is undone", a_drain_that_times_out_is_undone},
	{NULL, NULL},
};
