# SPDX-License-Identifier: BSD-3-Clause
"""rdtarget: start, restart, stop under load, as an ordinary user, idle, on all its reactors."""

import collections
import os
import random
import re
import resource
import shutil
import signal
import sys
import time

import nvmf_peer as nv
from t_loop import (ENGINE, FABRIC, Skip, each, iwarp_only, main, program, requires_engine,
                    requires_native, scaled, test, wait_for)
from t_serving import LOST, Baseline, exercise, host

SIZE = scaled(16 << 20, 2 << 20)


def ns_uuid(target):
    with host(target) as h:
        h.enable()
        cqe, desc = h.admin.identify(3, 1)
        nv.expect(cqe)
        h.shutdown()
    return desc[4:20]


@test
@iwarp_only
def data_and_identity_survive_a_restart(t):
    config = t.config()
    data = random.Random(1).randbytes(1 << 20)
    first = t.target(config=config)
    with host(first) as h:
        h.enable()
        serial = h.admin.identify(1)[1][4:24]
        h.shutdown()
    t.rdinit('write', first.uri(), '--data', '-', input=data)
    uuid = ns_uuid(first)
    t.ok(any(uuid), 'the UUID is zero')
    first.stop()
    second = t.target(config=config, name='rdtarget-2')
    t.eq(ns_uuid(second), uuid, 'UUID')
    with host(second) as h:
        h.enable()
        t.eq(h.admin.identify(1)[1][4:24], serial, 'serial number')
        h.shutdown()
    t.same(t.rdinit('read', second.uri(), '--data', '-', '--data-size', str(len(data))).out, data)


@test
@iwarp_only
def a_file_is_made_with_the_size_asked_for(t):
    t.target([t.namespace(size='24MiB')])
    t.eq(os.path.getsize(t.path('ns1.img')), 24 << 20)


@test
@iwarp_only
def an_existing_file_is_not_made_again(t):
    data = random.Random(2).randbytes(1 << 20)
    path = t.file('ns1.img', data)
    target = t.target([t.namespace(size='1MiB', path=path)])
    t.same(t.rdinit('read', target.uri(), '--data', '-', '--data-size', '1048576').out, data)


@test
@iwarp_only
def a_given_uuid_is_used(t):
    text = '6f0c2b4e-6d0f-4a4e-9a56-0e9b7a3d5c11'
    target = t.target([t.namespace(backend='memory', uuid=text)])
    t.eq(ns_uuid(target).hex(), text.replace('-', ''))


@each(('SIGTERM', signal.SIGTERM), ('SIGINT', signal.SIGINT))
@iwarp_only
def ends_well_on(t, sig):
    target = t.target([t.namespace(backend='memory')])
    exercise(target)
    target.signal(sig)
    t.eq(target.wait(), 0, 'exit status')


@test
def ends_well_with_hosts_connected(t):
    target = t.target([t.namespace(backend='memory')])
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        if FABRIC == 'iwarp':
            for i in range(4):
                h.admin.post(nv.sqe(nv.AER, i))
        target.signal(signal.SIGTERM)
        h.admin.wait_closed()
        queue.wait_closed()
    t.eq(target.wait(), 0, 'exit status')


@test
def drains_under_load(t):
    """Every write that was answered before the end is in the file."""
    target = t.target([t.namespace(size=SIZE)])
    blocks, goal = SIZE // 4096, scaled(500, 100)
    with host(target) as h:
        h.enable()
        queue = h.add_io(depth=32)
        data = [random.Random(number).randbytes(4096) for number in range(64)]
        answered, sent, count = {}, 0, 0
        in_flight = collections.deque()
        try:
            while True:
                while len(in_flight) < 31:  # each block with a number of its own until all are used
                    lba, number = sent * 7 % blocks, sent % len(data)
                    in_flight.append((queue.post_write(1, lba * 8, data[number]), lba, number))
                    sent += 1
                pending, lba, number = in_flight[0]
                if pending.wait().status == 0:
                    answered[lba] = number
                    count += 1
                in_flight.popleft()
                if count == goal:
                    target.signal(signal.SIGTERM)
        except LOST:
            pass
        t.ok(count >= goal, f'only {count} answers')
    t.eq(target.wait(), 0, 'exit status')
    unknown = {lba for _, lba, _ in in_flight}
    with open(t.path('ns1.img'), 'rb') as f:
        for lba, number in answered.items():
            if lba not in unknown:
                f.seek(lba * 4096)
                t.same(f.read(4096), data[number], f'block {lba * 8}')


@test
@iwarp_only
def a_second_sigterm_ends_it_at_once(t):
    target = t.target([t.namespace(backend='memory')], target={'drain_timeout': '1h'})
    with host(target) as h:
        h.enable()
        target.signal(signal.SIGTERM)
        target.signal(signal.SIGTERM)
        target.wait()


