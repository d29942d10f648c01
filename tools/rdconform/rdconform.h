/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdconform: does a target keep to the NVMe specifications? What tests are written with. Prototypes
 * stand under the name of the file that has the bodies.
 *
 * A test is a function that takes a struct rdc and returns when all went well. Any other outcome
 * ends the test by rdc_fail_at() or rdc_not_supported(), which do not return; its hosts,
 * connections and buffers belong to the struct rdc and are freed after it.
 */
#ifndef RDCONFORM_H
#define RDCONFORM_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/queue.h>

#include "fabric/fabric.h"
#include "nvmf/auth_key.h"
#include "nvmf/text.h"
#include "nvmf/wire.h"
#include "rdinit.h"
#include "rdinit_auth.h"

/* ---- the tables of tests ---- */

struct rdc;

#define RDC_LOSS  0x1u /* writes to the namespace: run only with --dataloss */
#define RDC_ALIVE 0x2u /* another host must be served afterwards */
/* Only over this transport; neither: over both. */
#define RDC_RDMA 0x4u
#define RDC_TCP  0x8u

/* A family that can crash the target's machine: run only on request. */
#define RDC_ABUSE "abuse"

struct rdc_test {
	const char *name;
	const char *spec; /* the section that is checked */
	const char *what; /* the expected behaviour, as a sentence fragment */
	void (*fn)(struct rdc *t);
	unsigned int flags;
	unsigned int arg; /* parameter of a function that several tests share */
};

struct rdc_suite {
	const char *family;
	const char *name;
	const struct rdc_test *tests; /* ends with a NULL name */
	unsigned int flags;           /* of all tests */
	void (*begin)(struct rdc *t); /* before each test, as its first part; or NULL */
	void (*end)(struct rdc *t);   /* after each test that passed; or NULL */
};

/* All suites, in order; ends with a NULL name. suites.c */
extern const struct rdc_suite rdc_suites[];

/* ---- what the user asked for (main.c) ---- */

struct rdc_config {
	struct rdinit_uri
		uri; /* traddr "": none was given, and tests of both transports are meant */
	const char *provider;
	const char *hostnqn[2];
	const char *hostid[2];
	const char *secret_file; /* of both hosts; this and the next: NULL without authentication */
	const char *ctrl_secret_file;
	struct nvmf_auth_key key, ctrl_key; /* the contents of the files; len 0: none */
	unsigned int timeout_ms;            /* limit for each command and each connection */
	bool dataloss;
	bool abuse; /* requested by --abuse or by its name */
	bool list;
	bool verbose;
	const char *junit;
	const char **select; /* FAMILY[.SUITE[.TEST]] patterns; n_select of them, none: all */
	unsigned int n_select;
	const char **except; /* patterns of tests to leave out */
	unsigned int n_except;
};

/* ---- report.c ---- */

enum rdc_verdict {
	RDC_PASSED,
	RDC_FAILED,
	RDC_NOT_SUPPORTED, /* the target reports that it lacks an optional feature */
	RDC_SKIPPED,       /* not requested */
};

struct rdc_result {
	const struct rdc_suite *suite;
	const struct rdc_test *test;
	enum rdc_verdict verdict;
	double seconds;
	char *why; /* owned; NULL for a pass */
};

struct rdc_report {
	struct rdc_result *results;
	size_t n, room;
	unsigned int count[4]; /* number of tests by verdict */
};

void rdc_report_list(const struct rdc_suite *suite, const struct rdc_test *test);
/* Also prints the line of the test. Returns 0 or -ENOMEM. */
int rdc_report_add(struct rdc_report *report, const struct rdc_result *result);
void rdc_report_summary(const struct rdc_report *report);
/* Returns 0 or -errno. */
int rdc_report_junit(const struct rdc_report *report, const char *path);
void rdc_report_free(struct rdc_report *report);

/* ---- run.c ---- */

#define RDC_WHY 1024

struct rdc_mem;
struct rdc_raw;
struct rdc_host;
struct rdc_buf;

