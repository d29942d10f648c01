/* SPDX-License-Identifier: BSD-3-Clause */
#include "http.h"

#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/log.h"
#include "util/loop.h"
#include "util/sockaddr.h"
#include "target/bdev/inherit.h"
#include "target/nvmf/target.h"
#include "target/manage/figures/history.h"
#include "target/manage/figures/metrics.h"
#include "target/manage/change/mgmt_if.h"
#include "status_json.h"
#include "status_page.h"

#define BACKLOG        64
#define SEND_BUFFER    (128 << 10) /* SO_SNDBUF of a connection */
#define CONNECTIONS    64u         /* more wait in the backlog */
#define EVICT_ABOVE    48u         /* with more, the oldest one is closed */
#define ACCEPT_AT_ONCE 16
#define ACCEPT_PAUSE   RD_NSEC_PER_SEC
#define CONN_MEMORY    (32u << 10) /* per connection: request, headers, response */
#define REQUEST_MAX    (8u << 10)  /* request line and headers */
#define HEADERS_MAX    100u
#define IDLE_SECONDS   10u                    /* without receiving or sending */
#define WHOLE_TIME     (30 * RD_NSEC_PER_SEC) /* maximum lifetime of a connection */
#define CHECK_EVERY    (5 * RD_NSEC_PER_SEC)
/* With EVICT_ABOVE connections: interval of checks, and minimum age of those that are closed. */
#define CROWD_CHECK    (RD_NSEC_PER_SEC / 4)
#define CROWD_AGE      RD_NSEC_PER_SEC
#define BODIES         8u /* with more, connections that still send the oldest one are closed */
#define MAX_AGE        (RD_NSEC_PER_SEC / 2) /* maximum age of a document that is sent again */
#define NO_PAGE_POLICY "default-src 'none'; frame-ancestors 'none'"

enum http_doc_kind {
	HTTP_STATUS,
	HTTP_PROMETHEUS,
	HTTP_OPENMETRICS,
	HTTP_DOCS,
	HTTP_NO_DOC = HTTP_DOCS, /* the response needs no document */
};

/* One version of a document, which may have megabytes, shared by all connections that send it. */
struct http_body {
	TAILQ_ENTRY(http_body) link; /* the oldest one first */
	struct MHD_Response *response;
	unsigned int conns; /* that send it */
	bool current;       /* http_doc refers to it */
};

struct http_doc {               /* built once for all clients that wait for it */
	struct http_body *body; /* NULL: not built yet, or out of memory */
	uint64_t made_at;       /* ns; 0: never */
};

struct http_conn {
	TAILQ_ENTRY(http_conn) link; /* the oldest one first */
	struct rdt_http *http;
	struct MHD_Connection *mhd;
	int fd;
	uint64_t began;           /* ns */
	enum http_doc_kind needs; /* the document it waits for, while suspended */
	struct http_body *body;   /* the document being sent, or NULL */
	bool suspended;           /* waits for its document */
	bool ended;               /* its socket is shut down */
	bool waited;              /* the document was built after the request */
};

enum rdt_http_state {
	RDT_HTTP_OFF,       /* no address is configured, or rdt_http_close() was called */
	RDT_HTTP_LISTENING, /* no address, or another one, is configured -> OFF */
	RDT_HTTP_FAILED, /* cannot listen, retried every second -> LISTENING; no address, or another
			    one -> OFF */
};

struct rdt_http {
	const struct rdt_target *target;
	struct rd_loop *loop;
	struct rd_log *log;
	struct rdt_status *status;
	struct rdt_sampler *sampler;
	struct rdt_history *history; /* runs while an address is configured */

	struct rdt_mgmt_if mgmt; /* target->http */
	/* the settings of rdt_http_set(); @address NULL: do not listen */
	char *address;
	uint16_t port;
	char **names;
	unsigned int names_count;

