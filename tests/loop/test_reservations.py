# SPDX-License-Identifier: BSD-3-Clause
"""Reservations with two hosts: Preempt and Abort, and what remains after a kill."""

import os
import random
import signal
import sys
import threading

import iwarp_peer as iw
import nvmf_peer as nv
from t_loop import LONG, SANITIZED, each, main, preloaded, test
from t_owner import WE, EA, CONFLICT, ABORTED_PREEMPT, CPTPL_CLEAR, CPTPL_PERSIST, PREEMPT_ABORT, FEAT_PERSIST, Owner

KILLS = 50 if LONG else 12
if SANITIZED:
    KILLS = 5


def serve(t, **kw):
    state = t.path('state')
    return t.target([t.namespace(backend='memory')], target={'state_dir': state}, **kw)


def config(t):
    return t.config([t.namespace(backend='memory')], target={'state_dir': t.path('state')})


# ---- live ----

@test
def preempt_and_abort_ends_commands_of_the_other_host(t):
    """Writes that take 60 s in the backend: the preempting host does not wait for them."""
    ns = t.namespace(backend='memory')
    ns['layers'] = [{'type': 'delay', 'write': '60s'}]
    target = t.target([ns])
    with Owner(target, 1) as one, Owner(target, 2) as two:
        nv.expect(one.register())
        nv.expect(two.register())
        nv.expect(two.acquire(WE))
        region = two.q.conn.register(bytes(512), write=False)
        cids = [two.q.next_cid() for _ in range(8)]
        for cid in cids:
            two.q.post(nv.sqe(nv.NVM_WRITE, cid, nsid=1, cdw10=cid & 0xFF,
                              sgl=nv.keyed_sgl(region.base, 512, region.stag)))
        nv.expect(two.q.read_blocks(1, 0, 1)[0])  # by now the writes are there
        nv.expect(one.acquire(EA, PREEMPT_ABORT, two.key))
        for cid in cids:
            t.eq(two.q.wait(cid).status, ABORTED_PREEMPT, 'status of an aborted write')
        t.eq(two.read(), CONFLICT)
        t.eq(two.register(action=1).status, CONFLICT)  # it is no registrant any more
        t.eq(one.report()[1:], (EA, False, {1: (one.key, True)}))


# ---- persistence ----

def restart(t, target, number, **kw):
    target.kill()
    return t.target(config=config(t), name=f'rdtarget-{number}', **kw)


@test
def what_persists_survives_kill_9(t):
    target = serve(t)
    with Owner(target, 1) as one, Owner(target, 2) as two:
        nv.expect(one.register(cptpl=CPTPL_PERSIST))
        nv.expect(two.register())
        nv.expect(one.acquire(EA))
        before = one.report()
    target = restart(t, target, 1)
    with Owner(target, 3) as three:
        t.eq(three.read(), CONFLICT, 'a read right after the restart')
        t.eq(three.report(), before)
    with Owner(target, 1) as one:
        t.eq(one.write(), 0)
        nv.expect(one.admin.call(nv.sqe(nv.SET_FEATURES, one.admin.next_cid(), nsid=1,
                                        cdw10=FEAT_PERSIST, cdw11=0)))
        got = nv.expect(one.admin.call(nv.sqe(nv.GET_FEATURES, one.admin.next_cid(), nsid=1,
                                              cdw10=FEAT_PERSIST)))
        t.eq(got.dw0, 0)
        t.eq(os.listdir(t.path('state')), ['identities.json'], 'files in the state directory')
    target = restart(t, target, 2)
    with Owner(target, 3) as three:
        t.eq(three.read(), 0)
        t.eq(three.report(), (0, 0, False, {}))


def killer_env(at=None, log=None):
    variables = {}
    if at is not None:
        variables['KILL_AT'] = str(at)
    if log:
        variables['KILL_LOG'] = log
    return preloaded('killat', **variables)


@test
def the_order_of_an_update_is_safe_for_a_power_failure(t):
    """The new text is on the disk before it has the name, and has the name before the answer."""
    log = t.path('operations')
    target = serve(t, env=killer_env(log=log))
    os.unlink(log)  # the UUIDs
    with Owner(target, 1) as one:
        nv.expect(one.register(cptpl=CPTPL_PERSIST))
        with open(log, encoding='ascii') as f:
            t.eq(f.read().split('\n'), ['open', 'write', 'fsync', 'rename', 'fsync folder', ''])
        os.unlink(log)
        nv.expect(one.register(cptpl=CPTPL_CLEAR))
        with open(log, encoding='ascii') as f:
            t.eq(f.read().split('\n'), ['unlink', 'fsync folder', ''])


