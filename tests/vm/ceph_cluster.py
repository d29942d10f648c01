# SPDX-License-Identifier: BSD-3-Clause
"""A Ceph cluster of one node (t_ceph.py of tests/loop) for a test script in the machine.

  ceph_cluster.py DIR SIZE    starts it and makes an image of that size; DIR/cluster then names configuration, user, keyring
                              and image as assignments of the shell. Ends the cluster on SIGTERM.
"""

import os
import shlex
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'loop'))

# pylint: disable=wrong-import-position
from t_ceph import POOL, cluster  # noqa: E402


def main():
    folder, size = sys.argv[1:]
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # its daemons get SIGKILL when this program ends
    made = cluster()
    names = {'ceph_conf': made.conf, 'ceph_user': made.gateway()['user'], 'ceph_keyring': made.gateway()['keyring'],
             'ceph_pool': POOL, 'ceph_image': made.image(size)}
    path = os.path.join(folder, 'cluster')
    with open(path + '.new', 'w', encoding='utf-8') as f:
        f.writelines(f'{name}={shlex.quote(value)}\n' for name, value in names.items())
    os.rename(path + '.new', path)
    signal.sigwait([signal.SIGTERM])


main()
