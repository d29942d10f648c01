# SPDX-License-Identifier: BSD-3-Clause
"""The resources of a run: programs, processors, a directory of its own, files to serve, running servers."""

import os
import shutil
import tempfile

import ceph
import disk
import plan
import servers
from procs import Failed

NULL_SPAN = 1 << 30


class Setup:
    def __init__(self, args, profile):
        self.build = os.path.abspath(args.build)
        self.tools = args.tools             # where programs are that are not installed
        self.engines = {'rdinit': args.fio_engine, 'libiscsi': args.iscsi_engine}
        self.seconds = profile.seconds
        self.ms = max(1, round(profile.seconds * 1000))
        self.ramp_ms = round(profile.ramp * 1000)
        self.file_size = profile.file_mib << 20
        self.server_cpu, self.client_cpu = args.server_cpu, args.client_cpu
        self.work = tempfile.mkdtemp(prefix='rdnvme-bench-', dir=args.dir)
        self.device = disk.of_file(self.work)
        self.irqs = disk.irqs(self.device)
        self._files = {}
        self._servers = {}

    # ---- programs ----

    def program(self, path):
        full = os.path.join(self.build, path)
        if not os.access(full, os.X_OK):
            raise Failed(f'{full} is not built')
        return full

    def tool(self, name):
        for folder in ('usr/sbin', 'usr/bin'):
            path = os.path.join(self.tools or '/nonexistent', folder, name)
            if os.access(path, os.X_OK):
                return path
        return servers.find(name)

    def fio_engine(self):
        path = self.engines['rdinit']
        if not path or not os.path.exists(path):
            raise Failed('our fio engine is not built (see tools/fio)')
        return os.path.abspath(path)

    def iscsi_engine(self):
        """Debian's fio is built without this engine, so it is loaded from a file, if that exists."""
        path = self.engines['libiscsi']
        if path and os.path.exists(path):
            return f'external:{os.path.abspath(path)}'
        return 'libiscsi'

    # ---- what is served ----

    def span(self, kind):
        """How much of a namespace is used, in bytes."""
        return {'null': NULL_SPAN, 'memory': servers.MEMORY_SIZE, 'rbd': ceph.IMAGE_SIZE}.get(kind, self.file_size)

    def file(self, kind):
        """The file to serve with that engine, made when it is first asked for. Each has its own: rdtarget locks it."""
        if kind not in self._files:
            path = os.path.join(self.work, f'{kind}.img')
            servers.make_file(path, self.file_size)
            self._files[kind] = path
        return self._files[kind]

    # ---- servers ----

    def server(self, name):
        """The running server of that name, started at its first use; None for ''."""
        if not name:
            return None
        if name not in self._servers:
            try:
                self._servers[name] = plan.SERVERS[name](self)
            except Failed as e:
                self._servers[name] = e
        if isinstance(self._servers[name], Failed):
            raise self._servers[name]
        return self._servers[name]

    def stop(self, name):
        server = self._servers.pop(name, None)
        if server is not None and not isinstance(server, Failed):
            server.stop()

    def close(self):
        for name in list(self._servers):
            self.stop(name)
        shutil.rmtree(self.work, ignore_errors=True)
