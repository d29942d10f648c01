# SPDX-License-Identifier: BSD-3-Clause
"""rdtarget --check, and the messages for a bad configuration: file, line, key, what was expected."""

import array
import fcntl
import glob
import os
import re
import shutil
import signal
import socket
import sys
import termios
import threading

from t_control import Control
from t_loop import ADDR, FABRIC, NQN, SOURCE_ROOT, Skip, each, main, preloaded, program, test, wait_for

GOOD = f'''\
target:
  reactors: 2
listeners:
  - address: {ADDR}
    port: 0
    provider: {FABRIC}
subsystems:
  - nqn: {NQN}
    allow_any_host: true
    namespaces:
      - nsid: 1
        backend: memory
        size: 16MiB
'''


def check(t, text, *, rc):
    path = t.file('test.yaml', text.encode() if isinstance(text, str) else text)
    res = t.run([program('rdtarget'), '--check', '-c', path])
    t.eq(res.rc, rc, f'exit status ({res.err.strip()})')
    return res


@test
def a_good_configuration(t):
    check(t, GOOD, rc=0)


def in_pipe(fd):
    count = array.array('i', [0])
    fcntl.ioctl(fd, termios.FIONREAD, count)
    return count[0]


@test
def a_configuration_can_come_slowly_through_a_pipe(t):
    """Its reader waits for the first half, the second half and the end."""
    path = t.path('pipe')
    os.mkfifo(path)
    fd = os.open(path, os.O_RDWR)
    try:
        proc = t.spawn('check', [program('rdtarget'), '--check', path])
        half = len(GOOD) // 2
        for part in (GOOD[:half], GOOD[half:]):
            os.write(fd, part.encode())
            wait_for(lambda: not proc.running or not in_pipe(fd), 'the text to be read')
    finally:
        os.close(fd)
    t.eq((proc.wait(), proc.text()), (0, ''))


def dripping(t):
    """A pipe whose writer writes all the time, and never ends; returns its path."""
    path = t.path('pipe')
    os.mkfifo(path)
    fd, over = os.open(path, os.O_RDWR), threading.Event()
    os.write(fd, b'#' * 100)  # more than is written before they are read

    def drip():
        while not over.wait(0.05):
            os.write(fd, b'#')

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    t.cleanup(lambda: (over.set(), thread.join(), os.close(fd)))
    return path, fd


@each(('a reload', 'config.reload'), ('a check', 'config.check'), ('the start', None))
def the_end_does_not_wait_for(t, method):
    """A file that is being read."""
    path, fd = dripping(t)
    slow = f'include: [{path}]\n' + GOOD
    control = f'control: {{socket: {t.path("c.sock")}}}\n'
    if method is None:
        proc = t.spawn('rdtarget', [program('rdtarget'), '--exit-with-parent', t.file('test.yaml', slow.encode())])
        wait_for(lambda: in_pipe(fd) < 50, 'the file to be read')
        proc.signal(signal.SIGTERM)
        t.eq(proc.wait(), 0, 'exit status')
        return
    target = t.target(config=t.file('test.yaml', (control + GOOD).encode()))
    t.file('test.yaml', (control + slow).encode())
    with Control(t.path('c.sock')) as c:
        c.post(method)
        wait_for(lambda: in_pipe(fd) < 50, 'the file to be read')
        target.stop()
        target.expect('(test.yaml|config.check): the storage still does not answer')


@test
def check_does_not_serve_and_makes_no_file(t):
    path = t.path('disk.img')
    text = GOOD.replace('backend: memory', f'backend: file\n        path: {path}\n        create: true')
    check(t, text, rc=0)
    t.ok(not os.path.exists(path), f'--check made {path}')


def full(t, namespaces=None, **kw):
    return t.run([program('rdtarget'), '--check=full', '-c', t.config(namespaces, **kw)])


