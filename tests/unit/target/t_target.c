/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>

#include "util/sockaddr.h"
#include "target/bdev/jobs.h"
#include "target/manage/objects/opening.h"
#include "target/reactor/lifecycle.h"
#include "target/transport/rdma/rdma.h"
#include "t_target.h"

unsigned int t_reactors = 2;
const struct rdt_transport *const *t_transports;

#define must(cond) CU_ASSERT_FATAL(cond)

/* ---- the backend ---- */

struct t_chan {
	struct rdt_chan chan;
};

static struct t_disk *to_disk(struct rdt_bdev *bdev)
{
	return rd_container_of(bdev, struct t_disk, bdev);
}

static void disk_close(struct rdt_bdev *bdev)
{
	struct t_disk *d = to_disk(bdev);

	CU_ASSERT_EQUAL(d->channels, 0);
	CU_ASSERT_EQUAL(d->held_count, 0);
	free(d->data);
	d->data = NULL;
	d->closed = true;
}

static int disk_chan_open(struct rdt_bdev *bdev, struct rdt_engines *engines, struct rdt_chan **out)
{
	struct t_chan *c;

	if (to_disk(bdev)->chan_open_fails && --to_disk(bdev)->chan_open_fails == 0)
		return -EIO;
	c = calloc(1, sizeof(*c));
	must(c != NULL);
	c->chan.bdev = bdev;
	to_disk(bdev)->channels++;
	*out = &c->chan;
	return 0;
}

static void disk_chan_close(struct rdt_chan *chan)
{
	to_disk(chan->bdev)->channels--;
	free(chan);
}

/* A block is allocated when it is not all zeroes. */
static void disk_extents(const struct t_disk *d, const struct rdt_bio *bio)
{
	static const char zeroes[512];
	struct rdt_extents *ex = bio->buf;

	ex->count = 0;
	ex->upto = bio->offset + (d->piece && d->piece < bio->length ? d->piece : bio->length);
	for (uint64_t at = bio->offset; at < ex->upto; at += 512)
		if (memcmp(d->data + at, zeroes, 512) != 0 && !rdt_extents_add(ex, at, at + 512))
			return;
}

static void disk_do(struct t_disk *d, struct rdt_bio *bio, int result)
{
	bio->result = result;
	if (result)
		return;
	switch (bio->op) {
	case RDT_BIO_READ:
		if (!(bio->flags & RDT_BIO_BLANK))
			memcpy(bio->buf, d->data + bio->offset, bio->length);
		break;
	case RDT_BIO_WRITE:
		memcpy(d->data + bio->offset, bio->buf, bio->length);
		break;
	case RDT_BIO_WRITE_ZEROES:
	case RDT_BIO_DEALLOCATE:
		memset(d->data + bio->offset, 0, bio->length);
		break;
	case RDT_BIO_EXTENTS:
		disk_extents(d, bio);
		break;
	}
}

static enum rdt_bio_submit disk_submit(struct rdt_chan *chan, struct rdt_bio *bio)
{
	struct t_disk *d = to_disk(chan->bdev);

	d->submitted++;
	d->last = *bio;
	if (d->sync) {
		disk_do(d, bio, d->fail);
		return RDT_BIO_DONE;
	}
	must(d->held_count < 64);
	d->held[d->held_count++] = bio;
	return RDT_BIO_QUEUED;
}

static void disk_cancel(struct rdt_chan *chan, struct rdt_bio *bio)
{
	to_disk(chan->bdev)->cancelled++;
}

static int disk_resize(struct rdt_bdev *bdev, uint64_t size, char *err, size_t err_size)
{
	if (size > (uint64_t)T_BLOCKS * 512)
		return -ENOMEM;
	if (size)
		bdev->size = size;
	return 0;
}

static int disk_opened(struct rdt_bdev *bdev, char *err, size_t err_size)
{
	int rc = to_disk(bdev)->open_rc;

	if (rc)
		snprintf(err, err_size, "the disk cannot be opened");
	return rc;
}

#define DISK_OPS                                                                     \
	.name = "fake", .close = disk_close, .chan_open = disk_chan_open,            \
	.chan_close = disk_chan_close, .submit = disk_submit, .resize = disk_resize, \
	.opened = disk_opened, .claim = t_disk_claim

