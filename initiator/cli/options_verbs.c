/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of all verbs; see table.h. Names and letters are nvme-cli's. */
#include <limits.h>

#include "command.h"
#include "table.h"

#define GROUP(var, heading, table)     \
	const struct cli_group var = { \
		.title = (heading), .opts = (table), .n = sizeof(table) / sizeof((table)[0])}

#define OPT(name, letter, kind, id, value, min, max, help)    \
	{                                                     \
		name, letter, kind, id, value, min, max, help \
	}
#define NUM(name, letter, id, value, max, help) OPT(name, letter, CLI_NUM, id, value, 0, max, help)
#define SIZE(name, letter, id, value, help)     OPT(name, letter, CLI_SIZE, id, value, 0, 0, help)
#define FLAG(name, letter, id, help)            OPT(name, letter, CLI_FLAG, id, NULL, 0, 0, help)
#define TEXT(name, letter, id, value, help)     OPT(name, letter, CLI_TEXT, id, value, 0, 0, help)
#define OTHER(name, letter, id, value, help)    OPT(name, letter, CLI_OTHER, id, value, 0, 0, help)
/* The value goes to a member of struct cli_options. */
#define NUM_TO(name, letter, kind, member, value, min, max, help) \
	OPT(name, letter, kind, offsetof(struct cli_options, member), value, min, max, help)
#define TO(name, letter, kind, member, value, help) \
	NUM_TO(name, letter, kind, member, value, 0, 0, help)

#define CHECKED(name, letter, member, fn, value, help)                                             \
	{                                                                                          \
		name, letter, CLI_STR, offsetof(struct cli_options, member), value, 0, 0, help, fn \
	}
#define WORDS(name, letter, kind, id, value, list, help)                   \
	{                                                                  \
		name, letter, kind, id, value, 0, 0, help, .words = (list) \
	}
#define SECRET(name, member, help) CHECKED(name, 0, member, cli_check_secret_file, "FILE", help)

/* ---- options that several verbs share ---- */

#define RAW_BINARY FLAG("raw-binary", 'b', CLI_ARG_RAW, "print the data in binary form, only")

#define HOSTNQN                                          \
	TO("hostnqn", 'q', CLI_STR, ctrl.hostnqn, "NQN", \
	   "host NQN (default: /etc/nvme/hostnqn, else derived from the host identifier)")
#define HOSTID                                                                                \
	TO("hostid", 'I', CLI_STR, ctrl.hostid, "UUID",                                       \
	   "host identifier (default: /etc/nvme/hostid, else the UUID of the host NQN, else " \
	   "derived from /etc/machine-id and the host NQN)")

#define TIMEOUT(letter)                                                                 \
	OTHER("timeout", letter, OPT_TIMEOUT, "MS",                                     \
	      "timeout of each command except Connect, in milliseconds or with a unit " \
	      "(default 60s for admin commands, 30s for I/O commands)")
#define NO_PROGRESS FLAG("no-progress", 0, CLI_ARG_NO_PROGRESS, "do not show a progress bar")

static const struct cli_opt host[] = {
	HOSTNQN,
	HOSTID,
};

#define HOST_TRADDR                                                                  \
	CHECKED("host-traddr", 'w', ctrl.host_traddr, cli_check_host_traddr, "ADDR", \
		"local address to connect from")

static const struct cli_opt host_addr[] = {
	HOSTNQN,
	HOSTID,
	HOST_TRADDR,
};

static const struct cli_opt target[] = {
	WORDS("transport", 't', CLI_OTHER, OPT_TRANSPORT, "TYPE", "rdma,tcp",
	      "transport type: rdma (default) or tcp"),
	TO("traddr", 'a', CLI_STR, ctrl.traddr, "HOST",
	   "address or name of the target, instead of a URI"),
	CHECKED("trsvcid", 's', ctrl.trsvcid, cli_check_trsvcid, "PORT",
		"port of the target (default 4420; discovery by tcp: 8009, then 4420)"),
	TO("nqn", 'n', CLI_STR, ctrl.subnqn, "NQN", "NQN of the subsystem"),
	HOSTNQN,
	HOSTID,
	HOST_TRADDR,
};

