/* SPDX-License-Identifier: BSD-3-Clause */
/* For the files of the puppet only: puppet.c (connections) and answer.c (commands). */
#ifndef FUZZ_PARTS_H
#define FUZZ_PARTS_H

#include "puppet.h"

#define PUPPET_RECVS   34u
#define PUPPET_SLOT    (NVME_SQE_SIZE + 1024u)
#define PUPPET_PENDING 64u
#define PUPPET_LATE    16u
#define PUPPET_DISK    (PUPPET_BLOCKS * PUPPET_BLOCK)

struct puppet_conn {
	struct puppet *puppet;
	unsigned int number;
	struct rd_fab_conn *conn; /* NULL: none */
	bool hostile;
	bool over;
	bool no_recvs;
	uint16_t qid;
	struct nvme_sqe last; /* command */
	uint8_t recvs[PUPPET_RECVS][PUPPET_SLOT];
};

/* How one command is answered. */
struct puppet_answer {
	struct puppet_conn *to;
	struct rd_fab_conn *conn; /* that of @to when the command arrived */
	struct nvme_sqe sqe;
	uint64_t result;
	uint16_t status;
	uint16_t cid;
	uint8_t len;         /* bytes of the response */
	uint8_t copies;      /* 0: silent */
	bool invalidate;     /* a key, */
	uint32_t inv_key;    /* which is this one */
	bool break_first;    /* the connection ends before it, */
	bool break_then;     /* or after it */
	uint64_t late_ns;    /* 0: at once */
	const uint8_t *data; /* for the host; NULL: none */
	uint32_t data_len;   /* bytes there are */
	uint8_t *into;       /* where data of the host goes; NULL: none */
	uint32_t into_len;
	uint32_t key;
	uint64_t addr;
	uint32_t len_asked; /* bytes of the command's data */
	bool in_capsule;
};

struct puppet_late {
	struct rd_sim_event event;
	struct puppet *puppet;
	struct puppet_answer answer;
};

struct puppet_aer {
	struct puppet_conn *to; /* NULL: none */
	struct rd_fab_conn *conn;
	uint16_t cid;
};

struct puppet {
	struct scene *scene;
	struct rd_loop *loop;
	struct rd_fab *fab;
	struct rd_fab_dev *dev; /* NULL: before the first connection */
	struct rd_fab_cq *cq;
	struct rd_fab_mr *own; /* local use: this structure */
	struct rd_fab_listener *listeners[PUPPET_PORTS];
	struct puppet_conn conns[PUPPET_CONNS];
	struct puppet_rule rules[PUPPET_RULES];
	struct puppet_plan plans[PUPPET_PLANS];
	unsigned int plans_count;
	struct nvme_sqe earlier; /* an earlier command with a key of its own */
	struct puppet_aer aer;   /* of a hostile port */
	bool always_events;
	uint32_t always_event;
	bool said_success[PUPPET_BLOCKS / 8];
	unsigned int pendings, lates;
	struct puppet_answer pending[PUPPET_PENDING]; /* whose READ is under way */
	struct puppet_late late[PUPPET_LATE];
	uint8_t scratch[4096];
	uint8_t disk[PUPPET_DISK];
	uint8_t pages[2][PUPPET_PAGES][PUPPET_PAGE]; /* honest ones, hostile ones */
};

/* ---- answer.c ---- */

void puppet_init_pages(struct puppet *p);
/* A capsule of @len bytes has arrived. */
void puppet_command(struct puppet_conn *c, const uint8_t *capsule, size_t len);
/* The READ of pending[@n] is done. */
void puppet_fetched(struct puppet *p, unsigned int n);
void puppet_stop_late(struct puppet *p);

/* ---- puppet.c ---- */

struct ibv_send_wr;
void puppet_post(struct puppet_conn *c, struct ibv_send_wr *wr);
/* @opcode: a WRITE from, or a READ into, @local, which is in struct puppet. */
void puppet_post_rdma(struct puppet_conn *c, bool read, const void *local, uint32_t len,
		      uint64_t addr, uint32_t key, uint64_t wr_id);
void puppet_end_conn(struct puppet_conn *c, bool polite);

#endif /* FUZZ_PARTS_H */
