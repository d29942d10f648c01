# SPDX-License-Identifier: BSD-3-Clause
"""A target that hands its connections to another process: rdctl upgrade, and rdtarget --take-over."""

import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import struct
import sys

import nvmf_peer as nv
import t_loop
import t_upgrade
import tcp_peer
from t_control import Control, refused, with_socket
from t_dev import Device
from t_loop import DEADLINE, NQN, Skip, each, iwarp_only, main, program, requires_program, scaled, test, wait_for
from t_owner import CONFLICT, EA, WE
from t_serving import memory
from t_upgrade import (RDMA, TCP, TcpOwner, ana_log, close_all, ended, figures, has_ended, no_reconnect, pause_of, peer,
                       start_refused, take_over, take_up_to_commit, uri_of, user_of)

HANDS = scaled(4, 2)
AER, COMPARE = 0x0C, 0x05
EVENT_NS = 0x0002  # of a completion of an AER: type 2 (notice), information 0
EVENT_ANA = 0x0302  # likewise, information 3
COMPARE_FAILURE = 0x285
INTERNAL_ERROR = 0x06
HOSTNQN = 'nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001'


class SameName(TcpOwner):
    """Several of one name, each with a Host Identifier of its own."""

    def data(self, **kw):
        return nv.connect_data(self.subnqn, HOSTNQN, hostid=self.hostid, **kw)


def files_and_memory(t):
    return [t.namespace(1), memory(t, 2), t.namespace(3, size='8MiB', direct='off')]


def begin(t, namespaces=None, **kw):
    """(target, configuration, control socket), with a listener of each transport."""
    config, control = with_socket(t, namespaces or files_and_memory(t), listeners=[{}, {'transport': 'tcp'}], **kw)
    return t.target(config=config), config, control


TRANSPORTS = (('iwarp', RDMA), ('tcp', TCP))


@each(*TRANSPORTS)
@iwarp_only
def verified_io_goes_on_through_hand_overs(t, transport):
    target, config, control = begin(t)
    devices = [Device(t, [uri_of(target, transport, nsid)], '--keep-alive-tmo', 2000, name=f'rddev-{nsid}')
               for nsid in (1, 2, 3)]
    pauses = []
    for n in range(HANDS):
        for device in devices:
            device.goes_on(50)
        old, target = target, take_over(t, config, control, f'next-{n}')
        ended(t, old)
        pauses.append(pause_of(target))
        target.expect(r'took over .*: [1-9]\d* connections of 3 controllers')
    for device in devices:
        device.goes_on(50)
        no_reconnect(t, device)
        device.finish()
    t.note(f'{transport}: {HANDS} hand-overs, pause at most {max(pauses):.1f} ms, median {sorted(pauses)[len(pauses) // 2]:.1f} ms')


@each(*TRANSPORTS)
@iwarp_only
def what_hosts_have_set_moves(t, transport):
    """Reservations, also those that do not persist, AERs that wait, features, and the identity of the controller."""
    target, config, control = begin(t, [memory(t, 1), memory(t, 2)])
    with peer(target, transport, 1) as one, peer(target, transport, 2) as two:
        nv.expect(one.register())
        nv.expect(two.register())
        nv.expect(one.acquire(EA))
        before = one.report()
        data = os.urandom(512)
        nv.expect(one.q.write_blocks(1, 7, data))
        aer = one.admin.next_cid()
        one.admin.post(nv.sqe(AER, aer))
        nv.expect(one.admin.set_features(0x0B, 1 << 8))
        listing = nv.expect_data(one.admin.identify(1))[76:80]

        old, target = target, take_over(t, config, control, 'next')
        ended(t, old)
        t.eq(one.report(), before, 'the reservations')
        t.eq(two.write(), CONFLICT, 'a write of the other host')
        t.same(nv.expect_data(one.q.read_blocks(1, 7, 1)), data)
        t.eq(nv.expect(one.admin.get_features(0x0B)).dw0, 1 << 8, 'feature 0Bh')
        t.same(nv.expect_data(one.admin.identify(1))[76:80], listing, 'CNTLID and more of Identify Controller')
        with Control(control) as c:
            c.call('namespace.add', nqn=NQN, namespace=memory(t, 3))
        t.eq(one.admin.wait(aer).dw0 & 0xFFFF, EVENT_NS, 'the event for the AER that waited')
        nv.expect(one.release(EA))
        t.eq(two.write(), 0, 'a write after the release')


@test
@iwarp_only
def the_limit_of_registrants_of_a_name_goes_on(t):
    """It counts those that have come with the namespace."""
    target, config, control = begin(t, [memory(t, 1)], target={'reactors': 1})

    def registers(number):
        with peer(target, TCP, number, SameName) as host:
            return host.register().status

    for number in range(1, 16):
        t.eq(registers(number), 0, f'registrant {number}')
    old, target = target, take_over(t, config, control, 'next')
    ended(t, old)
    t.eq((registers(16), registers(17)), (0, INTERNAL_ERROR), 'the last registrant of a name, and one more')


