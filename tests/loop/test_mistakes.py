# SPDX-License-Identifier: BSD-3-Clause
"""Common mistakes of users, each with rdinit's message: the thing, the value, what was expected, what to do."""

import sys

from t_loop import NQN, each, main, test

DISK = f'nvme+rdma://127.0.0.1:1/{NQN}/1'  # where nobody listens
TO = ['--transport', 'rdma', '--traddr', '127.0.0.1', '--nqn', NQN]

# what was done, the command line, what is said; exit status 2
COMMAND_LINE = (
    ('a verb misspelt', ['raed'], 'did you mean "read"'), ('letters left out', ['lst-ns'], 'did you mean "list-ns"'),
    ('half a verb', ['disc'], 'did you mean "discover"'),
    ('the old letter of the namespace', ['id-ns', *TO, '-N', '7'], 'given by -n or --namespace-id'),
    ('a letter that is a tag in nvme-cli', ['read', '-a', '127.0.0.1'], '"-a" is not an option here.* --traddr$'),
    ('a device of the kernel', ['id-ns', '/dev/nvme0n1'], '/dev/nvme0n1" is a kernel device'),
    ('a secret', ['id-ctrl', DISK, '--dhchap-secret=DHHC-1:00:x'], 'found a secret, expected the name of a file that contains it'),
    ('a key', ['id-ctrl', DISK, '--tls-key=NVMeTLSkey-1:01:x:'], 'found a secret, expected the name of a file that contains it'),
    ('TLS by RDMA', ['id-ctrl', DISK, '--tls-key-file=x'], '--tls is for NVMe/TCP only, and this is NVMe/RDMA'),
    ('TLS without a key', ['id-ctrl', DISK.replace('rdma', 'tcp'), '--tls'], '--tls needs a key: .* --tls-key-file'),
    ('the port by -s in read', ['read', *TO, '-s', '4421', '-d', '-'], '--trsvcid=4421 .*--start-block=4421'),
    ('the port by -s in write', ['write', *TO, '-s', '4421', '-d', '-'], '--trsvcid=4421 .*--start-block=4421'),
    ('a file without its option', ['write', DISK, 'image.raw'], '--data=image.raw'),
    ('an ambiguous option', ['read', DISK, '--no'], 'ambiguous: .*--no-progress.*--no-p2p'),
    ('an option misspelt', ['read', DISK, '--data-szie=5'], 'did you mean --data-size'),
    ('a value for nothing', ['read', DISK, '--crc=1'], '--crc takes no value'),
    ('an unknown letter', ['read', DISK, '-y'], '"-y" is not an option'),
    ('no value', ['read', DISK, '-z'], '-z needs a value'),
    ('an address with its port', ['id-ctrl', '-a', '127.0.0.1:4421', '-n', NQN],
     '--traddr=127.0.0.1 --trsvcid=4421'),
    ('an address in brackets', ['id-ctrl', '-a', '[::1]', '-n', NQN], '--traddr=::1$'),
    ('both', ['id-ctrl', '-a', '[::1]:4421', '-n', NQN], '--traddr=::1 --trsvcid=4421'),
    ('a URI as an address', ['id-ctrl', '-a', DISK, '-n', NQN], 'is a URI'),
    ('IPv6 without brackets', ['id-ctrl', f'nvme+rdma://::1:4420/{NQN}'], r'in brackets, as in "nvme\+rdma://\[::1\]'),
    ('a host identifier that is none', ['id-ctrl', DISK, '--hostid', 'foo'], '"foo" is not a UUID, such as'),
    ('a host NQN that is none', ['id-ctrl', DISK, '--hostnqn', 'foo'], '"foo" does not start with "nqn."'),
    ('a verb of the kernel', ['connect', DISK], '"connect" is not a verb: .*rdinit connect-test'),
    ('an address as a URI', ['id-ctrl', '192.0.2.1'],
     '"192.0.2.1" is not a URI; write nvme.rdma://192.0.2.1, or --traddr=192.0.2.1'),
    ('an IPv6 address as a URI', ['id-ctrl', '::1'], r'write nvme.rdma://\[::1\], or --traddr=::1'),
    ('a URI without its scheme', ['id-ctrl', 'h/nqn.x:a%2Fb/1'], 'write nvme.rdma://h/nqn.x:a%2Fb/1$'),
    ('a URI that is too long', ['id-ctrl', 'nvme+rdma://h/' + 'x' * 3000], r'\.\.\.": the subsystem NQN is too long'),
    ('a text that is too long', ['id-ctrl', 'x' * 3000], 'is not a URI; expected nvme.rdma://HOST'),
    ('another scheme', ['id-ctrl', f'nvme+fc://h/{NQN}'], 'does not start with nvme.rdma:// or nvme.tcp://'),
    ('another transport', ['discover', '-t', 'fc', '-a', 'h'], '--transport: found "fc", expected rdma or tcp'),
    ('no target', ['id-ctrl', '--nqn', NQN], 'no target: give a URI, or --traddr and --nqn'),
    ('no subsystem', ['id-ctrl', '-a', '127.0.0.1'], 'no subsystem: .* --nqn .rdinit discover lists them'),
    ('a port out of range', ['id-ctrl', '-a', 'h', '-s', '70000'], '--trsvcid: "70000" is not a port, .*1 to 65535'),
    ('a port beside a URI', ['id-ctrl', DISK, '--trsvcid', '4421'], 'cannot be combined with a URI; .*nvme.rdma://HOST:PORT/'),
    ('an interface as the local address', ['id-ctrl', DISK, '-w', 'lo'], '"lo" is an interface; .*ip address show lo'),
    ('a name as the local address', ['id-ctrl', DISK, '-w', 'here'], '--host-traddr: "here" is not an address'),
    ('an unknown provider', ['id-ctrl', DISK, '--provider', 'rdma'], 'found "rdma", expected auto, iwarp or verbs'),
    ('an unknown format', ['id-ctrl', DISK, '-o', 'yaml'], '--output-format: found "yaml", expected normal or json'),
    ('no number', ['id-ctrl', DISK, '-k', 'long'], '--keep-alive-tmo: "long" is not a number'),
    ('no time', ['id-ctrl', DISK, '--timeout', '5 s'], '--timeout: "5 s" is not a time .*500ms, 5s'),
    ('no size', ['read', DISK, '-z', '10x'], '--data-size: "10x" is not a size .4096, 4k, 1.5GiB'),
    ('too many queues', ['id-ctrl', DISK, '-i', '5000'], '--nr-io-queues: found 5000, expected 1 to 1024'),
    ('two starts', ['read', DISK, '-s', '1', '--offset', '512'], '--start-block and --offset are mutually exclusive'),
    ('writing without leave', ['bench', DISK, '--rw', 'write'], '--rw=write overwrites .*--dataloss'),
    ('an unknown load', ['bench', DISK, '--rw', 'rnd'], '--rw: found "rnd", expected read, write'),
    ('too many blocks', ['verify', DISK, '-c', '70000'], '--block-count: found 70000, expected 0 to 65535'),
    ('an argument too many', ['gen-hostnqn', 'x'], 'unexpected argument "x"; gen-hostnqn takes none'),
    ('data without a direction', ['io-passthru', DISK, '-o', '2', '-l', '512'], '--data-len needs --read or --write'),
    ('get-log without an id', ['get-log', DISK, '-l', '4'], '--log-id is missing'),
    ('get-log without a length', ['get-log', DISK, '-i', '2'], '--log-len is missing'),
    ('a length that is no multiple', ['get-log', DISK, '-i', '2', '-l', '5'], '--log-len: found 5, expected a multiple of 4'),
    ('get-feature without one', ['get-feature', DISK, '-o', 'json'], '--feature-id is missing.*fid-support-effects-log'),
    ('set-feature without a value', ['set-feature', DISK, '-f', '4'], '--value is missing'),
    ('get-property without an offset', ['get-property', DISK], '--offset is missing.*0x1c CSTS'),
    ('set-property without a value', ['set-property', DISK, '-o', '0x14'], '--value is missing'),
    ('dsm without ranges', ['dsm', DISK, '--ad'], '--slbs and --blocks are missing'),
    ('dsm with too few', ['dsm', DISK, '--ad', '-s', '0,8', '-b', '8'], '--slbs has 2 numbers and --blocks 1'),
    ('dsm that does nothing', ['dsm', DISK, '-s', '0', '-b', '8'], '--ad, --idw or --idr is missing'),
    ('copy to nowhere', ['copy', DISK, '-s', '0', '-b', '8'], '--sdlba is missing'),
    ('copy of too much', ['copy', DISK, '--sdlba', '9', '-s', '0', '-b', '65536'], '65536.*65535'),
    ('an order of a topology', ['show-topology', 'nvme+rdma://192.0.2.1', '-r', 'path'], '--ranking: found "path", expected namespace or ctrl'),
    ('a list that is none', ['dsm', DISK, '--ad', '-s', '0,x', '-b', '8,8'], '--slbs: "x" is not a number'))

