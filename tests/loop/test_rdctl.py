# SPDX-License-Identifier: BSD-3-Clause
"""rdctl: the output of its verbs for people and scripts, and its exit status."""

import ctypes
import fcntl
import itertools
import json
import os
import re
import socket
import struct
import subprocess
import sys
import termios
import threading
import time

import nvmf_peer as nv
import t_auth as auth
from t_control import controlled, with_socket
from t_loop import NQN, SOURCE_ROOT, Skip, each, main, program, requires_program, requires_root, test, wait_for
from t_serving import exercise, has_ended, host, memory

REFUSED, USAGE, NO_DAEMON, FAILED = 1, 2, 3, 4


def rdctl(t, path, *args, rc=0):
    res = t.run([program('rdctl'), '--socket', path, *args])
    t.eq(res.rc, rc, f'exit status of rdctl {" ".join(args)} ({res.err.strip()})')
    return res


def rows(res):
    """The lines below the titles, split."""
    return [line.split() for line in res.text.splitlines()[1:]]


def titles(res):
    return res.text.splitlines()[0].split()


def key_file(t):
    return auth.key_file(t, 'host.key', auth.au.key_text(auth.SECRET))


@test
def what_is_served_is_shown_in_columns(t):
    target, path = controlled(t, [memory(t), memory(t, 2, ana_group=5)],
                              listener={'ana': [{'group': 5, 'state': 'inaccessible'}]})
    status = rdctl(t, path, 'status').text
    for line in (r'state +serving', r'version +\d+\.\S+', rf'configuration +{t.path("rdtarget.yaml")}', rf'PID +{target.pid}',
                 r'started +\d+-\d+-\d+T\S+Z', r'namespaces +2', r'listeners +1', r'log level +debug'):
        t.match(f'(?m)^{line}$', status)
    res = rdctl(t, path, 'ns')
    t.eq(titles(res), ['SUBNQN', 'NSID', 'STATE', 'BACKEND', 'SIZE', 'BLOCK', 'ANA-GROUP', 'READ-ONLY', 'STANDBY', 'STALLED',
                       'FAULT', 'AUTH', 'QOS', 'UUID', 'UUID-FROM', 'PATH'])
    got = rows(res)
    uuids = [row.pop(14) for row in got]
    t.eq(got, [[NQN, '1', 'live', 'memory', '8.0', 'MiB', '512', '1', 'no', 'no', '-', '-', 'none', '-', 'derived', '-'],
               [NQN, '2', 'live', 'memory', '8.0', 'MiB', '512', '5', 'no', 'no', '-', '-', 'none', '-', 'derived', '-']])
    t.ok(len(set(uuids)) == 2 and all(len(text) == 36 for text in uuids), f'UUIDs {uuids}')
    t.eq(rows(rdctl(t, path, 'ns', NQN)), rows(res), 'namespaces of the subsystem')
    t.eq(rows(rdctl(t, path, 'subsystems')), [[NQN, '2', '0', 'any', 'none', '0', '-']])
    for verb in ('listeners', 'ana'):
        t.eq(rows(rdctl(t, path, verb)),
             [['1', target.addr, str(target.port), 'rdma', 'iwarp', 'listening', '-', '5', 'inaccessible']])


@test
def hosts_connections_and_counters_are_shown(t):
    target, path = controlled(t, [memory(t)])
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        nv.expect(queue.write_blocks(1, 0, bytes(4096)))
        (nqn, controllers, queues, keys, limits, address, subsystem), = rows(rdctl(t, path, 'hosts'))
        t.eq((nqn, controllers, queues, keys, limits, subsystem), (nv.HOST_NQN, '1', '1', 'no', 'no', NQN))
        (cntlid, subnqn, hostnqn, remote, listener, state, queues, tls), = rows(rdctl(t, path, 'connections'))
        t.eq((subnqn, hostnqn, remote, listener, state, queues, tls),
             (NQN, nv.HOST_NQN, address, f'{target.addr}:{target.port}', 'ready', '1', '-'))
        stats = rdctl(t, path, 'stats').text
        t.eq(re.findall(rf'(?m)^subsystem {NQN} +(\S+) +(\S+)$', stats), [('writes', '1'), ('written_bytes', '4096')])
        shown = dict(re.findall(rf'(?m)^listener {target.addr}:{target.port} +(\S+) +(\S+)$', stats))
        t.eq([shown.get(name) for name in ('listening', 'connections', 'connects', 'refused', 'write.count', 'write.bytes')],
             ['yes', '2', '2', None, '1', '4096'])
        t.eq(rdctl(t, path, 'disconnect', NQN, cntlid).text, 'disconnected: 1\n')
        wait_for(lambda: has_ended(h.admin), 'the controller to end')
    t.match('there is no controller of host', rdctl(t, path, 'disconnect', nv.HOST_NQN, rc=REFUSED).err)


# ---- what happens now ----

TOP_TITLES = ['IOPS', 'READ/S', 'WRITTEN/S', 'P99', 'OLDEST', 'FAILED/S', 'IN-FLIGHT', 'P50', 'READ-IOPS', 'WRITE-IOPS']


def bench(t, target):
    """Reads until the test ends."""
    return t.spawn('bench', [program('rdinit'), 'bench', target.uri(), '--run-time', '600s', '--depth', '4',
                             '--no-progress'])


@test
def top_in_a_pipe_is_printed_once(t):
    target, path = controlled(t, [memory(t), memory(t, 2)])
    bench(t, target)
    wait_for(lambda: json.loads(rdctl(t, path, 'stats', '-o', 'json').text)['total']['read']['count'], 'reads')
    text = rdctl(t, path, 'top').text
    total, reactors, namespaces, hosts = ([line.split() for line in part.splitlines()] for part in text.split('\n\n'))
    t.eq(total[0], TOP_TITLES)
    t.eq(reactors[0][:3], ['REACTOR', 'BUSY%', 'LONGEST-TURN'])
    t.eq((namespaces[0], hosts[0]), (['SUBNQN', 'NSID'] + TOP_TITLES, ['HOSTNQN'] + TOP_TITLES))
    t.eq([row[:2] for row in namespaces[1:]], [[NQN, '1'], [NQN, '2']], 'the busiest first')
    t.ok(int(namespaces[1][2]) > 0 and int(total[1][0]) > 0 and int(hosts[1][1]) > 0, text)
    t.eq(namespaces[2][2], '0', 'commands of the idle namespace')
    t.ok('\033' not in text, 'nothing for a terminal')


