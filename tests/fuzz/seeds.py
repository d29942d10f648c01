#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write the corpora' first files: well-formed inputs and typical violations, by name.

Inputs that a fuzzer found are added by hand, as found-*. Keys and addresses of fuzz_fpdu.c are those of its
fixed seed and mapping; it says so when they change (corpus - fpdu then finds no key, and its Writes no memory).
"""
import base64
import pathlib
import struct
import zlib

HERE = pathlib.Path(__file__).parent / "corpus"
OPEN, READ_ONLY, LOCAL = (0xb3f2af41, 0x200000001000), (0x853b5582, 0x200000003000), (0x92f89743, 0x200000005000)
CRC, P2P, BYTES, POSTS, REVOKE, SRQ = 1, 2, 4, 8, 16, 32


def put(corpus, name, data):
    path = HERE / corpus / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def fpdu(ulpdu):
    frame = struct.pack(">H", len(ulpdu)) + ulpdu
    return frame + bytes(-len(frame) % 4) + bytes(4)


def tagged(op, key, to, payload=b"", last=True):
    return fpdu(struct.pack(">BBIQ", 0xc1 if last else 0x81, 0x40 | op, key, to) + payload)


def untagged(op, qn, msn, mo=0, payload=b"", last=True, inv=0):
    return fpdu(struct.pack(">BBIIII", 0x41 if last else 0x01, 0x40 | op, inv, qn, msn, mo) + payload)


def read(msn, key, to, size):
    return untagged(1, 1, msn, payload=struct.pack(">IQIIQ", 0x1234, 0x1000, size, key, to))


def fpdus():
    send = untagged(3, 0, 1, payload=b"x" * 64)
    halves = untagged(3, 0, 1, 0, b"a" * 100, False) + untagged(3, 0, 1, 100, b"b" * 156)
    write = tagged(0, *OPEN, b"w" * 77)
    key, at = LOCAL
    answers = (tagged(2, key, at, b"r" * 40, False) + tagged(2, key, at + 40, b"r" * 60)
               + tagged(2, key, at + 200, b"R" * 1000) + tagged(2, key, at + 1300))
    capsule = bytes.fromhex(
        "00524143000000000000000000000001000000007f4000000100000000000000000000000000000000000000"
        "001808068088ffff000400016c23414f000000001f0000008813000000000000000000000000000000000000")
    return {
        "send": (0, send),
        "send-crc": (CRC, send + untagged(3, 0, 2, payload=b"y")),
        "send-inv": (0, untagged(4, 0, 1, payload=b"z" * 16, inv=OPEN[0]) + write),
        "send-inv-local": (0, untagged(4, 0, 1, payload=b"z" * 16, inv=LOCAL[0])),
        "send-halves-bytes": (BYTES | SRQ, halves + untagged(5, 0, 2)),
        "send-nine": (SRQ, b"".join(untagged(3, 0, i + 1, payload=b"n") for i in range(9))),
        "send-too-long": (0, untagged(3, 0, 1, payload=b"l" * 257)),
        "interleaved": (0, untagged(3, 0, 1, 0, b"a" * 4, False) + tagged(0, *OPEN, b"w" * 8, False)
                        + untagged(3, 0, 1, 4, b"b" * 4) + tagged(0, OPEN[0], OPEN[1] + 8, b"w")),
        "write-all": (CRC | BYTES, tagged(0, *OPEN, b"w" * 4096)),
        "write-beyond": (0, tagged(0, OPEN[0], OPEN[1] + 4090, b"w" * 8)),
        "write-read-only": (0, tagged(0, *READ_ONLY, b"w")),
        "write-local": (0, tagged(0, *LOCAL, b"w")),
        "write-empty": (P2P, tagged(0, 0, 0)),
        "write-revoked": (REVOKE | BYTES, tagged(0, *OPEN, b"w" * 3000)),
        "read": (0, read(1, *OPEN, 4096) + read(2, *READ_ONLY, 1) + read(3, 0, 0, 0)),
        "read-crc": (CRC, read(1, *READ_ONLY, 4096)),
        "read-revoked": (REVOKE, read(1, *OPEN, 4096) + read(2, *OPEN, 8)),
        "read-beyond": (0, read(1, OPEN[0], OPEN[1] + 1, 4096)),
        "read-five": (0, b"".join(read(i + 1, *OPEN, 4096) for i in range(5))),
        "answers": (POSTS, send + answers),
        "answers-crc-bytes": (POSTS | CRC | BYTES, send + answers),
        "answer-short": (POSTS, send + tagged(2, key, at, b"r" * 99)),
        "answer-elsewhere": (POSTS, send + tagged(2, key, at + 1, b"r" * 100)),
        "answer-none-asked": (0, tagged(2, *OPEN, b"r")),
        "terminate-rfc": (0, untagged(7, 2, 1, payload=bytes.fromhex("1203c000"))),
        "terminate-siw": (0, bytes.fromhex(
            "00464147000000000000000200000001000000001000070000004141000000000000000100000040000000001"
            "2345601000000700000000000000040deadbe01000000000000000000000000")),
        "opcode-8": (0, untagged(8, 0, 1, payload=bytes(8))),
        "length-0": (0, bytes(8)),
        "nvme-connect": (0, capsule),
    }


def frame(key, flags, revision, body):
    return key + struct.pack(">BBH", flags, revision, len(body)) + body


def mpas():
    req, rep = b"MPA ID Req Frame", b"MPA ID Rep Frame"
    cm = bytes.fromhex("0000000020001f00") + bytes(24)
    return {
        "request-siw": frame(req, 0x10, 2, bytes.fromhex("00800000") + cm),
        "request-p2p": frame(req, 0x10, 2, bytes.fromhex("8008c001") + cm),
        "request-p2p-send": frame(req, 0x50, 2, bytes.fromhex("c0080001")),
        "request-no-negotiation": frame(req, 0x10, 2, bytes.fromhex("3fff3fff")),
        "request-rev1": frame(req, 0x40, 1, cm),
        "request-markers": frame(req, 0x90, 2, bytes(4)),
        "request-short-block": frame(req, 0x10, 2, bytes(2)),
        "request-longest": frame(req, 0x10, 2, bytes(512)),
        "request-too-long": frame(req, 0x10, 2, bytes(513)),
        "reply-siw": frame(rep, 0x10, 2, bytes.fromhex("00000080") + cm),
        "reply-p2p": frame(rep, 0x10, 2, bytes.fromhex("80018008")),
        "reply-p2p-read": frame(rep, 0x10, 2, bytes.fromhex("80014000")),
        "reply-no-negotiation": frame(rep, 0x10, 2, bytes.fromhex("3fff3fff")),
        "reply-reject": frame(rep, 0x30, 2, bytes.fromhex("0000000800000200")),
        "reply-rev1": frame(rep, 0x00, 1, b""),
        "revision-3": frame(req, 0x10, 3, bytes(4)),
        "http": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    }


NQN = "nqn.2024-01.test:x"
URIS = {
    "plain": "nvme+rdma://192.0.2.1/" + NQN, "nsid": "nvme+rdma://h:4420/" + NQN + "/7",
    "v6": "nvme+rdma://[2001:db8::1]:4421/" + NQN, "scope": "nvme+rdma://[fe80::1%25lo]/" + NQN,
    "scope-plain": "nvme+rdma://[fe80::1%lo]/" + NQN, "host": "nvme+rdma://h",
    "escaped": "nvme+rdma://%61/nqn.2024-01.test%3Ax%2fy", "no-host": "nvme+rdma://:4420/" + NQN,
    "user": "nvme+rdma://u@h/" + NQN, "port-0": "nvme+rdma://h:0/" + NQN, "nul": "nvme+rdma://h%00/" + NQN,
    "bracket": "nvme+rdma://[::1/" + NQN, "percent": "nvme+rdma://h%4/" + NQN,
    "nsid-all": "nvme+rdma://h/" + NQN + "/4294967295", "other": "nvme+tcp://h/" + NQN,
    "long-host": "nvme+rdma://" + "h" * 256, "long-nqn": "nvme+rdma://h/" + NQN + "n" * 206,
}


def entry(trtype, pad, nqn, addr, port):
    text = (lambda s, n: s[:n].ljust(n, pad))
    return (struct.pack("<BBBBHHHH", trtype, 1, 2, 0, 1, 0xffff, 32, 0).ljust(32, b"\0") + text(port, 32)
            + bytes(192) + text(nqn, 256) + text(addr, 256) + bytes([1, 5, 1]).ljust(256, b"\0"))


def auths():
    """(parser, what the message must fit, message); see fuzz_auth.c."""
    ids = (lambda *values: bytes(values).ljust(30, b"\0"))
    tid, hl = 0x1234, {1: 32, 2: 48, 3: 64}
    descriptor = bytes([1, 0, 3, 6]) + ids(1, 2, 3) + ids(0, 1, 2, 3, 4, 5)
    negotiate = (lambda n: struct.pack("<BBHHBB", 0, 0, 0, tid, 0, n))
    head = (lambda kind: struct.pack("<BBHH", 1, kind, 0, tid))
    challenge = (lambda h, g, dhv: head(1) + struct.pack("<BBBBHI", hl[h], 0, h, g, len(dhv), 7) + b"c" * hl[h] + dhv)
    reply = (lambda h, cvalid, dhv, seq=9: head(2) + struct.pack("<BBBBHI", hl[h], 0, cvalid, 0, len(dhv), seq)
             + b"r" * hl[h] + b"c" * hl[h] + dhv)
    success1 = (lambda h, rvalid: head(3) + bytes([hl[h], 0, rvalid]) + bytes(7) + b"r" * hl[h] * rvalid)
    failure = (lambda kind, why: struct.pack("<BBHHBB", 0, kind, 0, tid, 1, why))
    key = (lambda h, secret: f"DHHC-1:{h:02}:".encode()
           + base64.b64encode(secret + struct.pack("<I", zlib.crc32(secret))) + b":")
    return {
        "negotiate": (0, 0, negotiate(1) + descriptor),
        "negotiate-second": (0, 0, negotiate(2) + bytes([9]).ljust(64, b"\0") + descriptor),
        "negotiate-none": (0, 0, negotiate(0)),
        "negotiate-31-hashes": (0, 0, negotiate(1) + bytes([1, 0, 31]) + descriptor[3:]),
        "reply-sha256": (1, 0, reply(1, 1, b"")),
        "reply-sha384-one-way": (1, 1, reply(2, 0, b"")),
        "reply-sha512-2048": (1, 2 + 4, reply(3, 1, b"d" * 256)),
        "reply-sha512-8192": (1, 2 + 4 * 5, reply(3, 1, b"d" * 1024)),
        "reply-cut": (1, 2 + 4, reply(3, 1, b"d" * 256)[:-1]),
        "reply-without-number": (1, 0, reply(1, 1, b"", seq=0)),
        "success2": (2, 0, head(4) + bytes(10)),
        "success2-long": (2, 0, head(4) + bytes(11)),
        "challenge-sha256": (3, 0, challenge(1, 0, b"")),
        "challenge-sha384-3072-padded": (3, 1 + 4 * 2, challenge(2, 2, b"d" * 384) + bytes(300)),
        "challenge-not-offered": (3, 2, challenge(1, 0, b"")),
        "success1-mutual": (4, 4, success1(1, 1)),
        "success1-without-proof": (4, 4, success1(1, 0)),
        "success1-one-way": (4, 2, success1(3, 0)),
        "failure1": (5, 1, failure(0xf1, 4)), "failure2": (5, 0, failure(0xf0, 1)),
        "key-32": (6, 0, key(1, bytes(range(32)))), "key-48": (6, 0, key(2, bytes(range(48)))),
        "key-64": (6, 0, key(3, bytes(range(64)))), "key-empty": (6, 0, b""),
        "key-bits": (6, 0, b"DHHC-1:01:AAB=:"),
    }


# Actions of fuzz_target.c, and where its templates of commands are.
CONNECT, COMMAND, BYTES, DISCONNECT, TIME, STEPS, REGION, HOLD, RDMA, RECVS, RELOAD, HONEST, MEMORY, BRING_UP, AGAIN, HEAL = (
    range(16))
ADMIN, IO = [*range(3, 35)], range(35, 56)


def act(action, conn=0, flags=0, *values):
    return bytes([action | conn << 4 | flags << 6, *values])


def command(which, how=0, *changes, conn=0, wait=1):
    return act(COMMAND, conn, wait, which, how | len(changes) // 2, *changes)


def targets():
    up = act(BRING_UP)
    write, slow_write, long_read = (lambda how=0, conn=1: command(37, how, conn=conn)), 38, 36
    return {
        "admin": up + b"".join(command(n) for n in ADMIN[2:] + [3, 1, 4]),
        "io": up + b"".join(command(n, conn=1) for n in IO),
        "io-in-capsule": act(BRING_UP, 0, 2) + b"".join(command(n, 0x80, conn=1) for n in IO),
        "io-invalidate": up + b"".join(command(n, 0x20, conn=1, wait=0) + act(REGION, 0, 0, 12, 255) for n in (37, 35, 50)),
        "discovery": act(BRING_UP, 0, 1, 2) + b"".join(command(n) for n in (12, 22, 30, 31, 32)),
        "not-allowed": act(BRING_UP, 0, 1, 1) + command(11),
        "connect-twice": up + command(0) + command(2, conn=1) + act(CONNECT, 2, 0, 2) + command(2, 1, 42, 2, conn=2),
        "connect-at-once": act(CONNECT, 0, 0, 0) + act(AGAIN, 0, 0, 5, 0, 0) + act(TIME, 0, 0, 1) + command(1)
        + act(CONNECT, 1, 0, 1) + act(AGAIN, 1, 0, 5, 2, 0) + act(TIME, 0, 0, 0x81),
        "private-data": act(CONNECT, 0, 0, 0x80, 32, 0, 0, 7, 0, 32) + act(CONNECT, 1, 0, 0x80, 3, 1, 2, 3),
        "bytes": act(CONNECT, 0, 0, 0) + act(BYTES, 0, 0, 5, 1, 2, 3, 4, 5) + act(TIME, 0, 0, 20),
        "no-connect": act(CONNECT, 0, 0, 0) + act(TIME, 0, 0, 0xff) + act(TIME, 0, 0, 0xff),
        "read-refused": up + act(REGION, 0, 0, 0, 0) + write(),
        "write-refused": up + act(REGION, 0, 0, 4, 255) + command(long_read, conn=1),
        "region-short": up + act(REGION, 0, 0, 12, 8) + act(AGAIN, 1, 0, 9, slow_write, 0),
        "read-late": up + act(HOLD, 1, 0, 80) + act(AGAIN, 1, 0, 30, slow_write, 0) + act(HONEST, 0, 1)
        + act(TIME, 0, 0, 0x94) + act(HEAL) + act(HONEST),
        "vanish-in-io": up + act(AGAIN, 1, 0, 20, slow_write, 0) + act(STEPS, 0, 0, 99) + act(DISCONNECT, 1),
        "reset-in-io": up + act(AGAIN, 1, 0, 20, slow_write, 0) + act(STEPS, 0, 0, 90) + command(3) + command(1),
        "no-recvs": up + act(RECVS, 1, 0) + act(AGAIN, 1, 1, 31, 35, 0) + act(AGAIN, 1, 1, 31, 35, 0),
        "too-many": up + act(AGAIN, 1, 0, 31, 35, 0) + act(AGAIN, 1, 0, 31, 35, 0),
        "fused": up + command(43, conn=1, wait=0) + command(44, conn=1) + command(43, conn=1, wait=0) + command(35, conn=1),
        "fused-half": up + command(43, conn=1, wait=0) + act(TIME, 0, 0, 0x84),
        "events": up + act(AGAIN, 0, 0, 6, 31, 0) + act(RELOAD, 0, 0, 1) + act(TIME, 0, 0, 90) + command(20) + act(RELOAD),
        "reload-in-io": up + act(AGAIN, 1, 0, 20, slow_write, 0) + act(RELOAD, 0, 0, 2) + act(TIME, 0, 0, 90)
        + act(RELOAD, 0, 0, 3) + act(AGAIN, 1, 0, 20, slow_write, 0) + act(TIME, 0, 0, 0x83),
        "abort": up + act(AGAIN, 1, 0, 4, slow_write, 0) + command(33) + act(AGAIN, 0, 0, 2, 31, 0) + command(33, 1, 40, 0),
        "other-storage": up + b"".join(command(n, 1, 4, nsid, conn=1, wait=0) for nsid in (4, 5) for n in IO) + act(TIME, 0, 0, 50),
        "reserve": up + b"".join(command(n, conn=1) for n in (51, 52, 55, 53, 54, 55)),
        "rdma": up + act(RDMA, 1, 1, 0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 1, 0) + act(RDMA, 0, 0),
        "silent": up + act(HOLD, 0, 1, 255) + act(HOLD, 1, 1, 255) + act(TIME, 0, 0, 0xbf),
    }


# Actions of fuzz_initiator.c, and what its rules may say.
(RULE, PAGE, FILL, PLAN, I_STEPS, I_TIME, IO_CMD, ADMIN_CMD, LIFE, I_SEND, COMPLETE, EVENT, BREAK, I_RDMA, I_HOLD,
 I_HEAL) = range(16)
(ANY, CONNECTS, GETS, SETS, IDENTIFIES, LOGS, FEATURES, KEEP_ALIVES, AERS, ADMINS, READS, WRITES, FLUSHES, IOS) = range(14)
(STATUS, SILENT, NO_DATA, LESS, MORE, SHIFT, KEY, OTHER_KEY, CID, ANSWERS, RESULT, LENGTH, INVALIDATE_KEY, BREAKS, LATE,
 READ_INSTEAD) = range(16)
(P_CTRL, P_NS, P_NVM, P_DESCS, P_LIST, P_ANA, P_DISCOVERY, P_LBA, P_PROPERTIES) = range(9)
HANDLES, DISCOVER, MIXED, HOSTILE, LISTED = range(5)


def rule(what, how, *params, skip=0, times=1):
    return bytes([RULE | len(params) << 4, what, how, skip, times - 1, *params])


def page(which, off, data):
    return bytes([PAGE | which << 4]) + struct.pack(">HB", off, len(data)) + bytes(data)


def ios(what, count=3, blocks=8, flags=0):
    return b"".join(bytes([IO_CMD | n << 4, what, blocks - 1 | flags << 3]) for n in range(count))


GO, LONG = bytes([I_TIME, 100]), bytes([I_TIME, 0x80 | 20])


def wrong_answers():
    """After the program has connected."""
    return {
        "status": rule(READS, STATUS, 0, 6), "path-status": rule(IOS, STATUS, 3, 2, times=9),
        "silent": rule(IOS, SILENT, times=2), "no-data": rule(READS, NO_DATA), "less": rule(READS, LESS, 2, 0),
        "more": rule(READS, MORE, 2, 0), "shift": rule(READS, SHIFT, 0xff, 0), "key": rule(READS, KEY, 0, 0, 1, 0),
        "other-key": rule(READS, OTHER_KEY, skip=1), "cid": rule(READS, CID, 0x10, 0), "twice": rule(WRITES, ANSWERS, 1),
        "long": rule(WRITES, LENGTH, 17), "short": rule(WRITES, LENGTH, 15), "invalidate": rule(READS, INVALIDATE_KEY),
        "invalidate-wrong": rule(READS, INVALIDATE_KEY, 0, 0, 1, 0),
        "invalidate-other": rule(READS, INVALIDATE_KEY, 0, 0, 0, 0, 1, skip=1), "breaks": rule(IOS, BREAKS, 1),
        "late": rule(IOS, LATE, 30), "read-instead": rule(IOS, READ_INSTEAD), "no-keep-alive": rule(KEEP_ALIVES, SILENT),
        "aborted": rule(READS, SILENT) + rule(READS, STATUS, 0, 7, skip=1),
    }


def wrong_connections():
    """Before it connects: what stops a controller."""
    return {
        "sgls": page(P_CTRL, 536, bytes(4)), "ioccsz-0": page(P_CTRL, 1792, bytes(8)),
        "ioccsz-most": page(P_CTRL, 1792, b"\xff" * 8), "icdoff": page(P_CTRL, 1800, [1]),
        "maxcmd-1": page(P_CTRL, 514, [1, 0]), "identify-all": bytes([FILL, 0, 0, 255, 255]),
        "cap": page(P_PROPERTIES, 0, [255] * 8), "private-short": bytes([PLAN, 3, 0, 0, 1]),
        "private-depth-1": bytes([PLAN, 4, 0, 0, 1, 0]), "reject": bytes([PLAN | 1 << 4, 4, 0, 0, 6, 0]),
        "ignore": bytes([PLAN | 2 << 4, 0]), "no-recvs": bytes([PLAN | 3 << 4, 0]),
        "cfs": rule(GETS, RESULT, 0, 0, 0, 0, 0, 0, 0, 2, skip=3),
    }


def wrong_paths():
    """Before it connects: what concerns devices only."""
    return {
        "nsze-0": page(P_NS, 0, bytes(8)), "nsze-most": page(P_NS, 0, b"\xff" * 8), "lbads-31": page(P_NS, 130, [31]),
        "lbads-16": page(P_NS, 130, [16]), "flbas": page(P_NS, 25, [63, 0x7f]), "mdts": page(P_CTRL, 77, [255]),
        "mdts-1": page(P_CTRL, 77, [1]), "kas": page(P_CTRL, 320, [255, 255]),
        "namespace-all": bytes([FILL | P_NS << 4, 0, 0, 255, 255]), "nvm-all": bytes([FILL | P_NVM << 4, 0, 0, 2, 255]),
        "descs": page(P_DESCS, 0, [1, 9, 0, 0]), "ana-groups": page(P_ANA, 8, [255, 255]),
        "ana-nsids": page(P_ANA, 20, [255] * 4), "lba-status": page(P_LBA, 0, [255] * 4),
        "crdt": page(P_CTRL, 128, [255] * 6) + rule(READS, STATUS, 8, 6),
    }


def wrong_logs():
    return {
        "log": b"", "log-records": page(P_DISCOVERY, 8, b"\xff" * 8), "log-many": page(P_DISCOVERY, 8, b"\0\x40"),
        "log-format": page(P_DISCOVERY, 16, [1]), "log-unterminated": bytes([FILL | P_DISCOVERY << 4, 4, 32, 124, 0x41]),
        "log-referral": page(P_DISCOVERY, 1024 + 2, [1]), "log-name": page(P_DISCOVERY, 1024 + 512, b"localhost\0"),
    }


def scenes():
    """Events, and what a program does with its handles."""
    reads, writes = ios(0), ios(1)
    every = b"".join(ios(what) for what in range(9))
    after = ios(6, 2) + bytes([ADMIN_CMD, 4, 0, 0, 16, ADMIN_CMD, 5, 0, 0, 1])
    return {
        "handles": bytes([HANDLES]) + GO + every + LONG, "two-paths": bytes([MIXED]) + GO + every + after + LONG,
        "hostile-paths": bytes([HOSTILE]) + GO + every + after + LONG,
        "events": bytes([MIXED]) + GO + bytes([EVENT | 1 << 4, 2, 0]) + reads + LONG,
        "ana-change": bytes([MIXED]) + GO + page(P_ANA, 32, [15]) + bytes([EVENT, 2, 3]) + reads + LONG + LONG,
        "resized": bytes([MIXED]) + GO + page(P_NS, 0, [1, 0]) + bytes([EVENT, 2, 0]) + GO + reads + LONG,
        "unasked": bytes([HANDLES]) + GO + bytes([COMPLETE, 0, 0, 0, 0, 0]) + GO + bytes([I_SEND, 16]) + bytes(16) + GO,
        "rdma": bytes([HANDLES]) + GO + rule(READS, SILENT) + reads + bytes([I_STEPS, 40, I_RDMA | 1 << 4, 0, 0, 0, 2, 0])
        + bytes([I_RDMA | 9 << 4, 0, 0, 0, 2, 0]) + LONG,
        "freed": bytes([MIXED]) + GO + bytes([LIFE, 4]) + reads + writes + LONG + bytes([LIFE, 3]) + reads,
        "cancelled": bytes([MIXED]) + GO + rule(IOS, SILENT, times=9) + writes + bytes([I_STEPS, 30, LIFE, 6, LIFE | 1 << 4, 6])
        + LONG,
        "disconnect": bytes([HANDLES]) + GO + reads + bytes([LIFE, 1]) + GO + bytes([LIFE, 0]) + GO,
        "held": bytes([MIXED]) + GO + bytes([I_HOLD | 8 << 4, 200]) + reads + writes + LONG + bytes([I_HEAL]) + reads + GO,
    }


def initiators():
    io, one = ios(0, 2) + ios(1, 1), ios(0, 1) + ios(1, 1)
    out = scenes()
    for name, change in wrong_answers().items():
        out["handles-" + name] = bytes([HANDLES]) + GO + change + io + LONG
    for name in ("path-status", "silent", "cid", "breaks", "late", "aborted"):
        out["paths-" + name] = bytes([MIXED]) + GO + wrong_answers()[name] + io + LONG
    for name, change in wrong_connections().items():
        out["handles-" + name] = bytes([HANDLES]) + change + GO + one + LONG
    for name, change in wrong_paths().items():
        out["paths-" + name] = bytes([MIXED]) + change + GO + one + bytes([ADMIN_CMD, 4, 0, 0, 16]) + LONG
    for name in ("nsze-most", "lbads-16"):
        out["hostile-" + name] = bytes([HOSTILE]) + wrong_paths()[name] + GO + one + LONG
    for name, change in wrong_logs().items():
        out["discover-" + name] = bytes([DISCOVER]) + change + GO + bytes([ADMIN_CMD, 2]) + LONG
        out["listed-" + name] = bytes([LISTED]) + change + GO + one + bytes([EVENT, 2, 0xf0]) + LONG
    return out


CONFIG = """target: {reactors: 1, spin: 0us, max_data_size: 128KiB, in_capsule_size: 0}
listeners:
  - {address: "::1", port: 0, provider: iwarp, crc: true}
