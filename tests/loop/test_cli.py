# SPDX-License-Identifier: BSD-3-Clause
"""rdinit's verbs, its two ways to name a target, its JSON, and its messages on failure."""

import json
import contextlib
import os
import re
import socket
import sys

from t_loop import (ADDR, ADDR6, FABRIC, HOST_NAME, NQN, Skip, each, iwarp_only, main,
                    program, requires_ipv6, test, wait_for)
from t_storage import as_root

UUID = '6f0c2b4e-6d0f-4a4e-9a56-0e9b7a3d5c11'


def two_namespaces(t, **kw):
    return t.target([t.namespace(1, backend='memory', uuid=UUID),
                     t.namespace(7, backend='memory', size='32MiB', block_size=4096)],
                    subsystem={'serial': 'SN0042', 'model': 'loop test disk'}, **kw)


def options(target, nqn=NQN):
    """The address as nvme-cli's options; some verbs use the same letters for options of their own."""
    return ['--transport', 'rdma', '--traddr', target.addr, '--trsvcid', str(target.port),
            *(['--nqn', nqn] if nqn else [])]


def as_json(res):
    return json.loads(res.text)


@each(('by URI', ADDR, True), ('by options', ADDR, False), ('by URI, IPv6', ADDR6, True),
      ('by options, IPv6', ADDR6, False))
def every_query_works(t, addr, by_uri):
    if ':' in addr:
        requires_ipv6()
    target = two_namespaces(t, addr=addr)
    where = [target.uri(None)] if by_uri else options(target)
    with_ns = [target.uri(7)] if by_uri else [*options(target), '--namespace-id', '7']
    ctrl = as_json(t.rdinit('id-ctrl', *where, '-o', 'json'))
    t.eq(ctrl['sn'].strip(), 'SN0042')
    t.eq(ctrl['mn'].strip(), 'loop test disk')
    t.eq(ctrl['subnqn'], NQN)
    listed = as_json(t.rdinit('list-ns', *where, '-o', 'json'))
    t.eq([row['nsid'] for row in listed['nsid_list']], [1, 7])
    ns = as_json(t.rdinit('id-ns', *with_ns, '-o', 'json'))
    t.eq(ns['nsze'], 8192, 'nsze')
    t.eq(ns['lbafs'][ns['flbas'] & 0xF]['ds'], 12, 'data size of the LBA format')
    where = [target.uri(None, None)] if by_uri else options(target, None)
    log = as_json(t.rdinit('discover', *where, '-o', 'json'))
    rows = [row for row in log['records'] if row['subnqn'] == NQN]
    t.eq([(r['trtype'], r['traddr'], r['trsvcid']) for r in rows],
         [('rdma', addr, str(target.port))])
    t.rdinit('flush', *with_ns)


@each(('discover', None, None), ('id-ctrl', NQN, None), ('list-ns', NQN, None), ('id-ns', NQN, 1))
@iwarp_only
def prints_text_for_people(t, nqn, nsid):
    verb = t.name.rsplit(': ', 1)[1]
    target = two_namespaces(t)
    text = t.rdinit(verb, target.uri(nsid, nqn)).text
    t.match({'discover': re.escape(NQN), 'id-ctrl': r'sn\s*:\s*SN0042', 'list-ns': r'(?m)\b0x7\b|\b7$',
             'id-ns': r'nsze\s*:\s*0x8000'}[verb], text)


@test
@iwarp_only
def id_ctrl_has_nvme_clis_forms(t):
    """Scripts parse it: names, widths, decimal and hexadecimal as nvme-cli prints them."""
    target = two_namespaces(t)
    lines = t.rdinit('id-ctrl', target.uri(None)).text.splitlines()
    t.eq(lines[0], 'NVME Identify Controller:', 'heading')
    for line in ('vid       : 0', 'sn        : SN0042              ', 'ieee      : 000000',
                 'cmic      : 0xb', 'mdts      : 8', 'cntlid    : 0x1', 'ver       : 0x20000',
                 'rtd3e     : 0', 'ctratt    : 0x41', 'cntrltype : 1', 'acl       : 3',
                 'lpa       : 0x26', 'kas       : 1', 'sqes      : 0x66', 'cqes      : 0x44',
                 'maxcmd    : 128', 'sgls      : 0x100005', 'ioccsz    : 516', 'msdbd     : 16'):
        t.ok(line in lines, f'no line "{line}" in\n' + '\n'.join(lines))


