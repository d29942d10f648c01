# SPDX-License-Identifier: BSD-3-Clause
"""A namespace through nbdkit's rdinit plugin: what clients are told, and that data arrives both ways."""

import json
import os
import random
import re

from t_loop import NQN, SANITIZED, Failure, Skip, main, program, requires_disk, requires_engine, requires_program, test

SIZE = 16 << 20


def nbdkit(t, uri, client, *params, rc=0):
    """Run a shell command as the client of an nbdkit that exists as long as the command."""
    if SANITIZED:
        raise Skip('nbdkit has no sanitizer of ours')
    argv = [requires_program('nbdkit'), '-U', '-', program('nbdkit_rdinit'), uri, *params, '--run', client]
    res = t.run(argv, wrap=False)
    if res.rc != rc:
        raise Failure(f'{" ".join(argv)}: exit {res.rc}, expected {rc}\n{res.err}{res.text}')
    return res


def requires_tools(*names):
    for name in names:
        requires_program(name)


def serve(t, **keys):
    return t.target([t.namespace(size=SIZE, **keys)])


@test
def clients_are_told_what_a_namespace_can_do(t):
    requires_tools('nbdinfo')
    requires_engine('io_uring')  # aio has no Deallocate
    target = serve(t, block_size=4096)
    info = json.loads(nbdkit(t, target.uri(), 'nbdinfo --json "$uri"').text)['exports'][0]
    for key, want in (('export-size', SIZE), ('is_read_only', False), ('can_multi_conn', True), ('can_fua', True),
                      ('can_flush', True), ('can_trim', True), ('can_zero', True), ('can_fast_zero', True),
                      ('block_size_minimum', 4096)):
        got = info[key]
        t.eq(int(str(got).split()[0]) if isinstance(want, int) and not isinstance(want, bool) else got, want, key)


@test
def nbdcopy_brings_the_same_bytes_back(t):
    requires_tools('nbdcopy')
    target = serve(t)
    data = bytearray(random.Random(1).randbytes(SIZE))
    data[3 << 20:9 << 20] = bytes(6 << 20)  # zeroes arrive by Write Zeroes
    src = t.file('in', bytes(data))
    # Old data must not show through the zeroes.
    t.rdinit('write', target.uri(), '--data', t.file('before', b'\xa5' * SIZE))
    nbdkit(t, target.uri(), f'nbdcopy --connections=4 --flush {src} "$uri"')
    t.same(t.rdinit('read', target.uri(), '--data', '-', '--data-size', str(SIZE)).out, bytes(data), 'the namespace')
    nbdkit(t, target.uri(), f'nbdcopy --connections=4 "$uri" {t.path("out")}', 'queues=2')
    with open(t.path('out'), 'rb') as f:
        t.same(f.read(), bytes(data), 'what nbdcopy read')


@test
def a_disk_image_with_a_file_system_survives_qemu_img(t):
    requires_tools('qemu-img', 'mkfs.ext4', 'e2fsck')
    requires_disk(t.dir, 8 * SIZE)
    target = serve(t)
    os.mkdir(t.path('tree'))
    for i in range(8):
        t.file(f'tree/{i}', random.Random(i).randbytes(300000 + i))
    raw, qcow, back = t.path('disk.raw'), t.path('disk.qcow2'), t.path('back.raw')
    for argv in (['mkfs.ext4', '-q', '-d', t.path('tree'), raw, str(SIZE >> 10)],
                 ['qemu-img', 'convert', '-O', 'qcow2', raw, qcow]):
        t.eq(t.run([requires_program(argv[0]), *argv[1:]], wrap=False).rc, 0, argv[0])
    nbdkit(t, target.uri(), f'qemu-img convert -n -O raw {qcow} "$uri" && qemu-img convert -f raw -O raw "$uri" {back}')
    with open(raw, 'rb') as a, open(back, 'rb') as b:
        t.same(b.read(), a.read(), 'the image')
    res = t.run([requires_program('e2fsck'), '-fn', back], wrap=False)
    t.eq(res.rc, 0, f'e2fsck of what came back ({res.text})')


@test
def a_trim_deallocates(t):
    requires_tools('qemu-io')
    requires_engine('io_uring')
    target = serve(t)
    t.rdinit('write', target.uri(), '--data', t.file('in', b'\xa5' * SIZE))
    before = os.stat(t.path('ns1.img')).st_blocks
    nbdkit(t, target.uri(), 'qemu-io -f raw -c "discard 0 8M" -c "write -z -f 8M 1M" -c "flush" "$uri"')
    t.ok(os.stat(t.path('ns1.img')).st_blocks < before, 'a trim gave no space back')
    t.same(t.rdinit('read', target.uri(), '--offset', '8M', '--data-size', '1M', '--data', '-').out, bytes(1 << 20),
           'zeroed bytes')
    t.same(t.rdinit('read', target.uri(), '--offset', '9M', '--data-size', '1M', '--data', '-').out, b'\xa5' * (1 << 20),
           'bytes behind them')


@test
def fios_nbd_engine_reads_what_it_wrote(t):
    requires_tools('fio')
    if not re.search(r'(?m)^\s*nbd$', t.run(['fio', '--enghelp'], wrap=False).text):
        raise Skip('this fio has no nbd engine')
    target = serve(t)
    res = nbdkit(t, target.uri(), f'cd {t.dir} && fio --name=verify --ioengine=nbd --uri="$uri" --rw=randwrite '
                 f'--bsrange=4k-64k --blockalign=4k --size={SIZE} --iodepth=16 --verify=crc32c --fsync=64')
    t.match(r'err= 0\b', res.text)


@test
def a_target_that_is_gone_is_an_error_and_no_hang(t):
    requires_tools('qemu-io')
    target = serve(t)
    out = t.path('out')
    res = nbdkit(t, target.uri(), f'(echo "read 0 4k"; until grep -q "read 4096" {out}; do sleep 0.05; done; '
                 f'kill -9 {target.pid}; echo "read 4k 4k"; echo quit) | stdbuf -oL qemu-io -f raw "$uri" >{out} 2>&1; true')
    with open(out, encoding='utf-8') as f:
        t.match('read failed: ', f.read())
    t.match(r'nbdkit: rdinit\S*: error: rdinit_read: ', res.err)


@test
def a_wrong_parameter_or_target_is_named(t):
    target = serve(t)
    for uri, params, says in (
            ('nvme+rdma://127.0.0.1', (), 'names no subsystem'),
            ('nonsense', (), r'uri=nonsense: .*expected nvme\+rdma://'),
            (target.uri(), ('queues=0',), 'queues=0 is not from 1 to 64'),
            (target.uri(), ('uris=x',), '"uris" is not a parameter of this plugin')):
        t.match(says, nbdkit(t, uri, 'true', *params, rc=1).err)
    requires_tools('nbdinfo')
    t.match('namespace 7', nbdkit(t, target.uri(7), 'nbdinfo "$uri"', rc=1).err)
    t.match('nqn.2024-01.test:other', nbdkit(t, target.uri(1, f'{NQN[:-4]}other'), 'nbdinfo "$uri"', rc=1).err)


main(fabrics=('iwarp',))
