# SPDX-License-Identifier: BSD-3-Clause
"""One association with a controller, its admin commands and its I/O queues: rdinit.h."""
from __future__ import annotations

import dataclasses
import threading
import weakref
from types import TracebackType
from typing import Any, Callable, Optional, Union

from _rdinit import ffi, lib

from ._glue import Error, ReadBuffer, apply, apply_ctrl, callback, check, new, parse_uri, record, text_of
from ._keeper import Keeper


@dataclasses.dataclass(frozen=True)
class ControllerInfo:
    """struct rdinit_ctrl_info"""
    cap: int
    vs: int
    nn: int
    cntlid: int
    io_queues: int
    max_transfer: int
    in_capsule: int
    max_queue_size: int
    discovery: bool
    volatile_cache: bool
    address: str
    provider: str
    hostnqn: str
    hostid: str


@dataclasses.dataclass(frozen=True)
class DiscoveryRecord:
    """struct rdinit_discovery_record"""
    trtype: int
    adrfam: int
    subtype: int
    treq: int
    portid: int
    cntlid: int
    asqsz: int
    eflags: int
    trsvcid: str
    subnqn: str
    traddr: str
    rdma_qptype: int
    rdma_prtype: int
    rdma_cms: int
    rdma_pkey: int


class Namespace:
    """struct rdinit_ns: identifier, block size and number of blocks of a namespace."""

    def __init__(self, struct: Any) -> None:
        self.struct = struct

    @property
    def nsid(self) -> int:
        return int(self.struct.nsid)

    @property
    def block_size(self) -> int:
        return int(self.struct.block_size)

    @property
    def blocks(self) -> int:
        return int(self.struct.blocks)


@callback
def rdi_python_aer(user: Any, event: int) -> None:
    ffi.from_handle(user)(event)


def _passthru(call: Callable[..., int], handle: Any, sqe: ReadBuffer, data: Union[int, ReadBuffer],
              timeout_ms: int) -> tuple[int, bytes]:
    """A command: @data is what is written, or the number of bytes to read."""
    if len(sqe) != 64:
        raise ValueError(f'found a submission queue entry of {len(sqe)} bytes, expected 64')
    command, result = new('rdinit_passthru'), ffi.new('uint64_t *')
    is_read = isinstance(data, int)
    buffer = bytearray(data) if isinstance(data, int) else data
    view = ffi.from_buffer(buffer) if len(buffer) else ffi.NULL
    ffi.buffer(command.sqe)[:] = bytes(sqe)
    command.data, command.len, command.timeout_ms = view, len(buffer), timeout_ms
    command.flags = 0 if is_read else lib.RDINIT_PASSTHRU_WRITE
    check(call(handle, command, result))
    return result[0], bytes(buffer) if is_read else b''


def _end(keeper: Keeper, out: Any, event: Any) -> None:
    keeper.stop()
    lib.rdinit_ctrl_free(out)
    del event  # until now an event could come


