# SPDX-License-Identifier: BSD-3-Clause
"""Peers that violate MPA, DDP or RDMAP. The answer is a refusal or a Terminate and the end of that connection; other
connections are served, and no resources of the peer are kept. tests/unit/fabric has every violation with its Terminate."""

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


@each(('an HTTP request', b'GET / HTTP/1.1\r\nHost: disk.example\r\n\r\n', False),
      ('an NVMe/TCP ICReq', bytes.fromhex('0000800080000000') + bytes(120), False),
      ('private data of 65535 bytes', iw.mpa_frame(iw.REQ_KEY, PD, pd_length=65535) + bytes(70000), False),
      ('nothing, then end', b'', True), ('half a request, then end', iw.mpa_frame(iw.REQ_KEY, PD)[:30], True))
def handshake_refused(t, data, fin):
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target):
        raw(t, target, data, fin=fin)


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


@each(('opcode 8', iw.fpdu(iw.untagged_segment(8, 0, 1, 0, bytes(64))), (0, 2, 6)),
      ('a Write to an unknown key', iw.fpdu(iw.tagged_segment(iw.WRITE, 0xDEADBE01, 0x1000, b'1234')), (1, 1, 0)))
def terminated(t, data, cause):
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target):
        conn = established(target)
        conn.send_raw(data)
        term = conn.wait_closed()
        conn.close()
        t.ok(term, 'closed without a Terminate')
        t.eq((term.layer, term.etype, term.code), cause)


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


@each(('Write behind the READ sink', lambda c, r: c.write(r.sink_stag, r.sink_to + r.size, b'X' * 64)),
      ('Write with the next index', lambda c, r: c.write((r.sink_stag + 0x100) & 0xFFFFFFFF, r.sink_to, b'X' * 64)),
      ('long Read Response', lambda c, r: c.answer_read(r, bytes(r.size + 4))))
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


if __name__ == '__main__':
    sys.exit(main())