@test
def a_full_check_looks_at_the_machine_and_makes_nothing(t):
    res = full(t, [t.namespace(1)], target={'state_dir': t.path('state')})
    t.eq((res.rc, res.err), (0, ''))
    t.match('OK, and this machine has what it needs$', res.text.strip())
    t.eq(sorted(os.listdir(t.dir)), ['commands.log', 'rdtarget.yaml'], 'files')


@each(('rbd', 'rbd', {'rbd': {'pool': 'rbd', 'image': 'disk1'}}), ('nbd', 'nbd', {'uri': 'nbd://127.0.0.1/disk'}))
def a_module_that_is_not_installed_is_named(t, name, keys):
    """Neither beside the program nor in the folder of an installation."""
    places = ('/usr/lib*/rdtarget', '/usr/lib*/*/rdtarget', '/usr/local/lib*/rdtarget', '/usr/local/lib*/*/rdtarget')
    if any(glob.glob(f'{place}/rdtarget-{name}.so') for place in places):
        raise Skip(f'rdtarget-{name}.so is installed')
    copy = shutil.copy(program('rdtarget'), t.path('rdtarget'))
    res = t.run([copy, '--check=full', '-c', t.config([{'nsid': 1, 'backend': name, **keys}])])
    t.eq(res.rc, 1, 'exit status')
    t.match(rf'namespace 1: backend {name}: cannot load its module: .*; install the package rdtarget-{name}, or build', res.err)


@test
def a_full_check_of_what_a_target_serves_is_good(t):
    """Its addresses are in use, by itself, whatever its command line looks like."""
    config = t.config([t.namespace(1)])
    target = t.target(config=config)
    http = target.port
    target.stop()
    config = t.config([t.namespace(1)], listener={'port': http})
    for args in (['-c', config], [f'-c{config}'], [os.path.basename(config)], [f'--config={config}']):
        proc = t.spawn('serving', [program('rdtarget'), *args, '--exit-with-parent'],
                       preexec_fn=lambda: os.chdir(t.dir))
        proc.expect(r'\bready$')
        res = t.run([program('rdtarget'), '--check=full', '-c', config])
        t.eq((res.rc, res.err), (0, ''), f'started with {args}')
        proc.signal(signal.SIGTERM)
        proc.wait()


@test
def a_full_check_finds_an_address_of_another_program(t):
    other = socket.create_server((ADDR, 0))
    t.cleanup(other.close)
    port = other.getsockname()[1]
    t.target(config=t.config([t.namespace(1)]))  # one that does not hold it
    res = t.run([program('rdtarget'), '--check=full', '-c', t.config([t.namespace(1)], listener={'port': port},
                                                                    more={'http': {'port': port}})])
    t.eq(res.rc, 1, 'exit status')
    for place in (r'listeners\[0\]', 'http'):
        t.match(rf'rdtarget.yaml:\d+: {place}.port: {ADDR} port {port}: Address already in use; stop the program', res.err)


@test
def a_full_check_begins_relative_paths_where_it_is_told(t):
    os.mkdir(t.path('images'))
    t.file('images/a.img', bytes(1 << 20))
    config = t.config([{'nsid': 1, 'backend': 'file', 'path': 'a.img'}])
    res = t.run([program('rdtarget'), '--check=full', os.path.relpath(config)])
    t.match(rf'path a.img: no such file.*\(the path begins in {re.escape(os.getcwd())}; see --directory\)', res.err)
    args = ['--directory', t.path('images'), os.path.relpath(config)]
    res = t.run([program('rdtarget'), '--check=full', *args])
    t.eq((res.rc, res.err), (0, ''))
    proc = t.spawn('serving', [program('rdtarget'), '--exit-with-parent', *args])
    proc.expect(r'\bready$')
    proc.signal(signal.SIGHUP)
    proc.expect('reloaded: nothing has changed')
    res = t.run([program('rdtarget'), '--check', '--directory', t.path('none'), config])
    t.match('--directory .*none: No such file', res.err)
    t.eq(res.rc, 1, 'exit status')


