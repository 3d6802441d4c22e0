"""Foreign keys at a cut: rows whose parent is not in it are counted.

MySQL checks a key when a row is written, and no longer where a session said ``foreign_key_checks =
0``. At one moment of a database there is no orphan but those; between two moments there may be.

Values are compared as the lake has them. Where MySQL calls equal what differs there (a text under a
collation), a parent that is found is one, and a row without says nothing: then MySQL's own count
decides, if both tables were proved equal at the cut.

What belongs here: which keys there are, which can be compared, and what a count means. What
doesn't: the count (`mirrorlake.cuts.orphans`).

Source: MySQL 8.0 manual, 13.1.20.5 "FOREIGN KEY Constraints" (which columns may refer to which;
``MATCH SIMPLE``; InnoDB compares the numbers of ENUM).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config import TableContract
from mirrorlake.cuts.ledger import CutKey, CutKeys, CutTable
from mirrorlake.cuts.orphans import KeyVersion, OriginalKept, count_orphans
from mirrorlake.errors import MirrorlakeError
from mirrorlake.proof.forms.canonical import form_of
from mirrorlake.runtime.plural import plural
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.sources.mysql.introspection.foreign_keys import read_references
from mirrorlake.sources.mysql.introspection.introspect import read_contracted
from mirrorlake.sources.mysql.reading.limits import reading
from mirrorlake.sources.mysql.sessions.connect import rows_of, session
from mirrorlake.sources.mysql.tables import Column, SourceTable, quote
from mirrorlake.sources.mysql.types.collations import is_collated
from mirrorlake.sources.mysql.types.registry import BYTES, INTEGERS, TEXTS
from mirrorlake.workspace import Workspace

_BY_VALUE = (*INTEGERS, "year", "bit", "decimal", "date", "datetime", "timestamp")
"""Types whose values are equal to MySQL exactly where the lake's are, if both have one of its."""


@dataclass(frozen=True)
class KeySide:
    """One table of a foreign key, with the key's columns as the source describes them."""

    contract: TableContract
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class ForeignKeySides:
    """A foreign key between two tables that follow the log; ``why``: it can't be compared."""

    key: CutKey
    child: KeySide
    parent: KeySide
    why: str = ""


@dataclass(frozen=True)
class SeenKeys:
    """The foreign keys of a source's tables as they are now; ``hidden``: the tables whose keys this
    account can't see."""

    found: tuple[ForeignKeySides, ...] = ()
    hidden: tuple[str, ...] = ()

    def now(self, key: CutKey) -> ForeignKeySides | None:
        """The key of the same table and name."""
        same = (key.table, key.name)
        return next((o for o in self.found if (o.key.table, o.key.name) == same), None)


def read_keys(workspace: Workspace, contracts: Sequence[TableContract]) -> SeenKeys:
    """The foreign keys between these tables, all of one source.

    Raises:
        SourceError: the source can't be read.
    """
    found, hidden = list[ForeignKeySides](), list[str]()
    with session(workspace.config.sources[contracts[0].source]) as connection:
        tables = _Tables(workspace, connection)
        for contract in contracts:
            references = read_references(connection, contract.database, contract.table)
            if references is None:
                hidden.append(contract.name)
            for one in references or ():
                parent = _named(contracts, one.parent_database, one.parent_table)
                if parent is None:
                    continue
                columns = (contract.name, one.name, one.columns)
                key = CutKey(*columns, parent.name, one.parent_columns)
                found.append(tables.sides(key, contract, parent))
    return SeenKeys(tuple(found), tuple(hidden))


def _named(contracts: Sequence[TableContract], database: str, table: str) -> TableContract | None:
    """The contract of a table that the server names: some servers print names in small letters."""
    same = [c for c in contracts if (c.database, c.table) == (database, table)]
    small = (database.lower(), table.lower())
    alike = [c for c in contracts if (c.database.lower(), c.table.lower()) == small]
    return next(iter(same or (alike if len(alike) == 1 else ())), None)


class _Tables:
    """The tables of keys, each read once."""

    def __init__(self, workspace: Workspace, connection: Connection[Any]) -> None:
        self._workspace, self._connection = workspace, connection
        self._read: dict[str, SourceTable] = {}

    def sides(self, key: CutKey, child: TableContract, parent: TableContract) -> ForeignKeySides:
        """A key's two sides, and why they can't be compared."""
        try:
            ours = KeySide(child, self._columns(child, key.columns))
            theirs = KeySide(parent, self._columns(parent, key.parent_columns))
        except MirrorlakeError as error:
            none = (KeySide(child, ()), KeySide(parent, ()))
            return ForeignKeySides(key, *none, error.message)
        return ForeignKeySides(key, ours, theirs, _why_not(ours, theirs))

    def _columns(self, contract: TableContract, names: Sequence[str]) -> tuple[Column, ...]:
        if contract.name not in self._read:
            found = read_contracted(self._workspace.config, contract, self._connection)
            self._read[contract.name] = found
        columns = {c.in_mysql.lower(): c for c in self._read[contract.name].columns}
        return tuple(columns[name.lower()] for name in names)


