# SPDX-License-Identifier: BSD-3-Clause
"""Many connections: the cost of idle ones, the memory of each, what happens when descriptors run out, and the CPUs of
the threads that serve them."""

import contextlib
import os
import re
import resource
import socket
import subprocess
import sys
import time

from t_loop import (ADDR, FABRIC, NQN, SANITIZED, Skip, main, program, requires_engine, requires_native,
                    requires_program, test, to_yaml, wait_for)
from t_serving import Peer, exercise, host

QUEUES = 32  # of each host
KIB = 1024


def requires_files(count):
    """Raise our own limit; the daemon raises its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise Skip(f'needs {count} open files, {hard} are allowed')
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def connect(target, stack, count):
    """@count queues, including admin queues."""
    hosts = []
    while count:
        h = stack.enter_context(host(target))
        h.enable()
        for _ in range(min(count - 1, QUEUES)):
            h.add_io()
        count -= 1 + min(count - 1, QUEUES)
        hosts.append(h)
    return hosts


def effort(target):
    return target.context_switches(), target.cpu_ticks()


@test
def idle_connections_wake_nobody(t):
    """For two seconds no thread runs, so no processor time is used."""
    requires_native()
    requires_files(600)
    target = t.target([t.namespace(backend='null')], args=('--log', 'notice'))
    with contextlib.ExitStack() as stack:
        for h in connect(target, stack, 256):
            h.io[0].read_blocks(1, 0, 8)

        def quiet():
            before = effort(target)
            time.sleep(2)  # the test measures the events of this time
            return effort(target) == before
        wait_for(quiet, 'two seconds in which no thread of rdtarget runs')


@test
def a_thousand_queue_pairs_on_one_reactor(t):
    """All of them work, and none takes more than 256 KiB."""
    count = 1000 if not SANITIZED else 100
    requires_files(2 * count + 500)
    target = t.target([t.namespace(backend='memory')], target={'reactors': 1, 'queue_depth': 128})
    exercise(target)
    before = target.rss()
    with contextlib.ExitStack() as stack:
        queues = [q for h in connect(target, stack, count) for q in h.io]
        pending = [q.post_write(1, 8 * i, bytes([i % 251]) * 4096) for i, q in enumerate(queues)]
        for p in pending:
            t.eq(p.wait().status, 0, 'status of a write')
        pending = [q.post_read(1, 8 * i, 8) for i, q in enumerate(queues)]
        for i, p in enumerate(pending):
            t.eq(p.wait().status, 0, 'status of a read')
            t.same(p.data, bytes([i % 251]) * 4096)
        each = (target.rss() - before) / count
        t.note(f'{count} connections: {each / KIB:.1f} KiB of memory each')
        if not SANITIZED:
            t.ok(each <= 256 * KIB, f'{each / KIB:.1f} KiB of memory for each')
    wait_for(lambda: target.counters()['io_queues'] == 0, 'the queues to end')


@test
def out_of_descriptors_is_said(t):
    """New connections wait until descriptors are free; existing ones are served."""
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    requires_files(400)
    target = t.target([t.namespace(backend='memory')], preexec_fn=few)
    with contextlib.ExitStack() as stack:
        h = connect(target, stack, 2)[0]
        with contextlib.ExitStack() as crowd:
            for _ in range(80):
                crowd.enter_context(socket.create_connection((target.addr, target.port)))
            target.expect(r'accept: all 64 file descriptors are in use')
            t.eq(h.io[0].write_blocks(1, 0, bytes(4096)).status, 0, 'status of a write')
        exercise(target)


@test
def sockets_are_as_their_listener_says(t):
    with open('/proc/sys/net/ipv4/tcp_available_congestion_control', encoding='ascii') as names:
        known = names.read().split()
    if FABRIC != 'iwarp':
        raise Skip('over iwarp only')
    if len(known) < 2:
        raise Skip('the kernel has one congestion control only')
    requires_program('ss')
    listeners = [{'congestion': known[1], 'send_buffer': '64KiB', 'receive_buffer': '32KiB'}, {}]
    config = t.path('listeners.yaml')
    with open(config, 'w', encoding='utf-8') as f:
        f.write(to_yaml({
            'target': {'congestion': known[0]},
            'listeners': [{'address': ADDR, 'port': 0, 'provider': FABRIC, **keys} for keys in listeners],
            'subsystems': [{'nqn': NQN, 'allow_any_host': True, 'namespaces': [t.namespace(backend='memory')]}]}) + '\n')
    target = t.target(config=config)
    for (addr, port), name, keys in zip(target.listeners, (known[1], known[0]), listeners):
        with Peer(addr, port, NQN) as h:
            h.enable()
            ss = subprocess.run(['ss', '-tinmH', 'state', 'established', 'sport', '=', f':{port}'],
                                capture_output=True, text=True, check=True).stdout
            t.match(rf'\b{name}\b', ss, 'congestion control')
            # The kernel doubles the value that is set, for its own needs.
            t.eq('rb65536,' in ss and 'tb131072,' in ss, bool(keys), f'buffer sizes in {ss}')


@test
def sockets_of_a_host_are_as_it_says(t):
    if FABRIC != 'iwarp':
        raise Skip('over iwarp only')
    requires_program('ss')
    target = t.target([t.namespace(backend='memory', layers=[{'type': 'delay', 'read': '1s'}])])
    reader = t.spawn('reader', [program('rdinit'), 'read', target.uri(), '--data-size', '4096',
                                '--congestion', 'reno', '--send-buffer', '64k', '--receive-buffer', '32k'])

    def seen():
        ss = subprocess.run(['ss', '-tinmH', 'state', 'established', 'dport', '=', f':{target.port}'],
                            capture_output=True, text=True, check=True).stdout
        return 'reno' in ss and 'rb65536,' in ss and 'tb131072,' in ss
    wait_for(seen, 'a socket as rdinit was told')
    t.eq(reader.wait(), 0, 'exit status of rdinit')
    res = t.rdinit('read', target.uri(), '--send-buffer', '2GiB', rc=2)
    t.match(r'--send-buffer: "2GiB" is more than 1GiB', res.err)


@test
def an_unknown_congestion_control_is_named(t):
    if FABRIC != 'iwarp':
        raise Skip('over iwarp only')
    said = 'congestion: no-such: this kernel has no TCP congestion control'
    for start in ('all-or-nothing', 'serve-what-it-can'):
        config = t.config([t.namespace(backend='memory')], target={'start': start},
                          listeners=[{}, {'congestion': 'no-such'}])
        if start == 'all-or-nothing':
            res = t.run([program('rdtarget'), config])
            t.eq(res.rc, 1, 'exit status')
            t.match(said, res.err)
            continue
        target = t.target(config=config)
        target.expect(f'{said} .*trying again every second')
        target.reload('reloaded')  # tries again, too
        target.stop()
        t.eq(len(re.findall(f'{said} .*trying again', target.text())), 1, 'times that it was said')


def affinity(target):
    cpus = {}
    for tid in os.listdir(f'/proc/{target.pid}/task'):
        status = target.proc(f'task/{tid}/status')
        name = re.search(r'^Name:\s+(\S+)', status, re.M).group(1)
        cpus[name] = re.search(r'^Cpus_allowed_list:\s+(\S+)', status, re.M).group(1)
    return cpus


@test
def reactors_run_where_they_are_told(t):
    cpus = sorted(os.sched_getaffinity(0))
    told = [cpus[-1], cpus[0], cpus[-1]]
    target = t.target([t.namespace(backend='memory')], target={'cpus': told})
    found = wait_for(lambda: (lambda c: c if 'reactor-2' in c else None)(affinity(target)), 'reactors')
    t.eq([found[f'reactor-{i}'] for i in range(3)], [str(c) for c in told], 'CPUs')
    exercise(target)


def sqpoll_thread(target):
    """The kernel's thread of the one reactor: its CPUs and whether it sleeps; None while there is none."""
    for tid in os.listdir(f'/proc/{target.pid}/task'):
        status = target.proc(f'task/{tid}/status')
        if 'iou-sqp' in status.splitlines()[0]:
            return (re.search(r'^Cpus_allowed_list:\s+(\S+)', status, re.M).group(1),
                    re.search(r'^State:\s+(\S)', status, re.M).group(1) == 'S')
    return None


