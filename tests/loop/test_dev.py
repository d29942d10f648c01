# SPDX-License-Identifier: BSD-3-Clause
"""A device (rdinit_dev.h) under verified I/O while targets are killed and networks fail: no data is lost."""

import os
import re
import sys
import time

from t_dev import Device
from t_loop import LONG, NQN, each, main, preloaded, program, requires_native, test, wait_for
from t_proxy import Proxy

# How long one scenario goes on failing, in rounds; by the clock in a long run.
ROUNDS = 2
LONG_SECONDS = 300


def rounds(at_least=ROUNDS):
    end = time.monotonic() + LONG_SECONDS
    number = 0
    while number < at_least or (LONG and time.monotonic() < end):
        yield number
        number += 1


def disk(t, **keys):
    return t.namespace(size='16MiB', **keys)


def restarted(t, proxy, config, number, **kw):
    """Start the target again, as another process on another port, to which the proxy forwards."""
    target = t.target(config=config, name=f'rdtarget{number}', **kw)
    proxy.to = (target.addr, target.port)
    return target


@each(('one thread', 1, ()), ('two threads', 2, ()), ('and no resending of writes', 1, ('--no-resend', 1)))
def a_killed_target_that_comes_back_is_not_noticed(t, threads, args):
    config = t.config([disk(t)])
    target = t.target(config=config, name='rdtarget_first')
    proxy = Proxy(t, target.addr, target.port)
    dev = Device(t, [proxy.uri(target)], '--threads', threads, *args)
    for number in rounds():
        dev.goes_on()
        target.kill()
        if number % 2:
            dev.proc.expect(r'^event path 0 waiting: .*refused|^event path 0 waiting: .*closed')
        mark = dev.proc.mark()
        target = restarted(t, proxy, config, number)
        dev.proc.expect(r'^event device live', since=mark)
    dev.goes_on()
    t.eq(dev.count('errors'), 0, 'errors')
    dev.finish()


@test
def a_target_that_is_killed_comes_back_at_its_address(t):
    """And without a proxy in between, so at the same port."""
    config = t.config([disk(t)])
    target = t.target(config=config, name='rdtarget_first')
    dev = Device(t, [target.uri()])
    for number in rounds(2):
        dev.goes_on()
        mark = dev.proc.mark()
        target.kill()
        dev.proc.expect(r'^event path 0 lost', since=mark)
        config = t.config([disk(t)], listener={'port': target.port})
        target = t.target(config=config, name=f'rdtarget{number}')
        dev.proc.expect(r'^event device live', since=mark)
    dev.goes_on()
    t.eq(dev.count('errors'), 0, 'errors')
    dev.finish()


@test
def the_caller_does_not_notice_the_loss_of_one_of_two_paths(t):
    target = t.target([disk(t)])
    proxies = [Proxy(t, target.addr, target.port) for _ in range(2)]
    dev = Device(t, [p.uri(target) for p in proxies], '--threads', 2, '--no-compare', 1)
    dev.proc.expect(r'^event path 1 live')
    for number in rounds(4):
        proxy, mark = proxies[number % 2], dev.proc.mark()
        proxy.accepting(False)
        proxy.reset()
        dev.proc.expect(rf'^event path {number % 2} lost', since=mark)
        dev.goes_on()
        proxy.accepting(True)
        dev.proc.expect(rf'^event path {number % 2} live', since=mark)
        dev.goes_on()
    t.eq([line for line in dev.proc.text().splitlines() if line == 'event device waiting'], [],
         'the device was without a path')
    t.eq(dev.count('errors') + dev.count('unknown'), 0, 'errors')
    dev.finish()


@each(('round robin', 0), ('queue depth', 1), ('failover', 2))
def two_targets_with_one_disk_are_killed_in_turn(t, policy):
    """Both targets have the same file; the fence of one target does not know the writes of the other."""
    ns = disk(t)
    env = preloaded('nolock')  # both may use one file
    configs = [t.config([ns], name=f'rdtarget_{i}.yaml') for i in range(2)]
    targets = [t.target(config=configs[i], name=f'rdtarget_{i}_first', env=env) for i in range(2)]
    proxies = [Proxy(t, target.addr, target.port) for target in targets]
    dev = Device(t, [p.uri(x) for p, x in zip(proxies, targets)], '--policy', policy)
    dev.proc.expect(r'^event path 1 live')
    for number in rounds(2):
        i = number % 2
        dev.goes_on()
        mark = dev.proc.mark()
        targets[i].kill()
        dev.proc.expect(rf'^event path {i} lost', since=mark)
        dev.goes_on()
        mark = dev.proc.mark()
        targets[i] = restarted(t, proxies[i], configs[i], f'_{i}_{number}', env=env)
        dev.proc.expect(rf'^event path {i} live', since=mark)
    dev.goes_on()
    t.eq(dev.count('errors'), 0, 'errors')
    dev.finish()


