# SPDX-License-Identifier: BSD-3-Clause
"""rdinit cp: every kind of source and destination, holes, verification, and copies that are resumed."""

import json
import os
import pty
import random
import re
import signal
import socket
import subprocess
import sys

import t_schema
from t_loop import (LONG, PATIENCE, SANITIZED, SCALE, each, main, program, requires_disk,
                    requires_engine, scaled, test, wait_for)
from t_proxy import Proxy
from t_storage import MIB, as_root, loop_device, mount

SIZE = scaled(2 * MIB, MIB)
SLOW = SANITIZED or SCALE > 1


def pattern(size, seed):
    """Data, a long run of zeroes, data."""
    rng = random.Random(seed)
    third = size // 3 // 4096 * 4096
    return rng.randbytes(third) + bytes(third) + rng.randbytes(size - 2 * third)


def content(path):
    with open(path, 'rb') as f:
        return f.read()


def blocks_of(path):
    return os.stat(path).st_blocks * 512


def sparse_file(t, name, size, *places):
    """A file of holes, with 64 KiB of data at some places."""
    with open(t.path(name), 'wb') as f:
        f.truncate(size)
        for i, at in enumerate(places):
            f.seek(at)
            f.write(random.Random(i).randbytes(65536))
    return t.path(name)


def cp(t, *args, **kw):
    """As JSON, with the --verbose output from standard error."""
    value = json.loads(t.rdinit('cp', *args, '--output-format=json', **kw).text)
    t_schema.check('cp', value)
    return value


# ---- every pair ----

class Place:
    """A source or destination: the operand for cp, and how to fill and read it without cp."""

    def __init__(self, t, kind, target, number):
        self.t, self.kind = t, kind
        if kind == 'namespace':
            self.name = target.uri(number)
        elif kind == 'block device':
            self.name = loop_device(t, SIZE, name=f'disk{number}')
        elif kind == 'file':
            self.name = t.path(f'file{number}')
        else:
            self.name = '-'

    def fill(self, data):
        """Returns the command line of cp for these."""
        if self.kind == 'namespace':
            self.t.rdinit('write', self.name, '--data', '-', input=data)
        elif self.kind != 'pipe':
            with open(self.name, 'wb') as f:
                f.write(data)
        return {'input': data} if self.kind == 'pipe' else {}

    def read(self, length, out):
        if self.kind == 'namespace':
            return self.t.rdinit('read', self.name, '--data-size', str(length)).out
        return out if self.kind == 'pipe' else content(self.name)[:length]


KINDS = ('namespace', 'file', 'block device', 'pipe')


@each(*((f'{a} to {b}', a, b) for a in KINDS for b in KINDS))
def all_bytes_arrive(t, a, b):
    target = t.target([t.namespace(1, backend='memory', size=SIZE),
                       t.namespace(2, backend='memory', size=SIZE, block_size=4096)])
    source, dest = Place(t, a, target, 1), Place(t, b, target, 2)
    for sparse, seed in (('auto', 1), ('always', 2), ('never', 3)):
        data = pattern(SIZE, seed)
        dest.fill(random.Random(9).randbytes(SIZE))  # the previous content must not be visible
        out = t.rdinit('cp', source.name, dest.name, '--sparse', sparse, **source.fill(data)).out
        t.same(dest.read(SIZE, out), data, f'--sparse={sparse}')


@each(('512 to 4096', 512, 4096), ('4096 to 512', 4096, 512))
def blocks_of_other_sizes_and_what_lies_behind_the_copy(t, a, b):
    size = MIB + a
    target = t.target([t.namespace(1, backend='memory', size=size, block_size=a),
                       t.namespace(2, backend='memory', size=2 * MIB, block_size=b)])
    data, old = pattern(size, 1), random.Random(2).randbytes(2 * MIB)
    t.rdinit('write', target.uri(1), '--data', '-', input=data)
    t.rdinit('write', target.uri(2), '--data', '-', input=old)
    cp(t, target.uri(1), target.uri(2), '--verify')
    t.same(t.rdinit('read', target.uri(2)).out, data + old[size:])


@each(('nothing', 0), ('a byte', 1), ('less than a block', 511), ('a block', 512), ('a block and a byte', 513),
      ('more than a page', 4097), ('a page less than a piece', (256 << 10) - 4096), ('much', 2 * MIB + 77))
