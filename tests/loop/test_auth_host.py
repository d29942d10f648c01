# SPDX-License-Identifier: BSD-3-Clause
"""rdinit authenticates itself and the controller by DH-HMAC-CHAP: against an independent controller, which
may also be hostile. The host refuses it then, says why, and the secrets are nowhere to be found."""

import os
import random
import re
import struct
import sys

import auth_ctrl as ac
import auth_peer as au
import nvmf_peer as nv
import t_auth
from t_auth import CTRL_SECRET
from t_auth import SECRET as HOST_SECRET
from t_loop import Skip, each, main, program, test, wait_for
from t_proxy import Proxy

HOSTNQN = 'nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6'


def controller(t, cls=ac.AuthTarget, **kw):
    target = cls(**{'secret': HOST_SECRET, **kw})
    t.cleanup(target.close)
    return target


def uri(target):
    return f'nvme+rdma://{target.addr}:{target.port}/{target.subnqn}/1'


def secret_file(t, name, secret, hash_id=0):
    return t_auth.key_file(t, name, au.key_text(secret, hash_id))


def keys(t, host=HOST_SECRET, ctrl=None, host_hash=0, ctrl_hash=0):
    args = ['--dhchap-secret-file', secret_file(t, 'host.key', host, host_hash)]
    if ctrl is not None:
        args += ['--dhchap-ctrl-secret-file', secret_file(t, 'ctrl.key', ctrl, ctrl_hash)]
    return args


def read(t, target, *args, rc=0, **kw):
    return t.rdinit('read', uri(target), '--hostnqn', HOSTNQN, '--data', t.path('out'), '--data-size=4096',
                    '--nr-io-queues=1', *args, rc=rc, **kw)


def refuses(t, target, pattern, *args, explanation=None):
    """Exit status 1, one line with the host NQN and the reason, and the controller is told."""
    res = read(t, target, *args, rc=1)
    t.eq(res.err.count('\n'), 1, res.err)
    t.match(f'^rdinit: .*authentication as host NQN "{re.escape(HOSTNQN)}": .*{pattern}', res.err)
    t.eq(target.refused, [] if explanation is None else [explanation], 'Failure2 of the host')
    t.eq(target.not_yet, [], 'commands before the end of an authentication')
    return res


# ---- what works ----

@each(*[(f'{name}, {group}', hash_id, number) for (name, hash_id), (group, number) in
        zip([*au.HASHES.items()] * 2, au.GROUPS.items())])
def both_sides_prove_themselves(t, hash_id, group):
    target = controller(t, ctrl_secret=CTRL_SECRET, hash_id=hash_id, group=group)
    read(t, target, *keys(t, ctrl=CTRL_SECRET))
    t.eq(sorted(target.ends), [(0, 'ok'), (1, 'ok')], 'transactions of the queues')
    t.eq(target.errors, [])
    t.eq(len(set(target.t_ids)), 2, 'different transaction identifiers')
    t.eq(len(set(target.seqnums)), 2, 'different sequence numbers')
    t.eq(len(set(target.host_values)), 2 if group else 0, 'different Diffie-Hellman values')
    t.eq(target.offers[0], ([1, 2, 3], [0, 1, 2, 3, 4, 5]), 'what the host offers')
    t.eq(target.not_yet, [], 'commands before the end of an authentication')


@each(*[(f'secrets with hash {h}, of {len(s)} bytes', h, s) for h, s in
        ((0, bytes(range(48))), (1, HOST_SECRET), (2, bytes(range(48))), (3, bytes(range(64))), (3, HOST_SECRET))])
def a_secret_of_every_form_is_used(t, hash_id, secret):
    target = controller(t, secret=secret, secret_hash=hash_id, ctrl_secret=CTRL_SECRET, ctrl_hash=hash_id)
    read(t, target, *keys(t, secret, CTRL_SECRET, hash_id, hash_id))
    t.eq(sorted(target.ends), [(0, 'ok'), (1, 'ok')])


@test
def one_way_when_there_is_no_secret_of_the_controller(t):
    target = controller(t, ctrl_secret=CTRL_SECRET, group=1)
    read(t, target, *keys(t))
    t.eq(sorted(target.ends), [(0, 'ok'), (1, 'ok')])
    t.eq(target.seqnums, [0, 0], 'sequence numbers without a challenge')


