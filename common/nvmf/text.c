/* SPDX-License-Identifier: BSD-3-Clause */
#include "nvmf/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "util/utf8.h"

/* NULL: the table has none. */
#define NAME_IN(table, i) ((i) < sizeof(table) / sizeof((table)[0]) ? (table)[i] : NULL)

#define SCT_GENERIC       0
#define SCT_CMD_SPECIFIC  1
#define SCT_MEDIA         2
#define SCT_PATH          3
#define SCT_VENDOR        7

#define SC_VENDOR         0xc0 /* vendor specific codes of each type */

static const char *const rdma_cm_statuses[] = {
	[NVMF_RDMA_CM_INVALID_LEN] = "invalid private data length",
	[NVMF_RDMA_CM_INVALID_RECFMT] = "invalid private data format (recfmt)",
	[NVMF_RDMA_CM_INVALID_QID] = "invalid queue ID (qid)",
	[NVMF_RDMA_CM_INVALID_HSQSIZE] = "invalid host send queue size (hsqsize)",
	[NVMF_RDMA_CM_INVALID_HRQSIZE] = "invalid host receive queue size (hrqsize)",
	[NVMF_RDMA_CM_NO_RSRC] = "target is out of resources for this queue",
	[NVMF_RDMA_CM_INVALID_IRD] = "invalid inbound RDMA READ depth (IRD)",
	[NVMF_RDMA_CM_INVALID_ORD] = "invalid outbound RDMA READ depth (ORD)",
};

const char *nvmf_rdma_cm_status_text(unsigned int sts)
{
	const char *name = NAME_IN(rdma_cm_statuses, sts);

	return name ? name : "unknown reject status";
}

static const char *const admin_commands[] = {
	[nvme_admin_delete_sq] = "Delete I/O Submission Queue",
	[nvme_admin_create_sq] = "Create I/O Submission Queue",
	[nvme_admin_get_log_page] = "Get Log Page",
	[nvme_admin_delete_cq] = "Delete I/O Completion Queue",
	[nvme_admin_create_cq] = "Create I/O Completion Queue",
	[nvme_admin_identify] = "Identify",
	[nvme_admin_abort_cmd] = "Abort",
	[nvme_admin_set_features] = "Set Features",
	[nvme_admin_get_features] = "Get Features",
	[nvme_admin_async_event] = "Asynchronous Event Request",
	[nvme_admin_ns_mgmt] = "Namespace Management",
	[nvme_admin_fw_commit] = "Firmware Commit",
	[nvme_admin_fw_download] = "Firmware Image Download",
	[nvme_admin_dev_self_test] = "Device Self-test",
	[nvme_admin_ns_attach] = "Namespace Attachment",
	[nvme_admin_keep_alive] = "Keep Alive",
	[nvme_admin_directive_send] = "Directive Send",
	[nvme_admin_directive_recv] = "Directive Receive",
	[nvme_admin_format_nvm] = "Format NVM",
	[nvme_admin_security_send] = "Security Send",
	[nvme_admin_security_recv] = "Security Receive",
	[nvme_admin_sanitize_nvm] = "Sanitize",
	[nvme_admin_get_lba_status] = "Get LBA Status",
};

static const char *admin_opcode_text(unsigned int opcode)
{
	const char *name = NAME_IN(admin_commands, opcode);

	if (name)
		return name;
	return opcode >= 0xc0 ? "Vendor Specific Admin Command" : "Unknown Admin Command";
}

static const char *const io_commands[] = {
	[nvme_cmd_flush] = "Flush",
	[nvme_cmd_write] = "Write",
	[nvme_cmd_read] = "Read",
	[nvme_cmd_write_uncor] = "Write Uncorrectable",
	[nvme_cmd_compare] = "Compare",
	[nvme_cmd_write_zeroes] = "Write Zeroes",
	[nvme_cmd_dsm] = "Dataset Management",
	[nvme_cmd_verify] = "Verify",
	[nvme_cmd_resv_register] = "Reservation Register",
	[nvme_cmd_resv_report] = "Reservation Report",
	[nvme_cmd_resv_acquire] = "Reservation Acquire",
	[nvme_cmd_resv_release] = "Reservation Release",
	[nvme_cmd_copy] = "Copy",
	[nvme_cmd_io_mgmt_recv] = "I/O Management Receive",
	[nvme_cmd_io_mgmt_send] = "I/O Management Send",
};

static const char *io_opcode_text(unsigned int opcode)
{
	const char *name = NAME_IN(io_commands, opcode);

	if (name)
		return name;
	return opcode >= 0x80 ? "Vendor Specific I/O Command" : "Unknown I/O Command";
}

static const char *const fabrics_commands[] = {
	[nvme_fabrics_type_property_set] = "Property Set",
	[nvme_fabrics_type_connect] = "Connect",
	[nvme_fabrics_type_property_get] = "Property Get",
	[nvme_fabrics_type_auth_send] = "Authentication Send",
	[nvme_fabrics_type_auth_receive] = "Authentication Receive",
	[nvme_fabrics_type_disconnect] = "Disconnect",
};

