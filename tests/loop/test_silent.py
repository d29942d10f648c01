# SPDX-License-Identifier: BSD-3-Clause
"""A machine that disappears without a message, as when its cable is pulled; in network namespaces of the test."""

import ctypes
import os
import subprocess
import sys

from t_loop import NQN, Skip, main, program, requires_program, requires_root, test, wait_for

CLONE_NEWNET = 0x40000000
TARGET, HOST = '10.77.0.1', '10.77.0.2'


class Namespace:
    """A network namespace; it and its links end with the process that holds it."""

    def __init__(self, t, name):
        self.holder = t.spawn(name, [requires_program('unshare'), '--net', 'sh', '-c', 'echo ready >&2; exec cat'],
                              stdin=subprocess.PIPE)
        try:
            self.holder.expect('^ready$')
        except AssertionError:
            raise Skip(f'no network namespace: {self.holder.text()}') from None

    def enter(self):
        """For preexec_fn=."""
        libc = ctypes.CDLL(None, use_errno=True)
        fd = os.open(f'/proc/{self.holder.pid}/ns/net', os.O_RDONLY)
        if libc.setns(fd, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), 'setns')
        os.close(fd)

    def ip(self, t, *args):
        res = t.run([requires_program('ip'), *args], preexec_fn=self.enter)
        if res.rc:
            raise Skip(f'ip {" ".join(map(str, args))}: {res.err}')


def cable(t):
    """Two machines and a link between them."""
    requires_root()
    one, two = Namespace(t, 'target-net'), Namespace(t, 'host-net')
    one.ip(t, 'link', 'add', 'target0', 'type', 'veth', 'peer', 'name', 'host0', 'netns', two.holder.pid)
    for ns, name, addr in ((one, 'target0', TARGET), (two, 'host0', HOST)):
        ns.ip(t, 'addr', 'add', f'{addr}/24', 'dev', name)
        ns.ip(t, 'link', 'set', name, 'up')
    return one, two


@test
def a_host_without_keep_alive_loses_its_controller(t):
    one, two = cable(t)
    target = t.target([t.namespace(backend='null')], addr=TARGET, target={'peer_timeout': '1s'},
                      preexec_fn=one.enter)
    host = t.spawn('host', [program('rdinit'), 'bench', target.uri(), '--keep-alive-tmo', '0', '--run-time', '1h',
                            '--host-traddr', HOST], preexec_fn=two.enter)
    wait_for(lambda: target.counters()['reads'] > 100, 'the host to read')
    two.ip(t, 'link', 'set', 'host0', 'down')
    wait_for(lambda: not any(target.counters()[key] for key in ('controllers', 'io_queues', 'admin_queues')),
             'its controller to end')
    host.kill()


@test
def an_idle_host_without_keep_alive_loses_its_controller(t):
    one, two = cable(t)
    target = t.target([t.namespace(backend='null')], addr=TARGET, target={'peer_timeout': '1s'},
                      preexec_fn=one.enter)
    here = os.path.dirname(os.path.abspath(__file__))
    host = t.spawn('host', [sys.executable, '-c', 'import sys; sys.path.insert(0, sys.argv[1]); import nvmf_peer as nv\n'
                            'h = nv.Host(sys.argv[2], int(sys.argv[3]), sys.argv[4]); h.enable(); h.add_io()\n'
                            'sys.stdin.read()', here, TARGET, target.port, NQN],
                   stdin=subprocess.PIPE, preexec_fn=two.enter)
    wait_for(lambda: target.counters()['io_queues'] == 1, 'the host to connect')
    two.ip(t, 'link', 'set', 'host0', 'down')
    wait_for(lambda: not any(target.counters()[key] for key in ('controllers', 'io_queues', 'admin_queues')),
             'its controller to end')
    host.kill()


if __name__ == '__main__':
    sys.exit(main())
