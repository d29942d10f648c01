/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs admin-passthru and io-passthru: a command as the user makes it. */
#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static void put_dword(struct rdinit_passthru *pt, unsigned int i, uint32_t v)
{
	uint32_t le = htole32(v);

	memcpy(&pt->sqe[4 * i], &le, sizeof(le));
}

static void make_command(const struct cli_options *o, uint32_t nsid, void *data,
			 struct rdinit_passthru *pt)
{
	unsigned int i;

	rdinit_passthru_init(pt);
	pt->sqe[0] = o->opcode;
	pt->sqe[1] = o->flags;
	put_dword(pt, 1, nsid);
	for (i = 2; i < CLI_CDWS; i++) {
		if (i < 4 || i >= 10)
			put_dword(pt, i, o->cdw[i]);
	}
	pt->data = data;
	pt->len = o->data_len;
	if (o->pt_write)
		pt->flags = RDINIT_PASSTHRU_WRITE;
}

static void show_command(const struct cli_options *o, uint32_t nsid)
{
	unsigned int i;

	/* Not where the data goes. */
	fprintf(stderr, "opcode : %02x\nflags  : %02x\nnsid   : %08x\n", o->opcode, o->flags, nsid);
	for (i = 2; i < CLI_CDWS; i++) {
		if (i < 4 || i >= 10)
			fprintf(stderr, "cdw%-4u: %08x\n", i, o->cdw[i]);
	}
	fprintf(stderr, "data   : %u bytes%s\n", o->data_len,
		o->pt_write  ? " to the controller"
		: o->pt_read ? " from the controller"
			     : "");
}

/* All of @len bytes, or a message. */
static int fill(const struct cli_options *o, unsigned char *buf, size_t len)
{
	bool std = !o->input_file || strcmp(o->input_file, "-") == 0;
	const char *name = std ? "standard input" : o->input_file;
	int fd = std ? STDIN_FILENO : open(o->input_file, O_RDONLY | O_CLOEXEC);
	size_t have = 0;
	ssize_t n = 1;

	if (fd < 0)
		return cli_error("%s: %s", name, strerror(errno));
	while (have < len && n > 0) {
		n = read(fd, buf + have, len - have);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n > 0)
			have += (size_t)n;
	}
	if (n < 0)
		cli_error("%s: %s", name, strerror(errno));
	else if (have < len)
		cli_error("%s: %zu bytes, --data-len says %zu", name, have, len);
	if (!std)
		close(fd);
	return have == len ? CLI_OK : CLI_FAILED;
}

static int store(const char *name, const unsigned char *buf, size_t len)
{
	FILE *f = fopen(name, "we");
	bool bad;

	if (!f)
		return cli_error("%s: %s", name, strerror(errno));
	bad = fwrite(buf, 1, len, f) != len;
	bad |= fclose(f) != 0;
	return bad ? cli_error("%s: %s", name, strerror(errno)) : CLI_OK;
}

static void dump(const unsigned char *buf, size_t len)
{
	size_t at, i;

	for (at = 0; at < len; at += 16) {
		size_t n = len - at < 16 ? len - at : 16;

		printf("%04zx:", at);
		for (i = 0; i < 16; i++)
			printf(i < n ? " %02x" : "   ", i < n ? buf[at + i] : 0);
		printf(" \"");
		for (i = 0; i < n; i++)
			putchar(isprint(buf[at + i]) ? buf[at + i] : '.');
		printf("\"\n");
	}
}

static json_t *hex(const unsigned char *buf, size_t len)
{
	char *text = malloc(2 * len + 1);
	json_t *out;
	size_t i;

	if (!text)
		return NULL;
	for (i = 0; i < len; i++)
		snprintf(text + 2 * i, 3, "%02x", buf[i]);
	out = json_stringn(text, 2 * len);
	free(text);
	return out;
}

static int report(const struct cli_options *o, uint64_t result, const unsigned char *data)
{
	bool read = o->pt_read && o->data_len;
	json_t *json;

	if (read && o->input_file && strcmp(o->input_file, "-") != 0) {
		if (store(o->input_file, data, o->data_len))
			return CLI_FAILED;
		read = false;
	}
	if (o->raw_binary) {
		if (read)
			fwrite(data, 1, o->data_len, stdout);
		return cli_finish_output();
	}
	if (o->format == CLI_JSON) {
		json = json_pack("{s:i, s:i, s:I}", "opcode", o->opcode, "status", 0, "result",
				 (json_int_t)result);
		if (json && read && json_object_set_new(json, "data", hex(data, o->data_len))) {
			json_decref(json);
			json = NULL;
		}
		return cli_print_json(json, stdout);
	}
	printf("opcode 0x%02x: success, result 0x%08llx\n", o->opcode, (unsigned long long)result);
	if (read)
		dump(data, o->data_len);
	return cli_finish_output();
}

static int passthru(const struct cli_options *o, bool admin)
{
	uint32_t nsid = o->nsid;
	struct rdinit_passthru pt;
	unsigned char *data = NULL;
	struct cli_session s;
	uint64_t result = 0;
	int rc = CLI_OK;

	if (o->show_command)
		show_command(o, nsid);
	if (o->dry_run)
		return CLI_OK;
	if (o->data_len) {
		data = malloc(o->data_len);
		if (!data)
			return cli_error("no memory for %u bytes", o->data_len);
		memset(data, o->prefill, o->data_len);
		if (o->pt_write && fill(o, data, o->data_len)) {
			free(data);
			return CLI_FAILED;
		}
	}
	make_command(o, nsid, data, &pt);
	rc = cli_session_open(&s, o);
	if (rc) {
		free(data);
		return rc;
	}
	if (!admin)
		rc = cli_session_open_queues(&s, o);
	if (!rc && (admin ? rdinit_admin_passthru(s.ctrl, &pt, &result)
			  : rdinit_io_passthru(s.qp[0], &pt, &result)))
		rc = cli_lib_error();
	if (!rc)
		rc = report(o, result, data);
	cli_session_close(&s);
	free(data);
	return rc;
}

int cli_admin_passthru(const struct cli_options *o)
{
	return passthru(o, true);
}

int cli_io_passthru(const struct cli_options *o)
{
	return passthru(o, false);
}
