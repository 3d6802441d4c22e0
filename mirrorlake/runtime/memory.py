"""Memory that a process holds beyond what it uses, given back.

Source: malloc_trim(3), "Notes": freed memory that lies between pieces in use is given back too.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import pyarrow as pa


def give_back() -> None:
    """Give freed memory back to the machine.

    Each read has threads of its own, and the C library keeps what they freed for threads like
    them: after some chunks a process would hold several times what one needs. Arrow's pool keeps
    some too. Where the C library is another one, it keeps what it likes.
    """
    pa.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
