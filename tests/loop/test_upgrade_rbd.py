# SPDX-License-Identifier: BSD-3-Clause
"""Hand-overs (rdctl upgrade) of targets whose namespaces are images of Ceph."""

import os
import re
import signal
import sys

import nvmf_peer as nv
from t_ceph import POOL, cluster
from t_dev import Device
from t_loop import each, iwarp_only, main, program, scaled, test, wait_for
from t_owner import CONFLICT, EA, WE
from t_rbd import CutOff, configured, control, export
from t_upgrade import TCP, ended, no_reconnect, pause_of, peer, take_over, uri_of

HANDS = scaled(4, 2)
BOTH = [{}, {'transport': 'tcp'}]
# What is written stays in the cache.
CACHE = ['rbd_cache_policy=writeback', 'rbd_cache_writethrough_until_flush=false', 'rbd_cache_max_dirty_age=3600',
         'rbd_cache_target_dirty=20971520']
STATE = 'rdtarget.state.'


def configure(t, namespaces, number=0, **kw):
    subsystem = {'cntlid_min': 1 + 1000 * number, 'cntlid_max': 1000 + 1000 * number}
    return configured(t, namespaces, name=f'gateway{number}.yaml', listeners=BOTH, subsystem=kw.pop('subsystem', subsystem), **kw)


def exclusive(image, nsid=1):
    return cluster().namespace(nsid, image, rbd={'lock': 'exclusive'})


def gateway(t, image, number=0):
    """(target, configuration) of one gateway."""
    config = configure(t, [exclusive(image)], number)
    return t.target(config=config, name=f'gateway{number}'), config


def gateways(t, image):
    """The gateway with the lock, its configuration, and another one that waits."""
    first, config = gateway(t, image, 0)
    first.expect(r'its lock is held here')
    other, _ = gateway(t, image, 1)
    other.expect(r'another client holds its lock')
    return first, config, other


def hand(t, target, config, name='next'):
    """The process that took over; the other one has ended."""
    following = take_over(t, config, t.path('gateway0.sock'), name)
    ended(t, target)
    return following


def quiet(t, device, since=0):
    """No host has seen anything but a pause."""
    no_reconnect(t, device)
    t.eq(device.count('errors'), 0, 'errors')
    said = '\n'.join(device.proc.lines[since:])
    t.ok('event device waiting' not in said, f'no path was usable:\n{said[-3000:]}')


def stored(t, image):
    data = export(t, image)[:4096]
    os.remove(t.path(f'{image}.raw'))
    return data


def forget_state(t):
    def remove():
        for name in cluster().run('rados', '-p', POOL, 'ls').split():
            if name.startswith(STATE):
                cluster().run('rados', '-p', POOL, 'rm', name)
    remove()
    t.cleanup(remove)


def hands_over_under_io(t, target, config, devices, what):
    pauses, locks, last = [], [], target
    for device in devices:
        device.goes_on(50)
    marks = [device.proc.mark() for device in devices]
    for n in range(HANDS):
        for device in devices:
            device.goes_on(50)
        last = hand(t, last, config, f'next-{n}')
        pauses.append(pause_of(last))
        locks += [int(x) for x in re.findall(r'has passed its lock on in (\d+) ms', last.text())]
    for device, mark in zip(devices, marks):
        device.goes_on(50)
        quiet(t, device, mark)
    t.note(f'{what}: {HANDS} hand-overs, pause at most {max(pauses):.1f} ms, then locks after at most {max(locks, default=0)} ms')
    return last


@each(('auto', 'auto'), ('exclusive', 'exclusive'))
@iwarp_only
def verified_io_goes_on_through_hand_overs(t, lock):
    images = [cluster().image('16M') for _ in range(2)]
    config = configure(t, [cluster().namespace(1 + i, x, rbd={'lock': lock}) for i, x in enumerate(images)])
    target = t.target(config=config, name='gateway0')
    devices = [Device(t, [uri_of(target, TCP, nsid)], name=f'rddev-{nsid}') for nsid in (1, 2)]
    last = hands_over_under_io(t, target, config, devices, f'lock {lock}')
    for device in devices:
        device.finish()
    t.ok('go to other paths' not in last.text(), 'commands were sent away')


@test
@iwarp_only
def a_gateway_that_waits_does_not_get_the_lock_in_between(t):
    """And gets it when the last process is killed."""
    first, config, other = gateways(t, cluster().image('16M'))
    device = Device(t, [uri_of(x, TCP) for x in (first, other)], '--io-timeout', 120000)
    device.proc.expect(r'^event path 1 live')
    last = hands_over_under_io(t, first, config, [device], 'with another gateway')
    t.ok('its lock is held here' not in other.text(), 'the other gateway got the lock')
    last.kill()
    other.expect(r'the lock of \S+ was broken: that gateway has not answered')
    other.expect(r'its lock is held here')
    device.goes_on()
    t.eq(device.count('errors'), 0, 'errors')
    device.finish()


