/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver of nbd, for kernels without ublk. Each queue of the block device is a socket pair: the
 * kernel's client has one end, a server of this process the other one. When the process ends, the
 * kernel ends the I/O of the device with errors: there is no recovery.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/genetlink.h>
#include <linux/nbd-netlink.h>
#include <linux/nbd.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nbd.h"
#include "util/parse.h"

#define BACKEND_SIZE (RDI_ATTACH_ID + 16)
#define SOCKETS_MAX  64
#define MESSAGE_MAX  4096

struct nbd_device {
	struct rdi_attach *a;
	int netlink;
	uint16_t family;
	int index; /* of the kernel's device; -1: it is not connected */
	struct rdi_nbd_server *servers[SOCKETS_MAX];
	int sockets[SOCKETS_MAX]; /* the kernel's ends */
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

struct nbd_message {
	union {
		struct nlmsghdr nl;
		unsigned char bytes[MESSAGE_MAX];
	};
	size_t len;
};

/* ---- the generic netlink family "nbd" (<linux/nbd-netlink.h>): requests ---- */

static void message_begin(struct nbd_message *m, uint16_t family, uint8_t cmd, uint8_t version)
{
	const struct genlmsghdr genl = {.cmd = cmd, .version = version};

	memset(m, 0, sizeof(*m));
	m->nl = (struct nlmsghdr){.nlmsg_type = family, .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK};
	memcpy(m->bytes + NLMSG_HDRLEN, &genl, sizeof(genl));
	m->len = NLMSG_HDRLEN + GENL_HDRLEN;
}

/* Appends an attribute; what is appended belongs to it until message_end_nest(). */
static size_t message_attr(struct nbd_message *m, uint16_t type, const void *data, size_t len)
{
	const struct nlattr attr = {.nla_type = type, .nla_len = (uint16_t)(NLA_HDRLEN + len)};
	size_t at = m->len;

	memcpy(m->bytes + at, &attr, sizeof(attr));
	if (len)
		memcpy(m->bytes + at + NLA_HDRLEN, data, len);
	m->len += NLA_ALIGN(NLA_HDRLEN + len);
	return at;
}

static void message_end_nest(struct nbd_message *m, size_t at)
{
	struct nlattr attr;

	memcpy(&attr, m->bytes + at, sizeof(attr));
	attr.nla_len = (uint16_t)(m->len - at);
	attr.nla_type |= NLA_F_NESTED;
	memcpy(m->bytes + at, &attr, sizeof(attr));
}

static void message_u32(struct nbd_message *m, uint16_t type, uint32_t v)
{
	message_attr(m, type, &v, sizeof(v));
}

static void message_u64(struct nbd_message *m, uint16_t type, uint64_t v)
{
	message_attr(m, type, &v, sizeof(v));
}

/* ---- the family "nbd": answers ---- */

/* Copies the attribute @type of an answer to @out. */
static void answer_attr(const unsigned char *at, size_t left, uint16_t type, void *out, size_t len)
{
	struct nlattr attr;
	size_t step;

	while (left >= sizeof(attr)) {
		memcpy(&attr, at, sizeof(attr));
		if (attr.nla_len < NLA_HDRLEN || attr.nla_len > left)
			return;
		if ((attr.nla_type & NLA_TYPE_MASK) == type && attr.nla_len >= NLA_HDRLEN + len)
			memcpy(out, at + NLA_HDRLEN, len);
		step = (size_t)NLA_ALIGN(attr.nla_len);
		if (step >= left)
			return;
		left -= step;
		at += step;
	}
}

/* Sends a request and waits for its acknowledgement. @out receives the attribute @type of an
 * answer, if it has one. Returns 0 or -errno. */
static int message_run(int fd, struct nbd_message *m, uint16_t type, void *out, size_t out_len)
{
	struct nlmsghdr nl;
	int32_t error;
	ssize_t n;
	size_t at;

	m->nl.nlmsg_len = (uint32_t)m->len;
	if (send(fd, m->bytes, m->len, 0) < 0)
		return -errno;
	for (;;) {
		n = recv(fd, m->bytes, sizeof(m->bytes), 0);
		if (n < 0 && errno != EINTR)
			return -errno;
		for (at = 0; n > 0 && at + sizeof(nl) <= (size_t)n;
		     at += NLMSG_ALIGN(nl.nlmsg_len)) {
			memcpy(&nl, m->bytes + at, sizeof(nl));
			if (nl.nlmsg_len < NLMSG_HDRLEN || nl.nlmsg_len > (size_t)n - at)
				return -EBADMSG;
			if (nl.nlmsg_type == NLMSG_ERROR) {
				memcpy(&error, m->bytes + at + NLMSG_HDRLEN, sizeof(error));
				return error;
			}
			if (out && nl.nlmsg_len >= NLMSG_HDRLEN + GENL_HDRLEN)
				answer_attr(m->bytes + at + NLMSG_HDRLEN + GENL_HDRLEN,
					    nl.nlmsg_len - NLMSG_HDRLEN - GENL_HDRLEN, type, out,
					    out_len);
		}
	}
}

static int find_family(int fd, uint16_t *family)
{
	struct nbd_message m;

	*family = 0;
	message_begin(&m, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 1);
	message_attr(&m, CTRL_ATTR_FAMILY_NAME, NBD_GENL_FAMILY_NAME, sizeof(NBD_GENL_FAMILY_NAME));
	return message_run(fd, &m, CTRL_ATTR_FAMILY_ID, family, sizeof(*family));
}

/* Loads the module if it is not loaded. Returns a descriptor, or -errno with @why. */
static int nbd_open(uint16_t *family, char *why)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC), rc;

	if (fd < 0)
		return rdi_attach_why(why, -errno, "nbd: no netlink socket: %s", strerror(errno));
	rc = find_family(fd, family);
	if (rc == -ENOENT && geteuid() == 0) {
		rdi_attach_load_module("nbd");
		rc = find_family(fd, family);
	}
	if (!rc)
		return fd;
	close(fd);
	if (rc == -ENOENT)
		return rdi_attach_why(
			why, rc,
			"this kernel has no module nbd that could be loaded (modprobe "
			"nbd says why)");
	return rdi_attach_why(why, rc, "nbd: the kernel does not answer: %s", strerror(-rc));
}

