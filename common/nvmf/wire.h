/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NVMe over Fabrics capsules and NVMe/RDMA connection data, as they are on the wire. All fields are
 * little-endian. Only definitions that libnvme's nvme/types.h lacks are here; Identify data, log
 * pages, discovery entries, connect data, opcodes and status codes come from there.
 *
 * References: NVMe Base 2.0 (3.3.3 submission queue entry, 4.3 SGL), NVMe/RDMA Transport 1.0.
 */
#ifndef RD_NVMF_WIRE_H
#define RD_NVMF_WIRE_H

#include <endian.h>
#include <linux/types.h>
#include <nvme/types.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define NVMF_DISC_NQN       "nqn.2014-08.org.nvmexpress.discovery"
#define NVMF_NQN_MAX        223 /* bytes, without the NUL */
#define NVMF_RDMA_PORT      4420
#define NVMF_OPCODE         0x7f /* every fabrics command */
#define NVMF_CNTLID_DYNAMIC 0xffff
#define NVMF_CNTLID_MIN     1
#define NVMF_CNTLID_MAX     0xffef
#define NVME_NSID_ALL       UINT32_C(0xffffffff)
#define NVME_SQE_SIZE       64
#define NVME_CQE_SIZE       16
#define NVME_DISC_LOG_ENTRY 1024
#define NVME_MPS_MIN        4096 /* the unit of MDTS with CAP.MPSMIN = 0 */

/* SQE flags (byte 1) */
#define NVME_CMD_FUSE_MASK   0x03
#define NVME_CMD_FUSE_FIRST  0x01
#define NVME_CMD_FUSE_SECOND 0x02
#define NVME_CMD_PSDT_MASK   0xc0
#define NVME_CMD_PSDT_SGL    0x40 /* SGLs, MPTR a contiguous buffer: the only form fabrics allow */

/* SGL descriptor type (bits 7:4) and subtype (bits 3:0) */
#define NVME_SGL_DATA_BLOCK      0x0
#define NVME_SGL_LAST_SEGMENT    0x3
#define NVME_SGL_KEYED           0x4
#define NVME_SGL_SUB_ADDRESS     0x0
#define NVME_SGL_SUB_OFFSET      0x1
#define NVME_SGL_SUB_INVALIDATE  0xf
#define NVME_SGL_TYPE(type, sub) (((type) << 4) | (sub))
/* In this order: 40h, 4Fh, 01h, 31h. */
#define NVME_SGL_KEYED_ADDRESS    NVME_SGL_TYPE(NVME_SGL_KEYED, NVME_SGL_SUB_ADDRESS)
#define NVME_SGL_KEYED_INVALIDATE NVME_SGL_TYPE(NVME_SGL_KEYED, NVME_SGL_SUB_INVALIDATE)
#define NVME_SGL_IN_CAPSULE       NVME_SGL_TYPE(NVME_SGL_DATA_BLOCK, NVME_SGL_SUB_OFFSET)
#define NVME_SGL_LAST_IN_CAPSULE  NVME_SGL_TYPE(NVME_SGL_LAST_SEGMENT, NVME_SGL_SUB_OFFSET)
#define NVME_SGL_KEYED_LEN_MAX    0xffffffu

struct nvme_keyed_sgl {
	__le64 addr;
	__u8 length[3];
	__u8 key[4]; /* little-endian here; the STag on the wire is big-endian */
	__u8 type;
} __attribute__((packed));
_Static_assert(sizeof(struct nvme_keyed_sgl) == 16, "keyed SGL descriptor");

struct nvme_data_sgl {
	__le64 offset; /* address, or offset into the capsule with NVME_SGL_SUB_OFFSET */
	__le32 length;
	__u8 rsvd12[3];
	__u8 type;
} __attribute__((packed));
_Static_assert(sizeof(struct nvme_data_sgl) == 16, "data block SGL descriptor");

union nvme_sgl {
	struct nvme_keyed_sgl keyed;
	struct nvme_data_sgl data;
};
_Static_assert(sizeof(union nvme_sgl) == 16, "SGL descriptor");

