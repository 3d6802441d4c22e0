"""What Spark says of expressions over constants, as it was written down."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Constant:
    """The type and the text of an expression's value; no type: Spark refuses it, or has a value
    that is not evaluated without it."""

    expression: str
    type: str | None
    text: str | None


def read_constants() -> list[Constant]:
    """All expressions of the file beside this one."""
    lines = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    return [_parsed(line) for line in lines if line and not line.startswith("#")]


def _parsed(line: str) -> Constant:
    expression, _, said = line.rpartition(" => ")
    if said == "?":
        return Constant(expression, None, None)
    kind, _, text = said.partition(" ")
    return Constant(expression, kind, json.loads(text))
