# SPDX-License-Identifier: BSD-3-Clause
"""The package rdinit for Python: a device for threads and for asyncio, a controller with its commands, errors with their
NVMe status, lost connections, what is closed or freed, and `python3 -m rdinit`."""

import asyncio
import dataclasses
import errno
import gc
import glob
import os
import re
import shlex
import signal
import struct
import sys
import threading

import nvmf_peer as nv
import t_tls
import tcp_target
from t_loop import NQN, SOURCE_ROOT, Result, each, main, program, requires_native, requires_program, test, wait_for
from t_proxy import Proxy

BLOCK = 512


def package():
    """The package of this build. It is loaded into this process, which has no sanitizer."""
    requires_native()
    for folder in program('rdinit_python').split(':'):
        if folder not in sys.path:
            sys.path.append(folder)
    import rdinit
    return rdinit


def device(t, target, *, uri=None, **options):
    dev = package().Device(uri or target.uri(), **options)
    t.cleanup(dev.close)
    return dev


def refused(t, kind, pattern, fn, *args, **kw):
    """The exception of a call."""
    try:
        fn(*args, **kw)
    except kind as error:
        t.match(pattern, str(error))
        return error
    raise AssertionError(f'expected {kind.__name__} "{pattern}", found no exception')


def session(t, *args, rc=0, **kw) -> Result:
    """python3 -m rdinit"""
    env = dict(os.environ, PYTHONPATH=program('rdinit_python'))
    res = t.run([sys.executable, '-m', 'rdinit', *args], env=env, **kw)
    t.eq(res.rc, rc, f'exit status; {res.err}')
    return res


# ---- devices ----

@each(('over iwarp', 'rdma'), ('over NVMe/TCP', 'tcp'))
def every_command_of_a_channel_does_what_it_says(t, transport):
    target = t.target(listener={'transport': transport} if transport == 'tcp' else None)
    uri = target.uri().replace('rdma', transport)
    with device(t, target, uri=uri, channels=2) as dev, dev.channel() as chan:
        t.eq((dev.info().blocks, chan.block_size, chan.inflight), (16 * 2048, BLOCK, 0), 'blocks, block size, in flight')
        data, other = os.urandom(8 * BLOCK), os.urandom(8 * BLOCK)
        chan.write(16, data, fua=True)
        t.same(bytes(chan.read(16, 8)), data)
        target_of_read = memoryview(bytearray(10 * BLOCK))[BLOCK:9 * BLOCK]
        chan.read_into(16, target_of_read)
        t.same(bytes(target_of_read), data)
        chan.compare(16, data)
        chan.compare_write(16, data[:BLOCK], other[:BLOCK])
        t.same(bytes(chan.read(16, 8)), other[:BLOCK] + data[BLOCK:])
        chan.copy(17, 64, 7)
        t.same(bytes(chan.read(64, 7)), data[BLOCK:])
        chan.verify(16, 8)
        chan.write_zeroes(16, 4)
        chan.deallocate(20, 4)
        t.same(bytes(chan.read(16, 8)), bytes(8 * BLOCK))
        chan.flush()


@test
def the_size_and_kind_of_a_buffer_are_checked(t):
    chan = device(t, t.target()).channel()
    refused(t, ValueError, 'found 511 bytes of data, expected a multiple of the block size, 512', chan.write, 0, bytes(511))
    refused(t, ValueError, 'found 0 bytes', chan.write, 0, b'')
    refused(t, BufferError, '', chan.read_into, 0, bytes(BLOCK))
    refused(t, ValueError, 'expected the same', chan.compare_write, 0, bytes(BLOCK), bytes(2 * BLOCK))
    refused(t, OverflowError, '', chan.read, -1, 1)
    refused(t, TypeError, '', chan.write, 0, 'text')


@test
def an_error_has_the_errno_the_reason_and_the_status(t):
    rdinit = package()
    dev = device(t, t.target())
    chan = dev.channel()
    t.eq(refused(t, rdinit.Error, 'end', chan.read, dev.info().blocks, 1).errno, errno.EINVAL)
    error = refused(t, rdinit.Error, 'Compare Failure', chan.compare, 0, b'\1' * BLOCK)
    t.eq((error.errno, error.status_code_type, error.status_code), (errno.EIO, 2, 0x85), 'errno and status')
    t.ok(isinstance(error, OSError), 'Error is an OSError')


