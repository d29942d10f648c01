/* SPDX-License-Identifier: BSD-3-Clause */
/* Connects a fio job: address from options, namespace, device, keep-alive. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "conn.h"

__attribute__((format(printf, 3, 4))) static int fail(struct rdf_conn *conn, int err,
						      const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(conn->why, sizeof(conn->why), fmt, ap);
	va_end(ap);
	return err;
}

const char *rdf_lib_text(void)
{
	const char *text = rdinit_get_error(), *colon = strstr(text, ": ");

	return strncmp(text, "rdinit_", 7) == 0 && colon ? colon + 2 : text;
}

/* Stores the library's last error text. */
static int fail_lib(struct rdf_conn *conn, int err)
{
	return fail(conn, err, "%s", rdf_lib_text());
}

/* ---- where to ---- */

#define URI_FORM "nvme+rdma://HOST[:PORT]/SUBNQN/NSID, or nvme+tcp://"

static int address_from_uri(struct rdf_conn *conn, const struct rdf_opts *o, struct rdinit_uri *uri)
{
	if (o->transport || o->traddr || o->trsvcid || o->subnqn)
		return fail(conn, -EINVAL, "uri=%s and %s are both given: leave out one of them",
			    o->uri,
			    o->transport ? "transport="
			    : o->traddr  ? "traddr="
			    : o->trsvcid ? "trsvcid="
					 : "subnqn=");
	if (rdinit_uri_parse(o->uri, uri))
		return fail(conn, -EINVAL, "uri=%s: %s (expected " URI_FORM ")", o->uri,
			    rdf_lib_text());
	if (!uri->subnqn[0])
		return fail(conn, -EINVAL, "uri=%s names no subsystem (expected " URI_FORM ")",
			    o->uri);
	if (uri->nsid && o->nsid && uri->nsid != o->nsid)
		return fail(conn, -EINVAL,
			    "uri=%s names namespace %u, but nsid=%u: leave out one of them", o->uri,
			    uri->nsid, o->nsid);
	return 0;
}

static int take_part(struct rdf_conn *conn, const char *option, const char *value, char *to,
		     size_t size)
{
	size_t len = strlen(value);

	if (len >= size)
		return fail(conn, -EINVAL, "%s= has %zu characters, expected up to %zu", option,
			    len, size - 1);
	memcpy(to, value, len + 1);
	return 0;
}

static int address_from_parts(struct rdf_conn *conn, const struct rdf_opts *o,
			      struct rdinit_uri *uri)
{
	const char *port = o->trsvcid ? o->trsvcid : "4420";
	int rc;

	if (!o->traddr || !o->subnqn)
		return fail(
			conn, -EINVAL,
			"no target: give uri=nvme+rdma://HOST[:PORT]/SUBNQN[/NSID] or nvme+tcp://, "
			"or traddr= and subnqn= (%s= is missing)",
			o->traddr   ? "subnqn"
			: o->subnqn ? "traddr"
				    : "uri");
	uri->tcp = o->transport && strcmp(o->transport, "tcp") == 0;
	if (o->transport && !uri->tcp && strcmp(o->transport, "rdma") != 0)
		return fail(conn, -EINVAL, "transport=%s: expected rdma or tcp", o->transport);
	rc = take_part(conn, "traddr", o->traddr, uri->traddr, sizeof(uri->traddr));
	if (!rc)
		rc = take_part(conn, "trsvcid", port, uri->trsvcid, sizeof(uri->trsvcid));
	if (!rc)
		rc = take_part(conn, "subnqn", o->subnqn, uri->subnqn, sizeof(uri->subnqn));
	return rc;
}

/* What the options of a controller refer to. */
struct ctrl_parts {
	struct rdinit_uri uri;
	struct rdinit_auth_opts auth;
	struct rdinit_tls_opts tls;
};

/* Makes a URI from either form of address options; @out refers to @parts. */
static int address(struct rdf_conn *conn, const struct rdf_opts *o, struct ctrl_parts *parts,
		   struct rdinit_ctrl_opts *out)
{
	struct rdinit_auth_opts *auth = &parts->auth;
	struct rdinit_uri *uri = &parts->uri;
	int rc;

