/* SPDX-License-Identifier: BSD-3-Clause */
#include "err.h"

#include <errno.h>

int rd_vb_err(int rc)
{
	if (rc == 0)
		return 0;
	if (rc > 0)
		return -rc;
	return rc == -1 ? rd_vb_errno() : rc;
}

int rd_vb_errno(void)
{
	return errno ? -errno : -EIO;
}
