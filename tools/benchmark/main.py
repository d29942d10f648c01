# SPDX-License-Identifier: BSD-3-Clause
"""tools/bench: options, and the order of the steps."""

import argparse
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import machine
import measure
import netns
import page
import plan
import plots
import vm
from procs import Failed
from results import FORMAT, Results
from setup import Setup

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(TOP, 'tools'))

import cut_output  # noqa: E402

EPILOG = '''
Another peer: --vs 'NAME=COMMAND' (or COMMAND alone) runs COMMAND with sh for each load, in the same network
namespace, and takes the last line it prints: a number (I/Os per second), or a JSON object with "iops" and, when known,
"lat_us": {"mean": ..., "p50": ..., "p99": ...} and "cpu_us_per_io": {"client": ..., "server": ...}. What to do is in
{rw} (read, write, randread, randwrite), {size} (bytes), {depth}, {connections}, {seconds}, {server_cpu}, {client_cpu},
and in the environment as RD_BENCH_RW, RD_BENCH_SIZE and so on. It starts and stops a server of its own, or uses one that
runs. A command that fails, hangs or prints nothing useful is reported as such.
'''


def parser():
    p = argparse.ArgumentParser(prog='tools/bench', formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EPILOG,
                                description='Measure rdtarget beside other servers and beside TCP itself: one run, '
                                'one table, plots. Nothing fails because of a figure.')
    p.add_argument('--quick', action='store_const', const='quick', dest='profile', default='full',
                   help='two to three minutes instead of half an hour: fewer rows, points and repetitions')
    p.add_argument('--smoke', action='store_const', const='smoke', dest='profile',
                   help='everything once, for a moment: does it work? Its figures mean nothing')
    p.add_argument('--rbd', action='store_const', const='rbd', dest='profile', help='rdtarget with a Ceph RBD image beside '
                   'fio with the same image, in a cluster of one OSD that is made for it: about nine minutes')
    p.add_argument('--rows', metavar='NAME,...', help=f'these only: {", ".join(plan.NAMES)}')
    p.add_argument('--vs', metavar='[NAME=]COMMAND', action='append', default=[], help='another peer; see below')
    p.add_argument('--seconds', type=float, metavar='S', help='time of each measurement')
    p.add_argument('--repetitions', type=int, metavar='N', help='how often everything is measured')
    p.add_argument('--no-curves', action='store_true', help='leave out what is in the plots only')
    p.add_argument('--no-plots', action='store_true', help='draw no plots')
    p.add_argument('--no-idle', action='store_true', help='leave out idle connections and memory')
    p.add_argument('--vm', nargs='?', const=','.join(vm.DEVICES), metavar='DEVICE,...', help='only this: rdtarget over '
                   'verbs beside nvmet-rdma of Linux, in an emulated machine with each soft device (%(const)s); added to '
                   'what is in the output folder')
    p.add_argument('--output', metavar='DIR', help='where results.json, table.md and the plots go '
                   '(default: bench-DATE-TIME)')
    p.add_argument('--dir', metavar='DIR', default=os.environ.get('TMPDIR', '/var/tmp'),
                   help='where the files that are served are made (%(default)s); a file system on the disk to measure')
    p.add_argument('--server-cpu', type=int, metavar='N', help='processor of the servers (the first)')
    p.add_argument('--client-cpu', type=int, metavar='N', help='processor of the clients (the second)')
    p.add_argument('--redraw', metavar='DIR', help='measure nothing: make table and plots from DIR/results.json again')
    p.add_argument('--into', metavar='FILE', help='put the tables into this page too, between its marks, and the plots '
                   'beside it')
    p.add_argument('--plan', action='store_true', help='say what would be measured and how long it takes')
    p.add_argument('--build', metavar='DIR', default=os.path.join(TOP, 'build'), help='where the programs were built')
    for hidden in ('--tools', '--fio-engine', '--iscsi-engine'):   # tools/bench knows them
        p.add_argument(hidden, help=argparse.SUPPRESS)
    return p


def wrong(text):
    print(f'tools/bench: {text}', file=sys.stderr)
    sys.exit(2)


