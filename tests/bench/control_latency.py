#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What eight clients of the control socket, and scrapes of the metrics, cost the I/O of hosts, as a table.

    tests/bench/control_latency.py RDTARGET RDINIT [ROUNDS] [HOSTS]

A host reads 4 KiB, one at a time, from one reactor, which has CPU 0; all else shares CPU 1, also the main thread of
rdtarget. HOSTS more hosts (default 256) are connected, and each has done I/O. Rounds of two seconds take turns, each with
a target of its own:

    quiet        no client
    other server eight clients call a program that answers as many bytes and uses as much processor time for a call as
                 rdtarget did: what the machine costs when CPU 1 is busy
    call         eight clients call rdtarget without a pause
    scrape       eight clients read its metrics without a pause

The latency is that of the target, from the arrival of a command until its answer was sent; it is interpolated between the
ends of a bucket of the target's histogram. Where this program may, the host and the reactor have the priority of nice -20:
a host that waits for CPU 1 sends so few commands that CPU 0 sleeps and forgets, and the latency is that of a cold cache
("kIO/s" shows it). "turn" is the longest turn of the reactor in the last minute or two, of wall-clock time: also the turns
in which hosts connected. "waited" is for how long the reactor was ready but another thread had its CPU; "stolen" is what
the hypervisor took from CPU 0. Medians over the rounds. For a machine with two CPUs.
"""

import json
import math
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'loop'))
import nvmf_peer as nv  # noqa: E402

NQN = 'nqn.2026-01.org.example:bench'
NAMESPACES = 1000
CLIENTS = 8
SECONDS = 2
CALLS = ('status', 'info', 'host.list', 'controller.list', 'listener.list', 'stats.get', 'config.diff', 'namespace.list',
         'subsystem.list')
KINDS = {'quiet': (), 'other server': CALLS, 'call': CALLS, 'scrape': ('metrics.get',)}


class Client:
    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.file = self.sock.makefile('rb')

    def call(self, method, **params):
        self.sock.sendall(json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params}).encode() + b'\n')
        return self.file.readline()

    def result(self, method, **params):
        return json.loads(self.call(method, **params))['result']


def prefer(task):
    """Above all that has the usual priority."""
    try:
        os.setpriority(os.PRIO_PROCESS, task, -20)
    except PermissionError:
        pass


class Target:
    def __init__(self, binary, folder):
        path, self.sock = os.path.join(folder, 'rdtarget.yaml'), os.path.join(folder, 'control.sock')
        with open(path, 'w', encoding='ascii') as f:
            f.write(f'target: {{reactors: 1, cpus: [0]}}\ncontrol: {{socket: {self.sock}}}\n'
                    'listeners: [{address: 127.0.0.1, port: 0, provider: iwarp}]\n'
                    f'subsystems:\n- nqn: {NQN}\n  allow_any_host: true\n  namespaces:\n')
            for nsid in range(1, NAMESPACES + 1):
                f.write(f'  - {{nsid: {nsid}, backend: "null", size: 1GiB}}\n')
        self.proc = subprocess.Popen([binary, path], stderr=subprocess.PIPE, text=True)
        for line in self.proc.stderr:
            found = re.search(r'listening on \S+:(\d+)', line)
            self.port = int(found[1]) if found else self.port
            if line.rstrip().endswith('ready'):
                break
        else:
            raise SystemExit('rdtarget ended')
        threading.Thread(target=self.proc.stderr.read, daemon=True).start()
        tasks = f'/proc/{self.proc.pid}/task'
        self.reactor, = [task for task in os.listdir(tasks) if text(f'{tasks}/{task}/comm') == 'reactor-0\n']
        prefer(int(self.reactor))

    port = None

    def cpu(self):
        """Seconds of processor time of all threads but the reactor."""
        tasks = f'/proc/{self.proc.pid}/task'
        return cpu_of(f'/proc/{self.proc.pid}/stat') - cpu_of(f'{tasks}/{self.reactor}/stat')

    def waited(self):
        """Seconds for which the reactor was ready to run, and another thread had its CPU."""
        return int(text(f'/proc/{self.proc.pid}/task/{self.reactor}/schedstat').split()[1]) / 1e9

    def end(self):
        self.proc.terminate()
        self.proc.wait()


def text(path):
    with open(path, encoding='ascii') as f:
        return f.read()


def cpu_of(stat):
    fields = text(stat).rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def stolen():
    line, = [line for line in text('/proc/stat').split('\n') if line.startswith('cpu0 ')]
    return int(line.split()[8]) / os.sysconf('SC_CLK_TCK')


def serve(path, answer_bytes, seconds):
    """The other server: one thread, one answer at a time."""
    with socket.socket(socket.AF_UNIX) as lis:
        lis.bind(path)
        lis.listen(CLIENTS)
        files = []
        for _ in range(CLIENTS):
            sock, _ = lis.accept()
            files.append((sock, sock.makefile('rb')))
    answer = b'x' * (answer_bytes - 1) + b'\n'
    while files:
        for sock, file in list(files):
            if not file.readline():
                return
            end = time.thread_time() + seconds
            while time.thread_time() < end:
                pass
            try:
                sock.sendall(answer)
            except BrokenPipeError:
                return


def start_other(path, answer_bytes, seconds):
    pid = os.fork()
    if not pid:
        try:
            serve(path, answer_bytes, seconds)
        finally:
            os._exit(0)
    while not os.path.exists(path):
        time.sleep(0.01)
    return pid


def buckets(client):
    found, = client.result('stats.get', namespaces=True, histograms=True, nqn=NQN, nsid=1)['namespaces']
    return {end: count for end, count in found['read']['histogram']}


def commands(before, after):
    return sum(count - before.get(end, 0) for end, count in after.items())


def width(end):
    """Of the bucket of the target's histogram that ends at @end seconds: a quarter of a power of two of its unit."""
    unit = 1024e-9
    return unit * max(1, 2 ** (math.ceil(math.log2(end / unit)) - 3))


