# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that reconnect while the storage still executes a write of their old controller."""

import os
import sys

import nvmf_peer as nv
from t_loop import NQN, main, requires_engine, test, wait_for
from t_storage import post_write, stall_env, stand_still

OLD, NEW = b'\xaa' * 512, b'\xbb' * 512
RESV_REPORT = 0x0E


def keep_busy(queue):
    """Other commands of the queue are answered during the time in which a write that is not fenced would complete."""
    for _ in range(500):
        nv.expect(queue.data_in(RESV_REPORT, 64, nsid=1, cdw10=15, cdw11=1)[0])


def expect_new_last(t, queue, stall, cids):
    """The blocked reactor goes on with the old write; the new ones, @cids by namespace, are executed after it."""
    os.unlink(stall)
    wait_for(lambda: os.path.exists(stall + '.out'), 'the old write')
    for cid in cids.values():
        nv.expect(queue.wait(cid))
    for nsid in cids:
        cqe, data = queue.read_blocks(nsid, 0, 1)
        nv.expect(cqe)
        t.eq(data, NEW, f'block 0 of namespace {nsid}')


@test
def a_reactor_that_stands_still_in_a_system_call_has_told_nothing(t):
    """The old write is executed first, although its blocked reactor cannot report it."""
    requires_engine('io_uring')
    stall = t.path('stall')
    target = t.target([t.namespace(1, engine='io_uring'), t.namespace(2, backend='memory')],
                      target={'reactors': 2}, env=stall_env(stall))
    lost = nv.Host(target.addr, target.port, NQN).enable()
    queue = lost.add_io()  # on the reactor that has not got the admin queue
    stand_still(queue, stall, OLD)
    lost.close()
    with nv.Host(target.addr, target.port, NQN) as back:
        back.enable()  # which takes until the target has waited long enough
        target.expect('commands of a former controller of this host are still in flight')
        queue = back.add_io()
        cids = {nsid: post_write(queue, nsid, NEW) for nsid in (1, 2)}
        keep_busy(queue)
        expect_new_last(t, queue, stall, cids)


@test
def the_reactor_of_the_admin_queue_stands_still(t):
    """The end of the old controller has not been noticed, and the new controller is ready at once."""
    requires_engine('io_uring')
    stall = t.path('stall')
    target = t.target([t.namespace(1, engine='io_uring')], target={'reactors': 2}, env=stall_env(stall))
    # Queues go to the reactor with the fewest I/O queues: the first admin queue and the second I/O queue are on one
    # reactor, and those of the other host leave room on the other one.
    lost = nv.Host(target.addr, target.port, NQN).enable()
    lost.add_io()
    queue = lost.add_io()
    with nv.Host(target.addr, target.port, NQN, hostnqn=nv.HOST_NQN + 'other') as other:
        other.enable()
        other.add_io()
        stand_still(queue, stall, OLD)
        lost.close()
        with nv.Host(target.addr, target.port, NQN) as back:
            back.enable()
            queue = back.add_io()
            cid = post_write(queue, 1, NEW)
            keep_busy(queue)
            t.eq(any('waits for commands' in line for line in target.lines), False, 'the end was seen')
            expect_new_last(t, queue, stall, {1: cid})


@test
def only_the_host_knows_that_its_admin_connection_is_lost(t):
    """The old controller lives, as far as the target knows, and the reactor of its I/O queue is blocked."""
    requires_engine('io_uring')
    stall = t.path('stall')
    target = t.target([t.namespace(1, engine='io_uring')], target={'reactors': 2}, env=stall_env(stall))
    with nv.Host(target.addr, target.port, NQN) as lost:
        lost.enable()
        queue = lost.add_io()  # on the reactor that has not got the admin queue
        stand_still(queue, stall, OLD)
        queue.close()
        with nv.Host(target.addr, target.port, NQN) as back:
            back.enable()
            target.expect(f'controller {back.cntlid} for')
            queue = back.add_io()
            cid = post_write(queue, 1, NEW)
            keep_busy(queue)
            expect_new_last(t, queue, stall, {1: cid})


if __name__ == '__main__':
    sys.exit(main())
