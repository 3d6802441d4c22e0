"""The cuts that one ledger knows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from mirrorlake.cuts.evidence import forget_evidence
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import ConfigError, LedgerError
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.database.database import waits_for_server
from mirrorlake.ledger.tables import METADATA

CutVerdict: TypeAlias = Literal["equal", "different", "not compared"]
KeyVerdict: TypeAlias = Literal["holds", "as in MySQL", "orphans", "not compared"]
CUTS = sa.Table(
    "cuts",
    METADATA,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("source", sa.String(64), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("place", sa.Text, nullable=False),
    sa.Column("gtid", sa.Text),
    sa.Column("at", sa.DateTime, nullable=False),
    sa.Column("made_at", sa.DateTime, nullable=False),
    sa.Column("keep_until", sa.DateTime),
)
CUT_TABLES = sa.Table(
    "cut_tables",
    METADATA,
    sa.Column("cut", sa.String(64), primary_key=True),
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("layer", sa.String(16), primary_key=True),
    sa.Column("namespace", sa.String(255), nullable=False),
    sa.Column("lake_table", sa.String(255), nullable=False),
    sa.Column("snapshot_id", sa.BigInteger),
    sa.Column("row_count", sa.BigInteger),
    sa.Column("proved", sa.String(16), nullable=False),
    sa.Column("words", sa.Text, nullable=False),
)
CUT_KEYS = sa.Table(
    "cut_foreign_keys",
    METADATA,
    sa.Column("cut", sa.String(64), primary_key=True),
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("columns", sa.Text, nullable=False),
    sa.Column("parent", sa.String(255), nullable=False),
    sa.Column("parent_columns", sa.Text, nullable=False),
    sa.Column("verdict", sa.String(16), nullable=False),
    sa.Column("orphans", sa.BigInteger),
    sa.Column("in_mysql", sa.BigInteger),
    sa.Column("words", sa.Text, nullable=False),
)
CUT_KEY_LOOKS = sa.Table(
    "cut_key_looks",
    METADATA,
    sa.Column("cut", sa.String(64), primary_key=True),
    sa.Column("hidden", sa.Text, nullable=False),
)
_MAKING, _MADE = "making", "made"


@dataclass(frozen=True)
class CutTable:
    """One lake table at a cut.

    Attributes:
        table: whose it is, as the contract calls it.
        layer: ``deduped``, or ``clean`` where that is a table.
        namespace, lake_table: its name in the lake.
        snapshot_id: what the cut's tag names; None of a table that never had a row, which has none.
        rows: how many it has there; None where its metadata don't say.
        proved: whether it was compared with MySQL at the cut's place, and found equal.
        words: what was found, or why it was not compared.
    """

    table: str
    layer: str
    namespace: str
    lake_table: str
    snapshot_id: int | None
    rows: int | None
    proved: CutVerdict = "not compared"
    words: str = ""

    @property
    def identifier(self) -> Identifier:
        """Its name in the lake."""
        return Identifier(self.namespace, self.lake_table)


@dataclass(frozen=True)
class CutKey:
    """One foreign key of MySQL's, between two tables of a cut.

    Attributes:
        table: whose key it is, as the contract calls it.
        name: the key's, in MySQL.
        columns: of the table, in the order of ``parent_columns``.
        parent: the table that it refers to.
        parent_columns: of that.
        verdict: ``holds`` where no row is an orphan, ``as in MySQL`` where MySQL has as many at the
            cut's place, else ``orphans``; or ``not compared``.
        orphans: rows of the cut that have no parent in it; None where that can't be said.
        in_mysql: how many MySQL has at the cut's place, by its own count; None: not asked.
        words: what was found, or why it was not compared.
    """

    table: str
    name: str
    columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]
    verdict: KeyVerdict = "not compared"
    orphans: int | None = None
    in_mysql: int | None = None
    words: str = ""


@dataclass(frozen=True)
class CutKeys:
    """The foreign keys of a cut.

    Attributes:
        keys: those whose two tables are in it.
        hidden: tables in it whose foreign keys the account can't see, so that nothing is said of
            them.
    """

    keys: tuple[CutKey, ...] = ()
    hidden: tuple[str, ...] = ()

    @property
    def orphans(self) -> int:
        """Rows without a parent, of all keys that could be counted."""
        return sum(one.orphans or 0 for one in self.keys)

    @property
    def with_orphans(self) -> list[CutKey]:
        """Those with orphans that MySQL has not, or was not asked for."""
        return [one for one in self.keys if one.verdict == "orphans"]


@dataclass(frozen=True)
class Cut:
    """A source's tables at one place in its log.

    Attributes:
        name: its versions in the lake have the tag ``cut_`` and that name.
        source: whose log it is of.
        place: in the source's log, as file:offset: what was committed before it is in the cut, and
            nothing else.
        gtid: the transactions before it, as the source writes them; None where it does not say.
        at: up to when (UTC, by the source) all that was committed is in it.
        made_at: when it was made (UTC).
        keep_until: when it is dropped by the next cut of its source; None: by hand.
        tables: what it has of each.
        foreign_keys: what became of the foreign keys between them; None of a cut of an older
            release, which did not look.
    """

    name: str
    source: str
    place: str
    gtid: str | None
    at: datetime
    made_at: datetime
    keep_until: datetime | None
    tables: tuple[CutTable, ...] = field(default=())
    foreign_keys: CutKeys | None = None

    @property
    def tag(self) -> str:
        """The tag of its versions in the lake."""
        return f"cut_{self.name}"

    @property
    def names(self) -> list[str]:
        """The tables that it has, as the contract calls them."""
        return [*self.by_table]

    def tables_called(self, name: str | None) -> list[CutTable]:
        """What it has of a table, by any spelling that means one alone; of all without a name.

        Raises:
            ConfigError: it has none that is called so, or several are.
        """
        if name is None:
            return [*self.tables]
        whole = [name] if name in self.names else []
        found = whole or [one for one in self.names if one.endswith(f".{name}")]
        if len(found) != 1:
            there = "no table is" if not found else f"{len(found)} tables are"
            raise ConfigError(
                f"{there} called {name!r} in cut {self.name}",
                table=name,
                next_step=f"Write one whole name: it has {', '.join(found or self.names)}",
            )
        return self.by_table[found[0]]

    @property
    def by_table(self) -> dict[str, list[CutTable]]:
        """What it has of each table, by what the contract calls it."""
        return _by_table(self.tables)


@waits_for_server
class Cuts:
    """The cuts in one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._database = ledger.database

    def begin(self, cut: Cut) -> None:
        """A cut is about to be made: its tags are dropped if its run dies.

        Raises:
            LedgerError: there is one of this name.
        """
        row = {
            **{"name": cut.name, "source": cut.source, "state": _MAKING, "place": cut.place},
            **{"gtid": cut.gtid, "at": _plain(cut.at), "made_at": _plain(cut.made_at)},
            "keep_until": None if cut.keep_until is None else _plain(cut.keep_until),
        }
        try:
            with self._database.begin() as connection:
                connection.execute(CUTS.insert().values(row))
        except IntegrityError:
            raise _taken(cut.name) from None

    def refuse_taken(self, name: str) -> None:
        """See that no cut that is whole has a name.

        Raises:
            LedgerError: one has.
        """
        if name in self.names():
            raise _taken(name)

    def add(self, cut: str, found: list[CutTable]) -> None:
        """Write down tables of a cut, before they are tagged, and again with what was found."""
        with self._database.begin() as connection:
            for one in found:
                connection.execute(CUT_TABLES.delete().where(_key(cut, one)))
                connection.execute(CUT_TABLES.insert().values(_row(cut, one)))

    def add_keys(self, cut: str, found: CutKeys) -> None:
        """Write down what became of a cut's foreign keys, all of them at once."""
        with self._database.begin() as connection:
            _forget_keys(connection, cut)
            connection.execute(
                CUT_KEY_LOOKS.insert().values(cut=cut, hidden=json.dumps([*found.hidden]))
            )
            for key in found.keys:
                connection.execute(CUT_KEYS.insert().values(_key_row(cut, key)))

    def finish(self, cut: str) -> None:
        """A cut is complete: it is listed from now on."""
        with self._database.begin() as connection:
            connection.execute(CUTS.update().where(CUTS.c.name == cut).values(state=_MADE))

    def forget(self, cut: str) -> None:
        """A cut is no more."""
        with self._database.begin() as connection:
            _forget_keys(connection, cut)
            forget_evidence(connection, cut)
            connection.execute(CUT_TABLES.delete().where(CUT_TABLES.c.cut == cut))
            connection.execute(CUTS.delete().where(CUTS.c.name == cut))

    def leave_out(self, cut: str, table: str) -> None:
        """A table is in a cut no more."""
        mine = sa.and_(CUT_TABLES.c.cut == cut, CUT_TABLES.c.table_name == table)
        with self._database.begin() as connection:
            forget_evidence(connection, cut, table)
            connection.execute(CUT_TABLES.delete().where(mine))

    def tables(self, cut: str) -> dict[str, list[CutTable]]:
        """What was written down of a cut, whether or not it is complete: by table."""
        with self._database.read() as connection:
            found = _tables(connection, CUT_TABLES.c.cut == cut).get(cut, [])
        return _by_table(found)

    def names(self, *, made: bool = True) -> set[str]:
        """The names of all cuts that are whole; else of those whose runs died, or go on."""
        query = sa.select(CUTS.c.name).where(CUTS.c.state == (_MADE if made else _MAKING))
        with self._database.read() as connection:
            return {str(name) for (name,) in connection.execute(query)}

    def newest(self, source: str) -> datetime | None:
        """When the newest cut of a source was made (UTC); None where there is none."""
        mine = sa.and_(CUTS.c.source == source, CUTS.c.state == _MADE)
        query = sa.select(sa.func.max(CUTS.c.made_at)).where(mine)
        with self._database.read() as connection:
            found = connection.scalar(query)
        return found and found.replace(tzinfo=UTC)

    def all(self, source: str | None = None, *, made: bool = True) -> list[Cut]:
        """The cuts, oldest first.

        Args:
            made: those that are whole; else those whose runs died, or go on.
        """
        wanted = CUTS.select().where(CUTS.c.state == (_MADE if made else _MAKING))
        if source is not None:
            wanted = wanted.where(CUTS.c.source == source)
        with self._database.read() as connection:
            found = connection.execute(wanted.order_by(CUTS.c.made_at, CUTS.c.name)).all()
            tables = _tables(connection, sa.true())
            keys = _keys(connection)
        return [
            Cut(
                name=row.name,
                source=row.source,
                place=row.place,
                gtid=row.gtid,
                at=row.at.replace(tzinfo=UTC),
                made_at=row.made_at.replace(tzinfo=UTC),
                keep_until=row.keep_until and row.keep_until.replace(tzinfo=UTC),
                tables=tuple(tables.get(row.name, ())),
                foreign_keys=keys.get(row.name),
            )
            for row in found
        ]


