# SPDX-License-Identifier: BSD-3-Clause
"""rdtarget authenticates its hosts with DH-HMAC-CHAP. The host's part is computed here a second time."""

import base64
import os
import random
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import auth_peer as au
import nvmf_peer as nv
import tcp_peer
from t_auth import CTRL_SECRET, SECRET, AuthHost, baseline, dumped, entry, exercise, serve, subsystem, transaction
from t_control import Control, controlled
from t_loop import NQN, each, main, requires_native, test
from t_serving import Baseline

NULL = {'dhchap_dhgroups': ['null']}
OTHER_SECRET = bytes(range(1, 33))
OTHER = 'nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555'


def do_io(host):
    queue, data = host.add_io(), bytes(range(256)) * 2
    nv.expect(queue.write_blocks(1, 7, data))
    assert nv.expect_data(queue.read_blocks(1, 7, 1)) == data


# ---- authentication that succeeds ----

@each(*[(f'{name}, a secret of {length} bytes with hash {key_hash}', name, length, key_hash)
        for name, length, key_hash in (('sha256', 32, 1), ('sha384', 64, 0), ('sha512', 32, 3))])
def a_host_authenticates(t, name, length, key_hash):
    secret = bytes(range(length))
    target = serve(t, secret=secret, key_hash=key_hash, dhchap_hashes=[name], **NULL)
    with AuthHost(target, secret, key_hash=key_hash) as host:
        host.enable()
        do_io(host)
    target.expect(rf'notice: ctrl: {NQN}: authenticated host {nv.HOST_NQN} at \S+, queue 0: '
                  rf'SHA-{name[3:]}, no Diffie-Hellman$')
    target.expect(r', queue 1: ')


@each(('hash 0', 0), ('hash 1', 1))
def host_and_controller_authenticate_each_other(t, ctrl_key_hash):
    target = serve(t, ctrl_secret=CTRL_SECRET, ctrl_key_hash=ctrl_key_hash, **NULL)
    with AuthHost(target, ctrl_secret=CTRL_SECRET, ctrl_key_hash=ctrl_key_hash) as host:
        host.enable()
        do_io(host)
    target.expect('SHA-256, no Diffie-Hellman, and the controller$')


@each(*[(f'{hash_name}, {group}', hash_name, group) for hash_name, group in zip([*au.HASHES] * 2, au.GROUPS)])
def every_hash_and_every_group(t, hash_name, group):
    target = serve(t, ctrl_secret=CTRL_SECRET, dhchap_hashes=[hash_name], dhchap_dhgroups=[group])
    with AuthHost(target, ctrl_secret=CTRL_SECRET) as host:
        host.enable()
        do_io(host)
    words = 'no Diffie-Hellman' if group == 'null' else group
    target.expect(f'queue 0: SHA-{hash_name[3:]}, {words}, and the controller$')


@test
def the_queues_of_a_controller_have_one_key_pair(t):
    target = serve(t, dhchap_dhgroups=['ffdhe2048'])
    with AuthHost(target) as host, AuthHost(target) as other:
        for one in (host, other):
            one.enable()
            one.pair = transaction(one.admin).until_challenge().dhv1
        t.ok(host.pair != other.pair, 'key pairs of two controllers')
        t.eq(transaction(host.connect_io()).until_challenge().dhv1, host.pair, 'public value for the I/O queue')


@test
def the_preference_of_the_configuration_counts(t):
    target = serve(t, dhchap_hashes=['sha512', 'sha256'], dhchap_dhgroups=['ffdhe3072', 'ffdhe2048', 'null'])
    with AuthHost(target, hashes=(1, 3), groups=(0, 1, 2)) as host:
        host.connect()
    target.expect('queue 0: SHA-512, ffdhe3072')


@test
def the_null_group_has_to_be_allowed(t):
    target = serve(t)
    with AuthHost(target, groups=(0,)) as host:
        refused(t, au.GROUP_UNUSABLE, host.connect)
    with AuthHost(target) as host:
        host.connect()
    target.expect('queue 0: SHA-256, ffdhe2048')