struct rdc {
	const struct rdc_config *cfg;
	const struct rdc_suite *suite;
	const struct rdc_test *test;
	unsigned int arg; /* of the test */
	struct rdc_report report;
	char gone[256]; /* why no further test runs on this target; "": none */

	jmp_buf out; /* the end of the running test */
	enum rdc_verdict verdict;
	char why[RDC_WHY];

	struct rdc_host *kept[2]; /* host.c: hosts that tests share */
	struct rdc_host *a, *b;   /* the hosts of a test of reservations */
	LIST_HEAD(, rdc_host) hosts;
	LIST_HEAD(, rdc_buf) bufs;
	LIST_HEAD(, rdc_raw) raws; /* raw.c */
	LIST_HEAD(, rdc_mem) mems;
	struct rd_loop *loop;
	struct rd_fab *fab;
};

/* Runs all selected tests. Returns 0, or -errno when the suites could not be set up. */
int rdc_run(struct rdc *t);
bool rdc_selected(const struct rdc_config *cfg, const struct rdc_suite *suite,
		  const struct rdc_test *test);

void rdc_fail_at(struct rdc *t, const char *file, int line, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 4, 5)));
void rdc_not_supported(struct rdc *t, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 2, 3)));
/* Zeroed memory that is freed at the end of the test. */
void *rdc_buf(struct rdc *t, size_t len);
/* Fills @buf with bytes that differ in every block from those of another seed. */
void rdc_fill(void *buf, size_t len, unsigned int seed);
uint64_t rdc_now_ms(void);

#define RDC_FAIL(t, ...) rdc_fail_at(t, __FILE__, __LINE__, __VA_ARGS__)
#define RDC_CHECK(t, cond, ...)                   \
	do {                                      \
		if (!(cond))                      \
			RDC_FAIL(t, __VA_ARGS__); \
	} while (0)

/* ---- host.c: a host by librdinit ---- */

struct rdc_host {
	LIST_ENTRY(rdc_host) link;
	struct rdc *t;
	unsigned int who; /* 0 or 1 */
	bool kept;        /* shared by all tests */
	struct rdinit_ctrl *ctrl;
	struct rdinit_qpair *qp;
	struct rdinit_ctrl_info info;
	struct nvme_id_ctrl id;
	struct nvme_id_ns ns; /* of the namespace under test */
	uint32_t nsid;
	uint32_t bs;
	uint64_t blocks;
};

struct rdc_host_opts {
	uint32_t kato_ms; /* 0: 120 s, so that tests need not send Keep Alive */
	uint16_t queue_size;
	const char *hostid; /* NULL: that of the configuration */
	bool no_io;         /* no I/O queue; the namespace is not read */
	bool discovery;     /* connect to the discovery controller */
};

/* The first and the second host, connected, with the namespace under test. All tests share them. */
struct rdc_host *rdc_main(struct rdc *t);
struct rdc_host *rdc_second(struct rdc *t);
/* Opens a host for one test. @opts NULL: as the shared ones. */
struct rdc_host *rdc_host_open(struct rdc *t, unsigned int who, const struct rdc_host_opts *opts);
/* Closes in order or, @abrupt, as if the host's machine had lost power. */
void rdc_host_close(struct rdc_host *h, bool abrupt);
/* Whether a new host can connect, identify the controller and read. Returns NULL, or the reason
 * as static text. */
const char *rdc_probe(struct rdc *t, char *why, size_t len);
void rdc_hosts_drop(struct rdc *t, bool kept_too);

/* A command in host byte order. */
struct rdc_cmd {
	uint8_t opcode;
	uint8_t flags; /* byte 1; PSDT is filled in unless as_is */
	uint32_t nsid;
	uint32_t cdw2, cdw3;
	uint32_t cdw10, cdw11, cdw12, cdw13, cdw14, cdw15;
	void *data;
	uint32_t len;
	bool write;    /* data goes to the controller */
	bool keyed;    /* data is never in the capsule */
	bool patience; /* no time limit: an event request */
};