@test
def a_full_check_reports_all_that_is_missing(t):
    big = memory_of_this_machine() * 2 // 512 * 512
    os.mkdir(t.path('folder'))
    namespaces = [{'nsid': 1, 'backend': 'file', 'path': t.path('none.img')},
                  {'nsid': 2, 'backend': 'block', 'path': t.file('a.img', bytes(512))},
                  {'nsid': 3, 'backend': 'file', 'path': t.path('none/b.img'), 'create': True, 'size': '1MiB'},
                  {'nsid': 4, 'backend': 'file', 'path': t.path('folder')},
                  {'nsid': 5, 'backend': 'file', 'path': t.file('c.img', bytes(1000))},
                  {'nsid': 6, 'backend': 'memory', 'size': f'{big}'}]
    res = full(t, namespaces, target={'state_dir': t.path('c.img'), 'congestion': 'nope'},
               listeners=[{'address': '192.0.2.1', 'provider': 'iwarp'}, {'address': ADDR, 'port': 0, 'provider': 'iwarp',
                                                                         'congestion': 'neither'}],
               more={'control': {'socket': t.path('none/control'), 'group': 'no-such-group', 'admin_group': 'nor-such'}})
    t.eq(res.rc, 1, 'exit status')
    for says in ('namespace 1: path .*none.img: no such file', 'namespace 2: path .*a.img: is a regular file',
                 'namespace 3: path .*cannot be created in .*none: No such file or directory',
                 'namespace 4: path .*folder: is a directory', 'namespace 5: path .*c.img: its size of 1000 bytes',
                 rf'namespaces\[5\].size: namespaces in memory need .*the largest is {NQN} namespace 6',
                 'target.state_dir: .*c.img: Not a directory',
                 r'listeners\[0\].address: 192.0.2.1 port 0: .*no interface of this machine has that address',
                 'target.congestion: nope: this kernel has no TCP congestion control of that name',
                 r'listeners\[1\].congestion: neither: this kernel has no',
                 'control.group: there is no group "no-such-group"', 'control.admin_group: there is no group "nor-such"',
                 'control.socket: .*none: No such file or directory; expected a directory that user'):
        t.match(rf'(?m)^rdtarget: error: config: \S+rdtarget.yaml:\d+: .*{says}', res.err)
    t.eq(len(res.err.splitlines()), 13, 'problems')
    more = {'control': {'socket': '/run/no-such-folder/control'}}
    t.match('(?s)warning.*control.socket: the directory /run/no-such-folder does not exist; a systemd unit.*OK',
            (lambda res: res.err + res.text)(full(t, [t.namespace(1)], more=more)))


def memory_of_this_machine():
    """RAM and swap, in bytes."""
    with open('/proc/meminfo', encoding='ascii') as f:
        sizes = dict(re.findall(r'(\w+):\s+(\d+)', f.read()))
    return (int(sizes['MemTotal']) + int(sizes['SwapTotal'])) << 10


@test
def memory_that_the_machine_does_not_have_is_refused(t):
    """At the start and by a reload, for all namespaces together."""
    half = memory_of_this_machine() // 512 // 2 * 512
    config = t.config([t.namespace(n, backend='memory', size=str(half)) for n in (1, 2, 3)])
    res = t.run([program('rdtarget'), '-c', config])
    t.eq(res.rc, 1, 'exit status')
    t.match(r'memory: namespaces in memory need \S+ \S+ \(the largest is \S+ namespace 1, .*but this process can have'
            '.*make namespaces smaller', res.err)
    target = t.target([t.namespace(1, backend='memory')])
    t.config([t.namespace(1, backend='memory'), t.namespace(2, backend='memory', size=str(3 * half))])
    target.reload('not reloaded: .*nothing was changed')
    t.match('memory: namespaces in memory need', target.text())


