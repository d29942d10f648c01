# SPDX-License-Identifier: BSD-3-Clause
"""Hostile peers in large numbers, and the well-behaved host whose service must not suffer.

An attack is a function in a module attack_*.py, registered by @attack, which gets a Crowd and a size:

    @attack('half-open connections', sizes=(256, 1200), small=300)
    def half_open(crowd, size):
        crowd.open(size, half)

    def half(peer):                 # the script of one connection, a generator
        peer.send(b'MPA ID')
        yield 20                    # wait for 20 bytes: its value is what was received

The script is driven by one epoll loop for the whole crowd, so it never blocks: `yield N` waits for N bytes and is their
value, `yield None` waits until everything sent has left, `yield HOLD` keeps the connection open and reads nothing,
`yield DRAIN` keeps it open and discards what comes. When a script ends, its connection is closed. `yield from` mpa(),
segment(), message() and associate() are the usual steps.

The attack runs in a process of its own (start()), so that it shares nothing with the host that is measured. It is ready
when the function has returned; from then on the loop goes on until the process is killed, or for SECONDS at most.

tools/attack runs all attacks at all their sizes; the loop tests run them at size `small`.
As a program: attack_lib.py MODULE FUNCTION ADDR PORT SIZE.
"""

import importlib
import ipaddress
import itertools
import json
import os
import resource
import select
import socket
import struct
import sys
import time
from dataclasses import dataclass

import iwarp_peer as iw
import nvmf_peer as nv
import tcp_peer
from t_loop import NQN, PATIENCE, Failure, Skip, program

SECONDS = 300  # no attack lasts longer, whatever happens to the process that started it
HOLD, DRAIN = object(), object()
IP_BIND_ADDRESS_NO_PORT = 24


