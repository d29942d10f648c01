# SPDX-License-Identifier: BSD-3-Clause
"""Admin commands whose answers depend on all namespaces, subsystems or controllers, sent without a pause to a target with
the largest configuration."""

import itertools
import os
import struct

import iwarp_peer as iw
import nvmf_peer as nv
from attack_hosts import enable, name
from attack_lib import DRAIN, addresses, associate, attack, message
from t_loop import NQN

NAMESPACES = 16384
SUBSYSTEMS = 1000
GROUPS = 64
IDLE = 2000  # controllers, for lists of controllers
DEPTH = 28   # commands in flight on each connection
KEY = 0x200
ALL = 0xFFFFFFFF
GOOD = [nv.HOST_NQN, 'nqn.2024-01.test:good', 'nqn.2024-01.test:rival']

ACTIVE_LIST, CTRL_LIST = 0x02, 0x13
ANA_LOG, DISCOVERY_LOG, SUPPORTED_LOG = 0x0C, 0x70, 0x00
ERROR_RECOVERY = 0x05
UNUSED_CQE = 40       # bytes of a completion on the wire
FOUR_BYTES = 24 + 40  # and of one with four bytes of data


def namespaces(hidden):
    """Namespace 1 for all hosts; of the others, @hidden: only for hosts that do not attack."""
    first = {'nsid': 1, 'backend': 'memory', 'size': '16MiB'}
    rest = [{'nsid': n, 'backend': 'null', 'size': '1MiB', 'ana_group': 1 + n % GROUPS,
             **({'hosts': GOOD} if hidden else {})} for n in range(2, NAMESPACES + 1)]
    return {'subsystems': [{'nqn': NQN, 'allow_any_host': True, 'namespaces': [first, *rest]}]}


def subsystems(_t):
    first = {'nqn': NQN, 'allow_any_host': True, 'namespaces': [{'nsid': 1, 'backend': 'memory', 'size': '16MiB'}]}
    rest = [{'nqn': f'nqn.2024-01.test:subsystem-{n}', 'allow_any_host': True,
             'namespaces': [{'nsid': 1, 'backend': 'null', 'size': '1MiB'}]} for n in range(1, SUBSYSTEMS)]
    return {'subsystems': [first, *rest]}


def all_seen(_t):
    return namespaces(False)


def most_hidden(_t):
    return namespaces(True)


def get_log(lid, size=4):
    numd = size // 4 - 1

    def capsule(cid):
        return nv.sqe(nv.GET_LOG, cid, cdw10=lid | (numd & 0xFFFF) << 16, cdw11=numd >> 16, sgl=nv.keyed_sgl(0, size, KEY))
    return capsule


def identify(cns):
    def capsule(cid):
        return nv.sqe(nv.IDENTIFY, cid, cdw10=cns, sgl=nv.keyed_sgl(0, 4096, KEY))
    return capsule


def set_feature(fid):
    def capsule(cid):
        return nv.sqe(nv.SET_FEATURES, cid, nsid=ALL, cdw10=fid, cdw11=0)
    return capsule


def in_flight(peer, n, capsule, nqn, answer):
    """DEPTH commands, and one more for each answer; of @answer bytes, or None: that varies."""
    nv.expect((yield from associate(peer, nqn=nqn, hostnqn=name(n), depth=32)))
    yield from enable(peer)
    peer.arrived()
    for cid in range(DEPTH):
        peer.capsule(capsule(cid))
    for cid in itertools.cycle(range(DEPTH)):
        if answer:
            yield answer
        else:
            yield from message(peer)
        peer.capsule(capsule(cid))


def flood(crowd, size, capsule, nqn=NQN, answer=None):
    """From few hosts at one address. The processors of other machines are theirs."""
    os.nice(19)
    numbers = itertools.count()
    crowd.open(size, lambda peer: in_flight(peer, next(numbers) % 8, capsule, nqn, answer))


@attack('ANA log, four bytes', sizes=(4, 60), small=4, busy=True, config=all_seen)
def ana_log(crowd, size):
    flood(crowd, size, get_log(ANA_LOG), answer=FOUR_BYTES)


