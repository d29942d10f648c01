# SPDX-License-Identifier: BSD-3-Clause
"""A static function's name exists in one file of the product, so that grep, a backtrace and a profile name one
function."""

import re
import sys

from t_loop import main, test
from t_tree import no_errors, read, sources

PRODUCT = ('target', 'initiator', 'common')


def static_functions(text):
    """The names of the static functions that are defined in @text."""
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.S)
    text = re.sub(r'__attribute__\s*\(\(.*?\)\)', '', text, flags=re.S)
    for head in re.findall(r'(?m)^(?:\w+ )?static\b([^;{}=]*)\{', text):
        name = re.search(r'(\w+)\s*\(', head)
        if name:
            yield name[1]


def repeated(texts):
    """Of {path: text}: the names that more than one file defines."""
    files = {}
    for path, text in texts.items():
        for name in set(static_functions(text)):
            files.setdefault(name, []).append(path)
    return [f'{name}() is defined in {", ".join(sorted(paths))}; name it for what it does, and to which object'
            for name, paths in sorted(files.items()) if len(paths) > 1]


@test
def static_functions_have_names_of_their_own(t):
    texts = {path: read(path) for path in sources(*PRODUCT)}
    names = {name for text in texts.values() for name in static_functions(text)}
    t.ok(len(names) > 1000, f'only {len(names)} static functions were found')
    no_errors(repeated(texts))


@test
def a_repeated_name_would_be_found(t):
    one = 'static int rc = 1;\n\nstatic void f(void);\n\nstatic RD_COLD const char *f(int a,\n\t\t\t int b)\n{\n}\n'
    two = 'RD_COLD static inline __attribute__((noinline)) int f(void)\n{\n\treturn g();\n}\n'
    other = '/*\nstatic int f(void)\n{ */\nstatic struct s f = {1};\n\nint f(void)\n{\n}\n'
    t.eq(list(static_functions(one)), ['f'])
    t.eq([error.split(';')[0] for error in repeated({'a': one, 'b': two})], ['f() is defined in a, b'])
    t.eq(repeated({'a': one, 'b': other}), [])


if __name__ == '__main__':
    sys.exit(main())
