# SPDX-License-Identifier: BSD-3-Clause
"""Two gateways over a simulated Ceph cluster: no seed violates an invariant, and every deliberate mistake of
mutants_gateways.py is found. Which ones are tried: mutate.py."""

import sys

from mutants_gateways import MUTANTS
from mutate import check_texts, chosen, find_mutant
from rdsim import SEEDS, Simulation
from t_loop import each, main, program, test

RDSIM = Simulation('rdsim_gateways')
# Seeds that violated an invariant once, with the faults: '' is all of them. They say little after a change of the order of events.
KEPT = ((1411, ''), (1701, ''), (5579, ''), (1474, ''), (22376, 'off,unblock,cluster,pool'),
        (26348, 'off,unblock,cluster,pool'), (116, 'take,block,off,link,pool'), (20001160, ''))


@test
def no_seed_violates_an_invariant(t):
    RDSIM.check_seeds(t, SEEDS)


@test
def no_seed_that_did_so_once_violates_it_again(t):
    for seed, faults in KEPT:
        res = RDSIM.run(t, '--seed', seed, *(('--faults', faults) if faults else ()))
        t.eq(res.rc, 0, res.text[-300:])


@test
def a_seed_gives_the_same_run_each_time(t):
    trace = RDSIM.check_repeats(t, 12)
    for words in ('fault: ', ' was broken', 'its lock is held here'):
        t.ok(words in trace, words)


@each(('without faults', 'none'), ('that stalls', 'cluster'), ('that is slow', 'delay'), ('with a pool that hangs', 'pool'))
def nobody_takes_the_lock_of_a_gateway_that_is_well_in_a_cluster(t, faults):
    text = RDSIM.run(t, '--seed', 3, '--steps', 60000, '--faults', faults, '--trace').text
    # When the gateways end, one may take what the other has given up.
    t.eq(text.split(' no more faults')[0].count('its lock is held here'), 3)
    t.ok('is blocked' not in text, 'a gateway was blocked')
    ends = [line for line in text.splitlines() if ' status 0x' in line]
    t.ok(len(ends) > 500, f'{len(ends)} commands')


@test
def a_pool_that_hangs_does_not_disturb_images_of_another(t):
    RDSIM.check_seeds(t, 10, '--faults', 'pool')


@test
def a_hand_over_alone_moves_connections_and_locks(t):
    text = RDSIM.run(t, '--seed', 1, '--steps', 60000, '--faults', 'upgrade', '--trace').text
    commits = [line for line in text.splitlines() if ' commit: ' in line]
    t.ok(len(commits) > 10, f'{len(commits)} hand-overs')
    t.eq([line for line in commits if not line.endswith(', 0 left')], [])
    t.ok('passed its lock on in' in text, 'a lock was passed on')
    t.ok('is blocked' not in text, 'a gateway was blocked')
    RDSIM.check_seeds(t, 10, '--faults', 'upgrade')


@test
def every_mistake_can_be_made(t):
    check_texts(t, MUTANTS)


@each(*((name, mutant) for name, *mutant in chosen(MUTANTS)))
def it_is_found_that(t, mutant):
    program('rdsim_gateways')
    find_mutant(t, mutant, 'rdsim-gateways', 150)


if __name__ == '__main__':
    sys.exit(main())
