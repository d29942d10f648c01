# SPDX-License-Identifier: BSD-3-Clause
"""Images of Ceph as namespaces, in a cluster of one node that this program makes; and two targets that take an image
over from each other."""

import os
import re
import signal
import struct
import sys
import time

import nvmf_peer as nv
from t_ceph import AWAY, POOL, cluster
from t_control import Control
from t_dev import Device
from t_loop import LONG, SANITIZED, VALGRIND, Skip, main, program, test, wait_for
from t_owner import CONFLICT, CPTPL_PERSIST, EA, PREEMPT, REPORT, WE, Owner
from t_serving import host
from t_storage import MIB, pattern, zeroes_and_deallocated

INACCESSIBLE = 0x302
LBA_RANGE = 0x080
WRITE_PROTECTED = 0x020
NGUID = slice(104, 120)


def configured(t, namespaces, *, name='rdtarget.yaml', ceph=(), **kw):
    """A configuration with this program's cluster and a control socket. Returns its path."""
    if VALGRIND:
        raise Skip('librbd does not run under valgrind in useful time')
    more = {'ceph': [dict(cluster().gateway(), **dict(ceph))],
            'control': {'socket': t.path(name.replace('yaml', 'sock'))}}
    return t.config(namespaces, name=name, more=more, **kw)


def serve(t, namespaces, *, name='rdtarget', **kw):
    return t.target(config=configured(t, namespaces, name=f'{name}.yaml', **kw), name=name)


def control(t, name='rdtarget'):
    return Control(t.path(f'{name}.sock'))


def export(t, image):
    """What Ceph's own client reads from it."""
    path = t.path(f'{image}.raw')
    cluster().run('rbd', 'export', '--no-progress', f'{POOL}/{image}', path)
    with open(path, 'rb') as f:
        return f.read()


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
    res = t.run([program('rdverify'), target.uri(), '--seconds', '5', '--queues', '4', '--range', 16 * MIB])
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
    config = configured(t, [cluster().namespace(1, 'missing')])
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
    config = configured(t, [cluster().namespace(1, cluster().image('8M'))], ceph={'keyring': keyring})
    res = t.run([program('rdtarget'), '-c', config])
    t.eq(res.rc, 1)
    t.match(r"ceph: cannot connect to the cluster test as client\.gateway: .*; check its monitors and the user's key",
            res.err)


@test
def an_image_that_is_created_later_appears(t):
    target = t.target(config=configured(t, [t.namespace(1, backend='memory')]))
    configured(t, [t.namespace(1, backend='memory'), cluster().namespace(2, 'later')])
    since = target.mark()
    target.reload()
    target.expect(r'namespace 2: is being opened', since=since)
    target.expect(r'namespace 2: rbd: image rbd/later: the image cannot be opened', since=since)
    t.eq(t.rdinit('list-ns', target.uri(nsid=None), '-o', 'json').text.count('"nsid"'), 1, 'namespaces')
    cluster().run('rbd', 'create', '--size', '8M', f'{POOL}/later')
    target.expect(r'namespace 2: added, 16384 blocks', since=since)
    t.eq(t.rdinit('read', target.uri(2), '-z', '4k').out, bytes(4096))
    configured(t, [t.namespace(1, backend='memory'), cluster().namespace(3, 'never')])
    target.reload()
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
        proc.expect(r'waiting at most 10 s for storage to answer')
        return proc
    ended = start('ended')
    ended.signal(signal.SIGTERM)
    t.eq(ended.wait(), 0)
    t.ok('does not answer yet' not in ended.text(), 'waited after SIGTERM')
    reloaded = start('reloaded')
    reloaded.signal(signal.SIGHUP)
    reloaded.expect(r'reloaded: nothing has changed')


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
        target.expect(r'the cluster has completed no I/O for \d+ s, [1-9]\d* are waiting', since=since)
        with control(t) as c:
            t.eq([ns['stalled'] for ns in c.call('namespace.list')['namespaces']], [True, False])
        t.eq(t.rdinit('read', target.uri(2), '-z', '4k').out, bytes(4096), 'the other namespace')
        cluster().signal('osd', signal.SIGCONT)
        target.expect(r'the cluster completes I/O again', since=since)
    dev.goes_on()
    t.eq(dev.count('errors') + dev.count('unknown'), 0, 'errors')
    dev.finish()


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


# ---- two gateways ----

