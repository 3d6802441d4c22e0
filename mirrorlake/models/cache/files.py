"""What was found of models before, in files: a model is bound again only where something changed.

One file a model, ``<dataset>.<name>.json``. What is in it holds for one *key*: a hash of the
compiler's own source, of what the model's file says, of the types of its scope's names, and of what
each table that it reads has to offer (columns, types, days, what the contract hides). A model's
columns are part of the keys of those that read it, so a change goes as far down as it changes
anything.

Each file begins with a checksum of the rest. One that is damaged, or was written by another
version, is no entry: the model is bound as if it were new, and the file written again.

What belongs here: files. What doesn't: keys (`mirrorlake.models.cache.model`), how a model is bound
(`mirrorlake.models.compile.project`), and the text of rules
(`mirrorlake.models.cache.scope_rules_json`).
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from mirrorlake.errors import MachineError
from mirrorlake.models.cache.model import KeptModel, plain_fields
from mirrorlake.models.cache.scope_rules import RuleBook
from mirrorlake.models.cache.scope_rules_json import plain_rules, read_rules
from mirrorlake.models.spark_sql.columns import NamedValue, Origin, Typed
from mirrorlake.runtime.cache import write_whole

logger = logging.getLogger(__name__)

_WRONG = (ValueError, TypeError, KeyError, IndexError, ArithmeticError, AttributeError)


class KeptModels:
    """The entries of a folder; without one there are none, and nothing is written."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._written: dict[str, KeptModel] = {}

    def find(self, name: str, text: str) -> KeptModel | None:
        """What was found of a model whose file said the same.

        Args:
            text: a hash of what it says now.
        """
        if self._folder is None:
            return None
        try:
            content = self._path(name).read_bytes()
        except OSError:
            return None
        found = _read(content)
        if found is None or found.text != text:
            return None
        self._written[name] = found
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


def kept_folder(contract: Path) -> Path:
    """Where what was found of the models beside a contract file is kept."""
    return contract.parent / ".mirrorlake" / "models"


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


def _field(said: Sequence[Any]) -> NamedValue:
    name, kind, nullable, origins, literal = said
    made_of = frozenset(Origin(table, column) for table, column in origins)
    number = None if literal is None else Decimal(literal)
    return NamedValue(name, Typed(kind, nullable, made_of, number))
