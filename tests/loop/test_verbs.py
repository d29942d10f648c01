# SPDX-License-Identifier: BSD-3-Clause
"""Every verb of rdinit against rdtarget: as text, as JSON that its schema describes, and its effect."""

import json
import os
import re
import signal
import struct
import subprocess
import sys

import nvmf_peer as nv
from t_loop import NQN, PATIENCE, Failure, main, program, requires_program, test
import t_schema
import t_tls

BLOCK = 512
OTHER = 'nqn.2024-01.test:other'
HOST = '6f0c2b4e-6d0f-4a4e-9a56-0e9b7a3d5c11'


def serve(t, **kw):
    return t.target(subsystems=[
        {'nqn': NQN, 'allow_any_host': True, 'serial': 'SN0042', 'model': 'loop test disk',
         'namespaces': [t.namespace(1, backend='memory', size='1MiB'),
                        t.namespace(7, backend='memory', size='4MiB', block_size=4096)]},
        {'nqn': OTHER, 'allow_any_host': True, 'namespaces': [t.namespace(3, backend='memory', size='2MiB')]}],
        **kw)


# read, write, bench and passthru have tests of their own for everything else.
TABLE = (
    ('discover', '', []), ('list', '', []), ('list-subsys', '', []), ('show-topology', '', []),
    ('connect-test', '', []), ('connect-test', 'sub', []), ('connect-test', 'ns', []), ('top', 'sub', ['--count=1', '--interval=2s']),
    ('id-ctrl', 'sub', []), ('id-ns', 'ns', []), ('list-ns', 'sub', []), ('list-ns', 'sub', ['--all']),
    ('cmdset-ind-id-ns', 'ns', []), ('ns-descs', 'ns', []), ('nvm-id-ctrl', 'sub', []), ('nvm-id-ns', 'ns', []), ('list-ctrl', 'sub', []),
    ('list-ctrl', 'sub', ['-n', '1', '-c', '0']), ('get-log', 'sub', ['-i', '2', '-l', '512']),
    ('supported-log-pages', 'sub', []), ('smart-log', 'sub', []), ('error-log', 'sub', ['-e', '2']),
    ('fw-log', 'sub', []), ('changed-ns-list-log', 'sub', []), ('effects-log', 'sub', []),
    ('fid-support-effects-log', 'sub', []), ('ana-log', 'sub', []), ('ana-log', 'sub', ['--groups']),
    ('mi-cmd-support-effects-log', 'sub', []), ('resv-notif-log', 'sub', []), ('get-feature', 'sub', ['-f', '7']), ('get-feature', 'sub', ['-f', '0x81']),
    ('get-feature', 'sub', ['-f', '7', '-s', '3']), ('set-feature', 'sub', ['-f', '4', '-v', '0x150']),
    ('show-regs', 'sub', []), ('get-property', 'sub', ['-o', '0x1c']),
    ('set-property', 'sub', ['-o', '0x14', '-v', '0x460001']), ('reset', 'sub', []),
    ('read', 'ns', ['-z', '512', '-d', '/dev/null']), ('write', 'ns', ['-z', '512', '-d', '/dev/zero']),
    ('flush', 'ns', []), ('compare', 'ns', ['-z', '512', '-d', '/dev/zero']),
    ('write-zeroes', 'ns', ['-c', '7', '--deac']), ('write-uncor', 'ns', ['-s', '100']), ('verify', 'ns', ['-c', '7']),
    ('dsm', 'ns', ['--ad', '-s', '0,16', '-b', '8,8']),
    ('copy', 'ns', ['--sdlba', '200', '-s', '0,8', '-b', '3,3']),
    ('get-lba-status', 'ns', ['-s', '0', '-l', '8', '-m', '1023', '--action=2']),
    ('resv-register', 'ns', ['-k', '5', '-i']), ('resv-acquire', 'ns', ['-c', '5', '-t', '1']),
    ('resv-report', 'ns', []), ('resv-release', 'ns', ['-c', '5', '-t', '1']),
    ('admin-passthru', 'sub', ['--opcode', '0x18']),
    ('io-passthru', 'ns', ['--opcode', '2', '-l', '512', '-r']),
    ('bench', 'ns', ['--io-count', '10']), ('gen-hostnqn', None, []), ('show-hostnqn', None, []),
    ('gen-dhchap-key', None, []), ('gen-tls-key', None, []),
)
# monitor is below: its JSON is one value on each line. rdtarget has no endurance groups. cp has test_cp.py,
# check-dhchap-key and check-tls-key test_auth.py; attach and detach, which need a module of the kernel, test_attach.py and
# tests/vm.
ELSEWHERE = {'monitor', 'endurance-log', 'cp', 'check-dhchap-key', 'check-tls-key', 'attach', 'detach'}


