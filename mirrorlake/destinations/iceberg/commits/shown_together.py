"""Versions of several lake tables that readers get to see at one moment.

Each is written on a branch first. Then main of all of them is moved in one step of the catalog: a
SQL database does it in one transaction, in which each table must still be named by the metadata
file that its new one was made from; a REST server by its commit to several tables, where it offers
one. Another catalog, or a server without, is given one table after the other, which is said.

A table that somebody else moved meanwhile is left out by name, with all versions of its group, and
the others go again: in one step all of them, or none.

What belongs here: that step. What doesn't: what is written on the branches
(`mirrorlake.merge.staging`), and what the ledger records of it.

Source: the Iceberg specification, "Optimistic Concurrency"; Iceberg REST catalog specification,
"commitTransaction".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import CommitTableRequest, Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from mirrorlake.destinations.base import MAIN, Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.catalog.sql import LakeCatalog, MetadataMove, TablesNamed
from mirrorlake.destinations.iceberg.commits.column_names import name_columns
from mirrorlake.destinations.iceberg.commits.commit import head_shown, remove_files
from mirrorlake.errors import CommitConflict, LakeError, MirrorlakeError
from mirrorlake.failpoints import failpoint

TRIES: Final = 3
"""How often a table is prepared whose metadata others change; then it is left out."""
_AT_ONCE: Final = 16
_SEVERAL: Final = Identifier("several", "tables")

ShownHow: TypeAlias = Literal["together", "one by one"]
"""Whether readers see several tables' new versions at one moment, or one after the other."""


@dataclass(frozen=True)
class StagedVersion:
    """A version of a lake table that is on a branch, and that main does not show yet.

    Attributes:
        branch: its name; it goes in the step that shows it.
        expected: main's head that the version is to replace; None: main is empty.
        columns: name → the column of the branch that takes it in that step.
    """

    identifier: Identifier
    branch: str
    expected: int | None
    columns: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class ShownVersions:
    """What became of versions that were to be shown.

    Attributes:
        how: the others, readers see.
        failed: the groups of which nothing is shown, unless its error is that this is not known.
    """

    how: ShownHow
    failed: Mapping[str, MirrorlakeError]


def shows_together(lake: Connection) -> bool:
    """Whether the catalog can show new versions of several tables at one moment."""
    catalog: Any = lake.catalog
    return catalog.commits_together if lake.is_rest else isinstance(catalog, LakeCatalog)


def show_together(
    lake: Connection,
    groups: Mapping[str, Sequence[StagedVersion]],
    check: Callable[[str], None] = lambda _: None,
) -> ShownVersions:
    """Have main show these versions, each group of them as a whole or not at all.

    Where the catalog shows one table after the other, a group may be shown in part if it fails: its
    error says so as any other's.

    Args:
        groups: by name, such as a mirrored table's deduped and clean. The caller has their leases.
        check: called with each group's name right before they are shown; one for which it raises
            is left out.
    """
    step = _Step(lake, dict(groups), check)
    if shows_together(lake):
        step.together()
        return ShownVersions("together", step.failed)
    step.one_by_one()
    return ShownVersions("one by one", step.failed)


@dataclass(frozen=True)
class _Prepared:
    """What shows one version: changes of its table, and main's head then."""

    version: StagedVersion
    table: Table
    head: int
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]


