/* SPDX-License-Identifier: BSD-3-Clause */
/* A target without threads, network or disks: the test turns the loops of the reactors and sets the
 * clock, a fake transport is the host, and a fake backend is the disk. */
#ifndef T_TARGET_H
#define T_TARGET_H

#include "t_main.h"

/* All internals: the tests examine every object. */
#include "target/cmd/admin.h"
#include "target/nvmf/ana.h"
#include "target/bdev/backend.h"
#include "target/config/config.h"
#include "target/manage/objects/control.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/events.h"
#include "target/nvmf/qos_queue.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/host_access.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/placement.h"
#include "target/nvmf/pool.h"
#include "target/nvmf/qpair.h"
#include "target/nvmf/reactor.h"
#include "target/manage/change/change.h"
#include "target/nvmf/req_pool.h"
#include "target/nvmf/request.h"
#include "target/nvmf/resv.h"
#include "target/resv/state.h"
#include "target/nvmf/req_latency.h"
#include "target/nvmf/base/status.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "target/config/tgt_limits.h"
#include "target/nvmf/transport.h"

/* As the keys of target.limits say. */
#define T_LIMITS                                  \
	((struct rdt_limits_config){              \
		.connections = 65536,             \
		.connections_per_host = 16384,    \
		.connections_per_address = 32768, \
		.controllers = 16384,             \
		.controllers_per_host = 1024,     \
		.controllers_per_address = 8192,  \
		.unconnected = 1024,              \
		.unconnected_per_address = 512,   \
		.half_open = 1024,                \
	})

#define T_NQN       "nqn.2026-11.io.rdnvme:one"
#define T_NQN2      "nqn.2026-11.io.rdnvme:closed" /* allows T_HOST2 only */
#define T_HOST      "nqn.2014-08.org.nvmexpress:uuid:11111111-1111-1111-1111-111111111111"
#define T_HOST2     "nqn.2014-08.org.nvmexpress:uuid:22222222-2222-2222-2222-222222222222"
#define T_BLOCKS    4096u /* of 512 bytes, in namespace 1 */
#define T_MDTS      (64u << 10)
#define T_INCAPSULE 8192u
#define T_UNPROVEN  (8u << 20)
#define T_KEY       0x3e42a001u

extern const struct t_case t_connect_cases[];
extern const struct t_case t_cntlid_cases[];
extern const struct t_case t_property_cases[];
extern const struct t_case t_admin_cases[];
extern const struct t_case t_admin_load_cases[];
extern const struct t_case t_log_page_cases[];
extern const struct t_case t_lba_status_cases[];
extern const struct t_case t_io_cases[];
extern const struct t_case t_io_commands_cases[];
extern const struct t_case t_fused_cases[];
extern const struct t_case t_range_lock_cases[];
extern const struct t_case t_sgl_list_cases[];
extern const struct t_case t_flow_cases[];
extern const struct t_case t_req_pool_cases[];
extern const struct t_case t_io_stats_cases[];
extern const struct t_case t_stall_cases[];
extern const struct t_case t_req_latency_cases[];
extern const struct t_case t_req_state_cases[];
extern const struct t_case t_teardown_cases[];
extern const struct t_case t_stale_lost_cases[];
extern const struct t_case t_stale_write_cases[];
extern const struct t_case t_rdma_cases[];
extern const struct t_case t_stream_cases[];
extern const struct t_case t_tcp_turn_cases[];
extern const struct t_case t_tcp_move_cases[];
extern const struct t_case t_rdma_move_cases[];
extern const struct t_case t_rdma_waits_cases[];
extern const struct t_case t_events_cases[];
extern const struct t_case t_multihost_cases[];
extern const struct t_case t_resv_cases[];
extern const struct t_case t_limit_cases[];
extern const struct t_case t_cycle_cases[];
extern const struct t_case t_control_cases[];
extern const struct t_case t_converge_cases[];
extern const struct t_case t_rpc_cases[];
extern const struct t_case t_rpc_edit_cases[];
extern const struct t_case t_reload_cases[];
extern const struct t_case t_history_cases[];
extern const struct t_case t_metrics_cases[];
extern const struct t_case t_notify_cases[];
extern const struct t_case t_peers_cases[];
extern const struct t_case t_auth_cases[];
extern const struct t_case t_auth_message_cases[];
extern const struct t_case t_handover_cases[];
extern const struct t_case t_placement_cases[];
extern const struct t_case t_pool_device_cases[];

#define T_DISKS 5u

