# SPDX-License-Identifier: BSD-3-Clause
"""tools/soak: every action works, wrong data and growth are noticed. tools/check --long soak runs it for 50 minutes."""

import os
import random
import sys

from soak_churn import Scene
from soak_watch import FIGURES, Series, percentiles
from t_loop import DEADLINE, SOURCE_ROOT, Failure, main, program, test

SEED = int(os.environ.get('RD_TEST_SEED', random.SystemRandom().randrange(1 << 32)))
HOUR = 3600


def tool(t, *args):
    program('rddev')
    build = os.path.dirname(os.path.dirname(program('rdtarget')))
    return t.run([sys.executable, os.path.join(SOURCE_ROOT, 'tools', 'soak'), '--build', build, *args],
                 deadline=5 * DEADLINE)


@test
def the_tool_runs_every_action_and_prints_the_slopes(t):
    res = tool(t, '--seconds', '5', '--each', '--seed', str(SEED))
    t.eq(res.rc, 0, f'exit status; {res.err}')
    t.match(f'seed {SEED}', res.text)
    for who in ('target', 'host, two paths', 'host, restarts'):
        for figure in FIGURES:
            t.match(rf'(?m)^{who} +{figure} .* too short to judge$', res.text)


@test
def growth_above_a_bound_is_an_error(t):
    res = tool(t, '--seconds', '2', '--bound', 'threads=-1')
    t.eq(res.rc, 1, f'exit status; {res.err}')
    t.match(r'(?m)^target +threads .* GROWS$', res.text)
    t.match('grows faster than its bound: .*threads of target', res.err)


@test
def an_unknown_bound_is_refused(t):
    for bound in ('size=1', 'rss=1.2.3'):
        res = tool(t, '--bound', bound)
        t.eq(res.rc, 2, 'exit status')
        t.match(f'--bound {bound}: expected NAME=NUMBER with a name of rss, ', res.err)


@test
def a_time_that_is_none_is_refused(t):
    for seconds in ('0', '-1', 'nan', 'inf'):
        res = tool(t, f'--seconds={seconds}')
        t.eq(res.rc, 2, f'exit status with {seconds}')
        t.match(f'--seconds {seconds}: expected a number of seconds above 0', res.err)


@test
def a_file_for_samples_that_cannot_be_written_is_refused_at_the_start(t):
    path = t.path('none/samples')
    res = tool(t, '--seconds', '2', '--samples', path)
    t.eq(res.rc, 2, 'exit status')
    t.match(f'--samples {path}: No such file or directory; expected a file that can be written', res.err)
    t.ok('commands verified' not in res.text, 'it ran first')


@test
def wrong_data_is_an_error(t):
    """Another process writes to the file. A Read or a Compare notices, whichever comes first."""
    t.note(f'seed {SEED}')
    scene = Scene(t, SEED)
    fd = os.open(t.path('other.img'), os.O_WRONLY)
    os.pwrite(fd, b'\xdb' * (1 << 20), 0)
    os.close(fd)
    try:
        scene.finish()
    except Failure as e:
        t.match(r'block \d+: expected generation|Compare Failure', str(e))
    else:
        t.ok(False, 'nothing was noticed')


# ---- what counts as growth ----

def judged(figure, values, span=HOUR):
    """The verdict about a series of values over an hour."""
    s = Series('one', FIGURES[figure], [(span * i / (len(values) - 1), y) for i, y in enumerate(values)])
    return s.verdict(judge=False)[0]


@test
def a_steady_rise_is_growth(t):
    noise = random.Random(SEED)
    bound = FIGURES['rss'].bound
    t.eq(judged('rss', [30000 + 1.5 * bound * i / 200 + noise.randrange(100) for i in range(201)]), 'GROWS')
    t.eq(judged('rss', [30000 + 0.5 * bound * i / 200 + noise.randrange(100) for i in range(201)]), 'good')
    t.eq(judged('files', [30 + i // 20 for i in range(201)]), 'GROWS')
    t.eq(judged('p50', [100 + 2 * i for i in range(201)]), 'GROWS')


@test
def neither_warming_up_nor_outliers_are_growth(t):
    t.eq(judged('rss', [20000 + 200 * i for i in range(60)] + [32000] * 140), 'good')
    t.eq(judged('files', [40 if i % 10 == 9 else 30 for i in range(201)]), 'good')
    t.eq(judged('p99', [100000 if i > 190 else 500 for i in range(201)]), 'good')


@test
def a_short_time_is_not_judged(t):
    t.eq(judged('files', list(range(100)), span=120), 'too short to judge')


@test
def percentiles_are_those_of_the_buckets(t):
    t.eq(percentiles([(0.001, 98), (0.002, 1), (0.004, 1)]), (1000, 2000))
    t.eq(percentiles([(0.001, 0)]), None)


if __name__ == '__main__':
    sys.exit(main())
