"""What was found of models before, in files: a model is bound again only where something changed.

One file a model, ``<dataset>.<name>.json``. What is in it holds for one *key*: a hash of the
compiler's own source, of what the model's file says, of the types of its scope's names, and of what
each table that it reads has to offer (columns, types, days, what the contract hides). A model's
columns are part of the keys of those that read it, so a change goes as far down as it changes
anything.

Each file begins with a checksum of the rest. One that is damaged, or was written by another
version, is no entry: the model is bound as if it were new, and the file written again.

What belongs here: entries and their files. What doesn't: how a model is bound
(`mirrorlake.models.project`), and the text of rules (`mirrorlake.models.rule_texts`).
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorlake.errors import MachineError, ModelError
from mirrorlake.models.columns import NamedValue, Origin, Typed
from mirrorlake.models.rule_texts import plain_rules, read_rules
from mirrorlake.models.rules import RuleBook
from mirrorlake.runtime.cache import write_whole

if TYPE_CHECKING:
    from mirrorlake.models.declaration import Declaration

logger = logging.getLogger(__name__)

_WRONG = (ValueError, TypeError, KeyError, IndexError, ArithmeticError, AttributeError)


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


class KeptModels:
    """The entries of a folder; without one there are none, and nothing is written."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._written: dict[str, KeptModel] = {}

    def find(self, declaration: Declaration) -> KeptModel | None:
        """What was found of a model whose file said the same."""
        if self._folder is None:
            return None
        try:
            content = self._path(declaration.name).read_bytes()
        except OSError:
            return None
        found = _read(content)
        if found is None or found.text != text_key(declaration):
            return None
        self._written[declaration.name] = found
        return found

    def keep(self, entries: Mapping[str, KeptModel], names: Iterable[str]) -> None:
        """Write the entries that are new, or that have new rules.

        Args:
            names: the models that there are; what was found of others goes.
        """
        if self._folder is None:
            return
        changed = {
            name: one
            for name, one in entries.items()
            if one.rules.fresh or self._written.get(name) is not one
        }
        try:
            if changed:
                self._folder.mkdir(parents=True, exist_ok=True)
            for name, one in changed.items():
                write_whole(self._path(name), _content(one))
                one.rules.fresh = False
                self._written[name] = one
            self._forget({self._path(name).name for name in names})
        except (MachineError, OSError) as error:
            logger.debug("What was found of models is not kept: %s", error)

    def _path(self, name: str) -> Path:
        assert self._folder is not None  # noqa: S101
        return self._folder / f"{name}.json"

    def _forget(self, names: set[str]) -> None:
        assert self._folder is not None  # noqa: S101
        if self._folder.is_dir():
            for path in self._folder.glob("*.json"):
                if path.name not in names:
                    path.unlink(missing_ok=True)


def text_key(declaration: Declaration) -> str:
    """A hash of what a model's file says, where that matters to what is found of it."""
    scopes = declaration.scopes
    return hash_of(
        declaration.name,
        declaration.sql,
        [[one.name, one.values] for one in scopes.bindings],
        scopes.condition,
        declaration.partition_by,
        declaration.materialized,
        declaration.released,
        declaration.python and declaration.python.source,
    )


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


def known_models(
    kept: KeptModels, declarations: Sequence[Declaration], now: datetime
) -> Mapping[str, KeptModel]:
    """What was found of models, and holds as far as their files say: without a look at the lake,
    whose tables are taken to be as they were.

    Args:
        now: what ``CURRENT_DATE`` is in their scopes (UTC).
    """
    by_name = {one.name: one for one in declarations}
    there = {name: entry for name, one in by_name.items() if (entry := kept.find(one)) is not None}
    above = {name: by_name.keys() & entry.offers.keys() for name, entry in there.items()}
    found: dict[str, KeptModel] = {}
    try:
        order = tuple(TopologicalSorter(above).static_order())
    except CycleError:
        return {}
    for name in order:
        if name in there and above[name] <= found.keys():
            offers = {
                table: offer_of(found[table].fields, by_name[table].partition_by)
                for table in above[name]
            }
            if _holds(by_name[name], there[name], offers, now):
                found[name] = there[name]
    return found


def _holds(
    declared: Declaration, entry: KeptModel, offers: Mapping[str, str], now: datetime
) -> bool:
    """Whether an entry is that of a model, given what those that it reads have for it."""
    try:
        types = declared.scopes.types(declared.scopes.all(now))
    except ModelError:
        return False
    return entry.key == found_key(entry.text, types, {**entry.offers, **offers})


def kept_folder(contract: Path) -> Path:
    """Where what was found of the models beside a contract file is kept."""
    return contract.parent / ".mirrorlake" / "models"


@cache
def compiler() -> str:
    """A hash of the source that finds what is kept."""
    found = hashlib.sha256(f"{sys.version_info[:2]} {version('sqlglot')}".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:32]


def hash_of(*parts: object) -> str:
    """A hash of values that JSON can say."""
    said = json.dumps(parts, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:32]


# --- texts ----------------------------------------------------------------------------------------


def _content(one: KeptModel) -> bytes:
    said = {
        "text": one.text,
        "key": one.key,
        "offers": list(one.offers.items()),
        "sql": one.sql,
        "fields": plain_fields(one.fields),
        "used": one.rules.used,
        "rules": plain_rules(one.rules.rules),
    }
    body = json.dumps(said, separators=(",", ":"))
    return f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}".encode()


def _read(content: bytes) -> KeptModel | None:
    """The entry that a file has; None if it has none that can be trusted."""
    checksum, _, body = content.partition(b"\n")
    if checksum != hashlib.sha256(body).hexdigest().encode():
        return None
    try:
        said: dict[str, Any] = json.loads(body)
        return KeptModel(
            said["text"],
            said["key"],
            dict(said["offers"]),
            said["sql"],
            tuple(_field(one) for one in said["fields"]),
            RuleBook(tuple(said["used"]), read_rules(said["rules"])),
        )
    except _WRONG:
        return None


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


def _field(said: Sequence[Any]) -> NamedValue:
    name, kind, nullable, origins, literal = said
    made_of = frozenset(Origin(table, column) for table, column in origins)
    number = None if literal is None else Decimal(literal)
    return NamedValue(name, Typed(kind, nullable, made_of, number))
