# SPDX-License-Identifier: BSD-3-Clause
"""TLS of the host: with rdtarget; against the servers of OpenSSL and GnuTLS, and against peers that fail. These do not speak
NVMe: they are about the handshake. The pre-shared keys are derived here a second time."""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import socket
import struct
import sys
import threading
import zlib

import t_schema
import t_tls
from t_loop import each, main, program, requires_program, test, wait_for
from t_proxy import Proxy

HOST = t_tls.HOST
NQN = 'nqn.2024-01.test:disk'
SECRET = bytes(range(1, 33))
KEY = f'NVMeTLSkey-1:01:{base64.b64encode(SECRET + zlib.crc32(SECRET).to_bytes(4, "little")).decode()}:'
V1, V0, OLD_V1, OLD_V0 = (1, False), (0, False), (1, True), (0, True)  # the order in which they are tried
TEXTS = {V1: 'NVMe1R01', V0: 'NVMe0R01', OLD_V1: 'NVMe1R01 as of libnvme before 1.14', OLD_V0: 'NVMe0R01 as of libnvme before 1.14'}


def mac(key, data):
    return hmac.new(key, data, hashlib.sha256).digest()


def expand_label(secret, label, context, old):
    """HKDF-Extract and HKDF-Expand-Label of RFC 8446; @old: as libnvme before 1.14."""
    label, context = b'tls13 ' + label.encode(), context.encode()
    info = struct.pack('<H', 32) + label + context if old else \
        struct.pack('>HB', 32, len(label)) + label + bytes([len(context)]) + context
    return mac(mac(bytes(32), secret), info + b'\1')


def psk(form, secret=SECRET):
    """The identity of a form, and the key of TLS."""
    version, old = form
    retained = expand_label(secret, 'HostNQN', HOST, old)
    if not version:
        identity = f'NVMe0R01 {HOST} {NQN}'
        return identity, expand_label(retained, 'nvme-tls-psk', identity, old)
    digest = base64.b64encode(mac(retained, f'{HOST} {NQN} NVMe-over-Fabrics'.encode())).decode()
    return f'NVMe1R01 {HOST} {NQN} {digest}', expand_label(retained, 'nvme-tls-psk', f'01 {digest}', old)


def listening_port(proc):
    """The port of a server that was told to choose one."""
    def found():
        with contextlib.suppress(OSError):
            fds = [os.readlink(f'/proc/{proc.pid}/fd/{fd}') for fd in os.listdir(f'/proc/{proc.pid}/fd')]
            for name in ('tcp', 'tcp6'):
                with open(f'/proc/{proc.pid}/net/{name}', encoding='ascii') as f:
                    for fields in (line.split() for line in f):
                        if fields[3] == '0A' and f'socket:[{fields[9]}]' in fds:
                            return int(fields[1].rsplit(':', 1)[1], 16)
        return None
    return wait_for(found, f'{proc.name} listens')


def openssl(t, form, *args, key=None, version='-tls1_3'):
    identity, own = psk(form)
    return t.spawn('s_server', [requires_program('openssl'), 's_server', '-accept', '127.0.0.1:0', version, '-nocert', '-psk_identity', identity,
                                '-psk', (key or own).hex(), *args, '-rev'])


def gnutls(t, form, key=None):
    identity, own = psk(form)
    path = t.file('passwd', f'#{identity.encode().hex()}:{(key or own).hex()}\n'.encode())
    return t.spawn('gnutls-serv', [requires_program('gnutls-serv'), '--port=0', '--echo', f'--pskpasswd={path}',
                                   '--priority=NORMAL:-VERS-ALL:+VERS-TLS1.3:-KX-ALL:+DHE-PSK:+ECDHE-PSK'])


def argv(t, port, *args, key=KEY):
    path = t.file('tls.key', f'{key}\n'.encode())
    os.chmod(path, 0o600)
    return [program('rdinit'), 'id-ctrl', f'nvme+tcp://127.0.0.1:{port}/{NQN}', f'--hostnqn={HOST}', f'--tls-key-file={path}', *args]


