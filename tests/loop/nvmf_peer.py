# SPDX-License-Identifier: BSD-3-Clause
"""NVMe over Fabrics on an iwarp_peer connection: a host that can be as strict or as rude as a test
wants, and a small target whose every step can be replaced.

Independent of our C code, like iwarp_peer; offsets are those of the NVMe and NVMe-oF specifications.
"""

import select
import hashlib
import struct
import threading
from dataclasses import dataclass

import iwarp_peer as iw

DISCOVERY_NQN = 'nqn.2014-08.org.nvmexpress.discovery'
HOST_NQN = 'nqn.2014-08.org.nvmexpress:uuid:6f0c2b4e-6d0f-4a4e-9a56-0e9b7a3d5c11'

# admin, I/O and fabrics opcodes
GET_LOG, IDENTIFY, ABORT, SET_FEATURES, GET_FEATURES, AER, KEEP_ALIVE = 2, 6, 8, 9, 10, 12, 0x18
FLUSH, NVM_WRITE, NVM_READ = 0, 1, 2
FABRICS = 0x7F
PROPERTY_SET, CONNECT, PROPERTY_GET = 0, 1, 4

CAP, VS, CC, CSTS, NSSR = 0x00, 0x08, 0x14, 0x1C, 0x20
PSDT = 0x40

# (SCT << 8 | SC)
SUCCESS = 0
INVALID_OPCODE, INVALID_FIELD, ID_CONFLICT, DATA_TRANSFER_ERROR = 0x001, 0x002, 0x003, 0x004
ABORTED_BY_REQUEST, INVALID_NS, SEQUENCE_ERROR = 0x007, 0x00B, 0x00C
SGL_DATA_LENGTH, SGL_TYPE, SGL_OFFSET = 0x00F, 0x011, 0x016
WRITE_PROTECTED, LBA_RANGE, READ_ONLY_RANGE = 0x020, 0x080, 0x182
AER_LIMIT, INVALID_LOG_PAGE = 0x105, 0x109
CONNECT_FORMAT, CONNECT_BUSY, CONNECT_PARAM, CONNECT_HOST = 0x180, 0x181, 0x182, 0x184

CM_STATUS = {1: 'length', 2: 'recfmt', 3: 'qid', 4: 'hsqsize', 5: 'hrqsize', 6: 'resources',
             7: 'ird', 8: 'ord'}


# ---- building ----

def cm_request(qid=0, hrqsize=32, hsqsize=31, recfmt=0, cntlid=0, length=32):
    data = struct.pack('<HHHHH22x', recfmt, qid, hrqsize, hsqsize, cntlid)
    return data[:length]


def cm_accept(crqsize=32, recfmt=0):
    return struct.pack('<HH28x', recfmt, crqsize)


def cm_reject(sts, recfmt=0):
    return struct.pack('<HH', recfmt, sts)


def sgl_null():
    return keyed_sgl(0, 0, 0)


def keyed_sgl(addr, length, key, sgl_type=0x40):
    return struct.pack('<Q', addr) + length.to_bytes(3, 'little') + struct.pack('<IB', key, sgl_type)


def offset_sgl(offset, length, sgl_type=0x01):
    return struct.pack('<QI3xB', offset, length, sgl_type)


def sqe(opcode, cid, *, nsid=0, sgl=None, flags=PSDT, cdw10=0, cdw11=0, cdw12=0, cdw13=0, cdw14=0,
        cdw15=0, nsid_bytes=None, cdw2=0, cdw3=0):
    head = struct.pack('<BBH', opcode, flags, cid) + (nsid_bytes or struct.pack('<I', nsid))
    return (head + struct.pack('<IIQ', cdw2, cdw3, 0) + (sgl or sgl_null())
            + struct.pack('<6I', cdw10, cdw11, cdw12, cdw13, cdw14, cdw15))


def fabrics_sqe(fctype, cid, body, *, sgl=None, flags=PSDT):
    cmd = struct.pack('<BBHB19x', FABRICS, flags, cid, fctype) + (sgl or sgl_null()) + body
    return cmd.ljust(64, b'\0')


