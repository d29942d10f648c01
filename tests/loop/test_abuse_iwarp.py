# SPDX-License-Identifier: BSD-3-Clause
"""Peers that violate MPA, DDP or RDMAP. The answer is a refusal or a Terminate and the end of that connection; other
connections are served, and no resources of the peer are kept."""

import struct
import sys

import iwarp_peer as iw
import nvmf_peer as nv
from t_loop import each, main, requires_ipv6, requires_native, test
from t_serving import Baseline, host

PD = nv.cm_request()


def raw(t, target, data, *, fin=True):
    """Send bytes as the first ones of a connection; it must be closed without having been established."""
    conn = iw.dial(target.addr, target.port)
    conn.send_raw(data)
    if fin:
        conn.sock.shutdown(1)
    answer = b''
    try:
        while True:
            answer += conn.recv_exact(1)
    except iw.PeerClosed:
        pass
    conn.close()
    if answer:
        t.ok(answer.startswith(iw.REP_KEY) and answer[16] & iw.MPA_R,
             f'answered with {answer.hex()} instead of a reject')
    return answer


@each(('random bytes', bytes(range(7, 255)) * 8, False),
      ('an HTTP request', b'GET / HTTP/1.1\r\nHost: disk.example\r\n\r\n', False),
      ('a TLS hello', bytes.fromhex('16030100c8010000c40303') + bytes(190), False),
      ('an NVMe/TCP ICReq', bytes.fromhex('0000800080000000') + bytes(120), False),
      ('the reply key', iw.mpa_frame(iw.REP_KEY, PD), False),
      ('private data of 65535 bytes', iw.mpa_frame(iw.REQ_KEY, PD, pd_length=65535) + bytes(70000),
       False),
      ('private data of 513 bytes', iw.mpa_frame(iw.REQ_KEY, bytes(509)), False),
      ('nothing, then end', b'', True),
      ('half a request, then end', iw.mpa_frame(iw.REQ_KEY, PD)[:30], True),
      ('a request without its last byte, then end', iw.mpa_frame(iw.REQ_KEY, PD)[:-1], True))
def handshake_refused(t, data, fin):
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target):
        raw(t, target, data, fin=fin)


@each(('markers asked for', {'markers': True}, None),
      ('an unknown revision', {'rev': 9}, None),
      ('enhanced in revision 1', {'rev': 1}, None),
      ('enhanced bytes missing', {'pd_length': 2}, 2))
def mpa_request_refused(t, mpa, cut):
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target):
        frame = iw.mpa_frame(iw.REQ_KEY, PD, **mpa)
        raw(t, target, frame[:20 + cut] if cut else frame, fin=False)


@test
def half_a_handshake_is_dropped_by_timeout(t):
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target):
        conn = iw.dial(target.addr, target.port, timeout=60)
        conn.send_raw(iw.mpa_frame(iw.REQ_KEY, PD)[:30])
        conn.wait_closed()
        conn.close()


@test
def many_half_handshakes_do_not_keep_others_out(t):
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target) as base:
        idle = [iw.dial(target.addr, target.port) for _ in range(100)]
        for conn in idle:
            conn.send_raw(iw.REQ_KEY)
        with host(target) as h:
            h.enable()
            h.shutdown()
        for i, conn in enumerate(idle):
            conn.close(reset=bool(i % 2))
        base.check()


@each(('no private data', b'', 1),
      ('short private data', nv.cm_request(length=31), 1),
      ('record format 1', nv.cm_request(recfmt=1), 2),
      ('QID 65535', nv.cm_request(qid=65535), 3),
      ('HSQSIZE 0', nv.cm_request(hsqsize=0), 4),
      ('HRQSIZE 0', nv.cm_request(hrqsize=0), 5))
def cm_request_rejected(t, private, sts):
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target):
        try:
            nv.Queue.dial(target.addr, target.port, private=private).close()
        except nv.Rejected as e:
            t.eq(e.sts, sts, 'CM status')
            t.eq(len(e.reply.private), 4, 'length of the reject')
        else:
            t.ok(False, 'accepted')