@test
def top_as_json_has_rates_and_percentiles(t):
    target, path = controlled(t, [memory(t)])
    bench(t, target)
    wait_for(lambda: json.loads(rdctl(t, path, 'stats', '-o', 'json').text)['total']['read']['count'], 'reads')
    top = json.loads(rdctl(t, path, 'top', '1', '-o', 'json').text)
    for part in (top['total'], top['namespaces'][0], top['hosts'][0]):
        t.ok(part['read_iops'] > 0 and part['write_iops'] == 0, f'rates: {part}')
        t.ok(0 < part['p50_seconds'] <= part['p99_seconds'], f'percentiles: {part}')
        # Each is rounded on its own.
        t.ok(abs(part['read_bytes'] - 4096 * part['read_iops']) <= 4096, f'bytes: {part}')
    t.ok(top['seconds'] >= 1, 'the time between two copies of the counters')


class Terminal:
    """rdctl top in a terminal of this width; its screens as lists of lines."""

    def __init__(self, t, path, columns):
        self.t = t
        self.ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack('HHHH', 40, columns, 0, 0))
        self.proc = t.spawn('top', [program('rdctl'), '--socket', path, 'top'], stdin=theirs, stdout=theirs)
        os.close(theirs)
        self.seen = b''

    def screen(self, *words):
        """The first whole screen from now on that has all of them."""
        while True:
            for screen in self.seen.split(b'\033[H\033[2J')[1:-1]:
                if all(word in screen.decode() for word in words):
                    self.seen = self.seen[self.seen.rindex(b'\033[H\033[2J'):]
                    return screen.decode().replace('\r', '').splitlines()
            self.seen += os.read(self.ours, 4096)

    def key(self, key):
        os.write(self.ours, key.encode())

    def quit(self):
        """Everything until the end."""
        self.key('q')
        try:
            while more := os.read(self.ours, 4096):
                self.seen += more
        except OSError:
            pass  # the other end was closed
        self.t.eq(self.proc.wait(), 0, 'exit status')
        os.close(self.ours)
        return self.seen


@test
def top_in_a_terminal_goes_on_until_a_key(t):
    target, path = controlled(t, [memory(t)])
    bench(t, target)
    top = Terminal(t, path, 200)
    t.ok(os.read(top.ours, 8) == b'\033[?1049h', 'a screen of its own')
    t.match(rf'^\d\d:\d\d:\d\d  by IOPS  \(h: help, q: quit\)  {re.escape(path)}$', top.screen('HOSTNQN')[0])
    top.screen('HOSTNQN')
    t.ok(top.quit().endswith(b'\033[?1049l'), 'the screen is given back')


@test
def top_keeps_what_identifies_a_row_in_a_narrow_terminal(t):
    nqn = 'nqn.2024-01.test:' + 'a-subsystem-with-a-long-name-' * 3 + 'end'
    target, path = controlled(t, [memory(t)], subsystem={'nqn': nqn})
    bench_uri = target.uri(nqn=nqn)
    t.spawn('bench', [program('rdinit'), 'bench', bench_uri, '--run-time', '600s', '--no-progress'])
    top = Terminal(t, path, 80)
    lines = top.screen('SUBNQN')
    t.eq([line for line in lines if len(line) > 80], [], 'lines that are too long')
    row = lines[next(i for i, line in enumerate(lines) if line.startswith('SUBNQN')) + 1].split()
    t.match(r'^\u2026.*-end$', row[0])
    t.eq(row[1], '1', 'NSID')
    t.ok('WRITE-IOPS' not in ' '.join(lines), 'a column that does not fit is left out as a whole')
    top.quit()


@test
def top_sorts_by_the_key_that_was_pressed(t):
    target, path = controlled(t, [memory(t), memory(t, 2), memory(t, 3)])
    t.spawn('bench', [program('rdinit'), 'bench', target.uri(2), '--run-time', '600s', '--no-progress'])
    top = Terminal(t, path, 120)

    def order(words):
        lines = top.screen(words, 'HOSTNQN')
        at = next(i for i, line in enumerate(lines) if line.startswith('SUBNQN'))
        return [line.split()[1] for line in lines[at + 1:at + 4]]

    wait_for(lambda: order('by IOPS') == ['2', '1', '3'], 'the busiest namespace first')
    top.key('n')
    t.eq(order('by name'), ['1', '2', '3'])
    top.key('h')
    t.ok(any('sort namespaces and hosts by P99' in line for line in top.screen('this help')), 'help')
    top.key('h')
    t.eq(order('by name'), ['1', '2', '3'], 'after the help')
    top.quit()


@test
def latency_draws_the_histogram_of_a_namespace(t):
    target, path = controlled(t, [memory(t, layers=[{'type': 'delay', 'read': '3ms'}]), memory(t, 2)])
    t.rdinit('bench', target.uri(), '--io-count', '40', '--depth', '4')
    text = rdctl(t, path, 'latency', NQN, '1').text
    t.match(rf'(?m)^{NQN} namespace 1, read: 40 commands, mean [0-9.]+m?s, 50% ', text)
    lines = [line.split() for line in text.splitlines()[2:]]
    t.eq(sum(int(line[1]) for line in lines), 40, 'commands in the buckets')
    t.ok(all(re.fullmatch(r'[0-9.]+m?s', line[0]) for line in lines), f'3 ms and more: {lines}')
    t.ok(any(line[2:] == ['#' * 50] for line in lines), 'the highest bar')
    t.match('(?m)^all namespaces, read: 40 commands', rdctl(t, path, 'latency').text)
    t.match('no reads or writes yet', rdctl(t, path, 'latency', NQN, '2').text)
    t.match('there is no .* namespace 3; rdctl ns lists all', rdctl(t, path, 'latency', NQN, '3', rc=REFUSED).err)
    shown = json.loads(rdctl(t, path, 'latency', NQN, '1', '-o', 'json').text)
    t.eq(sum(count for _, count in shown['read']['histogram']), 40)


