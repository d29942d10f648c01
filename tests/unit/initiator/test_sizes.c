/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that were built with an older or a newer version of the library: their structures have
 * other sizes. */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <string.h>

#include "suites.h"
#include "rdma/rdma.h"
#include "t_fake.h"

#define GUARD 0xa5

/* Are all bytes behind the first @size unchanged? */
static bool untouched(const unsigned char *p, size_t size, size_t room)
{
	for (; size < room; size++) {
		if (p[size] != GUARD)
			return false;
	}
	return true;
}

static void older(void)
{
	T_CTRL(ctrl) = NULL;
	union {
		struct rdinit_ctrl_opts o;
		unsigned char bytes[sizeof(struct rdinit_ctrl_opts)];
	} opts;
	union {
		struct rdinit_uri u;
		unsigned char bytes[sizeof(struct rdinit_uri)];
	} uri;
	union {
		struct rdinit_ctrl_info i;
		unsigned char bytes[sizeof(struct rdinit_ctrl_info)];
	} info;

	t_fake_reset();
	memset(&info, GUARD, sizeof(info));
	memset(&opts, GUARD, sizeof(opts));
	memset(&uri, GUARD, sizeof(uri));
	rdinit_uri_init_size(&uri.u, RDI_URI_FIRST);
	CU_ASSERT_EQUAL(uri.u.size, RDI_URI_FIRST);
	CU_ASSERT_EQUAL(rdinit_uri_parse("nvme+rdma://192.0.2.1/nqn.2024-01.test:x"
					 "?no-remote-invalidate",
					 &uri.u),
			0);
	CU_ASSERT_TRUE(untouched(uri.bytes, RDI_URI_FIRST, sizeof(uri)));
	CU_ASSERT_STRING_EQUAL(uri.u.traddr, "192.0.2.1");

	rdinit_ctrl_opts_init_size(&opts.o, RDI_OPTS_FIRST);
	CU_ASSERT_EQUAL(opts.o.size, RDI_OPTS_FIRST);
	CU_ASSERT_EQUAL(opts.o.nr_io_queues, 1);
	rdinit_ctrl_opts_set_uri(&opts.o, &uri.u);
	CU_ASSERT_TRUE(untouched(opts.bytes, RDI_OPTS_FIRST, sizeof(opts)));
	CU_ASSERT_EQUAL_FATAL(rdi_ctrl_create_env(&opts.o, &t_env, &ctrl), 0);
	/* bytes behind the structure stay unchanged */
	CU_ASSERT_FALSE(
		rd_container_of(ctrl->transport, struct rdi_rdma_cfg, cfg)->no_remote_invalidate);
	CU_ASSERT_EQUAL(rdinit_ctrl_connect(ctrl), 0);
	rdinit_ctrl_info_init_size(&info.i, RDI_INFO_FIRST);
	CU_ASSERT_EQUAL(rdinit_ctrl_get_info(ctrl, &info.i), 0);
	CU_ASSERT_STRING_EQUAL(info.i.hostnqn, rdinit_ctrl_hostnqn(ctrl));
	CU_ASSERT_TRUE(untouched(info.bytes, RDI_INFO_FIRST, sizeof(info)));
}

/* @call is refused with the name of @type, and the text says that the library is the older one. */
#define NEWER(type, call)                                                           \
	do {                                                                        \
		CU_ASSERT_EQUAL(call, -EINVAL);                                     \
		CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), "struct " type)); \
		CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), "newer"));        \
	} while (0)

static void newer(void)
{
	union {
		struct rdinit_uri uri;
		struct rdinit_ctrl_opts opts;
		struct rdinit_ctrl_info info;
		struct rdinit_ns ns;
		struct rdinit_qpair_opts qopts;
		struct rdinit_passthru cmd;
		unsigned char bytes[2048];
	} u;
	unsigned char block[512];
	struct rdinit_ctrl *ctrl, *none;
	struct rdinit_qpair *qp, *no_qp;

	t_fake_reset();
	ctrl = t_ctrl(2);
	qp = t_qpair(ctrl, 4);
	memset(&u, GUARD, sizeof(u));
	rdinit_uri_init_size(&u.uri, sizeof(u.uri) + 8);
	CU_ASSERT_TRUE(untouched(u.bytes, sizeof(u.uri) + 8, sizeof(u)));
	NEWER("rdinit_uri", rdinit_uri_parse("nvme+rdma://h", &u.uri));
	rdinit_ctrl_opts_init_size(&u.opts, sizeof(u.opts) + 8);
	NEWER("rdinit_ctrl_opts", rdinit_ctrl_create(&u.opts, &none));
	rdinit_ctrl_info_init_size(&u.info, sizeof(u.info) + 8);
	NEWER("rdinit_ctrl_info", rdinit_ctrl_get_info(ctrl, &u.info));
	rdinit_ns_init_size(&u.ns, sizeof(u.ns) + 8);
	NEWER("rdinit_ns", rdinit_ns_open(ctrl, 1, &u.ns));
	NEWER("rdinit_ns", rdinit_read(qp, &u.ns, 0, 1, block, 0));
	NEWER("rdinit_ns", rdinit_flush(qp, &u.ns));
	rdinit_qpair_opts_init_size(&u.qopts, sizeof(u.qopts) + 8);
	NEWER("rdinit_qpair_opts", rdinit_qpair_create(ctrl, &u.qopts, &no_qp));
	rdinit_passthru_init_size(&u.cmd, sizeof(u.cmd) + 8);
	NEWER("rdinit_passthru", rdinit_io_passthru(qp, &u.cmd, NULL));
	rdinit_qpair_free(&qp);
	rdinit_ctrl_free(&ctrl);
}

static void not_initialised(void)
{
	struct rdinit_ctrl_opts opts = {.traddr = "192.0.2.1"};
	struct rdinit_uri uri = {.nsid = 0};
	struct rdinit_ctrl *ctrl;

	CU_ASSERT_EQUAL(rdinit_ctrl_create(&opts, &ctrl), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), "_init"));
	CU_ASSERT_EQUAL(rdinit_uri_parse("nvme+rdma://h", &uri), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_ctrl_create(NULL, &ctrl), -EINVAL);
}

const struct t_case t_sizes_cases[] = {
	{"smaller structures are used as far as they go", older},
	{"larger ones are refused by their name", newer},
	{"so are those that were not initialised", not_initialised},
	{NULL, NULL},
};
