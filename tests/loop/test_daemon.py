# SPDX-License-Identifier: BSD-3-Clause
"""rdtarget under a service manager: notifications, its watchdog, its log, and signals."""

import ctypes
import json
import os
import pwd
import re
import signal
import socket
import subprocess
import sys

import nvmf_peer as nv
from t_loop import (DEADLINE, NQN, SOURCE_ROOT, Skip, Target, each, main, program, requires_engine, requires_root, test,
                    wait_for)
from t_serving import exercise
from t_storage import forbid_io_uring, stall_env, stand_still


class Manager:
    """The socket of a service manager, and the datagrams that arrive at it."""

    def __init__(self, t, name):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind('\0' + name[1:] if name[0] == '@' else name)
        self.sock.settimeout(DEADLINE)
        t.cleanup(self.sock.close)
        self.env = dict(os.environ, NOTIFY_SOCKET=name)
        self.came = []

    def next(self):
        """The next datagram, as a dict."""
        lines = self.sock.recv(4096).decode().splitlines()
        self.came.append(dict(line.split('=', 1) for line in lines))
        return self.came[-1]

    def until(self, key):
        while True:
            message = self.next()
            if key in message:
                return message

    def waiting(self):
        """The datagrams that have arrived and were not read."""
        found = []
        self.sock.setblocking(False)
        try:
            while True:
                found.append(self.next())
        except BlockingIOError:
            return found
        finally:
            self.sock.settimeout(DEADLINE)


def memory(t, **keys):
    return t.namespace(backend='memory', **keys)


def unit_lines(t, key, config):
    """The commands of @key in the unit as it is shipped, for programs of this build and @config."""
    with open(os.path.join(SOURCE_ROOT, 'configs', 'systemd', 'rdtarget.service.in'), encoding='utf-8') as f:
        lines = re.findall(rf'(?m)^{key}=(.*)$', f.read())
    return [re.sub(r'@sysconfdir@\S+', config, line.replace('@bindir@/rdtarget', program('rdtarget'))) for line in lines]


@test
def a_service_reload_fails_when_the_file_has_mistakes(t):
    """As systemd runs the lines: one after the other, until one fails."""
    target = t.target([memory(t)])
    env = dict(os.environ, MAINPID=str(target.pid))

    def reload():
        since = target.mark()
        for line in unit_lines(t, 'ExecReload', t.path('rdtarget.yaml')):
            res = subprocess.run(['/bin/sh', '-c', line], env=env, capture_output=True, text=True, check=False)
            if res.returncode:
                break
        target.expect('reloaded: ', since=since)
        return res

    t.eq(reload().returncode, 0, 'exit status for a good file')
    t.config([memory(t), memory(t)])  # NSID 1 twice
    res = reload()
    t.eq(res.returncode, 1, f'exit status for a broken file: {res}')
    t.match('rdtarget.yaml:[0-9]+: .*nsid', res.stderr)
    t.config([memory(t), memory(t, nsid=2)])
    t.eq(reload().returncode, 0, 'exit status for a good file again')


@each(('a path', False), ('an abstract name', True))
def the_service_manager_is_told_by(t, abstract):
    name = t.path('notify')
    manager = Manager(t, '@' + name if abstract else name)
    target = t.target([memory(t)], env=manager.env)
    first = manager.next()
    t.eq(first['READY'], '1')
    t.eq(first['STATUS'], 'serving: 1 listener, 1 subsystem, 1 namespace')
    t.config([memory(t), memory(t, nsid=2)])
    target.reload()
    begins, ends = manager.next(), manager.next()
    t.eq(begins['RELOADING'], '1')
    t.ok(int(begins['MONOTONIC_USEC']) > 0, 'no time of the reload')
    t.eq((ends['READY'], ends['STATUS']),
         ('1', 'serving: 1 listener, 1 subsystem, 2 namespaces; reloaded: 1 namespace added'))
    target.stop()
    t.eq(manager.next()['STOPPING'], '1')
    t.eq(manager.waiting(), [], 'more came')


@test
def a_reload_that_is_refused_ends_for_the_service_manager_too(t):
    manager = Manager(t, t.path('notify'))
    target = t.target([memory(t)], env=manager.env)
    manager.until('READY')
    t.file('rdtarget.yaml', b'}{')
    target.reload('not reloaded')
    t.eq(manager.next()['RELOADING'], '1')
    t.match('not reloaded: .*nothing was changed', manager.until('READY')['STATUS'])


