# SPDX-License-Identifier: BSD-3-Clause
"""fio on librdinit: the engine of tools/fio, built for the installed fio, drives rdtarget. BUILD_ROOT is the build
directory; it must have been built."""

import glob
import json
import os
import re
import signal
import sys

import t_auth
import t_tls
from t_loop import (FABRIC, NQN, SOURCE_ROOT, Skip, each, main, requires_native,
                    requires_program, test, wait_for)
from t_proxy import Proxy

MIB = 1 << 20
FOLDER = os.path.join(SOURCE_ROOT, 'tools', 'fio')
BUILD = os.path.join(FOLDER, 'build')
SAMPLES = sorted(name for name in os.listdir(FOLDER) if name.endswith('.fio'))
_built = {}


def build_root():
    root = os.environ.get('BUILD_ROOT')
    if not root:
        raise Skip('BUILD_ROOT is not set')
    requires_native()  # fio itself has no sanitizer of ours
    return root


def build(t, *args, env=None):
    return t.run([BUILD, *args], env=env, deadline=300)


def engine(t):
    """The engine, built once for the tests of this file. It is not an error if the headers are not installed."""
    root = build_root()
    if not _built:
        res = build(t, '--build', root, env=dict(os.environ, CFLAGS='-O2 -g -Werror'))
        last = res.err.strip().splitlines()[-1] if res.err.strip() else ''
        _built['path'] = os.path.join(root, 'tools', 'fio', 'rdinit.so')
        _built['skip'] = last if res.rc == 77 else None
        _built['error'] = None if res.rc in (0, 77) else f'tools/fio/build: exit {res.rc}\n{res.err}'
    if _built['skip']:
        raise Skip(_built['skip'])
    t.ok(not _built['error'], _built['error'])
    return _built['path']


def command(t, *args, name='fio'):
    """fio's command line; its report goes to a file."""
    return [requires_program('fio'), '--output-format=json', f'--output={t.path(name + ".json")}',
            f'--aux-path={t.dir}', *args]


def job(t, uri, *args):
    return ['--name=job', f'--ioengine=external:{engine(t)}', *([f'--uri={uri}'] if uri else []), *args]


def report(t, name='fio'):
    with open(t.path(name + '.json'), encoding='utf-8', errors='replace') as f:
        text = f.read()
    return json.loads(text[text.index('\n{\n') if not text.startswith('{') else 0:]), text


def fio(t, *args, rc=0):
    """Run fio to its end; returns its jobs, or its messages if it is to fail."""
    res = t.run(command(t, *args))
    words = f'{res.err}{res.text}'
    t.eq(res.rc != 0, rc != 0, f'fio failed (exit {res.rc})\n{words}')  # it is the number of failed jobs
    if rc:
        return words
    jobs, text = report(t)
    t.eq([j['error'] for j in jobs['jobs'] if j['error']], [], f'errors of jobs\n{words}{text}')
    return jobs['jobs']


# ---- data ----

@each(('file', {}), ('memory, 4096', {'backend': 'memory', 'block_size': 4096}))
def random_blocks_are_verified(t, keys):
    target = t.target([t.namespace(size='32MiB', **keys)])
    for options in (['--hipri=1'], ['--crc=1', '--sync=1', '--size=4M']):
        jobs = fio(t, *job(t, target.uri(), '--rw=randwrite', '--bsrange=4k-128k', '--iodepth=32',
                           '--verify=crc32c', '--verify_fatal=1', '--fsync=16', *options))
        t.eq(jobs[0]['read']['io_bytes'], jobs[0]['write']['io_bytes'], 'bytes verified')
        t.ok(jobs[0]['sync']['total_ios'] > 0, 'no flushes')


@each(('with digests', ['--hdr_digest=1', '--data_digest=1', '--hipri=1']), ('sleeping, with flushes', ['--sync=1', '--fsync=16']),
      ('in threads', ['--numjobs=3', '--thread=1', '--size=2M', '--offset_increment=8M']))
def random_blocks_are_verified_over_tcp(t, options):
    target = t.target([t.namespace(size='32MiB')], listener={'transport': 'tcp'})
    jobs = fio(t, *job(t, target.uri().replace('nvme+rdma', 'nvme+tcp'), '--rw=randwrite', '--bsrange=4k-128k',
                       '--iodepth=32', '--verify=crc32c', '--verify_fatal=1', *options))
    for one in jobs:
        t.eq(one['read']['io_bytes'], one['write']['io_bytes'], 'bytes verified')
        t.ok(one['write']['io_bytes'], 'bytes written')


