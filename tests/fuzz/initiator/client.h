/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that uses librdinit. Everything that it asks for must end once, and nothing may change
 * its buffers afterwards; it never calls a function that waits.
 */
#ifndef FUZZ_CLIENT_H
#define FUZZ_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "scene.h"

/* Of an admin command; the other parameter is CNS, a page or an opcode. */
enum client_admin {
	ADMIN_IDENTIFY,
	ADMIN_LOG,
	ADMIN_DISCOVER,
	ADMIN_PASSTHRU,
	ADMIN_EXTENTS,
	ADMIN_INFO,
	CLIENT_ADMINS,
};

/* What happens to handles. */
enum client_life {
	LIFE_NEW,        /* they are freed, and created and connected again */
	LIFE_DISCONNECT, /* orderly, of the controller */
	LIFE_NO_QUEUE,   /* the queue pair or channel is freed */
	LIFE_QUEUE,      /* another one */
	LIFE_CALLBACK,   /* the next callback frees its queue pair or channel */
	LIFE_RECONNECT,  /* of the device, now */
	LIFE_CANCEL,     /* a command */
	CLIENT_LIVES,
};

void client_open(struct scene *s);
void client_turn(struct client *c, enum scene_loop loop);
/* Connects; no-op after the first call. */
void client_start(struct client *c);
/* @op: enum rdinit_dev_op, or above it a passthru command; @blocks from 1 to 8. */
void client_io(struct client *c, unsigned int n, unsigned int op, unsigned int blocks,
	       unsigned int flags);
void client_admin(struct client *c, unsigned int n, enum client_admin what, uint8_t value,
		  uint16_t len);
void client_life(struct client *c, enum client_life what, unsigned int n);
/* Nothing that was asked for is outstanding. */
bool client_idle(const struct scene *s);
/* All blocks can be written and read. */
void client_uses_honest_path(struct client *c);
void client_close(struct scene *s);

#endif /* FUZZ_CLIENT_H */