static const struct rdt_bdev_ops disk_ops = {DISK_OPS};
static const struct rdt_bdev_ops disk_ops_cancel = {DISK_OPS, .cancel = disk_cancel};

void t_disk_finish(struct t_disk *d, unsigned int i, int result)
{
	struct rdt_bio *bio = d->held[i];

	must(i < d->held_count);
	d->held_count--;
	memmove(&d->held[i], &d->held[i + 1], (d->held_count - i) * sizeof(d->held[0]));
	disk_do(d, bio, result);
	bio->done(bio);
}

static bool disk_pump(struct t_disk *d)
{
	bool moved = false;

	d->bdev.ops = d->can_cancel ? &disk_ops_cancel : &disk_ops;
	while (!d->hold && d->held_count) {
		t_disk_finish(d, 0, d->fail);
		moved = true;
	}
	return moved;
}

/* ---- the transport ---- */

static struct t_conn *to_conn(struct rdt_qpair *qp)
{
	return rd_container_of(qp, struct t_conn, qp);
}

/* Copy between the host's memory, which the data pointer names, and the request's buffer. */
static void move(struct rdt_req *req, bool to_host)
{
	const struct rdt_rdma_req *rr = rdt_rdma_req_of(req);
	const struct rdt_rdma_desc one = {rr->raddr, rr->rkey, req->data_len};
	const struct rdt_rdma_desc *d = rr->descs ? rr->list->desc : &one;
	uint8_t *buf = req->buf;

	for (unsigned int i = 0; i < (rr->descs ? rr->descs : 1u); i++) {
		void *host = (void *)(uintptr_t)d[i].addr;

		if (to_host)
			memcpy(host, buf, d[i].len);
		else
			memcpy(buf, host, d[i].len);
		buf += d[i].len;
	}
	CU_ASSERT_EQUAL(buf, (uint8_t *)req->buf + req->data_len);
}

static void fetch(struct rdt_req *req)
{
	struct t_conn *c = to_conn(req->qp);

	must(c->fetches_count < 256);
	c->fetches[c->fetches_count++] = req;
	if (c->no_read)
		rdt_qpair_lost(req->qp, RDT_END_HOST, "no READ");
}

static bool fetch_cancel(struct rdt_req *req)
{
	struct t_conn *c = to_conn(req->qp);

	/* Like a READ depth of one: all fetches but the first can still be cancelled. */
	for (unsigned int i = 1; i < c->fetches_count; i++) {
		if (c->fetches[i] != req)
			continue;
		memmove(&c->fetches[i], &c->fetches[i + 1],
			(--c->fetches_count - i) * sizeof(c->fetches[0]));
		return true;
	}
	return false;
}

static void respond(struct rdt_req *req, bool with_data)
{
	struct t_conn *c = to_conn(req->qp);
	struct t_answer *a = &c->answers[c->answers_count];

	if (c->on_respond)
		c->on_respond(c, req);
	must(c->answers_count < c->responds_max && c->responds_count < c->responds_max);
	must(!c->closing);
	c->answers_count++;
	a->cqe = req->cqe;
	a->with_data = with_data;
	a->invalidate = rdt_rdma_req_of(req)->invalidate;
	a->key = rdt_rdma_req_of(req)->rkey;
	if (with_data)
		move(req, true);
	c->caps_out_at_answer = c->caps_out;
	c->responds[c->responds_count++] = req;
}

static void role(struct rdt_qpair *qp)
{
	to_conn(qp)->roles++;
}

static void joined(struct rdt_qpair *qp)
{
}

static void capsule_done(struct rdt_qpair *qp, struct rdt_capsule *cap)
{
	struct t_conn *c = to_conn(qp);

	must(c->caps_out > 0);
	c->caps_out--;
	/* Poison it: the queue pair must not read it any more. */
	memset(cap->data, 0xdb, T_INCAPSULE);
	cap->data_len = UINT32_MAX; /* free */
	if (c->no_recv)
		rdt_qpair_lost(qp, RDT_END_HOST, "no RECV");
}

static void close_conn(struct rdt_qpair *qp)
{
	struct t_conn *c = to_conn(qp);

	CU_ASSERT_FALSE(c->closing);
	c->closing = true;
	if (c->on_close)
		c->on_close(c);
}