	enum rdt_http_state state;
	char why_failed[RDT_MGMT_TEXT];
	struct rd_timer retry;  /* FAILED */
	struct MHD_Daemon *mhd; /* LISTENING; otherwise NULL */
	struct sockaddr_storage bound;
	struct rd_io listener;
	struct rd_timer pause; /* the listener is paused: no connection can be accepted */
	struct rd_ratelimit refused;
	struct rd_io io;         /* libmicrohttpd's epoll descriptor */
	struct rd_timer timeout; /* libmicrohttpd's next timeout */
	struct rd_defer again;   /* libmicrohttpd has more work */
	struct rd_timer check;   /* checks for connections that take too long */
	TAILQ_HEAD(, http_conn) conns;
	unsigned int conns_count;
	bool crowded; /* @check runs at CROWD_CHECK */

	struct http_doc docs[HTTP_DOCS];
	TAILQ_HEAD(, http_body) bodies;
	unsigned int bodies_count;
	bool healthy; /* according to the last status document */
	char why[160];
	struct rdt_metrics_ask metrics;
	enum http_doc_kind metrics_kind; /* the document being built; HTTP_NO_DOC: none */
};

/* ---- answers ---- */

static void add_header(struct MHD_Response *r, const char *name, const char *value)
{
	MHD_add_response_header(r, name, value);
}

/* @mode: who frees @text, even if this fails. The response ends the connection. */
static struct MHD_Response *http_response(const char *type, const char *policy, const void *text,
					  size_t len, enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(len, (void *)text, mode);

	if (!r) {
		if (mode == MHD_RESPMEM_MUST_FREE)
			free((void *)text);
		return NULL;
	}
	add_header(r, "Content-Type", type);
	add_header(r, "Content-Security-Policy", policy);
	add_header(r, "X-Content-Type-Options", "nosniff");
	add_header(r, "X-Frame-Options", "DENY");
	add_header(r, "Referrer-Policy", "no-referrer");
	add_header(r, "Cross-Origin-Resource-Policy", "same-origin");
	add_header(r, "Cross-Origin-Opener-Policy", "same-origin");
	add_header(r, "Cache-Control", "no-store");
	add_header(r, "Connection", "close");
	return r;
}

static enum MHD_Result http_answer(struct MHD_Connection *c, unsigned int code, const char *type,
				   const char *policy, const void *text, size_t len,
				   enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *r = http_response(type, policy, text, len, mode);
	enum MHD_Result queued;

	if (!r)
		return MHD_NO;
	if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
		add_header(r, "Allow", "GET, HEAD");
	queued = MHD_queue_response(c, code, r);
	MHD_destroy_response(r);
	return queued;
}

static enum MHD_Result answer_text(struct MHD_Connection *c, unsigned int code, const char *text)
{
	return http_answer(c, code, "text/plain; charset=utf-8", NO_PAGE_POLICY, text, strlen(text),
			   MHD_RESPMEM_MUST_COPY);
}

static enum MHD_Result answer_page(struct rdt_http *h, struct MHD_Connection *c,
				   enum http_doc_kind kind)
{
	return http_answer(c, MHD_HTTP_OK, "text/html; charset=utf-8", rdt_status_page_policy,
			   rdt_status_page, rdt_status_page_size, MHD_RESPMEM_PERSISTENT);
}

static struct http_conn *http_conn_of(struct MHD_Connection *c)
{
	return MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static enum MHD_Result answer_doc(struct rdt_http *h, struct MHD_Connection *c,
				  enum http_doc_kind kind)
{
	struct http_body *body = h->docs[kind].body;
	struct http_conn *conn = http_conn_of(c);

