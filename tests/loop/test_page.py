# SPDX-License-Identifier: BSD-3-Clause
"""The status page in Chromium: its content while hosts are served, when the target ends, and with hostile names."""

import os
import struct
import sys
import zlib

import nvmf_peer as nv
from t_browser import Browser
from t_http import Http, serving, with_http
from t_loop import NQN, PATIENCE, each, main, program, requires_engine, test, wait_for
from t_serving import exercise, host, memory
from t_storage import stall_env, stand_still

# The text of a figure, or of a table's rows, as people see it.
FIGURE = "return [...document.querySelectorAll('#figures div')].find(e => e.innerText.includes(arguments[0])).innerText"
ROWS = "return [...document.querySelectorAll('#' + arguments[0] + ' tbody tr')].map(r => [...r.cells].map(c => c.innerText))"


def shown(b, state='serving'):
    b.wait("return document.getElementById('state').textContent === arguments[0]", f'the page to say {state}', state)


def pixels(path):
    """(width, height, colours of every 16th pixel of every 16th line) of a PNG."""
    with open(path, 'rb') as f:
        data = f.read()
    at, packed = 8, b''
    while at < len(data):
        length, kind = struct.unpack_from('>I4s', data, at)
        if kind == b'IHDR':
            width, height, depth, colour = struct.unpack_from('>IIBB', data, at + 8)
        elif kind == b'IDAT':
            packed += data[at + 8:at + 8 + length]
        at += 12 + length
    if depth != 8 or colour not in (2, 6):
        raise AssertionError(f'PNG of depth {depth} and type {colour}')
    raw, size = zlib.decompress(packed), 3 if colour == 2 else 4
    found, before = set(), bytearray(width * size)
    for y in range(height):
        start = y * (width * size + 1)
        line = unfilter(raw[start], bytearray(raw[start + 1:start + 1 + width * size]), before, size)
        if y % 16 == 0:
            found |= {bytes(line[x:x + 3]) for x in range(0, width * size, 16 * size)}
        before = line
    return width, height, found


def unfilter(kind, line, before, size):
    for i in range(len(line) if kind else 0):
        left = line[i - size] if i >= size else 0
        corner = before[i - size] if i >= size else 0
        if kind == 1:
            guess = left
        elif kind == 2:
            guess = before[i]
        elif kind == 3:
            guess = (left + before[i]) // 2
        else:
            guess = min((left, before[i], corner), key=lambda v: abs(left + before[i] - corner - v))
        line[i] = (line[i] + guess) & 255
    return line


@test
def what_is_served_is_shown_while_io_runs(t):
    target, http = serving(t, [memory(t), t.namespace(7, size='4MiB', ana_group=3)],
                           listener={'ana': [{'group': 3, 'state': 'inaccessible'}]})
    b = Browser(t)
    t.spawn('bench', [program('rdinit'), 'bench', target.uri(), '--rw=randrw', '--dataloss', '--run-time', '1h', '--poll',
                      'never', '--depth', '4', '-q', 'nqn.2024-01.test:bench', *PATIENCE])
    b.open(http.url)
    shown(b)
    b.wait("return Number.parseFloat(document.querySelector('#figures div:nth-child(1) dd').textContent) > 0 && "
           "Number.parseFloat(document.querySelector('#figures div:nth-child(2) dd').textContent) > 0", 'rates')
    b.wait("return /[µmn]?s$/.test(document.querySelector('#figures div:nth-child(4) dd').textContent)", 'percentiles')
    t.match(r'iB / s', b.run(FIGURE, 'Reads'))
    row, = b.run(ROWS, 'hosts')
    t.eq(row[:3], ['nqn.2024-01.test:bench', target.addr, '2'], 'the host, its address and connections')
    row, = b.run(ROWS, 'controllers')
    t.eq((row[0], row[1], row[4]), ('nqn.2024-01.test:bench', NQN, 'ready'))
    t.match(r'queue 1: \d+/\d+ on reactor \d', row[6])
    wait_for(lambda: (lambda r: '–' not in r[0][4:11] and '0' not in r[0][4:11] and r[1][4:11] == ['0', '0', '–'] * 2 + ['0'])(
        b.run(ROWS, 'namespaces')), 'rates, bandwidths, latencies and I/O in flight of each namespace')
    rows = b.run(ROWS, 'namespaces')
    t.match(r'^[0-9.,]+ [KMG]iB/s$', rows[0][5], 'bandwidth')
    t.match(r'^[0-9.]+ [µm]s$', rows[0][6], 'latency')
    t.eq([(r[1], r[3], r[12], r[13]) for r in rows],
         [('1', '8 MiB', '1: optimized', 'live'), ('7', '4 MiB', '3: inaccessible', 'live')])
    listener, = b.run(ROWS, 'listeners')
    t.eq(listener, [f'{target.addr}:{target.port}', 'iwarp', 'listening', '3 inaccessible'])
    t.eq(len(b.run(ROWS, 'reactors')), 2, 'reactors')
    b.wait("return document.querySelectorAll('#chart-io polyline').length === 2 && "
           "document.querySelector('#chart-io polyline').points.length > 2", 'the history')
    t.match('no reload since the start', b.run("return document.getElementById('facts').innerText"))
    target.reload()
    b.wait("return document.getElementById('facts').innerText.includes('reloaded: nothing has changed')", 'the reload')
    t.ok(b.run("return document.getElementById('problems-none').checkVisibility()"), 'there is a problem')
    t.eq(b.said(), [], 'the console')


