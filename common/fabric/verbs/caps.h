/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounds: what the provider offers at most. */
#ifndef RD_VB_CAPS_H
#define RD_VB_CAPS_H

/*
 * The private data that fits every message of the InfiniBand CM: the 92 bytes of a REQ without the
 * 36 of rdma_cm.
 */
#define RD_VB_IB_PRIVATE    56
#define RD_VB_IWARP_PRIVATE 251 /* as RD_IW_MAX_PRIVATE */
#define RD_VB_MAX_DEPTH     255 /* READs: rdma_cm has eight bits */
#define RD_VB_MAX_WR        65536

#endif /* RD_VB_CAPS_H */
