/* SPDX-License-Identifier: BSD-3-Clause */
/* discovery.log and discovery.controller. */
#include <string.h>

#include "suites.h"

#define DISC_LOG "Base 5.16.1.23"

static struct rdc_host *disc(struct rdc *t)
{
	return rdc_host_open(t, 0, &(struct rdc_host_opts){.discovery = true});
}

static struct nvmf_discovery_log *read_log(struct rdc *t, struct rdc_host *h, uint64_t *n)
{
	struct nvmf_discovery_log *log = rdc_buf(t, 65536);
	uint32_t len;

	RDC_OK(t, rdc_get_log(h, NVME_LOG_LID_DISCOVER, 0, 0, log, 1024), "Get Log Page 70h");
	*n = le64toh(log->numrec);
	RDC_CHECK(t, *n >= 1 && *n <= 60, "%llu records", (unsigned long long)*n);
	len = (uint32_t)(1024 + *n * 1024);
	RDC_OK(t, rdc_get_log(h, NVME_LOG_LID_DISCOVER, 0, 0, log, len),
	       "Get Log Page 70h, the whole page");
	return log;
}

static void header(struct rdc *t)
{
	struct rdc_host *h = disc(t);
	uint64_t n;
	struct nvmf_discovery_log *log = read_log(t, h, &n);

	RDC_CHECK(t, log->recfmt == 0, "RECFMT %u", le16toh(log->recfmt));
}

static void generation(struct rdc *t)
{
	struct rdc_host *h = disc(t);
	uint64_t n, m, gen;

	gen = le64toh(read_log(t, h, &n)->genctr);
	RDC_CHECK(t, le64toh(read_log(t, h, &m)->genctr) == gen && n == m,
		  "two reads of a log whose GENCTR did not change differ");
}

/* Copies a field padded with NULs or blanks as text. */
static void text(char *to, size_t size, const char *from, size_t len)
{
	size_t n = strnlen(from, len);

	while (n && from[n - 1] == ' ')
		n--;
	if (n >= size)
		n = size - 1;
	memcpy(to, from, n);
	to[n] = '\0';
}

static const struct nvmf_disc_log_entry *ours(struct rdc *t, const struct nvmf_discovery_log *log,
					      uint64_t n)
{
	char nqn[260], port[40];
	uint64_t i;

	for (i = 0; i < n; i++) {
		text(nqn, sizeof(nqn), log->entries[i].subnqn, sizeof(log->entries[i].subnqn));
		text(port, sizeof(port), log->entries[i].trsvcid, sizeof(log->entries[i].trsvcid));
		if (strcmp(nqn, t->cfg->uri.subnqn) == 0 && strcmp(port, t->cfg->uri.trsvcid) == 0)
			return &log->entries[i];
	}
	RDC_FAIL(t, "%s at port %s is not in the log", t->cfg->uri.subnqn, t->cfg->uri.trsvcid);
}

static void entry(struct rdc *t)
{
	struct rdc_host *h = disc(t), *main = rdc_main(t);
	const struct nvmf_disc_log_entry *e;
	const struct nvmf_discovery_log *log;
	unsigned int trtype = t->cfg->uri.tcp ? NVMF_TRTYPE_TCP : NVMF_TRTYPE_RDMA;
	char addr[260], have[300];
	uint64_t n;

	log = read_log(t, h, &n);
	e = ours(t, log, n);
	text(addr, sizeof(addr), e->traddr, sizeof(e->traddr));
	RDC_CHECK(t, e->trtype == trtype, "TRTYPE %u, not %u", e->trtype, trtype);
	RDC_CHECK(t, e->subtype == NVME_NQN_NVME, "SUBTYPE %u, not an NVM subsystem", e->subtype);
	RDC_CHECK(t, e->adrfam == NVMF_ADDR_FAMILY_IP4 || e->adrfam == NVMF_ADDR_FAMILY_IP6,
		  "ADRFAM %u", e->adrfam);
	RDC_CHECK(t, strcmp(addr, "0.0.0.0") != 0 && strcmp(addr, "::") != 0,
		  "TRADDR is a wildcard: no host can connect to %s", addr);
	snprintf(have, sizeof(have), "%s", main->info.address);
	if (t->cfg->uri.traddr[0] && strchr(t->cfg->uri.traddr, ':') == NULL)
		RDC_CHECK(t, strncmp(have, addr, strlen(addr)) == 0,
			  "TRADDR is %s, but the host connected to %s", addr, have);
}

