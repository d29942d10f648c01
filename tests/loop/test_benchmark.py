# SPDX-License-Identifier: BSD-3-Clause
"""tools/bench in its shortest form: rows, files and plots are made, a failing peer is reported and the others continue,
and no process or file is left. No result is judged."""

import json
import os
import signal
import subprocess
import sys

from t_loop import SOURCE_ROOT, Skip, each, lacks, main, program, requires_program, test, wait_for

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(SOURCE_ROOT, 'tools', 'benchmark'))
import disk

BENCH = os.path.join(SOURCE_ROOT, 'tools', 'bench')
BEGIN = '<!-- measured: begin (tools/bench --redraw DIR --into FILE) -->'
END = '<!-- measured: end -->'


def build_root():
    return os.environ.get('BUILD_ROOT') or os.path.dirname(os.path.dirname(program('rdtarget')))


def environment():
    return {**os.environ, 'RD_BENCH_AS_IS': '1', 'BUILD_DIR': build_root()}


def arguments(t, *args):
    return [BENCH, '--smoke', '--output', t.path('out'), '--dir', t.dir, *args]


def bench(t, *args, rc=0, plotted=False):
    """One run; returns the text of its table, and its results. Most tests need no plots, which take longer than all
    other steps."""
    res = t.run(arguments(t, *args, *([] if plotted else ['--no-plots'])), env=environment())
    t.eq(res.rc, rc, f'exit status\n{res.err}')
    if rc:
        return res, None
    with open(t.path('out/results.json'), encoding='utf-8') as f:
        return res, json.load(f)


def samples(data, row):
    return [entry for entry in data['samples'] if entry['row'] == row]


def needs_both():
    program('rdtarget')
    program('rdinit')


def left_behind(t):
    """Command lines of processes that use this test's directory."""
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/cmdline', 'rb') as f:
                line = f.read().replace(b'\0', b' ').decode(errors='replace')
        except OSError:
            continue
        if t.dir in line and int(pid) != os.getpid():
            found.append(line)
    return found


@test
def rows_results_and_table_appear(t):
    needs_both()
    res, data = bench(t, '--rows', 'floor,null')
    for row in ('floor', 'null'):
        good = samples(data, row)
        t.ok(good, f'no samples of {row}')
        # Not known where there is one processor only.
        t.ok(all((entry['apart_ns'] or 0) > 0 for entry in good) or len(os.sched_getaffinity(0)) < 2, good)
        for entry in good:
            t.ok('error' not in entry, f'{row}: {entry.get("error")}')
            # No stronger condition: on a busy machine a moment may pass without an I/O.
            for figure in (entry['iops'], entry['lat_us']['mean'], entry['server_cpu_us'], entry['client_cpu_us']):
                t.ok(isinstance(figure, (int, float)), f'{row}: {entry}')
    for part in ('bare TCP program', 'rdtarget null, rdinit bench', 'rdtarget null / bare TCP', 'idle connections'):
        t.ok(part in res.text, f'no "{part}" in\n{res.text}')
    with open(t.path('out/table.md'), encoding='utf-8') as f:
        t.eq(f.read().strip(), res.text.strip(), 'table.md')
    t.eq(data['idle'].get('error'), None, 'idle')
    t.ok(data['idle']['memory_kib'] > 0 and data['idle']['silent']['wakeups_s'] >= 0, f'{data["idle"]}')
    t.ok(data['memory_in_use']['kib'] > 0, f'{data["memory_in_use"]}')
    t.eq(left_behind(t), [], 'processes left')
    t.eq(sorted(os.listdir(t.dir)), ['commands.log', 'out'], 'files left')


@test
def rows_of_tcp_are_measured_beside_iwarp(t):
    needs_both()
    rows = ('floor-each', 'null', 'tcp', 'tcp-digests', 'tls', 'memory-tcp')
    res, data = bench(t, '--rows', ','.join(rows), '--no-idle')
    for row in rows:
        good = samples(data, row)
        t.ok(good, f'no samples of {row}')
        t.eq([entry['error'] for entry in good if 'error' in entry], [], f'errors of {row}')
        t.ok(all(isinstance(entry['iops'], (int, float)) for entry in good), f'{row}: {good}')
    t.ok('NVMe/TCP / iwarp' in res.text and 'TLS / plain NVMe/TCP' in res.text, res.text)


