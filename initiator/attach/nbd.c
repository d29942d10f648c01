/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver of nbd, for kernels without ublk. Each queue of the block device is a socket pair: the
 * kernel's client has one end, a server of this process the other one. When the process ends, the
 * kernel ends the I/O of the device with errors: there is no recovery.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nbd.h"
#include "util/parse.h"

#define BACKEND_SIZE (RDI_ATTACH_ID + 16)

struct nbd_device {
	struct rdi_attach *a;
	int netlink;
	uint16_t family;
	struct rdi_nbd_device kernel;
	bool connected;
	struct rdi_nbd_server *servers[RDI_NBD_SOCKETS_MAX];
	int sockets[RDI_NBD_SOCKETS_MAX]; /* the kernel's ends */
	unsigned int n;
	char backend[BACKEND_SIZE];
};

static bool index_of_name(const char *name, int *index)
{
	uint64_t n;

	if (strncmp(name, "nbd", 3) != 0 || rd_parse_u64(name + 3, 0, INT32_MAX, &n))
		return false;
	*index = (int)n;
	return true;
}

static void backend_of(const char *id, char out[BACKEND_SIZE])
{
	snprintf(out, BACKEND_SIZE, "rdinit:%s", id);
}

/* Writes to, or reads from, a file of /sys/block/NAME. */
static int sys_file(const char *name, const char *file, int flags, char *text, size_t size)
{
	char path[96];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/sys/block/%s/%s", name, file);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = flags == O_RDONLY ? read(fd, text, size) : write(fd, text, size);
	close(fd);
	return (int)n;
}

/* ---- the driver ---- */

static int nbd_probe(struct rdi_attach *a, char *why)
{
	struct nbd_device *d = calloc(1, sizeof(*d));

	if (!d)
		return rdi_attach_why(why, -ENOMEM, "no memory");
	d->a = a;
	d->kernel.index = -1;
	d->netlink = rdi_nbd_open(&d->family, why);
	if (d->netlink < 0) {
		int rc = d->netlink;

		free(d);
		return rc;
	}
	a->driver_data = d;
	return 0;
}

static void nbd_ended(void *user)
{
	struct nbd_device *d = user;

	atomic_fetch_sub(&d->a->threads, 1);
	rdi_attach_wake(d->a);
}

static int nbd_connection(struct nbd_device *d)
{
	struct rdi_attach *a = d->a;
	struct rdi_nbd_server_opts o = {
		.dev = a->dev,
		.limits = &a->limits,
		.read_only = a->info.read_only,
		.depth = a->opts.depth,
		.ended = nbd_ended,
		.user = d,
	};
	int ends[2], rc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return rdi_attach_why(a->why, -errno, "no socket pair: %s", strerror(errno));
	o.fd = ends[0];
	rc = rdi_nbd_server_create(&o, &d->servers[d->n], a->why);
	if (rc) {
		close(ends[1]);
		return rc;
	}
	d->sockets[d->n] = ends[1];
	atomic_fetch_add(&a->threads, 1);
	rc = rdi_nbd_server_start(d->servers[d->n], a->why);
	if (rc)
		atomic_fetch_sub(&a->threads, 1);
	d->n++;
	return rc;
}

static int nbd_connect_kernel(struct nbd_device *d)
{
	struct rdi_attach *a = d->a;
	int rc;

	backend_of(a->info.id, d->backend);
	d->kernel = (struct rdi_nbd_device){
		.index = -1,
		.bytes = a->info.blocks * a->info.block_size,
		.block_size = a->info.block_size,
		.flags = rdi_nbd_flags(&a->limits, a->info.read_only),
		.sockets = d->sockets,
		.n_sockets = d->n,
		.backend = d->backend,
	};
	rc = rdi_nbd_connect(d->netlink, d->family, &d->kernel);
	if (rc == -EPERM)
		return rdi_attach_why(a->why, rc,
				      "the kernel does not let this process connect an nbd device: "
				      "run rdinit as root");
	if (rc)
		return rdi_attach_why(a->why, rc, "nbd: cannot connect a device: %s",
				      strerror(-rc));
	d->connected = true;
	snprintf(a->info.name, sizeof(a->info.name), "nbd%d", d->kernel.index);
	return 0;
}

