# SPDX-License-Identifier: BSD-3-Clause
"""rdinit admin-passthru and io-passthru: commands that a user builds, and their results."""

import json
import os
import sys

from t_loop import main, test

BLOCK = 512
CNTLID = slice(78, 80)  # another one for each connection


def serve(t):
    return t.target([t.namespace(1, backend='memory', size='1MiB')], subsystem={'serial': 'SN0042'})


def same(t, got, want):
    got, want = bytearray(got), bytearray(want)
    got[CNTLID] = want[CNTLID] = bytes(2)
    t.same(bytes(got), bytes(want))


@test
def identify_controller(t):
    target = serve(t)
    args = ['admin-passthru', target.uri(None), '--opcode', '0x06', '--cdw10', '1', '--data-len', '4096',
            '--read']
    data = t.rdinit(*args, '--raw-binary').out
    t.eq(len(data), 4096, 'bytes of the answer')
    t.eq(data[4:24].rstrip(), b'SN0042', 'serial number')
    t.match(r'opcode 0x06 \(Identify\): success, result 0x0+\n0000: ([0-9a-f]{2} ){16}".{16}"\n0010:',
            t.rdinit(*args).text)
    got = json.loads(t.rdinit(*args, '--output-format', 'json').text)
    same(t, bytes.fromhex(got['data']), data)
    t.rdinit(*args, '--input-file', t.path('id'))
    with open(t.path('id'), 'rb') as f:
        same(t, f.read(), data)
    # nvme-cli's letters
    same(t, t.rdinit('admin-passthru', target.uri(None), '-o', '6', '-4', '1', '-l', '4096', '-r',
                     '-b').out, data)


@test
def a_result_without_data(t):
    """Number of Queues: the granted number is in the result."""
    target = serve(t)
    got = json.loads(t.rdinit('admin-passthru', target.uri(None), '--opcode', '0x0a', '--cdw10', '7',
                              '--output-format', 'json').text)
    t.ok(got['result'] >> 16 == got['result'] & 0xFFFF, f'result {got["result"]:#x}')
    t.ok('data' not in got, 'data without --read')


@test
def write_and_read(t):
    """In the capsule, by key, from a file and from standard input."""
    target = serve(t)
    for blocks in 1, 16, 128:
        data = os.urandom(blocks * BLOCK)
        args = ['io-passthru', target.uri(1), '--cdw10', '5', '--cdw12', str(blocks - 1), '--data-len',
                str(len(data))]
        t.rdinit(*args, '--opcode', '1', '--write', '-i', t.file('in', data))
        t.same(t.rdinit(*args, '--opcode', '2', '--read', '--raw-binary').out, data)
        t.same(t.rdinit('read', target.uri(), '--start-block', '5', '--block-count', str(blocks - 1)).out,
               data)
    data = os.urandom(BLOCK)
    t.rdinit('io-passthru', target.uri(1), '--opcode', '1', '--data-len', '512', '--write', input=data)
    t.same(t.rdinit('read', target.uri(), '--data-size', '512').out, data)


@test
def the_controllers_refusals(t):
    """rdinit checks nothing: wrong commands reach the controller and are answered with its status."""
    target = serve(t)
    res = t.rdinit('admin-passthru', target.uri(None), '--opcode', '0xc1', rc=1)
    t.match(r'Invalid (Command )?Op(code|eration)', res.err)
    res = t.rdinit('io-passthru', target.uri(1), '--opcode', '2', '--cdw10', '0xffffffff', '--data-len',
                   '512', '--read', rc=1)
    t.match('LBA', res.err)
    res = t.rdinit('io-passthru', target.uri(None), '--opcode', '2', '--namespace-id', '0xffffffff',
                   '--data-len', '512', '--read', rc=1)
    t.match('(?i)namespace|field', res.err)


@test
def show_and_dry_run(t):
    target = serve(t)
    args = ['io-passthru', target.uri(1), '--opcode', '8', '--cdw10', '3']
    before = t.rdinit('read', target.uri(), '--data-size', '8192').out
    res = t.rdinit(*args, '--dry-run')
    t.eq(res.out, b'')
    t.match(r'opcode : 08\n(.*\n)*nsid   : 00000001\n(.*\n)*cdw10  : 00000003', res.err)
    t.same(t.rdinit('read', target.uri(), '--data-size', '8192').out, before)
    res = t.rdinit('admin-passthru', target.uri(None), '--opcode', '0x18', '--show-command')
    t.match('opcode : 18', res.err)
    t.match('success', res.text)


@test
def wrong_usage(t):
    target = serve(t)
    uri = target.uri(1)
    for args, says in ((['--cdw10', '1'], '--opcode is missing'),
                       (['--opcode', '256'], 'found 256, expected 0 to 255'),
                       (['--opcode', '2', '--data-len', '512'], '--read or --write'),
                       (['--opcode', '2', '--read'], '--data-len'),
                       (['--opcode', '2', '--read', '--write', '--data-len', '4'], 'mutually exclusive')):
        t.match(says, t.rdinit('io-passthru', uri, *args, rc=2).err)
    res = t.rdinit('io-passthru', uri, '--opcode', '1', '--write', '--data-len', '512', rc=1,
                   input=b'short')
    t.match('standard input: 5 bytes, --data-len says 512', res.err)


if __name__ == '__main__':
    sys.exit(main())