def chosen_profile(args):
    profile = plan.PROFILES[args.profile]
    if args.seconds is not None:
        if args.seconds <= 0:
            wrong(f'--seconds {args.seconds:g}: expected more than 0')
        profile = dataclasses.replace(profile, seconds=args.seconds)
    if args.repetitions is not None:
        if args.repetitions < 1:
            wrong(f'--repetitions {args.repetitions}: expected 1 or more')
        profile = dataclasses.replace(profile, repetitions=args.repetitions,
                                      repetitions_curve=min(args.repetitions, profile.repetitions_curve))
    if args.no_curves:
        profile = dataclasses.replace(profile, curve=(), connections=())
    return profile


def vs_rows(commands):
    for number, text in enumerate(commands, 1):
        name, sep, command = text.partition('=')
        if not sep or not name.replace('-', '').replace('_', '').isalnum():
            name, command = f'vs{number}', text
        yield plan.Row(f'vs-{name}', name, '', '', 'vs', 'vs', command=command)


def chosen_rows(args, profile):
    names = profile.rows
    if args.rows is not None:
        names = [name for name in args.rows.split(',') if name]
        unknown = [name for name in names if name not in plan.NAMES]
        if unknown:
            wrong(f'--rows {",".join(unknown)}: expected some of {", ".join(plan.NAMES)}')
    rows = [row for row in plan.ROWS if row.name in names] + list(vs_rows(args.vs))
    return with_what_there_is(rows, args)


def with_what_there_is(rows, args):
    """Debian's fio has no libiscsi engine; without one another client stands in for it."""
    if args.iscsi_engine and os.path.exists(args.iscsi_engine):
        return rows
    fio = shutil.which('fio')
    if fio and subprocess.run([fio, '--enghelp=libiscsi'], capture_output=True, check=False).returncode == 0:
        return rows
    return [dataclasses.replace(row, client='iscsi-perf', title=row.title.replace('fio libiscsi', 'iscsi-perf'),
                                note='fio has no libiscsi engine here, so iscsi-perf is the client, which only reads')
            if row.client == 'fio-iscsi' else row for row in rows]


def choose_cpus(args):
    cpus = sorted(os.sched_getaffinity(0))
    for name, default in (('server_cpu', cpus[0]), ('client_cpu', cpus[min(1, len(cpus) - 1)])):
        if getattr(args, name) is None:
            setattr(args, name, default)
        elif getattr(args, name) not in cpus:
            wrong(f'--{name.replace("_", "-")} {getattr(args, name)}: expected one of {", ".join(map(str, cpus))}')


def version():
    try:
        res = subprocess.run(['git', '-C', TOP, 'describe', '--always', '--dirty'], capture_output=True, text=True,
                             check=False)
    except FileNotFoundError:
        return 'version unknown (there is no git)'
    return f'version {res.stdout.strip()}' if res.returncode == 0 and res.stdout.strip() else 'version unknown'


def measure_all(args, profile, rows, namespace_error):
    """The content of results.json."""
    started = time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime())
    begin = time.monotonic()
    setup = Setup(args, profile)
    try:
        watch = machine.Watch(profile.quiet_seconds)
        samples = measure.samples(setup, profile, rows)
        with_idle = not args.no_idle and any(row.server == 'rdtarget' for row in rows)
        idle = measure.idle(setup, profile) if with_idle else None
        memory = measure.memory_in_use(setup, profile, rows) if with_idle else None
    finally:
        setup.close()
    return {
        'format': FORMAT, 'started': started, 'seconds': round(time.monotonic() - begin, 1), 'version': version(),
        'machine': machine.facts(), 'quiet': watch.finish(), 'congestion': netns.congestion(),
        'namespace_error': namespace_error, 'disk': {'device': setup.device, 'irqs': sorted(setup.irqs, key=int)},
        'options': {'profile': profile.name, 'seconds': profile.seconds, 'repetitions': profile.repetitions,
                    'server_cpu': args.server_cpu, 'client_cpu': args.client_cpu},
        'rows': [dataclasses.asdict(row) for row in rows], 'samples': samples, 'idle': idle, 'memory_in_use': memory,
    }


