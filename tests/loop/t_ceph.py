# SPDX-License-Identifier: BSD-3-Clause
"""A Ceph cluster of one monitor and one OSD in memory, made of Debian's packages, without root."""

import atexit
import contextlib
import ctypes
import datetime
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import uuid

from t_loop import DEADLINE, Failure, program, requires_program, wait_for

POOL = 'rbd'
AWAY = 'away'  # a pool for tests that stop it
PR_SET_PDEATHSIG = 1


def _free_ports(count):
    socks = [socket.socket() for _ in range(count)]
    for sock in socks:
        sock.bind(('127.0.0.1', 0))
    ports = [sock.getsockname()[1] for sock in socks]
    for sock in socks:
        sock.close()
    return ports


def _end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


# Makes many images faster than the command rbd, which connects for each. Its arguments: pool, count, size, name.
MAKE_IMAGES = """
import ctypes, sys
rados, rbd = ctypes.CDLL('librados.so.2'), ctypes.CDLL('librbd.so.1')
cluster, io, order = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int(0)
rbd.rbd_create2.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p]
def check(rc):
    if rc < 0:
        sys.exit(f'error {-rc}')
check(rados.rados_create(ctypes.byref(cluster), b'admin'))
check(rados.rados_conf_read_file(cluster, None))
check(rados.rados_connect(cluster))
check(rados.rados_ioctx_create(cluster, sys.argv[1].encode(), ctypes.byref(io)))
for i in range(int(sys.argv[2])):
    check(rbd.rbd_create2(io, f'{sys.argv[4]}-{i}'.encode(), int(sys.argv[3]), 5, ctypes.byref(order)))
rados.rados_ioctx_destroy(io)
rados.rados_shutdown(cluster)
"""  # 5: layering and exclusive-lock


