/* SPDX-License-Identifier: BSD-3-Clause */
/* The exclusive lock of an image. Runs as part of the image's job. */
#include "rbd_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TAKE_NS (60 * RD_NSEC_PER_SEC) /* how long a command to take a lock is valid */

/* How long Ceph blocks a gateway whose lock was broken; its default is an hour. A gateway that was
 * stopped for longer, for example with its virtual machine, could still write. A week. */
#define BLOCK_SECS 604800u
#define BLOCKED_NS (600 * RD_NSEC_PER_SEC) /* far less than Ceph's default */
#define OWN_NS     RD_NSEC_PER_SEC       /* for which a gateway leaves its former lock to others */
#define PASSED_NS  (3 * RD_NSEC_PER_SEC) /* for which other gateways may take what was passed */
#define LATE_NS    (5 * RD_NSEC_PER_SEC) /* an answer to a request for the lock */

/* How long a gateway that is alive may take to watch again when its pool has hung: librados asks
 * each 5 s whether it still watches. Passes that are further apart have waited for the pool. */
#define STRANGER_NS (6 * RD_NSEC_PER_SEC)
#define PASSES_NS   (2 * RD_NSEC_PER_SEC)

static void tell_lock(struct rbd_image *img, enum rbd_lock_said said, const char *text)
{
	char spelled[256];

	if (img->lock_said != said)
		rd_notice(img->log, RD_LOG_BACKEND, "rbd: image %s: %s",
			  rbd_image_spell(img, spelled, sizeof(spelled)), text);
	img->lock_said = said;
}

/* ---- breaking a lock ---- */

/*
 * librbd has Ceph block the holder for the default time, and the time of an entry of the blocklist
 * cannot be changed: this adds the entry instead. A holder that is alive would come back and
 * compete for the lock before it is broken; so it is for a silent one only. A failure leaves the
 * block to librbd.
 */
static void block_for_long(struct rbd_image *img, const char *owner)
{
	char text[256], *out = NULL, *status = NULL;
	const char *command = text;
	size_t out_len = 0, status_len = 0;

	snprintf(text, sizeof(text),
		 "{\"prefix\": \"osd blocklist\", \"blocklistop\": \"add\", \"addr\": \"%s\", "
		 "\"expire\": %u.0}",
		 owner, BLOCK_SECS);
	rados_mon_command(img->handle->cl, &command, 1, "", 0, &out, &out_len, &status,
			  &status_len);
	rados_buffer_free(out);
	rados_buffer_free(status);
}

/* Is @owner in the list of @len bytes? Each line begins with an address. */
static bool is_listed(const char *list, size_t len, const char *owner)
{
	size_t owner_len = strlen(owner);
	const char *end = list + len;

	for (const char *line = list, *next; line < end; line = next) {
		next = memchr(line, '\n', (size_t)(end - line));
		next = next ? next + 1 : end;
		if ((size_t)(next - line) > owner_len && memcmp(line, owner, owner_len) == 0 &&
		    line[owner_len] == ' ')
			return true;
	}
	return false;
}

/* Asks a monitor whether @owner is in the blocklist. */
static bool ask_list(rados_t cl, const char *owner)
{
	const char *command = "{\"prefix\": \"osd blocklist ls\"}";
	char *out = NULL, *status = NULL;
	size_t out_len = 0, status_len = 0;
	int rc = rados_mon_command(cl, &command, 1, "", 0, &out, &out_len, &status, &status_len);
	bool listed = !rc && out && is_listed(out, out_len, owner);

	rados_buffer_free(out);
	rados_buffer_free(status);
	return listed;
}

bool rbd_handle_is_listed(struct rbd_handle *h)
{
	char address[sizeof(h->address)];

	pthread_mutex_lock(&h->joining);
	memcpy(address, h->address, sizeof(address));
	pthread_mutex_unlock(&h->joining);
	return address[0] && ask_list(h->cl, address);
}

