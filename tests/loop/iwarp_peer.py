# SPDX-License-Identifier: BSD-3-Clause
"""An iWARP endpoint on a blocking TCP socket: MPA (RFC 5044, 6581), DDP (5041), RDMAP (5040).

Written from the RFCs and from captures of the Linux soft-iWARP driver, and on purpose not from our C code: it checks
the wire format independently. It follows the protocol unless told not to; every builder has arguments to send something
illegal.
"""

import os
import socket
import struct
from collections import deque
from dataclasses import dataclass, field

REQ_KEY = b'MPA ID Req Frame'
REP_KEY = b'MPA ID Rep Frame'
MPA_M, MPA_C, MPA_R, MPA_S = 0x80, 0x40, 0x20, 0x10
ENH_A, ENH_B, ENH_C, ENH_D = 0x8000, 0x4000, 0x8000, 0x4000

WRITE, READ_REQ, READ_RESP, SEND, SEND_INV, SEND_SE, SEND_SE_INV, TERMINATE = range(8)
TAGGED_OPS = (WRITE, READ_RESP)
SENDS = (SEND, SEND_INV, SEND_SE, SEND_SE_INV)


class PeerError(Exception):
    """The other side has violated the protocol."""


class PeerClosed(PeerError):
    """The other side ended the connection (FIN or RST)."""


class Terminated(PeerError):
    """The other side sent a Terminate message."""

    def __init__(self, layer, etype, code, raw):
        super().__init__(f'Terminate layer {layer} type {etype} code {code:#x}: {raw.hex()}')
        self.layer, self.etype, self.code, self.raw = layer, etype, code, raw


def _crc_table():
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


_CRC = _crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    table = _CRC
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


# ---- MPA ----

@dataclass
class Mpa:
    """A parsed request or reply frame."""
    key: bytes
    flags: int
    rev: int
    body: bytes  # everything behind the fixed header

    @property
    def enhanced(self):
        return bool(self.flags & MPA_S)

    @property
    def reject(self):
        return bool(self.flags & MPA_R)

    @property
    def crc(self):
        return bool(self.flags & MPA_C)

    @property
    def private(self):
        return self.body[4:] if self.enhanced else self.body

    @property
    def words(self):
        if not self.enhanced:
            return 0, 0
        if len(self.body) < 4:
            raise PeerError('enhanced frame without its four bytes')
        return struct.unpack('>HH', self.body[:4])

    @property
    def ird(self):
        return self.words[0] & 0x3FFF

    @property
    def ord(self):
        return self.words[1] & 0x3FFF

    @property
    def p2p(self):
        """Those of A, B, C and D that are set."""
        first, second = self.words
        return ''.join(letter for letter, on in (('A', first & ENH_A), ('B', first & ENH_B),
                                                 ('C', second & ENH_C), ('D', second & ENH_D)) if on)


def mpa_frame(key, private=b'', *, rev=2, enhanced=True, ird=16, ord=0, p2p='', crc=False,
              markers=False, reject=False, pd_length=None):
    """A frame; pd_length can differ from the real length of the private data."""
    flags = 0
    body = private
    if enhanced:
        flags |= MPA_S
        first = ird | (ENH_A if 'A' in p2p else 0) | (ENH_B if 'B' in p2p else 0)
        second = ord | (ENH_C if 'C' in p2p else 0) | (ENH_D if 'D' in p2p else 0)
        body = struct.pack('>HH', first, second) + private
    flags |= (MPA_C if crc else 0) | (MPA_M if markers else 0) | (MPA_R if reject else 0)
    if pd_length is None:
        pd_length = len(body)
    return key + struct.pack('>BBH', flags, rev, pd_length) + body


# ---- DDP segments ----

@dataclass
class Segment:
    tagged: bool
    last: bool
    opcode: int
    stag: int = 0  # tagged: the STag; untagged: the STag to invalidate
    to: int = 0
    qn: int = 0
    msn: int = 0
    mo: int = 0
    payload: bytes = b''