@test
def inbound_read_depth_zero_is_rejected(t):
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target):
        try:
            nv.Queue.dial(target.addr, target.port, ird=0).close()
        except nv.Rejected as e:
            t.eq(e.sts, 7, 'CM status')
        else:
            t.ok(False, 'accepted')


def established(target, **kw):
    return nv.Queue.dial(target.addr, target.port, **kw).conn


def seg(opcode=iw.SEND, qn=0, msn=1, mo=0, payload=bytes(64), **kw):
    return iw.fpdu(iw.untagged_segment(opcode, qn, msn, mo, payload, **kw))


READ_BAD = iw.read_request_payload(0x100, 0, 64, 0xDEADBE01, 0x1000)


@each(('opcode 8', seg(opcode=8), (0, 2, 6)),
      ('opcode 15', seg(opcode=15), (0, 2, 6)),
      ('DDP version 0', seg(dv=0), (1, 2, 6)),
      ('DDP version 3, tagged', iw.fpdu(iw.tagged_segment(iw.WRITE, 1, 0, b'1234', dv=3)), (1, 1, 4)),
      ('RDMAP version 3', seg(rv=3), (0, 2, 5)),
      ('untagged queue 7', seg(qn=7), (1, 2, 1)),
      ('message number 7', seg(msn=7), (1, 2, 3)),
      ('message offset 4', seg(mo=4), (1, 2, 4)),
      ('an empty ULPDU', struct.pack('>HHI', 0, 0, 0),
       ((2, 0, 3), (1, 2, 6))),
      ('a ULPDU shorter than its header', iw.fpdu(bytes.fromhex('4143') + bytes(6)), (2, 0, 3)),
      ('a Write to an unknown key', iw.fpdu(iw.tagged_segment(iw.WRITE, 0xDEADBE01, 0x1000, b'1234')),
       (1, 1, 0)),
      ('a Read from an unknown key', seg(iw.READ_REQ, 1, payload=READ_BAD),
       ((0, 1, 0), (0, 2, 7))),  # by key, or because no READs were agreed on
      ('a Read Request of 12 bytes', seg(iw.READ_REQ, 1, payload=bytes(12)), None),
      ('a Read Response nobody asked for',
       iw.fpdu(iw.tagged_segment(iw.READ_RESP, 0x100, 0, b'1234')), None),
      ('a tagged Send', iw.fpdu(iw.tagged_segment(iw.SEND, 0x100, 0, bytes(64))), None),
      ('an untagged Write', seg(iw.WRITE), None),
      ('invalidation of an unknown key', seg(iw.SEND_INV, inv_stag=0xDEADBE01), None))
def terminated(t, data, cause):
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target):
        conn = established(target)
        conn.send_raw(data)
        term = conn.wait_closed()
        conn.close()
        if cause:
            t.ok(term, 'closed without a Terminate')
            got = (term.layer, term.etype, term.code)
            t.ok(got in (cause if isinstance(cause[0], tuple) else (cause,)), f'{term}')


@test
def a_bad_crc_is_terminated(t):
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target):
        conn = established(target, crc=True)
        conn.send_raw(iw.fpdu(iw.untagged_segment(iw.SEND, 0, 1, 0, bytes(64)), True, bad_crc=True))
        term = conn.wait_closed()
        conn.close()
        t.ok(term, 'closed without a Terminate')
        t.eq((term.layer, term.etype, term.code), (2, 0, 2))


@test
def a_terminate_ends_the_connection(t):
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target):
        conn = established(target)
        conn.terminate(0, 2, 6)
        conn.wait_closed()
        conn.close()


@each(('longer than the largest capsule', 64 + 8192 + 16), ('of 1 MiB', 1 << 20))
def a_capsule_is_terminated(t, length):
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target):
        conn = established(target)
        try:
            conn.send(bytes(length))
        except iw.PeerClosed:
            pass  # it may end before all has been sent
        else:
            term = conn.wait_closed()
            t.ok(term is None or (term.layer, term.etype) == (1, 2), f'{term}')
        conn.close()


@each(('of 63 bytes', 63), ('of 1 byte', 1), ('of 0 bytes', 0))
def a_capsule_ends_the_connection(t, length):
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target):
        conn = established(target)
        conn.send(bytes(length))
        conn.wait_closed()
        conn.close()


