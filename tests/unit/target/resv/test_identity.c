/* SPDX-License-Identifier: BSD-3-Clause */
/* Which UUID a volume has, what of it survives, and when what is stored of it ends. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <uuid/uuid.h>

#include "base_suites.h"
#include "target/resv/identity.h"

#define NQN   "nqn.2026-01.org.example:a"
#define NEVER 1000u

static const char uuid_x[] = "6f0c2b4e-6d0f-4a4e-9a56-0e9b7a3d5c11";

/* A state_dir in memory. It loses power before the operation number @fails_at, or one fails. */
static struct disk {
	struct rdt_state_files ops;
	struct {
		char name[80], *text;
	} file[8];
	unsigned int done, fails_at;
	bool power_is_back; /* only one operation fails */
} disk;

static struct rd_loop *loop;
static struct rdt_state *state;
static struct rdt_identities *ids;

static int slot_of(const char *name)
{
	for (int i = 0; i < 8; i++)
		if (strcmp(disk.file[i].name, name) == 0)
			return i;
	return -1;
}

static int disk_replace(struct rdt_state_files *files, const char *name, const char *text,
			size_t len)
{
	int at = slot_of(name);

	if (disk.done >= disk.fails_at && !disk.power_is_back)
		return -EIO;
	if (disk.done++ == disk.fails_at)
		return -EIO;
	if (at >= 0) {
		free(disk.file[at].text);
		disk.file[at].name[0] = '\0';
		disk.file[at].text = NULL;
	}
	if (!text)
		return 0;
	at = slot_of("");
	CU_ASSERT_FATAL(at >= 0);
	strcpy(disk.file[at].name, name);
	disk.file[at].text = strndup(text, len);
	return 0;
}

static int disk_read(struct rdt_state_files *files, const char *name, char **text, size_t *len)
{
	int at = slot_of(name);

	*text = at < 0 ? NULL : strdup(disk.file[at].text);
	*len = *text ? strlen(*text) : 0;
	return at < 0 ? -ENOENT : 0;
}

static void put_file(const char *name, const char *text)
{
	CU_ASSERT_EQUAL(disk_replace(&disk.ops, name, text, text ? strlen(text) : 0), 0);
}

static const char *file_text(const char *name)
{
	int at = slot_of(name);

	return at < 0 ? NULL : disk.file[at].text;
}

static void disk_new(void)
{
	for (int i = 0; i < 8; i++)
		free(disk.file[i].text);
	disk = (struct disk){.ops = {disk_replace, disk_read}, .fails_at = NEVER};
}

static void turn(void)
{
	while (rd_loop_turn(rdt_state_loop(state), 0) + rd_loop_turn(loop, 0) > 0)
		;
}

static void begin_in(const char *dir)
{
	const struct rd_loop_opts opts = {0}; /* its random numbers are others each time */
	struct rdt_state_files *files = dir ? NULL : &disk.ops;

	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&opts, &loop), 0);
	CU_ASSERT_EQUAL_FATAL(
		rdt_state_open(files, NULL, dir ? dir : "/state", -1, NULL, loop, &state), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_identities_new(state, NULL, loop, &ids), 0);
}

static void begin(void)
{
	begin_in(NULL);
}

/* ---- namespaces ---- */

struct space {
	struct rdt_identity_user user;
	struct rdt_ns_config cfg;
	int answer; /* of the last question */
	unsigned int told;
	char why[512];
};

/* As a namespace that opens does. */
static void space_done(struct rdt_identity_user *user, int err, const char *why)
{
	struct space *s = rd_container_of(user, struct space, user);

	s->told++;
	s->answer = err;
	snprintf(s->why, sizeof(s->why), "%s", why);
	if (!err)
		s->answer = rdt_identity_ask(ids, user, s->why, sizeof(s->why));
}

static struct space file_at(uint32_t nsid, const char *path)
{
	struct space s = {.cfg = {.nsid = nsid, .backend = RDT_BACKEND_FILE, .path = path}};

