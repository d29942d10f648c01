# SPDX-License-Identifier: BSD-3-Clause
"""Many hosts that hold shared resources, while a correct host connects, works and disconnects."""

import os
import sys

import attack_lib
import nvmf_peer as nv
from t_loop import each, main, test, wait_for
from t_serving import Baseline, exercise, host

GOOD = 'nqn.2024-01.test:good'
MIB = 2048  # blocks


@each(*((attack.name, attack) for attack in attack_lib.attacks('attack_hosts')))
def others_are_served(t, attack):
    """A host that was there before, with the largest transfers, and hosts that connect later."""
    target = t.target([t.namespace(backend='memory')],
                      target={'reactors': 1, 'buffer_memory': '32MiB', **attack.target})
    data = os.urandom(MIB * 512)
    with Baseline(target), host(target, hostnqn=GOOD) as good:
        good.enable()
        mine = good.add_io()
        nv.expect(mine.write_blocks(1, 0, data))
        crowd = attack_lib.start(t, target, attack)
        for _ in range(3):
            nv.expect(mine.write_blocks(1, 0, data))
            t.same(nv.expect_data(mine.read_blocks(1, 0, MIB)), data)
            exercise(target, hostnqn=GOOD + '-new')
        crowd.kill()


def attack(name):
    return next(a for a in attack_lib.attacks('attack_hosts') if a.run.__name__ == name)


@test
def no_host_holds_buffers_for_ever(t):
    """A READ that a host leaves unanswered counts against it, even if the host answers other commands."""
    target = t.target([t.namespace(backend='memory')], target={'reactors': 1, 'buffer_memory': '32MiB'})
    with Baseline(target):
        crowd = attack_lib.start(t, target, attack('beside_others'), 2)
        wait_for(lambda: target.counters()['buffer_bytes'] >= 2 << 20, 'the hosts to hold buffers')
        wait_for(lambda: not target.counters()['buffer_bytes'], 'these buffers to be given back')
        crowd.kill()


@test
def a_connect_waits_for_no_other(t):
    """Hundreds of them have a buffer; of more, the oldest connections end."""
    target = t.target([t.namespace(backend='memory')], target={'reactors': 1})
    with Baseline(target):
        crowd = attack_lib.start(t, target, attack('connects'), 300)
        t.same(target.counters()['waiting_for_buffers'], 0)
        t.same(target.counters()['admin_queues'], 300)
        crowd.kill()
        wait_for(lambda: not target.counters()['admin_queues'], 'these connections to end')
        crowd = attack_lib.start(t, target, attack('connects'), 1200)
        wait_for(lambda: target.counters()['admin_queues'] <= 520, 'the oldest connections without a Connect to end')
        crowd.kill()


@each(('of a host', {'controllers_per_host': 3}, True), ('of an address', {'controllers_per_address': 3}, False))
def there_are_limits(t, limits, same):
    """One more Connect is refused with Controller Busy, and the log names the limit; a Connect of another host is
    accepted."""
    target = t.target([t.namespace(backend='memory')], target={'limits': limits})
    hosts = [host(target, hostnqn=GOOD if same else f'{GOOD}-{n}') for n in range(5)]
    for h in hosts[:3]:
        h.connect()
    for h in hosts[3:]:
        nv.expect(h.admin.fabrics_connect(h.data()), nv.CONNECT_BUSY)
    target.expect(rf'refused a Connect from .* host "{GOOD}.*: target.limits.{next(iter(limits))} \(3\) is reached')
    if same:
        host(target).connect().close()
    hosts[0].close()
    wait_for(lambda: hosts[4].admin.fabrics_connect(hosts[4].data()).status == nv.SUCCESS, 'room for one more')
    for h in hosts[1:]:
        h.close()


if __name__ == '__main__':
    sys.exit(main())
