# SPDX-License-Identifier: BSD-3-Clause
"""A namespace as a block device that survives the loss of its connections: rdinit_dev.h."""
from __future__ import annotations

import dataclasses
import weakref
from types import TracebackType
from typing import Any, Callable, Iterable, Optional
from uuid import UUID

from _rdinit import ffi, lib

from ._glue import (Error, EventType, PathState, ReadBuffer, State, apply, apply_ctrl, callback, check, new, parse_uri,
                    record, text_of)
from ._keeper import Keeper


@dataclasses.dataclass(frozen=True)
class DeviceInfo:
    """struct rdinit_dev_info"""
    blocks: int
    block_size: int
    nsid: int
    max_transfer: int
    max_write_zeroes: int
    max_deallocate: int
    max_verify: int
    max_copy: int
    preferred_write: int
    optimal_write: int
    preferred_deallocate: int
    compare: bool
    compare_write: bool
    deallocated_is_zero: bool
    volatile_cache: bool
    read_only: bool
    nguid: bytes
    uuid: Optional[UUID]
    eui64: bytes
    state: State
    paths: int
    subnqn: str
    extents: bool


@dataclasses.dataclass(frozen=True)
class PathInfo:
    """struct rdinit_dev_path_info"""
    state: PathState
    ana_state: int
    cntlid: int
    attempts: int
    losses: int
    err: int
    address: str
    text: str


@dataclasses.dataclass(frozen=True)
class Event:
    """struct rdinit_dev_event"""
    type: EventType
    state: State
    path: int
    path_state: PathState
    ana_state: int
    err: int
    blocks: int
    text: str


@dataclasses.dataclass(frozen=True)
class Extent:
    """Blocks that are allocated."""
    lba: int
    nblocks: int


EventFunction = Callable[[Event], None]


@callback
def rdi_python_event(user: Any, event: Any) -> None:
    fn = ffi.from_handle(user)
    fn(record(Event, event))


class DeviceBase:
    """The device of the library, without what opens it and does its work."""

    def __init__(self, uris: Iterable[str], discovery: Optional[str], on_event: Optional[EventFunction],
                 host_traddr: Optional[str], options: dict[str, Any]) -> None:
        opts, ctrl = new('rdinit_dev_opts'), new('rdinit_ctrl_opts')
        kept = apply_ctrl(options, ctrl, opts)
        opts.ctrl = ctrl
        self._event = ffi.new_handle(on_event)
        if on_event:
            opts.event_fn, opts.event_user = lib.rdi_python_event, self._event
        self._out = ffi.new('struct rdinit_dev **')
        check(lib.rdinit_dev_create(opts, self._out))
        del kept
        local = host_traddr.encode() if host_traddr else ffi.NULL
        try:
            for uri in uris:
                check(lib.rdinit_dev_add_path(self._dev(), parse_uri(uri), local))
            if discovery:
                check(lib.rdinit_dev_add_discovery(self._dev(), parse_uri(discovery), local))
        except Error:
            lib.rdinit_dev_free(self._out)
            raise

    def _dev(self) -> Any:
        if self._out[0] == ffi.NULL:
            raise ValueError('the device is closed')
        return self._out[0]

    def info(self) -> DeviceInfo:
        """The properties of the namespace and of the device, now."""
        info = new('rdinit_dev_info')
        check(lib.rdinit_dev_get_info(self._dev(), info))
        return record(DeviceInfo, info)

    def paths(self) -> list[PathInfo]:
        """The properties of all paths, now."""
        info, paths = new('rdinit_dev_path_info'), []
        for index in range(self.info().paths):
            check(lib.rdinit_dev_get_path(self._dev(), index, info))
            paths.append(record(PathInfo, info))
        return paths

    def add_path(self, uri: str, host_traddr: Optional[str] = None) -> int:
        """Add a path and return its index. It is connected by the next work of the device."""
        local = host_traddr.encode() if host_traddr else ffi.NULL
        return check(lib.rdinit_dev_add_path(self._dev(), parse_uri(uri), local))

    def reconnect(self) -> None:
        """Connect all paths that wait or have failed again now."""
        check(lib.rdinit_dev_reconnect(self._dev()))

    def set_auth(self, **options: Any) -> None:
        """Give the device other secrets: the members of struct rdinit_auth_opts, such as secret_file."""
        auth = new('rdinit_auth_opts')
        kept = apply(options, auth)
        check(lib.rdinit_dev_set_auth(self._dev(), auth))
        del kept

    def set_tls(self, **options: Any) -> None:
        """Give a device with TLS another key: the members of struct rdinit_tls_opts, such as key_file."""
        tls = new('rdinit_tls_opts')
        kept = apply(options, tls)
        check(lib.rdinit_dev_set_tls(self._dev(), tls))
        del kept


