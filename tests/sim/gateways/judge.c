/* SPDX-License-Identifier: BSD-3-Clause */
/* What two gateways must do: invariants of their own. */
#include "gateways.h"

#include <errno.h>
#include <string.h>

#include "nvmf/wire.h"
#include "target/nvmf/ns.h"

#define CEPH_DECIDES  (30 * RD_NSEC_PER_SEC)
#define NOT_GIVEN_UP  (3 * RD_NSEC_PER_SEC) /* no command, while a gateway serves for so long */
#define LIMITS_PASS   (20 * RD_NSEC_PER_SEC)
#define HOSTS_GO_ON   (15 * RD_NSEC_PER_SEC) /* a command, by the gateway that serves */
#define UNDISTURBED   (1 * RD_NSEC_PER_SEC)  /* a command, at most */
#define SETTLED       (10 * RD_NSEC_PER_SEC) /* hosts have found the gateway that serves */
#define SERVES_WITHIN (20 * RD_NSEC_PER_SEC) /* after the last fault */
/* Until it watches again: 5 s each for a ping, and for a look at the watch. */
#define WATCHES_WITHIN  (12 * RD_NSEC_PER_SEC)
#define STOPS_WITHIN    (2 * RD_NSEC_PER_SEC) /* after a write that was refused */
#define REPLACES_WITHIN (9 * RD_NSEC_PER_SEC) /* a holder that is lost, without a command */
#define TAKES_WITHIN    (3 * RD_NSEC_PER_SEC) /* by command, when all is well */
#define HANDS_WITHIN    (3 * RD_NSEC_PER_SEC) /* a lock, to the next process, when all is well */
#define HOSTS_COME_BACK (12 * RD_NSEC_PER_SEC)
#define WELL_AGAIN      RD_NSEC_PER_SEC /* what waited was sent again */

/* ---- what disturbs a gateway ---- */

static bool stands_still(const struct gateway *gw)
{
	const struct world *w = gw->all->w;
	const struct actor *actors = gateway_actors(gw);

	for (unsigned int i = 0; i <= WORLD_REACTORS; i++)
		if (actors[i].stalled_until > rd_sim_now(w->sim))
			return true;
	return gw->process && process_stalled(gw->process);
}

void gateway_note(struct gateway *gw)
{
	const struct cluster *cl = gw->all->cluster;
	uint64_t now = rd_sim_now(cl->sim);

	if (stands_still(gw) || cl->stalled_until > now || cl->cut_until[gw->number] > now ||
	    cl->slow_ns)
		gw->unwell_at = now;
	for (unsigned int i = 0; i < CLUSTER_POOLS; i++)
		if (cl->hangs_until[i] > now)
			gw->pool_unwell_at[i] = now;
}

uint64_t gateway_well_since(const struct gateway *gw, unsigned int pool)
{
	return later_of(gw->unwell_at, gw->pool_unwell_at[pool]);
}

void gateway_judge_end(const struct gateway *gw, const char *done)
{
	uint64_t aged = gw->all->cluster->aged_at;
	/* Its time limits have passed. And it may wait for a lock of a gateway that was lost, which
	 * librbd takes only when Ceph has noticed that as well. */
	uint64_t since = aged ? aged + CEPH_DECIDES : 0;

	since = later_of(since, gw->process->ceph_decides_at);
	for (unsigned int i = 0; i < CLUSTER_POOLS; i++)
		since = later_of(since, gateway_well_since(gw, i));
	if (!gw->process->dead && since + WELL_AGAIN < gw->state_since)
		world_fail(gw->all->w,
			   "gateway %u has not %s in time, although it and the cluster were well",
			   gw->number, done);
}

/* ---- whether each image is served ---- */

static bool serves_with_lock(const struct gateway *gw, unsigned int image)
{
	const struct client *holder = gw->all->cluster->images[image].lock_client;

	return gateway_serves(gw, image) && holder && holder->process == gw->process &&
	       !holder->blocked_epoch;
}

/* Has the holder of the lock lost its watches with a block that has ended, and may not have noticed
 * it? */
static bool may_not_watch(const struct gateways *all, const struct image *image)
{
	const struct client *holder = image->lock_client;
	uint64_t since;

	if (!holder || !holder->unblocked_at)
		return false;
	since = gateway_well_since(all->gateway[holder->process->number], image->pool);
	return later_of(holder->unblocked_at, since) + WATCHES_WITHIN >
	       all->healed_at[image->number];
}

/* Can gateways not see whether the one with the lock is alive, so that Ceph's rules decide? Either
 * that one does not watch what gateways watch before it notices that it is not blocked any more,
 * or a question took too long. */