def change(t, target, act):
    """Host 1 sends a command; returns whether it was answered before the target died."""
    host = Owner(target, 1)
    try:
        nv.expect(act(host))
        answered = True
    except (iw.PeerError, OSError):
        answered = False
    try:
        host.close()
    except (iw.PeerError, OSError):
        pass
    return answered


@each(('a new text', lambda h: h.acquire(WE), 5),
      ('a removal', lambda h: h.register(cptpl=CPTPL_CLEAR), 2))
def a_kill_at_any_step_leaves_old_or_new(t, act, steps):
    target = serve(t)
    with Owner(target, 1) as one:
        nv.expect(one.register(cptpl=CPTPL_PERSIST))
        old = one.report()
    seen = []
    for at in range(steps + 1):
        target = restart(t, target, f'{at}a', env=killer_env(at=at))
        answered = change(t, target, act)
        t.eq(answered, at == steps, f'answered with a kill at step {at}')
        if not answered:
            t.eq(target.wait(), -signal.SIGKILL, 'end of the target')
        target = restart(t, target, f'{at}b')
        with Owner(target, 1) as one:
            now = one.report()
            changed = now[1:] != old[1:]
            seen.append(changed)
            t.ok(changed or not answered, f'step {at}: an answered command was lost')
            if changed and now[3]:
                t.eq(now, (old[0], WE, True, {1: (one.key, True)}))
                nv.expect(one.release(WE))
            elif changed:
                t.eq(now, (0, 0, False, {}))
                nv.expect(one.register(cptpl=CPTPL_PERSIST))
        with Owner(target, 1) as one:
            t.eq(one.report()[1:], old[1:], 'the state to begin again with')
            old = one.report()
    t.eq(seen, sorted(seen), 'old states come before new ones')
    t.ok(not seen[0] and seen[-1], f'steps: {seen}')
    t.note(f'changed after a kill before step 0..{steps}: {seen}')


@test
def random_kills_lose_nothing_that_was_answered(t):
    """One host replaces its key as fast as it can; the kill comes from outside, at any moment."""
    rng = random.Random(KILLS)
    target = serve(t)
    with Owner(target, 1) as one:
        nv.expect(one.register(cptpl=CPTPL_PERSIST))
        key = one.key
    total = 0
    for number in range(KILLS):
        one = Owner(target, 1)
        first = nv.expect(one.register(2, key=key, new=key + 1))
        t.eq(first.status, 0)
        key += 1
        timer = threading.Timer(rng.random() * 0.05, target.signal, (signal.SIGKILL,))
        timer.start()
        try:
            while True:
                nv.expect(one.register(2, key=key, new=key + 1))
                key += 1
                total += 1
        except (iw.PeerError, OSError):
            pass
        timer.join()
        try:
            one.close()
        except (iw.PeerError, OSError):
            pass
        target = restart(t, target, number)
        with Owner(target, 1) as one:
            hosts = one.report()[3]
            t.ok(hosts.get(1) in ((key, False), (key + 1, False)),
                 f'kill {number}: {hosts}, expected key {key:#x} or the one that was asked for next')
            key = hosts[1][0]
    t.note(f'{KILLS} kills during {total} answered changes')


@test
def a_damaged_file_keeps_its_namespace_away_with_the_reason(t):
    target = serve(t)
    with Owner(target, 1) as one:
        nv.expect(one.register(cptpl=CPTPL_PERSIST))
    target.kill()
    name, = (name for name in os.listdir(t.path('state')) if name.endswith('.resv.json'))
    with open(os.path.join(t.path('state'), name), 'r+', encoding='ascii') as f:
        f.truncate(20)
    target = t.target(config=config(t))
    target.expect(rf'namespace 1: reservations in .*/{name}: line \d+: .*remove it to forget')
    target.expect('1 namespace cannot be served now')
    os.unlink(os.path.join(t.path('state'), name))
    target.reload('reloaded: 1 namespace added$')


@test
def two_daemons_do_not_share_a_state_directory(t):
    serve(t)
    res = t.run([os.environ['RDTARGET'], '-c', config(t)])
    t.eq(res.rc, 1)
    t.match(r'state_dir .*another rdtarget uses it', res.err)


if __name__ == '__main__':
    sys.exit(main())
