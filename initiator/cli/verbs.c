/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of verbs, in the order of `rdinit --help`, and look-ups in it. Names are nvme-cli's if
 * nvme-cli has the verb. */
#include <string.h>

#include "command.h"
#include "fields.h"
#include "table.h"

#define FABRIC &cli_g_target, &cli_g_connection, &cli_g_auth, &cli_g_output

const struct cli_verb cli_verbs[] = {
	{
		.name = "discover",
		.family = "Discovery",
		.summary = "Print the discovery log of a target",
		.text = "Print the subsystems that the target offers to this host, and their "
			"addresses.",
		.reach = CLI_DISCOVERY,
		.shape = &cli_shape_discovery,
		.groups = {FABRIC},
		.with_ctrl = cli_discover,
	},
	{
		.name = "list",
		.summary = "Print the namespaces that a target offers",
		.text = "Connect to each subsystem of the discovery log, or to the one named, and "
			"print its namespaces. A subsystem with several addresses is listed "
			"once.\n\n"
			"With --attached, rdinit does not connect: it lists the block devices that "
			"rdinit attach created on this machine.",
		.reach = CLI_DISCOVERY,
		.groups = {&cli_g_list, FABRIC},
		.run = cli_list,
	},
	{
		.name = "list-subsys",
		.summary = "Print the subsystems that a target offers, with their addresses",
		.reach = CLI_DISCOVERY,
		.groups = {FABRIC},
		.run = cli_list_subsys,
	},
	{
		.name = "show-topology",
		.summary = "Print subsystems, paths, namespaces and their ANA states",
		.text = "Like list-subsys, but rdinit connects to each path. The state of a path "
			"is live or unreachable, and each namespace is shown with the state of its "
			"ANA group on that path. The exit "
			"status is 1 if a path "
			"is unreachable.",
		.reach = CLI_DISCOVERY,
		.example = "--ranking=ctrl",
		.groups = {&cli_g_topology, FABRIC},
		.run = cli_show_topology,
	},
	{
		.name = "connect-test",
		.summary = "Test a connection up to the first read, and time each step",
		.text = "Resolve the address, connect the transport, send Connect, enable the "
			"controller, identify "
			"it, connect an I/O queue and read the first block of the namespace (the "
			"NSID given, else the first active one). Each step is printed with its "
			"time. If a step fails, the reason is printed, and the exit status is 1.",
		.reach = CLI_DISCOVERY,
		.groups = {&cli_g_nsid, FABRIC},
		.run = cli_connect_test,
	},
	{
		.name = "monitor",
		.summary = "Print asynchronous events as they arrive",
		.text = "Print the asynchronous events of a controller as they arrive: namespaces "
			"that change, ANA "
			"states that change, reservation notifications, a discovery log that "
			"changes. The log page "
			"of each event is read, so that the controller sends the next one. With "
			"--output-format=json each line is a JSON object.\n\n"
			"It ends after --events, when the connection is lost (exit status 1), or "
			"on a signal.",
		.reach = CLI_DISCOVERY,
		.example = "--events=1",
		.groups = {&cli_g_monitor, FABRIC},
		.run = cli_monitor,
	},
	{
		.name = "top",
		.summary = "Show the paths and the I/O of a subsystem, live",
		.operands = "URI...",
		.text = "Show the paths to a subsystem and its I/O, updated every second. Each "
			"URI, nvme+rdma://HOST[:PORT]/SUBNQN or nvme+tcp://, is a path; a lost "
			"path is reconnected every second. Each path is shown with its state, the "
			"states of its ANA groups, the response time of the controller and the "
			"number of lost connections.\n\n"
			"The I/O covers all hosts: it comes from a controller's SMART log, which "
			"counts bytes in units of 512000.\n\n"
			"On a terminal each update redraws the screen. With "
			"--output-format=json "
			"each line is a JSON object. It ends after --count updates or on a signal.",
		.flags = CLI_V_OPERANDS,
		.example = "rdinit top nvme+rdma://192.0.2.1/nqn.2026-01.org.example:disk1 "
			   "nvme+rdma://192.0.2.2/nqn.2026-01.org.example:disk1",
		.groups = {&cli_g_top, &cli_g_host_addr, &cli_g_connection, &cli_g_auth,
			   &cli_g_output},
		.run = cli_top,
	},
	{
		.name = "id-ctrl",
		.family = "Identify",
		.summary = "Print the Identify Controller data",
		.gone = "v",
		.shape = &cli_shape_id_ctrl,
		.example = "--human-readable",
		.groups = {&cli_g_raw, &cli_g_human, FABRIC},
		.with_ctrl = cli_id_ctrl,
	},
	{
		.name = "id-ns",
		.summary = "Print the Identify Namespace data",
		.gone = "v",
		.shape = &cli_shape_id_ns,
		.example = "--human-readable",
		.groups = {&cli_g_raw, &cli_g_human, &cli_g_nsid, FABRIC},
		.with_ctrl = cli_id_ns,
	},
	{
		.name = "list-ns",
		.summary = "Print the identifiers of the active namespaces",
		.shape = &cli_shape_list_ns,
		.groups = {&cli_g_list_ns, FABRIC},
		.with_ctrl = cli_list_ns,
	},
	{
		.name = "cmdset-ind-id-ns",
		.summary = "Print the Identify data of a namespace that all command sets share",
		.shape = &cli_shape_ind_ns,
		.example = "--human-readable",
		.groups = {&cli_g_raw, &cli_g_human, &cli_g_nsid, FABRIC},
		.with_ctrl = cli_cmdset_ind_id_ns,
	},
	{
		.name = "ns-descs",
		.summary = "Print the identification descriptors of a namespace",
		.shape = &cli_shape_ns_descs,
		.groups = {&cli_g_raw, &cli_g_nsid, FABRIC},
		.with_ctrl = cli_ns_descs,
	},
	{
		.name = "nvm-id-ctrl",
		.summary = "Print the limits of the NVM command set",
		.shape = &cli_shape_nvm_ctrl,
		.groups = {&cli_g_raw, FABRIC},
		.with_ctrl = cli_nvm_id_ctrl,
	},
	{
		.name = "nvm-id-ns",
		.summary = "Print the Identify data of a namespace for the NVM command set",
		.shape = &cli_shape_nvm_ns,
		.groups = {&cli_g_raw, &cli_g_nsid, FABRIC},
		.with_ctrl = cli_nvm_id_ns,
	},
	{
		.name = "list-ctrl",
		.summary = "Print the identifiers of the controllers",
		.shape = &cli_shape_list_ctrl,
		.groups = {&cli_g_list_ctrl, FABRIC},
		.with_ctrl = cli_list_ctrl,
	},
	{
		.name = "get-log",
		.family = "Log pages",
		.summary = "Read any log page",
		.text = "Read a part of a log page and print it in hexadecimal. A part that is "
			"larger than the "
			"controller transfers at once is read with several commands.",
		.gone = "a",
		.example = "--log-id=2 --log-len=512",
		.groups = {&cli_g_get_log, &cli_g_nsid, FABRIC},
		.run = cli_get_log_verb,
	},
	{
		.name = "supported-log-pages",
		.summary = "Print the log pages that the controller supports",
		.shape = &cli_shape_supported_logs,
		.groups = {FABRIC},
		.with_ctrl = cli_supported_logs,
	},
	{
		.name = "smart-log",
		.summary = "Print the SMART / health log",
		.shape = &cli_shape_smart,
		.example = "--output-format=json",
		.groups = {&cli_g_raw, &cli_g_human, &cli_g_smart, FABRIC},
		.with_ctrl = cli_smart_log,
	},
	{
		.name = "error-log",
		.summary = "Print the error log",
		.shape = &cli_shape_errors,
		.example = "--log-entries=8",
		.groups = {&cli_g_raw, &cli_g_error_log, FABRIC},
		.with_ctrl = cli_error_log,
	},
	{
		.name = "fw-log",
		.summary = "Print the firmware slot log",
		.shape = &cli_shape_fw,
		.groups = {&cli_g_raw, FABRIC},
		.with_ctrl = cli_fw_log,
	},
	{
		.name = "changed-ns-list-log",
		.summary = "Print the list of changed namespaces",
		.shape = &cli_shape_changed_ns,
		.groups = {&cli_g_raw, FABRIC},
		.with_ctrl = cli_changed_ns_log,
	},
	{
		.name = "effects-log",
		.summary = "Print the commands that the controller supports, and their effects",
		.shape = &cli_shape_effects,
		.groups = {&cli_g_raw, &cli_g_effects, FABRIC},
		.with_ctrl = cli_effects_log,
	},
	{
		.name = "fid-support-effects-log",
		.summary = "Print the features that the controller supports, and their effects",
		.shape = &cli_shape_fids,
		.groups = {FABRIC},
		.with_ctrl = cli_fid_effects_log,
	},
	{
		.name = "mi-cmd-support-effects-log",
		.summary = "Print the NVMe-MI commands that the controller supports, and their "
			   "effects",
		.shape = &cli_shape_mis,
		.groups = {FABRIC},
		.with_ctrl = cli_mi_effects_log,
	},
	{
		.name = "ana-log",
		.summary = "Print the asymmetric namespace access log",
		.shape = &cli_shape_ana,
		.groups = {&cli_g_raw, &cli_g_ana_log, FABRIC},
		.with_ctrl = cli_ana_log,
	},
	{
		.name = "resv-notif-log",
		.summary = "Print the reservation notification log",
		.shape = &cli_shape_resv_notif,
		.groups = {FABRIC},
		.with_ctrl = cli_resv_notif_log,
	},
	{
		.name = "endurance-log",
		.summary = "Print the log of an endurance group",
		.text = "Print the log of an endurance group. rdtarget has none; others may.",
		.shape = &cli_shape_endurance,
		.example = "--group-id=1",
		.groups = {&cli_g_endurance, FABRIC},
		.with_ctrl = cli_endurance_log,
	},
	{
		.name = "get-feature",
		.family = "Features and properties",
		.summary = "Print a feature of the controller",
		.text = "Print a feature. Without --feature-id, print every feature that the "
			"controller supports; features of a namespace need --namespace-id.",
		.shape = &cli_shape_feature,
		.example = "--feature-id=7",
		.groups = {&cli_g_get_feature, &cli_g_human, FABRIC},
		.run = cli_get_feature,
	},
	{
		.name = "set-feature",
		.summary = "Set a feature of the controller",
		.text = "Set a feature. Most features belong to the controller and are lost when "
			"rdinit disconnects; write protection (0x84) and reservation persistence "
			"(0x83) belong to the namespace and persist.",
		.shape = &cli_shape_feature_set,
		.example = "--feature-id=0x84 --namespace-id=1 --value=1",
		.groups = {&cli_g_set_feature, FABRIC},
		.run = cli_set_feature,
	},
	{
		.name = "show-regs",
		.summary = "Print the controller's properties",
		.shape = &cli_shape_properties,
		.example = "--human-readable",
		.groups = {&cli_g_human, FABRIC},
		.with_ctrl = cli_show_regs,
	},
	{
		.name = "get-property",
		.summary = "Print one of the controller's properties",
		.shape = &cli_shape_property,
		.example = "--offset=0x1c",
		.groups = {&cli_g_get_property, &cli_g_human, FABRIC},
		.run = cli_get_property,
	},
	{
		.name = "set-property",
		.summary = "Set one of the controller's properties",
		.shape = &cli_shape_property,
		.example = "--offset=0x14 --value=0x460001",
		.groups = {&cli_g_set_property, FABRIC},
		.run = cli_set_property,
	},
	{
		.name = "reset",
		.summary = "Disable and enable the controller of this connection",
		.text = "Clear CC.EN of this connection's controller and set it again, waiting up "
			"to CAP.TO for each. The controllers of other connections are not "
			"affected.",
		.groups = {FABRIC},
		.with_ctrl = cli_reset,
	},
	{
		.name = "read",
		.family = "Data",
		.summary = "Copy from a namespace to a file or standard output",
		.text = "Copy from a namespace to a file or to standard output.\n"
			"The output file is not fsynced; see sync(1).\n\n"
			"On SIGINT, SIGTERM or SIGHUP no further commands are sent; rdinit waits "
			"for those in flight and shuts down the controller. Then it terminates by "
			"that signal. A second signal terminates it at once.\n\n"
			"-s is the first block. Together with --traddr it is accepted only if "
			"--trsvcid is also given, since a port may have been intended.",
		.flags = CLI_V_TRANSFER,
		.gone = "atvw",
		.example = "--data-size=1MiB --data=first.img",
		.groups = {&cli_g_transfer, &cli_g_nsid, FABRIC},
		.run = cli_read,
	},
	{
		.name = "write",
		.summary = "Copy a file or standard input to a namespace",
		.text = "Copy a file or standard input to a namespace, then send a Flush. If the "
			"range begins or ends inside a block, that block is read, modified and "
			"written back: a write of another host to the same block at that time may "
			"be lost.\n\n"
			"On SIGINT, SIGTERM or SIGHUP no further commands are sent; rdinit waits "
			"for those in flight and shuts down the controller. Then it terminates by "
			"that signal. A second signal terminates it at once.\n\n"
			"-s is the first block. Together with --traddr it is accepted only if "
			"--trsvcid is also given, since a port may have been intended.",
		.flags = CLI_V_TRANSFER,
		.gone = "atvw",
		.example = "--data=disk.img",
		.groups = {&cli_g_transfer, &cli_g_write, &cli_g_nsid, FABRIC},
		.run = cli_write,
	},
	{
		.name = "cp",
		.summary = "Copy between namespaces, files, block devices and pipes",
		.operands = "SRC DST",
		.text = "Copy all of SRC to the beginning of DST. Each is a URI, "
			"nvme+rdma://HOST[:PORT]/SUBNQN[/NSID] or nvme+tcp://, a path to a file, a "
			"block device "
			"or a FIFO, or - for standard input or output. If DST is a namespace or "
			"block device larger than SRC, the rest of it is left unchanged. A DST "
			"that is too small, read-only, mounted, locked by another program or the "
			"same as SRC is refused before anything is written. A file gets the size "
			"of SRC; no file is created in /dev. If SRC is a file that is written to "
			"during the copy, or a namespace whose size changes, the copy fails at the "
			"end.\n\n"
			"Holes: with --sparse=auto the holes of a file, the blocks that a "
			"namespace says are not allocated (get-lba-status), and 64 KiB or more of "
			"zeroes in a row in a namespace, block device or pipe, are not written but "
			"deallocated in DST (Write Zeroes with deallocation for namespaces, "
			"fallocate(2) for files and block devices); they read as zeroes in any "
			"case. --sparse=always does the same for each 4 KiB of zeroes in any SRC; "
			"--sparse=never writes everything.\n\n"
			"At the end DST is flushed: a Flush command for a namespace, fsync(2) for "
			"a "
			"file. With --verify both are then read again and compared; the first "
			"difference is printed, and the exit status is 1.\n\n"
			"--resume names a journal, a small file that is replaced about once a "
			"second, after DST is flushed. Give the same command again to continue "
			"after a failure, a kill or a power loss. What the journal records as "
			"complete is on stable storage. The rest is copied again: what came after "
			"the last flush, and up to 256 MiB of data behind a part that took longer. "
			"The journal identifies SRC and DST (size, inode and modification time of "
			"a file; NQN, "
			"NSID, size and UUID, NGUID or EUI-64 of a namespace), and the journal of "
			"another copy is refused. A change to the contents of a namespace or block "
			"device between two runs is not detected. The journal is removed when the "
			"copy is complete.\n\n"
			"A lost connection is re-established, and the copy continues: see "
			"--ctrl-loss-tmo. Several URIs, separated by commas without spaces, are "
			"paths to one namespace: --policy chooses between them, and the copy "
			"continues as long as one is left.\n\n"
			"--progress writes lines of three words for programs, at most five a "
			"second and one at the end of each phase: the phase (copy, flush or "
			"verify), the bytes done and the total (- while unknown).\n\n"
			"On SIGINT, SIGTERM or SIGHUP no further commands are sent; rdinit waits "
			"for those in flight, reports what is complete, and terminates by that "
			"signal. A second signal terminates it at once.",
		.flags = CLI_V_OPERANDS,
		.example = "rdinit cp disk.img nvme+rdma://192.0.2.1/nqn.2026-01.org.example:disk1 "
			   "--verify",
		.groups = {&cli_g_cp, &cli_g_recovery, &cli_g_host_addr, &cli_g_connection,
			   &cli_g_auth, &cli_g_dst_auth, &cli_g_output},
		.run = cli_cp,
	},
	{
		.name = "flush",
		.summary = "Commit completed writes to non-volatile media",
		.groups = {&cli_g_nsid, FABRIC},
		.with_ns = cli_flush,
	},
	{
		.name = "compare",
		.summary = "Compare blocks with a file or standard input",
		.text = "Send Compare commands with the data of a file or of standard input. The "
			"exit status is 0 if "
			"all blocks are equal, else 1, and the first range that differs is "
			"printed.",
		.gone = "atvw",
		.example = "--data=first.img",
		.groups = {&cli_g_compare, &cli_g_nsid, FABRIC},
		.with_ns = cli_compare,
	},
	{
		.name = "write-zeroes",
		.summary = "Write zeroes to a range of blocks",
		.gone = "a",
		.example = "--start-block=0 --block-count=2047",
		.groups = {&cli_g_deac, &cli_g_nsid, FABRIC},
		.with_ns = cli_write_zeroes,
	},
	{
		.name = "write-uncor",
		.summary = "Mark a range of blocks as unreadable",
		.text = "Send Write Uncorrectable: reading the blocks fails until they are written "
			"again.",
		.example = "--start-block=64 --block-count=0",
		.groups = {&cli_g_blocks, &cli_g_nsid, FABRIC},
		.with_ns = cli_write_uncor,
	},
	{
		.name = "verify",
		.summary = "Have the controller read a range without transferring it",
		.gone = "a",
		.example = "--start-block=0 --block-count=65535",
		.groups = {&cli_g_range, &cli_g_nsid, FABRIC},
		.with_ns = cli_verify,
	},
	{
		.name = "dsm",
		.summary = "Deallocate ranges, or give hints on their use",
		.example = "--ad --slbs=0,4096 --blocks=8,1024",
		.groups = {&cli_g_dsm, &cli_g_nsid, FABRIC},
		.run = cli_dsm,
	},
	{
		.name = "copy",
		.summary = "Copy ranges within a namespace, by the controller",
		.text = "Send the Copy command: the source ranges, one after the other, are copied "
			"to the destination. No data crosses the network.",
		.gone = "a",
		.example = "--sdlba=8192 --slbs=0,64 --blocks=8,8",
		.groups = {&cli_g_copy, &cli_g_nsid, FABRIC},
		.run = cli_copy,
	},
	{
		.name = "get-lba-status",
		.summary = "Print which blocks of a namespace are allocated",
		.text = "Send Get LBA Status and print its list. With --action=2 the descriptors "
			"cover the allocated blocks; all others read as zeroes if DLFEAT says so. "
			"NLB is the number of blocks minus 1. If the list is incomplete, repeat "
			"the command from the block after its last one. rdtarget supports no other "
			"action.",
		.shape = &cli_shape_lba_status,
		.example = "--start-lba=0 --range-len=4096",
		.gone = "t",
		.groups = {&cli_g_lba_status, &cli_g_nsid, FABRIC},
		.with_ctrl = cli_get_lba_status,
	},
	{
		.name = "attach",
		.family = "Block devices",
		.summary = "Attach a namespace as a block device of this machine",
		.operands = "URI...",
		.text = "Attach a namespace as a block device, such as /dev/ublkb0, and print its "
			"path. "
			"A process in the background serves it until rdinit detach. Each URI, "
			"nvme+rdma://HOST[:PORT]/SUBNQN[/NSID] or nvme+tcp://, is a path to the "
			"namespace. A lost path is reconnected; meanwhile, I/O uses another path "
			"or waits: see --ctrl-loss-tmo.\n\n"
			"A namespace can be attached only once. If the process that serves the "
			"device ends without detaching it (kill -9, an upgrade), the device's I/O "
			"waits; the same command resumes it, and nothing is lost.\n\n"
			"Messages about lost paths go to syslog, or with --foreground to standard "
			"error. With --foreground it tells a service manager when the device is "
			"ready (NOTIFY_SOCKET). On SIGTERM it writes back the cache, removes the "
			"device and exits.\n\n"
			"To attach at boot, write URIS= and OPTIONS= into "
			"/etc/rdinit/attach.d/NAME, and run systemctl enable --now "
			"rdinit-attach@NAME. A udev rule names the device "
			"/dev/disk/by-id/rdinit-UUID, with the UUID of the namespace. In fstab, "
			"give it the options _netdev and "
			"x-systemd.requires=rdinit-attach@NAME.service.\n\n"
			"It needs root and a kernel module, which it loads: ublk_drv "
			"(Linux "
			"6.4 or newer), or else nbd. With nbd the device is /dev/nbdN, it follows "
			"the size of the namespace (ublk: Linux 6.16 or newer), and if its process "
			"is killed, I/O ends with errors instead of waiting. Each of the "
			"--nr-io-queues is a thread; --queue-size is "
			"one more than the requests of each queue.",
		.flags = CLI_V_OPERANDS,
		.example = "rdinit attach nvme+tcp://192.0.2.1/nqn.2026-01.org.example:disk1/1",
		.groups = {&cli_g_attach, &cli_g_recovery, &cli_g_host_addr, &cli_g_connection,
			   &cli_g_auth, &cli_g_output},
		.run = cli_attach,
	},
	{
		.name = "detach",
		.summary = "Remove a block device that rdinit attach created",
		.operands = "DEVICE",
		.text = "Write back the kernel's cache of the block device, remove the device and "
			"end the process that serves it. DEVICE is its path, a link to it, or its "
			"name. A device that is mounted or part of another device is not "
			"removed.\n\n"
			"--force removes it in any case: even if it is in use, if no path is "
			"connected, or if its process has ended or does not answer.",
		.reach = CLI_NOWHERE,
		.flags = CLI_V_OPERANDS,
		.example = "rdinit detach /dev/ublkb0",
		.groups = {&cli_g_detach, &cli_g_output},
		.run = cli_detach,
	},
	{
		.name = "resv-register",
		.family = "Reservations",
		.summary = "Register or unregister a reservation key of this host",
		.text = "Register, replace or remove the reservation key of this host. "
			"Reservations belong to the "
			"host identifier (--hostid), not to the connection.",
		.example = "--nrkey=0x1234",
		.groups = {&cli_g_register, &cli_g_nsid, FABRIC},
		.with_ns = cli_resv_register,
	},
	{
		.name = "resv-acquire",
		.summary = "Acquire or preempt a reservation",
		.example = "--crkey=0x1234 --rtype=1",
		.groups = {&cli_g_acquire, &cli_g_nsid, FABRIC},
		.with_ns = cli_resv_acquire,
	},
	{
		.name = "resv-release",
		.summary = "Release or clear a reservation",
		.example = "--crkey=0x1234 --rtype=1",
		.groups = {&cli_g_release, &cli_g_nsid, FABRIC},
		.with_ns = cli_resv_release,
	},
	{
		.name = "resv-report",
		.summary = "Print registrants and reservation of a namespace",
		.shape = &cli_shape_resv_report,
		.groups = {&cli_g_report, &cli_g_nsid, FABRIC},
		.with_ns = cli_resv_report,
	},
	{
		.name = "admin-passthru",
		.family = "Other",
		.summary = "Send any admin command",
		.text = "Send any admin command, built from --opcode, --namespace-id (default: the "
			"NSID of the URI, else 0) and the command dwords, and print its result and "
			"data. rdinit does not check the command or its values. Numbers are "
			"decimal or hexadecimal (0x06).",
		.flags = CLI_V_PASSTHRU | CLI_V_ANY_NSID,
		.example = "--opcode=0x06 --cdw10=1 --data-len=4096 --read",
		.groups = {&cli_g_passthru, &cli_g_nsid, FABRIC},
		.run = cli_admin_passthru,
	},
	{
		.name = "io-passthru",
		.summary = "Send any I/O command",
		.text = "Send any I/O command, built from --opcode, --namespace-id (default: the "
			"NSID of the URI, else 0) and the command dwords, and print its result and "
			"data. rdinit does not check the command or its values. Numbers are "
			"decimal or hexadecimal (0x06).\n\n"
			"--prefill shows which bytes the controller does not write.",
		.flags = CLI_V_PASSTHRU | CLI_V_ANY_NSID,
		.example = "--opcode=0x02 --data-len=512 --read",
		.groups = {&cli_g_passthru, &cli_g_nsid, FABRIC},
		.run = cli_io_passthru,
	},
	{
		.name = "bench",
		.summary = "Generate an I/O load on a namespace and measure it",
		.text = "Generate an I/O load on a namespace and print IOPS, latency with "
			"percentiles, and the processor time used by rdinit. The default load is "
			"random reads of 4 KiB, 32 in flight, for ten seconds. The data that is "
			"read is not examined; all queues of a thread read into the same memory. "
			"The data that is written is random; all I/Os of a thread write the same "
			"bytes.\n\n"
			"read, write and rw are sequential: each queue works through its own part "
			"of the region from start to end, again and again. randread, randwrite and "
			"randrw choose random positions aligned to --block-size. The region is the "
			"whole namespace, or the range given by --start-block, --offset and "
			"--data-size. --depth raises --queue-size if necessary.\n\n"
			"With --poll=always a thread uses a whole CPU; with never it sleeps until "
			"a "
			"completion arrives; a time such as 50us is how long it polls before it "
			"sleeps.\n\n"
			"Latency is the time from submission of an I/O to the library until its "
			"completion. The clock is read once for all completions that one poll "
			"returns, and the next I/Os begin at that time. Percentiles are at most "
			"1.6 % too high; mean, standard deviation, minimum and maximum are exact. "
			"The processor time is that of the threads that perform I/O.\n\n"
			"In JSON the object has ios, bytes, iops, bytes_per_second and latency_ns "
			"for all I/Os, and the same in read and write; elapsed_seconds; cpu; "
			"batches and ios_per_batch (polls that returned completions, and "
			"completions per such poll); options (the parameters of the run); and "
			"interrupted.\n\n"
			"With --device the load goes through the library's device, which "
			"reconnects; without it, through queue pairs. Two runs show what the "
			"device costs.\n\n"
			"SIGINT, SIGTERM or SIGHUP end the run early: the results measured so far "
			"are printed, then rdinit ends by that signal. A second signal ends it at "
			"once.",
		.flags = CLI_V_BENCH,
		.example = "--depth=128 --run-time=30",
		.groups = {&cli_g_bench, &cli_g_nsid, FABRIC},
		.run = cli_bench,
	},
	{
		.name = "gen-hostnqn",
		.summary = "Print a new random host NQN",
		.reach = CLI_NOWHERE,
		.example = "rdinit gen-hostnqn >/etc/nvme/hostnqn",
		.groups = {&cli_g_output},
		.run = cli_gen_hostnqn,
	},
	{
		.name = "show-hostnqn",
		.summary = "Print the host NQN that this machine uses",
		.text = "Print the host NQN that rdinit uses by default: the first line of "
			"/etc/nvme/hostnqn, else one "
			"derived from the host identifier.",
		.reach = CLI_NOWHERE,
		.example = "rdinit show-hostnqn",
		.groups = {&cli_g_host, &cli_g_output},
		.run = cli_show_hostnqn,
	},
	{
		.name = "gen-dhchap-key",
		.summary = "Print a new random secret for DH-HMAC-CHAP",
		.text = "Print a new random secret for DH-HMAC-CHAP, the in-band authentication of "
			"NVMe over Fabrics, in the form DHHC-1:hh:BASE64: that Linux, nvme-cli and "
			"SPDK also read. Host and target need the same text. The secret is not "
			"transformed here; both ends transform it with the host NQN (a "
			"controller's secret with the subsystem NQN).\n\n"
			"Write it to a file that only its owner can read, and never give it to a "
			"program as an argument, which every user of the machine can see.",
		.reach = CLI_NOWHERE,
		.example = "(umask 077; rdinit gen-dhchap-key --hmac=1 >host.key)",
		.groups = {&cli_g_gen_dhchap_key, &cli_g_output},
		.run = cli_gen_dhchap_key,
	},
	{
		.name = "check-dhchap-key",
		.summary = "Check the form and the checksum of a secret for DH-HMAC-CHAP",
		.text = "Check the form, the length and the checksum of a secret for DH-HMAC-CHAP, "
			"and print its hash and length, but never the secret. The exit status is 1 "
			"if it is not valid. Only the other end can tell whether it is the right "
			"one.",
		.reach = CLI_NOWHERE,
		.example = "rdinit check-dhchap-key --key-file=host.key",
		.groups = {&cli_g_check_dhchap_key, &cli_g_output},
		.run = cli_check_dhchap_key,
	},
	{
		.name = "gen-tls-key",
		.summary = "Print a new random key for TLS",
		.text = "Print a new random key for NVMe/TCP with TLS 1.3, in the form "
			"NVMeTLSkey-1:hh:BASE64: that Linux and nvme-cli also read. Host and "
			"target need the same text; from it and from the NQNs of host and "
			"subsystem both derive the key that TLS uses.\n\n"
			"Write it to a file that only its owner can read, and never give it to a "
			"program as an argument, which every user of the machine can see.",
		.reach = CLI_NOWHERE,
		.example = "(umask 077; rdinit gen-tls-key >tls.key)",
		.groups = {&cli_g_gen_tls_key, &cli_g_output},
		.run = cli_gen_tls_key,
	},
	{
		.name = "check-tls-key",
		.summary = "Check the form and the checksum of a key for TLS, print its identity",
		.text = "Check the form, the length and the checksum of a key for TLS, and print "
			"its hash and length, but never the key. With --subsysnqn it also prints "
			"the PSK identity, by which a host names the key to that subsystem, and by "
			"which Linux finds it in a keyring (/proc/keys). The exit status "
			"is 1 if the key is not valid.",
		.reach = CLI_NOWHERE,
		.example = "rdinit check-tls-key --key-file=tls.key "
			   "--subsysnqn=nqn.2026-01.org.example:disk1",
		.groups = {&cli_g_check_tls_key, &cli_g_output},
		.run = cli_check_tls_key,
	},
};

