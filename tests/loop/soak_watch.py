# SPDX-License-Identifier: BSD-3-Clause
"""Samples of processes over time, and whether they grow: the figures and bounds of tools/soak."""

import os
import re
import statistics
from dataclasses import dataclass, field

WARM_UP = 1 / 3  # of the time: caches and pools fill, so these samples do not count
JUDGED_FROM = 300  # seconds of samples that count; the slope of a shorter time is not significant
POINTS = 300  # of a series, at most, are compared with each other


@dataclass
class Figure:
    name: str
    unit: str
    bound: float  # the largest slope, for an hour; of latencies as a part of their median


# A leak of 1 KiB for each action shows as some 10 MiB an hour.
FIGURES = {f.name: f for f in (
    Figure('rss', 'KiB', 6 * 1024),
    Figure('files', '', 4),
    Figure('threads', '', 4),
    Figure('p50', 'us', 1.0),
    Figure('p99', 'us', 2.0),
)}


def slope(points):
    """The median of the slopes between all pairs of (seconds, value), for an hour: a few outliers and a single step
    do not move it (Theil and Sen)."""
    step = max(1, -(-len(points) // POINTS))
    points = points[::step]
    found = [(y1 - y0) / (x1 - x0) for i, (x0, y0) in enumerate(points) for x1, y1 in points[i + 1:] if x1 > x0]
    return statistics.median(found) * 3600 if found else 0.0


@dataclass
class Series:
    who: str
    figure: Figure
    points: list = field(default_factory=list)  # (seconds, value)

    def counted(self):
        if not self.points:
            return []
        first = self.points[-1][0] * WARM_UP
        return [point for point in self.points if point[0] >= first]

    def span(self):
        points = self.counted()
        return points[-1][0] - points[0][0] if points else 0

    def bound(self):
        relative = self.figure.unit == 'us'
        return self.figure.bound * (statistics.median(y for _, y in self.counted()) if relative else 1)

    def verdict(self, judge):
        """(text, good)"""
        if not judge and self.span() < JUDGED_FROM:
            return 'too short to judge', True
        good = slope(self.counted()) <= self.bound()
        return ('good' if good else 'GROWS'), good


class Watch:
    """Takes samples of processes and of latencies."""

    def __init__(self):
        self.series = {}

    def note(self, who, what, at, value):
        key = who, what
        if key not in self.series:
            self.series[key] = Series(who, FIGURES[what])
        self.series[key].points.append((at, value))

    def process(self, who, proc, at):
        self.note(who, 'rss', at, proc.rss() // 1024)
        self.note(who, 'files', at, proc.open_files())
        self.note(who, 'threads', at, len(os.listdir(f'/proc/{proc.pid}/task')))

    def latency(self, who, at, p50, p99):
        self.note(who, 'p50', at, p50)
        self.note(who, 'p99', at, p99)

    def table(self, judge):
        """(rows of text with a heading, names of what grows)"""
        rows = [('of', 'figure', 'median', 'last', 'slope/h', 'bound/h', 'verdict')]
        bad = []
        for s in self.series.values():
            values = [y for _, y in s.counted()]
            text, good = s.verdict(judge)
            unit = f' {s.figure.unit}' if s.figure.unit else ''
            rows.append((s.who, s.figure.name, f'{statistics.median(values):g}{unit}', f'{values[-1]:g}{unit}',
                         f'{slope(s.counted()):+.1f}', f'{s.bound():+.1f}', text))
            if not good:
                bad.append(f'{s.figure.name} of {s.who}')
        return rows, bad


class TargetLatency:
    """Percentiles of a target's reads and writes between two looks, from its histograms."""

    def __init__(self, control):
        self.control, self.last = control, {}
        self.look()

    def look(self):
        """(p50, p99) in microseconds, or None when there were no commands."""
        total = self.control.call('stats.get', histograms=True)['total']
        now = {}
        for op in ('read', 'write'):
            for end, count in total[op]['histogram']:
                now[end] = now.get(end, 0) + count
        new = sorted((end, count - self.last.get(end, 0)) for end, count in now.items())
        self.last = now
        return percentiles(new)


def percentiles(buckets):
    """(p50, p99) in microseconds of [(end of a bucket in seconds, commands)]; None without commands."""
    total = sum(count for _, count in buckets)
    found = []
    for part in (0.5, 0.99):
        left = total * part
        for end, count in buckets:
            left -= count
            if left <= 0:
                found.append(end * 1e6)
                break
    return tuple(found) if total else None


def parse_bound(text):
    """NAME=NUMBER → (name, number); ValueError with a sentence."""
    found = re.fullmatch(r'(\w+)=([+-]?(?:\d+(?:\.\d*)?|\.\d+))', text)
    if not found or found[1] not in FIGURES:
        raise ValueError(f'--bound {text}: expected NAME=NUMBER with a name of {", ".join(FIGURES)}')
    return found[1], float(found[2])
