# SPDX-License-Identifier: BSD-3-Clause
"""A target with many connections and namespaces hands over many times in a row, under load, and no host notices.

With RD_TEST_LONG=1: 256 connections of both transports, 1,000 namespaces, 100 hand-overs. The hosts of C keep many commands in
flight, with R2Ts and RDMA READs; those of Python know what each answer has to be: a command that is lost or executed
twice changes a counter, which fused Compare and Write advance."""

import os
import random
import statistics
import sys
import threading
import time

import nvmf_peer as nv
from t_control import Control, with_socket
from t_dev import Device
from t_loop import LONG, NQN, Failure, iwarp_only, main, test, wait_for
from t_owner import CONFLICT, WE
from t_serving import memory
from t_upgrade import RDMA, TCP, ended, no_reconnect, pause_of, peer, take_over, uri_of

HANDS = 100 if LONG else 3
HOSTS = 112 if LONG else 10          # of Python, with two connections each
DEVICES = 4 if LONG else 2           # of C: an admin queue, and an I/O queue for each thread
THREADS = 7 if LONG else 2
NAMESPACES = 1000 if LONG else 60
EVENTS = 10 if LONG else 1           # hand-overs between two changes of the namespaces
CONNECTIONS = 2 * HOSTS + (1 + THREADS) * DEVICES
KATO_MS, KEEP_ALIVE_S = 2000, 0.5
AER, COMPARE, REGISTER, ACQUIRE = 0x0C, 0x05, 0x0D, 0x11
FUSED_FIRST, FUSED_SECOND = nv.PSDT | 1, nv.PSDT | 2
COMPARE_FAILURE = 0x285
EVENT_NS, LOG_CHANGED = 0x0002, 4
BLOCK, DATA_BLOCKS, SPAN = 512, 8, 64  # LBA 0 of a namespace is the counter; data is written behind it