static void entry_fields(struct rdc *t)
{
	struct rdc_host *h = disc(t);
	const struct nvmf_disc_log_entry *e;
	const struct nvmf_discovery_log *log;
	uint64_t n;

	log = read_log(t, h, &n);
	e = ours(t, log, n);
	RDC_CHECK(t, le16toh(e->asqsz) >= 32, "ASQSZ %u: the least is 32", le16toh(e->asqsz));
	RDC_CHECK(t, le16toh(e->cntlid) >= 0xfffe || le16toh(e->cntlid) <= NVMF_CNTLID_MAX,
		  "CNTLID 0x%04x", le16toh(e->cntlid));
	if (t->cfg->uri.tcp) {
		RDC_CHECK(t, e->tsas.tcp.sectype == NVMF_TCP_SECTYPE_NONE,
			  "SECTYPE %u, but the host connected without TLS", e->tsas.tcp.sectype);
		return;
	}
	RDC_CHECK(t, e->tsas.rdma.qptype == 1, "RDMA_QPTYPE %u, not reliable connected",
		  e->tsas.rdma.qptype);
	RDC_CHECK(t, e->tsas.rdma.prtype >= 1 && e->tsas.rdma.prtype <= 5, "RDMA_PRTYPE %u",
		  e->tsas.rdma.prtype);
	RDC_CHECK(t, e->tsas.rdma.cms == 1, "RDMA_CMS %u, not RDMA_IP_CM", e->tsas.rdma.cms);
}

/* Whether the record is that of the discovery subsystem itself. */
static void current(struct rdc *t)
{
	struct rdc_host *h = disc(t);
	const struct nvmf_discovery_log *log;
	bool reached = false;
	char nqn[260], port[40];
	uint64_t i, n, found = 0;

	log = read_log(t, h, &n);
	for (i = 0; i < n; i++) {
		const struct nvmf_disc_log_entry *e = &log->entries[i];

		if (e->subtype != NVME_NQN_CURR)
			continue;
		found++;
		text(nqn, sizeof(nqn), e->subnqn, sizeof(e->subnqn));
		text(port, sizeof(port), e->trsvcid, sizeof(e->trsvcid));
		RDC_CHECK(t, strncmp(nqn, h->id.subnqn, sizeof(h->id.subnqn)) == 0,
			  "record %llu names %s, Identify says %.223s", (unsigned long long)i, nqn,
			  h->id.subnqn);
		reached |= strcmp(port, t->cfg->uri.trsvcid) == 0;
	}
	if (!found)
		rdc_not_supported(t, "no record has SUBTYPE 3");
	RDC_CHECK(t, reached, "none of %llu records has port %s, to which the host connected",
		  (unsigned long long)found, t->cfg->uri.trsvcid);
}

static void offset(struct rdc *t)
{
	struct rdc_host *h = disc(t);
	void *part = rdc_buf(t, 1024);
	struct nvmf_discovery_log *log;
	uint64_t n;

	log = read_log(t, h, &n);
	RDC_OK(t, rdc_get_log(h, NVME_LOG_LID_DISCOVER, 0, 1024 * n, part, 1024),
	       "Get Log Page 70h from its last record on");
	RDC_CHECK(t, memcmp(part, &log->entries[n - 1], 1024) == 0,
		  "the read from an offset returned another record");
}

static void short_header(struct rdc *t)
{
	struct rdc_host *h = disc(t);
	struct nvmf_discovery_log *part = rdc_buf(t, 1024);
	uint64_t n;

	RDC_OK(t, rdc_get_log(h, NVME_LOG_LID_DISCOVER, 0, 0, part, 16),
	       "Get Log Page 70h, 16 bytes");
	read_log(t, h, &n);
	RDC_CHECK(t, le64toh(part->numrec) == n,
		  "NUMREC is %llu in a read of 16 bytes, and %llu in a read of the whole log",
		  (unsigned long long)le64toh(part->numrec), (unsigned long long)n);
}