def tagged_segment(opcode, stag, to, payload=b'', *, last=True, dv=1, rv=1):
    ddp = 0x80 | (0x40 if last else 0) | dv
    return struct.pack('>BBIQ', ddp, rv << 6 | opcode, stag, to) + payload


def untagged_segment(opcode, qn, msn, mo=0, payload=b'', *, last=True, inv_stag=0, dv=1, rv=1):
    ddp = (0x40 if last else 0) | dv
    return struct.pack('>BBIIII', ddp, rv << 6 | opcode, inv_stag, qn, msn, mo) + payload


def read_request_payload(sink_stag, sink_to, size, src_stag, src_to):
    return struct.pack('>IQIIQ', sink_stag, sink_to, size, src_stag, src_to)


def parse_segment(ulpdu):
    if len(ulpdu) < 2:
        raise PeerError(f'ULPDU of {len(ulpdu)} bytes')
    ddp, rdmap = ulpdu[0], ulpdu[1]
    if ddp & 0x03 != 1 or rdmap >> 6 != 1:
        raise PeerError(f'DDP or RDMAP version in {ulpdu[:2].hex()}')
    tagged, last, opcode = bool(ddp & 0x80), bool(ddp & 0x40), rdmap & 0x0F
    if ddp & 0x3C or rdmap & 0x30:
        raise PeerError(f'reserved bits set in {ulpdu[:2].hex()}')
    if opcode > TERMINATE or tagged != (opcode in TAGGED_OPS):
        raise PeerError(f'opcode {opcode} with T={int(tagged)}')
    if tagged:
        if len(ulpdu) < 14:
            raise PeerError(f'tagged segment of {len(ulpdu)} bytes')
        stag, to = struct.unpack('>IQ', ulpdu[2:14])
        return Segment(True, last, opcode, stag=stag, to=to, payload=ulpdu[14:])
    if len(ulpdu) < 18:
        raise PeerError(f'untagged segment of {len(ulpdu)} bytes')
    inv, qn, msn, mo = struct.unpack('>IIII', ulpdu[2:18])
    if inv and opcode not in (SEND_INV, SEND_SE_INV):
        raise PeerError(f'reserved field {inv:#x} in opcode {opcode}')
    return Segment(False, last, opcode, stag=inv, qn=qn, msn=msn, mo=mo, payload=ulpdu[18:])


def fpdu(ulpdu, crc=False, *, length=None, bad_crc=False):
    """Frame a ULPDU. Without CRC the field is zero. length can differ from the ULPDU's."""
    head = struct.pack('>H', len(ulpdu) if length is None else length) + ulpdu
    head += bytes(-len(head) % 4)
    value = crc32c(head) if crc else 0
    if bad_crc:
        value ^= 0x01020304
    return head + struct.pack('<I', value)


# ---- memory ----

class Region:
    """Memory that the other side can access by its key. Addresses look like the kernel's: the top bit is set."""

    def __init__(self, data, *, read=True, write=True):
        self.data = bytearray(data)
        self.base = 0xFFFF888000000000 | (int.from_bytes(os.urandom(4), 'big') & 0xFFFFF000)
        self.stag = 0
        self.read, self.write = read, write
        self.valid = True
        self.written = 0

    def slice(self, to, length, *, write):
        if not self.valid:
            raise PeerError(f'access to invalidated key {self.stag:#010x}')
        if not (self.write if write else self.read):
            raise PeerError(f'no right to {"write" if write else "read"} key {self.stag:#010x}')
        offset = to - self.base
        if offset < 0 or offset + length > len(self.data):
            raise PeerError(f'key {self.stag:#010x}: {length} bytes at {to:#x} are out of bounds')
        return offset


@dataclass
class Message:
    """A complete Send of any kind."""
    opcode: int
    data: bytes
    inv_stag: int | None = None
    segments: int = 1


