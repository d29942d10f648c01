#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""In the guest: a host that notes what it was answered, and a look at what the device holds at each note.

  powerfail.py host ADDR NAME NOTES   write, flush and protect through rdtarget; the notes are marks in the log of the
                                      dm-log-writes device NAME, and what may be read at each of them is in NOTES
  powerfail.py block LOG NOTES        replay the log to each mark, and compare the blocks
  powerfail.py file LOG NOTES DEVICE DIR
                                      the same with the file disk.img of a file system: the device is written as it was at
                                      the mark and mounted on DIR, as after a power failure

dm-log-writes logs a write when it is on stable storage: with FUA at its end, otherwise when a flush that began after its
end has ended. The log up to a mark is so the least that a power failure leaves. Exit status 1: something that was answered
as stored is missing; 3: nothing is missing, but something newer would be if every write had counted as stored, as it has
to be where the log is of use.
"""

import glob
import json
import os
import random
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'loop'))

import nvmf_peer as nv  # noqa: E402

NQN = 'nqn.2024-01.io.rdnvme:vm'
SPOTS, SPOT = 48, 4096  # areas that are written as a whole
ROUNDS = 30
WRITE_ZEROES, WRITE_PROTECT = 8, 0x84
FLUSH_FLAG, FUA_FLAG, DISCARD_FLAG, MARK_FLAG = 1, 2, 4, 8
MAGIC = 0x6A736677736872


def pattern(number):
    """The content of a spot after write @number; 0: zeroes."""
    return struct.pack('<Q', number) * (SPOT // 8)


# ---- the host ----

class Notes:
    """What may be in each spot, oldest first: the first one is on stable storage."""

    def __init__(self, name):
        self.name, self.marks = name, []
        self.spots = [[0] for _ in range(SPOTS)]
        self.protected = False

    def mark(self):
        subprocess.run(['dmsetup', 'message', self.name, '0', 'mark', f'm{len(self.marks)}'], check=True)
        self.marks.append({'spots': [list(s) for s in self.spots], 'protected': self.protected})


def write(queue, notes, rng, number, *, fua):
    spot = rng.randrange(SPOTS)
    if fua and rng.random() < 0.3:
        number = 0
        nv.expect(queue.call(nv.sqe(WRITE_ZEROES, queue.next_cid(), nsid=1, cdw10=spot * SPOT // 512,
                                    cdw12=SPOT // 512 - 1 | 1 << 30)))
    else:
        nv.expect(queue.write_blocks(1, spot * SPOT // 512, pattern(number), fua=fua,
                                     in_capsule=rng.random() < 0.5))
    notes.spots[spot] = [number] if fua else notes.spots[spot] + [number]


def host(addr, name, path):
    rng, notes, numbers = random.Random(1), Notes(name), iter(range(1, 1 << 20))
    with nv.Host(addr, 4420, NQN) as h:
        h.enable()
        queue = h.add_io()
        notes.mark()
        for n in range(ROUNDS):
            for _ in range(rng.randrange(1, 6)):
                write(queue, notes, rng, next(numbers), fua=False)
            if n % 3 == 0:
                nv.expect(queue.flush(1))
                notes.spots = [s[-1:] for s in notes.spots]
            elif n % 3 == 1:
                write(queue, notes, rng, next(numbers), fua=True)
            else:
                notes.protected = not notes.protected
                nv.expect(h.admin.call(nv.sqe(nv.SET_FEATURES, h.admin.next_cid(), nsid=2, cdw10=WRITE_PROTECT,
                                              cdw11=int(notes.protected))))
            notes.mark()
        h.shutdown()
    with open(path, 'w', encoding='utf-8') as f:
        json.dump(notes.marks, f)


# ---- the log ----

def entries(log):
    """(sector, bytes, flags, data) of each entry; the data of a mark is its name."""
    with open(log, 'rb') as f:
        magic, version, count, size = struct.unpack('<QQQI', f.read(28))
        if (magic, version) != (MAGIC, 1):
            raise SystemExit(f'{log}: magic {magic:#x}, version {version}: not a log of dm-log-writes')
        f.seek(size)
        for _ in range(count):
            head = f.read(size)
            sector, sectors, flags, length = struct.unpack_from('<QQQQ', head)
            data = b''
            if flags & MARK_FLAG:
                data = head[32:32 + length].rstrip(b'\0')
            elif not flags & DISCARD_FLAG:
                data = f.read(sectors * size)
            yield sector * size, sectors * size, flags, data


def replay(log, notes):
    """(number, image, note) at each mark."""
    image = bytearray()
    seen = 0
    for at, length, flags, data in entries(log):
        if data == b'dm-log-writes-end':  # the device is removed
            break
        if flags & MARK_FLAG:
            if data != f'm{seen}'.encode():
                raise SystemExit(f'mark {data!r}, expected m{seen}')
            yield seen, image, notes[seen]
            seen += 1
        elif length:
            if at + length > len(image):
                image.extend(bytes(at + length - len(image)))
            image[at:at + length] = data or bytes(length)
    if seen != len(notes):
        raise SystemExit(f'{seen} marks in the log, expected {len(notes)}')


class Verdict:
    def __init__(self):
        self.lost = self.newer = self.compared = 0

    def compare(self, number, content, note):
        """@content: of all spots."""
        for i, allowed in enumerate(note['spots']):
            found = content[i * SPOT:(i + 1) * SPOT].ljust(SPOT, b'\0')
            self.compared += 1
            if not self.is_one_of(found, allowed):
                self.lost += 1
                print(f'mark {number}, spot {i}: found {struct.unpack_from("<Q", found)[0]}, expected one of {allowed}')
            self.newer += found != pattern(allowed[-1])

    @staticmethod
    def is_one_of(found, allowed):
        """A write that is not stored may be there in part, in units of 512 bytes."""
        for at in range(0, SPOT, 512):
            if found[at:at + 512] not in [pattern(number)[:512] for number in allowed]:
                return False
        return True

    def status(self):
        print(f'{self.compared} compared, {self.lost} wrong, {self.newer} that are not the newest write')
        return 1 if self.lost or not self.compared else 3 if self.newer else 0


def block(log, notes):
    verdict = Verdict()
    for number, image, note in replay(log, notes):
        verdict.compare(number, image[:SPOTS * SPOT], note)
    return verdict.status()


# ---- a file system ----

def mounted(image, device, where, number, note, verdict):
    with open(device, 'r+b') as f:
        f.write(image)
    subprocess.run(['mount', '-t', 'ext4', device, where], check=True)
    try:
        with open(f'{where}/disk.img', 'rb') as f:
            verdict.compare(number, f.read(SPOTS * SPOT), note)
        found = [open(name, encoding='ascii').read() for name in glob.glob(f'{where}/state/*.wp')]
        if found != (['write-protect\n'] if note['protected'] else []):
            verdict.lost += 1
            print(f'mark {number}: write protection {found}, expected {note["protected"]}')
    finally:
        subprocess.run(['umount', where], check=True)


def file(log, notes, device, where):
    verdict = Verdict()
    os.makedirs(where, exist_ok=True)
    for number, image, note in replay(log, notes):
        mounted(image, device, where, number, note, verdict)
    return verdict.status()


def main():
    what, *args = sys.argv[1:]
    if what == 'host':
        return host(*args)
    with open(args[1], encoding='utf-8') as f:
        notes = json.load(f)
    return {'block': block, 'file': file}[what](args[0], notes, *args[2:])


if __name__ == '__main__':
    sys.exit(main())
