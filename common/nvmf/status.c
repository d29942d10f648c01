/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of status values: NVMe Base 2.0 (3.3.3.2.1), NVM Command Set 1.0 (3.1.2), NVMe over Fabrics
 * 1.1 (Base 2.0, figure 99 and 6.3).
 */
#include "nvmf/text.h"

#include <stdio.h>

#define SCT_GENERIC      0
#define SCT_CMD_SPECIFIC 1
#define SCT_MEDIA        2
#define SCT_PATH         3
#define SCT_VENDOR       7

#define SC_VENDOR        0xc0 /* vendor specific codes of each type */

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

#define NAME_IN(table, sc) \
	((sc) < sizeof(table) / sizeof((table)[0]) && (table)[sc] ? (table)[sc] : NULL)

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
