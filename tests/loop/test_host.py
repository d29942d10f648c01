# SPDX-License-Identifier: BSD-3-Clause
"""Behaviour on which hosts rely: the Linux host's enable sequence, invalidation, keep-alive, events, negotiation."""

import struct
import sys
import time

import iwarp_peer as iw
import nvmf_peer as nv
from t_loop import NQN, Failure, each, main, requires_ipv6, test, to_yaml
from t_serving import Baseline, exercise, host

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


@test
def crc_is_off_unless_somebody_asks(t):
    target = memory_target(t)
    with host(target) as h:
        t.ok(not h.admin.reply.crc, 'the reply asks for CRC')


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


@each(('1', 1), ('16', 16), ('128', 128))
def read_depth_is_negotiated(t, ird):
    """Never more READs in flight than the host can hold, and all data arrives."""
    target = memory_target(t)
    with Baseline(target), host(target, ird=ird) as h:
        reply = h.admin.reply
        t.ok(1 <= reply.ord <= ird, f'ORD {reply.ord} for an IRD of {ird}')
        h.enable()
        queue = h.add_io()
        conn = queue.conn
        conn.auto_read = False
        data = bytes(range(256)) * 64
        regions = [conn.register(data, write=False) for _ in range(31)]
        for i, region in enumerate(regions):
            queue.post(nv.sqe(nv.NVM_WRITE, i, nsid=1, cdw10=i * 32, cdw12=31,
                              sgl=nv.keyed_sgl(region.base, len(data), region.stag)))
        # The queue's own ORD applies; requests beyond it would be seen while none has been answered.
        held, done = [], 0
        limit = queue.reply.ord
        while done < len(regions):
            while len(held) < min(limit, len(regions) - done):
                held.append(conn.recv_read_request())
            t.ok(len(held) + len(conn.read_requests) <= limit, 'more READs than the limit')
            conn.answer_read(held.pop(0))
            done += 1
        for i in range(len(regions)):
            nv.expect(queue.wait(i))
        h.shutdown()


@test
def linux_enable_sequence(t):
    target = memory_target(t)
    with Baseline(target):
        h = host(target, kato=5000, ird=128)
        t.cleanup(h.close)
        admin = h.admin
        h.connect()  # 1
        t.ok(1 <= h.cntlid <= 0xFFEF, f'CNTLID {h.cntlid:#x}')
        cap = nv.expect(admin.property_get(nv.CAP, 8)).result  # 2
        t.ok(cap & 0xFFFF >= 15, f'MQES in CAP {cap:#x}')
        t.ok(cap >> 16 & 1, 'CQR')
        t.ok(cap >> 24 & 0xFF, 'TO')
        t.ok(cap >> 37 & 1, 'NVM command set')
        t.eq(cap >> 48 & 0xF, 0, 'MPSMIN')
        # With bit 43 of CAP, Linux asks for all command sets.
        cc = 0x00460000 | (6 << 4 if cap >> 43 & 1 else 0)
        nv.expect(admin.property_set(nv.CC, cc))  # 3
        t.eq(nv.expect(admin.property_get(nv.CC)).dw0, cc, 'CC')  # 4
        t.eq(nv.expect(admin.property_get(nv.CAP, 8)).result, cap, 'CAP')  # 5
        if cap >> 59 & 1:  # CRMS: how long to wait is in CRTO
            t.ok(nv.expect(admin.property_get(0x68)).dw0 & 0xFFFF, 'CRTO')
        nv.expect(admin.property_set(nv.CC, cc | 1))  # 6
        while not nv.expect(admin.property_get(nv.CSTS)).dw0 & 1:  # 7
            pass
        ctrl = linux_reads_logs(t, h)
        linux_sets_features(t, h, ctrl)
        admin.post(nv.sqe(nv.AER, 31))  # 17
        cqe, _ = admin.identify(6)  # 18: optional, must be answered
        cqe, active = admin.identify(2)  # 19
        nv.expect(cqe)
        t.eq(struct.unpack_from('<II', active), (1, 0), 'active namespaces')
        check_identify_namespace(t, h)  # 20
        if cap >> 43 & 1:  # or Linux leaves the namespace out
            t.ok(b'\4\1\0\0\0\0' in admin.identify(3, 1)[1][:64], 'no command set descriptor')
        for queue in h.io:  # 21
            nv.expect(queue.read_blocks(1, 0, 8, sgl_type=0x4F)[0])
        nv.expect(admin.call(nv.sqe(nv.KEEP_ALIVE, admin.next_cid())))
        h.shutdown()
        t.ok(31 not in admin._stash, 'the AER completed')
        h.close()