def raise_files(count):
    """Let this process and its children have @count files open; Skip where that is forbidden."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))
        except (OSError, ValueError):
            raise Skip(f'needs {count} open files, {hard} are allowed') from None
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def addresses(count=1, first='127.1.0.1'):
    """@count addresses of the loopback, used in turn as the sources of connections."""
    base = int(ipaddress.IPv4Address(first))
    return itertools.cycle([str(ipaddress.IPv4Address(base + n)) for n in range(count)])


# ---- attacks ----

@dataclass
class Attack:
    name: str  # for people
    run: object
    sizes: tuple  # at which tools/attack runs it
    small: int  # and the loop tests
    busy: bool  # it never pauses: the fair share is that of a host beside an honest host that never pauses either
    target: dict  # keys of the configuration's `target` section
    config: object  # None, or a function of the test: more arguments for its target()
    p99: float  # None, or the factor by which the 99th percentile of a read may grow
    blocks: tuple  # sizes of the reads of the host that is measured, each a row of tools/attack
    transport: str  # of the attackers: 'iwarp' or 'tcp'
    listener: dict  # more keys of the listener for NVMe/TCP

    @property
    def victims(self):
        """(transport, size of the reads) of the hosts that are measured, one after the other."""
        return [(transport, block) for transport in dict.fromkeys((self.transport, 'iwarp')) for block in self.blocks]

    @property
    def listeners(self):
        return [{}, {'transport': 'tcp', **self.listener}] if self.transport == 'tcp' else [{}]

    @property
    def module(self):
        return self.run.__module__


def attack(name, *, sizes, small, busy=False, target=None, config=None, p99=None, blocks=('4k',),
           transport='iwarp', listener=None):
    def mark(fn):
        fn.attack = Attack(name, fn, sizes, small, busy, target or {}, config, p99, blocks, transport,
                           listener or {})
        return fn
    return mark


def attacks(module):
    """The attacks of a module, in its order."""
    found = importlib.import_module(module)
    return [fn.attack for fn in vars(found).values() if callable(fn) and hasattr(fn, 'attack')]


def port_of(target, transport):
    """The listener for NVMe/TCP is the last one."""
    return target.listeners[-1 if transport == 'tcp' else 0][1]


def start(t, target, attack, size=None, *, deadline=None):
    """Run an attack in a process until the test ends or .kill(); returns when it is set up, with the process. What the
    crowd counted by then is .counts: opened, arrived, failed, ended."""
    size = size or attack.small
    fn = attack.run.__name__
    proc = t.spawn(f'attack-{fn}', [sys.executable, os.path.abspath(__file__), attack.module, fn, target.addr,
                                    port_of(target, attack.transport), size])
    proc.counts = json.loads(proc.expect(r'^ready (\{.*\})$', deadline=deadline)[1])
    return proc


# ---- the crowd ----

class Peer:
    """One connection of a crowd."""

    def __init__(self, crowd, script, source):
        self.crowd, self.make, self.source = crowd, script, source
        self.settled = False

    def begin(self):
        self.out, self.inn, self.want = bytearray(), bytearray(), None
        self.crc, self.msn = False, {0: 1, 1: 1, 2: 1}
        self.connected = False
        self.sock = socket.socket(socket.AF_INET6 if ':' in self.crowd.at[0] else socket.AF_INET, socket.SOCK_STREAM)
        self.sock.setblocking(False)
        if self.source:
            self.sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            self.sock.bind((self.source, 0))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.connect_ex(self.crowd.at)
        self.fd = self.sock.fileno()
        self.mask = select.EPOLLOUT
        self.crowd.peers[self.fd] = self
        self.crowd.epoll.register(self.fd, self.mask)
        self.script = self.make(self)

    # -- for scripts --

    def send(self, data):
        self.out += data

    def arrived(self):
        """The connection is in the state that the attack wants: crowd.open() waits for that. A script that waits for
        ever gets there with HOLD and DRAIN."""
        if not self.settled:
            self.settled = True
            self.crowd.counts['arrived'] += 1

    def ulpdu(self, data):
        self.send(iw.fpdu(data, self.crc))

    def untagged(self, opcode, qn, data, **kw):
        self.ulpdu(iw.untagged_segment(opcode, qn, self.msn[qn], 0, data, **kw))
        self.msn[qn] += 1

    def capsule(self, data):
        """A SEND of one segment."""
        self.untagged(iw.SEND, 0, data)

    def answer(self, request, data):
        """Answers a READ of up to 32 KiB; @request is what message() returned."""
        self.ulpdu(iw.tagged_segment(iw.READ_RESP, request.sink_stag, request.sink_to, data[:request.size]))

    # -- for the loop --

    def end(self):
        self.crowd.peers.pop(self.fd, None)
        self.sock.close()  # epoll forgets it

    def _flush(self):
        while self.out:
            try:
                del self.out[:self.sock.send(self.out[:1 << 18])]
            except BlockingIOError:
                return

    def _receive(self):
        """Returns False at the end of the connection."""
        if self.want is HOLD:
            return True
        try:
            data = self.sock.recv(1 << 18)
        except BlockingIOError:
            return True
        if self.want is not DRAIN:
            self.inn += data
        return bool(data)

    def _advance(self):
        """Runs the script until it has to wait; returns False when it has ended."""
        for _ in range(64):  # others have their turn
            if isinstance(self.want, int):
                if len(self.inn) < self.want:
                    return True
                value = bytes(self.inn[:self.want])
                del self.inn[:self.want]
            elif self.want is None:
                if self.out:
                    return True
                value = None
            else:
                self.arrived()
                return True
            try:
                self.want = self.script.send(value)
            except StopIteration:
                return False
            self._flush()
        self.crowd.again.append(self)
        return True

    def step(self, events):
        alive = True
        try:
            if not self.connected:
                err = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if err:
                    raise OSError(err, os.strerror(err))
                self.connected = True
            self._flush()
            if events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                alive = self._receive()
            alive = self._advance() and alive
            if self.want is HOLD and events & (select.EPOLLHUP | select.EPOLLERR):
                alive = False
        except (OSError, iw.PeerError):
            alive = False
        if not alive:
            self.end()
            self.crowd.ended(self)
            return
        mask = (select.EPOLLOUT if self.out else 0) | (0 if self.want is HOLD else select.EPOLLIN)
        if mask != self.mask:
            self.mask = mask
            self.crowd.epoll.modify(self.fd, mask)


class Crowd:
    """Many connections to (address, port), driven together."""

    def __init__(self, at):
        self.at = at
        self.epoll = select.epoll()
        self.peers = {}  # by descriptor
        self.again = []  # whose scripts go on without waiting
        self.reopen = []
        self.counts = {'opened': 0, 'arrived': 0, 'failed': 0, 'ended': 0}
        self._persistent = set()

    def open(self, count, script, *, sources=None, again=False, wait=True, seconds=60):
        """@count connections, each with script(peer); from addresses(), or from where the kernel likes. again: a
        connection that the target closes is made again at once, while run() is active. If it is to wait, returns when
        each connection has arrived or ended; a connection that has done neither in time is an error."""
        end = time.monotonic() + seconds
        crowd = []
        for n in range(count):
            peer = Peer(self, script, next(sources) if sources else None)
            crowd.append(peer)
            if again:
                self._persistent.add(peer)
            self.counts['opened'] += 1
            peer.begin()
            if n % 16 == 15:
                self.step(0)
        while wait and not all(peer.settled for peer in crowd):
            self.step(0.1)
            if time.monotonic() > end:
                raise Failure(f'after {seconds} s: {self.counts}')

    def keep_open(self, peer):
        """A connection that the target closes is made again at once."""
        self._persistent.add(peer)

    def ended(self, peer):
        self.counts['ended'] += 1
        if not peer.settled:
            peer.settled = True
            self.counts['failed'] += 1
        if peer in self._persistent:
            self.reopen.append(peer)

    def step(self, timeout):
        again, self.again = self.again, []
        for fd, events in self.epoll.poll(0 if again or self.reopen else timeout):
            peer = self.peers.get(fd)
            if peer:
                peer.step(events)
        for peer in again:
            if self.peers.get(peer.fd) is peer:
                peer.step(0)
        reopen, self.reopen = self.reopen, []
        for peer in reopen:
            self.counts['opened'] += 1
            peer.begin()

    def run(self, seconds=SECONDS):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.step(0.1)


# ---- steps of scripts ----

def mpa(peer, qid=0, depth=32, **kw):
    """MPA and NVMe's private data. Returns the reply; a reject ends the connection."""
    peer.send(iw.mpa_frame(iw.REQ_KEY, nv.cm_request(qid, hrqsize=depth, hsqsize=depth - 1), **kw))
    head = yield 20
    flags, rev, length = struct.unpack('>BBH', head[16:])
    reply = iw.Mpa(head[:16], flags, rev, (yield length) if length else b'')
    if reply.reject:
        raise iw.PeerError('rejected')
    peer.crc = reply.crc
    return reply


