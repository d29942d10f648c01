/* SPDX-License-Identifier: BSD-3-Clause */
/* Options that several verbs share, and those of verbs that transfer data. */
#include "cli.h"
#include "table.h"

#define GROUP(var, heading, table)     \
	const struct cli_group var = { \
		.title = (heading), .opts = (table), .n = sizeof(table) / sizeof((table)[0])}

#define OTHER(name, letter, id, value, help)                \
	{                                                   \
		name, letter, CLI_OTHER, id, value, 0, help \
	}

#define HOSTNQN                                   \
	OTHER("hostnqn", 'q', OPT_HOSTNQN, "NQN", \
	      "host NQN (default: /etc/nvme/hostnqn, else derived from the host identifier)")
#define HOSTID                                                                                   \
	OTHER("hostid", 'I', OPT_HOSTID, "UUID",                                                 \
	      "host identifier (default: /etc/nvme/hostid, else the UUID of the host NQN, else " \
	      "derived from /etc/machine-id)")

#define TIMEOUT(letter)                                                                 \
	OTHER("timeout", letter, OPT_TIMEOUT, "MS",                                     \
	      "timeout of each command except Connect, in milliseconds or with a unit " \
	      "(default 60s for admin commands, 30s for I/O commands)")
#define NO_PROGRESS OTHER("no-progress", 0, OPT_NO_PROGRESS, NULL, "do not show a progress bar")

static const struct cli_opt host[] = {
	HOSTNQN,
	HOSTID,
};

#define HOST_TRADDR \
	OTHER("host-traddr", 'w', OPT_HOST_TRADDR, "ADDR", "local address to connect from")

static const struct cli_opt host_addr[] = {
	HOSTNQN,
	HOSTID,
	HOST_TRADDR,
};

static const struct cli_opt target[] = {
	OTHER("transport", 't', OPT_TRANSPORT, "TYPE", "transport type: rdma (default) or tcp"),
	OTHER("traddr", 'a', OPT_TRADDR, "HOST", "address or name of the target, instead of a URI"),
	OTHER("trsvcid", 's', OPT_TRSVCID, "PORT",
	      "port of the target (default 4420; discovery by tcp: 8009, then 4420)"),
	OTHER("nqn", 'n', OPT_NQN, "NQN", "NQN of the subsystem"),
	HOSTNQN,
	HOSTID,
	HOST_TRADDR,
};

static const struct cli_opt connection[] = {
	OTHER("nr-io-queues", 'i', OPT_QUEUES, "N",
	      "I/O queues (default 1; read, write and cp: 2; bench: as many as --threads)"),
	OTHER("queue-size", 'Q', OPT_QUEUE_SIZE, "N", "entries of each I/O queue (default 128)"),
	OTHER("keep-alive-tmo", 'k', OPT_KATO, "SECONDS",
	      "keep-alive timeout (default 5; 0: none)"),
	TIMEOUT(0),
	OTHER("connect-timeout", 0, OPT_CONNECT_TIMEOUT, "MS",
	      "timeout of each connection attempt, and again of its Connect command (default "
	      "10s)"),
	OTHER("provider", 0, OPT_PROVIDER, "NAME", "auto, iwarp or verbs (default auto)"),
	OTHER("crc", 0, OPT_CRC, NULL, "iwarp: request CRC32C on every frame"),
	OTHER("mpa-revision", 0, OPT_MPA_REVISION, "1|2",
	      "iwarp: revision of the MPA handshake (default 2)"),
	OTHER("no-p2p", 0, OPT_NO_P2P, NULL, "iwarp: do not offer the peer-to-peer mode"),
	OTHER("hdr-digest", 0, OPT_HDR_DIGEST, NULL, "tcp: CRC32C of each PDU's header"),
	OTHER("data-digest", 0, OPT_DATA_DIGEST, NULL, "tcp: CRC32C of each PDU's data"),
	OTHER("no-remote-invalidate", 0, OPT_NO_REMOTE_INV, NULL,
	      "do not request remote invalidation of memory keys (for targets that get it wrong)"),
	OTHER("congestion", 0, OPT_CONGESTION, "NAME", "iwarp: TCP congestion control"),
	OTHER("send-buffer", 0, OPT_SEND_BUFFER, "SIZE", "iwarp: send buffer of each socket"),
	OTHER("receive-buffer", 0, OPT_RECEIVE_BUFFER, "SIZE",
	      "iwarp: receive buffer of each socket"),
};