def run(t, target, verb, where, args, **kw):
    uri = {'': target.uri(None, None), 'sub': target.uri(None), 'ns': target.uri(1)}
    place = [] if where is None else [uri[where]]
    host = [] if where is None or verb.startswith('gen') else ['--hostid', HOST]
    argv = [program('rdinit'), verb, *place, *host, *args, *(PATIENCE if where is not None else ())]
    res = t.run(argv, **kw)
    if res.rc:
        raise Failure(f'{" ".join(argv)}: exit {res.rc}\n{res.err}')
    return res


def json_of(t, target, verb, where, args=(), **kw):
    value = json.loads(run(t, target, verb, where, [*args, '--output-format=json'], **kw).text)
    t_schema.check(verb, value)
    return value


@test
def every_verb_works_as_text_and_as_json(t):
    target = serve(t)
    for verb, where, args in TABLE:
        t.ok(run(t, target, verb, where, args).text.strip() or verb in ('read', 'write', 'changed-ns-list-log'),
             f'{verb} prints nothing')
        json_of(t, target, verb, where, args)


class OverTls:
    """The URIs of a target that demands TLS."""

    def __init__(self, t):
        self.target = t_tls.serve(t, [t.namespace(1, backend='memory', size='1MiB'),
                                      t.namespace(7, backend='memory', size='4MiB', block_size=4096)])

    def uri(self, nsid=1, nqn=NQN):
        return t_tls.uri(self.target, nsid, nqn=nqn)


@test
def every_verb_has_tls(t):
    """By --tls alone: the key is that of the environment, for discovery and for what it lists too."""
    target, env = OverTls(t), dict(os.environ, RDINIT_TLS_KEY_FILE=t_tls.key(t))
    for verb, where, args in TABLE:
        if where is not None and not verb.startswith('gen'):
            run(t, target, verb, where, [*args, f'--hostnqn={t_tls.HOST}', '--tls'], env=env)
    rows = json.loads(run(t, target, 'list', '', [f'--hostnqn={t_tls.HOST}', '--tls', '-o', 'json'], env=env).text)
    t.eq([row['NameSpace'] for row in rows['Devices']], [1, 7], 'namespaces that discovery leads to')


@test
def a_key_of_the_environment_alone_changes_nothing(t):
    """A plain target is reached; at one that demands TLS, discovery included, the option that is missing is named."""
    env = dict(os.environ, RDINIT_TLS_KEY_FILE=t_tls.key(t))
    plain = t_tls.serve(t, tls='off', name='plain')
    t.rdinit('connect-test', t_tls.uri(plain), f'--hostnqn={t_tls.HOST}', env=env)
    allowed, required = (t_tls.serve(t, tls=setting, name=setting) for setting in ('allowed', 'required'))
    for verb, uri in (('connect-test', t_tls.uri(required)), ('list', t_tls.uri(required, None, nqn=None))):
        t.match('closed the connection instead of answering ICReq .*--tls-key-file',
                t.rdinit(verb, uri, f'--hostnqn={t_tls.HOST}', env=env, rc=1).err)
    # A target that speaks both, as its discovery log says: the option decides.
    for args, tls in ((), False), (('--tls',), True):
        said = t.rdinit('connect-test', t_tls.uri(allowed), f'--hostnqn={t_tls.HOST}', *args, env=env).text
        t.eq('TLS identity' in said, tls, f'connect-test {args}')


