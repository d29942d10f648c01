/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of the options of rdinit bench. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "util/parse.h"

void cli_bench_defaults(struct cli_bench_options *o)
{
	*o = (struct cli_bench_options){
		.rw = "randread",
		.random = true,
		.read_percent = 100,
		.block_size = 4096,
		.depth = 32,
		.spin_ns = UINT64_MAX,
		.run_ns = UINT64_C(10000000000),
		.seed = 1,
	};
}

void cli_bench_rw(struct cli_bench_options *o, unsigned int mode)
{
	/* In the order of the option's words. */
	static const struct {
		const char *name;
		bool random;
		uint8_t percent;
		bool mixed;
	} modes[] = {
		{"read", false, 100, false},   {"write", false, 0, false},
		{"rw", false, 50, true},       {"randread", true, 100, false},
		{"randwrite", true, 0, false}, {"randrw", true, 50, true},
	};

	o->rw = modes[mode].name;
	o->random = modes[mode].random;
	o->mixed = modes[mode].mixed;
	o->read_percent = modes[mode].percent;
}

bool cli_bench_poll(struct cli_bench_options *o, const char *text)
{
	if (strcmp(text, "always") == 0)
		o->spin_ns = UINT64_MAX;
	else if (strcmp(text, "never") == 0)
		o->spin_ns = 0;
	else if (rd_parse_duration(text, &o->spin_ns))
		return cli_error("--poll: found \"%s\", expected always, never or a time such as "
				 "50us",
				 text),
		       false;
	return true;
}

bool cli_bench_time(const char *name, const char *text, uint64_t *ns)
{
	uint64_t seconds;

	if (rd_parse_u64(text, 0, UINT32_MAX, &seconds) == 0) {
		*ns = seconds * 1000000000;
		return true;
	}
	if (rd_parse_duration(text, ns) == 0)
		return true;
	cli_error("--%s: \"%s\" is not a time (10, 10s, 500ms)", name, text);
	return false;
}

/* Parses the number at *@text and advances *@text behind it. */
static bool take_cpu(const char **text, unsigned long *cpu)
{
	char *end;

	if (**text < '0' || **text > '9')
		return false;
	errno = 0;
	*cpu = strtoul(*text, &end, 10);
	*text = end;
	return errno == 0 && *cpu < CLI_BENCH_CPUS;
}

bool cli_bench_cpus(struct cli_bench_options *o, const char *list)
{
	const char *text = list;
	unsigned long from, to;

	o->n_cpus = 0;
	do {
		if (!take_cpu(&text, &from))
			goto bad;
		to = from;
		if (*text == '-' && (text++, !take_cpu(&text, &to) || to < from))
			goto bad;
		for (; from <= to; from++) {
			if (o->n_cpus == CLI_BENCH_CPUS)
				goto bad;
			o->cpus[o->n_cpus++] = (uint16_t)from;
		}
	} while (*text == ',' && *++text);
	if (*text == '\0' && text[-1] != ',')
		return true;
bad:
	cli_error("--cpus: \"%s\" is not a list of CPUs (0,2-3) below %u", list, CLI_BENCH_CPUS);
	return false;
}

/* Checks that the options are consistent. */
bool cli_bench_check(struct cli_options *o)
{
	struct cli_bench_options *b = &o->bench;
	bool ok = false;

	if (o->arg[CLI_ARG_READ_PERCENT].given && !b->mixed)
		cli_error(
			"--read-percent: --rw=%s has no mix of reads and writes; use rw or randrw",
			b->rw);
	else if ((b->mixed || b->read_percent == 0) && !b->dataloss)
		cli_error("--rw=%s overwrites data of the namespace; allow that with --dataloss",
			  b->rw);
	else if (b->io_count && b->ramp_ns)
		cli_error("--io-count and --ramp-time are mutually exclusive");
	else if (b->run_ns == 0)
		cli_error("--run-time: found 0, expected more, such as 10s");
	else if (b->threads && o->ctrl.nr_io_queues && b->threads > o->ctrl.nr_io_queues)
		cli_error("--threads: %u threads need at least one queue each, --queues is %u",
			  b->threads, o->ctrl.nr_io_queues);
	else
		ok = true;
	if (o->arg[CLI_ARG_READ_PERCENT].given)
		b->read_percent = (uint32_t)o->arg[CLI_ARG_READ_PERCENT].n;
	if (b->io_count && !b->has_run)
		b->run_ns = UINT64_MAX;
	if (!o->ctrl.nr_io_queues)
		o->ctrl.nr_io_queues = (uint16_t)(b->threads ? b->threads : 1);
	if (!b->threads)
		b->threads = 1;
	if (o->qpair.queue_size <= b->depth)
		o->qpair.queue_size = (uint16_t)(b->depth + 1);
	return ok;
}
