/* SPDX-License-Identifier: BSD-3-Clause */
#include "t_stale.h"

#include <string.h>

uint8_t t_old_data[512], t_new_data[512];

struct t_conn *t_comes_back(struct t_env *env, unsigned int reactor, uint8_t hostid)
{
	struct t_conn *admin = t_conn_new(env, reactor, 0, 32);
	struct t_answer a = t_connect_as(admin, NVMF_CNTLID_DYNAMIC, T_HOST, hostid);

	CU_ASSERT_EQUAL(t_status(&a), 0);
	a = t_set_property(admin, NVME_REG_CC, 0x00460001);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	return admin;
}

bool t_is_ready(struct t_conn *admin)
{
	return t_get_property(admin, NVME_REG_CSTS, false) == 1;
}

struct t_disk *t_begin_old_write(struct t_env *env, struct t_conn *io)
{
	struct t_disk *d = &env->disk[0];

	memset(t_old_data, 0xaa, sizeof(t_old_data));
	memset(t_new_data, 0xbb, sizeof(t_new_data));
	d->hold = true;
	t_send_rw(io, true, 0, 1, t_old_data);
	t_turn(env);
	CU_ASSERT_EQUAL_FATAL(d->held_count, 1);
	return d;
}

void t_send_zeroes(struct t_conn *c, uint32_t nsid, uint32_t slba)
{
	struct nvme_sqe sqe;

	t_sqe(c, &sqe, nvme_cmd_write_zeroes, NULL, 0);
	sqe.nsid = htole32(nsid);
	sqe.cdw10 = htole32(slba);
	t_send(c, &sqe, NULL, 0);
}