@test
def it_says_when_the_target_has_gone_and_when_it_is_back(t):
    target, http = serving(t, [memory(t)])
    config = with_http(t, [memory(t)], http={'port': http.port}, name='again.yaml')
    b = Browser(t)
    b.open(http.url)
    shown(b)
    target.stop()
    b.wait("return document.body.classList.contains('stale')", 'the page to see it')
    t.match('^rdtarget has not answered since ', b.run("return document.getElementById('gone').innerText"))
    t.match('not answering', b.run("return document.title"))
    t.match('^not answering for ', b.run("return document.getElementById('state').innerText"))
    t.eq(len(b.run(ROWS, 'namespaces')), 1, 'what was served is still shown')
    t.eq(b.run("return document.getElementById('gone').getAttribute('role')"), 'alert', 'role, for screen readers')
    again = t.target(config=config, name='again')
    b.wait("return !document.body.classList.contains('stale')", 'the page to see it again')
    shown(b)
    t.ok(not b.run("return document.getElementById('gone').checkVisibility()"), 'it still says so')
    t.match('^rdtarget was restarted at ', b.run("return document.getElementById('restarted').innerText"))
    b.run("document.querySelector('#restarted button').click()")
    t.ok(not b.run("return document.getElementById('restarted').checkVisibility()"), 'the notice after it was dismissed')
    t.eq(Http(again).status()['pid'], again.pid)


@test
def what_happened_before_it_was_opened_is_shown(t):
    target, http = serving(t, [memory(t)])
    exercise(target)
    wait_for(lambda: sum(http.status()['history']['writes']) or None, 'the second to be over')
    b = Browser(t)
    b.open(http.url)
    shown(b)
    t.match(r'^I/O per second of the last ten minutes: reads at most [0-9.]+, writes at most [1-9][0-9.]*$',
            b.run("return document.querySelector('#chart-io svg').getAttribute('aria-label')"))
    t.eq(b.run("return document.querySelectorAll('#chart-io .start').length"), 1, 'marks of the start')
    t.eq(b.run("return document.querySelectorAll('figure polyline').length > 0"), True, 'lines')


@test
def tables_are_sorted_and_filtered(t):
    sizes = {1: '3MiB', 2: '1MiB', 7: '2MiB'}
    target, http = serving(t, [memory(t, nsid, size=size) for nsid, size in sizes.items()])
    b = Browser(t)
    b.open(http.url)
    shown(b)

    def order(what, *columns):
        for column in columns:
            b.run("[...document.querySelectorAll('#namespaces th button')].find(e => e.innerText === arguments[0]).click()", column)
        return [row[what] for row in b.run(ROWS, 'namespaces')]

    t.eq(order(1, 'Size'), ['1', '7', '2'], 'the largest first')
    t.eq(b.run("return document.querySelector('#namespaces th[aria-sort]').getAttribute('aria-sort')"), 'descending')
    t.eq(order(1, 'Size'), ['2', '7', '1'], 'turned round')
    first = b.run("return document.getElementById('foot').innerText")
    b.wait("return document.getElementById('foot').innerText !== arguments[0]", 'the next update', first)
    t.eq(order(1), ['2', '7', '1'], 'the order after an update')
    with host(target) as h:
        h.enable()
        wait_for(lambda: b.run(ROWS, 'hosts'), 'the host')
        b.run("const e = document.getElementById('filter'); e.value = ' 7 MEMory'; e.dispatchEvent(new Event('input'))")
        t.eq(order(1), ['7'], 'what matches')
        t.eq(b.run("return document.querySelector('#namespaces h2 small').innerText"), '1 of 3')
        t.eq(b.run("return document.querySelector('#hosts .empty').innerText"), 'No entry matches the filter.')
        b.run("const e = document.getElementById('filter'); e.value = arguments[0]; e.dispatchEvent(new Event('input'))", target.addr)
        t.eq((len(b.run(ROWS, 'hosts')), len(b.run(ROWS, 'controllers')), order(1)), (1, 1, []), 'by the address of the host')


