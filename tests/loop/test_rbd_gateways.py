# SPDX-License-Identifier: BSD-3-Clause
"""Two targets that take an image of Ceph over from each other, with its reservations."""

import os
import re
import signal
import sys
import time

import nvmf_peer as nv
from t_ceph import POOL, cluster
from t_dev import Device
from t_loop import NQN, main, program, test, wait_for
from t_owner import CONFLICT, CPTPL_PERSIST, EA, PREEMPT, REPORT, WE, Owner
from t_rbd import CutOff, configured, control, serve
from t_serving import host

CAPACITY_EXCEEDED = 0x81
INACCESSIBLE = 0x302


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
def an_image_with_an_object_map_is_refused(t):
    """A gateway that was replaced would read zeroes from the map where the other one has written."""
    image = cluster().image('8M', '--image-feature', 'layering,exclusive-lock,object-map')
    name = f'{POOL}/{image}'
    namespaces = [cluster().namespace(1, image, rbd={'lock': 'exclusive'})]
    res = t.run([program('rdtarget'), '-c', configured(t, namespaces), '--check=full'])
    t.eq(res.rc, 1, res.err)
    t.match(rf'image {name} has the feature object-map, .* rbd feature disable {name} fast-diff object-map', res.err)
    serve(t, [cluster().namespace(1, image)], name='auto').stop()
    cluster().run('rbd', 'feature', 'disable', name, 'object-map')
    target = serve(t, namespaces)
    target.expect(r'its lock is held here')
    cluster().run('rbd', 'feature', 'enable', name, 'object-map')
    target.expect(r'was changed so that it cannot be used here')
    target.expect(r'has the feature object-map')
    cluster().run('rbd', 'feature', 'disable', name, 'object-map')
    target.expect(r'is open again')


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
    for number in range(12):  # writes that librbd refuses before it sends them are rare
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
    # The next gateway gets lost writes at once, not after twice the keep-alive timeout.
    dev = Device(t, [x.uri() for x in pair], '--io-timeout', 120000, '--keep-alive-tmo', 120000)
    dev.proc.expect(r'^event path 1 live')
    dev.goes_on()
    third.kill()

    def killed_both():
        pair[0].kill()
    replaces(t, pair, dev, killed_both, 0)
    t.eq(dev.count('errors'), 0, 'errors')
    dev.finish()


@test
def the_lock_of_a_silent_gateway_that_has_taken_it_from_another_one_is_broken(t):
    """The gateway that waits has opened the image when that one had it."""
    image = cluster().image('8M')
    pair = gateways(t, image)
    third = gateway(t, image, 2)
    third.expect(r'another client holds its lock')
    claim(t, 1, 'take')
    pair[1].expect(r'its lock is held here')
    pair[0].stop()
    pair[1].kill()
    third.expect(r'its lock is held here')
    t.match('the lock of \\S+ was broken: that gateway has not answered', third.text())


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
        pair[0].expect(r'(its storage|the cluster) has not answered', since=since)
        cluster().signal('osd', signal.SIGCONT)
        pair[0].expect(r'(its storage|the cluster) answers again', since=since)
        dev.goes_on()
    t.ok('was broken' not in pair[1].text(), 'a living gateway lost its lock')
    t.eq(dev.count('errors'), 0, 'errors')
    dev.finish()


@test
def a_gateway_that_is_cut_off_from_the_cluster_sends_its_hosts_to_the_other(t):
    """I/O goes on while it is cut off; with the first gateway in reach again, back to it, while the other one is."""
    pair = gateways(t, cluster().image('16M'))
    dev = Device(t, [x.uri() for x in pair], '--io-timeout', 120000)
    dev.proc.expect(r'^event path 1 live')
    dev.goes_on()
    for loser in (0, 1):
        def cut_off(loser=loser):
            cut.append(CutOff(t, pair[loser]))
        cut, since = [], pair[loser].mark()
        replaces(t, pair, dev, cut_off, loser)
        pair[loser].expect(r'cut off from the cluster', since=since)
        with control(t, f'gateway{loser}') as c:
            t.eq(c.call('namespace.list')['namespaces'][0].get('fault'), 'cut-off')
        cut[0].end()
        pair[loser].expect(r"blocked this rdtarget's connection", since=since)
        pair[loser].expect(r'another client holds its lock', since=since)
        with control(t, f'gateway{loser}') as c:
            t.eq(c.call('namespace.list')['namespaces'][0].get('fault'), None)
        dev.goes_on()
    t.eq(dev.count('errors'), 0, 'errors')
    dev.finish()


