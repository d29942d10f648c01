# SPDX-License-Identifier: BSD-3-Clause
"""NVMe/TCP in Python: a host that can be as strict or as rude as a test wants.

Independent of our C code; offsets are those of the NVMe/TCP transport specification. Queue has the methods of
nvmf_peer.Queue, so that what a test does with commands runs over both transports.
"""

import select
import socket
import struct

import iwarp_peer as iw
import nvmf_peer as nv

ICREQ, ICRESP, H2C_TERM, C2H_TERM, CMD, RSP, H2C_DATA, C2H_DATA, R2T = 0, 1, 2, 3, 4, 5, 6, 7, 9
HLEN = {ICREQ: 128, ICRESP: 128, H2C_TERM: 24, C2H_TERM: 24, CMD: 72, RSP: 24, H2C_DATA: 24, C2H_DATA: 24, R2T: 24}
F_HDGST, F_DDGST, F_LAST, F_SUCCESS = 1, 2, 4, 8
TRANSPORT_SGL = 0x5A
ADMIN_IN_CAPSULE = 8192
TRANSPORT_ERROR = 0x022  # Transient Transport Error

FES_HEADER, FES_SEQUENCE, FES_HDGST, FES_RANGE, FES_LIMIT, FES_UNSUPPORTED = 1, 2, 3, 4, 5, 6


class Terminated(iw.PeerError):
    """The target sent a C2HTermReq."""

    def __init__(self, fes, fei, header):
        self.fes, self.fei, self.header = fes, fei, header
        super().__init__(f'C2HTermReq, FES {fes}, FEI {fei}')


def digest(data):
    return struct.pack('<I', iw.crc32c(data))


def icreq(*, pfv=0, hpda=0, dgst=0, maxr2t=0, **fields):
    return pdu(ICREQ, struct.pack('<HBBI', pfv, hpda, dgst, maxr2t).ljust(120, b'\0'), **fields)


def pdu(kind, body, data=b'', *, flags=0, hdgst=False, ddgst=False, hlen=None, pdo=None, plen=None, pad=0,
        bad_hdgst=False, bad_ddgst=False):
    """The bytes of a PDU. Each field of the common header can be replaced by a wrong one."""
    head_len = 8 + len(body)
    begin = head_len + (4 if hdgst else 0) + pad
    flags |= (F_HDGST if hdgst else 0) | (F_DDGST if ddgst and data else 0)
    total = begin + len(data) + (4 if ddgst and data else 0)
    if not data:
        total -= pad
    head = struct.pack('<BBBBI', kind, flags, head_len if hlen is None else hlen,
                       (begin if data else 0) if pdo is None else pdo, total if plen is None else plen) + body
    out = head
    if hdgst:
        out += bytes(4) if bad_hdgst else digest(head)
    if data:
        out += bytes(pad) + data
        if ddgst:
            out += bytes(4) if bad_ddgst else digest(data)
    return out


class Pdu:
    def __init__(self, kind, flags, head, data):
        self.kind, self.flags, self.head, self.data = kind, flags, head, data

    def field(self, fmt, offset):
        return struct.unpack_from('<' + fmt, self.head, offset)[0]


class Conn:
    """A TCP connection, and what was agreed on by ICReq and ICResp."""

    def __init__(self, sock, *, timeout=20.0, dribble=False):
        self.sock, self.dribble = sock, dribble
        sock.settimeout(timeout)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.hdgst = self.ddgst = False
        self.maxh2cdata = self.hpda = 0

    def send_raw(self, data):
        if self.dribble:
            for i in range(len(data)):
                self.sock.sendall(data[i:i + 1])
        else:
            self.sock.sendall(data)

    def recv_exact(self, n):
        parts = bytearray()
        while len(parts) < n:
            piece = self.sock.recv(n - len(parts))
            if not piece:
                raise iw.PeerClosed(f'closed after {len(parts)} of {n} bytes')
            parts += piece
        return bytes(parts)

    def send(self, kind, body, data=b'', **kw):
        kw.setdefault('hdgst', self.hdgst)
        kw.setdefault('ddgst', self.ddgst)
        self.send_raw(pdu(kind, body, data, **kw))

    def recv(self):
        """The next PDU, checked as a strict host checks it. Raises Terminated for a C2HTermReq."""
        common = self.recv_exact(8)
        kind, flags, hlen, pdo, plen = struct.unpack('<BBBBI', common)
        if HLEN.get(kind) != hlen:
            raise iw.PeerError(f'PDU type {kind:#x} with HLEN {hlen}')
        head = common + self.recv_exact(hlen - 8)
        if kind == C2H_TERM:
            fes, fei = struct.unpack_from('<HI', head, 8)
            raise Terminated(fes, fei, self.recv_exact(plen - hlen))
        used = hlen
        if kind != ICRESP:
            if bool(flags & F_HDGST) != self.hdgst:
                raise iw.PeerError(f'flags {flags:#x}, header digest agreed: {self.hdgst}')
            if self.hdgst:
                if self.recv_exact(4) != digest(head):
                    raise iw.PeerError('wrong header digest')
                used += 4
        if plen == used:
            return Pdu(kind, flags, head, b'')
        if kind != C2H_DATA:
            raise iw.PeerError(f'PDU type {kind:#x} with data')
        unit = (self.hpda + 1) * 4
        if pdo < used or pdo % unit or pdo - used >= unit:
            raise iw.PeerError(f'PDO {pdo} behind a header of {used} bytes, HPDA {self.hpda}')
        self.recv_exact(pdo - used)
        if bool(flags & F_DDGST) != self.ddgst:
            raise iw.PeerError(f'flags {flags:#x}, data digest agreed: {self.ddgst}')
        data = self.recv_exact(plen - pdo - (4 if self.ddgst else 0))
        if self.ddgst and self.recv_exact(4) != digest(data):
            raise iw.PeerError('wrong data digest')
        return Pdu(kind, flags, head, data)

    def arriving(self):
        return bool(select.select([self.sock], [], [], 0)[0])

    def wait_closed(self):
        """Reads until the target closes; a C2HTermReq on the way is returned."""
        term = None
        try:
            while True:
                try:
                    self.recv()
                except Terminated as got:
                    term = got
        except (iw.PeerClosed, ConnectionError):
            return term

    def close(self, *, reset=False):
        if reset:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.sock.close()


