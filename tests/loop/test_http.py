# SPDX-License-Identifier: BSD-3-Clause
"""The HTTP listener: its answers, which clients it serves, and clients that misbehave."""

import errno
import json
import os
import re
import socket
import subprocess
import sys
import threading

import nvmf_peer as nv
import t_schema
from t_control import Control
from t_http import Http, listening_ports, requires_http, serving, with_http
from t_loop import ADDR6, FABRIC, NQN, Failure, Skip, each, main, program, requires_ipv6, test, wait_for
from t_serving import exercise, host, memory
from t_storage import stall_env, stand_still


def served(t, **kw):
    return serving(t, [memory(t)], **kw)


def last_reload(http):
    """It is logged a moment before it has ended, and a document may be half a second old."""
    return wait_for(lambda: http.status()['last_reload'], 'the end of the reload')


# ---- answers ----

@test
def the_status_document_is_what_its_schema_says(t):
    target, http = serving(t, [memory(t), t.namespace(7, size='4MiB', ana_group=3)],
                           listener={'ana': [{'group': 3, 'state': 'inaccessible'}]})
    before = http.status()
    t_schema.check('http/status', before)
    t.eq((before['schema'], before['state'], before['pid'], before['last_reload']), (1, 'serving', target.pid, None))
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        for _ in range(200):
            nv.expect(queue.write_blocks(1, 0, os.urandom(1024), 512))
        for _ in range(100):
            cqe, _ = queue.read_blocks(1, 0, 2, 512)
            nv.expect(cqe)
        now = wait_for(lambda: (lambda s: s if s['totals']['reads'] == 100 and s['hosts'] else None)(http.status()), 'the reads')
        t_schema.check('http/status', now)
        for io in (now['totals'], now['hosts'][0]['io'], now['namespaces'][0]['io']):
            t.eq((io['reads'], io['writes'], io['read_bytes'], io['written_bytes'], io['failed']),
                 (100, 200, 102400, 204800, 0))
        t.eq(now['namespaces'][1]['io']['reads'], 0, 'reads of another namespace')
        t.eq([(h['hostnqn'], h['connections']) for h in now['hosts']], [(nv.HOST_NQN, 2)])
        ctrl, = now['controllers']
        t.eq((ctrl['nqn'], ctrl['hostnqn'], ctrl['state'], [q['qid'] for q in ctrl['queues']]),
             (NQN, nv.HOST_NQN, 'ready', [0, 1]))
        for op, count in ('read', 100), ('write', 200):
            latency = now['latency'][op]
            t.eq((latency['count'], sum(n for _, n in latency['buckets'])), (count, count), f'latencies of {op}')
            t.eq(sorted(latency['buckets']), latency['buckets'], 'buckets in their order')
            t.ok(0 < latency['p50_ns'] <= latency['p99_ns'] <= latency['p999_ns'] <= latency['buckets'][-1][0],
                 'percentiles')
    t.eq([(n['nsid'], n['backend'], n['ana_group']) for n in now['namespaces']], [(1, 'memory', 1), (7, 'file', 3)])
    listener, = now['listeners']
    t.eq((listener['address'], listener['port'], listener['state'], listener['ana']),
         (target.addr, target.port, 'listening', {'3': 'inaccessible'}))
    target.reload()
    t.eq(last_reload(http)['applied'], True, 'the last reload was applied')


@test
def health_says_whether_it_serves(t):
    target, http = served(t)
    code, _, body = http.get('/healthz')
    t.eq((code, body), (200, b'ok\n'))
    with host(target) as h:
        h.enable()
        with Control(t.path('control.sock')) as c:
            c.post('drain', timeout=600)
            wait_for(lambda: http.get('/healthz')[0] == 503, 'the drain to be seen')
            t.match('^(draining|drained)$', http.get('/healthz')[2].decode().strip())


@each(('page', '/', 'text/html; charset=utf-8'), ('document', '/status.json', 'application/json'),
      ('health', '/healthz', 'text/plain; charset=utf-8'), ('missing', '/nothing', 'text/plain; charset=utf-8'))
