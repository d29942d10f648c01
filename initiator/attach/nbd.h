/* SPDX-License-Identifier: BSD-3-Clause */
/* nbd: the kernel's NBD client, with the server in this process. */
#ifndef RDI_ATTACH_NBD_H
#define RDI_ATTACH_NBD_H

#include "internal.h"

/* ---- nbd_server.c: one connection, in the transmission phase, and its thread ---- */

struct rdi_nbd_server;

/* The transmission flags of the export. */
uint16_t rdi_nbd_flags(const struct rdi_attach_limits *limits, bool read_only);
/*
 * Makes a server that has a->opts.depth requests at a time; the others wait in the socket @fd, its
 * end, which is closed in every case. Returns 0, or -errno with a->why.
 */
int rdi_nbd_server_create(struct rdi_attach *a, int fd, struct rdi_nbd_server **out);
/* Starts the thread, which ends with the connection. */
int rdi_nbd_server_start(struct rdi_nbd_server *s);
/* Everything in flight ends with an error, and what comes later. */
void rdi_nbd_server_abort(struct rdi_nbd_server *s);
/* Ends the connection and the thread. NULL is allowed. */
void rdi_nbd_server_free(struct rdi_nbd_server *s);

#endif /* RDI_ATTACH_NBD_H */
