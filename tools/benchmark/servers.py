# SPDX-License-Identifier: BSD-3-Clause
"""The servers that are compared, each started once and then left to serve."""

import os
import re
import shutil
import signal
import socket
import subprocess

import netns
from procs import Failed, Server, run

NQN = 'nqn.2024-01.io.rdnvme:bench'
TLS_NQN, TLS_HOST = f'{NQN}-tls', 'nqn.2024-01.io.rdnvme:bench-host'
IQN = 'iqn.2024-01.io.rdnvme:bench'
# The size of null and memory namespaces, and the part of them that is used.
NULL_SIZE = 1 << 40
MEMORY_SIZE = 64 << 20

NSIDS = {'null': 1, 'memory': 2, 'io_uring': 3, 'aio': 4, 'rbd': 1}


def _connects(port):
    def ready(_server):
        with socket.socket() as sock:
            return sock.connect_ex(('127.0.0.1', port)) == 0
    return ready


def find(name):
    path = shutil.which(name, path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')
    if not path:
        raise Failed(f'{name} is not installed')
    return path


# ---- rdtarget ----

def _namespaces(engine, path):
    """The namespaces of a configuration: the file alone, or null and memory, which need no storage of the machine."""
    if engine:
        yield f'      - nsid: {NSIDS[engine]}\n        backend: file\n        path: "{path}"\n        engine: {engine}\n'
        return
    yield f'      - nsid: {NSIDS["null"]}\n        backend: "null"\n        size: {NULL_SIZE}\n'
    yield f'      - nsid: {NSIDS["memory"]}\n        backend: memory\n        size: {MEMORY_SIZE}\n'


def config(namespaces, queue_depth, io_queues, tls='off'):
    """A subsystem for any host, on both transports."""
    return (f'target:\n  reactors: 1\n  queue_depth: {queue_depth}\n  io_queues: {io_queues}\n'
            'listeners:\n  - {address: 127.0.0.1, port: 0, provider: iwarp}\n'
            f'  - {{address: 127.0.0.1, port: 0, transport: tcp, tls: "{tls}"}}\n'
            f'subsystems:\n  - nqn: {NQN}\n    allow_any_host: true\n    namespaces:\n' + ''.join(namespaces))


def _tls_subsystem(key):
    """For a host with this key of TLS."""
    return (f'  - nqn: {TLS_NQN}\n    hosts: ["{TLS_HOST}"]\n    host_auth:\n'
            f'      - {{host: "{TLS_HOST}", tls_key_file: "{key}"}}\n'
            f'    namespaces:\n      - {{nsid: 1, backend: "null", size: {NULL_SIZE}}}\n')


class Rdtarget:
    """One reactor; everything else is the default, the spinning as well."""

    def __init__(self, setup, name, engine='', queue_depth=256, io_queues=128):
        path = os.path.join(setup.work, f'{name}.yaml')
        namespaces = _namespaces(engine, setup.file(engine) if engine else None)
        self.host, self.tls_key = TLS_HOST, os.path.join(setup.work, f'{name}.tls.key')
        with open(self.tls_key, 'w', encoding='utf-8', opener=lambda file, flags: os.open(file, flags, 0o600)) as f:
            f.write(run('rdinit gen-tls-key', [setup.program('initiator/rdinit'), 'gen-tls-key'], None, 1).out)
        with open(path, 'w', encoding='utf-8') as f:
            f.write(config(namespaces, queue_depth, io_queues, 'allowed') + _tls_subsystem(self.tls_key))
        self.start(setup, name, path, setup.server_cpu)

    def start(self, setup, name, path, cpu):
        self.process = Server(name, [setup.program('target/rdtarget'), '--exit-with-parent', '-c', path], cpu,
                              ready=lambda s: re.search(r'\bready$', s.text(), re.M))
        ports = {kind: port for port, kind in re.findall(r'listening on \S+:(\d+) \((\w+)\)', self.process.text())}
        self.address = f'nvme+rdma://127.0.0.1:{ports["iwarp"]}'
        self.tcp_address = f'nvme+tcp://127.0.0.1:{ports["tcp"]}'

    def uri(self, kind='null'):
        return f'{self.address}/{NQN}/{NSIDS[kind]}'

    def tcp_uri(self, kind='null'):
        return f'{self.tcp_address}/{NQN}/{NSIDS[kind]}'

    def tls_uri(self, kind='null'):
        return f'{self.tcp_address}/{TLS_NQN}/{NSIDS[kind]}'

    def stop(self):
        self.process.stop()


# ---- nbdkit ----

class Nbdkit:
    def __init__(self, setup, kind, path=None):
        port = netns.free_port()
        plugin = {'null': ['null', f'size={NULL_SIZE}'], 'memory': ['memory', f'size={MEMORY_SIZE}'],
                  'file': ['file', f'file={path}']}[kind]
        self.process = Server(f'nbdkit {kind}', [find('nbdkit'), '--foreground', '--exit-with-parent',
                                                 '--ipaddr', '127.0.0.1', '--port', port, *plugin],
                              setup.server_cpu, ready=_connects(port))
        self.address = f'nbd://127.0.0.1:{port}'

    def uri(self, _kind=None):
        return self.address

    def stop(self):
        self.process.stop()


# ---- tgt ----

class Tgt:
    """iSCSI, with tgt's null backing store. Its control socket is in our directory, so it does not disturb another tgt.
    It ignores SIGTERM as long as it has targets."""

    def __init__(self, setup):
        daemon, self.admin = setup.tool('tgtd'), setup.tool('tgtadm')
        port = netns.free_port()
        self.env = {'TGT_IPC_SOCKET': os.path.join(setup.work, 'tgt.sock')}
        self.process = Server('tgtd', [daemon, '-f', '-C', '7', '--iscsi', f'portal=127.0.0.1:{port}'],
                              setup.server_cpu, ready=_connects(port), env=self.env, stop=signal.SIGKILL)
        self.address = f'iscsi://127.0.0.1:{port}/{IQN}/1'
        try:
            self._admin('--mode', 'target', '--op', 'new', '--tid', '1', '-T', IQN)
            self._admin('--mode', 'logicalunit', '--op', 'new', '--tid', '1', '--lun', '1', '--bstype', 'null',
                        '--backing-store', 'null')
            self._admin('--mode', 'target', '--op', 'bind', '--tid', '1', '-I', 'ALL')
        except BaseException:
            self.stop()
            raise

    def _admin(self, *args):
        res = subprocess.run([self.admin, '-C', '7', '--lld', 'iscsi', *args], capture_output=True, text=True,
                             env={**os.environ, **self.env}, timeout=30, check=False)
        if res.returncode:
            raise Failed(f'tgtadm {" ".join(args)}: {(res.stderr or res.stdout).strip()}')

    def uri(self, _kind=None):
        return self.address

    def stop(self):
        self.process.stop()


# ---- files ----

def make_file(path, size):
    """A file whose every block has been written, so that reads go to the disk."""
    chunk = os.urandom(1 << 20)
    with open(path, 'wb') as f:
        for _ in range(size >> 20):
            f.write(chunk)
        f.flush()
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