def linux_reads_logs(t, h):
    """Steps 8 to 12. Returns the data of Identify Controller."""
    admin = h.admin
    vs = nv.expect(admin.property_get(nv.VS)).dw0  # 8
    t.ok(vs >= 0x00010300, f'VS {vs:#x}')
    cqe, ctrl = admin.identify(1, sgl_type=0x4F)  # 9
    nv.expect(cqe)
    t.eq(cqe.inv_stag, admin.last_region.stag, 'invalidated key')
    check_identify_controller(t, ctrl, h, vs)
    cqe, effects = admin.get_log(5, 4096)  # 10
    nv.expect(cqe)
    t.ok(struct.unpack_from('<I', effects, 1024 + 4 * nv.NVM_READ)[0] & 1, 'Read is not supported')
    if ctrl[76] & 8:  # 11
        nanagrpid, mnan = struct.unpack_from('<I', ctrl, 348)[0], struct.unpack_from('<I', ctrl, 540)[0]
        cqe, ana = admin.get_log(0x0C, 16 + 32 * nanagrpid + 4 * mnan)
        nv.expect(cqe)
        t.eq(struct.unpack_from('<QHxxxxxxIIQB15xI', ana)[1:], (1, 1, 1, 1, 1, 1), 'ANA log page')
    cqe, smart = admin.get_log(2, 512)  # 12
    nv.expect(cqe)
    return ctrl


def linux_sets_features(t, h, ctrl):
    """Steps 13 to 16. Step 15 connects the I/O queues."""
    admin = h.admin
    if struct.unpack_from('<H', ctrl, 520)[0] & 1 << 6:
        nv.expect(admin.data_out(nv.SET_FEATURES, struct.pack('<Q', 1 << 40), cdw10=0x0E))
    if struct.unpack_from('<H', ctrl, 128)[0]:
        nv.expect(admin.data_out(nv.SET_FEATURES, b'\1' + bytes(511), cdw10=0x16))
    queues = nv.expect(admin.set_features(7, 1 << 16 | 1)).dw0  # 14
    t.ok(queues & 0xFFFF >= 1 and queues >> 16 >= 1, f'{queues:#x} queues')
    for _ in range(2):  # 15
        h.add_io(depth=128)
    oaes = struct.unpack_from('<I', ctrl, 92)[0]
    if oaes:
        nv.expect(admin.set_features(0x0B, oaes & 0x80000B00))  # 16


def check_identify_controller(t, ctrl, h, vs):
    t.ok(ctrl[4:24].strip(), 'serial number')
    t.ok(ctrl[24:64].strip(), 'model number')
    t.eq(struct.unpack_from('<HI', ctrl, 78), (h.cntlid, vs), 'CNTLID, VER')
    t.ok(ctrl[77], 'MDTS')
    t.eq(ctrl[111], 1, 'CNTRLTYPE')
    t.ok(struct.unpack_from('<H', ctrl, 320)[0], 'KAS')
    t.eq(ctrl[512:514].hex(), '6644', 'SQES, CQES')
    maxcmd, nn = struct.unpack_from('<HI', ctrl, 514)
    t.ok(maxcmd >= 1, 'MAXCMD')
    t.ok(nn >= 1, 'NN')
    sgls = struct.unpack_from('<I', ctrl, 536)[0]
    t.eq(sgls & 0x00100007, 0x00100005, 'SGLS')
    t.eq(ctrl[768:1024].rstrip(b'\0').decode(), NQN, 'SUBNQN')
    ioccsz, iorcsz, icdoff = struct.unpack_from('<IIH', ctrl, 1792)
    t.eq((ioccsz, iorcsz, icdoff), (4 + 512, 1, 0), 'IOCCSZ, IORCSZ, ICDOFF')
    t.ok(ctrl[1803] >= 1, 'MSDBD')


def check_identify_namespace(t, h):
    cqe, desc = h.admin.identify(3, 1)
    nv.expect(cqe)
    t.eq(desc[:2].hex(), '0310', 'first descriptor: a UUID')
    t.ok(any(desc[4:20]), 'UUID is zero')
    cqe, ns = h.admin.identify(0, 1)
    nv.expect(cqe)
    nsze, ncap, _ = struct.unpack_from('<QQQ', ns)
    t.eq((nsze, ncap), (32768, 32768), 'NSZE, NCAP')
    lbaf = struct.unpack_from('<I', ns, 128 + 4 * (ns[26] & 0xF))[0]
    t.eq(lbaf >> 16 & 0xFF, 9, 'LBADS')


