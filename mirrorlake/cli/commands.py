"""The commands by name, each imported when somebody asks for it: a sync needs one of fifty."""

from __future__ import annotations

from collections import UserDict
from typing import Any

import click

from mirrorlake.capabilities import resolve
from mirrorlake.runtime.quick_imports import importing


class Commands(UserDict[str, Any]):
    """Name → command; one that is not imported yet is given as ``module:attribute``."""

    def __getitem__(self, name: str) -> click.Command:
        if isinstance(self.data[name], str):
            with importing():
                self.data[name] = resolve(self.data[name])
        return self.data[name]
