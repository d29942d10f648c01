# SPDX-License-Identifier: BSD-3-Clause
"""The counters of namespaces, hosts, listeners and reactors, by stats.get and as metrics."""

import os
import re
import subprocess
import sys

import nvmf_peer as nv
from t_control import Control, controlled, refused, with_socket
from t_loop import NQN, each, main, requires_program, scaled, test, wait_for
from t_serving import has_ended, host, memory
from t_storage import post_write, stall_env, stand_still

OTHER_HOST = 'nqn.2024-01.test:other'


def stats_of(c, **params):
    return c.call('stats.get', namespaces=True, hosts=True, **params)


def metrics_of(c, **params):
    """{(name, labels): value} of the metrics; labels as they are written."""
    samples = {}
    for line in c.call('metrics.get', **params)['text'].splitlines():
        if not line.startswith('#'):
            series, value = line.rsplit(' ', 1)
            samples[series] = float(value)
    return samples


def ns_series(name, nsid=1, **labels):
    more = ''.join(f',{key}="{value}"' for key, value in labels.items())
    return f'rdtarget_{name}{{subsystem="{NQN}",nsid="{nsid}"{more}}}'


@test
def commands_are_counted_for_namespace_host_listener_and_reactor(t):
    target, path = controlled(t, [memory(t), memory(t, 2)], target={'reactors': 2})
    with Control(path) as c, host(target) as h, host(target, hostnqn=OTHER_HOST) as other:
        h.enable()
        other.enable()
        queue, second = h.add_io(), other.add_io()
        for _ in range(3):
            nv.expect(queue.write_blocks(1, 0, bytes(4096)))
        nv.expect(queue.read_blocks(1, 0, 2)[0])
        nv.expect(queue.flush(1))
        nv.expect(second.read_blocks(2, 0, 8)[0])
        stats = stats_of(c)
        one, two = stats['namespaces']
        t.eq([(n['nqn'], n['nsid'], n['live']) for n in (one, two)], [(NQN, 1, True), (NQN, 2, True)])
        t.eq({op: (one[op]['count'], one[op]['bytes']) for op in ('read', 'write', 'flush', 'other')},
             {'read': (1, 1024), 'write': (3, 3 * 4096), 'flush': (1, 0), 'other': (0, 0)}, 'namespace 1')
        t.eq((two['read']['count'], two['read']['bytes'], two['write']['count']), (1, 4096, 0), 'namespace 2')
        hosts = {entry['hostnqn']: entry for entry in stats['hosts']}
        t.eq(set(hosts), {nv.HOST_NQN, OTHER_HOST})
        t.eq((hosts[nv.HOST_NQN]['write']['count'], hosts[nv.HOST_NQN]['read']['bytes']), (3, 1024))
        t.eq((hosts[OTHER_HOST]['write']['count'], hosts[OTHER_HOST]['read']['bytes']), (0, 4096))
        t.eq([hosts[name]['connections'] for name in hosts], [2, 2], 'connections')
        listener, = stats['listeners']
        t.eq((listener['address'], listener['listening']), (f'{target.addr}:{target.port}', True))
        for part in (listener, stats['total']):
            t.eq((part['read']['count'], part['write']['count'], part['read']['bytes'], part['connects'],
                  part['connections']), (2, 3, 5120, 4, 4))
        t.eq(sum(r['read']['count'] + r['write']['count'] for r in stats['reactors']), 5, 'reactors')
        t.ok(all(r['answered'] for r in stats['reactors']), 'reactors answered')


@test
def every_command_is_in_the_histogram(t):
    count = scaled(2000, 200)
    target, path = controlled(t, [t.namespace(backend='null', size='64MiB')])
    t.rdinit('bench', target.uri(), '--io-count', str(count), '--depth', '16')
    with Control(path) as c:
        read = stats_of(c, histograms=True)['namespaces'][0]['read']
        t.eq(read['count'], count)
        ends = [end for end, _ in read['histogram']]
        t.eq(ends, sorted(ends), 'ends of buckets')
        t.eq(sum(n for _, n in read['histogram']), count, 'commands in the buckets')
        t.ok(0 < read['p50_seconds'] <= read['p99_seconds'] <= ends[-1], f'percentiles: {read}')
        samples = metrics_of(c)
        t.eq(samples[ns_series('io_duration_seconds_count', op='read')], count)
        t.eq(samples[ns_series('io_duration_seconds_bucket', op='read', le='+Inf')], count)
        buckets = [value for series, value in samples.items() if 'duration_seconds_bucket' in series]
        t.eq(buckets, sorted(buckets), 'cumulative buckets')