@test
def no_verb_is_left_out(t):
    verbs = set(t.run([program('rdinit'), '--generate', 'verbs']).text.splitlines())
    t.eq(verbs - ELSEWHERE, {row[0] for row in TABLE}, 'verbs that are tested here')


def letters(pattern, argv):
    """{letter: long name} of a usage text."""
    res = subprocess.run(argv, capture_output=True, text=True, check=False)
    return {found['letter']: found['name'] for found in re.finditer(pattern, res.stdout + res.stderr)}


@test
def letters_are_nvme_clis(t):
    """No letter has another meaning than in nvme-cli, and options of both have the same letter."""
    nvme = requires_program('nvme')
    compared = 0
    for verb in t.run([program('rdinit'), '--generate', 'verbs']).text.splitlines():
        theirs = letters(r'--(?P<name>[a-z0-9-]+)(?:=<\w+>)?, -(?P<letter>\w)', [nvme, verb, '--help'])
        ours = letters(r'(?m)^  -(?P<letter>\w), --(?P<name>[a-z0-9-]+)', [program('rdinit'), verb, '--help'])
        t.eq({k: (theirs[k], ours[k]) for k in theirs if ours.get(k, theirs[k]) != theirs[k]}, {}, f'letters of {verb}')
        names = {name: k for k, name in theirs.items()}
        t.eq({name: k for k, name in ours.items() if names.get(name, k) != k}, {}, f'options of {verb}')
        compared += bool(theirs)
    t.ok(compared > 40, f'{compared} verbs of nvme-cli were found')


@test
def list_has_each_namespace_once(t):
    target = serve(t)
    rows = json_of(t, target, 'list', '')['Devices']
    t.eq([(row['DevicePath'].split('/', 3)[3], row['MaximumLBA'], row['SectorSize']) for row in rows],
         [(f'{NQN}/1', 2048, 512), (f'{NQN}/7', 1024, 4096), (f'{OTHER}/3', 4096, 512)])
    rows = json_of(t, target, 'list', 'sub')['Devices']
    t.eq([row['NameSpace'] for row in rows], [1, 7], 'namespaces of one subsystem')
    # Its output is accepted as input by the other verbs.
    t.eq(len(t.rdinit('read', rows[0]['DevicePath'], '-z', '512').out), 512)


@test
def the_identity_of_the_host_is_told(t):
    target = serve(t)
    for verb in 'list-subsys', 'show-topology':
        value, = json_of(t, target, verb, '', ['--hostnqn', 'nqn.2024-01.test:me'])
        t.eq((value['HostNQN'], value['HostID']), ('nqn.2024-01.test:me', HOST), verb)


@test
def paths_and_their_states(t):
    target = serve(t, listeners=[{}, {}])
    found = json_of(t, target, 'show-topology', '')[0]['Subsystems']
    t.eq([ss['NQN'] for ss in found], [NQN, OTHER])
    addresses = [f'traddr={addr},trsvcid={port}' for addr, port in target.listeners]
    t.eq(sorted(p['Address'] for p in found[0]['Paths']), sorted(addresses))
    t.eq([p['State'] for p in found[0]['Paths']], ['live', 'live'])
    t.eq([ns['NSID'] for ns in found[0]['Namespaces']], [1, 7])
    for ns in found[0]['Namespaces']:
        t.eq(ns['Paths'], [{**p, 'ANAState': 'optimized'} for p in found[0]['Paths']])


