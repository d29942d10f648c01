# SPDX-License-Identifier: BSD-3-Clause
"""rdinit and targets that refuse, answer wrongly, fall silent or end: a clear message, exit status 1, no hang."""

import re
import struct
import sys
import unicodedata

import iwarp_peer as iw
import nvmf_peer as nv
from t_loop import each, main, program, test

# The time-outs requested where one has to expire.
LIMITS = ('--timeout', '1s', '--connect-timeout', '1s')


def fake(t, cls=nv.FakeTarget, **kw):
    target = cls(**kw)
    t.cleanup(target.close)
    return target


def uri(target, nsid=1):
    host = f'[{target.addr}]' if ':' in target.addr else target.addr
    return f'nvme+rdma://{host}:{target.port}/{target.subnqn}' + (f'/{nsid}' if nsid else '')


def write(t, target, *args, rc=1, data=bytes(65536)):
    return t.rdinit('write', uri(target), '--data', t.file('in', data), *args, rc=rc)


def read(t, target, *args, rc=1, size=65536):
    return t.rdinit('read', uri(target), '--data', t.path('out'), '--data-size', str(size), *args,
                    rc=rc)


def says(t, res, pattern='.'):
    """One clear reason: short, from rdinit, and no crash."""
    t.match(r'(?m)^rdinit: ', res.err, 'standard error')
    t.match(f'(?i){pattern}', res.err, 'standard error')
    t.ok(len(res.err.splitlines()) <= 8, f'a long answer:\n{res.err}')


# ---- that the stage is right: a well-behaved fake ----

@each(('IPv4', {}), ('IPv6', {'addr': '::1'}), ('CRC', {'crc': True}), ('MDTS 8 KiB', {'mdts': 1}),
      ('no MDTS', {'mdts': 0}), ('no in-capsule data', {'in_capsule': 0}))
def works_with_an_independent_target(t, kw):
    target = fake(t, **kw)
    data = bytes(range(256)) * 1000 + b'tail'
    write(t, target, rc=0, data=data)
    t.same(bytes(target.disk[:len(data)]), data, 'the disk')
    read(t, target, rc=0, size=len(data))
    with open(t.path('out'), 'rb') as f:
        t.same(f.read(), data)
    t.rdinit('id-ctrl', uri(target))
    t.rdinit('flush', uri(target))
    t.eq(target.errors, [])


@test
def offers_what_irdma_cxgb4_and_siw_want(t):
    target = fake(t)
    t.rdinit('id-ctrl', uri(target, None))
    req = target.requests[0]
    t.eq((req.rev, req.enhanced, req.crc, bool(req.flags & iw.MPA_M)), (2, True, False, False))
    t.eq(req.p2p, 'ACD')
    t.ok(1 <= req.ird <= 128, f'IRD {req.ird}')
    t.eq(len(req.private), 32)
    t.eq(struct.unpack_from('<HHHH', req.private), (0, 0, 32, 31), 'recfmt, QID, HRQSIZE, HSQSIZE')


@each(('asked for', '', (), True), ('not, by option', '', ('--no-remote-invalidate',), False),
      ('not, by URI', '?no-remote-invalidate', (), False))
def remote_invalidation_is(t, query, args, asked):
    class Watching(nv.FakeTarget):
        def on_command(self, queue, cmd):
            types.add((queue.qid > 0, cmd.sgl_type))
            super().on_command(queue, cmd)
    types = set()
    target = fake(t, Watching, in_capsule=0)
    t.rdinit('write', uri(target) + query, '--data', t.file('in', bytes(65536)), *args)
    t.eq([(io, 0x4F) in types for io in (False, True)], [asked, asked], 'SGL type 4Fh on the admin queue, on I/O queues')


# ---- refusals ----

def frame(**kw):
    return iw.mpa_frame(iw.REP_KEY, nv.cm_accept(32), **{'ord': 8, 'p2p': 'AC', **kw})


@each(('an HTTP answer', b'HTTP/1.1 400 Bad Request\r\n\r\n' * 4), ('revision 9', frame(rev=9)), ('half a reply', frame()[:30]),
      ('a reject', iw.mpa_frame(iw.REP_KEY, nv.cm_reject(6), ird=0, ord=8, reject=True)))
def a_reply_that_is(t, reply):
    class Odd(nv.FakeTarget):
        def on_mpa(self, conn):
            conn.recv_mpa(iw.REQ_KEY)
            conn.send_raw(reply)
            conn.sock.shutdown(1)
            conn.wait_closed()
            raise nv.Stop
    text = '.' if reply.startswith(iw.REP_KEY) else 'not an NVMe/RDMA target over iWARP'
    says(t, t.rdinit('id-ctrl', uri(fake(t, Odd)), rc=1), text)


