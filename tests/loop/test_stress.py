# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that come and go at random, on all reactors at once: resets, shutdowns, aborts, lost connections
and reconnects with commands in flight. Afterwards the target serves and holds nothing.

RD_TEST_SEED repeats the decisions of a run (not the timing); RD_TEST_SECONDS is how long.
"""

import os
import random
import sys
import threading
import time

import iwarp_peer as iw
import nvmf_peer as nv
import lib_host
from t_loop import DEADLINE, FABRIC, LONG, SANITIZED, SCALE, Failure, each, main, scaled
from t_serving import Baseline, host

SEED = int(os.environ.get('RD_TEST_SEED', random.SystemRandom().randrange(1 << 32)))
SECONDS = float(os.environ.get('RD_TEST_SECONDS', 60 if LONG else 2.5))
HOSTS = scaled(8, 3)
SHORT_KATO = 200  # ms; the association may end between any two steps
LONG_KATO = 5000 if SCALE == 1 else 120000  # and here not; both ends may stand still for seconds
BLOCKS = 32768

# The statuses with which a command may end because of its queue, its controller or an Abort.
EXPECTED = {nv.SUCCESS, nv.ABORTED_BY_REQUEST, nv.SEQUENCE_ERROR, nv.DATA_TRANSFER_ERROR, nv.AER_LIMIT,
            0x103}  # Abort Command Limit Exceeded


class Gone(Exception):
    """The controller of an I/O queue has ended."""


class Guest:
    """One short association after another; each host draws its steps from its own random generator."""

    def __init__(self, target, number):
        self.target = target
        self.rng = random.Random(f'{SEED} {number}')
        self.lives = self.answers = 0
        self.error = None

    def run(self, end):
        try:
            while time.monotonic() < end:
                self.live()
                self.lives += 1
        except Exception as e:  # handed to the test
            self.error = e

    def live(self):
        h = host(self.target, kato=self.rng.choice((0, 0, SHORT_KATO, LONG_KATO)), ird=self.rng.choice((1, 4, 16)))
        try:
            h.enable()
            for _ in range(self.rng.randrange(4)):
                self.add_io(h)
            for _ in range(self.rng.randrange(1, 6)):
                self.rng.choice((self.load, self.load, self.abort, self.aer, self.reset, self.requeue,
                                 self.drain))(h)
            self.leave(h)
        except (iw.PeerClosed, iw.Terminated, ConnectionError):
            pass  # the target ended the association (keep alive), or our own reset was faster
        except Gone:
            if h.kato != SHORT_KATO:
                raise
        finally:
            h.close(reset=self.rng.random() < 0.5)

    @staticmethod
    def add_io(h, **kw):
        """A QID whose old queue still waits for its commands is refused after a while: try again."""
        end = time.monotonic() + DEADLINE
        while True:
            try:
                return h.add_io(depth=16, **kw)
            except AssertionError as e:
                if 'status 0x182 (dword 0 0x00010010)' in str(e):  # IPO: CNTLID
                    raise Gone from e
                if 'status 0x182 (dword 0 0x0000002a)' not in str(e) or time.monotonic() > end:
                    raise

    def post(self, queue, nsid, opcode, in_capsule=False):
        count = self.rng.choice((1, 8, 16)) if in_capsule else self.rng.choice((1, 8, 100, 256))
        slba, cid = self.rng.randrange(BLOCKS - count), queue.next_cid()
        if opcode == nv.FLUSH:
            sgl, data = nv.sgl_null(), b''
        elif in_capsule:
            sgl, data = nv.offset_sgl(0, count * 512), bytes(count * 512)
        else:
            region = queue.conn.register(bytes(count * 512))
            sgl, data = nv.keyed_sgl(region.base, count * 512, region.stag, 0x4F), b''
        queue.post(nv.sqe(opcode, cid, nsid=nsid, cdw10=slba, cdw12=count - 1, sgl=sgl) + data)
        queue.pending.append(cid)

    def load(self, h):
        for queue in h.io:
            queue.pending = getattr(queue, 'pending', [])
            for _ in range(self.rng.randrange(15 - len(queue.pending) if len(queue.pending) < 14 else 1)):
                opcode = self.rng.choice((nv.NVM_READ, nv.NVM_WRITE, nv.FLUSH))
                self.post(queue, self.rng.choice((1, 2)), opcode,
                          opcode == nv.NVM_WRITE and self.rng.random() < 0.5)

    def abort(self, h):
        for queue in h.io:
            for cid in getattr(queue, 'pending', ())[:3]:
                cqe = h.admin.call(nv.sqe(nv.ABORT, h.admin.next_cid(), cdw10=queue.qid | cid << 16))
                self.check(cqe)

    def aer(self, h):
        h.admin.post(nv.sqe(nv.AER, h.admin.next_cid()))

    def drain(self, h):
        for queue in h.io:
            for cid in getattr(queue, 'pending', ()):
                self.check(queue.wait_among(cid, h.io))
            queue.pending = []

    def check(self, cqe):
        self.answers += 1
        if cqe.status not in EXPECTED:
            raise Failure(f'status {cqe.status:#x}')

    def reset(self, h):
        """Controller reset with everything in flight; the queues end, the association continues."""
        nv.expect(h.admin.property_set(nv.CC, 0x00460000))
        while nv.expect(h.admin.property_get(nv.CSTS)).dw0 & 1:
            pass
        for queue in h.io:
            queue.close(reset=self.rng.random() < 0.5)
        h.io.clear()
        nv.expect(h.admin.property_set(nv.CC, 0x00460001))
        while not nv.expect(h.admin.property_get(nv.CSTS)).dw0 & 1:
            pass
        for _ in range(self.rng.randrange(3)):
            self.add_io(h)

    def requeue(self, h):
        """An I/O queue is lost and created again at once, with the same QID."""
        if not h.io:
            return
        queue = h.io.pop()
        queue.close(reset=self.rng.random() < 0.5)
        self.add_io(h, qid=queue.qid)

    def leave(self, h):
        how = self.rng.randrange(4)
        if how == 0:
            h.shutdown()
        elif how == 1:
            self.drain(h)
            h.shutdown()
        elif how == 2:  # the admin queue first
            h.admin.close(reset=self.rng.random() < 0.5)
        elif h.io:
            self.rng.choice(h.io).close(reset=True)


class LibGuest(Guest):
    """The same with librdinit, which does not reset controllers or abort commands."""

    def live(self):
        h = host(self.target, kato=self.rng.choice((0, 0, SHORT_KATO, LONG_KATO)), queues=8)
        try:
            h.enable()
            for _ in range(self.rng.randrange(4)):
                h.add_io(depth=16)
            for _ in range(self.rng.randrange(1, 6)):
                self.rng.choice((self.load, self.load, self.drain, self.requeue, self.ask))(h)
            self.leave(h)
        except lib_host.Lost:
            if h.kato != SHORT_KATO:
                raise
        finally:
            h.close()

    def load(self, h):
        for queue in h.io:
            for _ in range(self.rng.randrange(8)):
                if len(queue.pending) >= 6:
                    break
                self.post(queue, self.rng.choice((1, 2)),
                          self.rng.choice((queue.post_read, queue.post_write, queue.post_flush)))

    def post(self, queue, nsid, how, in_capsule=False):
        count = self.rng.choice((1, 8, 16, 100, 256))
        slba = self.rng.randrange(BLOCKS - count)
        if how == queue.post_flush:
            how(nsid)
        elif how == queue.post_read:
            how(nsid, slba, count)
        else:
            how(nsid, slba, bytes(count * 512))

    def drain(self, h):
        for queue in h.io:
            for pending in list(queue.pending):
                self.check(pending.wait())

    def ask(self, h):
        self.check(h.admin.identify(1)[0])

    def requeue(self, h):
        """A queue ends with its commands in flight, and another one takes its place."""
        if h.io:
            h.io.pop().close()
            h.add_io(depth=16)

    def leave(self, h):
        how = self.rng.randrange(4)
        if how < 2:
            self.drain(h)
        if how in (1, 2):
            h.shutdown()
        elif how == 3:
            h.admin.close()


@each(('io_uring and memory', 'io_uring'), ('aio and memory', 'aio'))
def hosts_that_come_and_go_at_random(t, engine):
    target = t.target([t.namespace(1, engine=engine), t.namespace(2, backend='memory')],
                      target={'reactors': 3, 'buffer_memory': '1MiB', 'max_data_size': '128KiB'})
    t.note(f'seed {SEED}')
    with host(target) as h:  # what each reactor allocates once is not for Baseline to find
        h.enable()
        for _ in range(5):
            h.add_io()
        h.shutdown()
    with Baseline(target, nsid=2):
        kind = Guest if FABRIC == 'iwarp' else LibGuest
        guests = [kind(target, number) for number in range(4 if SANITIZED else HOSTS)]
        end = time.monotonic() + SECONDS
        threads = [threading.Thread(target=guest.run, args=(end,)) for guest in guests]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for guest in guests:
            if guest.error:
                raise guest.error
        lives = sum(guest.lives for guest in guests)
        t.note(f'{lives} associations, {sum(guest.answers for guest in guests)} answers looked at')
        t.ok(lives >= len(guests), 'hardly anything happened')


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp', 'verbs')))
