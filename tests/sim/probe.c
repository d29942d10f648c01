/* SPDX-License-Identifier: BSD-3-Clause */
#include "probe.h"

#include "auth.h"
#include "nvmf/wire.h"

#include "faults.h"
#include "host_ctrl.h"
#include "resv.h"

#define PAUSE_STEPS 60  /* on average, between two commands */
#define GUESS_IN    12  /* one of so many attempts begins, or ends, to give wrong proofs */
#define QUEUE_STEPS 800 /* until another queue takes the place of the one that there is */

enum probe_op {
	PROBE_READ,
	PROBE_FLUSH,
	PROBE_FLUSH_ALL, /* of all namespaces */
	PROBE_OPS,
};

static const char *const op_names[] = {
	[PROBE_READ] = "read", [PROBE_FLUSH] = "flush", [PROBE_FLUSH_ALL] = "flush of all"};

static bool is_closed(const struct probe *p)
{
	return setup_sure(&p->w->setup, SETUP_CLOSED + p->path, p->begin) &&
	       !setup_possible(&p->w->setup, SETUP_NO_LISTENER + p->path, p->connected);
}

/* Why the command must not succeed, or NULL. */
static const char *forbidden(const struct probe *p)
{
	const struct setup_history *h = &p->w->setup;
	bool removed = setup_possible(h, SETUP_REMOVED, p->begin);

	if (setup_sure(h, SETUP_DENIED + p->host, p->begin))
		return "the host was denied";
	if (is_closed(p) && (p->op != PROBE_FLUSH_ALL || !removed))
		return "the ANA state of the path forbids it";
	if (p->op != PROBE_FLUSH_ALL && setup_sure(h, SETUP_REMOVED, p->begin))
		return "the namespace was removed";
	if (p->op == PROBE_READ && p->block >= SETUP_SHORT_BLOCKS &&
	    setup_certain(h, SETUP_SHORT, p->begin))
		return "the namespace is shorter";
	if (p->op != PROBE_READ && (p->op != PROBE_FLUSH_ALL || !removed) &&
	    store_has_refused(p->w->store, p->begin))
		return "a sync has failed";
	if (!resv_permitted(p->w->resv, p->host, p->op != PROBE_READ, p->begin) && !removed)
		return "a reservation forbids it";
	return NULL;
}

static bool is_explained(const struct probe *p, unsigned int status)
{
	switch (status) {
	case NVME_SCT_PATH << 8 | NVME_SC_ANA_INACCESSIBLE:
	case NVME_SCT_PATH << 8 | NVME_SC_ANA_TRANSITION:
		return setup_may_be_closed(&p->w->setup, p->path, p->begin, p->connected);
	case NVME_SC_INVALID_NS:
		return setup_possible(&p->w->setup, SETUP_REMOVED, p->begin);
	case NVME_SC_LBA_RANGE:
		return p->op == PROBE_READ && p->w->was_shorter(p->w, 0, p->block + 1, p->begin);
	case NVME_SC_RESERVATION_CONFLICT:
		return resv_forbidden(p->w->resv, p->host, p->op != PROBE_READ, p->begin);
	case ABORTED_BY_PREEMPT:
		return resv_may_abort(p->w->resv, p->begin);
	case NVME_SCT_MEDIA << 8 | NVME_SC_WRITE_FAULT:
		return p->op != PROBE_READ && store_refuses(p->w->store, p->begin);
	case NVME_SCT_MEDIA << 8 | NVME_SC_READ_ERROR:
		return p->op == PROBE_READ &&
		       (store_has_failed(p->w->store, STORE_READ_FAILED, p->block, 1, p->begin) ||
			marks_possible(p->w->marks, p->w->check, p->block, p->begin));
	default:
		return false;
	}
}

static void check_data(const struct probe *p)
{
	uint64_t value = block_value(p->data);

	if (value == UINT64_MAX)
		world_fail(p->w, "host %u: block %u is torn", p->host, p->block);
	else
		check_read(p->w->check, p->block, value, p->begin, rd_sim_now(p->w->sim));
}

static void probe_answered(void *user, const struct rdinit_completion *comp)
{
	struct probe *p = user;
	const char *why = comp->err ? NULL : forbidden(p);

	rd_sim_tell(p->w->sim, "probe: %s: %d status 0x%x", op_names[p->op], comp->err,
		    comp->status);
	p->busy = false;
	if (why)
		world_fail(p->w, "host %u by port %u: a %s has succeeded, but %s", p->host,
			   WORLD_PORT + p->path, op_names[p->op], why);
	if (comp->err == -EIO && !is_explained(p, comp->status & 0x7ff))
		world_fail(p->w, "host %u by port %u: nothing explains the error of a %s: %s",
			   p->host, WORLD_PORT + p->path, op_names[p->op], comp->text);
	if (!comp->err && p->op == PROBE_READ)
		check_data(p);
}

