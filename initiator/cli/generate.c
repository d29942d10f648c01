/* SPDX-License-Identifier: BSD-3-Clause */
/* Generates --help, manual pages, JSON schemas and the completions of bash and zsh from the table
 * of verbs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "fields.h"
#include "table.h"

/* ---- --help ---- */

static const char *operands(const struct cli_verb *verb)
{
	if (verb->operands)
		return verb->operands;
	return verb->reach == CLI_NOWHERE ? "" : "[URI]";
}

static void help_option(const struct cli_opt_at *at)
{
	char left[64];

	snprintf(left, sizeof(left), "--%s%s%s", at->opt->name, at->opt->value ? "=" : "",
		 at->opt->value ? at->opt->value : "");
	printf("  %c%c%c %-28s %s\n", at->letter ? '-' : ' ', at->letter ? at->letter : ' ',
	       at->letter ? ',' : ' ', left, at->opt->help);
}

static bool has_nsid(const struct cli_verb *verb)
{
	size_t i;

	for (i = 0; i < CLI_GROUPS_MAX; i++) {
		if (verb->groups[i] == &cli_g_nsid)
			return true;
	}
	return false;
}

static const char *uri_form(const struct cli_verb *verb)
{
	if (verb->reach == CLI_DISCOVERY)
		return "nvme+rdma://HOST[:PORT][/SUBNQN], or nvme+tcp://";
	return has_nsid(verb) ? "nvme+rdma://HOST[:PORT]/SUBNQN[/NSID], or nvme+tcp://"
			      : "nvme+rdma://HOST[:PORT]/SUBNQN, or nvme+tcp://";
}

void cli_help(const struct cli_verb *verb)
{
	struct cli_opt_at opts[CLI_OPTS_MAX];
	const struct cli_group *group = NULL;
	size_t n = cli_verb_opts(verb, opts), i;

	printf("Usage: rdinit %s %s%s[OPTION...]\n%s.\n", verb->name, operands(verb),
	       *operands(verb) ? " " : "", verb->summary);
	if (verb->reach != CLI_NOWHERE && !verb->operands)
		printf("\n  URI  %s\n", uri_form(verb));
	for (i = 0; i < n; i++) {
		if (opts[i].group != group)
			printf("\n%s:\n", opts[i].group->title);
		group = opts[i].group;
		help_option(&opts[i]);
	}
	printf("\nSee rdinit-%s(1).\n", verb->name);
}

void cli_help_all(FILE *out)
{
	size_t i;

	fprintf(out, "Usage: rdinit VERB [URI] [OPTION...]\n"
		     "NVMe over Fabrics (RDMA, TCP) initiator; needs no RDMA device.\n\n"
		     "  URI  nvme+rdma://HOST[:PORT]/SUBNQN[/NSID], or nvme+tcp://\n");
	for (i = 0; i < cli_verbs_n; i++) {
		if (cli_verbs[i].family)
			fprintf(out, "\n%s:\n", cli_verbs[i].family);
		fprintf(out, "  %-24s %s\n", cli_verbs[i].name, cli_verbs[i].summary);
	}
	fprintf(out, "\n  --help     This text; after a verb, its options\n"
		     "  --version  The version of librdinit\n\n"
		     "Exit status: 0 success, 1 failure, 2 wrong usage.\n");
}

/* ---- manual pages ---- */

/* Escapes text for troff: hyphens, and requests at the start of a line. */
static void troff(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\\')
			fputs("\\e", out);
		else if (*text == '-')
			fputs("\\-", out);
		else if (*text == '\'')
			fputs("\\(aq", out);
		else
			fputc(*text, out);
	}
}

/* Prints paragraphs, which empty lines separate; a line that begins with a space is printed
 * unchanged. */
static void paragraphs(FILE *out, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n");
		char *line = strndup(text, len);

		if (!line)
			return;
		if (len == 0)
			fputs(".PP", out);
		troff(out, line);
		fputc('\n', out);
		free(line);
		text += len + (text[len] == '\n');
	}
}

