#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The longest turn of a reactor while eight clients scrape its metrics, or call other methods, without a pause.

    tests/bench/control_turns.py RDTARGET [HOSTS]

The reactor has CPU 0 and SCHED_FIFO (for root), 1,000 namespaces and HOSTS hosts (default 256), which do no I/O: it has
nothing to do but what the clients cause. Each figure is that of the last minute or two, so this takes seven minutes. A
turn in which the reactor waited for its CPU, or in which the hypervisor took it ("stolen"), says nothing about rdtarget.
"""

import os
import sys
import tempfile
import threading
import time

import control_latency as cl

FORGET = 130  # seconds after which the longest turn of before is forgotten
LOAD = 50


def longest(client):
    return client.result('stats.get')['reactors'][0]['longest_turn_seconds'] * 1e6


def row(name, target, client, waited, stolen):
    print(f'{name:10}{longest(client):9.0f}{(target.waited() - waited) * 1e3:11.1f}{(cl.stolen() - stolen) * 1e3:11.1f}', flush=True)


def under_load(target, client, kind):
    over, calls = threading.Event(), []
    threads = [threading.Thread(target=cl.load, args=(target.sock, cl.KINDS[kind], over, calls)) for _ in range(cl.CLIENTS)]
    waited, stolen = target.waited(), cl.stolen()
    for thread in threads:
        thread.start()
    time.sleep(LOAD)
    row(kind, target, client, waited, stolen)
    over.set()
    for thread in threads:
        thread.join()


def main(binary, hosts=256):
    os.sched_setaffinity(0, {1})
    with tempfile.TemporaryDirectory() as folder:
        target = cl.Target(binary, folder)
        os.sched_setscheduler(int(target.reactor), os.SCHED_FIFO, os.sched_param(1))
        connected = cl.connect_hosts(target, int(hosts))
        client = cl.Client(target.sock)
        print(f'{"":10}{"turn us":>9}{"waited ms":>11}{"stolen ms":>11}')
        try:
            for kind in ('quiet', 'scrape', 'call'):
                waited, stolen = target.waited(), cl.stolen()
                time.sleep(FORGET)
                if kind == 'quiet':
                    row(kind, target, client, waited, stolen)
                else:
                    under_load(target, client, kind)
        finally:
            for peer in connected:
                peer.close()
            target.end()


if __name__ == '__main__':
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
