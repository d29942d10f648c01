/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The journal of `rdinit cp --resume`: a small JSON file with the identities of source and
 * destination, and the number of bytes from the beginning that are on stable storage. It is
 * replaced atomically, so that a kill at any moment leaves the old or the new one.
 */
#ifndef RDI_CLI_COPY_JOURNAL_H
#define RDI_CLI_COPY_JOURNAL_H

#include <jansson.h>
#include <stdint.h>

#define CLI_CP_JOURNAL_WHY 256

/* Makes a journal for a copy from @src to @dst (identities, not consumed). NULL: no memory. */
json_t *cli_cp_journal_make(json_t *src, json_t *dst, uint64_t complete);
/*
 * Whether @journal belongs to this copy, of @size bytes of source. Returns 0 and *@complete; or
 * -EINVAL (it is not a journal) or -ESTALE (of another copy), with the reason in @why.
 */
int cli_cp_journal_check(const json_t *journal, const json_t *src, const json_t *dst, uint64_t size,
			 uint64_t *complete, char why[CLI_CP_JOURNAL_WHY]);

/* Reads the file @path. Returns 0, -ENOENT (missing: *@out is NULL), or -errno after printing
 * why. */
int cli_cp_journal_load(const char *path, json_t **out);
/* Replaces @path by @journal on stable storage. Returns 0, or -errno after printing why. */
int cli_cp_journal_save(const char *path, const json_t *journal);

#endif /* RDI_CLI_COPY_JOURNAL_H */
