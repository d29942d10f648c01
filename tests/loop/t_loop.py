# SPDX-License-Identifier: BSD-3-Clause
"""The frame of the loop tests: real processes, TAP output, nothing but the standard library.

A test file holds functions marked @test. Each checks one behaviour and is named for it. The file ends with main(). A test
gets a T: its own directory, its own daemon on a port the kernel chose, and clean-ups that always run. No test waits for
a time: each waits for a condition, with a deadline that only a hang can reach.

Environment (meson sets the first two):
  RDTARGET, RDINIT, RDVERIFY, RDCONFORM  the programs
  RD_TEST_FABRIC              the provider to run over, "iwarp" or "verbs"
  RD_TEST_ADDR, RD_TEST_ADDR6 this machine's addresses to serve at; default: the loopback's. With
                              "verbs" they have to be an RDMA device's
  RD_TEST_NAME                a name of RD_TEST_ADDR; default localhost
  LIBRDINIT                   with "verbs": the shared library, through which the tests are a host
  RD_TEST_SCALE=N             counts and amounts of data divided by N, for a slow machine
  RD_TEST_LONG=1              the long counts and durations
  RD_TEST_CASES               only the cases with these names, one in each line
  RD_TEST_MUTANTS=all|REV     of tests/sim: all mutants, or those of files that differ from a revision of git
  RD_TEST_KEEP=1              keep every test's directory, not only those of failures
  TMPDIR                      where the directories are made; default /var/tmp (a real file system)
"""

import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

FABRIC = os.environ.get('RD_TEST_FABRIC', 'iwarp')
LONG = os.environ.get('RD_TEST_LONG', '') not in ('', '0')
KEEP = os.environ.get('RD_TEST_KEEP', '') not in ('', '0')
SANITIZED = os.environ.get('RD_TEST_SANITIZED', '') not in ('', '0')
ADDR = os.environ.get('RD_TEST_ADDR', '127.0.0.1')
ADDR6 = os.environ.get('RD_TEST_ADDR6', '::1')
HOST_NAME = os.environ.get('RD_TEST_NAME', 'localhost')
SCALE = int(os.environ.get('RD_TEST_SCALE', '1'))

# Only a hang reaches it: long, and longer where the programs run slowly.
DEADLINE = 60 * (3 if SANITIZED or SCALE > 1 else 1)

# For rdinit, where both ends may stand still for seconds.
PATIENCE = ('--keep-alive-tmo', '120') if SCALE > 1 else ()

NQN = 'nqn.2024-01.test:disk'
SOURCE_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Skip(Exception):
    """The reason why this test cannot run here."""


class NotOfThisRun(Exception):
    """The reason why a case belongs to other runs of its file only: this one has no result of it, as if it were not
    there."""


class Failure(AssertionError):
    pass


