# SPDX-License-Identifier: BSD-3-Clause
"""rddev, verified mixed I/O on a device, for tests in which targets, networks and storage fail."""

import re
import subprocess

from t_loop import SCALE, program, wait_for

# Short times, so that a test sees what takes half a minute by default; on slow machines longer ones.
KATO = 1000 * SCALE
TIMES = ('--keep-alive-tmo', KATO, '--reconnect-delay', 1000, '--io-timeout', 10000 * SCALE)


class Device:
    """A running rddev."""

    def __init__(self, t, uris, *args, name='rddev', **kw):
        self.t = t
        self.proc = t.spawn(name, [program('rddev'), *TIMES, *args, *uris], stdin=subprocess.PIPE, **kw)
        self.proc.expect(r'^event device live')

    def count(self, what):
        found = re.findall(rf'(?m)^ops.* ?\b{what} (\d+)', self.proc.text())
        return int(found[-1]) if found else 0

    def ops(self):
        found = re.findall(r'(?m)^ops (\d+)', self.proc.text())
        return int(found[-1]) if found else 0

    def goes_on(self, n=300):
        """Wait for this many more commands."""
        goal = self.ops() + max(20, n // SCALE)

        def there():
            self.t.ok(self.proc.running, f'rddev ended:\n{self.proc.text()[-3000:]}')
            return self.ops() >= goal
        wait_for(there, 'commands to end')

    def finish(self):
        """End it; every block is read once more."""
        self.proc.popen.stdin.close()
        rc = self.proc.wait()
        self.t.eq(rc, 0, f'rddev:\n{self.proc.text()[-3000:]}')
        self.proc.expect(r'^verified$')