@test
@iwarp_only
def id_ns_shows_the_identifiers(t):
    nguid, eui64 = '0123456789abcdef0123456789abcdef', '0123456789abcdef'
    target = t.target([t.namespace(backend='memory', nguid=nguid, eui64=eui64)])
    ns = as_json(t.rdinit('id-ns', target.uri(1), '-o', 'json'))
    t.eq((ns['nguid'], ns['eui64']), (nguid, eui64))


@test
@iwarp_only
def json_is_all_that_is_on_standard_output(t):
    target = two_namespaces(t)
    for verb, uri in (('discover', target.uri(None, None)), ('id-ctrl', target.uri(None)),
                      ('list-ns', target.uri(None)), ('id-ns', target.uri(1))):
        t.ok(isinstance(as_json(t.rdinit(verb, uri, '-o', 'json')), dict), verb)


# ---- what it says when it cannot ----

@each(('no scheme', 'localhost:4420/nqn.2024-01.test:disk/1'),
      ('another scheme', 'nvme+fc://127.0.0.1/nqn.2024-01.test:disk/1'),
      ('no host', 'nvme+rdma:///nqn.2024-01.test:disk/1'),
      ('an open bracket', 'nvme+rdma://[::1/nqn.2024-01.test:disk/1'),
      ('port 99999', 'nvme+rdma://127.0.0.1:99999/nqn.2024-01.test:disk/1'),
      ('port "abc"', 'nvme+rdma://127.0.0.1:abc/nqn.2024-01.test:disk/1'),
      ('an NQN with a space', 'nvme+rdma://127.0.0.1/a%20disk/1'),
      ('an NQN of 224 bytes', 'nvme+rdma://127.0.0.1/nqn.2024-01.test:' + 'n' * 208 + '/1'),
      ('NSID 0', 'nvme+rdma://127.0.0.1/nqn.2024-01.test:disk/0'),
      ('NSID "x"', 'nvme+rdma://127.0.0.1/nqn.2024-01.test:disk/x'),
      ('something behind the NSID', 'nvme+rdma://127.0.0.1/nqn.2024-01.test:disk/1/2'))
@iwarp_only
def bad_uri(t, uri):
    res = t.rdinit('id-ns', uri, rc=2)
    t.match(r'^rdinit: \S', res.err)
    t.ok(len(res.err.splitlines()) <= 4, f'a long answer:\n{res.err}')


@each(('nothing', []), ('an unknown verb', ['format']), ('an unknown option', ['id-ctrl', '--frobnicate']),
      ('no address', ['id-ctrl']), ('an unknown output format', ['id-ctrl', 'nvme+rdma://h/nqn.2024-01.a:b',
                                                                 '-o', 'xml']),
      ('a URI and an address', ['id-ctrl', f'nvme+rdma://127.0.0.1/{NQN}', '-a', '127.0.0.1']),
      ('two URIs', ['id-ctrl', f'nvme+rdma://127.0.0.1/{NQN}', f'nvme+rdma://127.0.0.1/{NQN}']),
      ('another transport', ['id-ctrl', '-t', 'fc', '-a', '127.0.0.1', '-n', NQN]),
      ('a size that is none', ['read', f'nvme+rdma://127.0.0.1/{NQN}/1', '--data', '-', '--data-size',
                               'many']))
@iwarp_only
def usage_error(t, args):
    res = t.rdinit(*args, rc=2)
    t.ok(res.err.strip(), 'nothing was said')
    t.eq(res.out, b'', 'standard output')




