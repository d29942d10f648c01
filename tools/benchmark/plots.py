# SPDX-License-Identifier: BSD-3-Clause
"""The plots: SVG and PNG, operations per second and latency against depth and against connections."""

import os

import plan

MARKS = 'osD^v<>pPX*h'


def _series(results, name, points, of):
    xs, ys, low, high = [], [], [], []
    for x, point in points:
        found = results.figure(name, point, *of)
        if found:
            xs.append(x)
            ys.append(found[0])
            low.append(found[0] * found[1])
            high.append(found[0] * found[1])
    return xs, ys, [low, high]


def _panel(axes, results, points, of, title, unit):
    for number, row in enumerate(results.rows):
        xs, ys, spread = _series(results, row['name'], points, of)
        if xs:
            axes.errorbar(xs, ys, yerr=spread, label=row['title'], marker=MARKS[number % len(MARKS)], markersize=4,
                          linewidth=1.2, capsize=2, color=f'C{number % 10}',
                          linestyle='-' if number < 10 else '--')
    axes.set_xscale('log', base=2)
    axes.set_yscale('log')
    ticks = [x for x, _ in points]
    axes.set_xticks(ticks, [str(x) for x in ticks], fontsize=8)
    axes.set_title(title, fontsize=10)
    axes.set_ylabel(unit, fontsize=9)
    axes.grid(True, which='both', alpha=0.25)


def _save(figure, folder, name):
    paths = []
    for kind in ('svg', 'png'):
        path = os.path.join(folder, f'{name}.{kind}')
        # No dates and random names in them: the same results give the same file.
        figure.savefig(path, dpi=110, metadata={'Date': None} if kind == 'svg' else {'Software': None})
        paths.append(path)
    return paths


def _legend(figure, panels):
    shown = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            shown.setdefault(label, handle)
    if shown:
        figure.legend(shown.values(), shown.keys(), loc='lower center', ncol=3, fontsize=8, frameon=False)


def _depth(plt, results, folder):
    figure, panels = plt.subplots(2, 2, figsize=(11, 9))
    points = [p for p in results.points() if p.size == 4096 and p.connections == 1 and p.rw.startswith('rand')]
    for column, rw in enumerate(('randread', 'randwrite')):
        chosen = sorted((p.depth, p) for p in set(points) if p.rw == rw)
        _panel(panels[0][column], results, chosen, ('iops',), f'4 KiB {rw}', 'I/Os per second')
        _panel(panels[1][column], results, chosen, ('lat_us', 'mean'), f'4 KiB {rw}', 'mean latency, µs')
        panels[1][column].set_xlabel('depth')
    _legend(figure, panels.flat)
    figure.tight_layout(rect=(0, 0.13, 1, 1))
    return _save(figure, folder, 'depth')


def _connections(plt, results, folder):
    figure, panels = plt.subplots(2, 2, figsize=(11, 9))
    for sweep, (left, right) in zip(plan.SWEEPS, panels):
        chosen = sorted((p.connections, p) for p in set(results.points()) if sweep.has(p))
        chosen = [pair for pair in chosen if any(results.of(name, pair[1]) for name in plan.MANY_ROWS)]
        _panel(left, results, chosen, ('iops',), '4 KiB randread', 'I/Os per second')
        _panel(right, results, chosen, ('lat_us', 'mean'), '4 KiB randread', 'mean latency, µs')
        for axes in left, right:
            axes.set_xlabel(f'connections ({sweep.text})')
    _legend(figure, panels.flat)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    return _save(figure, folder, 'connections')


def draw(results, folder):
    """The files made; without matplotlib none, and the reason."""
    try:
        import matplotlib
        matplotlib.use('Agg')
        matplotlib.rcParams['svg.hashsalt'] = 'rdnvme'
        from matplotlib import pyplot
    except ImportError as e:
        return [], f'no plots: {e} (Debian: python3-matplotlib)'
    paths = []
    for make in (_depth, _connections):
        paths += make(pyplot, results, folder)
        pyplot.close('all')
    return paths, None
