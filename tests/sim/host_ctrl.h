/* SPDX-License-Identifier: BSD-3-Clause */
/* What all controllers of a host have in common: its names, their options, and admin commands. */
#ifndef SIM_HOST_CTRL_H
#define SIM_HOST_CTRL_H

#include <stdbool.h>
#include <stdint.h>

#include "rdinit.h"

struct world;

struct host_name {
	char nqn[64];
	char hostid[48];
	char addr[32];
};

void host_name_of(unsigned int host, struct host_name *out);
/* The options refer to @name. @paths: set of listeners by which controllers with these options
 * connect. */
void host_ctrl_opts(const struct world *w, const struct host_name *name, unsigned int paths,
		    struct rdinit_ctrl_opts *opts);

/* Sets a dword of the command, in the byte order of the host. */
void put_dword(struct rdinit_passthru *cmd, unsigned int dword, uint32_t value);
/* Get Log Page of @len bytes, a multiple of 4, which go to @data. @keeps: the event (RAE). */
void put_get_log(struct rdinit_passthru *cmd, uint8_t lid, bool keeps, void *data, uint32_t len);

#endif /* SIM_HOST_CTRL_H */
