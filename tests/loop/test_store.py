# SPDX-License-Identifier: BSD-3-Clause
"""A restart by a service manager that keeps file descriptors: the connections go from one process to the next through its
store."""

import json
import os
import re
import resource
import shlex
import signal
import socket
import subprocess
import sys
import time

import nvmf_peer as nv
from t_control import Control, refused, with_socket
from t_dev import Device
from t_loop import NQN, SOURCE_ROOT, each, iwarp_only, main, program, scaled, test, wait_for
from t_nbd import CONNECTED, NBD_SERVERS, Server, evaluates, refuses_a_second
from t_owner import CONFLICT, EA
from t_serving import memory
from t_storage import pattern
from t_store import Manager
from t_upgrade import RDMA, TCP, ended, no_reconnect, peer, uri_of

RESTARTS = scaled(4, 2)
TRANSPORTS = (('iwarp', RDMA), ('tcp', TCP))


def begin(t, namespaces=None, most=512, **kw):
    """(manager, target, configuration, control socket), with a listener of each transport."""
    namespaces = namespaces or [t.namespace(1), memory(t, 2), t.namespace(3, size='8MiB', direct='off')]
    config, control = with_socket(t, namespaces, listeners=[{}, {'transport': 'tcp'}])
    manager = Manager(t, most)
    return manager, manager.start(config, **kw), config, control


def go_on(t, devices, last=False):
    """Their I/O does, on the connections that they have."""
    for device in devices:
        device.goes_on(50)
        no_reconnect(t, device)
        if last:
            device.finish()


def stored(t, target, control, *devices):
    """What the service does at a restart: the process leaves everything in the store, and ends."""
    for device in devices:
        device.goes_on(50)
    res = t.run([program('rdctl'), '-s', control, 'upgrade', '--store'])
    t.eq(res.rc, 0, f'rdctl upgrade --store\n{res.err}')
    t.match(r"[1-9]\d* connections of \d+ controllers are in the service manager's store, 0 connect again", res.text)
    ended(t, target)


def device_of(t, target, transport, nsid=1):
    """It gives a connection up when that is closed, and not because this machine is slow."""
    return Device(t, [uri_of(target, transport, nsid)], '--keep-alive-tmo', 20000, name=f'rddev-{nsid}')


def two_devices(t, target):
    return [device_of(t, target, TCP, 1), device_of(t, target, RDMA, 2)]


def pause_of(target):
    return float(target.expect(r"took over from process \d+ by the service manager's store: .* rested for ([\d.]+) ms")[1])


def at_the_same_ports(config, target):
    """For a process that opens its listeners anew."""
    with open(config, encoding='utf-8') as f:
        text = f.read()
    for _, port in target.listeners:
        text = text.replace('port: 0', f'port: {port}', 1)
    with open(config, 'w', encoding='utf-8') as f:
        f.write(text)


def connects_again(device, since):
    device.proc.expect(r'event path \d+ live', since=since)
    device.goes_on(50)


@each(*TRANSPORTS)
@iwarp_only
def verified_io_goes_on_through_restarts(t, transport):
    manager, target, config, control = begin(t)
    devices = [Device(t, [uri_of(target, transport, nsid)], '--keep-alive-tmo', 4000, name=f'rddev-{nsid}')
               for nsid in (1, 2, 3)]
    pauses = []
    for n in range(RESTARTS):
        for device in devices:
            device.goes_on(50)
        stored(t, target, control)
        t.eq(manager.names(), ['rdtarget', 'rdtarget-records'])
        target = manager.start(config, f'next-{n}')
        pauses.append(pause_of(target))
        target.expect(r'took over .*: [1-9]\d* connections of 3 controllers')
        t.eq(manager.store, [], 'the store of a process that serves')
    go_on(t, devices, last=True)
    with Control(control) as c:
        figure = re.search(r'^rdtarget_upgrade_pause_seconds (\S+)$', c.call('metrics.get')['text'], re.M)
    t.ok(abs(float(figure[1]) * 1000 - pauses[-1]) < 1, f'the metric is {figure[1]}, and the log says {pauses[-1]} ms')
    t.note(f'{transport}: {RESTARTS} restarts, pauses of {", ".join(f"{p:.0f}" for p in pauses)} ms')


