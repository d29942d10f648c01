# SPDX-License-Identifier: BSD-3-Clause
"""The control socket changes what is served: namespaces, hosts, subsystems and listeners, a whole document; which
changes are saved, and which are replaced by a reload of the file."""

import json
import os
import random
import re
import signal
import sys
import threading

import nvmf_peer as nv
from t_control import Control, Refused, controlled, refused
from t_loop import LONG, NQN, PATIENCE, each, main, preloaded, program, scaled, test, wait_for
from t_serving import exercise, host, memory

OTHER = 'nqn.2024-01.test:other'
HOST = 'nqn.2024-01.test:host-a'
CALLS = 10000 if LONG else scaled(400, least=80)


def nsids(t, target, nqn=NQN):
    found = json.loads(t.rdinit('list-ns', target.uri(None, nqn=nqn), '-o', 'json').text)
    return [entry['nsid'] for entry in found['nsid_list']]


def differences(c):
    return [d['path'] for d in c.call('config.diff')['differences']]


# ---- what can be changed ----

@test
def protection_limits_and_ana_group_change_without_opening_the_storage_again(t):
    """The file has no name any more, so it could not be opened; a command in flight completes."""
    file = t.namespace(1, path=t.file('disk.img', bytes(1 << 20)), create=False, size=None)
    target, path = controlled(t, [file, memory(t, 2, layers=[{'type': 'delay', 'write': '1s'}])])
    os.unlink(t.path('disk.img'))
    with Control(path) as c, host(target) as h:
        h.enable()
        queue = h.add_io()
        nv.expect(queue.write_blocks(1, 8, b'a' * 512))
        late = queue.post_write(2, 0, b'b' * 512)
        wait_for(lambda: c.call('stats.get', namespaces=True)['namespaces'][1]['in_flight'], 'the write to begin')
        for _ in range(2):  # the second one is sent behind the data of the write, which is checked when that has come
            nv.expect(queue.flush(1))
        for nsid in (1, 2):
            t.eq(c.call('namespace.write_protect', nqn=NQN, nsid=nsid, on=True)['summary'],
                 'reloaded: 1 setting changed')
            nv.expect(queue.write_blocks(nsid, 0, bytes(512)), nv.WRITE_PROTECTED)
        nv.expect(late.wait())
        t.eq(c.call('namespace.set_ana', nqn=NQN, nsid=1, group=3)['summary'], 'reloaded: 1 setting changed')
        c.call('namespace.qos', nqn=NQN, nsid=1, limits={'iops': 1000})
        t.same(queue.read_blocks(1, 8, 1)[1], b'a' * 512)
        t.eq(int.from_bytes(h.admin.identify(0, 1)[1][92:96], 'little'), 3, 'ANAGRPID')
        cqe, log = h.admin.get_log(0x0C, 4096)
        nv.expect(cqe)
        t.eq([int.from_bytes(log[at:at + 4], 'little') for at in (16, 48, 52, 84)], [1, 2, 3, 1],
             'group 1 with namespace 2, group 3 with namespace 1')
        c.call('ana.set', group=3, state='inaccessible')
        t.ok(queue.read_blocks(1, 8, 1)[0].status, 'a read in an inaccessible group')
        c.call('namespace.set_ana', nqn=NQN, nsid=1, group=1)
        for nsid in (1, 2):
            c.call('namespace.write_protect', nqn=NQN, nsid=nsid, on=False)
            nv.expect(queue.write_blocks(nsid, 8, b'c' * 512))
        t.same(queue.read_blocks(1, 8, 1)[1], b'c' * 512)


@test
def what_was_opened_to_read_is_opened_again_to_write(t):
    target, path = controlled(t, [t.namespace(1, path=t.file('disk.img', bytes(1 << 20)), create=False, size=None, read_only=True)])
    with Control(path) as c, host(target) as h:
        h.enable()
        queue = h.add_io()
        nv.expect(queue.write_blocks(1, 0, bytes(512)), nv.WRITE_PROTECTED)
        t.eq(c.call('namespace.write_protect', nqn=NQN, nsid=1, on=False)['summary'], 'reloaded: 1 replaced')
        nv.expect(queue.write_blocks(1, 0, bytes(512)))


