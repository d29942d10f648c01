/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs admin-passthru and io-passthru: commands that the user specifies by fields. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

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

	/* On standard error, because the data may go to standard output. */
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

static int report_passthru(const struct cli_options *o, bool admin, uint64_t result,
			   const unsigned char *data)
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
		if (json && read && json_object_set_new(json, "data", cli_hex(data, o->data_len))) {
			json_decref(json);
			json = NULL;
		}
		return cli_print_json(json, stdout);
	}
	printf("opcode 0x%02x (%s): success, result 0x%08llx\n", o->opcode,
	       cli_command_name(admin, o->opcode), (unsigned long long)result);
	if (read)
		cli_dump(data, o->data_len);
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
		if (o->pt_write && cli_fill(o->input_file, data, o->data_len, "--data-len")) {
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
		rc = report_passthru(o, admin, result, data);
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
