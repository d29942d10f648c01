# SPDX-License-Identifier: BSD-3-Clause
"""What rdinit tells can be relied on: a URI opens what it was printed for, and no list ends early."""

import json
import resource
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


class Lists(nv.FakeTarget):
    """Lists of these lengths; each answer is cut at the length that the host asked for."""
    registrants = descriptors = controllers = 0

    def on_command(self, queue, cmd):
        if queue.qid and cmd.opcode == 0x0E:
            return self.put(queue, cmd, self.report())
        if not queue.qid and cmd.opcode == 0x86:
            return self.lba_status(queue, cmd)
        return super().on_command(queue, cmd)

    def report(self):
        return (struct.pack('<IBHxxB', 1, 0, self.registrants, 0).ljust(64, b'\0')
                + b''.join(struct.pack('<HBxxxxxQ', i, 0, i).ljust(64, b'\1') for i in range(self.registrants)))

    def lba_status(self, queue, cmd):
        n = min(self.descriptors, (cmd.length - 8) // 16)
        page = struct.pack('<IB', n, 1 if n < self.descriptors else 2).ljust(8, b'\0')
        self.put(queue, cmd, page + b''.join(struct.pack('<QII', i, 0, 0) for i in range(n)))

    def do_identify(self, queue, cmd):
        if cmd.cdw10 & 0xFF != 0x13:
            return super().do_identify(queue, cmd)
        ids = list(range(self.controllers))[cmd.cdw10 >> 16:][:2047]
        return self.put(queue, cmd, struct.pack(f'<H{len(ids)}H', len(ids), *ids).ljust(4096, b'\0'))

    def identify_ctrl(self):
        page = bytearray(super().identify_ctrl())
        page[262] = 255  # ELPE
        return bytes(page)

    def do_get_log(self, queue, cmd):
        offset = struct.unpack_from('<Q', cmd.raw, 48)[0]
        page = b''.join(struct.pack('<Q', i + 1).ljust(64, b'\0') for i in range(256))
        if cmd.cdw10 & 0xFF == 4:
            page = b'\xff' * 4 + bytes(4092)
        return self.put(queue, cmd, page[offset:offset + cmd.length])


def lengths(t, target, uri, verb, key, *args):
    """How many entries the JSON of a verb has."""
    return len(json.loads(t.rdinit(verb, f'{uri}/{target.subnqn}', '-o', 'json', *args).text)[key])


@test
def lists_have_all_of_their_entries(t):
    target = Lists()
    uri = fake(t, target)
    for n in (0, 63, 64, 1000, 2047):
        target.registrants = n
        t.eq(lengths(t, target, uri, 'resv-report', 'regctlext'), n, 'registrants')
    for n in (0, 255, 256, 8000):
        target.descriptors = n
        t.eq(lengths(t, target, uri, 'get-lba-status', 'lsde'), n, 'descriptors')
    for n in (1, 2047, 2048, 65536):
        target.controllers = n
        t.eq(lengths(t, target, uri, 'list-ctrl', 'ctrl_list'), n, 'controllers')
    t.eq(lengths(t, target, uri, 'error-log', 'errors'), 256, 'errors')
    t.eq(lengths(t, target, uri, 'error-log', 'errors', '-e', '3'), 3, 'errors asked for')


@test
def a_list_that_is_cut_short_says_so(t):
    target = Lists()
    target.registrants = target.descriptors = 20000
    uri = fake(t, target)
    where = f'{uri}/{target.subnqn}'
    for verb, key, args, n in (('resv-report', 'regctlext', [], 2047), ('resv-report', 'regctlext', ['-d', '64'], 3),
                               ('get-lba-status', 'lsde', [], 8191), ('get-lba-status', 'lsde', ['-m', '63'], 15)):
        res = t.rdinit(verb, where, '-o', 'json', *args, rc=1)
        t.eq(len(json.loads(res.text)[key]), n, f'{verb} {args}')
        t.ok('the list is longer than' in res.err, res.err)
    t.ok('more namespaces have changed' in t.rdinit('changed-ns-list-log', where).err, 'changed namespaces')


@test
def a_long_discovery_log_is_listed_to_its_end(t):
    uri = fake(t, Discovery([record(ADDR, 1 + i, f'{NQN}:{i}') for i in range(5000)]))
    t.eq(len(json.loads(t.rdinit('list-subsys', uri, '-o', 'json').text)[0]['Subsystems']), 5000, 'subsystems')


@test
def every_registrant_of_a_namespace_is_reported(t):
    target = t.target([t.namespace(1, backend='memory')])
    hosts = {f'{i:08x}-0000-4000-8000-000000000000' for i in range(1, 71)}
    for hostid in hosts:
        t.rdinit('resv-register', target.uri(1), '-q', f'nqn.2014-08.org.nvmexpress:uuid:{hostid}', '-I', hostid, '-k', '5', '-i')
    report = json.loads(t.rdinit('resv-report', target.uri(1), '-o', 'json').text)
    t.eq({one['hostid'] for one in report['regctlext']}, {hostid.replace('-', '') for hostid in hosts}, 'hosts')


@test
def a_file_that_may_not_grow_is_an_error_in_words(t):
    """Not a signal: SIGXFSZ would end rdinit without a word."""
    target = t.target([t.namespace(1, backend='memory', size='4MiB')])
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
    for argv in (['read', target.uri(1), '-z', '1MiB', '-d', t.path('read')], ['cp', target.uri(1), t.path('copied')]):
        res = t.rdinit(*argv, rc=1, preexec_fn=limit)
        t.ok('File too large' in res.err, f'{argv[0]}: {res.err}')
    with open(t.path('json'), 'wb') as out:
        res = t.rdinit('read', target.uri(1), '-z', '1MiB', '-d', '-', rc=1, preexec_fn=limit, stdout=out)
        t.ok('File too large' in res.err, f'standard output: {res.err}')


if __name__ == '__main__':
    sys.exit(main())
