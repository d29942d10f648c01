# SPDX-License-Identifier: BSD-3-Clause
"""tools/bench --vm: rdtarget over verbs beside the Linux kernel's own target, in an emulated machine."""

import json
import os
import statistics
import subprocess
import sys

import report
from goals import Goal

HERE = os.path.dirname(os.path.abspath(__file__))
DEVICES = ('rxe', 'siw')
HOSTS = {'kernel': 'kernel host (nvme-rdma)', 'fio': 'fio rdinit', 'rdinit': 'rdinit bench'}
VM_TO_NVMET = 1.0
# As outside of the emulated machine: one processor for the target, one for the host (vm_machine.sh places the work).
CPUS = 2
# For one device: 2 targets, 2 hosts, 4 loads, in each repetition, each with some seconds for the start.
SECONDS, REPETITIONS = 1.5, 3


def _device(args, device):
    """The samples of the machine's run; ValueError with the reason when there are none."""
    out = os.path.join(os.path.abspath(args.output), f'vm-{device}.json')
    engine = os.path.abspath(args.fio_engine) if args.fio_engine and os.path.exists(args.fio_engine) else ''
    env = {**os.environ, 'RD_VM_CPUS': str(CPUS), 'RD_VM_DEVICE': device, 'RD_VM_PROVIDER': 'verbs', 'RD_BENCH_VM_OUT': out,
           'RD_BENCH_VM_ENGINE': engine, 'RD_BENCH_VM_SECONDS': str(args.seconds or SECONDS),
           'RD_BENCH_VM_REPETITIONS': str(args.repetitions or REPETITIONS),
           'RDTARGET': os.path.join(os.path.abspath(args.build), 'target/rdtarget'),
           'RDINIT': os.path.join(os.path.abspath(args.build), 'initiator/rdinit')}
    res = subprocess.run([os.path.join(HERE, 'vm_machine.sh')], env=env, stdout=subprocess.PIPE, text=True, check=False)
    try:
        with open(out, encoding='utf-8') as f:
            samples = json.load(f)
        os.unlink(out)
    except (OSError, ValueError):
        lines = [line.lstrip('# ') for line in res.stdout.splitlines() if line.strip()]
        raise ValueError(' / '.join(lines[-4:]) or f'exit {res.returncode}') from None
    return samples


def measure(args, data):
    """Add to data: {'samples': {device: [...]}, 'errors': {device: why not}}. Yields after each device."""
    for device in args.vm.split(','):
        print(f'bench: emulated machine with {device}, some three minutes', file=sys.stderr)
        data['samples'].pop(device, None)
        data['errors'].pop(device, None)
        try:
            data['samples'][device] = _device(args, device)
        except ValueError as e:
            data['errors'][device] = str(e)
            print(f'bench: {device}: {e}', file=sys.stderr)
        yield device


def _pick(samples, key, figure):
    """{repetition: value}"""
    return {s['repetition']: s[figure] for s in samples
            if (s['host'], s['target'], s['rw'], s['depth']) == key and figure in s}


def _ratio(samples, host, rw, depth):
    ours = _pick(samples, (host, 'rdtarget', rw, depth), 'iops')
    theirs = _pick(samples, (host, 'nvmet', rw, depth), 'iops')
    return [ours[n] / theirs[n] for n in ours if theirs.get(n)]


def _line(device, samples, host, rw, depth):
    def middle(target, figure, form):
        values = list(_pick(samples, (host, target, rw, depth), figure).values())
        return form(statistics.median(values)) if values else 'failed'
    ratios = _ratio(samples, host, rw, depth)
    verdict = Goal('', statistics.median(ratios) if ratios else None, VM_TO_NVMET).verdict
    return [device, HOSTS[host], f'{rw} {depth}', middle('rdtarget', 'iops', report.amount),
            middle('nvmet', 'iops', report.amount),
            f'{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})' if ratios else '-', verdict,
            middle('rdtarget', 'machine_cpu_us', report.micros), middle('nvmet', 'machine_cpu_us', report.micros),
            middle('rdtarget', 'rdtarget_cpu_us', report.micros)]


def markdown(data):
    yield '### Beside the kernel\'s target, in an emulated machine'
    yield ''
    yield (f'4 KiB on a null block device, through soft devices, {CPUS} processors: only the ratios mean anything. Goal: '
           f'at least {VM_TO_NVMET:g} of nvmet-rdma. Processor time for each I/O is that of the whole machine, host and '
           'target and network together, and beside it that of the rdtarget process alone, which spins.')
    yield ''
    lines = []
    for device, samples in data['samples'].items():
        keys = dict.fromkeys((s['host'], s['rw'], s['depth']) for s in samples)
        lines += [_line(device, samples, *key) for key in keys]
    yield from report.table(['device', 'host', 'load', 'rdtarget IOPS', 'nvmet IOPS', 'ratio', 'goal',
                             'machine µs/IO, rdtarget', 'nvmet', 'rdtarget process'], lines)
    for device, why in data['errors'].items():
        yield f'- {device}: not measured: {why}'
    for device, samples in data['samples'].items():
        for text in dict.fromkeys(s['error'] for s in samples if 'error' in s):
            yield f'- {device}: {text}'
    yield ''
