/* SPDX-License-Identifier: BSD-3-Clause */
/* Text that a peer has chosen: checking for UTF-8, and masking what must not be displayed. */
#ifndef RD_UTIL_UTF8_H
#define RD_UTIL_UTF8_H

#include <stddef.h>

/*
 * The length of the well-formed UTF-8 sequence at the start of @text (of @len > 0 bytes); 0: none.
 */
size_t rd_utf8_len(const char *text, size_t len);

/*
 * Makes a text of a peer safe to display: it must not forge lines, control a terminal or change the
 * reading order. Control characters (U+0000 to U+001F, U+007F to U+009F), bidirectional controls,
 * line separators and bytes that are not UTF-8 become '?', a tab and a newline a space. The length
 * does not change. Every line of a log passes through it.
 */
void rd_mask_control(char *text, size_t len);

#endif /* RD_UTIL_UTF8_H */
