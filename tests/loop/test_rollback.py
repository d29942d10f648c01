# SPDX-License-Identifier: BSD-3-Clause
"""Hand-overs to an older version and back: the one in which the format of the records was complete first, built from the
history of this repository."""

import os
import shutil
import subprocess
import sys

import nvmf_peer as nv
from t_control import Control, with_socket
from t_dev import Device
from t_loop import (DEADLINE, LONG, NQN, SOURCE_ROOT, Failure, Skip, iwarp_only, main, program, requires_program, test,
                    wait_for)
from t_owner import CONFLICT, EA
from t_serving import memory
from t_upgrade import RDMA, TCP, ana_log, ended, figures, has_ended, no_reconnect, pause_of, peer, take_over, uri_of

# Format 1 of docs/design/moves.md.
FIRST = '5bb290d5f2fac663873711e08c7afdbe0e23c32d'
TURNS = 10 if LONG else 1  # back and forth
AER, COMPARE, EVENT_NS, LOG_CHANGED = 0x0C, 0x05, 0x0002, 4
LISTENERS = [{}, {'transport': 'tcp', 'ana': [{'group': 2, 'state': 'non-optimized'}]}]


def run(what, *argv, **kw):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=False, **kw)
    if done.returncode:
        raise Failure(f'{what}: {done.stdout[-3000:]}{done.stderr[-3000:]}')
    return done.stdout


def first_version():
    """rdtarget and rdctl of FIRST, which stay in the build directory for the next run."""
    git = [requires_program('git'), '-C', SOURCE_ROOT]
    if subprocess.run([*git, 'cat-file', '-e', FIRST + '^{commit}'], capture_output=True, check=False).returncode:
        raise Skip(f'the history here has no commit {FIRST[:12]} (git fetch --unshallow)')
    folder = os.path.join(os.environ['BUILD_ROOT'], f'version-{FIRST[:12]}')
    source, build = os.path.join(folder, 'source'), os.path.join(folder, 'build')
    if not os.path.exists(source):
        shutil.rmtree(source + '.new', ignore_errors=True)
        os.makedirs(source + '.new')
        run('the source of the first version', 'tar', '-C', source + '.new', '-xf', '-',
            stdin=subprocess.Popen([*git, 'archive', FIRST], stdout=subprocess.PIPE).stdout)
        os.rename(source + '.new', source)
    if not os.path.exists(os.path.join(build, 'build.ninja')):
        run('the first version', requires_program('meson'), 'setup', build, source,
            *(f'-D{part}=disabled' for part in ('initiator', 'tests', 'rdconform', 'rbd', 'nbd', 'python', 'nbdkit', 'systemd')))
    programs = 'target/rdtarget', 'tools/rdctl/rdctl'
    run('the first version', requires_program('ninja'), '-C', build, *programs)
    return [os.path.join(build, name) for name in programs]


def this_version():
    return [program('rdtarget'), program('rdctl')]


def of_namespace(control, nsid):
    """Its counters and histograms."""
    return [ns for ns in figures(control)['namespaces'] if ns['nsid'] == nsid]


class Settings:
    """What two hosts, one by each transport, have set and written, and have to find again: a reservation of the first
    one, features, AERs that wait, ANA states, data."""

    def __init__(self, t, one, two):
        self.t, self.one, self.two = t, one, two
        self.count = 0
        nv.expect(one.register())
        nv.expect(two.register())
        nv.expect(one.acquire(EA))
        self.data = os.urandom(4096)
        nv.expect(one.q.write_blocks(1, 8, self.data))
        self.aers = []
        for host in (one, two):
            nv.expect(host.admin.set_features(0x0B, 1 << 8))
            self.aers.append(host.admin.next_cid())
            host.admin.post(nv.sqe(AER, self.aers[-1]))
        self.before = self.look()

    def look(self):
        return self.one.report(), [ana_log(host) for host in (self.one, self.two)], [
            nv.expect(host.admin.get_features(fid)).dw0 for host in (self.one, self.two) for fid in (7, 0x0B)]

    def check(self):
        t = self.t
        t.eq(self.look(), self.before, 'reservations, ANA states and features')
        t.eq(self.two.write(), CONFLICT, 'a write of the host without the reservation')
        t.same(nv.expect_data(self.one.q.read_blocks(1, 8, 8)), self.data)
        block = (self.count.to_bytes(8, 'little') * 64, (self.count + 1).to_bytes(8, 'little') * 64)
        nv.expect(self.one.q.data_out(COMPARE, block[0], nsid=1, cdw10=0))
        nv.expect(self.one.q.write_blocks(1, 0, block[1]))
        self.count += 1

    def event(self, nsid):
        """A namespace came: both hosts are told, once."""
        for host, aer in zip((self.one, self.two), self.aers):
            self.t.eq(host.admin.wait(aer).dw0 & 0xFFFF, EVENT_NS, 'the event for the AER that waited')
            self.t.eq(nv.expect_data(host.admin.get_log(LOG_CHANGED, 4096))[:8], nsid.to_bytes(8, 'little'), 'namespaces that changed')
            self.t.eq(host.admin._stash, {}, 'answers that nobody waits for')


