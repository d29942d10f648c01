# SPDX-License-Identifier: BSD-3-Clause
"""embed_page.py PAGE.html OUTPUT.c: write the status page as a C array, and its Content-Security-Policy, which allows
only the script and the style in the page, by their hashes."""

import base64
import hashlib
import re
import sys


def hashes(page, tag):
    found = re.findall(rf'<{tag}>(.*?)</{tag}>', page, re.S)
    if len(found) != page.count(f'<{tag}') or not found:
        sys.exit(f'embed_page.py: expected <{tag}> without attributes, and </{tag}>')
    return ' '.join("'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
                    for text in found)


def main():
    with open(sys.argv[1], encoding='utf-8') as f:
        page = f.read()
    policy = (f"default-src 'none'; script-src {hashes(page, 'script')}; style-src {hashes(page, 'style')}; "
              "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
    data = page.encode()
    rows = [', '.join(f'0x{byte:02x}' for byte in data[at:at + 16]) for at in range(0, len(data), 16)]
    with open(sys.argv[2], 'w', encoding='ascii') as f:
        f.write('/* SPDX-License-Identifier: BSD-3-Clause */\n#include "target/manage/http/status_page.h"\n\n'
                f'const char rdt_status_page_policy[] = "{policy}";\n'
                f'const size_t rdt_status_page_size = {len(data)};\n'
                'const unsigned char rdt_status_page[] = {\n\t' + ',\n\t'.join(rows) + ',\n};\n')


main()
