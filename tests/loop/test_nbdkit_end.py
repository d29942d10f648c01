# SPDX-License-Identifier: BSD-3-Clause
"""The end of nbdkit with the rdinit plugin by SIGTERM, in each state of the device and whatever clients wait for: it ends by
itself and well, and no thread outlives the plugin. With AddressSanitizer, which is preloaded, its end is that of the unload."""

import os
import re
import signal
import socket
import sys
import threading

import iwarp_peer as iw
from t_loop import ADDR, DEADLINE, NQN, Failure, each, main, wait_for
from t_nbdkit import Client, serving, with_unload

SIZE = 16 << 20
NOT_CONNECTED = 'not connected: the client has disconnected, or nbdkit is ending'


def ends_well(t, proc, library=0):
    """@library: threads of librdinit that are left. It stays in memory, for name resolution cannot be ended."""
    t.eq(proc.wait(), 0, f'exit status of nbdkit\n{proc.text()}')
    t.ok('ERROR: ' not in proc.text() and 'runtime error' not in proc.text(), f'what a sanitizer found\n{proc.text()}')
    found = re.search(r'(?m)^unloaded: (\d+) threads of the plugin, (\d+) of librdinit$', proc.text())
    t.ok(found, f'the plugin was not unloaded\n{proc.text()}')
    t.eq((int(found[1]), int(found[2])), (0, library), 'threads of the plugin and of librdinit at its unload')


class Opening:
    """A client that waits until the plugin has opened the device."""

    def __init__(self, path):
        self.thread = threading.Thread(target=self._run, args=(path,))
        self.thread.start()

    @staticmethod
    def _run(path):
        try:
            Client(path)
        except (Failure, OSError):
            pass  # nbdkit ends before it has told what the disk is


# ---- no client has its disk yet ----

@each(('with no client', False), ('while a name is resolved', True))
def nbdkit_ends_before_it_connects(t, resolves):
    held = t.file('resolve', b'')
    proc, path = serving(t, f'nvme+rdma://target.invalid/{NQN}/1', env=with_unload({'RESOLVE': held}))
    client = Opening(path) if resolves else None
    if resolves:
        wait_for(lambda: os.path.exists(held + '.in'), 'the resolution to begin')
    proc.signal(signal.SIGTERM)
    ends_well(t, proc, library=int(resolves))
    if resolves:
        client.thread.join()
        t.match(NOT_CONNECTED, proc.text(), 'not a timeout')


REPLY = iw.mpa_frame(iw.REP_KEY, bytes(32))


@each(('silent', b''), ('garbled', b'MPA ID Rep Frame'), ('another server', b'HTTP/1.1 400 Bad Request\r\n\r\n'),
      ('cut off in its reply', REPLY[:20]), ('nonsense behind its reply', REPLY + bytes(range(256))))
def nbdkit_ends_while_it_connects_to_a_target_that_is(t, answer):
    with socket.create_server((ADDR, 0)) as listener:
        listener.settimeout(DEADLINE)
        proc, path = serving(t, f'nvme+rdma://{ADDR}:{listener.getsockname()[1]}/{NQN}/1', env=with_unload())
        client = Opening(path)
        peer = listener.accept()[0]
        peer.settimeout(DEADLINE)
        peer.recv(1)
        peer.sendall(answer)
        proc.signal(signal.SIGTERM)
        ends_well(t, proc)
        client.thread.join()
        peer.close()


# ---- a client has its disk ----

def read_once(client):
    client.send_read()
    client.read(16 + 512)


def idle(t, target, client):
    read_once(client)


def with_io_in_flight(t, target, client):
    read_once(client)
    for n in range(64):
        client.send_read(n << 16, 1 << 16)


def waiting_for_a_path(t, target, client):
    read_once(client)
    target.kill()
    client.send_read()


def at_a_frozen_target(t, target, client):
    read_once(client)
    target.signal(signal.SIGSTOP)
    t.cleanup(target.signal, signal.SIGCONT)
    client.send_read()


def with_a_failed_device(t, target, client):
    read_once(client)
    target.kill()
    client.send_read()
    client.read(16)  # the error, when ctrl-loss-tmo is over
    client.send_read()
    client.read(16)


@each(*((state.__name__.replace('_', ' '), state) for state in
        (idle, with_io_in_flight, waiting_for_a_path, at_a_frozen_target, with_a_failed_device)))
def nbdkit_ends(t, state):
    """With a client that stays until it has its answer. nbdkit does not close its clients then."""
    target = t.target([t.namespace(size=SIZE)])
    lost = 'ctrl-loss-tmo=1' if state is with_a_failed_device else 'ctrl-loss-tmo=-1'
    proc, path = serving(t, target.uri(), lost, 'keep-alive-tmo=1', env=with_unload())
    client = Client(path)
    state(t, target, client)
    proc.signal(signal.SIGTERM)
    if state in (waiting_for_a_path, at_a_frozen_target):
        client.read(16)
    if state is with_io_in_flight:  # nbdkit 1.32 aborts when a client has gone to which it sends
        client.read_to_end()
    client.close()
    ends_well(t, proc)
    if state is idle:  # the disk was closed, with all that belongs to it, before the plugin was unloaded
        target.expect(r'shutting-down -> shut-down')


if __name__ == '__main__':
    sys.exit(main())
