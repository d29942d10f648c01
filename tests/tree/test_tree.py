# SPDX-License-Identifier: BSD-3-Clause
"""Rules of the tree: which folders may include which, and that programs, manual pages and samples agree."""

import fnmatch
import glob
import json
import os
import re
import shutil
import subprocess
import sys

from t_loop import SOURCE_ROOT, Failure, Skip, each, main, program, requires_program, test
from t_tree import no_errors, read, resolve, scripts, sources

C_FOLDERS = ('common', 'target', 'initiator', 'include', 'tests', 'tools')

# folder: what it may include of the project, in addition to files of its own folder
LAYERS = {
    'include': ('include',),
    'common/util': ('common/util',),
    'common/nvmf': ('common/util', 'common/nvmf'),
    'common/fabric': ('common/util', 'common/fabric'),
    'initiator': ('common', 'include', 'initiator'),
    'target': ('common', 'target'),
    'tools': ('common', 'include', 'tools'),
    'tests/simfabric': ('common/util', 'common/fabric', 'tests/simfabric'),
}
# The command line is a user of the library, like any other program.
STRICTER = {'initiator/cli': ('include', 'initiator/cli', 'initiator/attach', 'common/util'),
            'initiator/attach': ('include', 'initiator/attach', 'common/util'), 'tools/fio': ('include', 'tools/fio')}


def below(path, folders):
    return any(path == f or path.startswith(f + '/') for f in folders)


def includes_of(path):
    """(line number, the project's file) of each include."""
    for number, line in enumerate(read(path).splitlines(), 1):
        found = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
        target = found and resolve(path, found[1])
        if target:
            yield number, target


def layering_errors(folder, allowed):
    for path in sources(folder):
        for number, target in includes_of(path):
            if not below(target, allowed):
                yield f'{path}:{number} includes {target}'


@each(*((folder, folder, allowed) for folder, allowed in {**LAYERS, **STRICTER}.items()))
def includes_point_downwards(t, folder, allowed):
    if not os.path.isdir(os.path.join(SOURCE_ROOT, folder)):
        raise Skip('no such folder yet')
    no_errors(layering_errors(folder, allowed))


@test
def the_layering_check_finds_a_violation(t):
    """A test that cannot fail proves nothing: the rule of one folder, applied to another folder."""
    t.ok(list(layering_errors('target', ('common/util',))), 'nothing was found')


# Of a provider's folder: the headers that tests may include. testing.h is for tests only; the others are pure
# functions, layouts and constants.
SEAMS = {
    'common/fabric/iwarp': ('testing.h', 'stats.h', 'caps.h', 'wire.h', 'mpa.h', 'ddp.h'),
    'common/fabric/verbs': ('testing.h', 'stats.h', 'cm_event.h', 'err.h', 'quirk.h'),
}


def inside_errors(paths, seams):
    for path in paths:
        for number, target in includes_of(path):
            folder, name = os.path.split(target)
            if folder in seams and name not in seams[folder]:
                yield f'{path}:{number} includes {target}; tests see a provider by {", ".join(seams[folder])}'


@test
def tests_include_nothing_of_a_providers_inside(t):
    no_errors(inside_errors(sources('tests'), SEAMS))
    closed = {folder: () for folder in SEAMS}
    found = {error.split(' includes ')[1].rpartition('/')[0] for error in inside_errors(sources('tests'), closed)}
    t.eq(found, set(SEAMS), 'with no header allowed these folders were found')


@test
def the_product_does_without_what_is_for_tests(t):
    def errors():
        for path in sources('common', 'target', 'initiator', 'tools'):
            if not path.endswith('/testing.c'):
                for number, target in includes_of(path):
                    if target.endswith('/testing.h'):
                        yield f'{path}:{number} includes {target}'
    no_errors(errors())


def readme_of(path):
    """The README nearest to a source file, above it in its part of the tree, and the file's name there."""
    folder, name = os.path.split(path)
    while folder and not os.path.exists(os.path.join(SOURCE_ROOT, folder, 'README.md')):
        folder, parent = os.path.split(folder)
        name = f'{parent}/{name}'
    return (os.path.join(folder, 'README.md'), name) if folder else (None, name)


