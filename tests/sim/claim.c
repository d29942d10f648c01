/* SPDX-License-Identifier: BSD-3-Clause */
/* The reservation commands of a host: one at a time, on a queue of its channel. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/wire.h"

#include "resv.h"
#include "sent_by.h"
#include "world.h"

#define PAUSE_STEPS 400 /* on average, between two commands of a host */

struct claim {
	struct world *w;
	unsigned int host;
	bool busy;
	int number; /* of the command in the model */
	uint64_t begin;
	struct sent_by by;
	struct resv_op op;
	union {
		__le64 keys[2];
		uint8_t report[64 + 64 * RESV_HOSTS];
	} data;
};

static const char *const action_names[] = {
	[RESV_REGISTER] = "registers",       [RESV_UNREGISTER] = "unregisters",
	[RESV_REPLACE] = "replaces its key", [RESV_ACQUIRE] = "acquires",
	[RESV_PREEMPT] = "preempts",         [RESV_PREEMPT_ABORT] = "preempts and aborts",
	[RESV_RELEASE] = "releases",         [RESV_CLEAR] = "clears",
	[RESV_REPORT] = "asks for a report",
};

int claim_new(struct world *w, unsigned int host, struct claim **out)
{
	struct claim *c = calloc(1, sizeof(*c));

	*out = c;
	if (!c)
		return -ENOMEM;
	c->w = w;
	c->host = host;
	return 0;
}

void claim_free(struct claim *c)
{
	free(c);
}

bool claim_busy(const struct claim *c)
{
	return c->busy;
}

/* ---- the answer ---- */

static bool read_report(const struct claim *c, struct resv_state *s)
{
	const struct nvme_resv_status *head = (const void *)c->data.report;
	unsigned int count = head->regctl[0] | (unsigned int)head->regctl[1] << 8;

	*s = (struct resv_state){
		.rtype = head->rtype, .holder = RESV_HOSTS, .ptpl = head->ptpls & 1};
	for (unsigned int i = 0; i < count && count <= RESV_HOSTS; i++) {
		const struct nvme_registered_ctrl_ext *r = &head->regctl_eds[i];
		unsigned int host = r->hostid[sizeof(r->hostid) - 1] - 1u;
		uint64_t key = le64toh(r->rkey);

		if (host >= RESV_HOSTS || !key || key > RESV_KEYS || s->key[host])
			return false;
		s->key[host] = (uint8_t)key;
		if (r->rcsts & 1 && s->rtype < NVME_RESERVATION_RTYPE_WEAR)
			s->holder = (uint8_t)host;
	}
	return count <= RESV_HOSTS;
}

/* These answers say what the command did. Others say that it failed, whether or not it had an
 * effect before. */
static bool tells_effect(const struct rdinit_completion *comp)
{
	unsigned int status = comp->status & 0x7ff;

	return !comp->err || (comp->err == -EIO && (status == NVME_SC_RESERVATION_CONFLICT ||
						    status == NVME_SC_INVALID_FIELD));
}

/* The ANA statuses say that the command was not executed. */
static bool tells_no_effect(const struct rdinit_completion *comp)
{
	unsigned int status = comp->status & 0x7ff;

	return comp->err == -EIO && status >= (NVME_SCT_PATH << 8 | NVME_SC_ANA_PERSISTENT_LOSS) &&
	       status <= (NVME_SCT_PATH << 8 | NVME_SC_ANA_TRANSITION);
}

static bool answer_is_possible(struct claim *c, const struct rdinit_completion *comp,
			       const struct resv_state *report)
{
	struct resv *resv = c->w->resv;
	uint64_t now = rd_sim_now(c->w->sim);

	if (tells_no_effect(comp))
		return resv_unexecuted(resv, c->number, now);
	if (tells_effect(comp))
		return resv_answered(resv, c->number, comp->status & 0x7ff, report, now);
	resv_lost(resv, c->number, now);
	return true;
}

static void claim_ended(void *user, const struct rdinit_completion *comp)
{
	struct claim *c = user;
	struct world *w = c->w;
	struct resv_state report;
	bool reports = c->op.action == RESV_REPORT && !comp->err;

	rd_sim_tell(w->sim, "host %u: %s: %d status 0x%x", c->host, action_names[c->op.action],
		    comp->err, comp->status);
	c->busy = false;
	if (w->judge)
		w->judge(w, 0, c->begin, comp);
	if (reports && !read_report(c, &report)) {
		world_fail(w, "host %u: the reservation report is malformed", c->host);
		return;
	}
	if (!answer_is_possible(c, comp, reports ? &report : NULL))
		world_fail(w,
			   "host %u %s (type %u, keys %u and %u): the answer 0x%x contradicts "
			   "every state that was possible",
			   c->host, action_names[c->op.action], c->op.rtype, c->op.crkey, c->op.key,
			   comp->status);
}

/* ---- the command ---- */