/*
 * Does Ceph still block @owner? An operator may have removed the entry of the blocklist. An entry
 * that was added again is newer than the map that this connection has waited for: an OSD with an
 * older one would execute what @owner still sends.
 */
static bool block_lasts(struct rbd_image *img, const char *owner)
{
	bool listed = ask_list(img->handle->cl, owner);

	return listed && rados_wait_for_latest_osdmap(img->handle->cl) == 0;
}

/* Has this connection had @owner blocked, and the map of OSDs that says so? */
static bool is_blocked(struct rbd_image *img, const char *owner)
{
	struct rbd_handle *h = img->handle;
	uint64_t now = rdt_module_now();
	bool blocked = false;

	pthread_mutex_lock(&h->joining);
	for (unsigned int i = 0; i < RBD_BLOCKED; i++)
		blocked |= strcmp(h->blocked[i].owner, owner) == 0 &&
			   now - h->blocked[i].ns < BLOCKED_NS;
	pthread_mutex_unlock(&h->joining);
	return blocked && block_lasts(img, owner);
}

/*
 * The lock of @owner was broken. An operator may have removed the entry of the blocklist before,
 * while the pool kept the break waiting: @owner must be blocked before anybody has the lock,
 * because it may still have writes. Returns 0, or -EAGAIN when it is not blocked.
 */
static int keep_blocked(struct rbd_image *img, const char *owner)
{
	if (block_lasts(img, owner))
		return 0;
	block_for_long(img, owner);
	return block_lasts(img, owner) ? 0 : -EAGAIN;
}

static void note_blocked(struct rbd_image *img, const char *owner)
{
	struct rbd_handle *h = img->handle;
	unsigned int at = 0;

	pthread_mutex_lock(&h->joining);
	while (at < RBD_BLOCKED - 1 && strcmp(h->blocked[at].owner, owner) != 0)
		at++;
	memmove(&h->blocked[1], &h->blocked[0], at * sizeof(h->blocked[0]));
	snprintf(h->blocked[0].owner, sizeof(h->blocked[0].owner), "%s", owner);
	h->blocked[0].ns = rdt_module_now();
	pthread_mutex_unlock(&h->joining);
}

#define HEADER_NAME 300u

static const char *header_of(const struct rbd_image *img, char name[HEADER_NAME])
{
	snprintf(name, HEADER_NAME, "rbd_header.%s", img->id);
	return name;
}

struct rbd_locker {
	char client[64], cookie[64], address[128];
};

/* Asks the cluster: rbd_list_lockers() knows who had the lock when the image was read last. */
static int find_locker(struct rbd_image *img, struct rbd_locker *l)
{
	char tag[64], object[HEADER_NAME];
	size_t tag_len = sizeof(tag), client_len = sizeof(l->client),
	       cookie_len = sizeof(l->cookie), address_len = sizeof(l->address);
	int exclusive = 0;
	ssize_t count = rados_list_lockers(img->io, header_of(img, object), "rbd_lock", &exclusive,
					   tag, &tag_len, l->client, &client_len, l->cookie,
					   &cookie_len, l->address, &address_len);

	return count < 0 ? (int)count : count == 1 ? 0 : -ENOENT;
}

static int break_found(struct rbd_image *img, const struct rbd_locker *l)
{
	uint64_t now = rdt_module_now();
	char object[HEADER_NAME];
	int rc =
		rados_break_lock(img->io, header_of(img, object), "rbd_lock", l->client, l->cookie);

	if (!rc)
		rbd_handover_saw(img, l->client, now); /* it had the lock until now */
	return rc;
}

/* In a hand-over: who has the lock? */
static void look_at_holder(struct rbd_image *img)
{
	uint64_t now = rdt_module_now();
	struct rbd_locker l;

	if (!find_locker(img, &l))
		rbd_handover_saw(img, l.client, now);
}

