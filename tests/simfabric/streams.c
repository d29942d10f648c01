/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets. As with Linux: a connection is there when its request has reached a listener, whoever
 * accepts it; what has arrived can be read after a reset too; a socket that is closed with unread
 * data resets its connection; what was sent before an orderly end arrives. A socket may have
 * several descriptors, also of several processes, and ends with the last one.
 */
#include "streams.h"

#include <netinet/in.h>
#include <stdlib.h>

#include "util/sockaddr.h"

#include "internal.h"

#define FIRST_FD   (1 << 20)
#define PIECES     4u   /* into which the bytes of one call are cut, at most */
#define FIRST_PDU  128u /* bytes of ICReq and ICResp, which no digest protects */
#define SYN_AGAIN  RD_NSEC_PER_SEC
#define FIRST_PORT 40000u

/* A descriptor of a process. */
struct rd_sim_desc {
	TAILQ_ENTRY(rd_sim_desc) entry; /* of its socket */
	struct rd_sim_sock *sock;
	int fd;
	unsigned int owner;
	struct rd_io *io; /* NULL: not watched */
	struct rd_loop *loop;
	struct rd_defer ready;
};

struct rd_sim_sock {
	struct rd_sim_end end;
	struct sockaddr_storage local, remote;
	TAILQ_HEAD(, rd_sim_desc) descs; /* empty: nobody has accepted it yet */
	bool listens, open, lost;
	bool counts;    /* an eventfd: it is none */
	uint64_t count; /* of it */
	bool eof;       /* the peer sends no more */
	bool shut;      /* this side sends no more */
	bool abandoned;
	int error; /* SO_ERROR */
	uint8_t *in;
	size_t in_len, in_size;
	size_t window;  /* bytes that may be under way, or unread */
	size_t waiting; /* that are */
	uint64_t sent;
	TAILQ_HEAD(, rd_sim_sock) accepted; /* of a listener */
	TAILQ_ENTRY(rd_sim_sock) link;
	struct rd_sim_sock *listener; /* on whose list it is */
};

/* As the descriptors of a process. */
static struct rd_sim *streams_sim;
static unsigned int streams_owner;

void rd_sim_streams(struct rd_sim *sim)
{
	streams_sim = sim;
	streams_owner = 0;
}

unsigned int rd_sim_enter(unsigned int process)
{
	unsigned int before = streams_owner;

	streams_owner = process;
	return before;
}

unsigned int rd_sim_socks(const struct rd_sim *sim)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < sim->socks_count; i++)
		count += sim->socks[i] != NULL;
	return count;
}

static struct rd_sim_desc *desc_at(int fd)
{
	unsigned int index = (unsigned int)(fd - FIRST_FD);

	return fd >= FIRST_FD && index < streams_sim->socks_count ? streams_sim->socks[index]
								  : NULL;
}

static struct rd_sim_sock *sock_at(int fd)
{
	const struct rd_sim_desc *d = desc_at(fd);

	return d ? d->sock : NULL;
}

static struct rd_sim_sock *sock_of(struct rd_sim_end *end)
{
	return rd_container_of(end, struct rd_sim_sock, end);
}

static int fail_with(int err)
{
	errno = err;
	return -1;
}

/* ---- readiness ---- */

static uint32_t sock_events(const struct rd_sim_sock *s)
{
	uint32_t events = 0;

	if (s->counts)
		return s->count ? EPOLLIN : 0;
	if (s->listens)
		return TAILQ_EMPTY(&s->accepted) ? 0 : EPOLLIN;
	if (s->in_len || s->eof || s->lost)
		events |= EPOLLIN;
	if (s->lost || (s->open && s->waiting < s->window))
		events |= EPOLLOUT;
	if (s->lost || (s->eof && s->shut))
		events |= EPOLLHUP;
	return events | (s->error ? (uint32_t)EPOLLERR : 0);
}

static uint32_t wanted_events(const struct rd_sim_desc *d)
{
	return d->io ? sock_events(d->sock) & (d->io->events | EPOLLERR | EPOLLHUP) : 0;
}

static void wake_desc(struct rd_sim_desc *d)
{
	if (wanted_events(d))
		rd_defer(d->loop, &d->ready, RD_DEFER_NEXT);
}

