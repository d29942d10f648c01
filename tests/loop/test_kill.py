# SPDX-License-Identifier: BSD-3-Clause
"""kill -9 under load: of rdinit, many times, and the target keeps nothing; of rdtarget, and rdinit reports it."""

import os
import random
import signal
import sys

import nvmf_peer as nv
from t_loop import LONG, PATIENCE, SANITIZED, SCALE, each, iwarp_only, main, program, scaled, test, wait_for
from t_serving import Baseline, exercise, host

KILLS = int(os.environ.get('RD_TEST_KILLS', 200 if LONG else scaled(20, 8)))
SOME = scaled(16 << 20, 2 << 20)  # bytes
if SANITIZED:
    KILLS = min(KILLS, 5)


def null_and_memory(t):
    """Namespace 1 for endless load, namespace 2 to compare data."""
    return t.target([t.namespace(1, backend='null', size='8GiB'), t.namespace(2, backend='memory')])


def rdinit(t, verb, target, *args, **kw):
    return t.spawn('rdinit', [program('rdinit'), verb, target.uri(), *PATIENCE, *args], **kw)


def moves(t, proc, count):
    """Wait until an rdinit has moved this many more bytes of its file, so that there is load."""
    def done():
        if not proc.running:
            t.ok(False, f'rdinit ended early: {proc.text()}')
        return proc.bytes_moved() >= goal
    goal = proc.bytes_moved() + count
    wait_for(done, 'rdinit to move data')


def load(t, target, number, *args):
    """An rdinit in the middle of moving data: both directions in turn, with one queue or several."""
    queues = ['--nr-io-queues', str(1 + number % 4)]
    if number % 2:
        proc = rdinit(t, 'read', target, '--data', '/dev/null', '--data-size', str(1 << 33), *queues,
                      *args)
    else:
        proc = rdinit(t, 'write', target, '--data', '/dev/zero', '--data-size', str(1 << 33), *queues,
                      *args)
    moves(t, proc, SOME)
    return proc


def memory_at_rest(target):
    """Resident memory, without that of queues whose end the target has not noticed yet."""
    wait_for(lambda: not target.counters()['io_queues'], 'the queues to end')
    return target.rss()


