# SPDX-License-Identifier: BSD-3-Clause
"""Targets whose namespaces are images of this program's Ceph cluster."""

from t_ceph import POOL, cluster
from t_control import Control


def configured(t, namespaces, *, name='rdtarget.yaml', ceph=(), **kw):
    """A configuration with this program's cluster and a control socket. Returns its path."""
    more = {'ceph': [dict(cluster().gateway(), **dict(ceph))],
            'control': {'socket': t.path(name.replace('yaml', 'sock'))}}
    return t.config(namespaces, name=name, more=more, **kw)


def serve(t, namespaces, *, name='rdtarget', **kw):
    return t.target(config=configured(t, namespaces, name=f'{name}.yaml', **kw), name=name)


def control(t, name='rdtarget'):
    return Control(t.path(f'{name}.sock'))


def export(t, image):
    """What Ceph's own client reads from it."""
    path = t.path(f'{image}.raw')
    cluster().run('rbd', 'export', '--no-progress', f'{POOL}/{image}', path)
    with open(path, 'rb') as f:
        return f.read()