HOSTILE = ('<img src=x onerror=window.hacked=1>', '"><script>window.hacked=1</script>', "';window.hacked=1;//",
           '</td></tr></table><h1>forged</h1>', '‮txet', '\x1b[31mred', '\x01same', '\x02same')


@test
def names_of_hosts_are_text_and_nothing_else(t):
    target, http = serving(t, [memory(t)])
    b = Browser(t)
    b.open(http.url)
    shown(b)
    tags = b.run('return document.querySelectorAll("img, script, h1").length')
    hosts = []
    for name in HOSTILE:
        hosts.append(host(target, hostnqn=name))
        hosts[-1].__enter__()
        t.cleanup(hosts[-1].__exit__, None, None, None)
        hosts[-1].enable()
    rows = wait_for(lambda: (lambda r: r if len(r) == len(HOSTILE) else None)(b.run(ROWS, 'hosts')), 'the hosts')
    t.eq(sorted(row[0] for row in rows), sorted([*HOSTILE[:4], r'\xe2\x80\xaetxet', r'\x1b[31mred', r'\x01same', r'\x02same']), 'names')
    t.eq(sorted(row[0] for row in b.run(ROWS, 'controllers')), sorted(row[0] for row in rows), 'names of controllers')
    t.eq(b.run('return document.querySelectorAll("img, script, h1").length'), tags, 'elements that a name has made')
    t.eq(b.run('return window.hacked === undefined'), True, 'no name ran as a script')
    t.eq(b.said(), [], 'the console')


@test
def the_policy_stops_what_would_be_injected(t):
    """The second line of defence: markup that was injected into the page would not run, and could not reach another
    site."""
    _, http = serving(t, [memory(t)])
    b = Browser(t)
    b.open(http.url)
    shown(b)
    b.run("const d = document.createElement('div'); d.innerHTML = '<img src=x onerror=window.hacked=1>'; "
          "document.body.append(d); const s = document.createElement('script'); s.textContent = 'window.hacked=2'; "
          "document.body.append(s)")
    wait_for(lambda: sum('Content Security Policy' in line for line in b.said()) or None, 'the policy to refuse it')
    t.eq(b.run('return window.hacked === undefined'), True, 'it did not run')


@test
def a_reactor_that_stands_still_is_a_problem(t):
    requires_engine('io_uring')
    stall = t.path('stall')
    target, http = serving(t, [t.namespace(1, engine='io_uring')], target={'reactors': 2}, env=stall_env(stall))
    b = Browser(t)
    b.open(http.url)
    shown(b)
    with host(target) as h:
        h.enable()
        queue = h.add_io()
        try:
            cid = stand_still(queue, stall)
            b.wait("return /reactor \\d does not answer/.test(document.getElementById('problems').innerText)", 'it to be shown')
            t.match(r'^\d+(\.\d)? s\s', b.run("return document.getElementById('problems').innerText"), 'since when')
            t.match(r'1 problem: reactor', b.run("return document.getElementById('said').innerText"), 'what is read out')
            t.ok(any('does not answer' in row[1] for row in b.run(ROWS, 'reactors')), 'not in the table of reactors')
        finally:
            os.unlink(stall)
        nv.expect(queue.wait(cid))
        b.wait("return document.getElementById('problems-none').checkVisibility()", 'it to be over')