@each(*TRANSPORTS)
@iwarp_only
def fused_commands_and_compare_go_on(t, transport):
    target, config, control = begin(t, [memory(t, 1)])
    with peer(target, transport) as host:
        zero, ones = bytes(512), b'\1' * 512
        for n in range(HANDS):
            expected, new = (zero, ones) if n % 2 == 0 else (ones, zero)
            t.eq(host.q.data_out(COMPARE, new, nsid=1, cdw10=0).status, COMPARE_FAILURE)
            nv.expect(host.q.data_out(COMPARE, expected, nsid=1, cdw10=0))
            nv.expect(host.q.write_blocks(1, 0, new))
            old, target = target, take_over(t, config, control, f'next-{n}')
            ended(t, old)
        with peer(target, transport, 2) as other:  # and new hosts come
            t.eq(other.read(), 0)


@each(*TRANSPORTS)
@iwarp_only
def a_lower_limit_of_queues_is_for_new_controllers(t, transport):
    """A controller keeps what it was granted, and all of its connections."""
    target, config, control = begin(t, [memory(t, 1)], target={'io_queues': 3})
    with peer(target, transport) as host:
        second = host.add_io()
        granted = nv.expect(host.admin.get_features(7)).dw0
        with_socket(t, [memory(t, 1)], listeners=[{}, {'transport': 'tcp'}], target={'io_queues': 1})
        old, target = target, take_over(t, config, control, 'next')
        ended(t, old)
        target.expect(r'took over .*: 3 connections of 1 controllers')
        for queue in (host.q, second):
            nv.expect_data(queue.read_blocks(1, 0, 1))
        t.eq((granted, nv.expect(host.admin.get_features(7)).dw0), (0x20002, 0x20002), 'the queues that are granted')
        with peer(target, transport, 2) as other:
            t.eq(nv.expect(other.admin.get_features(7)).dw0, 0, 'the queues of a new controller')


@test
@iwarp_only
def rdctl_upgrade_starts_the_installed_program(t):
    """Its process is no child of the test: the target runs without --exit-with-parent."""
    config, control = with_socket(t, files_and_memory(t), listeners=[{}, {'transport': 'tcp'}])
    target = t.spawn('rdtarget', [program('rdtarget'), '-c', config, '--log', 'info'])
    target.expect(r'\bready$')
    port = int(target.expect(r'listening on \S+:(\d+) \(tcp\)')[1])
    device = Device(t, [f'{TCP}://127.0.0.1:{port}/{NQN}/1'])
    res = t.run([program('rdctl'), '-s', control, 'upgrade', '--check'])
    t.eq((res.rc, target.running), (0, True), f'rdctl upgrade --check\n{res.err}')
    t.match(r'version \S+, process \d+, can take over', res.text)
    with Control(control) as c:
        t.eq(c.call('status')['pid'], target.pid)
        c.call('events.watch')
        res = t.run([program('rdctl'), '-s', control, 'upgrade'])
        t.eq(res.rc, 0, f'rdctl upgrade\n{res.err}')
        t.match(r'has taken over: \d+ connections of 1 controllers rested for [\d.]+ ms, 0 connect again', res.text)
    # its log is the next one's, too, so its end is no end of that
    t.eq(target.popen.wait(DEADLINE), 0, 'exit status of the process that has handed over')
    device.goes_on(50)
    no_reconnect(t, device)
    device.finish()
    with Control(control) as c:  # the same socket, which never went away
        pid = c.call('status')['pid']
        t.ok(pid != target.pid, 'the same process')
        c.call('shutdown')
    wait_for(lambda: has_ended(pid), 'the next process to end')
    t.ok(not os.path.exists(control), 'the control socket is still there')


@test
@iwarp_only
def a_refused_configuration_changes_nothing(t):
    target, config, control = begin(t)
    device = Device(t, [uri_of(target, TCP)])
    with open(t.path('bad.yaml'), 'w', encoding='ascii') as f:
        f.write('target: {no_such_key: 1}\n')
    start_refused(t, t.path('bad.yaml'), control, 'no_such_key', status=78)
    # the configuration is good, and says something else of what hosts use
    start_refused(t, t.config([memory(t, 1, block_size=4096)], listeners=[{}, {'transport': 'tcp'}], name='other.yaml',
                              more={'control': {'socket': control}}),
                  control, r'namespace 1: block_size is 4096 in the configuration and 512 in the running target', name='other')
    target.expect(r'not handed over to process \d+: .*block_size is 4096.*; this process goes on')
    start_refused(t, config, t.path('nobody'), 'cannot reach a target by its control socket', name='nobody')
    for n, other in enumerate(('--migrate', '--check=full')):
        start_refused(t, config, control, '--take-over cannot be combined with --migrate or --check=full', other, name=f'both-{n}', status=2)
    device.goes_on(50)
    no_reconnect(t, device)
    device.finish()
    ended_by_check = t.spawn('check', [program('rdtarget'), '-c', config, '--take-over', control, '--check'])
    t.eq(ended_by_check.wait(), 0, 'exit status of --take-over --check')
    t.ok(target.running, 'the target has ended after a check')


