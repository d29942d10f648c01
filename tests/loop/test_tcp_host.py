# SPDX-License-Identifier: BSD-3-Clause
"""NVMe/TCP: rdinit on listeners with transport tcp, and on targets that break the protocol."""

import json
import os
import random
import socket
import struct
import sys
import threading

import iwarp_peer as iw
import nvmf_peer as nv
import tcp_peer as tp
import tcp_target
from t_dev import Device
from t_loop import NQN, each, main, program, test
from t_proxy import Proxy

LISTENER = {'transport': 'tcp'}
MIB = 1 << 20


def serve(t, **kw):
    return t.target([{'nsid': 1, 'backend': 'memory', 'size': 8 * MIB}], listener=LISTENER, **kw)


def tcp_uri_of(uri):
    return uri.replace('nvme+rdma:', 'nvme+tcp:')


def tcp_uri(target, nsid=1, nqn=NQN):
    return tcp_uri_of(target.uri(nsid, nqn))


@each(('without digests', []), ('with a header digest', ['--hdr-digest']), ('with a data digest', ['--data-digest']),
      ('with both digests', ['--hdr-digest', '--data-digest']))
def blocks_return_as_written(t, digests):
    """In the capsule, by one R2T and by many; with data in one PDU and in several."""
    uri = tcp_uri(serve(t))
    for size in (512, 8192, 8704, 256 * 1024, MIB, 3 * MIB):
        data = os.urandom(size)
        with open(t.path('in'), 'wb') as f:
            f.write(data)
        t.rdinit('write', uri, '--start-block=3', f'--block-count={size // 512 - 1}', f'--data={t.path("in")}',
                 f'--data-size={size}', *digests)
        t.rdinit('read', uri, '--start-block=3', f'--block-count={size // 512 - 1}', f'--data={t.path("out")}',
                 f'--data-size={size}', *digests)
        with open(t.path('out'), 'rb') as f:
            t.same(f.read(), data)


@test
def a_device_copies_over_tcp(t):
    uri = tcp_uri(serve(t))
    data = os.urandom(8 * MIB)
    with open(t.path('in'), 'wb') as f:
        f.write(data)
    t.rdinit('cp', t.path('in'), uri)
    t.rdinit('cp', uri, t.path('out'))
    with open(t.path('out'), 'rb') as f:
        t.same(f.read(), data)


@each(('queue pairs', []), ('a device', ['--device']))
def bench_counts_its_ios(t, by):
    """The target has no listener for NVMe/RDMA, by which a path could be taken instead."""
    target = serve(t)
    for given in ([tcp_uri(target)], ['-t', 'tcp', '-a', target.addr, '-s', str(target.port), '--nqn', NQN]):
        got = json.loads(t.rdinit('bench', *given, '-o', 'json', '--io-count=1000', '--hdr-digest', *by).text)
        t.eq(got['ios'], 1000, 'I/Os')


@test
def discovery_and_every_step_work(t):
    target = serve(t)
    found, steps = t.rdinit('discover', tcp_uri(target, 0, '')).text, t.rdinit('connect-test', tcp_uri(target)).text
    t.ok('trtype:  tcp' in found, found)
    t.ok('all steps succeeded' in steps, steps)


@test
def a_topology_is_of_the_transport_of_its_uri(t):
    """The discovery log has records of both."""
    target = t.target([{'nsid': 1, 'backend': 'memory', 'size': MIB}], listeners=[LISTENER, {}])
    uri = tcp_uri(target, 0, '')
    listed = json.loads(t.rdinit('list', uri, '-o', 'json').text)['Devices']
    t.eq([one['DevicePath'] for one in listed], [tcp_uri(target)], 'devices')
    for verb in 'list-subsys', 'show-topology':
        paths = json.loads(t.rdinit(verb, uri, '-o', 'json').text)[0]['Subsystems'][0]['Paths']
        t.eq([(one['Transport'], one['Address']) for one in paths],
             [('tcp', f'traddr={target.addr},trsvcid={target.port}')], verb)


@test
def a_device_finds_its_path_by_discovery(t):
    uri = tcp_uri(serve(t))
    dev = Device(t, [uri], '--discovery', 1)
    dev.proc.expect(r'^event path 0 live')
    dev.goes_on()
    t.eq(dev.count('errors'), 0, 'errors')
    dev.finish()


