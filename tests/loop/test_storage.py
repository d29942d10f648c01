# SPDX-License-Identifier: BSD-3-Clause
"""Data when the storage below is full, too small, stuck, shared, or has blocks of 4096 bytes."""

import os
import random
import re
import signal
import struct
import sys

import nvmf_peer as nv
from t_loop import ENGINE, FABRIC, LONG, Target, each, iwarp_only, main, requires_engine, test, wait_for
from t_serving import exercise, host
from t_storage import MIB, WRITE_ZEROES, Frozen, loop_device, mount, pattern

CAPACITY_EXCEEDED, WRITE_FAULT, UNRECOVERED_READ = 0x081, 0x280, 0x281
DNR = 0x8000


def flushes(device):
    """The number of flush requests that the kernel has sent to a block device."""
    with open(f'/sys/block/{os.path.basename(device)}/stat', encoding='ascii') as f:
        return int(f.read().split()[15])


# ---- full, short ----

@each(('io_uring', 'io_uring'), ('aio', 'aio'))
@iwarp_only
def a_full_file_system_is_capacity_exceeded(t, engine):
    """A sparse file larger than its file system: writes that fit are kept, others are refused."""
    where = mount(t, '-t', 'tmpfs', '-o', 'size=4M', 'none')
    target = t.target([t.namespace(path=f'{where}/ns1.img', size='16MiB', engine=engine)])
    kept = pattern(1, MIB)
    t.rdinit('write', target.uri(), '--data', '-', input=kept)
    res = t.rdinit('write', target.uri(), '--start-block', '4096', '--data', '-', rc=1,
                   input=pattern(2, 8 * MIB))
    t.match(r'(?m)^rdinit: namespace 1: writing \d+ bytes at byte \d+: .*[Cc]apacity', res.err)
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        cqe = queue.write_blocks(1, 30000, bytes(65536))
        t.eq(cqe.status, CAPACITY_EXCEEDED, 'status of a write')
        t.ok(cqe.status_field & DNR, 'DNR is not set')
        page = nv.expect(h.admin.get_log(1, 64)[0]) and h.admin.get_log(1, 64)[1]
        count, sqid, cid, field, _, lba, nsid = struct.unpack_from('<QHHHHQI', page)
        t.ok(count >= 1, 'no entry in the error log')
        t.eq((sqid, field >> 1 & 0x7FF, lba, nsid), (1, CAPACITY_EXCEEDED, 30000, 1),
             'SQID, status, LBA and NSID in the error log')
        t.ok(cid, 'no command ID in the error log')
        h.shutdown()
    t.same(t.rdinit('read', target.uri(), '--data', '-', '--data-size', str(MIB)).out, kept)
    target.expect(r'Write of \d+ bytes at \d+ failed: No space left on device')


@each(('io_uring', 'io_uring'), ('aio', 'aio'))
@iwarp_only
def a_file_that_was_cut_gives_read_errors(t, engine):
    """Never old memory and never zeroes: the blocks beyond the new end are lost, and reads report that."""
    target = t.target([t.namespace(size='16MiB', engine=engine)])
    data = pattern(3, 16 * MIB)
    t.rdinit('write', target.uri(), '--data', '-', input=data)
    os.truncate(t.path('ns1.img'), 8 * MIB)
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        t.eq(queue.read_blocks(1, 16384, 8)[0].status, UNRECOVERED_READ, 'behind the end')
        cqe, got = queue.read_blocks(1, 16380, 8)
        t.eq(cqe.status, UNRECOVERED_READ, 'across the end')
        t.eq(got, bytes(8 * 512), 'what a failed read brought')
        cqe, got = queue.read_blocks(1, 16376, 8)
        nv.expect(cqe)
        t.same(got, data[16376 * 512:16384 * 512])
        # A write behind the end would make the lost blocks zeroes, and so does another program.
        t.eq(queue.write_blocks(1, 32000, bytes(512)).status, WRITE_FAULT, 'a write behind the end')
        t.eq(queue.write_blocks(1, 0, bytes(512)).status, WRITE_FAULT, 'a write before the end')
        t.eq(os.path.getsize(t.path('ns1.img')), 8 * MIB)
        os.truncate(t.path('ns1.img'), 16 * MIB)
        for lba in range(16384, 32768, 512):
            t.eq(queue.read_blocks(1, lba, 8)[0].status, UNRECOVERED_READ, f'block {lba}, which was lost')
        t.same(queue.read_blocks(1, 0, 8)[1], data[:4096])
        h.shutdown()
    t.eq(target.text().count('DATA IS MISSING: it ends at or before byte 8388608, but 16777216 bytes are served'), 1)


