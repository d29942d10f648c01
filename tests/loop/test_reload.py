# SPDX-License-Identifier: BSD-3-Clause
"""SIGHUP: namespaces are added, removed, replaced and resized, and hosts allowed or not, while other hosts continue.
What cannot be applied is reported, and a bad file changes nothing."""

import json
import os
import re
import signal
import struct
import sys
import threading

import nvmf_peer as nv
from t_loop import LONG, NQN, PATIENCE, Failure, each, main, program, requires_native, test, wait_for
from t_serving import Baseline, has_ended, host, warm

INVALID_NS = 0x00B
LBA_RANGE = 0x080
NO_SUBSYSTEM = 0x182  # as for one that is not there
ROUNDS = 500 if LONG else 40


def reloaded(target):
    """The line that sums it up."""
    return re.search('.*reloaded: .*', target.reload())[0]


def active(t, target):
    """The NSIDs that a new host finds."""
    found = json.loads(t.rdinit('list-ns', target.uri(None), '-o', 'json').text)
    return [entry['nsid'] for entry in found['nsid_list']]


def nsids(h):
    cqe, page = h.admin.identify(2)
    nv.expect(cqe)
    return [n for n in struct.unpack('<1024I', page) if n]


def nsze(h, nsid):
    cqe, page = h.admin.identify(0, nsid)
    nv.expect(cqe)
    return struct.unpack_from('<Q', page)[0]


def memory(t, nsid, size='4MiB', **keys):
    return t.namespace(nsid, backend='memory', size=size, **keys)


class Verified:
    """rdverify on a namespace that does not change, from here to the end of the block."""

    def __init__(self, t, target, nsid=1, seconds=1):
        self.t = t
        self.proc = t.spawn('rdverify', [program('rdverify'), target.uri(nsid), '--seconds', seconds,
                                         '--queues', '3', '--range', 4 << 20, *PATIENCE])

    def __enter__(self):
        return self.proc

    def __exit__(self, kind, *exc):
        if kind is None:
            self.t.eq(self.proc.wait(), 0, f'exit status of rdverify ({self.proc.text()[-500:]})')


class Hammer:
    """Reads and writes of namespaces that are added and removed, until stopped. Each command must be answered once,
    with success or Invalid Namespace. (rdverify compares data at the same time.)"""

    ALLOWED = {nv.SUCCESS, INVALID_NS}

    def __init__(self, target, targets, queues=2, allowed=ALLOWED):
        self.nsids, self.allowed = targets, allowed
        self.host = host(target)
        self.host.enable()
        self.queues = [self.host.add_io(depth=16) for _ in range(queues)]
        self.done = {status: 0 for status in allowed}
        self.error = None
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(q,)) for q in self.queues]

    def post(self, queue, number, pending):
        count = (1, 8, 64)[number % 3]
        cid = queue.next_cid()
        while cid in pending:  # a refusal is so much faster than a disk that the IDs come round
            cid = queue.next_cid()
        region = queue.conn.register(os.urandom(count * 512))
        opcode = nv.NVM_WRITE if number & 1 else nv.NVM_READ
        queue.post(nv.sqe(opcode, cid, nsid=self.nsids[number % len(self.nsids)], cdw10=number * 64 % 4096,
                          cdw12=count - 1, sgl=nv.keyed_sgl(region.base, count * 512, region.stag, 0x4F)))
        return cid, region

    def run(self, queue):
        number = 0
        pending = {}
        try:
            while not self.stop.is_set() or pending:
                while len(pending) < 12 and not self.stop.is_set():
                    cid, region = self.post(queue, number, pending)
                    pending[cid] = region
                    number += 1
                cqe = queue.wait_any()
                queue.conn.deregister(pending.pop(cqe.cid))
                if cqe.status not in self.allowed:
                    raise Failure(f'status {cqe.status:#x}')
                self.done[cqe.status] += 1
        except Exception as e:  # handed to the test
            self.error = e

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, kind, *exc):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        self.host.close()
        if kind is None and self.error:
            raise self.error