/* Connects any device of the kernel, whose index is in @d then. */
static int nbd_send_connect(struct nbd_device *d)
{
	const struct rdi_attach *a = d->a;
	struct nbd_message m;
	size_t list, item;
	unsigned int i;
	uint32_t index = 0;
	int rc;

	message_begin(&m, d->family, NBD_CMD_CONNECT, NBD_GENL_VERSION);
	message_u64(&m, NBD_ATTR_SIZE_BYTES, a->info.blocks * a->info.block_size);
	message_u64(&m, NBD_ATTR_BLOCK_SIZE_BYTES, a->info.block_size);
	message_u64(&m, NBD_ATTR_SERVER_FLAGS, rdi_nbd_flags(&a->limits, a->info.read_only));
	message_attr(&m, NBD_ATTR_BACKEND_IDENTIFIER, d->backend, strlen(d->backend) + 1);
	list = message_attr(&m, NBD_ATTR_SOCKETS, NULL, 0);
	for (i = 0; i < d->n; i++) {
		item = message_attr(&m, NBD_SOCK_ITEM, NULL, 0);
		message_u32(&m, NBD_SOCK_FD, (uint32_t)d->sockets[i]);
		message_end_nest(&m, item);
	}
	message_end_nest(&m, list);
	rc = message_run(d->netlink, &m, NBD_ATTR_INDEX, &index, sizeof(index));
	if (!rc)
		d->index = (int)index;
	return rc;
}

static int nbd_send_size(struct nbd_device *d)
{
	struct nbd_message m;

	message_begin(&m, d->family, NBD_CMD_RECONFIGURE, NBD_GENL_VERSION);
	message_u32(&m, NBD_ATTR_INDEX, (uint32_t)d->index);
	message_u64(&m, NBD_ATTR_SIZE_BYTES, d->a->info.blocks * d->a->info.block_size);
	/* The kernel compares it, if the device was connected with one. */
	message_attr(&m, NBD_ATTR_BACKEND_IDENTIFIER, d->backend, strlen(d->backend) + 1);
	return message_run(d->netlink, &m, 0, NULL, 0);
}

static int nbd_send_disconnect(int fd, uint16_t family, int index)
{
	struct nbd_message m;

	message_begin(&m, family, NBD_CMD_DISCONNECT, NBD_GENL_VERSION);
	message_u32(&m, NBD_ATTR_INDEX, (uint32_t)index);
	return message_run(fd, &m, 0, NULL, 0);
}

/* ---- the driver ---- */

static int nbd_probe(struct rdi_attach *a, char *why)
{
	struct nbd_device *d = calloc(1, sizeof(*d));

	if (!d)
		return rdi_attach_why(why, -ENOMEM, "no memory");
	d->a = a;
	d->index = -1;
	d->netlink = nbd_open(&d->family, why);
	if (d->netlink < 0) {
		int rc = d->netlink;

		free(d);
		return rc;
	}
	a->driver_data = d;
	return 0;
}

static int nbd_connection(struct nbd_device *d)
{
	struct rdi_attach *a = d->a;
	int ends[2], rc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return rdi_attach_why(a->why, -errno, "no socket pair: %s", strerror(errno));
	rc = rdi_nbd_server_create(a, ends[0], &d->servers[d->n]);
	if (rc) {
		close(ends[1]);
		return rc;
	}
	d->sockets[d->n] = ends[1];
	return rdi_nbd_server_start(d->servers[d->n++]);
}

static int nbd_connect_kernel(struct nbd_device *d)
{
	struct rdi_attach *a = d->a;
	int rc;

	backend_of(a->info.id, d->backend);
	rc = nbd_send_connect(d);
	if (rc == -EPERM)
		return rdi_attach_why(a->why, rc,
				      "the kernel does not let this process connect an nbd device: "
				      "run rdinit as root");
	if (rc)
		return rdi_attach_why(a->why, rc, "nbd: cannot connect a device: %s",
				      strerror(-rc));
	snprintf(a->info.name, sizeof(a->info.name), "nbd%d", d->index);
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
	while (!rc && d->n < a->opts.queues && d->n < SOCKETS_MAX)
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
	int rc = nbd_send_size(a->driver_data);

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

	return nbd_send_disconnect(d->netlink, d->family, d->index);
}

static bool nbd_stop(struct rdi_attach *a)
{
	struct nbd_device *d = a->driver_data;
	int rc;

	if (!d)
		return true;
	if (d->index >= 0) {
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
	fd = nbd_open(&family, why);
	if (fd < 0)
		return fd;
	rc = nbd_send_disconnect(fd, family, index);
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
