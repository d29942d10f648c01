# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that share a reactor's memory: a host whose commands hold memory for long does not block other hosts."""

import os
import sys

import nvmf_peer as nv
from t_loop import each, main, test, wait_for
from t_serving import Baseline, host

BLOCKS = 2048  # 1 MiB, the largest transfer; the buffers hold eight


@each(('reads', nv.Queue.post_read), ('writes', nv.Queue.post_write))
def a_host_that_stops_keeps_its_share_only(t, post):
    """The host has many more commands outstanding than there are buffers, and neither reads nor answers. An address
    gets at most as many buffers of the reserve as it leaves; data in socket buffers does not count as transferred."""
    target = t.target([t.namespace(1, backend='memory', size='32MiB')], target={'reactors': 1})
    data = os.urandom(BLOCKS * 512)
    with Baseline(target):
        with host(target) as stopped, host(target, hostnqn='nqn.2024-01.test:other') as other:
            for h in (stopped, other):
                h.enable()
            queues = [stopped.add_io(depth=32) for _ in range(2)]
            mine = other.add_io()
            for queue in queues:
                for n in range(24):
                    post(queue, 1, n * BLOCKS, BLOCKS if post is nv.Queue.post_read else data)
            wait_for(lambda: target.counters()['buffer_bytes'] >= 1 << 20, 'the stopped host to have its share')
            for n in range(20):
                nv.expect(mine.write_blocks(1, 60000, data[:4096 << n % 8]))
                t.same(nv.expect_data(mine.read_blocks(1, 60000, 8 << n % 8)), data[:4096 << n % 8])
            t.ok(target.counters()['buffer_bytes'] <= 2 << 20, 'the stopped host holds more than its share')


@test
def a_host_that_stops_on_its_admin_queues_keeps_nobody_from_connecting(t):
    """Its commands announce data, which it then does not send."""
    target = t.target([t.namespace(1, backend='memory')], target={'reactors': 1})
    with Baseline(target), host(target, depth=128) as one, host(target, depth=128) as two:
        for h in (one, two):
            h.enable()
            for _ in range(120):
                region = h.admin.conn.register(bytes(8))
                h.admin.post(nv.sqe(nv.SET_FEATURES, h.admin.next_cid(), cdw10=0x0E,
                                    sgl=nv.keyed_sgl(region.base, 8, region.stag)))
        wait_for(lambda: target.counters()['reserve_bytes'] >= 384 << 10, 'the stopped host to have its share')
        for _ in range(5):
            with host(target, hostnqn='nqn.2024-01.test:other') as h:
                h.enable()
                nv.expect(h.admin.identify(1)[0])
                h.shutdown()


@each(('for a slow disk', {'layers': [{'type': 'delay', 'write': '1h'}]}),
      ('for a limit', {'qos': {'write_iops': 1}}))
def a_host_whose_writes_wait_keeps_its_share_only(t, keys):
    """The commands have their data in the capsule, on several queues; 1 MiB is room for 127 of them."""
    most = 95
    target = t.target([t.namespace(1, backend='memory'), t.namespace(2, backend='memory', **keys)],
                      target={'reactors': 1, 'capsule_memory': '1MiB'})
    data = os.urandom(8192)
    with Baseline(target):
        with host(target) as slow, host(target, hostnqn='nqn.2024-01.test:other') as other:
            slow.enable()
            for queue in [slow.add_io(depth=64) for _ in range(4)]:
                for n in range(60):
                    queue.post(nv.sqe(nv.NVM_WRITE, queue.next_cid(), nsid=2, cdw10=16 * n, cdw12=15,
                                      sgl=nv.offset_sgl(0, len(data))) + data)
            wait_for(lambda: target.counters()['capsules'] >= most, 'the slow host to have its share')
            other.enable()
            mine = other.add_io()
            for n in range(200):
                nv.expect(mine.write_blocks(1, 16 * n, data, in_capsule=True))
                t.same(nv.expect_data(mine.read_blocks(1, 16 * n, 16)), data)
            t.ok(target.counters()['capsules'] <= most, 'the slow host holds more than its share')
            slow.add_io()  # it can still connect


def post_half(queue, capsule):
    """Sends the first half of a capsule. Returns a function that sends the rest."""
    made = []
    queue.conn.send_raw = made.append
    queue.post(capsule)
    del queue.conn.send_raw
    data = b''.join(made)
    queue.conn.send_raw(data[:len(data) // 2])
    return lambda: queue.conn.send_raw(data[len(data) // 2:])


@test
def capsules_on_their_way_hold_up_nobody(t):
    """The target begins with 64 RECVs; a command takes one with its last byte."""
    target = t.target([t.namespace(1, backend='memory')], target={'reactors': 1})
    data = os.urandom(8192)
    with Baseline(target), host(target) as h:
        h.enable()
        rests = []
        for n in range(64):
            queue, cid = h.add_io(depth=4), n + 1
            rest = post_half(queue, nv.sqe(nv.NVM_WRITE, cid, nsid=1, cdw10=16 * n, cdw12=15,
                                           sgl=nv.offset_sgl(0, len(data))) + data)
            rests.append((queue, cid, rest))
        mine = h.add_io()
        nv.expect(mine.write_blocks(1, 16 * 64, data, in_capsule=True))
        for queue, cid, rest in rests:
            rest()
            nv.expect(queue.wait(cid))
        t.same(nv.expect_data(mine.read_blocks(1, 0, 16 * 65)), data * 65)


if __name__ == '__main__':
    sys.exit(main())
