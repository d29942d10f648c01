# SPDX-License-Identifier: BSD-3-Clause
"""The kernel reports a failed sync once. Every host is told, until the namespace is opened again."""

import os
import re
import sys

import nvmf_peer as nv
from t_loop import NQN, each, main, preloaded, requires_engine, test
from t_serving import host
from t_storage import MIB, as_root, mount, pattern

WRITE_FAULT, UNRECOVERED_READ = 0x280, 0x281
ERROR_LOG, SMART_LOG, ASYNC_EVENT_CONFIG = 1, 2, 0x0B
DEGRADED, MEDIA_READ_ONLY = 1 << 2, 1 << 3  # of Critical Warning
RELIABILITY, INTERNAL_ERROR = 0x020001, 0x010400  # an event: log page, information, type
ONE, OTHER = 'nqn.2014-08.org.nvmexpress:uuid:one', 'nqn.2014-08.org.nvmexpress:uuid:other'
ROWS = [(f'{engine}, direct {direct}', engine, direct)
        for engine in ('io_uring', 'aio') for direct in ('on', 'off')]


def serve(t, engine, direct, **keys):
    requires_engine(engine)
    trigger = t.path('fail')
    disk = t.namespace(1, **{'engine': engine, 'direct': direct, **keys})
    others = t.namespace(2, backend='memory')
    return t.target([disk, others], env=preloaded('failsync', FAIL_SYNC=trigger)), disk, others, trigger


def touch(path):
    with open(path, 'wb'):
        pass


def refused(t, cqe, what):
    t.eq((cqe.status, cqe.dnr), (WRITE_FAULT, True), what)


class Hosts:
    """Two hosts with a queue each."""

    def __init__(self, target):
        self.hosts = [host(target, hostnqn=name) for name in (ONE, OTHER)]

    def __enter__(self):
        for h in self.hosts:
            h.enable()
        return [h.add_io() for h in self.hosts]

    def __exit__(self, kind, *exc):
        for h in self.hosts:
            if kind is None:
                h.shutdown()
            h.close()


def all_fail(t, queues):
    """Of both hosts; reads, and other namespaces, still work."""
    for queue, who in zip(queues, ('the host that was told first', 'another host')):
        for _ in range(2):
            refused(t, queue.flush(1), f'Flush of {who}')
        refused(t, queue.write_blocks(1, 8, bytes(512), fua=True), f'FUA write of {who}')
        refused(t, queue.write_blocks(1, 8, bytes(512)), f'write of {who}')
        nv.expect(queue.read_blocks(1, 0, 8)[0])
        nv.expect(queue.write_blocks(2, 0, bytes(512)))
        nv.expect(queue.flush(2))


def reopen(t, target, disk, others):
    t.config([others])
    t.match('1 removed$', target.reload())
    t.config([disk, others])
    t.match('1 namespace added$', target.reload())


@each(*ROWS)
def a_failed_flush_is_told_to_every_host(t, engine, direct):
    target, disk, others, trigger = serve(t, engine, direct)
    since = target.mark()
    with Hosts(target) as queues:
        one, other = queues
        for n, queue in enumerate(queues):
            nv.expect(queue.write_blocks(1, 8 * n, pattern(n, 4096)))
            nv.expect(queue.flush(1))
        touch(trigger)
        refused(t, one.flush(1), 'the Flush that failed')
        t.ok(not os.path.exists(trigger), 'nothing was made to fail')
        all_fail(t, queues)
        counters = target.counters()
        t.eq((counters['faults'], counters['refused']), (1, 8), 'what the status counts')
        reopen(t, target, disk, others)
        for queue in (other, one):
            nv.expect(queue.flush(1))
            nv.expect(queue.write_blocks(1, 0, pattern(7, 512), fua=True))
        t.eq(target.counters()['faults'], 0, 'namespaces with a fault')
    loud = re.findall(r'error: .*SYNC FAILED: .*', target.text(since))
    t.eq(len(loud), 1, 'times that it is said')
    t.match(rf': {NQN} namespace 1: ' + re.escape(disk['path']) + r': SYNC FAILED: Input/output error \(errno 5\): .* SIGHUP', loud[0])


@each(*ROWS)
def a_failed_fua_write_is_told_to_every_host(t, engine, direct):
    target, disk, others, trigger = serve(t, engine, direct)
    with Hosts(target) as queues:
        nv.expect(queues[1].write_blocks(1, 0, pattern(1, 4096)))
        touch(trigger)
        refused(t, queues[0].write_blocks(1, 8, bytes(512), fua=True), 'the write that failed')
        all_fail(t, queues)
        reopen(t, target, disk, others)
        nv.expect(queues[1].flush(1))


