# SPDX-License-Identifier: BSD-3-Clause
"""Several initiators at once on one large file, and random verified I/O by rdverify."""

import subprocess
import sys

from t_loop import (ADDR, ADDR6, DEADLINE, FABRIC, LONG, PATIENCE, SANITIZED, Failure, each, main, program,
                    requires_disk, requires_engine, requires_ipv6, scaled, test, wait_for)

MIB = 1 << 20
TOTAL = (1024 if LONG else 16 if SANITIZED else scaled(32, 16)) * MIB
WRITERS = 4


def random_file(path, size):
    with open(path, 'wb') as out, open('/dev/urandom', 'rb') as source:
        while size:
            part = min(size, 4 * MIB)
            out.write(source.read(part))
            size -= part


def start(t, name, *args):
    return t.spawn(name, [program('rdinit'), *args, *PATIENCE])


def join(procs):
    for proc in procs:
        rc = proc.wait(DEADLINE * 5)
        if rc:
            raise Failure(f'{proc.name}: exit {rc}\n{proc.text()}')


def same_files(t, a, b):
    res = subprocess.run(['cmp', a, b], capture_output=True, text=True, check=False)
    t.eq(res.returncode, 0, f'cmp: {res.stdout}{res.stderr}')


@each(('512, io_uring', 512, 'io_uring'), ('4096, aio', 4096, 'aio'))
def parallel_writers_and_readers(t, block, engine):
    """Each initiator has its own part of the file, whose borders are aligned to a block only."""
    requires_engine(engine)
    requires_disk(t.dir, 4 * TOTAL)
    target = t.target([t.namespace(size=TOTAL, block_size=block, engine=engine)],
                      target={'buffer_memory': '32MiB'})
    random_file(t.path('in'), TOTAL)
    blocks = TOTAL // block
    bounds = [0] + [blocks * i // WRITERS + 3 * i + 1 for i in range(1, WRITERS)] + [blocks]
    parts = []
    with open(t.path('in'), 'rb') as source:
        for i in range(WRITERS):
            path = t.path(f'part{i}')
            with open(path, 'wb') as out:
                left = (bounds[i + 1] - bounds[i]) * block
                while left:
                    data = source.read(min(left, 4 * MIB))
                    out.write(data)
                    left -= len(data)
            parts.append(path)
    queues = ['--nr-io-queues', '3']
    join([start(t, f'write{i}', 'write', target.uri(), '--start-block', bounds[i], '--data', parts[i],
                *queues) for i in range(WRITERS)])
    same_files(t, t.path('in'), t.path('ns1.img'))
    join([start(t, f'read{i}', 'read', target.uri(), '--start-block', bounds[i], '--data-size',
                (bounds[i + 1] - bounds[i]) * block, '--data', f'{parts[i]}.back', *queues)
          for i in range(WRITERS)])
    for part in parts:
        same_files(t, part, f'{part}.back')


@test
def readers_see_whole_blocks_of_writers(t):
    """Two write the same range over and over, in different values; a reader finds no third value."""
    size = scaled(4, 2) * MIB
    target = t.target([t.namespace(backend='memory', size=size)])
    paths = [t.file('a', b'\xAA' * size), t.file('b', b'\x55' * size)]
    t.rdinit('write', target.uri(), '--data', paths[0])
    for _ in range(3):
        procs = [start(t, 'writer', 'write', target.uri(), '--data', path) for path in paths]
        got = t.rdinit('read', target.uri(), '--data', '-', '--data-size', size).out
        join(procs)
        for at in range(0, size, 512):
            block = got[at:at + 512]
            t.ok(block in (b'\xAA' * 512, b'\x55' * 512), f'a mixed block at {at}')


BACKENDS = (('memory', {'backend': 'memory'}), ('io_uring', {'engine': 'io_uring'}),
            ('io_uring, 4096', {'engine': 'io_uring', 'block_size': 4096}),
            ('aio', {'engine': 'aio'}))


CRC = (False, True) if FABRIC == 'iwarp' else (False,)


@each(*((f'{name}, {addr}' + (f', CRC {"on" if crc else "off"}' if FABRIC == 'iwarp' else ''), keys,
         addr, crc)
        for i, (name, keys) in enumerate(BACKENDS) for addr in (ADDR, ADDR6) for crc in CRC
        if LONG or (addr == ADDR6) == (i % 2 == 1) and crc == (FABRIC == 'iwarp' and addr == ADDR6)))
def verified_random_io(t, keys, addr, crc):
    if 'engine' in keys:
        requires_engine(keys['engine'])
    if ':' in addr:
        requires_ipv6()
    target = t.target([t.namespace(size=scaled(32, 16) * MIB, **keys)], addr=addr, listener={'crc': crc})
    seconds = 120 if LONG else 1
    res = t.run([program('rdverify'), target.uri(), '--seconds', seconds, '--queues', '2', *PATIENCE],
                deadline=DEADLINE + 10 * seconds)
    t.eq(res.rc, 0, f'exit status of rdverify ({res.err.strip()[-500:]})')
    t.note((res.text.strip() or res.err.strip()).splitlines()[-1])


@test
def few_capsules_for_many_queues(t):
    """16 RECVs for 4 x 128 commands with their data: hosts wait, and nothing is lost or mixed up."""
    keys = {'in_capsule_size': '64KiB', 'capsule_memory': '1MiB', 'reactors': 1}
    size = scaled(32, 16) * MIB
    target = t.target([t.namespace(1, backend='memory', size=size)] +
                      [t.namespace(n, size=size) for n in (2, 3, 4)], target=keys)
    seconds = 60 if LONG else 2
    procs = [t.spawn(f'rdverify{nsid}', [program('rdverify'), target.uri(nsid), '--seconds', seconds,
                                         '--queues', '4', '--depth', '128', *PATIENCE])
             for nsid in (1, 2, 3, 4)]
    join(procs)
    wait_for(lambda: target.counters()['capsules'] == 0, 'all capsules to come back')


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp', 'verbs')))
