"""Code of a project is run, on the driver: the file as it was compiled.

The text that is run is the one that the fingerprint is of, whatever the file says meanwhile. What
the file defines is pickled by value: workers need not have it.

What belongs here: modules, and what their code raises. What doesn't: what is called
(`mirrorlake.models.spark.python_function`, `mirrorlake.models.spark.session_functions`).

Source: cloudpickle, "Overriding pickle's serialization mechanism for importable constructs".
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, TracebackType

from mirrorlake.errors import MirrorlakeError, ModelError
from mirrorlake.models.files.functions import FUNCTIONS_FILE

_LOADING = threading.Lock()
_LOADED: dict[str, tuple[str, ModuleType]] = {}
"""Module → the text that it was made of, and itself."""
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_KIND = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)", re.MULTILINE)
_OF_CODE = (ImportError, NameError, AttributeError)
"""What these say is about code, never about a row."""


def load_code(name: str, path: Path, source: str) -> ModuleType:
    """The module that a text is; run at the first call, and again when it changed.

    Raises:
        ModelError: it can't be run, with the line that failed.
    """
    from pyspark import cloudpickle

    with _LOADING:
        text, module = _LOADED.get(name, ("", None))
        if module is None or text != source:
            module = ModuleType(name)
            module.__file__ = str(path)
            # Dataclasses and pandera look a class's module up by its name.
            sys.modules[name] = module
            with code_errors(path):
                exec(compile(source, module.__file__, "exec"), module.__dict__)  # noqa: S102 - what a model is
            cloudpickle.register_pickle_by_value(module)
            _LOADED[name] = source, module
        return module


@contextmanager
def code_errors(path: Path) -> Iterator[None]:
    """Say of what a file's code raises, here or on a worker, where and of what kind it is. What it
    says is left out: it may hold values of rows.

    Raises:
        ModelError: the code failed.
    """
    try:
        yield
    except MirrorlakeError:
        raise
    except Exception as error:
        found = _failed_on_worker(error, str(path)) or _failed_here(error, path)
        if found is None:
            raise
        line, function, kind = found
        # A model is known by its name; of lines outside functions Python has none.
        is_function = path.name == FUNCTIONS_FILE and not function.startswith("<")
        named = function if is_function else path.stem
        raise ModelError(
            f"{path}:{line}:1: {named} failed: {kind}",
            place=(line, 1),
            next_step="Nothing of this partition is visible. What was said may hold values of rows,"
            " and is left out: call the function by hand to see it",
        ) from None


def _failed_on_worker(error: Exception, path: str) -> tuple[int, str, str] | None:
    """Which line failed, of which function, and how: Spark's message has the worker's traceback as
    a text."""
    text = str(error)
    frames = [one for one in _FRAME.finditer(text) if one[1] == path]
    if not frames:
        return None
    kind = _KIND.search(text, frames[-1].end())
    last = frames[-1]
    return int(last[2]), last[3], kind[1] if kind else type(error).__name__


def _failed_here(error: Exception, path: Path) -> tuple[int, str, str] | None:
    from pyspark.errors import AnalysisException

    found = _frame_in(error.__traceback__, str(path))
    if found is None:
        return None
    said = str(error).strip().splitlines()
    told = isinstance(error, (*_OF_CODE, AnalysisException)) and said
    return *found, f"{type(error).__name__}: {said[0][:300]}" if told else type(error).__name__


def _frame_in(trace: TracebackType | None, path: str) -> tuple[int, str] | None:
    """The innermost line of a file that a traceback has, and the function that it is in."""
    found = None
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == path:
            found = trace.tb_lineno, code.co_name
        trace = trace.tb_next
    return found