@test
def the_order_of_a_topology(t):
    target = serve(t)
    path = f'rdma traddr={target.addr},trsvcid={target.port}'
    ns = [[f' +- ns {nsid}', ' \\', f'  +- {path} live optimized'] for nsid in (1, 7, 3)]
    head = [[f'subsys{i} - NQN={nqn}', '\\'] for i, nqn in enumerate((NQN, OTHER))]
    for args in ([], ['-r', 'namespace']):
        t.eq(run(t, target, 'show-topology', '', args).text.splitlines(), head[0] + ns[0] + ns[1] + head[1] + ns[2])
    t.eq(run(t, target, 'show-topology', '', ['--ranking=ctrl']).text.splitlines(),
         head[0] + [f' +- {path}', ' \\', '  +- ns 1 live optimized', '  +- ns 7 live optimized'] +
         head[1] + [f' +- {path}', ' \\', '  +- ns 3 live optimized'])


@test
def the_text_of_list_has_nvme_clis_columns(t):
    target = serve(t)
    lines = run(t, target, 'list', 'sub', []).text.splitlines()
    t.eq(lines[0].split(), ['Node', 'SN', 'Model', 'Namespace', 'Usage', 'Format', 'FW', 'Rev'])
    t.eq(re.split(r' {2,}', lines[2], maxsplit=1)[0], target.uri(1))
    t.match(r'SN0042 +loop test disk +1 +1\.05  MB /   1\.05  MB    512   B \+  0 B   \S', lines[2])
    t.match(r'SN0042 +loop test disk +7 +4\.19  MB /   4\.19  MB      4 KiB \+  0 B   \S', lines[3])


@test
def connect_test_says_where_it_stopped(t):
    target = serve(t)
    steps = json_of(t, target, 'connect-test', 'ns')['steps']
    t.eq([s['step'] for s in steps],
         ['resolve', 'transport', 'connect', 'enable', 'identify', 'io-queue', 'read'])
    for uri, step, says in ((f'nvme+rdma://127.0.0.1:1/{NQN}', 'transport', 'connection refused'),
                            (f'nvme+rdma://no-such-host.invalid/{NQN}', 'resolve', 'no-such-host.invalid'),
                            (target.uri(None, 'nqn.2024-01.test:none'), 'connect', 'does not accept the subsystem NQN'),
                            (target.uri(9), 'read', 'namespace 9')):
        res = t.rdinit('connect-test', uri, '--output-format=json', rc=1)
        value = json.loads(res.text)
        t_schema.check('connect-test', value)
        t.eq((value['ok'], value['stopped_at']), (False, step), uri)
        t.match(f'^rdinit: {step}: .*{re.escape(says)}', res.err)
        t.match(f'(?m)^{step} +failed', t.rdinit('connect-test', uri, rc=1).text)


# ---- what the commands do ----

def fill(t, target, data, at=0):
    t.rdinit('write', target.uri(1), '-s', str(at), '-d', t.file('in', data))


def get(t, target, at, blocks):
    return t.rdinit('read', target.uri(1), '-s', str(at), '-c', str(blocks - 1)).out


@test
def compare_finds_a_difference(t):
    target = serve(t)
    data = bytearray(os.urandom(64 * BLOCK))
    fill(t, target, bytes(data))
    t.rdinit('compare', target.uri(1), '-d', t.file('same', bytes(data)))
    t.rdinit('compare', target.uri(1), input=bytes(data))
    data[40 * BLOCK] ^= 1
    res = t.rdinit('compare', target.uri(1), '-d', t.file('other', bytes(data)), rc=1)
    t.match('Compare Failure', res.err)
    t.match('blocks 0 to 63', res.err)
    t.match('not a multiple of the block size 512', t.rdinit('compare', target.uri(1), input=b'x' * 700, rc=1).err)
    t.match('no data', t.rdinit('compare', target.uri(1), input=b'', rc=1).err)
    res = t.rdinit('compare', target.uri(1), '-c', '7', input=b'x' * 512, rc=1)
    t.match('the input has 512 bytes, expected 4096', res.err)