@test
def latency_of_slow_storage_is_measured(t):
    target, path = controlled(t, [memory(t, layers=[{'type': 'delay', 'read': '20ms'}])])
    t.rdinit('bench', target.uri(), '--io-count', '8', '--depth', '2')
    with Control(path) as c:
        read = stats_of(c)['namespaces'][0]['read']
        t.ok(read['mean_seconds'] >= 0.02 and read['p50_seconds'] >= 0.02, f'20 ms in the backend: {read}')


@test
def what_is_in_flight_and_how_old_it_is(t):
    layers = [{'type': 'delay', 'write': '20s'}]
    target, path = controlled(t, [memory(t, layers=layers), memory(t, 2)], target={'drain_timeout': '1ms'})
    with Control(path) as c, host(target) as h:
        h.enable()
        queue = h.add_io()
        post_write(queue, 1, bytes(512))
        wait_for(lambda: stats_of(c)['namespaces'][0]['in_flight'], 'the write to begin')
        first = stats_of(c)['namespaces'][0]['oldest_seconds']
        t.ok(first > 0, f'age of the oldest: {first}')
        stats = wait_for(lambda: (s := stats_of(c))['namespaces'][0]['oldest_seconds'] > first and s, 'a higher age')
        one, two = stats['namespaces']
        t.eq((one['in_flight'], two['in_flight'], two['oldest_seconds']), (1, 0, 0))
        t.eq((stats['hosts'][0]['in_flight'], stats['total']['in_flight'], one['write']['count']), (1, 1, 0))
        samples = metrics_of(c)
        t.eq((samples[ns_series('io_inflight')], samples[ns_series('io_inflight', 2)]), (1, 0))
        t.ok(samples[ns_series('io_oldest_seconds')] >= first, 'age in the metrics')


@test
def failures_are_counted_by_status(t):
    layers = [{'type': 'error', 'ops': ['write'], 'error': 'EIO'}]
    target, path = controlled(t, [memory(t), memory(t, 2, layers=layers)])
    with Control(path) as c, host(target) as h:
        h.enable()
        queue = h.add_io()
        queue.read_blocks(1, 1 << 40, 1)
        queue.read_blocks(1, 1 << 40, 1)
        queue.read_blocks(9, 0, 1)
        queue.write_blocks(2, 0, bytes(512))
        stats = stats_of(c)
        one, two = stats['namespaces']
        t.eq(one['errors'], [{'sct': 0, 'sc': 0x80, 'count': 2}], 'namespace 1')
        t.eq((one['failed'], one['read']['count'], one['read']['bytes']), (2, 2, 0))
        t.eq((two['failed'], [e['count'] for e in two['errors']]), (1, [1]), 'namespace 2')
        t.eq({(e['sct'], e['sc']): e['count'] for e in stats['hosts'][0]['errors']}[(0, 0x0b)], 1, 'no namespace')
        t.eq(stats['total']['failed'], 4)
        t.eq(metrics_of(c)[ns_series('io_errors_total', sct=0, sc='0x80')], 2)


@test
def a_host_that_has_left_has_no_series_and_sums_go_on(t):
    target, path = controlled(t, [memory(t)])
    with Control(path) as c:
        with host(target, hostnqn=OTHER_HOST) as h:
            h.enable()
            nv.expect(h.add_io().write_blocks(1, 0, bytes(4096)))
            t.ok(any(OTHER_HOST in series for series in metrics_of(c)), 'series of the host')
            h.shutdown()
        wait_for(lambda: not stats_of(c)['hosts'], 'the host to leave')
        samples = metrics_of(c)
        t.eq([series for series in samples if OTHER_HOST in series], [])
        stats = stats_of(c)
        for part in (stats['total'], stats['listeners'][0]):
            t.eq((part['write']['count'], part['connects'], part['disconnects'], part['connections']), (1, 2, 2, 0))