@test
def a_file_that_has_grown_is_looked_at(t):
    with open(t.path('disk.img'), 'wb') as f:
        f.truncate(4 << 20)
    _, path = controlled(t, [{'nsid': 1, 'backend': 'file', 'path': t.path('disk.img')}])
    os.truncate(t.path('disk.img'), 8 << 20)
    with Control(path) as c:
        t.eq(c.call('namespace.resize', nqn=NQN, nsid=1)['summary'], 'reloaded: 1 resized')
        t.eq(c.call('namespace.list')['namespaces'][0]['size'], 8 << 20)


@test
def only_the_namespace_that_is_named_is_looked_at(t):
    """Another one that fails, or has grown, is not part of the answer."""
    disks = [t.path(name) for name in ('first.img', 'second.img', 'gone.img')]
    for disk in disks[:2]:
        t.file(os.path.basename(disk), bytes(1 << 20))
    _, path = controlled(t, [{'nsid': i, 'backend': 'file', 'path': disk} for i, disk in enumerate(disks, 1)])
    for disk in disks[:2]:
        os.truncate(disk, 2 << 20)
    with Control(path) as c:
        answer = c.call('namespace.resize', nqn=NQN, nsid=1)
        t.eq((answer['outcome'], answer['summary']), ('done', 'reloaded: 1 resized'))
        t.eq([ns['size'] for ns in c.call('namespace.list')['namespaces']][:2], [2 << 20, 1 << 20])
        t.eq(c.call('namespace.resize', nqn=NQN, nsid=3)['outcome'], 'failed')
        t.match('no namespace "4"', refused(t, 'not_found', c.call, 'namespace.resize', nqn=NQN, nsid=4).message)


@test
def an_ana_state_stays_when_something_else_is_changed(t):
    target, path = controlled(t, [memory(t)])
    with Control(path) as c:
        c.call('ana.set', group=1, state='non-optimized')
        c.call('namespace.add', nqn=NQN, namespace=memory(t, 2))
        t.eq(c.call('listener.list')['listeners'][0]['ana'], {'1': 'non-optimized'})
        t.eq(c.call('ana.set', group=1, state='optimized')['changed'], True)
        t.eq(c.call('listener.list')['listeners'][0]['ana'], {})
    exercise(target, nsid=2)


def fault(c, kind):
    """The reason, of the second namespace."""
    ns = c.call('namespace.list')['namespaces'][1]
    return ns['fault_reason'] if ns.get('fault') == kind and ns['fault_seconds'] >= 0 else None


@test
def a_file_that_became_smaller_is_remembered_until_it_is_opened_again(t):
    """Also when it is long again; an edit of the namespace finds it, and one of another namespace does not look."""
    target, path = controlled(t, [memory(t), t.namespace(2, path=t.file('disk.img', b'a' * (1 << 20)), size='1MiB',
                                                         create=False)])
    with Control(path) as c, host(target) as h:
        h.enable()
        queue = h.add_io()
        os.truncate(t.path('disk.img'), 512 << 10)
        c.call('namespace.write_protect', nqn=NQN, nsid=1, on=True)
        t.eq(fault(c, 'ended-early'), None, 'after an edit of another namespace')
        c.call('namespace.write_protect', nqn=NQN, nsid=2, on=True)
        t.eq(c.call('namespace.write_protect', nqn=NQN, nsid=2, on=False)['outcome'], 'done')
        target.expect('DATA IS MISSING: it ends at or before byte 524288, but 1048576 bytes are served')
        os.truncate(t.path('disk.img'), 1 << 20)
        t.eq(c.call('config.reload')['outcome'], 'done')
        t.match('ends at or before byte 524288: writes, and reads beyond it, are refused', fault(c, 'ended-early'))
        t.ok(queue.write_blocks(2, 0, bytes(512)).status, 'a write succeeds')
        t.eq(target.counters()['faults'], 1)
        t.eq(c.call('namespace.reopen', nqn=NQN, nsid=2), {'outcome': 'done'})
        t.eq(fault(c, 'ended-early'), None, 'after it was opened again')
        nv.expect(queue.write_blocks(2, 0, bytes(512)))


