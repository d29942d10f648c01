/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's limits, each in one place: what Identify publishes is what the checks enforce.
 * Limits that the configuration sets (MDTS, queue depth, in-capsule size) are in struct
 * rdt_target_config.
 */
#ifndef RDT_TGT_LIMITS_H
#define RDT_TGT_LIMITS_H

#include <stdint.h>

#define RDT_VS           0x00020000u /* NVMe 2.0 */

#define RDT_REACTORS_MAX 64u

/* controllers */
#define RDT_ADMIN_DEPTH_MAX 128u /* entries of an admin queue */
#define RDT_AER_MAX         4u   /* AERL + 1 */
#define RDT_ABORT_MAX       4u   /* ACL + 1 */
#define RDT_ERROR_LOG       64u  /* entries; ELPE + 1 */
#define RDT_KAS_MS          100u /* KAS; KATO is rounded up to it */
#define RDT_DISC_KATO_MS    120000u
#define RDT_READY_TIMEOUT   30u /* in 500 ms: a reset waits for I/O in flight. CAP.TO, CRTO */
#define RDT_CRDT1           1u  /* in 100 ms, when feature 16h asks for it */

/* namespaces */
#define RDT_NSID_MAX   65535u /* NN */
#define RDT_NS_SLOTS   16384u /* namespaces of a target at one time; MNAN */

#define RDT_SUBSYSTEMS 4096u /* of a target, those removed since the start as well */

#define RDT_RESV_LOG   64u /* reservation notifications kept for a controller */

/* asymmetric namespace access */
#define RDT_ANA_GROUPS 64u /* ANAGRPMAX and NANAGRPID: groups are 1 to this */
#define RDT_ANATT_S    10u /* ANATT */

/* data pointers */
#define RDT_MSDBD_MAX     64u /* keyed descriptors of a command, at most */
#define RDT_MSDBD_DEFAULT 16u

/*
 * I/O commands, in logical blocks unless said otherwise. The powers are of 4 KiB, as in Identify
 * CNS 06h. They bound how long one command keeps a reactor and a backend busy.
 */
#define RDT_DMRL     255u             /* ranges of a Dataset Management */
#define RDT_DMRSL    (1u << 24)       /* of one range */
#define RDT_DMSL     (1ull << 28)     /* of all ranges */
#define RDT_WZSL     12u              /* Write Zeroes: 16 MiB */
#define RDT_WUSL     0u               /* Write Uncorrectable: no limit */
#define RDT_VSL      10u              /* Verify: 4 MiB */
#define RDT_POWER(p) (4096ull << (p)) /* bytes */
#define RDT_MSSRL    2048u            /* of one range of a Copy */
#define RDT_MCL      4096u            /* of all ranges */
#define RDT_MSRC     127u             /* ranges, 0's based */
#define RDT_OCFS     0x3u             /* descriptor formats 0 and 1 */
/* Without Compare and Write, one block is all that is written at once; 0's based. */
#define RDT_AWUN  0u
#define RDT_AWUPF 0u
/* Blocks of a fused Compare and Write: two such transfers fit into one buffer. 0: none at all. */
#define RDT_ACWU_MAX   128u
#define RDT_ACWU(mdts) ((mdts) / 8192 < RDT_ACWU_MAX ? (mdts) / 8192 : RDT_ACWU_MAX)

#endif /* RDT_TGT_LIMITS_H */