@dataclass
class ReadRequest:
    sink_stag: int
    sink_to: int
    size: int
    src_stag: int
    src_to: int


@dataclass
class Stats:
    writes: int = 0  # tagged messages' segments and so on: what arrived
    reads: int = 0
    fpdus: int = 0
    crcs: int = 0
    rtr: str = ''


@dataclass
class _Partial:
    data: bytearray = field(default_factory=bytearray)
    segments: int = 0
    opcode: int | None = None


class Conn:
    """A connection, established or not."""

    def __init__(self, sock, *, timeout=20.0, max_ulpdu=1442, dribble=False):
        self.sock = sock
        sock.settimeout(timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.crc = False
        self.max_ulpdu = max_ulpdu
        self.dribble = dribble  # one byte for each segment of TCP
        self.regions = {}
        self.stats = Stats()
        self.auto_read = True  # answer Read Requests while waiting for a message
        self.read_requests = deque()
        self._rx = bytearray()
        self._tx_msn = {0: 1, 1: 1, 2: 1}
        self._rx_msn = {0: 1, 1: 1, 2: 1}
        self._partial = _Partial()
        self._reads = deque()  # our own outstanding reads: [region, to, size, got]
        self._inbox = deque()  # Sends that came while a read was waited for
        self._next_index = 1 + int.from_bytes(os.urandom(2), 'big')

    # -- bytes --

    def send_raw(self, data):
        try:
            if self.dribble:
                for i in range(len(data)):
                    self.sock.sendall(data[i:i + 1])
            else:
                self.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as e:
            raise PeerClosed(str(e)) from e

    def recv_exact(self, n):
        while len(self._rx) < n:
            try:
                part = self.sock.recv(262144)
            except ConnectionResetError as e:
                raise PeerClosed('reset by peer') from e
            if not part:
                raise PeerClosed(f'closed by peer, {len(self._rx)} of {n} bytes read')
            self._rx += part
        data = bytes(self._rx[:n])
        del self._rx[:n]
        return data

    def wait_closed(self):
        """Read until the other side closes. Returns a Terminate, drops other messages."""
        term = None
        try:
            while True:
                self.recv_message()
        except Terminated as e:
            term = e
        except PeerClosed:
            return term
        try:
            while True:
                self._rx.clear()
                self.recv_exact(1)
        except PeerClosed:
            return term

    def close(self, *, reset=False):
        if reset and self.sock.fileno() >= 0:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.sock.close()

    # -- MPA --

    def recv_mpa(self, key):
        head = self.recv_exact(20)
        flags, rev, pd_length = struct.unpack('>BBH', head[16:20])
        if head[:16] != key:
            raise PeerError(f'MPA key {head[:16]!r}')
        if pd_length > 512:
            raise PeerError(f'MPA private data of {pd_length} bytes')
        return Mpa(head[:16], flags, rev, self.recv_exact(pd_length))

    # -- FPDUs --

    def send_ulpdu(self, ulpdu):
        self.send_raw(fpdu(ulpdu, self.crc))

    def recv_segment(self):
        head = self.recv_exact(2)
        length = struct.unpack('>H', head)[0]
        rest = self.recv_exact(length + (-(length + 2) % 4) + 4)
        got = struct.unpack('<I', rest[-4:])[0]
        self.stats.fpdus += 1
        if any(rest[length:-4]):
            raise PeerError('pad bytes are not zero')
        if self.crc:
            want = crc32c(head + rest[:-4])
            if got != want:
                raise PeerError(f'CRC {got:#010x}, computed {want:#010x}')
            self.stats.crcs += 1
        elif got:
            raise PeerError(f'CRC is off but its field holds {got:#010x}')
        return parse_segment(rest[:length])

    def _untagged(self, opcode, qn, data, inv_stag):
        room = (self.max_ulpdu - 18) & ~3
        msn = self._tx_msn[qn]
        self._tx_msn[qn] = (msn + 1) & 0xFFFFFFFF
        offset = 0
        while True:
            part = data[offset:offset + room]
            last = offset + len(part) == len(data)
            self.send_ulpdu(untagged_segment(opcode, qn, msn, offset, part, last=last,
                                             inv_stag=inv_stag))
            offset += len(part)
            if last:
                return

    def send(self, data, *, inv_stag=None, solicited=False):
        opcode = (SEND_SE if solicited else SEND) + (1 if inv_stag is not None else 0)
        self._untagged(opcode, 0, data, inv_stag or 0)

    def _tagged(self, opcode, stag, to, data):
        room = (self.max_ulpdu - 14) & ~3
        offset = 0
        while True:
            part = data[offset:offset + room]
            last = offset + len(part) == len(data)
            self.send_ulpdu(tagged_segment(opcode, stag, (to + offset) & (1 << 64) - 1, part,
                                           last=last))
            offset += len(part)
            if last:
                return

    def write(self, stag, to, data):
        self._tagged(WRITE, stag, to, data)

    def read(self, stag, to, size):
        """A complete RDMA Read: returns the bytes."""
        sink = self.register(bytes(size))
        self.post_read(sink, size, stag, to)
        while self._reads:
            msg = self._handle(self.recv_segment())
            if msg:
                self._inbox.append(msg)
        self.deregister(sink)
        return bytes(sink.data)

    def post_read(self, sink, size, stag, to):
        self._reads.append([sink, sink.base, size, 0])
        self._untagged(READ_REQ, 1, read_request_payload(sink.stag, sink.base, size, stag, to), 0)

    def answer_read(self, req, data=None, *, stag=None, to=None):
        if data is None:
            data = b''
            if req.size:
                region = self._region(req.src_stag)
                offset = region.slice(req.src_to, req.size, write=False)
                data = bytes(region.data[offset:offset + req.size])
        self._tagged(READ_RESP, req.sink_stag if stag is None else stag,
                     req.sink_to if to is None else to, data)

    def terminate(self, layer, etype, code):
        self._untagged(TERMINATE, 2, bytes([layer << 4 | etype, code, 0, 0]), 0)

    # -- memory --

    def register(self, data, **rights):
        region = Region(data, **rights)
        while not region.stag or region.stag in self.regions:  # an index has 24 bits
            self._next_index = (self._next_index + 1 + os.urandom(1)[0]) & 0xFFFFFF
            region.stag = self._next_index << 8 | os.urandom(1)[0]
        self.regions[region.stag] = region
        return region

    def deregister(self, region):
        self.regions.pop(region.stag, None)

    def _region(self, stag):
        if stag not in self.regions:
            raise PeerError(f'unknown key {stag:#010x}')
        return self.regions[stag]

    # -- receiving --

    def recv_message(self):
        """The next Send. Serves Reads and Writes that come before it."""
        while not self._inbox:
            msg = self._handle(self.recv_segment())
            if msg:
                return msg
        return self._inbox.popleft()

    def serve(self):
        """One segment: a READ is answered or kept, a Send is kept for recv_message()."""
        msg = self._handle(self.recv_segment())
        if msg:
            self._inbox.append(msg)

    def arriving(self):
        """Are there bytes of a segment that were received with an earlier one?"""
        return bool(self._rx)

    def has_message(self):
        """recv_message() will not block."""
        return bool(self._inbox)

    def recv_read_request(self):
        """The next Read Request, which is not answered. auto_read must be off."""
        while not self.read_requests:
            self.serve()
        return self.read_requests.popleft()

    def _handle(self, seg):
        if seg.opcode == WRITE:
            return self._on_write(seg)
        if seg.opcode == READ_RESP:
            return self._on_read_response(seg)
        if seg.opcode in SENDS:
            return self._on_send(seg)
        if seg.opcode == READ_REQ:
            return self._on_read_request(seg)
        raise self._terminated(seg)

    @staticmethod
    def _terminated(seg):
        raw = seg.payload[:4].ljust(4, b'\0')
        return Terminated(raw[0] >> 4, raw[0] & 15, raw[1], seg.payload)

    def _on_write(self, seg):
        self.stats.writes += 1
        if not seg.payload:
            self.stats.rtr = self.stats.rtr or 'write'
            return None
        region = self._region(seg.stag)
        offset = region.slice(seg.to, len(seg.payload), write=True)
        region.data[offset:offset + len(seg.payload)] = seg.payload
        region.written += len(seg.payload)
        return None

    def _on_read_response(self, seg):
        if not self._reads:
            raise PeerError('Read Response without a request')
        read = self._reads[0]
        region, to, size, got = read
        if seg.stag != region.stag or seg.to != to + got:
            raise PeerError(f'Read Response to {seg.stag:#010x} at {seg.to:#x}, '
                            f'expected {region.stag:#010x} at {to + got:#x}')
        if got + len(seg.payload) > size or (seg.last and got + len(seg.payload) != size):
            raise PeerError(f'Read Response: {got + len(seg.payload)} bytes of {size}')
        region.data[got:got + len(seg.payload)] = seg.payload
        read[3] += len(seg.payload)
        if seg.last:
            self._reads.popleft()
        return None

    def _sequence(self, seg, qn, mo):
        want = self._rx_msn[qn]
        if (seg.qn, seg.msn, seg.mo) != (qn, want, mo):
            raise PeerError(f'QN {seg.qn} MSN {seg.msn} MO {seg.mo}, expected {qn}, {want}, {mo}')
        if seg.last:
            self._rx_msn[qn] = (want + 1) & 0xFFFFFFFF

    def _on_send(self, seg):
        part = self._partial
        self._sequence(seg, 0, len(part.data))
        if part.opcode not in (None, seg.opcode):
            raise PeerError('opcode changes within a message')
        part.opcode = seg.opcode
        part.data += seg.payload
        part.segments += 1
        if not seg.last:
            if not seg.payload:
                raise PeerError('empty segment in the middle of a message')
            return None
        self._partial = _Partial()
        inv = seg.stag if seg.opcode in (SEND_INV, SEND_SE_INV) else None
        if inv is not None:
            self._region(inv).valid = False
        return Message(seg.opcode, bytes(part.data), inv, part.segments)

    def _on_read_request(self, seg):
        self.stats.reads += 1
        self._sequence(seg, 1, 0)
        if len(seg.payload) != 28:
            raise PeerError(f'Read Request of {len(seg.payload)} bytes')
        req = ReadRequest(*struct.unpack('>IQIIQ', seg.payload))
        if not req.size:
            self.stats.rtr = self.stats.rtr or 'read'
        if self.auto_read or not req.size:
            self.answer_read(req)
        else:
            self.read_requests.append(req)
        return None


# ---- both ends of the handshake ----

def dial(addr, port, *, timeout=20.0, **kw):
    """TCP only."""
    return Conn(socket.create_connection((addr, port), timeout=timeout), timeout=timeout, **kw)


def connect(addr, port, private=b'', *, max_ulpdu=1442, dribble=False, timeout=20.0, **mpa):
    """TCP and MPA as initiator. Returns (conn, reply); on a reject as well."""
    conn = dial(addr, port, timeout=timeout, max_ulpdu=max_ulpdu, dribble=dribble)
    conn.send_raw(mpa_frame(REQ_KEY, private, **mpa))
    reply = conn.recv_mpa(REP_KEY)
    conn.crc = bool(mpa.get('crc')) or reply.crc
    return conn, reply


class Listener:
    def __init__(self, addr='127.0.0.1', *, timeout=30.0):
        family = socket.AF_INET6 if ':' in addr else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self.sock.settimeout(timeout)
        self.sock.bind((addr, 0))
        self.sock.listen(128)
        self.addr, self.port = addr, self.sock.getsockname()[1]

    def accept(self, **kw):
        return Conn(self.sock.accept()[0], **kw)

    def close(self):
        self.sock.close()
