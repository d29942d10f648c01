# SPDX-License-Identifier: BSD-3-Clause
"""rdctl upgrade --force: a target whose storage hangs in one namespace is handed over, and the next process serves that one
when the I/O of the former process has ended."""

import os
import re
import signal
import sys

import nvmf_peer as nv
import t_upgrade
from t_control import Control, with_socket
from t_dev import Device
from t_loop import DEADLINE, NQN, each, iwarp_only, main, program, test, wait_for
from t_nbd import Server, evaluates
from t_serving import memory
from t_storage import Frozen, hang_env, pattern
from t_upgrade import RDMA, TCP, close_all, ended, no_reconnect, peer, start_refused, take_over, uri_of, user_of

NOT_READY = 0x082
SERVED = 'namespace 1: the I/O of the process before has ended; it is served'


class Sick:
    """Namespace 1 on a file whose storage hangs for one process, while a file exists."""

    def __init__(self, t):
        self.trigger, self.path = t.path('hang'), t.path('ns1.img')
        self.namespace = t.namespace(1, direct='off')
        self.env = hang_env(self.trigger, self.path)

    def begin(self):
        with open(self.trigger, 'wb'):
            pass

    def end(self):
        os.unlink(self.trigger)

    def hangs(self):
        return os.path.exists(self.trigger)

    def first_block(self):
        with open(self.path, 'rb') as f:
            return f.read(512)


class SickServer(Server):
    """The same on an export of a server."""

    def __init__(self, t):
        super().__init__(t)
        self.trigger, self.env = t.path('hang'), None
        wait = f'while [ -e {self.trigger} ]; do sleep 0.05; done'
        self.start(plugin=evaluates(self.image, can_flush='exit 0', thread_model='echo parallel',
                                    pwrite=f'{wait}; dd of={self.image} oflag=seek_bytes conv=notrunc seek=$4'))
        self.namespace = super().namespace()

    begin, end, hangs = Sick.begin, Sick.end, Sick.hangs

    def first_block(self):
        return self.data()[:512]


class SickDisk(Frozen):
    """The same on a file system that is frozen: the kernel blocks what would change it, for every process."""

    env = None

    def __init__(self, t):
        super().__init__(t)
        self.path = f'{self.where}/ns1.img'
        self.namespace = t.namespace(1, path=self.path)
        self.begin, self.end = self.freeze, self.thaw

    def hangs(self):
        return self.frozen

    first_block = Sick.first_block


def begin(t, sick, **kw):
    config, control = with_socket(t, [sick.namespace, t.namespace(2), memory(t, 3)], listeners=[{}, {'transport': 'tcp'}], **kw)
    return t.target(config=config, env=sick.env), config, control


def hung_write(t, sick, host, data):
    """A write of the first block has arrived at the storage, which hangs."""
    nv.expect(host.q.write_blocks(1, 8, bytes(512)))
    sick.begin()
    cid = host.q.post_io(nv.NVM_WRITE, 1, 0, data, 512)
    nv.expect(host.q.read_blocks(2, 0, 1)[0])
    return cid


def one_waits(t, host, sick, data):
    """A new write of the block waits in the next process, and other namespaces are served. Returns its CID."""
    t.eq(host.register().status, NOT_READY, 'a registration')
    cid = host.q.post_io(nv.NVM_WRITE, 1, 0, data, 512)
    for _ in range(3):
        nv.expect(host.q.read_blocks(2, 0, 1)[0])
        nv.expect(host.q.read_blocks(3, 0, 1)[0])
    t.ok(sick.hangs(), 'the disk is well again')
    t.same(sick.first_block(), bytes(512), 'the block, which nobody may have written')
    return cid


@each(('a file, TCP', Sick, TCP), ('a file, iWARP', Sick, RDMA), ('a frozen file system', SickDisk, TCP),
      ('an NBD server', SickServer, TCP))
@iwarp_only
def others_go_on_and_one_is_served_later(t, storage, transport):
    sick = storage(t)
    target, config, control = begin(t, sick)
    devices = [Device(t, [uri_of(target, transport, nsid)], name=f'rddev-{nsid}') for nsid in (2, 3)]
    former, latter = pattern(1, 512), pattern(2, 512)
    with peer(target, transport) as host:
        hung_write(t, sick, host, former)
        following = take_over(t, config, control, 'next', '--force')
        target.expect(rf'this process ends when its I/O has ended in {NQN} namespace 1; until then process \d+ has commands for that wait')
        target.expect(r'handed over to process \d+: [1-9]\d* connections of 3 controllers; 1 others connect again')
        for device in devices:
            device.goes_on(50)
        with peer(target, transport, 2) as other:
            cid = one_waits(t, other, sick, latter)
            with Control(control) as c:
                t.eq([ns['stalled'] for ns in c.call('namespace.list')['namespaces']], [True, False, False])
            start_refused(t, config, control, 'the process before this one still waits for I/O')
            t.ok(target.running, 'the process with the hung write has ended')
            t.ok('it is served' not in following.text(), 'it is served while the former write hangs')
            sick.end()
            ended(t, target)
            following.expect(SERVED)
            nv.expect(cid.wait())
            t.same(nv.expect_data(other.q.read_blocks(1, 0, 1)), latter)
            nv.expect(other.register())
    t.same(sick.first_block(), latter)
    for device in devices:
        device.goes_on(50)
        no_reconnect(t, device)
        device.finish()
    last = take_over(t, config, control, 'last')
    ended(t, following)
    t.ok(last.running, 'it has ended')


