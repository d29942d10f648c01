/* SPDX-License-Identifier: BSD-3-Clause */
/* Hosts that reconnect while the storage still executes their writes: what the tests share. */
#ifndef T_STALE_H
#define T_STALE_H

#include "target/nvmf/stale_write.h"
#include "t_target.h"

extern uint8_t t_old_data[512], t_new_data[512];

/* A new association of the host with this ID, which requests to become ready. */
struct t_conn *t_comes_back(struct t_env *env, unsigned int reactor, uint8_t hostid);
bool t_is_ready(struct t_conn *admin);
/* A write of the old data by @io, which the disk of namespace 1 holds. Returns that disk. */
struct t_disk *t_begin_old_write(struct t_env *env, struct t_conn *io);
/* Send Write Zeroes for a block. */
void t_send_zeroes(struct t_conn *c, uint32_t nsid, uint32_t slba);

#endif /* T_STALE_H */
