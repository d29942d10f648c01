/* SPDX-License-Identifier: BSD-3-Clause */
/* fabrics.property: the properties of a controller, reset and shutdown. */
#include <string.h>

#include "suites.h"

static uint64_t get(struct rdc *t, struct rdc_raw *raw, uint32_t offset, uint8_t attrib,
		    const char *name)
{
	struct rdc_raw_reply rr = rdc_raw_prop_get(raw, offset, attrib);
	char what[64];

	snprintf(what, sizeof(what), "Property Get %s", name);
	RDC_OK(t, rr.r, what);
	return rr.r.result;
}

static void cap(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_admin_new(t, 0, 0);
	uint64_t v = get(t, raw, NVME_REG_CAP, NVMF_PROP_SIZE_8, "CAP");

	RDC_CHECK(t, NVME_CAP_MQES(v) >= 1, "CAP.MQES is %u", (unsigned int)NVME_CAP_MQES(v));
	RDC_CHECK(t, NVME_CAP_CQR(v), "CAP.CQR is 0");
	RDC_CHECK(t, NVME_CAP_DSTRD(v) == 0, "CAP.DSTRD is %u", (unsigned int)NVME_CAP_DSTRD(v));
	RDC_CHECK(t, NVME_CAP_CSS(v) != 0, "CAP.CSS is 0: no command set");
	RDC_CHECK(t, NVME_CAP_MPSMAX(v) >= NVME_CAP_MPSMIN(v), "CAP.MPSMAX is below CAP.MPSMIN");
}

static void cap_timeout(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_admin_new(t, 0, 0);
	uint64_t v = get(t, raw, NVME_REG_CAP, NVMF_PROP_SIZE_8, "CAP");

	RDC_CHECK(t, NVME_CAP_TO(v) != 0, "CAP.TO is 0: a controller that is never ready");
}

static void vs(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_raw *raw = rdc_raw_admin_new(t, 0, 0);
	uint64_t v = get(t, raw, NVME_REG_VS, NVMF_PROP_SIZE_4, "VS");

	RDC_CHECK(t, v >= 0x10201, "VS 0x%llx: NVMe over Fabrics begins with 1.2.1",
		  (unsigned long long)v);
	RDC_CHECK(t, v == le32toh(h->id.ver), "VS is 0x%llx, Identify says 0x%x",
		  (unsigned long long)v, le32toh(h->id.ver));
}

static void initial(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_admin_new(t, 0, 0);
	uint64_t cc = get(t, raw, NVME_REG_CC, NVMF_PROP_SIZE_4, "CC");
	uint64_t csts = get(t, raw, NVME_REG_CSTS, NVMF_PROP_SIZE_4, "CSTS");

	RDC_CHECK(t, !NVME_CC_EN(cc) && !NVME_CSTS_RDY(csts),
		  "a new controller has CC 0x%llx, CSTS 0x%llx", (unsigned long long)cc,
		  (unsigned long long)csts);
}

static void enable(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_admin_new(t, 0, 0);
	uint64_t cc;

	rdc_raw_enable(raw, true);
	cc = get(t, raw, NVME_REG_CC, NVMF_PROP_SIZE_4, "CC");
	RDC_CHECK(t, NVME_CC_EN(cc), "CC.EN reads 0 after it was set");
	RDC_CHECK(t, NVME_CC_IOSQES(cc) == 6 && NVME_CC_IOCQES(cc) == 4,
		  "CC reads 0x%llx: not the entry sizes that were set", (unsigned long long)cc);
}

static void reset(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_admin_new(t, 0, 0);

	rdc_raw_enable(raw, true);
	rdc_raw_enable(raw, false);
	rdc_raw_enable(raw, true);
}