@dataclass
class _Step:
    lake: Connection
    left: dict[str, Sequence[StagedVersion]]
    check: Callable[[str], None]
    failed: dict[str, MirrorlakeError] = field(default_factory=dict[str, MirrorlakeError])

    def together(self) -> None:
        tries = 0
        while self.left:
            tries += 1
            try:
                missed = self._move(self._prepare())
            except LakeError as error:
                self._leave(dict.fromkeys(self.left, error))
                return
            if not missed:
                return
            # What still shows what it showed is prepared again, from its metadata as they are now.
            if tries >= TRIES:
                errors = (_moved(v.identifier) for n in missed for v in self.left[n][:1])
                self._leave(dict(zip(missed, errors, strict=True)))

    def one_by_one(self) -> None:
        for name, versions in list(self.left.items()):
            try:
                for version in versions:
                    one = _prepare(self.lake, version)
                    self.check(name)
                    with _committing(self.lake, [one]):
                        parts = (one.table, one.requirements, one.updates)
                        self.lake.catalog.commit_table(*parts)
                    failpoint("show.one")
            except MirrorlakeError as error:
                self._leave({name: error})

    def _leave(self, errors: Mapping[str, MirrorlakeError]) -> None:
        for name, error in errors.items():
            self.left.pop(name, None)
            self.failed[name] = error

    def _prepare(self) -> dict[str, list[_Prepared]]:
        """What shows each group that is left; those of which that can't be prepared are not."""
        found: dict[str, list[_Prepared]] = {}
        named = self.lake.tables_named()
        for name, versions in list(self.left.items()):
            try:
                found[name] = [_prepare(self.lake, version, named) for version in versions]
            except MirrorlakeError as error:
                self._leave({name: error})
        return found

    def _move(self, prepared: dict[str, list[_Prepared]]) -> list[str]:
        """Move main of all; the names of those groups that others had moved: then none was."""
        catalog: Any = self.lake.catalog
        if not self.lake.is_rest:
            return self._move_in_database(catalog, prepared)
        self._check()
        chosen = {name: prepared[name] for name in self.left}
        every = [one for ones in chosen.values() for one in ones]
        changes = [_request(one) for one in every]
        failpoint("show.before")
        try:
            with _committing(self.lake, every):
                if changes:
                    catalog.commit_together(changes)
        except CommitConflict:
            behind = [
                name
                for name, ones in chosen.items()
                if any(_is_behind(self.lake, one) for one in ones)
            ]
            return behind or [*chosen]
        failpoint("show.done")
        return []

    def _move_in_database(
        self, catalog: LakeCatalog, prepared: dict[str, list[_Prepared]]
    ) -> list[str]:
        moves = self._write(catalog, prepared)
        self._check()
        chosen = [move for name in self.left for move in moves[name]]
        every = [one for name in self.left for one in prepared[name]]
        failpoint("show.before")
        missed: list[MetadataMove] = []
        with _committing(self.lake, every):
            if chosen:
                missed = catalog.move_together(chosen)
        if missed:
            for name, ones in prepared.items():
                for one, move in zip(ones, moves.get(name, []), strict=False):
                    remove_files(one.table, [move.after] if move.after else [])
            return [name for name in self.left if not set(missed).isdisjoint(moves[name])]
        failpoint("show.done")
        return []

    def _write(
        self, catalog: LakeCatalog, prepared: dict[str, list[_Prepared]]
    ) -> dict[str, list[MetadataMove]]:
        """The metadata files of all, before any is named: each waits for its disk."""

        def write(name: str) -> list[MetadataMove]:
            found: list[MetadataMove] = []
            for one in prepared[name]:
                with self.lake.translated(one.version.identifier):
                    parts = (one.table, one.requirements, one.updates)
                    try:
                        found.append(catalog.stage_metadata(*parts))
                    except CommitFailedException as error:
                        raise _moved(one.version.identifier) from error
                failpoint("show.written")
            return found

        moves: dict[str, list[MetadataMove]] = {}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            running = {name: pool.submit(write, name) for name in prepared}
            for name, one in running.items():
                try:
                    moves[name] = one.result()
                except MirrorlakeError as error:
                    self._leave({name: error})
        return moves

    def _check(self) -> None:
        for name in list(self.left):
            try:
                self.check(name)
            except MirrorlakeError as error:
                self._leave({name: error})


def _prepare(
    lake: Connection, version: StagedVersion, named: TablesNamed | None = None
) -> _Prepared:
    """What shows a version, of its table as it is now, or as it was ``named``.

    Raises:
        CommitConflict: main shows something else than the version was made of.
        LakeError: the table, or the branch, is not there, or can't be read.
    """
    table = lake.load(version.identifier, named)
    if table is None:
        raise _moved(version.identifier)
    head = head_shown(table, version.branch)
    if head is None or head_shown(table) != version.expected:
        raise _moved(version.identifier)
    same: Any = (
        AssertTableUUID(uuid=table.metadata.table_uuid),
        AssertRefSnapshotId(ref=MAIN, snapshot_id=version.expected),  # type: ignore[call-arg]
        AssertRefSnapshotId(ref=version.branch, snapshot_id=head),  # type: ignore[call-arg]
    )
    gone: Any = RemoveSnapshotRefUpdate(ref_name=version.branch)  # type: ignore[call-arg]
    if not version.columns:
        given: dict[str, Any] = {"ref_name": MAIN, "type": SnapshotRefType.BRANCH}
        move = SetSnapshotRefUpdate(**given, snapshot_id=head)  # pyright: ignore[reportCallIssue]
        return _Prepared(version, table, head, same, (move, gone))
    with lake.translated(version.identifier):
        transaction = table.transaction()
        head = name_columns(transaction, table, version.branch, version.columns)
    return _Prepared(version, table, head, same, (*transaction._updates, gone))  # pyright: ignore[reportPrivateUsage]


@contextmanager
def _committing(lake: Connection, every: Sequence[_Prepared]) -> Iterator[None]:
    """The step that shows these. Where the catalog does not say what became of it, they are looked
    at: all are shown, or none."""
    first = every[0].version.identifier if len(every) == 1 else _SEVERAL
    with lake.committing(
        first,
        lambda: bool(every) and all(_is_shown(lake, one) for one in every),
        lambda: _moved(first),
    ):
        yield


def _is_shown(lake: Connection, one: _Prepared) -> bool:
    table = lake.load(one.version.identifier)
    return table is not None and head_shown(table) == one.head


def _is_behind(lake: Connection, one: _Prepared) -> bool:
    """Whether somebody changed a table since its step was prepared."""
    table = lake.load(one.version.identifier)
    return table is None or table.metadata_location != one.table.metadata_location


def _request(one: _Prepared) -> CommitTableRequest:
    namespace, name = one.version.identifier.path
    whose: Any = {"namespace": (namespace,), "name": name}
    return CommitTableRequest(identifier=whose, requirements=one.requirements, updates=one.updates)


def _moved(identifier: Identifier) -> CommitConflict:
    what = "lake tables were" if identifier == _SEVERAL else f"lake table {identifier} was"
    return CommitConflict(
        f"{what} moved by another writer before its new version was shown",
        table=str(identifier),
        next_step="Nothing of it is visible: sync again",
        retryable=True,
    )