/* librados writes the type of an address before it ("v1:"), and librbd does not. */
static bool is_address(const char *address, const char *owner)
{
	const char *at = strstr(address, owner);

	return at && !at[strlen(owner)] && (at == address || at[-1] == ':');
}

/* Breaks the lock of @owner, which is blocked. librbd would have it blocked again, which takes a
 * second for every few images. */
static int break_only(struct rbd_image *img, const char *owner)
{
	struct rbd_locker l;
	int rc = find_locker(img, &l);

	if (!rc && !is_address(l.address, owner))
		rc = -ENOENT;
	return rc ? rc : break_found(img, &l);
}

/* Is @instance, a connection to the cluster, the locker? Returns 0, -ENOENT when it is not, or
 * another -errno. */
static int find_locker_of(struct rbd_image *img, uint64_t instance, struct rbd_locker *l)
{
	char client[64];
	int rc = find_locker(img, l);

	snprintf(client, sizeof(client), "client.%llu", (unsigned long long)instance);
	return rc ? rc : strcmp(l->client, client) == 0 ? 0 : -ENOENT;
}

/* Is this connection the locker? As find_locker_of(). */
static int find_mine(struct rbd_image *img, struct rbd_locker *l)
{
	return find_locker_of(img, rados_get_instance_id(img->handle->cl), l);
}

int rbd_image_find_lock(struct rbd_image *img)
{
	struct rbd_locker l;

	return find_mine(img, &l);
}

/* Is the locker a connection that this image has left? It was closed there after its last I/O, so
 * nothing is written by that lock any more. Returns 0 or -errno. */
static int find_own(struct rbd_image *img, struct rbd_locker *l)
{
	if (!img->locked_as || img->locked_as == rados_get_instance_id(img->handle->cl))
		return -ENOENT;
	return find_locker_of(img, img->locked_as, l);
}

/* Break the lock that this image's former connection still has. Other images may use that
 * connection: all gateways would hear from it, and wait for the lock. */
static bool break_own(struct rbd_image *img, const struct rbd_locker *l)
{
	char spelled[256];

	if (break_found(img, l))
		return false;
	rbd_peers_gave_up(img->peers);
	rd_notice(img->log, RD_LOG_BACKEND,
		  "rbd: image %s: the lock that a former connection of this gateway had (%s) was "
		  "broken",
		  rbd_image_spell(img, spelled, sizeof(spelled)), l->address);
	return true;
}

/* Has the former connection had the lock for so long that no gateway is about to break it? One that
 * had the connection blocked breaks the lock next, and has a claim to it. */
static bool own_lasts(struct rbd_image *img)
{
	uint64_t now = rdt_module_now();

	if (!img->own_seen_ns)
		img->own_seen_ns = now;
	return now - img->own_seen_ns >= OWN_NS;
}

/*
 * librbd has Ceph block the holder before it breaks the lock, and waits for the map of OSDs that
 * says so; an OSD gets that map before it serves this gateway. So does block_lasts() for a holder
 * that is blocked already. The lock is not broken when @owner does not have it any more.
 */
static int break_lock(struct rbd_image *img, const char *owner, bool blocked, const char *why)
{
	char spelled[256];
	int rc = -EAGAIN;

	if (!blocked && why[0]) {
		block_for_long(img, owner);
		blocked = block_lasts(img, owner);
		if (blocked)
			note_blocked(img, owner);
	}
	if (blocked)
		rc = break_only(img, owner);
	/* Not when the lock is free since, or this connection is blocked itself. */
	if (rc && rc != -ENOENT && rc != -ESHUTDOWN) {
		rc = rbd_lock_break(img->image, RBD_LOCK_MODE_EXCLUSIVE, owner);
		if (!rc)
			note_blocked(img, owner);
	}
	if (!rc)
		rc = keep_blocked(img, owner);
	if (!rc)
		rd_notice(img->log, RD_LOG_BACKEND, "rbd: image %s: the lock of %s was broken%s",
			  rbd_image_spell(img, spelled, sizeof(spelled)), owner, why);
	else if (rc != -ENOENT && rc != -EBUSY && rc != -ESHUTDOWN &&
		 img->lock_said != RBD_SAID_FAILED)
		rd_err(img->log, RD_LOG_BACKEND,
		       "rbd: image %s: the lock of %s cannot be broken: %s; the user needs the "
		       "capabilities of \"profile rbd\" for mon and osd",
		       rbd_image_spell(img, spelled, sizeof(spelled)), owner, strerror(-rc));
	return rc;
}

