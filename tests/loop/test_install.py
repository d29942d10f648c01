# SPDX-License-Identifier: BSD-3-Clause
"""The files that `meson install` installs, and a foreign program that uses them through pkg-config. BUILD_ROOT is the
build directory; it must have been built."""

import json
import os
import platform
import re
import shlex
import subprocess
import sys

from t_loop import LONG, SOURCE_ROOT, Skip, each, main, requires_native, requires_program, test

PROGRAM = r'''
#include <rdinit.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	struct rdinit_ctrl_opts opts;
	struct rdinit_ctrl_info info;
	struct rdinit_ctrl *ctrl;
	struct rdinit_uri uri;

	rdinit_uri_init(&uri);
	rdinit_ctrl_opts_init(&opts);
	if (argc != 2 || rdinit_uri_parse(argv[1], &uri))
		return 2;
	rdinit_ctrl_opts_set_uri(&opts, &uri);
	if (rdinit_ctrl_create(&opts, &ctrl) || rdinit_ctrl_connect(ctrl)) {
		fprintf(stderr, "%s\n", rdinit_get_error());
		return 1;
	}
	rdinit_ctrl_info_init(&info);
	rdinit_ctrl_get_info(ctrl, &info);
	printf("librdinit %s: %u namespaces at most\n", rdinit_version(), info.nn);
	rdinit_ctrl_disconnect(ctrl);
	rdinit_ctrl_free(&ctrl);
	return 0;
}
'''


def installed(t):
    """Install below the test's directory; returns the paths of all files there, relative to it."""
    build = os.environ.get('BUILD_ROOT')
    if not build:
        raise Skip('BUILD_ROOT is not set')
    requires_native()  # another program would have to be built with the sanitizer as well
    meson = shlex.split(os.environ.get('MESON', requires_program('meson')))
    root = t.path('root')
    res = t.run([*meson, 'install', '-C', build, '--no-rebuild', '--destdir', root])
    t.eq(res.rc, 0, f'meson install: {res.text}{res.err}')
    return root, sorted(os.path.join(folder, name)[len(root):]
                        for folder, _, names in os.walk(root) for name in names)


@test
def the_right_files_are_installed(t):
    """Programs, headers, the library in both forms, its pkg-config file, manual pages; nothing else."""
    _, files = installed(t)
    for pattern in (r'/bin/rdtarget$', r'/bin/rdinit$', r'/include/rdinit\.h$',
                    r'/include/rdinit_dev\.h$', r'/librdinit\.so$',
                    r'/librdinit\.so\.0$', r'/librdinit\.a$', r'/pkgconfig/librdinit\.pc$',
                    r'/man1/rdtarget\.1$', r'/man1/rdinit\.1$', r'/man1/rdinit-read\.1$',
                    r'/bash-completion/completions/rd(ctl|init|target)$', r'/zsh/(site-functions|vendor-completions)/_rdinit$',
                    r'/systemd/system/rdtarget\.service$', r'/sysusers\.d/rdtarget\.conf$',
                    r'/tmpfiles\.d/rdtarget\.conf$', r'/doc/rdtarget/examples/service\.yaml$',
                    r'/man3/librdinit\.3$',
                    r'/man5/rdtarget\.yaml\.5$'):
        t.ok(any(re.search(pattern, path) for path in files), f'no {pattern} among {files}')
    t.eq(any(path.endswith('/nbdkit/plugins/nbdkit-rdinit-plugin.so') for path in files), 'NBDKIT_RDINIT' in os.environ,
         'the plugin of nbdkit is installed where it was built')
    t.eq(any(path.endswith('/rdinit/py.typed') for path in files), 'RDINIT_PYTHON' in os.environ,
         'the package for Python is installed where it was built')
    t.eq([path for path in files if path.endswith('.h') and not path.endswith(('/rdinit.h', '/rdinit_auth.h', '/rdinit_dev.h', '/rdinit_tls.h'))], [],
         'headers that are no business of others')
    t.eq([path for path in files if '/bin/' in path and not re.search(r'/bin/rd(target|ctl|init|conform)$', path)], [],
         'other programs')


