# SPDX-License-Identifier: BSD-3-Clause
"""A third check of the wire format: Wireshark's MPA, DDP and RDMAP dissectors read our frames."""

import os
import re
import signal
import subprocess
import sys

from t_loop import Skip, each, main, requires_ipv6, requires_program, wait_for


def capture(t, port):
    """dumpcap on the loopback; returns when it captures."""
    requires_program('tshark')
    dumpcap = requires_program('dumpcap')
    path = t.path('wire.pcapng')
    proc = t.spawn('dumpcap', [dumpcap, '-i', 'lo', '-f', f'tcp port {port}', '-w', path, '-B', '64'])
    wait_for(lambda: not proc.running or 'File:' in proc.text(), 'dumpcap to start')
    if not proc.running:
        raise Skip(f'capturing is not permitted: {proc.text().splitlines()[-1:]}')
    return proc, path


def finish(t, proc, path, size):
    """End the capture when it has written @size bytes: dumpcap drops what it has not read yet."""
    wait_for(lambda: os.path.getsize(path) >= size, f'{size} bytes of packets')
    proc.signal(signal.SIGINT)
    proc.wait()
    dropped = re.search(r"packets dropped.*?: \d+/(\d+)|dropped on interface '.*?': \d+/(\d+)",
                        proc.text())
    if dropped and int(dropped[1] or dropped[2] or 0):
        raise Skip('the capture lost packets')


def tshark(t, path, *args):
    res = subprocess.run([requires_program('tshark'), '-r', path, '-o', 'tcp.try_heuristic_first:TRUE',
                          '-o', 'tcp.desegment_tcp_streams:TRUE', *args], capture_output=True,
                         text=True, check=False)
    t.eq(res.returncode, 0, f'tshark: {res.stderr}')
    return res.stdout


@each(('IPv4', '127.0.0.1', False), ('IPv4 with CRC', '127.0.0.1', True), ('IPv6', '::1', False))
def wireshark_reads_our_frames(t, addr, crc):
    if ':' in addr:
        requires_ipv6()
    target = t.target([t.namespace(backend='memory')], addr=addr, listener={'crc': crc})
    proc, path = capture(t, target.port)
    data = bytes(range(256)) * 200
    t.rdinit('write', target.uri(), '--data', '-', input=data)
    t.same(t.rdinit('read', target.uri(), '--data', '-', '--data-size', str(len(data))).out, data)
    # The daemon's end closes its connections, so the last packets are on the wire by then.
    target.stop()
    finish(t, proc, path, 2 * len(data))
    summary = tshark(t, path)
    for what in ('MPA Request Frame', 'MPA Reply Frame'):
        t.ok(what in summary, f'tshark shows no {what}')
    text = tshark(t, path, '-V')
    ops = set(re.findall(r'OpCode: (\S.*?) \(0x', text))
    t.note(f'operations seen: {", ".join(sorted(ops))}')
    for what in ('Write', 'Read Request', 'Read Response', 'Send', 'Send with Invalidate'):
        t.ok(what in ops, f'no {what} among {sorted(ops)}')
    t.eq(tshark(t, path, '-Y', '_ws.malformed || iwarp_mpa.bad_length'), '', 'malformed frames')
    verdicts = re.findall(r'CRC check: 0x[0-9a-f]+ \((\w+) CRC32\)', text)
    t.note(f'CRCs checked by tshark: {len(verdicts)}')
    if crc:
        t.ok(verdicts, 'tshark checked no CRC')
        t.eq(set(verdicts), {'Good'}, 'CRCs')


if __name__ == '__main__':
    sys.exit(main())