@each(('quickstart.yaml', 'quickstart.yaml'), ('example.yaml', 'example.yaml'),
      ('multipath.yaml', 'multipath.yaml'), ('reservations.yaml', 'reservations.yaml'),
      ('qos.yaml', 'qos.yaml'), ('faults.yaml', 'faults.yaml'), ('service.yaml', 'service.yaml'))
def shipped_configuration_is_good(t, name):
    path = os.path.join(SOURCE_ROOT, 'configs', name)
    res = t.run([program('rdtarget'), '--check', '-c', path])
    t.eq(res.rc, 0, f'exit status ({res.err.strip()})')


def edited(old, new):
    assert old in GOOD
    return GOOD.replace(old, new, 1)


@each(('an unknown key', edited('    port: 0', '    prot: 0'), ':5: .*did you mean "port"'),
      ('a number out of its range', edited('reactors: 2', 'reactors: 0'), ':2: .*reactors: found 0, expected'),
      ('broken YAML', edited('  - address', '  - [address'), r':\d+: not YAML'),
      ('thousands of brackets', '[' * 5000, r':\d+: values are nested more than 32 levels deep'))
def bad(t, text, says):
    """tests/unit/target/config has every mistake with its message."""
    t.match(rf'test\.yaml{says}', check(t, text, rc=1).err, 'the message')


UNSET = f'test.yaml:8: subsystems.0.: {re.escape(NQN)}: neither "allow_any_host" nor "hosts" is given.*"allow_any_host: true".*"hosts: '


@test
def without_a_word_about_hosts_a_subsystem_is_closed_and_named(t):
    """The others are served; a reload that would close another one in this way is refused."""
    other = f'{NQN}-2'
    text = edited('    allow_any_host: true\n', '') + f'  - nqn: {other}\n    allow_any_host: true\ncontrol: {{socket: {t.path("c.sock")}}}\n'
    t.match(UNSET, check(t, text, rc=1).err, 'what --check says')
    target = t.target(config=t.path('test.yaml'))
    target.expect(UNSET)
    t.eq(t.rdinit('id-ctrl', target.uri(None), rc=1).rc, 1, 'a host of the closed one')
    t.rdinit('id-ctrl', target.uri(None, other))
    with Control(t.path('c.sock')) as c:
        t.eq([(s['nqn'], s['admits']) for s in c.call('subsystem.list')['subsystems']], [(NQN, 'unset'), (other, 'any')])
        status = c.call('status')
        t.eq((status['subsystems'], status['subsystems_unset']), (1, 1), 'the status')
        t.eq(c.call('config.check')['ok'], False, 'config.check')
        t.file('test.yaml', text.replace('    allow_any_host: true\n', '').encode())
        target.reload('not reloaded: .* has problems; nothing was changed')
        t.rdinit('id-ctrl', target.uri(None, other))
        t.file('test.yaml', text.encode())
        c.call('subsystem.set_hosts', nqn=other, hosts=[])  # the one that was closed at the start hinders nothing
        t.eq(t.rdinit('id-ctrl', target.uri(None, other), rc=1).rc, 1, 'a host of the one that was closed')
        c.call('subsystem.allow_any_host', nqn=NQN)
        t.rdinit('id-ctrl', target.uri(None))


@test
def an_upgrade_writes_what_was_taken_for_granted(t):
    path = t.file('test.yaml', edited('    allow_any_host: true\n', '').encode())
    for says in ('files changed: 1', 'nothing to change'):
        res = t.run([program('rdtarget'), '--migrate', path])
        t.eq(res.rc, 0, f'exit status ({res.err.strip()})')
        t.match(says, res.text)
    with open(path, encoding='utf-8') as f:
        t.eq(f.read().count('allow_any_host: true'), 1, 'in the file')
    check(t, open(path, encoding='utf-8').read(), rc=0)


