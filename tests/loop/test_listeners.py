# SPDX-License-Identifier: BSD-3-Clause
"""Listeners added, removed and changed by SIGHUP, while hosts at other listeners continue. An address that cannot be
used now delays nothing else, and is listened on when it can be."""

import ctypes
import json
import random
import re
import socket
import subprocess
import sys

import nvmf_peer as nv
from t_control import Control
from t_loop import (LONG, NQN, PATIENCE, Skip, each, main, program, requires_ipv6, requires_program, requires_root,
                    test, wait_for)
from t_serving import Baseline, has_ended, warm

ROUNDS = 200 if LONG else 10
DISC_CHANGED = 0x0070F002
OPTIMIZED, INACCESSIBLE = 1, 3


def configure(t, *listeners, extra=(), more=None, **target):
    return t.config([t.namespace(1, backend='memory', size='8MiB'), *extra], listeners=listeners, target=target, more=more)


def reload(target, expect=r'reloaded: '):
    """Returns (address, port) of each listener that was opened."""
    return [(host.strip('[]'), int(port))
            for host, port in re.findall(r'listening on (\S+):(\d+) \(iwarp\)', target.reload(expect))]


def free_port():
    """A port outside the range from which the kernel chooses: otherwise another test that runs at the same time could
    get it in between."""
    with open('/proc/sys/net/ipv4/ip_local_port_range', encoding='ascii') as f:
        low, high = map(int, f.read().split())
    while True:
        port = random.choice([*range(1024, low), *range(high + 1, 65536)] or range(1024, 65536))
        with socket.socket() as s:
            try:
                s.bind(('', port))
                return port
            except OSError:
                continue


def join(at, nqn=NQN, **kw):
    h = nv.Host(*at, nqn, **kw)
    h.enable()
    return h


def read(queue):
    nv.expect(queue.read_blocks(1, 0, 1)[0])


def refuses(at):
    try:
        with socket.create_connection(at, timeout=5):
            return False
    except ConnectionRefusedError:
        return True


def discovered(t, target):
    """The ports at which discovery shows the subsystem."""
    text = t.rdinit('discover', target.uri(None, None), '-o', 'json').text
    return sorted(int(entry['trsvcid']) for entry in json.loads(text)['records'] if entry['subnqn'] == NQN)


def ana_state(h):
    cqe, page = h.admin.get_log(0x0C, 4096)
    nv.expect(cqe)
    return page[16 + 16] & 0xF


class Verified:
    """rdverify at the first listener, from here to the end of the block."""

    def __init__(self, t, target, seconds=1):
        self.t = t
        self.proc = t.spawn('rdverify', [program('rdverify'), target.uri(1), '--seconds', seconds, '--queues', '3',
                                         '--range', 2 << 20, *PATIENCE])

    def __enter__(self):
        return self.proc

    def __exit__(self, kind, *exc):
        if kind is None:
            self.t.eq(self.proc.wait(), 0, f'exit status of rdverify ({self.proc.text()[-500:]})')


@test
def a_listener_is_added_and_removed_while_others_serve(t):
    target = t.target(config=configure(t, {}))
    other = {'ana': [{'group': 1, 'state': 'inaccessible'}]}
    with Verified(t, target) as verify:
        configure(t, {}, other)
        at, = reload(target, 'reloaded: 1 listener added$')
        t.eq(discovered(t, target), sorted([target.port, at[1]]), 'ports in the discovery log')
        with join((target.addr, target.port)) as stays, join(at) as goes:
            t.eq((ana_state(stays), ana_state(goes)), (OPTIMIZED, INACCESSIBLE), 'ANA states')
            configure(t, {}, {})
            reload(target, 'reloaded: 1 setting changed$')
            t.eq(ana_state(goes), OPTIMIZED, 'ANA state')
            by_first, by_second = stays.add_io(), goes.add_io()
            read(by_second)
            configure(t, {})
            reload(target, 'reloaded: 1 listener removed$')
            wait_for(lambda: has_ended(goes.admin), 'the controller of the removed listener to end')
            by_second.wait_closed()
            read(by_first)
        t.ok(refuses(at), 'a removed listener took a connection')
        t.eq(discovered(t, target), [target.port], 'ports in the discovery log')
        t.ok(verify.running, 'rdverify ended early')
    target.stop()


