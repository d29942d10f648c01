# SPDX-License-Identifier: BSD-3-Clause
"""The control socket as a client sees it: JSON-RPC 2.0, one object a line."""

import json
import os
import socket

from t_loop import DEADLINE, Failure


class Refused(Exception):
    """An error in the daemon's answer."""

    def __init__(self, error):
        super().__init__(error['message'])
        self.code, self.message, self.data = error['code'], error['message'], error['data']
        self.name = self.data['name']


def refused(t, name, fn, *args, **kw):
    """The call must fail with this name of an error. Returns the Refused."""
    try:
        fn(*args, **kw)
    except Refused as e:
        t.eq(e.name, name, f'name of the error "{e.message}"')
        return e
    raise Failure(f'it was not refused with {name}')


class Control:
    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)  # without a timeout: with one, a full backlog is an error
        self.sock.settimeout(DEADLINE)
        self.file = self.sock.makefile('rb')
        self.ids = 0

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        self.file.close()
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data if isinstance(data, bytes) else json.dumps(data).encode() + b'\n')

    def post(self, method, **params):
        self.ids += 1
        self.send({'jsonrpc': '2.0', 'id': self.ids, 'method': method, 'params': params})
        return self.ids

    def answer(self):
        """The next line; None if the daemon closed the connection."""
        line = self.file.readline()
        return json.loads(line) if line else None

    def call(self, method, **params):
        number = self.post(method, **params)
        answer = self.answer()
        if answer is None or answer['jsonrpc'] != '2.0' or answer['id'] != number:
            raise AssertionError(f'{method}: answered {answer}')
        if 'error' in answer:
            raise Refused(answer['error'])
        return answer['result']


def with_socket(t, namespaces=None, name='rdtarget.yaml', *, control=None, more=None, **kw):
    """A configuration with a control socket in the test's directory. It is complete from the beginning, because it may
    be read at any time. Returns (configuration, socket)."""
    path = t.path('control.sock')
    config = t.config(namespaces, name=f'{name}.new',
                      more={**(more or {}), 'control': {'socket': path, **(control or {})}}, **kw)
    os.replace(config, t.path(name))
    return t.path(name), path


def controlled(t, namespaces=None, **kw):
    """A target with a control socket, and the path of the socket."""
    config, path = with_socket(t, namespaces, **kw)
    return t.target(config=config), path