@test
@iwarp_only
def one_is_served_after_the_former_process_was_killed(t):
    """By a lock of its own, which shows that nothing goes on in the kernel."""
    sick = Sick(t)
    target, config, control = begin(t, sick)
    with peer(target, TCP) as host:
        hung_write(t, sick, host, pattern(1, 512))
        following = take_over(t, config, control, 'next', '--force')
        with peer(target, TCP, 2) as other:
            cid = one_waits(t, other, sick, pattern(2, 512))
            target.signal(signal.SIGKILL)
            target.wait()
            following.expect(SERVED)
            nv.expect(cid.wait())
            t.same(sick.first_block(), pattern(2, 512))
            wait_for(lambda: user_of(sick.path) == following.pid, 'the file to name the next process')
    thief = t.spawn('thief', [program('rdtarget'), '-c', t.config([sick.namespace], name='thief.yaml', target={'start': 'all-or-nothing'})])
    t.ok(thief.wait() != 0, 'two targets use one file')
    t.match('another program uses it', thief.text())


@test
@iwarp_only
def a_lock_of_others_keeps_it_from_being_served(t):
    """Whatever still has the open file of the process that was killed, as the kernel has for I/O that it goes on with."""
    sick = Sick(t)
    target, config, control = begin(t, sick)
    channel = t_upgrade.ask(control, check=True)
    kept = channel.expect('prepare')[2]
    channel.close()
    target.expect(r'not handed over to process')
    with peer(target, TCP) as host:
        hung_write(t, sick, host, pattern(1, 512))
        following = take_over(t, config, control, 'next', '--force')
        with peer(target, TCP, 2) as other:
            cid = one_waits(t, other, sick, pattern(2, 512))
            target.signal(signal.SIGKILL)
            target.wait()
            following.expect(r'namespace 1: not served: the process before was killed, and its I/O may still be in progress: .*another program uses it')
            nv.expect(other.q.read_blocks(2, 0, 1)[0])
            t.same(sick.first_block(), bytes(512))
            close_all(kept)
            following.expect(SERVED)
            nv.expect(cid.wait())


@test
@iwarp_only
def a_hand_over_that_fails_after_that_leaves_everything(t):
    """The write that hung is answered on its connection, and the queue goes on."""
    sick = Sick(t)
    target, config, control = begin(t, sick)
    with peer(target, TCP) as host:
        cid = hung_write(t, sick, host, pattern(1, 512))
        channel = t_upgrade.ask(control, force=True)
        kept = channel.expect('prepare')[2]
        channel.send('ready')
        _, records, fds = channel.expect('move')
        (state,) = [r for r in records if r['kind'] == 'ns-state' and r['nsid'] == 1]
        t.eq((state['unfinished'], state['must']), (True, ['unfinished']))
        t.eq([r['qid'] for r in records if r['kind'] == 'queue'], [0], 'the queues that move')
        close_all(kept + fds)
        channel.send('refused', why='this is a test')
        target.expect(r'not handed over to process \d+: this is a test; this process goes on')
        channel.close()
        sick.end()
        nv.expect(cid.wait())
        nv.expect(host.register())
        t.same(nv.expect_data(host.q.read_blocks(1, 0, 1)), pattern(1, 512))
        following = take_over(t, config, control, 'next', '--force')  # where nothing hangs it is as without
        ended(t, target)
        t.same(nv.expect_data(host.q.read_blocks(1, 0, 1)), pattern(1, 512))
    t.ok('wait' not in re.findall(r'this process ends when.*', target.text()), 'what it waits for')
    t.ok(following.running, 'it has ended')


def upgrade(t, control, *args):
    """Again while the process that an earlier try has started is ending."""
    def result():
        res = t.run([program('rdctl'), '-s', control, 'upgrade', *args])
        return None if 'has not ended yet' in res.err else res

    return wait_for(result, 'rdctl upgrade')


@test
@iwarp_only
def rdctl_says_what_is_served_later(t):
    """Also before, by --check; and the answer does not wait for the storage."""
    sick = Sick(t)
    config, control = with_socket(t, [sick.namespace, t.namespace(2)], listeners=[{}, {'transport': 'tcp'}])
    target = t.spawn('rdtarget', [program('rdtarget'), '-c', config, '--log', 'info'], env=sick.env)
    target.expect(r'\bready$')
    target.addr, target.listeners = '127.0.0.1', [None, (None, int(target.expect(r'listening on \S+:(\d+) \(tcp\)')[1]))]
    with peer(target, TCP) as host:
        hung_write(t, sick, host, pattern(1, 512))
        target.expect('namespace 1: its storage has not answered')
        res = upgrade(t, control)
        t.eq(res.rc, 1)
        t.match(rf'{NQN} namespace 1: a command of queue 1 does not end .*--force', res.err)
        res = upgrade(t, control, '--check', '--force')
        t.eq(res.rc, 0, res.err)
        t.match(rf'can take over\n{NQN} namespace 1 does not answer now, and would be served when its I/O has ended', res.text)
        res = upgrade(t, control, '--force')
        t.eq(res.rc, 0, res.err)
        t.match(rf'has taken over: .*\n{NQN} namespace 1 is served when its I/O in the process before has ended', res.text)
        t.ok(target.running and sick.hangs(), 'it has ended')
        sick.end()
        t.eq(target.popen.wait(DEADLINE), 0, 'exit status of the process that has handed over')
    target.expect(SERVED)  # the log is the next one's, too
    with Control(control) as c:
        c.call('shutdown')
    wait_for(lambda: not os.path.exists(control), 'the next process to end')


if __name__ == '__main__':
    sys.exit(main())
