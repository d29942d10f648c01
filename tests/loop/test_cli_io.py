# SPDX-License-Identifier: BSD-3-Clause
"""rdinit read and write: whole files and parts of them, over every backend; no other bytes are changed."""

import contextlib
import os
import pty
import random
import re
import stat
import subprocess
import sys

from t_loop import (ADDR6, ENGINE, NQN, SCALE, each, iwarp_only, iwarp_rows, main, program, requires_disk,
                    requires_engine, scaled, test)
from t_storage import loop_device

SIZE = scaled(16 << 20, 2 << 20)
FEWER = 1 if SCALE == 1 else 3
BACKENDS = (('file, io_uring, 4096', {'engine': 'io_uring', 'block_size': 4096}),
            ('memory, 512', {'backend': 'memory'}),
            *iwarp_rows(('file, io_uring, 512', {'engine': 'io_uring'}),
                        ('file, aio, 512', {'engine': 'aio'}),
                        ('file, aio, 4096', {'engine': 'aio', 'block_size': 4096}),
                        ('file, buffered', {'direct': 'off'}),
                        ('memory, 4096', {'backend': 'memory', 'block_size': 4096})))


def serve(t, keys, **kw):
    if 'engine' in keys:
        requires_engine(keys['engine'])
    return t.target([t.namespace(size=SIZE, **keys)], **kw)


def pattern(n, seed):
    return random.Random(seed).randbytes(n)


def read_all(t, target, **kw):
    return t.rdinit('read', target.uri(), '--data', '-', '--data-size', str(SIZE), **kw).out


@test
@iwarp_only
def a_whole_namespace_is_not_written_to_a_terminal(t):
    target = serve(t, {})
    ours, theirs = pty.openpty()
    t.cleanup(os.close, ours)
    t.cleanup(os.close, theirs)
    for args in ((), ('--data', '-')):
        res = t.run([program('rdinit'), 'read', target.uri(), *args], stdout=theirs)
        t.eq(res.rc, 2, 'exit status')
        t.match('the whole namespace would go to the terminal; name a file with --data=FILE, or limit the size', res.err)
    t.rdinit('read', target.uri(), '--data-size', '512', stdout=theirs)


@each(*BACKENDS)
def a_whole_namespace(t, keys):
    target = serve(t, keys)
    data = pattern(SIZE, 1)
    t.rdinit('write', target.uri(), '--data', t.file('in', data))
    t.rdinit('read', target.uri(), '--data', t.path('out'), '--data-size', str(SIZE))
    with open(t.path('out'), 'rb') as f:
        t.same(f.read(), data)


def can_be_polled(path):
    dev = os.stat(path).st_dev
    for queue in 'queue', '../queue':
        with contextlib.suppress(OSError):
            with open(f'/sys/dev/block/{os.major(dev)}:{os.minor(dev)}/{queue}/io_poll', encoding='ascii') as f:
                return f.read() == '1\n'
    return False


@test
@iwarp_only
def results_that_are_looked_for(t):
    """If the device supports it (tests/vm/test_loop.sh has one); otherwise the log says so, and I/O works as well."""
    requires_engine('io_uring')
    target = t.target([t.namespace(size=SIZE, engine='io_uring', iopoll=True),
                       t.namespace(2, size=SIZE, engine='io_uring', iopoll=True, direct='off')])
    said = '\n'.join(target.lines)
    if not can_be_polled(t.dir):
        t.match(r'ns1.img: iopoll: the device has no queues.*: using interrupts', said)
    t.match(r'ns2.img: iopoll: polling needs direct I/O: using interrupts', said)
    data = pattern(SIZE, 1)
    t.rdinit('write', target.uri(), '--data', t.file('in', data))
    t.same(read_all(t, target), data)