static void wake_sock(struct rd_sim_sock *s)
{
	struct rd_sim_desc *d;

	TAILQ_FOREACH (d, &s->descs, entry)
		wake_desc(d);
}

static void desc_ready(struct rd_defer *defer)
{
	struct rd_sim_desc *d = rd_container_of(defer, struct rd_sim_desc, ready);
	uint32_t events = wanted_events(d);
	int fd = d->fd;

	if (!events)
		return;
	d->io->fn(d->io, events); /* may close it */
	if (desc_at(fd) == d)
		wake_desc(d);
}

/* ---- the end ---- */

static void leave_sim_link(struct rd_sim_sock *s)
{
	struct rd_sim_link *link = s->end.link;

	rd_sim_cancel(s->end.sim, &s->end.timer);
	s->end.link = NULL;
	if (link)
		rd_sim_link_leave(link, s->end.side);
}

static void lose_sock(struct rd_sim_sock *s, int err)
{
	leave_sim_link(s);
	s->open = false;
	s->lost = true;
	s->error = err;
	wake_sock(s);
}

static void sock_timer(struct rd_sim_event *event)
{
	struct rd_sim_sock *s = rd_container_of(event, struct rd_sim_sock, end.timer);

	lose_sock(s, -s->end.timer_status);
}

static void send_to_peer(struct rd_sim_sock *s, struct rd_sim_msg msg)
{
	if (s->end.link)
		rd_sim_link_send(s->end.link, !s->end.side, msg);
	else
		free(msg.data);
}

static void free_sock(struct rd_sim_sock *s)
{
	struct rd_sim_sock *child;

	while ((child = TAILQ_FIRST(&s->accepted))) {
		TAILQ_REMOVE(&s->accepted, child, link);
		child->listener = NULL;
		send_to_peer(child, (struct rd_sim_msg){.kind = RD_SIM_MSG_RESET});
		free_sock(child);
	}
	leave_sim_link(s);
	free(s->in);
	free(s);
}

/* The network has what arrives in time; what it holds is retransmitted later, or not. */
bool sim_tcp_abandon(int fd)
{
	struct rd_sim_sock *s = sock_at(fd);

	s->abandoned = s->open && s->end.link && rd_sim_link_holds(s->end.link, !s->end.side);
	return s->abandoned;
}

/* The last descriptor of @s is closed. */
static void end_sock(struct rd_sim_sock *s)
{
	if (s->abandoned && s->end.link) {
		rd_sim_link_drop_held(s->end.link, !s->end.side);
		send_to_peer(s, (struct rd_sim_msg){.kind = RD_SIM_MSG_RESET});
	} else if (s->in_len && s->end.link) {
		rd_sim_link_cut_tail(s->end.link, !s->end.side);
		send_to_peer(s, (struct rd_sim_msg){.kind = RD_SIM_MSG_RESET});
	} else if (!s->shut) {
		send_to_peer(s, (struct rd_sim_msg){.kind = RD_SIM_MSG_FIN});
	}
	free_sock(s);
}

static void release_sock(struct rd_sim_desc *d)
{
	struct rd_sim_sock *s = d->sock;

	TAILQ_REMOVE(&s->descs, d, entry);
	if (TAILQ_EMPTY(&s->descs))
		end_sock(s);
}

int sim_close(int fd)
{
	struct rd_sim_desc *d = desc_at(fd);

	if (!d)
		return fd < FIRST_FD ? close(fd) : fail_with(EBADF);
	if (d->loop)
		rd_defer_cancel(d->loop, &d->ready);
	release_sock(d);
	streams_sim->socks[fd - FIRST_FD] = NULL;
	free(d);
	return 0;
}

int sim_shutdown(int fd, int how)
{
	struct rd_sim_sock *s = sock_at(fd);

	if (!s->open || how != SHUT_WR)
		return fail_with(ENOTCONN);
	if (!s->shut)
		send_to_peer(s, (struct rd_sim_msg){.kind = RD_SIM_MSG_FIN});
	s->shut = true;
	return 0;
}

/* ---- arrival ---- */

static void bytes_arrived(struct rd_sim_sock *s, const struct rd_sim_msg *msg)
{
	size_t need = s->in_len + msg->length;

	if (need > s->in_size) {
		uint8_t *in = realloc(s->in, 2 * need);

		if (!in) {
			lose_sock(s, ENOMEM);
			return;
		}
		s->in = in;
		s->in_size = 2 * need;
	}
	memcpy(s->in + s->in_len, msg->data, msg->length);
	s->in_len = need;
}

