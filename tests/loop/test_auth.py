# SPDX-License-Identifier: BSD-3-Clause
"""DH-HMAC-CHAP: secrets as rdinit makes and checks them, and as rdtarget reads them. The format is computed here a
second time."""

import base64
import json
import os
import sys
import zlib

import t_schema
from t_loop import each, main, program, requires_program, test

SECRET = bytes(range(32))
LENGTHS = {0: 32, 1: 32, 2: 48, 3: 64}


def key_text(hash_id, secret, crc=None):
    crc = zlib.crc32(secret) if crc is None else crc
    return f'DHHC-1:{hash_id:02}:{base64.b64encode(secret + crc.to_bytes(4, "little")).decode()}:'


def check(t, key, *args):
    return t.run([program('rdinit'), 'check-dhchap-key', *args], input=key.encode())


@test
def secrets_have_the_form_that_others_read(t):
    seen = set()
    for hash_id, length in ((0, None), (0, 48), (0, 64), (1, None), (2, None), (3, None), (3, 64)):
        args = [f'--hmac={hash_id}', *([f'--key-length={length}'] if length else [])]
        key = t.run([program('rdinit'), 'gen-dhchap-key', *args]).text
        t.ok(key.endswith(':\n'), key)
        secret = base64.b64decode(key.split(':')[2], validate=True)[:-4]
        t.eq(len(secret), length or LENGTHS[hash_id], f'bytes of the secret with {args}')
        t.eq(key.strip(), key_text(hash_id, secret), f'key of {args}')
        seen.add(secret)
        t.eq(check(t, key).rc, 0, 'exit status of check-dhchap-key')
    t.eq(len(seen), 7, 'different secrets')


@test
def nvme_cli_accepts_the_secrets(t):
    nvme = requires_program('nvme')
    for hash_id in LENGTHS:
        key = t.run([program('rdinit'), 'gen-dhchap-key', '-m', hash_id]).text.strip()
        res = t.run([nvme, 'check-dhchap-key', f'--key={key}'])
        t.eq(res.rc, 0, f'nvme check-dhchap-key: {res.err}')


@test
def a_checked_secret_is_not_printed(t):
    key = key_text(2, bytes(range(48)))
    path = t.file('host.key', f'{key}\nanother line\n'.encode())
    res = t.run([program('rdinit'), 'check-dhchap-key', '--key-file', path])
    t.eq(res.text, 'The key is valid: hash 02 (SHA-384), a secret of 48 bytes.\n')
    res = check(t, key, '--key-file=-', '--output-format=json')
    value = json.loads(res.text)
    t_schema.check('check-dhchap-key', value)
    t.eq(value, {'hash': 'SHA-384', 'length': 48, 'length_of_hash': True})
    res = check(t, key_text(3, SECRET))
    t.match(r'^The key is valid: hash 03 \(SHA-512\), a secret of 32 bytes.\nLinux before 6.7 .* has 64 bytes.\n$', res.text)


# what was done, the key, what is said
BAD = (
    ('nothing', '', 'the key is empty'),
    ('a TLS key', 'NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:', 'does not start with "DHHC-1:"'),
    ('an unknown hash', key_text(4, SECRET), 'has no hash identifier'),
    ('no colon at the end', key_text(1, SECRET)[:-1], 'does not end with a colon'),
    ('a space at the end', key_text(1, SECRET) + ' ', 'has characters after the colon'),
    ('a character that base64 lacks', key_text(1, SECRET).replace('AAEC', 'AA*C'), 'is not valid base64'),
    ('a character changed', key_text(1, SECRET, 0), 'has a wrong checksum'),
    ('a short secret', key_text(1, SECRET[:16]), 'does not contain a secret of 32, 48 or 64 bytes'),
    ('a long secret', key_text(1, SECRET * 3), 'is longer than a secret of 64 bytes'),
    ('a file that is no key', 'x' * 100000, 'does not start with "DHHC-1:"'),
)


@each(*BAD)
def what_is_wrong_with_a_secret_is_said_without_it(t, key, said):
    res = check(t, key)
    t.eq(res.rc, 1, 'exit status')
    t.eq(res.err.count('\n'), 1, res.err)
    t.ok(res.err.startswith('rdinit: the key ') and said in res.err, res.err)
    secret = key.removeprefix('DHHC-1:')[3:15]
    t.ok(len(secret) < 12 or secret not in res.err, f'{secret} is in {res.err}')


@test
def a_secret_instead_of_a_file_is_not_repeated(t):
    for option in ('--key', '--key-file'):  # nvme-cli's option, which is an abbreviation of ours
        res = t.run([program('rdinit'), 'check-dhchap-key', f'{option}={key_text(1, SECRET)}'])
        t.eq(res.rc, 2, 'exit status')
        t.match('^rdinit: --key-file is the name of a file; secrets are never given on the command line', res.err)
        t.ok('AAEC' not in res.err, res.err)


@test
def secrets_that_older_kernels_refuse_are_not_made(t):
    for args, said in ((['-m', '1', '-l', '64'], '--key-length=32'), (['-l', '33'], 'a secret has 32, 48 or 64 bytes')):
        res = t.run([program('rdinit'), 'gen-dhchap-key', *args])
        t.eq((res.rc, res.text), (2, ''), 'exit status and output')
        t.ok(said in res.err, res.err)
    res = t.run([program('rdinit'), 'check-dhchap-key', '--key-file', t.path('none')])
    t.eq(res.rc, 1, 'exit status')
    t.match(r'none: No such file or directory$', res.err.strip())