	s.user = (struct rdt_identity_user){.nqn = NQN, .done = space_done};
	memset(s.cfg.uuid_bytes, 0x50, 16); /* what NQN and NSID give */
	s.cfg.uuid_bytes[15] = (uint8_t)nsid;
	return s;
}

static void give_uuid(struct space *s, const char *uuid)
{
	s->cfg.uuid = uuid;
	uuid_parse(uuid, s->cfg.uuid_bytes);
}

static int ask(struct space *s)
{
	s->user.cfg = &s->cfg;
	s->told = 0;
	s->answer = rdt_identity_ask(ids, &s->user, s->why, sizeof(s->why));
	return s->answer;
}

static int get(struct space *s)
{
	if (ask(s) == -EINPROGRESS)
		turn();
	return s->answer;
}

static bool is_derived(const struct space *s)
{
	return memcmp(s->user.id->uuid, s->cfg.uuid_bytes, 16) == 0;
}

static void leave_and_put(struct space *s)
{
	rdt_identity_leave(ids, &s->user);
	rdt_identity_put(ids, &s->user);
}

static struct rdt_identity_end end;
static int end_err; /* 1: not told */

static void ended(struct rdt_identity_end *e, int err, const char *why)
{
	end_err = err;
}

static void settle(bool keep)
{
	end.done = ended;
	end_err = 1;
	if (!rdt_identities_settle(ids, keep, &end))
		end_err = 0;
}

/* The end of the process; @s, ..., NULL: the namespaces that it has. */
static void finish(struct space *s, ...)
{
	va_list ap;

	va_start(ap, s);
	for (; s; s = va_arg(ap, struct space *))
		rdt_identity_put(ids, &s->user);
	va_end(ap);
	rdt_state_close(&state);
	rdt_identities_free(&ids);
	rd_loop_destroy(&loop);
}

static char resv[RDT_UUID_TEXT + 16], protect[RDT_UUID_TEXT + 16];

static void store_something(const struct space *s)
{
	snprintf(resv, sizeof(resv), "%s" RDT_STATE_RESV, s->user.id->text);
	snprintf(protect, sizeof(protect), "%s" RDT_STATE_PROTECT, s->user.id->text);
	put_file(resv, "reservations");
	put_file(protect, "protection");
}

/* ---- first use ---- */

static void a_volume_keeps_what_it_got(void)
{
	struct space a = file_at(1, "/a"), b = file_at(2, "/b"), m = file_at(3, NULL);
	char before[3][RDT_UUID_TEXT];

	disk_new();
	begin();
	turn();                                 /* the file is made */
	CU_ASSERT_EQUAL(ask(&a), -EINPROGRESS); /* not before it is stored */
	CU_ASSERT_EQUAL(get(&a), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(file_text(RDT_IDENTITY_FILE), a.user.id->text));
	m.cfg.backend = RDT_BACKEND_MEMORY;
	CU_ASSERT_EQUAL(get(&b) | get(&m), 0);
	CU_ASSERT_FALSE(is_derived(&a) || is_derived(&b) || is_derived(&m));
	CU_ASSERT_TRUE(a.user.id->nguid && b.user.id->nguid && m.user.id->nguid);
	CU_ASSERT_EQUAL(a.user.from, RDT_IDENTITY_RECORD);
	CU_ASSERT_EQUAL(a.user.id->uuid[6] >> 4, 4);
	memcpy(before[0], a.user.id->text, sizeof(before[0]));
	memcpy(before[1], b.user.id->text, sizeof(before[1]));
	memcpy(before[2], m.user.id->text, sizeof(before[2]));
	finish(&a, &b, &m, NULL);

	/* The files have changed places. */
	a = file_at(2, "/a");
	b = file_at(1, "/b");
	m = file_at(3, NULL);
	m.cfg.backend = RDT_BACKEND_MEMORY;
	begin();
	CU_ASSERT_EQUAL(get(&b) | get(&a) | get(&m), 0);
	CU_ASSERT_STRING_EQUAL(a.user.id->text, before[0]);
	CU_ASSERT_STRING_EQUAL(b.user.id->text, before[1]);
	CU_ASSERT_STRING_EQUAL(m.user.id->text, before[2]);
	CU_ASSERT_TRUE(a.user.id->nguid);
	finish(&a, &b, &m, NULL);
}

