# SPDX-License-Identifier: BSD-3-Clause
"""One device that hangs with hundreds of commands: another namespace on the same reactor is served meanwhile."""

import os
import signal
import sys

import nvmf_peer as nv
from t_control import Control, with_socket
from t_loop import NQN, Target, each, main, requires_engine, test, wait_for
from t_serving import memory
from t_storage import MIB, WRITE_ZEROES, Frozen, as_root, hang_env, pattern

QUEUES, EACH = 6, 100
FLUSH = 0
WRITE_PROTECTED = 0x20
OTHER = 'nqn.2024-01.test:other-host'


class Preload:
    """The file of namespace 1 is on storage that hangs, as a library before the C library plays it."""

    keys = {'size': '16MiB'}

    def __init__(self, t):
        self.path, self.trigger = t.path('sick.img'), t.path('hang')
        # of another device; a file system in memory
        self.healthy = f'/dev/shm/{os.path.basename(t.dir)}.img'
        t.cleanup(lambda: os.path.exists(self.healthy) and os.unlink(self.healthy))
        self.env = hang_env(self.trigger, self.path)

    def begin(self):
        with open(self.trigger, 'wb'):
            pass

    def hangs(self):
        return os.path.exists(self.trigger)

    def end(self):
        os.unlink(self.trigger)


class OnFrozen(Frozen):
    """The file is on a file system that is frozen: the kernel blocks what would change it."""

    keys = {'size': '16MiB'}

    def __init__(self, t):
        super().__init__(t)
        self.env, self.path, self.healthy = None, f'{self.where}/sick.img', t.path('healthy.img')
        self.begin, self.end = self.freeze, self.thaw

    def hangs(self):
        return self.frozen


class Device(OnFrozen):
    """A block device whose requests do not end: its blocks are a file on a file system that is frozen."""

    keys = {'backend': 'block', 'size': None}

    def __init__(self, t):
        super().__init__(t)
        with open(self.path, 'wb') as f:
            f.truncate(16 * MIB)
        self.path = as_root(t, 'losetup', '--find', '--show', self.path)
        t.cleanup(t.run, ['losetup', '--detach', self.path])


FAULTS = (('preload, io_uring', Preload, 'io_uring', 'off'), ('preload, aio', Preload, 'aio', 'off'),
          ('frozen, io_uring', OnFrozen, 'io_uring', 'auto'), ('frozen, io_uring, buffered', OnFrozen, 'io_uring', 'off'),
          ('device, io_uring', Device, 'io_uring', 'auto'), ('device, aio', Device, 'aio', 'auto'),
          ('frozen, aio', OnFrozen, 'aio', 'auto'), ('frozen, aio, buffered', OnFrozen, 'aio', 'off'))


def post_many(queue, lba):
    """Commands for namespace 1 that its storage does not end. Their data is in the capsules."""
    cids = [queue.next_cid() for _ in range(EACH)]
    for number, cid in enumerate(cids[1:]):
        queue.post(nv.sqe(nv.NVM_WRITE, cid, nsid=1, cdw10=lba + number, sgl=nv.offset_sgl(0, 512)) + bytes([number + 1]) * 512)
    queue.post(nv.sqe(FLUSH, cids[0], nsid=1))
    return cids


def everything(t, queue, seed):
    """All kinds of commands for namespace 2."""
    data = pattern(seed, 32 * 1024)
    nv.expect(queue.write_blocks(2, 0, data))
    nv.expect(queue.flush(2))
    nv.expect(queue.write_blocks(2, 64, data, fua=True))
    nv.expect(queue.call(nv.sqe(WRITE_ZEROES, queue.next_cid(), nsid=2, cdw10=128, cdw12=63)))
    for lba, want in ((0, data), (64, data), (128, bytes(32 * 1024))):
        cqe, got = queue.read_blocks(2, lba, 64)
        nv.expect(cqe)
        t.same(got, want)