static void destroy(struct rdt_qpair *qp)
{
	struct t_conn *c = to_conn(qp);

	CU_ASSERT_TRUE(c->closed);
	if (c->gone)
		*c->gone = true;
	rdt_qpair_fini(&c->qp);
	rdt_req_pool_trim(c->qp.req_pool);
	free(c->responds);
	free(c->answers);
	free(c->caps);
	free(c->mem);
	free(c);
}

static bool peer_closed(const struct rdt_qpair *qp)
{
	return rd_container_of(qp, const struct t_conn, qp)->peer_closed;
}

static int unread(const struct rdt_qpair *qp)
{
	return rd_container_of(qp, const struct t_conn, qp)->unread;
}

/* Its hosts use keyed descriptors, as those of RDMA. */
static const struct rdt_transport_ops fake_ops = {
	.name = "fake",
	.trtype = NVMF_TRTYPE_RDMA,
	.parse_sgl = rdt_rdma_parse_sgl,
	.fetch = fetch,
	.fetch_cancel = fetch_cancel,
	.respond = respond,
	.identify = rdt_rdma_identify,
	.role = role,
	.joined = joined,
	.capsule_done = capsule_done,
	.close = close_conn,
	.peer_closed = peer_closed,
	.unread = unread,
	.destroy = destroy,
};

static bool conn_pump(struct t_conn *c)
{
	bool moved = false;

	while (c->fetches_count && (!c->hold_fetch || c->closing)) {
		struct rdt_req *req = c->fetches[0];

		memmove(&c->fetches[0], &c->fetches[1], --c->fetches_count * sizeof(c->fetches[0]));
		if (!c->closing)
			move(req, false);
		rdt_req_fetched(req, c->closing ? -ECANCELED : 0);
		moved = true;
	}
	while (c->responds_count && (!c->hold_respond || c->closing)) {
		struct rdt_req *req = c->responds[0];

		memmove(&c->responds[0], &c->responds[1],
			--c->responds_count * sizeof(c->responds[0]));
		c->qp.reactor->run.match = 0; /* each is a batch of its own */
		rdt_req_responded(req);
		moved = true;
	}
	if (c->closing && !c->closed) {
		c->closed = true;
		rdt_qpair_transport_closed(&c->qp);
		moved = true;
	}
	return moved;
}

struct t_conn *t_conn_new(struct t_env *env, unsigned int reactor, uint16_t qid, uint16_t depth)
{
	struct rdt_reactor *r = &env->t->reactors[reactor];
	struct t_conn *c = calloc(1, sizeof(*c));
	size_t each = NVME_SQE_SIZE + T_INCAPSULE;

	must(c != NULL);
	c->env = env;
	must(rdt_qpair_init(&c->qp, r, &fake_ops, qid, depth) == 0);
	rdt_qpair_use_pool(&c->qp, &env->reqs[reactor]);
	c->qp.unproven = T_UNPROVEN;
	rd_addr_parse("192.0.2.1", 4420, &c->qp.local);
	rd_addr_parse("192.0.2.2", 1024, &c->qp.remote);
	c->caps = calloc(depth, sizeof(*c->caps));
	c->mem = calloc(depth, each);
	c->responds_max = depth > 256 ? depth : 256;
	c->responds = calloc(c->responds_max, sizeof(struct rdt_req *));
	c->answers = calloc(c->responds_max, sizeof(*c->answers));
	must(c->caps && c->mem && c->responds && c->answers);
	for (unsigned int i = 0; i < depth; i++) {
		c->caps[i].sqe = (void *)(c->mem + i * each);
		c->caps[i].data = c->mem + i * each + NVME_SQE_SIZE;
		c->caps[i].data_len = UINT32_MAX;
	}
	c->next_cid = 0x1000;
	atomic_fetch_add(&r->load, 1);
	if (!c->qp.admin)
		rdt_place_io(r);
	rdt_qpair_start(&c->qp);
	return c;
}

void t_conn_cut(struct t_conn *c)
{
	rdt_qpair_lost(&c->qp, RDT_END_HOST, "cut by the test");
}

/* ---- the environment ---- */

static int chunk_open(void *arg, struct rdt_req_chunk *chunk)
{
	return ((struct t_env *)arg)->no_memory ? -ENOMEM : 0;
}

static const struct rdt_req_mem req_mem = {
	.size = sizeof(struct rdt_rdma_req),
	.offset = offsetof(struct rdt_rdma_req, req),
	.open = chunk_open,
	.fini = rdt_rdma_req_fini,
};

