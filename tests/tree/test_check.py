# SPDX-License-Identifier: BSD-3-Clause
"""The counts that tools/check prints, in a tree where everything that it runs is a stand-in; the cache of
tests/debian; and what tools/fuzz refuses."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from t_loop import SOURCE_ROOT, each, main, test

# Writes the log that was requested: one case that passed.
MESON = '''
case $1 in
setup)
	for dir in "$@"; do [ ! -d "$dir" ] || : >"$dir/build.ninja"; done
	;;
test)
	build=$3 name=
	while [ $# -gt 0 ]; do
		case $1 in
		--list) exit 0 ;;
		--logbase) name=$2 ;;
		esac
		shift
	done
	mkdir -p "$build/meson-logs"
	echo '{"name": "one", "result": "OK"}' >"$build/meson-logs/$name.json"
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


def check(t, package):
    """The output of tools/check whose tests/debian/package is this script; everything else passes."""
    top = tempfile.mkdtemp(prefix='top-', dir=t.dir)
    for folder in ('common', 'target', 'initiator', 'include', 'tests', 'tools'):
        os.makedirs(f'{top}/{folder}')
    for name in ('check', 'lib.sh', 'test-summary'):
        shutil.copy(os.path.join(SOURCE_ROOT, 'tools', name), f'{top}/tools/{name}')
    script(f'{top}/tools/quickstart', '')
    script(f'{top}/tests/debian/run', logging(0, GOOD))
    script(f'{top}/tests/debian/package', package)
    shutil.copy(os.path.join(SOURCE_ROOT, '.clang-format'), top)
    for name in ('ninja', 'clang-format'):
        script(t.path(f'bin/{name}'), '')
    script(t.path('bin/meson'), MESON)
    # Nothing is missing, so nothing is installed.
    script(t.path('bin/dpkg-query'), 'echo install ok installed')
    res = subprocess.run([f'{top}/tools/check', '--no-vm'],
                         env={**os.environ, 'PATH': f'{t.path("bin")}:{os.environ["PATH"]}'},
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    found = re.search(r'\n(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\n$', res.stdout)
    t.ok(found, f'the last line does not say what passed:\n{res.stdout}')
    return res.returncode, [int(n or 0) for n in found.groups()], res.stdout


@test
def all_pass(t):
    rc, (passed, failed, _), _ = check(t, logging(0, GOOD, GOOD))
    t.eq((rc, failed), (0, 0))
    t.eq(passed, check(t, logging(0, GOOD))[1][0] + 1, 'with one case more')


@each(('a case', logging(1, GOOD, BAD), r'bad: b'),
      ('a script that has logged only what passed', logging(1, GOOD),
       r'Debian packages: "tests/debian/package" ended with status 1, and no case in ./build-package says why'),
      ('a script that has logged nothing', logging(1), r'there is no ./build-package/\*.json'),
      ('a script that passed and has logged nothing', logging(0), r'there is no ./build-package/\*.json'))
def a_failure_is_counted_once(t, package, why):
    rc, (_, failed, _), out = check(t, package)
    t.eq((rc, failed), (1, 1))
    t.match(rf'(?m)^FAILED   {why}$', out)


@test
def a_script_that_is_edited_while_it_runs_goes_on(t):
    edit = 'for i in 1 2 3; do echo "exit 3 # another line" >>tools/check; done\n'
    rc, (_, failed, _), _ = check(t, edit + logging(0, GOOD))
    t.eq((rc, failed), (0, 0))


@test
def a_script_that_cannot_run_here_is_skipped(t):
    rc, (_, failed, skipped), _ = check(t, 'exit 77')
    t.eq((rc, failed), (0, 0))
    t.eq(skipped, check(t, logging(0, GOOD))[1][2] + 1)


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
    res = t.run([sys.executable, os.path.join(SOURCE_ROOT, 'tools', 'fuzz'), *args], wrap=False)
    t.eq(res.rc, 2, 'exit status')
    t.match(re.escape(text), res.err)


@test
def fuzz_programs_are_those_of_the_build(t):
    with open(os.path.join(SOURCE_ROOT, 'tests', 'fuzz', 'meson.build'), encoding='utf-8') as f:
        built = re.findall(r"'(\w+)': \[dep_", f.read())
    res = t.run([sys.executable, os.path.join(SOURCE_ROOT, 'tools', 'fuzz'), '--help'], wrap=False)
    t.match(', '.join(sorted(built)), ' '.join(res.text.split()))


if __name__ == '__main__':
    sys.exit(main())