static const struct cli_opt authentication[] = {
	OTHER("dhchap-secret-file", 0, OPT_SECRET, "FILE",
	      "file whose first line is the DH-HMAC-CHAP secret of this host (default: "
	      "$RDINIT_DHCHAP_SECRET_FILE, else none)"),
	OTHER("dhchap-ctrl-secret-file", 0, OPT_CTRL_SECRET, "FILE",
	      "file with the secret of the controller, which then has to prove itself (default: "
	      "$RDINIT_DHCHAP_CTRL_SECRET_FILE, else none)"),
	OTHER("dhchap-secret", 0, OPT_SECRET, "FILE",
	      "the same as --dhchap-secret-file; a secret, as nvme-cli takes, is refused"),
	OTHER("dhchap-ctrl-secret", 0, OPT_CTRL_SECRET, "FILE",
	      "the same as --dhchap-ctrl-secret-file"),
	OTHER("kxchap-secret", 0, OPT_SECRET, "FILE",
	      "the same as --dhchap-secret-file: nvme-cli 3 has this name"),
	OTHER("kxchap-ctrl-secret", 0, OPT_CTRL_SECRET, "FILE",
	      "the same as --dhchap-ctrl-secret-file"),
	OTHER("dhchap-hashes", 0, OPT_HASHES, "LIST",
	      "hashes to offer, with commas between: sha256, sha384, sha512 (default all)"),
	OTHER("dhchap-dhgroups", 0, OPT_DHGROUPS, "LIST",
	      "Diffie-Hellman groups to offer: null, ffdhe2048, ffdhe3072, ffdhe4096, ffdhe6144, "
	      "ffdhe8192 (default all)"),
};

static const struct cli_opt dst_auth[] = {
	OTHER("dst-dhchap-secret-file", 0, OPT_DST_SECRET, "FILE",
	      "file with the secret of this host for DST (default: that for both)"),
	OTHER("dst-dhchap-ctrl-secret-file", 0, OPT_DST_CTRL_SECRET, "FILE",
	      "file with the secret of the controller of DST (default: that for both)"),
};

static const struct cli_opt output[] = {
	OTHER("output-format", 'o', OPT_FORMAT, "FORMAT", "normal or json (default normal)"),
	OTHER("verbose", 'v', OPT_VERBOSE, NULL,
	      "print properties of the connection; given twice, trace the library"),
	OTHER("help", 'h', OPT_HELP, NULL, "print this text"),
};

static const struct cli_opt nsid[] = {
	OTHER("namespace-id", 'n', OPT_NSID, "NSID",
	      "namespace identifier (default: the NSID of the URI, else 1; passthru: else 0)"),
};

static const struct cli_opt transfer[] = {
	OTHER("start-block", 's', OPT_START_BLOCK, "LBA", "first logical block (default 0)"),
	OTHER("offset", 0, OPT_OFFSET, "BYTES",
	      "first byte, instead of --start-block; need not be a multiple of the block size"),
	OTHER("block-count", 'c', OPT_BLOCK_COUNT, "N",
	      "number of blocks, 0's based as in nvme-cli: 7 means 8 blocks"),
	OTHER("data-size", 'z', OPT_DATA_SIZE, "BYTES",
	      "number of bytes (default: the whole input, or to the end of the namespace)"),
	OTHER("data", 'd', OPT_DATA, "FILE",
	      "the file to copy from or to; - or none: standard input or standard output"),
	OTHER("force-unit-access", 'f', OPT_FUA, NULL,
	      "each command completes when its data is on non-volatile media"),
	OTHER("fua", 0, OPT_FUA, NULL, "the same as --force-unit-access"),
	NO_PROGRESS,
};

static const struct cli_opt write_opts[] = {
	OTHER("no-flush", 0, OPT_NO_FLUSH, NULL, "do not send a Flush after writing"),
};