/* The fake backend of all namespaces. */
struct t_disk {
	struct rdt_bdev bdev;
	uint8_t *data;
	bool hold; /* keep bios in @held instead of completing them */
	bool sync; /* complete within submit */
	bool can_cancel;
	int fail;       /* -errno with which bios end */
	uint64_t piece; /* an EXTENTS tells of so many bytes at most; 0: of all */
	struct rdt_bio *held[64];
	unsigned int held_count;
	unsigned int submitted;
	unsigned int cancelled;
	unsigned int channels;
	unsigned int chan_open_fails; /* the n-th channel from now fails with -EIO; 0: none */
	bool closed;
	struct rdt_bio last;  /* copy of the last bio submitted */
	enum rdt_claim claim; /* the last one */
	int open_rc; /* of rdt_bdev_opened(); for a disk that is opened in the background */
};

static inline bool t_disk_claim(struct rdt_bdev *bdev, enum rdt_claim claim)
{
	rd_container_of(bdev, struct t_disk, bdev)->claim = claim;
	return bdev->one_gateway;
}

#define T_REACTORS 3            /* at most */
extern unsigned int t_reactors; /* of the next environment: 2, unless a test needs more */
/* Of the next environment, in place of the threads of bdev/jobs.h; NULL: see t_env.hold_jobs */
extern uint64_t t_disk_devices[T_DISKS]; /* bdev->device of the next environment's disks */
extern bool (*t_run_job)(struct rdt_job *job);
extern const struct rdt_transport *const *t_transports; /* of the next one; NULL: RDMA alone */

struct t_env {
	uint64_t now;
	uint64_t tick; /* ns that pass with each look at the clock; 0: none */
	struct rd_clock clock;
	struct rdt_env env;
	struct rd_loop *loop;
	struct rd_log *log;
	struct rdt_config cfg;
	struct rdt_subsys_config subsys[2];
	struct rdt_ns_config ns[3];
	struct rdt_listener_config listeners[2];
	const char *hosts[1];
	struct rdt_target *t;
	struct t_disk
		disk[T_DISKS];  /* by ns->slot; those from 3 on are for namespaces added later */
	unsigned int disk_next; /* index for the next namespace that is added; 0: none */
	bool hold_jobs;         /* calls that may block hang: t_env_run_held() */
	struct rdt_job *held_jobs[16];
	unsigned int held_jobs_count;
	unsigned int drained;
	struct rdt_req_pool reqs[T_REACTORS]; /* requests of the queues of each reactor */
	bool no_memory;                       /* allocating more requests fails */
	bool still[T_REACTORS];               /* the reactor hangs: its loop is not turned */
};

struct t_answer {
	struct nvme_cqe cqe;
	bool with_data;
	bool invalidate;
	uint32_t key;
};

/* A connection, and the host at its other end. */
struct t_conn {
	struct rdt_qpair qp;
	struct t_env *env;
	struct rdt_capsule *caps; /* [depth] */
	uint8_t *mem;             /* memory of the capsules */
	unsigned int caps_out;    /* capsules that the queue pair has */
	struct rdt_req *fetches[256];
	unsigned int fetches_count;
	unsigned int responds_max; /* capacity of @responds and of @answers */
	struct rdt_req **responds;
	unsigned int responds_count;
	struct t_answer *answers;
	unsigned int answers_count;
	unsigned int answers_read;
	unsigned int caps_out_at_answer; /* value of @caps_out when the last answer was posted */
	bool hold_fetch;
	bool hold_respond;
	bool peer_closed;   /* the host has closed it, but the reactor does not know yet */
	bool unread;        /* something was sent that the reactor has not read */
	bool no_recv;       /* posting a RECV again fails and loses the connection */
	bool no_read;       /* starting a fetch fails and loses the connection */
	unsigned int roles; /* how often its role was told */
	bool closing;
	bool closed;
	bool *gone;                         /* set to true when destroyed */
	void (*on_close)(struct t_conn *c); /* called when the queue pair begins to close */
	/* Called before the answer is recorded */
	void (*on_respond)(struct t_conn *c, struct rdt_req *req);
	uint16_t next_cid;
};

/* The namespace, unless it is LEAVING. */
struct rdt_ns *t_ns_of(const struct rdt_subsys *ss, uint32_t nsid);

struct t_env *t_env_new(void);
/* A new environment in @env, which is freed at the end of the block. */
#define T_ENV(env) struct t_env *env __attribute__((cleanup(t_env_cleanup))) = t_env_new()
void t_env_cleanup(struct t_env **env);
struct t_env *t_env_new_state(const char *dir); /* with target.state_dir = @dir */
/* The same, and namespace 1 has the backend, path, sizes and engine of @storage instead of a fake
 * disk. NULL: neither. */
struct t_env *t_env_new_on(const struct rdt_ns_config *storage, const char *dir);
/* Drains the target and checks that all resources were returned */
void t_env_free(struct t_env *env);
void t_turn(struct t_env *env); /* turns all loops until no work is left */
bool t_pump(struct t_env *env); /* turns all loops once; returns whether there was work */
/* The calls that hang have their answers, in their order. */
void t_env_run_held(struct t_env *env);
void t_advance(struct t_env *env, uint64_t ns);