@test
def plots_appear(t):
    if subprocess.run(['/usr/bin/python3', '-c', 'import matplotlib'], capture_output=True, check=False).returncode:
        raise lacks('python3-matplotlib')
    bench(t, '--rows', 'floor', '--no-idle', plotted=True)
    for name in ('depth', 'connections'):
        with open(t.path(f'out/{name}.svg'), encoding='utf-8') as f:
            svg = f.read()
        t.ok('<svg' in svg and 'bare TCP program' not in svg[:100], f'{name}.svg is no picture')
        with open(t.path(f'out/{name}.png'), 'rb') as f:
            t.eq(f.read(8), b'\x89PNG\r\n\x1a\n', f'{name}.png')


@test
def other_peers_are_asked_with_placeholders_and_environment(t):
    script = t.file('peer.sh', b'echo starting\n'
                    b'echo "$1 $RD_BENCH_RW $2 $RD_BENCH_SIZE $3 $RD_BENCH_DEPTH $4 $RD_BENCH_SECONDS" >>"$0.log"\n'
                    b'echo "{\\"iops\\": 2000, \\"lat_us\\": {\\"mean\\": 8.5, \\"p99\\": 9}}"\n')
    _, data = bench(t, '--rows', '', '--no-idle', '--vs', f'peer=sh {script} {{rw}} {{size}} {{depth}} {{seconds}} {{other}}',
                    '--vs', 'echo 12.5')
    with open(script + '.log', encoding='utf-8') as f:
        t.eq(f.read().splitlines(), ['randread randread 4096 4096 1 1 0.05 0.05',
                                     'randwrite randwrite 4096 4096 32 32 0.05 0.05'], 'what the peer was asked for')
    for entry in samples(data, 'vs-peer'):
        t.eq((entry['iops'], entry['lat_us']['mean'], entry['lat_us']['p99']), (2000, 8.5, 9), 'sample')
    t.eq([entry['iops'] for entry in samples(data, 'vs-vs2')], [12.5, 12.5], 'of a plain number')


@test
def git_is_not_needed(t):
    os.mkdir(t.path('bin'))
    for folder in filter(os.path.isdir, os.get_exec_path()):
        for name in os.listdir(folder):
            if name != 'git' and not os.path.lexists(t.path(f'bin/{name}')):
                os.symlink(os.path.join(folder, name), t.path(f'bin/{name}'))
    res = t.run(arguments(t, '--rows', '', '--no-idle', '--no-plots', '--vs', 'echo 12.5'),
                env={**environment(), 'PATH': t.path('bin')})
    t.eq(res.rc, 0, f'exit status\n{res.err}')
    with open(t.path('out/results.json'), encoding='utf-8') as f:
        t.match('version unknown', json.load(f)['version'])


@each(('it exits with an error', 'echo out of luck >&2; exit 3', 'exit 3: out of luck'),
      ('it prints words', 'echo fast', 'neither a number nor JSON'),
      ('it prints nothing', 'true', 'printed nothing'),
      ('it does nothing', 'echo 0', '0 I/Os per second'),
      ('it is killed', 'kill -9 $$', 'SIGKILL'))
def a_peer_that_fails_is_reported_and_the_rest_goes_on(t, command, says):
    res, data = bench(t, '--rows', 'floor', '--no-idle', '--vs', f'bad={command}', '--vs', 'good=echo 5')
    for entry in samples(data, 'vs-bad'):
        t.match(says, entry['error'], 'error')
    t.match(rf'(?m)^- bad: .*{says}', res.text)
    t.match(says, res.err)
    t.eq([entry['iops'] for entry in samples(data, 'vs-good')], [5.0, 5.0], 'of the peer after it')
    t.ok(all(entry.get('iops') for entry in samples(data, 'floor')), 'the floor was not measured')


