/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Half-open connections: accepted sockets without a complete MPA request. Anybody can open them, so
 * their number is limited, and a new one never has to wait: at the limit, the address that has the
 * most loses its oldest one. So a peer that opens many closes its own, while a peer that sends its
 * request at once is complete before its turn comes.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "util/sockaddr.h"

#include "listen.h"

#define REQUEST_TIMEOUT_NS (5 * RD_NSEC_PER_SEC)

/* An address, or a network of IPv6 (rd_addr_key()); exists while it has half-open connections. */
struct source {
	uint64_t key;
	uint32_t count;
	LIST_ENTRY(source) hash_link;
	TAILQ_ENTRY(source) rank_link;
	TAILQ_HEAD(, half_open) halves; /* oldest first */
};

struct half_open {
	struct rd_io io;
	struct rd_iw_halves *all;
	struct source *src;
	struct rd_iw_req *req; /* collects the MPA request */
	TAILQ_ENTRY(half_open) age_link;
	TAILQ_ENTRY(half_open) src_link;
	uint64_t deadline;
	uint32_t len;
	bool watched; /* added to the loop; not before the first read has been tried */
};

LIST_HEAD(source_list, source);
TAILQ_HEAD(source_rank, source);

struct rd_iw_halves {
	struct rd_iw_fab *fab;
	rd_iw_request_fn fn;
	void *arg;
	struct rd_timer timer;          /* expires with the oldest half-open connection */
	TAILQ_HEAD(, half_open) by_age; /* oldest first: all have the same timeout */
	struct source_list *hash;       /* sources by key */
	struct source_rank *rank;       /* sources by count, [0] is not used */
	uint32_t limit, count, most;    /* @most: the highest rank that has a source */
	uint32_t hash_bits, hash_random;
	struct rd_ratelimit rl;       /* limits messages about peers */
	struct rd_ratelimit limit_rl; /* limits messages about the limit */
};

void rd_iw_req_free(struct rd_iw_req *req)
{
	rd_iw_mailbox_put(req->home);
	free(req);
}

uint64_t rd_iw_request_timeout(const struct rd_iw_fab *fab)
{
	uint64_t ns = fab->opts.request_timeout_ns;

	return ns ? ns : REQUEST_TIMEOUT_NS;
}

/* ---- sources ---- */

static struct source_list *half_bucket(struct rd_iw_halves *all, uint64_t key)
{
	uint64_t mixed = (key ^ all->hash_random) * UINT64_C(0x9e3779b97f4a7c15);

	return &all->hash[mixed >> (64 - all->hash_bits)];
}

static void source_rank(struct rd_iw_halves *all, struct source *src, int by)
{
	if (src->count)
		TAILQ_REMOVE(&all->rank[src->count], src, rank_link);
	src->count = (uint32_t)((int)src->count + by);
	if (src->count)
		TAILQ_INSERT_TAIL(&all->rank[src->count], src, rank_link);
	if (src->count > all->most)
		all->most = src->count;
	while (all->most && TAILQ_EMPTY(&all->rank[all->most]))
		all->most--;
}

static struct source *source_get(struct rd_iw_halves *all, const struct sockaddr *addr)
{
	uint64_t key = rd_addr_key(addr);
	struct source_list *list = half_bucket(all, key);
	struct source *src;

	LIST_FOREACH (src, list, hash_link)
		if (src->key == key)
			return src;
	src = calloc(1, sizeof(*src));
	if (!src)
		return NULL;
	src->key = key;
	TAILQ_INIT(&src->halves);
	LIST_INSERT_HEAD(list, src, hash_link);
	return src;
}

static void source_put(struct source *src)
{
	if (src->count)
		return;
	LIST_REMOVE(src, hash_link);
	free(src);
}

/* ---- half-open sockets ---- */

/* Ends the half-open state. The caller takes the socket and the request. */
static struct rd_iw_req *half_release(struct half_open *h)
{
	struct rd_iw_halves *all = h->all;
	struct rd_iw_req *req = h->req;

