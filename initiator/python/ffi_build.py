# SPDX-License-Identifier: BSD-3-Clause
"""Write the C source of the extension module _rdinit.

Usage: ffi_build.py HEADER... OUTPUT

The declarations are those of the public headers themselves, so that a function or a member that a header gains is
in the module as well, and the C compiler checks the rest."""
import os
import re
import sys

import cffi

CALLBACKS = '''
extern "Python" {
    void rdi_python_complete(void *user, const struct rdinit_completion *c);
    void rdi_python_event(void *user, const struct rdinit_dev_event *event);
    void rdi_python_aer(void *user, uint32_t event);
}
'''


def declarations(header: str) -> str:
    """What cffi can read of a header: without comments, inline functions, and what only C++ or a compiler needs.
    Macros become constants: the compiler fills in the values that are not plain numbers, and checks those that are."""
    text = re.sub(r'/\*.*?\*/', '', header, flags=re.S)
    text = re.sub(r'^#ifdef __cplusplus\n.*?^#endif\n', '', text, flags=re.S | re.M)
    text = re.sub(r'^static inline [^;{]*\n?\{.*?^\}\n', '', text, flags=re.S | re.M)
    texts = re.findall(r'^#define (RDINIT_\w+) "', text, flags=re.M)
    numbers = re.findall(r'^#define (RDINIT_\w+) ([^"\n]+)', text, flags=re.M)
    text = re.sub(r'^#.*\n', '', text, flags=re.M)
    return '\n'.join([f'static const char *const {name};' for name in texts] +
                     [f'#define {name} {value if value.isdecimal() else "..."}' for name, value in numbers] + [text])


def main(*paths: str) -> None:
    *headers, output = paths
    ffi = cffi.FFI()
    ffi.cdef('struct iovec { void *iov_base; size_t iov_len; };')
    for path in headers:
        with open(path, encoding='utf-8') as file:
            ffi.cdef(declarations(file.read()))
    ffi.cdef(CALLBACKS)
    names = [os.path.basename(path) for path in headers]
    ffi.set_source('_rdinit', '#include <sys/uio.h>\n' + ''.join(f'#include "{name}"\n' for name in names))
    ffi.emit_c_code(output)


if __name__ == '__main__':
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