def refused(t, server, *args):
    """Runs rdinit, which has to fail. Returns the last line of what it said."""
    res = t.run(argv(t, listening_port(server), *args))
    t.eq((res.rc, res.text), (1, ''), 'exit status and output')
    return res.err.strip().splitlines()[-1]


SERVERS = (('OpenSSL', openssl), ('GnuTLS', gnutls))
FORMS = tuple((f'{name}: {TEXTS[form]}', server, form) for name, server in SERVERS for form in TEXTS)


@each(*FORMS)
def each_identity_is_tried_until_one_is_taken(t, server, form):
    peer = server(t, form)
    host = t.spawn('rdinit', argv(t, listening_port(peer), '--verbose', '--verbose'))
    trace = host.expect(f'TLS with {TEXTS[form]}, TLS_AES_128_GCM_SHA256, encryption by ')
    trace = host.text()
    first = list(TEXTS)[:list(TEXTS).index(form)]
    t.eq([text for text in TEXTS.values() if f'TLS with {text}: the target ' in trace], [TEXTS[f] for f in first], 'refused before')
    peer.kill()
    t.eq(host.wait(), 1, 'exit status')


@each(*SERVERS)
def a_wrong_key_is_refused_with_all_that_was_tried(t, server):
    """The server knows the identity of version 0, and has another key for it."""
    peer = server(t, V0, key=bytes(32))
    err = refused(t, peer)
    t.match(r'^rdinit: 127.0.0.1:\d+: TLS: the target .*; tried were the identities ' + ', '.join(TEXTS.values()) +
            f', of the host NQN {HOST} and the subsystem NQN {NQN}$', err)


@test
def older_versions_of_tls_are_refused(t):
    peer = openssl(t, V1, version='-tls1_2')
    t.match(r'TLS: the target .*TLS 1\.3', refused(t, peer))


class Peer:
    """Answers each connection by @answer, after the ClientHello, and closes it if it @ends."""

    def __init__(self, t, answer, ends=True):
        self.answer, self.ends, self.connections = answer, ends, []
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        t.cleanup(self.close)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                conn = self.listener.accept()[0]
                self.connections.append(conn)
                hello = conn.recv(4096)
                if hello:
                    conn.sendall(self.answer)
                if self.ends:
                    conn.shutdown(socket.SHUT_WR)

    def close(self):
        for sock in (self.listener, *self.connections):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


def alert(number):
    return bytes([0x15, 3, 3, 0, 2, 2, number])


# what the peer does, its answer, how many connections, what is said
PEERS = (
    ('closes', b'', 4, 'closed the connection during the TLS handshake (a port without TLS does so); tried were the identities'),
    ('an unknown identity', alert(115), 4, 'does not know the identity "NVMe1R01'),
    ('another key', alert(51), 4, 'has another key for the identity "NVMe1R01'),
    ('another hash', alert(40), 4, 'refuses the identity, the key or the hash (alert "handshake failure"; identity "NVMe1R01'),
    ('no TLS 1.3', alert(70), 1, 'does not speak TLS 1.3'),
    ('an internal error', alert(80), 1, 'ended the TLS handshake by the alert'),
    # OpenSSL may have read the answer before its first byte was looked at.
    ('a web server', b'HTTP/1.1 400 Bad Request\r\n\r\n', 1, ('TLS: the target sent what is not a TLS record', 'does not speak TLS: its first byte is 48h')),
    ('plain NVMe/TCP', struct.pack('<BBBBIHBBI112x', 1, 0, 128, 0, 128, 0, 0, 0, 0x20000), 1, 'TLS: the target '),
    ('garbage', b'\x16\x03\x03\x00\x20' + b'\xff' * 32, 1, 'TLS: the target '),
    ('half a record', b'\x16\x03\x03\x40\x00' + bytes(5), 4, 'closed the connection during the TLS handshake'),
)


@each(*PEERS)
def a_failed_handshake_is_explained(t, answer, connections, said):
    peer = Peer(t, answer)
    res = t.run(argv(t, peer.port))
    t.eq((res.rc, res.text), (1, ''), 'exit status and output')
    t.ok(any(words in res.err for words in ((said,) if isinstance(said, str) else said)), res.err)
    t.eq(len(peer.connections), connections, 'connections')