def unnamed(paths, text_of):
    for path in paths:
        readme, name = readme_of(path)
        if not readme:
            yield f'{path}: no README.md in its folder or above'
        elif f'`{name}`' not in text_of(readme):
            yield f'{readme} does not name `{name}`'


@each(*((folder, folder) for folder in ('target', 'initiator', 'common', 'tools')))
def readmes_name_every_source_file(t, folder):
    no_errors(unnamed(sources(folder), read))
    t.ok(list(unnamed(sources(folder), lambda readme: '')), 'in empty READMEs nothing was missed')


@each(*((folder, folder) for folder in ('target', 'initiator', 'common', 'tools')))
def readmes_name_no_file_that_is_gone(t, folder):
    def errors():
        for readme in sources(folder, ext=('README.md',)):
            for row in re.findall(r'(?m)^\| (`[^|]*`) \|', read(readme)):
                for name in re.findall(r'`([\w/.-]+\.[ch])`', row):
                    if not os.path.exists(os.path.join(SOURCE_ROOT, os.path.dirname(readme), name)):
                        yield f'{readme} names `{name}`, which is not there'
    no_errors(errors())


@test
def c_files_have_a_licence(t):
    no_errors(f'{path} does not start with its SPDX line' for path in sources(*C_FOLDERS)
              if not read(path).startswith('/* SPDX-License-Identifier: BSD-3-Clause */\n'))


@test
def scripts_have_a_licence(t):
    paths = [path for path, _ in scripts('tools', 'tests', 'configs', 'docs')]
    t.ok(len(paths) > 30, f'only {len(paths)} scripts were found')
    no_errors(f'{path} has no SPDX line' for path in [*paths, *sources('tests', 'tools', ext=('.py',))]
              if 'SPDX-License-Identifier: BSD-3-Clause' not in read(path)[:200])


# ---- manual pages ----

def man_source(name):
    return read(f'docs/man/{name}').replace('\\-', '-').replace('\\(aq', "'")


def options_of(text):
    return set(re.findall(r'(?<![\w-])--[a-z][a-z0-9-]+', text))


def help_of(argv):
    res = subprocess.run(argv, capture_output=True, text=True, check=False)
    if res.returncode:
        raise Failure(f'{" ".join(argv)}: exit {res.returncode}\n{res.stderr}')
    return res.stdout


def agree(what, program_has, manual_has):
    missing, extra = program_has - manual_has, manual_has - program_has
    if missing or extra:
        raise Failure(f'{what}: missing in the manual page {sorted(missing)}; '
                      f'only in the manual page {sorted(extra)}')


def verbs():
    """rdinit's verbs, from its own table."""
    return help_of([program('rdinit'), '--generate', 'verbs']).splitlines()


@test
def rdinits_verbs_are_in_its_manual_page(t):
    """With the options that all verbs have; the verbs' own pages are made from the same table."""
    binary, text = program('rdinit'), man_source('rdinit.1')
    usage = help_of([binary, '--help'])
    shared = options_of(help_of([binary, 'discover', '--help'])) | options_of(usage)
    t.eq(sorted(shared - options_of(text)), [], 'options missing in rdinit.1')
    for verb in verbs():
        t.match(rf'(?m)^\.(B|SS) "?{verb}\b', text, 'rdinit.1')
        t.match(rf'(?m)^  {verb} ', usage, 'rdinit --help')


@test
def every_json_has_a_schema(t):
    t.eq(set(verbs()),
         {os.path.basename(path)[:-5] for path in glob.glob(f'{SOURCE_ROOT}/docs/schema/*.json')}
         - {'rdtarget'})  # of the configuration


@test
def schemas_of_structures_are_those_of_the_tables(t):
    res = subprocess.run([program('rdinit'), '--generate', 'schema', t.dir], check=False)
    t.eq(res.returncode, 0, 'exit status')
    made = sorted(name for name in os.listdir(t.dir) if name.endswith('.json'))
    t.ok('id-ns.json' in made, f'files {made}')
    for name in made:
        with open(t.path(name), encoding='utf-8') as f:
            t.ok(f.read() == read(f'docs/schema/{name}'),
                 f'docs/schema/{name} is not what `rdinit --generate schema docs/schema` writes; run it')