@test
def hosts_without_a_key_need_not_authenticate_where_it_is_optional(t):
    target = serve(t, hosts=(nv.HOST_NQN, OTHER), authentication='optional', **NULL)
    with nv.Host(target.addr, target.port, NQN, hostnqn=OTHER) as host:
        host.enable()
        nv.expect(host.add_io().flush(1))
    with AuthHost(target) as host:
        host.enable()
        do_io(host)


# ---- before authentication ----

@test
def an_impostor_cannot_replace_the_controller_of_a_host(t):
    """duplicate_host is applied when the host has authenticated, not at Connect."""
    target = t.target([t.namespace(backend='memory')], subsystem={**subsystem(t, **NULL), 'duplicate_host': 'replace'})
    with AuthHost(target) as host:
        host.enable()
        queue = host.add_io()
        with AuthHost(target, OTHER_SECRET) as impostor:
            refused(t, au.FAILED, impostor.connect)
            impostor.admin.wait_closed()
        nv.expect(queue.flush(1))
        with AuthHost(target) as again:
            again.enable()
            queue.wait_closed()


def impostor_queues(target, cntlid, qids):
    """A host without the key, on queues of another host's controller."""
    impostor = AuthHost(target, OTHER_SECRET)
    impostor.cntlid = cntlid
    return impostor, [impostor.connect_io(qid) for qid in qids]


@test
def an_impostor_cannot_occupy_the_queue_ids_of_a_host(t):
    target = serve(t, **NULL)
    with AuthHost(target) as host:
        host.enable()
        impostor, queues = impostor_queues(target, host.cntlid, (1, 2, 2))
        with impostor:
            nv.expect(host.admin.set_features(7, 0x00030003))
            for qid in (1, 2):
                nv.expect(host.add_io(qid=qid).flush(1))
            for queue in queues:
                refused(t, au.FAILED, lambda queue=queue: transaction(queue, OTHER_SECRET).run())
                queue.wait_closed()
        for queue in host.io:
            nv.expect(queue.flush(1))
        impostor, queues = impostor_queues(target, host.cntlid, (3, 3))
        with impostor:
            host.shutdown()
            for queue in queues:
                queue.wait_closed()


@test
def a_queue_id_belongs_to_the_first_that_proves_itself(t):
    target = serve(t, dhchap_dhgroups=['ffdhe2048'])
    with AuthHost(target) as host:
        host.enable()
        first, second = host.connect_io(1), host.connect_io(1)
        host.authenticate(second)
        refused(t, au.FAILED, lambda: host.authenticate(first))
        first.wait_closed()
        nv.expect(second.flush(1))
        target.expect('refused host .*queue 1: authentication failed: another queue of the host has its queue ID')
        second.close()
        nv.expect(host.add_io(qid=1).flush(1))


@test
def a_host_is_announced_when_it_has_authenticated(t):
    """The first events are those of the host that has the key, although another host connected before it."""
    target, path = controlled(t, [t.namespace(backend='memory')], subsystem=subsystem(t, **NULL))
    with Control(path) as watcher, AuthHost(target, OTHER_SECRET) as impostor, AuthHost(target) as host:
        watcher.call('events.watch')
        refused(t, au.FAILED, impostor.connect)
        impostor.admin.wait_closed()
        host.connect()
        seen = watched(watcher, 'connected')
        t.eq((seen['hostnqn'], seen['cntlid']), (nv.HOST_NQN, host.cntlid), 'who connected')
        host.close()
        t.eq(watched(watcher, 'disconnected')['cntlid'], host.cntlid, 'who disconnected')
    # A thread writes the log: it has all before this line.
    target.expect(rf'controller {host.cntlid} of {nv.HOST_NQN} is gone')
    t.eq(len(re.findall(rf'controller \d+ for {nv.HOST_NQN} from \S+: connected', target.text())), 1, 'lines of the log')