@test
def a_server_that_does_not_start_is_reported_and_the_rest_goes_on(t):
    for folder in ('target', 'tools/benchmark', 'initiator'):
        os.makedirs(t.path(f'build/{folder}'))
    for real in ('tools/benchmark/rdfloor', 'initiator/rdinit'):
        os.symlink(os.path.join(build_root(), real), t.path(f'build/{real}'))
    fake = t.file('build/target/rdtarget', b'#!/bin/sh\necho no disk today >&2\nexit 4\n')
    os.chmod(fake, 0o755)
    res, data = bench(t, '--rows', 'floor,null', '--build', t.path('build'))
    for entry in samples(data, 'null'):
        t.match('exit 4: no disk today', entry['error'], 'error')
    t.match('no disk today', data['idle']['error'])
    t.ok(all(entry.get('iops') for entry in samples(data, 'floor')), 'the floor was not measured')
    t.match(r'\| rdtarget null, rdinit bench \| failed \|', res.text)


def known_results(t, apart=(), **machine):
    """Results whose ratios can be computed by hand; @apart: how far apart the processors were in each repetition."""
    floor, ours = (100, 200, 400), (80, 150, 312)   # 0.80, 0.75, 0.78
    entries = [{'row': row, 'point': 'randread-4096-1-1', 'repetition': n, 'iops': iops,
                'lat_us': {'mean': 1e6 / iops}, 'client_cpu_us': 1.5, 'server_cpu_us': None}
               for row, values in (('floor', floor), ('null', ours)) for n, iops in enumerate(values)]
    if apart:
        for entry in entries:
            entry['apart_ns'] = apart[entry['repetition']]
    entries += [{'row': row, 'point': 'read-131072-32-1', 'repetition': 0, 'iops': iops, 'lat_us': {'mean': 1.0},
                 'client_cpu_us': None, 'server_cpu_us': None} for row, iops in (('floor', 100), ('null', 90))]
    rows = [{'name': name, 'title': title, 'group': 'null', 'note': ''}
            for name, title in (('floor', 'bare TCP program'), ('null', 'rdtarget null, rdinit bench'))]
    data = {'format': 1, 'started': 'then', 'seconds': 60, 'version': 'version x', 'congestion': 'reno',
            'machine': {'cpu': 'abacus', 'cpus': 2, 'virtual': False, 'kernel': 'Linux', 'governor': 'unknown',
                        'memory_mib': 1024, 'distribution': 'Debian', **machine},
            'quiet': {'load_before': 0, 'others_before': 0, 'others_after': 0, 'steal': 0, 'quiet': True},
            'namespace_error': None, 'rows': rows, 'samples': entries,
            'options': {'profile': 'full', 'seconds': 1, 'repetitions': 3, 'server_cpu': 0, 'client_cpu': 1},
            'idle': {'connections': 256, 'controllers': 4, 'keep_alive_ms': 5000, 'keep_alives_s': 1.6, 'queue_depth': 128, 'memory_kib': 257.0,
                     'silent': {'seconds': 1, 'wakeups_s': 0.0, 'cpu_percent': 0},
                     'kept_alive': {'seconds': 1, 'wakeups_s': 1.5, 'cpu_percent': 0.25}}, 'memory_in_use': None}
    os.makedirs(t.path('out'))
    t.file('out/results.json', json.dumps(data).encode())


@test
def goals_are_judged_by_the_median_of_each_repetitions_ratio(t):
    known_results(t)
    text = t.run([BENCH, '--redraw', t.path('out'), '--no-plots'], env=environment()).text
    for line in ('| rdtarget null / bare TCP: 4 KiB random read, depth 1 | 0.78 | 0.75 to 0.80 | ≥ 0.75 | met |',
                 '| rdtarget null / bare TCP: 4 KiB random write, depth 1 | - |  | ≥ 0.75 | not measured |',
                 '| rdtarget null / bare TCP: 128 KiB sequential read, depth 32 | 0.90 | 0.90 to 0.90 | ≥ 0.95 | **not met** |',
                 '| Wake-ups with 256 idle connections, without keep-alive | 0.00/s |  | ≤ 0/s | met |',
                 '| CPU with 256 idle connections, with keep-alive | 0.25 % |  | ≤ 0.2 % | **not met** |',
                 '| Memory for each connection, idle | 257.00 KiB |  | ≤ 256 KiB | **not met** |',
                 '| bare TCP program | 200 ±75 % | 0.01 GiB/s ±0 % |'):
        t.ok(line in text, f'no line\n{line}\nin\n{text}')


