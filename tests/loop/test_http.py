# SPDX-License-Identifier: BSD-3-Clause
"""The HTTP listener: its answers, which clients it serves, and clients that misbehave."""

import contextlib
import errno
import json
import os
import re
import resource
import socket
import subprocess
import sys
import threading

import nvmf_peer as nv
import t_schema
from t_control import Control
from t_http import Http, listening_ports, requires_http, serving, with_http
from t_loop import ADDR6, DEADLINE, FABRIC, LONG, NQN, Skip, each, main, program, requires_ipv6, test, wait_for
from t_serving import exercise, host, memory


def served(t, **kw):
    return serving(t, [memory(t)], **kw)


def last_reload(http):
    """It is logged a moment before it has ended, and a document may be half a second old."""
    return wait_for(lambda: http.status()['last_reload'], 'the end of the reload')


# ---- answers ----

@test
def without_descriptors_clients_wait(t):
    """The main loop does not try again and again; other clients are served, and those that wait when there are some."""
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    target = t.target(config=with_http(t, [memory(t)]), preexec_fn=few)
    http = Http(target)
    with contextlib.ExitStack() as crowd:
        for _ in range(80):
            crowd.enter_context(socket.create_connection((target.addr, target.port)))
        target.expect(r'accept: all 64 file descriptors are in use')
        waiting = socket.create_connection((http.addr, http.port))
        t.cleanup(waiting.close)
        waiting.sendall(b'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
        target.expect('http: cannot accept a client: Too many open files; trying again in 1 s')
    waiting.settimeout(DEADLINE)
    t.match('^HTTP/1.1 200 OK', waiting.recv(4096).decode(), 'the answer')


@test
def the_status_document_is_what_its_schema_says(t):
    target, http = serving(t, [memory(t), t.namespace(7, size='4MiB', ana_group=3)],
                           listener={'ana': [{'group': 3, 'state': 'inaccessible'}]})
    before = http.status()
    t_schema.check('http/status', before)
    t.eq((before['schema'], before['state'], before['pid'], before['last_reload']), (2, 'serving', target.pid, None))
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
        # Seconds end after the commands.
        wait_for(lambda: (lambda h: sum(h['reads']) == 100 and sum(h['writes']) == 200)(http.status()['history']), 'the history')
        history = http.status()['history']
        t.eq((sum(history['read_bytes']), sum(history['written_bytes']), sum(history['failed'])), (102400, 204800, 0), 'the history')
        t.ok(history['p50_ns'][-1] and sum(history['latency_ns']) == sum(now['totals'][f'{op}_ns'] for op in ('read', 'write', 'others')),
             'latencies in the history')
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
    t.eq(sorted({line.split('{')[0].split(' ')[0][:9] for line in text.splitlines() if not line.startswith('#')}), ['process_c', 'process_m', 'process_o', 'process_r', 'process_s', 'process_t', 'process_v', 'rdtarget_'])


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
        t.match('1 setting changed', said)
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
def storage_is_served_when_the_port_is_taken_at_the_start(t):
    requires_http()
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        taken.listen()
        port = taken.getsockname()[1]
        target = t.target(config=with_http(t, [memory(t)], http={'port': port}))
        t.match(rf'error: .*http: 127.0.0.1 port {port}.*trying again every second', target.text())
        exercise(target)
        since = target.mark()
        taken.close()
        target.expect('status page at', since=since)
    t.eq(Http(target, since).port, port)


# ---- clients that do not behave ----

@test
def clients_that_do_not_read_keep_nobody_out(t):
    """Not even when all places are taken before the document is there: the oldest ones go, and not only when all of them
    have been idle for too long. The document is larger than what the kernel takes."""
    target, http = serving(t, [memory(t, n, size='64KiB' if n == 1 else '4KiB') for n in range(1, 4001)])
    files = target.open_files()
    stuck = []
    for _ in range(80):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.connect((http.addr, http.port))
        sock.sendall(b'GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n')
        stuck.append(sock)
    for _ in range(2):
        t.eq(http.status()['namespaces_total'], 4000)
        t.ok(target.open_files() - files >= 32, f'only {target.open_files() - files} of those that do not read are left')
    t.ok(target.open_files() - files <= 64, f'{target.open_files() - files} connections are open')
    exercise(target)
    for sock in stuck:
        sock.close()
    if LONG:  # after the time that an idle connection may have
        wait_for(lambda: target.open_files() <= files, 'the connections to be closed')


@each(('few', 1), ('as many as use the memory of a connection', 500), ('more', 1000))
def arguments_are_ignored(t, count):
    _, http = served(t)
    t.eq(http.get('/healthz?' + '&'.join(f'a{n}=1' for n in range(count)))[0], 200, 'status')


def answer_to(http, head):
    """The status of the answer to these bytes; None: the connection was closed without one."""
    with socket.create_connection((http.addr, http.port), DEADLINE) as sock:
        try:
            sock.sendall(head)
            text = sock.makefile('rb').readline()
        except ConnectionError:
            return None
    return int(text.split()[1]) if text else None


@test
def a_request_of_any_size_is_answered(t):
    """However many headers or bytes: there is no size at which the connection is closed without an answer."""
    _, http = served(t)
    for count in (20, *range(60, 1600, 4), 3000):
        head = b'GET /healthz HTTP/1.1\r\nHost: localhost\r\n' + b''.join(b'a%d: 1\r\n' % n for n in range(count)) + b'\r\n'
        t.eq(answer_to(http, head), 200 if count < 100 else 431, f'{count} headers')
    for size in (1000, *range(7000, 34000, 60), 100000):
        long = b'x' * size
        t.ok(answer_to(http, b'GET /' + long + b' HTTP/1.1\r\nHost: localhost\r\n\r\n') in (404, 414, 431), f'a path of {size} bytes')
        t.ok(answer_to(http, b'GET /healthz HTTP/1.1\r\nHost: localhost\r\na: ' + long + b'\r\n\r\n') in (200, 431),
             f'a header of {size} bytes')
    t.eq(http.get('/healthz')[0], 200, 'status')


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


# ---- problems ----

@test
def a_listener_that_cannot_listen_is_shown(t):
    if FABRIC != 'iwarp':
        raise Skip('with an RDMA device it is another error')
    _, http = serving(t, [memory(t)], listeners=[{}, {'address': '192.0.2.1'}])
    problem, = http.status()['problems']
    t.eq(problem['kind'], 'listener')
    t.match(r'^cannot listen on 192.0.2.1 port 0: ', problem['text'])
    t.ok(problem['since_seconds'] >= 0, 'since when')


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
    sys.exit(main())