def _by_table(found: Iterable[CutTable]) -> dict[str, list[CutTable]]:
    by_table: dict[str, list[CutTable]] = {}
    for one in found:
        by_table.setdefault(one.table, []).append(one)
    return by_table


def _taken(name: str) -> LedgerError:
    return LedgerError(
        f"there is a cut {name} already",
        next_step=f"Give it another name, or drop that one: mirrorlake cuts --drop {name}",
    )


def _tables(connection: sa.Connection, wanted: sa.ColumnElement[bool]) -> dict[str, list[CutTable]]:
    """By cut, in the order of their names; of one table deduped first."""
    query = CUT_TABLES.select().where(wanted)
    found: dict[str, list[CutTable]] = {}
    for row in connection.execute(
        query.order_by(CUT_TABLES.c.table_name, CUT_TABLES.c.layer.desc())
    ):
        part = (row.namespace, row.lake_table, row.snapshot_id, row.row_count)
        one = CutTable(row.table_name, row.layer, *part, row.proved, row.words)
        found.setdefault(row.cut, []).append(one)
    return found


def _key(cut: str, one: CutTable) -> sa.ColumnElement[bool]:
    mine = sa.and_(CUT_TABLES.c.cut == cut, CUT_TABLES.c.table_name == one.table)
    return sa.and_(mine, CUT_TABLES.c.layer == one.layer)


