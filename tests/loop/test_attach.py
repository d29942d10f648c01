# SPDX-License-Identifier: BSD-3-Clause
"""rdinit attach and detach where the kernel has no module for them: what they say. With a kernel: tests/vm/test_attach.sh."""

import json
import os
import re
import sys

from t_loop import NQN, PATIENCE, Skip, main, no_fabric, program, test
import t_schema

UUID = '5c1f0e3a-7b52-4d0e-9f0a-2d6d3f5f7a10'


def rdinit(t, *args, **kw):
    return t.run([program('rdinit'), *args, *([] if 'list' in args else ['--state-dir', t.path('state')])], **kw)


def refused(t, text, *args, rc=1):
    res = rdinit(t, *args)
    t.eq(res.rc, rc, f'exit status of {args}: {res.err}')
    t.match(re.escape(text), res.err, f'message of {args}')
    t.eq(res.text, '', f'output of {args}')


def leave(t, name, **values):
    """The file of a device whose process has ended."""
    os.makedirs(t.path('state'), exist_ok=True)
    values = {'ID': UUID, 'DRIVER': 'ublk', 'STATE': 'live', 'SUBNQN': NQN, 'NSID': 3, 'BLOCKS': 2048, 'BLOCK_SIZE': 512,
              'READ_ONLY': 0, **values}
    with open(t.path(f'state/{name}'), 'w', encoding='ascii') as f:
        f.writelines(f'RDINIT_{k}={v}\n' for k, v in values.items())


@test
@no_fabric
def wrong_arguments_are_refused(t):
    uri = f'nvme+tcp://127.0.0.1:1/{NQN}/1'
    refused(t, '0 URIs', 'attach', rc=2)
    refused(t, '--driver: "loop" is none of auto, ublk and nbd', 'attach', uri, '--driver=loop', rc=2)
    refused(t, 'no subsystem', 'attach', 'nvme+tcp://127.0.0.1:1', rc=2)
    refused(t, 'detach takes one block device', 'detach', rc=2)
    refused(t, 'detach takes one block device', 'detach', 'ublkb0', 'ublkb1', rc=2)
    res = t.run([program('rdinit'), 'attach', uri, '--state-dir=run'])
    t.match(re.escape('--state-dir: "run" is not an absolute path'), res.err, 'a relative state directory')
    t.eq(os.path.exists(t.path('state')), False, 'a state directory was made')


@test
@no_fabric
def what_is_not_attached_cannot_be_detached(t):
    refused(t, '/dev/ublkb7 is not attached by rdinit: nothing is', 'detach', '/dev/ublkb7')
    leave(t, 'ublkb3')
    refused(t, '/dev/ublkb7 is not attached by rdinit; rdinit list --attached', 'detach', 'ublkb7')
    refused(t, 'is not the name of a block device', 'detach', '..')
    refused(t, 'is not attached by rdinit', 'detach', '/dev/null')


@test
@no_fabric
def a_left_device_is_listed(t):
    leave(t, 'ublkb10')
    leave(t, 'ublkb3', ID='eui.0011', READ_ONLY=1)
    leave(t, 'ublkb4', BLOCK_SIZE='many')  # is no file of ours
    args = ['list', '--attached', '--state-dir', t.path('state')]
    lines = rdinit(t, *args).text.splitlines()
    t.eq([line.split()[:4] for line in lines[1:]], [['/dev/ublkb3', 'ublk', 'left', '0'], ['/dev/ublkb10', 'ublk', 'left', '0']],
         'lines')
    value = json.loads(rdinit(t, *args, '--output-format=json').text)
    t_schema.check('list', value)
    t.eq([(d['DevicePath'], d['Identifier'], d['PhysicalSize'], d['ReadOnly']) for d in value['Attached']],
         [('/dev/ublkb3', 'eui.0011', 1 << 20, True), ('/dev/ublkb10', UUID, 1 << 20, False)], 'devices')
    refused(t, '--attached is about this machine', 'list', 'nvme+tcp://127.0.0.1', '--attached', rc=2)


@test
def attach_says_what_is_missing(t):
    """A target that is not there, a namespace that does not exist, a kernel without the module."""
    target = t.target(subsystems=[{'nqn': NQN, 'allow_any_host': True,
                                   'namespaces': [t.namespace(1, backend='memory', size='1MiB')]}])
    refused(t, 'namespace 9', 'attach', target.uri(9), *PATIENCE)
    for more in ([], ['--foreground']):
        if os.path.exists('/dev/ublk-control'):
            raise Skip('this kernel has ublk')
        refused(t, 'there is no /dev/ublk-control', 'attach', target.uri(1), '--driver=ublk', *more, *PATIENCE)
    t.eq(sorted(os.listdir(t.path('state'))), ['.lock'], 'files that are left')
    target.stop()
    refused(t, 'refused', 'attach', target.uri(1), *PATIENCE)


if __name__ == '__main__':
    sys.exit(main())