@test
def counters_survive_a_reload(t):
    target, path = controlled(t, [memory(t)])
    with Control(path) as c, host(target) as h:
        h.enable()
        queue = h.add_io()
        nv.expect(queue.write_blocks(1, 0, bytes(4096)))
        with_socket(t, [memory(t, qos={'iops': 100000}), memory(t, 2)])
        t.eq(c.call('config.reload')['problems'], 0)
        nv.expect(queue.write_blocks(1, 0, bytes(4096)))
        t.eq([n['write']['count'] for n in stats_of(c)['namespaces']], [2, 0])


@test
def events_of_hosts_are_counted(t):
    target, path = controlled(t, [memory(t)], subsystem={'allow_any_host': False, 'hosts': [nv.HOST_NQN]})
    with Control(path) as c:
        with host(target, hostnqn=OTHER_HOST) as h:
            t.ok(h.admin.fabrics_connect(h.data()).status != 0, 'a host that is not allowed is refused')
        with host(target) as h:
            h.enable()
            h.admin.call(nv.sqe(0x08, h.admin.next_cid(), cdw10=0))  # Abort of a command that is not there
            nv.expect(h.admin.property_set(nv.CC, 0))
            total = c.call('stats.get')['total']
            t.eq({name: total[name] for name in ('connects', 'refused', 'aborts', 'resets', 'keep_alive_timeouts')},
                 {'connects': 1, 'refused': 1, 'aborts': 1, 'resets': 1, 'keep_alive_timeouts': 0})


@test
def waits_for_a_limit_are_counted(t):
    target, path = controlled(t, [memory(t, qos={'iops': 200})])
    t.rdinit('bench', target.uri(), '--io-count', '40', '--depth', '16')
    with Control(path) as c:
        one, = stats_of(c)['namespaces']
        t.ok(0 < one['limit_waits'] <= 40, f'waits: {one["limit_waits"]}')
        samples = metrics_of(c)
        t.eq(samples[ns_series('io_qos_waits_total')], one['limit_waits'])
        t.ok(one['limit_wait_seconds'] > 0, 'time waited')
        t.ok(abs(samples[ns_series('io_qos_wait_seconds_total')] - one['limit_wait_seconds']) < 1e-6, 'time in the metrics')


@test
def ana_states_are_metrics(t):
    """Each group that has a namespace has a series for each state: 1 for the present state."""
    target, path = controlled(t, [memory(t), memory(t, 2, ana_group=3)])
    with Control(path) as c:
        c.call('ana.set', group=3, state='inaccessible')
        samples = metrics_of(c)
        states = {(re.search('group="(.*?)"', s)[1], re.search('state="(.*?)"', s)[1]): value
                  for s, value in samples.items() if s.startswith('rdtarget_listener_ana_state')}
        t.eq(len(states), 10, 'series')
        t.eq({key for key, value in states.items() if value}, {('1', 'optimized'), ('3', 'inaccessible')})
        t.eq([samples[ns_series('namespace_ana_group', nsid)] for nsid in (1, 2)], [1, 3])
        c.call('namespace.set_ana', nqn=NQN, nsid=2, group=1)
        t.eq(metrics_of(c)[ns_series('namespace_ana_group', 2)], 1)


@test
def a_reactor_that_hangs_is_told_and_stops_no_answer(t):
    """Storage that hangs within a system call: the reactor of the host answers nothing, the other one does."""
    stall = t.path('stall')
    config, path = with_socket(t, [t.namespace(engine='aio')], target={'reactors': 2})
    target = t.target(config=config, env=stall_env(stall))
    with Control(path) as c, host(target) as h:
        h.enable()
        queue = h.add_io()
        stand_still(queue, stall)
        stats = stats_of(c)
        t.eq(sorted(r['answered'] for r in stats['reactors']), [False, True])
        t.eq(sorted(value for series, value in metrics_of(c).items() if 'reactor_up' in series), [0, 1])
        t.eq(stats_of(c)['total']['connections'], 2, 'connections')
        os.unlink(stall)
        wait_for(lambda: all(r['answered'] for r in stats_of(c)['reactors']), 'the reactor to answer')
        wait_for(lambda: stats_of(c)['namespaces'][0]['write']['count'] == 1, 'the write')