def _row(cut: str, one: CutTable) -> dict[str, object]:
    found = dict(vars(one))
    found |= {"cut": cut, "table_name": found.pop("table"), "row_count": found.pop("rows")}
    return found


def _keys(connection: sa.Connection) -> dict[str, CutKeys]:
    """By cut, in the order of their tables and names."""
    found: dict[str, list[CutKey]] = {}
    query = CUT_KEYS.select().order_by(CUT_KEYS.c.table_name, CUT_KEYS.c.name)
    for row in connection.execute(query):
        columns, parents = (tuple(json.loads(text)) for text in (row.columns, row.parent_columns))
        key = CutKey(row.table_name, row.name, columns, row.parent, parents)
        said = {n: getattr(row, n) for n in ("verdict", "orphans", "in_mysql", "words")}
        found.setdefault(row.cut, []).append(replace(key, **said))
    return {
        row.cut: CutKeys(tuple(found.get(row.cut, ())), tuple(json.loads(row.hidden)))
        for row in connection.execute(CUT_KEY_LOOKS.select())
    }


def _key_row(cut: str, key: CutKey) -> dict[str, object]:
    found: dict[str, object] = dict(vars(key))
    lists = {"columns": json.dumps(key.columns), "parent_columns": json.dumps(key.parent_columns)}
    return {"cut": cut, "table_name": found.pop("table"), **found, **lists}


def _forget_keys(connection: sa.Connection, cut: str) -> None:
    for table in (CUT_KEYS, CUT_KEY_LOOKS):
        connection.execute(table.delete().where(table.c.cut == cut))


def _plain(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None)
