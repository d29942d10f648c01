# SPDX-License-Identifier: BSD-3-Clause
"""Authentication at the discovery subsystem: rdtarget with an independent host, rdinit with an independent controller,
and both with each other."""

import os
import re
import sys

import auth_ctrl as ac
import auth_peer as au
import nvmf_peer as nv
import t_auth
from t_auth import CTRL_SECRET, SECRET, AuthHost, key_file
from t_control import Control, controlled
from t_dev import Device
from t_loop import NQN, each, main, program, test

OTHER = 'nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555'
DISC = nv.DISCOVERY_NQN
NULL = {'dhchap_dhgroups': ['null']}


def section(t, authentication='optional', **kw):
    """The mapping "discovery"."""
    return {'discovery': {'authentication': authentication, 'host_auth': [t_auth.entry(t, **NULL, **kw)]}}


def serve(t, authentication='optional', *, subsystem=None, **kw):
    return t.target([t.namespace(backend='memory')], subsystem=subsystem, more=section(t, authentication, **kw))


def host_of(target, secret=SECRET, **kw):
    return AuthHost(target, secret, subnqn=DISC, **kw)


def refused(t, host):
    try:
        host.connect()
    except au.Refused as e:
        t.eq(e.explanation, au.FAILED, 'explanation')
    else:
        t.ok(False, 'the host was authenticated')


def plain(target, hostnqn):
    return nv.Host(target.addr, target.port, DISC, hostnqn=hostnqn)


def names(log):
    """The NQNs of a discovery log."""
    return {log[at + 256:at + 512].split(b'\0')[0].decode() for at in range(1024, len(log), 1024)} - {''}


# ---- rdtarget ----

@test
def a_host_with_a_key_authenticates_before_it_reads_the_log(t):
    target = serve(t)
    with host_of(target) as host:
        nv.expect(host.admin.fabrics_connect(host.data()))
        for cqe in (host.admin.identify(1)[0], host.admin.get_log(0x70, 4096)[0], host.admin.property_get(nv.CAP, 8)):
            t.eq((hex(cqe.status), cqe.dnr), (hex(au.AUTH_REQUIRED), True), 'status')
    with host_of(target) as host:
        host.enable()
        t.eq(names(nv.expect_data(host.admin.get_log(0x70, 4096))), {DISC, NQN}, 'names in the log')
    target.expect(rf'{DISC}: authenticated host {nv.HOST_NQN} at \S+, queue 0: SHA-256, no Diffie-Hellman$')


@test
def a_host_that_does_not_have_the_key_reads_nothing(t):
    target = serve(t)
    with host_of(target, bytes(32)) as host:
        refused(t, host)
        host.admin.wait_closed()
    target.expect(rf'{DISC}: refused host {nv.HOST_NQN} .*the host does not have the key')


@test
def hosts_without_a_key_need_not_authenticate_where_it_is_optional(t):
    target = serve(t)
    with plain(target, OTHER) as host:
        host.enable()
        t.eq(names(nv.expect_data(host.admin.get_log(0x70, 4096))), {DISC, NQN}, 'names in the log')


@test
def hosts_without_a_key_are_refused_where_it_is_required(t):
    target = serve(t, 'required')
    with plain(target, OTHER) as host:
        t.eq(hex(host.admin.fabrics_connect(host.data()).status), hex(nv.CONNECT_PARAM), 'status')
    target.expect(f'refused a Connect .*host "{OTHER}".*the host has no key in "discovery", which requires one')
    with host_of(target) as host:
        host.enable()
    with nv.Host(target.addr, target.port, NQN, hostnqn=OTHER) as host:
        host.enable()  # other subsystems are not concerned


@test
def the_discovery_controller_proves_itself_too(t):
    target = serve(t, ctrl_secret=CTRL_SECRET, ctrl_key_hash=1)
    with host_of(target, ctrl_secret=CTRL_SECRET, ctrl_key_hash=1) as host:
        host.enable()
    target.expect('queue 0: SHA-256, no Diffie-Hellman, and the controller$')


@test
def keys_of_discovery_change_by_sighup(t):
    target = serve(t)
    with host_of(target) as host:
        host.enable()
        t.config([t.namespace(backend='memory')], more=section(t, secret=bytes(48)))
        t.match(f'{DISC}: host {nv.HOST_NQN}: its keys or authentication methods have changed', target.reload())
        nv.expect_data(host.admin.get_log(0x70, 4096))
    for secret in (bytes(48), SECRET):
        with host_of(target, secret) as host:
            host.enable()
    target.expect('with keys that were replaced$')


