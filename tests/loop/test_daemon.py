# SPDX-License-Identifier: BSD-3-Clause
"""rdtarget under a service manager: what it is told, its watchdog, and signals."""

import os
import signal
import socket
import sys

import nvmf_peer as nv
from t_loop import DEADLINE, NQN, each, main, test, wait_for
from t_serving import exercise
from t_storage import post_write, stall_env


class Manager:
    """The socket of a service manager, and what came by it."""

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
        """What has come and was not read."""
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


@each(('a path', False), ('an abstract name', True))
def the_service_manager_is_told_by(t, abstract):
    name = t.path('notify')
    manager = Manager(t, '@' + name if abstract else name)
    target = t.target([memory(t)], env=manager.env)
    first = manager.next()
    t.eq(first['READY'], '1')
    t.eq(first['STATUS'], 'serving: 1 listeners, 1 subsystems, 1 namespaces')
    t.config([memory(t), memory(t, nsid=2)])
    target.reload()
    begins, ends = manager.next(), manager.next()
    t.eq(begins['RELOADING'], '1')
    t.ok(int(begins['MONOTONIC_USEC']) > 0, 'no time of the reload')
    t.eq((ends['READY'], ends['STATUS']),
         ('1', 'serving: 1 listeners, 1 subsystems, 2 namespaces; reloaded: 1 namespaces added'))
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


@each(('not a path', {'NOTIFY_SOCKET': 'somewhere'}, 'NOTIFY_SOCKET is "somewhere"'),
      ('nobody there', {'NOTIFY_SOCKET': '/nonexistent/notify'}, 'cannot reach NOTIFY_SOCKET /nonexistent/notify'))
def a_notify_socket_of_no_use_is_said_and_the_target_serves(t, env, says):
    target = t.target([memory(t)], env=dict(os.environ, **env))
    t.match(says, target.text())
    exercise(target)


@test
def the_watchdog_is_fed(t):
    manager = Manager(t, t.path('notify'))
    manager.env['WATCHDOG_USEC'] = '300000'
    t.target([memory(t)], env=manager.env, target={'reactors': 3})
    for _ in range(5):
        manager.until('WATCHDOG')


@test
def the_watchdog_of_another_process_is_not_fed(t):
    manager = Manager(t, t.path('notify'))
    manager.env.update(WATCHDOG_USEC='1000', WATCHDOG_PID='1')
    target = t.target([memory(t)], env=manager.env)
    manager.until('READY')
    exercise(target)
    target.stop()
    manager.until('STOPPING')
    t.eq([m for m in manager.came if 'WATCHDOG' in m], [], 'feedings')


@test
def a_reactor_that_stands_still_starves_the_watchdog(t):
    stall = t.path('stall')
    manager = Manager(t, t.path('notify'))
    target = t.target([t.namespace(1, engine='aio')], target={'reactors': 2},
                      env=stall_env(stall) | manager.env | {'WATCHDOG_USEC': '300000'})
    manager.until('WATCHDOG')
    with nv.Host(target.addr, target.port, NQN) as h:
        h.enable()
        queue = h.add_io()
        open(stall, 'w', encoding='ascii').close()
        since = target.mark()
        cid = post_write(queue, 1, bytes(512))
        wait_for(lambda: os.path.exists(stall + '.in'), 'the reactor to stand still')
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


if __name__ == '__main__':
    sys.exit(main())
