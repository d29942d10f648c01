/* SPDX-License-Identifier: BSD-3-Clause */
#include "tcp_tls.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "util/log.h"
#include "util/loop.h"
#include "util/sockaddr.h"
#include "nvmf/tls.h"
#include "target/nvmf/announce.h"
#include "target/nvmf/auth/auth_guess.h"
#include "target/nvmf/auth/auth_work.h"
#include "target/nvmf/auth_keys.h"
#include "target/nvmf/target.h"

#define DEADLINE (10 * RD_NSEC_PER_SEC)   /* the documents and the log mention 10 s */
#define PACE     (800 * RD_NSEC_PER_MSEC) /* like in auth.c */

struct shake { /* used by the thread */
	struct rd_io io;
	struct rdt_tcp_tls *of;
	struct rdt_tcp_handoff *h;
	struct nvmf_tls *tls; /* NULL: nothing was received so far */
	uint64_t until;
	TAILQ_ENTRY(shake) link;
	/* The check of the key of a host that has failed often is delayed. */
	bool paced; /* it is on @pacing until @look_at */
	bool waited;
	uint64_t look_at;
	TAILQ_ENTRY(shake) pace_link;
	bool guessed; /* @guess was counted as a failure, until the handshake succeeds */
	struct rdt_guess_keys guess;
};

struct rdt_tcp_tls {
	struct rdt_target *target;
	struct rdt_listener *listener;
	bool required;
	bool started;
	pthread_t thread;
	struct rd_loop *loop;
	struct nvmf_tls_ctx *ctx;
	pthread_mutex_t lock; /* guards @inbox and @posted; a leaf lock */
	struct rdt_tcp_handoffs inbox;
	bool posted;
	struct rd_msg msg;
	/* the fields below: used by the thread */
	TAILQ_HEAD(shakes, shake) shakes; /* oldest first */
	unsigned int count;
	struct rd_timer timer; /* deadline of the oldest one */
	struct shakes pacing;  /* in the order of @look_at */
	struct rd_timer pace;  /* for the first one on @pacing */
	struct rd_ratelimit refused_limit, many_limit, done_limit, slow_limit;
};

/* ---- the ends of a handshake ---- */

/* Remove a handshake. Returns its connection, whose socket is no longer watched by this thread. */
static struct rdt_tcp_handoff *drop_shake(struct shake *s)
{
	struct rdt_tcp_handoff *h = s->h;
	struct rdt_tcp_tls *of = s->of;

	rd_io_del(of->loop, &s->io);
	TAILQ_REMOVE(&of->shakes, s, link);
	if (s->paced)
		TAILQ_REMOVE(&of->pacing, s, pace_link);
	of->count--;
	free(s);
	return h;
}

static void refuse_shake(struct shake *s, const char *why)
{
	struct rdt_tcp_tls *of = s->of;
	struct nvmf_tls_info info = {0};
	char addr[RD_ADDR_TEXT];

	if (s->tls)
		nvmf_tls_info(s->tls, &info);
	rd_addr_format((const struct sockaddr *)&s->h->remote, addr);
	atomic_fetch_add_explicit(&of->target->tls_refusals, 1, memory_order_relaxed);
	rd_log_limited(&of->refused_limit, rd_loop_now(of->loop), of->target->log, RD_LOG_QPAIR,
		       RD_LOG_NOTICE, "refused TLS from %s: %s", addr, why);
	rdt_announce(of->target, "refused", "{s:s, s:s, s:s, s:s}", "address", addr, "hostnqn",
		     info.identity.hostnqn, "nqn", info.identity.subnqn, "reason", why);
	nvmf_tls_free(s->tls);
	rdt_tcp_hand_back(drop_shake(s));
}

static void report_tls(const struct shake *s)
{
	struct rdt_tcp_tls *of = s->of;
	struct nvmf_tls_info info;
	char addr[RD_ADDR_TEXT];

	nvmf_tls_info(s->tls, &info);
	rd_log_limited(
		&of->done_limit, rd_loop_now(of->loop), of->target->log, RD_LOG_QPAIR, RD_LOG_INFO,
		"TLS with %s: host %s, subsystem %s, identity NVMe%u%c%02u, %s, %s key, "
		"derivation %s; the kernel %s",
		rd_addr_format((const struct sockaddr *)&s->h->remote, addr), info.identity.hostnqn,
		info.identity.subnqn, info.identity.version, info.identity.type, info.identity.hash,
		info.suite, info.key ? "previous" : "present",
		info.compat ? "of libnvme before 1.14" : "of the specification",
		info.ktls_send && info.ktls_recv ? "encrypts and decrypts"
		: info.ktls_send                 ? "encrypts, and does not decrypt"
		: info.ktls_recv                 ? "decrypts, and does not encrypt"
						 : "takes no part (no kernel TLS)");
}

/* Hand the connection over to its reactor. */
static void pass_shake(struct shake *s)
{
	if (s->guessed)
		rdt_guess_keys_right(&s->of->target->auth_pool->guesses, &s->guess, true);
	if (s->tls) {
		atomic_fetch_add_explicit(&s->of->target->tls_handshakes, 1, memory_order_relaxed);
		report_tls(s);
	}
	s->h->tls = s->tls;
	rdt_tcp_hand_over(drop_shake(s));
}

