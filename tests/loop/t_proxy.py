# SPDX-License-Identifier: BSD-3-Clause
"""A TCP proxy between a host and a target over the loopback, which fails as the test says."""

import asyncio
import random
import socket
import struct
import threading

from t_loop import DEADLINE, wait_for


class Proxy:
    """Forwards connections to (addr, port) from self.port on, which the kernel chooses.

    What happens to bytes, from a call on and for open connections too:
      forward()      nothing else
      delay(s)       each piece waits s seconds
      trickle()      pieces of 1 to 16 bytes, each a segment of its own
      damage()       the last byte of what is read at once is changed
      swallow()      they are acknowledged and dropped; a connection that lost bytes stays like that
    What happens to connections:
      reset()        those that are open are reset, on both sides
      accepting(no)  False: connections are established by the kernel, but not answered
    """

    def __init__(self, t, addr, port):
        self.to = (addr, port)
        self.accepted = 0
        self.swallowed = 0
        self.forwarded = 0  # bytes, both ways
        self._mode, self._delay = 'forward', 0
        self._random = random.Random(1)
        self._open = set()
        self._go = asyncio.Event()
        self._go.set()
        self._sock = socket.socket(socket.AF_INET6 if ':' in addr else socket.AF_INET)
        self._sock.bind((addr, 0))
        self._sock.listen(64)
        self._sock.setblocking(False)
        self.addr, self.port = self._sock.getsockname()[:2]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        t.cleanup(self._stop)

    # -- the test's side --

    def uri(self, target):
        """The target's URI, with the proxy's port."""
        return target.uri().replace(f':{target.port}/', f':{self.port}/')

    def forward(self):
        self._call(self._set, 'forward')

    def delay(self, seconds):
        self._call(self._set, 'delay', seconds)

    def trickle(self):
        self._call(self._set, 'trickle')

    def swallow(self):
        self._call(self._set, 'swallow')

    def damage(self):
        self._call(self._set, 'damage')

    def damage_answers(self):
        """Damages what the target sends, and nothing else."""
        self._call(self._set, 'damage answers')

    def reset(self):
        self._call(self._reset_all)

    def accepting(self, yes):
        self._call(self._go.set if yes else self._go.clear)

    def wait_accepted(self, count):
        wait_for(lambda: self.accepted >= count, f'{count} connections through the proxy')

    # -- the thread's side --

    def _call(self, fn, *args):
        """Run fn on the proxy's thread, and wait until it has returned."""
        done = threading.Event()

        def run():
            fn(*args)
            done.set()
        self._loop.call_soon_threadsafe(run)
        done.wait(DEADLINE)

    def _set(self, mode, delay=0):
        self._mode, self._delay = mode, delay

    def _run(self):
        asyncio.set_event_loop(self._loop)
        task = self._loop.create_task(self._accept())
        self._loop.run_forever()
        task.cancel()
        for other in asyncio.all_tasks(self._loop):
            other.cancel()
        self._loop.run_until_complete(asyncio.gather(*asyncio.all_tasks(self._loop), return_exceptions=True))
        self._loop.close()

    def _stop(self):
        self._call(self._reset_all)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE)
        self._sock.close()

    async def _accept(self):
        while True:
            await self._go.wait()
            sock, _ = await self._loop.sock_accept(self._sock)
            # One may have been waiting in sock_accept() when accepting(False) came.
            await self._go.wait()
            self._loop.create_task(self._serve(sock))

    async def _serve(self, sock):
        try:
            there = await asyncio.open_connection(*self.to)
        except OSError:
            sock.close()
            return
        here = await asyncio.open_connection(sock=sock)
        pair = (here[1], there[1])
        for writer in pair:
            writer.get_extra_info('socket').setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._open.add(pair)
        self.accepted += 1
        state = {'lost': False}
        try:
            await asyncio.gather(self._pump(here[0], there[1], state, {'damage'}),
                                 self._pump(there[0], here[1], state, {'damage', 'damage answers'}))
        except OSError:
            self._reset(pair)
        finally:
            self._open.discard(pair)
            for writer in pair:
                writer.close()

    async def _pump(self, reader, writer, state, damaged):
        while data := await reader.read(65536):
            if self._mode == 'swallow' or state['lost']:
                state['lost'] = True
                self.swallowed += len(data)
                continue
            if self._mode in damaged:
                data = data[:-1] + bytes([data[-1] ^ 1])
            if self._mode == 'delay':
                await asyncio.sleep(self._delay)
            while self._mode == 'trickle' and data:
                n = self._random.randint(1, 16)
                writer.write(data[:n])
                data = data[n:]
                await writer.drain()
                await asyncio.sleep(0)
            writer.write(data)
            await writer.drain()
            self.forwarded += len(data)
        if not state['lost'] and writer.can_write_eof():
            writer.write_eof()

    def _reset_all(self):
        for pair in list(self._open):
            self._reset(pair)

    @staticmethod
    def _reset(pair):
        for writer in pair:
            sock = writer.get_extra_info('socket')
            if sock.fileno() >= 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            writer.transport.abort()
