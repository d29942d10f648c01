# SPDX-License-Identifier: BSD-3-Clause
"""Hostile peers of a listener for NVMe/TCP: hosts over NVMe/TCP and over RDMA go on, and new ones are served."""

import sys

import attack_admin
import attack_lib
import nvmf_peer as nv
import tcp_peer
from t_loop import NQN, each, main
from t_serving import Baseline, exercise

attack_admin.NAMESPACES = 2000  # the largest configuration takes seconds to start; tools/attack measures it


def over_tcp(target):
    with tcp_peer.Host(target.addr, attack_lib.port_of(target, 'tcp'), NQN, hostnqn='nqn.2024-01.test:good') as h:
        h.enable()
        queue = h.add_io()
        nv.expect(queue.write_blocks(1, 0, b'\7' * 4096))
        cqe, data = queue.read_blocks(1, 0, 8)
        nv.expect(cqe)
        assert data == b'\7' * 4096
        h.shutdown()


@each(*((attack.name, attack) for attack in attack_lib.attacks('attack_tcp')))
def others_are_served(t, attack):
    target = t.target([t.namespace(backend='memory')], listeners=attack.listeners,
                      target={'reactors': 1, 'buffer_memory': '32MiB', **attack.target},
                      **(attack.config(t) if attack.config else {}))
    over_tcp(target)
    with Baseline(target):
        crowd = attack_lib.start(t, target, attack)
        t.eq(crowd.counts['failed'], 0, 'connections that did not get to where the attack wants them')
        for _ in range(3):
            exercise(target)
            over_tcp(target)
        crowd.kill()


if __name__ == '__main__':
    sys.exit(main())
