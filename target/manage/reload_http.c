/* SPDX-License-Identifier: BSD-3-Clause */
/* The HTTP listener in a reload. */
#include "http.h"
#include "reload.h"
#include "target/nvmf/target.h"

int rdt_reload_http(struct rdt_reload *rl, struct rdt_target *t, const struct rdt_config *now,
		    const struct rdt_config *next)
{
	char text[RDT_HTTP_TEXT];
	int changed;

	if (!t->http)
		return 0;
	changed = rdt_http_set(t->http, &next->http, text, sizeof(text));
	if (changed < 0)
		rdt_reload_problem(rl, "%s", text);
	return changed;
}