/* ---- what is claimed ---- */

/* @claim becomes WAIT, unless it has changed since. */
static void end_claim(struct rbd_image *img, enum rdt_claim claim)
{
	atomic_compare_exchange_strong(&img->claim, &claim, RDT_CLAIM_WAIT);
}

/* The claim to act on now. A command to take the lock that could not be carried out in time,
 * because the cluster did not answer, is dropped: the operator may have decided otherwise since. */
static enum rdt_claim claim_now(struct rbd_image *img)
{
	enum rdt_claim claim = atomic_load(&img->claim);
	uint64_t since = atomic_load(&img->claimed_ns); /* before the clock: it may be set now */
	uint64_t age = rdt_module_now() - since;
	char spelled[256];

	if (claim != RDT_CLAIM_TAKE || age < TAKE_NS)
		return claim;
	if (!atomic_compare_exchange_strong(&img->claim, &claim, RDT_CLAIM_WAIT))
		return claim;
	rd_warn(img->log, RD_LOG_BACKEND,
		"rbd: image %s: the command to take its lock is %llu s old, because the cluster "
		"did not answer, and is dropped; repeat it if it is still wanted",
		rbd_image_spell(img, spelled, sizeof(spelled)),
		(unsigned long long)(age / RD_NSEC_PER_SEC));
	return RDT_CLAIM_WAIT;
}

/* Does the image that is served have its lock still? When another client has broken it, the image
 * is lost, also when Ceph does not block this gateway any more: it was stopped for so long. */
bool rbd_image_lock_stayed(struct rbd_image *img)
{
	int owner = 0, rc = rbd_is_exclusive_lock_owner(img->image, &owner);

	if (rc == -ESHUTDOWN || (!rc && !owner))
		rbd_image_lost(img); /* the claim stays for the next connection */
	return !rc && owner;
}

/* A claim that stayed would break the lock of the gateway that is told to take it next. But librbd
 * has the lock of a connection that Ceph blocks until it is refused something. */
static void take_again(struct rbd_image *img)
{
	struct rbd_locker l;
	char spelled[256];

	if (!rbd_image_lock_stayed(img))
		return;
	if (rados_wait_for_latest_osdmap(img->handle->cl) == -ESHUTDOWN ||
	    find_locker(img, &l) == -ESHUTDOWN) {
		rbd_image_lost(img); /* the claim stays for the next connection */
		return;
	}
	end_claim(img, RDT_CLAIM_TAKE);
	rd_notice(img->log, RD_LOG_BACKEND, "rbd: image %s: its lock is held here already",
		  rbd_image_spell(img, spelled, sizeof(spelled)));
}

static void tell_not_locked(struct rbd_image *img, int rc)
{
	char text[160];

	if (atomic_load(&img->handover) == RBD_COMES) /* it is awaited, for a limited time */
		return;
	if (rc == -EROFS || rc == -EBUSY || rc == -EAGAIN) {
		tell_lock(img, RBD_SAID_STANDBY,
			  "another client holds its lock; hosts are sent to other paths until it "
			  "is free");
		return;
	}
	snprintf(text, sizeof(text), "its lock cannot be taken: %s%s; hosts cannot use it here",
		 strerror(-rc),
		 rc == -EINVAL ? "; \"lock: exclusive\" needs the image's feature exclusive-lock "
				 "(rbd feature enable)"
			       : "");
	tell_lock(img, RBD_SAID_FAILED, text);
}