	rdinit_uri_init(uri);
	rc = o->uri ? address_from_uri(conn, o, uri) : address_from_parts(conn, o, uri);
	if (rc)
		return rc;
	rdinit_ctrl_opts_set_uri(out, uri);
	if (!uri->nsid)
		uri->nsid = o->nsid ? o->nsid : 1;
	out->hostnqn = o->hostnqn;
	out->hostid = o->hostid;
	rdinit_auth_opts_init(auth);
	auth->secret_file = o->dhchap_secret_file;
	auth->ctrl_secret_file = o->dhchap_ctrl_secret_file;
	if (rdinit_auth_opts_offer(auth, o->dhchap_hashes, o->dhchap_dhgroups))
		return fail(conn, -EINVAL, "dhchap_hashes=, dhchap_dhgroups=: %s", rdf_lib_text());
	if (o->dhchap_secret_file || o->dhchap_ctrl_secret_file)
		out->auth = auth;
	rdinit_tls_opts_init(&parts->tls);
	parts->tls.key_file = o->tls_key_file;
	if (o->tls_key_file)
		out->tls = &parts->tls;
	out->host_traddr = o->host_traddr;
	out->provider = o->provider;
	out->congestion = o->congestion;
	out->crc = o->crc;
	out->hdr_digest = o->hdr_digest;
	out->data_digest = o->data_digest;
	out->keep_alive_tmo_ms = o->keep_alive_tmo;
	out->connect_timeout_ms = o->connect_timeout;
	return 0;
}

/* ---- the namespace ---- */

/* Lists the namespace identifiers, as "1, 2, 3", for an error message about a missing or wrong
 * one. */
static const char *list_nsids(struct rdinit_ctrl *ctrl, char *buf, size_t size)
{
	uint32_t nsids[RDINIT_NS_LIST_MAX];
	unsigned int i, n = 0;
	size_t used = 0;

	buf[0] = '\0';
	if (rdinit_list_ns(ctrl, 0, nsids, &n) || n == 0)
		return "none";
	for (i = 0; i < n && used + 16 < size; i++)
		used += (size_t)snprintf(buf + used, size - used, "%s%u", i ? ", " : "", nsids[i]);
	if (i < n)
		snprintf(buf + used, size - used, ", ...");
	return buf;
}

static int open_ns(struct rdf_conn *conn, const char *subnqn, uint32_t nsid)
{
	char active[128];
	int rc;

	rdinit_ns_init(&conn->ns);
	rc = rdinit_ns_open(conn->ctrl, nsid, &conn->ns);
	if (rc == -ENODEV)
		return fail(conn, rc, "subsystem %s has no namespace %u (it has: %s)", subnqn, nsid,
			    list_nsids(conn->ctrl, active, sizeof(active)));
	return rc ? fail_lib(conn, rc) : 0;
}

int rdf_conn_probe(struct rdf_conn *conn, const struct rdf_opts *o)
{
	struct rdinit_ctrl_info info;
	struct rdinit_ctrl_opts opts;
	struct ctrl_parts parts;
	int rc;

	memset(conn, 0, sizeof(*conn));
	rdinit_ctrl_opts_init(&opts);
	rc = address(conn, o, &parts, &opts);
	if (rc)
		return rc;
	rc = rdinit_ctrl_create(&opts, &conn->ctrl);
	if (rc)
		return fail_lib(conn, rc);
	rc = rdinit_ctrl_connect(conn->ctrl);
	if (rc) {
		fail_lib(conn, rc);
		goto err;
	}
	rc = open_ns(conn, opts.subnqn, parts.uri.nsid);
	if (rc)
		goto err;
	rdinit_ctrl_info_init(&info);
	rc = rdinit_ctrl_get_info(conn->ctrl, &info);
	if (rc) {
		fail_lib(conn, rc);
		goto err;
	}
	conn->max_transfer = info.max_transfer;
	return 0;

err:
	rdf_conn_close(conn);
	return rc;
}

/* ---- keep-alives ---- */

/*
 * A job may sleep (thinktime=, rate=, startdelay=) for longer than the keep-alive timeout. This
 * thread processes the device meanwhile; a running job processes it as well.
 */
