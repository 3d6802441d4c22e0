"""What the rows of a load mean: the part of the contract, and of the table's key, that decides it.

A load means what its contract meant then. Rows that were read by another key, cursor or mode can't
be folded together with rows that are read now: what one of them calls gone, equal or current is
not what the other does. Each load's receipt therefore keeps its meaning, and where the meaning has
changed, the next load reads the whole table, and, where old rows must not be mixed with new ones,
begins a new history: no fold reaches behind its first load.

What belongs here: the meaning and its comparison, all of it pure.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from mirrorlake.config.contract import TableContract
from mirrorlake.config.modes import COPYING
from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import SchemaError
from mirrorlake.ledger.records import Receipt
from mirrorlake.schema.lattice import is_promoted
from mirrorlake.sources.mysql.types.registry import LABELS, TIMES
from mirrorlake.table.key_forms import other_forms

if TYPE_CHECKING:
    from mirrorlake.sources.mysql.tables import SourceTable

Effect = Literal["none", "read", "begin"]
"""What a change requires: nothing; the whole table to be read again; and a new history too."""

_SEVERAL = ("key", "key_types", "key_forms", "collations")
_Said = str | tuple[str, ...] | None


@dataclass(frozen=True)
class Meaning:
    """What decides how the rows of a load are to be taken; names as the server spells them.

    Attributes:
        mode: the contract's.
        raw: the namespace of its raw tables.
        key: its columns, sorted.
        collations: of the texts among them, where keys are told apart as the server does (mode
            incremental).
        cursor: None in mode full.
        by_time: whether the cursor is a time; None in mode full.
        created: the column of a row's day beside a cursor that is a key.
        start: the first day from which on the newest load of the whole table read (ISO); None:
            everything.
        time_zone: in which the cursor is written, where it has none of its own (DATETIME, DATE).
        key_types: the lake's types of its key's columns; empty where they are not known.
        key_forms: how their values are told apart (`mirrorlake.table.key_forms`); empty where that
            is not known, and of a full copy.
    """

    mode: str
    raw: str
    key: tuple[str, ...] = ()
    collations: tuple[str, ...] = ()
    cursor: str | None = None
    by_time: bool | None = None
    created: str | None = None
    start: str | None = None
    time_zone: str | None = None
    key_types: tuple[str, ...] = ()
    key_forms: tuple[str, ...] = ()

    @property
    def copies(self) -> bool:
        """Whether these rows are a full copy."""
        return self.mode in COPYING

    def to_fields(self) -> dict[str, Any]:
        """What `from_fields` takes; what is None or empty is left out."""
        given = {name: value for name, value in asdict(self).items() if value not in (None, ())}
        return {name: list(v) if name in _SEVERAL else v for name, v in given.items()}

    @staticmethod
    def from_fields(recorded: dict[str, Any]) -> Meaning:
        """What `to_fields` gave; what a newer release added is left out."""
        known = {field.name for field in fields(Meaning)}
        kept: dict[str, Any] = {
            name: tuple(value) if name in _SEVERAL else value
            for name, value in recorded.items()
            if name in known
        }
        return Meaning(**kept)


@dataclass(frozen=True)
class Change:
    """One thing that is another one now, in words, and what that requires."""

    words: str
    effect: Effect


def meaning_of(contract: TableContract, source: SourceConfig, table: SourceTable) -> Meaning:
    """What loads by this contract of this table mean.

    Raises:
        SchemaError: the table lacks a column that the contract names.
    """
    key = sorted(table.column(name).name for name in contract.key)
    incremental = contract.rereads
    columns = [table.column(name) for name in key] if incremental else []
    # Two labels of one ENUM or SET are never equal to the server.
    texts = [c for c in columns if c.collation and c.data_type not in LABELS]
    cursor = table.column(contract.cursor) if contract.cursor else None
    by_time = cursor is not None and cursor.data_type in TIMES
    without_zone = cursor is not None and cursor.data_type in ("datetime", "date")
    start = contract.start if by_time else None
    return Meaning(
        mode=contract.mode,
        raw=contract.namespaces.raw,
        key=tuple(key),
        collations=tuple(f"{c.name} {c.collation}" for c in texts),
        cursor=cursor.name if cursor else None,
        by_time=by_time if cursor else None,
        created=table.column(contract.created).name if contract.created else None,
        start=start.isoformat() if start else None,
        time_zone=source.time_zone if without_zone else None,
    )


def changes_between(before: Meaning, now: Meaning) -> tuple[Change, ...]:
    """Everything of a later meaning that is another one, and what it requires.

    >>> read = Meaning("append", "raw", key=("id",), cursor="at", by_time=True)
    >>> changes_between(read, replace(read, mode="incremental"))
    (Change(words='mode was append, is incremental', effect='read'),)
    >>> changes_between(read, replace(read, key=("code",)))
    (Change(words='key was (id), is (code)', effect='begin'),)
    """
    found: list[Change] = []

    def compare(name: str, old: _Said, new: _Said, effect: Effect) -> None:
        if old != new:
            found.append(Change(f"{name} was {_shown(old)}, is {_shown(new)}", effect))

    # A copy says what is gone by leaving it out; other modes' rows would come back beside it.
    copies = before.copies or now.copies
    compare("the raw namespace", before.raw, now.raw, "begin")
    compare("mode", before.mode, now.mode, "begin" if copies else "read")
    compare("key", before.key, now.key, "begin")
    if before.key == now.key and _are_others(before.key_types, now.key_types):
        compare("the key's type in the lake", before.key_types, now.key_types, "begin")
    forms = other_forms(before.key_forms, now.key_forms) if before.key == now.key else []
    for old, new in forms:
        compare("the form of a key's values", old, new, "begin")
    # Rows without a key are replaced day by day, and another cursor puts them on other days. Nor
    # can a range of keys continue as a range of times.
    goes_on = bool(now.key) and before.by_time == now.by_time
    compare("cursor", before.cursor, now.cursor, "read" if goes_on else "begin")
    compare("created", before.created, now.created, "none")
    if before.mode == now.mode and before.key == now.key:
        compare("the key's collation", before.collations, now.collations, "begin")
    elif before.collations != now.collations:
        # Rows of another mode don't say which texts the server takes for one key.
        found.append(Change("keys are told apart in another way", "begin"))
    if before.by_time and now.by_time and before.start != now.start:
        compare("start", before.start, now.start, _effect_of_start(before.start, now.start))
    if before.cursor == now.cursor:
        compare("the zone of its cursor's times", before.time_zone, now.time_zone, "read")
    return tuple(found)


def _are_others(before: tuple[str, ...], now: tuple[str, ...]) -> bool:
    """Whether keys of these types are not those that were loaded; a wider type has them all."""
    if len(before) != len(now):
        return False  # they are not known
    pairs = zip(before, now, strict=True)
    return not all(old == new or is_promoted(old, new) for old, new in pairs)


def strongest(changes: tuple[Change, ...]) -> Effect:
    """What several changes require together."""
    effects = {change.effect for change in changes}
    return "begin" if "begin" in effects else "read" if "read" in effects else "none"


def words_of(changes: tuple[Change, ...]) -> str:
    """Those changes that require something, in words."""
    return "; ".join(change.words for change in changes if change.effect != "none")


def carried(before: Meaning | None, now: Meaning, *, whole: bool) -> Meaning:
    """The meaning that a load is recorded with: how far back rows were read is what the newest load
    of the whole table read, wherever the contract begins now."""
    return now if whole or before is None else replace(now, start=before.start)


def recorded_meaning(receipt: Receipt | None) -> Meaning | None:
    """What a load's rows mean by its receipt; None where that says nothing."""
    recorded = receipt.meaning if receipt else None
    return Meaning.from_fields(recorded) if recorded else None


