# SPDX-License-Identifier: BSD-3-Clause
"""A namespace through nbdkit's rdinit plugin: the properties that clients see, and data in both directions."""

import json
import os
import random
import re
import signal
import socket
import subprocess

import t_auth
import t_tls
from t_loop import (ADDR, DEADLINE, HOST_NAME, NQN, Failure, Skip, each, main, preloaded, program, requires_disk,
                    requires_engine, requires_native, requires_program, test, wait_for)
from t_nbdkit import Client, serving
from t_proxy import Proxy

SIZE = 16 << 20


def command(client, *params):
    requires_native()  # nbdkit has no sanitizer of ours
    return [requires_program('nbdkit'), '-U', '-', program('nbdkit_rdinit'), *params, '--run', client]


def nbdkit(t, uri, client, *params, rc=0):
    """Run a shell command as the client of an nbdkit that exists as long as the command."""
    argv = command(client, uri, *params)
    res = t.run(argv)
    if res.rc != rc:
        raise Failure(f'{" ".join(argv)}: exit {res.rc}, expected {rc}\n{res.err}{res.text}')
    return res


def requires_tools(*names):
    for name in names:
        requires_program(name)


def background(t, client, *params):
    """The same without waiting for its end."""
    return t.spawn('nbdkit', command(client, *params))


def serve(t, **keys):
    return t.target([t.namespace(size=SIZE, **keys)])


def a_part_was_copied(proxy):
    """Slow down, so that the test is in the middle of the copy whatever it does next."""
    proxy.delay(0.05)
    goal = proxy.forwarded + (1 << 20)
    wait_for(lambda: proxy.forwarded > goal, 'a part of the copy')


def pattern(seed=1):
    data = bytearray(random.Random(seed).randbytes(SIZE))
    data[3 << 20:9 << 20] = bytes(6 << 20)  # zeroes arrive by Write Zeroes
    return bytes(data)


def check_content(t, target, data):
    t.same(t.rdinit('read', target.uri(), '--data', '-', '--data-size', str(SIZE)).out, data, 'the namespace')


@test
def clients_are_told_what_a_namespace_can_do(t):
    requires_tools('nbdinfo')
    target = serve(t, block_size=4096)
    info = json.loads(nbdkit(t, target.uri(), 'nbdinfo --json "$uri"').text)['exports'][0]
    for key, want in (('export-size', SIZE), ('is_read_only', False), ('can_multi_conn', True), ('can_fua', True),
                      ('can_flush', True), ('can_trim', True), ('can_zero', True), ('can_fast_zero', True),
                      ('block_size_minimum', 4096)):
        got = info[key]
        t.eq(int(str(got).split()[0]) if isinstance(want, int) and not isinstance(want, bool) else got, want, key)


@test
def a_uri_that_rdinit_lists_names_the_same_namespace(t):
    """Decoded as the other one it would be another disk."""
    requires_tools('nbdinfo')
    sizes = {'nqn.2024-01.test:db-1': 1, 'nqn.2024-01.test:db%2D1': 2, 'nqn.2024-01.test:pool/vol1': 3}
    target = t.target(subsystems=[{'nqn': nqn, 'allow_any_host': True, 'namespaces': [
        t.namespace(mib, backend='memory', size=f'{mib}MiB')]} for nqn, mib in sizes.items()])
    listed = json.loads(t.rdinit('list', target.uri(None, None), '-o', 'json').text)['Devices']
    t.eq(sorted(one['NameSpace'] for one in listed), [1, 2, 3], 'namespaces')
    for one in listed:
        size = nbdkit(t, one['DevicePath'], 'nbdinfo --size "$uri"').text.strip()
        t.eq(int(size), one['NameSpace'] << 20, one['DevicePath'])