static void strings(struct rdc *t)
{
	struct rdc_host *h = disc(t);
	struct nvmf_discovery_log *log;
	uint64_t i, n;

	log = read_log(t, h, &n);
	for (i = 0; i < n; i++) {
		const char *nqn = log->entries[i].subnqn;

		RDC_CHECK(t, memchr(nqn, '\0', NVME_NQN_LENGTH), "SUBNQN of record %llu has no NUL",
			  (unsigned long long)i);
		RDC_CHECK(t, !nvmf_nqn_error(nqn), "SUBNQN of record %llu %s",
			  (unsigned long long)i, nvmf_nqn_error(nqn));
	}
}

static void both_hosts(struct rdc *t)
{
	struct rdc_host *a = disc(t),
			*b = rdc_host_open(t, 1, &(struct rdc_host_opts){.discovery = true});
	const struct nvmf_discovery_log *log;
	uint64_t n;

	/* The tests use the subsystem as both hosts, so both must find it. */
	log = read_log(t, a, &n);
	ours(t, log, n);
	log = read_log(t, b, &n);
	ours(t, log, n);
}

const struct rdc_test rdc_t_disc_log[] = {
	{"header", DISC_LOG, "RECFMT is 0", header},
	{"generation", DISC_LOG, "GENCTR does not change while the log does not change",
	 generation},
	{"entry", DISC_LOG, "the log has the subsystem at the address that the host connected to",
	 entry},
	{"entry_fields", DISC_LOG, "the subsystem's record is a complete one of its transport",
	 entry_fields},
	{"current", DISC_LOG, "the log has the discovery subsystem itself, with its own NQN",
	 current},
	{"offset", DISC_LOG, "the log can be read from the offset of a record", offset},
	{"short_header", DISC_LOG, "the header can be read alone", short_header},
	{"strings", "Base 4.5", "every SUBNQN is an NQN", strings},
	{"both_hosts", "Base 3.1.2.3", "two hosts find the subsystem", both_hosts},
	{NULL},
};

/* ---- the controller ---- */

static void identify(struct rdc *t)
{
	struct rdc_host *h = disc(t);

	RDC_CHECK(t, h->info.vs < 0x10400 || h->id.cntrltype == 2, "CNTRLTYPE %u, expected 2",
		  h->id.cntrltype);
	RDC_CHECK(t,
		  strcmp(h->id.subnqn, NVMF_DISC_NQN) == 0 || strstr(h->id.subnqn, "nqn.") != NULL,
		  "SUBNQN \"%.223s\"", h->id.subnqn);
	RDC_CHECK(t, h->id.cntlid == htole16(h->info.cntlid), "CNTLID differs from Connect");
	RDC_CHECK(t, h->id.maxcmd, "MAXCMD is 0");
}

static void refused_identify(struct rdc *t)
{
	struct rdc_host *h = disc(t);

	RDC_REFUSED(t, rdc_identify(h, (uint8_t)t->arg, 1, 0, rdc_buf(t, 4096)),
		    "Identify of namespaces on a discovery controller");
}

static void refused_log(struct rdc *t)
{
	struct rdc_host *h = disc(t);

	RDC_STATUS(t, rdc_get_log(h, (uint8_t)t->arg, NVME_NSID_ALL, 0, rdc_buf(t, 512), 512),
		   "a log page of I/O controllers only", RDC_CS(NVME_SC_INVALID_LOG_PAGE),
		   NVME_SC_INVALID_FIELD);
}

static void refused_opcode(struct rdc *t)
{
	struct rdc_host *h = disc(t);

	RDC_STATUS(t, rdc_admin(h, .opcode = (uint8_t)t->arg),
		   "a command that discovery controllers do not have", NVME_SC_INVALID_OPCODE);
}