def files_of_any_length(t, size):
    target = t.target([t.namespace(1, backend='memory', size='4MiB')])
    data, old = random.Random(1).randbytes(size), random.Random(2).randbytes(4 * MIB)
    source = t.file('source', data)
    t.rdinit('write', target.uri(), '--data', '-', input=old)
    t.eq(cp(t, source, target.uri(), '--verify')['bytes'], size)
    t.same(t.rdinit('read', target.uri()).out, data + old[size:], 'the namespace')
    cp(t, source, t.file('copy', old), '--verify')
    t.same(content(t.path('copy')), data, 'a file that was longer')
    t.same(t.rdinit('cp', '-', t.path('piped'), input=data).out, b'')
    t.same(content(t.path('piped')), data, 'a file from a pipe')


@test
def a_file_that_says_it_is_empty_is_read_to_its_end(t):
    """Those of procfs have a size of 0."""
    cp(t, '/proc/version', t.path('copy'))
    t.same(content(t.path('copy')), content('/proc/version'))
    t.match('cannot be read a second time', t.rdinit('cp', '/proc/version', t.path('copy'), '--verify', rc=2).err)


# ---- holes ----

@test
def holes_are_kept_to_a_namespace_and_back(t):
    """The destinations were full before. Only io_uring can make holes in a namespace."""
    requires_engine('io_uring')
    size = 32 * MIB
    target = t.target([t.namespace(1, size=size)])
    image = t.path('ns1.img')
    t.rdinit('write', target.uri(), '--data', '-', input=random.Random(3).randbytes(size))
    t.ok(blocks_of(image) >= size, 'the namespace is not full')
    source = sparse_file(t, 'source', size, 5 * MIB, 20 * MIB + 65536)
    done = cp(t, source, target.uri(), '--verify')
    t.eq(done['hole_bytes'], size - 2 * 65536)
    t.ok(blocks_of(image) < MIB, f'{blocks_of(image)} bytes of blocks in the namespace')
    t.same(t.rdinit('read', target.uri()).out, content(source))
    copy = t.file('copy', random.Random(4).randbytes(size))
    done = cp(t, target.uri(), copy, '--verify')
    t.eq(done['hole_bytes'], size - 2 * 65536)
    t.ok(blocks_of(copy) < MIB, f'{blocks_of(copy)} bytes of blocks in the file')
    t.same(content(copy), content(source))


