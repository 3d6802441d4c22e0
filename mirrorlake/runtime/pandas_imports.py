"""Arrow without pandas, in commands that have no use for it.

As it is imported, PyArrow makes a scalar, and asks whether that is one of pandas'. Thus it imports
all of pandas, a tenth of what a short sync takes. Where pandas is not there, PyArrow does without,
and looks for it again as soon as something has to become a DataFrame.

What belongs here: processes of ours alone, such as the command line's. What doesn't: a library that
others import; there pandas' values must stay what they are to PyArrow.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from importlib.abc import MetaPathFinder


def import_arrow_alone() -> None:
    """Import PyArrow, which takes pandas for absent until `use_pandas`."""
    if "pandas" in sys.modules or "pyarrow" in sys.modules:
        return
    absent = _Absent()
    sys.meta_path.insert(0, absent)
    try:
        import_module("pyarrow.dataset")
    finally:
        sys.meta_path.remove(absent)


def use_pandas() -> None:
    """Have PyArrow know pandas from now on, where it is installed: Spark hands it Series."""
    with suppress(ImportError):
        import_module("pyarrow").table({}).to_pandas()


class _Absent(MetaPathFinder):
    """Finds nothing, and says of pandas that nobody else does."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(f"No module named '{fullname}'", name=fullname)
