# SPDX-License-Identifier: BSD-3-Clause
"""rdinit top: its display of I/O and of paths, while they change."""

import json
import os
import pty
import signal
import subprocess
import sys

import t_schema
from t_loop import NQN, PATIENCE, Failure, each, main, program, test
from t_proxy import Proxy


class Top:
    """A running rdinit top; next() returns its output until a condition holds."""

    def __init__(self, t, *uris):
        self.proc = t.spawn('top', [program('rdinit'), 'top', *uris, '--interval=50ms', '-o', 'json', *PATIENCE],
                            stdout=subprocess.PIPE)

    def until(self, condition):
        for line in self.proc.popen.stdout:
            value = json.loads(line)
            t_schema.check('top', value)
            if condition(value):
                return value
        raise Failure(f'top ended:\n{self.proc.text()}')


@test
def it_shows_the_io_of_others(t):
    target = t.target([t.namespace(backend='null', size='1GiB')])
    top = Top(t, target.uri(None))
    idle = top.until(lambda v: 'read' in v)
    t.eq((idle['read']['iops'], idle['write']['iops'], idle['nqn']), (0, 0, NQN))
    load = t.spawn('load', [program('rdinit'), 'bench', target.uri(), '--rw=randwrite', '--dataloss', '-b', '64k',
                            '--run-time=1h', *PATIENCE])
    busy = top.until(lambda v: v.get('write', idle['write'])['iops'] > 0 and v['write']['bytes_per_second'] > 0)
    t.eq(busy['read']['iops'], 0, 'reads')
    t.ok(busy['write']['commands'] > 0, 'no commands')
    load.signal(signal.SIGINT)
    load.wait()
    top.until(lambda v: v['write']['iops'] == 0)


@test
def a_path_is_lost_and_comes_back(t):
    target = t.target([t.namespace(backend='memory')])
    proxy = Proxy(t, target.addr, target.port)
    top = Top(t, target.uri(None), proxy.uri(target).rsplit('/', 1)[0])
    both = top.until(lambda v: [p['state'] for p in v['paths']] == ['live', 'live'])
    t.eq([(p['ana'], p['losses'], p['text']) for p in both['paths']], [('optimized', 0, '')] * 2)
    proxy.accepting(False)
    proxy.reset()
    lost = top.until(lambda v: v['paths'][1]['state'] == 'lost')['paths']
    t.eq((lost[0]['state'], lost[1]['losses'], lost[1]['ana']), ('live', 1, '-'))
    t.match('connection lost', lost[1]['text'])
    proxy.accepting(True)
    back = top.until(lambda v: v['paths'][1]['state'] == 'live')['paths'][1]
    t.eq((back['losses'], back['text']), (1, ''))
    target.kill()
    top.until(lambda v: [p['state'] for p in v['paths']] == ['lost', 'lost'])
    top.proc.signal(signal.SIGINT)
    t.eq(top.proc.wait(), -signal.SIGINT, 'ended by')


@test
def ana_states_are_those_of_each_path(t):
    def config(*states):
        return t.config([t.namespace(backend='memory'), t.namespace(2, backend='memory', ana_group=2)],
                        listeners=[{'ana': [{'group': 1, 'state': state}]} for state in states])

    target = t.target(config=config('optimized', 'inaccessible'))
    uris = [target.uri(None).replace(f':{target.port}/', f':{port}/') for _, port in target.listeners]
    top = Top(t, *uris)
    top.until(lambda v: [p['ana'] for p in v['paths']] == ['optimized', '1 optimized, 1 inaccessible'])
    config('non-optimized', 'optimized')
    target.reload()
    top.until(lambda v: [p['ana'] for p in v['paths']] == ['1 optimized, 1 non-optimized', 'optimized'])


@test
def a_silent_path_does_not_hold_up_the_others(t):
    target = t.target([t.namespace(backend='memory')])
    proxy = Proxy(t, target.addr, target.port)
    top = Top(t, proxy.uri(target).rsplit('/', 1)[0], target.uri(None))
    top.until(lambda v: [p['state'] for p in v['paths']] == ['live', 'live'])
    proxy.swallow()
    before = top.until(lambda v: True)['paths'][1]['latency_ms']
    for _ in range(5):  # updates go on, and the other path answers each time
        now = top.until(lambda v: True)['paths'][1]
        t.eq(now['state'], 'live')
    t.ok(before > 0 and now['latency_ms'] > 0, 'no latency')


@test
def a_terminal_is_drawn_anew(t):
    target = t.target([t.namespace(backend='memory')])
    leader, follower = pty.openpty()
    proc = t.spawn('top', [program('rdinit'), 'top', target.uri(None), '--interval=50ms', '--count=3', *PATIENCE],
                   stdout=follower)
    os.close(follower)
    shown = b''
    while True:
        try:
            more = os.read(leader, 65536)
        except OSError:  # EIO: the last writer is gone
            break
        if not more:
            break
        shown += more
    os.close(leader)
    t.eq(proc.wait(), 0, 'exit status')
    t.eq(shown.count(b'\x1b[H\x1b[J' + NQN.encode()), 3, 'screens')
    t.match(r'127\.0\.0\.1:\d+ +live +optimized +[\d.]+ ms +0', shown.decode())


@each(('no URI', [], '0 URIs: give one to 16'),
      ('two subsystems', [f'nvme+rdma://127.0.0.1:1/{NQN}', f'nvme+rdma://127.0.0.1:1/{NQN}2'],
       'leads to a different subsystem'),
      ('too often', [f'nvme+rdma://127.0.0.1:1/{NQN}', '--interval=1ms'], '--interval: "1ms" is less than 10ms'),
      ('no updates', [f'nvme+rdma://127.0.0.1:1/{NQN}', '--count=0'], '--count: found 0, expected 1 or more'),
      ('no time', [f'nvme+rdma://127.0.0.1:1/{NQN}', '--interval=often'], '--interval: "often" is not a time'),
      ('a host identifier that is none', [f'nvme+rdma://127.0.0.1:1/{NQN}', '--hostid=x'], '"x" is not a UUID'))
def a_command_line_that_is_wrong(t, args, says):
    t.match(says, t.rdinit('top', *args, rc=2).err)


if __name__ == '__main__':
    sys.exit(main())
