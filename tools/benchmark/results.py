# SPDX-License-Identifier: BSD-3-Clause
"""Figures from the samples of a run: medians, spread, and ratios of samples that were measured side by side."""

import statistics

import plan

FORMAT = 1
# Processors are far from each other when a cache line takes longer than this there and back: they share no cache.
FAR_NS = 200


class Results:
    """What results.json holds, for asking."""

    def __init__(self, data):
        if data.get('format') != FORMAT:
            raise ValueError(f'format {data.get("format")!r}, expected {FORMAT}')
        self.data = data
        self._good = {}
        self._errors = {}
        for entry in data['samples']:
            key = entry['row'], entry['point']
            if 'error' in entry:
                self._errors.setdefault(key, entry['error'])
            else:
                self._good.setdefault(key, {})[entry['repetition']] = entry

    @property
    def rows(self):
        return self.data['rows']

    def points(self):
        """All points that anything was measured at, as plan.Point, in the order of the run."""
        names = dict.fromkeys(entry['point'] for entry in self.data['samples'])
        return [point_of(name) for name in names]

    def of(self, row, point):
        return list(self._good.get((row, point.name), {}).values())

    def error(self, row, point=None):
        """The reason why a result is missing; the first reason of the row when no point is given."""
        if point is not None:
            return self._errors.get((row, point.name))
        return next((text for (name, _), text in self._errors.items() if name == row), None)

    def figure(self, row, point, *path):
        """(median, half of the range in parts of the median), or None."""
        values = [value for entry in self.of(row, point) if (value := _dig(entry, path)) is not None]
        return median_and_spread(values)

    def iops(self, row, point):
        found = self.figure(row, point, 'iops')
        return found[0] if found else None

    def apart(self):
        """The distance of the processors before each measurement, in ns, sorted."""
        return sorted(ns for entry in self.data['samples'] if (ns := entry.get('apart_ns')) is not None)

    def interrupts(self, row):
        """{processor: the disk's interrupts there while this row was measured}, both numbers."""
        counts = {}
        for (name, _), entries in self._good.items():
            for entry in entries.values() if name == row else ():
                for cpu, count in (entry.get('interrupts') or {}).items():
                    counts[int(cpu)] = counts.get(int(cpu), 0) + count
        return counts

    def spinner(self, row, point):
        """The time that was taken from the thread that spun beside a row, over all repetitions: {steal, gaps} in parts
        of the time, {longest_us}; None without such a thread."""
        found = [entry['spinner'] for entry in self.of(row, point) if entry.get('spinner')]
        seconds = sum(s['seconds'] for s in found)
        if not seconds:
            return None
        return {'steal': sum(s['steal_s'] for s in found) / seconds, 'gaps': sum(s['gaps_s'] for s in found) / seconds,
                'longest_us': max(s['longest_us'] for s in found)}

    def ratios(self, row, base, point, base_point=None, *, far=None, of='iops'):
        """The ratios of row to base, one for each repetition that has both. With @far: only repetitions in which both
        were measured while the processors were far from each other (true) or near (false)."""
        ours = self._good.get((row, point.name), {})
        theirs = self._good.get((base, (base_point or point).name), {})
        return [ours[n][of] / theirs[n][of] for n in ours if n in theirs and ours[n].get(of) and theirs[n].get(of)
                and (far is None or is_far(ours[n]) == is_far(theirs[n]) == far)]

    def cost_ratio(self, row, side, base, base_side, point):
        """(median, least, most) of the base's processor time of an I/O to the row's, in each repetition."""
        ours, theirs = self._good.get((row, point.name), {}), self._good.get((base, point.name), {})
        values = [theirs[n][base_side] / ours[n][side] for n in ours if n in theirs and ours[n][side]
                  and theirs[n][base_side]]
        return (statistics.median(values), min(values), max(values)) if values else None

    def ratio(self, row, base, point, base_point=None):
        """(median, least, most) of the ratios of row to base in each repetition; None when a result is missing."""
        values = self.ratios(row, base, point, base_point)
        return (statistics.median(values), min(values), max(values)) if values else None


def is_far(entry):
    """None: it is not known."""
    ns = entry.get('apart_ns')
    return None if ns is None else ns > FAR_NS


def _dig(entry, path):
    for key in path:
        entry = (entry or {}).get(key)
    return entry


def median_and_spread(values):
    if not values:
        return None
    middle = statistics.median(values)
    return middle, (max(values) - min(values)) / 2 / middle if middle else 0.0


def point_of(name):
    rw, size, depth, connections = name.split('-')
    return plan.Point(rw, int(size), int(depth), int(connections))
