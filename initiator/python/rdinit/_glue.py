# SPDX-License-Identifier: BSD-3-Clause
"""What the modules share: errors, structures of C and their Python forms, options by name."""
from __future__ import annotations

import dataclasses
import enum
import os
import uuid
from typing import Any, Callable, ClassVar, Protocol, Type, TypeVar, Union

from _rdinit import ffi, lib

ReadBuffer = Union[bytes, bytearray, memoryview]
Function = TypeVar('Function', bound=Callable[..., Any])


class Dataclass(Protocol):
    """A class with the decorator dataclass"""
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


Record = TypeVar('Record', bound=Dataclass)


class Error(OSError):
    """A call of the library failed. errno and strerror say why; status is the NVMe status in the format of
    struct rdinit_completion, or 0 when the reason is not a status from the controller."""

    def __init__(self, err: int, text: str, status: int = 0) -> None:
        super().__init__(-err, text or os.strerror(-err))
        self.status = status

    @property
    def status_code_type(self) -> int:
        return self.status >> 8 & 7

    @property
    def status_code(self) -> int:
        return self.status & 0xff

    @property
    def do_not_retry(self) -> bool:
        return bool(self.status >> 14 & 1)


class State(enum.IntEnum):
    """enum rdinit_dev_state"""
    NEW = lib.RDINIT_DEV_NEW
    OPENING = lib.RDINIT_DEV_OPENING
    LIVE = lib.RDINIT_DEV_LIVE
    WAITING = lib.RDINIT_DEV_WAITING
    FAILED = lib.RDINIT_DEV_FAILED
    CLOSED = lib.RDINIT_DEV_CLOSED


class PathState(enum.IntEnum):
    """enum rdinit_dev_path_state"""
    NEW = lib.RDINIT_DEV_PATH_NEW
    RESOLVING = lib.RDINIT_DEV_PATH_RESOLVING
    CONNECTING = lib.RDINIT_DEV_PATH_CONNECTING
    CHECKING = lib.RDINIT_DEV_PATH_CHECKING
    LIVE = lib.RDINIT_DEV_PATH_LIVE
    LOST = lib.RDINIT_DEV_PATH_LOST
    WAITING = lib.RDINIT_DEV_PATH_WAITING
    FAILED = lib.RDINIT_DEV_PATH_FAILED
    CLOSED = lib.RDINIT_DEV_PATH_CLOSED


class Policy(enum.IntEnum):
    """enum rdinit_dev_policy"""
    ROUND_ROBIN = lib.RDINIT_DEV_ROUND_ROBIN
    QUEUE_DEPTH = lib.RDINIT_DEV_QUEUE_DEPTH
    FAILOVER = lib.RDINIT_DEV_FAILOVER


class EventType(enum.IntEnum):
    """enum rdinit_dev_event_type"""
    STATE = lib.RDINIT_DEV_EVENT_STATE
    PATH = lib.RDINIT_DEV_EVENT_PATH
    ANA = lib.RDINIT_DEV_EVENT_ANA
    RESIZED = lib.RDINIT_DEV_EVENT_RESIZED


def callback(fn: Function) -> Function:
    """@fn is what the library calls by this name."""
    ffi.def_extern()(fn)
    return fn


def text_of(chars: Any) -> str:
    return str(ffi.string(chars), 'utf-8', 'replace') if chars != ffi.NULL else ''


def check(result: int) -> int:
    """The result of a synchronous call; raises Error when it is negative."""
    if result < 0:
        raise Error(result, text_of(lib.rdinit_get_error()), lib.rdinit_last_status())
    return int(result)


def new(name: str) -> Any:
    """A structure of the library with its default values."""
    struct = ffi.new(f'struct {name} *')
    init = getattr(lib, f'{name}_init_size', None)
    if init:
        init(struct, ffi.sizeof(struct[0]))
    return struct


def _value(field: Any, kind: str) -> Any:
    if kind == 'str':
        return text_of(field)
    if kind == 'bytes':
        return bytes(ffi.buffer(field))
    if kind == 'Optional[UUID]':
        raw = bytes(ffi.buffer(field))
        return uuid.UUID(bytes=raw) if any(raw) else None
    enums: dict[str, Callable[[Any], Any]] = {'State': State, 'PathState': PathState, 'EventType': EventType}
    return enums[kind](field) if kind in enums else field


def record(cls: Type[Record], struct: Any) -> Record:
    """The dataclass @cls with the members of a structure that have the names of its fields."""
    fields = dataclasses.fields(cls)
    return cls(**{f.name: _value(getattr(struct, f.name), str(f.type)) for f in fields})


class Options:
    """Options as keywords: each is the member of that name of one of the structures, which are searched in order.
    The object keeps the texts that the structures refer to."""

    def __init__(self, *structs: Any) -> None:
        self._structs = structs
        self._texts: list[Any] = []

    def set(self, name: str, value: Any) -> None:
        for struct in self._structs:
            fields = dict(ffi.typeof(struct[0]).fields)
            if name in fields and name != 'size' and self._is_plain(fields[name].type):
                setattr(struct, name, self._c_value(fields[name].type, name, value))
                return
        raise TypeError(f'{name!r} is no option; there are: {", ".join(self.names())}')

    def names(self) -> list[str]:
        """Of all options, in the order of the structures."""
        return [name for struct in self._structs for name, field in ffi.typeof(struct[0]).fields
                if name != 'size' and self._is_plain(field.type)]

    @staticmethod
    def _is_plain(ctype: Any) -> bool:
        return ctype.kind in ('primitive', 'enum') or ctype.cname == 'char *'

    def _c_value(self, ctype: Any, name: str, value: Any) -> Any:
        if ctype.kind != 'pointer':
            return int(value) if ctype.kind == 'enum' else value
        if value is None:
            return ffi.NULL
        if not isinstance(value, (str, os.PathLike)):
            raise TypeError(f'{name}: found {value!r}, expected a text')
        self._texts.append(ffi.new('char[]', os.fsencode(value)))
        return self._texts[-1]


@dataclasses.dataclass(frozen=True)
class Uri:
    """struct rdinit_uri: the parts of nvme+rdma:// or nvme+tcp://HOST[:PORT][/SUBNQN[/NSID]]"""
    traddr: str
    trsvcid: str
    subnqn: str
    nsid: int
    tcp: bool


def parse_uri(text: str) -> Any:
    """struct rdinit_uri of a text."""
    uri = new('rdinit_uri')
    check(lib.rdinit_uri_parse(text.encode(), uri))
    return uri


def split_uri(text: str) -> Uri:
    """Take a URI apart. Raises Error, which names the wrong part."""
    return record(Uri, parse_uri(text))


def apply_ctrl(options: dict[str, Any], ctrl: Any, *before: Any) -> tuple[Any, ...]:
    """Set keywords in the options of a controller, and in its secrets where one of these is given. Returns what has to be
    kept until the call that uses them has returned."""
    secrets = {'auth': new('rdinit_auth_opts'), 'tls': new('rdinit_tls_opts')}
    kept = apply(options, *before, ctrl, *secrets.values())
    for member, struct in secrets.items():
        if any(name in Options(struct).names() for name in options):
            setattr(ctrl, member, struct)
    return kept, *secrets.values()


def apply(options: dict[str, Any], *structs: Any) -> Options:
    """Set keywords in structures of options."""
    kept = Options(*structs)
    for name, value in options.items():
        kept.set(name, value)
    return kept