static void no_io_queue(struct rdc *t)
{
	struct rdc_raw *admin = rdc_raw_must_dial(t, &(struct rdc_dial){.qid = 0}), *io;
	struct rdc_connect c;

	rdc_connect_init(t, &c, 0, admin);
	snprintf(c.data.subsysnqn, sizeof(c.data.subsysnqn), "%s", NVMF_DISC_NQN);
	RDC_OK(t, rdc_raw_connect(admin, &c).r, "Connect to the discovery subsystem");
	rdc_raw_enable(admin, true);
	io = rdc_raw_dial(t, &(struct rdc_dial){.qid = 1, .depth = 16});
	if (io->rejected)
		return;
	RDC_CHECK(t, io->up, "the connection was neither accepted nor rejected");
	io->cntlid = admin->cntlid;
	rdc_connect_init(t, &c, 0, io);
	snprintf(c.data.subsysnqn, sizeof(c.data.subsysnqn), "%s", NVMF_DISC_NQN);
	RDC_REFUSED(t, rdc_raw_connect(io, &c).r,
		    "Connect of an I/O queue to a discovery controller");
}

static void no_discovery_log(struct rdc *t)
{
	struct rdc_reply r =
		rdc_get_log(rdc_main(t), NVME_LOG_LID_DISCOVER, 0, 0, rdc_buf(t, 1024), 1024);

	if (!r.err)
		rdc_not_supported(
			t,
			"the I/O controller has a discovery log, which the specification allows");
	RDC_STATUS(t, r, "the discovery log of an I/O controller", RDC_CS(NVME_SC_INVALID_LOG_PAGE),
		   NVME_SC_INVALID_FIELD);
}

static void keep_alive(struct rdc *t)
{
	struct rdc_host *h = disc(t);

	RDC_OK(t, rdc_admin(h, .opcode = nvme_admin_keep_alive),
	       "Keep Alive of a persistent discovery controller");
}

static void event(struct rdc *t)
{
	struct rdc_host *h = disc(t);
	struct rdc_async *a;

	if (!(le32toh(h->id.oaes) & NVME_CTRL_OAES_DL))
		rdc_not_supported(t, "OAES 0x%08x: no discovery log events", le32toh(h->id.oaes));
	RDC_OK(t, rdc_set_feature(h, NVME_FEAT_FID_ASYNC_EVENT, 0, NVME_CTRL_OAES_DL, NULL, 0),
	       "Asynchronous Event Configuration, bit 31");
	a = rdc_event_start(h);
	RDC_CHECK(t, !rdc_wait_ms(h, a, 200),
		  "an event without a change of the log: 0x%llx, status 0x%03x",
		  (unsigned long long)a->r.result, RDC_CODE(a->r));
	rdc_host_close(h, false);
}

const struct rdc_test rdc_t_disc_ctrl[] = {
	{"identify", "Base 5.17.2.1", "Identify says that it is a discovery controller", identify},
	{"identify_ns", "Base 3.1.2.3", "Identify Namespace is refused", refused_identify, 0,
	 NVME_IDENTIFY_CNS_NS},
	{"identify_list", "Base 3.1.2.3", "the list of active namespaces is refused",
	 refused_identify, 0, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST},
	{"log_smart", "Base 3.1.2.3", "log page 02h is refused", refused_log, 0,
	 NVME_LOG_LID_SMART},
	{"log_ana", "Base 3.1.2.3", "log page 0Ch is refused", refused_log, 0, NVME_LOG_LID_ANA},
	{"abort_of_sq", "Base 3.1.2.3", "Create I/O SQ is Invalid Opcode", refused_opcode, 0, 0x01},
	{"firmware", "Base 3.1.2.3", "Firmware Commit is Invalid Opcode", refused_opcode, 0, 0x10},
	{"no_io_queue", "Base 3.1.2.3", "an I/O queue is refused", no_io_queue},
	{"not_on_io", DISC_LOG, "an I/O controller refuses the discovery log", no_discovery_log},
	{"keep_alive", "Base 3.1.2.3",
	 "a discovery controller with a KATO is persistent, and supports Keep Alive", keep_alive},
	{"event", "Base 5.2", "with OAES bit 31 an event request stays outstanding", event},
	{NULL},
};
