# SPDX-License-Identifier: BSD-3-Clause
"""Each invariant can fail: the simulation finds every deliberate mistake of mutants.py within a few seeds."""

import sys

from mutants import MUTANTS
from mutate import find_mutant
from t_loop import each, main, program

SEEDS = 300


@each(*((mutant[0], mutant[1:]) for mutant in MUTANTS))
def it_is_found_that(t, mutant):
    program('rdsim')
    find_mutant(t, mutant, 'rdsim', SEEDS)


if __name__ == '__main__':
    sys.exit(main())
