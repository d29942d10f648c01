/* SPDX-License-Identifier: BSD-3-Clause */
/* What the provider offers at most. */
#ifndef RD_IW_CAPS_H
#define RD_IW_CAPS_H

#include <stdint.h>

#define RD_IW_MAX_WR      16384
#define RD_IW_MAX_SGE     16
#define RD_IW_MAX_INLINE  512
#define RD_IW_MAX_MSG     (UINT64_C(1) << 30)
#define RD_IW_MAX_DEPTH   128 /* IRD and ORD, as siw */
#define RD_IW_MAX_PRIVATE 251 /* siw keeps the length, with its 4 bytes, in 8 bits */

#endif /* RD_IW_CAPS_H */