# ---- keys in the configuration of rdtarget ----

HOST, OTHER_HOST = 'nqn.2014-08.org.example:host', 'nqn.2014-08.org.example:other'


def check_config(t, *, key=key_text(1, SECRET), mode=0o600, rc=1, env=None, subsystem=None, **entry):
    path = t.file('host.key', key.encode() + b'\n')
    os.chmod(path, mode)
    keys = {'allow_any_host': False, 'hosts': [HOST], 'host_auth': [{'host': HOST, 'dhchap_key_file': path, **entry}],
            **(subsystem or {})}
    config = t.config([t.namespace(backend='memory')],
                      subsystem={key: value for key, value in keys.items() if value is not None})
    res = t.run([program('rdtarget'), '--check=full', '-c', config], env=env)
    t.eq(res.rc, rc, f'exit status ({res.err})')
    t.ok('AAEC' not in res.err, res.err)
    return res.err


@each(*[(f'mode {mode:04o}', mode) for mode in (0o600, 0o400)])
def a_private_file_with_a_key_is_accepted(t, mode):
    t.eq(check_config(t, mode=mode, rc=0), '')


BAD_CONFIGS = (
    ('a file that others read', {'mode': 0o640}, r'host_auth\[0\].dhchap_key_file: \S+host.key can be used by others \(mode 0640\)'),
    ('a file that others write', {'mode': 0o602}, r'can be used by others \(mode 0602\), expected mode 0600 or 0400; use chmod'),
    ('no file', {'dhchap_key_file': '/none/host.key'}, 'dhchap_key_file: /none/host.key: No such file or directory'),
    ('a directory', {'dhchap_key_file': '/etc'}, '/etc is not a regular file'),
    ('a device', {'dhchap_key_file': '/dev/null'}, '/dev/null is not a regular file'),
    ('a key instead of a file', {'dhchap_key_file': key_text(1, SECRET)}, 'found a key, expected the name of a file'),
    ('a credential outside of systemd', {'dhchap_key_file': 'host1'}, 'CREDENTIALS_DIRECTORY is not set'),
    ('a wrong checksum', {'key': key_text(1, SECRET, 0)}, 'host.key: has a wrong checksum: .*; expected a line DHHC-1'),
    ('a short secret', {'key': key_text(1, SECRET[:16])}, 'does not contain a secret of 32, 48 or 64 bytes'),
    ('an unknown hash identifier', {'key': key_text(4, SECRET)}, 'has no hash identifier'),
    ('an empty file', {'key': ''}, 'host.key: is empty'),
    ('an unknown hash', {'dhchap_hashes': ['md5']}, r'dhchap_hashes\[0\]: found "md5", expected sha256, sha384 or sha512'),
    ('an unknown group', {'dhchap_dhgroups': ['modp1']}, r'dhchap_dhgroups\[0\]: found "modp1"'),
    ('many unknown hashes', {'dhchap_hashes': ['sha256', 'md5', 'sha384', 'sha512']}, 'dhchap_hashes: has 4 elements, expected at most 3'),
    ('a hash twice', {'dhchap_hashes': ['sha256', 'sha256']}, r'dhchap_hashes\[1\]: is listed twice'),
    ('any host', {'subsystem': {'allow_any_host': True, 'hosts': None}}, 'any host may connect, so a host could avoid authentication'),
    ('any host with authentication', {'subsystem': {'allow_any_host': True, 'hosts': None, 'host_auth': [],
                                                    'authentication': 'required'}}, 'authentication: any host may connect'),
    ('a host that may not connect', {'host': OTHER_HOST}, '"nqn.2014-08.org.example:other" is not among the subsystem\'s hosts'),
    ('a host without a key', {'subsystem': {'hosts': [HOST, OTHER_HOST], 'authentication': 'required'}},
     r'hosts\[1\]: "nqn.2014-08.org.example:other" has no key in host_auth'),
)


@each(*BAD_CONFIGS)
def what_is_wrong_with_authentication_in_a_configuration_is_said(t, args, said):
    t.match(said, check_config(t, **args))


@test
def the_keys_of_host_and_controller_differ(t):
    err = check_config(t, dhchap_ctrl_key_file=t.path('host.key'))
    t.match('dhchap_ctrl_key_file: has the same secret as dhchap_key_file, expected a different one', err)


@test
def a_host_has_one_entry(t):
    path = t.file('host.key', key_text(1, SECRET).encode())
    row = {'host': HOST, 'dhchap_key_file': path}
    t.match(r'host_auth\[1\].host: "nqn.2014-08.org.example:host" is listed twice', check_config(t, subsystem={'host_auth': [row, row]}))


@test
def a_credential_of_systemd_is_a_key_file(t):
    os.mkdir(t.path('credentials'))
    path = t.file('credentials/host1', key_text(1, SECRET).encode())
    env = {**os.environ, 'CREDENTIALS_DIRECTORY': t.path('credentials')}
    for mode, rc in ((0o400, 0), (0o440, 0), (0o444, 1)):
        os.chmod(path, mode)
        err = check_config(t, dhchap_key_file='host1', env=env, rc=rc)
        t.match('^$' if not rc else 'credentials/host1 can be used by others', err)


if __name__ == '__main__':
    sys.exit(main())