def _end(keeper: Keeper, out: Any, event: Any) -> None:
    keeper.stop()
    lib.rdinit_dev_free(out)
    del event  # until now an event could come


class Device(DeviceBase):
    """A device that is open. A thread does its work (keep-alive, reconnecting, events) until close(), so that the
    program may do other things meanwhile. Functions may be called from any thread.

    uris: the paths, all to one namespace; discovery: a discovery controller that names them, as a URI with the NQN
    of the subsystem. on_event runs on whichever thread does the work, and must not use the device or its channels.
    options: the members of struct rdinit_dev_opts, rdinit_ctrl_opts, rdinit_auth_opts and rdinit_tls_opts, such as
    channels=4, hostnqn='nqn...', ctrl_loss_tmo_ms=0, secret_file='/etc/rdinit/key'."""

    def __init__(self, *uris: str, discovery: Optional[str] = None, on_event: Optional[EventFunction] = None,
                 host_traddr: Optional[str] = None, **options: Any) -> None:
        super().__init__(uris, discovery, on_event, host_traddr, options)
        dev = self._dev()
        try:
            check(lib.rdinit_dev_open(dev))
        except Error:
            lib.rdinit_dev_free(self._out)
            raise
        self._keeper = Keeper(lib.rdinit_dev_fd(dev), lambda: int(lib.rdinit_dev_process(dev, 0)))
        self._finalizer = weakref.finalize(self, _end, self._keeper, self._out, self._event)
        self._channels: weakref.WeakSet[Channel] = weakref.WeakSet()

    def channel(self) -> Channel:
        """A channel: the use of the device by one thread."""
        channel = Channel(self)
        self._channels.add(channel)
        return channel

    def extents(self, lba: int, nblocks: int) -> tuple[int, list[Extent]]:
        """Which blocks are allocated: the number of blocks that the answer is about, and the ranges among them."""
        found = ffi.new('struct rdinit_dev_extent[]', lib.RDINIT_DEV_EXTENTS_MAX)
        known = ffi.new('uint64_t *')
        count = check(lib.rdinit_dev_extents(self._dev(), lba, nblocks, found, known))
        return known[0], [record(Extent, found[i]) for i in range(count)]

    def close(self) -> None:
        """End the channels, shut the controllers down and close the connections. A second call does nothing."""
        if not self._finalizer.alive:
            return
        for channel in list(self._channels):
            channel.close()
        self._keeper.stop()
        result = lib.rdinit_dev_close(self._dev())
        reason = text_of(lib.rdinit_get_error())
        self._finalizer()
        if result < 0:
            raise Error(result, reason)

    def __enter__(self) -> Device:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()


class Command:
    """struct rdinit_dev_io with the buffers that it refers to."""

    def __init__(self, op: int, lba: int, nblocks: int, fua: bool, timeout_ms: int) -> None:
        self.io = new('rdinit_dev_io')
        self.io.op, self.io.lba, self.io.nblocks = op, lba, nblocks
        self.io.flags = lib.RDINIT_IO_FUA if fua else 0
        self.io.timeout_ms = timeout_ms
        self.buffers: list[Any] = []

    def buffer(self, data: Any, writable: bool = False) -> Any:
        self.buffers.append(ffi.from_buffer(data, require_writable=writable))
        return self.buffers[-1]


