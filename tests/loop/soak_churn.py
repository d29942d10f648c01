# SPDX-License-Identifier: BSD-3-Clause
"""What changes around verified I/O while tools/soak measures: hosts that come, go, reset and abort, namespaces,
listeners and subsystems that are added and removed, reloads, resizes, ANA states, reservations, lost connections and
restarted targets.

Two targets run: `steady` until the end, so that leaks add up; `other` is restarted. Each has a device (rddev) that
verifies every block that it reads, on namespace 1. The actions use other namespaces.
"""

import itertools
import os
import random
import signal
import struct

import nvmf_peer as nv
from t_control import Control, with_socket
from t_dev import Device
from t_load import Load
from t_loop import DEADLINE, NQN, Failure, wait_for
from t_proxy import Proxy
from t_serving import exercise, gauges, memory, warm

OTHER = 'nqn.2024-01.test:other'
SHARED, SLOW, SIZED = 3, 2, 4  # namespaces of the steady target: for correct hosts, with delays, resized
INVALID_NS = 0x00B
RESV_REGISTER, RESV_ACQUIRE, RESV_RELEASE = 0x0D, 0x11, 0x15
QUIET = ('--log', 'notice')
DELAY = [{'type': 'delay', 'read': '20ms', 'write': '30ms'}]
SPEC = {'reactors': 2, 'buffer_memory': '4MiB', 'max_data_size': '64KiB'}

_actions = []


def action(weight):
    def mark(fn):
        _actions.append((fn.__name__.replace('_', ' '), fn, weight))
        return fn
    return mark


class SoakDevice(Device):
    """An rddev that runs for hours: its output is read once."""

    def __init__(self, *args, **kw):
        super().__init__(*args, **kw)
        self._read, self._ops = 0, 0

    def ops(self):
        lines = self.proc.text(self._read).splitlines()
        self._read += len(lines)
        for line in lines:
            if line.startswith('ops '):
                self._ops = int(line.split()[1])
        return self._ops

    def latency(self):
        """(commands, p50, p99) since the last call, in microseconds."""
        since = self.proc.mark()
        self.proc.popen.stdin.write(b'.')
        self.proc.popen.stdin.flush()
        found = self.proc.expect(r'^latency of (\d+) commands p50 (\d+) p99 (\d+) ', since=since)
        return tuple(int(n) for n in found.groups())


class Scene:
    """The targets and the devices."""

    def __init__(self, t, seed):
        self.t, self.random, self.numbers = t, random.Random(seed), itertools.count(1)
        self.done = {}
        self.steady = t.target(config=self.write_steady(), name='steady', args=QUIET)
        self.control = Control(t.path('control.sock'))
        t.cleanup(self.control.close)
        warm(self.steady)
        self.before = None
        self.settle()
        self.proxy = Proxy(t, *self.steady.listeners[1])
        self.two_paths = SoakDevice(
            t, [self.steady.uri(), self.steady.uri().replace(f'{self.steady.host}:{self.steady.port}/',
                                                            f'{self.proxy.addr}:{self.proxy.port}/')],
            '--threads', 2, '--slots', 8, '--seed', seed % 10000,
            name='two-paths')
        self.other = t.target(config=self.write_other(), name='other', args=QUIET)
        self.other_proxy = Proxy(t, self.other.addr, self.other.port)
        self.restarted = SoakDevice(t, [self.other_proxy.uri(self.other)], '--slots', 8, '--seed', seed % 10000 + 1,
                                    name='restarts')
        for dev in (self.two_paths, self.restarted):
            dev.goes_on(20)

    def namespaces(self, *extra):
        t = self.t
        return [t.namespace(1), memory(t, SLOW, layers=DELAY), memory(t, SHARED), memory(t, SIZED), *extra]

    def write_steady(self, *extra):
        config, _ = with_socket(self.t, self.namespaces(*extra), name='steady.yaml',
                                listeners=[{}, {'address': '127.0.0.2'}],
                                target={**SPEC, 'state_dir': self.t.path('state')})
        return config

    def write_other(self):
        return self.t.config([self.t.namespace(1, path=self.t.path('other.img'))], name='other.yaml', target=SPEC)

    def settle(self):
        """Wait until the steady target holds as many resources as before the first host connected."""
        last = {}

        def quiet():
            last.clear()
            last.update(gauges(self.steady))
            if self.before is None and not any(last[key] for key in ('admin_queues', 'io_queues', 'controllers')):
                self.before = dict(last)
            return last == self.before
        try:
            wait_for(quiet, 'counters to return')
        except Failure:
            raise Failure(f'the counters of the steady target were {self.before}, are {last}') from None

    def act(self):
        """One action, chosen by the seed."""
        name, fn, _ = self.random.choices(_actions, [weight for _, _, weight in _actions])[0]
        fn(self)
        self.done[name] = self.done.get(name, 0) + 1
        for dev in (self.two_paths, self.restarted):
            if not dev.proc.running:
                raise Failure(f'rddev ended during "{name}":\n{dev.proc.text()[-3000:]}')

    def every_action(self):
        """Each of them once."""
        for name, fn, _ in _actions:
            fn(self)
            self.done[name] = self.done.get(name, 0) + 1

    def finish(self):
        """End the devices, which read every block once more; then the steady target must hold nothing."""
        for dev in (self.two_paths, self.restarted):
            dev.goes_on(20)
            dev.finish()
        self.settle()


