# SPDX-License-Identifier: BSD-3-Clause
"""Several paths to one daemon: ANA and failover, referrals and persistent discovery. The configuration changes by
SIGHUP."""

import os
import random
import signal
import struct
import sys

import nvmf_peer as nv
from t_loop import FABRIC, LONG, NQN, Failure, main, test, to_yaml

HOSTS = [f'nqn.2024-01.test:host{i}' for i in range(3)]
INACCESSIBLE = 0x302
DISC_CHANGED = 0x0070F002
OPTIMIZED, NON_OPTIMIZED, INACCESSIBLE_STATE = 1, 2, 3


def configure(t, namespaces=None, *, ana=((), ()), subsystem=None, **top):
    """A daemon's configuration with one listener for each of @ana, which is {group: state} or empty."""
    listeners = []
    for states in ana:
        listener = {'address': '127.0.0.1', 'port': 0, 'provider': FABRIC}
        if states:
            listener['ana'] = [{'group': g, 'state': s} for g, s in dict(states).items()]
        listeners.append(listener)
    doc = {'target': {'buffer_memory': '8MiB'}, 'listeners': listeners,
           'subsystems': [{'nqn': NQN, **(subsystem or {'allow_any_host': True}),
                           'namespaces': namespaces or [t.namespace(1, backend='memory')]}], **top}
    with open(t.path('rdtarget.yaml'), 'w', encoding='utf-8') as f:
        f.write(to_yaml(doc) + '\n')
    return t.path('rdtarget.yaml')


def serve(t, *args, **kw):
    return t.target(config=configure(t, *args, **kw))


def reload(t, target, *args, **kw):
    configure(t, *args, **kw)
    target.reload()


def host(target, path=0, number=0, nqn=NQN, **kw):
    addr, port = target.listeners[path]
    return nv.Host(addr, port, nqn, hostnqn=HOSTS[number], **kw)


def log(h, lid, length, *, rae=False, offset=0, lsp=0):
    numd = length // 4 - 1
    cqe, page = h.admin.data_in(nv.GET_LOG, length, cdw10=lid | lsp << 8 | rae << 15 | numd << 16,
                                cdw12=offset)
    nv.expect(cqe)
    return page


def ana_log(h, **kw):
    """(change count, {group: (state, change count, [NSIDs])})"""
    page = log(h, 0x0C, 4096, **kw)
    count, groups = struct.unpack_from('<QH', page)
    at, found = 16, {}
    for _ in range(groups):
        group, n, chgcnt, state = struct.unpack_from('<IIQB', page, at)
        found[group] = state, chgcnt, list(struct.unpack_from(f'<{n}I', page, at + 32))
        at += 32 + 4 * n
    return count, found


def want_events(h, bits):
    nv.expect(h.admin.set_features(0x0B, bits))
    return post_aer(h)


def post_aer(h):
    cid = h.admin.next_cid()
    h.admin.post(nv.sqe(nv.AER, cid))
    return cid


# ---- ANA ----

@test
def each_listener_has_its_states(t):
    namespaces = [t.namespace(1, backend='memory'), t.namespace(2, backend='memory', ana_group=7)]
    target = serve(t, namespaces, ana=({7: 'inaccessible'}, {1: 'non-optimized'}))
    with host(target, 0) as a, host(target, 1) as b:
        a.enable()
        b.enable()
        qa, qb = a.add_io(), b.add_io()
        t.eq({g: (s[0], s[2]) for g, s in ana_log(a)[1].items()},
             {1: (OPTIMIZED, [1]), 7: (INACCESSIBLE_STATE, [2])}, 'states of listener 1')
        t.eq({g: (s[0], s[2]) for g, s in ana_log(b)[1].items()},
             {1: (NON_OPTIMIZED, [1]), 7: (OPTIMIZED, [2])}, 'states of listener 2')
        nv.expect(qa.read_blocks(1, 0, 1)[0])
        nv.expect(qb.read_blocks(1, 0, 1)[0])
        nv.expect(qb.read_blocks(2, 0, 1)[0])
        cqe = nv.expect(qa.read_blocks(2, 0, 1)[0], INACCESSIBLE)
        t.ok(not cqe.dnr, 'DNR would keep the host from the other path')


