# SPDX-License-Identifier: BSD-3-Clause
"""Images of Ceph as namespaces, in a cluster of one node that this program makes: I/O, sizes, and a cluster that is away."""

import json
import os
import signal
import struct
import sys
import time

import nvmf_peer as nv
from t_ceph import AWAY, POOL, cluster
from t_dev import Device
from t_loop import DEADLINE, LONG, SANITIZED, SOURCE_ROOT, main, program, requires_program, test, wait_for
from t_rbd import configured, control, export, serve
from t_serving import host
from t_storage import MIB, pattern, zeroes_and_deallocated

LBA_RANGE = 0x080
WRITE_PROTECTED = 0x020
NGUID = slice(104, 120)


# ---- I/O ----

@test
def what_a_host_writes_is_in_the_image(t):
    image = cluster().image('8M')
    target = serve(t, [cluster().namespace(1, image)])
    data = pattern(1, 8 * MIB)
    t.rdinit('write', target.uri(), '--data', t.file('data', data))
    t.same(t.rdinit('read', target.uri(), '-z', '8M').out, data)
    t.same(export(t, image), data)


@test
def random_verified_io_with_several_queues(t):
    target = serve(t, [cluster().namespace(1, cluster().image('64M'))])
    res = t.run([program('rdverify'), target.uri(), '--seconds', '2', '--queues', '4', '--range', 16 * MIB])
    t.eq(res.rc, 0, res.text + res.err)


@test
def zeroes_deallocated_blocks_fua_and_flush(t):
    image = cluster().image('8M')
    target = serve(t, [cluster().namespace(1, image)])
    zeroes_and_deallocated(t, target, lambda: export(t, image))


@test
def two_targets_show_the_same_identity_of_an_image_and_another_of_another(t):
    images = [cluster().image('8M') for _ in range(2)]
    seen = []
    for name, order in (('one', images), ('two', images[::-1])):
        target = serve(t, [cluster().namespace(i + 1, x, read_only=True) for i, x in enumerate(order)], name=name)
        with host(target) as h:
            h.enable()
            ids = [nv.expect_data(h.admin.identify(0, nsid=nsid)) for nsid in (1, 2)]
            seen.append([x[NGUID] for x in ids])
            t.eq([struct.unpack_from('<H', x, 46)[0] for x in ids], [8192, 8192], 'NOIOB')
    t.eq(seen[0], seen[1][::-1])
    t.ok(seen[0][0] != seen[0][1] and any(seen[0][0]), 'NGUIDs')


# ---- librbd's cache ----

# What is written stays in the cache.
CACHE = ['rbd_cache_policy=writeback', 'rbd_cache_writethrough_until_flush=false', 'rbd_cache_max_dirty_age=3600',
         'rbd_cache_target_dirty=20971520']


def cached(t, image, name='rdtarget', **keys):
    return serve(t, [cluster().namespace(1, image, rbd={'cache': True}, **keys)], ceph={'options': CACHE}, name=name)


def write(t, target, number, *args):
    """A block of 4 KiB."""
    data = pattern(number, 4096)
    t.rdinit('write', target.uri(), '--data', t.file('data', data), '-s', str(number * 8), '--no-flush', *args)
    return data


def has_cache(t, target):
    """What Identify Controller says."""
    with host(target) as h:
        h.enable()
        present = nv.expect_data(h.admin.identify(1))[525] & 1
        h.shutdown()
    return present


@test
def a_cache_is_announced_and_what_is_flushed_is_stored(t):
    image = cluster().image('8M')
    target = cached(t, image)
    t.eq(has_cache(t, target), 1, 'VWC')
    data = write(t, target, 0) + write(t, target, 1)
    t.rdinit('flush', target.uri())
    data += write(t, target, 2)
    t.same(t.rdinit('read', target.uri(), '-z', '12k').out, data)
    target.kill()
    t.same(export(t, image)[:12288], data[:8192] + bytes(4096), 'only what was flushed')