/* ---- the holder ---- */

/* The address of the lock's holder, "" without one. Returns 0 or -errno. */
static int read_owner(struct rbd_image *img, char *owner, size_t size)
{
	rbd_lock_mode_t mode;
	size_t count = 1;
	char *found = NULL;
	int rc = rbd_lock_get_owners(img->image, &mode, &found, &count);

	owner[0] = '\0';
	if (rc)
		return rc == -ENOENT ? 0 : rc;
	if (count) {
		snprintf(owner, size, "%s", found);
		rbd_lock_get_owners_cleanup(&found, count);
	}
	return 0;
}

#define WATCHERS 64u /* of an image: its gateways, and commands of operators */

/* The global ID of the client with the address @owner; 0: it does not have the image open. */
static uint64_t client_of(struct rbd_image *img, const char *owner)
{
	rbd_image_watcher_t watchers[WATCHERS];
	size_t count = WATCHERS;
	uint64_t client = 0;

	if (rbd_watchers_list(img->image, watchers, &count))
		return 0;
	for (size_t i = 0; i < count; i++)
		if (strcmp(watchers[i].addr, owner) == 0)
			client = (uint64_t)watchers[i].id;
	rbd_watchers_list_cleanup(watchers, count);
	return client;
}

static enum rbd_heard heard_of_owner(struct rbd_image *img, const char *owner)
{
	if (strcmp(owner, img->lock_owner) != 0) {
		snprintf(img->lock_owner, sizeof(img->lock_owner), "%s", owner);
		img->lock_owner_id = 0;
		img->stranger_ns = 0;
	}
	if (!img->peers)
		return RBD_HEARD_STRANGER;
	if (!img->lock_owner_id)
		img->lock_owner_id = client_of(img, owner);
	if (!img->lock_owner_id || img->lock_owner_id == rados_get_instance_id(img->handle->cl))
		return RBD_HEARD_STRANGER;
	return rbd_peers_ask(img->peers, img->lock_owner_id);
}

/*
 * Is the holder still a stranger after a time in which the cluster has answered each pass? When a
 * pool hangs, Ceph forgets who watches there, and the first answer after that does not name a
 * gateway that is alive. librbd would have it blocked.
 */
static bool stranger_lasts(struct rbd_image *img)
{
	uint64_t now = rdt_module_now();

	if (!img->stranger_ns || now - img->stranger_seen_ns > PASSES_NS)
		img->stranger_ns = now;
	img->stranger_seen_ns = now;
	return now - img->stranger_ns >= STRANGER_NS;
}

enum own_way {
	OWN_NONE, /* the lock is not that of a former connection */
	OWN_LATER,
	OWN_BROKEN
};

static enum own_way own_way(struct rbd_image *img, enum rdt_claim claim)
{
	struct rbd_locker l;
	int rc = find_own(img, &l);

	if (rc) {
		img->own_seen_ns = 0;
		/* When it is not known, breaking it as that of another client may block this
		 * gateway. */
		return rc == -ENOENT || rc == -ESHUTDOWN ? OWN_NONE : OWN_LATER;
	}
	if (!own_lasts(img) && claim != RDT_CLAIM_TAKE)
		return OWN_LATER;
	return break_own(img, &l) ? OWN_BROKEN : OWN_NONE;
}

/* The lock was to be broken because a gateway is silent. Can it be requested? */
static bool wait_goes_on(struct rbd_image *img, int rc)
{
	if (rc)
		img->lock_said = RBD_SAID_FAILED;
	return !rc || rc == -ENOENT || rc == -ESHUTDOWN;
}

/* The lock was to be broken by command. Can it be requested? If it cannot be broken, only Ceph's
 * rules are left, and the command is over. */
static bool take_goes_on(struct rbd_image *img, int rc, enum rdt_claim *claim)
{
	if (rc == -EAGAIN)
		return false;
	if (rc && rc != -ENOENT && rc != -EBUSY && rc != -ESHUTDOWN) {
		end_claim(img, RDT_CLAIM_TAKE);
		*claim = RDT_CLAIM_WAIT;
	}
	return true;
}

