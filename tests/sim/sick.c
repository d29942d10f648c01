/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A disk that hangs, beside a healthy one: namespace 2 is on it. All hosts send it commands, on the
 * queues of their channels, and wait for them for as long as it takes. Nothing of it explains that
 * a command for the healthy namespace is late, or a change of the configuration.
 */
#include "sick.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/wire.h"

#include "faults.h"
#include "host_ctrl.h"
#include "world.h"

#define NSID        2u
#define BLOCKS      256u                  /* in the store; the namespace has half of them, or all */
#define EACH        2u                    /* commands of a host at a time */
#define PAUSE_STEPS 60                    /* on average, between two commands of a host */
#define HANG_IN     (5 * RD_NSEC_PER_SEC) /* at most, until it hangs again, */
#define HANG_MAX    (25 * RD_NSEC_PER_SEC) /* and how long */

struct sick_command {
	struct sick *sick;
	unsigned int host;
	bool busy;
	char data[2 * DISK_BLOCK] __attribute__((aligned(8)));
};

struct sick {
	struct world *w;
	struct store *store;
	struct rd_sim_event next;
	bool hung;
	struct sick_command commands[WORLD_HOSTS][EACH];
};

static void set_hung(struct sick *s, bool hung)
{
	if (s->hung != hung)
		rd_sim_tell(s->w->sim, hung ? "fault: hung" : "the disk answers again");
	s->hung = hung;
	store_hang(s->store, hung);
}

static void next_hang(struct rd_sim_event *event)
{
	struct sick *s = rd_container_of(event, struct sick, next);
	bool last = s->w->step > s->w->opts.steps / 4 * 3;

	if (s->w->ending)
		return;
	/* A target that ends waits for it: target_stop() */
	set_hung(s, s->w->target_state != TARGET_DRAINING && (last || !s->hung));
	rd_sim_at(s->w->sim, &s->next, rd_sim_below(s->w->sim, s->hung ? HANG_MAX : HANG_IN));
}

int sick_new(struct world *w, struct sick **out)
{
	static const struct store_watcher nobody;
	struct sick *s = calloc(1, sizeof(*s));

	*out = s;
	if (!s)
		return -ENOMEM;
	s->w = w;
	s->next.fn = next_hang;
	s->store = store_new(w->sim, BLOCKS);
	if (!s->store)
		return -ENOMEM;
	store_set_faults(s->store, &(struct store_faults){.latency_ns = 8 * RD_NSEC_PER_MSEC});
	store_watch(s->store, &nobody, NULL);
	return rd_sim_at(w->sim, &s->next, rd_sim_below(w->sim, HANG_IN));
}

void sick_free(struct sick *s)
{
	if (!s)
		return;
	rd_sim_cancel(s->w->sim, &s->next);
	store_free(s->store);
	free(s);
}

void sick_heal(struct sick *s)
{
	if (s)
		set_hung(s, false);
}

bool sick_hangs(const struct sick *s)
{
	return s && s->hung;
}

int sick_open(struct sick *s, uint64_t size, struct rdt_bdev **out)
{
	return disk_open(s->store, size, s->w->log, out);
}

bool sick_busy(const struct sick *s, unsigned int host)
{
	bool busy = false;

	for (unsigned int i = 0; s && !s->hung && i < EACH; i++)
		busy |= s->commands[host][i].busy;
	return busy;
}

/* The namespace may be gone, the connection lost: whatever the result is. */
static void command_ended(void *user, const struct rdinit_completion *comp)
{
	struct sick_command *c = user;

	c->busy = false;
	rd_sim_tell(c->sick->w->sim, "host %u: namespace %u: %d status 0x%x", c->host, NSID,
		    comp->err, comp->status);
}

static void send_command(struct sick *s, struct sick_command *c, struct rdi_chan_path *cp)
{
	static const uint8_t opcodes[] = {nvme_cmd_read, nvme_cmd_write, nvme_cmd_flush};
	struct rd_sim *sim = s->w->sim;
	uint8_t opcode = opcodes[rd_sim_below(sim, sizeof(opcodes))];
	uint32_t block = (uint32_t)rd_sim_below(sim, BLOCKS / 2 - 1);
	struct rdinit_passthru cmd;

	rdinit_passthru_init(&cmd);
	cmd.sqe[0] = opcode;
	put_dword(&cmd, 1, NSID);
	if (opcode != nvme_cmd_flush) {
		put_dword(&cmd, 10, block);
		put_dword(&cmd, 12, sizeof(c->data) / DISK_BLOCK - 1);
		cmd.data = c->data;
		cmd.len = sizeof(c->data);
		cmd.flags = opcode == nvme_cmd_write ? RDINIT_PASSTHRU_WRITE : 0;
	}
	/* The channel takes each command that exceeds its time for one of its own. */
	cmd.timeout_ms = UINT32_MAX;
	c->busy = true;
	if (rdinit_io_passthru_async(cp->qp, &cmd, NULL, command_ended, c))
		c->busy = false;
}

void sick_acts(struct sick *s, unsigned int host, struct rdinit_dev_chan *chan)
{
	struct world *w = s->w;
	struct rdi_chan_path *cp = &chan->paths[rd_sim_below(w->sim, WORLD_PATHS)];
	struct sick_command *c = &s->commands[host][rd_sim_below(w->sim, EACH)];

	c->sick = s;
	c->host = host;
	if (!c->busy && !w->ending && w->quiet_until <= rd_sim_now(w->sim) && cp->up &&
	    rd_sim_chance(w->sim, 1, PAUSE_STEPS))
		send_command(s, c, cp);
}