@test
def options_are_the_members_of_the_structures(t):
    rdinit = package()
    target = t.target()
    dev = device(t, target, queue_size=5, policy=rdinit.Policy.FAILOVER, hostnqn='nqn.2026-01.org.example:py')
    t.eq(dev.channel().depth, 4, 'commands in flight with queue_size=5')
    target.expect('nqn.2026-01.org.example:py')
    refused(t, TypeError, "'queue_sise' is no option; there are: policy, channels, queue_size,.*hostnqn.*secret_file",
            rdinit.Device, target.uri(), queue_sise=5)
    refused(t, TypeError, "hostnqn: found 5, expected a text", rdinit.Device, target.uri(), hostnqn=5)
    refused(t, OverflowError, '', rdinit.Device, target.uri(), queue_size=70000)
    refused(t, rdinit.Error, 'queue_size', rdinit.Device, target.uri(), queue_size=1)
    refused(t, rdinit.Error, 'SUBNQN|subsystem', rdinit.Device, f'nvme+rdma://127.0.0.1:{target.port}')
    refused(t, rdinit.Error, 'no secret|secret', rdinit.Device, target.uri(), secret='no key')


@test
def records_have_all_members_of_their_structures(t):
    rdinit = package()
    from _rdinit import ffi
    for cls, struct in ((rdinit.DeviceInfo, 'rdinit_dev_info'), (rdinit.PathInfo, 'rdinit_dev_path_info'),
                        (rdinit.Event, 'rdinit_dev_event'), (rdinit.Extent, 'rdinit_dev_extent'),
                        (rdinit.ControllerInfo, 'rdinit_ctrl_info'), (rdinit.DiscoveryRecord, 'rdinit_discovery_record')):
        members = [name for name, _ in ffi.typeof(f'struct {struct}').fields if name != 'size']
        t.eq([field.name for field in dataclasses.fields(cls)], members, f'members of {struct}')
    for cls, prefix in ((rdinit.State, 'RDINIT_DEV_'), (rdinit.PathState, 'RDINIT_DEV_PATH_'),
                        (rdinit.Policy, 'RDINIT_DEV_'), (rdinit.EventType, 'RDINIT_DEV_EVENT_')):
        name = {'State': 'rdinit_dev_state', 'PathState': 'rdinit_dev_path_state', 'Policy': 'rdinit_dev_policy',
                'EventType': 'rdinit_dev_event_type'}[cls.__name__]
        t.eq({f'{prefix}{member.name}': member.value for member in cls},
             {text: value for value, text in ffi.typeof(f'enum {name}').elements.items()}, f'values of {name}')


@test
def a_lost_path_is_told_and_the_commands_wait_for_it(t):
    rdinit = package()
    target = t.target()
    proxy = Proxy(t, target.addr, target.port)
    events = []
    dev = device(t, target, uri=proxy.uri(target), on_event=events.append,
                 reconnect_delay_ms=100)
    chan = dev.channel()
    chan.write(0, b'a' * BLOCK)
    proxy.reset()
    # No call of the program is needed: the thread of the device finds that the path is lost, and connects it again.
    wait_for(lambda: [e.path_state for e in list(events) if e.type == rdinit.EventType.PATH][-1:] ==
             [rdinit.PathState.LIVE] and any(e.path_state == rdinit.PathState.LOST for e in list(events)),
             'events of the loss and of the new connection')
    t.same(bytes(chan.read(0, 1)), b'a' * BLOCK)
    t.eq((len(dev.paths()), dev.paths()[0].losses >= 1), (1, True), 'paths, and whether one was lost')


@test
def threads_use_a_channel_each(t):
    dev = device(t, t.target(), channels=4)
    failures = []

    def work(number):
        try:
            with dev.channel() as chan:
                for step in range(50):
                    lba = number * 1024 + step * 8
                    data = os.urandom(8 * BLOCK)
                    chan.write(lba, data)
                    if bytes(chan.read(lba, 8)) != data:
                        failures.append(f'thread {number}: other data at {lba}')
        except Exception as error:  # pylint: disable=broad-except
            failures.append(f'thread {number}: {error}')

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    t.eq(failures, [], 'failures')