def watched(watcher, name):
    """The fields of the next event of that name."""
    while True:
        line = watcher.answer()
        if line.get('method') == 'event' and line['params']['name'] == name:
            return line['params']['fields']


@test
def an_impostor_does_not_keep_a_host_away(t):
    target = t.target([t.namespace(backend='memory')], subsystem={**subsystem(t, **NULL), 'duplicate_host': 'refuse'})
    with AuthHost(target) as impostor, AuthHost(target) as host, AuthHost(target) as again:
        nv.expect(impostor.admin.fabrics_connect(impostor.data()))
        host.connect()
        refused(t, au.FAILED, again.connect)
    target.expect('the host already has a controller through this listener, and duplicate_host is "refuse"')


@test
def impostors_cannot_use_up_the_limits_of_a_host(t):
    target = t.target([t.namespace(backend='memory')], subsystem=subsystem(t, **NULL),
                      target={'limits': {'controllers_per_host': 2, 'connections_per_host': 2}})
    impostors = [AuthHost(target) for _ in range(3)]
    answers = [one.admin.fabrics_connect(one.data()).status for one in impostors]
    t.eq(answers, [nv.SUCCESS, nv.SUCCESS, nv.CONNECT_BUSY], 'Connects without a proof')
    for one in impostors[1:]:
        one.close()
    with AuthHost(target) as host, AuthHost(target) as other, AuthHost(target) as third:
        host.connect()
        other.connect()
        refused(t, au.FAILED, third.connect)
        target.expect(r'refused host .*: target.limits.connections_per_host \(2\) is reached')
        impostors[0].close()


# ---- authentication that fails ----

def refused(t, explanation, fn):
    try:
        fn()
    except au.Refused as e:
        t.eq(e.explanation, explanation, 'explanation')
    else:
        raise AssertionError('not refused')


@test
def a_wrong_key_is_refused_and_the_queue_ends(t):
    target = serve(t, **NULL)
    with baseline(target):
        with AuthHost(target, OTHER_SECRET) as host:
            refused(t, au.FAILED, host.connect)
            cqe = host.admin.property_get(nv.CAP, 8)
            t.eq(hex(cqe.status), hex(au.AUTH_REQUIRED), 'status')
            host.admin.wait_closed()
        target.expect(rf'notice: ctrl: {NQN}: refused host {nv.HOST_NQN} at \S+, queue 0: authentication failed: '
                      'the host does not have the key of dhchap_key_file$')


@test
def the_controller_without_a_key_cannot_prove_itself(t):
    target = serve(t, **NULL)
    with AuthHost(target, ctrl_secret=CTRL_SECRET) as host:
        refused(t, au.FAILED, host.connect)
    target.expect('the host requests authentication of the controller, and has no dhchap_ctrl_key_file')


@test
def a_host_that_refuses_the_controller_is_told_in_the_log(t):
    target = serve(t, ctrl_secret=CTRL_SECRET, **NULL)
    with AuthHost(target, ctrl_secret=OTHER_SECRET) as host:
        try:
            host.connect()
        except AssertionError as e:
            t.match('the controller does not have its key', str(e))
        transaction(host.admin).send(transaction(host.admin).failure2())
        host.admin.wait_closed()
    target.expect('not authenticated host .*: the host ended the authentication: authentication failed')


def challenged(host):
    """A transaction of the admin queue, after the challenge."""
    nv.expect(host.admin.fabrics_connect(host.data()))
    return transaction(host.admin, host.secret, **host.auth).until_challenge()


def post_reply(queue, x):
    """Sends the message in the capsule. Returns the CID; the answer comes when a thread has finished the
    computation."""
    msg, cid = x.reply(), queue.next_cid()
    queue.post(nv.fabrics_sqe(au.AUTH_SEND, cid, au.auth_body(len(msg)), sgl=nv.offset_sgl(0, len(msg))) + msg)
    return cid


