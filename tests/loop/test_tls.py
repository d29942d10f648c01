# SPDX-License-Identifier: BSD-3-Clause
"""NVMe/TCP with TLS: rdtarget against OpenSSL and GnuTLS, and what it says of hosts that it refuses."""

import contextlib
import os
import socket
import sys

import iwarp_peer as iw
import nvmf_peer as nv
import tcp_peer as tcp
import tls_peer as tls
import t_auth
from t_auth import key_file
from t_control import Control, controlled
from t_loop import NQN, each, main, program, test, wait_for
from t_proxy import Proxy

SECRET, OTHER_SECRET = bytes(range(32)), bytes(range(1, 33))
OTHER_HOST = 'nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555'
OTHER_SUBSYS = 'nqn.2026-11.io.example:other'
# OpenSSL's and GnuTLS's words for this alert.
UNKNOWN_IDENTITY = r'unknown psk identity|received alert \[115\]'


def listener(setting='required'):
    return {'transport': 'tcp', 'tls': setting}


def entry(t, *, host=nv.HOST_NQN, secret=SECRET, key_hash=1, name='host'):
    return {'host': host, 'tls_key_file': key_file(t, f'{name}.tls.key', tls.key_text(secret, key_hash))}


def subsystem(t, **kw):
    return {'allow_any_host': False, 'hosts': [nv.HOST_NQN, OTHER_HOST], 'host_auth': [entry(t, **kw)]}


def serve(t, setting='required', **kw):
    return t.target([t.namespace(backend='memory')], listener=listener(setting), subsystem=subsystem(t), **kw)


def host(t, target, *, subnqn=NQN, hostnqn=nv.HOST_NQN, secret=SECRET, client='openssl', name=None, **form):
    identity, key = tls.psk(secret, subnqn, hostnqn, **form)
    return tls.host(t, target, identity, key, name or subnqn, hostnqn, client=client)


def refused(t, target, *, secret=SECRET, subnqn=NQN, hostnqn=nv.HOST_NQN, client='openssl', extra=(), **form):
    """The words of a client that is refused."""
    identity, key = tls.psk(secret, subnqn, hostnqn, **form)
    return tls.Tls(t, target.addr, target.port, identity, key, client=client, extra=extra).refusal()