@test
def every_verb_has_a_manual_page_of_its_own(t):
    """The installed pages are those of the table, with all options of --help."""
    t.eq(re.findall(r"'([a-z-]+)'", re.search(r'foreach verb : \[(.*?)\]', read('docs/man/meson.build'), re.S)[1]),
         verbs(), 'verbs in docs/man/meson.build')
    res = subprocess.run([program('rdinit'), '--generate', 'man', t.dir], check=False)
    t.eq(res.returncode, 0, 'exit status')
    for verb in verbs():
        with open(t.path(f'rdinit-{verb}.1'), encoding='utf-8') as f:
            page = f.read().replace('\\-', '-').replace('\\fB', ' ')
        shown = options_of(help_of([program('rdinit'), verb, '--help']))
        t.eq(sorted(shown - options_of(page)), [], f'options missing in rdinit-{verb}.1')
        warnings_of(t, t.path(f'rdinit-{verb}.1'))


def bash_offers(t, script, function, *words):
    """What bash offers after these words, the first of which is the program."""
    res = subprocess.run(['bash', '-c', f'. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); {function}; '
                          'printf "%s\\n" "${COMPREPLY[@]}"', script, *words],
                         capture_output=True, text=True, check=False)
    t.eq(res.stderr, '', 'bash says')
    return res.stdout.split()


def completed(t, *words):
    script = t.path('completion')
    with open(script, 'w', encoding='utf-8') as f:
        f.write(help_of([program('rdinit'), '--generate', 'bash']))
    return bash_offers(t, script, '_rdinit', 'rdinit', *words)


@test
def bash_completes_verbs_options_and_values(t):
    t.eq(sorted(completed(t, '')), sorted([*verbs(), '--help', '--version']))
    t.eq(completed(t, 'disc'), ['discover'])
    t.eq(sorted(completed(t, 'read', '--no')), ['--no-p2p', '--no-progress', '--no-remote-invalidate'])
    t.eq(completed(t, 'read', '-o', ''), ['normal', 'json'])
    t.eq(completed(t, 'show-topology', '--ranking', ''), ['namespace', 'ctrl'])
    t.eq(completed(t, 'bench', '--rw', 'randr'), ['randread', 'randrw'])
    # bash makes a word of its own of the =, also where nothing follows it.
    t.eq(completed(t, 'bench', '--rw', '=', 'randr'), ['randread', 'randrw'])
    t.eq(completed(t, 'read', '--output-format', '='), ['normal', 'json'])
    t.eq(completed(t, 'read', '--output', '=', 'j'), ['json'], 'an abbreviation')
    # What a letter means depends on the verb, and the value of an option is no option.
    for verb in 'get-property', 'admin-passthru', 'io-passthru':
        t.eq(completed(t, verb, '-o', ''), [], verb)
    t.eq(completed(t, 'read', '--timeout', ''), [], 'a number')
    for verb in verbs():
        usage = help_of([program('rdinit'), verb, '--help'])
        t.eq(set(completed(t, verb, '--')), set(re.findall(r'(?m)^  .{4}(--[a-z][a-z0-9-]*)', usage)), verb)


@test
def zsh_completes_the_same(t):
    text = help_of([program('rdinit'), '--generate', 'zsh'])
    for verb in verbs():
        part = re.search(rf'(?ms)^{verb}\)\n(.*?)^\t;;$', text)[1]
        t.eq(set(re.findall(r"'(--[a-z0-9-]+)", part)), set(completed(t, verb, '--')), verb)
    if shutil.which('zsh'):
        with open(t.path('_rdinit'), 'w', encoding='utf-8') as f:
            f.write(text)
        t.eq(subprocess.run(['zsh', '-n', t.path('_rdinit')], check=False).returncode, 0, 'zsh -n')


@each(('rdctl', 'rdctl'), ('rdtarget', 'rdtarget'))
def completions_know_all_options(t, name):
    options = options_of(help_of([program(name), '--help']))
    script = os.path.join(SOURCE_ROOT, f'docs/completion/{name}.bash')
    t.eq(set(bash_offers(t, script, f'_{name}', program(name), '--')), options, 'bash')
    zsh = f'docs/completion/_{name}'
    t.eq(options_of(read(zsh)), options, 'zsh')
    if shutil.which('zsh'):
        t.eq(subprocess.run(['zsh', '-n', os.path.join(SOURCE_ROOT, zsh)], check=False).returncode, 0, 'zsh -n')


