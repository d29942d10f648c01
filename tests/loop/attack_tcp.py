# SPDX-License-Identifier: BSD-3-Clause
"""Attacks on a listener of NVMe/TCP."""

import functools
import itertools
import os
import struct

import attack_admin
import attack_auth
import iwarp_peer as iw
import nvmf_peer as nv
import tcp_peer as tp
import tls_peer
from attack_hosts import BLOCKS, DEPTH, LARGE, MIB, name, open_spawned, spawn
from attack_lib import DRAIN, HOLD, addresses
from attack_lib import attack as any_attack
from t_auth import key_file
from t_loop import NQN

RSP = 24      # bytes of a CapsuleResp, and of an R2T
BYTES = 4096  # data of a Write that comes in pieces, or with a wrong digest
DDGST = 2     # in an ICReq
attack = functools.partial(any_attack, transport='tcp')


def sgl(length=0):
    return nv.offset_sgl(0, length, tp.TRANSPORT_SGL)


def capsule(sqe, data=b'', **kw):
    return tp.pdu(tp.CMD, sqe, data, **kw)


def started(peer, **kw):
    """ICReq and ICResp."""
    peer.send(tp.icreq(**kw))
    yield 128


def response(peer):
    return nv.Cqe.parse(iw.Message(iw.SEND, (yield RSP)[8:]))


def associated(peer, hostnqn=nv.HOST_NQN, qid=0, cntlid=0xFFFF, ddgst=False):
    yield from started(peer, dgst=DDGST if ddgst else 0)
    body = struct.pack('<HHHBBI', 0, qid, DEPTH - 1, 0, 0, 0)
    data = nv.connect_data(NQN, hostnqn, hostid=None, cntlid=cntlid)
    peer.send(capsule(nv.fabrics_sqe(nv.CONNECT, 1, body, sgl=nv.offset_sgl(0, len(data))), data,
                      ddgst=ddgst))
    return nv.expect((yield from response(peer)))


def enabled(peer):
    """Until CSTS.RDY."""
    for value in (0x00460000, 0x00460001):
        peer.send(capsule(nv.fabrics_sqe(nv.PROPERTY_SET, 2, struct.pack('<B3xIQ', 0, nv.CC, value), sgl=sgl())))
        nv.expect((yield from response(peer)))
    while True:
        peer.send(capsule(nv.fabrics_sqe(nv.PROPERTY_GET, 3, struct.pack('<B3xI', 0, nv.CSTS), sgl=sgl())))
        if nv.expect((yield from response(peer))).dw0 & 1:
            return


def admin(peer, n, script, again):
    """A host with an enabled controller, and @script for its I/O queue."""
    cqe = yield from associated(peer, hostnqn=name(n))
    yield from enabled(peer)
    spawn(peer, functools.partial(script, n=n, cntlid=cqe.dw0 & 0xFFFF), again)
    yield DRAIN


def open_hosts(crowd, size, script, again=False):
    numbers = iter(range(size))
    crowd.open(size, lambda peer: admin(peer, next(numbers), script, again))
    open_spawned(crowd)


def write(cid, blocks):
    return capsule(nv.sqe(nv.NVM_WRITE, cid, nsid=1, cdw10=1024, cdw12=blocks - 1, sgl=sgl(blocks * 512)))


def no_icreq(peer):
    peer.arrived()
    yield HOLD


@attack('TCP: connections without an ICReq', sizes=(256, 1200), small=300, busy=True)
def silent(crowd, size):
    """An attacker whose connection is closed reconnects at once."""
    crowd.open(size, no_icreq, sources=addresses(1), again=True, wait=False)


def only_icreq(peer):
    yield from started(peer)
    yield DRAIN


@attack('TCP: ICReqs without a Connect', sizes=(1355,), small=200, busy=True)
def no_connect(crowd, size):
    crowd.open(size, only_icreq, sources=addresses(1), again=True)


def byte_by_byte(peer):
    peer.arrived()
    for byte in tp.icreq() + capsule(nv.fabrics_sqe(nv.CONNECT, 1, bytes(24), sgl=sgl(1024))):
        peer.send(bytes([byte]))
        yield None
    yield 128 + RSP


@attack('TCP: PDUs that come byte by byte', sizes=(100,), small=20, busy=True)
def slow_pdus(crowd, size):
    os.nice(19)
    crowd.open(size, byte_by_byte, again=True)


def wrong_digest(peer):
    yield from started(peer, dgst=1)
    peer.arrived()
    peer.send(tp.pdu(tp.CMD, nv.sqe(nv.KEEP_ALIVE, 1, sgl=sgl()), hdgst=True, bad_hdgst=True))
    yield 1 << 16  # the target closes