	if (!body)
		return answer_text(c, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory\n");
	conn->body = body;
	body->conns++;
	return MHD_queue_response(c, MHD_HTTP_OK, body->response);
}

static enum MHD_Result answer_health(struct rdt_http *h, struct MHD_Connection *c,
				     enum http_doc_kind kind)
{
	if (h->healthy)
		return answer_text(c, MHD_HTTP_OK, "ok\n");
	return answer_text(c, MHD_HTTP_SERVICE_UNAVAILABLE, h->why);
}

static const struct http_path {
	const char *path;
	enum http_doc_kind needs;
	bool openmetrics; /* for clients that ask for it; else the next row */
	enum MHD_Result (*answer)(struct rdt_http *h, struct MHD_Connection *c,
				  enum http_doc_kind kind);
} http_paths[] = {
	{"/", HTTP_NO_DOC, false, answer_page},
	{"/status.json", HTTP_STATUS, false, answer_doc},
	{"/healthz", HTTP_STATUS, false, answer_health},
	{"/metrics", HTTP_OPENMETRICS, true, answer_doc},
	{"/metrics", HTTP_PROMETHEUS, false, answer_doc},
};

/* ---- documents ---- */

static void resume_for(struct rdt_http *h, enum http_doc_kind kind);
static void run_http(struct rdt_http *h);

/* Makes libmicrohttpd see the end of the connection and free it. */
static void end_conn(struct http_conn *conn)
{
	conn->ended = true;
	shutdown(conn->fd, SHUT_RDWR);
}

static void body_release(struct rdt_http *h, struct http_body *body)
{
	if (!body || body->current || body->conns)
		return;
	TAILQ_REMOVE(&h->bodies, body, link);
	h->bodies_count--;
	MHD_destroy_response(body->response);
	free(body);
}

/* Takes ownership of @text. Returns NULL without memory. */
static struct http_body *body_new(struct rdt_http *h, enum http_doc_kind kind, char *text,
				  size_t len)
{
	const char *type = kind == HTTP_STATUS       ? "application/json"
			   : kind == HTTP_PROMETHEUS ? rdt_metrics_type(RDT_METRICS_PROMETHEUS)
						     : rdt_metrics_type(RDT_METRICS_OPENMETRICS);
	struct http_body *body = text ? calloc(1, sizeof(*body)) : NULL;

	if (!body) {
		free(text);
		return NULL;
	}
	body->response = http_response(type, NO_PAGE_POLICY, text, len, MHD_RESPMEM_MUST_FREE);
	if (!body->response) {
		free(body);
		return NULL;
	}
	body->current = true;
	TAILQ_INSERT_TAIL(&h->bodies, body, link);
	h->bodies_count++;
	return body;
}

/* Slow clients must not keep one copy of each version in memory. */
static void drop_oldest_body(struct rdt_http *h)
{
	const struct http_body *oldest = TAILQ_FIRST(&h->bodies);
	struct http_conn *conn;

	while (oldest && oldest->current)
		oldest = TAILQ_NEXT(oldest, link);
	TAILQ_FOREACH (conn, &h->conns, link)
		if (oldest && conn->body == oldest && !conn->ended)
			end_conn(conn);
}

static void drop_doc(struct rdt_http *h, enum http_doc_kind kind)
{
	struct http_body *body = h->docs[kind].body;

	h->docs[kind].body = NULL;
	if (body)
		body->current = false;
	body_release(h, body);
}

/* Takes ownership of @text. */
static void doc_made(struct rdt_http *h, enum http_doc_kind kind, char *text, size_t len)
{
	drop_doc(h, kind);
	h->docs[kind] = (struct http_doc){.body = body_new(h, kind, text, len),
					  .made_at = rd_loop_now_raw(h->loop)};
	if (!h->mhd)
		return;
	if (h->bodies_count > BODIES)
		drop_oldest_body(h);
	resume_for(h, kind);
	run_http(h);
}

static void status_made(void *arg, char *text, bool healthy, const char *why)
{
	struct rdt_http *h = arg;

	h->healthy = healthy;
	snprintf(h->why, sizeof(h->why), "%s\n", why);
	doc_made(h, HTTP_STATUS, text, text ? strlen(text) : 0);
}

static bool is_wanted(const struct rdt_http *h, enum http_doc_kind kind)
{
	const struct http_conn *conn;

	TAILQ_FOREACH (conn, &h->conns, link)
		if (conn->suspended && conn->needs == kind)
			return true;
	return false;
}

static void metrics_made(struct rdt_metrics_ask *ask, char *text, size_t len);

/* There is one request for both formats, so they are built one after the other. */
static void make_metrics(struct rdt_http *h, enum http_doc_kind kind)
{
	if (h->metrics_kind != HTTP_NO_DOC)
		return;
	h->metrics_kind = kind;
	h->metrics.format =
		kind == HTTP_OPENMETRICS ? RDT_METRICS_OPENMETRICS : RDT_METRICS_PROMETHEUS;
	h->metrics.done = metrics_made;
	rdt_metrics_ask(h->sampler, &h->metrics);
}

static void metrics_made(struct rdt_metrics_ask *ask, char *text, size_t len)
{
	struct rdt_http *h = rd_container_of(ask, struct rdt_http, metrics);
	enum http_doc_kind kind = h->metrics_kind;
	enum http_doc_kind other = kind == HTTP_OPENMETRICS ? HTTP_PROMETHEUS : HTTP_OPENMETRICS;

	h->metrics_kind = HTTP_NO_DOC;
	ask->text = NULL;
	doc_made(h, kind, text, len);
	if (is_wanted(h, other))
		make_metrics(h, other);
}

static void make_doc(struct rdt_http *h, enum http_doc_kind kind)
{
	if (kind == HTTP_STATUS)
		rdt_status_ask(h->status);
	else
		make_metrics(h, kind);
}

/* ---- requests ---- */

static const struct http_path *find_path(const char *url, const char *accept)
{
	for (size_t i = 0; i < sizeof(http_paths) / sizeof(http_paths[0]); i++)
		if (strcmp(http_paths[i].path, url) == 0 &&
		    (!http_paths[i].openmetrics || rdt_http_wants_openmetrics(accept)))
			return &http_paths[i];
	return NULL;
}

static bool is_recent(const struct rdt_http *h, enum http_doc_kind kind)
{
	uint64_t made_at = h->docs[kind].made_at;

	return made_at && rd_loop_now_raw(h->loop) - made_at < MAX_AGE;
}

static enum MHD_Result answer_wrong_host(struct MHD_Connection *c, const char *host)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "Unknown host name \"%.255s\": expected a numeric address, "
		 "\"localhost\", "
		 "or a name in http.host_names of rdtarget's configuration.\n",
		 host ? host : "");
	return answer_text(c, MHD_HTTP_MISDIRECTED_REQUEST, text);
}