# ---- hosts ----

@action(6)
def a_host_connects_and_leaves(s):
    exercise(s.steady, nsid=SHARED)


@action(3)
def a_host_crashes(s):
    load = Load(s.steady, s.random, queues=2)
    load.post(nsid=SLOW, count=8)
    load.host.close(reset=s.random.random() < 0.5)


@action(3)
def a_controller_is_reset(s):
    load = Load(s.steady, s.random, queues=2)
    load.post(nsid=SLOW, count=8)
    admin = load.host.admin
    nv.expect(admin.property_set(nv.CC, 0x00460000))
    wait_for(lambda: not nv.expect(admin.property_get(nv.CSTS)).dw0 & 1, 'CSTS.RDY to clear')
    for queue in load.host.io:
        queue.close(reset=s.random.random() < 0.5)
    nv.expect(admin.property_set(nv.CC, 0x00460001))
    wait_for(lambda: nv.expect(admin.property_get(nv.CSTS)).dw0 & 1, 'CSTS.RDY')
    load.add_queues(2)
    load.post(nsid=SLOW, count=2)
    load.collect({nv.SUCCESS})
    load.host.close()


@action(3)
def commands_are_aborted(s):
    load = Load(s.steady, s.random, queues=2)
    load.post(nsid=SLOW, count=8)
    admin = load.host.admin
    for queue in load.host.io:
        for cid in s.random.sample(queue.pending, 4):
            nv.expect(admin.call(nv.sqe(nv.ABORT, admin.next_cid(), cdw10=queue.qid | cid << 16)))
    load.collect({nv.SUCCESS, nv.ABORTED_BY_REQUEST})
    load.host.close()


@action(2)
def a_host_reserves_and_releases(s):
    load = Load(s.steady, s.random, queues=1)
    queue, key = load.host.io[0], 0xC0FFEE
    persist = s.random.choice((0, 3 << 30))
    keys = struct.pack('<QQ', 0, key)
    nv.expect(queue.data_out(RESV_REGISTER, keys, nsid=SHARED, cdw10=persist))
    nv.expect(queue.data_out(RESV_ACQUIRE, struct.pack('<QQ', key, 0), nsid=SHARED, cdw10=1 << 8))
    nv.expect(queue.write_blocks(SHARED, 0, bytes(512)))
    nv.expect(queue.data_out(RESV_RELEASE, struct.pack('<Q', key), nsid=SHARED, cdw10=1 << 8))
    nv.expect(queue.data_out(RESV_REGISTER, struct.pack('<QQ', key, 0), nsid=SHARED, cdw10=1))
    load.host.close()


@action(2)
def the_command_line_looks_around(s):
    s.t.rdinit('discover', s.steady.uri(None, nqn=None))
    s.t.rdinit('id-ns', s.steady.uri(SHARED))
    s.t.rdinit('smart-log', s.steady.uri(SHARED))


# ---- what is served ----

@action(3)
def a_namespace_is_added_and_removed(s):
    nsid = s.random.randrange(10, 20)
    ns = s.t.namespace(nsid, size='4MiB') if s.random.random() < 0.5 else memory(s.t, nsid)
    s.control.call('namespace.add', nqn=NQN, namespace=ns)
    exercise(s.steady, nsid=nsid)
    load = Load(s.steady, s.random, queues=1)
    load.post(nsid=nsid)
    s.control.post('namespace.remove', nqn=NQN, nsid=nsid)  # answered when the host has taken all of its answers
    load.collect({nv.SUCCESS, INVALID_NS})
    s.t.ok('result' in s.control.answer(), 'the namespace was not removed')
    load.host.close()
    if 'path' in ns:
        os.unlink(ns['path'])


