/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of admin commands by opcode. */
#include "nvmf/wire.h"
#include "target/nvmf/abort.h"
#include "admin.h"
#include "target/nvmf/events.h"
#include "target/nvmf/request.h"

static enum rdt_exec keep_alive_exec(struct rdt_req *req)
{
	return RDT_EXEC_DONE; /* its arrival is all that matters: rdt_req_begin() recorded it */
}

const struct rdt_cmd rdt_admin_cmds[256] = {
	[nvme_admin_get_log_page] = {"Get Log Page", RDT_CMD_DISC, rdt_get_log_check,
				     rdt_get_log_exec},
	[nvme_admin_identify] = {"Identify", RDT_CMD_DISC, rdt_identify_check, rdt_identify_exec},
	[nvme_admin_abort_cmd] = {"Abort", 0, rdt_abort_check, rdt_abort_exec},
	[nvme_admin_set_features] = {"Set Features", RDT_CMD_DISC, rdt_set_features_check,
				     rdt_set_features_exec},
	[nvme_admin_get_features] = {"Get Features", RDT_CMD_DISC, rdt_get_features_check,
				     rdt_get_features_exec},
	[nvme_admin_async_event] = {"Asynchronous Event Request", RDT_CMD_DISC, rdt_aer_check,
				    rdt_aer_exec},
	[nvme_admin_get_lba_status] = {"Get LBA Status", 0, rdt_lba_status_check,
				       rdt_lba_status_exec},
	[nvme_admin_keep_alive] = {"Keep Alive", RDT_CMD_DISC, NULL, keep_alive_exec},
};
