# SPDX-License-Identifier: BSD-3-Clause
"""Builds a simulation with a deliberate mistake, and has its seeds find the mistake.

RD_TEST_MUTANTS says which mistakes a test tries: "all"; a revision of git: those in files that differ from it; without it
FEW of them.
"""

import json
import os
import shlex
import subprocess

from rdsim import STEPS
from t_loop import SANITIZED, SOURCE_ROOT, Failure, Skip


FEW = 12


def changed_since(revision):
    """The files of the work tree that differ from a revision of git."""
    res = subprocess.run(['git', '-C', SOURCE_ROOT, 'diff', '--name-only', revision, '--'], capture_output=True, text=True, check=False)
    if res.returncode:
        raise SystemExit(f'RD_TEST_MUTANTS: found "{revision}", expected all or a revision of git in {SOURCE_ROOT}: {res.stderr.strip()}')
    return set(res.stdout.splitlines())


def chosen(mutants):
    which = os.environ.get('RD_TEST_MUTANTS', '')
    if which == 'all':
        return mutants
    if which:
        changed = changed_since(which)
        return tuple(m for m in mutants if m[1] in changed)
    return tuple(mutants[i * len(mutants) // FEW] for i in range(min(FEW, len(mutants))))


def check_texts(t, mutants):
    """Each mistake can be made: its file has the text once."""
    for name, path, old, *_ in mutants:
        with open(os.path.join(SOURCE_ROOT, path)) as f:
            t.eq(f.read().count(old), 1, f'{name}: {path} has this text once: {old}')


def entry_of(build, path, wanted):
    """How @path is compiled; where it is compiled several times, for the output that has one of @wanted in its name."""
    with open(os.path.join(build, 'compile_commands.json')) as f:
        found = [entry for entry in json.load(f) if os.path.realpath(os.path.join(build, entry['file'])) == path]
    if not found:
        raise Failure(f'{path} is not compiled')
    return next((entry for entry in found if any(part in entry['output'] for part in wanted)), found[0])


def compile_command(entry, path):
    """The arguments that compile @path, without its name and without outputs."""
    kept, skip = [], False
    for arg in shlex.split(entry['command']):
        if not skip and arg not in ('-o', '-MQ', '-MF', '-MD', '-c') and not arg.endswith(os.path.basename(path)):
            kept.append(arg)
        skip = arg in ('-o', '-MQ', '-MF')
    return kept


def link_command(build, output):
    out = subprocess.run(['ninja', '-C', build, '-t', 'commands', output], capture_output=True, text=True, check=True).stdout
    return shlex.split(out.splitlines()[-1])


def replaced(t, path, old, new):
    """The text of @path with @new for @old, which is there once."""
    with open(path) as f:
        text = f.read()
    t.eq(text.count(old), 1, f'{path} has this text once: {old}')
    return text.replace(old, new)


def build_mutant(t, build, path, text, output, wanted=()):
    """The program @output with the object of @text in place of that of @path. Returns its path."""
    source, obj, exe = t.path(os.path.basename(path)), t.path('mutant.o'), t.path(os.path.basename(output))
    with open(source, 'w') as f:
        f.write(text)
    entry = entry_of(build, path, wanted)
    argv = compile_command(entry, path) + ['-iquote', os.path.dirname(path), '-w', '-c', source, '-o', obj]
    subprocess.run(argv, cwd=build, check=True)
    link = [arg for arg in link_command(build, output) if arg != entry['output']]
    at = next(i for i, arg in enumerate(link) if arg.endswith('.o'))
    link[link.index('-o') + 1] = exe
    subprocess.run(link[:at] + [obj] + link[at:], cwd=build, check=True)
    return exe


def find_mutant(t, mutant, name, seeds):
    """One of @seeds seeds of the program @name must fail with the mistake @mutant: (path, text, replacement, faults, transport),
    the last two only where it needs certain ones."""
    path, old, new, *needs = mutant
    if SANITIZED:
        raise Skip('the plain build does the same faster')
    path = os.path.join(SOURCE_ROOT, path)
    exe = build_mutant(t, os.environ['BUILD_ROOT'], path, replaced(t, path, old, new), f'tests/sim/{name}',
                       ('sim_rbd',) if name == 'rdsim-gateways' else ('sim_auth', 'sim_tcp'))
    args = [arg for pair in zip(('--faults', '--transport'), needs) for arg in pair]
    res = t.run([exe, '--count', seeds, '--steps', STEPS, *args], deadline=600)
    t.ok(res.rc not in (0, 2), res.text[-300:])
    print(f'# {res.text.splitlines()[-1] if res.rc == 1 else res.err[-200:]}')