const size_t cli_verbs_n = sizeof(cli_verbs) / sizeof(cli_verbs[0]);

const struct cli_verb *cli_verb_find(const char *name)
{
	size_t i;

	for (i = 0; i < cli_verbs_n; i++) {
		if (strcmp(cli_verbs[i].name, name) == 0)
			return &cli_verbs[i];
	}
	return NULL;
}

const struct cli_verb *cli_verb_find3(const char *group, const char *name)
{
	static const struct {
		const char *group, *name, *verb;
	} renamed[] = {
		{"id", "nvm-ns", "nvm-id-ns"},
		{"keys", "gen-kxchap-secret", "gen-dhchap-key"},
		{"keys", "check-kxchap-secret", "check-dhchap-key"},
	};
	char verb[64] = "";
	size_t i;

	for (i = 0; i < sizeof(renamed) / sizeof(renamed[0]); i++) {
		if (strcmp(renamed[i].group, group) == 0 && strcmp(renamed[i].name, name) == 0)
			return cli_verb_find(renamed[i].verb);
	}
	if (strcmp(group, "log") == 0)
		snprintf(verb, sizeof(verb), "%s-log", name);
	else if (strcmp(group, "id") == 0)
		snprintf(verb, sizeof(verb), "id-%s", name);
	return cli_verb_find(verb);
}

size_t cli_verb_opts(const struct cli_verb *verb, struct cli_opt_at *out)
{
	const struct cli_opt *letters[128] = {NULL};
	const struct cli_group *const *g;
	size_t n = 0, i, j;

	for (g = verb->groups; g < verb->groups + CLI_GROUPS_MAX && *g; g++) {
		for (i = 0; i < (*g)->n; i++) {
			const struct cli_opt *opt = &(*g)->opts[i];
			const struct cli_opt **owner = &letters[opt->letter & 0x7f];

			for (j = 0; j < n && strcmp(out[j].opt->name, opt->name) != 0; j++)
				;
			if (j < n || n == CLI_OPTS_MAX)
				continue; /* the verb itself has an option of that name */
			out[n] = (struct cli_opt_at){.opt = opt, .group = *g};
			if (!*owner)
				*owner = opt;
			if (!opt->letter || (verb->gone && strchr(verb->gone, opt->letter)))
				; /* none */
			else if (*owner == opt)
				out[n].letter = opt->letter;
			else
				out[n].own = *owner;
			n++;
		}
	}
	return n;
}