@attack('ANA log, four bytes, most namespaces hidden', sizes=(4, 60), small=4, busy=True, config=most_hidden)
def hidden_ana_log(crowd, size):
    flood(crowd, size, get_log(ANA_LOG), answer=FOUR_BYTES)


@attack('ANA log, 64 KiB', sizes=(4, 60), small=4, busy=True, config=all_seen)
def whole_ana_log(crowd, size):
    flood(crowd, size, get_log(ANA_LOG, 65536))


@attack('discovery log, four bytes', sizes=(4, 60), small=4, busy=True, config=subsystems)
def discovery_log(crowd, size):
    flood(crowd, size, get_log(DISCOVERY_LOG), nqn=nv.DISCOVERY_NQN, answer=FOUR_BYTES)


@attack('discovery log, 1 MiB', sizes=(4, 60), small=4, busy=True, config=subsystems)
def whole_discovery_log(crowd, size):
    flood(crowd, size, get_log(DISCOVERY_LOG, 1 << 20), nqn=nv.DISCOVERY_NQN)


@attack('supported log pages, four bytes', sizes=(60,), small=4, busy=True)
def supported_log(crowd, size):
    flood(crowd, size, get_log(SUPPORTED_LOG), answer=FOUR_BYTES)


@attack('Identify, active namespaces', sizes=(4, 60), small=4, busy=True, config=all_seen)
def active_list(crowd, size):
    flood(crowd, size, identify(ACTIVE_LIST))


@attack('Identify, active namespaces, most hidden', sizes=(4, 60), small=4, busy=True, config=most_hidden)
def hidden_active_list(crowd, size):
    flood(crowd, size, identify(ACTIVE_LIST))


EXTENTS = 8192
GET_LBA_STATUS, ALLOCATED = 0x86, 2


def many_extents(t):
    """Namespace 2 is a file in which each second page is allocated."""
    path = t.path('extents.img')
    with open(path, 'wb') as f:
        f.truncate(EXTENTS * 8192)
        for n in range(EXTENTS):
            os.pwrite(f.fileno(), b'\1' * 4096, n * 8192)
    return {'subsystems': [{'nqn': NQN, 'allow_any_host': True, 'namespaces': [
        {'nsid': 1, 'backend': 'memory', 'size': '16MiB'}, {'nsid': 2, 'backend': 'file', 'path': path}]}]}


def lba_status(cid):
    return nv.sqe(GET_LBA_STATUS, cid, nsid=2, cdw12=65536 // 4 - 1, cdw13=ALLOCATED << 24,
                  sgl=nv.keyed_sgl(0, 65536, KEY))


@attack('Get LBA Status of a file with many extents', sizes=(4, 60), small=4, busy=True, config=many_extents)
def allocated(crowd, size):
    flood(crowd, size, lba_status)


def idle_controller(peer, n):
    nv.expect((yield from associate(peer, hostnqn=name(8 + n % 100), hostid=struct.pack('<IIII', n, 0, 0, 1))))
    yield DRAIN


@attack('Identify, controllers', sizes=(4, 60), small=4, busy=True)
def controller_list(crowd, size):
    numbers = itertools.count()
    idle = IDLE if size > 4 else 100
    crowd.open(idle, lambda peer: idle_controller(peer, next(numbers)), sources=addresses(4), seconds=240)
    flood(crowd, size, identify(CTRL_LIST))


@attack('Set Features for all namespaces', sizes=(4, 60), small=4, busy=True, config=all_seen)
def features_of_all(crowd, size):
    flood(crowd, size, set_feature(ERROR_RECOVERY), answer=UNUSED_CQE)


def come_and_go(peer, numbers):
    try:
        nv.expect((yield from associate(peer, hostnqn=name(next(numbers) % 1000))))
    except iw.PeerError:
        pass
    peer.arrived()


@attack('Connects, most namespaces hidden', sizes=(4, 60), small=4, busy=True, config=most_hidden)
def connects(crowd, size):
    """Each makes a controller, for which all namespaces count, and ends it."""
    os.nice(19)
    numbers = itertools.count()
    crowd.open(size, lambda peer: come_and_go(peer, numbers), again=True)