subsystems:
  - nqn: nqn.2024-01.test:x
    allow_any_host: false
    hosts: [nqn.2024-01.test:h]
    namespaces:
      - {nsid: 1, backend: memory, size: 1MiB, block_size: 512, nguid: 0123456789abcdef0123456789abcdef}
      - {nsid: 2, backend: "null", size: 1GiB, eui64: 0123456789abcdef}
      - {nsid: 3, backend: file, path: /nowhere, create: true, size: 4096, engine: aio, direct: "on"}
"""


TCP_ADMIN, TCP_IO, TCP_HDGST, TCP_DDGST, TCP_FIX, TCP_BYTES = 1, 2, 4, 8, 16, 32


def tcp_pdu(kind, body, data=b"", flags=0, digests=False):
    head, tail = (4, 4 if data else 0) if digests else (0, 0)
    flags |= (1 | (2 if data else 0)) if digests else 0
    begin = 8 + len(body) + head
    return (struct.pack("<BBBBI", kind, flags, 8 + len(body), begin if data else 0, begin + len(data) + tail) + body
            + bytes(head) + data + bytes(tail))


def tcp_sqe(opcode, cid, length=0, sgl=0x5a, nsid=1, cdw10=0, cdw12=0):
    return (struct.pack("<BBHI16xQI3xB", opcode, 0x40, cid, nsid, 0, length, sgl)
            + struct.pack("<IIIIII", cdw10, 0, cdw12, 0, 0, 0))


def tcps():
    """{name: (flags, stream)}"""
    icreq = tcp_pdu(0, bytes(120))
    read = tcp_pdu(4, tcp_sqe(2, 1, 4096, cdw12=7))
    write = tcp_pdu(4, tcp_sqe(1, 2, 4096, cdw12=7))

    def data(cid=2, ttag=0, offset=0, size=4096, length=None, flags=4, **kw):
        return tcp_pdu(6, struct.pack("<HHII4x", cid, ttag, offset, size if length is None else length), bytes(size),
                       flags, **kw)
    capsule = tcp_pdu(4, tcp_sqe(1, 3, 1024, sgl=1, cdw12=1), bytes(1024))
    identify = tcp_pdu(4, tcp_sqe(6, 4, 4096, nsid=0, cdw10=1))
    aer = tcp_pdu(4, tcp_sqe(12, 5, nsid=0))
    digests = TCP_IO | TCP_HDGST | TCP_DDGST | TCP_FIX
    with_digests = tcp_pdu(4, tcp_sqe(1, 2, 4096, cdw12=7), digests=True) + data(digests=True)
    return {
        "icreq": (0, icreq), "icreq-twice": (0, icreq + icreq), "tls": (0, bytes((0x16, 3, 1, 2, 0, 1, 0))), "mpa": (0, b"MPA ID Req Frame"),
        "no-icreq": (0, read), "connect-late": (0, icreq + read), "read": (TCP_IO, read), "write": (TCP_IO, write + data()),
        "write-in-pieces": (TCP_IO | TCP_BYTES, write + data(size=1024, flags=0) + data(offset=1024, size=3072)),
        "in-capsule": (TCP_IO, capsule + read), "mixed": (TCP_IO, write + read + capsule + data() + read),
        "identify": (TCP_ADMIN, identify), "events": (TCP_ADMIN, aer * 6 + identify), "digests": (digests, with_digests),
        "digests-wrong": (digests & ~TCP_FIX, with_digests), "ttag": (TCP_IO, write + data(ttag=1)),
        "cccid": (TCP_IO, write + data(cid=3)), "datao": (TCP_IO, write + data(offset=512)),
        "datal": (TCP_IO, write + data(length=512)), "last": (TCP_IO, write + data(flags=0)),
        "no-r2t": (TCP_IO, data()), "half": (TCP_IO, write + data()[:2000]), "term": (TCP_IO, tcp_pdu(2, bytes(16), b"")),
        "many": (TCP_IO, read * 100), "many-capsules": (TCP_IO, capsule * 40),
    }


# A byte of flags, and changes of four bytes each: fuzz_records.c.
RECORDS = {
    "tcp": b"\0", "iwarp": b"\1", "two-queues-of-one-socket": bytes((0, 11, 0, 0, 42)), "without-header": bytes((0, 4, 0, 0, 37)),
    "several": bytes((0, 9, 3, 0, 12, 10, 5, 0, 39, 6, 2, 0, 15, 8, 9, 0, 42)),
    "iwarp-several": bytes((1, 9, 20, 0, 12, 11, 22, 0, 16, 12, 4, 0, 3)),
}


def main():
    for name, (flags, stream) in tcps().items():
        put("tcp", name, bytes([flags]) + stream)
    for name, changes in RECORDS.items():
        put("records", name, changes)
    for name, (flags, stream) in fpdus().items():
        put("fpdu", name, bytes([flags]) + stream)
    for name, data in mpas().items():
        put("mpa", name, data)
    for name, (parser, fit, data) in auths().items():
        put("auth", name, bytes([parser, fit]) + data)
    for name, actions in targets().items():
        put("target", name, b"\0\1" + actions)
    for name, actions in initiators().items():
        put("initiator", name, b"\0\1" + actions)
    for name, text in URIS.items():
        put("uri", name, text)
    put("discovery", "nul-padded", entry(1, b"\0", b"nqn.2014-08.test", b"192.0.2.1", b"4420"))
    put("discovery", "space-padded", entry(1, b" ", b"nqn.2014-08.test", b"fe80::1", b"4420"))
    put("discovery", "unterminated", entry(3, b"x", b"n" * 256, b"a" * 256, b"9" * 32))
    put("discovery", "spaces-only", entry(1, b" ", b"", b"", b""))
    put("config", "good", CONFIG)
    put("config", "unknown-key", CONFIG.replace("crc", "crcc"))
    put("config", "wrong-type", CONFIG.replace("port: 0", "port: [x]"))
    put("config", "duplicate-nsid", CONFIG.replace("nsid: 2", "nsid: 1"))
    put("config", "anchors", "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n")
    put("config", "huge-size", CONFIG.replace("1GiB", "99999999999999999999GiB"))
    put("config", "not-utf8", b"target: {congestion: \"\xff\xfe\"}\n")
    put("config", "tabs", "target:\n\treactors: 1\n")
    put("config", "nested", "[" * 100)
    put("config", "two-documents", "---\n" + CONFIG + "---\n" + CONFIG)
    put("config", "other-backend", CONFIG.replace("backend: memory", "backend: nbd"))
    put("config", "empty", "\n")


main()
