/* SPDX-License-Identifier: BSD-3-Clause */
/* Raw connections over NVMe/TCP: PDUs byte by byte. */
#ifndef RDC_TCP_H
#define RDC_TCP_H

#include "nvmf/tcp_pdu.h"
#include "rdconform.h"

/* A command that was sent, and is not completed. */
struct rdc_tcp_cmd {
	bool used;
	__le16 cid;
	bool writes; /* data goes to the controller */
	uint8_t *p;  /* its data; NULL if it has none, or if it was in the capsule */
	uint32_t len;
	uint32_t moved;    /* bytes that have arrived, or for which R2Ts have asked */
	unsigned int r2ts; /* R2Ts that came, and were not answered in full */
	bool last;         /* LAST_PDU has come */
};

#define RDC_TCP_R2TS 16

struct rdc_tcp {
	int fd;
	struct nvme_tcp_rules rules; /* of what the target sends */
	struct nvme_tcp_icresp icresp;
	uint32_t maxr2t; /* 0's based */
	/* R2Ts are kept for the test, which answers them; else they are answered at once. */
	bool manual;
	struct nvme_tcp_r2t r2ts[RDC_TCP_R2TS];
	unsigned int n_r2ts;
	struct rdc_tcp_cmd *cmds; /* of raw->slots */
	uint8_t *in, *out;
	size_t in_len, in_room, out_len, out_room;
	unsigned int c2h_pdus; /* that were received */
	unsigned int c2h_pdo;  /* PDO of the last one */
	/* The C2HTermReq that was received, and the header in it. */
	bool termed;
	struct nvme_tcp_term term;
	uint8_t term_head[NVME_TCP_TERM_MAX];
	uint32_t term_head_len;
};

/* A PDU to be sent, complete. */
struct rdc_pdu {
	size_t len;
	size_t head; /* bytes before the data: header, digest, padding */
	uint8_t b[NVME_TCP_HEAD_MAX + RDC_CAPSULE];
};

/* Sends bytes as they are, and what fits at once. */
void rdc_tcp_put(struct rdc_raw *raw, const void *bytes, size_t len);
/* A correct PDU: @body is the header behind the common header, or all of it for an ICReq. */
void rdc_tcp_make(const struct rdc_raw *raw, struct rdc_pdu *pdu, enum nvme_tcp_type type,
		  uint8_t flags, const void *body, const void *data, uint32_t len);
/* H2CData for an R2T; @data: all of the command's. */
void rdc_tcp_make_h2c(const struct rdc_raw *raw, struct rdc_pdu *pdu,
		      const struct nvme_tcp_r2t *r2t, uint32_t offset, uint32_t len, bool last,
		      const void *data);
/* Enters a command that will be sent by rdc_tcp_put(), so that R2Ts and data for it are known. */
void rdc_tcp_expect(struct rdc_raw *raw, const struct nvme_sqe *sqe, void *data, uint32_t len,
		    bool writes);
/* Waits for an R2T of a ->manual connection; the test fails without one. */
struct nvme_tcp_r2t rdc_tcp_r2t(struct rdc_raw *raw);

#endif /* RDC_TCP_H */