@action(3)
def a_namespace_is_resized(s):
    for size in ('4MiB', '8MiB'):
        s.control.call('namespace.resize', nqn=NQN, nsid=SIZED, size=size)
        exercise(s.steady, nsid=SIZED)


@action(2)
def the_file_is_changed_and_reloaded(s):
    s.write_steady(memory(s.t, 30))
    s.steady.reload(r'reloaded: 1 namespace added$')
    exercise(s.steady, nsid=30)
    s.write_steady()
    s.steady.reload(r'reloaded: 1 removed$')


@action(2)
def nothing_is_reloaded(s):
    s.control.call('config.reload')


@action(2)
def a_subsystem_comes_and_goes(s):
    s.control.call('subsystem.add', subsystem={'nqn': OTHER, 'allow_any_host': True,
                                               'namespaces': [memory(s.t, 5)]})
    exercise(s.steady, OTHER, nsid=5)
    s.control.call('subsystem.remove', nqn=OTHER)


@action(2)
def a_listener_comes_and_goes(s):
    s.control.call('listener.add', listener={'address': '127.0.0.3', 'port': 0, 'provider': 'iwarp'})
    s.control.call('listener.remove', address='127.0.0.3', port=0)


@action(2)
def a_namespace_is_write_protected(s):
    s.control.call('namespace.write_protect', nqn=NQN, nsid=SHARED, on=True)
    s.control.call('namespace.write_protect', nqn=NQN, nsid=SHARED, on=False)
    exercise(s.steady, nsid=SHARED)


@action(2)
def limits_are_set_and_removed(s):
    s.control.call('namespace.qos', nqn=NQN, nsid=SHARED, limits={'iops': 10000})
    exercise(s.steady, nsid=SHARED)
    s.control.call('namespace.qos', nqn=NQN, nsid=SHARED, limits={})


@action(2)
def the_control_socket_is_asked(s):
    with Control(s.t.path('control.sock')) as c:
        c.call('stats.get', namespaces=True, hosts=True)
        c.call('metrics.get')
        c.call('controller.list')


# ---- paths and targets ----

@action(3)
def an_ana_state_changes(s):
    state = s.random.choice(('non-optimized', 'inaccessible', 'change'))
    for now in (state, 'optimized'):
        s.control.call('ana.set', group=1, state=now, address=s.steady.addr, port=0)
        s.two_paths.goes_on(20)


@action(3)
def a_path_is_lost(s):
    mark = s.two_paths.proc.mark()
    s.proxy.reset()
    s.two_paths.proc.expect('^event path 1 lost', since=mark)
    s.two_paths.proc.expect('^event path 1 live', since=mark)


@action(1)
def a_silent_network(s):
    mark = s.two_paths.proc.mark()
    s.proxy.swallow()
    s.two_paths.proc.expect('^event path 1 lost', since=mark)
    s.proxy.forward()
    s.two_paths.proc.expect('^event path 1 live', since=mark)


@action(1)
def a_controller_is_disconnected(s):
    def both():
        # Neither that of a host that has just crashed, nor that of a path that was lost.
        found = [c['cntlid'] for c in s.control.call('controller.list')['controllers'] if c['hostnqn'] != nv.HOST_NQN]
        return found if len(found) == 2 else None
    found = wait_for(both, 'the controllers of lost paths to end')
    mark = s.two_paths.proc.mark()
    s.control.call('controller.disconnect', nqn=NQN, cntlid=s.random.choice(found))
    s.two_paths.proc.expect(r'^event path \d lost', since=mark)
    s.two_paths.proc.expect(r'^event path \d live', since=mark)


@action(2)
def the_other_target_is_restarted(s):
    mark = s.restarted.proc.mark()
    if s.random.random() < 0.5:
        s.other.kill()
    else:
        s.other.signal(signal.SIGTERM)
        s.other.wait()
    s.other = s.t.target(config=s.write_other(), name='other', args=QUIET)
    s.other_proxy.to = (s.other.addr, s.other.port)
    s.restarted.proc.expect('^event device live', since=mark, deadline=2 * DEADLINE)
    s.restarted.goes_on(20)


@action(1)
def the_other_target_stands_still(s):
    """Longer than keep-alive."""
    mark = s.restarted.proc.mark()
    s.other.signal(signal.SIGSTOP)
    try:
        s.restarted.proc.expect('^event path 0 lost', since=mark)
    finally:
        s.other.signal(signal.SIGCONT)
    s.restarted.proc.expect('^event device live', since=mark)
