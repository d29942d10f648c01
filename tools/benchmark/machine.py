# SPDX-License-Identifier: BSD-3-Clause
"""The machine of the measurement, and whether other processes were using it."""

import glob
import os
import platform
import re
import time

# A machine is quiet when other processes use less than this share of one processor.
QUIET_BUSY = 0.1
# virtio: the device number of a balloon, and its feature of telling the hypervisor which memory is free.
VIRTIO_BALLOON, FREE_PAGE_REPORTING = '0x0005', 5


def _read(path):
    try:
        with open(path, encoding='utf-8', errors='replace') as f:
            return f.read()
    except OSError:
        return ''


def _cpu_model():
    found = re.search(r'^(?:model name|Model|cpu model)\s*:\s*(.+)$', _read('/proc/cpuinfo'), re.M)
    return found[1].strip() if found else platform.machine()


def _virtualized():
    flags = re.search(r'^flags\s*:.*\bhypervisor\b', _read('/proc/cpuinfo'), re.M)
    return bool(flags)


def _free_memory_is_taken_back():
    for path in glob.glob('/sys/bus/virtio/devices/*'):
        features = _read(f'{path}/features')
        if _read(f'{path}/device').strip() == VIRTIO_BALLOON and features[FREE_PAGE_REPORTING:][:1] == '1':
            return True
    return False


def facts():
    memory = re.search(r'MemTotal:\s+(\d+)', _read('/proc/meminfo'))
    return {
        'cpu': _cpu_model(),
        'cpus': len(os.sched_getaffinity(0)),
        'virtual': _virtualized(),
        'free_memory_taken_back': _free_memory_is_taken_back(),
        'kernel': f'{platform.system()} {platform.release()} {platform.machine()}',
        'governor': _read('/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor').strip() or 'unknown',
        'memory_mib': int(memory[1]) // 1024 if memory else 0,
        'distribution': _distribution(),
    }


def _distribution():
    found = re.search(r'^PRETTY_NAME="?([^"\n]*)', _read('/etc/os-release'), re.M)
    return found[1] if found else 'unknown'


def _ticks():
    """(busy, stolen, all), in processor ticks since the machine started."""
    fields = [int(n) for n in _read('/proc/stat').split('\n', 1)[0].split()[1:9]]
    user, nice, system, idle, iowait, irq, softirq, steal = fields
    busy = user + nice + system + irq + softirq
    return busy, steal, busy + steal + idle + iowait


def busy_now(seconds):
    """The processor time that other processes use, in processors, measured while this program is idle."""
    before, start = _ticks(), time.monotonic()
    time.sleep(seconds)
    after, elapsed = _ticks(), time.monotonic() - start
    hertz = os.sysconf('SC_CLK_TCK')
    return (after[0] - before[0] + after[1] - before[1]) / hertz / elapsed


class Watch:
    """From start to end of a run: load, the processor time of other processes at both ends, and the time that the
    hypervisor took."""

    def __init__(self, sample_seconds):
        self.sample_seconds = sample_seconds
        self.load_before = os.getloadavg()[0]
        self.busy_before = busy_now(sample_seconds)
        self.ticks = _ticks()

    def finish(self):
        stolen = _ticks()[1] - self.ticks[1]
        total = max(1, _ticks()[2] - self.ticks[2])
        busy_after = busy_now(self.sample_seconds)
        return {
            'load_before': round(self.load_before, 2),
            'others_before': round(self.busy_before, 3),
            'others_after': round(busy_after, 3),
            'steal': round(stolen / total, 4),
            'quiet': self.busy_before < QUIET_BUSY and busy_after < QUIET_BUSY and stolen / total < 0.01,
        }