@test
def random_blocks_are_verified_over_tls(t):
    target = t_tls.serve(t)
    args = job(t, t_tls.uri(target), f'--hostnqn={t_tls.HOST}', '--rw=randwrite', '--bsrange=4k-128k', '--iodepth=16', '--size=4M',
               '--verify=crc32c', '--verify_fatal=1')
    jobs = fio(t, *args, f'--tls_key_file={t_tls.key(t)}')
    t.eq(jobs[0]['read']['io_bytes'], jobs[0]['write']['io_bytes'], 'bytes verified')
    target.expect(rf'TLS with NVMe1R01 {re.escape(t_tls.HOST)}|TLS with .*NVMe1R01')
    t.match('closed the connection instead of answering ICReq', fio(t, *args, rc=1))
    target.expect('refused TLS from .* does not speak TLS')
    words = fio(t, *args, f'--tls_key_file={t_tls.key(t, t_tls.OTHER_SECRET, "other.key")}', rc=1)
    t.match('the target does not know the identity "NVMe1R01', words)


@test
def a_changed_block_is_found(t):
    target = t.target([t.namespace(backend='memory')])
    args = job(t, target.uri(), '--rw=write', '--bs=4k', '--iodepth=8', '--verify=crc32c',
               '--verify_fatal=1')
    fio(t, *args, '--do_verify=0')
    fio(t, *args, '--verify_only=1')
    t.rdinit('write', target.uri(), '--start-block', '1000', '--data', t.file('other', bytes(512)))
    t.match('verify', fio(t, *args, '--verify_only=1', rc=1))


@test
def all_of_the_namespace_is_used_and_no_more(t):
    target = t.target([t.namespace(backend='memory', size='16MiB')])
    before = target.counters()
    jobs = fio(t, *job(t, target.uri(), '--rw=write', '--bs=64k', '--iodepth=4'))
    t.eq(jobs[0]['write']['io_bytes'], 16 * MIB, 'bytes written')
    after = target.counters()
    t.eq(after['writes'] - before['writes'], 256, 'write commands')


@test
def several_namespaces_are_the_files_of_a_job(t):
    target = t.target([t.namespace(nsid, backend='memory', size=f'{8 * nsid}MiB') for nsid in (1, 2)])
    uris = ','.join(target.uri(nsid) for nsid in (1, 2))
    for options in ([], ['--hipri=1']):
        jobs = fio(t, *job(t, uris, '--rw=randwrite', '--bs=4k', '--iodepth=32', '--verify=crc32c',
                           '--verify_fatal=1', *options))
        t.eq(jobs[0]['write']['io_bytes'], 24 * MIB, 'bytes written')
        t.eq(jobs[0]['read']['io_bytes'], 24 * MIB, 'bytes verified')


@test
def the_uris_that_rdinit_lists_name_the_same_namespaces(t):
    """Decoding one as the other would write to another disk; a comma divides fio's list."""
    nqns = ('nqn.2024-01.test:db-1', 'nqn.2024-01.test:db%2D1', 'nqn.2024-01.test:a,b/c+d')
    target = t.target(subsystems=[{'nqn': nqn, 'allow_any_host': True, 'namespaces': [
        t.namespace(n + 1, backend='memory', size='1MiB')]} for n, nqn in enumerate(nqns)])
    listed = json.loads(t.rdinit('list', target.uri(None, None), '-o', 'json').text)
    uris = {one['NameSpace']: one['DevicePath'] for one in listed['Devices']}
    t.eq(sorted(uris), [1, 2, 3], f'namespaces of {listed}')
    for n in uris:
        fio(t, *job(t, uris[n], '--rw=write', '--bs=4k', f'--buffer_pattern=0x{n:02x}'))
    fio(t, *job(t, ','.join(uris.values()), '--rw=read', '--bs=4k'))
    for n, nqn in enumerate(nqns, 1):
        data = t.rdinit('read', '--traddr', target.host, '--trsvcid', str(target.port), '--nqn', nqn,
                        '--namespace-id', str(n), '--data-size', '4096').out
        t.same(data, bytes([n]) * 4096, nqn)