@test
def a_file_that_was_replaced_is_told_until_it_is_opened_again(t):
    target, path = controlled(t, [memory(t), t.namespace(2, path=t.file('disk.img', b'a' * (1 << 20)), size=None,
                                                         create=False)])
    with Control(path) as c, host(target) as h:
        h.enable()
        queue = h.add_io()
        os.rename(t.file('restored.img', b'b' * (1 << 20)), t.path('disk.img'))
        result = c.call('config.reload')
        t.eq(result['outcome'], 'failed')
        t.match('namespace 2: path .*disk.img: names another file now', result['messages'][0]['text'])
        t.match('names another file', fault(c, 'mismatch'))
        check = [program('rdtarget'), '--check=full', '-c', t.path('rdtarget.yaml')]
        res = t.run(check)
        t.eq((res.rc, len(res.err.splitlines())), (1, 1))
        t.match(r'rdtarget.yaml:\d+: subsystems\[0\].namespaces\[1\]: .* namespace 2, as served now: '
                'path .*disk.img: names another file now', res.err)
        t.same(queue.read_blocks(2, 0, 1)[1], b'a' * 512)  # hosts are not surprised
        t.eq(c.call('namespace.write_protect', nqn=NQN, nsid=1, on=True)['outcome'], 'done')
        t.eq(c.call('namespace.reopen', nqn=NQN, nsid=2), {'outcome': 'done'})
        t.ok('fault' not in c.call('namespace.list')['namespaces'][1], 'a mismatch stays')
        t.eq((t.run(check).rc, c.call('config.check', full=True)['ok']), (0, True), 'a full check')
        t.same(queue.read_blocks(2, 0, 1)[1], b'b' * 512)
        t.eq(c.call('config.reload')['outcome'], 'done')
        os.unlink(t.path('disk.img'))
        result = c.call('namespace.reopen', nqn=NQN, nsid=2)
        t.eq(result['outcome'], 'failed')
        t.match('disk.img: no such file', result['reason'])
        refused(t, 'not_found', c.call, 'namespace.reopen', nqn=NQN, nsid=9)


# ---- errors ----

@test
def storage_that_is_missing_is_wanted_and_comes(t):
    """The change is made as far as it can be: no later one undoes it, and a save writes it."""
    target, path = controlled(t, [memory(t)])
    ns = {'nsid': 2, 'backend': 'file', 'path': t.path('later.img')}
    with Control(path) as c:
        result = c.call('namespace.add', nqn=NQN, namespace=ns)
        t.eq(result['outcome'], 'failed')
        t.match('namespace 2: path .*later.img: no such file', result['messages'][0]['text'])
        t.eq(c.call('namespace.write_protect', nqn=NQN, nsid=1, on=True)['outcome'], 'done')
        t.eq([n['state'] for n in c.call('namespace.list')['namespaces']], ['live', 'failed'])
        t.eq([n['nsid'] for n in c.call('config.get')['config']['subsystems'][0]['namespaces']], [1, 2])
        c.call('config.save')
        with open(t.path('rdtarget.yaml'), encoding='utf-8') as f:
            t.match('later.img', f.read())
        t.file('later.img', bytes(1 << 20))
        t.eq(c.call('config.reload')['outcome'], 'done')
        t.eq([n['state'] for n in c.call('namespace.list')['namespaces']], ['live', 'live'])
    exercise(target, nsid=2)


@each(('even', ''), ('odd', 'x'))
def what_is_cut_within_a_character_is_told(t, before):
    """Texts are cut at a number of bytes. One of two neighbouring numbers is within a character."""
    _, path = controlled(t, [memory(t)])
    with Control(path) as c, Control(path) as watcher:
        watcher.call('events.watch')
        e = refused(t, 'invalid', c.call, 'ana.set', group=1, state=before + 'ä' * 100)
        t.match('expected optimized', e.message)
        t.eq(watcher.answer()['params']['fields']['result'], e.message, 'event of the call')
        c.call('subsystem.set_hosts', nqn=NQN, hosts=[f'nqn.2024-01.test:{before}' + 'ä' * 90, HOST + 'ä' * 90])
        events = [watcher.answer()['params'] for _ in range(2)]
        t.eq(sorted(e['name'] for e in events), ['call', 'reload'], 'events of the change')


# ---- the file ----

