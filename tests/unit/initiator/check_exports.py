# SPDX-License-Identifier: BSD-3-Clause
"""The functions of the public headers, of the version script and of the built library are the same."""

import re
import subprocess
import sys


def header_functions(path):
    with open(path, encoding='utf-8') as f:
        text = f.read()
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.S)
    text = re.sub(r'^\s*#.*$', '', text, flags=re.M)
    return set(re.findall(r'\b(rdinit_\w+)\s*\([^()]*\)\s*;', text))


def map_symbols(path):
    with open(path, encoding='utf-8') as f:
        text = f.read()
    return set(re.findall(r'^\s*(\w+);', text.split('local:')[0], flags=re.M))


def exported(path):
    out = subprocess.run(['nm', '-D', '--defined-only', path], check=True, capture_output=True,
                         text=True).stdout
    names = {line.split()[-1] for line in out.splitlines() if line.split()[-2] != 'A'}
    # sanitized builds export helper functions of the compiler
    return {n.split('@')[0] for n in names if not n.startswith(('__asan', '__odr_asan', '__ubsan'))}


def main():
    *headers, script, lib = sys.argv[1:]
    header = set().union(*(header_functions(path) for path in headers))
    script, lib = map_symbols(script), exported(lib)
    status = 0
    for name, other in (('version script', script), ('library', lib)):
        for sym in sorted(header - other):
            print(f'{sym}: in a header, not in the {name}')
            status = 1
        for sym in sorted(other - header):
            print(f'{sym}: in the {name}, not in a header')
            status = 1
    for path in headers:
        if not header_functions(path):
            print(f'{path} was not understood')
            status = 1
    return status


sys.exit(main())
