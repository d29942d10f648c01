# SPDX-License-Identifier: BSD-3-Clause
"""Attacks with connections that never become a host's association."""

import iwarp_peer as iw
from attack_lib import DRAIN, HOLD, addresses, attack, mpa


def silent(peer):
    """A TCP connection without a byte."""
    peer.arrived()
    yield HOLD


def slow_request(peer):
    """Half an MPA request."""
    peer.send(iw.REQ_KEY)
    yield HOLD


def mpa_only(peer):
    """A queue pair at the target without a Connect."""
    yield from mpa(peer, depth=32)
    yield DRAIN


@attack('half-open sockets, one address', sizes=(256, 1200), small=300, busy=True)
def half_open(crowd, size):
    """An attacker whose connection is closed reconnects at once."""
    crowd.open(size, slow_request, sources=addresses(1), again=True, wait=False)


@attack('half-open sockets, many addresses', sizes=(256, 1200), small=300, busy=True)
def half_open_everywhere(crowd, size):
    crowd.open(size, slow_request, sources=addresses(64), again=True, wait=False)


@attack('MPA handshakes without a Connect', sizes=(1355,), small=200, busy=True)
def only_mpa(crowd, size):
    crowd.open(size, mpa_only, sources=addresses(1), again=True)
