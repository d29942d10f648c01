/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors 0 to 2 of a program that was started without some of them. */
#ifndef RD_UTIL_STDFDS_H
#define RD_UTIL_STDFDS_H

/*
 * First of all in main(): those of descriptors 0 to 2 that are closed become /dev/null, opened the
 * wrong way round, so that using one is still an error (EBADF). Otherwise the program's own sockets
 * and files would take these numbers, and messages would go into them. Returns 0 or -errno.
 */
int rd_stdfds_open(void);

#endif /* RD_UTIL_STDFDS_H */
