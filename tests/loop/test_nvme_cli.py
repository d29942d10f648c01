# SPDX-License-Identifier: BSD-3-Clause
"""rdinit and nvme-cli on the same bytes: the same text, the same bits and the same JSON.

nvme-cli 2.13 reads a folder of pages instead of a device (nvmepage.c); rdinit reads them from a target in Python."""

import functools
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys

import nvmf_peer as nv
import t_schema
from t_loop import SOURCE_ROOT, Failure, Skip, each, main, program

VERSION = '2.13'  # the one whose names rdinit has


@functools.lru_cache
def find_nvme_cli():
    """The command of nvme-cli 2.13: this machine's, else that of a root of Debian 13, with its own libraries; or the reason
    why there is none."""
    path = os.environ.get('PATH', '') + ':/usr/sbin'
    own = shutil.which('nvme', path=path)
    if own and f'nvme version {VERSION} ' in subprocess.run([own, 'version'], capture_output=True, text=True, check=False).stdout:
        return [own], ''
    res = subprocess.run([f'{SOURCE_ROOT}/tests/vm/tls_root'], capture_output=True, text=True, check=False)
    if res.returncode:
        return [], f'needs nvme-cli {VERSION}, which Debian 13 has: {res.stdout.strip()}'
    root = res.stdout.strip().splitlines()[-1]
    return [f'{root}/lib64/ld-linux-x86-64.so.2', '--library-path', f'{root}/usr/lib/x86_64-linux-gnu', f'{root}/usr/sbin/nvme'], ''


def nvme_cli():
    command, reason = find_nvme_cli()
    if not command:
        raise Skip(reason)
    return command


class Pages(nv.FakeTarget):
    """Answers admin commands from pages: (opcode, lowest byte of CDW10) -> bytes, or the result."""
    pages = {}

    def on_command(self, queue, cmd):
        page = self.pages.get((cmd.opcode, cmd.cdw10 & 0xFF)) if queue.qid == 0 and cmd.opcode != nv.FABRICS else None
        if page is None:
            super().on_command(queue, cmd)
        elif isinstance(page, int):
            self.respond(queue, cmd, result=page)
        else:
            offset = cmd.cdw12 if cmd.opcode == nv.GET_LOG else 0
            self.put(queue, cmd, page[offset:offset + cmd.length].ljust(cmd.length, b'\0'))

    def do_property_get(self, queue, cmd):
        value = self.pages.get((nv.FABRICS, struct.unpack_from('<I', cmd.raw, 44)[0]))
        cc = getattr(self, 'cc', 0)
        if value is None or not cc & 1 or cc >> 14 & 3:  # before the host enables the controller, and when it shuts it down
            return super().do_property_get(queue, cmd)
        return self.respond(queue, cmd, result=value)


def outputs(t, pages, verb, where, args):
    """The output of nvme-cli and of rdinit."""
    folder = t.path('pages')
    os.makedirs(folder, exist_ok=True)
    for (opcode, number), page in pages.items():
        with open(f'{folder}/{opcode:02x}-{number:02x}', 'wb') as f:
            f.write(page.to_bytes(8, 'little') if isinstance(page, int) else page)
    target = Pages()
    try:
        target.pages = pages
        ours = t.run([program('rdinit'), verb, f'nvme+rdma://{target.addr}:{target.port}/{target.subnqn}{where}', *args])
    finally:
        target.close()
    env = {'PATH': os.environ.get('PATH', ''), 'LC_ALL': 'C.UTF-8', 'LD_PRELOAD': os.environ['NVMEPAGE'], 'PAGES': folder}
    theirs = subprocess.run([*nvme_cli(), verb, '/dev/null', *(['-n', '1'] if where else []), *args], check=False,
                            capture_output=True, env=env)
    if theirs.returncode or ours.rc:
        raise Failure(f'{verb}: nvme-cli {theirs.returncode}, rdinit {ours.rc}: {theirs.stderr.decode()}{ours.err}')
    return theirs.stdout.decode(errors='replace'), ours.text.replace(f'{target.addr}:{target.port}', 'null')


# ---- pages ----

def filled(kind, size=4096):
    if kind in (0, 0xFF):
        return bytearray([kind]) * size
    return bytearray(random.Random(kind).randbytes(size))


def controller(kind):
    """A page of the controller's, whose connection works, without bits that nvme-cli 2.13 shows wrongly: reserved
    ones that it masks without a shift, values that have no text, and more power states than the page has room for."""
    fake = nv.FakeTarget()
    good = fake.identify_ctrl()
    fake.close()
    page = filled(kind)
    for at, end in ((4, 72), (77, 84), (111, 112), (320, 322), (512, 520), (525, 526), (536, 540), (768, 1024), (1792, 1806)):
        page[at:end] = good[at:end]
    for at, mask in ((102, 0xFD), (253, 0x03), (263, 0x1F), (254, 0x7E), (255, 0x03), (522, 0x01), (523, 0)):
        page[at] &= mask
    for at in range(2048, 3072, 32):
        page[at + 7] &= 0x7F  # ENLAT and EXLAT are signed in nvme-cli
        page[at + 11] &= 0x7F
    return bytes(page)


