# SPDX-License-Identifier: BSD-3-Clause
"""Which UUID and NGUID hosts see: they follow the volume, survive restarts, and end with it; so do reservations and
write protection."""

import os
import signal
import sys
import uuid

import nvmf_peer as nv
from t_control import Control, controlled, with_socket
from t_loop import NQN, main, preloaded, program, test, wait_for
from t_owner import CONFLICT, CPTPL_PERSIST, EA, Owner
from t_serving import host, memory
from t_storage import hang_env

GIVEN = '6f0c2b4e-6d0f-4a4e-9a56-0e9b7a3d5c11'


def file(t, nsid, name, **keys):
    return t.namespace(nsid, path=t.path(name), size='1MiB', **keys)


def descriptors(target, nsid=1):
    """What hosts see: {type: identifier}, and the NGUID of Identify Namespace, which must be the same."""
    with host(target) as h:
        h.enable()
        cqe, page = h.admin.identify(3, nsid)
        nv.expect(cqe)
        cqe, ns = h.admin.identify(0, nsid)
        nv.expect(cqe)
        h.shutdown()
    found, at = {}, 0
    while page[at]:
        found[page[at]] = page[at + 4:at + 4 + page[at + 1]]
        at += 4 + page[at + 1]
    assert ns[104:120] == found.get(2, bytes(16)), (ns[104:120], found)
    return found


def seen(target, nsid=1):
    """(UUID, NGUID or None)"""
    found = descriptors(target, nsid)
    return str(uuid.UUID(bytes=found[3])), found[2].hex() if 2 in found else None


def shown(c, nsid=1):
    ns, = [ns for ns in c.call('namespace.list')['namespaces'] if ns['nsid'] == nsid]
    return ns['uuid'], ns.get('nguid'), ns['uuid_from']


def state(t, name='state'):
    return {'target': {'state_dir': t.path(name)}}


def derived(t, nsid=1):
    """What a target without state_dir gives."""
    target = t.target([file(t, nsid, 'derived.img')], name='derived')
    found = seen(target, nsid)
    target.stop()
    t.eq(found[1], None, 'NGUID without state_dir')
    return found[0]


def reserve(target):
    with Owner(target, 1) as one:
        nv.expect(one.register(cptpl=CPTPL_PERSIST))
        nv.expect(one.acquire(EA))
        nv.expect(one.admin.call(nv.sqe(nv.SET_FEATURES, one.admin.next_cid(), nsid=1, cdw10=0x84, cdw11=1)))


def is_excluded(target):
    """Are the reservation and the write protection of reserve() in force?"""
    with Owner(target, 2) as two:
        read, write = two.read(), two.write()
    assert (read, write) in ((0, 0), (CONFLICT, CONFLICT), (CONFLICT, nv.WRITE_PROTECTED)), (read, write)
    return read == CONFLICT


def kept_in(path):
    """The files of UUIDs in a state_dir."""
    return [name for name in os.listdir(path) if not name.startswith('identities.json')]


def kept(t):
    return kept_in(t.path('state'))


def ended(record, text):
    """Does the file say nothing of the UUID any more?"""
    with open(record, encoding='utf-8') as f:
        return text not in f.read()


@test
def a_volume_keeps_its_identity_and_the_nsid_does_not(t):
    target, path = controlled(t, [file(t, 1, 'a.img'), memory(t, 2)], **state(t))
    a = seen(target)
    t.eq(a[1], a[0].replace('-', ''), 'NGUID of a new namespace')
    reserve(target)
    t.ok(is_excluded(target), 'a reservation')
    with Control(path) as c:
        t.eq(shown(c), (*a, 'state_dir'))
        t.eq(c.call('config.get')['identities'][0],
             {'nqn': NQN, 'nsid': 1, 'uuid': a[0], 'nguid': a[1], 'uuid_from': 'state_dir'})
        t.eq(len(kept(t)), 2)
        c.call('namespace.remove', nqn=NQN, nsid=1)
        wait_for(lambda: not kept(t), 'the reservations to end')
        c.call('namespace.add', nqn=NQN, namespace=file(t, 1, 'b.img'))
        b = seen(target)
        t.ok(b[0] != a[0] and b[1] == b[0].replace('-', ''), f'{a} and then {b}')
        t.ok(not is_excluded(target), 'a reservation of the volume before')
        # Another volume takes its place at once, and it comes back with another NSID, as another one.
        c.call('namespace.remove', nqn=NQN, nsid=1)
        c.call('namespace.add', nqn=NQN, namespace=file(t, 1, 'c.img'))
        c.call('namespace.add', nqn=NQN, namespace=file(t, 3, 'a.img'))
        t.eq(len({seen(target, nsid)[0] for nsid in (1, 2, 3)} | {a[0], b[0]}), 5, 'different UUIDs')