static bool ceph_decides(const struct gateways *all, unsigned int image)
{
	const struct cluster *cl = all->cluster;
	uint64_t late = cl->hangs_until[cl->images[image].pool];

	if (cl->aged_at > late)
		late = cl->aged_at;
	return may_not_watch(all, &cl->images[image]) ||
	       (late && late + CEPH_DECIDES > all->healed_at[image]);
}

/* A gateway that ends while a pool hangs waits for its I/O, and has the locks of its images in
 * other pools until then. */
static uint64_t serves_within(const struct gateways *all, unsigned int image)
{
	uint64_t within = SERVES_WITHIN;

	if (all->ceph_decides[image])
		return SERVES_WITHIN + CEPH_DECIDES;
	for (unsigned int i = 0; i < CLUSTER_POOLS; i++)
		if (all->cluster->hangs_until[i] > all->healed_at[image])
			within = SERVES_WITHIN + DRAIN_TIMEOUT;
	return within;
}

static void look_whether_served(struct gateways *all, unsigned int image)
{
	uint64_t now = rd_sim_now(all->w->sim), past = now - all->healed_at[image];

	if (all->served_at[image] || now < all->healed_at[image])
		return;
	for (unsigned int i = 0; i < GATEWAYS; i++)
		if (serves_with_lock(all->gateway[i], image)) {
			if (all->healed_at[image])
				rd_sim_tell(all->w->sim,
					    "gateway %u serves image %u %llu ms after the last "
					    "fault",
					    i, image + 1,
					    (unsigned long long)(past / RD_NSEC_PER_MSEC));
			all->healed_at[image] = 0;
			all->served_at[image] = now;
			return;
		}
	if (!all->healed_at[image])
		return;
	all->ceph_decides[image] |= ceph_decides(all, image);
	if (past > serves_within(all, image))
		world_fail(all->w, "no gateway serves the image %u %llu s after the last fault",
			   image + 1, (unsigned long long)(past / RD_NSEC_PER_SEC));
}

bool gateways_serve(const struct gateways *all)
{
	for (unsigned int i = 0; i < all->cluster->images_count; i++)
		if (all->healed_at[i])
			return false;
	return true;
}

/* ---- a gateway that waits ---- */

/* Has nobody the lock of the image, or a client that does not reach the cluster, or one that has
 * closed the image? */
static bool lock_is_lost(const struct cluster *cl, const struct image *image)
{
	const struct client *holder = image->lock_client;
	const struct opened *o;

	if (!holder || !client_reaches(holder) || process_stalled(holder->process))
		return true;
	o = opened_by(cl, holder->process, image);
	return !o || o->client != holder;
}

/* Has Ceph blocked the gateway's connection, which it will notice? Then it begins anew to ask who
 * is alive. */
static bool begins_anew(const struct gateway *gw, const struct image *image)
{
	const struct opened *o =
		gw->process ? opened_by(gw->all->cluster, gw->process, image) : NULL;

	return o && o->client->blocked_epoch;
}

/* Is the holder blocked, and about to lose its watches? From then on it is a stranger, whatever was
 * heard of it before. */
static bool becomes_stranger(struct cluster *cl, const struct image *image)
{
	const struct client *holder = image->lock_client;

	return holder && holder->blocked_epoch && watcher_of(cl, holder, image->lock_cookie);
}

static void note_whether_waiting(struct gateway *gw, unsigned int image)
{
	const struct gateways *all = gw->all;
	uint64_t now = rd_sim_now(all->w->sim);

	if (gw->state != GATEWAY_UP || gw->yields[image] || gateway_serves(gw, image) ||
	    begins_anew(gw, &all->cluster->images[image]) ||
	    becomes_stranger(all->cluster, &all->cluster->images[image]) ||
	    !lock_is_lost(all->cluster, &all->cluster->images[image]))
		gw->waits_since[image] = now;
}

/* Another gateway that waits for a lock which is free, or whose holder is lost, gets it in time,
 * also when the holder does not start again. */
static void judge_waiting(struct gateway *gw, unsigned int image)
{
	const struct cluster *cl = gw->all->cluster;
	unsigned int pool = cl->images[image].pool;
	uint64_t decides = later_of(cl->aged_at, gw->pool_unwell_at[pool]), since;

	note_whether_waiting(gw, image);
	since = later_of(gw->waits_since[image], gateway_well_since(gw, pool));
	if (gw->process) {
		decides = later_of(decides, gw->process->ceph_decides_at);
		since = later_of(since, gw->process->blocked_at);
	}
	if (decides)
		since = later_of(since, decides + CEPH_DECIDES);
	if (rd_sim_now(cl->sim) > since + REPLACES_WITHIN)
		world_fail(gw->all->w,
			   "gateway %u waits for the lock of the image %u, which nobody has who is "
			   "well",
			   gw->number, image + 1);
}

