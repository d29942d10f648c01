/* SPDX-License-Identifier: BSD-3-Clause */
/* Images whose size changes: what their gateways and hosts take for it. */
#include "gateways.h"

#include "target/nvmf/ns.h"

#define SIZED_WITHIN (20 * RD_NSEC_PER_SEC)  /* all know the size */
#define BETWEEN      (50 * RD_NSEC_PER_MSEC) /* two looks at what they take for it */
#define OPERATOR     WORLD_HOSTS /* writes what an image that has grown has at its end */

uint64_t image_trimmed(void *arg, unsigned int image, unsigned int block)
{
	struct world *w = arg;
	uint64_t now = rd_sim_now(w->sim), value;

	if (image >= CLUSTER_IMAGES || block >= WORLD_BLOCKS)
		return 0;
	value = check_value(w->check, image * WORLD_BLOCKS + block);
	check_write_begins(w->check, OPERATOR, value, now);
	check_write_done(w->check, value, now, true);
	return value;
}

/* Somebody takes @blocks for the size of the image. */
static void note_size(struct gateways *all, unsigned int image, const char *whose,
		      unsigned int number, uint64_t blocks)
{
	unsigned int i = 0;

	while (i < CLUSTER_SIZES && cluster_sizes[i] != blocks)
		i++;
	if (i < CLUSTER_SIZES)
		all->size_at[image][i] = rd_sim_now(all->w->sim);
	else
		world_fail(all->w, "%s %u: image %u has %llu blocks, which it never had", whose,
			   number, image + 1, (unsigned long long)blocks);
}

/* 0: the gateway does not show the image to hosts. */
static uint64_t size_at_gateway(const struct gateway *gw, unsigned int image)
{
	const struct rdt_ns *ns;

	if (gw->state < GATEWAY_UP || gw->state > GATEWAY_DRAINED || gw->process->dead)
		return 0;
	ns = gateway_namespace(gw, image);
	return ns && ns->state == RDT_NS_LIVE ? atomic_load(&ns->blocks) : 0;
}

/* 0: the host has no device of the image, or that does not know a size. */
static uint64_t size_at_host(const struct gateways *all, unsigned int host, unsigned int image)
{
	unsigned int dev = image * WORLD_HOSTS + host;

	return dev < all->w->devs && all->w->hosts[dev] ? host_blocks(all->w->hosts[dev]) : 0;
}

/* Has gateway @gw no watch of the image? An operator who ends a block, against what the documents
 * say, may leave it so: nothing tells it of a new size. */
static bool is_not_told(const struct gateway *gw, const struct image *image)
{
	struct cluster *cl = gw->all->cluster;
	const struct opened *o = opened_by(cl, gw->process, image);

	return o && o->client->unblocked_at && !watcher_of(cl, o->client, o->cookie);
}

/* May gateway @gw not know the size yet, which the image has had @since? */
static bool may_not_know(const struct gateway *gw, const struct image *image, uint64_t since)
{
	since = later_of(since, gw->state_since);
	since = later_of(since, gateway_well_since(gw, image->pool));
	return since + SIZED_WITHIN > rd_sim_now(gw->all->w->sim);
}

static bool all_know_size(struct gateways *all, const struct image *image, bool in_time)
{
	uint64_t since = all->served_at[image->number], now = rd_sim_now(all->w->sim), size;
	unsigned int number = image->number;
	bool told_wrong = false; /* hosts, by a gateway that may not know it */

	since = later_of(since, later_of(image->resized_at, all->fault_at));
	for (unsigned int i = 0; i < GATEWAYS; i++) {
		const struct gateway *gw = all->gateway[i];

		size = size_at_gateway(gw, number);
		if (!size || size == image->blocks)
			continue;
		if (is_not_told(gw, image) || (in_time && may_not_know(gw, image, since))) {
			told_wrong = true;
			continue;
		}
		if (in_time)
			world_fail(all->w, "gateway %u takes %llu blocks for the size of image %u",
				   i, (unsigned long long)size, number + 1);
		return false;
	}
	for (unsigned int i = 0; i < WORLD_HOSTS; i++) {
		size = size_at_host(all, i, number);
		if (!size || size == image->blocks || told_wrong ||
		    (in_time && since + SIZED_WITHIN > now))
			continue;
		if (in_time)
			world_fail(all->w, "host %u takes %llu blocks for the size of image %u", i,
				   (unsigned long long)size, number + 1);
		return false;
	}
	return true;
}

bool gateways_know_sizes(struct gateways *all)
{
	for (unsigned int i = 0; i < CLUSTER_IMAGES; i++)
		if (!all_know_size(all, &all->cluster->images[i], false))
			return false;
	return true;
}

static void note_sizes(struct gateways *all, const struct image *image)
{
	unsigned int number = image->number;
	uint64_t size;

	note_size(all, number, "the cluster", 0, image->blocks);
	for (unsigned int i = 0; i < GATEWAYS; i++) {
		size = size_at_gateway(all->gateway[i], number);
		if (size)
			note_size(all, number, "gateway", i, size);
	}
	for (unsigned int i = 0; i < WORLD_HOSTS; i++) {
		size = size_at_host(all, i, number);
		if (size)
			note_size(all, number, "host", i, size);
	}
}

/* An image may have a size for a shorter time than between two looks. */
void gateways_resize(struct gateways *all, unsigned int image, unsigned int blocks)
{
	note_sizes(all, &all->cluster->images[image]);
	cluster_resize(all->cluster, image, blocks);
	note_sizes(all, &all->cluster->images[image]);
}

void gateways_judge_sizes(struct gateways *all)
{
	for (unsigned int i = 0; i < CLUSTER_IMAGES; i++) {
		const struct image *image = &all->cluster->images[i];

		note_sizes(all, image);
		if (all->served_at[i] && all->cluster->hangs_until[image->pool] < all->served_at[i])
			all_know_size(all, image, true);
	}
}

bool gateways_were_shorter(struct world *w, unsigned int image, unsigned int end, uint64_t begin)
{
	struct gateways *all = w->gateways;

	note_sizes(all, &all->cluster->images[image]);
	for (unsigned int i = 0; i < CLUSTER_SIZES; i++)
		if (cluster_sizes[i] < end && all->size_at[image][i] + BETWEEN >= begin)
			return true;
	return false;
}
