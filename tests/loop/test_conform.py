# SPDX-License-Identifier: BSD-3-Clause
"""rdconform on rdtarget: no test fails, and no supported feature is left untested; and rdconform itself."""

import os
import re
import struct
import signal
import socket
import sys
import time
import xml.etree.ElementTree

import auth_peer as au
import nvmf_peer as nv
import t_auth
import tcp_peer as tp
import tcp_target
from t_loop import DEADLINE, NQN, Failure, each, main, program, test
from t_serving import Baseline

FAMILIES = ('fabrics', 'admin', 'io', 'reservation', 'discovery', 'queue', 'rdma', 'abuse')
TCP_FAMILIES = ('fabrics', 'admin', 'io', 'reservation', 'discovery', 'queue', 'tcp', 'host', 'abuse')
LINE = re.compile(r'^(\w+\.\w+\.\w+): (ok|FAILED|not supported|skipped)\b')
COUNT = re.compile(r'^(\d+) tests: (\d+) ok, (\d+) failed, (\d+) not supported, (\d+) skipped$', re.M)
# Each command may take a while where the programs run slowly.
TIMEOUT = str(DEADLINE * 1000 // 4)

# Tests that rdtarget answers with "not supported": they check what happens without a feature that it has, or
# beyond a limit that it does not have. All others must run.
WITHOUT = {
    'fabrics.order.disconnect_unsupported', 'admin.feature.sv_without_select', 'io.fused.unsupported',
    'io.opcode.compare', 'io.opcode.copy', 'io.opcode.dataset_management', 'io.opcode.reservations',
    'io.opcode.verify', 'io.opcode.write_uncorrectable', 'io.opcode.write_zeroes',
    'io.dsm.range_limit',  # DMRSL is more than these namespaces have
    'io.fused.too_long',  # ACWU is more than is tried
    'abuse.capsule.host_read',  # rdtarget holds no READs of hosts
}

# Blocks of a file cannot be made unreadable.
UNCORRECTABLE = ['io.uncorrectable.']


def full(t, tcp=False, **ns):
    """Everything that can be configured and changes what a host sees."""
    os.makedirs(t.path('state'), exist_ok=True)
    ns = {'backend': 'memory', 'size': '40MiB', 'nguid': '5c2f9d1e7a3b4c6d8e0f1a2b3c4d5e6f', **ns}
    return t.target(namespaces=[t.namespace(1, **ns), t.namespace(5, backend='memory', ana_group=2)],
                    target={'state_dir': t.path('state'), 'sgl_descriptors': 16, 'buffer_memory': '32MiB'},
                    listener={'ana': [{'group': 2, 'state': 'non-optimized'}], **({'transport': 'tcp'} if tcp else {})})


def exercise_over_tcp(target, nsid):
    """A correct host of another implementation."""
    with tp.Host(target.addr, target.port, NQN) as host:
        host.enable()
        queue, data = host.add_io(), os.urandom(4096)
        nv.expect(queue.write_blocks(nsid, 3, data, 512))
        cqe, got = queue.read_blocks(nsid, 3, 8, 512)
        nv.expect(cqe)
        if got != data:
            raise Failure('the well-behaved host read other data than it wrote')
        host.shutdown()


def conform(t, target, *args, rc=None, dataloss=True, tcp=False):
    uri = target.uri(1).replace('nvme+rdma:', 'nvme+tcp:' if tcp else 'nvme+rdma:')
    argv = [program('rdconform'), uri, '--timeout', TIMEOUT, *args]
    return run(t, argv + (['--dataloss'] if dataloss else []), rc)


def run(t, argv, rc=None, **kw):
    res = t.run(argv, deadline=8 * DEADLINE, **kw)
    with open(t.path('conform.log'), 'a', encoding='utf-8') as log:
        log.write(res.text)
    if rc is not None and res.rc != rc:
        raise Failure(f'rdconform ended with {res.rc}, expected {rc}\n{failures(res.text)}{res.err}')
    return res


def failures(text):
    return ''.join(re.findall(r'(?m)^.*: FAILED\n.*\n.*\n', text))


def verdicts(text):
    return dict(found.groups() for found in map(LINE.match, text.splitlines()) if found)


def check(t, res, without=(), secrets=False):
    seen = verdicts(res.text)
    count = [int(n) for n in COUNT.search(res.text).groups()]
    t.eq(len(seen), count[0], 'tests with a verdict')
    t.note(COUNT.search(res.text)[0])
    t.eq(failures(res.text), '', 'failures')
    missing = {name for name, what in seen.items() if what == 'not supported' and not name.startswith(tuple(without))} - WITHOUT
    if not secrets:
        missing = {name for name in missing if not name.startswith('auth.')}
    t.eq(sorted(missing), [], '"not supported"')
    return count


@each(*((family, family) for family in FAMILIES))
def rdtarget_conforms(t, family):
    target = full(t)
    with Baseline(target):
        check(t, conform(t, target, '-t', family, rc=0))
    target.stop()


@each(*((family, family) for family in TCP_FAMILIES))
def rdtarget_conforms_over_tcp(t, family):
    target = full(t, tcp=True)
    with Baseline(target, well_behaved=exercise_over_tcp):
        check(t, conform(t, target, '-t', family, rc=0, tcp=True))
    target.stop()


@each(('RDMA', False), ('TCP', True))
def rdtarget_authenticates_as_it_should_over(t, tcp):
    hosts = [f'nqn.2014-08.org.nvmexpress:uuid:5d6a8c1e-3a0f-4f57-9d0a-7c1be1a4000{n}' for n in (1, 2)]
    subsystem = {'allow_any_host': False, 'hosts': hosts, 'authentication': 'required',
                 'host_auth': [t_auth.entry(t, host=host, ctrl_secret=t_auth.CTRL_SECRET) for host in hosts]}
    target = t.target([t.namespace(1, backend='memory', size='40MiB')], subsystem=subsystem,
                      listener={'transport': 'tcp'} if tcp else {})
    res = conform(t, target, '-t', 'auth', '--dhchap-secret-file', t.path('host.key'), '--dhchap-ctrl-secret-file',
                  t.path('host.ctrl.key'), rc=0, tcp=tcp)
    check(t, res, secrets=True)
    target.stop()


@each(('a file', {'backend': 'file', 'engine': 'io_uring'}, UNCORRECTABLE), ('a file by aio', {'backend': 'file', 'engine': 'aio'}, UNCORRECTABLE),
      ('blocks of 4096 bytes', {'block_size': 4096}, ()))
def rdtarget_conforms_with(t, ns, without):
    target = full(t, **ns)
    check(t, conform(t, target, '-t', 'io', '-t', 'queue', '-t', 'rdma', rc=0), without)


@test
def without_dataloss_nothing_is_written(t):
    image = t.file('ns1.img', os.urandom(40 << 20))
    target = full(t, backend='file', path=image, size=None, create=False)
    with open(image, 'rb') as f:
        before = f.read()
    res = conform(t, target, '--except', 'admin', rc=0, dataloss=False)
    check(t, res)
    skipped = {name for name, what in verdicts(res.text).items() if what == 'skipped' and not name.startswith('abuse.')}
    t.ok(len(skipped) > 100, f'{len(skipped)} tests were skipped')
    rows = run(t, [program('rdconform'), '-l', '--except', 'admin', '--except', 'abuse', target.uri(1)], rc=0).text.splitlines()
    t.eq({row.split(':')[0] for row in rows if row.endswith(' (--dataloss)')}, skipped, 'tests that the list says write')
    target.stop()
    with open(image, 'rb') as f:
        t.same(f.read(), before, 'the namespace')


@each(('by nothing', ['-t', '*.capsule.host_read'], 'skipped'), ('by --abuse', ['-t', '*.capsule', '--abuse'], None),
      ('by its name', ['-t', 'abuse.capsule'], None))
def the_family_abuse_is_asked_for(t, args, verdict):
    """It can crash a target's machine: a wildcard does not select it."""
    target = full(t)
    seen = verdicts(conform(t, target, *args, rc=0).text)
    got = {what for name, what in seen.items() if name.startswith('abuse.')}
    t.ok(got and (got == {verdict} if verdict else 'skipped' not in got), got)


@test
def a_transfer_limit_below_the_tests_sizes(t):
    target = t.target([t.namespace(1, backend='memory', size='40MiB', block_size=4096)],
                      target={'max_data_size': '128KiB'})
    check(t, conform(t, target, '-t', 'io', '--except', 'io.protect', rc=0))  # that needs a state_dir


@each(('DLFEAT without DEAC', 0, 'not supported'), ('DLFEAT with DEAC', 8, 'FAILED'))
def a_target_that_refuses_deac_and_has(t, dlfeat, verdict):
    class Refusing(nv.FakeTarget):
        def identify_ctrl(self):
            page = bytearray(super().identify_ctrl())
            page[520] = 1 << 3  # ONCS: Write Zeroes
            return bytes(page)

        def identify_ns(self):
            page = bytearray(super().identify_ns())
            page[33] = dlfeat
            return bytes(page)

        def on_command(self, queue, cmd):
            if queue.qid and cmd.opcode == 8:
                return self.respond(queue, cmd, nv.INVALID_FIELD)
            return super().on_command(queue, cmd)
    target = Refusing()
    t.cleanup(target.close)
    res = run(t, [program('rdconform'), f'nvme+rdma://127.0.0.1:{target.port}/{target.subnqn}/1', '--dataloss',
                  '--timeout', TIMEOUT, '-t', 'io.zeroes.deallocate'])
    t.eq(verdicts(res.text)['io.zeroes.deallocate'], verdict, res.text)


class Strict(tcp_target.FakeTarget):
    """What strict hosts demand, but for what a test replaces."""
    sqhd_of_connect, nguid, last, success = 0xFFFF, bytes(range(1, 17)), tp.F_LAST, False
    put_less, nn, ioccsz, fuses, padding, kas, patient = 0, 1, 516, 1, 0, 1, True

    def on_command(self, queue, cmd):
        if not queue.qid or cmd.opcode != 5:  # Compare
            return super().on_command(queue, cmd)
        self.fetch(queue, cmd)
        return self.respond(queue, cmd, nv.SUCCESS if self.patient else 0x0A)  # the other half is missing

    def do_connect(self, queue, cmd):
        self.no_flow = bool(cmd.raw[46] & 4)
        super().do_connect(queue, cmd)

    def respond(self, queue, cmd, status=nv.SUCCESS, result=0, *, dnr=True):
        if cmd.opcode == nv.FABRICS and cmd.fctype == nv.CONNECT and self.no_flow:
            cqe = nv.Cqe(result, self.sqhd_of_connect, queue.qid, cmd.cid, status << 1)
            return queue.conn.send(tp.RSP, cqe.pack())
        return super().respond(queue, cmd, status, result, dnr=dnr)

    def put(self, queue, cmd, data, result=0):
        data = data[:cmd.length].ljust(cmd.length, b'\0')
        if cmd.opcode == nv.GET_LOG and not queue.qid:
            data = data[:len(data) - self.put_less]
        by_flag = self.success and queue.qid
        queue.conn.send(tp.C2H_DATA, struct.pack('<HHII4x', cmd.cid, 0, 0, len(data)), data,
                        flags=self.last | (tp.F_SUCCESS if by_flag else 0), pad=self.padding)
        if not by_flag:
            self.respond(queue, cmd, result=result)

    def identify_ctrl(self):
        page = bytearray(super().identify_ctrl())
        struct.pack_into('<I', page, 516, self.nn)
        struct.pack_into('<H', page, 320, self.kas)
        struct.pack_into('<H', page, 522, self.fuses)
        struct.pack_into('<I', page, 1792, self.ioccsz)
        return bytes(page)

    def identify_ns(self):
        page = bytearray(super().identify_ns())
        page[104:120] = self.nguid
        return bytes(page)


@each(('nothing', {}, ''), ('CPDA', {'cpda': 1}, 'linux.cpda'), ('padding', {'padding': 4}, 'linux.no_padding'),
      ('no LAST_PDU', {'last': 0}, 'linux.read'), ('SUCCESS', {'success': True}, 'linux.flow'),
      ('short logs', {'put_less': 512}, 'freebsd.log_smart'), ('SQHD', {'sqhd_of_connect': 0}, 'freebsd.connect'),
      ('NN', {'nn': 0xFFFFFFFE}, 'freebsd.nn'), ('no NGUID', {'nguid': bytes(16)}, 'esxi.identifier'),
      ('no locks', {'fuses': 0}, 'esxi.locking'), ('no data digest', {'grants': 1}, 'linux.icresp'),
      ('KAS', {'kas': 0}, 'linux.identify'), ('half a pair', {'patient': False}, 'esxi.halves'))
def strict_hosts_would_refuse(t, how, finds):
    """The fake target has no discovery subsystem."""
    target = Strict()
    for name, value in how.items():
        setattr(target, name, value)
    t.cleanup(target.close)
    res = run(t, [program('rdconform'), f'nvme+tcp://127.0.0.1:{target.port}/{target.subnqn}/1', '--timeout', TIMEOUT,
                  '-t', 'host', '--except', 'host.freebsd.discovery'])
    failed = {name for name, what in verdicts(res.text).items() if what == 'FAILED'}
    if finds:
        t.ok(f'host.{finds}' in failed, res.text)
    else:
        t.eq(failed, set(), res.text)


@each(('as many records as one command can read', 16, 'ok'), ('more than that', 17, 'FAILED'))
def a_discovery_log_with(t, listeners, verdict):
    """1,024 records, the most that FreeBSD takes, and the most that the default MDTS has room for; 1,088 are too many."""
    subsystems = [{'nqn': f'{NQN}:{n}', 'allow_any_host': True, 'namespaces': [t.namespace(1, backend='memory', size='64KiB')]}
                  for n in range(63)]  # and the discovery subsystem itself
    target = t.target(subsystems=subsystems, listeners=[{'transport': 'tcp'}] * listeners)
    res = run(t, [program('rdconform'), f'nvme+tcp://{target.addr}:{target.port}/{NQN}:0/1', '--timeout', TIMEOUT,
                  '-t', 'host.freebsd.discovery'])
    t.eq(verdicts(res.text)['host.freebsd.discovery'], verdict, res.text)
    target.stop()


@each(('Data SGL Length Invalid', 0x0F, 'ok'), ('SGL Offset Invalid', 0x16, 'ok'), ('success', 0, 'FAILED'),
      ('Internal Error', 6, 'FAILED'))
def a_capsule_that_is_too_long_answered_by(t, status, verdict):
    """The connection may go on if all of the capsule was skipped."""
    class Answering(Strict):
        def do_write(self, queue, cmd):
            if len(cmd.extra) > self.in_capsule:
                self.respond(queue, cmd, status)
            else:
                super().do_write(queue, cmd)
    target = Answering()
    t.cleanup(target.close)
    res = run(t, [program('rdconform'), f'nvme+tcp://127.0.0.1:{target.port}/{target.subnqn}/1', '--timeout', TIMEOUT,
                  '--dataloss', '-t', 'tcp.capsule.over'])
    t.eq(verdicts(res.text)['tcp.capsule.over'], verdict, res.text)


@test
def a_namespace_that_cannot_be_written(t):
    """A wrong behaviour of a target fails, and the program reports it."""
    target = t.target([t.namespace(1, backend='memory', read_only=True)])
    res = conform(t, target, '-t', 'io.write', rc=1)
    t.match(r'io\.write\.sizes: FAILED\n    wanted: .* \[NVM 3\.2\.6\]\n    seen:   Write: got .*\(cmds\.c:\d+\)',
            res.text)
    t.ok(int(COUNT.search(res.text)[3]) >= 8, 'most of them have to fail')


@test
def the_list(t):
    """Every test once, with the section that it checks."""
    rows = run(t, [program('rdconform'), '--list'], rc=0).text.splitlines()
    t.ok(len(rows) >= 200, f'{len(rows)} tests')
    names = [re.match(r'(\w+\.\w+\.\w+): .+ \[(Base|Fabrics|NVM|RDMA|TCP) \d[\d.]*\]( \(--abuse\))?( \(--dataloss\))?$', row)
             for row in rows]
    t.eq([row for row, name in zip(rows, names) if not name], [], 'lines of another form')
    t.eq({name[1].split('.')[0] for name in names if name[3]}, {'abuse'}, 'families that are asked for')
    names = [name[1] for name in names]
    t.eq(sorted(set(names)), sorted(names), 'names, each once')
    t.eq({name.split('.')[0] for name in names}, {*FAMILIES, *TCP_FAMILIES, 'auth'}, 'families')
    tcp, rdma = ({row.split(':')[0] for row in run(t, [program('rdconform'), '-l', f'nvme+{name}://127.0.0.1/{NQN}'], rc=0).text.splitlines()}
                 for name in ('tcp', 'rdma'))
    t.eq(tcp | rdma, set(names), 'tests of both transports')
    t.ok({'rdma.key.read_gone', 'rdma.cm.none', 'abuse.queue.keys_go'} <= rdma - tcp, 'RDMA has tests of its own')
    t.ok(not any(name.startswith('rdma.') for name in tcp), 'tests of RDMA are not listed for TCP')
    some = run(t, [program('rdconform'), '-l', '-t', 'io.read', '-t', '*.*.nsid_zero'], rc=0).text
    t.ok({row.split(':')[0].rsplit('.', 1)[0] for row in some.splitlines()} > {'io.read', 'io.copy'}, some)


@test
def junit(t):
    target = full(t)
    res = conform(t, target, '-t', 'fabrics', '-t', 'io.opcode', '--junit', t.path('out.xml'), rc=0)
    count = [int(n) for n in COUNT.search(res.text).groups()]
    suites = xml.etree.ElementTree.parse(t.path('out.xml')).getroot().findall('testsuite')
    t.eq(sum(int(s.get('tests')) for s in suites), count[0], 'tests')
    t.eq(sum(int(s.get('failures')) for s in suites), 0, 'failures')
    t.eq(sum(int(s.get('skipped')) for s in suites), count[3] + count[4], 'skipped')
    cases = {f'{c.get("classname")}.{c.get("name")}' for s in suites for c in s.findall('testcase')}
    t.eq(cases, set(verdicts(res.text)), 'test cases')


@test
def wrong_usage(t):
    rdconform = program('rdconform')
    for args, says in ((['nvme+rdma://127.0.0.1'], 'names no subsystem'), ([], 'no target'),
                       (['http://x/y'], 'nvme\\+rdma'), (['-l', '-t', 'nothing'], 'there is no test "nothing";'),
                       (['-t', 'rdma', 'nvme+tcp://127.0.0.1/x'], 'there is no test "rdma" for NVMe/TCP;'),
                       (['--timeout', '1', 'nvme+rdma://127.0.0.1/x'], '--timeout')):
        t.match(says, run(t, [rdconform, *args], rc=2).err)
    target = f'nvme+rdma://127.0.0.1:1/{NQN}'
    for arg, says in (('--hostid=me', 'the host identifier "me" is not'), ('--hostnqn=me', 'the host NQN "me" does not'),
                      ('--host2-id=me', 'the host identifier "me" is not'), ('--host2-nqn=me', 'the host NQN "me" does not'),
                      ('--provider=pigeon', 'the provider "pigeon" is unknown'), ('-v', 'refused')):
        t.match(f'(?m)^rdconform: .*{says}', run(t, [rdconform, arg, target], rc=1).err)


@each(('of the host', 'dhchap-secret-file', ()), ('of the controller', 'dhchap-ctrl-secret-file', ('host.key',)))
def a_secret_on_the_command_line_is_refused(t, name, host):
    args = [f'--dhchap-secret-file={t_auth.key_file(t, file, au.key_text(t_auth.SECRET))}' for file in host]
    res = run(t, [program('rdconform'), *args, f'--{name}=DHHC-1:00:AAEC', f'nvme+rdma://127.0.0.1:1/{NQN}'], rc=2)
    t.match(f'^rdconform: --{name}: this is a secret', res.err)
    t.ok('AAEC' not in res.err, res.err)


@test
def a_file_without_a_secret_is_named(t):
    t.file('wrong', b'secret\n')
    for args, says in ((['--dhchap-secret-file', t.path('nothing')], 'secret-file: cannot open ".*/nothing": No such file'),
                       (['--dhchap-secret-file', ''], 'secret-file: cannot open "": No such file'),
                       (['--dhchap-secret-file', t.dir], 'secret-file: cannot read ".*": Is a directory'),
                       (['--dhchap-secret-file', t.path('wrong')], '/wrong": the secret does not start with'),
                       (['--dhchap-ctrl-secret-file', t.path('wrong')], 'needs --dhchap-secret-file')):
        t.match(says, run(t, [program('rdconform'), *args, f'nvme+rdma://127.0.0.1:1/{NQN}'], rc=2).err)


@test
def started_without_standard_descriptors(t):
    """Its output must not go into its connections."""
    target = full(t)
    argv = [program('rdconform'), target.uri(1), '--timeout', TIMEOUT, '-t', 'io.flush', '-t', 'admin.identify']
    run(t, ['sh', '-c', 'exec "$0" "$@" <&- >&- 2>&-', *argv], rc=0)


@test
def a_target_that_is_silent(t):
    with socket.socket() as sock:
        sock.bind(('127.0.0.1', 0))
        sock.listen(8)
        res = run(t, [program('rdconform'), f'nvme+rdma://127.0.0.1:{sock.getsockname()[1]}/{NQN}', '--timeout',
                      '500'], rc=1)
    t.match(r'^rdconform: .*(timed? ?out|no answer|in time)', res.err)


@each(('is killed', signal.SIGKILL), ('hangs', signal.SIGSTOP))
def a_target_that(t, sig):
    """All later tests fail at once: the run does not wait for a time limit in each of hundreds of tests."""
    target = full(t)
    # Its output goes into a socket that holds a few lines, so that it cannot run far ahead of the reader.
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
            proc = t.spawn('rdconform', [program('rdconform'), target.uri(1), '--timeout', '1000', '--dataloss'],
                           stdout=theirs)
        out = b''
        ours.settimeout(DEADLINE)
        while out.count(b'\n') <= 40:
            more = ours.recv(4096)
            t.ok(more, 'rdconform got going')
            out += more
        target.signal(sig)
        end = time.monotonic() + 8 * DEADLINE
        try:
            while more:
                ours.settimeout(max(end - time.monotonic(), 0.001))
                more = ours.recv(4096)
                out += more
            t.eq(proc.wait(DEADLINE), 1, 'exit status')
        finally:
            if sig == signal.SIGSTOP:
                target.signal(signal.SIGCONT)
            else:
                target.wait()
    text = out.decode()
    count = [int(n) for n in COUNT.search(text).groups()]
    t.ok(count[2] > 300, f'{count[2]} failures')
    t.match(r'seen:   not run: the target is gone since ', text)


if __name__ == '__main__':
    sys.exit(main())