/* ---- commands to take a lock ---- */

void gateways_not_told(struct gateways *all)
{
	for (unsigned int i = 0; i < CLUSTER_IMAGES; i++)
		all->told[i].at = 0;
}

void gateway_told(struct gateway *gw, unsigned int image, enum rdt_claim claim)
{
	struct gateways *all = gw->all;
	bool contradicts;

	if (image >= CLUSTER_IMAGES)
		return;
	contradicts = all->told[image].at && all->told[image].gateway != gw;
	gateways_not_told(all);
	all->told[image].gateway = gw;
	if (claim == RDT_CLAIM_TAKE && !contradicts)
		all->told[image].at = rd_sim_now(all->w->sim);
}

static void judge_command(struct gateways *all, unsigned int image)
{
	const struct gateway *gw = all->told[image].gateway;
	unsigned int pool = all->cluster->images[image].pool;
	uint64_t since = all->told[image].at;

	if (!since)
		return;
	for (unsigned int i = 0; i < GATEWAYS; i++)
		since = later_of(since, gateway_well_since(all->gateway[i], pool));
	/* Its job waits in librbd for the lock of a gateway that was lost. */
	since = later_of(since, gw->process->ceph_decides_at);
	if (gw->state != GATEWAY_UP || serves_with_lock(gw, image))
		all->told[image].at = 0;
	else if (rd_sim_now(all->w->sim) > since + TAKES_WITHIN)
		world_fail(all->w, "gateway %u was told to take image %u, and does not have it",
			   gw->number, image + 1);
}

/* ---- a gateway that was replaced ---- */

/* The gateway writes nothing any more, and was told so. */
static bool has_noticed(const struct gateway *gw, const struct opened *o)
{
	return o->refused_at &&
	       later_of(o->refused_at, gateway_well_since(gw, o->image->pool)) + STOPS_WITHIN <
		       rd_sim_now(gw->all->w->sim);
}

bool gateway_unfenced(const struct gateway *gw, unsigned int image)
{
	const struct cluster *cl = gw->all->cluster;
	const struct opened *o = opened_by(cl, gw->process, &cl->images[image]);

	return o && o->client->unblocked_at && !has_noticed(gw, o);
}

/* It must stop at its first write. */
static void judge_replaced(const struct gateway *gw)
{
	const struct cluster *cl = gw->all->cluster;

	for (unsigned int i = 0; i < cl->images_count; i++) {
		const struct opened *o = opened_by(cl, gw->process, &cl->images[i]);

		if (o && has_noticed(gw, o) && gateway_serves(gw, i))
			world_fail(
				gw->all->w,
				"gateway %u serves image %u, the lock of which it does not have, "
				"as a refused write has said",
				gw->number, i + 1);
	}
}

/* ---- hand-overs ---- */

void gateways_not_handed(struct gateways *all)
{
	memset(all->handed_at, 0, sizeof(all->handed_at));
}

void gateways_judge_hand(const struct gateway *last)
{
	struct gateways *all = last->all;

	for (unsigned int i = 0; i < all->cluster->images_count && !all->ending; i++)
		if (serves_with_lock(last, i) && !gateway_namespace(last, i)->left_behind)
			all->handed_at[i] = rd_sim_now(all->w->sim);
}

/* A command to take one image, given before the commit, has had a process of the gateway blocked,
 * and with it all images of its connection. */
static bool is_disowned(const struct cluster *cl, unsigned int image)
{
	const struct opened *o;

	LIST_FOREACH (o, &cl->opened, link)
		if (o->image->number == image && o->client->blocked_epoch)
			return true;
	return false;
}

static void judge_handed(struct gateways *all, unsigned int image)
{
	unsigned int pool = all->cluster->images[image].pool;
	uint64_t since = all->handed_at[image];

	if (!since)
		return;
	for (unsigned int i = 0; i < SLOTS; i++)
		since = later_of(since, gateway_well_since(&all->slots[i], pool));
	for (unsigned int i = 0; i < GATEWAYS; i++)
		if (serves_with_lock(all->gateway[i], image))
			all->handed_at[image] = 0;
	if (is_disowned(all->cluster, image))
		all->handed_at[image] = 0;
	if (all->handed_at[image] && rd_sim_now(all->w->sim) > since + HANDS_WITHIN)
		world_fail(all->w, "nobody has the lock of image %u, which was handed over",
			   image + 1);
}

