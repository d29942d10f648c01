# SPDX-License-Identifier: BSD-3-Clause
"""The simulation: no seed violates an invariant, and a seed gives the same run each time."""

import sys

from t_loop import LONG, SANITIZED, main, program, test

SEEDS = 1000 if LONG else 10 if SANITIZED else 50
STEPS = 100000


def rdsim(t, *args, deadline=None):
    return t.run([program('rdsim'), *args], deadline=deadline, wrap=False)


@test
def no_seed_violates_an_invariant(t):
    res = rdsim(t, '--count', SEEDS, '--steps', STEPS, deadline=1200)
    t.eq(res.rc, 0, res.text[-2000:] + res.err)
    t.eq(res.text.count(': good,'), SEEDS)


@test
def no_stale_write_lands_when_reactors_stand_still(t):
    res = rdsim(t, '--count', 2 * SEEDS, '--steps', STEPS, '--faults', 'fence', deadline=1200)
    t.eq(res.rc, 0, res.text[-2000:] + res.err)


@test
def a_seed_gives_the_same_run_each_time(t):
    first, second = (rdsim(t, '--seed', 7, '--steps', 40000, '--trace').text for _ in range(2))
    t.ok(len(first) > 100000, 'a trace')
    t.same(first.encode(), second.encode())
    t.ok('fault: ' in first, 'faults')


@test
def without_faults_every_command_succeeds(t):
    text = rdsim(t, '--seed', 3, '--steps', 20000, '--faults', 'none', '--trace').text
    ends = [line for line in text.splitlines() if ' status 0x' in line]
    t.ok(len(ends) > 500, f'{len(ends)} commands')
    t.eq([line for line in ends if not line.endswith(('0 status 0x0', 'status 0x4285'))], [])


@test
def wrong_options_are_named(t):
    for args, words in ((['--faults', 'rain'], 'found "rain", expected a fault'),
                        (['--seed', '-1'], '--seed: found "-1", expected a number'), (['--step', 'x'], 'expected a number')):
        res = rdsim(t, *args)
        t.eq(res.rc, 2)
        t.ok(words in res.err, res.err)


if __name__ == '__main__':
    sys.exit(main())
