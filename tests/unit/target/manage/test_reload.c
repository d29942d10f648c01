/* SPDX-License-Identifier: BSD-3-Clause */
/* Each kind of change of the configuration file, applied to a target that serves a host: what it
 * does, what needs a restart and is named, and what is undone when a later part fails. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/sockaddr.h"

#include "t_rpc.h"
#include "target/nvmf/auth_keys.h"

#define NEW_DISK 3u
#define KEY      "DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:\n"
#define OTHER    "DHHC-1:01:gIGCg4SFhoeIiYqLjI2Oj5CRkpOUlZaXmJmam5ydnp9vmVbU:\n"
#define UUID1    "        uuid: 11111111-1111-1111-1111-111111111111\n"
#define UUID5    "        uuid: 10101010-1010-1010-1010-101010101010\n"

/* Reads t_rpc_config again, in which @to takes the place of @from, and with @more at its end. The
 * caller frees the answer. */
static const json_t *reload_with(struct t_rpc *r, const char *from, const char *to,
				 const char *more, json_t **answer)
{
	const char *at = strstr(t_rpc_config, from);
	char *text;

	CU_ASSERT_PTR_NOT_NULL_FATAL(at);
	CU_ASSERT_TRUE_FATAL(asprintf(&text, "%.*s%s%s%s", (int)(at - t_rpc_config), t_rpc_config,
				      to, at + strlen(from), more) > 0);
	t_rpc_write_config(r, text);
	free(text);
	return t_rpc_result(r, "config.reload", "{}", answer);
}

/* The reload is applied, with @problems. */
static void expect_applied(struct t_rpc *r, const char *from, const char *to, const char *more,
			   unsigned int problems)
{
	json_t *answer T_ENDS(json_decrefp) = NULL;
	const json_t *result = reload_with(r, from, to, more, &answer);

	if (json_integer_value(json_object_get(result, "problems")) != problems ||
	    !json_is_true(json_object_get(result, "applied")))
		fprintf(stderr, "%s\n", r->answer);
	CU_ASSERT_TRUE(json_is_true(json_object_get(result, "applied")));
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(result, "problems")), problems);
}

/* It is not, with @why among the messages. */
static void expect_not_applied(struct t_rpc *r, const char *from, const char *to, const char *more,
			       const char *why)
{
	json_t *answer T_ENDS(json_decrefp) = NULL;
	const json_t *result = reload_with(r, from, to, more, &answer);

	if (!strstr(r->answer, why))
		fprintf(stderr, "%s\n", r->answer);
	CU_ASSERT_FALSE(json_is_true(json_object_get(result, "applied")));
	CU_ASSERT_PTR_NOT_NULL(strstr(r->answer, why));
}

static const struct {
	const char *from, *to, *more, *named;
} restarts[] = {
	{"SERIAL0", "SERIAL9", "", T_NQN " serial: a change needs a restart"},
	{"model zero", "model nine", "", T_NQN " model: a change needs a restart"},
	{"    serial: SERIAL0\n", "    serial: SERIAL0\n    reservations: off\n", "",
	 T_NQN " reservations: a change needs a restart"},
	{"    serial: SERIAL0\n", "    serial: SERIAL0\n    write_protect: all\n", "",
	 T_NQN " write_protect: a change needs a restart"},
	{"queue_depth: 64", "queue_depth: 128", "",
	 "target: queue_depth: a change needs a restart"},
	{"queue_depth: 64", "limits: {controllers: 5}", "", "target: limits: a change needs"},
	{"queue_depth: 64", "congestion: reno", "", "target: congestion: a change needs a restart"},
	{"queue_depth: 64", "state_dir: /nowhere", "", "target: state_dir: a change needs"},
	{"queue_depth: 64", "reactors: 1, cpus: [0]", "", "target: cpus: a change needs a restart"},
	{"", "", "control: {socket: /nowhere/c, group: root, admin_group: root}\n",
	 "control: admin_group: a change needs a restart"},
};