/* Removes the arguments, which no path has: libmicrohttpd would make an object of each in the
 * connection's memory, which then lacks room for the response. It parses them after this call, in
 * its own buffer @uri, up to a NUL. */
static void *cut_arguments(void *arg, const char *uri, struct MHD_Connection *c)
{
	char *arguments = strchr((char *)uri, '?');

	if (arguments && arguments[1])
		arguments[1] = '\0';
	return NULL;
}

/* libmicrohttpd stores headers in the connection's memory, which must have room for the
 * response. */
static bool is_too_large(struct MHD_Connection *c)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

	return (info && info->header_size > REQUEST_MAX) ||
	       MHD_get_connection_values(c, MHD_HEADER_KIND, NULL, NULL) > (int)HEADERS_MAX;
}

/* Written to the socket, because libmicrohttpd may have no memory left for a response; the
 * connection is closed. Nothing was sent before, so the socket buffer has room. */
static enum MHD_Result answer_too_large(struct MHD_Connection *c)
{
	static const char text[] = "HTTP/1.1 431 Request Header Fields Too Large\r\n"
				   "Connection: close\r\n"
				   "Content-Length: 0\r\n\r\n";
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	ssize_t n = -1;

	if (info)
		n = send(info->connect_fd, text, sizeof(text) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)n; /* if it failed, the client has disconnected */
	return MHD_NO;
}

/* Called a second time when the connection is resumed. */
static enum MHD_Result handle_http(void *arg, struct MHD_Connection *c, const char *url,
				   const char *method, const char *version, const char *data,
				   size_t *data_size, void **request)
{
	struct rdt_http *h = arg;
	struct http_conn *conn = http_conn_of(c);
	const char *host = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host");
	const char *accept = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Accept");
	const struct http_path *path = find_path(url, accept);

	if (!conn) /* out of memory */
		return MHD_NO;
	if (is_too_large(c))
		return answer_too_large(c);
	if (!host || !rdt_http_host_allowed(host, (const char *const *)h->names, h->names_count))
		return answer_wrong_host(c, host);
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return answer_text(
			c, MHD_HTTP_METHOD_NOT_ALLOWED,
			"Only GET and HEAD are supported: this interface is read-only.\n");
	if (!path)
		return answer_text(
			c, MHD_HTTP_NOT_FOUND,
			"Unknown path: expected /, /status.json, /metrics or /healthz.\n");
	if (path->needs == HTTP_NO_DOC || is_recent(h, path->needs) || conn->waited)
		return path->answer(h, c, path->needs);
	conn->suspended = true;
	conn->needs = path->needs;
	MHD_suspend_connection(c);
	make_doc(h, path->needs);
	return MHD_YES;
}

