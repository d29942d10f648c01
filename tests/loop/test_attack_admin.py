# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that send admin commands without a pause: connected hosts continue, and new hosts are served."""

import sys

import attack_admin
import attack_lib
import nvmf_peer as nv
from t_loop import each, main
from t_serving import Baseline, exercise, host

# The largest configuration takes seconds to start; tools/attack measures it.
attack_admin.NAMESPACES = 2000
attack_admin.SUBSYSTEMS = 200


@each(*((attack.name, attack) for attack in attack_lib.attacks('attack_admin')))
def others_are_served(t, attack):
    target = t.target([t.namespace(backend='memory')], target={'reactors': 1, **attack.target},
                      **(attack.config(t) if attack.config else {}))
    if attack.run is attack_admin.allocated:
        # The thread for such questions is started by the first one.
        with host(target) as h:
            h.enable()
            nv.expect(h.admin.data_in(attack_admin.GET_LBA_STATUS, 4096, nsid=2, cdw12=4096 // 4 - 1,
                                      cdw13=attack_admin.ALLOCATED << 24)[0])
            h.shutdown()
    with Baseline(target):
        with host(target) as h:
            h.enable()
            io = h.add_io()
            crowd = attack_lib.start(t, target, attack)
            for n in range(20):
                nv.expect(h.admin.call(nv.sqe(nv.KEEP_ALIVE, h.admin.next_cid())))
                nv.expect(io.write_blocks(1, 8 * n, bytes([n]) * 4096))
                t.same(nv.expect_data(io.read_blocks(1, 8 * n, 8)), bytes([n]) * 4096)
            for _ in range(3):
                exercise(target)
            crowd.kill()
            h.shutdown()


if __name__ == '__main__':
    sys.exit(main())