def gateway(t, image, number, name=None, **kw):
    ns = cluster().namespace(1, image, rbd={'lock': 'exclusive'})
    return serve(t, [ns], name=name or f'gateway{number}', **kw,
                 subsystem={'cntlid_min': 1 + 1000 * number, 'cntlid_max': 1000 + 1000 * number})


def gateways(t, image, **kw):
    pair = [gateway(t, image, i, **kw) for i in range(2)]
    pair[0].expect(r'its lock is held here')
    pair[1].expect(r'another client holds its lock')
    return pair


def claim(t, gateway, action):
    with control(t, f'gateway{gateway}') as c:
        return c.call('ana.claim', group=1, action=action)


@test
def an_image_that_cannot_be_locked_says_why(t):
    image = cluster().image('8M', '--image-feature', 'layering')
    target = serve(t, [cluster().namespace(1, image, rbd={'lock': 'exclusive'})])
    target.expect(r'its lock cannot be taken: Invalid argument; "lock: exclusive" needs the image\'s feature '
                  r'exclusive-lock')


@test
def the_gateway_without_the_lock_sends_hosts_to_the_other(t):
    pair = gateways(t, cluster().image('8M'))
    for target, state, status in zip(pair, (1, 3), (0, INACCESSIBLE)):
        with host(target) as h:
            h.enable()
            log = nv.expect_data(h.admin.get_log(0x0C, 4096))
            t.eq(log[16 + 16] & 15, state, 'ANA state')
            t.eq(h.add_io().read_blocks(1, 0, 1)[0].status, status)


@test
def a_user_that_may_not_block_clients_cannot_take_over(t):
    image = cluster().image('8M')
    keyring = cluster().user('poor', mon='allow r', osd=f'allow rwx pool={POOL}')
    holder = gateway(t, image, 0)
    holder.expect(r'its lock is held here')
    other = gateway(t, image, 1, ceph={'user': 'poor', 'keyring': keyring})
    other.expect(r'another client holds its lock')
    claim(t, 1, 'take')
    other.expect(r'the lock of \S+ cannot be broken: .*; the user needs the capabilities of "profile rbd"')
    with host(holder) as h:
        h.enable()
        t.eq(h.add_io().read_blocks(1, 0, 1)[0].status, 0)


@test
def a_group_is_moved_by_command_under_verified_io(t):
    image = cluster().image('16M')
    pair = gateways(t, image)
    dev = Device(t, [x.uri() for x in pair])
    dev.proc.expect(r'^event path 1 live')
    for number in range(4):
        dev.goes_on()
        taker = 1 - number % 2
        since = pair[taker].mark()
        t.eq(claim(t, taker, 'take'), {'namespaces': 1})
        pair[taker].expect(r'the lock of .* was broken', since=since)
        pair[taker].expect(r'its lock is held here', since=since)
    dev.goes_on()
    t.eq(dev.count('errors'), 0, 'errors')
    dev.finish()


@test
def a_gateway_without_io_notices_that_another_one_took_over(t):
    image = cluster().image('8M')
    pair = gateways(t, image)
    since = pair[0].mark()
    claim(t, 1, 'take')
    pair[0].expect(r"blocked this rdtarget's connection", since=since)
    pair[0].expect(r'another client holds its lock', since=since)
    with control(t, 'gateway0') as c:
        shown = c.call('namespace.list')['namespaces']
        t.eq([(ns['standby'], ns['path']) for ns in shown], [(True, f'{POOL}/{image}')])


@test
def a_command_to_take_what_the_gateway_has_does_not_take_it_back_later(t):
    pair = gateways(t, cluster().image('16M'))
    dev = Device(t, [x.uri() for x in pair])
    dev.proc.expect(r'^event path 1 live')
    claim(t, 0, 'take')
    pair[0].expect(r'its lock is held here already')
    since = pair[0].mark()
    claim(t, 1, 'take')
    pair[0].expect(r'another client holds its lock', since=since)
    dev.goes_on()
    dev.finish()


@test
def a_gateway_without_the_lock_connects_again_when_it_was_blocked(t):
    image = cluster().image('8M')
    pair = gateways(t, image)
    since = pair[1].mark()
    for address in cluster().watchers(image):
        cluster().block(address)
    pair[1].expect(r"blocked this rdtarget's connection", since=since)
    pair[0].stop()
    pair[1].expect(r'is open again', since=since)
    pair[1].expect(r'its lock is held here', since=since)


