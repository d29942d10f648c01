/* SPDX-License-Identifier: BSD-3-Clause */
#include "host_ctrl.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "nvmf/wire.h"

#include "world.h"

void host_name_of(unsigned int host, struct host_name *out)
{
	snprintf(out->nqn, sizeof(out->nqn), "nqn.2024-01.test:host%u", host);
	snprintf(out->hostid, sizeof(out->hostid), "00000000-0000-4000-8000-%012u", host + 1);
	snprintf(out->addr, sizeof(out->addr), WORLD_HOST_ADDR, host + 1);
}

void host_ctrl_opts(const struct world *w, const struct host_name *name, unsigned int paths,
		    struct rdinit_ctrl_opts *opts)
{
	rdinit_ctrl_opts_init(opts);
	opts->tcp = (paths & w->tcp) == paths;
	opts->hdr_digest = opts->data_digest = paths & w->tcp && w->digests;
	if (paths & ~w->tcp)
		opts->provider = "iwarp"; /* whose place the simulation takes */
	opts->hostnqn = name->nqn;
	opts->hostid = name->hostid;
	opts->spin_us = 0;
	opts->keep_alive_tmo_ms = 1500;
	opts->connect_timeout_ms = 1000;
	opts->admin_timeout_ms = 3000;
}

void put_dword(struct rdinit_passthru *cmd, unsigned int dword, uint32_t value)
{
	__le32 v = htole32(value);

	memcpy(cmd->sqe + 4 * dword, &v, sizeof(v));
}

void put_get_log(struct rdinit_passthru *cmd, uint8_t lid, bool keeps, void *data, uint32_t len)
{
	rdinit_passthru_init(cmd);
	cmd->sqe[0] = nvme_admin_get_log_page;
	put_dword(cmd, 10, lid | (keeps ? 1u << 15 : 0) | (len / 4 - 1) << 16);
	cmd->data = data;
	cmd->len = len;
}