# ---- durable ----

@each(('io_uring, Flush', 'io_uring', False), ('io_uring, FUA', 'io_uring', True),
      ('aio, Flush', 'aio', False), ('aio, FUA', 'aio', True))
@iwarp_only
def acknowledged_data_survives_kill_9(t, engine, fua):
    """Writes of many sizes in flight when the target dies: the data of answered writes is in the file."""
    config = t.config([t.namespace(engine=engine)])
    target = t.target(config=config)
    rng = random.Random(engine)
    answered = []
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        lba = 0
        for number in range(40 if LONG else 15):
            data = rng.randbytes(512 * rng.choice((1, 3, 8, 16, 31, 256)))
            nv.expect(queue.write_blocks(1, lba, data, fua=fua, in_capsule=len(data) <= 8192))
            answered.append((lba, data))
            lba += len(data) // 512
        if not fua:
            nv.expect(queue.flush(1))
        for number in range(8):  # on its way when the end comes
            queue.post_write(1, lba + 128 * number, bytes(65536))
        target.kill()
    second = t.target(config=config, name='rdtarget-2')
    with host(second) as h:
        h.enable()
        queue = h.add_io()
        for lba, data in answered:
            cqe, got = queue.read_blocks(1, lba, len(data) // 512)
            nv.expect(cqe)
            t.same(got, data, f'blocks from {lba}')
        h.shutdown()


@each(('io_uring', 'io_uring'), ('aio', 'aio'))
@iwarp_only
def flush_and_fua_reach_the_device(t, engine):
    """Counted by the kernel at the block device."""
    requires_engine(engine)
    device = loop_device(t)
    target = t.target([t.namespace(backend='block', size=None, path=device, engine=engine)])
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        page = h.admin.identify(1)[1]
        t.ok(page[525] & 1, 'VWC: no volatile cache')
        before = flushes(device)
        nv.expect(queue.write_blocks(1, 0, bytes(8192)))
        t.eq(flushes(device), before, 'flushes by a plain write')
        nv.expect(queue.flush(1))
        t.eq(flushes(device), before + 1, 'flushes by a Flush')
        nv.expect(queue.write_blocks(1, 16, bytes(8192), fua=True))
        t.eq(flushes(device), before + 2, 'flushes by a FUA write')
        h.shutdown()


# ---- block devices ----

@each(('512 on 512, io_uring', 512, 512, 'io_uring'), ('4096 on 512, aio', 4096, 512, 'aio'),
      ('4096 on 4096, io_uring', 4096, 4096, 'io_uring'), ('512 on 4096, io_uring', 512, 4096, 'io_uring'),
      ('512 on 4096, aio', 512, 4096, 'aio'))
@iwarp_only
def a_block_device_with_blocks_of(t, block, sector, engine):
    """512 on 4096 cannot use direct I/O; it must work all the same, and offer no Write Zeroes."""
    requires_engine(engine)
    device = loop_device(t, sector=sector)
    target = t.target([t.namespace(backend='block', size=None, path=device, engine=engine,
                                   block_size=block)])
    target.expect('direct I/O' if block >= sector else 'buffered I/O: block_size is smaller',
                  deadline=1)
    data = bytearray(pattern(4, 16 * MIB))
    t.rdinit('write', target.uri(), '--data', '-', input=bytes(data))
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        zeroes = struct.unpack_from('<H', h.admin.identify(1)[1], 520)[0] & 8
        t.eq(bool(zeroes), block >= sector, 'Write Zeroes is offered')
        lba, count = 3, 5
        if FABRIC == 'iwarp':  # librdinit has no Write Zeroes
            cqe = queue.call(nv.sqe(WRITE_ZEROES, queue.next_cid(), nsid=1, cdw10=lba,
                                    cdw12=count - 1))
            nv.expect(cqe, nv.SUCCESS if zeroes else nv.INVALID_OPCODE)
            if zeroes:
                data[lba * block:(lba + count) * block] = bytes(count * block)
        one = pattern(5, block)
        nv.expect(queue.write_blocks(1, 16 * MIB // block - 1, one, block))
        data[-block:] = one
        h.shutdown()
    t.rdinit('flush', target.uri())
    t.same(t.rdinit('read', target.uri(), '--data', '-').out, bytes(data))
    with open(t.path('disk'), 'rb') as f:
        t.same(f.read(), bytes(data), 'the file below the device')


@test
@iwarp_only
def a_block_device_in_use_is_refused(t):
    device = loop_device(t)
    config = t.config([t.namespace(backend='block', size=None, path=device, engine=ENGINE)])
    t.target(config=config)
    refused(t, config, r'in use')


# ---- shared ----

def refused(t, config, pattern_):
    """A start that wants all."""
    with open(config, encoding='utf-8') as f:
        text = f.read()
    config = t.file('all.yaml', re.sub('(?m)^target:', 'target:\n  start: all-or-nothing', text).encode())
    second = t.spawn('rdtarget-2', [os.environ['RDTARGET'], '-c', config])
    t.eq(second.wait(), 1, 'exit status of the second daemon')
    t.match(pattern_, second.text())


@test
@iwarp_only
def two_daemons_on_one_file_are_refused(t):
    config = t.config()
    first = t.target(config=config)
    refused(t, config, rf'{t.path("ns1.img")}: another program uses it \(process {first.pid}\)')
    exercise(first)


@test
@iwarp_only
def two_namespaces_on_one_file_are_refused(t):
    """Also through a symbolic link; several readers are allowed. A check does not look at files, a full one does."""
    t.file('disk', bytes(MIB))
    os.symlink('disk', t.path('link'))
    spaces = [t.namespace(1, path=t.path('disk'), create=False, size=None),
              t.namespace(2, path=t.path('link'), create=False, size=None)]
    config = t.config(spaces)
    t.eq(t.run([os.environ['RDTARGET'], '--check', config]).rc, 0, 'exit status')
    res = t.run([os.environ['RDTARGET'], '--check=full', config])
    t.eq(res.rc, 1, 'exit status')
    t.match(rf'namespaces\[1\]\.path: {t.path("link")} is the same as {t.path("disk")} of \S* namespace 1; use another',
            res.err)
    target = t.target(config=config)
    target.expect(r'namespace \d: path \S*: another program uses it, or another namespace')
    target.stop()
    for space in spaces:
        space['read_only'] = True
    exercise_reads(t.target(spaces))


def exercise_reads(target):
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        for nsid in (1, 2):
            nv.expect(queue.read_blocks(nsid, 0, 8)[0])
        h.shutdown()


# ---- stuck ----

def hang_writes(h, target, count, fetched=None, size=65536):
    """Starts this many writes that do not end. Returns the queue and the writes, when the target has the data of
    `fetched` of them."""
    queue = h.add_io(depth=64)
    fetched = fetched or count
    before = queue.conn.stats.reads if FABRIC == 'iwarp' else 0
    writes = [queue.post_write(1, number * size // 512, bytes([number + 1]) * size)
              for number in range(count)]

    def has_the_data():
        nv.expect(queue.flush(2))  # the peer answers READs only while it waits for something
        if FABRIC == 'iwarp':
            return queue.conn.stats.reads >= before + fetched
        figures = target.counters()
        return (figures['waiting_for_buffers'], figures['buffer_bytes']) == (count - fetched, fetched * size)
    wait_for(has_the_data, 'the target to fetch the data')
    return queue, writes


def workers_that_hang(target):
    """The threads for storage that the kernel has blocked. They execute the writes of a file in order."""
    hang = 0
    for task in os.scandir(f'/proc/{target.popen.pid}/task'):
        try:
            with open(f'{task.path}/stat', encoding='ascii') as f:
                comm, state = re.search(r'\((.*)\) (\S)', f.read()).groups()
        except OSError:
            continue  # it has ended
        hang += comm == 'storage' and state == 'D'
    return hang


def abort_first_and_last(t, h, target, writes):
    """The last one waits for a buffer and can be aborted. The first one is stuck in the kernel once it has begun."""
    nv.expect(h.admin.call(nv.sqe(nv.KEEP_ALIVE, h.admin.next_cid())))
    last = writes.pop()
    cqe = nv.expect(h.admin.call(nv.sqe(nv.ABORT, h.admin.next_cid(), cdw10=1 | last.cid << 16)))
    t.eq(cqe.dw0 & 1, 0, 'a waiting command: not aborted')
    t.eq(last.wait().status, nv.ABORTED_BY_REQUEST, 'its status')
    wait_for(lambda: workers_that_hang(target), 'the first write to begin')
    cqe = nv.expect(h.admin.call(nv.sqe(nv.ABORT, h.admin.next_cid(),
                                        cdw10=1 | writes[0].cid << 16)))
    t.eq(cqe.dw0 & 1, 1, 'a command in the kernel: not aborted')


@test
def a_backend_that_hangs_stops_nobody_else(t):
    """Writes are stuck in the kernel until the host has all buffers that it may have: Connect, Identify, Keep Alive,
    Abort and small commands for another namespace are answered meanwhile, and the writes later."""
    requires_engine('io_uring')
    fs = Frozen(t)
    target = t.target([t.namespace(1, path=f'{fs.where}/ns1.img', size='32MiB', engine='io_uring'),
                       t.namespace(2, backend='memory')],
                      target={'reactors': 1, 'buffer_memory': '1MiB', 'max_data_size': '128KiB'})
    with host(target) as h:
        h.enable()
        fs.freeze()
        # The maximum that a host may hold of 1 MiB before its first transfer has ended.
        queue, writes = hang_writes(h, target, 16, fetched=3)
        t.eq(target.counters()['waiting_for_buffers'], 13, 'commands that wait for a buffer')
        nv.expect(h.admin.identify(1)[0])
        if FABRIC == 'iwarp':  # librdinit aborts nothing
            abort_first_and_last(t, h, target, writes)
        with host(target) as other:  # all of Connect, with a READ for its data
            other.enable()
            second = other.add_io()
            nv.expect(second.write_blocks(2, 0, pattern(6, 4096), in_capsule=True))
            other.shutdown()
        fs.thaw()
        for write in writes:
            nv.expect(write.wait())
        cqe, got = queue.read_blocks(1, 14 * 128, 128)
        nv.expect(cqe)
        t.same(got, bytes([15]) * 65536, 'the last write that was not aborted')
        h.shutdown()
    wait_for(lambda: not target.counters()['buffer_bytes'], 'all buffers to come back')


@test
def a_host_that_goes_while_its_backend_hangs_is_cleared_away_later(t):
    """Keep-alive expiry with stuck I/O on another reactor: the association ends, its memory is freed later."""
    requires_engine('io_uring')
    fs = Frozen(t)
    target = t.target([t.namespace(1, path=f'{fs.where}/ns1.img', size='32MiB', engine='io_uring'),
                       t.namespace(2, backend='memory')])
    h = host(target, kato=2000)  # long enough to connect a queue on a busy machine
    t.cleanup(h.close)
    h.enable()
    fs.freeze()
    queue, _ = hang_writes(h, target, 4)
    target.expect('keep alive timed out')
    queue.wait_closed()
    t.ok(target.counters()['controllers'] >= 1, 'the controller of stuck commands was freed')
    exercise(target, nsid=2)
    fs.thaw()
    wait_for(lambda: not any(target.counters()[key] for key in
                             ('controllers', 'io_queues', 'requests', 'buffer_bytes')),
             'the association to be cleared away')


@test
def a_drain_that_takes_too_long_is_given_up(t):
    """SIGTERM with a backend that does not answer: the target ends, with an exit status and a reason."""
    requires_engine('io_uring')
    fs = Frozen(t)
    config = t.config([t.namespace(1, path=f'{fs.where}/ns1.img', size='32MiB', engine='io_uring'),
                       t.namespace(2, backend='memory')],
                      target={'drain_timeout': '100ms'})
    target = Target(t, config)
    t.cleanup(target.kill)
    with host(target) as h:
        h.enable()
        fs.freeze()
        hang_writes(h, target, 2)
        target.signal(signal.SIGTERM)
        target.expect('drain_timeout has expired')
        target.expect('giving up: a backend has not completed its I/O')
        fs.thaw()  # the kernel ends no process that waits for a frozen file system
        t.eq(target.wait(), 1, 'exit status')


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp', 'verbs')))
