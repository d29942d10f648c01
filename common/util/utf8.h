/* SPDX-License-Identifier: BSD-3-Clause */
/* Text that a peer chose: whether it is UTF-8, and how it is made fit to be shown. */
#ifndef RD_UTIL_UTF8_H
#define RD_UTIL_UTF8_H

#include <stddef.h>

/* Bytes of the well-formed UTF-8 sequence that @text (of @len > 0 bytes) begins with; 0: none. */
size_t rd_utf8_len(const char *text, size_t len);

/*
 * Names and texts of peers must not forge lines, drive a terminal or change the order of what is
 * read: control characters of both sets (U+0000 to U+001F, U+007F to U+009F), bidirectional
 * controls, separators of lines and bytes that are not UTF-8 become '?', a tab and a newline a
 * space. The length stays. Each line of a log has been through it.
 */
void rd_mask_control(char *text, size_t len);

#endif /* RD_UTIL_UTF8_H */
