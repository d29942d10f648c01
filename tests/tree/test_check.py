# SPDX-License-Identifier: BSD-3-Clause
"""What tools/check counts, skips, explains and runs again, in a tree where everything that it runs is a stand-in; the cache
of tests/debian; what tools/fuzz refuses; and tools whose output is cut."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from t_loop import SOURCE_ROOT, each, main, test

# Writes the log that was requested: one case that passed, or those of BAD_LOG in BAD_STEP.
MESON = '''
case $1 in
setup)
	for dir in "$@"; do [ ! -d "$dir" ] || : >"$dir/build.ninja"; done
	;;
test)
	echo "$*; ${RD_TEST_CASES-}" >>"$CALLS"
	build=$3 name=
	while [ $# -gt 0 ]; do
		[ "$1" != --logbase ] || name=$2
		shift
	done
	mkdir -p "$build/meson-logs"
	if [ "$name" = "${BAD_STEP-}" ]; then
		printf '%s\n' "$BAD_LOG" >"$build/meson-logs/$name.json"
	else
		printf '%s\n' '{"name": "rdnvme / one", "result": "OK"}' >"$build/meson-logs/$name.json"
	fi
	;;
esac
'''

GOOD = json.dumps({'name': 'good', 'result': 'OK', 'stdout': 'ok 1 - a\n'})
BAD = json.dumps({'name': 'bad', 'result': 'FAIL', 'stdout': 'not ok 1 - b\n'})


def script(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as f:
        f.write(f'#!/bin/sh\n{text}\n')
    os.chmod(path, 0o755)


def logging(rc, *logs):
    """A script of tests/debian that leaves these logs, and its exit status."""
    write = [f"printf '%s\\n' '{text}' >\"$output/{i}.json\"" for i, text in enumerate(logs)]
    return '\n'.join(['while [ "$1" != --output ]; do shift; done', 'output=$2', 'mkdir -p "$output"', *write, f'exit {rc}'])


class Tree:
    """A tree in which everything that tools/check runs passes, except for tests/debian/package, which is this script."""

    def __init__(self, t, package=logging(0, GOOD)):
        self.t = t
        self.top = top = tempfile.mkdtemp(prefix='top-', dir=t.dir)
        for folder in ('common', 'target', 'initiator', 'include', 'tests', 'tools'):
            os.makedirs(f'{top}/{folder}')
        for name in ('check', 'lib.sh', 'test-summary', 'cut_output.py'):
            shutil.copy(os.path.join(SOURCE_ROOT, 'tools', name), f'{top}/tools/{name}')
        for name in ('tools/quickstart', 'tools/soak', 'tests/vm/run'):
            script(f'{top}/{name}', '')
        for name in ('run', 'cross'):
            script(f'{top}/tests/debian/{name}', logging(0, GOOD))
        script(f'{top}/tests/debian/package', package)
        shutil.copy(os.path.join(SOURCE_ROOT, '.clang-format'), top)
        for name in ('ninja', 'clang-format'):
            script(f'{top}/bin/{name}', '')
        script(f'{top}/bin/meson', MESON)
        # Nothing is missing, so nothing is installed.
        script(f'{top}/bin/dpkg-query', 'echo install ok installed')

    def run(self, *args, **env):
        return subprocess.run([f'{self.top}/tools/check', *args],
                              env={**os.environ, 'PATH': f'{self.top}/bin:{os.environ["PATH"]}',
                                   'CALLS': f'{self.top}/calls', **env},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)

    def check(self, *args, **env):
        """The exit status, [passed, failed, skipped], the output."""
        res = self.run(*args, **env)
        found = re.search(r'\n(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\n$', res.stdout)
        self.t.ok(found, f'the last line does not say what passed:\n{res.stdout}')
        return res.returncode, [int(n or 0) for n in found.groups()], res.stdout

    def read(self, name):
        with open(f'{self.top}/{name}', encoding='utf-8') as f:
            return f.read()


@test
def all_pass(t):
    rc, (passed, failed, skipped), _ = Tree(t, logging(0, GOOD, GOOD)).check('--all')
    t.eq((rc, failed, skipped), (0, 0, 0))
    t.eq(passed, Tree(t).check('--all')[1][0] + 1, 'with one case more')


@each(('a case', logging(1, GOOD, BAD), r'Debian packages: bad: b'),
      ('a script that has logged only what passed', logging(1, GOOD),
       r'Debian packages: "tests/debian/package" ended with status 1, and no case in ./build-package says why'),
      ('a script that has logged nothing', logging(1), r'Debian packages: there is no ./build-package/\*.json'),
      ('a script that passed and has logged nothing', logging(0), r'Debian packages: there is no ./build-package/\*.json'))
def a_failure_is_counted_once(t, package, why):
    rc, (_, failed, _), out = Tree(t, package).check('--all')
    t.eq((rc, failed), (1, 1))
    t.match(rf'(?m)^FAILED   {why}$', out)


@test
def a_script_that_is_edited_while_it_runs_goes_on(t):
    edit = 'for i in 1 2 3; do echo "exit 3 # another line" >>tools/check; done\n'
    rc, (_, failed, _), _ = Tree(t, edit + logging(0, GOOD)).check('--all')
    t.eq((rc, failed), (0, 0))


@test
def a_script_that_cannot_run_here_is_skipped_with_its_reason(t):
    rc, (_, failed, skipped), out = Tree(t, 'echo needs mmdebstrap; exit 77').check('--all')
    t.eq((rc, failed, skipped), (0, 0, 1))
    t.match(r'(?m)^skipped  1 \(Debian packages\): needs mmdebstrap$', out)


@test
def a_person_gets_one_build_and_its_tests(t):
    tree = Tree(t)
    t.eq(tree.check()[1], tree.check('--fast')[1], '--fast is another name of no option')
    calls = tree.read('calls').splitlines()
    t.eq(len(calls), 2, 'one run of meson test for each')
    t.eq(os.path.exists(f'{tree.top}/build-asan'), False)
    t.match(r'tools/check --all, which installs .*\bceph-mon\b', tree.check()[2])


@test
def times_are_kept_and_shown(t):
    tree = Tree(t)
    log = json.dumps({'name': 'rdnvme:loop / loop - x', 'result': 'OK', 'duration': 7.5,
                      'stdout': 'ok 1 - a\n# time 3.25 a\nok 2 - b\n# time 4.25 b\n'})
    out = tree.check(BAD_STEP='plain', BAD_LOG=log)[2]
    t.match(r'(?m)^ +7\.5 s  loop - x  \(All tests\)$', out)
    t.match(r'(?s)4\.2 s  loop - x: b  \(All tests\)\n +3\.2 s  loop - x: a', out)
    t.match(r'(?m)^case\tAll tests\tloop - x\ta\t3\.25\t$', tree.read('build/check/times.tsv'))
    t.match(r'(?m)^step\tAll tests\t\t\t\d+\.\d\t\d+\.\d$', tree.read('build/check/times.tsv'))


@test
def failed_cases_run_again_with_their_setup(t):
    tree = Tree(t)
    log = json.dumps({'name': 'rdnvme:loop / loop - x', 'result': 'FAIL', 'stdout': 'ok 1 - a\nnot ok 2 - b c\nnot ok 3 - d\n'})
    rc, (_, failed, _), out = tree.check('--all', BAD_STEP='asan', BAD_LOG=log)
    t.eq((rc, failed), (1, 2), out)
    os.remove(f'{tree.top}/calls')
    rc, counts, out = tree.check('--failed')
    t.eq((rc, counts), (0, [2, 0, 0]), out)
    t.match(r'^test -C \./build-asan .*--setup sanitized --logbase again loop - x; b c\nd\n$', tree.read('calls'))
    t.match('has left no failed case', tree.run('--failed').stdout)


@each(('a part', ['--long', 'muants'], 'there is no part "muants" of --long; expected one of: mutants'),
      ('an option', ['--quick'], 'there is no option "--quick"'),
      ('a part without --long', ['vm'], '"vm" is a part of --long'),
      ('--no-vm alone', ['--no-vm'], '--no-vm goes with --all'))
def check_refuses(t, args, text):
    res = Tree(t).run(*args)
    t.eq(res.returncode, 2, 'exit status')
    t.match(re.escape(text), res.stdout)


@test
def a_part_of_the_long_tests_runs_alone(t):
    tree = Tree(t)
    t.eq(tree.check('--long', 'loop')[0], 0)
    t.match(r'^test -C \./build .*--suite loop\b.*; \n$', tree.read('calls'))


# ---- what a run comes to ----

def summary(t, *entries):
    """What tools/test-summary prints of these tests."""
    t.file('log.json', '\n'.join(json.dumps(entry) for entry in entries).encode())
    t.file('rows.tsv', f'log\tTests\t{t.path("log.json")}\tbuild\tdefault\nstep\tTests\t3.0\t4.5\n'.encode())
    res = subprocess.run([sys.executable, os.path.join(SOURCE_ROOT, 'tools', 'test-summary'), '--folder', t.dir],
                         capture_output=True, text=True, check=False)
    t.eq(res.returncode, int(any(entry['result'] != 'OK' for entry in entries)), f'exit status\n{res.stderr}')
    return res.stdout.split(' processors\n\n')[1]


GOOD_ENTRY = {'name': 'rdnvme:unit / good', 'result': 'OK',
              'stdout': '1..4\n# size 3\nok 1 - a\nok 2 - b # SKIP no c\nok 3\nok 4 - d # SKIP no c\n'}


@test
def each_reason_to_skip_has_one_line(t):
    t.eq(summary(t, GOOD_ENTRY, {'name': 'plain', 'result': 'OK'}, {'name': 'whole', 'result': 'OK', 'stdout': '1..0 # SKIP no c\n'}),
         'skipped  3 (good: b, ...): no c\n3 passed, 0 failed, 3 skipped\n')


@test
def a_file_without_cases_for_this_run_has_no_result(t):
    t.eq(summary(t, GOOD_ENTRY, {'name': 'none', 'result': 'OK', 'stdout': '# left out, not here: x\n1..0\n'}),
         'skipped  2 (good: b, ...): no c\n2 passed, 0 failed, 2 skipped\n')


@each(('by comments below it', 'ok 1 - a\nnot ok 2 - b (c)\n# time 1.00 b (c)\n# cause\nok 3 - d\n# else\n', '', '# cause\n'),
      ('by name on standard error', 'ok 1 - a\nnot ok 2 - b (c)\nok 3 - d\n',
       '# a:\n# else\n# kept /x\n# b (c):\n# cause\n# kept /y\n', '# cause\n'),
      ('by all of standard error', 'not ok 2 - b (c)\n', 'cause\nof it\n', 'cause\nof it\n'),
      ('by the last that was printed', 'ok 1 - a\nnot ok 2 - b (c)\n', '', 'ok 1 - a\nnot ok 2 - b (c)\n'))
def a_failed_case_is_explained(t, out, err, expected):
    shown = summary(t, GOOD_ENTRY, {'name': 'rdnvme:loop+san / loop - x', 'result': 'FAIL', 'stdout': out, 'stderr': err})
    t.ok(f'FAILED   Tests: loop - x: b (c)\n{expected}\n' in shown, shown)
    t.match(r', 1 failed, 2 skipped\n$', shown)
    with open(t.path('failed.tsv'), encoding='utf-8') as f:
        t.eq(f.read(), 'build\tdefault\tloop - x\tb (c)\n')


@test
def a_test_that_died_is_explained_and_not_at_any_length(t):
    err = [f'line {i}' for i in range(1000)]
    shown = summary(t, {'name': 'loop - rdnvme:dead', 'result': 'TIMEOUT', 'returncode': -9, 'stdout': 'ok 1 - a\n',
                        'stderr': '\n'.join(err)})
    t.match('(?m)^FAILED   Tests: dead: timeout, exit status -9$', shown)
    lines = shown.splitlines()
    t.eq((lines[1], lines[-4]), ('line 0', 'line 999'))
    t.ok(len(lines) < 100, f'{len(lines)} lines')


def keep(t, content, make):
    """The exit status of tests/debian/lib.sh when it keeps what this function makes, and the content that is then
    kept."""
    text = f"""set -euo pipefail
