/* SPDX-License-Identifier: BSD-3-Clause */
/* Files with secrets. */
#ifndef RDT_KEY_FILE_H
#define RDT_KEY_FILE_H

#include <stddef.h>

#define RDT_KEY_FILE_MAX 4096u /* more than the bytes of such a file */

/*
 * Reads the file with the name that a configuration has: a path, or without a slash a credential of
 * systemd. Others must not have access to it. Any thread. Returns 0 with its bytes, and a NUL after
 * them, in @text, which the caller wipes; or -errno with a reason that names the file in @why.
 */
int rdt_key_file_read(const char *name, char text[RDT_KEY_FILE_MAX], size_t *len, char *why,
		      size_t why_size);

#endif /* RDT_KEY_FILE_H */
