# SPDX-License-Identifier: BSD-3-Clause
"""Namespaces on exports of NBD servers in a hand-over: each process has a connection of its own, one after the other."""

import os
import signal
import socket
import sys

import nvmf_peer as nv
import t_upgrade
from t_control import Control, with_socket
from t_dev import Device
from t_loop import DEADLINE, NQN, Failure, each, iwarp_only, main, program, scaled, test, wait_for
from t_nbd import CONNECTED, NBD_SERVERS, Server, evaluates, refuses_a_second
from t_storage import MIB, pattern
from t_upgrade import TCP, close_all, ended, no_reconnect, pause_of, peer, start_refused, take_over, take_up_to_commit, uri_of

HANDS = scaled(4, 2)
UUID = '5b1c6d9e-0000-4000-8000-0000000000bd'


def begin(t, namespaces, **kw):
    config, control = with_socket(t, namespaces, listeners=[{}, {'transport': 'tcp'}], **kw)
    return t.target(config=config), config, control


@each(*NBD_SERVERS)
@iwarp_only
def verified_io_goes_on_through_hand_overs(t, serve):
    server = serve(t)
    target, config, control = begin(t, [server.namespace(), t.namespace(2, backend='memory')])
    devices = [Device(t, [uri_of(target, transport, nsid)], name=f'rddev-{nsid}') for nsid, transport in ((1, TCP), (2, TCP))]
    pauses = []
    for n in range(HANDS):
        for device in devices:
            device.goes_on(50)
        old, target = target, take_over(t, config, control, f'next-{n}')
        ended(t, old)
        target.expect(CONNECTED)
        pauses.append(pause_of(target))
    for device in devices:
        device.goes_on(50)
        no_reconnect(t, device)
        t.eq(device.count('errors') + device.count('unknown'), 0, 'errors')
        device.finish()
    t.note(f'{HANDS} hand-overs, pause at most {max(pauses):.1f} ms')


@each(('neither', 'exit 3', 'echo none', ['write ', 'write ']),
      ('FUA without Flush', 'exit 3', 'echo native', ['write fua', 'write fua']),
      ('Flush without FUA', 'exit 0', 'echo none', ['write ', 'flush', 'write ', 'flush']))
@iwarp_only
def what_was_acknowledged_is_flushed_by_a_server_that_has(t, can_flush, can_fua, logged):
    """Once by each process that hands over, after its last write; and the next one keeps the promises."""
    log, server = t.path('log'), Server(t)
    server.start(plugin=evaluates(server.image, can_flush=can_flush, can_fua=can_fua, flush=f'echo flush >>{log}',
                                  pwrite=f'echo "write $5" >>{log}; dd of={server.image} oflag=seek_bytes conv=notrunc seek=$4'))
    target, config, control = begin(t, [server.namespace()])
    with peer(target, TCP) as host:
        before = nv.expect_data(host.admin.identify(1))
        for n in range(2):
            nv.expect(host.q.write_blocks(1, 8 * n, pattern(n, 4096)))
            old, target = target, take_over(t, config, control, f'next-{n}')
            ended(t, old)
            t.same(nv.expect_data(host.q.read_blocks(1, 8 * n, 8)), pattern(n, 4096))
        t.eq(nv.expect_data(host.admin.identify(1))[525], before[525], 'the volatile write cache that hosts are told of')
    with open(log, encoding='ascii') as f:
        t.eq(f.read().split('\n')[:-1], logged)


@test
@iwarp_only
def a_flush_that_fails_refuses(t):
    """The process that goes on has the same connection, and can hand over later."""
    fails, server = t.file('fails', b''), Server(t)
    server.start(plugin=evaluates(server.image, can_flush='exit 0',
                                  flush=f'if [ -e {fails} ]; then echo "EINVAL it must not" >&2; exit 1; fi'))
    target, config, control = begin(t, [server.namespace()])
    with peer(target, TCP) as host:
        nv.expect(host.q.write_blocks(1, 0, pattern(1, 4096)))
        start_refused(t, config, control, 'the other process has ended')
        target.expect(rf'not handed over to process \d+: {NQN} namespace 1: a Flush of its storage has failed: Invalid argument; this process goes on')
        t.same(nv.expect_data(host.q.read_blocks(1, 0, 8)), pattern(1, 4096))
        nv.expect(host.q.write_blocks(1, 8, pattern(2, 4096)))
        t.eq(target.text().count('connection is lost'), 0, 'lost connections')
        os.unlink(fails)
        following = take_over(t, config, control, 'next')
        ended(t, target)
        t.same(nv.expect_data(host.q.read_blocks(1, 8, 8)), pattern(2, 4096))
    t.ok(following.running, 'it has ended')


@test
@iwarp_only
def a_flush_that_does_not_end_refuses(t):
    """Commands go on while the server still flushes; a later hand-over flushes what was written since."""
    gate, log, server = t.file('gate', b''), t.path('log'), Server(t)
    server.start(plugin=evaluates(server.image, can_flush='exit 0', thread_model='echo parallel',
                                  flush=f'echo begun >>{log}; while [ -e {gate} ]; do sleep 0.05; done; echo ended >>{log}'))
    target, config, control = begin(t, [server.namespace()])
    with peer(target, TCP) as host:
        start_refused(t, config, control, 'the other process has ended')
        target.expect(rf'not handed over to process \d+: {NQN} namespace 1: its storage has not ended a Flush; look at its server')
        nv.expect(host.q.write_blocks(1, 0, pattern(1, 4096)))
        os.unlink(gate)
        following = take_over(t, config, control, 'next')
        ended(t, target)
        t.same(nv.expect_data(host.q.read_blocks(1, 0, 8)), pattern(1, 4096))
    with open(log, encoding='ascii') as f:
        t.eq(f.read().split(), ['begun', 'ended'] * 2, 'the flushes')
    t.ok(following.running, 'it has ended')


