/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounds: what the provider offers at most, and what it holds at most. */
#ifndef RD_IW_CAPS_H
#define RD_IW_CAPS_H

#include <stdint.h>

#define RD_IW_MAX_WR      16384
#define RD_IW_MAX_SGE     16
#define RD_IW_MAX_INLINE  512
#define RD_IW_MAX_MSG     (UINT64_C(1) << 30)
#define RD_IW_MAX_DEPTH   128 /* IRD and ORD, as siw */
#define RD_IW_MAX_PRIVATE 251 /* siw keeps the length, with its 4 bytes, in 8 bits */

#define RD_IW_MAX_DRAINS  256 /* closed sockets that are being drained */

#define RD_IW_BATCH       512  /* FPDUs per sendmsg */
#define RD_IW_BATCH_IOV   1024 /* IOV_MAX */
#define RD_IW_BATCH_COPY  128  /* bytes: smaller payloads are copied, not given an iovec entry */
/*
 * Where RD_IW_RUN_MANY work requests or more leave together, the payload of a 4 KiB command is
 * copied too: the kernel copies one long piece faster than many short ones, by more than this copy
 * costs. RD_IW_RUN_ROOM in all, so that it stays in a processor's cache until the kernel reads it.
 */
#define RD_IW_RUN_MANY 8
#define RD_IW_RUN_COPY (4096 + 64)
#define RD_IW_RUN_ROOM (256 * 1024)

#endif /* RD_IW_CAPS_H */