def connect_data(subnqn, hostnqn=HOST_NQN, *, hostid=None, cntlid=0xFFFF):
    def text(s):
        return (s if isinstance(s, bytes) else s.encode()).ljust(256, b'\0')[:256]
    if hostid is None:
        other = hostnqn != HOST_NQN  # each host has one of its own
        hostid = hashlib.sha256(repr(hostnqn).encode()).digest()[:16] if other else bytes(range(16))
    return hostid + struct.pack('<H', cntlid) + bytes(238) + text(subnqn) + text(hostnqn) + bytes(256)


@dataclass
class Cqe:
    result: int
    sqhd: int
    sqid: int
    cid: int
    status_field: int
    inv_stag: int | None = None
    opcode: int = iw.SEND

    @property
    def status(self):
        """SCT << 8 | SC"""
        return self.status_field >> 1 & 0x7FF

    @property
    def dnr(self):
        return bool(self.status_field & 0x8000)

    @property
    def dw0(self):
        return self.result & 0xFFFFFFFF

    @staticmethod
    def parse(msg):
        if len(msg.data) != 16:
            raise iw.PeerError(f'response capsule of {len(msg.data)} bytes')
        result, sqhd, sqid, cid, status = struct.unpack('<QHHHH', msg.data)
        if status & 1:
            raise iw.PeerError('phase bit set in a response capsule')
        return Cqe(result, sqhd, sqid, cid, status, msg.inv_stag, msg.opcode)

    def pack(self):
        return struct.pack('<QHHHH', self.result, self.sqhd, self.sqid, self.cid, self.status_field)


# ---- host ----

