# SPDX-License-Identifier: BSD-3-Clause
# The extension module that ffi_build.py makes: librdinit's functions as cffi has them.
from typing import Any

ffi: Any
lib: Any
