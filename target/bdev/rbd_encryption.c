/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images with encryption: librbd decrypts and encrypts, and hosts see what is behind the header.
 * The key is read from its file each time the image is opened, and wiped after that. Part of the
 * image's job.
 */
#include "rbd_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "target/config/key_file.h"

static int load_luks(struct rbd_image *img, const char *passphrase, size_t size)
{
	rbd_encryption_luks1_format_options_t luks1 = {.passphrase = passphrase,
						       .passphrase_size = size};
	rbd_encryption_luks2_format_options_t luks2 = {.passphrase = passphrase,
						       .passphrase_size = size};

	if (img->encryption == RDT_RBD_ENCRYPTION_LUKS1)
		return rbd_encryption_load(img->image, RBD_ENCRYPTION_FORMAT_LUKS1, &luks1,
					   sizeof(luks1));
	return rbd_encryption_load(img->image, RBD_ENCRYPTION_FORMAT_LUKS2, &luks2, sizeof(luks2));
}

/* The whole file, without a newline at its end. */
static int read_passphrase(const struct rbd_image *img, char text[RDT_KEY_FILE_MAX], size_t *size,
			   char *why, size_t why_size)
{
	int rc = rdt_key_file_read(img->key_file, text, size, why, why_size);

	if (rc)
		return rc;
	if (*size == RDT_KEY_FILE_MAX - 1) {
		snprintf(why, why_size, "%.200s has %u bytes or more, expected a passphrase",
			 img->key_file, RDT_KEY_FILE_MAX - 1);
		return -EINVAL;
	}
	if (*size && text[*size - 1] == '\n')
		--*size;
	if (*size)
		return 0;
	snprintf(why, why_size, "%.200s is empty, expected a passphrase", img->key_file);
	return -EINVAL;
}

static int tell_refused(const struct rbd_image *img, int rc, char *why, size_t why_size)
{
	const char *format = img->encryption == RDT_RBD_ENCRYPTION_LUKS1 ? "luks1" : "luks2";

	switch (rc) {
	case -EPERM:
		snprintf(why, why_size,
			 "the key in %.200s does not match, expected the passphrase of one of the "
			 "image's key slots",
			 img->key_file);
		return -EKEYREJECTED;
	case -EINVAL:
	case -EOPNOTSUPP:
		snprintf(why, why_size,
			 "%s; expected an image that was formatted by \"rbd encryption format "
			 "IMAGE %s FILE\"",
			 strerror(-rc), format);
		return -EINVAL;
	default:
		snprintf(why, why_size, "%s", strerror(-rc));
		return rc;
	}
}

int rbd_image_decrypt(struct rbd_image *img, char *err, size_t err_size)
{
	char text[RDT_KEY_FILE_MAX], why[320], spelled[256];
	size_t size;
	int rc;

	if (img->encryption == RDT_RBD_ENCRYPTION_NONE)
		return 0;
	rc = read_passphrase(img, text, &size, why, sizeof(why));
	if (!rc) {
		rc = load_luks(img, text, size);
		if (rc)
			rc = tell_refused(img, rc, why, sizeof(why));
	}
	explicit_bzero(text, sizeof(text));
	if (rc)
		snprintf(err, err_size, "rbd: image %s: its encryption cannot be used: %s",
			 rbd_image_spell(img, spelled, sizeof(spelled)), why);
	return rc;
}