@test
def when_both_gateways_are_cut_off_hosts_wait(t):
    pair = gateways(t, cluster().image('16M'))
    dev = Device(t, [x.uri() for x in pair], '--io-timeout', 5000)
    dev.proc.expect(r'^event path 1 live')
    dev.goes_on()
    since, cut = dev.proc.mark(), [CutOff(t, target) for target in pair]
    pair[0].expect(r'cut off from the cluster')
    dev.proc.expect(r'^event device waiting', since=since)
    for one in cut:
        one.end()
    dev.goes_on()
    t.eq(dev.count('errors'), 0, 'errors')
    dev.finish()


def held(t, number):
    """NSIDs of the images of which this gateway has the lock."""
    with control(t, f'gateway{number}') as c:
        return [ns['nsid'] for ns in c.call('namespace.list')['namespaces'] if not ns['standby']]


@test
def a_group_that_is_split_between_gateways_is_served_by_one(t):
    """Each has images of it, so that it is inaccessible on both: the one with the first namespace gets them all."""
    images, pair = [cluster().image('16M') for _ in range(3)], []
    for number in range(2):
        pair.append(serve(t, [cluster().namespace(1 + i, x, ana_group=1 + i // 2, rbd={'lock': 'exclusive'})
                              for i, x in enumerate(images)], name=f'gateway{number}',
                          subsystem={'cntlid_min': 1 + 1000 * number, 'cntlid_max': 1000 + 1000 * number}))
        wait_for(lambda x=pair[-1]: len(re.findall('its lock is held here|another client holds its lock', x.text())) == 3,
                 'three images')
    with control(t, 'gateway0') as c:
        c.call('ana.claim', group=2, action='yield')
    wait_for(lambda: held(t, 1) == [3], 'the last image at the other gateway')
    dev = Device(t, [x.uri() for x in pair], '--io-timeout', 120000)
    dev.proc.expect(r'^event path 1 live')
    dev.goes_on()
    for number in range(2):
        with control(t, f'gateway{number}') as c:
            c.call('ana.claim', group=2, action='wait')
            c.call('namespace.set_ana', nqn=NQN, nsid=3, group=1)
    pair[1].expect(r'ANA group 1 is split between gateways: .* namespace 1, its first one, is not held here, and 1 other')
    dev.goes_on()
    t.eq([held(t, number) for number in range(2)], [[1, 2, 3], []])
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
    # The bench ends when it writes without its lock, (30); it would say (108) if it was blocked.
    t.ok('was broken' not in target.text() and '(108)' not in bench.text(), 'the lock was broken')
    bench.kill()


@test
def a_gateway_takes_over_in_a_full_cluster(t):
    """It serves reads, and writes that need no space; others fail at once, and are served when there is space."""
    pair = gateways(t, cluster().image('64M'))
    with host(pair[0]) as h:
        h.enable()
        t.eq(h.add_io().write_blocks(1, 0, b'a' * 4096).status, 0)
    with cluster().full():
        pair[0].kill()
        pair[1].expect(r'its lock is held here')
        with host(pair[1]) as h:
            h.enable()
            q = h.add_io()
            t.eq(q.read_blocks(1, 0, 8)[1], b'a' * 4096)
            t.eq(q.write_blocks(1, 8 << 11, b'b' * 4096).status & 0x7ff, CAPACITY_EXCEEDED)
    with host(pair[1]) as h:
        h.enable()
        t.eq(h.add_io().write_blocks(1, 8 << 11, b'b' * 4096).status, 0)


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
    pair[0].expect(r"blocked this rdtarget's connection")  # until it knows, it answers by the old reservation
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
    sys.exit(main())