@test
def metrics_are_printed_as_text(t):
    _, path = controlled(t, [memory(t)])
    t.match(r'(?m)^rdtarget_namespaces 1$', rdctl(t, path, 'metrics').text)
    t.ok(rdctl(t, path, 'metrics', 'openmetrics').text.endswith('# EOF\n'), 'the end')
    t.match('expected prometheus or openmetrics', rdctl(t, path, 'metrics', 'xml', rc=REFUSED).err)


@test
def a_hosts_name_cannot_drive_the_terminal(t):
    target, path = controlled(t, [memory(t)])
    evil = 'nqn.2024-01.test:\u009b31m\u202eevil'
    with host(target, hostnqn=evil) as h:
        cqe = h.admin.fabrics_connect(h.data())
        if cqe.status == 0:
            text = rdctl(t, path, 'hosts').text
            shown = r'nqn.2024-01.test:\xc2\x9b31m\xe2\x80\xaeevil'
            t.ok(shown in text, text)
            found, = json.loads(rdctl(t, path, 'hosts', '-o', 'json').text)['hosts']
            t.eq(found['hostnqn'], evil)


@test
def json_is_the_answer_of_the_daemon(t):
    _, path = controlled(t, [memory(t)])
    for verb, method in (('status', 'status'), ('ns', 'namespace.list'), ('listeners', 'listener.list'),
                         ('config', 'config.get'), ('diff', 'config.diff'), ('hosts', 'host.list')):
        shown = json.loads(rdctl(t, path, verb, '-o', 'json').text)
        raw = json.loads(rdctl(t, path, 'raw', method).text)
        for answer in (shown, raw):
            answer.pop('uptime', None)
        t.eq(shown, raw, verb)
    t.eq(json.loads(rdctl(t, path, 'raw', 'namespace.list', f'{{"nqn": "{NQN}"}}').text)['namespaces'][0]['nsid'], 1)


@test
def a_refusal_is_an_answer_in_json_too(t):
    _, path = controlled(t, [memory(t)])
    res = rdctl(t, path, '-o', 'json', 'ns', 'resize', NQN, '9', '1MiB', rc=REFUSED)
    error = json.loads(res.text)['error']
    t.match(re.escape(error['message']), res.err)
    t.eq(error['data']['name'], 'not_found')
    t.eq(rdctl(t, path, 'ns', 'resize', NQN, '9', '1MiB', rc=REFUSED).text, '', 'as text')
    t.eq(rdctl(t, path + '.none', '-o', 'json', 'status', rc=NO_DAEMON).text, '', 'without a daemon')


@test
def a_reload_shows_what_it_would_do_does_it_and_says_what_failed(t):
    _, path = controlled(t, [memory(t)])
    with_socket(t, [memory(t), memory(t, 2)], target={'queue_depth': 64})
    for args in (('diff',), ('reload', '--dry-run')):
        lines = rdctl(t, path, *args).text.splitlines()
        t.eq(lines[:2], ['- target.queue_depth: 128', '+ target.queue_depth: 64'])
        t.match(rf'^\+ subsystems\[{NQN}\]\.namespaces\[2\]: {{.*"backend":"memory"', lines[2])
    t.eq(len(rows(rdctl(t, path, 'ns'))), 1, 'namespaces after the dry run')
    res = rdctl(t, path, 'reload')
    t.match('^reloaded: 1 namespace added, 1 change that needs a restart$', res.text)
    t.match('^warning: target: queue_depth: a change needs a restart', res.err)
    t.eq(len(rows(rdctl(t, path, 'ns'))), 2, 'namespaces')
    with_socket(t, [memory(t), {'nsid': 2, 'backend': 'file', 'path': t.path('none.img')}])
    rdctl(t, path, 'check')
    t.match('error: .*none.img: no such file', rdctl(t, path, 'check', '--full', rc=REFUSED).err)
    res = rdctl(t, path, 'reload', rc=FAILED)
    t.match('(?s)error: .*none.img: no such file.*reloaded in part', res.err)
    t.match('^reloaded: 1 removed', rdctl(t, path, 'ns', 'remove', NQN, '2').text)
    values = ('backend=file', f'path={t.path("none.img")}')
    t.match('none.img: no such file', rdctl(t, path, 'ns', 'add', NQN, '2', *values, rc=FAILED).err)
    t.eq(rows(rdctl(t, path, 'ns'))[1][2], 'failed', 'state')
    t.match('none.img: no such file', rdctl(t, path, 'ns', 'reopen', NQN, '2', rc=FAILED).err)
    t.file('none.img', bytes(1 << 20))
    t.eq(rdctl(t, path, 'ns', 'reopen', NQN, '2').text, 'opened again\n')
    t.match('^started: .* in progress$', rdctl(t, path, 'reload', '--no-wait').text)
    t.file('rdtarget.yaml', b'listeners: 7\n')
    t.match('error: .*rdtarget.yaml:1: listeners', rdctl(t, path, 'check', rc=REFUSED).err)
    t.match('(?s)rdtarget.yaml:1: listeners.*\n  hint: ', rdctl(t, path, 'diff', rc=REFUSED).err)


def reload_metrics(t, path):
    text = rdctl(t, path, 'metrics').text
    return [float(re.search(rf'(?m)^rdtarget_config_last_reload_{name} (.*)$', text)[1])
            for name in ('successful', 'success_timestamp_seconds')]