@test
def discovery_without_a_path_says_so(t):
    uri = serve(t).uri()
    res = t.run([program('rddev'), '--discovery', '1', uri.replace('nvme+rdma', 'nvme+tcp').replace(NQN, NQN + 'x')])
    t.match('none is a TCP path to ', res.err)


@test
def a_killed_target_that_comes_back_is_not_noticed(t):
    config = t.config([t.namespace(size='16MiB')], listener=LISTENER)
    target = t.target(config=config, name='rdtarget_first')
    proxy = Proxy(t, target.addr, target.port)
    dev = Device(t, [tcp_uri_of(proxy.uri(target))])
    for number in range(3):
        dev.goes_on()
        mark = dev.proc.mark()
        target.kill()
        dev.proc.expect(r'^event path 0 lost', since=mark)
        target = t.target(config=config, name=f'rdtarget{number}')
        proxy.to = (target.addr, target.port)
        dev.proc.expect(r'^event device live', since=mark)
    dev.goes_on()
    t.eq(dev.count('errors'), 0, 'errors')
    dev.finish()


@test
def a_device_has_a_path_of_each_transport(t):
    """One is lost and comes back, then the other; the device is never without a path."""
    target = t.target([t.namespace(size='16MiB')], listeners=[LISTENER, {}])
    proxies = [Proxy(t, addr, port) for addr, port in target.listeners]
    uris = [tcp_uri_of(proxies[0].uri(target)), proxies[1].uri(target)]
    dev = Device(t, uris, '--no-compare', 1)
    dev.proc.expect(r'^event path 0 live')
    dev.proc.expect(r'^event path 1 live')
    for number in range(4):
        i, mark = number % 2, dev.proc.mark()
        proxies[i].accepting(False)
        proxies[i].reset()
        dev.proc.expect(rf'^event path {i} lost', since=mark)
        dev.goes_on()
        proxies[i].accepting(True)
        dev.proc.expect(rf'^event path {i} live', since=mark)
        dev.goes_on()
    t.ok('\nevent device waiting' not in dev.proc.text(), 'the device was without a path')
    t.eq(dev.count('errors') + dev.count('unknown'), 0, 'errors')
    dev.finish()


@each(*((option.split('=')[0], option, scheme) for option, scheme in (
    ('--hdr-digest', 'nvme+rdma'), ('--data-digest', 'nvme+rdma'), ('--crc', 'nvme+tcp'), ('--no-p2p', 'nvme+tcp'),
    ('--provider=iwarp', 'nvme+tcp'), ('--mpa-revision=1', 'nvme+tcp'), ('--no-remote-invalidate', 'nvme+tcp'))))
def an_option_of_the_other_transport_is_refused(t, option, scheme):
    """By its name, before anything is connected."""
    res = t.run([program('rdinit'), 'id-ctrl', f'{scheme}://127.0.0.1:1/{NQN}', option])
    t.eq(res.rc, 2, 'exit status')
    only = 'NVMe/TCP only' if scheme == 'nvme+rdma' else 'NVMe/RDMA only'
    t.ok(f'{option.split("=")[0]} is for {only}' in res.err, res.err)


@test
def transport_and_uri_must_agree(t):
    res = t.run([program('rdinit'), 'id-ctrl', f'nvme+rdma://127.0.0.1:1/{NQN}', '-t', 'tcp'])
    t.eq(res.rc, 2, 'exit status')
    t.ok('the transport is tcp by --transport and rdma in the URI' in res.err, res.err)


class Answers:
    """A listener that reads an ICReq and answers by fixed bytes; None: it closes the connection."""

    def __init__(self, t, answer, where=('127.0.0.1', 0)):
        self.sock = socket.create_server(where)
        self.port = self.sock.getsockname()[1]
        self.answer = answer
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        t.cleanup(self.sock.close)

    def run(self):
        conn, _ = self.sock.accept()
        with conn:
            got = b''
            while len(got) < 128:
                more = conn.recv(128 - len(got))
                if not more:
                    return
                got += more
            if self.answer is not None:
                conn.sendall(self.answer)
                while conn.recv(4096):
                    pass


def icresp(pfv=0, cpda=0, dgst=0, maxh2cdata=0x20000):
    return struct.pack('<BBBBIHBBI112x', 1, 0, 128, 0, 128, pfv, cpda, dgst, maxh2cdata)