@test
def what_is_closed_says_so_and_what_is_forgotten_is_freed(t):
    rdinit = package()
    target = t.target()
    dev = rdinit.Device(target.uri())
    chan = dev.channel()
    dev.close()
    dev.close()
    refused(t, ValueError, 'the device is closed', dev.info)
    refused(t, ValueError, 'the channel is closed', chan.read, 0, 1)
    since = target.mark()
    chan = rdinit.Device(target.uri()).channel()
    gc.collect()
    t.same(bytes(chan.read(0, 1)), bytes(BLOCK))  # the channel keeps its device
    del chan
    gc.collect()
    target.expect('ended: the host closed|closed the connection|disconnect', since=since)
    wait_for(lambda: not [th for th in threading.enumerate() if th.name == 'rdinit'], 'the end of the threads')


@test
def nobody_listens(t):
    rdinit = package()
    target = t.target()
    uri = target.uri()
    target.stop()
    error = refused(t, rdinit.Error, 'refused', rdinit.Device, uri, ctrl_loss_tmo_ms=0)
    t.eq(error.errno, errno.ECONNREFUSED)
    t.eq(refused(t, rdinit.Error, 'refused', rdinit.Controller, uri).errno, errno.ECONNREFUSED)


@test
def allocated_blocks_are_told(t):
    dev = device(t, t.target())
    dev.channel().write(2048, bytes([1]) * 65536)
    known, extents = dev.extents(0, 16 * 2048)
    t.ok(known > 0, 'the answer is about blocks')
    t.ok(any(e.lba <= 2048 < e.lba + e.nblocks for e in extents) or known < 2048, f'{extents} has block 2048')


# ---- asyncio ----

@test
def tasks_share_a_channel(t):
    rdinit = package()
    target = t.target()

    async def task(chan, number):
        data = os.urandom(8 * BLOCK)
        await chan.write(number * 8, data)
        return bytes(await chan.read(number * 8, 8)) == data

    async def run():
        async with rdinit.aio.Device(target.uri(), queue_size=9) as dev:
            chan = dev.channel()
            same = await asyncio.gather(*(task(chan, number) for number in range(200)))
            await chan.compare(0, await chan.read(0, 1))
            await chan.write_zeroes(0, 8)
            await chan.copy(8, 0, 8)
            await chan.deallocate(0, 8)
            await chan.verify(8, 8)
            await chan.flush()
            buffer = bytearray(BLOCK)
            await chan.read_into(0, buffer)
            await chan.compare_write(0, buffer, b'x' * BLOCK)
            try:
                await chan.compare(0, buffer)
            except rdinit.Error as error:
                t.eq(error.status_code, 0x85, 'status code')
            else:
                raise AssertionError('different blocks were equal')
            return same

    t.eq(set(asyncio.run(run())), {True}, 'whether blocks return as written')


@test
def a_task_that_is_cancelled_leaves_when_its_command_has_ended(t):
    rdinit = package()
    target = t.target()

    async def run():
        async with rdinit.aio.Device(target.uri()) as dev:
            chan = dev.channel()
            await chan.flush()
            target.signal(signal.SIGSTOP)
            buffer = bytearray(BLOCK)
            task = asyncio.create_task(chan.read_into(0, buffer))
            while not chan.inflight:
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.sleep(0)
            t.eq((task.done(), chan.inflight), (False, 1), 'whether the task has ended, commands in flight')
            target.signal(signal.SIGCONT)
            try:
                await task
            except asyncio.CancelledError:
                pass
            t.eq((task.cancelled(), chan.inflight), (True, 0), 'whether the task was cancelled, commands in flight')
            await chan.flush()

    asyncio.run(run())


