/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection to an NBD server: made, and compared with what a namespace needs. Any thread. */
#ifndef RDT_NBD_CONNECT_H
#define RDT_NBD_CONNECT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct nbd_handle;
struct rdt_bdev;

/* Blocks. @ends: give up when it is set, or NULL. Returns 0, or -errno with libnbd's words in
 * @err. */
int rdt_nbd_connect(const char *uri, uint64_t timeout_ns, const atomic_bool *ends,
		    struct nbd_handle **out, char *err, size_t err_size);
/* What libnbd says of its last error on this thread, or @otherwise. */
const char *rdt_nbd_words(const char *otherwise);
/* Does the export fit the namespace? Returns 0, or -EINVAL with a sentence. */
int rdt_nbd_check(struct nbd_handle *nbd, const struct rdt_bdev *bdev, char *err, size_t err_size);
/* Bytes of a request with data, at most: a multiple of @block_size. */
uint32_t rdt_nbd_most(struct nbd_handle *nbd, uint32_t block_size);
uint64_t rdt_nbd_server(const char *uri); /* the same number for each export of a server */

#endif /* RDT_NBD_CONNECT_H */
