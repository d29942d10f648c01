# SPDX-License-Identifier: BSD-3-Clause
"""The HTTP listener of rdtarget as a client of it sees it."""

import http.client
import json
import os
import subprocess

from t_control import with_socket
from t_loop import BUILT_WITH, DEADLINE, lacks, program


def requires_http():
    res = subprocess.run([program('rdtarget'), '--check', '/dev/stdin'], input='http: {}\n', text=True,
                         capture_output=True, check=False)
    if 'built without libmicrohttpd' in res.stderr:
        raise lacks(BUILT_WITH['libmicrohttpd'])


def with_http(t, namespaces=None, *, http=None, name='rdtarget.yaml', **kw):
    """A configuration with a control socket and an HTTP listener at a port of the kernel's choice; returns its path."""
    requires_http()
    config, _ = with_socket(t, namespaces, name, more={'http': {'port': 0, **(http or {})}}, **kw)
    return config


def listening_ports(pid):
    """The TCP ports of IPv4 on which a process listens."""
    sockets = set()
    for fd in os.listdir(f'/proc/{pid}/fd'):
        try:
            sockets.add(os.readlink(f'/proc/{pid}/fd/{fd}'))
        except FileNotFoundError:
            pass
    with open('/proc/net/tcp', encoding='ascii') as f:
        rows = [line.split() for line in list(f)[1:]]
    return [int(row[1].split(':')[1], 16) for row in rows if row[3] == '0A' and f'socket:[{row[9]}]' in sockets]


class Http:
    """What a target says of its listener, and requests to that."""

    def __init__(self, target, since=0):
        found = target.expect(r'http: status page at (http://(\S+):(\d+)/)$', since=since)
        self.url, self.addr, self.port = found[1], found[2].strip('[]'), int(found[3])

    def get(self, path, *, method='GET', timeout=DEADLINE, **headers):
        """(status, headers, body); a header of None is not sent."""
        headers = {name.replace('_', '-'): value for name, value in headers.items()}
        c = http.client.HTTPConnection(self.addr, self.port, timeout=timeout)
        try:
            c.putrequest(method, path, skip_host='Host' in headers, skip_accept_encoding=True)
            for name, value in headers.items():
                if value is not None:
                    c.putheader(name, value)
            c.endheaders()
            answer = c.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            c.close()

    def status(self):
        """The status document."""
        code, _, body = self.get('/status.json')
        if code != 200:
            raise AssertionError(f'/status.json: {code} {body}')
        return json.loads(body)


def serving(t, namespaces=None, *, env=None, **kw):
    """A target with an HTTP listener, and that."""
    target = t.target(config=with_http(t, namespaces, **kw), env=env)
    return target, Http(target)