@test
def sends_beyond_the_queue_depth_end_the_connection(t):
    """iWARP has no RNR: a Send without a posted RECV ends its connection, and must affect no other."""
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target):
        with host(target) as h:
            h.connect()
            conn = h.admin.conn
            conn.auto_read = False
            # Connect-like commands whose data never comes hold their queue entries.
            region = conn.register(bytes(4096))
            sgl = nv.keyed_sgl(region.base, 4096, region.stag)
            capsules = b''.join(
                iw.fpdu(iw.untagged_segment(iw.SEND, 0, msn, 0,
                                            nv.sqe(nv.SET_FEATURES, msn, sgl=sgl, cdw10=0x7E)))
                for msn in range(2, 4000))
            try:
                conn.send_raw(capsules)
                conn.sock.shutdown(1)
                conn.wait_closed()
            except iw.PeerClosed:
                pass


# ---- the keys a target shows ----

def pending_write(target, h, length=65536):
    """Issue a Write whose data the target requests by RDMA READ, and do not answer."""
    queue = h.add_io()
    conn = queue.conn
    conn.auto_read = False
    region = conn.register(bytes(length), write=False)
    queue.post(nv.sqe(nv.NVM_WRITE, 1, nsid=1, cdw12=length // 512 - 1,
                      sgl=nv.keyed_sgl(region.base, length, region.stag)))
    return queue, conn.recv_read_request()


def _write(conn, req, offset, data):
    conn.write(req.sink_stag, (req.sink_to + offset) & (1 << 64) - 1, data)


ABUSES = (
    ('Write behind the READ sink', lambda c, r: _write(c, r, r.size, b'X' * 64)),
    ('Write before the READ sink', lambda c, r: _write(c, r, -64, b'X' * 64)),
    ('Write that crosses the end of the sink', lambda c, r: _write(c, r, r.size - 32, b'X' * 64)),
    ('Write that wraps', lambda c, r: c.write(r.sink_stag, (1 << 64) - 16, b'X' * 64)),
    ('Write with the next key', lambda c, r: c.write(r.sink_stag + 1, r.sink_to, b'X' * 64)),
    ('Write with the next index', lambda c, r: c.write((r.sink_stag + 0x100) & 0xFFFFFFFF, r.sink_to,
                                                      b'X' * 64)),
    ('Read of the READ sink', lambda c, r: c._untagged(
        iw.READ_REQ, 1, iw.read_request_payload(0x100, 0, 64, r.sink_stag, r.sink_to), 0)),
    ('Read behind the READ sink', lambda c, r: c._untagged(
        iw.READ_REQ, 1, iw.read_request_payload(0x100, 0, 64, r.sink_stag, r.sink_to + r.size), 0)),
    ('short Read Response', lambda c, r: c.answer_read(r, bytes(r.size - 4))),
    ('long Read Response', lambda c, r: c.answer_read(r, bytes(r.size + 4))),
    ('Read Response to another key', lambda c, r: c.answer_read(r, bytes(r.size),
                                                                stag=r.sink_stag ^ 0x01000000)),
    ('Read Response to another place', lambda c, r: c.answer_read(r, bytes(r.size),
                                                                  to=r.sink_to + 4)),
)


@each(*ABUSES)
def against_the_keys_is_terminated(t, abuse):
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target):
        with host(target) as h:
            h.enable()
            queue, req = pending_write(target, h)
            try:
                abuse(queue.conn, req)
                term = queue.conn.wait_closed()
                t.ok(term, 'closed without a Terminate')
            except iw.PeerClosed:
                pass


