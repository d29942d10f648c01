# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that use RDMA correctly and NVMe wrongly: each gets the status that the specification names, and can
continue."""

import struct
import sys

import iwarp_peer as iw
import nvmf_peer as nv
from t_loop import NQN, each, main, test
from t_serving import Baseline, host

OTHER_HOST = 'nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555'
BLOCKS = 32768  # of the 16 MiB namespace


def memory_target(t, **kw):
    return t.target([t.namespace(backend='memory')], **kw)


def check(t, cqe, status, dw0=None, dnr=None):
    t.eq(hex(cqe.status), hex(status), 'status')
    if dw0 is not None:
        t.eq(f'{cqe.dw0:#010x}', f'{dw0:#010x}', 'dword 0 (IATTR, IPO)')
    if dnr is not None:
        t.eq(cqe.dnr, dnr, 'DNR')


# ---- Connect ----

@each(('an unknown subsystem NQN', {'subnqn': 'nqn.2024-01.test:none'}, {}, nv.CONNECT_PARAM,
       0x00010100),
      ('an empty subsystem NQN', {'subnqn': ''}, {}, nv.CONNECT_PARAM, 0x00010100),
      ('a subsystem NQN without an end', {'subnqn': b'n' * 256}, {}, nv.CONNECT_PARAM, 0x00010100),
      ('a host NQN without an end', {'hostnqn': b'n' * 256}, {}, nv.CONNECT_PARAM, 0x00010200),
      ('a static controller ID', {'cntlid': 5}, {}, nv.CONNECT_PARAM, 0x00010010),
      ('another QID than the connection', {}, {'qid': 3}, nv.CONNECT_PARAM, 0x0000002A),
      ('queue size 0', {}, {'sqsize': 0}, nv.CONNECT_PARAM, 0x0000002C),
      ('a queue larger than the connection', {}, {'sqsize': 4095}, nv.CONNECT_PARAM, 0x0000002C),
      ('record format 1', {}, {'recfmt': 1}, nv.CONNECT_FORMAT, None))
def admin_connect_refused(t, data, body, status, dw0):
    target = memory_target(t)
    with Baseline(target):
        data = {'subnqn': NQN, **data}
        with nv.Queue.dial(target.addr, target.port) as queue:
            cqe = queue.fabrics_connect(nv.connect_data(**data), **body)
            check(t, cqe, status, dw0, True)
            # The queue is still there for a better Connect.
            nv.expect(queue.fabrics_connect(nv.connect_data(NQN)))


@test
def admin_connect_refused_for_a_host_that_is_not_listed(t):
    """With the same answer as for an unknown subsystem."""
    target = memory_target(t, subsystem={'allow_any_host': False, 'hosts': [nv.HOST_NQN]})
    with Baseline(target):
        with nv.Queue.dial(target.addr, target.port) as queue:
            cqe = queue.fabrics_connect(nv.connect_data(NQN, OTHER_HOST))
            check(t, cqe, nv.CONNECT_PARAM, 0x00010100, True)
            nv.expect(queue.fabrics_connect(nv.connect_data(NQN, nv.HOST_NQN)))


@each(('shorter than 1024 bytes', 512), ('empty', 0))
def connect_data_refused(t, length):
    target = memory_target(t)
    with Baseline(target):
        with nv.Queue.dial(target.addr, target.port) as queue:
            cqe = queue.fabrics_connect(nv.connect_data(NQN)[:length])
            check(t, cqe, nv.SGL_DATA_LENGTH)


@test
def admin_connect_with_data_in_the_capsule_works(t):
    """No host needs it, but our RECVs are large enough for every command."""
    target = memory_target(t)
    with Baseline(target):
        with nv.Queue.dial(target.addr, target.port) as queue:
            cqe = queue.fabrics_connect(nv.connect_data(NQN), in_capsule=True)
            nv.expect(cqe)


@test
def connect_twice_is_refused(t):
    target = memory_target(t)
    with Baseline(target):
        with host(target) as h:
            h.enable()
            check(t, h.admin.fabrics_connect(h.data()), nv.SEQUENCE_ERROR)
            queue = h.add_io()
            check(t, queue.fabrics_connect(h.data(cntlid=h.cntlid), in_capsule=True),
                  nv.SEQUENCE_ERROR)
            nv.expect(queue.read_blocks(1, 0, 1)[0])
            h.shutdown()


@each(('a controller that does not exist', {'cntlid': 0x7777}, {}, 0x00010010),
      ('another host NQN', {'hostnqn': OTHER_HOST}, {}, 0x00010200),
      ('another subsystem NQN', {'subnqn': 'nqn.2024-01.test:none'}, {}, 0x00010100),
      ('QID 0', {}, {'qid': 0}, 0x0000002A),
      ('queue size 0', {}, {'sqsize': 0}, 0x0000002C))
def io_connect_refused(t, data, body, dw0):
    target = memory_target(t)
    with Baseline(target):
        with host(target) as h:
            h.enable()
            data = nv.connect_data(**{'subnqn': NQN, 'cntlid': h.cntlid, **data})
            with nv.Queue.dial(target.addr, target.port, 1) as queue:
                check(t, queue.fabrics_connect(data, in_capsule=True, **body), nv.CONNECT_PARAM, dw0,
                      True)
            h.shutdown()


@test
def io_connect_to_a_controller_of_another_host_is_refused(t):
    target = memory_target(t)
    with Baseline(target):
        with host(target) as h, host(target, hostnqn=OTHER_HOST) as other:
            h.enable()
            other.enable()
            with nv.Queue.dial(target.addr, target.port, 1) as queue:
                data = nv.connect_data(NQN, OTHER_HOST, cntlid=h.cntlid)
                check(t, queue.fabrics_connect(data, in_capsule=True), nv.CONNECT_PARAM, 0x00010200,
                      True)


@test
def io_connect_before_enable_is_refused(t):
    target = memory_target(t)
    with Baseline(target):
        with host(target) as h:
            h.connect()
            with nv.Queue.dial(target.addr, target.port, 1) as queue:
                cqe = queue.fabrics_connect(h.data(cntlid=h.cntlid), in_capsule=True)
                check(t, cqe, nv.SEQUENCE_ERROR)


@test
def a_qid_in_use_is_refused(t):
    target = memory_target(t)
    with Baseline(target):
        with host(target) as h:
            h.enable()
            h.add_io(qid=1)
            with nv.Queue.dial(target.addr, target.port, 1) as queue:
                cqe = queue.fabrics_connect(h.data(cntlid=h.cntlid), in_capsule=True)
                check(t, cqe, nv.CONNECT_PARAM, 0x0000002A, True)
            nv.expect(h.io[0].read_blocks(1, 0, 1)[0])
            h.shutdown()


# ---- order ----

@each(('Identify', nv.sqe(nv.IDENTIFY, 1, sgl=nv.keyed_sgl(0x1000, 4096, 0x100), cdw10=1)),
      ('Keep Alive', nv.sqe(nv.KEEP_ALIVE, 1)),
      ('Property Get', nv.fabrics_sqe(nv.PROPERTY_GET, 1, struct.pack('<B3xI', 0, nv.VS))))
def refused_before_connect(t, capsule):
    target = memory_target(t)
    with Baseline(target):
        with nv.Queue.dial(target.addr, target.port) as queue:
            cqe = queue.call(capsule)
            check(t, cqe, nv.SEQUENCE_ERROR, dnr=True)
            nv.expect(queue.fabrics_connect(nv.connect_data(NQN)))


@test
def io_commands_are_refused_before_connect(t):
    target = memory_target(t)
    with Baseline(target):
        with nv.Queue.dial(target.addr, target.port, 1) as queue:
            cqe, _ = queue.read_blocks(1, 0, 1)
            check(t, cqe, nv.SEQUENCE_ERROR, dnr=True)


@test
def admin_commands_are_refused_before_enable(t):
    target = memory_target(t)
    with Baseline(target):
        with host(target) as h:
            h.connect()
            cqe, _ = h.admin.identify(1)
            check(t, cqe, nv.SEQUENCE_ERROR, dnr=True)


@test
def io_commands_are_refused_after_disable(t):
    target = memory_target(t)
    with Baseline(target):
        with host(target) as h:
            h.enable()
            queue = h.add_io()
            nv.expect(h.admin.property_set(nv.CC, 0x00460000))
            while nv.expect(h.admin.property_get(nv.CSTS)).dw0 & 1:
                pass
            try:  # a reset has taken its I/O queues with it
                cqe, _ = queue.read_blocks(1, 0, 1)
            except iw.PeerClosed:
                return
            t.ok(False, f'answered, status {cqe.status:#x}')


# ---- I/O commands ----

def io(t, target, fn):
    with Baseline(target):
        with host(target) as h:
            h.enable()
            queue = h.add_io()
            fn(queue)
            nv.expect(queue.write_blocks(1, 0, bytes(512)))  # the queue goes on
            h.shutdown()


@each(('from the first block behind the end', BLOCKS, 1), ('across the end', BLOCKS - 1, 2),
      ('far behind the end', 1 << 40, 8), ('at the last address', (1 << 64) - 1, 1),
      ('around the last address', (1 << 64) - 4, 8))
def out_of_range(t, slba, count):
    def fn(queue):
        check(t, queue.read_blocks(1, slba, count)[0], nv.LBA_RANGE, dnr=True)
        check(t, queue.write_blocks(1, slba, bytes(count * 512)), nv.LBA_RANGE, dnr=True)
        check(t, queue.write_blocks(1, slba, bytes(count * 512), in_capsule=True), nv.LBA_RANGE)
    io(t, memory_target(t), fn)


@test
def the_last_block_is_in_range(t):
    def fn(queue):
        data = bytes(range(256)) * 2
        nv.expect(queue.write_blocks(1, BLOCKS - 1, data))
        t.same(queue.read_blocks(1, BLOCKS - 1, 1)[1], data)
    io(t, memory_target(t), fn)


@each(('0', 0), ('2', 2), ('0xfffffffe', 0xFFFFFFFE), ('0xffffffff', 0xFFFFFFFF))
def invalid_nsid(t, nsid):
    def fn(queue):
        check(t, queue.read_blocks(nsid, 0, 1)[0], nv.INVALID_NS, dnr=True)
        check(t, queue.write_blocks(nsid, 0, bytes(512)), nv.INVALID_NS, dnr=True)
    io(t, memory_target(t), fn)


def read_with(queue, sgl, *, flags=nv.PSDT, extra=b'', opcode=nv.NVM_READ, nlb=0):
    cid = queue.next_cid()
    return queue.call(nv.sqe(opcode, cid, nsid=1, flags=flags, sgl=sgl, cdw12=nlb) + extra)


@each(('PSDT 0, PRPs', 0x00, nv.INVALID_FIELD), ('PSDT 3', 0xC0, nv.INVALID_FIELD),
      ('fused first', 0x41, nv.INVALID_FIELD), ('fused second', 0x42, nv.INVALID_FIELD),
      ('fused, both', 0x43, nv.INVALID_FIELD))
def flags_refused(t, flags, status):
    def fn(queue):
        region = queue.conn.register(bytes(512))
        sgl = nv.keyed_sgl(region.base, 512, region.stag)
        check(t, read_with(queue, sgl, flags=flags), status)
        t.eq(region.written, 0, 'bytes written')
    io(t, memory_target(t), fn)


@each(('a plain data block', 0x00, nv.INVALID_FIELD), ('a bit bucket', 0x10, nv.SGL_TYPE),
      ('a segment', 0x20, nv.SGL_TYPE), ('a last segment by address', 0x30, nv.SGL_TYPE),
      ('a keyed one of subtype 1', 0x41, nv.INVALID_FIELD), ('a transport one', 0x50, nv.SGL_TYPE),
      ('type F', 0xF0, nv.SGL_TYPE))
def sgl_descriptor_refused(t, sgl_type, status):
    def fn(queue):
        region = queue.conn.register(bytes(512))
        for opcode in (nv.NVM_READ, nv.NVM_WRITE):
            cqe = read_with(queue, nv.keyed_sgl(region.base, 512, region.stag, sgl_type),
                            opcode=opcode)
            check(t, cqe, status, dnr=True)
        t.eq(region.written, 0, 'bytes written')
    io(t, memory_target(t), fn)


@test
def in_capsule_data_for_a_read_is_refused(t):
    def fn(queue):
        cqe = read_with(queue, nv.offset_sgl(0, 512), extra=bytes(512))
        check(t, cqe, nv.INVALID_FIELD, dnr=True)
    io(t, memory_target(t), fn)


@each(('an offset behind the capsule', 16384, 512, 512, nv.SGL_OFFSET),
      ('an offset near 2^64', (1 << 64) - 512, 512, 512, nv.SGL_OFFSET),
      ('a length behind the capsule', 0, 16384, 8192, nv.SGL_DATA_LENGTH),
      ('offset and length across the end', 8192 - 512, 1024, 8192,
       nv.SGL_DATA_LENGTH),
      ('more data than was sent', 0, 4096, 512, nv.SGL_DATA_LENGTH),
      ('no data sent at all', 0, 4096, 0, nv.SGL_DATA_LENGTH))
def in_capsule_data_refused(t, offset, length, sent, status):
    def fn(queue):
        marker = b'\xA5' * length if length <= 8192 else None
        if marker:
            nv.expect(queue.write_blocks(1, 0, marker))
        cqe = read_with(queue, nv.offset_sgl(offset, length), opcode=nv.NVM_WRITE,
                        extra=bytes(sent), nlb=length // 512 - 1)
        check(t, cqe, status, dnr=True)
        if marker:
            t.same(queue.read_blocks(1, 0, length // 512)[1], marker)
    io(t, memory_target(t), fn)


@each(('shorter', 512, 7), ('longer', 8192, 7))
def data_length_that_differs_from_the_block_count_is_refused(t, length, nlb):
    def fn(queue):
        region = queue.conn.register(bytes(max(length, (nlb + 1) * 512)))
        cqe = read_with(queue, nv.keyed_sgl(region.base, length, region.stag), nlb=nlb)
        check(t, cqe, nv.SGL_DATA_LENGTH, dnr=True)
        cqe = read_with(queue, nv.keyed_sgl(region.base, length, region.stag), nlb=nlb,
                        opcode=nv.NVM_WRITE)
        check(t, cqe, nv.SGL_DATA_LENGTH, dnr=True)
        t.eq(region.written, 0, 'bytes written')
    io(t, memory_target(t), fn)


@test
def a_transfer_beyond_mdts_is_refused(t):
    target = memory_target(t, target={'max_data_size': '64KiB'})

    def fn(queue):
        nv.expect(queue.read_blocks(1, 0, 128)[0])
        check(t, queue.read_blocks(1, 0, 136)[0], nv.INVALID_FIELD, dnr=True)
        check(t, queue.write_blocks(1, 0, bytes(136 * 512)), nv.INVALID_FIELD, dnr=True)
    io(t, target, fn)


@test
def unknown_opcodes_are_refused(t):
    def fn(queue):
        for opcode in (0x03, 0x33, 0x7E, 0x80, 0xFF):
            check(t, queue.call(nv.sqe(opcode, queue.next_cid(), nsid=1)), nv.INVALID_OPCODE, dnr=True)
    io(t, memory_target(t), fn)


@test
def unknown_admin_and_fabrics_commands_are_refused(t):
    target = memory_target(t)
    with Baseline(target):
        with host(target) as h:
            h.enable()
            for opcode in (0x00, 0x01, 0x04, 0x05, 0x10, 0x80, 0xC0, 0xFF):
                cqe = h.admin.call(nv.sqe(opcode, h.admin.next_cid()))
                check(t, cqe, nv.INVALID_OPCODE, dnr=True)
            for fctype in (2, 3, 9, 0xFF):
                cqe = h.admin.call(nv.fabrics_sqe(fctype, h.admin.next_cid(), b''))
                check(t, cqe, nv.INVALID_OPCODE, dnr=True)
            h.shutdown()


@each(('Identify with an unknown CNS', dict(opcode=nv.IDENTIFY, cdw10=0x7F), 4096, nv.INVALID_FIELD),
      ('Identify of namespace 9', dict(opcode=nv.IDENTIFY, cdw10=3, nsid=9), 4096, nv.INVALID_NS),
      ('an unknown log page', dict(opcode=nv.GET_LOG, cdw10=0xEE | 127 << 16), 512,
       nv.INVALID_LOG_PAGE),
      ('a log page behind its end', dict(opcode=nv.GET_LOG, cdw10=2 | 127 << 16, cdw12=65536), 512,
       nv.INVALID_FIELD),
      ('a log page offset of 2', dict(opcode=nv.GET_LOG, cdw10=2 | 127 << 16, cdw12=2), 512,
       nv.INVALID_FIELD))
def admin_command_refused(t, fields, length, status):
    target = memory_target(t)
    with Baseline(target):
        with host(target) as h:
            h.enable()
            cqe, data = h.admin.data_in(fields.pop('opcode'), length, **fields)
            check(t, cqe, status, dnr=True)
            t.eq(data, bytes(length), 'data')
            h.shutdown()


@each(('Set Features', nv.SET_FEATURES), ('Get Features', nv.GET_FEATURES))
def unknown_feature_refused(t, opcode):
    target = memory_target(t)
    with Baseline(target):
        with host(target) as h:
            h.enable()
            cqe = h.admin.call(nv.sqe(opcode, h.admin.next_cid(), cdw10=0xBF))
            check(t, cqe, nv.INVALID_FIELD, dnr=True)
            h.shutdown()


@test
def property_rules(t):
    target = memory_target(t)
    with Baseline(target):
        with host(target) as h:
            h.enable()
            for offset, size in ((0x04, 4), (0x30, 4), (0xFFFF0, 4), (nv.CC, 8), (nv.CAP, 4)):
                check(t, h.admin.property_get(offset, size), nv.INVALID_FIELD, dnr=True)
            for offset in (nv.CAP, nv.VS, nv.CSTS, 0x30):
                check(t, h.admin.property_set(offset, 1), nv.INVALID_FIELD, dnr=True)
            queue = h.add_io()
            check(t, queue.property_get(nv.CSTS), nv.INVALID_OPCODE, dnr=True)
            t.eq(nv.expect(h.admin.property_get(nv.CC)).dw0, 0x00460001, 'CC')
            h.shutdown()


@each(('a wrong key', lambda r: nv.keyed_sgl(r.base, 4096, r.stag ^ 0x10)),
      ('a buffer that is too short', lambda r: nv.keyed_sgl(r.base + 3584, 4096, r.stag)))
def the_hosts_own_protection_ends_only_its_queue(t, sgl):
    """The target reads or writes as told; the host's adapter refuses with a Terminate."""
    target = memory_target(t)
    with Baseline(target):
        for opcode in (nv.NVM_READ, nv.NVM_WRITE):
            with host(target) as h:
                h.enable()
                queue = h.add_io()
                region = queue.conn.register(bytes(4096))
                queue.post(nv.sqe(opcode, 7, nsid=1, sgl=sgl(region), cdw12=7))
                try:
                    queue.wait(7)
                except iw.PeerError:
                    queue.conn.terminate(1, 1, 0)
                    queue.close()
                    nv.expect(h.admin.call(nv.sqe(nv.KEEP_ALIVE, h.admin.next_cid())))
                    h.shutdown()
                else:
                    t.ok(False, 'the access did not happen')


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp',)))
