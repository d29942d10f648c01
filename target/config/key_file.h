/* SPDX-License-Identifier: BSD-3-Clause */
/* Files with secrets. */
#ifndef RDT_KEY_FILE_H
#define RDT_KEY_FILE_H

#include <stddef.h>

#define RDT_KEY_FILE_MAX 4096u /* larger than any such file */

/*
 * Reads the file that a configuration names: a path, or without a slash a credential of systemd.
 * Other users must not have access to it. Any thread. Returns 0 with the contents, followed by a
 * NUL, in @text, which the caller wipes; or -errno with a reason that names the file in @why.
 */
int rdt_key_file_read(const char *name, char text[RDT_KEY_FILE_MAX], size_t *len, char *why,
		      size_t why_size);

#endif /* RDT_KEY_FILE_H */
