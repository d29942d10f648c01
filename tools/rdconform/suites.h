/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of tests, by file. */
#ifndef RDC_SUITES_H
#define RDC_SUITES_H

#include "rdconform.h"

extern const struct rdc_test rdc_t_connect[];
extern const struct rdc_test rdc_t_order[];
extern const struct rdc_test rdc_t_property[];
extern const struct rdc_test rdc_t_auth_handshake[];
extern const struct rdc_test rdc_t_auth_message[];
extern const struct rdc_test rdc_t_auth_value[];
extern const struct rdc_test rdc_t_identify[];
extern const struct rdc_test rdc_t_log[];
extern const struct rdc_test rdc_t_feature[];
extern const struct rdc_test rdc_t_opcode[];
extern const struct rdc_test rdc_t_event[];
extern const struct rdc_test rdc_t_abort[];
extern const struct rdc_test rdc_t_keepalive[];
extern const struct rdc_test rdc_t_read[];
extern const struct rdc_test rdc_t_write[];
extern const struct rdc_test rdc_t_flush[];
extern const struct rdc_test rdc_t_io_opcode[];
extern const struct rdc_test rdc_t_compare[];
extern const struct rdc_test rdc_t_fused[];
extern const struct rdc_test rdc_t_zeroes[];
extern const struct rdc_test rdc_t_allocated[];
extern const struct rdc_test rdc_t_dsm[];
extern const struct rdc_test rdc_t_verify[];
extern const struct rdc_test rdc_t_copy[];
extern const struct rdc_test rdc_t_uncorrectable[];
extern const struct rdc_test rdc_t_protect[];
extern const struct rdc_test rdc_t_register[];
extern const struct rdc_test rdc_t_acquire[];
extern const struct rdc_test rdc_t_release[];
extern const struct rdc_test rdc_t_report[];
extern const struct rdc_test rdc_t_access[];
extern const struct rdc_test rdc_t_preempt[];
extern const struct rdc_test rdc_t_notify[];
extern const struct rdc_test rdc_t_disc_log[];
extern const struct rdc_test rdc_t_disc_ctrl[];
extern const struct rdc_test rdc_t_capsule[];
extern const struct rdc_test rdc_t_psdt[];
extern const struct rdc_test rdc_t_sgl[];
extern const struct rdc_test rdc_t_cm[];
extern const struct rdc_test rdc_t_rdma_capsule[];
extern const struct rdc_test rdc_t_rdma_sgl[];
extern const struct rdc_test rdc_t_key[];
extern const struct rdc_test rdc_t_tcp_ic[];
extern const struct rdc_test rdc_t_tcp_header[];
extern const struct rdc_test rdc_t_tcp_capsule[];
extern const struct rdc_test rdc_t_tcp_data[];
extern const struct rdc_test rdc_t_tcp_digest[];
extern const struct rdc_test rdc_t_tcp_term[];
extern const struct rdc_test rdc_t_tcp_sgl[];
extern const struct rdc_test rdc_t_host_linux[];
extern const struct rdc_test rdc_t_host_freebsd[];
extern const struct rdc_test rdc_t_host_esxi[];
extern const struct rdc_test rdc_t_abuse_conn[];
extern const struct rdc_test rdc_t_abuse_capsule[];
extern const struct rdc_test rdc_t_abuse_queue[];

#endif /* RDC_SUITES_H */
