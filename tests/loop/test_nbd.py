# SPDX-License-Identifier: BSD-3-Clause
"""Exports of an NBD server (nbdkit) as namespaces: I/O, and a server that goes, comes back, stops or is not there."""

import os
import re
import signal
import sys

import nvmf_peer as nv
from t_control import Control, controlled
from t_dev import Device
from t_loop import NQN, each, main, program, test, wait_for
from t_nbd import Server, evaluates
from t_serving import host
from t_storage import MIB, WRITE_ZEROES, pattern, post_write, zeroes_and_deallocated

CAPACITY_EXCEEDED, UNRECOVERED_READ = 0x081, 0x281


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
    server.fall_silent()
    target.expect(r'namespace 1: its storage has not answered for \d+ s: [1-9]\d* commands wait for it')
    with Control(path) as c:
        t.eq([ns['stalled'] for ns in c.call('namespace.list')['namespaces']], [True, False])
    t.eq(t.rdinit('read', target.uri(2), '-z', '4k').out, bytes(4096), 'the other namespace')
    server.proc.signal(signal.SIGCONT)
    target.expect(r'namespace 1: its storage answers again, after \d+ s')
    dev.goes_on()
    t.eq(dev.count('errors') + dev.count('unknown'), 0, 'errors')
    dev.finish()


@test
def an_export_is_opened_again_when_the_namespace_that_leaves_has_let_go(t):
    """A write of the old namespace must not land after one of the new. Another export of the server does not wait."""
    gate = t.path('gate')
    server = Server(t)
    server.start(plugin=evaluates(server.image, thread_model='echo parallel',
                                  pwrite=f'while [ $4 = 4096 -a ! -e {gate} ]; do sleep 0.05; done;'
                                         f' dd of={server.image} oflag=seek_bytes conv=notrunc seek=$4'))
    target, path = controlled(t, [server.namespace()])
    with host(target) as h, Control(path) as c:
        h.enable()
        queue = h.add_io()
        cid = write_waits(queue, 8)
        t.eq(c.call('namespace.remove', nqn=NQN, nsid=1, wait=False)['outcome'], 'in progress')
        added = c.call('namespace.add', nqn=NQN, namespace=server.namespace())
        t.eq(added['outcome'], 'failed')
        t.match('another namespace, which is being removed, still uses its storage', str(added))
        other = server.namespace(2, uri=server.uri.replace('nbd+unix:///', 'nbd+unix:///other'))
        t.eq(c.call('namespace.add', nqn=NQN, namespace=other)['outcome'], 'done')
        with open(gate, 'w', encoding='ascii'):
            queue.wait(cid)
        target.expect('namespace 1: removed')
        target.expect('namespace 1: added')
        t.same(queue.read_blocks(1, 8, 8)[1], bytes(4096))
        h.shutdown()


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


def write_waits(queue, slba):
    """The target has given a write to the backend, and has no answer. Returns its command identifier."""
    cid = post_write(queue, 1, bytes(4096), cdw10=slba, cdw12=7)
    cqe, _ = queue.read_blocks(1, 1 << 32, 1)  # after it on the same connection
    nv.expect(cqe, nv.LBA_RANGE)
    return cid


@test
def a_silent_server_does_not_keep_the_target_from_ending(t):
    """Without I/O; with I/O that it does not answer; and with I/O that waits for a connection to it."""
    for number in range(3):
        server = Server(t).start()
        target = t.target([server.namespace()], name=f'rdtarget{number}')
        with host(target) as h:
            h.enable()
            queue = h.add_io()
            nv.expect(queue.write_blocks(1, 0, bytes(512)))
            if number == 2:
                server.proc.kill()
                target.expect(r'the connection is lost')
                server.start()
            server.fall_silent()
            if number:
                write_waits(queue, 0)
            target.stop()
        t.eq(re.findall('drain_timeout|giving up', target.text()), [])
        if number:
            target.expect('disconnecting with commands unanswered')
        server.proc.kill()


@test
def the_machine_of_a_silent_server_is_probed(t):
    """Otherwise a read that was sent before the machine began anew would wait for ever."""
    uri = Server(t).start_tcp()
    target = t.target([{'nsid': 1, 'backend': 'nbd', 'uri': uri}])
    t.eq(t.rdinit('read', target.uri(), '-z', '4k').out, bytes(4096))
    port = '0100007F:%04X' % int(uri.rpartition(':')[2])

    def timer():  # the kernel's for our socket; 02: keepalive, with the time until it ends in 1/100 s
        with open('/proc/net/tcp', encoding='ascii') as f:
            found = [line.split() for line in f]
        return next((row[5].split(':') for row in found if row[2] == port and row[3] == '01'), None)
    kind, left = wait_for(lambda: (timer() or ' ')[0] != '01' and timer(), 'nothing to be retransmitted')
    t.eq(kind, '02', 'the timer of the connection')
    t.ok(int(left, 16) <= 3000, f'the first probe is in {int(left, 16) / 100} s')


