# SPDX-License-Identifier: BSD-3-Clause
"""Results as Markdown."""

import statistics

import goals
import plan
from results import FAR_NS


def table(head, lines):
    yield '| ' + ' | '.join(head) + ' |'
    yield '|' + '---|' * len(head)
    for line in lines:
        yield '| ' + ' | '.join(line) + ' |'
    yield ''


def amount(value):
    if value is None:
        return '-'
    if value >= 1e6:
        return f'{value / 1e6:.2f} M'
    if value >= 1e4:
        return f'{value / 1e3:.0f} k'
    return f'{value / 1e3:.1f} k' if value >= 1e3 else f'{value:.0f}'


def micros(value):
    return '-' if value is None else f'{value:.1f}' if value < 1000 else f'{value:.0f}'


def _yes(value):
    return 'yes' if value else '**no**'


# ---- the parts ----

def machine(data):
    m, quiet, o = data['machine'], data['quiet'], data['options']
    virtual = ' of a virtual machine' if m['virtual'] else ''
    yield f'- Machine: {m["cpu"]}, {m["cpus"]} processors{virtual}, {m["memory_mib"] / 1024:.0f} GiB; {m["kernel"]}, ' \
        f'{m["distribution"]}; frequency governor {m["governor"]}'
    where = f'**no network namespace of its own ({data["namespace_error"]})**' if data['namespace_error'] else \
        'a network namespace of its own'
    yield f'- Server on processor {o["server_cpu"]}, client on processor {o["client_cpu"]}; {where}, TCP {data["congestion"]}'
    yield f'- Profile {o["profile"]}: {o["seconds"]:g} s for each measurement, {o["repetitions"]} repetitions in turn; ' \
        f'{data["seconds"] / 60:.1f} minutes in all; {data["started"]}, {data["version"]}'
    yield f'- Quiet: {_yes(quiet["quiet"])} (load {quiet["load_before"]} before; others used {quiet["others_before"]:.2f} ' \
        f'processors before and {quiet["others_after"]:.2f} after; {quiet["steal"] * 100:.1f} % taken by the hypervisor)'
    if m.get('free_memory_taken_back'):
        yield '- The hypervisor takes back memory that is free, and a load may wait for it to give some again (see "Memory that ' \
            'the hypervisor takes back")'
    yield ''


def distance(results):
    """The distance of the processors, and the ratios to TCP for near and for far processors."""
    apart = results.apart()
    if not apart:
        return
    far = sum(ns > FAR_NS for ns in apart)
    yield (f'A cache line takes {statistics.median(apart):.0f} ns from the server\'s processor to the client\'s and back '
           f'({apart[0]:.0f} to {apart[-1]:.0f}); over {FAR_NS} ns, that is far, in {far} of {len(apart)} '
           'measurements (see "How far apart the processors are").')
    yield ''
    if far in (0, len(apart)) or not any(row['name'] == 'null' for row in results.rows):
        return

    def cell(point, is_far):
        ratios = results.ratios('null', 'floor', point, far=is_far)
        return f'{statistics.median(ratios):.2f} ({len(ratios)})' if ratios else '-'
    points = plan.CORE + plan.LARGE
    yield from table(['rdtarget null / bare TCP (of how many repetitions)', *(_column(p) for p in points)],
                     [[name, *(cell(p, is_far) for p in points)] for name, is_far in (('near', False), ('far', True))])


def goal_lines(results):
    for goal in goals.of(results):
        value = '-' if goal.value is None else f'{goal.value:.2f}{goal.unit}'
        sign = '≤' if goal.most else '≥'
        yield [goal.what, value, goal.spread, f'{sign} {goal.goal:g}{goal.unit}', goal.verdict]


def _cell(results, row, point):
    found = results.figure(row, point, 'iops')
    if not found:
        return 'failed' if results.error(row, point) else '-'
    if point.size > 65536:
        return f'{found[0] * point.size / (1 << 30):.2f} GiB/s ±{found[1] * 100:.0f} %'
    return f'{amount(found[0])} ±{found[1] * 100:.0f} %'


def _column(point):
    return f'{point.size >> 10}K {point.rw} {point.depth}'


def throughput(results, points):
    head = ['', *(_column(point) for point in points)]
    for group, title in (('null', 'Null'), ('memory', 'Memory'), ('file', 'File on disk'),
                         ('rbd', 'Image of Ceph'), ('vs', 'Others')):
        rows = [row for row in results.rows if row['group'] == group]
        if rows:
            yield from table([title, *head[1:]],
                             ([row['title'], *(_cell(results, row['name'], p) for p in points)] for row in rows))


def interrupts(results):
    """Where the disk's interrupts arrived, for each row that uses it."""
    o = results.data['options']
    cpus = [o['server_cpu'], o['client_cpu']]
    rows = [(row['title'], results.interrupts(row['name'])) for row in results.rows if row['group'] == 'file']
    if not any(counts for _, counts in rows):
        if rows:
            yield 'Where the disk\'s interrupts arrived is not known.'
            yield ''
        return

    def cells(counts):
        total = sum(counts.values())
        parts = [*(counts.get(cpu, 0) for cpu in cpus), sum(n for cpu, n in counts.items() if cpu not in cpus)]
        return [*(f'{n * 100 / total:.0f} %' for n in parts), str(total)]
    yield from table(['The disk\'s interrupts arrived on', f'the server\'s processor ({cpus[0]})',
                      f'the client\'s ({cpus[1]})', 'others', 'interrupts'],
                     ([title, *cells(counts)] for title, counts in rows if counts))


