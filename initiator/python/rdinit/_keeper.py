# SPDX-License-Identifier: BSD-3-Clause
"""A thread that processes a handle whenever its descriptor is readable."""
from __future__ import annotations

import os
import select
import threading
from typing import Callable


class Keeper:
    """process: returns a negative number when the handle has ended."""

    def __init__(self, fd: int, process: Callable[[], int]) -> None:
        wake, self._wake = os.pipe()
        self._thread = threading.Thread(target=_run, args=(fd, wake, process), name='rdinit', daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """The thread has ended when this returns. A second call does nothing."""
        if self._wake < 0:
            return
        os.close(self._wake)
        self._wake = -1
        self._thread.join()


def _run(fd: int, wake: int, process: Callable[[], int]) -> None:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.register(wake, select.POLLIN)
    while True:
        ready = [which for which, _ in poll.poll()]
        if wake in ready:
            break
        if process() < 0:
            poll.unregister(fd)
    os.close(wake)