static void man_options(FILE *out, const struct cli_verb *verb)
{
	struct cli_opt_at opts[CLI_OPTS_MAX];
	const struct cli_group *group = NULL;
	size_t n = cli_verb_opts(verb, opts), i;

	fputs(".SH OPTIONS\n", out);
	for (i = 0; i < n; i++) {
		const struct cli_opt *opt = opts[i].opt;

		if (opts[i].group != group)
			fprintf(out, ".SS %s\n", opts[i].group->title);
		group = opts[i].group;
		fputs(".TP\n\\fB", out);
		if (opts[i].letter)
			fprintf(out, "\\-%c\\fR, \\fB", opts[i].letter);
		troff(out, "--");
		troff(out, opt->name);
		fputs("\\fR", out);
		if (opt->value) {
			fputs("=\\fI", out);
			troff(out, opt->value);
			fputs("\\fR", out);
		}
		fputc('\n', out);
		troff(out, opt->help);
		fputs(".\n", out);
	}
}

static void man_end(FILE *out, const struct cli_verb *verb)
{
	const char *example = verb->example ? verb->example : "";

	fputs(".SH JSON\nWith\n.B \\-\\-output\\-format=json\nthe output is one JSON value, "
	      "described by\n.I docs/schema/",
	      out);
	troff(out, verb->name);
	fputs(".json\nof the sources.\n.SH EXIT STATUS\n0 on success, 1 on failure, 2 for wrong "
	      "usage.\nFor 1 and 2 a "
	      "message on standard error gives the reason.\n.SH EXAMPLES\n.EX\n",
	      out);
	if (strncmp(example, "rdinit", 6) != 0) {
		fputs("rdinit ", out);
		troff(out, verb->name);
		troff(out, verb->reach == CLI_DISCOVERY ? " nvme+rdma://192.0.2.1"
							: " nvme+rdma://192.0.2.1/"
							  "nqn.2026-01.org.example:disk1");
		fputs(has_nsid(verb) ? "/1" : "", out);
		fputs(*example ? " " : "", out);
	}
	troff(out, example);
	fputs("\n.EE\n.SH SEE ALSO\n.BR rdinit (1),\n.BR librdinit (3)\n", out);
}

static void man_page(FILE *out, const struct cli_verb *verb)
{
	fputs(".\\\" SPDX-License-Identifier: BSD-3-Clause\n"
	      ".\\\" Made by rdinit --generate from its table of verbs.\n.TH RDINIT\\-",
	      out);
	troff(out, verb->name);
	fputs(" 1 2026-11-25 \"rdnvme\" \"User commands\"\n.SH NAME\nrdinit\\-", out);
	troff(out, verb->name);
	fputs(" \\- ", out);
	troff(out, verb->summary);
	fputs("\n.SH SYNOPSIS\n.B rdinit ", out);
	troff(out, verb->name);
	fputs("\n", out);
	if (*operands(verb)) {
		fputs(".I ", out);
		troff(out, operands(verb));
		fputs("\n", out);
	}
	fputs(".RI [ option ...]\n.SH DESCRIPTION\n", out);
	paragraphs(out, verb->text ? verb->text : verb->summary);
	if (!verb->text)
		fputs(".\n", out);
	if (verb->reach != CLI_NOWHERE && !verb->operands) {
		fputs(".PP\n.I URI\nis\n.BR ", out);
		troff(out, uri_form(verb));
		fputs(" ,\nsee\n.BR rdinit (1);\nthe options\n.BR \\-\\-traddr ,\n.B "
		      "\\-\\-trsvcid\nand\n.B \\-\\-nqn\nare the other way to name the target.\n",
		      out);
	}
	man_options(out, verb);
	man_end(out, verb);
}

/* ---- completion ---- */