@test
def a_channel_that_is_closed_ends_its_commands(t):
    rdinit = package()
    target = t.target()

    async def run():
        async with rdinit.aio.Device(target.uri()) as dev:
            chan = dev.channel()
            await chan.flush()
            target.signal(signal.SIGSTOP)
            task = asyncio.create_task(chan.read(0, 1))
            while not chan.inflight:
                await asyncio.sleep(0)
            chan.close()
            try:
                await task
            except rdinit.Error as error:
                t.eq(error.errno, errno.ECANCELED)
            else:
                raise AssertionError('a read ended without an error')
            target.signal(signal.SIGCONT)

    asyncio.run(run())


# ---- controllers ----

@test
def a_controller_answers_admin_and_io_commands(t):
    rdinit = package()
    target = t.target()
    with rdinit.Controller(target.uri(nsid=0), nr_io_queues=1) as ctrl:
        t.eq((ctrl.info().discovery, ctrl.namespaces()), (False, [1]), 'discovery, namespaces')
        t.eq(struct.unpack_from('<H', ctrl.identify(1), 78)[0], ctrl.info().cntlid, 'CNTLID')
        t.eq(len(ctrl.log_page(2, 512)), 512, 'bytes of the SMART log')
        get_features = struct.pack('<B39xI20x', 0x0a, 7)
        t.eq(ctrl.passthru(get_features)[0], 0, 'Number of Queues, from zero')
        error = refused(t, rdinit.Error, 'Invalid', ctrl.identify, 0xff)
        t.eq((error.errno, error.status_code_type, error.status_code), (errno.EIO, 0, 2), 'errno and status')
        ns = ctrl.namespace(1)
        t.eq((ns.nsid, ns.block_size, ns.blocks), (1, BLOCK, 16 * 2048), 'namespace')
        with ctrl.queue_pair() as qpair:
            data = os.urandom(4 * BLOCK)
            qpair.write(ns, 8, data)
            qpair.flush(ns)
            t.same(bytes(qpair.read(ns, 8, 4)), data)
            read = struct.pack('<BBHI32xQI12x', 2, 0, 0, 1, 8, 3)
            t.same(qpair.passthru(read, 4 * BLOCK)[1], data)
            qpair.passthru(struct.pack('<BBHI32xQI12x', 1, 0, 0, 1, 8, 0), bytes(BLOCK))
            t.same(bytes(qpair.read(ns, 8, 4)), bytes(BLOCK) + data[BLOCK:])
            refused(t, ValueError, '63 bytes, expected 64', qpair.passthru, bytes(63))
    refused(t, ValueError, 'the controller is closed', ctrl.info)
    refused(t, ValueError, 'the queue pair is closed', qpair.flush, ns)


@test
def a_controller_stays_connected_and_tells_events(t):
    rdinit = package()
    target = t.target([t.namespace(size='8MiB', backend='memory')])
    proxy = Proxy(t, target.addr, target.port)
    events = []
    ctrl = rdinit.Controller(proxy.uri(target), on_event=events.append, keep_alive_tmo_ms=200)
    t.cleanup(ctrl.close)
    t.eq(ctrl.namespaces(), [1], 'namespaces')
    # Keep Alive commands that no call of the program asks for.
    before = proxy.forwarded
    wait_for(lambda: proxy.forwarded >= before + 4 * (64 + 16), 'four Keep Alive commands with their answers')
    t.config([t.namespace(size='16MiB', backend='memory')])
    target.reload('1 resized$')
    wait_for(lambda: events, 'an event')
    t.eq(events[0], 0x040002, 'event: Namespace Attribute Changed, with its log page')


@test
def a_discovery_log_names_the_subsystem(t):
    rdinit = package()
    target = t.target()
    with rdinit.Controller(f'nvme+rdma://{target.host}:{target.port}') as ctrl:
        t.eq([(r.subnqn, r.trsvcid) for r in ctrl.discover() if r.subtype == 2], [(NQN, str(target.port))], 'records')
    dev = rdinit.Device(discovery=f'nvme+rdma://{target.host}:{target.port}/{NQN}')
    t.cleanup(dev.close)
    t.eq([path.state for path in dev.paths()], [rdinit.PathState.LIVE], 'paths')


# ---- TLS ----