@test
def a_failed_sync_is_a_problem_of_its_namespace(t):
    """The state is not green with it."""
    target, http = serving(t, [memory(t), t.namespace(7, size='4MiB', layers=[{'type': 'error', 'ops': ['write'], 'first_block': 9, 'blocks': 1}])])
    b = Browser(t)
    b.open(http.url)
    shown(b)
    t.eq(b.run("return document.getElementById('state').className"), 'pill good')
    with host(target) as h:
        h.enable()
        t.ok(h.add_io().write_blocks(7, 9, bytes(512), fua=True).status, 'the write succeeded')
        shown(b, 'serving, 1 problem')
        t.eq(b.run("return document.getElementById('state').className"), 'pill bad')
        t.match(rf'{NQN} namespace 7: a sync of its storage has failed', b.run("return document.getElementById('problems').innerText"))
        t.match('sync-failed', b.run(ROWS, 'namespaces')[1][13])


@test
def many_namespaces_are_shown_by_the_hundred(t):
    _, http = serving(t, [memory(t, n, size='64KiB') for n in range(1, 1102)])
    b = Browser(t)
    b.open(http.url)
    shown(b)
    t.eq(len(b.run(ROWS, 'namespaces')), 100, 'rows')
    t.eq(b.run("return document.querySelector('#namespaces .more-rows button').innerText"), 'Show 1,000 of 1,101')
    b.run("document.querySelector('#namespaces .more-rows button').click()")
    t.eq(len(b.run(ROWS, 'namespaces')), 1000, 'rows after the button')
    t.match('The first 1,000 of 1,101', b.run("return document.querySelector('#namespaces .more-rows').innerText"))


@each(('wide', 1280, False), ('on a tablet', 820, False), ('on a phone in the dark', 390, True))
def it_fits(t, width, dark):
    long = 'nqn.2024-01.test:' + 'a-very-long-name.' * 12
    target, http = serving(t, [memory(t)])
    b = Browser(t, width, 400, dark)
    with host(target, hostnqn=long) as h:
        h.enable()
        h.add_io()
        b.open(http.url)
        shown(b)
        wait_for(lambda: b.run(ROWS, 'hosts'), 'the host')
        t.eq(b.run('return document.documentElement.scrollWidth'), width, 'width of what is scrolled')
        outside = b.run("return [...document.querySelectorAll('main *')].filter(e => e.checkVisibility() && "
                        "!e.closest('thead, svg, .unseen') && e.getBoundingClientRect().right > innerWidth + 1)"
                        ".map(e => e.outerHTML.slice(0, 99))")
        t.eq(outside, [], 'elements outside the window')
        clipped = b.run("return [...document.querySelectorAll('.card')].filter(e => e.scrollWidth > e.clientWidth + 1)"
                        ".map(e => e.id)")
        t.eq(clipped, [], 'cards whose content is cut off')
        b.screenshot(t.path('page.png'))
    w, _, colours = pixels(t.path('page.png'))
    t.eq(w, width, 'width of the picture')
    back = bytes.fromhex('12161b' if dark else 'f6f7f9')
    t.ok(back in colours, 'the background is not in the picture')
    t.ok(len(colours) > 3, f'only {len(colours)} colours: nothing was drawn')


@test
def screen_readers_get_tables_and_few_words(t):
    target, http = serving(t, [memory(t)])
    b = Browser(t, 390)
    with host(target) as h:
        h.enable()
        b.open(http.url)
        shown(b)
        wait_for(lambda: b.run(ROWS, 'hosts'), 'the host')
        t.eq(b.run("return [...document.querySelectorAll('table')].every(t => t.getAttribute('role') === 'table' && "
                   "document.getElementById(t.getAttribute('aria-labelledby')) && "
                   "[...t.querySelectorAll('th')].every(h => h.scope === 'col'))"), True, 'tables, headers, labels')
        t.eq(b.run("return document.querySelectorAll('table').length"), 5)
        t.eq(b.run("return [...document.querySelectorAll('svg')].every(s => s.getAttribute('role') === 'img' && "
                   "s.getAttribute('aria-label').includes('of the last ten minutes'))"), True, 'charts have a text')
        t.eq(b.run("return document.documentElement.lang + document.querySelectorAll('h1').length"), 'en1')
        # Figures change every second: they must not be in a region that is read out.
        t.eq(b.run("return [...document.querySelectorAll('[role=status], [role=alert], [aria-live]')].map(e => e.id)"),
             ['said', 'gone'], 'regions that are read out')
        first = b.run("return document.getElementById('foot').innerText")
        b.wait("return document.getElementById('foot').innerText !== arguments[0]", 'the next update', first)
        t.eq(b.run("return document.getElementById('said').innerText"), '', 'what was read out')


if __name__ == '__main__':
    sys.exit(main())