@test
def a_gateway_that_ends_or_yields_hands_over_under_verified_io(t):
    pair = gateways(t, cluster().image('16M'))
    dev = Device(t, [x.uri() for x in pair])
    dev.proc.expect(r'^event path 1 live')
    dev.goes_on()
    claim(t, 0, 'yield')
    pair[1].expect(r'its lock is held here')
    dev.goes_on()
    since = pair[0].mark()
    claim(t, 0, 'wait')
    claim(t, 1, 'yield')
    pair[0].expect(r'its lock is held here', since=since)
    dev.goes_on()
    claim(t, 1, 'wait')
    dev.goes_on()
    since = pair[1].mark()
    pair[0].stop()
    pair[1].expect(r'its lock is held here', since=since)
    dev.goes_on()
    t.eq(dev.count('errors'), 0, 'errors')
    dev.finish()


def replaces(t, pair, dev, what, loser):
    """The other gateway takes over without a command, and hosts go on there; notes the time."""
    taker = pair[1 - loser]
    since, begin = taker.mark(), time.monotonic()
    what()
    taker.expect(r'the lock of \S+ was broken: that gateway has not answered', since=since)
    taker.expect(r'its lock is held here', since=since)
    took = time.monotonic() - begin
    dev.goes_on()
    t.note(f'{what.__name__}: lock taken over after {took:.1f} s, the host goes on after '
           f'{time.monotonic() - begin:.1f} s')


@test
def a_gateway_that_is_killed_or_stopped_is_replaced_under_verified_io(t):
    image = cluster().image('16M')
    pair = gateways(t, image)
    dev = Device(t, [x.uri() for x in pair], '--io-timeout', 120000)
    dev.proc.expect(r'^event path 1 live')
    dev.goes_on()

    def stopped():
        pair[0].signal(signal.SIGSTOP)  # it may still have writes on their way
    replaces(t, pair, dev, stopped, 0)
    since = pair[0].mark()
    pair[0].signal(signal.SIGCONT)
    pair[0].expect(r"blocked this rdtarget's connection", since=since)
    pair[0].expect(r'another client holds its lock', since=since)
    dev.goes_on()

    def killed():
        pair[1].kill()
    replaces(t, pair, dev, killed, 1)
    t.eq(dev.count('errors'), 0, 'errors')
    dev.finish()


@test
def all_images_of_a_dead_gateway_are_taken_over_with_few_changes_of_the_map(t):
    """Ceph makes about one map in a second, so each block is one for all images."""
    images = cluster().many_images(40, 1 << 20)
    pair = []
    for number, text in enumerate(('its lock is held here', 'another client holds its lock')):
        pair.append(serve(t, [cluster().namespace(1 + i, x, rbd={'lock': 'exclusive'}) for i, x in enumerate(images)],
                          name=f'gateway{number}', subsystem={'cntlid_min': 1 + 1000 * number,
                                                              'cntlid_max': 1000 + 1000 * number}))
        wait_for(lambda x=pair[-1], said=text: x.text().count(said) == len(images), f'"{text}" for all')
    epoch, begin = cluster().epoch(), time.monotonic()
    pair[0].kill()
    wait_for(lambda: pair[1].text().count('its lock is held here') == len(images), 'all locks to be taken over')
    t.note(f'{len(images)} locks taken over after {time.monotonic() - begin:.1f} s')
    t.ok(cluster().epoch() - epoch < 7, f'{cluster().epoch() - epoch} maps')


@test
def a_gateway_is_replaced_while_another_one_is_dead_too(t):
    image = cluster().image('16M')
    pair = gateways(t, image)
    third = gateway(t, image, 2)
    third.expect(r'another client holds its lock')
    dev = Device(t, [x.uri() for x in pair], '--io-timeout', 120000)
    dev.proc.expect(r'^event path 1 live')
    dev.goes_on()
    third.kill()

    def killed_both():
        pair[0].kill()
    replaces(t, pair, dev, killed_both, 0)
    t.eq(dev.count('errors'), 0, 'errors')
    dev.finish()


@test
def a_silent_gateway_is_replaced_after_the_time_of_the_configuration(t):
    image = cluster().image('8M')
    pair = gateways(t, image, ceph={'takeover': 6})
    silent = cluster().lock_owner(image)
    pair[0].kill()
    pair[1].expect(r'the lock of \S+ was broken: that gateway has not answered for 5 s')
    pair[1].expect(r'its lock is held here')
    t.ok(cluster().blocked_for(silent) > 6 * 86400, 'a machine that was paused may come back after an hour')