static void *keep_dev_alive(void *arg)
{
	struct rdf_conn *conn = arg;
	struct pollfd fds[2] = {
		{.fd = rdinit_dev_fd(conn->dev), .events = POLLIN},
		{.fd = conn->keeper_stop - 1, .events = POLLIN},
	};

	do {
		if (rdinit_dev_process(conn->dev, 0) < 0)
			break;
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
	} while (!fds[1].revents);
	return NULL;
}

static int start_dev_keeper(struct rdf_conn *conn)
{
	sigset_t all, before;
	int fd, rc;

	fd = eventfd(0, EFD_CLOEXEC);
	if (fd < 0)
		return fail(conn, -errno, "no eventfd for keep-alives: %s", strerror(errno));
	conn->keeper_stop = fd + 1;
	/* Blocks signals, which fio handles. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&conn->keeper, NULL, keep_dev_alive, conn);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc) {
		conn->keeper_stop = 0;
		close(fd);
		return fail(conn, -rc, "no thread for keep-alives: %s", strerror(rc));
	}
	return 0;
}

static void stop_dev_keeper(struct rdf_conn *conn)
{
	if (!conn->keeper_stop)
		return;
	eventfd_write(conn->keeper_stop - 1, 1);
	pthread_join(conn->keeper, NULL);
	close(conn->keeper_stop - 1);
	conn->keeper_stop = 0;
}

/* ---- the device ---- */

static int open_device(struct rdf_conn *conn, const struct rdf_opts *o, unsigned int depth)
{
	struct rdinit_ctrl_opts ctrl;
	struct ctrl_parts parts;
	struct rdinit_dev_opts opts;
	int rc;

	rdinit_ctrl_opts_init(&ctrl);
	rdinit_dev_opts_init(&opts);
	rc = address(conn, o, &parts, &ctrl);
	if (rc)
		return rc;
	opts.ctrl = &ctrl;
	opts.queue_size = (uint16_t)((depth < RDF_DEPTH_MAX ? depth : RDF_DEPTH_MAX) + 1);
	opts.io_timeout_ms = o->io_timeout;
	opts.ctrl_loss_tmo_ms = o->ctrl_loss_tmo;
	opts.reconnect_delay_ms = o->reconnect_delay;
	rc = rdinit_dev_create(&opts, &conn->dev);
	if (!rc)
		rc = rdinit_dev_add_path(conn->dev, &parts.uri, NULL);
	if (rc >= 0)
		rc = rdinit_dev_open(conn->dev);
	if (!rc)
		rc = rdinit_dev_chan_create(conn->dev, &conn->chan);
	return rc ? fail_lib(conn, rc) : 0;
}

static int look_at_device(struct rdf_conn *conn)
{
	struct rdinit_dev_info info;
	int rc;

	rdinit_dev_info_init(&info);
	rc = rdinit_dev_get_info(conn->dev, &info);
	if (rc)
		return fail_lib(conn, rc);
	rdinit_ns_init(&conn->ns);
	conn->ns.nsid = info.nsid;
	conn->ns.block_size = info.block_size;
	conn->ns.blocks = info.blocks;
	conn->max_transfer = info.max_transfer;
	conn->depth = rdinit_dev_chan_depth(conn->chan);
	return 0;
}

int rdf_conn_open(struct rdf_conn *conn, const struct rdf_opts *o, unsigned int depth)
{
	int rc;

	memset(conn, 0, sizeof(*conn));
	rc = open_device(conn, o, depth);
	if (!rc)
		rc = look_at_device(conn);
	if (!rc)
		rc = start_dev_keeper(conn);
	if (rc) {
		conn->lost = true;
		rdf_conn_close(conn);
	}
	return rc;
}

void rdf_conn_close(struct rdf_conn *conn)
{
	stop_dev_keeper(conn);
	rdinit_dev_chan_free(&conn->chan);
	if (conn->dev && !conn->lost)
		rdinit_dev_close(conn->dev);
	rdinit_dev_free(&conn->dev);
	/* No orderly disconnect of a lost connection, because that would wait for the
	 * controller. */
	if (conn->ctrl && !conn->lost)
		rdinit_ctrl_disconnect(conn->ctrl);
	rdinit_ctrl_free(&conn->ctrl);
}
