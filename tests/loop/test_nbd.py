# SPDX-License-Identifier: BSD-3-Clause
"""Exports of an NBD server (nbdkit) as namespaces: I/O, and a server that goes, comes back, stops or is not there."""

import os
import signal
import sys

import nvmf_peer as nv
from t_control import Control, controlled
from t_dev import Device
from t_loop import each, main, program, requires_program, test, wait_for
from t_serving import host
from t_storage import MIB, pattern, zeroes_and_deallocated

CAPACITY_EXCEEDED = 0x081


class Server:
    """nbdkit with a file, on a socket of the test's directory. The filter fua hides the support of FUA."""

    def __init__(self, t, size=16 * MIB, args=(), more=()):
        program('rdtarget_nbd')
        self.t, self.args, self.more = t, args, more
        self.binary = requires_program('nbdkit')
        self.socket, self.image = t.path('nbd.sock'), t.path('export.img')
        with open(self.image, 'wb') as f:
            f.truncate(size)
        self.count = 0
        self.proc = None

    @property
    def uri(self):
        return f'nbd+unix:///?socket={self.socket}'

    def start(self):
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        self.count += 1
        self.proc = self.t.spawn(f'nbdkit{self.count}', [self.binary, '-f', '--exit-with-parent', '-U', self.socket,
                                                         *self.args, 'file', self.image, *self.more])
        wait_for(lambda: os.path.exists(self.socket), 'nbdkit to listen')
        return self

    def namespace(self, nsid=1, **keys):
        return {'nsid': nsid, 'backend': 'nbd', 'uri': self.uri, **keys}

    def data(self):
        with open(self.image, 'rb') as f:
            return f.read()


@test
def what_a_host_writes_is_in_the_export(t):
    server = Server(t).start()
    target = t.target([server.namespace()])
    data = pattern(1, 16 * MIB)
    t.rdinit('write', target.uri(), '--data', t.file('data', data))
    t.rdinit('flush', target.uri())
    t.same(t.rdinit('read', target.uri(), '-z', '16M').out, data)
    t.same(server.data(), data)


@test
def random_verified_io_with_several_queues(t):
    target = t.target([Server(t).start().namespace()])
    res = t.run([program('rdverify'), target.uri(), '--seconds', '1', '--queues', '4', '--range', 8 * MIB])
    t.eq(res.rc, 0, res.text + res.err)


@test
def zeroes_deallocated_blocks_and_fua(t):
    for number, args in enumerate(((), ('--filter=fua',))):
        server = Server(t, args=args).start()
        target = t.target([server.namespace()], name=f'rdtarget{number}')
        zeroes_and_deallocated(t, target, server.data)


@each(('FUA of the server', ()), ('a flush after the write', ('--filter=fua',)))
def a_server_without_space_has_not_failed_to_sync(t, args):
    """Also a durable write ends with the reason, and writes go on when there is space again."""
    full = t.file('full', b'')
    server = Server(t, args=('--filter=error', *args), more=('error=ENOSPC', 'error-pwrite-rate=100%',
                                                             f'error-file={full}')).start()
    target = t.target([server.namespace()])
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        t.eq(queue.write_blocks(1, 0, bytes(512), fua=True).status, CAPACITY_EXCEEDED)
        os.unlink(full)
        nv.expect(queue.write_blocks(1, 0, bytes(512), fua=True))
        nv.expect(queue.flush(1))
        h.shutdown()


@test
def a_server_that_shuts_down_is_left(t):
    """It says so in its answers and does not close the connection; another connection is tried once a second."""
    ends = t.path('ends')
    # With several threads, nbdkit aborts by an assertion when a thread answers on a connection that another thread has
    # found closed.
    server = Server(t, args=('--filter=error', '--threads=1'), more=('error=ESHUTDOWN', 'error-pwrite-rate=100%',
                                                       f'error-file={ends}')).start()
    target = t.target([server.namespace()])
    dev = Device(t, [target.uri()], '--io-timeout', 120000)
    dev.goes_on()
    since = target.mark()
    t.file('ends', b'')
    for _ in range(2):
        target.expect(r'the connection is lost; hosts wait', since=since)
        target.expect(r'connected again', since=since)
        since = target.mark()
    os.unlink(ends)
    dev.goes_on()
    t.eq(dev.count('errors') + dev.count('unknown'), 0, 'errors')
    dev.finish()


@test
def a_server_that_is_killed_and_comes_back_is_not_noticed(t):
    server = Server(t).start()
    target = t.target([server.namespace()])
    dev = Device(t, [target.uri()], '--io-timeout', 120000)
    for _ in range(2):
        dev.goes_on()
        since = target.mark()
        server.proc.kill()
        target.expect(r'the connection is lost; hosts wait', since=since)
        server.start()
        target.expect(r'connected again', since=since)
    dev.goes_on()
    t.eq(dev.count('errors') + dev.count('unknown'), 0, 'errors')
    dev.finish()


@test
def io_waits_for_a_stopped_server(t):
    server = Server(t).start()
    target, path = controlled(t, [server.namespace(), t.namespace(2, backend='memory')])
    dev = Device(t, [target.uri()], '--io-timeout', 120000)
    dev.goes_on()
    server.proc.signal(signal.SIGSTOP)
    target.expect(r'the server has completed no I/O for \d+ s, [1-9]\d* are waiting')
    with Control(path) as c:
        t.eq([ns['stalled'] for ns in c.call('namespace.list')['namespaces']], [True, False])
    t.eq(t.rdinit('read', target.uri(2), '-z', '4k').out, bytes(4096), 'the other namespace')
    server.proc.signal(signal.SIGCONT)
    target.expect(r'the server completes I/O again')
    dev.goes_on()
    t.eq(dev.count('errors') + dev.count('unknown'), 0, 'errors')
    dev.finish()


@test
def a_server_that_is_away_at_the_start_does_not_stop_the_others(t):
    server = Server(t)
    target = t.target([t.namespace(1, backend='memory'), server.namespace(2)])
    target.expect(r'namespace 2: its storage does not answer yet')
    t.eq(t.rdinit('read', target.uri(1), '-z', '4k').out, bytes(4096))
    server.start()
    target.expect(r'namespace 2: added, 32768 blocks')
    t.eq(t.rdinit('read', target.uri(2), '-z', '4k').out, bytes(4096))
    t.config([t.namespace(1, backend='memory')])
    t.match('1 removed', target.reload())


@test
def a_stopped_server_does_not_keep_the_target_from_ending(t):
    server = Server(t).start()
    target = t.target([server.namespace()])
    server.proc.signal(signal.SIGSTOP)
    target.stop()


@test
def what_does_not_fit_is_said(t):
    server = Server(t, args=('-r',))
    config = t.config([server.namespace()])
    res = t.run([program('rdtarget'), '-c', config, '--check=full'])
    t.eq(res.rc, 1)
    t.match(r'namespace 1: nbd: nbd\+unix:.*: .*No such file or directory', res.err)
    server.start()
    res = t.run([program('rdtarget'), '-c', config, '--check=full'])
    t.eq(res.rc, 1)
    t.match(r'the export is read-only; add "read_only: true" to the namespace', res.err)
    config = t.config([server.namespace(read_only=True)])
    t.match('OK, and this machine has what it needs', t.run([program('rdtarget'), '-c', config, '--check=full']).text)


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp',)))