@test
def a_target_that_demands_authentication(t):
    requires_tools('nbdinfo')
    name = 'nqn.2024-01.test:nbdkit'
    target = t_auth.serve(t, host=name, hosts=[name], ctrl_secret=t_auth.CTRL_SECRET)
    keys = [f'dhchap-secret-file={t.path("host.key")}', f'dhchap-ctrl-secret-file={t.path("host.ctrl.key")}']
    nbdkit(t, target.uri(), 'nbdinfo --size "$uri"', f'hostnqn={name}', *keys, 'dhchap-hashes=sha512',
           'dhchap-dhgroups=ffdhe3072,ffdhe4096')
    target.expect(f'authenticated host {name} .*: SHA-512, ffdhe3072, and the controller$')
    t.match('dhchap-dhgroups=: .*expected a list of null, ffdhe2048',
            nbdkit(t, target.uri(), 'true', 'dhchap-dhgroups=ffdhe', rc=1).err)
    res = nbdkit(t, target.uri(), 'nbdinfo --size "$uri"', f'hostnqn={name}', rc=1)
    t.match('there is no secret for host NQN', res.err)
    t.match('needs dhchap-secret-file=', nbdkit(t, target.uri(), 'true', keys[1], rc=1).err)
    res = nbdkit(t, target.uri(), 'true', 'dhchap-secret-file=DHHC-1:00:AAEC', rc=1)
    t.ok('is the name of a file with a secret' in res.err and 'AAEC' not in res.err, res.err)


@test
def discovery_over_tls_leads_to_paths_with_tls(t):
    """Without a key it leads to the paths that demand none, or says what is missing."""
    target = t_tls.serve(t, listeners=[{'transport': 'tcp', 'tls': setting} for setting in ('required', 'allowed')])
    required, allowed = (f'discovery=nvme+tcp://{address}:{port}/{NQN}' for address, port in target.listeners)
    host, mine, size = f'hostnqn={t_tls.HOST}', f'tls-key-file={t_tls.key(t)}', 'nbdinfo --size "$uri"'
    for uri, key in ((required, [mine]), (allowed, [mine]), (allowed, [])):
        since = target.mark()
        t.eq(nbdkit(t, uri, size, host, *key).text.strip(), str(16 << 20), f'size by {uri} {key}')
        target.expect('controller .* disconnected: closed by the host', since=since)
        t.eq('TLS with ' in target.text(since), bool(key), f'TLS by {uri} {key}')
    t.match('closed the connection instead of answering ICReq', nbdkit(t, required, size, host, rc=1).err)


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
        t.eq(t.run([requires_program(argv[0]), *argv[1:]]).rc, 0, argv[0])
    nbdkit(t, target.uri(), f'qemu-img convert -n -O raw {qcow} "$uri" && qemu-img convert -f raw -O raw "$uri" {back}')
    with open(raw, 'rb') as a, open(back, 'rb') as b:
        t.same(b.read(), a.read(), 'the image')
    res = t.run([requires_program('e2fsck'), '-fn', back])
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
def clients_are_told_what_is_allocated(t):
    requires_tools('nbdinfo', 'nbdcopy')
    target = serve(t)
    t.rdinit('write', target.uri(), '--data', '-', '--offset', '1M', input=b'\xa5' * (1 << 16))
    t.rdinit('write', target.uri(), '--data', '-', '--offset', '5M', input=b'\xa5' * (1 << 16))
    extents = json.loads(nbdkit(t, target.uri(), 'nbdinfo --map --json "$uri"').text)
    t.eq([(e['offset'], e['length']) for e in extents if e['type'] == 0], [(1 << 20, 1 << 16), (5 << 20, 1 << 16)])
    t.eq(sum(e['length'] for e in extents), SIZE)
    nbdkit(t, target.uri(), f'nbdcopy "$uri" {t.path("out")}')
    with open(t.path('out'), 'rb') as f:
        t.same(f.read(), t.rdinit('read', target.uri(), '--data', '-', '--data-size', str(SIZE)).out, 'the copy')
    t.ok(os.stat(t.path('out')).st_blocks * 512 < 1 << 20, 'holes were filled')


@test
def fios_nbd_engine_reads_what_it_wrote(t):
    requires_tools('fio')
    if not re.search(r'(?m)^\s*nbd$', t.run(['fio', '--enghelp']).text):
        raise Skip('this fio has no nbd engine')
    target = serve(t)
    res = nbdkit(t, target.uri(), f'cd {t.dir} && fio --name=verify --ioengine=nbd --uri="$uri" --rw=randwrite '
                 f'--bsrange=4k-64k --blockalign=4k --size={SIZE} --iodepth=16 --verify=crc32c --fsync=64')
    t.match(r'err= 0\b', res.text)


