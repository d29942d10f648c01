# SPDX-License-Identifier: BSD-3-Clause
"""Common parts of tests that are hosts themselves: after any action of a peer, the daemon serves other hosts and keeps
no resources of the peer. Over iWARP the host is the Python peer, otherwise librdinit."""

import os

import lib_host
import nvmf_peer as nv
from t_loop import FABRIC, NQN, Failure, wait_for

Peer = nv.Host if FABRIC == 'iwarp' else lib_host.Host
# What a command ends with when the target goes away.
LOST = (nv.iw.PeerError, lib_host.Lost)

# Numbers of the status line that only grow; all others must return to their value from before.
TOTALS = ('reads', 'writes')


def memory(t, nsid=1, size='8MiB', **keys):
    """A namespace of a small size for tests that are not about storage."""
    return t.namespace(nsid, backend='memory', size=size, **keys)


def host(target, nqn=NQN, **kw):
    return Peer(target.addr, target.port, nqn, **kw)


def exercise(target, nqn=NQN, nsid=1, block=512, **kw):
    """A correct host from connect to shutdown, with data that is compared."""
    with host(target, nqn, **kw) as h:
        h.enable()
        queue = h.add_io()
        data = os.urandom(8 * block)
        nv.expect(queue.write_blocks(nsid, 3, data, block))
        # The peer lets the target invalidate its key.
        keyed = {'sgl_type': 0x4F} if FABRIC == 'iwarp' else {}
        cqe, got = queue.read_blocks(nsid, 3, 8, block, **keyed)
        nv.expect(cqe)
        if got != data:
            raise Failure('the well-behaved host read other data than it wrote')
        h.shutdown()


def has_ended(queue):
    """Has the target closed the Python peer's queue?"""
    try:
        queue.property_get(nv.CSTS)
    except (OSError, nv.iw.PeerError):
        return True
    return False


def warm(target, queues=5):
    """Baseline must not count what each reactor allocates once."""
    with host(target) as h:
        h.enable()
        for _ in range(queues):
            h.add_io()
        h.shutdown()


def gauges(target):
    return {key: value for key, value in target.counters().items() if key not in TOTALS}


class Baseline:
    """With Baseline(target): ... abuse ...; at the end the target must serve and hold nothing."""

    def __init__(self, target, nsid=1, *, well_behaved=exercise):
        self.target, self.nsid, self.well_behaved = target, nsid, well_behaved

    def __enter__(self):
        self.well_behaved(self.target, nsid=self.nsid)  # warm up: memory that is allocated only once is allocated now
        self.before = self._settled()
        self.files = self.target.open_files()
        return self

    def _settled(self):
        """The numbers once the end of the last connection has been processed."""
        return wait_for(lambda: self._if_idle(gauges(self.target)), 'the target to be idle')

    @staticmethod
    def _if_idle(now):
        busy = ('admin_queues', 'io_queues', 'controllers', 'tcp_lingers')
        return now if not any(now.get(key) for key in busy) else None

    def check(self):
        self.well_behaved(self.target, nsid=self.nsid)
        last = {}

        def same():
            last.clear()
            last.update(gauges(self.target))
            return last == self.before
        try:
            wait_for(same, 'counters to return')
        except Failure:
            raise Failure(f'counters were {self.before}, are {last}') from None
        wait_for(lambda: self.target.open_files() <= self.files,
                 f'descriptors to return from {self.target.open_files()} to {self.files}')

    def __exit__(self, kind, *exc):
        if kind is None:
            self.check()
