# SPDX-License-Identifier: BSD-3-Clause
"""configs/monitoring: the alert rules and the dashboard ask for metrics that there are, and a Prometheus that scrapes a
target under load answers them."""

import base64
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

import nvmf_peer as nv
from t_control import Control, controlled
from t_http import listening_ports, serving
from t_loop import SOURCE_ROOT, main, program, requires_program, test, wait_for
from t_serving import host, memory

FOLDER = os.path.join(SOURCE_ROOT, 'configs', 'monitoring')
RULES = os.path.join(FOLDER, 'rdtarget.rules.yml')
RULES_TEST = os.path.join(FOLDER, 'rdtarget.rules.test.yml')
DASHBOARD = os.path.join(FOLDER, 'rdtarget-dashboard.json')


def text_of(path):
    with open(path, encoding='utf-8') as f:
        return f.read()


def alerts():
    return set(re.findall(r'(?m)^ +- alert: (\w+)$', text_of(RULES)))


def dashboard_queries():
    """{title: [expressions]}, as Grafana would send them with everything selected."""
    def filled(expr):
        for name, value in (('$instance', '.*'), ('$subsystem', '.*'), ('$__rate_interval', '1m')):
            expr = expr.replace(name, value)
        return expr
    return {panel['title']: [filled(target['expr']) for target in panel['targets']]
            for panel in json.loads(text_of(DASHBOARD))['panels']}


def promtool(t, *args):
    res = subprocess.run([requires_program('promtool'), *args], capture_output=True, text=True, check=False)
    t.eq(res.returncode, 0, f'exit status of promtool {" ".join(args)}\n{res.stdout}{res.stderr}')


@test
def promtool_accepts_the_alert_rules_and_the_scrape_configuration(t):
    promtool(t, 'check', 'rules', RULES)
    promtool(t, 'check', 'config', os.path.join(FOLDER, 'prometheus.yml'))


@test
def the_alerts_pass_their_unit_tests(t):
    promtool(t, 'test', 'rules', RULES_TEST)
    t.ok(len(alerts()) > 5, f'alerts: {alerts()}')
    tested = set(re.findall(r'alertname: (\w+)\n +exp_alerts:\n', text_of(RULES_TEST)))
    t.eq(alerts(), tested, 'alerts that fire in a unit test')


@test
def the_dashboard_is_whole(t):
    board = json.loads(text_of(DASHBOARD))
    numbers = [panel['id'] for panel in board['panels']]
    t.eq(len(numbers), len(set(numbers)), 'numbers of panels')
    names = {variable['name'] for variable in board['templating']['list']}
    used = set(re.findall(r'\$\{?(\w+)\}?', json.dumps(board['panels']))) - {'__rate_interval'}
    t.eq(used - names, set(), 'variables that are not defined')
    cells = set()
    for panel in board['panels']:
        pos = panel['gridPos']
        area = {(pos['x'] + x, pos['y'] + y) for x in range(pos['w']) for y in range(pos['h'])}
        t.ok(not area & cells and pos['x'] + pos['w'] <= 24, f'{panel["title"]} lies over another panel')
        cells |= area


@test
def metrics_that_are_asked_for_exist(t):
    target, path = controlled(t, [memory(t)])
    with Control(path) as c, host(target) as h:
        h.enable()
        queue = h.add_io()
        nv.expect(queue.write_blocks(1, 0, bytes(4096)))
        given = set(re.findall(r'(?m)^(?:# TYPE )?(rdtarget_\w+)', c.call('metrics.get')['text']))
    asked = set(re.findall(r'\brdtarget_[a-z_]+\b', text_of(RULES) + text_of(DASHBOARD)))
    t.ok(len(asked) > 15, f'asked for: {asked}')
    t.eq(asked - given, set(), 'metrics that do not exist')


@test
def the_document_has_all_metrics(t):
    target, path = controlled(t, [memory(t)])
    with Control(path) as c:
        text = c.call('metrics.get')['text']
    tool = [sys.executable, os.path.join(SOURCE_ROOT, 'tools', 'metrics-docs'), '--check']
    for given, says in ((text, ''), (text.replace('# TYPE rdtarget_hosts gauge\n', ''), 'metrics-docs'), ('', 'no metrics')):
        res = subprocess.run(tool, input=given, capture_output=True, text=True, check=False)
        t.match(says, res.stderr)
        t.eq(res.returncode, 1 if says else 0, f'exit status; {res.stderr}')


# ---- a real Prometheus ----

