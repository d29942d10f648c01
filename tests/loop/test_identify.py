# SPDX-License-Identifier: BSD-3-Clause
"""Identify, log pages and features of a running daemon, by the offsets of the specification."""

import os
import struct
import sys
import time

import nvmf_peer as nv
from t_loop import NQN, main, test
from t_serving import host

NO_WRITE_PROTECT, WRITE_PROTECT, UNTIL_POWER_CYCLE, PERMANENT = range(4)
NOT_CHANGEABLE, NOT_SAVEABLE, NOT_PER_NS, COMBINATION = 0x10E, 0x10D, 0x10F, 0x12B
WP = 0x84


def u16(page, at):
    return struct.unpack_from('<H', page, at)[0]


def u32(page, at):
    return struct.unpack_from('<I', page, at)[0]


def u64(page, at):
    return struct.unpack_from('<Q', page, at)[0]


def identify(h, cns, nsid=0, **kw):
    cqe, page = h.admin.identify(cns, nsid, **kw)
    nv.expect(cqe)
    return page


def log(h, lid, length, **kw):
    cqe, page = h.admin.get_log(lid, length, **kw)
    nv.expect(cqe)
    return page


def feature(h, fid, *, nsid=0, sel=0, cdw11=0):
    return h.admin.call(nv.sqe(nv.GET_FEATURES, h.admin.next_cid(), nsid=nsid, cdw10=fid | sel << 8,
                               cdw11=cdw11))


def set_feature(h, fid, value, *, nsid=0, save=False):
    return h.admin.call(nv.sqe(nv.SET_FEATURES, h.admin.next_cid(), nsid=nsid,
                               cdw10=fid | (1 << 31 if save else 0), cdw11=value))


@test
def the_controller_tells_what_a_host_needs(t):
    target = t.target([t.namespace(1), t.namespace(9, backend='memory')],
                      target={'max_data_size': '256KiB'})
    with host(target) as h:
        h.enable()
        page = identify(h, 1)
        t.eq(nv.expect(h.admin.property_get(nv.VS)).dw0, 0x00020000, 'VS')
        t.eq(u32(page, 80), 0x00020000, 'VER')
        t.eq(page[76] & 0xB, 0xB, 'CMIC: ports, controllers, ANA')
        t.eq(1 << page[77], 64, 'MDTS')
        t.eq(u32(page, 92), 1 << 8 | 1 << 11, 'OAES')
        t.eq(u32(page, 96) & 0x41, 0x41, 'CTRATT: long Host Identifier, TBKAS')
        t.eq(page[111], 1, 'CNTRLTYPE')
        t.eq(page[261] & 0x26, 0x26, 'LPA: effects, long offsets, pages 00h and 12h')
        t.ok(u16(page, 320) > 0, 'KAS')
        t.eq(u32(page, 344), u32(page, 348), 'ANAGRPMAX and NANAGRPID')
        t.ok(page[342] > 0, 'ANATT')
        nn, mnan = u32(page, 516), u32(page, 540)
        t.ok(9 <= mnan <= nn, f'NN {nn}, MNAN {mnan}')
        # Linux reads the whole ANA page in one command.
        t.ok(16 + 32 * u32(page, 348) + 4 * mnan <= 4096 << page[77], 'the ANA log page fits MDTS')
        # CAP.CSS says that command sets are listed, so the list must exist.
        t.eq(u64(identify(h, 0x1C | 0xFFFF << 16), 0), 1, 'command sets')


