/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef T_NVMF_SUITES_H
#define T_NVMF_SUITES_H

#include "t_main.h"

extern const struct t_case t_auth_cases[];
extern const struct t_case t_tcp_pdu_cases[];
extern const struct t_case t_tls_cases[];
extern const struct t_case t_tls_psk_cases[];

#endif /* T_NVMF_SUITES_H */