@test
def a_target_that_comes_back_is_not_noticed(t):
    config = t.config([t.namespace(size='16MiB')])
    target = t.target(config=config)
    proxy = Proxy(t, target.addr, target.port)
    proc = t.spawn('fio', command(t, *job(t, proxy.uri(target), '--rw=randwrite', '--bs=4k', '--iodepth=16',
                                          '--verify=crc32c', '--verify_fatal=1', '--rate_iops=2000',
                                          '--ctrl_loss_tmo=600000', '--reconnect_delay=1000')))
    wait_for(lambda: target.counters()['writes'] > 500 or not proc.running, 'fio to write')
    target.kill()
    target = t.target(config=config, name='rdtarget_2')
    proxy.to = (target.addr, target.port)
    t.eq(proc.wait(), 0, f'exit status of fio: {proc.text()}')
    t.ok(target.counters()['reads'] > 500, 'nothing was verified')


@test
def trim_deallocates(t):
    target = t.target([t.namespace(backend='memory', size='16MiB')])
    fio(t, *job(t, target.uri(), '--rw=write', '--bs=64k', '--iodepth=4'))
    half = t.rdinit('read', target.uri(), '--data-size', str(8 * MIB)).out
    t.ok(half.count(0) < len(half) // 2, 'nothing but zeroes was written')
    jobs = fio(t, *job(t, target.uri(), '--rw=randtrim', '--bs=32k', '--iodepth=16', '--offset=8M'))
    t.eq(jobs[0]['trim']['io_bytes'], 8 * MIB, 'bytes trimmed')
    t.same(t.rdinit('read', target.uri(), '--data-size', str(16 * MIB)).out, half + bytes(8 * MIB))


@each(('processes', []), ('threads', ['--thread=1']), ('set up by each job', ['--create_serialize=0']))
def several_jobs(t, how):
    """Each job in a part of its own, verified; a controller and a queue for each."""
    target = t.target([t.namespace(size='32MiB')])
    jobs = fio(t, *job(t, target.uri(), '--rw=randrw', '--bs=8k', '--iodepth=16', '--numjobs=4',
                       '--size=2M', '--offset_increment=8M', '--verify=crc32c', '--verify_fatal=1', *how))
    t.eq(len(jobs), 4, 'jobs')
    made = set(re.findall(r': controller (\d+) for', target.text()))
    t.ok(len(made) >= 4, f'controllers: {made}')


@test
def the_address_in_parts(t):
    target = t.target([t.namespace(3, backend='memory')])
    fio(t, *job(t, None, f'--traddr={target.addr}', f'--trsvcid={target.port}', f'--subnqn={NQN}',
                '--nsid=3', '--provider=iwarp', '--hostnqn=nqn.2024-01.test:fio', '--rw=read', '--bs=1M'))
    t.match('nqn.2024-01.test:fio', target.text(), "the target's log")


@test
def the_address_in_parts_over_tcp(t):
    target = t.target([t.namespace(3, backend='memory')], listener={'transport': 'tcp'})
    fio(t, *job(t, None, '--transport=tcp', f'--traddr={target.addr}', f'--trsvcid={target.port}', f'--subnqn={NQN}',
                '--nsid=3', '--rw=read', '--bs=1M'))


@test
def a_target_that_demands_authentication(t):
    target = t_auth.serve(t, host='nqn.2024-01.test:fio', hosts=['nqn.2024-01.test:fio'], ctrl_secret=t_auth.CTRL_SECRET)
    fio(t, *job(t, target.uri(), '--hostnqn=nqn.2024-01.test:fio', f'--dhchap_secret_file={t.path("host.key")}',
                f'--dhchap_ctrl_secret_file={t.path("host.ctrl.key")}', '--dhchap_hashes=sha384',
                '--dhchap_dhgroups=ffdhe3072,ffdhe4096', '--rw=randread', '--bs=4k', '--size=1M'))
    target.expect('authenticated host nqn.2024-01.test:fio .*: SHA-384, ffdhe3072, and the controller$')


@test
def the_port_has_a_default(t):
    """The address is one that no other process uses, because the port is the same for all."""
    if FABRIC != 'iwarp':
        raise Skip('an RDMA device has no such address')
    addr = f'127.44.{os.getpid() >> 8 & 255}.{os.getpid() & 255}'
    t.target(config=t.config([t.namespace(backend='memory')], addr=addr, listener={'port': 4420}))
    fio(t, *job(t, None, f'--traddr={addr}', f'--subnqn={NQN}', '--rw=read', '--bs=1M'))  # namespace 1


@test
def more_depth_than_the_queue_has(t):
    target = t.target([t.namespace(backend='memory')])
    res = t.run(command(t, *job(t, target.uri(), '--rw=randwrite', '--bs=512', '--iodepth=3000',
                                '--io_size=4M', '--verify=crc32c')))
    t.eq(res.rc, 0, f'exit status of fio\n{res.err}')
    t.eq(report(t)[0]['jobs'][0]['write']['io_bytes'], 4 * MIB, 'bytes written')
    t.match(r'iodepth=3000, but the queue takes \d+ commands at once', res.err)


@test
def a_job_that_sleeps_keeps_its_controller(t):
    """Longer than the target waits for a keep-alive, while nothing is in flight."""
    target = t.target([t.namespace(backend='memory')])
    jobs = fio(t, *job(t, target.uri(), '--rw=read', '--bs=4k', '--number_ios=2', '--thinktime=1500ms',
                       '--keep_alive_tmo=500'))
    t.eq(jobs[0]['read']['total_ios'], 2, 'reads')


@each(*((name, name) for name in SAMPLES))
def sample(t, name):
    """The same, but shorter."""
    target = t.target([t.namespace(size='16MiB')])
    with open(os.path.join(FOLDER, name), encoding='utf-8') as f:
        text = re.sub(r'(?m)^(runtime|ramp_time)=\d+$', r'\1=1', f.read())
    env = dict(os.environ, ENGINE=engine(t), URI=target.uri())
    res = t.run(command(t, t.file(name, text.encode())), env=env)
    t.eq(res.rc, 0, f'exit status of fio\n{res.err}')
    jobs = report(t)[0]['jobs']
    t.eq({j['jobname'] for j in jobs} | {'global'}, set(re.findall(r'(?m)^\[([\w-]+)\]', text)), 'jobs')
    for j in jobs:
        t.eq(j['error'], 0, f'error of {j["jobname"]}')
        t.ok(sum(j[kind]['io_bytes'] for kind in ('read', 'write', 'trim')) > 0, f'{j["jobname"]} did nothing')


# ---- what goes wrong ----

@each(('no target', [], 'no target: give uri='),
      ('both ways', ['--uri=URI/1', '--traddr=HOST'], 'traddr= are both given'),
      ('a transport and a URI', ['--uri=URI/1', '--transport=tcp'], 'transport= are both given'),
      ('another transport', ['--transport=fc', '--traddr=HOST', f'--subnqn={NQN}'], 'transport=fc: expected rdma or tcp'),
      ('digests without TCP', ['--uri=URI/1', '--hdr_digest=1'], 'hdr_digest is set, which is an option of NVMe/TCP only'),
      ('two namespaces', ['--uri=URI/1', '--nsid=2'], 'names namespace 1, but nsid=2'),
      ('a long host name', ['--traddr=' + 'h' * 300, f'--subnqn={NQN}', '--nsid=1'], 'traddr= has 300 characters, expected up to'),
      ('a long URI', ['--uri=URI/1?' + 'x' * 3000], r'uri=: a URI of 30\d\d characters is too long'),
      ('another namespace', ['--uri=URI/7'], r'no namespace 7 \(it has: 1\)'),
      ('a host identifier', ['--uri=URI/1', '--hostid=me'], 'the host identifier "me" is not a UUID'),
      ('a secret instead of a file', ['--uri=URI/1', '--dhchap_secret_file=DHHC-1:00:AAEC'],
       'secret: the name of a file is expected, not the secret itself'),
      ('a small block', ['--uri=URI/1', '--bs=2k'], "bs=2048 is not a multiple.*bs=4096"),
      ('a large block', ['--uri=URI/1', '--bs=64M'], 'bs=67108864 is more than the target transfers'),
      ('small ones among large ones', ['--uri=URI/1', '--bsrange=4k-64k', '--bs_unaligned=1'],
       r"not multiples of the namespace's block size \(4096\)"),
      ('an offset', ['--uri=URI/1', '--offset=1000'], 'offset=1000 is not a multiple'),
      ('across the end', ['--uri=URI/1', '--offset=12M', '--size=8M'], 'beyond the end of the namespace'),
      ('two files', ['--uri=URI/1', '--nrfiles=2'], 'a job has one namespace'),
      ('another memory', ['--uri=URI/1', '--mem=shm'], 'mem'),
      ('offload', ['--uri=URI/1', '--io_submit_mode=offload'], 'offload'))
def fio_says_what_is_wrong_with(t, args, says):
    target = t.target([t.namespace(backend='memory', block_size=4096)])
    args = [a.replace('URI', target.uri(None)).replace('HOST', target.host).replace('PORT', str(target.port))
            for a in args]
    words = fio(t, *job(t, None, '--rw=randread', '--iodepth=4', '--bs=4k', *args), rc=1)
    with open(t.path('fio.json'), encoding='utf-8') as f:
        t.match(says, words + f.read(), 'what fio says')
    t.ok('rdinit_' not in words, f'a function of the library in: {words}')


def endless(t, target, *args):
    """fio in the middle of verified I/O."""
    proc = t.spawn('fio', command(t, *job(t, target.uri(), '--rw=randrw', '--bs=16k', '--iodepth=16',
                                          '--time_based', '--runtime=3600', *args)))
    before = target.counters()['reads']

    def goes():
        t.ok(proc.running, f'fio ended early: {proc.text()}')
        return target.counters()['reads'] > before + 1000
    wait_for(goes, 'fio to read')
    return proc


@each(('spinning', ['--hipri=1']), ('2 threads', ['--numjobs=2', '--thread=1']), ('in spite of errors', ['--continue_on_error=io']))
def the_target_is_killed(t, args):
    target = t.target([t.namespace(size='64MiB')])
    proc = endless(t, target, *args)
    target.kill()
    t.ok(proc.wait() in (1, 2), f'exit status of fio: {proc.popen.returncode}')
    t.match(r'(?i)clos|lost|reset|gone|disconnect', proc.text(), 'its words')


@test
def the_target_is_stopped_and_does_not_answer(t):
    target = t.target([t.namespace(size='64MiB')])
    t.cleanup(target.signal, signal.SIGCONT)
    proc = endless(t, target, '--io_timeout=1000')
    target.signal(signal.SIGSTOP)
    t.eq(proc.wait(), 1, 'exit status of fio')
    t.match('no answer to .* in time', proc.text(), 'its words')
    target.signal(signal.SIGCONT)


@test
def the_controller_answers_with_errors(t):
    """Storage that fails: fio prints the reason in words, and continues if told to."""
    # A command is sent up to six times.
    target = t.target([t.namespace(backend='memory', layers=[{'type': 'error', 'rate': '90%'}])])
    args = job(t, target.uri(), '--rw=randread', '--bs=4k', '--iodepth=32', '--io_size=1M')
    t.match(r'(?i)read failed: .*\(', fio(t, *args, rc=1))
    res = t.run(command(t, *args, '--continue_on_error=io', '--error_dump=0'))
    done = report(t)[0]['jobs'][0]
    t.eq(res.rc, 0, f'exit status of fio\n{res.err}')
    t.ok(done['total_err'] > 0, 'no errors')
    t.eq(done['read']['io_bytes'] // 4096 + done['total_err'], 256, 'reads and errors')


@test
def fio_is_interrupted(t):
    target = t.target([t.namespace(size='64MiB')])
    proc = endless(t, target, '--numjobs=2')
    proc.signal(signal.SIGINT)
    t.ok(proc.wait() in (0, 128, -signal.SIGINT), f'exit status {proc.popen.returncode}\n{proc.text()}')
    t.eq(target.counters()['controllers'], 0, 'controllers left at the target')


@each(('sleeping', []), ('spinning', ['--hipri=1']), ('2 threads', ['--numjobs=2', '--thread=1']))
def fio_is_interrupted_while_its_target_is_gone(t, args):
    target = t.target([t.namespace(size='64MiB')])
    proc = endless(t, target, '--ctrl_loss_tmo=600000', *args)
    target.kill()
    proc.signal(signal.SIGINT)
    t.ok(proc.wait() != 0, 'fio hides that commands were canceled')
    t.match('no path is usable: commands are canceled', proc.text(), 'its words')


# ---- building ----

def fake(t, name, text):
    os.makedirs(t.path('bin'), exist_ok=True)
    path = t.file(f'bin/{name}', f'#!/bin/sh\n{text}\n'.encode())
    os.chmod(path, 0o755)
    return dict(os.environ, PATH=f'{t.path("bin")}:{os.environ["PATH"]}', RD_FIO_CACHE=t.path('cache'))


@test
def build_says_that_there_is_no_source_of_this_version(t):
    root = build_root()
    requires_program('fio')
    requires_program('apt-config')
    env = fake(t, 'apt-get', 'echo "E: no such version" >&2\nexit 100')
    res = build(t, '--build', root, '-o', t.path('rdinit.so'), env=env)
    t.eq(res.rc, 77, f'exit status\n{res.err}')
    t.match(r"(?s)E: no such version.*no source package of fio \S+ .*--source", res.err)
    t.eq(os.listdir(t.path('cache')), ['lock'], 'what is left in the cache')


@test
def build_takes_the_release_where_a_mirror_has_no_more(t):
    """apt downloads only fio's own file of the source package."""
    requires_program('fio')
    requires_program('apt-config')
    os.makedirs(t.path('fio-1'))
    for name, text in (('configure', '#!/bin/sh\n: >config-host.h\n'), ('ioengines.h', '/* its own */\n')):
        os.chmod(t.file(f'fio-1/{name}', text.encode()), 0o755)
    t.run(['tar', '-C', t.dir, '-czf', t.path('release'), 'fio-1'])
    env = fake(t, 'apt-get', f"""case $* in
*source*)
	cp {t.path('release')} fio_1.orig.tar.gz
	: >fio_1.orig.tar.gz.asc
	echo "E: 404" >&2
	exit 100 ;;
esac""")
    res = build(t, '--headers', env=env)
    t.eq(res.rc, 0, f'exit status\n{res.err}')
    t.match('Only fio_1.orig.tar.gz is to be had', res.err)
    t.eq(sorted(os.listdir(os.fsdecode(res.out.strip()))), ['complete', 'config-host.h', 'ioengines.h'], 'headers')


@each(('fio', 'fio', 'echo fio-9.99', 'of no package'), ('a fio that fails', 'fio', 'exit 3', 'failed'),
      ('nonsense', 'fio', 'echo hello', 'says "hello"'))
def build_looks_at(t, name, script, says):
    res = build(t, '--build', build_root(), '-o', t.path('rdinit.so'), env=fake(t, name, script))
    t.ok(res.rc in (1, 77), f'exit status {res.rc}\n{res.err}')
    t.match(says, res.err)


@each(('no build directory', ['--build', '/nonexistent'], 'no /nonexistent/initiator/librdinit.a'),
      ('no source tree', ['--source', '/nonexistent'], 'is no source tree of fio'),
      ('a missing value', ['--build'], '--build needs a value'))
def build_refuses(t, args, says):
    requires_program('fio')
    root = build_root()
    res = build(t, *([] if '--build' in args else ['--build', root]), *args)
    t.eq(res.rc, 1, f'exit status\n{res.err}')
    t.match(says, res.err)


@test
def an_engine_for_another_fio_says_so(t):
    """Compiled for a fio of another version."""
    root = build_root()
    engine(t)
    env = fake(t, 'fio', 'echo fio-9.99')
    caches = os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache')
    cache = os.environ.get('RD_FIO_CACHE') or os.path.join(caches, 'rdnvme-fio')
    headers = os.path.dirname(max(glob.glob(f'{cache}/*/complete'), key=os.path.getmtime))
    res = build(t, '--build', root, '--source', headers, '-o', t.path('other.so'), env=env)
    t.eq(res.rc, 0, f'exit status\n{res.err}')
    words = t.run(command(t, '--name=job', f'--ioengine=external:{t.path("other.so")}', '--rw=read'))
    t.eq(words.rc, 1, 'exit status of fio')
    t.match('built for fio-9.99, but this is fio-', words.err + words.text)


if __name__ == '__main__':
    sys.exit(main())
