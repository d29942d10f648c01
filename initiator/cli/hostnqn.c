/* SPDX-License-Identifier: BSD-3-Clause */
/* gen-hostnqn and show-hostnqn. */
#include <uuid/uuid.h>

#include "command.h"

static int show_hostnqn(const struct cli_options *o, const char *nqn)
{
	if (o->format == CLI_JSON)
		return cli_print_json(json_pack("{s:s}", "hostnqn", nqn), stdout);
	printf("%s\n", nqn);
	return cli_finish_output();
}

int cli_gen_hostnqn(const struct cli_options *o)
{
	char nqn[RDINIT_NQN_SIZE], text[UUID_STR_LEN];
	uuid_t id;

	uuid_generate_random(id);
	uuid_unparse_lower(id, text);
	snprintf(nqn, sizeof(nqn), "nqn.2014-08.org.nvmexpress:uuid:%s", text);
	return show_hostnqn(o, nqn);
}

int cli_show_hostnqn(const struct cli_options *o)
{
	struct rdinit_ctrl_opts opts = o->ctrl;
	struct rdinit_ctrl *ctrl;
	int rc;

	opts.traddr = "127.0.0.1"; /* a placeholder: the verb does not connect */
	cli_warn_of_identity(&opts);
	if (rdinit_ctrl_create(&opts, &ctrl)) {
		cli_lib_error();
		return CLI_USAGE;
	}
	rc = show_hostnqn(o, rdinit_ctrl_hostnqn(ctrl));
	rdinit_ctrl_free(&ctrl);
	return rc;
}