@test
@iwarp_only
def a_file_tells_who_uses_it(t):
    """Also after a check and a refusal: another program that wants the file names the process."""
    target, config, control = begin(t, [t.namespace(1), memory(t, 2)])
    path = t.path('ns1.img')
    t.eq(user_of(path), target.pid)
    check = t.spawn('check', [program('rdtarget'), '-c', config, '--take-over', control, '--check'])
    t.eq((check.wait(), user_of(path)), (0, target.pid), 'after a check')
    channel = t_upgrade.ask(control)
    close_all(channel.expect('prepare')[2])
    channel.send('refused', why='this is a test')
    target.expect(r'not handed over to process \d+: this is a test')
    channel.close()
    t.eq(user_of(path), target.pid, 'after a refusal')
    following = take_over(t, config, control, 'next')
    ended(t, target)
    following.expect(r'process \d+ has ended')
    wait_for(lambda: user_of(path) == following.pid, 'the file to name the next process')


@test
@iwarp_only
def changes_that_were_not_saved_are_not_lost(t):
    target, config, control = begin(t)
    with Control(control) as c:
        c.call('namespace.add', nqn=NQN, namespace={'nsid': 9, 'backend': 'null', 'size': '1MiB'})
    start_refused(t, config, control, r'changes of the configuration were not saved.*rdctl save')
    with Control(control) as c:
        c.call('config.save')
    following = take_over(t, config, control, 'next')
    ended(t, target)
    with Control(control) as c:
        t.eq([ns['nsid'] for ns in c.call('namespace.list')['namespaces']], [1, 2, 3, 9])
    t.ok(following.running, 'it has ended')


@test
@iwarp_only
def nothing_is_told_to_a_target_in_a_hand_over(t):
    """The next process would serve as if nobody had asked for a drain, or for the lock of an image."""
    target, _, control = begin(t, [memory(t, 1)])
    channel = t_upgrade.ask(control)
    close_all(channel.expect('prepare')[2])
    with Control(control) as c:
        e = refused(t, 'busy', c.call, 'drain')
        t.match('being handed over to another process; try again', e.message)
        for action in 'take', 'yield', 'wait':
            e = refused(t, 'busy', c.call, 'ana.claim', action=action, group=1)
            t.match('being handed over to another process; try again', e.message)
        t.eq(c.call('status')['state'], 'serving')
        mark = target.mark()
        channel.close()
        target.expect(r'not handed over to process \d+', since=mark)
        t.eq(c.call('drain')['drained'], True)


@test
@iwarp_only
def storage_that_does_not_answer_refuses_by_name(t):
    """The answer to the write is given later, by the process that went on."""
    target, config, control = begin(t, [memory(t, 1), memory(t, 2, layers=[{'type': 'delay', 'write': '5s'}])])
    with peer(target, TCP) as host:
        cid = host.q.post_io(nv.NVM_WRITE, 2, 0, bytes(512), 512)
        nv.expect(host.q.read_blocks(2, 0, 1)[0])  # by now the write is there
        start_refused(t, config, control, r'not taking over|ended')
        target.expect(rf'not handed over to process \d+: .*{NQN} namespace 2.*; this process goes on')
        nv.expect(host.q.read_blocks(1, 0, 1)[0])
        nv.expect(cid.wait())
        following = take_over(t, config, control, 'next')
        ended(t, target)
        nv.expect(host.q.read_blocks(1, 0, 1)[0])
    t.ok(following.running, 'it has ended')


@test
@iwarp_only
def a_next_process_that_dies_before_the_commit_leaves_everything(t):
    """Stopped while it has what is open: the target waits for it, serves meanwhile, and goes on when it dies."""
    target, config, control = begin(t)
    device = Device(t, [uri_of(target, TCP)])
    for n in range(HANDS):
        mark = target.mark()
        proc = t.spawn(f'dies-{n}', [program('rdtarget'), '-c', config, '--take-over', control])
        found = target.expect(r'process (\d+) takes over', since=mark)
        t.eq(int(found[1]), proc.pid)
        proc.signal(signal.SIGKILL)
        proc.wait()
        # it may have been fast enough
        line = target.expect(r'not handed over to process \d+: (.*); this process goes on|handed over to process (\d+): ', since=mark)
        if line[2]:
            return
        device.goes_on(50)
    no_reconnect(t, device)
    device.finish()


