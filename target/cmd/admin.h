/* SPDX-License-Identifier: BSD-3-Clause */
/* Common parts of the fabrics and admin commands; io.h has those of the I/O commands. */
#ifndef RDT_ADMIN_H
#define RDT_ADMIN_H

#include <stdint.h>

#include "nvmf/wire.h"
#include "target/nvmf/request.h"

struct rdt_ctrl;
struct rdt_log_out;
struct rdt_ns;
struct rdt_qpair;
struct rdt_reactor;
struct rdt_referral_config;
struct rdt_subsys;
struct rdt_target;

/* cmd_fabrics.c, connect.c, property.c */
extern const struct rdt_cmd rdt_fabrics_cmds[256];
struct nvme_status rdt_connect_check(struct rdt_req *req);
enum rdt_exec rdt_connect_exec(struct rdt_req *req);
struct nvme_status rdt_property_get_check(struct rdt_req *req);
enum rdt_exec rdt_property_get(struct rdt_req *req);
struct nvme_status rdt_property_set_check(struct rdt_req *req);
enum rdt_exec rdt_property_set(struct rdt_req *req);

/* auth_cmd.c */
struct nvme_status rdt_auth_send_check(struct rdt_req *req);
enum rdt_exec rdt_auth_send_exec(struct rdt_req *req);
struct nvme_status rdt_auth_receive_check(struct rdt_req *req);
enum rdt_exec rdt_auth_receive_exec(struct rdt_req *req);

/* cmd_admin.c */
extern const struct rdt_cmd rdt_admin_cmds[256];

/* identify.c, features.c */
void rdt_put_ascii(char *dst, size_t len, const char *src);
struct nvme_status rdt_identify_check(struct rdt_req *req);
enum rdt_exec rdt_identify_exec(struct rdt_req *req);
/* Returns the size of the ANA log page that hosts compute from NANAGRPID and MNAN. Bytes after the
 * last group read as zeroes. */
uint64_t rdt_ana_log_max(const struct rdt_req *req);
struct nvme_status rdt_get_features_check(struct rdt_req *req);
struct nvme_status rdt_set_features_check(struct rdt_req *req);
enum rdt_exec rdt_get_features_exec(struct rdt_req *req);
enum rdt_exec rdt_set_features_exec(struct rdt_req *req);
uint32_t rdt_feature_effects(const struct rdt_subsys *ss, unsigned int fid); /* log page 12h */

/* lba_status.c */
bool rdt_lba_status_supported(const struct rdt_subsys *ss);
struct nvme_status rdt_lba_status_check(struct rdt_req *req);
enum rdt_exec rdt_lba_status_exec(struct rdt_req *req);

/* features.c: feature 84h */
uint8_t rdt_write_protect_caps(const struct rdt_subsys *ss); /* NWPC */

/* log_page.c, discovery.c */
struct nvme_status rdt_get_log_check(struct rdt_req *req);
enum rdt_exec rdt_get_log_exec(struct rdt_req *req);
/* Returns 0 without memory. */
uint64_t rdt_discovery_log_size(const struct rdt_qpair *qp);
/* Write the requested part to @out. Returns 0, or -ENOMEM without writing anything. */
int rdt_discovery_log(const struct rdt_qpair *qp, const struct rdt_log_out *out);
void rdt_disc_order_free(struct rdt_reactor *r);
/* Returns 1, 0 if nothing changes, or -ENOMEM. */
int rdt_referrals_set(struct rdt_target *target, const struct rdt_referral_config *list,
		      unsigned int count); /* main thread */
/* Set which transport the log shows to hosts, and for subsystems. Takes a reference to @cfg_of,
 * which contains @cfg. The others return the number of settings that changed. Main thread. */
void rdt_disc_set_hosts(struct rdt_target *t, const struct rdt_subsys_config *cfg,
			struct rdt_config *cfg_of);
unsigned int rdt_disc_follow_hosts(struct rdt_target *t, const struct rdt_subsys_config *now,
				   const struct rdt_subsys_config *next,
				   struct rdt_config *next_of);
int rdt_disc_follow_subsys(struct rdt_subsys *ss, const struct rdt_subsys_config *now,
			   const struct rdt_subsys_config *next, struct rdt_config *next_of);

#endif /* RDT_ADMIN_H */