@test
def namespaces_and_their_lists(t):
    nguid = '0123456789abcdef0123456789abcdef'
    target = t.target([t.namespace(1, size='8MiB', nguid=nguid, ana_group=3),
                       t.namespace(4, backend='memory', eui64='0011223344556677')])
    with host(target) as h:
        h.enable()
        page = identify(h, 0, 1)
        t.eq((u64(page, 0), u64(page, 8)), (16384, 16384), 'NSZE and NCAP')
        t.eq(page[30] & 1, 1, 'NMIC')
        t.eq(u32(page, 92), 3, 'ANAGRPID')
        t.eq(page[104:120].hex(), nguid, 'NGUID')
        t.eq(identify(h, 0x11, 1), page, 'the allocated namespace')
        t.eq(u32(identify(h, 8, 1), 4), 3, 'ANAGRPID of CNS 08h')
        t.eq(identify(h, 0, 4)[120:128].hex(), '0011223344556677', 'EUI64')
        t.ok(not any(identify(h, 0, 2)), 'an inactive namespace is all zeroes')
        for cns in (2, 7, 0x10):
            t.eq(struct.unpack_from('<3I', identify(h, cns, 0)), (1, 4, 0), f'list {cns:#x}')
            t.eq(struct.unpack_from('<2I', identify(h, cns, 1)), (4, 0), f'list {cns:#x} after 1')
        desc = identify(h, 3, 1)
        t.eq(desc[4:20].hex(), nguid, 'NGUID descriptor')
        t.eq(desc[24:40] != bytes(16), True, 'UUID descriptor')
        t.eq(tuple(desc[40:46]), (4, 1, 0, 0, 0, 0), 'command set descriptor and the end')
        t.eq(u16(identify(h, 0x13), 0), 1, 'controllers')
        t.eq(u16(identify(h, 0x12, 1), 2), h.cntlid, 'the controller of namespace 1')
        for cns in (4, 0x14, 0x15, 0x16, 0x17, 0x60):
            nv.expect(h.admin.identify(cns, 1)[0], nv.INVALID_FIELD)
        nv.expect(h.admin.identify(5, 1, cdw11=2 << 24)[0], nv.INVALID_FIELD)  # zoned


@test
def a_host_that_changes_write_protection_all_the_time_does_not_fill_the_log(t):
    target = t.target([t.namespace(backend='memory')], target={'state_dir': t.path('state')})
    with host(target) as h:
        h.enable()
        began = time.monotonic()
        for n in range(80):
            nv.expect(set_feature(h, WP, n % 2, nsid=1))
        windows = 2 + (time.monotonic() - began) // 5  # with 10 lines each
        lines = target.text().count('write protection is')
        t.ok(0 < lines <= 10 * windows, f'{lines} lines')


@test
def supported_pages_and_features_are_what_is_answered(t):
    target = t.target([t.namespace(backend='memory')], target={'state_dir': t.path('state')})
    for nqn in (NQN, nv.DISCOVERY_NQN):
        with host(target, nqn) as h:
            h.enable()
            pages = struct.unpack('<256I', log(h, 0, 1024))
            fids = struct.unpack('<256I', log(h, 0x12, 1024))
            t.ok(sum(p & 1 for p in pages) >= (10 if nqn == NQN else 6), f'{sum(p & 1 for p in pages)} log pages')
            for i in range(256):
                got = h.admin.get_log(i, 4)[0].status
                t.eq(got != nv.INVALID_LOG_PAGE, bool(pages[i] & 1), f'{nqn}: log page {i:#x}: {got:#x}')
                got = feature(h, i, sel=3).status
                t.eq(got == 0, bool(fids[i] & 1), f'{nqn}: feature {i:#x}: {got:#x}')


@test
def the_effects_log_says_what_changes_data(t):
    target = t.target([t.namespace(backend='memory')])
    with host(target) as h:
        h.enable()
        page = log(h, 5, 4096)
        acs, iocs = struct.unpack_from('<256I', page), struct.unpack_from('<256I', page, 1024)
        t.eq([op for op in range(256) if iocs[op] & 2],
             [op for op in (1, 4, 8, 9, 0x19) if iocs[op] & 1], 'commands that change blocks')
        t.ok(all(iocs[op] & 1 for op in (0, 1, 2)), 'mandatory commands')
        t.ok(all(acs[op] & 1 for op in (2, 6, 8, 9, 10, 12, 0x18)), 'admin commands')
        for value in iocs:
            t.eq(value & ~3, 0, 'bits of which Linux warns')