@test
def a_connection_with_tls_has_the_key_of_its_uri(t):
    keys = t.file('keys.psk', b'alice:0123456789abcdef0123456789abcdef\n')
    os.chmod(keys, 0o600)
    server = Server(t, args=('--tls=require', f'--tls-psk={keys}')).start()
    uri = f'nbds+unix://alice@/?socket={server.socket}&tls-psk-file={keys}'
    target = t.target([server.namespace(uri=uri)])
    data = pattern(7, 4 * MIB)
    t.rdinit('write', target.uri(), '--data', t.file('data', data))
    t.same(t.rdinit('read', target.uri(), '-z', '4M').out, data)
    t.same(server.data()[:4 * MIB], data)


@each(*((error, error, *statuses) for error, *statuses in (
    ('EPERM', 0x286, 0x020), ('ENOSPC', 0x281, 0x081), ('EIO', 0x281, 0x280))))
def hosts_are_told_what_the_server_answers(t, error, read, write):
    fails = t.path('fails')
    server = Server(t, args=('--filter=error',), more=(f'error-pread={error}', f'error-pwrite={error}', 'error-pread-rate=100%',
                                                       'error-pwrite-rate=100%', f'error-file={fails}')).start()
    target = t.target([server.namespace()])
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        t.file('fails', b'')
        t.eq([queue.read_blocks(1, 0, 1)[0].status, queue.write_blocks(1, 0, bytes(512)).status], [read, write])
        os.unlink(fails)
        nv.expect(queue.write_blocks(1, 0, bytes(512)))
        h.shutdown()


# ---- limits and flags of a server, in the order of the table in docs/design/storage-nbd.md ----

WIRE_LIMIT = '--filter=blocksize-policy', 'blocksize-error-policy=error', 'blocksize-minimum=512', 'blocksize-preferred=4096'


def is_written(t, target, server):
    """Each command that writes, with and without FUA, and Flush succeed, and the export has what they wrote."""
    data = pattern(3, 1 * MIB)
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        nv.expect(queue.write_blocks(1, 0, data[:8192], fua=True))
        nv.expect(queue.call(nv.sqe(WRITE_ZEROES, queue.next_cid(), nsid=1, cdw10=4, cdw12=3)))
        nv.expect(queue.call(nv.sqe(WRITE_ZEROES, queue.next_cid(), nsid=1, cdw10=8, cdw12=3 | 1 << 30)))  # FUA
        nv.expect(queue.flush(1))
        h.shutdown()
    expected = bytearray(data[:8192])
    expected[4 * 512:12 * 512] = bytes(8 * 512)
    t.same(server.data()[:8192], bytes(expected))


@test
def a_server_gets_no_request_beyond_its_maximum(t):
    """One that refuses such requests, and one that ends the connection (a program that does so is below)."""
    server = Server(t, args=WIRE_LIMIT[:1], more=(*WIRE_LIMIT[1:], 'blocksize-maximum=65536')).start()
    target = t.target([server.namespace()])
    data = pattern(4, 4 * MIB)
    t.rdinit('write', target.uri(), '--data', t.file('data', data))
    t.same(server.data()[:4 * MIB], data)
    t.same(t.rdinit('read', target.uri(), '-z', '4M').out, data)
    is_written(t, target, server)
    target.stop()


@test
def a_server_that_takes_less_than_a_block_is_refused(t):
    server = Server(t, args=WIRE_LIMIT[:1], more=(*WIRE_LIMIT[1:3], 'blocksize-preferred=512', 'blocksize-maximum=2048')).start()
    config = t.config([server.namespace(block_size=4096)])
    res = t.run([program('rdtarget'), '-c', config, '--check=full'])
    t.eq(res.rc, 1)
    t.match(r'requests of at most 2048 bytes, and block_size is 4096; .* or set block_size to 512', res.err)


@each(('4096 bytes', 4096, 512, 'set block_size to 4096'), ('64 KiB', 65536, 4096, 'expected at most 4096: have the server'))
def a_server_with_blocks_that_are_too_large_is_refused(t, least, block_size, says):
    server = Server(t, args=WIRE_LIMIT[:1], more=(WIRE_LIMIT[1], f'blocksize-minimum={least}', 'blocksize-preferred=65536')).start()
    config = t.config([server.namespace(block_size=block_size)])
    res = t.run([program('rdtarget'), '-c', config, '--check=full'])
    t.eq(res.rc, 1)
    t.match(f'the export has blocks of {least} bytes, and block_size is {block_size}; {says}', res.err)


@each(('neither', 'none', '', None),
      ('FUA without Flush', 'native', 'fua', None),
      ('Flush without FUA', 'none', '', 'exit 0'))
