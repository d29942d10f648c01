/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of the I/O and reservation commands and features, for their tables. */
#ifndef RDT_IO_CMDS_H
#define RDT_IO_CMDS_H

#include <stdint.h>

#include "nvmf/text.h"
#include "target/nvmf/request.h"

/* cmd_io.c */
extern const struct rdt_cmd rdt_io_cmds[256];

/* compare.c, verify.c, dsm.c, copy.c */
struct nvme_status rdt_compare_check(struct rdt_req *req);
enum rdt_exec rdt_compare_exec(struct rdt_req *req);
enum rdt_exec rdt_compare_write_exec(struct rdt_req *first); /* Compare and Write, a fused pair */
struct nvme_status rdt_verify_check(struct rdt_req *req);
enum rdt_exec rdt_verify_exec(struct rdt_req *req);
struct nvme_status rdt_write_zeroes_check(struct rdt_req *req);
enum rdt_exec rdt_write_zeroes_exec(struct rdt_req *req);
struct nvme_status rdt_dsm_check(struct rdt_req *req);
enum rdt_exec rdt_dsm_exec(struct rdt_req *req);
struct nvme_status rdt_copy_check(struct rdt_req *req);
enum rdt_exec rdt_copy_exec(struct rdt_req *req);

/* Reservation commands and features, for the tables of commands and features. */

struct rdt_ns;

struct nvme_status rdt_resv_register_check(struct rdt_req *req);
enum rdt_exec rdt_resv_register_exec(struct rdt_req *req);
struct nvme_status rdt_resv_acquire_check(struct rdt_req *req);
enum rdt_exec rdt_resv_acquire_exec(struct rdt_req *req);
struct nvme_status rdt_resv_release_check(struct rdt_req *req);
enum rdt_exec rdt_resv_release_exec(struct rdt_req *req);
struct nvme_status rdt_resv_report_check(struct rdt_req *req);
enum rdt_exec rdt_resv_report_exec(struct rdt_req *req);
uint8_t rdt_resv_rescap(const struct rdt_ns *ns); /* any thread */
/* Features 82h and 83h, on the reactor that owns the controller. */
struct nvme_status rdt_resv_feature_get(struct rdt_req *req, uint32_t *value);
enum rdt_exec rdt_resv_feature_set(struct rdt_req *req);

#endif /* RDT_IO_CMDS_H */
