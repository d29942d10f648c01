/* SPDX-License-Identifier: BSD-3-Clause */
/* nbd: the kernel's NBD client, with the server in this process. */
#ifndef RDI_ATTACH_NBD_H
#define RDI_ATTACH_NBD_H

#include "internal.h"

/* ---- nbd_server.c: one connection, in the transmission phase, and its thread ---- */

struct rdi_nbd_server;

struct rdi_nbd_server_opts {
	struct rdinit_dev *dev;
	const struct rdi_attach_limits *limits; /* valid for as long as the server */
	bool read_only;
	uint16_t depth; /* requests at a time; the others wait in the socket */
	int fd;         /* the server's end, which it closes */
	/* Runs in the thread when the connection has ended: by the client, or after an error. */
	void (*ended)(void *user);
	void *user;
};

/* The transmission flags of the export. */
uint16_t rdi_nbd_flags(const struct rdi_attach_limits *limits, bool read_only);
/* Takes @opts->fd in every case. Returns 0, or -errno with @why. */
int rdi_nbd_server_create(const struct rdi_nbd_server_opts *opts, struct rdi_nbd_server **out,
			  char *why);
int rdi_nbd_server_start(struct rdi_nbd_server *s, char *why);
/* Everything in flight ends with an error, and what comes later. */
void rdi_nbd_server_abort(struct rdi_nbd_server *s);
/* Ends the connection and the thread. NULL is allowed. */
void rdi_nbd_server_free(struct rdi_nbd_server *s);

#endif /* RDI_ATTACH_NBD_H */