@test
def a_gateway_that_is_stopped_is_replaced_at_once_by_command(t):
    pair = gateways(t, cluster().image('16M'))
    dev = Device(t, [x.uri() for x in pair], '--io-timeout', 120000)
    dev.proc.expect(r'^event path 1 live')
    dev.goes_on()
    since = pair[1].mark()
    pair[0].signal(signal.SIGSTOP)
    claim(t, 1, 'take')
    pair[1].expect(r'its lock is held here', since=since)
    dev.goes_on()
    since = pair[0].mark()
    pair[0].signal(signal.SIGCONT)
    pair[0].expect(r'another client holds its lock', since=since)
    dev.goes_on()
    t.eq(dev.count('errors'), 0, 'errors')
    dev.finish()


@test
def a_stalled_cluster_is_no_dead_gateway(t):
    pair = gateways(t, cluster().image('16M'))
    dev = Device(t, [x.uri() for x in pair], '--io-timeout', 120000)
    dev.goes_on()
    for _ in range(2):
        since = pair[0].mark()
        cluster().signal('osd', signal.SIGSTOP)
        t.cleanup(cluster().signal, 'osd', signal.SIGCONT)
        pair[0].expect(r'the cluster has completed no I/O for \d+ s', since=since)
        cluster().signal('osd', signal.SIGCONT)
        pair[0].expect(r'the cluster completes I/O again', since=since)
        dev.goes_on()
    t.ok('was broken' not in pair[1].text(), 'a living gateway lost its lock')
    t.eq(dev.count('errors'), 0, 'errors')
    dev.finish()


@test
def a_client_that_is_no_gateway_is_asked_for_the_lock(t):
    image = cluster().image('64M')
    bench = t.spawn('bench', ['rbd', 'bench', '--io-type', 'write', '--io-threads', '1', '--io-total', '100G',
                              f'{POOL}/{image}'], env=dict(os.environ, CEPH_CONF=cluster().conf))
    wait_for(lambda: 'exclusive' in cluster().run('rbd', 'lock', 'ls', f'{POOL}/{image}'), 'rbd bench to have the lock')
    target = serve(t, [cluster().namespace(1, image, rbd={'lock': 'exclusive'})])
    target.expect(r'its lock is held here')
    t.ok('was broken' not in target.text() and bench.running, 'the lock was broken')
    bench.kill()


# ---- reservations ----

STATE = 'rdtarget.state.'


def state_object():
    """The object with what gateways share about the namespace. A test removes it, because all have one NQN."""
    return [x for x in cluster().run('rados', '-p', POOL, 'ls').split() if x.startswith(STATE)]


def forget_state(t):
    def remove():
        for name in state_object():
            cluster().run('rados', '-p', POOL, 'rm', name)
    remove()
    t.cleanup(remove)


def serves(t, target, number=9):
    """Wait until the namespace is served there."""
    def reads():
        with Owner(target, number) as h:
            return h.read() in (0, CONFLICT)
    wait_for(reads, 'the namespace to be served')


@test
def a_reservation_made_at_one_gateway_is_enforced_by_the_other(t):
    forget_state(t)
    pair = gateways(t, cluster().image('8M'))
    serves(t, pair[0])
    with Owner(pair[0], 1) as one, Owner(pair[0], 2) as two, Owner(pair[1], 1) as away:
        t.eq(away.register().status, INACCESSIBLE)
        t.eq(away.q.data_in(REPORT, 4096, nsid=1, cdw10=1023, cdw11=1)[0].status, INACCESSIBLE)
        nv.expect(one.register())
        nv.expect(one.acquire(WE))
        t.eq((one.write(), two.write(), two.read()), (0, CONFLICT, 0))
        before = one.report()
    claim(t, 1, 'take')
    serves(t, pair[1])
    with Owner(pair[1], 1) as one, Owner(pair[1], 2) as two, Owner(pair[0], 2) as away:
        t.eq(one.report(), before)
        t.eq((one.write(), two.write(), two.read()), (0, CONFLICT, 0))
        nv.expect(two.register())
        nv.expect(two.acquire(EA, PREEMPT, one.key))
        t.eq((one.read(), two.write()), (CONFLICT, 0))
        t.eq(away.write(), INACCESSIBLE, 'not the old reservation')
        before = two.report()
    pair[1].kill()
    serves(t, pair[0])
    with Owner(pair[0], 1) as one, Owner(pair[0], 2) as two:
        t.eq(two.report(), before)
        t.eq((one.read(), two.write()), (CONFLICT, 0))


