/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log output without waiting: a slow reader of the log, or one that does not read, must not stop a
 * server. A line is written at once if the descriptor takes it. Otherwise it is kept in a buffer of
 * RD_LOG_OUT_BYTES, which a thread empties. Lines that do not fit are dropped and counted; a line
 * reports their number as soon as there is room.
 *
 * Thread rule: any thread may call rd_log_out_write(); one thread the others.
 */
#ifndef RD_UTIL_LOG_OUT_H
#define RD_UTIL_LOG_OUT_H

#include <stddef.h>
#include <stdint.h>

#define RD_LOG_OUT_BYTES (256u * 1024)
#define RD_LOG_OUT_LINE  3072u /* the longest line, with its newline */

struct rd_log_out;

/*
 * Builds the line, with its newline, which says that @count lines were dropped. Returns its length,
 * at most @size.
 */
typedef size_t (*rd_log_out_dropped_fn)(void *arg, uint64_t count, char *buf, size_t size);

/*
 * @fd remains the caller's and keeps its flags, since other processes may share it. Returns 0 or
 * -errno.
 */
int rd_log_out_create(int fd, rd_log_out_dropped_fn dropped, void *arg, struct rd_log_out **out);
void rd_log_out_write(struct rd_log_out *out, const char *line, size_t len);
/* Waits until everything is written, for at most @timeout_ms. */
void rd_log_out_flush(struct rd_log_out *out, int timeout_ms);
void rd_log_out_destroy(struct rd_log_out **out); /* unwritten lines are lost: flush first */

#endif /* RD_UTIL_LOG_OUT_H */