@test
def a_thousand_namespaces_come_in_parts_and_as_metrics(t):
    count = scaled(1000, 100)
    target, path = controlled(t, [t.namespace(nsid, backend='null', size='1MiB') for nsid in range(1, count + 1)])
    with Control(path) as c, host(target) as h:
        h.enable()
        queue = h.add_io()
        nsids, used = [], (1, count // 2, count)
        for nsid in used:
            nv.expect(queue.read_blocks(nsid, 0, 8)[0])
        while len(nsids) < count:
            part = c.call('stats.get', namespaces=True, offset=len(nsids), limit=300)
            t.eq(part['namespaces_matching'], count)
            nsids += [n['nsid'] for n in part['namespaces'] if n['read']['count'] == (n['nsid'] in used)]
        t.eq(nsids, list(range(1, count + 1)))
        samples = metrics_of(c)
        t.eq(sum('rdtarget_io_inflight{' in series for series in samples), count, 'namespaces in the metrics')
        t.eq(sum('duration_seconds_count' in series for series in samples), len(used), 'histograms')


# ---- parts ----

@test
def lists_come_in_parts_and_filtered(t):
    _, path = controlled(t, [memory(t, nsid) for nsid in (1, 2, 3, 5)])
    with Control(path) as c:
        def nsids(**params):
            answer = c.call('stats.get', namespaces=True, **params)
            return [n['nsid'] for n in answer['namespaces']], answer['namespaces_matching']
        t.eq(nsids(), ([1, 2, 3, 5], 4))
        t.eq(nsids(limit=2), ([1, 2], 4))
        t.eq(nsids(offset=3, limit=2), ([5], 4))
        t.eq(nsids(offset=4), ([], 4))
        t.eq(nsids(nsid=3), ([3], 1))
        t.eq(nsids(nqn=NQN, nsid=2), ([2], 1))
        t.eq(nsids(nqn='nqn.none'), ([], 0))
        plain = c.call('stats.get')
        t.eq([key for key in ('namespaces', 'hosts') if key in plain], [], 'lists that were not asked for')


@each(('a limit of 0', 'stats.get', {'limit': 0}, 'limit: found 0, expected 1 to 1000'),
      ('an offset below 0', 'stats.get', {'offset': -1}, 'offset: found -1'),
      ('a format that is none', 'metrics.get', {'format': 'xml'}, 'found "xml", expected prometheus or openmetrics'))
def wrong_parameters_are_refused(t, method, params, says):
    _, path = controlled(t, [memory(t)])
    with Control(path) as c:
        t.match(says, refused(t, 'invalid', c.call, method, **params).message)


# ---- metrics ----

@test
def promtool_accepts_the_metrics(t):
    promtool = requires_program('promtool')
    target, path = controlled(t, [memory(t), memory(t, 2)], target={'reactors': 2})
    with Control(path) as c, host(target) as h:
        h.enable()
        queue = h.add_io()
        nv.expect(queue.write_blocks(1, 0, bytes(4096)))
        queue.read_blocks(1, 1 << 40, 1)
        answer = c.call('metrics.get')
        t.eq(answer['content_type'], 'text/plain; version=0.0.4; charset=utf-8')
        res = subprocess.run([promtool, 'check', 'metrics'], input=answer['text'], capture_output=True, text=True,
                             check=False)
        t.eq((res.returncode, res.stdout + res.stderr), (0, ''), 'promtool check metrics')


@test
def openmetrics_has_the_same_samples(t):
    _, path = controlled(t, [memory(t)])
    with Control(path) as c:
        answer = c.call('metrics.get', format='openmetrics')
        text = answer['text']
        t.match('application/openmetrics-text; version=1.0.0', answer['content_type'])
        t.ok(text.endswith('\n# EOF\n') and text.count('# EOF') == 1, 'the end')
        t.eq(re.findall(r'(?m)^# TYPE \S+_total ', text), [], 'families named with _total')
        t.ok('# TYPE rdtarget_io_completed counter\n' in text, 'a counter without _total')
        t.eq(set(metrics_of(c, format='openmetrics')), set(metrics_of(c)))


@test
def each_family_comes_once_with_its_samples(t):
    target, path = controlled(t, [memory(t), memory(t, 2)])
    with Control(path) as c, host(target) as h:
        h.enable()
        nv.expect(h.add_io().write_blocks(1, 0, bytes(4096)))
        text = c.call('metrics.get')['text']
    families = re.findall(r'(?m)^# TYPE (\S+) ', text)
    t.ok(len(families) > 30, f'{len(families)} families')
    t.eq(len(families), len(set(families)), 'families')
    family = ''
    for line in text.splitlines():
        if line.startswith('# TYPE'):
            family = line.split()[2]
        elif not line.startswith('#'):
            t.match(rf'^{family}(_bucket|_sum|_count)?(\{{| )', line)
    samples = [line.rsplit(' ', 1)[0] for line in text.splitlines() if not line.startswith('#')]
    t.eq(len(samples), len(set(samples)), 'series')


@test
def a_hosts_name_is_escaped(t):
    promtool = requires_program('promtool')
    target, path = controlled(t, [memory(t)])
    name = 'nqn.2024-01.test:"} 1\\\nx'
    with Control(path) as c, host(target, hostnqn=name) as h:
        nv.expect(h.admin.fabrics_connect(h.data()))
        text = c.call('metrics.get')['text']
        t.ok('rdtarget_host_connections{host="nqn.2024-01.test:\\"} 1\\\\x5c\\\\x0ax"} 1\n' in text,
             [line for line in text.splitlines() if 'host_connections' in line])
        res = subprocess.run([promtool, 'check', 'metrics'], input=text, capture_output=True, text=True, check=False)
        t.eq((res.returncode, res.stdout + res.stderr), (0, ''), 'promtool check metrics')


@test
def hosts_whose_names_are_not_text_have_series_of_their_own(t):
    target, path = controlled(t, [memory(t)])
    names = ['nqn.2024-01.test:\x01', 'nqn.2024-01.test:\x02', 'nqn.2024-01.test:\\x01']
    hosts = [host(target, hostnqn=name) for name in names]
    with Control(path) as c:
        for h in hosts:
            nv.expect(h.admin.fabrics_connect(h.data()))
        samples = [series for series in metrics_of(c) if 'host_connections' in series]
        t.eq(sorted(re.search('"(.*)"', series)[1] for series in samples),
             ['nqn.2024-01.test:' + name for name in ('\\\\x01', '\\\\x02', '\\\\x5cx01')])
        for h in hosts:
            h.close()


@test
def a_client_that_leaves_does_not_stop_the_next(t):
    target, path = controlled(t, [memory(t)])
    for _ in range(8):
        with Control(path) as c:
            c.post('stats.get', namespaces=True)
            c.post('metrics.get')
    with Control(path) as c:
        t.eq(len(stats_of(c)['namespaces']), 1)
        c.post('metrics.get')
        target.stop()


@test
def keep_alive_expiries_are_counted(t):
    target, path = controlled(t, [memory(t)])
    with Control(path) as c, host(target, kato=200) as h:
        h.enable()
        wait_for(lambda: c.call('stats.get')['total']['keep_alive_timeouts'] == 1, 'the keep alive to expire')
        wait_for(lambda: has_ended(h.admin), 'the association to end')
        t.eq(ends_of(c), {'keep_alive': 1})


def ends_of(c):
    """{reason: number} of the connections that have ended."""
    ends = c.call('stats.get')['total']['disconnects_by_reason']
    return {reason: n for reason, n in ends.items() if n}


@test
def disconnects_are_counted_by_reason(t):
    target, path = controlled(t, [memory(t)])
    with Control(path) as c:
        with host(target) as h:
            h.enable()
            h.add_io()
            h.shutdown()  # the target closes the I/O queue, the host the admin queue
        wait_for(lambda: ends_of(c) == {'controller': 1, 'host': 1}, 'the reasons of a shutdown')
        with host(target) as h:
            h.enable()
            h.admin.post(bytes(8))  # no capsule is that short
            wait_for(lambda: has_ended(h.admin), 'the connection to end')
        wait_for(lambda: ends_of(c) == {'controller': 1, 'host': 1, 'fault': 1}, 'the reason of a fault')
        with host(target) as h:
            h.enable()
            c.call('controller.disconnect', hostnqn=nv.HOST_NQN)
            wait_for(lambda: has_ended(h.admin), 'the connection to end')
        wait_for(lambda: ends_of(c) == {'controller': 1, 'host': 1, 'fault': 1, 'target': 1}, 'the last reason')
        listener = f'listener="{target.addr}:{target.port}"'
        t.eq(metrics_of(c)[f'rdtarget_disconnects_total{{{listener},reason="fault"}}'], 1)


if __name__ == '__main__':
    sys.exit(main(fabrics=('iwarp',)))
