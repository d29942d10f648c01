/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Namespaces: a device of the library, which reconnects and may have several paths, with several
 * channels that take the commands in turn.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "copy.h"
#include "util/parse.h"

#define NS_IO_MAX       (1u << 20)
#define NS_CHANNELS_MAX 64u
#define NS_ID_TEXT      48
#define NS_SECONDS_MAX  4000000u
/* Bytes that are read without asking further, when it is not known what is allocated */
#define NS_UNKNOWN (64u << 20)

/* Steps of writing the last bytes, less than a block: read the block, then write it with its
 * other bytes unchanged. */
enum cp_tail {
	TAIL_NONE,
	TAIL_READ,
	TAIL_MERGED, /* the merged write waits for room in a channel */
	TAIL_WRITE,
};

struct cp_ns {
	struct cli_cp_end end;
	struct rdinit_dev *dev;
	struct rdinit_dev_info info;
	struct rdinit_dev_chan *chan[NS_CHANNELS_MAX];
	unsigned int n_chan, next_chan;
	struct cli_progress *progress; /* cleared before messages on a terminal */
	bool opened;                   /* events are printed from here on */
	bool lost[RDINIT_DEV_PATHS_MAX];
	bool failed; /* no path will become usable again */
	enum cp_tail tail;
	struct cli_cp_op *tail_op;
	unsigned char *tail_block;
	unsigned char *zeroes; /* max_io bytes, for a namespace without Write Zeroes */
	char text[512];        /* of the last error */

	/* What is allocated of the blocks from known_from to known_to. */
	uint64_t known_from, known_to;
	struct rdinit_dev_extent extents[RDINIT_DEV_EXTENTS_MAX];
	unsigned int n_extents;
	bool asking; /* an answer is due */
	bool told;   /* one has come since the last look */
};

/* ---- commands ---- */

/* The next channel with room, round robin. NULL: none has room. */
static struct rdinit_dev_chan *cp_ns_channel(struct cp_ns *n)
{
	unsigned int i;

	for (i = 0; i < n->n_chan; i++) {
		struct rdinit_dev_chan *chan = n->chan[n->next_chan];

		n->next_chan = (n->next_chan + 1) % n->n_chan;
		if (rdinit_dev_chan_inflight(chan) < rdinit_dev_chan_depth(chan))
			return chan;
	}
	return NULL;
}

/* Texts for errors that the user can correct. */
static const char *cp_ns_reason(struct cp_ns *n, const struct rdinit_completion *c)
{
	unsigned int status = c->err == -EIO ? c->status & CLI_STATUS_CODE : 0;

	if (status == CLI_STATUS_PROTECTED)
		snprintf(n->text, sizeof(n->text), "the namespace is read-only: %s", c->text);
	else if (status == CLI_STATUS_RESERVED)
		snprintf(n->text, sizeof(n->text),
			 "%s: another host has reserved the namespace (rdinit resv-report shows "
			 "which)",
			 c->text);
	else
		return c->text;
	return n->text;
}

static void cp_ns_done(void *user, const struct rdinit_completion *c)
{
	struct cli_cp_op *op = user;
	struct cp_ns *n = op->end;

	op->got = op->len;
	op->done(op, c->err, c->err ? cp_ns_reason(n, c) : "");
}

static void cp_ns_tail_written(void *user, const struct rdinit_completion *c)
{
	struct cli_cp_op *op = user;

	((struct cp_ns *)op->end)->tail = TAIL_NONE;
	cp_ns_done(user, c);
}

static void cp_ns_tail_write(struct cp_ns *n)
{
	struct rdinit_dev_chan *chan = cp_ns_channel(n);
	struct cli_cp_op *op = n->tail_op;
	int rc = -EAGAIN;

	if (chan)
		rc = rdinit_dev_write_async(chan, op->at / n->info.block_size, 1, n->tail_block, 0,
					    cp_ns_tail_written, op);
	if (rc == -EAGAIN)
		return;
	n->tail = rc ? TAIL_NONE : TAIL_WRITE;
	if (rc)
		op->done(op, rc, cli_lib_text());
}

static void cp_ns_tail_read(void *user, const struct rdinit_completion *c)
{
	struct cli_cp_op *op = user;
	struct cp_ns *n = op->end;

	if (c->err) {
		cp_ns_tail_written(user, c);
		return;
	}
	memcpy(n->tail_block, op->buf, (size_t)op->len);
	n->tail = TAIL_MERGED;
}

