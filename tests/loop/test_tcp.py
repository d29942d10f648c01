# SPDX-License-Identifier: BSD-3-Clause
"""NVMe/TCP: a host in Python (tcp_peer) on a listener with transport tcp."""

import os
import sys

import nvmf_peer as nv
import tcp_peer as tcp
from t_loop import NQN, each, main, test

LISTENER = {'transport': 'tcp'}
BLOCK = 512


def serve(t, namespaces=None, **kw):
    return t.target(namespaces, listener=LISTENER, **kw)


def host(t, target, **kw):
    h = tcp.Host(target.addr, target.port, NQN, **kw)
    t.cleanup(h.close)
    return h.enable()


def io_queue(t, target, **kw):
    return host(t, target, **kw).add_io()


def round_trip(t, queue, size, *, slba=8, **kw):
    data = os.urandom(size)
    nv.expect(queue.write_blocks(1, slba, data, **kw))
    t.same(nv.expect_data(queue.read_blocks(1, slba, size // BLOCK)), data)


# ---- what hosts do ----

@each(('without digests', {}), ('with a header digest', {'hdgst': True}), ('with a data digest', {'ddgst': True}),
      ('with both digests', {'hdgst': True, 'ddgst': True}), ('with aligned data', {'hpda': 31}),
      ('with everything', {'hdgst': True, 'ddgst': True, 'hpda': 7, 'maxr2t': 15}))
def blocks_return_as_written(t, agreed):
    queue = io_queue(t, serve(t), **agreed)
    for size in (512, 4096, 8192, 65536, 1 << 20):
        before = queue.r2ts
        round_trip(t, queue, size)
        t.eq(queue.r2ts - before, 1, f'R2Ts of a write of {size} bytes')
        if size <= 8192:
            round_trip(t, queue, size, in_capsule=True)
            t.eq(queue.r2ts - before, 1, 'R2Ts of in-capsule data')


@test
def data_comes_in_pieces_of_any_size(t):
    queue = io_queue(t, serve(t), ddgst=True)
    for piece in (1, 511, 4096, 65535):
        queue.piece = piece
        round_trip(t, queue, 4096 if piece == 1 else 1 << 17)


@test
def bytes_come_one_by_one(t):
    queue = io_queue(t, serve(t), hdgst=True, ddgst=True, dribble=True)
    round_trip(t, queue, 1024, in_capsule=True)
    round_trip(t, queue, 1024)


@test
def many_commands_are_in_flight(t):
    queue = io_queue(t, serve(t))
    blocks = [os.urandom(16384) for _ in range(30)]
    for pending in [queue.post_write(1, 32 * i, data) for i, data in enumerate(blocks)]:
        nv.expect(pending.wait())
    reads = [queue.post_read(1, 32 * i, 32) for i in range(30)]
    for pending, data in zip(reads, blocks):
        nv.expect(pending.wait())
        t.same(pending.data, data)


@each(('with flow control', 0, False), ('without flow control', 4, True))
def success_replaces_the_response(t, cattr, expected):
    target = serve(t)
    h = host(t, target)
    queue = tcp.Queue.dial(target.addr, target.port, 1)
    t.cleanup(queue.close)
    cqe = nv.expect(queue.fabrics_connect(h.data(cntlid=h.cntlid), cattr=cattr))
    t.eq(cqe.sqhd == 0xFFFF, expected, 'SQHD FFFFh')
    nv.expect(queue.read_blocks(1, 0, 8)[0])
    t.eq(queue.successes, 1 if expected else 0, 'commands completed by SUCCESS')
    # A command that fails has a response.
    nv.expect(queue.read_blocks(1, 1 << 40, 1)[0], nv.LBA_RANGE)


@test
def identify_tells_of_tcp(t):
    admin = host(t, serve(t)).admin
    ctrl = nv.expect_data(admin.identify(1))
    t.eq(int.from_bytes(ctrl[536:540], 'little') & 7, 1, 'SGLS: supported, not keyed')
    t.eq(int.from_bytes(ctrl[1792:1796], 'little'), (64 + 8192) // 16, 'IOCCSZ')
    t.eq(int.from_bytes(ctrl[1800:1802], 'little'), 0, 'ICDOFF')


@test
def discovery_tells_of_tcp(t):
    target = serve(t)
    with tcp.Host(target.addr, target.port, nv.DISCOVERY_NQN) as h:
        h.enable()
        log = nv.expect_data(h.admin.get_log(0x70, 3072))
    t.eq(int.from_bytes(log[8:16], 'little'), 2, 'records')
    for record in (log[1024:2048], log[2048:3072]):
        t.eq(record[0], 3, 'TRTYPE')
        t.eq(record[32:64].rstrip(b' \0').decode(), str(target.port), 'TRSVCID')
        t.eq(record[768], 0, 'SECTYPE')


@test
def both_transports_reach_one_namespace(t):
    target = t.target(listeners=[{}, LISTENER])
    (addr, port), (_, tcp_port) = target.listeners
    over_tcp = tcp.Host(addr, tcp_port, NQN)
    t.cleanup(over_tcp.close)
    over_rdma = nv.Host(addr, port, NQN, hostnqn=nv.HOST_NQN + '2')
    t.cleanup(over_rdma.close)
    data = os.urandom(65536)
    nv.expect(over_tcp.enable().add_io().write_blocks(1, 0, data))
    t.same(nv.expect_data(over_rdma.enable().add_io().read_blocks(1, 0, 128)), data)
    with nv.Host(addr, port, nv.DISCOVERY_NQN) as disc:
        log = nv.expect_data(disc.enable().admin.get_log(0x70, 5 * 1024))
    kinds = sorted(log[1024 * i] for i in range(1, 1 + int.from_bytes(log[8:16], 'little')))
    t.eq(kinds, [1, 1, 3, 3], 'TRTYPEs of the discovery log')


@test
def keep_alive_abort_and_events_work(t):
    target = serve(t)
    h = host(t, target, kato=60000)
    nv.expect(h.admin.call(nv.sqe(nv.KEEP_ALIVE, h.admin.next_cid())))
    cid = h.admin.next_cid()
    h.admin.post(nv.sqe(nv.AER, cid))
    cqe = nv.expect(h.admin.call(nv.sqe(nv.ABORT, h.admin.next_cid(), cdw10=cid << 16)))
    t.eq(cqe.dw0 & 1, 0, 'aborted')
    nv.expect(h.admin.wait(cid), nv.ABORTED_BY_REQUEST)
    h.shutdown()


@test
def a_host_may_leave_and_return(t):
    target = serve(t)
    for _ in range(20):
        h = tcp.Host(target.addr, target.port, NQN).enable()
        nv.expect(h.add_io().read_blocks(1, 0, 8)[0])
        h.close()
    mark = target.mark()
    target.signal(10)
    target.expect(r'tcp_areas=0', since=mark)


@test
def a_listener_changes_its_transport(t):
    config = t.config(listener={'transport': 'tcp'})
    target = t.target(config=config)
    queue = io_queue(t, target)
    t.config(listener={})
    target.reload()
    queue.wait_closed()
    target.expect(r': listening on \S+ \(iwarp\)')


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp',)))