static void reset_ends_queues(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_raw *admin = rdc_raw_admin(t, 0), *io = rdc_raw_io(admin, 1, 16);
	struct rdc_mem *mem =
		rdc_raw_mem(io, h->bs, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct rdc_raw_reply rr;
	struct nvme_sqe sqe;

	rdc_raw_enable(admin, false);
	/* A reset deletes I/O queues: the connection ends, or commands on it fail. */
	if (rdc_raw_ended(io, 200))
		return;
	rdc_raw_rw(&sqe, h, nvme_cmd_read, 0, 1, mem);
	rr = rdc_raw_cmd(io, &sqe);
	RDC_CHECK(t, !rr.answered || rr.r.err,
		  "Read on an I/O queue of a disabled controller succeeded");
}

static void shut_down(struct rdc *t)
{
	uint64_t end = rdc_now_ms() + 2 * t->cfg->timeout_ms;
	struct rdc_raw *raw = rdc_raw_admin(t, 0);
	uint64_t cc = get(t, raw, NVME_REG_CC, NVMF_PROP_SIZE_4, "CC"), csts;
	unsigned int shn = t->arg;

	RDC_OK(t,
	       rdc_raw_prop_set(raw, NVME_REG_CC, cc | (uint64_t)shn << NVME_CC_SHN_SHIFT,
				NVMF_PROP_SIZE_4)
		       .r,
	       "Property Set CC.SHN");
	do {
		csts = get(t, raw, NVME_REG_CSTS, NVMF_PROP_SIZE_4, "CSTS");
		RDC_CHECK(t, rdc_now_ms() < end, "CSTS.SHST did not become complete: CSTS 0x%llx",
			  (unsigned long long)csts);
	} while (NVME_CSTS_SHST(csts) != NVME_CSTS_SHST_CMPLT);
}

static void get_refused(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_admin_new(t, 0, 0);

	RDC_STATUS(t, rdc_raw_prop_get(raw, t->arg & 0xffff, (uint8_t)(t->arg >> 16)).r,
		   "Property Get", NVME_SC_INVALID_FIELD);
}

static void set_refused(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_admin_new(t, 0, 0);

	RDC_STATUS(t, rdc_raw_prop_set(raw, t->arg & 0xffff, 0, (uint8_t)(t->arg >> 16)).r,
		   "Property Set", NVME_SC_INVALID_FIELD);
}

#define SIZE(attrib, offset) ((attrib) << 16 | (offset))

const struct rdc_test rdc_t_property[] = {
	{"cap", "Base 3.1.3.1", "CAP has the values that fabrics require", cap},
	{"cap_timeout", "Base 3.1.3.1", "CAP.TO is not 0", cap_timeout},
	{"vs", "Base 3.1.3.2", "VS is the same in Identify Controller", vs},
	{"initial", "Base 3.1.3.6", "a new controller is neither enabled nor ready", initial},
	{"enable", "Base 3.5.2", "CC.EN makes CSTS.RDY 1; CC reads as written", enable},
	{"reset", "Base 3.7.2", "CC.EN 0 makes CSTS.RDY 0, and enabling again works", reset},
	{"reset_ends_queues", "Base 3.7.2", "a controller reset deletes the I/O queues",
	 reset_ends_queues},
	{"shutdown_normal", "Base 3.6.2", "a normal shutdown completes", shut_down, 0, 1},
	{"shutdown_abrupt", "Base 3.6.2", "an abrupt shutdown completes", shut_down, 0, 2},
	{"get_cap_short", "Base 6.5", "CAP as 4 bytes is Invalid Field", get_refused, 0,
	 SIZE(0, NVME_REG_CAP)},
	{"get_vs_long", "Base 6.5", "VS as 8 bytes is Invalid Field", get_refused, 0,
	 SIZE(1, NVME_REG_VS)},
	{"get_csts_long", "Base 6.5", "CSTS as 8 bytes is Invalid Field", get_refused, 0,
	 SIZE(1, NVME_REG_CSTS)},
	{"get_attrib_reserved", "Base 6.5", "a reserved property size is Invalid Field",
	 get_refused, 0, SIZE(2, NVME_REG_VS)},
	{"get_unknown", "Base 6.5", "a property that does not exist is Invalid Field", get_refused,
	 0, SIZE(0, 0x1300)},
	{"get_unaligned", "Base 6.5", "an offset inside a property is Invalid Field", get_refused,
	 0, SIZE(0, NVME_REG_VS + 1)},
	{"get_intms", "Base 3.1.3",
	 "the interrupt mask, a property of memory-based transports only, is refused", get_refused,
	 0, SIZE(0, NVME_REG_INTMS)},
	{"set_cap", "Base 6.6", "CAP is read only", set_refused, 0, SIZE(1, NVME_REG_CAP)},
	{"set_vs", "Base 6.6", "VS is read only", set_refused, 0, SIZE(0, NVME_REG_VS)},
	{"set_cc_long", "Base 6.6", "CC as 8 bytes is Invalid Field", set_refused, 0,
	 SIZE(1, NVME_REG_CC)},
	{"set_unknown", "Base 6.6", "setting a property that does not exist is Invalid Field",
	 set_refused, 0, SIZE(0, 0x1300)},
	{NULL},
};