@test
def bash_completes_rdctls_verbs_and_values(t):
    def offers(*words):
        return bash_offers(t, os.path.join(SOURCE_ROOT, 'docs/completion/rdctl.bash'), '_rdctl', program('rdctl'),
                           *words)
    found = offers('')
    t.ok({'status', 'hosts', 'reload', 'drain', 'raw'} <= set(found), f'verbs: {found}')
    t.eq(offers('rel'), ['reload'])
    t.eq(offers('-o', ''), ['text', 'json'])
    t.eq(offers('-o', 'json', 'stat'), ['status', 'stats'])
    t.eq(offers('status', ''), [], 'after a verb')
    t.eq(sorted(offers('host', '')), ['allow', 'auth', 'deny', 'qos'], 'second words')
    t.eq(offers('-o', 'json', 'ns', 're'), ['remove', 'reopen', 'resize'])
    t.eq(offers('ns', 'add', ''), [], 'after both words')


@test
def rdtargets_options_are_in_its_manual_page(t):
    agree('rdtarget', options_of(help_of([program('rdtarget'), '--help'])),
          options_of(man_source('rdtarget.1')))


@test
def rdctls_options_are_in_its_manual_page(t):
    agree('rdctl', options_of(help_of([program('rdctl'), '--help'])), options_of(man_source('rdctl.1')))


@test
def rdconforms_options_are_in_its_manual_page(t):
    agree('rdconform', options_of(help_of([program('rdconform'), '--help'])),
          options_of(man_source('rdconform.1')))


def config_docs(*args, top=SOURCE_ROOT):
    return subprocess.run([sys.executable, os.path.join(top, 'tools/config-docs'), *args, program('rdtarget')],
                          capture_output=True, text=True, check=False)


@test
def documents_have_the_keys_of_the_configuration(t):
    res = config_docs('--check')
    t.eq((res.returncode, res.stderr), (0, ''))


@each(('the manual page', 'docs/man/rdtarget.yaml.5', '[1 to 64; default 2', '[1 to 64; default 3', 'is not what'),
      ('a key less in the manual page', 'docs/man/rdtarget.yaml.5', '.\\" key target.reactors\n', '', 'no line .*reactors'),
      ('the example', 'configs/example.yaml', 'reactors: 2', 'reactors: 3', 'is not what'),
      ('the schema', 'docs/schema/rdtarget.json', '"maximum": 64', '"maximum": 65', 'is not what'))
def a_stale_document_would_be_found(t, path, old, new, says):
    for name in ('tools/config-docs', 'tools/cut_output.py', 'docs/man/rdtarget.yaml.5', 'docs/schema/rdtarget.json', 'configs/example.yaml'):
        text = read(name)
        if name == path:
            t.ok(old in text, f'{path} without {old!r}')
            text = text.replace(old, new, 1)
        os.makedirs(os.path.dirname(t.path(name)), exist_ok=True)
        t.file(name, text.encode())
    res = config_docs('--check', top=t.dir)
    t.eq(res.returncode, 1, 'exit status')
    t.match(says, res.stderr)
    if old.startswith('.'):
        return
    t.eq(config_docs(top=t.dir).returncode, 0, 'it is written again')
    with open(t.path(path), encoding='utf-8') as f:
        t.eq(f.read(), read(path))


def config_errors(text):
    """What the schema says of a configuration, read as YAML 1.2: on and off are words."""
    try:
        import jsonschema
        import yaml
    except ImportError as e:
        raise Skip(f'python3-jsonschema and python3-yaml are needed: {e}') from e

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = {first: [(tag, pattern) for tag, pattern in rules if not tag.endswith(':bool')]
                                   for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()}
    Loader.add_implicit_resolver('tag:yaml.org,2002:bool', re.compile('^(?:true|false)$'), list('tf'))
    schema = json.loads(read('docs/schema/rdtarget.json'))
    jsonschema.Draft202012Validator.check_schema(schema)
    return [e.message for e in jsonschema.Draft202012Validator(schema).iter_errors(yaml.load(text, Loader))]


