/* SPDX-License-Identifier: BSD-3-Clause */
#include "fault_parts.h"

#include <stdio.h>

#include "util/sockaddr.h"

void fault_break_link(struct world *w, enum rd_sim_fault fault, uint64_t ns)
{
	unsigned int links = rd_sim_links(w->sim);

	if (links)
		rd_sim_break(w->sim, (unsigned int)rd_sim_below(w->sim, links), fault, ns);
}

static struct sockaddr_storage host_address(unsigned int host)
{
	struct sockaddr_storage from;
	char text[32];

	snprintf(text, sizeof(text), WORLD_HOST_ADDR, host + 1);
	rd_addr_parse(text, 0, &from);
	return from;
}

void fault_hold_path(struct world *w, unsigned int host, unsigned int path, bool both, uint64_t ns)
{
	struct sockaddr_storage from = host_address(host);

	rd_sim_hold_path(w->sim, (struct sockaddr *)&from, (uint16_t)(WORLD_PORT + path), both, ns);
}

void fault_lose_path(struct world *w, unsigned int host, unsigned int path)
{
	struct sockaddr_storage from = host_address(host);

	rd_sim_tell(w->sim, "the path of host %u to port %u is lost", host, WORLD_PORT + path);
	rd_sim_lose_path(w->sim, (struct sockaddr *)&from, (uint16_t)(WORLD_PORT + path));
}

static void port_is_up(struct rd_sim_event *event)
{
	const struct fault_port *p = rd_container_of(event, struct fault_port, up);

	rd_sim_port_down(p->w->sim, p->port, false);
}

void fault_port_init(struct fault_port *p, struct world *w, unsigned int path)
{
	p->w = w;
	p->port = (uint16_t)(WORLD_PORT + path);
	p->up.fn = port_is_up;
}

void fault_port_down(struct fault_port *p, uint64_t ns)
{
	rd_sim_port_down(p->w->sim, p->port, true);
	rd_sim_at(p->w->sim, &p->up, ns);
}

void fault_heal_parts(struct world *w)
{
	rd_sim_heal(w->sim);
	for (unsigned int i = 0; i < ACTORS; i++)
		w->actors[i].stalled_until = 0;
}