@test
def blocks_are_zeroed_copied_deallocated_and_spoilt(t):
    target = serve(t)
    data = os.urandom(64 * BLOCK)
    fill(t, target, data)
    t.rdinit('write-zeroes', target.uri(1), '-s', '8', '-c', '7')
    t.same(get(t, target, 0, 24), data[:8 * BLOCK] + bytes(8 * BLOCK) + data[16 * BLOCK:24 * BLOCK])
    t.rdinit('copy', target.uri(1), '--sdlba', '100', '-s', '32,20', '-b', '1,0')
    t.same(get(t, target, 100, 3), data[32 * BLOCK:34 * BLOCK] + data[20 * BLOCK:21 * BLOCK])
    t.rdinit('dsm', target.uri(1), '--ad', '-s', '32,20', '-b', '2,1')
    t.same(get(t, target, 32, 2), bytes(2 * BLOCK))
    t.rdinit('write-uncor', target.uri(1), '-s', '50')
    t.match('Unrecovered Read Error', t.rdinit('verify', target.uri(1), '-s', '48', '-c', '7', rc=1).err)
    t.rdinit('write-zeroes', target.uri(1), '-s', '50')
    t.rdinit('verify', target.uri(1), '-s', '48', '-c', '7')


@test
def a_reservation_from_beginning_to_end(t):
    target = serve(t)
    run(t, target, 'resv-register', 'ns', ['--nrkey', '0x1234'])
    run(t, target, 'resv-acquire', 'ns', ['--crkey', '0x1234', '--rtype', '1'])
    report = json_of(t, target, 'resv-report', 'ns')
    t.eq((report['rtype'], report['regctl']), (1, 1))
    t.eq([(r['rcsts'], r['rkey'], r['hostid']) for r in report['regctlext']],
         [(1, 0x1234, HOST.replace('-', ''))])
    t.match(r'rtype     : 1 \(write exclusive\)', run(t, target, 'resv-report', 'ns', []).text)
    res = t.rdinit('write', target.uri(1), '-d', t.file('in', b'x' * BLOCK), rc=1)  # another host
    t.match('Reservation Conflict', res.err)
    run(t, target, 'resv-release', 'ns', ['--crkey', '0x1234', '--rtype', '1'])
    run(t, target, 'resv-register', 'ns', ['--crkey', '0x1234', '--rrega', '1'])
    t.eq(json_of(t, target, 'resv-report', 'ns')['regctlext'], [])


@test
def logs_have_what_happened(t):
    target = serve(t)
    before = json_of(t, target, 'smart-log', 'sub')
    fill(t, target, bytes(64 * BLOCK))
    get(t, target, 0, 64)
    after = json_of(t, target, 'smart-log', 'sub')
    t.ok(after['host_write_commands'] > before['host_write_commands'], 'writes are not counted')
    t.ok(after['host_read_commands'] > before['host_read_commands'], 'reads are not counted')
    page = t.rdinit('smart-log', target.uri(None), '-b').out
    t.eq(len(page), 512)
    t.eq(int.from_bytes(page[80:96], 'little'), after['host_write_commands'], 'host_writes of the page')
    t.same(t.rdinit('get-log', target.uri(None), '-i', '2', '-l', '512', '-b').out[64:96], page[64:96])
    t.same(t.rdinit('get-log', target.uri(None), '-i', '2', '-l', '32', '-o', '64', '-b').out, page[64:96])
    groups = json_of(t, target, 'ana-log', 'sub')['ANA DESC LIST ']
    t.eq([n['nsid'] for g in groups for n in g['NSIDS']], [1, 7])
    t.eq([g['NSIDS'] for g in json_of(t, target, 'ana-log', 'sub', ['-g'])['ANA DESC LIST ']], [[]])
    t.match('Invalid Log Page', t.rdinit('endurance-log', target.uri(None), rc=1).err)


