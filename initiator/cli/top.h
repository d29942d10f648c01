/* SPDX-License-Identifier: BSD-3-Clause */
/* The verb top: the state of paths and I/O, which top.c collects and top_show.c prints. */
#ifndef RDI_CLI_TOP_H
#define RDI_CLI_TOP_H

#include <nvme/types.h>

#include "cli.h"

#define TOP_PATHS_MAX  16u
#define TOP_ANA_SIZE   4096u /* the header and 127 groups */
#define TOP_ANA_STATES 16u   /* number of values of the field */

enum top_state {
	TOP_CONNECTING, /* the connect callback, or an error, moves it out */
	TOP_LIVE,
	TOP_LOST, /* until next_try */
};

/* Counters of a SMART log, and the time of reading. */
struct top_counters {
	uint64_t at; /* ns; 0: not read yet */
	uint64_t reads, writes, units_read, units_written, media_errors;
	uint8_t critical_warning;
};

struct top_path {
	struct cli_options o; /* has pointers into itself: not to be copied */
	char address[CLI_ADDRESS_TEXT];
	struct rdinit_ctrl *ctrl;
	enum top_state state;
	bool drop;          /* ctrl is to be freed outside of its callbacks */
	uint64_t next_try;  /* ns */
	uint32_t losses;    /* number of losses after it was live */
	char text[512];     /* why it is not live, or what could not be read; "": no error */
	unsigned int asked; /* number of commands in flight */
	uint64_t asked_at, latency_ns;
	struct top_counters was, now;
	bool has_ana;
	uint16_t ana[TOP_ANA_STATES]; /* number of groups in each ANA state */
	unsigned char id[RDINIT_IDENTIFY_SIZE];
	struct nvme_smart_log smart;
	unsigned char ana_log[TOP_ANA_SIZE];
};

struct top {
	const struct cli_options *o;
	struct top_path *path[TOP_PATHS_MAX];
	unsigned int n;
	bool terminal;
};

/* Prints everything. Returns CLI_OK, or CLI_FAILED when standard output cannot be written. */
int cli_top_show(const struct top *t);

#endif /* RDI_CLI_TOP_H */
