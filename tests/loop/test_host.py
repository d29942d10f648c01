# SPDX-License-Identifier: BSD-3-Clause
"""Behaviour on which hosts rely: how connections are negotiated, what discovery shows, lists of keyed
descriptors. Statuses and the order of commands are tested by rdconform (test_conform.py)."""

import os
import struct
import sys

import iwarp_peer as iw
import nvmf_peer as nv
from t_loop import NQN, each, main, requires_ipv6, test, to_yaml
from t_serving import Baseline, exercise, host

WRITE_UNCOR, WRITE_ZEROES = 4, 8


def memory_target(t, **kw):
    return t.target([t.namespace(backend='memory')], **kw)


@each(('127.0.0.1', '127.0.0.1', {}), ('::1', '::1', {}), ('with CRC', '127.0.0.1', {'crc': True}),
      ('with CRC over ::1', '::1', {'crc': True}),
      ('at MPA revision 1', '127.0.0.1', {'rev': 1, 'enhanced': False}),
      ('with large segments', '127.0.0.1', {'max_ulpdu': 60000}),
      ('with tiny segments', '127.0.0.1', {'max_ulpdu': 64}))
def a_host_works(t, addr, mpa):
    if ':' in addr:
        requires_ipv6()
    exercise(memory_target(t, addr=addr), **mpa)


@test
def crc_is_used_when_the_target_asks_for_it(t):
    target = memory_target(t, listener={'crc': True})
    with host(target) as h:
        t.ok(h.admin.reply.crc, 'the reply does not ask for CRC')
        h.enable()
        t.ok(h.admin.conn.stats.crcs > 3, 'no CRC was checked')
        h.shutdown()


@each(('write', 'AC', 'AC'), ('read', 'AD', 'AD'), ('write or read', 'ACD', 'AC'), ('none', '', ''))
def peer_to_peer_with_rtr(t, offer, answers):
    target = memory_target(t)
    with Baseline(target):
        conn, reply = iw.connect(target.addr, target.port, nv.cm_request(), p2p=offer)
        t.ok(reply.enhanced and not reply.reject, f'reply flags {reply.flags:#x}')
        if offer:
            t.ok('A' in reply.p2p and set(reply.p2p) & set(answers[1:]),
                 f'answered {reply.p2p!r} to {offer!r}')
            if 'C' in reply.p2p:
                conn.write(1, 0, b'')
            else:
                sink = conn.register(b'')
                conn.post_read(sink, 0, 0, 0)
                while conn._reads:
                    conn._handle(conn.recv_segment())
        else:
            t.eq(reply.p2p, '', 'peer-to-peer bits')
        queue = nv.Queue(conn, 0, 32)
        nv.expect(queue.fabrics_connect(nv.connect_data(NQN)))
        queue.close()


# ---- discovery ----

@test
def discovery_shows_a_host_only_what_it_may_use(t):
    target = t.target(subsystems=[
        {'nqn': NQN, 'allow_any_host': True, 'namespaces': [t.namespace(backend='memory')]},
        {'nqn': 'nqn.2024-01.test:private', 'allow_any_host': False,
         'hosts': ['nqn.2024-01.test:somebody'], 'namespaces': [t.namespace(backend='memory')]}])
    with host(target, nv.DISCOVERY_NQN) as h:
        h.enable()
        _, log = h.admin.get_log(0x70, 4096)
        t.ok(NQN.encode() in log, 'the open subsystem is missing')
        t.ok(b'test:private' not in log, 'the private subsystem is shown')
        h.shutdown()


def entries(log):
    """(trsvcid, adrfam, subnqn, traddr) of each entry."""
    for at in range(1024, 1024 + 1024 * struct.unpack_from('<Q', log, 8)[0], 1024):
        text = [log[at + pos:at + pos + size].split(b'\0')[0].decode()
                for pos, size in ((32, 32), (256, 256), (512, 256))]
        yield text[0], log[at + 1], text[1], text[2]


@test
def discovery_with_wildcards_and_several_listeners_shows_what_can_be_reached(t):
    """Wildcards of both families and a fixed address. A host of one family does not see the other family's wildcard,
    because no address for it is known."""
    requires_ipv6()
    nqns = [NQN, 'nqn.2024-01.test:other']
    found = [nv.DISCOVERY_NQN, *nqns]
    config = t.path('many.yaml')
    with open(config, 'w', encoding='utf-8') as f:
        f.write(to_yaml({
            'listeners': [{'address': a, 'port': 0} for a in ('0.0.0.0', '::', '127.0.0.2')],
            'subsystems': [{'nqn': nqn, 'allow_any_host': True, 'namespaces': [t.namespace(backend='memory')]}
                           for nqn in nqns]}) + '\n')
    target = t.target(config=config)
    ports = [str(port) for _, port in target.listeners]
    t.eq(len(ports), 3, 'listeners')
    for addr, port, family, mine in (('127.0.0.1', ports[0], 1, ports[0]), ('::1', ports[1], 2, ports[1]),
                                     ('127.0.0.2', ports[2], 1, ports[0])):
        with nv.Host(addr, int(port), nv.DISCOVERY_NQN) as h:
            h.enable()
            cqe, log = h.admin.get_log(0x70, 8192, nsid=0)
            nv.expect(cqe)
            h.shutdown()
        t.eq(set(entries(log)), {(mine, family, nqn, addr) for nqn in found}
             | {(ports[2], 1, nqn, '127.0.0.2') for nqn in found}, f'entries seen from {addr}')


