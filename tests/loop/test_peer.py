# SPDX-License-Identifier: BSD-3-Clause
"""The Python peers compared with captured bytes and with each other: a test tool must be correct first."""

import struct
import sys

import iwarp_peer as iw
import nvmf_peer as nv
from t_loop import each, main, test


@test
def crc32c_matches_the_published_vectors(t):
    t.eq(iw.crc32c(b'123456789'), 0xE3069283)
    # RFC 5044, figure 5: a marker, then a Send header with MSN 1 and 24 zero bytes.
    body = bytes.fromhex('002a4143' + '00000000' * 2 + '00000001' + '00000000') + bytes(24)
    t.eq(struct.pack('<I', iw.crc32c(body)).hex(), 'b7243ec3')
    t.eq(struct.pack('<I', iw.crc32c(bytes(4) + body)).hex(), '52239983')


@test
def mpa_request_is_the_captured_one(t):
    t.eq(iw.mpa_frame(iw.REQ_KEY, nv.cm_request(0, 32, 31), ird=128).hex(),
         '4d504120494420526571204672616d6510020024008000000000000020001f00' + '00' * 24)
    t.eq(iw.mpa_frame(iw.REQ_KEY, nv.cm_request(1, 128, 127), ird=128).hex(),
         '4d504120494420526571204672616d65100200240080000000000100' + '80007f00' + '00' * 24)


@test
def mpa_reply_is_the_captured_one(t):
    t.eq(iw.mpa_frame(iw.REP_KEY, nv.cm_accept(32), ird=0, ord=128).hex(),
         '4d504120494420526570204672616d65100200240000008000002000' + '00' * 28)


@test
def connect_capsule_is_the_captured_one(t):
    body = struct.pack('<HHHBBI', 0, 0, 31, 0, 0, 5000)
    sgl = nv.keyed_sgl(0xFFFF888006081800, 1024, 0x41236C01, 0x4F)
    got = iw.fpdu(iw.untagged_segment(iw.SEND, 0, 1, 0, nv.fabrics_sqe(nv.CONNECT, 0, body, sgl=sgl)))
    t.eq(got.hex(),
         '00524143000000000000000000000001000000007f40000001000000000000000000000000000000'
         '00000000001808068088ffff000400016c23414f000000001f000000881300000000000000000000'
         '0000000000000000')


@test
def read_request_is_the_captured_one(t):
    payload = iw.read_request_payload(0x51D0CD01, 0xFFFF8880073D4000, 0x400, 0x41236C01,
                                      0xFFFF888006081800)
    got = iw.fpdu(iw.untagged_segment(iw.READ_REQ, 1, 1, 0, payload))
    t.eq(got.hex(),
         '002e41410000000000000001000000010000000051d0cd01ffff8880073d40000000040041236c01'
         'ffff88800608180000000000')


@test
def response_with_invalidate_is_the_captured_one(t):
    cqe = nv.Cqe(1, 1, 0, 0, 0).pack()
    got = iw.fpdu(iw.untagged_segment(iw.SEND_INV, 0, 1, 0, cqe, inv_stag=0x41236C01))
    t.eq(got.hex(), '0022414441236c010000000000000001000000000100000000000000010000000000000000000000')


@each(('plain', {}), ('with CRC', {'crc': True}), ('byte by byte', {'dribble': True}),
      ('revision 1', {'rev': 1, 'enhanced': False}))
def python_host_works_with_python_target(t, mpa):
    target = nv.FakeTarget()
    t.cleanup(target.close)
    with nv.Host(target.addr, target.port, target.subnqn, **mpa) as host:
        host.enable()
        queue = host.add_io()
        data = bytes(range(256)) * 64
        nv.expect(queue.write_blocks(1, 8, data, sgl_type=0x4F))
        cqe, got = queue.read_blocks(1, 8, 32, sgl_type=0x4F)
        nv.expect(cqe)
        t.eq(cqe.inv_stag, queue.last_region.stag)
        t.same(got, data)
        nv.expect(queue.write_blocks(1, 100, data[:4096], in_capsule=True))
        t.same(queue.read_blocks(1, 100, 8)[1], data[:4096])
        nv.expect(queue.read_blocks(1, 1 << 40, 1)[0], nv.LBA_RANGE)
        host.shutdown()
    t.eq(target.errors, [])


if __name__ == '__main__':
    sys.exit(main())