@each(('is not known', {}, False), ('does not', {'free_memory_taken_back': False}, False),
      ('does', {'free_memory_taken_back': True}, True))
def a_hypervisor_that_takes_memory_back_is_told_of(t, machine, told):
    known_results(t, **machine)
    text = t.run([BENCH, '--redraw', t.path('out'), '--no-plots'], env=environment()).text
    t.eq('The hypervisor takes back memory' in text, told, text)


@each(('is not known', (), None, None), ('is near', (90, 100, 110), '100 ns', None),
      ('changes', (90, 400, 110), '110 ns', ('| near | 0.79 (2) |', '| far | 0.75 (1) |')))
def how_far_the_processors_were_is_told(t, apart, middle, lines):
    known_results(t, apart)
    text = t.run([BENCH, '--redraw', t.path('out'), '--no-plots'], env=environment()).text
    t.eq('A cache line takes' in text, bool(apart), text)
    t.eq('| near |' in text, bool(lines), text)
    for line in (f'A cache line takes {middle}',) * bool(middle) + (lines or ()):
        t.ok(line in text, f'no line\n{line}\nin\n{text}')


INTERRUPTS = '''           CPU0       CPU2
  9:          7          0   IO-APIC   9-fasteoi   acpi
 36:         {}         {}   PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 37:          3          0   PCI-MSIX-0000:00:02.0   2-edge      virtio1-req.1
NMI:          5          5   Non-maskable interrupts
ERR:          0
'''


def sysfs(t):
    """A tree as /sys has it: vda with a partition, MSI interrupts, and a mapped device on that partition; sda with one
    interrupt of its controller; loop0 with none."""
    for path, content in (('devices/pci0/02.0/virtio1/block/vda/vda1/partition', '1'), ('devices/pci0/02.0/irq', '24'),
                          ('devices/pci0/02.0/msi_irqs/35', 'msi'), ('devices/pci0/02.0/msi_irqs/36', 'msi'),
                          ('devices/pci0/02.0/virtio1/block/vda/vda1/dev', '254:1'),
                          ('devices/pci0/03.0/irq', '9'), ('devices/pci0/03.0/host0/block/sda/dev', '8:0'),
                          ('devices/pci0/irq', '0'), ('devices/virtual/block/loop0/dev', '7:0'),
                          ('devices/virtual/block/dm-0/dev', '253:0')):
        os.makedirs(os.path.dirname(t.path(f'sys/{path}')), exist_ok=True)
        t.file(f'sys/{path}', content.encode())
    os.makedirs(t.path('sys/dev/block'))
    os.makedirs(t.path('sys/devices/virtual/block/dm-0/slaves'))
    vda = 'devices/pci0/02.0/virtio1/block/vda'
    for name, path in (('254:0', vda), ('254:1', f'{vda}/vda1'), ('8:0', 'devices/pci0/03.0/host0/block/sda'),
                       ('7:0', 'devices/virtual/block/loop0'), ('253:0', 'devices/virtual/block/dm-0')):
        os.symlink(f'../../{path}', t.path(f'sys/dev/block/{name}'))
    os.symlink(f'../../../../../{vda}/vda1', t.path('sys/devices/virtual/block/dm-0/slaves/vda1'))
    return t.path('sys')


@test
def the_interrupts_of_a_disk_are_found(t):
    tree = sysfs(t)
    for device, expected in (('254:0', {'35', '36'}), ('254:1', {'35', '36'}), ('253:0', {'35', '36'}), ('8:0', {'9'}),
                             ('7:0', set()), ('0:25', set())):
        t.eq(disk.irqs(device, tree), expected, device)
    before, after = (disk.interrupts({'36', '37'}, INTERRUPTS.format(*counts)) for counts in ((5, 100), (5, 350)))
    t.eq((before, after), ({0: 8, 2: 100}, {0: 8, 2: 350}), 'as /proc/interrupts has them')
    t.eq(disk.arrived(before, after), {'2': 250}, 'between the two')
    t.eq(disk.interrupts(set(), INTERRUPTS.format(1, 1)), {0: 0, 2: 0}, 'of no device')
    t.eq(disk.interrupts({'36'}, ''), {}, 'of nothing')