def an_answer_has_headers_for_browsers(t, path, kind):
    _, http = served(t)
    _, headers, body = http.get(path)
    t.eq(headers['Content-Type'], kind)
    t.eq({name: headers[name] for name in ('X-Content-Type-Options', 'Referrer-Policy', 'X-Frame-Options',
                                           'Cross-Origin-Resource-Policy', 'Cache-Control', 'Connection')},
         {'X-Content-Type-Options': 'nosniff', 'Referrer-Policy': 'no-referrer', 'X-Frame-Options': 'DENY',
          'Cross-Origin-Resource-Policy': 'same-origin', 'Cache-Control': 'no-store', 'Connection': 'close'})
    t.match("default-src 'none'", headers['Content-Security-Policy'])
    t.ok('unsafe' not in headers['Content-Security-Policy'], 'the policy allows something unsafe')
    t.ok('Access-Control-Allow-Origin' not in headers, 'other sites may read it')
    head = http.get(path, method='HEAD')
    t.eq((head[2], head[1]['Content-Length']), (b'', str(len(body))), 'of HEAD')


@each(('a numeric address', '127.0.0.1', 200), ('with a port', '127.0.0.1:80', 200), ('IPv6', '[::1]:80', 200),
      ('localhost', 'LocalHost', 200), ('a name that is configured', 'Target-7.example:10420', 200),
      ('another name', 'evil.example', 421), ('a name that begins so', 'target-7.example.evil.example', 421),
      ('a name that ends so', 'evil-target-7.example', 421), ('a number too many', '127.0.0.1.evil.example', 421),
      ('no IPv6', '[evil]', 421), ('an open bracket', '[::1', 421), ('no port', '127.0.0.1:x', 421),
      ('user and name', 'localhost@evil.example', 421), ('an empty one', '', 421))
def a_host_header_is_checked(t, name, code):
    """Another site's page could have its name point here (DNS rebinding), and read what is served."""
    _, http = served(t, http={'host_names': ['target-7.example', 'other.example']})
    for path in '/status.json', '/healthz', '/':
        t.eq(http.get(path, Host=name)[0], code, f'{path} by Host {name!r}')