here={SOURCE_ROOT}/tests/debian top={SOURCE_ROOT} suite=none
. "$top/tools/lib.sh"
. "$here/lib.sh"
find_mirror() {{ :; }}
make() {{ {make}; }}
if keep root {content} 30 make word; then cat "$kept"; fi
"""
    res = subprocess.run(['bash', '-c', text], env={**os.environ, 'RD_DEBIAN_CACHE': t.dir}, capture_output=True,
                         text=True, check=False)
    return res.returncode, res.stdout


@test
def a_root_is_kept_only_when_it_is_complete(t):
    half, whole, other = 'echo half >"$1"; false', 'echo "whole $2" >"$1"', 'echo other >"$1"'
    t.eq(keep(t, 'one', half), (1, ''))
    t.eq(keep(t, 'one', whole), (0, 'whole word\n'), 'after a failure')
    t.eq(keep(t, 'one', other), (0, 'whole word\n'), 'for the same content')
    t.eq(keep(t, 'two', other), (0, 'other\n'), 'for another content')
    t.eq(sorted(name.split('.')[0] for name in os.listdir(t.dir)), ['lock', 'root'], 'what is in the cache')


@each(('a name', ['fpd'], 'there is no fuzz program "fpd"; expected auth, config'),
      ('a time', ['--cpu-time', '1d'], '"1d" is not a time; expected a number with a unit'),
      ('no time', ['--cpu-time', '0s'], '"0s" is not a time; expected'),
      ('no jobs', ['--jobs', '0'], '"0" is not a number of programs; expected 1 to 9999'))
def fuzz_refuses(t, args, text):
    res = t.run([sys.executable, os.path.join(SOURCE_ROOT, 'tools', 'fuzz'), *args])
    t.eq(res.rc, 2, 'exit status')
    t.match(re.escape(text), res.err)


@test
def fuzz_programs_are_those_of_the_build(t):
    with open(os.path.join(SOURCE_ROOT, 'tests', 'fuzz', 'meson.build'), encoding='utf-8') as f:
        built = re.findall(r"'(\w+)': \[dep_", f.read())
    res = t.run([sys.executable, os.path.join(SOURCE_ROOT, 'tools', 'fuzz'), '--help'])
    t.match(', '.join(sorted(built)), ' '.join(res.text.split()))


def cut(argv, **kw):
    """Exit status and standard error of a program whose output nobody reads."""
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        res = subprocess.run(argv, stdout=theirs, stderr=subprocess.PIPE, text=True, check=False, timeout=60, **kw)
    finally:
        os.close(theirs)
    return res.returncode, res.stderr


@test
def tools_end_quietly_when_nobody_reads(t):
    folder = os.path.join(SOURCE_ROOT, 'tools')
    tools = [path for path in (os.path.join(folder, name) for name in sorted(os.listdir(folder)))
             if os.path.isfile(path) and os.access(path, os.X_OK)]
    t.ok(len(tools) > 10, f'tools: {tools}')
    for path in tools:
        rc, err = cut([path, '--help'])
        t.ok(rc in (-signal.SIGPIPE, 128 + signal.SIGPIPE) and not err, f'{path}: status {rc}: {err}')


CUT = '''
import sys
import cut_output
def main():
    try:
        while True:
            print('a line')
    except OSError:
        print('taken for the error of a file', file=sys.stderr)
    finally:
        print('on the way out')
        print('ended', file=sys.stderr)
cut_output.run(main)
'''


@test
def what_a_tool_started_is_ended_when_its_output_is_cut(t):
    t.eq(cut([sys.executable, '-c', CUT], env={**os.environ, 'PYTHONPATH': os.path.join(SOURCE_ROOT, 'tools')}),
         (128 + signal.SIGPIPE, 'ended\n'), 'exit status and standard error')


if __name__ == '__main__':
    sys.exit(main())