# ---- invalidation ----

@test
def only_what_was_asked_for_is_invalidated(t):
    target = memory_target(t)
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        for sgl_type in (0x40, 0x4F):
            want = sgl_type == 0x4F
            cqe, _ = queue.read_blocks(1, 0, 8, sgl_type=sgl_type)
            nv.expect(cqe)
            t.eq(cqe.inv_stag, queue.last_region.stag if want else None, f'read, {sgl_type:#x}')
            cqe = nv.expect(queue.write_blocks(1, 0, bytes(65536), sgl_type=sgl_type))
            t.eq(cqe.inv_stag, queue.last_region.stag if want else None, f'write, {sgl_type:#x}')
        cqe = nv.expect(queue.write_blocks(1, 0, bytes(4096), in_capsule=True))
        t.eq(cqe.inv_stag, None, 'in-capsule write')
        cqe = nv.expect(queue.call(nv.sqe(nv.FLUSH, queue.next_cid(), nsid=1)))
        t.eq(cqe.inv_stag, None, 'flush')
        h.shutdown()


@test
def command_identifiers_come_back_unchanged(t):
    target = memory_target(t)
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        for cid in (0, 0x1011, 0x4001, 0xFFFE):
            cqe = nv.expect(queue.call(nv.sqe(nv.FLUSH, cid, nsid=1)))
            t.eq((cqe.cid, cqe.sqid), (cid, 1))
        h.shutdown()


@test
def sqhd_goes_round(t):
    target = memory_target(t)
    with host(target) as h:
        h.enable()
        queue = h.add_io(depth=16)
        seen = [nv.expect(queue.call(nv.sqe(nv.FLUSH, queue.next_cid(), nsid=1))).sqhd
                for _ in range(40)]
        t.ok(set(seen) == {0xFFFF} or (max(seen) < 16 and len(set(seen)) == 16), f'SQHD {seen}')
        h.shutdown()


# ---- AER and Abort ----

@test
def aers_beyond_the_limit_are_refused(t):
    target = memory_target(t)
    with Baseline(target):
        with host(target) as h:
            h.enable()
            _, ctrl = h.admin.identify(1)
            limit = ctrl[259] + 1
            for i in range(limit):
                h.admin.post(nv.sqe(nv.AER, 0x100 + i))
            cqe = h.admin.call(nv.sqe(nv.AER, 0x200))
            t.eq(hex(cqe.status), hex(nv.AER_LIMIT))
            nv.expect(h.admin.call(nv.sqe(nv.KEEP_ALIVE, h.admin.next_cid())))
            t.eq(h.admin._stash, {}, 'completed AERs')
            h.shutdown()


@test
def an_aer_can_be_aborted(t):
    target = memory_target(t)
    with Baseline(target):
        with host(target) as h:
            h.enable()
            h.admin.post(nv.sqe(nv.AER, 0x77))
            cqe = nv.expect(h.admin.call(nv.sqe(nv.ABORT, 0x78, cdw10=0x77 << 16)))
            if cqe.dw0 & 1:
                raise Failure('a pending AER could not be aborted')
            t.eq(hex(h.admin.wait(0x77).status), hex(nv.ABORTED_BY_REQUEST))
            h.shutdown()


@test
def abort_of_nothing_says_not_aborted(t):
    target = memory_target(t)
    with host(target) as h:
        h.enable()
        cqe = nv.expect(h.admin.call(nv.sqe(nv.ABORT, 0x78, cdw10=0x1234 << 16)))
        t.eq(cqe.dw0 & 1, 1, 'dword 0')
        h.shutdown()


# ---- keep-alive ----

@test
def keep_alive_expiry_ends_the_association(t):
    target = memory_target(t)
    with Baseline(target):
        with host(target, kato=2000) as h:
            h.enable()
            queue = h.add_io()
            h.admin.conn.wait_closed()
            queue.conn.wait_closed()
        t.match('(?i)keep.?alive', target.text(), 'the log')


@test
def keep_alive_keeps_alive(t):
    target = memory_target(t)
    with host(target, kato=2000) as h:
        h.enable()
        # Longer than two periods of the clock: only that shows a timer that does not fire.
        end = time.monotonic() + 5
        while time.monotonic() < end:
            nv.expect(h.admin.call(nv.sqe(nv.KEEP_ALIVE, h.admin.next_cid())))
            time.sleep(0.1)
        h.shutdown()


