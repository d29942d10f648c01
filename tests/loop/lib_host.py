# SPDX-License-Identifier: BSD-3-Clause
"""A host for tests that uses librdinit, loaded from $LIBRDINIT: the Python peer (nvmf_peer.py) works over iWARP only.
Host and Queue have the same method names as the peer where both have the function.

Commands are submitted in any number and awaited by Pending objects; nothing runs in the background.

As a program it becomes a host in some state of its life, says "ready" and waits to be killed:
lib_host.py ADDR PORT NQN STATE.
"""

import ctypes as c
import os
import sys
import time

from t_loop import DEADLINE, FABRIC, NQN, Failure, Skip

FUA = 1
STATUS_EIO = -5


class CtrlOpts(c.Structure):
    _fields_ = [('size', c.c_size_t), ('traddr', c.c_char_p), ('trsvcid', c.c_char_p),
                ('subnqn', c.c_char_p), ('hostnqn', c.c_char_p), ('hostid', c.c_char_p),
                ('host_traddr', c.c_char_p), ('provider', c.c_char_p),
                ('keep_alive_tmo_ms', c.c_uint32), ('connect_timeout_ms', c.c_uint32),
                ('admin_timeout_ms', c.c_uint32), ('admin_queue_size', c.c_uint16),
                ('nr_io_queues', c.c_uint16), ('crc', c.c_bool), ('no_peer_to_peer', c.c_bool),
                ('mpa_revision', c.c_uint8), ('congestion', c.c_char_p),
                ('send_buffer', c.c_uint32), ('receive_buffer', c.c_uint32), ('spin_us', c.c_uint32),
                ('event_fn', c.c_void_p),
                ('event_user', c.c_void_p), ('log_spec', c.c_char_p), ('log_fd', c.c_int),
                ('log_fn', c.c_void_p), ('log_user', c.c_void_p), ('no_remote_invalidate', c.c_bool)]


class CtrlInfo(c.Structure):
    _fields_ = [('size', c.c_size_t), ('cap', c.c_uint64), ('vs', c.c_uint32), ('nn', c.c_uint32),
                ('cntlid', c.c_uint16), ('io_queues', c.c_uint16), ('max_transfer', c.c_uint32),
                ('in_capsule', c.c_uint32), ('max_queue_size', c.c_uint16), ('discovery', c.c_bool),
                ('volatile_cache', c.c_bool), ('address', c.c_char_p), ('provider', c.c_char_p),
                ('hostnqn', c.c_char_p)]


class Namespace(c.Structure):
    _fields_ = [('size', c.c_size_t), ('nsid', c.c_uint32), ('block_size', c.c_uint32),
                ('blocks', c.c_uint64), ('unchecked', c.c_bool)]


class QpairOpts(c.Structure):
    _fields_ = [('size', c.c_size_t), ('qid', c.c_uint16), ('queue_size', c.c_uint16),
                ('connect_timeout_ms', c.c_uint32), ('io_timeout_ms', c.c_uint32),
                ('bounce_bytes', c.c_size_t)]


class Completion(c.Structure):
    _fields_ = [('err', c.c_int), ('status', c.c_uint16), ('result', c.c_uint64), ('text', c.c_char_p)]


COMPLETE = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(Completion))


def load():
    path = os.environ.get('LIBRDINIT')
    if not path:
        raise Skip('librdinit is not built (set LIBRDINIT)')
    lib = c.CDLL(path)
    for name in ('rdinit_get_error', 'rdinit_version'):
        getattr(lib, name).restype = c.c_char_p
    lib.rdinit_last_status.restype = c.c_uint16
    return lib


def made(lib, kind, init):
    """A structure with the library's defaults, as the header's inline function makes it. The calls that take it refuse
    one that is larger than theirs."""
    value = kind()
    getattr(lib, init + '_size')(c.byref(value), c.c_size_t(c.sizeof(kind)))
    return value


class Lost(Exception):
    """The connection ended before the answer."""


class Cqe:
    dw0 = 0
    def __init__(self, status):
        self.status_field = status << 1  # as on the wire, over the phase
        self.status = status & 0x7FF

    @property
    def dnr(self):
        return bool(self.status_field & 0x8000)