static const char *fctype_text(unsigned int fctype)
{
	const char *name = NAME_IN(fabrics_commands, fctype);

	return name ? name : "Unknown Fabrics Command";
}

const char *nvme_cmd_text(bool admin, const struct nvme_sqe *sqe)
{
	if (sqe->opcode == nvme_admin_fabrics)
		return fctype_text(sqe->fctype);
	return admin ? admin_opcode_text(sqe->opcode) : io_opcode_text(sqe->opcode);
}

/*
 * ---- status values ----
 *
 * NVMe Base 2.0 (3.3.3.2.1), NVM Command Set 1.0 (3.1.2), NVMe over Fabrics 1.1 (Base 2.0, figure
 * 99 and 6.3).
 */

static const char *const generic[] = {
	[0x00] = "Successful Completion",
	[0x01] = "Invalid Command Opcode",
	[0x02] = "Invalid Field in Command",
	[0x03] = "Command ID Conflict",
	[0x04] = "Data Transfer Error",
	[0x05] = "Aborted by Power Loss Notification",
	[0x06] = "Internal Error",
	[0x07] = "Command Abort Requested",
	[0x08] = "Aborted by SQ Deletion",
	[0x09] = "Aborted by Failed Fused Command",
	[0x0a] = "Aborted by Missing Fused Command",
	[0x0b] = "Invalid Namespace or Format",
	[0x0c] = "Command Sequence Error",
	[0x0d] = "Invalid SGL Segment Descriptor",
	[0x0e] = "Invalid Number of SGL Descriptors",
	[0x0f] = "Data SGL Length Invalid",
	[0x10] = "Metadata SGL Length Invalid",
	[0x11] = "SGL Descriptor Type Invalid",
	[0x12] = "Invalid Use of Controller Memory Buffer",
	[0x13] = "PRP Offset Invalid",
	[0x14] = "Atomic Write Unit Exceeded",
	[0x15] = "Operation Denied",
	[0x16] = "SGL Offset Invalid",
	[0x18] = "Host Identifier Inconsistent Format",
	[0x19] = "Keep Alive Timer Expired",
	[0x1a] = "Keep Alive Timeout Invalid",
	[0x1b] = "Aborted by Preempt and Abort",
	[0x1c] = "Sanitize Failed",
	[0x1d] = "Sanitize In Progress",
	[0x1e] = "SGL Data Block Granularity Invalid",
	[0x1f] = "Command Not Supported for Queue in CMB",
	[0x20] = "Namespace is Write Protected",
	[0x21] = "Command Interrupted",
	[0x22] = "Transient Transport Error",
	[0x23] = "Prohibited by Command and Feature Lockdown",
	[0x24] = "Admin Command Media Not Ready",
	[0x80] = "LBA Out of Range",
	[0x81] = "Capacity Exceeded",
	[0x82] = "Namespace Not Ready",
	[0x83] = "Reservation Conflict",
	[0x84] = "Format In Progress",
};

/* Command specific status of admin and I/O commands. */
static const char *const command[] = {
	[0x00] = "Completion Queue Invalid",
	[0x01] = "Invalid Queue Identifier",
	[0x02] = "Invalid Queue Size",
	[0x03] = "Abort Command Limit Exceeded",
	[0x05] = "Asynchronous Event Request Limit Exceeded",
	[0x06] = "Invalid Firmware Slot",
	[0x07] = "Invalid Firmware Image",
	[0x08] = "Invalid Interrupt Vector",
	[0x09] = "Invalid Log Page",
	[0x0a] = "Invalid Format",
	[0x0b] = "Firmware Activation Requires Conventional Reset",
	[0x0c] = "Invalid Queue Deletion",
	[0x0d] = "Feature Identifier Not Saveable",
	[0x0e] = "Feature Not Changeable",
	[0x0f] = "Feature Not Namespace Specific",
	[0x10] = "Firmware Activation Requires NVM Subsystem Reset",
	[0x11] = "Firmware Activation Requires Controller Level Reset",
	[0x12] = "Firmware Activation Requires Maximum Time Violation",
	[0x13] = "Firmware Activation Prohibited",
	[0x14] = "Overlapping Range",
	[0x15] = "Namespace Insufficient Capacity",
	[0x16] = "Namespace Identifier Unavailable",
	[0x18] = "Namespace Already Attached",
	[0x19] = "Namespace Is Private",
	[0x1a] = "Namespace Not Attached",
	[0x1b] = "Thin Provisioning Not Supported",
	[0x1c] = "Controller List Invalid",
	[0x1d] = "Device Self-test In Progress",
	[0x1e] = "Boot Partition Write Prohibited",
	[0x1f] = "Invalid Controller Identifier",
	[0x20] = "Invalid Secondary Controller State",
	[0x21] = "Invalid Number of Controller Resources",
	[0x22] = "Invalid Resource Identifier",
	[0x23] = "Sanitize Prohibited While PMR is Enabled",
	[0x24] = "ANA Group Identifier Invalid",
	[0x25] = "ANA Attach Failed",
	[0x26] = "Insufficient Capacity",
	[0x27] = "Namespace Attachment Limit Exceeded",
	[0x28] = "Prohibition of Command Execution Not Supported",
	[0x29] = "I/O Command Set Not Supported",
	[0x2a] = "I/O Command Set Not Enabled",
	[0x2b] = "I/O Command Set Combination Rejected",
	[0x2c] = "Invalid I/O Command Set",
	[0x2d] = "Identifier Unavailable",
	[0x80] = "Conflicting Attributes",
	[0x81] = "Invalid Protection Information",
	[0x82] = "Attempted Write to Read Only Range",
	[0x83] = "Command Size Limit Exceeded",
	[0x85] = "Incompatible Namespace or Format",
	[0x86] = "Fast Copy Not Possible",
	[0x87] = "Overlapping I/O Range",
	[0x89] = "Insufficient Resources",
	[0x90] = "Discover Restart",
	[0x91] = "Authentication Required",
	[0xb8] = "Zone Boundary Error",
	[0xb9] = "Zone Is Full",
	[0xba] = "Zone Is Read Only",
	[0xbb] = "Zone Is Offline",
	[0xbc] = "Zone Invalid Write",
	[0xbd] = "Too Many Active Zones",
	[0xbe] = "Too Many Open Zones",
	[0xbf] = "Invalid Zone State Transition",
};

