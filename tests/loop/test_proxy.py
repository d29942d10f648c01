# SPDX-License-Identifier: BSD-3-Clause
"""A network that fails between host and target: which timeout ends which command, and that data stays right."""

import os
import sys

from t_loop import main, program, requires_native, test, wait_for
from t_proxy import Proxy


def between(t, **kw):
    target = t.target(**kw)
    return target, Proxy(t, target.addr, target.port)


def reading(t, target, proxy, *args):
    """A host that reads all the time, through the proxy."""
    host = t.spawn('host', [program('rdinit'), 'bench', proxy.uri(target), '--run-time', '1h', *args])
    wait_for(lambda: target.counters()['reads'] > 100, 'the host to read')
    return host


@test
def data_is_right_when_bytes_trickle(t):
    target, proxy = between(t)
    data = os.urandom(256 << 10)
    proxy.trickle()
    t.rdinit('write', proxy.uri(target), '--data', t.file('in', data), '--crc')
    t.same(t.rdinit('read', proxy.uri(target), '--data-size', len(data)).out, data)


@test
def commands_that_are_late_are_not_lost(t):
    target, proxy = between(t)
    proxy.delay(0.05)
    t.rdinit('write', proxy.uri(target), '--data', t.file('in', b'x' * 65536))
    proxy.forward()
    t.same(t.rdinit('read', proxy.uri(target), '--data-size', 65536).out, b'x' * 65536)


@test
def swallowed_bytes_end_at_the_timeout_of_a_command(t):
    target, proxy = between(t)
    host = reading(t, target, proxy, '--keep-alive-tmo', '0', '--timeout', '3s')
    proxy.swallow()
    t.ok(host.wait() != 0, 'the host ended without an error')
    t.match(r'no answer to .* in time', host.text())
    t.ok(proxy.swallowed, 'nothing was swallowed')


@test
def a_connection_that_nobody_answers_ends_at_the_connect_timeout(t):
    target, proxy = between(t)
    proxy.accepting(False)
    res = t.run([program('rdinit'), 'read', proxy.uri(target), '--data-size', '4096', '--connect-timeout', '500ms'])
    t.ok(res.rc != 0, 'the host ended without an error')
    t.ok(f':{proxy.port}' in res.err, f'the error does not name the address:\n{res.err}')
    proxy.accepting(True)
    t.rdinit('read', proxy.uri(target), '--data-size', '4096')


@test
def resets_end_the_host_and_leave_nothing_at_the_target(t):
    requires_native()
    target, proxy = between(t)

    def once():
        before = proxy.accepted
        host = t.spawn('host', [program('rdinit'), 'bench', proxy.uri(target), '--run-time', '1h'])
        proxy.wait_accepted(before + 2)
        proxy.reset()
        t.ok(host.wait() != 0, 'the host ended without an error')
        t.match(r'reset|closed|lost|aborted', host.text())
        wait_for(lambda: target.counters()['controllers'] == 0, 'the controller to end')
        wait_for(lambda: target.open_files() <= files, 'descriptors to return')
        return target.rss()

    t.rdinit('id-ns', target.uri())  # files that are opened only once are open now
    files = target.open_files()
    for _ in range(3):
        rss = once()
    for _ in range(20):
        last = once()
    t.ok(last < rss + (2 << 20), f'memory of the target grew from {rss} to {last} bytes')


if __name__ == '__main__':
    sys.exit(main())