def namespace(kind):
    """A page of an active namespace, which says that all its fields are in use."""
    page = filled(kind)
    page[8] |= 1  # NCAP
    page[24] |= 0x30  # NSFEAT.OPTPERF
    page[25], page[82] = page[25] & 0x3F, 0  # at most 64 formats, for which there is room
    for at in range(128, 384, 4):
        page[at + 2], page[at + 3] = 9 + page[at + 2] % 22, page[at + 3] & 3  # LBADS, RP
    return bytes(page)


def independent(kind):
    page = filled(kind)
    page[23] &= 0x7F  # RGRPID is signed in the JSON of nvme-cli
    return bytes(page)


def formats(kind):
    page = filled(kind)
    page[271] &= 0x7F  # NPDGL, likewise
    return bytes(page)


def effects(kind):
    """nvme-cli leaves the heading of an empty list out, and the last of the commands that are not of a vendor, and of all."""
    page = filled(kind)
    page[0] |= 1
    page[1024] |= 1
    for opcode in 0xBF, 0xFF, 0x17F, 0x1FF:
        page[4 * opcode] &= 0xFE
    return bytes(page)


def smart(kind):
    page = filled(kind, 512)
    page[38:48] = page[54:64] = bytes(10)  # data units: nvme-cli rounds large ones otherwise
    return bytes(page)


def descriptors(kind):
    value = bytes(filled(kind))
    return (b'\1\x08\0\0' + value[:8] + b'\2\x10\0\0' + value[8:24] + b'\3\x10\0\0' + value[24:40] + b'\4\1\0\0' +
            value[40:41]).ljust(4096, b'\0')


def ana(kind):
    return struct.pack('<QH6x' + 2 * 'IIQB15xII', 9, 2, 1, 2, 5, 1 + kind % 4, 1, 7, 2, 2, 6, 0xF, 8, 300).ljust(4096, b'\0')


# Verb, opcode and number of its page, namespace, outputs, page. Text that is not compared: error-log and
# fid-support-effects-log, which docs/nvme-cli.md describes.
TEXT, BITS, JSON = [], ['--human-readable'], ['--output-format=json']
VERBS = (
    ('id-ctrl', nv.IDENTIFY, 1, '', (TEXT, BITS, JSON), controller),
    ('id-ns', nv.IDENTIFY, 0, '/1', (TEXT, BITS, JSON), namespace),
    ('cmdset-ind-id-ns', nv.IDENTIFY, 8, '/1', (TEXT, BITS, JSON), independent),
    ('nvm-id-ctrl', nv.IDENTIFY, 6, '', (TEXT, JSON), filled),
    ('nvm-id-ns', nv.IDENTIFY, 5, '/1', (TEXT, JSON), formats),
    ('ns-descs', nv.IDENTIFY, 3, '/1', (TEXT, JSON), descriptors),
    ('list-ns', nv.IDENTIFY, 2, '', (TEXT, JSON), lambda kind: struct.pack('<3I', 1, 7, 256 + kind).ljust(4096, b'\0')),
    ('list-ctrl', nv.IDENTIFY, 0x13, '', (TEXT, JSON), lambda kind: struct.pack('<4H', 3, 1, 7, 256 + kind).ljust(4096, b'\0')),
    ('supported-log-pages', nv.GET_LOG, 0, '', (TEXT, JSON), filled),
    ('error-log', nv.GET_LOG, 1, '', ([*JSON, '-e', '4'],), filled),
    ('smart-log', nv.GET_LOG, 2, '', (TEXT, BITS, JSON), smart),
    ('fw-log', nv.GET_LOG, 3, '', (TEXT, JSON), filled),
    ('changed-ns-list-log', nv.GET_LOG, 4, '', (TEXT, JSON), lambda kind: b'\7\0\0\0' + filled(kind)[4:]),
    ('effects-log', nv.GET_LOG, 5, '', (TEXT, JSON), effects),
    ('endurance-log', nv.GET_LOG, 9, '', (['-g', '1'], [*JSON, '-g', '1']), lambda kind: filled(kind, 512)),
    ('ana-log', nv.GET_LOG, 0xC, '', (TEXT, JSON), ana),
    ('fid-support-effects-log', nv.GET_LOG, 0x12, '', (JSON,), filled),
    ('mi-cmd-support-effects-log', nv.GET_LOG, 0x13, '', (TEXT, JSON), filled),
    ('resv-notif-log', nv.GET_LOG, 0x80, '', (TEXT, JSON), filled),
)

# Lines of one alone, for the reasons in docs/nvme-cli.md.
THEIRS = {
    'changed-ns-list-log': 'no ns changed',
    'effects-log': 'NVM Command Set Log Page|-+$|Vendor Specific',
    'id-ctrl': r'\[127:0\]|(Total|Unallocated) NVM Capacity|(ps|rwt|active_power_workload|emergency|forced)\b|\[7:2\]: 0 Reserved',
}
OURS = {'id-ns': r'uuid:'}
ORDER = {'nvm-id-ns'}  # rdinit has the list of formats at the end
ALONE = {'id-ns': {'uuid', 'vs'}}