class Commands:
    """The commands of a channel, as structures."""

    def __init__(self, device: DeviceBase) -> None:
        self.block_size = device.info().block_size
        out = ffi.new('struct rdinit_dev_chan **')
        check(lib.rdinit_dev_chan_create(device._dev(), out))
        self._out = out
        self._device = device

    @property
    def depth(self) -> int:
        """Commands that may be in flight."""
        return int(lib.rdinit_dev_chan_depth(self._out[0]))

    @property
    def inflight(self) -> int:
        """Commands that were submitted and have not ended."""
        return int(lib.rdinit_dev_chan_inflight(self._out[0]))

    def _live(self) -> Any:
        if self._out[0] == ffi.NULL:
            raise ValueError('the channel is closed')
        return self._out[0]

    def _blocks(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if not size or size % self.block_size:
            raise ValueError(f'found {size} bytes of data, expected a multiple of the block size, {self.block_size}')
        return size // self.block_size

    def _read(self, lba: int, data: Any, fua: bool, timeout_ms: int) -> Command:
        command = Command(lib.RDINIT_DEV_READ, lba, self._blocks(data), fua, timeout_ms)
        command.io.buf = command.buffer(data, writable=True)
        return command

    def _send(self, op: int, lba: int, data: Any, fua: bool, timeout_ms: int) -> Command:
        command = Command(op, lba, self._blocks(data), fua, timeout_ms)
        command.io.buf = command.buffer(data)
        return command

    def _compare_write(self, lba: int, old: Any, data: Any, fua: bool, timeout_ms: int) -> Command:
        command = self._send(lib.RDINIT_DEV_COMPARE_WRITE, lba, old, fua, timeout_ms)
        if self._blocks(data) != command.io.nblocks:
            raise ValueError('found other sizes of the data to compare with and to write, expected the same')
        command.io.write_buf = command.buffer(data)
        return command

    def _zeroes(self, lba: int, nblocks: int, deallocate: bool, fua: bool, timeout_ms: int) -> Command:
        command = Command(lib.RDINIT_DEV_WRITE_ZEROES, lba, nblocks, fua, timeout_ms)
        command.io.flags |= lib.RDINIT_DEV_IO_DEALLOCATE if deallocate else 0
        return command

    def _copy(self, source: int, lba: int, nblocks: int, fua: bool, timeout_ms: int) -> Command:
        command = Command(lib.RDINIT_DEV_COPY, lba, nblocks, fua, timeout_ms)
        command.io.source = source
        return command


class Channel(Commands):
    """The use of a device by one thread. Each call waits for its command. Addresses and lengths are in logical
    blocks; data is a multiple of the block size. timeout_ms: 0 is io_timeout_ms of the device."""

    def _run(self, command: Command) -> None:
        check(lib.rdinit_dev_run(self._live(), command.io))

    def read(self, lba: int, nblocks: int, *, fua: bool = False, timeout_ms: int = 0) -> bytearray:
        data = bytearray(nblocks * self.block_size)
        self.read_into(lba, data, fua=fua, timeout_ms=timeout_ms)
        return data

    def read_into(self, lba: int, data: Any, *, fua: bool = False, timeout_ms: int = 0) -> None:
        """data: a writable buffer, such as a bytearray or a memoryview."""
        self._run(self._read(lba, data, fua, timeout_ms))

    def write(self, lba: int, data: ReadBuffer, *, fua: bool = False, timeout_ms: int = 0) -> None:
        self._run(self._send(lib.RDINIT_DEV_WRITE, lba, data, fua, timeout_ms))

    def flush(self, *, timeout_ms: int = 0) -> None:
        self._run(Command(lib.RDINIT_DEV_FLUSH, 0, 0, False, timeout_ms))

    def write_zeroes(self, lba: int, nblocks: int, *, deallocate: bool = False, fua: bool = False,
                     timeout_ms: int = 0) -> None:
        self._run(self._zeroes(lba, nblocks, deallocate, fua, timeout_ms))

    def deallocate(self, lba: int, nblocks: int, *, timeout_ms: int = 0) -> None:
        self._run(Command(lib.RDINIT_DEV_DEALLOCATE, lba, nblocks, False, timeout_ms))

    def verify(self, lba: int, nblocks: int, *, timeout_ms: int = 0) -> None:
        self._run(Command(lib.RDINIT_DEV_VERIFY, lba, nblocks, False, timeout_ms))

    def compare(self, lba: int, data: ReadBuffer, *, timeout_ms: int = 0) -> None:
        """Raises Error with status_code 85h (Compare Failure) when the blocks differ."""
        self._run(self._send(lib.RDINIT_DEV_COMPARE, lba, data, False, timeout_ms))

    def compare_write(self, lba: int, old: ReadBuffer, data: ReadBuffer, *, fua: bool = False,
                      timeout_ms: int = 0) -> None:
        """Write data if the blocks are equal to old, as one operation."""
        self._run(self._compare_write(lba, old, data, fua, timeout_ms))

    def copy(self, source: int, lba: int, nblocks: int, *, fua: bool = False, timeout_ms: int = 0) -> None:
        self._run(self._copy(source, lba, nblocks, fua, timeout_ms))

    def close(self) -> None:
        """End the channel. A second call does nothing."""
        lib.rdinit_dev_chan_free(self._out)

    def __del__(self) -> None:
        if hasattr(self, '_out'):
            self.close()

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()
