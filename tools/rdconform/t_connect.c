/* SPDX-License-Identifier: BSD-3-Clause */
/* fabrics.connect and fabrics.order: what Connect accepts, and what is allowed before it. */
#include <string.h>

#include "suites.h"

#define BASE_CONNECT "Base 6.3"

static struct rdc_raw *admin_conn(struct rdc *t, struct rdc_connect *c)
{
	struct rdc_raw *raw = rdc_raw_must_dial(t, &(struct rdc_dial){.qid = 0});

	rdc_connect_init(t, c, 0, raw);
	return raw;
}

/* Checks which field a refused Connect reports as invalid. */
static void check_field(struct rdc *t, struct rdc_raw_reply rr, const char *what, bool data,
			unsigned int offset)
{
	uint32_t result = (uint32_t)rr.r.result;

	RDC_STATUS(t, rr.r, what, RDC_CS(NVME_SC_CONNECT_INVALID_PARAM));
	RDC_CHECK(t, !!(result & NVMF_CONNECT_IATTR_DATA) == data && (result & 0xffff) == offset,
		  "%s: the response names offset %u of the %s, expected offset %u of the %s", what,
		  result & 0xffff, result & NVMF_CONNECT_IATTR_DATA ? "data" : "command", offset,
		  data ? "data" : "command");
}

static void admin_queue(struct rdc *t)
{
	struct rdc_connect c;
	struct rdc_raw *raw = admin_conn(t, &c);

	RDC_OK(t, rdc_raw_connect(raw, &c).r, "Connect");
	RDC_CHECK(t, raw->cntlid >= NVMF_CNTLID_MIN && raw->cntlid <= NVMF_CNTLID_MAX,
		  "controller id 0x%04x", raw->cntlid);
}

static void recfmt(struct rdc *t)
{
	struct rdc_connect c;
	struct rdc_raw *raw = admin_conn(t, &c);

	c.recfmt = 1;
	RDC_STATUS(t, rdc_raw_connect(raw, &c).r, "Connect with RECFMT 1",
		   RDC_CS(NVME_SC_CONNECT_FORMAT));
}

static void sqsize_zero(struct rdc *t)
{
	struct rdc_connect c;
	struct rdc_raw *raw = admin_conn(t, &c);

	c.sqsize = 0;
	check_field(t, rdc_raw_connect(raw, &c), "Connect with SQSIZE 0", false,
		    offsetof(struct nvmf_connect_sqe, sqsize));
}

static void subnqn_unknown(struct rdc *t)
{
	struct rdc_connect c;
	struct rdc_raw *raw = admin_conn(t, &c);

	snprintf(c.data.subsysnqn, sizeof(c.data.subsysnqn),
		 "nqn.2014-08.org.nvmexpress:uuid:00000000-dead-4000-8000-000000000000");
	check_field(t, rdc_raw_connect(raw, &c), "Connect to an unknown subsystem", true,
		    offsetof(struct nvmf_connect_data, subsysnqn));
}

static void hostid_zero(struct rdc *t)
{
	struct rdc_connect c;
	struct rdc_raw *raw = admin_conn(t, &c);

	memset(c.data.hostid, 0, sizeof(c.data.hostid));
	check_field(t, rdc_raw_connect(raw, &c), "Connect with Host Identifier 0", true,
		    offsetof(struct nvmf_connect_data, hostid));
}

static void subnqn_unterminated(struct rdc *t)
{
	struct rdc_connect c;
	struct rdc_raw *raw = admin_conn(t, &c);

	memset(c.data.subsysnqn, 'a', sizeof(c.data.subsysnqn));
	check_field(t, rdc_raw_connect(raw, &c), "Connect with a subsystem NQN of 256 bytes", true,
		    offsetof(struct nvmf_connect_data, subsysnqn));
}

static void hostnqn_unterminated(struct rdc *t)
{
	struct rdc_connect c;
	struct rdc_raw *raw = admin_conn(t, &c);

	memset(c.data.hostnqn, 'a', sizeof(c.data.hostnqn));
	RDC_STATUS(t, rdc_raw_connect(raw, &c).r, "Connect with a host NQN of 256 bytes",
		   RDC_CS(NVME_SC_CONNECT_INVALID_PARAM), RDC_CS(NVME_SC_CONNECT_INVALID_HOST));
}

