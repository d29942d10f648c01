# SPDX-License-Identifier: BSD-3-Clause
"""In the emulated machine: loads on both targets in turn. I/Os are counted by the block device behind each target, time
by the machine's processors together, in one window while the load runs; so all hosts are measured alike."""

import argparse
import json
import os
import subprocess
import sys
import time

LOADS = (('randread', 1), ('randread', 32), ('randwrite', 1), ('randwrite', 32))
# A program starts slowly in an emulated machine; one that has not begun after this time has failed.
BEGIN_SECONDS = 60
SETTLE_SECONDS = 0.5
# The processor that receives for the host's end of the wire (vm_machine.sh).
HOST_CPU = 0


def device_ios(disk):
    with open(f'/sys/block/{disk}/stat', encoding='ascii') as f:
        fields = f.read().split()
    return int(fields[0]) + int(fields[4])


def busy_us():
    """Of all processors together."""
    with open('/proc/stat', encoding='ascii') as f:
        fields = [int(n) for n in f.readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) * 1e6 / os.sysconf('SC_CLK_TCK')


def process_us(pid):
    with open(f'/proc/{pid}/stat', encoding='ascii') as f:
        fields = f.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf('SC_CLK_TCK')


def fio(seconds, rw, depth, *engine):
    return ['fio', '--name=bench', f'--rw={rw}', '--bs=4k', f'--iodepth={depth}', f'--runtime={seconds}', '--time_based',
            '--thread', '--norandommap', '--randrepeat=0', '--size=512m', *engine]


def command(args, host, target, rw, depth, seconds):
    if host == 'kernel':
        return fio(seconds, rw, depth, '--ioengine=io_uring', '--direct=1', f'--filename={target["disk"]}')
    if host == 'fio':
        return fio(seconds, rw, depth, f'--ioengine=external:{args.engine}', f'--uri={target["uri"]}', '--provider=verbs')
    return [args.rdinit, 'bench', target['uri'], '--provider', 'verbs', '--rw', rw, '--dataloss', '--block-size', '4096',
            '--depth', str(depth), '--data-size', '512m', '--poll', '20us', '--run-time', str(seconds), '--no-progress']


def window(args, target, seconds):
    """From a moment at which the load is running: I/Os and times until @seconds later."""
    before = device_ios(target['device'])
    give_up = time.monotonic() + BEGIN_SECONDS
    while device_ios(target['device']) == before:
        if time.monotonic() > give_up:
            return None
        time.sleep(0.05)
    time.sleep(SETTLE_SECONDS)
    ios, busy, ours, start = device_ios(target['device']), busy_us(), process_us(args.pid), time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - start
    done = device_ios(target['device']) - ios
    return {'iops': done / elapsed, 'machine_cpu_us': (busy_us() - busy) / max(1, done),
            'rdtarget_cpu_us': (process_us(args.pid) - ours) / max(1, done)}


def one(args, host, target, rw, depth):
    argv = command(args, host, target, rw, depth, round(args.seconds + SETTLE_SECONDS + 1.5))
    client = subprocess.Popen(argv, cwd='/run/t', stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    found = window(args, target, args.seconds)
    if found is None:
        client.kill()
    out, _ = client.communicate()
    if found is None or client.returncode:
        return {'error': f'{argv[0]}: exit {client.returncode}: {" / ".join(out.strip().splitlines()[-3:])}'}
    if not found['iops']:
        return {'error': f'{target["name"]}, {host} host, {rw} {depth}: no I/O in {args.seconds:g} s'}
    return found


def main():
    p = argparse.ArgumentParser()
    for name in ('--rdinit', '--engine'):
        p.add_argument(name)
    p.add_argument('--pid', type=int)
    p.add_argument('--repetitions', type=int)
    p.add_argument('--seconds', type=float)
    p.add_argument('targets', nargs='+')
    args = p.parse_args()
    os.sched_setaffinity(0, {HOST_CPU})
    targets = [dict(zip(('name', 'disk', 'device', 'uri'), text.split('=', 3))) for text in args.targets]
    hosts = ['kernel', 'fio' if args.engine else 'rdinit']
    samples = []
    for repetition in range(args.repetitions):
        for rw, depth in LOADS:
            for host in hosts:
                for target in targets:
                    samples.append({'host': host, 'target': target['name'], 'rw': rw, 'depth': depth,
                                    'repetition': repetition, **one(args, host, target, rw, depth)})
                    print(f'# {samples[-1]}', file=sys.stderr)
    json.dump(samples, sys.stdout, indent=1)
    return 0 if not all('error' in sample for sample in samples) else 1


if __name__ == '__main__':
    sys.exit(main())
