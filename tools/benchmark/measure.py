# SPDX-License-Identifier: BSD-3-Clause
"""The run itself: every row at every point in turn, several times, and then the cost of idle connections."""

import re
import subprocess
import sys
import time

import clients
import disk
import plan
from procs import Failed, child_of_ours

# A row that fails so often in a row is not tried any more.
PATIENCE = 2
KEEP_ALIVE_MS = 5000


class Progress:
    """Progress: one line that is overwritten on a terminal, otherwise a line for each repetition."""

    def __init__(self, total):
        self.total, self.done, self.start = total, 0, time.monotonic()
        self.live = sys.stderr.isatty()

    def step(self, row, point):
        self.done += 1
        if self.live:
            print(f'\r\033[K{self.done}/{self.total} {row.title}: {point.rw} {point.size} depth {point.depth} '
                  f'connections {point.connections}', end='', file=sys.stderr, flush=True)
        elif self.done % max(1, self.total // 20) == 0:
            print(f'bench: {self.done} of {self.total}, {time.monotonic() - self.start:.0f} s', file=sys.stderr)

    def say(self, text):
        print(f'{chr(13) + chr(27) + "[K" if self.live else ""}bench: {text}', file=sys.stderr, flush=True)

    def end(self):
        if self.live:
            print('\r\033[K', end='', file=sys.stderr, flush=True)


def _one(setup, job, entry):
    row, point, server_name, _ = job
    server = setup.server(server_name)
    entry['apart_ns'] = clients.apart(setup)
    started = time.monotonic()
    before = disk.interrupts(setup.irqs) if row.group == 'file' else {}
    entry.update(plan.CLIENTS[row.client](setup, row, point, server))
    if row.group == 'file':
        entry['interrupts'] = disk.arrived(before, disk.interrupts(setup.irqs))
    entry['took'] = round(time.monotonic() - started, 3)


def samples(setup, profile, rows):
    """[{row, point, repetition, iops, ...} or {row, point, repetition, error}]"""
    todo = list(plan.all_jobs(profile, rows))
    progress, failures, results = Progress(len(todo)), {}, []
    for job in todo:
        row, point, server_name, repetition = job
        entry = {'row': row.name, 'point': point.name, 'repetition': repetition}
        progress.step(row, point)
        key = (row.name, server_name)
        if failures.get(key, 0) >= PATIENCE:
            continue
        try:
            _one(setup, job, entry)
            failures[key] = 0
        except Failed as e:
            failures[key] = failures.get(key, 0) + 1
            entry['error'] = str(e)
            progress.say(f'{row.title}: {point.name}: {e}')
            if failures[key] == PATIENCE:
                progress.say(f'{row.title} is left out from here on')
        results.append(entry)
    progress.end()
    return results


# ---- idle connections ----

SETTLE_SECONDS = 7

class Idle:
    """Connections that nobody uses, from rdidle."""

    def __init__(self, setup, server, connections, keep_alive_ms):
        # Not on the server's processor, because their keep-alives must not be measured.
        self.popen = subprocess.Popen([setup.program('tools/benchmark/rdidle'), server.uri().rsplit('/', 1)[0],
                                       str(connections), str(keep_alive_ms)], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                      preexec_fn=child_of_ours(setup.client_cpu))
        found = re.match(r'ready: (\d+) queues of (\d+)', self.popen.stdout.readline())
        if not found:
            _, err = self.popen.communicate()
            raise Failed(f'rdidle: {err.strip() or "ended without a word"}')
        self.queues, self.controllers = int(found[1]), int(found[2])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.popen.stdin.close()
        self.popen.wait()
        self.popen.stdout.close()
        self.popen.stderr.close()


def _rest(process, seconds):
    """Wake-ups for each second and CPU in per cent, of a process left alone. What follows from the connections that
    were just made or ended is over: there are timers of five seconds, which run once."""
    time.sleep(SETTLE_SECONDS)
    switches, cpu, start = process.wakeups(), process.exact_cpu_us(), time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - start
    return {'seconds': round(elapsed, 2), 'wakeups_s': round((process.wakeups() - switches) / elapsed, 3),
            'cpu_percent': round((process.exact_cpu_us() - cpu) / 1e4 / elapsed, 5)}


def idle(setup, profile):
    """The cost of idle connections: time and memory."""
    n, seconds = profile.idle_connections, profile.idle_seconds
    result = {'connections': n, 'queue_depth': 128, 'keep_alive_ms': KEEP_ALIVE_MS}
    try:
        server = setup.server('rdtarget-idle')
        process = server.process
        # Memory that is allocated once has been allocated, but not the memory of each connection, which malloc might
        # keep.
        with Idle(setup, server, 1, 0):
            pass
        before = process.memory_kib()
        with Idle(setup, server, n, 0) as quiet:
            result['memory_kib'] = round((process.memory_kib() - before) / quiet.queues, 1)
            result['silent'] = _rest(process, seconds)
        with Idle(setup, server, n, KEEP_ALIVE_MS) as alive:
            result['controllers'] = alive.controllers
            result['kept_alive'] = _rest(process, seconds)
            # librdinit sends one every half of the timeout.
            result['keep_alives_s'] = round(alive.controllers * 2000 / KEEP_ALIVE_MS, 2)
    except Failed as e:
        result['error'] = str(e)
    return result


def memory_in_use(setup, profile, rows):
    """Memory for each connection when all of them have had their whole depth in flight, with 4 KiB in the capsules."""
    row = next((r for r in rows if r.name == 'null'), None)
    if row is None:
        return None
    point = plan.Point('randwrite', 4096, 127, profile.idle_connections)
    try:
        setup.stop('rdtarget-idle')
        server = setup.server('rdtarget-idle')
        before = server.process.memory_kib()
        plan.CLIENTS['rdinit'](setup, row, point, server)
        peak = server.process.peak_kib()
    except Failed as e:
        return {'error': str(e)}
    return {'connections': point.connections, 'depth': point.depth, 'kib': round((peak - before) / point.connections, 1),
            'seconds': profile.seconds}