@test
def a_failed_reload_of_the_file_is_shown_until_one_succeeds(t):
    before = time.time()
    config, path = with_socket(t, [memory(t)])
    target = t.target(config=config)
    ok, at = reload_metrics(t, path)
    t.ok(ok == 1 and at >= int(before), f'without a reload: the start; {ok}, {at}')
    t.ok('last reload' not in rdctl(t, path, 'status').text, 'none yet')
    t.file('rdtarget.yaml', b'listeners: 7\nbad: 1\n')
    target.reload('not reloaded')
    for _ in range(2):
        status = rdctl(t, path, 'status').text
        t.match(r'(?m)^last reload +\S+Z\n +not reloaded: .*\n +\S+rdtarget.yaml:1: listeners.*$', status)
        t.eq(reload_metrics(t, path), [0, at], 'the metrics')
        rdctl(t, path, 'ns', 'add', NQN, '2', 'backend=memory', 'size=1MiB')  # the file is broken as before
        rdctl(t, path, 'ns', 'remove', NQN, '2')
    result = json.loads(rdctl(t, path, '-o', 'json', 'reload', rc=REFUSED).text)
    errors = [m for m in result['messages'] if m['level'] == 'error']
    t.eq((result['problems'], len(errors)), (2, 2), f'problems of {result}')
    with_socket(t, [memory(t), {'nsid': 2, 'backend': 'file', 'path': t.path('none.img')}])
    target.reload('reloaded in part')
    t.match('(?m)^ +reloaded in part: .*\n.*none.img: no such file', rdctl(t, path, 'status').text)
    t.eq(reload_metrics(t, path), [0, at], 'after a reload in part')
    with_socket(t, [memory(t)])
    target.reload()
    status = json.loads(rdctl(t, path, '-o', 'json', 'status').text)['last_reload']
    t.eq((status['applied'], status['problems'], 'reason' in status), (True, 0, False))
    ok, again = reload_metrics(t, path)
    t.ok(ok == 1 and again >= at, f'after a good one: {ok}, {again}')


@test
def a_file_that_is_mounted_by_itself_cannot_be_saved_and_that_is_said(t):
    """As in a container; the directory could be mounted instead."""
    requires_root()
    mount = requires_program('mount')
    config, path = with_socket(t, [memory(t)])

    def mounted():
        if ctypes.CDLL(None, use_errno=True).unshare(0x20000):  # CLONE_NEWNS
            raise OSError(ctypes.get_errno(), 'no mount namespace')
        subprocess.run([mount, '--make-rprivate', '/'], check=True)
        subprocess.run([mount, '--bind', config, config], check=True)
    try:
        t.target(config=config, preexec_fn=mounted)
    except subprocess.SubprocessError as e:
        raise Skip(f'no mounts of its own: {e}') from None
    res = rdctl(t, path, '--save', 'ns', 'add', NQN, '2', 'backend=memory', 'size=1MiB', rc=REFUSED)
    t.match('not saved: .*; the file is mounted by itself, .*: mount its directory', res.err)


@test
def messages_about_a_change_name_no_line_and_do_not_repeat(t):
    """The file does not have the lines of the text with the change."""
    config, path = with_socket(t, [memory(t)], subsystems=[
        {'nqn': 'disk', 'allow_any_host': True, 'namespaces': [memory(t)]}])
    target = t.target(config=config)
    t.match(r'rdtarget.yaml:\d+: subsystems\[0\].nqn: found "disk", which', target.text())
    res = rdctl(t, path, 'ns', 'add', 'disk', '2', 'backend=memory', 'size=1MiB')
    t.eq(res.err, '', 'a warning that is known')
    res = rdctl(t, path, 'subsystem', 'add', 'shelf', 'allow_any_host=true')
    t.match(r'^warning: \S+rdtarget.yaml: subsystems\[1\].nqn: found "shelf", which [^\n]*\n$', res.err)
    res = rdctl(t, path, 'subsystem', 'add', 'nqn.2024-01.test:s', 'serial=S', 'allow_any_host=true')
    t.eq(res.err, '', 'warnings that are known')
    res = rdctl(t, path, 'subsystem', 'add', 'nqn.2024-01.test:t', 'serial=S', 'allow_any_host=true', rc=REFUSED)
    t.match(r'^rdctl: subsystems\[3\].serial: "S" is already used by the subsystem subsystems\[2\]', res.err)
    rdctl(t, path, 'save')
    t.eq(len(re.findall('"disk", which', rdctl(t, path, 'reload').err)), 1, 'a reload of the file tells all')


@test
def namespaces_are_changed_and_saved(t):
    target, path = controlled(t, [memory(t)])
    values = ('backend=memory', 'size=4MiB', 'block_size=4096')
    t.match(rf'^\+ subsystems\[{NQN}\].namespaces\[2\]: .*"block_size":4096',
            rdctl(t, path, 'ns', 'add', NQN, '2', *values, '--dry-run').text)
    t.eq(rdctl(t, path, 'ns', 'add', NQN, '2', *values).text, 'reloaded: 1 namespace added\n')
    t.eq(rdctl(t, path, 'ns', 'add', NQN, '2', *values).text, 'nothing to change\n')
    exercise(target, nsid=2, block=4096)
    t.match('exists, with other values', rdctl(t, path, 'ns', 'add', NQN, '2', 'backend=null', 'size=1MiB',
                                               rc=REFUSED).err)
    for args, key, value in ((('resize', NQN, '2', '8MiB'), 'size', '8MiB'),
                             (('protect', NQN, '2', 'on'), 'read_only', True),
                             (('ana', NQN, '2', '4'), 'ana_group', 4)):
        t.match('^reloaded: ', rdctl(t, path, 'ns', *args).text)
        t.eq(json.loads(rdctl(t, path, 'config').text)['subsystems'][0]['namespaces'][1][key], value)
    rdctl(t, path, 'ns', 'qos', NQN, '2', 'iops=100', 'bandwidth=5M')
    t.match('"iops": 100', rdctl(t, path, 'config').text)
    t.eq(rows(rdctl(t, path, 'ns'))[1][-4], 'iops=100,bandwidth=5242880')
    t.eq(rdctl(t, path, 'ns', 'qos', NQN, '2').text, 'iops=100\nbandwidth=5242880\n', 'without a value it shows')
    rdctl(t, path, 'ns', 'qos', NQN, '2', 'none')
    t.eq(rdctl(t, path, 'ns', 'qos', NQN, '2').text, 'none\n')
    t.match('no namespace "7"', rdctl(t, path, 'ns', 'qos', NQN, '7', rc=REFUSED).err)
    t.match(r'(?m)^changes not saved +6$', rdctl(t, path, 'status').text)
    t.eq(rdctl(t, path, 'save').text, 'saved\n')
    t.eq(rdctl(t, path, 'diff').text, '')
    t.eq(rdctl(t, path, '--save', 'ns', 'remove', NQN, '2').text, 'reloaded: 1 removed\nsaved\n')
    t.eq(rdctl(t, path, 'reload').text, 'reloaded: nothing has changed\n')
    rdctl(t, path, 'ns', 'resize', NQN, '1')
    t.match(r'(?m)^changes not saved +0$', rdctl(t, path, 'status').text)  # it has only looked at the size
    rdctl(t, path, 'ns', 'resize', NQN, '1', '4MiB')
    t.match('^warning: a change that was not saved is replaced: namespace.resize ', rdctl(t, path, 'reload').err)


