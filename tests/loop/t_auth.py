# SPDX-License-Identifier: BSD-3-Clause
"""Targets that authenticate their hosts, and hosts for them."""

import os
import re

import auth_peer as au
import nvmf_peer as nv
from t_loop import NQN, Failure
from t_serving import Baseline

SECRET, CTRL_SECRET = bytes(range(32)), bytes(range(0x80, 0xA0))


def key_file(t, name, text, mode=0o600):
    path = t.file(name, text.encode() + b'\n')
    os.chmod(path, mode)
    return path


def entry(t, *, host=nv.HOST_NQN, secret=SECRET, key_hash=0, ctrl_secret=None, ctrl_key_hash=0, name='host', **keys):
    """A host in host_auth."""
    one = {'host': host, 'dhchap_key_file': key_file(t, f'{name}.key', au.key_text(secret, key_hash)), **keys}
    if ctrl_secret:
        one['dhchap_ctrl_key_file'] = key_file(t, f'{name}.ctrl.key', au.key_text(ctrl_secret, ctrl_key_hash))
    return one


def subsystem(t, *, hosts=(nv.HOST_NQN,), authentication='required', **kw):
    return {'allow_any_host': False, 'hosts': list(hosts), 'authentication': authentication, 'host_auth': [entry(t, **kw)]}


def serve(t, **kw):
    return t.target([t.namespace(backend='memory')], subsystem=subsystem(t, **kw))


def transaction(queue, secret=SECRET, **kw):
    return au.Transaction(queue, NQN, secret, **kw)


def exercise(target, nsid=1, **auth):
    """A well-behaved host that authenticates itself."""
    with AuthHost(target, **auth) as host:
        host.enable()
        queue, data = host.add_io(), os.urandom(512)
        nv.expect(queue.write_blocks(nsid, 7, data))
        if nv.expect_data(queue.read_blocks(nsid, 7, 1)) != data:
            raise Failure('the well-behaved host read other data than it wrote')
        host.shutdown()


def dumped(proc):
    """(start, bytes) of each mapping of a process that a core dump contains."""
    with open(f'/proc/{proc.pid}/smaps', encoding='ascii', errors='replace') as f:
        parts = re.split(r'(?m)^([0-9a-f]+)-([0-9a-f]+) (\S{4}) ', f.read())
    with open(f'/proc/{proc.pid}/mem', 'rb', buffering=0) as mem:
        for start, end, mode, rest in zip(*[iter(parts[1:])] * 4):
            flags = re.search(r'(?m)^VmFlags:(.*)$', rest)
            if 'r' not in mode or not flags or {'dd', 'io', 'pf'} & set(flags[1].split()):
                continue
            mem.seek(int(start, 16))
            yield start, mem.read(int(end, 16) - int(start, 16))


def baseline(target):
    return Baseline(target, well_behaved=exercise)


class AuthHost(nv.Host):
    """A host that authenticates each of its queues."""

    def __init__(self, target, secret=SECRET, *, subnqn=NQN, hostnqn=nv.HOST_NQN, kato=0, **auth):
        super().__init__(target.addr, target.port, subnqn, hostnqn=hostnqn, kato=kato)
        self.secret, self.auth = secret, {'hostnqn': hostnqn, **auth}

    def authenticate(self, queue):
        return au.Transaction(queue, self.subnqn, self.secret, **self.auth).run()

    def connect(self):
        cqe = nv.expect(self.admin.fabrics_connect(self.data(), kato=self.kato))
        self.cntlid = cqe.dw0 & 0xFFFF
        if cqe.dw0 >> 16 << 16 != au.ATR:
            raise AssertionError(f'dword 0 of the answer to Connect is {cqe.dw0:#x}')
        self.authenticate(self.admin)
        return self

    def connect_io(self, qid=None):
        """A queue that has not authenticated yet."""
        qid = qid or len(self.io) + 1
        queue = self.queue_class.dial(self.addr, self.port, qid)
        self.io.append(queue)
        cqe = nv.expect(queue.fabrics_connect(self.data(cntlid=self.cntlid), in_capsule=True))
        if cqe.dw0 != self.cntlid | au.ATR:
            raise AssertionError(f'dword 0 of the answer to Connect is {cqe.dw0:#x}')
        return queue

    def add_io(self, **kw):
        queue = self.connect_io(**kw)
        self.authenticate(queue)
        return queue
