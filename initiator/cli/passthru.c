/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs admin-passthru and io-passthru: commands that the user specifies by fields. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

/* 0: no data. */
static uint32_t passthru_len(const struct cli_options *o)
{
	return (uint32_t)o->arg[CLI_ARG_DATA_LEN].n;
}

static void put_dword(struct rdinit_passthru *pt, unsigned int i, uint32_t v)
{
	uint32_t le = htole32(v);

	memcpy(&pt->sqe[4 * i], &le, sizeof(le));
}

static void make_command(const struct cli_options *o, void *data, struct rdinit_passthru *pt)
{
	unsigned int i;

	rdinit_passthru_init(pt);
	pt->sqe[0] = (uint8_t)o->arg[CLI_ARG_OPCODE].n;
	pt->sqe[1] = (uint8_t)o->arg[CLI_ARG_OPFLAGS].n;
	put_dword(pt, 1, o->nsid);
	for (i = 2; i < CLI_CDWS; i++) {
		if (i < 4 || i >= 10)
			put_dword(pt, i, o->cdw[i]);
	}
	pt->data = data;
	pt->len = passthru_len(o);
	if (cli_given(o, CLI_ARG_WRITE))
		pt->flags = RDINIT_PASSTHRU_WRITE;
}

static void show_command(const struct cli_options *o)
{
	unsigned int i;

	/* On standard error, because the data may go to standard output. */
	fprintf(stderr, "opcode : %02x\nflags  : %02x\nnsid   : %08x\n",
		(unsigned int)o->arg[CLI_ARG_OPCODE].n, (unsigned int)o->arg[CLI_ARG_OPFLAGS].n,
		o->nsid);
	for (i = 2; i < CLI_CDWS; i++) {
		if (i < 4 || i >= 10)
			fprintf(stderr, "cdw%-4u: %08x\n", i, o->cdw[i]);
	}
	fprintf(stderr, "data   : %u bytes%s\n", passthru_len(o),
		cli_given(o, CLI_ARG_WRITE)  ? " to the controller"
		: cli_given(o, CLI_ARG_READ) ? " from the controller"
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
	bool read = cli_given(o, CLI_ARG_READ);
	const char *file = o->arg[CLI_ARG_DATA].text;
	unsigned int opcode = (unsigned int)o->arg[CLI_ARG_OPCODE].n;
	json_t *json;

	if (read && !cli_is_std(file)) {
		if (store(file, data, passthru_len(o)))
			return CLI_FAILED;
		read = false;
	}
	if (cli_given(o, CLI_ARG_RAW)) {
		if (read)
			fwrite(data, 1, passthru_len(o), stdout);
		return cli_finish_output();
	}
	if (o->format == CLI_JSON) {
		json = json_pack("{s:i, s:i, s:I}", "opcode", opcode, "status", 0, "result",
				 (json_int_t)result);
		if (json && read &&
		    json_object_set_new(json, "data", cli_hex(data, passthru_len(o)))) {
			json_decref(json);
			json = NULL;
		}
		return cli_print_json(json, stdout);
	}
	printf("opcode 0x%02x (%s): success, result 0x%08llx\n", opcode,
	       cli_command_name(admin, opcode), (unsigned long long)result);
	if (read)
		cli_dump(data, passthru_len(o));
	return cli_finish_output();
}

static int passthru(const struct cli_options *o, bool admin)
{
	struct rdinit_passthru pt;
	uint32_t len = passthru_len(o);
	unsigned char *data = NULL;
	struct cli_session s;
	uint64_t result = 0;
	int rc = CLI_OK;

	if (cli_given(o, CLI_ARG_SHOW_COMMAND) || cli_given(o, CLI_ARG_DRY_RUN))
		show_command(o);
	if (cli_given(o, CLI_ARG_DRY_RUN))
		return CLI_OK;
	if (len) {
		data = malloc(len);
		if (!data)
			return cli_error("no memory for %u bytes", len);
		memset(data, (int)o->arg[CLI_ARG_PREFILL].n, len);
		if (cli_given(o, CLI_ARG_WRITE) &&
		    cli_fill(o->arg[CLI_ARG_DATA].text, data, len, "--data-len")) {
			free(data);
			return CLI_FAILED;
		}
	}
	make_command(o, data, &pt);
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