def scaled(count, least=1):
    """A count or an amount that may be smaller on a slow machine."""
    return max(least, count // SCALE)


# ---- what a test may need ----

# Debian's packages of programs whose package has another name; and of what a build of ours needs to have a program.
PACKAGES = {
    'ceph': 'ceph-common', 'rbd': 'ceph-common', 'monmaptool': 'ceph-common', 'ceph-authtool': 'ceph-common',
    'chromedriver': 'chromium-driver', 'dumpcap': 'wireshark-common', 'nvme': 'nvme-cli', 'promtool': 'prometheus',
    'nbdinfo': 'libnbd-bin', 'nbdcopy': 'libnbd-bin', 'qemu-img': 'qemu-utils', 'qemu-io': 'qemu-utils',
    'mkfs.ext4': 'e2fsprogs', 'e2fsck': 'e2fsprogs', 'fsfreeze': 'util-linux', 'losetup': 'util-linux', 'mount': 'util-linux',
    'blockdev': 'util-linux', 'unshare': 'util-linux', 'nsenter': 'util-linux', 'ip': 'iproute2', 'ss': 'iproute2',
    'cc': 'gcc', 'gnutls-cli': 'gnutls-bin', 'apt-config': 'apt', 'systemd-analyze': 'systemd', 'systemd-sysusers': 'systemd',
    'systemd-tmpfiles': 'systemd', 'matplotlib': 'python3-matplotlib',
}
BUILT_WITH = {'rdtarget_rbd': 'librbd-dev', 'rdtarget_nbd': 'libnbd-dev', 'nbdkit_rdinit': 'nbdkit-plugin-dev',
              'rdinit_python': 'python3-cffi',
              'libmicrohttpd': 'libmicrohttpd-dev'}


def lacks(package):
    """The reason to skip what a package would bring: the same words for the same package."""
    return Skip(f'needs {package} (apt-get install {package})')


def program(name):
    path = os.environ.get(name.upper())
    if not path:
        raise lacks(BUILT_WITH[name]) if name in BUILT_WITH else Skip(f'{name} is not built (set {name.upper()})')
    return path


def requires_program(name):
    path = shutil.which(name, path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')
    if not path:
        raise lacks(PACKAGES.get(name, name))
    return path


def requires_root():
    if os.geteuid() != 0:
        raise Skip('needs root')


def requires_ipv6():
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as sock:
            sock.bind((ADDR6, 0))
    except OSError as e:
        raise Skip(f'no IPv6 address {ADDR6}: {e.strerror}') from e


def requires_native():
    """For tests about time, memory or scheduling, which emulation distorts, and for what needs a preloaded library or other
    programs with our libraries: a run with a sanitizer has no such case."""
    if SANITIZED:
        raise NotOfThisRun('not with a sanitizer')


def preloaded(name, **variables):
    """The environment of a program with the library NAME.c of tests/loop loaded before all others."""
    lib = os.environ.get(name.upper())
    if not lib:
        raise Skip(f'{name} is not built (set {name.upper()})')
    requires_native()
    return dict(os.environ, LD_PRELOAD=lib, **variables)


def io_uring_error():
    """None if io_uring_setup(2) works, else the reason."""
    libc = ctypes.CDLL(None, use_errno=True)
    params = ctypes.create_string_buffer(120)
    fd = libc.syscall(425, 4, params)
    if fd < 0:
        return os.strerror(ctypes.get_errno())
    os.close(fd)
    return None


IO_URING_ERROR = io_uring_error()
ENGINE = 'aio' if IO_URING_ERROR else 'io_uring'


def requires_engine(engine):
    if engine == 'io_uring' and IO_URING_ERROR:
        raise Skip(f'io_uring is not available: {IO_URING_ERROR}')


def free_memory():
    with open('/proc/meminfo', encoding='ascii') as f:
        for line in f:
            if line.startswith('MemAvailable:'):
                return int(line.split()[1]) * 1024
    return 0


def requires_disk(path, size):
    st = os.statvfs(path)
    if st.f_bavail * st.f_frsize < size:
        raise Skip(f'needs {size >> 20} MiB free in {path}')


# ---- waiting ----

def wait_for(condition, what, deadline=None):
    """Poll for a condition that our processes do not print. Returns its first true value."""
    end = time.monotonic() + (deadline or DEADLINE)
    pause = 0.001
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f'still waiting for {what}')
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


# ---- YAML: what our configurations need of it ----

def to_yaml(value, indent=0):
    pad = '  ' * indent
    if isinstance(value, dict):
        lines = []
        for key, item in value.items():
            if isinstance(item, (dict, list)) and item:
                lines.append(f'{pad}{key}:')
                lines.append(to_yaml(item, indent + 1))
            else:
                lines.append(f'{pad}{key}: {scalar(item)}')
        return '\n'.join(lines)
    lines = []
    for item in value:
        if isinstance(item, dict):
            lines.append(f'{pad}- {to_yaml(item, indent + 1).lstrip()}')
        else:
            lines.append(f'{pad}- {scalar(item)}')
    return '\n'.join(lines)


def scalar(value):
    if isinstance(value, bool):
        return 'true' if value else 'false'
    if isinstance(value, list):
        return '[]'
    if isinstance(value, int):
        return str(value)
    text = str(value)
    return '"' + text + '"' if re.search(r'[:#{}\[\]]', text) or not text else text


# ---- processes ----

class Proc:
    """A process whose standard error goes, line by line, to a log file and to waiting expect() calls."""

    def __init__(self, t, name, argv, *, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                 preexec_fn=None, env=None, pass_fds=()):
        self.name = name
        self.log = os.path.join(t.dir, f'{name}.log')
        self.lines = []
        self._more = threading.Condition()
        # The child is started by the main thread: its PR_SET_PDEATHSIG is about that thread.
        self.popen = subprocess.Popen([str(a) for a in argv], stdin=stdin, stdout=stdout, stderr=subprocess.PIPE,
                                      preexec_fn=preexec_fn, env=env, pass_fds=pass_fds)
        self.pid = self.popen.pid
        self._pump = threading.Thread(target=self._read, daemon=True)
        self._pump.start()

    def _read(self):
        with open(self.log, 'ab') as log:
            for line in self.popen.stderr:
                log.write(line)
                log.flush()
                with self._more:
                    self.lines.append(line.decode(errors='replace').rstrip('\n'))
                    self._more.notify_all()
        with self._more:
            self.lines.append(None)  # end of file
            self._more.notify_all()

    def mark(self):
        """A position in the log, for expect(since=)."""
        with self._more:
            return len(self.lines)

    def expect(self, pattern, *, since=0, deadline=None):
        """Wait for a line that matches; returns the match."""
        end = time.monotonic() + (deadline or DEADLINE)
        at = since
        with self._more:
            while True:
                while at < len(self.lines):
                    line = self.lines[at]
                    at += 1
                    if line is None:
                        raise Failure(f'{self.name} ended without saying "{pattern}"')
                    found = re.search(pattern, line)
                    if found:
                        return found
                if not self._more.wait(max(0, end - time.monotonic())):
                    raise Failure(f'{self.name} did not say "{pattern}"')

    def text(self, since=0):
        with self._more:
            return '\n'.join(line for line in self.lines[since:] if line is not None)

    def signal(self, sig):
        self.popen.send_signal(sig)

    def wait(self, deadline=None):
        """The exit status; a process that does not end in time is killed and fails the test."""
        try:
            rc = self.popen.wait(deadline or DEADLINE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure(f'{self.name} (pid {self.pid}) did not end') from None
        self._pump.join(DEADLINE)
        return rc

    def kill(self):
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        self._pump.join(DEADLINE)

    @property
    def running(self):
        return self.popen.poll() is None

    # -- /proc --

    def proc(self, name):
        with open(f'/proc/{self.pid}/{name}', encoding='ascii', errors='replace') as f:
            return f.read()

    def open_files(self):
        return len(os.listdir(f'/proc/{self.pid}/fd'))

    def rss(self):
        return int(re.search(r'^VmRSS:\s+(\d+)', self.proc('status'), re.M).group(1)) * 1024

    def bytes_moved(self):
        """The bytes that it has read from and written to files so far."""
        return sum(int(n) for n in re.findall(r'^[rw]char: (\d+)', self.proc('io'), re.M))

    def cpu_ticks(self):
        fields = self.proc('stat').rsplit(')', 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def context_switches(self):
        total = 0
        for tid in os.listdir(f'/proc/{self.pid}/task'):
            total += sum(int(n) for n in re.findall(r'ctxt_switches:\s+(\d+)',
                                                    self.proc(f'task/{tid}/status')))
        return total


class Target(Proc):
    """A running rdtarget."""

    def __init__(self, t, config_path, *, name='rdtarget', binary=None, args=(), **kw):
        super().__init__(t, name, [binary or program('rdtarget'), '-c', config_path,
                                   '--exit-with-parent', '--log', 'debug', *args], **kw)
        self.expect(r'\bready$')
        self.listeners = []
        for line in self.text().splitlines():
            found = re.search(r'listening on (\S+):(\d+) \((\w+)\)', line)
            if found:
                self.listeners.append((found[1].strip('[]'), int(found[2])))
                if found[3] not in (FABRIC, 'tcp'):
                    raise Failure(f'rdtarget listens with {found[3]}, not with {FABRIC}')
        if not self.listeners:
            raise Failure('rdtarget is ready but listens nowhere')
        self.addr, self.port = self.listeners[0]

    @property
    def host(self):
        """The address as in a URI."""
        return f'[{self.addr}]' if ':' in self.addr else self.addr

    def uri(self, nsid=1, nqn=NQN):
        uri = f'nvme+rdma://{self.host}:{self.port}'
        return uri + (f'/{nqn}' if nqn else '') + (f'/{nsid}' if nsid else '')

    def status(self):
        """What SIGUSR1 prints."""
        while True:
            since = self.mark()
            self.signal(signal.SIGUSR1)
            # A log that was written faster than it is read has lost lines, perhaps these.
            if self.expect(r'status: end$|lines of this log were dropped', since=since)[0] == 'status: end':
                return self.text(since)

    def by_reactor(self, key):
        """This number of each reactor."""
        return [int(n) for n in re.findall(rf'status: reactor=\d+ .*\b{key}=(\d+)', self.status())]

    def counters(self):
        """The output of SIGUSR1 as a dict of numbers: those of reactors and of subsystems are summed up."""
        sums = {}
        for line in self.status().splitlines():
            found = re.search(r'status: (subsystem|reactor)=(.*)', line)
            for key, value in re.findall(r' ([\w.-]+)=(\d+)', found[2]) if found else ():
                sums[key] = sums.get(key, 0) + int(value)
        return sums

    def reload(self, expect=r'reloaded: '):
        """SIGHUP; waits until a line matches, and returns the log since the signal."""
        since = self.mark()
        self.signal(signal.SIGHUP)
        self.expect(expect, since=since)
        return self.text(since)

    def stop(self):
        """SIGTERM; everything must go well until the end."""
        self.signal(signal.SIGTERM)
        rc = self.wait()
        if rc != 0:
            raise Failure(f'{self.name} exited with {rc} on SIGTERM')


class Result:
    def __init__(self, argv, rc, out, err):
        self.argv, self.rc, self.out, self.err = argv, rc, out, err

    @property
    def text(self):
        return self.out.decode(errors='replace')


# ---- a test ----

class T:
    def __init__(self, name):
        self.name = name
        self.dir = tempfile.mkdtemp(prefix='rdnvme-', dir=os.environ.get('TMPDIR', '/var/tmp'))
        self.notes = []
        self._cleanups = []
        self._procs = []

    def note(self, text):
        """A figure or remark for the reader of the results."""
        self.notes.append(text)

    def cleanup(self, fn, *args, **kw):
        """Run at the end of the test in any case; the last one first."""
        self._cleanups.append((fn, args, kw))

    def path(self, name):
        return os.path.join(self.dir, name)

    def file(self, name, data):
        with open(self.path(name), 'wb') as f:
            f.write(data)
        return self.path(name)

    # -- checks --

    def ok(self, value, what):
        if not value:
            raise Failure(what)

    def eq(self, got, want, what='value'):
        if got != want:
            raise Failure(f'{what}: {self._short(got)}, expected {self._short(want)}')

    @staticmethod
    def _short(value):
        text = repr(value)
        return text if len(text) < 300 else text[:300] + f'... ({len(text)} characters)'

    def match(self, pattern, text, what='text'):
        if not re.search(pattern, text):
            raise Failure(f'{what} does not match "{pattern}":\n{text}')

    def same(self, got, want, what='data'):
        """Compare bytes; a difference is reported with its first offset."""
        if got == want:
            return
        if len(got) != len(want):
            raise Failure(f'{what}: {len(got)} bytes, expected {len(want)}')
        at = next(i for i in range(len(got)) if got[i] != want[i])
        raise Failure(f'{what} differ at byte {at}: {got[at:at + 16].hex()}, '
                      f'expected {want[at:at + 16].hex()}')

    # -- configuration and daemons --

    def namespace(self, nsid=1, *, backend='file', size='16MiB', **keys):
        """The configuration of one namespace; files are created in the test's directory."""
        ns = {'nsid': nsid, 'backend': backend}
        if backend == 'file':
            ns['path'] = keys.pop('path', self.path(f'ns{nsid}.img'))
            ns['create'] = keys.pop('create', True)
            ns['engine'] = keys.pop('engine', ENGINE)
            requires_engine(ns['engine'])
        if size is not None:
            ns['size'] = size
        ns.update(keys)
        return ns

    def config(self, namespaces=None, *, addr=ADDR, target=None, listener=None, listeners=None,
               subsystem=None, subsystems=None, name='rdtarget.yaml', more=None):
        """Write a configuration with port 0, for one listener or each of @listeners, and with the sections of @more.
        Returns its path."""
        if ':' in addr:
            requires_ipv6()
        if subsystems is None:
            subsystems = [{'nqn': NQN, 'allow_any_host': True, **(subsystem or {}),
                           'namespaces': namespaces or [self.namespace()]}]
        doc = {'target': {'buffer_memory': '8MiB', **(target or {})},
               'listeners': [{'address': addr, 'port': 0,
                              **({} if one.get('transport') == 'tcp' else {'provider': FABRIC}), **one}
                             for one in listeners or [listener or {}]],
               'subsystems': subsystems, **(more or {})}
        with open(self.path(name), 'w', encoding='utf-8') as f:
            f.write(to_yaml(doc) + '\n')
        return self.path(name)

    def target(self, namespaces=None, *, config=None, name='rdtarget', binary=None, args=(), env=None,
               preexec_fn=None, pass_fds=(), **kw):
        """Start a daemon; at the end of the test it is stopped and must end well."""
        config = config or self.config(namespaces, **kw)
        target = Target(self, config, name=name, binary=binary, args=args, env=env,
                        preexec_fn=preexec_fn, pass_fds=pass_fds)
        self._procs.append(target)
        self.cleanup(self._end, target)
        return target

    def spawn(self, name, argv, **kw):
        proc = Proc(self, name, argv, **kw)
        self._procs.append(proc)
        self.cleanup(proc.kill)
        return proc

    @staticmethod
    def _end(proc):
        if proc.running:
            proc.stop()
        else:
            proc.kill()

    def run(self, argv, *, input=None, stdin=None, stdout=None, deadline=None, env=None,
            preexec_fn=None):
        """Run a program to its end. A program that hangs is killed and fails the test."""
        argv = [str(a) for a in argv]
        proc = subprocess.Popen(argv, env=env, preexec_fn=preexec_fn, stderr=subprocess.PIPE,
                                stdin=subprocess.PIPE if input is not None
                                else stdin or subprocess.DEVNULL,
                                stdout=stdout if stdout is not None else subprocess.PIPE)
        try:
            out, err = proc.communicate(input, timeout=deadline or DEADLINE)
        except subprocess.TimeoutExpired:
            proc.kill()
            out, err = proc.communicate()
            raise Failure(f'{" ".join(argv)}: did not end\n{err.decode(errors="replace")}') from None
        err = err.decode(errors='replace')
        with open(self.path('commands.log'), 'a', encoding='utf-8') as log:
            log.write(f'$ {" ".join(argv)}\n{err}(exit {proc.returncode})\n')
        return Result(argv, proc.returncode, out or b'', err)

    def rdinit(self, *args, rc=0, **kw):
        """Run rdinit and check its exit status."""
        res = self.run([program('rdinit'), *args, *(PATIENCE if args and args[0][0] != '-' else ())],
                       **kw)
        if res.rc != rc:
            raise Failure(f'{" ".join(res.argv)}: exit {res.rc}, expected {rc}\n{res.err}'
                          f'{res.text if len(res.out) < 2000 else ""}')
        return res

    # -- end --

    def finish(self):
        """Run the clean-ups; returns the first error among them."""
        error = None
        while self._cleanups:
            fn, args, kw = self._cleanups.pop()
            try:
                fn(*args, **kw)
            except Exception as e:  # the others still have to run
                error = error or e
        return error

    def tails(self, lines=40):
        for name in sorted(os.listdir(self.dir)):
            if name.endswith('.log') and os.path.getsize(self.path(name)):
                with open(self.path(name), encoding='utf-8', errors='replace') as f:
                    text = [line for line in f.read().splitlines() if ': status: ' not in line]
                yield f'---- {name}'
                # The first line is often the cause of the last one. A test that waits asks for the status a hundred
                # times, and reports the condition itself.
                grave = [line for line in text[:-lines] if re.search(r': (error|warning): |(the queue pair|a work request) failed', line)]
                yield from (line[:400] for line in grave[:lines // 2] + text[-lines:])

    def discard(self, failed):
        if KEEP:
            return self.dir
        if not failed:
            shutil.rmtree(self.dir, ignore_errors=True)
            return None
        for name in os.listdir(self.dir):  # what explains the failure stays, images go
            if not name.endswith(('.log', '.yaml', '.pcapng')):
                path = self.path(name)
                if os.path.isdir(path):
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    os.unlink(path)
        return self.dir


# ---- the runner ----

_tests = []


def _add(name, fn, args=()):
    if FABRIC in getattr(fn, 'fabrics', (FABRIC,)):
        _tests.append((name, fn, args))


def test(fn):
    _add(fn.__name__.replace('_', ' '), fn)
    return fn


def each(*rows):
    """Make one test of each row: (label, *arguments)."""
    def mark(fn):
        for label, *args in rows:
            _add(f'{fn.__name__.replace("_", " ")}: {label}', fn, tuple(args))
        return fn
    return mark


def iwarp_only(fn):
    """Decorator, below @test or @each: the case uses the Python peer or bytes of iWARP, or is about what is above the
    fabric (storage, files, signals, text), or connects nothing, so it does not run over other fabrics."""
    fn.fabrics = ('iwarp',)
    return fn


def with_library(fn):
    """Decorator, below @test or @each: librdinit is loaded into Python, which sanitizers do not allow."""
    if SANITIZED:
        fn.fabrics = ()
    return fn


def iwarp_rows(*rows):
    """Decorator: rows of @each that apply to iWARP only."""
    return rows if FABRIC == 'iwarp' else ()


def _diag(text, out=None):
    for line in str(text).splitlines():
        print(f'# {line}', file=out)


def _explain(t, name, error):
    """The reason of a failure, on standard error: a harness shows that of failed tests, not their TAP."""
    _diag(f'{name}:', sys.stderr)
    if isinstance(error, Failure):
        _diag(error, sys.stderr)
        _diag('at ' + ' < '.join(f'{os.path.basename(f.filename)}:{f.lineno}' for f in
                                 reversed(traceback.extract_tb(error.__traceback__)[1:])), sys.stderr)
    else:
        _diag(''.join(traceback.format_exception(error)), sys.stderr)
    for line in t.tails():
        _diag(line, sys.stderr)


def _run_one(number, name, fn, args):
    """Whether the case is good, and whether it has a result."""
    began = time.monotonic()
    t = T(name)
    skip = error = None
    try:
        fn(t, *args)
    except (Skip, NotOfThisRun) as e:
        skip = e
    except BaseException as e:  # KeyboardInterrupt has to clean up as well
        error = e
    cleanup_error = t.finish()
    error = error or cleanup_error
    for note in t.notes:
        _diag(note)
    if error:
        print(f'not ok {number} - {name}')
        sys.stdout.flush()
        _explain(t, name, error)
    elif isinstance(skip, NotOfThisRun):
        _diag(f'left out, {skip}: {name}')
    elif skip:
        print(f'ok {number} - {name} # SKIP {skip}')
    else:
        print(f'ok {number} - {name}')
    kept = t.discard(bool(error))
    if kept:
        _diag(f'kept {kept}', sys.stderr)
    _diag(f'time {time.monotonic() - began:.2f} {name}')  # tools/test-summary prints the slowest ones
    sys.stdout.flush()
    if isinstance(error, KeyboardInterrupt):
        raise error
    return not error, error or not isinstance(skip, NotOfThisRun)


def main(fabrics=('iwarp',)):
    """Run all tests of the calling file, or those whose name contains an argument. Only a file about what a provider does
    runs over verbs too, in emulated machines: tests/vm/README.md. Over another fabric a file has no tests."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if FABRIC not in ('iwarp', 'verbs'):
        print(f'Bail out! RD_TEST_FABRIC is {FABRIC}, expected iwarp or verbs')
        return 1
    names = os.environ.get('RD_TEST_CASES', '').splitlines()
    wanted = [row for row in _tests if FABRIC in fabrics and (not names or row[0] in names) and
              (len(sys.argv) < 2 or any(arg in row[0] for arg in sys.argv[1:]))]
    good = True
    results = 0
    for name, fn, args in wanted:
        passed, counts = _run_one(results + 1, name, fn, args)
        good &= passed
        results += bool(counts)
    print(f'1..{results}')
    return 0 if good else 1
