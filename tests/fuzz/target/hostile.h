/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hostile host: connections on which anything may be sent, and memory regions that may change,
 * shrink or vanish while the target uses them. It never uses the name of the honest host.
 */
#ifndef FUZZ_HOSTILE_H
#define FUZZ_HOSTILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage.h"

#define HOSTILE_CONNS   4u
#define HOSTILE_REGIONS 2u
#define HOSTILE_REGION  32768u /* bytes */
#define HOSTILE_SEND    1536u  /* bytes of a message at most */
#define HOSTILE_PRIVATE 64u

struct hostile_connect {
	uint16_t port;
	bool no_recvs;
	uint8_t private_data[HOSTILE_PRIVATE];
	uint8_t private_len;
};

void hostile_open(struct stage *s);
void hostile_turn(struct hostile *h);
/* Its connections and memory are gone. */
void hostile_leaves(struct hostile *h);
void hostile_close(struct stage *s);

/* Ends the connection @n, if there is one, and begins another one. */
void hostile_connect(struct hostile *h, unsigned int n, const struct hostile_connect *how);
/* Neither established nor over. */
bool hostile_connecting(const struct hostile *h, unsigned int n);
/* @polite: its work requests are flushed before it is destroyed; otherwise it vanishes. */
void hostile_disconnect(struct hostile *h, unsigned int n, bool polite);
/* @invalidate: the key of the region 0 goes with it. Dropped when it cannot be sent. */
void hostile_send(struct hostile *h, unsigned int n, const uint8_t *data, size_t len,
		  bool invalidate);
/* A READ or WRITE of memory of the target. */
void hostile_rdma(struct hostile *h, unsigned int n, bool read, uint32_t key, uint64_t addr,
		  uint32_t len);
/* Messages of the connection, or also those to it, wait. */
void hostile_hold(struct hostile *h, unsigned int n, bool both, uint64_t ns);
/* Whether RECVs are posted again; those that are not posted make the target's answers fail. */
void hostile_set_recvs(struct hostile *h, unsigned int n, bool posts);

/* Another region in its place, which may be shorter, or (@len 0) none. */
void hostile_set_region(struct hostile *h, unsigned int n, uint32_t len, int access);
/* Address and key of the region, or of the one that was there. */
void hostile_region(const struct hostile *h, unsigned int n, uint64_t *addr, uint32_t *key);
void hostile_write_region(struct hostile *h, unsigned int n, size_t off, const void *data,
			  size_t len);

/* Answers received by the connection, and the controller of its last successful Connect. */
unsigned int hostile_answers(const struct hostile *h, unsigned int n);
uint16_t hostile_cntlid(const struct hostile *h, unsigned int n);

#endif /* FUZZ_HOSTILE_H */
