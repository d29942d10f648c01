# SPDX-License-Identifier: BSD-3-Clause
"""The I/O commands on a real daemon, each backend: their effect on the disk, the published limits, and lists of keyed
descriptors on the wire."""

import os
import struct
import sys

import nvmf_peer as nv
from t_loop import NQN, each, main, requires_engine, test
from t_serving import host

BLOCK = 512
COMPARE, WRITE_UNCOR, WRITE_ZEROES, DSM, VERIFY, COPY = 5, 4, 8, 9, 0x0C, 0x19
FUSED_FAILED, FUSED_MISSING, AWU_EXCEEDED, SGL_COUNT, SGL_LAST = 0x09, 0x0A, 0x14, 0x0E, 0x0D
SIZE_LIMIT, OVERLAP, READ_ERROR, MISCOMPARE = 0x183, 0x187, 0x281, 0x285
FUA, DEAC = 1 << 30, 1 << 25

BACKENDS = (('memory', {'backend': 'memory', 'size': '16MiB'}),
            ('io_uring', {'engine': 'io_uring', 'size': '16MiB'}),
            ('aio', {'engine': 'aio', 'size': '16MiB'}))


class Io:
    """A host with one I/O queue on namespace 1, and its Identify data."""

    def __init__(self, t, keys, **target):
        if 'engine' in keys:
            requires_engine(keys['engine'])
        self.target = t.target([t.namespace(**keys)], target=target)
        self.host = nv.Host(self.target.addr, self.target.port, NQN).enable()
        t.cleanup(self.host.close)
        self.q = self.host.add_io()
        self.ctrl = nv.expect_data(self.host.admin.identify(1))
        self.ns = nv.expect_data(self.host.admin.identify(0, nsid=1))
        self.oncs, self.fuses = struct.unpack_from('<HH', self.ctrl, 520)

    def put(self, lba, data):
        nv.expect(self.q.write_blocks(1, lba, data))

    def get(self, lba, count):
        return nv.expect_data(self.q.read_blocks(1, lba, count))

    def range(self, opcode, lba, count, bits=0):
        return self.q.call(nv.sqe(opcode, self.q.next_cid(), nsid=1, cdw10=lba & 0xFFFFFFFF,
                                  cdw11=lba >> 32, cdw12=count - 1 | bits))

    def compare(self, lba, data, **kw):
        return self.q.data_out(COMPARE, data, nsid=1, cdw10=lba, cdw12=len(data) // BLOCK - 1, **kw)

    def copy(self, dst, ranges, fmt=0):
        data = b''.join(struct.pack('<8xQH', slba, count - 1).ljust(40 if fmt else 32, b'\0')
                        for slba, count in ranges)
        return self.q.data_out(COPY, data, nsid=1, cdw10=dst, cdw12=len(ranges) - 1 | fmt << 8)


@each(*BACKENDS)
def compare_verify_copy(t, keys):
    io = Io(t, keys)
    data = os.urandom(300 * BLOCK)
    io.put(7, data)
    t.ok(io.oncs & 0x181 == 0x181, f'ONCS {io.oncs:#x} lacks Compare, Verify or Copy')
    for in_capsule, count in ((True, 1), (False, 1), (False, 300)):
        part = data[:count * BLOCK]
        nv.expect(io.compare(7, part, in_capsule=in_capsule))
        nv.expect(io.compare(8, part, in_capsule=in_capsule), MISCOMPARE)
        # In each of the pieces that the target reads.
        for at in sorted({0, 65535, 65536, 66048, 131072, len(part) - 1} & set(range(len(part)))):
            wrong = part[:at] + bytes([part[at] ^ 1]) + part[at + 1:]
            nv.expect(io.compare(7, wrong, in_capsule=in_capsule), MISCOMPARE)
    nv.expect(io.range(VERIFY, 7, 300, FUA))
    for fmt in 0, 1:
        dst = 1000 + fmt * 200
        cqe = nv.expect(io.copy(dst, [(7 + 90, 6), (7, 90), (8, 1)], fmt))
        t.eq(cqe.dw0, 0, 'dword 0')
        t.same(io.get(dst, 97), data[90 * BLOCK:96 * BLOCK] + data[:90 * BLOCK] + data[BLOCK:2 * BLOCK])
    t.same(io.get(7, 300), data)


@each(*BACKENDS[:2])
def zeroes(t, keys):
    io = Io(t, keys)
    io.put(0, b'\xEE' * (200 * BLOCK))
    nv.expect(io.range(WRITE_ZEROES, 3, 10))
    nv.expect(io.range(WRITE_ZEROES, 20, 10, FUA))
    nv.expect(io.range(WRITE_ZEROES, 64, 64, DEAC))
    nv.expect(io.q.data_out(DSM, struct.pack('<IIQIIQ', 0, 8, 128, 0, 8, 160), nsid=1, cdw10=1, cdw11=4))
    want = bytearray(b'\xEE' * (200 * BLOCK))
    for lba, count in (3, 10), (20, 10), (64, 64), (128, 8), (160, 8):
        want[lba * BLOCK:(lba + count) * BLOCK] = bytes(count * BLOCK)
    t.same(io.get(0, 200), bytes(want))


@test
def a_read_only_namespace_takes_no_command_from_the_others(t):
    def namespaces(*extra):
        return [t.namespace(1, backend='memory'), *extra]
    target = t.target(namespaces())
    with host(target) as h:
        h.enable()
        io = h.add_io()

        def change(nsid):
            return [io.call(nv.sqe(opcode, io.next_cid(), nsid=nsid, cdw12=7)).status
                    for opcode in (WRITE_ZEROES, WRITE_UNCOR)]
        t.eq(change(1), [nv.SUCCESS] * 2, 'before')
        t.config(namespaces(t.namespace(2, backend='memory', read_only=True)))
        t.match('1 namespaces added', target.reload())
        t.eq(change(1), [nv.SUCCESS] * 2, 'beside a read-only namespace')
        t.eq(change(2), [nv.WRITE_PROTECTED] * 2, 'of the read-only namespace')


@test
def published_limits(t):
    """A value beyond each limit is refused, the limit itself is accepted."""
    io = Io(t, BACKENDS[0][1])
    nvm = nv.expect_data(io.host.admin.data_in(nv.IDENTIFY, 4096, cdw10=6))
    vsl, wzsl, _, dmrl, dmrsl, dmsl = struct.unpack_from('<BBBBIQ', nvm)
    mssrl, mcl, msrc = struct.unpack_from('<HIB', io.ns, 74)
    t.ok(all((vsl, wzsl, dmrl, dmrsl, dmsl, mssrl, mcl, msrc)), 'a limit is not published')
    for opcode, power in (VERIFY, vsl), (WRITE_ZEROES, wzsl):
        most = min(4096 << power, 16 << 20) // BLOCK
        nv.expect(io.range(opcode, 0, most))
        nv.expect(io.range(opcode, 0, most + 1), nv.INVALID_FIELD if most << 9 == 4096 << power
                  else nv.LBA_RANGE)
    ranges = struct.pack('<IIQ', 0, 1, 5)
    nv.expect(io.q.data_out(DSM, ranges * dmrl, nsid=1, cdw10=dmrl - 1, cdw11=4))
    nv.expect(io.q.data_out(DSM, ranges * (dmrl + 1), nsid=1, cdw10=dmrl, cdw11=4), SIZE_LIMIT)
    nv.expect(io.q.data_out(DSM, struct.pack('<IIQ', 0, dmrsl + 1, 0), nsid=1, cdw11=4), SIZE_LIMIT)
    nv.expect(io.copy(20000, [(0, mssrl)]))
    nv.expect(io.copy(20000, [(0, mssrl + 1)]), SIZE_LIMIT)
    nv.expect(io.copy(20000, [(0, 1)] * (msrc + 1)))
    nv.expect(io.copy(20000, [(0, 1)] * (msrc + 2)), SIZE_LIMIT)
    whole = [(0, mssrl)] * (mcl // mssrl)
    nv.expect(io.copy(20000, whole))
    nv.expect(io.copy(20000, [*whole, (0, 1)]), SIZE_LIMIT)
    nv.expect(io.copy(100, [(99, 2)]), OVERLAP)


@test
def uncorrectable(t):
    io = Io(t, BACKENDS[0][1])
    t.ok(io.oncs & 2, 'ONCS: Write Uncorrectable')
    data = os.urandom(10 * BLOCK)
    io.put(50, data)
    nv.expect(io.range(WRITE_UNCOR, 53, 2))
    cqe, _ = io.q.read_blocks(1, 50, 10)
    nv.expect(cqe, READ_ERROR)
    nv.expect(io.range(VERIFY, 50, 10), READ_ERROR)
    nv.expect(io.compare(54, data[4 * BLOCK:5 * BLOCK]), READ_ERROR)
    t.same(io.get(50, 3), data[:3 * BLOCK])
    io.put(53, data[3 * BLOCK:5 * BLOCK])
    t.same(io.get(50, 10), data)
    # Marks in memory would not exist as long as a file does, so they are not offered for files.
    other = Io(t, {'engine': 'io_uring', 'size': '1MiB'})
    t.eq(other.oncs & 2, 0, 'ONCS of a file')
    nv.expect(other.range(WRITE_UNCOR, 0, 1), nv.INVALID_OPCODE)


def fused(io, lba, old, new, *, in_capsule=False, second=True, cdw12=None):
    """Returns the two answers, or that of the first."""
    cids, regions = [], []
    for opcode, flags, data in (COMPARE, 0x41, old), (nv.NVM_WRITE, 0x42, new):
        if opcode == nv.NVM_WRITE and not second:
            break
        cids.append(io.q.next_cid())
        fields = {'nsid': 1, 'flags': flags, 'cdw10': lba, 'cdw12': len(data) // BLOCK - 1}
        if in_capsule:
            io.q.post(nv.sqe(opcode, cids[-1], sgl=nv.offset_sgl(0, len(data)), **fields) + data)
        else:
            region = io.q.conn.register(data, write=False)
            regions.append(region)
            io.q.post(nv.sqe(opcode, cids[-1], **fields,
                             sgl=nv.keyed_sgl(region.base, len(data), region.stag)))
    answers = [io.q.wait(cid) for cid in cids] if second else []
    for region in regions:
        io.q.conn.deregister(region)
    return answers if second else cids[0]


@each(*BACKENDS)
def compare_and_write(t, keys):
    io = Io(t, keys)
    t.ok(io.fuses & 1, 'FUSES')
    acwu = struct.unpack_from('<H', io.ctrl, 532)[0] + 1
    old, new = bytes(acwu * BLOCK), os.urandom(acwu * BLOCK)
    for in_capsule, count in ((True, 1), (False, 1), (False, acwu)):
        a, b = old[:count * BLOCK], new[:count * BLOCK]
        io.put(9, a)
        t.eq([c.status for c in fused(io, 9, a, b, in_capsule=in_capsule)], [0, 0], 'status')
        t.same(io.get(9, count), b)
        t.eq([c.status for c in fused(io, 9, a, a, in_capsule=in_capsule)],
             [MISCOMPARE, FUSED_FAILED], 'status')
        t.same(io.get(9, count), b)
    more = bytes((acwu + 1) * BLOCK)
    t.eq([c.status for c in fused(io, 9, more, more)], [AWU_EXCEEDED, FUSED_FAILED], 'status')
    cid = fused(io, 9, old[:BLOCK], new[:BLOCK], in_capsule=True, second=False)
    nv.expect(io.q.call(nv.sqe(nv.FLUSH, io.q.next_cid(), nsid=1)))
    nv.expect(io.q.wait(cid), FUSED_MISSING)
    io.target.stop()


def sgl_list(descs):
    return nv.offset_sgl(0, len(descs) * 16, 0x31), b''.join(descs)


@each(('depth 1', 1), ('depth 4', 4), ('depth 64', 64))
def descriptor_lists(t, ird):
    """Sixteen keys for one command, in order and out of order, beyond the READ depth or not."""
    target = t.target([t.namespace(backend='memory', size='1MiB')])
    with nv.Host(target.addr, target.port, NQN, ird=ird).enable() as host:
        ctrl = nv.expect_data(host.admin.identify(1))
        msdbd = ctrl[1803]
        t.eq(msdbd, 16, 'MSDBD')
        q = host.add_io()
        data = os.urandom(64 * BLOCK)
        cuts = sorted({0, 1, 600, 4096, len(data), *(k * 2000 for k in range(1, 12))})
        parts = [data[a:b] for a, b in zip(cuts, cuts[1:])]
        regions = [q.conn.register(part, write=False) for part in parts]
        descs = [nv.keyed_sgl(r.base, len(p), r.stag) for r, p in zip(regions, parts)]
        descs.insert(3, nv.keyed_sgl(0, 0, 0))
        t.ok(len(descs) <= msdbd, 'too many parts')
        sgl, extra = sgl_list(descs)
        nv.expect(q.call(nv.sqe(nv.NVM_WRITE, q.next_cid(), nsid=1, sgl=sgl, cdw12=63) + extra))
        cqe, got = q.read_blocks(1, 0, 64)
        nv.expect(cqe)
        t.same(got, data)
        regions = [q.conn.register(bytes(len(part)), read=False) for part in parts]
        sgl, extra = sgl_list([nv.keyed_sgl(r.base, len(p), r.stag) for r, p in zip(regions, parts)])
        nv.expect(q.call(nv.sqe(nv.NVM_READ, q.next_cid(), nsid=1, sgl=sgl, cdw12=63) + extra))
        t.same(b''.join(bytes(r.data) for r in regions), data)


@test
def list_invalidation(t):
    """One requested key is invalidated. Of several requested keys none is; the host invalidates them."""
    io = Io(t, BACKENDS[0][1])
    for asks in (0,), (1,), (0, 1), ():
        regions = [io.q.conn.register(bytes(256), write=False) for _ in range(2)]
        sgl, extra = sgl_list([nv.keyed_sgl(r.base, 256, r.stag, 0x4F if i in asks else 0x40)
                               for i, r in enumerate(regions)])
        cqe = nv.expect(io.q.call(nv.sqe(nv.NVM_WRITE, io.q.next_cid(), nsid=1, sgl=sgl) + extra))
        t.eq(cqe.inv_stag, regions[asks[0]].stag if len(asks) == 1 else None, f'key of {asks}')


@test
def bad_lists(t):
    io = Io(t, BACKENDS[0][1], sgl_descriptors=4)
    t.eq(io.ctrl[1803], 4, 'MSDBD')
    desc = nv.keyed_sgl(0, 128, 1)
    for length, extra, want in ((64 + 16, desc * 5, SGL_COUNT), (8, desc, SGL_LAST), (0, desc, SGL_LAST),
                                (64, desc * 3, SGL_LAST), (32, desc * 2, nv.SGL_DATA_LENGTH),
                                (16, nv.offset_sgl(0, 512, 0x31), nv.SGL_TYPE),
                                (16, nv.offset_sgl(0, 512, 0x01), nv.INVALID_FIELD)):
        nv.expect(io.q.call(nv.sqe(nv.NVM_WRITE, io.q.next_cid(), nsid=1,
                                   sgl=nv.offset_sgl(0, length, 0x31)) + extra), want)
    one = Io(t, BACKENDS[0][1], sgl_descriptors=1)
    t.eq(one.ctrl[1803], 1, 'MSDBD')
    nv.expect(one.q.call(nv.sqe(nv.NVM_WRITE, one.q.next_cid(), nsid=1,
                                sgl=nv.offset_sgl(0, 16, 0x31)) + desc), nv.SGL_TYPE)


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp',)))
