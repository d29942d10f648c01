/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RD_VB_ERR_H
#define RD_VB_ERR_H

/*
 * Converts the result of a call of libibverbs or librdmacm, which is 0, a positive errno, or -1
 * with errno set, to 0 or -errno.
 */
int rd_vb_err(int rc);
/*
 * The -errno of a call that has returned NULL and set errno. Never 0. Set errno to 0 before such a
 * call.
 */
int rd_vb_errno(void);

#endif /* RD_VB_ERR_H */
