/* SPDX-License-Identifier: BSD-3-Clause */
/* The I/O of files and block devices by system calls that may block. Threads of workers.h make
 * them. */
#ifndef RDT_BLOCKING_H
#define RDT_BLOCKING_H

#include <stdint.h>

struct rdt_bio;

/* Execute what rdt_fio(bio) says comes next: the current piece of a read or write, or the whole of
 * another operation. Returns the bytes moved, 0, or -errno. */
int64_t rdt_blocking_io(const struct rdt_bio *bio);

#endif /* RDT_BLOCKING_H */