/* ---- progress ---- */

static unsigned int find_keys(void *arg, const struct nvmf_tls_identity *id,
			      struct nvmf_auth_key keys[NVMF_TLS_KEYS], const char **why)
{
	struct shake *s = arg;
	struct rdt_tcp_tls *of = s->of;
	struct rdt_guesses *g = &of->target->auth_pool->guesses;

	if (!s->guessed) {
		rdt_guess_of_tls(g, s->h->peer, id->hostnqn, &s->guess);
		if (!s->waited && rdt_guess_keys_over(g, &s->guess, rd_loop_now(of->loop)))
			return NVMF_TLS_LATER;
		/* Counted before the key is checked, so that handshakes that are checked at the
		 * same time count together. */
		rdt_guess_keys_count(g, &s->guess, rd_loop_now(of->loop));
		s->guessed = true;
	}
	return rdt_auth_find_tls_keys(of->target, id->subnqn, id->hostnqn, keys, why);
}

static void await_pace(struct rdt_tcp_tls *of)
{
	const struct shake *s = TAILQ_FIRST(&of->pacing);
	uint64_t now = rd_loop_now(of->loop);

	/* Without memory for the timer, the deadline of the handshake still applies. */
	if (s && !rd_timer_armed(&of->pace))
		(void)rd_timer_start(of->loop, &of->pace, s->look_at > now ? s->look_at - now : 0);
}

static void pace_shake(struct shake *s)
{
	struct rdt_tcp_tls *of = s->of;
	char addr[RD_ADDR_TEXT];

	rd_addr_format((const struct sockaddr *)&s->h->remote, addr);
	rd_log_limited(&of->slow_limit, rd_loop_now(of->loop), of->target->log, RD_LOG_QPAIR,
		       RD_LOG_NOTICE,
		       "slowed TLS from %s down: its name or its address has failed "
		       "too often",
		       addr);
	s->paced = true;
	s->look_at = rd_loop_now(of->loop) + PACE;
	TAILQ_INSERT_TAIL(&of->pacing, s, pace_link);
	await_pace(of);
	if (rd_io_mod(of->loop, &s->io, 0))
		refuse_shake(s, "the socket cannot be watched");
}