static int nbd_start(struct rdi_attach *a, const struct rdi_attach_info *old)
{
	struct nbd_device *d = a->driver_data;
	char change[] = "change";
	int rc = 0;

	(void)old; /* nbd_can_recover() */
	if (a->ns.block_size > (uint32_t)sysconf(_SC_PAGESIZE))
		return rdi_attach_why(a->why, -EINVAL,
				      "the namespace has blocks of %u bytes, and an nbd device at "
				      "most %ld",
				      a->ns.block_size, sysconf(_SC_PAGESIZE));
	while (!rc && d->n < a->opts.queues && d->n < RDI_NBD_SOCKETS_MAX)
		rc = nbd_connection(d);
	if (!rc)
		rc = nbd_connect_kernel(d);
	if (!rc)
		rc = rdi_attach_claim(a);
	/* The kernel has announced the device before there was a file for udev. */
	if (!rc && sys_file(a->info.name, "uevent", O_WRONLY, change, sizeof(change) - 1) < 0)
		rdi_attach_say(a, "%s: cannot announce it to udev", a->info.name);
	return rc;
}

static void nbd_resize(struct rdi_attach *a)
{
	struct nbd_device *d = a->driver_data;
	int rc;

	d->kernel.bytes = a->info.blocks * a->info.block_size;
	rc = rdi_nbd_resize(d->netlink, d->family, &d->kernel);
	if (rc)
		rdi_attach_say(a, "%s: cannot resize it: %s", a->info.name, strerror(-rc));
}

static void nbd_abort(struct rdi_attach *a)
{
	struct nbd_device *d = a->driver_data;
	unsigned int i;

	for (i = 0; d && i < d->n; i++)
		rdi_nbd_server_abort(d->servers[i]);
}

static int nbd_disconnect(void *arg)
{
	struct nbd_device *d = arg;

	return rdi_nbd_disconnect(d->netlink, d->family, d->kernel.index);
}

static bool nbd_stop(struct rdi_attach *a)
{
	struct nbd_device *d = a->driver_data;
	int rc;

	if (!d)
		return true;
	if (d->connected) {
		rdi_attach_sync(a);
		rc = rdi_attach_blocking(a, nbd_disconnect, d);
		if (rc)
			rdi_attach_say(a, "%s: cannot disconnect it: %s", a->info.name,
				       strerror(-rc));
	}
	while (d->n) {
		rdi_nbd_server_free(d->servers[--d->n]);
		close(d->sockets[d->n]);
	}
	close(d->netlink);
	free(d);
	a->driver_data = NULL;
	return true;
}

/* Whether the kernel's device is still the one that @left is about. */
static bool is_left(const struct rdi_attach_info *left, int *index)
{
	char text[BACKEND_SIZE + 1], backend[BACKEND_SIZE];
	int n;

	if (!index_of_name(left->name, index))
		return false;
	backend_of(left->id, backend);
	n = sys_file(left->name, "backend", O_RDONLY, text, sizeof(text) - 1);
	if (n < 0)
		return false;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return strcmp(text, backend) == 0;
}

static int nbd_remove(const struct rdi_attach_info *left, char *why)
{
	uint16_t family;
	int index, fd, rc;

	if (!is_left(left, &index))
		return 0;
	fd = rdi_nbd_open(&family, why);
	if (fd < 0)
		return fd;
	rc = rdi_nbd_disconnect(fd, family, index);
	close(fd);
	return rc ? rdi_attach_why(why, rc, "the kernel does not disconnect %s: %s", left->name,
				   strerror(-rc))
		  : 0;
}

static bool nbd_can_recover(const struct rdi_attach_info *left)
{
	(void)left;
	return false;
}

const struct rdi_attach_driver rdi_attach_nbd = {
	.kind = RDI_ATTACH_NBD,
	.probe = nbd_probe,
	.start = nbd_start,
	.resize = nbd_resize,
	.abort = nbd_abort,
	.stop = nbd_stop,
	.remove = nbd_remove,
	.can_recover = nbd_can_recover,
};
