# SPDX-License-Identifier: BSD-3-Clause
"""The commands, configurations, options and defaults that documents show.

The word behind ``` says what a block is: "sh" is run here; "sh FILE" is run by that test; "sh elsewhere" is for another
machine, for root, or takes long, and only its names are checked; "yaml" is a configuration, or a part of one."""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

from t_loop import NQN, SOURCE_ROOT, each, main, program, test, to_yaml

FOLDERS = ('docs', 'common', 'target', 'initiator', 'tests', 'tools', 'configs')
KINDS = re.compile(r'(sh( elsewhere| tests/\S+\.py)?|yaml|text|ini)$')
OURS = ('rdinit', 'rdtarget', 'rdctl', 'rdconform')


def documents():
    for name in sorted(os.listdir(SOURCE_ROOT)):
        if name.endswith('.md'):
            yield name
    for folder in FOLDERS:
        for where, _, names in os.walk(os.path.join(SOURCE_ROOT, folder)):
            yield from (os.path.relpath(os.path.join(where, name), SOURCE_ROOT) for name in sorted(names) if name.endswith('.md'))


def read(path):
    with open(os.path.join(SOURCE_ROOT, path), encoding='utf-8') as f:
        return f.read()


def blocks(text):
    """(kind, content) of each block between fences, without its indentation."""
    for indent, kind, content in re.findall(r'(?ms)^( *)```(.*?)\n(.*?)^ *```$', text):
        yield kind, re.sub(rf'(?m)^{indent}', '', content)


def all_blocks():
    return [(path, kind, content) for path in documents() for kind, content in blocks(read(path))]


@test
def every_block_says_what_it_is(t):
    found = all_blocks()
    t.ok(len(found) > 30, f'blocks: {len(found)}')
    t.eq([f'{path}: "```{kind}": expected sh, sh elsewhere, sh TEST, yaml, text or ini' for path, kind, _ in found
          if not KINDS.match(kind)], [])
    for path, kind, _ in found:
        if kind.startswith('sh tests/'):
            t.ok(os.path.basename(path) in read(kind[3:]), f'{kind[3:]} names {path}')


# ---- what is run ----

def sandbox(t):
    """A folder like a clone with its build, in which the document's commands do no harm."""
    top = t.path('clone')
    os.makedirs(f'{top}/bin')
    shutil.copy(os.path.join(SOURCE_ROOT, 'README.md'), top)
    shutil.copytree(os.path.join(SOURCE_ROOT, 'configs'), f'{top}/configs')
    os.symlink(os.environ['BUILD_ROOT'], f'{top}/build')
    for name in ('meson', 'ninja'):  # the build is there
        os.symlink(shutil.which('true'), f'{top}/bin/{name}')
    return top


@test
def the_readmes_commands_work(t):
    top = sandbox(t)
    text = '\n'.join(content for kind, content in blocks(read('README.md')) if kind == 'sh')
    start = re.search(r'(?m)^build/target/rdtarget -c (\S+) &.*\n', text)
    t.ok(start, f'rdtarget is started in\n{text}')
    config = f'{top}/{start[1]}'
    with open(config, encoding='utf-8') as f:
        sample = f.read()
    with open(config, 'w', encoding='utf-8') as f:
        f.write(re.sub(r'port: \d+', 'port: 0', sample).replace('path: ', f'path: {top}/'))
    target = t.target(config=config)
    text = text.replace(start[0], '').replace('127.0.0.1', f'127.0.0.1:{target.port}')
    t.ok(' bench $URI ' in text, f'no bench in\n{text}')
    text = text.replace(' bench $URI ', ' bench $URI --run-time 1 ')
    res = t.run(['/bin/bash', '-euc', f'cd {shlex.quote(top)}; PATH=$PWD/bin:$PATH\n{text}'])
    t.eq(res.rc, 0, f'{text}\n{res.text}{res.err}')
    t.match('(?m)^the same$', res.text)
    with open(f'{top}/README.md', 'rb') as f, open(f'{top}/blocks2to9', 'rb') as g:
        t.same(g.read(), f.read()[1024:1024 + 4096], 'blocks 2 to 9')