enum way {
	WAY_WAIT,
	WAY_BREAK,
	WAY_CEPH /* the lock is requested, and Ceph decides */
};

/* What to do about a holder that this gateway has not had blocked. @blocked: another one or an
 * operator has. @why: why its lock is broken. */
static enum way way_by_holder(struct rbd_image *img, const char *owner, bool *blocked, char *why,
			      size_t size)
{
	enum rbd_heard heard = heard_of_owner(img, owner);
	bool first = !img->stranger_ns;

	img->quiet = heard == RBD_HEARD_TELLS;
	if (heard != RBD_HEARD_STRANGER)
		img->stranger_ns = 0;
	else if (stranger_lasts(img))
		return WAY_CEPH;
	/* By an operator, or because of an image that this gateway does not serve. */
	*blocked = heard == RBD_HEARD_STRANGER && first && block_lasts(img, owner);
	if (*blocked) {
		note_blocked(img, owner);
		return WAY_BREAK;
	}
	if (heard != RBD_HEARD_SILENT) {
		tell_not_locked(img, -EBUSY);
		return WAY_WAIT;
	}
	snprintf(why, size, ": that gateway has not answered for %u s",
		 img->handle->takeover_s - 1);
	return WAY_BREAK;
}

/*
 * Is the lock free, or was it broken as @claim says, so that this gateway can request it? True too
 * when the holder is a stranger: then Ceph decides, which takes up to half a minute when the holder
 * is dead.
 */
static bool make_way(struct rbd_image *img, enum rdt_claim *claim)
{
	char owner[128], why[64] = "";
	int mine = 0, rc = rbd_is_exclusive_lock_owner(img->image, &mine);
	bool blocked;

	if (!rc && mine)
		return true; /* breaking it would block this gateway */
	rc = read_owner(img, owner, sizeof(owner));
	if (rc && rc != -ESHUTDOWN && *claim != RDT_CLAIM_TAKE) {
		tell_not_locked(img, rc); /* it may have a holder, which librbd would judge */
		return false;
	}
	if (!owner[0])
		return true;
	if (*claim == RDT_CLAIM_TAKE)
		*claim = claim_now(img); /* the cluster has just answered, perhaps after hours */
	switch (own_way(img, *claim)) {
	case OWN_BROKEN:
		return true;
	case OWN_LATER:
		tell_not_locked(img, -EBUSY);
		return false;
	case OWN_NONE:
		break;
	}
	blocked = is_blocked(img, owner);
	/* A holder that was blocked because of another image is no gateway any more. */
	if (*claim != RDT_CLAIM_TAKE && !blocked) {
		enum way way = way_by_holder(img, owner, &blocked, why, sizeof(why));

		if (way != WAY_BREAK)
			return way == WAY_CEPH;
	}
	rc = break_lock(img, owner, blocked, why);
	return *claim == RDT_CLAIM_TAKE ? take_goes_on(img, rc, claim) : wait_goes_on(img, rc);
}

/* ---- the claim ---- */

uint64_t rbd_image_keeps_lock(const struct rbd_image *img)
{
	uint64_t kept = img->locked_ns ? rdt_module_now() - img->locked_ns : RBD_KEEP_NS;

	return kept < RBD_KEEP_NS ? RBD_KEEP_NS - kept : 0;
}

static int give_up_lock(struct rbd_image *img)
{
	int rc = rbd_lock_release(img->image);

	img->locked_ns = 0;
	rbd_peers_gave_up(img->peers);
	return rc;
}

