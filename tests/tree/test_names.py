# SPDX-License-Identifier: BSD-3-Clause
"""Names: a static function's name exists in one file of the product and its tools, so that grep, a backtrace and a
profile name one function; a function that one file uses is static; the functions and types that documents name
exist."""

import collections
import re
import sys

from t_loop import main, test
from t_tree import no_errors, read, sources

PRODUCT = ('target', 'initiator', 'common')
# Test cases are exempt: each is named for what it tests, in the file for its subject.
CASES = re.compile(r'tools/rdconform/t_\w+\.c')


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
    texts = {path: read(path) for path in sources(*PRODUCT, 'tools') if not CASES.fullmatch(path)}
    t.ok(any(path.startswith('tools/') for path in texts), 'no sources in tools/')
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


# ---- linkage ----


def external_functions(text):
    """The names of the functions that @text, a C source, defines without static."""
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.S)
    heads = re.findall(r'(?m)^((?:\w[\w ]*[ *])?\w+\([^;{}]*\))\n\{', text)
    return [re.search(r'(\w+)\s*\(', head)[1] for head in heads if not re.search(r'\bstatic\b', head)]


def used_in_one_file(defining, users, headers):
    """Of {path: text}: the functions of @defining that no other of @users names. What an inline function or a macro of
    a header calls counts as used: the header then names it twice."""
    words = {path: set(re.findall(r'\w+', text)) for path, text in users.items()}
    counts = collections.Counter(re.findall(r'\w+', ' '.join(headers)))
    return [f'{path}: {name}() is used in this file only; make it static' for path, text in defining.items()
            for name in external_functions(text)
            if counts[name] < 2 and not any(name in words[user] for user in words if user != path)]


@test
def functions_that_one_file_uses_are_static(t):
    users = {path: read(path) for path in sources(*PRODUCT, 'tools', 'tests', ext=('.c',))}
    headers = [read(path) for path in sources(*PRODUCT, 'tools', ext=('.h',))]
    interface = sources('include', ext=('.h',))
    defining = {path: text for path, text in users.items() if not path.startswith('tests/')}
    t.ok(sum(len(external_functions(text)) for text in defining.values()) > 1000, 'functions were not found')
    no_errors(used_in_one_file(defining, users, headers + 2 * [read(path) for path in interface]))


@test
def an_external_function_of_one_file_would_be_found(t):
    one = 'int *f(int a,\n       int b)\n{\n\treturn g();\n}\n\nstatic int h(void)\n{\n}\n'
    t.eq(external_functions(one), ['f'])
    t.eq(len(used_in_one_file({'a': one}, {'a': one, 'b': 'h();'}, ['int *f(int a, int b);'])), 1)
    t.eq(used_in_one_file({'a': one}, {'a': one, 'b': 'f();'}, []), [])
    t.eq(used_in_one_file({'a': one}, {'a': one}, ['int *f(int a, int b);', '#define F f(1, 2)']), [])


# ---- documents ----

# Functions of others that documents name: the kernel's, libibverbs'.
FOREIGN = ('ibv_', 'siw_')


def documents():
    yield from ('README.md', 'CONTRIBUTING.md')
    yield from sources('docs', 'common', 'target', 'initiator', 'tests', 'tools', ext=('.md',))


def stale_names(text, words):
    """The names in @text that look like ours and are not among @words."""
    named = re.findall(r'`(?:\w+->)*(\w+)\(\)`', text) + re.findall(r'`((?:rdt?|rdi)_\w+|RDT_\w+)(?:\(\))?`', text)
    return sorted({name for name in named if name not in words and not name.startswith(FOREIGN)})


@test
def functions_that_documents_name_exist(t):
    words = set()
    for path in sources('common', 'target', 'initiator', 'include', 'tests', 'tools'):
        words |= set(re.findall(r'\w+', read(path)))
    paths = list(documents())
    t.ok(len(paths) > 20, f'only {len(paths)} documents were found')
    no_errors(f'{path}: {name} is not in the sources' for path in paths for name in stale_names(read(path), words))


@test
def a_stale_name_would_be_found(t):
    text = 'A `moved()`, `qp->ops->gone()`, `rdt_gone`, `RDT_GONE` and `rdi_gone()`, not `siw_x()`, `word` or moved().'
    t.eq(stale_names(text, {'rdi_gone'}), ['RDT_GONE', 'gone', 'moved', 'rdt_gone'])
    t.eq(stale_names(text, {'RDT_GONE', 'gone', 'moved', 'rdt_gone', 'rdi_gone'}), [])


if __name__ == '__main__':
    sys.exit(main())