@each(*BACKENDS)
def lengths_and_places_leave_their_neighbours_alone(t, keys):
    target = serve(t, keys, target={'max_data_size': '64KiB'})
    block = keys.get('block_size', 512)
    model = bytearray(pattern(SIZE, 2))
    t.rdinit('write', target.uri(), '--data', '-', input=bytes(model))
    rng = random.Random(3)
    lengths = [1, block - 1, block, block + 1, 3 * block + 7, 65535, 65536, 65537, 200001, 1 << 20]
    for length in lengths[::FEWER]:
        slba = rng.randrange((SIZE - length) // block)
        data = rng.randbytes(length)
        t.rdinit('write', target.uri(), '--start-block', str(slba), '--data', '-', input=data)
        model[slba * block:slba * block + length] = data
        back = t.rdinit('read', target.uri(), '--start-block', str(slba), '--data-size', str(length),
                        '--data', '-').out
        t.same(back, data, f'{length} bytes at block {slba}')
    t.same(read_all(t, target), bytes(model), 'the whole namespace')


@each(*BACKENDS)
def byte_offsets_leave_their_neighbours_alone(t, keys):
    target = serve(t, keys, target={'max_data_size': '64KiB'})
    model = bytearray(pattern(SIZE, 20))
    t.rdinit('write', target.uri(), '--data', '-', input=bytes(model))
    rng = random.Random(21)
    for length in (1, 5, 511, 512, 513, 4095, 4097, 65536, 70001, 300000)[::FEWER]:
        offset = rng.randrange(SIZE - length)
        data = rng.randbytes(length)
        t.rdinit('write', target.uri(), '--offset', str(offset), '--data', '-', input=data)
        model[offset:offset + length] = data
        back = t.rdinit('read', target.uri(), '--offset', str(offset), '--data-size', str(length),
                        '--data', '-').out
        t.same(back, data, f'{length} bytes at byte {offset}')
    t.same(read_all(t, target), bytes(model), 'the whole namespace')


@test
@iwarp_only
def a_null_namespace_takes_everything_and_gives_zeroes(t):
    target = serve(t, {'backend': 'null'})
    t.rdinit('write', target.uri(), '--data', '-', input=pattern(100000, 4))
    t.same(t.rdinit('read', target.uri(), '--data', '-', '--data-size', '100000').out, bytes(100000))


@test
@iwarp_only
def data_lands_in_the_file(t):
    target = t.target([t.namespace(size=SIZE)])
    data = pattern(70000, 5)
    t.rdinit('write', target.uri(), '--start-block', '3', '--data', '-', input=data)
    t.rdinit('flush', target.uri())
    with open(t.path('ns1.img'), 'rb') as f:
        f.seek(3 * 512)
        t.same(f.read(len(data)), data)


@each(('a quarter of MDTS', 16384), ('MDTS', 65536), ('MDTS and a block', 66048), ('16 times MDTS', 1 << 20),
      ('more than that', (1 << 20) + 4608))
def lengths_around_mdts(t, length):
    target = serve(t, {'backend': 'memory'}, target={'max_data_size': '64KiB'})
    for slba in (0, 1, 127, 129):
        data = pattern(length, slba)
        t.rdinit('write', target.uri(), '--start-block', str(slba), '--data', '-', input=data)
        got = t.rdinit('read', target.uri(), '--start-block', str(slba), '--data-size', str(length),
                       '--data', '-').out
        t.same(got, data, f'block {slba}')


@each(('0 queues is refused', 0, 2), ('1 queue', 1, 0), ('2 queues', 2, 0), ('7 queues', 7, 0))
def several_queues(t, queues, rc):
    target = serve(t, {'backend': 'memory'})
    data = pattern(SIZE, 6)
    t.rdinit('write', target.uri(), '--nr-io-queues', str(queues), '--data', t.file('in', data), rc=rc)
    if rc == 0:
        got = t.rdinit('read', target.uri(), '--nr-io-queues', str(queues), '--data', '-',
                       '--data-size', str(SIZE)).out
        t.same(got, data)


@each(('queue size 2', 2), ('queue size 16', 16), ('queue size 128', 128))
def queue_sizes(t, depth):
    target = serve(t, {'backend': 'memory'})
    data = pattern(SIZE // 4, 7)
    t.rdinit('write', target.uri(), '--queue-size', str(depth), '--data', '-', input=data)
    got = t.rdinit('read', target.uri(), '--queue-size', str(depth), '--data', '-', '--data-size',
                   str(len(data))).out
    t.same(got, data)


@test
@iwarp_only
def block_count_is_nvme_clis_and_counts_from_zero(t):
    target = serve(t, {'backend': 'memory'})
    data = pattern(4096, 8)
    t.rdinit('write', target.uri(), '--start-block', '8', '--block-count', '7', '--data-size', '4096',
             '--data', '-', input=data)
    got = t.rdinit('read', target.uri(), '--start-block', '8', '--block-count', '7', '--data', '-').out
    t.same(got, data)


@test
@iwarp_only
def nvme_cli_options_name_the_place(t):
    target = serve(t, {'backend': 'memory'})
    where = ['--transport', 'rdma', '--traddr', target.addr, '--trsvcid', str(target.port), '--nqn', NQN,
             '--namespace-id', '1']
    data = pattern(5000, 9)
    t.rdinit('write', *where, '--data', '-', input=data)
    t.same(t.rdinit('read', *where, '--data', '-', '--data-size', '5000').out, data)


@each(('CRC off', {}), *iwarp_rows(('CRC on', {'crc': True})))
def bytes_arrive_over_ipv6(t, listener):
    target = serve(t, {'backend': 'memory'}, addr=ADDR6, listener=listener)
    data = pattern(SIZE // 16 * 3, 10)
    t.rdinit('write', target.uri(), '--data', '-', input=data)
    t.same(t.rdinit('read', target.uri(), '--data', '-', '--data-size', str(len(data))).out, data)


@test
@iwarp_only
def crc_asked_for_by_the_initiator(t):
    target = serve(t, {'backend': 'memory'})
    data = pattern(1 << 20, 11)
    t.rdinit('write', target.uri(), '--crc', '--data', '-', input=data)
    t.same(t.rdinit('read', target.uri(), '--crc', '--data', '-', '--data-size', str(1 << 20)).out, data)


@test
@iwarp_only
def a_pipe_on_both_sides(t):
    """Standard input and output that cannot seek."""
    target = serve(t, {'backend': 'memory'})
    data = pattern(SIZE // 16 * 5, 12)
    source = t.spawn('cat', ['cat', t.file('in', data)], stdout=-1)
    t.rdinit('write', target.uri(), '--data', '-', stdin=source.popen.stdout)
    source.popen.stdout.close()
    t.same(t.rdinit('read', target.uri(), '--data', '-', '--data-size', str(len(data))).out, data)


@test
@iwarp_only
def an_empty_file_writes_nothing(t):
    target = serve(t, {'backend': 'memory'})
    before = pattern(4096, 13)
    t.rdinit('write', target.uri(), '--data', '-', input=before)
    res = t.run([program('rdinit'), 'write', target.uri(), '--data', t.file('empty', b'')])
    t.ok(res.rc in (0, 1, 2) and (res.rc == 0 or res.err.strip()), f'exit {res.rc}: {res.err}')
    t.same(t.rdinit('read', target.uri(), '--data', '-', '--data-size', '4096').out, before)


# ---- errors ----

@test
@iwarp_only
def writing_past_the_end(t):
    target = serve(t, {'backend': 'memory'})
    before = pattern(SIZE, 14)
    t.rdinit('write', target.uri(), '--data', '-', input=before)
    res = t.rdinit('write', target.uri(), '--start-block', str(SIZE // 512 - 1), '--data',
                   t.file('in', bytes(1024)), rc=1)
    t.match('(?i)end|beyond|past|larger|range|size', res.err)
    res = t.rdinit('write', target.uri(), '--start-block', str(SIZE // 512), '--data', '-',
                   input=bytes(512), rc=1)
    t.match('(?i)end|beyond|past|larger|range|size', res.err)
    t.same(read_all(t, target)[:-512], before[:-512], 'what lies before')


@test
@iwarp_only
def a_file_larger_than_the_namespace(t):
    target = serve(t, {'backend': 'memory'})
    res = t.rdinit('write', target.uri(), '--data', t.file('in', bytes(SIZE + 1)), rc=1)
    t.match('(?i)end|beyond|past|larger|range|size', res.err)


@test
@iwarp_only
def reading_past_the_end(t):
    target = serve(t, {'backend': 'memory'})
    res = t.rdinit('read', target.uri(), '--start-block', str(SIZE // 512 - 1), '--data-size', '1024',
                   '--data', '-', rc=1)
    t.match('(?i)end|beyond|past|larger|range|size', res.err)


@test
@iwarp_only
def a_missing_input_file(t):
    target = serve(t, {'backend': 'memory'})
    res = t.rdinit('write', target.uri(), '--data', t.path('missing'), rc=1)
    t.match('missing.*No such file', res.err)


@test
@iwarp_only
def an_output_file_that_cannot_be_made(t):
    target = serve(t, {'backend': 'memory'})
    res = t.rdinit('read', target.uri(), '--data', t.path('no/such/folder'), '--data-size', '512', rc=1)
    t.match('no/such/folder.*No such file', res.err)


@test
@iwarp_only
def a_read_only_output_file(t):
    target = serve(t, {'backend': 'memory'})
    path = t.file('out', b'kept')
    os.chmod(path, stat.S_IRUSR)
    if os.geteuid() == 0:
        # Root can write everywhere, except to a directory.
        path = t.dir
    res = t.rdinit('read', target.uri(), '--data', path, '--data-size', '512', rc=1)
    t.match('(?i)permission denied|is a directory', res.err)


@test
@iwarp_only
def a_full_output_file(t):
    target = serve(t, {'backend': 'memory'})
    res = t.rdinit('read', target.uri(), '--data', '/dev/full', '--data-size', '65536', rc=1)
    t.match('No space left', res.err)
    with open('/dev/full', 'wb') as full:
        res = t.rdinit('read', target.uri(), '--data', '-', '--data-size', '65536', rc=1, stdout=full)
    t.match('No space left', res.err)


@test
@iwarp_only
def a_larger_output_file_is_cut(t):
    """--data FILE contains exactly what was read; with a descriptor of the shell, later content of the file is kept."""
    target = t.target([t.namespace(backend='memory', size='1MiB')])
    data = pattern(5000, 21)
    t.rdinit('write', target.uri(), '--data', '-', input=data)
    path = t.file('out', b'old' * 10000)
    t.rdinit('read', target.uri(), '--data', path, '--data-size', '5000')
    with open(path, 'rb') as f:
        t.same(f.read(), data)
    old = b'old' * 10000
    path = t.file('out2', old)
    with open(path, 'r+b') as f:
        f.seek(1000)
        t.rdinit('read', target.uri(), '--data', '-', '--data-size', '5000', stdout=f)
        f.flush()
        t.eq(os.lseek(f.fileno(), 0, os.SEEK_CUR), 6000, 'position of the shared output')
    with open(path, 'rb') as f:
        t.same(f.read(), old[:1000] + data + old[6000:])


@test
@iwarp_only
def standard_input_longer_than_the_namespace(t):
    """Data up to the end is written; more data is an error, data up to the last byte is not an error."""
    target = t.target([t.namespace(backend='memory', size='1MiB')])
    data = pattern((1 << 20) + 1, 22)
    t.rdinit('write', target.uri(), '--data', '-', input=data[:-1])
    res = t.rdinit('write', target.uri(), '--data', '-', rc=1, input=data)
    t.match(r'rdinit: standard input: the input is longer than the 1048576 bytes to the end', res.err)
    t.same(t.rdinit('read', target.uri(), '--data', '-').out, data[:-1])
    res = t.rdinit('write', target.uri(), '--offset', '1048570', '--data', '-', rc=1, input=b'seven__')
    t.match(r'longer than the 6 bytes', res.err)


class Terminal:
    """Standard error of a program on a pseudo-terminal."""

    def __init__(self, t, argv, **kw):
        master, slave = pty.openpty()
        self.popen = subprocess.Popen(argv, stderr=slave, **kw)
        os.close(slave)
        self.shown = b''
        t.cleanup(self.popen.wait)
        try:
            while True:
                self.shown += os.read(master, 65536)
        except OSError:  # EIO: the last writer is gone
            pass
        os.close(master)
        self.rc = self.popen.wait()


@test
@iwarp_only
def a_progress_bar_on_a_terminal(t):
    """Drawn in place, complete at the end, and removed from a line that reports an error."""
    target = t.target([t.namespace(1, backend='null', size='4GiB'), t.namespace(2, backend='memory')])
    mib = 2048 if SCALE == 1 else 256
    argv = [program('rdinit'), 'write', target.uri(1), '--data', '/dev/zero', '--data-size', f'{mib}MiB']
    size = rb'2\.0 GiB' if mib == 2048 else rb'256\.0 MiB'
    end = rb'\r\[#{30}\] 100% ' + size + rb', [\d.]+ \w+/s\x1b\[K\r\n$'
    term = Terminal(t, argv)
    t.eq(term.rc, 0, 'exit status')
    t.ok(re.search(end, term.shown), f'{term.shown[-200:]}')
    shares = [int(n) for n in re.findall(rb'\] +(\d+)%', term.shown)]
    t.eq(shares, sorted(shares), 'percentages')
    t.eq(Terminal(t, argv + ['--no-progress']).shown, b'', 'with --no-progress')
    # The length of standard input is unknown: no bar, but numbers.
    argv = [program('rdinit'), 'write', target.uri(2), '--data', '-']
    with open('/dev/zero', 'rb') as zero:
        term = Terminal(t, argv, stdin=zero)
    t.eq(term.rc, 1, 'exit status')
    t.ok(re.search(rb'(^|\n|\r\x1b\[K)rdinit: standard input: the input is longer', term.shown),
         f'an error on a line with something else: {term.shown[-300:]}')


@test
@iwarp_only
def a_closed_pipe_as_output(t):
    target = serve(t, {'backend': 'memory'})
    r, w = os.pipe()
    os.close(r)
    res = t.run([program('rdinit'), 'read', target.uri(), '--data', '-', '--data-size', '65536'],
                stdout=w)
    os.close(w)
    t.ok(res.rc != 0, 'it went well')


@test
@iwarp_only
def a_short_input(t):
    target = serve(t, {'backend': 'memory'})
    res = t.rdinit('write', target.uri(), '--data-size', '8192', '--data', t.file('in', bytes(1000)),
                   rc=1)
    t.match('(?i)1000|short|ended', res.err)


@test
@iwarp_only
def a_block_device(t):
    requires_disk(t.dir, 64 << 20)
    device = loop_device(t, SIZE)
    target = t.target([t.namespace(backend='block', size=None, path=device, engine=ENGINE)])
    data = pattern(SIZE, 15)
    t.rdinit('write', target.uri(), '--data', '-', input=data)
    t.rdinit('flush', target.uri())
    t.same(read_all(t, target), data)
    with open(t.path('disk'), 'rb') as f:
        t.same(f.read(), data, 'the file below the device')


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp', 'verbs')))