@each(('without an answer', b''), ('in the middle of a ServerHello', b'\x16\x03\x03\x00\x50\x02\x00\x00\x4c\x03\x03' + bytes(9)))
def a_handshake_that_stops_is_given_up(t, answer):
    """All of it is within the time limit of the connection attempt."""
    peer = Peer(t, answer, ends=False)
    res = t.run(argv(t, peer.port, '--connect-timeout=300ms'))
    t.eq(res.rc, 1, 'exit status')
    t.match('connected, but the TLS handshake did not complete', res.err)
    t.eq(len(peer.connections), 1, 'connections')


@test
def a_truncated_stream_is_an_error(t):
    """The peer ends without a close_notify."""
    peer = openssl(t, V1)
    host = t.spawn('rdinit', argv(t, listening_port(peer), '--verbose', '--verbose'))
    host.expect('TLS with NVMe1R01')
    peer.kill()
    t.eq(host.wait(), 1, 'exit status')
    t.match('closed the connection without a close_notify|reset by peer', host.text())


@test
def a_host_without_tls_is_told_of_it(t):
    peer = Peer(t, b'')
    res = t.run([program('rdinit'), 'id-ctrl', f'nvme+tcp://127.0.0.1:{peer.port}/{NQN}'])
    t.match('closed the connection instead of answering ICReq .*--tls-key-file', res.err)


@each(('others can read it', KEY, 0o644, 'has the mode 0644'),
      ('a secret of DH-HMAC-CHAP', 'DHHC-1:01:x:', 0o600, 'does not start with "NVMeTLSkey-1:"'),
      ('a key with a wrong checksum', KEY.replace('AQID', 'AQIE'), 0o600, 'has a wrong checksum'))
def a_key_file_that_cannot_be_used_is_named(t, key, mode, said):
    args = argv(t, 1, key=key)
    os.chmod(t.path('tls.key'), mode)
    res = t.run(args)
    t.ok(res.rc != 0, 'rdinit succeeded')
    t.ok(said in res.err and t.path('tls.key') in res.err, res.err)
    t.ok('AQI' not in res.err, res.err)


# ---- with rdtarget ----

def with_tls(t):
    t_tls.key(t)
    return t_tls.serve(t)


def rdinit(t, verb, uri, *args, key='tls.key', **kw):
    return t.run([program('rdinit'), verb, uri.replace('+rdma', '+tcp'), f'--hostnqn={HOST}', f'--tls-key-file={t.path(key)}', *args], **kw)


@each(('alone', []), ('with digests', ['--hdr-digest', '--data-digest']))
def data_arrives_at_rdtarget_and_comes_back(t, args):
    target = with_tls(t)
    t.file('in', os.urandom(5 << 20))
    for verb, how in (('write', f'--data={t.path("in")}'), ('read', f'--data={t.path("out")}')):
        res = rdinit(t, verb, target.uri(), how, f'--data-size={5 << 20}', *args)
        t.eq(res.rc, 0, res.err)
    with open(t.path('in'), 'rb') as sent, open(t.path('out'), 'rb') as got:
        t.same(got.read(), sent.read())


@test
def cp_has_a_key_for_each_side(t):
    t_tls.key(t)
    source = t_tls.serve(t, [t.namespace(1, backend='memory', size='4MiB')])
    dest = t_tls.serve(t, [t.namespace(2, backend='memory', size='4MiB')], secret=t_tls.OTHER_SECRET, name='destination')
    other = t_tls.key(t, t_tls.OTHER_SECRET, 'other.key')
    t.file('in', os.urandom(4 << 20))
    res = rdinit(t, 'write', source.uri(), f'--data={t.path("in")}', f'--data-size={4 << 20}')
    t.eq(res.rc, 0, res.err)
    res = rdinit(t, 'cp', source.uri(), t_tls.uri(dest, 2))
    t.eq(res.rc, 1, 'exit status without the key for the destination')
    t.match('the target does not know the identity "NVMe1R01', res.err)
    res = rdinit(t, 'cp', source.uri(), t_tls.uri(dest, 2), f'--dst-tls-key-file={other}')
    t.eq(res.rc, 0, res.err)
    res = rdinit(t, 'cp', dest.uri(2), t.path('out'), key='other.key')
    t.eq(res.rc, 0, res.err)
    with open(t.path('in'), 'rb') as sent, open(t.path('out'), 'rb') as got:
        t.same(got.read(), sent.read())


