# SPDX-License-Identifier: BSD-3-Clause
"""Layers that delay and fail on purpose, seen by a host; and what block devices return."""

import os
import struct
import sys
import time

import nvmf_peer as nv
from t_loop import ENGINE, each, main, requires_engine, test, wait_for
from t_serving import host
from t_storage import DSM, MIB, WRITE_ZEROES, as_root, loop_device, pattern

UNRECOVERED_READ, CAPACITY_EXCEEDED = 0x281, 0x081
DEAC = 1 << 25


def serve(t, *layers, **keys):
    ns = t.namespace(1, **{'backend': 'memory', **keys})
    ns['layers'] = list(layers)
    return t.target([ns, t.namespace(2, backend='memory')])


def deallocate(queue, nsid, slba, count):
    return queue.data_out(DSM, struct.pack('<IIQ', 0, count, slba), nsid=nsid, cdw10=0, cdw11=4)


# ---- error ----

@test
def errors_are_told_with_their_status(t):
    target = serve(t, {'type': 'error', 'ops': ['read'], 'first_block': 100, 'blocks': 8},
                   {'type': 'error', 'ops': ['write'], 'first_block': 200, 'blocks': 8,
                    'error': 'ENOSPC'},
                   {'type': 'error', 'first_block': 300, 'blocks': 8, 'status': '0x282'})
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        t.eq(queue.read_blocks(1, 96, 8)[0].status, UNRECOVERED_READ)
        t.eq(queue.read_blocks(1, 92, 8)[0].status, 0)
        t.eq(queue.write_blocks(1, 104, bytes(512)).status, 0)
        t.eq(queue.write_blocks(1, 207, bytes(512)).status, CAPACITY_EXCEEDED)
        t.eq(queue.read_blocks(1, 207, 1)[0].status, 0)
        for status in (queue.read_blocks(1, 300, 1)[0].status,
                       queue.write_blocks(1, 300, bytes(512)).status):
            t.eq(status, 0x282, 'a status of its own')
        t.eq(queue.read_blocks(2, 100, 8)[0].status, 0, 'the other namespace')
        h.shutdown()


@each(('memory', {}), ('null', {'backend': 'null', 'size': '16MiB'}))
def flush_fails_without_a_cache_too(t, keys):
    """The namespace has a volatile write cache then, so that hosts send Flush."""
    target = serve(t, {'type': 'error', 'ops': ['flush'], 'count': 1}, **keys)
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        t.eq(h.admin.identify(1)[1][525] & 1, 1, 'a volatile write cache is present')
        t.ok(queue.flush(1).status, 'a Flush fails')
        t.eq(queue.flush(2).status, 0, 'of the other namespace')
        h.shutdown()


# ---- delay ----

@each(('memory', {}), ('file', {'backend': 'file', 'engine': ENGINE}))
def a_slow_backend_holds_up_only_its_own(t, keys):
    """Reads of one namespace take 300 ms; their data is right, and no other command waits."""
    target = serve(t, {'type': 'delay', 'read': '300ms'}, **keys)
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        data = pattern(2, 4096)
        nv.expect(queue.write_blocks(1, 0, data))
        region = queue.conn.register(bytes(4096), read=False)
        cid = queue.next_cid()
        start = time.monotonic()
        queue.post(nv.sqe(nv.NVM_READ, cid, nsid=1, cdw12=7,
                          sgl=nv.keyed_sgl(region.base, 4096, region.stag)))
        for _ in range(20):
            nv.expect(queue.read_blocks(2, 0, 8)[0])
        t.ok(cid not in queue._stash, 'the slow read was as fast as 20 others')
        nv.expect(queue.wait(cid))
        t.ok(time.monotonic() - start >= 0.3, 'the read did not take its time')
        t.same(bytes(region.data), data)
        h.shutdown()


@each(('of the I/O queue', 'io', False), ('of the admin queue', 'admin', False), ('by a reset', 'io', True))
def the_end_of_a_connection_ends_slow_commands(t, which, reset):
    target = serve(t, {'type': 'delay', 'write': '1h', 'read': '1h'})
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        for n in range(8):
            region = queue.conn.register(bytes(512), read=False)
            sgl, data = ((nv.offset_sgl(0, 512), bytes(512)) if n & 1 else
                         (nv.keyed_sgl(region.base, 512, region.stag), b''))
            queue.post(nv.sqe(nv.NVM_WRITE if n & 1 else nv.NVM_READ, queue.next_cid(), nsid=1, sgl=sgl) + data)
        nv.expect(queue.read_blocks(2, 0, 1)[0])  # by now they are in the backend
        t.ok(target.counters()['requests'] >= 8, 'the slow commands are gone already')
        (queue if which == 'io' else h.admin).close(reset=reset)
        wait_for(lambda: not target.counters()['io_queues'], 'the queue to be let go')
        t.eq(target.counters()['buffer_bytes'], 0, 'bytes of buffers in use')