@each(*((os.path.basename(p), p) for p in sorted(glob.glob(f'{SOURCE_ROOT}/configs/*.yaml'))))
def the_schema_accepts(t, path):
    text = read(os.path.relpath(path, SOURCE_ROOT))
    t.eq(config_errors(text), [])
    if path.endswith('/example.yaml'):
        every = re.sub(r'(?m)^#(?! \S)', '', text)
        t.ok('\ncontrol:\n' in every and '\n    hosts: [' in every, 'keys that were not set')
        t.eq(config_errors(every), [], 'with all keys')


@each(('an unknown key', 'target: {reactor: 2}'), ('a number out of range', 'target: {reactors: 65}'),
      ('a key of another backend', 'subsystems: [{nqn: a, namespaces: [{nsid: 1, backend: memory, size: 1M, path: /a}]}]'),
      ('a missing key', 'subsystems: [{nqn: a, namespaces: [{nsid: 1, backend: file}]}]'),
      ('another word', 'listeners: [{address: 127.0.0.1, provider: tcp}]'))
def the_schema_refuses(t, text):
    t.eq(len(config_errors(text)), 1, 'errors')


@test
def public_functions_are_in_the_library_manual_page(t):
    functions = set()
    for name in ('include/rdinit.h', 'include/rdinit_auth.h', 'include/rdinit_dev.h', 'include/rdinit_tls.h'):
        header = re.sub(r'/\*.*?\*/', '', read(name), flags=re.S)
        found = set(re.findall(r'\b(rdinit_\w+)\s*\(', header))
        t.ok(found, f'no functions in {name}')
        functions |= found
    manual = set(re.findall(r'\brdinit_\w+', man_source('librdinit.3')))
    t.eq(sorted(functions - manual), [], 'functions missing in librdinit.3')


def warnings_of(t, path):
    groff = requires_program('groff')
    if not os.path.isdir('/usr/share/groff') and not shutil.which('man'):
        raise Skip('groff has no macros here')
    res = subprocess.run([groff, '-t', '-man', '-Tutf8', '-ww', '-z', '-rHY=0', path], capture_output=True,
                         text=True, check=False)
    if 'an.tmac' in res.stderr and "can't" in res.stderr.lower():
        raise Skip('the man macros are not installed')
    t.eq(res.stderr, '', 'warnings')
    t.eq(res.returncode, 0, 'exit status')


@test
def nbdkits_parameters_are_in_the_plugins_manual_page(t):
    with open(f'{SOURCE_ROOT}/tools/nbdkit/plugin.c', encoding='utf-8') as f:
        text = f.read()
    accepted = set(re.findall(r'(?:strcmp\(key, |\n\t\{)"([\w-]+)"(?:\)|, &)', text))
    t.ok(accepted, 'no parameters in plugin.c')
    agree('parameters', accepted, set(re.findall(r'"([\w-]+)=<', text)))
    agree('parameters', accepted, set(re.findall(r'(?m)^\.TP\n\.BI ([\w-]+)=', man_source('nbdkit-rdinit-plugin.1').replace('\\-', '-'))))


@each(*((os.path.basename(p), p) for p in sorted(glob.glob(f'{SOURCE_ROOT}/docs/man/*.[0-9]'))))
def manual_page_has_no_warnings(t, path):
    warnings_of(t, path)


def interop(*args, top=SOURCE_ROOT):
    return subprocess.run([sys.executable, os.path.join(top, 'tools', 'interop'), *args],
                          capture_output=True, text=True, check=False)


@test
def docs_interop_is_about_the_tests_that_there_are(t):
    res = interop('--check')
    t.eq(res.returncode, 0, f'exit status\n{res.stderr}')


def interop_tree(t):
    """A tree with one script for two pairs, and meson's log of it."""
    for folder in ('docs', 'tools', 'tests/vm'):
        os.makedirs(t.path(folder))
    for name in ('interop', 'cut_output.py'):
        shutil.copy(os.path.join(SOURCE_ROOT, 'tools', name), t.path('tools'))
    t.file('tests/vm/meson.build', b"rxe_verbs = ['rxe', 'verbs']\nsiw_verbs = ['siw', 'verbs']\n"
           b"vm_tests += {'talk': [rxe_verbs, siw_verbs]}\n")
    t.file('tests/vm/test_talk.sh', b'# Interop: this -> that\nt_case "both work" f\n')
    lines = [json.dumps({'name': f'rdnvme:vm / vm - talk, {device}, verbs', 'result': 'OK',
                         'stdout': '# kernel 6.1.0\nok 1 - both work\nok 2 - in: size: 1\n'
                                   'ok 3 - in: size: 2\nok 4 - x # SKIP no y\n'})
             for device in ('rxe', 'siw')]
    return lines


