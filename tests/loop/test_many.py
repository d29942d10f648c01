# SPDX-License-Identifier: BSD-3-Clause
"""Thousands of namespaces and hundreds of subsystems: served, shown, reloaded. The cost of each is counted, not
timed."""

import collections
import json
import os
import re
import signal
import struct
import sys

import nvmf_peer as nv
from t_loop import ADDR, ENGINE, FABRIC, NQN, main, preloaded, program, test
from t_serving import host

MANY = 2000  # more than a list of NSIDs has, and more than one piece of the bits for hidden namespaces
LISTEN = f'target: {{reactors: 2}}\nlisteners: [{{address: {ADDR}, port: 0, provider: {FABRIC}}}]\n'


def namespace(nsid, **keys):
    keys.setdefault('backend', '"null"')
    if keys['backend'] == '"null"':
        keys.setdefault('size', '1MiB')
    return f'  - {{nsid: {nsid}, ' + ', '.join(f'{k}: {v}' for k, v in keys.items()) + '}\n'


def configure(t, *namespaces, nqn=NQN):
    text = LISTEN + f'subsystems:\n- nqn: {nqn}\n  allow_any_host: true\n  namespaces:\n' + ''.join(namespaces)
    return t.file('many.yaml', text.encode())


def nsids(h):
    """The NSIDs of all namespaces that the host finds, list by list."""
    found, after = [], 0
    while True:
        cqe, page = h.admin.identify(2, after)
        nv.expect(cqe)
        part = [n for n in struct.unpack('<1024I', page) if n]
        found += part
        if len(part) < 1024:
            return found
        after = part[-1]


def ana_groups(h):
    """The NSIDs of each group, from the ANA log read in pieces."""
    page, size = b'', 16 + 32 + 4 * MANY + 32
    while len(page) < size:
        cqe, piece = h.admin.get_log(0x0C, min(4096, size - len(page)), offset=len(page))
        nv.expect(cqe)
        page += piece
    groups, pos = {}, 16
    for _ in range(struct.unpack_from('<H', page, 8)[0]):
        group, count = struct.unpack_from('<II', page, pos)
        groups[group] = list(struct.unpack_from(f'<{count}I', page, pos + 32))
        pos += 32 + 4 * count
    return groups


@test
def more_namespaces_than_a_list_has(t):
    target = t.target(config=configure(t, *(namespace(n, ana_group=1 + n % 2) for n in range(MANY, 0, -1))))
    with host(target) as h:
        h.enable()
        t.eq(nsids(h), list(range(1, MANY + 1)), 'the NSIDs')
        t.eq(ana_groups(h), {1: list(range(2, MANY + 1, 2)), 2: list(range(1, MANY + 1, 2))}, 'the ANA log')
        for nsid in (1, 1024, 1025, MANY):
            cqe, page = h.admin.identify(0, nsid)
            nv.expect(cqe)
            t.eq(struct.unpack_from('<Q', page)[0], 2048, f'blocks of namespace {nsid}')
        cqe, page = h.admin.identify(1)
        nv.expect(cqe)
        t.eq(struct.unpack_from('<I', page, 540)[0], 16384, 'MNAN')
        t.ok(struct.unpack_from('<I', page, 516)[0] >= 16384, 'NN')
    t.rdinit('read', target.uri(MANY), '--data', '-', '--data-size', '512')
    # From the middle and at each end, and the namespaces that replace them.
    configure(t, *(namespace(n, ana_group=1 + n % 2) for n in range(2, MANY) if n % 10))
    t.match(rf'reloaded: {MANY // 10 + 1} removed$', target.reload())
    with host(target) as h:
        h.enable()
        t.eq(nsids(h), [n for n in range(2, MANY) if n % 10], 'the NSIDs')
    configure(t, *(namespace(n, ana_group=1 + n % 2) for n in range(1, MANY + 1)))
    t.match(rf'reloaded: {MANY // 10 + 1} namespaces added$', target.reload())
    with host(target) as h:
        h.enable()
        t.eq(nsids(h), list(range(1, MANY + 1)), 'the NSIDs')


@test
def what_a_host_does_not_see_is_beyond_the_first_bits(t):
    """Every second namespace belongs to another host."""
    other = NQN + ':other'
    target = t.target(config=configure(t, *(namespace(n, **({'hosts': f'["{other}"]'} if n % 2 else {}))
                                            for n in range(1, MANY + 1))))
    with host(target) as h:
        h.enable()
        t.eq(nsids(h), list(range(2, MANY + 1, 2)), 'the NSIDs')
        cqe, page = h.admin.identify(0, MANY - 1)
        nv.expect(cqe)
        t.ok(not any(page), 'a namespace of another host is shown')
        configure(t, *(namespace(n) for n in range(1, MANY + 1)))
        t.match(rf'reloaded: {MANY // 2} settings changed$', target.reload())
        t.eq(nsids(h), list(range(1, MANY + 1)), 'the NSIDs')


