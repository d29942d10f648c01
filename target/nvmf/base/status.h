/* SPDX-License-Identifier: BSD-3-Clause */
/* Text and NVMe status for what went wrong. */
#ifndef RDT_STATUS_H
#define RDT_STATUS_H

#include "nvmf/text.h"

struct nvme_status rdt_status_from_errno(int err, unsigned int bio_op);

#endif /* RDT_STATUS_H */