@attack('TCP: header digests that are wrong', sizes=(16,), small=4, busy=True)
def digests(crowd, size):
    os.nice(19)
    crowd.open(size, wrong_digest, again=True)


def h2c_data(cid, ttag, at=0, data=bytes(BYTES), *, datal=None, flags=tp.F_LAST, **wrong):
    body = struct.pack('<HHII4x', cid, ttag, at, len(data) if datal is None else datal)
    return tp.pdu(tp.H2C_DATA, body, data, flags=flags, **wrong)


def refused_first():
    """What no host begins with: other protocols, ICReqs with a wrong field, other PDUs before it."""
    return (client_hello(b'NVMe1R01 ' + bytes(100), os.urandom(32)), b'GET / HTTP/1.0\r\n\r\n',
            iw.mpa_frame(iw.REQ_KEY, nv.cm_request(0, hrqsize=DEPTH, hsqsize=DEPTH - 1)),
            *(tp.icreq(**wrong) for wrong in ({'pfv': 1}, {'hpda': 32}, {'hlen': 127}, {'plen': 0}, {'plen': 132},
                                              {'flags': tp.F_HDGST}, {'flags': tp.F_DDGST})),
            capsule(nv.sqe(nv.KEEP_ALIVE, 1, sgl=sgl())), h2c_data(0, 0), tp.pdu(tp.H2C_TERM, bytes(16)))


def refused_later():
    """What no host sends behind ICReq."""
    body = nv.sqe(nv.KEEP_ALIVE, 1, sgl=sgl())
    return (tp.icreq(), h2c_data(0, 0), h2c_data(0xFFFF, 0xFFFF), tp.pdu(tp.H2C_TERM, bytes(16), plen=153),
            *(tp.pdu(kind, bytes(16)) for kind in (8, 0x0A, 0xFF, tp.ICRESP, tp.RSP, tp.C2H_DATA, tp.R2T)),
            *(tp.pdu(tp.CMD, body, **wrong) for wrong in (
                {'hlen': 0}, {'hlen': 73}, {'plen': 0}, {'plen': 71}, {'plen': 0xFFFFFFFF}, {'pdo': 73, 'plen': 585},
                {'hdgst': True}, {'flags': tp.F_DDGST})))


def stranger(peer, wrong):
    peer.arrived()
    peer.send(next(wrong))
    yield 1 << 16  # the target closes


@attack('TCP: first PDUs that are wrong, and other protocols', sizes=(16,), small=4, busy=True)
def strangers(crowd, size):
    os.nice(19)
    crowd.open(size, functools.partial(stranger, wrong=itertools.cycle(refused_first())), again=True)


def rude(peer, wrong):
    yield from started(peer)
    peer.arrived()
    peer.send(next(wrong))
    yield 1 << 16


@attack('TCP: PDUs that are wrong, or in the wrong order', sizes=(16,), small=4, busy=True)
def rude_hosts(crowd, size):
    os.nice(19)
    crowd.open(size, functools.partial(rude, wrong=itertools.cycle(refused_later())), again=True)


def terminating(peer):
    yield from started(peer)
    peer.arrived()
    peer.send(tp.pdu(tp.H2C_TERM, struct.pack('<HI10x', tp.FES_SEQUENCE, 0)) + bytes(1 << 16))
    yield 1 << 16


@attack('TCP: H2CTermReqs with data behind them', sizes=(16,), small=4, busy=True)
def terminations(crowd, size):
    os.nice(19)
    crowd.open(size, terminating, again=True)


