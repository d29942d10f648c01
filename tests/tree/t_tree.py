# SPDX-License-Identifier: BSD-3-Clause
"""The sources of the tree, for the tests about them."""

import os
import re

from t_loop import SOURCE_ROOT, Failure


def sources(*folders, ext=('.c', '.h')):
    for folder in folders:
        for where, _, names in os.walk(os.path.join(SOURCE_ROOT, folder)):
            for name in sorted(names):
                if name.endswith(ext):
                    yield os.path.relpath(os.path.join(where, name), SOURCE_ROOT)


def scripts(*folders):
    """(path, 'shell' or 'python') of the scripts whose names do not end in .py."""
    for folder in folders:
        for where, _, names in os.walk(os.path.join(SOURCE_ROOT, folder)):
            for name in sorted(names):
                with open(os.path.join(where, name), 'rb') as f:
                    first = f.readline(80)
                path = os.path.relpath(os.path.join(where, name), SOURCE_ROOT)
                if name.endswith(('.sh', '.bash')) or re.match(rb'#!.*sh$', first):
                    yield path, 'shell'
                elif not name.endswith('.py') and re.match(rb'#!.*python3$', first):
                    yield path, 'python'


def read(path):
    with open(os.path.join(SOURCE_ROOT, path), encoding='utf-8') as f:
        return f.read()


def resolve(path, included):
    """The project's file that an include means, or None when it is not ours."""
    for base in (os.path.dirname(path), 'common', 'include', 'initiator', 'tests', ''):
        candidate = os.path.normpath(os.path.join(base, included))
        if os.path.exists(os.path.join(SOURCE_ROOT, candidate)):
            return candidate
    return None


def no_errors(errors):
    errors = list(errors)
    if errors:
        raise Failure('\n'.join(errors))