def dial(addr, port, *, timeout=20.0, **kw):
    family = socket.AF_INET6 if ':' in addr else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.settimeout(timeout)
    sock.connect((addr, port))
    return Conn(sock, timeout=timeout, **kw)


def connect(addr, port, *, timeout=20.0, dribble=False, **agreed):
    return agree(dial(addr, port, timeout=timeout, dribble=dribble), **agreed)


def agree(conn, *, hdgst=False, ddgst=False, hpda=0, maxr2t=0):
    """ICReq and ICResp. Returns the connection."""
    dgst = (1 if hdgst else 0) | (2 if ddgst else 0)
    conn.send_raw(icreq(hpda=hpda, dgst=dgst, maxr2t=maxr2t))
    resp = conn.recv()
    pfv, cpda, got, maxh2cdata = struct.unpack_from('<HBBI', resp.head, 8)
    if resp.kind != ICRESP or resp.flags or pfv or cpda or got != dgst or any(resp.head[16:]):
        raise iw.PeerError(f'ICResp: {resp.head[:16].hex()}')
    if maxh2cdata < 4096 or maxh2cdata % 4:
        raise iw.PeerError(f'ICResp: MAXH2CDATA {maxh2cdata}')
    conn.hdgst, conn.ddgst, conn.hpda, conn.maxh2cdata = hdgst, ddgst, hpda, maxh2cdata
    return conn


class _Command:
    def __init__(self, length=0, data=b''):
        self.got = bytearray()
        self.length, self.data = length, data


