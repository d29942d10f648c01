# SPDX-License-Identifier: BSD-3-Clause
"""Each invariant can fail: the simulation finds every deliberate mistake of mutants.py within a few seeds. Which ones are tried:
mutate.py."""

import sys

from mutants import MUTANTS
from mutate import check_texts, chosen, find_mutant
from t_loop import each, main, program, test

SEEDS = 300


@test
def every_mistake_can_be_made(t):
    check_texts(t, MUTANTS)


@each(*((mutant[0], mutant[1:]) for mutant in chosen(MUTANTS)))
def it_is_found_that(t, mutant):
    program('rdsim')
    find_mutant(t, mutant, 'rdsim', SEEDS)


if __name__ == '__main__':
    sys.exit(main())
