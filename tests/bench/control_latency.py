#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What eight clients of the control socket, and scrapes of the metrics, cost the I/O of hosts, as a table.

    tests/bench/control_latency.py RDTARGET RDINIT [ROUNDS]

A host reads 4 KiB at a depth of 4 from one reactor, which has CPU 0 for itself; all else shares CPU 1. Rounds of two
seconds take turns: quiet, eight clients that call without a pause, eight clients that scrape. The latency is that of
the target, from the arrival of a command until its answer was sent, because the host shares its CPU with the
clients. Percentiles are medians over the rounds; the last column is the longest turn of the reactor since the host
connected. On a machine with two CPUs that should do nothing else.
"""

import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

NQN = 'nqn.2026-01.org.example:bench'
NAMESPACES = 1000
CLIENTS = 8
SECONDS = 2
CALLS = ('status', 'info', 'host.list', 'controller.list', 'listener.list', 'stats.get', 'config.diff', 'namespace.list')


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


def start(binary, folder):
    path, sock = os.path.join(folder, 'rdtarget.yaml'), os.path.join(folder, 'control.sock')
    with open(path, 'w', encoding='ascii') as f:
        f.write(f'target: {{reactors: 1, cpus: [0]}}\ncontrol: {{socket: {sock}}}\n'
                'listeners: [{address: 127.0.0.1, port: 0, provider: iwarp}]\n'
                f'subsystems:\n- nqn: {NQN}\n  allow_any_host: true\n  namespaces:\n')
        for nsid in range(1, NAMESPACES + 1):
            f.write(f'  - {{nsid: {nsid}, backend: "null", size: 1GiB}}\n')
    proc = subprocess.Popen([binary, path], stderr=subprocess.PIPE, text=True)
    port = None
    for line in proc.stderr:
        found = re.search(r'listening on \S+:(\d+)', line)
        port = found[1] if found else port
        if line.rstrip().endswith('ready'):
            threading.Thread(target=proc.stderr.read, daemon=True).start()
            return proc, port, sock
    raise SystemExit('rdtarget ended')


def buckets(client):
    found, = client.result('stats.get', namespaces=True, histograms=True, nqn=NQN, nsid=1)['namespaces']
    return {end: count for end, count in found['read']['histogram']}


def percentile(before, after, percent):
    counts = sorted((end, count - before.get(end, 0)) for end, count in after.items())
    want, seen = sum(count for _, count in counts) * percent / 100, 0
    for end, count in counts:
        seen += count
        if seen >= want:
            return end * 1e6
    raise SystemExit('no command was served')


def load(sock, methods, over, calls):
    client = Client(sock)
    number = 0
    while not over.is_set():
        client.call(methods[number % len(methods)])
        number += 1
    calls.append(number)


def measure(control, sock, methods):
    over, calls = threading.Event(), []
    threads = [threading.Thread(target=load, args=(sock, methods, over, calls)) for _ in range(CLIENTS if methods else 0)]
    for thread in threads:
        thread.start()
    before = buckets(control)
    time.sleep(SECONDS)
    after = buckets(control)
    over.set()
    for thread in threads:
        thread.join()
    return percentile(before, after, 50), percentile(before, after, 99), sum(calls) / SECONDS


def main(binary, rdinit, rounds=5):
    os.sched_setaffinity(0, {1})
    kinds = {'quiet': (), f'{CLIENTS} clients call': CALLS, f'{CLIENTS} clients scrape': ('metrics.get',)}
    results = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as folder:
        target, port, sock = start(binary, folder)
        control = Client(sock)
        host = subprocess.Popen([rdinit, 'bench', f'nvme+rdma://127.0.0.1:{port}/{NQN}/1', '--depth=4', '--run-time=10m',
                                 '--no-progress'], stdout=subprocess.DEVNULL)
        try:
            time.sleep(1)
            for _ in range(int(rounds)):
                for kind, methods in kinds.items():
                    results[kind].append(measure(control, sock, methods))
            began = time.monotonic()
            size = len(control.result('metrics.get')['text'])
            took = time.monotonic() - began
            turn = control.result('stats.get')['reactors'][0]['longest_turn_seconds']
        finally:
            host.kill()
            target.terminate()
            target.wait()
    quiet = statistics.median(p99 for _, p99, _ in results['quiet'])
    print(f'{"":20}{"p50 us":>8}{"p99 us":>8}{"p99 / quiet":>13}{"calls/s":>9}')
    for kind, values in results.items():
        p50, p99, calls = (statistics.median(column) for column in zip(*values))
        print(f'{kind:20}{p50:8.1f}{p99:8.1f}{p99 / quiet:13.2f}{calls:9.0f}')
    print(f'a scrape of {NAMESPACES} namespaces: {size / 1e6:.2f} MB in {took * 1e3:.0f} ms; '
          f'longest turn of the reactor: {turn * 1e6:.0f} us')


if __name__ == '__main__':
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