static uint64_t fake_now(void *arg)
{
	struct t_env *env = arg;

	env->now += env->tick;
	return env->now;
}

static void make_config(struct t_env *env)
{
	struct rdt_target_config *tc = &env->cfg.target;

	tc->reactors = t_reactors;
	tc->queue_depth = 64;
	tc->io_queues = 4;
	tc->engine_depth = 16;
	tc->sgl_descriptors = 16;
	tc->max_data_bytes = T_MDTS;
	tc->in_capsule_bytes = T_INCAPSULE;
	tc->buffer_bytes = 4 * T_MDTS;
	tc->limits = T_LIMITS;
	env->cfg.listeners = env->listeners;
	env->cfg.subsystems = env->subsys;
	env->cfg.subsystems_count = 2;
	env->hosts[0] = T_HOST2;
	env->subsys[0] = (struct rdt_subsys_config){
		.nqn = T_NQN,
		.serial = "SERIAL0",
		.model = "model zero",
		.allow_any_host = true,
		.cntlid_min = 1,
		.cntlid_max = 0xffef,
		.namespaces = env->ns,
		.namespaces_count = 2,
	};
	env->subsys[1] = (struct rdt_subsys_config){
		.nqn = T_NQN2,
		.serial = "SERIAL1",
		.model = "model one",
		.hosts = env->hosts,
		.hosts_count = 1,
		.cntlid_min = 1,
		.cntlid_max = 0xffef,
		.namespaces = &env->ns[2],
		.namespaces_count = 1,
	};
	for (unsigned int i = 0; i < 3; i++) {
		env->ns[i] = (struct rdt_ns_config){
			.nsid = i == 1 ? 5 : 1, /* sorted by NSID, as after loading */
			.backend = RDT_BACKEND_MEMORY,
			.block_size = 512,
			.size_bytes = T_BLOCKS * 512,
			.uuid = "u",
			.ana_group = 1,
		};
		memset(env->ns[i].uuid_bytes, i == 2 ? 0x12 : 0x11 - (int)i, 16);
	}
}

uint64_t t_disk_devices[T_DISKS];
static struct t_env *the_env;
static void make_disk(struct t_disk *d, unsigned int i)
{
	d->bdev = (struct rdt_bdev){
		.ops = &disk_ops,
		.device = t_disk_devices[i],
		.size = (uint64_t)T_BLOCKS * 512,
		.block_size = 512,
		.ops_mask = ((1u << RDT_BIO_OPS) - 1) | RDT_OPS_MARKS,
		.volatile_cache = true,
	};
	must((d->data = calloc(T_BLOCKS, 512)) != NULL);
	d->closed = false;
}

/* Opens the fake backend for namespaces that are added to the running target. */
static int open_disk(struct rdt_target *t, const struct rdt_ns_config *cfg, struct rdt_bdev **out)
{
	struct t_disk *d = &the_env->disk[the_env->disk_next];

	if (!the_env->disk_next)
		return -ENOENT;
	make_disk(d, the_env->disk_next);
	*out = &d->bdev;
	return 0;
}

/* Replace the configured memory backend by the fake one. */
static void swap_disk(struct t_env *env, struct rdt_ns *ns)
{
	struct t_disk *d = &env->disk[ns->slot];

	make_disk(d, ns->slot);
	d->bdev.on_fault = ns->bdev->on_fault;
	d->bdev.on_fault_arg = ns->bdev->on_fault_arg;
	rdt_subsys_count(ns, false);
	rdt_bdev_close(&ns->bdev);
	ns->bdev = &d->bdev;
	rdt_subsys_count(ns, true);
}

bool (*t_run_job)(struct rdt_job *job);

static bool run_or_hold(struct rdt_job *job)
{
	if (!the_env->hold_jobs)
		return rdt_job_run_now(job);
	must(the_env->held_jobs_count < 16);
	the_env->held_jobs[the_env->held_jobs_count++] = job;
	return false;
}

void t_env_run_held(struct t_env *env)
{
	unsigned int count = env->held_jobs_count;
	struct rdt_job *jobs[16];

	must(count > 0);
	memcpy(jobs, env->held_jobs, sizeof(jobs));
	env->held_jobs_count = 0;
	for (unsigned int i = 0; i < count; i++) {
		jobs[i]->work(jobs[i]);
		rdt_job_finish(jobs[i]);
	}
	t_turn(env);
}

