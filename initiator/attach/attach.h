/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A namespace as a block device of this machine: what the command line uses. Why it is built so:
 * docs/design/attach.md.
 */
#ifndef RDI_ATTACH_H
#define RDI_ATTACH_H

#include <stdbool.h>
#include <stdint.h>

#include "rdinit_dev.h"

#define RDI_ATTACH_TEXT 512 /* bytes of a message */
#define RDI_ATTACH_NAME 32  /* bytes of a device's name, such as "ublkb0" */
#define RDI_ATTACH_ID   320 /* bytes of an identifier: a UUID, or the characters of an NQN */
/* The state directory, unless --state-dir names another. */
#define RDI_ATTACH_STATE_DIR "/run/rdinit/attach"

/* What an attached device is doing. Each object of this folder that has a state has this one. */
enum rdi_attach_state {
	RDI_ATTACH_OPENING,  /* waits for the first path to the namespace */
	RDI_ATTACH_STARTING, /* the kernel creates the block device, or takes it over */
	RDI_ATTACH_LIVE,     /* a path is usable */
	RDI_ATTACH_WAITING,  /* no path is usable; I/O waits */
	RDI_ATTACH_FAILED,   /* every path has failed permanently; I/O ends with errors */
	RDI_ATTACH_STOPPING, /* what is in the cache is written, then the device is removed */
	RDI_ATTACH_ENDED,    /* the block device is gone */
	RDI_ATTACH_LEFT,     /* its process has ended and the block device is still there */
};

const char *rdi_attach_state_name(enum rdi_attach_state state);

enum rdi_attach_kind {
	RDI_ATTACH_AUTO, /* ublk where the kernel has it, or else nbd */
	RDI_ATTACH_UBLK,
	RDI_ATTACH_NBD,
};

const char *rdi_attach_kind_name(enum rdi_attach_kind kind);

/* What `rdinit attach` was asked for. The caller owns what the pointers refer to. */
struct rdi_attach_opts {
	const char *state_dir;
	enum rdi_attach_kind kind;
	bool read_only;
	bool foreground; /* messages go to standard error, not to syslog */
	uint16_t queues; /* threads, each with an I/O queue */
	uint16_t depth;  /* requests of each queue */
	/*
	 * Is called once, when the block device can be used, with its path. Frees nothing; when it
	 * returns, messages go where @foreground says.
	 */
	void (*ready)(void *user, const char *device);
	void *user;
};

struct rdi_attach;

/*
 * Prepares the process: signals, memory, limits. Messages go to standard error until the device is
 * ready. *@event_fn and *@event_user are for the struct rdinit_dev_opts of the device. Returns 0 or
 * -errno; rdi_attach_free() in both cases.
 */
int rdi_attach_create(const struct rdi_attach_opts *opts, struct rdi_attach **out);
void rdi_attach_event(void *user, const struct rdinit_dev_event *event);
/*
 * Opens @dev, makes its namespace a block device, and serves that until it is detached. @dev is
 * closed and freed in every case. Returns 0, or -errno after printing why.
 */
int rdi_attach_run(struct rdi_attach *a, struct rdinit_dev *dev);
void rdi_attach_free(struct rdi_attach *a);

/*
 * Detaches the device @name: a path such as /dev/ublkb0 or a link to it, or its name. With @force
 * also if it is in use, if no path is usable, and if its process does not answer. Returns 0, or
 * -errno with @why, RDI_ATTACH_TEXT bytes.
 */
int rdi_attach_detach(const char *state_dir, const char *name, bool force, char *why);

/* An attached device, from its file in the state directory. */
struct rdi_attach_info {
	char name[RDI_ATTACH_NAME];
	char id[RDI_ATTACH_ID];
	enum rdi_attach_kind kind;
	enum rdi_attach_state state;
	int pid; /* 0: its process has ended */
	char subnqn[RDINIT_NQN_SIZE];
	uint32_t nsid;
	uint64_t blocks;
	uint32_t block_size;
	bool read_only;
};

/*
 * Calls @fn for each attached device, in the order of their names, until it returns false. Returns
 * the number of them, or -errno with @why.
 */
int rdi_attach_each(const char *state_dir,
		    bool (*fn)(void *user, const struct rdi_attach_info *info), void *user,
		    char *why);

#endif /* RDI_ATTACH_H */