def term(fes, fei):
    return struct.pack('<BBBBIHI10x', 3, 0, 24, 0, 24, fes, fei)


@each(('with another PFV', icresp(pfv=1), 'PFV 1'),
      ('with a digest that was not asked for', icresp(dgst=1), 'has digests 0x1'),
      ('with an alignment that does not exist', icresp(cpda=32), 'CPDA 32'),
      ('with too small a MAXH2CDATA', icresp(maxh2cdata=4092), 'MAXH2CDATA 4092'),
      ('by a C2HTermReq', term(6, 8), 'Unsupported Parameter (FES 6)'),
      ('by another PDU', struct.pack('<BBBBI16x', 5, 0, 24, 0, 24), 'does not come at this time'),
      ('by another type', struct.pack('<BBBBI16x', 0x55, 0, 24, 0, 24), 'an unknown PDU type'),
      ('by the end of the connection', None, 'closed the connection'))
def icreq_is_answered(t, answer, expected):
    """Each ends the attempt, with a message that says why."""
    peer = Answers(t, answer)
    res = t.run([program('rdinit'), 'id-ctrl', f'nvme+tcp://127.0.0.1:{peer.port}/{NQN}'])
    t.ok(res.rc != 0, 'rdinit succeeded')
    t.ok(expected in res.err, res.err)


class Between:
    """Between rdinit and rdtarget: what @change returns replaces a PDU of the target with that much data, and R2Ts."""
    DATA = 8192  # more than Identify and logs have

    def __init__(self, t, target, change, successes=False):
        self.target, self.change = (target.addr, target.port), change
        self.successes = successes  # the CapsuleResp of a command whose data was replaced is left out
        self.changed = set()
        self.sock = socket.create_server(('127.0.0.1', 0))
        self.port = self.sock.getsockname()[1]
        t.cleanup(self.sock.close)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                host = self.sock.accept()[0]
            except OSError:
                return
            target = tp.Conn(socket.create_connection(self.target), timeout=None)
            for run, args in ((self.to_target, (host, target)), (self.to_host, (target, host))):
                threading.Thread(target=run, args=args, daemon=True).start()

    @staticmethod
    def to_target(host, target):
        try:
            while piece := host.recv(65536):
                target.send_raw(piece)
            target.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def to_host(self, target, host):
        try:
            while True:
                host.sendall(self.pdu(target))
        except (OSError, iw.PeerError):
            host.close()

    def pdu(self, target):
        whole = target.recv_exact(8)
        kind, flags, hlen, pdo, plen = struct.unpack('<BBBBI', whole)
        whole += target.recv_exact(plen - 8)
        data = whole[pdo:plen - (4 if flags & tp.F_DDGST else 0)] if pdo else b''
        if kind == tp.R2T or kind == tp.C2H_DATA and len(data) >= self.DATA:
            digests = {'hdgst': bool(flags & tp.F_HDGST), 'ddgst': bool(flags & tp.F_DDGST)}
            self.changed.add((target, whole[8:10]))
            return self.change(kind, flags & tp.F_LAST, whole[8:hlen], data, digests)
        if kind == tp.RSP and self.successes and (target, whole[20:22]) in self.changed:
            self.changed.remove((target, whole[20:22]))
            return b''
        return whole


def pieces(kind, flags, body, data, digests):
    """Odd pieces, each in a PDU of its own, and with padding."""
    cid, at, out = body[:4], struct.unpack_from('<I', body, 4)[0], b''
    for i in range(0, len(data), 4093):
        part = data[i:i + 4093]
        out += tp.pdu(kind, cid + struct.pack('<II4x', at + i, len(part)), part, pad=4, **digests,
                      flags=flags if i + len(part) == len(data) else 0)
    return out or tp.pdu(kind, body, **digests)


def moved(offset):
    """R2TO or DATAO is another."""
    def change(kind, flags, body, data, digests):
        at = struct.unpack_from('<I', body, 4)[0] + offset
        return tp.pdu(kind, body[:4] + struct.pack('<I', at) + body[8:], data, flags=flags, **digests)
    return change


def wrong(**how):
    return lambda kind, flags, body, data, digests: tp.pdu(kind, body, data, flags=flags, **digests, **how)