static const struct cli_opt connection[] = {
	NUM_TO("nr-io-queues", 'i', CLI_U16, ctrl.nr_io_queues, "N", 1, CLI_QUEUES_MAX,
	       "I/O queues (default 1; read, write and cp: 2; bench: as many as --threads)"),
	NUM_TO("queue-size", 'Q', CLI_U16, qpair.queue_size, "N", 2, 1024,
	       "entries of each I/O queue (default 128)"),
	OTHER("keep-alive-tmo", 'k', OPT_KATO, "SECONDS",
	      "keep-alive timeout (default 5; 0: none)"),
	TIMEOUT(0),
	TO("connect-timeout", 0, CLI_MS, ctrl.connect_timeout_ms, "MS",
	   "timeout of each connection attempt, and of its Connect command (default 10s)"),
	WORDS("provider", 0, CLI_STR, offsetof(struct cli_options, ctrl.provider), "NAME",
	      "auto,iwarp,verbs", "auto, iwarp or verbs (default auto)"),
	TO("crc", 0, CLI_BOOL, ctrl.crc, NULL, "iwarp: request CRC32C on every frame"),
	WORDS("mpa-revision", 0, CLI_OTHER, OPT_MPA_REVISION, "1|2", "1,2",
	      "iwarp: revision of the MPA handshake (default 2)"),
	TO("no-p2p", 0, CLI_BOOL, ctrl.no_peer_to_peer, NULL,
	   "iwarp: do not offer the peer-to-peer mode"),
	TO("hdr-digest", 0, CLI_BOOL, ctrl.hdr_digest, NULL, "tcp: CRC32C of each PDU's header"),
	TO("data-digest", 0, CLI_BOOL, ctrl.data_digest, NULL, "tcp: CRC32C of each PDU's data"),
	TO("no-remote-invalidate", 0, CLI_BOOL, ctrl.no_remote_invalidate, NULL,
	   "do not request remote invalidation of memory keys (for targets that get it wrong)"),
	TO("congestion", 0, CLI_STR, ctrl.congestion, "NAME", "iwarp, tcp: TCP congestion control"),
	TO("send-buffer", 0, CLI_BUFFER, ctrl.send_buffer, "SIZE",
	   "iwarp, tcp: send buffer of each socket"),
	TO("receive-buffer", 0, CLI_BUFFER, ctrl.receive_buffer, "SIZE",
	   "iwarp, tcp: receive buffer of each socket"),
};

static const struct cli_opt authentication[] = {
	SECRET("dhchap-secret-file", auth.secret_file,
	       "file whose first line is the DH-HMAC-CHAP secret of this host (default: "
	       "$RDINIT_DHCHAP_SECRET_FILE, else none)"),
	SECRET("dhchap-ctrl-secret-file", auth.ctrl_secret_file,
	       "file with the controller's secret; the controller must then authenticate itself "
	       "(default: "
	       "$RDINIT_DHCHAP_CTRL_SECRET_FILE, else none)"),
	SECRET("dhchap-secret", auth.secret_file,
	       "the same as --dhchap-secret-file: a file, not the secret as in nvme-cli"),
	SECRET("dhchap-ctrl-secret", auth.ctrl_secret_file,
	       "the same as --dhchap-ctrl-secret-file"),
	SECRET("kxchap-secret", auth.secret_file,
	       "the same as --dhchap-secret-file: nvme-cli 3 has this name"),
	SECRET("kxchap-ctrl-secret", auth.ctrl_secret_file,
	       "the same as --dhchap-ctrl-secret-file"),
	WORDS("dhchap-hashes", 0, CLI_OTHER, OPT_HASHES, "LIST", "sha256,sha384,sha512",
	      "hashes to offer, separated by commas: sha256, sha384, sha512 (default all)"),
	OTHER("dhchap-dhgroups", 0, OPT_DHGROUPS, "LIST",
	      "Diffie-Hellman groups to offer: null, ffdhe2048, ffdhe3072, ffdhe4096, ffdhe6144, "
	      "ffdhe8192 (default all)"),
	TO("tls", 0, CLI_BOOL, want_tls, NULL,
	   "tcp: TLS 1.3 with the key of --tls-key-file, on each connection"),
	SECRET("tls-key-file", tls.key_file,
	       "tcp: file whose first line is the TLS key of this host; implies --tls (default: "
	       "$RDINIT_TLS_KEY_FILE)"),
};