static int cp_ns_tail(struct cp_ns *n, struct rdinit_dev_chan *chan, struct cli_cp_op *op)
{
	int rc;

	if (op->len >= n->info.block_size)
		return -EINVAL;
	if (n->tail != TAIL_NONE)
		return -EAGAIN;
	rc = rdinit_dev_read_async(chan, op->at / n->info.block_size, 1, n->tail_block, 0,
				   cp_ns_tail_read, op);
	if (!rc) {
		n->tail = TAIL_READ;
		n->tail_op = op;
	}
	return rc;
}

static int cp_ns_zero(struct cp_ns *n, struct rdinit_dev_chan *chan, struct cli_cp_op *op)
{
	struct rdinit_dev_io io;

	rdinit_dev_io_init(&io);
	io.op = n->zeroes ? RDINIT_DEV_WRITE : RDINIT_DEV_WRITE_ZEROES;
	io.buf = n->zeroes;
	io.lba = op->at / n->info.block_size;
	io.nblocks = (uint32_t)(op->len / n->info.block_size);
	if (!n->zeroes && n->info.deallocated_is_zero)
		io.flags = RDINIT_DEV_IO_DEALLOCATE;
	return rdinit_dev_submit(chan, &io, cp_ns_done, op, NULL);
}

static int cp_ns_send(struct cp_ns *n, struct rdinit_dev_chan *chan, struct cli_cp_op *op)
{
	uint32_t bs = n->info.block_size;
	uint64_t lba = op->at / bs;
	uint32_t blocks = (uint32_t)((op->len + bs - 1) / bs);

	switch (op->kind) {
	case CLI_CP_READ:
		return rdinit_dev_read_async(chan, lba, blocks, op->buf, 0, cp_ns_done, op);
	case CLI_CP_WRITE:
		if (op->len % bs)
			return cp_ns_tail(n, chan, op);
		return rdinit_dev_write_async(chan, lba, blocks, op->buf, 0, cp_ns_done, op);
	case CLI_CP_ZERO:
		return cp_ns_zero(n, chan, op);
	case CLI_CP_FLUSH:
		return rdinit_dev_flush_async(chan, cp_ns_done, op);
	}
	return -EINVAL;
}

static int cp_ns_submit(struct cli_cp_end *end, struct cli_cp_op *op)
{
	struct cp_ns *n = (struct cp_ns *)end;
	struct rdinit_dev_chan *chan = cp_ns_channel(n);
	int rc;

	if (!chan)
		return -EAGAIN;
	op->end = n;
	rc = cp_ns_send(n, chan, op);
	if (rc && rc != -EAGAIN) {
		snprintf(n->text, sizeof(n->text), "%s", cli_lib_text());
		end->why = n->text;
	}
	return rc;
}

static int cp_ns_process(struct cli_cp_end *end, const char **text)
{
	struct cp_ns *n = (struct cp_ns *)end;
	unsigned int i;
	int moved = 0, rc;

	*text = n->text;
	if (n->tail == TAIL_MERGED)
		cp_ns_tail_write(n);
	for (i = 0; i < n->n_chan; i++) {
		rc = rdinit_dev_chan_process(n->chan[i], 0);
		if (rc < 0) {
			*text = cli_lib_text();
			return rc;
		}
		moved += rc;
	}
	moved += n->told;
	n->told = false;
	if (n->tail == TAIL_MERGED)
		moved++; /* to be submitted again at once */
	return n->failed ? -ENODEV : moved;
}

static unsigned int cp_ns_fds(struct cli_cp_end *end, struct pollfd *fds, unsigned int room)
{
	struct cp_ns *n = (struct cp_ns *)end;
	unsigned int i;

	for (i = 0; i < n->n_chan && i < room; i++)
		fds[i] = (struct pollfd){.fd = rdinit_dev_chan_fd(n->chan[i]), .events = POLLIN};
	return i;
}

/* ---- allocated blocks ---- */

/* A range of which nothing is known is data. */
static void cp_ns_take_extents(struct cp_ns *n, uint64_t known,
			       const struct rdinit_dev_extent *list, unsigned int n_list)
{
	struct rdinit_dev_extent all = {n->known_from, NS_UNKNOWN / n->info.block_size};

	if (!known) {
		known = all.nblocks;
		list = &all;
		n_list = 1;
	}
	n->known_to = n->known_from + known;
	memcpy(n->extents, list, n_list * sizeof(*list));
	n->n_extents = n_list;
}