@test
@iwarp_only
def reservations_stay_with_the_image(t):
    forget_state(t)
    first, config, other = gateways(t, cluster().image('8M'))
    with peer(first, TCP, 1) as one, peer(first, TCP, 2) as two:
        wait_for(lambda: one.read() == 0, 'the namespace to be served')
        nv.expect(one.register())
        nv.expect(two.register())
        nv.expect(one.acquire(WE))
        before = one.report()
        second = hand(t, first, config)
        t.eq((one.write(), two.write(), two.read()), (0, CONFLICT, 0))
        t.eq(one.report(), before)
        nv.expect(one.release(WE))
        nv.expect(two.acquire(EA))
        before = two.report()
        third = hand(t, second, config, 'third')
        t.eq((one.read(), two.write()), (CONFLICT, 0))
        t.eq(two.report(), before)
    third.kill()
    other.expect(r'its lock is held here')
    with peer(other, TCP, 1) as one, peer(other, TCP, 2) as two:
        wait_for(lambda: two.read() == 0, 'the namespace to be served')
        t.eq(two.report(), before)
        t.eq(one.read(), CONFLICT)


@test
@iwarp_only
def a_gateway_that_has_yielded_does_not_ask_after_a_hand_over(t):
    first, config, other = gateways(t, cluster().image('8M'))
    with control(t, 'gateway0') as c:
        c.call('ana.claim', group=1, action='yield')
    other.expect(r'its lock is held here')
    with peer(first, TCP) as host:
        second = hand(t, first, config)
        t.eq(host.read(), 0x302, 'a read where the image is not')
        other.stop()
        with control(t, 'gateway0') as c:
            t.eq([x['standby'] for x in c.call('namespace.list')['namespaces']], [True])
            c.call('ana.claim', group=1, action='wait')
        second.expect(r'its lock is held here')
        wait_for(lambda: host.read() == 0, 'the image to be served')


@test
@iwarp_only
def a_process_that_waits_for_the_lock_waits_after_a_hand_over(t):
    image = cluster().image('8M')
    other, _ = gateway(t, image, 1)
    other.expect(r'its lock is held here')
    first, config = gateway(t, image, 0)
    first.expect(r'another client holds its lock')
    with peer(first, TCP) as host:
        second = hand(t, first, config)
        t.eq(host.read(), 0x302, 'a read where the image is not')
        t.ok('its lock is held here' not in second.text(), 'it took the lock of a living gateway')
        other.stop()
        second.expect(r'its lock is held here')
        wait_for(lambda: host.read() == 0, 'the image to be served')


@test
@iwarp_only
def what_is_in_a_cache_is_stored_before(t):
    image = cluster().image('8M')
    config = configure(t, [cluster().namespace(1, image, rbd={'cache': True})], subsystem={}, ceph={'options': CACHE})
    target = t.target(config=config, name='gateway0')
    with peer(target, TCP) as host:
        nv.expect(host.q.write_blocks(1, 0, b'a' * 4096))
        t.ok(stored(t, image) == bytes(4096), 'it was stored without a Flush')
        second = hand(t, target, config)
        t.ok(stored(t, image) == b'a' * 4096, 'it was not stored')
        t.same(nv.expect_data(host.q.read_blocks(1, 0, 8)), b'a' * 4096)
        nv.expect(host.q.write_blocks(1, 0, b'b' * 4096))
        nv.expect(host.q.flush(1))
        t.ok(stored(t, image) == b'b' * 4096, 'it was not stored by a Flush')
    t.ok(second.running, 'it has ended')


@test
@iwarp_only
def a_cache_that_cannot_be_stored_refuses_or_says_so(t):
    """Ceph blocks the target with writes in its cache: no process may serve as if they were there."""
    image = cluster().image('8M')
    config = configure(t, [cluster().namespace(1, image, rbd={'cache': True})], subsystem={}, ceph={'options': CACHE})
    target = t.target(config=config, name='gateway0')
    with peer(target, TCP) as host:
        nv.expect(host.q.write_blocks(1, 0, b'a' * 4096))
        for address in cluster().watchers(image):
            cluster().block(address)
        proc = t.spawn('next', [program('rdtarget'), '-c', config, '--exit-with-parent', '--log', 'info', '--take-over',
                                t.path('gateway0.sock')])
        line = target.expect(r'not handed over to process \d+: (.*); this process goes on|handed over to process (\d+): ')
        if line[1]:
            t.match(r'namespace 1', line[1])
        else:
            proc.expect(r'\bready$')
        with control(t, 'gateway0') as c:
            wait_for(lambda: c.call('namespace.list')['namespaces'][0].get('fault') == 'sync-failed', 'the fault')
        t.ok(host.write() != 0, 'a write succeeds after others were lost')


@test
@iwarp_only
def an_image_is_not_left_for_a_process_that_starts_later(t):
    """The lock would be free meanwhile."""
    target = t.target(config=configure(t, [exclusive(cluster().image('8M'))]), name='gateway0')
    res = t.run([program('rdctl'), '-s', t.path('gateway0.sock'), 'upgrade', '--store'])
    t.eq(res.rc, 1, f'rdctl upgrade --store: {res.text}')
    t.match('not stored: .* namespace 1: the lock of a Ceph RBD image is passed on only to', res.err)
    t.ok(target.running, 'it has ended')


