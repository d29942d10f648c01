/* SPDX-License-Identifier: BSD-3-Clause */
/* The status page status.html, embedded by embed_page.py at build time. */
#ifndef RDT_STATUS_PAGE_H
#define RDT_STATUS_PAGE_H

#include <stddef.h>

extern const char rdt_status_page_policy[]; /* the Content-Security-Policy header of the page */
extern const size_t rdt_status_page_size;
extern const unsigned char rdt_status_page[];

#endif /* RDT_STATUS_PAGE_H */
