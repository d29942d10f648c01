# SPDX-License-Identifier: BSD-3-Clause
"""All results as one page, and as a part of another page."""

import report
import vm

BEGIN = '<!-- measured: begin (tools/bench --redraw DIR --into FILE) -->'
END = '<!-- measured: end -->'


def everything(results, emulated):
    if results:
        yield from report.body(results)
        yield ''
    if emulated:
        yield from vm.markdown(emulated)


def markdown(results, emulated):
    return '# Measured by tools/bench\n\n' + '\n'.join(everything(results, emulated)).rstrip() + '\n'


def insert(path, results, emulated, pictures):
    """Replace what is between the marks in the page."""
    with open(path, encoding='utf-8') as f:
        text = f.read()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f'{path}: expected one line "{BEGIN}" and one line "{END}"')
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    shown = '\n\n'.join(f'![{what}]({name})' for what, name in pictures)
    with open(path, 'w', encoding='utf-8') as f:
        f.write(f'{head}{BEGIN}\n\n' + '\n'.join(everything(results, emulated)).rstrip() + f'\n\n{shown}\n\n{END}{tail}')