# --- what can be compared -------------------------------------------------------------------------


def _why_not(child: KeySide, parent: KeySide) -> str:
    """Why the lake's values don't tell a parent; '' where they do."""
    for side in (child, parent):
        hidden = {name.lower() for name in side.contract.excluded}
        for column in side.columns:
            if column.name.lower() in hidden:
                return f"{side.contract.name} is mirrored without {column.name}"
        if side.contract.entity is not None:
            return f"{side.contract.name} has one row for several of MySQL's (entity)"
    if parent.contract.deletes == "ignore":
        return f"{parent.contract.name} keeps rows that MySQL has no more (deletes: ignore)"
    pairs = zip(child.columns, parent.columns, strict=True)
    return next(filter(None, (why_incomparable(*pair) for pair in pairs)), "")


def why_incomparable(child: Column, parent: Column) -> str:
    """Why equal values of two columns in the lake need not be equal to MySQL, or the other way
    round; '' where a value that is found is the same."""
    differ = f"{child.name} is {child.column_type}, and {parent.name} {parent.column_type}"
    try:
        kept = [form_of(column, originals=False).iceberg for column in (child, parent)]
    except MirrorlakeError as error:
        return error.message
    if kept[0] != kept[1]:
        return differ
    # Of more than 38 digits the lake has the text, with all digits after the point.
    families = (TEXTS, BYTES) if kept[0] == "string" else (_BY_VALUE, BYTES)
    for family in families:
        if child.data_type in family and parent.data_type in family:
            return ""
    return "" if child.column_type == parent.column_type else differ


def why_undecided(child: Column, parent: Column) -> str:
    """Why a value that is not found may have a parent nevertheless; '' where it has none."""
    if is_collated(child) or is_collated(parent):
        return f"{child.name} is compared under {child.collation or parent.collation}"
    if child.charset != parent.charset:
        return f"{child.name} is {child.charset}, and {parent.name} {parent.charset}"
    if child.data_type in ("float", "double"):
        return f"{child.name} is {child.column_type}"
    if child.data_type in BYTES and child.column_type != parent.column_type:
        return f"{child.name} is {child.column_type}, and {parent.name} {parent.column_type}"
    return ""


def _why_undecided(sides: ForeignKeySides) -> str:
    pairs = zip(sides.child.columns, sides.parent.columns, strict=True)
    return next(filter(None, (why_undecided(*pair) for pair in pairs)), "")


# --- counting -------------------------------------------------------------------------------------


def check_keys(
    workspace: Workspace,
    seen: SeenKeys,
    tables: Sequence[CutTable],
    connection: Connection[Any] | None,
) -> CutKeys:
    """Count what has no parent in a cut, for each key whose two tables are in it.

    Args:
        seen: the keys before the cut's place was taken: what they did not hold for yet is nobody's
            fault.
        connection: a session that sees MySQL as it was at the cut's place, where there is one.
    """
    there = {one.table: one for one in tables if one.layer == "deduped"}
    checking = _Checking(workspace, there, connection)
    found = [
        checking.check(one)
        for one in seen.found
        if one.key.table in there and one.key.parent in there
    ]
    if any(one.verdict == "orphans" for one in found):
        found = _same_still(workspace, seen, found)
    return CutKeys(tuple(found), tuple(name for name in seen.hidden if name in there))


def _same_still(workspace: Workspace, seen: SeenKeys, found: Sequence[CutKey]) -> list[CutKey]:
    """The same, but for keys that were changed meanwhile: they need not hold at the cut's place."""
    sides = [side for one in seen.found for side in (one.child, one.parent)]
    try:
        again = read_keys(workspace, list({s.contract.name: s.contract for s in sides}.values()))
    except MirrorlakeError:
        return list(found)  # the cut is made: what was counted is said
    changed = "it was changed while the cut was made"
    return [
        replace(one, verdict="not compared", orphans=None, words=changed)
        if one.verdict == "orphans" and again.now(one) != seen.now(one)
        else one
        for one in found
    ]


