# SPDX-License-Identifier: BSD-3-Clause
"""Many hosts that authenticate, while a correct host connects, works and disconnects."""

import sys

import attack_lib
import nvmf_peer as nv
from t_loop import NQN, each, main, wait_for
from t_serving import exercise


@each(*((attack.name, attack) for attack in attack_lib.attacks('attack_auth')))
def others_are_served(t, attack):
    target = t.target([t.namespace(backend='memory')], target={'reactors': 1, 'buffer_memory': '32MiB', **attack.target},
                      **attack.config(t))
    with nv.Host(target.addr, target.port, NQN, hostnqn='nqn.2024-01.test:good') as good:
        good.enable()
        queue = good.add_io()
        crowd = attack_lib.start(t, target, attack)
        for _ in range(3):
            nv.expect(queue.write_blocks(1, 7, bytes(512)))
            exercise(target)
        wait_for(lambda: 'authenticated host nqn.2024-01.test:auth-' in target.text(), 'one of them to be authenticated')
        crowd.kill()
        nv.expect(queue.flush(1))


if __name__ == '__main__':
    sys.exit(main())
