# SPDX-License-Identifier: BSD-3-Clause
"""The disk behind a file: where its interrupts arrive, and how much time a processor's threads lose to the hypervisor."""

import os
import re

SYS = '/sys'


def _read(path):
    try:
        with open(path, encoding='ascii', errors='replace') as f:
            return f.read()
    except OSError:
        return ''


def _listed(path):
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def _irqs_above(path, root):
    """The interrupts of the nearest device above @path that has any."""
    while path.startswith(root) and path != root:
        found = [name for name in _listed(os.path.join(path, 'msi_irqs')) if name.isdigit()]
        legacy = _read(os.path.join(path, 'irq')).strip()
        if found or legacy not in ('', '0'):
            return set(found or [legacy])
        path = os.path.dirname(path)
    return set()


def irqs(device, sys=SYS):
    """The numbers of the interrupts of a block device "MAJOR:MINOR", as /proc/interrupts has them; for a mapped device
    (device mapper, md), the numbers of the devices below it. Empty: not known."""
    path = os.path.realpath(os.path.join(sys, 'dev/block', device))
    if not os.path.isdir(path):
        return set()
    if os.path.exists(os.path.join(path, 'partition')):
        path = os.path.dirname(path)
    below = [_read(os.path.join(path, 'slaves', name, 'dev')).strip() for name in _listed(os.path.join(path, 'slaves'))]
    if below:
        return set().union(*(irqs(dev, sys) for dev in below if dev))
    return _irqs_above(path, os.path.join(os.path.realpath(sys), 'devices'))


def of_file(path):
    """"MAJOR:MINOR" of the block device that a file is on; file systems of several devices have a number of their own."""
    dev = os.stat(path).st_dev
    return f'{os.major(dev)}:{os.minor(dev)}'


def interrupts(wanted, text=None):
    """{processor: interrupts so far} of those whose numbers are in @wanted, from /proc/interrupts."""
    lines = (_read('/proc/interrupts') if text is None else text).splitlines()
    cpus = [int(n) for n in re.findall(r'\bCPU(\d+)', lines[0])] if lines else []
    counts = dict.fromkeys(cpus, 0)
    for line in lines[1:]:
        name, _, rest = line.partition(':')
        if name.strip() in wanted:
            for cpu, count in zip(cpus, rest.split()):
                counts[cpu] += int(count)
    return counts


def arrived(before, after):
    """{processor: interrupts} between two of interrupts(), without processors that had none."""
    return {str(cpu): n - before.get(cpu, 0) for cpu, n in after.items() if n != before.get(cpu, 0)}


def steal(cpu, text=None):
    """Seconds that the hypervisor took from a processor so far, from /proc/stat; 0 where it does not count."""
    found = re.search(rf'^cpu{cpu}((?: +\d+){{8,}})', _read('/proc/stat') if text is None else text, re.M)
    return int(found[1].split()[7]) / os.sysconf('SC_CLK_TCK') if found else 0.0