@test
def a_restart_is_no_removal(t):
    target, _ = controlled(t, [file(t, 1, 'a.img')], **state(t))
    with Control(t.path('control.sock')) as c:
        c.call('namespace.add', nqn=NQN, namespace=file(t, 2, 'b.img'), save=True)
    before = [seen(target, nsid) for nsid in (1, 2)]
    reserve(target)
    for number, how in enumerate(('stop', 'kill')):
        getattr(target, how)()
        target = t.target(config=t.path('rdtarget.yaml'), name=f'rdtarget-{number + 2}')
        t.eq([seen(target, nsid) for nsid in (1, 2)], before)
        t.ok(is_excluded(target), 'the reservation is gone')


@test
def a_file_edited_and_reloaded_ends_what_it_no_longer_names(t):
    config, path = with_socket(t, [file(t, 1, 'a.img'), file(t, 2, 'b.img')], **state(t))
    target = t.target(config=config)
    a, b = seen(target), seen(target, 2)
    reserve(target)
    # The same volume at another NSID, with another block size.
    with_socket(t, [file(t, 1, 'b.img'), file(t, 2, 'a.img', block_size=4096)], **state(t))
    target.reload()
    t.eq((seen(target), seen(target, 2)), (b, a))
    t.eq(len(kept(t)), 2)
    with_socket(t, [file(t, 1, 'b.img'), file(t, 2, 'c.img')], **state(t))
    target.reload()
    t.eq(seen(target), b)
    t.ok(seen(target, 2)[0] not in (a[0], b[0]), 'another volume has the UUID')
    wait_for(lambda: not kept(t), 'the reservations to end')


@test
def what_is_kept_comes_back(t):
    target, path = controlled(t, [file(t, 1, 'a.img'), memory(t, 2)], **state(t))
    a = seen(target)
    reserve(target)
    res = t.run([program('rdctl'), '--socket', path, 'ns', 'remove', NQN, '1', '--keep-state'])
    t.eq(res.rc, 0, res.err)
    with Control(path) as c:
        c.call('namespace.add', nqn=NQN, namespace=file(t, 1, 'b.img'))
        t.ok(seen(target)[0] != a[0] and not is_excluded(target), 'another volume has what was kept')
        c.call('namespace.remove', nqn=NQN, nsid=1)
        c.call('namespace.add', nqn=NQN, namespace=file(t, 1, 'a.img'))
    t.eq(seen(target), a)
    t.ok(is_excluded(target), 'a reservation that was kept')
    t.eq(t.run([program('rdctl'), '--socket', path, 'ns', 'reopen', NQN, '1', '--keep-state']).rc, 2)


@test
def a_file_that_is_replaced_keeps_its_identity_once_an_operator_says_so(t):
    target, path = controlled(t, [file(t, 1, 'a.img')], **state(t))
    a = seen(target)
    reserve(target)
    os.rename(t.file('restored.img', bytes(1 << 20)), t.path('a.img'))
    with Control(path) as c:
        t.eq(c.call('config.reload')['outcome'], 'failed')
        t.eq(seen(target), a)
        t.eq(c.call('namespace.reopen', nqn=NQN, nsid=1), {'outcome': 'done'})
    t.eq(seen(target), a)
    t.ok(is_excluded(target), 'the reservation of the volume')


# ---- the configuration, and other targets ----

