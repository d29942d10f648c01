# SPDX-License-Identifier: BSD-3-Clause
"""What is measured: rows (a server and a client), points (a load), and how long each takes."""

import dataclasses

import ceph
import clients
import servers

KIB = 1024


@dataclasses.dataclass(frozen=True)
class Point:
    rw: str         # fio's names: randread, randwrite, read, write
    size: int
    depth: int      # in flight on each connection
    connections: int = 1

    @property
    def kind(self):
        return 'write' if self.rw.endswith('write') else 'read'

    @property
    def name(self):
        return f'{self.rw}-{self.size}-{self.depth}-{self.connections}'


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    title: str
    server: str     # which server it needs, or ''
    kind: str       # what of it: null, memory, io_uring, aio
    client: str
    group: str      # null, memory or file: what can be compared
    note: str = ''
    command: str = ''   # of --vs


CLIENTS = {'floor': clients.floor, 'floor-each': clients.floor_each, 'rdinit': clients.rdinit,
           'rdinit-device': clients.rdinit_device, 'rdinit-tcp': clients.rdinit_tcp,
           'rdinit-tcp-digests': clients.rdinit_tcp_digests, 'rdinit-tls': clients.rdinit_tls,
           'fio-rdinit': clients.fio_rdinit,
           'fio-nbd': clients.fio_nbd, 'fio-iscsi': clients.fio_iscsi, 'iscsi-perf': clients.iscsi_perf,
           'fio-file': clients.fio_file, 'fio-file-spin': clients.fio_file_spin,
           'rdinit-rbd': ceph.rdinit_rbd, 'fio-rbd': ceph.fio_rbd, 'vs': clients.other}

ROWS = [
    Row('floor', 'bare TCP program', '', '', 'floor', 'null'),
    Row('floor-each', 'bare TCP program, a buffer for each I/O', '', '', 'floor-each', 'null'),
    Row('null', 'rdtarget null, rdinit bench', 'rdtarget', 'null', 'rdinit', 'null'),
    Row('tcp', 'rdtarget null, rdinit bench, NVMe/TCP', 'rdtarget', 'null', 'rdinit-tcp', 'null'),
    Row('tcp-digests', 'rdtarget null, rdinit bench, NVMe/TCP with digests', 'rdtarget', 'null', 'rdinit-tcp-digests',
        'null'),
    Row('tls', 'rdtarget null, rdinit bench, NVMe/TCP with TLS', 'rdtarget', 'null', 'rdinit-tls', 'null'),
    Row('null-device', 'rdtarget null, rdinit bench --device', 'rdtarget', 'null', 'rdinit-device', 'null'),
    Row('null-fio', 'rdtarget null, fio rdinit', 'rdtarget', 'null', 'fio-rdinit', 'null'),
    Row('nbdkit-null', 'nbdkit null, fio nbd', 'nbdkit-null', 'null', 'fio-nbd', 'null'),
    Row('tgt-null', 'tgt null, fio libiscsi', 'tgt', 'null', 'fio-iscsi', 'null'),
    Row('memory', 'rdtarget memory, rdinit bench', 'rdtarget', 'memory', 'rdinit', 'memory'),
    Row('memory-tcp', 'rdtarget memory, rdinit bench, NVMe/TCP', 'rdtarget', 'memory', 'rdinit-tcp', 'memory'),
    Row('memory-fio', 'rdtarget memory, fio rdinit', 'rdtarget', 'memory', 'fio-rdinit', 'memory'),
    Row('nbdkit-memory', 'nbdkit memory, fio nbd', 'nbdkit-memory', 'memory', 'fio-nbd', 'memory'),
    Row('local', 'local file, fio io_uring', '', 'io_uring', 'fio-file', 'file'),
    Row('local-spin', 'local file beside a spinning thread', '', 'io_uring', 'fio-file-spin', 'file'),
    Row('file', 'rdtarget file (io_uring), rdinit bench', 'rdtarget-file', 'io_uring', 'rdinit', 'file'),
    Row('file-fio', 'rdtarget file (io_uring), fio rdinit', 'rdtarget-file', 'io_uring', 'fio-rdinit', 'file'),
    Row('file-aio', 'rdtarget file (aio), rdinit bench', 'rdtarget-aio', 'aio', 'rdinit', 'file'),
    Row('nbdkit-file', 'nbdkit file (page cache), fio nbd', 'nbdkit-file', 'io_uring', 'fio-nbd', 'file',
        'nbdkit reads and writes through the page cache: not the disk\'s speed'),
    Row('fio-rbd', 'Ceph RBD image, fio rbd', 'rdtarget-rbd', 'rbd', 'fio-rbd', 'rbd'),
    Row('rbd', 'rdtarget, Ceph RBD image, rdinit bench, NVMe/TCP', 'rdtarget-rbd', 'rbd', 'rdinit-rbd', 'rbd'),
]
NAMES = [row.name for row in ROWS]
# Those of --rbd.
RBD_NAMES = tuple(row.name for row in ROWS if row.group == 'rbd')

