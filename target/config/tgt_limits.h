/* SPDX-License-Identifier: BSD-3-Clause */
/* The fixed limits of the target: Identify publishes them and the checks enforce them. Configurable
 * limits (MDTS, queue depth, in-capsule size) are in struct rdt_target_config. */
#ifndef RDT_TGT_LIMITS_H
#define RDT_TGT_LIMITS_H

#include <stdint.h>

#define RDT_VS           0x00020000u /* NVMe 2.0 */

#define RDT_REACTORS_MAX 64u

/* controllers */
#define RDT_ADMIN_DEPTH_MAX 128u  /* entries of an admin queue */
#define RDT_AER_MAX         4u    /* AERL + 1 */
#define RDT_ABORT_MAX       4u    /* ACL + 1 */
#define RDT_IO_QUEUES_MAX   1024u /* of a controller: the largest target.io_queues */
#define RDT_ERROR_LOG       64u   /* entries; ELPE + 1 */
#define RDT_KAS_MS          100u  /* KAS: KATO is rounded up to a multiple of it */
#define RDT_DISC_KATO_MS    120000u
#define RDT_READY_TIMEOUT   30u /* in 500 ms: CAP.TO and CRTO. A reset waits for I/O in flight */
#define RDT_CRDT1           1u  /* in 100 ms, if the host enabled feature 16h */

/* namespaces */
#define RDT_NSID_MAX   65535u /* NN */
#define RDT_NS_SLOTS   16384u /* MNAN: namespaces of a target at one time */

#define RDT_SUBSYSTEMS 4096u /* maximum in a configuration */
/* Maximum of subsystems including those that are being removed. */
#define RDT_SUBSYS_PLACES (2 * RDT_SUBSYSTEMS)

#define RDT_RESV_LOG      64u /* reservation notifications kept for each controller */

/* asymmetric namespace access */
#define RDT_ANA_GROUPS 64u /* ANAGRPMAX and NANAGRPID: group IDs are 1 to this */
#define RDT_ANATT_S    10u /* ANATT */

/* data pointers */
#define RDT_TRANSPORTS 4u  /* kinds of transports */
#define RDT_MSDBD_MAX  64u /* maximum of keyed descriptors per command */

/* I/O commands, in logical blocks unless noted. The power-of-two limits are in units of 4 KiB
 * (Identify CNS 06h). They bound how long one command occupies a reactor and a backend. */
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
/* AWUN (0's based): without fused commands, only single blocks are written atomically. */
#define RDT_AWUN  0u
#define RDT_AWUPF 0u
/* ACWU in blocks: the data of a fused Compare and Write, twice this, fits into one buffer. 0: fused
 * commands are not supported. */
#define RDT_ACWU_MAX   128u
#define RDT_ACWU(mdts) ((mdts) / 8192 < RDT_ACWU_MAX ? (mdts) / 8192 : RDT_ACWU_MAX)

#endif /* RDT_TGT_LIMITS_H */