@each(*FAULTS)
def six_hundred_commands_that_hang(t, fault, engine, direct):
    requires_engine(engine)
    sick = fault(t)
    target = t.target([t.namespace(1, path=sick.path, engine=engine, direct=direct, **sick.keys),
                       t.namespace(2, path=sick.healthy, size='16MiB', engine=engine, direct=direct)], target={'reactors': 1}, env=sick.env)
    with nv.Host(target.addr, target.port, NQN) as h:
        h.enable()
        healthy = h.add_io()
        everything(t, healthy, 0)
        queues = [h.add_io(depth=EACH + 4) for _ in range(QUEUES)]
        sick.begin()
        hung = [post_many(queue, number * EACH) for number, queue in enumerate(queues)]
        # A Flush may end on a frozen file system that has nothing to write.
        wait_for(lambda: everything(t, healthy, 1) or target.counters()['requests'] >= QUEUES * (EACH - 1),
                 'the commands to arrive')
        for seed in range(2, 12):
            everything(t, healthy, seed)
        t.ok(target.counters()['requests'] >= QUEUES * (EACH - 1), 'a write of the sick disk was answered')
        t.ok(sick.hangs(), 'the disk is well again')
        sick.end()
        for queue, cids in zip(queues, hung):
            for cid in cids:
                nv.expect(queue.wait(cid))
        for number in range(QUEUES):
            cqe, got = queues[0].read_blocks(1, number * EACH, 1)
            nv.expect(cqe)
            t.same(got, bytes([1]) * 512)
        h.shutdown()


@each(('preload', Preload, 'off'), ('frozen', OnFrozen, 'auto'))
def changes_go_on_while_a_removal_hangs(t, fault, direct):
    sick = fault(t)
    config, path = with_socket(t, [t.namespace(1, path=sick.path, direct=direct, **sick.keys), memory(t, 2)],
                               subsystem={'allow_any_host': False, 'hosts': [nv.HOST_NQN, OTHER]})
    target = t.target(config=config, env=sick.env)
    with nv.Host(target.addr, target.port, NQN) as h, Control(path) as c:
        h.enable()
        queue, other = h.add_io(depth=EACH + 4), h.add_io()
        sick.begin()
        cids = post_many(queue, 0)
        wait_for(lambda: target.counters()['requests'] >= EACH - 1, 'the commands to arrive')
        t.eq(c.call('namespace.remove', nqn=NQN, nsid=1, wait=False)['outcome'], 'in progress')
        wait_for(lambda: other.read_blocks(1, 0, 1)[0].status == nv.INVALID_NS, 'it to be hidden')
        for state in ('inaccessible', 'optimized'):
            t.eq(c.call('ana.set', group=1, state=state)['outcome'], 'done')
        t.eq(c.call('host.deny', nqn=NQN, hostnqn=OTHER)['outcome'], 'done')
        with nv.Host(target.addr, target.port, NQN, hostnqn=OTHER) as denied:
            t.ok(denied.admin.fabrics_connect(denied.data()).status, 'a host that was denied')
        t.eq(c.call('namespace.add', nqn=NQN, namespace=memory(t, 1))['outcome'], 'done')
        nv.expect(other.write_blocks(1, 0, bytes(512)))
        listed = [(ns['nsid'], ns['state']) for ns in c.call('namespace.list')['namespaces']]
        t.eq(listed, [(1, 'live'), (1, 'leaving'), (2, 'live')])
        t.ok(sick.hangs(), 'the disk is well again')
        sick.end()
        for cid in cids:
            queue.wait(cid)
        wait_for(lambda: len(c.call('namespace.list')['namespaces']) == 2, 'it to leave')
        h.shutdown()