struct nvme_sqe {
	__u8 opcode;
	__u8 flags;
	__le16 cid;
	union {
		__le32 nsid;
		__u8 fctype; /* fabrics commands */
	};
	__le32 cdw2;
	__le32 cdw3;
	__le64 mptr;
	union nvme_sgl sgl;
	__le32 cdw10;
	__le32 cdw11;
	__le32 cdw12;
	__le32 cdw13;
	__le32 cdw14;
	__le32 cdw15;
};
_Static_assert(sizeof(struct nvme_sqe) == NVME_SQE_SIZE, "submission queue entry");

/* Fabrics Connect, laid over struct nvme_sqe */
struct nvmf_connect_sqe {
	__u8 opcode;
	__u8 flags;
	__le16 cid;
	__u8 fctype;
	__u8 rsvd5[19];
	union nvme_sgl sgl;
	__le16 recfmt;
	__le16 qid;
	__le16 sqsize; /* 0's based */
	__u8 cattr;
	__u8 rsvd47;
	__le32 kato; /* ms */
	__u8 rsvd52[12];
};
_Static_assert(sizeof(struct nvmf_connect_sqe) == NVME_SQE_SIZE, "Connect command");

#define NVMF_CATTR_DISABLE_SQFLOW 0x04

/* Fabrics Property Get and Property Set */
struct nvmf_property_sqe {
	__u8 opcode;
	__u8 flags;
	__le16 cid;
	__u8 fctype;
	__u8 rsvd5[35];
	__u8 attrib; /* bits 2:0: NVMF_PROP_SIZE_* */
	__u8 rsvd41[3];
	__le32 offset;
	__le64 value; /* Set only */
	__u8 rsvd56[8];
};
_Static_assert(sizeof(struct nvmf_property_sqe) == NVME_SQE_SIZE, "Property command");

#define NVMF_PROP_SIZE_MASK 0x07
#define NVMF_PROP_SIZE_4    0
#define NVMF_PROP_SIZE_8    1

struct nvme_cqe {
	union {
		__le64 result64;
		struct {
			__le32 result;
			__le32 result_hi;
		};
	};
	__le16 sqhd;
	__le16 sqid;
	__le16 cid;
	__le16 status; /* bit 0 phase (0 over fabrics), bits 15:1 struct nvme_status */
};
_Static_assert(sizeof(struct nvme_cqe) == NVME_CQE_SIZE, "completion queue entry");

/* Connect response, dword 0 on status Connect Invalid Parameters */
#define NVMF_CONNECT_IATTR_DATA (1u << 16) /* the offset is into the connect data, not the SQE */

/* RDMA_CM private data (NVMe/RDMA 1.0, 5.1) */
struct nvmf_rdma_cm_req {
	__le16 recfmt;
	__le16 qid;
	__le16 hrqsize;
	__le16 hsqsize;
	__le16 cntlid;
	__u8 rsvd10[22];
};
_Static_assert(sizeof(struct nvmf_rdma_cm_req) == 32, "RDMA_CM request private data");

struct nvmf_rdma_cm_rep {
	__le16 recfmt;
	__le16 crqsize;
	__u8 rsvd4[28];
};
_Static_assert(sizeof(struct nvmf_rdma_cm_rep) == 32, "RDMA_CM accept private data");

struct nvmf_rdma_cm_rej {
	__le16 recfmt;
	__le16 sts;
};
_Static_assert(sizeof(struct nvmf_rdma_cm_rej) == 4, "RDMA_CM reject private data");

enum nvmf_rdma_cm_status {
	NVMF_RDMA_CM_INVALID_LEN = 1,
	NVMF_RDMA_CM_INVALID_RECFMT = 2,
	NVMF_RDMA_CM_INVALID_QID = 3,
	NVMF_RDMA_CM_INVALID_HSQSIZE = 4,
	NVMF_RDMA_CM_INVALID_HRQSIZE = 5,
	NVMF_RDMA_CM_NO_RSRC = 6,
	NVMF_RDMA_CM_INVALID_IRD = 7,
	NVMF_RDMA_CM_INVALID_ORD = 8,
};