static const struct cli_opt dst_auth[] = {
	SECRET("dst-dhchap-secret-file", dst.secret_file,
	       "file with the secret of this host for DST (default: the one for both)"),
	SECRET("dst-dhchap-ctrl-secret-file", dst.ctrl_secret_file,
	       "file with the secret of the controller of DST (default: the one for both)"),
	SECRET("dst-tls-key-file", dst.tls_key_file,
	       "file with the TLS key of this host for DST (default: the one for both)"),
};

static const struct cli_opt output[] = {
	WORDS("output-format", 'o', CLI_OTHER, OPT_FORMAT, "FORMAT", "normal,json",
	      "normal or json (default normal)"),
	OTHER("verbose", 'v', OPT_VERBOSE, NULL,
	      "print properties of the connection; given twice, trace the library"),
	OTHER("help", 'h', OPT_HELP, NULL, "print this text"),
};

static const struct cli_opt nsid[] = {
	OTHER("namespace-id", 'n', OPT_NSID, "NSID",
	      "namespace identifier (default: the NSID of the URI, else 1; passthru: else 0)"),
};

static const struct cli_opt transfer[] = {
	NUM("start-block", 's', CLI_ARG_START, "LBA", UINT64_MAX,
	    "first logical block (default 0)"),
	SIZE("offset", 0, CLI_ARG_OFFSET, "BYTES",
	     "first byte, instead of --start-block; need not be a multiple of the block size"),
	NUM("block-count", 'c', CLI_ARG_COUNT, "N", UINT64_MAX - 1,
	    "number of blocks, 0's based as in nvme-cli: 7 means 8 blocks"),
	SIZE("data-size", 'z', CLI_ARG_DATA_LEN, "BYTES",
	     "number of bytes (default: the whole input, or to the end of the namespace)"),
	TEXT("data", 'd', CLI_ARG_DATA, "FILE",
	     "the file to copy from or to; - or none: standard input or standard output"),
	FLAG("force-unit-access", 'f', CLI_ARG_FUA,
	     "each command completes when its data is on non-volatile media"),
	FLAG("fua", 0, CLI_ARG_FUA, "the same as --force-unit-access"),
	NO_PROGRESS,
};

static const struct cli_opt write_opts[] = {
	FLAG("no-flush", 0, CLI_ARG_NO_FLUSH, "do not send a Flush after writing"),
};

static const struct cli_opt passthru[] = {
	NUM("opcode", 'o', CLI_ARG_OPCODE, "N", 255, "opcode of the command; required"),
	NUM("flags", 'f', CLI_ARG_OPFLAGS, "N", 255,
	    "byte 1, which contains FUSE; PSDT is set to SGL"),
	NUM_TO("cdw2", '2', CLI_U32, cdw[2], "N", 0, UINT32_MAX, "command dword 2"),
	NUM_TO("cdw3", '3', CLI_U32, cdw[3], "N", 0, UINT32_MAX, "command dword 3"),
	NUM_TO("cdw10", '4', CLI_U32, cdw[10], "N", 0, UINT32_MAX, "command dword 10"),
	NUM_TO("cdw11", '5', CLI_U32, cdw[11], "N", 0, UINT32_MAX, "command dword 11"),
	NUM_TO("cdw12", '6', CLI_U32, cdw[12], "N", 0, UINT32_MAX, "command dword 12"),
	NUM_TO("cdw13", '7', CLI_U32, cdw[13], "N", 0, UINT32_MAX, "command dword 13"),
	NUM_TO("cdw14", '8', CLI_U32, cdw[14], "N", 0, UINT32_MAX, "command dword 14"),
	NUM_TO("cdw15", '9', CLI_U32, cdw[15], "N", 0, UINT32_MAX, "command dword 15"),
	NUM("data-len", 'l', CLI_ARG_DATA_LEN, "BYTES", 0xffffff,
	    "size of the command's data (default 0)"),
	TEXT("input-file", 'i', CLI_ARG_DATA, "FILE",
	     "with --write the source of the data (default: standard input), with --read the "
	     "file that receives it"),
	FLAG("read", 'r', CLI_ARG_READ, "the controller sends the data"),
	FLAG("write", 'w', CLI_ARG_WRITE, "the controller receives the data"),
	NUM("prefill", 'p', CLI_ARG_PREFILL, "N", 255,
	    "byte that fills the buffer of --read before an I/O command (default 0)"),
	RAW_BINARY,
	FLAG("show-command", 's', CLI_ARG_SHOW_COMMAND,
	     "print the command on standard error before sending it"),
	FLAG("dry-run", 'd', CLI_ARG_DRY_RUN, "print the command and do not send it"),
	TIMEOUT('t'),
};

