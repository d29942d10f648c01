# SPDX-License-Identifier: BSD-3-Clause
"""Either side of a hand-over as docs/design/moves.md describes it, written without the C code: a process that takes over,
and one that hands over what it is told to. And hosts of a target with a listener of each transport."""

import array
import fcntl
import json
import os
import re
import socket
import struct

import nvmf_peer as nv
import tcp_peer
from t_control import Control
from t_loop import DEADLINE, NQN, Failure, program
from t_owner import Owner

BATCH = 250
RDMA, TCP = 'nvme+rdma', 'nvme+tcp'


class Channel:
    """Messages with records and descriptors."""

    def __init__(self, sock):
        self.sock = sock
        self.sock.settimeout(DEADLINE)

    def close(self):
        self.sock.close()

    def receive(self):
        """(message, records or None, descriptors); None at the end."""
        fds = array.array('i')
        while True:
            data, ancillary, _, _ = self.sock.recvmsg(1 << 16, socket.CMSG_SPACE(BATCH * fds.itemsize))
            for level, kind, value in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    fds.frombytes(value[:len(value) - len(value) % fds.itemsize])
            if not data:
                return None
            message = json.loads(data)
            if message['op'] != 'more':
                break
        records = None
        if 'records' in message:
            with os.fdopen(os.dup(fds[message['records']]), 'rb') as f:
                f.seek(0)
                records = json.load(f)
        return message, records, list(fds)

    def send(self, op, records=None, fds=(), **members):
        fds = list(fds)
        message = {'op': op, **members}
        if records is not None:
            memory = os.memfd_create('records')
            os.write(memory, json.dumps(records).encode())
            message['records'] = len(fds)
            fds.append(memory)
        while len(fds) > BATCH:
            socket.send_fds(self.sock, [b'{"op":"more"}'], fds[:BATCH])
            fds = fds[BATCH:]
        socket.send_fds(self.sock, [json.dumps(message).encode()], fds)

    def expect(self, op):
        got = self.receive()
        if not got or got[0]['op'] != op:
            raise Failure(f'the other process says {got and got[0]}, expected {op}')
        return got


def ask(control, **params):
    """Take over from the target with this control socket: its Channel."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(DEADLINE)
        sock.connect(control)
        sock.sendall(json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': 'upgrade.take',
                                 'params': {'format': 1, **params}}).encode() + b'\n')
        data, fds, _, _ = socket.recv_fds(sock, 1 << 16, 1)
        while data.count(b'\n') < 2 and b'error' not in data:
            data += sock.recv(1 << 16)
        if not fds:
            raise Failure(f'no channel: {data!r}')
        return Channel(socket.socket(fileno=fds[0]))


class Giver:
    """A control socket at which one process asks to take over."""

    def __init__(self, path):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.listener.settimeout(DEADLINE)

    def channel(self):
        sock, _ = self.listener.accept()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with sock, theirs:
            request = json.loads(sock.makefile().readline())
            if request['method'] != 'upgrade.take':
                raise Failure(f'it asks {request}')
            socket.send_fds(sock, [b'\n'], [theirs.fileno()])
            sock.sendall(json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'result': {'format': 1}}).encode() + b'\n')
        return Channel(ours)

    def close(self):
        self.listener.close()


class TcpOwner(Owner):
    queue_class = tcp_peer.Queue


def port_of(target, transport):
    return target.listeners[1 if transport == TCP else 0][1]


def uri_of(target, transport, nsid=1):
    return f'{transport}://{target.host}:{port_of(target, transport)}/{NQN}/{nsid}'


def take_over(t, config, control, name, *args, **kw):
    """Start a process that takes over; it serves when this returns."""
    return t.target(config=config, name=name, args=('--take-over', control, *args), **kw)


def start_refused(t, config, control, says, *args, name='refused', status=1, **kw):
    """A process that must not take over."""
    proc = t.spawn(name, [program('rdtarget'), '-c', config, '--take-over', control, *args], **kw)
    t.eq(proc.wait(), status, 'exit status of a process that cannot take over')
    t.match(says, proc.text(), 'what it says')


def ended(t, target):
    t.eq(target.wait(), 0, f'exit status of {target.name}, which has handed over')


def pause_of(target):
    return float(target.expect(r'took over from process \d+: .* rested for ([\d.]+) ms')[1])


def no_reconnect(t, device):
    t.ok(not re.search(r'event path \d+ lost', device.proc.text()), f'a path was lost:\n{device.proc.text()[-3000:]}')


def peer(target, transport, number=1, kind=None, **kw):
    """A host of the Python peer with an identity of its own, and one I/O queue."""
    kind = kind or (TcpOwner if transport == TCP else Owner)

    class Place:
        addr, port = target.addr, port_of(target, transport)
    return kind(Place, number, **kw)


def has_ended(pid):
    """A process that may be nobody's child here."""
    try:
        with open(f'/proc/{pid}/stat', encoding='ascii', errors='replace') as f:
            return f.read().rsplit(')', 1)[1].split()[0] == 'Z'
    except FileNotFoundError:
        return True


def ana_log(host):
    """(change count, {group: (its change count, state, NSIDs)})"""
    page = nv.expect_data(host.admin.get_log(0x0C, 4096))
    count, groups, at, found = *struct.unpack_from('<QH', page), 16, {}
    for _ in range(groups):
        group, nsids, changes, state = struct.unpack_from('<IIQB', page, at)
        found[group] = (changes, state, list(struct.unpack_from(f'<{nsids}I', page, at + 32)))
        at += 32 + 4 * nsids
    return count, found


def figures(control):
    """What rdctl stats has, with all histograms."""
    with Control(control) as c:
        return c.call('stats.get', namespaces=True, hosts=True, histograms=True)


def close_all(fds):
    for fd in fds:
        os.close(fd)


def take_up_to_commit(channel):
    """As the next process does: (records of what moves, their descriptors, all descriptors)."""
    kept = channel.expect('prepare')[2]
    channel.send('ready')
    _, records, fds = channel.expect('move')
    channel.send('took')
    channel.expect('commit')
    return records, fds, kept + fds


def user_of(path):
    """PID of the process that tells that it uses a file; 0: none."""
    with open(path, 'rb+') as f:
        asked = struct.pack('hhqqi', fcntl.F_WRLCK, os.SEEK_SET, (1 << 63) - 2, 1, 0)
        kind, *_, pid = struct.unpack('hhqqi', fcntl.fcntl(f, fcntl.F_GETLK, asked))
    return 0 if kind == fcntl.F_UNLCK else pid
