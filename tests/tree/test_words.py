# SPDX-License-Identifier: BSD-3-Clause
"""Documents, comments and messages: words with a standard term that is better; the size of pages and of paragraphs, links."""

import math
import os
import re
import sys

from t_loop import SOURCE_ROOT, main, test
from t_tree import no_errors, read, sources

# (folders, endings) of the documents.
SCOPES = [
    (('docs', 'common', 'target', 'initiator', 'tests', 'tools', 'configs'), ('.md',)),
    (('docs/man',), ('.1', '.3', '.5', '.7')),
    (('configs', 'docs/completion'), ('.yaml', '.yml', '.service', '.rules', '.bash', '.example')),
]
TOP_LEVEL = ('README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md')

# (what is not written, what is written instead). A pattern is narrow where the word has another, ordinary meaning.
WORDS = [(re.compile(pattern), better) for pattern, better in (
    (r'\b[Tt]he mistakes of\b', 'errors in'),
    (r'\bon the standard (?:error|output)\b', 'to standard error'),
    (r'\bha(?:s|ve) the storage\b', 'holds the storage'),
    (r'\bfrom them, with its\b', 'remove a host and its keys'),
    (r'\bthere is no such (?:verb|method)\b', 'unknown verb "statuss"; did you mean "status"?'),
    (r'\brdctl: usage:', '"status" takes no arguments'),
    (r'\b1 [a-z]+s (?:added|removed|changed)\b', '1 subsystem added'),
    (r'\bnone waits\b', '0 waiting'),
    (r'\bAs of \d', 'Updated 16:08:09'),
    (r'\bchanges what can be changed\b', 'use rdctl to make changes'),
    (r'\bfor good\b', 'permanently'),
    (r'\bHow do hosts leave\b', 'How do I move hosts away'),
    (r'\b(?:do|does|did) not go on\b', 'is making no progress'),
    (r'\bone (?:path|host|row|key|word|line|thread) less\b', 'one path fewer'),
    (r'\bwhich --check=full\b', 'test it with --check=full'),
    (r'\b[Ww]ho we are\b', 'host NQN'),
    (r'\bcontroller IDs to give\b', 'range of controller IDs'),
    (r'\bmay hosts reserve\b', 'whether hosts may reserve'),
    (r'\bSeries of a host\b', "a host's series vanish when it disconnects"),
    (r'\bA long time is useful\b', 'large values keep a CPU busy'),
    (r'\b, with its keys\b', 'a host and its keys'),
    (r'\b(?:go|goes|went) on\b(?! to\b)', 'continue'),
    (r'\b(?:stands?|stood) still\b', 'hangs, is blocked'),
    (r'\bimages? of Ceph\b', 'Ceph RBD image'),
    (r'\bexports? of (?:an )?NBD\b', 'NBD export'),
    (r'\b[Cc]ells?\b', 'counters'),
    (r'\b[Ss]ites?\b', 'source address'),
    (r'\b[Ff]resh(?:ly)?\b', 'unassociated (a connection), new'),
    (r'\b[Ii]n doubt\b', 'unproven'),
    (r'\b[Mm]ates?\b', 'fused partner'),
    (r'\b(?:[Tt]he other|Write|Compare|first|second) half of (?:a|the) (?:pair|fused)\b|\bWrite half\b', 'fused partner'),
    (r'\b[Mm]arks\b', 'uncorrectable blocks'),
    (r'\b[Bb]eats?\b', 'heartbeat'),
    (r'\b[Ss]eams?\b', 'interface'),
    (r'\b[Aa]dopt(?:s|ed|ing|ion)?\b', 'accept'),
    (r"\b(?:a|the|each|its|one|two|this|same|next|last|longest|many|few|loop's|reactor's|loop) turns?\b(?! (?:on|off|to|it|them)\b)",
     'loop iteration'),
)]

# Folders whose comments and strings are looked at, and what is not written there: only what has no ordinary meaning in code.
CODE = ('common', 'tools')
# In these folders the words of documents are not written either. UNREAD: still to be read.
PLAIN = ('include', 'initiator', 'target/bdev', 'target/cmd', 'target/config', 'target/manage', 'target/nvmf', 'target/reactor',
         'target/resv', 'target/transport')