static void choose(struct claim *c)
{
	/* Of ten commands; what a host needs first is frequent. */
	static const enum resv_action actions[] = {
		RESV_REGISTER, RESV_REGISTER,      RESV_ACQUIRE, RESV_ACQUIRE,
		RESV_PREEMPT,  RESV_PREEMPT_ABORT, RESV_RELEASE, RESV_UNREGISTER,
		RESV_REPLACE,  RESV_CLEAR,         RESV_REPORT,  RESV_PREEMPT_ABORT,
	};
	static const enum resv_persist persists[] = {RESV_KEEP, RESV_FORGET, RESV_PERSIST,
						     RESV_PERSIST};
	const struct resv_state *s = resv_guess(c->w->resv);
	struct rd_sim *sim = c->w->sim;
	struct resv_op *op = &c->op;

	op->action = actions[rd_sim_below(sim, sizeof(actions) / sizeof(actions[0]))];
	op->host = (uint8_t)c->host;
	op->rtype = (uint8_t)(1 + rd_sim_below(sim, 6));
	op->persist = persists[rd_sim_below(sim, 4)];
	op->crkey = s->key[c->host];
	op->key = (uint8_t)(1 + rd_sim_below(sim, RESV_KEYS));
	if (op->action == RESV_PREEMPT || op->action == RESV_PREEMPT_ABORT)
		op->key = s->holder < RESV_HOSTS && rd_sim_chance(sim, 3, 4)
				  ? s->key[s->holder]
				  : (uint8_t)rd_sim_below(sim, RESV_KEYS + 1);
	else if (op->action == RESV_RELEASE && s->rtype && rd_sim_chance(sim, 3, 4))
		op->rtype = s->rtype;
	if (rd_sim_chance(sim, 1, 16))
		op->crkey = (uint8_t)(1 + rd_sim_below(sim, RESV_KEYS));
}

static void fill_command(struct claim *c, struct rdinit_passthru *cmd)
{
	static const uint8_t opcodes[] = {
		[RESV_REGISTER] = nvme_cmd_resv_register,
		[RESV_UNREGISTER] = nvme_cmd_resv_register,
		[RESV_REPLACE] = nvme_cmd_resv_register,
		[RESV_ACQUIRE] = nvme_cmd_resv_acquire,
		[RESV_PREEMPT] = nvme_cmd_resv_acquire,
		[RESV_PREEMPT_ABORT] = nvme_cmd_resv_acquire,
		[RESV_RELEASE] = nvme_cmd_resv_release,
		[RESV_CLEAR] = nvme_cmd_resv_release,
		[RESV_REPORT] = nvme_cmd_resv_report,
	};
	static const uint8_t values[] = {
		[RESV_REGISTER] = NVME_RESERVATION_RREGA_REGISTER_KEY,
		[RESV_UNREGISTER] = NVME_RESERVATION_RREGA_UNREGISTER_KEY,
		[RESV_REPLACE] = NVME_RESERVATION_RREGA_REPLACE_KEY,
		[RESV_ACQUIRE] = NVME_RESERVATION_RACQA_ACQUIRE,
		[RESV_PREEMPT] = NVME_RESERVATION_RACQA_PREEMPT,
		[RESV_PREEMPT_ABORT] = NVME_RESERVATION_RACQA_PREEMPT_AND_ABORT,
		[RESV_RELEASE] = NVME_RESERVATION_RRELA_RELEASE,
		[RESV_CLEAR] = NVME_RESERVATION_RRELA_CLEAR,
		[RESV_REPORT] = 0,
	};
	const struct resv_op *op = &c->op;
	bool report = op->action == RESV_REPORT;
	__le32 cdw10 = htole32(values[op->action] | (uint32_t)op->rtype << 8);
	__le32 cdw11 = htole32(1), nsid = htole32(1); /* CDW11: EDS */

	if (op->action <= RESV_REPLACE)
		cdw10 = htole32(values[op->action] | (uint32_t)op->persist << 30);
	if (report)
		cdw10 = htole32(sizeof(c->data.report) / 4 - 1);
	memset(&c->data, 0, sizeof(c->data));
	if (!report) {
		c->data.keys[0] = htole64(op->crkey);
		c->data.keys[1] = htole64(op->key);
	}
	rdinit_passthru_init(cmd);
	cmd->sqe[0] = opcodes[op->action];
	memcpy(cmd->sqe + 4, &nsid, sizeof(nsid));
	memcpy(cmd->sqe + 40, &cdw10, sizeof(cdw10));
	if (report)
		memcpy(cmd->sqe + 44, &cdw11, sizeof(cdw11));
	cmd->data = &c->data;
	cmd->len = report                            ? sizeof(c->data.report)
		   : op->action > RESV_PREEMPT_ABORT ? sizeof(__le64)
						     : sizeof(c->data.keys);
	cmd->flags = report ? 0 : RDINIT_PASSTHRU_WRITE;
	/* The channel takes each command that exceeds its time for one of its own. */
	cmd->timeout_ms = UINT32_MAX;
}

void claim_acts(struct claim *c, struct rdinit_dev_chan *chan)
{
	struct rd_sim *sim = c->w->sim;
	struct rdi_chan_path *cp = &chan->paths[rd_sim_below(sim, WORLD_PATHS)];
	struct rdinit_passthru cmd;

	if (c->busy) {
		sent_by_look(&c->by, rd_sim_now(sim), "a reservation command");
		return;
	}
	if (c->w->ending || !rd_sim_chance(sim, 1, PAUSE_STEPS) || !cp->up)
		return;
	c->begin = rd_sim_now(sim);
	c->by = (struct sent_by){.cp = cp, .epoch = cp->epoch, .since = c->begin};
	choose(c);
	c->number = resv_begins(c->w->resv, &c->op, rd_sim_now(sim));
	if (c->number < 0)
		return;
	fill_command(c, &cmd);
	rd_sim_tell(sim, "host %u %s: type %u, keys %u and %u", c->host, action_names[c->op.action],
		    c->op.rtype, c->op.crkey, c->op.key);
	if (rdinit_io_passthru_async(cp->qp, &cmd, NULL, claim_ended, c))
		resv_lost(c->w->resv, c->number, rd_sim_now(sim));
	else
		c->busy = true;
}
