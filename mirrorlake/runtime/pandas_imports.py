"""Arrow without pandas, in commands that have no use for it.

As it is imported, PyArrow makes a scalar, and asks whether that is one of pandas'. Thus it imports
all of pandas, a tenth of what a short command takes. Where pandas is not there, PyArrow does
without, and looks for it again as soon as something has to become a DataFrame.

What belongs here: processes of ours alone, such as the command line's. What doesn't: a library that
others import; there pandas' values must stay what they are to PyArrow.
"""

from __future__ import annotations

import inspect
import sys
from contextlib import suppress
from importlib import import_module
from importlib.abc import MetaPathFinder


def hide_pandas() -> None:
    """Have PyArrow, which is not imported yet, take pandas for absent until `use_pandas`. Others
    find it."""
    if "pandas" not in sys.modules and "pyarrow" not in sys.modules:
        sys.meta_path.insert(0, _Hidden())


def use_pandas() -> None:
    """Have PyArrow know pandas from now on, where it is installed: Spark hands it Series."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Hidden)]
    with suppress(ImportError):
        import_module("pyarrow").table({}).to_pandas()


class _Hidden(MetaPathFinder):
    """Finds nothing, and tells PyArrow's modules, while they are imported, that nobody else finds
    pandas."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas" and _importer().partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError(f"No module named '{fullname}'", name=fullname)


def _importer() -> str:
    """The module that imports: its frame is below those of Python's own import."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__") in _IMPORT:
        frame = frame.f_back
    return "" if frame is None else str(frame.f_globals.get("__name__"))


_IMPORT = (__name__, "importlib", "importlib._bootstrap", "importlib._bootstrap_external")