@test
def other_messages_wait_for_the_computation(t):
    target = serve(t, dhchap_dhgroups=['ffdhe8192'])
    with AuthHost(target) as host:
        host.enable()
        queue = host.connect_io()
        x = transaction(queue).until_challenge()
        cid = post_reply(queue, x)
        t.eq(hex(au.receive(queue)[0].status), hex(nv.SEQUENCE_ERROR), 'Authentication Receive')
        t.eq(hex(au.send(queue, x.negotiate()).status), hex(nv.SEQUENCE_ERROR), 'Authentication Send')
        t.eq(hex(queue.flush(1).status), hex(au.AUTH_REQUIRED), 'Flush')
        nv.expect(queue.wait(cid))
        x.check_success1(x.receive(au.SUCCESS1))
        nv.expect(queue.flush(1))


@test
def a_host_that_goes_during_the_computation_leaves_nothing(t):
    target = serve(t, dhchap_dhgroups=['ffdhe2048', 'ffdhe6144'])
    with Baseline(target, well_behaved=lambda target, nsid: exercise(target, nsid, groups=(1,))):
        for _ in range(2):
            with AuthHost(target, groups=(1,)) as host:
                host.enable()
                queue = host.connect_io()
                post_reply(queue, transaction(queue, groups=(4,)).until_challenge())


@each(('hash', {'dhchap_hashes': ['sha384']}, {'hashes': (1, 3, 77)}, au.HASH_UNUSABLE, 'offers none of dhchap_hashes'),
      ('group', {'dhchap_dhgroups': ['null']}, {'groups': (1, 2, 99)}, au.GROUP_UNUSABLE, 'offers none of dhchap_dhgroups'))
def what_is_not_allowed_is_refused(t, config, offer, explanation, said):
    target = serve(t, **{**NULL, **config})
    with AuthHost(target, **offer) as host:
        refused(t, explanation, host.connect)
    target.expect(said)


@each(('a key for TLS', 1), ('a new key for TLS', 2), ('a key for TLS that replaces another one', 3), ('an unknown value', 200))
def secure_channel_concatenation_is_refused(t, sc_c):
    """The host is told why, and served when it does not ask for it."""
    target = serve(t, **NULL)
    with AuthHost(target) as host:
        nv.expect(host.admin.fabrics_connect(host.data()))
        x = transaction(host.admin)
        x.send(x.negotiate(sc_c=sc_c))
        refused(t, au.CONCATENATION, lambda: x.receive(au.CHALLENGE))
        host.admin.wait_closed()
    target.expect('secure channel concatenation does not match: it asks for a key for TLS, which this target does not make: '
                  'connect without --concat')
    with AuthHost(target) as host:
        host.enable()
        do_io(host)


@test
def a_challenge_that_does_not_fit_can_be_received_again(t):
    target = serve(t, dhchap_hashes=['sha256'], **NULL)
    with AuthHost(target) as host:
        nv.expect(host.admin.fabrics_connect(host.data()))
        x = transaction(host.admin)
        x.send(x.negotiate())
        t.eq(hex(au.receive(host.admin, 47)[0].status), hex(nv.INVALID_FIELD), 'status')
        t.eq(hex(au.receive(host.admin, 8192)[0].status), hex(nv.INVALID_FIELD), 'status')
        x.read_challenge(nv.expect_data(au.receive(host.admin, 48)))
        x.send(x.reply())
        x.check_success1(x.receive(au.SUCCESS1))


# ---- again, on a queue that is in use ----

@test
def a_queue_in_use_authenticates_again(t):
    target = serve(t, ctrl_secret=CTRL_SECRET, **NULL)
    with AuthHost(target, ctrl_secret=CTRL_SECRET) as host:
        host.enable()
        queue = host.add_io()
        for one in (host.admin, queue):
            x = transaction(one, ctrl_secret=CTRL_SECRET, t_id=9).until_challenge()
            nv.expect(queue.flush(1))
            x.send(x.reply())
            x.check_success1(x.receive(au.SUCCESS1))
            x.send(x.success2())
            target.expect(rf'queue {one.qid}: SHA-256, no Diffie-Hellman, and the controller, again$')
        nv.expect(queue.flush(1))


