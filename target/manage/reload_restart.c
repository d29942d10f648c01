/* SPDX-License-Identifier: BSD-3-Clause */
/* What a reload does not change, because it needs a restart. */
#include <stdio.h>
#include <string.h>

#include "reload.h"
#include "target/nvmf/subsys.h"

static bool same_cpus(const uint32_t *a, uint32_t a_count, const uint32_t *b, uint32_t b_count)
{
	return a_count == b_count && (!a_count || memcmp(a, b, a_count * sizeof(*a)) == 0);
}

static void target_keys(const struct rdt_target_config *now, const struct rdt_target_config *next,
			rdt_restart_fn fn, void *arg)
{
	const struct {
		const char *key;
		uint64_t now;
		uint64_t next;
	} numbers[] = {
		{"reactors", now->reactors, next->reactors},
		{"queue_depth", now->queue_depth, next->queue_depth},
		{"io_queues", now->io_queues, next->io_queues},
		{"max_data_size", now->max_data_bytes, next->max_data_bytes},
		{"in_capsule_size", now->in_capsule_bytes, next->in_capsule_bytes},
		{"buffer_memory", now->buffer_bytes, next->buffer_bytes},
		{"capsule_memory", now->capsule_bytes, next->capsule_bytes},
		{"spin", now->spin_ns, next->spin_ns},
		{"peer_timeout", now->peer_timeout_ns, next->peer_timeout_ns},
		{"drain_timeout", now->drain_timeout_ns, next->drain_timeout_ns},
		{"sgl_descriptors", now->sgl_descriptors, next->sgl_descriptors},
		{"engine_depth", now->engine_depth, next->engine_depth},
		{"sqpoll", now->sqpoll_ns, next->sqpoll_ns},
		{"state_times", now->state_times, next->state_times},
		{"state_times_at_exit", now->state_times_at_exit, next->state_times_at_exit},
		{"limits", 0, memcmp(&now->limits, &next->limits, sizeof(now->limits)) != 0},
	};

	for (unsigned int i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (numbers[i].now != numbers[i].next)
			fn(arg, "target:", numbers[i].key);
	if (!same_cpus(now->cpus, now->cpus_count, next->cpus, next->cpus_count))
		fn(arg, "target:", "cpus");
	if (!same_cpus(now->sqpoll_cpus, now->sqpoll_cpus_count, next->sqpoll_cpus,
		       next->sqpoll_cpus_count))
		fn(arg, "target:", "sqpoll_cpus");
	if (!rdt_config_same_text(now->congestion, next->congestion))
		fn(arg, "target:", "congestion");
	if (!rdt_config_same_text(now->state_dir, next->state_dir))
		fn(arg, "target:", "state_dir");
}

static void control_keys(const struct rdt_control_config *now,
			 const struct rdt_control_config *next, rdt_restart_fn fn, void *arg)
{
	if (!rdt_config_same_text(now->socket, next->socket))
		fn(arg, "control:", "socket");
	if (!rdt_config_same_text(now->group, next->group))
		fn(arg, "control:", "group");
	if (!rdt_config_same_text(now->admin_group, next->admin_group))
		fn(arg, "control:", "admin_group");
}

void rdt_restart_keys(const struct rdt_config *now, const struct rdt_config *next,
		      rdt_restart_fn fn, void *arg)
{
	target_keys(&now->target, &next->target, fn, arg);
	control_keys(&now->control, &next->control, fn, arg);
}

void rdt_restart_subsys_keys(const struct rdt_subsys *ss, const struct rdt_subsys_config *next,
			     rdt_restart_fn fn, void *arg)
{
	/* Compared with the value at the start, so the warning is repeated until the restart. */
	if (!rdt_config_same_text(ss->cfg->serial, next->serial))
		fn(arg, ss->nqn, "serial");
	if (!rdt_config_same_text(ss->cfg->model, next->model))
		fn(arg, ss->nqn, "model");
	/* Hosts were told about it, and may hold reservations. */
	if (ss->cfg->reservations != next->reservations)
		fn(arg, ss->nqn, "reservations");
	if (ss->cfg->write_protect != next->write_protect)
		fn(arg, ss->nqn, "write_protect");
}

void rdt_restart_text(const char *where, const char *key, char text[RDT_RESTART_TEXT])
{
	snprintf(text, RDT_RESTART_TEXT, "%s %s: a change needs a restart; the old value stays",
		 where, key);
}
