# SPDX-License-Identifier: BSD-3-Clause
"""Tests can fail: each deliberate mistake of mistakes.py is found by the unit tests or by rdconform, as the list says."""

import os
import re
import sys

from mistakes import MISTAKES
from mutate import build_mutant, replaced
from t_loop import DEADLINE, SANITIZED, SOURCE_ROOT, Skip, each, main, program, test

# The programs of the tests; rdconform tests rdtarget.
PROGRAMS = {'target': 'tests/unit/target/test_target', 'base': 'tests/unit/target/test_target_base', 'initiator': 'tests/unit/initiator/test_initiator',
            'conform': 'target/rdtarget'}
FINDERS = [(f'{finder}: {mistake[0]}', finder, mistake[1:4]) for mistake in MISTAKES for finder in mistake[4:]]


def run(t, finder, exe):
    """The tests of @finder, in or on the program @exe."""
    kind, suite = finder.split(': ')
    if kind != 'conform':
        return t.run([exe, suite], deadline=2 * DEADLINE)
    test_conform = os.path.join(SOURCE_ROOT, 'tests', 'loop', 'test_conform.py')
    return t.run([sys.executable, test_conform, f'rdtarget conforms: {suite}'], env={**os.environ, 'RDTARGET': exe},
                 deadline=8 * DEADLINE)


def requires_plain_build():
    if SANITIZED:
        raise Skip('the plain build does the same faster')
    program('rdconform')


@each(*((finder, finder) for finder in sorted({finder for _, finder, _ in FINDERS})))
def it_passes_without_a_mistake(t, finder):
    requires_plain_build()
    res = run(t, finder, os.path.join(os.environ['BUILD_ROOT'], PROGRAMS[finder.split(':')[0]]))
    t.eq(res.rc, 0, res.text)
    t.match(r'(?m)^ok ', res.text)


@each(*(row for row in FINDERS))
def it_is_found_by(t, finder, mistake):
    requires_plain_build()
    path, old, new = mistake
    path = os.path.join(SOURCE_ROOT, path)
    output = PROGRAMS[finder.split(':')[0]]
    res = run(t, finder, build_mutant(t, os.environ['BUILD_ROOT'], path, replaced(t, path, old, new), output))
    t.ok(res.rc, 'no test fails')
    found = re.search(r'(?m)^(not ok .*|# .*: FAILED)$', res.text)
    t.ok(found or res.rc < 0, f'it ended with {res.rc}, but not because a test failed:\n{res.text}{res.err}')
    t.note(found[1] if found else f'it ended with signal {-res.rc}')


if __name__ == '__main__':
    sys.exit(main())