static void read_only_namespaces_share_a_volume(void)
{
	struct space a = file_at(1, "/a"), b = file_at(2, "/a");
	char before[RDT_UUID_TEXT];

	disk_new();
	begin();
	turn();
	CU_ASSERT_EQUAL(get(&a), 0);
	CU_ASSERT_EQUAL(get(&b), -EINPROGRESS); /* perhaps the other one is about to leave */
	settle(false);
	turn();
	CU_ASSERT_EQUAL_FATAL(b.answer, 0);
	CU_ASSERT_PTR_NOT_EQUAL(a.user.id, b.user.id);
	memcpy(before, b.user.id->text, sizeof(before));
	finish(&a, &b, NULL);
	a = file_at(1, "/a");
	b = file_at(2, "/a");
	begin();
	CU_ASSERT_EQUAL(get(&b) | get(&a), 0);
	CU_ASSERT_STRING_EQUAL(b.user.id->text, before);
	finish(&a, &b, NULL);
}

/* One after the other leaves and comes, as in a reload. */
static void volumes_change_places(void)
{
	struct space a = file_at(1, "/a"), b = file_at(2, "/b"), x = file_at(1, "/b"),
		     y = file_at(2, "/a");
	char before[2][RDT_UUID_TEXT];

	disk_new();
	begin();
	turn();
	CU_ASSERT_EQUAL(get(&a) | get(&b), 0);
	memcpy(before[0], a.user.id->text, sizeof(before[0]));
	memcpy(before[1], b.user.id->text, sizeof(before[1]));
	store_something(&b);
	leave_and_put(&a);
	CU_ASSERT_EQUAL(ask(&x), -EINPROGRESS);
	leave_and_put(&b);
	CU_ASSERT_EQUAL(ask(&y), 0);
	settle(false);
	turn();
	CU_ASSERT_EQUAL_FATAL(x.answer, 0);
	CU_ASSERT_STRING_EQUAL(x.user.id->text, before[1]);
	CU_ASSERT_STRING_EQUAL(y.user.id->text, before[0]);
	CU_ASSERT_PTR_NOT_NULL(file_text(resv));
	finish(&x, &y, NULL);
}

/* ---- upgrade ---- */

static void an_old_directory_keeps_what_hosts_know(void)
{
	struct space a = file_at(1, "/a"), b = file_at(2, "/b");

	disk_new();
	begin();
	CU_ASSERT_EQUAL(get(&a), 0); /* configured at the first start */
	CU_ASSERT_TRUE(is_derived(&a));
	CU_ASSERT_FALSE(a.user.id->nguid);
	CU_ASSERT_EQUAL(get(&b), 0); /* came later */
	CU_ASSERT_FALSE(is_derived(&b));
	CU_ASSERT_TRUE(b.user.id->nguid);
	finish(&a, &b, NULL);

	a = file_at(7, "/a");
	b = file_at(1, "/b");
	begin();
	CU_ASSERT_EQUAL(get(&a) | get(&b), 0);
	CU_ASSERT_EQUAL(a.user.id->uuid[15], 1); /* that of NSID 1 */
	CU_ASSERT_FALSE(a.user.id->nguid);
	CU_ASSERT_NOT_EQUAL(memcmp(b.user.id->uuid, a.user.id->uuid, 16), 0);
	finish(&a, &b, NULL);
}