@each(*TRANSPORTS)
@iwarp_only
def what_hosts_have_set_survives_a_restart(t, transport):
    """Reservations that do not persist, an AER that waits, and what is in memory; and it can be handed over again."""
    manager, target, config, control = begin(t, [memory(t, 1), memory(t, 2)])
    with peer(target, transport, 1) as one, peer(target, transport, 2) as two:
        nv.expect(one.register())
        nv.expect(two.register())
        nv.expect(one.acquire(EA))
        before, data = one.report(), os.urandom(512)
        nv.expect(one.q.write_blocks(1, 7, data))
        nv.expect(one.admin.set_features(0x0B, 1 << 8))
        aer = one.admin.next_cid()
        one.admin.post(nv.sqe(0x0C, aer))
        stored(t, target, control)
        target = manager.start(config, 'next')
        t.eq(one.report(), before, 'the reservations')
        t.eq(two.write(), CONFLICT, 'a write of the other host')
        t.same(nv.expect_data(one.q.read_blocks(1, 7, 1)), data)
        with Control(control) as c:
            c.call('namespace.add', nqn=NQN, namespace=memory(t, 3))
            t.eq(one.admin.wait(aer).dw0 & 0xFFFF, 0x0002, 'the event for the AER that waited')
            c.call('namespace.remove', nqn=NQN, nsid=3)
            c.call('config.reload')
        old, target = target, t.target(config=config, name='upgraded', args=('--take-over', control))
        ended(t, old)
        t.same(nv.expect_data(one.q.read_blocks(1, 7, 1)), data)


@each(*NBD_SERVERS)
@iwarp_only
def nbd_exports_have_one_client_after_the_other(t, serve):
    """The process that ends flushes and disconnects; the next one connects."""
    server = serve(t)
    manager, target, config, control = begin(t, [server.namespace(), memory(t, 2)])
    devices = [device_of(t, target, TCP, 1), device_of(t, target, TCP, 2)]
    for n in range(RESTARTS):
        stored(t, target, control, *devices)
        target = manager.start(config, f'next-{n}')
        pause_of(target)
        target.expect(CONNECTED)
    for device in devices:
        device.goes_on(50)
        no_reconnect(t, device)
        t.eq(device.count('errors') + device.count('unknown'), 0, 'errors')
        device.finish()


@test
@iwarp_only
def an_nbd_server_whose_flush_fails_refuses(t):
    fails, server = t.file('fails', b''), Server(t)
    server.start(plugin=evaluates(server.image, can_flush='exit 0',
                                  flush=f'if [ -e {fails} ]; then echo "EINVAL it must not" >&2; exit 1; fi'))
    manager, target, config, control = begin(t, [server.namespace()])
    with peer(target, TCP) as host:
        nv.expect(host.q.write_blocks(1, 0, pattern(1, 4096)))
        not_stored(t, control, target, f'{NQN} namespace 1: a Flush of its storage has failed: Invalid argument')
        t.same(nv.expect_data(host.q.read_blocks(1, 0, 8)), pattern(1, 4096))
        nv.expect(host.q.write_blocks(1, 8, pattern(2, 4096)))
        t.eq(target.text().count('connection is lost'), 0, 'lost connections')
        wait_for(lambda: not manager.store, 'the store to be empty')
        os.unlink(fails)
        stored(t, target, control)
        manager.start(config, 'next').expect(CONNECTED)
        t.same(nv.expect_data(host.q.read_blocks(1, 8, 8)), pattern(2, 4096))


@test
@iwarp_only
def an_nbd_export_is_served_when_connections_are_not_taken(t):
    """Its storage was opened as what was stored, and no process before is waited for."""
    server = refuses_a_second(t)
    manager, target, config, control = begin(t, [server.namespace()])
    device = device_of(t, target, TCP)
    stored(t, target, control, device)
    mark = device.proc.mark()
    change_records(lambda records: of_kind(records['move']['records'], 'queue')[0].update(sqsize='x'))(manager)
    following = manager.start(config, 'next')
    following.expect('is not taken over: .*kind "queue" has no sqsize')
    following.expect(CONNECTED)
    connects_again(device, mark)
    device.finish()


@test
@iwarp_only
def a_process_that_dies_before_the_store_is_empty_leaves_it(t):
    """The one after it takes the same connections: nobody has read from them."""
    manager, target, config, control = begin(t)
    devices = two_devices(t, target)
    stored(t, target, control, *devices)
    for n in range(RESTARTS):
        manager.deaf = True
        dies = manager.spawn(config, f'dies-{n}')
        manager.asked()
        dies.signal(signal.SIGKILL)
        dies.wait()
        t.ok('took over' not in dies.text(), 'it has begun to serve')
        manager.hears()
    following = manager.start(config, 'next')
    following.expect('took over .* connections of 2 controllers')
    go_on(t, devices, last=True)