static void cp_ns_extents(void *user, const struct rdinit_completion *c, uint64_t known,
			  const struct rdinit_dev_extent *list, unsigned int n_list)
{
	struct cp_ns *n = user;

	(void)c;
	n->asking = false;
	n->told = true;
	cp_ns_take_extents(n, known, n_list ? list : n->extents, n_list);
}

static void cp_ns_ask(struct cp_ns *n, uint64_t lba)
{
	int rc;

	n->known_from = n->known_to = lba;
	rc = rdinit_dev_extents_async(n->dev, lba, n->end.size / n->info.block_size - lba,
				      cp_ns_extents, n);
	n->asking = rc == 0;
	if (rc)
		cp_ns_take_extents(n, 0, NULL, 0);
}

static void cp_ns_extent(struct cli_cp_end *end, uint64_t at, uint64_t *len, bool *hole)
{
	struct cp_ns *n = (struct cp_ns *)end;
	uint64_t lba = at / n->info.block_size, to;
	unsigned int i;

	*len = 0;
	*hole = false;
	if (!n->asking && (lba < n->known_from || lba >= n->known_to))
		cp_ns_ask(n, lba);
	if (n->asking)
		return;
	*hole = true;
	to = n->known_to;
	for (i = 0; i < n->n_extents; i++) {
		const struct rdinit_dev_extent *e = &n->extents[i];

		if (e->lba + e->nblocks <= lba)
			continue;
		*hole = e->lba > lba;
		to = *hole ? e->lba : e->lba + e->nblocks;
		break;
	}
	*len = to * n->info.block_size - at;
}

/* An answer that is due would be about the blocks from known_from on, which stays for that. */
static void cp_ns_begin_pass(struct cli_cp_end *end)
{
	struct cp_ns *n = (struct cp_ns *)end;

	if (!n->asking)
		n->known_to = n->known_from;
}

/* ---- identity ---- */

static bool cp_ns_id(char *text, const char *name, const uint8_t *id, unsigned int len)
{
	static const uint8_t none[16];
	int at = snprintf(text, NS_ID_TEXT, "%s:", name);

	rd_format_hex(id, len, text + at);
	return memcmp(id, none, len) != 0;
}

static json_t *cp_ns_identity(const struct cli_cp_end *end)
{
	const struct cp_ns *n = (const struct cp_ns *)end;
	struct rdinit_dev_info now;
	uint64_t size = end->size;
	char id[NS_ID_TEXT];

	/* The size of now: a source that became smaller during the copy is another one. */
	rdinit_dev_info_init(&now);
	if (rdinit_dev_get_info(n->dev, &now) == 0)
		size = now.blocks * now.block_size;

	/* The best identifier of the namespace, otherwise the subsystem's NQN and the NSID. */
	if (!cp_ns_id(id, "uuid", n->info.uuid, sizeof(n->info.uuid)) &&
	    !cp_ns_id(id, "nguid", n->info.nguid, sizeof(n->info.nguid)) &&
	    !cp_ns_id(id, "eui64", n->info.eui64, sizeof(n->info.eui64)))
		id[0] = '\0';
	return json_pack("{s:s, s:{s:s, s:I, s:s}, s:I, s:I}", "kind", "namespace", "id", "nqn",
			 n->info.subnqn, "nsid", (json_int_t)n->info.nsid, "identifier", id, "size",
			 (json_int_t)size, "block_size", (json_int_t)n->info.block_size);
}

static void cp_ns_close(struct cli_cp_end *end)
{
	struct cp_ns *n = (struct cp_ns *)end;

	while (n->n_chan)
		rdinit_dev_chan_free(&n->chan[--n->n_chan]);
	n->opened = false; /* later changes of paths are caused by our own close */
	if (!n->failed)
		rdinit_dev_close(n->dev);
	rdinit_dev_free(&n->dev);
	free(n->tail_block);
	free(n->zeroes);
	free(n);
}

static const struct cli_cp_end_ops ns_ops = {
	.extent = cp_ns_extent,
	.begin_pass = cp_ns_begin_pass,
	.submit = cp_ns_submit,
	.process = cp_ns_process,
	.fds = cp_ns_fds,
	.identity = cp_ns_identity,
	.close = cp_ns_close,
};

/* ---- opening ---- */