@test
def windows_of_log_pages(t):
    target = t.target([t.namespace(backend='memory')])
    with host(target) as h:
        h.enable()
        whole = log(h, 5, 4096)
        t.same(b''.join(log(h, 5, 512, offset=at) for at in range(0, 4096, 512)), whole)
        for bad in ({'offset': 2}, {'offset': 4100}):
            nv.expect(h.admin.get_log(5, 4, **bad)[0], nv.INVALID_FIELD)
        nv.expect(h.admin.get_log(2, 512, nsid=1)[0], nv.INVALID_FIELD)
        index = h.admin.data_in(nv.GET_LOG, 4, cdw10=5, cdw14=1 << 23)[0]
        nv.expect(index, nv.INVALID_FIELD)
        # A failed command is the newest entry of the error log.
        cqe = h.admin.identify(0x60)[0]
        entry = log(h, 1, 64)
        t.eq(u16(entry, 10), cqe.cid, 'command')
        t.eq(u16(entry, 12) >> 1 & 0x7FF, nv.INVALID_FIELD, 'status')
        t.eq(u16(entry, 14), 40, 'parameter error location')


@test
def smart_counts_what_was_moved(t):
    target = t.target([t.namespace(backend='memory')])
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        for i in range(40):
            nv.expect(queue.write_blocks(1, i * 64, os.urandom(64 * 512)))
        for i in range(20):
            nv.expect(queue.read_blocks(1, i * 64, 64)[0])
        page = log(h, 2, 512)
        t.eq(u16(page, 1), 0, 'composite temperature: none')
        t.eq(u64(page, 48), 3, 'data units written')  # 2560 blocks, in thousands, rounded up
        t.eq(u64(page, 32), 2, 'data units read')
        t.eq((u64(page, 64), u64(page, 80)), (20, 40), 'commands')
        nv.expect(queue.read_blocks(1, 1 << 40, 1)[0], nv.LBA_RANGE)
        t.eq(u64(log(h, 2, 512), 176), 1, 'error log entries')


@test
def features_of_the_controller(t):
    target = t.target([t.namespace(backend='memory')])
    with host(target) as h:
        h.enable()
        cqe, hostid = h.admin.data_in(nv.GET_FEATURES, 16, cdw10=0x81, cdw11=1)
        nv.expect(cqe)
        t.eq(hostid, bytes(range(16)), 'Host Identifier')
        nv.expect(h.admin.data_out(nv.SET_FEATURES, hostid, cdw10=0x81, cdw11=1), nv.SEQUENCE_ERROR)
        now = int(time.time() * 1000)
        nv.expect(h.admin.data_out(nv.SET_FEATURES, struct.pack('<Q', now), cdw10=0x0E))
        cqe, stamp = h.admin.data_in(nv.GET_FEATURES, 8, cdw10=0x0E)
        nv.expect(cqe)
        t.ok(now <= u64(stamp, 0) & (1 << 48) - 1 < now + 60000, f'timestamp {u64(stamp, 0):#x}')
        t.eq(stamp[6], 2, 'origin of the timestamp')
        nv.expect(h.admin.data_out(nv.SET_FEATURES, b'\1' + bytes(511), cdw10=0x16))
        t.eq(h.admin.data_in(nv.GET_FEATURES, 512, cdw10=0x16)[1][0], 1, 'ACRE')
        nv.expect(set_feature(h, 0x0F, 12345))
        t.eq(feature(h, 0x0F).dw0, 12400, 'KATO is rounded up to KAS')
        nv.expect(set_feature(h, 0x0B, 1 << 9), nv.INVALID_FIELD)  # firmware activation
        nv.expect(set_feature(h, 0x0B, 1 << 8, save=True), NOT_SAVEABLE)
        nv.expect(set_feature(h, 0x0B, 1 << 8, nsid=1), NOT_PER_NS)
        nv.expect(set_feature(h, 0x19, 3), COMBINATION)
        for fid in (0, 3, 0x0C, 0x0D, 0x10, 0x11, 0x7F, 0x80, WP):  # nowhere to keep WP
            nv.expect(feature(h, fid), nv.INVALID_FIELD)


