# SPDX-License-Identifier: BSD-3-Clause
"""rdinit attach and detach where the kernel has no module for them: what they say. With a kernel: tests/vm/test_attach.sh."""

import json
import os
import random
import re
import signal
import socket
import struct
import sys

from t_loop import DEADLINE, NQN, PATIENCE, Failure, Skip, each, main, program, requires_program, requires_root, test
import t_schema

UUID = '5c1f0e3a-7b52-4d0e-9f0a-2d6d3f5f7a10'


def rdinit(t, *args, **kw):
    return t.run([program('rdinit'), *args, *([] if 'list' in args else ['--state-dir', t.path('state')])], **kw)


def refused(t, text, *args, rc=1):
    res = rdinit(t, *args)
    t.eq(res.rc, rc, f'exit status of {args}: {res.err}')
    t.match(re.escape(text), res.err, f'message of {args}')
    t.eq(res.text, '', f'output of {args}')


def leave(t, name, **values):
    """The file of a device whose process has ended."""
    os.makedirs(t.path('state'), exist_ok=True)
    values = {'ID': UUID, 'DRIVER': 'ublk', 'STATE': 'live', 'SUBNQN': NQN, 'NSID': 3, 'BLOCKS': 2048, 'BLOCK_SIZE': 512,
              'READ_ONLY': 0, **values}
    with open(t.path(f'state/{name}'), 'w', encoding='ascii') as f:
        f.writelines(f'RDINIT_{k}={v}\n' for k, v in values.items())


@test
def wrong_arguments_are_refused(t):
    uri = f'nvme+tcp://127.0.0.1:1/{NQN}/1'
    refused(t, '0 URIs', 'attach', rc=2)
    refused(t, '--driver: found "loop", expected auto, ublk or nbd', 'attach', uri, '--driver=loop', rc=2)
    refused(t, 'no subsystem', 'attach', 'nvme+tcp://127.0.0.1:1', rc=2)
    refused(t, 'detach takes one block device', 'detach', rc=2)
    refused(t, 'detach takes one block device', 'detach', 'ublkb0', 'ublkb1', rc=2)
    res = t.run([program('rdinit'), 'attach', uri, '--state-dir=run'])
    t.match(re.escape('--state-dir: "run" is not an absolute path'), res.err, 'a relative state directory')
    t.eq(os.path.exists(t.path('state')), False, 'a state directory was made')


@test
def what_is_not_attached_cannot_be_detached(t):
    refused(t, '/dev/ublkb7 is not attached by rdinit: nothing is', 'detach', '/dev/ublkb7')
    leave(t, 'ublkb3')
    refused(t, '/dev/ublkb7 is not attached by rdinit; rdinit list --attached', 'detach', 'ublkb7')
    refused(t, 'is not the name of a block device', 'detach', '..')
    refused(t, 'is not attached by rdinit', 'detach', '/dev/null')


@test
def a_left_device_is_listed(t):
    leave(t, 'ublkb10')
    leave(t, 'ublkb3', ID='eui.0011', READ_ONLY=1)
    leave(t, 'ublkb4', BLOCK_SIZE='many')  # is no file of ours
    args = ['list', '--attached', '--state-dir', t.path('state')]
    lines = rdinit(t, *args).text.splitlines()
    t.eq([line.split()[:4] for line in lines[1:]], [['/dev/ublkb3', 'ublk', 'left', '0'], ['/dev/ublkb10', 'ublk', 'left', '0']],
         'lines')
    value = json.loads(rdinit(t, *args, '--output-format=json').text)
    t_schema.check('list', value)
    t.eq([(d['DevicePath'], d['Identifier'], d['PhysicalSize'], d['ReadOnly']) for d in value['Attached']],
         [('/dev/ublkb3', 'eui.0011', 1 << 20, True), ('/dev/ublkb10', UUID, 1 << 20, False)], 'devices')
    refused(t, '--attached lists devices of this machine', 'list', 'nvme+tcp://127.0.0.1', '--attached', rc=2)


@test
def attach_says_what_is_missing(t):
    """A target that is not there, a namespace that does not exist, a kernel without the module."""
    target = t.target(subsystems=[{'nqn': NQN, 'allow_any_host': True,
                                   'namespaces': [t.namespace(1, backend='memory', size='1MiB')]}])
    refused(t, 'namespace 9', 'attach', target.uri(9), *PATIENCE)
    for more in ([], ['--foreground']):
        if os.path.exists('/dev/ublk-control'):
            raise Skip('this kernel has ublk')
        refused(t, 'there is no /dev/ublk-control', 'attach', target.uri(1), '--driver=ublk', *more, *PATIENCE)
    t.eq(sorted(os.listdir(t.path('state'))), ['.lock'], 'files that are left')
    target.stop()
    refused(t, 'refused', 'attach', target.uri(1), *PATIENCE)