static const struct cli_opt bench[] = {
	WORDS("rw", 0, CLI_OTHER, OPT_RW, "MODE", "read,write,rw,randread,randwrite,randrw",
	      "read, write, rw, randread, randwrite or randrw (default randread)"),
	NUM("read-percent", 0, CLI_ARG_READ_PERCENT, "N", 100,
	    "percentage of reads in rw and randrw (default 50)"),
	TO("dataloss", 0, CLI_BOOL, bench.dataloss, NULL,
	   "allow modes that write: they overwrite the region"),
	TO("block-size", 'b', CLI_BYTES, bench.block_size, "BYTES", "size of one I/O (default 4k)"),
	NUM_TO("depth", 0, CLI_U32, bench.depth, "N", 1, CLI_BENCH_DEPTH,
	       "I/Os in flight on each queue (default 32)"),
	NUM_TO("queues", 0, CLI_U16, ctrl.nr_io_queues, "N", 1, CLI_QUEUES_MAX,
	       "the same as --nr-io-queues"),
	TO("device", 0, CLI_BOOL, bench.device, NULL,
	   "use the namespace through a device of the library (rdinit_dev.h), a channel for "
	   "each queue"),
	NUM_TO("threads", 0, CLI_U32, bench.threads, "N", 1, CLI_QUEUES_MAX,
	       "threads over which the queues are distributed (default 1)"),
	OTHER("cpus", 0, OPT_CPUS, "LIST",
	      "CPUs to which the threads are bound in turn, such as 0,2-3"),
	OTHER("poll", 0, OPT_POLL, "WHEN",
	      "always (default), never (sleep), or how long before sleeping (50us)"),
	OTHER("run-time", 0, OPT_RUN_TIME, "TIME", "duration of the measurement (default 10s)"),
	OTHER("ramp-time", 0, OPT_RAMP_TIME, "TIME",
	      "duration of the load before the measurement begins (default 0)"),
	NUM_TO("io-count", 0, CLI_U64, bench.io_count, "N", 1, INT64_MAX,
	       "stop after that many I/Os; with --run-time, at the first of the two"),
	NUM_TO("seed", 0, CLI_U64, bench.seed, "N", 0, INT64_MAX,
	       "seed of positions, mix and data (default 1)"),
	NUM("start-block", 0, CLI_ARG_START, "LBA", UINT64_MAX, "first logical block (default 0)"),
	SIZE("offset", 0, CLI_ARG_OFFSET, "BYTES", "first byte, instead of --start-block"),
	SIZE("data-size", 'z', CLI_ARG_DATA_LEN, "BYTES",
	     "how much of the namespace to use (default: to its end)"),
	NO_PROGRESS,
};

/* ---- options of single verbs ---- */

static const struct cli_opt raw[] = {
	RAW_BINARY,
};

static const struct cli_opt human[] = {
	FLAG("human-readable", 'H', CLI_ARG_HUMAN, "explain the fields"),
};

#define START \
	NUM("start-block", 's', CLI_ARG_START, "LBA", UINT64_MAX, "first logical block (default 0)")
#define COUNT                                              \
	NUM("block-count", 'c', CLI_ARG_COUNT, "N", 65535, \
	    "number of blocks, 0's based as in nvme-cli: 7 means 8 blocks (default 0)")
#define RETRY \
	FLAG("limited-retry", 'l', CLI_ARG_LIMITED_RETRY, "limit the retries of the controller")
#define FUA                                         \
	FLAG("force-unit-access", 'f', CLI_ARG_FUA, \
	     "complete when the data is on non-volatile media")

static const struct cli_opt blocks[] = {START, COUNT};
static const struct cli_opt range[] = {START, COUNT, RETRY, FUA};
static const struct cli_opt deac[] = {
	START,
	COUNT,
	RETRY,
	FUA,
	FLAG("deac", 'd', CLI_ARG_DEAC, "request that the blocks are deallocated"),
};

