"""What was found of one model, and the key under which it holds.

What belongs here: entries and keys. What doesn't: their files (`mirrorlake.models.cache.files`).
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from mirrorlake.models.cache.scope_rules import RuleBook
from mirrorlake.models.spark_sql.columns import NamedValue, Typed


@dataclass(frozen=True)
class KeptModel:
    """What was found of one model.

    Attributes:
        text: a hash of what its file says.
        key: a hash of all that the rest was found from.
        offers: the tables that its query names, in lower case, in that order; each with a hash of
            what it had for the query.
        sql: the query without comments and layout.
        fields: the columns of its table.
    """

    text: str
    key: str
    offers: Mapping[str, str]
    sql: str
    fields: tuple[NamedValue, ...]
    rules: RuleBook

    @property
    def reads(self) -> tuple[str, ...]:
        """The tables that its query names, in lower case, in that order."""
        return tuple(self.offers)


def found_key(text: str, types: Mapping[str, Typed], offers: Mapping[str, str]) -> str:
    """The key of what is found of a model.

    Args:
        types: of the names of its scope.
        offers: a hash of what each table that it reads has for it.
    """
    kinds = {name: [one.type, one.nullable] for name, one in types.items()}
    return hash_of(compiler(), text, kinds, offers)


def offer_of(fields: Sequence[NamedValue], partition_by: Sequence[str]) -> str:
    """A hash of what a model has for its readers."""
    return hash_of(plain_fields(fields), partition_by)


@cache
def compiler() -> str:
    """A hash of the source that finds what is kept."""
    found = hashlib.sha256(f"{sys.version_info[:2]} {version('sqlglot')}".encode())
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:32]


def hash_of(*parts: object) -> str:
    """A hash of values that JSON can say."""
    said = json.dumps(parts, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def plain_fields(fields: Iterable[NamedValue]) -> Sequence[Sequence[object]]:
    """Columns as JSON can say them."""
    return [
        (
            one.name,
            one.value.type,
            one.value.nullable,
            sorted([origin.table, origin.column] for origin in one.value.origins),
            None if one.value.literal is None else str(one.value.literal),
        )
        for one in fields
    ]
