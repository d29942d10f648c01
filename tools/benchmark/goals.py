# SPDX-License-Identifier: BSD-3-Clause
"""The project's goals, and the results of a run against them. A run never fails because of a figure."""

import plan

# The least (or most) of each, and what it is a ratio of.
FLOOR_SMALL, FLOOR_LARGE = 0.75, 0.95
FIO_TO_OURS, FIO_TO_PEERS = 0.5, 3.0
FILE_TO_LOCAL = 0.95
DEVICE_TO_QUEUE_PAIR = 0.95
TCP_TO_IWARP = 0.95
RBD_TO_FIO = 0.9    # depth 8 and more
MANY_TO_BEST = 0.7
IDLE_WAKEUPS, IDLE_CPU_PERCENT = 0.0, 0.2
MEMORY_KIB = 256


class Goal:
    """One line: what, the value (None: not measured), its range or '', the goal, and whether it was met."""

    def __init__(self, what, value, goal, *, spread='', most=False, unit=''):
        self.what, self.value, self.goal, self.spread, self.unit = what, value, goal, spread, unit
        self.most = most

    @property
    def met(self):
        if self.value is None:
            return None
        return self.value <= self.goal if self.most else self.value >= self.goal

    @property
    def verdict(self):
        return {None: 'not measured', True: 'met', False: '**not met**'}[self.met]


def describe(point):
    words = {'randread': 'random read', 'randwrite': 'random write', 'read': 'sequential read',
             'write': 'sequential write'}[point.rw]
    return f'{point.size // 1024} KiB {words}, depth {point.depth}'


def _ratio(results, title, row, base, point, goal):
    return _goal(title, results.ratio(row, base, point), point, goal)


def _goal(title, found, point, goal):
    what = f'{title}: {describe(point)}'
    if not found:
        return Goal(what, None, goal)
    return Goal(what, found[0], goal, spread=f'{found[1]:.2f} to {found[2]:.2f}')


def _ratios(results):
    deep = [p for p in plan.CORE if p.depth > 1]
    for point in plan.CORE:
        yield _ratio(results, 'rdtarget null / bare TCP', 'null', 'floor', point, FLOOR_SMALL)
    for point in plan.LARGE:
        yield _ratio(results, 'rdtarget null / bare TCP', 'null', 'floor', point, FLOOR_LARGE)
    for point in plan.CORE + plan.LARGE:
        yield _ratio(results, 'rdinit bench, device / queue pair', 'null-device', 'null', point, DEVICE_TO_QUEUE_PAIR)
    for point in plan.CORE + plan.LARGE:
        yield _ratio(results, 'NVMe/TCP / iwarp, rdinit bench', 'tcp', 'null', point, TCP_TO_IWARP)
    for point in deep:
        yield _ratio(results, 'fio rdinit / rdinit bench', 'null-fio', 'null', point, FIO_TO_OURS)
    for point in deep:
        yield _ratio(results, 'rdtarget / nbdkit, by fio', 'null-fio', 'nbdkit-null', point, FIO_TO_PEERS)
    for point in deep:
        yield _ratio(results, 'rdtarget / tgt, by fio', 'null-fio', 'tgt-null', point, FIO_TO_PEERS)
    for point in deep + plan.LARGE:
        yield _ratio(results, 'file: rdtarget / local fio beside a spinning thread', 'file', 'local-spin', point,
                     FILE_TO_LOCAL)


def _most_to_best(results, row, sweep):
    """The ratio of a row's IOPS at 1000 connections and at the best number of them, and that number; or (None, None)."""
    measured = [(results.iops(row, p), p) for p in results.points() if sweep.has(p) and results.iops(row, p)]
    last = next((p for _, p in measured if p.connections >= 1000), None)
    if not last:
        return None, None
    best = max(measured, key=lambda pair: pair[0])[1]
    return results.ratio(row, row, last, best), best.connections


def _many(results, sweep):
    what = f'IOPS at 1000 connections / at the best number of them, {sweep.text}'
    found, best = _most_to_best(results, 'null', sweep)
    if not found:
        return Goal(what, None, MANY_TO_BEST)
    bare, bare_best = _most_to_best(results, 'floor', sweep)
    beside = f'; bare TCP: {bare[0]:.2f} ({bare_best})' if bare else ''
    return Goal(f'{what} ({best}{beside})', found[0], MANY_TO_BEST, spread=f'{found[1]:.2f} to {found[2]:.2f}')


def _idle(results):
    idle = results.data.get('idle') or {}
    silent, alive = idle.get('silent') or {}, idle.get('kept_alive') or {}
    n = idle.get('connections', 256)
    yield Goal(f'Wake-ups with {n} idle connections, without keep-alive', silent.get('wakeups_s'), IDLE_WAKEUPS,
               most=True, unit='/s')
    yield Goal(f'CPU with {n} idle connections, with keep-alive', alive.get('cpu_percent'), IDLE_CPU_PERCENT,
               most=True, unit=' %')
    yield Goal('Memory for each connection, idle', idle.get('memory_kib'), MEMORY_KIB, most=True, unit=' KiB')
    used = results.data.get('memory_in_use') or {}
    yield Goal('Memory for each connection, after depth 127 on all', used.get('kib'), MEMORY_KIB, most=True,
               unit=' KiB')


def _rbd(results):
    for point in plan.RBD:
        if point.depth > 1:
            yield _ratio(results, 'rdtarget / fio, Ceph RBD image', 'rbd', 'fio-rbd', point, RBD_TO_FIO)
    for point in plan.RBD:
        found = results.cost_ratio('rbd', 'server_cpu_us', 'fio-rbd', 'client_cpu_us', point)
        yield _goal('processor time of an I/O, fio / rdtarget, Ceph RBD image', found, point, RBD_TO_FIO)


def of(results):
    groups = {row['group'] for row in results.rows}
    if 'rbd' in groups:
        yield from _rbd(results)
    if groups == {'rbd'}:
        return
    yield from _ratios(results)
    yield from (_many(results, sweep) for sweep in plan.SWEEPS)
    yield from _idle(results)