def examples(page):
    """The commands in the section EXAMPLES of a manual page."""
    section = re.search(r'(?s)\n\.SH EXAMPLES\n(.*?)(?=\n\.SH |$)', read(f'docs/man/{page}'))
    text = '\n'.join(re.findall(r'(?s)\n\.EX\n(.*?)\n\.EE', section[1])) if section else ''
    for roff, plain in (('\\-', '-'), ('\\e', '\\'), ('\\(aq', "'"), ('\\(dq', '"')):
        text = text.replace(roff, plain)
    return text


def run_examples(t, page, *changes):
    text = examples(page)
    for old, new in changes:
        t.ok(re.search(old, text), f'{old} is in the examples of {page}')
        text = re.sub(old, new, text)
    res = t.run(['/bin/bash', '-euc', f'cd {shlex.quote(t.dir)}\n{text}'])
    t.eq(res.rc, 0, f'{text}\n{res.text}{res.err}')
    return res


@test
def rdinits_examples_work(t):
    target = t.target([t.namespace(size='4MiB')])
    t.file('disk.img', os.urandom(2 << 20))
    res = run_examples(t, 'rdinit.1', (r'(?m)^rdinit\b', program('rdinit')), (r'192\.0\.2\.1(?!:| )', f'127.0.0.1:{target.port}'),
                       (r'-a 192\.0\.2\.1', f'-a 127.0.0.1 -s {target.port}'), (r'nqn\.2026-01\.org\.example:disk1', NQN),
                       ('--run-time 30', '--run-time 1'))
    with open(t.path('disk.img'), 'rb') as f:
        t.match(hashlib.sha256(f.read(1 << 20)).hexdigest(), res.text)


@test
def rdctls_examples_work(t):
    target = t.target([t.namespace(size='1MiB')], more={'control': {'socket': t.path('control.sock')}})
    run_examples(t, 'rdctl.1', (r'\brdctl\b', f'{program("rdctl")} -s {t.path("control.sock")}'),
                 (r'nqn\.2024-01\.io\.rdnvme:quickstart', NQN), ('/srv/b.img', t.path('b.img')), ('20GiB', '1MiB'),
                 (r'(upgrade --check) && \S.* upgrade(?=\n)', r'\1'))  # test_upgrade.py has the rest
    t.eq(os.path.getsize(t.path('b.img')), 1 << 20)
    t.eq(target.wait(), 0, 'exit status after shutdown')


@test
def rdconforms_examples_name_tests(t):
    commands = [line.split() for line in examples('rdconform.1').splitlines()]
    filters = [word.strip("'") for words in commands for before, word in zip(words, words[1:]) if before == '-t']
    t.ok(len(filters) > 2, f'filters: {filters}')
    for name in filters:
        t.ok(t.run([program('rdconform'), '--list', '-t', name]).text.strip(), f'-t {name} finds a test')


# Parts of a configuration, with what they leave out.
PARTS = {'subsystems': [{'nqn': NQN, 'allow_any_host': True}], 'listeners': [{'address': '127.0.0.1', 'port': 0}]}


@test
def configurations_in_documents_are_good(t):
    key = t.file('host1.tls.key', t.rdinit('gen-tls-key').out)
    os.chmod(key, 0o600)
    t.file('ceph.keyring', b'')
    found = [(path, content) for path, kind, content in all_blocks() if kind == 'yaml']
    t.ok(len(found) > 2, f'configurations: {len(found)}')
    checked = 0
    for path, content in found:
        text = re.sub(r'/etc/rdtarget/keys|/run/rdtarget', t.dir, content)
        for word, nqn in (('HOSTNQN', 'nqn.2024-01.test:h'), ('NQN', NQN)):
            text = re.sub(rf'\b{word}\b', nqn, text)
        text += ''.join(to_yaml({name: value}) + '\n' for name, value in PARTS.items() if not re.search(rf'(?m)^{name}:', text))
        res = t.run([program('rdtarget'), '--check', '-c', t.file('part.yaml', text.encode())])
        if 'rdtarget-rbd' in res.err and 'module' in res.err:
            continue
        t.eq(res.rc, 0, f'{path}:\n{content}{res.err}')
        checked += 1
    t.ok(checked, 'nothing was checked')


