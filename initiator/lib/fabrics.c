/* SPDX-License-Identifier: BSD-3-Clause */
/* Fabrics commands: Connect and properties (Fabrics 3.3, 3.4, 3.5). */
#include <stdio.h>

#include "internal.h"

int rdi_fabrics_connect(struct rdi_queue *q, const struct rdi_connect_arg *arg,
			struct nvmf_connect_data *data, rdinit_complete_fn fn, void *user)
{
	struct rdi_cmd cmd = {
		.data = data,
		.len = sizeof(*data),
		.dir = RDI_OUT,
		.timeout_ns = arg->timeout_ns,
		.how = RDI_FABRICS | RDI_INTERNAL,
		.fn = fn,
		.user = user,
	};
	struct nvmf_connect_sqe sqe = {
		.opcode = NVMF_OPCODE,
		.fctype = nvme_fabrics_type_connect,
		.qid = htole16(arg->qid),
		.sqsize = htole16(arg->sqsize),
		.kato = htole32(arg->kato_ms),
	};

	memset(data, 0, sizeof(*data));
	memcpy(data->hostid, arg->host->id, sizeof(data->hostid));
	data->cntlid = htole16(arg->cntlid);
	snprintf(data->subsysnqn, sizeof(data->subsysnqn), "%s", arg->subnqn);
	snprintf(data->hostnqn, sizeof(data->hostnqn), "%s", arg->host->nqn);
	memcpy(&cmd.sqe, &sqe, sizeof(cmd.sqe));
	return rdi_queue_submit(q, &cmd);
}

static int submit_property(struct rdi_queue *q, const struct nvmf_property_sqe *sqe,
			   rdinit_complete_fn fn, void *user)
{
	struct rdi_cmd cmd = {.how = RDI_FABRICS | RDI_INTERNAL, .fn = fn, .user = user};

	memcpy(&cmd.sqe, sqe, sizeof(cmd.sqe));
	return rdi_queue_submit(q, &cmd);
}

int rdi_property_get(struct rdi_queue *q, uint32_t offset, bool wide, rdinit_complete_fn fn,
		     void *user)
{
	struct nvmf_property_sqe sqe = {
		.opcode = NVMF_OPCODE,
		.fctype = nvme_fabrics_type_property_get,
		.attrib = wide ? NVMF_PROP_SIZE_8 : NVMF_PROP_SIZE_4,
		.offset = htole32(offset),
	};

	return submit_property(q, &sqe, fn, user);
}

int rdi_property_set(struct rdi_queue *q, uint32_t offset, uint32_t value, rdinit_complete_fn fn,
		     void *user)
{
	struct nvmf_property_sqe sqe = {
		.opcode = NVMF_OPCODE,
		.fctype = nvme_fabrics_type_property_set,
		.attrib = NVMF_PROP_SIZE_4,
		.offset = htole32(offset),
		.value = htole64(value),
	};

	return submit_property(q, &sqe, fn, user);
}

/* ---- a refused Connect in words ---- */

static const char *connect_field(uint32_t result)
{
	unsigned int ipo = result & 0xffff;

	if (result & NVMF_CONNECT_IATTR_DATA) {
		switch (ipo) {
		case offsetof(struct nvmf_connect_data, hostid):
			return "the host identifier";
		case offsetof(struct nvmf_connect_data, cntlid):
			return "the controller id";
		case offsetof(struct nvmf_connect_data, subsysnqn):
			return "the subsystem NQN";
		case offsetof(struct nvmf_connect_data, hostnqn):
			return "the host NQN";
		default:
			return NULL;
		}
	}
	switch (ipo) {
	case offsetof(struct nvmf_connect_sqe, recfmt):
		return "the record format";
	case offsetof(struct nvmf_connect_sqe, qid):
		return "the queue id";
	case offsetof(struct nvmf_connect_sqe, sqsize):
		return "the queue size";
	case offsetof(struct nvmf_connect_sqe, cattr):
		return "the connect attributes";
	case offsetof(struct nvmf_connect_sqe, kato):
		return "the keep-alive timeout";
	default:
		return NULL;
	}
}

const char *rdi_connect_error_text(const struct rdinit_completion *c, const struct rdi_host *host,
				   const char *subnqn, char *buf, size_t len)
{
	unsigned int code = c->status & 0x7ff; /* SCT and SC */
	uint32_t result = (uint32_t)c->result;
	char status[NVME_STATUS_TEXT];
	const char *field;

	nvme_status_text((struct nvme_status){c->status}, NVME_CMD_CONNECT, status);
	switch (code) {
	case NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_CONNECT_INVALID_PARAM:
		field = connect_field(result);
		/* Targets use this status also for a host that is not allowed. */
		if (result ==
		    (NVMF_CONNECT_IATTR_DATA | offsetof(struct nvmf_connect_data, subsysnqn)))
			snprintf(buf, len,
				 "the target does not accept the subsystem NQN \"%s\": it has no "
				 "such subsystem at this address, or does not allow the host NQN "
				 "\"%s\" (option hostnqn) to use it: %s",
				 subnqn, host->nqn, status);
		else if (field)
			snprintf(buf, len, "the target does not accept %s: %s", field, status);
		else
			snprintf(buf, len, "the target does not accept the %s at offset %u: %s",
				 result & NVMF_CONNECT_IATTR_DATA ? "connect data" : "command",
				 result & 0xffff, status);
		break;
	case NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_CONNECT_INVALID_HOST:
		snprintf(buf, len,
			 "this host is not allowed to use the subsystem: it connected as \"%s\", "
			 "see the option hostnqn: %s",
			 host->nqn, status);
		break;
	case NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_CONNECT_CTRL_BUSY:
		snprintf(buf, len, "the target has no controller or queue free: %s", status);
		break;
	case NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_AUTH_REQUIRED:
		snprintf(buf, len, "the target demands authentication: %s", status);
		break;
	default:
		snprintf(buf, len, "%s", c->text);
		break;
	}
	return buf;
}