@test
def stolen_time_is_that_of_one_processor(t):
    text = 'cpu  9 9 9 9 9 9 9 999 0 0\ncpu1 1 2 3 4 5 6 7 250 0 0\ncpu10 1 2 3 4 5 6 7 8 0 0\nintr 5\n'
    hertz = os.sysconf('SC_CLK_TCK')
    t.eq([disk.steal(cpu, text) for cpu in (1, 10, 2)], [250 / hertz, 8 / hertz, 0.0], 'seconds')


@test
def rows_of_a_disk_say_where_its_interrupts_arrive_and_what_a_spinning_thread_lost(t):
    requires_program('fio')
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip('needs two processors')
    res, data = bench(t, '--rows', 'local,local-spin', '--no-idle')
    failed = [entry['error'] for entry in samples(data, 'local') if 'error' in entry]
    if failed:
        raise Skip(f'fio cannot measure a file here: {failed[0]}')
    for entry in samples(data, 'local-spin'):
        t.ok('error' not in entry, entry.get('error'))
        t.eq(sorted(entry['spinner']), ['gaps', 'gaps_s', 'longest_us', 'seconds', 'steal_s'], 'what was counted')
        t.ok(0 < entry['spinner']['seconds'] and entry['spinner']['gaps_s'] <= entry['spinner']['seconds'], entry)
    t.ok(all(isinstance(entry['interrupts'], dict) for entry in data['samples']), 'interrupts')
    t.ok('Taken from the thread of "local file beside a spinning thread"' in res.text, res.text)
    t.ok(('The disk\'s interrupts arrived on' in res.text) != ('arrived is not known' in res.text), res.text)
    t.eq(left_behind(t), [], 'processes left')


@test
def a_file_is_compared_with_fio_beside_a_spinning_thread(t):
    known_results(t)
    with open(t.path('out/results.json'), encoding='utf-8') as f:
        data = json.load(f)
    for n in range(2):
        for row, iops, irqs, taken in (('local', 500, {'1': 1000}, None), ('file', 190, {'0': 10, '1': 20, '3': 10}, None),
                                       ('local-spin', 200, {'1': 600, '0': 200}, (0.05 * n, 0.1, 1000 + 1500 * n))):
            entry = {'row': row, 'point': 'randread-4096-32-1', 'repetition': n, 'iops': iops, 'lat_us': {'mean': 1.0},
                     'interrupts': irqs}
            if taken:
                entry['spinner'] = {'seconds': 0.5, 'gaps': 9, 'steal_s': taken[0], 'gaps_s': taken[1], 'longest_us': taken[2]}
            data['samples'].append(entry)
    data['rows'] += [{'name': name, 'title': name, 'group': 'file', 'note': ''} for name in ('local', 'local-spin', 'file')]
    t.file('out/results.json', json.dumps(data).encode())
    text = t.run([BENCH, '--redraw', t.path('out'), '--no-plots'], env=environment()).text
    for line in ('| file: rdtarget / local fio beside a spinning thread: 4 KiB random read, depth 32 | 0.95 | 0.95 to 0.95 | '
                 '≥ 0.95 | met |', '| local | 0 % | 100 % | 0 % | 2000 |', '| local-spin | 25 % | 75 % | 0 % | 1600 |',
                 '| file | 25 % | 50 % | 25 % | 80 |',
                 '| Taken from the thread of "local-spin" | 4K randread 1 | 128K read 32 | 4K randread 32 |',
                 '| by the hypervisor (steal in /proc/stat) | - | - | 5.0 % |',
                 '| in all (the thread did not run for 5 µs or more) | - | - | 20.0 % |',
                 '| at once, at most | - | - | 2.5 ms |'):
        t.ok(line in text, f'no line\n{line}\nin\n{text}')