class Queue:
    """A host's queue pair."""

    def __init__(self, conn, qid, depth):
        self.conn, self.qid, self.depth = conn, qid, depth
        self._cid = 0x1000
        self._stash = {}

    @classmethod
    def dial(cls, addr, port, qid=0, *, depth=32, private=None, ird=16, **kw):
        """MPA handshake with NVMe's private data. Raises PeerError when rejected."""
        if private is None:
            private = cm_request(qid, hrqsize=depth, hsqsize=depth - 1)
        conn, reply = iw.connect(addr, port, private, ird=ird, **kw)
        queue = cls(conn, qid, depth)
        queue.reply = reply
        if reply.reject:
            conn.close()
            raise Rejected(reply)
        return queue

    def close(self, **kw):
        self.conn.close(**kw)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def next_cid(self):
        self._cid = 0x1000 | (self._cid + 1 & 0xFFF)
        return self._cid

    def post(self, capsule):
        self.conn.send(capsule)

    def wait(self, cid):
        """The response to cid; responses that arrive earlier are kept for their own wait()."""
        while cid not in self._stash:
            self._keep_next()
        return self._stash.pop(cid)

    def _keep_next(self):
        cqe = Cqe.parse(self.conn.recv_message())
        self._stash[cqe.cid] = cqe

    def wait_among(self, cid, queues):
        """As wait(), but serves @queues meanwhile, of which this is one, as RDMA hardware does: a READ that is not
        answered there may hold the very buffer that this command waits for."""
        while cid not in self._stash:
            if self.conn.has_message():
                self._keep_next()
                continue
            ready = [q.conn for q in queues if q.conn.arriving()]
            if not ready:
                socks = {q.conn.sock: q.conn for q in queues}
                ready = [socks[s] for s in select.select(list(socks), [], [], self.conn.sock.gettimeout())[0]]
            if not ready:
                raise TimeoutError(f'queue {self.qid}: no answer to command {cid:#x}')
            for conn in ready:
                conn.serve()
        return self._stash.pop(cid)

    def wait_any(self):
        if self._stash:
            return self._stash.pop(next(iter(self._stash)))
        return Cqe.parse(self.conn.recv_message())

    def call(self, capsule):
        self.post(capsule)
        return self.wait(struct.unpack_from('<H', capsule, 2)[0])

    # -- fabrics --

    def connect_body(self, *, recfmt=0, qid=None, sqsize=None, cattr=0, kato=0):
        return struct.pack('<HHHBBI', recfmt, self.qid if qid is None else qid,
                           self.depth - 1 if sqsize is None else sqsize, cattr, 0, kato)

    def fabrics_connect(self, data, *, in_capsule=False, sgl_type=0x4F, **body):
        """Connect, with a key (as on the admin queue) or with its data in the capsule. Returns the Cqe."""
        cid = self.next_cid()
        if in_capsule:
            return self.call(fabrics_sqe(CONNECT, cid, self.connect_body(**body),
                                         sgl=offset_sgl(0, len(data))) + data)
        region = self.conn.register(data, write=False)
        sgl = keyed_sgl(region.base, len(data), region.stag, sgl_type)
        cqe = self.call(fabrics_sqe(CONNECT, cid, self.connect_body(**body), sgl=sgl))
        self.conn.deregister(region)
        return cqe

    def property_get(self, offset, size=4):
        return self.call(fabrics_sqe(PROPERTY_GET, self.next_cid(),
                                     struct.pack('<B3xI', 1 if size == 8 else 0, offset)))

    def property_set(self, offset, value, size=4):
        return self.call(fabrics_sqe(PROPERTY_SET, self.next_cid(),
                                     struct.pack('<B3xIQ', 1 if size == 8 else 0, offset, value)))

    # -- commands with data --

    def data_in(self, opcode, length, *, sgl_type=0x40, **fields):
        """A command that returns data by RDMA Write. Returns (Cqe, bytes)."""
        region = self.conn.register(bytes(length), read=False)
        cqe = self.call(sqe(opcode, self.next_cid(),
                            sgl=keyed_sgl(region.base, length, region.stag, sgl_type), **fields))
        self.last_region = region
        self.conn.deregister(region)
        return cqe, bytes(region.data)

    def data_out(self, opcode, data, *, sgl_type=0x40, in_capsule=False, **fields):
        cid = self.next_cid()
        if in_capsule:
            return self.call(sqe(opcode, cid, sgl=offset_sgl(0, len(data)), **fields) + data)
        region = self.conn.register(data, write=False)
        cqe = self.call(sqe(opcode, cid,
                            sgl=keyed_sgl(region.base, len(data), region.stag, sgl_type), **fields))
        self.last_region = region
        self.conn.deregister(region)
        return cqe

    def read_blocks(self, nsid, slba, count, block=512, **kw):
        return self.data_in(NVM_READ, count * block, nsid=nsid, cdw10=slba & 0xFFFFFFFF,
                            cdw11=slba >> 32, cdw12=count - 1, **kw)

    # -- the names of lib_host.py's Queue, for tests that run with either --

    def post_io(self, opcode, nsid, slba, data, block, fua=False):
        region, cid = self.conn.register(data), self.next_cid()
        self.post(sqe(opcode, cid, nsid=nsid, cdw10=slba & 0xFFFFFFFF, cdw11=slba >> 32,
                      cdw12=(len(data) // block - 1) | (1 << 30 if fua else 0),
                      sgl=keyed_sgl(region.base, len(data), region.stag)))
        return Pending(self, cid, region)

    def post_read(self, nsid, slba, count, block=512):
        return self.post_io(NVM_READ, nsid, slba, bytes(count * block), block)

    def post_write(self, nsid, slba, data, block=512, *, fua=False):
        return self.post_io(NVM_WRITE, nsid, slba, data, block, fua)

    def flush(self, nsid):
        return self.call(sqe(FLUSH, self.next_cid(), nsid=nsid))

    def wait_closed(self):
        self.conn.wait_closed()

    def write_blocks(self, nsid, slba, data, block=512, *, fua=False, **kw):
        return self.data_out(NVM_WRITE, data, nsid=nsid, cdw10=slba & 0xFFFFFFFF, cdw11=slba >> 32,
                             cdw12=(len(data) // block - 1) | (1 << 30 if fua else 0), **kw)

    def identify(self, cns, nsid=0, **kw):
        return self.data_in(IDENTIFY, 4096, nsid=nsid, cdw10=cns, **kw)

    def get_log(self, lid, length, *, nsid=0xFFFFFFFF, offset=0):
        numd = length // 4 - 1
        return self.data_in(GET_LOG, length, nsid=nsid, cdw10=lid | (numd & 0xFFFF) << 16,
                            cdw11=numd >> 16, cdw12=offset & 0xFFFFFFFF, cdw13=offset >> 32)

    def set_features(self, fid, value):
        return self.call(sqe(SET_FEATURES, self.next_cid(), cdw10=fid, cdw11=value))

    def get_features(self, fid):
        return self.call(sqe(GET_FEATURES, self.next_cid(), cdw10=fid))


class Pending:
    """A command in flight, and its data."""

    def __init__(self, queue, cid, region):
        self.queue, self.cid, self.region = queue, cid, region

    def wait(self):
        cqe = self.queue.wait(self.cid)
        self.queue.conn.deregister(self.region)
        return cqe

    @property
    def data(self):
        return bytes(self.region.data)


class Rejected(iw.PeerError):
    def __init__(self, reply):
        self.reply = reply
        self.sts = struct.unpack_from('<H', reply.private, 2)[0] if len(reply.private) >= 4 else None
        super().__init__(f'rejected, status {self.sts} ({CM_STATUS.get(self.sts)})')


def expect(cqe, status=SUCCESS):
    if cqe.status != status:
        raise AssertionError(f'status {cqe.status:#05x} (dword 0 {cqe.dw0:#010x}), '
                             f'expected {status:#05x}')
    return cqe


def expect_data(answer, status=SUCCESS):
    """Of (Cqe, bytes), as data_in() returns them."""
    expect(answer[0], status)
    return answer[1]


class Host:
    """The queues of a controller, created as the Linux host creates them."""
    queue_class = Queue

    def __init__(self, addr, port, subnqn, *, hostnqn=HOST_NQN, kato=0, **kw):
        self.addr, self.port, self.subnqn, self.hostnqn, self.kw = addr, port, subnqn, hostnqn, kw
        self.kato = kato
        self.io = []
        self.admin = self.queue_class.dial(addr, port, **kw)
        self.cntlid = None

    def data(self, **kw):
        return connect_data(self.subnqn, self.hostnqn, **kw)

    def connect(self):
        cqe = expect(self.admin.fabrics_connect(self.data(), kato=self.kato))
        self.cntlid = cqe.dw0 & 0xFFFF
        return self

    def enable(self):
        """Connect and enable; leaves CSTS.RDY set."""
        self.connect()
        expect(self.admin.property_set(CC, 0x00460000))
        expect(self.admin.property_set(CC, 0x00460001))
        while not expect(self.admin.property_get(CSTS)).dw0 & 1:
            pass  # each turn is a round trip to the target
        return self

    def add_io(self, *, depth=32, in_capsule=True, qid=None):
        qid = qid or len(self.io) + 1
        queue = self.queue_class.dial(self.addr, self.port, qid, depth=depth, **self.kw)
        try:
            expect(queue.fabrics_connect(self.data(cntlid=self.cntlid), in_capsule=in_capsule))
        except BaseException:
            queue.close()
            raise
        self.io.append(queue)
        return queue

    def shutdown(self):
        expect(self.admin.property_set(CC, 0x00464001))
        while expect(self.admin.property_get(CSTS)).dw0 >> 2 & 3 != 2:
            pass

    def close(self, **kw):
        for queue in self.io:
            queue.close(**kw)
        self.admin.close(**kw)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


# ---- target ----

class Stop(Exception):
    """A step of a fake target ends its connection."""


class FakeTarget:
    """A working target with one memory namespace, one thread for each connection.

    Subclasses replace steps: on_mpa(), on_command() and the methods they call. A step may raise Stop to drop the
    connection. Errors of the threads are in .errors; the test must check it.
    """
    subnqn = 'nqn.2024-01.test:fake'
    block = 512
    cap_to = 15  # CAP.TO: time to get ready, in 500 ms

    def __init__(self, addr='127.0.0.1', *, blocks=2048, mdts=5, crc=False, in_capsule=8192):
        self.disk = bytearray(blocks * self.block)
        self.mdts, self.crc, self.in_capsule = mdts, crc, in_capsule
        self.listener = iw.Listener(addr)
        self.addr, self.port = addr, self.listener.port
        self.errors = []
        self.log = []  # (qid, opcode or fctype) of each command
        self.requests = []  # MPA requests
        self._threads = []
        self._conns = []
        self._lock = threading.Lock()
        self._closing = False
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def close(self):
        self._closing = True
        self.listener.sock.shutdown(2)
        self.listener.close()
        for conn in self._conns:
            try:
                conn.sock.shutdown(2)
            except OSError:
                pass
        self._acceptor.join()
        for thread in self._threads:
            thread.join()

    def _accept(self):
        while not self._closing:
            try:
                conn = self.accept()
            except OSError:
                return
            self._conns.append(conn)
            thread = threading.Thread(target=self._serve, args=(conn,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, conn):
        try:
            queue = self.on_mpa(conn)
            while queue:
                self.on_message(queue, conn.recv_message())
        except (Stop, iw.PeerClosed):
            pass
        except Exception as e:  # the thread's end: hand it to the test
            if not self._closing:
                self.errors.append(e)
        finally:
            conn.close()

    # -- steps --

    def accept(self):
        return self.listener.accept(max_ulpdu=16384)

    def on_mpa(self, conn):
        req = conn.recv_mpa(iw.REQ_KEY)
        self.requests.append(req)
        if len(req.private) < 10:
            raise iw.PeerError(f'{len(req.private)} bytes of CM private data')
        recfmt, qid, hrqsize, hsqsize = struct.unpack_from('<HHHH', req.private)
        if recfmt != 0:
            raise iw.PeerError(f'recfmt {recfmt}')
        conn.crc = self.crc or req.crc
        conn.send_raw(self.mpa_reply(req, hsqsize + 1))
        return TargetQueue(conn, qid, hsqsize + 1)

    def mpa_reply(self, req, crqsize):
        p2p = 'A' + ('C' if 'C' in req.p2p else 'D') if 'A' in req.p2p else ''
        return iw.mpa_frame(iw.REP_KEY, cm_accept(crqsize), rev=req.rev, enhanced=req.enhanced,
                            ird=req.ord, ord=min(req.ird, 16), p2p=p2p, crc=self.crc or req.crc)

    def on_message(self, queue, msg):
        if len(msg.data) < 64:
            raise iw.PeerError(f'command capsule of {len(msg.data)} bytes')
        cmd = Command(msg.data)
        with self._lock:
            self.log.append((queue.qid, ('fabrics', cmd.fctype) if cmd.opcode == FABRICS
                             else cmd.opcode))
        if cmd.flags & 0xC0 != PSDT:
            raise iw.PeerError(f'PSDT in flags {cmd.flags:#x}')
        self.on_command(queue, cmd)

    def on_command(self, queue, cmd):
        if cmd.opcode == FABRICS:
            handler = {CONNECT: self.do_connect, PROPERTY_GET: self.do_property_get,
                       PROPERTY_SET: self.do_property_set}.get(cmd.fctype)
        elif queue.qid:
            handler = {NVM_READ: self.do_read, NVM_WRITE: self.do_write,
                       FLUSH: self.do_flush}.get(cmd.opcode)
        else:
            handler = {IDENTIFY: self.do_identify, GET_LOG: self.do_get_log,
                       SET_FEATURES: self.do_set_features, GET_FEATURES: self.do_get_features,
                       KEEP_ALIVE: self.do_flush, AER: self.do_aer}.get(cmd.opcode)
        if handler:
            handler(queue, cmd)
        else:
            self.respond(queue, cmd, INVALID_OPCODE)

    def respond(self, queue, cmd, status=SUCCESS, result=0, *, dnr=True):
        queue.sqhd = (queue.sqhd + 1) % queue.depth
        field = status << 1 | (0x8000 if status and dnr else 0)
        cqe = Cqe(result, queue.sqhd, queue.qid, cmd.cid, field)
        inv = cmd.key if cmd.sgl_type == 0x4F and cmd.length else None
        queue.conn.send(cqe.pack(), inv_stag=inv)

    def fetch(self, queue, cmd):
        if cmd.sgl_type == 0x01:
            return cmd.extra[cmd.addr:cmd.addr + cmd.length]
        return queue.conn.read(cmd.key, cmd.addr, cmd.length)

    def put(self, queue, cmd, data, result=0):
        queue.conn.write(cmd.key, cmd.addr, data[:cmd.length])
        self.respond(queue, cmd, result=result)

    def do_connect(self, queue, cmd):
        data = self.fetch(queue, cmd)
        subnqn = data[256:512].split(b'\0')[0].decode()
        if len(data) != 1024 or subnqn != self.subnqn:
            return self.respond(queue, cmd, CONNECT_PARAM, 0x00010100)
        queue.conn.user = data
        return self.respond(queue, cmd, result=1)

    def do_property_get(self, queue, cmd):
        offset = struct.unpack_from('<I', cmd.raw, 44)[0]
        value = {CAP: 0x20 << 32 | self.cap_to << 24 | 1 << 16 | 127, VS: 0x10400,
                 CC: getattr(self, 'cc', 0), CSTS: self.csts()}.get(offset, 0)
        return self.respond(queue, cmd, result=value)

    def csts(self):
        cc = getattr(self, 'cc', 0)
        return cc & 1 | (2 << 2 if cc >> 14 & 3 else 0)

    def do_property_set(self, queue, cmd):
        offset, value = struct.unpack_from('<IQ', cmd.raw, 44)
        if offset == CC:
            self.cc = value
        return self.respond(queue, cmd)

    def identify_ctrl(self):
        page = bytearray(4096)
        page[4:24] = b'FAKE0001'.ljust(20)
        page[24:64] = b'fake target'.ljust(40)
        page[64:72] = b'1'.ljust(8)
        page[77] = self.mdts
        struct.pack_into('<HI', page, 78, 1, 0x10400)
        page[111] = 1
        struct.pack_into('<H', page, 320, 10)
        page[512], page[513] = 0x66, 0x44
        struct.pack_into('<HI', page, 514, 128, 1)
        page[525] = 1
        struct.pack_into('<I', page, 536, 0x00100005)
        page[768:1024] = self.subnqn.encode().ljust(256, b'\0')
        struct.pack_into('<IIHBB', page, 1792, (64 + self.in_capsule) // 16, 1, 0, 0, 1)
        return bytes(page)

    def identify_ns(self):
        page = bytearray(4096)
        blocks = len(self.disk) // self.block
        struct.pack_into('<QQQ', page, 0, blocks, blocks, blocks)
        struct.pack_into('<HBB', page, 128, 0, self.block.bit_length() - 1, 0)
        return bytes(page)

    def do_identify(self, queue, cmd):
        cns = cmd.cdw10 & 0xFF
        if cns == 0:
            if cmd.nsid != 1:
                return self.respond(queue, cmd, INVALID_NS)
            return self.put(queue, cmd, self.identify_ns())
        if cns == 1:
            return self.put(queue, cmd, self.identify_ctrl())
        if cns == 2:
            page = struct.pack('<I', 1) if cmd.nsid < 1 else b''
            return self.put(queue, cmd, page.ljust(4096, b'\0'))
        if cns == 3:
            return self.put(queue, cmd, (b'\x03\x10\0\0' + bytes(range(16))).ljust(4096, b'\0'))
        return self.respond(queue, cmd, INVALID_FIELD)

    def do_get_log(self, queue, cmd):
        return self.put(queue, cmd, bytes(cmd.length))

    def do_set_features(self, queue, cmd):
        return self.respond(queue, cmd, result=cmd.cdw11 if cmd.cdw10 & 0xFF == 7 else 0)

    def do_get_features(self, queue, cmd):
        return self.respond(queue, cmd)

    def do_flush(self, queue, cmd):
        return self.respond(queue, cmd)

    def do_aer(self, queue, cmd):
        """Stays outstanding."""

    def span(self, cmd):
        start = cmd.cdw10 | cmd.cdw11 << 32
        return start * self.block, ((cmd.cdw12 & 0xFFFF) + 1) * self.block

    def do_read(self, queue, cmd):
        start, length = self.span(cmd)
        if start + length > len(self.disk):
            return self.respond(queue, cmd, LBA_RANGE)
        return self.put(queue, cmd, bytes(self.disk[start:start + length]))

    def do_write(self, queue, cmd):
        start, length = self.span(cmd)
        if start + length > len(self.disk):
            return self.respond(queue, cmd, LBA_RANGE)
        data = self.fetch(queue, cmd)
        with self._lock:
            self.disk[start:start + length] = data
        return self.respond(queue, cmd)


class TargetQueue:
    def __init__(self, conn, qid, depth):
        self.conn, self.qid, self.depth, self.sqhd = conn, qid, depth, 0


class Command:
    """A parsed command capsule."""

    def __init__(self, raw):
        self.raw, self.extra = raw[:64], raw[64:]
        self.opcode, self.flags, self.cid, self.nsid = struct.unpack_from('<BBHI', raw)
        self.fctype = raw[4]
        self.sgl_type = raw[39]
        self.addr = struct.unpack_from('<Q', raw, 24)[0]
        if self.sgl_type in (0x40, 0x4F):
            self.length = int.from_bytes(raw[32:35], 'little')
            self.key = struct.unpack_from('<I', raw, 35)[0]
        else:
            self.length, self.key = struct.unpack_from('<I', raw, 32)[0], 0
        (self.cdw10, self.cdw11, self.cdw12, self.cdw13, self.cdw14,
         self.cdw15) = struct.unpack_from('<6I', raw, 40)


