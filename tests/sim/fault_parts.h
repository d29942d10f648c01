/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults that a world with one target and a world with two gateways have in common. */
#ifndef SIM_FAULT_PARTS_H
#define SIM_FAULT_PARTS_H

#include "world.h"

/* A port that takes no connections until an event runs. */
struct fault_port {
	struct world *w;
	uint16_t port;
	struct rd_sim_event up;
};

/* Breaks a connection, if there is any. @ns: see rd_sim_break(). */
void fault_break_link(struct world *w, enum rd_sim_fault fault, uint64_t ns);
/* All connections of a host over a path hold their messages; see rd_sim_hold_path(). */
void fault_hold_path(struct world *w, unsigned int host, unsigned int path, bool both, uint64_t ns);
/* All connections of a host over a path are lost, of which only the host learns soon. */
void fault_lose_path(struct world *w, unsigned int host, unsigned int path);

void fault_port_init(struct fault_port *p, struct world *w, unsigned int path);
void fault_port_down(struct fault_port *p, uint64_t ns);

/* The network is well again, and nobody stands still. */
void fault_heal_parts(struct world *w);

#endif /* SIM_FAULT_PARTS_H */