struct rdc_reply {
	int err;         /* 0, -EIO with @status, or the reason for a missing response */
	uint16_t status; /* SCT, SC and DNR; 0: success */
	uint64_t result;
	struct nvme_cmd_kind of; /* the command that was completed */
	char text[160];          /* error text if err is not 0 */
};

struct rdc_async {
	bool done;
	uint16_t cid;
	struct rdc_reply r;
};

/* Send a command and wait for its completion. Without a completion the test fails, except in
 * rdc_io_try(), which returns the error. */
struct rdc_reply rdc_admin_at(struct rdc_host *h, const struct rdc_cmd *cmd, const char *file,
			      int line);
struct rdc_reply rdc_io_at(struct rdc_host *h, const struct rdc_cmd *cmd, const char *file,
			   int line);
struct rdc_reply rdc_io_try(struct rdc_host *h, const struct rdc_cmd *cmd);
#define rdc_admin(h, ...) rdc_admin_at(h, &(struct rdc_cmd){__VA_ARGS__}, __FILE__, __LINE__)
#define rdc_io(h, ...)    rdc_io_at(h, &(struct rdc_cmd){__VA_ARGS__}, __FILE__, __LINE__)

void rdc_admin_start(struct rdc_host *h, const struct rdc_cmd *cmd, struct rdc_async *a);
/* an event request */
struct rdc_async *rdc_event_start(struct rdc_host *h);
void rdc_io_start(struct rdc_host *h, const struct rdc_cmd *cmd, struct rdc_async *a);
void rdc_io_start_fused(struct rdc_host *h, const struct rdc_cmd *first,
			const struct rdc_cmd *second, struct rdc_async a[2]);
/* Processes both queues until @a has completed or the time is over. Returns whether it has
 * completed. */
bool rdc_wait_ms(struct rdc_host *h, struct rdc_async *a, unsigned int ms);
/* Waits for the configured time limit, after which the test fails. */
struct rdc_reply rdc_wait_at(struct rdc_host *h, struct rdc_async *a, const char *file, int line);
#define rdc_wait(h, a) rdc_wait_at(h, a, __FILE__, __LINE__)

/* Expected statuses. @codes end with RDC_END. */
#define RDC_END     0xffff
#define RDC_CS(sc)  (NVME_SCT_CMD_SPECIFIC << 8 | (sc))
#define RDC_ME(sc)  (NVME_SCT_MEDIA << 8 | (sc))
#define RDC_CODE(r) ((r).status & 0x7ffu)

void rdc_expect_at(struct rdc *t, struct rdc_reply r, const char *what, const uint16_t *codes,
		   const char *file, int line);
#define RDC_STATUS(t, r, what, ...) \
	rdc_expect_at(t, r, what, (const uint16_t[]){__VA_ARGS__, RDC_END}, __FILE__, __LINE__)
#define RDC_OK(t, r, what)      RDC_STATUS(t, r, what, 0)
#define RDC_REFUSED(t, r, what) rdc_expect_at(t, r, what, NULL, __FILE__, __LINE__)

/* ---- cmds.c: the commands that many tests send ---- */

struct rdc_reply rdc_identify(struct rdc_host *h, uint8_t cns, uint32_t nsid, uint32_t cdw11,
			      void *data);
struct rdc_reply rdc_get_log(struct rdc_host *h, uint8_t lid, uint32_t nsid, uint64_t offset,
			     void *data, uint32_t len);
struct rdc_reply rdc_get_feature(struct rdc_host *h, uint8_t fid, unsigned int sel, uint32_t nsid,
				 uint32_t cdw11, void *data, uint32_t len);
struct rdc_reply rdc_set_feature(struct rdc_host *h, uint32_t cdw10, uint32_t nsid, uint32_t cdw11,
				 void *data, uint32_t len);