@test
def swallowed_commands_are_aborted_then_the_path_is_reset(t):
    target = t.target([disk(t)])
    proxy = Proxy(t, target.addr, target.port)
    # Without keep-alive, so that the time limit of a command expires first.
    dev = Device(t, [proxy.uri(target)], '--io-timeout', 1000, '--keep-alive-tmo', 120000)
    for _ in rounds(2):
        dev.goes_on()
        mark = dev.proc.mark()
        proxy.swallow()
        dev.proc.expect(r'^event path 0 lost: .*no answer to .* in time', since=mark)
        proxy.forward()
        dev.proc.expect(r'^event device live', since=mark)
    dev.goes_on()
    t.eq(dev.count('errors'), 0, 'errors')
    dev.finish()


@test
def a_silent_path_does_not_disturb_the_other_one(t):
    target = t.target([disk(t)])
    proxies = [Proxy(t, target.addr, target.port) for _ in range(2)]
    dev = Device(t, [p.uri(target) for p in proxies], '--io-timeout', 1000)
    dev.proc.expect(r'^event path 1 live')
    dev.goes_on()
    proxies[1].swallow()
    dev.proc.expect(r'^event path 1 lost')
    dev.goes_on()
    t.ok(not re.search(r'(?m)^event path 0 lost', dev.proc.text()), 'path 0 was lost as well')
    t.eq(dev.count('errors'), 0, 'errors')
    proxies[1].forward()
    dev.finish()


@test
def delayed_and_trickling_bytes_lose_nothing(t):
    target = t.target([disk(t)])
    proxy = Proxy(t, target.addr, target.port)
    dev = Device(t, [proxy.uri(target)], '--slots', 4, '--keep-alive-tmo', 120000, '--io-timeout', 120000)
    proxy.delay(0.02)
    dev.goes_on(40)
    proxy.trickle()
    dev.goes_on(40)
    proxy.forward()
    dev.finish()
    t.ok(not re.search(r'(?m)^event path 0 lost', dev.proc.text()), 'the path was lost')


@test
def resets_leave_nothing_behind(t):
    requires_native()
    target = t.target([disk(t)])
    proxy = Proxy(t, target.addr, target.port)
    dev = Device(t, [proxy.uri(target)], '--reconnect-delay', 100)

    def once():
        mark = dev.proc.mark()
        proxy.reset()
        dev.proc.expect(r'^event path 0 lost', since=mark)
        dev.proc.expect(r'^event device live', since=mark)
        dev.goes_on(100)
        return dev.proc.open_files(), dev.proc.rss()

    for _ in range(5):
        files, rss = once()
    for _ in rounds(10):
        last = once()
    t.eq(last[0], files, 'open files of the host')
    t.ok(last[1] < rss + (4 << 20), f'resident memory grew from {rss} to {last[1]} bytes')
    dev.finish()


@test
def without_a_path_commands_fail_fast_and_then_the_device_fails(t):
    target = t.target([disk(t)])
    dev = Device(t, [target.uri()], '--fast-io-fail-tmo', 500, '--ctrl-loss-tmo', 3000, '--errors-ok', 1)
    dev.goes_on()
    target.kill()
    wait_for(lambda: dev.count('errors') > 0, 'commands to fail')
    t.ok('event device failed' not in dev.proc.text(), 'the device failed at once')
    dev.proc.expect(r'^event path 0 failed: .*given up after')
    dev.proc.expect(r'^event device failed')


@test
def another_namespace_is_not_taken_for_the_same(t):
    target = t.target([disk(t)])
    other = t.target([disk(t, path=t.path('other.img'), uuid='6f0c2b4e-6d0f-4a4e-9a56-0e9b7a3d5c11')],
                     name='rdtarget_other')
    dev = Device(t, [target.uri(), other.uri()])
    # The path that is connected first defines the device.
    dev.proc.expect(r'^event path \d failed: .*is not that of the device')
    dev.goes_on()
    dev.finish()


@test
def a_namespace_that_grew_is_told(t):
    memory = {'backend': 'memory'}
    target = t.target([t.namespace(size='8MiB', **memory)])
    dev = Device(t, [target.uri()])
    for size, blocks in (('16MiB', 32768), ('12MiB', 24576)):
        t.config([t.namespace(size=size, **memory)])
        target.reload('1 resized$')
        dev.proc.expect(rf'^event resized {blocks}$')
    dev.goes_on()
    dev.finish()