@each(('neither', '{}\n', ('no listener is configured', 'no subsystem is configured')),
      ('no subsystem', GOOD[:GOOD.index('subsystems')], ('no subsystem is configured',)))
def a_target_without(t, text, says):
    """It starts, logs that, and serves what a reload adds."""
    path = t.file('test.yaml', text.encode())
    proc = t.spawn('rdtarget', [program('rdtarget'), '--exit-with-parent', path])
    proc.expect(r'\bready$')
    for pattern in says:
        t.match(pattern, proc.text())
    t.file('test.yaml', GOOD.encode())
    since = proc.mark()
    proc.signal(signal.SIGHUP)
    proc.expect('reloaded: ', since=since)
    addr = re.search(r'listening on (\S+) ', proc.text())[1]
    t.rdinit('read', f'nvme+rdma://{addr}/{NQN}/1', '--data', '-', '--data-size', '512')
    proc.signal(signal.SIGTERM)
    t.eq(proc.wait(), 0, 'exit status')


# ---- other files ----

MAIN = GOOD[:GOOD.index('subsystems')] + 'include:\n  - conf.d/*.yaml\n'


def subsystem(nqn=NQN, nsid=1, size='16MiB'):
    return f'''\
subsystems:
  - nqn: {nqn}
    allow_any_host: true
    namespaces:
      - nsid: {nsid}
        backend: memory
        size: {size}
'''


def part(t, name, text):
    os.makedirs(t.path('conf.d'), exist_ok=True)
    return t.file(os.path.join('conf.d', name), text.encode())


@test
def included_files_add_to_the_first(t):
    part(t, '10-first.yaml', subsystem())
    target = t.target(config=t.file('test.yaml', MAIN.encode()))
    t.rdinit('read', target.uri(1), '--data', '-', '--data-size', '512')
    second = part(t, '20-second.yaml', subsystem(NQN + '2'))
    part(t, 'README', 'not read')
    t.match('reloaded: 1 namespace added, 1 subsystem added$', target.reload())
    t.rdinit('read', target.uri(1, NQN + '2'), '--data', '-', '--data-size', '512')
    part(t, '20-second.yaml', subsystem(NQN + '2', size='big'))
    t.match(rf'error: config: {re.escape(second)}:7: subsystems.0..namespaces.0..size: found "big"',
            target.reload('not reloaded'))
    os.unlink(second)
    t.match('reloaded: 1 removed, 1 subsystem removed$', target.reload())


@each(('a name that is used in another file', subsystem(),
       r'b\.yaml:2: .*nqn: .* is already used by the subsystem in \S*conf\.d/a\.yaml:2'),
      ('settings of the whole target', 'target: {reactors: 1}\n',
       r'b\.yaml:1: target: is in a file that \S*test\.yaml includes'),
      ('what it includes itself', 'include: [c.yaml]\n', r'b\.yaml:1: include: is in a file that'),
      ('broken YAML', 'subsystems: [', r'b\.yaml:\d+: not YAML'))
def an_included_file_with(t, text, says):
    part(t, 'a.yaml', subsystem())
    part(t, 'b.yaml', text)
    t.match(says, check(t, MAIN, rc=1).err)


@test
def the_order_of_included_files(t):
    """Each is read once, where it comes first; a path without a pattern must exist."""
    part(t, 'a.yaml', subsystem(NQN + 'a', size='x'))
    part(t, 'b.yaml', subsystem(NQN + 'b', size='x'))
    part(t, 'empty.yaml', '# nothing yet\n')
    text = MAIN.replace('  - conf', '  - conf.d/b.yaml\n  - none/*.yaml\n  - conf')
    found = re.findall(r'conf\.d/(\w+)\.yaml:7', check(t, text, rc=1).err)
    t.eq(found, ['b', 'a'], 'files with mistakes')
    res = check(t, MAIN.replace('conf.d/*.yaml', 'gone.yaml'), rc=1)
    t.match(r'test\.yaml:8: include\[0\]: \S*gone\.yaml cannot be read: No such file', res.err)


