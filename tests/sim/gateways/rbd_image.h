/* SPDX-License-Identifier: BSD-3-Clause */
/* The exclusive lock of the image. */
#ifndef SIM_RBD_IMAGE_H
#define SIM_RBD_IMAGE_H

#include "cluster.h"

/* Does @c have the lock of the image, by its open image @cookie? NULL: does nobody? */
static inline bool rbd_owner_is(const struct cluster *cl, const struct client *c, uint64_t cookie)
{
	return cl->lock_client == c && (!c || cl->lock_cookie == cookie);
}

#endif /* SIM_RBD_IMAGE_H */
