# SPDX-License-Identifier: BSD-3-Clause
"""A target of NVMe/TCP in Python: nvmf_peer.FakeTarget, with PDUs of the sizes and alignments that a test wants. It is
as strict about a host's PDUs as the specification allows."""

import struct

import iwarp_peer as iw
import nvmf_peer as nv
import tcp_peer as tp


class TargetConn(tp.Conn):
    """The target's end of a connection."""
    cpda = 0

    def __init__(self, sock):
        super().__init__(sock, timeout=30.0)
        self.commands = []  # capsules that came while data was waited for

    def recv_pdu(self):
        common = self.recv_exact(8)
        kind, flags, hlen, pdo, plen = struct.unpack('<BBBBI', common)
        if tp.HLEN.get(kind) != hlen:
            raise iw.PeerError(f'PDU type {kind:#x} with HLEN {hlen}')
        head = common + self.recv_exact(hlen - 8)
        if kind == tp.H2C_TERM:  # without digests; the header that was wrong follows
            return tp.Pdu(kind, flags, head, self.recv_exact(plen - hlen))
        used = hlen
        if bool(flags & tp.F_HDGST) != self.hdgst:
            raise iw.PeerError(f'PDU type {kind:#x} with flags {flags:#x}, header digest agreed: {self.hdgst}')
        if self.hdgst:
            used += 4
            if self.recv_exact(4) != tp.digest(head):
                raise iw.PeerError('wrong header digest')
        if plen == used:
            return tp.Pdu(kind, flags, head, b'')
        unit = (self.cpda + 1) * 4
        if pdo < used or pdo % unit or pdo - used >= unit:
            raise iw.PeerError(f'PDO {pdo} behind a header of {used} bytes, CPDA {self.cpda}')
        self.recv_exact(pdo - used)
        if bool(flags & tp.F_DDGST) != self.ddgst:
            raise iw.PeerError(f'PDU type {kind:#x} with flags {flags:#x}, data digest agreed: {self.ddgst}')
        data = self.recv_exact(plen - pdo - (4 if self.ddgst else 0))
        if self.ddgst and self.recv_exact(4) != tp.digest(data):
            raise iw.PeerError('wrong data digest')
        return tp.Pdu(kind, flags, head, data)

    def recv_message(self):
        """The next command capsule."""
        if self.commands:
            return self.commands.pop(0)
        got = self.recv_pdu()
        if got.kind != tp.CMD:
            raise iw.PeerError(f'PDU type {got.kind:#x} instead of a capsule')
        return iw.Message(iw.SEND, got.head[8:] + got.data)

    def recv_data(self, ttag):
        """The next H2CData, which has to be for @ttag."""
        while True:
            got = self.recv_pdu()
            if got.kind == tp.H2C_DATA and got.field('H', 10) == ttag:
                return got
            if got.kind != tp.CMD:
                raise iw.PeerError(f'PDU type {got.kind:#x} while TTAG {ttag} was asked for')
            self.commands.append(iw.Message(iw.SEND, got.head[8:] + got.data))


class FakeTarget(nv.FakeTarget):
    grants = 3  # digests that a host gets

    def __init__(self, *args, cpda=0, maxh2cdata=65536, r2t=1 << 20, c2h=1 << 20, **kw):
        """@r2t, @c2h: the bytes for which an R2T asks, and those of a C2HData."""
        self.cpda, self.maxh2cdata, self.r2t, self.c2h = cpda, maxh2cdata, r2t, c2h
        self.r2ts = 0
        super().__init__(*args, **kw)

    def accept(self):
        return TargetConn(self.listener.sock.accept()[0])

    def on_mpa(self, conn):
        got = conn.recv_pdu()
        pfv, hpda, dgst, _ = struct.unpack_from('<HBBI', got.head, 8)
        if got.kind != tp.ICREQ or pfv or got.flags:
            raise iw.PeerError(f'ICReq: {got.head[:16].hex()}')
        conn.hpda, conn.cpda, dgst = hpda, self.cpda, dgst & self.grants
        conn.send_raw(tp.pdu(tp.ICRESP, struct.pack('<HBBI', 0, self.cpda, dgst, self.maxh2cdata).ljust(120, b'\0')))
        conn.hdgst, conn.ddgst = bool(dgst & 1), bool(dgst & 2)
        return nv.TargetQueue(conn, 0, 32)

    def do_connect(self, queue, cmd):
        queue.qid, size = struct.unpack_from('<HH', cmd.raw, 42)
        queue.depth = size + 1
        super().do_connect(queue, cmd)

    def respond(self, queue, cmd, status=nv.SUCCESS, result=0, *, dnr=True):
        queue.sqhd = (queue.sqhd + 1) % queue.depth
        field = status << 1 | (0x8000 if status and dnr else 0)
        queue.conn.send(tp.RSP, nv.Cqe(result, queue.sqhd, queue.qid, cmd.cid, field).pack())

    def fetch(self, queue, cmd):
        if cmd.sgl_type == 0x01:
            return cmd.extra[cmd.addr:cmd.addr + cmd.length]
        if cmd.sgl_type != tp.TRANSPORT_SGL:
            raise iw.PeerError(f'SGL type {cmd.sgl_type:#x}')
        data = b''
        for ttag, at in enumerate(range(0, cmd.length, self.r2t)):
            self.r2ts += 1
            data += self.ask(queue.conn, cmd.cid, ttag, at, min(self.r2t, cmd.length - at))
        return data

    def ask(self, conn, cid, ttag, at, length):
        """One R2T and its data."""
        conn.send(tp.R2T, struct.pack('<HHII4x', cid, ttag, at, length))
        data = b''
        while len(data) < length:
            got = conn.recv_data(ttag)
            cccid, offset, datal = got.field('H', 8), got.field('I', 12), got.field('I', 16)
            if (cccid, offset, datal) != (cid, at + len(data), len(got.data)) or datal > self.maxh2cdata:
                raise iw.PeerError(f'H2CData of command {cccid:#x}: {datal} bytes at {offset}, DATAL {len(got.data)}')
            data += got.data
            if bool(got.flags & tp.F_LAST) != (len(data) == length) or len(data) > length:
                raise iw.PeerError(f'LAST_PDU {got.flags & tp.F_LAST} with {len(data)} of {length} bytes')
        return data

    def send_data(self, conn, cid, at, data, **kw):
        begin, unit = 24 + (4 if conn.hdgst else 0), (conn.hpda + 1) * 4
        conn.send(tp.C2H_DATA, struct.pack('<HHII4x', cid, 0, at, len(data)), data, pad=-begin % unit, **kw)

    def put(self, queue, cmd, data, result=0):
        data = data[:cmd.length].ljust(cmd.length, b'\0')
        for at in range(0, len(data), self.c2h):
            part = data[at:at + self.c2h]
            self.send_data(queue.conn, cmd.cid, at, part, flags=tp.F_LAST if at + len(part) == len(data) else 0)
        self.respond(queue, cmd, result=result)
