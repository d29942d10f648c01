/* SPDX-License-Identifier: BSD-3-Clause */
/* discover: the discovery log as nvme-cli prints it. */
#include <endian.h>
#include <inttypes.h>
#include <linux/types.h>
#include <nvme/types.h>
#include <stdlib.h>

#include "command.h"
#include "fields.h"

#define RECORD_AS(name, member, k, text, ...)                                                    \
	{                                                                                        \
		name, offsetof(struct rdinit_discovery_record, member),                          \
			sizeof(((struct rdinit_discovery_record *)0)->member), k, .label = text, \
										  __VA_ARGS__    \
	}
#define RECORD(member, k, text, ...) RECORD_AS(#member, member, k, text, __VA_ARGS__)

#define UNKNOWN                      "unrecognized"

static const struct cli_words trtypes = CLI_WORDS(UNKNOWN, "unspecified", "rdma", "fc", "tcp");
static const struct cli_words adrfams =
	CLI_WORDS(UNKNOWN, "unspecified", "ipv4", "ipv6", "infiniband", "fibre-channel");
static const struct cli_words subtypes = CLI_WORDS(UNKNOWN, UNKNOWN, "discovery subsystem referral",
						   "nvme subsystem", "current discovery subsystem");
#define SQFLOW ", sq flow control disable supported"
static const struct cli_words treqs =
	CLI_WORDS(UNKNOWN, "not specified", "required", "not required", UNKNOWN,
		  "not specified" SQFLOW, "required" SQFLOW, "not required" SQFLOW, UNKNOWN SQFLOW);
static const struct cli_words eflags =
	CLI_WORDS("", "none", "duplicate discovery information", "explicit discovery connections",
		  "explicit discovery connections, duplicate discovery information");
static const struct cli_words sectypes = CLI_WORDS(UNKNOWN, "none", "tls", "tls13");
static const struct cli_words qptypes = CLI_WORDS(UNKNOWN, UNKNOWN, "connected", "datagram");
static const struct cli_words prtypes =
	CLI_WORDS(UNKNOWN, UNKNOWN, "not specified", "infiniband", "roce", "roce-v2", "iwarp");
static const struct cli_words cmses = CLI_WORDS(UNKNOWN, UNKNOWN, "rdma-cm");

static bool is_rdma(const void *data)
{
	return ((const struct rdinit_discovery_record *)data)->trtype == NVMF_TRTYPE_RDMA;
}

static bool is_tcp(const void *data)
{
	return ((const struct rdinit_discovery_record *)data)->trtype == NVMF_TRTYPE_TCP;
}

static const struct cli_field record_fields[] = {
	RECORD(trtype, KIND_WORD, "trtype:", .words = &trtypes),
	RECORD(adrfam, KIND_WORD, "adrfam:", .words = &adrfams),
	RECORD(subtype, KIND_WORD, "subtype:", .words = &subtypes),
	RECORD(treq, KIND_WORD, "treq:", .bits = 3, .words = &treqs),
	RECORD(portid, KIND_DEC, "portid:"),
	RECORD(trsvcid, KIND_STR, "trsvcid:"),
	RECORD(subnqn, KIND_STR, "subnqn:"),
	RECORD(traddr, KIND_STR, "traddr:"),
	RECORD(eflags, KIND_WORD, "eflags:", .bits = 2, .words = &eflags),
	/* The first byte of TSAS is SECTYPE over TCP. */
	RECORD_AS("sectype", rdma_qptype, KIND_WORD, "sectype:", .words = &sectypes,
		  .there = is_tcp),
	RECORD(rdma_prtype, KIND_WORD, "rdma_prtype:", .words = &prtypes, .there = is_rdma),
	RECORD(rdma_qptype, KIND_WORD, "rdma_qptype:", .words = &qptypes, .there = is_rdma),
	RECORD(rdma_cms, KIND_WORD, "rdma_cms:   ", .words = &cmses, .there = is_rdma),
	RECORD(rdma_pkey, KIND_HEX4, "rdma_pkey:", .there = is_rdma),
};

static const struct cli_shape record_shape = CLI_SHAPE(record_fields, 8, .sep = " ");

/* What is shown: the records follow. */
struct log {
	__le64 genctr;
	__le64 count;
	struct rdinit_discovery_record records[];
};

static void print_record(const struct cli_options *o, const void *data, unsigned int i,
			 const void *item)
{
	printf("=====Discovery Log Entry %u======\n", i);
	cli_shape_print(o, &record_shape, item, 0);
}

static const struct cli_list record_list[] = {CLI_LIST(
	"records", &record_shape, offsetof(struct log, records),
	sizeof(struct rdinit_discovery_record), CLI_COUNTED(log, count), .print = print_record)};

static const struct cli_field log_fields[] = {
	CLI_FIELD(log, genctr, "genctr", KIND_DEC),
};

const struct cli_shape cli_shape_discovery = CLI_SHAPE(log_fields, 0, CLI_LISTS(record_list));

/* Fields are little-endian in what is shown; the library has them as the processor has. */
static struct log *shown(const struct rdinit_discovery *from)
{
	struct log *log = malloc(sizeof(*log) + from->count * sizeof(log->records[0]));
	size_t i;

	if (!log)
		return NULL;
	log->genctr = htole64(from->genctr);
	log->count = htole64(from->count);
	for (i = 0; i < from->count; i++) {
		struct rdinit_discovery_record *r = &log->records[i];

		*r = from->records[i];
		r->portid = htole16(r->portid);
		r->eflags = htole16(r->eflags);
		r->rdma_pkey = htole16(r->rdma_pkey);
	}
	return log;
}

int cli_discover(struct cli_session *s, const struct cli_options *o)
{
	struct rdinit_discovery *found = NULL;
	struct log *log;
	int rc;

	if (!s->info.discovery)
		return cli_error(
			"%s: \"%s\" is not a discovery controller; leave the NQN out, or use "
			"id-ctrl and list-ns for this subsystem",
			s->info.address, o->ctrl.subnqn);
	if (rdinit_discover(s->ctrl, &found))
		return cli_lib_error();
	log = shown(found);
	if (log)
		rc = cli_shape_show(o, &cli_shape_discovery, log,
				    sizeof(*log) + found->count * sizeof(log->records[0]), NULL,
				    "\nDiscovery Log Number of Records %zu, Generation counter "
				    "%" PRIu64 "\n",
				    found->count, found->genctr);
	else
		rc = cli_error("no memory for %zu records", found->count);
	free(log);
	rdinit_discovery_free(&found);
	return rc;
}