@test
def which_zeroes_become_holes(t):
    size = 4 * MIB
    source = sparse_file(t, 'source', size, 0)
    with open(source, 'r+b') as f:
        f.seek(2 * MIB)
        f.write(bytes(MIB))  # zeroes with blocks
    for sparse, holes in (('auto', size - 65536 - MIB), ('always', size - 65536), ('never', 0)):
        done = cp(t, source, t.path(sparse), '--sparse', sparse, '--verify')
        t.eq(done['hole_bytes'], holes, sparse)
        t.ok(blocks_of(t.path(sparse)) <= size - holes + MIB // 2, f'{sparse}: {blocks_of(t.path(sparse))}')
        t.same(content(t.path(sparse)), content(source), sparse)
    t.ok(blocks_of(t.path('never')) >= size, 'a hole with --sparse=never')


@test
def ten_sparse_gibibytes(t):
    """To a namespace without reading the holes, back, and to another namespace."""
    size = MIB << (8 if SLOW else 10)
    size *= 1 if SLOW else 10
    requires_disk(t.dir, 64 * MIB)
    target = t.target([t.namespace(1, size=size), t.namespace(2, size=size)])
    source = sparse_file(t, 'source', size, 0, size // 2, size - 65536)
    done = cp(t, source, target.uri())
    t.eq((done['bytes'], done['hole_bytes']), (size, size - 3 * 65536))
    t.note(f'{size >> 20} MiB to a namespace in {done["seconds"]:.2f} s')
    done = cp(t, target.uri(), t.path('copy'))
    t.eq((done['bytes'], done['hole_bytes']), (size, size - 3 * 65536))
    t.note(f'{size >> 20} MiB from a namespace in {done["seconds"]:.2f} s')
    for at in 0, size // 2, size - 65536:
        with open(source, 'rb') as a, open(t.path('copy'), 'rb') as b:
            a.seek(at)
            b.seek(at)
            t.same(b.read(65536), a.read(65536), f'at {at}')
    t.ok(blocks_of(t.path('copy')) < MIB, f'{blocks_of(t.path("copy"))} bytes of blocks')
    t.ok(done['commands'] < 50, f'{done["commands"]} commands from a namespace')
    done = cp(t, target.uri(), target.uri(2))
    t.eq((done['bytes'], done['hole_bytes']), (size, size - 3 * 65536))
    t.note(f'{size >> 20} MiB between namespaces in {done["seconds"]:.2f} s')
    # A hole takes commands for its length only: Write Zeroes of at most 16 MiB.
    t.ok(done['commands'] < size // (16 * MIB) + 50, f'{done["commands"]} commands between namespaces')
    for nsid in 1, 2:
        t.ok(blocks_of(t.path(f'ns{nsid}.img')) < MIB, f'{blocks_of(t.path(f"ns{nsid}.img"))} bytes of blocks')


@each(('a file', {}), ('memory', {'backend': 'memory'}))
def only_what_is_allocated_is_read_of_a_namespace(t, keys):
    """Zeroes that have blocks are read and become a hole as well."""
    size = 64 * MIB
    target = t.target([t.namespace(1, size=size, **keys)])
    data = random.Random(5).randbytes(65536)
    for at, what in ((3 * MIB, data), (40 * MIB, bytes(MIB)), (size - 65536, data)):
        t.rdinit('write', target.uri(), '--data', '-', '--offset', str(at), input=what)
    done = cp(t, target.uri(), t.path('copy'), '--verify')
    t.eq(done['hole_bytes'], size - 2 * 65536)
    t.ok(done['commands'] < 40, f'{done["commands"]} commands; to read everything takes 256')
    t.same(t.rdinit('read', target.uri(), '--data', '-').out, content(t.path('copy')))


# ---- verify ----

@test
def verification_finds_what_was_not_written(t):
    """A disk that forgets: reads return zeroes."""
    target = t.target([t.namespace(1, backend='null', size='4MiB')])
    data = bytes(MIB) + b'x' * MIB
    source = t.file('source', data)
    t.rdinit('cp', source, target.uri())  # without --verify, the loss is not noticed
    res = t.rdinit('cp', source, target.uri(), '--verify', rc=1)
    t.match(rf'/1 differs from {source} at byte 1[0-9]+: it has 0x00 instead of 0x78', res.err)
    t.match('the copy is not equal to its source', res.err)
    t.rdinit('cp', t.file('zeroes', bytes(MIB)), target.uri(), '--verify')


@test
def verification_asks_again_what_is_allocated(t):
    """A block that was deallocated is written between the copy and its verification."""
    target = t.target([t.namespace(1, backend='memory', size=SIZE)])
    data, fifo = random.Random(5).randbytes(65536), t.path('lines')
    t.rdinit('write', target.uri(), '--data', '-', '--offset', str(SIZE - 65536), input=data)
    os.mkfifo(fifo)
    lines = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    try:
        for piece in bytes(4096), b'\0':
            try:
                while True:
                    os.write(lines, piece)
            except BlockingIOError:
                pass
        # The pipe is full, so cp waits with the last line of its first phase.
        proc = t.spawn('cp', ['sh', '-c', 'exec 3>"$0"; exec "$@"', fifo, program('rdinit'), 'cp', target.uri(),
                              t.path('copy'), '--verify', '--progress', '3'])
        wait_for(lambda: os.path.exists(t.path('copy')) and content(t.path('copy'))[-65536:] == data or not proc.running,
                 'the copy')
        t.ok(proc.running, f'cp did not wait:\n{proc.text()}')
        t.rdinit('write', target.uri(), '--data', '-', '--offset', str(SIZE // 2), input=data)
        os.read(lines, MIB)
        t.eq(proc.wait(), 1, f'exit status of cp:\n{proc.text()}')
    finally:
        os.close(lines)
    t.match(f'copy differs from .*/1 at byte {SIZE // 2}: ', proc.text())


# ---- interrupted and continued ----

BIG = (64 if LONG else 32) * MIB
RATE = '8MiB' if SCALE == 1 else '1MiB'


def journal(t):
    try:
        with open(t.path('journal'), encoding='utf-8') as f:
            return json.load(f)
    except FileNotFoundError:
        return None


def begun(t, target, *args):
    """A slow copy of BIG bytes with a journal, of which a part is complete."""
    source = t.file('source', random.Random(5).randbytes(BIG))
    proc = t.spawn('cp', [program('rdinit'), 'cp', source, target.uri(), '--resume', t.path('journal'), *args,
                          *PATIENCE])
    wait_for(lambda: (journal(t) or {}).get('complete') or not proc.running, 'the first state of the journal')
    t.ok(proc.running, f'the copy is too fast, or failed:\n{proc.text()}')
    return source, proc


def slow_target(t):
    return t.target([t.namespace(1, size=BIG, qos={'write_bandwidth': RATE})])


def no_longer_slow(t, target):
    t.config([t.namespace(1, size=BIG)])
    target.reload('1 setting changed$')


@test
def a_killed_copy_is_continued(t):
    target = slow_target(t)
    source, proc = begun(t, target)
    proc.kill()
    complete = journal(t)['complete']
    t.ok(0 < complete < BIG, f'{complete} of {BIG}')
    t.same(t.rdinit('read', target.uri(), '--data-size', str(complete)).out, content(source)[:complete],
           'what the journal says is done')
    target.stop()
    target = t.target([t.namespace(1, size=BIG)], name='again')
    done = cp(t, source, target.uri(), '--resume', t.path('journal'), '--verify')
    t.eq((done['start'], done['bytes']), (complete // 65536 * 65536, BIG - complete // 65536 * 65536))
    t.eq(journal(t), None, 'the journal of a copy that is complete')
    t.same(t.rdinit('read', target.uri()).out, content(source))


@test
def a_file_is_continued_without_losing_its_beginning(t):
    """After the complete part there is data of the killed run, in holes of the source too."""
    source = sparse_file(t, 'source', 4 * MIB, 0, 2 * MIB)
    dest = t.file('dest', content(source)[:MIB] + b'x' * (3 * MIB))
    ids = {name: os.stat(t.path(name)) for name in ('source', 'dest')}
    mtime = ids['source'].st_mtime_ns
    t.file('journal', json.dumps({
        'rdinit-cp-journal': 1, 'complete': MIB,
        'source': {'kind': 'file', 'id': {'dev': ids['source'].st_dev, 'inode': ids['source'].st_ino},
                   'size': 4 * MIB, 'mtime': f'{mtime // 10**9}.{mtime % 10**9:09}'},
        'destination': {'kind': 'file', 'id': {'dev': ids['dest'].st_dev, 'inode': ids['dest'].st_ino},
                        'size': 0, 'mtime': ''}}).encode())
    t.eq(cp(t, source, dest, '--resume', t.path('journal'))['start'], MIB)
    t.same(content(dest), content(source))


@test
def a_journal_never_runs_ahead_of_a_flush(t):
    """Each flush fails: nothing may be reported as complete."""
    target = t.target([t.namespace(1, size=BIG, qos={'write_bandwidth': RATE},
                                   layers=[{'type': 'error', 'ops': ['flush']}])])
    source = t.file('source', random.Random(5).randbytes(BIG))
    res = t.rdinit('cp', source, target.uri(), '--resume', t.path('journal'), rc=1)
    t.match('/1: flush: ', res.err)
    t.match(r'the first \d+ bytes are written to .* but not flushed', res.err)
    t.eq(journal(t)['complete'], 0)


@test
def a_failed_copy_says_what_is_safe_and_is_continued(t):
    target = t.target([t.namespace(1, size=SIZE, layers=[{
        'type': 'error', 'ops': ['write'], 'trigger': t.path('broken'), 'first_block': SIZE // 1024, 'blocks': 1}])])
    source = t.file('source', random.Random(6).randbytes(SIZE))
    t.file('broken', b'')
    res = t.rdinit('cp', source, target.uri(), '--resume', t.path('journal'), rc=1)
    t.match(rf'/1: writing \d+ bytes at byte {SIZE // 2}: write of blocks|: writing \d+ bytes at byte {SIZE // 2}: ',
            res.err)
    t.match(rf'the first {SIZE // 2} bytes are complete and on stable storage in \S+/1; the same command continues',
            res.err)
    t.eq(journal(t)['complete'], SIZE // 2)
    os.unlink(t.path('broken'))
    done = cp(t, source, target.uri(), '--resume', t.path('journal'))
    t.eq(done['start'], SIZE // 2)
    t.same(t.rdinit('read', target.uri()).out, content(source))


@test
def a_journal_that_cannot_be_replaced_is_not_promised(t):
    """Its file system has room for the first state only."""
    where = mount(t, '-t', 'tmpfs', '-o', 'nr_inodes=2', 'tmpfs')
    target = t.target([t.namespace(1, size=SIZE, layers=[{
        'type': 'error', 'ops': ['write'], 'first_block': SIZE // 1024, 'blocks': 1}])])
    source = t.file('source', random.Random(6).randbytes(SIZE))
    res = t.rdinit('cp', source, target.uri(), '--resume', f'{where}/journal', rc=1)
    t.match(f'--resume: {where}/journal cannot be written: ', res.err)
    t.match(rf'the first {SIZE // 2} bytes are complete and on stable storage in \S+/1; the same command continues where the journal was last saved, which is earlier', res.err)
    with open(f'{where}/journal', encoding='utf-8') as f:
        t.eq(json.load(f)['complete'], 0)


@test
def a_destination_keeps_its_content_without_a_journal(t):
    source, dest = t.file('source', b'new'), t.file('dest', b'old')
    res = t.rdinit('cp', source, dest, '--resume', t.path('nowhere/journal'), rc=1)
    t.match('nowhere/journal cannot be written: No such file', res.err)
    t.same(content(dest), b'old')
    t.rdinit('cp', source, t.path('new'), '--resume', t.path('nowhere/journal'), rc=1)
    t.ok(not os.path.exists(t.path('new')), 'a destination was created')


@test
def a_source_that_cannot_be_read(t):
    target = t.target([t.namespace(1, backend='memory', size=SIZE, layers=[
        {'type': 'error', 'ops': ['read'], 'first_block': SIZE // 1024, 'blocks': 8}])])
    # Blocks that are not allocated are not read.
    cp(t, t.file('source', random.Random(7).randbytes(SIZE)), target.uri())
    res = t.rdinit('cp', target.uri(), t.path('copy'), rc=1)
    t.match(rf'/1: reading \d+ bytes at byte {SIZE // 2}: .*Unrecovered Read Error', res.err)
    t.match(rf'the first {SIZE // 2} bytes are complete and on stable storage in \S+copy$', res.err)


@test
def a_journal_of_another_copy_is_refused(t):
    target = slow_target(t)
    source, proc = begun(t, target)
    proc.kill()
    at = journal(t)
    os.utime(source, (1, 1))
    res = t.rdinit('cp', source, target.uri(), '--resume', t.path('journal'), rc=1)
    t.match('journal is not the journal of this copy: the source has another mtime: "1.000000000", and was', res.err)
    t.match('remove it to copy from the beginning', res.err)
    res = t.rdinit('cp', source, t.path('elsewhere'), '--resume', t.path('journal'), rc=1)
    t.ok(not os.path.exists(t.path('elsewhere')), 'a destination was created')
    t.eq(journal(t), at, 'the journal')
    t.match('not a journal', t.rdinit('cp', source, target.uri(), '--resume', source, rc=1).err)


@test
def a_source_that_changes_meanwhile_is_told(t):
    target = slow_target(t)
    source, proc = begun(t, target)
    with open(source, 'r+b') as f:
        f.write(b'other')
    no_longer_slow(t, target)
    t.eq(proc.wait(), 1, 'exit status')
    t.match(f'{source} was changed while it was copied: .*/1 has parts of both contents; copy it again', proc.text())
    t.eq(journal(t), None, 'the journal')


@test
def a_source_that_becomes_smaller_is_told(t):
    """It ends in a hole, which is gone as well."""
    def source(size):
        return t.namespace(1, backend='memory', size=size, qos={'read_bandwidth': RATE})
    target = t.target([source(BIG)])
    t.rdinit('write', target.uri(), '--data', '-', input=random.Random(5).randbytes(BIG // 4))
    proc = t.spawn('cp', [program('rdinit'), 'cp', target.uri(), t.path('copy'), '--progress', '2', *PATIENCE])
    proc.expect(r'^copy [1-9]\d+ ')
    t.config([source(BIG // 2)])
    target.reload('1 resized$')
    t.eq(proc.wait(), 1, 'exit status')
    t.match('/1 was changed while it was copied|/1: byte \\d+: .* beyond the end of the namespace', proc.text())


@test
def a_signal_ends_a_copy_in_order(t):
    target = slow_target(t)
    _, proc = begun(t, target)
    proc.signal(signal.SIGINT)
    t.eq(proc.wait(), -signal.SIGINT, 'ended by')
    t.match('Interrupt; a second signal ends rdinit without waiting', proc.text())
    t.match(r'the first \d+ bytes are complete and on stable storage in \S+; the same command continues there',
            proc.text())
    target.expect('ready -> shutting-down')


@each(('as it was', {}), ('with a smaller limit of transfers', {'max_data_size': '16KiB'}))
def a_target_that_comes_back_is_not_an_error(t, keys):
    """The target is killed in the middle of a copy to it, and started again."""
    config = t.config([t.namespace(1, size=BIG, qos={'write_bandwidth': RATE})])
    target = t.target(config=config)
    proxy = Proxy(t, target.addr, target.port)
    source = t.file('source', random.Random(5).randbytes(BIG))
    proc = t.spawn('cp', [program('rdinit'), 'cp', source, proxy.uri(target), '--verify', '--progress', '2',
                          '--reconnect-delay=1'])
    proc.expect(r'^copy [1-9]\d+ ')
    target.kill()
    proc.expect('rdinit: .*connection .*; next attempt in')
    target = t.target([t.namespace(1, size=BIG)], target=keys, name='again')
    proxy.to = (target.addr, target.port)
    t.eq(proc.wait(), 0, 'exit status')
    t.match('connected again', proc.text())
    t.same(t.rdinit('read', target.uri()).out, content(source))


@test
def an_interrupt_does_not_wait_for_a_target_that_is_gone(t):
    target = slow_target(t)
    _, proc = begun(t, target, '--ctrl-loss-tmo=-1')
    target.kill()
    proc.expect('rdinit: .*connection .*; next attempt in')
    proc.signal(signal.SIGINT)
    t.eq(proc.wait(), -signal.SIGINT, 'ended by')
    t.match(r'the first \d+ bytes are complete and on stable storage in', proc.text())


@test
def one_of_two_paths_is_enough(t):
    target = slow_target(t)
    proxies = [Proxy(t, target.addr, target.port) for _ in range(2)]
    source = t.file('source', random.Random(5).randbytes(BIG))
    proc = t.spawn('cp', [program('rdinit'), 'cp', source, ','.join(p.uri(target) for p in proxies), '--verify',
                          '--progress', '2', '--ctrl-loss-tmo=0', '-v', '--policy=queue-depth', '--keep-alive-tmo=1'])
    proc.expect('2 paths, namespace 1')
    proc.expect(r'^copy [1-9]\d+ ')
    proxies[0].accepting(False)
    proxies[0].reset()
    no_longer_slow(t, target)
    t.eq(proc.wait(), 0, 'exit status')
    t.match('given up', proc.text())
    t.same(t.rdinit('read', target.uri()).out, content(source))


@test
def a_path_that_is_not_connected_is_told(t):
    """It fails before the other one is connected, and is not tried again before the copy begins."""
    target = t.target([t.namespace(1, backend='memory', size=MIB)])
    slow = Proxy(t, target.addr, target.port)
    slow.delay(0.05)
    source = t.file('source', random.Random(5).randbytes(MIB))
    with socket.socket() as refusing:
        refusing.bind((target.addr, 0))
        dead = slow.uri(target).replace(f':{slow.port}/', f':{refusing.getsockname()[1]}/')
        res = t.rdinit('cp', source, f'{dead},{slow.uri(target)}', '--reconnect-delay=300')
    t.match(r'rdinit: \S+: connection refused .*; the copy continues without this path', res.err)
    t.same(t.rdinit('read', target.uri()).out, content(source))
    t.match('give several paths to one namespace as URIs separated by commas, without spaces',
            t.rdinit('cp', source, f'{dead},', slow.uri(target), rc=2).err)


@test
def a_lost_target_ends_a_copy_that_waits_for_input(t):
    target = t.target([t.namespace(1, backend='memory', size=SIZE)])
    proc = t.spawn('cp', [program('rdinit'), 'cp', '-', target.uri(), '-v', '--ctrl-loss-tmo=0',
                          *PATIENCE],
                   stdin=subprocess.PIPE)
    proc.expect('1 path, namespace 1')
    proc.popen.stdin.write(b'x' * 70000)
    proc.popen.stdin.flush()
    target.kill()
    t.eq(proc.wait(), 1, 'exit status')
    t.match(r'rdinit: nvme.rdma://\S+/1: .*given up after', proc.text())
    proc.popen.stdin.close()


# ---- what is refused ----

@test
def sizes_that_do_not_fit(t):
    target = t.target([t.namespace(1, backend='memory', size='1MiB')])
    before = random.Random(1).randbytes(MIB)
    t.rdinit('write', target.uri(), '--data', '-', input=before)
    large = t.file('large', bytes(MIB + 1))
    res = t.rdinit('cp', large, target.uri(), rc=1)
    t.match(rf'large has {MIB + 1} bytes and \S+/1 only {MIB}: it does not fit; nothing was written', res.err)
    t.same(t.rdinit('read', target.uri()).out, before, 'the namespace')
    res = t.rdinit('cp', '-', target.uri(), input=bytes(MIB + 1), rc=1)
    t.match(f'standard input is longer than the {MIB} bytes of .*/1, which are all written', res.err)


@test
def destinations_that_cannot_be_written(t):
    disk = t.file('disk', bytes(MIB))
    target = t.target([t.namespace(1, path=disk, size=None, create=False, read_only=True),
                       t.namespace(2, size='1MiB')])
    source = t.file('source', bytes(MIB))
    t.match('/1: the namespace is read-only', t.rdinit('cp', source, target.uri(), rc=1).err)
    res = t.rdinit('cp', source, t.path('ns2.img'), rc=1)
    t.match(rf'ns2.img is in use: another program has locked it \(process {target.pid}\)', res.err)
    t.match('source and .*source are the same file; nothing was written', t.rdinit('cp', source, source, rc=1).err)
    res = t.rdinit('cp', target.uri(2), target.uri(2), rc=1)
    t.match('are the same namespace; nothing was written', res.err)
    t.match('is a directory; give a file in it', t.rdinit('cp', source, t.dir, rc=1).err)
    none = f'/dev/rdinit-test-{os.getpid()}'
    t.cleanup(lambda: os.path.exists(none) and os.unlink(none))
    t.match(f'{none}: there is no such device', t.rdinit('cp', source, none, rc=1).err)
    t.ok(not os.path.exists(none), 'a file was created in /dev')
    t.match('nowhere/x: No such file', t.rdinit('cp', source, t.path('nowhere/x'), rc=1).err)
    res = t.rdinit('cp', t.path('none'), t.path('new'), rc=1)
    t.match('none: No such file or directory; SRC and DST are URIs', res.err)
    t.ok(not os.path.exists(t.path('new')), 'a destination was created')
    res = t.rdinit('cp', source, target.uri(1, 'nqn.2024-01.test:no'), '--hostnqn', 'nqn.2024-01.test:me', rc=1)
    t.match('does not accept the subsystem NQN "nqn.2024-01.test:no".*host NQN "nqn.2024-01.test:me" .option hostnqn.'
            '.*--hostnqn gives.*`rdinit discover` lists', res.err)
    res = t.rdinit('cp', source, target.uri(1, 'nqn.2014-08.org.nvmexpress.discovery'), rc=1)
    t.match('is a discovery controller, which has no namespaces', res.err)


@test
def a_failed_copy_without_a_complete_part_says_so(t):
    res = t.rdinit('cp', t.file('source', b'x' * MIB), '/dev/full', rc=1)
    t.match('/dev/full: writing .*: No space left on device', res.err)
    t.match('no part of the copy is complete in /dev/full', res.err)
    t.ok('first 0 bytes' not in res.err, res.err)


@test
def block_devices_that_are_not_ours(t):
    device = loop_device(t, MIB)
    source = t.file('source', b'x' * MIB)
    held = os.open(device, os.O_RDWR | os.O_EXCL)  # as a file system that is mounted does
    try:
        res = t.rdinit('cp', source, device, rc=1)
    finally:
        os.close(held)
    t.match(f'{device} is in use: it is mounted or another program has it', res.err)
    as_root(t, 'blockdev', '--setro', device)
    t.match(f'{device} (is read-only; blockdev --setrw|cannot be written)', t.rdinit('cp', source, device, rc=1).err)
    as_root(t, 'blockdev', '--setrw', device)
    t.same(content(device), bytes(MIB), 'the device')
    t.rdinit('cp', source, device, '--verify')


@test
def a_full_disk(t):
    where = mount(t, '-t', 'tmpfs', '-o', 'size=24m', 'tmpfs')
    source = t.file('source', random.Random(1).randbytes(32 * MIB))
    res = t.rdinit('cp', source, f'{where}/copy', rc=1)
    t.match(r'mnt/copy: writing \d+ bytes at byte \d+: No space left on device', res.err)
    # Writes run in parallel: the disk may be full before the first one is done.
    said = re.search(r'the first (\d+) bytes are complete and on stable storage in', res.err)
    complete = int(said[1]) if said else 0
    t.same(content(f'{where}/copy')[:complete], content(source)[:complete], 'what is said to be complete')


@test
def a_reserved_namespace(t):
    target = t.target([t.namespace(1, backend='memory', size='1MiB')])
    holder = '6f0c2b4e-6d0f-4a4e-9a56-0e9b7a3d5c11'
    t.rdinit('resv-register', target.uri(), '--nrkey', '5', '--hostid', holder)
    t.rdinit('resv-acquire', target.uri(), '--crkey', '5', '--rtype', '1', '--hostid', holder)
    res = t.rdinit('cp', t.file('source', b'x' * MIB), target.uri(), rc=1)
    t.match('Reservation Conflict.*: another host has reserved the namespace .rdinit resv-report', res.err)


@each(('no operands', [], '0 operands instead of 2: write rdinit cp SRC DST'),
      ('three', ['a', 'b', 'c'], '3 operands instead of 2'),
      ('a word that is none', ['a', 'b', '--sparse=some'], '--sparse: found "some", expected auto, always or never'),
      ('both', ['a', 'b', '--flush', '--no-flush'], '--flush and --no-flush are mutually exclusive'),
      ('a descriptor that is closed', ['a', 'b', '--progress=77'], '--progress: descriptor 77 is not open'),
      ('a pipe verified', ['-', '/dev/null', '--verify'], '--verify: standard input cannot be read a second time'),
      ('a pipe continued', ['-', '/dev/null', '--resume=j'], '--resume: a copy of standard input cannot be'),
      ('a journal without a name', ['a', 'b', '--resume='], '--resume: the name of the journal is empty'),
      ('another scheme', ['nvme+fc://h/n', '-'], 'does not start with nvme.rdma:// or nvme.tcp://'),
      ('a time that is none', ['/dev/null', 'nvme+rdma://h/nqn.2024-01.test:x', '--ctrl-loss-tmo=5s'],
       '--ctrl-loss-tmo: "5s" is not a number of seconds from 0 to 4000000, or -1 for no limit'),
      ('an unknown policy', ['/dev/null', 'nvme+rdma://h/nqn.2024-01.test:x', '--policy=any'],
       '--policy: found "any", expected'),
      ('an unknown policy between files', ['/dev/null', '/dev/null', '--policy=any'], '--policy: found "any", expected'),
      ('no subsystem', ['nvme+rdma://127.0.0.1', '-'], 'no subsystem'))
def a_command_line_that_is_wrong(t, args, says):
    t.match(says, t.rdinit('cp', *args, rc=2, input=b'').err)


@test
def copies_from_the_local_address_that_was_asked_for(t):
    target = t.target([t.namespace(size=MIB, backend='memory')])
    t.rdinit('cp', target.uri(), '/dev/null', '--host-traddr', '127.0.0.9')
    t.eq(set(re.findall(r'connected from ([0-9.]+):', target.text())), {'127.0.0.9'}, 'addresses of the host')


# ---- progress ----

@test
def progress_for_programs(t):
    source = t.file('source', random.Random(1).randbytes(3 * MIB))
    argv = [program('rdinit'), 'cp', source, t.path('copy'), '--verify', '--progress', '3']
    res = t.run(['sh', '-c', 'exec 3>"$0"; exec "$@"', t.path('lines'), *argv])
    t.eq((res.rc, res.err), (0, ''))
    lines = [line.split() for line in content(t.path('lines')).decode().splitlines()]
    last = {phase: (done, total) for phase, done, total in lines}
    t.eq(last, {phase: (str(3 * MIB), str(3 * MIB)) for phase in ('copy', 'flush', 'verify')})
    # The total is unknown, and the reader has gone away.
    argv = [program('rdinit'), 'cp', '-', t.path('copy'), '--no-flush', '--progress', '2']
    t.match(r'(?m)^copy 5 5$', t.run(argv, input=b'hello').err)
    res = t.run(['sh', '-c', '"$@" 3>&1 >/dev/null | true', 'x', *argv[:-1], '3'], input=b'hello')
    t.same(content(t.path('copy')), b'hello')


@test
def a_progress_bar_on_a_terminal(t):
    leader, follower = pty.openpty()
    source = t.file('source', random.Random(1).randbytes(3 * MIB))
    argv = [program('rdinit'), 'cp', source, t.path('copy'), '--verify']
    with subprocess.Popen(argv, stderr=follower) as proc:
        os.close(follower)
        shown = b''
        while not shown.endswith(b'\n') or shown.count(b'\n') < 2:
            shown += os.read(leader, 65536)
    os.close(leader)
    t.eq(proc.returncode, 0, 'exit status')
    t.eq(len(re.findall(rb'\r\[#{30}\] 100% 3\.0 MiB, [\d.]+ \w+/s\x1b\[K\r\n', shown)), 2, f'bars in {shown}')


if __name__ == '__main__':
    sys.exit(main())