static void tell_no_state(struct rbd_image *img, int rc)
{
	char text[256];

	if (rc == -ESHUTDOWN) { /* librbd did not know yet that the connection is blocked */
		rbd_image_lost(img);
		return;
	}
	snprintf(text, sizeof(text),
		 "the state that gateways share, in the object %s, cannot be read: %s; hosts "
		 "cannot use the image here until that is possible",
		 img->shared_name, strerror(-rc));
	tell_lock(img, RBD_SAID_FAILED, text);
	give_up_lock(img); /* another gateway may be able to */
}

static bool knows_address(struct rbd_handle *h)
{
	bool known;

	pthread_mutex_lock(&h->joining);
	known = h->address[0] != '\0';
	pthread_mutex_unlock(&h->joining);
	return known;
}

/* librados writes the type of an address before it. */
static void note_address(struct rbd_handle *h, const char *address)
{
	const char *colon = strchr(address, ':');

	if (colon && address[0] >= 'a' && address[0] <= 'z')
		address = colon + 1;
	pthread_mutex_lock(&h->joining);
	snprintf(h->address, sizeof(h->address), "%s", address);
	pthread_mutex_unlock(&h->joining);
}

/*
 * librbd repeats a request whose answer was lost, and the cluster answers it as it did before. If
 * that took so long that another client has broken the lock, and its block of this one has ended,
 * both would write: then the cluster is asked who has the lock now. Returns 0 or -errno, -ESHUTDOWN
 * when another client may have it.
 */
static int request_lock(struct rbd_image *img)
{
	uint64_t began = rdt_module_now();
	int rc = rbd_lock_acquire(img->image, RBD_LOCK_MODE_EXCLUSIVE);
	bool late = rdt_module_now() - began >= LATE_NS, mine;
	struct rbd_locker l;

	if (rc || (!late && knows_address(img->handle)))
		return rc;
	mine = find_mine(img, &l) == 0;
	if (mine)
		note_address(img->handle, l.address);
	return late && !mine ? -ESHUTDOWN : 0;
}

static void acquire_lock(struct rbd_image *img, enum rdt_claim claim)
{
	int rc, no_state = 0;

	if (claim == RDT_CLAIM_WAIT && img->passed_ns &&
	    rdt_module_now() - img->passed_ns < PASSED_NS)
		return;
	/* The lock of a gateway that is lost before others have seen it is taken for that of
	 * another program, and is free after half a minute only. */
	rbd_peers_await(img->peers);
	if (atomic_load(&img->handover) == RBD_COMES)
		look_at_holder(img);
	if (!make_way(img, &claim))
		return;
	/* Before the request: the answer of the cluster may be lost with the connection. */
	img->locked_as = rados_get_instance_id(img->handle->cl);
	rc = request_lock(img);
	if (rc == -ESHUTDOWN) {
		rbd_image_lost(img); /* the claim stays for the next connection */
		return;
	}
	if (!rc) {
		rbd_handover_locked(img);
		no_state = rbd_shared_load(img);
	}
	/* Another client may have been faster: then its lock is broken next. librbd remembers a
	 * lock that it had when its connection was blocked: then the claim stays, too. */
	if (claim == RDT_CLAIM_TAKE && rc != -EROFS && rc != -EBUSY && no_state != -ESHUTDOWN)
		end_claim(img, RDT_CLAIM_TAKE);
	if (rc) {
		tell_not_locked(img, rc);
		return;
	}
	if (no_state) {
		tell_no_state(img, no_state);
		return;
	}
	tell_lock(img, RBD_SAID_HELD, "its lock is held here");
	rbd_image_set_standby(img, false);
	rbd_handover_came(img);
	rbd_job_kick(&img->job, 0); /* for writes of the shared text that have waited */
}

/* An image whose lock was to be released may still have it: an earlier attempt failed. Returns
 * whether it was given up. */