def connect_status(status, dw0):
    class Refusing(nv.FakeTarget):
        def do_connect(self, queue, cmd):
            self.fetch(queue, cmd)
            self.respond(queue, cmd, status, dw0)
    return Refusing


@each(('QID', nv.CONNECT_PARAM, 0x2A, 'qid|queue id'), ('invalid host', nv.CONNECT_HOST, 0x00010200, 'host'))
def connect_refused(t, status, dw0, text):
    res = t.rdinit('id-ctrl', uri(fake(t, connect_status(status, dw0))), '--hostnqn', 'nqn.2024-01.test:me', rc=1)
    says(t, res, text)
    if status == nv.CONNECT_HOST:
        says(t, res, 'nqn.2024-01.test:me.*option hostnqn.*--hostnqn gives')


# ---- silence ----

class Silent(nv.FakeTarget):
    """Answers nothing from the step .silent on."""
    silent = None

    def on_mpa(self, conn):
        if self.silent == 'MPA request':
            conn.wait_closed()
            raise nv.Stop
        return super().on_mpa(conn)

    def on_command(self, queue, cmd):
        if self.step(queue, cmd) == self.silent:
            return
        super().on_command(queue, cmd)

    @staticmethod
    def step(queue, cmd):
        if cmd.opcode == nv.FABRICS:
            name = {nv.CONNECT: 'Connect', nv.PROPERTY_GET: 'Property Get',
                    nv.PROPERTY_SET: 'Property Set'}.get(cmd.fctype)
            return name if queue.qid == 0 else f'I/O {name}'
        if queue.qid:
            return {nv.NVM_READ: 'Read', nv.NVM_WRITE: 'Write', nv.FLUSH: 'Flush'}.get(cmd.opcode)
        return {nv.IDENTIFY: 'Identify', nv.SET_FEATURES: 'Set Features'}.get(cmd.opcode)


STEPS = ('MPA request', 'Connect', 'Identify', 'Write')


@each(*((step, step) for step in STEPS))
def silence_at(t, step):
    cls = type('SilentAt', (Silent,), {'silent': step})
    target = fake(t, cls)
    res = write(t, target, *LIMITS)
    says(t, res, 'time|respon')
    if step == 'MPA request':
        says(t, res, 'not an NVMe/RDMA target over iWARP')


@test
def silence_at_flush(t):
    cls = type('SilentAt', (Silent,), {'silent': 'Flush'})
    res = t.rdinit('flush', uri(fake(t, cls)), *LIMITS, rc=1)
    says(t, res, 'time|respon')


@test
def a_controller_with_a_fatal_status(t):
    class Fatal(nv.FakeTarget):
        def csts(self):
            return 2
    says(t, t.rdinit('id-ctrl', uri(fake(t, Fatal)), *LIMITS, rc=1), 'fatal|cfs|ready')


# ---- death ----

class Dying(Silent):
    """Ends the connection at the step .silent."""

    def on_mpa(self, conn):
        if self.silent == 'TCP':
            raise nv.Stop
        if self.silent == 'MPA request':
            conn.recv_mpa(iw.REQ_KEY)
            raise nv.Stop
        queue = super().on_mpa(conn)
        if self.silent == 'MPA reply':
            raise nv.Stop
        return queue

    def on_command(self, queue, cmd):
        if self.step(queue, cmd) == self.silent:
            if self.reset:
                queue.conn.close(reset=True)
            raise nv.Stop
        super().on_command(queue, cmd)


@each(*((f'{step}, {end}', step, end == 'RST')
        for step in ('TCP', 'MPA reply', 'Identify', 'Write') for end in ('FIN', 'RST')))
def death_at(t, step, reset):
    cls = type('DyingAt', (Dying,), {'silent': step, 'reset': reset})
    says(t, write(t, fake(t, cls)))


# ---- lies ----

def lying(**steps):
    return type('Lying', (nv.FakeTarget,), steps)


def cqe(queue, cmd, **kw):
    fields = {'result': 0, 'sqhd': 0, 'sqid': queue.qid, 'cid': cmd.cid, 'status_field': 0, **kw}
    return nv.Cqe(**fields).pack()


