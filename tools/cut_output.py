# SPDX-License-Identifier: BSD-3-Clause
"""Programs whose output is cut, for example by head(1). That is an ordinary end: no traceback, what was started is ended,
and the exit status is that of a program which SIGPIPE ends."""

import io
import os
import signal
import sys

STATUS = 128 + signal.SIGPIPE


class _Output(io.FileIO):
    """Ends the program by SystemExit, which no handler of OSError takes for the error of a file or a socket."""

    def write(self, data):
        try:
            return super().write(data)
        except BrokenPipeError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())  # for what is written on the way out
            os.close(null)
            sys.exit(STATUS)


def run(main):
    """Runs main() and exits with the status that it returns."""
    if sys.stdout is None:  # closed by the caller: print() does nothing
        sys.exit(main())
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(_Output(sys.stdout.fileno(), 'w', closefd=False)), encoding=sys.stdout.encoding,
                                  errors=sys.stdout.errors, line_buffering=True)
    try:
        sys.exit(main())
    finally:
        sys.stdout.flush()