static void a_new_directory_gives_nguids(void)
{
	struct space a = file_at(1, "/a");
	char dir[64], path[96];

	t_dir_make(dir);
	snprintf(path, sizeof(path), "%s/state", dir);
	begin_in(path);
	CU_ASSERT_EQUAL(get(&a), 0);
	CU_ASSERT_TRUE(a.user.id->nguid);
	finish(&a, NULL);
	a = file_at(1, "/a");
	begin_in(path);
	CU_ASSERT_EQUAL(get(&a), 0);
	CU_ASSERT_TRUE(a.user.id->nguid && is_derived(&a));
	finish(&a, NULL);
	t_dir_remove(path);
	t_dir_remove(dir);
}

/* ---- what the configuration says, and gateways ---- */

static void the_configuration_wins(void)
{
	struct space a = file_at(1, "/a"), b = file_at(2, "/b");
	char kept[RDT_UUID_TEXT];

	disk_new();
	begin();
	turn();
	give_uuid(&a, uuid_x);
	CU_ASSERT_EQUAL(get(&a), 0);
	CU_ASSERT_STRING_EQUAL(a.user.id->text, uuid_x);
	CU_ASSERT_EQUAL(a.user.from, RDT_IDENTITY_CONFIG);
	CU_ASSERT_FALSE(a.user.id->nguid); /* who gives one gives all */
	CU_ASSERT_PTR_NULL(strstr(file_text(RDT_IDENTITY_FILE), uuid_x));
	give_uuid(&b, uuid_x);
	CU_ASSERT_EQUAL(get(&b), -EINPROGRESS);
	settle(false);
	turn();
	CU_ASSERT_EQUAL(b.answer, -EEXIST);
	CU_ASSERT_PTR_NOT_NULL(strstr(b.why, "namespace 1 of " NQN));
	leave_and_put(&a);
	CU_ASSERT_EQUAL(get(&b), 0);
	finish(&b, NULL);

	/* Written down as it is: the NGUID stays. */
	a = file_at(1, "/a");
	begin();
	CU_ASSERT_EQUAL(get(&a), 0);
	memcpy(kept, a.user.id->text, sizeof(kept));
	leave_and_put(&a);
	give_uuid(&a, kept);
	CU_ASSERT_EQUAL(get(&a), 0);
	CU_ASSERT_STRING_EQUAL(a.user.id->text, kept);
	CU_ASSERT_TRUE(a.user.id->nguid);
	finish(&a, NULL);
}

static void several_targets_agree(void)
{
	struct space a = file_at(1, "/a"), b = file_at(1, "/b"), r = file_at(2, NULL);
	struct rdt_rbd_config rbd = {.pool = "p", .image = "i"};

	disk_new();
	begin();
	turn();
	a.user.several = b.user.several = true;
	r.cfg.backend = RDT_BACKEND_RBD;
	r.cfg.rbd = &rbd;
	CU_ASSERT_EQUAL(get(&a) | get(&r), 0);
	CU_ASSERT_TRUE(is_derived(&a) && is_derived(&r));
	CU_ASSERT_FALSE(a.user.id->nguid || r.user.id->nguid);
	/* Another volume there has the same UUID, after what is stored of it is gone. */
	put_file("50505050-5050-5050-5050-505050505001.resv.json", "old");
	leave_and_put(&a);
	CU_ASSERT_EQUAL(get(&b), 0);
	CU_ASSERT_TRUE(is_derived(&b));
	CU_ASSERT_PTR_NULL(file_text("50505050-5050-5050-5050-505050505001.resv.json"));
	settle(false);
	CU_ASSERT_EQUAL(end_err, 0);
	CU_ASSERT_PTR_NULL(strstr(file_text(RDT_IDENTITY_FILE), "ended"));
	CU_ASSERT_PTR_NOT_NULL(strstr(file_text(RDT_IDENTITY_FILE), "path /b"));
	finish(&b, &r, NULL);

	/* One of them is the only one now. */
	b = file_at(1, "/b");
	begin();
	CU_ASSERT_EQUAL(get(&b), 0);
	CU_ASSERT_TRUE(is_derived(&b));
	finish(&b, NULL);
}