@test
def what_the_configuration_gives_is_all_that_hosts_see(t):
    target, path = controlled(t, [memory(t, 1, uuid=GIVEN), memory(t, 2, eui64='0123456789abcdef'),
                                  memory(t, 3, nguid='0123456789abcdef' * 2)], **state(t))
    t.eq(seen(target), (GIVEN, None))
    t.eq(descriptors(target, 2)[1].hex(), '0123456789abcdef')
    t.eq(seen(target, 3)[1], '0123456789abcdef' * 2)
    with Control(path) as c:
        t.eq([shown(c, nsid)[2] for nsid in (1, 2, 3)], ['config', 'state_dir', 'state_dir'])
        two = seen(target, 2)[0]
        result = c.call('namespace.add', nqn=NQN, namespace=memory(t, 4, uuid=two))
        t.eq(result['outcome'], 'failed')
        t.match(f'its UUID {two} is that of namespace 2 of {NQN}', result['messages'][0]['text'])
    # Taken over into the file as they are.
    found = {nsid: seen(target, nsid) for nsid in (2, 3)}
    with_socket(t, [memory(t, 1, uuid=GIVEN), memory(t, 2, uuid=found[2][0], nguid=found[2][1], eui64='0123456789abcdef'),
                    memory(t, 3, uuid=found[3][0], nguid=found[3][1])], **state(t))
    target.reload()
    t.eq({nsid: seen(target, nsid) for nsid in (2, 3)}, found)


@test
def targets_that_share_a_subsystem_agree(t):
    """With ranges of controller IDs, and state of their own; one was there before the other."""
    both = []
    for number, name in enumerate('ab'):
        spaces = [memory(t, nsid) for nsid in range(1 + number, 3)]
        target, path = controlled(t, spaces, **state(t, name), subsystem={'cntlid_min': 1 + 1000 * number, 'cntlid_max': 1000 + 1000 * number})
        if number:
            with Control(path) as c:
                c.call('namespace.add', nqn=NQN, namespace=memory(t, 1))
        both.append([seen(target, nsid) for nsid in (1, 2)])
        target.stop()
    t.eq(both[0], both[1])
    t.eq([nguid for _, nguid in both[0]], [None, None])


# ---- upgrade ----

@test
def what_hosts_know_from_before_stays(t):
    """A version without the file has left the directory, with or without reservations in it."""
    known = derived(t)
    os.mkdir(t.path('state'))
    with open(t.path(f'state/{known}.wp'), 'w', encoding='ascii') as f:
        f.write('write-protect\n')
    target, path = controlled(t, [file(t, 1, 'a.img')], **state(t))
    t.eq(seen(target), (known, None))
    target.expect('identities.json: created.* keep the UUID .* without an NGUID')
    with host(target) as h:
        h.enable()
        nv.expect(h.add_io().write_blocks(1, 0, bytes(512)), nv.WRITE_PROTECTED)
    with Control(path) as c:
        c.call('namespace.add', nqn=NQN, namespace=file(t, 2, 'b.img'), save=True)
    new = seen(target, 2)
    t.ok(new[1], 'a namespace that came later has no NGUID')
    target.stop()
    # What hosts know follows its volume from now on.
    with_socket(t, [file(t, 1, 'b.img'), file(t, 2, 'a.img')], **state(t))
    target = t.target(config=t.path('rdtarget.yaml'), name='again')
    t.eq((seen(target, 2), seen(target)), ((known, None), new))


@test
def state_dir_that_is_added_keeps_what_hosts_know_if_it_is_there(t):
    known = derived(t)
    os.mkdir(t.path('state'))
    target = t.target([file(t, 1, 'a.img')], **state(t))
    t.eq(seen(target), (known, None))


# ---- failures ----