@test
def a_reactor_that_stands_still_starves_the_watchdog(t):
    requires_engine('io_uring')
    stall = t.path('stall')
    manager = Manager(t, t.path('notify'))
    target = t.target([t.namespace(1, engine='io_uring')], target={'reactors': 2},
                      env=stall_env(stall) | manager.env | {'WATCHDOG_USEC': '300000'})
    manager.until('WATCHDOG')
    with nv.Host(target.addr, target.port, NQN) as h:
        h.enable()
        queue = h.add_io()
        since = target.mark()
        cid = stand_still(queue, stall)
        late = r'reactor (\d) has not answered for (\d+) ms: the watchdog is not fed'
        stuck = target.expect(late, since=since)[1]
        manager.waiting()
        ages = []
        for _ in range(3):  # each comes in place of a feeding
            since = target.mark()
            found = target.expect(late, since=since)
            t.eq(found[1], stuck, 'the reactor that is named')
            ages.append(int(found[2]))
        t.eq(ages, sorted(set(ages)), 'ages')
        t.eq(manager.waiting(), [], 'fed all the same')
        os.unlink(stall)
        nv.expect(queue.wait(cid))
        target.expect('all reactors answer again', since=since)
        manager.until('WATCHDOG')


HARMLESS = ('SIGUSR2', 'SIGALRM', 'SIGVTALRM', 'SIGPROF', 'SIGIO', 'SIGPWR', 'SIGPIPE', 'SIGXFSZ', 'SIGRTMIN', 'SIGRTMAX')


@each(*((name, getattr(signal, name)) for name in HARMLESS))
def the_target_outlives(t, sig):
    target = t.target([memory(t)])
    target.signal(sig)
    target.status()  # signals are delivered in some order: the one before it has been
    exercise(target)
    t.ok(target.running, 'it ended')
    if sig == signal.SIGUSR2:
        target.expect('SIGUSR2: ignored')


@test
def a_reload_asked_for_before_the_start_comes_after_it(t):
    def pending():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
        os.kill(os.getpid(), signal.SIGHUP)  # which outlives exec

    target = t.target([memory(t)], preexec_fn=pending)
    target.expect('reloaded: nothing has changed')
    lines = target.text()
    t.ok(lines.index(': ready') < lines.index('SIGHUP: reading'), 'it was read again before it was ready')
    exercise(target)


# ---- what the machine has ----

def automatic(t, nsid):
    """A namespace on a file, without an engine in the configuration."""
    ns = t.namespace(nsid)
    del ns['engine']
    return ns


def without_io_uring(t, namespaces, **kw):
    try:
        return t.target(namespaces, preexec_fn=forbid_io_uring, **kw)
    except subprocess.SubprocessError:
        raise Skip('no seccomp filters here') from None


@test
def engine_auto_is_aio_where_io_uring_is_forbidden_and_that_is_said_once(t):
    requires_engine('aio')
    target = without_io_uring(t, [automatic(t, 1), automatic(t, 2)], target={'reactors': 2})
    for nsid in (1, 2):
        exercise(target, nsid=nsid)
    t.config([automatic(t, nsid) for nsid in (1, 2, 3)], target={'reactors': 2})
    target.reload('reloaded: 1 namespace added')
    exercise(target, nsid=3)
    said = [line for line in target.lines if 'engine auto uses aio: io_uring is not available here' in line]
    t.eq(len(said), 1, 'times that it was said')
    t.match('notice: .*Operation not permitted', said[0])


@test
def engine_auto_is_io_uring_where_that_is_allowed(t):
    requires_engine('io_uring')
    target = t.target([automatic(t, 1)])
    exercise(target)
    t.match('anon_inode:.io_uring', ' '.join(os.readlink(f'/proc/{target.pid}/fd/{fd}')
                                              for fd in os.listdir(f'/proc/{target.pid}/fd')))
    t.ok('engine auto' not in target.text(), 'it was said')


@test
def engine_io_uring_is_refused_where_it_is_forbidden(t):
    requires_engine('io_uring')
    res = t.run([program('rdtarget'), '-c', t.config([t.namespace(1, engine='io_uring')])], preexec_fn=forbid_io_uring)
    t.eq(res.rc, 1, 'exit status')
    t.match('io_uring is forbidden here .*use "engine: aio"', res.err)


