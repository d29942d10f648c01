# SPDX-License-Identifier: BSD-3-Clause
"""The times that commands spend in each state: as SIGUSR1 logs them, and at the end if that is configured."""

import re
import signal
import sys

from t_loop import each, main, scaled, test

COUNT = scaled(600, 60)


def serve(t, every=None, at_exit=False, reactors=1, subsystem=None, **keys):
    keys = {'backend': 'null', 'size': '64MiB', **keys}
    settings = {'reactors': reactors, 'state_times_at_exit': at_exit}
    if every is not None:
        settings['state_times'] = every
    return t.target([t.namespace(**keys)], target=settings, subsystem=subsystem)


def bench(t, target, count, *args):
    t.rdinit('bench', target.uri(), '--io-count', str(count), '--dataloss', *args)


def parse(text):
    """Times in microseconds."""
    rows = {}
    for line in text.splitlines():
        found = re.search(r'status: state=(\S+) +count=(\d+) +mean_seconds=([\d.]+) +p50_seconds=([\d.]+) +'
                          r'p99_seconds=([\d.]+) +max_seconds=([\d.]+)$', line)
        if found:
            rows[found[1]] = dict(zip(('count', 'mean', 'p50', 'p99', 'max'),
                                      (int(found[2]), *(1e6 * float(text) for text in found.groups()[2:]))))
    return rows


def times(target):
    return parse(target.status())


def consistent(t, rows):
    total = rows.pop('total')
    for name, row in rows.items():
        t.ok(row['p50'] <= row['p99'] <= row['max'] and row['mean'] <= row['max'], f'{name}: {row}')
        t.ok(row['count'] <= total['count'], f'{name}: more commands than there were: {row}')
    parts = sum(row['count'] * row['mean'] for row in rows.values())
    # Each mean is rounded to a tenth.
    t.ok(abs(parts - total['count'] * total['mean']) <= 0.06 * total['count'] * (len(rows) + 1),
         f'the states come to {parts} us, the whole way to {total["count"] * total["mean"]} us')


@each(('one reactor', 1, 1), ('two reactors', 2, 4))
def reads_go_through_their_states(t, reactors, queues):
    target = serve(t, 1, reactors=reactors, backend='memory')
    t.eq(times(target), {}, 'times before the first command')
    bench(t, target, COUNT, '--queues', str(queues))
    rows = times(target)
    for name in ('new', 'need-buffer', 'ready', 'executing', 'executed', 'responding', 'done', 'total'):
        t.eq(rows[name]['count'], COUNT, f'commands that were {name}')
    t.eq(sorted(set(rows) & {'free', 'fused', 'limited', 'fetch', 'fetching'}), [], 'other states')
    consistent(t, rows)


@test
def slow_storage_is_seen_where_it_is(t):
    target = serve(t, 1, layers=[{'type': 'delay', 'read': '20ms'}])
    bench(t, target, 40, '--depth', '8')
    rows = times(target)
    t.ok(rows['executing']['p50'] >= 20000, f'20 ms in the backend: {rows}')
    t.ok(rows['total']['p50'] >= 20000, f'20 ms in the backend: {rows}')
    consistent(t, rows)


@each(('when asked for', True), ('not otherwise', False))
def the_end_tells_the_times(t, asked):
    target = serve(t, 1, at_exit=asked, reactors=2)
    bench(t, target, COUNT, '--queues', '3')
    since = target.mark()
    target.stop()
    rows = parse(target.text(since))
    t.eq(rows.get('total', {}).get('count'), COUNT if asked else None, 'commands at the end')
    if asked:
        consistent(t, rows)


@test
def many_questions_at_once_have_one_answer_each_time(t):
    """The signals come while commands run, and while the last query is in progress."""
    target = serve(t, 1, reactors=2)
    since = target.mark()
    for _ in range(20):
        target.signal(signal.SIGUSR1)
        bench(t, target, 20, '--queues', '2')
    t.eq(times(target)['total']['count'], 400, 'commands')
    t.ok('status: end' in target.text(since), 'no answer')


if __name__ == '__main__':
    sys.exit(main())