@test
def connections_without_a_controller_end_too(t):
    """And an I/O queue that uses another listener than its admin queue."""
    target = t.target(config=configure(t, {}, {}))
    first, second = target.listeners
    with join(first) as h:
        stray = nv.Queue.dial(*second, 1)
        nv.expect(stray.fabrics_connect(h.data(cntlid=h.cntlid)))
        read(stray)
        silent = nv.Queue.dial(*second, 0)
        configure(t, {})
        reload(target, 'reloaded: 1 listener removed$')
        for queue in (stray, silent):
            queue.wait_closed()
        read(h.add_io(qid=2))


@test
def a_persistent_discovery_controller_is_told(t):
    target = t.target(config=configure(t, {}))
    with join((target.addr, target.port), nv.DISCOVERY_NQN, kato=60000) as h:
        nv.expect(h.admin.set_features(0x0B, 1 << 31))
        for listeners in (({}, {}), ({},)):
            cid = h.admin.next_cid()
            h.admin.post(nv.sqe(nv.AER, cid))
            configure(t, *listeners)
            reload(target)
            t.eq(nv.expect(h.admin.wait(cid)).dw0, DISC_CHANGED, 'event')
            nv.expect(h.admin.get_log(0x70, 1024)[0])


@test
def a_removed_address_comes_back(t):
    port = free_port()
    target = t.target(config=configure(t, {}))
    for _ in range(3):
        configure(t, {}, {'port': port})
        t.eq(reload(target, 'reloaded: 1 listener added$'), [('127.0.0.1', port)], 'listens')
        with join(('127.0.0.1', port)) as h:
            read(h.add_io())
            configure(t, {})
            reload(target, 'reloaded: 1 listener removed$')
            wait_for(lambda: has_ended(h.admin), 'the controller to end')


IN_USE = r'cannot listen on 127\.0\.0\.1 port \d+: Address already in use; stop the program .*; trying again every second$'


@test
def an_address_in_use_stops_nothing_else(t):
    path = t.path('control.sock')
    control = {'control': {'socket': path}}
    target = t.target(config=configure(t, {}, more=control))
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        taken.listen()
        # The file also changes an option of the first listener, and adds a good one and a namespace.
        port, used = free_port(), taken.getsockname()[1]
        configure(t, {'crc': True}, {'port': port}, {'port': used}, extra=[t.namespace(2, backend='memory')], more=control)
        since = target.mark()
        reload(target, 'reloaded in part: 1 namespace added, 2 listeners added, 1 listener removed, 1 problem')
        target.expect(IN_USE, since=since)
        t.eq(discovered(t, target), sorted([target.port, port]), 'ports in the discovery log')
        with join(('127.0.0.1', port)) as h:
            read(h.add_io())
            cqe, page = h.admin.identify(2)
            nv.expect(cqe)
            t.eq(page[:12], bytes([1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]), 'the list of namespaces')
            with Control(path) as c:
                failed = [entry for entry in c.call('listener.list')['listeners'] if entry['state'] == 'failed']
                t.eq([entry['port'] for entry in failed], [used], 'listeners that failed')
                t.match('Address already in use', failed[0]['reason'])
                t.ok(failed[0]['retry_seconds'] <= 1, f'the next try is in {failed[0]["retry_seconds"]} s')
                t.eq(c.call('status')['listeners_failed'], 1, 'listeners that failed')
                # A change of something else does not speak of it.
                t.eq(c.call('namespace.remove', nqn=NQN, nsid=2)['outcome'], 'done', 'outcome')
            since = target.mark()
            taken.close()
            target.expect(rf'listening on 127\.0\.0\.1:{used} ', since=since)
            read(h.add_io(qid=2))
    with join(('127.0.0.1', used)) as h:
        read(h.add_io())
    t.eq(len(discovered(t, target)), 3, 'listeners in the discovery log')
    t.eq(len([line for line in target.lines if re.search(IN_USE, line)]), 1, 'times that it was said')