# ---- the log ----

class Unread(Target):
    """A target whose standard error is a pipe or a socket of the test, with --ready-fd instead of its log."""

    def __init__(self, t, stderr, *args, env=None):
        reader, writer = os.pipe()
        argv = [program('rdtarget'), '-c', t.config([memory(t)]), '--exit-with-parent', '--ready-fd', str(writer),
                *args]
        self.popen = subprocess.Popen(argv, stderr=stderr, env=env, pass_fds=[writer])
        self.pid, self.name = self.popen.pid, 'rdtarget'
        os.close(writer)
        with open(reader, encoding='ascii') as ready:
            self.addr, port = ready.readline().split()
        self.port = int(port)
        t.cleanup(self.kill)

    def kill(self):
        self.popen.kill()
        self.popen.wait()

    def wait(self, deadline=None):
        return self.popen.wait(deadline or DEADLINE)


def stream_of(kind):
    if kind == 'socket':
        ours, its = socket.socketpair()
        return ours.detach(), its.detach()
    return os.pipe()


@each(('a pipe', 'pipe'), ('a socket', 'socket'))
def a_log_that_nobody_reads_stops_nothing(t, kind):
    """Every command is logged until pipe and buffer are full; I/O, a reload and the end of the target work all the
    same."""
    reader, writer = stream_of(kind)
    target = Unread(t, writer, '--log', 'trace')
    os.close(writer)
    for _ in range(3):
        exercise(target)
        t.rdinit('bench', target.uri(), '--run-time', '300ms')
    t.config([memory(t), memory(t, nsid=2)])
    target.signal(signal.SIGHUP)
    wait_for(lambda: 2 in [ns['nsid'] for ns in json.loads(
        t.rdinit('list-ns', target.uri(None), '-o', 'json').text)['nsid_list']], 'the reload')
    text = b''
    while not re.search(rb'main: \d+ lines of this log were dropped here', text):
        text += os.read(reader, 65536)
    t.match('ready', text.decode())
    target.stop()  # while the test does not read
    os.close(reader)