@each(('a response of 17 bytes', 'do_write', lambda s, q, c: q.conn.send(cqe(q, c) + b'x')),
      ('an unknown command ID', 'do_write', lambda s, q, c: q.conn.send(cqe(q, c, cid=0x7777))),
      ('a WRITE behind the buffer', 'do_read', lambda s, q, c: q.conn.write(c.key, c.addr + c.length, bytes(512))))
def lie(t, step, action):
    target = fake(t, lying(**{step: lambda self, queue, cmd: action(self, queue, cmd)}), in_capsule=0)
    args = LIMITS
    says(t, write(t, target, *args) if step == 'do_write' else read(t, target, *args))


@test
def a_response_twice(t):
    class Twice(nv.FakeTarget):
        def do_write(self, queue, cmd):
            self.fetch(queue, cmd)
            self.respond(queue, cmd)
            self.respond(queue, cmd)
    res = t.run([program('rdinit'), 'write', uri(fake(t, Twice, in_capsule=0)),
                 '--data', t.file('in', bytes(1 << 20)), *LIMITS])
    t.ok(res.rc in (0, 1), f'exit {res.rc}\n{res.err}')


@test
def a_failed_write_is_not_success(t):
    class Failing(nv.FakeTarget):
        def do_write(self, queue, cmd):
            if cmd.cdw10 < 64:
                return super().do_write(queue, cmd)
            return self.respond(queue, cmd, 0x280)  # Write Fault
    says(t, write(t, fake(t, Failing), data=bytes(1 << 20)), 'write fault')


class FailingInTheMiddle(nv.FakeTarget):
    """Blocks 640 to 703 can be neither read nor written, until they can."""
    broken = True

    def fails(self, queue, cmd, status):
        if self.broken and cmd.cdw10 < 704 and cmd.cdw10 + (cmd.cdw12 & 0xFFFF) >= 640:
            self.respond(queue, cmd, status)
            return True
        return False

    def do_write(self, queue, cmd):
        return self.fails(queue, cmd, 0x280) or super().do_write(queue, cmd)

    def do_read(self, queue, cmd):
        return self.fails(queue, cmd, 0x281) or super().do_read(queue, cmd)


def complete_part(t, res):
    t.match('(?m)^rdinit: the first', res.err)
    found = re.search(r'(?m)^rdinit: the first (\d+) bytes are complete; continue with --offset=(\d+)', res.err)
    return int(found[1]), int(found[2])


@test
def a_failed_write_says_where_to_go_on(t):
    target = fake(t, FailingInTheMiddle, mdts=3)
    data = bytes(range(251)) * 4000
    n, offset = complete_part(t, write(t, target, '--offset', '4096', data=data))
    t.ok(0 < n <= 640 * 512 - 4096, f'{n} bytes')
    t.eq(offset, n + 4096)
    t.same(bytes(target.disk[4096:offset]), data[:n], 'what is complete')
    t.ok(target.log[-1] == (1, nv.FLUSH) or (1, nv.FLUSH) in target.log, 'no flush')
    target.broken = False
    write(t, target, '--offset', str(offset), rc=0, data=data[n:])
    t.same(bytes(target.disk[4096:4096 + len(data)]), data, 'all of it')


@test
def a_failed_read_says_where_to_go_on(t):
    target = fake(t, FailingInTheMiddle, mdts=3)
    target.disk[:1 << 20] = bytes(range(256)) * 4096
    n, offset = complete_part(t, read(t, target, size=1 << 20))
    t.ok(0 < n <= 640 * 512, f'{n} bytes')
    target.broken = False
    with open(t.path('out'), 'rb') as f:
        first = f.read(n)
    rest = t.rdinit('read', uri(target), '--offset', str(offset), '-z', str((1 << 20) - n)).out
    t.same(first + rest, bytes(target.disk[:1 << 20]))


def odd_namespace(offset, value):
    class Odd(nv.FakeTarget):
        def identify_ns(self):
            page = bytearray(super().identify_ns())
            page[offset:offset + len(value)] = value
            return bytes(page)
    return Odd


@each(('blocks of 1 byte', 130, b'\0'), ('blocks of 2^63 bytes', 130, b'\x3F'),
      ('no blocks', 0, bytes(24)), ('a size that overflows', 0, b'\xFF' * 24),
      ('metadata', 128, b'\x08\0'))
def a_namespace_with(t, offset, value):
    says(t, write(t, fake(t, odd_namespace(offset, value))))


@test
def short_identify_data(t):
    """Success, but nothing was written: the page is all zeroes."""
    target = fake(t, lying(identify_ctrl=lambda self: b'', identify_ns=lambda self: b''))
    says(t, write(t, target))