@test
def kato_can_be_read_and_set(t):
    target = memory_target(t)
    with host(target, kato=60000) as h:
        h.enable()
        t.ok(nv.expect(h.admin.get_features(0x0F)).dw0 >= 60000, 'KATO')
        nv.expect(h.admin.set_features(0x0F, 120000))
        t.ok(nv.expect(h.admin.get_features(0x0F)).dw0 >= 120000, 'KATO after Set Features')
        h.shutdown()


# ---- reset ----

@test
def a_controller_can_be_reset_and_enabled_again(t):
    target = memory_target(t)
    with Baseline(target):
        with host(target) as h:
            h.enable()
            h.add_io()
            nv.expect(h.admin.property_set(nv.CC, 0x00460000))
            while nv.expect(h.admin.property_get(nv.CSTS)).dw0 & 1:
                pass
            h.io.pop().close()
            nv.expect(h.admin.property_set(nv.CC, 0x00460001))
            while not nv.expect(h.admin.property_get(nv.CSTS)).dw0 & 1:
                pass
            queue = h.add_io()
            nv.expect(queue.read_blocks(1, 0, 1)[0])
            h.shutdown()


@test
def controllers_of_one_subsystem_have_different_ids(t):
    target = memory_target(t)
    with Baseline(target):
        hosts = [host(target) for _ in range(5)]
        ids = {h.connect().cntlid for h in hosts}
        for h in hosts:
            h.close()
        t.eq(len(ids), 5, 'different controller IDs')


# ---- discovery ----

@test
def discovery_log_names_every_subsystem_at_the_reached_address(t):
    names = [f'nqn.2024-01.test:s{i}' for i in range(5)]
    target = t.target(subsystems=[
        {'nqn': name, 'allow_any_host': True, 'namespaces': [t.namespace(backend='memory')]}
        for name in names])
    with host(target, nv.DISCOVERY_NQN) as h:
        h.enable()
        _, ctrl = h.admin.identify(1)
        t.eq(ctrl[111], 2, 'CNTRLTYPE')
        cqe, log = h.admin.get_log(0x70, 1024 * 16)
        nv.expect(cqe)
        genctr, numrec, recfmt = struct.unpack_from('<QQH', log)
        t.eq(recfmt, 0)
        entries = [log[1024 * (i + 1):1024 * (i + 2)] for i in range(numrec)]
        text = [(e[256:512].rstrip(b'\0 ').decode(), e[512:768].rstrip(b'\0 ').decode(),
                 e[32:64].rstrip(b'\0 ').decode()) for e in entries if e[2] == 2]
        t.eq(sorted(text), sorted((n, target.addr, str(target.port)) for n in names), 'entries')
        for e in entries:
            t.eq((e[0], e[1], e[768], e[769], e[770]), (1, 1, 1, 5, 1), 'types of an entry')
            t.eq(struct.unpack_from('<HH', e, 6), (0xFFFF, 32), 'CNTLID, ASQSZ')
        # The same in pieces.
        pieces = b''.join(h.admin.get_log(0x70, 512, offset=at)[1] for at in range(0, 6144, 512))
        t.same(pieces, log[:6144], 'log read in pieces')
        t.eq(struct.unpack_from('<Q', pieces)[0], genctr)
        h.shutdown()


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
            'subsystems': [{'nqn': nqn, 'namespaces': [t.namespace(backend='memory')]}
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


@test
def a_discovery_controller_has_no_io_queues(t):
    target = memory_target(t)
    with Baseline(target):
        with host(target, nv.DISCOVERY_NQN) as h:
            h.enable()
            with nv.Queue.dial(target.addr, target.port, 1) as queue:
                cqe = queue.fabrics_connect(h.data(cntlid=h.cntlid), in_capsule=True)
                t.eq(nv.expect(cqe, nv.CONNECT_PARAM).dw0, 0x0000002A, 'dword 0')
            h.shutdown()


@test
def a_read_only_namespace_refuses_writes(t):
    target = t.target([t.namespace(backend='memory', read_only=True)])
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        nv.expect(queue.read_blocks(1, 0, 1)[0])
        cqe = queue.write_blocks(1, 0, bytes(512))
        nv.expect(cqe, nv.WRITE_PROTECTED)
        cqe, ns = h.admin.identify(0, 1)
        t.ok(ns[99] & 1, 'NSATTR bit 0')
        h.shutdown()


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp',)))