/* The old value stays, and each reload says so again. */
static void what_needs_a_restart_is_named_and_stays(void)
{
	const struct rdt_subsys *ss;
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open_file(&r);
	ss = r.pair.env->t->subsys[0];
	for (size_t i = 0; i < sizeof(restarts) / sizeof(restarts[0]); i++) {
		CU_ASSERT_PTR_NULL(strstr(r.answer, restarts[i].named));
		for (int again = 0; again < 2; again++) {
			json_t *answer;

			reload_with(&r, restarts[i].from, restarts[i].to, restarts[i].more,
				    &answer);
			if (!strstr(r.answer, restarts[i].named))
				fprintf(stderr, "%s: %s\n", restarts[i].named, r.answer);
			CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, restarts[i].named));
			json_decref(answer);
		}
	}
	CU_ASSERT_STRING_EQUAL(ss->cfg->serial, "SERIAL0");
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, true, 1, 0), 0);
	CU_ASSERT_FALSE(r.pair.env->disk[0].closed);
}

static uint16_t second_controller(struct t_rpc *r, struct t_conn **out)
{
	struct t_conn *c = t_conn_new(r->pair.env, 0, 0, 32);
	struct t_answer a = t_connect_as(c, NVMF_CNTLID_DYNAMIC, T_HOST, 0x11);

	*out = c;
	return t_status(&a);
}

static void controllers_follow_the_configuration(void)
{
	struct t_conn *c;
	struct t_rpc r T_ENDS(t_rpc_free);
	bool gone = false;

	t_rpc_open_file(&r);
	CU_ASSERT_EQUAL(second_controller(&r, &c), 0);
	t_conn_cut(c);
	t_turn(r.pair.env);
	expect_applied(&r, "    serial: SERIAL0\n",
		       "    serial: SERIAL0\n    duplicate_host: refuse\n"
		       "    cntlid_min: 70\n    cntlid_max: 79\n",
		       "", 0);
	CU_ASSERT_NOT_EQUAL(second_controller(&r, &c), 0);
	t_conn_cut(c);
	expect_applied(&r, "    serial: SERIAL0\n",
		       "    serial: SERIAL0\n    duplicate_host: replace\n"
		       "    cntlid_min: 70\n    cntlid_max: 79\n",
		       "", 0);
	r.pair.admin->gone = &gone;
	CU_ASSERT_EQUAL(second_controller(&r, &c), 0);
	t_turn(r.pair.env);
	CU_ASSERT_TRUE(gone);
	CU_ASSERT_PTR_NOT_NULL_FATAL(c->qp.ctrl);
	CU_ASSERT_EQUAL(c->qp.ctrl->cntlid, 70);
}

static void referrals_follow_the_configuration(void)
{
	struct rdt_target *t;
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open_file(&r);
	t = r.pair.env->t;
	CU_ASSERT_EQUAL(t->referrals_count, 0);
	expect_applied(&r, "", "", "referrals: [{address: 192.0.2.7, port: 4421}]\n", 0);
	CU_ASSERT_EQUAL(t->referrals_count, 1);
	expect_applied(&r, "", "",
		       "referrals: [{address: 192.0.2.7, port: 4421}, {address: 192.0.2.8}]\n", 0);
	CU_ASSERT_EQUAL(t->referrals_count, 2);
	expect_applied(&r, "", "", "", 0);
	CU_ASSERT_EQUAL(t->referrals_count, 0);
}

/* ---- keys ---- */

static void write_key(const char *path, const char *key)
{
	FILE *f = fopen(path, "w");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_TRUE(fputs(key, f) >= 0);
	CU_ASSERT_EQUAL(fclose(f), 0);
	CU_ASSERT_EQUAL(chmod(path, 0600), 0);
}