@test
def subsystems_hosts_and_listeners_are_changed(t):
    target, path = controlled(t, [memory(t)])
    rdctl(t, path, 'subsystem', 'add', 'nqn.x', 'hosts=nqn.h,nqn.i')
    t.eq(rows(rdctl(t, path, 'subsystems'))[1], ['nqn.x', '0', '0', 'listed', 'none', '0', 'nqn.h,nqn.i'])
    rdctl(t, path, 'host', 'allow', 'nqn.x', 'nqn.j')
    rdctl(t, path, 'host', 'deny', 'nqn.x', 'nqn.h')
    t.eq(rows(rdctl(t, path, 'subsystems'))[1][-1], 'nqn.i,nqn.j')
    rdctl(t, path, 'host', 'qos', 'nqn.x', 'nqn.i', 'read_iops=9')
    t.match('"read_iops": 9', rdctl(t, path, 'config').text)
    t.eq(rows(rdctl(t, path, 'subsystems'))[1][-2], '1', 'hosts with limits')
    t.eq(rdctl(t, path, 'host', 'qos', 'nqn.x', 'nqn.i').text, 'read_iops=9\n', 'without a value it shows')
    rdctl(t, path, 'host', 'qos', 'nqn.x', 'nqn.i', 'none')
    t.eq(rdctl(t, path, 'host', 'qos', 'nqn.x', 'nqn.i').text, 'none\n')
    rdctl(t, path, 'subsystem', 'hosts', 'nqn.x', 'nqn.k')
    t.eq(rows(rdctl(t, path, 'subsystems'))[1][-1], 'nqn.k')
    rdctl(t, path, 'subsystem', 'hosts', 'nqn.x', 'any')
    t.eq(rows(rdctl(t, path, 'subsystems'))[1][-1], '-')
    t.eq(rdctl(t, path, 'subsystem', 'hosts', 'nqn.x').text, 'any\n', 'without a value it shows')
    rdctl(t, path, 'subsystem', 'hosts', 'nqn.x', 'none')
    t.eq(rdctl(t, path, 'subsystem', 'hosts', 'nqn.x').text, 'none\n')
    rdctl(t, path, 'subsystem', 'hosts', 'nqn.x', 'nqn.k', 'nqn.l')
    t.eq(rdctl(t, path, 'subsystem', 'hosts', 'nqn.x').text, 'nqn.k\nnqn.l\n')
    rdctl(t, path, 'subsystem', 'remove', 'nqn.x')
    for i, serial in enumerate(('00000042', '0x2A', '42')):  # a serial number stays as it was typed
        rdctl(t, path, 'subsystem', 'add', f'nqn.s{i}', 'allow_any_host=true', f'serial={serial}')
        t.match(f'"serial": "{serial}"', rdctl(t, path, 'config').text)
        rdctl(t, path, 'subsystem', 'remove', f'nqn.s{i}')
    t.eq(len(rows(rdctl(t, path, 'subsystems'))), 1)
    rdctl(t, path, 'listener', 'add', '127.0.0.2:0', 'provider=iwarp')
    t.eq([row[1] for row in rows(rdctl(t, path, 'listeners'))], [target.addr, '127.0.0.2'])
    rdctl(t, path, 'listener', 'remove', '127.0.0.2:0')
    t.eq(rows(rdctl(t, path, 'listeners'))[0][1], target.addr)
    exercise(target)


