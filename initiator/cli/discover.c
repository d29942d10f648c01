/* SPDX-License-Identifier: BSD-3-Clause */
/* discover: the discovery log as nvme-cli prints it. */
#include <inttypes.h>
#include <string.h>

#include "cli.h"
#include "util/utf8.h"

#define NAME(table, i) name(table, sizeof(table) / sizeof((table)[0]), i)

static const char *const trtypes[] = {"unspecified", "rdma", "fc", "tcp"};
static const char *const adrfams[] = {"unspecified", "ipv4", "ipv6", "infiniband", "fibre-channel"};
static const char *const subtypes[] = {"unrecognized", "discovery subsystem referral",
				       "nvme subsystem", "current discovery subsystem"};
static const char *const treqs[] = {"not specified", "required", "not required"};
static const char *const qptypes[] = {"unrecognized", "connected", "datagram"};
static const char *const prtypes[] = {"unrecognized", "not specified", "infiniband",
				      "roce",         "roce-v2",       "iwarp"};
static const char *const cmses[] = {"unrecognized", "rdma-cm"};

static const char *name(const char *const *table, size_t n, unsigned int i)
{
	return i < n ? table[i] : "unrecognized";
}

static const char *treq_text(uint8_t treq, char *buf, size_t len)
{
	snprintf(buf, len, "%s%s", NAME(treqs, treq & 3),
		 treq & 4 ? ", sq flow control disable supported" : "");
	return buf;
}

static const char *eflags_text(uint16_t eflags)
{
	static const char *const texts[] = {
		"none",
		"duplicate discovery information",
		"explicit discovery connections",
		"explicit discovery connections, duplicate discovery information",
	};

	return texts[eflags & 3];
}

/* Replaces control characters: the target's strings are printed on a terminal. */
static void mask(struct rdinit_discovery_record *r)
{
	rd_mask_control(r->trsvcid, strlen(r->trsvcid));
	rd_mask_control(r->subnqn, strlen(r->subnqn));
	rd_mask_control(r->traddr, strlen(r->traddr));
}

static void print_record(size_t i, const struct rdinit_discovery_record *r)
{
	char treq[64];

	printf("=====Discovery Log Entry %zu======\n", i);
	printf("trtype:  %s\n", NAME(trtypes, r->trtype));
	printf("adrfam:  %s\n", NAME(adrfams, r->adrfam));
	printf("subtype: %s\n", NAME(subtypes, r->subtype));
	printf("treq:    %s\n", treq_text(r->treq, treq, sizeof(treq)));
	printf("portid:  %u\n", r->portid);
	printf("trsvcid: %s\n", r->trsvcid);
	printf("subnqn:  %s\n", r->subnqn);
	printf("traddr:  %s\n", r->traddr);
	printf("eflags:  %s\n", eflags_text(r->eflags));
	if (r->trtype == 1) {
		printf("rdma_prtype: %s\n", NAME(prtypes, r->rdma_prtype));
		printf("rdma_qptype: %s\n", NAME(qptypes, r->rdma_qptype));
		printf("rdma_cms:    %s\n", NAME(cmses, r->rdma_cms));
		printf("rdma_pkey: 0x%04x\n", r->rdma_pkey);
	}
}

static json_t *json_record(const struct rdinit_discovery_record *r)
{
	char treq[64];
	json_t *obj = json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:s, s:s}", "trtype",
				NAME(trtypes, r->trtype), "adrfam", NAME(adrfams, r->adrfam),
				"subtype", NAME(subtypes, r->subtype), "treq",
				treq_text(r->treq, treq, sizeof(treq)), "portid", (int)r->portid,
				"trsvcid", r->trsvcid, "subnqn", r->subnqn, "traddr", r->traddr,
				"eflags", eflags_text(r->eflags));

	if (obj && r->trtype == 1) {
		json_object_set_new(obj, "rdma_prtype", json_string(NAME(prtypes, r->rdma_prtype)));
		json_object_set_new(obj, "rdma_qptype", json_string(NAME(qptypes, r->rdma_qptype)));
		json_object_set_new(obj, "rdma_cms", json_string(NAME(cmses, r->rdma_cms)));
		json_object_set_new(obj, "rdma_pkey", json_integer(r->rdma_pkey));
	}
	return obj;
}

static int print_json(const struct rdinit_discovery *log)
{
	json_t *records = json_array();
	size_t i;

	for (i = 0; i < log->count; i++)
		json_array_append_new(records, json_record(&log->records[i]));
	return cli_print_json(
		json_pack("{s:I, s:o}", "genctr", (json_int_t)log->genctr, "records", records),
		stdout);
}

int cli_discover(const struct cli_options *opts)
{
	struct rdinit_discovery *log = NULL;
	struct cli_session s;
	size_t i;
	int rc;

	rc = cli_session_open(&s, opts);
	if (rc)
		return rc;
	if (!s.info.discovery)
		rc = cli_error(
			"%s: \"%s\" is not a discovery controller; leave the NQN out, or use "
			"id-ctrl and list-ns for this subsystem",
			s.info.address, opts->ctrl.subnqn);
	else
		rc = rdinit_discover(s.ctrl, &log) ? cli_lib_error() : CLI_OK;
	cli_session_close(&s);
	if (rc)
		return rc;
	for (i = 0; i < log->count; i++)
		mask(&log->records[i]);
	if (opts->format == CLI_JSON) {
		rc = print_json(log);
	} else {
		printf("\nDiscovery Log Number of Records %zu, Generation counter %" PRIu64 "\n",
		       log->count, log->genctr);
		for (i = 0; i < log->count; i++)
			print_record(i, &log->records[i]);
		rc = cli_finish_output();
	}
	rdinit_discovery_free(&log);
	return rc;
}