@test
def a_failed_sync_is_an_event_and_a_warning(t):
    """For both hosts, also for the host that sent no command; the warning ends when the namespace is opened again."""
    target, disk, others, trigger = serve(t, 'aio', 'off')
    hosts = Hosts(target)

    def warning(h):
        cqe, page = h.admin.get_log(SMART_LOG, 512)
        nv.expect(cqe)
        return page[0]
    with hosts as queues:
        requests = []
        for h in hosts.hosts:
            t.eq(warning(h), 0, 'Critical Warning before')
            nv.expect(h.admin.set_features(ASYNC_EVENT_CONFIG, DEGRADED | MEDIA_READ_ONLY))
            cids = [h.admin.next_cid() for _ in range(3)]
            for cid in cids:
                h.admin.post(nv.sqe(nv.AER, cid))
            requests.append((h, cids))
        touch(trigger)
        refused(t, queues[0].flush(1), 'the Flush that failed')
        for h, cids in requests:
            t.eq({h.admin.wait(cid).dw0 for cid in cids[:2]}, {RELIABILITY, INTERNAL_ERROR}, 'events')
            t.eq(warning(h), DEGRADED, 'Critical Warning: namespace 2 works')
            entry = h.admin.get_log(ERROR_LOG, 64)[1]
            t.eq(int.from_bytes(entry[24:28], 'little'), 1, 'namespace of the newest entry of the error log')
        reopen(t, target, disk, others)
        for h, cids in requests:
            t.eq(warning(h), 0, 'Critical Warning after the namespace was opened again')
            t.ok(cids[2] not in h.admin._stash, 'it was told twice')


@test
def a_restart_opens_it_again(t):
    target, disk, others, trigger = serve(t, 'aio', 'off')
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        touch(trigger)
        refused(t, queue.flush(1), 'Flush')
        h.shutdown()
    target.stop()
    target = t.target([disk, others], name='again')
    with host(target) as h:
        h.enable()
        nv.expect(h.add_io().flush(1))
        h.shutdown()


@each(('io_uring', 'io_uring'), ('aio', 'aio'))
def what_the_page_cache_could_not_write(t, engine):
    """A real failure: a device without room for the data that was written to its pages."""
    requires_engine(engine)
    where = mount(t, '-t', 'tmpfs', '-o', 'size=4M', 'none')
    with open(f'{where}/disk', 'wb') as f:
        f.truncate(16 * MIB)
    device = as_root(t, 'losetup', '--find', '--show', f'{where}/disk')
    t.cleanup(t.run, ['losetup', '--detach', device])
    disk = t.namespace(1, backend='block', path=device, size=None, engine=engine, direct='off')
    target = t.target([disk, t.namespace(2, backend='memory')])
    with Hosts(target) as queues:
        for n in range(64):
            cqe = queues[n % 2].write_blocks(1, n * 256, pattern(n, 128 << 10))
            if cqe.status:  # the kernel wrote some by itself, and a sync was among it
                break
        refused(t, queues[0].flush(1), 'the Flush that failed')
        for queue in queues:
            refused(t, queue.flush(1), 'a later Flush')
            refused(t, queue.write_blocks(1, 0, bytes(512)), 'a later write')


@test
def a_failed_sync_of_a_state_file_stays(t):
    trigger = t.path('fail')
    target = t.target([t.namespace(1)], target={'state_dir': t.path('state')},
                      env=preloaded('failsync', FAIL_STATE_SYNC=trigger))
    protect, none = 1, 0

    def set_protection(h, state):
        return h.admin.call(nv.sqe(nv.SET_FEATURES, h.admin.next_cid(), nsid=1, cdw10=0x84, cdw11=state))
    with host(target) as h:
        h.enable()
        nv.expect(set_protection(h, protect))
        nv.expect(set_protection(h, none))
        touch(trigger)
        for _ in range(3):
            t.ok(set_protection(h, protect).status, 'a change after the failed sync went well')
        nv.expect(h.add_io().write_blocks(1, 0, bytes(512)))
        h.shutdown()
    t.eq(len(re.findall('error: .*SYNC FAILED: ', target.text())), 1, 'times that it is said')


if __name__ == '__main__':
    sys.exit(main())  # the errors of the full device are in the kernel's log