@test
def keys_of_hosts_are_set_and_removed(t):
    target, path = controlled(t, [memory(t)], subsystem={'allow_any_host': False, 'hosts': [nv.HOST_NQN]})
    exercise(target)
    rdctl(t, path, 'host', 'auth', NQN, nv.HOST_NQN, f'dhchap_key_file={key_file(t)}', 'dhchap_hashes=sha384,sha512')
    t.match(r'"dhchap_hashes": \[\s*"sha384",\s*"sha512"\s*\]', rdctl(t, path, 'config').text)
    shown = rdctl(t, path, 'host', 'auth', NQN, nv.HOST_NQN).text  # which changes nothing
    t.eq(shown.splitlines()[:2], [f'dhchap_key_file={key_file(t)}', 'dhchap_hashes=sha384,sha512'])
    t.eq(json.loads(rdctl(t, path, '-o', 'json', 'host', 'auth', NQN, nv.HOST_NQN).text)['dhchap_hashes'], ['sha384', 'sha512'])
    t.match('takes no option of changes, not: --save', rdctl(t, path, '--save', 'host', 'auth', NQN, nv.HOST_NQN, rc=USAGE).err)
    t.eq(rows(rdctl(t, path, 'subsystems'))[0][4], 'all', 'hosts with a key')
    with auth.AuthHost(target) as h:
        h.enable()
        t.eq(rows(rdctl(t, path, 'hosts'))[0][3:5], ['yes', 'no'], 'its key, its limits')
        h.shutdown()
    rdctl(t, path, 'host', 'auth', NQN, nv.HOST_NQN, 'none')
    t.eq(rdctl(t, path, 'host', 'auth', NQN, nv.HOST_NQN).text, 'none\n')
    target.expect('its key was removed; new queues need not authenticate')
    exercise(target)
    # A host and its keys come and go together.
    rdctl(t, path, 'subsystem', 'add', 'nqn.x', 'hosts=nqn.h')
    rdctl(t, path, 'host', 'auth', 'nqn.x', 'nqn.h', f'dhchap_key_file={key_file(t)}')
    t.match('nqn.j.* is not among the subsystem.s hosts',
            rdctl(t, path, 'host', 'auth', 'nqn.x', 'nqn.j', f'dhchap_key_file={key_file(t)}', rc=REFUSED).err)
    rdctl(t, path, 'host', 'allow', 'nqn.x', 'nqn.j', f'dhchap_key_file={key_file(t)}')
    rdctl(t, path, 'host', 'deny', 'nqn.x', 'nqn.h')
    target.expect('nqn.x: host nqn.h: its key was removed; it may not connect any more')
    found = json.loads(rdctl(t, path, 'config').text)['subsystems'][1]
    t.eq((found['hosts'], [entry['host'] for entry in found['host_auth']]), (['nqn.j'], ['nqn.j']))
    rdctl(t, path, 'subsystem', 'hosts', 'nqn.x', 'any', rc=REFUSED)  # who has a key could give another name
    rdctl(t, path, 'host', 'auth', 'nqn.x', 'nqn.j', 'none')
    rdctl(t, path, 'subsystem', 'hosts', 'nqn.x', 'any')
    t.match('any host may use', rdctl(t, path, 'host', 'allow', 'nqn.x', 'nqn.h', f'dhchap_key_file={key_file(t)}', rc=REFUSED).err)
    rdctl(t, path, 'host', 'allow', 'nqn.x', 'nqn.h')


@test
def the_documents_example_of_authentication_works_on_the_sample(t):
    """The commands of operate.md, as they are there, for the configuration that is shipped."""
    with open(os.path.join(SOURCE_ROOT, 'docs', 'operate.md'), encoding='utf-8') as f:
        commands = re.search(r'(?m)^```sh\b.*\n(.*gen-dhchap-key[^`]*)```$', f.read())[1]
    with open(os.path.join(SOURCE_ROOT, 'configs', 'service.yaml'), encoding='utf-8') as f:
        sample = f.read()
    nqn = re.search(r'nqn: (\S+)', sample)[1]
    for old, new in (('/var/lib/rdtarget', t.dir), ('/run/rdtarget', t.dir), ('port: 4420', 'port: 0'),
                     ('port: 8009', 'port: 0'), ('1GiB', '1MiB')):
        t.ok(old in sample, f'{old} is in the sample')
        sample = sample.replace(old, new)
    target = t.target(config=t.file('rdtarget.yaml', sample.encode()))
    uri, anyone = target.uri(nqn=nqn), ('--hostnqn', 'nqn.2024-01.test:h2')
    t.rdinit('connect-test', uri, *anyone)
    os.mkdir(t.path('keys'))
    for old, new in (('/etc/rdtarget/keys', t.path('keys')), ('SUBNQN', nqn), ('HOSTNQN', nv.HOST_NQN),
                     ('chown rdtarget:', f'chown {os.getuid()}:{os.getgid()}'), ('rdctl ', f'{program("rdctl")} -s {t.path("control.sock")} '),
                     ('rdinit ', f'{program("rdinit")} ')):
        t.ok(old in commands, f'{old} is in the example')
        commands = commands.replace(old, new)
    for text in commands.splitlines():
        res = t.run(['/bin/sh', '-c', text])
        t.eq(res.rc, 0, f'{text}: {res.text}{res.err}')
    for where in ('after the commands', 'after a reload'):
        t.rdinit('connect-test', uri, '--hostnqn', nv.HOST_NQN, '--dhchap-secret-file', t.path('keys/host1.key'))
        t.ok(t.run([program('rdinit'), 'connect-test', uri, '--hostnqn', nv.HOST_NQN]).rc, f'without the key, {where}')
        t.ok(t.run([program('rdinit'), 'connect-test', uri, *anyone]).rc, f'another host, {where}')
        target.reload()


@test
def a_key_in_the_place_of_its_file_is_not_repeated(t):
    target, path = controlled(t, [memory(t)], subsystem={'allow_any_host': False, 'hosts': [nv.HOST_NQN]})
    key = auth.au.key_text(auth.SECRET)
    secret = key.split(':')[2].rstrip('=')
    said = []
    for arg in (f'dhchap_key_file={key}', f'dhchap_hashes=sha256,{key}', key, f'{key[:-1]}=:', f'{key}=x'):
        for verb in ('auth', 'allow', 'qos'):
            said.append(rdctl(t, path, 'host', verb, NQN, nv.HOST_NQN, arg, rc=USAGE))
            t.match('found a key, .* dhchap_key_file=FILE or tls_key_file=FILE', said[-1].err)
    # Other clients may send it.
    for keys in ({'dhchap_key_file': key}, {'dhchap_hashes': [key]}, {key: 'x'}, {'deep': [{'deeper': {key: [1]}}]}):
        for method in ('host.auth', 'host.allow'):
            params = {'nqn': NQN, 'hostnqn': nv.HOST_NQN, 'keys': keys}
            said.append(rdctl(t, path, 'raw', method, json.dumps(params), rc=REFUSED))
            t.match('found a key, expected the name of a file', said[-1].err)
    for method, params in (('subsystem.add', {'subsystem': {'nqn': key}}), ('host.auth', {key: 1}), ('status', {key: 1}),
                           ('config.apply', {'document': f'target: {{"{key}": 1}}'})):
        said.append(rdctl(t, path, 'raw', method, json.dumps(params), rc=REFUSED))
    target.expect('control: subsystem.add .*refused: nqn: found a key')
    target.expect('target.DHHC-1: unknown key')
    t.eq([res.err for res in said if secret in res.err + res.text], [], 'what is said with the key')
    t.eq([line for line in target.text().splitlines() if secret in line], [], 'lines of the log with the key')