@test
def lists_begin_where_it_is_said(t):
    target = serve(t)
    t.eq([row['nsid'] for row in json_of(t, target, 'list-ns', 'sub', ['-n', '2'])['nsid_list']], [7])
    t.eq(json_of(t, target, 'list-ctrl', 'sub', ['-c', '0xfffe'])['ctrl_list'], [])
    names = [d['Type'] for d in json_of(t, target, 'ns-descs', 'ns')['ns-descs']]
    t.ok('uuid' in names and 'csi' in names, f'descriptors {names}')


@test
def names_of_nvme_cli_3_are_accepted(t):
    target = serve(t)
    for new, verb in (('log ana', 'ana-log'), ('log fid-support-effects', 'fid-support-effects-log'), ('id ns', 'id-ns'),
                      ('id nvm-ns', 'nvm-id-ns')):
        t.eq(t.rdinit(*new.split(), target.uri(1), '--hostid', HOST, '-o', 'json').text,
             run(t, target, verb, 'ns', ['-o', 'json']).text, new)
    t.match('^DHHC-1:', t.rdinit('keys', 'gen-kxchap-secret').text)
    t.match('"log" is not a verb', t.rdinit('log', 'smart-log', target.uri(1), rc=2).err)


@test
def bits_of_a_namespace_are_explained(t):
    target = serve(t)
    text = run(t, target, 'id-ns', 'ns', ['--human-readable']).text
    t.match(r'(?m)^nmic      : 0x1\n  \[1:1\] : 0\tNamespace is Not a Dispersed Namespace\n  \[0:0\] : 0x1\tNamespace Multipath Capable\n\n', text)
    t.match(r'(?m)^LBA Format  0 : Metadata Size: 0   bytes - Data Size: 512 bytes - Relative Performance: 0 Best \(in use\)$', text)
    t.eq(re.sub(r'(?m)^  \[.*\n|^\n', '', text).splitlines()[:-1], run(t, target, 'id-ns', 'ns', []).text.splitlines()[:-1])
    text = run(t, target, 'id-ctrl', 'sub', ['-H']).text
    t.match(r'(?m)^cntrltype : 1\n  \[1:0\] : 0x1\tI/O Controller\n\n', text)
    t.match(r'(?m)^\tRead-only\[3\] +: 0$', run(t, target, 'smart-log', 'sub', ['-H']).text)


@test
def features_and_properties(t):
    target = serve(t)
    t.match(r'get-feature:0x81 \(Host Identifier\)', run(t, target, 'get-feature', 'sub', ['-f', '0x81']).text)
    t.eq(json_of(t, target, 'get-feature', 'sub', ['-f', '0x81'])['data'], HOST.replace('-', ''))
    shown = re.findall(r'(?m)^get-feature:0x(\w\w) \((.*)\), current value', run(t, target, 'get-feature', 'ns', []).text)
    t.ok({('07', 'Number of Queues'), ('0f', 'Keep Alive Timer'), ('83', 'Reservation Persistence')} <= set(shown),
         f'features {shown}')
    regs = json_of(t, target, 'show-regs', 'sub')
    t.eq((regs['vs'], regs['csts']), (0x20000, 1))
    t.match(r'(?m)^csts    : 0x1\n(\t.*\n)*\tReady +\(RDY\): Yes\n\n', run(t, target, 'show-regs', 'sub', ['-H']).text)
    plain, shown = (run(t, target, 'get-feature', 'sub', ['-f', '7', *more]).text for more in ([], ['-H']))
    t.eq(shown, f'{plain}\tNumber of IO Completion Queues Allocated (NCQA): 1\n'
                '\tNumber of IO Submission Queues Allocated (NSQA): 1\n\n')
    t.eq(json_of(t, target, 'get-property', 'sub', ['-o', '0'])['value'], regs['cap'])
    t.match('Invalid Field', t.rdinit('set-property', target.uri(None), '-o', '0x40', '-v', '1', rc=1).err)