static const struct cli_opt passthru[] = {
	OTHER("opcode", 'o', OPT_OPCODE, "N", "opcode of the command; required"),
	OTHER("flags", 'f', OPT_FLAGS, "N", "byte 1, which contains FUSE; PSDT is set to SGL"),
	OTHER("cdw2", '2', OPT_CDW0 + 2, "N", "command dword 2"),
	OTHER("cdw3", '3', OPT_CDW0 + 3, "N", "command dword 3"),
	OTHER("cdw10", '4', OPT_CDW0 + 10, "N", "command dword 10"),
	OTHER("cdw11", '5', OPT_CDW0 + 11, "N", "command dword 11"),
	OTHER("cdw12", '6', OPT_CDW0 + 12, "N", "command dword 12"),
	OTHER("cdw13", '7', OPT_CDW0 + 13, "N", "command dword 13"),
	OTHER("cdw14", '8', OPT_CDW0 + 14, "N", "command dword 14"),
	OTHER("cdw15", '9', OPT_CDW0 + 15, "N", "command dword 15"),
	OTHER("data-len", 'l', OPT_DATA_LEN, "BYTES", "size of the command's data (default 0)"),
	OTHER("input-file", 'i', OPT_INPUT_FILE, "FILE",
	      "with --write the source of the data (default: standard input), with --read the "
	      "file that receives it"),
	OTHER("read", 'r', OPT_READ, NULL, "the controller sends the data"),
	OTHER("write", 'w', OPT_WRITE, NULL, "the controller receives the data"),
	OTHER("prefill", 'p', OPT_PREFILL, "N",
	      "byte that fills the buffer of --read before an I/O command (default 0)"),
	OTHER("raw-binary", 'b', OPT_RAW_BINARY, NULL, "print the data in binary form, only"),
	OTHER("show-command", 's', OPT_SHOW_COMMAND, NULL,
	      "print the command on standard error before sending it"),
	OTHER("dry-run", 'd', OPT_DRY_RUN, NULL, "print the command and do not send it"),
	TIMEOUT('t'),
};

static const struct cli_opt bench[] = {
	OTHER("rw", 0, OPT_RW, "MODE",
	      "read, write, rw, randread, randwrite or randrw (default randread)"),
	OTHER("read-percent", 0, OPT_READ_PERCENT, "N",
	      "percentage of reads in rw and randrw (default 50)"),
	OTHER("dataloss", 0, OPT_DATALOSS, NULL,
	      "allow modes that write: they overwrite the region"),
	OTHER("block-size", 'b', OPT_BLOCK_SIZE, "BYTES", "size of one I/O (default 4k)"),
	OTHER("depth", 0, OPT_DEPTH, "N", "I/Os in flight on each queue (default 32)"),
	OTHER("queues", 0, OPT_QUEUES, "N", "the same as --nr-io-queues"),
	OTHER("device", 0, OPT_DEVICE, NULL,
	      "use the namespace through a device of the library (rdinit_dev.h), a channel for "
	      "each queue"),
	OTHER("threads", 0, OPT_THREADS, "N",
	      "threads over which the queues are distributed (default 1)"),
	OTHER("cpus", 0, OPT_CPUS, "LIST",
	      "CPUs to which the threads are bound in turn, such as 0,2-3"),
	OTHER("poll", 0, OPT_POLL, "WHEN",
	      "always (default), never (sleep), or how long before sleeping (50us)"),
	OTHER("run-time", 0, OPT_RUN_TIME, "TIME", "duration of the measurement (default 10s)"),
	OTHER("ramp-time", 0, OPT_RAMP_TIME, "TIME",
	      "duration of the load before the measurement begins (default 0)"),
	OTHER("io-count", 0, OPT_IO_COUNT, "N",
	      "stop after that many I/Os; with --run-time, at the first of the two"),
	OTHER("seed", 0, OPT_SEED, "N", "seed of positions, mix and data (default 1)"),
	OTHER("start-block", 0, OPT_START_BLOCK, "LBA", "first logical block (default 0)"),
	OTHER("offset", 0, OPT_OFFSET, "BYTES", "first byte, instead of --start-block"),
	OTHER("data-size", 'z', OPT_DATA_SIZE, "BYTES",
	      "how much of the namespace to use (default: to its end)"),
	NO_PROGRESS,
};

GROUP(cli_g_target, "Target", target);
GROUP(cli_g_host, "Host", host);
GROUP(cli_g_host_addr, "Host", host_addr);
GROUP(cli_g_connection, "Connection", connection);
GROUP(cli_g_auth, "Authentication", authentication);
GROUP(cli_g_dst_auth, "Authentication of DST", dst_auth);
GROUP(cli_g_output, "Output", output);
GROUP(cli_g_nsid, "Namespace", nsid);
GROUP(cli_g_transfer, "Data", transfer);
GROUP(cli_g_write, "Flush", write_opts);
GROUP(cli_g_passthru, "Command", passthru);
GROUP(cli_g_bench, "Load", bench);
