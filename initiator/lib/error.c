/* SPDX-License-Identifier: BSD-3-Clause */
/* The error text of the latest failure of each thread: the library's only state outside handles. */
#include <stdarg.h>
#include <stdio.h>

#include "internal.h"

static _Thread_local char last_text[RDI_TEXT];
static _Thread_local uint16_t last_status;
static _Thread_local size_t last_reason; /* where it begins in @last_text */

int rdi_fail(const char *func, int err, const char *fmt, ...)
{
	char what[RDI_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	/* A buffer of its own: an argument may be the old text itself. */
	if (snprintf(last_text, sizeof(last_text), "%s: %s", func, what) >= (int)sizeof(last_text))
		memcpy(last_text + sizeof(last_text) - 4, "...", 4);
	last_reason = strlen(func) + 2;
	last_status = 0;
	return err;
}

const char *rdi_error_reason(void)
{
	return last_text + last_reason;
}

int rdi_fail_completion(const char *func, const struct rdinit_completion *c)
{
	rdi_fail(func, c->err, "%s", c->text);
	last_status = c->status;
	return c->err;
}

int rdi_check_size(const char *func, const char *name, size_t size, size_t first, size_t ours)
{
	if (size < first)
		return rdi_fail(func, -EINVAL, "%s is not initialised by its _init function", name);
	if (size > ours)
		return rdi_fail(func, -EINVAL,
				"%s has %zu bytes, librdinit %s knows %zu of them: the program was "
				"built for a newer library",
				name, size, rdinit_version(), ours);
	return 0;
}

void rdi_put_sized(void *to, size_t size, const void *from, size_t ours)
{
	memset(to, 0, size);
	memcpy(to, from, size < ours ? size : ours);
	memcpy(to, &size, sizeof(size)); /* size is the first member of each structure */
}

void rdi_zero_sized(void *to, size_t size)
{
	rdi_put_sized(to, size, "", 0);
}

int rdi_no_handle(const char *func)
{
	return rdi_fail(func, -EINVAL, "the handle is NULL");
}

const char *rdinit_get_error(void)
{
	return last_text;
}

uint16_t rdinit_last_status(void)
{
	return last_status;
}

const char *rdinit_status_text(uint16_t status, enum rdinit_cmds set, uint8_t opcode, char *buf)
{
	_Static_assert(RDINIT_STATUS_TEXT_SIZE >= NVME_STATUS_TEXT, "status text buffer");
	_Static_assert((int)RDINIT_CMDS_UNKNOWN == NVME_CMDS_UNKNOWN &&
			       (int)RDINIT_CMDS_ADMIN == NVME_CMDS_ADMIN &&
			       (int)RDINIT_CMDS_IO == NVME_CMDS_IO &&
			       (int)RDINIT_CMDS_FABRICS == NVME_CMDS_FABRICS,
		       "kinds of commands");
	struct nvme_cmd_kind of = {(enum nvme_cmds)set, opcode};

	return nvme_status_text((struct nvme_status){status}, of, buf);
}

const char *rdinit_version(void)
{
#define STR_(x) #x
#define STR(x)  STR_(x)
	return STR(RDINIT_VERSION_MAJOR) "." STR(RDINIT_VERSION_MINOR) "." STR(
		RDINIT_VERSION_PATCH);
}
