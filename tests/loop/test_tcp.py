# SPDX-License-Identifier: BSD-3-Clause
"""NVMe/TCP: a host in Python (tcp_peer) on a listener with transport tcp."""

import os
import resource
import socket
import struct
import sys

import nvmf_peer as nv
import tcp_peer as tcp
from t_loop import NQN, each, main, test, wait_for

LISTENER = {'transport': 'tcp'}
BLOCK = 512


def serve(t, namespaces=None, **kw):
    return t.target(namespaces, listener=LISTENER, **kw)


def host(t, target, **kw):
    h = tcp.Host(target.addr, target.port, NQN, **kw)
    t.cleanup(h.close)
    return h.enable()


def io_queue(t, target, **kw):
    return host(t, target, **kw).add_io()


def round_trip(t, queue, size, *, slba=8, **kw):
    data = os.urandom(size)
    nv.expect(queue.write_blocks(1, slba, data, **kw))
    t.same(nv.expect_data(queue.read_blocks(1, slba, size // BLOCK)), data)


# ---- what hosts do ----

@each(('without digests', {}), ('with a header digest', {'hdgst': True}), ('with a data digest', {'ddgst': True}),
      ('with both digests', {'hdgst': True, 'ddgst': True}), ('with aligned data', {'hpda': 31}),
      ('with everything', {'hdgst': True, 'ddgst': True, 'hpda': 7, 'maxr2t': 15}))
def blocks_return_as_written(t, agreed):
    queue = io_queue(t, serve(t), **agreed)
    for size in (512, 4096, 8192, 65536, 1 << 20):
        before = queue.r2ts
        round_trip(t, queue, size)
        t.eq(queue.r2ts - before, 1, f'R2Ts of a write of {size} bytes')
        if size <= 8192:
            round_trip(t, queue, size, in_capsule=True)
            t.eq(queue.r2ts - before, 1, 'R2Ts of in-capsule data')


@test
def data_comes_in_pieces_of_any_size(t):
    queue = io_queue(t, serve(t), ddgst=True)
    for piece in (1, 511, 4096, 65535):
        queue.piece = piece
        round_trip(t, queue, 4096 if piece == 1 else 1 << 17)


@test
def bytes_come_one_by_one(t):
    queue = io_queue(t, serve(t), hdgst=True, ddgst=True, dribble=True)
    round_trip(t, queue, 1024, in_capsule=True)
    round_trip(t, queue, 1024)


@test
def many_commands_are_in_flight(t):
    queue = io_queue(t, serve(t))
    blocks = [os.urandom(16384) for _ in range(30)]
    for pending in [queue.post_write(1, 32 * i, data) for i, data in enumerate(blocks)]:
        nv.expect(pending.wait())
    reads = [queue.post_read(1, 32 * i, 32) for i in range(30)]
    for pending, data in zip(reads, blocks):
        nv.expect(pending.wait())
        t.same(pending.data, data)


@each(('with flow control', 0, False), ('without flow control', 4, True))
def success_replaces_the_response(t, cattr, expected):
    target = serve(t)
    h = host(t, target)
    queue = tcp.Queue.dial(target.addr, target.port, 1)
    t.cleanup(queue.close)
    cqe = nv.expect(queue.fabrics_connect(h.data(cntlid=h.cntlid), cattr=cattr))
    t.eq(cqe.sqhd == 0xFFFF, expected, 'SQHD FFFFh')
    nv.expect(queue.read_blocks(1, 0, 8)[0])
    t.eq(queue.successes, 1 if expected else 0, 'commands completed by SUCCESS')
    # A command that fails has a response.
    nv.expect(queue.read_blocks(1, 1 << 40, 1)[0], nv.LBA_RANGE)


@test
def identify_tells_of_tcp(t):
    admin = host(t, serve(t)).admin
    ctrl = nv.expect_data(admin.identify(1))
    t.eq(int.from_bytes(ctrl[536:540], 'little') & 7, 1, 'SGLS: supported, not keyed')
    t.eq(int.from_bytes(ctrl[1792:1796], 'little'), (64 + 8192) // 16, 'IOCCSZ')
    t.eq(int.from_bytes(ctrl[1800:1802], 'little'), 0, 'ICDOFF')


@test
def discovery_tells_of_tcp(t):
    target = serve(t)
    with tcp.Host(target.addr, target.port, nv.DISCOVERY_NQN) as h:
        h.enable()
        log = nv.expect_data(h.admin.get_log(0x70, 3072))
    t.eq(int.from_bytes(log[8:16], 'little'), 2, 'records')
    for record in (log[1024:2048], log[2048:3072]):
        t.eq(record[0], 3, 'TRTYPE')
        t.eq(record[32:64].rstrip(b' \0').decode(), str(target.port), 'TRSVCID')
        t.eq(record[768], 0, 'SECTYPE')


@test
def both_transports_reach_one_namespace(t):
    target = t.target(listeners=[{}, LISTENER])
    (addr, port), (_, tcp_port) = target.listeners
    over_tcp = tcp.Host(addr, tcp_port, NQN)
    t.cleanup(over_tcp.close)
    over_rdma = nv.Host(addr, port, NQN, hostnqn=nv.HOST_NQN + '2')
    t.cleanup(over_rdma.close)
    data = os.urandom(65536)
    nv.expect(over_tcp.enable().add_io().write_blocks(1, 0, data))
    t.same(nv.expect_data(over_rdma.enable().add_io().read_blocks(1, 0, 128)), data)
    with nv.Host(addr, port, nv.DISCOVERY_NQN) as disc:
        log = nv.expect_data(disc.enable().admin.get_log(0x70, 5 * 1024))
    kinds = sorted(log[1024 * i] for i in range(1, 1 + int.from_bytes(log[8:16], 'little')))
    t.eq(kinds, [1, 1, 3, 3], 'TRTYPEs of the discovery log')


BOTH = [{}, LISTENER]  # NVMe/RDMA, then NVMe/TCP
RDMA, TCP = 1, 3


def shown(conn, step):
    """(TRTYPE, SUBTYPE, NQN) of each record, read by @step records at a time."""
    log, total = b'', 2
    while len(log) < 1024 * total:
        log += nv.expect_data(conn.get_log(0x70, 1024 * min(step, total - len(log) // 1024), offset=len(log)))
        total = 1 + int.from_bytes(log[8:16], 'little')
    records = [log[1024 * i:1024 * i + 1024] for i in range(1, total)]
    return [(one[0], one[2], one[256:512].split(b'\0')[0].decode()) for one in records]


def for_each_step(conn, t):
    """The same, however much of it each command reads."""
    whole = shown(conn, 64)
    for step in (1, 2, 3):
        t.eq(shown(conn, step), whole, f'records read {step} at a time')
    return sorted(whole)


def discovery_host(t, target, hostnqn):
    h = tcp.Host(*target.listeners[1], nv.DISCOVERY_NQN, hostnqn=hostnqn, kato=60000)
    t.cleanup(h.close)
    return h.enable()


@test
def discovery_shows_one_transport_of_a_subsystem_or_to_a_host(t):
    hosts = {name: f'nqn.2024-01.test:{name}' for name in ('any', 'esxi', 'rdma')}
    subsystems = [{'nqn': f'{NQN}-{limit}', 'allow_any_host': True, 'discovery_transport': limit,
                   'namespaces': [t.namespace(backend='memory')]} for limit in ('tcp', 'all', 'rdma', 'all2', 'tcp2')]
    for one in subsystems:
        one['discovery_transport'] = one['discovery_transport'].rstrip('2')
    more = {'discovery': {'tcp_only': [hosts['esxi']], 'rdma_only': [hosts['rdma']]},
            'referrals': [{'address': '192.0.2.1'}, {'address': '192.0.2.2', 'port': 8009, 'transport': 'tcp'}]}
    target = t.target(listeners=BOTH, subsystems=subsystems, more=more)
    kinds = {'tcp': {TCP}, 'tcp2': {TCP}, 'rdma': {RDMA}, 'all': {RDMA, TCP}, 'all2': {RDMA, TCP}}
    for name, seen in (('any', {RDMA, TCP}), ('esxi', {TCP}), ('rdma', {RDMA})):
        want = sorted([(kind, subtype, nv.DISCOVERY_NQN) for kind in seen for subtype in (1, 3)] +
                      [(kind, 2, f'{NQN}-{limit}') for limit, of in kinds.items() for kind in of & seen])
        t.eq(for_each_step(discovery_host(t, target, hosts[name]).admin, t), want, f'records for host {name}')


@each(('for a subsystem', {'subsystem': {'discovery_transport': 'tcp'}}, [(RDMA, 3), (TCP, 2), (TCP, 3)]),
      ('for its host', {'more': {'discovery': {'tcp_only': [nv.HOST_NQN]}}}, [(TCP, 2), (TCP, 3)]),
      ('of a referral', {'more': {'referrals': [{'address': '192.0.2.1', 'transport': 'tcp'}]}},
       [(RDMA, 2), (RDMA, 3), (TCP, 1), (TCP, 2), (TCP, 3)]))
def a_changed_limit_is_told_to_discovery_controllers(t, change, want):
    """The referral changes its transport only."""
    disks = [t.namespace(backend='memory')]
    before = {'more': {'referrals': [{'address': '192.0.2.1'}]}} if (RDMA, 2) in want else {}
    target = t.target(disks, listeners=BOTH, **before)
    h = discovery_host(t, target, nv.HOST_NQN)
    nv.expect(h.admin.set_features(0x0B, 1 << 31))
    event = h.admin.next_cid()
    h.admin.post(nv.sqe(nv.AER, event))
    full = [(kind, subtype) for kind in (RDMA, TCP) for subtype in (2, 3)] + ([(RDMA, 1)] if before else [])
    t.eq(sorted(one[:2] for one in shown(h.admin, 64)), sorted(full), 'records before')
    t.config(disks, listeners=BOTH, **change)
    target.reload(r'reloaded: .*1 setting')
    t.eq(nv.expect(h.admin.wait(event)).dw0, 0x0070F002, 'event')
    t.eq(sorted(one[:2] for one in shown(h.admin, 64)), sorted(want), 'records after')


@test
def keep_alive_abort_and_events_work(t):
    target = serve(t)
    h = host(t, target, kato=60000)
    nv.expect(h.admin.call(nv.sqe(nv.KEEP_ALIVE, h.admin.next_cid())))
    cid = h.admin.next_cid()
    h.admin.post(nv.sqe(nv.AER, cid))
    cqe = nv.expect(h.admin.call(nv.sqe(nv.ABORT, h.admin.next_cid(), cdw10=cid << 16)))
    t.eq(cqe.dw0 & 1, 0, 'aborted')
    nv.expect(h.admin.wait(cid), nv.ABORTED_BY_REQUEST)
    h.shutdown()


@test
def a_host_may_leave_and_return(t):
    target = serve(t)
    for _ in range(20):
        h = tcp.Host(target.addr, target.port, NQN).enable()
        nv.expect(h.add_io().read_blocks(1, 0, 8)[0])
        h.close()
    mark = target.mark()
    target.signal(10)
    target.expect(r'tcp_areas=0', since=mark)


@test
def a_listener_changes_its_transport(t):
    config = t.config(listener={'transport': 'tcp'})
    target = t.target(config=config)
    queue = io_queue(t, target)
    t.config(listener={})
    target.reload()
    queue.wait_closed()
    target.expect(r': listening on \S+ \(iwarp\)')


# ---- what hosts must not do ----

def term_of(t, conn, fes, fei=None):
    """The target must answer with a C2HTermReq and close."""
    term = conn.wait_closed()
    t.ok(term, 'a C2HTermReq')
    t.eq((term.fes, term.fei if fei is not None else None), (fes, fei), 'FES and FEI')
    return term


def still_serves(t, target):
    round_trip(t, io_queue(t, target), 4096)


def header(kind, flags, hlen, pdo, plen):
    return bytes((kind, flags, hlen, pdo)) + plen.to_bytes(4, 'little')


@each(('of an unknown type', header(0x0A, 0, 24, 0, 24), 0), ('of type 8', header(8, 0, 24, 0, 24), 0),
      ('of the target', header(tcp.RSP, 0, 24, 0, 24), 0), ('R2T', header(tcp.R2T, 0, 24, 0, 24), 0),
      ('ICResp', header(tcp.ICRESP, 0, 128, 0, 128), 0), ('with a wrong HLEN', header(tcp.CMD, 0, 71, 0, 72), 2),
      ('with HLEN 0', header(tcp.CMD, 0, 0, 0, 72), 2), ('with an unagreed header digest', header(tcp.CMD, 1, 72, 0, 76), 1),
      ('with an unagreed data digest', header(tcp.CMD, 2, 72, 72, 588), 1), ('shorter than its header', header(tcp.CMD, 0, 72, 0, 71), 4),
      ('of length 0', header(tcp.CMD, 0, 72, 0, 0), 4), ('with data inside the header', header(tcp.CMD, 0, 72, 64, 584), 3),
      ('with unaligned data', header(tcp.CMD, 0, 72, 73, 585), 3), ('with data and no PDO', header(tcp.CMD, 0, 72, 0, 584), 3),
      ('whose PDO is its length', header(tcp.CMD, 0, 72, 76, 76), 4), ('H2CData without data', header(tcp.H2C_DATA, 4, 24, 24, 24), 4),
      ('H2CTermReq that is too long', header(tcp.H2C_TERM, 0, 24, 0, 153), 4),
      ('H2CTermReq that is too short', header(tcp.H2C_TERM, 0, 24, 0, 23), 4))
def a_wrong_header_is_refused(t, common, fei):
    target = serve(t)
    queue = io_queue(t, target)
    queue.conn.send_raw(common)
    term = term_of(t, queue.conn, tcp.FES_HEADER, fei)
    t.eq(term.header, common, 'the offending header')
    target.expect(r'refused a PDU .*FES 1')
    still_serves(t, target)


@each(('a format version', {'pfv': 1}, tcp.FES_UNSUPPORTED, 8), ('an HPDA', {'hpda': 32}, tcp.FES_HEADER, 10),
      ('an HLEN', {'hlen': 127}, tcp.FES_HEADER, 2), ('a PLEN', {'plen': 129}, tcp.FES_HEADER, 4),
      ('a digest', {'flags': 1}, tcp.FES_HEADER, 1))
def a_wrong_icreq_is_refused(t, fields, fes, fei):
    target = serve(t)
    conn = tcp.dial(target.addr, target.port)
    conn.send_raw(tcp.icreq(**fields))
    term_of(t, conn, fes, fei)
    still_serves(t, target)


@test
def an_unknown_digest_is_not_agreed_on(t):
    target = serve(t)
    conn = tcp.dial(target.addr, target.port)
    conn.send_raw(tcp.icreq(dgst=0xFC))
    t.eq(conn.recv().head[11], 0, 'DGST of ICResp')


def command(cid=7):
    return nv.sqe(nv.KEEP_ALIVE, cid, sgl=nv.offset_sgl(0, 0, tcp.TRANSPORT_SGL))


@each(('a command', lambda c: c.send(tcp.CMD, command())), ('data', lambda c: c.send(tcp.H2C_DATA, bytes(16), bytes(4))),
      ('an H2CTermReq', lambda c: c.send(tcp.H2C_TERM, bytes(16))))
def nothing_comes_before_icreq(t, send):
    target = serve(t)
    conn = tcp.dial(target.addr, target.port)
    send(conn)
    term_of(t, conn, tcp.FES_SEQUENCE)


@each(('at once', lambda c: None), ('after Connect', lambda c: c.fabrics_connect(nv.connect_data(NQN))))
def a_second_icreq_is_refused(t, before):
    target = serve(t)
    queue = tcp.Queue.dial(target.addr, target.port)
    before(queue)
    queue.conn.send_raw(tcp.icreq())
    term_of(t, queue.conn, tcp.FES_SEQUENCE)
    target.expect(r'a second ICReq')


def write_command(queue, length, cid=0x77):
    return nv.sqe(nv.NVM_WRITE, cid, nsid=1, cdw12=length // BLOCK - 1, sgl=nv.offset_sgl(0, length, tcp.TRANSPORT_SGL))


H2C_FAULTS = {
    'an unknown TTAG': (dict(ttag=0xFFFF), tcp.FES_HEADER, 10),
    'the TTAG of no R2T': (dict(ttag=1), tcp.FES_HEADER, 10),
    'another CCCID': (dict(cid=0x78), tcp.FES_HEADER, 8),
    'a DATAO behind its place': (dict(offset=4), tcp.FES_RANGE, None),
    'a DATAO outside': (dict(offset=0xFFFFFFFC), tcp.FES_RANGE, None),
    'more data than asked for': (dict(size=8196), tcp.FES_RANGE, None),
    'a DATAL that is not PLEN': (dict(datal=4096), tcp.FES_HEADER, 16),
    'DATAL 0': (dict(datal=0), tcp.FES_HEADER, 16),
    'more than MAXH2CDATA': (dict(size=(1 << 20) + 4), tcp.FES_LIMIT, None),
    'LAST_PDU too early': (dict(size=4096, last=True), tcp.FES_HEADER, 1),
    'no LAST_PDU': (dict(last=False), tcp.FES_HEADER, 1),
}


@each(*[(name, *fault) for name, fault in H2C_FAULTS.items()])
def wrong_data_is_refused(t, fault, fes, fei):
    target = serve(t)
    queue = io_queue(t, target)
    cid, ttag, length = queue.expect_r2t(write_command(queue, 8192))
    t.eq(length, 8192, 'R2TL')
    data = bytes(fault.get('size', length))
    try:
        queue.h2c_data(fault.get('cid', cid), fault.get('ttag', ttag if fault.get('ttag') is None else 0),
                       fault.get('offset', 0), data, last=fault.get('last', True), datal=fault.get('datal'))
    except ConnectionError:
        pass  # it was refused before all of it was sent
    term_of(t, queue.conn, fes, fei)
    still_serves(t, target)


@test
def data_without_an_r2t_is_refused(t):
    target = serve(t)
    queue = io_queue(t, target)
    queue.h2c_data(1, 0, 0, bytes(512))
    term_of(t, queue.conn, tcp.FES_SEQUENCE)


@test
def data_after_the_last_is_refused(t):
    target = serve(t)
    queue = io_queue(t, target)
    cid, ttag, length = queue.expect_r2t(write_command(queue, 8192))
    queue.h2c_data(cid, ttag, 0, bytes(length))
    nv.expect(queue.wait(cid))
    queue.h2c_data(cid, ttag, 0, bytes(length))
    term_of(t, queue.conn, tcp.FES_SEQUENCE)


@each(('an admin queue', True, 8192), ('an I/O queue', False, 8192))
def too_much_data_in_a_capsule_is_refused(t, admin, limit):
    target = serve(t)
    h = host(t, target)
    queue = h.admin if admin else h.add_io()
    cid = queue.next_cid()
    nv.expect(queue.call(nv.sqe(nv.NVM_WRITE, cid, nsid=1, cdw12=limit // BLOCK - 1, sgl=nv.offset_sgl(0, limit))
                         + bytes(limit)), nv.INVALID_OPCODE if admin else nv.SUCCESS)
    queue.conn.send(tcp.CMD, nv.sqe(nv.NVM_WRITE, 1, nsid=1, sgl=nv.offset_sgl(0, limit + 4)), bytes(limit + 4))
    term_of(t, queue.conn, tcp.FES_LIMIT)


@test
def fabrics_commands_may_have_more_than_ioccsz(t):
    target = serve(t, target={'in_capsule_size': '0'})
    queue = io_queue(t, target)
    round_trip(t, queue, 4096)
    queue.conn.send(tcp.CMD, nv.sqe(nv.NVM_WRITE, 1, nsid=1, sgl=nv.offset_sgl(0, 512)), bytes(512))
    term_of(t, queue.conn, tcp.FES_LIMIT)


@test
def a_wrong_header_digest_ends_the_connection(t):
    target = serve(t)
    queue = io_queue(t, target, hdgst=True, ddgst=True)
    queue.conn.send(tcp.CMD, command(), bad_hdgst=True)
    term_of(t, queue.conn, tcp.FES_HDGST, 0)


@each(('in a capsule', True), ('in H2CData', False))
def a_wrong_data_digest_fails_the_command(t, in_capsule):
    target = serve(t)
    queue = io_queue(t, target, hdgst=True, ddgst=True)
    before = os.urandom(8192)
    nv.expect(queue.write_blocks(1, 0, before))
    if in_capsule:
        cid = queue.next_cid()
        queue.conn.send(tcp.CMD, nv.sqe(nv.NVM_WRITE, cid, nsid=1, cdw12=15, sgl=nv.offset_sgl(0, 8192)), bytes(8192),
                        bad_ddgst=True)
    else:
        cid, ttag, length = queue.expect_r2t(write_command(queue, 8192))
        queue.h2c_data(cid, ttag, 0, bytes(4096), last=False, bad_ddgst=True)
        queue.h2c_data(cid, ttag, 4096, bytes(4096))
    cqe = queue.wait(cid)
    t.eq((cqe.status, cqe.dnr), (tcp.TRANSPORT_ERROR, False), 'status and DNR')
    t.same(nv.expect_data(queue.read_blocks(1, 0, 16)), before)


@each(('TLS', bytes((0x16, 3, 1)), 'begins with TLS'), ('iWARP', b'MPA ID Req Frame', r'begins with iWARP \(MPA\)'),
      ('HTTP', b'GET / HTTP/1.0\r\n\r\n', 'not those of NVMe/TCP'))
def other_protocols_are_told_by_name(t, first, reason):
    target = serve(t)
    conn = tcp.dial(target.addr, target.port)
    conn.send_raw(first)
    t.eq(conn.wait_closed(), None, 'no C2HTermReq')
    target.expect(reason)
    still_serves(t, target)


@test
def strangers_do_not_flood_the_log(t):
    target = serve(t)
    conns = [tcp.dial(target.addr, target.port) for _ in range(200)]
    for conn in conns:
        conn.send_raw(b'GET / HTTP/1.0\r\n\r\n')
        t.eq(conn.wait_closed(), None, 'no C2HTermReq')
    still_serves(t, target)
    target.expect('closing: the first bytes')
    t.ok(target.text().count('closing: the first bytes') < 100, 'fewer lines than connections')


@test
def all_queues_connect_at_once(t):
    target = serve(t)
    h = host(t, target)
    queues = []
    for qid in range(1, 65):
        queue = tcp.Queue(tcp.dial(target.addr, target.port), qid, 32)
        t.cleanup(queue.close)
        queue.conn.send_raw(tcp.icreq())
        queues.append(queue)
    for queue in queues:
        t.eq(queue.conn.recv().kind, tcp.ICRESP, 'answer to ICReq')
        cid = queue.next_cid()
        queue.post(nv.fabrics_sqe(nv.CONNECT, cid, queue.connect_body(), sgl=nv.offset_sgl(0, 1024))
                   + h.data(cntlid=h.cntlid))
        queue.connect_cid = cid
    for queue in queues:
        nv.expect(queue.wait(queue.connect_cid))
        queue.conn.maxh2cdata = 1 << 20
    for i, queue in enumerate(queues):
        round_trip(t, queue, 4096, slba=8 * i)


@test
def a_terminating_host_is_told_in_words(t):
    target = serve(t)
    queue = io_queue(t, target)
    queue.conn.send(tcp.H2C_TERM, bytes((4, 0)) + bytes(14), hdgst=False)
    t.eq(queue.conn.wait_closed(), None, 'no C2HTermReq')
    target.expect(r'the host ends the connection: Data Transfer Out of Range \(FES 4\)')


@each(('in a header', lambda q: q.conn.send_raw(bytes(5))),
      ('in a capsule', lambda q: q.conn.send_raw(tcp.pdu(tcp.CMD, nv.sqe(nv.NVM_WRITE, 1, nsid=1), bytes(8192))[:5000])),
      ('in data', lambda q: half_data(q)))
def half_a_pdu_is_followed_by_the_end(t, begin):
    target = serve(t)
    queue = io_queue(t, target)
    begin(queue)
    queue.close()
    target.expect('closed by the host in the middle of a PDU')
    mark = target.mark()
    target.signal(10)
    target.expect('tcp_areas=0', since=mark)
    still_serves(t, target)


def half_data(queue):
    cid, ttag, length = queue.expect_r2t(write_command(queue, 65536))
    queue.conn.send_raw(tcp.pdu(tcp.H2C_DATA, struct.pack('<HHII4x', cid, ttag, 0, length), bytes(length),
                                flags=tcp.F_LAST)[:30000])


@test
def a_host_without_a_connect_is_ended(t):
    target = serve(t)
    silent = tcp.dial(target.addr, target.port, timeout=60.0)
    half = tcp.connect(target.addr, target.port, timeout=60.0)
    half.send_raw(bytes((4, 0, 72)))
    for conn in (silent, half):
        t.eq(conn.wait_closed(), None, 'no C2HTermReq')
    wait_for(lambda: target.text().count('no Connect within 10 s') == 2, 'the reason, twice')


@test
def more_commands_than_entries_wait(t):
    target = serve(t, [t.namespace(backend='memory')])
    h = host(t, target)
    queue = h.add_io(depth=8)
    cids = [queue.post_in(nv.NVM_READ, 4096, nsid=1, cdw12=7) for _ in range(2000)]
    for cid in cids:
        nv.expect(queue.wait(cid))
    still_serves(t, target)


@test
def many_writes_in_capsules_wait_for_areas(t):
    target = serve(t, target={'capsule_memory': '1MiB', 'reactors': 1})
    queues = [io_queue(t, target) for _ in range(4)]
    writes = [(queue, queue.post_out(nv.NVM_WRITE, bytes(8192), in_capsule=True, nsid=1, cdw10=16 * i, cdw12=15))
              for queue in queues for i in range(100)]
    for queue, cid in writes:
        nv.expect(queue.wait(cid))
    mark = target.mark()
    target.signal(10)
    target.expect('tcp_areas=0', since=mark)


@test
def without_descriptors_new_connections_wait(t):
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    target = serve(t, [t.namespace(backend='memory')], preexec_fn=few)
    queue = io_queue(t, target)
    crowd = [socket.create_connection((target.addr, target.port)) for _ in range(80)]
    for sock in crowd:
        t.cleanup(sock.close)
    target.expect('accept: all 64 file descriptors are in use, and each connection takes one: new ones wait; raise the limit')
    round_trip(t, queue, 4096)
    for sock in crowd:
        sock.close()
    round_trip(t, io_queue(t, target), 4096)


if __name__ == '__main__':
    sys.exit(main())