# ---- names ----

def code(text):
    """The commands in blocks and in backticks, one a line."""
    for kind, content in blocks(text):
        if kind.startswith('sh'):
            yield from re.sub(r'\\\n', ' ', content).splitlines()
    yield from re.findall(r'`([^`\n]+)`', re.sub(r'(?ms)^ *```.*?^ *```$', '', text))


def simple_commands(line):
    """The words of each command of a line of a shell. What is in quotes is one word."""
    lexer = shlex.shlex(line.replace("'\\n'", ''), posix=True, punctuation_chars=';&|()<>')
    lexer.whitespace_split = True
    words = []
    try:
        for word in lexer:
            if set(word) <= set(';&|()<>$'):
                yield words
                words = []
            else:
                words.append(word)
    except ValueError:  # a quote that is none of a shell
        pass
    yield words


def commands(text):
    """(program, words) of each use of a program of ours."""
    for line in code(text):
        for words in simple_commands(line):
            while words and (re.fullmatch(r'[A-Z_]+=\S*', words[0]) or words[0] in ('sudo', 'exec')):
                words = words[1:]
            name = os.path.basename(words[0]) if words else ''
            if name in OURS and (words[0] == name or words[0].startswith('build/')):
                yield name, words[1:]
            elif words and re.fullmatch(r'tools/[\w-]+(/build)?', words[0]):
                yield words[0], words[1:]


FOR_THE_BUILD = ('--generate',)  # not in the help
HELP = {}


def help_of(name, *verb):
    argv = (os.path.join(SOURCE_ROOT, name) if '/' in name else program(name), *verb, '--help')
    if argv not in HELP:
        HELP[argv] = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL).stdout
    return HELP[argv]


def wrong_names(name, words):
    """What the help of the program does not know of this use."""
    verb = next((word for word in words if re.fullmatch(r'[a-z][a-z-]+', word)), None) if name in ('rdinit', 'rdctl') else None
    text = help_of(name)
    if name == 'rdinit' and not verb:
        text += ''.join(help_of(name, one) for one in ('read', 'cp', 'bench', 'attach', 'list'))
    if verb and not re.search(rf'(?m)^  {verb}\b', text) and words[0] == verb:
        yield f'no verb "{verb}"'
        return
    if name == 'rdinit' and verb and words[0] == verb:
        text = help_of(name, verb) + text
    for word in words:
        option = re.match(r'--[a-z][a-z0-9-]*', word)
        if option and option[0] not in FOR_THE_BUILD and not re.search(rf'(?<![\w-]){option[0]}(?![\w-])', text):
            yield f'no option {option[0]}'


@test
def verbs_and_options_in_documents_exist(t):
    texts = [(path, read(path)) for path in documents()] + [(page, f'```sh\n{examples(page)}\n```\n')
                                                            for page in sorted(os.listdir(f'{SOURCE_ROOT}/docs/man')) if page[-1].isdigit()]
    rules = 'configs/monitoring/rdtarget.rules.yml'
    texts.append((rules, re.sub(r'(\brdctl [^.,;()"]*)', r'`\1`', read(rules))))
    found = [(path, name, words) for path, text in texts for name, words in commands(text)
             if name in OURS or os.path.isfile(os.path.join(SOURCE_ROOT, name)) and os.access(os.path.join(SOURCE_ROOT, name), os.X_OK)]
    t.ok(len(found) > 200, f'uses of programs: {len(found)}')
    errors = [f'{path}: {name} {" ".join(words)}: {error}' for path, name, words in found for error in wrong_names(name, words)]
    t.ok(not errors, '\n'.join(errors))