static const struct cli_opt compare[] = {
	START,
	NUM("block-count", 'c', CLI_ARG_COUNT, "N", UINT64_MAX - 1,
	    "number of blocks, 0's based as in nvme-cli (default: those of the input)"),
	SIZE("data-size", 'z', CLI_ARG_DATA_LEN, "BYTES",
	     "number of bytes (default: those of the input)"),
	TEXT("data", 'd', CLI_ARG_DATA, "FILE",
	     "the file to compare with; - or none: standard input"),
	RETRY,
	FUA,
};

static const struct cli_opt dsm[] = {
	TEXT("ctx-attrs", 'a', CLI_ARG_CTX_ATTRS, "LIST",
	     "context attributes of each range, separated by commas (default 0)"),
	TEXT("blocks", 'b', CLI_ARG_BLOCKS, "LIST",
	     "number of blocks of each range, separated by commas"),
	TEXT("slbs", 's', CLI_ARG_SLBS, "LIST", "first block of each range, separated by commas"),
	FLAG("ad", 'd', CLI_ARG_AD, "deallocate the ranges"),
	FLAG("idw", 'w', CLI_ARG_IDW, "the ranges will be written as a whole"),
	FLAG("idr", 'r', CLI_ARG_IDR, "the ranges will be read as a whole"),
	NUM("cdw11", 'c', CLI_ARG_CDW11, "N", UINT32_MAX,
	    "command dword 11, instead of --ad, --idw and --idr"),
};

static const struct cli_opt copy[] = {
	NUM("sdlba", 'd', CLI_ARG_SDLBA, "LBA", UINT64_MAX, "first block of the destination"),
	TEXT("blocks", 'b', CLI_ARG_BLOCKS, "LIST",
	     "number of blocks of each source range, separated by commas; 0's based as in "
	     "nvme-cli: "
	     "7 means 8 blocks"),
	TEXT("slbs", 's', CLI_ARG_SLBS, "LIST",
	     "first block of each source range, separated by commas"),
	RETRY,
	FUA,
};

static const struct cli_opt get_log[] = {
	NUM("log-id", 'i', CLI_ARG_LID, "N", 255, "identifier of the log page; required"),
	NUM("log-len", 'l', CLI_ARG_LOG_LEN, "BYTES", 16u << 20,
	    "how much to read, a multiple of 4; required"),
	NUM("lpo", 'o', CLI_ARG_LPO, "BYTES", UINT64_MAX, "offset in the log page (default 0)"),
	NUM("lsp", 's', CLI_ARG_LSP, "N", 127, "log specific parameter (default 0)"),
	NUM("lsi", 'S', CLI_ARG_LSI, "N", 65535, "log specific identifier (default 0)"),
	NUM("csi", 'y', CLI_ARG_CSI, "N", 255, "command set identifier (default 0)"),
	FLAG("rae", 'r', CLI_ARG_RAE, "retain the asynchronous event of this log page"),
	RAW_BINARY,
};

static const struct cli_opt smart[] = {
	NUM("namespace-id", 'n', CLI_ARG_FIRST, "NSID", UINT32_MAX,
	    "log of one namespace, if the controller supports that (default: of the controller)"),
};

static const struct cli_opt error_log[] = {
	NUM("log-entries", 'e', CLI_ARG_ENTRIES, "N", 256,
	    "number of entries, the latest first (default: all)"),
};

static const struct cli_opt ana_log[] = {
	FLAG("groups", 'g', CLI_ARG_GROUPS, "print the groups without their namespaces"),
};

static const struct cli_opt effects[] = {
	NUM("csi", 'c', CLI_ARG_CSI, "N", 255, "command set identifier (default 0: NVM)"),
};

static const struct cli_opt endurance[] = {
	NUM("group-id", 'g', CLI_ARG_GROUP_ID, "N", 65535, "endurance group (default 1)"),
};

#define FID NUM("feature-id", 'f', CLI_ARG_FID, "N", 255, "feature identifier; required")
#define FEATURE_NSID                                                \
	NUM("namespace-id", 'n', CLI_ARG_FIRST, "NSID", UINT32_MAX, \
	    "namespace identifier (default: the NSID of the URI, else 0)")