SERVERS = {
    'rdtarget': lambda s: servers.Rdtarget(s, 'rdtarget'),
    'rdtarget-file': lambda s: servers.Rdtarget(s, 'rdtarget-file', 'io_uring'),
    'rdtarget-aio': lambda s: servers.Rdtarget(s, 'rdtarget-aio', 'aio'),
    'rdtarget-many': lambda s: servers.Rdtarget(s, 'rdtarget-many', queue_depth=160, io_queues=1024),
    'rdtarget-idle': lambda s: servers.Rdtarget(s, 'rdtarget-idle', queue_depth=128, io_queues=1024),
    'nbdkit-null': lambda s: servers.Nbdkit(s, 'null'),
    'nbdkit-memory': lambda s: servers.Nbdkit(s, 'memory'),
    'nbdkit-file': lambda s: servers.Nbdkit(s, 'file', s.file('nbdkit')),
    'tgt': servers.Tgt,
    'rdtarget-rbd': ceph.Image,
}

DEPTHS = (1, 32, 128)
CORE = [Point(rw, 4 * KIB, depth) for depth in DEPTHS for rw in ('randread', 'randwrite')]
LARGE = [Point(rw, 128 * KIB, 32) for rw in ('read', 'write')]
RBD = [Point(rw, size * KIB, depth) for size, depths in ((4, (1, 8, 32)), (64, (8, 32))) for depth in depths
       for rw in ('randread', 'randwrite')]
# Between those of CORE, for the plot.
CURVE = [Point(rw, 4 * KIB, depth) for depth in (2, 4, 8, 16, 64) for rw in ('randread', 'randwrite')]
CURVE_ROWS = ('floor', 'null', 'null-fio', 'nbdkit-null', 'tgt-null', 'local', 'local-spin', 'file')


@dataclasses.dataclass(frozen=True)
class Sweep:
    """One of the ways to go from one connection to many."""
    text: str
    in_all: int = 0     # in flight over all connections; with more connections than that, one on each
    on_each: int = 0    # in flight on each connection, however many there are

    def point(self, connections):
        return Point('randread', 4 * KIB, self.on_each or max(1, self.in_all // connections), connections)

    def has(self, point):
        return point == self.point(point.connections)


SWEEPS = (Sweep('128 in flight in all, one on each connection at least', in_all=128),
          Sweep('32 in flight on each connection', on_each=32))
CONNECTIONS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
MANY_ROWS = {'floor': None, 'null': 'rdtarget-many', 'nbdkit-null': 'nbdkit-null'}
# fio has a thread for each connection.
MANY_MOST = {'nbdkit-null': 64}


@dataclasses.dataclass(frozen=True)
class Profile:
    name: str
    seconds: float      # of one measurement
    ramp: float         # before it, not counted
    repetitions: int
    repetitions_curve: int  # of what is between the points of the table: curves
    points: tuple
    curve: tuple        # measured for CURVE_ROWS only
    connections: tuple
    rows: tuple
    file_mib: int
    idle_seconds: float
    quiet_seconds: float
    idle_connections: int = 256


PROFILES = {
    'full': Profile('full', 0.6, 0.1, 7, 3, tuple(CORE + LARGE), tuple(CURVE), CONNECTIONS,
                    tuple(name for name in NAMES if name not in RBD_NAMES), 1024, 30, 2),
    'quick': Profile('quick', 0.3, 0.05, 2, 1, tuple(CORE + LARGE), (), (1, 16, 256, 1000),
                     ('floor', 'null', 'tcp', 'null-fio', 'nbdkit-null', 'tgt-null', 'local', 'local-spin', 'file'), 256, 5, 1),
    'rbd': Profile('rbd', 2, 0.3, 9, 1, tuple(RBD), (), (), RBD_NAMES, 0, 0, 2),
    # For the test of this program: each measurement once, too short for a meaningful figure.
    'smoke': Profile('smoke', 0.05, 0, 1, 1, (CORE[0], CORE[3]), (), (1, 3), ('floor', 'null', 'file'), 4, 0.2, 0.1, 16),
}

# A client's start and end, beside the time it measures. fio takes longer.
OVERHEAD = {'fio': 0.75, 'other': 0.15}


def overhead(row):
    return OVERHEAD['fio' if row.client.startswith('fio') else 'other']


def main_jobs(profile, rows):
    """[(row, point, server name)] of one repetition of the table. Rows take turns at each point."""
    return [(row, point, row.server) for point in profile.points for row in rows]


def curve_jobs(profile, rows):
    """The same for what is in the plots only."""
    by_name = {row.name: row for row in rows}
    todo = [(row, point, row.server) for point in profile.curve for row in rows
            if row.name in CURVE_ROWS or row.client == 'vs']
    points = [sweep.point(n) for n in profile.connections for sweep in SWEEPS]
    for point in dict.fromkeys(points):
        if point in profile.points:
            continue
        for name, server in MANY_ROWS.items():
            if name in by_name and point.connections <= MANY_MOST.get(name, point.connections):
                todo.append((by_name[name], point, server or ''))
    return todo


def all_jobs(profile, rows):
    """[(row, point, server name, repetition)], in the order of the run."""
    for repetition in range(max(profile.repetitions, profile.repetitions_curve)):
        if repetition < profile.repetitions:
            yield from ((*job, repetition) for job in main_jobs(profile, rows))
        if repetition < profile.repetitions_curve:
            yield from ((*job, repetition) for job in curve_jobs(profile, rows))


def seconds_needed(profile, rows):
    """An estimate: how long a run takes."""
    each = profile.seconds + profile.ramp
    total = sum(each + overhead(row) for row, *_ in all_jobs(profile, rows))
    return total + profile.idle_seconds * 2 + profile.quiet_seconds * 2 + 10