@test
def devices_and_controllers_use_tls(t):
    rdinit = package()
    target = t_tls.serve(t)
    uri, mine = t_tls.uri(target), {'hostnqn': t_tls.HOST, 'key_file': t_tls.key(t)}
    with rdinit.Controller(t_tls.uri(target, 0), **mine) as ctrl:
        t.eq(ctrl.namespaces(), [1], 'namespaces')
    chan = device(t, target, uri=uri, **mine).channel()
    chan.write(0, b'a' * BLOCK)
    t.same(bytes(chan.read(0, 1)), b'a' * BLOCK)
    refused(t, rdinit.Error, 'closed the connection instead of answering ICReq', rdinit.Controller, uri, hostnqn=t_tls.HOST)
    target.expect('refused TLS from .* does not speak TLS')
    other = t_tls.key(t, t_tls.OTHER_SECRET, 'other.key')
    refused(t, rdinit.Error, 'does not know the identity "NVMe1R01', rdinit.Controller, uri, hostnqn=t_tls.HOST, key_file=other)
    plain = device(t, t.target(name='plain'))
    refused(t, rdinit.Error, 'the device was made without TLS', plain.set_tls, key_file=other)


@test
def a_device_is_given_another_key_of_tls(t):
    rdinit = package()
    target = t_tls.serve(t)
    proxy = Proxy(t, target.addr, target.port)
    dev = device(t, target, uri=proxy.uri(target).replace('nvme+rdma', 'nvme+tcp'), hostnqn=t_tls.HOST, key_file=t_tls.key(t),
                 reconnect_delay_ms=100)
    chan = dev.channel()
    chan.write(0, b'a' * BLOCK)
    for secret in (t_tls.OTHER_SECRET, t_tls.THIRD_SECRET):  # the previous key is still valid, the one before it is not
        t_tls.key(t, secret, 'rdtarget.tls.key')
        target.reload()
    proxy.reset()
    wait_for(lambda: 'does not know the identity' in dev.paths()[0].text, 'an attempt with the old key')
    refused(t, rdinit.Error, 'tls.key', dev.set_tls, key_file=t.path('no.tls.key'))
    dev.set_tls(key_file=t_tls.key(t, t_tls.THIRD_SECRET, 'third.key'))
    dev.reconnect()
    t.same(bytes(chan.read(0, 1)), b'a' * BLOCK)
    t.eq(dev.paths()[0].state, rdinit.PathState.LIVE, 'state of the path')


@test
def discovery_finds_the_paths_that_a_key_opens(t):
    """Of a listener with TLS, and of one without."""
    rdinit = package()
    target = t_tls.serve(t, listeners=[{'transport': 'tcp', 'tls': setting} for setting in ('required', 'off')])
    (host, secure), (_, plain) = target.listeners
    for port, mine in ((secure, {'key_file': t_tls.key(t)}), (plain, {})):
        dev = rdinit.Device(discovery=f'nvme+tcp://{host}:{port}/{NQN}', hostnqn=t_tls.HOST, **mine)
        t.cleanup(dev.close)
        t.eq([p.address for p in dev.paths() if p.state == rdinit.PathState.LIVE], [f'{host}:{port}'], 'connected paths')
        t.eq(len(dev.paths()), 2 if mine else 1, 'paths that are tried')
    target.expect('the host begins with TLS, which is not enabled for this listener')


class Referring(tcp_target.FakeTarget):
    """A discovery controller without TLS: the only path that it lists demands TLS."""
    subnqn = nv.DISCOVERY_NQN

    def identify_ctrl(self):
        page = bytearray(super().identify_ctrl())
        page[111] = 2  # CNTRLTYPE
        return bytes(page)

    def do_get_log(self, queue, cmd):
        record = bytearray(1024)
        record[0:4] = 3, 1, 2, 1  # TCP, IPv4, an NVM subsystem, a secure channel is required
        record[32:64], record[512:768] = b'4420'.ljust(32), b'127.0.0.1'.ljust(256)
        record[256:512], record[768] = NQN.encode().ljust(256, b'\0'), 2  # SECTYPE: TLS 1.3
        log = struct.pack('<QQ', 1, 1).ljust(1024, b'\0') + record
        at = cmd.raw[48] | cmd.raw[49] << 8
        self.put(queue, cmd, log[at:])


