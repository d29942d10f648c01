# SPDX-License-Identifier: BSD-3-Clause
"""nbdkit with the rdinit plugin as a server, and a client of it that the test controls in each step."""

import os
import re
import socket
import struct
import subprocess

from t_loop import DEADLINE, SANITIZED, Failure, Skip, program, requires_program, wait_for


def sanitizer():
    """The run-time library that the plugin needs in nbdkit, which was built without it; None: none."""
    if not SANITIZED:
        return None
    res = subprocess.run(['ldd', program('nbdkit_rdinit')], capture_output=True, text=True, check=True)
    found = re.search(r'libasan\S* => (\S+)', res.stdout)
    if not found:
        raise Skip('only AddressSanitizer can be loaded into nbdkit')
    return found[1]


def with_unload(env=None):
    """The environment of an nbdkit that tells which threads outlive the plugin (unload.c)."""
    lib = os.environ.get('UNLOAD')
    if not lib:
        raise Skip('unload.c was not built')
    asan = sanitizer()
    libs = [lib, *filter(None, [asan])]
    # nbdkit itself is not what is looked at: what it leaves at its end is no leak of the plugin, and it copies names that do
    # not end by strndup(3). UNLOAD comes before the sanitizer's library, so that it sees who starts a thread.
    options = ':'.join(filter(None, [os.environ.get('ASAN_OPTIONS'), 'verify_asan_link_order=0', 'detect_leaks=0',
                                     'strict_string_checks=0']))
    # With the sanitizer's library preloaded, strerror(3) leaves a lock of the C library as if it was held, with any plugin; an
    # exit handler of p11-kit, which nbdkit is linked with, waits for that lock.
    leave = {'LEAVE': '1'} if asan else {}
    return dict(os.environ, LD_PRELOAD=':'.join(libs), ASAN_OPTIONS=options, **leave, **(env or {}))


class Client:
    """A client of nbdkit's socket that has gone through the handshake, so that the plugin is open for it."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(DEADLINE)
        wait_for(lambda: self.sock.connect_ex(path) == 0, 'nbdkit to listen')  # it binds the socket before it listens
        self.read(18)  # NBDMAGIC, IHAVEOPT, handshake flags
        # NBD_FLAG_C_FIXED_NEWSTYLE and NO_ZEROES; NBD_OPT_EXPORT_NAME: the default export
        self.sock.sendall(struct.pack('>I', 3) + b'IHAVEOPT' + struct.pack('>II', 1, 0))
        self.size, self.flags = struct.unpack('>QH', self.read(10))

    def read(self, n):
        data = b''
        while len(data) < n:
            part = self.sock.recv(n - len(data))
            if not part:
                raise Failure('nbdkit closed the connection')
            data += part
        return data

    def read_to_end(self):
        try:
            while self.sock.recv(1 << 20):
                pass
        except ConnectionResetError:
            pass  # nbdkit ended without reading all requests

    def send_read(self, offset=0, length=512):
        self.sock.sendall(struct.pack('>IHHQQI', 0x25609513, 0, 0, 1, offset, length))

    def close(self):
        self.sock.close()


def serving(t, *params, env=None):
    """An nbdkit that runs until it is told to end: the process, and its socket."""
    path = t.path('nbd.sock')
    proc = t.spawn('nbdkit', [requires_program('nbdkit'), '-f', '-U', path, program('nbdkit_rdinit'), *params], env=env)
    wait_for(lambda: os.path.exists(path) or not proc.running, 'the socket of nbdkit')
    return proc, path
