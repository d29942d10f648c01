# SPDX-License-Identifier: BSD-3-Clause
"""Keys of TLS, as rdinit makes and checks them. The format is computed here a second time; the identities are those of
libnvme's and the kernel's test vectors."""

import base64
import json
import sys
import zlib

import t_schema
from t_loop import each, main, program, requires_program, test

SECRET = bytes.fromhex('5512dbb6737d0106f65975b773dfb011ffc344bcf442e2dd6d8bc4870b5d5b03')  # libnvme's test/psk.c
NAMES = ('nqn.psk-test-host', 'nqn.psk-test-subsys')
LENGTHS = {1: 32, 2: 48}


def key_text(hash_id, secret, crc=None):
    crc = zlib.crc32(secret) if crc is None else crc
    return f'NVMeTLSkey-1:{hash_id:02}:{base64.b64encode(secret + crc.to_bytes(4, "little")).decode()}:'


KEY = key_text(1, SECRET)


def check(t, key, *args):
    return t.run([program('rdinit'), 'check-tls-key', *args], input=key.encode())


def identity(t, key, names, *args):
    return check(t, key, f'--hostnqn={names[0]}', f'--subsysnqn={names[1]}', *args)


@test
def the_text_is_that_of_libnvme(t):
    t.eq(KEY, 'NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:')


@test
def keys_have_the_form_that_others_read(t):
    seen = set()
    for hash_id, args in ((1, []), (1, ['--hmac=1']), (2, ['-m', '2'])):
        key = t.run([program('rdinit'), 'gen-tls-key', *args]).text
        t.ok(key.endswith(':\n'), key)
        secret = base64.b64decode(key.split(':')[2], validate=True)[:-4]
        t.eq(len(secret), LENGTHS[hash_id], f'bytes of the key with {args}')
        t.eq(key.strip(), key_text(hash_id, secret), f'key of {args}')
        seen.add(secret)
        t.eq(check(t, key).rc, 0, 'exit status of check-tls-key')
    t.eq(len(seen), 3, 'different keys')


@test
def nvme_cli_reads_the_keys(t):
    nvme = requires_program('nvme')
    usage = t.run([nvme, 'check-tls-key', '--help'])
    new = '--keydata' in usage.text + usage.err  # nvme-cli 2.3 has --key, and no identities
    for hash_id in LENGTHS:
        key = t.run([program('rdinit'), 'gen-tls-key', '-m', hash_id]).text.strip()
        res = t.run([nvme, 'check-tls-key', f'--keydata={key}' if new else f'--key={key}', *([f'--subsysnqn={NAMES[1]}'] if new else [])])
        t.eq(res.rc, 0, f'nvme check-tls-key: {res.err}')


# what, key, options, identity
VECTORS = (
    ('version 1', KEY, [], 'NVMe1R01 {} {} iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU='),
    ('version 1 of libnvme before 1.14', KEY, ['--compat'], 'NVMe1R01 {} {} 66GuqV08TsAGII39teWUfwQwizjv06Jy8jOcX3NAAzM='),
    ('version 0', KEY, ['-I', '0'], 'NVMe0R01 {} {}'),
    ('SHA-384', key_text(2, bytes(range(48))), ['--identity=1'],
     'NVMe1R02 {} {} ORMrJUCF3FaAk9vw0sFM0k7i5naVtBT9UiaRzpHm+YJm961Rsvdf3b6UNWfDOeqq'),
)


@each(*VECTORS)
def the_identity_is_that_of_others(t, key, args, expected):
    expected = expected.format(*NAMES)
    res = identity(t, key, NAMES, *args)
    t.eq(res.text.splitlines()[1:], [f'Its identity: {expected}'])
    value = json.loads(identity(t, key, NAMES, *args, '--output-format=json').text)
    t_schema.check('check-tls-key', value)
    t.eq(value['identity'], expected)


@test
def a_checked_key_is_not_printed(t):
    path = t.file('tls.key', f'{KEY}\nanother line\n'.encode())
    res = t.run([program('rdinit'), 'check-tls-key', '--key-file', path])
    t.eq(res.text, 'The key is valid: hash 01 (SHA-256), a key of 32 bytes.\n')
    value = json.loads(check(t, key_text(0, bytes(48)), '--key-file=-', '--output-format=json').text)
    t_schema.check('check-tls-key', value)
    t.eq(value, {'hash': 'none', 'length': 48})


# what was done, the key, what is said
BAD = (
    ('nothing', '', 'the key is empty'),
    ('a secret of DH-HMAC-CHAP', 'DHHC-1:01:AAAA:', 'does not start with "NVMeTLSkey-1:"'),
    ('an unknown hash', key_text(3, SECRET), 'has no hash identifier (00, 01 or 02'),
    ('no colon at the end', KEY[:-1], 'does not end with a colon'),
    ('a character changed', key_text(1, SECRET, 0), 'has a wrong checksum'),
    ('a hash of another length', key_text(2, SECRET), 'does not contain a key of 32 bytes (with hash 01), of 48 (with hash 02)'),
)


@each(*BAD)
def what_is_wrong_with_a_key_is_said_without_it(t, key, said):
    res = check(t, key)
    t.eq(res.rc, 1, 'exit status')
    t.eq(res.err.count('\n'), 1, res.err)
    t.ok(res.err.startswith('rdinit: the key ') and said in res.err, res.err)
    t.ok('VRLb' not in res.err, res.err)


# what is wrong, the arguments, what is said
WRONG = (
    ('a key instead of a file', ['check-tls-key', f'--key-file={KEY}'], '--key-file is the name of a file; secrets are never given'),
    ("nvme-cli's key", ['check-tls-key', f'--keydata={KEY}'], 'secrets are never given on the command line'),
    ("nvme-cli's secret", ['gen-tls-key', f'--secret={SECRET.hex()}'], 'secrets are never given on the command line'),
    ('no hash', ['gen-tls-key', '--hmac=0'], '--hmac'),
    ('a hash that TLS keys do not have', ['gen-tls-key', '--hmac=3'], '--hmac'),
    ('an unknown version', ['check-tls-key', '--subsysnqn=nqn.a', '-I', '2'], '--identity'),
    ('no subsystem', ['check-tls-key', '--hostnqn=nqn.a'], 'needs --subsysnqn as well'),
)


@each(*WRONG)
def wrong_options_are_named(t, args, said):
    res = t.run([program('rdinit'), *args], input=KEY.encode())
    t.eq((res.rc, res.text), (2, ''), 'exit status and output')
    t.ok(said in res.err, res.err)
    t.ok('VRLb' not in res.err and SECRET.hex() not in res.err, res.err)


@test
def names_that_an_identity_has_no_room_for_are_refused(t):
    res = identity(t, KEY, (NAMES[0], 'n' * 224))
    t.eq((res.rc, res.text), (1, ''), 'exit status and output')
    t.match('expected names of 1 to 223 bytes', res.err)
    names = ('nqn.' + 'h' * 200, 'nqn.' + 's' * 200)
    t.eq(identity(t, KEY, names).rc, 0, 'exit status with version 1')
    res = identity(t, KEY, names, '-I', '0')
    t.eq((res.rc, res.text), (1, ''), 'exit status and output')
    t.match('hostnqn has 204 bytes and subnqn 204', res.err)


if __name__ == '__main__':
    sys.exit(main())
