#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How long rdtarget takes to check, start and reload configurations of many namespaces, as a table.

    tests/bench/config_scale.py RDTARGET [COUNT...]

Columns: --check; start to "ready"; a reload that changes nothing, and one that changes one namespace; the longest
that a new TCP connection had to wait for the main loop meanwhile; the memory of a namespace. Each time is the
best of three, on a machine that should do nothing else.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

KINDS = ('null', 'file')
MPA_REQUEST = b'MPA ID Req Frame' + b'\x40\x01\x00\x00'  # CRC, revision 1, no private data: refused at once


def configure(folder, kind, count, changed=False):
    path = os.path.join(folder, 'rdtarget.yaml')
    with open(path + '.new', 'w', encoding='ascii') as f:
        f.write('target: {reactors: 2}\nlisteners: [{address: 127.0.0.1, port: 0, provider: iwarp}]\n'
                'subsystems:\n- nqn: nqn.2026-01.org.example:many\n  allow_any_host: true\n  namespaces:\n')
        for nsid in range(1, count + 1):
            other = changed and nsid == count // 2
            if kind == 'null':
                f.write(f'  - nsid: {nsid}\n    backend: "null"\n    size: {2 if other else 1}MiB\n')
                continue
            image = os.path.join(folder, f'disk-{0 if other else nsid}')
            if not os.path.exists(image):
                with open(image, 'wb') as disk:
                    disk.truncate(1 << 20)
            f.write(f'  - nsid: {nsid}\n    backend: file\n    path: {image}\n')
    os.rename(path + '.new', path)
    return path


class Target:
    def __init__(self, binary, path):
        begin = time.monotonic()
        self.proc = subprocess.Popen([binary, path], stderr=subprocess.PIPE, text=True)
        self.port = int(re.search(r'listening on \S+:(\d+)', self.expect('listening on'))[1])
        self.expect('ready$')
        self.start = time.monotonic() - begin

    def expect(self, pattern):
        said = []
        for line in self.proc.stderr:
            said.append(line)
            if re.search(pattern, line):
                return line
        raise SystemExit('rdtarget ended: ' + ''.join(said[-3:]))

    def reload(self):
        """Returns the seconds until it is done, and the longest time until a new connection was answered meanwhile."""
        waits, over = [], threading.Event()

        def connect():
            while not over.is_set():
                begin = time.monotonic()
                with socket.create_connection(('127.0.0.1', self.port), timeout=60) as s:
                    s.sendall(MPA_REQUEST)
                    s.recv(64)
                waits.append(time.monotonic() - begin)
                time.sleep(0.001)

        prober = threading.Thread(target=connect)
        prober.start()
        begin = time.monotonic()
        self.proc.send_signal(signal.SIGHUP)
        self.expect('reloaded')
        took = time.monotonic() - begin
        over.set()
        prober.join()
        return took, max(waits)

    def rss(self):
        with open(f'/proc/{self.proc.pid}/status', encoding='ascii') as f:
            return int(re.search(r'VmRSS:\s+(\d+)', f.read())[1]) * 1024

    def stop(self):
        self.proc.terminate()
        self.proc.stderr.read()
        self.proc.wait()


def check(binary, path):
    begin = time.monotonic()
    subprocess.run([binary, '--check', path], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def measure(binary, folder, kind, count):
    checks, starts, same, changed, waits = [], [], [], [], []
    for _ in range(3):
        path = configure(folder, kind, count)
        checks.append(check(binary, path))
        target = Target(binary, path)
        rss = target.rss()
        starts.append(target.start)
        took, wait = target.reload()
        same.append(took)
        configure(folder, kind, count, changed=True)
        took, wait2 = target.reload()
        changed.append(took)
        waits.append(max(wait, wait2))
        target.stop()
    return [min(v) for v in (checks, starts, same, changed, waits)], rss


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith('-'):
        print(__doc__)
        return 2
    counts = [int(n) for n in sys.argv[2:]] or [100, 1000, 10000]
    print(f'{"":14}{"check":>9}{"start":>9}{"reload":>9}{"one":>9}{"stall":>9}   ms{"each":>8} KiB')
    for kind in KINDS:
        base = None
        for count in counts:
            folder = tempfile.mkdtemp(prefix='rdnvme-scale-', dir=os.environ.get('TMPDIR', '/var/tmp'))
            try:
                times, rss = measure(sys.argv[1], folder, kind, count)
            except (OSError, subprocess.CalledProcessError, SystemExit) as e:
                print(f'{kind:>6}{count:>8}  {e}')
                continue
            finally:
                shutil.rmtree(folder)
            each = f'{(rss - base[1]) / (count - base[0]) / 1024:8.1f}' if base else f'{"":8}'
            base = base or (count, rss)
            print(f'{kind:>6}{count:>8}' + ''.join(f'{1000 * v:9.1f}' for v in times) + '     ' + each, flush=True)
    return 0


if __name__ == '__main__':
    sys.exit(main())
