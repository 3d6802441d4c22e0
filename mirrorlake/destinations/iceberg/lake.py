"""The lake: Iceberg tables behind the port that every destination has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from mirrorlake.destinations.base import (
    EVERY_ROW,
    Commit,
    Condition,
    Identifier,
    LocalFiles,
    TableStatistics,
)
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.commits import branches, commit
from mirrorlake.destinations.iceberg.reading import plain_files, stream


class Lake(Connection):
    """The lake that a config names; implements `mirrorlake.destinations.base.Destination`.

    Raises:
        LakeError: the warehouse can't be made or written, or the catalog can't be opened.
    """

    def head(self, identifier: Identifier) -> int | None:
        return commit.head_of(self, identifier)

    def commit(self, change: Commit, /) -> int | None:
        return commit.commit_load(self, change)

    def find_load(self, identifier: Identifier, load_id: str) -> int | None:
        found = commit.find_load(self, identifier, load_id)
        return found.snapshot_id if found is not None else None

    def delete_files(self, identifier: Identifier, paths: Sequence[str]) -> None:
        commit.delete_files(self, identifier, paths)

    def branches(self, identifier: Identifier) -> Mapping[str, int]:
        return branches.list_branches(self, identifier)

    def create_branch(self, identifier: Identifier, name: str, at: int | None) -> int:
        return branches.create_branch(self, identifier, name, at)

    def begin_branch(self, identifier: Identifier, name: str) -> int:
        return branches.begin_branch(self, identifier, name)

    def publish_branch(
        self, identifier: Identifier, name: str, expected: int | None, *, keep: bool = False
    ) -> int:
        return branches.publish_branch(self, identifier, name, expected, keep=keep)

    def replace_main(
        self,
        identifier: Identifier,
        name: str,
        expected: int | None,
        columns: Mapping[str, str] | None = None,
    ) -> int:
        return branches.replace_main(self, identifier, name, expected, columns or {})

    def roll_back(self, identifier: Identifier, to: int, expected: int) -> int:
        return branches.roll_back(self, identifier, to, expected)

    def set_forward(self, identifier: Identifier, to: int, expected: int) -> int:
        return branches.set_forward(self, identifier, to, expected)

    def drop_branch(self, identifier: Identifier, name: str) -> None:
        branches.drop_branch(self, identifier, name)

    def scan(
        self,
        identifier: Identifier,
        columns: Sequence[str],
        rows: Condition = EVERY_ROW,
        version: int | None = None,
    ) -> Iterator[pa.RecordBatch] | None:
        table = self.load(identifier)
        return stream.read_rows(self, table, columns, rows, version) if table is not None else None

    def local_files(
        self, identifier: Identifier, columns: Sequence[str], version: int
    ) -> LocalFiles | None:
        table = self.load(identifier)
        return plain_files.local_files(self, table, columns, version) if table is not None else None

    def statistics(
        self, identifier: Identifier, version: int | None = None
    ) -> TableStatistics | None:
        table = self.load(identifier)
        if table is None:
            return None
        found = table.current_snapshot() if version is None else table.snapshot_by_id(version)
        return commit.statistics_of(found) if found is not None else None
