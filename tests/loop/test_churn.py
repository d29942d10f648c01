# SPDX-License-Identifier: BSD-3-Clause
"""Everything that ends commands in flight, again and again: controller reset, Abort, an association that is deleted, a
namespace that is removed. Each time every command is answered or ends with its queue, and at the end the target holds
nothing. RD_TEST_ROUNDS is the number of rounds; 500 with RD_TEST_LONG=1."""

import os
import random
import signal
import sys

import iwarp_peer as iw
import nvmf_peer as nv
from t_load import Load
from t_loop import LONG, each, main, wait_for
from t_serving import Baseline, warm

ROUNDS = int(os.environ.get('RD_TEST_ROUNDS', 500 if LONG else 25))
SEED = int(os.environ.get('RD_TEST_SEED', random.SystemRandom().randrange(1 << 32)))
INVALID_NS = 0x00B

# Fast: in any step of its way. Slow: in the backend, which has to release it.
DISKS = (('fast', {}), ('slow', {'layers': [{'type': 'delay', 'read': '20ms', 'write': '30ms'}]}))


def namespaces(t, keys, *extra):
    return [t.namespace(n, size='4MiB', **(keys if n != 9 else {})) for n in (1, 9, *extra)]


def start(t, keys):
    # Little buffer memory: some commands wait for it.
    target = t.target(namespaces(t, keys), target={'reactors': 3, 'buffer_memory': '512KiB',
                                                   'max_data_size': '64KiB'})
    warm(target)
    return target


@each(*DISKS)
def controller_resets_with_io_in_flight(t, keys):
    target, rng = start(t, keys), random.Random(SEED)
    t.note(f'seed {SEED}')
    with Baseline(target, nsid=9):
        load = Load(target, rng)
        admin = load.host.admin
        for _ in range(ROUNDS):
            load.post()
            nv.expect(admin.property_set(nv.CC, 0x00460000))
            wait_for(lambda: not nv.expect(admin.property_get(nv.CSTS)).dw0 & 1, 'CSTS.RDY to clear')
            for queue in load.host.io:
                queue.close(reset=rng.random() < 0.5)
            nv.expect(admin.property_set(nv.CC, 0x00460001))
            wait_for(lambda: nv.expect(admin.property_get(nv.CSTS)).dw0 & 1, 'CSTS.RDY')
            load.add_queues(3)
        load.post(count=4)
        load.collect({nv.SUCCESS})
        load.host.close()


@each(*DISKS)
def aborts_with_io_in_flight(t, keys):
    target, rng = start(t, keys), random.Random(SEED)
    t.note(f'seed {SEED}')
    total = {}
    with Baseline(target, nsid=9):
        load = Load(target, rng)
        admin = load.host.admin
        for _ in range(ROUNDS):
            load.post(count=8)
            for queue in load.host.io:
                for cid in rng.sample(queue.pending, 4):
                    nv.expect(admin.call(nv.sqe(nv.ABORT, admin.next_cid(), cdw10=queue.qid | cid << 16)))
            for status, n in load.collect({nv.SUCCESS, nv.ABORTED_BY_REQUEST}).items():
                total[status] = total.get(status, 0) + n
        load.host.close()
    t.note(f'{total.get(nv.SUCCESS, 0)} commands completed, {total.get(nv.ABORTED_BY_REQUEST, 0)} aborted')
    t.ok(not keys or total.get(nv.ABORTED_BY_REQUEST), 'not one command was aborted')


@each(*DISKS)
def associations_deleted_with_io_in_flight(t, keys):
    target, rng = start(t, keys), random.Random(SEED)
    t.note(f'seed {SEED}')
    with Baseline(target, nsid=9):
        for number in range(ROUNDS):
            load = Load(target, rng, queues=2)
            load.post()
            how = number % 4
            if how == 0:  # as a host that crashed
                load.host.close(reset=True)
            elif how == 1:  # the admin queue alone; the target ends the others
                load.host.admin.close()
            elif how == 2:  # the I/O queues first
                for queue in load.host.io:
                    queue.close(reset=rng.random() < 0.5)
            else:  # shutdown notification, then all
                try:
                    load.host.shutdown()
                except (iw.PeerClosed, iw.Terminated, ConnectionError):
                    pass
            load.host.close()


@each(*DISKS)
def namespaces_removed_with_io_in_flight(t, keys):
    target, rng = start(t, keys), random.Random(SEED)
    t.note(f'seed {SEED}')
    total = {}

    def apply(*extra):
        t.config(namespaces(t, keys, *extra), target={'reactors': 3, 'buffer_memory': '512KiB',
                                                      'max_data_size': '64KiB'})
        since = target.mark()
        target.signal(signal.SIGHUP)
        return since

    with Baseline(target, nsid=9):
        load = Load(target, rng)
        for _ in range(ROUNDS):
            target.expect('reloaded: 1 namespace added$', since=apply(2))
            load.post(nsid=2)
            since = apply()
            for status, n in load.collect({nv.SUCCESS, INVALID_NS}).items():
                total[status] = total.get(status, 0) + n
            target.expect('reloaded: 1 removed$', since=since)
        load.post(nsid=1, count=4)
        load.collect({nv.SUCCESS})
        load.host.close()
    t.note(f'{total.get(nv.SUCCESS, 0)} commands completed, {total.get(INVALID_NS, 0)} did not')
    t.ok(not keys or total.get(INVALID_NS), 'not one command met the removal')


if __name__ == '__main__':
    sys.exit(main())
