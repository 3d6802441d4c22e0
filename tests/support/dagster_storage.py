"""Dagster's database scripts, read once for all instances of a process.

An instance in SQLite has a database for each run, and for each of these alembic imports the forty to
ninety files of the history of its tables: half of the CPU time of a test that makes an instance.
"""

from __future__ import annotations

import functools
from typing import Any

from alembic.config import Config
from alembic.script import ScriptDirectory


def read_scripts_once() -> None:
    """For the rest of this process's life; the files are a library's, and stay as they are."""
    first = ScriptDirectory.from_config
    kept: dict[str | None, ScriptDirectory] = {}

    @functools.wraps(first)
    def from_config(config: Config) -> Any:
        at = config.get_main_option("script_location")
        if at not in kept:
            kept[at] = first(config)
        return kept[at]

    ScriptDirectory.from_config = from_config  # type: ignore[method-assign]