@test
def with_a_cache_a_write_with_fua_is_stored(t):
    image = cluster().image('8M')
    target = cached(t, image)
    data = write(t, target, 0, '--fua')
    target.kill()
    t.same(export(t, image)[:4096], data)


@test
def what_is_in_a_cache_is_stored_when_the_target_ends(t):
    image = cluster().image('8M')
    target = cached(t, image)
    data = write(t, target, 0)
    target.stop()
    t.same(export(t, image)[:4096], data)


@test
def writes_fail_after_a_cache_was_lost(t):
    image = cluster().image('8M')
    target = cached(t, image)
    write(t, target, 0)
    for address in cluster().watchers(image):
        cluster().block(address)
    t.rdinit('flush', target.uri(), rc=1)
    target.expect(r'image rbd/img\d+ is open again')
    res = t.rdinit('flush', target.uri(), rc=1)
    t.match('Write Fault', res.err)
    with control(t) as c:
        t.match('sync-failed', str(c.call('namespace.list')))


@test
def without_the_key_no_cache_is_used(t):
    """Ceph's configuration has one on: of the image, of the pool, of the cluster."""
    image = cluster().image('8M')
    target = serve(t, [cluster().namespace(1, image)], name='without')
    t.eq(has_cache(t, target), 0, 'VWC')
    target.stop()
    refused(t, image, r'of the cluster \(options\)', 'rbd_cache=true')
    cluster().run('rbd', 'config', 'image', 'set', f'{POOL}/{image}', 'rbd_cache', 'true')
    refused(t, image, r'of the image \(rbd config image rm\)')
    cluster().run('rbd', 'config', 'image', 'rm', f'{POOL}/{image}', 'rbd_cache')
    cluster().run('rbd', 'config', 'pool', 'set', POOL, 'rbd_cache', 'true')
    t.cleanup(cluster().run, 'rbd', 'config', 'pool', 'rm', POOL, 'rbd_cache')
    refused(t, image, r'of the pool \(rbd config pool rm\)')
    cluster().run('rbd', 'config', 'image', 'set', f'{POOL}/{image}', 'rbd_cache', 'false')
    refused(t, cluster().image('8M'), r'of the pool \(rbd config pool rm\)')
    serve(t, [cluster().namespace(1, image)], name='off').stop()


def refused(t, image, where, *options):
    config = configured(t, [cluster().namespace(1, image)], name='refused.yaml', ceph={'options': list(options)})
    res = t.run([program('rdtarget'), '-c', config, '--check=full'])
    t.eq(res.rc, 1, res.err)
    t.match(f'rbd_cache is true in the configuration {where}, expected false', res.err)


# ---- the image changes ----

@test
def a_resize_is_seen_by_a_connected_host(t):
    image = cluster().image('16M')
    target = serve(t, [cluster().namespace(1, image)])
    dev = Device(t, [target.uri()])
    for size, blocks in (('32M', 65536), ('24M', 49152)):
        cluster().run('rbd', 'resize', '--no-progress', '--allow-shrink', '--size', size, f'{POOL}/{image}')
        dev.proc.expect(rf'^event resized {blocks}$')
    dev.goes_on()
    dev.finish()


@test
def an_image_without_a_block_has_an_empty_namespace_until_it_grows(t):
    image = cluster().image('8M')
    target = serve(t, [cluster().namespace(1, image)])
    with host(target) as h:
        h.enable()
        q = h.add_io()
        for size, blocks, status in (('0', 0, LBA_RANGE), ('8M', 16384, 0)):
            since = target.mark()
            cluster().run('rbd', 'resize', '--no-progress', '--allow-shrink', '--size', size, f'{POOL}/{image}')
            target.expect(rf'namespace 1: resized, {blocks} blocks', since=since)
            t.eq(q.read_blocks(1, 0, 1)[0].status, status)
            nv.expect_data(h.admin.identify(0, nsid=1))