/* A key comes, changes and goes; hosts that are connected stay. */
static void keys_follow_the_configuration(void)
{
	char path[64], auth[256], discovery[256];
	struct rdt_target *t;
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open_file(&r);
	t = r.pair.env->t;
	snprintf(path, sizeof(path), "%s/key", r.dir);
	snprintf(auth, sizeof(auth),
		 "    serial: SERIAL1\n    host_auth: [{host: \"" T_HOST2
		 "\", dhchap_key_file: %s}]\n",
		 path);
	snprintf(discovery, sizeof(discovery),
		 "discovery: {authentication: optional, host_auth: [{host: \"" T_HOST2
		 "\", dhchap_key_file: %s}]}\n",
		 path);
	write_key(path, KEY);
	expect_applied(&r, "    serial: SERIAL1\n", auth, discovery, 0);
	CU_ASSERT_TRUE(rdt_auth_asks(t->subsys[1], T_HOST2));
	CU_ASSERT_TRUE(rdt_auth_asks(&t->disc, T_HOST2));
	CU_ASSERT_FALSE(rdt_auth_asks(t->subsys[1], T_HOST));
	CU_ASSERT_TRUE(t_rpc_logged(&r, T_NQN2 ": host " T_HOST2 ": a key was added", NULL, 0));
	write_key(path, OTHER);
	expect_applied(&r, "    serial: SERIAL1\n", auth, discovery, 0);
	CU_ASSERT_TRUE(t_rpc_logged(&r, "the old keys are accepted for 5 more minutes", NULL, 0));
	write_key(path, "no key\n");
	expect_not_applied(&r, "    serial: SERIAL1\n", auth, discovery, path);
	CU_ASSERT_TRUE(rdt_auth_asks(t->subsys[1], T_HOST2));
	expect_applied(&r, "", "", "", 0);
	CU_ASSERT_FALSE(rdt_auth_asks(t->subsys[1], T_HOST2));
	CU_ASSERT_FALSE(rdt_auth_asks(&t->disc, T_HOST2));
	CU_ASSERT_TRUE(t_rpc_logged(&r, "its key was removed", NULL, 0));
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, true, 1, 0), 0);
	unlink(path);
}

/* ---- namespaces ---- */

static void another_identity_is_another_namespace(void)
{
	struct t_rpc r T_ENDS(t_rpc_free);
	struct t_disk *disk;

	t_rpc_open_file(&r);
	disk = r.pair.env->disk;
	/* The old one is not wanted any more, also while the new one has no storage. */
	expect_applied(&r, UUID1, "        uuid: 77777777-1111-1111-1111-111111111111\n", "", 1);
	CU_ASSERT_TRUE(disk[0].closed);
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, true, 1, 0), NVME_SC_INVALID_NS);
	r.pair.env->disk_next = NEW_DISK;
	expect_applied(&r, UUID1, "        uuid: 77777777-1111-1111-1111-111111111111\n", "", 0);
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, true, 1, 0), 0);
	CU_ASSERT_EQUAL(disk[NEW_DISK].submitted, 1);
}

/* The file of a namespace that is removed is opened for the new one after that only. When it then
 * fails, the rest is applied, and the next reload tries again. */
static void a_file_moves_from_one_namespace_to_another(void)
{
	static const char file[] = "      - nsid: 9\n"
				   "        backend: file\n"
				   "        path: /tmp/rdnvme-is-not-opened-by-the-fake\n"
				   "        block_size: 512\n"
				   "        size: 2MiB\n"
				   "        create: true\n";
	static const char moved[] = "      - nsid: 8\n"
				    "        backend: file\n"
				    "        path: /tmp/rdnvme-is-not-opened-by-the-fake\n"
				    "        block_size: 512\n"
				    "        size: 2MiB\n"
				    "        create: true\n"
				    "        ana_group: 3\n";
	struct t_env *env;
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open_file(&r);
	env = r.pair.env;
	env->disk_next = NEW_DISK;
	expect_applied(&r, "", "", file, 0);
	CU_ASSERT_PTR_NOT_NULL(t_ns_of(env->t->subsys[1], 9));
	env->disk_next = 0;
	expect_applied(&r, "", "", moved, 1);
	CU_ASSERT_TRUE(env->disk[NEW_DISK].closed);
	CU_ASSERT_PTR_NULL(t_ns_of(env->t->subsys[1], 9));
	CU_ASSERT_PTR_NOT_NULL_FATAL(t_ns_of(env->t->subsys[1], 8));
	CU_ASSERT_EQUAL(t_ns_of(env->t->subsys[1], 8)->state, RDT_NS_FAILED);
	env->disk_next = NEW_DISK + 1;
	expect_applied(&r, "", "", moved, 0);
	CU_ASSERT_EQUAL(t_ns_of(env->t->subsys[1], 8)->state, RDT_NS_LIVE);
}

