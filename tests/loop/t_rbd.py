# SPDX-License-Identifier: BSD-3-Clause
"""Targets whose namespaces are images of this program's Ceph cluster."""

import ctypes
import os

from t_ceph import POOL, cluster
from t_control import Control
from t_loop import Skip, wait_for

PTRACE_CONT, PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 7, 17, 0x4206, 0x4207, 0x40000000
EPOLL = ('232', '281', '22')  # system calls of x86-64 and arm64


def configured(t, namespaces, *, name='rdtarget.yaml', ceph=(), **kw):
    """A configuration with this program's cluster and a control socket. Returns its path."""
    more = {'ceph': [dict(cluster().gateway(), **dict(ceph))],
            'control': {'socket': t.path(name.replace('yaml', 'sock'))}}
    return t.config(namespaces, name=name, more=more, **kw)


def serve(t, namespaces, *, name='rdtarget', **kw):
    return t.target(config=configured(t, namespaces, name=f'{name}.yaml', **kw), name=name)


def control(t, name='rdtarget'):
    return Control(t.path(f'{name}.sock'))


class CutOff:
    """The threads of @target that talk with the cluster stand still, where they have no lock: it is cut off, and its
    hosts are not."""

    def __init__(self, t, target):
        self.trace = ctypes.CDLL(None, use_errno=True).ptrace
        self.trace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.held = []
        t.cleanup(self.end)
        for task in map(int, os.listdir(f'/proc/{target.popen.pid}/task')):
            with open(f'/proc/{target.popen.pid}/task/{task}/comm', encoding='ascii') as f:
                if not f.read().startswith('msgr-worker'):
                    continue
            if self.trace(PTRACE_SEIZE, task, None, None):
                raise Skip(f'ptrace: {os.strerror(ctypes.get_errno())}')
            self.held.append(task)
            wait_for(lambda task=task: self._stops_idle(task), 'a messenger to wait for events')
        t.ok(self.held, 'no thread of the target is named msgr-worker')

    def _stops_idle(self, task):
        self.trace(PTRACE_INTERRUPT, task, None, None)
        os.waitpid(task, WALL)
        with open(f'/proc/{task}/syscall', encoding='ascii') as f:
            idle = f.read().split()[0] in EPOLL
        if not idle:
            self.trace(PTRACE_CONT, task, None, None)
        return idle

    def end(self):
        while self.held:
            self.trace(PTRACE_DETACH, self.held.pop(), None, None)


def export(t, image):
    """What Ceph's own client reads from it."""
    path = t.path(f'{image}.raw')
    cluster().run('rbd', 'export', '--no-progress', f'{POOL}/{image}', path)
    with open(path, 'rb') as f:
        return f.read()