@test
def the_log_in_json(t):
    reader, writer = os.pipe()
    target = Unread(t, writer, '--log-format', 'json')
    os.close(writer)
    target.signal(signal.SIGUSR1)
    exercise(target)
    target.stop()
    with open(reader, encoding='utf-8') as log:
        lines = [json.loads(line) for line in log]
    for line in lines:
        t.eq(sorted(line), ['component', 'level', 'message', 'program', 'time'], 'keys')
        t.match(r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$', line['time'])
    t.ok(any(line['message'] == 'ready' and line['level'] == 'notice' for line in lines), 'no "ready"')


@each(('for the journal', 'auto', r'^<5>notice: main: ready$'), ('JSON for the journal', 'json', r'^<5>\{.*"ready"\}$'),
      ('text where it is asked for', 'text', r'^<5>\d{4}-.*Z rdtarget: notice: main: ready$'))
def the_log_has_priorities(t, form, pattern):
    reader, writer = os.pipe()
    st = os.fstat(writer)
    target = Unread(t, writer, '--log-format', form, env=dict(os.environ, JOURNAL_STREAM=f'{st.st_dev}:{st.st_ino}'))
    os.close(writer)
    target.stop()
    with open(reader, encoding='utf-8') as log:
        lines = log.read().splitlines()
    t.ok(all(re.match('<[0-7]>', line) for line in lines), f'lines without a priority: {lines}')
    t.ok(any(re.match(pattern, line) for line in lines), f'no line like {pattern}: {lines}')


@test
def a_log_that_goes_elsewhere_than_the_journal_has_times(t):
    target = t.target([memory(t)], env=dict(os.environ, JOURNAL_STREAM='1:2'))
    target.stop()
    for line in target.text().splitlines():
        t.match(r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z rdtarget: \w+: ', line)


@test
def an_unknown_log_format_is_refused(t):
    res = t.run([program('rdtarget'), '--log-format', 'xml', '-c', t.config([memory(t)])])
    t.eq(res.rc, 2, 'exit status')
    t.match('--log-format takes auto, text or json, not: xml', res.err)


# ---- --user ----

UID, GID = 65534, 65533  # a number without a group of its own


def identity(target):
    lines = dict(line.split(':', 1) for line in target.proc('status').splitlines())
    return {key: lines[key].split() for key in ('Uid', 'Gid', 'Groups', 'CapPrm', 'CapEff')}


@test
def root_becomes_another_user_and_serves(t):
    requires_root()
    os.chmod(t.dir, 0o711)
    ns = t.namespace()
    config = t.config([ns, t.namespace(2, path=t.path('later.img'))])
    for path in (ns['path'], t.path('later.img')):
        with open(path, 'wb') as f:
            f.truncate(16 << 20)
        os.chown(path, UID, GID)
        os.chmod(path, 0o600)
    target = t.target(config=config, args=('--user', f'{UID}:{GID}'))
    t.eq(identity(target), {'Uid': [str(UID)] * 4, 'Gid': [str(GID)] * 4, 'Groups': [str(GID)], 'CapPrm': ['0' * 16],
                            'CapEff': ['0' * 16]})
    # The files of a process that its user may not trace, and that leaves no core dump, belong to root.
    t.eq(os.stat(f'/proc/{target.pid}/environ').st_uid, UID, 'owner of /proc/PID/environ')
    exercise(target)


@test
def a_user_has_its_groups(t):
    requires_root()
    os.chmod(t.dir, 0o711)
    target = t.target([memory(t)], args=('--user', 'daemon'))
    user = pwd.getpwnam('daemon')
    t.eq(identity(target)['Gid'], [str(user.pw_gid)] * 4)
    t.eq(sorted(identity(target)['Groups']), sorted(map(str, os.getgrouplist('daemon', user.pw_gid))))


@test
def what_a_user_may_not_open_is_found(t):
    requires_root()
    os.chmod(t.dir, 0o711)
    config = t.config([t.namespace(path=t.path('root.img'), create=False, size=None)],
                      target={'start': 'all-or-nothing'})
    with open(t.path('root.img'), 'wb') as f:
        f.truncate(16 << 20)
    os.chmod(t.path('root.img'), 0o600)
    t.eq(t.run([program('rdtarget'), '--check=full', config]).rc, 0, 'as root')
    for check in (['--check=full'], []):
        res = t.run([program('rdtarget'), *check, '--user', f'{UID}:{GID}', config])
        t.eq(res.rc, 1, 'exit status')
        t.match(f'root.img: permission denied for user {UID}; allow', res.err)


def without_setuid():
    """root, but in a container that does not allow another user."""
    for capability in (6, 7):  # CAP_SETGID, CAP_SETUID
        ctypes.CDLL(None).prctl(24, capability)  # PR_CAPBSET_DROP


@each(('a name', 'no-such-user', None, '--user: there is no user "no-such-user"; make it'),
      ('a group', 'daemon:no-such-group', None, '--user: there is no group "no-such-group"; make it'),
      ('no group', 'daemon:', None, '--user: there is no group ""'),
      ('a number', '4000000001', None, 'no user has the number 4000000001.*expected 4000000001:GROUP'),
      ('no permission', 'daemon', without_setuid, '--user daemon: cannot become.*Operation not permitted; start rdtarget as root'))
def a_user_is_refused_by(t, user, before, text):
    requires_root()
    res = t.run([program('rdtarget'), '--user', user, t.config([memory(t)])], preexec_fn=before)
    t.eq(res.rc, 1, 'exit status')
    t.match(text, res.err)


@test
def capabilities_do_not_make_another_user(t):
    """They would stay: only root loses them when it becomes another user."""
    requires_root()
    os.chmod(t.dir, 0o711)
    config = t.config([memory(t)])
    caps = '+setuid,+setgid'
    as_user = ['setpriv', f'--reuid={UID}', f'--regid={GID}', '--clear-groups', f'--inh-caps={caps}', f'--ambient-caps={caps}']
    if t.run([*as_user, 'test', '-x', program('rdtarget')]).rc:
        raise Skip(f'user {UID} cannot execute {program("rdtarget")}')
    for user, rc in ((f'{UID}:{GID}', 0), ('daemon', 1)):
        res = t.run([*as_user, program('rdtarget'), '--check', '--user', user, config])
        t.eq(res.rc, rc, f'exit status with --user {user}: {res.err}')
    t.match('--user daemon: cannot become.*Operation not permitted; start rdtarget as root, or without --user', res.err)


if __name__ == '__main__':
    sys.exit(main())