def grows(t):
    """A target whose namespace can be resized."""
    disk = t.file('disk', bytes(1 << 20))
    target = t.target([t.namespace(1, path=disk, size=None, create=False)])

    def grow(mib):
        os.truncate(disk, mib << 20)
        target.reload()
    return target, grow


def monitor(t, target, *args):
    mon = t.spawn('monitor', [program('rdinit'), 'monitor', target.uri(None), *args, *PATIENCE],
                  stdout=subprocess.PIPE)
    mon.expect('waiting for events')
    return mon, mon.popen.stdout


@test
def monitor_does_not_wait_for_no_event(t):
    t.match('--events: found 0, expected 1 or more', t.rdinit('monitor', 'nvme+rdma://127.0.0.1:1', '--events=0', rc=2).err)


@test
def monitor_prints_events(t):
    """The log page is read, so that the second change is an event as well."""
    target, grow = grows(t)
    mon, out = monitor(t, target, '--events', '2')
    for mib in 2, 3:
        grow(mib)
        t.match(r'^\S+Z namespace attributes changed .*: namespace 1$', out.readline().decode())
    t.eq(mon.wait(), 0, 'exit status')


@test
def monitor_as_json_until_a_signal(t):
    target, grow = grows(t)
    mon, out = monitor(t, target, '-o', 'json')
    grow(2)
    value = json.loads(out.readline())
    t_schema.check('monitor', value)
    t.eq((value['type'], value['info'], value['log_page'], value['namespaces']), (2, 0, 4, [1]))
    mon.signal(signal.SIGINT)
    t.eq(mon.wait(), -signal.SIGINT, 'ended by')


@test
def monitor_ends_with_the_connection(t):
    target = serve(t)
    mon, _ = monitor(t, target)
    since = mon.mark()
    target.kill()
    t.eq(mon.wait(), 1, 'exit status')
    mon.expect('^rdinit: ', since=since)


@test
def host_nqns(t):
    one, two = (t.run([program('rdinit'), 'gen-hostnqn']).text.strip() for _ in range(2))
    t.match(r'^nqn\.2014-08\.org\.nvmexpress:uuid:[0-9a-f-]{36}$', one)
    t.ok(one != two, 'the same one twice')
    shown = t.run([program('rdinit'), 'show-hostnqn', '-q', one]).text.strip()
    t.eq(shown, one)


ONES = 2**64 - 1
# Bytes of Identify data that have to fit for a host to get on; all others are ones.
CTRL_KEPT = ((4, 72), (76, 84), (111, 112), (261, 263), (320, 322), (512, 520), (536, 544), (768, 1024), (1792, 1804))
NS_KEPT = ((25, 27), (29, 30), (128, 132))


def ones_except(page, kept):
    out = bytearray(b'\xff' * len(page))
    for start, end in kept:
        out[start:end] = page[start:end]
    return bytes(out)