static void a_namespace_is_for_some_hosts(void)
{
	struct t_rpc r T_ENDS(t_rpc_free);

	t_rpc_open_file(&r);
	expect_applied(&r, UUID5, UUID5 "        hosts: [" T_HOST2 "]\n", "", 0);
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, true, 5, 0), NVME_SC_INVALID_NS);
	expect_applied(&r, UUID5, UUID5 "        hosts: [" T_HOST "]\n", "", 0);
	CU_ASSERT_EQUAL(t_rpc_rw(r.pair.io, true, 5, 0), 0);
	expect_applied(&r, "", "", "", 0);
	CU_ASSERT_FALSE(r.pair.env->disk[1].closed);
}

/* ---- listeners ---- */

static uint16_t port_of(struct t_rpc *r)
{
	const struct rdt_listener *l = TAILQ_FIRST(&r->pair.env->t->listeners);

	CU_ASSERT_PTR_NOT_NULL_FATAL(l);
	CU_ASSERT_EQUAL(t_rpc_reach(&l->addr), 0);
	return rd_addr_port((const struct sockaddr *)&l->addr);
}

/* Its socket is closed before the new one is opened. */
static void a_listener_with_other_options_keeps_its_port(void)
{
	char more[256];
	struct t_rpc r T_ENDS(t_rpc_free);
	uint16_t port, taken;
	int fd = t_rpc_taken_port(&taken);

	t_rpc_open_file(&r);
	expect_applied(&r, "", "", "listeners: [{address: 127.0.0.1, port: 0, provider: iwarp}]\n",
		       0);
	port = port_of(&r);
	snprintf(more, sizeof(more),
		 "listeners:\n"
		 "  - {address: 127.0.0.1, port: 0, provider: iwarp, crc: true}\n"
		 "  - {address: 127.0.0.1, port: %u, provider: iwarp}\n",
		 taken);
	expect_applied(&r, "", "", more, 1); /* the other one fails */
	CU_ASSERT_PTR_NOT_NULL(strstr(r.answer, "cannot listen on 127.0.0.1"));
	CU_ASSERT_EQUAL(port_of(&r), port);
	CU_ASSERT_TRUE(TAILQ_FIRST(&r.pair.env->t->listeners)->cfg->crc);
	close(fd);
	expect_applied(&r, "", "", more, 0); /* and is tried at once */
	CU_ASSERT_EQUAL(port_of(&r), port);
}

const struct t_case t_reload_cases[] = {
	{"what needs a restart is named, and stays", what_needs_a_restart_is_named_and_stays},
	{"controller IDs and duplicate hosts follow the file",
	 controllers_follow_the_configuration},
	{"referrals follow the file", referrals_follow_the_configuration},
	{"keys follow the file", keys_follow_the_configuration},
	{"another identity is another namespace", another_identity_is_another_namespace},
	{"a file moves from one namespace to another", a_file_moves_from_one_namespace_to_another},
	{"a namespace is for some hosts", a_namespace_is_for_some_hosts},
	{"a listener with other options keeps its port",
	 a_listener_with_other_options_keeps_its_port},
	{NULL, NULL},
};
