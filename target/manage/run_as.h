/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDT_RUN_AS_H
#define RDT_RUN_AS_H

struct rd_log;

/*
 * The option --user: this process, which root has started, becomes the user @spec for good, without
 * capabilities, as with User= of systemd. @spec is NAME or NAME:GROUP; both may be numbers. Without
 * GROUP the process has all groups of the user, with it only that one. The limit of locked memory
 * is removed before, because only root exceeds it. The user may trace the process and gets its core
 * dumps.
 *
 * Main thread, before anything is opened: a reload opens with the same permissions as the start.
 * Returns 0, also when the process already is that user, or -errno, and has logged why: -ENOENT
 * there is no such user or group, -EINVAL a number needs a group, -EPERM this process may not
 * become another user.
 */
int rdt_run_as(const char *spec, struct rd_log *log);

#endif /* RDT_RUN_AS_H */