def commented(t):
    """A configuration as a person wrote it."""
    text = f'''# The disks of the second rack.
target: {{buffer_memory: 8MiB}}
listeners:
- address: 127.0.0.1   # the loopback
  port: 0
  provider: iwarp
control: {{socket: {t.path('control.sock')}}}
subsystems:
  - nqn: {NQN}
    allow_any_host: true
    namespaces:

      # for the tests
      - nsid: 1
        backend: memory
        size: 8MiB   # enough
      # the end
'''
    t.file('rdtarget.yaml', text.encode())
    return text


def content(t, name='rdtarget.yaml'):
    with open(t.path(name), encoding='utf-8') as f:
        return f.read()


@test
def what_is_saved_is_in_the_file_with_its_comments(t):
    before = commented(t)
    os.chmod(t.path('rdtarget.yaml'), 0o640)
    target = t.target(config=t.path('rdtarget.yaml'))
    with Control(t.path('control.sock')) as c:
        t.eq(c.call('namespace.resize', nqn=NQN, nsid=1, size='4MiB')['changed'], True)
        t.eq(content(t), before, 'file before it is saved')
        t.eq(c.call('namespace.add', nqn=NQN, namespace=memory(t, 2), save=True)['saved'], True)
        t.eq(content(t), before.replace('8MiB   # enough', '4MiB   # enough\n      - nsid: 2\n        backend: memory\n'
                                        '        size: 8MiB'), 'file')
        t.eq(content(t, 'rdtarget.yaml~'), before, 'the previous file')
        t.eq(os.stat(t.path('rdtarget.yaml')).st_mode & 0o777, 0o640, 'mode')
        t.eq((differences(c), c.call('status')['unsaved']), ([], 0))
        t.eq(c.call('config.reload')['summary'], 'reloaded: nothing has changed')
        t.eq(c.call('config.save'), {'changed': False, 'saved': True}, 'nothing is left to save')
        t.eq(content(t, 'rdtarget.yaml~'), before, 'the previous file')
    target.stop()
    exercise(t.target(config=t.path('rdtarget.yaml'), name='again'), nsid=2)


@test
def included_files_are_changed_where_the_subsystem_is(t):
    os.mkdir(t.path('conf.d'))
    t.file('conf.d/a.yaml', f'subsystems: # a\n- nqn: {OTHER}\n  allow_any_host: true # all\n'.encode())
    t.file('rdtarget.yaml', f'''control: {{socket: {t.path('control.sock')}}}
include: [conf.d/*.yaml]
listeners:
- {{address: 127.0.0.1, port: 0, provider: iwarp}}
'''.encode())
    before = content(t)
    target = t.target(config=t.path('rdtarget.yaml'))
    with Control(t.path('control.sock')) as c:
        t.file('conf.d/b.yaml', b'not yet read: [')  # files are those of the last load
        c.call('namespace.add', nqn=OTHER, namespace=memory(t, 2), save=True)
        t.eq(content(t, 'conf.d/a.yaml'), f'subsystems: # a\n- nqn: {OTHER}\n  allow_any_host: true # all\n'
             '  namespaces:\n    - nsid: 2\n      backend: memory\n      size: 8MiB\n', 'included file')
        t.eq(content(t), before, 'top file')
    exercise(target, OTHER, nsid=2)


@each(('without a link', 'rdtarget.yaml'), ('in another folder', 'files/real.yaml'))
def the_log_names_the_previous_file(t, file):
    """A link stays one; the previous file is beside the file, and the log says so."""
    os.mkdir(t.path('files'))
    before = commented(t)
    if file != 'rdtarget.yaml':
        os.rename(t.path('rdtarget.yaml'), t.path(file))
        os.symlink(file, t.path('rdtarget.yaml'))
    target = t.target(config=t.path('rdtarget.yaml'))
    with Control(t.path('control.sock')) as c:
        c.call('namespace.resize', nqn=NQN, nsid=1, size='4MiB', save=True)
    saved = re.escape(os.path.realpath(t.path(file)))
    target.expect(f'{saved}: saved; the previous one is {saved}~$')
    t.eq((content(t, file), content(t, f'{file}~')), (before.replace('8MiB   #', '4MiB   #'), before), 'files')
    t.eq(os.path.islink(t.path('rdtarget.yaml')), file != 'rdtarget.yaml', 'link')


