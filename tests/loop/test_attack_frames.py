# SPDX-License-Identifier: BSD-3-Clause
"""Peers that begin commands and do not end them, or send frames without end: connected hosts continue, and new hosts
are served."""

import sys

import attack_lib
import nvmf_peer as nv
from t_loop import each, main, wait_for
from t_serving import Baseline, exercise, host

ENDLESS = ('empty_writes', 'empty_parts')


def works(h):
    nv.expect(h.admin.call(nv.sqe(nv.KEEP_ALIVE, h.admin.next_cid())))
    for n in range(8):
        nv.expect(h.io[0].write_blocks(1, 8 * n, bytes([n]) * 4096, in_capsule=n % 2 == 0))
        nv.expect_data(h.io[0].read_blocks(1, 8 * n, 8))


@each(*((attack.name, attack) for attack in attack_lib.attacks('attack_frames')))
def others_are_served(t, attack):
    target = t.target([t.namespace(backend='memory')], target={'reactors': 1, **attack.target})
    with Baseline(target):
        with host(target) as h:
            h.enable()
            h.add_io()
            crowd = attack_lib.start(t, target, attack)
            t.eq(crowd.counts['failed'], 0, 'connections that did not get to where the attack wants them')
            if attack.run.__name__ in ENDLESS:
                wait_for(lambda: 'frames without payload' in target.text(), 'the target to end such a connection')
            for _ in range(20):
                works(h)
            for _ in range(3):
                exercise(target)
            crowd.kill()
            works(h)
            h.shutdown()


if __name__ == '__main__':
    sys.exit(main())
