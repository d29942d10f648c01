/* SPDX-License-Identifier: BSD-3-Clause */
/* Look-ups in the table of verbs. */
#include <string.h>

#include "cli.h"
#include "table.h"

const struct cli_verb *cli_verb_find(const char *name)
{
	size_t i;

	for (i = 0; i < cli_verbs_n; i++) {
		if (strcmp(cli_verbs[i].name, name) == 0)
			return &cli_verbs[i];
	}
	return NULL;
}

const struct cli_verb *cli_verb_find3(const char *group, const char *name)
{
	static const struct {
		const char *group, *name, *verb;
	} renamed[] = {
		{"id", "nvm-ns", "nvm-id-ns"},
		{"keys", "gen-kxchap-secret", "gen-dhchap-key"},
		{"keys", "check-kxchap-secret", "check-dhchap-key"},
	};
	char verb[64] = "";
	size_t i;

	for (i = 0; i < sizeof(renamed) / sizeof(renamed[0]); i++) {
		if (strcmp(renamed[i].group, group) == 0 && strcmp(renamed[i].name, name) == 0)
			return cli_verb_find(renamed[i].verb);
	}
	if (strcmp(group, "log") == 0)
		snprintf(verb, sizeof(verb), "%s-log", name);
	else if (strcmp(group, "id") == 0)
		snprintf(verb, sizeof(verb), "id-%s", name);
	return cli_verb_find(verb);
}

size_t cli_verb_opts(const struct cli_verb *verb, struct cli_opt_at *out)
{
	const struct cli_opt *letters[128] = {NULL};
	const struct cli_group *const *g;
	size_t n = 0, i, j;

	for (g = verb->groups; g < verb->groups + CLI_GROUPS_MAX && *g; g++) {
		for (i = 0; i < (*g)->n; i++) {
			const struct cli_opt *opt = &(*g)->opts[i];
			const struct cli_opt **owner = &letters[opt->letter & 0x7f];

			for (j = 0; j < n && strcmp(out[j].opt->name, opt->name) != 0; j++)
				;
			if (j < n || n == CLI_OPTS_MAX)
				continue; /* the verb itself has an option of that name */
			out[n] = (struct cli_opt_at){.opt = opt, .group = *g};
			if (!*owner)
				*owner = opt;
			if (!opt->letter || (verb->gone && strchr(verb->gone, opt->letter)))
				; /* none */
			else if (*owner == opt)
				out[n].letter = opt->letter;
			else
				out[n].own = *owner;
			n++;
		}
	}
	return n;
}