@test
@iwarp_only
def the_first_block_by_s_beside_a_port(t):
    """-s is the first block where no port can be meant."""
    target = two_namespaces(t)
    t.rdinit('write', '--traddr', target.addr, '--trsvcid', str(target.port), '--nqn', NQN, '-s', '3', '-d',
             t.file('in', b'x' * 512))
    t.eq(t.rdinit('read', target.uri(1), '-s', '3', '-z', '512').out, b'x' * 512)


# ---- started without standard descriptors ----

def without(closed, argv):
    return ['sh', '-c', f'exec "$0" "$@" {closed}', *argv]


@each(('standard output', '>&-', 'standard output: .*Bad file'), ('all three', '<&- >&- 2>&-', ''))
@iwarp_only
def reading_to_a_descriptor_that_is_closed(t, closed, says):
    """rdinit's sockets must not become standard output. Without standard output it reports an error."""
    target = two_namespaces(t)
    res = t.run(without(closed, [program('rdinit'), 'read', target.uri(1), '-z', '1M']))
    t.eq(res.rc, 1, f'exit status\n{res.err}')
    t.match(says, res.err)


@test
@iwarp_only
def writing_from_a_descriptor_that_is_closed(t):
    target = two_namespaces(t)
    res = t.run(without('<&-', [program('rdinit'), 'write', target.uri(1)]))
    t.eq(res.rc, 1, f'exit status\n{res.err}')
    t.match('standard input: .*Bad file', res.err)


@test
@iwarp_only
def rdtarget_with_its_descriptors_closed(t):
    """Its files and sockets are not descriptors 0 to 2, which cannot be read or written."""
    proc = t.spawn('rdtarget', without('<&- >&- 2>&-', [program('rdtarget'), '-c', t.config(), '--exit-with-parent']))

    def links():
        found = {}
        for n in os.listdir(f'/proc/{proc.pid}/fd'):
            with contextlib.suppress(FileNotFoundError):  # closed since the folder was read
                found[int(n)] = os.readlink(f'/proc/{proc.pid}/fd/{n}')
        return found
    wait_for(lambda: any(link.startswith('socket:') for link in links().values()), 'rdtarget to listen')
    t.eq([links().get(n) for n in range(3)], ['/dev/null'] * 3, 'descriptors 0 to 2')


@test
@iwarp_only
def help_goes_to_standard_output(t):
    t.match('id-ctrl', t.rdinit('--help').text)
    for verb in ('discover', 'id-ctrl', 'id-ns', 'list-ns', 'read', 'write', 'flush'):
        res = t.rdinit(verb, '--help')
        t.match('--transport', res.text)


@test
@iwarp_only
def version_is_printed(t):
    t.match(r'\d+\.\d+', t.rdinit('--version').text)


@test
def refused_connection(t):
    with socket.socket() as sock:  # bound, not listening: no other process gets the port
        sock.bind((ADDR, 0))
        port = sock.getsockname()[1]
        res = t.rdinit('id-ctrl', f'nvme+rdma://{ADDR}:{port}/{NQN}', rc=1)
    t.match(rf'{re.escape(ADDR)}:{port}.*[Cc]onnection refused', res.err)


@test
def a_host_name_that_does_not_exist(t):
    res = t.rdinit('id-ctrl', f'nvme+rdma://no-such-host.invalid/{NQN}', rc=1)
    t.match(r'no-such-host\.invalid', res.err)


@test
def a_host_name_works(t):
    try:
        socket.getaddrinfo(HOST_NAME, 0, socket.AF_INET)
    except socket.gaierror as e:
        raise Skip(f'{HOST_NAME} does not resolve here: {e.strerror}') from e
    target = two_namespaces(t)
    t.rdinit('id-ctrl', f'nvme+rdma://{HOST_NAME}:{target.port}/{NQN}')