def write_protect(h, state, **kw):
    return set_feature(h, WP, state, nsid=1, **kw)


def is_protected(t, target):
    """By the results of writes, with which the feature and Identify must agree."""
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        status = queue.write_blocks(1, 0, bytes(512)).status
        t.ok(status in (nv.SUCCESS, nv.WRITE_PROTECTED), f'status {status:#x}')
        nv.expect(queue.read_blocks(1, 0, 1)[0])
        protected = status == nv.WRITE_PROTECTED
        t.eq(bool(nv.expect(feature(h, WP, nsid=1)).dw0), protected, 'feature 84h')
        t.eq(identify(h, 0, 1)[99] & 1, int(protected), 'NSATTR')
        return protected


@test
def write_protection_outlives_what_it_has_to(t):
    def settings(write_protect):
        return t.config([t.namespace()], target={'state_dir': t.path('state')},
                        subsystem={'write_protect': write_protect})

    config = settings('all')

    def restart(target, how):
        getattr(target, how)()
        return t.target(config=config)

    target = t.target(config=config)
    with host(target) as h:
        h.enable()
        t.eq(identify(h, 1)[531], 7, 'NWPC')
        nv.expect(set_feature(h, 0x0B, 1 << 8))
        aer = h.admin.next_cid()
        h.admin.post(nv.sqe(nv.AER, aer))
        nv.expect(write_protect(h, WRITE_PROTECT))
        t.eq(nv.expect(h.admin.wait(aer)).dw0, 0x00040002, 'event')
        t.eq(struct.unpack_from('<2I', log(h, 4, 4096)), (1, 0), 'changed namespaces')
        nv.expect(write_protect(h, 5), nv.INVALID_FIELD)
        nv.expect(write_protect(h, WRITE_PROTECT, save=True), NOT_SAVEABLE)
    t.ok(is_protected(t, target), 'not protected')
    target = restart(target, 'stop')
    t.ok(is_protected(t, target), 'not protected after a restart')
    target = restart(target, 'kill')
    t.ok(is_protected(t, target), 'not protected after kill -9')
    with host(target) as h:
        h.enable()
        nv.expect(write_protect(h, NO_WRITE_PROTECT))
        t.ok(not is_protected(t, target), 'still protected')
        nv.expect(write_protect(h, UNTIL_POWER_CYCLE))
        nv.expect(write_protect(h, UNTIL_POWER_CYCLE))
        nv.expect(write_protect(h, NO_WRITE_PROTECT), NOT_CHANGEABLE)
    t.ok(is_protected(t, target), 'not protected until the power cycle')
    target = restart(target, 'stop')
    t.ok(not is_protected(t, target), 'protected after the power cycle')
    with host(target) as h:
        h.enable()
        nv.expect(write_protect(h, PERMANENT))
    target = restart(target, 'kill')
    t.ok(is_protected(t, target), 'not protected for ever')
    with host(target) as h:
        h.enable()
        nv.expect(write_protect(h, NO_WRITE_PROTECT), NOT_CHANGEABLE)
    # Another setting undoes nothing.
    settings('off')
    target.reload('reloaded: 1 changes that need a restart$')
    target.expect('write_protect: a change needs a restart; the old value stays')
    target = restart(target, 'stop')
    with host(target) as h:
        h.enable()
        t.eq(identify(h, 1)[531], 0, 'NWPC')
        nv.expect(feature(h, WP, nsid=1), nv.INVALID_FIELD)
        nv.expect(h.add_io().write_blocks(1, 0, bytes(512)), nv.WRITE_PROTECTED)


@test
def permanent_write_protection_is_not_the_default(t):
    target = t.target([t.namespace()], target={'state_dir': t.path('state')})
    with host(target) as h:
        h.enable()
        t.eq(identify(h, 1)[531], 3, 'NWPC')
        nv.expect(write_protect(h, PERMANENT), nv.INVALID_FIELD)
        t.ok(not is_protected(t, target), 'protected')
        nv.expect(write_protect(h, UNTIL_POWER_CYCLE))
        t.ok(is_protected(t, target), 'not protected')


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp',)))
