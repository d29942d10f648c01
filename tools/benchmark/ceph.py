# SPDX-License-Identifier: BSD-3-Clause
"""An image of a Ceph cluster of this machine, served by rdtarget and used by fio without a server: the rows of --rbd."""

import os
import sys

import clients
import servers
from procs import Failed, run

TESTS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), 'tests', 'loop')
IMAGE_SIZE = 256 << 20


def _cluster(setup):
    """The cluster of the tests: a monitor, and an OSD with its data in memory. It ends with this program."""
    os.environ['RDTARGET_RBD'] = setup.program('target/rdtarget-rbd.so')
    os.environ['TMPDIR'] = setup.work
    sys.path.insert(0, TESTS)
    try:
        import t_ceph
        import t_loop
        try:
            return t_ceph.Cluster(), t_ceph.POOL
        except (t_loop.Skip, t_loop.Failure) as e:
            raise Failed(f'Ceph: {e}') from None
    finally:
        sys.path.remove(TESTS)


class Image(servers.Rdtarget):
    """rdtarget with one reactor, which serves an image over NVMe/TCP. Nothing is pinned: its threads, the client and the
    OSD share all processors, as fio's threads and the OSD do."""

    def __init__(self, setup):     # pylint: disable=super-init-not-called
        self.fio_start_us = None
        self.cluster, self.pool = _cluster(setup)
        try:
            self.image = self.cluster.image(str(IMAGE_SIZE >> 20))
            # Without objects reads would be answered without data.
            self.cluster.run('rbd', 'bench', '--io-type', 'write', '--io-pattern', 'seq', '--io-size', '4M',
                             '--io-total', str(IMAGE_SIZE), f'{self.pool}/{self.image}')
            self._serve(setup)
        except BaseException as e:
            self.cluster.close()
            if isinstance(e, AssertionError):
                raise Failed(f'Ceph: {e}') from None
            raise
        # fio has no option for it.
        self.fio_conf = os.path.join(setup.work, 'fio.ceph.conf')
        with open(self.cluster.conf, encoding='ascii') as source, open(self.fio_conf, 'w', encoding='ascii') as f:
            f.write(source.read() + '[client]\nrbd cache = false\n')

    def _serve(self, setup):
        namespace = (f'      - nsid: 1\n        backend: rbd\n        rbd: {{pool: {self.pool}, image: {self.image}}}\n')
        path = os.path.join(setup.work, 'rdtarget-rbd.yaml')
        with open(path, 'w', encoding='utf-8') as f:
            f.write(servers.config([namespace], 256, 128) + f'ceph:\n  - {{name: bench, conf: {self.cluster.conf}}}\n')
        self.start(setup, 'rdtarget-rbd', path, None)

    def stop(self):
        super().stop()
        self.cluster.close()


def rdinit_rbd(setup, row, point, image):
    # It would spin on a processor that the target, librbd or the OSD needs; a host has its own.
    return clients.rdinit(setup, row, point, image, '--poll', 'never', uri=image.tcp_uri('rbd'), pinned=False)


def fio_rbd(setup, _row, point, image):
    """librbd's client without a target in between, which is idle meanwhile."""
    engine = ['--ioengine=rbd', '--clientname=admin', f'--pool={image.pool}', f'--rbdname={image.image}',
              f'--size={IMAGE_SIZE}']
    env = {'CEPH_CONF': image.fio_conf}
    if image.fio_start_us is None:  # it connects to the cluster, and leaves it
        once = [setup.tool('fio'), '--name=start', '--rw=read', '--bs=4096', '--number_ios=1', '--thread', *engine]
        image.fio_start_us = min(run('fio', once, None, 1, cwd=setup.work, env=env).cpu_us
                                 for _ in range(3))
    return clients.fio(setup, point, engine, None, pinned=False, env=env, start_us=image.fio_start_us)