class Pending:
    """A command in flight. The library owns the buffer until the command is done."""

    def __init__(self, queue, buffer=None):
        self.queue, self.buffer, self.err = queue, buffer, None
        self.status = 0
        self.text = ''
        self.fn = COMPLETE(self._complete)
        queue.pending.add(self)  # who posts it may forget it, but not the library

    def _complete(self, _, completion):
        done = completion.contents
        self.queue.pending.discard(self)
        self.err, self.status, self.text = done.err, done.status, done.text.decode()

    @property
    def done(self):
        return self.err is not None

    def wait(self):
        """Its Cqe. Raises Lost if there was no answer."""
        end = time.monotonic() + DEADLINE
        while not self.done:
            self.queue.process(1000)
            if time.monotonic() > end:
                raise Failure('no answer')
        if self.err and self.err != STATUS_EIO:
            raise Lost(self.text)
        return Cqe(self.status)

    @property
    def data(self):
        return self.buffer.raw


class Handle:
    lib = handle = None
    kind = None

    def call(self, name, *args):
        """A synchronous call; the NVMe status as a Cqe."""
        rc = getattr(self.lib, name)(self.handle, *args)
        if rc and rc != STATUS_EIO:
            raise Lost(self.lib.rdinit_get_error().decode())
        return Cqe(self.lib.rdinit_last_status() if rc else 0)

    def must(self, name, *args):
        """A call that must succeed; raises Lost also for a refusal, with its text."""
        if getattr(self.lib, name)(self.handle, *args):
            raise Lost(self.lib.rdinit_get_error().decode())

    def process(self, timeout_ms=0):
        return getattr(self.lib, f'rdinit_{self.kind}_process')(self.handle, timeout_ms)

    def close(self):
        if self.handle:
            getattr(self.lib, f'rdinit_{self.kind}_free')(c.byref(self.handle))

    def wait_closed(self):
        """Wait until the end of the connection is noticed."""
        end = time.monotonic() + DEADLINE
        while self.process(1000) >= 0:
            if time.monotonic() > end:
                raise Failure('the connection is still there')


class Admin(Handle):
    kind = 'ctrl'

    def identify(self, cns, nsid=0):
        data = c.create_string_buffer(4096)
        return self.call('rdinit_identify', c.c_uint8(cns), c.c_uint32(nsid), data), data.raw

    def get_log(self, lid, length, *, nsid=0xFFFFFFFF, offset=0):
        data = c.create_string_buffer(length)
        cqe = self.call('rdinit_get_log', c.c_uint8(lid), c.c_uint32(nsid), c.c_uint64(offset), data,
                        c.c_uint32(length))
        return cqe, data.raw


class Queue(Handle):
    kind = 'qpair'

    def __init__(self, host, depth, qid=0):
        self.host, self.lib, self.pending = host, host.lib, set()
        opts = made(self.lib, QpairOpts, 'rdinit_qpair_opts_init')
        opts.queue_size, opts.qid = depth, qid
        opts.bounce_bytes = 1 << 20
        self.handle = c.c_void_p()
        if self.lib.rdinit_qpair_create(host.admin.handle, c.byref(opts), c.byref(self.handle)):
            raise Lost(self.lib.rdinit_get_error().decode())
        try:
            self.must('rdinit_qpair_connect')
        except Lost:
            self.close()
            raise

    def submit(self, name, nsid, *args, buffer=None):
        pending = Pending(self, buffer)
        tail = [buffer, c.c_uint(args[-1])] if buffer is not None else []
        head = [c.c_uint64(args[0]), c.c_uint32(args[1])] if buffer is not None else []
        rc = getattr(self.lib, name)(self.handle, c.byref(self.host.namespace(nsid)), *head, *tail,
                                     pending.fn, None)
        if rc:
            self.pending.discard(pending)
            raise Lost(f'{self.lib.rdinit_get_error().decode()} ({rc})')
        self.process()
        return pending

    def post_read(self, nsid, lba, count, block=512):
        return self.submit('rdinit_read_async', nsid, lba, count, 0,
                           buffer=c.create_string_buffer(count * block))

    def post_write(self, nsid, lba, data, block=512, *, fua=False):
        return self.submit('rdinit_write_async', nsid, lba, len(data) // block, FUA if fua else 0,
                           buffer=c.create_string_buffer(data, len(data)))

    def post_flush(self, nsid):
        return self.submit('rdinit_flush_async', nsid)

    def read_blocks(self, nsid, lba, count, block=512):
        pending = self.post_read(nsid, lba, count, block)
        return pending.wait(), pending.data

    def write_blocks(self, nsid, lba, data, block=512, *, fua=False, in_capsule=None):
        """in_capsule is an argument of the peer; the library decides that by itself."""
        return self.post_write(nsid, lba, data, block, fua=fua).wait()

    def flush(self, nsid):
        return self.post_flush(nsid).wait()


