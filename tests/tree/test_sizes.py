# SPDX-License-Identifier: BSD-3-Clause
"""Sizes: no function has more than 60 lines, and no file has 1,000 lines or more."""

import ast
import re
import sys

from t_loop import main, test
from t_tree import no_errors, read, scripts, sources

FOLDERS = ('common', 'target', 'initiator', 'include', 'tests', 'tools', 'configs', 'docs')
FUNCTION_MAX = 60
FILE_MAX = 999


def c_functions(text):
    """(name, first line, lines) of each function. clang-format puts the braces of a body into the first column."""
    for body in re.finditer(r'(?ms)^(\w[^;{}#]*?)\n\{\n.*?^\}', text):
        head = re.sub(r'__attribute__\s*\(\(.*?\)\)', '', body[1], flags=re.S)
        name = re.search(r'(\w+)\s*\(', head)
        if name:
            yield name[1], text.count('\n', 0, body.start()) + 1, body[0].count('\n') + 1


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def shell_functions(text):
    for body in re.finditer(r'(?ms)^(?P<name>[\w-]+)\s*\(\)\s*(?:\{.*?^\}|\(.*?^\))', text):
        yield body['name'], text.count('\n', 0, body.start()) + 1, body[0].count('\n') + 1


def sized_files():
    """(path, the function that finds its functions)"""
    for path in sources(*FOLDERS):
        yield path, c_functions
    for path in sources(*FOLDERS, ext=('.py',)):
        yield path, python_functions
    for path, language in scripts(*FOLDERS):
        yield path, python_functions if language == 'python' else shell_functions


def too_long(path, text, find):
    if text.count('\n') > FILE_MAX:
        yield f'{path} has {text.count(chr(10))} lines, more than {FILE_MAX}: give a role of it a file of its own'
    for name, line, lines in find(text):
        if lines > FUNCTION_MAX:
            yield f'{path}:{line}: {name}() has {lines} lines, more than {FUNCTION_MAX}: divide it'


@test
def functions_and_files_are_short(t):
    found = {}
    errors = []
    for path, find in sized_files():
        text = read(path)
        found[find] = found.get(find, 0) + sum(1 for _ in find(text))
        errors += too_long(path, text, find)
    no_errors(errors)
    for find, least in ((c_functions, 4000), (python_functions, 1000), (shell_functions, 200)):
        t.ok(found.get(find, 0) > least, f'{find.__name__}() found only {found.get(find, 0)} functions')


@test
def a_long_function_would_be_found(t):
    lines = '\tf();\n' * (FUNCTION_MAX - 2)
    for find, head, end in ((c_functions, 'static int a(int b,\n\t\t int c)\n{\n', '}\n'),
                            (c_functions, 'RD_COLD __attribute__((format(printf, 1, 2))) void a(void)\n{\n', '}\n'),
                            (python_functions, 'def a():\n\tx = 1\n', '\tf()\n'),
                            (shell_functions, 'a() {\n', '}\n'), (shell_functions, 'a()\n{\n', '}\n')):
        text = '\n' + head + lines + end
        count = text.count('\n') - 1
        t.eq(list(find(text)), [('a', 2, count)], head)
        t.eq(bool(list(too_long('x', text, find))), count > FUNCTION_MAX, head)
        t.eq(len(list(too_long('x', text.replace('f();\n', 'f();\n\tf();\n'), find))), 1, head)
    t.eq(len(list(too_long('x', '\n' * (FILE_MAX + 1), c_functions))), 1)
    t.eq(list(too_long('x', '\n' * FILE_MAX, c_functions)), [])


if __name__ == '__main__':
    sys.exit(main())
