#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a disk that hangs costs everything else, as tables. Needs root, loop devices and FUSE.

    tests/bench/hung_disk.py BUILD [ROUNDS [SECONDS]]

BUILD is the build directory. First table: namespace 1 is on a frozen file system (or a block device whose blocks are on
one), and 600 commands of six queues hang there. "rdinit bench" does random I/O of 4 KiB at depth 32 in namespace 2, a
file on the disk of this machine, on the same reactor: for SECONDS (default 3) before, while the commands hang, and after.
A figure is that of the second time, divided by the mean of the first and the last, which differ by "spread" (the larger
divided by the smaller). Medians over ROUNDS (default 3).

Second table, the longest of ROUNDS: the time until "ready" where the file of one namespace is on a FUSE file system that
answers nothing; the longest ana.set, host.deny, host.allow and namespace.add (memory) while the removal of the namespace
with 100 hanging writes goes on; and, with such writes, the times from SIGTERM until the host's queue is closed, until
nothing listens, until the last line of the log is written, and until another rdtarget with the same port, state_dir and
control socket is ready.
"""

import ctypes
import json
import os
import signal
import socket
import statistics
import sys
import time

BUILD = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else sys.exit(__doc__)
os.environ.update(RDTARGET=f'{BUILD}/target/rdtarget', RDINIT=f'{BUILD}/initiator/rdinit')
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'loop'))

import nvmf_peer as nv  # noqa: E402
from t_control import Control, with_socket  # noqa: E402
from t_loop import NQN, T, Skip, Target, wait_for  # noqa: E402
from t_serving import memory  # noqa: E402
from t_storage import MIB, pattern  # noqa: E402
from test_hung import EACH, FAULTS, OTHER, QUEUES, OnFrozen, Preload, post_many  # noqa: E402

QUIET = ('--log', 'info')
CALLS = 20


class SilentFuse:
    """A FUSE file system whose server answers nothing: each look-up waits in the kernel until this ends."""

    def __init__(self, t):
        self.where = t.path('silent')
        os.mkdir(self.where)
        self.fd = os.open('/dev/fuse', os.O_RDWR)
        libc = ctypes.CDLL(None, use_errno=True)
        options = f'fd={self.fd},rootmode=40000,user_id=0,group_id=0'.encode()
        if libc.mount(b'silent', self.where.encode(), b'fuse', 0, options):
            raise Skip(f'no FUSE: {os.strerror(ctypes.get_errno())}')
        t.cleanup(t.run, ['umount', '--lazy', self.where])
        t.cleanup(self.end)

    def end(self):
        os.close(self.fd)


def with_test(measure, *args):
    """What measure(t, ...) returns; all that it started is ended."""
    t = T('hung_disk')
    failed = True
    try:
        result = measure(t, *args)
        failed = False
    finally:
        t.finish()
        t.discard(failed)
    return result


# ---- the other namespace ----

def bench(t, target, rw, seconds):
    said = json.loads(t.rdinit('bench', target.uri(2), f'--rw={rw}', '--dataloss', f'--run-time={seconds}s', '--no-progress',
                               '--output-format=json').text)
    return said['iops'], said['latency_ns']['percentiles']['99']


def beside(t, fault, engine, direct, seconds):
    """For reads and for writes: (IOPS, p99, spread of the IOPS), as in the table."""
    sick = fault(t)
    t.file('healthy.img', pattern(0, 16 * MIB))
    target = t.target([t.namespace(1, path=sick.path, engine=engine, direct=direct, **sick.keys),
                       t.namespace(2, path=sick.healthy, size='16MiB', engine=engine, direct=direct)],
                      target={'reactors': 1}, args=QUIET)
    modes = ('randread', 'randwrite')
    with nv.Host(target.addr, target.port, NQN) as h:
        h.enable()
        queues = [h.add_io(depth=EACH + 4) for _ in range(QUEUES)]
        before = [bench(t, target, rw, seconds) for rw in modes]
        sick.begin()
        hung = [post_many(queue, number * EACH) for number, queue in enumerate(queues)]
        wait_for(lambda: target.counters()['requests'] >= QUEUES * (EACH - 1), 'the commands to arrive')
        during = [bench(t, target, rw, seconds) for rw in modes]
        if not sick.hangs() or target.counters()['requests'] < QUEUES * (EACH - 1):
            raise SystemExit('the commands did not hang')
        sick.end()
        for queue, cids in zip(queues, hung):
            for cid in cids:
                nv.expect(queue.wait(cid))
        after = [bench(t, target, rw, seconds) for rw in modes]
        h.shutdown()
    return [(d[0] / statistics.mean((b[0], a[0])), d[1] / statistics.mean((b[1], a[1])), max(a[0], b[0]) / min(a[0], b[0]))
            for b, d, a in zip(before, during, after)]


def throughput(rounds, seconds):
    print('| | reads, IOPS | p99 | spread | writes, IOPS | p99 | spread |\n|---|---|---|---|---|---|---|')
    for label, fault, engine, direct in FAULTS:
        if fault is Preload:
            continue
        got = [with_test(beside, fault, engine, direct, seconds) for _ in range(rounds)]
        cells = [f'{statistics.median(one[mode][column] for one in got):.2f}' for mode in range(2) for column in range(3)]
        print(f'| {label} | {" | ".join(cells)} |', flush=True)


# ---- how long what operators do takes ----

def timed(done):
    begin = time.monotonic()
    done()
    return time.monotonic() - begin


def start(t):
    silent = SilentFuse(t)
    config, path = with_socket(t, [memory(t, 1), t.namespace(2, path=f'{silent.where}/a.img', create=False, size=None)])
    begin = time.monotonic()
    target = t.target(config=config, args=QUIET)
    took = time.monotonic() - begin
    with Control(path) as c:
        states = [ns['state'] for ns in c.call('namespace.list')['namespaces']]
    if states != ['live', 'opening']:
        raise SystemExit(f'the namespaces are {states}')
    with nv.Host(target.addr, target.port, NQN) as h:
        h.enable()
        nv.expect(h.add_io().read_blocks(1, 0, 1)[0])
        h.shutdown()
    silent.end()
    t._cleanups.remove((silent.end, (), {}))
    return {'ready': took}


def changes(t):
    sick = OnFrozen(t)
    config, path = with_socket(t, [t.namespace(1, path=sick.path, direct='auto', **sick.keys), memory(t, 2)],
                               subsystem={'allow_any_host': False, 'hosts': [nv.HOST_NQN, OTHER]})
    target = t.target(config=config, args=QUIET)
    took = {'ana.set': [], 'host.deny': [], 'host.allow': [], 'namespace.add': []}
    with nv.Host(target.addr, target.port, NQN) as h, Control(path) as c:
        def call(method, **params):
            took[method].append(timed(lambda: c.call(method, **params)))
        h.enable()
        queue, other = h.add_io(depth=EACH + 4), h.add_io()
        sick.begin()
        cids = post_many(queue, 0)
        wait_for(lambda: target.counters()['requests'] >= EACH - 1, 'the commands to arrive')
        c.call('namespace.remove', nqn=NQN, nsid=1, wait=False)
        for number in range(CALLS):
            call('ana.set', group=1, state='optimized' if number & 1 else 'inaccessible')
            call('host.deny', nqn=NQN, hostnqn=OTHER)
            call('host.allow', nqn=NQN, hostnqn=OTHER)
            call('namespace.add', nqn=NQN, namespace=memory(t, 10 + number))
        nv.expect(other.write_blocks(10, 0, bytes(512)))
        listed = [ns['state'] for ns in c.call('namespace.list')['namespaces']]
        if not sick.hangs() or 'leaving' not in listed:
            raise SystemExit('the removal did not hang')
        sick.end()
        for cid in cids:
            queue.wait(cid)
        h.shutdown()
    return {f'{method} while a removal hangs': max(times) for method, times in took.items()}


def nothing_listens(target):
    def refused():
        try:
            socket.create_connection((target.addr, target.port), timeout=1).close()
        except ConnectionRefusedError:
            return True
        return False
    wait_for(refused, 'the listener to be closed')


def end(t):
    sick = OnFrozen(t)
    healthy = t.namespace(2, path=t.path('healthy.img'), size='16MiB')
    state = {'target': {'state_dir': t.path('state')}}
    config, _ = with_socket(t, [t.namespace(1, path=sick.path, direct='auto', **sick.keys), healthy], **state)
    target = Target(t, config, args=QUIET)
    t.cleanup(target.kill)
    with nv.Host(target.addr, target.port, NQN) as h:
        h.enable()
        queue = h.add_io(depth=EACH + 4)
        sick.begin()
        post_many(queue, 0)
        wait_for(lambda: target.counters()['requests'] >= EACH - 1, 'the commands to arrive')
        begin, took = time.monotonic(), {}
        target.signal(signal.SIGTERM)
        for what, wait in (('connections are closed', queue.wait_closed), ('nothing listens', lambda: nothing_listens(target)),
                           ('the last line is logged', lambda: target.expect('giving up: '))):
            wait()
            took[f'SIGTERM, {what}'] = time.monotonic() - begin
    config, _ = with_socket(t, [healthy], name='next.yaml', listener={'port': target.port}, **state)
    after = t.target(config=config, name='next', args=QUIET)
    took['SIGTERM, another rdtarget is ready'] = time.monotonic() - begin
    with nv.Host(after.addr, after.port, NQN) as h:
        h.enable()
        nv.expect(h.add_io().read_blocks(2, 0, 1)[0])
        h.shutdown()
    if not sick.hangs():
        raise SystemExit('the disk did not hang')
    sick.end()
    target.wait()
    return took


def times(rounds):
    print('| | s |\n|---|---|')
    for measure in (start, changes, end):
        got = [with_test(measure) for _ in range(rounds)]
        for what in got[0]:
            print(f'| {what} | {max(one[what] for one in got):.3f} |', flush=True)


def main(rounds=3, seconds=3):
    print(f'load {os.getloadavg()[0]:.1f} before\n')
    throughput(int(rounds), int(seconds))
    print()
    times(int(rounds))
    print(f'\nload {os.getloadavg()[0]:.1f} after')


if __name__ == '__main__':
    main(*sys.argv[2:])
