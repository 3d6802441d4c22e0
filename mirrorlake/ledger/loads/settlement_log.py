"""What was settled, in the order in which the ledger learnt it, and each table's first raw day.

A load's own number (``seq``) says when it was begun: loads end in any order, and some end long
after later ones. So every success of a load, and every fold of one, is also written here, under a
number of its own, in the transaction that settles it. What reports them elsewhere remembers how
far it got (`mirrorlake.operations.days.partitions`). Databases give out numbers before they commit:
a number may appear after a higher one.

What belongs here: the rows and queries over them. Days are raw days.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date

import sqlalchemy as sa

from mirrorlake.ledger.database.database import Database
from mirrorlake.ledger.database.settled_rows import (
    DAY_LENGTH,
    day_of_file,
    lower_first_day,
    read_first_days,
)
from mirrorlake.ledger.loads.load_rows import is_folded, read_history_start, read_load, read_loads
from mirrorlake.ledger.records import MOVING, Load
from mirrorlake.ledger.tables import (
    FIRST_DAYS,
    LEASES,
    LOADS,
    META,
    RAW_FILES,
    SETTLED,
    WINDOWS,
)

_AT_ONCE = 500
_JOINED = LOADS.join(WINDOWS, LOADS.c.load_id == WINDOWS.c.load_id)


@dataclass(frozen=True)
class Settlement:
    """One load that succeeded, or that a layer now holds.

    Attributes:
        number: its place in the order in which the ledger learnt of it.
        what: ``load``, or the layer that folded it: ``deduped`` or ``clean``.
        seq: the load's number.
        run_id: of the run that made the load or the fold; '' where it is not known.
    """

    number: int
    table: str
    what: str
    seq: int
    run_id: str


@dataclass(frozen=True)
class Settlements:
    """What one look found, all in one state of the ledger.

    Attributes:
        ledger: which ledger this is; another one, or one that was made again, starts over.
        newest: the highest number that there is.
        highest: the highest number that was looked at.
        found: by number.
    """

    ledger: str
    newest: int
    highest: int
    found: tuple[Settlement, ...]


class Settled:
    """A part of `Ledger`."""

    _database: Database

    def settled_since(
        self, after: int, others: Collection[int] = (), most: int = 20_000
    ) -> Settlements:
        """What has a higher number than ``after``, the first ``most`` of it, and what has one of
        the ``others``."""
        with self._database.read() as connection:
            name = connection.scalar(sa.select(META.c.value).where(META.c.name == "identity"))
            query = SETTLED.select().order_by(SETTLED.c.number).limit(most)
            rows = list(connection.execute(query.where(SETTLED.c.number > after)))
            newest = connection.scalar(sa.select(sa.func.max(SETTLED.c.number))) or 0
            highest = int(rows[-1].number) if len(rows) == most else newest
            for some in _parts(sorted(others)):
                wanted = SETTLED.select().where(SETTLED.c.number.in_(some))
                rows += connection.execute(wanted)
        found = (Settlement(r.number, r.table_name, r.what, r.seq, r.run_id or "") for r in rows)
        return Settlements(
            name or "", newest, highest, tuple(sorted(found, key=lambda s: s.number))
        )

    def identity(self) -> str:
        """Which ledger this is, for who remembers numbers or requests of it."""
        with self._database.read() as connection:
            query = sa.select(META.c.value).where(META.c.name == "identity")
            return connection.scalar(query) or ""

    def renew_identity(self) -> None:
        """From now on this counts as another ledger: what was remembered of its numbers is
        forgotten."""
        with self._database.begin() as connection:
            here = META.update().where(META.c.name == "identity")
            connection.execute(here.values(value=uuid.uuid4().hex))

    def loaded_tables(self, tables: Collection[str]) -> set[str]:
        """Those of these tables that have a successful load."""
        there = sa.exists().where(
            LOADS.c.table_name == LEASES.c.table_name, LOADS.c.state == "success"
        )
        with self._database.read() as connection:
            found = set(connection.scalars(sa.select(LEASES.c.table_name).where(there)))
        return found.intersection(tables)

    def loads_of(self, table: str, seqs: Collection[int]) -> dict[int, Load]:
        """The successful ones of these loads of a table, by number."""
        found: dict[int, Load] = {}
        with self._database.read() as connection:
            for some in _parts(sorted(seqs)):
                where = (LOADS.c.table_name == table, LOADS.c.seq.in_(some))
                loads = read_loads(connection, *where, LOADS.c.state == "success")
                found |= {load.seq: load for load in loads}
        return found

    def days_written(self, table: str, seqs: Collection[int]) -> dict[int, set[date]]:
        """By load: the days of the files that it wrote and that are in raw still; a load of which
        no file is recorded is absent."""
        found: dict[int, set[date]] = {}
        day = sa.func.substr(RAW_FILES.c.name, 1, DAY_LENGTH)
        with self._database.read() as connection:
            for some in _parts(sorted(seqs)):
                query = (
                    sa.select(RAW_FILES.c.seq, day)
                    .where(RAW_FILES.c.table_name == table, RAW_FILES.c.seq.in_(some))
                    .distinct()
                )
                for seq, name in connection.execute(query):
                    if (at := day_of_file(name)) is not None:
                        found.setdefault(seq, set()).add(at)
        return found

    def newest_copies(self, table: str) -> dict[date, Load]:
        """The newest successful full copy that was begun on each day, of all histories; and what a
        rebuilt ledger knows no more of than its day."""
        kinds = WINDOWS.c.kind.in_(("full", "unknown"))
        newest = (
            sa.select(sa.func.max(LOADS.c.seq))
            .select_from(_JOINED)
            .where(LOADS.c.table_name == table, LOADS.c.state == "success", kinds)
            .group_by(WINDOWS.c.day)
        )
        with self._database.read() as connection:
            loads = read_loads(connection, LOADS.c.seq.in_(newest))
        return {load.window.day: load for load in loads}

    def moving_before(self, table: str, seq: int) -> Load | None:
        """The newest successful load before this one that brought the mirror forward."""
        newest = (
            sa.select(LOADS.c.seq)
            .select_from(_JOINED)
            .where(
                LOADS.c.table_name == table,
                LOADS.c.state == "success",
                LOADS.c.seq < seq,
                WINDOWS.c.kind.in_(MOVING),
            )
            .order_by(LOADS.c.seq.desc())
            .limit(1)
        )
        with self._database.read() as connection:
            found = connection.scalar(newest)
            return read_load(connection, found) if found else None

    def newest_success(self, table: str) -> int:
        """The number of a table's newest successful load; 0 if there is none."""
        query = sa.select(sa.func.max(LOADS.c.seq))
        mine = query.where(LOADS.c.table_name == table, LOADS.c.state == "success")
        with self._database.read() as connection:
            return connection.scalar(mine) or 0

    def unfolded_of(self, table: str, layer: str) -> tuple[bool, list[Load]]:
        """Whether a layer holds any load of a table's current history, and those that it does not
        hold, in their order."""
        held = is_folded(layer)
        with self._database.read() as connection:
            where = (
                LOADS.c.table_name == table,
                LOADS.c.state == "success",
                LOADS.c.seq >= read_history_start(connection, table),
            )
            some = connection.scalar(sa.select(LOADS.c.seq).where(*where, held).limit(1))
            return some is not None, read_loads(connection, *where, ~held)

    # --- each table's first day -----------------------------------------------------------------

    def first_days(self) -> dict[str, date]:
        """The first raw day that each table is known to have."""
        with self._database.read() as connection:
            return read_first_days(connection)

    def first_day(self, table: str) -> date | None:
        """The first raw day that a table is known to have."""
        query = sa.select(FIRST_DAYS.c.day).where(FIRST_DAYS.c.table_name == table)
        with self._database.read() as connection:
            return connection.scalar(query)

    def lower_first_day(self, table: str, day: date) -> None:
        """A table has this raw day; it counts where none before it is known."""
        with self._database.begin() as connection:
            lower_first_day(connection, table, day)


def _parts(numbers: Sequence[int]) -> list[Sequence[int]]:
    return [numbers[n : n + _AT_ONCE] for n in range(0, len(numbers), _AT_ONCE)]