/* ---- the end of a volume ---- */

static void what_is_removed_has_ended(void)
{
	struct space a = file_at(1, "/a"), b = file_at(1, "/b");
	char before[RDT_UUID_TEXT];

	disk_new();
	begin();
	turn();
	CU_ASSERT_EQUAL(get(&a), 0);
	memcpy(before, a.user.id->text, sizeof(before));
	store_something(&a);
	rdt_identity_leave(ids, &a.user);
	CU_ASSERT_EQUAL(get(&b), 0);
	CU_ASSERT_STRING_NOT_EQUAL(b.user.id->text, before);
	settle(false);
	CU_ASSERT_EQUAL(end_err, 1);
	turn();
	CU_ASSERT_EQUAL(end_err, 0);
	/* A namespace that leaves may still write. */
	CU_ASSERT_PTR_NOT_NULL(file_text(resv));
	rdt_identity_put(ids, &a.user);
	turn();
	CU_ASSERT_PTR_NULL(file_text(resv));
	CU_ASSERT_PTR_NULL(file_text(protect));
	CU_ASSERT_PTR_NULL(strstr(file_text(RDT_IDENTITY_FILE), before));
	/* It comes back as another one. */
	a = file_at(2, "/a");
	CU_ASSERT_EQUAL(get(&a), 0);
	CU_ASSERT_STRING_NOT_EQUAL(a.user.id->text, before);
	finish(&a, &b, NULL);
}

static void what_comes_back_at_once_or_is_kept_has_not_ended(void)
{
	struct space a = file_at(1, "/a");
	char before[RDT_UUID_TEXT];

	disk_new();
	begin();
	turn();
	CU_ASSERT_EQUAL(get(&a), 0);
	memcpy(before, a.user.id->text, sizeof(before));
	store_something(&a);
	leave_and_put(&a); /* it is opened again, or has another block size */
	CU_ASSERT_EQUAL(get(&a), 0);
	settle(false);
	turn();
	CU_ASSERT_STRING_EQUAL(a.user.id->text, before);
	leave_and_put(&a);
	rdt_identity_spare(ids, NQN, &a.cfg); /* no memory for it */
	settle(false);
	turn();
	CU_ASSERT_EQUAL(get(&a), 0);
	CU_ASSERT_STRING_EQUAL(a.user.id->text, before);
	leave_and_put(&a);
	settle(true); /* --keep-state */
	turn();
	finish(NULL);
	begin();
	settle(false); /* a start ends nothing */
	turn();
	CU_ASSERT_EQUAL(get(&a), 0);
	CU_ASSERT_STRING_EQUAL(a.user.id->text, before);
	CU_ASSERT_PTR_NOT_NULL(file_text(resv));
	CU_ASSERT_PTR_NOT_NULL(file_text(protect));
	finish(&a, NULL);
}

/* The same UUID by the configuration, while the one that had it leaves. */
static void a_uuid_waits_until_its_past_is_gone(void)
{
	struct space a = file_at(1, "/a"), b = file_at(1, "/b");

	disk_new();
	begin();
	turn();
	give_uuid(&a, uuid_x);
	give_uuid(&b, uuid_x);
	CU_ASSERT_EQUAL(get(&a), 0);
	store_something(&a);
	rdt_identity_leave(ids, &a.user);
	settle(false);
	turn();
	CU_ASSERT_EQUAL(get(&b), -EINPROGRESS);
	rdt_identity_put(ids, &a.user);
	turn();
	CU_ASSERT_EQUAL(b.told, 1);
	CU_ASSERT_EQUAL(get(&b), 0);
	CU_ASSERT_PTR_NULL(file_text(resv));
	/* What hosts store from now on is not removed by the next start. */
	CU_ASSERT_PTR_NULL(strstr(file_text(RDT_IDENTITY_FILE), uuid_x));
	finish(&b, NULL);
}