/* ---- connections ---- */

static void evict_oldest(struct rdt_http *h)
{
	struct http_conn *conn;

	TAILQ_FOREACH (conn, &h->conns, link) {
		if (conn->ended || conn->suspended)
			continue;
		end_conn(conn);
		return;
	}
}

static void start_http_check(struct rdt_http *h)
{
	bool crowded = h->conns_count >= EVICT_ABOVE;

	if (rd_timer_armed(&h->check) && h->crowded >= crowded)
		return;
	h->crowded = crowded;
	rd_timer_stop(h->loop, &h->check);
	if (rd_timer_start(h->loop, &h->check, crowded ? CROWD_CHECK : CHECK_EVERY))
		rd_warn(h->log, RD_LOG_MAIN, "http: out of memory for a timer");
}

static void conn_began(struct rdt_http *h, struct MHD_Connection *c, void **context)
{
	struct http_conn *conn = calloc(1, sizeof(*conn));

	*context = conn;
	if (!conn)
		return;
	conn->http = h;
	conn->mhd = c;
	conn->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
	conn->began = rd_loop_now(h->loop);
	if (h->conns_count >= EVICT_ABOVE)
		evict_oldest(h);
	TAILQ_INSERT_TAIL(&h->conns, conn, link);
	h->conns_count++;
	start_http_check(h);
}

static void conn_changed(void *arg, struct MHD_Connection *c, void **context,
			 enum MHD_ConnectionNotificationCode what)
{
	struct rdt_http *h = arg;
	struct http_conn *conn = *context;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		conn_began(h, c, context);
	} else if (conn) {
		TAILQ_REMOVE(&h->conns, conn, link);
		h->conns_count--;
		if (conn->body)
			conn->body->conns--;
		body_release(h, conn->body);
		free(conn);
		*context = NULL;
	}
}

/* Clients that got a document and do not read it can occupy all connections. Then no new client
 * comes, for which evict_oldest() would close one. */
static void check_conns(struct rd_timer *timer)
{
	struct rdt_http *h = rd_container_of(timer, struct rdt_http, check);
	unsigned int excess = h->conns_count >= EVICT_ABOVE ? h->conns_count - EVICT_ABOVE + 1 : 0;
	uint64_t now = rd_loop_now(h->loop);
	struct http_conn *conn;

	TAILQ_FOREACH (conn, &h->conns, link) {
		uint64_t age = now - conn->began;

		if (conn->ended || conn->suspended || age < (excess ? CROWD_AGE : WHOLE_TIME))
			continue;
		end_conn(conn);
		excess -= excess > 0;
	}
	if (h->conns_count)
		start_http_check(h);
}

/* ---- libmicrohttpd on the main loop ---- */

static void run_http(struct rdt_http *h)
{
	MHD_UNSIGNED_LONG_LONG ms;

	MHD_run(h->mhd);
	rd_timer_stop(h->loop, &h->timeout);
	if (MHD_get_timeout(h->mhd, &ms) != MHD_YES)
		return;
	if (!ms)
		rd_defer(h->loop, &h->again, RD_DEFER_NEXT);
	else if (rd_timer_start(h->loop, &h->timeout, ms * RD_NSEC_PER_MSEC))
		rd_warn(h->log, RD_LOG_MAIN, "http: out of memory for a timer");
}

static void http_ready(struct rd_io *io, uint32_t events)
{
	run_http(rd_container_of(io, struct rdt_http, io));
}

static void http_timeout(struct rd_timer *timer)
{
	run_http(rd_container_of(timer, struct rdt_http, timeout));
}

static void http_again(struct rd_defer *defer)
{
	run_http(rd_container_of(defer, struct rdt_http, again));
}

/* ---- the listener ---- */

static void watch_http_listener(struct rdt_http *h)
{
	uint32_t events = rd_timer_armed(&h->pause) ? 0 : EPOLLIN;

	if (h->listener.events != events)
		rd_io_mod(h->loop, &h->listener, events);
}