@each(('ublk and nbd', 'auto', 'no module ublk_drv that could be loaded .*; this kernel has no module nbd that could be loaded'),
      ('nbd', 'nbd', '^rdinit: this kernel has no module nbd that could be loaded'))
def a_kernel_without(t, driver, says):
    """Neither driver is there, nor can it be loaded."""
    if os.path.exists(f'/lib/modules/{os.uname().release}') or os.path.exists('/sys/block/nbd0') or os.path.exists('/dev/ublk-control'):
        raise Skip('this kernel has modules')
    target = t.target([t.namespace(1, backend='memory', size='1MiB')])
    res = rdinit(t, 'attach', target.uri(1), f'--driver={driver}', *PATIENCE)
    t.eq((res.rc, res.text), (1, ''), 'exit status and output')
    t.match(says, res.err)
    t.eq(sorted(os.listdir(t.path('state'))), ['.lock'], 'files that are left')


@test
def a_state_directory_of_another_user(t):
    requires_root()
    target = t.target(subsystems=[{'nqn': NQN, 'allow_any_host': True,
                                   'namespaces': [t.namespace(1, backend='memory', size='1MiB')]}])
    os.mkdir(t.path('state'))
    os.chown(t.path('state'), 65534, 65534)
    res = t.run([requires_program('setpriv'), '--bounding-set=-dac_override', '--inh-caps=-dac_override', program('rdinit'),
                 'attach', target.uri(1), '--state-dir', t.path('state'), *PATIENCE])
    t.eq((res.rc, res.text), (1, ''), 'exit status and output')
    t.match('cannot open the lock of the state directory: Permission denied; run rdinit as root', res.err)
    t.eq(os.listdir(t.path('state')), [], 'files')


# ---- the NBD server, on a socket; the protocol is doc/proto.md of NBD ----

READ, WRITE, DISCONNECT, FLUSH, TRIM, WRITE_ZEROES = 0, 1, 2, 3, 4, 6
FUA = 1
EPERM, EIO, EINVAL = 1, 5, 22
SIZE = 8 << 20


class Nbd:
    """A client of rdnbd, which serves a new namespace in memory."""

    def __init__(self, t, *args, block_size=512):
        target = t.target(subsystems=[{'nqn': NQN, 'allow_any_host': True, 'namespaces': [
            t.namespace(1, backend='memory', size='8MiB', block_size=block_size)]}])
        self.target = target
        self.sock, theirs = socket.socketpair()
        self.sock.settimeout(DEADLINE)
        self.proc = t.spawn('rdnbd', [program('rdnbd'), target.uri(1), *args], stdin=theirs)
        theirs.close()
        self.cookie = 0

    def send(self, kind, at=0, length=0, data=b'', flags=0, magic=0x25609513):
        self.cookie += 1
        self.sock.sendall(struct.pack('>IHHQQI', magic, flags, kind, self.cookie, at, length) + data)
        return self.cookie

    def take(self, n):
        data = b''
        while len(data) < n:
            more = self.sock.recv(n - len(data))
            if not more:
                raise EOFError(f'{len(data)} of {n} bytes')
            data += more
        return data

    def answer(self, lengths):
        """(cookie, error, data) of the next answer; lengths: of the data of each Read."""
        magic, error, cookie = struct.unpack('>IIQ', self.take(16))
        if magic != 0x67446698:
            raise Failure(f'magic {magic:#x}')
        return cookie, error, self.take(lengths.get(cookie, 0)) if not error else b''

    def call(self, kind, at=0, length=0, data=b'', flags=0):
        cookie = self.send(kind, at, length, data, flags)
        got, error, answer = self.answer({cookie: length} if kind == READ else {})
        if got != cookie:
            raise Failure(f'cookie {got}, expected {cookie}')
        return error, answer

    def end(self, t):
        self.sock.close()
        t.eq(self.proc.wait(), 0, 'exit status of rdnbd')