@test
def a_controller_that_asks_for_nothing_is_used_as_it_is(t):
    target = controller(t, demand=False)
    read(t, target, *keys(t))
    t.eq(target.ends, [])


@test
def a_host_with_the_secret_of_the_controller_demands_its_proof(t):
    target = controller(t, demand=False, ctrl_secret=CTRL_SECRET)
    read(t, target, *keys(t, ctrl=CTRL_SECRET))
    t.eq(sorted(target.ends), [(0, 'ok'), (1, 'ok')])
    plain = nv.FakeTarget()
    t.cleanup(plain.close)
    res = read(t, plain, *keys(t, ctrl=CTRL_SECRET), rc=1)
    t.match('the host has a secret of the target', res.err)


@test
def a_discovery_controller_need_not_prove_itself(t):
    """Targets leave discovery without authentication; the controllers that discovery names must authenticate."""
    class Discovery(nv.FakeTarget):
        subnqn = nv.DISCOVERY_NQN
    target = Discovery()
    t.cleanup(target.close)
    t.rdinit('discover', f'nvme+rdma://{target.addr}:{target.port}', *keys(t, ctrl=CTRL_SECRET))
    t.eq(target.errors, [])


# ---- with rdtarget ----

@each(*[(f'{name}, {group}', name, group) for name, group in zip(au.HASHES, ('null', 'ffdhe2048', 'ffdhe4096'))])
def rdinit_and_rdtarget_authenticate_each_other(t, name, group):
    target = t_auth.serve(t, host=HOSTNQN, hosts=[HOSTNQN], ctrl_secret=CTRL_SECRET, dhchap_hashes=[name],
                          dhchap_dhgroups=[group])
    data = os.urandom(8192)
    common = ['--hostnqn', HOSTNQN, *keys(t, ctrl=CTRL_SECRET)]
    t.rdinit('write', target.uri(), '--data', t.file('in', data), *common)
    t.same(t.rdinit('read', target.uri(), '--data=-', '--data-size=8192', *common).out, data)
    words = 'no Diffie-Hellman' if group == 'null' else group
    for queue in range(3):
        target.expect(f'authenticated host {HOSTNQN} .*queue {queue}: SHA-{name[3:]}, {words}, and the controller$')


@test
def rdtarget_and_rdinit_say_what_is_wrong(t):
    target = t_auth.serve(t, host=HOSTNQN, hosts=[HOSTNQN], ctrl_secret=CTRL_SECRET)
    for secrets, said in ((None, f'there is no secret for host NQN "{HOSTNQN}"'),
                          ({'host': bytes(32)}, f'host NQN "{HOSTNQN}": refused by the target: authentication failed'),
                          ({'ctrl': bytes(32)}, f'host NQN "{HOSTNQN}": the target.s proof is wrong')):
        args = [] if secrets is None else keys(t, **secrets)
        t.match(said, t.rdinit('id-ctrl', target.uri(), '--hostnqn', HOSTNQN, *args, rc=1).err)
    t.rdinit('id-ctrl', target.uri(), '--hostnqn', HOSTNQN, *keys(t, ctrl=CTRL_SECRET))


@test
def a_device_authenticates_whenever_it_connects(t):
    """Two paths, each of which is lost once: new controllers and queues authenticate."""
    subsystem = t_auth.subsystem(t, host=HOSTNQN, hosts=[HOSTNQN], ctrl_secret=CTRL_SECRET, dhchap_dhgroups=['ffdhe2048'])
    target = t.target([t.namespace(1, size='8MiB', qos={'write_bandwidth': '3MiB'})], subsystem=subsystem)
    proxies = [Proxy(t, target.addr, target.port) for _ in range(2)]
    data = random.Random(29).randbytes(8 << 20)
    proc = t.spawn('cp', [program('rdinit'), 'cp', t.file('source', data), ','.join(p.uri(target) for p in proxies),
                          '--progress', '2', '--reconnect-delay=1', '--hostnqn', HOSTNQN, *keys(t, ctrl=CTRL_SECRET)])
    proc.expect(r'^copy [1-9]\d+ ')
    for number, proxy in enumerate(proxies, 1):
        proxy.reset()
        proc.expect(f'path {number} is connected again')
    t.eq(proc.wait(), 0, 'exit status')
    target.expect(f'authenticated host {HOSTNQN} .*and the controller$')
    t.same(t.rdinit('read', target.uri(), '--hostnqn', HOSTNQN, *keys(t, ctrl=CTRL_SECRET)).out, data)