@test
def a_start_serves_where_it_can(t):
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        taken.listen()
        used = taken.getsockname()[1]
        target = t.target(config=configure(t, {}, {'port': used}))
        target.expect(IN_USE)
        t.eq(discovered(t, target), [target.port], 'ports in the discovery log')
        since = target.mark()
        taken.close()
        target.expect(rf'listening on 127\.0\.0\.1:{used} ', since=since)
    t.eq(len(discovered(t, target)), 2, 'listeners in the discovery log')


@test
def a_start_of_all_or_nothing_ends(t):
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        taken.listen()
        config = configure(t, {}, {'port': taken.getsockname()[1]}, start='all-or-nothing')
        res = t.run([program('rdtarget'), config])
    t.ok(res.rc not in (0, None), 'it started')
    t.match(r'port \d+: Address already in use', res.err)


@each(('crc', 'crc', True), ('send_with_inv', 'send_with_inv', False), ('inline_sends', 'inline_sends', False))
def a_changed_option_is_a_new_listener_at_the_same_port(t, key, value):
    provider = {} if key == 'crc' else {'provider': 'auto'}
    target = t.target(config=configure(t, provider))
    with join((target.addr, target.port)) as h:
        configure(t, {**provider, key: value})
        t.eq(reload(target, 'reloaded: 1 listener added, 1 listener removed$'), [(target.addr, target.port)],
             'listens')
        wait_for(lambda: has_ended(h.admin), 'the controller of the old listener to end')
    t.rdinit('read', target.uri(1), '--data', '-', '--data-size', '512')
    reload(target, 'reloaded: nothing has changed$')


@test
def a_wildcard_takes_the_place_of_an_address(t):
    port = free_port()
    target = t.target(config=configure(t, {'port': port}))
    for address in ('0.0.0.0', '127.0.0.1'):
        configure(t, {'address': address, 'port': port})
        t.eq(reload(target, 'reloaded: 1 listener added, 1 listener removed$'), [(address, port)], 'listens')
        with join(('127.0.0.1', port)) as h:
            read(h.add_io())


@test
def an_ipv6_listener_is_added(t):
    requires_ipv6()
    target = t.target(config=configure(t, {}))
    configure(t, {}, {'address': '::1'})
    at, = reload(target, 'reloaded: 1 listener added$')
    t.rdinit('read', f'nvme+rdma://[::1]:{at[1]}/{NQN}/1', '--data', '-', '--data-size', '512')


@test
def rounds_leave_nothing(t):
    """The listener that is added and removed has hosts; one of them is verified at the other listener."""
    target = t.target(config=configure(t, {}, reactors=2))
    warm(target)

    def round_trip():
        configure(t, {}, {'crc': True}, reactors=2)
        at, = reload(target, 'reloaded: 1 listener added$')
        t.rdinit('read', f'nvme+rdma://{at[0]}:{at[1]}/{NQN}/1', '--data', '-', '--data-size', '512')
        h = nv.Queue.dial(*at, 0)
        configure(t, {}, reactors=2)
        reload(target, 'reloaded: 1 listener removed$')
        h.wait_closed()

    round_trip()
    with Baseline(target), Verified(t, target, seconds=2):
        for _ in range(ROUNDS):
            round_trip()


# ---- addresses that come later than the target ----

LATE = '192.0.2.77'  # of no machine
WAITS = rf'cannot listen on {re.escape(LATE)} port \d+: .*trying again every second$'


def give_address(t):
    """A preexec_fn: a network namespace with the loopback, to which the test adds an address later."""
    requires_root()
    ip = requires_program('ip')

    def unshared():
        if ctypes.CDLL(None, use_errno=True).unshare(0x40000000):  # CLONE_NEWNET
            raise OSError(ctypes.get_errno(), 'no network namespace')
        subprocess.run([ip, 'link', 'set', 'lo', 'up'], check=True)

    def come(target):
        res = t.run([requires_program('nsenter'), f'--net=/proc/{target.pid}/ns/net', ip, 'address', 'add', LATE, 'dev',
                     'lo'])
        t.eq(res.rc, 0, res.err)
    return unshared, come


def listed(t, target):
    """The addresses in the discovery log, as a host in the target's network finds them."""
    res = t.run(['nsenter', f'--net=/proc/{target.pid}/ns/net', program('rdinit'), 'discover', target.uri(None, None),
                 '-o', 'json'])
    t.eq(res.rc, 0, res.err)
    return {entry['traddr'] for entry in json.loads(res.text)['records']}