UNREAD = re.compile(r'target/(?:nvmf/(?:hold|move)\w*|manage/upgrade/\w+|bdev/(?:rbd_\w+|backend_nbd|inherit))\.[ch]')
CODE_WORDS = [(re.compile(pattern), better) for pattern, better in (
    (r'\bfor good\b', 'permanently'),
    (r'\b[Tt]here is no such (?:verb|method)\b', 'unknown verb "statuss"; did you mean "status"?'),
    (r'\bis none of\b', 'found "x", expected a, b or c'),
    (r'\bexcludes? each other\b', 'are mutually exclusive'),
    (r'\bprove[sd]? itself\b', 'authenticate itself'),
    (r'\bha(?:s|ve) the storage\b', 'holds the storage'),
    (r'\bgives? no random\b', 'provides no random numbers'),
    (r'\b(?:do|does|did) not go on\b', 'is making no progress'),
    (r'\b[Ww]ho we are\b', 'host NQN'),
    (r'\bimages? of Ceph\b', 'Ceph RBD image'),
    (r'\bexports? of (?:an )?NBD\b', 'NBD export'),
    (r'\b[Ss]eams?\b', 'interface'),
    (r'\b(?:first|second|other) half of (?:a|the) (?:pair|fused)\b', 'partner of a fused command'),
)]
COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', re.S)

# Pages with a limit of their own; every page of docs/design has the first one.
PAGE_MAX = 150
PAGES = {'docs/architecture.md': 150, 'docs/performance.md': 120, 'README.md': 150, 'docs/glossary.md': 40}
PARAGRAPH_MAX = 6
# A longer line counts as several.
LINE_MAX = 160


def documents():
    yield from TOP_LEVEL
    for folders, ext in SCOPES:
        yield from sources(*folders, ext=ext)


def prose(path, text):
    """@text without what is quoted from elsewhere: names in backticks and commands, of the same number of lines."""
    if path.endswith('.md'):
        text = re.sub(r'(?ms)^( *)```.*?^ *```', lambda m: '\n' * m[0].count('\n'), text)
        text = re.sub(r'`[^`\n]+`', '``', text)
    return text


def poor_words(path, text):
    # A phrase may be broken between two lines.
    text = re.sub(r'\n(?=\S)', ' \n', prose(path, text))
    for pattern, better in WORDS:
        for found in re.finditer(pattern.pattern.replace(' ', r'\s+'), text):
            yield f'{path}:{text.count(chr(10), 0, found.start()) + 1}: "{" ".join(found[0].split())}": better "{better}"'


@test
def documents_use_standard_terms(t):
    paths = list(documents())
    t.ok(len(paths) > 60, f'only {len(paths)} documents were found')
    no_errors(error for path in paths for error in poor_words(path, read(path)))


def poor_comments(path, text, patterns=CODE_WORDS):
    for part in COMMENT_OR_STRING.finditer(text):
        # Lines of a comment begin with " * ", and a string goes on in the next line after two quotes.
        words = ' '.join(re.sub(r'\n\s*\* ?|"\s*\n\s*"', ' ', part[0]).split())
        for pattern, better in patterns:
            for found in pattern.finditer(words):
                yield f'{path}:{text.count(chr(10), 0, part.start()) + 1}: "{found[0]}": better "{better}"'


@test
def comments_and_messages_use_standard_terms(t):
    paths = list(sources(*CODE))
    plain = ['target/main.c', *(path for path in sources(*PLAIN) if not UNREAD.fullmatch(path))]
    t.ok(len(paths) > 180 and len(plain) > 380, f'only {len(paths)} and {len(plain)} files were found')
    no_errors(error for path in paths + plain for error in poor_comments(path, read(path)))
    no_errors(error for path in plain for error in poor_comments(path, read(path), WORDS))


@test
def a_poor_comment_would_be_found(t):
    for text in ('/* It fails for\n * good. */', 'x("it fails for "\n  "good");', '// the seam', '"a \\" is none of b"'):
        t.eq(len(list(poor_comments('a.c', text))), 1, text)
    for text in ('int seam;', '/* seamless */', 'for (good = 0;;)'):
        t.eq(list(poor_comments('a.c', text)), [], text)
    t.eq(list(poor_comments('a.c', 'int a;\n/* the seam */')), ['a.c:2: "seam": better "interface"'])