@test
def many_subsystems(t):
    names = [f'{NQN}-{n}' for n in range(300)]

    def write(names):
        return t.file('many.yaml', (LISTEN + 'subsystems:\n' + ''.join(
            f'- nqn: {name}\n  allow_any_host: true\n  namespaces:\n{namespace(1)}' for name in names)).encode())

    target = t.target(config=write(names[:10]))
    write(names)
    t.match('reloaded: 290 namespaces added, 290 subsystems added$', target.reload())
    found = json.loads(t.rdinit('discover', target.uri(None, None), '-o', 'json').text)
    shown = [r['subnqn'] for r in found['records'] if r['subnqn'] in names]
    t.eq(sorted(shown), sorted(names), 'subsystems in the discovery log')
    t.rdinit('read', target.uri(1, names[-1]), '--data', '-', '--data-size', '512')
    write(names[5:])
    t.match('reloaded: 5 removed, 5 subsystems removed$', target.reload())


@test
def each_file_costs_the_same(t):
    """A reload opens only what has changed."""
    log, folder = t.path('files.log'), t.path('files')
    env = preloaded('watchfs', WATCH_LOG=log)
    os.mkdir(folder)
    for n in range(1, MANY + 2):
        with open(f'{folder}/{n}', 'wb') as f:
            f.truncate(1 << 20)

    def file(nsid, n=None):
        return namespace(nsid, backend='file', engine=ENGINE, path=f'{folder}/{n or nsid}')

    def done(what):
        """The number of times that each file was examined or opened since the last call."""
        with open(log, encoding='utf-8') as f:
            lines = re.findall(rf'^(stat|open) {re.escape(folder)}/(\d+)$', f.read(), re.M)
        os.unlink(log)
        counts = collections.Counter(lines)
        t.ok(counts, f'nothing was noted: {what}')
        return counts

    def most(counts, verb):
        return max((n for (v, _), n in counts.items() if v == verb), default=0)

    path = configure(t, *(file(n) for n in range(1, MANY + 1)))
    t.eq(t.run([program('rdtarget'), '--check', path], env=env).rc, 0, 'exit status of the check')
    with open(log, encoding='utf-8') as f:
        t.ok(folder not in f.read(), '--check has looked at a file, whose storage may hang')
    target = t.target(config=path, env=env)
    start = done('start')
    t.ok(most(start, 'stat') <= 4 and most(start, 'open') <= 2, f'one file at the start: {start.most_common(1)}')
    target.reload('reloaded: nothing has changed$')
    same = done('a reload')
    # Once by the reload; the comparison that goes on by itself may come to a file meanwhile.
    t.ok(most(same, 'stat') in (1, 2) and not most(same, 'open'), f'one file at a reload: {same.most_common(1)}')
    configure(t, *(file(n, MANY + 1 if n == MANY // 2 else n) for n in range(1, MANY + 1)))
    target.reload('reloaded: 1 replaced$')
    one = done('a change of one')
    opened = {n for (v, n) in one if v == 'open'}
    changed = {str(MANY + 1), str(MANY // 2)}  # whether the old one is released is looked at by opening it
    t.ok(str(MANY + 1) in opened and opened <= changed, f'files that were opened: {opened}')
    others = max(n for (v, file_), n in one.items() if v == 'stat' and file_ not in changed)
    t.ok(others in (1, 2), f'looks at a file that has not changed: {others}')


@test
def a_target_has_more_files_than_it_may_open(t):
    path = t.file('many.yaml', (LISTEN + f'subsystems:\n- nqn: {NQN}\n  allow_any_host: true\n  namespaces:\n' + ''.join(
        namespace(n, backend='file', path=f'/nowhere/{n}') for n in range(1, 300))).encode())
    res = t.run(['bash', '-c', f'ulimit -n 256; exec {program("rdtarget")} --check {path}'])
    t.eq(res.rc, 1, 'exit status')
    t.match('is file 299 of the configuration, but this process may open 256 files at most', res.err)


@test
def one_too_many(t):
    path = configure(t, *(namespace(n) for n in range(1, 16386)))
    res = t.run([program('rdtarget'), '--check', path])
    t.eq(res.rc, 1, 'exit status')
    t.match('namespaces: has 16385 elements, expected at most 16384', res.err)
    path = t.file('many.yaml', (LISTEN + 'subsystems:\n' + ''.join(
        f'- nqn: {NQN}-{n}\n  allow_any_host: true\n' for n in range(4097))).encode())
    res = t.run([program('rdtarget'), '--check', path])
    t.eq(res.rc, 1, 'exit status')
    t.match('subsystems: has 4097 elements, expected at most 4096', res.err)


@test
def several_signals_during_a_reload(t):
    """They are served, the last one with the file's latest content; and the end of the target does not wait for one."""
    target = t.target(config=configure(t, *(namespace(n) for n in range(1, MANY + 1))))
    since = target.mark()
    for last in (MANY - 1, MANY - 2, MANY - 3):
        configure(t, *(namespace(n) for n in range(1, last + 1)))
        target.signal(signal.SIGHUP)
    target.expect(rf'namespace {MANY - 2}: removed$', since=since)
    target.expect('reloaded: ', since=since)
    target.signal(signal.SIGHUP)
    target.stop()


if __name__ == '__main__':
    sys.exit(main())