@each(('a verb', '`rdinit raed x`', 'no verb "raed"'), ('an option', '`rdinit read x --dat y`', 'no option --dat'),
      ('an option of a tool', '```sh elsewhere\nA=b tools/check --al\n```', 'no option --al'),
      ('a verb of rdctl', '`rdctl drian`', 'no verb "drian"'), ('nothing', '`rdinit read x --data y | rdctl status`', None))
def a_wrong_name_would_be_found(t, text, says):
    t.eq([error for name, words in commands(text) for error in wrong_names(name, words)], [says] if says else [])


# ---- defaults and limits ----

def keys(schema, path=''):
    for name, part in schema.get('properties', {}).items():
        yield path + name, part
        yield from keys(part, f'{path}{name}.')
        yield from keys(part.get('items', {}), f'{path}{name}.')


# (document, statement with one group for each value, key and property of each value)
STATEMENTS = [
    ('README.md', r'http://127\.0\.0\.1:(\d+)/', 'http.port default'),
    ('docs/architecture.md', r'in-capsule size \((\d+ KiB) by default\)', 'target.in_capsule_size default'),
    ('docs/design/commands.md', r'one command of `state_times` \((\d+) by\s+default\)', 'target.state_times default'),
    ('docs/design/iwarp.md', r'`limits\.half_open` of them \(([\d,]+) by default\)', 'target.limits.half_open default'),
    ('docs/design/http.md', r'the only right: ([\d.]+) by default', 'http.address default'),
    ('docs/design/auth.md', r'has (\d+) \(`unconnected_per_address`\)', 'target.limits.unconnected_per_address default'),
    ('docs/gateways.md', r'with the default `takeover: (\d+)`', 'ceph.takeover default'),
    ('docs/gateways.md', r'keep-alive timeout 5 s, `takeover: (\d+)`', 'ceph.takeover default'),
    ('docs/hosts.md', r'`max_data_size` below the default, (\d+ MiB)', 'target.max_data_size default'),
    ('docs/hosts.md', r'`block_size: (\d+)`, the default', 'subsystems.namespaces.block_size default'),
    ('docs/operate.md', r'`engine: (\w+)`, the default', 'subsystems.namespaces.engine default'),
    ('docs/operate.md', r'http://127\.0\.0\.1:(\d+)/', 'http.port default'),
    ('docs/performance.md', r'more than the (\w+) default', 'target.spin default'),
    ('docs/performance.md', r'exceeds (\w+) for each reactor', 'target.buffer_memory default'),
    ('docs/performance.md', r'Writes up to `in_capsule_size` \((\w+)\)', 'target.in_capsule_size default'),
    ('docs/performance.md', r'more than (\d+) in flight on a queue; a disk more than (\d+) from', 'target.queue_depth default',
     'target.engine_depth default'),
    ('docs/operate.md', r'one address \| ([\d,]+), ([\d,]+), ([\d,]+) \| `limits\.connections', 'target.limits.connections default',
     'target.limits.connections_per_host default', 'target.limits.connections_per_address default'),
    ('docs/operate.md', r'one address \| ([\d,]+), ([\d,]+), ([\d,]+) \| `limits\.controllers', 'target.limits.controllers default',
     'target.limits.controllers_per_host default', 'target.limits.controllers_per_address default'),
    ('docs/operate.md', r'entries of a queue \| (\d+), (\d+) \|.*up to ([\d,]+) each', 'target.io_queues default', 'target.queue_depth default',
     'target.queue_depth maximum'),
    ('docs/operate.md', r'in its capsule \| (\d+ MiB), (\d+ KiB)', 'target.max_data_size default', 'target.in_capsule_size default'),
    ('docs/operate.md', r'\| reactors \| (\d+) \| `reactors` \(up to (\d+)\)', 'target.reactors default', 'target.reactors maximum'),
    ('docs/operate.md', r'capsules \| (\d+ MiB), (\d+ MiB)', 'target.buffer_memory default', 'target.capsule_memory default'),
    ('docs/operate.md', r'at a disk \| (\d+) from each reactor \| `engine_depth` \(up to ([\d,]+)\)', 'target.engine_depth default',
     'target.engine_depth maximum'),
    ('docs/operate.md', r'subsystems, namespaces \| ([\d,]+),', 'subsystems maxItems'),
]