@test
def a_key_is_worthless_on_another_connection(t):
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target):
        with host(target) as mine, host(target) as other:
            mine.enable()
            other.enable()
            queue, req = pending_write(target, mine)
            # Two queues, so that both reactors are tried.
            for _ in range(2):
                intruder = other.add_io()
                try:
                    intruder.conn.write(req.sink_stag, req.sink_to, b'X' * 64)
                    cqe, _ = intruder.read_blocks(1, 0, 1)
                except (iw.PeerClosed, iw.Terminated):
                    continue
                t.ok(False, f'the Write was taken; status {cqe.status:#x}')
            data = bytes(range(256)) * (req.size // 256)
            queue.conn.answer_read(req, data)
            nv.expect(queue.wait(1))
            t.same(queue.read_blocks(1, 0, req.size // 512)[1], data)


@test
def a_key_is_worthless_after_its_read(t):
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target):
        with host(target) as h:
            h.enable()
            queue, req = pending_write(target, h)
            queue.conn.answer_read(req)
            nv.expect(queue.wait(1))
            queue.conn.write(req.sink_stag, req.sink_to, b'X' * 64)
            t.ok(queue.conn.wait_closed(), 'closed without a Terminate')


@test
def the_sinks_of_reads_are_not_where_they_seem(t):
    """The addresses that the target shows do not exist in its address space."""
    requires_native()  # whose own mappings may be anywhere
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target):
        with host(target) as h, host(target) as newcomer:
            h.enable()
            newcomer.admin.conn.auto_read = False
            data = newcomer.admin.conn.register(newcomer.data(), write=False)
            newcomer.admin.post(nv.fabrics_sqe(nv.CONNECT, 1, newcomer.admin.connect_body(),
                                               sgl=nv.keyed_sgl(data.base, 1024, data.stag)))
            shown = [newcomer.admin.conn.recv_read_request().sink_to]
            shown += [pending_write(target, h)[1].sink_to for _ in range(4)]
            for line in target.proc('maps').splitlines():
                first, end = (int(n, 16) for n in line.split()[0].split('-'))
                for addr in shown:
                    t.ok(not first <= addr < end, f'{addr:#x} is in {line}')


# ---- peculiarities that must have no effect ----

@each(('127.0.0.1', '127.0.0.1'), ('::1', '::1'))
def one_byte_at_a_time_is_fine(t, addr):
    if ':' in addr:
        requires_ipv6()
    target = t.target([t.namespace(backend='memory')], addr=addr)
    with host(target, dribble=True) as h:
        h.enable()
        queue = h.add_io()
        data = bytes(range(256)) * 16
        nv.expect(queue.write_blocks(1, 0, data))
        nv.expect(queue.write_blocks(1, 8, data, in_capsule=True))
        cqe, got = queue.read_blocks(1, 0, 16)
        nv.expect(cqe)
        t.same(got, data * 2)
        h.shutdown()


@each(('Send with Solicited Event', 'se'), ('reserved bits set', 'reserved'),
      ('zero-length Writes in between', 'write'), ('zero-length Reads in between', 'read'))
def is_tolerated(t, what):
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target), host(target) as h:
        h.enable()
        conn = h.admin.conn
        for _ in range(40):  # more than the queues are deep
            cid = h.admin.next_cid()
            capsule = nv.sqe(nv.KEEP_ALIVE, cid)
            if what == 'write':
                conn.write(0xDEADBE01, 0, b'')
            elif what == 'read':
                conn._untagged(iw.READ_REQ, 1, iw.read_request_payload(0x100, 7, 0, 0xDEADBE01, 9), 0)
                conn._reads.append([iw.Region(b''), 7, 0, 0])
                conn._reads[-1][0].stag = 0x100
            if what == 'reserved':
                msn = conn._tx_msn[0]
                conn._tx_msn[0] += 1
                ulpdu = bytearray(iw.untagged_segment(iw.SEND, 0, msn, 0, capsule))
                ulpdu[0] |= 0x3C
                ulpdu[1] |= 0x30
                conn.send_ulpdu(bytes(ulpdu))
            else:
                conn.send(capsule, solicited=what == 'se')
            nv.expect(h.admin.wait(cid))
        h.shutdown()


@test
def many_fpdus_in_one_segment_are_fine(t):
    target = t.target([t.namespace(backend='memory')])
    with host(target) as h:
        h.enable()
        conn, first = h.admin.conn, h.admin.conn._tx_msn[0]
        cids = list(range(1, 25))
        conn.send_raw(b''.join(
            iw.fpdu(iw.untagged_segment(iw.SEND, 0, first + i, 0, nv.sqe(nv.KEEP_ALIVE, cid)))
            for i, cid in enumerate(cids)))
        conn._tx_msn[0] += len(cids)
        for cid in cids:
            nv.expect(h.admin.wait(cid))
        h.shutdown()


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp',)))