static void hostnqn_empty(struct rdc *t)
{
	struct rdc_connect c;
	struct rdc_raw *raw = admin_conn(t, &c);

	memset(c.data.hostnqn, 0, sizeof(c.data.hostnqn));
	/* Linux and SPDK accept it where any host is allowed. */
	RDC_STATUS(t, rdc_raw_connect(raw, &c).r, "Connect with an empty host NQN", 0,
		   RDC_CS(NVME_SC_CONNECT_INVALID_PARAM), RDC_CS(NVME_SC_CONNECT_INVALID_HOST));
}

static void cntlid_static(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_connect c;
	struct rdc_raw *raw;

	if (h->id.fcatt & 1)
		rdc_not_supported(t, "FCATT 0x%02x: the static controller model", h->id.fcatt);
	raw = admin_conn(t, &c);
	c.cntlid = 1;
	check_field(t, rdc_raw_connect(raw, &c), "Connect of an admin queue with CNTLID 1", true,
		    offsetof(struct nvmf_connect_data, cntlid));
}

static void io_queue(struct rdc *t)
{
	struct rdc_raw *admin = rdc_raw_admin(t, 0);

	rdc_raw_io(admin, 1, 16);
}

/* Opens an I/O connection of an enabled controller, and fills in the Connect of a correct host. */
static struct rdc_raw *io_conn(struct rdc *t, struct rdc_connect *c, uint16_t qid)
{
	struct rdc_raw *admin = rdc_raw_admin(t, 0);
	struct rdc_raw *raw = rdc_raw_must_dial(t, &(struct rdc_dial){.qid = qid, .depth = 16});

	raw->cntlid = admin->cntlid;
	rdc_connect_init(t, c, 0, raw);
	return raw;
}

static void io_cntlid(struct rdc *t)
{
	struct rdc_connect c;
	struct rdc_raw *raw = io_conn(t, &c, 1);

	c.cntlid = 0xffe0; /* larger than any controller identifier in use */
	check_field(t, rdc_raw_connect(raw, &c), "Connect of an I/O queue of controller 0xffe0",
		    true, offsetof(struct nvmf_connect_data, cntlid));
}

static void io_hostnqn(struct rdc *t)
{
	struct rdc_connect c;
	struct rdc_raw *raw = io_conn(t, &c, 1);

	snprintf(c.data.hostnqn, sizeof(c.data.hostnqn), "%s", t->cfg->hostnqn[1]);
	RDC_STATUS(t, rdc_raw_connect(raw, &c).r, "Connect of an I/O queue by another host",
		   RDC_CS(NVME_SC_CONNECT_INVALID_PARAM), RDC_CS(NVME_SC_CONNECT_INVALID_HOST));
}

static void io_hostid(struct rdc *t)
{
	struct rdc_connect c;
	struct rdc_raw *raw = io_conn(t, &c, 1);

	c.data.hostid[0] ^= 0xff;
	RDC_STATUS(t, rdc_raw_connect(raw, &c).r,
		   "Connect of an I/O queue with another Host Identifier",
		   RDC_CS(NVME_SC_CONNECT_INVALID_PARAM), RDC_CS(NVME_SC_CONNECT_INVALID_HOST));
}

static void io_subnqn(struct rdc *t)
{
	struct rdc_connect c;
	struct rdc_raw *raw = io_conn(t, &c, 1);

	snprintf(c.data.subsysnqn, sizeof(c.data.subsysnqn), "%s", NVMF_DISC_NQN);
	RDC_STATUS(t, rdc_raw_connect(raw, &c).r, "Connect of an I/O queue to another subsystem",
		   RDC_CS(NVME_SC_CONNECT_INVALID_PARAM));
}

static void io_sqsize_zero(struct rdc *t)
{
	struct rdc_connect c;
	struct rdc_raw *raw = io_conn(t, &c, 1);

	c.sqsize = 0;
	check_field(t, rdc_raw_connect(raw, &c), "Connect of an I/O queue with SQSIZE 0", false,
		    offsetof(struct nvmf_connect_sqe, sqsize));
}