WORDS = {'two': '2', 'three': '3', 'four': '4', 'eight': '8', 'ten': '10', 'sixteen': '16'}

# (document, statement with a group for each number, "file MACRO" of each)
CONSTANTS = [
    ('docs/architecture.md', r'no Connect within (\d+) s', 'target/nvmf/qpair.h RDT_CONNECT_TIMEOUT'),
    ('docs/architecture.md', r'for each device on a reactor at most (\d+) for I/O', 'target/bdev/workers.h RDT_WORKERS_MAX'),
    ('docs/design/auth.md', r'At most (\d+) jobs wait', 'target/nvmf/auth/auth_work.h RDT_AUTH_JOBS'),
    ('docs/design/auth.md', r'A name keeps (\d+) identifiers', 'target/nvmf/host_ids.h RDT_HOST_IDS'),
    ('docs/design/buffers.md', r'After (\w+) checks without them a host is late\. After (\w+) checks', 'target/nvmf/progress.c LATE',
     'target/nvmf/progress.c SLOW'),
    ('docs/design/buffers.md', r'closed after (\w+)\s+checks without any byte', 'target/nvmf/progress.c STILL'),
    ('docs/design/control.md', r'a ring of (\d+) for the main', 'target/manage/rpc/rpc_events.c EVENTS_MAX'),
    ('docs/design/http.md', r'(\d+) connections of (\d+) KiB', 'target/manage/http/http.c CONNECTIONS', 'target/manage/http/http.c CONN_MEMORY'),
    ('docs/design/http.md', r'with (\d+) headers', 'target/manage/http/http.c HEADERS_MAX'),
    ('docs/design/http.md', r'more than (\w+) copies', 'target/manage/http/http.c BODIES'),
    ('docs/design/http.md', r'With more than (\d+) the oldest', 'target/manage/http/http.c EVICT_ABOVE'),
    ('docs/design/http.md', r'(\d+) s without a byte, or (\d+) s in all', 'target/manage/http/http.c IDLE_SECONDS',
     'target/manage/http/http.c WHOLE_TIME'),
    ('docs/design/identity.md', r'at most ([\d,]+) volumes', 'target/resv/identity.h RDT_IDENTITIES_MAX'),
    ('docs/design/iwarp.md', r'reads at most (\w+) of the sockets', 'common/fabric/iwarp/drain.c DRAIN_READS'),
    ('docs/design/reconciler.md', r'it waits at most (\d+) s for storage', 'target/main.c OPEN_WAIT'),
    ('docs/design/reconciler.md', r'have settled, or after (\d+) s which', 'target/manage/change/converge.c SETTLE'),
    ('docs/design/reconciler.md', r'A device has (\w+) threads at a time, all devices together (\d+)', 'target/bdev/jobs.h RDT_JOBS_SHARE',
     'target/bdev/jobs.h RDT_JOBS_TOTAL'),
    ('docs/design/reconciler.md', r'After (\d+) s the\s+owner is told', 'target/bdev/jobs.h RDT_JOBS_LIMIT'),
    ('docs/design/reconciler.md', r'After (\d+) s\s+a removal that waits is logged', 'target/manage/objects/control.c LEAVE_WARN'),
    ('docs/design/storage.md', r'The start waits at most (\d+) s', 'target/main.c OPEN_WAIT'),
    ('docs/design/storage.md', r'A device has up to (\d+) threads on a reactor, those above (\w+) ', 'target/bdev/workers.h RDT_WORKERS_MAX',
     'target/bdev/workers.h RDT_WORKERS_MIN'),
    ('docs/design/storage-rbd.md', r'`rbd_jobs\.c`: (\w+), up to (\w+) while', 'target/bdev/rbd_jobs.c WORKERS', 'target/bdev/rbd_jobs.c WORKERS_MAX'),
    ('docs/man/rdtarget.yaml.5', r'not waited for longer than (\d+) s', 'target/main.c OPEN_WAIT'),
]