static const struct cli_opt get_feature[] = {
	NUM("feature-id", 'f', CLI_ARG_FID, "N", 255,
	    "feature identifier (default: all features; required with --output-format=json, "
	    "--data-len, --cdw11 and --raw-binary)"),
	FEATURE_NSID,
	NUM("sel", 's', CLI_ARG_SEL, "N", 3,
	    "0 current (default), 1 default, 2 saved, 3 supported capabilities"),
	NUM("data-len", 'l', CLI_ARG_DATA_LEN, "BYTES", 65536,
	    "size of the feature's data (default: by the feature)"),
	NUM("cdw11", 'c', CLI_ARG_CDW11, "N", UINT32_MAX, "command dword 11 (default 0)"),
	RAW_BINARY,
};

static const struct cli_opt set_feature[] = {
	FID,
	FEATURE_NSID,
	NUM("value", 'v', CLI_ARG_VALUE, "N", UINT32_MAX, "new value, command dword 11"),
	NUM("cdw12", 'c', CLI_ARG_CDW12, "N", UINT32_MAX, "command dword 12 (default 0)"),
	NUM("data-len", 'l', CLI_ARG_DATA_LEN, "BYTES", 65536,
	    "size of the feature's data (default: by the feature)"),
	TEXT("data", 'd', CLI_ARG_DATA, "FILE",
	     "file with the feature's data; - or none: standard input"),
	FLAG("save", 's', CLI_ARG_SAVE, "keep the value over power cycles"),
};

#define OFFSET NUM("offset", 'o', CLI_ARG_OFFSET, "N", 0xfff, "offset of the property; required")

static const struct cli_opt get_property[] = {OFFSET};
static const struct cli_opt set_property[] = {
	OFFSET,
	NUM("value", 'v', CLI_ARG_VALUE, "N", UINT64_MAX, "new value; required"),
};

#define CRKEY \
	NUM("crkey", 'c', CLI_ARG_CRKEY, "N", UINT64_MAX, "current reservation key (default 0)")
#define IEKEY FLAG("iekey", 'i', CLI_ARG_IEKEY, "ignore the current key of this host")
#define RTYPE                                                                             \
	NUM("rtype", 't', CLI_ARG_RTYPE, "N", 6,                                          \
	    "1 write exclusive, 2 exclusive access, 3 write exclusive registrants only, " \
	    "4 exclusive access registrants only, 5 write exclusive all registrants, "    \
	    "6 exclusive access all registrants (default 0)")

static const struct cli_opt resv_register[] = {
	CRKEY,
	NUM("nrkey", 'k', CLI_ARG_NRKEY, "N", UINT64_MAX, "new reservation key (default 0)"),
	NUM("rrega", 'r', CLI_ARG_ACTION, "N", 2, "0 register (default), 1 unregister, 2 replace"),
	NUM("cptpl", 'p', CLI_ARG_CPTPL, "N", 3,
	    "persistence through power loss: 0 no change (default), 2 off, 3 on"),
	IEKEY,
};

static const struct cli_opt resv_acquire[] = {
	CRKEY,
	NUM("prkey", 'p', CLI_ARG_PRKEY, "N", UINT64_MAX, "key to preempt (default 0)"),
	RTYPE,
	NUM("racqa", 'a', CLI_ARG_ACTION, "N", 2,
	    "0 acquire (default), 1 preempt, 2 preempt and abort"),
	IEKEY,
};

static const struct cli_opt resv_release[] = {
	CRKEY,
	RTYPE,
	NUM("rrela", 'a', CLI_ARG_ACTION, "N", 1, "0 release (default), 1 clear"),
	IEKEY,
};

static const struct cli_opt resv_report[] = {
	NUM("numd", 'd', CLI_ARG_NUMD, "N", 16384,
	    "dwords to read (default: as many as the report has)"),
	FLAG("eds", 'e', CLI_ARG_EDS,
	     "the extended data structure; always requested, because NVMe over Fabrics has 128-bit "
	     "host identifiers"),
	RAW_BINARY,
};

static const struct cli_opt lba_status[] = {
	NUM("start-lba", 's', CLI_ARG_START, "LBA", UINT64_MAX, "first logical block (default 0)"),
	NUM("range-len", 'l', CLI_ARG_DATA_LEN, "N", 65535,
	    "number of blocks; 0 (default): up to the end of the namespace"),
	NUM("max-dw", 'm', CLI_ARG_NUMD, "N", 0xffffff,
	    "dwords that the list may have, minus 1 (default: as many as it needs)"),
	NUM("action", 'a', CLI_ARG_ACTION, "N", 255,
	    "2 allocated blocks (default), 16 (0x10) or 17 (0x11) blocks that may be unreadable"),
	RAW_BINARY,
};