@test
@iwarp_only
def it_dies_with_its_parent(t):
    config = t.config([t.namespace(backend='memory')])
    shell = t.spawn('shell', ['sh', '-c', '"$0" --exit-with-parent -c "$1" & echo "pid $!" >&2; wait',
                              program('rdtarget'), config])
    pid = int(shell.expect(r'pid (\d+)')[1])
    shell.expect('ready')
    shell.popen.kill()

    def gone():
        try:
            with open(f'/proc/{pid}/stat', encoding='ascii') as f:
                return f.read().rsplit(')', 1)[1].split()[0] == 'Z'
        except OSError:
            return True
    wait_for(gone, 'rdtarget to end with its parent')


@test
def two_reactors_are_used(t):
    """Queues are distributed: with load on several, more than one reactor reads."""
    target = t.target([t.namespace(backend='memory')], target={'reactors': 2})
    with host(target) as h:
        h.enable()
        queues = [h.add_io() for _ in range(8)]
        count = scaled(50, 25)
        for _ in range(count):
            for queue in queues:
                nv.expect(queue.read_blocks(1, 0, 8)[0])
        reads = target.by_reactor('reads')
        t.eq(sum(reads), count * len(queues))
        t.ok(len(reads) == 2 and min(reads) >= count, f'reads of each reactor: {reads}')
        h.shutdown()


# ---- limits ----

def as_user():
    """The uid and gid of an ordinary user to run as."""
    if os.geteuid() != 0:
        return None
    return 65534


def limited(memlock_kib):
    uid = as_user()

    def prepare():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (memlock_kib << 10, memlock_kib << 10))
        if uid is not None:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
    return prepare


@each(('64 KiB, io_uring', 64, 'io_uring'), ('8 MiB, io_uring', 8192, 'io_uring'),
      ('64 KiB, aio', 64, 'aio'))
@iwarp_only
def an_ordinary_user_with_a_memlock_limit_of(t, memlock, engine):
    requires_engine(engine)
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    if limit != resource.RLIM_INFINITY and limit < memlock << 10:
        raise Skip(f'the hard memlock limit is {limit >> 10} KiB')
    binary = program('rdtarget')
    if as_user() is not None:
        os.chmod(t.dir, 0o777)
        # A build below a private home directory is out of an ordinary user's reach.
        binary = shutil.copy(binary, t.dir)
    target = t.target([t.namespace(engine=engine)], binary=binary, preexec_fn=limited(memlock),
                      target={'buffer_memory': '32MiB'})
    uid = int(re.search(r'^Uid:\s+(\d+)', target.proc('status'), re.M)[1])
    t.ok(uid != 0, 'runs as root')
    data = random.Random(4).randbytes(4 << 20)
    t.rdinit('write', target.uri(), '--data', '-', input=data)
    t.same(t.rdinit('read', target.uri(), '--data', '-', '--data-size', str(len(data))).out, data)
    said = [line for line in target.text().splitlines() if re.search('(?i)memlock', line)]
    t.ok(len(said) <= 4, f'said {len(said)} times')
    t.note(f'said about the limit: {said[:1]}')


@test
def a_small_slab_makes_requests_wait(t):
    """Far more data in flight than buffers: all of it is served."""
    target = t.target([t.namespace()], target={'buffer_memory': '2MiB', 'max_data_size': '128KiB'})
    data = random.Random(5).randbytes(SIZE)
    with Baseline(target):
        t.rdinit('write', target.uri(), '--nr-io-queues', '4', '--data', '-', input=data)
        got = t.rdinit('read', target.uri(), '--nr-io-queues', '4', '--data', '-', '--data-size',
                       str(SIZE)).out
        t.same(got, data)


# ---- idle ----

@test
def sixty_four_idle_queues_cost_next_to_nothing(t):
    requires_native()
    target = t.target([t.namespace(engine=ENGINE)])
    with host(target) as h:
        h.enable()
        for _ in range(64):
            h.add_io(depth=16)
        for queue in h.io:
            nv.expect(queue.read_blocks(1, 0, 1)[0])
        seconds = 2
        before = target.context_switches(), target.cpu_ticks()
        # The only place where time must pass, because the test measures that time.
        time.sleep(seconds)
        switches = target.context_switches() - before[0]
        ticks = target.cpu_ticks() - before[1]
        share = 100 * ticks / os.sysconf('SC_CLK_TCK') / seconds
        t.note(f'64 idle queues, {seconds} s: {switches / seconds:.1f} context switches/s, '
               f'{share:.2f} % of a core')
        # A poller would make thousands; timers of two reactors and the main thread a few.
        t.ok(switches < 100 * seconds, f'{switches} context switches in {seconds} s')
        h.shutdown()


@test
def memory_and_descriptors_do_not_grow_with_use(t):
    requires_native()
    target = t.target([t.namespace(backend='memory')])
    turns = scaled(200, 20)
    for _ in range(20):
        exercise(target)
    before, files = target.rss(), target.open_files()
    for _ in range(turns):
        exercise(target)
    grown = target.rss() - before
    t.note(f'resident memory after {turns} associations: {grown >> 10:+d} KiB')
    t.ok(grown < 2 << 20, f'resident memory grew by {grown >> 10} KiB')
    wait_for(lambda: target.open_files() <= files, 'descriptors to return')


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp', 'verbs')))
