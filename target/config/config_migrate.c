/* SPDX-License-Identifier: BSD-3-Clause */
/* What earlier versions took for granted, written into the files. */
#include <errno.h>
#include <string.h>

#include "config_edit.h"
#include "util/log.h"

/* Before, every host could use a subsystem with neither "allow_any_host" nor "hosts". */
static int admit_any_host(struct rdt_config_texts *texts, const struct rdt_subsys_config *ss,
			  struct rd_log *log)
{
	struct rdt_config_edit edit = {
		.op = RDT_EDIT_SET,
		.path = json_pack("[s, {s:s}, s]", "subsystems", "nqn", ss->nqn, "allow_any_host"),
		.value = json_true(),
	};
	unsigned int at;
	int rc = edit.path ? rdt_config_edit(texts, &edit, log, &at) : -ENOMEM;

	json_decref(edit.path);
	if (rc < 0)
		rd_err(log, RD_LOG_CONFIG, "%s: %s: cannot add \"allow_any_host: true\" (%s); %s",
		       ss->hosts_unset, ss->nqn,
		       rc == -ENOTSUP ? "the file is written in a way that is not edited safely"
				      : strerror(-rc),
		       "nothing was written; add it by hand");
	else
		rd_notice(log, RD_LOG_CONFIG, "%s: %s: added \"allow_any_host: true\"",
			  ss->hosts_unset, ss->nqn);
	return rc;
}

int rdt_config_migrate(const struct rdt_config *config, struct rdt_config_texts *texts,
		       struct rd_log *log)
{
	for (uint32_t i = 0; i < config->subsystems_count; i++) {
		const struct rdt_subsys_config *ss = &config->subsystems[i];
		int rc = ss->hosts_unset ? admit_any_host(texts, ss, log) : 0;

		if (rc < 0)
			return rc;
	}
	return rdt_config_save(texts, log);
}