@test
@iwarp_only
def hosts_of_a_process_that_dies_right_after_connect_again(t):
    manager, target, config, control = begin(t)
    device = device_of(t, target, TCP)
    stored(t, target, control, device)
    following = manager.start(config, 'next')
    mark = device.proc.mark()
    following.signal(signal.SIGKILL)
    following.wait()
    t.eq(manager.store, [], 'the store')
    at_the_same_ports(config, target)
    manager.start(config, 'again')
    connects_again(device, mark)
    device.finish()


# ---- what is not stored ----

def not_stored(t, control, target, says):
    mark = target.mark()
    res = t.run([program('rdctl'), '-s', control, 'upgrade', '--store'])
    t.eq(res.rc, 1, f'rdctl upgrade --store: {res.text}')
    t.match(says, res.err)
    t.ok(target.running, 'it has ended')
    target.expect(r"not left in the service manager's store: .*; this process goes on|refused: not stored", since=mark)


@each(('no room at all', 0), ('room for what is open only', 8))
@iwarp_only
def a_store_that_is_too_small_refuses(t, most):
    """Before connections are held, or after it; then everything continues."""
    manager, target, config, control = begin(t, most=most)
    devices = two_devices(t, target)
    not_stored(t, control, target, 'not handed over: the service manager has not kept all of .* FileDescriptorStoreMax= of the service')
    go_on(t, devices)
    wait_for(lambda: not manager.store, 'the store to be empty')
    manager.most = 512
    stored(t, target, control, *devices)
    manager.start(config, 'next').expect('took over')
    go_on(t, devices, last=True)