@test
def a_queue_in_use_stays_when_it_fails_to_authenticate_again(t):
    target = serve(t, **NULL)
    with AuthHost(target) as host:
        host.enable()
        queue = host.add_io()
        for _ in range(3):
            x = transaction(queue, OTHER_SECRET).until_challenge()
            x.send(x.reply())
            refused(t, au.FAILED, lambda: x.receive(au.SUCCESS1))
            nv.expect(queue.flush(1))
        transaction(queue).run()
        nv.expect(queue.flush(1))


@test
def a_host_without_a_key_cannot_authenticate(t):
    target = serve(t, hosts=(nv.HOST_NQN, OTHER), authentication='optional', **NULL)
    with nv.Host(target.addr, target.port, NQN, hostnqn=OTHER) as host:
        host.enable()
        refused(t, au.FAILED, transaction(host.admin, hostnqn=OTHER).until_challenge)
        nv.expect(host.admin.property_get(nv.CSTS))
    target.expect('the host has no key in host_auth')


@test
def authentication_again_does_not_disturb_io(t):
    target = serve(t, ctrl_secret=CTRL_SECRET, dhchap_dhgroups=['ffdhe3072'])
    with AuthHost(target, ctrl_secret=CTRL_SECRET) as host:
        host.enable()
        queue = host.add_io()
        posted = []

        def write(n):
            posted.append((n, queue.post_write(1, n, bytes([n % 251]) * 512)))
        for again in range(8):
            x = transaction(queue, ctrl_secret=CTRL_SECRET, t_id=again)
            for n, step in enumerate((lambda: x.until_challenge(), lambda: x.send(x.reply()),
                                      lambda: x.check_success1(x.receive(au.SUCCESS1)), lambda: x.send(x.success2()))):
                write(again * 8 + 2 * n)
                write(again * 8 + 2 * n + 1)
                step()
            while posted:
                nv.expect(posted.pop()[1].wait())
        data = nv.expect_data(queue.read_blocks(1, 0, 64))
        t.same(data, b''.join(bytes([n % 251]) * 512 for n in range(64)), 'what was written')


# ---- new keys ----

def replace_keys(t, **kw):
    t.config([t.namespace(backend='memory')], subsystem=subsystem(t, **kw))


@test
def new_keys_are_used_after_sighup_and_the_old_ones_for_a_while(t):
    target = serve(t, ctrl_secret=CTRL_SECRET, **NULL)
    with AuthHost(target, ctrl_secret=CTRL_SECRET) as host:
        host.enable()
        queue = host.add_io()
        replace_keys(t, secret=OTHER_SECRET, ctrl_secret=bytes(32), **NULL)
        log = target.reload()
        t.match(f'notice: ctrl: {NQN}: host {nv.HOST_NQN}: its keys or authentication methods have changed; '
                'the old keys are accepted for 5 more minutes, or until host_auth of this subsystem changes again', log)
        nv.expect(queue.flush(1))
        transaction(queue, OTHER_SECRET, ctrl_secret=bytes(32)).run()
        target.expect('queue 1: SHA-256, no Diffie-Hellman, and the controller, again$')
        transaction(queue, SECRET, ctrl_secret=CTRL_SECRET).run()
        target.expect('queue 1: SHA-256, no Diffie-Hellman, and the controller, again, with keys that were replaced$')
    with AuthHost(target, OTHER_SECRET) as host:
        host.enable()
        do_io(host)
    replace_keys(t, secret=bytes(48), **NULL)
    target.reload()
    with AuthHost(target, SECRET) as host:
        refused(t, au.FAILED, host.connect)
    t.match('reloaded: nothing has changed', target.reload())