def exercise(t, made, size=65536):
    queue, data = made.enable().add_io(), os.urandom(size)
    nv.expect(queue.write_blocks(1, 8, data))
    t.same(nv.expect_data(queue.read_blocks(1, 8, size // 512)), data)
    return queue


# ---- hosts that are served ----

@each(*[(f'{client}, identity {version}{kind}, {words}', client, version, kind, compat)
        for client in tls.CLIENTS
        for version, kind, compat, words in ((1, 'R', False, 'the derivation of the specification'),
                                             (0, 'R', False, 'the derivation of the specification'),
                                             (1, 'R', True, 'that of old libnvme'),
                                             (0, 'R', True, 'that of old libnvme'),
                                             (1, 'G', False, 'a generated key'))])
def a_host_with_its_key_is_served(t, client, version, kind, compat):
    target = serve(t)
    exercise(t, host(t, target, client=client, version=version, kind=kind, compat=compat))
    words = 'of libnvme before 1.14' if compat else 'of the specification'
    target.expect(rf'TLS with \S+: host {nv.HOST_NQN}, subsystem {NQN}, identity NVMe{version}{kind}01, '
                  rf'TLS_AES_128_GCM_SHA256, present key, derivation {words}; the kernel ')


@test
def large_and_small_transfers_arrive(t):
    queue = exercise(t, host(t, serve(t)), size=1 << 20)
    for size in (512, 4096, 8192, 131072):
        data = os.urandom(size)
        nv.expect(queue.write_blocks(1, 0, data, in_capsule=size <= 8192))
        t.same(nv.expect_data(queue.read_blocks(1, 0, size // 512)), data)
    blocks = [os.urandom(16384) for _ in range(30)]
    for pending in [queue.post_write(1, 32 * i, data) for i, data in enumerate(blocks)]:
        nv.expect(pending.wait())
    for pending, data in zip([queue.post_read(1, 32 * i, 32) for i in range(30)], blocks):
        nv.expect(pending.wait())
        t.same(pending.data, data)


@test
def allowed_serves_both_kinds_of_hosts(t):
    target = serve(t, 'allowed')
    exercise(t, host(t, target))
    with tcp.Host(target.addr, target.port, NQN) as plain:
        exercise(t, plain)


# ---- hosts that are refused, in words at both ends ----

@each(*[(client, client) for client in tls.CLIENTS])
def a_wrong_key_is_told_at_both_ends(t, client):
    target = serve(t)
    t.match('decrypt error', refused(t, target, secret=OTHER_SECRET, version=0, client=client).lower())
    target.expect(r'notice: qpair: refused TLS from \S+: the identity "NVMe0R01 \S+ \S+" is known, but was used with '
                  'another key than the configured one$')
    t.match(UNKNOWN_IDENTITY, refused(t, target, secret=OTHER_SECRET, client=client).lower())
    target.expect(r'refused TLS from \S+: the identity "NVMe1R01 .*" was made from another key, or with another hash')
    exercise(t, host(t, target))


@each(*[(f'{client}, {name}', {**names, 'client': client}, words) for client in tls.CLIENTS for name, names, words in (
    ('host', {'hostnqn': OTHER_HOST}, 'names a host that has no tls_key_file in host_auth of the subsystem'),
    ('subsystem', {'subnqn': OTHER_SUBSYS}, 'names an unknown subsystem'),
    ('hash', {'key_hash': 2}, 'was made from another key, or with another hash, than the configured one'))
    # GnuTLS makes the binder of each external key with SHA-256.
    if (client, name) != ('gnutls', 'hash')])
def a_wrong_identity_is_told_at_both_ends(t, names, words):
    target = serve(t)
    t.match(UNKNOWN_IDENTITY, refused(t, target, **names).lower())
    target.expect(rf'refused TLS from \S+: the identity "NVMe1R0. .*" {words}')


@test
def a_key_is_for_one_host_and_one_subsystem(t):
    target = t.target(listener=listener(), subsystems=[
        {'nqn': nqn, **subsystem(t), 'namespaces': [t.namespace(backend='memory')]} for nqn in (NQN, OTHER_SUBSYS)])
    identity, key = tls.psk(SECRET, NQN, nv.HOST_NQN)
    for subnqn, hostnqn, words in ((OTHER_SUBSYS, nv.HOST_NQN, 'another subsystem'), (NQN, OTHER_HOST, 'another host')):
        made = tls.host(t, target, identity, key, subnqn, hostnqn)
        cqe = made.admin.fabrics_connect(made.data())
        t.ok(cqe.status, 'a Connect with a name of another key is refused')
        target.expect(f'refused a Connect from .*: its TLS key belongs to {words}$')
    exercise(t, host(t, target))


@test
def a_host_identifier_belongs_to_the_name_that_used_it_first(t):
    """The key proves the name; reservations know hosts by the identifier."""
    hosts = {nv.HOST_NQN: (SECRET, 'one'), OTHER_HOST: (OTHER_SECRET, 'other')}
    auth = [entry(t, host=nqn, secret=secret, name=name) for nqn, (secret, name) in hosts.items()]
    target = t.target([t.namespace(backend='memory')], listener=listener(),
                      subsystem={'allow_any_host': False, 'hosts': list(hosts), 'host_auth': auth})
    mine, his = (host(t, target, hostnqn=nqn, secret=secret) for nqn, (secret, _) in hosts.items())
    nv.expect(mine.admin.fabrics_connect(mine.data(hostid=bytes(range(1, 17)))))
    t.ok(his.admin.fabrics_connect(his.data(hostid=bytes(range(1, 17)))).status, 'another name with the identifier is refused')
    target.expect(f'refused a Connect from .*host "{OTHER_HOST}".*: its Host Identifier belongs to another host name')
    exercise(t, host(t, target, hostnqn=OTHER_HOST, secret=OTHER_SECRET))


@test
def plain_hosts_are_refused_where_tls_is_required(t):
    target = serve(t)
    conn = tcp.dial(target.addr, target.port)
    t.cleanup(conn.close)
    conn.send_raw(tcp.icreq())
    conn.wait_closed()
    target.expect(r'refused TLS from \S+: does not speak TLS: its first byte is 00h, as of plain NVMe/TCP$')


@test
def tls_is_refused_on_a_plain_listener(t):
    target = serve(t, 'off')
    refused(t, target)
    target.expect('the host begins with TLS, which is not enabled for this listener')


@each(('TLS 1.2', ['-no_tls1_3'], 'offers no TLS 1.3, only older versions'),
      ('another suite', ['-ciphersuites', 'TLS_CHACHA20_POLY1305_SHA256'],
       '(does not offer TLS_AES_128_GCM_SHA256, the cipher suite of its key|offers no pre-shared key)'))
def other_forms_of_tls_are_refused_in_words(t, extra, words):
    target = serve(t)
    identity, key = tls.psk(SECRET, NQN, nv.HOST_NQN)
    argv = tls.CLIENTS['openssl'](target.addr, target.port, identity, key, extra)
    if '-no_tls1_3' in extra:
        argv.remove('-tls1_3')
    t.ok(t.run(argv).rc, 'the client fails')
    target.expect(rf'refused TLS from \S+: {words}')


@each(('garbage after the first byte', b'\x16\xff\xee\xff\xff' + bytes(64), False, 'sent what is not a TLS record'),
      ('half a ClientHello, and the end', b'\x16\x03\x01\x01\x00\x01\x00\x00\xfc', True,
       'closed the connection during the TLS handshake'),
      ('nothing, and the end', b'', True, 'closed the connection during the TLS handshake'))
def a_bad_begin_is_told(t, data, ends, words):
    target = serve(t)
    with socket.create_connection((target.addr, target.port), timeout=20) as sock:
        sock.sendall(data)
        if ends:
            sock.shutdown(socket.SHUT_WR)
        target.expect(rf'refused TLS from \S+: {words}')
    exercise(t, host(t, target))


def client_hello(t):
    """Of a client with the right key: all that it sends before it waits for the target."""
    with socket.create_server(('127.0.0.1', 0)) as server:
        identity, key = tls.psk(SECRET, NQN, nv.HOST_NQN)
        client = tls.Tls(t, *server.getsockname(), identity, key)
        with server.accept()[0] as sock:
            data = sock.recv(5, socket.MSG_WAITALL)
            data += sock.recv(int.from_bytes(data[3:], 'big'), socket.MSG_WAITALL)
    client.end()
    return data


@test
def handshakes_that_stop_end_after_ten_seconds(t):
    """In the middle of a ClientHello, and where the client's Finished is due."""
    target, hello = serve(t), client_hello(t)
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.create_connection((target.addr, target.port), timeout=20)) for _ in range(2)]
        for sock, data in zip(socks, (hello[:-1], hello)):
            sock.sendall(data)
        t.eq(socks[1].recv(1), b'\x16', 'the answer to a whole ClientHello')
        exercise(t, host(t, target))  # meanwhile
        for sock in socks:
            target.expect(rf'refused TLS from {sock.getsockname()[0]}:{sock.getsockname()[1]}: '
                          'the handshake was not complete after 10 seconds')
        wait_for(lambda: is_closed(socks[0]), 'the end of the connection')


@test
def damaged_records_end_their_connections(t):
    target = serve(t)
    proxy = Proxy(t, target.addr, target.port)
    made = host(t, proxy)
    exercise(t, made)
    proxy.damage()
    try:
        made.admin.get_log(2, 512)
    except iw.PeerError:
        pass
    target.expect('closing: sent a TLS record that cannot be decrypted')
    exercise(t, host(t, target))


@test
def a_truncated_close_is_told(t):
    target = serve(t)
    identity, key = tls.psk(SECRET, NQN, nv.HOST_NQN)
    for kill, words in ((True, 'closed by the host without a TLS close_notify'), (False, 'closed by the host')):
        client = tls.Tls(t, target.addr, target.port, identity, key, client='gnutls')
        conn = tcp.Conn(client.sock)
        tcp.agree(conn)
        if kill:
            client.popen.kill()
        else:
            client.sock.shutdown(socket.SHUT_WR)
        target.expect(f'closing: {words}$')
        client.end()


@test
def no_ticket_is_sent(t):
    """Kernels that decrypt take any message behind the handshake for an error."""
    target = serve(t)
    identity, key = tls.psk(SECRET, NQN, nv.HOST_NQN)
    client = tls.Tls(t, target.addr, target.port, identity, key, extra=['-msg', '-msgfile', t.path('messages')])
    tcp.agree(tcp.Conn(client.sock))
    target.stop()
    client.popen.wait(20)
    with open(t.path('messages'), encoding='ascii') as f:
        messages = f.read()
    t.match('EncryptedExtensions', messages)
    t.ok('NewSessionTicket' not in messages, messages)


@test
def a_key_update_ends_the_connection(t):
    target = serve(t)
    identity, key = tls.psk(SECRET, NQN, nv.HOST_NQN)
    argv = tls.CLIENTS['openssl'](target.addr, target.port, identity, key, [])
    argv.remove('-quiet')
    argv.remove('-nocommands')
    t.run(argv, input=b'k\n')
    target.expect(r'changed its keys \(KeyUpdate\), which NVMe/TCP does not allow')


@test
def a_thousand_handshakes_that_stop_leave_others_their_share(t):
    target = serve(t)
    stopped = []
    for _ in range(1000):
        sock = socket.create_connection((target.addr, target.port), timeout=20)
        t.cleanup(sock.close)
        sock.sendall(b'\x16\x03\x01\x01\x00')
        stopped.append(sock)
    # The host is served while the others are still there.
    exercise(t, host(t, target))
    target.expect(r'refused TLS from \S+: too many handshakes are in progress, and this was the oldest')
    t.ok(sum(1 for sock in stopped if not is_closed(sock)) >= 200, 'some of the stopped handshakes are still there')


@test
def guesses_at_a_key_are_slowed_down(t):
    """After ten wrong keys for a name at an address; another name there is not, and the right key gets in."""
    sub = subsystem(t)
    sub['host_auth'].append(entry(t, host=OTHER_HOST, secret=OTHER_SECRET, name='other'))
    target = t.target([t.namespace(backend='memory')], listener=listener(), subsystem=sub)
    for _ in range(10):
        refused(t, target, secret=bytes(32))
    t.ok('slowed TLS' not in target.text(), 'ten failures are allowed')
    # One is forgotten every six seconds, so on a slow machine it takes some more.
    while 'slowed TLS' not in target.text():
        refused(t, target, secret=bytes(32))
    target.expect(r'slowed TLS from \S+ down: its name or its address has failed too often')
    slowed = target.text().count('slowed TLS')
    exercise(t, host(t, target, hostnqn=OTHER_HOST, secret=OTHER_SECRET))
    t.same(target.text().count('slowed TLS'), slowed)
    exercise(t, host(t, target))


def is_closed(sock):
    sock.setblocking(False)
    try:
        return not sock.recv(1)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


# ---- keys, and what is told of them ----

@test
def discovery_tells_of_tls(t):
    for setting, sectype, treq in (('off', 0, 0), ('allowed', 2, 2), ('required', 2, 1)):
        key = {'host_auth': [entry(t)]}
        target = t.target([t.namespace(backend='memory')], name=f'rdtarget-{setting}', listener=listener(setting),
                          subsystem=subsystem(t), more={'discovery': key})
        if setting == 'off':
            disc = tcp.Host(target.addr, target.port, nv.DISCOVERY_NQN)
            t.cleanup(disc.close)
        else:
            disc = host(t, target, subnqn=nv.DISCOVERY_NQN)
        log = nv.expect_data(disc.enable().admin.get_log(0x70, 3072))
        for record in (log[1024:2048], log[2048:3072]):
            t.eq((record[768], record[3] & 3), (sectype, treq), f'SECTYPE and TREQ with tls: {setting}')


@test
def a_key_changes_and_the_old_one_stays_valid_for_some_time(t):
    target = serve(t)
    first = exercise(t, host(t, target))
    key_file(t, 'host.tls.key', tls.key_text(OTHER_SECRET, 1))
    target.reload()
    exercise(t, host(t, target, secret=OTHER_SECRET))
    exercise(t, host(t, target))
    target.expect('TLS with .*, previous key, ')
    nv.expect(first.read_blocks(1, 0, 8)[0])
    t.match('psk identity', refused(t, target, secret=bytes(32)).lower())


@test
def connections_and_figures_tell_of_tls(t):
    both = {**entry(t), **t_auth.entry(t, host=OTHER_HOST)}
    both = {**both, 'tls_key_file': entry(t, name='both')['tls_key_file']}
    subsystems = [{'nqn': nqn, **subsystem(t), 'namespaces': [t.namespace(backend='memory')],
                   'host_auth': [entry(t), *more]} for nqn, more in ((NQN, []), (OTHER_SUBSYS, [both]))]
    target, path = controlled(t, listener=listener('allowed'), subsystems=subsystems)
    exercise(t, host(t, target, version=0, compat=True))
    refused(t, target, secret=OTHER_SECRET)
    target.expect('refused TLS')
    with Control(path) as c:
        tls_of = [one.get('tls') for one in c.call('controller.list')['controllers']]
        t.eq(len(tls_of), 1, 'controllers')
        t.match('^NVMe0R01, TLS_AES_128_GCM_SHA256, present key, derived as by libnvme before 1.14', tls_of[0])
        stats = c.call('stats.get')['target']
        keys = c.call('host.get', nqn=NQN, hostnqn=nv.HOST_NQN)['auth']
        # A key of TLS is no demand of authentication.
        t.eq([one['auth'] for one in c.call('host.list')['hosts']], ['no'])
        t.eq({one['nqn']: one['auth'] for one in c.call('subsystem.list')['subsystems']}, {NQN: 'none', OTHER_SUBSYS: 'some'})
    t.match('host.tls.key$', keys['tls_key_file'])
    # one for each of the two queues
    t.eq((stats['tls_handshakes'], stats['failed_tls_handshakes']), (2, 1))
    shown = t.run([program('rdctl'), '--socket', path, 'connections']).out.decode()
    t.match('NVMe0R01, TLS_AES_128_GCM_SHA256', shown)


@test
def no_log_contains_a_key(t):
    target = serve(t)
    exercise(t, host(t, target))
    refused(t, target, secret=OTHER_SECRET)
    target.expect('refused TLS')
    text = target.text()
    for secret in (SECRET, OTHER_SECRET):
        t.ok(tls.key_text(secret, 1).split(':')[2] not in text and secret.hex() not in text, 'the log has no key')


if __name__ == '__main__':
    sys.exit(main())