class Multipath:
    """As a multipath host does: it uses one path; when that is not usable, the ANA log names another one."""

    def __init__(self, target):
        self.hosts = [host(target, path) for path in (0, 1)]
        self.queues = []
        for h in self.hosts:
            h.enable()
            self.queues.append(h.add_io(depth=16))
        self.path = 0
        self.failovers = 0

    def choose(self):
        """Until a path is usable: a reload makes one unusable before or after it makes the other usable."""
        for _ in range(1000):
            for path, h in enumerate(self.hosts):
                if ana_log(h)[1][1][0] in (OPTIMIZED, NON_OPTIMIZED):
                    self.failovers += path != self.path
                    self.path = path
                    return
        raise Failure('no path is open')

    def do(self, command):
        while True:
            queue = self.queues[self.path]
            result = command(queue)
            cqe = result[0] if isinstance(result, tuple) else result
            if cqe.status >> 8 != 3:
                nv.expect(cqe)
                return result
            if cqe.dnr:
                raise Failure('a path error with DNR')
            self.choose()

    def close(self):
        for h in self.hosts:
            h.close()


@test
def an_application_survives_failover(t):
    """Writes and reads through the usable path while the states are exchanged; every block is checked."""
    rounds = 60 if LONG else 12
    closed = {1: 'inaccessible'}
    target = serve(t, ana=((), closed))
    rng = random.Random(1)
    disk = {}
    multi = Multipath(target)
    t.cleanup(multi.close)
    for turn in range(rounds):
        swap = closed, ()
        configure(t, ana=swap if turn % 2 == 0 else swap[::-1])
        since = target.mark()
        target.signal(signal.SIGHUP)
        for _ in range(40):
            lba = rng.randrange(64) * 8
            if rng.random() < 0.6:
                data = os.urandom(8 * 512)
                multi.do(lambda q, lba=lba, data=data: q.write_blocks(1, lba, data))
                disk[lba] = data
            else:
                got = multi.do(lambda q, lba=lba: q.read_blocks(1, lba, 8))[1]
                t.same(got, disk.get(lba, bytes(8 * 512)), f'block {lba}')
        target.expect(r'reloaded: ', since=since)
    for lba, data in disk.items():
        t.same(multi.do(lambda q, lba=lba: q.read_blocks(1, lba, 8))[1], data, f'block {lba}')
    t.note(f'{rounds} swaps, {multi.failovers} failovers')
    t.ok(multi.failovers >= rounds // 2, f'only {multi.failovers} failovers in {rounds} swaps')


# ---- discovery ----

def discovery_log(h):
    head = log(h, 0x70, 1024, rae=True)
    genctr, numrec = struct.unpack_from('<QQ', head)
    page = log(h, 0x70, 1024 * (numrec + 1))
    entries = []
    for i in range(numrec):
        e = page[1024 * (i + 1):1024 * (i + 2)]
        text = (e[512:768], e[256:512], e[32:64])
        entries.append((e[2], *(s.split(b'\0')[0].decode().strip() for s in text)))
    return genctr, entries


@test
def a_persistent_discovery_controller_is_told_of_changes(t):
    referral = {'referrals': [{'address': '192.0.2.9', 'port': 8009}]}
    target = serve(t, subsystem={'hosts': HOSTS[:1]})
    with host(target, 0, 1, nqn=nv.DISCOVERY_NQN, kato=60000) as h:
        h.enable()
        cqe, page = h.admin.identify(1)
        nv.expect(cqe)
        t.eq(struct.unpack_from('<I', page, 92)[0], 1 << 31, 'OAES')
        aer = want_events(h, 1 << 31)
        genctr, entries = discovery_log(h)
        here = [(3, addr, nv.DISCOVERY_NQN, str(port)) for addr, port in target.listeners]
        t.eq(entries, here, 'for a host that may use nothing, only the discovery subsystem')
        reload(t, target, subsystem={'hosts': HOSTS[:1]}, **referral)
        t.eq(nv.expect(h.admin.wait(aer)).dw0, DISC_CHANGED, 'event')
        now, entries = discovery_log(h)
        t.eq(now, genctr + 1, 'GENCTR')
        t.eq(entries, here + [(1, '192.0.2.9', nv.DISCOVERY_NQN, '8009')], 'the referral')
        aer = post_aer(h)
        reload(t, target, subsystem={'hosts': HOSTS[:2]}, **referral)
        t.eq(nv.expect(h.admin.wait(aer)).dw0, DISC_CHANGED, 'event')
        now, entries = discovery_log(h)
        t.eq(now, genctr + 2, 'GENCTR')
        t.eq(sorted(e[0] for e in entries), [1, 2, 2, 3, 3], 'a referral, and subsystems by two listeners')


@test
def discovery_shows_the_address_the_host_reached(t):
    target = t.target([t.namespace(backend='memory')], addr='0.0.0.0')
    port = target.listeners[0][1]
    for addr in ('127.0.0.1', '127.0.0.3'):
        with nv.Host(addr, port, nv.DISCOVERY_NQN) as h:
            h.enable()
            t.eq(discovery_log(h)[1], [(3, addr, nv.DISCOVERY_NQN, str(port)), (2, addr, NQN, str(port))],
                 'entries')


if __name__ == '__main__':
    sys.exit(main())
