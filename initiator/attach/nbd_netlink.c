/* SPDX-License-Identifier: BSD-3-Clause */
/* The generic netlink family "nbd" (<linux/nbd-netlink.h>): requests and their answers. */
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/nbd-netlink.h>
#include <linux/nbd.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nbd.h"

#define MESSAGE_MAX 4096
#define ANY_INDEX   (-1)

struct nbd_message {
	union {
		struct nlmsghdr nl;
		unsigned char bytes[MESSAGE_MAX];
	};
	size_t len;
};

/* ---- requests ---- */

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

/* ---- answers ---- */

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

int rdi_nbd_open(uint16_t *family, char *why)
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

int rdi_nbd_connect(int fd, uint16_t family, struct rdi_nbd_device *d)
{
	struct nbd_message m;
	size_t list, item;
	unsigned int i;
	uint32_t index = 0;
	int rc;

	message_begin(&m, family, NBD_CMD_CONNECT, NBD_GENL_VERSION);
	if (d->index != ANY_INDEX)
		message_u32(&m, NBD_ATTR_INDEX, (uint32_t)d->index);
	message_u64(&m, NBD_ATTR_SIZE_BYTES, d->bytes);
	message_u64(&m, NBD_ATTR_BLOCK_SIZE_BYTES, d->block_size);
	message_u64(&m, NBD_ATTR_SERVER_FLAGS, d->flags);
	message_attr(&m, NBD_ATTR_BACKEND_IDENTIFIER, d->backend, strlen(d->backend) + 1);
	list = message_attr(&m, NBD_ATTR_SOCKETS, NULL, 0);
	for (i = 0; i < d->n_sockets; i++) {
		item = message_attr(&m, NBD_SOCK_ITEM, NULL, 0);
		message_u32(&m, NBD_SOCK_FD, (uint32_t)d->sockets[i]);
		message_end_nest(&m, item);
	}
	message_end_nest(&m, list);
	rc = message_run(fd, &m, NBD_ATTR_INDEX, &index, sizeof(index));
	if (!rc)
		d->index = (int)index;
	return rc;
}

int rdi_nbd_resize(int fd, uint16_t family, const struct rdi_nbd_device *d)
{
	struct nbd_message m;

	message_begin(&m, family, NBD_CMD_RECONFIGURE, NBD_GENL_VERSION);
	message_u32(&m, NBD_ATTR_INDEX, (uint32_t)d->index);
	message_u64(&m, NBD_ATTR_SIZE_BYTES, d->bytes);
	/* The kernel compares it, if the device was connected with one. */
	message_attr(&m, NBD_ATTR_BACKEND_IDENTIFIER, d->backend, strlen(d->backend) + 1);
	return message_run(fd, &m, 0, NULL, 0);
}

int rdi_nbd_disconnect(int fd, uint16_t family, int index)
{
	struct nbd_message m;

	message_begin(&m, family, NBD_CMD_DISCONNECT, NBD_GENL_VERSION);
	message_u32(&m, NBD_ATTR_INDEX, (uint32_t)index);
	return message_run(fd, &m, 0, NULL, 0);
}