class Prometheus:
    """One that scrapes an HTTP listener of rdtarget."""

    def __init__(self, t, port):
        prometheus = requires_program('prometheus')
        config = t.file('prometheus.yml', json.dumps({
            'global': {'scrape_interval': '500ms', 'scrape_timeout': '500ms', 'evaluation_interval': '500ms'},
            'rule_files': [RULES],
            'scrape_configs': [{'job_name': 'rdtarget', 'static_configs': [{'targets': [f'127.0.0.1:{port}']}]}],
        }).encode())
        self.proc = t.spawn('prometheus', [prometheus, f'--config.file={config}', '--web.listen-address=127.0.0.1:0',
                                           f'--storage.tsdb.path={t.path("tsdb")}'])
        self.port, = wait_for(lambda: listening_ports(self.proc.pid), 'Prometheus to listen')

    def get(self, path, **params):
        url = f'http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(params)}'
        try:
            with urllib.request.urlopen(url) as answer:
                return json.load(answer)['data']
        except urllib.error.HTTPError as e:
            if e.code == 503:  # it is starting
                return None
            raise AssertionError(f'{params}: {e.read().decode()}') from None

    def values(self, expr):
        data = self.get('query', query=expr)
        return [float(series['value'][1]) for series in data['result']] if data else []


@test
def a_prometheus_that_scrapes_a_busy_target_answers_all_queries(t):
    target, http = serving(t, [memory(t)])
    prometheus = Prometheus(t, http.port)
    t.spawn('bench', [program('rdinit'), 'bench', target.uri(), '--run-time', '600s', '--rw', 'randrw', '--dataloss',
                      '--depth', '4', '--no-progress'])
    wait_for(lambda: sum(prometheus.values('sum(rate(rdtarget_io_completed_total[1m]))')) > 0, 'a rate of commands')
    for title, queries in dashboard_queries().items():
        for query in queries:
            wait_for(lambda q=query: prometheus.values(q), f'an answer to {title}: {query}')
    low, = prometheus.values('histogram_quantile(0.5, sum by (le) (rate(rdtarget_io_duration_seconds_bucket[1m])))')
    t.ok(low > 0, f'the median of the latency: {low}')
    wait_for(lambda: prometheus.values('up') == [1], 'a scrape that succeeded')

    def evaluated():
        found = [rule for group in prometheus.get('rules')['groups'] for rule in group['rules']]
        return found if all(rule['health'] != 'unknown' for rule in found) else None
    found = wait_for(evaluated, 'the rules to be evaluated')
    t.eq({rule['name']: rule['health'] for rule in found}, {name: 'ok' for name in alerts()})
    t.eq([rule['name'] for rule in found if rule['state'] == 'firing'], [], 'alerts of a target that is well')


# ---- a real proxy ----

# What nginx needs around a server; the folders are those that it makes at its start.
NGINX = '''daemon off; master_process off; pid {dir}/pid; error_log stderr notice;
events {{}}
http {{ access_log off; client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
{server} }}'''


def serve_by_nginx(t, http):
    """The shipped server with a certificate and a password, for a target's page. Returns its port and what trusts it."""
    nginx, openssl = requires_program('nginx'), requires_program('openssl')
    with socket.create_server(('127.0.0.1', 0)) as s:
        port = s.getsockname()[1]
    server = text_of(os.path.join(FOLDER, 'nginx.conf'))
    for old, new in (('listen 443', f'listen 127.0.0.1:{port}'), ('127.0.0.1:10420', f'127.0.0.1:{http.port}'),
                     ('/etc/ssl/certs/storage1.pem', t.path('cert.pem')),
                     ('/etc/ssl/private/storage1.key', t.path('key.pem')),
                     ('_file /etc/nginx/rdtarget.users', f'_file {t.path("users")}')):
        t.ok(old in server, f'{old} is in the sample')
        server = server.replace(old, new)
    subprocess.run([openssl, 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=storage1.example.org',
                    '-keyout', t.path('key.pem'), '-out', t.path('cert.pem')], check=True, capture_output=True)
    t.file('users', b'monitor:{PLAIN}secret\n')
    config = t.file('nginx.conf', NGINX.format(dir=t.dir, server=server).encode())
    proxy = t.spawn('nginx', [nginx, '-e', 'stderr', '-c', config])
    wait_for(lambda: port in listening_ports(proxy.pid), 'nginx to listen')
    trust = ssl.create_default_context(cafile=t.path('cert.pem'))
    trust.check_hostname = False
    return port, trust


@test
def the_shipped_proxy_asks_for_a_password(t):
    _, http = serving(t, [memory(t)])
    port, trust = serve_by_nginx(t, http)

    def get(path, **headers):
        request = urllib.request.Request(f'https://127.0.0.1:{port}{path}', headers=headers)
        try:
            with urllib.request.urlopen(request, context=trust) as answer:
                return answer.status
        except urllib.error.HTTPError as e:
            return e.code
    password = {'Authorization': 'Basic ' + base64.b64encode(b'monitor:secret').decode()}
    for path in ('/', '/metrics', '/status.json'):
        t.eq((get(path), get(path, **password)), (401, 200), f'{path} without a password, and with it')


if __name__ == '__main__':
    sys.exit(main())
