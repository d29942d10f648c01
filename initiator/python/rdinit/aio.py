# SPDX-License-Identifier: BSD-3-Clause
"""Devices for asyncio: the event loop does the work of the device and of its channels."""
from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Optional

from _rdinit import ffi, lib

from ._glue import Error, ReadBuffer, callback, check, text_of
from .device import Command, Commands, DeviceBase, EventFunction


class _Operation:
    """What waits for a callback of the library."""

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.handle = ffi.new_handle(self)


@callback
def rdi_python_complete(user: Any, c: Any) -> None:
    operation = ffi.from_handle(user)
    if operation.done.done():
        return
    if c.err:
        operation.done.set_exception(Error(c.err, text_of(c.text), c.status))
    else:
        operation.done.set_result(None)


class Device(DeviceBase):
    """As rdinit.Device, for one event loop: `async with rdinit.aio.Device(uri) as device:`. on_event runs in the
    loop, and must not use the device or its channels."""

    def __init__(self, *uris: str, discovery: Optional[str] = None, on_event: Optional[EventFunction] = None,
                 host_traddr: Optional[str] = None, **options: Any) -> None:
        super().__init__(uris, discovery, on_event, host_traddr, options)
        self._channels: set[Channel] = set()
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    async def open(self) -> None:
        """Connect the paths, and wait until one of them is usable."""
        operation, dev = _Operation(), self._dev()
        check(lib.rdinit_dev_open_async(dev, lib.rdi_python_complete, operation.handle))
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(lib.rdinit_dev_fd(dev), lib.rdinit_dev_process, dev, 0)
        try:
            await operation.done
        except BaseException:
            self._leave()
            lib.rdinit_dev_free(self._out)
            raise

    def channel(self) -> Channel:
        """A channel, for any number of tasks of this loop."""
        channel = Channel(self)
        self._channels.add(channel)
        return channel

    def _leave(self) -> None:
        for channel in list(self._channels):
            channel.close()
        if self._loop:
            self._loop.remove_reader(lib.rdinit_dev_fd(self._dev()))
            self._loop = None

    async def close(self) -> None:
        """End the channels, shut the controllers down and close the connections. A second call does nothing."""
        if self._out[0] == ffi.NULL:
            return
        self._leave()
        try:
            await asyncio.to_thread(lambda: check(lib.rdinit_dev_close(self._dev())))
        finally:
            lib.rdinit_dev_free(self._out)

    async def __aenter__(self) -> Device:
        await self.open()
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await self.close()


class Channel(Commands):
    """As rdinit.Channel; any number of tasks of one loop may use it at the same time. When the channel is full a
    command waits for its turn. A task that is cancelled goes on when its command has ended, because the buffer belongs
    to the library until then."""

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self._owner = device
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(self.depth)
        self._loop.add_reader(lib.rdinit_dev_chan_fd(self._live()), lib.rdinit_dev_chan_process, self._live(), 0)

    async def _run(self, command: Command) -> None:
        async with self._room:
            operation, number = _Operation(), ffi.new('uint64_t *')
            check(lib.rdinit_dev_submit(self._live(), command.io, lib.rdi_python_complete, operation.handle, number))
            try:
                await asyncio.shield(operation.done)
            except asyncio.CancelledError:
                if not operation.done.done():
                    lib.rdinit_dev_cancel(self._out[0], number[0])
                while not operation.done.done():
                    try:
                        await asyncio.wait([operation.done])
                    except asyncio.CancelledError:
                        pass
                operation.done.exception()  # it has been seen
                raise

    async def read(self, lba: int, nblocks: int, *, fua: bool = False, timeout_ms: int = 0) -> bytearray:
        data = bytearray(nblocks * self.block_size)
        await self._run(self._read(lba, data, fua, timeout_ms))
        return data

    async def read_into(self, lba: int, data: Any, *, fua: bool = False, timeout_ms: int = 0) -> None:
        await self._run(self._read(lba, data, fua, timeout_ms))

    async def write(self, lba: int, data: ReadBuffer, *, fua: bool = False, timeout_ms: int = 0) -> None:
        await self._run(self._send(lib.RDINIT_DEV_WRITE, lba, data, fua, timeout_ms))

    async def flush(self, *, timeout_ms: int = 0) -> None:
        await self._run(Command(lib.RDINIT_DEV_FLUSH, 0, 0, False, timeout_ms))

    async def write_zeroes(self, lba: int, nblocks: int, *, deallocate: bool = False, fua: bool = False,
                           timeout_ms: int = 0) -> None:
        await self._run(self._zeroes(lba, nblocks, deallocate, fua, timeout_ms))

    async def deallocate(self, lba: int, nblocks: int, *, timeout_ms: int = 0) -> None:
        await self._run(Command(lib.RDINIT_DEV_DEALLOCATE, lba, nblocks, False, timeout_ms))

    async def verify(self, lba: int, nblocks: int, *, timeout_ms: int = 0) -> None:
        await self._run(Command(lib.RDINIT_DEV_VERIFY, lba, nblocks, False, timeout_ms))

    async def compare(self, lba: int, data: ReadBuffer, *, timeout_ms: int = 0) -> None:
        await self._run(self._send(lib.RDINIT_DEV_COMPARE, lba, data, False, timeout_ms))

    async def compare_write(self, lba: int, old: ReadBuffer, data: ReadBuffer, *, fua: bool = False,
                            timeout_ms: int = 0) -> None:
        await self._run(self._compare_write(lba, old, data, fua, timeout_ms))

    async def copy(self, source: int, lba: int, nblocks: int, *, fua: bool = False, timeout_ms: int = 0) -> None:
        await self._run(self._copy(source, lba, nblocks, fua, timeout_ms))

    def close(self) -> None:
        """End the channel: commands in flight end with Error (ECANCELED). A second call does nothing."""
        if self._out[0] == ffi.NULL:
            return
        self._loop.remove_reader(lib.rdinit_dev_chan_fd(self._out[0]))
        lib.rdinit_dev_chan_free(self._out)
        self._owner._channels.discard(self)