static void io_sqsize_large(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	unsigned int mqes = (unsigned int)NVME_CAP_MQES(h->info.cap);
	struct rdc_connect c;
	struct rdc_raw *raw;

	if (mqes >= 0xffff)
		rdc_not_supported(t, "CAP.MQES is 65535: there is no larger queue");
	raw = io_conn(t, &c, 1);
	c.sqsize = (uint16_t)(mqes + 1);
	check_field(t, rdc_raw_connect(raw, &c), "Connect with SQSIZE of CAP.MQES + 1", false,
		    offsetof(struct nvmf_connect_sqe, sqsize));
}

/* One queue more than the controller grants. */
static void io_qid_beyond(struct rdc *t)
{
	struct nvme_sqe sqe = {
		.opcode = nvme_admin_get_features,
		.cdw10 = htole32(NVME_FEAT_FID_NUM_QUEUES),
	};
	struct rdc_connect c;
	struct rdc_raw *admin = rdc_raw_admin(t, 0), *raw;
	struct rdc_raw_reply rr;
	unsigned int qid;

	rdc_sgl_none(admin, &sqe);
	rr = rdc_raw_cmd(admin, &sqe);
	RDC_OK(t, rr.r, "Get Features, Number of Queues");
	qid = (unsigned int)(rr.r.result & 0xffff) + 2;
	if (qid > UINT16_MAX)
		rdc_not_supported(t, "all queue ids are granted");
	raw = rdc_raw_dial(t, &(struct rdc_dial){.qid = (uint16_t)qid, .depth = 16});
	if (raw->rejected)
		return; /* the transport has refused already */
	RDC_CHECK(t, raw->up, "the connection for queue %u was neither accepted nor rejected", qid);
	raw->cntlid = admin->cntlid;
	rdc_connect_init(t, &c, 0, raw);
	RDC_STATUS(t, rdc_raw_connect(raw, &c).r, "Connect of a queue that is not granted",
		   RDC_CS(NVME_SC_CONNECT_INVALID_PARAM), RDC_CS(NVME_SC_CONNECT_CTRL_BUSY));
}

static void io_qid_mismatch(struct rdc *t)
{
	struct rdc_connect c;
	struct rdc_raw *raw = io_conn(t, &c, 1);

	c.qid = 2;
	RDC_REFUSED(t, rdc_raw_connect(raw, &c).r,
		    "Connect of queue 2 on a connection made for queue 1");
}

static void io_qid_twice(struct rdc *t)
{
	struct rdc_raw *admin = rdc_raw_admin(t, 0), *raw;
	struct rdc_connect c;

	rdc_raw_io(admin, 1, 16);
	raw = rdc_raw_must_dial(t, &(struct rdc_dial){.qid = 1, .depth = 16});
	raw->cntlid = admin->cntlid;
	rdc_connect_init(t, &c, 0, raw);
	RDC_STATUS(t, rdc_raw_connect(raw, &c).r, "Connect of a queue that exists",
		   NVME_SC_CMD_SEQ_ERROR, RDC_CS(NVME_SC_CONNECT_INVALID_PARAM),
		   RDC_CS(NVME_SC_CONNECT_CTRL_BUSY));
}

static void io_not_enabled(struct rdc *t)
{
	struct rdc_raw *admin = rdc_raw_admin_new(t, 0, 0);
	struct rdc_raw *raw = rdc_raw_must_dial(t, &(struct rdc_dial){.qid = 1, .depth = 16});
	struct rdc_connect c;

	raw->cntlid = admin->cntlid;
	rdc_connect_init(t, &c, 0, raw);
	RDC_REFUSED(t, rdc_raw_connect(raw, &c).r, "Connect of an I/O queue while CC.EN is 0");
}

static void twice(struct rdc *t)
{
	struct rdc_connect c;
	struct rdc_raw *raw = admin_conn(t, &c);

	RDC_OK(t, rdc_raw_connect(raw, &c).r, "Connect");
	rdc_connect_init(t, &c, 0, raw);
	c.cntlid = NVMF_CNTLID_DYNAMIC;
	RDC_STATUS(t, rdc_raw_connect(raw, &c).r, "a second Connect on one queue",
		   NVME_SC_CMD_SEQ_ERROR);
}

