/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDT_RUN_AS_H
#define RDT_RUN_AS_H

#include <stddef.h>
#include <sys/types.h>

struct rd_log;

/*
 * The option --user: this process, started by root, becomes the user @spec permanently, without
 * capabilities, as with User= of systemd. @spec is NAME or NAME:GROUP; both may be numbers. Without
 * GROUP the process has all groups of the user, with it only that one. The limit of locked memory
 * is removed first, because only root may do that. The user may trace the process and gets its core
 * dumps.
 *
 * Main thread, before anything is opened, so that a reload opens files with the same permissions as
 * the start. Returns 0, also if the process already is that user, or -errno with the reason logged:
 * -ENOENT unknown user or group, -EINVAL a number needs a group, -EPERM this process may not become
 * another user.
 */
int rdt_run_as(const char *spec, struct rd_log *log);
/* The number of group @name; -1 for NULL. Returns 0, or -errno with a message in @text. Any
 * thread. */
int rdt_group_id(const char *name, gid_t *gid, char *text, size_t size);

#endif /* RDT_RUN_AS_H */
