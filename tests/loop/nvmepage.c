/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded into nvme-cli: commands to any file are answered from the folder PAGES, with what the
 * file OPCODE-NUMBER has (both hexadecimal; the number is the lowest byte of CDW10, or the offset
 * of a property): data, or the result of a command without data. A command without a file ends with
 * Invalid Field in Command. */
#include <fcntl.h>
#include <linux/nvme_ioctl.h>
#include <linux/types.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT            __attribute__((visibility("default")))
#define OPC_GET_LOG_PAGE  2
#define OPC_FABRICS       0x7f
#define INVALID_FIELD     2
#define NSID_OF_ALL_FILES 1

static int answer(int page, struct nvme_passthru_cmd *cmd, uint64_t *result)
{
	void *data = (void *)(uintptr_t)cmd->addr;
	off_t from = cmd->opcode == OPC_GET_LOG_PAGE ? cmd->cdw12 : 0;

	if (!cmd->data_len)
		return pread(page, result, sizeof(*result), 0) < 0 ? -1 : 0;
	memset(data, 0, cmd->data_len);
	return pread(page, data, cmd->data_len, from) < 0 ? -1 : 0;
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	struct nvme_passthru_cmd *cmd;
	char path[4096];
	uint64_t result = 0;
	void *arg;
	va_list ap;
	int page, rc;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (request == NVME_IOCTL_ID)
		return NSID_OF_ALL_FILES;
	if (request != NVME_IOCTL_ADMIN_CMD && request != NVME_IOCTL_ADMIN64_CMD &&
	    request != NVME_IOCTL_IO_CMD && request != NVME_IOCTL_IO64_CMD)
		return (int)syscall(SYS_ioctl, fd, request, arg);
	cmd = arg; /* the other structure begins with the same members */
	snprintf(path, sizeof(path), "%s/%02x-%02x", getenv("PAGES"), cmd->opcode,
		 (cmd->opcode == OPC_FABRICS ? cmd->cdw11 : cmd->cdw10) & 0xff);
	page = open(path, O_RDONLY | O_CLOEXEC);
	if (page < 0)
		return INVALID_FIELD;
	rc = answer(page, cmd, &result);
	close(page);
	if (request == NVME_IOCTL_ADMIN64_CMD || request == NVME_IOCTL_IO64_CMD)
		((struct nvme_passthru_cmd64 *)arg)->result = result;
	else
		cmd->result = (uint32_t)result;
	return rc;
}