# A letter with another meaning in another verb: nvme-cli's meaning for this verb applies, and a second line says so.
LETTERS = (
    ('the subsystem by -n', ['id-ns', '-t', 'rdma', '-a', '127.0.0.1', '-n', NQN], '-n is --namespace-id .*--nqn'),
    ('the port by -s', ['io-passthru', '-s', '4421', '--opcode=2'], '-s is --show-command .*--trsvcid'),
    ('the address by -a', ['list-ns', '-a', '127.0.0.1'], '-a is --all .*--traddr'),
    ('JSON by -o', ['io-passthru', DISK, '-o', 'json'], '-o is --opcode .*--output-format'))


@each(*COMMAND_LINE)
def said_of(t, args, says):
    res = t.rdinit(*args, rc=2)
    t.match('(?m)^rdinit: .*' + says if not says.startswith('^') else says, res.err)
    t.eq(len(res.err.splitlines()), 1, f'lines of\n{res.err}')
    t.eq(res.out, b'', 'standard output')


@each(*LETTERS)
def said_of_a_letter(t, args, says):
    t.match(says, t.rdinit(*args, rc=2).err.splitlines()[1])


LONGEST = 'nqn.2024-01.test:' + 'l' * (223 - len('nqn.2024-01.test:'))

# what was done, the place, the command line, what is said; exit status 1
AT_THE_TARGET = (
    ('a port where nobody listens', 'nobody', ['id-ctrl'], '127.0.0.1:1: connection refused .*target listening there'),
    ('a name that there is not', 'noname', ['id-ctrl'], 'no-such-host.invalid: '),
    ('a subsystem misspelt', 'misspelt', ['id-ctrl'], '"nqn.2024-01.test:dsik": it has no such subsystem.*Connect Invalid Parameters .*--hostnqn.*'
     '`rdinit discover` lists'),
    ('a host that is not allowed', 'closed', ['id-ctrl', '-q', 'nqn.2024-01.test:me'],
     '"nqn.2024-01.test:closed": .* host NQN "nqn.2024-01.test:me".*--hostnqn gives another'),
    ('a namespace that there is not', 'nsid9', ['read'], 'no namespace 9; `rdinit list-ns` lists'),
    ('the same in id-ns', 'nsid9', ['id-ns'], 'no namespace 9; `rdinit list-ns` lists'),
    ('the same in nvm-id-ns', 'nsid9', ['nvm-id-ns'], 'no namespace 9; `rdinit list-ns` lists'),
    ('the same in cmdset-ind-id-ns', 'nsid9', ['cmdset-ind-id-ns'], 'no namespace 9; `rdinit list-ns` lists'),
    ('the same in ns-descs', 'nsid9', ['ns-descs'], 'no namespace 9; `rdinit list-ns` lists'),
    ('a subsystem with the longest name, and a host too', 'longest', ['id-ctrl', '-q', LONGEST],
     f'"{LONGEST}": .* host NQN "{LONGEST}".*Connect Invalid Parameters .*`rdinit discover` lists'),
    ('a read-only namespace', 'readonly', ['write', '-d', 'block'], 'blocks 0 to 0: the namespace is read-only'),
    ('a file that is not there', 'disk', ['write', '-d', 'nofile'], 'nofile: No such file'),
    ('a folder that is not there', 'disk', ['read', '-d', '/no/dir'], '/no/dir: No such file'),
    ('an image that is too large', 'disk', ['write', '-d', 'large'], 'large: 2097152 bytes do not fit .*1048576 bytes'),
    ('an input that is too short', 'disk', ['write', '-d', 'block', '-z', '4096'],
     'block: the input has 512 bytes, expected 4096'),
    ('a start beyond the end', 'disk', ['read', '-s', '2048'],
     'byte 1048576, is beyond the end of namespace 1 .2048 blocks'),
    ('a range beyond the end', 'disk', ['read', '-c', '4000'], '2048512 bytes do not fit .*1048576 bytes'),
    ('blocks beyond the end', 'disk', ['verify', '-s', '5000'], 'LBA Out of Range'),
    ('an I/O of half a block', 'disk', ['bench', '-b', '100'], '--block-size: 100 bytes .* 512 bytes'),
    ('a subsystem for discover', 'subsystem', ['discover'],
     f'"{NQN}" is not a discovery controller; leave the NQN out'),
    ('data from a discovery controller', 'discovery', ['read'],
     'discovery controller, which has no namespaces; give the NQN'),
    ('a key that is not registered', 'disk', ['resv-acquire', '-c', '9', '-t', '1'], 'Reservation Conflict'),
    ('a log page that there is not', 'subsystem', ['get-log', '-i', '0x99', '-l', '4'],
     'Get Log Page failed: Invalid Log Page'),
    ('a copy onto itself', 'disk', ['copy', '--sdlba', '0', '-s', '0', '-b', '8'],
     'Copy failed: Overlapping I/O Range'))