@test
def ana_states_are_followed(t):
    """By events, and by statuses of commands that arrive before them; without a usable path commands wait."""
    def configure(*states):
        return t.config([disk(t)], listeners=[{'ana': [{'group': 1, 'state': state}]} for state in states])

    target = t.target(config=configure('optimized', 'inaccessible'))
    uris = [target.uri().replace(f':{target.port}/', f':{port}/') for _, port in target.listeners]
    dev = Device(t, uris)
    dev.proc.expect(r'^event path 1 live')
    for states in (('inaccessible', 'optimized'), ('non-optimized', 'optimized'), ('persistent-loss', 'optimized'),
                   ('optimized', 'inaccessible')):
        dev.goes_on()
        mark = dev.proc.mark()
        configure(*states)
        target.reload()
        dev.proc.expect(rf'^event ana 0 {states[0]}', since=mark)
    mark = dev.proc.mark()
    configure('inaccessible', 'inaccessible')
    target.reload()
    dev.proc.expect(r'^event device waiting', since=mark)
    configure('inaccessible', 'non-optimized')
    target.reload()
    dev.proc.expect(r'^event device live', since=mark)
    dev.goes_on()
    t.eq(dev.count('errors') + dev.count('unknown'), 0, 'errors')
    t.ok(not re.search(r'(?m)^event path \d lost', dev.proc.text()), 'a path was lost')
    dev.finish()


@test
def a_target_is_drained_and_the_other_path_takes_over(t):
    """Each of two targets with the same file in turn: rdctl drain, rdctl shutdown, and a new start."""
    ns, env = disk(t), preloaded('nolock')
    sockets = [t.path(f'control{i}.sock') for i in range(2)]
    configs = [t.config([ns], name=f'rdtarget_{i}.yaml', more={'control': {'socket': sockets[i]}}) for i in range(2)]
    targets = [t.target(config=configs[i], name=f'rdtarget_{i}_first', env=env) for i in range(2)]
    proxies = [Proxy(t, target.addr, target.port) for target in targets]
    dev = Device(t, [p.uri(x) for p, x in zip(proxies, targets)], '--threads', 2)
    dev.proc.expect(r'^event path 1 live')
    for number in rounds(2):
        i = number % 2
        dev.goes_on()
        mark = dev.proc.mark()
        for verb in ('drain', 'shutdown'):
            res = t.run([program('rdctl'), '--socket', sockets[i], verb])
            t.eq(res.rc, 0, f'exit status of rdctl {verb} ({res.err})')
        dev.proc.expect(rf'^event ana {i} inaccessible', since=mark)
        t.eq(targets[i].wait(), 0, 'exit status of rdtarget')
        dev.goes_on()
        mark = dev.proc.mark()
        targets[i] = restarted(t, proxies[i], configs[i], f'_{i}_{number}', env=env)
        dev.proc.expect(rf'^event path {i} live', since=mark)
    dev.goes_on()
    t.eq([line for line in dev.proc.text().splitlines() if line == 'event device waiting'], [],
         'the device was without a path')
    t.eq(dev.count('errors') + dev.count('unknown'), 0, 'errors')
    dev.finish()


@test
def a_discovery_controller_names_the_paths(t):
    """Existing paths and new ones; the device continues without paths that are removed."""
    target = t.target(config=t.config([disk(t)], listeners=[{}]))
    dev = Device(t, [target.uri()], '--discovery', 1)
    dev.goes_on()
    mark = dev.proc.mark()
    t.config([disk(t)], listeners=[{}, {}])
    target.reload('1 listener added')
    dev.proc.expect(r'^event path 1 live', since=mark)
    t.config([disk(t)], listeners=[{}])
    target.reload('1 listener removed')
    dev.proc.expect(r'^event path 1 failed: .*the discovery log no longer lists it', since=mark)
    dev.goes_on()
    t.eq(dev.count('errors'), 0, 'errors')
    dev.finish()


@test
def addresses_that_come_and_go_do_not_use_up_the_paths(t):
    """More targets than a device has paths, each on another port, while the first target stays."""
    target = t.target(config=t.config([disk(t)], listeners=[{}]))
    dev = Device(t, [target.uri()], '--discovery', 1)
    seen = set()
    for _ in range(18):
        mark = dev.proc.mark()
        t.config([disk(t)], listeners=[{}, {}])
        target.reload('1 listener added')
        index = dev.proc.expect(r'^event path (\d+) live', since=mark)[1]
        seen.add(index)
        t.config([disk(t)], listeners=[{}])
        target.reload('1 listener removed')
        dev.proc.expect(rf'^event path {index} failed: .*no longer lists it', since=mark)
    t.ok(len(seen) > 1 and '0' not in seen, f'paths {seen}')
    dev.goes_on()
    t.eq(dev.count('errors'), 0, 'errors')
    dev.finish()