def refuse_changed(receipt: Receipt | None, name: str, now: Meaning) -> None:
    """See that what was loaded can be taken as the contract says now.

    Args:
        receipt: of the table's newest successful load.
        name: the table's.
        now: what a load would mean now; without the forms of its key, these are not compared.

    Raises:
        SchemaError: it can't: the next load begins a new history.
    """
    before = recorded_meaning(receipt)
    if before is None:
        return
    changes = changes_between(before, now)
    if strongest(changes) == "begin":
        raise SchemaError(
            f"table {name}: since it was loaded, {words_of(changes)}",
            table=name,
            next_step="Sync it first: the whole table is read again, and a new history begins",
            retryable=True,
        )


def edits_of(receipt: Receipt | None, contract: TableContract) -> str:
    """What of a contract requires the whole table since the newest load, in words, as far as the
    contract alone shows; '' if nothing. A start that moved back is left out: the days before are
    known to be unread.

    Args:
        receipt: of the table's newest successful load.
    """
    return words_of(edits_between(receipt, contract))


def edits_between(receipt: Receipt | None, contract: TableContract) -> tuple[Change, ...]:
    """What `edits_of` says, with what it requires.

    Args:
        receipt: of the table's newest successful load.
    """
    before = recorded_meaning(receipt)
    if before is None:
        return ()
    spelled = {name.lower(): name for name in (*before.key, before.cursor or "")}
    named = [spelled.get(name.lower(), name) for name in contract.key]
    cursor = contract.cursor and spelled.get(contract.cursor.lower(), contract.cursor)
    now = replace(
        before,
        mode=contract.mode,
        raw=contract.namespaces.raw,
        key=tuple(sorted(named)),
        cursor=cursor,
    )
    return changes_between(before, now)


def _effect_of_start(before: str | None, now: str | None) -> Effect:
    if before is None:
        return "none"
    return "read" if now is None or date.fromisoformat(now) < date.fromisoformat(before) else "none"


def _shown(value: _Said) -> str:
    if value is None or value == ():
        return "none"
    return f"({', '.join(value)})" if isinstance(value, tuple) else str(value)