/* A Read or Write of @n blocks, by opcode. */
struct rdc_cmd rdc_rw(struct rdc_host *h, uint8_t opcode, uint64_t lba, uint32_t n, void *data);
struct rdc_reply rdc_read(struct rdc_host *h, uint64_t lba, uint32_t n, void *data);
struct rdc_reply rdc_write(struct rdc_host *h, uint64_t lba, uint32_t n, void *data);
/* These must succeed; data that is read must equal @want. */
void rdc_must_write(struct rdc_host *h, uint64_t lba, uint32_t n, void *data);
void rdc_must_hold(struct rdc_host *h, uint64_t lba, uint32_t n, const void *want);
/* Writes data that follow from @seed, and returns them. */
unsigned char *rdc_prepared(struct rdc_host *h, uint64_t lba, uint32_t n, unsigned int seed);
/* The test is skipped unless the namespace has this many blocks. */
void rdc_need_blocks(struct rdc_host *h, uint64_t n);
/* The test is skipped unless ONCS has this bit, whose name is given. */
void rdc_need_oncs(struct rdc_host *h, uint16_t bit, const char *name);
/* The first host, with both. */
struct rdc_host *rdc_main_with(struct rdc *t, uint16_t bit, const char *name, uint64_t blocks);
/* An NSID that NN allows and no namespace has; 0: there is none. */
uint32_t rdc_inactive_nsid(struct rdc_host *h);
/* Largest number of blocks of a command, by MDTS and the field NLB. */
uint32_t rdc_max_blocks(const struct rdc_host *h);

/* ---- raw.c: a connection and its capsules, byte by byte ---- */

struct rdc_wire;
struct rdc_tcp;

struct rdc_raw {
	LIST_ENTRY(rdc_raw) link;
	struct rdc *t;
	const struct rdc_wire *wire;
	bool up, over; /* over: the connection has ended, or could not be established */
	int err;
	uint16_t qid, depth, cntlid;
	bool must_authenticate; /* AUTHREQ in the response to Connect */
	uint16_t next_cid;
	unsigned int slots; /* commands that may be outstanding */
	struct rdc_tcp *tcp;
	/* Of RDMA. */
	struct rd_fab_conn *conn;
	struct rd_fab_cq *cq;
	bool resolved, rejected;
	uint16_t reject_sts; /* 0: no status in the reject's private data, or the device hides it */
	uint16_t crqsize;
	struct rdc_mem *capsules; /* of @slots, RDC_CAPSULE bytes each */
	struct rdc_mem *answers;
	unsigned int next_slot;
	/* Responses that were received and not yet taken. */
	struct rdc_answer {
		struct nvme_cqe cqe;
		uint32_t len;
		bool inv; /* RDMA */
		uint32_t inv_key;
		bool by_flag;  /* TCP: the flag SUCCESS, and no CapsuleResp */
		uint32_t data; /* TCP: bytes that C2HData has brought */
		bool exact;    /* TCP: they are all, and LAST_PDU was exactly at their end */
	} * got;
	unsigned int n_got, max_got;
};

#define RDC_CAPSULE 20480

struct rdc_mem {
	LIST_ENTRY(rdc_mem) link;
	void *p;
	size_t len;
	const struct rdc_wire *wire;
	struct rd_fab_mr *mr; /* RDMA */
};

struct rdc_dial {
	uint16_t qid;
	/* 0: 32; also the default of HRQSIZE, HSQSIZE + 1 and the number of receives */
	uint16_t depth;
	const void *priv;
	size_t priv_len;
	bool has_priv; /* use priv and priv_len, even if 0 */
	uint16_t ird;  /* 0: 32 */
	bool no_ird;   /* use an IRD of 0 */
	/* TCP */
	uint8_t dgst; /* NVME_TCP_HDGST, NVME_TCP_DDGST */
	uint8_t hpda;
	uint32_t maxr2t; /* 0's based */
	bool no_icreq;   /* send nothing */
};

/* Connects the transport. Sets ->up or ->rejected; the test fails only if neither happens in
 * time. */