class Cluster:
    """Ended when the program ends. Images are made by image(), each for one test."""

    def __init__(self):
        program('rdtarget_rbd')
        for name in ('ceph-mon', 'ceph-osd', 'ceph', 'rbd', 'monmaptool', 'ceph-authtool'):
            requires_program(name)
        self.dir = tempfile.mkdtemp(prefix='rdnvme-ceph-', dir=os.environ.get('TMPDIR', '/var/tmp'))
        self.conf = os.path.join(self.dir, 'ceph.conf')
        self.keyring = os.path.join(self.dir, 'keyring')
        self.gateway_keyring = None
        self.daemons = {}
        self.images = 0
        atexit.register(self.close)
        self._configure()
        self._start()

    def _configure(self):
        for name in ('mon', 'osd', 'run', 'log'):
            os.mkdir(os.path.join(self.dir, name))
        self.fsid = str(uuid.uuid4())
        self.ports = _free_ports(2)
        addr = f'[v2:127.0.0.1:{self.ports[0]},v1:127.0.0.1:{self.ports[1]}]'
        keys = {
            'fsid': self.fsid, 'mon host': addr,
            'keyring': self.keyring, 'run dir': f'{self.dir}/run',
            'admin socket': f'{self.dir}/run/$cluster-$name.$pid.asok',
            'log file': f'{self.dir}/log/$name.log', 'pid file': f'{self.dir}/run/$name.pid',
            'osd pool default size': 1, 'osd pool default min size': 1,
            'osd pool default pg num': 8, 'osd crush chooseleaf type': 0,
            'mon allow pool size one': 'true', 'mon data avail warn': 1, 'mon data avail crit': 1,
            'mon data': f'{self.dir}/mon', 'osd data': f'{self.dir}/osd',
            'osd objectstore': 'memstore', 'memstore device bytes': 2 << 30,
            'osd memory target': 939524096, 'public addr': '127.0.0.1',
            'cluster addr': '127.0.0.1', 'ms bind ipv6': 'false', 'mgr initial modules': '',
            # The lease of reads is 0.8 of it. A single OSD that was stopped for longer does not serve any more.
            'osd heartbeat grace': 3600,
            # layering and exclusive-lock: gateways refuse an object map.
            'rbd default features': 5,
            'osd class load list': '*', 'osd class default list': '*', 'osd op num shards': 2,
        }
        # cephx is on by default.
        with open(self.conf, 'w', encoding='ascii') as f:
            f.write('[global]\n' + ''.join(f'{key} = {value}\n' for key, value in keys.items()))
        self.addr = addr

    def run(self, *argv, input=None):
        """A command of Ceph; returns its output."""
        try:
            res = subprocess.run([str(a) for a in argv], env=dict(os.environ, CEPH_CONF=self.conf), input=input,
                                 capture_output=True, text=True, timeout=DEADLINE, check=False)
        except subprocess.TimeoutExpired as e:
            raise Failure(f'{" ".join(map(str, argv))}: did not end') from e
        if res.returncode:
            raise Failure(f'{" ".join(map(str, argv))}: exit {res.returncode}\n{res.stderr}')
        return res.stdout

    def _daemon(self, name, *argv):
        with open(os.path.join(self.dir, 'log', name + '.out'), 'ab') as log:
            self.daemons[name] = subprocess.Popen(argv, env=dict(os.environ, CEPH_CONF=self.conf), stdout=log,
                                                  stderr=log, stdin=subprocess.DEVNULL,
                                                  preexec_fn=_end_with_parent)

    def _keys(self):
        """The keys of the daemons and of the administrator."""
        everything = ('--cap', 'mon', 'allow *', '--cap', 'osd', 'allow *', '--cap', 'mgr', 'allow *')
        for name, caps in (('mon.', ('--cap', 'mon', 'allow *')), ('client.admin', everything),
                           ('osd.0', ('--cap', 'mon', 'allow profile osd', '--cap', 'osd', 'allow *'))):
            self.run('ceph-authtool', *(() if os.path.exists(self.keyring) else ('--create-keyring',)), self.keyring,
                     '--gen-key', '-n', name, *caps)

    def user(self, name, **caps):
        """A user with these capabilities; returns the path of its keyring."""
        path = os.path.join(self.dir, f'{name}.keyring')
        pairs = [x for pair in caps.items() for x in pair]
        with open(path, 'w', encoding='ascii') as f:
            f.write(self.run('ceph', 'auth', 'get-or-create', f'client.{name}', *pairs))
        return path

    def gateway(self):
        """A cluster in a configuration, with a user with the capabilities that the manual names, and no more."""
        if not self.gateway_keyring:
            self.gateway_keyring = self.user('gateway', mon='profile rbd',
                                             osd=f'profile rbd pool={POOL}, profile rbd pool={AWAY}')
        return {'name': 'test', 'conf': self.conf, 'user': 'gateway', 'keyring': self.gateway_keyring}

    def _start(self):
        self._keys()
        self.run('monmaptool', '--create', '--clobber', '--fsid', self.fsid, '--addv', 'a', self.addr,
                 f'{self.dir}/monmap')
        self.run('ceph-mon', '-i', 'a', '--mkfs', '--monmap', f'{self.dir}/monmap', '--keyring', self.keyring)
        self._daemon('mon', 'ceph-mon', '-i', 'a', '-f')
        self.run('ceph', 'mon', 'stat')
        osd = str(uuid.uuid4())
        self.run('ceph', 'osd', 'new', osd)
        self.run('ceph-osd', '-i', '0', '--mkfs', '--osd-uuid', osd, '--keyring', self.keyring)
        self._daemon('osd', 'ceph-osd', '-i', '0', '-f')
        wait_for(lambda: '1 up' in self.run('ceph', 'osd', 'stat'), 'the OSD to be up')
        self.run('ceph', 'osd', 'pool', 'create', POOL, '8', '8')
        self.run('rbd', 'pool', 'init', POOL)

    def image(self, size='64M', *args):
        """Make an image; returns its name."""
        self.images += 1
        name = f'img{self.images}'
        self.run('rbd', 'create', '--size', size, *args, f'{POOL}/{name}')
        return name

    def many_images(self, count, size):
        """Make images of this many bytes; returns their names."""
        self.images += 1
        name = f'img{self.images}'
        self.run(sys.executable, '-c', MAKE_IMAGES, POOL, count, size, name)
        return [f'{name}-{i}' for i in range(count)]

    def namespace(self, nsid, image, **keys):
        """One namespace's configuration."""
        rbd = {'pool': POOL, 'image': image, **keys.pop('rbd', {})}
        return {'nsid': nsid, 'backend': 'rbd', 'rbd': rbd, **keys}

    def signal(self, name, sig):
        os.kill(self.daemons[name].pid, sig)

    def block(self, address):
        """Add a client's address to the blocklist."""
        self.run('ceph', 'osd', 'blocklist', 'add', address)

    @contextlib.contextmanager
    def full(self):
        """No pool has space: an operation that needs some fails, or waits."""
        def ratios(*values):
            for name, value in zip(('nearfull', 'backfillfull', 'full'), values):
                self.run('ceph', 'osd', f'set-{name}-ratio', value)

        def is_full():
            pools = json.loads(self.run('ceph', 'osd', 'dump', '--format', 'json'))['pools']
            return any('full' in x['flags_names'].split(',') for x in pools if x['pool_name'] == POOL)
        self.run('rados', '-p', POOL, 'put', 'large', '-', input='x' * (8 << 20))
        ratios(0.0001, 0.0002, 0.0003)
        try:
            wait_for(is_full, 'the pool to be full')
            yield
        finally:
            ratios(0.85, 0.9, 0.95)
            wait_for(lambda: not is_full(), 'the pool to have space')
            self.run('rados', '-p', POOL, 'rm', 'large')

    def epoch(self):
        """The number of the map of OSDs."""
        return json.loads(self.run('ceph', 'osd', 'dump', '--format', 'json'))['epoch']

    def blocked_for(self, address):
        """Seconds for which Ceph will block this address."""
        for line in self.run('ceph', 'osd', 'blocklist', 'ls').splitlines():
            if line.split()[0] == address:
                until = datetime.datetime.strptime(line.split()[1], '%Y-%m-%dT%H:%M:%S.%f%z')
                return (until - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
        raise Failure(f'{address} is not blocked')

    def lock_owner(self, image):
        """The address of the client that has the exclusive lock."""
        return json.loads(self.run('rbd', 'lock', 'ls', '--format', 'json', f'{POOL}/{image}'))[0]['address']

    def watchers(self, image):
        """The addresses of clients that have the image open."""
        text = self.run('rbd', 'status', f'{POOL}/{image}')
        return [word.split('=', 1)[1] for word in text.split() if word.startswith('watcher=')]

    def close(self):
        for name in ('osd', 'mon'):
            proc = self.daemons.pop(name, None)
            if proc:
                proc.kill()  # also when it is stopped; its data is not kept
                proc.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


_shared = []


def cluster():
    """The cluster of this test program, which the first test makes."""
    if not _shared:
        _shared.append(Cluster())
    return _shared[0]