	if (h->watched)
		rd_io_del(all->fab->base.loop, &h->io);
	TAILQ_REMOVE(&all->by_age, h, age_link);
	TAILQ_REMOVE(&h->src->halves, h, src_link);
	source_rank(all, h->src, -1);
	source_put(h->src);
	all->count--;
	all->fab->stats.half_open--;
	free(h);
	return req;
}

/* Closes with an RST: after a FIN the kernel would keep each socket for a minute. */
static void close_hard(int fd)
{
	struct linger now = {.l_onoff = 1};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
}

static void half_drop(struct half_open *h, const char *why)
{
	struct rd_iw_halves *all = h->all;
	char addr[RD_ADDR_TEXT];
	struct rd_iw_req *req = half_release(h);

	rd_log_limited(&all->rl, rd_loop_now(all->fab->base.loop), rd_iw_log(all->fab),
		       RD_LOG_FABRIC, RD_LOG_INFO, "%s: connection dropped: %s",
		       rd_addr_format((const struct sockaddr *)&req->base.remote, addr), why);
	close(req->fd);
	rd_iw_req_free(req);
}

static int arm_timeout(struct rd_iw_halves *all)
{
	struct rd_loop *loop = all->fab->base.loop;
	struct half_open *oldest = TAILQ_FIRST(&all->by_age);
	uint64_t now = rd_loop_now(loop);

	if (!oldest || rd_timer_armed(&all->timer))
		return 0;
	return rd_timer_start(loop, &all->timer,
			      oldest->deadline > now ? oldest->deadline - now : 0);
}

static void expire_halves(struct rd_timer *timer)
{
	struct rd_iw_halves *all = rd_container_of(timer, struct rd_iw_halves, timer);
	uint64_t now = rd_loop_now(all->fab->base.loop);
	struct half_open *h;

	while ((h = TAILQ_FIRST(&all->by_age)) && h->deadline <= now)
		half_drop(h, "no complete MPA request in time");
	arm_timeout(all); /* cannot fail: the heap has the place of the expired timer */
}

bool rd_iw_halves_evict(struct rd_iw_halves *all)
{
	struct source *src = TAILQ_FIRST(&all->rank[all->most]);
	char addr[RD_ADDR_TEXT];
	struct rd_iw_req *req;
	uint32_t had;

	if (!all->count)
		return false;
	had = src->count;
	req = half_release(TAILQ_FIRST(&src->halves));
	all->fab->stats.evicted++;
	rd_log_limited(&all->limit_rl, rd_loop_now(all->fab->base.loop), rd_iw_log(all->fab),
		       RD_LOG_FABRIC, RD_LOG_WARN,
		       "%s: connection dropped to make room: no complete MPA request came; %u such "
		       "connections are left, %u of them from this address (the limit is %u)",
		       rd_addr_format_host((const struct sockaddr *)&req->base.remote, addr),
		       all->count, had - 1, all->limit);
	close_hard(req->fd);
	rd_iw_req_free(req);
	return true;
}

static void half_complete(struct half_open *h)
{
	struct rd_iw_halves *all = h->all;
	struct rd_iw_req *req = h->req;
	socklen_t len = sizeof(req->base.local);
	const char *why;

	if (rd_iw_mpa_parse(req->frame, h->len, false, &req->mpa, &why)) {
		half_drop(h, why);
		return;
	}
	if (getsockname(req->fd, (struct sockaddr *)&req->base.local, &len)) {
		half_drop(h, strerror(errno));
		return;
	}
	all->fn(half_release(h), all->arg); /* may destroy @all */
}

/* Reads from the socket. True: the request is not complete, and @h still exists. */
static bool half_read(struct half_open *h)
{
	for (;;) {
		const char *why;
		int need = rd_iw_mpa_length(h->req->frame, h->len, false, &why);
		ssize_t n;

		if (need < 0) {
			half_drop(h, why);
			return false;
		}
		if ((uint32_t)need == h->len) {
			half_complete(h);
			return false;
		}
		n = recv(h->req->fd, h->req->frame + h->len, (size_t)need - h->len, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			half_drop(h, "closed before a complete MPA request");
			return false;
		}
		h->len += (uint32_t)n;
	}
}

