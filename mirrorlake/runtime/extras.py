"""Libraries that not every installation has: the extras of the package.

``pip install mirrorlake`` brings what a first mirror needs; Spark, Dagster, Google's clients and
others are extras (``pyproject.toml``). What needs one imports it here, and where it is not there
raises one error that names the extra and the command that brings it.
"""

from __future__ import annotations

import importlib
import importlib.util
import shlex
import sys
from pathlib import Path
from typing import Any

from mirrorlake.errors import MachineError, MirrorlakeError


def library(
    name: str, extra: str, what: str = "this", error: type[MirrorlakeError] = MachineError
) -> Any:
    """A module of an extra, imported.

    Args:
        what: what needs it, as the error's first words.
        error: which kind of error says that it is not there.

    Raises:
        MirrorlakeError: of that kind: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as missing:
        raise lacking(what, name, extra, error) from missing


def require(name: str, extra: str, what: str, error: type[MirrorlakeError] = MachineError) -> None:
    """See that a top-level module of an extra is installed; it is not imported.

    Args:
        what: what needs it, as the error's first words.
        error: which kind of error says that it is not there.

    Raises:
        MirrorlakeError: of that kind: it is not installed.
    """
    if not is_there(name):
        raise lacking(what, name, extra, error)


def lacking(
    what: str, name: str, extra: str, error: type[MirrorlakeError] = MachineError
) -> MirrorlakeError:
    """The error that a library of an extra is not installed: what needs it, and how it comes."""
    return error(
        f"{what} needs {name} (extra mirrorlake[{extra}]), which is not installed",
        next_step=f"Install it: {install_command(extra)}",
    )


def is_there(name: str) -> bool:
    """Whether a top-level module is installed; it is not imported."""
    return importlib.util.find_spec(name) is not None


def is_clone() -> bool:
    """Whether this runs in a clone's environment, which has every extra, by its lock file."""
    return (Path(sys.prefix) / "mirrorlake.home").exists()


def install_command(extra: str) -> str:
    """The command that adds an extra to the environment that runs this, and keeps its others."""
    wanted = shlex.quote(f"mirrorlake[{extra}]")
    if is_clone():
        return "make clean setup"
    if (Path(sys.prefix) / "pipx_metadata.json").exists():
        return f"pipx runpip mirrorlake install {wanted}"
    if not is_there("pip"):  # environments of uv
        return f"uv pip install --python {shlex.quote(sys.executable)} {wanted}"
    return f"{shlex.quote(sys.executable)} -m pip install {wanted}"