def lines(text, without):
    """The lines, with one blank between words, and none before a colon."""
    text = [re.sub(r':? +:', ':', ' '.join(line.split())) for line in text.splitlines()]
    text = [re.sub(r'\b0x0\b', '0', line).replace('0x00000000', '00000000') for line in text]
    text = [re.sub(' (Total|Maximum|Current) size in logical blocks$', '', line) for line in text]
    return [line for line in text if line and not (without and re.match(without, line))]


CAP = 0x20 << 32 | 15 << 24 | 1 << 16 | 127  # with the NVM command set


def pages_of(opcode, number, page, kind):
    """The page, and those that the verbs read besides: Identify, and CAP, which says that there is the NVM command set."""
    identify = bytearray(controller(kind))
    if number != 1:
        struct.pack_into('<II', identify, 344, 8, 8)  # ANAGRPMAX, NANAGRPID
        struct.pack_into('<I', identify, 516, 1024)  # NN
        identify[540:544] = bytes(4)  # MNAN
    return {(nv.IDENTIFY, 0): namespace(kind), (nv.IDENTIFY, 1): bytes(identify), (nv.FABRICS, nv.CAP): CAP,
            (opcode, number): bytes(page(kind))}


def same_lines(t, ours, theirs, what):
    t.eq(([line for line in ours if line not in theirs], [line for line in theirs if line not in ours]), ([], []),
         f'lines of rdinit alone and of nvme-cli alone: {what}')
    t.eq(ours, theirs, f'the order of {what}')


@each(*((row[0], *row) for row in VERBS))
def the_same_as_nvme_cli(t, verb, opcode, number, where, forms, page):
    for kind in (0, 0xFF, 45):
        pages = pages_of(opcode, number, page, kind)
        for args in forms:
            theirs, ours = outputs(t, pages, verb, where, args)
            if JSON[0] in args:
                theirs, ours = json.loads(theirs), json.loads(ours)
                t_schema.check(verb, ours)
                if isinstance(ours, list):
                    theirs, ours = {'list': theirs}, {'list': ours}
                keys = {**theirs, **ours}.keys() - ALONE.get(verb, set())
                t.eq({key: (theirs.get(key), ours.get(key)) for key in keys
                      if (key in theirs, theirs.get(key)) != (key in ours, ours.get(key))}, {}, f'JSON of {verb}, bytes {kind:#x}')
                continue
            theirs, ours = lines(theirs, THEIRS.get(verb)), lines(ours, OURS.get(verb))
            if verb in ORDER:
                ours, theirs = sorted(ours), sorted(theirs)
            same_lines(t, ours, theirs, f'{verb} {args}, bytes {kind:#x}')


FEATURES = (1, 2, 4, 5, 6, 7, 0xA, 0xB, 0xF, 0x82, 0x83, 0x84)


@each(*((f'{fid:#04x}', fid) for fid in FEATURES))
def bits_of_features_are_the_same(t, fid):
    for value in (0, 0xFFFFFFFF, 3 if fid == 0x84 else 0x00530143):
        pages = {(nv.GET_FEATURES, fid): value}
        theirs, ours = outputs(t, pages, 'get-feature', '/1', ['-f', str(fid), '-H'])
        same_lines(t, lines(ours.replace('current value', 'Current value'), None), lines(theirs, None), f'value {value:#x}')


@each(('CAP', 0, CAP | 0x3F0F7010 << 32 | 1 << 17), ('VS', 8, 0x20100), ('CC', 0x14, 0x01467871), ('CSTS', 0x1C, 0x75),
      ('NSSR', 0x20, 0x4E564D65), ('CRTO', 0x68, 0x00140028))
def bits_of_properties_are_the_same(t, offset, more):
    for value in {CAP if offset == nv.CAP else offset == nv.CSTS, more}:
        pages = {(nv.FABRICS, at): 1 if at == nv.CSTS else 0 for at in (8, 0x14, 0x1C, 0x20)}
        pages = {**pages, (nv.FABRICS, nv.CAP): CAP, (nv.FABRICS, offset): int(value)}
        theirs, ours = outputs(t, pages, 'get-property', '', [f'--offset={offset:#x}', '-H'])
        heading = r'(Controller (Capabilities|Configuration|Status|Ready Timeouts)|Version|NVM Subsystem Reset): '
        same_lines(t, lines(ours, 'property:'), lines(theirs, heading), f'value {value:#x}')
        if offset == 0x68:
            continue  # nvme-cli shows it for controllers of PCIe alone
        theirs, ours = outputs(t, pages, 'show-regs', '', ['-H'])
        same_lines(t, lines(ours, 'crto|CR.MT'), lines(theirs, None), f'value {value:#x} of show-regs')


if __name__ == '__main__':
    sys.exit(main())