@test
def a_target_that_is_killed_and_comes_back_is_not_noticed(t):
    requires_tools('nbdcopy')
    config = t.config([t.namespace(size=SIZE)])
    target = t.target(config=config, name='rdtarget_first')
    proxy = Proxy(t, target.addr, target.port)
    data = pattern()
    proxy.delay(0.05)
    proc = background(t, f'nbdcopy --connections=4 --flush {t.file("in", data)} "$uri"', proxy.uri(target), 'reconnect-delay=1')
    for number in range(2):
        a_part_was_copied(proxy)
        mark = proc.mark()
        target.kill()
        proc.expect(r'path 1: .*next attempt in', since=mark)
        config = t.config([t.namespace(size=SIZE)], target={'max_data_size': '16KiB'})  # and transfers less at once
        target = t.target(config=config, name=f'rdtarget_{number}')
        proxy.to = (target.addr, target.port)
        proc.expect(r'path 1 is connected again', since=mark)
    proxy.forward()
    t.eq(proc.wait(), 0, proc.text())
    check_content(t, target, data)


@test
def a_copy_goes_on_when_one_of_two_paths_is_lost(t):
    """Two targets with one file: the fence of one target does not know the writes of the other."""
    requires_tools('nbdcopy')
    ns = t.namespace(size=SIZE)
    env = preloaded('nolock')  # both may use one file
    targets = [t.target(config=t.config([ns], name=f'rdtarget_{i}.yaml'), name=f'rdtarget_{i}', env=env) for i in range(2)]
    proxies = [Proxy(t, target.addr, target.port) for target in targets]
    data = pattern()
    for proxy in proxies:
        proxy.delay(0.05)
    proc = background(t, f'nbdcopy --connections=4 --flush {t.file("in", data)} "$uri"',
                      *(p.uri(x) for p, x in zip(proxies, targets)), 'keep-alive-tmo=1', 'policy=round-robin')
    for proxy in proxies:
        a_part_was_copied(proxy)
    targets[0].kill()
    proc.expect(r'path 1: .*next attempt in')
    for proxy in proxies:
        proxy.forward()
    t.eq(proc.wait(), 0, f'nbdcopy:\n{proc.text()}')
    check_content(t, targets[1], data)


@test
def a_discovery_controller_names_the_paths(t):
    requires_tools('nbdcopy')
    target = serve(t)
    data = pattern(2)
    nbdkit(t, f'discovery={target.uri()}', f'nbdcopy --flush {t.file("in", data)} "$uri"')
    check_content(t, target, data)


@test
def without_a_path_requests_fail_after_the_time_that_was_asked_for(t):
    requires_tools('qemu-io')
    target = serve(t)
    out = t.path('out')
    res = nbdkit(t, target.uri(), f'(echo "read 0 4k"; until grep -q "read 4096" {out}; do sleep 0.05; done; '
                 f'kill -9 {target.pid}; echo "read 4k 4k"; echo quit) | stdbuf -oL qemu-io -f raw "$uri" >{out} 2>&1; true',
                 'fast-io-fail-tmo=1')
    with open(out, encoding='utf-8') as f:
        t.match('read failed: Input/output error', f.read())
    t.match(rf'nbdkit: rdinit\S*: error: {NQN}: Read: ', res.err)


@test
def a_request_that_waits_for_a_path_ends_with_its_client(t):
    requires_tools('qemu-io')
    requires_native()
    target = serve(t)
    sock = t.path('sock')
    proc = t.spawn('nbdkit', [requires_program('nbdkit'), '-f', '-v', '-U', sock, program('nbdkit_rdinit'), target.uri(),
                              'ctrl-loss-tmo=-1'])
    wait_for(lambda: os.path.exists(sock), "nbdkit's socket")
    client = t.spawn('qemu-io', [requires_program('qemu-io'), '-f', 'raw', f'nbd+unix:///?socket={sock}'],
                     stdin=subprocess.PIPE)
    proc.expect(r'debug: rdinit: get_size')
    target.kill()
    proc.expect(r'path 1: .*next attempt in')
    client.popen.stdin.write(b'read 4k 4k\n')
    client.popen.stdin.flush()
    proc.expect(r'debug: rdinit: pread count=4096 offset=4096')
    client.kill()
    proc.expect(r'the client has disconnected')
    proc.signal(signal.SIGTERM)
    t.eq(proc.wait(), 0, 'exit status of nbdkit')