@each(('the same ids for ever', lambda after: [1] * 1024, 0xFFFFFFFE, 'not in ascending order'),
      ('ids that descend', lambda after: [9, 8, 7], 9, 'not in ascending order'),
      ('the id asked for again', lambda after: range(after or 1, (after or 1) + 1024), 5000, 'not in ascending order'),
      ('more ids than NN', lambda after: range(after + 1, after + 1025), 5000, r'more entries than .* \(5000\)'),
      ('ids for ever', lambda after: range(after + 1, after + 1025), 0xFFFFFFFE,
       r'more entries than .* \(1048576\)'))
def a_namespace_list_with(t, ids, nn, text):
    class Endless(nv.FakeTarget):
        def identify_ctrl(self):
            page = bytearray(super().identify_ctrl())
            struct.pack_into('<I', page, 516, nn)
            return bytes(page)

        def do_identify(self, queue, cmd):
            if cmd.cdw10 & 0xFF == 2:
                return self.put(queue, cmd, b''.join(struct.pack('<I', n) for n in ids(cmd.nsid)).ljust(4096, b'\0'))
            return super().do_identify(queue, cmd)
    says(t, t.rdinit('list-ns', uri(fake(t, Endless), None), '-o', 'json', rc=1), text)


# ---- what reaches the terminal ----

# CSI as a byte and as U+009B, an escape, a right-to-left override, an isolate, half a sequence
RUDE = b'a\x9b2J\xc2\x9b2J\x1b[2J\xe2\x80\xaeb\xe2\x81\xa6c\xc3'


def tame(t, res):
    for name, out in (('output', res.out), ('error', res.err.encode())):
        text = out.decode('utf-8')  # raises when it is not
        bad = [c for c in text if c != '\n' and unicodedata.category(c) in ('Cc', 'Cf', 'Zl', 'Zp')]
        t.eq(bad, [], f'characters of standard {name}')


@each(('text', 'normal'), ('JSON', 'json'))
def control_characters_in_an_identify_page(t, form):
    class Rude(nv.FakeTarget):
        def identify_ctrl(self):
            page = bytearray(super().identify_ctrl())
            page[24:64] = RUDE.ljust(40)
            return bytes(page)
    res = t.rdinit('id-ctrl', uri(fake(t, Rude), None), '-o', form)
    tame(t, res)
    t.ok(b'a?2J??2J?[2J???b???c?' in res.out, res.out)


@each(('text', 'normal'), ('JSON', 'json'))
def control_characters_in_a_discovery_log(t, form):
    class Rude(nv.FakeTarget):
        subnqn = nv.DISCOVERY_NQN

        def do_get_log(self, queue, cmd):
            entry = bytearray(1024)
            entry[0], entry[1], entry[2] = 1, 1, 2
            entry[32:64], entry[256:512], entry[512:768] = RUDE.ljust(32), RUDE.ljust(256, b'\0'), RUDE.ljust(256)
            page = struct.pack('<QQH', 1, 1, 0).ljust(1024, b'\0') + entry
            offset = cmd.cdw12 | cmd.cdw13 << 32
            return self.put(queue, cmd, page[offset:offset + cmd.length].ljust(cmd.length, b'\0'))
    res = t.rdinit('discover', f'nvme+rdma://127.0.0.1:{fake(t, Rude).port}', '-o', form)
    tame(t, res)
    t.eq(res.out.count(b'a?2J??2J?[2J???b???c?'), 3, 'fields shown')


@each(('a count that overflows', struct.pack('<QQH', 1, 1 << 60, 0)),
      ('another record format', struct.pack('<QQH', 1, 1, 9)),
      ('a generation that keeps changing', None))
def a_discovery_log_with(t, header):
    class Odd(nv.FakeTarget):
        subnqn = nv.DISCOVERY_NQN
        gen = 0

        def do_get_log(self, queue, cmd):
            self.gen += 1
            page = (header or struct.pack('<QQH', self.gen, 1, 0)).ljust(2048, b'\0')
            offset = cmd.cdw12 | cmd.cdw13 << 32
            return self.put(queue, cmd, page[offset:offset + cmd.length].ljust(cmd.length, b'\0'))
    target = fake(t, Odd)
    res = t.rdinit('discover', f'nvme+rdma://127.0.0.1:{target.port}', '--timeout', '5s', rc=1)
    says(t, res)


if __name__ == '__main__':
    sys.exit(main())
