/* SPDX-License-Identifier: BSD-3-Clause */
/* The suites of this program, one for each file. */
#ifndef T_INITIATOR_SUITES_H
#define T_INITIATOR_SUITES_H

#include "t_main.h"

extern const struct t_case t_attach_id_cases[];
extern const struct t_case t_uri_cases[];
extern const struct t_case t_host_cases[];
extern const struct t_case t_handle_cases[];
extern const struct t_case t_cp_engine_cases[];
extern const struct t_case t_cp_journal_cases[];
extern const struct t_case t_fields_cases[];
extern const struct t_case t_connect_cases[];
extern const struct t_case t_data_cases[];
extern const struct t_case t_fault_cases[];
extern const struct t_case t_admin_cases[];
extern const struct t_case t_auth_cases[];
extern const struct t_case t_auth_message_cases[];
extern const struct t_case t_auth_key_cases[];
extern const struct t_case t_passthru_cases[];
extern const struct t_case t_sync_cases[];
extern const struct t_case t_sizes_cases[];
extern const struct t_case t_paths_cases[];
extern const struct t_case t_dev_cases[];
extern const struct t_case t_dev_guard_cases[];
extern const struct t_case t_dev_extents_cases[];
extern const struct t_case t_dev_gateway_cases[];
extern const struct t_case t_dev_lost_cases[];
extern const struct t_case t_dev_hostile_cases[];
extern const struct t_case t_dev_path_cases[];

#endif /* T_INITIATOR_SUITES_H */