@test
def a_path_whose_record_comes_back_is_connected_again(t):
    target = t.target(config=t.config([disk(t)], listeners=[{}, {}]))
    port = target.listeners[1][1]
    dev = Device(t, [target.uri()], '--discovery', 1)
    dev.proc.expect(r'^event path 1 live')
    mark = dev.proc.mark()
    t.config([disk(t)], listeners=[{}])
    target.reload('1 listener removed')
    dev.proc.expect(r'^event path 1 failed', since=mark)
    mark = dev.proc.mark()
    t.config([disk(t)], listeners=[{}, {'port': port}])
    target.reload('1 listener added')
    dev.proc.expect(r'^event path 1 live', since=mark)
    dev.goes_on()
    dev.finish()


def referring(t, *referrals):
    """A target without subsystems whose discovery controller has these referrals."""
    config = t.config(subsystems=[], name='front.yaml', more={'referrals': list(referrals)})
    return t.target(config=config, name='rdtarget_front')


@test
def referrals_are_followed(t):
    """Referrals to a controller that has the paths, and back to the controller that referred to it."""
    target = t.target([disk(t)], name='rdtarget_disk')
    dev = Device(t, [referring(t, {'address': target.addr, 'port': target.port}).uri()], '--discovery', 1)
    dev.proc.expect(r'^event path 0 live')
    dev.goes_on()
    dev.finish()


@test
def more_referrals_than_are_followed_are_told_once(t):
    """The first referrals are followed; the others lead to addresses without a listener."""
    target = t.target([disk(t)], name='rdtarget_disk')
    first = referring(t, {'address': target.addr, 'port': target.port},
                      *({'address': f'127.0.1.{i}', 'port': 1} for i in range(1, 13)))
    dev = Device(t, [first.uri()], '--discovery', 1, env=dict(os.environ, RDINIT_DEBUG='warning'))
    dev.goes_on()
    t.eq(len(re.findall('and later ones, are not followed: 8 discovery', dev.proc.text())), 1, 'warnings')
    dev.finish()


@each(('no such subsystem', '/nqn.2024-01.test:none/1', r'none is an RDMA path to nqn\.2024-01\.test:none'),
      ('nobody listens', None, r'refused'))
def opening_by_discovery_fails(t, path, says):
    target = t.target([disk(t)])
    uri = f'nvme+rdma://{target.host}:{target.port}{path}' if path else f'nvme+rdma://{target.host}:1/{NQN}/1'
    res = t.run([program('rddev'), '--discovery', '1', uri])
    t.eq(res.rc, 1, 'exit status')
    t.match(says, res.err)


@each(('by a path', ()), ('by discovery', ('--discovery', '1')))
def opening_by_an_unknown_host_name_fails(t, args):
    res = t.run([program('rddev'), *args, f'nvme+rdma://no-such-host.invalid/{NQN}/1'])
    t.eq(res.rc, 1, 'exit status')
    t.match(r'rddev: .*no-such-host\.invalid: ', res.err)


@test
def a_subsystem_that_comes_after_its_target_is_waited_for(t):
    """A daemon that starts without the subsystem, or without the host, gets it by a reload."""
    target = t.target(config=t.config([disk(t)]))
    dev = Device(t, [target.uri()])
    other = 'nqn.2024-01.test:other'
    for number, early in enumerate(({'nqn': other, 'allow_any_host': True}, {'nqn': NQN, 'hosts': [other]})):
        dev.goes_on()
        mark = dev.proc.mark()
        target.kill()
        dev.proc.expect(r'^event path 0 lost', since=mark)
        config = t.config(subsystems=[{**early, 'namespaces': [disk(t)]}], listener={'port': target.port})
        target = t.target(config=config, name=f'rdtarget{number}')
        dev.proc.expect(r'^event path 0 waiting: .*not a.*has worked before', since=mark)
        t.config([disk(t)], listener={'port': target.port})
        target.reload()
        dev.proc.expect(r'^event device live', since=mark)
    dev.goes_on()
    t.eq(dev.count('errors'), 0, 'errors')
    dev.finish()


@test
def a_child_that_frees_its_copies_does_no_harm(t):
    target = t.target([disk(t)])
    dev = Device(t, [target.uri()], '--threads', 2)
    for _ in range(3):
        dev.goes_on()
        mark = dev.proc.mark()
        dev.proc.popen.stdin.write(b'f')
        dev.proc.popen.stdin.flush()
        dev.proc.expect(r'^the child has ended', since=mark)
    dev.goes_on(2000)
    t.eq(re.findall(r'event path 0 lost', dev.proc.text()), [], 'losses of the path')
    dev.finish()


if __name__ == '__main__':
    sys.exit(main())
