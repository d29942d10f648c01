/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RD_VB_ERR_H
#define RD_VB_ERR_H

#include <errno.h>

/*
 * The -errno of a call that has returned NULL and set errno. Never 0. Set errno to 0 before such a
 * call.
 */
static inline int rd_vb_errno(void)
{
	return errno ? -errno : -EIO;
}
/*
 * Converts the result of a call of libibverbs or librdmacm, which is 0, a positive errno, or -1
 * with errno set, to 0 or -errno.
 */
static inline int rd_vb_err(int rc)
{
	if (rc > 0)
		return -rc;
	return rc == -1 ? rd_vb_errno() : rc;
}

#endif /* RD_VB_ERR_H */