class Large(nv.FakeTarget):
    """A target that answers every command with success, and with the largest numbers wherever they make sense."""
    discovery = False

    def on_command(self, queue, cmd):
        if cmd.opcode == nv.FABRICS or not queue.qid and cmd.opcode in (nv.IDENTIFY, nv.GET_LOG, nv.SET_FEATURES, nv.AER):
            return super().on_command(queue, cmd)
        if not queue.qid and cmd.opcode == 0x86:  # Get LBA Status: one descriptor
            return self.put(queue, cmd, (b'\1\0\0\0\2\0\0\0' + b'\xff' * 16).ljust(cmd.length, b'\0'))
        if queue.qid and cmd.opcode == 0x0E:  # Reservation Report: one registrant
            return self.put(queue, cmd, (b'\xff' * 5 + b'\1\0' + b'\xff' * 121).ljust(cmd.length, b'\0'))
        if cmd.opcode & 3 == 2:
            return self.put(queue, cmd, b'\xff' * cmd.length, result=ONES)
        return self.respond(queue, cmd, result=ONES)

    def do_property_get(self, queue, cmd):
        if struct.unpack_from('<I', cmd.raw, 44)[0] in (nv.CAP, nv.VS, nv.CC, nv.CSTS):
            return super().do_property_get(queue, cmd)
        return self.respond(queue, cmd, result=ONES)

    def do_connect(self, queue, cmd):
        """A discovery controller or a subsystem, as the host asks for one or the other."""
        self.subnqn = self.fetch(queue, cmd)[256:512].split(b'\0')[0].decode()
        self.discovery = 'discovery' in self.subnqn
        return self.respond(queue, cmd, result=1)

    def identify_ctrl(self):
        page = bytearray(ones_except(super().identify_ctrl(), CTRL_KEPT))
        page[111] = 2 if self.discovery else 1
        return bytes(page)

    def identify_ns(self):
        return struct.pack('<Q', 2**55 - 1) + ones_except(super().identify_ns(), NS_KEPT)[8:]

    def do_identify(self, queue, cmd):
        if cmd.cdw10 & 0xFF in (0x12, 0x13):
            return self.put(queue, cmd, (b'\1\0' + b'\xff' * 2).ljust(4096, b'\0'))
        if cmd.cdw10 & 0xFF == 0x10:
            return self.put(queue, cmd, struct.pack('<I', 1 if cmd.nsid < 1 else 0).ljust(4096, b'\0'))
        if cmd.cdw10 & 0xFF in (5, 6, 8):
            return self.put(queue, cmd, b'\xff' * 4096)
        return super().do_identify(queue, cmd)

    def do_get_log(self, queue, cmd):
        page = b'\xff' * 16384
        if cmd.cdw10 & 0xFF == 0x0C:
            page = struct.pack('<QH6xIIQB15xI', ONES, 1, 2**32 - 1, 1, ONES, 1, 1).ljust(16384, b'\0')
        elif cmd.cdw10 & 0xFF == 0x70:
            page = struct.pack('<QQ', ONES, 1).ljust(1024, b'\0')
            page += struct.pack('<BBBBHHHH', 1, 1, 2, 4, 65535, 65535, 65535, 65535).ljust(32, b'\0')
            page += str(self.port).encode().ljust(224) + NQN.encode().ljust(256, b'\0')
            page += self.addr.encode().ljust(256) + b'\xff' * 256
        offset = struct.unpack_from('<Q', cmd.raw, 48)[0] & 0xFFFF
        return self.put(queue, cmd, page[offset:].ljust(cmd.length, b'\xff'))

    def uri(self, nsid=1, nqn=NQN):
        return f'nvme+rdma://{self.addr}:{self.port}' + (f'/{nqn}' if nqn else '') + (f'/{nsid}' if nsid else '')


LARGE = {'discover', 'list', 'top', 'id-ns', 'nvm-id-ctrl', 'nvm-id-ns', 'get-log', 'smart-log', 'error-log', 'ana-log',
         'resv-notif-log', 'write-zeroes', 'write-uncor', 'verify', 'dsm', 'copy', 'get-lba-status',
         'resv-register', 'resv-acquire', 'resv-report', 'resv-release', 'admin-passthru', 'io-passthru'}
LARGE_ARGS = {'get-log': ['--lpo', hex(ONES - 3)]}


def largest(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return max(map(largest, value), default=0)
    return value if isinstance(value, int) else 0


@test
def large_numbers_stay_what_they_are(t):
    target = Large()
    t.cleanup(lambda: t.eq(target.errors, [], 'errors of the fake target'))
    t.cleanup(target.close)
    large = set()
    for verb, where, args in TABLE:
        value = json_of(t, target, verb, where, [*args, *LARGE_ARGS.get(verb, ())])
        if largest(value) > 2**63:
            large.add(verb)
    t.eq(LARGE - large, set(), 'verbs whose large number is not in their output')


if __name__ == '__main__':
    sys.exit(main())