static void take_storage(struct rdt_ns_config *ns, const struct rdt_ns_config *storage)
{
	ns->backend = storage->backend;
	ns->path = storage->path;
	ns->block_size = storage->block_size;
	ns->size_bytes = storage->size_bytes;
	ns->engine = storage->engine;
	ns->direct = storage->direct;
}

struct rdt_ns *t_ns_of(const struct rdt_subsys *ss, uint32_t nsid)
{
	struct rdt_ns *ns = rdt_ns_with(ss, nsid);

	return ns && ns->state != RDT_NS_LEAVING ? ns : NULL;
}

struct t_env *t_env_new(void)
{
	return t_env_new_state(NULL);
}

struct t_env *t_env_new_state(const char *dir)
{
	return t_env_new_on(NULL, dir);
}

struct t_env *t_env_new_on(const struct rdt_ns_config *storage, const char *dir)
{
	struct t_env *env = calloc(1, sizeof(*env));
	struct rd_loop_opts opts = {.seed = 1};

	must(env != NULL);
	env->now = 1000 * RD_NSEC_PER_SEC;
	env->clock = (struct rd_clock){fake_now, env};
	env->env.clock = opts.clock = &env->clock;
	env->env.seed = opts.seed;
	env->env.transports = t_transports;
	if (getenv("T_LOG"))
		rd_log_create("test", 2, RD_LOG_TRACE, NULL, NULL, &env->log);
	make_config(env);
	if (storage)
		take_storage(&env->ns[0], storage);
	env->cfg.target.state_dir = dir;
	the_env = env;
	must(rd_loop_create(&opts, &env->loop) == 0);
	env->env.run_job = t_run_job ? t_run_job : run_or_hold;
	must(rdt_target_create(&env->cfg, env->log, env->loop, &env->env, NULL, &env->t) == 0);
	rdt_opening_begin(env->t);
	/* What state_dir keeps is read, and written. */
	while (env->t->state &&
	       rd_loop_turn(rdt_state_loop(env->t->state), 0) + rd_loop_turn(env->loop, 0) > 0)
		;
	must(rdt_opening_wait(env->t, 0) == 0);
	env->env.bdev_open = open_disk;
	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++)
		if (env->t->ns[i] && env->t->ns[i]->cfg->backend == RDT_BACKEND_MEMORY)
			swap_disk(env, env->t->ns[i]);
	for (unsigned int i = 0; i < env->t->reactors_count; i++)
		must(rdt_reactor_setup(&env->t->reactors[i]) == 0);
	for (unsigned int i = 0; i < env->t->reactors_count; i++)
		must(rdt_req_pool_init(&env->reqs[i], env->t->reactors[i].loop, &req_mem, env) ==
		     0);
	return env;
}

static bool is_alive(const struct rdt_ctrl *ctrl, const struct rdt_subsys *ss)
{
	const struct rdt_ctrl *c = TAILQ_FIRST(&ss->ctrls);

	while (c && c != ctrl)
		c = TAILQ_NEXT(c, link);
	return c;
}

/* A walk of a reactor's queue pairs may also use their controllers. */
static void look_at_ctrls(struct t_env *env)
{
	for (unsigned int i = 0; i < env->t->reactors_count; i++) {
		const struct rdt_qpair *qp;

		TAILQ_FOREACH (qp, &env->t->reactors[i].qpairs, link) {
			const struct rdt_subsys *ss = &env->t->disc;

			for (unsigned int at = 0; ss && qp->ctrl && !is_alive(qp->ctrl, ss);)
				ss = rdt_subsys_next(env->t, &at);
			CU_ASSERT_PTR_NOT_NULL(ss);
		}
	}
}

bool t_pump(struct t_env *env)
{
	bool moved = false;

	for (unsigned int i = 0; i < T_DISKS; i++)
		moved |= disk_pump(&env->disk[i]);
	for (unsigned int i = 0; i < env->t->reactors_count; i++) {
		struct rdt_qpair *qp, *next;

		if (env->still[i])
			continue;
		for (qp = TAILQ_FIRST(&env->t->reactors[i].qpairs); qp; qp = next) {
			next = TAILQ_NEXT(qp, link);
			moved |= qp->ops == &fake_ops && conn_pump(to_conn(qp));
		}
		moved |= rd_loop_turn(env->t->reactors[i].loop, 0) > 0;
		/* A queue may have commands for a later turn */
		moved |= !TAILQ_EMPTY(&env->t->reactors[i].admin.waiting);
		look_at_ctrls(env);
	}
	if (env->t->state)
		moved |= rd_loop_turn(rdt_state_loop(env->t->state), 0) > 0;
	return moved | (rd_loop_turn(env->loop, 0) > 0);
}

