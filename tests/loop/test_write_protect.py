# SPDX-License-Identifier: BSD-3-Clause
"""Write protection by feature 84h: what outlives a restart, and which states are offered."""

import struct
import sys
import time

import nvmf_peer as nv
from t_loop import main, test
from t_serving import host

NO_WRITE_PROTECT, WRITE_PROTECT, UNTIL_POWER_CYCLE, PERMANENT = range(4)
NOT_CHANGEABLE, NOT_SAVEABLE = 0x10E, 0x10D
WP = 0x84


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
def a_host_that_changes_write_protection_all_the_time_does_not_fill_the_log(t):
    target = t.target([t.namespace(backend='memory')], target={'state_dir': t.path('state')})
    with host(target) as h:
        h.enable()
        began = time.monotonic()
        for n in range(80):
            nv.expect(set_feature(h, WP, n % 2, nsid=1))
        windows = 2 + (time.monotonic() - began) // 5  # with 10 lines each
        lines = target.text().count('write protection changed to')
        t.ok(0 < lines <= 10 * windows, f'{lines} lines')


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
    target.reload('reloaded: 1 change that needs a restart$')
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
    sys.exit(main())