/* Prints changes of the paths, so that a copy that waits does not look as if it hangs. */
static void cp_ns_event(void *user, const struct rdinit_dev_event *event)
{
	struct cp_ns *n = user;

	n->end.stuck = event->state == RDINIT_DEV_WAITING;
	if (!n->opened)
		return;
	if (event->type == RDINIT_DEV_EVENT_STATE && event->state == RDINIT_DEV_FAILED) {
		n->failed = true;
		if (!n->text[0])
			snprintf(n->text, sizeof(n->text), "%s", event->text);
	}
	if (event->type != RDINIT_DEV_EVENT_PATH)
		return;
	if (event->path_state == RDINIT_DEV_PATH_FAILED)
		snprintf(n->text, sizeof(n->text), "%s", event->text);
	if (event->path_state == RDINIT_DEV_PATH_LIVE && !n->lost[event->path])
		return; /* the first connection of the other paths */
	if (event->path_state != RDINIT_DEV_PATH_LIVE &&
	    event->path_state != RDINIT_DEV_PATH_WAITING &&
	    event->path_state != RDINIT_DEV_PATH_FAILED)
		return;
	n->lost[event->path] = event->path_state != RDINIT_DEV_PATH_LIVE;
	cli_progress_clear(n->progress);
	if (n->lost[event->path])
		cli_error("%s", event->text);
	else
		cli_error("%s: path %d is connected again", n->end.name, event->path + 1);
}

static int cp_ns_seconds(const struct cli_options *o, enum cli_arg id, const char *name,
			 uint32_t *ms)
{
	const char *text = o->arg[id].text;
	uint64_t s;

	if (!cli_given(o, id))
		return CLI_OK;
	if (strcmp(text, "-1") == 0 && id == CLI_ARG_CTRL_LOSS) {
		*ms = RDINIT_DEV_NEVER;
		return CLI_OK;
	}
	if (rd_parse_u64(text, 0, NS_SECONDS_MAX, &s))
		return cli_usage_error("--%s: \"%s\" is not a number of seconds from 0 to %u%s",
				       name, text, NS_SECONDS_MAX,
				       id == CLI_ARG_CTRL_LOSS ? ", or -1 for no limit" : "");
	*ms = (uint32_t)s * 1000;
	return CLI_OK;
}

int cli_cp_ns_options(const struct cli_options *o, struct rdinit_dev_opts *out)
{
	int rc;

	rdinit_dev_opts_init(out);
	out->channels =
		o->ctrl.nr_io_queues < NS_CHANNELS_MAX ? o->ctrl.nr_io_queues : NS_CHANNELS_MAX;
	out->queue_size = o->qpair.queue_size;
	out->io_timeout_ms = o->qpair.io_timeout_ms;
	rc = cp_ns_seconds(o, CLI_ARG_RECONNECT_DELAY, "reconnect-delay", &out->reconnect_delay_ms);
	if (!rc)
		rc = cp_ns_seconds(o, CLI_ARG_CTRL_LOSS, "ctrl-loss-tmo", &out->ctrl_loss_tmo_ms);
	out->policy = (enum rdinit_dev_policy)cli_num(o, CLI_ARG_POLICY, out->policy);
	return rc;
}

/* @o: options of the first path. */
static int cp_ns_create(struct cp_ns *n, const struct rdinit_dev_opts *dev,
			const struct cli_options *o)
{
	struct rdinit_dev_opts opts = *dev;
	int rc;

	opts.ctrl = &o->ctrl;
	opts.event_fn = cp_ns_event;
	opts.event_user = n;
	rc = rdinit_dev_create(&opts, &n->dev);
	if (!rc)
		return CLI_OK;
	cli_lib_error();
	return rc == -EINVAL || rc == -ENOENT ? CLI_USAGE : CLI_FAILED;
}

/* The start of the next one of several URIs, after a comma. NULL: this is the last one. */
static char *cp_ns_next_uri(char *uris)
{
	char *next = strstr(uris, ",nvme+");

	if (next)
		*next++ = '\0';
	return next;
}

/* The secrets of the source are those of the destination too, as far as that has none of its own.
 */
static void cp_ns_dst_secrets(struct cli_options *o)
{
	if (o->dst.secret_file)
		o->auth.secret_file = o->dst.secret_file;
	if (o->dst.ctrl_secret_file)
		o->auth.ctrl_secret_file = o->dst.ctrl_secret_file;
	if (o->dst.tls_key_file) {
		o->tls.key_file = o->dst.tls_key_file;
		o->want_tls = true;
	}
}