@test
def said_at_the_target(t):
    """One target for all of them: none of these mistakes changes it."""
    target = t.target(subsystems=[
        {'nqn': NQN, 'allow_any_host': True, 'namespaces': [t.namespace(1, backend='memory', size='1MiB')]},
        {'nqn': 'nqn.2024-01.test:fixed', 'allow_any_host': True,
         'namespaces': [t.namespace(2, backend='memory', size='1MiB', read_only=True)]},
        {'nqn': 'nqn.2024-01.test:closed', 'hosts': ['nqn.2024-01.test:friend'],
         'namespaces': [t.namespace(1, backend='memory', size='1MiB')]}])
    place = {'nobody': DISK, 'noname': f'nvme+rdma://no-such-host.invalid/{NQN}/1',
             'misspelt': target.uri(None, 'nqn.2024-01.test:dsik'), 'closed': target.uri(1, 'nqn.2024-01.test:closed'),
             'nsid9': target.uri(9), 'readonly': target.uri(2, 'nqn.2024-01.test:fixed'), 'disk': target.uri(1),
             'longest': target.uri(None, LONGEST), 'subsystem': target.uri(None), 'discovery': target.uri(1, 'nqn.2014-08.org.nvmexpress.discovery')}
    files = {'block': t.file('block', bytes(512)), 'large': t.file('large', bytes(2 << 20))}
    for what, where, args, says in AT_THE_TARGET:
        res = t.rdinit(args[0], place[where], *(files.get(arg, arg) for arg in args[1:]), rc=1)
        t.match('(?m)^rdinit: .*' + says, res.err, what)
        t.eq(len(res.err.splitlines()), 1, f'{what}: lines of\n{res.err}')


if __name__ == '__main__':
    sys.exit(main())
