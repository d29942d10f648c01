/* SPDX-License-Identifier: BSD-3-Clause */
/* The files of a simulated state_dir. They survive the target, and a loss of power. */
#ifndef SIM_FILES_H
#define SIM_FILES_H

#include <stdbool.h>

#include "target/resv/state.h"

#define FILES_MAX 8u

struct files {
	struct rdt_state_files ops;
	/* There is no power: nothing is replaced, which fails with -EIO. */
	bool stopped;
	struct file {
		char name[80]; /* "": none */
		char *text;
		size_t len;
	} file[FILES_MAX];
};

void files_init(struct files *files);
void files_free(struct files *files);

#endif /* SIM_FILES_H */