@test
def discovery_tells_that_a_path_demands_tls(t):
    rdinit = package()
    peer = Referring()
    t.cleanup(peer.close)
    refused(t, rdinit.Error, f'none is a TCP path to {NQN}; it demands TLS: give the key .*--tls-key-file', rdinit.Device,
            discovery=f'nvme+tcp://127.0.0.1:{peer.port}/{NQN}')


# ---- the package ----

@test
def the_installed_package_needs_no_path_of_the_build(t):
    package()
    root = t.path('root')
    meson = shlex.split(os.environ.get('MESON', requires_program('meson')))
    res = t.run([*meson, 'install', '-C', os.environ['BUILD_ROOT'], '--no-rebuild', '--destdir', root])
    t.eq(res.rc, 0, f'meson install: {res.text}{res.err}')
    folders = {name: os.path.dirname(path) for path in glob.glob(f'{root}/**', recursive=True)
               for name in [os.path.basename(path)] if name in ('_rdinit.abi3.so', 'librdinit.so.0')}
    env = dict(os.environ, PYTHONPATH=folders['_rdinit.abi3.so'], LD_LIBRARY_PATH=folders['librdinit.so.0'])
    res = t.run([sys.executable, '-c', 'import rdinit; print(rdinit.__file__, rdinit.__version__)'], env=env)
    t.match(rf'^{folders["_rdinit.abi3.so"]}/rdinit/__init__.py \d', res.text)


@test
def the_type_hints_agree(t):
    package()
    source = program('rdinit_python').split(':')[0]
    res = t.run([requires_program('mypy'), '--strict', '--cache-dir', t.path('cache'), f'{source}/rdinit'],
                env=dict(os.environ, MYPYPATH=source))
    t.eq(res.rc, 0, res.text)


# ---- python3 -m rdinit ----

@test
def a_session_runs_commands_and_says_what_is_wrong(t):
    requires_native()
    target = t.target()
    res = session(t, target.uri(), '-c', 'channel.write(1, b"z" * 512)', '-c', 'print(bytes(channel.read(1, 1))[:3])')
    t.eq(res.text, "b'zzz'\n")
    res = session(t, target.uri(), input=b'print(device.info().blocks)\n')
    t.match(str(16 * 2048), res.text)
    t.match('device, channel', res.err)
    res = session(t, target.uri(nsid=0), '-o', 'nr_io_queues=1', '-c', '-', input=b'print(controller.namespaces())\n')
    t.eq(res.text, '[1]\n')
    t.match('queue_sise', session(t, target.uri(), '-o', 'queue_sise=1', '-c', '', rc=1).err)
    t.eq(session(t, 'nvme+tcp://', '-c', '', rc=1).err.count('\n'), 1)


@test
def the_examples_of_the_manual_page_run(t):
    """The interactive one as a command, and the one of asyncio."""
    requires_native()
    target = t.target()
    with open(os.path.join(SOURCE_ROOT, 'docs/man/rdinit-python.3'), encoding='utf-8') as f:
        text = f.read().split('.SH EXAMPLES\n')[1].split('.SH ')[0]
    examples = [block.replace('.PP\n', '\n').replace('\\-', '-').replace('\\e\n', '\\\n')
                for block in re.findall(r'(?s)^\.nf\n(.*?)^\.fi\n', text, re.M)]
    t.eq(len(examples), 2, 'examples')
    uri = 'nvme+tcp://192.0.2.1/nqn.2026-01.org.example:disk/1'
    for code, argv in zip(examples, (['sh', '-ec'], [sys.executable, '-c'])):
        t.ok(uri in code, code)
        code = code.replace(uri, target.uri()).replace('"mib"', f'"{t.path("mib")}"')
        res = t.run([*argv, code], env=dict(os.environ, PYTHONPATH=program('rdinit_python')))
        t.eq((res.rc, res.err), (0, ''), f'exit status and errors of {code}')
    t.eq(os.path.getsize(t.path('mib')), 1 << 20, 'bytes that the first one copied')


if __name__ == '__main__':
    sys.exit(main())
