# SPDX-License-Identifier: BSD-3-Clause
"""rdtarget with TLS, for tests of programs that use librdinit."""

from t_auth import key_file
from tls_peer import key_text

HOST = 'nqn.2024-01.test:host'
SECRET, OTHER_SECRET, THIRD_SECRET = (bytes(range(n, n + 32)) for n in (1, 2, 3))


def key(t, secret=SECRET, name='tls.key'):
    """A key file."""
    return key_file(t, name, key_text(secret, 1))


def serve(t, namespaces=None, *, secret=SECRET, name='rdtarget', tls='required', **kw):
    """HOST may connect, with the key in NAME.tls.key; the configuration is NAME.yaml."""
    auth = [{'host': HOST, 'tls_key_file': key(t, secret, f'{name}.tls.key')}]
    kw.setdefault('listener', {'transport': 'tcp', 'tls': tls})
    return t.target(namespaces or [t.namespace(backend='memory')], name=name, more={'discovery': {'host_auth': auth}},
                    subsystem={'allow_any_host': False, 'hosts': [HOST], 'host_auth': auth}, **kw)


def uri(target, nsid=1, **kw):
    return target.uri(nsid, **kw).replace('nvme+rdma', 'nvme+tcp')
