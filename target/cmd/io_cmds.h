/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of the I/O commands, for the table in cmd_io.c. */
#ifndef RDT_IO_CMDS_H
#define RDT_IO_CMDS_H

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

#endif /* RDT_IO_CMDS_H */
