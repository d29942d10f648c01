# SPDX-License-Identifier: BSD-3-Clause
"""Each invariant can fail: the simulation finds every deliberate mistake of mutants.py within a few seeds."""

import json
import os
import shlex
import subprocess
import sys

from mutants import MUTANTS
from t_loop import Failure, Skip, each, main, program

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SEEDS = 300
STEPS = 100000


def compile_command(build, path):
    """The arguments that compile @path, without its name and without outputs."""
    with open(os.path.join(build, 'compile_commands.json')) as f:
        for entry in json.load(f):
            if os.path.realpath(os.path.join(build, entry['file'])) == path:
                args = shlex.split(entry['command'])
                break
        else:
            raise Failure(f'{path} is not compiled')
    kept, skip = [], False
    for arg in args:
        if not skip and arg not in ('-o', '-MQ', '-MF', '-MD', '-c') and not arg.endswith(os.path.basename(path)):
            kept.append(arg)
        skip = arg in ('-o', '-MQ', '-MF')
    return kept


def link_command(build):
    out = subprocess.run(['ninja', '-C', build, '-t', 'commands', 'tests/sim/rdsim'], capture_output=True, text=True,
                         check=True).stdout
    return shlex.split(out.splitlines()[-1])


def build_mutant(t, build, path, text):
    """rdsim with the object of @text in place of that of @path. Returns its path."""
    source, obj, exe = t.path(os.path.basename(path)), t.path('mutant.o'), t.path('rdsim')
    with open(source, 'w') as f:
        f.write(text)
    argv = compile_command(build, path) + ['-iquote', os.path.dirname(path), '-w', '-c', source, '-o', obj]
    subprocess.run(argv, cwd=build, check=True)
    link = link_command(build)
    at = next(i for i, arg in enumerate(link) if arg.endswith('.o'))
    link[link.index('-o') + 1] = exe
    subprocess.run(link[:at] + [obj] + link[at:], cwd=build, check=True)
    return exe


@each(*((mutant[0], mutant[1:]) for mutant in MUTANTS))
def it_is_found_that(t, mutant):
    path, old, new, *faults = mutant
    program('rdsim')
    build = os.environ['BUILD_ROOT']
    if os.environ.get('RD_TEST_SANITIZED'):
        raise Skip('the plain build does the same faster')
    path = os.path.join(TOP, path)
    with open(path) as f:
        text = f.read()
    t.eq(text.count(old), 1, f'{path} has this text once: {old}')
    exe = build_mutant(t, build, path, text.replace(old, new))
    res = t.run([exe, '--count', SEEDS, '--steps', STEPS, *(['--faults', *faults] if faults else [])], deadline=300, wrap=False)
    t.ok(res.rc not in (0, 2), res.text[-300:])
    print(f'# {res.text.splitlines()[-1] if res.rc == 1 else res.err[-200:]}')


if __name__ == '__main__':
    sys.exit(main())
