# SPDX-License-Identifier: BSD-3-Clause
"""rdinit bench: it does exactly the requested I/Os, counts them correctly and ends well."""

import json
import os
import re
import signal
import sys

from t_loop import NQN, PATIENCE, each, main, program, scaled, test

BLOCK = 512
IO = 4096
SIZE = 1 << 20


POLLS = (('spinning', 'always'), ('sleeping', 'never'), ('both', '20us'))


def serve(t, namespaces=2, **keys):
    return t.target([t.namespace(nsid, backend='memory', size=SIZE, **keys)
                     for nsid in range(1, namespaces + 1)])


def bench(t, target, *args, nsid=1, **kw):
    """Its results."""
    res = t.rdinit('bench', target.uri(nsid), '-o', 'json', *args, **kw)
    return json.loads(res.text)


def write_some(t, target, count, *args, **kw):
    return bench(t, target, '--dataloss', '--io-count', str(count), *args, **kw)


def contents(t, target, nsid=1):
    return t.rdinit('read', target.uri(nsid), '--data', '-', '--data-size', str(SIZE)).out


def written(data, size=IO):
    """The numbers of the pieces that are not zero."""
    return {at // size for at in range(0, len(data), size) if any(data[at:at + size])}


def start(t, target, *args, **kw):
    """A bench that runs until it is stopped, and has begun."""
    since = target.counters()['reads']
    with open(t.path('out'), 'wb') as out:
        proc = t.spawn('bench', [program('rdinit'), 'bench', target.uri(), '--run-time', '1h', *args,
                                 *PATIENCE], stdout=out, **kw)
    while target.counters()['reads'] < since + 500:
        t.ok(proc.running, f'it ended:\n{proc.text()}')
    return proc


def output(t):
    with open(t.path('out'), encoding='utf-8') as f:
        return f.read()


def consistent(t, part, block_size=IO):
    """Holds for the results of any run."""
    t.eq(part['bytes'], part['ios'] * block_size, 'bytes')
    lat = part['latency_ns']
    steps = [lat['percentiles'][key] for key in ('50', '90', '99', '99.9', '99.99')]
    t.eq(steps, sorted(steps), 'percentiles')
    t.ok(lat['min'] <= steps[0] and steps[-1] <= lat['max'], f'the ends of {lat}')
    t.ok(lat['min'] <= lat['mean'] <= lat['max'], f'the mean of {lat}')
    t.ok(lat['stddev'] <= lat['max'] - lat['min'] + 1, f'the deviation of {lat}')
    t.ok(part['ios'] == 0 or lat['min'] > 0, f'an I/O took no time: {lat}')


# ---- what it does ----

@test
def without_options_it_reads_4_kib_at_random(t):
    target = serve(t, 1)
    proc = start(t, target, '-o', 'json')
    proc.signal(signal.SIGINT)
    t.eq(proc.wait(), -signal.SIGINT, 'exit status')
    got = json.loads(output(t))
    for key, value in {'rw': 'randread', 'read_percent': 100, 'block_size': IO, 'depth': 32, 'queues': 1,
                       'threads': 1, 'poll': 'always', 'ramp_seconds': 0, 'io_count': 0,
                       'start': 0, 'length': SIZE}.items():
        t.eq(got['options'][key], value, key)
    t.eq(got['write']['ios'], 0, 'writes')
    t.eq(target.counters()['writes'], 0, 'writes that the target served')


@each(*((f'{how}{name}, {queues} queues, {threads} threads', poll, queues, threads, args)
        for how, args in (('', ()), ('by a device, ', ('--device',)))
        for (name, poll), (queues, threads) in zip(POLLS, ((1, 1), (3, 2), (20, 1)))))
def does_as_many_ios_as_asked_for(t, poll, queues, threads, args):
    target = serve(t, 1)
    count = scaled(3001)
    got = bench(t, target, '--io-count', str(count), '--queues', str(queues), '--threads', str(threads),
                '--depth', '7', '--poll', poll, *args)
    t.eq(got['options']['device'], bool(args), 'whether it used a device')
    t.eq(got['ios'], count, 'I/Os counted')
    t.eq(target.counters()['reads'], count, 'I/Os that the target served')
    t.eq((got['options']['queues'], got['options']['threads']), (queues, threads), 'queues and threads')
    consistent(t, got)
    consistent(t, got['read'])
    t.ok(1 <= got['batches'] <= count, 'batches')
    t.ok(got['latency_ns']['mean'] * count <= got['elapsed_seconds'] * 1e9 * 7 * queues * 1.01,
         'more I/Os were in flight than asked for')


@each(('sleeping', 'randread', ('--poll', 'never')), ('with a ramp', 'randread', ('--ramp-time', '50ms')), ('a few threads', 'read', ('--threads', '3')))
def runs_for_a_time(t, mode, args):
    target = serve(t, 1)
    got = bench(t, target, '--rw', mode, '--run-time', '100ms', *args)
    t.ok(got['ios'] > 0 and got['elapsed_seconds'] >= 0.1, f'{got}')
    t.ok(target.counters()['reads'] >= got['ios'], 'it counts I/Os that the target has not seen')
    t.eq(got['interrupted'], False)
    consistent(t, got)
    t.ok(abs(got['iops'] * got['elapsed_seconds'] - got['ios']) < 1, 'IOPS')


@each(('512', 512, ()), ('4 KiB', 4096, ()), ('12 KiB', 12288, ()), ('128 KiB', 131072, ()), ('by a device', 4096, ('--device',)))
def block_sizes(t, size, args):
    target = serve(t, 1)
    got = write_some(t, target, 50, '--rw', 'randrw', '-b', str(size), '--depth', '4', *args)
    t.eq(got['options']['block_size'], size)
    consistent(t, got, size)
    served = target.counters()
    t.eq((served['reads'], served['writes']), (got['read']['ios'], got['write']['ios']),
         'reads and writes that the target served')


@test
def the_mix_is_what_was_asked_for(t):
    target = serve(t, 1)
    count = scaled(4000, 400)
    for percent in (0, 25, 80, 100):
        got = write_some(t, target, count, '--rw', 'randrw', '--read-percent', str(percent))
        share = 100 * got['read']['ios'] / count
        t.eq(got['read']['ios'] + got['write']['ios'], count, 'reads and writes')
        # The positions follow from the seed, so the result does not depend on luck.
        t.ok(abs(share - percent) <= (0 if percent in (0, 100) else 5), f'{share} % reads, not {percent}')
        for direction in ('read', 'write'):
            consistent(t, got[direction])


# ---- where it does it ----

@each(('one queue', 1, 51), ('three queues', 3, 51), ('two queues, unequal parts', 2, 52),
      ('part of it', 1, 40))
def sequential_writes_cover_the_region(t, queues, count):
    """In order: no piece is written twice before each was written once."""
    target = serve(t, 1)
    first, units = 3, 51
    write_some(t, target, count, '--rw', 'write', '--start-block', str(first * IO // BLOCK),
               '--data-size', str(units * IO), '--queues', str(queues), '--depth', '2')
    t.eq(written(contents(t, target)), set(range(first, first + min(count, units))), 'pieces written')


@each(('random', 'randwrite'), ('sequential', 'write'))
def nothing_outside_the_region_is_touched(t, mode):
    target = serve(t, 1)
    first, units = 5, 20
    # Aligned to a block only, and with a rest at the end that is too short for an I/O.
    got = write_some(t, target, 2000, '--rw', mode, '--offset', str(first * IO + BLOCK),
                     '--data-size', str(units * IO + IO - BLOCK), '--queues', '3')
    t.eq(got['options']['start'], first * IO + BLOCK, 'start')
    t.eq(got['options']['length'], units * IO, 'length')
    blocks = {(first * IO + BLOCK) // BLOCK + i for i in range(units * IO // BLOCK)}
    t.eq(written(contents(t, target), BLOCK), blocks, 'blocks written')


@test
def fewer_pieces_than_queues_are_shared(t):
    target = serve(t, 1)
    write_some(t, target, 40, '--rw', 'write', '--data-size', str(2 * IO), '--queues', '4')
    t.eq(written(contents(t, target)), {0, 1}, 'pieces written')


@test
def the_seed_says_where_and_what(t):
    target = serve(t, 3)
    for nsid, seed in ((1, 7), (2, 7), (3, 8)):
        write_some(t, target, 60, '--rw', 'randwrite', '--depth', '1', '--seed', str(seed), nsid=nsid)
    one, same, other = (contents(t, target, nsid) for nsid in (1, 2, 3))
    t.same(same, one, 'the same seed')
    t.ok(written(one) != written(other), 'another seed wrote to the same places')
    t.ok(30 < len(written(one)) <= 60, 'the positions are not random')


# ---- what it refuses ----

@test
def a_block_beyond_mdts_is_named_with_the_limit(t):
    target = t.target([t.namespace(1, backend='memory')], target={'max_data_size': '128KiB'})
    res = t.rdinit('bench', target.uri(), '-b', '1M', rc=1)
    t.match(r'--block-size: 1048576 bytes are more than the controller transfers .*131072 bytes', res.err)


@each(('writing', 'write'), ('writing at random', 'randwrite'), ('a mix', 'rw'))
def no_data_is_lost_without_leave(t, mode):
    target = serve(t, 1)
    res = t.rdinit('bench', target.uri(), '--rw', mode, '--io-count', '10', rc=2)
    t.match('(?m)^rdinit: .*--dataloss', res.err, 'its words')
    t.eq(target.counters()['writes'], 0, 'writes')


@each(('an unknown mode', 2, '--rw', 'trim'), ('a mix of reads', 2, '--read-percent', '50'),
      ('no depth', 2, '--depth', '0'), ('too deep', 2, '--depth', '1024'),
      ('deeper than the target', 1, '--depth', '1023'),
      ('more threads than queues', 2, '--threads', '3', '--queues', '2'),
      ('more queues than granted', 1, '--queues', '1000'),
      ('a CPU that is not', 1, '--cpus', '1023'), ('a bad list', 2, '--cpus', '1-'),
      ('a list that ends early', 2, '--cpus', '0,'), ('no list', 2, '--cpus', 'all'),
      ('part of a block', 1, '-b', '1000'), ('more than MDTS', 1, '-b', '256MiB'),
      ('no room', 1, '--data-size', '2048'), ('beyond the end', 1, '--start-block', '4000000'),
      ('longer than the namespace', 1, '--data-size', '1GiB'), ('part of a block', 1, '--offset', '100'),
      ('no time', 2, '--run-time', '0'), ('not a time', 2, '--run-time', 'long'),
      ('a count and a ramp', 2, '--io-count', '5', '--ramp-time', '1s'),
      ('two starts', 2, '--offset', '512', '--start-block', '1'), ('how to poll', 2, '--poll', 'often'))
def refuses(t, rc, *args):
    target = serve(t, 1)
    res = t.rdinit('bench', target.uri(), *args, rc=rc)
    t.match('(?m)^rdinit: ', res.err, 'its words')
    t.eq((len(res.err.splitlines()), res.out), (1, b''), f'lines of\n{res.err}')
    t.eq(target.counters()['reads'], 0, 'reads')


# ---- how it ends ----

@each(('spinning, SIGINT', 'always', signal.SIGINT), ('sleeping, SIGTERM', 'never', signal.SIGTERM))
def interrupted_it_says_what_it_measured(t, poll, sig):
    target = serve(t, 1)
    since = target.mark()
    proc = start(t, target, '--poll', poll, '--queues', '3', '--threads', '2')
    proc.signal(sig)
    t.eq(proc.wait(), -sig, 'exit status')
    t.match(r'(?m)^randread, 4096 bytes, depth 32, 3 queues, 2 threads: .* interrupted$', output(t))
    t.match(r'(?m)^read : \d+ IOPS, .*/s, \d+ I/Os$', output(t))
    t.match(r'(?m)^ +percentiles: 50% .* 99\.99% [\d.]+$', output(t))
    t.match(r'(?m)^cpu  : [\d.]+ us per I/O', output(t))
    target.expect('-> shutting-down', since=since)


@each(('spinning, 12 queues', 'always', 12), ('sleeping, 1 queue', 'never', 1), ('both, 12 queues', '20us', 12))
def a_target_that_dies_is_an_error(t, poll, queues):
    target = serve(t, 1)
    proc = start(t, target, '--poll', poll, '--queues', str(queues), '--threads', '1' if queues == 1 else '3')
    target.kill()
    t.eq(proc.wait(), 1, 'exit status')
    t.match('(?m)^rdinit: .*connection lost', proc.text(), 'its words')
    t.eq((len(proc.text().splitlines()), output(t)), (1, ''), f'lines of\n{proc.text()}')


@test
def a_target_that_stops_answering_is_an_error(t):
    target = serve(t, 1)
    t.cleanup(target.signal, signal.SIGCONT)
    proc = start(t, target, '--timeout', '1s', '--queues', '2')
    target.signal(signal.SIGSTOP)
    t.eq(proc.wait(), 1, 'exit status')
    t.match('(?mi)^rdinit: .*time', proc.text(), 'its words')


@test
def an_io_that_fails_is_named(t):
    layer = {'type': 'error', 'ops': ['read'], 'first_block': 96, 'blocks': 8}
    target = serve(t, 1, layers=[layer])
    res = t.rdinit('bench', target.uri(), '--rw', 'read', '--queues', '2', rc=1)
    t.match('(?m)^rdinit: read of blocks 96 to 103: ', res.err, 'its words')
    t.eq((len(res.err.splitlines()), res.out), (1, b''), f'lines of\n{res.err}')


@test
def a_namespace_that_is_protected_is_an_error(t):
    target = serve(t, 1, read_only=True)
    res = t.rdinit('bench', target.uri(), '--rw', 'randwrite', '--dataloss', rc=1)
    t.match('(?mi)^rdinit: write of blocks .*protect', res.err, 'its words')


@test
def threads_run_where_they_are_told_to(t):
    allowed = sorted(os.sched_getaffinity(0))
    target = serve(t, 1)
    proc = start(t, target, '--threads', '2', '--cpus', f'{allowed[0]},{allowed[-1]}')
    # A sanitizer has a thread of its own, bound to nothing.
    cpus = {re.search(r'Cpus_allowed_list:\s+(\S+)', proc.proc(f'task/{tid}/status'))[1]
            for tid in os.listdir(f'/proc/{proc.pid}/task') if int(tid) != proc.pid}
    proc.signal(signal.SIGINT)
    t.eq(proc.wait(), -signal.SIGINT, 'exit status')
    wanted = {str(allowed[0]), str(allowed[-1])}
    t.ok(wanted <= cpus, f'CPUs of the threads: {cpus}, expected {wanted}')


@each(('queue pairs', ()), ('a device', ('--device',)))
def nvme_clis_way_to_name_the_target(t, args):
    target = serve(t, 2)
    res = t.rdinit('bench', '-t', 'rdma', '-a', target.addr, '-s', str(target.port), '--nqn', NQN, '-n', '2',
                   '--io-count', '10', '-o', 'json', *args)
    t.eq(json.loads(res.text)['ios'], 10, 'I/Os')


@test
def a_device_of_a_uri_without_the_nqn(t):
    target = serve(t, 1)
    res = t.rdinit('bench', f'nvme+rdma://{target.addr}:{target.port}', '--nqn', NQN, '--device', '--io-count', '10',
                   '-o', 'json')
    t.eq(json.loads(res.text)['ios'], 10, 'I/Os')


if __name__ == '__main__':
    sys.exit(main())
