#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""compare_json.py THEIRS OURS [DIFFERENCE=REASON...]: compares the JSON of nvme-cli and of rdinit for the same device,
member by member. A difference that has a reason is printed with it; any other difference is a failure, and so is a
reason without a difference. Lists of namespaces are compared in the order of their identifiers: the kernel has its own."""

import json
import sys


def plain(value):
    """Numbers of more than 64 bits are text in one and floating point in the other."""
    if isinstance(value, str) and value.isdigit():
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def in_order(entries):
    for key in ('NSID', 'NameSpace'):
        if all(isinstance(entry, dict) and key in entry for entry in entries):
            return sorted(entries, key=lambda entry: entry[key])
    return entries


def differences(theirs, ours, where=''):
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in [*theirs, *(k for k in ours if k not in theirs)]:
            name = f'{where}.{key}' if where else key
            if key not in ours:
                yield name, f'{theirs[key]!r} in nvme-cli only'
            elif key not in theirs:
                yield name, f'{ours[key]!r} in rdinit only'
            else:
                yield from differences(theirs[key], ours[key], name)
    elif isinstance(theirs, list) and isinstance(ours, list):
        if len(theirs) != len(ours):
            yield where, f'{len(theirs)} entries in nvme-cli, {len(ours)} in rdinit'
        for one, other in zip(in_order(theirs), in_order(ours)):
            yield from differences(one, other, where)
    elif plain(theirs) != plain(ours):
        yield where, f'{theirs!r} in nvme-cli, {ours!r} in rdinit'


def main():
    with open(sys.argv[1], encoding='utf-8') as f:
        theirs = json.load(f)
    with open(sys.argv[2], encoding='utf-8') as f:
        ours = json.load(f)
    reasons = dict(arg.split('=', 1) for arg in sys.argv[3:])
    failed, used = False, set()
    for name, what in differences(theirs, ours):
        if name in reasons:
            used.add(name)
            print(f'note: {name}: {what}: {reasons[name]}')
        else:
            failed = True
            print(f'{name}: {what}')
    for name in sorted(set(reasons) - used):
        failed = True
        print(f'{name}: no difference, but a reason for one: {reasons[name]}')
    return failed


if __name__ == '__main__':
    sys.exit(main())