@test
def a_damaged_file_is_named_and_nothing_gets_another_identity(t):
    target, path = controlled(t, [file(t, 1, 'a.img'), memory(t, 2, uuid=GIVEN, nguid='0123456789abcdef' * 2)], **state(t))
    a = seen(target)
    target.stop()
    record = t.path('state/identities.json')
    with open(record, encoding='utf-8') as f:
        good = f.read()
    with open(record, 'w', encoding='utf-8') as f:
        f.write(good[:-20])
    res = t.run([program('rdtarget'), '--check=full', t.path('rdtarget.yaml')])
    t.eq(res.rc, 1, 'exit status of --check=full')
    t.match(r'target.state_dir: .*state/identities.json: line \d+: ', res.err)
    target = t.target(config=t.path('rdtarget.yaml'), name='again')
    with Control(path) as c:
        one, two = c.call('namespace.list')['namespaces']
        t.eq((one['state'], two['state']), ('failed', 'live'))
        t.match(r'state/identities.json: line \d+: .*; restore this file', one['reason'])
        t.ok('uuid' not in one, 'a UUID is shown')
        with open(record, encoding='utf-8') as f:
            t.eq(f.read(), good[:-20], 'the damaged file')
        with open(record, 'w', encoding='utf-8') as f:
            f.write(good)
        t.eq(c.call('config.reload')['outcome'], 'done')
    t.eq(seen(target), a)


@test
def a_state_dir_that_hangs_delays_new_volumes_alone(t):
    trigger = t.path('hang')
    config, path = with_socket(t, [file(t, 1, 'a.img'), memory(t, 2)], **state(t))
    target = t.target(config=config, env=hang_env(trigger, t.path('state/identities.json.new')))
    with Control(path) as c, host(target) as h:
        h.enable()
        queue = h.add_io()
        open(trigger, 'w', encoding='ascii').close()
        late = Control(path)
        late.post('namespace.add', nqn=NQN, namespace=memory(t, 3))
        wait_for(lambda: len(c.call('namespace.list')['namespaces']) == 3, 'the namespace')
        t.eq(c.call('namespace.write_protect', nqn=NQN, nsid=2, on=True)['outcome'], 'done')
        nv.expect(queue.write_blocks(2, 0, bytes(512)), nv.WRITE_PROTECTED)
        nv.expect(queue.write_blocks(1, 0, bytes(512)))
        t.eq(c.call('namespace.remove', nqn=NQN, nsid=2, wait=False)['outcome'], 'in progress')
        nv.expect(queue.read_blocks(2, 0, 1)[0], nv.INVALID_NS)
        three = c.call('namespace.list')['namespaces'][-1]
        t.eq((three['nsid'], three['state']), (3, 'opening'))
        nv.expect(queue.read_blocks(3, 0, 1)[0], nv.INVALID_NS)  # not before its UUID is stored
        os.unlink(trigger)
        t.eq(late.answer()['result']['outcome'], 'done')
        late.close()
        nv.expect(queue.read_blocks(3, 0, 1)[0])
        h.shutdown()


@test
def a_kill_at_any_step_of_a_removal_leaves_no_reservation_to_others(t):
    """Another volume never has it; UUID and reservations of the volume go together."""
    for step in range(20):
        keys, record = state(t, f'state-{step}'), t.path(f'state-{step}/identities.json')
        with_b = with_socket(t, [file(t, 1, 'b.img'), memory(t, 2)], 'b.yaml', **keys)[0]
        config, path = with_socket(t, [file(t, 1, 'a.img'), memory(t, 2)], **keys)
        target = t.target(config=config, name=f'before-{step}')
        a = seen(target)
        reserve(target)
        target.stop()
        target = t.target(config=config, name=f'dies-{step}', env=preloaded('killat', KILL_AT=str(step)))
        with_socket(t, [memory(t, 2)], **keys)
        target.signal(signal.SIGHUP)
        wait_for(lambda: not target.running or ended(record, a[0]), 'the end of the volume')
        target.signal(signal.SIGTERM)
        died = target.wait() == -signal.SIGKILL
        target = t.target(config=with_b, name=f'after-{step}')
        t.ok(seen(target)[0] != a[0] and not is_excluded(target), f'another volume has the identity, step {step}')
        with Control(path) as c:
            c.call('namespace.add', nqn=NQN, namespace=file(t, 3, 'a.img'))
            t.eq(shown(c, 3)[0] == a[0], bool(kept_in(t.path(f'state-{step}'))), f'UUID and reservation, step {step}')
        target.stop()
        if not died:
            t.eq(step, 14, 'steps')
            return
    t.ok(False, 'it always died')


if __name__ == '__main__':
    sys.exit(main())
