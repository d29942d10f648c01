# SPDX-License-Identifier: BSD-3-Clause
"""Listeners that are added and removed by SIGHUP, with any provider; test_listeners.py tests the host's view in
detail."""

import re
import sys

from t_loop import ADDR, NQN, PATIENCE, main, program, scaled, test


def configure(t, *listeners):
    return t.config([t.namespace(nsid, backend='memory', size='8MiB') for nsid in (1, 2)], listeners=listeners)


def uri(port):
    return f'nvme+rdma://{ADDR}:{port}/{NQN}/2'


def verify(t, name, at, seconds=3):
    return t.spawn(name, [program('rdverify'), at, '--seconds', seconds, '--queues', '2', '--range', 2 << 20,
                         *PATIENCE])


@test
def a_listener_comes_and_goes(t):
    """Each has a host with blocks of its own."""
    target = t.target(config=configure(t, {}))
    stays = verify(t, 'stays', target.uri(1), seconds=scaled(60, 20))
    for _ in range(2):
        configure(t, {}, {})
        text = target.reload('reloaded: 1 listener added$')
        port = int(re.search(r'listening on \S+:(\d+) \(', text)[1])
        since = target.mark()
        goes = verify(t, 'goes', uri(port), seconds=600)
        target.expect(r': controller \d+ for \S+ from \S+: connected', since=since)
        t.rdinit('read', uri(port), '--data', '-', '--data-size', '512')
        configure(t, {})
        target.reload('reloaded: 1 listener removed$')
        t.ok(goes.wait() != 0, 'rdverify at the removed listener went on')
        t.rdinit('read', uri(port), '--data', '-', '--data-size', '512', rc=1)
        t.ok(stays.running, f'rdverify at the other listener ended ({stays.text()[-500:]})')
    stays.popen.terminate()
    target.stop()


@test
def a_changed_option_is_a_new_listener_at_the_same_port(t):
    target = t.target(config=configure(t, {'provider': 'auto', 'send_with_inv': True}))
    configure(t, {'provider': 'auto', 'send_with_inv': False})
    target.reload('reloaded: 1 listener added, 1 listener removed$')
    t.rdinit('read', target.uri(1), '--data', '-', '--data-size', '512')
    target.stop()


@test
def port_in_use(t):
    first = t.target(config=configure(t, {}))
    proc = t.spawn('second', [program('rdtarget'), '--exit-with-parent', configure(t, {'port': first.port})])
    proc.expect(rf'{re.escape(ADDR)}.*{first.port}: [Aa]ddress already in use; .*; trying again every second')
    proc.expect(r'\bready$')


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp', 'verbs')))
