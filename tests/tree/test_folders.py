# SPDX-License-Identifier: BSD-3-Clause
"""The folders of target/ form a ladder: each includes, and calls, only those under it. What calls what is read from
the object files, so that a function without a header of its own is seen as well."""

import functools
import os
import re
import shutil
import subprocess
import sys

from t_loop import Failure, Skip, main, test
from t_tree import no_errors, read, resolve, sources

# From the top to the bottom. main.c is above all of them.
LADDER = ('manage/rpc', 'manage/http', 'manage/upgrade', 'manage/figures', 'manage/show', 'manage/change', 'manage/objects', 'manage/service',
          'reactor', 'transport/tcp', 'transport/rdma', 'cmd', 'nvmf/auth', 'nvmf', 'nvmf/base', 'resv', 'bdev', 'config')


def folder_of(path):
    """The folder of LADDER in which a source file is; None: main.c, or not in target/."""
    where = os.path.dirname(path)
    if where == 'target' and os.path.basename(path) == 'main.c':
        return None
    if where.startswith('target/'):
        if where[len('target/'):] not in LADDER:
            raise Failure(f'{path}: its folder is not in the ladder')
        return where[len('target/'):]
    if where == 'target':
        raise Failure(f'{path}: only main.c belongs there')
    return None


def upwards(pairs, ladder):
    """Of (from, to, what), with folders: the entries that point upwards."""
    rank = {folder: i for i, folder in enumerate(ladder)}
    return [f'{a} -> {b}: {what}' for a, b, what in pairs if rank[b] < rank[a]]


def includes():
    for path in sources('target'):
        here = folder_of(path)
        for number, line in enumerate(read(path).splitlines(), 1):
            found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            target = found and resolve(path, found[1])
            there = target and folder_of(target)
            if here and there:
                yield here, there, f'{path}:{number} includes {target}'


def object_files():
    """{folder: {object file}}"""
    top = os.path.join(os.environ['BUILD_ROOT'], 'target')
    homes = {path[len('target/'):].replace('/', '_') + '.o': folder_of(path) for path in sources('target')}
    found = {}
    for where, _, names in os.walk(top):
        for name in names:
            if homes.get(name):
                found.setdefault(homes[name], set()).add(os.path.join(where, name))
    return found


@functools.cache
def symbols(path):
    """(defined, undefined) names of an object file."""
    out = subprocess.run(['nm', path], capture_output=True, text=True, check=True).stdout
    defined, undefined = set(), set()
    for line in out.splitlines():
        kind, name = line.split()[-2:]
        if kind == 'U':
            undefined.add(name)
        elif kind in 'TDBRC':
            defined.add(name)
    return defined, undefined


def calls():
    if not shutil.which('nm'):
        raise Skip('nm (binutils) is not installed')
    objects = object_files()
    missing = [folder for folder in LADDER if folder not in objects]
    if missing:
        raise Failure(f'no object files of {missing}')
    tables = {(folder, path): symbols(path) for folder, paths in objects.items() for path in paths}
    home = {name: folder for (folder, _), (defined, _) in tables.items() for name in defined}
    for (folder, path), (_, undefined) in tables.items():
        for name in sorted(undefined & set(home)):
            if home[name] != folder:
                yield folder, home[name], f'{os.path.basename(path)} needs {name}'


@test
def target_folders_include_only_what_is_under_them(t):
    no_errors(upwards(includes(), LADDER))


@test
def target_folders_call_only_what_is_under_them(t):
    no_errors(upwards(calls(), LADDER))


@test
def a_call_upwards_would_be_found(t):
    """A test that cannot fail proves nothing: with two folders exchanged, both kinds of errors are found."""
    for above, below in (('manage/rpc', 'manage/figures'), ('manage/change', 'manage/objects'), ('cmd', 'nvmf'),
                         ('nvmf', 'bdev'), ('reactor', 'transport/rdma')):
        ladder = [{above: below, below: above}.get(folder, folder) for folder in LADDER]
        t.ok(upwards(includes(), ladder), f'includes, {above} under {below}')
        t.ok(upwards(calls(), ladder), f'calls, {above} under {below}')



# What takes a descriptor. tests/simfabric/streams.h replaces it for NVMe/TCP in the simulation, whose descriptors are
# none of the system.
OF_SOCKETS = (r'rd_tcp_|rd_io_|(__)?(p?poll|socket|bind|listen|connect|accept4?|[gs]etsockopt|get(sock|peer)name|p?readv?|'
              r'p?writev?|recv|recvfrom|recvmsg|send|sendto|sendmsg|shutdown|close|ioctl|fcntl(64)?)(_chk)?$')


def of_sockets(*where):
    """What the object files in a folder of the build need that is for the system's sockets."""
    if not shutil.which('nm'):
        raise Skip('nm (binutils) is not installed')
    top = os.path.join(os.environ['BUILD_ROOT'], *where)
    paths = [os.path.join(top, name) for name in os.listdir(top) if '_tcp_' in name and name.endswith('.o')]
    if not paths:
        raise Failure(f'{top}: no object files of NVMe/TCP')
    for path in paths:
        for name in sorted(symbols(path)[1]):
            if re.match(OF_SOCKETS, name):
                yield f'{os.path.basename(path)} needs {name}'


@test
def the_simulation_asks_the_system_nothing_about_its_sockets(t):
    no_errors(of_sockets('tests', 'sim', 'libsim_tcp.a.p'))


@test
def a_call_about_a_socket_would_be_found(t):
    found = {error.split()[-1] for error in of_sockets('target', 'librdt_core.a.p')}
    t.ok({'rd_tcp_reports', 'rd_io_mod', 'sendmsg'} <= found, found)


if __name__ == '__main__':
    sys.exit(main())