def two_files(t):
    """A configuration of two files; returns their texts."""
    os.mkdir(t.path('conf.d'))
    t.file('conf.d/a', f"""subsystems:
- nqn: {OTHER}
  allow_any_host: true
""".encode())
    t.file('rdtarget.yaml', f"""control: {{socket: {t.path('control.sock')}}}
include: [conf.d/*]
listeners:
- {{address: 127.0.0.1, port: 0, provider: iwarp}}
subsystems:
- nqn: {NQN}
  allow_any_host: true
""".encode())
    return content(t), content(t, 'conf.d/a')


def save_both(t, name='saver', **env):
    """Changes both files and saves; returns the target, and whether it has answered."""
    target = t.target(config=t.path('rdtarget.yaml'), name=name, env=preloaded('killat', KILL_THREAD='config', **env))
    with Control(t.path('control.sock')) as c:
        for nqn in (NQN, OTHER):
            c.call('namespace.add', nqn=nqn, namespace=memory(t, 2))
        try:
            return target, c.call('config.save')['saved']
        except (AssertionError, OSError):
            t.eq(target.wait(), -signal.SIGKILL, 'what ended it instead of an answer')
            return target, False


def operations(log):
    with open(log, encoding='ascii') as f:
        return f.read().split('\n')[:-1]


@test
def several_files_are_saved_together(t):
    """All new files are on the disk, with their modes, before the first one replaces its old file."""
    two_files(t)
    log = t.path('operations')
    target, saved = save_both(t, KILL_LOG=log)
    t.ok(saved, 'the answer')
    one = ['open', 'write', 'fsync']
    t.eq(operations(log), one * 3 + ['fsync folder'] * 3 + ['rename'] * 2 + ['fsync folder'] * 3)
    t.eq(sorted(os.listdir(t.path('conf.d'))), ['a', 'a~'], 'files')
    t.eq([name for name in os.listdir(t.path('.')) if name.endswith('~')], ['rdtarget.yaml~'], 'files beside the top one')
    target.stop()


@test
def a_save_that_is_cut_off_leaves_whole_files_and_is_told(t):
    """The daemon is killed at each step: every file is the old or the new one, and the next start reports a mixture."""
    before = two_files(t)
    log = t.path('operations')
    target, _ = save_both(t, KILL_LOG=log)
    target.stop()
    after = content(t), content(t, 'conf.d/a')
    steps = operations(log)
    mixtures = 0
    for at in range(len(steps)):
        for name, text in zip(('rdtarget.yaml', 'conf.d/a'), before):
            t.file(name, text.encode())
        _, saved = save_both(t, f'killed{at}', KILL_AT=str(at))
        t.ok(not saved, f'it was killed at step {at}, {steps[at]}')
        now = content(t), content(t, 'conf.d/a')
        for text, old, new in zip(now, before, after):
            t.ok(text in (old, new), f'a file after step {at}')
        again = t.target(config=t.path('rdtarget.yaml'), name=f'again{at}')
        if now not in (before, after):
            mixtures += 1
            again.expect(r'conf.d/a: a save was interrupted before this file was replaced, .*: rename (\S+)\.new~ to it')
        elif now == after:
            t.ok('a save was interrupted' not in again.text(), 'nothing is told of a whole save')
        again.stop()
    t.eq(mixtures, 1, 'steps that leave one file of two')


@test
def the_previous_file_is_not_included(t):
    """A pattern that matches any name does not load the files that a save left beside the configuration."""
    os.mkdir(t.path('conf.d'))
    t.file('conf.d/a', f'subsystems:\n- nqn: {OTHER}\n  allow_any_host: true\n'.encode())
    t.file('conf.d/b.new~', b'what an interrupted save left: [')
    t.file('rdtarget.yaml', f'''control: {{socket: {t.path('control.sock')}}}
include: [conf.d/*]
listeners:
- {{address: 127.0.0.1, port: 0, provider: iwarp}}
'''.encode())
    t.target(config=t.path('rdtarget.yaml'))
    with Control(t.path('control.sock')) as c:
        c.call('namespace.add', nqn=OTHER, namespace=memory(t, 2), save=True)
        t.eq(sorted(os.listdir(t.path('conf.d'))), ['a', 'a~', 'b.new~'], 'files')
        t.eq(c.call('config.reload')['summary'], 'reloaded: nothing has changed')