/* Returns whether the connection begins without TLS, which is allowed here. */
static bool begins_plain(const struct shake *s)
{
	uint8_t first;

	return !s->of->required && recv(s->h->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1 &&
	       first != NVMF_TLS_FIRST_BYTE;
}

static void shake_io(struct rd_io *io, uint32_t events)
{
	struct shake *s = rd_container_of(io, struct shake, io);
	const struct nvmf_tls_keys keys = {find_keys, s};
	int rc = 0;

	if (s->paced) {
		if (events & (EPOLLHUP | EPOLLERR))
			refuse_shake(s, "closed the connection");
		return;
	}
	if (!s->tls && begins_plain(s)) {
		pass_shake(s);
		return;
	}
	if (!s->tls)
		rc = nvmf_tls_server(s->of->ctx, s->h->fd, &keys, &s->tls);
	if (!rc)
		rc = nvmf_tls_handshake(s->tls);
	if (!rc)
		pass_shake(s);
	else if (!s->tls)
		refuse_shake(s, "out of memory");
	else if (rc == -EBUSY)
		pace_shake(s);
	else if (rc != -EAGAIN)
		refuse_shake(s, nvmf_tls_why(s->tls));
	else if (rd_io_mod(s->of->loop, io, nvmf_tls_events(s->tls)))
		refuse_shake(s, "the socket cannot be watched");
}

static void pace_over(struct rd_timer *timer)
{
	struct rdt_tcp_tls *of = rd_container_of(timer, struct rdt_tcp_tls, pace);
	struct shake *s;

	while ((s = TAILQ_FIRST(&of->pacing)) && s->look_at <= rd_loop_now(of->loop)) {
		TAILQ_REMOVE(&of->pacing, s, pace_link);
		s->paced = false;
		s->waited = true;
		shake_io(&s->io, 0);
	}
	await_pace(of);
}

static void watch_oldest(struct rdt_tcp_tls *of)
{
	const struct shake *s = TAILQ_FIRST(&of->shakes);
	uint64_t now = rd_loop_now(of->loop);

	/* Without memory for the timer, the limits of the number still apply. */
	if (s && !rd_timer_armed(&of->timer))
		(void)rd_timer_start(of->loop, &of->timer, s->until > now ? s->until - now : 0);
}

static void deadline_over(struct rd_timer *timer)
{
	struct rdt_tcp_tls *of = rd_container_of(timer, struct rdt_tcp_tls, timer);
	struct shake *s;

	while ((s = TAILQ_FIRST(&of->shakes)) && s->until <= rd_loop_now(of->loop))
		refuse_shake(s, "the handshake was not complete after 10 seconds");
	watch_oldest(of);
}

/* Returns the handshake to end if there are too many: the oldest one, or the oldest one of the
 * address that has too many; NULL: there are not. */
static struct shake *shake_to_end(struct rdt_tcp_tls *of, const struct rdt_peer *peer)
{
	struct shake *oldest = NULL, *s;
	unsigned int n = 0;

	TAILQ_FOREACH (s, &of->shakes, link) {
		if (s->h->peer != peer)
			continue;
		if (!n++)
			oldest = s;
	}
	if (n >= RDT_TLS_SHAKES_ADDRESS)
		return oldest;
	return of->count >= RDT_TLS_SHAKES ? TAILQ_FIRST(&of->shakes) : NULL;
}

static void begin_shake(struct rdt_tcp_tls *of, struct rdt_tcp_handoff *h)
{
	struct shake *victim = shake_to_end(of, h->peer), *s = calloc(1, sizeof(*s));

	if (victim)
		refuse_shake(victim,
			     "too many handshakes are in progress, and this was the oldest");
	if (!s || rd_io_add(of->loop, &s->io, h->fd, EPOLLIN, shake_io)) {
		rd_log_limited(&of->many_limit, rd_loop_now(of->loop), of->target->log,
			       RD_LOG_QPAIR, RD_LOG_WARN,
			       "cannot begin a TLS handshake: out of memory");
		free(s);
		rdt_tcp_hand_back(h);
		return;
	}
	s->of = of;
	s->h = h;
	s->until = rd_loop_now(of->loop) + DEADLINE;
	TAILQ_INSERT_TAIL(&of->shakes, s, link);
	of->count++;
	watch_oldest(of);
}

static struct rdt_tcp_handoff *take_from_inbox(struct rdt_tcp_tls *of)
{
	struct rdt_tcp_handoff *h;

	pthread_mutex_lock(&of->lock);
	h = STAILQ_FIRST(&of->inbox);
	if (h)
		STAILQ_REMOVE_HEAD(&of->inbox, link);
	else
		of->posted = false;
	pthread_mutex_unlock(&of->lock);
	return h;
}

static void inbox_msg(struct rd_msg *msg)
{
	struct rdt_tcp_tls *of = rd_container_of(msg, struct rdt_tcp_tls, msg);
	struct rdt_tcp_handoff *h;

	while ((h = take_from_inbox(of)))
		begin_shake(of, h);
}

static void *tls_thread(void *arg)
{
	struct rdt_tcp_tls *of = arg;

	pthread_setname_np(pthread_self(), "tls");
	rd_loop_run(of->loop);
	return NULL;
}

/* ---- the main thread ---- */

struct rdt_tcp_tls *rdt_tcp_tls_new(struct rdt_listener *l)
{
	struct rdt_tcp_tls *of = calloc(1, sizeof(*of));
	const struct rd_loop_opts opts = {.log = l->target->log, .clock = l->target->env->clock};

	if (!of)
		return NULL;
	of->target = l->target;
	of->listener = l;
	of->required = l->cfg->tls == RDT_TLS_REQUIRED;
	of->msg.fn = inbox_msg;
	of->timer.fn = deadline_over;
	of->pace.fn = pace_over;
	TAILQ_INIT(&of->pacing);
	STAILQ_INIT(&of->inbox);
	TAILQ_INIT(&of->shakes);
	pthread_mutex_init(&of->lock, NULL);
	if (rd_loop_create(&opts, &of->loop) || nvmf_tls_ctx_new(&of->ctx)) {
		rdt_tcp_tls_free(of);
		return NULL;
	}
	return of;
}

int rdt_tcp_tls_take(struct rdt_tcp_tls *of, struct rdt_tcp_handoff *h)
{
	bool post;

	if (!of->started) {
		int err = pthread_create(&of->thread, NULL, tls_thread, of);

		if (err)
			return -err;
		of->started = true;
	}
	pthread_mutex_lock(&of->lock);
	STAILQ_INSERT_TAIL(&of->inbox, h, link);
	post = !of->posted;
	of->posted = true;
	pthread_mutex_unlock(&of->lock);
	if (post)
		rd_loop_post(of->loop, &of->msg);
	return 0;
}

void rdt_tcp_tls_free(struct rdt_tcp_tls *of)
{
	struct rdt_tcp_handoff *h;
	struct shake *s;

	if (!of)
		return;
	if (of->started) {
		rd_loop_stop(of->loop);
		pthread_join(of->thread, NULL);
	}
	while ((s = TAILQ_FIRST(&of->shakes))) {
		nvmf_tls_free(s->tls);
		rdt_tcp_hand_back(drop_shake(s));
	}
	while ((h = STAILQ_FIRST(&of->inbox))) {
		STAILQ_REMOVE_HEAD(&of->inbox, link);
		rdt_tcp_hand_back(h);
	}
	if (of->loop) {
		rd_timer_stop(of->loop, &of->timer);
		rd_timer_stop(of->loop, &of->pace);
	}
	rd_loop_destroy(&of->loop);
	nvmf_tls_ctx_free(of->ctx);
	pthread_mutex_destroy(&of->lock);
	free(of);
}