@test
@iwarp_only
def connections_go_to_an_older_version_and_back(t):
    """Under verified I/O of both transports to files and memory."""
    old, new = first_version()[0], this_version()[0]
    config, control = with_socket(t, [memory(t, 1), memory(t, 2), memory(t, 3, ana_group=2), t.namespace(4),
                                      t.namespace(5, size='8MiB', direct='off')], listeners=LISTENERS, target={'reactors': 2})
    target = t.target(config=config, binary=old)
    devices = [Device(t, [uri_of(target, (RDMA, TCP)[nsid % 2], nsid)], '--keep-alive-tmo', 2000, name=f'rddev-{nsid}')
               for nsid in (2, 3, 4, 5)]
    pauses = []
    with peer(target, RDMA, 1) as one, peer(target, TCP, 2) as two:
        settings = Settings(t, one, two)
        settings.check()
        for n, binary in enumerate([new, old] * TURNS + [new]):
            for device in devices:
                device.goes_on(20)
            counted = of_namespace(control, 1)
            last, target = target, take_over(t, config, control, f'next-{n}', binary=binary)
            ended(t, last)
            pauses.append(pause_of(target))
            target.expect(r'took over .* connections of 6 controllers')
            last.expect(r'handed over to process \d+: .* of 6 controllers; 0 others connect again')
            t.eq(of_namespace(control, 1), counted, 'the counters of namespace 1')
            settings.check()
        with Control(control) as c:
            c.call('namespace.add', nqn=NQN, namespace=memory(t, 6))
        settings.event(6)
    for device in devices:
        device.goes_on(20)
        no_reconnect(t, device)
        device.finish()
    t.note(f'{len(pauses)} hand-overs: pause at most {max(pauses):.1f} ms')


@test
@iwarp_only
def rdctl_upgrade_goes_back_to_an_older_version(t):
    """As packages do it: the programs are replaced, and then rdctl asks the target that runs."""
    old, new = first_version(), this_version()
    installed = t.path('rdtarget')

    def install(rdtarget):
        shutil.copy(rdtarget, installed + '.new')
        os.replace(installed + '.new', installed)

    install(old[0])
    config, control = with_socket(t, [memory(t, 1), t.namespace(2)], listeners=LISTENERS)
    target = t.spawn('rdtarget', [installed, '-c', config, '--log', 'info'])
    target.expect(r'\bready$')
    devices = [Device(t, [f'{RDMA}://127.0.0.1:{target.expect(r"listening on .*:([0-9]+) .iwarp.")[1]}/{NQN}/1'], name='rddev-1'),
               Device(t, [f'{TCP}://127.0.0.1:{target.expect(r"listening on .*:([0-9]+) .tcp.")[1]}/{NQN}/2'], name='rddev-2')]
    for rdtarget, rdctl in [new, old] * TURNS + [new]:
        install(rdtarget)
        for argv, says in ((['--check'], r'process \d+, can take over'),
                           ([], r'has taken over: \d+ connections of 2 controllers rested for [\d.]+ ms, 0 connect again')):
            res = t.run([rdctl, '-s', control, 'upgrade', *argv])
            t.eq(res.rc, 0, f'{rdctl} upgrade {argv}\n{res.err}')
            t.match(says, res.text)
        for device in devices:
            device.goes_on(20)
    # its log is the next one's, too, so its end is no end of that
    t.eq(target.popen.wait(DEADLINE), 0, 'exit status of the first process')
    for device in devices:
        no_reconnect(t, device)
        device.finish()
    with Control(control) as c:
        pid = c.call('status')['pid']
        c.call('shutdown')
    wait_for(lambda: has_ended(pid), 'the last process to end')


if __name__ == '__main__':
    sys.exit(main())