@test
@iwarp_only
def hosts_of_a_next_process_that_is_killed_connect_again(t):
    """Right after the commit: what was acknowledged is there."""
    target, config, control = begin(t, [t.namespace(1)], listener={})
    ports = {port: at for at, (_, port) in enumerate(target.listeners)}
    device = Device(t, [uri_of(target, TCP)])
    device.goes_on(50)
    following = take_over(t, config, control, 'next')
    ended(t, target)
    following.signal(signal.SIGKILL)
    following.wait()
    # the service manager starts it again, at the same ports
    with open(config, encoding='utf-8') as f:
        text = f.read()
    for port, at in sorted(ports.items(), key=lambda item: item[1]):
        text = text.replace('port: 0', f'port: {port}', 1)
    with open(config, 'w', encoding='utf-8') as f:
        f.write(text)
    t.target(config=config, name='again')
    device.proc.expect(r'event path \d+ live', since=1)
    device.goes_on(50)
    device.finish()


@test
@iwarp_only
def new_connections_wait_and_are_served(t):
    """Hosts come while the target is handed over again and again: nobody is refused. One that was just connecting, or was
    not ready, connects again."""
    target, config, control = begin(t, [memory(t, 1)])
    for n in range(HANDS):
        argv = [program('rdtarget'), '-c', config, '--exit-with-parent', '--log', 'info', '--take-over', control]
        following = t.spawn(f'next-{n}', argv)
        while target.running:
            try:
                with peer(target, TCP, 3) as host:
                    t.eq(host.read(), 0)
            except (nv.iw.PeerError, OSError):
                t.ok(target.wait() == 0, 'a connection was lost, and not by a hand-over')
        ended(t, target)
        following.expect(r'\bready$')
        following.addr, following.listeners = target.addr, target.listeners
        target = following


@test
@iwarp_only
def a_namespace_that_came_or_went_is_told(t):
    target, config, control = begin(t, [memory(t, 1), memory(t, 2)])
    with peer(target, TCP) as host:
        nv.expect(host.admin.set_features(0x0B, 1 << 8))
        aer = host.admin.next_cid()
        host.admin.post(nv.sqe(AER, aer))
        with_socket(t, [memory(t, 1), memory(t, 3)], listeners=[{}, {'transport': 'tcp'}])
        take_over(t, config, control, 'next')
        ended(t, target)
        t.eq(host.admin.wait(aer).dw0 & 0xFFFF, EVENT_NS, 'the event')
        changed = nv.expect_data(host.admin.get_log(4, 4096))
        t.eq(sorted(int.from_bytes(changed[i:i + 4], 'little') for i in (0, 4)), [2, 3], 'the Changed Namespace List')


@test
@iwarp_only
def ana_states_that_change_are_told(t):
    """A host that waits for an event gets it, and no count goes back."""
    def configure(state, group):
        listeners = [{}, {'transport': 'tcp', 'ana': [{'group': 1, 'state': state}]}]
        return with_socket(t, [memory(t, 1, ana_group=group), memory(t, 2)], listeners=listeners)
    config, control = configure('optimized', 1)
    target = t.target(config=config)
    with peer(target, TCP) as host:
        nv.expect(host.admin.set_features(0x0B, 1 << 11))
        before, first = ana_log(host)
        t.eq((first[1][1], first[1][2]), (1, [1, 2]))
        for state, code, group in (('inaccessible', 3, 1), ('inaccessible', 3, 7), ('non-optimized', 2, 7), ('non-optimized', 2, 1)):
            aer = host.admin.next_cid()
            host.admin.post(nv.sqe(AER, aer))
            configure(state, group)
            old, target = target, take_over(t, config, control, f'{state}-{group}')
            ended(t, old)
            t.eq(host.admin.wait(aer).dw0 & 0xFFFF, EVENT_ANA, 'the event')
            count, groups = ana_log(host)
            t.ok(count > before, f'the change count is {count} after {before}')
            t.eq(groups[1][1], code, 'the state of group 1')
            t.eq(1 in groups[1][2], group == 1, 'namespace 1 is in group 1')
            before = count


@test
@iwarp_only
def the_state_directory_and_the_status_page_move(t):
    import urllib.request
    config, control = with_socket(t, [memory(t, 1)], listeners=[{}, {'transport': 'tcp'}],
                                  target={'state_dir': t.path('state')}, more={'http': {'address': '127.0.0.1', 'port': 0}})
    target = t.target(config=config)
    page = target.expect(r'status page at (http://\S+)')[1]
    with peer(target, TCP) as host:
        nv.expect(host.register(cptpl=3 << 30))
        old, target = target, take_over(t, config, control, 'next')
        ended(t, old)
        t.eq(target.expect(r'status page at (http://\S+)')[1], page)
        with urllib.request.urlopen(page + 'healthz') as f:
            t.eq(f.status, 200)
        nv.expect(host.acquire(WE))  # is stored by the next process
    # nobody else may use the directory
    other = t.spawn('other', [program('rdtarget'), '-c', t.config([memory(t, 1)], name='other.yaml',
                                                                 target={'state_dir': t.path('state')})])
    t.ok(other.wait() != 0, 'two targets use one state directory')
    t.match('another rdtarget uses it', other.text())
    target.stop()
    target = t.target(config=config, name='later')
    with peer(target, TCP, 2) as host:
        t.eq(host.write(), CONFLICT, 'a write after a restart')