@test
def a_namespace_is_added_and_removed_under_verified_io(t):
    target = t.target([t.namespace(1)])
    with Verified(t, target) as verify:
        verify_runs = verify.running
        t.config([t.namespace(1), t.namespace(7)])
        t.match('1 namespace added$', reloaded(target))
        t.eq(active(t, target), [1, 7], 'namespaces')
        t.eq(t.rdinit('write', target.uri(7), '--data', '-', input=b'x' * 512).rc, 0)
        t.same(t.rdinit('read', target.uri(7), '--data', '-', '--data-size', '512').out, b'x' * 512)
        t.config([t.namespace(1)])
        t.match('1 removed$', reloaded(target))
        t.eq(active(t, target), [1], 'namespaces')
        t.ok(verify_runs and verify.running, 'rdverify ended early')
    # The file is released: another daemon may have it.
    t.target([t.namespace(7)], name='other')


@test
def a_file_that_grew_or_shrank_is_seen(t):
    disk = {'size': None, 'create': False, 'path': t.file('disk.img', bytes(4 << 20))}
    target = t.target([t.namespace(1, **disk)])
    with host(target) as h:
        h.enable()
        io = h.add_io()
        t.eq(nsze(h, 1), 8192, 'blocks')
        nv.expect(io.write_blocks(1, 8184, b'a' * 4096))
        nv.expect(io.read_blocks(1, 8192, 8)[0], LBA_RANGE)
        os.truncate(disk['path'], 8 << 20)
        t.match('1 resized$', reloaded(target))
        t.eq(nsze(h, 1), 16384, 'blocks')
        nv.expect(io.write_blocks(1, 16376, b'b' * 4096))
        t.same(io.read_blocks(1, 8184, 8)[1], b'a' * 4096)
        t.match(r'nsze\s*:\s*0x4000\b', t.rdinit('id-ns', target.uri(1)).text)
        os.truncate(disk['path'], 2 << 20)
        target.reload('1 resized$')
        t.eq(nsze(h, 1), 4096, 'blocks')
        nv.expect(io.read_blocks(1, 4096, 8)[0], LBA_RANGE)
        target.reload('nothing has changed$')


@test
def a_changed_namespace_is_replaced(t):
    target = t.target([memory(t, 1), t.namespace(2, path=t.path('a.img'))])
    t.rdinit('write', target.uri(2), '--data', '-', input=b'A' * 512)
    uuid = json.loads(t.rdinit('id-ns', target.uri(2), '-o', 'json').text)
    with Hammer(target, [1, 2]) as hammer:
        t.config([memory(t, 1), t.namespace(2, path=t.path('b.img'), nguid='0123456789abcdef' * 2)])
        target.reload('reloaded: 1 replaced$')
        t.config([memory(t, 1), t.namespace(2, path=t.path('b.img'), nguid='fedcba9876543210' * 2)])
        target.reload('reloaded: 1 replaced$')  # the same file, opened again
    t.ok(hammer.done[nv.SUCCESS], 'no command succeeded')
    now = json.loads(t.rdinit('id-ns', target.uri(2), '-o', 'json').text)
    t.ok(now['nguid'] != uuid['nguid'], f'nguid is still {uuid["nguid"]}')


BAD = {
    'not YAML': ('}{', 'problems; nothing was changed'),
    'an unknown key': ('subsystems:\n  - nqn: x\n    colour: red\n', 'problems; nothing was changed'),
}


