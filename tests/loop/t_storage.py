# SPDX-License-Identifier: BSD-3-Clause
"""Common parts of tests of storage: file systems and block devices of their own, if root can make them."""

import ctypes
import os
import random
import struct

import nvmf_peer as nv
from t_loop import Skip, preloaded, requires_program, requires_root, wait_for
from t_serving import host

MIB = 1 << 20
WRITE_ZEROES, DSM = 8, 9


def pattern(seed, size):
    return random.Random(seed).randbytes(size)


def stall_env(path):
    """The environment of a target of which a reactor stands still while the file @path exists: stand_still()."""
    return preloaded('stallat', STALL=path)


def hang_env(trigger, path):
    """The environment of a target for which the storage of the file @path hangs while the file @trigger exists."""
    return preloaded('stallat', HANG=trigger, HANG_FILE=path)


def forbid_io_uring():
    """For preexec_fn: io_uring_setup(2) fails with EPERM from here on, as in many containers."""
    program = b''.join(struct.pack('=HBBI', *row) for row in (
        (0x20, 0, 0, 0),           # load the number of the system call
        (0x15, 0, 1, 425),         # io_uring_setup, on every architecture
        (0x06, 0, 0, 0x00050001),  # answer EPERM
        (0x06, 0, 0, 0x7FFF0000)))  # allow
    filters = ctypes.create_string_buffer(program, len(program))
    fprog = struct.pack('=H', len(program) // 8) + bytes(struct.calcsize('@HP') - 2 - struct.calcsize('P'))
    fprog = ctypes.create_string_buffer(fprog + struct.pack('@P', ctypes.addressof(filters)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(38, 1, 0, 0, 0) or prctl(22, 2, fprog):
        raise OSError(ctypes.get_errno(), 'no seccomp filter')


def post_write(queue, nsid, data, **fields):
    """Send a write of block 0, or as the other fields say, and do not wait for its answer."""
    cid = queue.next_cid()
    queue.post(nv.sqe(nv.NVM_WRITE, cid, nsid=nsid, **fields, sgl=nv.offset_sgl(0, len(data))) + data)
    return cid


def zeroes_and_deallocated(t, target, content):
    """Write with FUA, Write Zeroes, Deallocate and Flush on namespace 1; @content() returns the content of its
    storage."""
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        nv.expect(queue.write_blocks(1, 0, pattern(1, 65536), fua=True))
        nv.expect(queue.call(nv.sqe(WRITE_ZEROES, queue.next_cid(), nsid=1, cdw10=16, cdw12=15)))
        nv.expect(queue.data_out(DSM, struct.pack('<IIQ', 0, 16, 64), nsid=1, cdw10=0, cdw11=4))
        nv.expect(queue.flush(1))
        h.shutdown()
    want = bytearray(pattern(1, 65536))
    want[16 * 512:32 * 512] = bytes(16 * 512)
    got = content()[:65536]
    t.same(got[:64 * 512], bytes(want[:64 * 512]), 'data before the deallocated blocks')
    t.same(got[80 * 512:], bytes(want[80 * 512:]), 'data behind them')


def stand_still(queue, stall, data=bytes(512)):
    """Post a write to namespace 1, with engine io_uring, of a target with stall_env(): its reactor stands still until
    the file @stall is removed. Returns its CID."""
    open(stall, 'w', encoding='ascii').close()
    cid = post_write(queue, 1, data)
    wait_for(lambda: os.path.exists(stall + '.in'), 'the reactor to stand still')
    return cid


def as_root(t, *argv):
    """Run a tool that may not work in a container; then the test is skipped."""
    requires_root()
    requires_program(argv[0])
    res = t.run(argv)
    if res.rc:
        raise Skip(f'{argv[0]}: {res.err.strip().replace(t.dir, "...")}')
    return res.text.strip()


def mount(t, *args):
    where = t.path('mnt')
    os.mkdir(where)
    as_root(t, 'mount', *args, where)
    t.cleanup(t.run, ['umount', '--lazy', where])
    return where


def loop_device(t, size=16 * MIB, sector=512, name='disk'):
    with open(t.path(name), 'wb') as f:
        f.truncate(size)
    device = as_root(t, 'losetup', '--find', '--show', '--sector-size', str(sector), t.path(name))
    t.cleanup(t.run, ['losetup', '--detach', device])
    return device


class Frozen:
    """A file system of its own that can be frozen: writes then hang until it is thawed."""

    def __init__(self, t):
        requires_program('fsfreeze')
        with open(t.path('fs'), 'wb') as f:
            f.truncate(64 * MIB)
        as_root(t, 'mkfs.ext4', '-q', t.path('fs'))
        self.t = t
        self.where = mount(t, '-o', 'loop', t.path('fs'))
        self.frozen = False

    def freeze(self):
        as_root(self.t, 'fsfreeze', '--freeze', self.where)
        self.frozen = True
        self.t.cleanup(self.thaw)  # before the target is ended, which the kernel would have wait for this

    def thaw(self):
        if self.frozen:
            self.frozen = False
            self.t.run(['fsfreeze', '--unfreeze', self.where])