def between(t, peer, verb, *args):
    """Run @verb for 64 KiB through @peer."""
    with open(t.path('data'), 'wb') as f:
        f.write(bytes(range(256)) * 256)
    return t.run([program('rdinit'), verb, f'nvme+tcp://127.0.0.1:{peer.port}/{NQN}/1', '-z', '64k', '--timeout=5s',
                  '-d', t.path('data' if verb == 'write' else 'out'), *args])


@each(('plainly', []), ('with digests', ['--hdr-digest', '--data-digest']))
def data_in_odd_pieces_is_read(t, digests):
    peer = Between(t, serve(t), pieces)
    for verb in 'write', 'read':
        res = between(t, peer, verb, *digests)
        t.eq(res.rc, 0, res.err)
    with open(t.path('out'), 'rb') as f:
        t.same(f.read(), bytes(range(256)) * 256)


@test
def success_in_the_last_data_completes_a_read(t):
    target = serve(t)
    t.eq(between(t, target, 'write').rc, 0, 'exit status of write')

    def success(kind, flags, body, data, digests):
        return tp.pdu(kind, body, data, flags=flags | (tp.F_SUCCESS if flags else 0), **digests)
    peer = Between(t, target, success, successes=True)
    res = between(t, peer, 'read')
    t.eq(res.rc, 0, res.err)
    with open(t.path('out'), 'rb') as f:
        t.same(f.read(), bytes(range(256)) * 256)


@each(('C2HData beyond the command', 'read', moved(65536), [], 'DATAO or DATAL is not the next part'),
      ('R2T beyond the command', 'write', moved(65536), [], 'outside the command'),
      ('a wrong header digest', 'read', wrong(bad_hdgst=True), ['--hdr-digest'], 'header digest'),
      ('a wrong header digest of R2T', 'write', wrong(bad_hdgst=True), ['--hdr-digest'], 'header digest'),
      ('a wrong data digest', 'read', wrong(bad_ddgst=True), ['--data-digest'], 'ransport'),
      ('a C2HTermReq', 'read', lambda *a: term(4, 0), [], 'ended the connection by C2HTermReq'))
def a_target_that_breaks_the_protocol_is_named(t, verb, change, args, expected):
    res = between(t, Between(t, serve(t), change), verb, *args)
    t.eq(res.rc, 1, res.err)
    t.ok(expected in res.err, res.err)


def fake(t, kind=tcp_target.FakeTarget, **kw):
    target = kind(**kw)
    t.cleanup(target.close)
    return target, f'nvme+tcp://127.0.0.1:{target.port}/{target.subnqn}/1'


def write_then_read(t, target, uri, *args):
    """96 KiB at once, and one block. The target finds nothing wrong with it."""
    for size in (192 * 512, 512):
        data = os.urandom(size)
        span = [uri, '--start-block=5', f'--block-count={size // 512 - 1}', f'--data-size={size}', *args]
        t.rdinit('write', *span, '--data', t.file('in', data))
        t.same(bytes(target.disk[5 * 512:5 * 512 + size]), data)
        t.rdinit('read', *span, '--data', t.path('out'))
        with open(t.path('out'), 'rb') as f:
            t.same(f.read(), data)
    t.eq([str(e) for e in target.errors], [], 'what the target found wrong')


DIGESTS = (('', []), (', with digests', ['--hdr-digest', '--data-digest']))


@each(*((f'{size} bytes{how}', size, maxh2cdata, args) for size, maxh2cdata in ((4, 4096), (4092, 4096), (36868, 4096), (50000, 65536))
        for how, args in DIGESTS if size != 4 or not args))
