# SPDX-License-Identifier: BSD-3-Clause
"""NVMe/TCP: rdinit on listeners with transport tcp, and on targets that break the protocol."""

import os
import socket
import struct
import sys
import threading

from t_loop import NQN, each, main, program, test

LISTENER = {'transport': 'tcp'}
MIB = 1 << 20


def serve(t, **kw):
    return t.target([{'nsid': 1, 'backend': 'memory', 'size': 8 * MIB}], listener=LISTENER, **kw)


def tcp_uri(target, nsid=1, nqn=NQN):
    return target.uri(nsid, nqn).replace('nvme+rdma:', 'nvme+tcp:')


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


@test
def discovery_and_every_step_work(t):
    target = serve(t)
    found, steps = t.rdinit('discover', tcp_uri(target, 0, '')).text, t.rdinit('connect-test', tcp_uri(target)).text
    t.ok('trtype:  tcp' in found, found)
    t.ok('all steps succeeded' in steps, steps)


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

    def __init__(self, t, answer):
        self.sock = socket.create_server(('127.0.0.1', 0))
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


if __name__ == '__main__':
    sys.exit(main())
