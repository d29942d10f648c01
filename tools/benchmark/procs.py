# SPDX-License-Identifier: BSD-3-Clause
"""Servers and clients as processes: started on a processor, measured, and ended with us whatever happens."""

import ctypes
import os
import re
import signal
import subprocess
import tempfile
import time

PR_SET_PDEATHSIG = 1
# Only something that hangs takes as long.
START_SECONDS = 30
STOP_SECONDS = 20

_libc = ctypes.CDLL(None)


class Failed(Exception):
    """A peer failed; the text says in which step and why."""


def child_of_ours(cpu):
    """For preexec_fn: on one processor, and killed when this program is."""
    def prepare():
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})
    return prepare


def _last_words(text, lines=4):
    return ' / '.join(line for line in text.strip().splitlines()[-lines:])


def _status(rc):
    return f'ended by {signal.Signals(-rc).name}' if rc < 0 else f'exit {rc}'


class Server:
    """A process that runs until it is stopped."""

    def __init__(self, name, argv, cpu, *, ready, env=None, stop=signal.SIGTERM):
        """@ready(server) is asked until it is true; @stop is the signal that ends it."""
        self.name, self._stop = name, stop
        self.log = tempfile.TemporaryFile()
        try:
            self.popen = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=self.log,
                                          stderr=self.log, preexec_fn=child_of_ours(cpu),
                                          env={**os.environ, **(env or {})})
        except OSError as e:
            self.log.close()
            raise Failed(f'{name}: {e}') from None
        self.pid = self.popen.pid
        try:
            self._wait_ready(ready)
        except BaseException:
            self.stop()
            raise

    def text(self):
        size = os.fstat(self.log.fileno()).st_size
        return os.pread(self.log.fileno(), size, 0).decode(errors='replace')

    def _wait_ready(self, ready):
        end = time.monotonic() + START_SECONDS
        while not ready(self):
            if self.popen.poll() is not None:
                raise Failed(f'{self.name}: {_status(self.popen.returncode)}: {_last_words(self.text())}')
            if time.monotonic() > end:
                raise Failed(f'{self.name} did not start within {START_SECONDS} s: {_last_words(self.text())}')
            time.sleep(0.01)

    def check(self):
        if self.popen.poll() is not None:
            raise Failed(f'{self.name}: {_status(self.popen.returncode)}: {_last_words(self.text())}')

    def stop(self):
        if self.popen.poll() is None:
            self.popen.send_signal(self._stop)
            try:
                self.popen.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.popen.kill()
        self.popen.wait()
        self.log.close()

    # ---- /proc ----

    def _proc(self, name):
        try:
            with open(f'/proc/{self.pid}/{name}', encoding='ascii', errors='replace') as f:
                return f.read()
        except OSError as e:
            raise Failed(f'{self.name}: {e}') from None

    def cpu_us(self):
        """User and system time so far, those of threads that have ended included."""
        fields = self._proc('stat').rsplit(')', 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf('SC_CLK_TCK')

    def _tasks(self):
        return os.listdir(f'/proc/{self.pid}/task')

    def exact_cpu_us(self):
        """The same of the threads that there are, to the nanosecond where the kernel counts so."""
        try:
            return sum(int(self._proc(f'task/{tid}/schedstat').split()[0]) for tid in self._tasks()) / 1e3
        except Failed:
            return self.cpu_us()

    def wakeups(self):
        """How often its threads went to sleep, which is how often they were woken."""
        return sum(int(re.search(r'^voluntary_ctxt_switches:\s+(\d+)', self._proc(f'task/{tid}/status'), re.M)[1])
                   for tid in self._tasks())

    def memory_kib(self):
        """The resident memory of the process, exact to the page: VmRSS lags by some dozens of pages for each
        processor."""
        found = re.search(r'^Rss:\s+(\d+)', self._proc('smaps_rollup'), re.M)
        return int(found[1]) if found else 0

    def peak_kib(self):
        found = re.search(r'^VmHWM:\s+(\d+)', self._proc('status'), re.M)
        return int(found[1]) if found else 0


class Outcome:
    def __init__(self, out, cpu_us, seconds):
        self.out, self.cpu_us, self.seconds = out, cpu_us, seconds


def run(name, argv, cpu, seconds, *, env=None, cwd=None):
    """Run a client to its end; one that takes much longer than it should is killed, with what it started.
    Failed with its last words unless it exits with 0."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        try:
            popen = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                     preexec_fn=child_of_ours(cpu), cwd=cwd, start_new_session=True,
                                     env={**os.environ, **(env or {})})
        except OSError as e:
            raise Failed(f'{name}: {e}') from None
        try:
            rc, usage = _wait(popen, start + seconds * 2 + START_SECONDS)
        finally:
            _end_group(popen)
        text = _content(out)
        if rc is None:
            raise Failed(f'{name}: did not end, so it was killed: {_last_words(_content(err))}')
        if rc:
            raise Failed(f'{name}: {_status(rc)}: {_last_words(_content(err) or text)}')
        return Outcome(text, (usage.ru_utime + usage.ru_stime) * 1e6, time.monotonic() - start)


def _wait(popen, deadline):
    pause = 0.002
    while time.monotonic() < deadline:
        pid, status, usage = os.wait4(popen.pid, os.WNOHANG)
        if pid:
            popen.returncode = os.waitstatus_to_exitcode(status)
            return popen.returncode, usage
        time.sleep(pause)
        pause = min(0.02, pause * 1.2)
    return None, None


def _end_group(popen):
    """Ends the processes that a client has left running in its process group."""
    try:
        os.killpg(popen.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    if popen.returncode is None:
        popen.wait()


def _content(file):
    file.seek(0)
    return file.read().decode(errors='replace')