/* Controllers of @ss that have not begun to end. */
unsigned int t_ctrls_staying(const struct rdt_subsys *ss);
/* Turns all loops until no controller of the first subsystem stays. Returns how many began to end
 * in one turn at most. */
unsigned int t_ctrls_most_ended(struct t_env *env);

/* @qid: which Connect must have; RDT_QID_ANY: its Connect tells. */
struct t_conn *t_conn_new(struct t_env *env, unsigned int reactor, uint16_t qid, uint16_t depth);
void t_conn_cut(struct t_conn *c); /* the host loses the connection */

/* Fill in a command with a new CID. @len > 0: a keyed SGL with remote invalidation; 0: none. */
void t_sqe(struct t_conn *c, struct nvme_sqe *sqe, uint8_t opcode, void *data, uint32_t len);
/* The same, with the first @len bytes of in-capsule data instead of a key. */
void t_in_capsule(struct nvme_sqe *sqe, uint32_t len);
void t_send(struct t_conn *c, const struct nvme_sqe *sqe, const void *in_capsule, uint32_t len);
/* Send the command, turn the loops; its answer is read later. */
void t_begin(struct t_conn *c, const struct nvme_sqe *sqe);
/* The next unread answer; the test fails when there is none. */
struct t_answer t_answer(struct t_conn *c);
unsigned int t_answers(const struct t_conn *c); /* number of unread answers */
/* Send the command, turn the loops, return the answer. */
struct t_answer t_exec(struct t_conn *c, const struct nvme_sqe *sqe);
uint16_t t_status(const struct t_answer *a); /* without DNR */
uint16_t t_exec_status(struct t_conn *c, const struct nvme_sqe *sqe);
uint16_t t_answer_status(struct t_conn *c); /* of the next unread answer */
bool t_dnr(const struct t_answer *a);

void t_connect_sqe(struct t_conn *c, struct nvme_sqe *sqe, struct nvmf_connect_data *data,
		   uint16_t cntlid);
/* Connect as another host, whose Host ID consists of @hostid. Returns the answer. */
struct t_answer t_connect_as(struct t_conn *c, uint16_t cntlid, const char *hostnqn,
			     uint8_t hostid);
/* An enabled discovery controller of host @hostnqn, on reactor 1. */
struct t_conn *t_discovery_new(struct t_env *env, const char *hostnqn);
/* Connect; returns the CNTLID. */
uint16_t t_connect(struct t_conn *c, uint16_t cntlid);
void t_enable(struct t_conn *admin);
uint64_t t_get_property(struct t_conn *admin, uint32_t offset, bool eight);
struct t_answer t_set_property(struct t_conn *admin, uint32_t offset, uint64_t value);
/* Set Features (@set) or Get Features, without data, of no namespace. */
struct t_answer t_feature(struct t_conn *admin, bool set, uint32_t cdw10, uint32_t cdw11);

/* An enabled controller on reactor 0 and one I/O queue on reactor 1. */
struct t_pair {
	struct t_env *env;
	struct t_conn *admin;
	struct t_conn *io;
	uint16_t cntlid;
};
/* Let its host count as one that has transferred much data: it may use the reserve of the buffers.
 * t_pair_new() does that for its own host. */
void t_trust(struct t_conn *c);
struct t_pair t_pair_new(void);
/* A new pair in @p, which is freed at the end of the block. */
#define T_PAIR(p) struct t_pair p __attribute__((cleanup(t_pair_free))) = t_pair_new()
struct t_pair t_pair_new_in(struct t_env *env);
void t_pair_free(struct t_pair *p);

void t_rw_sqe(struct t_conn *c, struct nvme_sqe *sqe, bool write, uint64_t lba, uint32_t blocks,
	      void *data);
/* Send a Read or Write of namespace 1. Returns its CID. */
__le16 t_send_rw(struct t_conn *c, bool write, uint64_t lba, uint32_t blocks, void *data);
/* The same, and Flush of namespace 1; both return the status. */
uint16_t t_rw(struct t_conn *c, bool write, uint64_t lba, uint32_t blocks, void *data);
uint16_t t_flush(struct t_conn *c);
/* Abort the command @cid of queue @sqid. */
void t_send_abort(struct t_conn *admin, uint16_t sqid, __le16 cid);
struct t_answer t_abort(struct t_conn *admin, uint16_t sqid, __le16 cid);
void t_disk_finish(struct t_disk *d, unsigned int i, int result); /* complete bio @i of @held */

#endif /* T_TARGET_H */