@each(*((key, *value) for key, value in BAD.items()))
def a_bad_configuration_changes_nothing(t, text, message):
    first = [t.namespace(1), memory(t, 2)]
    target = t.target(first)
    files = target.open_files()
    # The file would remove 2, add 3, and exclude every host.
    config = t.config([t.namespace(1), memory(t, 3)],
                      subsystem={'allow_any_host': False, 'hosts': ['nqn.2024-01.test:nobody']})
    with open(config, 'a', encoding='utf-8') as f:
        f.write(text)
    target.reload(message)
    t.eq(active(t, target), [1, 2], 'namespaces')
    wait_for(lambda: target.open_files() <= files, 'descriptors to return')
    t.config(first + [memory(t, 5)])
    target.reload('reloaded: 1 namespace added$')
    t.eq(active(t, target), [1, 2, 5], 'namespaces')


@test
def a_file_that_is_missing_delays_nothing_else(t):
    target = t.target([t.namespace(1), memory(t, 2)])
    t.config([t.namespace(1), memory(t, 3), t.namespace(4, path=t.path('none/x.img'))])
    since = target.mark()
    target.reload('reloaded in part: 1 namespace added, 1 removed, 1 problem')
    target.expect('namespace 4: path .*x.img: its directory does not exist', since=since)
    t.eq(active(t, target), [1, 3], 'namespaces')
    os.mkdir(t.path('none'))
    target.expect('namespace 4: added')
    t.eq(active(t, target), [1, 3, 4], 'namespaces')


@test
def a_missing_file_may_be_created_later(t):
    """What is tried again is what the configuration says by then."""
    target = t.target([memory(t, 1)])
    t.config([memory(t, 1), t.namespace(2, create=False)])
    target.reload('reloaded in part: 1 problem')
    t.eq(active(t, target), [1], 'namespaces')
    t.config([memory(t, 1), t.namespace(2)])
    target.reload('reloaded: 1 replaced$')
    t.eq(active(t, target), [1, 2], 'namespaces')


def may_connect(target, hostnqn):
    with host(target, hostnqn=hostnqn) as h:
        return h.admin.fabrics_connect(h.data()).status


@test
def hosts_are_let_in_and_shut_out(t):
    one, two = 'nqn.2024-01.test:one', 'nqn.2024-01.test:two'
    target = t.target([memory(t, 1)], subsystem={'allow_any_host': False, 'hosts': [one]})
    t.eq((may_connect(target, one), may_connect(target, two)), (0, NO_SUBSYSTEM), 'at first')
    t.config([memory(t, 1)], subsystem={'allow_any_host': False, 'hosts': [two]})
    target.reload('reloaded: 1 setting changed$')
    t.eq((may_connect(target, one), may_connect(target, two)), (NO_SUBSYSTEM, 0), 'exchanged')
    with host(target, hostnqn=two) as h:
        h.enable()
        t.config([memory(t, 1)], subsystem={'allow_any_host': False, 'hosts': []})
        target.reload('reloaded: 1 setting changed$')
        h.admin.wait_closed()
    t.eq((may_connect(target, one), may_connect(target, two)), (NO_SUBSYSTEM, NO_SUBSYSTEM), 'closed')
    t.config([memory(t, 1)])
    target.reload('reloaded: 1 setting changed$')
    t.eq((may_connect(target, one), may_connect(target, two)), (0, 0), 'open to all')


def subsystem(nqn, *namespaces, **keys):
    return {'nqn': nqn, 'allow_any_host': True, 'namespaces': list(namespaces), **keys}


def discovered(t, target):
    text = t.rdinit('discover', target.uri(None, None), '-o', 'json').text
    return sorted(entry['subnqn'] for entry in json.loads(text)['records']
                  if entry['subnqn'] != nv.DISCOVERY_NQN)