@each(('where it is required', 'required', 'its key was removed; it may not connect any more'),
      ('where it is optional', 'optional', 'its key was removed; new queues need not authenticate'))
def the_log_tells_what_follows_for_a_host_that_loses_its_key(t, authentication, says):
    known = t_auth.entry(t, **NULL, host=OTHER, name='known')
    both = {'authentication': authentication, 'host_auth': [known, t_auth.entry(t, **NULL)]}
    target = t.target([t.namespace(backend='memory')], more={'discovery': both})
    with host_of(target) as host:
        host.enable()
        t.config([t.namespace(backend='memory')], more={'discovery': {**both, 'host_auth': [known]}})
        t.match(f'(?m){DISC}: host {nv.HOST_NQN}: {says}$', target.reload())
        if authentication == 'required':
            host.admin.wait_closed()
    with plain(target, nv.HOST_NQN) as host:
        status = host.admin.fabrics_connect(host.data()).status
        t.eq(hex(status), hex(nv.CONNECT_PARAM if authentication == 'required' else 0), 'status')


@test
def required_ends_the_connections_of_hosts_without_a_key(t):
    target = serve(t)
    with plain(target, OTHER) as host, host_of(target) as known:
        host.enable()
        known.enable()
        t.config([t.namespace(backend='memory')], more=section(t, 'required'))
        target.reload()
        host.admin.wait_closed()
        nv.expect_data(known.admin.get_log(0x70, 4096))
    t.config([t.namespace(backend='memory')])
    target.reload()
    with plain(target, nv.HOST_NQN) as host:
        host.enable()


@test
def authentications_at_discovery_are_counted(t):
    target, path = controlled(t, [t.namespace(backend='memory')], more=section(t))
    with Control(path) as c, host_of(target) as host, host_of(target, bytes(32)) as bad:
        host.enable()
        refused(t, bad)
        t.eq(c.call('stats.get')['discovery'], {'authentications': 1, 'failed_authentications': 1})
        metrics = c.call('metrics.get')['text']
    for result in ('ok', 'refused'):
        t.match(f'(?m)^rdtarget_authentications_total.result="{result}". 1$', metrics)


MISTAKES = (
    ('a host twice', lambda s: {'host_auth': s * 2}, r'discovery\.host_auth\[1\]\.host: .* is listed twice'),
    ('no file', lambda s: {'host_auth': [{**s[0], 'dhchap_key_file': '/nonexistent/key'}]},
     r'discovery\.host_auth\[0\]\.dhchap_key_file: /nonexistent/key: No such file'),
    ('no name', lambda s: {'host_auth': [{**s[0], 'host': ''}]}, r'discovery\.host_auth\[0\]\.host: '),
    ('another choice', lambda s: {'authentication': 'never'}, r'discovery\.authentication: .*optional.*required'),
    ('a list of hosts', lambda s: {'hosts': [nv.HOST_NQN]}, r'discovery\.hosts: .*authentication, host_auth'),
)


@each(*MISTAKES)
def mistakes_are_named_with_their_place(t, change, said):
    good = section(t)['discovery']
    config = t.config(more={'discovery': {**good, **change(good['host_auth'])}})
    res = t.run([program('rdtarget'), '--check', '-c', config])
    t.eq(res.rc, 1, 'exit status')
    t.match(said, res.err)


# ---- rdinit ----

class Discovery(ac.AuthTarget):
    """A controller of a discovery subsystem, whose log is empty."""
    subnqn = DISC


def controller(t, **kw):
    target = Discovery(**{'secret': SECRET, **kw})
    t.cleanup(target.close)
    return target


def args(t, ctrl=None, host=SECRET):
    out = ['--hostnqn', nv.HOST_NQN, '--dhchap-secret-file', key_file(t, 'rdinit.key', au.key_text(host))]
    if ctrl:
        out += ['--dhchap-ctrl-secret-file', key_file(t, 'rdinit.ctrl.key', au.key_text(ctrl))]
    return out


@each(('one-way', None), ('mutual', CTRL_SECRET))
def rdinit_authenticates_itself_for_the_log(t, ctrl):
    target = controller(t, ctrl_secret=CTRL_SECRET, group=1)
    t.rdinit('discover', f'nvme+rdma://{target.addr}:{target.port}', *args(t, ctrl))
    t.eq(target.ends, [(0, 'ok')], 'transactions')
    t.eq((target.errors, target.not_yet), ([], []))