def in_pieces(peer, n, cntlid):
    """The data of Writes, one byte in each PDU."""
    yield from associated(peer, hostnqn=name(n), qid=1, cntlid=cntlid)
    peer.arrived()
    pieces = bytearray(b''.join(
        tp.pdu(tp.H2C_DATA, struct.pack('<HHII4x', 1, 0, at, 1), b'\0', flags=tp.F_LAST if at == BYTES - 1 else 0)
        for at in range(BYTES)))
    while True:
        peer.send(write(1, BYTES // 512))
        r2t = yield RSP
        pieces[10::25], pieces[11::25] = r2t[10:11] * BYTES, r2t[11:12] * BYTES
        peer.send(pieces)
        yield RSP


@attack('TCP: H2CData of one byte each', sizes=(1, 16), small=2, busy=True, blocks=BLOCKS)
def pieces(crowd, size):
    open_hosts(crowd, size, in_pieces)


def bad_capsules(peer, n, cntlid):
    """Writes whose data, in their capsules, has wrong digests: each of them fails, and the connection goes on."""
    yield from associated(peer, hostnqn=name(n), qid=1, cntlid=cntlid, ddgst=True)
    peer.arrived()
    bad = [capsule(nv.sqe(nv.NVM_WRITE, cid, nsid=1, cdw10=1024, cdw12=BYTES // 512 - 1, sgl=nv.offset_sgl(0, BYTES)),
                   bytes(BYTES), ddgst=True, bad_ddgst=True) for cid in range(8)]
    peer.send(b''.join(bad))
    while True:
        answer = yield RSP
        peer.send(bad[struct.unpack_from('<H', answer, 20)[0]])


@attack('TCP: capsules with wrong data digests', sizes=(1, 16), small=2, busy=True, blocks=BLOCKS)
def capsule_digests(crowd, size):
    os.nice(19)
    open_hosts(crowd, size, bad_capsules)


def bad_h2c_data(peer, n, cntlid):
    """The same with data that was asked for by R2Ts."""
    yield from associated(peer, hostnqn=name(n), qid=1, cntlid=cntlid, ddgst=True)
    peer.arrived()
    while True:
        peer.send(write(1, BYTES // 512))
        ttag, = struct.unpack_from('<H', (yield RSP), 10)
        peer.send(tp.pdu(tp.H2C_DATA, struct.pack('<HHII4x', 1, ttag, 0, BYTES), bytes(BYTES), flags=tp.F_LAST, ddgst=True,
                         bad_ddgst=True))
        yield RSP


@attack('TCP: H2CData with wrong data digests', sizes=(1, 16), small=2, busy=True, blocks=BLOCKS)
def h2c_digests(crowd, size):
    os.nice(19)
    open_hosts(crowd, size, bad_h2c_data)


def refused_data(ttag):
    """The data of Write 1, with a wrong field, and twice."""
    return (h2c_data(1, ttag + 1), h2c_data(1, 0xFFFF), h2c_data(2, ttag), h2c_data(0xFFFF, ttag),
            *(h2c_data(1, ttag, at) for at in (4, BYTES, 0xFFFFFFFC)),
            *(h2c_data(1, ttag, datal=datal) for datal in (0, BYTES - 4, BYTES + 4, 0xFFFFFFFC)),
            h2c_data(1, ttag, data=bytes(2 * BYTES)), h2c_data(1, ttag, data=bytes(512)), h2c_data(1, ttag, flags=0),
            *(h2c_data(1, ttag, **wrong) for wrong in ({'pdo': 0}, {'pdo': 25}, {'hlen': 72}, {'plen': 24})),
            h2c_data(1, ttag) * 2)


def lying(peer, numbers, n, cntlid):
    yield from associated(peer, hostnqn=name(n), qid=1, cntlid=cntlid)
    peer.arrived()
    peer.send(write(1, BYTES // 512))
    ttag, = struct.unpack_from('<H', (yield RSP), 10)
    wrong = refused_data(ttag)
    peer.send(wrong[next(numbers) % len(wrong)])
    yield 1 << 16


@attack('TCP: H2CData that is wrong', sizes=(16,), small=4, busy=True)
def liars(crowd, size):
    """An I/O queue that is closed connects again at once, to the same controller."""
    os.nice(19)
    open_hosts(crowd, size, functools.partial(lying, numbers=itertools.count()), again=True)


def no_data(peer, n, cntlid):
    """Writes whose R2Ts get no data."""
    yield from associated(peer, hostnqn=name(n), qid=1, cntlid=cntlid)
    for cid in range(LARGE):
        peer.send(write(cid, MIB))
    yield None
    yield HOLD


@attack('TCP: R2Ts that get no data', sizes=(4, 100), small=20, blocks=BLOCKS)
def stuck_writes(crowd, size):
    open_hosts(crowd, size, no_data)


def no_digest(peer, n, cntlid):
    """A Write whose data comes, but not the digest behind it: the target cannot use the buffer."""
    yield from associated(peer, hostnqn=name(n), qid=1, cntlid=cntlid, ddgst=True)
    peer.send(write(1, MIB))
    ttag, = struct.unpack_from('<H', (yield RSP), 10)
    peer.send(h2c_data(1, ttag, data=bytes(MIB * 512), ddgst=True)[:-1])
    yield HOLD


@attack('TCP: H2CData without its digest', sizes=(24,), small=8, blocks=BLOCKS)
def no_digests(crowd, size):
    open_hosts(crowd, size, no_digest)


def come_and_go(peer, numbers):
    try:
        yield from associated(peer, hostnqn=name(next(numbers) % 1000))
    except iw.PeerError:
        pass
    peer.arrived()


@attack('TCP: Connects', sizes=(60,), small=4, busy=True)
def connects(crowd, size):
    os.nice(19)
    numbers = itertools.count()
    crowd.open(size, lambda peer: come_and_go(peer, numbers), again=True)


def ana_logs(peer, n):
    yield from associated(peer, hostnqn=name(n))
    yield from enabled(peer)
    peer.arrived()
    command = nv.sqe(nv.GET_LOG, 0, cdw10=attack_admin.ANA_LOG, sgl=sgl(4))
    peer.send(capsule(command) * attack_admin.DEPTH)
    while True:
        yield 24 + 4 + RSP
        peer.send(capsule(command))


@attack('TCP: ANA log, four bytes', sizes=(60,), small=4, busy=True, config=attack_admin.all_seen)
def admin_flood(crowd, size):
    os.nice(19)
    numbers = itertools.count()
    crowd.open(size, lambda peer: ana_logs(peer, next(numbers) % 8))


def batches(peer):
    """As many commands at once as the queue has entries."""
    yield from associated(peer)
    peer.arrived()
    batch = b''.join(capsule(nv.sqe(nv.KEEP_ALIVE, 1 + n, sgl=sgl())) for n in range(DEPTH - 1))
    while True:
        peer.send(batch)
        yield RSP * (DEPTH - 1)


@attack('TCP: batches of Keep Alive', sizes=(16,), small=4, busy=True)
def keep_alives(crowd, size):
    os.nice(19)
    crowd.open(size, batches)


# ---- TLS ----

TLS_HOST = 'nqn.2024-01.test:tls'


def with_key(t):
    """One host has a key; the others come without TLS, by the same listener."""
    return {'subsystem': {'allow_any_host': False, 'hosts': attack_auth.GOOD + [TLS_HOST], 'host_auth': [
        {'host': TLS_HOST, 'tls_key_file': key_file(t, 'tls.key', tls_peer.key_text(bytes(range(32)), 1))}]}}


def extension(number, body):
    return struct.pack('>HH', number, len(body)) + body


def client_hello(identity, binder):
    """A ClientHello of TLS 1.3 in its record, with one key."""
    share = struct.pack('>HH', 0x1D, 32) + os.urandom(32)  # X25519
    identities = struct.pack('>H', len(identity)) + identity + bytes(4)
    binders = bytes([len(binder)]) + binder
    body = b''.join((
        extension(43, b'\x02\x03\x04'),  # version 1.3
        extension(10, b'\x00\x02\x00\x1d'),
        extension(51, struct.pack('>H', len(share)) + share),
        extension(45, b'\x01\x01'),  # a key with Diffie-Hellman
        extension(41, struct.pack('>H', len(identities)) + identities + struct.pack('>H', len(binders)) + binders)))
    hello = b'\x03\x03' + os.urandom(32) + b'\0' + b'\x00\x04\x13\x01\x13\x02' + b'\x01\x00'
    hello += struct.pack('>H', len(body)) + body
    message = b'\x01' + len(hello).to_bytes(3, 'big') + hello
    return b'\x16\x03\x01' + struct.pack('>H', len(message)) + message


def half_handshake(peer):
    peer.arrived()
    peer.send(b'\x16\x03\x01\x01\x00')
    yield 1 << 16  # the target closes


@attack('TCP: handshakes of TLS that stop', sizes=(1000,), small=200, busy=True, config=with_key, listener={'tls': 'allowed'})
def half_handshakes(crowd, size):
    """An attacker whose connection is closed reconnects at once."""
    os.nice(19)
    crowd.open(size, half_handshake, sources=addresses(1), again=True, wait=False)


def wrong_key(peer, hostnqn):
    identity, _ = tls_peer.psk(bytes(range(32)), NQN, hostnqn)
    peer.arrived()
    peer.send(client_hello(identity.encode(), os.urandom(32)))
    yield 1 << 16


@attack('TCP: wrong keys of TLS', sizes=(16, 1000), small=16, busy=True, config=with_key, listener={'tls': 'allowed'})
def wrong_keys(crowd, size):
    os.nice(19)
    crowd.open(size, functools.partial(wrong_key, hostnqn=TLS_HOST), sources=addresses(1), again=True)


@attack('TCP: unknown identities of TLS', sizes=(16,), small=4, busy=True, config=with_key, listener={'tls': 'allowed'})
def unknown_identities(crowd, size):
    os.nice(19)
    names = itertools.count()
    crowd.open(size, lambda peer: wrong_key(peer, f'{TLS_HOST}-{next(names)}'), sources=addresses(1), again=True)
