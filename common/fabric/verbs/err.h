/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RD_VB_ERR_H
#define RD_VB_ERR_H

/*
 * The one place that knows verbs' conventions: 0, a positive errno, or -1 with errno set (which
 * rdma_cm uses throughout). Returns 0 or -errno.
 */
int rd_vb_err(int rc);
/* The same for calls that return NULL and set errno. Never 0. */
int rd_vb_errno(void);

#endif /* RD_VB_ERR_H */