@test
@iwarp_only
def another_image_or_lock_is_refused_by_name(t):
    image, another = cluster().image('8M'), cluster().image('8M')
    config = configure(t, [exclusive(image)])
    target = t.target(config=config, name='gateway0')
    target.expect(r'its lock is held here')
    device = Device(t, [uri_of(target, TCP)])
    for name, ns in (('image', exclusive(another)), ('lock', cluster().namespace(1, image, rbd={'lock': 'auto'}))):
        configure(t, [ns])
        proc = t.spawn(name, [program('rdtarget'), '-c', config, '--take-over', t.path('gateway0.sock')])
        t.eq(proc.wait(), 1, 'exit status')
        t.match(r'namespace 1: .*in the configuration and .*in the running target; reload that first', proc.text())
    configure(t, [exclusive('missing')])
    proc = t.spawn('missing', [program('rdtarget'), '-c', config, '--take-over', t.path('gateway0.sock')])
    t.ok(proc.wait() != 0, 'it took over')
    device.goes_on(50)
    quiet(t, device)
    configure(t, [exclusive(image)])
    hand(t, target, config)
    device.goes_on(50)
    quiet(t, device)
    device.finish()


def cut_off_in_hand_over(t, target, config):
    """The process before cannot give the lock up: the next one, which waits for it, and what cuts the other one off."""
    cut = CutOff(t, target)
    following = take_over(t, config, t.path('gateway0.sock'), 'next')
    target.expect(r'handed over to process \d+: ')
    return following, cut


@test
@iwarp_only
def the_lock_of_a_process_that_hangs_is_broken(t):
    """Its host waits, and sees no error."""
    image = cluster().image('16M')
    target, config = gateway(t, image)
    target.expect(r'its lock is held here')
    silent = cluster().lock_owner(image)
    with peer(target, TCP) as host:
        t.eq(host.write(), 0)
        following, cut = cut_off_in_hand_over(t, target, config)
        t.eq((host.write(1), host.read()), (0, 0))
        following.expect(r'the lock of \S+ was broken: that gateway has not answered')
        t.ok('go to other paths' not in following.text(), 'commands were sent away')
        t.ok(cluster().blocked_for(silent) > 6 * 86400, 'it may come back')
        cut.end()
        ended(t, target)
        t.eq((host.write(), host.read(1)), (0, 0))


@test
@iwarp_only
def the_lock_of_a_process_that_is_killed_is_broken(t):
    target, config = gateway(t, cluster().image('16M'))
    target.expect(r'its lock is held here')
    with peer(target, TCP) as host:
        t.eq(host.write(), 0)
        following, cut = cut_off_in_hand_over(t, target, config)
        target.signal(signal.SIGSTOP)
        cut.end()
        target.kill()
        t.eq((host.write(1), host.read()), (0, 0))
        following.expect(r'the lock of \S+ was broken: that gateway has not answered')


@test
@iwarp_only
def another_gateway_may_take_the_image_in_between(t):
    """By command, while the process before still has the lock. Commands that waited go to the other path."""
    first, config, other = gateways(t, cluster().image('16M'))
    device = Device(t, [uri_of(x, TCP) for x in (first, other)], '--io-timeout', 120000, '--keep-alive-tmo', 120000)
    device.proc.expect(r'^event path 1 live')
    device.goes_on()
    with peer(first, TCP) as host:
        device.proc.signal(signal.SIGSTOP)  # nothing is in flight when the first one is cut off
        t.cleanup(device.proc.signal, signal.SIGCONT)
        wait_for(lambda: host.read() == 0, 'a read')
        following, cut = cut_off_in_hand_over(t, first, config)
        with control(t, 'gateway1') as c:
            c.call('ana.claim', group=1, action='take')
        device.proc.signal(signal.SIGCONT)
        other.expect(r'its lock is held here')
        following.expect(r'another client has taken its lock in a hand-over|another client holds its lock')
        device.goes_on()
        t.eq(host.write(), 0x302, 'a write where the image is not')
        cut.end()
        ended(t, first)
    t.eq(device.count('errors'), 0, 'errors')
    device.finish()


@test
@iwarp_only
def a_next_process_that_is_killed_leaves_what_was_acknowledged(t):
    image = cluster().image('16M')
    target, config = gateway(t, image)
    target.expect(r'its lock is held here')
    port = target.listeners[1][1]
    device = Device(t, [uri_of(target, TCP)], '--io-timeout', 120000)
    device.goes_on(50)
    following = hand(t, target, config)
    following.signal(signal.SIGKILL)
    following.wait()
    with open(config, encoding='utf-8') as f:
        text = f.read()
    at = text.rindex('port: 0')
    with open(config, 'w', encoding='utf-8') as f:
        f.write(text[:at] + f'port: {port}' + text[at + len('port: 0'):])
    again = t.target(config=config, name='again')
    again.expect(r'its lock is held here')
    device.proc.expect(r'event path \d+ live', since=1)
    device.goes_on(50)
    device.finish()


if __name__ == '__main__':
    sys.exit(main())
