# SPDX-License-Identifier: BSD-3-Clause
"""Storage that hangs while it is opened, measured or probed: nothing else waits for it. Each test lets the storage
answer only at its end, so whatever is answered before did not wait for it."""

import os
import signal
import sys

from t_control import Control, with_socket
from t_loop import NQN, main, preloaded, test, wait_for
from t_serving import host, memory

import nvmf_peer as nv

OTHER = 'nqn.2024-01.test:other-host'
JOBS = 2  # threads of a device


class Hung:
    """A folder whose file system hangs, until it is released."""

    def __init__(self, t):
        self.dir = t.path('slow')
        self.gate = self.dir + '.hung'
        os.mkdir(self.dir)
        self.env = preloaded('watchfs', HANG=self.dir, WATCH_LOG=t.path('watch.log'))
        self.log = t.path('watch.log')
        self.hang()

    def hang(self):
        with open(self.gate, 'w', encoding='utf-8'):
            pass

    def release(self):
        os.unlink(self.gate)

    def file(self, name):
        path = os.path.join(self.dir, name)
        with open(path, 'wb') as f:
            f.truncate(1 << 20)
        return {'backend': 'file', 'path': path}

    def asked(self):
        """How many times it was asked for one of its files."""
        with open(self.log, encoding='utf-8') as f:
            return sum(f' {self.dir}/' in line for line in f)


def served(t, slow, *namespaces):
    config, path = with_socket(t, [memory(t), *namespaces])
    return t.target(config=config, env=slow.env), path


def states(c):
    listed = c.call('namespace.list')['namespaces']
    return {n['nsid']: n['state'] for n in listed if n['state'] != 'leaving'}


def reads(target, nsid):
    with host(target) as h:
        h.enable()
        return h.add_io().read_blocks(nsid, 0, 1)[0].status


def changes_work(t, target, c, nsid):
    """Everything that does not touch the storage that hangs."""
    t.eq(c.call('namespace.add', nqn=NQN, namespace=memory(t, nsid))['outcome'], 'done')
    t.eq(reads(target, nsid), nv.SUCCESS, 'a namespace that was added')
    t.eq(c.call('ana.set', group=1, state='inaccessible')['outcome'], 'done')
    t.eq(c.call('listener.list')['listeners'][0]['ana'], {'1': 'inaccessible'})
    c.call('ana.set', group=1, state='optimized')
    c.call('subsystem.set_hosts', nqn=NQN, hosts=[OTHER])
    with host(target) as h:
        t.ok(h.admin.fabrics_connect(h.data()).status, 'a host that may not connect')
    c.call('subsystem.allow_any_host', nqn=NQN)
    t.eq(c.call('namespace.remove', nqn=NQN, nsid=nsid)['outcome'], 'done')


@test
def a_namespace_is_added_on_storage_that_hangs(t):
    slow = Hung(t)
    target, path = served(t, slow)
    with Control(path) as c:
        for nsid in range(2, 7):
            result = c.call('namespace.add', nqn=NQN, namespace={'nsid': nsid, **slow.file(f'{nsid}.img')}, wait=False)
            t.eq(result['outcome'], 'in progress')
        wait_for(lambda: slow.asked() == JOBS, 'the share of the device to be used')
        t.eq(states(c), {1: 'live', **{n: 'opening' for n in range(2, 7)}})
        changes_work(t, target, c, 20)
        t.eq(c.call('namespace.remove', nqn=NQN, nsid=2)['outcome'], 'done')
        t.eq(sorted(states(c)), [1, 3, 4, 5, 6], 'one was removed while it was opened')
        t.eq(slow.asked(), JOBS, 'calls that hang')
        slow.release()
        wait_for(lambda: set(states(c).values()) == {'live'}, 'all to be served')
        t.eq(reads(target, 6), nv.SUCCESS, 'a namespace whose storage answers')


@test
def a_reload_meets_storage_that_hangs(t):
    slow = Hung(t)
    slow.release()
    target, path = served(t, slow, {'nsid': 2, **slow.file('a.img')})
    slow.hang()
    with Control(path) as c, Control(path) as other:
        with open(t.path('rdtarget.yaml'), 'rb') as f:
            old = f.read()
        t.file('rdtarget.yaml', old.replace(b'a.img', b'b.img'))
        slow.file('b.img')
        other.post('config.reload')
        wait_for(lambda: states(c).get(2) == 'opening', 'the new one to be opened')
        listed = [(n['nsid'], n['state']) for n in c.call('namespace.list')['namespaces']]
        t.eq(listed, [(1, 'live'), (2, 'opening'), (2, 'leaving')], 'the one that leaves, and the one that comes')
        changes_work(t, target, c, 20)
        target.signal(signal.SIGHUP)  # and a second reload, which adds nothing
        wait_for(lambda: c.call('status')['state'] == 'serving', 'an answer')
        slow.release()
        t.eq(other.answer()['result']['outcome'], 'done')
        wait_for(lambda: states(c).get(2) == 'live', 'the new one to be served')


@test
def a_start_meets_storage_that_hangs(t):
    slow = Hung(t)
    target, path = served(t, slow, {'nsid': 2, **slow.file('a.img')})
    target.expect('namespace 2: its storage does not answer yet')
    t.eq(reads(target, 1), nv.SUCCESS, 'the other namespace')
    with Control(path) as c:
        changes_work(t, target, c, 20)
        t.eq(states(c), {1: 'live', 2: 'opening'})
        slow.release()
        wait_for(lambda: states(c)[2] == 'live', 'the namespace to be served')
    t.eq(reads(target, 2), nv.SUCCESS, 'the namespace whose storage answers')


@test
def the_end_names_what_hangs(t):
    slow = Hung(t)
    target, _ = served(t, slow, {'nsid': 2, **slow.file('a.img')})
    target.signal(signal.SIGTERM)
    target.expect('namespace 2: opening .*a.img: the storage still does not answer')
    target.wait()
    target.expect('stopped: ')


if __name__ == '__main__':
    sys.exit(main())
