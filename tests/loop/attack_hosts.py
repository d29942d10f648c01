# SPDX-License-Identifier: BSD-3-Clause
"""Attacks by hosts: many that hold buffers and transfer no data, many controllers, many Connects that are never
finished."""

import functools
import itertools
import os
import struct

import iwarp_peer as iw
import nvmf_peer as nv
from attack_lib import DRAIN, HOLD, Peer, addresses, associate, attack, connect_capsule, message, mpa

MIB = 2048   # blocks
DEPTH = 32   # of an I/O queue
LARGE = 24   # commands of 1 MiB on it: as much as the buffers of a reactor, for each host
KEY = 0x200  # of memory that is never looked at
BLOCKS = ('4k', '8k', '64k', '1M')


def name(n):
    return f'nqn.2024-01.test:bad-{n}'


def cqe(peer):
    return nv.Cqe.parse(iw.Message(iw.SEND, (yield from message(peer))))


def call(peer, capsule):
    peer.capsule(capsule)
    return (yield from cqe(peer))


def enable(peer):
    """Until CSTS.RDY."""
    def set_cc(value):
        return nv.fabrics_sqe(nv.PROPERTY_SET, 2, struct.pack('<B3xIQ', 0, nv.CC, value))
    for value in (0x00460000, 0x00460001):
        nv.expect((yield from call(peer, set_cc(value))))
    while True:
        got = yield from call(peer, nv.fabrics_sqe(nv.PROPERTY_GET, 3, struct.pack('<B3xI', 0, nv.CSTS)))
        if nv.expect(got).dw0 & 1:
            return


def spawn(peer, script, again=False):
    """One more connection from the same address, again whenever it has ended. The caller awaits it in open_hosts()."""
    other = Peer(peer.crowd, script, peer.source)
    if again:
        peer.crowd.keep_open(other)
    peer.crowd.spawned = [*getattr(peer.crowd, 'spawned', ()), other]
    peer.crowd.counts['opened'] += 1
    other.begin()


def admin(peer, n, then, again):
    """A host: an enabled controller, and a script for each I/O queue, or one string for this queue."""
    got = nv.expect((yield from associate(peer, hostnqn=name(n), depth=128)))
    yield from enable(peer)
    for qid, script in enumerate(then, 1):
        spawn(peer, functools.partial(script, n=n, qid=qid, cntlid=got.dw0 & 0xFFFF), again)
    yield DRAIN


def open_spawned(crowd):
    while not all(peer.settled for peer in crowd.spawned):
        crowd.step(0.1)


def open_hosts(crowd, size, *scripts, sources=None, again=False):
    """@size hosts, each with these scripts for its I/O queues."""
    numbers = iter(range(size))
    crowd.open(size, lambda peer: admin(peer, next(numbers), scripts, again), sources=sources)
    open_spawned(crowd)


def io(opcode, cid, lba, blocks):
    return nv.sqe(opcode, cid, nsid=1, cdw10=lba, cdw12=blocks - 1, sgl=nv.keyed_sgl(0, blocks * 512, KEY))


def connected(peer, n, qid, cntlid):
    nv.expect((yield from associate(peer, qid, DEPTH, hostnqn=name(n), cntlid=cntlid)))


def stuck_writes(peer, **host):
    """Writes whose data the host never sends."""
    yield from connected(peer, **host)
    for cid in range(LARGE):
        peer.capsule(io(nv.NVM_WRITE, cid, 0, MIB))
    yield None
    yield HOLD


def stuck_reads(peer, **host):
    """Reads whose data the host never receives."""
    yield from connected(peer, **host)
    for cid in range(LARGE):
        peer.capsule(io(nv.NVM_READ, cid, 0, MIB))
    yield None
    yield HOLD


def beside_flushes(peer, **host):
    """Writes whose data the host never sends, while other commands on the same connection continue."""
    yield from connected(peer, **host)
    peer.capsule(io(nv.NVM_WRITE, 0, 0, MIB))
    peer.arrived()
    while True:
        peer.capsule(nv.sqe(nv.FLUSH, 1, nsid=1))
        while isinstance((yield from message(peer)), iw.ReadRequest):
            pass


def stuck_admin(peer, n):
    """Admin commands whose data the host never sends: 4 KiB each."""
    nv.expect((yield from associate(peer, hostnqn=name(n), depth=128)))
    yield from enable(peer)
    for cid in range(120):
        peer.capsule(nv.sqe(nv.SET_FEATURES, cid, cdw10=0x0E, sgl=nv.keyed_sgl(0, 8, KEY)))
    yield None
    yield HOLD


def controller(peer, n):
    nv.expect((yield from associate(peer, hostnqn=name(n % 500), hostid=struct.pack('<IIII', n, 0, 0, 1))))
    yield DRAIN


