/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages of DH-HMAC-CHAP (NVMe Base 2.0, 8.13.5): data of Authentication Send and
 * Authentication Receive. Any thread; nothing is kept.
 *
 * A parser returns NVMF_AUTH_OK, or the explanation for the Failure message that answers what it
 * read; the result is valid only in the first case. Values with a pointer into the message are
 * valid as long as the message is. A message from a host has exactly its size; behind one from a
 * controller there may be padding, because Authentication Receive transfers what the host asked
 * for.
 *
 * A build function needs a buffer of NVMF_AUTH_MSG_MAX bytes and returns the size of the message.
 * Its arguments come from this program and are valid: known hashes and groups, their lengths.
 */
#ifndef RD_NVMF_AUTH_MSG_H
#define RD_NVMF_AUTH_MSG_H

#include <linux/types.h>
#include <stdbool.h>

#include "nvmf/auth_ids.h"

/* Reply with SHA-512 and ffdhe8192. */
#define NVMF_AUTH_MSG_MAX (16 + 2 * NVMF_AUTH_HASH_MAX + NVMF_AUTH_DHV_MAX)
/* The transfer length of the Linux host and of SPDK's for every message. */
#define NVMF_AUTH_TRANSFER 4096

/* Authentication Send and Receive, laid over struct nvme_sqe. */
struct nvmf_auth_sqe {
	__u8 opcode;
	__u8 flags;
	__le16 cid;
	__u8 fctype;
	__u8 rsvd5[35];
	__u8 rsvd40;
	__u8 spsp0;
	__u8 spsp1;
	__u8 secp;
	__le32 len; /* transfer length (TL) of Send, allocation length (AL) of Receive: bytes */
	__u8 rsvd48[16];
};
_Static_assert(sizeof(struct nvmf_auth_sqe) == 64, "Authentication Send and Receive");

#define NVMF_AUTH_SPSP0 0x01
#define NVMF_AUTH_SPSP1 0x01
#define NVMF_AUTH_SECP  0xe9

/* Type and identifier of a message, type in bits 15:8. */
enum nvmf_auth_msg {
	NVMF_AUTH_MSG_NEGOTIATE = 0x0000,
	NVMF_AUTH_MSG_FAILURE2 = 0x00f0,
	NVMF_AUTH_MSG_FAILURE1 = 0x00f1,
	NVMF_AUTH_MSG_CHALLENGE = 0x0101,
	NVMF_AUTH_MSG_REPLY = 0x0102,
	NVMF_AUTH_MSG_SUCCESS1 = 0x0103,
	NVMF_AUTH_MSG_SUCCESS2 = 0x0104,
};

struct nvmf_auth_head {
	unsigned int msg; /* enum nvmf_auth_msg, or a value that is none */
	uint16_t t_id;
};

struct nvmf_auth_negotiate {
	uint16_t t_id;
	uint8_t sc_c; /* secure channel concatenation; 0: none */
	uint8_t n_hashes, n_groups;
	uint8_t hashes[NVMF_AUTH_IDS_MAX]; /* of a peer: known and unknown values, in its order */
	uint8_t groups[NVMF_AUTH_IDS_MAX];
};

/* A Diffie-Hellman value, big-endian; len 0 with the null group. */
struct nvmf_auth_dhv {
	const uint8_t *value;
	uint16_t len;
};

struct nvmf_auth_challenge {
	uint16_t t_id;
	uint8_t hash;
	uint8_t group;
	uint32_t seqnum;
	uint8_t cval[NVMF_AUTH_HASH_MAX]; /* as long as the hash */
	struct nvmf_auth_dhv dhv;
};

struct nvmf_auth_reply {
	uint16_t t_id;
	uint8_t hash; /* the challenge's: it decides the length of the values */
	bool cvalid;  /* the controller must authenticate too */
	uint32_t seqnum;
	uint8_t rval[NVMF_AUTH_HASH_MAX];
	uint8_t cval[NVMF_AUTH_HASH_MAX];
	struct nvmf_auth_dhv dhv;
};

struct nvmf_auth_success1 {
	uint16_t t_id;
	uint8_t hash;
	bool rvalid;
	uint8_t rval[NVMF_AUTH_HASH_MAX];
};

struct nvmf_auth_failure {
	uint8_t reason;      /* 1: authentication failure */
	uint8_t explanation; /* enum nvmf_auth_expl, or a value that is none */
};

/* Type and transaction of any message. NVMF_AUTH_INCORRECT_PAYLOAD: shorter than all messages. */
enum nvmf_auth_expl nvmf_auth_parse_head(const uint8_t *buf, size_t len,
					 struct nvmf_auth_head *out);

/* For the controller. @len: the transfer length. */

enum nvmf_auth_expl nvmf_auth_parse_negotiate(const uint8_t *buf, size_t len,
					      struct nvmf_auth_negotiate *out);
/* @sent: the challenge that is answered. */
enum nvmf_auth_expl nvmf_auth_parse_reply(const uint8_t *buf, size_t len,
					  const struct nvmf_auth_challenge *sent,
					  struct nvmf_auth_reply *out);
enum nvmf_auth_expl nvmf_auth_parse_success2(const uint8_t *buf, size_t len, uint16_t t_id);

/* For the host. @len: the number of bytes received, at most. */

/* Refuses a hash or a group that @offered does not contain. */
enum nvmf_auth_expl nvmf_auth_parse_challenge(const uint8_t *buf, size_t len,
					      const struct nvmf_auth_negotiate *offered,
					      struct nvmf_auth_challenge *out);
/*
 * @sent: the reply that is answered. NVMF_AUTH_FAILED: it asked for the controller's proof, and the
 * message contains none.
 */
enum nvmf_auth_expl nvmf_auth_parse_success1(const uint8_t *buf, size_t len,
					     const struct nvmf_auth_reply *sent,
					     struct nvmf_auth_success1 *out);

/* For both: Failure1 or Failure2, as @msg says. */
enum nvmf_auth_expl nvmf_auth_parse_failure(const uint8_t *buf, size_t len, enum nvmf_auth_msg msg,
					    uint16_t t_id, struct nvmf_auth_failure *out);

size_t nvmf_auth_build_negotiate(const struct nvmf_auth_negotiate *m, uint8_t *buf);
size_t nvmf_auth_build_challenge(const struct nvmf_auth_challenge *m, uint8_t *buf);
size_t nvmf_auth_build_reply(const struct nvmf_auth_reply *m, uint8_t *buf);
size_t nvmf_auth_build_success1(const struct nvmf_auth_success1 *m, uint8_t *buf);
size_t nvmf_auth_build_success2(uint16_t t_id, uint8_t *buf);
/* @msg: NVMF_AUTH_MSG_FAILURE1 of a controller or NVMF_AUTH_MSG_FAILURE2 of a host. */
size_t nvmf_auth_build_failure(enum nvmf_auth_msg msg, uint16_t t_id,
			       enum nvmf_auth_expl explanation, uint8_t *buf);

#endif /* RD_NVMF_AUTH_MSG_H */