struct rdc_raw *rdc_raw_dial(struct rdc *t, const struct rdc_dial *d);
struct rdc_raw *rdc_raw_must_dial(struct rdc *t, const struct rdc_dial *d);
void rdc_raw_close(struct rdc_raw *raw);
/* Memory for commands; over RDMA registered for remote access with @access (IBV_ACCESS_*). */
struct rdc_mem *rdc_raw_mem(struct rdc_raw *raw, size_t len, int access);
void rdc_raw_mem_dereg(struct rdc_mem *mem);
/* Sends these bytes as a capsule. */
void rdc_raw_send(struct rdc_raw *raw, const void *capsule, size_t len);
/* For the transports: a response was received. */
void rdc_raw_got(struct rdc_raw *raw, const struct rdc_answer *a);
/* RDMA: posts a work request unchanged. */
void rdc_raw_post(struct rdc_raw *raw, struct ibv_send_wr *wr);
/* Waits for a response: returns 1 when one was received, 0 when the connection has ended, -1
 * after the time limit. */
int rdc_raw_answer(struct rdc_raw *raw, struct rdc_answer *out, unsigned int ms);
/* Waits for the end of the connection. */
bool rdc_raw_ended(struct rdc_raw *raw, unsigned int ms);

struct rdc_raw_reply {
	bool answered; /* false: the connection has ended */
	struct rdc_answer a;
	struct rdc_reply r;
};

/* Fills in command identifier and PSDT, sends the command, and waits for its response. The test
 * fails after the time limit. */
struct rdc_raw_reply rdc_raw_cmd(struct rdc_raw *raw, struct nvme_sqe *sqe);
/* Sends the command unchanged, followed by @extra bytes; waits for the response with its
 * identifier. */
struct rdc_raw_reply rdc_raw_cmd_as_is(struct rdc_raw *raw, const struct nvme_sqe *sqe,
				       const void *extra, size_t len);
/* Describe data as the transport demands it: none, the first @len bytes of @mem, or @len bytes from
 * @offset on. */
void rdc_sgl_none(const struct rdc_raw *raw, struct nvme_sqe *sqe);
void rdc_sgl(struct nvme_sqe *sqe, const struct rdc_mem *mem, uint32_t len);
void rdc_sgl_at(struct nvme_sqe *sqe, const struct rdc_mem *mem, size_t offset, uint32_t len);

/* ---- rawconn.c: NVMe-oF associations on raw connections ---- */

struct rdc_connect {
	uint16_t recfmt, qid, sqsize, cntlid;
	uint8_t cattr;
	uint32_t kato;
	struct nvmf_connect_data data;
};

/* Fills in the Connect command of a correct host. */
void rdc_connect_init(struct rdc *t, struct rdc_connect *c, unsigned int who,
		      const struct rdc_raw *raw);
struct rdc_raw_reply rdc_raw_connect(struct rdc_raw *raw, const struct rdc_connect *c);
struct rdc_raw_reply rdc_raw_prop_get(struct rdc_raw *raw, uint32_t offset, uint8_t attrib);
struct rdc_raw_reply rdc_raw_prop_set(struct rdc_raw *raw, uint32_t offset, uint64_t value,
				      uint8_t attrib);
/* Writes CC, and waits for CSTS.RDY. */
void rdc_raw_enable(struct rdc_raw *raw, bool on);
/* An admin queue, connected, controller not enabled. */
struct rdc_raw *rdc_raw_admin_new(struct rdc *t, unsigned int who, uint32_t kato_ms);
/* An admin queue, connected, controller enabled, number of queues set. */
struct rdc_raw *rdc_raw_admin(struct rdc *t, unsigned int who);
/* An I/O queue of the controller; by other means of connecting. */
struct rdc_raw *rdc_raw_io(struct rdc_raw *admin, uint16_t qid, uint16_t depth);
struct rdc_raw *rdc_raw_io_by(struct rdc_raw *admin, const struct rdc_dial *d, uint8_t cattr);
/* Builds a Read or Write of @n blocks whose data is in @mem. */
void rdc_raw_rw(struct nvme_sqe *sqe, const struct rdc_host *h, uint8_t opcode, uint64_t lba,
		uint32_t n, const struct rdc_mem *mem);

#endif /* RDCONFORM_H */