def refused_or_not(peer, n):
    """A controller, or the refusal of one."""
    got = yield from associate(peer, hostnqn=name(n), hostid=struct.pack('<IIII', n, 0, 0, 1))
    if got.status not in (nv.SUCCESS, nv.CONNECT_BUSY):
        nv.expect(got)
    yield DRAIN


def no_connect_data(peer):
    """The READ for the data of its Connect is not answered."""
    yield from mpa(peer)
    peer.capsule(connect_capsule())
    yield from message(peer)
    yield HOLD


def deep_queue(peer):
    """A queue pair of the maximum depth, without a Connect."""
    yield from mpa(peer, 1, 1024)
    yield DRAIN


@attack('Writes without their data', sizes=(4, 100, 1000), small=150, blocks=BLOCKS)
def writes(crowd, size):
    open_hosts(crowd, size, stuck_writes)


@attack('Writes without their data, again and again', sizes=(8, 100), small=8, blocks=BLOCKS)
def writes_again(crowd, size):
    open_hosts(crowd, size, stuck_writes, again=True)


@attack('Writes without their data, many addresses', sizes=(100, 1000), small=150, blocks=BLOCKS)
def writes_everywhere(crowd, size):
    open_hosts(crowd, size, stuck_writes, sources=addresses(64))


@attack('Reads that are not taken', sizes=(4, 100, 1000), small=150, blocks=BLOCKS)
def reads(crowd, size):
    open_hosts(crowd, size, stuck_reads)


@attack('Writes without their data beside Flushes', sizes=(4, 50), small=20, busy=True)
def beside_others(crowd, size):
    """Answered commands do not excuse those that stand still."""
    open_hosts(crowd, size, beside_flushes)


@attack('admin commands without their data', sizes=(100, 1000), small=150)
def admin_commands(crowd, size):
    numbers = iter(range(size))
    crowd.open(size, lambda peer: stuck_admin(peer, next(numbers)))


@attack('controllers', sizes=(4000, 12000), small=300)
def controllers(crowd, size):
    numbers = iter(range(size))
    crowd.open(size, lambda peer: controller(peer, next(numbers)), sources=addresses(4), seconds=240)


START = 0x9DC5  # of FNV-1a with 32 bits
ALPHABET = b'abcdefghijklmnopqrstuvwxyz012345'


def fnv(data, state):
    """The low half of FNV-1a, of which tables use the lowest bits."""
    for byte in data:
        state = (state ^ byte) * 0x193 & 0xFFFF
    return state


def pair(state):
    """Two texts that lead from one state to the same next state."""
    seen = {}
    for text in itertools.product(ALPHABET, repeat=3):
        other = seen.setdefault(fnv(text, state), text)
        if other is not text:
            return bytes(other), bytes(text)
    raise AssertionError(state)


def alike(count):
    """@count Host NQNs with one value of FNV-1a, a hash without a secret: each of some parts is one of two texts."""
    names, state = ['nqn.2024-01.test:'], fnv(b'nqn.2024-01.test:', START)
    while len(names) < count:
        one, two = pair(state)
        state = fnv(one, state)
        names = [name + part.decode() for name in names for part in (one, two)]
    return names[:count]


def stay(peer, hostnqn):
    nv.expect((yield from associate(peer, hostnqn=hostnqn, hostid=ONE_ID)))
    yield DRAIN


def come_back(peer, hostnqns):
    try:
        nv.expect((yield from associate(peer, hostnqn=next(hostnqns), hostid=ONE_ID)))
    except iw.PeerError:
        pass
    peer.arrived()


# A Host Identifier after which FNV-1a goes on from its start
ONE_ID = next(text for n in range(1 << 20) if fnv(text := struct.pack('<IIII', n, 0, 0, 1), START) == START)


@attack('hosts whose names have one hash', sizes=(8000,), small=300, busy=True)
def one_hash(crowd, size):
    """Controllers of many names, and hosts with more such names that connect again and again."""
    os.nice(19)
    names = alike(size + 64)
    hostnqns = iter(names)
    crowd.open(size, lambda peer: stay(peer, next(hostnqns)), sources=addresses(4), seconds=240)
    others = itertools.cycle(names[size:])
    crowd.open(16, lambda peer: come_back(peer, others), again=True)


@attack('Connects without their data', sizes=(300, 1200), small=300)
def connects(crowd, size):
    """An attacker whose connection is closed reconnects at once."""
    crowd.open(size, no_connect_data, again=True)


@attack('the deepest queues without a Connect', sizes=(1355, 5000), small=1400,
        target={'queue_depth': 1024, 'limits': {'unconnected': 10000, 'unconnected_per_address': 10000}})
def deep_queues(crowd, size):
    crowd.open(size, deep_queue)
