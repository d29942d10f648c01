# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of both simulations do: run seeds, and compare two runs of one."""

from t_loop import LONG, SANITIZED, program

SEEDS = 1000 if LONG else 10 if SANITIZED else 50
STEPS = 100000


class Simulation:
    """@name: "rdsim", or "rdsim_gateways"."""

    def __init__(self, name):
        self.name = name

    def run(self, t, *args, deadline=None):
        return t.run([program(self.name), *args], deadline=deadline)

    def check_seeds(self, t, count, *args):
        """No invariant is violated."""
        res = self.run(t, '--count', count, '--steps', STEPS, *args, deadline=1200)
        t.eq(res.rc, 0, res.text[-2000:] + res.err)
        t.eq(res.text.count(': good,'), count)

    def check_repeats(self, t, seed, *args):
        """The same trace twice, which is returned."""
        first, second = (self.run(t, '--seed', seed, '--steps', 40000, '--trace', *args).text for _ in range(2))
        t.same(first.encode(), second.encode())
        return first