def write_page(t, lines, rc=0):
    res = interop(t.file('log.json', '\n'.join(lines).encode()), top=t.dir)
    t.eq(res.returncode, rc, f'exit status\n{res.stderr}')
    t.file('docs/interop.md', res.stdout.encode())
    return res


@test
def docs_interop_comes_from_results(t):
    lines = interop_tree(t)
    text = write_page(t, lines).stdout
    for part in ('Kernels: 6.1.0\n', '| this | that | rxe | verbs | talk | 3 |\n', '- both work\n',
                 '- in: size (2)\n'):
        t.ok(part in text, f'no {part!r} in\n{text}')
    t.match('siw, verbs: not in the logs', write_page(t, lines[:1], rc=1).stderr)
    bad = lines[1].replace('ok 1 -', 'not ok 1 -')
    t.match('siw, verbs, kernel 6.1.0: failed: both work', write_page(t, [lines[0], bad], rc=1).stderr)


@test
def docs_interop_has_a_column_for_each_kernel(t):
    lines = interop_tree(t)
    newer = [line.replace('kernel 6.1.0', 'kernel 6.12.3').replace('ok 3 - in: size: 2\\n', '') for line in lines]
    text = write_page(t, newer + lines).stdout
    for part in ('| Test | 6.1.0 | 6.12.3 |\n|---|---|---|---|---|---|---|\n', '| rxe | verbs | talk | 3 | 2 |\n'):
        t.ok(part in text, f'no {part!r} in\n{text}')
    t.eq(interop('--check', top=t.dir).returncode, 0, 'exit status of --check')
    t.match('siw, verbs: not in the logs, for kernel 6.12.3', write_page(t, lines + newer[:1], rc=1).stderr)
    path = t.file('log.json', '\n'.join(lines + newer[:1]).encode())
    t.ok('| siw | verbs | talk | 3 | not run |' in interop('--partial', path, top=t.dir).stdout, 'not run')


@test
def docs_interop_keeps_what_was_not_run_again(t):
    lines = interop_tree(t)
    t.file('tests/vm/meson.build', b"rxe_verbs = ['rxe', 'verbs']\nsiw_verbs = ['siw', 'verbs']\n"
           b"vm_tests += {'talk': [rxe_verbs, siw_verbs], 'walk': [siw_verbs]}\n")
    t.file('tests/vm/test_walk.sh', b'# Interop: these -> those\nt_case "one foot" f\n')
    walk = lines[1].replace('talk', 'walk').replace('both work', 'one foot')
    before = write_page(t, [*lines, walk]).stdout
    more = walk.replace('x # SKIP no y', 'two feet')
    res = interop('--update', t.file('log.json', more.encode()), top=t.dir)
    t.eq(res.stdout, before.replace('| walk | 3 |', '| walk | 4 |') + '- two feet\n', res.stderr)
    t.match('talk: not run with every pair', interop('--update', t.file('log.json', lines[0].encode()), top=t.dir).stderr)
    other = more.replace('kernel 6.1.0', 'kernel 6.12.3')
    t.match('not about the kernels of the logs, 6.12.3', interop('--update', t.file('log.json', other.encode()), top=t.dir).stderr)


@each(('a pair more', 'tests/vm/meson.build', '[rxe_verbs', "[siw_verbs, rxe_verbs, rxe_iwarp", None),
      ('a script less', 'tests/vm/meson.build', 'rxe_verbs, siw', 'siw', 'talk over rxe with verbs is in'),
      ('another case', 'tests/vm/test_talk.sh', 'both work', 'it works', 'the case "it works" is not'),
      ('other peers', 'tests/vm/test_talk.sh', 'this ->', 'these ->', 'does not say that talk is these'),
      ('a script of no peer', 'tests/vm/test_talk.sh', '# Interop', '# Internet', 'test_talk.sh: no line'))
