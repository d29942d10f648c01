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


def main():
    for name, (flags, stream) in fpdus().items():
        put("fpdu", name, bytes([flags]) + stream)
    for name, data in mpas().items():
        put("mpa", name, data)
    for name, (parser, fit, data) in auths().items():
        put("auth", name, bytes([parser, fit]) + data)
    for name, actions in targets().items():
        put("target", name, b"\0\1" + actions)
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
    put("config", "empty", "\n")


main()