static void http_pause_over(struct rd_timer *timer)
{
	watch_http_listener(rd_container_of(timer, struct rdt_http, pause));
}

/* Connections are accepted here, because libmicrohttpd would retry in a loop without free
 * descriptors, where the listener stays readable. */
static void accept_http(struct rd_io *io, uint32_t events)
{
	struct rdt_http *h = rd_container_of(io, struct rdt_http, listener);
	struct sockaddr_storage ss;
	int fd = 0;

	for (int i = 0; i < ACCEPT_AT_ONCE && fd >= 0 && h->conns_count < CONNECTIONS; i++) {
		socklen_t len = sizeof(ss);

		fd = accept4(io->fd, (struct sockaddr *)&ss, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) /* takes ownership of the descriptor */
			MHD_add_connection(h->mhd, fd, (struct sockaddr *)&ss, len);
	}
	if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
		rd_log_limited(&h->refused, rd_loop_now(h->loop), h->log, RD_LOG_MAIN, RD_LOG_WARN,
			       "http: cannot accept a client: %s; trying again in 1 s",
			       strerror(errno));
	else if (h->conns_count < CONNECTIONS)
		goto out;
	if (rd_timer_start(h->loop, &h->pause, ACCEPT_PAUSE))
		rd_warn(h->log, RD_LOG_MAIN, "http: out of memory for a timer");
	watch_http_listener(h);
out:
	run_http(h);
}

/* Resumes the connections that wait for @kind; HTTP_NO_DOC: all. */
static void resume_for(struct rdt_http *h, enum http_doc_kind kind)
{
	struct http_conn *conn;

	TAILQ_FOREACH (conn, &h->conns, link) {
		if (!conn->suspended || (kind != HTTP_NO_DOC && conn->needs != kind))
			continue;
		conn->suspended = false;
		conn->waited = true;
		MHD_resume_connection(conn->mhd);
	}
}

/* Errors caused by clients are of no use to an operator, so they are debug messages. */
__attribute__((format(printf, 2, 0))) static void http_logs(void *arg, const char *fmt, va_list ap)
{
	const struct rdt_http *h = arg;
	char text[256];

	vsnprintf(text, sizeof(text), fmt, ap);
	text[strcspn(text, "\n")] = '\0';
	rd_debug(h->log, RD_LOG_MAIN, "http: %s", text);
}

/* ---- the listener ---- */

