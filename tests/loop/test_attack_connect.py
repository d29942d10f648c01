# SPDX-License-Identifier: BSD-3-Clause
"""Peers that open connections and do nothing with them, while a correct host connects, works and disconnects."""

import os
import select
import signal
import socket
import sys

import attack_connect
import attack_lib
from t_loop import SOURCE_ROOT, Skip, each, main, program, test, wait_for
from t_serving import Baseline, exercise


@each(*((attack.name, attack) for attack in attack_lib.attacks('attack_connect')))
def others_are_served(t, attack):
    target = t.target([t.namespace(backend='memory')], target={'reactors': 1, **attack.target})
    with Baseline(target):
        crowd = attack_lib.start(t, target, attack)
        for _ in range(3):
            exercise(target)
        crowd.kill()


@test
def the_oldest_half_open_connection_makes_room(t):
    target = t.target([t.namespace(backend='memory')], target={'reactors': 1, 'limits': {'half_open': 64}})
    with Baseline(target):
        crowd = attack_lib.start(t, target, attack_connect.half_open.attack, 100)
        exercise(target)
        target.expect('127.1.0.1: connection dropped to make room')
        crowd.kill()


@each(('iwarp', {}), ('tcp', {'transport': 'tcp'}))
def a_burst_finds_room_to_wait(t, listener):
    """More connections than that lose their SYN, and try again after a second."""
    burst = 2000
    with open('/proc/sys/net/core/somaxconn', encoding='ascii') as f:
        if int(f.read()) < burst:
            raise Skip(f'net.core.somaxconn is less than {burst}')
    attack_lib.raise_files(burst + 500)
    target = t.target([t.namespace(backend='memory')], listener=listener, target={'reactors': 1})
    target.signal(signal.SIGSTOP)
    socks = [socket.socket() for _ in range(burst)]
    for sock in socks:
        sock.setblocking(False)
        sock.connect_ex((target.addr, target.port))
    poll = select.poll()
    for sock in socks:
        poll.register(sock, select.POLLOUT)
    wait_for(lambda: len(poll.poll(0)) == burst, 'all of them to be connected')
    for sock in socks:
        sock.close()
    target.signal(signal.SIGCONT)


def tool(t, *args):
    program('rdinit')
    build = os.path.dirname(os.path.dirname(program('rdtarget')))
    return t.run([sys.executable, os.path.join(SOURCE_ROOT, 'tools', 'attack'), '--build', build, *args])


@test
def the_tool_measures_a_host(t):
    """The verdict is not tested."""
    res = tool(t, '--small', '--seconds', '0.2', 'sockets, one address')
    t.ok(res.rc in (0, 1), f'exit status {res.rc}: {res.err}')
    t.match(r'(?m)^half-open sockets, one address +300 .* (good|BAD)$', res.text)


@test
def the_tool_knows_all_attacks(t):
    names = [a.name for a in attack_lib.attacks('attack_connect')]
    t.eq([name for name in names if f'connect: {name} (' not in tool(t, '--list').text], [], 'not listed')
    res = tool(t, 'no such attack')
    t.eq(res.rc, 2, 'exit status')
    t.match('no attack is named no such attack; --list', res.err)


if __name__ == '__main__':
    sys.exit(main())