def docs_interop_is_stale_after(t, path, old, new, says):
    write_page(t, interop_tree(t))
    t.eq(interop('--check', top=t.dir).returncode, 0, 'exit status of a fresh page')
    with open(t.path(path), encoding='utf-8') as f:
        text = f.read()
    t.file(path, text.replace(old, new).encode())
    res = interop('--check', top=t.dir)
    t.eq(res.returncode, 1, 'exit status')
    t.match(says or 'rxe_iwarp is no pair', res.stderr)


@each(('quickstart', 'tools/quickstart'), ('operate', 'docs/operate.md'), ('container', 'configs/container/Containerfile'))
def files_exist_that_are_named_to_users(t, path):
    named = set(re.findall(r'(?<![\w/.-])(?:tools|docs|configs)/[\w./-]*\w', read(path)))
    t.ok(named, f'{path} names no file')
    t.eq(sorted(name for name in named if not os.path.exists(os.path.join(SOURCE_ROOT, name))), [],
         f'{path} names files that do not exist')


@test
def packages_have_the_version_that_meson_builds(t):
    version = re.search(r"(?m)^ *version: '([0-9.]+)',$", read('meson.build'))[1]
    t.eq(read('configs/packaging/debian/changelog').split()[1].split('-')[0], f'({version}', 'configs/packaging/debian')


@test
def every_installed_file_is_in_a_package(t):
    """dh_missing reports the same, after minutes of building."""
    build = os.environ['BUILD_ROOT']
    res = subprocess.run([requires_program('meson'), 'introspect', '--installed', '--buildoptions', build],
                         capture_output=True, text=True, check=True)
    found = json.loads(res.stdout)
    prefix = next(option['value'] for option in found['buildoptions'] if option['name'] == 'prefix')
    patterns = [line for path in glob.glob(os.path.join(SOURCE_ROOT, 'configs/packaging/debian/*.install'))
                for line in read(path).replace('${env:UNIT_DIR}', 'usr/lib/systemd/system').split()]
    missing = []
    for path in found['installed'].values():
        path = re.sub('/site-functions/', '/vendor-completions/', path.removeprefix(prefix + '/'))
        path = re.sub(r'^.*/python[\d.]+/(site|dist)-packages(?=/)', 'lib/python3/dist-packages', path)
        inside = [f'usr/{"/".join(path.split("/")[:n])}' for n in range(1, path.count('/') + 2)]
        if not any(fnmatch.fnmatchcase(folder, pattern) for folder in inside for pattern in patterns):
            missing.append(f'{path}: no line of configs/packaging/debian/*.install names it')
    no_errors(missing)


@test
def packages_are_built_with_what_the_build_needs(t):
    """The libraries in tools/lib.sh are those in configs/packaging/debian/control."""
    listed = re.search(r'(?s)packages_build=\(([^)]*)\)', read('tools/lib.sh'))[1].split()
    control = re.search(r'(?ms)^Build-Depends:\n(.*?)\n\n', read('configs/packaging/debian/control'))[1]
    t.eq([package for package in listed if package.endswith('-dev') and package != 'libc6-dev' and
          not re.search(rf'(?m)^ {re.escape(package)}\b', control)], [], 'missing in Build-Depends')


@each(*((name, name) for name in ('quickstart', 'check', 'bench', 'lib.sh', 'fio/build',
                                 'package', 'benchmark/vm_machine.sh',
                                 *(f'../tests/debian/{name}' for name in ('run', 'enter', 'inside', 'package',
                                                                          'package_inside', 'cross', 'boot',
                                                                          'service_inside')),
                                 *(f'../docs/completion/{name}.bash' for name in ('rdctl', 'rdtarget')),
                                 *(f'../configs/packaging/debian/tests/{name}'
                                   for name in ('serve', 'library', 'service')))))
def shellcheck_is_content(t, name):
    res = subprocess.run([requires_program('shellcheck'), '-x', '-P', SOURCE_ROOT,
                          os.path.join(SOURCE_ROOT, 'tools', name)], capture_output=True, text=True,
                         check=False)
    t.eq(res.returncode, 0, f'exit status\n{res.stdout}')


if __name__ == '__main__':
    sys.exit(main())