@each(('shared', []), ('static', ['--static']))
def another_program_can_use_the_library(t, how):
    root, files = installed(t)
    pc = os.path.dirname(next(path for path in files if path.endswith('.pc')))
    lib = os.path.dirname(next(path for path in files if path.endswith('/librdinit.so')))
    env = dict(os.environ, PKG_CONFIG_PATH=root + pc, PKG_CONFIG_SYSROOT_DIR=root)
    if how:  # the other libraries may be linked as the system has them
        os.unlink(root + lib + '/librdinit.so')
    res = t.run([requires_program('pkg-config'), *how, '--cflags', '--libs', 'librdinit'], env=env)
    t.eq(res.rc, 0, f'pkg-config: {res.err}')
    # The sysroot goes before every path; files of other packages are not below it.
    flags = [flag for flag in res.text.split()
             if not flag.startswith(('-I', '-L')) or os.path.isdir(flag[2:])]
    t.file('user.c', PROGRAM.encode())
    res = t.run([requires_program('cc'), '-Wall', '-Werror', '-o', t.path('user'), t.path('user.c'),
                 *flags])
    t.eq(res.rc, 0, f'cc: {res.err}')
    needed = subprocess.run(['readelf', '-d', t.path('user')], capture_output=True, check=True).stdout
    t.eq(b'librdinit.so.0' in needed, not how, 'the shared library is needed')
    target = t.target([t.namespace(3, backend='memory')])
    env = dict(os.environ, LD_LIBRARY_PATH='' if how else root + lib)
    res = t.run([t.path('user'), target.uri(None)], env=env)
    t.eq(res.rc, 0, f'exit status: {res.err}')
    t.match(r'^librdinit \d+\.\d+\.\d+: [1-9]\d* namespaces at most$', res.text)
    res = t.run([t.path('user'), target.uri(None, 'nqn.2024-01.test:none')], env=env)
    t.eq(res.rc, 1, 'exit status without a subsystem')
    t.match('rdinit_ctrl_connect: .*subsystem', res.err)


@test
def what_is_installed_runs(t):
    """The installed programs, with the installed library: a target serves, a host reads, a check passes."""
    root, files = installed(t)
    lib = os.path.dirname(next(path for path in files if path.endswith('/librdinit.so')))
    env = dict(os.environ, LD_LIBRARY_PATH=root + lib)
    bins = {os.path.basename(path): root + path for path in files if '/bin/' in path}
    for name, path in bins.items():
        res = t.run([path, '--version'], env=env)
        t.eq(res.rc, 0, f'{name}: {res.err}')
        t.match(r'\d+\.\d+', res.text)
    target = t.target([t.namespace(3, backend='memory')], binary=bins['rdtarget'])
    res = t.run([bins['rdinit'], 'list-ns', target.uri(None)], env=env)
    t.eq(res.rc, 0, res.err)
    t.match('0x3', res.text)


def places(t, build, *options, env=None):
    """The paths that an installation of this build would write, without manual pages."""
    res = t.run([requires_program('meson'), 'setup', t.path(build), SOURCE_ROOT, *options],
                env=env or os.environ)
    t.eq(res.rc, 0, f'meson setup: {res.text}{res.err}')
    res = t.run([requires_program('meson'), 'introspect', '--installed', t.path(build)])
    return {path for path in json.loads(res.text).values() if '/man/' not in path}


def needs_debian():
    if not os.path.exists('/etc/debian_version'):
        raise Skip('this is not Debian')


def without_dpkg_dev(t):
    """An environment in which meson cannot ask for the multiarch folder."""
    t.file('dpkg-architecture', b'#!/bin/sh\nexit 1\n')
    os.chmod(t.path('dpkg-architecture'), 0o755)
    return dict(os.environ, PATH=t.path('') + ':' + os.environ['PATH'])


@each(*((prefix, prefix) for prefix in (('/usr', '/usr/local') if LONG else ('/usr',))))
def debian_without_dpkg_dev_gets_the_same_folders(t, prefix):
    """In which pkg-config and Debian's packages of systemd, bash, zsh and nbdkit look."""
    needs_debian()
    found = places(t, 'without', '--prefix', prefix, env=without_dpkg_dev(t))
    library, pc = (os.path.dirname(path) for end in ('.a', '.pc') for path in found if path.endswith(end))
    if os.access('/usr/bin/dpkg-architecture', os.X_OK):
        t.eq(found, places(t, 'with', '--prefix', prefix), f'folders below {prefix}')
    pc_path = t.run([requires_program('pkg-config'), '--variable', 'pc_path', 'pkg-config']).text
    t.ok(pc in pc_path.strip().split(':'), f'{pc}: pkg-config looks at {pc_path}')
    with open(t.path('without/meson-private/librdinit.pc'), encoding='utf-8') as f:
        t.match(r'(?m)^Libs: -L\$\{prefix\}' + re.escape(library[len(prefix):]) + ' -lrdinit$', f.read())
    if prefix == '/usr':
        expected = {'/usr/lib/systemd/system/rdtarget.service', '/usr/lib/sysusers.d/rdtarget.conf',
                    '/usr/lib/tmpfiles.d/rdtarget.conf', '/usr/share/zsh/vendor-completions/_rdinit',
                    '/usr/share/bash-completion/completions/rdinit'}
        if 'NBDKIT_RDINIT' in os.environ:
            res = t.run([requires_program('pkg-config'), '--variable', 'plugindir', 'nbdkit'])
            expected.add(os.path.join(res.text.strip(), 'nbdkit-rdinit-plugin.so'))
        t.eq(sorted(expected - found), [], f'not among {sorted(found)}')


