# SPDX-License-Identifier: BSD-3-Clause
"""NVMe over Fabrics host in userspace: librdinit for Python.

    import rdinit
    with rdinit.Device('nvme+tcp://192.0.2.1/nqn.2026-01.org.example:disk/1') as device, device.channel() as channel:
        channel.write(0, bytes(channel.block_size))
        print(device.info().blocks, channel.read(0, 8))

rdinit.aio has the same for asyncio. Errors are rdinit.Error, an OSError with the NVMe status."""
from _rdinit import ffi as _ffi, lib as _lib

from ._glue import Error, EventType, PathState, Policy, State, Uri, split_uri
from .controller import Controller, ControllerInfo, DiscoveryRecord, Namespace, QueuePair
from .device import Channel, Device, DeviceInfo, Event, Extent, PathInfo
from . import aio

__version__ = _ffi.string(_lib.rdinit_version()).decode()
NEVER = _lib.RDINIT_DEV_NEVER
DISCOVERY_NQN = _ffi.string(_lib.RDINIT_DISCOVERY_NQN).decode()

__all__ = ['Channel', 'Controller', 'ControllerInfo', 'DISCOVERY_NQN', 'Device', 'DeviceInfo', 'DiscoveryRecord', 'Error',
           'Event', 'EventType', 'Extent', 'NEVER', 'Namespace', 'PathInfo', 'PathState', 'Policy', 'QueuePair', 'State',
           'Uri', 'aio', 'split_uri']
