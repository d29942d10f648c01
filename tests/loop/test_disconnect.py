# SPDX-License-Identifier: BSD-3-Clause
"""A host that disconnects in each of its states: by FIN, by RST, and as a program that is killed."""

import sys

import iwarp_peer as iw
import lib_host
import nvmf_peer as nv
from t_loop import NQN, each, iwarp_only, main, scaled, test, with_library
from t_serving import Baseline, host

BOTH = (('FIN', False), ('RST', True))
FRAME = iw.mpa_frame(iw.REQ_KEY, nv.cm_request())


def states(*names):
    return tuple((f'{name}, {end}', name, reset) for name in names for end, reset in BOTH)


def mid_handshake(target, where):
    conn = iw.dial(target.addr, target.port)
    conn.send_raw(FRAME[:{'nothing sent': 0, 'mid key': 7, 'mid header': 18,
                          'mid private data': 40, 'request sent': len(FRAME)}[where]])
    return [conn]


@each(*states('nothing sent', 'mid key', 'mid header', 'mid private data', 'request sent'))
@iwarp_only
def during_the_handshake(t, where, reset):
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target):
        for conn in mid_handshake(target, where):
            conn.close(reset=reset)


def connect_capsule(queue):
    region = queue.conn.register(nv.connect_data(NQN), write=False)
    return nv.fabrics_sqe(nv.CONNECT, 1, queue.connect_body(),
                          sgl=nv.keyed_sgl(region.base, 1024, region.stag))


@each(*states('after MPA', 'mid capsule', 'Connect sent', 'READ of Connect data unanswered',
              'READ of Connect data half answered', 'Connect answered'))
@iwarp_only
def during_connect(t, where, reset):
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target):
        queue = nv.Queue.dial(target.addr, target.port)
        conn = queue.conn
        conn.auto_read = False
        capsule = connect_capsule(queue)
        if where == 'mid capsule':
            conn.send_raw(iw.fpdu(iw.untagged_segment(iw.SEND, 0, 1, 0, capsule))[:50])
        elif where != 'after MPA':
            queue.post(capsule)
        if 'READ' in where or 'answered' in where:
            req = conn.recv_read_request()
            if 'half' in where:
                conn.send_ulpdu(iw.tagged_segment(iw.READ_RESP, req.sink_stag, req.sink_to,
                                                  bytes(512), last=False))
            elif where == 'Connect answered':
                conn.answer_read(req)
                nv.expect(queue.wait(1))
        conn.close(reset=reset)


def several_segments(conn, req, count):
    """The first count segments of an answer to a Read Request."""
    for i in range(count):
        conn.send_ulpdu(iw.tagged_segment(iw.READ_RESP, req.sink_stag, req.sink_to + i * 1024,
                                          bytes(1024), last=False))


@each(*states('enabled', 'mid enable', 'I/O queue without Connect', 'idle I/O queue',
              'READ unanswered', 'READ half answered', 'mid segment of a READ response',
              'writes outstanding', 'reads outstanding, none read', 'AER pending',
              'shutdown asked for', 'after shutdown', 'only the I/O queue', 'only the admin queue'))
@iwarp_only
def of_a_controller(t, where, reset):
    target = t.target()  # a file: I/O is really in flight
    with Baseline(target):
        h = host(target)
        t.cleanup(h.close)
        if where == 'mid enable':
            h.connect()
            nv.expect(h.admin.property_set(nv.CC, 0x00460000))
            h.admin.post(nv.fabrics_sqe(nv.PROPERTY_SET, 5, b'\0\0\0\0\x14\0\0\0\x01\0\x46\0'))
            h.close(reset=reset)
            return
        h.enable()
        admin = h.admin
        if where == 'I/O queue without Connect':
            nv.Queue.dial(target.addr, target.port, 1).close(reset=reset)
        elif where == 'AER pending':
            for i in range(4):
                admin.post(nv.sqe(nv.AER, 0x50 + i))
        elif where == 'shutdown asked for':
            h.add_io()
            admin.post(nv.fabrics_sqe(nv.PROPERTY_SET, 5, b'\0\0\0\0\x14\0\0\0\x01\x40\x46\0'))
        elif where == 'after shutdown':
            h.add_io()
            h.shutdown()
        elif where != 'enabled':
            with_io(h, h.add_io(), where)
        if where == 'only the I/O queue':
            h.io.pop().close(reset=reset)
            nv.expect(h.add_io().read_blocks(1, 0, 8)[0])
        elif where == 'only the admin queue':
            admin.close(reset=reset)
            h.io[0].conn.wait_closed()
        h.close(reset=reset)


def with_io(h, queue, where):
    conn = queue.conn
    conn.auto_read = False
    region = conn.register(bytes(131072))
    sgl = nv.keyed_sgl(region.base, 131072, region.stag)
    if 'READ' in where or where == 'writes outstanding':
        count = 31 if where == 'writes outstanding' else 1
        for i in range(count):
            queue.post(nv.sqe(nv.NVM_WRITE, i, nsid=1, cdw10=i * 256, cdw12=255, sgl=sgl))
        req = conn.recv_read_request()
        if 'half' in where or 'mid segment' in where:
            several_segments(conn, req, 10)
        if 'mid segment' in where:
            conn.send_raw(iw.fpdu(iw.tagged_segment(iw.READ_RESP, req.sink_stag,
                                                    req.sink_to + 10240, bytes(1024)))[:300])
        if where == 'writes outstanding':
            for _ in range(4):
                conn.answer_read(req)
                req = conn.recv_read_request()
    elif where == 'reads outstanding, none read':
        for i in range(31):
            queue.post(nv.sqe(nv.NVM_READ, i, nsid=1, cdw12=255, sgl=sgl))
        conn.recv_segment()  # the answers are on their way


@each(*((state, state) for state in lib_host.STATES))
@with_library
def a_program_is_killed(t, state):
    """Not closed by its own code, but in the order in which the kernel frees its objects."""
    target = t.target()
    with Baseline(target):
        for _ in range(scaled(3)):
            proc = t.spawn('host', [sys.executable, lib_host.__file__, target.addr, str(target.port), NQN,
                                    state], stdin=-1)
            proc.expect('^ready$')
            proc.kill()
            proc.popen.stdin.close()


@test
@iwarp_only
def each_association_is_two_lines_of_the_log(t):
    target = t.target([t.namespace(backend='memory')], args=('--log', 'notice'))
    for end, why in (('shutdown', r'\S.*'), ('killed', r'\S.*')):
        since = target.mark()
        with host(target) as h:
            h.enable()
            h.add_io()
            who = rf'notice: ctrl: {NQN}: controller {h.cntlid} for {nv.HOST_NQN} from {target.addr}:\d+: '
            target.expect(who + 'connected$', since=since)
            if end == 'shutdown':
                h.shutdown()
            h.close(reset=end == 'killed')
            target.expect(who + f'disconnected: {why}$', since=since)
        t.eq(len([line for line in target.text().splitlines()[since:] if 'notice: ctrl: ' in line]), 2, f'lines of a host: {end}')


@test
def many_connections_in_a_row(t):
    target = t.target([t.namespace(backend='memory')])
    with Baseline(target):
        for i in range(scaled(200, 40)):
            h = host(target)
            if i % 3:
                h.connect()
            h.close(reset=bool(i % 2))


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp', 'verbs')))