@test
def a_mistake_is_not_hidden_by_a_warning(t):
    _, path = controlled(t, [memory(t)])
    rdctl(t, path, 'subsystem', 'add', 'odd', 'hosts=nqn.h')
    rdctl(t, path, 'subsystem', 'add', 'nqn.x', 'hosts=nqn.h')
    res = rdctl(t, path, 'ns', 'add', 'nqn.x', '1', 'backend=memory', 'size=x', rc=REFUSED)
    t.match(r'^rdctl: subsystems\[2\].namespaces\[0\].size: found "x", expected [^(]*\n', res.err)
    with_socket(t, subsystems=[{'nqn': 'odd', 'allow_any_host': True}, {'nqn': 'nqn.y', 'colour': 'red'}])
    t.match('the first one: .*colour', rdctl(t, path, 'diff', rc=REFUSED).err)


@each(('a subsystem', ['ns', 'add', 'nqn.x', '1', 'backend=null'], 'no subsystem "nqn.x"\n  hint: rdctl subsystems lists all'),
      ('a namespace', ['ns', 'resize', NQN, '7', '1M'], 'no namespace "7"\n  hint: rdctl ns lists all'),
      ('a host', ['disconnect', 'nqn.h'], 'there is no controller of host "nqn.h"\n  hint: rdctl connections lists all'),
      ('a controller', ['disconnect', NQN, '7'], f'there is no controller 7 in subsystem "{NQN}"\n  hint: rdctl connections'),
      ('a listener', ['ana', '1', 'change', '127.0.0.9:7'], 'no listener matches 127.0.0.9 port 7\n  hint: rdctl listeners'),
      ('a method', ['raw', 'nope'], 'unknown method "nope"\n  hint: rdctl raw info lists all'))
def what_is_not_there_is_named_with_the_verb_that_lists(t, args, says):
    _, path = controlled(t, [memory(t)])
    t.match(says, rdctl(t, path, *args, rc=REFUSED).err)


@test
def a_document_is_applied(t):
    _, path = controlled(t, [memory(t)])
    with open(t.path('rdtarget.yaml'), encoding='utf-8') as f:
        text = f.read()
    t.file('next.yaml', text.replace('nsid: 1', 'nsid: 6').encode())
    t.match(r'(?s)- .*namespaces\[1\].*\+ .*namespaces\[6\]', rdctl(t, path, '--dry-run', 'apply', t.path('next.yaml')).text)
    t.eq(rdctl(t, path, 'apply', t.path('next.yaml')).text, 'reloaded: 1 namespace added, 1 removed\n')
    t.eq([row[1] for row in rows(rdctl(t, path, 'ns'))], ['6'])
    t.file('next.yaml', b'x' * (1 << 20))
    t.match('larger than 1 MiB', rdctl(t, path, 'apply', t.path('next.yaml'), rc=USAGE).err)
    t.file('next.yaml', b'\xff')
    t.match('is not UTF-8', rdctl(t, path, 'apply', t.path('next.yaml'), rc=USAGE).err)
    t.match('No such file', rdctl(t, path, 'apply', t.path('none.yaml'), rc=USAGE).err)


@test
def states_levels_drain_and_the_end(t):
    target, path = controlled(t, [memory(t)])
    rdctl(t, path, 'ana', '1', 'inaccessible')
    t.eq(rows(rdctl(t, path, 'ana'))[0][-2:], ['1', 'inaccessible'])
    rdctl(t, path, 'ana', '1', 'optimized', f'{target.addr}:{target.port}')
    t.eq(rows(rdctl(t, path, 'ana'))[0][-2:], ['all', 'optimized'])
    rdctl(t, path, 'ana', '1', 'optimized', target.addr)
    t.match('no listener matches', rdctl(t, path, 'ana', '1', 'change', '[::2]:1', rc=REFUSED).err)
    rdctl(t, path, 'log', 'warning')
    t.match('(?m)^log level +warning$', rdctl(t, path, 'status').text)
    t.eq(rdctl(t, path, 'log').text, 'warning\n')
    t.eq(json.loads(rdctl(t, path, 'log', '-o', 'json').text), {'level': 'warning'})
    rdctl(t, path, 'drain', '--timeout', '60')
    row, = rows(rdctl(t, path, 'listeners'))
    t.eq((row[5], row[7:]), ('closed', ['all', 'inaccessible']))
    rdctl(t, path, 'shutdown')
    t.eq(target.wait(), 0, 'exit status of rdtarget')
    t.match('rdtarget is not running', rdctl(t, path, 'status', rc=NO_DAEMON).err)


@each(('text', (), r'^\S+Z reload cause=file applied=yes problems=0 .*summary="reloaded: nothing has changed"$'),
      ('JSON', ('-o', 'json'), r'"name":"reload".*"summary":"reloaded: nothing has changed"'),
      ('the log', ('notice',), r'^\S+Z notice: main: reloaded: nothing has changed$'))
def events_are_shown_until_the_end(t, args, pattern):
    target, path = controlled(t, [memory(t)])
    reader, writer = os.pipe()
    proc = t.spawn('rdctl', [program('rdctl'), '--socket', path, 'events', *args], stdout=writer)
    os.close(writer)
    with open(reader, encoding='utf-8') as out:
        lines = []
        thread = threading.Thread(target=lambda: [lines.append(line) for line in out])
        thread.start()

        def seen():
            rdctl(t, path, 'reload')
            return any(re.search(pattern, line) for line in list(lines))
        wait_for(lambda: lines or seen(), 'the first event')
        wait_for(seen, 'the reload')
        target.stop()
        t.eq(proc.wait(), NO_DAEMON, 'exit status')
        thread.join()
    t.match('rdtarget closed the connection', proc.text())


