/* SPDX-License-Identifier: BSD-3-Clause */
/* For host.c and command.c only: a host and the commands of its device. */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include "host_ctrl.h"
#include "world.h"

struct command {
	struct host *host;
	bool busy;
	bool cancelled; /* by host_cancels() */
	enum rdinit_dev_op op;
	unsigned int flags; /* RDINIT_IO_FUA, RDINIT_DEV_IO_DEALLOCATE */
	unsigned int block, count;
	unsigned int source; /* Copy: the first block that is read */
	uint64_t begin;
	uint64_t id;
	struct order *order; /* of a command without data of the host; NULL: it has data */
	/* By block: the value that is written. Compare: the one that is expected. */
	uint64_t values[WORLD_IO_MAX];
	uint64_t old; /* Compare and Write: the value that is expected */
	char data[WORLD_IO_MAX * DISK_BLOCK] __attribute__((aligned(8)));
	char other[DISK_BLOCK] __attribute__((aligned(8))); /* Compare and Write: what is written */
};

struct host {
	struct world *w;
	unsigned int number; /* the host of this device */
	unsigned int ns;     /* its namespace, from 0 on */
	unsigned int first;  /* the namespace's first block in the history */
	struct actor *dev_actor, *chan_actor;
	struct host_name name;
	struct rdinit_dev *dev;
	struct rdinit_dev_chan *chan;
	struct claim *claim;
	struct raw *raw;
	enum secret_kind secret;
	/* By path: its last attempt to connect. */
	struct attempt {
		bool connects;       /* the controller is being connected */
		bool secret_changed; /* meanwhile */
		enum secret_kind secret;
		uint64_t begin;
	} attempts[WORLD_PATHS];
	bool live[WORLD_PATHS];
	bool opened;
	bool not_opened; /* the attempt to open it has failed */
	unsigned int inflight;
	unsigned int reads_left;      /* of host_reads_all() */
	uint64_t known[WORLD_BLOCKS]; /* values read last */
	struct command commands[WORLD_DEPTH];
};

/* Submits a random command if there is room, or not. */
void command_random(struct host *h);
/* Submits a read of one block. Returns false when there is no room. */
bool command_read(struct host *h, unsigned int block);

#endif /* SIM_HOST_H */