/* What precedes the cases of verbs: $args has NAME:LETTER:VALUES of each option with a value. */
static const char bash_begin[] =
	"# SPDX-License-Identifier: BSD-3-Clause\n"
	"# Completion of rdinit in bash; made by rdinit --generate bash.\n"
	"_rdinit()\n{\n"
	"\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
	"\tlocal words='' args='' files='' arg name letter values\n"
	"\tCOMPREPLY=()\n"
	"\tif [[ $COMP_CWORD -eq 1 ]]; then\n\t\twords='--help --version";

/* What follows them. bash makes a word of its own of the = in --NAME=VALUE. */
static const char bash_end[] =
	"\t\tesac\n"
	"\t\tif [[ $cur == = ]]; then\n\t\t\tcur=''\n"
	"\t\telif [[ $prev == = ]]; then\n\t\t\tprev=${COMP_WORDS[COMP_CWORD-2]}\n\t\tfi\n"
	"\t\tfor arg in $args; do\n"
	"\t\t\tIFS=: read -r name letter values <<<\"$arg\"\n"
	"\t\t\t[[ ( $prev == --?* && --$name == \"$prev\"* ) || "
	"( -n $letter && $prev == \"-$letter\" ) ]] || continue\n"
	"\t\t\t[[ $values == FILE ]] && { compopt -o default; return; }\n"
	"\t\t\twords=${values//,/ } files=''\n"
	"\t\t\tbreak\n"
	"\t\tdone\n"
	"\t\t[[ -n $files && $cur != -* ]] && compopt -o default\n"
	"\tfi\n"
	"\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n}\n"
	"complete -F _rdinit rdinit\n";

static void bash_verb(FILE *out, const struct cli_verb *verb)
{
	struct cli_opt_at opts[CLI_OPTS_MAX];
	size_t i, n = cli_verb_opts(verb, opts);
	const char *words;

	fprintf(out, "\t\t%s)\n\t\t\twords='", verb->name);
	for (i = 0; i < n; i++)
		fprintf(out, "%s--%s", i ? " " : "", opts[i].opt->name);
	fputs("'\n\t\t\targs='", out);
	for (i = 0; i < n; i++) {
		if (!opts[i].opt->value)
			continue;
		words = strcmp(opts[i].opt->value, "FILE") == 0 ? "FILE" : opts[i].opt->words;
		fprintf(out, "%s:%.1s:%s ", opts[i].opt->name, &opts[i].letter, words ? words : "");
	}
	/* Operands that are not one URI may be files. */
	fprintf(out, "'%s ;;\n", verb->flags & CLI_V_OPERANDS ? " files=yes" : "");
}

static void bash_completion(FILE *out)
{
	size_t v;

	fputs(bash_begin, out);
	for (v = 0; v < cli_verbs_n; v++)
		fprintf(out, " %s", cli_verbs[v].name);
	fputs("'\n\telse\n\t\tcase ${COMP_WORDS[1]} in\n", out);
	for (v = 0; v < cli_verbs_n; v++)
		bash_verb(out, &cli_verbs[v]);
	fputs(bash_end, out);
}

/* Quotes text for an _arguments specification between apostrophes. */
static void zsh_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", out);
		else if (strchr("[]:\\", *text))
			fprintf(out, "\\%c", *text);
		else
			fputc(*text, out);
	}
}

static void zsh_values(FILE *out, const struct cli_opt *opt)
{
	const char *words = opt->words;

	fputs(strcmp(opt->value, "FILE") == 0 ? ":_files" : words ? ":(" : ":", out);
	for (; words && *words; words++)
		fputc(*words == ',' ? ' ' : *words, out);
	fputs(words ? ")" : "", out);
}