def what_is_stored_when_the_server_has(t, can_fua, flags, flush):
    """With FUA alone each write has it, because hosts are not told of a cache and do not flush."""
    log, image = t.path('log'), t.path('export.img')
    server = Server(t)
    server.start(plugin=evaluates(image, can_fua=f'echo {can_fua}', can_flush='exit 0' if flush else 'exit 3',
                                  pwrite=f'echo "write $5" >>{log}; dd of={image} oflag=seek_bytes conv=notrunc seek=$4',
                                  flush=f'echo flush >>{log}'))
    target = t.target([server.namespace()])
    if can_fua == 'none' and not flush:
        target.expect('neither Flush nor FUA')
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        nv.expect(queue.write_blocks(1, 0, pattern(5, 4096)))
        nv.expect(queue.write_blocks(1, 8, pattern(6, 4096), fua=True))
        nv.expect(queue.flush(1))
        h.shutdown()
    t.same(server.data()[:8192], pattern(5, 4096) + pattern(6, 4096))
    with open(log, encoding='ascii') as f:
        t.eq(f.read().split('\n')[:-1],
             [f'write {flags}', f'write {flags}'] if not flush else ['write ', 'write ', 'flush', 'flush'])


@each(('Flush', 'Flush', {'can_flush': 'exit 0', 'can_fua': 'echo none'}),
      ('FUA', 'FUA', {'can_flush': 'exit 3', 'can_fua': 'echo native'}))
def a_server_is_not_used_that_comes_back_without(t, what, had):
    def has(**calls):
        return evaluates(server.image, flush='exit 0', can_trim='exit 3', **calls)
    server = Server(t)
    server.start(plugin=has(**had))
    target = t.target([server.namespace()])
    dev = Device(t, [target.uri()], '--io-timeout', 120000)
    dev.goes_on()
    since = target.mark()
    server.proc.kill()
    server.start(plugin=has(can_flush='exit 3', can_fua='echo none'))
    target.expect(f'the server no longer has {what}, which hosts rely on', since=since)
    server.proc.kill()
    server.start(plugin=has(**had))
    target.expect('connected again', since=since)
    dev.goes_on()
    t.eq(dev.count('errors') + dev.count('unknown'), 0, 'errors')
    dev.finish()


@each(('has no Write Zeroes any more', '--filter=nozero', ('zeromode=none',)),
      ('refuses Write Zeroes', '--filter=error', ('error-zero=EINVAL', 'error-zero-rate=100%')),
      ('has no Trim any more', None, ()))
def zeroes_are_written_by_a_server_that(t, name, more):
    server = Server(t).start()
    target = t.target([server.namespace()])
    is_written(t, target, server)
    since = target.mark()
    server.proc.kill()
    target.expect('the connection is lost', since=since)
    if name:
        server.start(args=(name,), more=more)
    else:
        server.start(plugin=evaluates(server.image, flush='exit 0', can_flush='exit 0', can_trim='exit 3'))
    target.expect('connected again', since=since)
    is_written(t, target, server)
    zeroes_and_deallocated(t, target, server.data)


@test
def a_write_beyond_the_end_of_an_export_that_has_shrunk_is_out_of_range(t):
    server = Server(t).start()
    target = t.target([server.namespace()])
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        server.fall_silent()
        cid = write_waits(queue, 16384)
        os.truncate(server.image, 8 * MIB)
        server.proc.kill()
        server.start()
        t.eq(queue.wait(cid).status, nv.LBA_RANGE)
        nv.expect(queue.write_blocks(1, 0, bytes(512)))
        h.shutdown()


@test
def a_request_that_breaks_each_connection_is_given_up(t):
    """A server crashes by it, and is started again each time. What was in flight with it succeeds."""
    image = t.path('export.img')
    crashes = f'if [ $4 = 4096 ]; then kill -9 $PPID; fi; dd if={image} iflag=skip_bytes,count_bytes skip=$4 count=$3'
    server = Server(t, plugin=evaluates(image, pread=crashes, can_flush='exit 0'))
    again = f'#!/bin/sh\nwhile :; do rm -f {server.socket}; {server.binary} "$@"; done\n'
    server.binary = t.file('again', again.encode())
    os.chmod(server.binary, 0o700)
    server.start()
    target = t.target([server.namespace()])
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        nv.expect(queue.read_blocks(1, 0, 1)[0])
        reads = [queue.post_read(1, slba, 1) for slba in (0, 8, 16, 24)]
        t.eq([read.wait().status for read in reads], [0, UNRECOVERED_READ, 0, 0])
        target.expect('a read of 512 bytes at byte 4096 has broken the connection 3 times')
        nv.expect(queue.write_blocks(1, 0, bytes(512)))
        h.shutdown()


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
    sys.exit(main())
