/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors 0 to 2 of a program that was started without some of them. */
#ifndef RD_UTIL_STDFDS_H
#define RD_UTIL_STDFDS_H

/*
 * Call it first in main(). Opens /dev/null for those of descriptors 0 to 2 that are closed, in the
 * wrong direction, so that using one remains an error (EBADF). Otherwise sockets and files of the
 * program would get these numbers, and messages would be written into them. Returns 0 or -errno.
 */
int rd_stdfds_open(void);

#endif /* RD_UTIL_STDFDS_H */
