/* SPDX-License-Identifier: BSD-3-Clause */
/* The exclusive lock of an image. */
#ifndef SIM_RBD_IMAGE_H
#define SIM_RBD_IMAGE_H

#include "cluster.h"

/* Does @c have the lock of the image, which it has open by @cookie? NULL: does nobody? */
static inline bool rbd_owner_is(const struct image *image, const struct client *c, uint64_t cookie)
{
	return image->lock_client == c && (!c || image->lock_cookie == cookie);
}

#endif /* SIM_RBD_IMAGE_H */