@test
def a_snapshot_is_read_and_not_written(t):
    image = cluster().image('8M')
    target = serve(t, [cluster().namespace(1, image)])
    old, new = pattern(1, 65536), pattern(2, 65536)
    t.rdinit('write', target.uri(), '--data', t.file('old', old))
    cluster().run('rbd', 'snap', 'create', '--no-progress', f'{POOL}/{image}@before')
    t.rdinit('write', target.uri(), '--data', t.file('new', new))
    snap = serve(t, [cluster().namespace(1, image, rbd={'snapshot': 'before'}, read_only=True)], name='snap')
    t.same(t.rdinit('read', snap.uri(), '-z', '64k').out, old)
    t.same(t.rdinit('read', target.uri(), '-z', '64k').out, new)
    with host(snap) as h:
        h.enable()
        t.eq(h.add_io().write_blocks(1, 0, bytes(512)).status, WRITE_PROTECTED)


# ---- encryption ----

def encrypted_image(t, encryption, size='64M'):
    """An image with this encryption, and the path of the file with its passphrase."""
    image, key = cluster().image(size), t.file('key', b'correct horse battery\n')
    os.chmod(key, 0o600)
    passphrase = t.file('passphrase', b'correct horse battery')  # the command rbd uses the whole file
    cluster().run('rbd', 'encryption', 'format', f'{POOL}/{image}', encryption, passphrase)
    return image, key


def decrypted(image, encryption, key, **rbd):
    return cluster().namespace(1, image, rbd={'encryption': encryption, 'encryption_key_file': key, **rbd})


def replace_key(path, text):
    with open(path, 'w', encoding='ascii') as f:
        f.write(text)