static bool release_lock(struct rbd_image *img)
{
	int owner = 0, rc = rbd_is_exclusive_lock_owner(img->image, &owner);
	struct rbd_locker l;
	char text[160];

	if (rbd_image_keeps_lock(img)) {
		rbd_job_kick(&img->job, rbd_image_keeps_lock(img));
		return false;
	}
	if (!rc && owner)
		rc = give_up_lock(img);
	else if (!rc && !find_own(img, &l))
		break_own(img, &l);
	if (!rc) {
		img->locked_as = 0;
		tell_lock(img, RBD_SAID_YIELDED, "its lock was given up");
	} else if (rc == -ESHUTDOWN) {
		rbd_image_lost(img);
	} else {
		snprintf(text, sizeof(text),
			 "its lock cannot be given up: %s; trying again until that is possible",
			 strerror(-rc));
		tell_lock(img, RBD_SAID_FAILED, text);
	}
	return !rc;
}

/* Another process of this gateway has taken over. Other gateways are not told: they would compete
 * with it for the lock. If it does not take it, they see that this process has ended. */
static void leave_lock(struct rbd_image *img)
{
	int owner = 0, rc;

	atomic_store(&img->bdev.standby, true);
	if (rbd_image_keeps_lock(img)) {
		rbd_job_kick(&img->job, rbd_image_keeps_lock(img));
		return;
	}
	rc = rbd_is_exclusive_lock_owner(img->image, &owner);
	if (!rc && !owner)
		return; /* it has waited for the lock, or has given it up */
	if (!rc)
		rc = rbd_lock_release(img->image);
	/* One that was taken after the next process was told of it is for anybody. */
	if (!rc && !atomic_load(&img->hands_lock))
		rbd_peers_gave_up(img->peers);
	if (!rc)
		tell_lock(img, RBD_SAID_YIELDED, "its lock was given up to the next process");
	else if (rc == -ESHUTDOWN)
		rbd_image_lost(img);
	else
		tell_not_locked(img, rc);
}

/* Other gateways see that this gateway is alive, and this gateway sees them. */
static void keep_peers(struct rbd_image *img)
{
	int rc = img->peers ? rbd_peers_keep(img->peers) : rbd_peers_join(img);
	char spelled[256];

	if (rc && rc != -ESHUTDOWN && rc != img->said_peers_err)
		rd_warn(img->log, RD_LOG_BACKEND,
			"rbd: image %s: gateways cannot see whether the others are alive: the "
			"object rdtarget.gateways of the pool: %s; a lost gateway is replaced "
			"after half a minute; %s",
			rbd_image_spell(img, spelled, sizeof(spelled)), strerror(-rc),
			rc == -ETIMEDOUT ? "a part of the pool may hang (ceph -s shows its state)"
					 : "the user needs the capabilities of \"profile rbd\" for "
					   "the pool");
	img->said_peers_err = rc;
}

/* With "lock: exclusive" one gateway at a time serves the image. */
void rbd_image_settle_lock(struct rbd_image *img)
{
	enum rdt_claim claim = claim_now(img);
	bool standby = atomic_load(&img->bdev.standby);
	bool doubted = atomic_exchange(&img->lock_doubted, false);

	img->quiet = false;
	if (img->lock_mode != RDT_RBD_LOCK_EXCLUSIVE)
		return;
	keep_peers(img);
	rbd_handover_look_late(img);
	if (atomic_load(&img->handover) == RBD_LOOKS) {
		look_at_holder(img);
	} else if (atomic_load(&img->handover) == RBD_LEFT) {
		leave_lock(img);
	} else if (claim == RDT_CLAIM_YIELD || claim == RDT_CLAIM_PASS) {
		rbd_image_set_standby(img, true); /* before the lock is free: no I/O without it */
		rbd_handover_over(img, "it was yielded in a hand-over");
		if (release_lock(img) && claim == RDT_CLAIM_PASS) {
			img->passed_ns = rdt_module_now();
			end_claim(img, RDT_CLAIM_PASS);
		}
	} else if (standby) {
		acquire_lock(img, claim);
	} else if (claim == RDT_CLAIM_TAKE) {
		take_again(img);
	} else if (doubted) {
		rbd_image_lock_stayed(img);
	}
}
