# SPDX-License-Identifier: BSD-3-Clause
"""An interactive session with a namespace: python3 -m rdinit URI"""
from __future__ import annotations

import argparse
import code
import sys
from typing import Any

import rdinit

BANNER = '''rdinit {version}: {text}
Try dir(), help(channel), channel.read(0, 1), channel.write(0, b'...'), device.info(), device.paths();
or, of a discovery controller, controller.discover(). Ctrl-D ends the session.'''


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='python3 -m rdinit', description='''Open a namespace, and run commands of
        Python with it: as "device" and "channel", or as "controller" for a URI without NSID, which may be that of a
        discovery controller.''')
    parser.add_argument('uri', nargs='*', help='nvme+tcp://HOST[:PORT]/SUBNQN/NSID; several are paths to one namespace')
    parser.add_argument('-o', '--option', action='append', default=[], metavar='NAME=VALUE',
                        help='an option of the device or the controller, such as hostnqn=nqn... or queue_size=32')
    parser.add_argument('-c', '--command', action='append', metavar='CODE',
                        help='run this instead of asking; "-" is standard input; may be repeated')
    return parser.parse_args()


def option(text: str) -> tuple[str, Any]:
    name, _, value = text.partition('=')
    if value in ('true', 'false'):
        return name, value == 'true'
    return name, int(value, 0) if value.removeprefix('0x').isalnum() and value[:1].isdecimal() else value


def connect(uris: list[str], options: dict[str, Any]) -> dict[str, Any]:
    if not uris:
        return {}
    if len(uris) == 1 and not rdinit.split_uri(uris[0]).nsid:
        return {'controller': rdinit.Controller(uris[0], **options)}
    device = rdinit.Device(*uris, **options)
    return {'device': device, 'channel': device.channel()}


def run(names: dict[str, Any], commands: list[str] | None) -> None:
    if commands is None:
        text = ', '.join(name for name in names if name != 'rdinit') or 'no URI was given'
        code.interact(BANNER.format(version=rdinit.__version__, text=text), local=names, exitmsg='')
        return
    for command in commands:
        exec(compile(sys.stdin.read() if command == '-' else command, '<command>', 'exec'), names)


def main() -> None:
    args = arguments()
    try:
        names = connect(args.uri, dict(option(text) for text in args.option))
    except (rdinit.Error, TypeError) as error:
        sys.exit(f'rdinit: {error.strerror if isinstance(error, rdinit.Error) else error}')
    try:
        run({'rdinit': rdinit, **names}, args.command)
    finally:
        for name in ('device', 'controller'):
            if name in names:
                names[name].close()


if __name__ == '__main__':
    main()