class Controller:
    """A controller that is connected. A thread sends Keep Alive and receives events until close(). Functions may be
    called from any thread; they wait for each other.

    uri: without an NQN it leads to a discovery controller. on_event receives dword 0 of asynchronous events, on
    whichever thread processes the controller. options: the members of struct rdinit_ctrl_opts, rdinit_auth_opts and
    rdinit_tls_opts."""

    def __init__(self, uri: str, *, on_event: Optional[Callable[[int], None]] = None, **options: Any) -> None:
        opts, parts = new('rdinit_ctrl_opts'), parse_uri(uri)
        lib.rdinit_ctrl_opts_set_uri(opts, parts)
        kept = apply_ctrl(options, opts)
        event = ffi.new_handle(on_event)
        if on_event:
            opts.event_fn, opts.event_user = lib.rdi_python_aer, event
        self._out = out = ffi.new('struct rdinit_ctrl **')
        check(lib.rdinit_ctrl_create(opts, out))
        del kept
        try:
            check(lib.rdinit_ctrl_connect(out[0]))
        except Error:
            lib.rdinit_ctrl_free(out)
            raise
        self._lock = lock = threading.RLock()

        def process() -> int:
            with lock:
                return int(lib.rdinit_ctrl_process(out[0], 0))

        self._keeper = Keeper(lib.rdinit_ctrl_fd(out[0]), process)
        self._finalizer = weakref.finalize(self, _end, self._keeper, out, event)

    def _call(self, function: Callable[..., int], *arguments: Any) -> int:
        with self._lock:
            if self._out[0] == ffi.NULL:
                raise ValueError('the controller is closed')
            return check(function(self._out[0], *arguments))

    def info(self) -> ControllerInfo:
        """The properties of the controller and of the association."""
        info = new('rdinit_ctrl_info')
        self._call(lib.rdinit_ctrl_get_info, info)
        return record(ControllerInfo, info)

    def identify(self, cns: int, nsid: int = 0) -> bytes:
        """Identify with any CNS value: 4,096 bytes as the controller sent them."""
        data = bytearray(lib.RDINIT_IDENTIFY_SIZE)
        self._call(lib.rdinit_identify, cns, nsid, ffi.from_buffer(data))
        return bytes(data)

    def namespaces(self) -> list[int]:
        """The identifiers of the active namespaces."""
        nsids, count = ffi.new('uint32_t[]', lib.RDINIT_NS_LIST_MAX), ffi.new('unsigned int *')
        found: list[int] = []
        limit = self.info().nn
        while len(found) < limit:
            self._call(lib.rdinit_list_ns, found[-1] if found else 0, nsids, count)
            found.extend(nsids[0:count[0]])
            if count[0] < lib.RDINIT_NS_LIST_MAX:
                break
        return found

    def namespace(self, nsid: int) -> Namespace:
        """A namespace for I/O by a queue pair."""
        ns = new('rdinit_ns')
        self._call(lib.rdinit_ns_open, nsid, ns)
        return Namespace(ns)

    def log_page(self, lid: int, length: int, *, nsid: int = 0xffffffff, offset: int = 0) -> bytes:
        """Get Log Page: length and offset are multiples of 4."""
        data = bytearray(length)
        self._call(lib.rdinit_get_log, lid, nsid, offset, ffi.from_buffer(data), length)
        return bytes(data)

    def discover(self) -> list[DiscoveryRecord]:
        """The discovery log of a discovery controller."""
        out = ffi.new('struct rdinit_discovery **')
        self._call(lib.rdinit_discover, out)
        try:
            return [record(DiscoveryRecord, out[0].records[i]) for i in range(out[0].count)]
        finally:
            lib.rdinit_discovery_free(out)

    def passthru(self, sqe: ReadBuffer, data: Union[int, ReadBuffer] = 0, *,
                 timeout_ms: int = 0) -> tuple[int, bytes]:
        """Any admin command. sqe: the submission queue entry, 64 bytes. data: what is written, or how many bytes are
        read. Returns dwords 0 and 1 of the completion, and the data that was read."""
        with self._lock:
            return _passthru(lambda *arguments: self._call(lib.rdinit_admin_passthru, *arguments[1:]),
                             None, sqe, data, timeout_ms)

    def queue_pair(self, **options: Any) -> QueuePair:
        """Connect an I/O queue. options: the members of struct rdinit_qpair_opts."""
        opts, out = new('rdinit_qpair_opts'), ffi.new('struct rdinit_qpair **')
        kept = apply(options, opts)
        self._call(lib.rdinit_qpair_create, opts, out)
        del kept
        return QueuePair(out)

    def close(self) -> None:
        """Shut the controller down and close the connection. A second call does nothing."""
        if not self._finalizer.alive:
            return
        self._keeper.stop()
        result = lib.rdinit_ctrl_disconnect(self._out[0])
        reason, status = text_of(lib.rdinit_get_error()), lib.rdinit_last_status()
        with self._lock:
            self._finalizer()
        if result < 0:
            raise Error(result, reason, status)

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()


class QueuePair:
    """An I/O queue of one controller, for one thread at a time; it does not survive the loss of its connection."""

    def __init__(self, out: Any) -> None:
        self._out = out
        try:
            check(lib.rdinit_qpair_connect(out[0]))
        except Error:
            lib.rdinit_qpair_free(out)
            raise

    def _live(self) -> Any:
        if self._out[0] == ffi.NULL:
            raise ValueError('the queue pair is closed')
        return self._out[0]

    def read(self, ns: Namespace, lba: int, nblocks: int, *, fua: bool = False) -> bytearray:
        data = bytearray(nblocks * ns.block_size)
        check(lib.rdinit_read(self._live(), ns.struct, lba, nblocks, ffi.from_buffer(data),
                              lib.RDINIT_IO_FUA if fua else 0))
        return data

    def write(self, ns: Namespace, lba: int, data: ReadBuffer, *, fua: bool = False) -> None:
        blocks, rest = divmod(len(data), ns.block_size)
        if rest:
            raise ValueError(f'found {len(data)} bytes of data, expected a multiple of {ns.block_size}')
        check(lib.rdinit_write(self._live(), ns.struct, lba, blocks, ffi.from_buffer(data),
                               lib.RDINIT_IO_FUA if fua else 0))

    def flush(self, ns: Namespace) -> None:
        check(lib.rdinit_flush(self._live(), ns.struct))

    def passthru(self, sqe: ReadBuffer, data: Union[int, ReadBuffer] = 0, *,
                 timeout_ms: int = 0) -> tuple[int, bytes]:
        """Any I/O command, as Controller.passthru()."""
        return _passthru(lib.rdinit_io_passthru, self._live(), sqe, data, timeout_ms)

    def close(self) -> None:
        """Close the connection. A second call does nothing."""
        lib.rdinit_qpair_free(self._out)

    def __del__(self) -> None:
        if hasattr(self, '_out'):
            self.close()

    def __enter__(self) -> QueuePair:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()