@test
def an_address_that_comes_later_is_listened_on_then(t):
    """The others serve meanwhile, and the discovery log has only those."""
    unshared, come = give_address(t)
    config = configure(t, {}, {'address': LATE})
    try:
        target = t.target(config=config, preexec_fn=unshared)
    except subprocess.SubprocessError as e:
        raise Skip(f'no network of its own: {e}') from None
    target.expect(WAITS)
    t.eq(listed(t, target), {'127.0.0.1'}, 'addresses at first')
    since = target.mark()
    come(target)
    target.expect(rf'listening on {re.escape(LATE)}:\d+', since=since)
    t.eq(listed(t, target), {'127.0.0.1', LATE}, 'addresses then')


@test
def link_local_addresses_are_listed_with_the_hosts_own_interface(t):
    """A target names no interface of its own; a host can use what it finds, by the interface that it has used."""
    requires_root()
    ip = requires_program('ip')

    def unshared():
        if ctypes.CDLL(None, use_errno=True).unshare(0x40000000):  # CLONE_NEWNET
            raise OSError(ctypes.get_errno(), 'no network namespace')
        for command in ('link add at-target type veth peer name at-host', 'link set lo up', 'link set at-target up',
                        'link set at-host up', 'address add fe80::77/64 dev at-target nodad',
                        'address add fe80::78/64 dev at-host nodad'):
            subprocess.run([ip, *command.split()], check=True)
    config = configure(t, {}, {'address': 'fe80::77%at-target'})
    try:
        target = t.target(config=config, preexec_fn=unshared)
    except subprocess.SubprocessError as e:
        raise Skip(f'no network of its own, or no veth: {e}') from None
    t.eq(listed(t, target), {'127.0.0.1', 'fe80::77'}, 'addresses for a host that comes by IPv4')
    port = next(port for addr, port in target.listeners if addr.startswith('fe80'))
    inside = ['nsenter', f'--net=/proc/{target.pid}/ns/net', program('rdinit')]
    discovery = f'nvme+rdma://[fe80::77%25at-host]:{port}'
    log = json.loads(t.run([*inside, 'discover', discovery, '-o', 'json']).text)
    t.eq({entry['traddr'] for entry in log['records']}, {'127.0.0.1', 'fe80::77%at-host'}, 'addresses')


@test
def an_interface_that_does_not_exist_yet_is_waited_for(t):
    target = t.target(config=configure(t, {}, {'address': 'fe80::1%nosuch0'}))
    target.expect('fe80::1%nosuch0 port .*no interface of this machine has that name')
    t.eq(listed(t, target), {'127.0.0.1'}, 'addresses')


@test
def an_address_that_does_not_come_is_said_once_and_is_removed_by_a_reload(t):
    target = t.target(config=configure(t, {}, {'address': LATE}))
    target.expect(WAITS)
    with join((target.addr, target.port)) as h:
        queue = h.add_io()
        read(queue)
        configure(t, {}, {'address': LATE}, {})
        target.reload('reloaded in part: 1 listener added, 1 problem')
        configure(t, {}, {'address': LATE, 'crc': True}, {})
        target.reload('reloaded in part: 1 listener removed, 1 problem')  # it is another one, which fails too
        configure(t, {}, {})
        t.match('no longer trying to listen on 192.0.2.77 port 0', target.reload('reloaded: 1 listener removed$'))
        read(queue)
    t.eq(len([line for line in target.lines if re.search(WAITS, line)]), 2, 'times that it was said')


@test
def listeners_that_wait_at_one_address_are_told_apart(t):
    ports = sorted({free_port(), free_port()})
    path = t.path('control.sock')
    target = t.target(config=configure(t, {}, *({'address': LATE, 'port': port} for port in ports),
                                       more={'control': {'socket': path}}))
    target.expect(WAITS)
    with Control(path) as c:
        counted = [entry['address'] for entry in c.call('stats.get')['listeners']]
    t.eq(counted[1:], [f'{LATE}:{port}' for port in ports], 'listeners that wait')


if __name__ == '__main__':
    sys.exit(main())
