/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the lines of a log go without anybody waiting: a reader of the log that is slow, or does
 * not read at all, must not stop a server. A line is written at once where the descriptor takes it.
 * Else it is kept in a buffer of RD_LOG_OUT_BYTES, which a thread empties as the descriptor allows.
 * Lines that do not fit are dropped and counted; a line says how many as soon as there is room for
 * it.
 *
 * Thread rule: rd_log_out_write() from any thread, the others from one.
 */
#ifndef RD_UTIL_LOG_OUT_H
#define RD_UTIL_LOG_OUT_H

#include <stddef.h>
#include <stdint.h>

#define RD_LOG_OUT_BYTES (256u * 1024)
#define RD_LOG_OUT_LINE  3072u /* the longest line, with its newline */

struct rd_log_out;

/* Make the line, with its newline, that says that @count were dropped; returns its length, at most
 * @size. */
typedef size_t (*rd_log_out_dropped_fn)(void *arg, uint64_t count, char *buf, size_t size);

/*
 * Lines for @fd, which stays the caller's and keeps its flags: other processes may share it.
 * Returns 0 or -errno.
 */
int rd_log_out_create(int fd, rd_log_out_dropped_fn dropped, void *arg, struct rd_log_out **out);
void rd_log_out_write(struct rd_log_out *out, const char *line, size_t len);
/* Wait until everything is written, but no longer than @timeout_ms. */
void rd_log_out_flush(struct rd_log_out *out, int timeout_ms);
void rd_log_out_destroy(struct rd_log_out **out); /* what is not written is lost: flush first */

#endif /* RD_UTIL_LOG_OUT_H */
