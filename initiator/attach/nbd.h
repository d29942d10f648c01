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

/* ---- nbd_netlink.c: the kernel's client is told what to do ---- */

#define RDI_NBD_SOCKETS_MAX 64

struct rdi_nbd_device {
	int index; /* -1: any; connecting sets it */
	uint64_t bytes;
	uint32_t block_size;
	uint16_t flags;
	const int *sockets;
	unsigned int n_sockets;
	const char *backend; /* the name in /sys/block/nbdN/backend */
};

/* Loads the module if it is not loaded. Returns a descriptor, or -errno with @why. */
int rdi_nbd_open(uint16_t *family, char *why);
int rdi_nbd_connect(int fd, uint16_t family, struct rdi_nbd_device *d);
int rdi_nbd_resize(int fd, uint16_t family, const struct rdi_nbd_device *d);
int rdi_nbd_disconnect(int fd, uint16_t family, int index);

#endif /* RDI_ATTACH_NBD_H */