@test
def smart_counts_what_was_done(t):
    """Exactly, over queues on several reactors; failed commands do not count as traffic but as errors."""
    target = t.target([t.namespace(backend='memory')])

    def smart(h):
        page = h.admin.get_log(2, 512)[1]
        return [int.from_bytes(page[at:at + 16], 'little') for at in (32, 48, 64, 80, 160, 176)]
    with host(target) as h:
        h.enable()
        before = smart(h)
        t.eq(before[:4], [0] * 4, 'figures of a new target')
        queues = [h.add_io() for _ in range(3)]
        for queue in queues:
            for number in range(11):
                nv.expect(queue.write_blocks(1, number * 100, bytes(51200)))
            for number in range(31):
                nv.expect(queue.read_blocks(1, number * 100, 100)[0])
            nv.expect(queue.read_blocks(1, 1 << 30, 1)[0], nv.LBA_RANGE)
        # 9300 blocks read, 3300 written: in thousands, rounded up
        t.eq(smart(h), [10, 4, 93, 33, 0, before[5] + 3],
             'data units read and written, reads, writes, media errors, error log entries')
        h.shutdown()


# ---- commands ----

@test
def a_read_only_namespace_takes_no_command_from_the_others(t):
    def namespaces(*extra):
        return [t.namespace(1, backend='memory'), *extra]
    target = t.target(namespaces())
    with host(target) as h:
        h.enable()
        io = h.add_io()

        def change(nsid):
            return [io.call(nv.sqe(opcode, io.next_cid(), nsid=nsid, cdw12=7)).status
                    for opcode in (WRITE_ZEROES, WRITE_UNCOR)]
        t.eq(change(1), [nv.SUCCESS] * 2, 'before')
        t.config(namespaces(t.namespace(2, backend='memory', read_only=True)))
        t.match('1 namespace added', target.reload())
        t.eq(change(1), [nv.SUCCESS] * 2, 'beside a read-only namespace')
        t.eq(change(2), [nv.WRITE_PROTECTED] * 2, 'of the read-only namespace')


def sgl_list(descs):
    return nv.offset_sgl(0, len(descs) * 16, 0x31), b''.join(descs)


@each(('depth 1', 1), ('depth 4', 4), ('depth 64', 64))
def descriptor_lists(t, ird):
    """Sixteen keys for one command, in order and out of order, beyond the READ depth or not."""
    target = t.target([t.namespace(backend='memory', size='1MiB')])
    with nv.Host(target.addr, target.port, NQN, ird=ird).enable() as host:
        ctrl = nv.expect_data(host.admin.identify(1))
        msdbd = ctrl[1803]
        t.eq(msdbd, 16, 'MSDBD')
        q = host.add_io()
        data = os.urandom(64 * 512)
        cuts = sorted({0, 1, 600, 4096, len(data), *(k * 2000 for k in range(1, 12))})
        parts = [data[a:b] for a, b in zip(cuts, cuts[1:])]
        regions = [q.conn.register(part, write=False) for part in parts]
        descs = [nv.keyed_sgl(r.base, len(p), r.stag) for r, p in zip(regions, parts)]
        descs.insert(3, nv.keyed_sgl(0, 0, 0))
        t.ok(len(descs) <= msdbd, 'too many parts')
        sgl, extra = sgl_list(descs)
        nv.expect(q.call(nv.sqe(nv.NVM_WRITE, q.next_cid(), nsid=1, sgl=sgl, cdw12=63) + extra))
        cqe, got = q.read_blocks(1, 0, 64)
        nv.expect(cqe)
        t.same(got, data)
        regions = [q.conn.register(bytes(len(part)), read=False) for part in parts]
        sgl, extra = sgl_list([nv.keyed_sgl(r.base, len(p), r.stag) for r, p in zip(regions, parts)])
        nv.expect(q.call(nv.sqe(nv.NVM_READ, q.next_cid(), nsid=1, sgl=sgl, cdw12=63) + extra))
        t.same(b''.join(bytes(r.data) for r in regions), data)


if __name__ == '__main__':
    sys.exit(main())
