# SPDX-License-Identifier: BSD-3-Clause
"""TLS for a host in Python: keys and identities are derived here a second time, and `openssl s_client` or `gnutls-cli`
encrypts. A peer is a socket whose other end is standard input and output of that program."""

import base64
import hashlib
import hmac
import socket
import subprocess
import zlib

import iwarp_peer as iw
import tcp_peer as tcp
from t_loop import requires_program

HASHES = {1: hashlib.sha256, 2: hashlib.sha384}


def key_text(secret, key_hash):
    check = zlib.crc32(secret).to_bytes(4, 'little')
    return f'NVMeTLSkey-1:{key_hash:02}:{base64.b64encode(secret + check).decode()}:'


def _derive(digest, compat, key, label, context):
    """HKDF-Expand-Label of one block. @compat: without length bytes, as libnvme before 1.14."""
    size = digest().digest_size
    prk = hmac.new(bytes(size), key, digest).digest()
    label, context = b'tls13 ' + label, context.encode()
    if compat:
        info = size.to_bytes(2, 'little') + label + context
    else:
        info = size.to_bytes(2, 'big') + bytes([len(label)]) + label + bytes([len(context)]) + context
    return hmac.new(prk, info + b'\1', digest).digest()


def psk(secret, subnqn, hostnqn, *, version=1, kind='R', key_hash=1, compat=False):
    """Returns the identity and the PSK of a configured key with the hash @key_hash."""
    digest = HASHES[key_hash]
    retained = _derive(digest, compat, secret, b'HostNQN', hostnqn)
    identity, context = f'NVMe{version}{kind}{key_hash:02} {hostnqn} {subnqn}', None
    if version:
        names = f'{hostnqn} {subnqn} NVMe-over-Fabrics'.encode()
        text = base64.b64encode(hmac.new(retained, names, digest).digest()).decode()
        identity, context = f'{identity} {text}', f'{key_hash:02} {text}'
    return identity, _derive(digest, compat, retained, b'nvme-tls-psk', context or identity)


def _openssl(addr, port, identity, key, extra):
    return [requires_program('openssl'), 's_client', '-quiet', '-nocommands', '-tls1_3', '-connect', f'{addr}:{port}',
            '-psk_identity', identity, '-psk', key.hex(), *extra]


def _gnutls(addr, port, identity, key, extra):
    return [requires_program('gnutls-cli'), '--logfile=/dev/stderr', '--no-ca-verification', '--pskusername', identity,
            '--pskkey', key.hex(), '--priority', 'NORMAL:-VERS-ALL:+VERS-TLS1.3:-KX-ALL:+ECDHE-PSK:+DHE-PSK',
            '--port', str(port), addr, *extra]


CLIENTS = {'openssl': _openssl, 'gnutls': _gnutls}


class Tls:
    """A socket to a target through a TLS client; the program ends with it."""

    def __init__(self, t, addr, port, identity, key, *, client='openssl', extra=()):
        self.sock, other = socket.socketpair()
        with other:
            self.popen = subprocess.Popen(CLIENTS[client](addr, port, identity, key, extra), stdin=other, stdout=other,
                                          stderr=subprocess.PIPE)
        t.cleanup(self.end)

    def end(self):
        self.sock.close()
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        self.popen.stderr.close()

    def refusal(self):
        """What the client says when the target has refused it."""
        try:
            self.sock.settimeout(20)
            if self.sock.recv(1):
                raise iw.PeerError('the target sent data, expected a refusal')
        except ConnectionError:
            pass
        return self.popen.stderr.read().decode(errors='replace')


def host(t, target, identity, key, subnqn, hostnqn, *, client='openssl', extra=(), **kw):
    """tcp_peer.Host, each of whose queues is a connection with TLS."""

    class Queue(tcp.Queue):
        @classmethod
        def dial(cls, addr, port, qid=0, *, depth=32, **agreed):
            conn = tcp.Conn(Tls(t, addr, port, identity, key, client=client, extra=extra).sock)
            return cls(tcp.agree(conn, **agreed), qid, depth)

    class Host(tcp.Host):
        queue_class = Queue

    made = Host(target.addr, target.port, subnqn, hostnqn=hostnqn, **kw)
    t.cleanup(made.close)
    return made