static int open_socket(const struct sockaddr_storage *addr, const char **what)
{
	const struct sockaddr *sa = (const struct sockaddr *)addr;
	int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1, room = SEND_BUFFER, err;

	*what = "cannot create a socket";
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	/* Inherited by connections; without it each may occupy megabytes of kernel memory. */
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	if (sa->sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	*what = "cannot bind";
	if (bind(fd, sa, rd_addr_len(sa)) == 0) {
		*what = "cannot listen";
		if (listen(fd, BACKLOG) == 0)
			return fd;
	}
	err = -errno;
	close(fd);
	return err;
}

static struct MHD_Daemon *start_mhd(struct rdt_http *h)
{
	return MHD_start_daemon(
		MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME |
			MHD_USE_ERROR_LOG,
		0, NULL, NULL, handle_http, h, MHD_OPTION_EXTERNAL_LOGGER, http_logs, h,
		MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
		IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONN_MEMORY,
		MHD_OPTION_NOTIFY_CONNECTION, conn_changed, h, MHD_OPTION_URI_LOG_CALLBACK,
		cut_arguments, NULL, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
}

/* Closes the listener and its connections, if it is open. */
static void stop_listening(struct rdt_http *h)
{
	if (!h->mhd)
		return;
	resume_for(h, HTTP_NO_DOC);
	rd_io_del(h->loop, &h->listener);
	close(h->listener.fd);
	rd_io_del(h->loop, &h->io);
	MHD_stop_daemon(h->mhd); /* calls conn_changed() for each connection */
	h->mhd = NULL;
	rd_timer_stop(h->loop, &h->pause);
	rd_timer_stop(h->loop, &h->timeout);
	rd_timer_stop(h->loop, &h->check);
	rd_defer_cancel(h->loop, &h->again);
}

/* The socket inherited from the previous process, or -1. */
static int inherited_http_socket(const struct rdt_http *h, const struct sockaddr_storage *addr)
{
	int fd = rdt_inherit_open(h->target->env->inherit, RDT_INHERIT_HTTP);
	char want[RD_ADDR_TEXT], have[RD_ADDR_TEXT];
	struct sockaddr_storage at;
	socklen_t len = sizeof(at);

	if (fd < 0)
		return -1;
	if (getsockname(fd, (struct sockaddr *)&at, &len) == 0 &&
	    strcmp(rd_addr_format_host((const struct sockaddr *)&at, have),
		   rd_addr_format_host((const struct sockaddr *)addr, want)) == 0 &&
	    (!h->port || rd_addr_port((const struct sockaddr *)&at) == h->port))
		return fd;
	close(fd);
	return -1;
}

static int start_listening(struct rdt_http *h, const struct sockaddr_storage *addr,
			   const char **what)
{
	const union MHD_DaemonInfo *info;
	socklen_t len = sizeof(h->bound);
	int fd = inherited_http_socket(h, addr);
	int err;

	if (fd < 0)
		fd = open_socket(addr, what);

	if (fd < 0)
		return fd;
	*what = "cannot start libmicrohttpd";
	h->mhd = start_mhd(h);
	err = h->mhd ? rd_io_add(h->loop, &h->listener, fd, EPOLLIN, accept_http) : -ENOMEM;
	if (err)
		goto err_mhd;
	getsockname(fd, (struct sockaddr *)&h->bound, &len);
	info = MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_EPOLL_FD);
	err = rd_io_add(h->loop, &h->io, info->epoll_fd, EPOLLIN, http_ready);
	if (!err)
		return 0;
	rd_io_del(h->loop, &h->listener);
err_mhd:
	if (h->mhd)
		MHD_stop_daemon(h->mhd);
	h->mhd = NULL;
	close(fd);
	return err;
}

static void tell_listening(const struct rdt_http *h)
{
	const struct sockaddr *sa = (const struct sockaddr *)&h->bound;
	char text[RD_ADDR_TEXT];

	rd_notice(h->log, RD_LOG_MAIN, "http: status page at http://%s/", rd_addr_format(sa, text));
}

/* Listens as configured, or retries every second, logging new reasons. Returns 0 or -errno. */
static int http_listen(struct rdt_http *h)
{
	const char *what = "cannot parse the address";
	struct sockaddr_storage addr;
	char why[sizeof(h->why_failed)];
	int err = rd_addr_parse(h->address, h->port, &addr);

	if (!err)
		err = start_listening(h, &addr, &what);
	if (!err) {
		h->state = RDT_HTTP_LISTENING;
		tell_listening(h);
		return 0;
	}
	snprintf(why, sizeof(why), "http: %.60s port %u: %s: %s%s", h->address, h->port, what,
		 strerror(-err),
		 err == -EADDRINUSE ? "; choose another port, or stop the program that uses it"
				    : "");
	if (h->state != RDT_HTTP_FAILED || strcmp(why, h->why_failed) != 0)
		rd_err(h->log, RD_LOG_MAIN, "%s; trying again every second", why);
	memcpy(h->why_failed, why, sizeof(why));
	h->state = RDT_HTTP_FAILED;
	if (rd_timer_start(h->loop, &h->retry, RD_NSEC_PER_SEC))
		rd_err(h->log, RD_LOG_MAIN,
		       "http: out of memory for a timer; the next change of http tries again");
	return err;
}

static void http_retry(struct rd_timer *timer)
{
	http_listen(rd_container_of(timer, struct rdt_http, retry));
}

static void http_unlisten(struct rdt_http *h)
{
	rd_timer_stop(h->loop, &h->retry);
	stop_listening(h);
	h->state = RDT_HTTP_OFF;
}

static const char *http_failed(const struct rdt_mgmt_if *mgmt)
{
	const struct rdt_http *h = rd_container_of(mgmt, struct rdt_http, mgmt);

	return h->state == RDT_HTTP_FAILED ? h->why_failed : NULL;
}

static void free_settings(char *address, char **names, unsigned int count)
{
	for (unsigned int i = 0; names && i < count; i++)
		free(names[i]);
	free(names);
	free(address);
}

/* Copies @cfg into the settings. Returns 0 or -ENOMEM. */
static int copy_settings(struct rdt_http *h, const struct rdt_http_config *cfg)
{
	char *address = cfg->address ? strdup(cfg->address) : NULL;
	char **names = calloc(cfg->host_names_count + 1, sizeof(*names));
	bool complete = names && (address || !cfg->address);

	for (unsigned int i = 0; i < cfg->host_names_count && complete; i++) {
		names[i] = strdup(cfg->host_names[i]);
		complete = names[i] != NULL;
	}
	if (!complete) {
		free_settings(address, names, cfg->host_names_count);
		return -ENOMEM;
	}
	free_settings(h->address, h->names, h->names_count);
	h->address = address;
	h->names = names;
	h->names_count = cfg->host_names_count;
	h->port = cfg->port;
	return 0;
}

int rdt_http_set(struct rdt_http *h, const struct rdt_http_config *cfg, char *text,
		 size_t text_size)
{
	bool same_place = rdt_config_same_text(h->address, cfg->address) &&
			  (!h->address || h->port == cfg->port);
	bool same_names =
		rdt_config_same_list((const char *const *)h->names, h->names_count,
				     (const char *const *)cfg->host_names, cfg->host_names_count);
	int err = 0;

	if (copy_settings(h, cfg)) {
		snprintf(text, text_size, "http: out of memory; the next reload tries again");
		return -ENOMEM;
	}
	if (cfg->address)
		rdt_history_start(h->history);
	else
		rdt_history_stop(h->history);
	if (!same_place) {
		if (h->mhd && !h->address)
			rd_notice(h->log, RD_LOG_MAIN, "http: the listener is closed");
		http_unlisten(h);
		if (h->address)
			err = http_listen(h);
	}
	if (err)
		snprintf(text, text_size, "%s", h->why_failed);
	return err ? err : !same_place + !same_names;
}

static int http_set(struct rdt_mgmt_if *mgmt, const struct rdt_config *cfg, char *text,
		    size_t text_size)
{
	return rdt_http_set(rd_container_of(mgmt, struct rdt_http, mgmt), &cfg->http, text,
			    text_size);
}

/* ---- beginning and end ---- */

int rdt_http_new(struct rdt_target *target, const struct rdt_reloader *reloader,
		 struct rdt_sampler *sampler, struct rdt_http **out)
{
	struct rdt_http *h = calloc(1, sizeof(*h));

	*out = NULL;
	if (!h)
		return -ENOMEM;
	h->history = rdt_history_new(target);
	if (!h->history ||
	    rdt_status_new(target, reloader, sampler, h->history, status_made, h, &h->status)) {
		rdt_history_free(&h->history);
		free(h);
		return -ENOMEM;
	}
	h->mgmt = (struct rdt_mgmt_if){.set = http_set, .failed = http_failed};
	target->http = &h->mgmt;
	h->target = target;
	h->sampler = sampler;
	h->metrics_kind = HTTP_NO_DOC;
	h->loop = target->loop;
	h->log = target->log;
	h->timeout.fn = http_timeout;
	h->retry.fn = http_retry;
	h->check.fn = check_conns;
	h->pause.fn = http_pause_over;
	h->again.fn = http_again;
	TAILQ_INIT(&h->conns);
	TAILQ_INIT(&h->bodies);
	*out = h;
	return 0;
}

int rdt_http_share(const struct rdt_http *h)
{
	return h && h->state == RDT_HTTP_LISTENING ? h->listener.fd : -1;
}

void rdt_http_close(struct rdt_http *h)
{
	if (!h)
		return;
	rdt_status_stop(h->status);
	rdt_history_stop(h->history);
	http_unlisten(h);
}

void rdt_http_free(struct rdt_http **out)
{
	struct rdt_http *h = *out;

	if (!h)
		return;
	rdt_status_free(&h->status);
	rdt_history_free(&h->history);
	free_settings(h->address, h->names, h->names_count);
	for (unsigned int i = 0; i < HTTP_DOCS; i++)
		drop_doc(h, i);
	free(h->metrics.text); /* set if the sampler was closed during a request */
	free(h);
	*out = NULL;
}
