# SPDX-License-Identifier: BSD-3-Clause
"""A network namespace of our own: its loopback carries no other traffic, and its congestion control is reno, whatever
the machine uses. bbr paces even the loopback and loses a third to a half of its throughput."""

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys

INSIDE = 'RD_BENCH_NAMESPACE'
CONGESTION = '/proc/sys/net/ipv4/tcp_congestion_control'

SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 1


def _options():
    """The options of unshare(1) that make a network namespace; root needs no user namespace."""
    return ['--net'] if os.geteuid() == 0 else ['--user', '--map-root-user', '--net']


def _possible(options):
    unshare = shutil.which('unshare')
    if not unshare:
        return 'unshare(1) is not installed (Debian: util-linux)'
    res = subprocess.run([unshare, *options, 'true'], capture_output=True, text=True, check=False)
    return None if res.returncode == 0 else res.stderr.strip() or f'exit {res.returncode}'


def enter(argv):
    """Go on as the same command in a namespace of its own. Returns only where that cannot be, with the reason, and
    where it has been done, with None."""
    if os.environ.get(INSIDE):
        os.environ.pop(INSIDE)
        return _set_up()
    options = _options()
    why = _possible(options)
    if why:
        return why
    sys.stdout.flush()
    os.environ[INSIDE] = '1'
    os.execvp('unshare', ['unshare', *options, '--', sys.executable, *argv])
    return None  # not reached


def _set_up():
    try:
        _loopback_up()
        with open(CONGESTION, 'w', encoding='ascii') as f:
            f.write('reno\n')
    except OSError as e:
        return f'the network namespace could not be set up: {e}'
    return None


def _loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack('16sH14x', b'lo', 0)
        flags = struct.unpack('16sH14x', fcntl.ioctl(sock, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack('16sH14x', b'lo', flags | IFF_UP))


def congestion():
    try:
        with open(CONGESTION, encoding='ascii') as f:
            return f.read().strip()
    except OSError:
        return 'unknown'


def free_port():
    """A port that is not in use now: for servers that cannot choose a free port themselves."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.bind(('127.0.0.1', 0))
        return sock.getsockname()[1]