@test
@iwarp_only
def only_root_and_the_own_user_may_take_over(t):
    """The methods are refused to others before anything happens: here to nobody's format."""
    target, _, control = begin(t, [memory(t, 1)])
    with Control(control) as c:
        c.send({'jsonrpc': '2.0', 'id': 1, 'method': 'upgrade.take', 'params': {'format': 'x'}})
        t.eq(c.answer()['error']['data']['name'], 'invalid')
        c.send({'jsonrpc': '2.0', 'id': 2, 'method': 'upgrade.take', 'params': {'format': 1}})
        lines = [c.file.readline() for _ in range(2)]  # an empty one has the descriptor, which is dropped here
        t.eq(lines[0], b'\n')
        target.expect(r'not handed over to process \d+: the other process has ended')
    with Control(control) as c:
        t.eq(c.call('status')['pid'], target.pid)


# ---- counters ----

def metrics(control):
    """Counters and histograms of the metrics, without those of threads and of the process."""
    with Control(control) as c:
        text = c.call('metrics.get')['text']
    kinds = dict(re.findall(r'^# TYPE (\S+) (\S+)$', text, re.M))
    found = {}
    for name, labels, value in re.findall(r'^(\w+)(\{.*\})? (\S+)$', text, re.M):
        family = re.sub(r'_(bucket|sum|count)$', '', name)
        if kinds.get(name, kinds.get(family)) in ('counter', 'histogram') and not re.search('seconds_total|^process', name):
            found[name, labels] = float(value)
    return found


def do_io(t, host, n):
    data = os.urandom(4096)
    for i in range(n):
        nv.expect(host.q.write_blocks(1, 8 * i, data))
        t.same(nv.expect_data(host.q.read_blocks(1, 8 * i, 8)), data)
    t.ok(host.q.read_blocks(1, 1 << 40, 1)[0].status, 'a read beyond the end succeeds')


@each(('the same reactors', 2, 2), ('fewer', 2, 1), ('more', 1, 2))
@iwarp_only
def counters_and_latencies_move(t, before, after):
    """No figure falls, and those of hosts, listeners and namespaces are the same. Where reactors are as many as before,
    theirs do not fall either."""
    target, config, control = begin(t, [memory(t, 1), memory(t, 2)], target={'reactors': before})
    with peer(target, TCP, 1) as one, peer(target, RDMA, 2) as two:
        with peer(target, TCP, 3) as left:
            do_io(t, left, 3)
        do_io(t, one, 5)
        do_io(t, two, 4)
        with_socket(t, [memory(t, 1), memory(t, 2)], listeners=[{}, {'transport': 'tcp'}], target={'reactors': after})
        for n in range(HANDS):
            old, figures_of, metrics_of = target, figures(control), metrics(control)
            t.ok(any('bucket' in name for name, _ in metrics_of), f'no histogram in the metrics: {list(metrics_of)}')
            target = take_over(t, config, control, f'next-{n}')
            ended(t, old)
            now, metrics_now = figures(control), metrics(control)
            for part in ('namespaces', 'hosts', 'listeners', 'total', 'subsystems'):
                t.eq(now[part], figures_of[part], part)
            fallen = [(k, v, metrics_now.get(k)) for k, v in metrics_of.items()
                      if metrics_now.get(k, 0) < v and (before == after or 'reactor=' not in (k[1] or ''))]
            t.eq(fallen, [], 'metrics that have fallen: before, after')
            do_io(t, one, 1)
            do_io(t, two, 1)
            before = after
        t.eq(figures(control)['total']['read']['count'], 4 + 6 + 5 + HANDS * (2 + 2))


# ---- one of the processes is not rdtarget ----

def of_kind(records, kind):
    return [record for record in records if record['kind'] == kind]


@test
@iwarp_only
def a_process_that_refuses_the_connections_changes_nothing(t):
    """It has everything, and says no; or ends; or never answers."""
    target, _, control = begin(t, [memory(t, 1)])
    with peer(target, TCP) as host:
        for says in ('refused', 'nothing', 'nonsense'):
            mark = target.mark()
            channel = t_upgrade.ask(control)
            _, records, fds = channel.expect('prepare')
            t.eq((records[0]['kind'], records[0]['format']), ('header', 1))
            t.eq([record['nsid'] for record in of_kind(records, 'ns')], [1])
            close_all(fds)
            channel.send('ready')
            _, records, fds = channel.expect('move')
            t.eq((len(of_kind(records, 'ctrl')), len(of_kind(records, 'queue'))), (1, 2))
            close_all(fds)
            if says == 'refused':
                channel.send('refused', why='this is a test')
            elif says == 'nonsense':
                channel.send('commit')
            else:
                channel.close()
            target.expect({'refused': r'not handed over to process \d+: this is a test; this process goes on',
                           'nonsense': r'not handed over to process \d+: it says what it must not',
                           'nothing': r'not handed over to process \d+: the other process has ended'}[says], since=mark)
            channel.close()
            t.eq(host.read(), 0)
        t.eq(len(of_kind(records, 'ns-state')), 1)