@test
def results_are_drawn_again_and_put_into_a_page(t):
    known_results(t)
    page = t.file('page.md', f'before\n{BEGIN}\nold\n{END}\nafter\n'.encode())
    res = t.run([BENCH, '--redraw', t.path('out'), '--into', page], env=environment())
    t.eq(res.rc, 0, f'exit status\n{res.err}')
    with open(page, encoding='utf-8') as f:
        text = f.read()
    t.match(r'(?s)\Abefore\n.*abacus.*after\n\Z', text, 'the page')
    t.ok('\nold\n' not in text, 'what was between the marks is still there')
    if 'no plots' not in res.err:
        t.match(r'!\[[^]]*\]\(page-depth.svg\)', text, 'the page')
        t.ok(os.path.exists(t.path('page-depth.svg')), 'the plot is not beside the page')
    res = t.run([BENCH, '--redraw', t.path('out'), '--into', t.file('bare.md', b'no marks\n')], env=environment())
    t.eq(res.rc, 1, 'exit status for a page without marks')
    t.match('bare.md: expected one line', res.err)


@test
def the_emulated_machine_is_compared_repetition_by_repetition(t):
    def load(target, n, iops):
        return {'host': 'kernel', 'target': target, 'rw': 'randread', 'depth': 32, 'repetition': n, 'iops': iops,
                'machine_cpu_us': 100.0, 'rdtarget_cpu_us': 40.0}
    samples = [load('rdtarget', 0, 3000), load('nvmet', 0, 2000), load('rdtarget', 1, 1000), load('nvmet', 1, 2000),
               load('rdtarget', 2, 2400), load('nvmet', 2, 2000), {**load('nvmet', 3, 0), 'iops': 0}]
    samples.append({'host': 'fio', 'target': 'nvmet', 'rw': 'randread', 'depth': 1, 'repetition': 0, 'error': 'fio: exit 1'})
    os.makedirs(t.path('out'))
    t.file('out/vm.json', json.dumps({'samples': {'rxe': samples}, 'errors': {'siw': 'no such machine'}}).encode())
    text = t.run([BENCH, '--redraw', t.path('out')], env=environment()).text
    for line in ('| rxe | kernel host (nvme-rdma) | randread 32 | 2.4 k | 2.0 k | 1.20 (0.50 to 1.50) | met | 100.0 | 100.0 | 40.0 |',
                 '| rxe | fio rdinit | randread 1 | failed | failed | - | not measured | failed | failed | failed |',
                 '- siw: not measured: no such machine', '- rxe: fio: exit 1'):
        t.ok(line in text, f'no line\n{line}\nin\n{text}')


@test
def the_page_of_the_project_has_its_marks(t):
    with open(os.path.join(SOURCE_ROOT, 'docs', 'notes', 'measured.md'), encoding='utf-8') as f:
        text = f.read()
    t.eq((text.count(BEGIN), text.count(END)), (1, 1), 'marks')


@each(('a row', ['--rows', 'floor,nul'], 'nul: expected some of'),
      ('no time', ['--seconds', '0'], 'seconds 0: expected more than 0'),
      ('no repetition', ['--repetitions', '0'], 'repetitions 0: expected 1 or more'),
      ('a processor', ['--client-cpu', '4000'], 'client-cpu 4000: expected one of'),
      ('a device', ['--vm', 'rxe,eth0'], 'vm rxe,eth0: expected some of rxe, siw'),
      ('nonsense', ['--fast'], 'unrecognized arguments: --fast'))
def wrong_options_are_refused(t, args, says):
    res, _ = bench(t, *args, rc=2)
    t.match(says, res.err)


@test
def ended_early_it_leaves_nothing(t):
    started = t.path('started')
    proc = t.spawn('bench', arguments(t, '--rows', 'null', '--vs', f'touch {started}; sleep 1000'), env=environment())
    wait_for(lambda: os.path.exists(started), 'the peer to run')
    proc.signal(signal.SIGTERM)
    t.eq(proc.wait(), 143, 'exit status')
    wait_for(lambda: not left_behind(t), f'{left_behind(t)} to end')
    t.eq([name for name in os.listdir(t.dir) if name.startswith('rdnvme-bench-')], [], 'folders left')


if __name__ == '__main__':
    sys.exit(main())