@dataclass(frozen=True)
class _Checking:
    workspace: Workspace
    tables: dict[str, CutTable]
    connection: Connection[Any] | None

    def check(self, sides: ForeignKeySides) -> CutKey:
        key = sides.key
        if sides.why:
            return replace(key, words=sides.why)
        try:
            child, parent = self._version(sides.child), self._version(sides.parent)
            missed = count_orphans(self.workspace.lake, child, parent)
            doubt = _why_undecided(sides)
            if doubt:
                number = plural(missed, "row has", "rows have")
                doubt = f"{number} no parent by its bytes, and {doubt}"
        except OriginalKept:
            missed, doubt = 1, "a value of it has no place in the lake's type, and is kept as text"
        except _NotInVersion as error:
            return replace(key, words=str(error))
        except MirrorlakeError as error:
            return replace(key, words=error.message)
        if not missed:
            return replace(key, verdict="holds", orphans=0)
        if sides.child.contract.deletes == "ignore":
            keeps = f"{key.table} keeps rows that MySQL has no more (deletes: ignore)"
            return replace(key, words=f"{keeps}: {missed:,} have no parent")
        mysql, failed = self._in_mysql(sides)
        if doubt:
            words = "; ".join(filter(None, (doubt, failed)))
            return self._by_mysql(replace(key, in_mysql=mysql, words=words))
        return orphans_of(replace(key, orphans=missed, in_mysql=mysql, words=failed))

    def _by_mysql(self, key: CutKey) -> CutKey:
        """What MySQL's count says where the lake's can't: of tables that are equal to MySQL's."""
        equal = all(self.tables[name].proved == "equal" for name in (key.table, key.parent))
        if key.in_mysql is None or not equal:
            return key
        words = f"by MySQL's own count, to which both tables are equal: {key.words}"
        if not key.in_mysql:
            return replace(key, verdict="holds", orphans=0, words=words)
        return replace(key, verdict="as in MySQL", orphans=key.in_mysql, words=words)

    def _version(self, side: KeySide) -> KeyVersion:
        """The key's columns in the cut's version of a table.

        Raises:
            _NotInVersion: it lacks one, or has another type.
            LakeError: the catalog failed.
        """
        one, contract = self.tables[side.contract.name], side.contract
        identifier = one.identifier
        names = tuple(column.name for column in side.columns)
        table = self.workspace.lake.load(identifier)
        if table is None or one.snapshot_id is None:
            return KeyVersion(identifier, None, names, originals=False, flags=False)
        schema = table.scan(snapshot_id=one.snapshot_id).projection()
        fields = {f.name: str(f.field_type).replace(" ", "") for f in schema.fields}
        for column in side.columns:
            wanted = form_of(column, originals=False).iceberg
            if fields.get(column.name) != wanted:
                has = fields.get(column.name, "no such column")
                raise _NotInVersion(f"{contract.name} has {has} for {column.name}, not {wanted}")
        flags = contract.deletes == "flag"
        return KeyVersion(identifier, one.snapshot_id, names, ORIGINAL in fields, flags)

    def _in_mysql(self, sides: ForeignKeySides) -> tuple[int | None, str]:
        """How many orphans MySQL has at the cut's place; None and why where that is not known."""
        if self.connection is None:
            return None, ""
        try:
            with reading(self.workspace.config.sources[sides.child.contract.source]):
                return int(rows_of(self.connection, orphans_sql(sides))[0][0]), ""
        except MirrorlakeError as error:
            return None, f"MySQL's own count failed: {error.message}"


class _NotInVersion(Exception):
    """A version of a table has not the columns that its key has."""


def orphans_of(key: CutKey) -> CutKey:
    """A key of which orphans were counted: whether MySQL has as many."""
    number = plural(key.orphans or 0, "row has", "rows have") + " no parent"
    if key.in_mysql is None:
        words = "; ".join(filter(None, (number, key.words or "MySQL was not asked for its own")))
        return replace(key, verdict="orphans", words=words)
    if key.in_mysql == key.orphans:
        words = f"{number}, as in MySQL (written with foreign_key_checks = 0)"
        return replace(key, verdict="as in MySQL", words=words)
    return replace(key, verdict="orphans", words=f"{number}; in MySQL {key.in_mysql:,}")


def orphans_sql(sides: ForeignKeySides) -> str:
    """MySQL's own count of rows without a parent: it compares as the key does."""
    child, parent = (
        f"{quote(side.contract.database)}.{quote(side.contract.table)}"
        for side in (sides.child, sides.parent)
    )
    filled = " AND ".join(f"c.{column.sql} IS NOT NULL" for column in sides.child.columns)
    pairs = zip(sides.child.columns, sides.parent.columns, strict=True)
    same = " AND ".join(f"p.{theirs.sql} = c.{ours.sql}" for ours, theirs in pairs)
    return (
        f"SELECT COUNT(*) FROM {child} c WHERE {filled}"  # noqa: S608
        f" AND NOT EXISTS (SELECT 1 FROM {parent} p WHERE {same})"
    )