static void zsh_completion(FILE *out)
{
	struct cli_opt_at opts[CLI_OPTS_MAX];
	size_t v, i, n;

	fputs("#compdef rdinit\n# SPDX-License-Identifier: BSD-3-Clause\n"
	      "# Completion of rdinit in zsh; made by rdinit --generate zsh.\n"
	      "local -a verbs\nverbs=(\n",
	      out);
	for (v = 0; v < cli_verbs_n; v++) {
		fprintf(out, "\t'%s:", cli_verbs[v].name);
		zsh_text(out, cli_verbs[v].summary);
		fputs("'\n", out);
	}
	fputs(")\nif (( CURRENT == 2 )); then\n\t_describe verb verbs\n\treturn\nfi\n"
	      "local verb=$words[2]\nshift words\n(( CURRENT-- ))\ncase $verb in\n",
	      out);
	for (v = 0; v < cli_verbs_n; v++) {
		n = cli_verb_opts(&cli_verbs[v], opts);
		fprintf(out, "%s)\n\t_arguments", cli_verbs[v].name);
		for (i = 0; i < n; i++) {
			fprintf(out, " \\\n\t\t'--%s%s[", opts[i].opt->name,
				opts[i].opt->value ? "=" : "");
			zsh_text(out, opts[i].opt->help);
			fputs("]", out);
			if (opts[i].opt->value) {
				fputs(":", out);
				zsh_text(out, opts[i].opt->value);
				zsh_values(out, opts[i].opt);
			}
			fputs("'", out);
		}
		fputs("\n\t;;\n", out);
	}
	fputs("esac\n", out);
}

/* ---- --generate ---- */

static int made(FILE *f, const char *name)
{
	bool bad = ferror(f);

	bad |= fclose(f) != 0;
	return bad ? cli_error("%s: %s", name, strerror(errno)) : CLI_OK;
}

/* ---- JSON schemas ---- */

static void schema(FILE *out, const struct cli_verb *verb)
{
	json_t *all = json_pack(
		"{s:s, s:o}", "$schema", "https://json-schema.org/draft/2020-12/schema", "title",
		json_sprintf("rdinit %s --output-format=json: %s", verb->name, verb->summary));
	json_t *object = cli_shape_schema(verb->shape);

	json_object_update(all, object);
	json_decref(object);
	cli_print_json(all, out);
}

static bool has_shape(const struct cli_verb *verb)
{
	return verb->shape;
}

static bool is_any(const struct cli_verb *verb)
{
	return true;
}

/* Writes a file of each verb that has one. */
static int files(const char *folder, const char *prefix, const char *suffix,
		 bool (*has)(const struct cli_verb *verb),
		 void (*write)(FILE *out, const struct cli_verb *verb))
{
	char path[512];
	size_t i;

	for (i = 0; i < cli_verbs_n; i++) {
		FILE *f;

		if (!has(&cli_verbs[i]))
			continue;
		snprintf(path, sizeof(path), "%s/%s%s.%s", folder, prefix, cli_verbs[i].name,
			 suffix);
		f = fopen(path, "we");
		if (!f)
			return cli_error("%s: %s", path, strerror(errno));
		write(f, &cli_verbs[i]);
		if (made(f, path))
			return CLI_FAILED;
	}
	return CLI_OK;
}

int cli_generate(int argc, char **argv)
{
	size_t i;

	if (argc == 2 && strcmp(argv[0], "man") == 0)
		return files(argv[1], "rdinit-", "1", is_any, man_page);
	if (argc == 2 && strcmp(argv[0], "schema") == 0)
		return files(argv[1], "", "json", has_shape, schema);
	if (argc == 1 && strcmp(argv[0], "bash") == 0)
		bash_completion(stdout);
	else if (argc == 1 && strcmp(argv[0], "zsh") == 0)
		zsh_completion(stdout);
	else if (argc == 1 && strcmp(argv[0], "verbs") == 0)
		for (i = 0; i < cli_verbs_n; i++)
			puts(cli_verbs[i].name);
	else
		return cli_usage_error(
			"--generate: expected one of man FOLDER, schema FOLDER, bash, zsh, verbs");
	return cli_finish_output();
}