@test
def keys_with_a_mistake_change_nothing(t):
    target = serve(t, **NULL)
    os.chmod(t.path('host.key'), 0o644)
    target.reload(r'host.key can be used by others')
    with AuthHost(target) as host:
        host.connect()


@test
def a_key_may_come_and_go_while_a_host_is_connected(t):
    plain = {'allow_any_host': False, 'hosts': [nv.HOST_NQN]}
    target = t.target([t.namespace(backend='memory')], subsystem=plain)
    with nv.Host(target.addr, target.port, NQN) as host:
        host.enable()
        queue = host.add_io()
        replace_keys(t, **NULL)
        t.match('a key was added', target.reload())
        nv.expect(queue.flush(1))
        with AuthHost(target) as other:
            other.enable()
            t.config([t.namespace(backend='memory')], subsystem=plain)
            t.match('its key was removed', target.reload())
            nv.expect(nv.Host.add_io(other).flush(1))  # not authenticated
        nv.expect(queue.flush(1))


def first_connect(target, hostnqn):
    """Connects until the host is allowed. Returns the answer."""
    while True:
        with nv.Host(target.addr, target.port, NQN, hostnqn=hostnqn) as host:
            for _ in range(20000):
                cqe = host.admin.fabrics_connect(host.data())
                if not cqe.status:
                    return cqe


@test
def a_host_that_is_added_with_a_key_is_never_allowed_without_it(t):
    """It tries to connect all the time while it is added to lists that are long enough for that to take a while."""
    one, names = entry(t, **NULL), [f'nqn.2014-08.io.rdnvme:{"x" * 150}:{i}' for i in range(2000)]

    def listed(hosts):
        return {'allow_any_host': False, 'hosts': hosts, 'authentication': 'required',
                'host_auth': [{**one, 'host': host} for host in hosts]}
    target = t.target([t.namespace(backend='memory')], subsystem=listed(names[1000:]))
    t.config([t.namespace(backend='memory')], subsystem=listed(names))
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(first_connect, target, names[0])
        target.reload()
        t.eq(hex(answer.result().dw0 & ~0xFFFF), hex(au.ATR), 'what the answer to Connect asks for')


@test
def the_only_host_gets_a_new_key_and_its_old_one_ends_at_once(t):
    """As the manual page says: deny it, then allow it with the new key."""
    target, path = controlled(t, [t.namespace(backend='memory')], subsystem=subsystem(t, **NULL))
    keys = {k: v for k, v in entry(t, secret=OTHER_SECRET, name='new', **NULL).items() if k != 'host'}
    exercise(target)
    with Control(path) as c:
        c.call('host.deny', nqn=NQN, hostnqn=nv.HOST_NQN)
        t.eq(c.call('subsystem.list')['subsystems'][0]['admits'], 'none', 'after the last host was denied')
        c.call('host.allow', nqn=NQN, hostnqn=nv.HOST_NQN, keys=keys)
    with AuthHost(target) as host:
        x = challenged(host)
        x.send(x.reply())
        refused(t, au.FAILED, lambda: x.receive(au.SUCCESS1))
    exercise(target, secret=OTHER_SECRET)


# ---- guesses ----

class TcpAuthHost(AuthHost):
    queue_class = tcp_peer.Queue


@each(('iwarp', AuthHost, {}), ('tcp', TcpAuthHost, {'transport': 'tcp'}))
def guesses_do_not_keep_a_host_out(t, kind, listener):
    """They use its name, its identifier and its address, before it has been there. All have their challenges before the
    first one fails, so later ones are slowed down when their proofs are to be checked, others before their challenges."""
    target = t.target([t.namespace(backend='memory')], subsystem=subsystem(t, **NULL), listener=listener)
    hosts = [kind(target, OTHER_SECRET) for _ in range(12)]
    for host in hosts:
        host.x = challenged(host)
    for host in hosts:
        host.x.send(host.x.reply())
        refused(t, au.FAILED, lambda x=host.x: x.receive(au.SUCCESS1))
    with kind(target, OTHER_SECRET) as bad:
        refused(t, au.FAILED, bad.connect)
    target.expect('authentication: idle -> paced$')
    target.expect('authentication: reply -> paced reply$')
    with kind(target) as host:
        host.enable()
        do_io(host)
    for host in hosts:
        host.close()