# ---- secrets as options ----

@test
def the_environment_and_nvme_clis_names_give_files(t):
    host, ctrl = secret_file(t, 'host.key', HOST_SECRET), secret_file(t, 'ctrl.key', CTRL_SECRET)
    for args in (['--dhchap-secret', host, '--dhchap-ctrl-secret', ctrl],
                 ['--kxchap-secret', host, '--kxchap-ctrl-secret', ctrl]):
        target = controller(t, ctrl_secret=CTRL_SECRET)
        read(t, target, *args)
        t.eq(sorted(target.ends), [(0, 'ok'), (1, 'ok')], args)
    target = controller(t, ctrl_secret=CTRL_SECRET)
    read(t, target, env={**os.environ, 'RDINIT_DHCHAP_SECRET_FILE': host, 'RDINIT_DHCHAP_CTRL_SECRET_FILE': ctrl})
    t.eq(len(target.seqnums) and target.seqnums[0] > 0, True, 'the controller was challenged')
    # The option wins over the environment.
    target = controller(t)
    read(t, target, '--dhchap-secret-file', host,
         env={**os.environ, 'RDINIT_DHCHAP_SECRET_FILE': t.path('none')})


@each(*[(f'--{name}', name) for name in ('dhchap-secret', 'dhchap-ctrl-secret', 'kxchap-secret', 'dhchap-secret-file')])
def a_secret_on_the_command_line_is_refused(t, name):
    target = controller(t)
    res = read(t, target, f'--{name}={au.key_text(HOST_SECRET)}', rc=2)
    t.match(f'^rdinit: --{name}: found a secret, expected the name of a file that contains it: .*'
            'gen-dhchap-key', res.err)
    t.ok('AAEC' not in res.err, res.err)
    t.eq(target.log, [], 'nothing was sent')


@test
def letters_of_nvme_cli_say_what_to_do(t):
    for letter, option in (('-S', '--dhchap-secret-file=FILE'), ('-C', '--dhchap-ctrl-secret-file=FILE')):
        res = t.rdinit('id-ctrl', 'nvme+rdma://127.0.0.1/nqn.2024-01.test:x', letter, 'DHHC-1:00:AAEC', rc=2)
        t.ok(option in res.err and 'AAEC' not in res.err, res.err)


@test
def a_host_offers_what_it_is_told_to(t):
    target = controller(t, ctrl_secret=CTRL_SECRET, hash_id=2, group=1)
    read(t, target, *keys(t, ctrl=CTRL_SECRET), '--dhchap-hashes=sha384,sha512', '--dhchap-dhgroups', 'ffdhe2048,ffdhe8192')
    t.eq(target.offers, [([2, 3], [1, 5])] * 2, 'what the host offers')
    t.eq(sorted(target.ends), [(0, 'ok'), (1, 'ok')])
    target = controller(t, group=0)
    refuses(t, target, 'the host did not offer what the target chose', *keys(t), '--dhchap-dhgroups=ffdhe2048',
            explanation=au.GROUP_UNUSABLE)


@each(*[(f'--{option}={text}', option, text) for option, text in
        (('dhchap-hashes', 'sha1'), ('dhchap-hashes', 'sha256,'), ('dhchap-hashes', ''), ('dhchap-dhgroups', 'ffdhe'),
         ('dhchap-dhgroups', 'null ffdhe2048'))])
def an_unknown_name_is_refused(t, option, text):
    target = controller(t)
    res = read(t, target, *keys(t), f'--{option}={text}', rc=2)
    t.match(f'^rdinit: --{option}: .*expected a list of (sha256|null), ', res.err)
    t.eq(target.log, [], 'nothing was sent')


