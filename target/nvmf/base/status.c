/* SPDX-License-Identifier: BSD-3-Clause */
/* Mapping of backend errors to NVMe status, and texts of failures. */
#include "status.h"

#include <errno.h>

#include "nvmf/wire.h"
#include "target/bdev/backend.h"

struct nvme_status rdt_status_from_errno(int err, unsigned int bio_op)
{
	bool reads = bio_op == RDT_BIO_READ;

	switch (-err) {
	case 0:
		return NVME_OK;
	case ECANCELED:
		return nvme_status(NVME_SCT_GENERIC, NVME_SC_ABORT_REQ);
	case ENOSPC:
	case EDQUOT:
	case EFBIG: /* a read that needs space: of a snapshot or a cache below */
		return reads ? nvme_status(NVME_SCT_MEDIA, NVME_SC_READ_ERROR)
			     : nvme_status_dnr(NVME_SCT_GENERIC, NVME_SC_CAP_EXCEEDED);
	case EROFS:
	case EPERM:
	case EACCES:
		return reads ? nvme_status_dnr(NVME_SCT_MEDIA, NVME_SC_ACCESS_DENIED)
			     : nvme_status_dnr(NVME_SCT_GENERIC, NVME_SC_NS_WRITE_PROTECTED);
	case ERANGE: /* the namespace has shrunk since the command was checked */
		return nvme_status_dnr(NVME_SCT_GENERIC, NVME_SC_LBA_RANGE);
	case ENOTRECOVERABLE: /* see enum rdt_fault */
		return nvme_status_dnr(NVME_SCT_MEDIA, NVME_SC_WRITE_FAULT);
	case EOPNOTSUPP:
		return nvme_status_dnr(NVME_SCT_GENERIC, NVME_SC_INVALID_OPCODE);
	case EAGAIN:
	case ENOMEM:
	case EINTR: /* a retry may succeed: no DNR */
		return nvme_status(NVME_SCT_GENERIC, NVME_SC_CMD_INTERRUPTED);
	case ESHUTDOWN: /* another gateway holds the storage: the host tries another path */
		return nvme_status(NVME_SCT_PATH, NVME_SC_ANA_INACCESSIBLE);
	case ENODEV:
	case ENXIO:
		return nvme_status(NVME_SCT_GENERIC, NVME_SC_NS_NOT_READY);
	case EIO:
	case EREMOTEIO:
	case EILSEQ:
	case EBADMSG:
	case ENODATA:
		return nvme_status(NVME_SCT_MEDIA,
				   reads ? NVME_SC_READ_ERROR : NVME_SC_WRITE_FAULT);
	default:
		return nvme_status(NVME_SCT_GENERIC, NVME_SC_INTERNAL);
	}
}
