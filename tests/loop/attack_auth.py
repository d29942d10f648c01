# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that authenticate all at once, each with a Diffie-Hellman exchange that the target has to compute."""

import itertools
import os
import struct

import auth_peer as au
import iwarp_peer as iw
import nvmf_peer as nv
import t_auth
from attack_lib import addresses, associate, attack, segment
from t_loop import NQN

FFDHE4096 = 3
MOST = 600  # hosts
KEY = 0x300
GOOD = [nv.HOST_NQN, 'nqn.2024-01.test:good', 'nqn.2024-01.test:rival']


def name(n):
    return f'nqn.2024-01.test:auth-{n}'


def config(t):
    """Those that are measured need not authenticate."""
    key = t_auth.entry(t, dhchap_dhgroups=['ffdhe4096'])
    return {'subsystem': {'allow_any_host': False, 'hosts': GOOD + [name(n) for n in range(MOST)],
                          'host_auth': [{**key, 'host': name(n)} for n in range(MOST)]}}


def answer(peer, data=b''):
    """The completion of a command: @data is the data that the target may read. Returns (Cqe, bytes it wrote)."""
    written = bytearray(4096)
    while True:
        seg = yield from segment(peer)
        if seg.opcode == iw.READ_REQ:
            peer.answer(iw.ReadRequest(*struct.unpack('>IQIIQ', seg.payload)), data)
        elif seg.opcode == iw.WRITE:
            written[seg.to:seg.to + len(seg.payload)] = seg.payload
        elif seg.opcode in iw.SENDS:
            return nv.Cqe.parse(iw.Message(iw.SEND, seg.payload)), bytes(written)
        else:
            raise iw.PeerError('Terminate')


def auth_send(peer, cid, msg):
    peer.capsule(nv.fabrics_sqe(au.AUTH_SEND, cid, au.auth_body(len(msg)), sgl=nv.keyed_sgl(0, len(msg), KEY)))
    nv.expect((yield from answer(peer, msg))[0])


def auth_receive(peer, cid):
    peer.capsule(nv.fabrics_sqe(au.AUTH_RECEIVE, cid, au.auth_body(4096), sgl=nv.keyed_sgl(0, 4096, KEY)))
    cqe, data = yield from answer(peer)
    nv.expect(cqe)
    return data


def authenticating(peer, numbers):
    """Authenticates its admin queue and leaves."""
    hostnqn = name(next(numbers))
    nv.expect((yield from associate(peer, hostnqn=hostnqn)))
    # A short exponent: the hosts' own work is done on other machines.
    private = int.from_bytes(os.urandom(6), 'big') | 1 << 48
    x = au.Transaction(None, NQN, t_auth.SECRET, hostnqn=hostnqn, hashes=(1,), groups=(FFDHE4096,), private=private)
    peer.arrived()
    yield from auth_send(peer, 2, x.negotiate())
    x.read_challenge((yield from auth_receive(peer, 3)))
    yield from auth_send(peer, 4, x.reply())
    if au.head((yield from auth_receive(peer, 5)))[0] == au.SUCCESS1:
        peer.crowd.counts['authenticated'] = peer.crowd.counts.get('authenticated', 0) + 1


@attack('hosts that authenticate with ffdhe4096', sizes=(500,), small=50, config=config, p99=2.0)
def ffdhe4096(crowd, size):
    os.nice(19)
    numbers = itertools.cycle(range(size))
    crowd.open(size, lambda peer: authenticating(peer, numbers), sources=addresses(16), again=True)
