/* SPDX-License-Identifier: BSD-3-Clause */
#include "nvmf/text.h"

#include <ctype.h>
#include <string.h>

#include "util/utf8.h"

const char *nvmf_rdma_cm_status_text(unsigned int sts)
{
	switch (sts) {
	case NVMF_RDMA_CM_INVALID_LEN:
		return "invalid private data length";
	case NVMF_RDMA_CM_INVALID_RECFMT:
		return "invalid private data format (recfmt)";
	case NVMF_RDMA_CM_INVALID_QID:
		return "invalid queue ID (qid)";
	case NVMF_RDMA_CM_INVALID_HSQSIZE:
		return "invalid host send queue size (hsqsize)";
	case NVMF_RDMA_CM_INVALID_HRQSIZE:
		return "invalid host receive queue size (hrqsize)";
	case NVMF_RDMA_CM_NO_RSRC:
		return "target is out of resources for this queue";
	case NVMF_RDMA_CM_INVALID_IRD:
		return "invalid inbound RDMA READ depth (IRD)";
	case NVMF_RDMA_CM_INVALID_ORD:
		return "invalid outbound RDMA READ depth (ORD)";
	default:
		return "unknown reject status";
	}
}

static const char *admin_opcode_text(unsigned int opcode)
{
	switch (opcode) {
	case nvme_admin_delete_sq:
		return "Delete I/O Submission Queue";
	case nvme_admin_create_sq:
		return "Create I/O Submission Queue";
	case nvme_admin_get_log_page:
		return "Get Log Page";
	case nvme_admin_delete_cq:
		return "Delete I/O Completion Queue";
	case nvme_admin_create_cq:
		return "Create I/O Completion Queue";
	case nvme_admin_identify:
		return "Identify";
	case nvme_admin_abort_cmd:
		return "Abort";
	case nvme_admin_set_features:
		return "Set Features";
	case nvme_admin_get_features:
		return "Get Features";
	case nvme_admin_async_event:
		return "Asynchronous Event Request";
	case nvme_admin_ns_mgmt:
		return "Namespace Management";
	case nvme_admin_fw_commit:
		return "Firmware Commit";
	case nvme_admin_fw_download:
		return "Firmware Image Download";
	case nvme_admin_dev_self_test:
		return "Device Self-test";
	case nvme_admin_ns_attach:
		return "Namespace Attachment";
	case nvme_admin_keep_alive:
		return "Keep Alive";
	case nvme_admin_directive_send:
		return "Directive Send";
	case nvme_admin_directive_recv:
		return "Directive Receive";
	case nvme_admin_format_nvm:
		return "Format NVM";
	case nvme_admin_security_send:
		return "Security Send";
	case nvme_admin_security_recv:
		return "Security Receive";
	case nvme_admin_sanitize_nvm:
		return "Sanitize";
	case nvme_admin_get_lba_status:
		return "Get LBA Status";
	default:
		return opcode >= 0xc0 ? "Vendor Specific Admin Command" : "Unknown Admin Command";
	}
}

static const char *io_opcode_text(unsigned int opcode)
{
	switch (opcode) {
	case nvme_cmd_flush:
		return "Flush";
	case nvme_cmd_write:
		return "Write";
	case nvme_cmd_read:
		return "Read";
	case nvme_cmd_write_uncor:
		return "Write Uncorrectable";
	case nvme_cmd_compare:
		return "Compare";
	case nvme_cmd_write_zeroes:
		return "Write Zeroes";
	case nvme_cmd_dsm:
		return "Dataset Management";
	case nvme_cmd_verify:
		return "Verify";
	case nvme_cmd_resv_register:
		return "Reservation Register";
	case nvme_cmd_resv_report:
		return "Reservation Report";
	case nvme_cmd_resv_acquire:
		return "Reservation Acquire";
	case nvme_cmd_resv_release:
		return "Reservation Release";
	case nvme_cmd_copy:
		return "Copy";
	case nvme_cmd_io_mgmt_recv:
		return "I/O Management Receive";
	case nvme_cmd_io_mgmt_send:
		return "I/O Management Send";
	default:
		return opcode >= 0x80 ? "Vendor Specific I/O Command" : "Unknown I/O Command";
	}
}

static const char *fctype_text(unsigned int fctype)
{
	switch (fctype) {
	case nvme_fabrics_type_property_set:
		return "Property Set";
	case nvme_fabrics_type_connect:
		return "Connect";
	case nvme_fabrics_type_property_get:
		return "Property Get";
	case nvme_fabrics_type_auth_send:
		return "Authentication Send";
	case nvme_fabrics_type_auth_receive:
		return "Authentication Receive";
	case nvme_fabrics_type_disconnect:
		return "Disconnect";
	default:
		return "Unknown Fabrics Command";
	}
}

const char *nvme_cmd_text(bool admin, const struct nvme_sqe *sqe)
{
	if (sqe->opcode == nvme_admin_fabrics)
		return fctype_text(sqe->fctype);
	return admin ? admin_opcode_text(sqe->opcode) : io_opcode_text(sqe->opcode);
}

static const char *characters_error(const char *nqn)
{
	const char *s = nqn, *end = nqn + strlen(nqn);

	while (s < end) {
		size_t n = rd_utf8_len(s, (size_t)(end - s));
		unsigned char c = (unsigned char)*s;

		if (!n)
			return "is not valid UTF-8";
		if (c <= 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)s[1] < 0xa0))
			return "contains a space or a control character";
		s += n;
	}
	return NULL;
}

static bool is_year_month(const char *s)
{
	static const char pattern[] = "dddd-dd.";
	int month;

	for (size_t i = 0; pattern[i]; i++) {
		if (pattern[i] == 'd' ? !isdigit((unsigned char)s[i]) : s[i] != pattern[i])
			return false;
	}
	month = (s[5] - '0') * 10 + s[6] - '0';
	return month >= 1 && month <= 12;
}

/* Checks labels separated by dots, up to the colon or the end. */
static bool is_reverse_domain(const char *s)
{
	bool in_label = false;

	for (; *s && *s != ':'; s++) {
		if (*s == '.' && !in_label)
			return false;
		in_label = *s != '.';
	}
	return in_label;
}

const char *nvmf_nqn_unusable(const char *nqn)
{
	if (nqn[0] == '\0')
		return "is empty";
	if (strnlen(nqn, NVMF_NQN_MAX + 1) > NVMF_NQN_MAX)
		return "is longer than 223 bytes";
	return characters_error(nqn);
}

const char *nvmf_nqn_error(const char *nqn)
{
	const char *error = nvmf_nqn_unusable(nqn);
	const char *colon;

	if (error)
		return error;
	if (strncmp(nqn, "nqn.", 4) != 0)
		return "does not start with \"nqn.\"";
	if (!is_year_month(nqn + 4))
		return "has no date \"yyyy-mm.\" after \"nqn.\"";
	if (!is_reverse_domain(nqn + 12))
		return "has no reverse domain name (such as org.example) after the date";
	colon = strchr(nqn, ':');
	if (colon && colon[1] == '\0')
		return "has nothing after the colon";
	return NULL;
}