@test
def each_folder_can_be_chosen(t):
    options = {'systemdunitdir': 'rdtarget.service', 'sysusersdir': 'rdtarget.conf', 'tmpfilesdir': 'rdtarget.conf',
               'udevrulesdir': '61-rdinit.rules', 'bashcompletiondir': 'rdinit', 'zshcompletiondir': '_rdinit', 'fioenginedir': 'rdinit.so'}
    if 'NBDKIT_RDINIT' in os.environ:
        options['nbdkitplugindir'] = 'nbdkit-rdinit-plugin.so'
    found = places(t, 'build', '-Dfio_source=/nonexistent', *(f'-D{option}=/for/{option}' for option in options))
    t.eq(sorted({f'/for/{option}/{name}' for option, name in options.items()} - found), [],
         f'not among {sorted(found)}')
    found = places(t, 'none', '-Dsystemd=disabled')
    t.eq([path for path in found if path.endswith(('.service', '.conf', '.rules')) and '/examples/' not in path], [],
         'installed without systemd')


# ---- the service ----

# The limit for `systemd-analyze security` on the unit as shipped: 0 is nothing allowed, 10 is everything.
EXPOSURE = 2.1


def unit(t):
    root, files = installed(t)
    return root, root + next(path for path in files if path.endswith('/rdtarget.service'))


def exposure(t, path):
    res = t.run([requires_program('systemd-analyze'), 'security', '--offline=true', '--no-pager', path])
    found = re.search(r'Overall exposure level for \S+: ([0-9.]+)', res.text)
    if not found:
        raise Skip(f'systemd-analyze says nothing of a unit that is not loaded: {res.err.strip()}')
    return float(found[1])


@test
def the_unit_is_a_sandbox(t):
    _, path = unit(t)
    score = exposure(t, path)
    t.ok(score <= EXPOSURE, f'exposure {score}, expected {EXPOSURE} at most: systemd-analyze security --offline=true')
    with open(path, encoding='utf-8') as f:
        text = f.read()
    os.mkdir(t.path('open'))
    t.file('open/rdtarget.service', text.replace('\nProtect', '\n#Protect').encode())
    t.ok(exposure(t, t.path('open/rdtarget.service')) > EXPOSURE, 'a unit with less protection has a higher exposure')


@test
def systemd_understands_the_unit(t):
    """systemd knows every key, and the program that it starts is the installed one."""
    root, path = unit(t)
    with open(path, encoding='utf-8') as f:
        text = f.read()
    program = re.search(r'(?m)^ExecStart=(\S+) -c (\S+)$', text)
    t.ok(os.access(root + program[1], os.X_OK), f'{program[1]} is not installed')
    t.match(r'^(/usr/local)?/etc/rdtarget/rdtarget\.yaml$', program[2])
    # The program and the manual pages are below the root; verify looks for them on this machine.
    t.file('rdtarget.service', re.sub(r'(?m)^Documentation=.*\n', '', text).replace(program[1], '/bin/true').encode())
    res = t.run([requires_program('systemd-analyze'), 'verify', '--man=no', t.path('rdtarget.service')])
    said = [line for line in res.err.splitlines() if 'rdtarget' in line]
    t.eq(said, [], f'systemd-analyze verify, exit status {res.rc}')