def r2ts_in_odd_pieces_are_answered(t, size, maxh2cdata, args):
    target, uri = fake(t, r2t=size, maxh2cdata=maxh2cdata, c2h=4092 if size == 4 else size)
    write_then_read(t, target, uri, *args)
    t.ok(target.r2ts >= 98304 // size, f'{target.r2ts} R2Ts')


@each(*((f'CPDA {cpda}{how}', cpda, args) for cpda in (1, 3, 31) for how, args in DIGESTS))
def data_is_aligned_as_the_target_asks(t, cpda, args):
    target, uri = fake(t, cpda=cpda, r2t=20000)
    write_then_read(t, target, uri, *args)


@test
def cpda_beyond_the_range_is_refused(t):
    _, uri = fake(t, cpda=32)
    res = t.run([program('rdinit'), 'id-ctrl', uri[:-2]])
    t.ok(res.rc == 1 and 'CPDA 32' in res.err, res.err)


@each(('C2HData for a Write', 0), ('C2HData with SUCCESS for a Write', tp.F_LAST | tp.F_SUCCESS), ('an R2T for a Read', None))
def data_in_the_wrong_direction_is_refused(t, flags):
    class Wrong(tcp_target.FakeTarget):
        def do_write(self, queue, cmd):
            self.send_data(queue.conn, cmd.cid, 0, bytes(512), flags=flags)
            self.seen = queue.conn.recv_pdu()
            raise nv.Stop

        def do_read(self, queue, cmd):
            queue.conn.send(tp.R2T, struct.pack('<HHII4x', cmd.cid, 0, 0, 512))
            self.seen = queue.conn.recv_pdu()
            raise nv.Stop
    target, uri = fake(t, Wrong)
    verb = 'read' if flags is None else 'write'
    res = t.run([program('rdinit'), verb, uri, '--data-size=65536', '--block-count=127', '--data',
                 t.file('data', bytes(range(256)) * 256)])
    t.eq(res.rc, 1, res.err)
    t.ok('the command transfers no data this way' in res.err, res.err)
    t.eq([str(e) for e in target.errors], [], 'what the target found wrong')
    t.eq((target.seen.kind, target.seen.field('H', 8)), (tp.H2C_TERM, tp.FES_SEQUENCE), 'what rdinit sent')


def c2h(q, cmd, at, size, *, cid=None, datal=None, flags=0, **kw):
    """@size bytes of C2HData at @at."""
    body = struct.pack('<HHII4x', cmd.cid if cid is None else cid, 0, at, size if datal is None else datal)
    return tp.pdu(tp.C2H_DATA, body, bytes(size), flags=flags, **kw)


def r2t(q, cmd, at, size, *, cid=None):
    return tp.pdu(tp.R2T, struct.pack('<HHII4x', cmd.cid if cid is None else cid, 0, at, size))


def rsp(q, cmd):
    return tp.pdu(tp.RSP, nv.Cqe(0, 1, q.qid, cmd.cid, 0).pack())


SIZE = 65536  # of the command; more than is sent in a capsule
NEXT, ASKED = 'DATAO or DATAL is not the next part', 'R2TO or R2TL is outside the command'
FLYING, EARLY = 'its command id is not in flight', 'before all of its data was sent'
LAST, DONE = tp.F_LAST, tp.F_LAST | tp.F_SUCCESS
# What answers a command, in one segment; the FES of the H2CTermReq, and what the user is told.
HOSTILE = {
    'data twice': ('read', lambda *c: c2h(*c, 0, 512) * 2, tp.FES_RANGE, NEXT),
    'data that leaves a gap': ('read', lambda *c: c2h(*c, 4, 512), tp.FES_RANGE, NEXT),
    'data at the largest DATAO': ('read', lambda *c: c2h(*c, 0xFFFFFFFC, 512), tp.FES_RANGE, NEXT),
    'more data than there is room for': ('read', lambda *c: c2h(*c, 0, SIZE + 4, flags=LAST), tp.FES_RANGE, NEXT),
    'data behind the last': ('read', lambda *c: c2h(*c, 0, SIZE, flags=LAST) + c2h(*c, SIZE, 4), tp.FES_RANGE, NEXT),
    'data with a DATAL of 0': ('read', lambda *c: c2h(*c, 0, 512, datal=0), tp.FES_HEADER, 'DATAL does not agree with PLEN'),
    'data with a DATAL of 4 GiB': ('read', lambda *c: c2h(*c, 0, 512, datal=0xFFFFFFFF), tp.FES_HEADER, 'DATAL does not agree'),
    'data with a PLEN of 4 GiB': ('read', lambda *c: c2h(*c, 0, 512, datal=0xFFFFFFFF - 24, plen=0xFFFFFFFF), tp.FES_RANGE, NEXT),
    'data without data': ('read', lambda *c: c2h(*c, 0, 0), tp.FES_HEADER, 'PDO is inside the header'),
    'data of an unknown command': ('read', lambda q, cmd: c2h(q, cmd, 0, 512, cid=cmd.cid ^ 1), tp.FES_SEQUENCE, FLYING),
    'data of a command ID beyond the queue': ('read', lambda *c: c2h(*c, 0, 512, cid=0xFFF), tp.FES_SEQUENCE, FLYING),
    'SUCCESS without LAST_PDU': ('read', lambda *c: c2h(*c, 0, SIZE, flags=tp.F_SUCCESS), tp.FES_HEADER, 'SUCCESS without'),
    'SUCCESS after half of the data': ('read', lambda *c: c2h(*c, 0, 512, flags=DONE), tp.FES_SEQUENCE, 'without all'),
    'an answer before the data': ('read', rsp, tp.FES_SEQUENCE, 'a Read succeeded without all of its data'),
    'an answer after half of the data': ('read', lambda *c: c2h(*c, 0, 512) + rsp(*c), tp.FES_SEQUENCE, 'without all'),
    'an R2T for nothing': ('write', lambda *c: r2t(*c, 0, 0), tp.FES_RANGE, ASKED),
    'an R2T that ends outside': ('write', lambda *c: r2t(*c, 4, SIZE), tp.FES_RANGE, ASKED),
    'an R2T whose end wraps': ('write', lambda *c: r2t(*c, 4096, 0xFFFFFFFF), tp.FES_RANGE, ASKED),
    'an R2T of an unknown command': ('write', lambda q, cmd: r2t(q, cmd, 0, 512, cid=cmd.cid ^ 1), tp.FES_SEQUENCE, FLYING),
    'two R2Ts at once': ('write', lambda *c: r2t(*c, 0, 512) + r2t(*c, 512, 512), tp.FES_LIMIT, 'the last R2T is not sent'),
    'an answer to a Write without an R2T': ('write', rsp, tp.FES_SEQUENCE, EARLY),
    'an answer together with the R2T': ('write', lambda *c: r2t(*c, 0, SIZE) + rsp(*c), tp.FES_SEQUENCE, EARLY),
    'an R2T for data of the capsule': ('write 512', lambda *c: r2t(*c, 0, 512), tp.FES_SEQUENCE, 'was in the capsule'),
}


@each(*[(name, *fault) for name, fault in HOSTILE.items()])
def a_hostile_target_is_refused(t, verb, answer, fes, text):
    class Hostile(tcp_target.FakeTarget):
        terms = []

        def do_read(self, queue, cmd):
            queue.conn.send_raw(answer(queue, cmd))
            got = queue.conn.recv_pdu()
            while got.kind == tp.H2C_DATA:
                got = queue.conn.recv_pdu()
            self.terms.append((got.kind, got.field('H', 8)))
            raise nv.Stop
        do_write = do_read
    target, uri = fake(t, Hostile)
    verb, size = verb.split()[0], 512 if ' ' in verb else SIZE
    res = t.run([program('rdinit'), verb, uri, f'--data-size={size}', f'--block-count={size // 512 - 1}', '--data',
                 t.file('data', bytes(size))])
    t.eq(res.rc, 1, res.err)
    t.ok(text in res.err, res.err)
    t.eq(([str(e) for e in target.errors], target.terms), ([], [(tp.H2C_TERM, fes)]), 'what the target saw')


@test
def no_answer_to_icreq_ends_the_attempt(t):
    peer = Answers(t, b'')
    res = t.run([program('rdinit'), 'id-ctrl', f'nvme+tcp://127.0.0.1:{peer.port}/{NQN}', '--connect-timeout=200ms'])
    t.eq(res.rc, 1, res.err)
    t.ok('no answer to ICReq' in res.err, res.err)


DISCOVER = {'rdinit': lambda uri: [program('rdinit'), 'discover', uri],
            'a device': lambda uri: [program('rddev'), '--discovery', '1', f'{uri}/{NQN}']}


@each(*((f'{who}, {label}', who, port) for who in DISCOVER
        for label, port in (('8009', 8009), ('4420 where nobody listens at 8009', 4420))))
def discovery_without_a_port_asks(t, who, port):
    """At an address of the loopback that no other test has."""
    addr = '127.' + '.'.join(str(random.randrange(2, 250)) for _ in range(3))
    Answers(t, term(6, 8), (addr, port))
    res = t.run(DISCOVER[who](f'nvme+tcp://{addr}'))
    t.ok(f'{addr}:{port}' in res.err and 'FES 6' in res.err, res.err)
    res = t.run(DISCOVER[who](f'nvme+tcp://{addr}:1'))
    t.ok(f'{addr}:1' in res.err and 'refused' in res.err, res.err)


if __name__ == '__main__':
    sys.exit(main())  # NVMe/TCP needs no fabric: not again in the machines