@test
def a_read_only_namespace_is_a_read_only_disk(t):
    requires_tools('nbdinfo')
    t.file('ns1.img', bytes(SIZE))
    target = t.target([t.namespace(size=None, create=False, read_only=True)])
    t.eq(json.loads(nbdkit(t, target.uri(), 'nbdinfo --json "$uri"').text)['exports'][0]['is_read_only'], True, 'is_read_only')


@test
def a_new_client_is_told_what_the_namespace_is_now(t):
    """While an older client keeps the disk open."""
    target = t.target([t.namespace(size=SIZE, uuid='6f0c2b4e-6d0f-4a4e-9a56-0e9b7a3d5c11')], target={'state_dir': t.dir})
    _, path = serving(t, target.uri())
    first = Client(path)
    for protect in 1, 0:
        t.rdinit('set-feature', target.uri(), '-n', '1', '-f', '0x84', '-v', str(protect))

        def told():
            client = Client(path)
            client.close()
            return client.flags >> 1 & 1 == protect
        wait_for(told, f'a client that is told {"to only read" if protect else "that it may write"}')
    t.eq(first.flags & 2, 0, 'what the first client was told')
    first.close()


@test
def the_same_path_twice_is_named(t):
    requires_tools('nbdinfo')
    target = serve(t)
    t.match('is given twice', nbdkit(t, target.uri(), 'true', target.uri(), rc=1).err)
    by_name = target.uri().replace(target.host, HOST_NAME)
    # A name may have another address, which is another way; nobody listens there.
    others = {info[4][0] for info in socket.getaddrinfo(HOST_NAME, 0)} - {target.host}
    says = rf'path 2: .*({"|".join(map(re.escape, others))}).*: connection refused' if others else \
        'path [12]: .*give each path once'
    t.match(says, nbdkit(t, target.uri(), 'nbdinfo "$uri"', by_name).err)


@test
def a_wrong_parameter_or_target_is_named(t):
    target = serve(t)
    for uri, params, says in (
            ('nvme+rdma://127.0.0.1', (), 'names no subsystem'),
            ('nonsense', (), r'uri=nonsense: .*expected nvme\+rdma://'),
            (target.uri(), ('queues=0',), 'queues=0: expected 1 to 64'),
            (target.uri(), ('policy=x',), 'policy=x: expected round-robin, queue-depth or failover'),
            (target.uri(), ('ctrl-loss-tmo=4000001',), 'ctrl-loss-tmo=4000001 is not a number of seconds from 0 to 4000000, or -1'),
            (target.uri(), ('keep-alive-tmo=0',), 'keep-alive-tmo=0 is not a number of seconds from 1 to'),
            ('discovery=nvme+rdma://127.0.0.1', (), 'discovery=.* names no subsystem'),
            ('queues=1', (), 'no namespace: give uri='),
            (target.uri(), ('hostid=me',), 'the host identifier "me" is not a UUID'),
            (target.uri(), ('hostnqn=a b',), 'the host NQN "a b"'),
            (target.uri(), ('host-traddr=here',), 'host_traddr "here" is not'),
            (target.uri(), ('provider=pigeon',), 'auto, iwarp or verbs'),
            (target.uri(), ('fast-io-fail-tmo=9', 'ctrl-loss-tmo=8'), 'fast_io_fail_tmo_ms .9000. is longer than ctrl_loss_tmo_ms'),
            (target.uri(), ('dhchap-secret-file=/nothing',), 'dhchap-secret-file=/nothing: .*a file that exists'),
            (target.uri(), (f'dhchap-secret-file={t.file("short", b"DHHC-1:")}',), 'secret'),
            (target.uri(), ('uris=x',), '"uris" is not a parameter of this plugin')):
        t.match(says, nbdkit(t, uri, 'true', *params, rc=1).err)
    requires_tools('nbdinfo')
    t.match('namespace 7', nbdkit(t, target.uri(7), 'nbdinfo "$uri"', rc=1).err)
    res = nbdkit(t, target.uri(1, f'{NQN[:-4]}other'), 'nbdinfo "$uri"', 'hostnqn=nqn.2024-01.test:me', rc=1)
    t.match(f'NQN "{NQN[:-4]}other".*does not allow the host NQN "nqn.2024-01.test:me" .option hostnqn.', res.err)


main()