@test
def numbers_in_documents_are_those_of_the_code(t):
    for path, statement, *wanted in CONSTANTS:
        found = re.search(statement, read(path))
        t.ok(found, f'{path} says: {statement}')
        for value, macro in zip(found.groups(), wanted):
            source, name = macro.split()
            defined = re.search(rf'(?m)^#define {name}\s+\(?(?:UINT64_C\()?(\d+)', read(source))
            t.ok(defined, f'{source} defines {name}')
            t.eq(WORDS.get(value, value.replace(',', '')), defined[1], f'{path}: {statement}: {name}')


@test
def defaults_and_limits_in_documents_are_true(t):
    schema = dict(keys(json.loads(t.run([program('rdtarget'), '--schema']).text)))
    for path, statement, *wanted in STATEMENTS:
        found = re.search(statement, read(path))
        t.ok(found, f'{path} says: {statement}')
        for value, key in zip(found.groups(), wanted):
            name, part = key.split()
            t.eq(value.replace(',', '').replace(' ', ''), str(schema[name][part]), f'{path}: {statement}: {key}')


def options_of_page(page):
    """{option: text} of the paragraphs of a manual page that begin with an option or a parameter."""
    text = read(f'docs/man/{page}').replace('\\-', '-')
    return {name: body for name, body in re.findall(r'(?s)\n\.TP\n\.B[IR] (?:[^\n]*--)?([\w-]+)[^\n]*\n(.*?)(?=\n\.(?:TP|SS|SH))', text)}


def agree_on_defaults(t, program_says, page_says, least):
    """Of {option: default} and {option: text}."""
    told = {name: re.search(r'[Dd]efault (-?\w+)', text) for name, text in page_says.items()}
    wrong = [f'{name}: the program has {value}, the page {told[name][1]}' for name, value in program_says.items()
             if told.get(name) and told[name][1] != value]
    t.ok(not wrong, '\n'.join(wrong))
    t.ok(sum(bool(told.get(name)) for name in program_says) >= least, f'defaults: {program_says}; {told}')


@test
def rdinits_manual_page_has_its_defaults(t):
    found = dict(re.findall(r'(?m)--([\w-]+)=\S+ .*\(default (\d\w*)', help_of('rdinit', 'read')))
    agree_on_defaults(t, found, options_of_page('rdinit.1'), 6)


@test
def the_manual_page_of_nbdkits_plugin_has_its_defaults(t):
    found = dict(re.findall(r'"([\w-]+)=<.*\(default (-?\d+)', read('tools/nbdkit/plugin.c')))
    agree_on_defaults(t, found, options_of_page('nbdkit-rdinit-plugin.1'), 5)


@test
def the_page_of_fios_engine_has_its_defaults(t):
    found = dict(re.findall(r'OPTION\((\w+), (?:(?!OPTION).)*?\.def = "(\d+)"', read('tools/fio/engine.c').replace('\n', ' ')))
    page = {}
    for names, text in re.findall(r'(?m)^\| (`[^|]*) \| (.*default \d.*) \|$', read('tools/fio/README.md')):
        values = re.search(r'default (\d+)(?:.*? and (\d+))?', text).groups()
        page.update((name, f'default {value}') for name, value in zip(re.findall(r'`(\w+)`', names), values))
    agree_on_defaults(t, found, page, 5)


if __name__ == '__main__':
    sys.exit(main())