def write_and_compare(t, target, data):
    t.rdinit('write', target.uri(), '--data', t.file('in', data))
    t.rdinit('read', target.uri(), '--data', t.path('out'), '--data-size', str(len(data)))
    with open(t.path('out'), 'rb') as f:
        t.same(f.read(), data)


@test
def the_kernel_submits_where_it_is_told(t):
    requires_engine('io_uring')
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise Skip('needs two CPUs')
    target = t.target([t.namespace(engine='io_uring', size='4MiB')],
                      target={'cpus': cpus[:1], 'sqpoll': '10ms', 'sqpoll_cpus': cpus[-1:]})
    if 'sqpoll: cannot create the thread' in '\n'.join(target.lines):
        raise Skip('the kernel makes no threads for submission')
    for i in range(2):
        write_and_compare(t, target, os.urandom(4 << 20))
        t.eq(sqpoll_thread(target)[0], str(cpus[-1]), 'CPUs of the thread')
        # An idle reactor uses no processor time, and the next command wakes it.
        wait_for(lambda: sqpoll_thread(target)[1], 'the thread to sleep')


def missing_cpu():
    if 1023 in os.sched_getaffinity(0):
        raise Skip('this machine has CPU 1023')
    return 1023


@test
def no_place_for_the_kernel_to_submit(t):
    requires_engine('io_uring')
    missing = missing_cpu()
    target = t.target([t.namespace(engine='io_uring', size='1MiB')],
                      target={'reactors': 1, 'sqpoll': '1ms', 'sqpoll_cpus': [missing]})
    t.match(r'sqpoll: cannot create the thread for submission on CPU 1023: .*submitting by system calls', '\n'.join(target.lines))
    write_and_compare(t, target, os.urandom(1 << 20))


@test
def a_cpu_that_is_not_there_is_named(t):
    missing = missing_cpu()
    config = t.config([t.namespace(backend='memory')], target={'cpus': [missing]})
    res = t.run([program('rdtarget'), config])
    t.eq(res.rc, 1, 'exit status')
    t.match(r'cpus: reactor 0 cannot run on CPU 1023: .*Cpus_allowed_list', res.err)


if __name__ == '__main__':
    sys.exit(main())