/* Adds one path for each URI. Changes @uris. */
static int cp_ns_paths(struct cp_ns *n, const struct cli_cp_open *how, char *uris)
{
	struct cli_options base = *how->o, o;
	char *next;
	int rc;

	if (how->write)
		cp_ns_dst_secrets(&base);
	for (; uris; uris = next) {
		next = cp_ns_next_uri(uris);
		if (!cli_options_uri(&base, uris, &o))
			return CLI_USAGE;
		rc = n->dev ? CLI_OK : cp_ns_create(n, how->dev, &o);
		if (rc)
			return rc;
		if (rdinit_dev_add_path(n->dev, &o.uri, NULL) < 0) {
			cli_lib_error();
			return CLI_USAGE;
		}
	}
	return CLI_OK;
}

/* Prints which paths are not connected: their events came before the device was open. */
static void cp_ns_look_at_paths(struct cp_ns *n)
{
	struct rdinit_dev_path_info path;
	unsigned int i;

	for (i = 0; i < n->info.paths; i++) {
		rdinit_dev_path_info_init(&path);
		if (rdinit_dev_get_path(n->dev, i, &path) ||
		    (path.state != RDINIT_DEV_PATH_WAITING && path.state != RDINIT_DEV_PATH_FAILED))
			continue;
		n->lost[i] = true;
		cli_error("%s; the copy continues without this path", path.text);
	}
}

static int cp_ns_connect(struct cp_ns *n, const struct cli_cp_open *how)
{
	rdinit_dev_info_init(&n->info);
	if (rdinit_dev_open(n->dev) || rdinit_dev_get_info(n->dev, &n->info)) {
		n->failed = true;
		return cli_error("%s: %s%s", n->end.name, cli_lib_text(), cli_connect_hint());
	}
	while (n->n_chan < how->dev->channels) {
		if (rdinit_dev_chan_create(n->dev, &n->chan[n->n_chan]))
			return cli_lib_error();
		n->n_chan++;
	}
	cp_ns_look_at_paths(n);
	if (how->o->verbose)
		fprintf(stderr,
			"rdinit: %s: %u path%s, namespace %u, %llu blocks of %u bytes, at most %u "
			"bytes at once\n",
			n->end.name, n->info.paths, n->info.paths == 1 ? "" : "s", n->info.nsid,
			(unsigned long long)n->info.blocks, n->info.block_size,
			n->info.max_transfer);
	return CLI_OK;
}

/* Takes the properties of the namespace that the engine needs. */
static int cp_ns_look(struct cp_ns *n, bool write)
{
	uint32_t bs = n->info.block_size, max = n->info.max_transfer;

	if (write && n->info.read_only)
		return cli_error(
			"%s: the namespace is read-only; its target or `rdinit set-feature "
			"--feature-id=0x84` makes it writable",
			n->end.name);
	if (__builtin_mul_overflow(n->info.blocks, (uint64_t)bs, &n->end.size))
		return cli_error("%s: namespace %u is larger than 2^64 bytes", n->end.name,
				 n->info.nsid);
	n->end.tells_holes = n->end.has_zeroes = n->info.extents;
	n->end.align = bs;
	n->end.max_io = (max < NS_IO_MAX ? max : NS_IO_MAX) / bs * bs;
	if (!n->end.max_io)
		return cli_error("%s: the controller transfers at most %u bytes in one command, "
				 "less than a block of %u",
				 n->end.name, max, bs);
	n->end.max_zero = (uint64_t)n->info.max_write_zeroes * bs;
	n->tail_block = malloc(bs);
	if (!n->end.max_zero) {
		n->end.max_zero = n->end.max_io;
		n->zeroes = calloc(1, n->end.max_io);
	}
	return n->tail_block && (n->zeroes || n->info.max_write_zeroes)
		       ? CLI_OK
		       : cli_error("out of memory");
}

int cli_cp_ns_open(const struct cli_cp_open *how, const char *name, struct cli_cp_end **out)
{
	struct cp_ns *n = calloc(1, sizeof(*n));
	char *uris = strdup(name);
	int rc;

	if (!n || !uris) {
		free(n);
		free(uris);
		return cli_error("out of memory");
	}
	n->end.ops = &ns_ops;
	n->end.name = name;
	n->end.can_read_again = true;
	n->progress = how->progress;
	rc = cp_ns_paths(n, how, uris);
	free(uris);
	if (!rc)
		rc = cp_ns_connect(n, how);
	if (!rc)
		rc = cp_ns_look(n, how->write);
	if (rc) {
		cp_ns_close(&n->end);
		return rc;
	}
	n->opened = true;
	*out = &n->end;
	return CLI_OK;
}
