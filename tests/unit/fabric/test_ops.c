/* SPDX-License-Identifier: BSD-3-Clause */
/* SEND, WRITE and READ in all sizes and shapes. */
#include <stdlib.h>

#include "suites.h"
#include "t_fab.h"

static const uint32_t sizes[] = {
	0,     1,     2,     3,     4,     5,     63,    4095,   4096,    65515,         65516,
	65517, 65519, 65520, 65521, 65535, 65536, 65537, 131072, 1 << 20, (1 << 20) + 3, 3 << 20,
};
#define NSIZES (sizeof(sizes) / sizeof(sizes[0]))
#define BIG    ((3u << 20) + 64)

static void run_sizes(const struct t_opts *opts)
{
	struct t_pair p;
	uint8_t *a = malloc(BIG), *b = malloc(BIG);
	struct rd_fab_mr *ma, *mb;

	t_pair_connect(&p, opts);
	ma = t_reg(&p.cl, a, BIG, IBV_ACCESS_LOCAL_WRITE);
	mb = t_reg(&p.sv, b, BIG, T_ACCESS_ALL);
	for (size_t i = 0; i < NSIZES; i++) {
		uint32_t n = sizes[i];
		uint64_t raddr = rd_fab_remote_addr(mb, b + 1);

		p.cl.nwc = p.sv.nwc = 0;
		/* SEND */
		memset(b, 0, BIG);
		t_fill(a, n, (uint32_t)i);
		CU_ASSERT_EQUAL(t_recv(&p.sv, 7, mb, 0, n), 0);
		CU_ASSERT_EQUAL(t_send(&p.cl, 8, ma, 0, n), 0);
		T_UNTIL(&p, p.cl.nwc == 1 && p.sv.nwc == 1);
		CU_ASSERT_EQUAL(p.sv.wc[0].wr_id, 7);
		CU_ASSERT_EQUAL(p.sv.wc[0].status, IBV_WC_SUCCESS);
		CU_ASSERT_EQUAL(p.sv.wc[0].opcode, IBV_WC_RECV);
		CU_ASSERT_EQUAL(p.sv.wc[0].byte_len, n);
		CU_ASSERT_EQUAL(p.sv.wc[0].qp_num, p.sv.conn->qp_num);
		CU_ASSERT_EQUAL(p.sv.wc[0].wc_flags, 0);
		CU_ASSERT_EQUAL(p.cl.wc[0].wr_id, 8);
		CU_ASSERT_EQUAL(p.cl.wc[0].opcode, IBV_WC_SEND);
		CU_ASSERT(t_filled(b, n, (uint32_t)i));
		CU_ASSERT_EQUAL(b[n], 0);
		/* WRITE, to an odd address */
		memset(b, 0, BIG);
		t_fill(a, n, (uint32_t)i + 100);
		t_rdma(&p.cl, IBV_WR_RDMA_WRITE, 9, ma, 0, n, raddr, mb->rkey);
		/* READ the data back */
		t_rdma(&p.cl, IBV_WR_RDMA_READ, 10, ma, 3, n, raddr, mb->rkey);
		T_UNTIL(&p, p.cl.nwc == 3);
		CU_ASSERT_EQUAL(p.cl.wc[1].wr_id, 9);
		CU_ASSERT_EQUAL(p.cl.wc[1].opcode, IBV_WC_RDMA_WRITE);
		CU_ASSERT_EQUAL(p.cl.wc[2].wr_id, 10);
		CU_ASSERT_EQUAL(p.cl.wc[2].opcode, IBV_WC_RDMA_READ);
		CU_ASSERT_EQUAL(p.cl.wc[2].status, IBV_WC_SUCCESS);
		CU_ASSERT_EQUAL(p.cl.wc[2].byte_len, n);
		CU_ASSERT_EQUAL(b[0], 0);
		CU_ASSERT(t_filled(b + 1, n, (uint32_t)i + 100));
		CU_ASSERT_EQUAL(b[n + 1], 0);
		CU_ASSERT(t_filled(a + 3, n, (uint32_t)i + 100));
	}
	t_pair_close(&p);
	free(a);
	free(b);
}

static void all_sizes(void)
{
	run_sizes(NULL);
}

static void all_sizes_crc(void)
{
	struct t_opts o = {.client.crc = true};

	run_sizes(&o);
	o = (struct t_opts){.server.crc = true, .ipv6 = true};
	run_sizes(&o);
}

static void all_sizes_ipv6(void)
{
	struct t_opts o = {.ipv6 = true};

	run_sizes(&o);
}

const struct t_case t_ops_cases[] = {
	{"every operation in every size", all_sizes},
	{"the same with CRC, whoever asked for it", all_sizes_crc},
	{"the same over IPv6", all_sizes_ipv6},
	{NULL},
};