@test
def a_missing_configuration_file(t):
    res = t.run([program('rdtarget'), '--check', '-c', t.path('none.yaml')])
    t.eq(res.rc, 1, 'exit status')
    t.match('none.yaml.*No such file', res.err)


@test
def no_configuration_named(t):
    res = t.run([program('rdtarget')])
    t.ok(res.rc in (1, 2), f'exit {res.rc}')
    t.ok(res.err.strip(), 'nothing was said')


@test
def a_ready_fd_that_is_not_open(t):
    res = t.run([program('rdtarget'), '--ready-fd', '77', t.file('test.yaml', GOOD.encode())])
    t.eq(res.rc, 2, 'exit status')
    t.match('--ready-fd: expected a descriptor that is open.*: 77', res.err)


@test
def sighup_before_it_is_ready_is_remembered(t):
    """The file is opened when the configuration is read."""
    path = t.file('test.yaml', GOOD.encode())
    target = t.target(config=path, env=preloaded('watchfs', HUP_AT=path))
    target.expect('reloaded: nothing has changed$')


@test
def an_unknown_option(t):
    res = t.run([program('rdtarget'), '--frobnicate'])
    t.ok(res.rc in (1, 2), f'exit {res.rc}')
    t.match('frobnicate', res.err)


@each(('--help', '--check'), ('--version', r'\d+\.\d+'))
def prints(t, pattern):
    option = t.name.rsplit(': ', 1)[1]
    res = t.run([program('rdtarget'), option])
    t.eq(res.rc, 0, 'exit status')
    t.match(pattern, res.text)


# ---- what only serving finds out ----

@test
def a_mistake_in_the_configuration_has_its_own_exit_status(t):
    """And the service does not try again what would end in the same way."""
    for text, rc in ((edited('port: 0', 'port: zero'), 78), ('nonsense', 78)):
        res = t.run([program('rdtarget'), '-c', t.file('test.yaml', text.encode())])
        t.eq(res.rc, rc, f'exit status ({res.err.strip()})')
        t.eq(check(t, text, rc=1).rc, 1, 'exit status of --check')
    t.eq(t.run([program('rdtarget'), '-c', t.path('none.yaml')]).rc, 78, 'exit status without a file')
    t.eq(t.run([program('rdtarget'), '--nonsense']).rc, 2, 'exit status of a wrong option')
    with open(os.path.join(SOURCE_ROOT, 'configs/systemd/rdtarget.service.in'), encoding='utf-8') as f:
        t.match(r'(?m)^RestartPreventExitStatus=2 78$', f.read())


@test
def a_start_serves_what_it_can(t):
    """What is missing is named, and comes when it is there; no reload is needed."""
    gone = t.path('gone.img')
    target = t.target([t.namespace(1, backend='memory', size='1MiB'),
                       t.namespace(2, path=gone, size=None, create=False),
                       t.namespace(3, path=t.file('empty.img', b''), size=None, create=False)])
    target.expect('namespace 2: path .*gone.img: no such file')
    target.expect('namespace 3: path .*empty.img: is empty')
    target.expect('2 namespaces cannot be served now')
    t.rdinit('read', target.uri(1), '--data', '-', '--data-size', '512')
    t.file('gone.img', bytes(1 << 20))
    target.expect('namespace 2: added, 2048 blocks')
    t.rdinit('read', target.uri(2), '--data', '-', '--data-size', '512')
    target.reload('reloaded in part: 1 problem')
    os.truncate(t.path('empty.img'), 1 << 20)
    target.reload('reloaded: 1 namespace added$')
    t.rdinit('read', target.uri(3), '--data', '-', '--data-size', '512')


if __name__ == '__main__':
    sys.exit(main())