class Load:
    """What one Python host does, and what it knows. Every round is posted for all hosts before any answer is read, all
    data to the target in capsules: so no command waits for the host while the target waits for commands to end."""

    def __init__(self, host, nsids):
        self.host, self.nsids, self.q = host, nsids, host.q
        self.random = random.Random(host.number)
        self.counters = {nsid: bytes(BLOCK) for nsid in nsids}
        self.blocks = {}        # (nsid, lba): what it has to be
        self.count = 0
        self.expected = []      # (what, command, status, data) of this round
        self.alive_at = 0.0
        self.aer = None
        nv.expect(host.admin.set_features(0x0B, 1 << 8))
        self.wait_for_event()

    def wait_for_event(self):
        self.aer = self.host.admin.next_cid()
        self.host.admin.post(nv.sqe(AER, self.aer))

    def reserve(self):
        keys = self.host.key.to_bytes(8, 'little')
        nv.expect(self.q.data_out(REGISTER, bytes(8) + keys, nsid=self.nsids[0]))
        nv.expect(self.q.data_out(ACQUIRE, keys + bytes(8), nsid=self.nsids[0], cdw10=WE << 8))

    def _out(self, what, opcode, nsid, lba, data, status=nv.SUCCESS, flags=nv.PSDT):
        cid = self.q.next_cid()
        self.q.post(nv.sqe(opcode, cid, nsid=nsid, sgl=nv.offset_sgl(0, len(data)), flags=flags, cdw10=lba,
                           cdw12=len(data) // BLOCK - 1) + data)
        self.expected.append((f'{what} of namespace {nsid}, LBA {lba}', cid, status, None))

    def _read(self, nsid, lba):
        count = 1 if lba == 0 else DATA_BLOCKS
        want = self.counters[nsid] if lba == 0 else self.blocks.get((nsid, lba), bytes(DATA_BLOCKS * BLOCK))
        self.expected.append((f'Read of namespace {nsid}, LBA {lba}', self.q.post_read(nsid, lba, count), nv.SUCCESS, want))

    def post(self, neighbour):
        self.count += 1
        nsid, lba = self.random.choice(self.nsids), 1 + DATA_BLOCKS * self.random.randrange(SPAN // DATA_BLOCKS)
        self._read(nsid, lba)
        looked = self.nsids[self.count % len(self.nsids)]  # not one that this round changes: commands in flight have no order
        self._read(looked, 0)
        self._out('Write under the reservation of another host', nv.NVM_WRITE, neighbour.nsids[0], 0, bytes(BLOCK), CONFLICT)
        counted = self.random.choice([n for n in self.nsids if n != looked])
        self._out('Compare that must fail', COMPARE, counted, 0, b'\xFF' * BLOCK, COMPARE_FAILURE)
        following = (self.count.to_bytes(8, 'little') + os.urandom(56)) * (BLOCK // 64)
        self._out('fused Compare', COMPARE, counted, 0, self.counters[counted], flags=FUSED_FIRST)
        self._out('fused Write', nv.NVM_WRITE, counted, 0, following, flags=FUSED_SECOND)
        other = self.random.choice([n for n in self.nsids if n != nsid])
        data = os.urandom(DATA_BLOCKS * BLOCK)
        self._out('Write', nv.NVM_WRITE, other, lba, data)
        self.written = counted, following, (other, lba), data
        self._keep_alive()

    def post_last(self):
        """What was written is read once more, a few commands in each round."""
        self.written = None
        for nsid, lba in self.left[:8]:
            self._read(nsid, lba)
        del self.left[:8]
        self._keep_alive()

    def _keep_alive(self):
        if time.monotonic() >= self.alive_at + KEEP_ALIVE_S:
            self.alive_at = time.monotonic()
            cid = self.host.admin.next_cid()
            self.host.admin.post(nv.sqe(nv.KEEP_ALIVE, cid))
            self.expected.append(('Keep Alive', cid, nv.SUCCESS, None))

    def check(self, changing):
        for what, command, status, data in self.expected:
            queue = self.host.admin if what == 'Keep Alive' else self.q
            got = queue.wait(command) if data is None else command.wait()
            if got.status != status:
                raise Failure(f'host {self.host.number}: {what}: status {got.status:#x}, expected {status:#x}')
            if data is not None and command.data != data:
                raise Failure(f'host {self.host.number}: {what}: wrong data, round {self.count}')
        self.expected = []
        if self.written:
            counted, following, where, data = self.written
            self.counters[counted] = following
            self.blocks[where] = data
        for queue in (self.host.admin, self.q):
            more = {cid: cqe for cid, cqe in queue._stash.items() if not changing or queue.qid or cid != self.aer}
            if more:
                raise Failure(f'host {self.host.number}, queue {queue.qid}: answers that nobody waits for: {more}')

    def event(self, nsid):
        """The namespace came or went: the event came once, and the log names it."""
        got = self.host.admin.wait(self.aer)
        if got.status or got.dw0 & 0xFFFF != EVENT_NS:
            raise Failure(f'host {self.host.number}: {got} for its AER')
        changed = nv.expect_data(self.host.admin.get_log(LOG_CHANGED, 4096))
        if changed[:8] != nsid.to_bytes(8, 'little'):
            raise Failure(f'host {self.host.number}: Changed Namespace List {changed[:16].hex()}, expected {nsid}')
        self.wait_for_event()


class Loads:
    """All Python hosts, in a thread that goes on until it is told to stop."""

    def __init__(self, t, loads):
        self.t, self.loads, self.rounds, self.error = t, loads, 0, None
        self.ending, self.finishing, self.last = False, False, False
        self.changing, self.told_of = False, None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        t.cleanup(self.stop)

    def _run(self):
        try:
            while not self.ending:
                for at, load in enumerate(self.loads):
                    if self.last:
                        load.post_last()
                    else:
                        load.post(self.loads[at - 1])
                for load in self.loads:
                    load.check(self.changing)
                if self.told_of:
                    for load in self.loads:
                        load.event(self.told_of)
                    self.changing, self.told_of = False, None
                self.rounds += 1
                self._look_for_end()
        except Exception as e:  # what it is, the test's thread says
            self.error = e

    def _look_for_end(self):
        if self.last:
            self.ending = self.ending or not any(load.left for load in self.loads)
        elif self.finishing:
            for load in self.loads:
                load.left = list(load.blocks) + [(nsid, 0) for nsid in load.nsids]
            self.last = True

    def stop(self):
        self.ending = True
        self.thread.join()

    def finish(self):
        """Everything that was written is read once more."""
        self.finishing = True
        self.thread.join()
        self.check()
        if not self.last or any(load.left for load in self.loads):
            raise Failure('not everything was read once more')

    def check(self):
        if self.error:
            raise Failure(f'a host, in round {self.rounds}: {type(self.error).__name__}: {self.error}') from self.error

    def reaches(self, rounds):
        def there():
            self.check()
            return self.rounds >= rounds
        wait_for(there, 'the hosts\' commands to end')

    def are_told(self, nsid):
        """The target has announced a change of this namespace, with .changing set: wait until each host has its event."""
        self.told_of = nsid

        def told():
            self.check()
            return not self.changing
        wait_for(told, 'the hosts to be told')


def keep_alive(loads):
    for load in loads:
        if time.monotonic() >= load.alive_at + KEEP_ALIVE_S:
            load.alive_at = time.monotonic()
            nv.expect(load.host.admin.call(nv.sqe(nv.KEEP_ALIVE, load.host.admin.next_cid())))


def change_namespaces(t, control, loads, there):
    """Add or remove a namespace that nobody uses."""
    nsid = NAMESPACES + 1
    loads.changing = True
    with Control(control) as c:
        if there:
            c.call('namespace.remove', nqn=NQN, nsid=nsid)
        else:
            c.call('namespace.add', nqn=NQN, namespace=memory(t, nsid, size='1MiB'))
        c.call('config.save')
    loads.are_told(nsid)
    return not there


@test
@iwarp_only
def many_hosts_notice_nothing_of_many_hand_overs(t):
    files = [t.namespace(nsid, size='16MiB', **({'direct': 'off'} if nsid % 2 else {})) for nsid in range(1, DEVICES + 1)]
    memories = [memory(t, nsid, size='64KiB') for nsid in range(DEVICES + 1, NAMESPACES + 1)]
    config, control = with_socket(t, files + memories, listeners=[{}, {'transport': 'tcp'}], target={'buffer_memory': '32MiB'})
    quiet = '--log', 'notice'  # what is written to this process stops its hosts, too
    target = t.target(config=config, args=quiet)
    hosts = []
    for at in range(HOSTS):
        # each command by one send(2): a host that does not run in the middle of one would delay the hand-over
        whole = {} if at % 2 else {'max_ulpdu': 8192}
        hosts.append(Load(peer(target, (RDMA, TCP)[at % 2], at + 1, kato=KATO_MS, **whole),
                          [m['nsid'] for m in memories[at::HOSTS]]))
        t.cleanup(hosts[-1].host.close)
        hosts[-1].reserve()
        keep_alive(hosts)  # until there is a thread for it
    loads = Loads(t, hosts)
    devices = [Device(t, [uri_of(target, (RDMA, TCP)[at % 2], at + 1)], '--keep-alive-tmo', KATO_MS, '--threads', THREADS,
                      '--slots', 4, name=f'rddev-{at}') for at in range(DEVICES)]
    pauses, there = [], False
    for n in range(HANDS):
        loads.reaches(loads.rounds + 2)
        for device in devices:
            device.goes_on(20)
        if n % EVENTS == EVENTS - 1:
            there = change_namespaces(t, control, loads, there)
        old, target = target, take_over(t, config, control, f'next-{n}', *quiet)
        ended(t, old)
        pauses.append(pause_of(target))
        t.eq(target.expect(r'took over from process \d+: (\d+ connections of \d+) controllers')[1],
             f'{CONNECTIONS} connections of {HOSTS + DEVICES}', 'what moved')
        loads.check()
    loads.reaches(loads.rounds + 2)
    commands = loads.rounds * HOSTS * 7
    loads.finish()
    for device in devices:
        device.goes_on(50)
        no_reconnect(t, device)
        device.finish()
    t.note(f'{CONNECTIONS} connections, {NAMESPACES} namespaces, {HANDS} hand-overs under {commands} commands of the peer and '
           f'{sum(device.ops() for device in devices)} of rddev: pause p50 {statistics.median(pauses):.1f} ms, '
           f'p100 {max(pauses):.1f} ms')


if __name__ == '__main__':
    sys.exit(main())