void gateways_disturb(struct gateways *all)
{
	const struct cluster *cl = all->cluster;
	uint64_t now = rd_sim_now(all->w->sim);

	all->fault_at = now;
	gateways_disturb_hosts(all, HOSTS_COME_BACK);
	gateways_not_told(all);
	for (unsigned int i = 0; i < cl->images_count && !all->bursts && !all->ending; i++) {
		all->healed_at[i] = later_of(now, cl->hangs_until[cl->images[i].pool]);
		all->served_at[i] = 0;
	}
}

/* ---- hosts ---- */

void gateways_disturb_hosts(struct gateways *all, uint64_t ns)
{
	uint64_t until = rd_sim_now(all->w->sim) + ns;

	for (unsigned int g = 0; g < GATEWAYS; g++)
		for (unsigned int i = 0; i < CLUSTER_IMAGES; i++)
			all->good_since[g][i] = later_of(all->good_since[g][i], until);
}

static void note_whether_good(struct gateway *gw)
{
	uint64_t now = rd_sim_now(gw->all->w->sim);

	for (unsigned int i = 0; i < CLUSTER_IMAGES; i++) {
		uint64_t *since = &gw->all->good_since[gw->number][i];
		unsigned int pool = gw->all->cluster->images[i].pool;

		if (!serves_with_lock(gw, i) || gateway_well_since(gw, pool) == now)
			*since = later_of(*since, now);
	}
}

/* A command ends, or goes by the path that works, soon after there is one. */
void gateways_judge_device(struct world *w, unsigned int image, uint64_t begin,
			   const struct rdinit_completion *comp)
{
	const struct gateways *all = w->gateways;
	uint64_t now = rd_sim_now(w->sim);
	/* One that began long ago may have had two of its three time limits before that. */
	bool early = comp->err == -ETIMEDOUT && now - begin < LIMITS_PASS;
	uint64_t within = early ? NOT_GIVEN_UP : HOSTS_GO_ON;

	for (unsigned int g = 0; g < GATEWAYS; g++) {
		uint64_t since = later_of(all->good_since[g][image], begin);

		if (now > since + within)
			world_fail(
				w,
				"a command of the image %u ended with %d after %llu ms, although "
				"gateway %u has served it for %llu ms",
				image + 1, comp->err,
				(unsigned long long)((now - begin) / RD_NSEC_PER_MSEC), g,
				(unsigned long long)((now - since) / RD_NSEC_PER_MSEC));
	}
}

void gateway_judge(struct gateway *gw)
{
	note_whether_good(gw);
	for (unsigned int i = 0; i < gw->all->cluster->images_count; i++)
		look_whether_served(gw->all, i);
	for (unsigned int i = 0; i < gw->all->cluster->images_count; i++)
		judge_waiting(gw, i);
	for (unsigned int i = 0; i < gw->all->cluster->images_count; i++)
		judge_handed(gw->all, i);
	for (unsigned int i = 0; i < CLUSTER_IMAGES; i++)
		judge_command(gw->all, i);
	gateways_judge_sizes(gw->all);
	if (gw->state == GATEWAY_UP)
		judge_replaced(gw);
}

/* ---- commands ---- */

/* A pool that hangs disturbs no image of another pool: has there been no other fault since long
 * before @begin? */
static bool is_undisturbed(const struct gateways *all, unsigned int image, uint64_t begin)
{
	const struct cluster *cl = all->cluster;
	uint64_t served = all->served_at[image];

	return served && all->fault_at <= served && served + SETTLED <= begin &&
	       cl->hangs_until[cl->images[image].pool] + SERVES_WITHIN <= begin;
}

static void judge_pools(struct world *w, unsigned int image, uint64_t begin,
			const struct rdinit_completion *comp)
{
	uint64_t took = rd_sim_now(w->sim) - begin;

	if (!is_undisturbed(w->gateways, image, begin))
		return;
	if (took > UNDISTURBED || (comp->err && comp->err != -EIO))
		world_fail(w,
			   "a command of the image %u took %llu ms and ended with %d, although "
			   "its pool is well",
			   image + 1, (unsigned long long)(took / RD_NSEC_PER_MSEC), comp->err);
}

/* A takeover is a change of paths: no error of a medium or of a controller is told to a host. */
void gateways_judge_answer(struct world *w, unsigned int image, uint64_t begin,
			   const struct rdinit_completion *comp)
{
	unsigned int sct = comp->status >> 8 & 7, sc = comp->status & 0xff;

	judge_pools(w, image, begin, comp);
	if (comp->err != -EIO || (sct == NVME_SCT_MEDIA && sc == NVME_SC_COMPARE_FAILED))
		return;
	if (sct == NVME_SCT_MEDIA || (sct == NVME_SCT_GENERIC && sc == NVME_SC_INTERNAL))
		world_fail(w, "a host was told status 0x%x", comp->status);
}