static void sock_arrived(struct rd_sim_end *end, struct rd_sim_end *from, struct rd_sim_msg *msg)
{
	struct rd_sim_sock *s = sock_of(end);

	(void)from;
	switch (msg->kind) {
	case RD_SIM_MSG_ACCEPT:
		s->open = true;
		end->link->was_open = true;
		break;
	case RD_SIM_MSG_BYTES:
		bytes_arrived(s, msg);
		break;
	case RD_SIM_MSG_WINDOW:
		s->waiting -= msg->length;
		break;
	case RD_SIM_MSG_FIN:
		s->eof = true;
		break;
	default:
		lose_sock(s, ECONNRESET);
		return;
	}
	wake_sock(s);
}

/* ---- creation ---- */

static struct rd_sim_sock *new_sock(struct rd_sim *sim)
{
	static const struct rd_sim_end_ops ops = {.arrived = sock_arrived, .is_stream = true};
	static const size_t windows[] = {700, 3000, 20000, 1 << 20};
	struct rd_sim_sock *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->end = (struct rd_sim_end){
		.ops = &ops, .sim = sim, .local = &s->local, .remote = &s->remote};
	s->end.timer.fn = sock_timer;
	s->window = windows[rd_sim_below(sim, sizeof(windows) / sizeof(windows[0]))];
	TAILQ_INIT(&s->accepted);
	TAILQ_INIT(&s->descs);
	return s;
}

/* Gives it the lowest descriptor that is free. Returns that, or -1. */
static int name_sock(struct rd_sim_sock *s)
{
	struct rd_sim *sim = s->end.sim;
	struct rd_sim_desc **socks, *d;
	unsigned int i = 0;

	while (i < sim->socks_count && sim->socks[i])
		i++;
	if (i == sim->socks_count) {
		socks = reallocarray(sim->socks, i + 1, sizeof(struct rd_sim_desc *));
		if (!socks)
			return fail_with(ENOMEM);
		sim->socks = socks;
		sim->socks[sim->socks_count++] = NULL;
	}
	d = calloc(1, sizeof(*d));
	if (!d)
		return fail_with(ENOMEM);
	*d = (struct rd_sim_desc){
		.sock = s, .fd = FIRST_FD + (int)i, .owner = streams_owner, .ready.fn = desc_ready};
	TAILQ_INSERT_TAIL(&s->descs, d, entry);
	sim->socks[i] = d;
	return d->fd;
}

int sim_fcntl(int fd, int cmd, int arg)
{
	struct rd_sim_sock *s = sock_at(fd);

	if (!s)
		return fd < FIRST_FD ? fcntl(fd, cmd, arg) : fail_with(EBADF);
	if (cmd == F_GETFL)
		return O_RDWR | O_NONBLOCK;
	return cmd == F_DUPFD_CLOEXEC ? name_sock(s) : fail_with(EINVAL);
}

/* ---- the end of a process ---- */

/* What is left of the process finds its socket closed by the peer. */
static void bereave_desc(struct rd_sim_desc *d)
{
	struct rd_sim_sock *dead = new_sock(d->sock->end.sim);

	if (!dead)
		return;
	dead->local = d->sock->local;
	dead->remote = d->sock->remote;
	dead->lost = true;
	dead->error = ECONNRESET;
	release_sock(d);
	d->sock = dead;
	TAILQ_INSERT_TAIL(&dead->descs, d, entry);
	wake_desc(d);
}

void rd_sim_pass(int fd, unsigned int process)
{
	struct rd_sim_desc *d = desc_at(fd);

	if (d)
		d->owner = process;
}

void rd_sim_end_process(struct rd_sim *sim, unsigned int process)
{
	for (unsigned int i = 0; i < sim->socks_count; i++)
		if (sim->socks[i] && sim->socks[i]->owner == process &&
		    !sim->socks[i]->sock->counts)
			bereave_desc(sim->socks[i]);
}

/* ---- creation of sockets ---- */

int sim_socket(int domain, int type, int protocol)
{
	struct rd_sim_sock *s = new_sock(streams_sim);
	int fd;

	(void)type, (void)protocol;
	if (!s)
		return fail_with(ENOMEM);
	s->local.ss_family = (sa_family_t)domain;
	fd = name_sock(s);
	if (fd < 0)
		free_sock(s);
	return fd;
}