@each(('preload', Preload, 'off', True), ('frozen', OnFrozen, 'auto', True), ('frozen just before', OnFrozen, 'auto', False))
def the_end_gives_up_all_but_what_hangs(t, fault, direct, known):
    """The kernel keeps a process with a write on a frozen file system; another rdtarget has everything else meanwhile."""
    sick = fault(t)
    healthy = t.namespace(2, path=sick.healthy, size='16MiB')
    state = {'target': {'state_dir': t.path('state'), 'drain_timeout': '1h'}}
    config, path = with_socket(t, [t.namespace(1, path=sick.path, direct=direct, **sick.keys), healthy], **state)
    target = Target(t, config, env=sick.env)
    t.cleanup(target.kill)
    with nv.Host(target.addr, target.port, NQN) as h, Control(path) as c:
        h.enable()
        queue = h.add_io(depth=EACH + 4)
        nv.expect(queue.write_blocks(2, 0, bytes([7]) * 512))
        sick.begin()
        post_many(queue, 0)
        wait_for(lambda: target.counters()['requests'] >= EACH - 1, 'the commands to arrive')
        if known:
            target.expect('namespace 1: its storage has not answered')
        target.signal(signal.SIGTERM)
        target.expect('not waiting for storage that does not answer')
        queue.wait_closed()
        target.expect(rf'giving up: a backend has not completed its I/O: {NQN} namespace 1 \({sick.path}\)$')
        t.eq(c.answer(), None, 'the control socket')
    config, path = with_socket(t, [healthy], name='next.yaml', listener={'port': target.port}, **state)
    after = t.target(config=config, name='next')
    with nv.Host(after.addr, after.port, NQN) as h, Control(path) as c:
        h.enable()
        t.same(h.add_io().read_blocks(2, 0, 1)[1], bytes([7]) * 512)
        t.eq(c.call('status')['state'], 'serving')
    t.ok(sick.hangs(), 'the disk is well again')
    sick.end()
    t.eq(target.wait(), 1, 'exit status')


@test
def a_stall_is_shown_and_its_end_is_logged(t):
    sick = Preload(t)
    config, path = with_socket(t, [t.namespace(1, path=sick.path, size='16MiB', direct='off'), memory(t, 2)])
    target = t.target(config=config, env=sick.env)
    with nv.Host(target.addr, target.port, NQN) as h, Control(path) as c:
        def stalled():
            return [ns['stalled'] for ns in c.call('namespace.list')['namespaces']]
        h.enable()
        queue = h.add_io()
        nv.expect(queue.write_blocks(1, 0, bytes(512)))
        t.eq(stalled(), [False, False])
        sick.begin()
        cid = queue.next_cid()
        queue.post(nv.sqe(FLUSH, cid, nsid=1))
        target.expect(r'namespace 1: its storage has not answered for \d+ s: 1 commands wait for it on reactor \d+$')
        t.eq(stalled(), [True, False])
        t.ok(5 <= c.call('namespace.list')['namespaces'][0]['stalled_seconds'], 'for less than the time after which it is one')
        sick.end()
        nv.expect(queue.wait(cid))
        target.expect(r'namespace 1: its storage answers again, after \d+ s$')
        t.eq(stalled(), [False, False])
        h.shutdown()
    t.eq(target.text().count('has not answered for'), 1, 'times that it is said')


UUID = '5b1c6d9e-0000-4000-8000-00000000c0de'


@each(('a file', 'file'), ('memory', 'memory'))
def what_is_stored_of_a_namespace_hangs_alone(t, backend):
    state = t.path('state')
    os.mkdir(state, 0o700)
    stored = t.file(f'state/{UUID}.wp', b'write-protect\n')
    trigger = t.file('hang', b'')
    sick = memory(t, 1, uuid=UUID) if backend == 'memory' else t.namespace(1, uuid=UUID)
    config, path = with_socket(t, [sick, memory(t, 2)], target={'state_dir': state})
    target = t.target(config=config, env=hang_env(trigger, stored))
    with nv.Host(target.addr, target.port, NQN) as h, Control(path) as c:
        def states():
            return {ns['nsid']: ns['state'] for ns in c.call('namespace.list')['namespaces']}
        h.enable()
        queue = h.add_io()
        nv.expect(queue.write_blocks(2, 0, bytes(512)))
        t.eq(states(), {1: 'opening', 2: 'live'})
        os.unlink(trigger)
        wait_for(lambda: states()[1] == 'live', 'the namespace to be served')
        t.eq(queue.write_blocks(1, 0, bytes(512)).status, WRITE_PROTECTED)
        h.shutdown()


if __name__ == '__main__':
    sys.exit(main())  # the data must be in the capsules