@test
@iwarp_only
def a_server_that_does_not_greet_does_not_refuse(t):
    """There is no connection, so there is nothing to flush."""
    server = Server(t).start()
    target, config, control = begin(t, [server.namespace(), t.namespace(2, backend='memory')])
    with peer(target, TCP) as host:
        server.proc.kill()
        target.expect('the connection is lost')
        os.unlink(server.socket)
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(server.socket)
            silent.listen()
            silent.settimeout(DEADLINE)
            accepted, _ = silent.accept()  # the target waits for the greeting
            with accepted:
                following = take_over(t, config, control, 'next')
                ended(t, target)
        server.start()
        following.expect('connected in place of the process before|connected again')
        nv.expect(host.q.write_blocks(1, 0, pattern(1, 4096)))
        t.same(nv.expect_data(host.q.read_blocks(1, 0, 8)), pattern(1, 4096))


@test
@iwarp_only
def the_connection_ends_before_the_process_does(t):
    """What the next process hears by "left": a server for one client then takes another one."""
    server = refuses_a_second(t)
    target, _, control = begin(t, [server.namespace()])
    channel = t_upgrade.ask(control)
    _, _, kept = take_up_to_commit(channel)
    channel.expect('left')
    t.ok(target.running, 'it has ended without being told that the next process serves')

    def greeted():
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(DEADLINE)
            sock.connect(server.socket)
            return sock.recv(18, socket.MSG_WAITALL)[:8] == b'NBDMAGIC'
    wait_for(greeted, 'the server to take another client')
    channel.send('serves')
    t.eq(target.wait(), 0)
    close_all(kept)
    channel.close()


@test
@iwarp_only
def another_export_refuses_by_name(t):
    server = Server(t).start()
    target, config, control = begin(t, [server.namespace()])
    other = server.namespace(uri=server.uri.replace('nbd+unix:///', 'nbd+unix:///other'))
    with_socket(t, [other], listeners=[{}, {'transport': 'tcp'}])
    start_refused(t, config, control, r'namespace 1: uri is nbd\+unix:///other\S* in the configuration and another one in the running target; reload')
    with Control(control) as c:
        t.eq(c.call('status')['pid'], target.pid)


@test
@iwarp_only
def a_check_does_not_connect(t):
    server = refuses_a_second(t)
    target, config, control = begin(t, [server.namespace()])
    with peer(target, TCP) as host:
        check = t.spawn('check', [program('rdtarget'), '-c', config, '--take-over', control, '--check'])
        t.eq(check.wait(), 0, 'exit status of --take-over --check')
        t.ok('nbd:' not in check.text(), f'it says of the export:\n{check.text()}')
        nv.expect(host.q.write_blocks(1, 0, pattern(1, 4096)))
    t.eq(target.text().count('connection is lost'), 0, 'lost connections')


@test
@iwarp_only
def hosts_of_a_next_process_that_is_killed_connect_again(t):
    """Right after the commit: what was acknowledged is there."""
    server = refuses_a_second(t)
    target, config, control = begin(t, [server.namespace()], listener={})
    data = pattern(7, 4096)
    host = peer(target, TCP)
    nv.expect(host.q.write_blocks(1, 0, data))
    following = take_over(t, config, control, 'next')
    ended(t, target)
    following.signal(signal.SIGKILL)
    following.wait()
    host.close()
    again = t.target(config=config, name='again')
    again.expect('namespace 1: added|ready')
    with peer(again, TCP) as other:
        t.same(nv.expect_data(other.q.read_blocks(1, 0, 8)), data)


@test
@iwarp_only
def the_next_process_connects_when_the_other_one_has_left(t):
    """The server has been replaced by a larger export meanwhile: as after a lost connection."""
    server = Server(t).start()
    size = os.path.getsize(server.image)
    config, _ = with_socket(t, [server.namespace(uuid=UUID)], listeners=[{'transport': 'tcp'}])
    giver = t_upgrade.Giver(t.path('giver.sock'))
    server.proc.kill()
    os.unlink(server.socket)
    proc = t.spawn('next', [program('rdtarget'), '-c', config, '--log', 'info', '--take-over', t.path('giver.sock')])
    channel = giver.channel()
    ns = {'kind': 'ns', 'nqn': NQN, 'nsid': 1, 'uuid': UUID, 'backend': 'nbd', 'storage': f'nbd {NQN} 1 {server.uri}',
          'block_size': 512, 'size': size, 'must': ['told'], 'told': {'cache': True, 'stores': False, 'deallocates': True}}
    head = {'kind': 'header', 'format': 1, 'version': 'x'}
    channel.send('prepare', [head, ns], check=False)
    channel.expect('ready')
    channel.send('move', [head])
    channel.expect('took')
    # a server that has nothing to do with NBD sees whether anybody connects before "left"
    with socket.socket(socket.AF_UNIX) as trap:
        trap.bind(server.socket)
        trap.listen()
        channel.send('commit')
        channel.expect('serves')
        trap.setblocking(False)
        try:
            trap.accept()
            raise Failure('the next process connects before the other one has left')
        except BlockingIOError:
            pass
    os.truncate(server.image, 2 * size)
    server.start()
    channel.send('left')
    proc.expect(CONNECTED)
    proc.expect(rf'namespace 1: resized, {2 * size // 512} blocks, was {size // 512}')
    channel.close()
    giver.close()


if __name__ == '__main__':
    sys.exit(main())