class Host:
    """A controller and its queues. enable() connects."""

    def __init__(self, addr, port, subnqn=NQN, *, kato=0, queues=64, **_):
        self.lib = load()
        self.io, self._spaces, self.kato = [], {}, kato
        opts = made(self.lib, CtrlOpts, 'rdinit_ctrl_opts_init')
        opts.traddr, opts.trsvcid, opts.subnqn = addr.encode(), str(port).encode(), subnqn.encode()
        opts.provider = FABRIC.encode()
        opts.keep_alive_tmo_ms, opts.nr_io_queues = kato, queues
        self.admin = Admin()
        self.admin.lib, self.admin.handle = self.lib, c.c_void_p()
        if self.lib.rdinit_ctrl_create(c.byref(opts), c.byref(self.admin.handle)):
            raise Failure(self.lib.rdinit_get_error().decode())

    def connect(self):
        self.admin.must('rdinit_ctrl_connect')
        return self

    def enable(self):
        self.connect()
        info = made(self.lib, CtrlInfo, 'rdinit_ctrl_info_init')
        self.admin.must('rdinit_ctrl_get_info', c.byref(info))
        if info.provider.decode() != FABRIC:
            raise Failure(f'librdinit took {info.provider.decode()}, not {FABRIC}')
        return self

    def namespace(self, nsid):
        if nsid not in self._spaces:
            space = made(self.lib, Namespace, 'rdinit_ns_init')
            self.admin.must('rdinit_ns_open', c.c_uint32(nsid), c.byref(space))
            space.unchecked = True
            self._spaces[nsid] = space
        return self._spaces[nsid]

    def add_io(self, *, depth=32, qid=0, **_):
        queue = Queue(self, depth, qid)
        self.io.append(queue)
        return queue

    def shutdown(self):
        """Ends the controller as the library does: the queues, CC.SHN, the admin queue."""
        for queue in self.io:
            queue.call('rdinit_qpair_disconnect')
        self.admin.call('rdinit_ctrl_disconnect')

    def close(self, **_):
        for queue in self.io:
            queue.close()
        self.admin.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


# ---- as a program ----

def reach(state, h):
    """Bring the host into a state of its life."""
    h.enable()
    if state == 'enabled':
        return
    for _ in range(4 if state == 'four I/O queues' else 1):
        queue = h.add_io(depth=64)
    if state == 'reads outstanding':
        for number in range(60):
            queue.post_read(1, number * 32 % 8192, 32)
    elif state == 'writes outstanding':
        for number in range(60):
            queue.post_write(1, number * 32 % 8192, bytes(16384))
    elif state == 'the I/O queue gone':
        queue.close()
    elif state == 'the admin queue gone':
        h.admin.close()
        queue.wait_closed()
    elif state == 'shut down':
        h.shutdown()


STATES = ('enabled', 'idle I/O queue', 'four I/O queues', 'reads outstanding', 'writes outstanding',
          'the I/O queue gone', 'the admin queue gone', 'shut down')


def main():
    addr, port, nqn, state = sys.argv[1:]
    h = Host(addr, int(port), nqn)
    reach(state, h)
    print('ready', file=sys.stderr, flush=True)
    sys.stdin.buffer.read()


if __name__ == '__main__':
    main()