def percentile(before, after, percent):
    counts = sorted((end, count - before.get(end, 0)) for end, count in after.items())
    want, seen = sum(count for _, count in counts) * percent / 100, 0
    for end, count in counts:
        seen += count
        if seen >= want:
            return (end - width(end) * (seen - want) / count) * 1e6
    raise SystemExit('no command was served')


def load(sock, methods, over, calls):
    client = Client(sock)
    number = size = 0
    while not over.is_set():
        size += len(client.call(methods[number % len(methods)]))
        number += 1
    calls.append((number, size))


class Round:
    def __init__(self, target, kind, other):
        control, over, calls, pid = Client(target.sock), threading.Event(), [], 0
        sock = target.sock
        if kind == 'other server':
            sock += '.other'
            pid = start_other(sock, *other)
        threads = [threading.Thread(target=load, args=(sock, KINDS[kind], over, calls))
                   for _ in range(CLIENTS if KINDS[kind] else 0)]
        for thread in threads:
            thread.start()
        before, cpu, waited, steal = buckets(control), target.cpu(), target.waited(), stolen()
        time.sleep(SECONDS)
        after = buckets(control)
        cpu, self.waited, self.stolen = target.cpu() - cpu, (target.waited() - waited) * 1e3, (stolen() - steal) * 1e3
        over.set()
        for thread in threads:
            thread.join()
        if pid:
            os.waitpid(pid, 0)
            os.unlink(sock)
        self.ios = commands(before, after) / SECONDS / 1e3
        self.turn = control.result('stats.get')['reactors'][0]['longest_turn_seconds'] * 1e6
        self.p50, self.p99 = percentile(before, after, 50), percentile(before, after, 99)
        number = sum(n for n, _ in calls)
        self.calls = number / SECONDS
        self.one_call = (sum(size for _, size in calls) // max(number, 1), cpu / max(number, 1))
        if kind == 'scrape':
            began = time.monotonic()
            self.size = len(control.result('metrics.get')['text'])
            self.took = (time.monotonic() - began) * 1e3


def connect_hosts(target, count):
    """Hosts without a shutdown: the target ends them."""
    hosts = []
    for number in range(count):
        host = nv.Host('127.0.0.1', target.port, NQN, hostnqn=f'nqn.2026-01.org.example:host-{number}')
        host.enable()
        nv.expect(host.add_io().read_blocks(1 + number % NAMESPACES, 0, 1)[0])
        hosts.append(host)
    return hosts


def measure(binary, rdinit, kind, other, hosts):
    with tempfile.TemporaryDirectory() as folder:
        target = Target(binary, folder)
        connected = connect_hosts(target, hosts)
        host = subprocess.Popen([rdinit, 'bench', f'nvme+rdma://127.0.0.1:{target.port}/{NQN}/1', '--depth=1', '--run-time=10m',
                                 '--no-progress', '--poll=never'], stdout=subprocess.DEVNULL)
        prefer(host.pid)
        try:
            time.sleep(1)
            return Round(target, kind, other)
        finally:
            host.kill()
            host.wait()
            for peer in connected:
                peer.close()
            target.end()


def main(binary, rdinit, rounds=3, hosts=256):
    os.sched_setaffinity(0, {1})
    results = {kind: [] for kind in KINDS}
    other = measure(binary, rdinit, 'call', None, int(hosts)).one_call
    for _ in range(int(rounds)):
        for kind in KINDS:
            results[kind].append(measure(binary, rdinit, kind, other, int(hosts)))
    columns = ('p50', 'p99', 'turn', 'waited', 'stolen', 'calls', 'ios')
    middle = {kind: [statistics.median(getattr(r, column) for r in rows) for column in columns] for kind, rows in results.items()}
    print(f'{"":14}{"p50 us":>8}{"p99 us":>8}{"/ quiet":>9}{"/ other":>9}{"turn us":>9}{"waited ms":>11}{"stolen ms":>11}{"calls/s":>9}{"kIO/s":>9}')
    for kind, (p50, p99, turn, waited, steal, calls, ios) in middle.items():
        print(f'{kind:14}{p50:8.1f}{p99:8.1f}{p99 / middle["quiet"][1]:9.2f}{p99 / middle["other server"][1]:9.2f}{turn:9.0f}'
              f'{waited:11.1f}{steal:11.1f}{calls:9.0f}{ios:9.1f}')
    scrapes = results['scrape']
    print(f'a scrape of {NAMESPACES} namespaces and {int(hosts) + 1} hosts: {scrapes[0].size / 1e6:.2f} MB in '
          f'{statistics.median(r.took for r in scrapes):.0f} ms; a call: {other[0]} bytes, {other[1] * 1e6:.0f} us of CPU 1')


if __name__ == '__main__':
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