/*
 * An NVMe status: SC in bits 7:0, SCT in 10:8, CRD in 12:11, More in 13, DNR in 14. A type of its
 * own, so that it cannot be mistaken for an errno.
 */
struct nvme_status {
	uint16_t v;
};

#define NVME_STATUS_DNR  0x4000
#define NVME_STATUS_CRD1 0x0800 /* retry after CRDT1 */

/* Command specific status that libnvme lacks: a Copy overwrites its own source. */
#define NVME_SC_OVERLAPPING_IO 0x87
/* Command specific: the queue must authenticate first. */
#define NVMF_SC_AUTH_REQUIRED 0x91

/* Get LBA Status (NVM 1.2, 4.2.1). Identify Controller for the NVM command set (CNS 06h): AOCS. */
#define NVME_NVM_CTRL_AOCS         18   /* offset */
#define NVME_AOCS_RALBAS           0x1u /* action type 02h is supported */
#define NVME_LBA_STATUS_ALLOCATED  0x02 /* the action type: allocated blocks */
#define NVME_LBA_STATUS_INCOMPLETE 1    /* CMPC: there are more descriptors */
#define NVME_LBA_STATUS_COMPLETE   2    /* CMPC */
#define NVME_LBA_RANGE_ALLOCATED   0x2  /* STAS of a descriptor; its NLB is 0's based */

/* @code is an enum nvme_status_field value with its type, e.g. NVME_SCT_CMD_SPECIFIC << 8 | ... */
static inline struct nvme_status nvme_status(unsigned int sct, unsigned int sc)
{
	return (struct nvme_status){(uint16_t)((sct << 8) | sc)};
}

static inline struct nvme_status nvme_status_dnr(unsigned int sct, unsigned int sc)
{
	return (struct nvme_status){(uint16_t)((sct << 8) | sc | NVME_STATUS_DNR)};
}

#define NVME_OK ((struct nvme_status){0})

static inline bool nvme_status_ok(struct nvme_status st)
{
	return (st.v & 0x7ff) == 0;
}

/*
 * Vendor specific data of Identify Namespace that rdtarget sends for storage that one gateway at a
 * time can write: when another gateway has executed a command, the storage executes no more of what
 * a host has sent to this one before.
 */
#define NVME_NS_GATEWAY_MARK "rdnvme gateway 1"

struct nvme_ns_gateway {
	__u8 mark[16];  /* NVME_NS_GATEWAY_MARK */
	__le64 gateway; /* a number of this start of the gateway, at random; never 0 */
};
_Static_assert(sizeof(struct nvme_ns_gateway) == 24, "gateway of a namespace");
_Static_assert(sizeof(NVME_NS_GATEWAY_MARK) - 1 == 16, "mark of a gateway");

static inline __le16 nvme_status_to_wire(struct nvme_status st)
{
	return htole16((uint16_t)(st.v << 1));
}

static inline struct nvme_status nvme_status_from_wire(__le16 wire)
{
	return (struct nvme_status){(uint16_t)(le16toh(wire) >> 1)};
}

static inline uint32_t nvme_sgl_keyed_len(const struct nvme_keyed_sgl *sgl)
{
	return sgl->length[0] | (uint32_t)sgl->length[1] << 8 | (uint32_t)sgl->length[2] << 16;
}

static inline uint32_t nvme_sgl_keyed_key(const struct nvme_keyed_sgl *sgl)
{
	return sgl->key[0] | (uint32_t)sgl->key[1] << 8 | (uint32_t)sgl->key[2] << 16 |
	       (uint32_t)sgl->key[3] << 24;
}

static inline void nvme_sgl_set_keyed(union nvme_sgl *sgl, uint64_t addr, uint32_t len,
				      uint32_t key, uint8_t type)
{
	/* Length, key and type are the fields of the second word; storing bytes costs four times
	 * as much. */
	const __le64 words[2] = {
		htole64(addr),
		htole64((len & NVME_SGL_KEYED_LEN_MAX) | (uint64_t)key << 24 |
			(uint64_t)type << 56),
	};

	memcpy(sgl, words, sizeof(*sgl));
}

#endif /* RD_NVMF_WIRE_H */