static const struct cli_opt list_ctrl[] = {
	NUM("cntid", 'c', CLI_ARG_CNTID, "N", 65535, "list from this identifier (default 0)"),
	NUM("namespace-id", 'n', CLI_ARG_FIRST, "NSID", UINT32_MAX - 1,
	    "controllers attached to this namespace (default: all of the subsystem)"),
};

static const struct cli_opt list_ns[] = {
	NUM("namespace-id", 'n', CLI_ARG_FIRST, "NSID", UINT32_MAX - 2,
	    "list from this identifier (default 1)"),
	FLAG("all", 'a', CLI_ARG_ALL, "all allocated namespaces, attached or not"),
};

static const struct cli_opt topology[] = {
	WORDS("ranking", 'r', CLI_TEXT, CLI_ARG_RANKING, "ORDER", "namespace,ctrl",
	      "order of the text: namespace (default), with the paths of each namespace, or ctrl, "
	      "with the namespaces of each path"),
};

static const struct cli_opt monitor[] = {
	NUM("events", 0, CLI_ARG_EVENTS, "N", UINT32_MAX,
	    "end after that many events (default: on SIGINT)"),
};

static const struct cli_opt top[] = {
	TEXT("interval", 0, CLI_ARG_INTERVAL, "TIME",
	     "time between two updates, in seconds or with a unit (default 1s)"),
	NUM("count", 0, CLI_ARG_EVENTS, "N", UINT32_MAX,
	    "end after that many updates (default: on SIGINT)"),
};

static const struct cli_opt cp[] = {
	WORDS("sparse", 0, CLI_TEXT, CLI_ARG_SPARSE, "WHEN", "auto,always,never",
	      "auto, always or never: which zeroes become holes (default auto)"),
	FLAG("verify", 0, CLI_ARG_VERIFY, "read SRC and DST again and compare them"),
	TEXT("resume", 0, CLI_ARG_RESUME, "FILE",
	     "journal: continue the copy that it records, or begin one if the file does not exist"),
	FLAG("flush", 0, CLI_ARG_FLUSH, "commit the copy to stable storage at the end (default)"),
	FLAG("no-flush", 0, CLI_ARG_NO_FLUSH, "do not wait for stable storage at the end"),
	NUM("progress", 0, CLI_ARG_PROGRESS, "FD", INT_MAX,
	    "write progress for programs to this file descriptor, as lines PHASE BYTES TOTAL"),
	NO_PROGRESS,
};

static const struct cli_opt recovery[] = {
	TEXT("reconnect-delay", 0, CLI_ARG_RECONNECT_DELAY, "SECONDS",
	     "longest time between two attempts to reconnect a lost path (default 10)"),
	TEXT("ctrl-loss-tmo", 0, CLI_ARG_CTRL_LOSS, "SECONDS",
	     "time to reconnect a lost path before it fails permanently (default 600; "
	     "0: no attempt; -1: no limit)"),
	WORDS("policy", 0, CLI_TEXT, CLI_ARG_POLICY, "NAME", "round-robin,queue-depth,failover",
	      "which of several paths a command takes: round-robin, queue-depth or failover "
	      "(default round-robin)"),
};

#define STATE_DIR                                      \
	TEXT("state-dir", 0, CLI_ARG_STATE_DIR, "DIR", \
	     "folder with a file for each attached device (default /run/rdinit/attach)")

static const struct cli_opt attach[] = {
	WORDS("driver", 0, CLI_TEXT, CLI_ARG_DRIVER, "NAME", "auto,ublk,nbd",
	      "kernel module: ublk, nbd, or auto (default): ublk, or nbd where ublk is missing"),
	FLAG("read-only", 0, CLI_ARG_READ_ONLY, "make the block device read-only"),
	FLAG("foreground", 0, CLI_ARG_FOREGROUND,
	     "serve the device from this process, with messages on standard error, for a service "
	     "manager"),
	STATE_DIR,
};

static const struct cli_opt detach[] = {
	FLAG("force", 0, CLI_ARG_FORCE,
	     "remove it even if it is in use or does not answer; its I/O fails, and unwritten data "
	     "is lost"),
	STATE_DIR,
};