@test
def a_subsystem_comes_and_goes_and_comes_back(t):
    other = 'nqn.2024-01.test:other'
    first = subsystem(NQN, memory(t, 1))
    target = t.target(subsystems=[first])
    t.config(subsystems=[first, subsystem(other, t.namespace(4), memory(t, 5))])
    target.reload('reloaded: 2 namespaces added, 1 subsystem added$')
    for _ in range(3):
        t.eq(discovered(t, target), [NQN, other], 'subsystems')
        with host(target, other) as h, host(target) as stays:
            for each_host in (h, stays):
                each_host.enable()
            t.eq(nsids(h), [4, 5], 'namespaces')
            nv.expect(h.add_io().write_blocks(5, 0, b'x' * 512))
            t.config(subsystems=[first])
            target.reload('reloaded: 2 removed, 1 subsystem removed$')
            wait_for(lambda: has_ended(h.admin), 'the controller of the removed subsystem to end')
            t.eq(nsids(stays), [1], 'namespaces of the other')
        t.eq(discovered(t, target), [NQN], 'subsystems')
        with host(target, other) as h:
            t.ok(h.admin.fabrics_connect(h.data()).status, 'a removed subsystem took a host')
        t.config(subsystems=[first, subsystem(other, t.namespace(4), memory(t, 5))])
        target.reload('reloaded: 2 namespaces added, 1 subsystem added$')
    t.config(subsystems=[first])
    target.reload()
    t.config(subsystems=[first, subsystem(other, memory(t, 5), model='another')])
    target.reload('reloaded: 1 namespace added, 1 subsystem added$')
    with host(target, other) as h:
        h.enable()
        cqe, page = h.admin.identify(1)
        nv.expect(cqe)
        t.eq(page[24:64].rstrip(), b'another', 'model')


@test
def many_signals_end_with_the_last_configuration(t):
    target = t.target([memory(t, 1)])
    for n in range(40):
        t.config([memory(t, 1)] + [memory(t, 2 + n % 7)])
        target.signal(signal.SIGHUP)
    t.config([memory(t, 1), memory(t, 99)])
    target.reload(r'namespace 99: added')
    t.eq(active(t, target), [1, 99], 'namespaces')


@test
def the_end_comes_in_the_middle_of_a_reload(t):
    target = t.target([memory(t, 1), memory(t, 2)])
    with Hammer(target, [1, 2]):
        t.config([memory(t, n) for n in range(2, 12)])
        target.signal(signal.SIGHUP)
    target.signal(signal.SIGHUP)
    target.stop()


@test
def rounds_of_add_and_remove_under_load_leave_nothing(t):
    """All reactors have I/O on the namespaces that are removed; one that stays is verified."""
    def with_extra(*extra):
        t.config([t.namespace(1)] + [t.namespace(n) if n < 5 else memory(t, n) for n in extra],
                 target={'reactors': 3})

    target = t.target([t.namespace(1)], target={'reactors': 3})
    with_extra(2, 6)
    target.reload()
    with_extra()
    target.reload()
    warm(target)
    with Baseline(target):
        with Verified(t, target, seconds=2), Hammer(target, [2, 3, 6], queues=3) as hammer:
            for n in range(ROUNDS):
                with_extra(*((2, 6), (3,))[n % 2])
                target.reload('reloaded: (1 namespace|2 namespaces) added')
            with_extra()
            target.reload(r'reloaded: \d removed$')
        t.note(f'{ROUNDS} rounds, {hammer.done[nv.SUCCESS]} commands succeeded, '
               f'{hammer.done[INVALID_NS]} came too early or too late')
        t.ok(all(hammer.done.values()), f'a load that met one side only: {hammer.done}')


@test
def rounds_do_not_grow(t):
    requires_native()
    target = t.target([memory(t, 1)])

    def rounds(count):
        for n in range(count):
            t.config(subsystems=[subsystem(NQN, memory(t, 1), *([memory(t, 2)] if n % 2 else []))] +
                     ([subsystem(f'nqn.2024-01.test:{n % 5}', memory(t, 1), serial=f'S{n}')] if n % 3 else []))
            target.reload()
        return target.rss()

    before = rounds(60)
    after = rounds(ROUNDS * 4)
    t.note(f'{before >> 10} KiB, then {after >> 10} KiB')
    t.ok(after < before + (2 << 20), f'memory grew from {before} to {after} bytes')


if __name__ == '__main__':
    sys.exit(main())
