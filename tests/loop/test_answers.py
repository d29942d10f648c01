# SPDX-License-Identifier: BSD-3-Clause
"""What rdinit tells can be relied on: a URI opens what it was printed for, and no list ends early."""

import json
import socket
import struct
import sys
import urllib.parse

import nvmf_peer as nv
from t_loop import ADDR, NQN, main, test

# Each is a legal NQN; decoded or cut at the wrong place it is that of a neighbour.
NAMES = [f'{NQN}:{name}' for name in
         ('db-1', 'db%2D1', 'db%252D1', 'pool/vol1', 'pool', 'a?no-remote-invalidate', 'a', 'a#b', 'a,b', 'ä€', '[x]')]


@test
def a_listed_uri_opens_the_namespace_it_was_listed_for(t):
    target = t.target(subsystems=[
        {'nqn': nqn, 'allow_any_host': True, 'namespaces': [t.namespace(1, backend='memory', size=f'{i + 1}MiB')]}
        for i, nqn in enumerate(NAMES)])
    rows = json.loads(t.rdinit('list', target.uri(None, None), '-o', 'json').text)['Devices']
    t.eq(len(rows), len(NAMES), 'namespaces')
    found = {}
    for row in rows:
        uri = row['DevicePath']
        found[urllib.parse.unquote(uri.split('/')[3])] = row['MaximumLBA']
        size = json.loads(t.rdinit('id-ns', uri, '-o', 'json').text)['nsze']
        t.eq(size, row['MaximumLBA'], f'blocks of {uri}')
        t.ok(uri in t.rdinit('list', uri.rsplit('/', 1)[0]).text.split(), f'{uri} is printed by the table as well')
    t.eq(found, {nqn: (i + 1) * 2048 for i, nqn in enumerate(NAMES)}, 'sizes')


def record(addr, port, nqn):
    """An entry of the discovery log: an NVM subsystem over RDMA."""
    page = bytearray(1024)
    struct.pack_into('<BBBBHHH', page, 0, 1, 1, 2, 0, 1, 0xFFFF, 32)
    for at, length, text in ((32, 32, str(port)), (256, 256, nqn), (512, 256, addr)):
        page[at:at + length] = text.encode().ljust(length)
    return bytes(page)


class Discovery(nv.FakeTarget):
    """A discovery controller that tells of these records."""
    subnqn = 'nqn.2014-08.org.nvmexpress.discovery'

    def __init__(self, records, **kw):
        self.page = (struct.pack('<QQ', 1, len(records)).ljust(1024, b'\0') + b''.join(records))
        super().__init__(**kw)

    def identify_ctrl(self):
        page = bytearray(super().identify_ctrl())
        page[111] = 2
        struct.pack_into('<I', page, 1792, 4)
        return bytes(page)

    def do_get_log(self, queue, cmd):
        offset = struct.unpack_from('<Q', cmd.raw, 48)[0]
        return self.put(queue, cmd, self.page[offset:offset + cmd.length].ljust(cmd.length, b'\0'))


def fake(t, target):
    """Its URI without an NQN; closes it at the end of the test, which fails if the target had an error."""
    t.cleanup(lambda: t.eq(target.errors, [], 'errors of the fake target'))
    t.cleanup(target.close)
    return f'nvme+rdma://{target.addr}:{target.port}'


@test
def a_subsystem_with_an_unreachable_address_is_listed_over_another(t):
    target = t.target([t.namespace(1, backend='memory')])
    with socket.socket() as sock:
        sock.bind((ADDR, 0))  # a port at which nobody listens
        dead = sock.getsockname()[1]
        alone, both = 'nqn.2024-01.test:gone', [dead, target.port]
        for ports in both, both[::-1]:
            uri = fake(t, Discovery([record(ADDR, port, NQN) for port in ports]))
            rows = json.loads(t.rdinit('list', uri, '-o', 'json').text)['Devices']
            t.eq([row['DevicePath'] for row in rows], [target.uri(1)], f'ports {ports}')
        uri = fake(t, Discovery([record(ADDR, dead, alone), record(ADDR, target.port, NQN)]))
        res = t.rdinit('list', uri, '-o', 'json', rc=1)
        t.eq(len(json.loads(res.text)['Devices']), 1, 'the other subsystem')
        t.ok('refused' in res.err, res.err)


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp',)))