@test
def the_services_user_and_folder_are_made(t):
    root, files = installed(t)
    sysusers = root + next(path for path in files if path.endswith('/sysusers.d/rdtarget.conf'))
    tmpfiles = root + next(path for path in files if path.endswith('/tmpfiles.d/rdtarget.conf'))
    os.makedirs(t.path('system/etc'))
    res = t.run([requires_program('systemd-sysusers'), f'--root={t.path("system")}', sysusers])
    t.eq(res.rc, 0, f'systemd-sysusers: {res.err}')
    with open(t.path('system/etc/passwd'), encoding='utf-8') as f:
        t.match(r'(?m)^rdtarget:.*:/var/lib/rdtarget:/usr/sbin/nologin$', f.read())
    if os.geteuid():
        raise Skip('only root can make folders of other users')
    res = t.run([requires_program('systemd-tmpfiles'), f'--root={t.path("system")}', '--create', tmpfiles])
    t.eq(res.rc, 0, f'systemd-tmpfiles: {res.err}')
    made = os.stat(t.path('system/var/lib/rdtarget'))
    t.eq(made.st_mode & 0o777, 0o750, 'mode')
    with open(t.path('system/etc/passwd'), encoding='utf-8') as f:
        t.match(rf'(?m)^rdtarget:[^:]*:{made.st_uid}:{made.st_gid}:', f.read())
    _, path = unit(t)
    with open(path, encoding='utf-8') as f:
        config = re.search(r'(?m)^ExecStart=\S+ -c (\S+)$', f.read())[1]
    keys = os.stat(t.path(f'system{os.path.dirname(config)}/keys'))
    t.eq((keys.st_mode & 0o777, keys.st_uid, keys.st_gid), (0o750, 0, made.st_gid), 'the folder of keys')


@test
def the_services_sample_writes_where_the_service_may(t):
    root, files = installed(t)
    with open(root + next(path for path in files if path.endswith('/examples/service.yaml')), encoding='utf-8') as f:
        paths = re.findall(r'(?m)^\s*-?\s*(?:path|socket|state_dir): (\S+)', f.read())
    t.ok(len(paths) >= 3 and all(path.startswith(('/var/lib/rdtarget', '/run/rdtarget/')) for path in paths), str(paths))
    _, path = unit(t)
    with open(path, encoding='utf-8') as f:
        text = f.read()
    t.match(r'(?m)^StateDirectory=rdtarget$', text)
    t.match(r'(?m)^RuntimeDirectory=rdtarget$', text)


@test
def nothing_comes_with_the_static_library_that_it_does_not_use(t):
    """libnvme, of which one header is used, would bring zlib and json-c."""
    root, files = installed(t)
    pc = os.path.dirname(next(path for path in files if path.endswith('.pc')))
    res = t.run([requires_program('pkg-config'), '--static', '--print-requires-private', 'librdinit'],
                env=dict(os.environ, PKG_CONFIG_PATH=root + pc))
    t.eq(res.rc, 0, f'pkg-config: {res.err}')
    t.eq({line.split()[0] for line in res.text.splitlines()} - {'libibverbs', 'librdmacm', 'libisal', 'libcrypto', 'uuid'},
         set(),
         'what librdinit.pc requires')


@test
def what_is_not_built_is_said_with_its_reason(t):
    t.file('pkg-config', b'#!/bin/sh\ncase "$*" in *cunit*) exit 1 ;; esac\nexec pkg-config "$@"\n')
    os.chmod(t.path('pkg-config'), 0o755)
    res = t.run([requires_program('meson'), 'setup', t.path('build'), SOURCE_ROOT],
                env=dict(os.environ, PKG_CONFIG=t.path('pkg-config')))
    t.eq(res.rc, 0, f'meson setup: {res.text}{res.err}')
    for what in ('rdconform', 'unit tests'):
        t.match(rf'(?m)^ *{what} *: NO: .* CUnit, which was not found', res.text)


@test
def a_32_bit_build_ends_with_one_sentence(t):
    if platform.machine() != 'x86_64':
        raise Skip('this is for compilers that also make 32-bit programs')
    t.file('i386.ini', b"""[binaries]
c = ['cc', '-m32']
pkg-config = 'pkg-config'
[host_machine]
system = 'linux'
cpu_family = 'x86'
cpu = 'i686'
endian = 'little'
[properties]
skip_sanity_check = true
""")
    res = t.run([requires_program('meson'), 'setup', '--cross-file', t.path('i386.ini'), t.path('build'), SOURCE_ROOT])
    t.eq(res.rc, 1, f'exit status: {res.text}')
    t.match(r'ERROR: .*rdnvme needs a 64-bit machine with 128-bit integers, and this build is for x86', res.text)


if __name__ == '__main__':
    sys.exit(main())