@test
@iwarp_only
def too_few_descriptors_refuse(t):
    """Not a connection fewer is handed over for want of a descriptor: its host would have to connect again."""
    target, _, control = begin(t, [memory(t, 1)])
    with peer(target, TCP) as host:
        channel = t_upgrade.ask(control)
        close_all(channel.expect('prepare')[2])
        mark, limits = target.mark(), resource.prlimit(target.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(target.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        channel.send('ready')
        target.expect(r'not handed over to process \d+: queue \d+ of controller \d+ of host .*: there are too few descriptors.*raise the limit of open files', since=mark)
        resource.prlimit(target.pid, resource.RLIMIT_NOFILE, limits)
        channel.close()
        t.eq(host.read(), 0)


@test
@iwarp_only
def nothing_is_sent_on_a_connection_that_was_handed_over(t):
    """The next process here only keeps the sockets: the host's connections stay open, and nothing arrives."""
    target, _, control = begin(t, [memory(t, 1)])
    host = peer(target, TCP)
    channel = t_upgrade.ask(control)
    records, fds, kept = take_up_to_commit(channel)
    channel.send('serves')
    t.eq(target.wait(), 0)
    for queue in (host.admin, host.q):
        t.eq(select.select([queue.conn.sock], [], [], 0)[0], [], 'connections of which something arrives')
    # a command that is sent now arrives where the socket is
    host.q.post(nv.sqe(nv.FLUSH, 77, nsid=1))
    (record,) = [r for r in of_kind(records, 'queue') if r['qid'] == 1]
    with socket.socket(fileno=os.dup(fds[record['fd']])) as sock:
        sock.settimeout(DEADLINE)
        t.eq(sock.recv(8)[0], 4, 'the type of the PDU')
    host.close()
    close_all(kept)
    channel.close()


@test
@iwarp_only
def who_asked_is_told_that_the_next_process_has_ended(t):
    """It is another program in the place of the installed one, which ends when it has the commit."""
    installed = t.path('rdtarget')
    shutil.copy(program('rdtarget'), installed)
    config, control = with_socket(t, [memory(t, 1)], listeners=[{}, {'transport': 'tcp'}])
    target = t.spawn('rdtarget', [installed, '-c', config, '--log', 'info'])
    target.expect(r'\bready$')
    os.unlink(installed)
    with open(installed, 'w', encoding='ascii') as f:
        f.write(f'#!{sys.executable}\nimport sys\nsys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})\n'
                'import t_upgrade\nchannel = t_upgrade.ask(sys.argv[-1])\n'
                "for says, expects in (('ready', 'prepare'), ('took', 'move'), (None, 'commit')):\n"
                '    channel.expect(expects)\n'
                '    if says:\n        channel.send(says)\n')
    os.chmod(installed, 0o755)
    res = t.run([program('rdctl'), '-s', control, 'upgrade'])
    t.ok(res.rc, 'rdctl upgrade succeeds')
    t.match(r'was handed over to process \d+, which has ended before it served', res.err)
    t.eq(target.wait(), 0, 'exit status of the process that has handed over')


@test
@iwarp_only
def a_process_of_another_pid_namespace_takes_over(t):
    """The target cannot name it: not as the main process either, which would be refused, or a wrong one."""
    requires_program('unshare')
    inside = ['unshare', '--pid', '--fork', '--kill-child']
    if t.run([*inside, 'true']).rc:
        raise Skip('no PID namespace can be made')
    config, control = with_socket(t, [memory(t, 1)], listeners=[{}, {'transport': 'tcp'}])
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(t.path('manager'))
        manager.settimeout(DEADLINE)
        target = t.spawn('rdtarget', [*inside, program('rdtarget'), '-c', config, '--log', 'info'],
                         env=dict(os.environ, NOTIFY_SOCKET=t.path('manager')))
        target.expect(r'\bready$')
        channel = t_upgrade.ask(control, check=True)
        close_all(channel.expect('prepare')[2])
        channel.send('ready')
        channel.expect('checked')
        channel.close()
        channel = t_upgrade.ask(control)
        _, _, kept = take_up_to_commit(channel)
        channel.send('serves')
        t.eq(target.wait(), 0)
        said = ''
        while 'handed over' not in said:
            said = manager.recv(4096).decode()
        t.ok('MAINPID' not in said, f'the service manager is told {said!r}')
        close_all(kept)
        channel.close()


@test
@iwarp_only
def a_signal_after_the_commit_is_the_first_one(t):
    """A service manager sends it to both processes: the old one ends as it was going to."""
    target, _, control = begin(t, [memory(t, 1)])
    channel = t_upgrade.ask(control)
    _, _, kept = take_up_to_commit(channel)
    target.expect(r'handed over to process \d+: ')
    target.signal(signal.SIGTERM)
    target.expect(r'Terminated: exiting, because another process has taken over')
    channel.send('serves')
    t.eq(target.wait(), 0)
    t.ok('not waiting for I/O in flight' not in target.text(), 'it takes a signal for the second one')
    close_all(kept)
    channel.close()


def kept_records():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'upgrade-1.json'), encoding='ascii') as f:
        return json.load(f)