void t_turn(struct t_env *env)
{
	for (unsigned int i = 0; t_pump(env); i++)
		must(i < 10000);
}

unsigned int t_ctrls_staying(const struct rdt_subsys *ss)
{
	const struct rdt_ctrl *ctrl;
	unsigned int count = 0;

	TAILQ_FOREACH (ctrl, &ss->ctrls, link)
		count += !atomic_load(&ctrl->ending);
	return count;
}

unsigned int t_ctrls_most_ended(struct t_env *env)
{
	const struct rdt_subsys *ss = env->t->subsys[0];
	unsigned int before, after = t_ctrls_staying(ss), most = 0;

	for (unsigned int i = 0; after; i++) {
		must(i < 10000);
		t_pump(env);
		before = after;
		after = t_ctrls_staying(ss);
		most = before - after > most ? before - after : most;
	}
	return most;
}

void t_advance(struct t_env *env, uint64_t ns)
{
	env->now += ns;
	t_turn(env);
}

static void on_drained(struct rdt_target *t)
{
	the_env->drained++;
}

void t_env_free(struct t_env *env)
{
	const struct rdt_subsys *ss;

	the_env = env;
	for (unsigned int i = 0; i < T_DISKS; i++)
		env->disk[i].hold = false;
	rdt_target_drain(env->t, on_drained);
	rdt_target_abandon(env->t);
	t_turn(env);
	CU_ASSERT_EQUAL(env->drained, 1);
	for (unsigned int i = 0; i < env->t->reactors_count; i++) {
		struct rdt_reactor *r = &env->t->reactors[i];

		CU_ASSERT_TRUE(r->qpairs_count == 0 && atomic_load(&r->load) == 0);
		for (int j = 0; j < RDT_POOLS; j++)
			CU_ASSERT_EQUAL(rd_buddy_free_bytes(r->pools[j].buddy),
					rd_buddy_total_bytes(r->pools[j].buddy));
		CU_ASSERT_EQUAL(env->reqs[i].used, 0);
		CU_ASSERT_TRUE(TAILQ_EMPTY(&env->reqs[i].starved) &&
			       TAILQ_EMPTY(&r->admin.waiting));
		rdt_req_pool_fini(&env->reqs[i]);
		rdt_reactor_teardown(r);
	}
	for (unsigned int at = 0; (ss = rdt_subsys_next(env->t, &at));)
		CU_ASSERT_EQUAL(ss->ctrls_count, 0);
	CU_ASSERT_EQUAL(env->t->disc.ctrls_count, 0);
	rdt_target_destroy(&env->t);
	rd_loop_destroy(&env->loop);
	rd_log_destroy(&env->log);
	free(env);
}

void t_env_cleanup(struct t_env **env)
{
	t_env_free(*env);
}

/* ---- the host ---- */

void t_sqe(struct t_conn *c, struct nvme_sqe *sqe, uint8_t opcode, void *data, uint32_t len)
{
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = opcode;
	sqe->flags = NVME_CMD_PSDT_SGL;
	sqe->cid = htole16(c->next_cid++);
	if (len)
		nvme_sgl_set_keyed(&sqe->sgl, (uintptr_t)data, len, T_KEY,
				   NVME_SGL_KEYED_INVALIDATE);
	else
		nvme_sgl_set_keyed(&sqe->sgl, 0, 0, 0, NVME_SGL_KEYED_ADDRESS);
}

void t_in_capsule(struct nvme_sqe *sqe, uint32_t len)
{
	memset(&sqe->sgl, 0, sizeof(sqe->sgl));
	sqe->sgl.data.length = htole32(len);
	sqe->sgl.data.type = NVME_SGL_IN_CAPSULE;
}

