# SPDX-License-Identifier: BSD-3-Clause
"""The load generators. Each is a function (setup, row, point, server) -> sample: a dict of

  iops, lat_us {mean, p50, p99, p99.9}, client_cpu_us, server_cpu_us (both for one I/O; None: not known)

and of fio_file_spin also

  spinner {seconds, gaps, gaps_s, longest_us, steal_s}
"""

import json
import os
import re
import shlex
import signal

import disk
from procs import Failed, Server, run

PERCENTILES = ('50', '99', '99.9')


def sample(iops, mean_us=None, percentiles=None, client_cpu_us=None, server_cpu_us=None):
    lat = {'mean': mean_us}
    lat.update({f'p{name}': value for name, value in (percentiles or {}).items()})
    return {'iops': iops, 'lat_us': lat, 'client_cpu_us': client_cpu_us, 'server_cpu_us': server_cpu_us}


def parse(name, text):
    """The JSON object in a program's output, which may have words around it."""
    start, end = text.find('{'), text.rfind('}')
    try:
        return json.loads(text[start:end + 1])
    except ValueError:
        raise Failed(f'{name}: its output is no JSON: {text.strip()[:200]!r}') from None


def charged(server, call):
    """Run call() -> (sample, I/Os of the whole run), and charge the server's time to the I/Os."""
    before = server.process.cpu_us() if server else 0
    result, ios = call()
    if server:
        server.process.check()
        result['server_cpu_us'] = (server.process.cpu_us() - before) / max(1, ios)
    return result


# ---- the floor ----

def floor(setup, _row, point, _server, *args):
    out = run('rdfloor', [setup.program('tools/benchmark/rdfloor'), '--rw', point.kind, '--size', point.size,
                          '--depth', point.depth, '--connections', point.connections, '--seconds', setup.seconds,
                          '--client-cpu', setup.client_cpu, '--server-cpu', setup.server_cpu, *args], None, setup.seconds)
    got = parse('rdfloor', out.out)
    lat = got['lat_us']
    return sample(got['iops'], lat['mean'], {p: lat[f'p{p}'] for p in PERCENTILES},
                  got['cpu_us_per_io']['client'], got['cpu_us_per_io']['server'])


def floor_each(setup, row, point, server):
    return floor(setup, row, point, server, '--each-buffer')


def apart(setup):
    """The present distance of the two processors: nanoseconds for a cache line to go there and back, or None."""
    if setup.server_cpu == setup.client_cpu:
        return None
    try:
        argv = [setup.program('tools/benchmark/rdapart'), setup.server_cpu, setup.client_cpu]
        return parse('rdapart', run('rdapart', argv, None, 1).out)['ns']
    except Failed:
        return None     # then it is not known; what is measured does not need it


# ---- rdinit bench ----

def rdinit(setup, row, point, server, *args, uri=None, pinned=True):
    uri = uri or server.uri(row.kind)
    argv = [setup.program('initiator/rdinit'), 'bench', uri, '--rw', point.rw, '--block-size', point.size,
            '--depth', point.depth, '--nr-io-queues', point.connections, '--run-time', f'{setup.ms}ms',
            '--ramp-time', f'{setup.ramp_ms}ms', '--data-size', setup.span(row.kind), '--no-progress', '-o', 'json', *args]
    if point.kind == 'write':
        argv.append('--dataloss')

    def call():
        got = parse('rdinit bench', run('rdinit bench', argv, setup.client_cpu if pinned else None, setup.seconds).out)
        lat = got['latency_ns']
        ios = got['ios'] * (1 + setup.ramp_ms / setup.ms)
        return sample(got['iops'], lat['mean'] / 1e3, {p: lat['percentiles'][p] / 1e3 for p in PERCENTILES},
                      got['cpu']['ns_per_io'] / 1e3), ios
    return charged(server, call)


def rdinit_device(setup, row, point, server):
    """By the library's device, which reconnects, instead of queue pairs."""
    return rdinit(setup, row, point, server, '--device')


def rdinit_tcp(setup, row, point, server, *args):
    return rdinit(setup, row, point, server, *args, uri=server.tcp_uri(row.kind))


