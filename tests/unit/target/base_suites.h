/* SPDX-License-Identifier: BSD-3-Clause */
/* The suites of the configuration and the backends, one for each file. */
#ifndef T_TARGET_BASE_SUITES_H
#define T_TARGET_BASE_SUITES_H

#include <stddef.h>
#include <stdint.h>

#include "t_main.h"

struct rdt_bdev;
struct rdt_bio;

extern const struct t_case t_config_cases[];
extern const struct t_case t_config_file_cases[];
extern const struct t_case t_backend_cases[];
extern const struct t_case t_backend_open_cases[];
extern const struct t_case t_cancel_cases[];
extern const struct t_case t_edit_cases[];
extern const struct t_case t_extent_map_cases[];
extern const struct t_case t_inherit_cases[];
extern const struct t_case t_jobs_cases[];
extern const struct t_case t_layer_cases[];
extern const struct t_case t_qos_cases[];
extern const struct t_case t_reservation_cases[];
extern const struct t_case t_shares_cases[];
extern const struct t_case t_slots_cases[];
extern const struct t_case t_identity_cases[];
extern const struct t_case t_state_cases[];
extern const struct t_case t_submit_cases[];

/* Create an empty directory for the files of one case. Exits if that is impossible. */
void t_dir_make(char path[64]);
/* Remove it with the files in it. */
void t_dir_remove(const char *path);

/* Have @bdev take the size that it finds. */
int t_bdev_resize(struct rdt_bdev *bdev, uint64_t size, char *err, size_t err_size);

/* What threads do for a bio instead of system calls, if it is set; on those threads. */
extern int64_t (*t_blocking_io)(const struct rdt_bio *bio);

/* fsync(2) counts its calls in this program, and call number t_fsync_fails fails with EIO. */
extern int t_fsync_fails, t_fsync_calls;

#endif /* T_TARGET_BASE_SUITES_H */