@test
def a_reservation_is_there_when_all_gateways_were_stopped(t):
    forget_state(t)
    image = cluster().image('8M')
    first = gateway(t, image, 0)
    serves(t, first)
    with Owner(first, 1) as one:
        nv.expect(one.register(cptpl=CPTPL_PERSIST))
        nv.expect(one.acquire(WE))
        before = one.report()
    first.stop()
    again = gateway(t, image, 0, 'again')
    serves(t, again)
    with Owner(again, 1) as one, Owner(again, 2) as two:
        t.eq(one.report(), before)
        t.eq((one.write(), two.write()), (0, CONFLICT))


@test
def a_namespace_that_is_added_at_run_time_has_its_reservations(t):
    forget_state(t)
    image = cluster().image('8M')
    ns = cluster().namespace(1, image, rbd={'lock': 'exclusive'})
    first = gateway(t, image, 0)
    serves(t, first)
    with Owner(first, 1) as one:
        nv.expect(one.register())
        nv.expect(one.acquire(WE))
    first.stop()
    target = t.target(config=configured(t, [t.namespace(2, backend='memory')]))
    configured(t, [t.namespace(2, backend='memory'), ns])
    target.reload()
    serves(t, target)
    with Owner(target, 1) as one, Owner(target, 2) as two:
        t.eq((one.write(), two.write()), (0, CONFLICT))


@test
def a_state_that_another_gateway_has_written_is_not_overwritten(t):
    forget_state(t)
    target = gateway(t, cluster().image('8M'), 0)
    serves(t, target)
    with Owner(target, 1) as one, Owner(target, 2) as two:
        nv.expect(one.register())
        name, path = state_object()[0], t.path('state')
        cluster().run('rados', '-p', POOL, 'get', name, path)
        nv.expect(two.register())
        cluster().run('rados', '-p', POOL, 'put', name, path)
        t.eq(two.acquire(WE).status, INACCESSIBLE)
        serves(t, target)
        t.eq(one.report()[3], {1: (one.key, False)})
        nv.expect(one.acquire(WE))
        t.eq(two.write(), CONFLICT)


@test
def a_state_that_was_removed_and_made_again_is_not_overwritten(t):
    """Ceph counts versions for each placement group, so that they do not begin again with the object."""
    forget_state(t)
    target = gateway(t, cluster().image('8M'), 0)
    serves(t, target)
    with Owner(target, 1) as one, Owner(target, 2) as two:
        nv.expect(one.register())
        name, path = state_object()[0], t.path('state')
        cluster().run('rados', '-p', POOL, 'get', name, path)
        cluster().run('rados', '-p', POOL, 'rm', name)
        cluster().run('rados', '-p', POOL, 'put', name, path)
        t.eq(two.register().status, INACCESSIBLE)
        serves(t, target)
        nv.expect(two.register())


def gateway_with_state(t, content):
    """A gateway that finds this content in the shared state of its image; returns it and the name of the object."""
    forget_state(t)
    image = cluster().image('8M')
    first = gateway(t, image, 0)
    serves(t, first)
    with Owner(first, 1) as one:
        nv.expect(one.register())
    first.stop()
    name = state_object()[0]
    cluster().run('rados', '-p', POOL, 'put', name, t.file('state', content))
    return gateway(t, image, 0, 'gateway0'), name


@test
def a_state_that_is_too_large_keeps_the_lock_free(t):
    target, name = gateway_with_state(t, bytes(100000))
    target.expect(r'the state that gateways share, in the object rdtarget\.state\.\S+, cannot be read: File too large')
    claim(t, 0, 'take')
    cluster().run('rados', '-p', POOL, 'rm', name)
    target.expect(r'its lock is held here')
    serves(t, target)
    t.ok('has blocked this' not in target.text(), 'it blocked itself')


@test
def a_state_that_cannot_be_read_keeps_the_namespace_away(t):
    target, name = gateway_with_state(t, b'{"version": 1}')
    target.expect(r'the reservations that gateways share cannot be used: .*; the namespace is not served here')
    with Owner(target, 1) as one:
        t.eq((one.read(), one.register().status), (INACCESSIBLE, INACCESSIBLE))
    cluster().run('rados', '-p', POOL, 'rm', name)
    since = target.mark()
    claim(t, 0, 'yield')
    target.expect(r'its lock was given up', since=since)
    claim(t, 0, 'take')
    serves(t, target)
    with Owner(target, 1) as one:
        t.eq(one.report()[3], {})


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp',)))
