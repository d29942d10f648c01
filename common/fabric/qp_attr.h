/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RD_FABRIC_QP_ATTR_H
#define RD_FABRIC_QP_ATTR_H

#include "fabric/fabric.h"

/* For providers: whether a device with @caps can have such a queue pair. Returns 0 or -EINVAL. */
int rd_fab_check_qp_attr(const struct rd_fab_caps *caps, const struct rd_fab_qp_attr *attr);

#endif /* RD_FABRIC_QP_ATTR_H */