@test
def nbd_reads_and_writes_against_a_model(t):
    """Many requests at once, more than the server has room for, of all sizes, with one that is larger than a command."""
    nbd, rng, model = Nbd(t), random.Random(7), bytearray(SIZE)
    for _ in range(30):
        spans = [(slot * (SIZE // 16), rng.choice((512, 4096, 65536, 131072, 131584, SIZE // 16))) for slot in range(16)]
        for at, length in spans:
            data = rng.randbytes(length)
            model[at:at + length] = data
            nbd.send(WRITE, at, length, data, flags=rng.choice((0, FUA)))
        for _ in spans:
            t.eq(nbd.answer({})[1], 0, 'error of a write')
        lengths = {nbd.send(READ, at, length): (at, length) for at, length in spans}
        for _ in spans:
            cookie, error, data = nbd.answer({c: length for c, (_, length) in lengths.items()})
            at, length = lengths.pop(cookie)
            t.eq(error, 0, 'error of a read')
            t.same(data, bytes(model[at:at + length]), f'{length} bytes at {at}')
    t.eq(nbd.call(FLUSH), (0, b''), 'flush')
    for kind in (WRITE_ZEROES, TRIM):
        t.eq(nbd.call(kind, 0, SIZE // 2), (0, b''), f'command {kind}')
        t.same(nbd.call(READ, 0, 1 << 20)[1], bytes(1 << 20), 'zeroes')
    t.same(nbd.call(READ, SIZE // 2, 4 << 20)[1], bytes(model[SIZE // 2:]), 'the other half, in one request')
    nbd.end(t)


@test
def nbd_refuses_what_is_wrong_and_goes_on(t):
    nbd = Nbd(t, block_size=4096)
    for what, want, args in (
            ('unaligned', EINVAL, (READ, 512, 4096)), ('a part of a block', EINVAL, (READ, 0, 512)), ('nothing', EINVAL, (READ, 0, 0)),
            ('an unaligned write', EINVAL, (WRITE, 512, 4096, bytes(4096))), ('an empty write', EINVAL, (WRITE, 0, 0)),
            ('an unknown command', EINVAL, (9, 0, 4096)), ('behind the end', EIO, (READ, SIZE, 4096)),
            ('over the end', EIO, (WRITE, SIZE - 4096, 8192, bytes(8192))), ('far away', EIO, (READ, (1 << 64) - 4096, 4096))):
        t.eq(nbd.call(*args)[0], want, what)
        t.eq(nbd.call(READ, 0, 4096), (0, bytes(4096)), f'a read after {what}')
    nbd.end(t)


@test
def nbd_is_read_only_on_request(t):
    nbd = Nbd(t, 'read-only')
    for args in ((WRITE, 0, 512, b'x' * 512), (WRITE_ZEROES, 0, 512), (TRIM, 0, 512)):
        t.eq(nbd.call(*args)[0], EPERM, f'error of command {args[0]}')
    t.eq(nbd.call(READ, 0, 512), (0, bytes(512)), 'a read')
    nbd.end(t)


@test
def nbd_ends_a_connection_that_it_cannot_understand(t):
    for what, args, more in (('magic', (READ, 0, 512), {'magic': 1}), ('too much data', (WRITE, 0, (32 << 20) + 512), {}),
                             ('a disconnect', (DISCONNECT,), {})):
        nbd = Nbd(t)
        nbd.send(*args, **more)
        try:
            nbd.take(1)
            raise Failure(f'{what}: an answer')
        except (EOFError, ConnectionResetError):
            pass
        t.eq(nbd.proc.wait(), 0, f'exit status after {what}')
        nbd.target.stop()


@test
def nbd_ends_in_the_middle_of_anything(t):
    """The client goes away within a header, within data, and with answers that it does not take."""
    for what in ('header', 'data', 'answers'):
        nbd = Nbd(t)
        if what == 'header':
            nbd.sock.sendall(struct.pack('>IHH', 0x25609513, 0, READ))
        elif what == 'data':
            nbd.send(WRITE, 0, 1 << 20, b'x' * 1000)
        else:
            for _ in range(64):
                nbd.send(READ, 0, 1 << 20)
            nbd.take(1)
        nbd.end(t)
        nbd.target.stop()


@test
def nbd_abort_ends_what_waits_for_a_path(t):
    nbd = Nbd(t)
    t.eq(nbd.call(WRITE, 0, 512, b'x' * 512)[0], 0, 'a write')
    nbd.target.kill()
    for _ in range(8):  # four are taken, the others wait in the socket
        nbd.send(READ, 0, 512)
    nbd.proc.signal(signal.SIGUSR1)
    for _ in range(8):
        t.eq(nbd.answer({})[1], EIO, 'error of a read')
    nbd.end(t)


if __name__ == '__main__':
    sys.exit(main())