# ---- block devices ----

def blocks_of(path):
    return os.stat(path).st_blocks


@each(('auto', 'auto', True), ('zero', 'zero', True), ('discard', 'discard', False))
def a_block_device_gives_blocks_back(t, how, zeroes):
    requires_engine('io_uring')
    device = loop_device(t)
    data = pattern(3, 4 * MIB)
    target = t.target([t.namespace(backend='block', size=None, path=device, engine='io_uring',
                                   deallocate=how)])
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        page = nv.expect(h.admin.identify(0, 1)[0]) and h.admin.identify(0, 1)[1]
        t.eq(page[33] & 7, 1 if zeroes else 0, 'DLFEAT: what deallocated blocks read as')
        for at in range(0, len(data), 65536):
            nv.expect(queue.write_blocks(1, at // 512, data[at:at + 65536]))
        nv.expect(queue.call(nv.sqe(nv.FLUSH, queue.next_cid(), nsid=1)))
        before = blocks_of(t.path('disk'))
        t.ok(before >= 4 * MIB // 512, 'the written blocks are not there')
        nv.expect(deallocate(queue, 1, 0, 2 * MIB // 512))
        t.ok(blocks_of(t.path('disk')) <= before - 2 * MIB // 512, 'no blocks were given back')
        cqe, got = queue.read_blocks(1, 2 * MIB // 512 - 8, 16)
        nv.expect(cqe)
        t.same(got[4096:], data[2 * MIB:2 * MIB + 4096], 'what is behind')
        if zeroes:
            t.same(got[:4096], bytes(4096), 'deallocated blocks')
        # Write Zeroes writes zeroes, whatever the device does with it.
        nv.expect(queue.call(nv.sqe(WRITE_ZEROES, queue.next_cid(), nsid=1, cdw10=2 * MIB // 512,
                                    cdw12=2047 | DEAC)))
        cqe, got = queue.read_blocks(1, 2 * MIB // 512, 8)
        nv.expect(cqe)
        t.same(got, bytes(4096))
        h.shutdown()
    target.expect('deallocate ' + ('zeroes without allocation' if zeroes else 'discards'))


@test
def a_block_device_keeps_its_blocks_when_told_to(t):
    device = loop_device(t)
    target = t.target([t.namespace(backend='block', size=None, path=device, engine=ENGINE,
                                   deallocate='off')])
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        t.eq(deallocate(queue, 1, 0, 8).status, nv.INVALID_OPCODE)
        page = nv.expect(h.admin.identify(1)[0]) and h.admin.identify(1)[1]
        t.eq(struct.unpack_from('<H', page, 520)[0] & 4, 0, 'ONCS: Dataset Management')
        h.shutdown()


@test
def a_discard_is_done_while_others_go_on(t):
    """The thread that discards: a host sends many at once, and the target ends during them."""
    device = loop_device(t, size=64 * MIB)
    target = t.target([t.namespace(backend='block', size=None, path=device, engine=ENGINE,
                                   deallocate='discard')])
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        region = queue.conn.register(struct.pack('<IIQ', 0, 2048, 4096), write=False)
        cids = [queue.next_cid() for _ in range(24)]
        for cid in cids:
            queue.post(nv.sqe(DSM, cid, nsid=1, cdw11=4,
                              sgl=nv.keyed_sgl(region.base, 16, region.stag)))
        nv.expect(queue.write_blocks(1, 0, pattern(4, 4096)))
        for cid in cids:
            nv.expect(queue.wait(cid))
        for cid in cids[:8]:
            queue.post(nv.sqe(DSM, cid, nsid=1, cdw11=4,
                              sgl=nv.keyed_sgl(region.base, 16, region.stag)))
    target.stop()


# ---- sizes that change under us ----

@each(('io_uring', 'io_uring'), ('aio', 'aio'))
def a_device_that_shrank_fails_cleanly(t, engine):
    requires_engine(engine)
    device = loop_device(t)
    target = t.target([t.namespace(backend='block', size=None, path=device, engine=engine)])
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        data = pattern(5, 4096)
        nv.expect(queue.write_blocks(1, 0, data))
        os.truncate(t.path('disk'), 8 * MIB)
        as_root(t, 'losetup', '--set-capacity', device)
        for slba in (16 * MIB // 512 - 8, 8 * MIB // 512, 8 * MIB // 512 - 4):
            cqe = queue.read_blocks(1, slba, 8)[0]
            t.ok(cqe.status, f'a read of blocks {slba} to {slba + 7}, which are not all there')
            cqe = queue.write_blocks(1, slba, data)
            t.ok(cqe.status, f'a write of blocks {slba} to {slba + 7}, which are not all there')
        cqe, got = queue.read_blocks(1, 0, 8)
        nv.expect(cqe)
        t.same(got, data)
        h.shutdown()


if __name__ == '__main__':
    sys.exit(main())
