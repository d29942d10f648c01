# SPDX-License-Identifier: BSD-3-Clause
"""The control socket: good and bad requests, permissions, and clients that misbehave."""

import contextlib
import json
import os
import random
import re
import shlex
import signal
import socket
import stat
import subprocess
import sys
import threading

import nvmf_peer as nv
from t_control import Control, Refused, controlled, refused, with_socket
from t_loop import NQN, PATIENCE, Skip, each, main, program, requires_engine, requires_root, test, wait_for
from t_serving import exercise, host, memory
from t_storage import stall_env, stand_still

READERS = 32  # clients at once


def target_of(t, **kw):
    return controlled(t, [memory(t)], **kw)


# ---- requests ----

@test
def every_method_that_needs_no_parameters_answers(t):
    target, path = target_of(t)
    with Control(path) as c:
        info = c.call('info')
        t.eq((info['interface'], info['interface_version'], info['pid']), ('io.rdnvme.rdtarget', 1, target.pid))
        for method in info['methods']:
            if not method['changes'] and not any(p['required'] for p in method['params'].values()):
                t.ok(isinstance(c.call(method['name']), dict), f'{method["name"]} answered no object')


def methods_of_the_manual():
    """{name: (whether it changes something, {parameter: whether it is required})} of the headings."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'docs', 'man', 'rdtarget-control.7'),
              encoding='utf-8') as f:
        section = re.search(r'(?s)\.SH METHODS\n(.*?)\.SH ', f.read()).group(1)
    found = {}
    for heading in re.findall(r'(?m)^\.TP\n\.BR? (.*)$', section):
        name, star, params = re.fullmatch(r'([a-z_.]+)(\*?)((?: \S+)*)', ''.join(shlex.split(heading))).groups()
        found[name] = (bool(star), {word.strip('[]'): not word.startswith('[') for word in params.split()})
    return found


@test
def every_method_is_in_the_manual_with_its_parameters(t):
    _, path = target_of(t)
    with Control(path) as c:
        methods = c.call('info')['methods']
    shown = {}
    for m in methods:
        # The section CHANGES of the manual has these for all methods that take them.
        own = {name: p['required'] for name, p in m['params'].items() if name not in ('save', 'dry_run', 'wait')}
        shown[m['name']] = (m['changes'], own)
    t.eq(methods_of_the_manual(), shown, 'methods of rdtarget-control.7')


@test
def requests_come_in_pieces_and_many_at_once(t):
    _, path = target_of(t)
    with Control(path) as c:
        for byte in b'\r\n \n{"jsonrpc": "2.0", "id": "x", "method": "status"}\n':
            c.send(bytes([byte]))
        t.eq(c.answer()['id'], 'x')
        c.send({'jsonrpc': '2.0', 'method': 'status'})  # a notification has no answer
        ids = [c.post(('status', 'config.get', 'info')[n % 3]) for n in range(300)]
        t.eq([c.answer()['id'] for _ in ids], ids, 'ids of the answers, in the order of the requests')
        c.send(b'{"jsonrpc": "2.0", "id": 7, "method": "status"}')  # no newline, but the end
        c.sock.shutdown(socket.SHUT_WR)
        t.eq(c.answer()['id'], 7)
        t.eq(c.answer(), None, 'after the last answer')


@test
def lines_without_an_answer_are_taken_as_they_are_worked_on(t):
    """Further lines are not stored: a sender that is faster than one line in each turn of the loop has to wait."""
    _, path = target_of(t)
    most, sent = 16 << 20, 0
    with Control(path) as c, Control(path) as other:
        c.sock.setblocking(False)
        for _ in range(200):
            try:
                while sent < most:
                    sent += c.sock.send(b'\n' * 65536)
            except BlockingIOError:
                pass
            other.call('status')
    t.ok(sent < 2 << 20, f'{sent} bytes were taken of a client that sent blank lines')


# ---- hosts ----

@test
def hosts_whose_names_look_alike_are_told_apart(t):
    """Bytes that are not UTF-8 are shown as "?", so only "host" is different."""
    target, path = target_of(t)
    names = [b'nqn.2024-01.test:\xff', b'nqn.2024-01.test:\xfe']
    with Control(path) as c, host(target, hostnqn=names[0]) as one, host(target, hostnqn=names[1]) as two:
        for h in (one, two):
            h.enable()
        one.add_io().read_blocks(1, 0, 8)
        for lists in (c.call('host.list')['hosts'], c.call('controller.list')['controllers'],
                      c.call('stats.get', hosts=True)['hosts']):
            t.eq([x['hostnqn'] for x in lists], ['nqn.2024-01.test:?'] * 2)
            t.eq(sorted(x['host'] for x in lists), ['nqn.2024-01.test:\\xfe', 'nqn.2024-01.test:\\xff'])
        t.eq({x['host'][-2:]: x['read']['count'] for x in c.call('stats.get', hosts=True)['hosts']}, {'ff': 1, 'fe': 0})
        t.eq({x['host'][-2:]: (x['controllers'], x['io_queues']) for x in c.call('host.list')['hosts']},
             {'ff': (1, 1), 'fe': (1, 0)})


# ---- changes without the file ----

@test
def the_log_level_changes(t):
    target, path = target_of(t)
    with Control(path) as c:
        t.eq(c.call('log.level', level='notice,ctrl=trace'), {'level': 'notice,ctrl=trace'})
        t.eq(c.call('status')['log_level'], 'notice,ctrl=trace')
        since = target.mark()
        exercise(target)
        target.expect(': trace: ctrl: |: debug: ctrl: ', since=since)
        e = refused(t, 'invalid', c.call, 'log.level', level='notice,colour=red')
        t.match('found "colour=red", expected a level', e.message)
        t.eq(c.call('status')['log_level'], 'notice,ctrl=trace', 'level after a mistake')
        refused(t, 'invalid', c.call, 'log.level')


def ana_states(h):
    """{group: state} by the ANA log page."""
    cqe, page = h.admin.get_log(0x0C, 4096)
    nv.expect(cqe)
    states, at = {}, 16
    for _ in range(int.from_bytes(page[8:10], 'little')):
        count = int.from_bytes(page[at + 4:at + 8], 'little')
        states[int.from_bytes(page[at:at + 4], 'little')] = page[at + 16] & 0xF
        at += 32 + 4 * count
    return states


@test
def an_ana_state_is_set_and_shown_as_a_difference(t):
    target, path = target_of(t)
    with Control(path) as c, host(target) as h:
        h.enable()
        queue = h.add_io()
        result = c.call('ana.set', group=1, state='inaccessible')
        t.eq((result['changed'], result['listeners']), (True, 1))
        t.eq(ana_states(h)[1], 3, 'state in the log page')
        t.ok(queue.read_blocks(1, 0, 1)[0].status, 'a read succeeded')
        difference, = c.call('config.diff')['differences']
        t.match(r'^listeners\[.*\]\.ana$', difference['path'])
        t.eq(difference['from'], [{'group': 1, 'state': 'inaccessible'}])
        t.match('1 setting changed', c.call('config.reload')['summary'])  # the file is what counts
        t.eq(c.call('config.diff')['differences'], [])
        nv.expect(queue.read_blocks(1, 0, 1)[0])
        for params, field in (({'group': 0, 'state': 'change'}, 'group'), ({'group': 1, 'state': 'x'}, 'state'),
                              ({'group': 1, 'state': 'unknown'}, 'state'),
                              ({'group': 1, 'state': 'change', 'port': -1}, 'port'),
                              ({'group': 1, 'state': 'change', 'port': 65536}, 'port')):
            e = refused(t, 'invalid', c.call, 'ana.set', **params)
            t.eq(e.data['field'], field)
            t.match(f'"?{params[field]}"?.*expected', e.message)
        t.eq(ana_states(h)[1], 1, 'state after changes that were refused')
        refused(t, 'not_found', c.call, 'ana.set', group=1, state='change', address='192.0.2.1')


@test
def a_drain_has_a_time_limit_within_bounds(t):
    _, path = target_of(t)
    with Control(path) as c:
        for seconds in (0, 3601):
            e = refused(t, 'invalid', c.call, 'drain', timeout=seconds)
            t.match(f'found {seconds}, expected 1 to 3600$', e.message)
        t.eq(c.call('status')['state'], 'serving')


@test
def one_drain_runs_at_a_time_and_waits_for_every_reactor(t):
    """One of the reactors is blocked meanwhile."""
    requires_engine('io_uring')
    stall = t.path('stall')
    config, path = with_socket(t, [t.namespace(1, engine='io_uring')])
    target = t.target(config=config, env=stall_env(stall))
    with Control(path) as c, Control(path) as other, nv.Host(target.addr, target.port, NQN) as h:
        h.enable()
        queue = h.add_io()
        cid = stand_still(queue, stall)
        c.post('drain', timeout=600)
        wait_for(lambda: other.call('status')['state'] == 'draining', 'the drain')
        refused(t, 'busy', other.call, 'drain')
        other.call('namespace.list')  # the main loop goes on
        os.unlink(stall)
        nv.expect(queue.wait(cid))
        t.eq(c.answer()['result']['drained'], True)


@test
def a_client_that_goes_does_not_stop_the_drain_it_began(t):
    target, path = target_of(t)
    with Control(path) as watcher, Control(path) as c:
        watcher.call('events.watch')
        c.post('drain')
        t.eq(event_of(watcher, 'ana'), {'address': target.addr, 'port': target.port, 'groups': '1-64', 'state': 'inaccessible'},
             'all groups in one event')
    with Control(path) as c:
        wait_for(lambda: c.call('listener.list')['listeners'][0]['state'] == 'closed', 'the drain')
        t.eq(c.call('shutdown'), {})
    t.eq(target.wait(), 0, 'exit status')


# ---- events ----

def event_of(watcher, name):
    """The fields of the next event of that name; log lines and other events are skipped."""
    while True:
        line = watcher.answer()
        if line.get('method') == 'event' and line['params']['name'] == name:
            return line['params']['fields']


@test
def events_tell_what_happens(t):
    target, path = controlled(t, [memory(t)], subsystem={'allow_any_host': False, 'hosts': [nv.HOST_NQN]})
    with Control(path) as watcher, Control(path) as c:
        t.eq(watcher.call('events.watch'), {})
        with host(target) as h:
            h.enable()
            fields = event_of(watcher, 'connected')
            t.eq((fields['nqn'], fields['hostnqn']), (NQN, nv.HOST_NQN))
            t.match(rf'^{re.escape(target.addr)}:[0-9]+$', fields['address'])
            cntlid = fields['cntlid']
            c.call('ana.set', group=1, state='non-optimized')
            t.eq(event_of(watcher, 'ana'), {'address': target.addr, 'port': target.port, 'group': 1,
                                            'state': 'non-optimized'})
            reload = event_of(watcher, 'reload')
            t.match('^ana.set {"group":1', reload['cause'])
            t.eq((reload['applied'], reload['problems'], reload['summary']), (True, 0, 'reloaded: 1 setting changed'))
            t.eq(event_of(watcher, 'call'), {'method': 'ana.set', 'uid': os.getuid(), 'pid': os.getpid(),
                                             'result': 'done'})
        fields = event_of(watcher, 'disconnected')
        t.eq((fields['nqn'], fields['cntlid'], fields['hostnqn']), (NQN, cntlid, nv.HOST_NQN))
        t.ok(fields['reason'], 'no reason')
        with host(target, hostnqn='nqn.2024-01.test:stranger') as h:
            t.ok(h.admin.fabrics_connect(h.data()).status, 'a stranger was let in')
        fields = event_of(watcher, 'refused')
        t.match('stranger', fields['hostnqn'])
        t.match('list of hosts', fields['reason'])
        for change, size, event in ((lambda: c.call('namespace.add', nqn=NQN, namespace=memory(t, 2)), 8, 'added'),
                                    (lambda: c.call('namespace.resize', nqn=NQN, nsid=2, size='4MiB'), 4, 'resized'),
                                    (lambda: c.call('namespace.remove', nqn=NQN, nsid=2), 4, 'removed')):
            change()
            t.eq(event_of(watcher, f'namespace-{event}'), {'nqn': NQN, 'nsid': 2, 'size': size << 20})
        try:
            c.call('namespace.resize', nqn=NQN, nsid=9, size='1MiB')
        except Refused as e:
            while True:
                call = event_of(watcher, 'call')
                if call['result'] != 'done':
                    break
            t.eq((call['method'], call['result']), ('namespace.resize', e.message))


@test
def events_are_numbered(t):
    target, path = target_of(t)
    with Control(path) as watcher, Control(path) as c:
        watcher.call('events.watch')
        for n in range(20):
            c.call('namespace.resize', nqn=NQN, nsid=1, size=f'{n + 1}MiB')
        numbers = []
        while len(numbers) < 40:
            event = watcher.answer()
            t.eq((event['method'], sorted(event['params'])), ('event', ['fields', 'name', 'seq', 'time']))
            numbers.append(event['params']['seq'])
        t.eq(numbers, list(range(numbers[0], numbers[0] + 40)), 'numbers')


@test
def a_host_that_is_silent_is_an_event(t):
    target, path = target_of(t)
    with Control(path) as watcher, host(target, kato=1000) as h:
        watcher.call('events.watch')
        h.enable()
        fields = event_of(watcher, 'keep-alive-expired')
        t.eq((fields['nqn'], fields['hostnqn'], fields['kato']), (NQN, nv.HOST_NQN, 1000))
        t.eq(event_of(watcher, 'disconnected')['reason'], 'keep alive timed out')


@test
def the_longest_keep_alive_timeout_is_shown(t):
    target, path = target_of(t)
    with Control(path) as c, host(target, kato=0xFFFFFFFF) as h:
        h.enable()
        found, = c.call('controller.list')['controllers']
        t.eq(found['keep_alive_ms'], 0xFFFFFFFF)


@test
def messages_of_the_log_are_sent_as_they_are_written(t):
    target, path = target_of(t)

    def message(watcher):
        while True:
            line = watcher.answer()
            if line['method'] == 'log':
                t.eq(sorted(line['params']), ['component', 'level', 'message', 'time'])
                return line['params']['message']

    with Control(path) as watcher, Control(path) as info, Control(path) as c:
        t.eq(watcher.call('events.watch', level='notice'), {'level': 'notice'})
        t.eq(info.call('events.watch', level='info'), {'level': 'info'})
        with_socket(t, [memory(t), memory(t, 2)])
        c.call('config.reload')
        seen = []
        while 'reloaded: 1 namespace added' not in seen:
            seen.append(message(watcher))
        t.ok(any('namespace 2: added' in message for message in seen), f'messages: {seen}')
        with host(target) as h:
            h.enable()
            while 'connected from' not in message(info):
                pass  # which is logged with level info
        number = watcher.post('status')  # events may come before its answer
        while watcher.answer().get('id') != number:
            pass
        refused(t, 'invalid', c.call, 'events.watch', level='loud')


@test
def a_watcher_that_does_not_read_loses_events_and_is_told(t):
    target, path = target_of(t)
    with Control(path) as deaf, Control(path) as c:
        deaf.call('events.watch', level='trace')
        c.call('log.level', level='trace')
        t.rdinit('bench', target.uri(), '--run-time', '500ms')
        c.call('log.level', level='error')
        exercise(target)
        number, lost = deaf.post('status'), 0  # it is read when the client has taken all events
        while (line := deaf.answer()).get('id') != number:
            lost += line['params'].get('count', 0)
        c.call('log.level', level='notice')  # an event, after those that were lost before it
        while (line := deaf.answer())['params'].get('name') != 'call':
            lost += line['params'].get('count', 0)
        t.ok(lost, 'none was lost')


# ---- configuration ----

@test
def the_running_configuration_is_that_of_the_file(t):
    text = {'serial': 'S1', 'hosts': ['nqn.2024-01.test:a', 'nqn.2024-01.test:b'], 'allow_any_host': False}
    _, path = controlled(t, [memory(t, hosts=['nqn.2024-01.test:a'], qos={'iops': 5, 'bandwidth': '1MiB'})],
                         subsystem=text, target={'reactors': 1, 'cpus': [0]})
    with Control(path) as c:
        config = c.call('config.get')['config']
        t.eq(config['target']['cpus'], [0])
        subsystem, = config['subsystems']
        t.eq({key: subsystem[key] for key in text}, text)
        namespace, = subsystem['namespaces']
        t.eq((namespace['backend'], namespace['size'], namespace['hosts'], namespace['qos']['bandwidth']),
             ('memory', '8MiB', ['nqn.2024-01.test:a'], '1MiB'))
        t.eq(c.call('config.diff')['differences'], [])


@test
def reloads_by_several_clients_and_by_signals_all_end(t):
    target, path = target_of(t)
    clients = [Control(path) for _ in range(6)]
    for n, c in enumerate(clients):
        with_socket(t, [memory(t), memory(t, 2 + n)])
        c.post('config.reload')
        target.signal(signal.SIGHUP)
    results = [c.answer()['result'] for c in clients]
    t.ok(all(r['applied'] for r in results), f'results: {results}')
    result = clients[0].call('config.reload')
    t.match('nothing has changed', result['summary'])
    # One that an earlier reload removed may be leaving still.
    wait_for(lambda: [ns['nsid'] for ns in clients[0].call('namespace.list')['namespaces']] == [1, 7], 'the namespaces')
    for c in clients:
        c.close()


# ---- who may ----

CLIENT = '''
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
f = s.makefile("rw")
for method in sys.argv[2:]:
    f.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}) + "\\n")
    f.flush()
    print(f.readline(), end="")
'''


def as_user(t, uid, gid, groups, path, *methods):
    """The answers that a process of this user gets; None: it may not connect."""
    def become():
        os.setgroups(groups)
        os.setgid(gid)
        os.setuid(uid)
    res = t.run(['/usr/bin/env', 'python3', '-c', CLIENT, path, *methods], preexec_fn=become)
    if 'PermissionError' in res.err:
        return None
    t.ok('Traceback' not in res.err, f'the client failed: {res.err}')
    if res.rc:
        raise Skip(f'no python3 for an ordinary user: {res.err.strip()[-200:]}')
    return [json.loads(line) for line in res.text.splitlines()]


@test
def others_may_read_by_a_group_and_change_by_another(t):
    requires_root()
    os.chmod(t.dir, 0o711)
    config, path = with_socket(t, [memory(t)], control={'group': 'daemon', 'admin_group': 'bin'})
    target = t.target(config=config)
    st = os.stat(path)
    t.eq((stat.S_IMODE(st.st_mode), st.st_gid), (0o660, 1), 'mode and group')
    methods = ('status', 'config.reload')
    t.eq(as_user(t, 65534, 65534, [], path, *methods), None, 'a stranger')
    status, reload = as_user(t, 65534, 65534, [1], path, *methods)
    t.ok('result' in status, f'a reader: {status}')
    t.eq(reload['error']['data']['name'], 'denied')
    t.match('uid 65534 may only read', reload['error']['message'])
    for gid, groups in ((2, [1]), (65534, [1, 2])):
        status, reload = as_user(t, 65534, gid, groups, path, *methods)
        t.ok('result' in status and reload['result']['applied'], f'an administrator: {status}, {reload}')
    target.expect('control: config.reload .* by uid 65534, pid [0-9]+')


@each(('a group that is not there', '  group: no-such-group\n', 'control.group: there is no group "no-such-group"'),
      ('no directory', None, 'none/s: .*No such file.*create its directory first'))
def a_socket_that_cannot_be_is_said_and_tried_again(t, more, says):
    def config(name, **kw):
        path = with_socket(t, [memory(t)], name=name, **kw)[0]
        with open(path, encoding='utf-8') as f:
            text = f.read()
        return t.file(name, (text + more if more else text.replace(t.path('control.sock'), t.path('none/s'))).encode())
    res = t.run([program('rdtarget'), '-c', config('all.yaml', target={'start': 'all-or-nothing'})])
    t.eq(res.rc, 1, 'exit status')
    t.match(says, res.err)
    target = t.target(config=config('rdtarget.yaml'))
    target.expect(says + '.*; trying again every second')
    with nv.Host(target.addr, target.port, NQN) as h:
        h.enable()
        t.eq(h.add_io().read_blocks(1, 0, 1)[0].status, 0)
    if not more:
        os.mkdir(t.path('none'))
        target.expect('control socket .*none/s')
        with Control(t.path('none/s')) as c:
            t.eq(c.call('status')['state'], 'serving')


@test
def a_socket_has_one_daemon(t):
    target, path = target_of(t)
    second, _ = target_of(t, name='second.yaml')
    second.expect('control.socket .*: another rdtarget uses it')
    with Control(path) as c:
        t.eq(c.call('info')['pid'], target.pid)
    target.kill()
    second.expect(f'control socket {path}')
    with Control(path) as c:
        t.eq(c.call('info')['pid'], second.pid)
    second.kill()
    t.ok(os.path.exists(path), 'the socket was not left behind')
    target, _ = target_of(t, name='third.yaml')
    with Control(path) as c:
        t.eq(c.call('info')['pid'], target.pid)
    target.stop()
    t.ok(not os.path.exists(path), 'the socket is still there')


@test
def a_file_in_the_place_of_the_socket_is_kept(t):
    config, path = with_socket(t, [memory(t)])
    t.file('control.sock', b'mine')
    target = t.target(config=config)
    target.expect('control.sock: exists and is not a socket')
    t.eq(os.path.getsize(path), 4, 'size of the file')
    os.unlink(path)
    target.expect(f'control socket {path}')


# ---- clients that do not behave ----

@test
def clients_that_go_in_the_middle_leave_nothing(t):
    target, path = target_of(t)
    with Control(path) as c:
        c.call('config.get')
    files = target.open_files()
    for n in range(200):
        c = Control(path)
        with contextlib.suppress(BrokenPipeError):  # 32 came before the target had its turn: one too many is refused
            if n % 4:
                c.send(b'{"jsonrpc": "2.0", "id": 1, "method": "config.%s"}\n' % (b'diff', b'reload', b'get')[n % 3]
                       if n % 2 else b'{"jsonrpc": "2')
        c.close()
    wait_for(lambda: target.open_files() <= files, 'the clients to be gone')
    wait_for(lambda: has_room(path), 'the jobs to end')


def has_room(path):
    with Control(path) as c, contextlib.suppress(BrokenPipeError):  # refused before the request was sent
        c.post('config.get')
        return 'result' in c.answer()
    return False


@test
def clients_are_bounded_and_an_administrator_always_gets_in(t):
    requires_root()
    os.chmod(t.dir, 0o711)
    target, path = target_of(t, control={'group': 'daemon'})
    clients = [Control(path) for _ in range(READERS)]
    for c in clients:
        c.call('status')
    with Control(path) as more:
        t.match('as many clients as it takes', more.answer()['error']['message'])
        t.eq(more.answer(), None)
    for c in clients:
        c.close()
    hold = f'''
import os, socket, sys
os.setgroups([1]); os.setgid(65534); os.setuid(65534)
held = [socket.socket(socket.AF_UNIX) for _ in range({READERS})]
for s in held:
    s.connect(sys.argv[1])
print(flush=True)
sys.stdin.read()
'''
    with subprocess.Popen([sys.executable, '-c', hold, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as proc:
        proc.stdout.readline()
        with Control(path) as c:
            c.call('status')
        proc.stdin.close()
    exercise(target)


@test
def the_end_comes_in_the_middle_of_calls(t):
    target, path = target_of(t)
    clients = [Control(path) for _ in range(8)]
    for n, c in enumerate(clients):
        for _ in range(5):
            c.post(('config.get', 'config.reload', 'config.diff', 'status')[n % 4])
    target.stop()
    for c in clients:
        c.close()


def random_request(rng, methods):
    """Valid more often than not."""
    method = rng.choice(methods)
    params = {name: rng.choice([p['type'], NQN, 1, -1, True, None, [], {}, 'x' * rng.randrange(300)])
              for name, p in method['params'].items() if rng.random() < 0.6}
    request = {'jsonrpc': '2.0', 'id': 1, 'method': method['name'], 'params': params}
    if rng.random() < 0.15:
        request[rng.choice(list(request))] = rng.choice([None, 5, 'y', [1], {'a': 1}])
    line = json.dumps(request).encode()
    if rng.random() < 0.1:
        at = rng.randrange(len(line))
        line = line[:at] + bytes([rng.randrange(32, 127)]) + line[at + rng.randrange(3):]
    return line + b'\n'


@test
def random_calls_of_many_clients_disturb_no_io(t):
    """Without calls that end the target or change what is served: test_control_change.py has those."""
    target, path = controlled(t, [t.namespace(1)])
    verify = t.spawn('rdverify', [program('rdverify'), target.uri(1), '--seconds', '2', '--queues', '2',
                                  '--range', 4 << 20, *PATIENCE])
    with Control(path) as c:
        methods = [m for m in c.call('info')['methods']
                   if m['name'] == 'config.reload' or not m['changes'] and m['name'] != 'events.watch']
    seed = random.randrange(1 << 32)
    t.note(f'seed {seed}')
    counts, errors = [0] * 8, []

    def client(number):
        rng = random.Random(seed + number)
        try:
            with Control(path) as c:
                while verify.running:
                    c.send(random_request(rng, methods) + b'{"jsonrpc": "2.0", "id": "end", "method": "status"}\n')
                    while c.answer()['id'] != 'end':
                        pass
                    counts[number] += 1
        except Exception as e:  # handed to the test
            errors.append(e)

    threads = [threading.Thread(target=client, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    t.eq(verify.wait(), 0, f'exit status of rdverify ({verify.text()[-500:]})')
    for thread in threads:
        thread.join()
    t.eq(errors, [], 'errors of clients')
    t.note(f'{sum(counts)} calls')
    t.ok(min(counts) > 0, f'calls by client: {counts}')
    t.ok(not re.search(': error: (?!config:|main: not reloaded)', target.text()), 'an error was logged')


if __name__ == '__main__':
    sys.exit(main())