@each(('chosen by itself', []), ('asked for', ['--provider', FABRIC]))
def the_fabric_is_the_one_under_test(t, args):
    """Otherwise all other tests would test another provider."""
    target = two_namespaces(t)
    res = t.rdinit('id-ctrl', target.uri(None), '--verbose', *args)
    t.match(rf'(?m)^rdinit: .*\b{FABRIC}\b', res.err)


@test
def an_unknown_nqn(t):
    target = two_namespaces(t)
    res = t.rdinit('id-ctrl', target.uri(None, 'nqn.2024-01.test:none'), rc=1)
    t.match('(?i)subsystem NQN|subnqn', res.err)


@test
@iwarp_only
def a_subsystem_name_that_is_no_nqn(t):
    """As Linux's blktests use it: the target decides."""
    name = 'blktests-subsystem-1'
    target = t.target([t.namespace(1, backend='memory')], subsystem={'nqn': name})
    t.match(name, t.rdinit('id-ctrl', target.uri(None, name)).out.decode())
    t.rdinit('flush', '--traddr', target.addr, '--trsvcid', target.port, '--nqn', name, '--namespace-id', 1)


@each(('id-ns', []), ('read', ['--data', '-', '--data-size', '512']), ('write', ['--data', '-']),
      ('flush', []))
@iwarp_only
def an_unknown_nsid(t, args):
    verb = t.name.rsplit(': ', 1)[1]
    target = two_namespaces(t)
    res = t.rdinit(verb, target.uri(3), *args, rc=1, input=bytes(512))
    t.match('(?i)namespace', res.err)
    t.match(r'\b3\b', res.err)


@test
def a_host_that_is_not_allowed(t):
    target = t.target([t.namespace(backend='memory')],
                      subsystem={'allow_any_host': False, 'hosts': ['nqn.2024-01.test:somebody']})
    for verb in 'id-ctrl', 'connect-test':
        res = t.rdinit(verb, target.uri(None), '--hostnqn', 'nqn.2024-01.test:me', rc=1)
        t.match('or does not allow the host NQN "nqn.2024-01.test:me" .* to use it.*--hostnqn gives', res.err)
    t.rdinit('id-ctrl', target.uri(None), '--hostnqn', 'nqn.2024-01.test:somebody')


@test
@iwarp_only
def a_read_only_namespace(t):
    target = t.target([t.namespace(backend='memory', read_only=True)])
    t.rdinit('read', target.uri(1), '--data', '-', '--data-size', '512')
    res = t.rdinit('write', target.uri(1), '--data', '-', input=bytes(512), rc=1)
    t.match('(?i)read.only|write.protected', res.err)


# The files of another machine in the place of this one's, for this process and its children only.
MACHINE = '[ ! -d /etc/nvme ] || mount -t tmpfs none /etc/nvme; mount --bind "$1" /etc/machine-id; shift; exec "$@"'


@each(('empty', '', 'is empty: the host identifier is random'), ('at the first boot', 'uninitialized\n', 'is uninitialized: the host'),
      ('of zeroes', '0' * 32 + '\n', ':1: found "0{32}", expected a machine ID'))
def a_machine_without_an_identity_is_told_of(t, text, message):
    if not os.path.exists('/etc/machine-id'):
        raise Skip('there is no /etc/machine-id')
    as_root(t, 'unshare', '-m', 'true')
    target = t.target([t.namespace(backend='memory')])
    t.file('machine-id', text.encode())
    for words in (['show-hostnqn'], ['id-ctrl', target.uri(None)], ['connect-test', target.uri()]):
        res = t.run(['unshare', '-m', 'sh', '-e', '-c', MACHINE, 'sh', t.path('machine-id'), program('rdinit'), *words])
        t.eq(len(re.findall('/etc/machine-id', res.err)), 1, f'{words[0]}: {res.err}')
        t.match(f'^rdinit: .*/etc/machine-id ?{message}', res.err)
        t.eq(res.rc != 0, 'expected' in message, f'{words[0]}: exit status {res.rc}')


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp', 'verbs')))
