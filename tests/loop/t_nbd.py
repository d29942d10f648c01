# SPDX-License-Identifier: BSD-3-Clause
"""NBD servers for namespaces: nbdkit with a file, or with a file and scripts for its calls."""

import os
import signal
import socket

from t_loop import program, requires_program, wait_for
from t_storage import MIB

# What a process says when it has a connection that another one had before.
CONNECTED = 'connected in place of the process before'


class Server:
    """nbdkit with a file, on a socket of the test's directory. The filter fua hides the support of FUA."""

    def __init__(self, t, size=16 * MIB, args=(), more=(), plugin=None):
        program('rdtarget_nbd')
        self.t, self.args, self.more, self.plugin = t, args, more, plugin
        self.binary = requires_program('nbdkit')
        self.socket, self.image = t.path('nbd.sock'), t.path('export.img')
        with open(self.image, 'wb') as f:
            f.truncate(size)
        self.count = 0
        self.proc = None

    @property
    def uri(self):
        return f'nbd+unix:///?socket={self.socket}'

    def start(self, **keys):
        """With @keys: other arguments from now on."""
        vars(self).update(keys)
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        self.count += 1
        self.proc = self.t.spawn(f'nbdkit{self.count}', [self.binary, '-f', '--exit-with-parent', '-U', self.socket,
                                                         *self.args, *(self.plugin or ('file', self.image)), *self.more])
        wait_for(lambda: os.path.exists(self.socket), 'nbdkit to listen')
        return self

    def start_tcp(self):
        """Listening on TCP, on a port of the kernel's choice. Returns the URI."""
        sock = socket.create_server(('127.0.0.1', 0))
        self.t.cleanup(sock.close)
        self.t.spawn('nbdkit-tcp', ['sh', '-c', f'exec env LISTEN_PID=$$ LISTEN_FDS=1 "$@" 3<&{sock.fileno()}', 'sh', self.binary,
                                    '-f', '--exit-with-parent', *self.args, *(self.plugin or ('file', self.image)), *self.more],
                     pass_fds=(sock.fileno(),))
        return 'nbd://127.0.0.1:%d' % sock.getsockname()[1]

    def fall_silent(self):
        """Stop it; the threads stop one after the other."""
        self.proc.signal(signal.SIGSTOP)
        tasks = f'/proc/{self.proc.popen.pid}/task'

        def is_stopped(task):
            with open(f'{tasks}/{task}/stat', encoding='ascii') as f:
                return f.read().rpartition(') ')[2][0] == 'T'
        wait_for(lambda: all(map(is_stopped, os.listdir(tasks))), 'nbdkit to stop')

    def namespace(self, nsid=1, **keys):
        return {'nsid': nsid, 'backend': 'nbd', 'uri': self.uri, **keys}

    def data(self):
        with open(self.image, 'rb') as f:
            return f.read()


class Qemu(Server):
    """qemu-nbd for one client: the next one waits until that has gone."""

    def start(self):
        self.proc = self.t.spawn('qemu-nbd', [requires_program('qemu-nbd'), '--shared=1', '--persistent', '--format=raw',
                                              f'--socket={self.socket}', self.image])
        wait_for(lambda: os.path.exists(self.socket), 'qemu-nbd to listen')
        return self


def nbdkit(t):
    return Server(t).start()


def refuses_a_second(t):
    """It closes the connection of a second client at once."""
    return Server(t, args=('--filter=limit',), more=('limit=1',)).start()


# With one client at a time, but for the first one.
NBD_SERVERS = (('nbdkit', nbdkit), ('a server that refuses a second client', refuses_a_second),
               ('qemu-nbd for one client', lambda t: Qemu(t).start()))


def evaluates(path, **calls):
    """The plugin eval, with the file @path as its export."""
    calls = {'get_size': f'stat -c %s {path}', 'pread': f'dd if={path} iflag=skip_bytes,count_bytes skip=$4 count=$3',
             'pwrite': f'dd of={path} oflag=seek_bytes conv=notrunc seek=$4', 'can_write': 'exit 0', **calls}
    return 'eval', *(f'{name}={script}' for name, script in calls.items())