def what_is_written_is_encrypted(t, encryption):
    image, key = encrypted_image(t, encryption)
    config = configured(t, [decrypted(image, encryption, key)])
    t.match('OK, and this machine has what it needs', t.run([program('rdtarget'), '-c', config, '--check=full']).text)
    target = t.target(config=config)
    with control(t) as c:
        wait_for(lambda: c.call('namespace.list')['namespaces'][0]['state'] == 'live', 'the image to be open')
        blocks = c.call('namespace.list')['namespaces'][0]['blocks']
    t.ok(0 < blocks < 64 * MIB // 512, f'{blocks} blocks')
    data = pattern(1, 65536)
    t.rdinit('write', target.uri(), '--data', t.file('data', data))
    t.rdinit('write', target.uri(), '--data', t.file('last', data[:4096]), '--start-block', blocks - 8)
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        nv.expect(queue.write_blocks(1, 3, data[:1024], fua=True))  # a part of what is encrypted as a whole
        nv.expect(queue.call(nv.sqe(0x08, queue.next_cid(), nsid=1, cdw10=17, cdw12=8)))  # Write Zeroes
        t.eq(nv.expect_data(h.admin.identify(1))[520] & 0x0c, 0x08, 'ONCS: Write Zeroes, no Dataset Management')
        t.eq(queue.read_blocks(1, blocks, 1)[0].status, LBA_RANGE)
    want = bytearray(data)
    want[3 * 512:5 * 512], want[17 * 512:26 * 512] = data[:1024], bytes(9 * 512)
    t.same(t.rdinit('read', target.uri(), '-z', '64k').out, bytes(want))
    t.ok(data[4096:8192] not in export(t, image), 'the image has it in the clear')
    since = target.mark()
    cluster().run('rbd', 'resize', '--no-progress', '--size', '72M', f'{POOL}/{image}')
    target.expect(rf'namespace 1: resized, {blocks + 8 * MIB // 512} blocks', since=since)
    t.ok('battery' not in target.text(), 'the key is in the log')


@test
def what_is_written_to_an_image_with_luks1_is_encrypted(t):
    what_is_written_is_encrypted(t, 'luks1')


@test
def what_is_written_to_an_image_with_luks2_is_encrypted(t):
    what_is_written_is_encrypted(t, 'luks2')


@test
def a_key_that_does_not_fit_is_tried_again_from_its_file(t):
    image, key = encrypted_image(t, 'luks1')
    replace_key(key, 'wrong')
    target = serve(t, [t.namespace(2, backend='memory'), decrypted(image, 'luks1', key)])
    target.expect(rf'namespace 1: .*{key} does not match, expected the passphrase of one of the image\'s key slots')
    with control(t) as c:
        t.eq([ns['state'] for ns in c.call('namespace.list')['namespaces'] if ns['nsid'] == 1], ['failed'])
    os.chmod(key, 0o644)
    target.expect(rf'{key} can be used by others \(mode 0644\), expected mode 0600 or 0400')
    os.chmod(key, 0o600)
    replace_key(key, 'correct horse battery')
    target.expect(r'namespace 1: added, \d+ blocks')
    t.eq(len(t.rdinit('read', target.uri(), '-z', '4k').out), 4096)


@test
def an_image_without_the_encryption_is_not_served(t):
    plain, key = cluster().image('8M'), t.file('key', b'anything')
    os.chmod(key, 0o600)
    target = serve(t, [t.namespace(2, backend='memory'), decrypted(plain, 'luks2', key)])
    target.expect(r'namespace 1: .*its encryption cannot be used: .*; expected an image that was formatted by '
                  r'"rbd encryption format IMAGE luks2 FILE"')


@test
def a_gateway_that_takes_an_encrypted_image_over_has_its_data(t):
    """The other one opens the image with the key that its file has then."""
    image, key = encrypted_image(t, 'luks1')
    other = t.file('other', b'correct horse battery')
    os.chmod(other, 0o600)
    one = serve(t, [decrypted(image, 'luks1', key, lock='exclusive')], name='one')
    one.expect('its lock is held here')
    data = pattern(4, 65536)
    t.rdinit('write', one.uri(), '--data', t.file('data', data))
    two = serve(t, [decrypted(image, 'luks1', other, lock='exclusive')], name='two')
    two.expect('another client holds its lock')
    replace_key(key, 'wrong')
    with control(t, 'two') as c:
        t.eq(c.call('ana.claim', group=1, action='take'), {'namespaces': 1})
    two.expect('its lock is held here')
    t.same(t.rdinit('read', two.uri(), '-z', '64k').out, data)
    one.expect(r'its encryption cannot be used: .* does not match.*trying again')
    replace_key(key, 'correct horse battery')
    one.expect(r'image rbd/img\d+ is open again')
    one.expect('another client holds its lock')


# ---- many images ----

@test
def many_images_need_no_thread_and_little_memory_each(t):
    count = 1000 if LONG else 200
    images = cluster().many_images(count, 1 << 20)
    used = []
    for number in (10, count):
        begin = time.monotonic()
        target = serve(t, [cluster().namespace(1 + i, images[i], rbd={'lock': 'exclusive'}) for i in range(number)],
                       name=f'with{number}')
        wait_for(lambda n=number, x=target: x.text().count('its lock is held here') == n, 'all locks to be held')
        t.eq(t.rdinit('read', target.uri(number), '-z', '4k').out, bytes(4096))
        used.append((len(os.listdir(f'/proc/{target.pid}/task')), target.rss()))
        t.note(f'{number} images: {used[-1][0]} threads, {used[-1][1] / MIB:.0f} MiB, served with their locks after '
               f'{time.monotonic() - begin:.1f} s')
        target.stop()
    t.ok(used[1][0] <= used[0][0] + 20, f'threads: {used}')
    if not SANITIZED:  # which keeps what was freed
        t.ok(used[1][1] - used[0][1] < (count - 10) * MIB, f'bytes: {used}')


# ---- mistakes, and a cluster that is away ----

@test
def an_image_that_does_not_exist_is_an_error_at_the_start(t):
    config = configured(t, [cluster().namespace(1, 'missing')], target={'start': 'all-or-nothing'})
    for args in ((), ('--check=full',)):
        res = t.run([program('rdtarget'), '-c', config, *args])
        t.eq(res.rc, 1)
        t.match(r'namespace 1: rbd: image rbd/missing: the image cannot be opened: No such file or directory; '
                r'expected an existing one', res.err)
    cluster().run('rbd', 'create', '--size', '8M', f'{POOL}/missing')
    t.match('OK, and this machine has what it needs', t.run([program('rdtarget'), '-c', config, '--check=full']).text)
    cluster().run('rbd', 'rm', '--no-progress', f'{POOL}/missing')


@test
def a_user_without_the_right_key_is_an_error_at_the_start(t):
    keyring = t.file('wrong', b'[client.gateway]\nkey = AQAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAAAAAA==\n')
    config = configured(t, [cluster().namespace(1, cluster().image('8M'))], ceph={'keyring': keyring},
                        target={'start': 'all-or-nothing'})
    res = t.run([program('rdtarget'), '-c', config])
    t.eq(res.rc, 1)
    t.match(r"ceph: cannot connect to the cluster test as client\.gateway: .*; check its monitors and the user's key",
            res.err)


@test
def an_image_that_is_created_later_appears(t):
    target = t.target(config=configured(t, [t.namespace(1, backend='memory')]))
    configured(t, [t.namespace(1, backend='memory'), cluster().namespace(2, 'later')])
    since = target.mark()
    target.reload('reloaded in part: 1 problem')
    target.expect(r'namespace 2: is being opened', since=since)
    target.expect(r'namespace 2: rbd: image rbd/later: the image cannot be opened', since=since)
    t.eq(t.rdinit('list-ns', target.uri(nsid=None), '-o', 'json').text.count('"nsid"'), 1, 'namespaces')
    cluster().run('rbd', 'create', '--size', '8M', f'{POOL}/later')
    target.expect(r'namespace 2: added, 16384 blocks', since=since)
    t.eq(t.rdinit('read', target.uri(2), '-z', '4k').out, bytes(4096))
    configured(t, [t.namespace(1, backend='memory'), cluster().namespace(3, 'never')])
    target.reload('reloaded in part: 1 removed, 1 problem')
    configured(t, [t.namespace(1, backend='memory')])
    t.match('1 removed', target.reload())


@test
def a_cluster_that_is_away_at_the_start_does_not_stop_the_others(t):
    image = cluster().image('8M')
    config = configured(t, [t.namespace(1, backend='memory'), cluster().namespace(2, image)])
    cluster().signal('mon', signal.SIGSTOP)
    t.cleanup(cluster().signal, 'mon', signal.SIGCONT)
    target = t.target(config=config)
    target.expect(r'namespace 2: its storage does not answer yet')
    t.eq(t.rdinit('read', target.uri(1), '-z', '4k').out, bytes(4096))
    cluster().signal('mon', signal.SIGCONT)
    target.expect(r'namespace 2: added, 16384 blocks')
    t.eq(t.rdinit('read', target.uri(2), '-z', '4k').out, bytes(4096))


def set_away(key, value):
    cluster().run('ceph', 'osd', 'pool', 'set', AWAY, key, value, *(['--yes-i-really-mean-it'] * (value == 1)))


def make_away(images):
    """The pool that tests stop, with images img0, img1 and so on."""
    cluster().run('ceph', 'osd', 'pool', 'create', AWAY, '1', '1')
    cluster().run('rbd', 'pool', 'init', AWAY)
    have = cluster().run('rbd', 'ls', AWAY).split()
    for i in range(images):
        if f'img{i}' not in have:
            cluster().run('rbd', 'create', '--size', '8M', f'{AWAY}/img{i}')


def hang_away(t):
    """From now to the end of the test all I/O of the pool waits: a copy has no place."""
    for key, value in (('size', 2), ('min_size', 2)):
        set_away(key, value)
    t.cleanup(set_away, 'size', 1)
    t.cleanup(set_away, 'min_size', 1)


@test
def a_pool_that_is_away_does_not_stop_another_pool(t):
    """More of its images are being opened than there are threads for that."""
    count = 18
    make_away(count)
    hang_away(t)
    target = serve(t, [cluster().namespace(1 + i, f'img{i}', rbd={'pool': AWAY}) for i in range(count)] +
                   [cluster().namespace(99, cluster().image('8M'))])
    target.expect(rf'namespace {count}: its storage does not answer yet')
    t.ok('namespace 99: its storage' not in target.text(), 'the other pool waited')
    t.eq(t.rdinit('read', target.uri(99), '-z', '4k').out, bytes(4096))
    set_away('min_size', 1)
    target.expect(rf'namespace {count}: added, 16384 blocks')


@test
def a_pool_that_is_away_does_not_stop_the_locks_of_another_pool(t):
    """The gateway has lost its watch of the object by which gateways see each other, and cannot make it again."""
    make_away(1)
    keys = {'lock': 'exclusive'}
    target = serve(t, [cluster().namespace(1, 'img0', ana_group=1, rbd={'pool': AWAY, **keys}),
                       cluster().namespace(2, cluster().image('8M'), ana_group=2, rbd=keys)])
    for name in (f'{AWAY}/img0', rf'{POOL}/img\d+'):
        target.expect(rf'image {name}: its lock is held here')
    cluster().run('rados', '-p', AWAY, 'rm', 'rdtarget.gateways')
    hang_away(t)
    with control(t) as c:
        for group in (1, 2):
            t.eq(c.call('ana.claim', group=group, action='yield'), {'namespaces': 1})
    target.expect(rf'image {POOL}/img\d+: its lock was given up')
    target.expect(rf'image {AWAY}/img0: the cluster has not answered a request for some seconds')
    with control(t) as c:
        t.eq([ns['stalled'] for ns in c.call('namespace.list')['namespaces']], [True, False])
    t.ok(f'image {AWAY}/img0: its lock was given up' not in target.text(), 'the pool is not away')


@test
def signals_while_the_start_waits_for_the_cluster(t):
    config = configured(t, [t.namespace(1, backend='memory'), cluster().namespace(2, cluster().image('8M'))])
    cluster().signal('mon', signal.SIGSTOP)
    t.cleanup(cluster().signal, 'mon', signal.SIGCONT)

    def start(name):
        proc = t.spawn(name, [program('rdtarget'), '--log', 'info', '-c', config])
        proc.expect(r'waiting at most 4 s for storage to answer')
        return proc
    ended = start('ended')
    ended.signal(signal.SIGTERM)
    t.eq(ended.wait(), 0)
    t.ok('does not answer yet' not in ended.text(), 'waited after SIGTERM')
    reloaded = start('reloaded')
    reloaded.signal(signal.SIGHUP)
    reloaded.expect(r'reloaded: 1 in progress')


@test
def io_waits_for_a_stopped_osd_and_nothing_is_lost(t):
    image = cluster().image('16M')
    target = serve(t, [cluster().namespace(1, image), t.namespace(2, backend='memory')])
    dev = Device(t, [target.uri()], '--io-timeout', 600000)
    for _ in range(2):
        dev.goes_on()
        since = target.mark()
        cluster().signal('osd', signal.SIGSTOP)
        t.cleanup(cluster().signal, 'osd', signal.SIGCONT)
        target.expect(r'(its storage|the cluster) has not answered', since=since)
        with control(t) as c:
            t.eq([ns['stalled'] for ns in c.call('namespace.list')['namespaces']], [True, False])
        t.eq(t.rdinit('read', target.uri(2), '-z', '4k').out, bytes(4096), 'the other namespace')
        cluster().signal('osd', signal.SIGCONT)
        target.expect(r'(its storage|the cluster) answers again', since=since)
    dev.goes_on()
    t.eq(dev.count('errors') + dev.count('unknown'), 0, 'errors')
    dev.finish()


def more_io_than_limits(t, **ceph):
    """1,024 operations of a client, at which librados has callers wait by default."""
    target = serve(t, [cluster().namespace(1, cluster().image('8M')), t.namespace(2, backend='memory')],
                   target={'buffer_memory': '32MiB', 'reactors': 1, 'io_queues': 32}, ceph=ceph)
    t.rdinit('read', target.uri(1), '-z', '4k')
    cluster().signal('osd', signal.SIGSTOP)
    t.cleanup(cluster().signal, 'osd', signal.SIGCONT)
    bench = t.spawn('bench', [program('rdinit'), 'bench', target.uri(1), '--queues', '16', '--depth', '100', '--io-count',
                              '3200', '--timeout', '600s', '--no-progress', '-b', '4k'])

    def in_flight():
        with control(t) as c:
            return c.call('stats.get', namespaces=True)['namespaces'][0]['in_flight']
    wait_for(lambda: in_flight() >= 1600, 'all commands to be in flight')
    t.eq(t.rdinit('read', target.uri(2), '-z', '4k').out, bytes(4096), 'the other namespace')
    cluster().signal('osd', signal.SIGCONT)
    t.eq(bench.wait(), 0, bench.text())


@test
def more_io_than_the_limits_of_ceph_does_not_block_a_reactor(t):
    more_io_than_limits(t)


@test
def more_io_than_a_limit_of_the_configuration_does_not_block_a_reactor(t):
    more_io_than_limits(t, options=['objecter_inflight_ops=64'])


@test
def a_stopped_osd_does_not_keep_the_target_from_ending(t):
    target = serve(t, [cluster().namespace(1, cluster().image('8M'))])
    t.rdinit('write', target.uri(), '--data', t.file('data', pattern(1, 4096)))
    cluster().signal('osd', signal.SIGSTOP)
    t.cleanup(cluster().signal, 'osd', signal.SIGCONT)
    target.stop()


@test
def a_blocked_client_opens_the_image_again(t):
    image = cluster().image('16M')
    target = serve(t, [cluster().namespace(1, image)])
    dev = Device(t, [target.uri()])
    for _ in range(2):
        dev.goes_on()
        since = target.mark()
        for address in cluster().watchers(image):
            cluster().block(address)
        target.expect(r"the cluster has blocked this rdtarget's connection", since=since)
        target.expect(r'image rbd/img\d+ is open again', since=since)
    dev.goes_on()
    t.eq(dev.count('errors'), 0, 'errors')
    dev.finish()


@test
def an_image_that_was_renamed_stays_the_one_that_hosts_use(t):
    """Another one has its name when it has to be opened again."""
    image = cluster().image('8M')
    target = serve(t, [cluster().namespace(1, image)])
    data = pattern(3, 4096)
    t.rdinit('write', target.uri(), '--data', t.file('data', data))
    addresses = cluster().watchers(image)
    cluster().run('rbd', 'rename', f'{POOL}/{image}', f'{POOL}/{image}-moved')
    cluster().run('rbd', 'create', '--size', '8M', f'{POOL}/{image}')
    since = target.mark()
    for address in addresses:
        cluster().block(address)
    target.expect(r'image rbd/img\d+ is open again', since=since)
    target.expect(rf'image rbd/{image}: it was renamed to {image}-moved and is served as before', since=since)
    t.same(t.rdinit('read', target.uri(), '-z', '4k').out, data)


@test
def an_image_is_measured_beside_fio(t):
    """No result is judged."""
    requires_program('fio')
    program('rdtarget_rbd')
    build = os.environ.get('BUILD_ROOT') or os.path.dirname(os.path.dirname(program('rdtarget')))
    res = t.run([os.path.join(SOURCE_ROOT, 'tools', 'bench'), '--smoke', '--rows', 'rbd,fio-rbd', '--no-plots', '--output',
                 t.path('out'), '--dir', t.dir], env={**os.environ, 'RD_BENCH_AS_IS': '1', 'BUILD_DIR': build},
                deadline=5 * DEADLINE)  # it makes a cluster
    t.eq(res.rc, 0, res.err)
    with open(t.path('out/results.json'), encoding='utf-8') as f:
        samples = json.load(f)['samples']
    t.eq([(x['row'], x.get('error')) for x in samples], [('fio-rbd', None), ('rbd', None)] * 2)
    t.match('Ceph RBD image', res.text)


if __name__ == '__main__':
    sys.exit(main())
