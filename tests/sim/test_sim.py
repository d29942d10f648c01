# SPDX-License-Identifier: BSD-3-Clause
"""The simulation: no seed violates an invariant, and a seed gives the same run each time."""

import sys

from rdsim import SEEDS, Simulation
from t_loop import each, main, test

RDSIM = Simulation('rdsim')


@test
def no_seed_violates_an_invariant(t):
    RDSIM.check_seeds(t, SEEDS)


@each(('tcp', ['--transport', 'tcp']), ('a path of each transport', ['--transport', 'both', '--seed', '1001']),
      ('tcp, while reactors stand still', ['--transport', 'tcp', '--faults', 'fence']))
def nor_over_byte_streams_that_are_cut_anywhere(t, args):
    RDSIM.check_seeds(t, SEEDS, *args)


@test
def no_stale_write_lands_when_reactors_stand_still(t):
    RDSIM.check_seeds(t, 2 * SEEDS, '--faults', 'fence')


@test
def no_command_is_lost_or_late_while_no_fault_explains_it(t):
    RDSIM.check_seeds(t, SEEDS // 2, '--faults', 'reload,reserve,error,cancel')


@test
def keys_that_change_admit_the_right_hosts_for_the_right_time(t):
    RDSIM.check_seeds(t, 2 * SEEDS, '--faults', 'keys')


@each(('beside nothing else', ['--faults', 'upgrade']), ('over iwarp', ['--faults', 'upgrade', '--transport', 'iwarp']),
      ('in the middle of everything', ['--faults', 'all', '--seed', '101']))
def no_host_notices_that_the_target_hands_over(t, args):
    RDSIM.check_seeds(t, SEEDS // 2, *args)


@test
def nothing_is_lost_over_iwarp_that_is_cut_anywhere(t):
    RDSIM.check_seeds(t, SEEDS // 2, '--transport', 'iwarp')


@test
def a_seed_gives_the_same_run_each_time(t):
    trace = RDSIM.check_repeats(t, 7)
    t.ok(len(trace) > 100000, 'a trace')
    t.ok('fault: ' in trace, 'faults')


@test
def so_does_a_seed_of_tcp(t):
    trace = RDSIM.check_repeats(t, 3, '--transport', 'tcp')
    t.ok('bytes to target' in trace and 'a bit is wrong' in trace, 'streams, and a digest that is wrong')


@test
def so_does_a_seed_of_hand_overs(t):
    trace = RDSIM.check_repeats(t, 2, '--faults', 'upgrade', '--transport', 'iwarp')
    t.ok('commit: 12 connections, 0 left, 12 taken' in trace, 'connections that move')


@test
def so_does_a_seed_in_which_hosts_authenticate(t):
    t.ok('authenticated host' in RDSIM.check_repeats(t, 4), 'a host authenticates')


@test
def so_does_a_seed_in_which_threads_compute_diffie_hellman(t):
    t.ok('SHA-256, ffdhe2048' in RDSIM.check_repeats(t, 2, '--faults', 'keys'), 'a host authenticates with it')


@test
def without_faults_every_command_succeeds(t):
    text = RDSIM.run(t, '--seed', 3, '--steps', 20000, '--faults', 'none', '--trace').text
    ends = [line for line in text.splitlines() if ' status 0x' in line]
    t.ok(len(ends) > 500, f'{len(ends)} commands')
    t.eq([line for line in ends if not line.endswith(('0 status 0x0', 'status 0x4285'))], [])


@test
def wrong_options_are_named(t):
    for args, words in ((['--faults', 'rain'], 'found "rain", expected a fault'),
                        (['--seed', '-1'], '--seed: found "-1", expected a number'), (['--step', 'x'], 'expected a number'),
                        (['--transport', 'udp'], 'found "udp", expected rdma, tcp, both or iwarp')):
        res = RDSIM.run(t, *args)
        t.eq(res.rc, 2)
        t.ok(words in res.err, res.err)


if __name__ == '__main__':
    sys.exit(main())
