/* SPDX-License-Identifier: BSD-3-Clause */
/* The effects of each supported command (Commands Supported and Effects log page, 05h). */
#include "nvmf/wire.h"
#include "admin.h"
#include "target/nvmf/io.h"
#include "io_cmds.h"
#include "target/nvmf/request.h"
#include "target/nvmf/subsys.h"

#define SCOPE_SHIFT  20
#define SCOPE_NS     (1u << SCOPE_SHIFT)
#define SCOPE_CTRL   (1u << (SCOPE_SHIFT + 1))
#define SCOPE_SUBSYS (1u << (SCOPE_SHIFT + 5))
#define SUPPORTED    ((uint32_t)NVME_CMD_EFFECTS_CSUPP)
#define WRITES       ((uint32_t)NVME_CMD_EFFECTS_LBCC)

static const uint32_t admin[256] = {
	[nvme_admin_get_log_page] = SCOPE_CTRL | SCOPE_SUBSYS,
	[nvme_admin_identify] = SCOPE_NS | SCOPE_CTRL | SCOPE_SUBSYS,
	[nvme_admin_abort_cmd] = SCOPE_CTRL,
	/* Namespace Write Protection is set by a feature. */
	[nvme_admin_set_features] = NVME_CMD_EFFECTS_NCC | SCOPE_NS | SCOPE_CTRL,
	[nvme_admin_get_features] = SCOPE_NS | SCOPE_CTRL,
	[nvme_admin_async_event] = SCOPE_CTRL,
	[nvme_admin_keep_alive] = SCOPE_CTRL,
	[nvme_admin_get_lba_status] = SCOPE_NS,
};

static const uint32_t io[256] = {
	[nvme_cmd_write] = WRITES,        [nvme_cmd_write_uncor] = WRITES,
	[nvme_cmd_write_zeroes] = WRITES, [nvme_cmd_dsm] = WRITES,
	[nvme_cmd_copy] = WRITES,
};

uint32_t rdt_admin_effects(const struct rdt_subsys *ss, unsigned int opcode)
{
	const struct rdt_cmd *cmd = &rdt_admin_cmds[opcode];

	if (!cmd->exec || (rdt_subsys_is_disc(ss) && !(cmd->flags & RDT_CMD_DISC)))
		return 0;
	if (opcode == nvme_admin_get_lba_status && !rdt_lba_status_supported(ss))
		return 0;
	return SUPPORTED | admin[opcode];
}

uint32_t rdt_io_effects(const struct rdt_subsys *ss, unsigned int opcode)
{
	if (rdt_subsys_is_disc(ss) || !rdt_io_supported(ss, opcode))
		return 0;
	/* Without a scope: Linux (nvme_command_effects(), 6.1) logs a warning for every bit that it
	 * does not expect. */
	return SUPPORTED | io[opcode];
}