static void half_io(struct rd_io *io, uint32_t events)
{
	half_read(rd_container_of(io, struct half_open, io));
}

static int half_new(struct rd_iw_halves *all, int fd, const struct sockaddr_storage *remote,
		    struct half_open **out)
{
	struct half_open *h = calloc(1, sizeof(*h));
	struct rd_iw_req *req = calloc(1, sizeof(*req));
	struct source *src = source_get(all, (const struct sockaddr *)remote);

	if (!h || !req || !src)
		goto err_free;
	req->base.ops = &rd_iw_ops;
	req->base.remote = *remote;
	req->fd = fd;
	req->crc = all->fab->opts.crc;
	req->home = all->fab->box;
	rd_iw_mailbox_get(req->home);
	h->all = all;
	h->req = req;
	h->src = src;
	h->deadline = rd_loop_now(all->fab->base.loop) + rd_iw_request_timeout(all->fab);
	TAILQ_INSERT_TAIL(&all->by_age, h, age_link);
	TAILQ_INSERT_TAIL(&src->halves, h, src_link);
	source_rank(all, src, 1);
	all->count++;
	all->fab->stats.half_open++;
	*out = h;
	return 0;

err_free:
	if (src)
		source_put(src);
	free(req);
	free(h);
	return -ENOMEM;
}

bool rd_iw_halves_full(const struct rd_iw_halves *all)
{
	return all->count == all->limit;
}

int rd_iw_half_start(struct rd_iw_halves *all, int fd, const struct sockaddr_storage *remote)
{
	struct half_open *h;
	int rc;

	/* Before the new one is added: being the last of its address, it could be chosen itself. */
	if (rd_iw_halves_full(all))
		rd_iw_halves_evict(all);
	rc = half_new(all, fd, remote, &h);
	if (rc) {
		close(fd);
		return rc;
	}
	rc = arm_timeout(all);
	if (rc == 0 && !half_read(h))
		return 0;
	if (rc == 0)
		rc = rd_io_add(all->fab->base.loop, &h->io, fd, EPOLLIN, half_io);
	if (rc == 0)
		h->watched = true;
	else
		half_drop(h, strerror(-rc));
	return rc;
}

/* ---- all of a listener ---- */

int rd_iw_halves_create(struct rd_iw_fab *fab, rd_iw_request_fn fn, void *arg,
			struct rd_iw_halves **out)
{
	struct rd_iw_halves *all = calloc(1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	all->fab = fab;
	all->fn = fn;
	all->arg = arg;
	all->limit = fab->opts.half_open ? fab->opts.half_open : RD_FAB_IWARP_HALF_OPEN;
	all->timer.fn = expire_halves;
	all->hash_random = rd_loop_random32(fab->base.loop);
	for (all->hash_bits = 4; (UINT32_C(1) << all->hash_bits) < all->limit;)
		all->hash_bits++;
	TAILQ_INIT(&all->by_age);
	all->hash = calloc((size_t)1 << all->hash_bits, sizeof(*all->hash));
	all->rank = calloc((size_t)all->limit + 1, sizeof(*all->rank));
	if (!all->hash || !all->rank) {
		rd_iw_halves_destroy(all);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i <= all->limit; i++)
		TAILQ_INIT(&all->rank[i]);
	*out = all;
	return 0;
}

void rd_iw_halves_destroy(struct rd_iw_halves *all)
{
	struct half_open *h;

	if (!all)
		return;
	while ((h = TAILQ_FIRST(&all->by_age))) {
		struct rd_iw_req *req = half_release(h);

		close(req->fd);
		rd_iw_req_free(req);
	}
	rd_timer_stop(all->fab->base.loop, &all->timer);
	free(all->hash);
	free(all->rank);
	free(all);
}