void probe_judge_secret(const struct probe *p, uint64_t begin, const char *queue)
{
	if (p->w->secrets && !setup_admits(&p->w->setup, p->host, p->secret, begin))
		world_fail(p->w,
			   "host %u: %s has connected with secret %u, which is not the target's",
			   p->host, queue, p->secret);
}

void probe_judge_refusal(const struct probe *p)
{
	struct world *w = p->w;

	if (w->secrets &&
	    setup_must_admit(&w->setup, p->host, p->secret, p->connected, rd_sim_now(w->sim)))
		world_fail(w, "host %u: an admin queue was refused with secret %u, which is right",
			   p->host, p->secret);
}

static void probe_connected(void *user, const struct rdinit_completion *comp)
{
	struct probe *p = user;

	p->live = !comp->err;
	p->lost = comp->err;
	if (p->live)
		probe_judge_secret(p, p->opened, "an I/O queue");
}

/* The one that was replaced last, or for some time always a wrong one. Returns false: neither. */
static bool choose_as_guesser(struct probe *p, enum secret_kind *out)
{
	struct rd_sim *sim = p->w->sim;

	p->guesses ^= rd_sim_chance(sim, 1, GUESS_IN);
	if (p->guesses && rd_sim_chance(sim, 7, 8)) {
		*out = 1 + (setup_key(&p->w->setup.now, p->host) + 1) % (SECRET_KINDS - 1);
		return true;
	}
	*out = p->w->setup.old_keys[p->host];
	return rd_sim_chance(sim, 1, 3);
}

enum secret_kind probe_choose_secret(struct probe *p)
{
	const struct world *w = p->w;
	enum secret_kind kind;

	if (w->opts.faults & FAULTS_KEYS && !w->ending && choose_as_guesser(p, &kind))
		return kind;
	if (!w->ending && rd_sim_chance(w->sim, 1, 2))
		return (enum secret_kind)rd_sim_below(w->sim, SECRET_KINDS);
	return setup_key(&p->w->setup.now, p->host);
}

/* The queue does not get the secret of its controller, but the right one, or any. */
static int change_secret_of(struct probe *p, struct rdinit_ctrl *ctrl)
{
	struct rdinit_auth_opts opts;

	if (!p->w->secrets)
		return 0;
	p->secret = probe_choose_secret(p);
	rdi_auth_keys_unref(&ctrl->auth);
	ctrl->auth = NULL;
	if (!secrets_opts(p->w->secrets, p->secret, &opts))
		return 0;
	return rdi_auth_keys_create("probe", &opts, &ctrl->auth);
}

static void probe_open(struct probe *p, struct rdinit_ctrl *ctrl)
{
	struct rdinit_qpair_opts opts;

	p->opened = rd_sim_now(p->w->sim);
	rdinit_qpair_opts_init(&opts);
	opts.queue_size = 4;
	opts.io_timeout_ms = 45000; /* the storage may take 35 s; a run ends after 50 s */
	if (change_secret_of(p, ctrl) || rdi_qpair_create_on(ctrl, &opts, &ctrl->h, &p->qp) ||
	    rdinit_qpair_connect_async(p->qp, probe_connected, p))
		p->lost = true;
}

void probe_close(struct probe *p)
{
	p->live = false;
	rdinit_qpair_free(&p->qp);
	p->lost = p->busy = false;
}

void probe_acts(struct probe *p, struct rdinit_ctrl *ctrl)
{
	struct rdinit_passthru cmd;

	if (!p->qp || (p->live && !p->busy && rd_sim_chance(p->w->sim, 1, QUEUE_STEPS))) {
		probe_close(p);
		probe_open(p, ctrl);
	}
	if (!p->live || p->busy || !rd_sim_chance(p->w->sim, 1, PAUSE_STEPS))
		return;
	p->op = (unsigned int)rd_sim_below(p->w->sim, PROBE_OPS);
	p->block = (unsigned int)rd_sim_below(p->w->sim, WORLD_BLOCKS);
	p->begin = rd_sim_now(p->w->sim);
	rdinit_passthru_init(&cmd);
	cmd.sqe[0] = p->op == PROBE_READ ? nvme_cmd_read : nvme_cmd_flush;
	put_dword(&cmd, 1, p->op == PROBE_FLUSH_ALL ? NVME_NSID_ALL : 1);
	if (p->op == PROBE_READ) {
		put_dword(&cmd, 10, p->block);
		cmd.data = p->data;
		cmd.len = sizeof(p->data);
	}
	p->busy = rdinit_io_passthru_async(p->qp, &cmd, NULL, probe_answered, p) == 0;
	p->lost |= !p->busy;
}
