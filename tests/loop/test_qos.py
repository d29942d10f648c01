# SPDX-License-Identifier: BSD-3-Clause
"""Limits per second with real clocks: measurements are only reported; assertions hold for any clock."""

import signal
import sys
import threading
import time

import nvmf_peer as nv
from t_loop import LONG, NQN, main, test, wait_for
from t_serving import host

HOST_B = 'nqn.2014-08.org.nvmexpress:uuid:99999999-0d0f-4a4e-9a56-0e9b7a3d5c11'
DEPTH = 32
BURST = 0.05  # seconds: unused time is worth that much


class Load:
    """A queue kept full with reads of one namespace, until stop(); counts the answers."""

    def __init__(self, h, nsid=1, blocks=1, depth=DEPTH):
        self.queue = h.add_io(depth=depth)
        self.nsid, self.blocks, self.depth = nsid, blocks, depth
        self.done = 0
        self.error = None
        self._stop = False
        self.region = self.queue.conn.register(bytes(blocks * 512), read=False)
        self.thread = threading.Thread(target=self._run)
        self.started = time.monotonic()
        self.thread.start()

    def _post(self):
        self.queue.post(nv.sqe(nv.NVM_READ, self.queue.next_cid(), nsid=self.nsid,
                               cdw12=self.blocks - 1,
                               sgl=nv.keyed_sgl(self.region.base, self.blocks * 512,
                                                self.region.stag)))

    def _run(self):
        try:
            for _ in range(self.depth - 1):
                self._post()
            while not self._stop:
                nv.expect(self.queue.wait_any())
                self.done += 1
                self._post()
            for _ in range(self.depth - 1):
                nv.expect(self.queue.wait_any())
        except Exception as e:  # the test's
            self.error = e

    def stop(self):
        """Commands and seconds so far; then waits for the rest."""
        done, seconds = self.done, time.monotonic() - self.started
        self._stop = True
        self.thread.join()
        if self.error:
            raise self.error
        return done, seconds


def measure(t, loads, limit, what):
    """A limit is never exceeded, however slow the machine: commands are at most rate * time."""
    # Plus the credit from before, and one command in flight at every queue.
    wait_for(lambda: sum(load.done for load in loads) >= limit * (4 if LONG else 1.5), 'commands')
    counted = [load.stop() for load in loads]
    done, seconds = sum(n for n, _ in counted), max(s for _, s in counted)
    t.note(f'{what}: {done / seconds:.1f} a second, {100 * done / seconds / limit - 100:+.2f} % of the limit')
    t.ok(done <= limit * (seconds + BURST) + 4, f'{what}: {done} commands in {seconds:.3f} s')
    return counted


@test
def a_namespace_has_a_limit_for_all_hosts(t):
    ns = t.namespace(1, backend='memory')
    ns['qos'] = {'iops': 500}
    target = t.target([ns, t.namespace(2, backend='memory')], target={'reactors': 3})
    with host(target) as a, host(target, hostnqn=HOST_B) as b:
        a.enable()
        b.enable()
        counted = measure(t, [Load(a), Load(a), Load(b)], 500, 'IOPS of a namespace, three queues')
        t.ok(min(n for n, _ in counted) > 0, f'somebody starved: {counted}')
        a.shutdown()
        b.shutdown()


@test
def a_namespace_has_a_bandwidth(t):
    ns = t.namespace(1, backend='memory')
    ns['qos'] = {'bandwidth': '8MiB'}
    target = t.target([ns])
    with host(target) as h:
        h.enable()
        measure(t, [Load(h, blocks=128, depth=16)], 128, 'reads of 64 KiB at 8 MiB a second')
        h.shutdown()