int sim_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct rd_sim_sock *s = sock_at(fd);

	memcpy(&s->local, addr, len);
	if (!rd_addr_port(addr))
		rd_addr_set_port((struct sockaddr *)&s->local,
				 (uint16_t)(FIRST_PORT + s->end.sim->ports++ % 10000));
	return 0;
}

/* ---- event descriptors ---- */

int sim_eventfd(unsigned int count, int flags)
{
	int fd = sim_socket(AF_UNSPEC, 0, 0);

	(void)flags;
	if (fd < 0)
		return fd;
	sock_at(fd)->counts = true;
	sock_at(fd)->count = count;
	return fd;
}

ssize_t sim_read(int fd, void *buf, size_t len)
{
	struct rd_sim_sock *s = sock_at(fd);

	if (len < sizeof(s->count))
		return fail_with(EINVAL);
	if (!s->count)
		return fail_with(EAGAIN);
	memcpy(buf, &s->count, sizeof(s->count));
	s->count = 0;
	return sizeof(s->count);
}

ssize_t sim_write(int fd, const void *buf, size_t len)
{
	struct rd_sim_sock *s = sock_at(fd);
	uint64_t count;

	if (len < sizeof(count))
		return fail_with(EINVAL);
	memcpy(&count, buf, sizeof(count));
	s->count += count;
	wake_sock(s);
	return sizeof(count);
}

/* ---- listeners ---- */

static struct rd_sim_sock *find_listening(const struct rd_sim *sim,
					  const struct sockaddr_storage *addr)
{
	for (unsigned int i = 0; i < sim->socks_count; i++) {
		struct rd_sim_sock *s = sim->socks[i] ? sim->socks[i]->sock : NULL;

		if (s && s->listens &&
		    rd_addr_equal((struct sockaddr *)&s->local, (const struct sockaddr *)addr))
			return s;
	}
	return NULL;
}

int sim_tcp_listen(const struct sockaddr *addr, int backlog, const struct rd_tcp_opts *opts,
		   struct sockaddr_storage *bound)
{
	struct rd_sim_sock *s;
	int fd = sim_socket(addr->sa_family, SOCK_STREAM, 0);

	(void)backlog, (void)opts;
	if (fd < 0)
		return -errno;
	s = sock_at(fd);
	sim_bind(fd, addr, rd_addr_len(addr));
	if (find_listening(s->end.sim, &s->local)) {
		sim_close(fd);
		return -EADDRINUSE;
	}
	s->listens = true;
	*bound = s->local;
	return fd;
}

int sim_tcp_listen_on(int fd, const struct rd_tcp_opts *opts, struct sockaddr_storage *bound)
{
	const struct rd_sim_sock *s = sock_at(fd);

	(void)opts;
	if (!s->listens)
		return -EINVAL;
	*bound = s->local;
	return 0;
}

int sim_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct rd_sim_sock *lis = sock_at(fd), *s = TAILQ_FIRST(&lis->accepted);
	int got;

	(void)flags;
	if (!s)
		return fail_with(EAGAIN);
	got = name_sock(s);
	if (got < 0)
		return -1;
	TAILQ_REMOVE(&lis->accepted, s, link);
	s->listener = NULL;
	*len = rd_addr_len((struct sockaddr *)&s->remote);
	memcpy(addr, &s->remote, *len);
	return got;
}

/* ---- connecting ---- */

static void syn_arrived(struct rd_sim_event *event)
{
	struct rd_sim_link *link = rd_container_of(event, struct rd_sim_link, request);
	struct rd_sim_sock *s = link->end[0] ? sock_of(link->end[0]) : NULL, *lis, *peer;

	if (!s) {
		rd_sim_link_settle(link);
		return;
	}
	if (rd_sim_port_is_down(link->sim, link->port)) {
		rd_sim_at(link->sim, &link->request, SYN_AGAIN);
		return;
	}
	lis = find_listening(link->sim, &s->remote);
	peer = lis ? new_sock(link->sim) : NULL;
	if (!peer) {
		lose_sock(s, ECONNREFUSED);
		return;
	}
	rd_sim_tell(link->sim, "link %llu: stream", (unsigned long long)link->id);
	peer->local = s->remote;
	peer->remote = s->local;
	peer->open = true;
	peer->end.link = link;
	peer->end.side = 1;
	link->end[1] = &peer->end;
	peer->listener = lis;
	TAILQ_INSERT_TAIL(&lis->accepted, peer, link);
	wake_sock(lis);
	rd_sim_link_send(link, 0, (struct rd_sim_msg){.kind = RD_SIM_MSG_ACCEPT});
}

