"""What Spark says of expressions, as it was written down, and the columns that they are over."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

COLUMNS = {
    "i": "int",
    "l": "bigint",
    "f": "double",
    "dec": "decimal(12,2)",
    "s": "string",
    "b": "boolean",
    "d": "date",
    "t": "timestamp",
    "bin": "binary",
    "arr": "array<int>",
    "m": "map<string,int>",
    "st": "struct<x:int>",
}


@dataclass(frozen=True)
class Said:
    """Type and nullability of an expression: over columns that are never NULL, and that may be."""

    expression: str
    type: str
    null_of_never: bool
    null_of_nullable: bool


def read_said() -> list[Said]:
    """All expressions of the file beside this one."""
    lines = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    return [_parsed(line) for line in lines if line and not line.startswith("#")]


def _parsed(line: str) -> Said:
    expression, kind = line[:41].rstrip(), line[41:66].strip()
    never, nullable = line[66:].split()
    return Said(expression, kind, never == "null", nullable == "null")