@test
def cp_has_secrets_for_each_side(t):
    secrets = {'source': (HOST_SECRET, CTRL_SECRET), 'destination': (bytes(range(1, 33)), bytes(range(2, 34)))}
    uris, files = {}, {}
    for nsid, (name, (host, ctrl)) in enumerate(secrets.items(), 1):
        target = t.target([t.namespace(nsid, backend='memory', size='1MiB')], name=name, subsystem=t_auth.subsystem(
            t, host=HOSTNQN, hosts=[HOSTNQN], name=name, secret=host, ctrl_secret=ctrl, dhchap_dhgroups=['null']))
        uris[name] = target.uri(nsid)
        files[name] = [secret_file(t, f'{name}.mine', host), secret_file(t, f'{name}.its', ctrl)]
    data = os.urandom(1 << 20)
    source = ['--hostnqn', HOSTNQN, '--dhchap-secret-file', files['source'][0], '--dhchap-ctrl-secret-file', files['source'][1]]
    destination = ['--dst-dhchap-secret-file', files['destination'][0],
                   '--dst-dhchap-ctrl-secret-file', files['destination'][1]]
    t.rdinit('cp', t.file('data', data), uris['source'], *source)
    t.rdinit('cp', uris['source'], uris['destination'], *source, rc=1)
    t.rdinit('cp', uris['source'], uris['destination'], *source, *destination, '--verify')
    t.rdinit('cp', uris['destination'], t.path('back'), '--hostnqn', HOSTNQN, '--dhchap-secret-file', files['destination'][0])
    with open(t.path('back'), 'rb') as f:
        t.same(f.read(), data)


# what is wrong, the file, its mode, what is said
BAD_FILES = (
    ('no file', None, 0, 'cannot open .*host.key: No such file or directory'),
    ('a mode for all', au.key_text(HOST_SECRET), 0o604, r'host.key has the mode 0604, .*expected 0600 or 0640'),
    ('a changed secret', au.key_text(HOST_SECRET).replace('AAEC', 'AAED'), 0o600, 'host.key: the secret has a wrong checksum'),
    ('an empty file', '', 0o600, 'host.key: the secret is empty'),
    ('a long file', 'x' * 100000, 0o600, 'host.key: the secret does not start with "DHHC-1:"'),
)


@each(*BAD_FILES)
def what_is_wrong_with_a_file_is_said(t, text, mode, said):
    target, path = controller(t), t.path('host.key')
    if text is not None:
        t.file('host.key', text.encode())
        os.chmod(path, mode)
    res = t.run([program('rdinit'), 'id-ctrl', uri(target), '--dhchap-secret-file', path])
    t.eq(res.rc, 2, 'exit status')
    t.match(f'^rdinit: secret: .*{said}', res.err)
    t.ok('AAEC' not in res.err, res.err)
    t.eq(target.log, [], 'nothing was sent')


@test
def the_secret_of_the_controller_alone_is_refused(t):
    target = controller(t)
    res = read(t, target, '--dhchap-ctrl-secret-file', secret_file(t, 'ctrl.key', CTRL_SECRET), rc=2)
    t.match('have no secret of the host, which a controller.s secret alone does not replace', res.err)


# ---- what is refused ----

@test
def a_missing_secret_is_named(t):
    target = controller(t)
    res = read(t, target, rc=1)
    t.match(f'the target demands authentication, and there is no secret for host NQN "{re.escape(HOSTNQN)}"', res.err)


@test
def a_wrong_secret_is_named(t):
    target = controller(t, group=1)
    refuses(t, target, r'refused by the target: authentication failed \(is the secret', *keys(t, bytes(32)))
    t.eq(target.ends, [(0, 'failed')])


@test
def a_wrong_secret_of_the_controller_is_named(t):
    for group in (0, 1):
        target = controller(t, ctrl_secret=bytes(32), group=group)
        refuses(t, target, "the target's proof is wrong", *keys(t, ctrl=CTRL_SECRET), explanation=au.FAILED)


@test
def a_secure_channel_is_refused(t):
    target = controller(t)
    target.connect_bits |= ac.ASCR
    t.match('demands a secure channel', read(t, target, *keys(t), rc=1).err)


@test
def the_reason_stays_when_the_controller_closes_at_once(t):
    class Leaving(ac.AuthTarget):
        def after_failure2(self, queue):
            raise nv.Stop
    target = controller(t, Leaving, ctrl_secret=bytes(32))
    refuses(t, target, "the target's proof is wrong", *keys(t, ctrl=CTRL_SECRET), explanation=au.FAILED)