@test
def quotes_in_an_event_are_escaped(t):
    _, path = controlled(t, [memory(t)])
    with open(t.path('events.log'), 'wb') as out:
        t.spawn('rdctl', [program('rdctl'), '--socket', path, 'events'], stdout=out)
    limits = itertools.count(1)

    def seen():
        rdctl(t, path, 'ns', 'qos', NQN, '1', f'iops={next(limits)}')
        with open(t.path('events.log'), encoding='utf-8') as f:
            return re.search(r' cause="namespace.qos \{\\"nqn\\":\\"' + NQN, f.read())
    wait_for(seen, 'the event of a change')


@each(('no verb', [], 'no verb given'), ('an unknown verb', ['hostz'], 'unknown verb "hostz"'),
      ('too many arguments', ['status', 'x'], '"status" takes no arguments'),
      ('too few', ['ns', 'remove'], 'usage: rdctl ns remove '),
      ('an option of another verb', ['--full', 'status'], '"status" does not take --full'),
      ('an option of reload', ['drain', '--dry-run'], '"drain" does not take --dry-run'),
      ('an option of drain', ['check', '--timeout', '9'], '"check" does not take --timeout'),
      ('a wait that is none', ['-w', '0', 'status'], '--wait takes 1 to 86400 seconds, not: 0'),
      ('a controller ID that is none', ['disconnect', 'nqn.x', '65536'], 'expected a controller ID, not: 65536'),
      ('another output', ['-o', 'xml', 'status'], '--output takes text or json, not: xml'),
      ('parameters that are no object', ['raw', 'status', '[1]'], 'not a JSON object'),
      ('parameters that are no JSON', ['raw', 'status', '{'], 'not a JSON object'),
      ('a group that is no number', ['ana', 'x', 'change'], 'the number of a group, not: x'),
      ('a port that is none', ['ana', '1', 'change', '::1:x'], None),
      ('an NSID that is none', ['ns', 'remove', 'nqn.x', '0'], 'expected a namespace ID, not: 0'),
      ('a key without a value', ['ns', 'add', 'nqn.x', '1', 'size'], 'expected KEY=VALUE, .*, not: size'),
      ('a protection that is none', ['ns', 'protect', 'nqn.x', '1', 'yes'], 'expected on or off, not: yes'),
      ('a second word that is none', ['host', 'admit', 'nqn.x', 'nqn.y'],
       'unknown verb "host"; did you mean "hosts" or "host allow" or "host deny" '),
      ('a verb of others', ['subsystem', 'list'], 'unknown verb "subsystem"; did you mean "subsystems" or "subsystem add" '),
      ('a second word misspelt', ['ns', 'ad', 'nqn.x', '3'], r'usage: rdctl ns \[SUBNQN\]\n +rdctl ns add SUBNQN NSID'),
      ('a port too large', ['listener', 'add', '127.0.0.1:65536'], 'with a port of 0 to 65535, not: 127.0.0.1:65536'),
      ('an option of changes', ['--save', 'status'], '"status" does not take --save'),
      ('a dry run of a claim', ['--dry-run', 'ana', '1', 'take'], 'takes an option of changes, not: --dry-run'),
      ('a claim that is saved', ['--save', 'ana', '1', 'wait'], 'takes an option of changes, not: --save'),
      ('a dry run of nothing', ['--dry-run', 'ana'], 'takes an option of changes, not: --dry-run'),
      ('half a state', ['ana', '1'], 'ana takes no arguments, GROUP STATE .*, or GROUP take.yield.wait'),
      ('an interval that is none', ['top', '0'], 'top takes 1 to 3600 seconds, not: 0'),
      ('half a namespace', ['latency', 'nqn.x'], 'latency takes no arguments, or SUBNQN NSID'),
      ('no NSID for latency', ['latency', 'nqn.x', 'y'], 'latency takes no arguments, or SUBNQN NSID: y'),
      ('a time that is none', ['drain', '--timeout', '0'], '1 to 3600 seconds, not: 0'))
def wrong_usage(t, args, says):
    path = t.path('none.sock')
    res = t.run([program('rdctl'), '--socket', path, *args])
    t.eq(res.rc, USAGE if says else NO_DAEMON, f'exit status ({res.err})')
    t.match(says or 'is not running', res.err)


@test
def an_argument_that_is_not_utf_8_is_wrong_usage(t):
    res = subprocess.run([program('rdctl'), 'ns', b'\xff'], capture_output=True, check=False)
    t.eq(res.returncode, USAGE, 'exit status')
    t.match('not UTF-8', res.stderr.decode())


@test
def the_socket_is_named_by_the_environment_too(t):
    _, path = controlled(t, [memory(t)])
    res = t.run([program('rdctl'), 'status'], env=dict(os.environ, RDCTL_SOCKET=path))
    t.eq(res.rc, 0, f'exit status ({res.err})')


@each(('no answer', b'', 'no answer within 1 s'), ('something else', b'HTTP/1.1 400\n', 'not an answer of rdtarget'),
      ('half an answer', None, 'closed the connection'))
def a_socket_of_something_else(t, says, expected):
    path = t.path('other.sock')
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def serve():
            conn, _ = listener.accept()
            with conn:
                conn.recv(1000)
                conn.sendall(b'{"jsonrpc"' if says is None else says)
                if says is not None:
                    done.wait()

        done = threading.Event()
        thread = threading.Thread(target=serve)
        thread.start()
        t.match(expected, rdctl(t, path, '--wait', '1', 'status', rc=NO_DAEMON).err)
        done.set()
        thread.join()


@test
def the_manual_has_every_verb(t):
    usage = t.run([program('rdctl'), '--help']).text
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'docs', 'man', 'rdctl.1'),
              encoding='utf-8') as f:
        manual = f.read().replace('\\-', '-')
    verbs = re.findall(r'(?m)^  ([a-z]+(?: [a-z]+)?)(?= )', usage)
    t.ok(len(verbs) > 10 and 'ns add' in verbs, f'verbs: {verbs}')
    t.eq([verb for verb in verbs if not re.search(rf'(?m)^\.BR? "?{verb}\b', manual)], [], 'verbs missing in rdctl.1')


if __name__ == '__main__':
    sys.exit(main())