/* Power fails before each operation of a removal in turn. Returns their number. */
static bool remove_with_failure(unsigned int at)
{
	struct space a = file_at(1, "/a"), b = file_at(1, "/b");
	char before[RDT_UUID_TEXT];
	bool all, told;

	disk_new();
	begin();
	turn();
	CU_ASSERT_EQUAL(get(&a), 0);
	memcpy(before, a.user.id->text, sizeof(before));
	store_something(&a);
	disk.fails_at = disk.done + at;
	leave_and_put(&a);
	settle(false);
	turn();
	told = end_err == 0;
	all = disk.done < disk.fails_at;
	finish(NULL);

	/* The configuration was saved; /a comes back later. */
	disk.fails_at = NEVER;
	begin();
	CU_ASSERT_EQUAL(get(&b), 0);
	CU_ASSERT_STRING_NOT_EQUAL(b.user.id->text, before);
	turn();
	CU_ASSERT_EQUAL(file_text(resv) == NULL, file_text(protect) == NULL);
	CU_ASSERT_TRUE(!told || !file_text(resv));
	a = file_at(2, "/a");
	CU_ASSERT_EQUAL(get(&a), 0);
	/* Its reservations and its UUID go together. */
	CU_ASSERT_EQUAL(strcmp(a.user.id->text, before) == 0, file_text(resv) != NULL);
	finish(&a, &b, NULL);
	return all;
}

static void a_power_failure_during_a_removal(void)
{
	unsigned int at = 0;

	while (!remove_with_failure(at))
		CU_ASSERT_FATAL(++at < 20);
	CU_ASSERT_TRUE(at >= 4); /* the file, two others, the file */
}

/* ---- what goes wrong ---- */

static void a_write_that_fails(void)
{
	struct space a = file_at(1, "/a");

	disk_new();
	begin();
	turn();
	disk.power_is_back = true;
	disk.fails_at = disk.done;
	CU_ASSERT_EQUAL(get(&a), -EIO);
	CU_ASSERT_PTR_NOT_NULL(strstr(a.why, "/state/identities.json, which stores UUIDs: "));
	CU_ASSERT_EQUAL(get(&a), 0); /* tried again */
	CU_ASSERT_PTR_NOT_NULL(strstr(file_text(RDT_IDENTITY_FILE), a.user.id->text));
	store_something(&a);
	disk.fails_at = disk.done;
	leave_and_put(&a);
	settle(false);
	turn();
	CU_ASSERT_EQUAL(end_err, -EIO);
	CU_ASSERT_PTR_NOT_NULL(file_text(resv)); /* nothing is removed before it is written */
	/* The next change ends it, too. */
	a = file_at(2, "/c");
	CU_ASSERT_EQUAL(get(&a), 0);
	turn();
	CU_ASSERT_PTR_NULL(file_text(resv));
	finish(&a, NULL);
}

static const struct {
	const char *text, *why;
} damaged[] = {
	{"", "line 1: '[' or '{' expected near end of file"},
	{"{\"version\": 1, \"volumes\": [", "line 1: "},
	{"{\"version\": 2, \"volumes\": []}", "version 2, expected 1"},
	{"{\"version\": 1}", "Object item not found: volumes"},
	{"{\"version\": 1, \"volumes\": {}}", "\"volumes\" is not a list"},
	{"{\"version\": 1, \"volumes\": [{\"uuid\": \"x\"}]}", "entry 0: \"x\" is not a UUID"},
	{"{\"version\": 1, \"volumes\": [{\"uuid\": \"6f0c2b4e-6d0f-4a4e-9a56-0e9b7a3d5c11\"}]}",
	 "entry 0 lacks one of"},
	{"{\"version\": 1, \"volumes\": [{\"uuid\": \"6f0c2b4e-6d0f-4a4e-9a56-0e9b7a3d5c11\", "
	 "\"ended\": true}, {\"uuid\": \"6F0C2b4e-6d0f-4a4e-9a56-0e9b7a3d5c11\", \"ended\": "
	 "true}]}",
	 "two entries have the UUID 6f0c2b4e"},
	{"{\"version\": 1, \"volumes\": [{\"uuid\": \"6f0c2b4e-6d0f-4a4e-9a56-0e9b7a3d5c11\", "
	 "\"ended\": true, \"x\": 1}]}",
	 "entry 0: "},
};