def spinner(results, points):
    """The time that was taken from the threads that spun beside a row."""
    lines = (('by the hypervisor (steal in /proc/stat)', lambda s: f'{s["steal"] * 100:.1f} %'),
             ('in all (the thread did not run for 5 µs or more)', lambda s: f'{s["gaps"] * 100:.1f} %'),
             ('at once, at most', lambda s: f'{s["longest_us"] / 1e3:.1f} ms'))
    for row in results.rows:
        found = [results.spinner(row['name'], point) for point in points]
        if any(found):
            yield from table([f'Taken from the thread of "{row["title"]}"', *(_column(p) for p in points)],
                             ([name, *(say(s) if s else '-' for s in found)] for name, say in lines))


def tls(results, points):
    """What TLS costs, beside the same without it."""
    def cell(point, of):
        found = results.ratios('tls', 'tcp', point, of=of)
        return f'{statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})' if found else '-'
    lines = (('I/Os per second', 'iops'), ('client CPU for each I/O', 'client_cpu_us'), ('server CPU for each I/O', 'server_cpu_us'))
    if any(results.ratios('tls', 'tcp', point) for point in points):
        yield from table(['TLS / plain NVMe/TCP', *(_column(p) for p in points)],
                         ([name, *(cell(p, of) for p in points)] for name, of in lines))


def _latency_cells(results, row, point):
    parts = [results.figure(row, point, *path) for path in
             (('lat_us', 'mean'), ('lat_us', 'p50'), ('lat_us', 'p99'), ('lat_us', 'p99.9'), ('client_cpu_us',),
              ('server_cpu_us',))]
    return [micros(part[0]) if part else '-' for part in parts]


def details(results, points):
    for point in points:
        rows = [row for row in results.rows if results.of(row['name'], point)]
        if rows:
            yield f'{goals.describe(point)}:'
            yield ''
            yield from table(['', 'mean µs', 'p50', 'p99', 'p99.9', 'client CPU µs/IO', 'server CPU µs/IO'],
                             ([row['title'], *_latency_cells(results, row['name'], point)] for row in rows))


def connections(results, sweep):
    points = [p for p in results.points() if sweep.has(p) and any(results.of(row, p) for row in plan.MANY_ROWS)]
    points = sorted({p for p in points}, key=lambda p: p.connections)
    rows = [row for row in results.rows if row['name'] in plan.MANY_ROWS
            and any(results.of(row['name'], p) for p in points)]
    if not points:
        return
    yield (f'Random reads of 4 KiB over so many connections to one reactor ({sweep.text}); I/Os per second and mean '
           'latency in µs:')
    yield ''

    def cells(row):
        for p in points:
            iops, lat = results.figure(row, p, 'iops'), results.figure(row, p, 'lat_us', 'mean')
            yield f'{amount(iops[0])} / {micros(lat[0]) if lat else "-"}' if iops else '-'
    yield from table(['', *(str(p.connections) for p in points)],
                     ([row['title'], *cells(row['name'])] for row in rows))


def idle(data):
    i = data.get('idle') or {}
    if i.get('error'):
        yield f'Idle connections: not measured: {i["error"]}'
        yield ''
    if 'silent' in i and 'kept_alive' in i:
        s, a = i['silent'], i['kept_alive']
        yield from table([f'{i["connections"]} idle connections', 'wake-ups/s', 'CPU %'], [
            ['without keep-alive', f'{s["wakeups_s"]:.2f}', f'{s["cpu_percent"]:.3f}'],
            [f'{i["controllers"]} controllers, {i["keep_alives_s"]:g} Keep Alive commands/s', f'{a["wakeups_s"]:.2f}',
             f'{a["cpu_percent"]:.3f}']])
        yield f'Memory for each idle connection (queue depth {i["queue_depth"]}): {i["memory_kib"]:.1f} KiB.'
    used = data.get('memory_in_use') or {}
    if used.get('kib') is not None:
        yield (f'Memory for each of {used["connections"]} connections after all had {used["depth"]} writes of 4 KiB in '
               f'flight, everything of the process counted: {used["kib"]:.1f} KiB.')
    elif used.get('error'):
        yield f'Memory in use: not measured: {used["error"]}'
    yield ''


def failures(results):
    lines = [f'- {row["title"]}: {results.error(row["name"])}' for row in results.rows if results.error(row['name'])]
    if lines:
        yield 'Failed, in part or whole:'
        yield ''
        yield from lines
        yield ''


def body(results):
    """The measured part, as docs/notes/measured.md has it."""
    points = [p for p in results.points() if p in plan.CORE + plan.LARGE + plan.RBD]
    yield from machine(results.data)
    yield '### Goals'
    yield ''
    yield 'Ratios are medians of the ratios of each repetition; beside them the least and the most.'
    yield ''
    yield from table(['', 'measured', 'range', 'goal', ''], goal_lines(results))
    yield from distance(results)
    yield '### Operations per second'
    yield ''
    yield 'Medians, and half of the range between the least and the most.'
    yield ''
    yield from throughput(results, points)
    yield from interrupts(results)
    yield from spinner(results, points)
    yield '### Connections'
    yield ''
    for sweep in plan.SWEEPS:
        yield from connections(results, sweep)
    yield from idle(results.data)
    yield '### Latency and processor time'
    yield ''
    yield from details(results, points)
    yield from tls(results, points)
    yield from failures(results)
    for row in results.rows:
        if row['note']:
            yield f'- {row["title"]}: {row["note"]}.'
