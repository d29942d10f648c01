/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of verbs, in the order of `rdinit --help`. Names are nvme-cli's where it has the verb.
 */
#include "cli.h"
#include "table.h"

#define FABRIC &cli_g_target, &cli_g_connection, &cli_g_output

static const char discovery[] = "Discovery";
static const char identify[] = "Identify";
static const char data[] = "Data";
static const char other[] = "Other";

const struct cli_verb cli_verbs[] = {
	{
		.name = "discover",
		.family = discovery,
		.summary = "Print the discovery log of a target",
		.text = "Print the subsystems that the target offers to this host, and their "
			"addresses.",
		.reach = CLI_DISCOVERY,
		.json = true,
		.example = "",
		.groups = {FABRIC},
		.run = cli_discover,
	},
	{
		.name = "id-ctrl",
		.family = identify,
		.summary = "Print the Identify Controller data",
		.json = true,
		.example = "--output-format=json",
		.groups = {FABRIC},
		.run = cli_id_ctrl,
	},
	{
		.name = "id-ns",
		.family = identify,
		.summary = "Print the Identify Namespace data",
		.json = true,
		.example = "",
		.groups = {&cli_g_nsid, FABRIC},
		.run = cli_id_ns,
	},
	{
		.name = "list-ns",
		.family = identify,
		.summary = "Print the identifiers of the active namespaces",
		.json = true,
		.example = "",
		.groups = {FABRIC},
		.run = cli_list_ns,
	},
	{
		.name = "read",
		.family = data,
		.summary = "Copy from a namespace to a file or standard output",
		.text = "Copy from a namespace to a file or to standard output.\n"
			"The output file is not fsynced; see sync(1).\n\n"
			"On SIGINT, SIGTERM or SIGHUP no further commands are sent; rdinit waits "
			"for those in flight and shuts down the controller. Then it ends by that "
			"signal. A second signal ends it at once.\n\n"
			"-s is the first block. Together with --traddr it is accepted only if "
			"--trsvcid is also given, since a port may have been intended.",
		.flags = CLI_V_TRANSFER,
		.json = true,
		.example = "--data-size=1MiB --data=first.img",
		.groups = {&cli_g_transfer, &cli_g_nsid, FABRIC},
		.run = cli_read,
	},
	{
		.name = "write",
		.family = data,
		.summary = "Copy a file or standard input to a namespace",
		.text = "Copy a file or standard input to a namespace, then send a Flush. If the "
			"range begins or ends inside a block, that block is read, a part of it is "
			"replaced and it is written: a write of another host to the same block at "
			"that time may be lost.\n\n"
			"On SIGINT, SIGTERM or SIGHUP no further commands are sent; rdinit waits "
			"for those in flight and shuts down the controller. Then it ends by that "
			"signal. A second signal ends it at once.\n\n"
			"-s is the first block. Together with --traddr it is accepted only if "
			"--trsvcid is also given, since a port may have been intended.",
		.flags = CLI_V_TRANSFER,
		.json = true,
		.example = "--data=disk.img",
		.groups = {&cli_g_transfer, &cli_g_write, &cli_g_nsid, FABRIC},
		.run = cli_write,
	},
	{
		.name = "flush",
		.family = data,
		.summary = "Commit completed writes to non-volatile media",
		.json = true,
		.example = "",
		.groups = {&cli_g_nsid, FABRIC},
		.run = cli_flush,
	},
	{
		.name = "admin-passthru",
		.family = other,
		.summary = "Send any admin command",
		.text = "Send any admin command, made from --opcode, --namespace-id (default: the "
			"NSID of the URI, else 0) and the command dwords, and print its result and "
			"data. rdinit does not check the command or its values. Numbers are "
			"decimal or hexadecimal (0x06).",
		.flags = CLI_V_PASSTHRU | CLI_V_ANY_NSID,
		.json = true,
		.example = "--opcode=0x06 --cdw10=1 --data-len=4096 --read",
		.groups = {&cli_g_passthru, &cli_g_nsid, FABRIC},
		.run = cli_admin_passthru,
	},
	{
		.name = "io-passthru",
		.family = other,
		.summary = "Send any I/O command",
		.text = "Send any I/O command, made from --opcode, --namespace-id (default: the "
			"NSID of the URI, else 0) and the command dwords, and print its result and "
			"data. rdinit does not check the command or its values. Numbers are "
			"decimal or hexadecimal (0x06).\n\n"
			"--prefill shows which bytes the controller does not write.",
		.flags = CLI_V_PASSTHRU | CLI_V_ANY_NSID,
		.json = true,
		.example = "--opcode=0x02 --data-len=512 --read",
		.groups = {&cli_g_passthru, &cli_g_nsid, FABRIC},
		.run = cli_io_passthru,
	},
	{
		.name = "bench",
		.family = other,
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
			"SIGINT, SIGTERM or SIGHUP end the run early: the results measured so far "
			"are printed, then rdinit ends by that signal. A second signal ends it at "
			"once.",
		.flags = CLI_V_BENCH,
		.json = true,
		.example = "--depth=128 --run-time=30",
		.groups = {&cli_g_bench, &cli_g_nsid, FABRIC},
		.run = cli_bench,
	},
};

const size_t cli_verbs_n = sizeof(cli_verbs) / sizeof(cli_verbs[0]);
