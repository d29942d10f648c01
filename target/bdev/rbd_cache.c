/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What librbd keeps in memory.
 *
 * With its cache a write completes before it is stored, which hosts are told of (VWC), so that they
 * send Flush; a gateway that takes the image over would not have what is in the cache of another
 * one, so it is for images with a single rdtarget.
 *
 * With an object map it answers for objects that are missing there without asking an OSD, which
 * would refuse a gateway that was replaced: such a gateway would read zeroes where the next one has
 * written, and complete Write Zeroes and Deallocate that nothing executes. No option turns that
 * off.
 */
#include "rbd_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Options of librbd; there are less than a hundred. */
#define OPTIONS_MAX 1024

/* Has librbd a cache for this image? *@source is which configuration says so: that of the pool and
 * that of the image precede the connection's. Returns 0 or -errno. */
static int read_cache_option(struct rbd_image *img, bool *on, rbd_config_source_t *source)
{
	rbd_config_option_t *options = NULL, *more;
	int count = 128, rc;

	*on = false;
	do {
		more = reallocarray(options, (size_t)count, sizeof(*options));
		if (!more) {
			free(options);
			return -ENOMEM;
		}
		options = more;
		rc = rbd_config_image_list(img->image, options, &count);
	} while (rc == -ERANGE && count <= OPTIONS_MAX);
	if (rc < 0) {
		free(options);
		return rc;
	}
	for (int i = 0; i < count; i++)
		if (strcmp(options[i].name, "rbd_cache") == 0) {
			*on = strcmp(options[i].value, "true") == 0;
			*source = options[i].source;
		}
	rbd_config_image_list_cleanup(options, count);
	free(options);
	return 0;
}

int rbd_object_map_check(struct rbd_image *img, char *err, size_t err_size)
{
	uint64_t features = 0;
	char spelled[256];
	int rc;

	if (img->lock_mode != RDT_RBD_LOCK_EXCLUSIVE)
		return 0;
	rbd_image_spell(img, spelled, sizeof(spelled));
	rc = rbd_get_features(img->image, &features);
	if (rc) {
		snprintf(err, err_size, "rbd: image %s: its features cannot be read: %s", spelled,
			 strerror(-rc));
		return rc;
	}
	if (!(features & RBD_FEATURE_OBJECT_MAP))
		return 0;
	snprintf(err, err_size,
		 "rbd: image %s has the feature object-map, expected an image without it for "
		 "\"lock: exclusive\": a gateway that was replaced would answer from the map; "
		 "disable it: rbd feature disable %s fast-diff object-map",
		 spelled, spelled);
	return -EINVAL;
}

int rbd_cache_check(struct rbd_image *img, char *err, size_t err_size)
{
	rbd_config_source_t source = RBD_CONFIG_SOURCE_CONFIG;
	char spelled[256];
	const char *where;
	bool on;
	int rc = read_cache_option(img, &on, &source);

	rbd_image_spell(img, spelled, sizeof(spelled));
	if (rc) {
		snprintf(err, err_size,
			 "rbd: image %s: its options (rbd config image ls) cannot be read: %s",
			 spelled, strerror(-rc));
		return rc;
	}
	if (!on || img->cache)
		return 0;
	where = source == RBD_CONFIG_SOURCE_IMAGE  ? "of the image (rbd config image rm)"
		: source == RBD_CONFIG_SOURCE_POOL ? "of the pool (rbd config pool rm)"
						   : "of the cluster (options)";
	snprintf(err, err_size,
		 "rbd: image %s: rbd_cache is true in the configuration %s, expected false: hosts "
		 "would not know that writes are not stored; remove it, or set \"cache: true\"",
		 spelled, where);
	return -EINVAL;
}

int rbd_cache_failed(struct rbd_image *img, int err)
{
	char spelled[256];

	if (!img->bdev.volatile_cache)
		return err;
	return img->sync_error(&img->bdev, img->log, rbd_image_spell(img, spelled, sizeof(spelled)),
			       err, false);
}