static void sq_flow_control_off(struct rdc *t)
{
	struct rdc_connect c;
	struct rdc_raw *raw = admin_conn(t, &c);
	struct rdc_raw_reply rr;

	c.cattr = NVMF_CATTR_DISABLE_SQFLOW;
	rr = rdc_raw_connect(raw, &c);
	if (rr.r.err && RDC_CODE(rr.r) == RDC_CS(NVME_SC_CONNECT_INVALID_PARAM))
		rdc_not_supported(t,
				  "Connect with CATTR bit 2 is answered with Invalid Parameters");
	RDC_OK(t, rr.r, "Connect without SQ flow control");
	if (le16toh(rr.a.cqe.sqhd) != 0xffff)
		rdc_not_supported(t,
				  "the Connect response says SQHD %u, not FFFFh: flow control "
				  "stays on",
				  le16toh(rr.a.cqe.sqhd));
	RDC_OK(t, rdc_raw_prop_get(raw, NVME_REG_VS, NVMF_PROP_SIZE_4).r, "Property Get VS");
}

static void cntlids_differ(struct rdc *t)
{
	const struct rdc_host_opts opts = {.no_io = true};
	struct rdc_host *a = rdc_host_open(t, 0, &opts), *b = rdc_host_open(t, 0, &opts),
			*c = rdc_host_open(t, 1, &opts);

	RDC_CHECK(t,
		  a->info.cntlid != b->info.cntlid && a->info.cntlid != c->info.cntlid &&
			  b->info.cntlid != c->info.cntlid,
		  "controller ids %u, %u and %u at the same time are not distinct", a->info.cntlid,
		  b->info.cntlid, c->info.cntlid);
}

static void io_queues_end_with_admin(struct rdc *t)
{
	struct rdc_raw *admin = rdc_raw_admin(t, 0), *io = rdc_raw_io(admin, 1, 16);

	rdc_raw_close(admin);
	RDC_CHECK(t, rdc_raw_ended(io, 2 * t->cfg->timeout_ms),
		  "the I/O queue is still connected after the end of its admin queue");
}

const struct rdc_test rdc_t_connect[] = {
	{"admin_queue", BASE_CONNECT, "a correct Connect makes an admin queue and a controller",
	 admin_queue},
	{"recfmt", BASE_CONNECT, "an unknown record format is Incompatible Format", recfmt},
	{"sqsize_zero", BASE_CONNECT,
	 "SQSIZE 0 is Invalid Parameters; the response names the field", sqsize_zero},
	{"hostid_zero", "Base 5.27.1.25",
	 "Host Identifier 0 is Invalid Parameters; the response names the field", hostid_zero},
	{"subnqn_unknown", BASE_CONNECT,
	 "an unknown SUBNQN is Invalid Parameters; the response names the field", subnqn_unknown},
	{"subnqn_unterminated", "Base 4.5",
	 "a SUBNQN without its NUL is refused; the response names the field", subnqn_unterminated},
	{"hostnqn_unterminated", "Base 4.5", "a HOSTNQN without its NUL is refused",
	 hostnqn_unterminated},
	{"hostnqn_empty", "Base 4.5", "an empty HOSTNQN is treated as absent, or refused",
	 hostnqn_empty},
	{"cntlid_static", BASE_CONNECT,
	 "in the dynamic controller model CNTLID other than FFFFh is refused", cntlid_static},
	{"io_queue", BASE_CONNECT, "a correct Connect makes an I/O queue", io_queue},
	{"io_cntlid", BASE_CONNECT, "an I/O queue of a controller that does not exist is refused",
	 io_cntlid},
	{"io_hostnqn", BASE_CONNECT, "an I/O queue with another HOSTNQN is refused", io_hostnqn},
	{"io_hostid", BASE_CONNECT, "an I/O queue with another HOSTID is refused", io_hostid},
	{"io_subnqn", BASE_CONNECT, "an I/O queue with another SUBNQN is refused", io_subnqn},
	{"io_sqsize_zero", BASE_CONNECT,
	 "SQSIZE 0 of an I/O queue is refused; the response names the field", io_sqsize_zero},
	{"io_sqsize_large", "Base 3.1.3.1",
	 "SQSIZE beyond CAP.MQES is refused; the response names the field", io_sqsize_large},
	{"io_qid_beyond", BASE_CONNECT, "a queue id beyond the number of granted queues is refused",
	 io_qid_beyond},
	{"io_qid_mismatch", "RDMA 5.1", "QID of Connect and of the connection have to agree",
	 io_qid_mismatch, RDC_RDMA},
	{"io_qid_twice", BASE_CONNECT, "a queue id in use is refused", io_qid_twice},
	{"io_not_enabled", "Base 3.3.2.2",
	 "an I/O queue before the controller is enabled is refused", io_not_enabled},
	{"twice", BASE_CONNECT, "Connect on a connected queue is Command Sequence Error", twice},
	{"sq_flow_control_off", BASE_CONNECT, "SQHD is FFFFh when SQ flow control is off",
	 sq_flow_control_off},
	{"cntlids_differ", "Base 3.1.2", "each association has a controller of its own",
	 cntlids_differ},
	{"io_queues_end_with_admin", "Base 3.3.2.4",
	 "the end of the admin queue's connection ends those of its I/O queues",
	 io_queues_end_with_admin},
	{NULL},
};

