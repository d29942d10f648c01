# SPDX-License-Identifier: BSD-3-Clause
"""Compare-and-write beside all other hosts: increments of one counter, none of them lost."""

import sys

from t_loop import DEADLINE, LONG, each, main, program, requires_engine, test

MEMORY = {'backend': 'memory', 'size': '16MiB'}
URING = {'engine': 'io_uring', 'size': '16MiB'}


def race(t, namespace, *args, rc=0, writers=8, **keys):
    if 'engine' in namespace:
        requires_engine(namespace['engine'])
    seconds = 60 if LONG else 1
    target = t.target([t.namespace(**namespace)], target={'reactors': 2, **keys})
    proc = t.spawn('rdfused', [program('rdfused'), target.uri(), '--seconds', seconds,
                               '--writers', writers, *args])
    proc.expect(r'rdfused: running')
    queues = target.by_reactor('io_queues')
    t.eq(proc.wait(DEADLINE + 10 * seconds), rc, f'exit status of rdfused: {proc.text()[-300:]}')
    t.eq(sum(queues), 2 * writers, 'I/O queues')
    t.ok(min(queues) > 0, f'I/O queues of the reactors: {queues}')
    t.note(proc.text().strip().splitlines()[-1])
    counters = target.counters()
    for what in 'buffer_bytes', 'scratch_bytes', 'waiting_for_buffers', 'capsules':
        t.eq(counters[what], 0, what)
    target.stop()
    return target


@each(('memory, 16 blocks', MEMORY, 16), ('io_uring', URING, 1), ('io_uring, 4096', {**URING, 'block_size': 4096}, 2))
def no_lost_update(t, namespace, blocks):
    """Eight hosts on two reactors, beside plain writes of neighbouring blocks."""
    target = race(t, namespace, '--blocks', blocks)
    t.match(r'a host uses Compare and Write', target.text(), 'log')


@test
def few_capsules_for_many_pairs(t):
    """16 RECVs for the halves of 64 pairs: no first half keeps the RECV that its second half needs."""
    race(t, MEMORY, writers=64, reactors=1, in_capsule_size='64KiB', capsule_memory='1MiB')


@test
def the_test_can_fail(t):
    """Comparison and write as two commands: updates are lost, and that is noticed."""
    target = race(t, MEMORY, '--unfused', rc=1)
    t.ok('Compare and Write' not in target.text(), 'ordering was turned on without need')


if __name__ == '__main__':
    sys.exit(main())