int sim_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct rd_sim_sock *s = sock_at(fd);
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)};
	struct rd_sim_link *link;
	int rc;

	if (!rd_addr_port((struct sockaddr *)&s->local))
		sim_bind(fd, (struct sockaddr *)&own, sizeof(own));
	memcpy(&s->remote, addr, len);
	rc = rd_sim_link_create(&s->end, &link);
	if (rc)
		return fail_with(-rc);
	link->port = rd_addr_port(addr);
	link->request.fn = syn_arrived;
	rc = rd_sim_at(s->end.sim, &link->request, rd_sim_latency(s->end.sim));
	return fail_with(rc ? -rc : EINPROGRESS);
}

/* ---- bytes ---- */

/* Returns the bytes that may be sent now. */
static size_t room_of(struct rd_sim_sock *s)
{
	size_t room = s->waiting < s->window ? s->window - s->waiting : 0;

	/* The first PDUs fit an empty socket. */
	if (s->sent >= FIRST_PDU && room && rd_sim_chance(s->end.sim, 1, 8))
		room = 1 + rd_sim_below(s->end.sim, room);
	return room;
}

/* Returns false without memory. */
static bool send_piece(struct rd_sim_sock *s, const uint8_t *data, size_t len)
{
	struct rd_sim *sim = s->end.sim;
	struct rd_sim_pipe *pipe = &s->end.link->pipe[!s->end.side];
	struct rd_sim_msg msg = rd_sim_answer(RD_SIM_MSG_BYTES, data, len);

	if (!msg.data)
		return false;
	if (pipe->corrupts && s->sent >= FIRST_PDU) {
		pipe->corrupts = false;
		msg.data[rd_sim_below(sim, len)] ^= (uint8_t)(1u << rd_sim_below(sim, 8));
		rd_sim_tell(sim, "link %llu: a bit is wrong", (unsigned long long)s->end.link->id);
	}
	s->sent += len;
	s->waiting += len;
	send_to_peer(s, msg);
	return true;
}

static void send_pieces(struct rd_sim_sock *s, const uint8_t *data, size_t len)
{
	for (unsigned int i = 1; len; i++) {
		size_t piece = len;

		if (i < PIECES && rd_sim_chance(s->end.sim, 1, 2))
			piece = 1 + rd_sim_below(s->end.sim, len);
		if (!send_piece(s, data, piece)) {
			lose_sock(s, ENOMEM);
			return;
		}
		data += piece;
		len -= piece;
	}
}

static ssize_t take_error(struct rd_sim_sock *s, int otherwise)
{
	int err = s->error ? s->error : otherwise;

	s->error = 0;
	return fail_with(err);
}

ssize_t sim_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct rd_sim_sock *s = sock_at(fd);
	size_t len = 0, room;
	uint8_t *all;

	(void)flags;
	if (!s->open || s->shut)
		return take_error(s, EPIPE);
	room = room_of(s);
	if (!room)
		return fail_with(EAGAIN);
	all = malloc(room);
	if (!all)
		return fail_with(ENOMEM);
	for (size_t i = 0; i < msg->msg_iovlen && len < room; i++) {
		size_t part = msg->msg_iov[i].iov_len;

		part = part < room - len ? part : room - len;
		if (part)
			memcpy(all + len, msg->msg_iov[i].iov_base, part);
		len += part;
	}
	send_pieces(s, all, len);
	free(all);
	return (ssize_t)len;
}

