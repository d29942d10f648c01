/* SPDX-License-Identifier: BSD-3-Clause */
/* Text and NVMe status for what went wrong. */
#ifndef RDT_STATUS_H
#define RDT_STATUS_H

#include <stdint.h>

#include "nvmf/text.h"

/* " (3 more like it)", or "" for none: the end of a rate-limited message. Returns @buf. */
#define RDT_SQUASHED_TEXT 32
const char *rdt_squashed(uint32_t n, char buf[RDT_SQUASHED_TEXT]);
struct nvme_status rdt_status_from_errno(int err, unsigned int bio_op);

#endif /* RDT_STATUS_H */
