/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/qp_attr.h"

#include <errno.h>

int rd_fab_check_qp_attr(const struct rd_fab_caps *caps, const struct rd_fab_qp_attr *attr)
{
	if (!attr->send_cq || !attr->recv_cq || attr->max_send_wr > caps->max_send_wr ||
	    attr->max_send_sge > caps->max_send_sge || attr->max_inline > caps->max_inline)
		return -EINVAL;
	if (!attr->srq &&
	    (attr->max_recv_wr > caps->max_recv_wr || attr->max_recv_sge > caps->max_recv_sge))
		return -EINVAL;
	return 0;
}