@test
def right_proofs_at_the_same_time_are_no_guesses(t):
    target = serve(t, **NULL)
    hosts = [AuthHost(target) for _ in range(24)]
    for host in hosts:
        host.x = challenged(host)
    for host in hosts:
        host.x.send(host.x.reply())
        host.x.check_success1(host.x.receive(au.SUCCESS1))
    for host in hosts:
        host.close()


# ---- what is shown ----

@test
def authentications_are_counted_and_shown(t):
    target, path = controlled(t, [t.namespace(backend='memory')], subsystem=subsystem(t, **NULL))
    with Control(path) as c, AuthHost(target) as host:
        nv.expect(host.admin.fabrics_connect(host.data()))
        t.eq([one['state'] for one in c.call('controller.list')['controllers']], ['authenticating'])
        host.authenticate(host.admin)
        with AuthHost(target, OTHER_SECRET) as bad:
            refused(t, au.FAILED, bad.connect)
        stats, = c.call('stats.get')['subsystems']
        t.eq((stats['authentications'], stats['failed_authentications']), (1, 1), 'successes and failures')
        shown = c.call('config.get')['config']['subsystems'][0]['host_auth'][0]
        t.eq(shown['dhchap_key_file'], t.path('host.key'))


# ---- secrets ----

@test
def no_secret_is_in_the_log(t):
    target = t.target([t.namespace(backend='memory')], subsystem=subsystem(t, ctrl_secret=CTRL_SECRET, **NULL),
                      args=['--log', 'trace'])
    with AuthHost(target, ctrl_secret=CTRL_SECRET) as host:
        host.enable()
        host.add_io()
    with AuthHost(target, OTHER_SECRET) as host:
        refused(t, au.FAILED, host.connect)
    target.stop()
    log = target.text().lower()
    for secret in (SECRET, CTRL_SECRET):
        for text in (au.key_text(secret).split(':')[2][:8].lower(), secret[:4].hex(), secret[:6].hex(' ')):
            t.ok(text not in log, f'{text} in the log')


@each(('the null group', 'null'), ('Diffie-Hellman', 'ffdhe2048'))
def no_secret_is_left_where_a_core_dump_has_it(t, group):
    requires_native()  # a sanitizer keeps more on the stack
    secret, ctrl_secret = random.Random(1).randbytes(32), random.Random(2).randbytes(48)
    target = serve(t, secret=secret, key_hash=1, ctrl_secret=ctrl_secret, ctrl_key_hash=2, dhchap_dhgroups=[group])
    with AuthHost(target, secret, key_hash=1, ctrl_secret=ctrl_secret, ctrl_key_hash=2) as host:
        host.enable()
        queue = host.add_io()
        x = transaction(queue, secret, key_hash=1, ctrl_secret=ctrl_secret, ctrl_key_hash=2).run()
        target.expect(', again$')
        with AuthHost(target, OTHER_SECRET) as bad:
            refused(t, au.FAILED, bad.connect)
        needles = {'the secret': secret, 'the secret of the controller': ctrl_secret, 'the key': x.key,
                   'the key of the controller': x.ctrl_key, 'the text of the secret': base64.b64encode(secret),
                   'the text of the secret of the controller': base64.b64encode(ctrl_secret)}
        if x.session:
            needles['the session key'] = x.session
        seen = 0
        for start, data in dumped(target):
            seen += NQN.encode() in data
            for name, needle in needles.items():
                t.ok(needle[:12] not in data and needle[12:24] not in data, f'{name} is in the mapping at {start}')
        t.ok(seen, 'the NQN, which must be found')


if __name__ == '__main__':
    sys.exit(main())