/* ---- order ---- */

static void first_identify(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_must_dial(t, &(struct rdc_dial){.qid = 0});
	struct rdc_mem *mem =
		rdc_raw_mem(raw, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct nvme_sqe sqe = {.opcode = nvme_admin_identify, .cdw10 = htole32(1)};

	rdc_sgl(&sqe, mem, 4096);
	RDC_STATUS(t, rdc_raw_cmd(raw, &sqe).r, "Identify before Connect", NVME_SC_CMD_SEQ_ERROR);
}

static void first_property(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_must_dial(t, &(struct rdc_dial){.qid = 0});

	RDC_STATUS(t, rdc_raw_prop_get(raw, NVME_REG_CAP, NVMF_PROP_SIZE_8).r,
		   "Property Get before Connect", NVME_SC_CMD_SEQ_ERROR);
}

static void first_io(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_raw *admin = rdc_raw_admin(t, 0);
	struct rdc_raw *raw = rdc_raw_must_dial(t, &(struct rdc_dial){.qid = 1, .depth = 16});
	struct rdc_mem *mem =
		rdc_raw_mem(raw, h->bs, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct nvme_sqe sqe;

	(void)admin;
	rdc_raw_rw(&sqe, h, nvme_cmd_read, 0, 1, mem);
	RDC_STATUS(t, rdc_raw_cmd(raw, &sqe).r, "Read before Connect", NVME_SC_CMD_SEQ_ERROR);
}

/* Admin commands by opcode while the controller is not enabled. */
static void disabled(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_admin_new(t, 0, 0);
	struct rdc_mem *mem =
		rdc_raw_mem(raw, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct nvme_sqe sqe = {.opcode = (uint8_t)t->arg, .cdw10 = htole32(1)};

	if (t->arg == nvme_admin_identify)
		rdc_sgl(&sqe, mem, 4096);
	else
		rdc_sgl_none(raw, &sqe);
	if (t->arg == nvme_admin_get_features)
		sqe.cdw10 = htole32(NVME_FEAT_FID_NUM_QUEUES);
	RDC_STATUS(t, rdc_raw_cmd(raw, &sqe).r, "an admin command while CC.EN is 0",
		   NVME_SC_CMD_SEQ_ERROR);
}

static void unknown_fctype(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_admin_new(t, 0, 0);
	struct nvme_sqe sqe = {.opcode = NVMF_OPCODE, .fctype = 0x7e};

	rdc_sgl_none(raw, &sqe);
	RDC_STATUS(t, rdc_raw_cmd(raw, &sqe).r, "fabrics command type 7Eh", NVME_SC_INVALID_FIELD,
		   NVME_SC_INVALID_OPCODE);
}

static void property_on_io(struct rdc *t)
{
	struct rdc_raw *io = rdc_raw_io(rdc_raw_admin(t, 0), 1, 16);

	RDC_REFUSED(t, rdc_raw_prop_get(io, NVME_REG_CAP, NVMF_PROP_SIZE_8).r,
		    "Property Get on an I/O queue");
}

static void admin_on_io(struct rdc *t)
{
	struct rdc_raw *io = rdc_raw_io(rdc_raw_admin(t, 0), 1, 16);
	struct nvme_sqe sqe = {.opcode = nvme_admin_keep_alive, .nsid = htole32(rdc_main(t)->nsid)};

	rdc_sgl_none(io, &sqe);
	RDC_STATUS(t, rdc_raw_cmd(io, &sqe).r, "Keep Alive on an I/O queue",
		   NVME_SC_INVALID_OPCODE);
}

static struct rdc_raw_reply disconnect(struct rdc_raw *raw, uint16_t format)
{
	struct nvme_sqe sqe = {
		.opcode = NVMF_OPCODE,
		.fctype = nvme_fabrics_type_disconnect,
		.cdw10 = htole32(format),
	};

	rdc_sgl_none(raw, &sqe);
	return rdc_raw_cmd(raw, &sqe);
}

static void need_disconnect(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	if (!(le16toh(h->id.ofcs) & 1))
		rdc_not_supported(t, "OFCS 0x%04x: no Disconnect command", le16toh(h->id.ofcs));
}

static void disconnect_io(struct rdc *t)
{
	struct rdc_raw *admin, *io;

	need_disconnect(t);
	admin = rdc_raw_admin(t, 0);
	io = rdc_raw_io(admin, 1, 16);
	RDC_OK(t, disconnect(io, 0).r, "Disconnect of an I/O queue");
	rdc_raw_close(io);
	rdc_raw_io(admin, 1, 16); /* the id is free again */
}

static void disconnect_format(struct rdc *t)
{
	need_disconnect(t);
	RDC_STATUS(t, disconnect(rdc_raw_io(rdc_raw_admin(t, 0), 1, 16), 1).r,
		   "Disconnect with RECFMT 1", RDC_CS(NVME_SC_CONNECT_FORMAT));
}

static void disconnect_admin(struct rdc *t)
{
	struct rdc_raw_reply rr = disconnect(rdc_raw_admin(t, 0), 0);

	/* Invalid Queue Type where the command is known. */
	RDC_REFUSED(t, rr.r, "Disconnect on the admin queue");
}

static void disconnect_unsupported(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	if (le16toh(h->id.ofcs) & 1)
		rdc_not_supported(t, "OFCS bit 0 is 1: Disconnect is supported");
	RDC_REFUSED(t, disconnect(rdc_raw_io(rdc_raw_admin(t, 0), 1, 16), 0).r,
		    "Disconnect, which OFCS says is not supported");
}

const struct rdc_test rdc_t_order[] = {
	{"first_identify", "Base 3.3.2.2", "Identify before Connect is Command Sequence Error",
	 first_identify},
	{"first_property", "Base 3.3.2.2", "Property Get before Connect is Command Sequence Error",
	 first_property},
	{"first_io", "Base 3.3.2.2", "Read before Connect is Command Sequence Error", first_io},
	{"disabled_identify", "Base 3.5.2", "Identify while not enabled is Command Sequence Error",
	 disabled, 0, nvme_admin_identify},
	{"disabled_features", "Base 3.5.2",
	 "Get Features while not enabled is Command Sequence Error", disabled, 0,
	 nvme_admin_get_features},
	{"disabled_keep_alive", "Base 3.5.2",
	 "Keep Alive while not enabled is Command Sequence Error", disabled, 0,
	 nvme_admin_keep_alive},
	{"unknown_fctype", "Base 6", "an unknown fabrics command is refused", unknown_fctype},
	{"property_on_io", "Base 6.5", "Property Get belongs to the admin queue", property_on_io},
	{"admin_on_io", "Base 3.1.2", "an admin opcode on an I/O queue is Invalid Opcode",
	 admin_on_io},
	{"disconnect_io", "Base 6.4",
	 "Disconnect ends an I/O queue; its queue id can be used again", disconnect_io},
	{"disconnect_format", "Base 6.4", "Disconnect with an unknown format is refused",
	 disconnect_format},
	{"disconnect_admin", "Base 6.4", "Disconnect on the admin queue is refused",
	 disconnect_admin},
	{"disconnect_unsupported", "Base 5.17.2.1",
	 "Disconnect is refused unless OFCS bit 0 is set", disconnect_unsupported},
	{NULL},
};
