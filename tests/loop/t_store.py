# SPDX-License-Identifier: BSD-3-Clause
"""A service manager with a store of file descriptors, as sd_notify(3) and sd_listen_fds(3) describe it."""

import array
import json
import os
import socket
import sys
import threading

from t_loop import DEADLINE, Failure, program

# What a service manager does between fork and exec: the descriptors from 3 on, and the variables about them.
STARTER = '''#!{python} -ES
import fcntl, os, sys
given = [pair.split(':') for pair in os.environ.pop('STORED').split()]
high = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 3 + 2 * len(given) + 64) for fd, _ in given]
for fd, _ in given:
    os.close(int(fd))
for at, fd in enumerate(high):
    os.dup2(fd, 3 + at)
    os.close(fd)
if given:
    os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(given)), LISTEN_FDNAMES=':'.join(n for _, n in given))
os.execv({program!r}, ['rdtarget', *sys.argv[1:]])
'''


class Manager:
    """The store is a list of (name, descriptor), and keeps at most @most of them."""

    def __init__(self, t, most=512):
        self.t, self.most = t, most
        self.store, self.barriers = [], []
        self.deaf = False  # removals and barriers are not handled: whoever asks waits
        self.came = threading.Condition()
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(t.path('manager.sock'))
        self.starter = t.path('starter')
        with open(self.starter, 'w', encoding='ascii') as f:
            f.write(STARTER.format(python=sys.executable, program=program('rdtarget')))
        os.chmod(self.starter, 0o755)
        threading.Thread(target=self._run, daemon=True).start()
        t.cleanup(self.close)

    def close(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.sendto(b'', self.t.path('manager.sock'))

    def _run(self):
        while True:
            data, ancillary, _, _ = self.sock.recvmsg(4096, socket.CMSG_SPACE(253 * 4))
            fds = array.array('i')
            for _, _, value in ancillary:
                fds.frombytes(value[:len(value) - len(value) % fds.itemsize])
            if not data:
                break
            lines = data.decode().splitlines()
            with self.came:
                self._handle(dict(line.split('=', 1) for line in lines), list(fds))
                self.came.notify_all()
        with self.came:
            self.clear()
            self.answer()
            self.sock.close()

    def _handle(self, message, fds):
        name = message.get('FDNAME', 'stored')
        if message.get('FDSTORE') == '1':
            fds.reverse()  # no order is promised
            while fds and len(self.store) < self.most:
                self.store.append((name, fds.pop()))
        elif 'FDSTOREREMOVE' in message and not self.deaf:
            for fd in [fd for other, fd in self.store if other == name]:
                os.close(fd)
            self.store = [pair for pair in self.store if pair[0] != name]
        elif 'BARRIER' in message:
            self.barriers += fds
            fds = []
            if not self.deaf:
                self.answer()
        for fd in fds:
            os.close(fd)

    def answer(self):
        for fd in self.barriers:
            os.close(fd)
        self.barriers = []

    def clear(self):
        for _, fd in self.store:
            os.close(fd)
        self.store = []

    def asked(self):
        """Wait until somebody waits for a barrier that is not answered."""
        with self.came:
            if not self.came.wait_for(lambda: self.barriers, DEADLINE):
                raise Failure('nobody waits for the service manager')

    def hears(self):
        with self.came:
            self.deaf = False
            self.answer()

    def names(self):
        with self.came:
            return sorted({name for name, _ in self.store})

    # -- the records --

    def records(self):
        with self.came:
            (fd,) = [fd for name, fd in self.store if name == 'rdtarget-records']
            return os.pread(fd, os.fstat(fd).st_size, 0)

    def rewrite(self, data):
        with self.came:
            (fd,) = [fd for name, fd in self.store if name == 'rdtarget-records']
            os.ftruncate(fd, 0)
            os.pwrite(fd, data if isinstance(data, bytes) else json.dumps(data).encode(), 0)

    # -- processes --

    def how(self, **variables):
        """What a process is started with."""
        env = dict(os.environ, NOTIFY_SOCKET=self.t.path('manager.sock'), **variables)
        with self.came:
            env['STORED'] = ' '.join(f'{fd}:{name}' for name, fd in self.store)
            return {'env': env, 'pass_fds': [fd for _, fd in self.store]}

    def start(self, config, name='rdtarget', args=(), preexec_fn=None, **variables):
        return self.t.target(config=config, name=name, binary=self.starter, args=args, preexec_fn=preexec_fn,
                             **self.how(**variables))

    def spawn(self, config, name, *args):
        """Without the wait until it serves."""
        return self.t.spawn(name, [self.starter, '-c', config, '--exit-with-parent', '--log', 'debug', *args], **self.how())
