/* SPDX-License-Identifier: BSD-3-Clause */
/* Reservation commands and features, for the tables of commands and features. */
#ifndef RDT_RESV_CMD_H
#define RDT_RESV_CMD_H

#include <stdint.h>

#include "nvmf/text.h"
#include "target/nvmf/request.h"

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

#endif /* RDT_RESV_CMD_H */