@test
def a_controller_that_closes_instead_of_a_refusal_is_explained(t):
    """Linux's target closes the connection after its Failure1, which can be lost then."""
    class Silent(ac.AuthTarget):
        def do_auth_receive(self, queue, cmd):
            if queue.tx.state == 'refuse':
                raise nv.Stop
            return super().do_auth_receive(queue, cmd)
    target = controller(t, Silent)
    refuses(t, target, 'no answer to the host.s proof .is the secret the one that the target has.*connection lost',
            *keys(t, bytes(32)))


def byte(at, change):
    return lambda msg, tx: msg[:at] + bytes([change(msg[at])]) + msg[at + 1:]


# tests/unit/nvmf/test_auth.c has every wrong message.
@each(('challenge with an unknown hash', 'challenge', byte(8, lambda b: 9), au.HASH_UNUSABLE, 'hash function is not usable'),
      ('success without the proof', 'success1', byte(8, lambda b: 0), au.FAILED, 'did not authenticate itself'),
      ('success with a bit of the proof changed', 'success1', byte(47, lambda b: b ^ 1), au.FAILED, 'proof is wrong'))
def a_wrong_message_is_refused(t, message, tamper, explanation, said):
    target = controller(t, ctrl_secret=CTRL_SECRET, tamper={message: tamper})
    refuses(t, target, said, *keys(t, ctrl=CTRL_SECRET), explanation=explanation)
    t.eq(target.errors, [])


@test
def the_proof_of_another_queue_is_refused(t):
    """A controller without the secret replays the messages that it received on the admin queue."""
    heard = []

    def replay(msg, tx):
        heard.append(msg)
        return struct.pack('<BBHH', 1, 3, 0, tx.t_id) + heard[0][6:]
    target = controller(t, ctrl_secret=CTRL_SECRET, tamper={'success1': replay})
    res = refuses(t, target, "the target's proof is wrong", *keys(t, ctrl=CTRL_SECRET), explanation=au.FAILED)
    t.match('queue 1: authentication', res.err)
    t.eq(sorted(target.ends), [(0, 'ok'), (1, 'failed')])


@each(*[(f'explanation {e}', e, said) for e, said in
        ((4, 'the hash function is not usable'), (99, 'unknown explanation'))])
def the_explanation_of_a_refusal_is_said(t, explanation, said):
    for message in ('challenge', 'success1'):
        target = controller(t, ctrl_secret=CTRL_SECRET,
                            tamper={message: lambda m, tx: ac.AuthTarget.failure1(tx, explanation)})
        refuses(t, target, f'refused by the target: {said}', *keys(t, ctrl=CTRL_SECRET))


# ---- where secrets must not be ----

@test
def secrets_are_in_no_command_line_trace_or_memory_dump(t):
    host, ctrl = os.urandom(32), os.urandom(48)
    target = controller(t, secret=host, secret_hash=1, ctrl_secret=ctrl, ctrl_hash=2, group=1)
    proc = t.spawn('monitor', [program('rdinit'), 'monitor', uri(target), '--hostnqn', HOSTNQN,
                               *keys(t, host, ctrl, 1, 2), '-vvv'])
    wait_for(lambda: (0, nv.AER) in target.log, 'the monitor to be ready')
    t.eq(target.ends, [(0, 'ok')])
    try:
        memory = b''.join(data for _, data in t_auth.dumped(proc))
    except PermissionError:
        raise Skip('the memory of a child process cannot be read here') from None
    trace = proc.text().encode()
    with open(f'/proc/{proc.pid}/cmdline', 'rb') as f:
        line = f.read()
    t.ok(HOSTNQN.encode() in memory, 'the memory that was read is not that of the program')
    t.ok(b'challenged with SHA-256, ffdhe2048' in trace, 'there is no trace')
    parts = {}
    for name, secret, hash_id, nqn in (('host', host, 1, HOSTNQN), ('controller', ctrl, 2, target.subnqn)):
        text = au.key_text(secret, hash_id).encode()
        parts[f'text of the secret of the {name}'] = text[10:26]
        parts[f'secret of the {name}'] = secret[:16]
        parts[f'key of the {name}'] = au.transform(secret, hash_id, nqn)[:16]
        parts[f'end of the secret of the {name}'] = secret[-16:]
    for where, content in (('memory', memory), ('trace', trace), ('command line', line)):
        for what, part in parts.items():
            t.ok(part not in content, f'{what} is in the {where}')
            t.ok(part.hex().encode() not in content, f'{what} is in the {where}, in hexadecimal')


if __name__ == '__main__':
    sys.exit(main())