@each(('null', {'backend': 'null'}), ('file', {'backend': 'file'}))
def rdinit_is_killed_under_load(t, keys):
    # Buffers use memory only after their first use, and the number in use at a time is random; so there are few.
    target = t.target([t.namespace(1, size='8GiB', **keys), t.namespace(2, backend='memory')],
                      target={'buffer_memory': '1MiB', 'max_data_size': '256KiB', 'capsule_memory': '1MiB'})
    rng = random.Random(KILLS)
    with Baseline(target, nsid=2):
        rss = None
        for number in range(KILLS):
            proc = load(t, target, number)
            moves(t, proc, rng.randrange(2 * SOME))  # never at the same place
            proc.kill()
            if number == max(KILLS // 4, min(4, KILLS - 1)):  # each number of queues has been there
                rss = memory_at_rest(target)
        if not SANITIZED:
            grown = memory_at_rest(target) - rss
            t.note(f'{KILLS} kills: resident memory {grown >> 10:+d} KiB since the first ones')
            t.ok(grown < 2 << 20, f'resident memory grew by {grown >> 10} KiB')


@test
def others_are_served_while_rdinit_is_killed(t):
    target = null_and_memory(t)
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        data = bytes(range(256)) * 32
        for number in range(4):
            proc = load(t, target, number)
            nv.expect(queue.write_blocks(2, number * 16, data))
            proc.kill()
            t.same(queue.read_blocks(2, number * 16, 16)[1], data)
        h.shutdown()


@each(('read', 1), ('write', 0), ('write with 4 queues', 3))
def the_target_is_killed_under_load(t, number):
    target = t.target([t.namespace(size='8GiB')])
    proc = load(t, target, number + 4 * (number == 0))
    target.kill()
    t.eq(proc.wait(), 1, 'exit status of rdinit')
    t.match(r'(?m)^rdinit: .*(?i:clos|lost|reset|gone|disconnect|end)', proc.text(), 'its words')


@test
def the_target_is_stopped_and_does_not_answer(t):
    """SIGSTOP: the connection stays, but nothing arrives. The time-out ends it."""
    target = null_and_memory(t)
    t.cleanup(target.signal, signal.SIGCONT)
    proc = load(t, target, 1, '--timeout', '1s' if SCALE == 1 else '8s')
    target.signal(signal.SIGSTOP)
    t.eq(proc.wait(), 1, 'exit status of rdinit')
    t.match(r'(?mi)^rdinit: .*time', proc.text(), 'its words')
    target.signal(signal.SIGCONT)
    exercise(target, nsid=2)


@test
def a_target_that_is_stopped_is_not_waited_for(t):
    """Nothing answers the connection request."""
    target = null_and_memory(t)
    t.cleanup(target.signal, signal.SIGCONT)
    target.signal(signal.SIGSTOP)
    res = t.rdinit('id-ctrl', target.uri(None), '--connect-timeout', '1s', rc=1)
    t.match(r'(?mi)^rdinit: .*(time|respon)', res.err, 'its words')
    target.signal(signal.SIGCONT)
    exercise(target, nsid=2)


@each(('SIGINT', signal.SIGINT), ('SIGTERM', signal.SIGTERM), ('SIGHUP', signal.SIGHUP))
@iwarp_only
def rdinit_interrupted(t, sig):
    """It ends as shells expect of an interrupted program, and shuts the controller down."""
    if signal.getsignal(sig) == signal.SIG_IGN:     # these tests under nohup; rdinit would inherit it
        signal.signal(sig, signal.SIG_DFL)
        t.cleanup(signal.signal, sig, signal.SIG_IGN)
    target = null_and_memory(t)
    with Baseline(target, nsid=2):
        for number in range(2):
            since = target.mark()
            proc = load(t, target, number)
            proc.signal(sig)
            t.eq(proc.wait(), -sig, 'exit status of rdinit')
            t.match(r'(?m)^rdinit: .* after \d+ bytes' + ('' if number else ', which are not flushed'),
                    proc.text())
            target.expect('-> shutting-down', since=since)


@test
@iwarp_only
def rdinit_interrupted_twice_does_not_wait(t):
    """The target does not answer any more: the first signal waits for commands in flight."""
    target = null_and_memory(t)
    t.cleanup(target.signal, signal.SIGCONT)
    proc = load(t, target, 0)
    target.signal(signal.SIGSTOP)
    proc.signal(signal.SIGINT)
    proc.expect('a second signal ends rdinit without waiting')
    proc.signal(signal.SIGINT)
    t.eq(proc.wait(), -signal.SIGINT, 'exit status of rdinit')


@test
@iwarp_only
def rdinit_ignores_what_it_was_started_to_ignore(t):
    """As under nohup."""
    target = null_and_memory(t)
    proc = rdinit(t, 'read', target, '--data', '/dev/null',
                  preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    moves(t, proc, SOME)
    proc.signal(signal.SIGHUP)
    moves(t, proc, 4 * SOME)
    proc.kill()


@test
def rdinit_stopped_does_not_stop_others(t):
    """A host that receives no data: its queue is stuck, no other one is."""
    target = null_and_memory(t)
    with Baseline(target, nsid=2):
        proc = load(t, target, 1)
        proc.signal(signal.SIGSTOP)
        exercise(target, nsid=2)
        proc.signal(signal.SIGCONT)
        moves(t, proc, SOME)
        proc.kill()


@test
@iwarp_only
def the_status_tells_what_is_going_on(t):
    target = t.target([t.namespace(backend='memory')])
    idle = target.counters()
    with host(target) as h:
        h.enable()
        queues = [h.add_io() for _ in range(3)]
        for queue in queues:
            nv.expect(queue.read_blocks(1, 0, 1)[0])
        nv.expect(queues[0].write_blocks(1, 0, bytes(512)))
        busy = target.counters()
        t.eq((busy['reads'] - idle['reads'], busy['writes'] - idle['writes']), (3, 1), 'totals')
        t.eq((busy['controllers'], busy['admin_queues'], busy['io_queues']), (1, 1, 3), 'figures')
        t.eq(idle['io_queues'], 0, 'I/O queues before')
        h.shutdown()


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp', 'verbs')))