class Queue(nv.Queue):
    """A host's queue pair: nvmf_peer.Queue over NVMe/TCP."""

    def __init__(self, conn, qid, depth):
        super().__init__(conn, qid, depth)
        self._commands = {}
        self.piece = None      # H2CData of at most so many bytes
        self.successes = 0     # commands completed by SUCCESS
        self.r2ts = 0

    @classmethod
    def dial(cls, addr, port, qid=0, *, depth=32, **kw):
        return cls(connect(addr, port, **kw), qid, depth)

    def post(self, capsule):
        """SQE, and in-capsule data behind it. What nvmf_peer builds for a command without data is made TCP's."""
        if capsule[24:40] == nv.sgl_null():
            capsule = capsule[:24] + nv.offset_sgl(0, 0, TRANSPORT_SGL) + capsule[40:]
        self.conn.send(CMD, capsule[:64], capsule[64:])

    def _keep_next(self):
        got = self.conn.recv()
        if got.kind == RSP:
            cqe = nv.Cqe.parse(iw.Message(iw.SEND, got.head[8:]))
            self._stash[cqe.cid] = cqe
        elif got.kind == C2H_DATA:
            self._on_data(got)
        elif got.kind == R2T:
            self._on_r2t(got)
        else:
            raise iw.PeerError(f'unexpected PDU type {got.kind:#x}')

    def _on_data(self, got):
        cid, offset, length = got.field('H', 8), got.field('I', 12), got.field('I', 16)
        cmd = self._commands[cid]
        if offset != len(cmd.got) or length != len(got.data) or offset + length > cmd.length:
            raise iw.PeerError(f'C2HData at {offset}, {length} bytes; {len(cmd.got)} of {cmd.length} have come')
        cmd.got += got.data
        if bool(got.flags & F_LAST) != (len(cmd.got) == cmd.length):
            raise iw.PeerError('LAST_PDU is not set exactly at the end of the data')
        if got.flags & F_SUCCESS:
            self.successes += 1
            self._stash[cid] = nv.Cqe(0, 0, self.qid, cid, 0)

    def _on_r2t(self, got):
        cid, ttag, offset, length = (got.field('H', 8), got.field('H', 10), got.field('I', 12), got.field('I', 16))
        self.r2ts += 1
        data = self._commands[cid].data
        if not length or offset + length > len(data):
            raise iw.PeerError(f'R2T for {length} bytes at {offset} of {len(data)}')
        self.send_data(cid, ttag, data, offset, length)

    def send_data(self, cid, ttag, data, offset, length):
        end = offset + length
        while offset < end:
            n = min(self.piece or self.conn.maxh2cdata, self.conn.maxh2cdata, end - offset)
            self.h2c_data(cid, ttag, offset, data[offset:offset + n], last=offset + n == end)
            offset += n

    def h2c_data(self, cid, ttag, offset, data, *, last=True, datal=None, **kw):
        self.conn.send(H2C_DATA, struct.pack('<HHII4x', cid, ttag, offset, len(data) if datal is None else datal),
                       data, flags=F_LAST if last else 0, **kw)

    def expect_r2t(self, capsule):
        """Posts a write and returns (CID, TTAG, length) of its R2T, which the caller answers."""
        self.post(capsule)
        got = self.conn.recv()
        if got.kind != R2T:
            raise iw.PeerError(f'PDU type {got.kind:#x} instead of an R2T')
        return got.field('H', 8), got.field('H', 10), got.field('I', 16)

    def wait_any(self):
        while not self._stash:
            self._keep_next()
        return self._stash.pop(next(iter(self._stash)))

    def wait_among(self, cid, queues):
        while cid not in self._stash:
            socks = {q.conn.sock: q for q in queues}
            ready = select.select(list(socks), [], [], self.conn.sock.gettimeout())[0]
            if not ready:
                raise TimeoutError(f'queue {self.qid}: no answer to command {cid:#x}')
            for sock in ready:
                socks[sock]._keep_next()
        return self._stash.pop(cid)

    def fabrics_connect(self, data, *, in_capsule=True, **body):
        cid = self.next_cid()
        return self.call(nv.fabrics_sqe(nv.CONNECT, cid, self.connect_body(**body),
                                        sgl=nv.offset_sgl(0, len(data))) + data)

    def post_in(self, opcode, length, *, sgl_type=TRANSPORT_SGL, **fields):
        cid = self.next_cid()
        self._commands[cid] = _Command(length=length)
        self.post(nv.sqe(opcode, cid, sgl=nv.offset_sgl(0, length, sgl_type), **fields))
        return cid

    def fabrics_in(self, fctype, body, length):
        cid = self.next_cid()
        self._commands[cid] = _Command(length=length)
        self.post(nv.fabrics_sqe(fctype, cid, body, sgl=nv.offset_sgl(0, length, TRANSPORT_SGL)))
        cqe = self.wait(cid)
        return cqe, bytes(self._commands.pop(cid).got)

    def data_in(self, opcode, length, *, sgl_type=TRANSPORT_SGL, **fields):
        cid = self.post_in(opcode, length, sgl_type=sgl_type, **fields)
        cqe = self.wait(cid)
        got = self._commands.pop(cid).got
        return cqe, bytes(got) if len(got) == length else bytes(length)

    def post_out(self, opcode, data, *, sgl_type=TRANSPORT_SGL, in_capsule=False, **fields):
        cid = self.next_cid()
        self._commands[cid] = _Command(data=data)
        sgl = nv.offset_sgl(0, len(data)) if in_capsule else nv.offset_sgl(0, len(data), sgl_type)
        self.post(nv.sqe(opcode, cid, sgl=sgl, **fields) + (data if in_capsule else b''))
        return cid

    def data_out(self, opcode, data, **fields):
        cid = self.post_out(opcode, data, **fields)
        cqe = self.wait(cid)
        del self._commands[cid]
        return cqe

    def call(self, capsule):
        self.post(capsule)
        return self.wait(struct.unpack_from('<H', capsule, 2)[0])

    def post_io(self, opcode, nsid, slba, data, block, fua=False):
        fields = {'nsid': nsid, 'cdw10': slba & 0xFFFFFFFF, 'cdw11': slba >> 32,
                  'cdw12': (len(data) // block - 1) | (1 << 30 if fua else 0)}
        cid = (self.post_in(opcode, len(data), **fields) if opcode == nv.NVM_READ
               else self.post_out(opcode, data, **fields))
        return Pending(self, cid)


class Pending:
    """A command in flight, and its data."""

    def __init__(self, queue, cid):
        self.queue, self.cid, self.data = queue, cid, b''

    def wait(self):
        cqe = self.queue.wait(self.cid)
        self.data = bytes(self.queue._commands.pop(self.cid).got)
        return cqe


class Host(nv.Host):
    """nvmf_peer.Host over NVMe/TCP."""
    queue_class = Queue
