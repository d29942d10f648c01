# SPDX-License-Identifier: BSD-3-Clause
"""Peers that open connections and do nothing with them, while a well-behaved host comes, works and goes."""

import sys

import attack_lib
from t_loop import each, main
from t_serving import Baseline, exercise


@each(*((attack.name, attack) for attack in attack_lib.attacks('attack_connect')))
def others_are_served(t, attack):
    target = t.target([t.namespace(backend='memory')], target={'reactors': 1, **attack.target})
    with Baseline(target):
        crowd = attack_lib.start(t, target, attack)
        for _ in range(3):
            exercise(target)
        crowd.kill()


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp',)))