def rdinit_tcp_digests(setup, row, point, server):
    return rdinit_tcp(setup, row, point, server, '--hdr-digest', '--data-digest')


def rdinit_tls(setup, row, point, server):
    return rdinit(setup, row, point, server, '--hostnqn', server.host, '--tls-key-file', server.tls_key,
                  uri=server.tls_uri(row.kind))


# ---- fio ----

def _fio_argv(setup, point, engine, cpu):
    # fio takes completions in batches, with every engine; otherwise the result would measure fio itself.
    argv = [setup.tool('fio'), '--name=bench', f'--rw={point.rw}', f'--bs={point.size}', f'--iodepth={point.depth}',
            f'--iodepth_batch_complete_max={point.depth}',
            f'--runtime={setup.ms}ms', '--time_based', '--thread', '--norandommap', '--randrepeat=0',
            '--group_reporting', '--output-format=json', *engine]
    if cpu is not None:
        argv.append(f'--cpus_allowed={cpu}')
    if point.connections > 1:
        argv.append(f'--numjobs={point.connections}')
    if setup.ramp_ms:
        argv.append(f'--ramp_time={setup.ramp_ms}ms')
    return argv


def _fio_sample(got, kind):
    job = got['jobs'][0]
    if job.get('error'):
        raise Failed(f'fio: {os.strerror(job["error"])}')
    side = job[kind]
    lat = side['lat_ns'] if side['lat_ns']['N'] else side['clat_ns']
    percentiles = side['clat_ns'].get('percentile') or {}
    ms = max(1, side['runtime'])
    cpu_us = (job['usr_cpu'] + job['sys_cpu']) / 100 * job['job_runtime'] * 1e3
    picked = {p: percentiles[f'{float(p):.6f}'] / 1e3 for p in PERCENTILES if f'{float(p):.6f}' in percentiles}
    result = sample(side['total_ios'] * 1e3 / ms, lat['mean'] / 1e3, picked, cpu_us / max(1, side['total_ios']))
    return result, side['total_ios']


def fio(setup, point, engine, server, cpu=None, *, pinned=True, env=None, start_us=0):
    """@start_us: processor time of an unpinned fio that is not that of I/O."""
    cpu = None if not pinned else setup.client_cpu if cpu is None else cpu

    def call():
        # fio chooses the processor itself, so that its start-up is not measured.
        out = run('fio', _fio_argv(setup, point, engine, cpu), cpu, setup.seconds, cwd=setup.work, env=env)
        result, ios = _fio_sample(parse('fio', out.out), point.kind)
        ios *= 1 + setup.ramp_ms / setup.ms
        if not pinned:  # an engine with threads of its own, which fio does not count
            result['client_cpu_us'] = max(0, out.cpu_us - start_us) / max(1, ios)
        return result, ios
    return charged(server, call)


def fio_rdinit(setup, row, point, server):
    return fio(setup, point, [f'--ioengine=external:{setup.fio_engine()}', f'--uri={server.uri(row.kind)}',
                               '--hipri=1', f'--size={setup.span(row.kind)}'], server)


def fio_nbd(setup, row, point, server):
    return fio(setup, point, ['--ioengine=nbd', f'--uri={server.uri()}', f'--size={setup.span(row.kind)}'], server)


def fio_iscsi(setup, row, point, server):
    name = server.uri().replace(':', '\\:')
    return fio(setup, point, [f'--ioengine={setup.iscsi_engine()}', f'--filename={name}',
                               f'--size={setup.span(row.kind)}'], server)


def fio_file(setup, row, point, _server):
    """The same file without any server: the page cache is left out, as rdtarget does."""
    return fio(setup, point, _file_engine(setup, row), None)


def fio_file_spin(setup, row, point, _server):
    """The same on the server's processor, while a thread spins on the client's: the conditions of a target."""
    if setup.server_cpu == setup.client_cpu:
        raise Failed('a thread that spins beside fio needs a second processor')
    with Spinner(setup) as spinner:
        result = fio(setup, point, [*_file_engine(setup, row), *spinner.fio_options()], None, setup.server_cpu)
        result['spinner'] = spinner.finish()
    return result


