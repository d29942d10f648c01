/* SPDX-License-Identifier: BSD-3-Clause */
/* The suites of this program, one for each file. */
#ifndef T_FABRIC_SUITES_H
#define T_FABRIC_SUITES_H

#include "t_main.h"

extern const struct t_case t_wire_cases[];
extern const struct t_case t_ops_cases[];
extern const struct t_case t_ends_cases[];
extern const struct t_case t_flow_cases[];
extern const struct t_case t_srq_cases[];
extern const struct t_case t_no_device_cases[];
extern const struct t_case t_verbs_first_cases[];
extern const struct t_case t_verbs_cases[];
extern const struct t_case t_poke_cases[];
extern const struct t_case t_sigpipe_cases[];
extern const struct t_case t_siw_sigpipe_cases[];
extern const struct t_case t_silent_cases[];
extern const struct t_case t_hotplug_cases[];
extern const struct t_case t_conn_cases[];
extern const struct t_case t_conn_events_cases[];
extern const struct t_case t_frames_cases[];
extern const struct t_case t_abuse_cases[];
extern const struct t_case t_threads_cases[];

#endif /* T_FABRIC_SUITES_H */
