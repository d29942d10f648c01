# SPDX-License-Identifier: BSD-3-Clause
"""The counters of namespaces, hosts, listeners and reactors, by stats.get and as metrics."""

import re
import resource
import subprocess
import sys

import nvmf_peer as nv
import tcp_peer as tcp
from t_control import Control, controlled, with_socket
from t_loop import NQN, main, requires_program, scaled, test, wait_for
from t_serving import has_ended, host, memory

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
def the_log_has_the_names_of_the_figures(t):
    target, path = controlled(t, [memory(t)])
    t.rdinit('read', target.uri(), '--data-size', '4096', '--data', '/dev/null')
    wait_for(lambda: not target.counters()['admin_queues'], 'the connections to end')
    with Control(path) as c:
        wait_for(lambda: sum(reactor['reads'] for reactor in c.call('stats.get')['reactors']), 'the read to be counted')
        ended = c.call('stats.get')['reactors']
        logged = dict(re.findall(r'status: reactor=(\d+) (.*)', target.status()))
    t.eq(len(logged), len(ended))
    for reactor in ended:
        shown = dict(pair.split('=') for pair in logged[str(reactor['reactor'])].split())
        names = [name for name in shown if name in reactor]
        t.eq([int(shown[name]) for name in names], [reactor[name] for name in names], 'figures of a reactor')
        t.eq({'admin_queues', 'io_queues', 'waiting_for_buffers', 'waiting_for_limits', 'buffer_bytes', 'reserve_bytes',
              'scratch_bytes', 'reads', 'writes'} - set(names), set(), 'names')


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
def the_process_and_its_state_are_in_the_metrics(t):
    target, path = controlled(t, [memory(t)])

    def state(samples):
        return {re.search('state="(.*?)"', s)[1] for s, value in samples.items() if s.startswith('rdtarget_state{') and value}

    with Control(path) as c:
        first = metrics_of(c)
        t.eq(state(first), {'serving'})
        t.ok(0 < first['process_resident_memory_bytes'] <= first['process_virtual_memory_bytes'], 'memory')
        t.eq(first['process_max_fds'], resource.prlimit(target.pid, resource.RLIMIT_NOFILE)[0], 'limit of descriptors')
        t.eq(first['process_threads'] >= 3, True, 'threads')
        t.ok(abs(first['process_start_time_seconds'] - first['rdtarget_start_time_seconds']) < 60, 'two times of the start')
        with Control(path) as other:
            other.call('info')
            t.eq(metrics_of(c)['process_open_fds'] - first['process_open_fds'], 1, 'descriptors of one more client')
        wait_for(lambda: metrics_of(c)['process_cpu_seconds_total'] > first['process_cpu_seconds_total'], 'CPU time')
        text = c.call('metrics.get', format='openmetrics')['text']
        t.match(r'(?m)^# TYPE process_cpu_seconds counter\nprocess_cpu_seconds_total [0-9.]+$', text)
        c.call('drain')
        t.eq(state(metrics_of(c)), {'drained'})


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
    with Control(path) as c, host(target, kato=1000) as h:
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


@test
def violations_of_tcp_are_counted(t):
    """Before and after ICReq and Connect; what is cut off counts as lost."""
    target, path = controlled(t, [memory(t)], listener={'transport': 'tcp'})
    faults = (
        lambda conn: conn.send_raw(b'GET / HTTP/1.0\r\n\r\n'),
        lambda conn: conn.send_raw(tcp.icreq(hpda=32)),
        lambda conn: (tcp.agree(conn), conn.send_raw(tcp.icreq())),
        lambda conn: (tcp.agree(conn), conn.send_raw(bytes((0x0A, 0, 24, 0, 24, 0, 0, 0)))),
        lambda conn: (tcp.agree(conn), conn.send(tcp.H2C_TERM, bytes(16), hdgst=False)),
    )
    with Control(path) as c:
        for number, fault in enumerate(faults, 1):
            conn = tcp.dial(target.addr, target.port)
            t.cleanup(conn.close)
            fault(conn)
            conn.wait_closed()
            wait_for(lambda: ends_of(c) == {'fault': number}, f'violation {number} to be counted')
        conn = tcp.dial(target.addr, target.port)
        tcp.agree(conn)
        conn.send_raw(bytes((4, 0)))
        conn.close()
        wait_for(lambda: ends_of(c) == {'fault': len(faults), 'lost': 1}, 'half a PDU to be counted')


if __name__ == '__main__':
    sys.exit(main())
