/* SPDX-License-Identifier: BSD-3-Clause */
/* The suites of this program, one for each file. */
#ifndef T_UTIL_SUITES_H
#define T_UTIL_SUITES_H

#include "t_main.h"

extern const struct t_case t_buddy_cases[];
extern const struct t_case t_defer_cases[];
extern const struct t_case t_fd_bag_cases[];
extern const struct t_case t_hash_cases[];
extern const struct t_case t_hist_cases[];
extern const struct t_case t_iomem_cases[];
extern const struct t_case t_log_cases[];
extern const struct t_case t_log_out_cases[];
extern const struct t_case t_loop_cases[];
extern const struct t_case t_map_cases[];
extern const struct t_case t_parse_cases[];
extern const struct t_case t_sockaddr_cases[];
extern const struct t_case t_spin_cases[];
extern const struct t_case t_utf8_cases[];

#endif /* T_UTIL_SUITES_H */
