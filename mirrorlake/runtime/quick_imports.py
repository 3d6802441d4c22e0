"""Imports of many modules, without searching what they make for garbage.

What a module makes stays. Python's collector doesn't know that, and looks at all of it again and
again while more is imported: a sixth of what importing a sync takes.

What belongs here: processes of ours alone, such as the command line's. What doesn't: a library that
others import; when their garbage is collected is theirs to say.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Collect nothing while the block imports; what is there at its end is never looked at."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
