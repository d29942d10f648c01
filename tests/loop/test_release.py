# SPDX-License-Identifier: BSD-3-Clause
"""A file that rdtarget reports as released is free: for a write lease, which fails while any process has the file open,
for unmounting, and for adding it again."""

import fcntl
import os
import sys

import nvmf_peer as nv
from t_loop import each, main, requires_engine, scaled, test
from t_serving import host
from t_storage import as_root, mount, pattern

ENGINES = (('io_uring', 'io_uring', 'auto'), ('io_uring, buffered', 'io_uring', 'off'), ('aio', 'aio', 'auto'))
ROUNDS = scaled(10, 4)


def is_free(path):
    with open(path, 'rb+') as f:
        try:
            fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except BlockingIOError:
            return False
        fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return True


def use(target, nsid):
    """Reads, writes and syncs, the last of which has just ended when this returns."""
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        for n in range(4):
            nv.expect(queue.write_blocks(nsid, 8 * n, pattern(n, 4096), fua=n % 2 == 0))
            nv.expect(queue.read_blocks(nsid, 8 * n, 8)[0])
            nv.expect(queue.flush(nsid))
        h.shutdown()


@each(*ENGINES)
def a_file_is_free_when_its_namespace_is_removed(t, engine, direct):
    """Again and again, and each time it can be added at once."""
    requires_engine(engine)
    stays, goes = t.namespace(1, backend='memory'), t.namespace(2, engine=engine, direct=direct)
    target = t.target([stays, goes], target={'reactors': 2})
    for _ in range(ROUNDS):
        use(target, 2)
        t.config([stays], target={'reactors': 2})
        t.match('reloaded: 1 removed$', target.reload())
        t.ok(is_free(goes['path']), 'the file is open after "removed"')
        t.config([stays, goes], target={'reactors': 2})
        t.match('reloaded: 1 namespace added$', target.reload())


@each(*ENGINES)
def a_file_that_stays_does_not_hold_one_that_goes(t, engine, direct):
    """I/O of another namespace of the same reactor is in flight."""
    requires_engine(engine)
    goes = t.namespace(2, engine=engine, direct=direct)
    stays = t.namespace(1, engine=engine, direct=direct, layers=[{'type': 'delay', 'read': '1ms'}])
    target = t.target([stays, goes])
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        use(target, 2)
        pending = [queue.post_read(1, 8 * n, 8) for n in range(16)]
        t.config([stays])
        t.match('reloaded: 1 removed$', target.reload())
        t.ok(is_free(goes['path']), 'the file is open after "removed"')
        for read in pending:
            nv.expect(read.wait())
        h.shutdown()


@each(*ENGINES)
def a_file_is_free_when_the_daemon_has_ended(t, engine, direct):
    requires_engine(engine)
    disk = t.namespace(1, engine=engine, direct=direct)
    for n in range(ROUNDS // 2):
        target = t.target([disk], name=f'rdtarget{n}')
        use(target, 1)
        target.stop()
        t.ok(is_free(disk['path']), 'the file is open after the end')


@each(*ENGINES)
def a_file_system_can_be_unmounted(t, engine, direct):
    requires_engine(engine)
    where = mount(t, '-t', 'tmpfs', '-o', 'size=32M', 'none')
    disk = t.namespace(2, engine=engine, direct=direct, path=f'{where}/disk')
    stays = t.namespace(1, backend='memory')
    target = t.target([stays, disk])
    for end in ('reload', 'SIGTERM'):
        use(target, 2)
        if end == 'reload':
            t.config([stays])
            t.match('reloaded: 1 removed$', target.reload())
        else:
            target.stop()
        res = t.run(['umount', where])
        t.eq(res.rc, 0, f'exit status of umount after {end} ({res.err.strip()})')
        as_root(t, 'mount', '-t', 'tmpfs', '-o', 'size=32M', 'none', where)
        if end == 'reload':
            t.config([stays, disk])
            t.match('reloaded: 1 namespace added$', target.reload())


if __name__ == '__main__':
    sys.exit(main())
