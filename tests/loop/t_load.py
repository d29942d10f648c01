# SPDX-License-Identifier: BSD-3-Clause
"""A host with many commands in flight, for tests of events that end them."""

import nvmf_peer as nv
from t_loop import Failure, wait_for
from t_serving import host

BLOCKS = 8192  # of 512 bytes, at least, in the namespaces that Load uses
DEPTH = 32


class Load:
    """A controller with I/O queues, and posted commands whose answers are not awaited yet."""

    def __init__(self, target, rng, queues=3):
        self.target, self.rng = target, rng
        self.host = host(target)
        self.host.enable()
        self.add_queues(queues)

    def add_queues(self, count):
        self.host.io.clear()
        for _ in range(count):
            self.add_queue()

    def add_queue(self):
        """A QID whose old queue still waits for its commands is refused after a while: try again."""
        def attempt():
            try:
                return self.host.add_io(depth=DEPTH)
            except AssertionError as e:
                if 'status 0x182 (dword 0 0x0000002a)' not in str(e):
                    raise
                return None
        queue = wait_for(attempt, 'the QID to be free')
        queue.pending = []
        return queue

    def post(self, nsid=1, count=None):
        """Fill every queue."""
        for queue in self.host.io:
            for _ in range((count or DEPTH - 2) - len(queue.pending)):
                blocks = self.rng.choice((1, 8, 8, 128))
                cid = queue.next_cid()
                opcode = self.rng.choice((nv.NVM_READ, nv.NVM_WRITE, nv.FLUSH))
                sgl = nv.sgl_null()
                if opcode != nv.FLUSH:
                    region = queue.conn.register(bytes(blocks * 512))
                    sgl = nv.keyed_sgl(region.base, blocks * 512, region.stag, 0x4F)
                queue.post(nv.sqe(opcode, cid, nsid=nsid, cdw10=self.rng.randrange(BLOCKS - blocks),
                                  cdw12=blocks - 1, sgl=sgl))
                queue.pending.append(cid)

    def collect(self, allowed):
        """Wait for every answer; returns the number of answers by status."""
        found = {}
        for queue in self.host.io:
            for cid in queue.pending:
                status = queue.wait(cid).status
                if status not in allowed:
                    raise Failure(f'status {status:#x}')
                found[status] = found.get(status, 0) + 1
            queue.pending = []
        return found