static void a_damaged_file_serves_nothing_else(void)
{
	for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
		struct space a = file_at(1, "/a"), b = file_at(2, "/b");
		bool good;

		disk_new();
		put_file(RDT_IDENTITY_FILE, damaged[i].text);
		begin();
		CU_ASSERT_EQUAL(get(&a), -EINVAL);
		good = strstr(a.why, "/state/identities.json: ") && strstr(a.why, damaged[i].why);
		CU_ASSERT_TRUE(good);
		if (!good)
			fprintf(stderr, "%zu: %s\n", i, a.why);
		/* Nothing else can be said about this one. */
		give_uuid(&b, uuid_x);
		b.cfg.nguid = "0123456789abcdef0123456789abcdef";
		CU_ASSERT_EQUAL(get(&b), 0);
		CU_ASSERT_STRING_EQUAL(file_text(RDT_IDENTITY_FILE), damaged[i].text);
		/* Restored while it runs. */
		put_file(RDT_IDENTITY_FILE,
			 "{\"version\": 1, \"volumes\": [{\"uuid\": "
			 "\"11111111-1111-4111-8111-111111111111\", \"nguid\": true, "
			 "\"volume\": \"path /a\", \"nqn\": \"" NQN "\", \"nsid\": 1}]}");
		CU_ASSERT_EQUAL(get(&a), 0);
		CU_ASSERT_STRING_EQUAL(a.user.id->text, "11111111-1111-4111-8111-111111111111");
		finish(&a, &b, NULL);
	}
	disk_new();
}

static void without_state_dir_nothing_is_kept(void)
{
	const struct rd_loop_opts opts = {.seed = 1};
	struct space a = file_at(1, "/a");

	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&opts, &loop), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_identities_new(NULL, NULL, loop, &ids), 0);
	CU_ASSERT_EQUAL(ask(&a), 0);
	CU_ASSERT_TRUE(is_derived(&a));
	CU_ASSERT_FALSE(a.user.id->nguid);
	CU_ASSERT_EQUAL(a.user.from, RDT_IDENTITY_DERIVED);
	leave_and_put(&a);
	settle(false);
	CU_ASSERT_EQUAL(end_err, 0);
	CU_ASSERT_EQUAL(ask(&a), 0);
	rdt_identity_put(ids, &a.user);
	rdt_identities_free(&ids);
	rd_loop_destroy(&loop);
}

const struct t_case t_identity_cases[] = {
	{"a volume keeps what it got, wherever it is served", a_volume_keeps_what_it_got},
	{"read-only namespaces on one volume have one each", read_only_namespaces_share_a_volume},
	{"volumes change places", volumes_change_places},
	{"a directory from before keeps what hosts know", an_old_directory_keeps_what_hosts_know},
	{"a new directory gives NGUIDs", a_new_directory_gives_nguids},
	{"the configuration wins", the_configuration_wins},
	{"several targets agree", several_targets_agree},
	{"what is removed has ended", what_is_removed_has_ended},
	{"what comes back at once, or is kept, has not",
	 what_comes_back_at_once_or_is_kept_has_not_ended},
	{"a UUID waits until its past is gone", a_uuid_waits_until_its_past_is_gone},
	{"a power failure during a removal", a_power_failure_during_a_removal},
	{"a write that fails", a_write_that_fails},
	{"a damaged file serves nothing else", a_damaged_file_serves_nothing_else},
	{"without state_dir nothing is kept", without_state_dir_nothing_is_kept},
	{NULL},
};