def write_out(data, folder, into, *, plotted=True):
    """All that is made from results.json."""
    results = Results(data) if data else None
    emulated = read_json(folder, 'vm.json')
    text = page.markdown(results, emulated)
    with open(os.path.join(folder, 'table.md'), 'w', encoding='utf-8') as f:
        f.write(text)
    paths, why = plots.draw(results, folder) if results and plotted else ([], None)
    if into:
        pictures = []
        for path in paths:
            if path.endswith('.svg'):
                name = f'{os.path.splitext(os.path.basename(into))[0]}-{os.path.basename(path)}'
                shutil.copyfile(path, os.path.join(os.path.dirname(os.path.abspath(into)), name))
                pictures.append((f'against {os.path.basename(path)[:-4]}', name))
        page.insert(into, results, emulated, pictures)
    print(text)
    if why:
        print(f'tools/bench: {why}', file=sys.stderr)
    return ['table.md', *map(os.path.basename, paths)]


def read_json(folder, name):
    """None where there is no such file."""
    try:
        with open(os.path.join(folder, name), encoding='utf-8') as f:
            return json.load(f)
    except FileNotFoundError:
        return None


def write_json(folder, name, data):
    with open(os.path.join(folder, name), 'w', encoding='utf-8') as f:
        json.dump(data, f, indent=1)
        f.write('\n')


def redraw(args):
    try:
        data = read_json(args.redraw, 'results.json')
        if data is None and read_json(args.redraw, 'vm.json') is None:
            raise ValueError('there are no results: neither results.json nor vm.json')
        write_out(data, args.redraw, args.into, plotted=not args.no_plots)
    except (OSError, ValueError, KeyError) as e:
        print(f'tools/bench: --redraw {args.redraw}: {e}', file=sys.stderr)
        return 1
    return 0


def show_plan(profile, rows):
    count = len(list(plan.all_jobs(profile, rows)))
    minutes = plan.seconds_needed(profile, rows) / 60
    print(f'tools/bench: profile {profile.name}: {len(rows)} rows, {count} measurements of {profile.seconds:g} s, about '
          f'{minutes:.1f} minutes in all', file=sys.stderr)


def emulated(args):
    args.output = args.output or time.strftime('bench-%Y%m%d-%H%M%S')
    os.makedirs(args.output, exist_ok=True)
    data = read_json(args.output, 'vm.json') or {'samples': {}, 'errors': {}}
    for _ in vm.measure(args, data):
        write_json(args.output, 'vm.json', data)
    write_out(read_json(args.output, 'results.json'), args.output, args.into,
              plotted=not args.no_plots)
    return 0


def main(argv):
    args = parser().parse_args(argv)
    if args.redraw:
        return redraw(args)
    if args.vm is not None:
        if not set(args.vm.split(',')) <= set(vm.DEVICES):
            wrong(f'--vm {args.vm}: expected some of {", ".join(vm.DEVICES)}')
        return emulated(args)
    profile = chosen_profile(args)
    rows = chosen_rows(args, profile)
    choose_cpus(args)
    show = not os.environ.get(netns.INSIDE)
    if args.plan:
        show_plan(profile, rows)
        return 0
    # Ctrl-C and SIGTERM end what was started as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if show:
        show_plan(profile, rows)
    why = netns.enter([os.path.abspath(sys.argv[0]), *argv])
    folder = args.output or time.strftime('bench-%Y%m%d-%H%M%S')
    try:
        os.makedirs(folder, exist_ok=True)
        data = measure_all(args, profile, rows, why)
        write_json(folder, 'results.json', data)
        made = write_out(data, folder, args.into, plotted=not args.no_plots)
    except (OSError, ValueError, Failed) as e:
        print(f'tools/bench: {e}', file=sys.stderr)
        return 1
    print(f'tools/bench: {folder}: results.json, {", ".join(made)}', file=sys.stderr)
    return 0


if __name__ == '__main__':
    try:
        cut_output.run(lambda: main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