def segment(peer):
    """The next segment. Its CRC is not checked, because other tests do that."""
    head = yield 2
    length = struct.unpack('>H', head)[0]
    rest = yield length + (-(length + 2) % 4) + 4
    return iw.parse_segment(rest[:length])


def message(peer):
    """The next SEND of one segment, as bytes, or READ request, as iw.ReadRequest, unanswered."""
    while True:
        seg = yield from segment(peer)
        if seg.opcode == iw.READ_REQ:
            return iw.ReadRequest(*struct.unpack('>IQIIQ', seg.payload))
        if seg.opcode in iw.SENDS:
            return seg.payload
        if seg.opcode == iw.TERMINATE:
            raise iw.PeerError('Terminate')


def connect_capsule(qid=0, depth=32, kato=0, key=0x100, cid=1):
    """A Connect whose data is read by @key."""
    body = struct.pack('<HHHBBI', 0, qid, depth - 1, 0, 0, kato)
    return nv.fabrics_sqe(nv.CONNECT, cid, body, sgl=nv.keyed_sgl(0, 1024, key))


def associate(peer, qid=0, depth=32, *, nqn=NQN, hostnqn=nv.HOST_NQN, hostid=None, cntlid=0xFFFF, kato=0, **kw):
    """mpa() and Connect. Returns the Cqe, with any status."""
    yield from mpa(peer, qid, depth, **kw)
    peer.capsule(connect_capsule(qid, depth, kato))
    request = yield from message(peer)
    if isinstance(request, iw.ReadRequest):
        peer.answer(request, nv.connect_data(nqn, hostnqn, hostid=hostid, cntlid=cntlid))
        request = yield from message(peer)
    return nv.Cqe.parse(iw.Message(iw.SEND, request))


# ---- the well-behaved host ----

def connect_time(target, nqn=NQN, *, timeout=20.0, transport='iwarp', **kw):
    """Seconds from the first SYN of a new host until it has read a block; None if it failed within @timeout."""
    begin = time.monotonic()
    try:
        kind = tcp_peer.Host if transport == 'tcp' else nv.Host
        with kind(target.addr, port_of(target, transport), nqn, timeout=timeout, **kw) as h:
            h.enable()
            nv.expect(h.add_io().read_blocks(1, 0, 1)[0])
            took = time.monotonic() - begin
            h.shutdown()
            return took
    except (OSError, iw.PeerError, AssertionError):
        return None


def connect_times(target, count, **kw):
    """The same for hosts one after the other, with different NQNs."""
    return [connect_time(target, hostnqn=f'nqn.2024-01.test:good-{n % 100}', **kw) for n in range(count)]


def start_reads(t, target, seconds, *, name='reads', depth=32, size='4k', hostnqn='nqn.2024-01.test:good',
                transport='iwarp'):
    """An rdinit on one queue that reads for some time; finish_reads() has the result."""
    uri = target.uri()
    if transport == 'tcp':
        uri = f'nvme+tcp://{target.host}:{port_of(target, transport)}/{NQN}/1'
    with open(t.path(f'{name}.json'), 'wb') as out:
        return t.spawn(name, [program('rdinit'), 'bench', uri, '-o', 'json', '--run-time', f'{seconds}s',
                              '--depth', depth, '--block-size', size, '--hostnqn', hostnqn, *PATIENCE], stdout=out)


def finish_reads(t, proc, *, deadline=None):
    """Reads per second; None if it failed (the log says why). Their 99th percentile is .p99 of the process, in us."""
    if proc.wait(deadline):
        return None
    with open(t.path(f'{proc.name}.json'), encoding='utf-8') as f:
        result = json.load(f)
    proc.p99 = result['latency_ns']['percentiles']['99'] / 1000
    return result['iops']


def reads(t, target, seconds=2, **kw):
    return finish_reads(t, start_reads(t, target, seconds, **kw))


# ---- as a program ----

def main():
    module, name, addr, port, size = sys.argv[1:]
    raise_files(int(size) * 11 // 10 + 500)  # an attack may need some more
    crowd = Crowd((addr, int(port)))
    getattr(importlib.import_module(module), name)(crowd, int(size))
    print('ready', json.dumps(crowd.counts), file=sys.stderr, flush=True)
    crowd.run()


if __name__ == '__main__':
    sys.modules['attack_lib'] = sys.modules['__main__']  # the attack's module shares HOLD and DRAIN
    main()