ssize_t sim_send(int fd, const void *buf, size_t len, int flags)
{
	struct iovec iov = {(void *)(uintptr_t)buf, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	return sim_sendmsg(fd, &msg, flags);
}

/* Returns the bytes that may be read now, or -1. */
static ssize_t readable(struct rd_sim_sock *s)
{
	size_t may = s->in_len;

	if (!may) {
		if (s->error)
			return take_error(s, 0);
		return s->eof || s->lost ? 0 : fail_with(EAGAIN);
	}
	if (rd_sim_chance(s->end.sim, 1, 4))
		may = 1 + rd_sim_below(s->end.sim, may);
	return (ssize_t)may;
}

static ssize_t have_read(struct rd_sim_sock *s, size_t len)
{
	s->in_len -= len;
	memmove(s->in, s->in + len, s->in_len);
	send_to_peer(s, (struct rd_sim_msg){.kind = RD_SIM_MSG_WINDOW, .length = (uint32_t)len});
	return (ssize_t)len;
}

ssize_t sim_readv(int fd, const struct iovec *iov, int count)
{
	struct rd_sim_sock *s = sock_at(fd);
	ssize_t may = readable(s);
	size_t got = 0;

	for (int i = 0; i < count && (ssize_t)got < may; i++) {
		size_t left = (size_t)may - got;
		size_t part = iov[i].iov_len < left ? iov[i].iov_len : left;

		if (part)
			memcpy(iov[i].iov_base, s->in + got, part);
		got += part;
	}
	return may > 0 ? have_read(s, got) : may;
}

ssize_t sim_recv(int fd, void *buf, size_t len, int flags)
{
	const struct iovec iov = {buf, len};
	struct rd_sim_sock *s = sock_at(fd);
	ssize_t may;

	if (!(flags & (MSG_PEEK | MSG_TRUNC)))
		return sim_readv(fd, &iov, 1);
	may = readable(s);
	if (may <= 0)
		return may;
	len = len < (size_t)may ? len : (size_t)may;
	if (flags & MSG_TRUNC)
		return have_read(s, len);
	memcpy(buf, s->in, len);
	return (ssize_t)len;
}

/* ---- what a socket says ---- */

int sim_tcp_set_opts(int fd, const struct rd_tcp_opts *opts)
{
	(void)fd, (void)opts;
	return 0;
}

int sim_tcp_broken(int fd, uint32_t events)
{
	struct rd_sim_sock *s = sock_at(fd);
	int err = s->error ? s->error : ECONNRESET;

	if (!(events & (EPOLLERR | EPOLLHUP)))
		return 0;
	s->error = 0;
	return -err;
}

int sim_getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	const struct rd_sim_sock *s = sock_at(fd);

	*len = rd_addr_len((const struct sockaddr *)&s->local);
	memcpy(addr, &s->local, *len);
	return 0;
}

int sim_getpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	const struct rd_sim_sock *s = sock_at(fd);

	if (!s->open)
		return fail_with(ENOTCONN);
	*len = rd_addr_len((const struct sockaddr *)&s->remote);
	memcpy(addr, &s->remote, *len);
	return 0;
}

int sim_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	struct rd_sim_sock *s = sock_at(fd);

	(void)len;
	if (level == SOL_SOCKET && name == SO_TYPE) {
		memcpy(value, &(int){SOCK_STREAM}, sizeof(int));
		return 0;
	}
	if (level != SOL_SOCKET || name != SO_ERROR)
		return fail_with(ENOPROTOOPT);
	memcpy(value, &s->error, sizeof(s->error));
	s->error = 0;
	return 0;
}

bool sim_tcp_reports(int fd, short events)
{
	const struct rd_sim_sock *s = sock_at(fd);

	return s && (((events & POLLIN) && s->in_len) || s->eof || s->lost);
}

/* ---- the loop ---- */

int sim_io_add(struct rd_loop *loop, struct rd_io *io, int fd, uint32_t events,
	       void (*fn)(struct rd_io *io, uint32_t events))
{
	struct rd_sim_desc *d = desc_at(fd);

	io->fd = fd;
	io->fn = fn;
	io->events = events;
	io->added = true;
	d->io = io;
	d->loop = loop;
	wake_desc(d);
	return 0;
}

int sim_io_mod(struct rd_loop *loop, struct rd_io *io, uint32_t events)
{
	(void)loop;
	io->events = events;
	wake_desc(desc_at(io->fd));
	return 0;
}

void sim_io_del(struct rd_loop *loop, struct rd_io *io)
{
	struct rd_sim_desc *d = io->added ? desc_at(io->fd) : NULL;

	io->added = false;
	if (!d)
		return;
	rd_defer_cancel(loop, &d->ready);
	d->io = NULL;
}