static const struct cli_opt list[] = {
	FLAG("attached", 0, CLI_ARG_ATTACHED,
	     "list the block devices that rdinit attach created on this machine instead"),
	STATE_DIR,
};

static const struct cli_opt gen_dhchap_key[] = {
	NUM("hmac", 'm', CLI_ARG_HMAC, "N", 3,
	    "hash that transforms the secret into a key: 0 none (default), 1 SHA-256, "
	    "2 SHA-384, 3 SHA-512"),
	NUM("key-length", 'l', CLI_ARG_KEY_LENGTH, "BYTES", 64,
	    "length of the secret: 32, 48 or 64 (default: by the hash, else 32)"),
};

#define KEY_FILE                                      \
	TEXT("key-file", 0, CLI_ARG_KEY_FILE, "FILE", \
	     "file whose first line is the key; - or none: standard input")

static const struct cli_opt check_dhchap_key[] = {
	KEY_FILE,
};

static const struct cli_opt gen_tls_key[] = {
	OPT("hmac", 'm', CLI_NUM, CLI_ARG_HMAC, "N", 1, 2,
	    "hash of the key and of the cipher suite: 1 SHA-256 with 32 bytes (default), "
	    "2 SHA-384 with 48 bytes"),
};

static const struct cli_opt check_tls_key[] = {
	KEY_FILE,
	TO("hostnqn", 'n', CLI_STR, ctrl.hostnqn, "NQN",
	   "host NQN of the identity (default: that of this machine, see show-hostnqn)"),
	TO("subsysnqn", 'c', CLI_STR, ctrl.subnqn, "NQN",
	   "print the identity of the key for this subsystem"),
	NUM("identity", 'I', CLI_ARG_IDENTITY, "0|1", 1,
	    "version of the identity: 0, the names alone, or 1, with a digest of the key (default "
	    "1)"),
	FLAG("compat", 'C', CLI_ARG_COMPAT,
	     "derive the digest as libnvme before 1.14 does, that of Debian 12 included"),
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
GROUP(cli_g_raw, "Data", raw);
GROUP(cli_g_human, "Data", human);
GROUP(cli_g_blocks, "Command", blocks);
GROUP(cli_g_range, "Command", range);
GROUP(cli_g_deac, "Command", deac);
GROUP(cli_g_compare, "Command", compare);
GROUP(cli_g_dsm, "Command", dsm);
GROUP(cli_g_copy, "Command", copy);
GROUP(cli_g_get_log, "Command", get_log);
GROUP(cli_g_smart, "Command", smart);
GROUP(cli_g_error_log, "Command", error_log);
GROUP(cli_g_ana_log, "Command", ana_log);
GROUP(cli_g_effects, "Command", effects);
GROUP(cli_g_endurance, "Command", endurance);
GROUP(cli_g_get_feature, "Command", get_feature);
GROUP(cli_g_set_feature, "Command", set_feature);
GROUP(cli_g_get_property, "Command", get_property);
GROUP(cli_g_set_property, "Command", set_property);
GROUP(cli_g_register, "Command", resv_register);
GROUP(cli_g_acquire, "Command", resv_acquire);
GROUP(cli_g_release, "Command", resv_release);
GROUP(cli_g_report, "Command", resv_report);
GROUP(cli_g_lba_status, "Command", lba_status);
GROUP(cli_g_list_ctrl, "Command", list_ctrl);
GROUP(cli_g_list_ns, "Command", list_ns);
GROUP(cli_g_topology, "Command", topology);
GROUP(cli_g_monitor, "Command", monitor);
GROUP(cli_g_cp, "Copy", cp);
GROUP(cli_g_recovery, "Recovery", recovery);
GROUP(cli_g_top, "Top", top);
GROUP(cli_g_attach, "Block device", attach);
GROUP(cli_g_detach, "Block device", detach);
GROUP(cli_g_list, "List", list);
GROUP(cli_g_gen_dhchap_key, "Key", gen_dhchap_key);
GROUP(cli_g_check_dhchap_key, "Key", check_dhchap_key);
GROUP(cli_g_gen_tls_key, "Key", gen_tls_key);
GROUP(cli_g_check_tls_key, "Key", check_tls_key);