def hand_over_by_hand(t, change=None):
    """Records of format 1 that were kept, with a namespace in memory and the sockets of a connection that exists: what an
    rdtarget that takes over makes of them. Returns (process, channel, host's queue, its socket)."""
    kept = kept_records()
    config, _ = with_socket(t, [memory(t, 1, size='1MiB')], listeners=[{'transport': 'tcp'}], control={})
    giver = t_upgrade.Giver(t.path('giver.sock'))
    listener = socket.create_server((t_loop.ADDR, 0))
    ours, theirs = [], []
    for _ in range(2):
        ours.append(socket.create_connection(listener.getsockname()))
        theirs.append(listener.accept()[0])
    disk = os.memfd_create('disk')
    os.truncate(disk, 1 << 20)
    os.pwrite(disk, b'kept' * 128, 512)
    proc = t.spawn('next', [program('rdtarget'), '-c', config, '--log', 'debug', '--take-over', t.path('giver.sock')])
    channel = giver.channel()
    opened, moved = kept['prepare'], kept['move']
    if change:
        change(opened, moved)
    channel.send('prepare', opened, [listener.fileno(), disk], check=False)
    got = channel.receive()
    if got and got[0]['op'] == 'ready':
        channel.send('move', moved, [s.fileno() for s in theirs])
        got = channel.receive()
    return proc, channel, ours, got


def with_target(moved, **members):
    (target,) = of_kind(moved, 'target')
    target.update(members)


def with_hosts(moved, hosts):
    with_target(moved, hosts=hosts)


@each(('with the connections', False), ('after the commit', True))
@iwarp_only
def counters_of_records_are_read(t, later):
    """Of a host that is there, of one that is not, and of a subsystem that is gone. What a later version counts is ignored."""
    read = {'bytes': 4096, 'ns': 3000, 'latency': [2048, 1, 10 ** 15, 2], 'a_later_member': 'x'}
    hosts = [{'reactor': 70, 'hostnqn': 'nqn.2024-01.test:nobody', 'read': read},
             {'events': {'connects': 5, 'a_later_event': 6}, 'errors': [0x80, 3, 0x285, 4], 'other_errors': 1}]
    counters = {'read': read, 'a_later_kind': [1, 2]}
    kept = kept_records()['move']

    def add(opened, moved):
        with_target(moved, tls_refusals=2, subsystems=[{'nqn': 'nqn.2024-01.test:gone', 'reactors': [{'reads': 8}]}], gone=[1, 2])
        if not later:
            with_hosts(moved, hosts)
            of_kind(moved, 'ns-state')[0]['counters'] = counters
    proc, channel, _, got = hand_over_by_hand(t, add)
    t.eq(got and got[0]['op'], 'took', f'the answer {got}, and the log:\n{proc.text()[-3000:]}')
    channel.send('commit', **({'counters': True} if later else {}))
    if later:
        ns = of_kind(kept, 'ns-state')[0]
        channel.send('counters', [kept[0], {'kind': 'target', 'hosts': hosts}, {**ns, 'counters': counters},
                                  {**ns, 'counters': {'read': {'bytes': 1, 'ns': -1}}}, {**ns, 'nsid': 7, 'counters': counters}])
        proc.expect(r'1 records of counters have one that cannot be')
    channel.expect('serves')
    now = figures(t.path('control.sock'))
    histogram = [[2.048e-06, 1], [2 ** 34 / 1e9, 2]]
    for of in (now['total'], now['reactors'][0], now['namespaces'][0]):
        t.eq([of['read'][name] for name in ('count', 'bytes', 'seconds', 'histogram')], [3, 4096, 3e-06, histogram])
    t.eq((now['total']['connects'], now['total']['failed']), (5, 8))
    t.eq(now['total']['errors'], [{'sct': 0, 'sc': 0x80, 'count': 3}, {'sct': 2, 'sc': 0x85, 'count': 4}])
    t.eq(now['target']['failed_tls_handshakes'], 2)
    t.eq((now['reactors'][0]['reads'], now['reactors'][0]['writes']), (8 + 1, 2))
    (host,) = now['hosts']
    t.eq((host['connects'], host['read']['count']), (0, 0), 'what other hosts have done')


@each(('none can be written', lambda channel: channel.send('counters'), 'the other process could not write them'),
      ('they are in a later format', lambda channel: channel.send('counters', [{'kind': 'header', 'format': 2}]), 'are in format 2'),
      ('the other process ends', lambda channel: channel.close(), 'the other process has ended'))