void t_send(struct t_conn *c, const struct nvme_sqe *sqe, const void *in_capsule, uint32_t len)
{
	struct rdt_capsule *cap = NULL;

	for (unsigned int i = 0; i < c->qp.depth && !cap; i++)
		if (c->caps[i].data_len == UINT32_MAX)
			cap = &c->caps[i];
	must(cap != NULL); /* otherwise the host has used more RECVs than there are */
	memcpy((void *)(uintptr_t)cap->sqe, sqe, sizeof(*sqe));
	if (len)
		memcpy(cap->data, in_capsule, len);
	cap->data_len = len;
	c->caps_out++;
	rdt_qpair_capsule(&c->qp, cap);
}

unsigned int t_answers(const struct t_conn *c)
{
	return c->answers_count - c->answers_read;
}

struct t_answer t_answer(struct t_conn *c)
{
	struct t_answer a;

	must(t_answers(c) > 0);
	a = c->answers[c->answers_read++];
	if (c->answers_read == c->answers_count)
		c->answers_read = c->answers_count = 0;
	return a;
}

void t_begin(struct t_conn *c, const struct nvme_sqe *sqe)
{
	t_send(c, sqe, NULL, 0);
	t_turn(c->env);
}

struct t_answer t_exec(struct t_conn *c, const struct nvme_sqe *sqe)
{
	struct t_answer a;

	t_begin(c, sqe);
	a = t_answer(c);
	CU_ASSERT_EQUAL(a.cqe.cid, sqe->cid);
	return a;
}

uint16_t t_status(const struct t_answer *a)
{
	CU_ASSERT_EQUAL(le16toh(a->cqe.status) & 1, 0); /* no phase bit over fabrics */
	return nvme_status_from_wire(a->cqe.status).v & 0x7ff;
}

uint16_t t_exec_status(struct t_conn *c, const struct nvme_sqe *sqe)
{
	struct t_answer a = t_exec(c, sqe);

	return t_status(&a);
}

uint16_t t_answer_status(struct t_conn *c)
{
	struct t_answer a = t_answer(c);

	return t_status(&a);
}

bool t_dnr(const struct t_answer *a)
{
	return nvme_status_from_wire(a->cqe.status).v & NVME_STATUS_DNR;
}

void t_connect_sqe(struct t_conn *c, struct nvme_sqe *sqe, struct nvmf_connect_data *data,
		   uint16_t cntlid)
{
	struct nvmf_connect_sqe *con = (void *)sqe;

	memset(data, 0, sizeof(*data));
	memset(data->hostid, 0x11, sizeof(data->hostid));
	data->cntlid = htole16(cntlid);
	strcpy(data->subsysnqn, T_NQN);
	strcpy(data->hostnqn, T_HOST);
	t_sqe(c, sqe, NVMF_OPCODE, data, sizeof(*data));
	con->fctype = nvme_fabrics_type_connect;
	con->qid = htole16(c->qp.want_qid);
	con->sqsize = htole16(c->qp.depth - 1);
}

struct t_answer t_connect_as(struct t_conn *c, uint16_t cntlid, const char *hostnqn, uint8_t hostid)
{
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;

	t_connect_sqe(c, &sqe, &data, cntlid);
	memset(data.hostid, hostid, sizeof(data.hostid));
	memset(data.hostnqn, 0, sizeof(data.hostnqn));
	memccpy(data.hostnqn, hostnqn, 0, sizeof(data.hostnqn) - 1);
	return t_exec(c, &sqe);
}

struct t_conn *t_discovery_new(struct t_env *env, const char *hostnqn)
{
	struct t_conn *c = t_conn_new(env, 1, 0, 32);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	struct t_answer a;

	t_connect_sqe(c, &sqe, &data, NVMF_CNTLID_DYNAMIC);
	strcpy(data.subsysnqn, NVMF_DISC_NQN);
	memset(data.hostnqn, 0, sizeof(data.hostnqn));
	memccpy(data.hostnqn, hostnqn, 0, sizeof(data.hostnqn) - 1);
	a = t_exec(c, &sqe);
	must(t_status(&a) == 0);
	t_enable(c);
	return c;
}

uint16_t t_connect(struct t_conn *c, uint16_t cntlid)
{
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	struct t_answer a;

	t_connect_sqe(c, &sqe, &data, cntlid);
	a = t_exec(c, &sqe);
	must(t_status(&a) == 0);
	return (uint16_t)le32toh(a.cqe.result);
}