@test
def connect_test_says_what_tls_uses(t):
    target = with_tls(t)
    value = json.loads(rdinit(t, 'connect-test', target.uri(), '--output-format=json').text)
    t_schema.check('connect-test', value)
    t.match('^NVMe1R01 ' + HOST, value['tls']['identity'])
    t.eq((value['tls']['hash'], value['tls']['derivation']), ('SHA-256', 'RFC 8446'))
    res = rdinit(t, 'connect-test', target.uri())
    t.match(r'TLS identity: NVMe1R01 .*\nTLS key: hash SHA-256, derivation RFC 8446; suite TLS_AES_128_GCM_SHA256, ', res.text)


@test
def rdtarget_refuses_a_wrong_key_and_a_host_without_tls(t):
    target = with_tls(t)
    t.file('other.key', t.run([program('rdinit'), 'gen-tls-key']).out)
    os.chmod(t.path('other.key'), 0o600)
    res = rdinit(t, 'id-ctrl', target.uri(), key='other.key')
    t.eq(res.rc, 1, 'exit status')
    t.match('TLS: the target does not know the identity "NVMe1R01 .*; tried were the identities NVMe1R01, NVMe0R01', res.err)
    res = t.run([program('rdinit'), 'id-ctrl', target.uri(None).replace('+rdma', '+tcp'), f'--hostnqn={HOST}'])
    t.match('closed the connection instead of answering ICReq .*--tls-key-file', res.err)


@test
def tls_on_a_listener_without_it_is_told_at_both_ends(t):
    target = t_tls.serve(t, tls='off')
    res = rdinit(t, 'id-ctrl', target.uri(), key='rdtarget.tls.key')
    t.eq((res.rc, res.text), (1, ''), 'exit status and output')
    t.match(r'TLS: the target (sent what is not a TLS record|does not speak TLS: its first byte is 03h|closed the connection during)',
            res.err)
    target.expect('the host begins with TLS, which is not enabled for this listener')


@test
def rdtarget_refuses_another_hash(t):
    target = with_tls(t)
    t.file('other.key', t.run([program('rdinit'), 'gen-tls-key', '--hmac=2']).out)
    os.chmod(t.path('other.key'), 0o600)
    t.match('TLS: the target does not know the identity "NVMe1R02 .*; tried were the identities NVMe1R02, NVMe0R02',
            rdinit(t, 'id-ctrl', target.uri(), key='other.key').err)


@test
def a_damaged_record_is_an_error(t):
    """Of a target that is right: what it sends is damaged on the way."""
    target = with_tls(t)
    proxy = Proxy(t, target.addr, target.port)
    host = t.spawn('rdinit', [program('rdinit'), 'bench', proxy.uri(target).replace('+rdma', '+tcp'), f'--hostnqn={HOST}',
                              f'--tls-key-file={t.path("tls.key")}', '--time=10m'])
    target.expect('qid 1 .*: connected from')
    proxy.damage_answers()
    t.eq(host.wait(), 1, 'exit status')
    t.match('sent a TLS record that cannot be decrypted', host.text())


@test
def discovery_tells_of_tls(t):
    target = with_tls(t)
    value = json.loads(rdinit(t, 'discover', target.uri(None, None), '--output-format=json').text)
    t_schema.check('discover', value)
    t.ok(value['records'], 'no records')
    for record in value['records']:
        t.eq(record['sectype'], 'tls13')
        t.match('^required', record['treq'])


if __name__ == '__main__':
    sys.exit(main())