@test
def rdinit_says_why_it_gets_no_log(t):
    target = controller(t)
    where = f'nvme+rdma://{target.addr}:{target.port}'
    for verb in ('discover', 'connect-test'):
        res = t.rdinit(verb, where, '--hostnqn', nv.HOST_NQN, rc=1)
        t.match(f'there is no secret for host NQN "{re.escape(nv.HOST_NQN)}"', res.err + res.text)
        res = t.rdinit(verb, where, *args(t, host=bytes(32)), rc=1)
        t.match(f'host NQN "{re.escape(nv.HOST_NQN)}": refused by the target: authentication failed', res.err + res.text)


@test
def a_discovery_controller_with_a_wrong_proof_is_refused(t):
    target = controller(t, ctrl_secret=bytes(32))
    res = t.rdinit('discover', f'nvme+rdma://{target.addr}:{target.port}', *args(t, CTRL_SECRET), rc=1)
    t.match("the target's proof is wrong", res.err)
    t.eq(target.refused, [au.FAILED], 'Failure2')


# ---- both ----

def both(t):
    """A target on which this host authenticates everywhere, with the same secrets."""
    return serve(t, 'required', subsystem=t_auth.subsystem(t, ctrl_secret=CTRL_SECRET, **NULL), ctrl_secret=CTRL_SECRET)


@each(*[(verb, verb, shown) for verb, shown in
        (('discover', NQN), ('list', '512'), ('list-subsys', NQN), ('show-topology', 'live'))])
def verbs_that_read_the_log_authenticate_on_the_way(t, verb, shown):
    target = both(t)
    res = t.rdinit(verb, target.uri(nsid=None, nqn=None), *args(t, CTRL_SECRET))
    t.match(shown, res.text)
    target.expect(f'{DISC}: authenticated host {nv.HOST_NQN} .*and the controller$')
    t.rdinit(verb, target.uri(nsid=None, nqn=None), '--hostnqn', nv.HOST_NQN, rc=1)


@test
def connect_test_names_the_authentication(t):
    target = both(t)
    res = t.rdinit('connect-test', target.uri(nsid=None, nqn=None), *args(t, CTRL_SECRET))
    t.match('a discovery controller has no I/O queues', res.text)
    res = t.rdinit('connect-test', target.uri(nsid=None, nqn=None), *args(t, host=bytes(32)), rc=1)
    t.match('authentication failed', res.err + res.text)


@test
def a_device_follows_a_discovery_controller_that_authenticates(t):
    """The host stays connected, with keep alive, and is notified of addresses that are added and removed."""
    subsystem = t_auth.subsystem(t, ctrl_secret=CTRL_SECRET, **NULL)
    ns, more = t.namespace(backend='memory', size='16MiB'), section(t, 'required', ctrl_secret=CTRL_SECRET)
    target = t.target([ns], subsystem=subsystem, listeners=[{}], more=more)
    _, hostnqn, _, secret, _, ctrl = args(t, CTRL_SECRET)
    env = dict(os.environ, RDDEV_HOSTNQN=hostnqn, RDDEV_SECRET_FILE=secret, RDDEV_CTRL_SECRET_FILE=ctrl)
    dev = Device(t, [target.uri()], '--discovery', 1, env=env)
    dev.goes_on()
    mark = dev.proc.mark()
    t.config([ns], subsystem=subsystem, listeners=[{}, {}], more=more)
    target.reload('1 listener added')
    dev.proc.expect(r'^event path 1 live', since=mark)
    t.config([ns], subsystem=subsystem, listeners=[{}], more=more)
    target.reload('1 listener removed')
    dev.proc.expect(r'^event path 1 failed: .*the discovery log no longer lists it', since=mark)
    target.expect(f'{DISC}: authenticated host {nv.HOST_NQN} .*and the controller$')
    dev.goes_on()
    dev.finish()


@test
def a_device_without_the_secret_says_so(t):
    target = both(t)
    env = dict(os.environ, RDDEV_HOSTNQN=nv.HOST_NQN)
    res = t.run([program('rddev'), '--discovery', '1', target.uri()], env=env)
    t.eq(res.rc, 1, 'exit status')
    t.match('there is no secret for host NQN', res.err)


if __name__ == '__main__':
    sys.exit(main())