def _file_engine(setup, row):
    return ['--ioengine=io_uring', f'--filename={setup.file(row.kind)}', '--direct=1', f'--size={setup.span(row.kind)}']


class Spinner:
    """A thread that spins on the client's processor; the time taken from it is counted while fio's job runs."""

    def __init__(self, setup):
        self.cpu, self.work = setup.client_cpu, setup.work
        self.process = Server('rdspin', [setup.program('tools/benchmark/rdspin'), self.cpu], self.cpu,
                              ready=lambda s: 'ready' in s.text())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stop()

    def fio_options(self):
        """fio writes the last output of these commands into files in its directory."""
        return [f'--exec_{when}=kill -{number} {self.process.pid}; cat /proc/stat'
                for when, number in (('prerun', 'USR1'), ('postrun', 'TERM'))]

    def _steal(self, when):
        try:
            with open(os.path.join(self.work, f'bench.{when}.txt'), encoding='ascii') as f:
                return disk.steal(self.cpu, f.read())
        except OSError as e:
            raise Failed(f'fio did not run its exec_{when}: {e}') from None

    def finish(self):
        self.process.popen.send_signal(signal.SIGTERM)
        self.process.popen.wait()
        result = parse('rdspin', self.process.text())
        result['steal_s'] = round(self._steal('postrun') - self._steal('prerun'), 3)
        return result


# ---- iscsi-perf, where fio has no libiscsi engine ----

def iscsi_perf(setup, _row, point, server):
    if point.kind == 'write':
        raise Failed('iscsi-perf only reads')
    argv = [setup.tool('iscsi-perf'), '-m', point.depth, '-b', max(1, point.size // 512), '-t',
            max(1, round(setup.seconds))]
    if point.rw.startswith('rand'):
        argv.append('-r')

    def call():
        out = run('iscsi-perf', [*argv, server.uri()], setup.client_cpu, setup.seconds)
        found = re.findall(r'iops average (\d+)', out.out)
        if not found:
            raise Failed(f'iscsi-perf: no result in its output: {out.out.strip()[-200:]!r}')
        iops = float(found[-1])
        ios = iops * max(1, round(setup.seconds))
        return sample(iops, point.depth * 1e6 / max(1.0, iops), None, out.cpu_us / max(1, ios)), ios
    return charged(server, call)


# ---- another peer ----

def other(setup, row, point, _server):
    """--vs: see the help text. The last line of its output is a number or a JSON object."""
    values = {'rw': point.rw, 'size': point.size, 'depth': point.depth, 'connections': point.connections,
              'seconds': setup.seconds, 'server_cpu': setup.server_cpu, 'client_cpu': setup.client_cpu}
    line = re.sub(r'\{(\w+)\}', lambda m: shlex.quote(str(values[m[1]])) if m[1] in values else m[0],
                  row.command)
    env = {f'RD_BENCH_{key.upper()}': str(value) for key, value in values.items()}
    out = run('--vs', ['/bin/sh', '-c', line], None, setup.seconds, env=env, cwd=os.getcwd())
    lines = out.out.strip().splitlines()
    if not lines:
        raise Failed('--vs: the command printed nothing')
    try:
        got = json.loads(lines[-1])
        if not isinstance(got, dict):
            got = {'iops': float(got)}
        iops = float(got['iops'])
    except (ValueError, TypeError, KeyError):
        raise Failed(f'--vs: the last line is neither a number nor JSON with "iops": {lines[-1][:200]!r}') from None
    if iops <= 0:
        raise Failed(f'--vs: {iops:g} I/Os per second')
    lat = got.get('lat_us') or {}
    mean = lat.get('mean', point.depth * point.connections * 1e6 / iops)
    cpu = got.get('cpu_us_per_io') or {}
    return sample(iops, mean, {p: lat[f'p{p}'] for p in PERCENTILES if f'p{p}' in lat}, cpu.get('client'),
                  cpu.get('server'))