@test
@iwarp_only
def a_limit_that_is_known_refuses(t):
    """That of the store, which systemd tells since its version 254, and that of open files, with which no next process could
    be started."""
    manager, target, config, control = begin(t, [memory(t, 1)], FDSTORE='3')
    not_stored(t, control, target, 'the service manager stores 3; raise FileDescriptorStoreMax=')
    wait_for(lambda: not manager.store, 'the store to be empty')
    target.stop()

    def low():
        resource.setrlimit(resource.RLIMIT_NOFILE, (8, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    target = manager.start(config, 'low', preexec_fn=low)
    with peer(target, TCP) as host:
        not_stored(t, control, target, 'with a limit of 8 open files; raise LimitNOFILE=')
        t.eq(host.read(), 0)
        old, target = target, t.target(config=config, name='upgraded', args=('--take-over', control), env=manager.how()['env'])
        ended(t, old)
        not_stored(t, control, target, 'with a limit of 8 open files; raise LimitNOFILE=')
        t.eq(host.read(), 0)


@test
@iwarp_only
def a_silent_service_manager_refuses(t):
    manager, target, config, control = begin(t, [memory(t, 1)])
    with peer(target, TCP) as host:
        manager.deaf = True
        not_stored(t, control, target, 'the service manager has not answered for 5 s')
        t.eq(host.read(), 0)
        manager.hears()
        # what has come late is removed, and the next attempt is as good as the first one
        stored(t, target, control)
        manager.start(config, 'next')
        t.eq(host.read(), 0)


@test
@iwarp_only
def without_a_service_manager_it_refuses(t):
    config, control = with_socket(t, [memory(t, 1)], listeners=[{}, {'transport': 'tcp'}])
    target = t.target(config=config)
    not_stored(t, control, target, 'NOTIFY_SOCKET is not in its environment')
    for other in ('--check', '--force'):
        res = t.run([program('rdctl'), '-s', control, 'upgrade', '--store', other])
        t.eq(res.rc, 2, f'exit status for --store with {other}')


@test
@iwarp_only
def storage_that_does_not_answer_refuses(t):
    """By the name of its namespace, as in a hand-over to a process; nothing is left in the store."""
    manager, target, _, control = begin(t, [memory(t, 1), memory(t, 2, layers=[{'type': 'delay', 'write': '5s'}])])
    with peer(target, TCP) as host:
        write = host.q.post_io(nv.NVM_WRITE, 2, 0, bytes(512), 512)
        nv.expect(host.q.read_blocks(2, 0, 1)[0])  # by now the write is there
        not_stored(t, control, target, f'{NQN} namespace 2: a command of queue')
        nv.expect(host.q.read_blocks(1, 0, 1)[0])
        nv.expect(write.wait())
    t.eq([name for name, _ in manager.store if name == 'rdtarget-records'], [], 'records in the store')


# ---- what is not taken ----

def of_kind(records, kind):
    return [record for record in records if record['kind'] == kind]


def change_records(change):
    def apply(manager):
        records = json.loads(manager.records())
        change(records)
        manager.rewrite(records)
    return apply


def too_old(records):
    (record,) = of_kind(records['move']['records'], 'process')
    record['held_at'] = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - 62 * 10 ** 9


def of_another_boot(records):
    (record,) = of_kind(records['move']['records'], 'process')
    record['held_at'] = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 10 ** 12


def loses_one(manager):
    at = [name for name, _ in manager.store].index('rdtarget')
    os.close(manager.store.pop(at)[1])


def loses_the_records(manager):
    at = [name for name, _ in manager.store].index('rdtarget-records')
    os.close(manager.store.pop(at)[1])


def another_format(part):
    return change_records(lambda records: records[part]['records'][0].update(format=99))


NOT_TAKEN = (
    ('garbage', lambda manager: manager.rewrite(b'\x00{"open":'), 'its records are no JSON'),
    ('a list', lambda manager: manager.rewrite([]), 'has no records or descriptors'),
    ('nothing', lambda manager: manager.rewrite(b''), 'withdrawn, or another process has used them'),
    ('an old record', change_records(too_old), r'connections rest for 6\d s, and hosts have given them up after 60 s'),
    ('a record of another boot', change_records(of_another_boot), 'does not say since when connections rest'),
    ('a later format', another_format('open'), 'in format 99, and this version .* knows those up to 1'),
    ('a later format of connections', another_format('move'), 'in format 99, and this version'),
    ('too few descriptors', loses_one, r'descriptor \d+ of \d+ of its part "\w+" \(.*\) is not in the store'),
    ('no records', loses_the_records, 'there are descriptors without records'),
    ('two of them', lambda manager: manager.store.append(('rdtarget-records', os.memfd_create('more'))),
     'there are records of several processes'),
    ('another block size', change_records(lambda records: of_kind(records['open']['records'], 'ns')[0].update(block_size=4096)),
     'block_size is 512 in the configuration and 4096'),
)


@each(*NOT_TAKEN)
@iwarp_only
def a_start_goes_on_without(t, spoil, says):
    """Nothing is left in the store, no lock is in the way, and hosts connect again."""
    manager, target, config, control = begin(t, [t.namespace(1), t.namespace(2)])
    device = device_of(t, target, TCP)
    stored(t, target, control, device)
    mark = device.proc.mark()
    spoil(manager)
    at_the_same_ports(config, target)
    following = manager.start(config, 'next')
    following.expect(f'what the service manager has stored is not taken over: .*{says}.*; hosts connect again')
    t.eq(manager.store, [], 'the store')
    connects_again(device, mark)
    device.finish()
    with Control(control) as c:
        t.eq([ns['state'] for ns in c.call('namespace.list')['namespaces']], ['live', 'live'])


@each(('a record of a queue', change_records(lambda records: of_kind(records['move']['records'], 'queue')[0].update(sqsize='x')),
       'kind "queue" has no sqsize'),
      ('a UUID', change_records(lambda records: of_kind(records['open']['records'], 'ns')[0].update(uuid='other')),
       'its UUID would change from other'),
      ('a namespace', change_records(lambda records: of_kind(records['move']['records'], 'ns-state')[0].update(write_protect=9)),
       'write_protect is 9'))
@iwarp_only
def a_start_that_has_opened_storage_goes_on_without(t, spoil, says):
    manager, target, config, control = begin(t, [t.namespace(1)])
    device = device_of(t, target, TCP)
    stored(t, target, control, device)
    mark = device.proc.mark()
    spoil(manager)
    following = manager.start(config, 'next')
    following.expect(f'is not taken over: .*{says}')
    connects_again(device, mark)
    wait_for(lambda: not manager.store, 'the store to be empty')
    # it is a target as any other
    mark = device.proc.mark()
    stored(t, following, control)
    manager.start(config, 'last').expect('took over from process')
    device.goes_on(50)
    t.ok(not re.search(r'event path \d+ lost', device.proc.text(mark)), 'a path was lost')
    device.finish()


@test
@iwarp_only
def a_store_that_cannot_be_emptied_is_not_taken(t):
    """Two processes would read: so the connections end, and the records that stay there are worth nothing."""
    manager, target, config, control = begin(t, [t.namespace(1)])
    device = device_of(t, target, TCP)
    stored(t, target, control, device)
    mark = device.proc.mark()
    manager.deaf = True
    following = manager.start(config, 'next')
    following.expect('is not taken over: the service manager has not answered for 5 s; hosts connect again')
    connects_again(device, mark)
    manager.hears()
    t.ok(manager.names(), 'the store is empty, and should not be')
    following.signal(signal.SIGKILL)
    following.wait()
    mark = device.proc.mark()
    at_the_same_ports(config, target)
    manager.start(config, 'again').expect('withdrawn, or another process has used them')
    t.eq(manager.store, [], 'the store')
    connects_again(device, mark)
    device.finish()


@test
@iwarp_only
def descriptors_of_strangers_are_closed(t):
    manager, target, config, control = begin(t, [memory(t, 1)])
    with peer(target, TCP) as host:
        stored(t, target, control)
        ours, theirs = socket.socketpair()
        unknown = os.memfd_create('unknown')
        manager.store.insert(0, ('stranger', theirs.detach()))
        manager.store.append(('rdtarget', unknown))
        following = manager.start(config, 'next')
        following.expect('closed 1 descriptors of the service manager that are not for rdtarget')
        following.expect('took over .*: 2 connections')
        t.eq(host.read(), 0)
        t.eq(manager.names(), ['stranger'])
        fds = [os.readlink(f'/proc/{following.pid}/fd/{fd}') for fd in os.listdir(f'/proc/{following.pid}/fd')]
        t.ok(not any('unknown' in fd for fd in fds), 'it keeps a descriptor that nobody knows')
        manager.clear()
        t.eq(ours.recv(1), b'', 'what the other end of the stranger reads')


# ---- --no-hand-over ----

@test
@iwarp_only
def no_hand_over_neither_gives_nor_takes(t):
    manager, target, config, control = begin(t, [t.namespace(1)])
    device = device_of(t, target, TCP)
    stored(t, target, control, device)
    mark = device.proc.mark()
    at_the_same_ports(config, target)
    following = manager.start(config, 'never', args=('--no-hand-over',))
    following.expect('is not taken over: it was started with --no-hand-over; hosts connect again')
    t.eq(manager.store, [], 'the store')
    connects_again(device, mark)
    with Control(control) as c:
        for method, params in (('upgrade', {}), ('upgrade', {'check': True}), ('upgrade.store', {}), ('upgrade.take', {'format': 1})):
            e = refused(t, 'refused', c.call, method, **params)
            t.match('it was started with --no-hand-over; restart it, and hosts connect again', e.message)
    device.goes_on(50)
    res = t.run([program('rdtarget'), '-c', config, '--no-hand-over', '--take-over', control])
    t.eq(res.rc, 2, 'exit status for both options')
    device.finish()


# ---- the unit ----

@each(('restart', '12 rdtarget.service restart running', '77', True), ('stop', '12 rdtarget.service stop running', '77', False),
      ('no job', '', '77', False), ('no process', '12 rdtarget.service restart running', '', False))
def the_service_stores_at(t, jobs, pid, stores):
    """What systemd runs before it sends SIGTERM, with a systemctl and an rdctl that are not the real ones."""
    with open(os.path.join(SOURCE_ROOT, 'configs', 'systemd', 'rdtarget.service.in'), encoding='utf-8') as f:
        (line,) = re.findall(r'(?m)^ExecStop=\+-(.*)$', f.read())
    for name, says in (('systemctl', f'[ "$*" = "list-jobs --no-legend --no-pager rdtarget.service" ] || exit 1\necho "{jobs}"'),
                       ('rdctl', f'echo "$@" >{t.path("said")}')):
        with open(t.path(name), 'w', encoding='ascii') as f:
            f.write(f'#!/bin/sh\n{says}\n')
        os.chmod(t.path(name), 0o755)
    argv = shlex.split(line.replace('@bindir@', t.dir).replace('%n', 'rdtarget.service'))
    env = dict(os.environ, PATH=f'{t.dir}:{os.environ["PATH"]}')
    env.pop('MAINPID', None)
    if pid:
        env['MAINPID'] = pid
    t.eq(subprocess.run(argv, env=env, check=False).returncode, 0, 'exit status')
    t.eq(os.path.exists(t.path('said')), stores, 'it calls rdctl')
    if stores:
        with open(t.path('said'), encoding='ascii') as f:
            t.eq(f.read(), '--wait 15 upgrade --store\n')


if __name__ == '__main__':
    sys.exit(main())
