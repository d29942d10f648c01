# SPDX-License-Identifier: BSD-3-Clause
"""What rdinit tells can be relied on: a URI opens what it was printed for, and no list ends early."""

import json
import sys
import urllib.parse

from t_loop import NQN, main, test

# Each is a legal NQN; decoded or cut at the wrong place it is that of a neighbour.
NAMES = [f'{NQN}:{name}' for name in
         ('db-1', 'db%2D1', 'db%252D1', 'pool/vol1', 'pool', 'a?no-remote-invalidate', 'a', 'a#b', 'a,b', 'ä€', '[x]')]


@test
def a_listed_uri_opens_the_namespace_it_was_listed_for(t):
    target = t.target(subsystems=[
        {'nqn': nqn, 'allow_any_host': True, 'namespaces': [t.namespace(1, backend='memory', size=f'{i + 1}MiB')]}
        for i, nqn in enumerate(NAMES)])
    rows = json.loads(t.rdinit('list', target.uri(None, None), '-o', 'json').text)['Devices']
    t.eq(len(rows), len(NAMES), 'namespaces')
    found = {}
    for row in rows:
        uri = row['DevicePath']
        found[urllib.parse.unquote(uri.split('/')[3])] = row['MaximumLBA']
        size = json.loads(t.rdinit('id-ns', uri, '-o', 'json').text)['nsze']
        t.eq(size, row['MaximumLBA'], f'blocks of {uri}')
        t.ok(uri in t.rdinit('list', uri.rsplit('/', 1)[0]).text.split(), f'{uri} is printed by the table as well')
    t.eq(found, {nqn: (i + 1) * 2048 for i, nqn in enumerate(NAMES)}, 'sizes')


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp',)))