@test
def a_request_without_a_host_is_refused(t):
    _, http = served(t)
    t.eq(http.get('/status.json', Host=None)[0] // 100, 4)
    with socket.create_connection((http.addr, http.port)) as sock:
        sock.sendall(b'GET /status.json HTTP/1.0\r\n\r\n')
        t.match(b'^HTTP/1.. 4', sock.makefile('rb').readline())


@each(*((method, method) for method in ('POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT', 'PATCH')))
def nothing_but_reading_is_allowed(t, method):
    _, http = served(t)
    code, headers, _ = http.get('/status.json', method=method)
    t.ok(400 <= code < 500, f'{method}: {code}')
    t.ok(headers.get('Allow', 'GET, HEAD') == 'GET, HEAD', 'Allow')


@test
def ipv6_is_served(t):
    requires_ipv6()
    target, http = served(t, http={'address': ADDR6})
    t.eq(http.addr, ADDR6)
    t.eq(http.status()['pid'], target.pid)


@test
def there_is_no_listener_without_the_key(t):
    target = t.target([memory(t)])
    t.ok('http:' not in target.text(), 'it says something of HTTP')
    t.eq(listening_ports(target.pid), [target.port] if FABRIC == 'iwarp' else [], 'listening TCP sockets')


# ---- metrics ----

@each(('by default', None, 'text/plain; version=0.0.4'), ('for a browser', 'text/html,*/*;q=0.8', 'text/plain; version=0.0.4'),
      ('for a Prometheus', 'application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,'
       'text/plain;version=0.0.4;q=0.5,*/*;q=0.1', 'application/openmetrics-text; version=1.0.0'),
      ('for one that does not want it', 'application/openmetrics-text;q=0,text/plain', 'text/plain; version=0.0.4'),
      ('for another type that begins so', 'application/openmetrics-textual', 'text/plain; version=0.0.4'))
def metrics_come_in_the_format_that_is_asked_for(t, accept, kind):
    target, http = served(t)
    exercise(target)
    code, headers, body = http.get('/metrics', **({'Accept': accept} if accept else {}))
    text = body.decode()
    t.eq(code, 200)
    t.ok(headers['Content-Type'].startswith(kind), f'Content-Type: {headers["Content-Type"]}')
    t.eq(text.endswith('# EOF\n'), 'openmetrics' in kind, 'the end of OpenMetrics')
    t.match(r'(?m)^rdtarget_\w+\{[^}]*\} \d', text)
    t.eq(sorted({line.split('{')[0].split(' ')[0][:9] for line in text.splitlines() if not line.startswith('#')}), ['rdtarget_'])


@test
def both_formats_are_made_for_clients_that_ask_at_once(t):
    _, http = served(t)
    wrong = []

    def ask(accept):
        for _ in range(10):
            _, headers, body = http.get('/metrics', Accept=accept)
            if not headers['Content-Type'].startswith(accept) or body.endswith(b'# EOF\n') != ('open' in accept):
                wrong.append((accept, headers['Content-Type']))

    threads = [threading.Thread(target=ask, args=(accept,), daemon=True)
               for accept in 2 * ['text/plain', 'application/openmetrics-text']]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    t.eq(wrong, [], 'answers of another format')


# ---- reload ----

def change(t, target, http, expect=r'reloaded'):
    """The section "http" in a configuration of the same rest, and SIGHUP."""
    with open(t.path('rdtarget.yaml'), encoding='utf-8') as f:
        rest = re.sub(r'(?m)^http:.*\n(  port: 0\n)?', '', f.read())
    with open(t.path('next.yaml'), 'w', encoding='utf-8') as f:
        f.write(rest + (f'http: {json.dumps(http)}\n' if http is not None else ''))
    os.replace(t.path('next.yaml'), t.path('rdtarget.yaml'))
    since = target.mark()
    said = target.reload(expect)
    return since, said


def refuses(t, http):
    with socket.socket() as sock:
        t.eq(sock.connect_ex((http.addr, http.port)), errno.ECONNREFUSED, 'connecting to what was closed')


@test
def a_reload_opens_moves_and_closes_it(t):
    requires_http()
    target = t.target(config=with_http(t, [memory(t)]))
    first = Http(target)
    with socket.create_connection((first.addr, first.port)) as idle:
        idle.settimeout(60)
        since, said = change(t, target, {'port': 0, 'address': '127.0.0.2'})
        t.match('1 settings changed', said)
        second = Http(target, since)
        t.eq(second.addr, '127.0.0.2')
        t.eq(idle.recv(1), b'', 'from a connection to the listener that was closed')
    second.status()
    refuses(t, first)
    _, said = change(t, target, {'port': 0, 'address': '127.0.0.2', 'host_names': ['a.example']})
    t.eq(second.get('/healthz', Host='a.example')[0], 200, 'by a name that is new')
    change(t, target, None)
    refuses(t, second)
    since, _ = change(t, target, {'port': 0})
    Http(target, since).status()
    exercise(target)


@test
def a_reload_to_the_same_port_of_another_address_moves_it(t):
    target = t.target(config=with_http(t, [memory(t)]))
    first = Http(target)
    since, _ = change(t, target, {'port': first.port, 'address': '0.0.0.0'})
    t.eq(Http(target, since).port, first.port)
    first.status()


@test
def a_port_that_is_taken_leaves_it_as_it_was(t):
    target = t.target(config=with_http(t, [memory(t)]))
    http = Http(target)
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        taken.listen()
        port = taken.getsockname()[1]
        _, said = change(t, target, {'port': port})
        t.match(rf'http: 127.0.0.1 port {port}: cannot (bind|listen): Address already in use', said)
        http.status()
        t.eq(last_reload(http)['applied'], True, 'the rest was applied')
        t.match('in part', last_reload(http)['summary'])
    since, _ = change(t, target, {'port': port})
    t.eq(Http(target, since).port, port, 'after the port was free')


@test
def storage_is_served_when_the_port_is_taken_at_the_start(t):
    requires_http()
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        taken.listen()
        port = taken.getsockname()[1]
        target = t.target(config=with_http(t, [memory(t)], http={'port': port}))
        t.match(rf'error: .*http: 127.0.0.1 port {port}.*there is no status page until SIGHUP', target.text())
        exercise(target)
    since = target.mark()
    target.reload()
    t.eq(Http(target, since).port, port)


# ---- clients that do not behave ----

def connected(http, count):
    socks = [socket.create_connection((http.addr, http.port)) for _ in range(count)]
    for sock in socks:
        sock.settimeout(60)
    return socks


@test
def clients_that_send_nothing_keep_nobody_out(t):
    """More clients than connections: each new connection ends the oldest."""
    target, http = served(t)
    files = target.open_files()
    stuck = connected(http, 200)
    for n, sock in enumerate(stuck):
        try:
            sock.sendall(b'GET /status.json HTTP/1.1\r\nHost: loc'[:n])
        except OSError:
            pass  # it was ended already
    for _ in range(5):
        http.status()
    t.ok(target.open_files() - files <= 64, f'{target.open_files() - files} connections are open')
    exercise(target)
    for sock in stuck:
        sock.close()
    wait_for(lambda: target.open_files() <= files, 'the connections to be closed')


@test
def clients_that_do_not_read_keep_nobody_out(t):
    target, http = serving(t, [memory(t, n, size='64KiB') for n in range(1, 1001)])
    files = target.open_files()
    stuck = []
    for _ in range(150):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.connect((http.addr, http.port))
        sock.sendall(b'GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n')
        stuck.append(sock)
    for _ in range(5):
        t.eq(http.status()['namespaces_total'], 1000)
    t.ok(target.open_files() - files <= 64, f'{target.open_files() - files} connections are open')
    exercise(target)
    for sock in stuck:
        sock.close()
    wait_for(lambda: target.open_files() <= files, 'the connections to be closed')


@test
def slow_readers_hold_a_bounded_number_of_documents(t):
    """Each of them reads another document, because a new one is made twice a second at most."""
    target, http = serving(t, [memory(t, n, size='64KiB') for n in range(1, 1001)])
    files = target.open_files()
    for n in range(1, 13):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.connect((http.addr, http.port))
        t.cleanup(sock.close)
        sock.sendall(b'GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n')
        t.eq(sock.recv(4), b'HTTP')
        made = http.status()['uptime_seconds']
        wait_for(lambda: http.status()['uptime_seconds'] > made, 'the next document')
        if n == 4:
            wait_for(lambda: target.open_files() - files == 4, 'four connections that read slowly')
    wait_for(lambda: target.open_files() - files <= 8, 'the oldest documents to be dropped')
    t.ok(target.open_files() - files >= 4, 'the others go on')
    exercise(target)


@each(('a line without end', b'GET /' + b'x' * 100000),
      ('headers without end', b'GET / HTTP/1.1\r\nHost: localhost\r\n' + b'X-A: ' + b'b' * 100000),
      ('many headers', b'GET / HTTP/1.1\r\nHost: localhost\r\n' + b'X: y\r\n' * 20000 + b'\r\n'),
      ('no HTTP', b'\0\xff\x16\x03\x01' * 50 + b'\r\n\r\n'),
      ('a body without end', b'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n' + b'z' * 100000),
      ('a body in chunks', b'POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n'
       + b'z' * 100000))
def what_is_too_long_or_no_request_ends_the_connection(t, data):
    target, http = served(t)
    sock, = connected(http, 1)
    with sock:
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # ended while it was sent
        try:
            while sock.recv(65536):
                pass
        except ConnectionError:
            pass
    http.status()
    exercise(target)


@test
def many_clients_at_once_all_get_an_answer_while_hosts_are_served(t):
    target, http = served(t)
    wrong = []

    def ask():
        for n in range(20):
            code = http.get(('/status.json', '/healthz', '/')[n % 3])[0]
            if code != 200:
                wrong.append(code)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        exercise(target)
    for thread in threads:
        thread.join()
    t.eq(wrong, [], 'other answers')


@test
def a_client_that_waits_for_a_document_when_the_target_ends_is_let_go(t):
    target, http = served(t)
    ended = threading.Event()

    def ask():
        while not ended.is_set():
            try:
                http.get('/status.json')
            except (OSError, ValueError, Failure):
                pass
            except Exception:  # pylint: disable=broad-except
                pass  # half an answer

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    http.status()
    target.stop()
    ended.set()
    for thread in threads:
        thread.join()


# ---- what is stalled ----

@test
def a_reactor_that_stands_still_is_named_and_stops_no_answer(t):
    stall = t.path('stall')
    target, http = serving(t, [t.namespace(1, engine='aio')], target={'reactors': 2}, env=stall_env(stall))
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        try:
            stand_still(queue, stall)
            status = wait_for(lambda: (lambda s: s if s['stalled'] else None)(http.status()), 'it to be seen')
            t_schema.check('http/status', status)
            kinds = {s['kind'] for s in status['stalled']}
            t.eq(kinds, {'reactor'})
            silent = [r['reactor'] for r in status['reactors'] if not r['answers']]
            t.eq(len(silent), 1, 'reactors that do not answer')
            t.match(f'^reactor {silent[0]} does not answer', status['stalled'][0]['text'])
            t.ok(status['stalled'][0]['since_seconds'] > 0, 'since when')
            code, _, body = http.get('/healthz')
            t.eq(code, 503)
            t.match(rf'reactor {silent[0]} has not answered for', body.decode())
        finally:
            os.unlink(stall)
        wait_for(lambda: http.get('/healthz')[0] == 200, 'the reactor to answer again')
        t.eq(http.status()['stalled'], [])


@test
def a_listener_that_waits_for_its_address_is_shown(t):
    if FABRIC != 'iwarp':
        raise Skip('with an RDMA device it is another error')
    _, http = serving(t, [memory(t)], listeners=[{}, {'address': '192.0.2.1'}])
    stalled, = http.status()['stalled']
    t.eq(stalled['kind'], 'listener')
    t.match(r'^listener 192.0.2.1 port 0 waits for its address: ', stalled['text'])
    t.ok(stalled['since_seconds'] >= 0, 'since when')


@test
def a_command_that_is_not_answered_is_shown(t):
    target, http = serving(t, [memory(t, layers=[{'type': 'delay', 'read': '1h'}])])
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        queue.post_io(nv.NVM_READ, 1, 0, bytes(512), 512)
        stalled, = wait_for(lambda: http.status()['stalled'], 'it to be seen')
        t.eq(stalled['kind'], 'io')
        t.match(f'^{NQN} namespace 1: the oldest of 1 commands in flight has no answer yet$', stalled['text'])
        t.ok(stalled['since_seconds'] >= 2, 'since when')
        t.eq(http.get('/healthz')[0], 200, 'storage that is slow is no fault of the target')


# ---- names that hosts choose ----

@each(('markup', '"><script>alert(1)</script>&lt;', '"><script>alert(1)</script>&lt;'),
      ('bytes that are not UTF-8', b'\xff\xc0bad\x80', '??bad?'), ('half a character', b'a\xe2\x82', 'a??'), ('a line and an escape', 'a\n\x1b[31mb', 'a\n\x1b[31mb'))
def a_hosts_name_is_text(t, name, shown):
    """A host whose name is not UTF-8 must not be missing in the list."""
    target, http = served(t)
    with host(target, hostnqn=name) as h:
        h.enable()
        ctrl, = http.status()['controllers']
        t.eq(ctrl['hostnqn'], shown)
        with Control(t.path('control.sock')) as c:
            t.eq([one['hostnqn'] for one in c.call('host.list')['hosts']], [shown], 'by the control socket')
            t.eq([one['hostnqn'] for one in c.call('stats.get', hosts=True)['hosts']], [shown], 'by stats.get')
        http.get('/metrics')[2].decode()  # UTF-8, or nothing would be scraped


# ---- configuration ----

@each(('an address that is none', {'address': 'localhost'}, 'http.address: found "localhost", expected a numeric'),
      ('a port that is none', {'port': 70000}, 'http.port'),
      ('a name with a port', {'host_names': ['a:1']}, r'http.host_names\[0\]: found "a:1", expected the name'),
      ('a name that is empty', {'host_names': ['']}, r'http.host_names\[0\]: '),
      ('an unknown key', {'tls': True}, 'http.tls: unknown key'))
def a_mistake_is_reported(t, http, says):
    requires_http()
    path = t.file('bad.yaml', f'http: {json.dumps(http)}\n'.encode())
    res = subprocess.run([program('rdtarget'), '--check', path], capture_output=True, text=True, check=False)
    t.eq(res.returncode, 1, 'exit status')
    t.match(says, res.stderr)


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp',)))