/* Command specific status of Connect: other commands use the values differently, or not. */
static const char *const connect_only[] = {
	[0x80] = "Connect Incompatible Format", [0x81] = "Connect Controller Busy",
	[0x82] = "Connect Invalid Parameters",  [0x83] = "Connect Restart Discovery",
	[0x84] = "Connect Invalid Host",
};

static const char *const media[] = {
	[0x80] = "Write Fault",
	[0x81] = "Unrecovered Read Error",
	[0x82] = "End-to-end Guard Check Error",
	[0x83] = "End-to-end Application Tag Check Error",
	[0x84] = "End-to-end Reference Tag Check Error",
	[0x85] = "Compare Failure",
	[0x86] = "Access Denied",
	[0x87] = "Deallocated or Unwritten Logical Block",
	[0x88] = "End-to-end Storage Tag Check Error",
};

static const char *const path[] = {
	[0x00] = "Internal Path Error",      [0x01] = "ANA Persistent Loss",
	[0x02] = "ANA Inaccessible",         [0x03] = "ANA Transition",
	[0x60] = "Controller Pathing Error", [0x70] = "Host Pathing Error",
	[0x71] = "Command Aborted By Host",
};

/*
 * *@other: the name of the value for commands of another kind, if the kind is unknown; else NULL.
 */
static const char *command_name(unsigned int sc, struct nvme_cmd_kind of, const char **other)
{
	const char *name = NAME_IN(command, sc);
	const char *connect = NAME_IN(connect_only, sc);

	if (sc >= 0x70 && sc <= 0x7f)
		return "Directive Specific";
	switch (of.set) {
	case NVME_CMDS_UNKNOWN:
		if (sc == 0x85)
			connect = "Invalid Queue Type";
		*other = connect && name ? name : NULL;
		return connect ? connect : name;
	case NVME_CMDS_FABRICS:
		if (of.opcode == nvme_fabrics_type_connect && connect)
			return connect;
		if (of.opcode == nvme_fabrics_type_disconnect && sc == 0x85)
			return "Invalid Queue Type";
		/* Status of the NVM command set does not apply to fabrics commands. */
		return sc >= 0x80 && sc < 0x90 ? NULL : name;
	default:
		return name;
	}
}

static const char *status_name(unsigned int sct, unsigned int sc, struct nvme_cmd_kind of,
			       const char **other)
{
	if (sct == SCT_VENDOR || sc >= SC_VENDOR)
		return "Vendor Specific";
	switch (sct) {
	case SCT_GENERIC:
		return NAME_IN(generic, sc);
	case SCT_CMD_SPECIFIC:
		return command_name(sc, of, other);
	case SCT_MEDIA:
		return NAME_IN(media, sc);
	case SCT_PATH:
		return NAME_IN(path, sc);
	default:
		return NULL;
	}
}

struct nvme_cmd_kind nvme_cmd_kind(bool admin, const struct nvme_sqe *sqe)
{
	struct nvme_cmd_kind of = {admin ? NVME_CMDS_ADMIN : NVME_CMDS_IO, sqe->opcode};

	if (sqe->opcode == NVMF_OPCODE)
		of = (struct nvme_cmd_kind){NVME_CMDS_FABRICS, sqe->fctype};
	return of;
}

const char *nvme_status_text(struct nvme_status st, struct nvme_cmd_kind of, char *buf)
{
	unsigned int sct = (st.v >> 8) & 0x7, sc = st.v & 0xff;
	const char *other = NULL;
	const char *name = status_name(sct, sc, of, &other);

	snprintf(buf, NVME_STATUS_TEXT, "%s%s%s (sct %x, sc 0x%02x%s)",
		 name ? name : "Unknown Status", other ? " or " : "", other ? other : "", sct, sc,
		 st.v & NVME_STATUS_DNR ? ", DNR" : "");
	return buf;
}

/* ---- NQNs ---- */

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