@iwarp_only
def a_process_without_its_counters_serves(t, end, says):
    proc, channel, ours, got = hand_over_by_hand(t)
    t.eq(got and got[0]['op'], 'took', f'the answer {got}, and the log:\n{proc.text()[-3000:]}')
    channel.send('commit', counters=True)
    queue = tcp_peer.Queue(tcp_peer.Conn(ours[1]), 1, 32)
    t.same(nv.expect_data(queue.read_blocks(1, 1, 1)), b'kept' * 128, 'what is read before there are counters')
    t.ok(not re.search(r'\bready$', proc.text(), re.M), 'it is ready before there are counters')
    end(channel)
    proc.expect(f'counting from 0, because no counters have come: .*{says}')
    proc.expect(r'\bready$')
    # its reactor goes on, although the sockets that it was given would block
    wait_for(lambda: figures(t.path('control.sock'))['total']['read']['count'] == 1, 'the read to be counted')


@test
@iwarp_only
def counters_follow_the_commit(t):
    """Of a process that can take them then, whose hosts do not wait for them."""
    target, _, control = begin(t, [memory(t, 1)])
    host = peer(target, TCP)
    do_io(t, host, 3)
    channel = t_upgrade.ask(control)
    kept = channel.expect('prepare')[2]
    channel.send('ready', counters_later=True)
    _, records, fds = channel.expect('move')
    t.eq([record for record in records if 'hosts' in record or 'counters' in record], [], 'counters before the commit')
    channel.send('took')
    t.eq(channel.expect('commit')[0], {'op': 'commit', 'counters': True})
    _, records, more = channel.expect('counters')
    (ns,) = of_kind(records, 'ns-state')
    (of_host,) = [h for record in records for h in record.get('hosts', ()) if h.get('hostnqn') == host.hostnqn and 'read' in h]
    for counted in (ns['counters'], of_host):
        t.eq((sum(counted['read']['latency'][1::2]), counted['read']['bytes']), (4, 3 * 4096))  # one of them fails
    channel.send('serves')
    t.eq(target.wait(), 0)
    host.close()
    close_all(kept + fds + more)
    channel.close()


@test
@iwarp_only
def records_of_format_1_are_read(t):
    """Written once, and never again: members that the reader does not know are ignored."""
    def add_unknown(opened, moved):
        for record in opened + moved:
            record['a_later_member'] = {'of': ['a', 'later', 'version']}
    proc, channel, ours, got = hand_over_by_hand(t, add_unknown)
    t.eq(got and got[0]['op'], 'took', f'the answer {got}, and the log:\n{proc.text()[-3000:]}')
    channel.send('commit')
    t.eq(channel.expect('serves')[0]['connections'], 2)
    channel.close()
    queue = tcp_peer.Queue(tcp_peer.Conn(ours[1]), 1, 32)
    t.same(nv.expect_data(queue.read_blocks(1, 1, 1)), b'kept' * 128)
    nv.expect(queue.write_blocks(1, 2, b'next' * 128, in_capsule=True))
    t.same(nv.expect_data(queue.read_blocks(1, 2, 1)), b'next' * 128)


@each(('a later format', lambda o, m: o[0].update(format=2), 'format 2, and this version .* knows those up to 1'),
      ('an unknown kind', lambda o, m: m.append({'kind': 'quirk'}), 'of kind "quirk", which this version does not know'),
      ('what it must know', lambda o, m: m[1].update(must=['zoned']), '"zoned", which this version does not know and has to'),
      ('no header', lambda o, m: o.pop(0), 'do not begin with a header'),
      ('a fault that cannot be', lambda o, m: m.append({**of_kind(m, 'ns-state')[0], 'faults': {
          'kinds': 64, 'sync_error': 0, 'data_end': 0, 'since': 0}}), 'namespace 1: its faults have no kinds'),
      ('no descriptor', lambda o, m: [r.update(fd=99) for r in o if r['kind'] == 'ns'], 'its descriptor did not come'),
      ('half a bucket', lambda o, m: with_hosts(m, [{'read': {'latency': [1024]}}]), 'kind "target" has no counters, or one that cannot be'),
      ('a text', lambda o, m: with_hosts(m, [{'events': {'connects': 'many'}}]), 'kind "target" has no counters'),
      ('a status', lambda o, m: with_hosts(m, [{'errors': [0x800, 1]}]), 'kind "target" has no counters'),
      ('a host', lambda o, m: with_hosts(m, [{'hostnqn': 7}]), 'kind "target" has no counters'),
      ('a subsystem', lambda o, m: with_target(m, subsystems=[{'reads': 1}]), 'kind "target" has no counters'),
      ('less than 0', lambda o, m: [r.update(counters={'write': {'ns': -1}}) for r in m if r['kind'] == 'ns-state'],
       'namespace 1: its counters: one is no number, or cannot be'))
@iwarp_only
def records_are_refused(t, change, says):
    proc, channel, _, got = hand_over_by_hand(t, change)
    t.eq(got and got[0]['op'], 'refused', f'the answer:\n{proc.text()[-3000:]}')
    t.match(says, got[0]['why'])
    t.eq(proc.wait(), 1, 'exit status')


if __name__ == '__main__':
    sys.exit(main())
