/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts and NVMe statuses of errors. */
#ifndef RDT_STATUS_H
#define RDT_STATUS_H

#include "nvmf/text.h"

struct nvme_status rdt_status_from_errno(int err, unsigned int bio_op);

#endif /* RDT_STATUS_H */