@test
def a_host_has_a_limit_and_others_do_not_share_it(t):
    target = t.target([t.namespace(1, backend='memory'), t.namespace(2, backend='memory')],
                      subsystem={'host_qos': [{'host': nv.HOST_NQN, 'iops': 300}]})
    with host(target) as a, host(target, hostnqn=HOST_B) as b:
        a.enable()
        b.enable()
        loads = [Load(a, nsid=1), Load(a, nsid=2)]
        free = Load(b)
        measure(t, loads, 300, 'IOPS of a host, two namespaces')
        done, _ = free.stop()
        limited = sum(load.done for load in loads)
        t.ok(done > limited, f'the other host got {done}, the limited one {limited}')
        a.shutdown()
        b.shutdown()


@test
def limits_change_while_commands_wait(t):
    """SIGHUP: from one command a second to no limit, with a full queue that waits."""
    def config(qos):
        ns = t.namespace(1, backend='memory')
        if qos:
            ns['qos'] = qos
        return t.config([ns])

    target = t.target(config=config({'iops': 1}))
    with host(target) as h:
        h.enable()
        load = Load(h)
        wait_for(lambda: target.counters()['waiting_for_limits'] >= DEPTH - 2, 'commands that wait')
        before = load.done
        config(None)
        target.reload('reloaded')
        wait_for(lambda: load.done > before + 10 * DEPTH, 'commands without a limit')
        config({'read_iops': 1})
        target.reload('reloaded')
        wait_for(lambda: target.counters()['waiting_for_limits'] >= DEPTH - 2, 'commands that wait again')
        config(None)
        target.signal(signal.SIGHUP)
        load.stop()
        h.shutdown()
    t.eq(target.counters()['waiting_for_limits'], 0)


@test
def a_hosts_limits_come_and_go(t):
    """SIGHUP gives a connected host a limit, another one, and none."""
    def config(rows):
        return t.config([t.namespace(1, backend='memory')],
                        subsystem={'host_qos': rows} if rows else {})

    def reload(rows):
        config(rows)
        target.reload('reloaded')

    target = t.target(config=config(None))
    with host(target) as h:
        h.enable()
        load = Load(h)
        wait_for(lambda: load.done > 100, 'commands without a limit')
        t.eq(target.counters()['waiting_for_limits'], 0)
        reload([{'host': nv.HOST_NQN, 'iops': 1}])
        wait_for(lambda: target.counters()['waiting_for_limits'] >= DEPTH - 2, 'commands that wait')
        reload([{'host': HOST_B, 'iops': 1}])
        before = load.done
        wait_for(lambda: load.done > before + 10 * DEPTH, 'commands when another host is limited')
        reload([{'host': HOST_B, 'iops': 2}, {'host': nv.HOST_NQN, 'bandwidth': '64KiB'}])
        wait_for(lambda: target.counters()['waiting_for_limits'] >= DEPTH - 2, 'commands that wait again')
        reload(None)
        load.stop()
        h.shutdown()


@test
def what_waits_holds_no_buffers(t):
    ns = t.namespace(1, backend='memory')
    ns['qos'] = {'iops': 1}
    target = t.target([ns, t.namespace(2, backend='memory')])
    with host(target) as h:
        h.enable()
        queue = h.add_io(depth=64)
        region = queue.conn.register(bytes(65536), read=False)
        for _ in range(60):
            queue.post(nv.sqe(nv.NVM_READ, queue.next_cid(), nsid=1, cdw12=127,
                              sgl=nv.keyed_sgl(region.base, 65536, region.stag)))
        nv.expect(queue.data_in(nv.NVM_READ, 512, nsid=2)[0])
        counters = target.counters()
        t.ok(counters['waiting_for_limits'] >= 50, f'waiting: {counters["waiting_for_limits"]}')
        t.ok(counters['buffer_bytes'] <= 2 * 65536, f'slab in use: {counters["buffer_bytes"]}')
    # The host has gone with its commands unanswered.
    wait_for(lambda: not target.counters()['waiting_for_limits'], 'waiting commands to go with their queue')
    with nv.Host(target.addr, target.port, NQN) as other:
        other.enable()
        nv.expect(other.add_io().read_blocks(2, 0, 1)[0])
        other.shutdown()


if __name__ == '__main__':
    sys.exit(main())