@test
def a_poor_word_would_be_found(t):
    for text in ('x\nfor\ngood.', 'a cell', 'Images or images of\nCeph', 'in each turn of', 'the path turns, one turn',
                 'one path less', '1 subsystems added'):
        t.eq(len(list(poor_words('a.md', text))), 1, text)
    for text in ('for goods', 'cellar', 'take it in turn', 'a turn on', '`a cell`', '```\na cell\n```\n', 'rdt_cell', 'the turn to'):
        t.eq(list(poor_words('a.md', text)), [], text)
    t.eq(list(poor_words('a.md', '```\nx\n```\na cell\n')), ['a.md:4: "cell": better "counters"'])
    t.eq(len(list(poor_words('a.1', '.B cell'))), 1)


def paragraphs(text):
    """(first line, lines) of each paragraph and each list item of a page in Markdown."""
    first, lines = 0, 0
    for number, line in enumerate(prose('a.md', text).split('\n') + [''], 1):
        item = re.match(r'\s*(?:[-*]|\d+\.) ', line)
        if not line.strip() or item or line.startswith(('|', '#', '<')):
            if lines:
                yield first, lines
            first, lines = number, 1 if item else 0
        elif not lines:
            first, lines = number, 1
        else:
            lines += 1
        lines += max(0, math.ceil(len(line) / LINE_MAX) - 1) if lines else 0


def badly_made(path, text):
    limit = PAGES.get(path, PAGE_MAX if path.startswith('docs/design/') else None)
    if limit and text.count('\n') > limit:
        yield f'{path} has {text.count(chr(10))} lines, more than {limit}: move details to a page of their own'
    if path.startswith('docs/design/'):
        for part in ('Why', 'Boundary'):
            if not re.search(rf'(?m)^(?:## {part}$|\*\*{part}\.\*\*)', text):
                yield f'{path} has no heading "## {part}"'
    for first, lines in paragraphs(text):
        if lines > PARAGRAPH_MAX:
            yield f'{path}:{first}: a paragraph of {lines} lines of at most {LINE_MAX} characters, more than {PARAGRAPH_MAX}: divide it'


@test
def pages_and_paragraphs_are_short(t):
    paths = [path for path in documents() if path.endswith('.md')]
    t.ok(any(path.startswith('docs/design/') for path in paths), f'no design pages among {paths}')
    no_errors(error for path in paths for error in badly_made(path, read(path)))


@test
def a_long_page_or_paragraph_would_be_found(t):
    head = '## Why\n## Boundary\n'
    t.eq(list(badly_made('docs/design/a.md', head + '\n' * (PAGE_MAX - 2))), [])
    t.eq(len(list(badly_made('docs/design/a.md', head + '\n' * (PAGE_MAX - 1)))), 1)
    t.eq(len(list(badly_made('docs/design/a.md', '## Whys\n'))), 2)
    t.eq(list(paragraphs('# a\nb\nc\n\n- d\n  e\n- f\n\n| g |\n| h |\n```\ni\n```\n')), [(2, 2), (5, 2), (7, 1)])
    t.eq(list(paragraphs('x' * LINE_MAX + '\n' + 'x' * (LINE_MAX + 1))), [(1, 3)])
    t.eq(list(badly_made('a.md', 'x\n' * PARAGRAPH_MAX)), [])
    t.eq(len(list(badly_made('a.md', 'x\n' * (PARAGRAPH_MAX + 1)))), 1)


def anchor(heading):
    """As GitHub names a heading."""
    heading = re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', heading.strip().lower())
    return re.sub(r'[^\w\- ]', '', heading).replace(' ', '-')


def broken_links(path, text):
    for link in re.findall(r'\]\(([^)\s]+)\)', re.sub(r'(?ms)^ *```.*?^ *```$', '', text)):
        if re.match(r'https?:', link):
            continue
        name, _, heading = link.partition('#')
        to = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        if not os.path.exists(os.path.join(SOURCE_ROOT, to)):
            yield f'{path}: {link}: there is no {to}'
        elif heading and to.endswith('.md') and heading not in map(anchor, re.findall(r'(?m)^#+ (.*)$', read(to))):
            yield f'{path}: {link}: {to} has no such heading'


@test
def links_of_documents_lead_somewhere(t):
    no_errors(error for path in documents() if path.endswith('.md') for error in broken_links(path, read(path)))


@test
def a_broken_link_would_be_found(t):
    t.eq(list(broken_links('docs/hosts.md', '[a](interop.md) [b](#linux) [c](https://x) [d](../README.md#when-to-use-what)')), [])
    t.eq(len(list(broken_links('docs/hosts.md', '[a](inter.md) [b](#linus) [d](../README.md#when)'))), 3)


if __name__ == '__main__':
    sys.exit(main())