@test
def a_document_is_compared_and_applied(t):
    before = commented(t)
    target = t.target(config=t.path('rdtarget.yaml'))
    text = before.replace('nsid: 1', 'nsid: 4')
    with Control(t.path('control.sock')) as c:
        answer = c.call('config.apply', document=text, dry_run=True)
        t.eq(sorted(d['path'] for d in answer['differences']),
             [f'subsystems[{NQN}].namespaces[{n}]' for n in (1, 4)], 'differences')
        t.eq(nsids(t, target), [1], 'after the dry run')
        answer = c.call('config.apply', document=text)
        t.eq(answer['summary'], 'reloaded: 1 namespace added, 1 removed')
        exercise(target, nsid=4)
        t.eq(len(differences(c)), 2, 'differences to the file')
        c.call('namespace.add', nqn=NQN, namespace=memory(t, 5))  # a change of the document
        t.eq(c.call('config.save')['saved'], True)
        t.match(r'(?s)nsid: 4\n.*# enough\n      - nsid: 5', content(t))
        t.eq(content(t, 'rdtarget.yaml~'), before, 'the previous file')
    target.expect('control: config.apply .*"document":"\\.\\.\\."')


# ---- many at once ----

@test
def a_long_list_is_right_while_namespaces_come_and_go(t):
    """It is made in slices."""
    count = 3000
    target, path = controlled(t, [t.namespace(n, backend='null', size='1MiB') for n in range(1, count + 1)])
    text = content(t)
    half = re.sub(r'(?m)^ *- nsid: \d*[02468]\n( +[bs].*\n)+', '', text)
    done = threading.Event()
    with Control(path) as c, Control(path) as lister:
        def change():
            for document in (half, text, half):
                c.call('config.apply', document=document)
            done.set()

        thread = threading.Thread(target=change)
        thread.start()
        lists = 0
        while not done.is_set() or not lists:
            found = [ns['nsid'] for ns in lister.call('namespace.list')['namespaces']]
            t.eq(found, sorted(set(found)), 'the order of NSIDs')
            t.eq([n for n in found if n % 2], list(range(1, count + 1, 2)), 'namespaces that stay')
            lists += 1
        thread.join()
        t.eq(len(lister.call('namespace.list', nqn=NQN)['namespaces']), count // 2, 'namespaces at the end')
        lister.post('namespace.list')
    target.stop()


@test
def a_long_list_of_subsystems_is_right_while_they_come_and_go(t):
    """It is made in slices, and hosts are listed without the lock that a host takes to connect."""
    def document(numbers):
        return json.dumps({'control': {'socket': t.path('control.sock')},
                          'listeners': [{'address': '127.0.0.1', 'port': 0, 'provider': 'iwarp'}],
                          'subsystems': [{'nqn': f'nqn.s{n}', 'hosts': [f'nqn.h{n}.{i}' for i in range(20)]} for n in numbers]})

    count = 800
    stay = [f'nqn.s{n}' for n in range(1, count, 2)]
    t.file('rdtarget.yaml', document(range(count)).encode())
    target = t.target(config=t.path('rdtarget.yaml'))
    with Control(t.path('control.sock')) as c, Control(t.path('control.sock')) as lister:
        t.eq(len(lister.call('subsystem.list')['subsystems']), count, 'subsystems at the start')
        done = threading.Event()

        def change():
            c.call('config.apply', document=document(range(1, count, 2)))
            done.set()

        thread = threading.Thread(target=change)
        thread.start()
        lists = 0
        while not done.is_set() or not lists:
            found = {s['nqn']: s for s in lister.call('subsystem.list')['subsystems']}
            t.eq([nqn for nqn in stay if nqn not in found], [], 'subsystems that stay and are missing')
            lists += 1
        thread.join()
        listed = lister.call('subsystem.list')['subsystems']
        t.eq([s['nqn'] for s in listed], stay, 'subsystems at the end')
        t.eq(listed[3]['hosts'], sorted(f'nqn.h7.{i}' for i in range(20)), 'hosts')
        lister.post('subsystem.list')
    target.stop()


def random_namespace(rng):
    return {'nsid': rng.choice([2, 3, 4, 5, 5, 0, -1, 'x']), 'backend': rng.choice(['memory', 'memory', 'null', 'tape']),
            'size': rng.choice(['1MiB', '2MiB', '0', 'x'])}


def random_change(rng):
    """A change of parts that rdverify does not use, valid or not: namespace 1 and its listener stay."""
    nsid = rng.choice([2, 3, 4, 5, 9])
    nqn = rng.choice([NQN, NQN, OTHER, 'nqn.none'])
    return rng.choice([
        ('namespace.add', {'nqn': nqn, 'namespace': random_namespace(rng)}),
        ('namespace.remove', {'nqn': nqn, 'nsid': nsid}),
        ('namespace.resize', {'nqn': nqn, 'nsid': nsid, 'size': rng.choice(['1MiB', '4MiB', 'x'])}),
        ('namespace.qos', {'nqn': nqn, 'nsid': nsid, 'limits': rng.choice([{}, {'iops': 100}, {'iops': 'x'}])}),
        ('namespace.write_protect', {'nqn': nqn, 'nsid': nsid, 'on': rng.choice([True, False, 1])}),
        ('namespace.set_ana', {'nqn': nqn, 'nsid': nsid, 'group': rng.choice([1, 2, 0])}),
        ('subsystem.add', {'subsystem': {'nqn': rng.choice([OTHER, 'no nqn', 5]), 'allow_any_host': True}}),
        ('subsystem.remove', {'nqn': rng.choice([OTHER, 'nqn.none'])}),
        ('host.allow', {'nqn': nqn, 'hostnqn': rng.choice([HOST, OTHER, ''])}),
        ('host.deny', {'nqn': nqn, 'hostnqn': HOST}),
        ('host.auth', {'nqn': nqn, 'hostnqn': HOST, 'keys': rng.choice([{}, {'dhchap_key_file': '/none'}, {'dhchap_key': 7}])}),
        ('host.qos', {'nqn': nqn, 'hostnqn': HOST, 'limits': rng.choice([{}, {'iops': 7}, {'colour': 1}])}),
        ('listener.add', {'listener': {'address': rng.choice(['127.0.0.3', 'x']), 'port': 0, 'provider': 'iwarp'}}),
        ('listener.remove', {'address': rng.choice(['127.0.0.3', '127.0.0.4']), 'port': 0}),
        ('ana.set', {'group': rng.choice([2, 3, 0]), 'state': rng.choice(['optimized', 'change', 'x'])}),
        ('config.diff', {}), ('config.get', {}), ('namespace.list', {}), ('status', {}), ('stats.get', {}),
        ('host.list', {}), ('controller.list', {}), ('nothing', {}),
    ])


@test
def random_changes_of_many_clients_disturb_no_io(t):
    """And in the end the target is what the saved file says."""
    target, path = controlled(t, [t.namespace(1)])
    verify = t.spawn('rdverify', [program('rdverify'), target.uri(1), '--seconds', '3600', '--queues', '2',
                                  '--range', 4 << 20, *PATIENCE])
    seed = random.randrange(1 << 32)
    t.note(f'seed {seed}')
    results, errors = {}, []

    def client(number):
        rng = random.Random(seed + number)
        try:
            with Control(path) as c:
                for _ in range(CALLS // 8):
                    method, params = random_change(rng)
                    if not method.startswith(('config', 'status', 'stats')):
                        params = dict(params, **rng.choice([{}, {}, {}, {'dry_run': True}, {'save': True}, {'x': 1}]))
                    try:
                        c.call(method, **params)
                        name = 'ok'
                    except Refused as e:
                        name = e.name
                    results[name] = results.get(name, 0) + 1
        except Exception as e:  # handed to the test
            errors.append(e)

    threads = [threading.Thread(target=client, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    t.eq(errors, [], 'errors of clients')
    t.ok(verify.running, f'rdverify has ended: {verify.text()[-500:]}')
    t.note(f'{results}')
    for name in ('ok', 'invalid', 'not_found', 'method'):
        t.ok(results.get(name), f'no call ended with {name}: {results}')
    with Control(path) as c:
        c.call('config.save')
        t.eq(differences(c), [], 'differences to what was saved')
        t.eq(c.call('config.reload')['problems'], 0, 'problems of a reload')
    verify.signal(signal.SIGINT)
    t.eq(verify.wait(), 0, f'exit status of rdverify ({verify.text()[-500:]})')
    exercise(target)
    t.ok(not re.search(': error: (?!config:|main: not reloaded)', target.text()), 'an error was logged')


if __name__ == '__main__':
    sys.exit(main())
