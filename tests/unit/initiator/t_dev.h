/* SPDX-License-Identifier: BSD-3-Clause */
/* A device with a channel on the fake fabric, for tests. */
#ifndef T_DEV_H
#define T_DEV_H

#include "dev.h"
#include "t_fake.h"

struct t_dev {
	struct rdinit_ctrl_opts ctrl_opts;
	struct rdinit_dev_opts opts;
	struct rdinit_dev *dev;
	struct rdinit_dev_chan *chan;
	/* events */
	unsigned int n_events, resized, ana, failed, lost;
};

/* A t_dev with the default options of a test, which t_dev_free() ends with its block; resets the
 * fake. */
#define T_DEV(d) struct t_dev d __attribute__((cleanup(t_dev_free))) = t_dev_new(&d)
struct t_dev t_dev_new(struct t_dev *self);
void t_dev_init(struct t_dev *d);
/* Create a device with @paths paths to 192.0.2.1, .2, ... */
void t_dev_create(struct t_dev *d, unsigned int paths);
/* Create a device whose paths the discovery controller at 192.0.2.1 names. */
void t_dev_create_discovery(struct t_dev *d);
/* Create a device with @paths paths, open it, and open a channel. */
void t_dev_open(struct t_dev *d, unsigned int paths);
void t_dev_free(struct t_dev *d);
/* Turn both loops until nothing happens without time passing. */
void t_dev_settle(struct t_dev *d);
/* The same while @ms pass. */
void t_dev_pass(struct t_dev *d, unsigned int ms);
/* Submit a command without data. */
struct rdinit_dev_io t_dev_io(enum rdinit_dev_op op, uint64_t lba, uint32_t nblocks);
/* Submit a command for block 0 with data, which belongs to both halves of a pair. Returns its
 * identifier. */
uint64_t t_dev_submit(struct t_dev *d, enum rdinit_dev_op op, void *buf, struct t_done *done);
enum rdinit_dev_path_state t_dev_path_state(struct t_dev *d, unsigned int path);

#endif /* T_DEV_H */
