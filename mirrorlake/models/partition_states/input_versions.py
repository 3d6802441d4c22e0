"""The versions of mirrored tables that models read, and whether the days that they read moved.

A partition records the snapshot that it was computed from. It is as it would be now if no commit
since changed a row of the days that it reads: commits are looked at once, and what they changed is
kept in the ledger. Where history does not lead from that snapshot to the one of now, or what lay
between has expired before anybody looked, everything has moved.

Versions are main's, or those of a cut. Days that moved are kept apart for the two: a day may have
moved last behind a cut, and what is kept is only when it moved last.

What belongs here: versions of mirrored tables. What doesn't: which of them a model reads
(`mirrorlake.models.partition_states.cut_reads`), what a commit changed
(`mirrorlake.destinations.iceberg.metadata.changed_days`), states of partitions
(`mirrorlake.models.partition_states.states`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Protocol, Self

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.metadata.changed_days import changed_days
from mirrorlake.destinations.iceberg.model import LakeSnapshot, LakeTable, history
from mirrorlake.destinations.iceberg.tables.views import read_view
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.lake.moved_days import MovedDays
from mirrorlake.serving.catalogue import Catalogue

Periods = Sequence[tuple[date | None, date | None]]


class ReadDays(Protocol):
    """Days of a mirrored table that are read: `mirrorlake.models.compile.dependencies.MirrorInput`,
    which
    is not needed for looking at them."""

    @property
    def table(self) -> str: ...
    @property
    def column(self) -> str | None: ...
    @property
    def days(self) -> Periods: ...
    @property
    def bounded(self) -> bool: ...


@dataclass(frozen=True)
class TableVersion:
    """What a query reads of a mirrored table.

    Attributes:
        table: the identity of the lake table that holds the rows; empty of one that is not there.
        snapshot: its head; 0 of an empty table.
        sequence: the number of that commit.
        view: a digest of the view that shows the rows; empty where none is between.
    """

    table: str
    snapshot: int
    sequence: int
    view: str = ""

    def __str__(self) -> str:
        return "/".join(map(str, (self.table, self.snapshot, self.sequence, self.view)))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """A version from its text; None if it is none."""
        parts = text.split("/")
        if len(parts) != 4 or not (parts[1].isdigit() and parts[2].isdigit()):
            return None
        return cls(parts[0], int(parts[1]), int(parts[2]), parts[3])


NOWHERE = TableVersion("", 0, 0)
_OF_CUTS = "@cuts"
"""What the name of a table ends with under which the ledger has its days as cuts move on."""


@dataclass(frozen=True)
class PinnedTable:
    """A mirrored table at another version than main's.

    Attributes:
        rows: the lake table that holds them.
        version: what a query reads of it.
        written: what a query's text says for it.
        in_place: whether it says that in the place of the table's name; else behind it.
    """

    rows: LakeTable
    version: TableVersion
    written: str
    in_place: bool


def digest_of_view(sql: str) -> str:
    """What `TableVersion.view` says of a view."""
    return hashlib.sha256(sql.encode()).hexdigest()[:12]


@dataclass
class Versions:
    """The mirrored tables of a project as they are now, or at a cut; each is looked at once.

    Attributes:
        pins: those that are read at a cut.
    """

    catalogue: Catalogue
    lake: Lake
    ledger: Ledger
    pins: dict[str, PinnedTable] = field(default_factory=dict[str, PinnedTable])
    _behind: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    _tables: dict[str, LakeTable | None] = field(default_factory=dict[str, "LakeTable | None"])
    _versions: dict[str, TableVersion] = field(default_factory=dict[str, TableVersion])
    _moved: dict[tuple[str, str], MovedDays] = field(
        default_factory=dict[tuple[str, str], MovedDays]
    )
    _histories: dict[str, list[LakeSnapshot]] = field(default_factory=dict[str, list[LakeSnapshot]])
    _since: dict[tuple[str, str, int], list[date]] = field(
        default_factory=dict[tuple[str, str, int], list[date]]
    )

    def now(self, name: str) -> TableVersion:
        """The version of a mirrored table that a query reads. Clean as a view shows deduped.

        Raises:
            LakeError: the lake can't be read.
        """
        found = self._versions.get(name)
        if found is None:
            found = self._versions[name] = self._look(name)
        return found

    def remember(self, name: str, column: str) -> None:
        """A version is about to be read, by days of a column (empty: whole): its snapshot will be
        known when it has expired.

        Raises:
            LakeError, LedgerError
        """
        now = self.now(name)
        if not now.snapshot:
            return
        known = self._known(name, column)
        if now.snapshot not in known.heads:
            self._keep(name, replace(known, heads={**known.heads, now.snapshot: now.sequence}))

    def moved(self, one: ReadDays, was: str | None, *, sets_back: bool = False) -> str:
        """What changed of an input since a partition was computed from it, in a few words; empty
        where nothing did that the partition reads, and where it was computed from a later version
        than a cut's: a cut that is made later says whether that moved.

        Args:
            was: the text of the version that it was computed from.
            sets_back: whether it is to be of the cut even then.

        Raises:
            LakeError, LedgerError
        """
        before, now = TableVersion.parse(was or ""), self.now(one.table)
        moved = f"{one.table} moved"
        if before is None or before.table != now.table:
            return moved
        if before.view != now.view:
            return f"{one.table} is shown otherwise"
        if before.snapshot == now.snapshot:
            return ""
        if one.table in self.pins and before.sequence > now.sequence:
            return f"{one.table} was read at a later version" if sets_back else ""
        known = self._reaching(one.table, one.column or "", before)
        if known is None or known.anything > before.sequence:
            return moved
        days = self._moved_since(one.table, known, before.sequence)
        if not one.bounded:
            return moved if days or known.undated > before.sequence else ""
        hit = [day for day in days if _within(day, one.days)]
        if not hit:
            return ""
        more = f" and {len(hit) - 1:,} more days" if len(hit) > 1 else ""
        return f"{one.table} moved on {hit[0]}{more}"

    # --- tables -----------------------------------------------------------------------------------

    def _look(self, name: str) -> TableVersion:
        pin = self.pins.get(name)
        if pin is not None:
            self._tables[name] = pin.rows
            return pin.version
        mirrored = self.catalogue.table(name)
        assert mirrored is not None  # noqa: S101
        table, view = self.lake.load(mirrored.identifier), ""
        if table is None:
            shown = read_view(self.lake, mirrored.identifier)
            if shown is not None:
                view = digest_of_view(shown.sql)
            spaces = mirrored.contract.namespaces
            table = self.lake.load(Identifier(spaces.deduped, mirrored.contract.table))
        self._tables[name] = table
        if table is None:
            return NOWHERE
        head = table.current_snapshot()
        identity = str(table.metadata.table_uuid)
        if head is None:
            return TableVersion(identity, 0, 0, view)
        return TableVersion(identity, head.snapshot_id, head.sequence_number or 0, view)

    def _history(self, name: str) -> list[LakeSnapshot]:
        found = self._histories.get(name)
        if found is None:
            table, pin = self._tables[name], self.pins.get(name)
            at = pin.version.snapshot if pin is not None else None
            found = self._histories[name] = history(table, at) if table is not None else []
        return found

    # --- days -------------------------------------------------------------------------------------

    def _moved_since(self, name: str, known: MovedDays, sequence: int) -> list[date]:
        key = name, known.column, sequence
        found = self._since.get(key)
        if found is None:
            found = sorted(day for day, seq in known.days.items() if seq > sequence)
            self._since[key] = found
        return found

    def _reaching(self, name: str, column: str, before: TableVersion) -> MovedDays | None:
        """What is known of the days from a version on; None where history does not lead from it."""
        known = self._known(name, column)
        led = before.snapshot in known.heads or any(
            one.snapshot_id == before.snapshot for one in self._history(name)
        )
        if not led:
            return None
        if known.base > before.sequence:
            known = self._further_back(name, known, before.sequence)
        return known if known.base <= before.sequence else None

    def _known(self, name: str, column: str) -> MovedDays:
        """What is known of a table's days, up to its head."""
        found = self._moved.get((name, column))
        if found is not None:
            return found
        identity, commits = self.now(name).table, self._history(name)
        ids = [one.snapshot_id for one in commits]
        kept_as = f"{identity}{_OF_CUTS}" if name in self.pins else identity
        found = self.ledger.moved_days(kept_as, column)
        if kept_as != identity and (found is None or found.through not in ids):
            # The first cut since main was looked at: what is known up to there holds for both.
            of_main = self.ledger.moved_days(identity, column)
            if of_main is not None and of_main.through in ids:
                found = replace(of_main, lake_table=kept_as)
            elif found is not None and self._leads_to(name, found.through):
                self._behind.add((name, column))
        if found is not None and found.through in ids:
            new = commits[: ids.index(found.through)]
            if new:
                found = self._with(name, found, new)
                found = replace(found, through=ids[0])
        else:
            # Nobody looked, or main was set back: what it showed meanwhile is not what led here.
            head = commits[0]
            heads = {} if found is None else {s: q for s, q in found.heads.items() if s in ids}
            found = MovedDays(kept_as, column, _number(head), head.snapshot_id, heads=heads)
        self._keep(name, found)
        return found

    def _leads_to(self, name: str, later: int) -> bool:
        """Whether a snapshot came after the one that is read: the ledger knows more than that."""
        table = self._tables[name]
        assert table is not None  # noqa: S101
        read = self.now(name).snapshot
        return any(one.snapshot_id == read for one in history(table, later))

    def _further_back(self, name: str, known: MovedDays, sequence: int) -> MovedDays:
        """What is known, from an earlier commit on, as far as history goes."""
        earlier = [one for one in self._history(name) if _number(one) <= known.base]
        looked = [one for one in earlier if _number(one) > sequence]
        found = self._with(name, known, looked)
        rest = earlier[len(looked) :]
        if rest:
            found = replace(found, base=_number(rest[0]))
        elif looked:
            # What was before has expired: no commit has the number between.
            found = replace(found, base=_number(looked[-1]) - 1)
        self._keep(name, found)
        return found

    def _with(self, name: str, known: MovedDays, commits: Sequence[LakeSnapshot]) -> MovedDays:
        table = self._tables[name]
        assert table is not None  # noqa: S101
        days, anything, undated = dict(known.days), known.anything, known.undated
        for one in commits:
            number = _number(one)
            changed = None  # a table that began with these rows
            if one.parent_snapshot_id is not None:
                with self.lake.translated(name):
                    changed = changed_days(table, one, known.column)
            if changed is None:
                anything = max(anything, number)
                continue
            for day in changed:
                if day is None:
                    undated = max(undated, number)
                else:
                    days[day] = max(days.get(day, 0), number)
        return replace(known, days=days, anything=anything, undated=undated)

    def _keep(self, name: str, found: MovedDays) -> None:
        if self._moved.get((name, found.column)) != found:
            if (name, found.column) not in self._behind:
                self.ledger.record_moved_days(found)
            self._moved[name, found.column] = found
            self._since.clear()


def _number(commit: LakeSnapshot) -> int:
    return commit.sequence_number or 0


def _within(day: date, periods: Periods) -> bool:
    return any((lo is None or lo <= day) and (hi is None or day <= hi) for lo, hi in periods)