uint64_t t_get_property(struct t_conn *admin, uint32_t offset, bool eight)
{
	struct nvme_sqe sqe;
	struct nvmf_property_sqe *p = (void *)&sqe;
	struct t_answer a;

	t_sqe(admin, &sqe, NVMF_OPCODE, NULL, 0);
	p->fctype = nvme_fabrics_type_property_get;
	p->attrib = eight;
	p->offset = htole32(offset);
	a = t_exec(admin, &sqe);
	must(t_status(&a) == 0);
	return le64toh(a.cqe.result64);
}

struct t_answer t_set_property(struct t_conn *admin, uint32_t offset, uint64_t value)
{
	struct nvme_sqe sqe;
	struct nvmf_property_sqe *p = (void *)&sqe;

	t_sqe(admin, &sqe, NVMF_OPCODE, NULL, 0);
	p->fctype = nvme_fabrics_type_property_set;
	p->offset = htole32(offset);
	p->value = htole64(value);
	return t_exec(admin, &sqe);
}

struct t_answer t_feature(struct t_conn *admin, bool set, uint32_t cdw10, uint32_t cdw11)
{
	struct nvme_sqe sqe;

	t_sqe(admin, &sqe, set ? nvme_admin_set_features : nvme_admin_get_features, NULL, 0);
	sqe.cdw10 = htole32(cdw10);
	sqe.cdw11 = htole32(cdw11);
	return t_exec(admin, &sqe);
}

void t_enable(struct t_conn *admin)
{
	struct t_answer a = t_set_property(admin, NVME_REG_CC, 0x00460001);

	must(t_status(&a) == 0);
	must(t_get_property(admin, NVME_REG_CSTS, false) == 1);
}

void t_trust(struct t_conn *c)
{
	for (unsigned int i = 0; i < RDT_ACCOUNTS; i++)
		c->qp.share->accounts[i].moved = 1u << 30;
	c->qp.unproven = 0;
}

struct t_pair t_pair_new(void)
{
	return t_pair_new_in(t_env_new());
}

struct t_pair t_pair_new_in(struct t_env *env)
{
	struct t_pair p = {.env = env};

	p.admin = t_conn_new(p.env, 0, 0, 32);
	p.cntlid = t_connect(p.admin, NVMF_CNTLID_DYNAMIC);
	t_enable(p.admin);
	p.io = t_conn_new(p.env, 1, 1, 16);
	CU_ASSERT_EQUAL(t_connect(p.io, p.cntlid), p.cntlid);
	t_trust(p.io);
	return p;
}

void t_pair_free(struct t_pair *p)
{
	t_env_free(p->env);
}

void t_rw_sqe(struct t_conn *c, struct nvme_sqe *sqe, bool write, uint64_t lba, uint32_t blocks,
	      void *data)
{
	t_sqe(c, sqe, write ? nvme_cmd_write : nvme_cmd_read, data, blocks * 512);
	sqe->nsid = htole32(1);
	sqe->cdw10 = htole32((uint32_t)lba);
	sqe->cdw11 = htole32((uint32_t)(lba >> 32));
	sqe->cdw12 = htole32(blocks - 1);
}

__le16 t_send_rw(struct t_conn *c, bool write, uint64_t lba, uint32_t blocks, void *data)
{
	struct nvme_sqe sqe;

	t_rw_sqe(c, &sqe, write, lba, blocks, data);
	t_send(c, &sqe, NULL, 0);
	return sqe.cid;
}

uint16_t t_rw(struct t_conn *c, bool write, uint64_t lba, uint32_t blocks, void *data)
{
	struct nvme_sqe sqe;

	t_rw_sqe(c, &sqe, write, lba, blocks, data);
	return t_exec_status(c, &sqe);
}

uint16_t t_flush(struct t_conn *c)
{
	struct nvme_sqe sqe;

	t_sqe(c, &sqe, nvme_cmd_flush, NULL, 0);
	sqe.nsid = htole32(1);
	return t_exec_status(c, &sqe);
}

void t_send_abort(struct t_conn *admin, uint16_t sqid, __le16 cid)
{
	struct nvme_sqe sqe;

	t_sqe(admin, &sqe, nvme_admin_abort_cmd, NULL, 0);
	sqe.cdw10 = htole32(sqid | (uint32_t)le16toh(cid) << 16);
	t_begin(admin, &sqe);
}

struct t_answer t_abort(struct t_conn *admin, uint16_t sqid, __le16 cid)
{
	t_send_abort(admin, sqid, cid);
	return t_answer(admin);
}
